"""Columns of the inverse covariance of noisy sums.

y = M d + noise, d independent with variances v, S the covariance of y. Rows of M are the sums, its columns the unknowns; S falls
into blocks of rows that share an unknown. Small blocks are inverted. In large ones S x = b is solved by relaxing one row after
the other (Gauss-Southwell), which stays near where it starts, with a bound on the error: S - diag(floor) has no negative
eigenvalue.
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
    """S without the unknowns that are set apart (`apart`), by row."""
    diagonal: Numbers
    floor: Numbers
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
    row_apart: Numbers
    """Shape (rows, k): what the k unknowns that are set apart take off; see `learned`."""
    unknown_apart: Numbers
    """Shape (unknowns, k)."""
    reach: Numbers
    """A bound on m'S⁻¹m without the unknowns that are set apart: 1/v for all others."""
    apart_place: Whole
    """Which of those set apart an unknown is; -1 for none."""
    apart_column: Numbers
    """S⁻¹m of those set apart, shape (rows, k)."""


@numba.njit(cache=True, nogil=True)
def relax(rows, values, sums, x, r, touched, seen, queue, waiting, tolerance, keep):  # type: ignore[no-untyped-def]
    """Solve S x = b; return how many rows were touched, and bounds on b'S⁻¹b and on the squared length of the error.

    What is left, r = b - S x, is put back to zero unless it is to be kept.
    """
    count, size = 0, 0.0
    for i in range(rows.size):
        row = rows[i]
        if sums.diagonal[row] <= 0.0:  # a sum that does not vary says nothing
            continue
        r[row] += values[i]
        if not seen[row]:
            seen[row] = True
            touched[count] = row
            count += 1
        size += values[i] * values[i] / sums.diagonal[row]
    limit = tolerance * tolerance * size
    capacity = queue.size
    head, waits = 0, 0
    for i in range(count):
        queue[i] = touched[i]
        waiting[touched[i]] = True
        waits += 1
    steps, most = 0, 200 * capacity + 10_000
    while waits > 0 and steps < most:
        row = queue[head]
        head = (head + 1) % capacity
        waits -= 1
        waiting[row] = False
        left = r[row]
        if left * left <= limit * sums.floor[row]:
            continue
        steps += 1
        change = left / sums.diagonal[row]
        x[row] += change
        for at in range(sums.s_start[row], sums.s_start[row + 1]):
            other = sums.s_row[at]
            if not seen[other]:
                seen[other] = True
                touched[count] = other
                count += 1
            r[other] -= sums.s_value[at] * change
            if not waiting[other] and r[other] * r[other] > limit * sums.floor[other]:
                queue[(head + waits) % capacity] = other
                waiting[other] = True
                waits += 1
        r[row] = 0.0
    while waits > 0:
        waiting[queue[head]] = False
        head = (head + 1) % capacity
        waits -= 1
    error, product = 0.0, 0.0
    for i in range(count):
        row = touched[i]
        error += r[row] * r[row] / sums.floor[row]
        product += x[row] * r[row]
        if not keep:
            r[row] = 0.0
    for i in range(rows.size):
        product += values[i] * x[rows[i]]
    return count, product + error, error


@numba.njit(cache=True, nogil=True)
def column(rows, values, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, tolerance):  # type: ignore[no-untyped-def]
    """Put S⁻¹b into x; return as `relax` does. `inverse` is that of the block, or empty for a block that is relaxed."""
    if inverse.size == 0:
        return relax(rows, values, sums, x, r, touched, seen, queue, waiting, tolerance, False)
    product = 0.0
    for at in range(low, high):
        row = sums.block_row[at]
        touched[at - low] = row
        total = 0.0
        for i in range(rows.size):
            total += inverse[at - low, place[rows[i]]] * values[i]
        x[row] = total
    for i in range(rows.size):
        product += values[i] * x[rows[i]]
    return high - low, product, 0.0


@numba.njit(cache=True, nogil=True)
def unknown_column(u, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, tolerance):  # type: ignore[no-untyped-def]
    """Put S⁻¹m of an unknown into x, as `column` does; that of an unknown which is set apart is there already."""
    j, count = sums.apart_place[u], 0
    start, end = sums.unknown_start[u], sums.unknown_start[u + 1]
    if j < 0:
        return column(
            sums.unknown_row[start:end], sums.unknown_value[start:end], sums, inverse, place, low, high, x, r, touched, seen,
            queue, waiting, tolerance,
        )  # fmt: skip
    product = 0.0
    for row in range(sums.diagonal.size):
        if sums.apart_column[row, j] != 0.0:
            x[row] = sums.apart_column[row, j]
            seen[row] = True
            touched[count] = row
            count += 1
    for at in range(start, end):
        product += sums.unknown_value[at] * x[sums.unknown_row[at]]
    return count, product, 0.0


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


@numba.njit(cache=True, nogil=True)
def share_left(share, error):  # type: ignore[no-untyped-def]
    """Return which share of an unknown's variance is left, 0 if none is; a bound that comes to nothing counts as very little."""
    if share > KNOWN:
        return share
    return KNOWN if error > 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return the inner product of two vectors."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


def kernel_arguments(**arrays: Any) -> Sums:
    """Return the arrays with the types that the kernel was compiled for."""
    whole = {"block_start", "block_row", "s_start", "s_row", "row_start", "row_unknown", "unknown_start", "unknown_row",
             "side", "apart_place", "group_start", "group_unknown", "group_block_start"}  # fmt: skip
    made = {}
    for name, value in arrays.items():
        kind = np.int64 if name in whole else bool if name == "simple" else np.float64
        made[name] = np.ascontiguousarray(value, kind)
    return Sums(**made)
