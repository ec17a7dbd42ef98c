"""The cheapest safe pattern of a small table, by cutting planes.

A mixed-integer program chooses what to hide; for every requirement that its choice does not meet, the dual of the attacker's
linear program is a cut: Fischetti and Salazar-González, Journal of the American Statistical Association 95 (2000), section 4.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sfumato.lazy import highspy
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
    """Cheapest patterns that meet the demands; demands may be added.

    The relaxation, in which a quantity may be hidden in part, is solved first: most of its cuts serve the integer program too.
    `nodes` limits the branching of each integer program.
    """

    def __init__(self, problem: SuppressionProblem, clock: Clock, nodes: int | None = None) -> None:
        self.problem, self.clock, self.nodes = problem, clock, nodes
        self._open = np.flatnonzero(~problem.hidden & ~problem.fixed)
        self._cuts: list[Numbers] = []
        """Weights of the quantities that may be hidden, shape (open,) each: those hidden must weigh at least 1 together."""
        room = 10 * (np.abs(problem.value).sum() + max((d.need for d in demands_of(problem)), default=0.0)) + 1
        self._above = np.minimum(problem.high - problem.value, room)
        self._below = np.minimum(problem.value - problem.low, room)

    def with_unions(self, problem: SuppressionProblem) -> Exact:
        """Return the search in the same problem with further secrets, which are always hidden: its cuts remain valid."""
        more = Exact(problem, self.clock, self.nodes)
        more._cuts = self._cuts
        return more

    def solve(self, demands: list[Demand]) -> Flags | None:
        """Return the cheapest pattern; None if there is none."""
        shares: Numbers | None = None
        for relaxed, slack in ((True, 1e-3), (False, 1e-7)):
            while True:
                self.clock.look()
                shares = self._cheapest(relaxed)
                if shares is None:
                    return None
                cuts = [cut for d in demands if (cut := self._cut(d, shares, slack)) is not None]
                if not cuts:
                    break
                self._cuts += cuts
        return None if shares is None else np.asarray(shares > 0.5)

    def _cheapest(self, relaxed: bool) -> Numbers | None:
        """Return the cheapest shares that satisfy all cuts, 1 for hidden quantities; the solver breaks ties by order of labels."""
        p, open_ = self.problem, self._open
        shares = p.hidden.astype(np.float64)
        if not self._cuts:
            return shares
        options: dict[str, float | int] = {"threads": 1, "random_seed": 0, "mip_rel_gap": 1e-9, "mip_abs_gap": 1e-9}
        left = self.clock.ends - time.monotonic()
        if np.isfinite(left):
            options["time_limit"] = max(left, 0.01)
        if self.nodes is not None:
            options["mip_max_nodes"] = self.nodes
        solver = make_solver(options)
        cost = p.cost[open_] / max(float(p.cost[open_].max(initial=0.0)), 1e-300)
        every, rows = np.ones(len(open_)), sparse.csr_array(np.array(self._cuts))
        limits = np.ones(rows.shape[0]), np.full(rows.shape[0], np.inf)
        solver.passModel(make_program(cost, (0 * every, every), rows, limits, None if relaxed else every > 0))
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise OutOfTime
        shares[open_] = np.clip(np.array(solver.getSolution().col_value), 0.0, 1.0)
        return shares if relaxed else np.round(shares)

    def _cut(self, demand: Demand, shares: Numbers, slack: float) -> Numbers | None:
        """Return weights of the quantities that may be hidden, whose sum must be at least 1; None if the demand is met."""
        shares = shares.copy()
        shares[demand.still] = 0.0
        reached, weights = 0.0, np.zeros(len(self.problem))
        for side in demand.sides:
            value, price = self._attack(demand.target, side, shares)
            reached += value
            weights += np.maximum(price, 0) * self._above + np.maximum(-price, 0) * self._below
        if reached >= demand.need * (1 - slack):
            return None
        weights[demand.still] = 0.0
        weights[weights < 1e-9 * demand.need] = 0.0
        missing = demand.need - weights[self.problem.hidden].sum()
        return np.asarray(np.minimum(weights[self._open] / missing, 1.0))

    @cached_property
    def _unit(self) -> float:
        return max(float(np.abs(self.problem.value).max(initial=0.0)), 1e-9) / 1e3

    @cached_property
    def _solver(self) -> Any:
        p = self.problem
        solver = make_solver({"threads": 1, "presolve": "off", "primal_feasibility_tolerance": 1e-9})
        nothing, balance = np.zeros(len(p)), np.zeros(p.sums.shape[0])
        solver.passModel(make_program(nothing, (nothing, nothing), p.sums, (balance, balance)))
        return solver

    def _attack(self, target: int, side: int, shares: Numbers) -> tuple[float, Numbers]:
        """Return how far a secret moves to a side, and the gain per unit of room for each quantity."""
        every = np.arange(len(shares), dtype=np.int32)
        self._solver.changeColsBounds(
            len(every), every, -self._below * shares / self._unit, self._above * shares / self._unit
        )
        self._solver.changeColCost(target, -float(side))
        self._solver.run()
        solved, solution = self._solver.getModelStatus(), self._solver.getSolution()
        reached, prices = side * float(solution.col_value[target]) * self._unit, -np.array(solution.col_dual)
        self._solver.changeColCost(target, 0.0)  # which forgets the solution
        if solved != highspy.HighsModelStatus.kOptimal:
            raise OutOfTime
        return reached, prices
