"""The cheapest further cells to hide so that a secret can move far enough: one linear program for each secret and side.

Fischetti and Salazar-González, Models and algorithms for optimizing cell suppression in tabular data with linear
constraints, Journal of the American Statistical Association 95 (2000); the costs by distance moved are Kelly, Golden and
Assad's (Cell suppression: disclosure protection for sensitive tabular data, Networks 22, 1992).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.problem import Problem

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NEAR = (300, 1500)
"""How many quantities around a secret are looked at first, and then, before all of them are."""


class Repair:
    """Ways for secrets to move, where hidden quantities move for nothing and shown ones at their cost."""

    def __init__(self, problem: Problem, forbidden_cost: float | None = None) -> None:
        self.problem = problem
        self.forbidden_cost = forbidden_cost
        """With a number, quantities that must be shown may be hidden too, at so much: to find the smallest relaxation."""
        self._by_column = sparse.csc_array(problem.sums)

    def way(self, target: int, need: float, hidden: Flags, still: Whole | None = None) -> Numbers | None:
        """Return a move of all quantities that takes the target by `need` (below zero: down); None where there is none.

        `still` are quantities that do not move because the attacker knows them.
        """
        if need == 0:
            return np.zeros(len(self.problem))
        found, seen = None, 0
        for near in (*_NEAR, len(self.problem)):
            columns = self.around(target, near)
            if len(columns) == seen:
                continue
            seen = len(columns)
            if still is not None:
                columns = np.setdiff1d(columns, still)
            found = self._solve(target, need, hidden, columns)
            if found is not None:
                break
        return found

    def around(self, target: int, count: int) -> Whole:
        """Return the quantities that hang together with a target through the fewest equations, at least `count` of them."""
        sums, columns = self.problem.sums, self._by_column
        inside, done = np.zeros(len(self.problem), bool), np.zeros(sums.shape[0], bool)
        inside[target] = True
        last = np.array([target])
        while len(last) and inside.sum() < count:
            rows = np.unique(_entries(columns.indptr, columns.indices, last))
            rows = rows[~done[rows]]
            done[rows] = True
            last = np.unique(_entries(sums.indptr, sums.indices, rows))
            last = last[~inside[last]]
            inside[last] = True
        return np.flatnonzero(inside)

    def _solve(self, target: int, need: float, hidden: Flags, columns: Whole) -> Numbers | None:
        import highspy

        p = self.problem
        movable = columns[hidden[columns] | ~p.fixed[columns]] if self.forbidden_cost is None else columns
        if target not in movable:
            return None
        unit = abs(need)
        paid = np.flatnonzero(~hidden[movable])
        cost = p.cost[movable[paid]]
        if self.forbidden_cost is not None:
            cost = np.where(p.fixed[movable[paid]], self.forbidden_cost, cost)
        count = len(movable)
        above, below = (p.high - p.value)[movable] / unit, (p.low - p.value)[movable] / unit
        low, high = np.minimum(below, 0.0), np.maximum(above, 0.0)
        place = int(np.searchsorted(movable, target))
        if not low[place] <= np.sign(need) <= high[place]:
            return None
        low[place] = high[place] = np.sign(need)
        # what is shown moves up by one column and down by another, each at its cost
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.silent()
        for option, value in _OPTIONS.items():
            highs.setOptionValue(option, value)
        start, entry, sign = _columns(self._by_column, np.concatenate([movable, movable[paid]]), count)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count + len(paid), int(entry.max(initial=-1)) + 1
        costs = np.zeros(count + len(paid))
        costs[paid] = cost
        costs[count:] = cost
        lp.col_cost_ = costs
        lp.col_upper_ = np.concatenate([high, -low[paid]])
        low[paid] = 0.0
        lp.col_lower_ = np.concatenate([low, np.zeros(len(paid))])
        lp.row_lower_ = lp.row_upper_ = np.zeros(lp.num_row_)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = start, entry, sign
        highs.passModel(lp)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        x = np.array(highs.getSolution().col_value)
        x[paid] -= x[count:]
        move = np.zeros(len(p))
        move[movable] = np.where(np.abs(x[:count]) > 1e-8, x[:count], 0.0) * unit
        return move


_OPTIONS: dict[str, str | int | float] = {
    "solver": "simplex", "threads": 1, "random_seed": 0, "presolve": "on",
    "primal_feasibility_tolerance": 1e-9,
}  # fmt: skip


def _columns(
    matrix: sparse.csc_array, which: Whole, plain: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Numbers]:
    """Return some columns of a matrix without its empty rows, as starts, rows and entries; after `plain` of them, negated."""
    length = (matrix.indptr[which + 1] - matrix.indptr[which]).astype(np.int64)
    ends = np.cumsum(length)
    at = np.arange(int(ends[-1])) - np.repeat(ends - length - matrix.indptr[which], length)
    _, row = np.unique(matrix.indices[at], return_inverse=True)
    entries = matrix.data[at].copy()
    entries[int(ends[plain - 1]) :] *= -1
    return np.concatenate([[0], ends]).astype(np.int32), row.ravel().astype(np.int32), entries


def _entries(start: NDArray[np.int32], entries: NDArray[np.int32], rows: Whole) -> Whole:
    """Return the entries of several rows of a sparse matrix."""
    length = start[rows + 1] - start[rows]
    offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.asarray(entries[np.repeat(start[rows], length) + offset], np.int64)
