"""MDAV with Gower's distance, for numbers and categories together.

Columns come ready to compare: numbers divided by their range and times their weight, so that they differ by |a - b|;
categories as codes, which differ by the column's weight or not at all. Gower's distance (1971) is the sum, up to a factor.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


def gower_from(x: Numbers, codes: Labels, weight: Numbers, at: int) -> Numbers:
    """Return the distance of every record from one, shape (n,); x (n, p) numbers, codes (n, q) categories of weight (q,)."""
    far = np.abs(x - x[at]).sum(axis=1)
    for column, w in zip(codes.T, weight, strict=True):
        far += w * (column != column[at])
    return np.asarray(far)


def gower_pieces(x: Numbers, codes: Labels, weight: Numbers, size: int) -> list[Labels]:
    """Return the records in pieces of at most `size`, as row numbers in rising order.

    A piece that is too large is cut in two halves, along the line through two records far apart (FastMap; Faloutsos and Lin
    1995): it needs distances alone. O(n log n).
    """
    pieces, waiting = [], [np.arange(len(x))]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= size:
            pieces.append(rows)
            continue
        a_x, a_codes = x[rows], codes[rows]
        one = int(gower_from(a_x, a_codes, weight, 0).argmax())
        from_one = gower_from(a_x, a_codes, weight, one)
        from_other = gower_from(a_x, a_codes, weight, int(from_one.argmax()))
        order = np.argsort(from_one**2 - from_other**2, kind="stable")
        half = len(rows) // 2
        waiting += [rows[np.sort(order[half:])], rows[np.sort(order[:half])]]
    return pieces


@numba.njit(cache=True, nogil=True)
def _nearest(distance, k):  # type: ignore[no-untyped-def]
    """Return the places of the k smallest distances, the first of equals."""
    best, place = np.full(k, np.inf), np.full(k, -1, np.int64)
    for i in range(distance.size):
        if distance[i] < best[k - 1]:
            j = k - 1
            while j > 0 and best[j - 1] > distance[i]:
                best[j], place[j] = best[j - 1], place[j - 1]
                j -= 1
            best[j], place[j] = distance[i], i
    return place


@numba.njit(cache=True, nogil=True)
def _gower_mdav(x, codes, weight, levels, k):  # type: ignore[no-untyped-def]
    n, p = x.shape
    q = codes.shape[1]
    labels = np.full(n, -1, np.int64)
    rest = np.arange(n)
    sums = np.zeros(p)
    counts = np.zeros((q, levels), np.int64)
    for i in range(n):
        for j in range(p):
            sums[j] += x[i, j]
        for j in range(q):
            counts[j, codes[i, j]] += 1
    group, second = 0, False
    far = -1
    while rest.size >= 2 * k:
        distance = np.zeros(rest.size)
        if not second:  # the record most distant from the average one: means of numbers, modes of categories
            mode = np.zeros(q, np.int64)
            for j in range(q):
                mode[j] = np.argmax(counts[j])
            for i in range(rest.size):
                for j in range(p):
                    distance[i] += abs(x[rest[i], j] - sums[j] / rest.size)
                for j in range(q):
                    if codes[rest[i], j] != mode[j]:
                        distance[i] += weight[j]
            far = rest[np.argmax(distance)]
        for i in range(rest.size):
            distance[i] = 0.0
            for j in range(p):
                distance[i] += abs(x[rest[i], j] - x[far, j])
            for j in range(q):
                if codes[rest[i], j] != codes[far, j]:
                    distance[i] += weight[j]
            if rest[i] == far:
                distance[i] = -1.0  # before any that are equal to it
        for at in _nearest(distance, k):
            row = rest[at]
            labels[row] = group
            for j in range(p):
                sums[j] -= x[row, j]
            for j in range(q):
                counts[j, codes[row, j]] -= 1
        left = labels[rest] < 0
        # of a pair of groups, the second is made around the record most distant from the first one's
        second = not second and rest.size >= 3 * k
        if second:
            far = rest[left][np.argmax(distance[left])]
        rest = rest[left]
        group += 1
    labels[rest] = group
    return labels


def gower_mdav(x: Numbers, codes: Labels, weight: Numbers, k: int) -> Labels:
    """Return the group of each record, shape (n,), n >= k: MDAV-generic (Domingo-Ferrer and Torra 2005); O(n² / k).

    x (n, p) numbers and codes (n, q) categories, ready to compare; of equally distant records the first is taken.
    """
    columns = [np.unique(column, return_inverse=True)[1] for column in codes.T]  # no more levels than records
    packed = np.column_stack(columns) if columns else np.zeros((len(x), 0), np.int64)
    labels: Labels = _gower_mdav(
        np.ascontiguousarray(x, np.float64),
        np.ascontiguousarray(packed, np.int64),
        np.asarray(weight, np.float64),
        int(packed.max(initial=0)) + 1,
        k,
    )
    return labels
