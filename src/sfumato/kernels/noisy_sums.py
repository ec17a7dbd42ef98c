"""Unknowns that are seen through noisy sums: what remains unknown of each, and how that depends on the noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numba
import numpy as np

from sfumato.typing import Flags, Numbers, Whole

# y = M d + noise, d independent with variances v, S the covariance of y. Rows of M are the sums, its columns the unknowns; S falls
# into blocks of rows that share an unknown, which are inverted one by one. Blocks too large for that: see `near_sums`.

Arrays = TypeVar("Arrays")

_SINGULAR = 1e-8
KNOWN = 1e-12
"""An unknown of which less than this share of its variance is left counts as known."""


class NoisySums(NamedTuple):
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
    simple: Flags
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


def kernel_arguments(kind: Callable[..., Arrays], **arrays: Any) -> Arrays:
    """Return arrays as a named tuple, with the types that it declares and kernels were compiled for."""
    types = {Whole: np.int64, Numbers: np.float64}
    declared = get_type_hints(kind)
    return kind(**{name: np.ascontiguousarray(a, types.get(declared[name], bool)) for name, a in arrays.items()})


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


def learned(sums: NoisySums, wanted: Flags, dense: int) -> tuple[Numbers, Numbers, Whole]:
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


# --- How the posterior variance of an unknown depends on the noise in each sum, for somebody who knows others; a packing problem.


@numba.njit(cache=True, nogil=True)
def _gradients(sums, block_of, target, helper, group_of, least, left, start, row_of, value):  # type: ignore[no-untyped-def]
    rows = sums.diagonal.size
    x, total = np.zeros(rows), np.zeros(rows)
    place = np.zeros(rows, np.int64)
    v = sums.variance
    inverse, at_block, low, high = np.zeros((0, 0)), -1, 0, 0
    size = 0
    for pair in range(target.size):
        h, g = target[pair], helper[pair]
        if block_of[h] != at_block:
            at_block = block_of[h]
            low, high = sums.block_start[at_block], sums.block_start[at_block + 1]
            for at in range(low, high):
                place[sums.block_row[at]] = at - low
            inverse = inverse_of(sums, place, low, high)
        group = np.empty(0, np.int64)
        if g >= 0:
            if group_of[g] >= 0:
                group = sums.group_unknown[sums.group_start[group_of[g]] : sums.group_start[group_of[g] + 1]]
            else:
                group = np.array([g])
        k = group.size
        c, scale, cross, columns = np.zeros((k, k)), np.zeros(k), np.zeros(k), np.zeros((k, high - low))
        q = unknown_column(h, sums, inverse, place, low, high, x)
        for at in range(low, high):
            total[sums.block_row[at]] = x[sums.block_row[at]]
        for i in range(k):
            u = group[i]
            for at in range(sums.unknown_start[u], sums.unknown_start[u + 1]):
                cross[i] += sums.unknown_value[at] * x[sums.unknown_row[at]]
        variance = v[h] * (1.0 - v[h] * q)
        if k > 0:
            for i in range(k):
                u = group[i]
                top = unknown_column(u, sums, inverse, place, low, high, x)
                for at in range(low, high):
                    columns[i, at - low] = x[sums.block_row[at]]
                for j in range(k):
                    w = group[j]
                    both = 0.0
                    for at in range(sums.unknown_start[w], sums.unknown_start[w + 1]):
                        both += sums.unknown_value[at] * x[sums.unknown_row[at]]
                    c[i, j] = -v[u] * v[w] * both
                c[i, i] = v[u] * (1.0 - v[u] * top)
            for i in range(k):
                scale[i] = 1.0 / np.sqrt(c[i, i]) if c[i, i] > KNOWN * v[group[i]] else 0.0
            for i in range(k):
                for j in range(k):
                    c[i, j] = (c[i, j] + c[j, i]) / 2 * scale[i] * scale[j] if j > i else c[j, i]
                c[i, i] = 1.0
            c = symmetric_inverse(c) * scale * scale.reshape(-1, 1)
            for i in range(k):
                cross[i] *= v[group[i]]
            share = c @ cross
            variance -= v[h] * v[h] * np.sum(cross * share)
            for i in range(k):
                for at in range(low, high):
                    total[sums.block_row[at]] += v[group[i]] * share[i] * columns[i, at - low]
        left[pair] = variance
        largest = 0.0
        for at in range(low, high):
            row = sums.block_row[at]
            largest = max(largest, total[row] * total[row] * sums.diagonal[row])
        start[pair] = size
        for at in range(low, high):
            row = sums.block_row[at]
            if total[row] * total[row] * sums.diagonal[row] > least * largest:
                row_of[size], value[size] = row, v[h] * total[row]
                size += 1
    start[target.size] = size
    return size


def gradients(
    sums: NoisySums, block_of: Whole, target: Whole, helper: Whole, group_of: Whole, least: float = 1e-7
) -> tuple[Numbers, Whole, Whole, Numbers]:
    """Return for pairs (target, helper) the posterior variance of the target for whoever knows the helper, and z by rows.

    z = v S_g⁻¹m, so that the variance rises by z² per unit of noise in a sum; entries that matter less than `least` of the
    largest are left out. `helper` is -1 for nobody; `group_of` is the group of each unknown, -1 for a simple one. Pairs
    stand in the order of their blocks. Returns the variances, where each pair's entries start, their rows and their values.
    """
    pairs = len(target)
    left, start = np.zeros(pairs), np.zeros(pairs + 1, np.int64)
    room = int(np.diff(sums.block_start)[block_of[target]].sum())
    rows, values = np.empty(room, np.int64), np.empty(room)
    size = _gradients(sums, block_of, target, helper, group_of, least, left, start, rows, values)
    return left, start, rows[:size], values[:size]


@numba.njit(cache=True, nogil=True)
def pack(start, row, a, b, price, low, high, dual, sweeps):  # type: ignore[no-untyped-def]
    """Minimise Σ price/u under A u ≤ b and low ≤ u ≤ high; A ≥ 0 by rows. Return u; `dual` is where to start, and is changed.

    Ascent in one multiplier at a time: given those, u = √(price / A'dual) within its bounds.
    """
    weight = np.zeros(price.size)
    for j in range(b.size):
        for at in range(start[j], start[j + 1]):
            weight[row[at]] += dual[j] * a[at]
    for _ in range(sweeps):
        moved = 0.0
        for j in range(b.size):
            old = dual[j]
            bottom = 0.0
            for at in range(start[j], start[j + 1]):
                bottom += a[at] * low[row[at]]
            new, lower, upper = old, 0.0, np.inf
            for _step in range(40):
                value, slope = -b[j], 0.0
                for at in range(start[j], start[j + 1]):
                    i = row[at]
                    pull = max(weight[i] + (new - old) * a[at], 0.0)
                    if pull * high[i] * high[i] <= price[i]:
                        value += a[at] * high[i]
                    elif pull * low[i] * low[i] >= price[i]:
                        value += a[at] * low[i]
                    else:
                        u = np.sqrt(price[i] / pull)
                        value += a[at] * u
                        slope -= 0.5 * a[at] * a[at] * u / pull
                if value > 0.0:
                    lower = new
                else:
                    upper = new
                if abs(value) <= 1e-12 * abs(b[j]) or (value <= 0.0 and new == 0.0):
                    break
                if bottom >= b[j]:  # not even the lowest u will do: go there and no further
                    most = 0.0
                    for at in range(start[j], start[j + 1]):
                        i = row[at]
                        if a[at] > 0.0:
                            most = max(most, (price[i] / (low[i] * low[i]) - weight[i]) / a[at] + old)
                    new = most
                    break
                step = new - value / slope if slope < 0.0 else -1.0
                if not (step > lower and step < upper):
                    if upper == np.inf:
                        step = 2.0 * lower if lower > 0.0 else _first(start, row, a, j, weight, price, high)
                    else:
                        step = 0.5 * (lower + upper) if lower > 0.0 else 0.1 * upper
                    if upper < 1e-300 or (lower == 0.0 and upper < 1e-12 * old):
                        step = 0.0
                new = step
            if new != old:
                for at in range(start[j], start[j + 1]):
                    weight[row[at]] = max(weight[row[at]] + (new - old) * a[at], 0.0)
                moved = max(moved, abs(new - old) / max(new, old))
                dual[j] = new
        if moved < 1e-6:
            break
    u = np.empty(price.size)
    for i in range(price.size):
        wanted = np.sqrt(price[i] / weight[i]) if weight[i] > 0.0 else high[i]
        u[i] = min(max(wanted, low[i]), high[i])
    return u


@numba.njit(cache=True, nogil=True)
def _first(start, row, a, j, weight, price, high):  # type: ignore[no-untyped-def]
    """Return a multiplier large enough to move something."""
    most = 0.0
    for at in range(start[j], start[j + 1]):
        i = row[at]
        if a[at] > 0.0:
            most = max(most, (price[i] / (high[i] * high[i]) + weight[i]) / a[at])
    return most if most > 0.0 else 1.0


def typed(*arrays: Any) -> list[Any]:
    """Return index arrays as the kernels want them."""
    return [np.ascontiguousarray(a, np.int64) for a in arrays]
