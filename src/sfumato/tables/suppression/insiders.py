"""Contributors as attackers: each knows what it gave itself, and the whole of a leaf in which it is alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.checking import TOLERANCE, Check
from sfumato.tables.suppression.fast import Clock
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.repair import Repair
from sfumato.tables.suppression.witness import Freedom

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SHARE = 0.2
"""A contributor with more than this share of a leaf is taken to know it, until linear programs look closer."""


@dataclass(frozen=True, eq=False)
class Insider:
    """One contributor, and the secrets that it might come too close to."""

    own: Numbers
    """What it gave to each leaf, shape (leaves,)."""
    alone: Whole
    """Leaves in which there is nobody else."""
    targets: Whole
    """Positions in `problem.targets`."""
    scale: Numbers
    """The share of the protection level that holds against it, shape (targets,)."""


@dataclass(frozen=True, eq=False)
class Insiders:
    """All contributors of a table, in the leaves of a problem."""

    grossed: sparse.csr_array
    """Leaves × contributors."""
    nonnegative: bool

    def failing(self, problem: Problem, hidden: Flags, found: Check) -> tuple[list[Insider], int]:
        """Return the contributors who come closer to secrets than they may, and how many were looked at.

        Against a contributor the largest of the others is to be protected. Where the largest contribution of all is its own,
        protection levels shrink in proportion: they are percentages of what is to be protected.
        """
        suspects, count = self._suspects(problem, hidden, found.freedom)
        bad = []
        for s in suspects:
            attacker = problem.attacker(hidden, s.alone, s.own if self.nonnegative else None)
            rows = sparse.csr_array(problem.rows[problem.targets[s.targets]])
            low, high = attacker.bounds_of(rows)
            short = _short(problem, problem.targets[s.targets], s.scale, high, -low)
            if short.any():
                bad.append(Insider(s.own, s.alone, s.targets[short], s.scale[short]))
        return bad, count

    def _suspects(self, problem: Problem, hidden: Flags, freedom: Freedom) -> tuple[list[Insider], int]:
        """Return the contributors and secrets that the freedom of a pattern does not prove to be safe from each other."""
        targets = problem.targets
        moves = freedom.moves(targets)
        gain = (moves**2).sum(axis=1)
        up, down = freedom.reach(targets, hidden)
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.where(gain > 0, gain / np.minimum(up, down), np.inf)  # of the longest scaled step on the best way
        need = np.maximum(np.maximum(problem.upper, problem.lower), problem.width / 2)[targets]
        need = np.ceil(need - 1e-9).clip(1) if problem.integer else need
        largest, second, who, holders = self._largest(problem, targets)
        own = sparse.csc_array(self.grossed[freedom.free])
        totals = np.asarray(self.grossed.sum(axis=1)).ravel()[freedom.free]
        many = np.diff(self.grossed.indptr)[freedom.free] > 1
        along = freedom.basis
        dots = moves @ along.T
        found: list[Insider] = []
        count = 0
        for person in np.flatnonzero(np.diff(own.indptr)):
            column = slice(own.indptr[person], own.indptr[person + 1])
            leaves, amounts = own.indices[column], own.data[column]
            count += 1
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(totals[leaves] != 0, np.abs(amounts / totals[leaves]), 0.0)
            alone = ~many[leaves]
            still = leaves[alone | (share > _SHARE)]
            slack = 1 - float(share[~alone & (share <= _SHARE)].max(initial=0.0))
            loss = _loss(dots[:, still], along[still])
            with np.errstate(invalid="ignore", divide="ignore"):
                reach = slack * (gain - loss) / (size + np.sqrt(loss))
            scale = np.where(who == person, np.divide(second, largest, out=np.ones_like(second), where=largest > 0), 1.0)
            doubtful = np.flatnonzero((reach < scale * need * (1 + TOLERANCE)) | (gain - loss <= 1e-9 * gain))
            doubtful = doubtful[(loss[doubtful] > 0) & ((holders[doubtful] > 1) | (who[doubtful] != person))]
            if len(doubtful):
                whole_own = np.zeros(problem.rows.shape[1])
                whole_own[freedom.free[leaves]] = np.maximum(amounts, 0.0)
                found.append(Insider(whole_own, freedom.free[leaves[alone]], doubtful, scale[doubtful]))
        return found, count

    def _largest(self, problem: Problem, targets: Whole) -> tuple[Numbers, Numbers, Whole, Whole]:
        """Return the two largest contributions to every secret, whose the first is, and how many there are."""
        rows = sparse.csr_array(problem.rows[targets] @ abs(self.grossed))
        row = np.repeat(np.arange(len(targets)), np.diff(rows.indptr))
        order = np.lexsort((rows.indices, -rows.data, row))
        rank = np.arange(len(row)) - rows.indptr[row]
        first, second = np.zeros(len(targets)), np.zeros(len(targets))
        who = np.full(len(targets), -1, np.int64)
        at = order[rank == 0]
        first[row[rank == 0]], who[row[rank == 0]] = rows.data[at], rows.indices[at]
        second[row[rank == 1]] = rows.data[order[rank == 1]]
        return first, second, who, np.diff(rows.indptr)

    def repair(self, problem: Problem, hidden: Flags, bad: list[Insider], clock: Clock) -> Flags:
        """Return a pattern with more hidden, that gives contributors who come too close less to go by."""
        hidden = hidden.copy()
        repair = Repair(problem)
        for insider in bad:
            clock.look()
            still = problem.alone[insider.alone]
            for place, scale in zip(insider.targets, insider.scale, strict=True):
                target = int(problem.targets[place])
                before = int(hidden.sum())
                wide = problem.width[target] / 2
                for side, level in ((1, problem.upper[target]), (-1, problem.lower[target])):
                    need = scale * max(float(level), float(wide))
                    if problem.integer:
                        need = float(np.ceil(need - 1e-9))
                    least = 1.0 if problem.integer else 1e-3 * max(abs(float(problem.value[target])), 1e-6)
                    way = repair.way(target, side * (need if need > 0 else least), hidden, still)
                    if way is not None:
                        hidden |= way != 0
                if int(hidden.sum()) == before:
                    near = repair.around(target, 40)
                    hidden[near[~problem.fixed[near]]] = True
        return hidden


def _loss(dots: Numbers, along: Numbers) -> Numbers:
    """Return how much squared length directions lose when some leaves stand still, shape (targets,)."""
    if not len(along):
        return np.zeros(len(dots))
    if len(along) == 1:
        length = float(along[0] @ along[0])
        return dots[:, 0] ** 2 / length if length > 1e-12 else np.zeros(len(dots))
    inverse = np.linalg.pinv(along @ along.T, rcond=1e-10, hermitian=True)
    return np.maximum(((dots @ inverse) * dots).sum(axis=1), 0.0)


def _short(problem: Problem, targets: Whole, scale: Numbers, up: Numbers, down: Numbers) -> Flags:
    if problem.integer:
        up, down = np.floor(up + 1e-6), np.floor(down + 1e-6)
    missing = up + down <= TOLERANCE * np.abs(problem.value[targets])
    for got, need in ((up, problem.upper), (down, problem.lower), (up + down, problem.width)):
        missing |= got < scale * need[targets] * (1 - TOLERANCE)
    return missing


