"""Count the values of a variable where the records live: for cutpoints, grids and top codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sfumato.data.aggregates import bins_sql
from sfumato.data.columns import Kind
from sfumato.data.engine import Rows
from sfumato.data.exact_sums import combined, exact_sums, scale_of
from sfumato.data.microdata import Microdata, numbers_of
from sfumato.data.warehouse import Warehouse, open_warehouse
from sfumato.errors import DataError
from sfumato.mas.codebook import Weight
from sfumato.mas.cube import largest_establishment
from sfumato.mas.cutpoints import Cutpoints, NoisyCounts, ValueCounts
from sfumato.mas.perturbation import Secret
from sfumato.mas.preparation import (
    OTHER_LEVELS,
    RARE,
    LevelRecode,
    find_variables,
    level_counts,
    level_words,
    listed_levels,
    prepare,
    with_recodes,
)
from sfumato.mas.survey_design import SurveyDesign
from sfumato.mas.variable import MISSING, Variable
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
_SURE = 2.5
"""A bin beside occupied ones is taken for occupied above so many standard deviations of its noise."""
_FIRST = 4.5
"""The first occupied bin needs so many."""
_GAP = 2
"""Occupied bins have at most so many empty ones between them."""
_EMPTY = 3.0
"""Bins together hold nobody below so many standard deviations."""
_BINS_EACH = 128
MOST = 64
"""Most bins of a grid."""
_FEWEST = 20
"""Fewest records in each bin of a grid."""
_ROUGH = 2
"""Sums of pairs, which only set standard errors, have so many times the noise of a count."""


_LEAST_SD = 8.0


def frozen_sd(n: int) -> float:
    """Return the standard deviation of the noise on a count at freezing."""
    return float(np.clip(n / 1_600, _LEAST_SD, 16.0))


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Reads public facts off noisy counts of a prepared version."""

    warehouse: Warehouse
    secret: Secret
    contents: Mapping[str, str]
    """Digests of confidential variables, of numbers without their levels: cutpoints change no noise on bins of numbers."""
    n: int

    told: dict[str, float] = field(default_factory=dict)
    """How many tables were made of each variable; a sum of pairs is a part of one."""

    @classmethod
    def read(cls, warehouse: Warehouse, secret: Secret, variables: Iterable[Variable], n: int) -> PublicFacts:
        """Prepare to read the facts of some variables off prepared records; nothing is told yet."""
        plain = [replace(v, levels=()) if v.numeric and v.cutpoints is not None else v for v in variables]
        return cls(warehouse, secret, contents_of(warehouse, plain, secret), n)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise on a count at freezing."""
        return frozen_sd(self.n) * self.together

    @cached_property
    def together(self) -> int:
        """How many records are protected together."""
        return largest_establishment(self.warehouse)

    @property
    def table_loss(self) -> float:
        """What one such table of a confidential variable tells of a record: it may move from one bin to another."""
        return 2 * (self.together / self.sd) ** 2

    def loss(
        self, variables: Iterable[Variable], contents: Mapping[str, str],
        before: Iterable[tuple[Mapping[str, Variable], Mapping[str, str]]] = (),
    ) -> float:  # fmt: skip
        """Return what the facts of some variables tell of a record, where it was not told before.

        `before` are variables and contents of earlier versions: the same facts of the same values had the same noise. Cutpoints
        that were chosen from other noisy counts, of records that were registered and never frozen, are charged as these were.
        """
        earlier = list(before)

        def repeated(v: Variable) -> bool:
            source = (v.base or v).name
            return any(
                found.get(source) == contents[source] and v.name in old and _facts(old[v.name]) == _facts(v)
                for old, found in earlier
            )

        hidden = [v for v in variables if not v.known]
        tables = sum(self.told.get(v.name, 0) for v in hidden if not repeated(v))
        foreign = [v for v in hidden if v.base is None and self.is_foreign(v, [old for old, _ in earlier])]
        return tables * self.table_loss + sum(self.told.get(v.name, 0) for v in foreign) * 2 / _LEAST_SD**2

    def is_foreign(self, variable: Variable, earlier: Iterable[Mapping[str, Variable]] = ()) -> bool:
        """Return whether cutpoints were chosen from noisy counts that are neither these nor those of an earlier version."""
        source = "" if variable.cutpoints is None else variable.cutpoints.source
        mine = source.rpartition(" ")[2] == self.digest(variable)
        before = (old[variable.name].cutpoints for old in earlier if variable.name in old)
        return source.startswith("noisy") and not mine and source not in [c.source for c in before if c is not None]

    def digest(self, variable: Variable) -> str:
        """Return what names the noisy counts of a variable: other values have another one."""
        return self.secret.citation("counts", variable.name, self.contents.get(variable.name, ""), str(self.n))

    def of(
        self, variable: Variable, given: tuple[float | None, float | None] = (None, None), levels: Numbers | None = None
    ) -> Variable:
        """Return a variable with its public facts; `given` are bounds from the schema or the custodian.

        `levels` are noisy counts of its levels, if they were made before.
        """
        return self._with_correlations(self._of(variable, given, levels))

    def _of(self, variable: Variable, given: tuple[float | None, float | None], levels: Numbers | None) -> Variable:
        if variable.base is not None:
            base = np.array(variable.base.shares or [1 / len(variable.groups)] * len(variable.groups))
            return replace(variable, shares=tuple(np.bincount(variable.groups, base, len(variable.levels)).tolist()))
        if variable.numeric:
            found = self._with_bounds(variable, given)
            return found if levels is None else replace(found, shares=self._shares(levels))
        return replace(variable, shares=self._shares(self.levels_of(variable) if levels is None else levels))

    def levels_of(self, variable: Variable) -> Numbers:
        """Return noisy counts of the levels of a variable."""
        return self._noisy(variable, variable.codes, len(variable.levels), "shares")

    def grouped(self, variable: Variable, groups: Mapping[str, Sequence[int]]) -> Numbers:
        """Return noisy counts of groups of levels, by the names of the groups; the noise belongs to the name.

        So a level that is a group of its own has the same number, whatever else is grouped.
        """
        cases = " ".join(f"WHEN {i} THEN {place}" for place, group in enumerate(groups.values()) for i in group)
        return self._noisy(variable, f"CASE {variable.codes} {cases} END", len(groups), "levels", names=list(groups))

    @cached_property
    def _design(self) -> SurveyDesign:
        return SurveyDesign(self.warehouse)

    def _with_correlations(self, variable: Variable) -> Variable:
        """Return a variable with its correlations in households and strata, read off sums with twice the noise of a count.

        A sum costs an eighth of a table. Those of known variables are exact, as all that is known.
        """
        asked = self._design.pair_sums(variable)
        if asked is None:
            return variable
        errors = np.zeros(len(asked.sums))
        if not variable.known:
            errors = _ROUGH * self.sd * np.array(asked.reach)
            self.told[variable.name] = self.told.get(variable.name, 0) + len(errors) / (2 * _ROUGH**2)
        about = f"{variable.bounds}/{variable.middle!r}/{variable.spread!r}/{variable.shares}/{variable.groups}"
        source = self.contents.get((variable.base or variable).name, "")
        keys = [f"{variable.name}/{source}/{self.n}/{about}/{i}".encode() for i in range(len(errors))]
        found = iter(asked.read(errors * self.secret.normals(keys, "frozen pairs"), errors))
        if "h" in self._design.columns:
            variable = replace(variable, household_correlation=next(found))
        return replace(variable, stratum_share=next(found, 0.0))

    def _shares(self, noisy: Numbers) -> tuple[float, ...]:
        """Return shares from noisy counts; none is below what the noise would hide."""
        counts = np.maximum(noisy, self.sd)
        return tuple(float(f"{share:.4g}") for share in counts / counts.sum())

    def _noisy(
        self, variable: Variable, code: str, bins: int, purpose: str, words: str = "", names: Sequence[str] = ()
    ) -> Numbers:
        """Return the counts of bins with noise; `words` say where they end: other bins have other noise. So have other names."""
        found = self.warehouse.ask(f"SELECT {code} AS bin, count(*) AS n FROM records GROUP BY {code}")  # noqa: S608 - ours
        counts = np.zeros(bins)
        counts[np.asarray(found["bin"], np.int64)] = found["n"]
        name = variable.name
        self.told[name] = self.told.get(name, 0) + 1
        about = f"{name}/{self.contents.get(name, '')}/{self.n}/{words}"
        keys = [f"{about}/{one}".encode() for one in names or range(bins)]
        return counts + self.sd * self.secret.normals(keys, f"frozen {purpose}")

    def value_counts(
        self, variable: Variable, given: tuple[float | None, float | None] = (None, None)
    ) -> NoisyCounts | None:
        """Return value counts for the cutpoints of a variable: the noisy counts that its bounds and grid are read off.

        None if nobody seems to have a value. With the same values and bounds these are the counts that freezing takes, with the same
        noise: choosing cutpoints by them tells nothing more.
        """
        found = self._bins(variable, given)
        if found is None:
            return None
        _, edges, counts = found
        tables, digest = round(self.told[variable.name]), self.digest(variable)
        return NoisyCounts.of_bins(edges, counts, self.n, variable.integer, self.sd, digest, tables)

    def _bins(
        self, variable: Variable, given: tuple[float | None, float | None]
    ) -> tuple[tuple[float, float], Numbers, Numbers] | None:
        """Return public bounds, edges between them, and noisy counts of the bins and of missing values."""
        ends = self._lattice_ends(variable, given)
        if ends is None:
            return None
        edges, counts = self._binned(variable, ends, "bins")
        inner = self._without_empty(edges, counts)
        if inner != ends and inner[0] < inner[1] and None in given:
            ends = (inner[0] if given[0] is None else ends[0], inner[1] if given[1] is None else ends[1])
            edges, counts = self._binned(variable, ends, "finer bins")
        return ends, edges, counts

    def _with_bounds(self, variable: Variable, given: tuple[float | None, float | None]) -> Variable:
        bins = self._bins(variable, given)
        if bins is None:
            return variable
        (low, high), edges, counts = bins
        held = counts[: len(edges) + 1]
        inside = np.where(held > self.sd, held, 0.0)
        middles = np.clip(np.r_[low, (edges[:-1] + edges[1:]) / 2, high], low, high)
        weight = inside / inside.sum() if inside.sum() > 0 else np.full(len(inside), 1 / len(inside))
        middle = float(weight @ middles)
        spread = float(np.sqrt(weight @ np.square(middles - middle))) / (high - low)
        found = replace(
            variable, bounds=(low, high), middle=float(f"{middle:.6g}"), spread=round(min(max(spread, 0.02), 0.5), 4),
            grid=self._grid(variable, edges, held),
        )  # fmt: skip
        if variable.cutpoints is None:
            return found
        place = np.searchsorted(np.array(variable.cutpoints.edges), middles - 1e-9 * (high - low))
        by_level = np.asarray(np.bincount(place, held, len(variable.levels))[: len(variable.levels)], np.float64)
        return replace(found, shares=self._shares(by_level))

    def _binned(self, variable: Variable, ends: tuple[float, float], purpose: str) -> tuple[Numbers, Numbers]:
        edges = _round_edges(*ends, variable.integer)
        words = ",".join(map(repr, edges.tolist()))
        return edges, self._noisy(variable, bins_sql(variable.numbers, edges.tolist()), len(edges) + 2, purpose, words)

    def _without_empty(self, edges: Numbers, counts: Numbers) -> tuple[float, float]:
        """Return the ends of the range without the three quarters of it, or more, in which there is nobody."""
        inner = counts[1 : len(edges)]
        ends = []
        for side in (inner, inner[::-1]):
            reached = np.cumsum(side) > _EMPTY * self.sd * np.sqrt(np.arange(1, len(side) + 1))
            empty = int(np.argmax(reached)) if reached.any() else 0
            ends.append(empty if empty >= 0.75 * len(side) else 0)
        return float(edges[max(ends[0] - 1, 0)]), float(edges[len(edges) - 1 - max(ends[1] - 1, 0)])

    def _lattice_ends(self, variable: Variable, given: tuple[float | None, float | None]) -> tuple[float, float] | None:
        """Return ends that enclose nearly all values: given ones, else those of the occupied bins of a fixed lattice."""
        positive = [m * 10.0**p for p in _POWERS for m in _LEADING]
        lattice = np.array([*(-e for e in reversed(positive)), 0.0, *positive])
        if given[0] is not None and given[1] is not None:
            return given[0], given[1]
        counts = self._noisy(variable, bins_sql(variable.numbers, lattice.tolist()), len(lattice) + 2, "lattice")
        inner = counts[1 : len(lattice)]  # bin i lies between edges i - 1 and i
        zero = len(positive)
        largest = [
            int(np.argmax(inner[:zero])),
            zero + int(np.argmax(inner[zero:])),
        ]  # the lattice is fine about 0: on either side
        starts = [at for at in largest if inner[at] >= _FIRST * self.sd]
        if not starts and None in given:
            return None
        runs = [self._run(inner, at) for at in starts or [int(np.argmax(inner))]]
        there = (min(first for first, _ in runs) + 1, max(last for _, last in runs) + 1)
        low = given[0] if given[0] is not None else 0.0 if there[0] == zero else float(lattice[there[0] - 1])
        high = given[1] if given[1] is not None else float(lattice[there[-1]])
        if high <= low:  # all values are alike
            high = low + (1.0 if variable.integer else max(abs(low), 1.0) * 0.1)
        return float(low), float(high)

    def _run(self, inner: Numbers, start: int) -> tuple[int, int]:
        """Return the first and the last bin of those that are occupied, from one of them on, but for small gaps."""
        first, last, occupied = start, start, inner > _SURE * self.sd
        while (near := np.flatnonzero(occupied[last + 1 : last + 2 + _GAP])).size:
            last += 1 + int(near[-1])
        while (near := np.flatnonzero(occupied[max(first - 1 - _GAP, 0) : first])).size:
            first = max(first - 1 - _GAP, 0) + int(near[0])
        return first, last

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


def _facts(v: Variable) -> tuple[object, ...]:
    return v.bounds, v.middle, v.spread, v.shares, v.grid, v.levels, v.household_correlation, v.stratum_share


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


def with_scale(variable: Variable, warehouse: Warehouse, n: int, gaps: bool | None = None) -> Variable:
    """Return a variable with the unit of exact sums, which decides about last digits alone.

    `gaps` says whether records without a number exist, as far as users are told; otherwise it is read off the records.
    """
    x = variable.numbers
    found = warehouse.ask(f"SELECT min({x}) AS low, max({x}) AS high, count({x}) AS n FROM records")  # noqa: S608
    gaps = int(found["n"][0]) < n if gaps is None else gaps
    if not int(found["n"][0]):
        return replace(variable, gaps=gaps)
    low, high = float(found["low"][0]), float(found["high"][0])
    centre = _centre(low, high)
    return replace(variable, centre=centre, scale=scale_of(max(abs(low - centre), abs(high - centre))), gaps=gaps)


def contents_of(warehouse: Warehouse, variables: Iterable[Variable], secret: Secret) -> dict[str, str]:
    """Return a keyed digest of the values of each confidential variable, and of the survey's design: another one when any changes.

    It is the sum of r v over the records modulo the prime 2^31 - 1, with v the digits of a value and r the random number of the
    record. Whatever values change, and in however many records, the sum is the same only for one in 2^31 numbers r of each.
    """
    design = [
        f"((({c} % {_PRIME - 1}) + {_PRIME - 1}) % {_PRIME - 1}) + 1" for c in ("s", "h", "e") if c in warehouse.columns
    ]
    if "w" in warehouse.columns:
        design += _digits("w", 0.0, scale_of(float(warehouse.ask("SELECT max(w) AS w FROM records")["w"][0])))
    found: dict[str, str] = {}
    for v in variables:
        if v.known or v.base is not None:
            continue
        parts = [*_value_parts(v), *design]
        each = (f"((CAST(r AS BIGINT) + 1) * ({part})) % {_PRIME}" for part in parts)
        listed = ", ".join(f"CAST(sum({one}) % {_PRIME} AS BIGINT) AS h{i}" for i, one in enumerate(each))
        sums = warehouse.ask(f"SELECT {listed} FROM records")  # noqa: S608 - names of our own
        found[v.name] = secret.citation("contents", v.name, *(str(int(sums[f"h{i}"][0])) for i in range(len(parts))))
    return found


_PRIME = 2**31 - 1


def _value_parts(variable: Variable) -> list[str]:
    """Return SQL for whole numbers from 1 to 2^31 - 2 that hold all digits of a variable's values."""
    parts = [f"CAST({variable.codes} AS BIGINT) + 1"] if variable.levels else []
    return parts + (_digits(variable.numbers, variable.centre, variable.scale) if variable.numeric else [])


def _digits(number: str, centre: float, scale: float) -> list[str]:
    """Return SQL for the digits of a number that a scale bounds, in two whole numbers; what is missing is 1.5 times the scale."""
    x = f"(COALESCE(({number} - {centre!r}) / {scale!r}, 1.5) * {2.0**29!r})"
    return [f"CAST(floor({x}) AS BIGINT) + {2**29 + 1}", f"CAST(floor(({x} - floor({x})) * {2.0**30!r}) AS BIGINT) + 1"]


@contextmanager
def draft(
    data: Microdata,
    variables: Sequence[Variable],
    folder: Path,
    secret: Secret,
    identity: str | None,
    spark: Any = None,
) -> Iterator[PublicFacts]:
    """Prepare the records of some variables in a private folder, for noisy counts; they are removed afterwards.

    The counts have the noise that those of the frozen version have, since the same records have the same digests.
    """
    with TemporaryDirectory(prefix="draft", dir=folder) as temporary:
        records = Path(temporary) / ("records" if data.engine.name == "Spark" else "records.parquet")
        prepare(data, variables, secret.draws, records, identity)
        warehouse, n = open_warehouse(records, spark), len(data)
        scaled = [with_scale(v, warehouse, n) if v.numeric else v for v in variables]
        yield PublicFacts.read(warehouse, secret, scaled, n)


# --- public levels
# The levels that users see of a registered data set: those of known variables as they are, those of confidential ones as the schema
# lists them, or as noisy counts show them. Levels that few records have become one.


_SHOWN = 4.5
"""The name of a level that only the file has is shown above so many standard deviations of the noise on its count."""


def public_levels(
    data: Microdata, variables: Sequence[Variable], recodes: Sequence[LevelRecode], facts: PublicFacts | None
) -> tuple[tuple[Variable, ...], dict[str, Numbers]]:
    """Return the variables with the levels that users see, and the noisy counts of those of confidential ones.

    Levels that fewer than 20 records have become one, `other levels`; those that a recode names stay. Of a known variable one level
    stays at least. Confidential variables come with all levels that records may have, and are judged by noisy counts, which are
    charged with the other facts.
    """
    used = [v for v in variables if v.levels and v.cutpoints is None and v.base is None]
    exact = level_counts(data, [v for v in used if v.known])
    made: dict[str, Variable] = {}
    noisy: dict[str, Numbers] = {}
    for v in used:
        attribute = data.schema[v.name]
        named = {t for r in recodes if r.of == v.name for texts in r.groups.values() for t in texts}
        kept = [i for i, level in enumerate(v.levels) if named & {level, attribute.labels.get(level)}]
        if facts is not None and not v.known:
            levels, noisy[v.name] = _levels_by_noise(v, listed_levels(attribute), kept, facts)
        elif v.known and OTHER_LEVELS not in v.levels:
            levels = _levels_by_counts(v, kept, exact[v.name])
        else:
            continue
        made[v.name] = replace(v, levels=levels, words=level_words(levels, attribute))
    return with_recodes([made.get(v.name, v) for v in variables if v.base is None], recodes), noisy


def _levels_by_counts(variable: Variable, kept: Sequence[int], counts: Numbers) -> tuple[str, ...]:
    """Return the levels of a known variable; those of few records are one."""
    levels = variable.levels
    rare = [i for i, n in enumerate(counts) if n < RARE and levels[i] != MISSING and i not in kept]
    if not rare or len(rare) == len(levels):
        return levels
    stay = [level for i, level in enumerate(levels) if i not in rare and level != MISSING]
    return (*stay, OTHER_LEVELS, *([MISSING] if MISSING in levels else []))


def _levels_by_noise(
    variable: Variable, listed: Sequence[str], kept: Sequence[int], facts: PublicFacts
) -> tuple[tuple[str, ...], Numbers]:
    """Return the levels of a confidential variable, and their noisy counts.

    A level that the schema lists is shown from 20 records on; one that only the file has, from so many that nobody's own level is.
    The rest is one level; where that is small, it counts as missing. Whether anybody has a level of the rest, or none, is not told:
    "missing" is always there, unless the variable is complete.
    """
    levels, least = variable.levels, max(RARE, facts.together + _SHOWN * facts.sd)
    counts = facts.grouped(variable, {level: [i] for i, level in enumerate(levels)})
    apart = [i for i, level in enumerate(levels) if level in (OTHER_LEVELS, MISSING)]
    stay = [
        i for i, level in enumerate(levels)
        if i not in apart and (i in kept or counts[i] >= (RARE if level in listed else least))
    ]  # fmt: skip
    rest = [i for i in range(len(levels)) if i not in stay and levels[i] != MISSING]
    groups = {levels[i]: [i] for i in stay} | ({OTHER_LEVELS: rest} if rest else {})
    groups |= {MISSING: [len(levels) - 1]} if MISSING in levels else {}
    found = facts.grouped(variable, groups)
    if rest and MISSING in levels and found[-2] < least:
        del groups[OTHER_LEVELS]
        found = np.r_[found[:-2], found[-2] + found[-1]]
    return tuple(groups), found


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
