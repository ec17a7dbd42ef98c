"""`sfumato utility`: what an analyst keeps in a masked file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sfumato.cli.drawing import check_chart, save_chart
from sfumato.cli.given import estimator, no_such_utility, utility_measure
from sfumato.cli.handling import Misuse
from sfumato.cli.listing import show_measures, utility_measures
from sfumato.cli.load import load_like, load_release
from sfumato.cli.options import OUTPUT, HoldoutFile, Json, Read, ReadMasked, Replace, SchemaFile, Weighted
from sfumato.cli.screen import Screen
from sfumato.cli.utility_page import EXPLAINED, show_estimates, show_measured, show_summary
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release


def utility_names(incomplete: str) -> list[str]:
    """Complete the name of a utility measure."""
    return [name for name in utility_measures() if name.startswith(incomplete)]


def utility(
    original: Annotated[
        Path | None,
        typer.Argument(metavar="ORIGINAL", help="The confidential file, before masking.", show_default=False),
    ] = None,
    masked: Annotated[
        Path | None, typer.Argument(metavar="MASKED", help="The masked file.", show_default=False)
    ] = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            help="What an analyst computes: a column (its mean), 'income - salary' (of means), or a regression "
            "'salary ~ age', with the coefficient after a semicolon if there are several: "
            "'salary ~ age + C(region); age'. May be repeated.",
            show_default=False,
        ),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            help="A measure of the whole file by name, with its parameters after semicolons: granularity, or "
            "'hellinger; over=age,sex'. --list shows all. May be repeated.",
            autocompletion=utility_names,
            show_default=False,
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="Show every measure in a line, or with --measure that one's parameters, and stop."),
    ] = False,
    target: Annotated[
        Literal["file", "population"], typer.Option(help="What the estimate is held against: the original file's own.")
    ] = "file",
    weighted: Weighted = False,
    align: Annotated[
        str | None,
        typer.Option(
            metavar="rows|COLUMN",
            help="Which masked record is whose. Measures that compare record by record need it; the others do not.",
        ),
    ] = None,
    holdout: HoldoutFile = None,
    schema: SchemaFile = None,
    read: Read = None,
    read_masked: ReadMasked = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Also tell each measure and estimate for every subgroup by this column.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the page of before and after (.svg or .png).", rich_help_panel=OUTPUT)
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Tell what masking changed: statistics, distributions, tables and correlations, before and after.

    With --measure or --estimator: how much of the whole is kept, or how far an analyst's estimates from the masked file are
    from those of the original.
    """
    screen = Screen(as_json)
    if list_:
        show_measures(screen, _only(measures), "utility", "granularity")
        return
    if original is None or masked is None:
        raise Misuse("two files are needed: the original, then the masked one.")
    if target != "file":
        raise ParameterError(
            "one masked file only tells how far its estimates are from the original file's (--target file). How far they "
            "are from the population's takes many maskings of many samples: sfumato map."
        )
    check_chart(chart, replace)
    if by is not None and not (measures or estimators):
        raise Misuse("--by tells a measure or an estimate for each subgroup: name one with --measure or --estimator.")
    named = [utility_measure(text, weighted) for text in measures or ()]
    _check_aligned(named, align)
    release = load_release(screen, original, masked, schema, (read, read_masked), align)
    if by is not None:
        release.original.kind(by)  # refuses an unknown name before anything takes long
    if holdout is not None:
        from sfumato.contract import Holdout

        release = release.with_holdout(Holdout.of(load_like(release.original, holdout)))
    if chart is not None or not (named or estimators):
        answer = _before_and_after(screen, release, weighted, chart, shown=not (named or estimators))
        if not (named or estimators):
            screen.answer(answer)
            return
    measured = show_measured(screen, release, named, by)
    asked = [estimator(text, release.original.schema.names(), weighted) for text in estimators or ()]
    screen.answer(
        {
            "target": "file",
            "means": EXPLAINED,
            "records": {"original": len(release.original), "masked": len(release.masked)},
            "estimates": show_estimates(screen, release, asked, by),
            "measures": measured,
        }
    )


def _only(measures: list[str] | None) -> str | None:
    """Return the name of the one measure whose parameters are asked for."""
    names = [text.partition(";")[0].strip() for text in measures or ()]
    if len(names) > 1:
        raise Misuse("--list shows one measure, or all: give --measure once.")
    if names and names[0] not in utility_measures():
        raise ParameterError(no_such_utility(names[0]))
    return names[0] if names else None


def _check_aligned(named: list[Measure], align: str | None) -> None:
    from sfumato.contract import Need

    if align is None and (paired := [m.name for m in named if Need.ALIGNMENT in m.needs]):
        raise Misuse(f"{paired[0]} compares record by record: say with --align which masked record is whose.")


def _before_and_after(
    screen: Screen, release: Release, weighted: bool, chart: Path | None, shown: bool
) -> dict[str, object]:
    from sfumato.utility import release_summary

    with screen.progress() as tell:
        tell("Comparing", 0, 0)
        summary = release_summary(release, weighted=weighted)
        if chart is not None:
            tell("Drawing", 0, 0)
            save_chart(summary.chart(), chart)
    return show_summary(screen, summary) if shown else {}
