"""Count the values of a variable where the records live: for cutpoints, grids and top codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sfumato.data.aggregates import bins_sql
from sfumato.data.columns import Kind
from sfumato.data.engine import Rows
from sfumato.data.exact_sums import combined, exact_sums, scale_of
from sfumato.data.microdata import Microdata, numbers_of
from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.mas.codebook import Weight
from sfumato.mas.cutpoints import Cutpoints, ValueCounts
from sfumato.mas.perturbation import Secret
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


# --- public facts
# Bounds, spreads, shares and grids of variables, read off noisy counts when a version is frozen. They are public from then on, and
# what they tell of each record is charged to every account.


TAIL = 0.995
"""Where the tail of the weights begins."""
_LEADING = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_POWERS = range(-6, 13)
_SURE = 4.5
"""A bin is taken for occupied above so many standard deviations of its noise."""
_REFINED = 2
"""How often the range of a variable is cut into bins again."""
_BINS_EACH = 128
MOST = 64
"""Most bins of a grid."""
_FEWEST = 20
"""Fewest records in each bin of a grid."""


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Reads public facts off noisy counts of a prepared version."""

    warehouse: Warehouse
    secret: Secret
    contents: Mapping[str, str]
    n: int

    @property
    def sd(self) -> float:
        """Standard deviation of the noise on a count at freezing."""
        return float(np.clip(self.n / 1_000, 8.0, 20.0))

    @property
    def table_loss(self) -> float:
        """What one such table of a confidential variable tells of a record: it may move from one bin to another."""
        return 2 / self.sd**2

    def loss(self, variables: Iterable[Variable]) -> float:
        """Return what all facts together tell of a record."""
        tables = sum(
            (1 + _REFINED) * v.numeric + bool(v.levels) for v in variables if not v.known and v.base is None
        )
        return tables * self.table_loss

    def of(self, variable: Variable, given: tuple[float | None, float | None] = (None, None)) -> Variable:
        """Return a variable with its public facts; `given` are bounds from the schema or the custodian."""
        found = self._with_shares(variable) if variable.levels else variable
        return self._with_bounds(found, given) if variable.numeric else found

    def _noisy(self, code: str, bins: int, purpose: str, name: str) -> Numbers:
        found = self.warehouse.ask(f"SELECT {code} AS bin, count(*) AS n FROM records GROUP BY {code}")  # noqa: S608 - ours
        counts = np.zeros(bins)
        counts[np.asarray(found["bin"], np.int64)] = found["n"]
        keys = [f"{name}/{self.contents.get(name, '')}/{self.n}/{i}".encode() for i in range(bins)]
        return counts + self.sd * self.secret.normals(keys, f"frozen {purpose}")

    def _with_shares(self, variable: Variable) -> Variable:
        if variable.base is not None:
            base = np.array(variable.base.shares)
            return replace(variable, shares=tuple(np.bincount(variable.groups, base, len(variable.levels)).tolist()))
        noisy = np.maximum(self._noisy(variable.codes, len(variable.levels), "shares", variable.name), self.sd)
        return replace(variable, shares=tuple(np.round(noisy / noisy.sum(), 6).tolist()))

    def _with_bounds(self, variable: Variable, given: tuple[float | None, float | None]) -> Variable:
        ends = self._lattice_ends(variable, given)
        if ends is None:
            return variable
        edges, counts = np.zeros(0), np.zeros(0)
        for step in range(_REFINED):
            edges = _round_edges(*ends, variable.integer)
            counts = self._noisy(bins_sql(variable.numbers, edges.tolist()), len(edges) + 2, f"bins {step}", variable.name)
            if step == _REFINED - 1:
                break
            there = np.flatnonzero(counts[: len(edges) + 1] > _SURE * self.sd)
            if len(there):
                nearer = (
                    ends[0] if given[0] is not None else float(edges[max(there[0] - 1, 0)]),
                    ends[1] if given[1] is not None else float(edges[min(there[-1], len(edges) - 1)]),
                )
                ends = nearer if nearer[0] < nearer[1] else ends  # equal where nearly all values are one
        low, high = (float(e) for e in ends)
        inside = np.where(counts[: len(edges) + 1] > self.sd, counts[: len(edges) + 1], 0.0)
        middles = np.clip(np.r_[low, (edges[:-1] + edges[1:]) / 2, high], low, high)
        weight = inside / inside.sum() if inside.sum() > 0 else np.full(len(inside), 1 / len(inside))
        middle = float(weight @ middles)
        spread = float(np.sqrt(weight @ np.square(middles - middle))) / (high - low)
        return replace(
            variable, bounds=(low, high), middle=float(f"{middle:.6g}"), spread=round(min(max(spread, 0.02), 0.5), 4),
            grid=self._grid(variable, edges, counts[: len(edges) + 1]),
        )  # fmt: skip

    def _lattice_ends(self, variable: Variable, given: tuple[float | None, float | None]) -> tuple[float, float] | None:
        """Return ends that enclose nearly all values: given ones, else those of the occupied bins of a fixed lattice."""
        positive = [m * 10.0**p for p in _POWERS for m in _LEADING]
        lattice = np.array([*(-e for e in reversed(positive)), 0.0, *positive])
        counts = self._noisy(bins_sql(variable.numbers, lattice.tolist()), len(lattice) + 2, "lattice", variable.name)
        there = np.flatnonzero(counts[1 : len(lattice)] > _SURE * self.sd) + 1  # bin i lies between edges i - 1 and i
        if not len(there) and None in given:
            return None
        zero = len(positive)
        low = given[0] if given[0] is not None else 0.0 if there[0] == zero else float(lattice[there[0] - 1])
        high = given[1] if given[1] is not None else float(lattice[there[-1]])
        if high <= low:  # all values are alike
            high = low + (1.0 if variable.integer else max(abs(low), 1.0) * 0.1)
        return float(low), float(high)

    def _grid(self, variable: Variable, edges: Numbers, counts: Numbers) -> tuple[float, ...]:
        """Return edges that leave enough records in each bin by noisy counts; the custodian's cutpoints are among them."""
        fewest = max(self.n / MOST, _FEWEST + 2 * self.sd)
        kept: list[float] = []
        held = 0.0
        for edge, count in zip(edges.tolist(), counts, strict=False):
            held += float(count)
            if held >= fewest:
                kept.append(edge)
                held = 0.0
        if kept and held + float(counts[-1]) < fewest:
            kept.pop()
        wanted = variable.cutpoints.edges if variable.cutpoints is not None else ()
        return tuple(sorted({*kept, *map(float, wanted)}))


def _round_edges(low: float, high: float, whole: bool) -> Numbers:
    """Return round edges at equal distances between two ends, both of them among the edges or beyond.

    >>> _round_edges(0, 10, True).tolist()[:3], len(_round_edges(0.0, 1.0, False))
    ([0.0, 1.0, 2.0], 101)
    """
    least = (high - low) / _BINS_EACH
    power = 10.0 ** math.floor(math.log10(least))
    width = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least)
    width = max(round(width), 1.0) if whole else width
    first = math.floor(low / width + 1e-9)
    return np.round(np.arange(first, math.ceil(high / width - 1e-9) + 1) * width, 12)


def with_scale(variable: Variable, warehouse: Warehouse, n: int) -> Variable:
    """Return a variable with the unit of exact sums, which decides about last digits alone."""
    x = variable.numbers
    found = warehouse.ask(f"SELECT min({x}) AS low, max({x}) AS high, count({x}) AS n FROM records")  # noqa: S608
    gaps = int(found["n"][0]) < n
    if not int(found["n"][0]):
        return replace(variable, gaps=gaps)
    low, high = float(found["low"][0]), float(found["high"][0])
    centre = _centre(low, high)
    return replace(variable, centre=centre, scale=scale_of(max(abs(low - centre), abs(high - centre))), gaps=gaps)


def contents_of(warehouse: Warehouse, variables: Iterable[Variable], secret: Secret) -> dict[str, str]:
    """Return a keyed digest of the values of each confidential variable: it changes when any value does."""
    found: dict[str, str] = {}
    for v in variables:
        if v.known or v.base is not None:
            continue
        parts = _value_parts(v)
        listed = ", ".join(f"sum(CAST({_mixed(part)} AS BIGINT)) AS h{i}" for i, part in enumerate(parts))
        sums = warehouse.ask(f"SELECT {listed} FROM records")  # noqa: S608 - names of our own
        found[v.name] = secret.citation("contents", v.name, *(str(int(sums[f"h{i}"][0])) for i in range(len(parts))))
    return found


_MASK = 2**31 - 1


def _value_parts(variable: Variable) -> list[str]:
    """Return SQL for whole numbers that hold all digits of a variable's values."""
    parts = [f"CAST({variable.codes} AS BIGINT)"] if variable.levels else []
    if variable.numeric:
        x = f"COALESCE(({variable.numbers} - {variable.centre!r}) / {variable.scale!r}, 1.5)"
        scaled, whole = f"({x} * 1073741824.0)", f"floor({x} * 1073741824.0)"
        parts += [f"CAST({whole} AS BIGINT)", f"CAST(floor(({scaled} - {whole}) * 1073741824.0) AS BIGINT)"]
    return parts


def _mixed(part: str) -> str:
    """Return SQL for a hash of a value and the random number of its record; below 2^31."""
    one = f"((((CAST(r AS BIGINT) * 461845907 + 374761393) & {_MASK}) + (({part}) & {_MASK})) & {_MASK})"
    two = f"(({one} * 625341585) & {_MASK})"
    return f"((({two} + floor({two} / 32768)) * 461845907) & {_MASK})".replace("floor(" + two + " / 32768)", f"CAST(floor({two} / 32768) AS BIGINT)")


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


# --- weights and exact sums


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
    large = order_statistic(warehouse, "w", rank, ends=ends)
    return Weight(scale, large, mean, square / mean**2, ends[1])
