"""Equivalence classes: which records agree on several columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROOM = 2**62


def classes(columns: Sequence[NDArray[Any]], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each record's class, shape (n,), and the size of each class; records agree on all columns (codes from -1 up).

    Exact: codes are packed into one whole number, and packed anew whenever there is no room for another column.
    """
    from sfumato.kernels.sorting import whole_number_runs  # brings the compiler, which only those who count need

    packed, room = np.zeros(n, np.int64), 1
    for k, codes in enumerate(columns):
        levels = int(codes.max(initial=-1)) + 2
        # each record may be alone by the first column, so that the others change nothing
        if k == 0 and n < levels <= 4 * n + 1024:
            sizes = np.bincount(codes + 1, minlength=levels)
            if sizes.max() == 1:
                dense = levels == n + 1 and not sizes[0]
                return codes.astype(np.int64) if dense else (np.cumsum(sizes) - 1)[codes + 1], np.ones(n, np.int64)
        if room > _ROOM // levels:
            packed = whole_number_runs(packed)[1]
            room = int(packed.max(initial=0)) + 1
        packed = packed * levels + (codes + 1)
        room *= levels
    if room <= 4 * n + 1024:
        sizes = np.bincount(packed, minlength=room)
        used = np.flatnonzero(sizes)
        place = np.full(room, -1, np.int64)
        place[used] = np.arange(len(used))
        return place[packed], sizes[used]
    _, labels, sizes = whole_number_runs(packed)
    return labels, sizes


def find_rows(table: Sequence[NDArray[Any]], columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return for each record the row of a table of distinct code combinations that it agrees with, -1 where none does.

    `table` has columns of shape (c,), `columns` of shape (n,); codes are from -1 up.
    """
    return row_finder(table)(columns)


def row_finder(table: Sequence[NDArray[Any]]) -> Callable[[Sequence[NDArray[Any]]], NDArray[np.int64]]:
    """Return `find_rows` of one table, for several sets of records: what depends on the table alone is worked out once."""
    steps, row = [], np.zeros(len(table[0]), np.int64)
    for ours in table:
        levels = int(ours.max(initial=-1)) + 2
        packed = row * levels + (ours + 1)  # at most c × levels: fits
        known = np.unique(packed)
        row = np.searchsorted(known, packed)
        steps.append((levels, _locator(known)))
    place = np.full(len(row) + 1, -1, np.int64)
    place[row] = np.arange(len(row))

    def find(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        found = np.zeros(len(columns[0]), np.int64)
        for (levels, locate), theirs in zip(steps, columns, strict=True):
            wanted = found * levels + (theirs + 1)
            found = locate(np.where((found >= 0) & (theirs + 1 < levels), wanted, -1))
        return np.asarray(place[found])

    return find


def _locator(known: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the place of numbers among known ones, which are sorted and not negative; -1 where they are not there."""
    if not len(known):
        return lambda wanted: np.full(len(wanted), -1)
    last = int(known[-1])
    if last < 8 * len(known) + 1024:  # a table is faster than a search
        places = np.full(last + 2, -1, np.int64)  # its last entry is that of -1 and of what is past the end
        places[known] = np.arange(len(known))
        return lambda wanted: np.asarray(places[np.minimum(wanted, last + 1)])

    def search(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[at] == wanted, at, -1)

    return search


def number_codes(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return codes of numbers by value, -1 for NaN."""
    _, codes = np.unique(numbers, return_inverse=True, equal_nan=True)
    return np.where(np.isnan(numbers), -1, codes)
