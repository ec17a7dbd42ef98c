"""The hybrid: the strategy that suits the variable's shape."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.mas.cutpoints.fixed import Fixed
from sfumato.mas.cutpoints.increasing import Increasing
from sfumato.mas.cutpoints.minimum import Minimum
from sfumato.mas.cutpoints.partitioned import Partitioned
from sfumato.mas.cutpoints.strategy import CutpointStrategy, Edges
from sfumato.mas.cutpoints.tally import Tally

FEW = 25
TIED = 0.15
EVEN = 1.6
SKEWED = 0.2
COARSE = 0.25


@dataclass(frozen=True)
class Shape:
    """What the hybrid looks at; confidential."""

    distinct: int
    """How many different values there are."""
    tied: float
    """The share of the records that have the most frequent value."""
    skewness: float
    """(P90 + P10 − 2 P50) / (P90 − P10): 0 if symmetric, 1 if all lies to the right of the median."""
    reach: float
    """The whole range over P95 − P5: 1.1 if values are spread evenly, 2.4 for ten thousand normal ones."""

    @classmethod
    def of(cls, tally: Tally) -> Shape:
        """Return the shape of a variable."""
        p5, p10, p50, p90, p95 = (tally.quantile(q) for q in (0.05, 0.1, 0.5, 0.9, 0.95))
        skewness = (p90 + p10 - 2 * p50) / (p90 - p10) if p90 > p10 else 0.0
        reach = tally.span / (p95 - p5) if p95 > p5 else float("inf")
        return cls(len(tally.values), float(tally.counts.max()) / tally.total, skewness, reach)

    def suits(self) -> tuple[str, str]:
        """Return the strategy that suits the shape, and why, in words."""
        if self.distinct <= FEW:
            return "minimum", "the variable has few different values, so a bin may be a single value: minimum width"
        if self.tied >= TIED:
            return "minimum", "one value is very frequent, and minimum width keeps bins narrow around it"
        if self.reach <= EVEN:
            return (
                "fixed",
                "values are spread evenly and without long tails, so equal bins are fine enough and easiest to read",
            )
        if self.skewness >= SKEWED:
            return "increasing", "values crowd at the lower end and thin out upward, and bins widen as they do"
        return (
            "partitioned",
            "values crowd in places and thin out on both sides, and halving makes bins narrow where they crowd",
        )


class Hybrid(CutpointStrategy):
    """The strategy that suits the variable's shape.

    Few different values, or one that many records have: minimum width. Spread evenly, without long tails: fixed width. A long
    right tail: increasing width. Anything else: partitioned. If the bins turn out coarse (two records taken at random share a bin
    with a chance above a quarter, and more than twice as often as with minimum width), partitioned is tried, then minimum.

    Lucero, Singh and Zayatz (2009), section 5.1, consider such a hybrid; ERRATA 1.18.
    """

    def chosen(self, tally: Tally) -> tuple[CutpointStrategy, str]:
        """Return the strategy that is used, and why."""
        makers: dict[str, type[CutpointStrategy]] = {c.name: c for c in (Fixed, Increasing, Partitioned, Minimum)}
        first, why = Shape.of(tally).suits()
        narrow = makers["minimum"](d=self.d, rounding=self.rounding)
        if first == "minimum":
            return narrow, why
        limit = max(COARSE, 2 * alike(tally, narrow.edges(tally)))
        for name in dict.fromkeys((first, "partitioned")):
            strategy = makers[name](d=self.d, rounding=self.rounding)
            if alike(tally, strategy.edges(tally)) <= limit:
                return strategy, why if name == first else f"{why}; but those bins are coarse here: {name}"
        return narrow, f"{why}; but those bins are coarse here: minimum width"

    def exact(self, tally: Tally) -> Edges:
        """Return the edges of the chosen strategy."""
        return self.chosen(tally)[0].exact(tally)

    def rounded(self, tally: Tally) -> Edges:
        """Return the round edges of the chosen strategy."""
        return self.chosen(tally)[0].rounded(tally)

    def why(self, tally: Tally) -> str:
        """Return which strategy was chosen, and why."""
        return self.chosen(tally)[1] if self.edges(tally) else super().why(tally)


def alike(tally: Tally, edges: Edges) -> float:
    """Return the chance that two records, taken at random with replacement, share a bin: 1 / k if k bins are equally full."""
    share = tally.bins(edges) / tally.total
    return float((share**2).sum())
