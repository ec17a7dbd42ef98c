"""Secondary suppression for tables of any size: elimination first, linear programs where that is not enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato import kernels
from sfumato.lazy import highspy
from sfumato.tables.linear_program import make_solver
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.tables.suppression.proof import PatternCheck, check, short, whole
from sfumato.typing import Flags, Numbers, Whole

# The cheapest further cells to hide so that a secret can move far enough: one linear program for each secret and side.
#
# Fischetti and Salazar-González, Models and algorithms for optimizing cell suppression in tabular data with linear
# constraints, Journal of the American Statistical Association 95 (2000); the costs by distance moved are Kelly, Golden and
# Assad's (Cell suppression: disclosure protection for sensitive tabular data, Networks 22, 1992).

_NEAR = (300, 2000)
"""Numbers of quantities around a secret that are tried first, before all of them."""
_CHEAP = 2.0
"""A move among the nearest quantities is taken if it costs at most this many times its secret or a typical quantity."""


class Repair:
    """Moves of secrets in which hidden quantities move free of charge and published ones at their cost."""

    def __init__(self, problem: SuppressionProblem) -> None:
        self.problem = problem
        self._by_column = sparse.csc_array(problem.sums)
        # a quantity that can move to one side only, such as a published zero, is of little use: try first without these
        self._stuck = ((problem.value <= problem.low) | (problem.value >= problem.high)) & ~problem.hidden
        self._around: dict[tuple[int, int], Whole] = {}
        self._usual_cost = float(np.median(problem.cost))

    def way(
        self, target: int, need: float, hidden: Flags, still: Whole | None = None, free: bool = False
    ) -> Numbers | None:
        """Return a move of all quantities that moves the target by `need` (negative: down); None if there is none.

        `still` are quantities that do not move because the attacker knows them. A `free` move is one of hidden quantities
        alone, in which they move little.
        """
        if need == 0:
            return np.zeros(len(self.problem))
        p, seen, cheapest = self.problem, 0, None
        lowest, enough = np.inf, _CHEAP * max(float(p.cost[target]), self._usual_cost)
        for near in (*_NEAR, len(p)):
            columns = self.columns_near(target, near)
            if len(columns) == seen:
                continue
            seen = len(columns)
            columns = columns[hidden[columns] if free else hidden[columns] | ~p.fixed[columns]]
            if still is not None:
                columns = np.setdiff1d(columns, still)
            if (move := self._solve(target, need, hidden, columns, free)) is None:
                continue
            cost = float((np.abs(move) * p.cost)[~hidden].sum()) / abs(need)
            if cost < lowest:
                lowest, cheapest = cost, move
            if free or cost <= enough or near != _NEAR[0]:
                break
        return cheapest

    def columns_near(self, target: int, count: int) -> Whole:
        """Return the quantities that are linked to a target through the fewest equations, at least `count` of them."""
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
        return make_solver({
            "solver": "simplex", "threads": 1, "random_seed": 0, "presolve": "off", "primal_feasibility_tolerance": 1e-9,
        })  # fmt: skip

    def _solve(self, target: int, need: float, hidden: Flags, movable: Whole, short: bool) -> Numbers | None:
        """Return the cheapest move in which only `movable` quantities move; a `short` one if every move costs, hidden or not."""
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
        # a published quantity moves up by one column and down by another, each at its cost
        start, entry, sign = _columns(self._by_column, np.concatenate([movable, movable[paid]]), count)
        costs = np.zeros(count + len(paid))
        costs[paid] = cost
        costs[count:] = cost
        tops = np.concatenate([high, -low[paid]])
        low[paid] = 0.0
        bottoms, balance = np.concatenate([low, np.zeros(len(paid))]), np.zeros(int(entry.max(initial=-1)) + 1)
        solver = self._solver
        solver.clearSolver()
        solver.passModel(
            len(costs), len(balance), len(entry), int(highspy.MatrixFormat.kColwise), int(highspy.ObjSense.kMinimize), 0.0,
            costs, bottoms, tops, balance, balance, start, entry, sign, np.zeros(len(costs), np.int32),
        )  # fmt: skip
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        x = np.array(solver.getSolution().col_value)
        x[paid] -= x[count:]
        move = np.zeros(len(p))
        move[movable] = np.where(np.abs(x[:count]) > 1e-8, x[:count], 0.0) * unit
        return move


def _columns(
    matrix: sparse.csc_array, which: Whole, plain: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], Numbers]:
    """Return columns of a matrix without its empty rows, as starts, rows and entries; those after the first `plain` negated."""
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


class OutOfTime(Exception):  # noqa: N818
    """The time limit was reached before a safe pattern was found."""


@dataclass(frozen=True)
class Clock:
    """The remaining time."""

    ends: float = np.inf

    @property
    def over(self) -> bool:
        """Whether there is no time left."""
        return time.monotonic() > self.ends

    def look(self) -> None:
        """Raise OutOfTime if the time is over."""
        if self.over:
            raise OutOfTime


class Impossible(Exception):  # noqa: N818
    """A secret cannot move far enough, whatever is hidden; `target` is its quantity in the `problem`."""

    def __init__(self, problem: SuppressionProblem, target: int) -> None:
        super().__init__("a secret cannot be protected")
        self.problem, self.target = problem, target


def first_pattern(problem: SuppressionProblem) -> Flags:
    """Return a pattern in which no secret follows from published cells by equations alone.

    Quantities are published in the order of their cost, the most costly first, each unless a secret would then be a linear
    combination of published ones: the method of Langsrud, Secondary cell suppression by Gaussian elimination (PSD 2024). Zeros
    and other quantities that cannot move to both sides come first, since they protect little.
    """
    sure = np.flatnonzero(problem.fixed & ~problem.hidden)
    maybe = np.flatnonzero(~problem.fixed & ~problem.hidden)
    room = np.minimum(problem.value - problem.low, problem.high - problem.value)[maybe]
    maybe = maybe[np.lexsort((-problem.cost[maybe], room > 0))]
    rows = problem.rows
    hide = kernels.table_algebra.rows_to_hide(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.shape[1],
        np.concatenate([sure, maybe]), len(sure), problem.targets,
    )  # fmt: skip
    return problem.hidden | hide


def mend(problem: SuppressionProblem, hidden: Flags, clock: Clock, sure: PatternCheck | None = None) -> PatternCheck:
    """Hide more until every interval is wide enough; return the pattern and how far the intervals reach.

    The cheapest cells come first, then everything near, in growing neighbourhoods; refuse where nothing more can be hidden.
    """
    repair, near_count = Repair(problem), 16
    found = check(problem, hidden, sure, solve=False)
    if not len(found.failing):
        return found
    # a move of a secret shows which cells to hide, or that none need be hidden
    sure = _widen_all(found, repair, clock)
    while True:
        clock.look()
        found = check(problem, sure.hidden, sure)
        if not len(found.failing):
            return found
        sure, before = _widen_all(found, repair, clock), int(found.hidden.sum())
        if int(sure.hidden.sum()) == before:
            targets = problem.targets[found.failing]
            near = np.unique(np.concatenate([repair.columns_near(int(t), near_count) for t in targets]))
            sure.hidden[near[~problem.fixed[near]]] = True
            if int(sure.hidden.sum()) == before and near_count >= len(problem):
                raise Impossible(problem, int(targets[0]))
            near_count *= 4


def _widen_all(found: PatternCheck, repair: Repair, clock: Clock) -> PatternCheck:
    """Hide the cheapest further cells that let failing secrets move, and return how far these then reach."""
    problem, hidden, up, down = found.problem, found.hidden.copy(), found.up.copy(), found.down.copy()
    need = np.maximum(problem.upper, np.maximum(problem.lower, problem.width))[problem.targets[found.failing]]
    for place in found.failing[np.argsort(-need, kind="stable")]:
        clock.look()
        _widen(problem, repair, int(place), up, down, hidden)
    return replace(found, hidden=hidden, up=up, down=down)


def _widen(problem: SuppressionProblem, repair: Repair, place: int, up: Numbers, down: Numbers, hidden: Flags) -> None:
    """Hide cells that let one secret move far enough to both sides; record how far all secrets move on the way."""
    targets = problem.targets
    target = int(targets[place])
    least = 1.0 if problem.integer else 1e-3 * max(abs(float(problem.value[target])), 1e-6)
    for side in (1, -1):
        here = np.array([place])
        if not short(problem, targets[here], up[here], down[here])[0]:
            return
        got, other = (up, down) if side > 0 else (down, up)
        level = float((problem.upper if side > 0 else problem.lower)[target])
        wide = float(problem.width[target]) - (other[place] if np.isfinite(other[place]) else 0.0)
        known = up[place] + down[place] <= 0
        goals = [max(level, wide, least if known else 0.0), max(level, wide / 2, 0.0), level]
        for goal in dict.fromkeys(goals):
            if got[place] >= goal:
                break
            goal = np.ceil(goal - 1e-9) if problem.integer else goal
            way = repair.way(target, side * goal, hidden)
            if way is not None:
                hidden |= way != 0
                _note(problem, way, up, down)
                break


def _note(problem: SuppressionProblem, way: Numbers, up: Numbers, down: Numbers) -> None:
    """Record how far every secret moved, and how far it would move the other way."""
    moved = way[problem.targets]
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(
            way > 0,
            (problem.value - problem.low) / way,
            np.where(way < 0, (problem.value - problem.high) / way, np.inf),
        )
    back = min(1.0, max(float(room.min(initial=np.inf)), 0.0))
    for move in (moved, -back * moved):
        rise, fall = whole(problem, problem.targets, np.maximum(move, 0.0), np.maximum(-move, 0.0))
        np.maximum(up, rise, out=up)
        np.maximum(down, fall, out=down)
