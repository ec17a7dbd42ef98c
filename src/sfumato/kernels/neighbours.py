"""The nearest of many rows: by number and category together, by limits, and among rows with the same codes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np

from sfumato.kernels.classes import classes, number_codes
from sfumato.kernels.kd_tree import before, plant, sort_into_leaves, walk
from sfumato.typing import Numbers, Whole

# A k-d tree (Bentley 1975) over rows with numbers, codes and gaps. Every row's distance is summed column by column, boxes only say
# where not to look, and rows that are equally near are counted: the answer is exact. A gap is written as minus infinity.

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
    row: Whole
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
def _plant(points, row, metric):  # type: ignore[no-untyped-def]
    """Sort rows into leaves; return the boxes of the nodes and where they have gaps. Node i has children 2i + 1, 2i + 2."""
    n, p = points.shape
    leaves = sort_into_leaves(points, row, _LEAF, metric)
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
    own: Whole | None = None,
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


def _walk(targets: Numbers, row: Whole, own: Whole) -> Whole:
    """Return an order of the targets in which neighbours look in the same leaves: memory is then read where it was just read."""
    if (own < 0).all():
        return np.argsort(targets[:, 0], kind="stable")
    place = np.empty(len(row), np.int64)
    place[row] = np.arange(len(row))
    return np.argsort(np.where(own < 0, -1, place[own]), kind="stable")


# A row that differs in some codes is at least as far as these cost. So rows are looked for by the set of codes in which they
# differ, the cheapest first, and whoever has found a row that is nearer than what the next set costs is done; when few are left,
# they look everywhere. Each of these searches is one in a k-d tree with a class in place of the codes. The answer is exact.


Reach = tuple[Numbers, Numbers]

_GAPS = 0.1
"""Columns of codes with a larger share of gaps are searched like numbers: a gap may match any class."""
_FEW = 0.01
"""Where fewer targets are left, as a share of the rows, another tree would not pay."""
_MOST = 200
"""So many sets of codes at most are looked through."""


class _ClassSearch(NamedTuple):
    """Rows to look among, with what is needed to look."""

    rows: Numbers
    targets: Numbers
    metric: Metric
    sizes: Numbers
    reach: Reach | None

    def among(self, columns: Whole, label: tuple[Whole, Whole], some: Whole, within: Numbers, other: Whole) -> Nearest:
        """Look for some of the targets, among the rows with their label, by these columns alone.

        On the columns `other` all rows are taken to differ.
        """
        rows, targets = (
            np.column_stack([codes, part])
            for codes, part in (
                (label[0], self.rows[:, columns]),
                (label[1][some], self.targets[np.ix_(some, columns)]),
            )
        )
        differ = 1 + np.flatnonzero(np.isin(columns, other))
        rows[:, differ], targets[:, differ] = 0.0, 1.0
        apart = (0.0, 0.0, np.inf, np.inf, 0.0)  # rows of another label are out of the question
        metric = Metric(*(np.append(one, part[columns]) for one, part in zip(apart, self.metric, strict=True)))
        reach = None
        if self.reach is not None:
            anything = np.full(len(some), np.inf)
            low, high = (side[np.ix_(some, columns)] for side in self.reach)
            reach = np.column_stack([-anything, low]), np.column_stack([anything, high])
        return nearest_rows(rows, targets, metric, self.sizes, reach=reach, within=within)


def nearest_by_class(
    rows: Numbers,
    targets: Numbers,
    metric: Metric,
    sizes: Numbers,
    own: Whole,
    reach: Reach | None = None,
) -> Nearest:
    """Return what `nearest_rows` returns, quickly also where rows and targets seldom have all codes in common.

    All that it takes is as there, but `own` (m,) is needed: a row that may well be the nearest, or -1.
    """
    coded = _coded(rows, targets, metric, reach)
    if len(coded) < 2 or not len(rows) or not len(targets):
        return nearest_rows(rows, targets, metric, sizes, own, reach)
    there = np.flatnonzero(own >= 0)
    within = np.full(len(targets), np.inf)
    within[there] = distances(rows[own[there]], targets[there], metric, _taken(reach, there))
    gappy_rows, gappy = ((side[:, coded] == GAP).any(axis=1) for side in (rows, targets))
    best = Nearest(np.full(len(targets), np.inf), np.zeros(len(targets)), np.full(len(targets), -1, np.int64))
    whole, some = np.flatnonzero(~gappy_rows), np.flatnonzero(~gappy)
    part = _ClassSearch(rows[whole], targets[some], metric, sizes[whole], _taken(reach, some))
    if len(whole) and len(some):
        _put(best, some, _whole(part, coded, within[some]), whole)
    for mine, theirs in ((np.flatnonzero(gappy), np.arange(len(rows))), (some, np.flatnonzero(gappy_rows))):
        if len(mine) and len(theirs):
            limit = np.minimum(within[mine], best.distance[mine])
            found = nearest_rows(
                rows[theirs], targets[mine], metric, sizes[theirs], reach=_taken(reach, mine), within=limit
            )
            _put(best, mine, found, theirs)
    return best


def _coded(rows: Numbers, targets: Numbers, metric: Metric, reach: Reach | None) -> Whole:
    """Return the columns of codes that cost something where they differ, and are seldom missing."""
    free = np.ones(rows.shape[1], bool)
    if reach is not None:
        free &= np.isneginf(reach[0]).all(axis=0) & np.isposinf(reach[1]).all(axis=0)
    gaps = [np.mean(side == GAP, axis=0) if len(side) else np.zeros(rows.shape[1]) for side in (rows, targets)]
    some = metric.cost > 1e-6 * metric.cost.max(initial=0.0)  # so that no sum leaves one out
    return np.flatnonzero(free & (metric.limit == 0) & some & (np.maximum(*gaps) <= _GAPS))


def _whole(search: _ClassSearch, coded: Whole, within: Numbers) -> Nearest:
    """Search rows and targets that have all codes: by the set of codes in which they differ, or everywhere."""
    n, m = len(search.rows), len(search.targets)
    codes = [number_codes(np.concatenate([search.rows[:, j], search.targets[:, j]])) for j in coded]
    # of columns that cost the same, those with few values first: without them, classes are still small
    order = sorted(range(len(coded)), key=lambda k: (search.metric.cost[coded[k]], int(codes[k].max())))
    others = np.setdiff1d(np.arange(search.rows.shape[1]), coded)
    best = Nearest(np.full(m, np.inf), np.zeros(m), np.full(m, -1, np.int64))
    for step, (cost, chosen) in enumerate(_cheapest_first([float(search.metric.cost[coded[k]]) for k in order])):
        limit = np.minimum(within, best.distance)
        left = np.flatnonzero(limit >= cost * (1 - 1e-9))  # however sums are rounded
        if not len(left):
            break
        if step and (len(left) < _FEW * n or step >= _MOST):
            found = nearest_rows(
                search.rows,
                search.targets[left],
                search.metric,
                search.sizes,
                reach=_taken(search.reach, left),
                within=limit[left],
            )
            for part, new in zip(best, found, strict=True):
                part[left] = new
            break
        differ = [order[i] for i in chosen]
        labels, _ = classes([codes[k] for k in range(len(coded)) if k not in differ], n + m)
        columns = np.sort(np.append(others, coded[differ]))
        # who has one of these codes too was met before, nearer than the limit; so nobody is met twice
        _put(best, left, search.among(columns, (labels[:n], labels[n:]), left, limit[left], coded[differ]))
    return best


def _cheapest_first(costs: list[float]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield what each set of things costs, and the set, the cheapest first; costs are positive and in order.

    >>> [(cost, chosen) for cost, chosen in _cheapest_first([1.0, 1.0, 3.0])][:5]
    [(0.0, ()), (1.0, (0,)), (1.0, (1,)), (2.0, (0, 1)), (3.0, (2,))]
    """
    yield 0.0, ()
    heap: list[tuple[float, tuple[int, ...]]] = [(costs[0], (0,))] if costs else []
    while heap:
        cost, chosen = heapq.heappop(heap)
        yield cost, chosen
        if (last := chosen[-1]) + 1 < len(costs):
            for more in ((*chosen, last + 1), (*chosen[:-1], last + 1)):
                heapq.heappush(heap, (sum(costs[i] for i in more), more))


def _taken(reach: Reach | None, some: Whole) -> Reach | None:
    return None if reach is None else (reach[0][some], reach[1][some])


def _put(best: Nearest, some: Whole, found: Nearest, rows: Whole | None = None) -> None:
    """Set the answers of some targets to what was found elsewhere, where that is nearer; where it is as near, both count."""
    row = found.row if rows is None else np.where(found.row < 0, -1, rows[found.row])
    distance, ties, old = best.distance[some], best.ties[some], best.row[some]
    nearer, equal = found.distance < distance, (found.distance == distance) & np.isfinite(distance)
    best.distance[some] = np.where(nearer, found.distance, distance)
    best.ties[some] = np.where(nearer, found.ties, ties + np.where(equal, found.ties, 0.0))
    best.row[some] = np.where(nearer, row, np.where(equal, np.minimum(old, row), old))


# --- Nearest records of one file for many records of another, exactly: numbers and categories together.
#
# A record is a row: its first columns are numbers, which differ by the square of their difference; the rest are categories, as
# numbers that only have to be different, which differ by 1 or not at all. The squared distance is the sum, column by column, so
# that equal distances are equal to the last bit. The tree of boxes is that of kd_tree.


@numba.njit(cache=True, nogil=True)
def _neighbours(x, queries, k, numbers, value, low, high):  # type: ignore[no-untyped-def]
    n, p = x.shape
    tree = plant(x, np.arange(n), np.empty(n, np.int64), np.zeros(p))
    rows, far = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
    found, distance = np.empty(k, np.int64), np.empty(k)
    ties, votes = np.empty(len(queries), np.int64), np.empty(len(queries), np.int64)
    for i in range(len(queries)):
        if value is None:
            _, ties[i], votes[i] = walk(tree, queries[i], numbers, k, found, distance, True, None, 0.0, 0.0)
        else:
            _, ties[i], votes[i] = walk(tree, queries[i], numbers, k, found, distance, True, value, low[i], high[i])
        for a in range(k):  # sorted as they are copied: nearest first, of equal distances the lower row
            b = a
            while b > 0 and before(distance[a], found[a], far[i, b - 1], rows[i, b - 1]):
                rows[i, b], far[i, b] = rows[i, b - 1], far[i, b - 1]
                b -= 1
            rows[i, b], far[i, b] = found[a], distance[a]
    return rows, far, ties, votes


def k_nearest(x: Numbers, queries: Numbers, k: int, numbers: int) -> tuple[Whole, Numbers, Whole]:
    """Return the k nearest rows of x (n, p), n >= k, for each query (m, p), and their squared distances; shape (m, k) each.

    The first `numbers` columns hold numbers, the rest categories. The nearest row stands first; of equal distances the lower.
    Third, how many rows are as near as the nearest, shape (m,).
    """
    rows, far, ties, _ = _neighbours(_plain(x), _plain(queries), k, numbers, None, None, None)
    return rows, far, ties


def nearest_votes(
    x: Numbers, queries: Numbers, value: Numbers, low: Numbers, high: Numbers, numbers: int
) -> tuple[Whole, Numbers, Whole, Whole]:
    """Return the nearest row of x (n, p), n >= 1, for each query (m, p), its squared distance, how many are as near, and the votes.

    A row votes if its `value` (n,) lies between the query's `low` and `high` (m,): a probability is votes over ties. The first
    `numbers` columns hold numbers, the rest categories. Of equal distances the lower row is the nearest. Shape (m,) each.
    """
    inside = _plain(value), _plain(low), _plain(high)
    rows, far, ties, votes = _neighbours(_plain(x), _plain(queries), 1, numbers, *inside)
    return rows[:, 0], far[:, 0], ties, votes


def _plain(x: Numbers) -> Numbers:
    return np.ascontiguousarray(x, np.float64)
