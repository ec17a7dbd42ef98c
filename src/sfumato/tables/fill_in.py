"""Values for the parts that linked tables cut each other into, where only their sums are known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_ROUNDS = 500


class Contradiction(Exception):  # noqa: N818 - what was found, not an error of ours
    """No values have these sums; `cells` are some that cannot all be right, as (table, finest cell)."""

    def __init__(self, cells: list[tuple[int, int]]) -> None:
        super().__init__("no values have these sums")
        self.cells = cells


def fill_in(members: Sequence[Whole], values: Sequence[Numbers], leaves: int, half: float = 0.0) -> Numbers:
    """Return values of the leaves, none below zero, that have the right sum in every finest cell of every table.

    `members` says for each table in which of its finest cells a leaf is, -1 for none. Many values would do, and only their sums
    are ever published. The evenest come first (iterative proportional fitting, Deming and Stephan 1940); where some leaves can
    only be zero although no cell says so, these are approached too slowly, and a linear program finds others.

    Values that were rounded by up to `half` each need not agree: what n cells add up to, that are the same taken together as
    other m, may differ by n + m halves.
    """
    x = _evenest(members, values, leaves)
    rooms = _together(members, [len(v) for v in values]) if half else [np.zeros(len(v)) for v in values]
    for member, wanted, room in zip(members, values, rooms, strict=True):
        total = np.bincount(member[member >= 0], x[member >= 0], len(wanted))
        if (np.abs(total - wanted) > 1e-10 * wanted + half * room).any():
            return _any(members, values, leaves, half)
    return x


def _evenest(members: Sequence[Whole], values: Sequence[Numbers], leaves: int) -> Numbers:
    x = np.ones(leaves)
    before = np.inf
    for _ in range(_ROUNDS):
        worst = 0.0
        for member, wanted in zip(members, values, strict=True):
            within = member >= 0
            total = np.bincount(member[within], x[within], len(wanted))
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = max(worst, float(np.abs(np.where(wanted > 0, total / wanted - 1, 0.0)).max(initial=0)))
                factor = np.where(total > 0, wanted / total, 0.0)
            x = np.where(within, x * factor[member], 0.0)
        if worst <= 1e-14 or abs(worst - before) <= 1e-6 * worst:  # there, or nearly at a standstill
            break
        before = worst
    return x


def _any(members: Sequence[Whole], values: Sequence[Numbers], leaves: int, half: float) -> Numbers:
    """Return some values with these sums, by a linear program for the least changes that make the sums possible."""
    from scipy.optimize import linprog

    wanted = np.concatenate(values)
    scale = max(float(wanted.max(initial=0.0)) / 1e3, 1e-300)
    rows = sparse.vstack([
        sparse.csr_array((np.ones(int((m >= 0).sum())), (m[m >= 0], np.flatnonzero(m >= 0))), shape=(len(v), leaves))
        for m, v in zip(members, values, strict=True)
    ])  # fmt: skip
    change = sparse.eye_array(len(wanted))
    found = linprog(
        np.concatenate([np.zeros(leaves), np.ones(2 * len(wanted))]),
        A_ub=sparse.vstack([sparse.hstack([rows, change, -change]), sparse.hstack([-rows, -change, change])], format="csr"),
        b_ub=np.concatenate([wanted + half, half - wanted]) / scale,
        bounds=(0, None), method="highs-ds", options={"primal_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    if found.status == 0 and float(found.fun or 0.0) <= 1e-6:
        return np.asarray(np.asarray(found.x)[:leaves] * scale, np.float64)
    # the sums that limit the changes, by the dual solution, contradict each other (Farkas' lemma)
    binding = np.zeros(0) if found.status else np.abs(found.ineqlin.marginals.reshape(2, -1)).max(axis=0) > 1e-7
    table = np.repeat(np.arange(len(values)), [len(v) for v in values])
    place = np.concatenate([np.arange(len(v)) for v in values])
    raise Contradiction([(int(table[i]), int(place[i])) for i in np.flatnonzero(binding)])


def _together(members: Sequence[Whole], sizes: Sequence[int]) -> list[Numbers]:
    """Return for each finest cell how many there are that it is tied to by overlapping, itself among them."""
    from scipy.sparse.csgraph import connected_components

    starts = np.cumsum([0, *sizes])
    pairs = [
        np.stack([a + starts[i], b + starts[i + 1]])[:, (a >= 0) & (b >= 0)]
        for i, (a, b) in enumerate(pairwise(members))
    ]
    one, other = np.concatenate(pairs, axis=1)
    n = int(starts[-1])
    _, group = connected_components(sparse.coo_array((np.ones(len(one)), (one, other)), shape=(n, n)), directed=False)
    tied = np.bincount(group)[group].astype(np.float64)
    return np.split(tied, starts[1:-1])
