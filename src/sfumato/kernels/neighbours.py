"""Nearest records of one file for many records of another, exactly: numbers and categories together.

A record is a row: its first columns are numbers, which differ by the square of their difference; the rest are categories, as
numbers that only have to be different, which differ by 1 or not at all. The squared distance is the sum, column by column, so
that equal distances are equal to the last bit. The tree of boxes is that of kd_tree.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.kd_tree import _before, _offer, plant

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def _planted(x):  # type: ignore[no-untyped-def]
    n, p = x.shape
    return plant(x, np.arange(n), np.empty(n, np.int64), np.zeros(p))


@numba.njit(cache=True, nogil=True)
def _distance(points, i, q, numbers, most):  # type: ignore[no-untyped-def]
    """Return the squared distance of a point from q; some number above `most` if it is more."""
    total = 0.0
    for j in range(numbers):
        d = points[i, j] - q[j]
        total += d * d
    for j in range(numbers, q.size):
        if points[i, j] != q[j]:
            total += 1.0
            if total > most:
                return total
    return total


@numba.njit(cache=True, nogil=True)
def _corner(tree, node, q, numbers):  # type: ignore[no-untyped-def]
    """Return what every point of a node's box is at least away from q; rounding keeps order, as in kd_tree."""
    total = 0.0
    for j in range(numbers):
        d = max(tree.box[node, 0, j] - q[j], q[j] - tree.box[node, 1, j], 0.0)
        total += d * d
    for j in range(numbers, q.size):
        if q[j] < tree.box[node, 0, j] or q[j] > tree.box[node, 1, j]:
            total += 1.0
    return total


@numba.njit(cache=True, nogil=True)
def _k_nearest(x, queries, k, numbers):  # type: ignore[no-untyped-def]
    tree = _planted(x)
    n, leaves = tree.record.size, tree.filled.size
    stack, bound = np.empty(64, np.int64), np.empty(64)
    rows, far = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
    found, distance = np.empty(k, np.int64), np.empty(k)
    ties = np.zeros(len(queries), np.int64)
    for i in range(len(queries)):
        q, have, best, most = queries[i], 0, np.inf, np.inf
        stack[0], bound[0], top = 0, 0.0, 0
        while top >= 0:
            node, corner = stack[top], bound[top]
            top -= 1
            if have == k and corner > best and not _before(corner, tree.lowest[node], distance[0], found[0]):
                continue  # boxes that may hold a record as near as the nearest are looked into, to count it
            if node < leaves - 1:
                one, two = 2 * node + 1, 2 * node + 2
                first, second = _corner(tree, one, q, numbers), _corner(tree, two, q, numbers)
                if _before(second, tree.lowest[two], first, tree.lowest[one]):
                    one, two, first, second = two, one, second, first
                stack[top + 1], bound[top + 1] = two, second
                stack[top + 2], bound[top + 2] = one, first
                top += 2
                continue
            leaf = node - leaves + 1
            start = leaf * n // leaves
            for place in range(start, start + tree.filled[leaf]):
                d = _distance(tree.points, place, q, numbers, most)
                if d > most:
                    continue
                if d <= best:
                    ties[i] = ties[i] + 1 if d == best else 1
                    best = d
                have = _offer(d, tree.record[place], found, distance, have, k)
                if have == k:
                    most = distance[0]
        for a in range(k):  # sorted as they are copied: nearest first, of equal distances the lower row
            b = a
            while b > 0 and _before(distance[a], found[a], far[i, b - 1], rows[i, b - 1]):
                rows[i, b], far[i, b] = rows[i, b - 1], far[i, b - 1]
                b -= 1
            rows[i, b], far[i, b] = found[a], distance[a]
    return rows, far, ties


@numba.njit(cache=True, nogil=True)
def _nearest_votes(x, queries, value, low, high, numbers):  # type: ignore[no-untyped-def]
    tree = _planted(x)
    n, leaves = tree.record.size, tree.filled.size
    stack, bound = np.empty(64, np.int64), np.empty(64)
    far, ties, hits = np.empty(len(queries)), np.zeros(len(queries), np.int64), np.zeros(len(queries), np.int64)
    for i in range(len(queries)):
        q, best = queries[i], np.inf
        stack[0], bound[0], top = 0, 0.0, 0
        while top >= 0:
            node, corner = stack[top], bound[top]
            top -= 1
            if corner > best:  # a box that may hold an equal distance is looked into
                continue
            if node < leaves - 1:
                one, two = 2 * node + 1, 2 * node + 2
                first, second = _corner(tree, one, q, numbers), _corner(tree, two, q, numbers)
                if second < first:
                    one, two, first, second = two, one, second, first
                stack[top + 1], bound[top + 1] = two, second
                stack[top + 2], bound[top + 2] = one, first
                top += 2
                continue
            leaf = node - leaves + 1
            start = leaf * n // leaves
            for place in range(start, start + tree.filled[leaf]):
                d = _distance(tree.points, place, q, numbers, best)
                if d > best:
                    continue
                if d < best:
                    best, ties[i], hits[i] = d, 0, 0
                ties[i] += 1
                hits[i] += low[i] <= value[tree.record[place]] <= high[i]
        far[i] = best
    return far, ties, hits


def k_nearest(x: Numbers, queries: Numbers, k: int, numbers: int) -> tuple[Rows, Numbers, Rows]:
    """Return the k nearest rows of x (n, p), n >= k, for each query (m, p), and their squared distances; shape (m, k) each.

    The first `numbers` columns hold numbers, the rest categories. The nearest row stands first; of equal distances the lower.
    Third, how many rows are as near as the nearest, shape (m,).
    """
    rows, far, ties = _k_nearest(_plain(x), _plain(queries), k, numbers)
    return rows, far, ties


def nearest_votes(
    x: Numbers, queries: Numbers, value: Numbers, low: Numbers, high: Numbers, numbers: int
) -> tuple[Numbers, Rows, Rows]:
    """Return for each query (m, p) its squared distance from x (n, p), n >= 1, the number of rows that near, and of votes.

    A row votes if its `value` (n,) lies between the query's `low` and `high` (m,): a probability is hits over ties. The first
    `numbers` columns hold numbers, the rest categories. Shape (m,) each.
    """
    far, ties, hits = _nearest_votes(_plain(x), _plain(queries), _plain(value), _plain(low), _plain(high), numbers)
    return far, ties, hits


def _plain(x: Numbers) -> Numbers:
    return np.ascontiguousarray(x, np.float64)
