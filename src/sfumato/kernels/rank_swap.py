"""Partners for values in order of rank, none further away than a limit."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.integer[Any]]


@numba.njit(cache=True, nogil=True)
def _shuffle_ties(order, ties, uniforms, shuffled):  # type: ignore[no-untyped-def]
    for r in range(ties.size - 1):
        end = ties[r + 1]
        for i in range(ties[r], end - 1):
            j = i + int(uniforms[order[i]] * (end - i))
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]


def shuffled_ties(order: Rows, ties: Rows, uniforms: Numbers) -> Rows:
    """Return the order with each run of equal values shuffled (Fisher and Yates 1938).

    Run r lies at positions ties[r] to ties[r + 1]; step i of the shuffle takes the number in (0, 1) of unit order[i].
    """
    shuffled = order.copy()
    _shuffle_ties(order, ties, uniforms, shuffled)
    return shuffled


@numba.njit(cache=True, nogil=True)
def _partners(order, begins, limits, uniforms, partner):  # type: ignore[no-untyped-def]
    n = order.size
    # numbers are brought into the order of ranks first, and partners back at the end: memory is then read in streams
    u, other = np.empty(n, np.float64), np.arange(n).astype(np.int32)
    for i in range(n):
        u[i] = uniforms[order[i]]
    pool, place = np.empty(n, np.int32), np.empty(n, np.int32)
    for b in range(begins.size - 1):
        start, count, limit = begins[b], begins[b + 1] - begins[b], limits[b]
        if limit < 1 or count < 2:
            continue
        alone = count  # among an odd number one is left over: any of them, not always the largest
        if count % 2:
            alone = 2 * int(u[start + count - 1] * ((count + 1) // 2))
            count -= 1
            limit = max(limit - 1, 1)  # a window may reach over the one left out; pairs of neighbours never do
        size = 0
        for k in range(min(limit, count)):
            pool[size], place[k] = k, size
            size += 1
        for k in range(count):
            if k + limit < count:
                pool[size], place[k + limit] = k + limit, size
                size += 1
            if place[k] < 0:
                continue
            size = _drop(pool, place, k, size)
            one = start + k + (k >= alone)
            j = pool[int(u[one] * size)]
            size = _drop(pool, place, j, size)
            two = start + j + (j >= alone)
            other[one], other[two] = two, one
    for i in range(n):
        partner[order[i]] = order[other[i]]


@numba.njit(cache=True, nogil=True, inline="always")
def _drop(pool, place, k, size):  # type: ignore[no-untyped-def]
    last = pool[size - 1]
    pool[place[k]], place[last] = last, place[k]
    place[k] = -1
    return size - 1


def partners(order: Rows, begins: Rows, limits: Rows, uniforms: Numbers) -> Rows:
    """Return for each unit the one it exchanges values with (itself if none), at most limits[b] ranks away in its block.

    `order` gives the units from the lowest rank up; block b has the ranks begins[b] to begins[b + 1]. Going up, each unit that
    has no partner yet draws one, by its own number in (0, 1), with equal chances from those above it that have none and are
    within the limit (Moore 1996). The candidates are kept in a pool that each enters and leaves once, so the time is in
    proportion to the number of units. The candidate at the far end of the window is always free, so all units of a block find
    a partner, but one if their number is odd.
    """
    partner = np.arange(len(uniforms))
    _partners(order, begins, limits, uniforms, partner)
    return partner


@numba.njit(cache=True, nogil=True)
def _largest_moves(before, after, ties, begins, run_of, largest):  # type: ignore[no-untyped-def]
    n, changed = before.size, 0
    run = np.empty(n, np.int32)
    for r in range(ties.size - 1):
        run[ties[r] : ties[r + 1]] = r
    for i in range(n):
        run_of[before[i]] = run[i]
    for b in range(begins.size - 1):
        most = 0
        for i in range(begins[b], begins[b + 1]):
            low, high = min(run_of[after[i]], run[i]), max(run_of[after[i]], run[i])
            if low < high:
                changed += 1
                most = max(most, ties[high] - ties[low + 1] + 1)
        largest[b] = most
    return changed


def largest_moves(before: Rows, after: Rows, ties: Rows, begins: Rows) -> tuple[Rows, int]:
    """Return the largest rank move in each block, and how many values moved from one run of equal values to another.

    `before` and `after` are units from the lowest rank up; run r of equal values has the ranks ties[r] to ties[r + 1], block b
    the ranks begins[b] to begins[b + 1], in both. A move from run to run is the distance between the nearest of their ranks, zero
    for a value that stays.
    """
    largest = np.zeros(len(begins) - 1, np.int64)
    run_of = np.empty(int(before.max(initial=-1)) + 1, np.int32)
    changed = _largest_moves(before, after, ties, begins, run_of, largest)
    return largest, int(changed)
