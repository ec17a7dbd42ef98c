"""Columns of the inverse covariance of noisy sums.

y = M d + noise, d independent with variances v, S the covariance of y. Rows of M are the sums, its columns the unknowns; S falls
into blocks of rows that share an unknown, which are inverted one by one. Blocks too large for that: see `near_sums`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_SINGULAR = 1e-8
KNOWN = 1e-12
"""An unknown of which less than this share of its variance is left counts as known."""


class Sums(NamedTuple):
    """The sums and unknowns of a problem, in arrays.

    `groups` are sets of unknowns, all in one block, that somebody knows together.
    """

    block_start: Whole
    block_row: Whole
    """Rows, block by block; block b has those from block_start[b] to block_start[b + 1]."""
    s_start: Whole
    s_row: Whole
    s_value: Numbers
    """S by row."""
    diagonal: Numbers
    row_start: Whole
    row_unknown: Whole
    row_value: Numbers
    """M by row."""
    unknown_start: Whole
    unknown_row: Whole
    unknown_value: Numbers
    """M by column."""
    variance: Numbers
    side: Whole
    """Who knows the unknown beforehand."""
    simple: NDArray[np.bool_]
    """Whether an unknown has one row, attacks, and its side knows no other in the block."""
    group_start: Whole
    group_unknown: Whole
    group_block_start: Whole
    """Groups that are not simple, block by block."""


@numba.njit(cache=True, nogil=True)
def column(rows, values, sums, inverse, place, low, high, x):  # type: ignore[no-untyped-def]
    """Put S⁻¹b into x, by the inverse of the block; return b'S⁻¹b."""
    product = 0.0
    for at in range(low, high):
        row = sums.block_row[at]
        total = 0.0
        for i in range(rows.size):
            total += inverse[at - low, place[rows[i]]] * values[i]
        x[row] = total
    for i in range(rows.size):
        product += values[i] * x[rows[i]]
    return product


@numba.njit(cache=True, nogil=True)
def unknown_column(u, sums, inverse, place, low, high, x):  # type: ignore[no-untyped-def]
    """Put S⁻¹m of an unknown into x; return m'S⁻¹m."""
    start, end = sums.unknown_start[u], sums.unknown_start[u + 1]
    return column(sums.unknown_row[start:end], sums.unknown_value[start:end], sums, inverse, place, low, high, x)


@numba.njit(cache=True, nogil=True)
def symmetric_inverse(s):  # type: ignore[no-untyped-def]
    """Return the inverse of a matrix with unit diagonal and no negative eigenvalue; the generalised one where it is singular."""
    size = s.shape[0]
    made, most = np.linalg.inv(s + 1e-13 * np.eye(size)), 0.0
    for i in range(size):
        most = max(most, made[i, i])  # one over what is left of a row, given all others
        if not made[i, i] > 0.0:
            most = np.inf
    if most < 1.0 / _SINGULAR:
        return made
    values, vectors = np.linalg.eigh(s)
    for j in range(size):
        values[j] = 1.0 / np.sqrt(values[j]) if values[j] > 1e-3 * _SINGULAR else 0.0
    vectors = vectors * values
    return vectors @ vectors.T


@numba.njit(cache=True, nogil=True)
def inverse_of(sums, place, low, high):  # type: ignore[no-untyped-def]
    """Return the inverse of a block of S, scaled to a unit diagonal meanwhile; sums that do not vary count as unseen."""
    size = high - low
    s, scale = np.zeros((size, size)), np.empty(size)
    for i in range(size):
        d = sums.diagonal[sums.block_row[low + i]]
        scale[i] = 1.0 / np.sqrt(d) if d > 0 else 0.0
    for i in range(size):
        row = sums.block_row[low + i]
        for at in range(sums.s_start[row], sums.s_start[row + 1]):
            j = place[sums.s_row[at]]
            s[i, j] += sums.s_value[at] * scale[i] * scale[j]
        s[i, i] = 1.0
    if size > 1:
        s = symmetric_inverse(s)
    for i in range(size):
        for j in range(size):
            s[i, j] *= scale[i] * scale[j]
    return s


def kernel_arguments(**arrays: Any) -> Sums:
    """Return the arrays with the types that the kernel was compiled for."""
    whole = {"block_start", "block_row", "s_start", "s_row", "row_start", "row_unknown", "unknown_start", "unknown_row",
             "side", "group_start", "group_unknown", "group_block_start"}  # fmt: skip
    made = {}
    for name, value in arrays.items():
        kind = np.int64 if name in whole else bool if name == "simple" else np.float64
        made[name] = np.ascontiguousarray(value, kind)
    return Sums(**made)
