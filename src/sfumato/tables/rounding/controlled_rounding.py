"""Controlled rounding: all cells become multiples of the base, near their values, and the table adds up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, ParameterError, SfumatoError, listing, some
from sfumato.tables.equations import Equations
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable
from sfumato.tables.rounding import child
from sfumato.tables.rounding.cell_ids import leaf_numbers
from sfumato.tables.rounding.multiples import check_base, rounded
from sfumato.tables.rounding.problem import RoundingProblem
from sfumato.tables.rounding.slabs import Slabs
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import rules_of
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_REPAIRS = 5
_LEAST_TIME = 0.5  # seconds without which there is no use in starting the solver
_SOLVER_SHARE = 0.6


class ControlledRounding(Protection):
    """Every cell, margins included, becomes a multiple of the base, and the table still adds up.

    Zero-restricted: a cell goes to one of the two multiples beside its value, and a multiple stays. Among all such tables the
    one nearest to the original is taken: Σ |published − true| over the cells is smallest. A table of two dimensions always has
    one; with more, or with linked tables, there may be none. `steps` allows cells to be so many bases further away if so; the
    fewest steps that work are used.

    With `rules`, what an attacker works out of an unsafe cell, by all published cells and arithmetic, reaches its protection
    levels: a linear program for each of them says so, or the rounding is refused.

    Cox, A constructive procedure for unbiased controlled rounding, JASA 82 (1987); Salazar-González, Controlled rounding and
    cell perturbation, Mathematical Programming 105 (2006).
    """

    base: float = param(default=5, doc="values become multiples of this", low=0, above=True, scale="log", usual=(3, 25))
    steps: int = param(
        default=0,
        doc="how many bases further than the nearest two multiples a cell may be moved, if it must",
        low=0,
        integer=True,
    )
    rules: SensitivityRule | None = param(default=None, doc="rules that say which cells need how much protection")
    gap: float = param(
        default=0.01,
        doc="how far above the smallest possible distance a large table's may be",
        low=0,
        high=1,
        published=False,
    )
    time_limit: float = param(
        default=60, doc="seconds after which the best rounding found so far is taken", low=1, scale="log"
    )

    def validate(self) -> None:
        """Make one rule of several, or of a text."""
        if self.rules is not None:
            object.__setattr__(self, "rules", rules_of(self.rules))

    def label(self) -> str:
        """Return the method in a few words."""
        return f"controlled rounding to {self.base:g}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the rounded table."""
        check_base(self.base, table, self.name)
        deadline = time.monotonic() + self.time_limit
        sensitivity = None if self.rules is None else self.rules.assess(table)
        equations = Equations.of(table.cells)
        search = _Search(table, equations, sensitivity, draws.child(self.name, table.variable), self.gap, deadline)
        found = search.run(self.base, self.steps)
        if isinstance(found, _None):
            raise search.refusal(found, self.base, self.steps)
        return self._published(table, found, sensitivity)

    def _published(self, table: Table, found: _Found, sensitivity: Sensitivity | None) -> PublishedTable:
        base = f"{self.base:g}" if found.steps == 0 else f"{found.steps + 1} times {self.base:g}"
        how = "the least there is" if found.gap <= 0 else f"at most {100 * found.gap:.2g} % above the least there is"
        said = [
            Guarantee(
                self.name, f"every cell is a multiple of {self.base:g}, and all cells add up", "every equation checked"
            ),
            Guarantee(self.name, f"every cell is less than {base} from its value", "every cell compared"),
            Guarantee(self.name, f"the total distance to the original is {how}", "by the bound of the solver"),
        ]
        if not np.isfinite(found.gap):
            said[-1] = Guarantee(
                self.name, "the rounding is the nearest found within the time limit", "by local search"
            )
        if sensitivity is not None:
            said.append(Guarantee(
                self.name, f"all {some(int(sensitivity.unsafe.sum()), 'unsafe cell')} keep their protection levels",
                "two linear programs for each of them, over all published cells",
            ))  # fmt: skip
        return rounded(table, found.times.astype(np.float64), self.base, found.far, self, *said)


@dataclass(frozen=True, eq=False)
class _Found:
    times: Whole
    steps: int
    far: float
    gap: float


@dataclass(frozen=True, eq=False)
class _None:
    proved: bool
    """Whether it is proved that there is none, rather than that none was found in time."""
    cells: Whole
    """Cells that stand in the way, where they are known."""
    protection: bool = False
    """Whether it is the protection of these cells that fails."""


@dataclass(frozen=True, eq=False)
class _Search:
    table: Table
    equations: Equations
    sensitivity: Sensitivity | None
    draws: Draws
    gap: float
    deadline: float

    def start(self, problem: RoundingProblem) -> Whole:
        """Return leaves that come near to what is wanted, by local search."""
        return problem.start(self.draws.uniforms(leaf_numbers(self.table.cells), "order"), self.deadline)

    def run(self, base: float, steps: int) -> _Found | _None:
        """Return a rounding with as few steps as it takes, at most so many."""
        problem = RoundingProblem(self.table, base, self.equations, self.sensitivity)
        start = self.start(problem)
        last: _None = _None(True, np.empty(0, np.int64))
        for k in range(steps + 1):
            share = 1.0 if k == steps else 0.5
            found = self.at(problem, k, start, share)
            if isinstance(found, _Found):
                return found
            last = _None(last.proved and found.proved, found.cells, found.protection)
        return last

    def at(self, problem: RoundingProblem, steps: int, start: Whole, share: float) -> _Found | _None:
        """Return a rounding with so many steps, whose protection an attacker's arithmetic does not undo."""
        low, high = problem.bounds(steps)
        cut = False
        for _ in range(_REPAIRS):
            if (low > high).any():
                return _None(not cut, np.flatnonzero(low > high), protection=True)
            answer, times = self._nearest(problem, start, low, high, share)
            if times is None:
                return _None(answer.status == child.INFEASIBLE and not cut, np.empty(0, np.int64), cut)
            short = self._short(problem, times, steps)
            if not len(short):
                return _Found(times, steps, problem.far(steps), problem.above(times, answer.bound))
            # the other multiple, where there is one, may leave the attacker less
            at_low = times[short] == low[short]
            low[short] += at_low
            high[short] -= ~at_low
            cut = True
        return _None(False, short, protection=True)

    def _nearest(
        self, problem: RoundingProblem, start: Whole, low: Whole, high: Whole, share: float
    ) -> tuple[child.Answer, Whole | None]:
        """Return what the solver says, and the nearest cells that it, the start or slabs give; checked once more."""
        settled = self._times(start, low, high) is not None
        answer, limit = child.Answer(child.UNKNOWN, None), (self.deadline - time.monotonic()) * share
        if limit > _LEAST_TIME:
            # if there is something to publish already, some of the time is kept for coming nearer
            limit *= _SOLVER_SHARE if settled else 1.0
            answer = child.solve(problem.arrays((low, high), start), limit, self.gap, settled)
        if answer.status == child.INFEASIBLE:
            return answer, None
        both = (start, None if answer.quantities is None else answer.quantities[self.equations.of_leaf])
        found = [
            (leaves, t) for leaves in both if leaves is not None and (t := self._times(leaves, low, high)) is not None
        ]
        if not found:
            return answer, None
        leaves, times = min(found, key=lambda pair: problem.distance(pair[1]))
        if problem.above(times, answer.bound) > self.gap:
            slabs = Slabs(problem, leaves, low, high)
            enough = answer.bound / problem.scale * (1 + self.gap) if np.isfinite(answer.bound) else 0.0
            slabs.improve(enough, self.draws.generator("slabs"), self.deadline)
            nearer = self._times(slabs.leaves, low, high)
            times = times if nearer is None else nearer
        return answer, times

    def _times(self, leaves: Whole, low: Whole, high: Whole) -> Whole | None:
        """Return the cells of these leaves, where they are within their bounds."""
        times = np.rint(self.table.cells.sums(leaves.astype(np.float64))).astype(np.int64)
        return times if ((times >= low) & (times <= high)).all() else None

    def _short(self, problem: RoundingProblem, times: Whole, steps: int) -> Whole:
        """Return the unsafe cells for which the attacker's interval is not wide enough."""
        from sfumato.tables.attacker import Attacker

        s = self.sensitivity
        if s is None or not s.unsafe.any():
            return np.empty(0, np.int64)
        unsafe = np.flatnonzero(s.unsafe)
        far, values = problem.far(steps), times.astype(np.float64) * problem.base
        least = 0.0 if self.table.nonnegative else -np.inf
        low, high = Attacker(
            self.table.cells, np.maximum(values - far, least), values + far, least, near=self.table.totals
        ).intervals(unsafe)
        close = 1e-7 * np.maximum(np.abs(self.table.value[unsafe]), problem.base)
        true = self.table.value[unsafe]
        enough = (
            (high >= true + s.upper[unsafe] - close)
            & (low <= true - s.lower[unsafe] + close)
            & (high - low >= s.width[unsafe] - close)
        )
        return unsafe[~enough]

    def refusal(self, why: _None, base: float, steps: int) -> SfumatoError:
        """Return the error that says what is in the way, and the smallest relaxation that works."""
        names = self.table.cells.name
        if why.protection:
            first = (
                f"rounding to {base:g} does not protect {listing((names(int(c)) for c in why.cells), 5)} enough."
                if len(why.cells)
                else (f"no rounding to {base:g} was found that protects all unsafe cells enough.")
            )
            for larger in self._larger(base, steps):
                if time.monotonic() > self.deadline:
                    break
                low, high = RoundingProblem(self.table, larger, self.equations, self.sensitivity).bounds(steps)
                if (low <= high).all() and isinstance(self.run(larger, steps), _Found):
                    return ParameterError(f"{first} A base of {larger:g} works.")
            return ParameterError(f"{first} Try a larger base, or suppression.")
        near = f"less than {base:g}" if steps == 0 else f"less than {steps + 1} times {base:g}"
        exists = (
            "there is no additive rounding" if why.proved else "no additive rounding was found within the time limit"
        )
        problem = RoundingProblem(self.table, base, self.equations, self.sensitivity)
        start = self.start(problem)
        for k in range(steps + 1, max(problem.steps_of(_cells(problem, start)), steps + 1) + 1):
            found = self.at(problem, k, start, 1.0)
            if isinstance(found, _Found):
                beyond = np.abs(found.times * base - self.table.value) >= (steps + 1) * base - 1e-9 * base
                least = "The smallest relaxation that works is" if why.proved else "What works is"
                return DataError(
                    f"{exists} with every cell {near} from its value. {least} steps={k}: "
                    f"{some(int(beyond.sum()), 'cell')} then move{'s' if beyond.sum() == 1 else ''} further: "
                    f"{listing((names(int(c)) for c in np.flatnonzero(beyond)), 5)}."
                )
        return DataError(f"{exists} with every cell {near} from its value. Allow more steps, or more time.")

    def _larger(self, base: float, steps: int) -> Iterator[float]:
        """Yield larger bases: from the first that could protect every cell, in steps of its first digit, later of a percent."""
        s, each = self.sensitivity, 1.0 if self.table.integer else 10.0 ** np.floor(np.log10(base) - 1e-3)
        # an interval of 2 (steps + 1) bases must hold both levels of a cell
        needed = 0.0 if s is None else float(np.maximum(s.upper + s.lower, s.width).max()) / (2 * (steps + 1))
        larger = base + each * max(np.ceil((needed - base) / each), 1.0)
        for _ in range(500):
            yield larger
            larger += each * max(np.floor(0.01 * larger / each), 1.0)


def _cells(problem: RoundingProblem, leaves: Whole) -> Whole:
    return np.rint(problem.table.cells.sums(leaves.astype(np.float64))).astype(np.int64)
