"""Which points nobody beats, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_TOGETHER = 10
"""From so many releases on, what is common to all recipes (the same resampled records) can be told from chance."""


def non_dominated(risk: Numbers, utility: Numbers) -> Flags:
    """Return which points no other point beats: no more risk and no less utility, and one of the two better; (..., q).

    >>> non_dominated(np.array([1.0, 2.0, 3.0, 3.0]), np.array([1.0, 3.0, 2.0, 3.0])).tolist()
    [True, True, False, False]
    """
    order = np.lexsort((-utility, risk), axis=-1)
    r, u = np.take_along_axis(risk, order, -1), np.take_along_axis(utility, order, -1)
    before = np.maximum.accumulate(u, axis=-1)
    best = np.concatenate([np.full((*u.shape[:-1], 1), -np.inf), before[..., :-1]], axis=-1)
    # sorted by risk, then by falling utility: a point is beaten by an earlier one, unless that one is its equal in both
    kept = u > best
    for i in range(1, u.shape[-1]):
        kept[..., i] |= kept[..., i - 1] & (r[..., i] == r[..., i - 1]) & (u[..., i] == u[..., i - 1])
    out = np.empty_like(kept)
    np.put_along_axis(out, order, kept, -1)
    return out


def reweighted(
    measure: Measure, observed: Sequence[Numbers], groups: Sequence[str], generator: np.random.Generator, draws: int
) -> Numbers:
    """Return the measure at every point as it might have come out, shape (draws, q): a Bayesian bootstrap of the releases.

    `observed` holds each point's observations, shape (m, k). Points of one group (a recipe) were masked with the same seeds, so
    their releases get the same weights, and what they have in common cancels. Weights of m releases vary too little by the
    factor √((m - 1)/(m + 1)), which is put right; on the logarithm where values are positive.
    """
    weights: dict[object, Numbers] = {}
    columns = []
    for o, group in zip(observed, groups, strict=True):
        m = len(o)
        key = m if m >= _TOGETHER else (group, m)
        if key not in weights:
            weights[key] = generator.dirichlet(np.ones(m), draws)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(measure.value(o.mean(axis=0)))
            drawn = np.asarray(measure.value(weights[key] @ o), np.float64)
        wider = np.sqrt((m + 1) / (m - 1)) if m > 1 else 1.0
        if value > 0 and (drawn > 0).all() and np.isfinite(drawn).all():
            columns.append(value * (drawn / value) ** wider)
        else:
            columns.append(value + wider * (drawn - value) if np.isfinite(value) else np.full(draws, value))
    return np.column_stack(columns)
