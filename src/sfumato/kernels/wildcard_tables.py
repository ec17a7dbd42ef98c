"""Counts of values over matching rows where a missing value matches anything: a sparse table for each row."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.wildcards import by_pattern, match
from sfumato.kernels.wildcards import room as working_room

Counts = NDArray[np.int64]
Table = tuple[Counts, Counts, NDArray[np.int32], Counts]
"""Rows (r,), where the cells of each start (r + 1,), and the value and the count of each cell."""


@numba.njit(cache=True, nogil=True)
def _merged(row, next_row, cell_starts, values, counts, total, out_values, out_counts, at):  # type: ignore[no-untyped-def]
    """Add up the cells of a chain of rows, write them in order of value from `at` on, and return where they end."""
    first, single = at, next_row[row] < 0
    while row >= 0:
        for cell in range(cell_starts[row], cell_starts[row + 1]):
            value = values[cell]
            if total[value] == 0:
                out_values[at] = value
                at += 1
            total[value] += counts[cell]
        row = next_row[row]
    if not single:
        out_values[first:at] = np.sort(out_values[first:at])
    for cell in range(first, at):
        out_counts[cell] = total[out_values[cell]]
        total[out_values[cell]] = 0
    return at


@numba.njit(cache=True, nogil=True)
def _grouped(codes, parts, starts, p, cell_starts, values, counts, levels):  # type: ignore[no-untyped-def]
    """Group the rows of every pattern by the values that they can share with rows of pattern p.

    Returns for each row of p and each pattern the group that it matches, -1 if none, and the table of each group.
    """
    rows, keys = codes.shape
    patterns = len(starts) - 1
    first, last = starts[p], starts[p + 1]
    found = np.empty((last - first, patterns), np.int32)
    skipped, slots, group, matched = working_room(rows, keys)
    head, next_row = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    group_starts = np.zeros(rows + 1, np.int64)
    group_values, group_counts = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
    total = np.zeros(levels, np.int64)
    before, end = 0, 0
    for q in range(patterns):
        theirs = (starts[q], starts[q + 1])
        groups = match(codes, parts, (first, last), theirs, skipped, slots, group, matched)
        for row in range(theirs[0], theirs[1]):
            next_row[row] = head[before + group[row]]
            head[before + group[row]] = row
        for new in range(before, before + groups):
            end = _merged(head[new], next_row, cell_starts, values, counts, total, group_values, group_counts, end)
            group_starts[new + 1] = end
        for row in range(first, last):
            found[row - first, q] = before + matched[row] if matched[row] >= 0 else -1
        before += groups
    return found, group_starts, group_values, group_counts


@numba.njit(cache=True, nogil=True)
def _bounds(found, group_starts):  # type: ignore[no-untyped-def]
    """Return how many cells each row may have at most."""
    out = np.zeros(len(found), np.int64)
    for row in range(len(found)):
        for q in range(found.shape[1]):
            group = found[row, q]
            if group >= 0:
                out[row] += group_starts[group + 1] - group_starts[group]
    return out


@numba.njit(cache=True, nogil=True)
def _gathered(found, group_starts, group_values, group_counts, room, levels):  # type: ignore[no-untyped-def]
    """Add up the tables of the groups that each row matches."""
    starts = np.zeros(len(found) + 1, np.int64)
    values, counts = np.empty(room, np.int32), np.empty(room, np.int64)
    total = np.zeros(levels, np.int64)
    at = 0
    for row in range(len(found)):
        first, groups = at, 0
        for q in range(found.shape[1]):
            group = found[row, q]
            if group < 0:
                continue
            groups += 1
            for cell in range(group_starts[group], group_starts[group + 1]):
                value = group_values[cell]
                if total[value] == 0:
                    values[at] = value
                    at += 1
                total[value] += group_counts[cell]
        if groups > 1:
            values[first:at] = np.sort(values[first:at])
        for cell in range(first, at):
            counts[cell] = total[values[cell]]
            total[values[cell]] = 0
        starts[row + 1] = at
    return starts, values[:at], counts[:at]


def wildcard_tables(
    codes: NDArray[np.int32], starts: Counts, values: NDArray[np.int32], counts: Counts, levels: int, room: int = 2**22
) -> Iterator[Table]:
    """Yield, some rows at a time, the counts of values over all rows that agree with a row wherever both have a code.

    `codes` has shape (c, p), -1 is missing. Row i has the cells from ``starts[i]`` to ``starts[i + 1]``: a value below `levels`
    and its count, above 0, each value once and in order. What is yielded has the same form, for each row once; `room` bounds
    the cells of a piece, unless one row has more. Exact: the cost is the number of patterns of what is missing times the cells.
    """
    order, pattern_starts, ordered, parts = by_pattern(codes)
    cell_starts = np.concatenate([[0], np.cumsum(np.diff(starts)[order])]).astype(np.int64)
    cells = np.repeat(starts[:-1][order] - cell_starts[:-1], np.diff(cell_starts)) + np.arange(len(values))
    values, counts = values[cells], counts[cells]
    for p in range(len(pattern_starts) - 1):
        found, *groups = _grouped(ordered, parts, pattern_starts, p, cell_starts, values, counts, levels)
        bounds = np.cumsum(_bounds(found, groups[0]))
        first = 0
        while first < len(found):
            used = bounds[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(bounds, used + room, side="right")))
            piece = _gathered(found[first:last], groups[0], groups[1], groups[2], int(bounds[last - 1] - used), levels)
            yield order[pattern_starts[p] + first : pattern_starts[p] + last], *piece
            first = last
