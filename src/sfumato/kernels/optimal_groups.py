"""Optimal univariate microaggregation as a shortest path."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True)
def _shortest_path(x, k):  # type: ignore[no-untyped-def]
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
    labels = np.empty(n, np.int64)
    end, count = n, 0
    while end > 0:
        labels[end - size[end] : end] = count
        end -= size[end]
        count += 1
    return count - 1 - labels


def optimal_groups(x: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the groups of at least k of sorted values x (n,), n >= k, with the least sum of squares within groups.

    The shortest path of Hansen and Mukherjee (2003): an optimal group is a run of k to 2k - 1 sorted values, so the best way to
    cut the first j values follows from the best ways to cut fewer. O(k n).
    """
    labels: NDArray[np.int64] = _shortest_path(np.ascontiguousarray(x, np.float64), k)
    return labels
