"""V-MDAV: groups of k to 2k - 1 points, from the outside in (Solanas and Martínez-Ballesté 2006)."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.kd_tree import farthest, nearest, plant, remove, squared
from sfumato.kernels.mdav import add, take


@numba.njit(cache=True, nogil=True)
def _next(tree, x, members, size, closest, gap, found, distance):  # type: ignore[no-untyped-def]
    """Return which member has the closest point outside its group, having looked up those that do not know theirs."""
    best = 0
    for i in range(size):
        if closest[i] < 0:
            nearest(tree, x[members[i]], 1, found, distance)
            closest[i], gap[i] = found[0], distance[0]
        if gap[i] < gap[best] or (gap[i] == gap[best] and closest[i] < closest[best]):
            best = i
    return best


@numba.njit(cache=True, nogil=True)
def _v_mdav(x, k, gamma):  # type: ignore[no-untyped-def]
    n, p = x.shape
    high, low = np.zeros(p), np.zeros(p)
    for i in range(n):
        add(high, low, x[i], 1.0)
    mean = (high + low) / n
    labels, place = np.full(n, -1, np.int64), np.empty(n, np.int64)
    members, closest, gap = np.empty(2 * k, np.int64), np.empty(2 * k, np.int64), np.empty(2 * k)
    found, distance = np.empty(k, np.int64), np.empty(k)
    tree = plant(x, np.arange(n), place, mean)
    left, group = n, 0
    while left >= k:
        if 2 * left < tree.record.size:
            tree = plant(x, np.flatnonzero(labels < 0), place, mean)
        take(tree, x, farthest(tree, mean), group, labels, members[:k], distance)
        left -= k
        size = k
        closest[:] = -1
        while size < 2 * k - 1 and left > 1:
            at = _next(tree, x, members, size, closest, gap, found, distance)
            record, inside = closest[at], gap[at]
            nearest(tree, x[record], 2, found, distance)  # itself and the next one, or two that coincide with it
            if not inside < gamma * gamma * distance[0]:
                break
            remove(tree, record)
            labels[record] = group
            members[size] = record
            for i in range(size):
                if closest[i] == record:
                    closest[i] = -1
            size += 1
            left -= 1
        group += 1
    return labels, group


@numba.njit(cache=True, nogil=True)
def _assign_rest(x, labels, groups):  # type: ignore[no-untyped-def]
    """Put every point without a group into the group with the closest mean."""
    means, sizes = np.zeros((groups, x.shape[1])), np.zeros(groups)
    for i in range(x.shape[0]):
        if labels[i] >= 0:
            means[labels[i]] += x[i]
            sizes[labels[i]] += 1
    for g in range(groups):
        means[g] /= sizes[g]
    for i in range(x.shape[0]):
        if labels[i] < 0:
            best = np.inf
            for g in range(groups):
                d = squared(means, g, x[i])
                if d < best:
                    best, labels[i] = d, g


def v_mdav(x: NDArray[np.float64], k: int, gamma: float) -> NDArray[np.int64]:
    """Return the group of each point, numbered as they are made, shape (n,); x has shape (n, p), n >= k >= 2.

    While k or more are left: the point farthest from the mean of all with its k - 1 nearest. The group then takes in the free point
    that is closest to any member, as long as it is closer to that member than gamma times its distance to the next free point, up to
    2k - 1 points. Fewer than k at the end go each to the group with the closest mean. Ties go to the lower row number.
    """
    x = np.ascontiguousarray(x, np.float64)
    labels: NDArray[np.int64]
    labels, groups = _v_mdav(x, k, gamma)
    _assign_rest(x, labels, groups)
    return labels
