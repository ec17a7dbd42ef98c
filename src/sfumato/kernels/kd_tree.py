"""A tree of boxes over points in which single points can be removed: nearest and farthest neighbours without a full scan.

A k-d tree (Bentley 1975) split at medians, so that it needs no pointers: node i has the children 2i + 1 and 2i + 2, and leaf
j of L holds places j·n/L up to (j + 1)·n/L. Boxes shrink as points go. The first columns of a point may be numbers, which differ by
the square of their difference, the rest categories, which differ by 1 or not at all. Answers are exact: every candidate's squared
distance is summed column by column, boxes only say where not to look, and of equal distances the lower record number wins.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from sfumato.typing import Numbers, Whole

_LEAF = 16
"""About how many points a leaf holds."""


class PointTree(NamedTuple):
    """The arrays of a tree: n points in p columns, L leaves, 2L - 1 nodes."""

    points: Numbers
    """Shape (n, p), leaf by leaf."""
    record: Whole
    """Which record stands in each place, shape (n,)."""
    place: Whole
    """Where each record stands, by record number."""
    filled: Whole
    """How many points are left in each leaf, shape (L,); they stand first."""
    box: Numbers
    """Lower and upper ends of each node's box, shape (2L - 1, 2, p)."""
    reach: Numbers
    """Largest squared distance of a node's points from `origin`, shape (2L - 1,); negative if none are left."""
    lowest: Whole
    """Lowest record number in each node, shape (2L - 1,)."""
    origin: Numbers
    """The mean of the points, shape (p,)."""


@numba.njit(cache=True, nogil=True)
def squared(points, i, q):  # type: ignore[no-untyped-def]
    """Return the squared distance of a point from q, summed column by column."""
    total = 0.0
    for j in range(q.size):
        d = points[i, j] - q[j]
        total += d * d
    return total


@numba.njit(cache=True, nogil=True)
def _swap(points, record, a, b):  # type: ignore[no-untyped-def]
    record[a], record[b] = record[b], record[a]
    for j in range(points.shape[1]):
        points[a, j], points[b, j] = points[b, j], points[a, j]


@numba.njit(cache=True, nogil=True)
def _select(points, record, first, last, middle, axis):  # type: ignore[no-untyped-def]
    """Reorder places first to last so that none before the middle is above, and none after it below (Hoare 1961)."""
    while first < last:
        a, b, c = points[first, axis], points[(first + last) // 2, axis], points[last, axis]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, last
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                _swap(points, record, i, j)
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            return


@numba.njit(cache=True, nogil=True)
def _spread(points, first, last, j, metric):  # type: ignore[no-untyped-def]
    """Return how much splitting a column would tell points apart, in the distance's own units; minus infinity is a gap."""
    low, high, gaps = np.inf, -np.inf, 0
    for i in range(first, last + 1):
        a = points[i, j]
        if a == -np.inf:
            gaps += 1
        else:
            low, high = min(low, a), max(high, a)
    if metric is None:
        return high - low
    most = 0.0
    if high > low:
        most = (high - low) * metric.unit[j] if metric.limit[j] < 0 else np.sqrt(metric.cost[j])
    return max(most, np.sqrt(metric.one_gap[j])) if 0 < gaps <= last - first else most


@numba.njit(cache=True, nogil=True)
def sort_into_leaves(points, record, size, metric):  # type: ignore[no-untyped-def]
    """Reorder points and their record numbers leaf by leaf, about `size` in each; return the number of leaves.

    `metric` says what columns add to a distance (see `neighbours`); without one the widest side is split.
    """
    n, p = points.shape
    depth = 0
    while n >> depth > size:
        depth += 1
    for level in range(depth):
        for part in range(1 << level):
            first, last = part * n >> level, ((part + 1) * n >> level) - 1
            widest, axis = -1.0, 0
            for j in range(p):
                spread = _spread(points, first, last, j, metric)
                if spread > widest:
                    widest, axis = spread, j
            _select(points, record, first, last, (2 * part + 1) * n >> (level + 1), axis)
    return 1 << depth


@numba.njit(cache=True, nogil=True)
def _enclose(tree, leaf):  # type: ignore[no-untyped-def]
    """Set the box, the reach and the lowest record of a leaf from the points that are left."""
    n, p = tree.points.shape
    leaves = tree.filled.size
    node, start = leaves - 1 + leaf, leaf * n // leaves
    for j in range(p):
        low, high = np.inf, -np.inf
        for i in range(start, start + tree.filled[leaf]):
            low, high = min(low, tree.points[i, j]), max(high, tree.points[i, j])
        tree.box[node, 0, j], tree.box[node, 1, j] = low, high
    reach, lowest = -1.0, tree.place.size
    for i in range(start, start + tree.filled[leaf]):
        reach, lowest = max(reach, squared(tree.points, i, tree.origin)), min(lowest, tree.record[i])
    tree.reach[node], tree.lowest[node] = reach, lowest


@numba.njit(cache=True, nogil=True)
def _join(tree, node):  # type: ignore[no-untyped-def]
    """Set the box, the reach and the lowest record of a node from its children's; return whether any changed."""
    one, two = 2 * node + 1, 2 * node + 2
    changed = False
    for j in range(tree.box.shape[2]):
        low, high = min(tree.box[one, 0, j], tree.box[two, 0, j]), max(tree.box[one, 1, j], tree.box[two, 1, j])
        changed |= low != tree.box[node, 0, j] or high != tree.box[node, 1, j]
        tree.box[node, 0, j], tree.box[node, 1, j] = low, high
    reach, lowest = max(tree.reach[one], tree.reach[two]), min(tree.lowest[one], tree.lowest[two])
    changed |= reach != tree.reach[node] or lowest != tree.lowest[node]
    tree.reach[node], tree.lowest[node] = reach, lowest
    return changed


@numba.njit(cache=True, nogil=True)
def plant(x, record, place, origin):  # type: ignore[no-untyped-def]
    """Return a tree over the rows of x whose numbers are in `record`; `place` is room for one number per row of x."""
    n, p = record.size, x.shape[1]
    points = np.empty((n, p))
    for i in range(n):
        for j in range(p):
            points[i, j] = x[record[i], j]
    leaves = sort_into_leaves(points, record, _LEAF, None)
    nodes = 2 * leaves - 1
    filled = np.empty(leaves, np.int64)
    box, reach, lowest = np.empty((nodes, 2, p)), np.empty(nodes), np.empty(nodes, np.int64)
    tree = PointTree(points, record, place, filled, box, reach, lowest, origin.copy())
    for i in range(n):
        place[record[i]] = i
    for leaf in range(leaves):
        filled[leaf] = (leaf + 1) * n // leaves - leaf * n // leaves
    centre(tree, origin)
    return tree


@numba.njit(cache=True, nogil=True)
def centre(tree, origin):  # type: ignore[no-untyped-def]
    """Measure reach from another origin: `farthest` is quickest for points close to it."""
    tree.origin[:] = origin
    for leaf in range(tree.filled.size):
        _enclose(tree, leaf)
    for node in range(tree.filled.size - 2, -1, -1):
        _join(tree, node)


@numba.njit(cache=True, nogil=True)
def remove(tree, record):  # type: ignore[no-untyped-def]
    """Take a record out; the boxes shrink."""
    n, leaves = tree.record.size, tree.filled.size
    at = tree.place[record]
    leaf = ((at + 1) * leaves - 1) // n
    tree.filled[leaf] -= 1
    last = leaf * n // leaves + tree.filled[leaf]
    _swap(tree.points, tree.record, at, last)
    tree.place[tree.record[at]], tree.place[record] = at, last
    _enclose(tree, leaf)
    node = leaves - 1 + leaf
    while node > 0:
        node = (node - 1) // 2
        if not _join(tree, node):
            break


@numba.njit(cache=True, nogil=True)
def _mixed_squared(points, i, q, numbers, most):  # type: ignore[no-untyped-def]
    """Return the squared distance of a point from q by numbers and categories; some number above `most` if it is more."""
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
def _nearest_corner(tree, node, q, numbers):  # type: ignore[no-untyped-def]
    """Return the squared distance of q from a node's box.

    Rounding keeps order, and `_mixed_squared` adds up in the same order: no point of the box is measured closer than this.
    """
    total = 0.0
    for j in range(numbers):
        d = max(tree.box[node, 0, j] - q[j], q[j] - tree.box[node, 1, j], 0.0)
        total += d * d
    for j in range(numbers, q.size):
        if q[j] < tree.box[node, 0, j] or q[j] > tree.box[node, 1, j]:
            total += 1.0
    return total


@numba.njit(cache=True, nogil=True)
def _farthest_corner(tree, node, q):  # type: ignore[no-untyped-def]
    """Return the squared distance of q from the farthest corner of a node's box; no point of it is measured farther."""
    total = 0.0
    for j in range(q.size):
        d = max(tree.box[node, 1, j] - q[j], q[j] - tree.box[node, 0, j])
        total += d * d
    return total


@numba.njit(cache=True, nogil=True)
def before(d, record, other, its_record):  # type: ignore[no-untyped-def]
    """Whether a distance is smaller than another, or equal with the lower record number."""
    return d < other or (d == other and record < its_record)


@numba.njit(cache=True, nogil=True)
def _offer(d, record, found, distance, have, count):  # type: ignore[no-untyped-def]
    """Put a record into a heap of the `count` nearest, in place of the farthest, on top, if it is full; return how many it holds."""
    if have < count:
        at = have
        while at > 0 and before(distance[(at - 1) // 2], found[(at - 1) // 2], d, record):
            distance[at], found[at] = distance[(at - 1) // 2], found[(at - 1) // 2]
            at = (at - 1) // 2
        distance[at], found[at] = d, record
        return have + 1
    at, child = 0, 1
    while child < count:
        if child + 1 < count and before(distance[child], found[child], distance[child + 1], found[child + 1]):
            child += 1
        if not before(d, record, distance[child], found[child]):
            break
        distance[at], found[at] = distance[child], found[child]
        at, child = child, 2 * child + 1
    distance[at], found[at] = d, record
    return have


@numba.njit(cache=True, nogil=True)
def push(stack, bound, top, far, its_bound, near, nearer):  # type: ignore[no-untyped-def]
    """Put two nodes on the stack, the one to look into first on top; return the new top."""
    stack[top + 1], bound[top + 1] = far, its_bound
    stack[top + 2], bound[top + 2] = near, nearer
    return top + 2


@numba.njit(cache=True, nogil=True)
def walk(tree, q, numbers, count, found, distance, tied, value, low, high):  # type: ignore[no-untyped-def]
    """Write the `count` nearest records and their squared distances, the farthest of them first; return three numbers.

    How many records were written; if `tied`, how many are as near as the nearest; and the votes: how many of those have a `value`
    (by record number; or None) between low and high. The first `numbers` columns are numbers, the rest categories.
    """
    n, leaves = tree.record.size, tree.filled.size
    stack, bound = np.empty(64, np.int64), np.empty(64)
    stack[0], bound[0], top, have = 0, 0.0, 0, 0
    best, most, ties, votes = np.inf, np.inf, 0, 0
    while top >= 0:
        node, corner = stack[top], bound[top]
        top -= 1
        if tree.reach[node] < 0:
            continue
        # a box that may hold a record as near as the nearest is looked into, if these are counted
        full = have == count and not (tied and corner <= best)
        if full and not before(corner, tree.lowest[node], distance[0], found[0]):
            continue
        if node < leaves - 1:
            one, two = 2 * node + 1, 2 * node + 2
            first, second = _nearest_corner(tree, one, q, numbers), _nearest_corner(tree, two, q, numbers)
            if before(second, tree.lowest[two], first, tree.lowest[one]):
                one, two, first, second = two, one, second, first
            top = push(stack, bound, top, two, second, one, first)
            continue
        leaf = node - leaves + 1
        start = leaf * n // leaves
        for i in range(start, start + tree.filled[leaf]):
            d = _mixed_squared(tree.points, i, q, numbers, most)
            if d > most:
                continue
            if tied and d <= best:
                if d < best:
                    best, ties, votes = d, 0, 0
                ties += 1
                if value is not None:
                    votes += low <= value[tree.record[i]] <= high
            if have < count or before(d, tree.record[i], distance[0], found[0]):
                have = _offer(d, tree.record[i], found, distance, have, count)
                if have == count:
                    most = distance[0]
    return have, ties, votes


@numba.njit(cache=True, nogil=True)
def nearest(tree, q, count, found, distance):  # type: ignore[no-untyped-def]
    """Write the `count` nearest records and their squared distances, the farthest of them first; return how many there are."""
    return walk(tree, q, q.size, count, found, distance, False, None, 0.0, 0.0)[0]


@numba.njit(cache=True, nogil=True)
def _within(tree, node, w):  # type: ignore[no-untyped-def]
    """Return reach - 2·min w·x over the box: what a node adds to the bound on the squared distance from origin + w."""
    total = 0.0
    for j in range(w.size):
        total += min(w[j] * tree.box[node, 0, j], w[j] * tree.box[node, 1, j])
    return tree.reach[node] - 2.0 * total


@numba.njit(cache=True, nogil=True)
def farthest(tree, q):  # type: ignore[no-untyped-def]
    """Return the record that is farthest from q, or -1 if none are left.

    With w = q - origin, |x - q|² = |x - origin|² - 2 w·x + 2 w·origin + |w|². The first term is at most a node's reach, the
    second linear, hence largest in a corner of the box: close, where the farthest corner of a box lies far outside the points.
    """
    n, leaves, p = tree.record.size, tree.filled.size, q.size
    w = q - tree.origin
    rest, scale = 0.0, 0.0
    for j in range(p):
        rest += w[j] * (w[j] + 2.0 * tree.origin[j])
        scale += w[j] * w[j] + tree.origin[j] * tree.origin[j]
    rest += 1e-15 * (p + 4) ** 2 * (scale + tree.reach[0])  # for the rounding of this bound
    stack, bound = np.empty(64, np.int64), np.empty(64)
    stack[0], bound[0], top = 0, np.inf, 0
    best, record = -1.0, -1
    while top >= 0:
        node, within = stack[top], bound[top]
        top -= 1
        if tree.reach[node] < 0 or within < best:
            continue
        if not before(-_farthest_corner(tree, node, q), tree.lowest[node], -best, record):
            continue
        if node < leaves - 1:
            one, two = 2 * node + 1, 2 * node + 2
            first, second = _within(tree, one, w) + rest, _within(tree, two, w) + rest
            if before(-second, tree.lowest[two], -first, tree.lowest[one]):
                one, two, first, second = two, one, second, first
            top = push(stack, bound, top, two, second, one, first)
            continue
        leaf = node - leaves + 1
        start = leaf * n // leaves
        for i in range(start, start + tree.filled[leaf]):
            d = squared(tree.points, i, q)
            if before(-d, tree.record[i], -best, record):
                best, record = d, tree.record[i]
    return record
