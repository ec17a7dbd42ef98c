"""`sfumato report`: a release before a disclosure review board."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato import reports
from sfumato.cli.console import INFEASIBLE, Misuse
from sfumato.cli.files import check_report
from sfumato.cli.options import (
    OutputOptions,
    ReleaseOptions,
    SnooperOptions,
    Weighted,
    argument,
    expand_options,
    flag,
    option,
    output_field,
)
from sfumato.cli.parse import risk_measure, toml_file, utility_of
from sfumato.contract.mask import Recipe
from sfumato.errors import ParameterError, RecipeError, join_names

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """The options of `sfumato report`."""

    original: Path = argument("ORIGINAL", "The confidential file, before masking.", required=True)
    masked: Path = argument("MASKED", "The file that would be released.", required=True)
    out: Path = output_field(
        "Where the report goes (.html or .pdf); the same for machines goes to a .json beside it.", required=True
    )
    risk: list[str] | None = option(
        "A risk that must stay low: a column that a snooper wants to know, or a measure by name: 'k_anonymity; k=3'."
    )
    max_risk: list[str] | None = option("The largest risk allowed: of all risks, or NAME=R of one.", metavar="R")
    utility: list[str] | None = option(
        "A utility that must stay high: a measure by name, 'hellinger; over=age,sex', or an estimate: a column (its mean), "
        "'salary ~ age'."
    )
    min_utility: list[str] | None = option(
        "The smallest utility allowed: of all utilities, or NAME=U of one.", metavar="U"
    )
    by: list[str] | None = option("Also look at the subgroups by this column.", metavar="COLUMN")
    title: str | None = option("The title of the report.")
    asked: str = option("The question to the board, in your own words.", default="")
    publishable: bool = flag("Make the version for the public instead of the board's.")
    recipe: Path | None = option("The recipe (TOML) that the file was masked with.")
    search: Path | None = option("A file with the output of `sfumato search --json`.")
    weighted: Weighted = False
    snooper: SnooperOptions
    source: ReleaseOptions
    output: OutputOptions


@expand_options
def report(options: ReportOptions) -> None:
    """Write a report of a release for a disclosure review board: every measure against its limit, pass or fail.

    The report tells what was asked, the data, the snooper, how the release was made, the worst subgroups, and what was not
    examined. With --publishable it leaves out what could help an attacker. If a check fails, the exit code is 3.
    """
    from sfumato.maps.defaults import default_risks, default_utilities
    from sfumato.reports.board_sections import verdict
    from sfumato.reports.sections import SearchFindings

    screen, out, original = options.output.screen(), options.out, options.original
    check_report(out, options.output.replace)
    beside = out.with_suffix(".json")
    if not (options.risk or options.utility or options.search) and (options.max_risk or options.min_utility):
        raise Misuse("a limit needs its measure: name it with --risk or --utility.")
    risks = [risk_measure(text, "attribute_risk") for text in options.risk or ()]
    limits = _limits("--max-risk", options.max_risk, risks)
    snooper = options.snooper.build()
    found = None if options.search is None else SearchFindings.read(options.search)
    release = options.source.load(screen, original, options.masked)
    snooper = options.snooper.with_population(screen, snooper, release.original)
    release = options.source.with_holdout(_with_recipe(release, options.recipe))
    for column in options.by or ():
        release.original.kind(column)  # refuses an unknown name before anything takes long
    utilities = [utility_of(text, release.original.schema.names(), options.weighted) for text in options.utility or ()]
    checks = [*limits, *_limits("--min-utility", options.min_utility, utilities)]
    if not checks and found is None:
        checks = [reports.Check(m) for m in (*default_risks(release.original), *default_utilities(release.original))]
        screen.note(
            "no --risk and no --utility: keys and confidential numbers of the schema are looked at, without limits."
        )
    with screen.progress() as tell:
        made = reports.board_report(
            found, release, title=options.title or f"A release of {(options.masked if options.publishable else original).name}",
            asked=options.asked, checks=checks, by=options.by or (),
            snooper=snooper, publishable=options.publishable, progress=tell,
        )  # fmt: skip
        if options.recipe is not None:
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


def _with_recipe(release: Release, recipe: Path | None) -> Release:
    """Return the release with the recipe that was given beside the two files."""
    if recipe is None:
        return release
    try:
        return dataclasses.replace(release, recipe=toml_file("recipe", recipe, Recipe.read))
    except RecipeError as error:
        raise RecipeError(
            f"{error} (The recipe beside a release leaves out what must not be published: give the one that you masked with.)"
            if " needs " in str(error)
            else str(error)
        ) from None


def _limits(option: str, given: list[str] | None, measures: list[Measure]) -> list[reports.Check]:
    """Return the measures with their limits, from "0.05" for all or "NAME=0.05" for one; the later one counts."""
    limits: dict[int, float] = {}
    for text in given or ():
        name, sign, rest = text.rpartition("=")
        named = [
            i
            for i, m in enumerate(measures)
            if not sign or name.strip() in (m.label(), m.name, getattr(m, "column", ""))
        ]
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
    return [reports.Check(m, limits.get(i)) for i, m in enumerate(measures)]
