"""The analyst's correction of counts from a file that went through PRAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import DataError, ParameterError

Numbers = NDArray[np.float64]

_SINGULAR = 1e10
"""Condition number past which the categories can no longer be told apart."""
_STEPS, _SMALL = 100_000, 1e-10


@dataclass(frozen=True, eq=False)
class PRAMCorrection:
    """Estimates of the counts before PRAM.

    `counts` is unbiased and may be negative where a category is rare; `covariance` (k, k) is that of the randomisation alone.
    `restricted` is the most likely set of counts without a negative one; it is not unbiased.
    """

    counts: Numbers
    covariance: Numbers
    restricted: Numbers

    @property
    def standard_errors(self) -> Numbers:
        """The standard error of each count, shape (k,)."""
        errors: Numbers = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return errors


def pram_correction(observed_counts: ArrayLike, matrix: ArrayLike) -> PRAMCorrection:
    """Estimate the counts before PRAM from the counts after it, and the published matrix (Kooiman et al. 1997).

    With R the matrix (rows are categories before, columns after), the released counts T* have E T* = R'T, so that
    T̂ = (R')⁻¹ T* is unbiased. Given T, records move independently: V = Σᵢ Tᵢ (diag(rᵢ) - rᵢrᵢ') is the covariance of T*, and
    (R')⁻¹ V R⁻¹ that of T̂. It is linear in T, so with T̂ in place of T it is unbiased too.

    Parameters
    ----------
    observed_counts
        Counts in the released file, shape (k,), in the order of the matrix.
    matrix
        Chances, shape (k, k); row i says what category i becomes.

    Examples
    --------
    >>> pram_correction([58, 42], [[0.9, 0.1], [0.2, 0.8]]).counts.round(3).tolist()
    [54.286, 45.714]
    """
    observed, r = _checked(observed_counts, matrix)
    inverse = np.linalg.inv(r.T)
    counts = inverse @ observed
    spread = np.diag(r.T @ counts) - (r.T * counts) @ r
    return PRAMCorrection(counts, inverse @ spread @ inverse.T, _likeliest(observed, r))


def _checked(observed_counts: Any, matrix: Any) -> tuple[Numbers, Numbers]:
    try:
        observed, r = np.asarray(observed_counts, np.float64), np.asarray(matrix, np.float64)
    except (TypeError, ValueError):
        raise ParameterError("counts and matrix must be numbers: k counts, and k rows of k chances.") from None
    if observed.ndim != 1 or r.shape != (len(observed), len(observed)) or not len(observed):
        raise ParameterError("counts and matrix do not fit: k counts need a matrix of k rows and k columns.")
    if not np.isfinite(observed).all() or (observed < 0).any():
        raise DataError("counts must be numbers of at least 0, without a missing one.")
    if not np.isfinite(r).all() or (r < 0).any() or (r > 1 + 1e-9).any():
        raise ParameterError("the matrix must hold chances between 0 and 1.")
    if len(wrong := np.flatnonzero(np.abs(r.sum(axis=1) - 1) > 1e-6)):
        raise ParameterError(f"{len(wrong)} rows of the matrix do not sum to 1, row {wrong[0] + 1} among them.")
    if not np.linalg.cond(r) < _SINGULAR:
        raise ParameterError(
            "the matrix is singular: different counts before PRAM give the same counts after it, so nothing can be corrected. "
            "Merge the categories that have equal rows."
        )
    return observed, r


def _likeliest(observed: Numbers, r: Numbers) -> Numbers:
    """Return the counts, none negative, under which the released counts are most likely (EM; van den Hout and Elamir 2006)."""
    counts: Numbers = np.full(len(r), observed.sum() / len(r))
    for _ in range(_STEPS):
        expected = r.T @ counts
        ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
        better: Numbers = counts * (r @ ratio)
        if np.abs(better - counts).max() <= _SMALL * max(observed.sum(), 1.0):
            return better
        counts = better
    return counts
