"""The nearest of many rows where most columns are codes: first among the rows with the same codes, then among the next alike.

A row that differs in one code is at least as far as that costs, one that differs in two at least as far as two cost. So whoever
has a row near enough with all codes the same, or all but one, is done; the search over everybody is for the others. Each of
these searches is one in a k-d tree with a class in place of the codes. The answer is exact.
"""

from __future__ import annotations

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


class _Search(NamedTuple):
    """Rows to look among, with what is needed to look."""

    rows: Numbers
    targets: Numbers
    metric: Metric
    sizes: Numbers
    reach: Reach | None

    def among(self, columns: Rows, label: tuple[Rows, Rows], some: Rows, within: Numbers) -> Nearest:
        """Look for some of the targets, among the rows with their label, by these columns alone."""
        rows, targets = (
            np.column_stack([codes, part])
            for codes, part in ((label[0], self.rows[:, columns]), (label[1][some], self.targets[np.ix_(some, columns)]))
        )
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
        free = np.isneginf(reach[0]).all(axis=0) & np.isposinf(reach[1]).all(axis=0)
    gaps = [np.mean(side == GAP, axis=0) if len(side) else np.zeros(rows.shape[1]) for side in (rows, targets)]
    return np.flatnonzero(free & (metric.limit == 0) & (metric.cost > 0) & (np.maximum(*gaps) <= _GAPS))


def _whole(search: _Search, coded: Rows, within: Numbers) -> Nearest:
    """Search rows and targets that have all codes: with the same codes, with all but one the same, everywhere."""
    n, m = len(search.rows), len(search.targets)
    codes = [number_codes(np.concatenate([search.rows[:, j], search.targets[:, j]])) for j in coded]
    others = np.setdiff1d(np.arange(search.rows.shape[1]), coded)
    costs = np.cumsum(np.sort(search.metric.cost[coded])) * (1 - 1e-9)  # however sums are rounded

    def label(columns: list[NDArray[np.int32]]) -> tuple[Rows, Rows]:
        labels, _ = classes(columns, n + m)
        return labels[:n], labels[n:]

    best = search.among(others, label(codes), np.arange(m), within)
    left = np.flatnonzero(np.minimum(best.distance, within) >= costs[0])
    same = Nearest(*(part[left] for part in best))
    for k, j in enumerate(coded):
        columns = np.sort(np.append(others, j))
        limit = np.minimum(within[left], best.distance[left])
        found = search.among(columns, label(codes[:k] + codes[k + 1 :]), left, limit)
        # who has the same codes is met again here: count him once
        ties = found.ties - np.where(found.distance == same.distance, same.ties, 0.0)
        _put(best, left, Nearest(np.where(ties > 0, found.distance, np.inf), ties, found.row))
    left = left[np.minimum(best.distance[left], within[left]) >= costs[1]]
    if len(left):
        limit = np.minimum(within[left], best.distance[left])
        found = nearest_rows(
            search.rows,
            search.targets[left],
            search.metric,
            search.sizes,
            reach=_taken(search.reach, left),
            within=limit,
        )
        for part, new in zip(best, found, strict=True):
            part[left] = new
    return best


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
