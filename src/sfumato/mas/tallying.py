"""How often each value of a variable occurs, for the custodian's cutpoints: exact for a few records, on a fine grid for many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Kind, Rows
from sfumato.errors import DataError
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.cutpoints.tally import Tally
from sfumato.mas.prepare import find_variables
from sfumato.microdata import Microdata, numbers_of
from sfumato.schema import Attribute

Numbers = NDArray[np.float64]
_EXACT = 1_000_000
"""Up to so many records in this process, distinct values are counted as they are."""
_STEPS = 5_000
"""Steps of the grid between the 0.5th and the 99.5th percentile, at least."""
_FINE = 2**14
_TAIL = 0.005
_OCTAVES = 1_100


@dataclass(frozen=True)
class Counted:
    """A variable as it was counted; confidential."""

    tally: Tally
    step: float = 0.0
    """Width of the grid that values were moved up to; 0 if they are as they were."""

    def settled(self, cut: Cutpoints) -> Cutpoints:
        """Return cutpoints whose edges are on the grid, so that every bin holds the records that the tally says it holds."""
        if not self.step:
            return cut
        edges = (_on_grid(math.floor(edge / self.step + 1e-9), self.step) for edge in cut.edges)
        return replace(cut, edges=tuple(edges), counts=cut.counts, missing=cut.missing)


def count_values(data: Microdata, name: str) -> Counted | None:
    """Count the values of a variable of numbers where the data live; None if every value is missing.

    Of data in Spark, or of very many records, only counts on a grid of round steps come back: not one value as it is.
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
        tally = Tally.of(values, found.counts)
        _check_whole(attribute, tally.whole)
        return Counted(tally)
    return _on_a_grid(data, name)


def _check_whole(attribute: Attribute, whole: bool) -> None:
    if attribute.integer and not whole:
        raise DataError(f"variable '{attribute.name}' is said to hold whole numbers, and does not. Correct the schema.")


def count_numbers(data: Microdata) -> dict[str, Counted]:
    """Count the variables of numbers that have no levels of their own; those that have no values are left out."""
    names = [v.name for v in find_variables(data, {}) if v.numeric and not v.levels]
    return {name: found for name in names if (found := count_values(data, name)) is not None}


def _on_a_grid(data: Microdata, name: str) -> Counted | None:
    attribute = data.schema[name]

    def sizes(rows: Rows) -> Numbers:
        """Count missing values, broken ones, and those of each octave, negative and positive."""
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
    tally = Tally.of(np.array([*values, np.nan]), np.array([*found, missing]), whole)
    return Counted(tally, 0.0 if whole and step == 1 else step)


def _ends(octaves: Numbers) -> tuple[float, float]:
    """Return powers of two between which all but the tails lie."""
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
    """Return the largest of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that is not above a number."""
    power = math.floor(math.log10(most))
    return max(s for k in (1, 2, 5) if (s := _on_grid(k, float(f"1e{power}"))) <= most * (1 + 1e-9))


def _on_grid(count: int, step: float) -> float:
    """Return so many steps, as the decimal number that it is: 3 × 0.1 is 0.3."""
    return float(f"{count * step:.15g}")


def decile_edges(tally: Tally) -> tuple[float, ...]:
    """Return the edges of ten bins of about as many records each; fewer, where values are frequent."""
    edges = {tally.quantile(share / 10) for share in range(1, 10)}
    return tuple(sorted(edges - {tally.high}))


def deciles(counted: Mapping[str, Counted]) -> dict[str, Cutpoints]:
    """Return cutpoints at the deciles of variables; a variable with one value has none."""
    return {
        name: Cutpoints(edges, whole=found.tally.whole)
        for name, found in counted.items()
        if (edges := decile_edges(found.tally))
    }
