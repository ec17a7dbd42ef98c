"""Perturbation tables of most entropy: the noise with a given largest change and variance that tells least else."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.tables.cell_keys.entropy import largest_stay, most_entropy, variances
from sfumato.tables.cell_keys.perturbation_table import PerturbationTable, Row

Numbers = NDArray[np.float64]


@lru_cache(maxsize=64)
def count_table(
    maximum: int, variance: float, smallest: int = 0, stay: float = 0.0, monotone: bool = False
) -> PerturbationTable:
    """Return a perturbation table for counts.

    Every count i > 0 becomes i + v with |v| ≤ `maximum`, never below 0 nor between 1 and `smallest`, with mean 0 and this
    variance; among all such noise the one with most entropy. As soon as nothing is in its way it is symmetric, and one row
    serves all larger counts. Zeros stay. `stay` is the least probability of no change (where the count may be published at
    all), `monotone` asks that larger changes are never likelier than smaller ones.

    Marley and Leaver (2011), A method for confidentialising user-defined tables; Giessing (2016), PSD; R package ptable.
    """
    rows = [Row.of(0, np.zeros(1), np.ones(1))]
    for count in range(1, maximum + smallest + (smallest > 0) + 1):
        target = np.arange(max(0, count - maximum), count + maximum + 1)
        change = (target[(target == 0) | (target > smallest)] - count).astype(np.float64)
        rows.append(_row(count, change, variance, stay, monotone))
    return PerturbationTable({"all": tuple(rows)})


@lru_cache(maxsize=64)
def magnitude_table(maximum: int, variance: float, steps: int = 2, monotone: bool = False) -> PerturbationTable:
    """Return a perturbation table for magnitudes: rows for 0, 1 and `maximum`, changes in steps of 1 / `steps`.

    Giessing and Tent (2019), Concepts for generalising tools implementing the cell key method to the case of continuous
    variables; R package ptable.
    """
    rows = [Row.of(0, np.zeros(1), np.ones(1))]
    for value in sorted({1, maximum}):
        change = np.arange(-value * steps, maximum * steps + 1) / steps
        rows.append(_row(value, change, variance, 0.0, monotone))
    return PerturbationTable({"all": tuple(rows)})


def _row(value: int, change: Numbers, variance: float, stay: float, monotone: bool) -> Row:
    """Return one row, or say what would work in its place."""
    probability = most_entropy(change, variance, stay, monotone)
    if probability is not None:
        return Row.of(value, change, probability)
    span = variances(change, 0.0, monotone)
    if span is None:
        raise ParameterError(
            f"there is no noise without bias for the value {value}: raise the largest change, or publish smaller counts."
        )
    if not span[0] - 1e-9 <= variance <= span[1] + 1e-9:
        raise ParameterError(
            f"the noise of the value {value} can have a variance between {span[0]:.4g} and {span[1]:.4g}; got {variance:g}. "
            "Choose one in between, or another largest change."
        )
    room = largest_stay(change, variance, monotone)
    raise ParameterError(
        f"with this variance the value {value} can stay as it is with a probability of at most {room:.4g}; got {stay:g}."
    )
