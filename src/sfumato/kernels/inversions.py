"""Pairs of records that two columns put in opposite orders."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.sorting import sorted_runs

_SHORT = 16
"""Stretches of this length are sorted by insertion before merging begins."""
_SAFE = 2**31
"""Below so many records no sum of products of counts leaves 63 bits."""


@numba.njit(cache=True, nogil=True)
def _count_sorting(y, room):  # type: ignore[no-untyped-def]
    """Sort y by merging; return how many pairs stood in falling order. Equal values are no such pair."""
    n = y.size
    total = np.int64(0)
    for start in range(0, n, _SHORT):
        for i in range(start + 1, min(start + _SHORT, n)):
            value, j = y[i], i - 1
            while j >= start and y[j] > value:
                y[j + 1] = y[j]
                j -= 1
            y[j + 1] = value
            total += i - 1 - j
    width = _SHORT
    source, target = y, room
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            total += _merge(source, target, low, middle, high)
        source, target = target, source
        width *= 2
    return total


@numba.njit(cache=True, nogil=True, inline="always")
def _merge(source, target, low, middle, high):  # type: ignore[no-untyped-def]
    if middle >= high or source[middle - 1] <= source[middle]:
        target[low:high] = source[low:high]
        return np.int64(0)
    total = np.int64(0)
    i, j, k = low, middle, low
    while i < middle and j < high:
        left, right = source[i], source[j]
        # without a branch, which would be guessed wrong half of the time
        right_first = np.int64(right < left)
        target[k] = right if right_first else left
        total += right_first * (middle - i)
        j += right_first
        i += 1 - right_first
        k += 1
    while i < middle:
        target[k] = source[i]
        i, k = i + 1, k + 1
    while j < high:
        target[k] = source[j]
        j, k = j + 1, k + 1
    return total


@numba.njit(cache=True, nogil=True)
def _along(order, begins, y, out):  # type: ignore[no-untyped-def]
    """Put y into the order of x; among records with equal x, from the smallest y up, so that they count for nothing."""
    for i in range(order.size):
        out[i] = y[order[i]]
    for r in range(begins.size - 1):
        start, end = begins[r], begins[r + 1]
        if end - start > 1:
            out[start:end] = np.sort(out[start:end])


@numba.njit(cache=True, nogil=True)
def _along_codes(x, y, begins, out):  # type: ignore[no-untyped-def]
    """The same where x holds codes, and those of code k begin at begins[k]."""
    at = begins[:-1].copy()
    for i in range(x.size):
        out[at[x[i]]] = y[i]
        at[x[i]] += 1
    for r in range(begins.size - 1):
        start, end = begins[r], begins[r + 1]
        if end - start > 1:
            out[start:end] = np.sort(out[start:end])


def inversions(x: NDArray[Any], y: NDArray[Any]) -> int:
    """Return how many pairs of records have x_i < x_j and y_i > y_j, exactly; shape (n,) each, no NaN, n < 2^31.

    A pair that is tied in x or in y is no inversion. Time in proportion to n log n (Knight 1966: sort by x, count while
    sorting y).

    >>> inversions(np.array([1.0, 2.0, 2.0, 3.0]), np.array([9.0, 5.0, 7.0, 7.0]))
    3
    """
    x, y = np.asarray(x), np.asarray(y)
    if _are_codes(x) and _are_codes(y):  # which stand for their own place: there is nothing to sort by comparing
        along = np.empty(len(x), np.int32)
        begins = np.concatenate([[0], np.cumsum(np.bincount(x))])
        _along_codes(x, y, begins, along)
    else:
        order, begins, _ = sorted_runs(x.astype(np.float64, copy=False))
        along = np.empty(len(order), np.float64)
        _along(order, begins, y.astype(np.float64, copy=False), along)
    return int(_count_sorting(along, np.empty_like(along)))


def _are_codes(x: NDArray[Any]) -> bool:
    """Whether they are whole numbers from 0 to not much more than there are records."""
    whole = np.issubdtype(x.dtype, np.integer) and len(x) > 0
    return bool(whole and x.min() >= 0 and x.max() < min(4 * len(x) + 1024, _SAFE))


@numba.njit(cache=True, nogil=True)
def _above_before(x, y, ends, counts, levels, above):  # type: ignore[no-untyped-def]
    """For cells sorted by x: how many records have a smaller x and a y past its end (a tree of partial sums, Fenwick 1994)."""
    tree = np.zeros(levels + 1, np.int64)
    seen, waiting, start = np.int64(0), np.int64(0), 0
    for i in range(x.size + 1):
        if i == x.size or x[i] != x[start]:
            for k in range(start, i):
                at = y[k] + 1
                while at <= levels:
                    tree[at] += counts[k]
                    at += at & -at
            seen += waiting
            waiting, start = np.int64(0), i
        if i == x.size:
            break
        not_above, at = np.int64(0), ends[i] + 1
        while at > 0:
            not_above += tree[at]
            at -= at & -at
        above[i] = seen - not_above
        waiting += counts[i]


def inversions_of_table(
    x: NDArray[Any], y: NDArray[Any], counts: NDArray[Any], ends: NDArray[Any] | None = None
) -> int:
    """Return the inversions among records that are given as a table: so many `counts` have the codes x and y, shape (c,) each.

    Codes are whole numbers from 0 in the order of the values. Time in proportion to c log c, whatever the number of records;
    exact for any number of them. With `ends`, the second column holds intervals from y to ends: only those count that lie wholly
    in the opposite order, x_i < x_j and y_i > ends_j.

    >>> inversions_of_table(np.array([0, 1, 1]), np.array([1, 0, 1]), np.array([10, 3, 5]))
    30
    """
    order = np.argsort(x, kind="stable")
    x, y, last, counts = (np.asarray(part, np.int64)[order] for part in (x, y, y if ends is None else ends, counts))
    above = np.empty(len(x), np.int64)
    _above_before(x, y, last, counts, int(last.max(initial=-1)) + 1, above)
    if counts.sum() < _SAFE:
        return int(counts @ above)
    return sum(a * b for a, b in zip(counts.tolist(), above.tolist(), strict=True))
