"""How the values of a variable are spread in the cells of a table: noisy counts of bins, from which all else is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.mas.bins import Bins
from sfumato.mas.dataset import Weight
from sfumato.mas.grouped import Asked, Grouped, Numbers, weight_sum
from sfumato.mas.published import noisy_counts
from sfumato.mas.question import Question
from sfumato.mas.variable import MISSING, Variable


@dataclass(frozen=True)
class Spread:
    """Noisy counts of the bins of a variable in one cell; shape (bins,)."""

    counts: Numbers
    """Of records."""
    weights: Numbers
    """Of their weights; the counts again, where there are none."""
    edges: tuple[float, ...]
    """Where bins end; the last one is open."""

    def without_thin_ends(self, beyond: int) -> Spread:
        """Return it with bins at both ends merged, until so many records lie beyond each edge.

        >>> Spread(np.array([3.0, 30, 40, 25, 2]), np.zeros(5), (1, 2, 3, 4)).without_thin_ends(20).edges
        (2, 3)
        """
        reached = np.cumsum(self.counts)
        last = len(self.edges)
        first = int(np.argmax(reached[:last] >= beyond)) if (reached[:last] >= beyond).any() else last
        above = reached[-1] - reached[:last] >= beyond
        keep = [i for i in range(first, last) if above[i:].any()] if first < last else []
        starts = [0, *(i + 1 for i in keep)]
        return Spread(
            np.add.reduceat(self.counts, starts), np.add.reduceat(self.weights, starts),
            tuple(self.edges[i] for i in keep),
        )  # fmt: skip


def spread_over(question: Question, sides: Sequence[Variable], variable: Variable, weight: Weight | None) -> Grouped:
    """Ask for a table of some sides and of a variable that has bins, the last side."""
    asked = Asked({"w": "w"}, {"records": weight_sum(question, weight)}) if weight else Asked()
    return Grouped.of(question, (*sides, variable), asked)


def spreads(table: Grouped, weight: Weight | None) -> Iterator[tuple[tuple[int, ...], Spread]]:
    """Yield each cell of all sides but the last, and how the last is spread there; records without a value are left out."""
    variable = table.variables[-1]
    bins = len(variable.levels) - (variable.levels[-1] == MISSING)
    edges = variable.cutpoints.edges if variable.cutpoints is not None else ()
    counts = noisy_counts(table).reshape(table.counts.shape)[..., :bins]
    weights = counts if weight is None else noisy_counts(table, weight).reshape(table.counts.shape)[..., :bins]
    for place in np.ndindex(table.counts.shape[:-1]):
        yield place, Spread(counts[place], weights[place], edges)


def coarser(variable: Variable, most: int) -> tuple[Bins, list[int]]:
    """Return the grid of a variable in at most so many bins, and at which bins of the whole grid these start."""
    bins = len(variable.grid) + 1
    starts = list(range(0, bins, -(-bins // most)))
    return Bins.of(variable, [variable.grid[start - 1] for start in starts[1:]]), [*starts, bins]


@dataclass(frozen=True)
class Cut:
    """Where a share of the records lies: those up to `low`, and a part of those from there to `high`, its bin."""

    low: float = np.nan
    high: float = np.nan
    part: float = 0.0

    @property
    def value(self) -> float:
        """The quantile, on a straight line within its bin; NaN where none may be given."""
        return self.low + (self.high - self.low) * self.part


def cut_at(spread: Spread, share: float, beyond: int) -> Cut:
    """Return where a share of the records lies.

    Cumulated noisy counts are made to rise by isotonic regression, so that quantiles rise with the share. None is given in the
    open bins at the ends, nor where fewer than `beyond` records lie beyond the bin.

    >>> cut_at(Spread(np.full(4, 100.0), np.full(4, 100.0), (10, 20, 30)), 0.6, 20)
    Cut(low=20, high=30, part=0.4)
    """
    counts, weights = (rising(values) for values in (spread.counts, spread.weights))
    wanted = share * weights[-1]
    at = int(np.searchsorted(weights, wanted))
    if not 1 <= at < len(weights) - 1 or counts[at - 1] < beyond or counts[-1] - counts[at] < beyond:
        return Cut()
    part = (wanted - weights[at - 1]) / (weights[at] - weights[at - 1])
    return Cut(spread.edges[at - 1], spread.edges[at], float(part))


def rising(values: Numbers) -> Numbers:
    """Return cumulated noisy counts, made to rise by isotonic regression."""
    from scipy.optimize import isotonic_regression

    return np.maximum(isotonic_regression(np.cumsum(values)).x, 0.0)
