"""The audit of a pattern: every secret, by a table that could be the true one as well, or by two linear programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.sparse_witness import SparseFreedom, freedom_of
from sfumato.tables.suppression.witness import Freedom

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

TOLERANCE = 1e-7
"""By how much an interval may be shorter than asked for, relative to the level: what linear programs are exact to."""


@dataclass(frozen=True, eq=False)
class Check:
    """How far an attacker's intervals of the secrets of a problem reach under a pattern, at least; shapes (targets,)."""

    problem: Problem
    hidden: Flags
    """The pattern, shape (quantities,)."""
    up: Numbers
    down: Numbers
    solved: Flags
    """Which secrets needed linear programs."""

    @cached_property
    def failing(self) -> Whole:
        """Positions in `problem.targets` of those that do not reach as far as they must."""
        return np.flatnonzero(short(self.problem, self.problem.targets, self.up, self.down))

    @cached_property
    def freedom(self) -> Freedom | SparseFreedom:
        """The ways in which hidden leaves can move."""
        return freedom_of(self.problem, self.hidden)

    @property
    def margin(self) -> float:
        """The smallest of all ratios between what is reached and what is asked for; at least 1 for a safe pattern."""
        problem, t = self.problem, self.problem.targets
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [np.where(need > 0, got / need, np.inf) for got, need in (
                (self.up, problem.upper[t]), (self.down, problem.lower[t]), (self.up + self.down, problem.width[t]),
            )]  # fmt: skip
        return float(min((r.min(initial=np.inf) for r in ratios), default=np.inf))


def check(problem: Problem, hidden: Flags, sure: Check | None = None, solve: bool = True) -> Check:
    """Audit a pattern; `sure` is how far secrets are known to reach, since they did when less was hidden.

    Without linear programs (`solve`), what takes them to be proved fails.
    """
    targets = problem.targets
    up, down, solved = np.zeros(len(targets)), np.zeros(len(targets)), np.zeros(len(targets), bool)
    if sure is not None:
        known = slice(len(sure.up))
        up[known], down[known], solved[known] = sure.up, sure.down, sure.solved
    todo = np.flatnonzero(short(problem, targets, up, down))
    found = Check(problem, hidden, up, down, solved)
    if len(todo):
        reach = found.freedom.reach(targets[todo], hidden, enough=enough(problem)[todo])
        rise, fall = whole(problem, targets[todo], *reach)
        up[todo], down[todo] = np.maximum(up[todo], rise), np.maximum(down[todo], fall)
    open_ = np.flatnonzero(short(problem, targets, up, down))
    solved[open_] = True
    if solve and len(open_):
        asked, least = targets[open_], 1e-6 * np.abs(problem.value[targets[open_]])
        # one side may have to make up for the other, so each is asked for the whole width
        far = [np.maximum(np.maximum(need, problem.width)[asked], least) for need in (problem.lower, problem.upper)]
        far = [np.maximum(np.ceil(f - 1e-9), 1.0) if problem.integer else f for f in far]
        low, high = problem.attacker(hidden).bounds_of(sparse.csr_array(problem.rows[asked]), (-far[0], far[1]))
        rise, fall = whole(problem, asked, high, -low)
        up[open_], down[open_] = np.maximum(up[open_], rise), np.maximum(down[open_], fall)
    return found


def enough(problem: Problem) -> Numbers:
    """Return how far up and down each secret must reach, at most; shape (targets,)."""
    t = problem.targets
    need = np.maximum(np.maximum(problem.upper[t], problem.lower[t]), problem.width[t] / 2)
    need = np.maximum(need, 1e-6 * np.abs(problem.value[t]))
    return np.maximum(np.ceil(need), 1.0) if problem.integer else need


def short(problem: Problem, quantities: Whole, up: Numbers, down: Numbers) -> Flags:
    """Return which quantities do not reach as far as they must."""
    missing = np.zeros(len(quantities), bool)
    for got, need in ((up, problem.upper), (down, problem.lower), (up + down, problem.width)):
        missing |= got < need[quantities] * (1 - TOLERANCE)
    # a quantity that is known exactly is known, whatever the rule asks for
    return missing | (up + down <= TOLERANCE * np.abs(problem.value[quantities]))


def whole(problem: Problem, quantities: Whole, up: Numbers, down: Numbers) -> tuple[Numbers, Numbers]:
    """Return distances to the last whole number within, where everybody knows that values are whole numbers."""
    if not problem.integer:
        return up, down
    return np.floor(up + 1e-6), np.floor(down + 1e-6)
