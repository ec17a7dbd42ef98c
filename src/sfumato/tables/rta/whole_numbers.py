"""Attackers who know that contributions are whole numbers: how much more noise it takes to leave them as much doubt.

Around a whole number, a normal law on whole numbers with the parameter p has the variance

    V(p) = Σ k² q^(k²) / Σ q^(k²),  q = exp(-1/2p),

which is p where p is large, and next to nothing where it is small: who knows a contribution to within 0.3 and that it is whole
knows it. A leaf's total is whole, too, so that the doubt about a contribution has several parts (about the total, given what is
published; about who gave how much of it, given the total), and each of them may fall on whole numbers. Asked for is the p with

    min over a₁ + … + a_k = p of V(a₁) + … + V(a_k) = w²,

one part where nobody but an attacker shares the leaf, up to three otherwise; w² + 0.09 (k - 1) where w² is large. The tests
enumerate what attackers find in small leaves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.rta.knowledge import Knowledge

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_GRID = np.linspace(0.0, 4.0, 4001)
_MOST_PARTS = 3
_ROOM = 0.9
"""Which share of what is unknown beforehand may be asked for: beyond it noise grows without end."""


def whole_variance(p: Numbers) -> Numbers:
    """Return V(p), the variance of a normal law on whole numbers around one of them.

    >>> whole_variance(np.array([0.09, 0.25, 4.0])).round(4).tolist()
    [0.0077, 0.215, 4.0]
    """
    k2 = np.arange(1, 30) ** 2
    small = np.clip(p, 1e-3, _GRID[-1])
    q = np.exp(-k2 / (2 * small[..., None]))
    found = 2 * (k2 * q).sum(axis=-1) / (1 + 2 * q.sum(axis=-1))
    return np.where(p >= _GRID[-1], p, np.minimum(np.where(p <= 1e-3, 0.0, found), p))


@cache
def _least(parts: int) -> Numbers:
    """Return the least sum of V over so many parts of each number of the grid."""
    alone = whole_variance(_GRID)
    if parts == 1:
        return alone
    rest = _least(parts - 1)
    return np.array([(alone[: i + 1] + rest[i::-1]).min() for i in range(len(_GRID))])


def for_whole_numbers(required: Numbers, parts: int = 1) -> Numbers:
    """Return the posterior variance to ask for, so that somebody who knows a contribution to be whole is left `required`.

    >>> for_whole_numbers(np.array([0.0, 0.0225, 4.5])).round(3).tolist()
    [0.0, 0.112, 4.5]
    """
    least = _least(parts)
    found = _GRID[np.minimum(np.searchsorted(least, required), len(_GRID) - 1)]
    return np.where(required <= 0, 0.0, np.where(required > least[-1], required + (_GRID[-1] - least[-1]), found))


def on_whole_numbers(known: Knowledge) -> Knowledge:
    """Return what to ask for on behalf of whole numbers; nothing for those whom attackers know too well as it is."""
    crowd = np.diff(known.loading.indptr) - 1
    rows = np.repeat(np.arange(len(crowd)), np.diff(known.loading.indptr))
    parts = np.ones(len(known), np.int64)
    np.maximum.at(parts, known.loading.indices, crowd[rows])
    parts[known.leaves_of > 1] = _MOST_PARTS
    parts = np.minimum(parts, _MOST_PARTS)
    wanted = np.zeros(len(known))
    for k in range(1, _MOST_PARTS + 1):
        wanted = np.where(parts == k, for_whole_numbers(known.required, k), wanted)
    v = np.where(np.isinf(known.given_variance), np.inf, whole_variance(known.given_variance))
    possible = for_whole_numbers(known.required, 1) <= _ROOM * v
    return replace(known, given_variance=v, required=np.where(possible, np.minimum(wanted, _ROOM * v), 0.0))
