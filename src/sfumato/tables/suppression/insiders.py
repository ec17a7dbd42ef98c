"""Contributors as attackers: each knows every leaf in which it is alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.tables.knowledge import single_contributors
from sfumato.tables.suppression.exact import Demand
from sfumato.tables.suppression.heuristic import Clock, Repair
from sfumato.tables.suppression.problem import SuppressionProblem
from sfumato.tables.suppression.proof import PatternCheck, Pull, bounded_sums, room_of
from sfumato.typing import Flags, Numbers, Whole

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
        return single_contributors(self.grossed)

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
                if (way := repair.way(int(target), side * need, hidden, free=True)) is None:
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
