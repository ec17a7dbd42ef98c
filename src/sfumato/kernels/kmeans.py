"""k-means with a start that depends on the data alone."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.groups import centres
from sfumato.kernels.robust import principal_axes

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

ROUNDS = 25
"""Most rounds of Lloyd's algorithm; the last ones move few records."""


@numba.njit(cache=True, nogil=True)
def _lloyd(x, labels, count, rounds):  # type: ignore[no-untyped-def]
    n, p = x.shape
    centre = np.zeros((count, p))
    for _ in range(rounds):
        sums, sizes = np.zeros((count, p)), np.zeros(count)
        for i in range(n):
            sizes[labels[i]] += 1
            for j in range(p):
                sums[labels[i], j] += x[i, j]
        for c in range(count):
            if sizes[c]:  # a cluster that lost all its records keeps its place
                centre[c] = sums[c] / sizes[c]
        moved = 0
        for i in range(n):
            best, nearest = -1, np.inf
            for c in range(count):
                d = 0.0
                for j in range(p):
                    d += (x[i, j] - centre[c, j]) ** 2
                if d < nearest:
                    best, nearest = c, d
            if best != labels[i]:
                labels[i] = best
                moved += 1
        if moved == 0:
            break
    return labels


def k_means(x: Numbers, count: int, rounds: int = ROUNDS) -> Labels:
    """Return the cluster of each record of x (n, p), numbered from 0 to at most count - 1.

    Lloyd's algorithm, from `count` equal slices along the first principal component (Su and Dy 2007): no luck is involved.
    """
    n = len(x)
    centred = x - x.mean(axis=0)
    _, axes = principal_axes(centred.T @ centred)
    order = np.argsort(centred @ axes[:, 0], kind="stable")
    labels = np.empty(n, np.int64)
    labels[order] = np.arange(n) * count // n
    found: Labels = _lloyd(np.ascontiguousarray(x, np.float64), labels, count, rounds)
    return found


def merge_small(x: Numbers, labels: Labels, k: int) -> Labels:
    """Return clusters of at least k, numbered from 0: the smallest joins the one with the nearest centre until none is small."""
    _, labels = np.unique(labels, return_inverse=True)
    sizes, middle = np.bincount(labels), centres(x, labels, "mean")
    joins = np.arange(len(sizes))
    alive = np.ones(len(sizes), bool)
    while alive.sum() > 1:
        small = int(np.where(alive, sizes, len(x) + 1).argmin())
        if sizes[small] >= k:
            break
        alive[small] = False
        distance = np.where(alive, ((middle - middle[small]) ** 2).sum(axis=1), np.inf)
        into = int(distance.argmin())
        joins[joins == small] = into
        both = sizes[into] + sizes[small]
        middle[into] += (middle[small] - middle[into]) * sizes[small] / both
        sizes[into] = both
    _, merged = np.unique(joins[labels], return_inverse=True)
    return merged.astype(np.int64)
