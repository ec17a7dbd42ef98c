"""Which rows of two tables agree, what they say of a value, and the same where a missing value matches anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.classes import mix64
from sfumato.kernels.sorting import sorted_runs
from sfumato.typing import Flags, Numbers, Whole


class Matches(NamedTuple):
    """For each of a asked rows, the held rows that agree with it: ``rows[starts[i]:starts[i + 1]]``."""

    starts: Whole
    rows: Whole


class GroupedValues(NamedTuple):
    """Values of g groups, sorted within each group: those of group k are at ``starts[k]:starts[k + 1]``."""

    starts: Whole
    values: Numbers
    before: Numbers
    """How often the values before each place were counted, shape (m + 1,)."""


@numba.njit(cache=True, nogil=True)
def _grouped(order, groups, starts, out):  # type: ignore[no-untyped-def]
    for row in order:
        out[starts[groups[row]]] = row
        starts[groups[row]] += 1


def sorted_within(groups: Whole, values: Numbers, size: int) -> Whole:
    """Return the row numbers by group, and by value within each of `size` groups; no value is NaN."""
    if len(values) < 2:
        return np.arange(len(values))
    step, later = np.diff(groups), values[1:] >= values[:-1]
    if ((step > 0) | ((step == 0) & later)).all():
        return np.arange(len(values))
    counts = np.bincount(groups, minlength=size)
    out = np.empty(len(values), np.int64)
    _grouped(sorted_runs(values)[0], groups, np.cumsum(counts) - counts, out)
    return out


def held(groups: Whole, values: Numbers, counts: Whole, size: int) -> GroupedValues:
    """Sort m counted values into `size` groups."""
    order = sorted_within(groups, values, size)
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=size))]).astype(np.int64)
    before = np.concatenate([[0.0], np.cumsum(counts[order], dtype=np.float64)])
    return GroupedValues(starts, np.ascontiguousarray(values[order]), before)


@numba.njit(cache=True, nogil=True)
def _bucket(parts, row, skipped, width):  # type: ignore[no-untyped-def]
    """Return where to look for a row in a table of `width` slots, a power of two."""
    h = np.uint64(0)
    for k in range(parts.shape[1]):
        if not skipped[k]:
            h += parts[row, k]
    return np.int64((h ^ (h >> np.uint64(32))) & np.uint64(width - 1))


@numba.njit(cache=True, nogil=True)
def _join(asked, held, asked_parts, held_parts, asked_starts, held_starts, ends, out):  # type: ignore[no-untyped-def]
    """Count the matches of each asked row into `ends`, or write them into `out`, where `ends` says; rows are by pattern."""
    fill = out.size > 0
    keys = asked.shape[1]
    skipped = np.zeros(keys, np.bool_)
    after = np.empty(held.shape[0], np.int64)
    for q in range(held_starts.size - 1):
        width = 4
        while width < 2 * (held_starts[q + 1] - held_starts[q]):
            width *= 2
        first = np.empty(width, np.int64)
        for p in range(asked_starts.size - 1):
            for k in range(keys):
                skipped[k] = asked[asked_starts[p], k] < 0 or held[held_starts[q], k] < 0
            first[:] = -1
            for row in range(held_starts[q + 1] - 1, held_starts[q] - 1, -1):
                at = _bucket(held_parts, row, skipped, width)
                after[row] = first[at]
                first[at] = row
            for row in range(asked_starts[p], asked_starts[p + 1]):
                other = first[_bucket(asked_parts, row, skipped, width)]
                while other >= 0:
                    same = True
                    for k in range(keys):
                        if not skipped[k] and asked[row, k] != held[other, k]:
                            same = False
                            break
                    if same:
                        if fill:
                            out[ends[row]] = other
                        ends[row] += 1
                    other = after[other]


class ByPattern(NamedTuple):
    """Rows sorted by which of their values are missing."""

    order: Whole
    """The row that comes first, second and so on, shape (c,)."""
    starts: Whole
    """Where the rows of each pattern start, and the last end."""
    codes: NDArray[np.int32]
    """The rows in this order, shape (c, p)."""
    parts: NDArray[np.uint64]
    """A hash of each code, by which rows are looked up; shape (c, p)."""


def by_pattern(codes: NDArray[np.int32]) -> ByPattern:
    """Sort rows, (c, p) with -1 for missing, by pattern of what is missing."""
    pattern = np.zeros(len(codes), np.int64)
    if (gaps := codes < 0).any():
        bits = np.ascontiguousarray(np.packbits(gaps, axis=1))
        _, pattern = np.unique(bits.view(np.dtype((np.void, bits.shape[1]))).ravel(), return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern))]).astype(np.int64)
    ordered = np.ascontiguousarray(codes[order])
    salt = np.arange(codes.shape[1], dtype=np.uint64) << np.uint64(32)
    parts = mix64(np.ascontiguousarray(ordered.astype(np.uint64) + salt))
    return ByPattern(order, starts, ordered, parts)


def matching_rows(asked: NDArray[np.int32], held: NDArray[np.int32]) -> Matches:
    """Return for each asked row (a, p) the held rows (b, p) that agree with it; a negative code agrees with anything.

    Rows are compared by pattern of what is negative; within a pattern by hashing, so that the cost is the number of patterns
    times the number of rows, and of matches.
    """
    if not len(asked) or not len(held):
        return Matches(np.zeros(len(asked) + 1, np.int64), np.zeros(0, np.int64))
    mine, theirs = by_pattern(asked), by_pattern(held)
    arrays = mine.codes, theirs.codes, mine.parts, theirs.parts, mine.starts, theirs.starts
    counts = np.zeros(len(asked), np.int64)
    _join(*arrays, counts, np.zeros(0, np.int64))
    ends = np.cumsum(counts) - counts
    rows = np.empty(int(counts.sum()), np.int64)
    if len(rows):
        _join(*arrays, ends.copy(), rows)
    # back from the order by pattern to the order that was asked
    place = np.empty(len(asked), np.int64)
    place[mine.order] = np.arange(len(asked))
    sizes = counts[place]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Matches(starts, theirs.order[rows[np.repeat(ends[place] - starts[:-1], sizes) + np.arange(len(rows))]])


@numba.njit(cache=True, nogil=True)
def _within(starts, rows, first, values, before, group, low, high, out):  # type: ignore[no-untyped-def]
    for i in range(group.size):
        total = 0.0
        for at in range(starts[group[i]], starts[group[i] + 1]):
            begin, end = first[rows[at]], first[rows[at] + 1]
            a, b = begin, end
            while a < b:
                middle = (a + b) // 2
                if values[middle] < low[i]:
                    a = middle + 1
                else:
                    b = middle
            lower, b = a, end
            while a < b:
                middle = (a + b) // 2
                if values[middle] <= high[i]:
                    a = middle + 1
                else:
                    b = middle
            total += before[a] - before[lower]
        out[i] = total


def counts_within(matches: Matches, held: GroupedValues, group: Whole, low: Numbers, high: Numbers) -> Numbers:
    """Return for each of m questions how many values lie from low to high, shape (m,).

    Question i looks at the values of the groups that match row ``group[i]``.
    """
    out = np.empty(len(group))
    _within(*matches, *held, group, low, high, out)
    return out


def totals(matches: Matches, held: GroupedValues) -> Numbers:
    """Return for each asked row how many values its matching groups have, shape (a,)."""
    sizes = held.before[held.starts[1:]] - held.before[held.starts[:-1]]
    running = np.concatenate([[0.0], np.cumsum(sizes[matches.rows])])
    return np.asarray(running[matches.starts[1:]] - running[matches.starts[:-1]])


@numba.njit(cache=True, nogil=True)
def _mode(values, counts):  # type: ignore[no-untyped-def]
    """Return the most frequent of sorted values (the smallest, if several are), how often it occurs, and how many do."""
    best, top, ties, at = np.nan, 0.0, 0, 0
    while at < values.size:
        run, value = 0.0, values[at]
        while at < values.size and values[at] == value:
            run += counts[at]
            at += 1
        if run > top:
            best, top, ties = value, run, 1
        elif run == top:
            ties += 1
    return best, top, ties


@numba.njit(cache=True, nogil=True)
def _median(values, counts, relative, absolute):  # type: ignore[no-untyped-def]
    """Return the (lower) median of sorted values, and how many lie near it."""
    half, running, at = (counts.sum() + 1) // 2, 0.0, -1
    while running < half:
        at += 1
        running += counts[at]
    centre = values[at]
    reach = relative * abs(centre) + absolute
    near = 0.0
    for i in range(values.size):
        if centre - reach <= values[i] <= centre + reach:
            near += counts[i]
    return centre, near


@numba.njit(cache=True, nogil=True)
def _answers(starts, rows, first, values, before, by_mode, relative, absolute, guess, support, ties):  # type: ignore[no-untyped-def]
    for i in range(guess.size):
        size = 0
        for at in range(starts[i], starts[i + 1]):
            size += first[rows[at] + 1] - first[rows[at]]
        if size == 0:
            guess[i], support[i], ties[i] = np.nan, 0.0, 0
            continue
        found, counts, n = np.empty(size), np.empty(size), 0
        for at in range(starts[i], starts[i + 1]):
            for j in range(first[rows[at]], first[rows[at] + 1]):
                found[n], counts[n] = values[j], before[j + 1] - before[j]
                n += 1
        if starts[i + 1] - starts[i] > 1:
            order = np.argsort(found)
            found, counts = found[order], counts[order]
        if by_mode:
            guess[i], support[i], ties[i] = _mode(found, counts)
        else:
            guess[i], support[i] = _median(found, counts, relative, absolute)
            ties[i] = 1


def best_answers(
    matches: Matches, held: GroupedValues, by_mode: bool, relative: float = 0.0, absolute: float = 0.0
) -> tuple[Numbers, Numbers, Whole]:
    """Return for each asked row the best guess from the groups that match it, how many values support it, and how many tie.

    The guess is the mode, or the lower median; near the median is within relative · |median| + absolute of it. Shapes (a,); NaN
    and 0 where nothing matches.
    """
    size = len(matches.starts) - 1
    guess, support, ties = np.empty(size), np.empty(size), np.empty(size, np.int64)
    _answers(*matches, *held, by_mode, relative, absolute, guess, support, ties)
    return guess, support, ties


# --- Sums over matching rows where a missing value matches anything.


@numba.njit(cache=True, nogil=True)
def _agree(codes, a, b, skipped):  # type: ignore[no-untyped-def]
    for k in range(codes.shape[1]):  # noqa: SIM110 - as fast as it gets
        if not skipped[k] and codes[a, k] != codes[b, k]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def match(codes, parts, p, q, skipped, slots, group, found):  # type: ignore[no-untyped-def]
    """Group rows q by the values that they can share with rows p, and find the group that each of rows p matches.

    p and q are ranges of rows with one pattern of what is missing each. Writes the group of each row of q into `group`, the group
    of each row of p into `found`, -1 if it matches none, both (rows,), and returns the number of groups. `slots` and `skipped`
    are room to work in.
    """
    for k in range(codes.shape[1]):
        skipped[k] = codes[p[0], k] < 0 or codes[q[0], k] < 0
    width = 4
    while width < 2 * (q[1] - q[0]):
        width *= 2
    slots[:width] = -1  # a slot holds the first row of its group
    groups = 0
    for row in range(q[0], q[1]):
        at = _bucket(parts, row, skipped, width)
        while slots[at] >= 0 and not _agree(codes, slots[at], row, skipped):
            at = (at + 1) & (width - 1)
        if slots[at] < 0:
            slots[at] = row
            group[row] = groups
            groups += 1
        else:
            group[row] = group[slots[at]]
    for row in range(p[0], p[1]):
        at = _bucket(parts, row, skipped, width)
        while slots[at] >= 0 and not _agree(codes, slots[at], row, skipped):
            at = (at + 1) & (width - 1)
        found[row] = group[slots[at]] if slots[at] >= 0 else -1
    return groups


@numba.njit(cache=True, nogil=True)
def room(rows, keys):  # type: ignore[no-untyped-def]
    """Return the arrays that `match` works in and writes to, for these numbers of rows and keys."""
    size = 4
    while size < 2 * rows:
        size *= 2
    return np.zeros(keys, np.bool_), np.empty(size, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)


@numba.njit(cache=True, nogil=True)
def _sums(codes, parts, amounts, starts, wanted):  # type: ignore[no-untyped-def]
    """Rows are sorted by which of their values are missing; `starts` bounds the rows of each such pattern."""
    rows, keys = codes.shape
    out, sums = np.zeros(amounts.shape), np.zeros(amounts.shape)
    skipped, slots, group, found = room(rows, keys)
    for i in range(len(starts) - 1):
        for j in range(len(starts) - 1):
            if not wanted[j]:
                continue
            p, q = (starts[j], starts[j + 1]), (starts[i], starts[i + 1])
            sums[: match(codes, parts, p, q, skipped, slots, group, found)] = 0.0
            for row in range(q[0], q[1]):
                for a in range(amounts.shape[1]):
                    sums[group[row], a] += amounts[row, a]
            for row in range(p[0], p[1]):
                if found[row] >= 0:
                    for a in range(amounts.shape[1]):
                        out[row, a] += sums[found[row], a]
    return out


def wildcard_sums(codes: NDArray[np.int32], amounts: Numbers, wanted: Flags | None = None) -> Numbers:
    """Return for each row the sums of `amounts` over all rows that agree with it wherever both have a value.

    `codes` has shape (c, p), -1 is missing; `amounts` and the result have shape (c, a). A row matches itself. Only rows in
    `wanted` need be right (all, if None). Exact: rows are compared by pattern of what is missing, so the cost is the number of
    patterns times the number of rows.
    """
    rows, keys = codes.shape
    if not rows or not keys:
        return np.broadcast_to(amounts.sum(axis=0), amounts.shape).copy()
    found = by_pattern(codes)
    asked = np.ones(rows, bool) if wanted is None else wanted[found.order]
    some = np.logical_or.reduceat(asked, found.starts[:-1])
    given = np.ascontiguousarray(amounts[found.order], dtype=np.float64)
    out = np.empty(amounts.shape)
    out[found.order] = _sums(found.codes, found.parts, given, found.starts, some)
    return out


Table = tuple[Whole, Whole, NDArray[np.int32], Whole]
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
def _wildcard_tables_grouped(codes, parts, starts, p, cell_starts, values, counts, levels):  # type: ignore[no-untyped-def]
    """Group the rows of every pattern by the values that they can share with rows of pattern p.

    Returns for each row of p and each pattern the group that it matches, -1 if none, and the table of each group.
    """
    rows, keys = codes.shape
    patterns = len(starts) - 1
    first, last = starts[p], starts[p + 1]
    found = np.empty((last - first, patterns), np.int32)
    skipped, slots, group, matched = room(rows, keys)
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
    codes: NDArray[np.int32], starts: Whole, values: NDArray[np.int32], counts: Whole, levels: int, room: int = 2**22
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
        found, *groups = _wildcard_tables_grouped(
            ordered, parts, pattern_starts, p, cell_starts, values, counts, levels
        )
        bounds = np.cumsum(_bounds(found, groups[0]))
        first = 0
        while first < len(found):
            used = bounds[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(bounds, used + room, side="right")))
            piece = _gathered(found[first:last], groups[0], groups[1], groups[2], int(bounds[last - 1] - used), levels)
            yield order[pattern_starts[p] + first : pattern_starts[p] + last], *piece
            first = last
