"""The nearest of many rows in columns of several sorts: differences count squared, or only whether they pass a limit.

A k-d tree (Bentley 1975) over rows with numbers, codes and gaps. Every row's distance is summed column by column, boxes only say
where not to look, and rows that are equally near are counted: the answer is exact. A gap is written as minus infinity.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]

_LEAF = 8
"""About how many rows a leaf holds."""
GAP = -np.inf
"""A value that is not there."""


class Metric(NamedTuple):
    """What each of p columns adds to the distance of two rows; arrays of shape (p,)."""

    unit: Numbers
    """A difference d adds (d · unit)², where `limit` is negative."""
    limit: Numbers
    """Where it is not: a difference beyond the limit adds `cost`, any other nothing."""
    cost: Numbers
    one_gap: Numbers
    """What a column adds if one of the two values is not there."""
    two_gaps: Numbers
    """What it adds if neither is."""


class Nearest(NamedTuple):
    """The answer for each of m targets; arrays of shape (m,)."""

    distance: Numbers
    """Of the nearest rows; infinite if every row is out of the target's range."""
    ties: Numbers
    """Sum of the sizes of the rows at that distance."""
    row: Rows
    """The first of them; -1 if there is none."""


@numba.njit(cache=True, nogil=True)
def _part(a, b, j, metric):  # type: ignore[no-untyped-def]
    if a == -np.inf or b == -np.inf:
        return metric.two_gaps[j] if a == b else metric.one_gap[j]
    if metric.limit[j] < 0:
        d = (a - b) * metric.unit[j]
        return d * d
    return metric.cost[j] if abs(a - b) > metric.limit[j] else 0.0


@numba.njit(cache=True, nogil=True)
def _distance(points, i, q, metric, low, high, most):  # type: ignore[no-untyped-def]
    """Return the distance of a row from q; infinite if it is out of range; some number above `most` if it is more."""
    total = 0.0
    for j in range(q.size):
        a = points[i, j]
        if low.size and a != -np.inf and (a < low[j] or a > high[j]):
            return np.inf
        total += _part(a, q[j], j, metric)
        if total > most:
            return np.inf
    return total


@numba.njit(cache=True, nogil=True)
def _whole_distance(points, i, q, unit):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(q.size):
        d = (points[i, j] - q[j]) * unit[j]
        total += d * d
    return total


@numba.njit(cache=True, nogil=True)
def _bound(box, gaps, node, q, metric, low, high):  # type: ignore[no-untyped-def]
    """Return a distance that no row of a node is measured closer than: rounding keeps order, and sums run in one order."""
    total = 0.0
    for j in range(q.size):
        least = np.inf
        first, last = box[node, 0, j], box[node, 1, j]
        some = first <= last and not (low.size and (last < low[j] or first > high[j]))
        if some:  # have a value here, within reach
            least = _part(min(max(q[j], first), last) if q[j] != -np.inf else first, q[j], j, metric)
        if gaps[node, j]:
            least = min(least, metric.two_gaps[j] if q[j] == -np.inf else metric.one_gap[j])
        total += least
    return total


@numba.njit(cache=True, nogil=True)
def _whole_bound(box, node, q, unit):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(q.size):
        d = max(box[node, 0, j] - q[j], q[j] - box[node, 1, j], 0.0) * unit[j]
        total += d * d
    return total


@numba.njit(cache=True, nogil=True)
def _select(points, row, first, last, middle, axis):  # type: ignore[no-untyped-def]
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
                row[i], row[j] = row[j], row[i]
                for k in range(points.shape[1]):
                    points[i, k], points[j, k] = points[j, k], points[i, k]
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
    """Return how much splitting a column would tell rows apart, in the distance's own units."""
    low, high, gaps = np.inf, -np.inf, 0
    for i in range(first, last + 1):
        a = points[i, j]
        if a == -np.inf:
            gaps += 1
        else:
            low, high = min(low, a), max(high, a)
    most = 0.0
    if high > low:
        most = (high - low) * metric.unit[j] if metric.limit[j] < 0 else np.sqrt(metric.cost[j])
    return max(most, np.sqrt(metric.one_gap[j])) if 0 < gaps <= last - first else most


@numba.njit(cache=True, nogil=True)
def _plant(points, row, metric):  # type: ignore[no-untyped-def]
    """Sort rows into leaves; return the boxes of the nodes and where they have gaps. Node i has children 2i + 1, 2i + 2."""
    n, p = points.shape
    depth = 0
    while n >> depth > _LEAF:
        depth += 1
    leaves = 1 << depth
    for level in range(depth):
        for part in range(1 << level):
            first, last = part * n >> level, ((part + 1) * n >> level) - 1
            widest, axis = -1.0, 0
            for j in range(p):
                spread = _spread(points, first, last, j, metric)
                if spread > widest:
                    widest, axis = spread, j
            _select(points, row, first, last, (2 * part + 1) * n >> (level + 1), axis)
    box, gaps = np.empty((2 * leaves - 1, 2, p)), np.zeros((2 * leaves - 1, p), np.bool_)
    for node in range(2 * leaves - 2, -1, -1):
        leaf, one, two = node - leaves + 1, 2 * node + 1, 2 * node + 2
        for j in range(p):
            low, high, gap = np.inf, -np.inf, False
            if leaf >= 0:
                for i in range(leaf * n // leaves, (leaf + 1) * n // leaves):
                    if points[i, j] == -np.inf:
                        gap = True
                    else:
                        low, high = min(low, points[i, j]), max(high, points[i, j])
            else:
                low, high = min(box[one, 0, j], box[two, 0, j]), max(box[one, 1, j], box[two, 1, j])
                gap = gaps[one, j] or gaps[two, j]
            box[node, 0, j], box[node, 1, j], gaps[node, j] = low, high, gap
    return box, gaps


@numba.njit(cache=True, nogil=True)
def _find(points, row, sizes, box, gaps, targets, order, metric, own, within, low, high, whole, answer):  # type: ignore[no-untyped-def]
    distance, ties, nearest = answer
    n = points.shape[0]
    leaves = (box.shape[0] + 1) // 2
    stack, bounds = np.empty(64, np.int64), np.empty(64)
    place = np.empty(n, np.int64)
    for i in range(n):
        place[row[i]] = i
    anywhere, unit = np.empty(0), metric.unit
    for at in range(order.size):
        t = order[at]
        q = targets[t]
        least, most = (low[t], high[t]) if low.size else (anywhere, anywhere)
        best, count, found = within[t], 0.0, -1
        if own[t] >= 0:  # a first bound; the row itself is met again on the way
            best = min(best, _distance(points, place[own[t]], q, metric, least, most, np.inf))
        stack[0], bounds[0], top = 0, 0.0, 0
        while top >= 0:
            node, corner = stack[top], bounds[top]
            top -= 1
            if corner > best or corner == np.inf:
                continue
            if node < leaves - 1:
                one, two = 2 * node + 1, 2 * node + 2
                if whole:
                    first, second = _whole_bound(box, one, q, metric.unit), _whole_bound(box, two, q, metric.unit)
                else:
                    first = _bound(box, gaps, one, q, metric, least, most)
                    second = _bound(box, gaps, two, q, metric, least, most)
                if second < first:
                    one, two, first, second = two, one, second, first
                if second <= best:
                    top += 1
                    stack[top], bounds[top] = two, second
                if first <= best:
                    top += 1
                    stack[top], bounds[top] = one, first
                continue
            leaf = node - leaves + 1
            for i in range(leaf * n // leaves, (leaf + 1) * n // leaves):
                d = _whole_distance(points, i, q, unit) if whole else _distance(points, i, q, metric, least, most, best)
                if d > best or d == np.inf:
                    continue
                if d < best:
                    best, count, found = d, 0.0, row[i]
                count += sizes[row[i]]
                found = row[i] if found < 0 else min(found, row[i])
        distance[t], ties[t], nearest[t] = (best, count, found) if found >= 0 else (np.inf, 0.0, -1)


def nearest_rows(
    rows: Numbers,
    targets: Numbers,
    metric: Metric,
    sizes: Numbers | None = None,
    own: Rows | None = None,
    reach: tuple[Numbers, Numbers] | None = None,
    within: Numbers | None = None,
) -> Nearest:
    """Return for each target (m, p) the nearest of the rows (n, p), and how many are as near.

    `sizes` (n,) says how many records a row stands for. `own` (m,) names a row that may well be the nearest (-1: none): the
    search is quicker, the answer the same. `reach` gives for each target the lowest and the highest value of each column,
    (m, p) each, that a row may have; gaps are never out of reach. Rows farther than `within` (m,) are not looked for.

    >>> metric = Metric(*(np.array([value]) for value in (1.0, -1.0, 0.0, 0.0, 0.0)))
    >>> nearest_rows(np.array([[1.0], [4.0], [8.0]]), np.array([[6.0], [1.5]]), metric)
    Nearest(distance=array([4.  , 0.25]), ties=array([2., 1.]), row=array([1, 0]))
    """
    m, n = len(targets), len(rows)
    distance, ties, nearest = np.full(m, np.inf), np.zeros(m), np.full(m, -1, np.int64)
    if m and n:
        points, row = np.array(rows, np.float64, order="C"), np.arange(n)
        metric = Metric(*(np.asarray(part, np.float64) for part in metric))
        box, gaps = _plant(points, row, metric)
        sizes = np.ones(n) if sizes is None else np.asarray(sizes, np.float64)
        low, high = (np.empty((0, 0)),) * 2 if reach is None else reach
        targets = np.ascontiguousarray(targets, np.float64)
        own = np.full(m, -1, np.int64) if own is None else own
        within = np.full(m, np.inf) if within is None else within
        whole = bool(
            reach is None and (metric.limit < 0).all() and np.isfinite(rows).all() and np.isfinite(targets).all()
        )
        order = _walk(targets, row, own)
        answer = distance, ties, nearest
        _find(points, row, sizes, box, gaps, targets, order, metric, own, within, low, high, whole, answer)
    return Nearest(distance, ties, nearest)


@numba.njit(cache=True, nogil=True)
def _each_distance(rows, targets, metric, low, high, out):  # type: ignore[no-untyped-def]
    anywhere = np.empty(0)
    for i in range(out.size):
        least, most = (low[i], high[i]) if low.size else (anywhere, anywhere)
        out[i] = _distance(rows, i, targets[i], metric, least, most, np.inf)


def distances(rows: Numbers, targets: Numbers, metric: Metric, reach: tuple[Numbers, Numbers] | None = None) -> Numbers:
    """Return the distance of each row (m, p) from the target beside it, shape (m,), to the last digit as the search sees it."""
    out = np.empty(len(rows))
    low, high = (np.empty((0, 0)),) * 2 if reach is None else reach
    metric = Metric(*(np.asarray(part, np.float64) for part in metric))
    _each_distance(np.ascontiguousarray(rows), np.ascontiguousarray(targets), metric, low, high, out)
    return out


def _walk(targets: Numbers, row: Rows, own: Rows) -> Rows:
    """Return an order of the targets in which neighbours look in the same leaves: memory is then read where it was just read."""
    if (own < 0).all():
        return np.argsort(targets[:, 0], kind="stable")
    place = np.empty(len(row), np.int64)
    place[row] = np.arange(len(row))
    return np.argsort(np.where(own < 0, -1, place[own]), kind="stable")
