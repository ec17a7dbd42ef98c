"""A safe pattern without linear programs, for when time is short, and suppressions that are superfluous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.tables.cells import set_codes
from sfumato.tables.suppression.heuristic import Clock
from sfumato.tables.suppression.insiders import NOTHING, Insiders, whole_need
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.tables.suppression.proof import Freedom, PatternCheck, bounded_sums, enough, room_of, short, whole
from sfumato.typing import Flags, Numbers, Whole


def exchange_pattern(
    problem: SuppressionProblem, unsafe: Callable[[sparse.csr_array], Flags], insiders: Insiders | None
) -> PatternCheck | None:
    """Return a safe pattern, found without linear programs, and its audit; None where this does not find one.

    The cheapest cells around whatever is not safe are hidden until every block is safe as a cell (`unsafe` says which rows of
    leaves are not) and every secret can be exchanged with the others of its blocks, also against contributors who are alone.
    """
    hidden = problem.hidden.copy()
    if len(bounded_sums(problem, ~problem.fixed)):
        return None  # parts of sums that attackers have bounds for do not move freely
    while True:
        blocks = Blocks.of(problem, hidden)
        up, down = blocks.reach()
        fails = short(problem, problem.targets, up, down)
        if insiders is not None:
            fails |= blocks.disclosed(insiders)
        bad = np.flatnonzero(blocks.seen & (unsafe(blocks.rows) | blocks.touched(fails)))
        if not len(bad):
            return None if fails.any() else PatternCheck(problem, hidden, up, down, np.zeros(len(up), bool))
        open_ = np.flatnonzero(~hidden & ~problem.fixed)
        open_ = open_[np.argsort(problem.cost[open_], kind="stable")]
        with_bad = sparse.csc_array(problem.rows[open_] @ blocks.rows[bad].T)
        with_bad.sort_indices()
        if (np.diff(with_bad.indptr) == 0).any():
            return None
        hidden[open_[with_bad.indices[with_bad.indptr[:-1]]]] = True


@dataclass(frozen=True, eq=False)
class Blocks:
    """The leaves in blocks: leaves of one block are in the same published cells."""

    problem: SuppressionProblem
    hidden: Flags
    of_leaf: Whole
    """The block of each leaf, shape (leaves,)."""
    seen: Flags
    """Which blocks are in a published cell, shape (blocks,). The others move freely."""

    @classmethod
    def of(cls, problem: SuppressionProblem, hidden: Flags) -> Blocks:
        """Return the blocks under a pattern."""
        shown = sparse.csr_array(problem.rows[~hidden].T)
        _, first, block = np.unique(set_codes(shown), axis=0, return_index=True, return_inverse=True)
        return cls(problem, hidden, block.ravel(), np.diff(shown.indptr)[first] > 0)

    @property
    def rows(self) -> sparse.csr_array:
        """The leaves of each block, shape (blocks, leaves)."""
        count = len(self.of_leaf)
        return sparse.csr_array((np.ones(count), (self.of_leaf, np.arange(count))), shape=(len(self.seen), count))

    def touched(self, which: Flags) -> Flags:
        """Return the blocks that contain parts of some of the secrets, shape (blocks,)."""
        found = np.zeros(len(self.seen), bool)
        found[self.of_leaf[self.problem.rows[self.problem.targets[which]].indices]] = True
        return found

    @cached_property
    def parts(self) -> Parts:
        """The secrets, each cut into its parts in single blocks."""
        p = self.problem
        rows = sparse.csr_array(p.rows[p.targets])
        of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        key, at = np.unique(of * len(self.seen) + self.of_leaf[rows.indices], return_inverse=True)
        leaf = rows.indices.astype(np.int64)
        return Parts(self, key // len(self.seen), key % len(self.seen), leaf, at.ravel())

    def reach(self) -> tuple[Numbers, Numbers]:
        """Return how far every secret can certainly rise and fall, shape (targets,): other leaves of its blocks compensate."""
        p, parts = self.problem, self.parts
        up, down = p.leaf_high - p.leaves, p.leaves - p.leaf_low
        rise, fall = (
            np.asarray(
                np.bincount(parts.of, np.minimum(parts.inside(mine), parts.outside(others)), len(p.targets)), float
            )
            for mine, others in ((up, down), (down, up))
        )
        return whole(p, p.targets, rise, fall)

    def disclosed(self, insiders: Insiders) -> Flags:
        """Return which secrets a contributor who is alone in leaves may come too close to, shape (targets,).

        In every block, the largest amount that any contributor knows is assumed not to move; the same holds in a secret for
        each contributor who is alone in a part of it.
        """
        p, parts, targets = self.problem, self.parts, self.problem.targets
        room, _ = room_of(p, self.hidden)
        alone = insiders.alone
        single = np.flatnonzero((alone >= 0) & (room > 0))
        known = sparse.csr_array(
            (room[single], (self.of_leaf[single], alone[single])), shape=(len(self.seen), insiders.grossed.shape[1])
        )
        inside = parts.inside(room)
        outside = np.maximum(parts.outside(room) - known.max(axis=1).toarray().ravel()[parts.block], 0.0)
        moved = np.minimum(inside, outside)
        reach, need = np.bincount(parts.of, moved, len(targets)), insiders.level_of(p, targets)
        fails = reach < whole_need(p, need)
        # contributors who know leaves of the secret itself: for each of them and each of its blocks, what no longer moves
        own = sparse.coo_array(p.rows[targets][:, single])
        of, leaf = own.coords[0], single[own.coords[1]]
        person, at = np.unique(np.column_stack([of, alone[leaf], self.of_leaf[leaf]]), axis=0, return_inverse=True)
        entry = np.searchsorted(parts.key, person[:, 0] * len(self.seen) + person[:, 2])
        rest = np.maximum(inside[entry] - np.bincount(at.ravel(), room[leaf], len(person)), 0.0)
        pairs, at = np.unique(person[:, :2], axis=0, return_inverse=True)
        lost = np.bincount(at.ravel(), moved[entry] - np.minimum(rest, outside[entry]), len(pairs))
        of, who = pairs.T
        held = sparse.csr_array(p.rows[targets] @ abs(insiders.grossed))
        share = 1 - np.asarray(held[of, who]).ravel() / np.asarray(held.sum(axis=1)).ravel()[of]
        close = (share > NOTHING) & (reach[of] - lost < whole_need(p, need[of] * share))
        fails[of[close]] = True
        return fails


@dataclass(frozen=True, eq=False)
class Parts:
    """Secrets cut by blocks; arrays have shape (parts,), ordered by secret and then by block."""

    blocks: Blocks
    of: Whole
    """The secret, a position in `problem.targets`."""
    block: Whole
    leaf: Whole
    """The leaves of all secrets, and the part of each."""
    part: Whole

    @property
    def key(self) -> Whole:
        """Sort key of each part, increasing."""
        return self.of * len(self.blocks.seen) + self.block

    def inside(self, room: Numbers) -> Numbers:
        """Return how far the leaves of each part can move together."""
        return np.asarray(np.bincount(self.part, room[self.leaf], len(self.of)), np.float64)

    def outside(self, room: Numbers) -> Numbers:
        """Return how far the other leaves of each part's block can move together, to compensate."""
        blocks = self.blocks
        endless = np.isinf(room)
        rest = np.zeros((3, len(self.of)))
        for i, amount in enumerate((np.ones(len(room)), endless.astype(np.float64), np.where(endless, 0.0, room))):
            in_block = np.bincount(blocks.of_leaf, amount, len(blocks.seen))
            rest[i] = in_block[self.block] - self.inside(amount)
        leaves, free, found = rest
        found = np.where(leaves == 0, 0.0, np.maximum(found, 0.0))  # floating-point error of a zero
        return np.asarray(np.where((free > 0) | ~blocks.seen[self.block], np.inf, found))


_MOST = 64
"""Largest number of doubtful secrets examined one by one for a cell; with more the cell stays hidden."""


_TRIES = 100
"""Number of most costly cells that are tried."""
_LITTLE = 1e-2
"""A secret whose freedom shrinks by less than this share is assumed to stay safe until the pattern is checked again."""


def show_superfluous(found: PatternCheck, clock: Clock) -> Flags:
    """Return the pattern without cells that the proofs of `Freedom` do not need, the most costly first.

    Publishing a cell removes the direction in which it moves from the freedom: a projection, for all secrets at once. Secrets
    that linear programs proved are not examined, so the pattern must be checked again.
    """
    problem, hidden, freedom = found.problem, found.hidden.copy(), found.freedom
    targets = problem.targets
    if not isinstance(freedom, Freedom):
        return hidden
    up, down = whole(problem, targets, *freedom.reach(targets, hidden, enough=enough(problem)))
    targets = targets[~short(problem, targets, up, down)]
    moves = freedom.moves(targets)
    gain = (moves**2).sum(axis=1)
    need = np.maximum(np.maximum(problem.upper, problem.lower), problem.width / 2)[targets]
    maybe = np.flatnonzero(hidden & ~problem.hidden)
    maybe = maybe[np.argsort(-problem.cost[maybe], kind="stable")][:_TRIES]
    gone = np.zeros((len(maybe), moves.shape[1]))  # directions of cells published again, orthonormal
    rows = sparse.csr_array(problem.rows[:, freedom.free])
    count = 0
    for cell in maybe:
        if clock.over:
            break
        inside = rows.indices[rows.indptr[cell] : rows.indptr[cell + 1]]
        way = freedom.radius[inside] @ freedom.basis[inside]
        for _ in range(2):  # twice, because of rounding
            way -= (gone[:count] @ way) @ gone[:count]
        length = float(way @ way)
        if length <= 1e-18 * (1 + float(problem.value[cell]) ** 2):
            hidden[cell] = False  # it follows from published cells anyway
            continue
        share = moves @ way / length
        left = gain - share**2 * length
        proven = left >= (1 + 1e-6) * need**2
        if problem.integer:
            proven &= left >= np.ceil(need) ** 2
        doubtful = np.flatnonzero(~proven & (gain - left > _LITTLE * gain))
        if len(doubtful) > _MOST or (left[doubtful] <= 1e-9 * gain[doubtful]).any():
            continue
        without = hidden.copy()
        without[cell] = False
        if len(doubtful):
            rest = moves[doubtful] - np.outer(share[doubtful], way)
            rest -= (rest @ gone[:count].T) @ gone[:count]
            up, down = whole(problem, targets[doubtful], *freedom.reach(targets[doubtful], without, rest))
            if short(problem, targets[doubtful], up, down).any():
                continue
        hidden, gain = without, left
        gone[count] = way / np.sqrt(length)
        count += 1
    return hidden
