"""How many points lie in each of many boxes."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def _box_counts(x, low, high):  # type: ignore[no-untyped-def]
    counts, last = np.zeros(len(low), np.int64), np.full(len(low), -1, np.int64)
    rows = np.empty(x.shape[1], np.int64)
    for b in range(len(low)):
        kept = rows.size
        for i in range(kept):
            rows[i] = i
        for j in range(len(x)):  # one bounded column after the other, among the points that are left
            if low[b, j] == -np.inf and high[b, j] == np.inf:
                continue
            some = 0
            for i in range(kept):
                if low[b, j] <= x[j, rows[i]] <= high[b, j]:
                    rows[some] = rows[i]
                    some += 1
            kept = some
        counts[b] = kept
        if kept:
            last[b] = rows[kept - 1]
    return counts, last


@numba.njit(cache=True, nogil=True)
def _alone(x, low, high):  # type: ignore[no-untyped-def]
    out = np.zeros(len(low), np.bool_)
    bounded = np.empty(x.shape[1], np.int64)
    for b in range(len(low)):
        used = 0
        for j in range(x.shape[1]):
            if low[b, j] != -np.inf or high[b, j] != np.inf:
                bounded[used] = j
                used += 1
        count = 0
        for i in range(len(x)):
            inside = True
            for k in range(used):
                j = bounded[k]
                if not low[b, j] <= x[i, j] <= high[b, j]:
                    inside = False
                    break
            count += inside
            if count > 1:  # most boxes hold many points, and are done with soon
                break
        out[b] = count == 1
    return out


def holds_one(x: Numbers, low: Numbers, high: Numbers) -> NDArray[np.bool_]:
    """Return which of the closed boxes, low and high (b, p), hold exactly one point of x (n, p); shape (b,)."""
    found: NDArray[np.bool_] = _alone(np.ascontiguousarray(x), np.ascontiguousarray(low), np.ascontiguousarray(high))
    return found


def box_counts(x: Numbers, low: Numbers, high: Numbers) -> tuple[Rows, Rows]:
    """Return how many points of x (n, p) lie in each closed box, low and high (b, p), and the last of them; shape (b,) each.

    The last is -1 where there is none. A column with low -inf and high inf does not bound its box.
    """
    columns = np.ascontiguousarray(np.asarray(x, np.float64).T)
    counts, last = _box_counts(columns, np.ascontiguousarray(low), np.ascontiguousarray(high))
    return counts, last
