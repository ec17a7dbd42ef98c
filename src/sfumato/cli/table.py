"""`sfumato table`: make a table from records, or take one that exists; protect it, and write what may be published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.drawing import check_chart, check_report, save_chart
from sfumato.cli.handling import Misuse
from sfumato.cli.listing import show_tables
from sfumato.cli.load import refuse_existing
from sfumato.cli.options import METHOD, OUTPUT, Json, Replace
from sfumato.cli.protections import protection_of, with_wishes
from sfumato.cli.screen import Screen
from sfumato.cli.table_batch import is_batch, run_batch
from sfumato.cli.table_options import APrioriFile, Rule, protection_names, taking
from sfumato.cli.table_secrets import Secrets
from sfumato.cli.table_source import Source
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.tables import Protection, PublishedTable, Table


@taking(Source)
def table(
    source: Source,
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
    rule: Rule = None,
    a_priori: APrioriFile = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method: base=5, prior_cv=0.5, table=ptable.txt. May be repeated.",
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
    record_file: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the record of a random adjustment for later tables: it holds true values.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    record_from: Annotated[
        Path | None,
        typer.Option(
            help="The record of a table of these data that is published already: this one will agree with it.",
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
    """Make a table, or linked tables, from records or from cells; protect it; write what may be published.

    Records become a table by --formula; a table that exists already is read with --dimensions, or as a .tab file of τ-ARGUS;
    a batch file of it (.arb) is run. What cannot be protected as asked is refused, with the reason. The original values stay
    where they are.
    """
    screen = Screen(as_json)
    if list_:
        show_tables(screen, method, None if not rule else rule[0])
        return
    files = source.files or []
    if is_batch(files):
        others = (method, rule, set_, a_priori, out, record_file, record_from, report)
        more = source != Source(files) or any(o is not None for o in others)
        run_batch(screen, files, more, seed_file, seed_from, replace)
        return
    source.check()
    if method is None:
        raise Misuse("--method is missing: how to protect the table, such as --method suppression. --list shows all.")
    if out is None:
        raise Misuse("--out is missing: the file that gets what may be published.")
    chosen = protection_of(method, set_ or (), rule, marked=a_priori is not None or source.argus)
    _check_files([*files, source.schema, a_priori], out, form, report, chart, replace)
    taken = [p for p in (*files, source.schema, a_priori, report, chart, seed_from, record_from) if p is not None]
    secrets = Secrets.of(chosen, out, seed_file, seed_from, record_file, record_from, replace, taken)
    with screen.progress() as tell:
        tell("Reading the table", 0, 0)
        made, given = source.table(screen)
        chosen = with_wishes(screen, chosen, source.wanted(made, given, a_priori), asked=a_priori is not None)
        tell("Protecting the table", 0, 0)
        published = secrets.protect(chosen, made)
        published.write(out, form, secrets=secrets.texts(published))
        _extras(published, report, chart, publishable, tell)
    _show(screen, made, published, chosen, out, secrets, report, chart)


def _check_files(
    inputs: list[Path | None], out: Path, form: str | None, report: Path | None, chart: Path | None, replace: bool
) -> None:
    """Refuse, before any work is done, what cannot be written."""
    from sfumato.tables.exports.write import form_of

    refuse_existing(out, replace, "the table")
    taken = {p.resolve() for p in inputs if p is not None}
    for option, path in (("--out", out), ("--report", report), ("--chart", chart)):
        if path is not None and path.resolve() in taken:
            raise DataError(f"{option} names the original; choose another file for what may be published.")
    form_of(out, form)
    check_report(report, replace)
    check_chart(chart, replace)
    named = [p.resolve() for p in (out, report, chart) if p is not None]
    if len(set(named)) < len(named):
        raise Misuse("--out, --report and --chart name the same file twice.")


def _extras(published: PublishedTable, report: Path | None, chart: Path | None, publishable: bool, tell: Any) -> None:
    """Write the report and the chart."""
    if chart is not None:
        from sfumato.tables.pictures import heatmap

        tell("Drawing", 0, 0)
        save_chart(heatmap(published, public=publishable), chart, confidential=not publishable)
    if report is not None:
        from sfumato.reports import table_report

        tell("Writing the report", 0, 0)
        what = published.variable or "counts"
        table_report(published, title=f"Table of {what}", publishable=publishable).write(report, json=True)


def _show(
    screen: Screen, made: Table, published: PublishedTable, chosen: Protection, out: Path, secrets: Secrets,
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
    for line in secrets.words(published):
        screen.say(line)
    screen.answer({
        "cells": len(made), "contributors": None if made.contributions is None else len(made.contributions),
        "protection": chosen.name, "counts": counts, "out": out, "seed_file": secrets.seed, "record_file": secrets.record_file,
        "report": report, "chart": chart,
        "guarantees": [{"says": g.says, "verified": g.verified} for g in published.guarantees],
    })  # fmt: skip
