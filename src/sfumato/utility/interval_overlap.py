"""Confidence-interval overlap: how far the intervals of an analyst's coefficients agree (Karr et al. 2006)."""

from __future__ import annotations

import math

from sfumato.contract import Release, Score, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import out_of
from sfumato.schema import Schema
from sfumato.utility.analysis import Rules, combined
from sfumato.utility.of_coefficients import OfCoefficients

Interval = tuple[float, float]


class IntervalOverlap(OfCoefficients):
    """U = the mean over the coefficients of ½[I/(Uo - Lo) + I/(Uy - Ly)], where I is the length that two intervals share.

    (Lo, Uo) is the confidence interval of a coefficient from the original, (Ly, Uy) from the release, and
    I = min(Uo, Uy) - max(Lo, Ly). Where the intervals do not meet, I is negative and so is the overlap: it falls as the gap
    grows. 1 is a file that was not changed; the loss is 1 - overlap.

    A coefficient that the release does not determine (a category is gone, a column is all alike) counts as if the release
    said zero with the original's standard error, and never above 0. Terms that the original does not determine are left out.
    With survey weights the standard errors are the linearised ones. Several implicates are combined first (see `combine`).
    """

    level: float = param(default=0.95, doc="level of the confidence intervals", low=0.01, high=0.9999)
    rules: Rules = param(
        default="recipe",
        doc="how several implicates are combined: as the recipe says, or by the rules of partial or of full synthesis",
        choices=("recipe", "partial", "full"),
    )

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"interval overlap of {self.formula}"

    @property
    def variant(self) -> str:
        """The model, the level, and whether weights are used."""
        return f"{super().variant}, {100 * self.level:g} % intervals"

    def words(self, value: float, schema: Schema) -> str:
        """Return the overlap."""
        return f"{100 * self.level:g} % intervals overlap by {digits(100 * value)} % on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the intervals of every coefficient."""
        before, found = self.fits(outcome)
        titles = self.titles(before)
        each: dict[str, float] = {}
        for i, after in enumerate(combined(found, self.rules, outcome, before)):
            mine = before.interval(i, self.level)
            each[titles[i]] = _lost(mine) if after is None else overlap(mine, after.interval(self.level))
        value, worst = math.fsum(each.values()) / len(each), min(each, key=each.__getitem__)
        apart = out_of(sum(v < 0 for v in each.values()), len(each), ("does", "do"), "pair")
        words = (
            f"{self.words(value, outcome.original.schema)}; {apart} not meet; "
            f"the least is that of {worst}, {digits(100 * each[worst])} %"
        )
        return self.result(value, words, details={f"overlap of {name}": v for name, v in each.items()})


def overlap(one: Interval, other: Interval) -> float:
    """Return ½[I/length + I/length] of two intervals: 1 where they are the same, negative where they do not meet.

    An interval without length counts 1 for its own part if it is in the other one, else its gap by the other's length.

    >>> overlap((0.0, 2.0), (1.0, 3.0)), overlap((0.0, 1.0), (2.0, 3.0))
    (0.5, -1.0)
    """
    shared = min(one[1], other[1]) - max(one[0], other[0])
    first, second = one[1] - one[0], other[1] - other[0]
    return (_share(shared, first, second) + _share(shared, second, first)) / 2


def _share(shared: float, length: float, other: float) -> float:
    if length > 0 or shared < 0:
        return shared / (length or other)
    return 1.0


def _lost(mine: Interval) -> float:
    """Return the overlap with an interval of the same length about zero, and 0 where that would be more."""
    half = (mine[1] - mine[0]) / 2
    return min(overlap(mine, (-half, half)), 0.0)
