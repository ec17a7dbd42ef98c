"""`sfumato risk`: what a snooper could learn from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.drawing import check_chart, save_chart
from sfumato.cli.given import settings
from sfumato.cli.handling import Misuse
from sfumato.cli.listing import risk_measures, show_measures
from sfumato.cli.load import load, load_like, load_population, load_release
from sfumato.cli.options import (
    OUTPUT,
    Coverage,
    Engine,
    Errors,
    HoldoutFile,
    Json,
    Keys,
    Knows,
    MatchProbability,
    Population,
    PopulationCount,
    Precision,
    Published,
    Read,
    ReadMasked,
    Replace,
    SchemaFile,
    Strategy,
    measure_names,
    snooper_of,
)
from sfumato.cli.risk_columns import show_columns
from sfumato.cli.risk_page import show_page, show_scores
from sfumato.cli.screen import Screen
from sfumato.errors import ParameterError, unknown_name

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release


def risk(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="The file that would be released; the original, if a second is given.",
            show_default=False,
        ),
    ] = None,
    masked: Annotated[
        Path | None, typer.Argument(metavar="[MASKED]", help="What was made of it.", show_default=False)
    ] = None,
    align: Annotated[
        str | None,
        typer.Option(
            metavar="rows|COLUMN",
            help="Which masked record is whose: rows, if both files list the same records in the same order, "
            "or a column of both files that is unique. Without it, only measures of the masked file alone apply.",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(help="Records that fewer than this many match are counted; 3 if not given.", min=2),
    ] = None,
    missing: Annotated[
        Literal["wildcard", "value", "ignored"] | None,
        typer.Option(
            help="What a missing key means: it matches anything (wildcard, if not given), is a value of its own, or its record "
            "is left out."
        ),
    ] = None,
    fraction: Annotated[
        float | None,
        typer.Option(help="Share of the population that is in the file; from the survey weights if not given.", max=1),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="One measure instead of the page; --list shows all.", autocompletion=measure_names),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="What the snooper wants to know, for measures that look at one column (attribute_risk if no other is named). "
            "May be repeated."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the measure, such as k=5. May be repeated."),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="Show every measure in a line, or with --measure that one's parameters, and stop."),
    ] = False,
    keys: Keys = None,
    precision: Precision = None,
    population: Population = None,
    population_count: PopulationCount = None,
    coverage: Coverage = 1.0,
    errors: Errors = 0.0,
    strategy: Strategy = None,
    match_probability: MatchProbability = 1.0,
    knows: Knows = None,
    published: Published = False,
    holdout: HoldoutFile = None,
    schema: SchemaFile = None,
    read: Read = None,
    read_masked: ReadMasked = None,
    engine: Engine = "memory",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Also tell the risk of each subgroup by this column.", rich_help_panel=OUTPUT
        ),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="Draw the risk profile (.svg or .png).", rich_help_panel=OUTPUT)
    ] = None,
    riskiest: Annotated[
        int,
        typer.Option(
            help="List so many of the riskiest records by row number: for the custodian's eyes only.",
            min=0,
            rich_help_panel=OUTPUT,
        ),
    ] = 0,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Tell how much a snooper could learn from a file: the verdict first, then every measure that applies.

    With one file, the file is looked at as it is. With two, the second was made of the first by masking.
    """
    screen = Screen(as_json)
    if list_:
        show_measures(screen, None if measure is None else _class(measure).name)
        return
    if file is None:
        raise Misuse("a file is needed: the one that would be released, or the original and then the masked one.")
    check_chart(chart, replace)
    cls = _class(measure) if measure else _class("attribute_risk") if column else None
    facts = {} if cls is None else settings(cls, set_ or ())
    if cls is None and set_:
        raise Misuse("--set is for the parameters of one measure: name it with --measure.")
    if cls is not None:
        facts = _with_options(cls, facts, {"k": k, "missing": missing, "fraction": fraction})
        if given := [n for n, option in (("--by", by), ("--chart", chart), ("--riskiest", riskiest)) if option]:
            raise Misuse(f"{given[0]} is for the page of all measures: leave --measure and --column out.")
    if cls is not None and "column" in cls.parameters():
        cls.from_dict({"column": "-", **facts})  # refuses a wrong parameter before the files are read
    known = snooper_of(strategy, match_probability, knows, published, keys, precision, coverage=coverage, errors=errors)
    release = _release(screen, file, masked, align, schema, (read, read_masked), engine)
    if population is not None:
        known = known.learn(population=load_population(screen, release.original, population, population_count))
    elif population_count is not None:
        raise Misuse("--population-count names a column of the population's table: give that with --population.")
    if holdout is not None:
        from sfumato.contract import Holdout

        release = release.with_holdout(Holdout.of(load_like(release.original, holdout)))
    if cls is not None and cls.name in ("attribute_risk", "coded_value_risk") and "column" not in facts:
        show_columns(screen, release, cls, facts, column or [], known)
        return
    if cls is not None:
        show_scores(screen, release, known, _measures(cls, facts, column, release))
        return
    from sfumato.risk.profile import risk_profile

    if by is not None:
        release.masked.kind(by)  # refuses an unknown name before anything takes long
    if riskiest:
        release.check_aligned("the list of the riskiest records")
    with screen.progress() as tell:
        profile = risk_profile(
            release, known, k=k or 3, missing=missing or "wildcard", fraction=fraction, progress=tell
        )
        if chart is not None:
            tell("Drawing", 0, 0)
            save_chart(profile.chart(), chart)
    show_page(screen, profile, riskiest, by)


def _release(
    screen: Screen,
    file: Path,
    masked: Path | None,
    align: str | None,
    schema: Path | None,
    read: tuple[list[str] | None, list[str] | None],
    engine: str,
) -> Release:
    from sfumato.contract import Release

    if masked is not None and engine != "memory":
        raise Misuse("--engine duckdb is for one file: a masked file is compared with its original in memory.")
    if masked is not None:
        return load_release(screen, file, masked, schema, read, align)
    if align is not None:
        raise Misuse(
            "--align says which masked record is whose, so it needs two files: the original, then the masked one."
        )
    return Release.as_it_is(load(screen, file, schema, read[0], engine))


def _class(name: str) -> type[Measure]:
    known = risk_measures()
    if name not in known:
        raise ParameterError(unknown_name("measure", name, known, "the list of risk measures"))
    return known[name]


def _with_options(cls: type[Measure], facts: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return a measure's parameters with those that have an option of their own; refuse one that it does not have."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in cls.parameters():
            raise Misuse(f"{cls.name} has no parameter {name}, so --{name} would change nothing.")
        if name in facts:
            raise Misuse(f"give --{name} or --set {name}=..., not both.")
    return {**facts, **given}


def _measures(cls: type[Measure], facts: dict[str, Any], columns: list[str] | None, release: Release) -> list[Measure]:
    """Return the measure, or where it looks at one column, one for each that is named: all confidential ones if none is."""
    if "column" in cls.parameters() and "column" not in facts:
        names = columns or release.original.schema.names(role="confidential")
        if not names:
            raise Misuse(f"{cls.name} looks at one column: name it with --column.")
        return [cls.from_dict({**facts, "column": name}) for name in names]
    if not columns:
        return [cls.from_dict(facts)]
    named = [name for name in ("columns", "over") if name in cls.parameters()]
    if not named:
        raise Misuse(f"{cls.name} does not look at single columns, so --column would change nothing.")
    return [cls.from_dict({**facts, named[0]: tuple(columns)})]
