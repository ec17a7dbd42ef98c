"""Means and covariances in two passes, over data that may come in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean (k,) and covariance (k, k; divisor n - 1) of complete cases."""

    names: tuple[str, ...]
    count: int
    mean: Numbers
    covariance: Numbers


def complete(matrix: Numbers) -> Numbers:
    """Return the rows without NaN."""
    whole = ~np.isnan(matrix).any(axis=1)
    return matrix if whole.all() else matrix[whole]


def first_pass(matrix: Numbers) -> Numbers:
    """Return count and sums of the complete rows, shape (1 + k,)."""
    rows = complete(matrix)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        return np.concatenate([[len(rows)], rows.sum(axis=0)])


def centred_products(matrix: Numbers, mean: Numbers) -> Numbers:
    """Return the cross-products of the complete rows about a given mean, shape (k, k)."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        rows = complete(matrix) - mean
        return rows.T @ rows


def is_constant(mean: Numbers, variance: Numbers) -> NDArray[np.bool_]:
    """Return which columns do not vary, up to the rounding of their mean; shape as given.

    The mean of a million times 0.1 is not quite 0.1, so the variance of a constant need not come out as zero.
    """
    return np.asarray(~(np.sqrt(np.maximum(variance, 0.0)) > 1e-13 * np.abs(mean)))


def covariance_root(covariance: Numbers) -> Numbers:
    """Return a lower-triangular L with L Lᵀ = covariance; works for singular (positive semi-definite) ones too.

    Cholesky without pivoting: a pivot that vanishes (relative to its variance) leaves a column of zeros, so that
    column j of the result depends on columns 1..j only.
    """
    size = len(covariance)
    root = np.zeros((size, size))
    for j in range(size):
        rest = covariance[j:, j] - root[j:, :j] @ root[j, :j]
        if rest[0] > 1e-12 * max(covariance[j, j], 0.0):
            root[j:, j] = rest / np.sqrt(rest[0])
    return root
