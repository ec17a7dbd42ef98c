"""Controlled rounding: all cells become multiples of the base, near their values, and the table adds up."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, ParameterError, SfumatoError, join_names, missing_extra, plural
from sfumato.tables import cp_sat
from sfumato.tables.cells import TOTAL
from sfumato.tables.linear_program import Equations
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rounding import TwoValueChoice, check_base, leaf_numbers, reach, rounded, split
from sfumato.tables.rules import rules_of
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.table import Table
from sfumato.typing import Numbers, Whole

_SCALE = 1_000_000  # costs are whole numbers: a base is this many of them, unless the table has whole numbers itself
_TRIES = 40


@dataclass(frozen=True, eq=False)
class RoundingProblem:
    """Every cell becomes a whole number of bases; the table adds up, and no cell is far from its value.

    With K `steps` a cell may be K bases beyond the two multiples beside its value (beyond itself, for a multiple). Where
    protection is required, the published value must leave room for it: the reader's certain interval must reach the levels
    above and below the value.
    """

    table: Table
    base: float
    equations: Equations
    sensitivity: Sensitivity | None = None

    @cached_property
    def floor(self) -> Whole:
        """Number of whole bases in each cell, shape (cells,)."""
        return split(self.table.value, self.base)[0].astype(np.int64)

    @cached_property
    def rest(self) -> Numbers:
        """Remainder of each cell, shape (cells,)."""
        return split(self.table.value, self.base)[1]

    @cached_property
    def copies(self) -> Numbers:
        """Number of published cells that each quantity represents: a region with one sector is published twice."""
        return np.bincount(self.equations.of_cell).astype(np.float64)

    @cached_property
    def up(self) -> Numbers:
        """Cost for a cell of going up rather than down, shape (cells,); 0 for a multiple."""
        return np.where(self.rest > 0, self.base - 2 * self.rest, 0.0)

    @property
    def scale(self) -> float:
        """Units of cost, which are whole numbers for the solver, per unit of the variable."""
        return 1.0 if self.table.integer else _SCALE / self.base

    def far(self, steps: int) -> float:
        """Return the largest possible distance of the true value from the published one, for a reader."""
        return reach((steps + 1) * self.base, self.table.integer)

    def bounds(self, steps: int) -> tuple[Whole, Whole]:
        """Return the smallest and largest number of bases for each cell, shape (cells,); none where low is above high."""
        low = self.floor - steps
        high = self.floor + (self.rest > 0) + steps
        if self.table.nonnegative:
            low = np.maximum(low, 0)
        if self.sensitivity is not None:
            s, far, unsafe = self.sensitivity, self.far(steps), self.sensitivity.unsafe
            close = 1e-9 * self.base
            above = np.ceil((self.table.value + s.upper - far - close) / self.base)
            below = np.floor((self.table.value - s.lower + far + close) / self.base)
            low = np.where(unsafe, np.maximum(low, above), low)
            high = np.where(unsafe, np.minimum(high, below), high)
        return low.astype(np.int64), high.astype(np.int64)

    def steps_of(self, times: Whole) -> int:
        """Return the number of steps needed for these numbers of bases, shape (cells,)."""
        beyond = np.maximum(self.floor - times, times - self.floor - (self.rest > 0))
        return int(max(beyond.max(), 0))

    def distance(self, times: Whole) -> float:
        """Return Σ |published − true| over the cells."""
        return float(np.abs(times * self.base - self.table.value).sum())

    def above(self, times: Whole, bound: float) -> float:
        """Return how far the distance is above a bound of the solver, as a share of it; infinite where there is none."""
        cost = self.distance(times) * self.scale
        # the solver's costs are rounded to whole numbers, unless those of the table are whole themselves
        rounded = 0.0 if self.table.integer else 0.5 * len(self.table)
        if cost - bound <= rounded:
            return 0.0
        return (cost - bound) / bound if bound > 0 else np.inf

    def start(self, uniforms: Numbers, deadline: float = np.inf) -> Whole:
        """Return numbers of bases for the leaves that nearly meet the bounds, shape (leaves,).

        Leaves go to one of the two multiples beside them. Cells that are too far off get more and more weight, until there are
        none or the number of tries is used up.
        """
        floor, rest = split(self.table.totals, self.base)
        at = np.flatnonzero(rest > 0)
        incidence = self.table.cells.incidence
        shown = self.equations.cell[self.equations.cell >= 0]
        rows = sparse.csr_array(incidence[shown][:, at])
        choice = TwoValueChoice(rows, -rest[at], self.base - rest[at], uniforms[at])
        choice.change(choice.nearest)
        value, weight = self.table.value[shown], self.copies.copy()
        low, high = (b[shown] for b in self.bounds(0))
        best, fewest = choice.up, np.inf
        for _ in range(_TRIES):
            choice.improve(weight)
            times = np.rint((value + choice.error) / self.base)
            off = np.maximum(low - times, times - high)
            score = float(off.max() * len(off) + (off > 0).sum()) if (off > 0).any() else 0.0
            if score < fewest:
                best, fewest = choice.up.copy(), score
            if score == 0 or time.monotonic() > deadline:
                break
            weight[off > 0] += self.copies[off > 0]
        if fewest > 0:
            choice.change(best)
        steps = 0 if fewest == 0 else max(int((fewest - 1) // len(shown)), 1)
        low, high = (b[shown] for b in self.bounds(steps))
        limits = np.stack([low * self.base - value, high * self.base - value])
        choice.improve(np.zeros(len(shown)), self.copies, limits)
        best = choice.up
        leaves = floor.astype(np.int64)
        leaves[at] += best
        return leaves

    def arrays(self, bounds: tuple[Whole, Whole], start: Whole) -> dict[str, NDArray[Any]]:
        """Return the problem for the solver, with a start given by the leaves; see `cp_sat.solve`."""
        e = self.equations
        shown, count = e.cell >= 0, len(e.cell)
        scale = self.scale
        hint = np.empty(count, np.int64)
        hint[e.of_leaf] = start
        hint[e.of_cell] = np.rint(self.table.cells.sums(start.astype(np.float64))).astype(np.int64)
        widest = int(max(np.abs(bounds[0]).max(), np.abs(bounds[1]).max()))
        # a leaf that is no cell is bounded by the cells that contain it, or by nothing if values may be negative
        lower = np.full(count, 0 if self.table.nonnegative else -(10 * widest + 100), np.int64)
        upper = np.full(count, widest if self.table.nonnegative else 10 * widest + 100, np.int64)
        floor, room, up = (np.zeros(count, np.int64) for _ in range(3))
        cell = e.cell[shown]
        rest = self.rest[cell]
        lower[shown], upper[shown] = bounds[0][cell], bounds[1][cell]
        floor[shown], room[shown] = self.floor[cell], rest > 0
        up[shown] = np.rint(self.up[cell] * scale) * self.copies
        outer = np.full(count, round(self.base * scale), np.int64)
        outer[shown] *= self.copies.astype(np.int64)
        return {
            "floor": floor, "room": room, "lower": lower, "upper": upper, "up": up, "hint": hint, "free": ~shown,
            "outer": outer, "constant": np.array([int((np.rint(rest * scale) * self.copies).sum())]),
            "starts": e.sums.indptr.astype(np.int64), "columns": e.sums.indices.astype(np.int64),
            "signs": e.sums.data.astype(np.int64),
        }  # fmt: skip


_LARGEST = 3000  # leaves that are rounded again at once
_LITTLE = 0.003  # a round that gains less than this share of the distance is followed by one with more slabs at once
_AT_ONCE = 4  # slabs, at most: beyond that hardly any program has a whole solution


@dataclass(eq=False)
class Slabs:
    """A rounding, and the search for nearer ones by linear programs.

    With all but one slab of a three-dimensional table held fixed (the leaves of one region, say), the rest has two dimensions:
    the vertices of its linear program are whole numbers (Causey, Cox and Ernst 1985), so the program finds the best rounding of
    the slab. Two or three slabs together nearly always have a whole solution too; others are skipped. Every step keeps all
    bounds, and none increases the distance.
    """

    problem: RoundingProblem
    leaves: Whole
    """Number of bases of each leaf, shape (leaves,); updated in place."""
    low: Whole
    """The smallest number of bases of each cell, shape (cells,)."""
    high: Whole

    def __post_init__(self) -> None:
        shown = self.problem.equations.cell[self.problem.equations.cell >= 0]
        self._rows = sparse.csr_array(self.problem.table.cells.incidence[shown])
        self._by_leaf = sparse.csc_array(self._rows)
        self._low, self._high = self.low[shown], self.high[shown]
        self._floor = self.problem.floor[shown]
        self._top = self._floor + (self.problem.rest[shown] > 0)
        self._up = self.problem.up[shown] * self.problem.copies
        self.leaves = self.leaves.copy()
        self._times = np.rint(self._rows @ self.leaves).astype(np.int64)

    @cached_property
    def groups(self) -> list[list[Whole]]:
        """The slabs of each dimension: the leaves of each label, or of each pair of labels where one has too many leaves."""
        cells = self.problem.table.cells
        broken = cells.labels != TOTAL
        for labels in range(1, len(cells.dimensions) + 1):
            at = np.flatnonzero((broken.sum(axis=1) == labels) & (cells.sizes > 1))
            if not len(at) or np.median(cells.sizes[at]) > _LARGEST:
                continue
            at = at[cells.sizes[at] <= _LARGEST]
            at = np.array(sorted(at.tolist(), key=lambda i: tuple(cells.labels[i])), np.int64)
            _, kind = np.unique(broken[at], axis=0, return_inverse=True)
            starts, indices = cells.incidence.indptr, cells.incidence.indices
            return [
                [indices[starts[i] : starts[i + 1]].astype(np.int64) for i in at[kind.ravel() == k]]
                for k in range(kind.max() + 1)
            ]
        return []

    def improve(self, enough: float, order: np.random.Generator, deadline: float) -> None:
        """Reduce the distance until it is small enough, nothing helps, or the time is over."""
        together = 1
        while together <= _AT_ONCE and self.groups:
            before = self._distance()
            picks = [
                [group[j] for j in some]
                for group in self.groups
                for some in _split(order.permutation(len(group)), together)
            ]
            for i in order.permutation(len(picks)):
                if time.monotonic() > deadline:
                    return
                at = np.unique(np.concatenate(picks[i]))
                if len(at) <= _LARGEST:
                    self._again(at)
            now = self._distance()
            if now <= enough:
                return
            together += before - now < _LITTLE * before

    def _distance(self) -> float:
        shown = self.problem.equations.cell[self.problem.equations.cell >= 0]
        off = np.abs(self._times * self.problem.base - self.problem.table.value[shown])
        return float((off * self.problem.copies).sum())

    def _again(self, at: Whole) -> None:
        """Round some leaves again, optimally."""
        from sfumato.tables.linear_program import Infeasible, LinearProgram

        touched = np.unique(self._by_leaf[:, at].indices).astype(np.int64)
        rows = sparse.csr_array(self._rows[touched][:, at])
        now, times = self.leaves[at], self._times[touched]
        low, high, slope = self._straight(touched)
        others = times - np.rint(rows @ now).astype(np.int64)
        low, high = low - others, high - others
        alone = np.diff(rows.indptr) == 1
        least = np.full(len(at), 0.0 if self.problem.table.nonnegative else -np.inf)
        most = np.full(len(at), np.inf)
        np.maximum.at(least, rows[alone].indices, low[alone])
        np.minimum.at(most, rows[alone].indices, high[alone])
        costs = np.asarray(rows.T @ slope)
        free = np.flatnonzero(least < most)
        if not len(free):
            return
        fixed = np.where(least < most, 0, now)
        shared = sparse.csr_array(rows[~alone])
        part = sparse.csr_array(shared[:, free])
        held = np.rint(shared @ fixed)
        try:
            _, found = LinearProgram(
                part, low[~alone] - held, high[~alone] - held, least[free], most[free]
            ).smallest(np.arange(len(free)), costs[free])  # fmt: skip
        except Infeasible:  # by a rounding error of the solver: the current leaves are a solution
            return
        if found is None or np.abs(found - np.rint(found)).max(initial=0.0) > 1e-6:
            return
        new = now.copy()
        new[free] = np.rint(found).astype(np.int64)
        if costs @ (new - now) < -1e-9 * self.problem.base:
            self.leaves[at] = new
            self._times[touched] = others + np.rint(rows @ new).astype(np.int64)

    def _straight(self, at: Whole) -> tuple[Whole, Whole, Numbers]:
        """Return the range of bases in which the distance of cells is linear, around their current value, and its slope."""
        times, floor, top = self._times[at], self._floor[at], self._top[at]
        below, above = times < floor, times > top
        low = np.where(above, top, np.where(below, self._low[at], np.maximum(floor, self._low[at])))
        high = np.where(below, floor, np.where(above, self._high[at], np.minimum(top, self._high[at])))
        outer = self.problem.base * self.problem.copies[at]
        return low, high, np.where(below, -outer, np.where(above, outer, self._up[at]))


def _split(order: Whole, size: int) -> list[Whole]:
    return [order[i : i + size] for i in range(0, len(order), size)]


OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN = range(4)


@dataclass(frozen=True, eq=False)
class SolverResult:
    """The solver's result: a status (OPTIMAL to UNKNOWN), the quantities if there are any, and a bound of all costs."""

    status: int
    quantities: Whole | None
    bound: float = np.nan


def solve(problem: dict[str, NDArray[Any]], limit: float, gap: float, settled: bool = False) -> SolverResult:
    """Return the answer to a problem of `cp_sat.solve` within `limit` seconds, including the start of Python.

    The child is killed if it takes longer, and whenever this call ends early, by Ctrl-C for instance.
    """
    packed = io.BytesIO()
    started, until = time.monotonic(), time.time() + limit
    np.savez(
        packed, allow_pickle=False, **problem, limit=np.array([limit]), gap=np.array([gap]), until=np.array([until]),
        settled=np.array([settled]),
    )  # fmt: skip
    # -P: files beside the script must not be imported as modules
    command = [sys.executable, "-P", str(Path(cp_sat.__file__))]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        try:
            out, _ = child.communicate(packed.getvalue(), timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            return SolverResult(UNKNOWN, None)
        except BaseException:
            child.kill()
            raise
    if child.returncode == cp_sat.MISSING:
        raise missing_extra("ortools", "rounding", "controlled rounding")
    if child.returncode:
        took = time.monotonic() - started
        raise SfumatoError(
            f"the solver of controlled rounding stopped after {took:.0f} seconds without an answer (code {child.returncode}). "
            "It may have run out of memory: try a table with fewer cells."
        )
    with np.load(io.BytesIO(out), allow_pickle=False) as found:
        status = int(found["status"])
        some = found["quantities"] if status in (OPTIMAL, FEASIBLE) else None
        return SolverResult(status, some, float(found["bound"]))


_REPAIRS = 5
_LEAST_TIME = 0.5  # seconds below which starting the solver is useless
_SOLVER_SHARE = 0.6


class ControlledRounding(Protection):
    """Every cell, margins included, becomes a multiple of the base, and the table still adds up.

    Zero-restricted: a cell goes to one of the two multiples beside its value, and a multiple stays. Among all such tables the
    one nearest to the original is taken: Σ |published − true| over the cells is smallest. A table of two dimensions always has
    one; with more, or with linked tables, there may be none. `steps` then allows cells to be this many bases further away; the
    fewest steps that work are used.

    With `rules`, the attacker's interval of an unsafe cell, from all published cells, reaches its protection levels: linear
    programs verify this for each unsafe cell, or the rounding is refused.

    Cox, A constructive procedure for unbiased controlled rounding, JASA 82 (1987); Salazar-González, Controlled rounding and
    cell perturbation, Mathematical Programming 105 (2006).
    """

    title: ClassVar[str] = "controlled rounding to {self.base:g}"

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

    @override
    def validate(self) -> None:
        if self.rules is not None:
            object.__setattr__(self, "rules", rules_of(self.rules))

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the rounded table."""
        check_base(self.base, table, self.name)
        deadline = time.monotonic() + self.time_limit
        sensitivity = None if self.rules is None else self.rules.assess(table)
        equations = Equations.of(table.cells)
        search = _RoundingSearch(
            table, equations, sensitivity, draws.child(self.name, table.variable), self.gap, deadline
        )
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
                self.name, f"all {plural(int(sensitivity.unsafe.sum()), 'unsafe cell')} keep their protection levels",
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
    """Whether it is proved that there is none, rather than none found in time."""
    cells: Whole
    """Cells that prevent a solution, if known."""
    protection: bool = False
    """Whether the protection of these cells fails."""


@dataclass(frozen=True, eq=False)
class _RoundingSearch:
    table: Table
    equations: Equations
    sensitivity: Sensitivity | None
    draws: Draws
    gap: float
    deadline: float

    def start(self, problem: RoundingProblem) -> Whole:
        """Return leaves that nearly meet the bounds, by local search."""
        return problem.start(self.draws.uniforms(leaf_numbers(self.table.cells), "order"), self.deadline)

    def run(self, base: float, steps: int) -> _Found | _None:
        """Return a rounding with as few steps as possible, at most `steps`."""
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
        """Return a rounding with `steps` steps, whose protection an attacker's arithmetic does not undo."""
        low, high = problem.bounds(steps)
        cut = False
        for _ in range(_REPAIRS):
            if (low > high).any():
                return _None(not cut, np.flatnonzero(low > high), protection=True)
            answer, times = self._nearest(problem, start, low, high, share)
            if times is None:
                return _None(answer.status == INFEASIBLE and not cut, np.empty(0, np.int64), cut)
            short = self._short(problem, times, steps)
            if not len(short):
                return _Found(times, steps, problem.far(steps), problem.above(times, answer.bound))
            # the other multiple, where there is one, may give the attacker less
            at_low = times[short] == low[short]
            low[short] += at_low
            high[short] -= ~at_low
            cut = True
        return _None(False, short, protection=True)

    def _nearest(
        self, problem: RoundingProblem, start: Whole, low: Whole, high: Whole, share: float
    ) -> tuple[SolverResult, Whole | None]:
        """Return the solver's result, and the nearest cells from it, the start or slabs; checked once more."""
        settled = self._times(start, low, high) is not None
        answer, limit = SolverResult(UNKNOWN, None), (self.deadline - time.monotonic()) * share
        if limit > _LEAST_TIME:
            # if there is a solution already, some of the time is reserved for improving it
            limit *= _SOLVER_SHARE if settled else 1.0
            answer = solve(problem.arrays((low, high), start), limit, self.gap, settled)
        if answer.status == INFEASIBLE:
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
        times = self._cells(leaves)
        return times if ((times >= low) & (times <= high)).all() else None

    def _cells(self, leaves: Whole) -> Whole:
        return np.rint(self.table.cells.sums(leaves.astype(np.float64))).astype(np.int64)

    def _short(self, problem: RoundingProblem, times: Whole, steps: int) -> Whole:
        """Return the unsafe cells whose attacker's interval is not wide enough."""
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
        true = self.table.value[unsafe]
        close = 1e-7 * np.maximum(np.abs(true), problem.base)
        return unsafe[~s.reached(low, high, true, close, unsafe)]

    def refusal(self, why: _None, base: float, steps: int) -> SfumatoError:
        """Return the error that names what prevents a solution, and the smallest relaxation that works."""
        names = self.table.cells.name
        if why.protection:
            first = (
                f"rounding to {base:g} does not protect {join_names((names(int(c)) for c in why.cells), 5)} enough."
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
        for k in range(steps + 1, max(problem.steps_of(self._cells(start)), steps + 1) + 1):
            found = self.at(problem, k, start, 1.0)
            if isinstance(found, _Found):
                beyond = np.abs(found.times * base - self.table.value) >= (steps + 1) * base - 1e-9 * base
                least = "The smallest relaxation that works is" if why.proved else "What works is"
                return DataError(
                    f"{exists} with every cell {near} from its value. {least} steps={k}: "
                    f"{plural(int(beyond.sum()), 'cell')} then move{'s' if beyond.sum() == 1 else ''} further: "
                    f"{join_names((names(int(c)) for c in np.flatnonzero(beyond)), 5)}."
                )
        return DataError(f"{exists} with every cell {near} from its value. Allow more steps, or more time.")

    def _larger(self, base: float, steps: int) -> Iterator[float]:
        """Yield larger bases: from the first that could protect every cell, in steps of its first digit, later of a percent."""
        s, each = self.sensitivity, 1.0 if self.table.integer else 10.0 ** np.floor(np.log10(base) - 1e-3)
        # an interval of 2 (steps + 1) bases must contain both levels of a cell
        needed = 0.0 if s is None else float(np.maximum(s.upper + s.lower, s.width).max()) / (2 * (steps + 1))
        larger = base + each * max(np.ceil((needed - base) / each), 1.0)
        for _ in range(500):
            yield larger
            larger += each * max(np.floor(0.01 * larger / each), 1.0)
