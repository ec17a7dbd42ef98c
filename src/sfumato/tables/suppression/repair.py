"""The cheapest further cells to hide so that a secret can move far enough: one linear program for each secret and side.

Fischetti and Salazar-González, Models and algorithms for optimizing cell suppression in tabular data with linear
constraints, Journal of the American Statistical Association 95 (2000); the costs by distance moved are Kelly, Golden and
Assad's (Cell suppression: disclosure protection for sensitive tabular data, Networks 22, 1992).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

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

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._by_column = sparse.csc_array(problem.sums)
        # what can move to one side alone, such as a shown zero, is of little use: ways are looked for without it first
        self._stuck = ((problem.value <= problem.low) | (problem.value >= problem.high)) & ~problem.hidden
        self._around: dict[tuple[int, int], Whole] = {}

    def way(self, target: int, need: float, hidden: Flags, still: Whole | None = None) -> Numbers | None:
        """Return a move of all quantities that takes the target by `need` (below zero: down); None where there is none.

        `still` are quantities that do not move because the attacker knows them.
        """
        return self._nearest(target, need, hidden, still, False)

    def free_way(self, target: int, need: float, hidden: Flags, still: Whole | None = None) -> Numbers | None:
        """Return such a move of hidden quantities alone, in which they move little; None where there is none."""
        return self._nearest(target, need, hidden, still, True)

    def _nearest(self, target: int, need: float, hidden: Flags, still: Whole | None, free: bool) -> Numbers | None:
        if need == 0:
            return np.zeros(len(self.problem))
        seen = 0
        for near in (*_NEAR, len(self.problem)):
            columns = self.around(target, near)
            if len(columns) == seen:
                continue
            seen = len(columns)
            columns = columns[hidden[columns] if free else hidden[columns] | ~self.problem.fixed[columns]]
            if still is not None:
                columns = np.setdiff1d(columns, still)
            if (found := self._solve(target, need, hidden, columns, free)) is not None:
                return found
        return None

    def around(self, target: int, count: int) -> Whole:
        """Return the quantities that hang together with a target through the fewest equations, at least `count` of them."""
        if (target, count) not in self._around:
            sums, columns = self.problem.sums, self._by_column
            inside, done = np.zeros(len(self.problem), bool), np.zeros(sums.shape[0], bool)
            stuck = self._stuck if count < len(self.problem) else np.zeros(len(self.problem), bool)
            inside[target] = True
            last = np.array([target])
            while len(last) and inside.sum() < count:
                rows, near = np.zeros(sums.shape[0], bool), np.zeros(len(self.problem), bool)
                rows[_entries(columns.indptr, columns.indices, last)] = True
                near[_entries(sums.indptr, sums.indices, np.flatnonzero(rows & ~done))] = True
                done |= rows
                last = np.flatnonzero(near & ~inside & ~stuck)
                inside[last] = True
            self._around[target, count] = np.flatnonzero(inside)
        return self._around[target, count]

    @cached_property
    def _solver(self) -> Any:
        import highspy

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        for option, value in _OPTIONS.items():
            solver.setOptionValue(option, value)
        return solver

    def _solve(self, target: int, need: float, hidden: Flags, movable: Whole, short: bool) -> Numbers | None:
        """Return the cheapest way on which only some quantities move; a `short` one if what moves costs, hidden or not."""
        import highspy

        p = self.problem
        if target not in movable:
            return None
        unit = abs(need)
        paid = np.flatnonzero(movable != target) if short else np.flatnonzero(~hidden[movable])
        cost = np.ones(len(paid)) if short else p.cost[movable[paid]]
        count = len(movable)
        above, below = (p.high - p.value)[movable] / unit, (p.low - p.value)[movable] / unit
        low, high = np.minimum(below, 0.0), np.maximum(above, 0.0)
        place = int(np.searchsorted(movable, target))
        if not low[place] <= np.sign(need) <= high[place]:
            return None
        low[place] = high[place] = np.sign(need)
        # what is shown moves up by one column and down by another, each at its cost
        start, entry, sign = _columns(self._by_column, np.concatenate([movable, movable[paid]]), count)
        costs = np.zeros(count + len(paid))
        costs[paid] = cost
        costs[count:] = cost
        tops = np.concatenate([high, -low[paid]])
        low[paid] = 0.0
        bottoms, balance = np.concatenate([low, np.zeros(len(paid))]), np.zeros(int(entry.max(initial=-1)) + 1)
        highs = self._solver
        highs.clearSolver()
        highs.passModel(
            len(costs), len(balance), len(entry), int(highspy.MatrixFormat.kColwise), int(highspy.ObjSense.kMinimize), 0.0,
            costs, bottoms, tops, balance, balance, start, entry, sign, np.zeros(len(costs), np.int32),
        )  # fmt: skip
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        x = np.array(highs.getSolution().col_value)
        x[paid] -= x[count:]
        move = np.zeros(len(p))
        move[movable] = np.where(np.abs(x[:count]) > 1e-8, x[:count], 0.0) * unit
        return move


_OPTIONS: dict[str, str | int | float] = {
    "solver": "simplex", "threads": 1, "random_seed": 0, "presolve": "off",
    "primal_feasibility_tolerance": 1e-9,
}  # fmt: skip


def _columns(
    matrix: sparse.csc_array, which: Whole, plain: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Numbers]:
    """Return some columns of a matrix without its empty rows, as starts, rows and entries; after `plain` of them, negated."""
    length = (matrix.indptr[which + 1] - matrix.indptr[which]).astype(np.int64)
    ends = np.cumsum(length)
    at = np.arange(int(ends[-1])) - np.repeat(ends - length - matrix.indptr[which], length)
    used = np.zeros(matrix.shape[0], bool)
    used[matrix.indices[at]] = True
    row = (np.cumsum(used) - 1)[matrix.indices[at]]
    entries = matrix.data[at]
    entries[int(ends[plain - 1]) :] *= -1
    return np.concatenate([[0], ends]).astype(np.int32), row.astype(np.int32), entries


def _entries(start: NDArray[np.int32], entries: NDArray[np.int32], rows: Whole) -> Whole:
    """Return the entries of several rows of a sparse matrix."""
    length = start[rows + 1] - start[rows]
    offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.asarray(entries[np.repeat(start[rows], length) + offset], np.int64)
