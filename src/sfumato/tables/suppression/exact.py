"""The cheapest safe pattern of a small table, by cutting planes.

A mixed-integer program chooses what to hide; for every requirement that its choice does not meet, the dual of the attacker's
linear program is a cut: Fischetti and Salazar-González, Journal of the American Statistical Association 95 (2000), section 4.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sfumato.tables.linear_program import make_program, make_solver
from sfumato.tables.suppression.heuristic import Clock, OutOfTime
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.typing import Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Demand:
    """How far a secret must reach, on which sides together, while some quantities do not move."""

    target: int
    sides: tuple[int, ...]
    need: float
    still: Whole


def demands_of(problem: SuppressionProblem) -> list[Demand]:
    """Return the requirements of every secret, limited to what is possible if everything that may be hidden is hidden."""
    nobody = np.zeros(0, np.int64)
    found = []
    for q in problem.targets:
        levels = {(1,): problem.upper[q], (-1,): problem.lower[q], (1, -1): problem.width[q]}
        if not any(levels.values()):  # it must not be known exactly
            levels[1, -1] = 1.0 if problem.integer else 1e-3 * max(abs(float(problem.value[q])), 1e-6)
        for sides, need in levels.items():
            if need > 0:
                found.append(Demand(int(q), sides, float(np.ceil(need - 1e-9) if problem.integer else need), nobody))
    return found


class Exact:
    """Cheapest patterns that meet the demands; demands may be added."""

    def __init__(self, problem: SuppressionProblem, clock: Clock) -> None:
        self.problem, self.clock = problem, clock
        self._cuts: list[Numbers] = []
        room = 10 * (np.abs(problem.value).sum() + max((d.need for d in demands_of(problem)), default=0.0)) + 1
        self._above = np.minimum(problem.high - problem.value, room)
        self._below = np.minimum(problem.value - problem.low, room)

    def solve(self, demands: list[Demand]) -> Flags | None:
        """Return the cheapest pattern; None if there is none."""
        while True:
            self.clock.look()
            hidden = self._cheapest()
            if hidden is None:
                return None
            cuts = [cut for d in demands if (cut := self._cut(d, hidden)) is not None]
            if not cuts:
                return hidden
            self._cuts += cuts

    def _cheapest(self) -> Flags | None:
        """Return the cheapest pattern that satisfies all cuts; ties are decided by the order of labels."""
        import highspy

        p = self.problem
        open_ = np.flatnonzero(~p.hidden & ~p.fixed)
        hidden = p.hidden.copy()
        if not self._cuts:
            return hidden
        cuts = np.array(self._cuts)
        given = 1 - cuts[:, p.hidden].sum(axis=1)
        rows = sparse.csr_array(cuts[:, open_])
        left = self.clock.ends - time.monotonic()
        options: dict[str, float | int] = {"threads": 1, "random_seed": 0, "mip_rel_gap": 1e-9, "mip_abs_gap": 1e-9}
        if np.isfinite(left):
            options["time_limit"] = max(left, 0.01)
        solver = make_solver(options)
        cost = p.cost[open_] / max(float(p.cost[open_].max(initial=0.0)), 1e-300)
        every = np.ones(len(open_))
        limits = given, np.full(rows.shape[0], np.inf)
        solver.passModel(make_program(cost, (0 * every, every), rows, limits, every > 0))
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise OutOfTime
        hidden[open_] = np.array(solver.getSolution().col_value) > 0.5
        return hidden

    def _cut(self, demand: Demand, hidden: Flags) -> Numbers | None:
        """Return weights such that the hidden quantities' weights must add up to 1; None if the pattern meets the demand."""
        moving = hidden.copy()
        moving[demand.still] = False
        reached, weights = 0.0, np.zeros(len(self.problem))
        for side in demand.sides:
            value, price = self._attack(demand.target, side, moving)
            reached += value
            weights += np.maximum(price, 0) * self._above + np.maximum(-price, 0) * self._below
        if reached >= demand.need * (1 - 1e-7):
            return None
        weights[demand.still] = 0.0
        weights[weights < 1e-9 * demand.need] = 0.0
        return np.minimum(weights / demand.need, 1.0)

    def _attack(self, target: int, side: int, moving: Flags) -> tuple[float, Numbers]:
        """Return how far a secret moves to a side, and the gain per unit of room for each quantity."""
        import highspy

        p = self.problem
        unit = max(float(np.abs(p.value).max(initial=0.0)), 1e-9) / 1e3
        solver = make_solver({"threads": 1, "presolve": "off", "primal_feasibility_tolerance": 1e-9})
        cost, balance = np.zeros(len(p)), np.zeros(p.sums.shape[0])
        cost[target] = -side
        room = np.where(moving, -self._below, 0.0) / unit, np.where(moving, self._above, 0.0) / unit
        solver.passModel(make_program(cost, room, p.sums, (balance, balance)))
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise OutOfTime
        solution = solver.getSolution()
        return side * float(solution.col_value[target]) * unit, -np.array(solution.col_dual)
