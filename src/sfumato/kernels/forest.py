"""A random forest on binned columns (Breiman 2001): shares of classes, or means, of the training rows in a leaf."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from sfumato.kernels.classes import classes
from sfumato.typing import Numbers, Whole

BINS = 64
"""Most bins that a column may have."""


class ForestTree(NamedTuple):
    """Nodes in the order they were made: rows with ``bins[column] <= cut`` go left; a leaf has column -1."""

    column: Whole
    cut: Whole
    left: Whole
    value: Numbers
    """Shape (nodes, k): shares of the k classes, or the mean (k = 1)."""


@numba.njit(cache=True, nogil=True)
def _next(state):  # type: ignore[no-untyped-def]
    """Return another random 64-bit number (SplitMix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    x = state[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def _below(state, n):  # type: ignore[no-untyped-def]
    return np.int64((_next(state) >> np.uint64(11)) % np.uint64(n))


@numba.njit(cache=True, nogil=True)
def best_split(bins, code, value, rows, columns, k, smallest):  # type: ignore[no-untyped-def]
    """Return the column and the cut that explain most, or -1: Σ over both sides and classes of sum² / count is largest."""
    n, best, best_column, best_cut = rows.size, 0.0, -1, -1
    sums, counts = np.empty((BINS, k)), np.empty(BINS, np.int64)
    whole, left = np.zeros(k), np.empty(k)
    for row in rows:
        whole[code[row]] += value[row]
    start = (whole * whole).sum() / n
    for column in columns:
        sums[:], counts[:], top = 0.0, 0, 0
        for row in rows:
            b = bins[row, column]
            counts[b] += 1
            sums[b, code[row]] += value[row]
            top = max(top, b)
        left[:], before = 0.0, 0
        for b in range(top):
            if counts[b] == 0:
                continue
            before += counts[b]
            left += sums[b]
            if before < smallest or n - before < smallest:
                continue
            gain = 0.0
            for c in range(k):
                gain += left[c] * left[c] / before + (whole[c] - left[c]) ** 2 / (n - before)
            gain -= start
            if gain > best * (1 + 1e-12) and gain > 1e-12 * abs(start):
                best, best_column, best_cut = gain, column, b
    return best_column, best_cut


@numba.njit(cache=True, nogil=True)
def _grow(bins, code, value, rows, tried, k, smallest, state):  # type: ignore[no-untyped-def]
    """Grow one tree on the rows, which are reordered."""
    room = 2 * rows.size + 1
    column, cut = np.full(room, -1, np.int64), np.zeros(room, np.int64)
    left, leaf = np.zeros(room, np.int64), np.zeros((room, k))
    first, last = np.zeros(room, np.int64), np.zeros(room, np.int64)
    first[0], last[0] = 0, rows.size
    nodes, at = 1, 0
    order = np.arange(bins.shape[1])
    while at < nodes:
        here = rows[first[at] : last[at]]
        for row in here:
            leaf[at, code[row]] += value[row] / here.size
        if here.size >= 2 * smallest:
            for i in range(tried):  # the first columns of a random order
                j = i + _below(state, order.size - i)
                order[i], order[j] = order[j], order[i]
            column[at], cut[at] = best_split(bins, code, value, here, order[:tried], k, smallest)
            if column[at] >= 0:
                i, j = 0, here.size - 1
                while i <= j:
                    if bins[here[i], column[at]] <= cut[at]:
                        i += 1
                    else:
                        here[i], here[j] = here[j], here[i]
                        j -= 1
                left[at] = nodes
                first[nodes], last[nodes] = first[at], first[at] + i
                first[nodes + 1], last[nodes + 1] = first[at] + i, last[at]
                nodes += 2
        at += 1
    return column[:nodes].copy(), cut[:nodes].copy(), left[:nodes].copy(), leaf[:nodes].copy()


@numba.njit(cache=True, nogil=True)
def _sample(state, n, size):  # type: ignore[no-untyped-def]
    rows = np.empty(size, np.int64)
    for i in range(size):
        rows[i] = _below(state, n)
    return rows


def grow_forest(
    bins: Whole,
    code: Whole,
    value: Numbers,
    k: int,
    trees: int = 100,
    smallest: int = 5,
    most: int = 20_000,
    seed: int = 0,
) -> list[ForestTree]:
    """Grow trees on bootstrap samples of at most `most` rows, each split chosen among √p columns.

    `bins` (n, p) holds whole numbers below `BINS`. For classes `code` (n,) is the class of each row and `value` is 1; for a mean
    `code` is 0 and `value` the number. No leaf has fewer than `smallest` rows.
    """
    n, p = bins.shape
    state = np.array([seed], np.uint64)
    tried = max(1, int(np.sqrt(p)))
    return [
        ForestTree(*_grow(bins, code, value, _sample(state, n, min(n, most)), tried, k, smallest, state))
        for _ in range(trees)
    ]


def grow_tree(bins: Whole, code: Whole, value: Numbers, k: int, smallest: int) -> ForestTree:
    """Grow one tree on all rows, each split chosen among all columns; see `grow_forest`. Nothing is random."""
    rows, state = np.arange(len(bins)), np.zeros(1, np.uint64)
    return ForestTree(*_grow(bins, code, value, rows, bins.shape[1], k, smallest, state))


@numba.njit(cache=True, nogil=True)
def _predict(column, cut, left, value, bins, out):  # type: ignore[no-untyped-def]
    for row in range(bins.shape[0]):
        at = 0
        while column[at] >= 0:
            at = left[at] + (0 if bins[row, column[at]] <= cut[at] else 1)
        for c in range(out.shape[1]):
            out[row, c] += value[at, c]


def predict_forest(trees: list[ForestTree], bins: Whole) -> Numbers:
    """Return the mean over the trees of the leaves that each row falls into, shape (n, k); rows that are alike are done once."""
    labels, sizes = classes(list(bins.T), len(bins))
    one = np.empty(len(sizes), np.int64)
    one[labels] = np.arange(len(bins))
    out = np.zeros((len(sizes), trees[0].value.shape[1]))
    for tree in trees:
        _predict(*tree, np.ascontiguousarray(bins[one]), out)
    return np.asarray((out / len(trees))[labels])
