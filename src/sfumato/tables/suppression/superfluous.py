"""Cells that need not be hidden after all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.suppression.checking import Check, enough, short, whole
from sfumato.tables.suppression.fast import Clock, OutOfTime
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.suppression.witness import Freedom

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_MOST = 64
"""So many secrets are looked at one by one for a cell; with more in doubt the cell stays hidden."""


_TRIES = 100
"""So many of the dearest cells are tried."""
_LITTLE = 1e-2
"""A secret whose freedom shrinks by less than this share is taken to stay safe until the pattern is checked again."""


def show_superfluous(found: Check, clock: Clock) -> Flags:
    """Return the pattern without cells that the proofs of `Freedom` do not need, the dearest first.

    Showing a cell takes the direction in which it moves out of the freedom: a projection, for all secrets at once. Secrets
    that linear programs proved are not looked at, so the pattern must be checked again.
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
    gone = np.zeros((len(maybe), moves.shape[1]))  # directions that are shown again, orthonormal, as far as there are
    rows = sparse.csr_array(problem.rows[:, freedom.free])
    count = 0
    for cell in maybe:
        try:
            clock.look()
        except OutOfTime:
            break
        inside = rows.indices[rows.indptr[cell] : rows.indptr[cell + 1]]
        way = freedom.radius[inside] @ freedom.basis[inside]
        for _ in range(2):  # twice, since rounding may leave something
            way -= (gone[:count] @ way) @ gone[:count]
        length = float(way @ way)
        if length <= 1e-18 * (1 + float(problem.value[cell]) ** 2):
            hidden[cell] = False  # it follows from what is shown anyway
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
            if _fails(problem, freedom, targets[doubtful], rest, without):
                continue
        hidden, gain = without, left
        gone[count] = way / np.sqrt(length)
        count += 1
    return hidden


def _fails(problem: Problem, freedom: Freedom, targets: Whole, moves: Numbers, hidden: Flags) -> bool:
    up, down = whole(problem, targets, *freedom.reach(targets, hidden, moves))
    return bool(short(problem, targets, up, down).any())
