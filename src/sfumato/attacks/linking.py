"""Linking each target to the released records that are nearest to what is known of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.known import Key, Known
from sfumato.contract import Guesses
from sfumato.kernels.classes import classes, number_codes
from sfumato.kernels.nearest_by_class import nearest_by_class
from sfumato.kernels.nearest_rows import GAP, Metric, distances

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def link(
    known: Known, keys: tuple[Key, ...], metric: Metric, reach: tuple[Numbers, Numbers] | None = None
) -> tuple[Guesses, Numbers, Numbers]:
    """Link every target to the nearest released record; return the guesses, the distance of each link, and the ties, (m,).

    The snooper is surest of the shortest links, of equally short ones where he sees the fewest ties. Records that tie share the
    probability of being right; a target that has no record within reach is not linked (guess -1), and neither that nor the link
    of a person who was not released can be right. Records and targets that are the same are looked for once.
    """
    rows, targets = (_matrix([getattr(k, side) for k in keys]) for side in ("released", "known"))
    own, count = known.own, len(rows)
    place, first_row, sizes = _distinct(rows)
    wanted, first_target, _ = _distinct(targets if reach is None else np.hstack([targets, *reach]))
    hint = own[first_target]
    hint = np.where(hint < 0, -1, place[hint]) if count else hint
    near = None if reach is None else (reach[0][first_target], reach[1][first_target])
    found = nearest_by_class(rows[first_row], targets[first_target], metric, sizes.astype(np.float64), hint, near)
    distance, ties, nearest = found.distance[wanted], found.ties[wanted], found.row[wanted]
    guess = np.where(nearest < 0, -1, known.released[first_row[nearest]]) if count else nearest
    right = np.zeros(len(targets))
    inside = np.flatnonzero(own >= 0)
    part = None if reach is None else (reach[0][inside], reach[1][inside])
    true = distances(rows[own[inside]], targets[inside], metric, part)
    hit = np.isfinite(true) & (true == distance[inside])
    right[inside[hit]] = 1 / ties[inside[hit]]
    chance = np.where(own >= 0, 1 / max(count, 1), 0.0)
    return Guesses(known.targets, guess, known.targets, right, chance, -_order(distance, ties)), distance, ties


def _order(distance: Numbers, ties: Numbers) -> Numbers:
    """Return the places of the links by distance, then by ties; equal ones have one place."""
    order = np.lexsort([ties, distance])
    changes = (distance[order][1:] != distance[order][:-1]) | (ties[order][1:] != ties[order][:-1])
    place = np.zeros(len(order))
    place[order[1:]] = np.cumsum(changes)
    return place


def _matrix(columns: list[Numbers]) -> Numbers:
    matrix = np.column_stack(columns)
    matrix[np.isnan(matrix)] = GAP
    return matrix


def _distinct(matrix: Numbers) -> tuple[Rows, Rows, Rows]:
    """Return which distinct row each row is, one row number for each distinct one, and how often it occurs."""
    labels, sizes = classes([number_codes(column) for column in matrix.T], len(matrix))
    first = np.empty(len(sizes), np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    return labels, first, sizes
