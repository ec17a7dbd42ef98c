"""Maximum distance to average vector: groups of k records, from the outside in."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.kd_tree import centre, farthest, nearest, plant, remove


@numba.njit(cache=True, nogil=True)
def _add(high, low, x, sign):  # type: ignore[no-untyped-def]
    """Add a record to a sum kept in twice the precision (Knuth's two-sum), or take it away."""
    for j in range(x.size):
        term = sign * x[j]
        total = high[j] + term
        part = total - high[j]
        low[j] += (high[j] - (total - part)) + (term - part)
        high[j] = total


CC = 0.98


@numba.njit(cache=True, nogil=True)
def _mdav(x, k):  # type: ignore[no-untyped-def]
    n, p = x.shape
    labels = np.full(n, -1, np.int64)
    high, low = np.zeros(p), np.zeros(p)
    for i in range(n):
        _add(high, low, x[i], 1.0)
    place, found, distance = np.empty(n, np.int64), np.empty(k, np.int64), np.empty(k)
    tree = plant(x, np.arange(n), place, (high + low) / n)
    left, group, centred = n, 0, n
    while left >= 2 * k:
        if 2 * left < tree.record.size:
            tree = plant(x, np.flatnonzero(labels < 0), place, (high + low) / left)
            centred = left
        elif left < CC * centred:
            centre(tree, (high + low) / left)
            centred = left
        seed = farthest(tree, (high + low) / left)
        ends = 2 if left >= 3 * k else 1
        for end in range(ends):
            seed = seed if end == 0 else farthest(tree, x[seed])
            remove(tree, seed)
            nearest(tree, x[seed], k - 1, found, distance)
            found[k - 1] = seed
            for i in range(k):
                if i < k - 1:
                    remove(tree, found[i])
                labels[found[i]] = group
                _add(high, low, x[found[i]], -1.0)
            group += 1
            left -= k
    for i in range(n):
        if labels[i] < 0:
            labels[i] = group
    return labels


def mdav(x: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the group of each record, shape (n,), numbered in the order they are made; x has shape (n, p)."""
    labels: NDArray[np.int64] = _mdav(np.ascontiguousarray(x, np.float64), k)
    return labels
