"""Distributions of both files: bins of numbers, shares of cells, distribution functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato import kernels
from sfumato.contract import param
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError
from sfumato.kernels.classes import classes
from sfumato.schema import Scale
from sfumato.schema.hierarchy import label_of
from sfumato.typing import Codes, Numbers, Whole
from sfumato.utility.comparison import weights_of
from sfumato.utility.recoded_values import LabelCells, column_numbers, covered_values, read_numbers, spread_amounts

if TYPE_CHECKING:
    from sfumato.kernels.column_pairs import Gaps

Binning = Literal["quantiles", "equal widths"]


def bins_parameter(default: int) -> Any:
    """Declare the parameter `bins`."""
    return param(default=default, doc="into how many bins numbers are sorted", low=2, high=10_000, integer=True)


def binning_parameter() -> Any:
    """Declare the parameter `binning`."""
    return param(
        default="quantiles",
        doc="bins that hold the same share of the original's records, or that are equally wide",
        choices=("quantiles", "equal widths"),
    )


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins that are open below and closed above: bin i holds the numbers in (edges[i - 1], edges[i]]."""

    edges: Numbers
    """They rise, shape (b - 1,); the first and the last of the b bins have no end."""
    values: Numbers | None
    """The numbers that have a bin each, where the original has few different ones; else None."""

    def __len__(self) -> int:
        return len(self.edges) + 1

    def find(self, x: Numbers) -> Whole:
        """Return the bin of each number; that of NaN means nothing."""
        return np.searchsorted(self.edges, x, side="left")


def bins_of(x: Numbers, weights: Numbers | None, bins: int, binning: Binning, name: str = "") -> Bins:
    """Fix bins from the known numbers of an original, shape (n,), none of them NaN; `weights` are theirs.

    Quantiles are those of the weighted distribution function: the smallest number that has at least the share k/bins at or below
    it. A number so frequent that several quantiles fall on it has a bin of its own. Where there are no more different numbers
    than bins, each has one, and so has what lies between two of them.

    >>> bins_of(np.arange(1.0, 9.0), None, 4, "quantiles").edges.tolist()
    [2.0, 4.0, 6.0]
    """
    order, begins, values = kernels.sorting.sorted_runs(x)
    if len(values) <= bins:
        return Bins(_edges(values, values), values)
    if binning == "equal widths":
        if not np.isfinite(values[[0, -1]]).all() or not np.isfinite(values[-1] - values[0]):
            raise DataError(f"column '{name}' holds infinite or huge values, which equally wide bins cannot hold.")
        return Bins(np.unique(np.linspace(values[0], values[-1], bins + 1)[1:-1]), None)
    ends = begins[1:]
    below = ends.astype(np.float64) if weights is None else np.cumsum(weights[order])[ends - 1]
    # what rounding takes from a sum must not push a quantile to the next number
    quantiles = values[np.searchsorted(below, np.arange(1, bins) * (below[-1] / bins) * (1 - 1e-12), side="left")]
    return Bins(_edges(quantiles, quantiles[1:][quantiles[1:] == quantiles[:-1]]), None)


def _edges(upper: Numbers, alone: Numbers) -> Numbers:
    """Return the upper ends of bins; the numbers in `alone` get a bin that holds nothing else."""
    return np.unique(np.concatenate([upper, np.nextafter(alone, -np.inf)]))


# --- Two files as shares of the same cells: categories as they are, numbers in bins, missing values as a cell of their own.
#
# The cells are those that the original has. What is released as a broader category (a node of the column's hierarchy, an
# interval of numbers) is spread evenly over the values it covers; whatever else is released lies in no cell of the original.
# Tables of several columns are kept as the combinations that occur: the cross product is never formed.


MISSING = 0
"""The cell of missing values."""
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of both files: n original records in m cells, t released records with labels that mean cells."""

    cells: Codes
    labels: Codes
    meaning: LabelCells


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of c cells that the original has, in both files."""

    original: Numbers
    released: Numbers
    elsewhere: float
    """The share of the release that lies in none of them."""


def coded(
    original: Microdata, released: Microdata, name: str, weights: Numbers | None, bins: int, binning: Binning
) -> Coded:
    """Return one column of both files in cells; `weights` are the original's, for quantiles.

    Of a column that was not released no record lies in a cell.
    """
    if name not in released.engine.kinds:
        own = coded(original, original, name, weights, bins, binning)
        return Coded(own.cells, np.full(len(released), own.meaning.count, np.int32), own.meaning)
    kind, ordered = original.kind(name), original.schema[name].scale is Scale.ORDERED
    if kind is Kind.DATE or (kind is Kind.NUMBER and ordered):  # numbers without an order are codes of categories
        return _numbers(original, released, name, weights, bins, binning)
    return _categories(original, released, name)


def shares(columns: Sequence[Coded], weights: Numbers | None, released_weights: Numbers | None) -> Shares:
    """Return the table of some columns in both files: the shares of the cells that occur in the original."""
    cells, original = _occurring([c.cells for c in columns], weights)
    labels, amounts = _occurring([c.labels for c in columns], released_weights)
    released = spread_amounts(cells, labels, amounts, [c.meaning for c in columns])
    elsewhere = 1.0 - float(released.sum())
    return Shares(original, released, elsewhere if elsewhere > _ROUNDING else 0.0)


# -- distances


def total_variation(s: Shares) -> float:
    """Return half the sum of the absolute differences, from 0 to 1: the share of records that would have to change cell."""
    return min((float(np.abs(s.original - s.released).sum()) + s.elsewhere) / 2, 1.0)


def hellinger(s: Shares) -> float:
    """Return sqrt(½ Σ (√p - √q)²), from 0 to 1."""
    apart = np.square(np.sqrt(s.original) - np.sqrt(s.released)).sum()
    return min(float(np.sqrt((apart + s.elsewhere) / 2)), 1.0)


def mean_difference(s: Shares) -> float:
    """Return the mean absolute difference for each cell of the original, from 0 to 1; what lies elsewhere is added to the sum.

    It does not count as a cell: then a table would be better for a first record there. A lone cell has all others beside it.
    """
    return (float(np.abs(s.original - s.released).sum()) + s.elsewhere) / max(len(s.original), 2)


# -- inside


def _occurring(columns: Sequence[Codes], weights: Numbers | None) -> tuple[list[Codes], Numbers]:
    """Return the combinations of codes that occur, column by column, and the share of the records that has each, above 0."""
    n = len(columns[0])
    found, sizes = classes(columns, n)
    first = np.empty(len(sizes), np.int64)
    first[found] = np.arange(n)
    if weights is None:
        return [codes[first] for codes in columns], sizes / max(n, 1)
    amounts = np.bincount(found, weights, len(sizes))
    kept = np.flatnonzero(amounts)  # records without weight fill no cell
    return [codes[first[kept]] for codes in columns], amounts[kept] / max(amounts.sum(), np.finfo(float).tiny)


def _numbers(
    original: Microdata, released: Microdata, name: str, weights: Numbers | None, bins: int, binning: Binning
) -> Coded:
    batch = original.batch([name])

    def place() -> tuple[Bins, Codes]:
        x = column_numbers(batch, name)
        known = ~np.isnan(x)
        fixed = bins_of(x[known], None if weights is None else weights[known], bins, binning, name)
        return fixed, _placed(fixed, x)

    # bins by weight depend on another column, so they are not kept
    key = ("bins", bins, binning, original.schema[name].missing)
    fixed, cells = batch.column(name).remember(key, place) if weights is None else place()
    reading = read_numbers(original, released, name, fixed.values)
    first = len(fixed) + 1  # the first label beyond those that are cells
    labels = np.where(reading.place < 0, _placed(fixed, reading.numbers), first + reading.place)
    if not reading.spreads:
        return Coded(cells, labels.astype(np.int32), LabelCells.none(first))
    of = np.repeat(np.arange(len(reading.spreads)), [len(points) for points in reading.spreads])
    found, times = np.unique(of * first + fixed.find(np.concatenate(reading.spreads)) + 1, return_counts=True)
    return Coded(cells, *LabelCells.of(labels, first, first + found // first, found % first, times))


def _placed(bins: Bins, x: Numbers) -> Codes:
    return np.where(np.isnan(x), MISSING, bins.find(x) + 1).astype(np.int32)


def _categories(original: Microdata, released: Microdata, name: str) -> Coded:
    before, after = original.batch([name]), released.batch([name])
    (codes, values), (theirs, labels) = before.column(name).codes, after.column(name).codes
    first = len(values) + 1
    name_of = _truth if Kind.BOOLEAN in (before.column(name).kind, after.column(name).kind) else label_of
    cell = {name_of(value): i for i, value in enumerate(values, 1)}
    table = np.array([cell.get(name_of(label), -1) for label in labels] + [MISSING])
    covered: list[tuple[int, int]] = []
    if len(strange := np.flatnonzero(table < 0)):
        known = np.unique(codes[~before.missing(name)])
        hierarchies = original.schema[name].hierarchy, released.schema[name].hierarchy
        under = covered_values([values[i] for i in known], [labels[i] for i in strange], hierarchies)
        for i, places in zip(strange.tolist(), under, strict=True):
            table[i] = MISSING if places is None else first + i
            covered += [(first + i, int(known[place]) + 1) for place in places or ()]
    cells = np.where(before.missing(name), MISSING, codes + 1)
    given = np.where(after.missing(name), MISSING, table[theirs])
    label, under_it = np.array(covered, np.int64).reshape(-1, 2).T
    return Coded(cells.astype(np.int32), *LabelCells.of(given, first, label, under_it, np.ones(len(label), np.int64)))


def _truth(value: object) -> str:
    """Return the name of true and false however a file spells them; of another value its label."""
    text = label_of(value)
    return {"true": "1", "false": "0"}.get(text.casefold(), text)


# --- Numbers as distribution functions: sorted, with the share of the known ones at or below each.


@dataclass(frozen=True, eq=False)
class KnownNumbers:
    """The different known numbers of a file, from the smallest up, shape (k,)."""

    values: Numbers
    shares: Numbers
    """The share of the known values that is at or below each, shape (k,); the last is 1."""
    known: float
    """The share of the file's records that have a number."""


def original_sample(data: Microdata, name: str, weighted: bool) -> KnownNumbers:
    """Return the numbers of the original."""
    batch, weights = data.batch([name]), weights_of(data, weighted)
    numbers = batch.numbers(name)
    if weights is not None:
        return sample(numbers, weights)
    found: KnownNumbers = batch.column(name).remember(
        ("sample", data.schema[name].missing), lambda: sample(numbers, None)
    )
    return found


def released_sample(original: Microdata, released: Microdata, name: str, weighted: bool) -> KnownNumbers:
    """Return the released numbers; intervals are spread evenly over what they cover, and other labels are missing."""
    reading, weights = read_numbers(original, released, name), weights_of(released, weighted)
    if not reading.spreads:
        return sample(reading.numbers, weights)
    each = np.ones(len(reading.numbers)) if weights is None else weights
    amounts = np.bincount(reading.place + 1, each, len(reading.spreads) + 1)[1:]
    parts = [np.full(len(p), a / len(p)) for p, a in zip(reading.spreads, amounts, strict=True)]
    exact = reading.place < 0  # what was spread stands at its numbers now
    return sample(np.concatenate([reading.numbers[exact], *reading.spreads]), np.concatenate([each[exact], *parts]))


def sample(x: Numbers, weights: Numbers | None) -> KnownNumbers:
    """Sort numbers, shape (n,), NaN where missing; those without weight do not count."""
    counted = ~np.isnan(x) if weights is None else ~np.isnan(x) & (weights > 0)
    if not counted.any():
        return KnownNumbers(np.empty(0), np.empty(0), 0.0)
    whole = bool(counted.all())
    order, begins, values = kernels.sorting.sorted_runs(x if whole else x[counted])
    ends = begins[1:]
    if weights is None:
        return KnownNumbers(values, ends / len(order), len(order) / len(x))
    total = np.cumsum((weights if whole else weights[counted])[order])
    return KnownNumbers(values, total[ends - 1] / total[-1], min(float(total[-1] / weights.sum()), 1.0))


def gaps(one: KnownNumbers, other: KnownNumbers) -> Gaps:
    """Return how far two samples, neither of them empty, are apart."""
    return kernels.column_pairs.ecdf_gaps(one.values, one.shares, other.values, other.shares)
