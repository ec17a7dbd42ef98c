"""Better roundings by slabs: all leaves under some labels are rounded again at once, while the others stay."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.dimension import TOTAL
from sfumato.tables.rounding.problem import RoundingProblem

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_LARGEST = 3000  # leaves that are rounded again at once
_LITTLE = 0.003  # a round that gains less of the distance than this is followed by one with more slabs at once
_AT_ONCE = 4  # slabs, at most: beyond that hardly any program has a whole solution


@dataclass(eq=False)
class Slabs:
    """A rounding, and the search for nearer ones by linear programs.

    With all but one slab of a three-dimensional table held fixed (the leaves of one region, say), what is left has two
    dimensions: the vertices of its linear program are whole numbers (Causey, Cox and Ernst 1985), so the program finds the best
    rounding of the slab among all. Two or three slabs together nearly always have a whole solution too; one that has not
    is passed over. Every step keeps all bounds, and none makes the distance larger.
    """

    problem: RoundingProblem
    leaves: Whole
    """How many bases each leaf has, shape (leaves,); it changes."""
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
        """The slabs of each dimension: the leaves of its labels; of two labels at a time where one has too many."""
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
        """Come nearer to the table until the distance is small enough, nothing helps, or the time is over."""
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
        """Round some leaves again, as well as can be."""
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
        except Infeasible:  # by a rounding error of the solver: what stands is a solution
            return
        if found is None or np.abs(found - np.rint(found)).max(initial=0.0) > 1e-6:
            return
        new = now.copy()
        new[free] = np.rint(found).astype(np.int64)
        if costs @ (new - now) < -1e-9 * self.problem.base:
            self.leaves[at] = new
            self._times[touched] = others + np.rint(rows @ new).astype(np.int64)

    def _straight(self, at: Whole) -> tuple[Whole, Whole, Numbers]:
        """Return between which numbers of bases the distance of cells is straight, around where they are, and its slope."""
        times, floor, top = self._times[at], self._floor[at], self._top[at]
        below, above = times < floor, times > top
        low = np.where(above, top, np.where(below, self._low[at], np.maximum(floor, self._low[at])))
        high = np.where(below, floor, np.where(above, self._high[at], np.minimum(top, self._high[at])))
        outer = self.problem.base * self.problem.copies[at]
        return low, high, np.where(below, -outer, np.where(above, outer, self._up[at]))


def _split(order: Whole, size: int) -> list[Whole]:
    return [order[i : i + size] for i in range(0, len(order), size)]
