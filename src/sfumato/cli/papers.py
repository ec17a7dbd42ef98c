"""`sfumato papers`: what the papers behind sfumato say, and what implements it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sfumato.cli.console import Screen
from sfumato.cli.listing import completion
from sfumato.cli.options import Json
from sfumato.errors import ParameterError, unknown_name
from sfumato.papers.paper_rows import ORDER
from sfumato.papers.paper_rows import papers as read_papers


def papers(
    paper: Annotated[
        str | None,
        typer.Option(
            help="One paper: ru_map, matrix_masking, rta, mas or global_risk.", autocompletion=completion(lambda: ORDER)
        ),
    ] = None,
    status: Annotated[
        Literal["built", "planned", "remark"] | None, typer.Option(help="Only rows of this status.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the five papers behind sfumato state, row by row, and what implements and tests it."""
    screen = Screen(as_json)
    known = {p.key: p for p in read_papers()}
    if paper is not None and paper not in known:
        raise ParameterError(unknown_name("paper", paper, known, "the list of papers"))
    chosen = [known[paper]] if paper else list(known.values())
    rows = [row for p in chosen for row in p.rows if status in (None, row.status)]
    for p in chosen:
        year = "" if p.year is None else f", {p.year}"
        screen.say(f"{p.key}: {p.title} ({p.authors}{year}). {p.status_counts[0].upper()}{p.status_counts[1:]}.")
    screen.say()
    screen.table(
        ("id", "where", "what it says", "status", "function"),
        [(r.id, r.where, r.says, r.status, r.by or "") for r in rows],
    )
    screen.answer(
        {
            "papers": [
                {"key": p.key, "title": p.title, "authors": p.authors, "year": p.year, "rows": len(p.rows), "built": p.built}
                for p in chosen
            ],
            "rows": [
                {
                    "id": r.id, "paper": r.paper, "where": r.where, "kind": r.kind, "says": r.says, "erratum": r.erratum,
                    "status": r.status, "by": r.by, "tests": r.tests,
                }
                for r in rows
            ],
        }
    )  # fmt: skip
