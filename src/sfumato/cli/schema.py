"""`sfumato schema`: guess what the columns of a file mean, for a person to correct."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sfumato import formats
from sfumato.cli.console import quoted
from sfumato.cli.files import load_guessed, reading_options, refuse_absent, refuse_existing
from sfumato.cli.options import OutputOptions, Read, expand_options, output_option, reading_option
from sfumato.schema import Role, Schema


@expand_options
def schema(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A data file: CSV, Parquet, Arrow, Stata, SPSS, SAS or Excel.")
    ],
    out: Annotated[Path | None, output_option(help="Write the schema to this TOML file.")] = None,
    codebook: Annotated[
        Path | None,
        reading_option(
            help="A DDI-Codebook (.xml): its labels, categories and missing codes are taken, and only roles are guessed."
        ),
    ] = None,
    read: Read = None,
    *,
    output: OutputOptions,
) -> None:
    """Guess what the columns mean: the first step with a file of yours.

    Every guess comes with its reason. Write them to a file with --out, correct that file in an editor, and give it to the
    other commands with --schema.
    """
    screen = output.screen()
    if out is not None:
        refuse_existing(out, output.replace, "the schema")
    data = load_guessed(file, read)
    if codebook is not None:
        data = data.with_schema(_described(codebook, data.schema))
    rows = [(a.name, a.role.value, a.scale.value, a.reason) for a in data.schema]
    size = f"{len(data):,} record{'s' * (len(data) != 1)}, {len(rows):,} column{'s' * (len(rows) != 1)}"
    screen.say(f"{size}. These are guesses; you know the data.")
    screen.say()
    screen.table(("column", "role", "scale", "reason"), rows)
    screen.say()
    if out is not None:
        replace(data.schema, reading=reading_options(read)).write(out)
        screen.say(
            f"Wrote {out}. Correct it in an editor, and give it to the other commands with --schema {quoted(out)}."
        )
    else:
        screen.say(
            f"To correct them: sfumato schema {quoted(file)} --out schema.toml, then edit schema.toml "
            '(role = "key", "confidential", "identifier", "other", ...), then use --schema schema.toml.'
        )
    columns = [a.to_dict() for a in data.schema]
    screen.answer({"file": file, "records": len(data), "columns": columns, "written": out})


def _described(codebook: Path, guessed: Schema) -> Schema:
    """Return what a codebook says of the columns; what it cannot say, the role of most, is as it was guessed."""
    refuse_absent(codebook)
    said, _ = formats.read_ddi(codebook, guessed.names)
    return Schema(tuple(
        a.with_(role=guessed[a.name].role, reason=guessed[a.name].reason)
        if a.role is Role.OTHER and a.name in guessed
        else a
        for a in said
    ))  # fmt: skip
