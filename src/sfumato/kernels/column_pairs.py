"""Two columns in one pass: regression sums, differences, distances of distributions, inversions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.sorting import sorted_runs
from sfumato.typing import Codes, Numbers, Whole


@numba.njit(cache=True, nogil=True)
def _regression_sums(x, y):  # type: ignore[no-untyped-def]
    count, total_x, total_y = 0, 0.0, 0.0
    for i in range(x.size):
        if not (np.isnan(x[i]) or np.isnan(y[i])):
            count += 1
            total_x += x[i]
            total_y += y[i]
    if count == 0:
        return 0, 0.0, 0.0
    mean_x, mean_y = total_x / count, total_y / count
    squares, products = 0.0, 0.0
    for i in range(x.size):
        if not (np.isnan(x[i]) or np.isnan(y[i])):
            a = x[i] - mean_x
            squares += a * a
            products += a * (y[i] - mean_y)
    return count, squares, products


def regression_sums(x: Numbers, y: Numbers) -> tuple[int, float, float]:
    """Return the number of complete pairs, Σ(x - x̄)² and Σ(x - x̄)(y - ȳ) over them."""
    count, squares, products = _regression_sums(x, y)
    return int(count), float(squares), float(products)


@numba.njit(cache=True, nogil=True)
def _mean_square(x, y):  # type: ignore[no-untyped-def]
    count, total = 0, 0.0
    for i in range(x.size):
        gap = y[i] - x[i]
        if not np.isnan(gap):
            count += 1
            total += gap * gap
    return total / count if count else np.nan


def mean_square_difference(x: Numbers, y: Numbers) -> float:
    """Return the mean of (y - x)² over complete pairs, NaN if there is none."""
    return float(_mean_square(x, y))


# --- How far two distribution functions of weighted numbers are apart, in one pass over both.


class Gaps(NamedTuple):
    """What lies between two distribution functions F and G."""

    largest: float
    """The largest |F(x) - G(x)|."""
    area: float
    """The integral of |F - G|."""
    square: float
    """The integral of (F - G)²."""


@numba.njit(cache=True, nogil=True)
def _gaps(x, f, y, g):  # type: ignore[no-untyped-def]
    n, m = len(x), len(y)
    largest, area, square = 0.0, 0.0, 0.0
    i, j, here_f, here_g, last = 0, 0, 0.0, 0.0, 0.0
    while i < n or j < m:
        now = x[i] if j == m or (i < n and x[i] <= y[j]) else y[j]
        between = abs(here_f - here_g)
        if between > 0.0:
            area += between * (now - last)
            square += between * between * (now - last)
        while i < n and x[i] == now:
            here_f = f[i]
            i += 1
        while j < m and y[j] == now:
            here_g = g[j]
            j += 1
        largest = max(largest, abs(here_f - here_g))
        last = now
    return largest, area, square


def ecdf_gaps(x: Numbers, f: Numbers, y: Numbers, g: Numbers) -> Gaps:
    """Return how far F and G are apart; `x`, shape (n,), rises, and ``f[i]`` is the share at or below ``x[i]``; so `y` and `g`.

    >>> ecdf_gaps(np.array([0.0, 2.0]), np.array([0.5, 1.0]), np.array([1.0]), np.array([1.0]))
    Gaps(largest=0.5, area=1.0, square=0.5)
    """
    return Gaps(*_gaps(x, f, y, g))


# --- Earth mover's distances of many small distributions from one large one.
#
# The distributions are sparse: row i has the cells from ``starts[i]`` to ``starts[i + 1]``, each with a value and a count above 0.


@numba.njit(cache=True, nogil=True)
def _apart(cumulative, sums, level, first, last):  # type: ignore[no-untyped-def]
    """Return the sum of |level - cumulative| over the places from `first` to before `last`; `cumulative` rises."""
    low, high = first, last
    while low < high:  # where the sequence reaches the level
        middle = (low + high) // 2
        if cumulative[middle] < level:
            low = middle + 1
        else:
            high = middle
    below = level * (low - first) - (sums[low] - sums[first])
    above = (sums[last] - sums[low]) - level * (last - low)
    return below + above


@numba.njit(cache=True, nogil=True)
def _ordered(starts, places, counts, cumulative, sums):  # type: ignore[no-untyped-def]
    m = len(cumulative)
    out = np.zeros(len(starts) - 1)
    for row in range(len(out)):
        size = 0
        for cell in range(starts[row], starts[row + 1]):
            size += counts[cell]
        seen, last, total = 0, 0, 0.0
        for cell in range(starts[row], starts[row + 1]):
            total += _apart(cumulative, sums, seen / size, last, places[cell])
            seen += counts[cell]
            last = places[cell]
        total += _apart(cumulative, sums, 1.0, last, m)
        out[row] = total / (m - 1)
    return out


@numba.njit(cache=True, nogil=True)
def _tree(starts, values, counts, nodes, shares):  # type: ignore[no-untyped-def]
    height, out = len(nodes), np.zeros(len(starts) - 1)
    mass = np.zeros(shares.shape[1])
    for row in range(len(out)):
        size = 0
        for cell in range(starts[row], starts[row + 1]):
            size += counts[cell]
        for level in range(height):
            for cell in range(starts[row], starts[row + 1]):
                mass[nodes[level, values[cell]]] += counts[cell]
            for cell in range(starts[row], starts[row + 1]):
                node = nodes[level, values[cell]]
                out[row] += max(mass[node] / size - shares[level, node], 0.0)
                mass[node] = 0.0  # so that a node counts once
        out[row] /= height
    return out


def ordered_distances(starts: Whole, places: Codes, counts: Whole, whole: Whole) -> Numbers:
    """Return each row's distance from `whole`, counts at m places in order, when a step from place to place costs 1 / (m - 1).

    The sum over places of |difference of the cumulative shares|, divided by m - 1; shape (r,). The cells of a row are in order
    of place. Each costs a binary search, so that many places do no harm.
    """
    if len(whole) < 2:
        return np.zeros(len(starts) - 1)
    cumulative = np.cumsum(whole) / whole.sum()
    sums = np.concatenate([[0.0], np.cumsum(cumulative)])
    return np.asarray(np.maximum(_ordered(starts, places, counts, cumulative, sums), 0.0))


def tree_distances(starts: Whole, values: Codes, counts: Whole, whole: Whole, nodes: Codes) -> Numbers:
    """Return each row's distance from `whole`, counts of m values, which are as far apart as their lowest common node is high.

    That is its level divided by the height of the tree. `nodes` has shape (height, m): the node of each value on level 0 (the
    value itself), 1, and so on below the root. A tree whose edges have the length 1 / (2 height) has these distances between its
    leaves, and over a tree the earth mover's distance is the sum over edges of length × |difference of the shares below|. So it
    is the mean over levels of the total variation there: with one level, the total variation itself. The result has shape (r,).
    """
    width = int(nodes.max(initial=0)) + 1
    shares = np.stack([np.bincount(level, whole, width) for level in nodes]) / whole.sum()
    return np.asarray(_tree(starts, values, counts, nodes, shares))


_SHORT = 16
"""Stretches of this length are sorted by insertion before merging begins."""
_SAFE = 2**31
"""With fewer records than this, every sum of products of counts fits into 63 bits."""


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
def _sort_runs(begins, out):  # type: ignore[no-untyped-def]
    for r in range(begins.size - 1):
        start, end = begins[r], begins[r + 1]
        if end - start > 1:
            out[start:end] = np.sort(out[start:end])


@numba.njit(cache=True, nogil=True)
def _along(order, begins, y, out):  # type: ignore[no-untyped-def]
    """Put y into the order of x; among records with equal x, from the smallest y up, so that they count for nothing."""
    for i in range(order.size):
        out[i] = y[order[i]]
    _sort_runs(begins, out)


@numba.njit(cache=True, nogil=True)
def _along_codes(x, y, begins, out):  # type: ignore[no-untyped-def]
    """The same where x holds codes, and those of code k begin at begins[k]."""
    at = begins[:-1].copy()
    for i in range(x.size):
        out[at[x[i]]] = y[i]
        at[x[i]] += 1
    _sort_runs(begins, out)


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
    """Return the inversions among records that are given as a table: `counts` records have the codes x and y, shape (c,) each.

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
