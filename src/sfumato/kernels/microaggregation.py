"""Groups of at least k points: MDAV, V-MDAV, Gower's distance, k-means, and optimal groups along a line."""

from __future__ import annotations

import numba
import numpy as np

from sfumato.kernels.classes import centres
from sfumato.kernels.kd_tree import centre, farthest, nearest, plant, remove, squared
from sfumato.kernels.moments import principal_axes
from sfumato.typing import Numbers, Whole

# --- Maximum distance to average vector: groups of k points, from the outside in (Domingo-Ferrer and Torra 2005).

_DRIFT = 0.98
"""Share of the points left at which the tree is centred anew: the mean drifts as points go."""


@numba.njit(cache=True, nogil=True)
def add(high, low, row, sign):  # type: ignore[no-untyped-def]
    """Add a row to sums, or take it away; kept in twice the precision, so that what went leaves no trace (Knuth's two-sum)."""
    for j in range(row.size):
        term = sign * row[j]
        total = high[j] + term
        part = total - high[j]
        low[j] += (high[j] - (total - part)) + (term - part)
        high[j] = total


@numba.njit(cache=True, nogil=True)
def take(tree, x, record, group, labels, members, distance):  # type: ignore[no-untyped-def]
    """Make a group of a record and its nearest, as many as there is room for in `members`, and take them out of the tree."""
    k = members.size
    remove(tree, record)
    nearest(tree, x[record], k - 1, members, distance)
    for i in range(k - 1):
        remove(tree, members[i])
    members[k - 1] = record
    for i in range(k):
        labels[members[i]] = group


@numba.njit(cache=True, nogil=True)
def _mdav(x, k):  # type: ignore[no-untyped-def]
    n, p = x.shape
    high, low = np.zeros(p), np.zeros(p)
    for i in range(n):
        add(high, low, x[i], 1.0)
    labels, place = np.full(n, -1, np.int64), np.empty(n, np.int64)
    members, distance = np.empty(k, np.int64), np.empty(k)
    left, group = n, 0
    while left >= 2 * k:  # a new tree when half of the points are gone
        planted = centred = left
        tree = plant(x, np.flatnonzero(labels < 0), place, (high + low) / left)
        while left >= 2 * k and 2 * left >= planted:
            mean = (high + low) / left
            if left < _DRIFT * centred:
                centre(tree, mean)
                centred = left
            record = farthest(tree, mean)
            for end in range(2 if left >= 3 * k else 1):
                if end == 1:
                    record = farthest(tree, x[record])
                take(tree, x, record, group, labels, members, distance)
                for i in range(k):
                    add(high, low, x[members[i]], -1.0)
                group += 1
                left -= k
    for i in range(n):
        if labels[i] < 0:
            labels[i] = group
    return labels


def mdav(x: Numbers, k: int) -> Whole:
    """Return the group of each point, numbered as they are made, shape (n,); x has shape (n, p), k is at least 2.

    While 3k or more are left: the point farthest from their mean with its k - 1 nearest, then the point farthest from that
    one with its k - 1 nearest. Of 2k up to 3k - 1 that are left, one more such group; the rest is the last group. Ties go to
    the lower row number. Equal to a full scan, and far from quadratic in n where there are few columns.
    """
    labels: Whole = _mdav(np.ascontiguousarray(x, np.float64), k)
    return labels


# --- V-MDAV: groups of k to 2k - 1 points, from the outside in (Solanas and Martínez-Ballesté 2006).


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


def v_mdav(x: Numbers, k: int, gamma: float) -> Whole:
    """Return the group of each point, numbered as they are made, shape (n,); x has shape (n, p), n >= k >= 2.

    While k or more are left: the point farthest from the mean of all with its k - 1 nearest. The free point closest to any
    member joins the group if it is closer to it than gamma times its distance to the next free point, up to 2k - 1 points.
    Fewer than k at the end go each to the group with the closest mean. Ties go to the lower row number.
    """
    x = np.ascontiguousarray(x, np.float64)
    labels: Whole
    labels, groups = _v_mdav(x, k, gamma)
    _assign_rest(x, labels, groups)
    return labels


# --- MDAV with Gower's distance, for numbers and categories together.
#
# Columns come ready to compare: numbers divided by their range and times their weight, so that they differ by |a - b|;
# categories as codes, which differ by the column's weight or not at all. Gower's distance (1971) is the sum, up to a factor.


def gower_from(x: Numbers, codes: Whole, weight: Numbers, at: int) -> Numbers:
    """Return the distance of every record from one, shape (n,); x (n, p) numbers, codes (n, q) categories of weight (q,)."""
    far = np.abs(x - x[at]).sum(axis=1)
    for column, w in zip(codes.T, weight, strict=True):
        far += w * (column != column[at])
    return np.asarray(far)


def gower_pieces(x: Numbers, codes: Whole, weight: Numbers, size: int) -> list[Whole]:
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


def gower_mdav(x: Numbers, codes: Whole, weight: Numbers, k: int) -> Whole:
    """Return the group of each record, shape (n,), n >= k: MDAV-generic (Domingo-Ferrer and Torra 2005); O(n² / k).

    x (n, p) numbers and codes (n, q) categories, ready to compare; of equally distant records the first is taken.
    """
    columns = [np.unique(column, return_inverse=True)[1] for column in codes.T]  # no more levels than records
    packed = np.column_stack(columns) if columns else np.zeros((len(x), 0), np.int64)
    labels: Whole = _gower_mdav(
        np.ascontiguousarray(x, np.float64),
        np.ascontiguousarray(packed, np.int64),
        np.asarray(weight, np.float64),
        int(packed.max(initial=0)) + 1,
        k,
    )
    return labels


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


def k_means(x: Numbers, count: int, rounds: int = ROUNDS) -> Whole:
    """Return the cluster of each record of x (n, p), numbered from 0 to at most count - 1.

    Lloyd's algorithm, from `count` equal slices along the first principal component (Su and Dy 2007): no luck is involved.
    """
    n = len(x)
    centred = x - x.mean(axis=0)
    _, axes = principal_axes(centred.T @ centred)
    order = np.argsort(centred @ axes[:, 0], kind="stable")
    labels = np.empty(n, np.int64)
    labels[order] = np.arange(n) * count // n
    found: Whole = _lloyd(np.ascontiguousarray(x, np.float64), labels, count, rounds)
    return found


def merge_small(x: Numbers, labels: Whole, k: int) -> Whole:
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


LARGE = 64
"""Above this k the path is found by halving, whose time does not grow with k."""


@numba.njit(cache=True, nogil=True)
def _step_by_step(x, k):  # type: ignore[no-untyped-def]
    """Return the size of the last group of the best cut of the first j values, for each j: all k to 2k - 1 are tried."""
    n = x.size
    cost = np.full(n + 1, np.inf)
    size = np.zeros(n + 1, np.int64)
    cost[0] = 0.0
    for end in range(k, n + 1):
        mean, squares = 0.0, 0.0
        for m in range(1, min(2 * k - 1, end) + 1):
            # one more value to the left, by Welford's update: a difference of running sums would lose the small groups
            step = x[end - m] - mean
            mean += step / m
            squares += step * (x[end - m] - mean)
            if m >= k and cost[end - m] + squares < cost[end]:
                cost[end] = cost[end - m] + squares
                size[end] = m
    return size


@numba.njit(cache=True, nogil=True)
def _by_halving(x, k):  # type: ignore[no-untyped-def]
    """Return the same, k ends at a time: where the best last group begins does not fall as its end rises.

    The best beginning for the middle end therefore bounds those of the ends on either side (the sums of squares have the Monge
    property). The ends of one round, c + 1 to c + k, need only costs up to c. O(n log k).
    """
    n = x.size
    cost = np.full(n + 1, np.inf)
    size = np.zeros(n + 1, np.int64)
    cost[0] = 0.0
    mean, squares = 0.0, 0.0
    for end in range(1, min(2 * k - 1, n) + 1):
        step = x[end - 1] - mean
        mean += step / end
        squares += step * (x[end - 1] - mean)
        if end >= k:
            cost[end] = squares
            size[end] = end
    stack = np.empty((128, 4), np.int64)
    c = 2 * k - 1
    while c < n:
        low, last = c - 2 * k + 2, min(c + k, n)
        # sums over a window of fewer than 3k values, about its own middle: little is lost to rounding
        first, second = np.zeros(last - low + 1), np.zeros(last - low + 1)
        middle = x[(low + last) // 2]
        for i in range(low, last):
            first[i - low + 1] = first[i - low] + (x[i] - middle)
            second[i - low + 1] = second[i - low] + (x[i] - middle) ** 2
        stack[0] = (c + 1, last, low, c)
        top = 1
        while top > 0:
            top -= 1
            begin, stop, left, right = stack[top]
            end = (begin + stop) // 2
            at = -1
            for i in range(max(left, end - 2 * k + 1), min(right, end - k) + 1):
                total = first[end - low] - first[i - low]
                squares = max(second[end - low] - second[i - low] - total * total / (end - i), 0.0)
                if cost[i] + squares <= cost[end]:
                    cost[end] = cost[i] + squares
                    at = i
            size[end] = end - at
            if begin < end:
                stack[top] = (begin, end - 1, left, at)
                top += 1
            if end < stop:
                stack[top] = (end + 1, stop, at, right)
                top += 1
        c = last
    return size


@numba.njit(cache=True, nogil=True)
def _walk_back(size):  # type: ignore[no-untyped-def]
    labels = np.empty(size.size - 1, np.int64)
    end, count = size.size - 1, 0
    while end > 0:
        labels[end - size[end] : end] = count
        end -= size[end]
        count += 1
    return count - 1 - labels


def optimal_groups(x: Numbers, k: int) -> Whole:
    """Return the groups of at least k of sorted values x (n,), n >= k, with the least sum of squares within groups.

    The shortest path of Hansen and Mukherjee (2003): an optimal group is a run of k to 2k - 1 sorted values, so the best way to
    cut the first j values follows from the best ways to cut fewer. O(k n), and O(n log k) for large k.
    """
    x = np.ascontiguousarray(x, np.float64)
    labels: Whole = _walk_back(_step_by_step(x, k) if k <= LARGE else _by_halving(x, k))
    return labels
