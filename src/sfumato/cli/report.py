"""`sfumato report`: a release before a disclosure review board."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.console import INFEASIBLE, Misuse, Screen
from sfumato.cli.files import check_report, load_like, load_population, load_release
from sfumato.cli.options import (
    OUTPUT,
    Coverage,
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
    Weighted,
    snooper_of,
)
from sfumato.cli.parse import risk_measure, toml_file, utility_of
from sfumato.errors import ParameterError, RecipeError, join_names

if TYPE_CHECKING:
    from sfumato.contract.measure import Measure
    from sfumato.contract.release import Release
    from sfumato.reports.checks import Check


def report(
    original: Annotated[
        Path, typer.Argument(metavar="ORIGINAL", help="The confidential file, before masking.", show_default=False)
    ],
    masked: Annotated[
        Path, typer.Argument(metavar="MASKED", help="The file that would be released.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Where the report goes (.html or .pdf); the same for machines goes to a .json beside it.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ],
    align: Annotated[
        str | None,
        typer.Option(
            metavar="rows|COLUMN",
            help="Which masked record is whose: rows, if both files list the same records in the same order, "
            "or a column of both files that is unique. Measures that compare record by record need it.",
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            help="What must stay low: a column that a snooper wants to know, or a measure by name: 'k_anonymity; k=3'. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    max_risk: Annotated[
        list[str] | None,
        typer.Option(metavar="R", help="The largest risk allowed: of all risks, or NAME=R of one. May be repeated."),
    ] = None,
    utility: Annotated[
        list[str] | None,
        typer.Option(
            help="What must stay high: a measure by name, 'hellinger; over=age,sex', or an estimate: a column (its mean), "
            "'salary ~ age'. May be repeated.",
            show_default=False,
        ),
    ] = None,
    min_utility: Annotated[
        list[str] | None,
        typer.Option(
            metavar="U", help="The smallest utility allowed: of all utilities, or NAME=U of one. May be repeated."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Also look at the subgroups by this column. May be repeated."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the report.", show_default=False)] = None,
    asked: Annotated[str, typer.Option(help="What the board is asked, in your own words.")] = "",
    publishable: Annotated[
        bool, typer.Option("--publishable", help="Make the version for the public instead of the board's.")
    ] = False,
    recipe: Annotated[
        Path | None, typer.Option(help="The recipe (TOML) that the file was masked with.", show_default=False)
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(help="What `sfumato search --json` printed, kept in a file.", show_default=False),
    ] = None,
    weighted: Weighted = False,
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
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Write a report of a release for a disclosure review board: every measure against its limit, pass or fail.

    The report tells what was asked, the data, the snooper, how the release was made, the worst subgroups, and what was not
    examined. With --publishable it leaves out what could help an attacker. If a check fails, the exit code is 3.
    """
    from sfumato.reports.board import board_report
    from sfumato.reports.board_sections import verdict
    from sfumato.reports.sections import SearchFindings

    screen = Screen(as_json)
    check_report(out, replace)
    beside = out.with_suffix(".json")
    risks = [risk_measure(text, "attribute_risk") for text in risk or ()]
    limits = _limits("--max-risk", max_risk, risks)
    if not (risks or utility or search):
        raise Misuse("name at least one measure, with --risk or --utility.")
    known = snooper_of(strategy, match_probability, knows, published, keys, precision, coverage=coverage, errors=errors)
    found = None if search is None else SearchFindings.read(search)
    release = load_release(screen, original, masked, schema, (read, read_masked), align)
    if population is not None:
        known = known.learn(population=load_population(screen, release.original, population, population_count))
    elif population_count is not None:
        raise Misuse("--population-count names a column of the population's table: give that with --population.")
    release = _completed(release, recipe, holdout)
    for column in by or ():
        release.original.kind(column)  # refuses an unknown name before anything takes long
    utilities = [utility_of(text, release.original.schema.names(), weighted) for text in utility or ()]
    checks = [*limits, *_limits("--min-utility", min_utility, utilities)]
    with screen.progress() as tell:
        made = board_report(
            found, release, title=title or f"A release of {(masked if publishable else original).name}",
            asked=asked, checks=checks, by=by or (),
            snooper=known, publishable=publishable, progress=tell,
        )  # fmt: skip
        if recipe is not None:
            made = dataclasses.replace(made, notes=(_GIVEN,))
        tell("Writing the report", 0, 0)
        made.write(out, json=True)
    screen.say(verdict(made.checked), strong=True)
    rows = [(c.title, None if c.score is None else c.score.value, c.check.words, c.result) for c in made.checked]
    screen.table(("measure", "value", "limit", "result"), rows, (1,))
    screen.say(f"Wrote {out} and {beside}: the {made.version} version.")
    screen.answer({"report": out, "json": beside, **made.to_dict()})
    if not made.passes:
        raise typer.Exit(INFEASIBLE)


_GIVEN = "The recipe was given beside the file. That the file was made with it was not checked."


def _completed(release: Release, recipe: Path | None, holdout: Path | None) -> Release:
    """Return the release with what is known besides the two files."""
    from sfumato.contract.mask import Recipe
    from sfumato.contract.release import Holdout

    if recipe is not None:
        try:
            release = dataclasses.replace(release, recipe=toml_file("recipe", recipe, Recipe.read))
        except RecipeError as error:
            raise RecipeError(
                f"{error} (The recipe beside a release leaves out what must not be published: give the one that you masked with.)"
                if " needs " in str(error)
                else str(error)
            ) from None
    if holdout is not None:
        release = release.with_holdout(Holdout.of(load_like(release.original, holdout)))
    return release


def _limits(option: str, given: list[str] | None, measures: list[Measure]) -> list[Check]:
    """Return the measures with their limits, from "0.05" for all or "NAME=0.05" for one; the later one counts."""
    from sfumato.reports.checks import Check

    limits: dict[int, float] = {}
    for text in given or ():
        name, sign, rest = text.rpartition("=")
        named = [i for i, m in enumerate(measures) if not sign or name.strip() in _names(m)]
        if not named:
            names = join_names(m.label() for m in measures)
            raise ParameterError(f"{option} names '{name or text}', but what was asked for is {names}.")
        try:
            value = float(rest)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ParameterError(
                f"{option} must be a number, such as 0.05, or NAME=0.05 for one measure; got '{text}'."
            )
        limits.update(dict.fromkeys(named, value))
    return [Check(m, limits.get(i)) for i, m in enumerate(measures)]


def _names(measure: Measure) -> tuple[str, ...]:
    return measure.label(), measure.name, str(getattr(measure, "column", ""))
