"""The nearest of many rows where most columns are codes: first among the rows with the same codes, then among the next alike.

A row that differs in some codes is at least as far as these cost. So rows are looked for by the set of codes in which they
differ, the cheapest first, and whoever has found a row that is nearer than what the next set costs is done; when few are left,
they look everywhere. Each of these searches is one in a k-d tree with a class in place of the codes. The answer is exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.classes import classes, number_codes
from sfumato.kernels.nearest_rows import GAP, Metric, Nearest, distances, nearest_rows

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
Reach = tuple[Numbers, Numbers]

_GAPS = 0.1
"""Columns of codes with a larger share of gaps are searched like numbers: a gap may match any class."""
_FEW = 0.01
"""Where fewer targets are left, as a share of the rows, another tree would not pay."""
_MOST = 200
"""So many sets of codes at most are looked through."""


class _Search(NamedTuple):
    """Rows to look among, with what is needed to look."""

    rows: Numbers
    targets: Numbers
    metric: Metric
    sizes: Numbers
    reach: Reach | None

    def among(self, columns: Rows, label: tuple[Rows, Rows], some: Rows, within: Numbers, other: Rows) -> Nearest:
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
    own: Rows,
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
    part = _Search(rows[whole], targets[some], metric, sizes[whole], _taken(reach, some))
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


def _coded(rows: Numbers, targets: Numbers, metric: Metric, reach: Reach | None) -> Rows:
    """Return the columns of codes that cost something where they differ, and are seldom missing."""
    free = np.ones(rows.shape[1], bool)
    if reach is not None:
        free &= np.isneginf(reach[0]).all(axis=0) & np.isposinf(reach[1]).all(axis=0)
    gaps = [np.mean(side == GAP, axis=0) if len(side) else np.zeros(rows.shape[1]) for side in (rows, targets)]
    some = metric.cost > 1e-6 * metric.cost.max(initial=0.0)  # so that no sum leaves one out
    return np.flatnonzero(free & (metric.limit == 0) & some & (np.maximum(*gaps) <= _GAPS))


def _whole(search: _Search, coded: Rows, within: Numbers) -> Nearest:
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


def _taken(reach: Reach | None, some: Rows) -> Reach | None:
    return None if reach is None else (reach[0][some], reach[1][some])


def _put(best: Nearest, some: Rows, found: Nearest, rows: Rows | None = None) -> None:
    """Set the answers of some targets to what was found elsewhere, where that is nearer; where it is as near, both count."""
    row = found.row if rows is None else np.where(found.row < 0, -1, rows[found.row])
    distance, ties, old = best.distance[some], best.ties[some], best.row[some]
    nearer, equal = found.distance < distance, (found.distance == distance) & np.isfinite(distance)
    best.distance[some] = np.where(nearer, found.distance, distance)
    best.ties[some] = np.where(nearer, found.ties, ties + np.where(equal, found.ties, 0.0))
    best.row[some] = np.where(nearer, row, np.where(equal, np.minimum(old, row), old))
