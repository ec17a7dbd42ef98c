"""Pairs of units of one class that have different values."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]


@numba.njit(cache=True, nogil=True)
def _pairs(queue, label, cell, pool, begins, left, uniforms, pairs, partner):  # type: ignore[no-untyped-def]
    place = np.empty(pool.size, np.int64)
    sizes = np.empty(begins.size - 1, np.int64)
    for c in range(sizes.size):
        sizes[c] = begins[c + 1] - begins[c]
    for i in range(pool.size):
        place[pool[i]] = i
    done = 0
    for i in queue:
        if done == pairs:
            break
        c = label[i]
        if partner[i] != i or sizes[c] == left[cell[i]]:
            continue
        _drop(pool, place, i, begins[c], sizes, c)
        at = int(uniforms[i] * sizes[c])
        while cell[pool[begins[c] + at]] == cell[i]:
            at = (at + 1) % sizes[c]
        j = pool[begins[c] + at]
        _drop(pool, place, j, begins[c], sizes, c)
        left[cell[i]] -= 1
        left[cell[j]] -= 1
        partner[i], partner[j] = j, i
        done += 1


@numba.njit(cache=True, nogil=True, inline="always")
def _drop(pool, place, i, begin, sizes, c):  # type: ignore[no-untyped-def]
    last = pool[begin + sizes[c] - 1]
    pool[place[i]], place[last] = last, place[i]
    sizes[c] -= 1


def pairs_of_different(
    queue: Rows, label: Rows, cell: Rows, pool: Rows, uniforms: NDArray[np.float64], pairs: int
) -> Rows:
    """Return for each unit the one it is paired with, itself if none; at most so many pairs are made.

    Units come in the order of `queue`. Each that is still free is paired with a free unit of the same class (`label`, from 0)
    whose `cell` (class and value, from 0) is another. `pool` holds all units class by class, in random order inside a class:
    the search starts at a random place and goes round, so every candidate has the same chance.
    """
    begins = np.concatenate([[0], np.cumsum(np.bincount(label))]).astype(np.int64)
    partner = np.arange(len(label))
    _pairs(queue, label, cell, pool.copy(), begins, np.bincount(cell), uniforms, pairs, partner)
    return partner
