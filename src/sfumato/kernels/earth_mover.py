"""Earth mover's distances of many small distributions from one large one.

The distributions are sparse: row i has the cells from ``starts[i]`` to ``starts[i + 1]``, each with a value and a count above 0.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Codes = NDArray[np.int32]


@numba.njit(cache=True, nogil=True)
def _apart(cumulative, sums, level, first, last):  # type: ignore[no-untyped-def]
    """Return the sum of |level - cumulative| over the places from `first` to before `last`; `cumulative` rises."""
    low, high = first, last
    while low < high:  # where the sequence reaches the level
        middle = (low + high) // 2
        if cumulative[middle] < level:
            low = middle + 1
        else:
            high = middle
    below = level * (low - first) - (sums[low] - sums[first])
    above = (sums[last] - sums[low]) - level * (last - low)
    return below + above


@numba.njit(cache=True, nogil=True)
def _ordered(starts, places, counts, cumulative, sums):  # type: ignore[no-untyped-def]
    m = len(cumulative)
    out = np.zeros(len(starts) - 1)
    for row in range(len(out)):
        size = 0
        for cell in range(starts[row], starts[row + 1]):
            size += counts[cell]
        seen, last, total = 0, 0, 0.0
        for cell in range(starts[row], starts[row + 1]):
            total += _apart(cumulative, sums, seen / size, last, places[cell])
            seen += counts[cell]
            last = places[cell]
        total += _apart(cumulative, sums, 1.0, last, m)
        out[row] = total / (m - 1)
    return out


@numba.njit(cache=True, nogil=True)
def _tree(starts, values, counts, nodes, shares):  # type: ignore[no-untyped-def]
    height, out = len(nodes), np.zeros(len(starts) - 1)
    mass = np.zeros(shares.shape[1])
    for row in range(len(out)):
        size = 0
        for cell in range(starts[row], starts[row + 1]):
            size += counts[cell]
        for level in range(height):
            for cell in range(starts[row], starts[row + 1]):
                mass[nodes[level, values[cell]]] += counts[cell]
            for cell in range(starts[row], starts[row + 1]):
                node = nodes[level, values[cell]]
                out[row] += max(mass[node] / size - shares[level, node], 0.0)
                mass[node] = 0.0  # so that a node counts once
        out[row] /= height
    return out


def ordered_distances(starts: Counts, places: Codes, counts: Counts, whole: Counts) -> Numbers:
    """Return each row's distance from `whole`, counts at m places in order, when a step from place to place costs 1 / (m - 1).

    The sum over places of |difference of the cumulative shares|, divided by m - 1; shape (r,). The cells of a row are in order
    of place. Each costs a binary search, so that many places do no harm.
    """
    if len(whole) < 2:
        return np.zeros(len(starts) - 1)
    cumulative = np.cumsum(whole) / whole.sum()
    sums = np.concatenate([[0.0], np.cumsum(cumulative)])
    return np.asarray(np.maximum(_ordered(starts, places, counts, cumulative, sums), 0.0))


def tree_distances(starts: Counts, values: Codes, counts: Counts, whole: Counts, nodes: Codes) -> Numbers:
    """Return each row's distance from `whole`, counts of m values, which are as far apart as their lowest common node is high.

    That is its level divided by the height of the tree. `nodes` has shape (height, m): the node of each value on level 0 (the
    value itself), 1, and so on below the root. A tree whose edges have the length 1 / (2 height) has these distances between its
    leaves, and over a tree the earth mover's distance is the sum over edges of length × |difference of the shares below|. So it
    is the mean over levels of the total variation there: with one level, the total variation itself. The result has shape (r,).
    """
    width = int(nodes.max(initial=0)) + 1
    shares = np.stack([np.bincount(level, whole, width) for level in nodes]) / whole.sum()
    return np.asarray(_tree(starts, values, counts, nodes, shares))
