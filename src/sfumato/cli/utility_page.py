"""What `sfumato utility` prints: the page of before and after, scores of measures, and errors of estimates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato.cli.screen import Screen, percent, shown
from sfumato.errors import SfumatoError

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
    screen.say(f"{_furthest(labels[worst], len(found))} {_off(*found[worst], units[worst])}.", strong=True)
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
    from sfumato.contract import subgroups

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


def _furthest(label: str, count: int) -> str:
    return f"Furthest off is {label}:" if count > 1 else f"From the masked file, {label}:"


def _off(error: float, share: float, unit: str) -> str:
    if error == 0:
        return "exactly as in the original"
    relative = "" if math.isnan(share) else f", {percent(abs(share))} of the original's"
    return f"off by {shown(abs(error))}{f' {unit}' if unit else ''}{relative}"
