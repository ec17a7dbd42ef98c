"""Noise that is surely enough for contributors in several leaves, without linear algebra: where to begin, and the last resort."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.rta.knowledge import Knowledge
from sfumato.tables.rta.near_attackers import near_of
from sfumato.tables.rta.one_leaf import one_leaf

Numbers = NDArray[np.float64]
_MARGIN = 1e-9


def first_noise(known: Knowledge, required: Numbers, least: Numbers, price: Numbers) -> Numbers:
    """Return cheap noise, at least `least`, under which unknowns in several leaves are nearly safe from who knows all others.

    What he learns of h is Σ m²/(cover + noise) over its leaves, linear in u = 1/(cover + noise); Σ price/u is minimised.
    """
    from sfumato.kernels.noisy_pairs import pack, typed

    spread = np.maximum(known.spread, 1e-300)
    cover = np.maximum(_own_cover(known), 0.02 * spread)
    several = np.flatnonzero((required > 0) & (known.leaves_of > 1))
    part = known.by_unknown[:, several]
    high = 1.0 / (cover + least)
    start, row = typed(part.indptr, part.indices)
    room = 1.0 / required[several] - 1.0 / known.variance[several]
    u = pack(start, row, part.data**2, room, price, 1e-9 * high, high, np.zeros(len(several)), 20)
    return np.where(known.spread > 0, np.maximum(1.0 / u - cover, least), 0.0)


def surely_enough(known: Knowledge, required: Numbers, omega: Numbers) -> Numbers:
    """Return noise, raised where need be, that protects everybody from somebody who knows all others in several leaves.

    Leaves are then apart, and the precision of h is 1/v + Σ m²/(cover + noise): cover + noise is multiplied where need be.
    More knowledge only lowers what is left, so that everybody is protected from every true attacker.
    """
    several, spread = known.leaves_of > 1, np.maximum(known.spread, 1e-300)
    apart = replace(
        known, given_variance=np.where(several, 0.0, known.variance), required=np.where(several, 0.0, required)
    )
    omega = np.maximum(omega, (1.0 + _MARGIN) * one_leaf(apart)[0])
    targets = np.flatnonzero((required > 0) & several)
    part, cover = known.by_unknown[:, targets], _own_cover(known)
    most = np.where(known.spread > 0, np.maximum(cover + omega, 1e-9 * spread), 1.0)
    room = 1.0 / required[targets] - 1.0 / known.variance[targets]
    times = np.maximum(np.asarray(part.power(2).T @ (1.0 / most)) / room * (1.0 + _MARGIN), 1.0)
    factor = np.ones(len(omega))
    np.maximum.at(factor, part.indices, np.repeat(times, np.diff(part.indptr)))
    return np.maximum(omega, np.where(factor > 1.0, factor * most - cover, 0.0))


def _own_cover(known: Knowledge) -> Numbers:
    """Return the prior variance of each leaf from unknowns in no other, but for the side that knows most of it."""
    return near_of(known, np.zeros(known.loading.shape[0])).rest
