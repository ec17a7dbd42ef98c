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
    pool = np.empty(partner.size, np.int64)
    place = np.empty(partner.size, np.int64)
    for b in range(begins.size - 1):
        start, count, limit = begins[b], begins[b + 1] - begins[b], limits[b]
        if limit < 1 or count < 2:
            continue
        alone = count  # among an odd number one is left over: any of them, not always the largest
        if count % 2:
            alone = 2 * int(uniforms[order[start + count - 1]] * ((count + 1) // 2))
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
            one = order[start + k + (k >= alone)]
            j = pool[int(uniforms[one] * size)]
            size = _drop(pool, place, j, size)
            two = order[start + j + (j >= alone)]
            partner[one], partner[two] = two, one


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
def _exchanges(order, ties, partner, run_of):  # type: ignore[no-untyped-def]
    for r in range(ties.size - 1):
        for i in range(ties[r], ties[r + 1]):
            run_of[order[i]] = r
    for i in range(run_of.size):
        if run_of[partner[i]] != run_of[i]:
            return i
    return -1


def exchanges(order: Rows, ties: Rows, partner: Rows) -> bool:
    """Whether some unit gets a value other than its own: a partner in another run of equal values."""
    return int(_exchanges(order, ties, partner, np.zeros(len(partner), np.int32))) >= 0


@numba.njit(cache=True, nogil=True)
def _largest_moves(before, after, ties, begins, run_of, largest):  # type: ignore[no-untyped-def]
    changed = 0
    for r in range(ties.size - 1):
        for i in range(ties[r], ties[r + 1]):
            run_of[before[i]] = r
    block = 0
    for r in range(ties.size - 1):
        while ties[r] >= begins[block + 1]:
            block += 1
        for i in range(ties[r], ties[r + 1]):
            old = run_of[after[i]]
            if old != r:
                changed += 1
                move = ties[r] - (ties[old + 1] - 1) if old < r else ties[old] - (ties[r + 1] - 1)
                largest[block] = max(largest[block], move)
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
