"""The audit of a pattern: tables that could be the true one as well, or two linear programs for each secret."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.typing import Flags, Numbers, Whole

_CHUNK = 512
_PRIMES = np.array([2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89])


@dataclass(frozen=True, eq=False)
class Pull:
    """How quantities and leaves move together, along the best direction of each quantity; leaves in units of their radius."""

    gain: Numbers
    """How far each direction moves its quantity, shape (quantities,)."""
    longest: Numbers
    """How far each direction moves any leaf, shape (quantities,)."""
    dots: Numbers
    """How far each direction moves each of some leaves, shape (quantities, leaves)."""
    others: Numbers
    """Some other directions that change nothing published, shape (free, ways)."""
    moved: Numbers
    """How far these move the quantities, shape (quantities, ways)."""

    @cached_property
    def others_longest(self) -> Numbers:
        """How far each of the other directions moves any leaf, shape (ways,)."""
        return np.asarray(np.abs(self.others).max(axis=0, initial=0.0))


@dataclass(frozen=True, eq=False)
class Freedom:
    """The directions in which hidden leaves can move without changing anything published.

    A leaf j can move by `radius` both up and down. In units of the radius, moves of Euclidean length at most 1 stay within all
    bounds of leaves: an ellipsoid of tables that could be the true one as well. `basis` spans it, orthonormal.
    """

    problem: SuppressionProblem
    free: Whole
    """The leaves that move."""
    radius: Numbers
    """Shape (free,)."""
    basis: Numbers
    """Shape (free, dimension)."""

    @classmethod
    def of(cls, problem: SuppressionProblem, hidden: Flags) -> Freedom:
        """Return the freedom under a pattern."""
        room, shown = room_of(problem, hidden)
        free = np.flatnonzero(room > 0)
        rows = sparse.csr_array(shown[:, free])
        size = np.diff(rows.indptr)
        order = np.argsort(size, kind="stable")
        rows = sparse.csr_array(rows[order[size[order] > 0]])  # short sums first keep the elimination sparse
        directions = kernels.table_algebra.null_space(
            rows.indptr.astype(np.int64), rows.indices.astype(np.int64), len(free)
        )
        radius = room[free]
        basis, _ = np.linalg.qr(directions / radius[:, None])
        return cls(problem, free, radius, basis)

    @cached_property
    def steps(self) -> Numbers:
        """The basis in units of the leaves, shape (free, dimension)."""
        return self.radius[:, None] * self.basis

    def pull(self, quantities: Whole, leaves: Whole) -> Pull:
        """Return how quantities and leaves move together."""
        moves, other = self.moves(quantities), self.basis.T @ directions(len(self.free))
        parts = [np.abs(self.basis @ moves[i : i + _CHUNK].T).max(axis=0) for i in range(0, len(moves), _CHUNK)]
        return Pull(
            (moves**2).sum(axis=1), np.concatenate([np.zeros(0), *parts]), moves @ self.basis[leaves].T,
            self.basis @ other, moves @ other,
        )  # fmt: skip

    def reach_apart(self, asked: list[tuple[Whole, Whole]], hidden: Flags) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall while some leaves (positions in `free`) do not move.

        `asked` are several arrays of quantities with the leaves that do not move for them; the results are concatenated.
        """
        quantities = np.concatenate([np.zeros(0, np.int64), *(q for q, _ in asked)])
        moves, first = self.moves(quantities), 0
        for q, leaves in asked:
            inner, part = self.basis[leaves], slice(first, first + len(q))
            inverse = np.linalg.pinv(inner @ inner.T, rcond=1e-10, hermitian=True)
            moves[part] -= moves[part] @ inner.T @ inverse @ inner
            first += len(q)
        return self.reach(quantities, hidden, moves)

    def moves(self, quantities: Whole) -> Numbers:
        """Return how quantities change along the basis, shape (quantities, dimension)."""
        rows = sparse.csr_array(self.problem.rows[quantities][:, self.free])
        return np.asarray(rows @ self.steps)

    def reach(
        self, quantities: Whole, hidden: Flags, along: Numbers | None = None, enough: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall, shape (quantities,).

        Each is moved in the best direction within the ellipsoid, as far as all bounds allow; or in the directions `along`,
        shape (quantities, dimension). Where the ellipsoid itself reaches as far as `enough`, that suffices.
        """
        up, down = np.zeros(len(quantities)), np.zeros(len(quantities))
        sure = enough is not None and not len(bounded_sums(self.problem, hidden))
        for first in range(0, len(quantities), _CHUNK):
            part = slice(first, first + _CHUNK)
            moves = self.moves(quantities[part]) if along is None else along[part]
            length = np.sqrt((moves**2).sum(axis=1))
            up[part] = down[part] = length
            doubtful = np.flatnonzero(length < enough[part]) if sure and enough is not None else np.arange(len(length))
            if len(doubtful):
                ways = self.basis @ moves[doubtful].T
                at = first + doubtful
                up[at], down[at] = reach_along(self, quantities[at], ways, hidden)
        return up, down


def reach_along(
    freedom: Freedom | SparseFreedom, quantities: Whole, ways: Numbers, hidden: Flags
) -> tuple[Numbers, Numbers]:
    """Return how far quantities rise and fall along directions of their own, shape (free, quantities), within all bounds."""
    p, free, radius = freedom.problem, freedom.free, freedom.radius
    above, below = radius / (p.leaf_high - p.leaves)[free], radius / (p.leaves - p.leaf_low)[free]
    used = [np.maximum(most_used(s * ways, above), most_used(-s * ways, below)) for s in (1.0, -1.0)]
    bounded = bounded_sums(p, hidden)
    if len(bounded):
        sums = sparse.csr_array(p.rows[bounded][:, free]) @ (radius[:, None] * ways)
        with np.errstate(divide="ignore"):
            top, bottom = 1 / (p.high - p.value)[bounded], 1 / (p.value - p.low)[bounded]
        for i, s in enumerate((1.0, -1.0)):
            used[i] = np.maximum(used[i], np.maximum(most_used(s * sums, top), most_used(-s * sums, bottom)))
    rows = sparse.csr_array(p.rows[quantities][:, free])
    at = np.repeat(np.arange(len(quantities)), np.diff(rows.indptr))
    moved = np.bincount(at, rows.data * radius[rows.indices] * ways[rows.indices, at], len(quantities))
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = (np.where(moved > 1e-9 * np.abs(p.value[quantities]), moved / u, 0.0) for u in used)
    return up, down


def room_of(problem: SuppressionProblem, hidden: Flags) -> tuple[Numbers, sparse.csr_array]:
    """Return how far each leaf can move both up and down, 0 where it is published, and the rows of published quantities."""
    with np.errstate(invalid="ignore"):
        room = np.minimum(problem.leaves - problem.leaf_low, problem.leaf_high - problem.leaves)
    usual = float(np.median(np.abs(problem.leaves[problem.leaves != 0]))) if problem.leaves.any() else 1.0
    room = np.where(np.isinf(room), np.maximum(np.abs(problem.leaves), usual), room)
    shown = sparse.csr_array(problem.rows[~hidden])
    single = np.diff(shown.indptr) == 1
    room[shown.indices[shown.indptr[:-1][single]]] = 0.0
    return room, shown


def directions(count: int) -> Numbers:
    """Return some unrelated directions, shape (count, directions): fixed numbers in (-1, 1)."""
    return np.asarray(2 * np.modf(np.outer(np.arange(1, count + 1), np.sqrt(_PRIMES)))[0] - 1)


def bounded_sums(problem: SuppressionProblem, hidden: Flags) -> Whole:
    """Return the hidden sums with tighter known bounds than those of their leaves."""
    least = problem.rows @ problem.leaf_low + 1e-9 * np.abs(problem.value)
    several = np.diff(problem.rows.indptr) > 1
    return np.flatnonzero(hidden & several & (np.isfinite(problem.high) | (problem.low > least)))


def most_used(way: Numbers, weight: Numbers) -> Numbers:
    """Return the largest share of its room that any quantity uses in each direction, shape (ways,); at least 0."""
    if not weight.any():
        return np.zeros(way.shape[1])
    if not (weight == 1).all():
        with np.errstate(invalid="ignore"):
            way = np.where(np.abs(way) > 1e-12, way * weight[:, None], 0.0)
    return np.asarray(way.max(axis=0, initial=0.0))


_SPARSE_CHUNK = 256
_DENSE = 7_000
"""Up to this many hidden leaves dense linear algebra is used."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SparseFreedom:
    """The directions in which hidden leaves can move, as solutions of the equations between hidden quantities.

    The best direction of a quantity within the ellipsoid minimises Σ (move / radius)² less twice its own move, under the
    equations: one factorisation of that system serves all quantities.
    """

    problem: SuppressionProblem
    free: Whole
    """The leaves that move."""
    radius: Numbers
    """Shape (free,)."""
    shown: sparse.csr_array
    """The published quantities, shape (shown, free)."""
    used: Whole
    """The quantities of the system."""
    unit: Numbers
    """Their units, shape (used,)."""
    solve: Any
    """Maps right-hand sides, shape (used, k), to solutions in these units, the first rows of the result.

    It improves a rough solution.
    """

    @classmethod
    def of(cls, problem: SuppressionProblem, hidden: Flags) -> SparseFreedom:
        """Return the freedom under a pattern."""
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
        shift = np.concatenate([np.zeros(count), np.full(sums.shape[0], 1e-11)])  # equations may be redundant
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
        """Return the best directions of quantities, in units of the radius of each leaf; shape (free, quantities)."""
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
            ways[:, self._changes(ways)] = 0.0  # published quantities would change: no proof
        return np.asarray(ways)

    def _changes(self, ways: Numbers) -> Flags:
        """Return which directions change published quantities by more than rounding."""
        moved = self.radius[:, None] * ways
        off = np.abs(self.shown @ moved).max(axis=0, initial=0.0)
        return np.asarray(off > _ROUNDING * np.abs(moved).sum(axis=0))

    def reach(
        self, quantities: Whole, hidden: Flags, along: None = None, enough: Numbers | None = None
    ) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall, shape (quantities,); see `Freedom.reach`."""
        parts = [quantities[i : i + _SPARSE_CHUNK] for i in range(0, len(quantities), _SPARSE_CHUNK)]
        found = [reach_along(self, asked, self._ways(asked), hidden) for asked in parts]
        nothing = np.zeros(0)
        return np.concatenate([nothing, *(f[0] for f in found)]), np.concatenate([nothing, *(f[1] for f in found)])

    def pull(self, quantities: Whole, leaves: Whole) -> Pull:
        """Return how quantities and leaves move together."""
        gain, longest = np.zeros(len(quantities)), np.zeros(len(quantities))
        dots = np.zeros((len(quantities), len(leaves)))
        rows = sparse.csr_array(self.problem.rows[quantities][:, self.free]) @ sparse.diags_array(self.radius)
        for first in range(0, len(quantities), _SPARSE_CHUNK):
            part = slice(first, first + _SPARSE_CHUNK)
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
        """Return how far quantities can certainly rise and fall while some leaves do not move; see `Freedom.reach_apart`."""
        found, first = [(np.zeros(0), np.zeros(0))], 0
        while first < len(asked):
            last, columns = first, 0
            while last < len(asked) and (last == first or columns < _SPARSE_CHUNK):
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
            length = np.linalg.norm(ways[:, part], axis=0)
            inverse = np.linalg.pinv(pull[known], rcond=1e-6, hermitian=True)
            ways[:, part] -= pull @ (inverse @ ways[known, part])
            moved = np.abs(ways[known, part]).max(axis=0, initial=0.0) > 1e-9 * length
            ways[known, part] = 0.0
            ways[:, part][:, moved] = 0.0  # the leaves would move: no proof
            q, at = q + len(mine), at + len(known)
        ways[:, self._changes(ways)] = 0.0
        return reach_along(self, quantities, ways, hidden)


def freedom_of(problem: SuppressionProblem, hidden: Flags) -> Freedom | SparseFreedom:
    """Return the freedom under a pattern, in the form that suits its size."""
    room, _ = room_of(problem, hidden)
    return Freedom.of(problem, hidden) if int((room > 0).sum()) <= _DENSE else SparseFreedom.of(problem, hidden)


TOLERANCE = 1e-7
"""How much shorter than required an interval may be, relative to the level: the accuracy of linear programs."""


@dataclass(frozen=True, eq=False)
class PatternCheck:
    """Lower bounds of how far an attacker's intervals of the secrets reach under a pattern; shapes (targets,)."""

    problem: SuppressionProblem
    hidden: Flags
    """The pattern, shape (quantities,)."""
    up: Numbers
    down: Numbers
    solved: Flags
    """Which secrets needed linear programs."""

    @cached_property
    def failing(self) -> Whole:
        """Positions in `problem.targets` of secrets that do not reach far enough."""
        return np.flatnonzero(short(self.problem, self.problem.targets, self.up, self.down))

    @cached_property
    def freedom(self) -> Freedom | SparseFreedom:
        """The directions in which hidden leaves can move."""
        return freedom_of(self.problem, self.hidden)

    @property
    def margin(self) -> float:
        """The smallest ratio between the reach and the requirement; at least 1 for a safe pattern."""
        problem, t = self.problem, self.problem.targets
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [np.where(need > 0, got / need, np.inf) for got, need in (
                (self.up, problem.upper[t]), (self.down, problem.lower[t]), (self.up + self.down, problem.width[t]),
            )]  # fmt: skip
        return float(min((r.min(initial=np.inf) for r in ratios), default=np.inf))


def check(
    problem: SuppressionProblem, hidden: Flags, sure: PatternCheck | None = None, solve: bool = True
) -> PatternCheck:
    """Audit a pattern; `sure` is how far secrets certainly reach, since they did when less was hidden.

    Without linear programs (`solve`), secrets that need them fail.
    """
    targets = problem.targets
    up, down, solved = np.zeros(len(targets)), np.zeros(len(targets)), np.zeros(len(targets), bool)
    if sure is not None:
        known = slice(len(sure.up))
        up[known], down[known], solved[known] = sure.up, sure.down, sure.solved
    todo = np.flatnonzero(short(problem, targets, up, down))
    found = PatternCheck(problem, hidden, up, down, solved)
    if len(todo):
        reach = found.freedom.reach(targets[todo], hidden, enough=enough(problem)[todo])
        rise, fall = whole(problem, targets[todo], *reach)
        up[todo], down[todo] = np.maximum(up[todo], rise), np.maximum(down[todo], fall)
    open_ = np.flatnonzero(short(problem, targets, up, down))
    solved[open_] = True
    if solve and len(open_):
        asked, least = targets[open_], 1e-6 * np.abs(problem.value[targets[open_]])
        # one side may have to compensate for the other, so each must reach the whole width
        far = [np.maximum(np.maximum(need, problem.width)[asked], least) for need in (problem.lower, problem.upper)]
        far = [np.maximum(np.ceil(f - 1e-9), 1.0) if problem.integer else f for f in far]
        low, high = problem.attacker(hidden).bounds_of(sparse.csr_array(problem.rows[asked]), (-far[0], far[1]))
        rise, fall = whole(problem, asked, high, -low)
        up[open_], down[open_] = np.maximum(up[open_], rise), np.maximum(down[open_], fall)
    return found


def enough(problem: SuppressionProblem) -> Numbers:
    """Return how far up and down each secret must reach, at most; shape (targets,)."""
    t = problem.targets
    need = np.maximum(np.maximum(problem.upper[t], problem.lower[t]), problem.width[t] / 2)
    need = np.maximum(need, 1e-6 * np.abs(problem.value[t]))
    return np.maximum(np.ceil(need), 1.0) if problem.integer else need


def short(problem: SuppressionProblem, quantities: Whole, up: Numbers, down: Numbers) -> Flags:
    """Return which quantities do not reach far enough."""
    missing = np.zeros(len(quantities), bool)
    for got, need in ((up, problem.upper), (down, problem.lower), (up + down, problem.width)):
        missing |= got < need[quantities] * (1 - TOLERANCE)
    # an exactly known quantity is disclosed, whatever the rule requires
    return missing | (up + down <= TOLERANCE * np.abs(problem.value[quantities]))


def whole(problem: SuppressionProblem, quantities: Whole, up: Numbers, down: Numbers) -> tuple[Numbers, Numbers]:
    """Return distances to the last whole number within, where values are known to be whole."""
    if not problem.integer:
        return up, down
    return np.floor(up + 1e-6), np.floor(down + 1e-6)
