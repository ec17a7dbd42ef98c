"""Unknowns that are seen through noisy sums: what remains unknown of each, and of whom one learns most by knowing another.

y = M d + noise, d independent with variances v, S the covariance of y. Rows of M are the sums, its columns the unknowns; S falls into
blocks of rows that share an unknown. Small blocks are inverted. In large ones S x = b is solved by relaxing one row after the
other (Gauss-Southwell), which stays near where it starts, with a bound on what is left: S - diag(floor) has no negative eigenvalue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
FINE, ROUGH = 1e-3, 3e-3
"""To which relative precision large blocks are relaxed: where it matters, and at first."""
_CLOSEST, _SURE = 1e-9, 20.0
"""A column is relaxed more closely, up to the first, until what is left of an unknown is so many times the error."""
_SINGULAR = 1e-8
_KNOWN = 1e-12
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
def _relax(rows, values, sums, x, r, touched, seen, queue, waiting, tolerance, keep):  # type: ignore[no-untyped-def]
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
def _column(rows, values, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, tolerance):  # type: ignore[no-untyped-def]
    """Put S⁻¹b into x; return as `_relax` does. `inverse` is that of the block, or empty for a block that is relaxed."""
    if inverse.size == 0:
        return _relax(rows, values, sums, x, r, touched, seen, queue, waiting, tolerance, False)
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
def _unknown_column(u, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, tolerance):  # type: ignore[no-untyped-def]
    """Put S⁻¹m of an unknown into x, as `_column` does; that of an unknown which is set apart is there already."""
    j, count = sums.apart_place[u], 0
    start, end = sums.unknown_start[u], sums.unknown_start[u + 1]
    if j < 0:
        return _column(
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
def _symmetric_inverse(s):  # type: ignore[no-untyped-def]
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
def _inverse(sums, place, low, high):  # type: ignore[no-untyped-def]
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
        s = _symmetric_inverse(s)
    for i in range(size):
        for j in range(size):
            s[i, j] *= scale[i] * scale[j]
    return s


@numba.njit(cache=True, nogil=True)
def _spread(sums, x, touched, count, acc, met):  # type: ignore[no-untyped-def]
    """Put M'x into acc; return how many unknowns were met."""
    found = 0
    for i in range(count):
        row = touched[i]
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
def _left(share, error):  # type: ignore[no-untyped-def]
    """Return which share of an unknown's variance is left, 0 if none is; a bound that comes to nothing counts as very little."""
    if share > _KNOWN:
        return share
    return _KNOWN if error > 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@numba.njit(cache=True, nogil=True)
def _learned(sums, wanted, dense, coarse, fine, q, gain, best, gauge, together, by_group):  # type: ignore[no-untyped-def]
    rows, unknowns = sums.diagonal.size, sums.variance.size
    x, r = np.zeros(rows), np.zeros(rows)
    touched, queue = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    seen, waiting = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    place = np.zeros(rows, np.int64)
    acc, met = np.zeros(unknowns), np.empty(unknowns, np.int64)
    v = sums.variance
    one_row, one = np.empty(1, np.int64), np.ones(1)
    spill = 0.0  # what the bounds leave open, times what knowing it is worth
    for b in range(sums.block_start.size - 1):
        low, high = sums.block_start[b], sums.block_start[b + 1]
        inverse = np.zeros((0, 0))
        if high - low <= dense:
            for at in range(low, high):
                place[sums.block_row[at]] = at - low
            inverse = _inverse(sums, place, low, high)
        for at in range(low, high):
            row = sums.block_row[at]
            if sums.diagonal[row] <= 0.0:
                continue
            one_row[0] = row
            most = 0.0
            for e in range(sums.row_start[row], sums.row_start[row + 1]):
                u = sums.row_unknown[e]
                if sums.unknown_start[u + 1] - sums.unknown_start[u] == 1:
                    most = max(most, v[u] * sums.row_value[e] ** 2)
            close = coarse
            while True:
                count, top, error = _column(
                    one_row, one, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, close
                )
                top -= _dot(sums.row_apart[row], sums.row_apart[row])
                if error == 0.0 or close < _CLOSEST or 1.0 - most * top > _SURE * most * error:
                    break
                for i in range(count):  # too rough to tell what is left of the largest
                    x[touched[i]] = 0.0
                    seen[touched[i]] = False
                close *= 0.03
            first, second, who = 0.0, 0.0, -1
            for e in range(sums.row_start[row], sums.row_start[row + 1]):
                u, m = sums.row_unknown[e], sums.row_value[e]
                if sums.unknown_start[u + 1] - sums.unknown_start[u] == 1:
                    q[u] = m * m * top
                    left = _left(1.0 - v[u] * q[u], error)
                    if sums.simple[u] and left > 0.0:
                        worth = m * m * v[u] / left
                        gauge[u] = worth / (m * m) if m != 0 else 0.0
                        if worth > first:
                            second, first, who = first, worth, u
                        elif worth > second:
                            second = worth
            if first > 0.0:
                spill = max(spill, first * error)
                found = _spread(sums, x, touched, count, acc, met)
                for i in range(found):
                    u = met[i]
                    if wanted[u] and v[u] > 0:
                        seen_of = abs(acc[u] - _dot(sums.row_apart[row], sums.unknown_apart[u])) + np.sqrt(
                            error * sums.reach[u]
                        )
                        worth, by = first, who
                        if u == who or sums.side[u] == sums.side[who]:
                            worth, by = second, -2
                        here = v[u] * v[u] * seen_of * seen_of * worth
                        if here > gain[u]:
                            if by == -2:  # the runner-up, who is not kept by name above
                                by = _second(sums, row, who, second, q)
                            gain[u], best[u] = here, by
                    acc[u] = 0.0
            for i in range(count):
                x[touched[i]] = 0.0
                seen[touched[i]] = False
        # unknowns in several rows, and sides that know several unknowns
        for g in range(sums.group_block_start[b], sums.group_block_start[b + 1]):
            start, end = sums.group_start[g], sums.group_start[g + 1]
            k = end - start
            attack = sums.side[sums.group_unknown[start]] >= 0
            columns = np.zeros((k, unknowns if k > 1 else 0))
            c = np.zeros((k, k))
            errors, scale = np.zeros(k), np.zeros(k)
            for i in range(k):
                u = sums.group_unknown[start + i]
                close = coarse if k == 1 else fine
                while True:
                    count, top, error = _unknown_column(
                        u, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, close
                    )
                    q[u] = top - _dot(sums.unknown_apart[u], sums.unknown_apart[u])
                    if error == 0.0 or close < _CLOSEST or 1.0 - v[u] * q[u] > _SURE * v[u] * error:
                        break
                    for j in range(count):
                        x[touched[j]] = 0.0
                        seen[touched[j]] = False
                    close *= 0.03
                errors[i] = error
                found = _spread(sums, x, touched, count, acc, met)
                left = _left(1.0 - v[u] * q[u], error)
                if k == 1 and attack and left > 0.0 and sums.apart_place[u] >= 0:  # exact, and everywhere
                    for h in range(unknowns):
                        if wanted[h] and sums.side[h] != sums.side[u] and v[h] > 0:
                            seen_of = acc[h] - _dot(sums.unknown_apart[u], sums.unknown_apart[h])
                            here = v[h] * v[h] * seen_of * seen_of * v[u] / left
                            if here > together[h]:
                                together[h], by_group[h] = here, u
                elif k == 1 and attack and left > 0.0:
                    worth = v[u] / left
                    gauge[u] = worth
                    spill = max(spill, worth * error)
                    for j in range(found):
                        h = met[j]
                        if wanted[h] and sums.side[h] != sums.side[u] and v[h] > 0:
                            seen_of = abs(acc[h] - _dot(sums.unknown_apart[u], sums.unknown_apart[h])) + np.sqrt(
                                error * sums.reach[h]
                            )
                            here = v[h] * v[h] * seen_of * seen_of * worth
                            if here > gain[h]:
                                gain[h], best[h] = here, u
                if k > 1:
                    for j in range(found):
                        columns[i, met[j]] = acc[met[j]]
                for j in range(found):
                    acc[met[j]] = 0.0
                for j in range(count):
                    x[touched[j]] = 0.0
                    seen[touched[j]] = False
            if k > 1 and attack:
                for i in range(k):
                    u = sums.group_unknown[start + i]
                    for j in range(k):
                        h = sums.group_unknown[start + j]
                        c[i, j] = -v[u] * v[h] * (columns[i, h] - _dot(sums.unknown_apart[u], sums.unknown_apart[h]))
                    left = 1.0 - v[u] * q[u]
                    scale[i] = 1.0 / np.sqrt(v[u] * left) if left > _KNOWN else 0.0
                for i in range(k):
                    for j in range(k):
                        c[i, j] = (c[i, j] + c[j, i]) / 2 * scale[i] * scale[j] if j > i else c[j, i]
                    c[i, i] = 1.0
                c = _symmetric_inverse(c) * scale * scale.reshape(-1, 1)
                open_end = 0.0  # twice, since c is not exact either
                for i in range(k):
                    open_end += 2.0 * v[sums.group_unknown[start + i]] * np.sqrt(errors[i] * max(c[i, i], 0.0))
                spill = max(spill, open_end * open_end)
                for h in range(unknowns):
                    if not wanted[h] or sums.side[h] == sums.side[sums.group_unknown[start]] or v[h] == 0:
                        continue
                    here, any_of = 0.0, False
                    for i in range(k):
                        any_of = any_of or columns[i, h] != 0.0
                    if not any_of and sums.row_apart.shape[1] == 0:
                        continue
                    for i in range(k):
                        ui = sums.group_unknown[start + i]
                        a = v[ui] * (columns[i, h] - _dot(sums.unknown_apart[ui], sums.unknown_apart[h]))
                        for j in range(k):
                            uj = sums.group_unknown[start + j]
                            here += (
                                a
                                * c[i, j]
                                * v[uj]
                                * (columns[j, h] - _dot(sums.unknown_apart[uj], sums.unknown_apart[h]))
                            )
                    here = v[h] * v[h] * (np.sqrt(max(here, 0.0)) + open_end * np.sqrt(sums.reach[h])) ** 2
                    if here > together[h]:
                        together[h], by_group[h] = here, sums.group_unknown[start]
    return spill


@numba.njit(cache=True, nogil=True)
def _second(sums, row, who, worth, q):  # type: ignore[no-untyped-def]
    """Return the unknown of a row, other than `who`, that is worth so much."""
    for e in range(sums.row_start[row], sums.row_start[row + 1]):
        u, m = sums.row_unknown[e], sums.row_value[e]
        if u != who and sums.simple[u]:
            left = max(1.0 - sums.variance[u] * q[u], _KNOWN)
            if m * m * sums.variance[u] / left == worth:
                return u
    return -1


@numba.njit(cache=True, nogil=True)
def _far(sums, wanted, order, strength, gauge, tolerance, gain, best):  # type: ignore[no-untyped-def]
    """Raise gains by what unknowns that are set apart carry to where relaxing did not come; `order` has the strongest first."""
    v, apart = sums.variance, sums.unknown_apart
    rows, unknowns = sums.diagonal.size, v.size
    x, r = np.zeros(rows), np.zeros(rows)
    touched, queue = np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    seen, waiting = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    acc, met, nothing = np.zeros(unknowns), np.empty(unknowns, np.int64), np.zeros((0, 0))
    for h in range(unknowns):
        if not wanted[h] or v[h] == 0.0 or order.size == 0:
            continue
        own = v[h] * v[h] * _dot(apart[h], apart[h])
        if own * strength[order[0]] <= gain[h]:
            continue
        count, _, _ = _unknown_column(h, sums, nothing, touched, 0, 0, x, r, touched, seen, queue, waiting, tolerance)
        found = _spread(sums, x, touched, count, acc, met)
        for i in range(order.size):
            g = order[i]
            if own * strength[g] <= gain[h]:
                break
            if acc[g] != 0.0 or sums.side[g] == sums.side[h]:  # near: looked at already
                continue
            seen_of = _dot(apart[g], apart[h])
            here = v[h] * v[h] * seen_of * seen_of * gauge[g]
            if here > gain[h]:
                gain[h], best[h] = here, g
        for i in range(found):
            acc[met[i]] = 0.0
        for i in range(count):
            x[touched[i]] = 0.0
            seen[touched[i]] = False
    return 0


@numba.njit(cache=True, nogil=True)
def _refine(sums, targets, tolerance, q, gain, best, gauge):  # type: ignore[no-untyped-def]
    """Work out again, closely, what of these targets is learned by knowing one other unknown.

    With x_g and x_h known but for errors e, m_g'S⁻¹m_h = m_g'x_h + x_g'r_h + e_g'S e_h: the error is the product of two.
    """
    v = sums.variance
    rows, unknowns = sums.diagonal.size, v.size
    x, r, y, s = np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows)
    touched, reached, queue = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows + 1, np.int64)
    seen, met_row, waiting = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    acc, met = np.zeros(unknowns), np.empty(unknowns, np.int64)
    close, seen_of, here = np.zeros(unknowns, np.bool_), np.empty(unknowns), np.empty(unknowns)
    most, nothing = gauge_most(gauge, sums.reach), np.zeros((0, 0))
    for t in range(targets.size):
        h = targets[t]
        start, end = sums.unknown_start[h], sums.unknown_start[h + 1]
        if sums.apart_place[h] >= 0:
            count, top, error = _unknown_column(
                h, sums, nothing, touched, 0, 0, x, r, touched, seen, queue, waiting, tolerance
            )
        else:
            count, top, error = _relax(
                sums.unknown_row[start:end], sums.unknown_value[start:end], sums, x, r, touched, seen, queue, waiting,
                tolerance, True,
            )  # fmt: skip
        q[h] = top - _dot(sums.unknown_apart[h], sums.unknown_apart[h])
        found = _spread(sums, x, touched, count, acc, met)
        for i in range(found):
            g = met[i]
            here[i] = 0.0
            seen_of[i] = acc[g] - _dot(sums.unknown_apart[g], sums.unknown_apart[h])
            if gauge[g] > 0.0 and sums.side[g] != sums.side[h]:
                here[i] = (v[h] * (abs(seen_of[i]) + np.sqrt(error * sums.reach[g]))) ** 2 * gauge[g]
            acc[g] = 0.0
            close[i] = False
        while True:
            first, at = 0.0, -1
            for i in range(found):
                if here[i] > first:
                    first, at = here[i], i
            if at < 0 or close[at]:
                break
            g = met[at]
            start, end = sums.unknown_start[g], sums.unknown_start[g + 1]
            hit, top, other = _relax(
                sums.unknown_row[start:end], sums.unknown_value[start:end], sums, y, s, reached, met_row, queue, waiting,
                tolerance, False,
            )  # fmt: skip
            for i in range(hit):
                seen_of[at] += y[reached[i]] * r[reached[i]]
                y[reached[i]] = 0.0
                met_row[reached[i]] = False
            left = 1.0 - v[g] * (top - _dot(sums.unknown_apart[g], sums.unknown_apart[g]))
            if left > _KNOWN:
                here[at] = min(here[at], (v[h] * (abs(seen_of[at]) + np.sqrt(error * other))) ** 2 * v[g] / left)
            close[at] = True
        for i in range(count):
            x[touched[i]] = 0.0
            r[touched[i]] = 0.0
            seen[touched[i]] = False
        gain[h], best[h] = max(first, v[h] * v[h] * error * most), met[at] if at >= 0 else -1
    return 0


@numba.njit(cache=True, nogil=True)
def gauge_most(gauge, reach):  # type: ignore[no-untyped-def]
    """Return the largest product of two vectors' entries."""
    most = 0.0
    for i in range(gauge.size):
        most = max(most, gauge[i] * reach[i])
    return most


def learned(
    sums: Sums, wanted: NDArray[np.bool_], dense: int = 200, tolerance: float = FINE, enough: Numbers | None = None
) -> tuple[Numbers, Numbers, Whole]:
    """Return for every unknown m'S⁻¹m, the most that knowing somebody else's takes off its posterior variance, and by whose.

    The posterior variance of unknown h is v - v² m'S⁻¹m; whoever knows g as well has less by C_gh²/C_gg, with C the posterior
    covariance. The third entry is an unknown of that side, -1 where nobody helps. Blocks of more than `dense` rows are
    relaxed to a relative `tolerance`; what that leaves open is counted against the unknown, so that variances are bounds.
    Where a first, rough bound leaves at least `enough` variance, it is not worked out more closely.
    """
    n = len(sums.variance)
    q, gain, best = np.zeros(n), np.zeros(n), np.full(n, -1, np.int64)
    together, by_group, gauge = np.zeros(n), np.full(n, -1, np.int64), np.zeros(n)
    large = np.diff(sums.block_start) > dense
    coarse = max(tolerance, ROUGH) if enough is not None else tolerance
    spill = _learned(sums, wanted, dense, coarse, tolerance, q, gain, best, gauge, together, by_group)
    if large.any():
        block_of = np.zeros(len(sums.diagonal), np.int64)
        block_of[sums.block_row] = np.repeat(np.arange(len(large)), np.diff(sums.block_start))
        placed = np.flatnonzero(np.diff(sums.unknown_start) > 0)
        in_large = np.zeros(n, bool)
        in_large[placed] = large[block_of[sums.unknown_row[sums.unknown_start[placed]]]]
        in_large &= sums.variance > 0
        v = sums.variance
        gain[in_large] = np.maximum(gain, v**2 * sums.reach * spill)[in_large]
        if enough is not None:
            rough = v * (1.0 - v * q) - np.maximum(gain, together)
            _refine(sums, np.flatnonzero(wanted & in_large & (rough < enough)), tolerance, q, gain, best, gauge)
        if sums.unknown_apart.shape[1]:
            strength = gauge * (sums.unknown_apart**2).sum(axis=1)
            order = np.flatnonzero(strength > 0)
            order = order[np.argsort(-strength[order], kind="stable")]
            _far(sums, wanted, order, strength, gauge, tolerance, gain, best)
    more = together > gain
    return q, np.where(more, together, gain), np.where(more, by_group, best)


def kernel_arguments(**arrays: Any) -> Sums:
    """Return the arrays with the types that the kernel was compiled for."""
    whole = {"block_start", "block_row", "s_start", "s_row", "row_start", "row_unknown", "unknown_start", "unknown_row",
             "side", "apart_place", "group_start", "group_unknown", "group_block_start"}  # fmt: skip
    made = {}
    for name, value in arrays.items():
        kind = np.int64 if name in whole else bool if name == "simple" else np.float64
        made[name] = np.ascontiguousarray(value, kind)
    return Sums(**made)
