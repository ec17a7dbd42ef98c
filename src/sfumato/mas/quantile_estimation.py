"""Distribution functions of a variable in the cells of a table, values of a rank, and standard errors of quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sfumato.mas.aggregate import AggregateRequest, CellAggregates, Sum, VariableBins, noisy_counts, weight_sum
from sfumato.mas.dataset import Weight
from sfumato.mas.perturbation import purpose_of
from sfumato.mas.question import Question
from sfumato.mas.universe import condition
from sfumato.mas.value_counts import MOST, order_statistic
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Numbers

# --- distribution
# How the values of a variable are spread in the cells of a table: noisy counts of bins, from which all else is made.


@dataclass(frozen=True)
class BinCounts:
    """Noisy counts of the bins of a variable in one cell; shape (bins,)."""

    counts: Numbers
    """Of records."""
    weights: Numbers
    """Of their weights; the counts again, where there are none."""
    edges: tuple[float, ...]
    """Where bins end; the last one is open."""

    def without_thin_ends(self, beyond: int) -> BinCounts:
        """Return it with bins at both ends merged, until so many records lie beyond each edge.

        >>> BinCounts(np.array([3.0, 30, 40, 25, 2]), np.zeros(5), (1, 2, 3, 4)).without_thin_ends(20).edges
        (2, 3)
        """
        reached = np.cumsum(self.counts)
        last = len(self.edges)
        first = int(np.argmax(reached[:last] >= beyond)) if (reached[:last] >= beyond).any() else last
        above = reached[-1] - reached[:last] >= beyond
        keep = [i for i in range(first, last) if above[i:].any()] if first < last else []
        starts = [0, *(i + 1 for i in keep)]
        return BinCounts(
            np.add.reduceat(self.counts, starts), np.add.reduceat(self.weights, starts),
            tuple(self.edges[i] for i in keep),
        )  # fmt: skip


def spread_over(
    question: Question, sides: Sequence[Variable], variable: Variable, weight: Weight | None
) -> CellAggregates:
    """Ask for a table of some sides and of a variable that has bins, the last side."""
    asked = AggregateRequest({"w": "w"}, {"records": weight_sum(question, weight)}) if weight else AggregateRequest()
    return CellAggregates.of(question, (*sides, variable), asked)


def spreads(table: CellAggregates, weight: Weight | None) -> Iterator[tuple[tuple[int, ...], BinCounts]]:
    """Yield each cell of all sides but the last, and how the last is spread there; records without a value are left out."""
    variable = table.variables[-1]
    bins = len(variable.levels) - (variable.levels[-1] == MISSING)
    edges = variable.cutpoints.edges if variable.cutpoints is not None else ()
    counts = noisy_counts(table).reshape(table.counts.shape)[..., :bins]
    weights = counts if weight is None else noisy_counts(table, weight).reshape(table.counts.shape)[..., :bins]
    for place in np.ndindex(table.counts.shape[:-1]):
        yield place, BinCounts(counts[place], weights[place], edges)


def coarser(variable: Variable, most: int) -> tuple[VariableBins, list[int]]:
    """Return the grid of a variable in at most so many bins, and at which bins of the whole grid these start."""
    bins = len(variable.grid) + 1
    starts = list(range(0, bins, -(-bins // most)))
    return VariableBins.of(variable, [variable.grid[start - 1] for start in starts[1:]]), [*starts, bins]


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


def cut_at(spread: BinCounts, share: float, beyond: int) -> Cut:
    """Return where a share of the records lies.

    Cumulated noisy counts are made to rise by isotonic regression, so that quantiles rise with the share. None is given in the
    open bins at the ends, nor where fewer than `beyond` records lie beyond the bin.

    >>> cut_at(BinCounts(np.full(4, 100.0), np.full(4, 100.0), (10, 20, 30)), 0.6, 20)
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


# --- woodruff
# Standard errors of quantiles: the share that lies below is uncertain, and the quantile moves with it (Woodruff 1952).


_Z = 1.959963984540054


def quantile_error(value_at: Callable[[float], float], p: float, error: float) -> float:
    """Return the standard error of the quantile at p, where the share below it has a standard error; NaN where none is known.

    It is the length of the interval between the quantiles at p ± 1.96 errors, divided by as many errors; where one end is not
    known, the half of it.

    >>> round(quantile_error(lambda share: 100 * share, 0.5, 0.02), 9)
    2.0
    """
    far = _Z * error
    low, high = (value_at(end) if 0 < end < 1 else math.nan for end in (p - far, p + far))
    sides = 2.0
    if math.isnan(low) or math.isnan(high):
        low, high, sides = (low, value_at(p), 1.0) if math.isnan(high) else (value_at(p), high, 1.0)
    return (high - low) / (sides * _Z)


def noise_variance(spread: BinCounts, p: float, noise: float) -> float:
    """Return what noise adds to the variance of the share below a quantile that is read off noisy bins.

    With one standard deviation on each of B bins, k of them below, it is (1 − p)² k + p² (B − k) times its square over the
    total's.
    """
    weights = rising(spread.weights)
    below = int((weights < p * weights[-1]).sum()) + 1
    added = (1 - p) ** 2 * below + p**2 * (len(weights) - below)
    return added * (noise / max(float(weights[-1]), 1.0)) ** 2


def design_squares(
    table: CellAggregates, variable: Variable, weight: Weight | None, p: Sequence[float], cuts: Sequence[Sequence[Cut]]
) -> Numbers:
    """Return the variances under the survey's design of Σ w(z − p), z what lies below the cut at p; shape (cells, shares).

    `cuts` has one row for each cell of the table, raveled. Over the squared weight of the cell's values that is the variance of
    the share below. Where counts have noise, it has keyed noise, too.
    """
    question, shape, columns = table.question, table.counts.shape, table.question.dataset.design.columns
    cells = [f"c{i}" for i in range(len(shape))]
    place = " + ".join(f"{cell} * {int(np.prod(shape[i + 1 :], dtype=int))}" for i, cell in enumerate(cells)) or "0"
    limits = np.array([[(cut.low, cut.high, cut.part) for cut in row] for row in cuts]).reshape(len(cuts), -1)
    shown = np.flatnonzero(np.isfinite(limits[:, ::3]).any(axis=1))  # a quantile that is not shown has no limits
    told = [f"({i}, {', '.join(f'({x:.17e})' for x in np.nan_to_num(limits[i]))})" for i in shown]
    if not len(shown):
        return np.zeros((len(cuts), len(p)))
    names = ", ".join(["cell", *(f"low{i}, high{i}, part{i}" for i in range(len(p)))])
    scores = [
        f"w * (CASE WHEN v <= low{i} THEN 1.0E0 WHEN v <= high{i} THEN part{i} ELSE 0.0E0 END - ({share:.17e})) AS g{i}"
        for i, share in enumerate(p)
    ]
    kept = table.records({"w": "w" if weight else "1.0E0", "v": variable.numbers})
    source = (
        f"SELECT {', '.join([*cells, *columns, *scores])} FROM ({kept}) AS kept "  # noqa: S608 - our own names
        f"JOIN (VALUES {', '.join(told)}) AS cuts({names}) ON {place} = cell WHERE v IS NOT NULL"
    )
    scale, large = (weight.scale, weight.large) if weight else (1.0, 1.0)
    design, sd = question.dataset.design, question.policy.counts.sd
    found = design.covariances(source, np.eye(len(p)), scale**2 * np.eye(len(p)), shape=shape)
    if not sd:
        return found
    for i, share in enumerate(p):
        about = purpose_of(f"design squares of {variable.name} at {share!r}{' weighted' if weight else ''}", sd)
        found[:, i] += sd * design.largest * large**2 * question.secret.normals(table.thinned_keys(), about)
    return found


# --- curves
# Distribution functions of a variable in the cells of a table: read off noisy counts of bins, or looked up among the records.


_CURVE_BINS = ((300, 8), (2_000, 16), (8_000, 32), (float("inf"), MOST))
"""How many bins are used for up to how many records: fine enough, and few enough that their noise does not add up."""


@dataclass(frozen=True)
class DistributionCurve:
    """Where shares of the records of one cell lie."""

    at: Callable[[float], Cut]
    """The cut at a share; one of NaN where none may be given."""
    n: float
    """How many records have a value."""
    weight: float
    """Their weights added up."""
    noise: Callable[[float], float]
    """What noise adds to the variance of the share below the cut."""

    def error(self, share: float, variance: float) -> float:
        """Return the standard error of the quantile, where the share below it has a variance without noise."""
        return quantile_error(lambda p: self.at(p).value, share, math.sqrt(variance + self.noise(share)))


Found = tuple[list[tuple[CellAggregates, list[DistributionCurve]]], list[CellAggregates]]
"""Tables with the curves of their cells, and the tables of which counts were used."""


def read_off(question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None) -> Found:
    """Return curves of noisy counts of bins that were frozen with the data set, of the table of some sides and of its margins."""
    beyond, noise = question.policy.counts.beyond, question.policy.counts.sd * (weight.large if weight else 1.0)
    whole = spread_over(question, sides, VariableBins.of(variable, variable.grid), weight)

    def curve(spread: BinCounts) -> DistributionCurve:
        return DistributionCurve(
            lambda share: cut_at(spread, share, beyond), float(spread.counts.sum()), float(spread.weights.sum()),
            lambda share: noise_variance(spread, share, noise),
        )  # fmt: skip

    found: list[tuple[CellAggregates, list[DistributionCurve]]] = []
    used: list[CellAggregates] = []
    for margin in whole.margins(keep=1):
        table = margin.without_last()
        needed = [next(bins for most, bins in _CURVE_BINS if size < most) for size in noisy_counts(table)]
        made = {}
        for most in sorted(set(needed)):
            used.append(margin.regrouped(*coarser(variable, most)))
            made[most] = dict(spreads(used[-1], weight))
        places = zip(np.ndindex(table.counts.shape), needed, strict=True)
        found.append((table, [curve(made[most][place]) for place, most in places]))
    return found, used


def looked_up(question: Question, variable: Variable, sides: Sequence[Variable], weight: Weight | None) -> Found:
    """Return curves whose cuts are the values of records: each the smallest that at least the share does not exceed."""
    x, beyond = variable.numbers, question.policy.counts.beyond
    there = f"CASE WHEN {x} IS NULL THEN NULL ELSE"
    values = {"one": f"{there} 1 END"} | ({"w": f"{there} w END"} if weight else {})
    sums = {"n": Sum("one", parts=0)} | ({"w": Sum("w", weight.scale)} if weight else {})

    def curve(table: CellAggregates, place: tuple[int, ...]) -> DistributionCurve:
        n = float(table.sums["n"][place])
        total = float(table.sums["w"][place]) if weight else n
        chosen = np.zeros(table.counts.shape, bool)
        chosen[place] = True
        where = f"{question.records} AND {x} IS NOT NULL AND ({condition(table.variables, chosen)})"

        @cache
        def at(share: float) -> Cut:
            if not n or n * share < beyond or n * (1 - share) < beyond:
                return Cut()
            rank = share * total * (1 - 1e-13)  # 0.1 times 30 is not above 3
            scale = ("w", weight.scale) if weight else None
            value = order_statistic(question.dataset.warehouse, x, rank, where, scale)
            return Cut(value, value)

        return DistributionCurve(at, n, total, lambda _: 0.0)

    tables = CellAggregates.of(question, sides, AggregateRequest(values, sums)).margins()
    return [(table, [curve(table, place) for place in np.ndindex(table.counts.shape)]) for table in tables], tables
