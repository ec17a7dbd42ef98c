"""Unknowns that are seen through noisy sums: what remains unknown of each, and of whom one learns most by knowing another."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.sum_columns import (
    KNOWN,
    Sums,
    column,
    dot,
    inverse_of,
    relax,
    share_left,
    symmetric_inverse,
    unknown_column,
)

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
FINE, ROUGH = 1e-3, 3e-3
"""To which relative precision large blocks are relaxed: where it matters, and at first."""
_CLOSEST, _SURE = 1e-9, 20.0
"""A column is relaxed more closely, up to the first, until what is left of an unknown is so many times the error."""


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
            inverse = inverse_of(sums, place, low, high)
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
                count, top, error = column(
                    one_row, one, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, close
                )
                top -= dot(sums.row_apart[row], sums.row_apart[row])
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
                    left = share_left(1.0 - v[u] * q[u], error)
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
                        seen_of = abs(acc[u] - dot(sums.row_apart[row], sums.unknown_apart[u])) + np.sqrt(
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
                    count, top, error = unknown_column(
                        u, sums, inverse, place, low, high, x, r, touched, seen, queue, waiting, close
                    )
                    q[u] = top - dot(sums.unknown_apart[u], sums.unknown_apart[u])
                    if error == 0.0 or close < _CLOSEST or 1.0 - v[u] * q[u] > _SURE * v[u] * error:
                        break
                    for j in range(count):
                        x[touched[j]] = 0.0
                        seen[touched[j]] = False
                    close *= 0.03
                errors[i] = error
                found = _spread(sums, x, touched, count, acc, met)
                left = share_left(1.0 - v[u] * q[u], error)
                if k == 1 and attack and left > 0.0 and sums.apart_place[u] >= 0:  # exact, and everywhere
                    for h in range(unknowns):
                        if wanted[h] and sums.side[h] != sums.side[u] and v[h] > 0:
                            seen_of = acc[h] - dot(sums.unknown_apart[u], sums.unknown_apart[h])
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
                            seen_of = abs(acc[h] - dot(sums.unknown_apart[u], sums.unknown_apart[h])) + np.sqrt(
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
                        c[i, j] = -v[u] * v[h] * (columns[i, h] - dot(sums.unknown_apart[u], sums.unknown_apart[h]))
                    left = 1.0 - v[u] * q[u]
                    scale[i] = 1.0 / np.sqrt(v[u] * left) if left > KNOWN else 0.0
                for i in range(k):
                    for j in range(k):
                        c[i, j] = (c[i, j] + c[j, i]) / 2 * scale[i] * scale[j] if j > i else c[j, i]
                    c[i, i] = 1.0
                c = symmetric_inverse(c) * scale * scale.reshape(-1, 1)
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
                        a = v[ui] * (columns[i, h] - dot(sums.unknown_apart[ui], sums.unknown_apart[h]))
                        for j in range(k):
                            uj = sums.group_unknown[start + j]
                            here += (
                                a
                                * c[i, j]
                                * v[uj]
                                * (columns[j, h] - dot(sums.unknown_apart[uj], sums.unknown_apart[h]))
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
            left = max(1.0 - sums.variance[u] * q[u], KNOWN)
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
        own = v[h] * v[h] * dot(apart[h], apart[h])
        if own * strength[order[0]] <= gain[h]:
            continue
        count, _, _ = unknown_column(h, sums, nothing, touched, 0, 0, x, r, touched, seen, queue, waiting, tolerance)
        found = _spread(sums, x, touched, count, acc, met)
        for i in range(order.size):
            g = order[i]
            if own * strength[g] <= gain[h]:
                break
            if acc[g] != 0.0 or sums.side[g] == sums.side[h]:  # near: looked at already
                continue
            seen_of = dot(apart[g], apart[h])
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
            count, top, error = unknown_column(
                h, sums, nothing, touched, 0, 0, x, r, touched, seen, queue, waiting, tolerance
            )
        else:
            count, top, error = relax(
                sums.unknown_row[start:end], sums.unknown_value[start:end], sums, x, r, touched, seen, queue, waiting,
                tolerance, True,
            )  # fmt: skip
        q[h] = top - dot(sums.unknown_apart[h], sums.unknown_apart[h])
        found = _spread(sums, x, touched, count, acc, met)
        for i in range(found):
            g = met[i]
            here[i] = 0.0
            seen_of[i] = acc[g] - dot(sums.unknown_apart[g], sums.unknown_apart[h])
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
            hit, top, other = relax(
                sums.unknown_row[start:end], sums.unknown_value[start:end], sums, y, s, reached, met_row, queue, waiting,
                tolerance, False,
            )  # fmt: skip
            for i in range(hit):
                seen_of[at] += y[reached[i]] * r[reached[i]]
                y[reached[i]] = 0.0
                met_row[reached[i]] = False
            left = 1.0 - v[g] * (top - dot(sums.unknown_apart[g], sums.unknown_apart[g]))
            if left > KNOWN:
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
