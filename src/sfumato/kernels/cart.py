"""Classification and regression trees, exact (Breiman, Friedman, Olshen and Stone 1984): every cut of every column is tried.

A column holds numbers, NaN where missing, or codes of categories below `CATEGORIES`. A tree's rows stand leaf by leaf in one
array, so that whoever draws from a leaf has its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.typing import Codes, Numbers, Whole

Predictor = Numbers | NDArray[np.uint8]
"""A column that explains: numbers, NaN where missing, or codes of categories."""

CATEGORIES = 64
"""Most categories of a column: those that go left are the bits of one number."""
DEPTH = 30
"""Most splits from the root to a leaf."""
_TURNS = 15
"""Steps of the power iteration that orders categories."""


class CartTree(NamedTuple):
    """Nodes in the order they were made; a leaf has column -1, the right child follows the left one."""

    column: NDArray[np.int16]
    cut: Numbers
    """Numbers: values up to it go left."""
    goes_left: NDArray[np.uint64]
    """Categories: bit k is set where category k goes left. Numbers: 1 where a missing value goes left."""
    left: Codes
    first: Codes
    """Where in `rows` the node's rows begin."""
    size: Codes
    rows: Codes
    """The rows that the tree was grown on, leaf by leaf."""


@numba.njit(cache=True, nogil=True)
def _move(sums, squares, c, v):  # type: ignore[no-untyped-def]
    """Move a value v of class c from the right side to the left; `squares` are Σ over classes of sum², by side."""
    squares[0] += v * (2 * sums[0, c] + v)
    squares[1] -= v * (2 * sums[1, c] - v)
    sums[0, c] += v
    sums[1, c] -= v


@numba.njit(cache=True, nogil=True)
def _restart(sums, squares, whole):  # type: ignore[no-untyped-def]
    """Put everything on the right side."""
    squares[0], squares[1] = 0.0, 0.0
    for c in range(whole.size):
        sums[0, c], sums[1, c] = 0.0, whole[c]
        squares[1] += whole[c] * whole[c]


@numba.njit(cache=True, nogil=True)
def _score(squares, n_left, n):  # type: ignore[no-untyped-def]
    return squares[0] / n_left + squares[1] / (n - n_left)


@numba.njit(cache=True, nogil=True)
def _split_number(x, here, code, value, whole, smallest, sums, squares):  # type: ignore[no-untyped-def]
    """Return the best score of a cut, the cut, and 1 if missing values go left; rows stand by size, the missing ones last.

    Where no value is missing here, one that is goes with the larger side.
    """
    n = here.size
    known = n
    while known > 0 and np.isnan(x[here[known - 1]]):
        known -= 1
    best, cut, left = -1.0, 0.0, np.uint64(0)
    for missing_left in range(1 if known == n else 2):
        _restart(sums, squares, whole)
        n_left = 0
        if missing_left:
            for i in range(known, n):
                _move(sums, squares, code[here[i]], value[here[i]] if whole.size == 1 else 1.0)
            n_left = n - known
        last = known if known < n and not missing_left else known - 1  # the last cut: known values against missing ones
        following, sum_left, mean = x[here[0]], sums[0, 0], whole.size == 1
        for i in range(last):
            row, this = here[i], following
            following = x[here[i + 1]] if i + 1 < known else np.inf
            if mean:
                sum_left += value[row]
            else:
                _move(sums, squares, code[row], 1.0)
            n_left += 1
            if n_left < smallest or n - n_left < smallest or this == following:
                continue
            score = (
                _score(squares, n_left, n)
                if not mean
                else sum_left**2 / n_left + (whole[0] - sum_left) ** 2 / (n - n_left)
            )
            if score > best:
                best, left = score, np.uint64(missing_left if known < n else 2 * n_left >= n)
                cut = this
                if i + 1 < known:  # half-way to the next value, unless that is the next value for want of digits
                    middle = this / 2 + following / 2
                    cut = middle if middle < following else this
    return best, cut, left


@numba.njit(cache=True, nogil=True)
def _sort_levels(place, order, width):  # type: ignore[no-untyped-def]
    """Put 0..width - 1 in the order of their place, those of the same place in the order of their number."""
    for i in range(width):
        j = i
        while j > 0 and place[order[j - 1]] > place[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@numba.njit(cache=True, nogil=True)
def _place_levels(table, counts, whole, n, width, k, place, apart, axis):  # type: ignore[no-untyped-def]
    """Fill in the places in whose order categories are cut, from the sums (levels, classes) and the counts of rows (levels,).

    One class (a mean) or two: the mean, or the share of the second, among whose cuts the best split is (Fisher 1958; Breiman et
    al. 1984, theorem 4.5). More: the first principal component of the shares (Coppersmith, Hong and Hosking 1999).
    """
    if k <= 2:
        for i in range(width):
            place[i] = table[i, k - 1] / counts[i]
        return
    widest, start = -1.0, 0
    for i in range(width):
        length = 0.0
        for c in range(k):
            apart[i, c] = table[i, c] / counts[i] - whole[c] / n
            length += counts[i] * apart[i, c] ** 2
        if length > widest * (1 + 1e-9):
            widest, start = length, i
    for c in range(k):
        axis[c] = apart[start, c]
    for _ in range(_TURNS):
        longest = 0.0
        for i in range(width):
            place[i] = 0.0
            for c in range(k):
                place[i] += apart[i, c] * axis[c]
        for c in range(k):
            axis[c] = 0.0
            for i in range(width):
                axis[c] += counts[i] * place[i] * apart[i, c]
            longest = max(longest, abs(axis[c]))
        if longest == 0.0:
            return
        for c in range(k):
            axis[c] /= longest


@numba.njit(cache=True, nogil=True)
def _split_category(x, here, code, value, classes, smallest, class_place, here_whole, room):  # type: ignore[no-untyped-def]
    """Return the best score of a set of categories, and the set; categories that are not here go with the larger side.

    `class_place` says where each class of the node stands among the `classes` that it has, `here_whole` are their sums.
    """
    sums, squares, at_level, levels, table, counts, order, place, apart, axis = room
    n, k = here.size, classes
    seen, top = np.uint64(0), 0
    for row in here:
        seen |= np.uint64(1) << np.uint64(x[row])
        top = max(top, x[row])
    width = 0
    for level in range(top + 1):  # in the order of their codes, whatever the order of the rows
        if (seen >> np.uint64(level)) & np.uint64(1):
            at_level[level] = width
            levels[width] = level
            counts[width] = 0.0
            for c in range(k):
                table[width, c] = 0.0
            width += 1
    best, left = -1.0, np.uint64(0)
    if width < 2:
        return best, left
    for row in here:
        i = at_level[x[row]]
        table[i, class_place[code[row]]] += value[row] if apart.shape[1] == 1 else 1.0
        counts[i] += 1
    _place_levels(table, counts, here_whole, n, width, k, place, apart, axis)
    _sort_levels(place, order, width)
    _restart(sums, squares, here_whole[:k])
    n_left, at = 0, -1
    for j in range(width - 1):
        i = order[j]
        for c in range(k):
            _move(sums, squares, c, table[i, c])
        n_left += int(counts[i])
        if n_left < smallest or n - n_left < smallest:
            continue
        score = _score(squares, n_left, n)
        if score > best:
            best, at = score, j
    n_left = 0
    for j in range(at + 1):
        left |= np.uint64(1) << np.uint64(levels[order[j]])
        n_left += int(counts[order[j]])
    if at >= 0 and 2 * n_left >= n:
        left |= ~seen
    return best, left


@numba.njit(cache=True, nogil=True)
def _goes_left(value, cut, left, kind):  # type: ignore[no-untyped-def]
    if kind:
        return (left >> np.uint64(value)) & np.uint64(1) == np.uint64(1)
    return left == np.uint64(1) if np.isnan(value) else value <= cut


@numba.njit(cache=True, nogil=True)
def _parted(rows, flags, scratch):  # type: ignore[no-untyped-def]
    """Put the rows that go left first, both sides in the order they had; return how many go left."""
    i, j = 0, 0
    for row in rows:
        if flags[row]:
            rows[i] = row
            i += 1
        else:
            scratch[j] = row
            j += 1
    rows[i:] = scratch[:j]
    return i


@numba.njit(cache=True, nogil=True)
def _grow(numbers, levels, places, sorted_rows, rows, code, value, k, smallest, complexity):  # type: ignore[no-untyped-def]
    nodes_room = 2 * (rows.size // smallest) + 3
    column, cut = np.full(nodes_room, -1, np.int16), np.zeros(nodes_room)
    goes_left, left = np.zeros(nodes_room, np.uint64), np.zeros(nodes_room, np.int32)
    first, count, depth = np.zeros(nodes_room, np.int32), np.zeros(nodes_room, np.int32), np.zeros(nodes_room, np.int8)
    flags, scratch = np.zeros(code.size, np.bool_), np.empty(rows.size, np.int32)
    whole, here_whole, class_place = np.zeros(k), np.zeros(k), np.zeros(k, np.int64)
    sums, squares = np.empty((2, k)), np.empty(2)
    room = (
        sums, squares, np.empty(CATEGORIES, np.int64), np.empty(CATEGORIES, np.int64), np.empty((CATEGORIES, k)),
        np.empty(CATEGORIES), np.empty(CATEGORIES, np.int64), np.zeros(CATEGORIES), np.empty((CATEGORIES, k)), np.empty(k),
    )  # fmt: skip
    count[0] = rows.size
    nodes, at, spread = 1, 0, 0.0
    while at < nodes:
        start, n = first[at], count[at]
        here = rows[start : start + n]
        whole[:] = 0.0
        total = 0.0
        for row in here:
            own_value = value[row] if k == 1 else 1.0
            whole[code[row]] += own_value
            total += own_value**2
        classes, base = 0, 0.0
        for c in range(k):
            if whole[c] != 0.0 or k == 1:
                class_place[c] = classes
                here_whole[classes] = whole[c]
                base += whole[c] * whole[c] / max(n, 1)
                classes += 1
        if at == 0:
            spread = total - base
        if n >= 2 * smallest and depth[at] < DEPTH and total - base > 1e-12 * total:
            best, own, own_cut, own_left = base + max(complexity * spread, 1e-12 * total), -1, 0.0, np.uint64(0)
            for j in range(places.size):
                if places[j] < 0:
                    x = levels[-1 - places[j]]
                    score, its_left = _split_category(
                        x, here, code, value, classes, smallest, class_place, here_whole, room
                    )
                    its_cut = 0.0
                else:
                    ordered = sorted_rows[places[j], start : start + n]
                    score, its_cut, its_left = _split_number(
                        numbers[places[j]], ordered, code, value, whole, smallest, sums, squares
                    )
                if score > best * (1 + 1e-12 * (own >= 0)):
                    best, own, own_cut, own_left = score, j, its_cut, its_left
            if own >= 0:
                if places[own] < 0:
                    for row in here:
                        flags[row] = _goes_left(levels[-1 - places[own], row], own_cut, own_left, True)
                else:
                    for row in here:
                        flags[row] = _goes_left(numbers[places[own], row], own_cut, own_left, False)
                n_left = _parted(here, flags, scratch)
                for i in range(sorted_rows.shape[0]):
                    _parted(sorted_rows[i, start : start + n], flags, scratch)
                column[at], cut[at], goes_left[at], left[at] = own, own_cut, own_left, nodes
                first[nodes], count[nodes] = start, n_left
                first[nodes + 1], count[nodes + 1] = start + n_left, n - n_left
                depth[nodes] = depth[nodes + 1] = depth[at] + 1
                nodes += 2
        at += 1
    return (
        column[:nodes].copy(), cut[:nodes].copy(), goes_left[:nodes].copy(), left[:nodes].copy(), first[:nodes].copy(),
        count[:nodes].copy(),
    )  # fmt: skip


def _stacked(columns: Sequence[Predictor], n: int) -> tuple[Numbers, NDArray[np.uint8], Whole]:
    """Return numbers (p, n), codes (q, n), and where each column stands: its place, or -1 - its place among the codes."""
    number = [x for x in columns if x.dtype != np.uint8]
    category = [x for x in columns if x.dtype == np.uint8]
    places, used = np.empty(len(columns), np.int64), [0, 0]
    for j, x in enumerate(columns):
        kind = int(x.dtype == np.uint8)
        places[j] = -1 - used[1] if kind else used[0]
        used[kind] += 1
    return (
        np.array(number, np.float64).reshape(len(number), n),
        np.array(category, np.uint8).reshape(len(category), n),
        places,
    )


def grow_cart(
    columns: Sequence[Predictor],
    rows: Whole,
    code: Codes | None,
    value: Numbers,
    k: int,
    smallest: int,
    complexity: float,
) -> CartTree:
    """Grow a tree that explains a class or a number by columns of shape (n,), on some rows.

    For classes `code` (n,) is the class of each row, below k, and `value` is not looked at; for a mean `code` is None, k is 1, and
    `value` (n,) the number, about its mean. No leaf has fewer than `smallest` rows. A split is made if it lowers Σ (value - mean)²,
    or for classes n times the Gini index, by at least `complexity` of that of all rows.
    """
    n = len(value) if code is None else len(code)
    numbers, levels, places = _stacked(columns, n)
    sorted_rows = np.empty((len(numbers), len(rows)), np.int32)
    for i in range(len(numbers)):
        sorted_rows[i] = rows[np.argsort(numbers[i, rows], kind="stable")]  # NaN comes last
    kept = rows.astype(np.int32)
    of = np.zeros(n, np.uint8) if code is None else code.astype(np.uint8)
    found = _grow(numbers, levels, places, sorted_rows, kept, of, value, k, smallest, complexity)
    column, cut, goes_left, left, first, size = found
    return CartTree(column, cut, goes_left, left, first, size, kept)


@numba.njit(cache=True, nogil=True)
def _leaves(column, cut, goes_left, left, numbers, levels, places, out):  # type: ignore[no-untyped-def]
    for row in range(out.size):
        at = 0
        while column[at] >= 0:
            j = places[column[at]]
            if j < 0:
                goes = _goes_left(levels[-1 - j, row], cut[at], goes_left[at], True)
            else:
                goes = _goes_left(numbers[j, row], cut[at], goes_left[at], False)
            at = left[at] + (0 if goes else 1)
        out[row] = at


def leaves_of(tree: CartTree, columns: Sequence[Predictor], n: int) -> Codes:
    """Return the leaf that each of n rows falls into, given its columns."""
    out = np.zeros(n, np.int32)
    if len(tree.column) > 1:
        _leaves(tree.column, tree.cut, tree.goes_left, tree.left, *_stacked(columns, n), out)
    return out


# --- Noise on the numbers of leaves: a draw from a leaf need not be the value of one record.

KEPT = 0.8
"""Draws are pulled to their leaf's mean to keep its variance, but not below this share of their distance from it."""


class DonorNoise(NamedTuple):
    """For each donor: centre + shrink (donor - centre + spread ε), with ε standard normal, mirrored at the limits."""

    spread: Numbers
    """Standard deviation of the noise of each donor, shape (n,); 0 where its number stays as it is."""
    leaf: Codes
    """The leaf of each donor, shape (n,)."""
    centre: Numbers
    """Mean of each leaf's numbers with noise, shape (leaves,)."""
    shrink: Numbers
    """Shape (leaves,)."""
    low: float
    high: float

    def add(self, y: Numbers, at: Whole, normals: Numbers) -> Numbers:
        """Return the numbers of donors `at` with noise, of standard normal numbers, shape (m,) each."""
        leaf, spread = self.leaf[at], self.spread[at]
        moved = self.centre[leaf] + self.shrink[leaf] * (y - self.centre[leaf] + spread * normals)
        return np.where(spread > 0, _mirrored(moved, self.low, self.high), y)


def leaf_noise(donors: Numbers, sizes: Codes, shared: int, nearest: int) -> DonorNoise | None:
    """Return the noise of numbers that fewer than `shared` donors have; None if there is none.

    `donors` (n,) stand leaf by leaf, each leaf in order of value; `sizes` has how many each leaf has. The noise of a donor x has
    the larger standard deviation of two: 0.9 min(s, IQR/1.34) r^(-1/5) of its leaf's r rare values (Silverman 1986, equation
    3.31), and the distance from x to the `nearest`-th value of all donors below or above it, whichever is nearer. Where all are
    one leaf, the second serves alone: a wider one would blur what trees grown on this column tell apart.
    """
    scale = float(np.abs(donors).max()) or 1.0  # squares of huge numbers have no room
    x = donors / scale
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, len(x)])
    low, high = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    low[order], high[order] = np.repeat(starts, counts), np.repeat(starts + counts, counts)
    rare = high - low < shared
    if not rare.any():
        return None
    below = np.where(low >= nearest, x - ordered[np.maximum(low - nearest, 0)], np.inf)
    above = np.where(high + nearest <= len(ordered), ordered[np.minimum(high + nearest, len(ordered)) - 1] - x, np.inf)
    near = np.minimum(np.minimum(below, above), ordered[-1] - ordered[0])
    group, at = np.repeat(np.arange(len(sizes)), sizes), np.flatnonzero(rare)
    mean, deviation, silverman = _leaf_spread(x[at], group[at], len(sizes))
    spread = np.where(rare, np.maximum(silverman[group] if len(sizes) > 1 else 0.0, near), 0.0)
    count = np.maximum(np.bincount(group[at], minlength=len(sizes)), 1)
    noise = np.bincount(group, spread**2, len(sizes)) / count
    kept = deviation / np.sqrt(np.maximum(deviation**2 + noise, 1e-300))
    shrink = np.where(deviation > 0, np.maximum(kept, KEPT), 1.0)
    limits = float(donors.min()), float(donors.max())
    return DonorNoise(spread * scale, group.astype(np.int32), mean * scale, shrink, *limits)


def _leaf_spread(values: Numbers, group: Whole, groups: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return mean, standard deviation and Silverman's bandwidth of each group, shape (groups,); values stand by group and size."""
    count = np.bincount(group, minlength=groups)
    many = np.maximum(count, 1)
    mean = np.bincount(group, values, groups) / many
    deviation = np.sqrt(np.bincount(group, (values - mean[group]) ** 2, groups) / np.maximum(count - 1, 1))
    start = np.cumsum(count) - count
    quartiles = []
    for q in (0.25, 0.75):
        place = (many - 1) * q
        low = np.minimum(start + place.astype(np.int64), max(len(values) - 1, 0))
        high = np.minimum(low + (place > place.astype(np.int64)), max(len(values) - 1, 0))
        quartiles.append(values[low] + (place % 1) * (values[high] - values[low]))
    between = (quartiles[1] - quartiles[0]) / 1.34
    narrow = np.where(between > 0, np.minimum(deviation, between), deviation)
    return mean, deviation, np.where(count > 1, 0.9 * narrow * many**-0.2, 0.0)


def _mirrored(y: Numbers, low: float, high: float) -> Numbers:
    """Return numbers within the limits: those beyond are mirrored at them."""
    width = high - low
    if not width > 0:
        return np.full(len(y), low)
    turned = np.mod(y - low, 2 * width)
    return np.asarray(low + np.where(turned <= width, turned, 2 * width - turned))
