"""V-MDAV: groups of k to 2k - 1 points, from the outside in (Solanas and Martínez-Ballesté 2006)."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.kd_tree import farthest, nearest, plant, remove, squared
from sfumato.kernels.mdav import add, take


@numba.njit(cache=True, nogil=True)
def _extend(tree, x, size, most, gamma, members, found, distance):  # type: ignore[no-untyped-def]
    """Take free points into a group as long as they are much closer to it than to other free points; return its size."""
    closest, gap = np.full(most, -1, np.int64), np.empty(most)
    while size < most:
        best = 0
        for i in range(size):
            if closest[i] < 0:  # not known yet, or taken into the group
                nearest(tree, x[members[i]], 1, found, distance)
                closest[i], gap[i] = found[0], distance[0]
            if gap[i] < gap[best] or (gap[i] == gap[best] and closest[i] < closest[best]):
                best = i
        record = closest[best]
        nearest(tree, x[record], 2, found, distance)  # itself and the next one, or two that coincide with it
        if not gap[best] < gamma * gamma * distance[0]:
            break
        remove(tree, record)
        for i in range(size):
            if closest[i] == record:
                closest[i] = -1
        members[size] = record
        size += 1
    return size


@numba.njit(cache=True, nogil=True)
def _v_mdav(x, k, gamma):  # type: ignore[no-untyped-def]
    n, p = x.shape
    high, low = np.zeros(p), np.zeros(p)
    for i in range(n):
        add(high, low, x[i], 1.0)
    mean = (high + low) / n
    labels, place = np.full(n, -1, np.int64), np.empty(n, np.int64)
    members, found, distance = np.empty(2 * k, np.int64), np.empty(k, np.int64), np.empty(k)
    left, group = n, 0
    while left >= k:  # a new tree when half of the points are gone
        planted = left
        tree = plant(x, np.flatnonzero(labels < 0), place, mean)
        while left >= k and 2 * left >= planted:
            take(tree, x, farthest(tree, mean), group, labels, members[:k], distance)
            left -= k
            size = _extend(tree, x, k, min(2 * k - 1, k + left - 1), gamma, members, found, distance)
            for i in range(k, size):
                labels[members[i]] = group
            left -= size - k
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

    While k or more are left: the point farthest from the mean of all with its k - 1 nearest. The free point closest to any
    member joins the group if it is closer to it than gamma times its distance to the next free point, up to 2k - 1 points.
    Fewer than k at the end go each to the group with the closest mean. Ties go to the lower row number.
    """
    x = np.ascontiguousarray(x, np.float64)
    labels: NDArray[np.int64]
    labels, groups = _v_mdav(x, k, gamma)
    _assign_rest(x, labels, groups)
    return labels
