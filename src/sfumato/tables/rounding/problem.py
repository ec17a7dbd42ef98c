"""Controlled rounding as a problem over whole numbers: bounds, costs and equations, and a start by local search."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.equations import Equations
from sfumato.tables.rounding.multiples import reach, split
from sfumato.tables.rounding.two_values import Choice
from sfumato.tables.rule import Sensitivity
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_SCALE = 1_000_000  # costs are whole numbers: a base is so many of them, unless the table has whole numbers itself
_TRIES = 40


@dataclass(frozen=True, eq=False)
class RoundingProblem:
    """Every cell becomes a whole number of bases; the table adds up, and no cell is far from its value.

    With K `steps` a cell may be K bases beyond the two multiples beside its value (beyond itself, for a multiple). Where
    protection is asked for, its published value must leave room for it: the reach of what a reader is sure of, above and below
    the value.
    """

    table: Table
    base: float
    equations: Equations
    sensitivity: Sensitivity | None = None

    @cached_property
    def floor(self) -> Whole:
        """How many bases are in each cell, shape (cells,)."""
        return split(self.table.value, self.base)[0].astype(np.int64)

    @cached_property
    def rest(self) -> Numbers:
        """What each cell is above that, shape (cells,)."""
        return split(self.table.value, self.base)[1]

    @cached_property
    def copies(self) -> Numbers:
        """How many cells each quantity stands for that is shown at all: a region with one sector is shown twice."""
        return np.bincount(self.equations.of_cell).astype(np.float64)

    @cached_property
    def up(self) -> Numbers:
        """What it costs a cell to go up rather than down, shape (cells,); 0 for a multiple."""
        return np.where(self.rest > 0, self.base - 2 * self.rest, 0.0)

    @property
    def scale(self) -> float:
        """How many units of cost, which are whole numbers for the solver, one unit of the variable is."""
        return 1.0 if self.table.integer else _SCALE / self.base

    def far(self, steps: int) -> float:
        """Return how far a reader must reckon the true value to be from the published one."""
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
        """Return how many steps are needed for these numbers of bases, shape (cells,)."""
        beyond = np.maximum(self.floor - times, times - self.floor - (self.rest > 0))
        return int(max(beyond.max(), 0))

    def distance(self, times: Whole) -> float:
        """Return Σ |published − true| over the cells."""
        return float(np.abs(times * self.base - self.table.value).sum())

    def above(self, times: Whole, bound: float) -> float:
        """Return how far the distance is above a bound of the solver, as a share of it; infinite where there is none."""
        cost = self.distance(times) * self.scale
        # costs of the solver are rounded to whole numbers, unless those of the table are whole themselves
        rounded = 0.0 if self.table.integer else 0.5 * len(self.table)
        if cost - bound <= rounded:
            return 0.0
        return (cost - bound) / bound if bound > 0 else np.inf

    def start(self, uniforms: Numbers, deadline: float = np.inf) -> Whole:
        """Return numbers of bases for the leaves that come near to what is wanted, shape (leaves,).

        Leaves go to one of the two multiples beside them. Cells that end up too far off count more and more, until there are
        none or patience ends.
        """
        floor, rest = split(self.table.totals, self.base)
        at = np.flatnonzero(rest > 0)
        incidence = self.table.cells.incidence
        shown = self.equations.cell[self.equations.cell >= 0]
        rows = sparse.csr_array(incidence[shown][:, at])
        choice = Choice(rows, -rest[at], self.base - rest[at], uniforms[at])
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
        # a leaf that no cell shows is bounded by the cells it is in, or by nothing if there may be negative ones
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
