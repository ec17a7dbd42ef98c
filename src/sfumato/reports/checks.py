"""Measures of one release, each held against its limit: as a whole, and subgroup by subgroup."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.contract import Measure, Release, Score, Side, Snooper, subgroups
from sfumato.contract.score import number
from sfumato.decision.best_recipe.scenarios import Against
from sfumato.errors import DataError, ParameterError, SfumatoError, unknown_name
from sfumato.rumap.rumap import titles

FEWEST = 10
"""Subgroups with fewer original records are neither shown nor named."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Check:
    """A measure with its limit: the largest risk, or the smallest utility, that will do. Without one it is only reported.

    >>> from sfumato import KAnonymity
    >>> Check(KAnonymity(k=3), 0.02).words
    'at most 0.02'
    """

    measure: Measure
    limit: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.measure, Measure):
            raise ParameterError(f"a check needs a measure, not {type(self.measure).__name__}.")
        if self.limit is None:
            return
        known = not isinstance(self.limit, bool) and isinstance(self.limit, int | float)
        if not known or not math.isfinite(self.limit):
            raise ParameterError(f"the limit of '{self.measure.label()}' must be a number; got {self.limit!r}.")

    @property
    def words(self) -> str:
        """The limit in words."""
        if self.limit is None:
            return "none"
        return f"{'at most' if self.measure.side is Side.RISK else 'at least'} {self.limit:g}"


@dataclass(frozen=True)
class Group:
    """A subgroup that is large enough to be shown: its name, how many original records, the measure there."""

    name: str
    records: int
    value: float


@dataclass(frozen=True)
class Groups:
    """The subgroups of one column, the worst first; and how many are too small to be shown, or have no value."""

    shown: tuple[Group, ...]
    small: int
    without: int
    alone: bool = True
    """Whether each was measured as if it were the file, and not by its records within the file."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What a check found: the score, or why there is none."""

    title: str
    check: Check
    score: Score | None
    refused: str = ""
    by: Mapping[str, Groups] = field(default_factory=dict)

    @property
    def measure(self) -> Measure:
        """The measure."""
        return self.check.measure

    @property
    def risk(self) -> bool:
        """Whether it is a risk."""
        return self.measure.side is Side.RISK

    @property
    def judged(self) -> float:
        """What is held against the limit: the worse end of the interval, or the value where it is exact."""
        if self.score is None:
            return math.nan
        low, high = self.score.interval or (self.score.value, self.score.value)
        return max(high, self.score.value) if self.risk else min(low, self.score.value)

    @property
    def passes(self) -> bool | None:
        """Whether it is within its limit; None without one. What could not be measured does not pass."""
        if self.check.limit is None:
            return None
        return self.score is not None and self.within(self.judged)

    def within(self, value: float) -> bool:
        """Whether a value is within the limit."""
        limit = self.check.limit
        return limit is None or (value <= limit if self.risk else value >= limit)

    @property
    def result(self) -> str:
        """The result in a word or two."""
        if self.score is None:
            return "not measured"
        if self.passes is None:
            return "no limit"
        if self.passes:
            return "passes"
        return "fails: its interval reaches past the limit" if self.within(self.score.value) else "fails"

    def to_dict(self) -> dict[str, Any]:
        """Return the check for machines."""
        groups = {
            column: {
                "worst_first": [{"group": g.name, "records": g.records, "value": number(g.value)} for g in found.shown],
                "too_small": found.small,
                "without_value": found.without,
                "measured": "as files of their own" if found.alone else "within the whole file",
            }
            for column, found in self.by.items()
        }
        return {
            "name": self.measure.name, "title": self.title, "limit": self.check.limit, "passes": self.passes,
            "score": None if self.score is None else self.score.to_dict(), "refused": self.refused, "by": groups,
        }  # fmt: skip


def run_checks(
    release: Release,
    checks: Sequence[Check],
    scenarios: Mapping[str, Snooper],
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Checked, ...]:
    """Measure a release, risks against every snooper; a measure that does not apply is listed with the reason."""
    asked = [one for check in checks for one in _against(check, scenarios)]
    snooper = next(iter(scenarios.values()))
    for check in asked:
        _known(check.measure, release)
    parts = {column: _parts(release, column) for column in by}
    out = []
    for i, (title, check) in enumerate(zip(titles([c.measure for c in asked]), asked, strict=True)):
        if progress is not None:
            progress("Measuring", i, len(asked))
        try:
            score = check.measure.score(release, snooper)
        except SfumatoError as reason:
            out.append(Checked(title, check, None, str(reason)))
            continue
        if math.isnan(score.value):
            out.append(Checked(title, check, None, "it has no value for this release."))
            continue
        groups = {column: _groups(check.measure, snooper, score, release, column, *parts[column]) for column in parts}
        out.append(Checked(title, check, score, by=groups))
    return tuple(out)


def _known(measure: Measure, release: Release) -> None:
    """Refuse a measure of columns that the original does not have: that is a slip, not a measure that does not apply."""
    have = release.original.schema.names()
    for name in measure.columns(release.original.schema) or ():
        if name not in have:
            raise DataError(unknown_name("column", name, have, "the data"))


def _against(check: Check, scenarios: Mapping[str, Snooper]) -> list[Check]:
    if len(scenarios) == 1 or check.measure.side is Side.UTILITY or isinstance(check.measure, Against):
        return [check]
    return [Check(Against(check.measure, snooper, name), check.limit) for name, snooper in scenarios.items()]


def _parts(release: Release, column: str) -> tuple[list[tuple[str, Release]], int]:
    """Return the subgroups that are large enough, and how many are not."""
    found = list(subgroups(release, column))
    large = [(name, part) for name, part in found if len(part.original) >= FEWEST]
    return large, len(found) - len(large)


def _groups(
    measure: Measure,
    snooper: Snooper,
    whole: Score,
    release: Release,
    column: str,
    parts: Sequence[tuple[str, Release]],
    small: int,
) -> Groups:
    within = measure.in_groups(whole, release, column)
    values = [
        Group(name, len(part.original), measure.score_alone(part, snooper) if within is None else within[name])
        for name, part in parts
    ]
    shown = [g for g in values if not math.isnan(g.value)]
    worst = sorted(shown, key=lambda g: g.value, reverse=measure.side is Side.RISK)
    return Groups(tuple(worst), small, len(values) - len(shown), alone=within is None)
