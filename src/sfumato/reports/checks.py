"""Measures of one release, each compared with its limit; and which sorts of risk were examined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfumato.contract import Combination, Measure, Release, Score, Side, Snooper, subgroups
from sfumato.contract.score import number
from sfumato.errors import DataError, NotApplicable, ParameterError, SfumatoError, refuse_unknown
from sfumato.maps.judge import Against, against
from sfumato.maps.rumap import titles


@dataclass(frozen=True)
class Sort:
    """A sort of disclosure: its name, its question, and the measures that answer it."""

    name: str
    question: str
    measures: tuple[str, ...]


SORTS = (
    Sort(
        "finding a person in the file",
        "Whose record could be found by what somebody knows of a person?",
        ("k_anonymity", "reidentification", "any_identified", "suda", "unsafe_combinations", "distinction", "separation",
         "global_risk", "replicated_uniques", "singling_out"),
    ),
    Sort(
        "finding a person in the population",
        "If the file is a sample, how sure can somebody be that a record found is the right person's?",
        ("individual_risk", "match_risk", "log_linear_risk", "population_uniques", "k_map"),
    ),
    Sort(
        "linking records",
        "How many released records could be linked to a file that somebody else has?",
        ("distance_linkage", "probabilistic_linkage", "rank_linkage", "linkability"),
    ),
    Sort(
        "learning a value from those who look alike",
        "What is learned of a person because all who look like him have the same value?",
        ("l_diversity", "t_closeness", "beta_likeness", "delta_disclosure", "alpha_k"),
    ),
    Sort(
        "guessing a value",
        "How well can a person's value be worked out or predicted from the release?",
        ("attribute_risk", "coded_value_risk", "interval_disclosure", "prediction_risk", "cap", "tcap", "weap", "disco",
         "rapid", "inference"),
    ),
    Sort(
        "telling who is in the file",
        "Could somebody tell that a person took part at all?",
        ("membership", "delta_presence", "dcr", "nndr", "ims"),
    ),
)  # fmt: skip
"""Every risk measure of sfumato is in one of them."""
LEARNED = ("learning a value from those who look alike", "guessing a value")
"""The sorts that are about single columns."""


def parts_of(measure: Measure) -> Iterator[Measure]:
    """Yield a measure, or its parts."""
    if isinstance(measure, Against):
        yield from parts_of(measure.measure)
    elif isinstance(measure, Combination):
        for part in measure.parts:
            yield from parts_of(part)
    else:
        yield measure


def sort_of(measure: Measure) -> Sort | None:
    """Return the sort of risk of a measure; None for a utility, and for a measure from outside sfumato."""
    return next((s for s in SORTS if any(part.name in s.measures for part in parts_of(measure))), None)


def sorts_of(measures: Iterable[Measure]) -> tuple[tuple[Sort, ...], tuple[Sort, ...]]:
    """Return the sorts of risk that the measures cover, and the others."""
    names = {part.name for m in measures if m.side is Side.RISK for part in parts_of(m)}
    looked = tuple(s for s in SORTS if names & {*s.measures})
    return looked, tuple(s for s in SORTS if s not in looked)


FEWEST = 10
"""Subgroups with fewer original records are neither shown nor named."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Check:
    """A measure with its limit, the largest acceptable risk or the smallest acceptable utility. None: only report it.

    >>> from sfumato.risk import KAnonymity
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
    """A subgroup that is large enough to be shown: its name, its number of original records, its score."""

    name: str
    records: int
    value: float


@dataclass(frozen=True)
class Subgroups:
    """The subgroups of one column, the worst first; and the number that are too small to be shown, or have no value."""

    shown: tuple[Group, ...]
    small: int
    without: int
    alone: bool = True
    """Whether each was measured as if it were the file, and not by its records within the file."""
    refused: str = ""
    """Why the column makes no subgroups."""


@dataclass(frozen=True, eq=False)
class Checked:
    """The result of a check: the score, or why there is none."""

    title: str
    check: Check
    score: Score | None
    refused: str = ""
    by: Mapping[str, Subgroups] = field(default_factory=dict)

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
        """The number compared with the limit: the worse end of the interval, or the value where it is exact."""
        if self.score is None:
            return math.nan
        low, high = self.score.interval or (self.score.value, self.score.value)
        return max(high, self.score.value) if self.risk else min(low, self.score.value)

    @property
    def passes(self) -> bool | None:
        """Whether it is within its limit; None without one. A measure that could not be computed does not pass."""
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
        """Return the check as plain data."""
        groups = {
            column: {
                "worst_first": [{"group": g.name, "records": g.records, "value": number(g.value)} for g in found.shown],
                "too_small": found.small,
                "without_value": found.without,
                "measured": "as files of their own" if found.alone else "within the whole file",
                **({"refused": found.refused} if found.refused else {}),
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
    asked = [Check(one, check.limit) for check in checks for one in against([check.measure], scenarios)]
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
        groups = {
            column: Subgroups((), 0, 0, refused=part)
            if isinstance(part, str)
            else _groups(check.measure, snooper, score, release, column, *part)
            for column, part in parts.items()
        }
        out.append(Checked(title, check, score, by=groups))
    return tuple(out)


def _known(measure: Measure, release: Release) -> None:
    """Refuse a measure of columns that the original does not have: this is a mistake, not a measure that does not apply."""
    have = release.original.schema.names()
    refuse_unknown("column", have, "the data", *(measure.columns(release.original.schema) or ()), error=DataError)


def _parts(release: Release, column: str) -> tuple[list[tuple[str, Release]], int] | str:
    """Return the subgroups that are large enough, and the number of those that are not; or why there are none."""
    release.original.kind(column)  # refuses an unknown name
    try:
        found = list(subgroups(release, column))
    except (NotApplicable, DataError) as reason:
        return str(reason)
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
) -> Subgroups:
    within = measure.in_groups(whole, release, column)
    values = [
        Group(name, len(part.original), measure.score_alone(part, snooper) if within is None else within[name])
        for name, part in parts
    ]
    shown = [g for g in values if not math.isnan(g.value)]
    worst = sorted(shown, key=lambda g: g.value, reverse=measure.side is Side.RISK)
    return Subgroups(tuple(worst), small, len(values) - len(shown), alone=within is None)
