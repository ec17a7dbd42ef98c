"""Numbers as distribution functions: sorted, with the share of the known ones at or below each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.microdata import Microdata
from sfumato.utility.compared import weights_of
from sfumato.utility.meanings import read_numbers

if TYPE_CHECKING:
    from sfumato.kernels.ecdf import Gaps

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """The different known numbers of a file, from the smallest up, shape (k,)."""

    values: Numbers
    shares: Numbers
    """The share of the known values that is at or below each, shape (k,); the last is 1."""
    known: float
    """The share of the file's records that have a number."""


def original_sample(data: Microdata, name: str, weighted: bool) -> Sample:
    """Return the numbers of the original."""
    batch, weights = data.batch([name]), weights_of(data, weighted)
    numbers = batch.numbers(name)
    if weights is not None:
        return sample(numbers, weights)
    found: Sample = batch.column(name).remember(("sample", data.schema[name].missing), lambda: sample(numbers, None))
    return found


def released_sample(original: Microdata, released: Microdata, name: str, weighted: bool) -> Sample:
    """Return the released numbers; intervals are spread evenly over what they cover, and other labels are missing."""
    reading, weights = read_numbers(original, released, name), weights_of(released, weighted)
    if not reading.spreads:
        return sample(reading.numbers, weights)
    each = np.ones(len(reading.numbers)) if weights is None else weights
    amounts = np.bincount(reading.place + 1, each, len(reading.spreads) + 1)[1:]
    parts = [np.full(len(p), a / len(p)) for p, a in zip(reading.spreads, amounts, strict=True)]
    exact = reading.place < 0  # what was spread stands at its numbers now
    return sample(np.concatenate([reading.numbers[exact], *reading.spreads]), np.concatenate([each[exact], *parts]))


def sample(x: Numbers, weights: Numbers | None) -> Sample:
    """Sort numbers, shape (n,), NaN where missing; those without weight do not count."""
    from sfumato.kernels.sorting import sorted_runs  # brings the compiler, which only those who compare need

    counted = ~np.isnan(x) if weights is None else ~np.isnan(x) & (weights > 0)
    if not counted.any():
        return Sample(np.empty(0), np.empty(0), 0.0)
    whole = bool(counted.all())
    order, begins, values = sorted_runs(x if whole else x[counted])
    ends = begins[1:]
    if weights is None:
        return Sample(values, ends / len(order), len(order) / len(x))
    total = np.cumsum((weights if whole else weights[counted])[order])
    return Sample(values, total[ends - 1] / total[-1], min(float(total[-1] / weights.sum()), 1.0))


def gaps(one: Sample, other: Sample) -> Gaps:
    """Return how far two samples, neither of them empty, are apart."""
    from sfumato.kernels.ecdf import ecdf_gaps

    return ecdf_gaps(one.values, one.shares, other.values, other.shares)
