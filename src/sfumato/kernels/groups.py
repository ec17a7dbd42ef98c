"""Groups of records: consecutive ones along an order, and what a group is released as."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


def consecutive(order: NDArray[np.int64], k: int) -> Labels:
    """Return the group of each record when those next to each other in `order` (n,) are taken k at a time.

    Groups are numbered from 0 along the order, and all have k but one of k to 2k - 1 (n >= k): the middle one, the lower of two.
    Records lie closest there; at an end the larger group would hold the extremes, and most of the loss.
    """
    return consecutive_within(order, np.zeros(len(order), np.int64), k)


def consecutive_within(order: NDArray[np.int64], block: Labels, k: int) -> Labels:
    """Return `consecutive` within each block at once; `order` (n,) puts the records of a block next to each other."""
    if not len(order):
        return np.zeros(0, np.int64)
    sorted_block = block[order]
    starts = np.flatnonzero(np.r_[True, sorted_block[1:] != sorted_block[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    count = np.maximum(sizes // k, 1)
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    after_middle = place >= np.repeat(((count - 1) // 2 + 1) * k, sizes)
    within = (place - np.where(after_middle, np.repeat(sizes - k * count, sizes), 0)) // k
    labels = np.empty(len(order), np.int64)
    labels[order] = within + np.repeat(np.cumsum(count) - count, sizes)
    return labels


def centres(x: Numbers, labels: Labels, how: str) -> Numbers:
    """Return the "mean", "median", "low" (the lower of two medians) or "mode" of each group, shape (g, p).

    Of several modes the smallest. A mean never leaves the range of its group, not even by rounding.
    """
    count = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(labels, minlength=count)
    columns = [_centre(column, labels, sizes, how) for column in x.T]
    return np.column_stack(columns) if columns else np.empty((count, 0))


def _centre(column: Numbers, labels: Labels, sizes: Labels, how: str) -> Numbers:
    count = len(sizes)
    if how == "mean":
        one = np.empty(count)
        one[labels] = column  # some member: deviations from it are small, and zero where the group is constant
        return np.asarray(one + np.bincount(labels, column - one[labels], count) / sizes)
    order = np.lexsort([column, labels])
    values, group = column[order], labels[order]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    if how in ("median", "low"):
        low, high = values[starts + (sizes - 1) // 2], values[starts + sizes // 2]
        return np.asarray(low if how == "low" else low + (high - low) / 2)
    begins = np.flatnonzero(np.r_[True, (values[1:] != values[:-1]) | (group[1:] != group[:-1])][: len(values)])
    runs = np.diff(np.r_[begins, len(values)])
    best = np.lexsort([begins, -runs, group[begins]])
    _, at = np.unique(group[begins][best], return_index=True)
    return np.asarray(values[begins[best[at]]])
