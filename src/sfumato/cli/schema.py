"""`sfumato schema`: guess what the columns of a file mean, for a person to correct."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.load import load_guessed, refuse_existing
from sfumato.cli.options import OUTPUT, Json, Read, Replace
from sfumato.cli.screen import Screen


def schema(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A data file: CSV, Parquet, Arrow, Stata, SPSS, SAS or Excel.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the schema to this TOML file.", rich_help_panel=OUTPUT)
    ] = None,
    read: Read = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Guess what the columns mean: the first step with a file of yours.

    Every guess comes with its reason. Write them to a file with --out, correct that file in an editor, and give it to the
    other commands with --schema.
    """
    screen = Screen(as_json)
    if out is not None:
        refuse_existing(out, replace, "the schema")
    data = load_guessed(file, read)
    rows = [(a.name, a.role.value, a.scale.value, a.reason) for a in data.schema]
    size = f"{len(data):,} record{'s' * (len(data) != 1)}, {len(rows):,} column{'s' * (len(rows) != 1)}"
    screen.say(f"{size}. These are guesses; you know the data.")
    screen.say()
    screen.table(("column", "role", "scale", "reason"), rows)
    screen.say()
    if out is not None:
        data.schema.write(out)
        screen.say(f"Wrote {out}. Correct it in an editor, and give it to the other commands with --schema {out}.")
    else:
        screen.say(
            f"To correct them: sfumato schema {file} --out schema.toml, then edit schema.toml "
            '(role = "key", "confidential", "identifier", "other", ...), then use --schema schema.toml.'
        )
    columns = [a.to_dict() for a in data.schema]
    screen.answer({"file": file, "records": len(data), "columns": columns, "written": out})
