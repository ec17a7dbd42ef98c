"""`sfumato table`: make a table from records, protect it, and write what may be published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.drawing import check_chart, check_report, save_chart
from sfumato.cli.given import number, settings
from sfumato.cli.handling import Misuse
from sfumato.cli.listing import show_tables
from sfumato.cli.load import load, refuse_existing
from sfumato.cli.options import METHOD, OUTPUT, Json, PerSize, Read, Replace, SchemaFile
from sfumato.cli.screen import Screen
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.contract import Draws
    from sfumato.tables import Protection, PublishedTable, Table

TABLE = "The table"


def protection_names(incomplete: str) -> list[str]:
    """Complete the name of a protection."""
    from sfumato.contract import registered

    return [name for name in registered("protection") if name.startswith(incomplete)]


def table(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The confidential file of records.", show_default=False)
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            help="Which cells: 'region * sector' with all margins, 'region * sector + group * sector' for linked tables.",
            show_default=False,
            rich_help_panel=TABLE,
        ),
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option(
            help="The column to sum; without it records are counted.", show_default=False, rich_help_panel=TABLE
        ),
    ] = None,
    contributor: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Who contributed a record. The schema's contributor, else every record for itself, if not given.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A public measure of the contributors' size, for random adjustment.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    per_size: PerSize = None,
    count: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="For counts: for how many a row of the file stands.", rich_help_panel=TABLE
        ),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option("--empty", help="Combinations that could occur and do not are cells too.", rich_help_panel=TABLE),
    ] = False,
    leave_out: Annotated[
        bool,
        typer.Option(
            "--leave-out-missing", help="Leave out records without a value of the variable.", rich_help_panel=TABLE
        ),
    ] = False,
    decimals: Annotated[
        int | None, typer.Option(help="Digits after the point that are published.", rich_help_panel=TABLE)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="How to protect it: suppression, rta, controlled_rounding, cell_key, ... `--list` shows all.",
            autocompletion=protection_names,
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Which cells are unsafe: 'p% 10', 'nk 2 85', 'minimum 3'. May be repeated: one is enough to be unsafe.",
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method: base=5, prior_cv=0.5. May be repeated.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Show every method and rule, or with --method NAME or --rule NAME that one's parameters, and stop.",
            rich_help_panel=METHOD,
        ),
    ] = False,
    schema: SchemaFile = None,
    read: Read = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where what may be published goes (.csv, .xlsx, .json, ...).", rich_help_panel=OUTPUT),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            help="csv, xlsx, json-stat, sdmx-csv, ...; from the name of the file if not given.", rich_help_panel=OUTPUT
        ),
    ] = None,
    seed_file: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the secret seed of a random method. Whoever has it can undo the protection.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    seed_from: Annotated[
        Path | None,
        typer.Option(
            help="Use the seed in this file: for the same table again, and for other tables of the same data.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report for the review board (.html or .pdf): confidential.", rich_help_panel=OUTPUT),
    ] = None,
    publishable: Annotated[
        bool,
        typer.Option("--publishable", help="Make the report and the chart for the public.", rich_help_panel=OUTPUT),
    ] = False,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw what happened to each cell (.svg or .png): confidential.", rich_help_panel=OUTPUT),
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Make a table, or linked tables, from records; protect it; write what may be published.

    What cannot be protected as asked is refused, with the reason. The original values stay where they are.
    """
    screen = Screen(as_json)
    if list_:
        show_tables(screen, method, None if not rule else rule[0])
        return
    if file is None:
        raise Misuse("the name of the file to tabulate is missing. To see the methods: sfumato table --list")
    if formula is None:
        raise Misuse("--formula is missing: which cells, such as --formula 'region * sector'.")
    if method is None:
        raise Misuse("--method is missing: how to protect the table, such as --method suppression. --list shows all.")
    if out is None:
        raise Misuse("--out is missing: the file that gets what may be published.")
    chosen = _protection(method, rule, set_)
    _check_files(file, out, form, report, chart, replace)
    draws, secret = _seed(chosen, out, seed_file, seed_from, replace)
    data = load(screen, file, schema, read)
    from sfumato.tables import Table

    with screen.progress() as tell:
        tell(f"Tabulating {file.name}", 0, 0)
        made = Table.of(
            data, formula, variable, contributor=contributor, count=count, size=size,
            per_size=None if per_size is None else number(per_size), empty=empty,
            missing="leave out" if leave_out else "refuse", decimals=decimals,
        )  # fmt: skip
        tell("Protecting the table", 0, 0)
        published = chosen.protect(made, draws)
        _write(published, out, form)
        if secret is not None and seed_from is None:
            draws.write(secret)
        _extras(published, report, chart, publishable, tell)
    _show(screen, made, published, chosen, out, secret, report, chart)


def _protection(method: str, rule: list[str] | None, given: list[str] | None) -> Protection:
    """Return the method with its parameters and rules."""
    from sfumato.contract import find
    from sfumato.tables import rules_of

    cls: Any = find("protection", method)
    fields = settings(cls, given or ())
    if rule:
        if "rules" not in cls.parameters():
            raise Misuse(
                f"{method} protects every contributor by its own parameters and takes no --rule. Use --set; --list shows them."
            )
        fields["rules"] = rules_of(list(rule))
    elif "rules" in cls.parameters() and "rules" not in fields and not _optional(cls, "rules"):
        raise Misuse(
            f"{method} needs to know which cells are unsafe: --rule 'p% 10', --rule 'minimum 3'. --list shows the rules."
        )
    made: Protection = cls.from_dict(fields)
    return made


def _optional(cls: Any, name: str) -> bool:
    """Whether a parameter need not be given."""
    import dataclasses

    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _check_files(
    file: Path, out: Path, form: str | None, report: Path | None, chart: Path | None, replace: bool
) -> None:
    """Refuse, before any work is done, what cannot be written."""
    from sfumato.tables.exports.write import form_of

    refuse_existing(out, replace, "the table")
    if out.resolve() == file.resolve():
        raise DataError("--out names the original; choose another file for what may be published.")
    form_of(out, form)
    check_report(report, replace)
    check_chart(chart, replace)
    named = [p.resolve() for p in (out, report, chart) if p is not None]
    if len(set(named)) < len(named):
        raise Misuse("--out, --report and --chart name the same file twice.")


def _seed(
    chosen: Protection, out: Path, seed_file: Path | None, seed_from: Path | None, replace: bool
) -> tuple[Draws, Path | None]:
    """Return the randomness, and where its seed is kept; a method without randomness needs none."""
    from sfumato.contract import Draws

    if seed_file is not None and seed_from is not None:
        raise Misuse("give --seed-file for a new seed, or --seed-from for one that is kept already, not both.")
    if not chosen.random:
        return Draws("no randomness"), None
    if seed_from is not None:
        return Draws.read(seed_from), seed_from
    if seed_file is None:
        raise Misuse(
            f"{chosen.name} is random: say with --seed-file where to keep its secret seed. (Or --seed-from, to use a seed again: "
            "all tables of the same data should have the same one.)"
        )
    if seed_file.resolve() == out.resolve():
        raise DataError("the seed must be kept apart from what is published: choose another file for it.")
    if seed_file.exists() and not replace:
        raise DataError(
            f"{seed_file} is there already, and a new seed would take the place of an old one. To use that seed again, as for "
            f"another table of the same data: --seed-from {seed_file}. To make a new one: another name, or --replace."
        )
    return Draws.secret(), seed_file


def _write(published: PublishedTable, out: Path, form: str | None) -> None:
    from sfumato.tables.exports import write_table

    write_table(published, out, form=form)


def _extras(published: PublishedTable, report: Path | None, chart: Path | None, publishable: bool, tell: Any) -> None:
    """Write the report and the chart."""
    if chart is not None:
        from sfumato.tables.pictures import heatmap

        tell("Drawing", 0, 0)
        save_chart(heatmap(published, public=publishable), chart)
    if report is not None:
        from sfumato.reports import table_report

        tell("Writing the report", 0, 0)
        what = published.variable or "counts"
        table_report(published, title=f"Table of {what}", publishable=publishable).write(report, json=True)


def _show(
    screen: Screen, made: Table, published: PublishedTable, chosen: Protection, out: Path, secret: Path | None,
    report: Path | None, chart: Path | None,
) -> None:  # fmt: skip
    from sfumato.tables import Status

    names = ((Status.SHOWN, "shown as they are"), (Status.CHANGED, "changed"), (Status.PRIMARY, "not published: unsafe"),
             (Status.SECONDARY, "not published: others could be worked out"))  # fmt: skip
    counts = {words: int((published.status == status).sum()) for status, words in names}
    who = "" if made.contributions is None else f", {len(made.contributions):,} contributors"
    screen.say(f"A table of {len(made):,} cells{who}, protected by {chosen.label()}.", strong=True)
    screen.say()
    screen.table(("cells", "number"), [(words, n) for words, n in counts.items() if n], (1,))
    screen.say()
    if published.guarantees:
        screen.table(("what holds", "how that is known"), [(g.says, g.verified) for g in published.guarantees])
        screen.say()
    confidential = (
        " How many cells were unsafe stands above, and is not for the public." if published.suppressed.any() else ""
    )
    screen.say(f"Wrote {out}.{confidential}")
    if report is not None or chart is not None:
        screen.say(f"Wrote {', '.join(str(p) for p in (report, chart) if p is not None)}.")
    if secret is not None:
        screen.say(
            f"The seed is in {secret}. Never publish it; use it (--seed-from {secret}) for all tables of these data, so that "
            "nobody can average the noise away."
        )
    screen.answer({
        "cells": len(made), "contributors": None if made.contributions is None else len(made.contributions),
        "protection": chosen.name, "counts": counts, "out": out, "seed_file": secret, "report": report, "chart": chart,
        "guarantees": [{"says": g.says, "verified": g.verified} for g in published.guarantees],
    })  # fmt: skip
