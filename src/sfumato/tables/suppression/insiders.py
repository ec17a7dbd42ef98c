"""Contributors as attackers, and sums that are no cell but can be worked out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.tables.cells import TOTAL, Cells, set_codes
from sfumato.tables.suppression.exact import Demand
from sfumato.tables.suppression.heuristic import Clock, Repair
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.tables.suppression.proof import PatternCheck, Pull, bounded_sums, room_of
from sfumato.typing import Flags, Numbers, Whole

# --- insiders
# Contributors as attackers: each knows every leaf in which it is alone.

NOTHING = 1e-9
"""The part of others in a secret below which it counts as 0: rounding."""


@dataclass(frozen=True, eq=False)
class InsiderSecrets:
    """One contributor, and the secrets that it may come too close to."""

    alone: Whole
    """Leaves in which the contributor is alone."""
    targets: Whole
    """Positions in `problem.targets`."""
    share: Numbers
    """The share of others in each of these secrets: the part to protect from the contributor."""


@dataclass(frozen=True, eq=False)
class Insiders:
    """All contributors of a table, by the leaves of a problem."""

    grossed: sparse.csr_array
    """Leaves × contributors."""
    level: float
    """The share of a protection level that must hold against a contributor who knows the leaves in which it is alone."""
    _ways: dict[tuple[int, int], list[tuple[float, Whole]]] = field(default_factory=dict)
    """Moves found for a secret, up or down: how far they go, and which quantities move."""

    @cached_property
    def alone(self) -> Whole:
        """The contributor of each leaf that has only one, -1 for the others; shape (leaves,)."""
        single = np.flatnonzero(np.diff(self.grossed.indptr) == 1)
        found = np.full(self.grossed.shape[0], -1, np.int64)
        found[single] = self.grossed.indices[self.grossed.indptr[single]]
        return found

    def count(self, found: PatternCheck) -> int:
        """Count the contributors who are alone in leaves that a pattern hides."""
        room, _ = room_of(found.problem, found.hidden)
        return len(np.unique(self.alone[(self.alone >= 0) & (room > 0)]))

    def close(self, found: PatternCheck, since: int = 0) -> list[InsiderSecrets]:
        """Return the contributors for whom the freedom of a pattern does not prove enough distance from secrets.

        A contributor who is alone in leaves knows them: directions in which they move are no freedom against it. Only secrets
        from position `since` on are examined.
        """
        problem, hidden, freedom = found.problem, found.hidden, found.freedom
        targets = problem.targets[since:]
        single = np.flatnonzero(self.alone[freedom.free] >= 0)
        person = self.alone[freedom.free[single]]
        order = np.argsort(person, kind="stable")
        people, first = np.unique(person[order], return_index=True)
        if not len(single) or not len(targets):
            return []
        pull, need = freedom.pull(targets, single), self.level_of(problem, targets)
        weak = ~(pull.gain >= 1.001 * need * pull.longest) | (pull.gain == 0)
        tied = np.abs(pull.dots) > 1e-9 * np.sqrt(pull.gain)[:, None]
        tied[weak] = self._touched(problem, hidden, targets[weak], freedom.free[single])
        held = sparse.csc_array(problem.rows[targets] @ abs(self.grossed))
        total = np.asarray(held.sum(axis=1)).ravel()
        straight = not len(bounded_sums(problem, hidden))  # a move short enough for leaves is so for all quantities
        doubtful: list[tuple[Whole, Whole, Numbers, Numbers]] = []
        for one, own in zip(people, np.split(order, first[1:]), strict=True):
            others = total.copy()
            mine = slice(held.indptr[one], held.indptr[one + 1])
            others[held.indices[mine]] -= held.data[mine]
            at = np.flatnonzero(tied[:, own].any(axis=1) & (others > NOTHING * total))
            if not len(at):
                continue
            share = others[at] / total[at]
            asked = whole_need(problem, need[at] * share)
            if straight:
                kept = weak[at] | ~_far_enough(pull, single[own], own, at, asked)
                at, share, asked = at[kept], share[kept], asked[kept]
            if len(at):
                doubtful.append((own, at, share, asked))
        up, down = freedom.reach_apart([(targets[at], single[own]) for own, at, _, _ in doubtful], hidden)
        blocked_ones, start = [], 0
        for own, at, share, asked in doubtful:
            part = slice(start, start + len(at))
            blocked = ~(np.minimum(up[part], down[part]) >= asked)
            start += len(at)
            if blocked.any():
                blocked_ones.append(InsiderSecrets(freedom.free[single[own]], since + at[blocked], share[blocked]))
        return blocked_ones

    def _touched(self, problem: SuppressionProblem, hidden: Flags, weak: Whole, leaves: Whole) -> Flags:
        """Return which leaves move when linear programs move secrets with little freedom, shape (weak, leaves)."""
        repair = Repair(problem)
        found = np.zeros((len(weak), len(leaves)), bool)
        for i, target in enumerate(weak):
            for side, need in self._needs(problem, int(target), 1.0):
                if (way := repair.free_way(int(target), side * need, hidden)) is None:
                    found[i] = True
                else:
                    found[i] |= way[problem.alone[leaves]] != 0
        return found

    def widen(self, found: PatternCheck, close: list[InsiderSecrets], clock: Clock) -> tuple[Flags, int]:
        """Return a pattern that protects secrets from contributors who know leaves, and how many pairs no pattern protects."""
        problem, hidden, helpless = found.problem, found.hidden.copy(), 0
        repair = Repair(problem)
        for insider in close:
            clock.look()
            still = problem.alone[insider.alone]
            for place, share in zip(insider.targets, insider.share, strict=True):
                target, met = int(problem.targets[place]), True
                for side, need in self._needs(problem, target, share):
                    if self._known(target, side, need, hidden, insider.alone, problem):
                        continue
                    if (way := repair.way(target, side * need, hidden, still)) is None:
                        met = False
                        continue
                    moving = np.flatnonzero(way)
                    hidden[moving] = True
                    self._ways.setdefault((target, side), []).append((need, moving))
                helpless += not met
        return hidden, helpless

    def _known(
        self, target: int, side: int, need: float, hidden: Flags, leaves: Whole, problem: SuppressionProblem
    ) -> bool:
        """Return whether an earlier move, for any contributor, goes far enough, is hidden and does not move the leaves."""
        for far, moving in self._ways.get((target, side), ()):
            if far >= need and hidden[moving].all() and not np.isin(problem.alone[leaves], moving).any():
                return True
        return False

    def demands(self, audited: PatternCheck, close: list[InsiderSecrets]) -> tuple[list[Demand], int]:
        """Return unmet requirements against contributors who come close, and the number of pairs that no pattern protects."""
        problem, hidden = audited.problem, audited.hidden
        repair, found, helpless = Repair(problem), [], 0
        everything = ~problem.fixed
        for insider in close:
            still = problem.alone[insider.alone]
            for place, share in zip(insider.targets, insider.share, strict=True):
                target, met = int(problem.targets[place]), True
                for side, need in self._needs(problem, target, share):
                    way = repair.way(target, side * need, hidden, still)
                    if way is not None and hidden[way != 0].all():
                        continue
                    if repair.way(target, side * need, everything, still) is None:
                        met = False
                    else:
                        found.append(Demand(target, (side,), need, still))
                helpless += not met
        return found, helpless

    def level_of(self, problem: SuppressionProblem, quantities: Whole) -> Numbers:
        """Return how far up and down secrets must at most move against contributors who know leaves."""
        need = self.level * np.maximum(np.maximum(problem.upper, problem.lower), problem.width / 2)[quantities]
        return np.asarray(np.maximum(need, 1e-6 * np.abs(problem.value[quantities])))

    def _needs(self, problem: SuppressionProblem, target: int, share: float) -> list[tuple[int, float]]:
        """Return how far up and down a secret must be able to move, given the share of others in it."""
        found = []
        for side, level in ((1, problem.upper[target]), (-1, problem.lower[target])):
            need = max(
                self.level * max(float(level), float(problem.width[target]) / 2),
                1e-6 * abs(float(problem.value[target])),
            )
            if need > 0:
                found.append((side, float(whole_need(problem, np.array([need * share]))[0])))
        return found


def _far_enough(pull: Pull, leaves: Whole, own: Whole, at: Whole, need: Numbers) -> Flags:
    """Return which secrets `at` certainly move as far as needed while a contributor's leaves do not move.

    Other moves are added to that of a secret, in amounts that keep those leaves fixed.
    """
    some = pull.others[leaves].T  # ways × leaves
    part = -pull.dots[np.ix_(at, own)] @ np.linalg.pinv(some, rcond=1e-6)
    left = np.abs(pull.dots[np.ix_(at, own)] + part @ some).max(axis=1)
    moved = pull.gain[at] + (part * pull.moved[at]).sum(axis=1)
    still = left <= 1e-9 * np.sqrt(pull.gain[at])
    far = still & (moved >= 1.001 * need * (pull.longest[at] + np.abs(part) @ pull.others_longest))
    unclear = np.flatnonzero(still & ~far & (moved >= 1.001 * need * pull.longest[at]))
    longest = pull.longest[at[unclear]] + np.abs(pull.others @ part[unclear].T).max(axis=0)
    far[unclear] = moved[unclear] >= 1.001 * need[unclear] * longest
    return np.asarray(far)


def whole_need(problem: SuppressionProblem, need: Numbers) -> Numbers:
    """Return how far secrets must move in whole numbers, where values are known to be whole."""
    return np.maximum(np.ceil(need - 1e-9), 1.0) if problem.integer else need


# --- unions
# Sums that are no cell but can be worked out: a published total less its published parts.


_DEEP = 300
"""Up to this many cells of linked tables, differences of differences are examined."""


@dataclass(frozen=True, eq=False)
class Breakdowns:
    """The cells in classes (all of region by sector, all of region group by sector …) whose members do not overlap."""

    cells: Cells
    members: tuple[Whole, ...]
    """The cells of each class."""
    finer: tuple[Whole, ...]
    """For each class the cells that it divides: each of its members is inside one of them or outside."""
    nested: tuple[Whole, Whole]
    """Cells, and cells inside them, whose difference is no sum of cells; see `remainders`."""

    @classmethod
    def of(cls, cells: Cells) -> Breakdowns:
        """Return the classes of a table's cells."""
        kind = _kinds(cells)
        members, finer = [], []
        for k in range(int(kind.max(initial=-1)) + 1):
            inside = np.flatnonzero(kind == k)
            rows = sparse.csr_array(cells.incidence[inside])
            if (np.asarray(rows.sum(axis=0)) > 1).any():
                continue  # they overlap: labels that are in no tree
            common = sparse.coo_array(cells.incidence @ rows.T)
            cell, member = common.coords
            cut = np.zeros(len(cells), bool)
            cut[cell[common.data < cells.sizes[inside][member]]] = True
            covered = np.bincount(cell, common.data, len(cells)) > 0
            divided = np.flatnonzero(~cut & covered & (kind != k))
            if len(divided):
                members.append(inside)
                finer.append(divided)
        return cls(cells, tuple(members), tuple(finer), remainders(cells))

    def left_over(self, hidden: Flags) -> sparse.csr_array:
        """Return published sums less their published parts, as rows of leaves; each once, none of them a cell."""
        found = []
        rows = sparse.csr_array(self.cells.incidence)
        for members, divided in zip(self.members, self.finer, strict=True):
            open_ = np.ones(self.cells.leaves, bool)
            open_[rows[members[~hidden[members]]].indices] = False
            shown = divided[~hidden[divided]]
            part = rows[shown].multiply(open_[None, :]).tocsr()
            part.eliminate_zeros()
            size = np.diff(part.indptr)
            found.append(sparse.csr_array(part[(size > 0) & (size < self.cells.sizes[shown])]))
        found.append(
            differences(self.cells, *(c[~(hidden[self.nested[0]] | hidden[self.nested[1]])] for c in self.nested))
        )
        left = _new(rows, sparse.csr_array(sparse.vstack(found)))
        return self._in_turn(rows, sparse.csr_array(rows[~hidden]), left) if self.deep else left

    @property
    def deep(self) -> bool:
        """Whether differences of differences are examined too: in small tables that cut across each other."""
        return len(self.cells) <= _DEEP and bool((self.cells.of_leaf < 0).any())

    def _in_turn(self, cells: sparse.csr_array, shown: sparse.csr_array, left: sparse.csr_array) -> sparse.csr_array:
        """Return known sums, and those that follow by subtracting one of them, or a cell, from another, twice over.

        With a total, a region and an area that does not overlap it, the rest of the total is known, and is in neither table.
        Cells that cover the total, less the total, give their overlap.
        """
        for _ in range(2):
            known = sparse.csr_array(sparse.vstack([shown, left]))
            if known.shape[0] > 4 * _DEEP:
                break
            size = np.diff(known.indptr)
            common = sparse.coo_array(known @ known.T)
            whole, part = common.coords
            nested = (common.data == size[part]) & (size[part] < size[whole])
            more = sparse.csr_array(known[whole[nested]] - known[part[nested]])
            more.eliminate_zeros()
            more = _new(sparse.csr_array(sparse.vstack([cells, left])), more)
            if not more.shape[0]:
                break
            left = sparse.csr_array(sparse.vstack([left, more]))
        return left


def _new(known: sparse.csr_array, rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows of leaves that are not known, each once."""
    together = sparse.csr_array(sparse.vstack([known, rows]))
    together.sort_indices()
    _, first = np.unique(set_codes(together), axis=0, return_index=True)
    return sparse.csr_array(together[np.sort(first[first >= known.shape[0]])])


def remainders(cells: Cells) -> tuple[Whole, Whole]:
    """Return pairs of cells, the second inside the first, whose difference is no sum of cells.

    They occur in linked tables that cut across each other: a region, and an area inside it from a table of areas alone. The
    region without the area is in neither table, but follows from the two.
    """
    unseen = np.asarray(cells.incidence @ (cells.of_leaf < 0).astype(np.float64))
    if not unseen.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind, size = _kinds(cells), cells.sizes
    common = sparse.coo_array(cells.incidence @ cells.incidence.T)
    whole, part = (c.astype(np.int64) for c in common.coords)
    apart = np.ones(int(kind.max()) + 1, bool)
    apart[kind[whole[(kind[whole] == kind[part]) & (whole != part)]]] = False  # kinds whose cells overlap
    nested = (common.data == size[part]) & (size[part] < size[whole])
    whole, part = whole[nested], part[nested]
    # where all cells of the part's kind make up the whole, the difference is the sum of the others
    key = whole * len(apart) + kind[part]
    _, at = np.unique(key, return_inverse=True)
    made = np.bincount(at.ravel(), size[part])[at.ravel()] == size[whole]
    odd = ~(made & apart[kind[part]]) & (unseen[whole] > unseen[part])
    return whole[odd], part[odd]


def differences(cells: Cells, whole: Whole, part: Whole) -> sparse.csr_array:
    """Return cells less the cells inside them, as rows of leaves."""
    rows = sparse.csr_array(cells.incidence[whole] - cells.incidence[part])
    rows.eliminate_zeros()
    return rows


def _kinds(cells: Cells) -> Whole:
    """Return the kind of each cell, equal for cells whose labels are on the same levels; shape (cells,)."""
    levels = np.column_stack([_depth(cells, d) for d in range(len(cells.dimensions))])
    return np.asarray(np.unique(levels, axis=0, return_inverse=True)[1].ravel(), np.int64)


def _depth(cells: Cells, dimension: int) -> Whole:
    """Return the level of each cell's label in a dimension: 0 for the total, 1 for the coarsest labels; shape (cells,)."""
    labels, place = np.unique(cells.labels[:, dimension].astype(str), return_inverse=True)
    place = place.ravel()
    if len(labels) == 1:
        return np.zeros(len(cells), np.int64)
    which = sparse.csr_array((np.ones(len(cells)), (place, np.arange(len(cells)))), shape=(len(labels), len(cells)))
    leaves = sparse.csr_array(which @ cells.incidence)
    leaves.data[:] = 1.0
    common = sparse.coo_array(leaves @ leaves.T)
    size = np.diff(leaves.indptr)
    inner, outer = common.coords
    within = (common.data == size[inner]) & (size[inner] < size[outer]) & (labels[outer] != TOTAL)
    depth = 1 + np.bincount(inner[within], minlength=len(labels))
    depth[labels == TOTAL] = 0
    return np.asarray(depth[place], np.int64)
