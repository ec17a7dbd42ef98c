"""Unknowns that are seen through noisy sums: what remains unknown of each, and of whom one learns most by knowing another."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.sum_columns import KNOWN, Sums, column, inverse_of, symmetric_inverse, unknown_column

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def _spread(sums, x, low, high, acc, met):  # type: ignore[no-untyped-def]
    """Put M'x into acc; return how many unknowns were met."""
    found = 0
    for i in range(low, high):
        row = sums.block_row[i]
        if x[row] == 0.0:
            continue
        for at in range(sums.row_start[row], sums.row_start[row + 1]):
            u = sums.row_unknown[at]
            if acc[u] == 0.0:
                met[found] = u
                found += 1
                acc[u] = 1e-300  # met, even if it comes to nothing
            acc[u] += sums.row_value[at] * x[row]
    return found


@numba.njit(cache=True, nogil=True)
def _learned(sums, wanted, dense, q, gain, best, together, by_group):  # type: ignore[no-untyped-def]
    rows, unknowns = sums.diagonal.size, sums.variance.size
    x, place = np.zeros(rows), np.zeros(rows, np.int64)
    acc, met = np.zeros(unknowns), np.empty(unknowns, np.int64)
    v = sums.variance
    one_row, one = np.empty(1, np.int64), np.ones(1)
    for b in range(sums.block_start.size - 1):
        low, high = sums.block_start[b], sums.block_start[b + 1]
        if high - low > dense:
            continue
        for at in range(low, high):
            place[sums.block_row[at]] = at - low
        inverse = inverse_of(sums, place, low, high)
        for at in range(low, high):
            row = sums.block_row[at]
            if sums.diagonal[row] <= 0.0:
                continue
            one_row[0] = row
            top = column(one_row, one, sums, inverse, place, low, high, x)
            first, second, who = 0.0, 0.0, -1
            for e in range(sums.row_start[row], sums.row_start[row + 1]):
                u, m = sums.row_unknown[e], sums.row_value[e]
                if sums.unknown_start[u + 1] - sums.unknown_start[u] == 1:
                    q[u] = m * m * top
                    left = 1.0 - v[u] * q[u]
                    if sums.simple[u] and left > KNOWN:
                        worth = m * m * v[u] / left
                        if worth > first:
                            second, first, who = first, worth, u
                        elif worth > second:
                            second = worth
            if first > 0.0:
                found = _spread(sums, x, low, high, acc, met)
                for i in range(found):
                    u = met[i]
                    if wanted[u] and v[u] > 0:
                        worth, by = first, who
                        if u == who or sums.side[u] == sums.side[who]:
                            worth, by = second, -2
                        here = v[u] * v[u] * acc[u] * acc[u] * worth
                        if here > gain[u]:
                            if by == -2:  # the runner-up, who is not kept by name above
                                by = _second(sums, row, who, second, q)
                            gain[u], best[u] = here, by
                    acc[u] = 0.0
            for i in range(low, high):
                x[sums.block_row[i]] = 0.0
        # unknowns in several rows, and sides that know several unknowns
        for g in range(sums.group_block_start[b], sums.group_block_start[b + 1]):
            start, end = sums.group_start[g], sums.group_start[g + 1]
            k = end - start
            attack = sums.side[sums.group_unknown[start]] >= 0
            columns = np.zeros((k, unknowns if k > 1 else 0))
            for i in range(k):
                u = sums.group_unknown[start + i]
                q[u] = unknown_column(u, sums, inverse, place, low, high, x)
                left = 1.0 - v[u] * q[u]
                found = _spread(sums, x, low, high, acc, met)
                for j in range(found):
                    h = met[j]
                    if k > 1:
                        columns[i, h] = acc[h]
                    elif attack and left > KNOWN and wanted[h] and sums.side[h] != sums.side[u] and v[h] > 0:
                        here = v[h] * v[h] * acc[h] * acc[h] * v[u] / left
                        if here > gain[h]:
                            gain[h], best[h] = here, u
                    acc[h] = 0.0
                for j in range(low, high):
                    x[sums.block_row[j]] = 0.0
            if k > 1 and attack:
                _team(sums, start, k, columns, wanted, q, together, by_group)
    return 0


@numba.njit(cache=True, nogil=True)
def _team(sums, start, k, columns, wanted, q, together, by_group):  # type: ignore[no-untyped-def]
    """Raise what is learned by a side that knows k unknowns of the block."""
    v = sums.variance
    c, scale = np.zeros((k, k)), np.zeros(k)
    for i in range(k):
        u = sums.group_unknown[start + i]
        for j in range(k):
            h = sums.group_unknown[start + j]
            c[i, j] = -v[u] * v[h] * columns[i, h]
        left = 1.0 - v[u] * q[u]
        scale[i] = 1.0 / np.sqrt(v[u] * left) if left > KNOWN else 0.0
    for i in range(k):
        for j in range(k):
            c[i, j] = (c[i, j] + c[j, i]) / 2 * scale[i] * scale[j] if j > i else c[j, i]
        c[i, i] = 1.0
    c = symmetric_inverse(c) * scale * scale.reshape(-1, 1)
    for h in range(v.size):
        if not wanted[h] or sums.side[h] == sums.side[sums.group_unknown[start]] or v[h] == 0:
            continue
        here = 0.0
        for i in range(k):
            a = v[sums.group_unknown[start + i]] * columns[i, h]
            if a != 0.0:
                for j in range(k):
                    here += a * c[i, j] * v[sums.group_unknown[start + j]] * columns[j, h]
        here *= v[h] * v[h]
        if here > together[h]:
            together[h], by_group[h] = here, sums.group_unknown[start]


@numba.njit(cache=True, nogil=True)
def _second(sums, row, who, worth, q):  # type: ignore[no-untyped-def]
    """Return the unknown of a row, other than `who`, that is worth so much."""
    for e in range(sums.row_start[row], sums.row_start[row + 1]):
        u, m = sums.row_unknown[e], sums.row_value[e]
        if u != who and sums.simple[u]:
            left = max(1.0 - sums.variance[u] * q[u], KNOWN)
            if m * m * sums.variance[u] / left == worth:
                return u
    return -1


def learned(sums: Sums, wanted: NDArray[np.bool_], dense: int) -> tuple[Numbers, Numbers, Whole]:
    """Return for every unknown m'S⁻¹m, the most that knowing somebody else's takes off its posterior variance, and by whose.

    The posterior variance of unknown h is v - v² m'S⁻¹m; whoever knows g as well has less by C_gh²/C_gg, with C the posterior
    covariance. The third entry is an unknown of that side, -1 where nobody helps. Blocks of more than `dense` rows are left out.
    """
    n = len(sums.variance)
    q, gain, best = np.zeros(n), np.zeros(n), np.full(n, -1, np.int64)
    together, by_group = np.zeros(n), np.full(n, -1, np.int64)
    _learned(sums, wanted, dense, q, gain, best, together, by_group)
    more = together > gain
    return q, np.where(more, together, gain), np.where(more, by_group, best)
