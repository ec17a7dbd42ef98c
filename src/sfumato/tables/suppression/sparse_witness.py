"""The same proofs as `witness`, by sparse factorisation: for tables with many hidden leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.witness import Freedom, Pull, bounded_sums, directions, most_used, room_of

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_CHUNK = 256
_DENSE = 7_000
"""Up to so many hidden leaves dense linear algebra is used."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SparseFreedom:
    """The ways in which hidden leaves can move, as solutions of the equations between hidden quantities.

    The best way of a quantity within the ellipsoid minimises Σ (move / radius)² less twice its own move, under the equations:
    one factorisation of that system serves all quantities.
    """

    problem: Problem
    free: Whole
    """The leaves that move."""
    radius: Numbers
    """Shape (free,)."""
    shown: sparse.csr_array
    """What is shown, shape (shown, free)."""
    used: Whole
    """The quantities of the system."""
    unit: Numbers
    """Their units, shape (used,)."""
    solve: Any
    """Takes right-hand sides, shape (used, k), to solutions in these units, the first rows of what is returned.

    From a rough solution it makes a better one.
    """

    @classmethod
    def of(cls, problem: Problem, hidden: Flags) -> SparseFreedom:
        """Return the freedom that a pattern leaves."""
        from scipy.sparse.linalg import splu

        room, shown = room_of(problem, hidden)
        leaf = np.zeros(len(problem), bool)
        leaf[problem.alone] = True
        of_leaf = np.zeros(len(problem))
        of_leaf[problem.alone] = room
        used = np.flatnonzero(np.where(leaf, of_leaf > 0, hidden))
        unit = np.where(leaf[used], of_leaf[used], np.maximum(np.abs(problem.value[used]), 1e-9))
        sums = sparse.csr_array(problem.sums[:, used] @ sparse.diags_array(unit))
        sums = sparse.csr_array(sums[np.diff(sums.indptr) > 0])
        length = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        sums = sparse.csr_array(sparse.diags_array(1 / length) @ sums)
        weight = sparse.diags_array(np.where(leaf[used], 1.0, _ROUNDING))
        count = len(used)
        corner = sparse.csr_array((sums.shape[0], sums.shape[0]))
        above, below = sparse.hstack([sparse.csr_array(weight), sums.T]), sparse.hstack([sums, corner])
        whole = sparse.csc_array(sparse.vstack([above, below]))
        shift = np.concatenate([np.zeros(count), np.full(sums.shape[0], 1e-11)])  # equations may say the same
        factors = splu(
            sparse.csc_array(whole - sparse.diags_array(shift)), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.001,
            options={"SymmetricMode": True},
        )  # fmt: skip

        def solve(right: Numbers, rough: Numbers | None = None) -> Numbers:
            padded = np.concatenate([right, np.zeros((sums.shape[0], right.shape[1]))])
            return np.asarray(factors.solve(padded) if rough is None else rough + factors.solve(padded - whole @ rough))

        free = np.flatnonzero(room > 0)
        return cls(problem, free, room[free], sparse.csr_array(shown[:, free]), used, unit, solve)

    def _ways(self, quantities: Whole) -> Numbers:
        """Return the best ways of quantities, in units of the radius of each leaf; shape (free, quantities)."""
        place = self._place()
        at, moving = place[quantities], np.flatnonzero(place[quantities] >= 0)
        right = np.zeros((len(self.used), len(quantities)))
        right[at[moving], moving] = self.unit[at[moving]]
        return self._solved(right, place[self.problem.alone[self.free]])

    def _place(self) -> Whole:
        place = np.full(len(self.problem), -1, np.int64)
        place[self.used] = np.arange(len(self.used))
        return place

    def _solved(self, right: Numbers, leaves: Whole) -> Numbers:
        rough = self.solve(right)
        ways = rough[leaves]
        if len(wrong := np.flatnonzero(self._changes(ways))):
            ways[:, wrong] = self.solve(right[:, wrong], rough[:, wrong])[leaves]
            ways[:, self._changes(ways)] = 0.0  # what is shown would change: no proof
        return np.asarray(ways)

    def _changes(self, ways: Numbers) -> Flags:
        """Return which ways change what is shown by more than rounding."""
        moved = self.radius[:, None] * ways
        off = np.abs(self.shown @ moved).max(axis=0, initial=0.0)
        return np.asarray(off > _ROUNDING * np.abs(moved).sum(axis=0))

    def reach(
        self, quantities: Whole, hidden: Flags, along: None = None, enough: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall, shape (quantities,); see `Freedom.reach`."""
        parts = [quantities[i : i + _CHUNK] for i in range(0, len(quantities), _CHUNK)]
        found = [self._along(asked, self._ways(asked), hidden) for asked in parts]
        nothing = np.zeros(0)
        return np.concatenate([nothing, *(f[0] for f in found)]), np.concatenate([nothing, *(f[1] for f in found)])

    def _along(self, quantities: Whole, ways: Numbers, hidden: Flags) -> tuple[Numbers, Numbers]:
        """Return how far quantities rise and fall along ways of their own, shape (free, quantities)."""
        p, free = self.problem, self.free
        above, below = self.radius / (p.leaf_high - p.leaves)[free], self.radius / (p.leaves - p.leaf_low)[free]
        used = [np.maximum(most_used(s * ways, above), most_used(-s * ways, below)) for s in (1.0, -1.0)]
        bounded = bounded_sums(p, hidden)
        if len(bounded):
            sums = sparse.csr_array(p.rows[bounded][:, free]) @ (self.radius[:, None] * ways)
            with np.errstate(divide="ignore"):
                top, bottom = 1 / (p.high - p.value)[bounded], 1 / (p.value - p.low)[bounded]
            for i, s in enumerate((1.0, -1.0)):
                used[i] = np.maximum(used[i], np.maximum(most_used(s * sums, top), most_used(-s * sums, bottom)))
        rows = sparse.csr_array(p.rows[quantities][:, free])
        at = np.repeat(np.arange(len(quantities)), np.diff(rows.indptr))
        moved = np.bincount(at, self.radius[rows.indices] * ways[rows.indices, at], len(quantities))
        with np.errstate(divide="ignore", invalid="ignore"):
            up, down = (np.where(moved > 1e-9 * np.abs(p.value[quantities]), moved / u, 0.0) for u in used)
        return up, down

    def pull(self, quantities: Whole, leaves: Whole) -> Pull:
        """Return what ties quantities to leaves."""
        gain, longest = np.zeros(len(quantities)), np.zeros(len(quantities))
        dots = np.zeros((len(quantities), len(leaves)))
        rows = sparse.csr_array(self.problem.rows[quantities][:, self.free]) @ sparse.diags_array(self.radius)
        for first in range(0, len(quantities), _CHUNK):
            part = slice(first, first + _CHUNK)
            ways = self._ways(quantities[part])
            gain[part] = (ways**2).sum(axis=0)
            longest[part] = np.abs(ways).max(axis=0)
            dots[part] = ways[leaves].T
        at, given = self._place()[self.problem.alone[self.free]], directions(len(self.free))
        right = np.zeros((len(self.used), given.shape[1]))
        right[at] = given
        others = self._solved(right, at)
        return Pull(gain, longest, dots, others, rows @ others)

    def reach_apart(self, asked: list[tuple[Whole, Whole]], hidden: Flags) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall while some leaves stand still; see `Freedom.reach_apart`."""
        found, first = [(np.zeros(0), np.zeros(0))], 0
        while first < len(asked):
            last, columns = first, 0
            while last < len(asked) and (last == first or columns < _CHUNK):
                columns += sum(map(len, asked[last]))
                last += 1
            found.append(self._apart(asked[first:last], hidden))
            first = last
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def _apart(self, asked: list[tuple[Whole, Whole]], hidden: Flags) -> tuple[Numbers, Numbers]:
        quantities, leaves = (np.concatenate(part) for part in zip(*asked, strict=True))
        which, place = np.unique(
            np.concatenate([quantities, self.problem.alone[self.free[leaves]]]), return_inverse=True
        )
        solved, place = self._ways(which), place.ravel()
        ways, columns = solved[:, place[: len(quantities)]], solved[:, place[len(quantities) :]] / self.radius[leaves]
        q = at = 0
        for mine, known in asked:
            part, pull = slice(q, q + len(mine)), columns[:, at : at + len(known)]
            inverse = np.linalg.pinv(pull[known], rcond=1e-10, hermitian=True)
            ways[:, part] -= pull @ (inverse @ ways[known, part])
            ways[known, part] = 0.0
            q, at = q + len(mine), at + len(known)
        return self._along(quantities, ways, hidden)


def freedom_of(problem: Problem, hidden: Flags) -> Freedom | SparseFreedom:
    """Return the freedom that a pattern leaves, in the form that suits its size."""
    room, _ = room_of(problem, hidden)
    return Freedom.of(problem, hidden) if int((room > 0).sum()) <= _DENSE else SparseFreedom.of(problem, hidden)
