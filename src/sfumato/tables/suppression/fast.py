"""Secondary suppression for tables of any size: elimination first, linear programs where that is not enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.suppression.checking import Check, check, short, whole
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.repair import Repair

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


class OutOfTime(Exception):  # noqa: N818
    """The time limit was reached before a safe pattern was found."""


@dataclass(frozen=True)
class Clock:
    """How long there is still to work."""

    ends: float = np.inf

    @property
    def over(self) -> bool:
        """Whether there is no time left."""
        return time.monotonic() > self.ends

    def look(self) -> None:
        """Stop if the time is over."""
        if self.over:
            raise OutOfTime


class Impossible(Exception):  # noqa: N818
    """A secret cannot move far enough, whatever is hidden; `target` is the quantity of the `problem`."""

    def __init__(self, problem: Problem, target: int) -> None:
        super().__init__("a secret cannot be protected")
        self.problem, self.target = problem, target


def first_pattern(problem: Problem) -> Flags:
    """Return a pattern in which no secret follows from what is shown by equations alone.

    Quantities are shown in the order of their cost, the dearest first, each unless a secret would then be a combination of
    what is shown: the method of Langsrud, Secondary cell suppression by Gaussian elimination (PSD 2024). Zeros and whatever
    else cannot move to both sides come before all, since they protect little.
    """
    from sfumato.kernels.elimination import rows_to_hide

    sure = np.flatnonzero(problem.fixed & ~problem.hidden)
    maybe = np.flatnonzero(~problem.fixed & ~problem.hidden)
    room = np.minimum(problem.value - problem.low, problem.high - problem.value)[maybe]
    maybe = maybe[np.lexsort((-problem.cost[maybe], room > 0))]
    rows = problem.rows
    hide = rows_to_hide(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.shape[1],
        np.concatenate([sure, maybe]), len(sure), problem.targets,
    )  # fmt: skip
    return problem.hidden | hide


class Mending:
    """Hides more where intervals are too short: the cheapest first, then everything near, further each time."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._repair = Repair(problem)
        self._wide = 16

    def mend(self, found: Check, clock: Clock) -> Check:
        """Return a pattern with more hidden, and how far secrets reach at least; refused where nothing more can be hidden."""
        problem, before = self.problem, int(found.hidden.sum())
        targets = problem.targets[found.failing]
        wider = self.widen(found, clock)
        if int(wider.hidden.sum()) == before:
            near = np.unique(np.concatenate([self._repair.around(int(t), self._wide) for t in targets]))
            wider.hidden[near[~problem.fixed[near]]] = True
            if int(wider.hidden.sum()) == before and self._wide >= len(problem):
                raise Impossible(problem, int(targets[0]))
            self._wide *= 4
        return wider

    def widen(self, found: Check, clock: Clock) -> Check:
        """Return a pattern with the cheapest further cells hidden that let secrets move, and how far they then reach."""
        problem = self.problem
        hidden, up, down = found.hidden.copy(), found.up.copy(), found.down.copy()
        targets = problem.targets[found.failing]
        need = np.maximum(problem.upper, np.maximum(problem.lower, problem.width))[targets]
        for place in found.failing[np.argsort(-need, kind="stable")]:
            clock.look()
            _widen(problem, self._repair, int(place), up, down, hidden)
        return replace(found, hidden=hidden, up=up, down=down)


def mend(problem: Problem, hidden: Flags, clock: Clock, sure: Check | None = None) -> Check:
    """Return a pattern with more hidden, in which every interval is as wide as it must be, and how far they reach."""
    mending = Mending(problem)
    found = check(problem, hidden, sure, solve=False)
    if not len(found.failing):
        return found
    # a way that a secret can move shows what to hide, or that nothing need be
    sure = mending.widen(found, clock)
    while True:
        clock.look()
        found = check(problem, sure.hidden, sure)
        if not len(found.failing):
            return found
        sure = mending.mend(found, clock)


def _widen(problem: Problem, repair: Repair, place: int, up: Numbers, down: Numbers, hidden: Flags) -> None:
    """Hide what lets one secret move far enough to both sides; note how far all secrets move on the way."""
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


def _note(problem: Problem, way: Numbers, up: Numbers, down: Numbers) -> None:
    """Take down how far every secret moved, and how far it would move the other way."""
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
