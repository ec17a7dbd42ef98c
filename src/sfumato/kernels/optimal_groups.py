"""Optimal univariate microaggregation as a shortest path."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

LARGE = 64
"""Above this k the path is found by halving, whose time does not grow with k."""


@numba.njit(cache=True, nogil=True)
def _step_by_step(x, k):  # type: ignore[no-untyped-def]
    """Return the size of the last group of the best cut of the first j values, for each j: all k to 2k - 1 are tried."""
    n = x.size
    cost = np.full(n + 1, np.inf)
    size = np.zeros(n + 1, np.int64)
    cost[0] = 0.0
    for end in range(k, n + 1):
        mean, squares = 0.0, 0.0
        for m in range(1, min(2 * k - 1, end) + 1):
            # one more value to the left, by Welford's update: a difference of running sums would lose the small groups
            step = x[end - m] - mean
            mean += step / m
            squares += step * (x[end - m] - mean)
            if m >= k and cost[end - m] + squares < cost[end]:
                cost[end] = cost[end - m] + squares
                size[end] = m
    return size


@numba.njit(cache=True, nogil=True)
def _by_halving(x, k):  # type: ignore[no-untyped-def]
    """Return the same, k ends at a time: where the best last group begins does not fall as its end rises.

    The best beginning for the middle end therefore bounds those of the ends on either side (the sums of squares have the Monge
    property). The ends of one round, c + 1 to c + k, need only costs up to c. O(n log k).
    """
    n = x.size
    cost = np.full(n + 1, np.inf)
    size = np.zeros(n + 1, np.int64)
    cost[0] = 0.0
    mean, squares = 0.0, 0.0
    for end in range(1, min(2 * k - 1, n) + 1):
        step = x[end - 1] - mean
        mean += step / end
        squares += step * (x[end - 1] - mean)
        if end >= k:
            cost[end] = squares
            size[end] = end
    stack = np.empty((128, 4), np.int64)
    c = 2 * k - 1
    while c < n:
        low, last = c - 2 * k + 2, min(c + k, n)
        # sums over a window of fewer than 3k values, about its own middle: little is lost to rounding
        first, second = np.zeros(last - low + 1), np.zeros(last - low + 1)
        middle = x[(low + last) // 2]
        for i in range(low, last):
            first[i - low + 1] = first[i - low] + (x[i] - middle)
            second[i - low + 1] = second[i - low] + (x[i] - middle) ** 2
        stack[0] = (c + 1, last, low, c)
        top = 1
        while top > 0:
            top -= 1
            begin, stop, left, right = stack[top]
            end = (begin + stop) // 2
            at = -1
            for i in range(max(left, end - 2 * k + 1), min(right, end - k) + 1):
                total = first[end - low] - first[i - low]
                squares = max(second[end - low] - second[i - low] - total * total / (end - i), 0.0)
                if cost[i] + squares <= cost[end]:
                    cost[end] = cost[i] + squares
                    at = i
            size[end] = end - at
            if begin < end:
                stack[top] = (begin, end - 1, left, at)
                top += 1
            if end < stop:
                stack[top] = (end + 1, stop, at, right)
                top += 1
        c = last
    return size


@numba.njit(cache=True, nogil=True)
def _walk_back(size):  # type: ignore[no-untyped-def]
    labels = np.empty(size.size - 1, np.int64)
    end, count = size.size - 1, 0
    while end > 0:
        labels[end - size[end] : end] = count
        end -= size[end]
        count += 1
    return count - 1 - labels


def optimal_groups(x: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the groups of at least k of sorted values x (n,), n >= k, with the least sum of squares within groups.

    The shortest path of Hansen and Mukherjee (2003): an optimal group is a run of k to 2k - 1 sorted values, so the best way to
    cut the first j values follows from the best ways to cut fewer. O(k n), and O(n log k) for large k.
    """
    x = np.ascontiguousarray(x, np.float64)
    labels: NDArray[np.int64] = _walk_back(_step_by_step(x, k) if k <= LARGE else _by_halving(x, k))
    return labels
