"""Maximum distance to average vector: groups of k points, from the outside in (Domingo-Ferrer and Torra 2005)."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.kd_tree import centre, farthest, nearest, plant, remove

_DRIFT = 0.98
"""Share of the points left at which the tree is centred anew: the mean drifts as points go."""


@numba.njit(cache=True, nogil=True)
def add(high, low, row, sign):  # type: ignore[no-untyped-def]
    """Add a row to sums, or take it away; kept in twice the precision, so that what went leaves no trace (Knuth's two-sum)."""
    for j in range(row.size):
        term = sign * row[j]
        total = high[j] + term
        part = total - high[j]
        low[j] += (high[j] - (total - part)) + (term - part)
        high[j] = total


@numba.njit(cache=True, nogil=True)
def take(tree, x, record, group, labels, members, distance):  # type: ignore[no-untyped-def]
    """Make a group of a record and its nearest, as many as there is room for in `members`, and take them out of the tree."""
    k = members.size
    remove(tree, record)
    nearest(tree, x[record], k - 1, members, distance)
    for i in range(k - 1):
        remove(tree, members[i])
    members[k - 1] = record
    for i in range(k):
        labels[members[i]] = group


@numba.njit(cache=True, nogil=True)
def _mdav(x, k):  # type: ignore[no-untyped-def]
    n, p = x.shape
    high, low = np.zeros(p), np.zeros(p)
    for i in range(n):
        add(high, low, x[i], 1.0)
    labels, place = np.full(n, -1, np.int64), np.empty(n, np.int64)
    members, distance = np.empty(k, np.int64), np.empty(k)
    left, group = n, 0
    while left >= 2 * k:  # a new tree when half of the points are gone
        planted = centred = left
        tree = plant(x, np.flatnonzero(labels < 0), place, (high + low) / left)
        while left >= 2 * k and 2 * left >= planted:
            mean = (high + low) / left
            if left < _DRIFT * centred:
                centre(tree, mean)
                centred = left
            record = farthest(tree, mean)
            for end in range(2 if left >= 3 * k else 1):
                if end == 1:
                    record = farthest(tree, x[record])
                take(tree, x, record, group, labels, members, distance)
                for i in range(k):
                    add(high, low, x[members[i]], -1.0)
                group += 1
                left -= k
    for i in range(n):
        if labels[i] < 0:
            labels[i] = group
    return labels


def mdav(x: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the group of each point, numbered as they are made, shape (n,); x has shape (n, p), k is at least 2.

    While 3k or more are left: the point farthest from their mean with its k - 1 nearest, then the point farthest from that
    one with its k - 1 nearest. Of 2k up to 3k - 1 that are left, one more such group; the rest is the last group. Ties go to
    the lower row number. Equal to a full scan, and far from quadratic in n where there are few columns.
    """
    labels: NDArray[np.int64] = _mdav(np.ascontiguousarray(x, np.float64), k)
    return labels
