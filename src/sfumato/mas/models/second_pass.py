"""What a second pass over the records finds once a model is fitted: squares, products of scores, leverages, influences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.mas.models.numbers import Numbers

BINS = 1000
"""Leverages are counted in so many bins between 0 and 1."""
_POWER = 16


@dataclass(frozen=True, eq=False)
class SecondPass:
    """Sums over the records; confidential."""

    squares: float
    """Of residuals."""
    meat: Numbers
    """Products of scores, shape (coefficients, coefficients)."""
    leverage: float
    """The largest."""
    influence: Numbers
    """The largest square of what a residual of 1 adds to each coefficient, or a little more, over the coefficient's diagonal
    element of the bread; shape (coefficients,)."""

    @classmethod
    def of(cls, sums: Numbers, k: int) -> SecondPass:
        """Take apart what the pieces of a pass added up, for k coefficients."""
        squares, meat, counts, powers = np.split(sums, np.cumsum([1, k**2, BINS + 1]))
        return cls(float(squares[0]), meat.reshape(k, k), largest_leverage(counts), np.asarray(powers ** (1 / _POWER)))

    @staticmethod
    def sums(squares: float, meat: Numbers, leverage: Numbers, influence: Numbers) -> Numbers:
        """Return what one piece adds: leverages (n,) are counted, squared influences (coefficients, n) raised and added.

        A maximum cannot be added up. The 16th root of the sum of 16th powers can, and is at least the largest, and of n that are
        all the same it is n^(1/16) times that: 1.2 of 25, 1.5 of 500.
        """
        for _ in range(_POWER.bit_length() - 1):
            influence = np.square(influence)
        return np.concatenate([[squares], meat.ravel(), leverage_counts(leverage), influence.sum(axis=1)])


def scaled_influence(influence: Numbers, variance: Numbers) -> Numbers:
    """Return what a score adds to each coefficient (coefficients, scores), over the root of its diagonal element."""
    return np.asarray(influence / np.sqrt(np.where(variance > 0, variance, 1.0))[:, None])


def leverage_counts(leverage: Numbers) -> Numbers:
    """Return how many leverages lie up to each thousandth; a maximum cannot be added up, counts can."""
    at = np.clip(np.ceil(leverage * BINS - 1e-9), 0, BINS).astype(np.int64)
    return np.bincount(at, minlength=BINS + 1).astype(np.float64)


def largest_leverage(counts: Numbers) -> float:
    """Return the largest leverage, to a thousandth upwards."""
    found = np.flatnonzero(counts)
    return float(found[-1]) / BINS if len(found) else 0.0
