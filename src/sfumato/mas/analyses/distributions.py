"""Distributions of a variable of numbers: histograms and quantiles, from counts of bins."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses.tables import TOTAL, count_notes, plain_numbers, weight_of
from sfumato.mas.codebook import Weight
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Result, Steps, levels_of, numbers_in
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import CELLS, Moment, ProtectedCells, ProtectedSums, SumsRequest, TableSums
from sfumato.mas.survey_design import SurveyCorrelation, design_notes
from sfumato.mas.variable import MISSING, Variable, VariableBins
from sfumato.typing import Numbers

# --- bins
# How the values of a variable are spread in the cells of a table: counts of bins, from which all else is made.

_FEWEST_BINS = 8


def grid_bins(variable: Variable, most: int | None = None) -> VariableBins:
    """Return the grid of a variable in at most so many bins."""
    if not variable.grid:
        raise DataError(f"variable '{variable.name}' has too few values to be cut into bins. Choose another one.")
    bins = len(variable.grid) + 1
    step = 1 if most is None else -(-bins // most)
    return VariableBins.of(variable, variable.grid[step - 1 :: step])


def bins_for(question: Question, register: Register, cells: int) -> int | None:
    """Return in how many bins the records of each of some cells are counted; None where there is no noise.

    Of b bins about b/2 add up to a share below a value, with a noise of b/2 sd² at least: an eighth of n, which is half the
    sampling variance of the count below a median, where b is n / (4 sd²). Known variables alone decide.
    """
    sd = question.policy.counts.sd
    if not sd:
        return None
    return max(_FEWEST_BINS, int(register.count(known_part(question.selection)) / cells / (4 * sd**2)))


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Protected counts of the bins of a variable in one cell; shape (bins,)."""

    counts: Numbers
    """Of records."""
    weights: Numbers
    """Of their weights; the counts again, where there are none."""
    noise: Numbers
    """Variance of the noise of the weights."""
    edges: tuple[float, ...]
    """Where bins end; the last one is open."""
    effect: float = 1.0
    """Design effect of a share, beyond that of unequal weights."""

    def without_thin_ends(self, beyond: int) -> BinCounts:
        """Return it with bins at both ends merged, until so many records lie beyond each edge.

        >>> BinCounts(np.array([3.0, 30, 40, 25, 2]), np.zeros(5), np.zeros(5), (1, 2, 3, 4)).without_thin_ends(20).edges
        (2, 3)
        """
        reached = np.cumsum(self.counts)
        last = len(self.edges)
        first = int(np.argmax(reached[:last] >= beyond)) if (reached[:last] >= beyond).any() else last
        above = reached[-1] - reached[:last] >= beyond
        keep = [i for i in range(first, last) if above[i:].any()] if first < last else []
        starts = [0, *(i + 1 for i in keep)]
        counts, weights, noise = (np.add.reduceat(values, starts) for values in (self.counts, self.weights, self.noise))
        return BinCounts(counts, weights, noise, tuple(self.edges[i] for i in keep), self.effect)

    @property
    def n(self) -> float:
        """Number of records with a value."""
        return float(self.counts.sum())

    @cached_property
    def _rising(self) -> tuple[Numbers, Numbers]:
        return rising(self.counts), rising(self.weights)

    def value_at(self, share: float, beyond: int) -> float:
        """Return the value below which a share of the records lies, on a straight line within its bin.

        None is given (NaN) in the open bins at the ends, nor where fewer than `beyond` records lie beyond the bin.

        >>> BinCounts(np.full(4, 100.0), np.full(4, 100.0), np.zeros(4), (10, 20, 30)).value_at(0.6, 20)
        24.0
        """
        counts, weights = self._rising
        wanted = share * weights[-1]
        at = int(np.searchsorted(weights, wanted))
        if not 1 <= at < len(weights) - 1 or counts[at - 1] < beyond or counts[-1] - counts[at] < beyond:
            return math.nan
        part = (wanted - weights[at - 1]) / (weights[at] - weights[at - 1])
        return float(self.edges[at - 1] + (self.edges[at] - self.edges[at - 1]) * part)

    def share_below(self, value: float) -> float:
        """Return the share of the records up to a value, on a straight line within its bin; NaN in the open bins at the ends."""
        weights = self._rising[1]
        if not self.edges or not self.edges[0] <= value <= self.edges[-1]:
            return math.nan
        return float(np.interp(value, self.edges, weights[:-1]) / weights[-1]) if weights[-1] > 0 else math.nan

    def noise_below(self, share: float) -> float:
        """Return what noise adds to the variance of the share below the quantile at a share.

        Of a share p, the bins below add (1 − p)² times the variance of their noise, those above p², over the total's square.
        """
        weights = self._rising[1]
        below = int((weights < share * weights[-1]).sum()) + 1
        added = (1 - share) ** 2 * self.noise[:below].sum() + share**2 * self.noise[below:].sum()
        return float(added / max(float(weights[-1]), 1.0) ** 2)


def rising(values: Numbers) -> Numbers:
    """Return cumulated noisy counts, made to rise by isotonic regression: quantiles then rise with the share."""
    from scipy.optimize import isotonic_regression

    return np.maximum(isotonic_regression(np.cumsum(values)).x, 0.0)


def bin_counts(
    table: ProtectedCells, weight: Weight | None, effects: Numbers | None = None
) -> Iterator[tuple[tuple[int, ...], BinCounts]]:
    """Yield each cell of all sides but the last, and how the last is spread there; records without a value are left out.

    `effects` are design effects, where standard errors are made of the counts.
    """
    variable = table.sides[-1]
    bins = len(variable.levels) - (variable.levels[-1] == MISSING)
    edges = variable.cutpoints.edges if variable.cutpoints is not None else ()
    name = "n" if weight is None else "w"
    every = np.broadcast_to(1.0 if effects is None else effects, table.n.shape[:-1])
    for place in np.ndindex(table.n.shape[:-1]):
        counts, weights, noise = (v[place][:bins] for v in (table.n, table.sums[name], table.variances[name]))
        yield place, BinCounts(counts, weights, noise, edges, float(every[place]))


def effects_of(
    question: Question, register: Register, variable: Variable, table: ProtectedCells, weight: Weight | None
) -> Numbers:
    """Return the design effects in the cells of all sides but the last, beyond that of unequal weights."""
    correlation = SurveyCorrelation.of(variable)
    return register.design_effects(question.selection, table.sides[:-1], correlation, weight is not None)


# --- the shape of these analyses


class Distribution(Analysis, abstract=True):
    """What analyses of one variable of numbers, by groups, have in common."""

    kind = "distribution"
    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    by: tuple[str, ...] = param(default=(), doc="an answer for each cell of these", columns="many", holds="categories")

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return (numbers_in(self.of, known), *levels_of(self.by, known))

    @override
    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of(self.by, known)

    def cell(self, sides: Sequence[Variable], place: Sequence[int]) -> dict[str, Any]:
        """Return the level of each side, at the beginning of a row; that of all levels together, where a margin has none."""
        levels = {v.name: v.levels[i] for v, i in zip(sides, place, strict=False)}
        return {name: levels.get(name, TOTAL) for name in self.by}


def groups_of(sides: Sequence[Variable]) -> int:
    """Return how many cells some sides have."""
    return math.prod(len(v.levels) for v in sides)


def weight_moments(weight: Weight | None) -> dict[str, Moment]:
    """Return what is added up beside the number of records, if they have weights."""
    return {"w": Moment(weights=1)} if weight else {}


def left_out(variable: Variable) -> Iterator[str]:
    """Yield that records without a value are left out, where there are any."""
    if variable.gaps or MISSING in variable.levels:
        yield f"Records without a value of {variable.title} are left out."


# --- histogram


class Histogram(Distribution):
    """Counts of the bins of a variable of numbers, whose edges were frozen with the data set.

    The edges are the custodian's cutpoints, or round numbers that cut the whole data set into bins of about the same number of
    records. The bins at the ends are open: no smallest and no largest value is shown, and enough records lie beyond each edge.
    """

    bins: int | None = param(
        default=None, low=2, high=64, integer=True, doc="most bins; none for the cutpoints, or 16 where there are none"
    )
    weighted: bool = param(default=False, doc="whether survey weights are added up in place of records")

    @override
    def wording(self) -> str:
        return f"histogram:{self.of}:{self.by}:{self.bins}:{self.weighted}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variable, *sides = self.variables(question.codebook.variables)
        weight = weight_of(question.codebook, self.weighted)
        frozen = self.bins is None and variable.cutpoints is not None
        bins = variable if frozen else grid_bins(variable, self.bins or 16)
        sums = yield SumsRequest({"bins": TableSums((*sides, bins), weight_moments(weight))})
        tables = sums.cells("bins").margins(last=1)
        rows = [row for table in tables for row in self._rows(table, question.policy, weight)]
        return Result({"bins": rows}, notes=tuple(_histogram_notes(question.policy, variable, weight)))

    def _rows(self, table: ProtectedCells, policy: Policy, weight: Weight | None) -> Iterator[dict[str, Any]]:
        counts, cut = policy.counts, table.sides[-1].cutpoints or Cutpoints(())
        for place, spread in bin_counts(table, weight):
            kept = spread.without_thin_ends(counts.beyond)
            shown = counts.shown(kept.counts)
            if weight is not None:
                shown = np.where(np.isnan(shown), np.nan, counts.shown_weighted(kept.weights, weight.mean))
            labels = replace(cut, edges=kept.edges).labels
            ends = zip((None, *kept.edges), (*kept.edges, None), strict=True)
            for label, (low, high), count in zip(labels, ends, plain_numbers(shown), strict=True):
                yield self.cell(table.sides, place) | {self.of: label, "over": low, "up to": high, "count": count}


def _histogram_notes(policy: Policy, variable: Variable, weight: Weight | None) -> Iterator[str]:
    yield from count_notes(policy, weight)
    if policy.counts.beyond:
        yield f"Bins at the ends are merged until about {policy.counts.beyond} records lie beyond each edge."
    yield from left_out(variable)


# --- curves
# Where shares of the records of a cell lie: read off noisy counts of bins, or exact order statistics, found by refining bins.

_Z = 1.959963984540054


@dataclass(frozen=True, eq=False)
class DistributionCurve:
    """The distribution function of one cell."""

    value_at: Callable[[float], float]
    """The quantile at a share; NaN where none may be given."""
    spread: BinCounts

    def error(self, share: float, variance: float) -> float:
        """Return the standard error of a quantile (Woodruff 1952): the share that lies below is uncertain, and it moves along.

        `variance` is that of the share below without noise. The error is the distance of the quantiles at p ± 1.96 standard
        errors of the share, divided by as many; where one end is not known, the half of it.
        """
        far = _Z * math.sqrt(variance + self.spread.noise_below(share))
        low, high = (self.value_at(end) if 0 < end < 1 else math.nan for end in (share - far, share + far))
        sides = 2.0
        if math.isnan(low) or math.isnan(high):
            low, high, sides = (
                (low, self.value_at(share), 1.0) if math.isnan(high) else (self.value_at(share), high, 1.0)
            )
        return (high - low) / (sides * _Z)

    def density(self, share: float, variance: float) -> float:
        """Return the density at the quantile of a share, from counts of bins: over 1.96 standard errors, at least .05 each side."""
        far = max(_Z * math.sqrt(variance + self.spread.noise_below(share)), 0.05)
        ends = max(share - far, 0.01), min(share + far, 0.99)
        low, high = (self.spread.value_at(end, 0) for end in ends)
        if math.isnan(low) or math.isnan(high):
            middle = self.spread.value_at(share, 0)
            low, high, ends = (low, middle, (ends[0], share)) if math.isnan(high) else (middle, high, (share, ends[1]))
        return (ends[1] - ends[0]) / (high - low) if high > low else math.nan


_EDGES = 300
"""Bins of one request of a search for exact quantiles: more of them take longer than fewer requests save."""
Place = tuple[int, tuple[int, ...]]
"""A cell of a table or of one of its margins: the number of the margin, and the place in it."""
Values = Generator[SumsRequest, ProtectedSums, dict[tuple[Place, float], float]]


def order_statistics(
    sides: Sequence[Variable],
    variable: Variable,
    weight: Weight | None,
    first: ProtectedCells,
    shares: Mapping[Place, Sequence[float]],
) -> Values:
    """Find quantiles among the values of the records, for policies without noise, by counting finer and finer bins.

    Each is the smallest value that at least the share of the records, or of their weights, does not exceed. Bins are cut in four
    or more in the order of all numbers that a computer can hold, or of whole numbers, so that at most 32 requests are needed.
    """
    wanted = [(cell, share) for cell, listed in shares.items() for share in listed]
    scale = _WHOLE if variable.integer else _REAL
    low, high = ([end] * len(wanted) for end in scale.ends)
    each = max(_EDGES // max(len(wanted), 1), 3)
    if each * len(wanted) * groups_of(sides) > CELLS:
        raise DataError("these are too many quantiles for so many groups. Ask for fewer, or for coarser groups.")
    table = first
    while True:
        edges = [scale.place(edge) for edge in table.sides[-1].cutpoints.edges] if table.sides[-1].cutpoints else []
        margins = [dict(bin_counts(margin, weight)) for margin in table.margins(last=1)]
        for i, ((margin, place), share) in enumerate(wanted):
            reached = np.cumsum(margins[margin][place].weights)
            at = int(np.searchsorted(reached[:-1], share * reached[-1] * (1 - 1e-13)))  # 0.1 times 30 is not above 3
            low[i] = max(low[i], edges[at - 1]) if at else low[i]
            high[i] = min(high[i], edges[at]) if at < len(edges) else high[i]
        cuts = {a + (b - a) * k // (each + 1) for a, b in zip(low, high, strict=True) for k in range(1, each + 1)}
        cuts -= {*low, *high}
        if all(b - a <= 1 for a, b in zip(low, high, strict=True)):
            return {one: scale.number(b) for one, b in zip(wanted, high, strict=True)}
        bins = VariableBins.of(variable, [scale.number(cut) for cut in sorted(cuts)])
        sums = yield SumsRequest({"bins": TableSums((*sides, bins), weight_moments(weight))})
        table = sums.cells("bins")


@dataclass(frozen=True)
class _Order:
    """The order of the numbers of a kind: a whole number for each, its place."""

    ends: tuple[int, int]
    place: Callable[[float], int]
    number: Callable[[int], float]


def _bits(number: float) -> int:
    found: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return found if found >= 0 else -(found & (2**63 - 1))


def _from_bits(place: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<q", abs(place)))[0]
    return found if place >= 0 else -found


_REAL = _Order((_bits(-1.7e308), _bits(1.7e308)), _bits, _from_bits)
_WHOLE = _Order((-(2**53), 2**53), int, float)


# --- quantiles


class Quantiles(Distribution):
    """Quantiles of a variable of numbers, by groups if asked for.

    Under a policy with noise they are read off noisy counts of bins that were frozen with the data set, on a straight line
    within a bin: they tell no more than a histogram does, and none is the value of a record. Without noise a quantile is the
    smallest value that at least the share p of the records, or of their weights, does not exceed. Standard errors are
    Woodruff's (1952); they allow for drops and noise.
    """

    p: tuple[float, ...] = param(default=(0.25, 0.5, 0.75), doc="shares, each above 0 and below 1")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")

    @override
    def validate(self) -> None:
        given: Any = self.p if isinstance(self.p, tuple | list) else (self.p,)
        try:
            shares = sorted({math.nan if isinstance(p, bool) else float(p) for p in given})  # "0.5" on the command line
        except (TypeError, ValueError):
            shares = []
        if not shares or not all(0 < p < 1 for p in shares):
            raise ParameterError("p of quantiles must be numbers above 0 and below 1, such as 0.25, 0.5 and 0.75.")
        object.__setattr__(self, "p", tuple(shares))

    @override
    def wording(self) -> str:
        return f"quantiles:{self.of}:{self.p}:{self.by}:{self.weighted}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variable, *sides = self.variables(question.codebook.variables)
        weight = weight_of(question.codebook, self.weighted)
        table, curves = yield from curves_of(question, register, variable, sides, weight, self.p)
        rows: list[dict[str, Any]] = []
        for margin, inside in enumerate(table.margins(last=1)):
            for place in np.ndindex(inside.n.shape[:-1]):
                rows += self._rows(
                    self.cell(inside.sides, place), curves[margin, place], variable, question.policy, weight
                )
        return Result({"quantiles": rows}, notes=tuple(_quantile_notes(question, variable)))

    def _rows(
        self, cell: dict[str, Any], curve: DistributionCurve, variable: Variable, policy: Policy, weight: Weight | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a cell; quantiles and errors are empty where they are not shown."""
        values = np.array([curve.value_at(share) for share in self.p])
        errors = np.array([curve.error(share, share_variance(curve.spread, share, policy, weight)) for share in self.p])
        shown = significant(np.ceil(values) if variable.integer else values, policy.amounts.digits)
        told = significant(np.where(np.isnan(values), np.nan, errors), policy.amounts.error_digits)
        for share, value, error in zip(self.p, plain_numbers(shown), plain_numbers(told), strict=True):
            yield cell | {"p": share, "value": value, "standard error": error}


def share_variance(spread: BinCounts, share: float, policy: Policy, weight: Weight | None) -> float:
    """Return the variance of the share below a quantile, without noise: of records drawn one by one, times Kish's effect of unequal
    weights and that of the survey's design."""
    effect = spread.effect * (weight.effect if weight else 1.0)
    return policy.variance_inflation * effect * share * (1 - share) / max(spread.n, 1.0)


Curves = Generator[SumsRequest, ProtectedSums, tuple[ProtectedCells, dict[Place, DistributionCurve]]]


def curves_of(
    question: Question,
    register: Register,
    variable: Variable,
    sides: Sequence[Variable],
    weight: Weight | None,
    shares: Sequence[float],
) -> Curves:
    """Ask for the distribution of a variable in the cells of a table and of its margins; exact at some shares, without noise."""
    policy = question.policy
    if variable.bounds is None:
        raise DataError(f"variable '{variable.name}' has no values. Choose another one.")
    bins = (
        grid_bins(variable, bins_for(question, register, groups_of(sides)))
        if variable.grid
        else VariableBins.of(variable, ())
    )
    sums = yield SumsRequest({"bins": TableSums((*sides, bins), weight_moments(weight))})
    table, beyond = sums.cells("bins"), policy.counts.beyond
    spreads: dict[Place, BinCounts] = {
        (i, place): spread
        for i, margin in enumerate(table.margins(last=1))
        for place, spread in bin_counts(margin, weight, effects_of(question, register, variable, margin, weight))
    }

    def smoothed(spread: BinCounts) -> DistributionCurve:
        return DistributionCurve(lambda share: spread.value_at(share, beyond), spread)

    if policy.counts.sd:
        return table, {cell: smoothed(spread) for cell, spread in spreads.items()}
    listed = {}
    for cell, spread in spreads.items():
        errors = [(p, _Z * math.sqrt(share_variance(spread, p, policy, weight))) for p in shares]
        ends = {end for p, far in errors for end in (p - far, p, p + far) if 0 < end < 1}
        listed[cell] = [end for end in sorted(ends) if spread.n and spread.n * min(end, 1 - end) >= beyond]
    found = yield from order_statistics(sides, variable, weight, table, listed)

    def exact(cell: Place) -> DistributionCurve:
        return DistributionCurve(lambda share: found.get((cell, share), math.nan), spreads[cell])

    return table, {cell: exact(cell) for cell in spreads}


def error_notes(question: Question, method: str = "") -> Iterator[str]:
    """Yield which standard errors an answer has; `method` names them."""
    one_by_one = not question.codebook.design
    if method or one_by_one:
        yield f"Standard errors are {method}{', ' if method and one_by_one else ''}{'for records drawn one by one' * one_by_one}."
    yield from design_notes(question.codebook.design)


def _quantile_notes(question: Question, variable: Variable) -> Iterator[str]:
    counts = question.policy.counts
    if counts.sd:
        yield f"Quantiles are read off counts of bins that have random noise (standard deviation {counts.sd:g} or more)."
    if counts.beyond:
        open_bin = ", or in an open bin at an end," if counts.sd else ""
        yield f"Quantiles with fewer than about {counts.beyond} records beyond them{open_bin} are not shown."
    yield from error_notes(question, "Woodruff's")
    yield from left_out(variable)
