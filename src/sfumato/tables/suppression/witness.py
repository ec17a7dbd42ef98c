"""Proofs that intervals are wide enough, many at a time: tables that could be the true one as well."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.problem import Problem

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_CHUNK = 512
_PRIMES = np.array([2.0, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89])


@dataclass(frozen=True, eq=False)
class Pull:
    """What ties quantities to leaves, on the best ways of the quantities; leaves move in units of their radius."""

    gain: Numbers
    """How far each way takes its quantity, shape (quantities,)."""
    longest: Numbers
    """How far each way takes any leaf, shape (quantities,)."""
    dots: Numbers
    """How far each way takes each of some leaves, shape (quantities, leaves)."""
    others: Numbers
    """Some other ways that nothing shown stands against, shape (free, ways)."""
    moved: Numbers
    """How far these take the quantities, shape (quantities, ways)."""

    @cached_property
    def others_longest(self) -> Numbers:
        """How far each of the other ways takes any leaf, shape (ways,)."""
        return np.asarray(np.abs(self.others).max(axis=0, initial=0.0))


@dataclass(frozen=True, eq=False)
class Freedom:
    """The ways in which hidden leaves can move without anything that is shown changing.

    A leaf j can move by `radius` both up and down. In units of the radius, moves of Euclidean length at most 1 stay within
    all bounds of leaves: an ellipsoid of tables that are as good as the true one. `basis` spans it, orthonormal.
    """

    problem: Problem
    free: Whole
    """The leaves that move."""
    radius: Numbers
    """Shape (free,)."""
    basis: Numbers
    """Shape (free, dimension)."""

    @classmethod
    def of(cls, problem: Problem, hidden: Flags) -> Freedom:
        """Return the freedom that a pattern leaves."""
        from sfumato.kernels.elimination import null_space

        room, shown = room_of(problem, hidden)
        free = np.flatnonzero(room > 0)
        rows = sparse.csr_array(shown[:, free])
        size = np.diff(rows.indptr)
        order = np.argsort(size, kind="stable")
        rows = sparse.csr_array(rows[order[size[order] > 0]])  # short sums first keep the elimination sparse
        directions = null_space(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), len(free))
        radius = room[free]
        basis, _ = np.linalg.qr(directions / radius[:, None])
        return cls(problem, free, radius, basis)

    @cached_property
    def steps(self) -> Numbers:
        """The basis in units of the leaves, shape (free, dimension)."""
        return self.radius[:, None] * self.basis

    def pull(self, quantities: Whole, leaves: Whole) -> Pull:
        """Return what ties quantities to leaves."""
        moves, other = self.moves(quantities), self.basis.T @ directions(len(self.free))
        parts = [np.abs(self.basis @ moves[i : i + _CHUNK].T).max(axis=0) for i in range(0, len(moves), _CHUNK)]
        return Pull(
            (moves**2).sum(axis=1), np.concatenate([np.zeros(0), *parts]), moves @ self.basis[leaves].T,
            self.basis @ other, moves @ other,
        )  # fmt: skip

    def reach_apart(self, asked: list[tuple[Whole, Whole]], hidden: Flags) -> tuple[Numbers, Numbers]:
        """Return how far quantities can certainly rise and fall while some leaves (positions in `free`) stand still.

        Asked are several quantities with the leaves that stand still for them; all answers are one after the other.
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

        Each is moved in the direction that is best within the ellipsoid, as far as all bounds allow; or in those given by
        `along`, shape (quantities, dimension). Where the ellipsoid itself reaches as far as is `enough`, that will do.
        """
        up, down = np.zeros(len(quantities)), np.zeros(len(quantities))
        p, free = self.problem, self.free
        above, below = self.radius / (p.leaf_high - p.leaves)[free], self.radius / (p.leaves - p.leaf_low)[free]
        bounded = bounded_sums(p, hidden)
        rows = sparse.csr_array(p.rows[bounded][:, free])
        for first in range(0, len(quantities), _CHUNK):
            part = slice(first, first + _CHUNK)
            moves = self.moves(quantities[part]) if along is None else along[part]
            gain = (moves**2).sum(axis=1)
            up[part] = down[part] = np.sqrt(gain)
            doubtful = np.arange(len(gain))
            if enough is not None and not len(bounded):
                doubtful = np.flatnonzero(np.sqrt(gain) < enough[part])
                if not len(doubtful):
                    continue
            moves, gain = moves[doubtful], gain[doubtful]
            way = self.basis @ moves.T
            used = (
                np.maximum(most_used(way, above), most_used(-way, below)),
                np.maximum(most_used(-way, above), most_used(way, below)),
            )
            if len(bounded):
                sums = rows @ (self.radius[:, None] * way)
                with np.errstate(divide="ignore"):
                    top, bottom = 1 / (p.high - p.value)[bounded], 1 / (p.value - p.low)[bounded]
                for side, sign in ((0, 1), (1, -1)):
                    np.maximum(used[side], most_used(sign * sums, top), out=used[side])
                    np.maximum(used[side], most_used(-sign * sums, bottom), out=used[side])
            some = gain > 1e-18 * (1 + p.value[quantities[part][doubtful]] ** 2)
            for side, reach in ((0, up), (1, down)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    reach[first + doubtful] = np.where(some, gain / used[side], 0.0)
        return up, down


def room_of(problem: Problem, hidden: Flags) -> tuple[Numbers, sparse.csr_array]:
    """Return how far each leaf can move both up and down, 0 where it is shown, and the rows of what is shown."""
    with np.errstate(invalid="ignore"):
        room = np.minimum(problem.leaves - problem.leaf_low, problem.leaf_high - problem.leaves)
    usual = float(np.median(np.abs(problem.leaves[problem.leaves != 0]))) if problem.leaves.any() else 1.0
    room = np.where(np.isinf(room), np.maximum(np.abs(problem.leaves), usual), room)
    shown = sparse.csr_array(problem.rows[~hidden])
    single = np.diff(shown.indptr) == 1
    room[shown.indices[shown.indptr[:-1][single]]] = 0.0
    return room, shown


def directions(count: int) -> Numbers:
    """Return some directions that have nothing to do with each other, shape (count, directions): fixed numbers in (-1, 1)."""
    return np.asarray(2 * np.modf(np.outer(np.arange(1, count + 1), np.sqrt(_PRIMES)))[0] - 1)


def bounded_sums(problem: Problem, hidden: Flags) -> Whole:
    """Return the hidden sums of which attackers know more than the bounds of their leaves tell."""
    least = problem.rows @ problem.leaf_low + 1e-9 * np.abs(problem.value)
    several = np.diff(problem.rows.indptr) > 1
    return np.flatnonzero(hidden & several & (np.isfinite(problem.high) | (problem.low > least)))


def most_used(way: Numbers, weight: Numbers) -> Numbers:
    """Return the largest share of its room that something uses on each way, shape (ways,); at least 0."""
    if not weight.any():
        return np.zeros(way.shape[1])
    if not (weight == 1).all():
        with np.errstate(invalid="ignore"):
            way = np.where(np.abs(way) > 1e-12, way * weight[:, None], 0.0)
    return np.asarray(way.max(axis=0, initial=0.0))
