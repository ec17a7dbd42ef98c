"""Count the values of a variable where the records live: for cutpoints, grids and top codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sfumato.data.columns import Kind
from sfumato.data.engine import Rows
from sfumato.data.exact_sums import combined, exact_sums, scale_of
from sfumato.data.microdata import Microdata, numbers_of
from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.mas.aggregate import VariableBins
from sfumato.mas.cutpoints import Cutpoints, ValueCounts, roundest
from sfumato.mas.dataset import Weight
from sfumato.mas.preparation import find_variables
from sfumato.mas.variable import Variable
from sfumato.schema.attribute import Attribute
from sfumato.typing import Numbers

# --- counting
# Value counts for the custodian's cutpoints: exact for few records, on a fine grid for many.

_EXACT = 1_000_000
"""Up to this many records in this process, distinct values are counted exactly."""
_STEPS = 5_000
"""Steps of the grid between the 0.5th and the 99.5th percentile, at least."""
_FINE = 2**14
_TAIL = 0.005
_OCTAVES = 1_100


@dataclass(frozen=True)
class Counted:
    """The value counts of a variable; confidential."""

    tally: ValueCounts
    step: float = 0.0
    """Width of the grid to which values were rounded up; 0 if they are exact."""

    def settled(self, cut: Cutpoints) -> Cutpoints:
        """Return cutpoints with their edges on the grid, so that every bin holds the records that the counts show."""
        if not self.step:
            return cut
        edges = (_on_grid(math.floor(edge / self.step + 1e-9), self.step) for edge in cut.edges)
        return replace(cut, edges=tuple(edges), counts=cut.counts, missing=cut.missing)


def count_values(data: Microdata, name: str) -> Counted | None:
    """Count the values of a numerical variable where the data live; None if every value is missing.

    For data in Spark, or very many records, only counts on a grid of round steps are returned: no original value.
    """
    attribute = data.schema[name]
    if data.kind(name) is not Kind.NUMBER and not attribute.values:
        raise DataError(
            f"variable '{name}' does not hold numbers, so it takes no cutpoints. Group its levels by a recode."
        )
    if data.engine.name != "Spark" and len(data) <= _EXACT:
        found = data.engine.group([name])
        values = numbers_of(found.columns[name], attribute)
        if np.isnan(values).all():
            return None
        tally = ValueCounts.of(values, found.counts)
        _check_whole(attribute, tally.whole)
        return Counted(tally)
    return _on_a_grid(data, name)


def _check_whole(attribute: Attribute, whole: bool) -> None:
    if attribute.integer and not whole:
        raise DataError(f"variable '{attribute.name}' is said to hold whole numbers, and does not. Correct the schema.")


def count_numbers(data: Microdata) -> dict[str, Counted]:
    """Count the numerical variables without levels of their own; leave out those without values."""
    names = [v.name for v in find_variables(data, {}) if v.numeric and not v.levels]
    return {name: found for name in names if (found := count_values(data, name)) is not None}


def _on_a_grid(data: Microdata, name: str) -> Counted | None:
    attribute = data.schema[name]

    def sizes(rows: Rows) -> Numbers:
        """Count missing values, fractional ones, and those of each octave, negative and positive."""
        x = numbers_of(rows.columns[name], attribute)
        finite = x[np.isfinite(x)]
        octave = np.where(finite == 0, 0, np.sign(finite) * (np.frexp(finite)[1] + _OCTAVES)).astype(np.int64)
        counted = np.bincount(octave + 3 * _OCTAVES, minlength=6 * _OCTAVES)
        return np.array([np.isnan(x).sum(), (finite % 1 != 0).sum(), *counted], np.float64)

    missing, broken, *octaves = data.engine.reduce(sizes, [name])
    if not sum(octaves):
        return None
    _check_whole(attribute, not broken)
    low, high = _ends(np.array(octaves))

    def histogram(rows: Rows) -> Numbers:
        x = numbers_of(rows.columns[name], attribute)
        place = np.clip(np.floor((x[~np.isnan(x)] - low) / (high - low) * _FINE), 0, _FINE - 1)
        return np.bincount(place.astype(np.int64), minlength=_FINE).astype(np.float64)

    reached = np.cumsum(data.engine.reduce(histogram, [name]))
    first, last = np.searchsorted(reached, [_TAIL * reached[-1], (1 - _TAIL) * reached[-1]])
    inner = (low + (high - low) * first / _FINE, low + (high - low) * (last + 1) / _FINE)
    span = inner[1] - inner[0]
    step = _round_step(span / _STEPS)
    whole = not broken
    step = max(step, 1.0) if whole else step
    start, end = math.floor(max(low, inner[0] - span) / step), math.ceil(min(high, inner[1] + span) / step)

    def counts(rows: Rows) -> Numbers:
        x = numbers_of(rows.columns[name], attribute)
        place = np.clip(np.ceil(x[~np.isnan(x)] / step - 1e-9), start, end) - start
        return np.bincount(place.astype(np.int64), minlength=end - start + 1).astype(np.float64)

    found = data.engine.reduce(counts, [name])
    values = [_on_grid(i, step) for i in range(start, end + 1)]
    tally = ValueCounts.of(np.array([*values, np.nan]), np.array([*found, missing]), whole)
    return Counted(tally, 0.0 if whole and step == 1 else step)


def _ends(octaves: Numbers) -> tuple[float, float]:
    """Return powers of two that enclose all values except the tails."""
    reached = np.cumsum(octaves) / octaves.sum()
    inside = [int(np.searchsorted(reached, share)) - 3 * _OCTAVES for share in (_TAIL / 2, 1 - _TAIL / 2)]

    def bounds(octave: int) -> tuple[float, float]:
        if octave == 0:
            return 0.0, 0.0
        power = abs(octave) - _OCTAVES
        ends = (math.ldexp(1.0, max(power - 1, -900)), math.ldexp(1.0, min(power, 1000)))
        return ends if octave > 0 else (-ends[1], -ends[0])

    low, high = bounds(inside[0])[0], bounds(inside[1])[1]
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _round_step(most: float) -> float:
    """Return the largest of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that does not exceed a number."""
    power = math.floor(math.log10(most))
    return max(s for k in (1, 2, 5) if (s := _on_grid(k, float(f"1e{power}"))) <= most * (1 + 1e-9))


def _on_grid(count: int, step: float) -> float:
    """Return `count` steps as an exact decimal: 3 × 0.1 is 0.3."""
    return float(f"{count * step:.15g}")


def decile_edges(tally: ValueCounts) -> tuple[float, ...]:
    """Return the edges of ten bins of about equal counts; fewer, where values are frequent."""
    edges = {tally.quantile(share / 10) for share in range(1, 10)}
    return tuple(sorted(edges - {tally.high}))


def deciles(counted: Mapping[str, Counted]) -> dict[str, Cutpoints]:
    """Return cutpoints at the deciles of variables; a variable with one value has none."""
    return {
        name: Cutpoints(edges, whole=found.tally.whole)
        for name, found in counted.items()
        if (edges := decile_edges(found.tally))
    }


# --- grid
# Round edges of many bins of a variable, frozen with the data set: the basis of quantiles and histograms.


MOST = 64
"""Most bins of a grid."""
_FEWEST = 20
"""Fewest records in each bin."""
_FINE_GRID = 4096


def round_grid(variable: Variable, warehouse: Warehouse, n: int, ends: tuple[float, float]) -> tuple[float, ...]:
    """Return edges that cut the values into at most 64 bins of about equal counts, with at least 20 records each.

    An edge is the roundest number within a quarter of a bin of its position; the custodian's cutpoints are among the edges.
    `ends` encloses most values: between them quantiles are read from a fine histogram.
    """
    bins = min(MOST, n // (2 * _FEWEST))
    if bins < 2:
        return ()
    low, high = ends
    wanted = list(variable.cutpoints.edges) if variable.cutpoints is not None else []
    if low < high:
        x, width = variable.numbers, (high - low) / _FINE_GRID
        found = warehouse.ask(
            f"SELECT CAST(floor(({x} - {low!r}) / {width!r}) AS BIGINT) AS bin, count(*) AS n FROM records "  # noqa: S608
            f"WHERE {x} >= {low!r} AND {x} <= {high!r} GROUP BY 1"
        )
        below = warehouse.ask(f"SELECT count(*) AS n FROM records WHERE {x} < {low!r}")["n"][0]  # noqa: S608
        order = np.argsort(found["bin"])
        reached = below + np.cumsum(found["n"][order])
        start = low + found["bin"][order] * width
        quarters = start[np.minimum(np.searchsorted(reached, np.arange(4 * bins + 1) / (4 * bins) * n), len(start) - 1)]
        for j in range(4, 4 * bins, 4):
            first, near, last = (float(q) for q in quarters[[j - 1, j, j + 1]])
            wanted.append(roundest(first, last, near, variable.integer))
    return _filled(variable, warehouse, sorted({float(edge) for edge in wanted}))


def _filled(variable: Variable, warehouse: Warehouse, edges: list[float]) -> tuple[float, ...]:
    """Return the edges that leave enough records in each bin."""
    if not edges:
        return ()
    code = VariableBins.of(variable, edges).codes
    found = warehouse.ask(f"SELECT {code} AS bin, count(*) AS n FROM records GROUP BY {code}")  # noqa: S608 - ours
    counts = np.zeros(len(edges) + 2, np.int64)
    counts[found["bin"]] = found["n"]
    kept: list[float] = []
    held = 0
    for edge, count in zip(edges, counts, strict=False):
        held += int(count)
        if held >= _FEWEST:
            kept.append(edge)
            held = 0
    enough = held + int(counts[len(edges)]) >= _FEWEST
    return tuple(kept if enough else kept[:-1])  # the last bin absorbs the one before it


# --- order statistic
# The value of a given rank, found by histograms that are refined around it.
#
# Only counts of bins leave the engine, and the ends of the one bin that holds the rank: no value of any other bin.


_BINS = 2048
_PASSES = 12


def order_statistic(
    warehouse: Warehouse,
    column: str,
    rank: float,
    where: str = "TRUE",
    weight: tuple[str, float] | None = None,
    ends: tuple[float, float] | None = None,
) -> float:
    """Return the smallest value up to which the records, or their weights, add up to `rank`; NaN if they never do.

    `weight` is a column and a power of two that it does not exceed; `ends` are the smallest and the largest value, if known. The
    value is exact.
    """
    low, high = ends or _order_statistic_ends(warehouse, column, where)
    below = 0.0
    for _ in range(_PASSES):
        if not low < high:  # one value, or none
            break
        width = max((high - low) / _BINS, math.ulp(max(abs(low), abs(high))))
        name, scale = weight or ("1", 1.0)
        parts = 2 if weight else 0
        sums = ", ".join(exact_sums("w", name, scale, parts))
        bin_of = f"CAST(floor(({column} - {low!r}) / {width!r}) AS BIGINT)"
        inside = f"{column} >= {low!r} AND {column} <= {high!r} AND ({where})"
        bins = warehouse.ask(
            f"SELECT bin, {sums} FROM (SELECT {'w, ' if weight else ''}{bin_of} AS bin FROM records "  # noqa: S608 - our own names
            f"WHERE {inside}) AS binned GROUP BY bin"
        )
        order = np.argsort(bins["bin"])
        added = np.stack([bins[f"w_{i}"] for i in range(max(parts, 1))])
        reached = below + np.cumsum(combined(added.astype(np.int64), scale, parts)[order])
        at = min(int(np.searchsorted(reached, rank)), len(order) - 1)
        below = float(reached[at - 1]) if at else below
        low, high = _order_statistic_ends(warehouse, column, f"{inside} AND {bin_of} = {int(bins['bin'][order[at]])}")
    return low


def _order_statistic_ends(warehouse: Warehouse, column: str, where: str) -> tuple[float, float]:
    found = warehouse.ask(f"SELECT min({column}) AS low, max({column}) AS high FROM records WHERE {where}")  # noqa: S608
    return float(found["low"][0]), float(found["high"][0])


# --- tails
# Statistics of a column that perturbation needs, computed as aggregates where the records live.


TAIL = 0.995
"""Where the tail of a variable, and of the weights, begins."""
FEWEST = 20
"""A tail that is replaced by its mean has at least this many records."""


def with_tails(variable: Variable, warehouse: Warehouse) -> Variable:
    """Return a numerical variable with its scale, its top and bottom codes, and the edges of its grid."""
    x = variable.numbers
    found = warehouse.ask(
        f"SELECT min({x}) AS low, max({x}) AS high, count({x}) AS n, count(*) AS records FROM records"  # noqa: S608
    )
    n, gaps = int(found["n"][0]), bool(found["n"][0] < found["records"][0])
    if not n:
        return replace(variable, gaps=gaps)
    # the FEWEST-th value from the end, if it lies further inside
    rank = max(min(math.ceil(TAIL * n), n - FEWEST + 1), 1)
    ends = float(found["low"][0]), float(found["high"][0])
    upper, lower = (order_statistic(warehouse, x, at, ends=ends) for at in (rank, n + 1 - rank))
    scale, centre = scale_of(max(map(abs, ends))), _centre(lower, upper)
    negative = ends[0] < 0
    return replace(
        variable, centre=centre, scale=scale_of(max(abs(end - centre) for end in ends)), gaps=gaps,
        top=(upper, _mean(warehouse, x, scale, f"{x} >= {upper!r}")),
        bottom=(lower, _mean(warehouse, x, scale, f"{x} <= {lower!r}")) if negative else None,
        grid=round_grid(replace(variable, gaps=gaps), warehouse, n, (lower, upper)),
    )  # fmt: skip


def _centre(low: float, high: float) -> float:
    """Return the middle of a range, rounded to a multiple of the power of two at or above its length: subtraction is exact.

    >>> _centre(0, 90_000), _centre(2001, 2015), _centre(1e9, 1e9 + 3), _centre(7.5, 7.5)
    (0.0, 2016.0, 1000000000.0, 7.5)
    """
    if not low < high:
        return low
    unit = scale_of(high - low)
    return round((low + high) / 2 / unit) * unit


def _mean(warehouse: Warehouse, column: str, scale: float, where: str) -> float:
    """Return a mean that is the same in every engine."""
    sums = ", ".join(exact_sums("s", column, scale))
    found = warehouse.ask(f"SELECT count({column}) AS n, {sums} FROM records WHERE {where}")  # noqa: S608 - our own names
    parts = np.array([found["s_0"], found["s_1"]], np.int64)
    return float(combined(parts, scale)[0] / found["n"][0])


def weight_facts(warehouse: Warehouse) -> Weight | None:
    """Return the statistics of survey weights that perturbation needs; None without weights."""
    if "w" not in warehouse.columns:
        return None
    found = warehouse.ask("SELECT min(w) AS low, max(w) AS high, count(w) AS n FROM records")
    ends, rank = (float(found["low"][0]), float(found["high"][0])), math.ceil(TAIL * float(found["n"][0]))
    scale = scale_of(ends[1])
    mean, square = (_mean(warehouse, text, size, "TRUE") for text, size in (("w", scale), ("w * w", scale**2)))
    return Weight(scale, order_statistic(warehouse, "w", rank, ends=ends), mean, square / mean**2)
