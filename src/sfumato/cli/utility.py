"""`sfumato utility`: what an analyst keeps in a masked file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.cli.console import Misuse, Screen, percent, shown
from sfumato.cli.files import check_chart, save_chart
from sfumato.cli.listing import completion, show_measures, utility_measures
from sfumato.cli.options import (
    ListMeasures,
    OutputOptions,
    ReleaseOptions,
    Weighted,
    argument,
    expand_options,
    option,
    output_field,
)
from sfumato.cli.parse import estimator, no_such_utility, utility_measure
from sfumato.contract import Need, subgroups
from sfumato.errors import ParameterError, SfumatoError, join_names

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release
    from sfumato.utility import Estimator, ReleaseSummary

EXPLAINED = (
    "This is the error that masking made in this one file. How large it is on average, and how it compares with the "
    "error of sampling, takes many maskings: sfumato map."
)


def show_summary(screen: Screen, summary: ReleaseSummary) -> dict[str, Any]:
    """Print what changed most, then the tables; return the same as data."""
    first, *rest = summary.verdict
    screen.say(first, strong=True)
    for sentence in rest:
        screen.say(sentence)
    for table in summary.text_tables():
        words = [i for i, head in enumerate(table.heads) if i == 0 or head == "category"]
        screen.say()
        screen.say(table.caption, strong=True)
        screen.table(table.heads, table.rows, [i for i in range(len(table.heads)) if i not in words])
    screen.say()
    screen.say(f"Figures that rest on fewer than {summary.fewest} original records are not shown, or stand together.")
    return summary.to_dict()


def show_measured(screen: Screen, release: Release, named: list[Measure], by: str | None) -> list[dict[str, Any]]:
    """Print scores: the words first, then the numbers with their companions, and each subgroup's; return the same as data."""
    if not named:
        return []
    scores = []
    with screen.progress() as tell:
        for i, measure in enumerate(named):
            tell("Measuring", i, len(named))
            scores.append(measure.score(release) if by is None else measure.score_by(release, by))
    for score in scores:
        screen.say(f"{score.measure}: {score.words}.", strong=True)
    screen.say()
    rows = [(s.measure, s.value, None if s.interval is None else " to ".join(map(shown, s.interval))) for s in scores]
    heads = ("measure (1 is unchanged, higher is more useful)", "value", "95 % interval")
    screen.described(heads, rows, [s.variant for s in scores], (1,))
    for score in scores:
        if score.details:
            screen.say()
            screen.table((f"beside {score.measure}", "value"), list(score.details.items()), (1,))
    if by is not None:
        screen.say()
        groups = list(dict.fromkeys(name for s in scores for name in s.groups))
        lines = [(name, *(s.groups.get(name, math.nan) for s in scores)) for name in groups]
        screen.table((by, *(s.measure for s in scores)), lines, range(1, 1 + len(scores)))
    return [{"name": m.name, "parameters": m.to_dict(), **s.to_dict()} for m, s in zip(named, scores, strict=True)]


def show_estimates(
    screen: Screen, release: Release, asked: list[Estimator], by: str | None = None
) -> list[dict[str, Any]]:
    """Print how far each estimate is off, and return the same as data."""
    if not asked:
        return []
    found = [_error(e, release) for e in asked]
    labels = [e.label() for e in asked]
    units = [e.unit(release.original.schema) for e in asked]
    worst = max(range(len(found)), key=lambda i: -1.0 if math.isnan(found[i][1]) else abs(found[i][1]))
    what = "Furthest off is" if len(found) > 1 else "From the masked file,"
    screen.say(f"{what} {labels[worst]}: {_off(*found[worst], units[worst])}.", strong=True)
    screen.say(f"{len(release.original):,} original and {len(release.masked):,} masked records. {EXPLAINED}")
    screen.say()
    rows = [(labels[i], e, units[i], None if math.isnan(s) else percent(s)) for i, (e, s) in enumerate(found)]
    screen.table(("estimate", "error (masked − original)", "unit", "of the original's"), rows, (1, 3))
    groups = {} if by is None else _by_group(asked, release, by)
    if groups:
        screen.say()
        lines = [(name, *errors) for name, errors in groups.items()]
        screen.table((str(by), *(f"error of {label}" for label in labels)), lines, range(1, 1 + len(labels)))
    return [
        {
            "estimator": labels[i], "error": e, "relative_error": s, "unit": units[i],
            "utility": math.inf if e == 0 else 1 / e**2,
            **({"groups": {name: errors[i] for name, errors in groups.items()}} if by is not None else {}),
        }
        for i, (e, s) in enumerate(found)
    ]  # fmt: skip


def _by_group(asked: list[Estimator], release: Release, by: str) -> dict[str, list[float]]:
    """Return the error of each estimate in each subgroup; NaN where it cannot be computed there."""

    def error(e: Estimator, part: Release) -> float:
        try:
            return _error(e, part)[0]
        except SfumatoError:
            return math.nan

    return {name: [error(e, part) for e in asked] for name, part in subgroups(release, by)}


def _error(e: Estimator, release: Release) -> tuple[float, float]:
    """Return masked minus original, and the same as a share of the original's; the estimates themselves stay here."""
    e.check(release.original)
    before = e.estimate(release.original, {})
    try:
        after = e.estimate(release.masked, {})
    except SfumatoError as error:
        raise type(error)(f"in the masked file: {error}") from None
    off = after - before if abs(after - before) > 1e-12 * abs(before) else 0.0  # less is the computer's rounding
    return off, off / abs(before) if before else math.nan


def _off(error: float, share: float, unit: str) -> str:
    if error == 0:
        return "exactly as in the original"
    relative = "" if math.isnan(share) else f", {percent(abs(share))} of the original's"
    return f"off by {shown(abs(error))}{f' {unit}' if unit else ''}{relative}"


@dataclass(frozen=True, kw_only=True)
class UtilityOptions:
    """The options of `sfumato utility`."""

    original: Path | None = argument("ORIGINAL", "The confidential file, before masking.")
    masked: Path | None = argument("MASKED", "The masked file.")
    estimators: list[str] | None = option(
        "An estimate that an analyst computes: a column (its mean), 'income - salary' (of means), or a regression "
        "'salary ~ age', with the coefficient after a semicolon if there are several: "
        "'salary ~ age + C(region); age'.",
        "--estimator",
    )
    measures: list[str] | None = option(
        "A measure of the whole file by name, with its parameters after semicolons: granularity, or "
        "'hellinger; over=age,sex'. --list shows all.",
        "--measure",
        autocompletion=completion(utility_measures),
    )
    list_: ListMeasures = False
    target: Literal["file", "population"] = option(
        "What the estimate is compared with: the original file's own.", default="file"
    )
    weighted: Weighted = False
    source: ReleaseOptions
    by: str | None = output_field(
        "Also tell each measure and estimate for every subgroup by this column.", metavar="COLUMN"
    )
    chart: Path | None = output_field("Draw the page of before and after (.svg or .png).")
    output: OutputOptions


@expand_options
def utility(options: UtilityOptions) -> None:
    """Tell what masking changed: statistics, distributions, tables and correlations, before and after.

    With --measure or --estimator: how much of the whole is kept, or how far an analyst's estimates from the masked file are
    from those of the original.
    """
    screen, by, weighted = options.output.screen(), options.by, options.weighted
    if options.list_:
        show_measures(screen, _only(options.measures), "utility", "granularity")
        return
    if options.original is None or options.masked is None:
        raise Misuse("two files are needed: the original, then the masked one.")
    if options.target != "file":
        raise ParameterError(
            "one masked file only tells how far its estimates are from the original file's (--target file). How far they "
            "are from the population's takes many maskings of many samples: sfumato map."
        )
    check_chart(options.chart, options.output.replace)
    if by is not None and not (options.measures or options.estimators):
        raise Misuse("--by tells a measure or an estimate for each subgroup: name one with --measure or --estimator.")
    named = [utility_measure(text, weighted) for text in options.measures or ()]
    if options.source.align is None and (paired := [m.name for m in named if Need.ALIGNMENT in m.needs]):
        raise Misuse(f"{paired[0]} compares record by record: say with --align which masked record is whose.")
    release = options.source.load(screen, options.original, options.masked)
    if by is not None:
        release.original.kind(by)  # refuses an unknown name before anything takes long
    from sfumato.utility.before_after import renamed_columns

    release = options.source.with_holdout(release)
    if not release.aligned and (named_anew := renamed_columns(release)):
        screen.note(
            f"{join_names(named_anew)}: released categories have other names than the original ones, and count as changed. Where "
            "both files have the records in the same order, --align rows tells which name stands for which."
        )
    page = not (named or options.estimators)
    if options.chart is not None or page:
        answer = _before_and_after(screen, release, weighted, options.chart, shown=page)
        if page:
            screen.answer(answer)
            return
    measured = show_measured(screen, release, named, by)
    asked = [estimator(text, release.original.schema.names(), weighted) for text in options.estimators or ()]
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


def _before_and_after(
    screen: Screen, release: Release, weighted: bool, chart: Path | None, shown: bool
) -> dict[str, object]:
    from sfumato.utility.summary import release_summary

    with screen.progress() as tell:
        tell("Comparing", 0, 0)
        summary = release_summary(release, weighted=weighted)
        if chart is not None:
            tell("Drawing", 0, 0)
            save_chart(summary.chart(), chart)
    return show_summary(screen, summary) if shown else {}
