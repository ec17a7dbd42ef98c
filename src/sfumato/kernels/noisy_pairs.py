"""How the posterior variance of an unknown depends on the noise in each sum, for somebody who knows others; a packing problem."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.sum_columns import KNOWN, Sums, inverse_of, symmetric_inverse, unknown_column

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


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
    sums: Sums, block_of: Whole, target: Whole, helper: Whole, group_of: Whole, least: float = 1e-7
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
