"""Contributors as attackers: each knows what it gave itself, and the whole of a leaf in which it is alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.exact import Demand
from sfumato.tables.suppression.fast import Clock
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.repair import Repair
from sfumato.tables.suppression.sparse_witness import SparseFreedom
from sfumato.tables.suppression.witness import Freedom

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_PART = 0.1
"""The part of a protection level that must hold against a contributor who also knows the leaves in which it is alone."""


@dataclass(frozen=True, eq=False)
class Insider:
    """One contributor, and the secrets that it might come too close to."""

    alone: Whole
    """Leaves in which there is nobody else."""
    targets: Whole
    """Positions in `problem.targets`."""


@dataclass(frozen=True, eq=False)
class Insiders:
    """All contributors of a table, in the leaves of a problem."""

    grossed: sparse.csr_array
    """Leaves × contributors."""
    _ways: dict[tuple[bytes, int, int], Whole] = field(default_factory=dict)
    """What moves on the ways that were found, by the leaves that somebody knows, the secret, and up or down."""

    def close(self, problem: Problem, hidden: Flags, freedom: Freedom | SparseFreedom) -> tuple[list[Insider], int]:
        """Return the contributors that the freedom of a pattern does not prove to stay away from secrets, and how many are alone.

        A contributor that is alone in leaves knows them: directions in which they move are no freedom to it.
        """
        targets = problem.targets
        who, holders = self._first(problem, targets)
        single = np.flatnonzero(np.diff(self.grossed.indptr)[freedom.free] == 1)
        if not len(single):
            return [], 0
        gain, size, dots, inner = freedom.pull(targets, single)
        need = _PART * np.maximum(np.maximum(problem.upper, problem.lower), problem.width / 2)[targets]
        need = np.ceil(need - 1e-9).clip(1) if problem.integer else need
        person = self.grossed.indices[self.grossed.indptr[freedom.free[single]]]
        order = np.argsort(person, kind="stable")
        people, first = np.unique(person[order], return_index=True)
        found = []
        for one, own in zip(people, np.split(order, first[1:]), strict=True):
            loss = _loss(dots[:, own], inner[np.ix_(own, own)])
            with np.errstate(invalid="ignore", divide="ignore"):
                # taking a direction out makes no scaled step longer than by the length taken out
                reach = (gain - loss) / (size + np.sqrt(loss))
            near = (reach < need) | (gain - loss <= 1e-9 * gain)
            near &= ((loss > 1e-9 * gain) | (gain == 0)) & ((holders > 1) | (who != one))
            if not near.any():
                continue
            at = np.flatnonzero(near)
            ways = freedom.reach_apart(targets[at], single[own], hidden)
            blocked = (np.minimum(*ways) < need[at]) | ((gain - loss)[at] <= 1e-9 * gain[at])
            if blocked.any():
                found.append(Insider(freedom.free[single[own]], at[blocked]))
        return found, len(people)

    def _first(self, problem: Problem, targets: Whole) -> tuple[Whole, Whole]:
        """Return a contributor to each secret, and how many there are."""
        rows = sparse.csr_array(problem.rows[targets] @ abs(self.grossed))
        holders = np.diff(rows.indptr)
        who = np.full(len(targets), -1, np.int64)
        some = holders > 0
        who[some] = rows.indices[rows.indptr[:-1][some]]
        return who, holders

    def widen(self, problem: Problem, hidden: Flags, close: list[Insider], clock: Clock) -> Flags:
        """Return a pattern in which secrets can move although contributors know leaves; the same where they can already."""
        hidden = hidden.copy()
        repair = Repair(problem)
        for insider in close:
            clock.look()
            still = problem.alone[insider.alone]
            for place in insider.targets:
                target = int(problem.targets[place])
                for side, need in _needs(problem, target):
                    key = insider.alone.tobytes(), target, side
                    if key in self._ways and hidden[self._ways[key]].all():
                        continue
                    if (way := repair.way(target, side * need, hidden, still)) is not None:
                        self._ways[key] = np.flatnonzero(way)
                        hidden[self._ways[key]] = True
        return hidden

    def demands(self, problem: Problem, hidden: Flags, close: list[Insider]) -> list[Demand]:
        """Return what must hold against contributors that are close, and does not."""
        repair, found = Repair(problem), []
        everything = ~problem.fixed
        for insider in close:
            still = problem.alone[insider.alone]
            for place in insider.targets:
                target = int(problem.targets[place])
                for side, need in _needs(problem, target):
                    way = repair.way(target, side * need, hidden, still)
                    met = way is not None and hidden[way != 0].all()
                    if not met and repair.way(target, side * need, everything, still) is not None:
                        found.append(Demand(target, (side,), need, still))
        return found


def _needs(problem: Problem, target: int) -> list[tuple[int, float]]:
    """Return how far up and down a secret must be able to move against contributors who know leaves."""
    found = []
    for side, level in ((1, problem.upper[target]), (-1, problem.lower[target])):
        need = _PART * max(float(level), float(problem.width[target]) / 2)
        if need > 0:
            found.append((side, max(float(np.ceil(need - 1e-9)), 1.0) if problem.integer else need))
    return found


def _loss(dots: Numbers, inner: Numbers) -> Numbers:
    """Return how much squared length directions lose when some leaves stand still, shape (targets,)."""
    if len(inner) == 1:
        length = float(inner[0, 0])
        return np.asarray(dots[:, 0] ** 2 / length) if length > 1e-12 else np.zeros(len(dots))
    inverse = np.linalg.pinv(inner, rcond=1e-10, hermitian=True)
    return np.asarray(np.maximum(((dots @ inverse) * dots).sum(axis=1), 0.0))
