"""Which rows of one table agree with which rows of another, and what the rows that agree say of a value."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.digest import mix64
from sfumato.kernels.sorting import sorted_runs

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


class Matches(NamedTuple):
    """For each of a asked rows, the held rows that agree with it: ``rows[starts[i]:starts[i + 1]]``."""

    starts: Rows
    rows: Rows


class Held(NamedTuple):
    """Values of g groups, sorted within each group: those of group k are at ``starts[k]:starts[k + 1]``."""

    starts: Rows
    values: Numbers
    before: Numbers
    """How often the values before each place were counted, shape (m + 1,)."""


@numba.njit(cache=True, nogil=True)
def _grouped(order, groups, starts, out):  # type: ignore[no-untyped-def]
    for row in order:
        out[starts[groups[row]]] = row
        starts[groups[row]] += 1


def sorted_within(groups: Rows, values: Numbers, size: int) -> Rows:
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


def held(groups: Rows, values: Numbers, counts: NDArray[np.int64], size: int) -> Held:
    """Sort m counted values into `size` groups."""
    order = sorted_within(groups, values, size)
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=size))]).astype(np.int64)
    before = np.concatenate([[0.0], np.cumsum(counts[order], dtype=np.float64)])
    return Held(starts, np.ascontiguousarray(values[order]), before)


@numba.njit(cache=True, nogil=True)
def _bucket(parts, row, skipped, width):  # type: ignore[no-untyped-def]
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


def matching_rows(asked: NDArray[np.int32], held: NDArray[np.int32]) -> Matches:
    """Return for each asked row (a, p) the held rows (b, p) that agree with it; a negative code agrees with anything.

    Rows are compared by pattern of what is negative; within a pattern by hashing, so that the cost is the number of patterns
    times the number of rows, and of matches.
    """
    if not len(asked) or not len(held):
        return Matches(np.zeros(len(asked) + 1, np.int64), np.zeros(0, np.int64))
    (mine, my_order, my_starts), (theirs, their_order, their_starts) = _by_pattern(asked), _by_pattern(held)
    parts = _parts(mine), _parts(theirs)
    counts = np.zeros(len(asked), np.int64)
    _join(mine, theirs, *parts, my_starts, their_starts, counts, np.zeros(0, np.int64))
    ends = np.cumsum(counts) - counts
    rows = np.empty(int(counts.sum()), np.int64)
    if len(rows):
        _join(mine, theirs, *parts, my_starts, their_starts, ends.copy(), rows)
    if my_order is None:
        return Matches(np.append(ends, len(rows)), rows if their_order is None else their_order[rows])
    # back from the order by pattern to the order that was asked
    place = np.empty(len(asked), np.int64)
    place[my_order] = np.arange(len(asked))
    sizes = counts[place]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = rows[np.repeat(ends[place] - starts[:-1], sizes) + np.arange(len(rows))]
    return Matches(starts, rows if their_order is None else their_order[rows])


def _by_pattern(codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], Rows | None, Rows]:
    """Return the rows sorted by which codes are negative, that order (None if there is one pattern), and each pattern's start."""
    gaps = codes < 0
    if not gaps.any():
        return np.ascontiguousarray(codes), None, np.array([0, len(codes)], np.int64)
    _, pattern = np.unique(np.packbits(gaps, axis=1), axis=0, return_inverse=True)
    pattern = pattern.ravel()
    order = np.argsort(pattern, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern))]).astype(np.int64)
    return np.ascontiguousarray(codes[order]), order, starts


def _parts(codes: NDArray[np.int32]) -> NDArray[np.uint64]:
    salt = np.arange(codes.shape[1], dtype=np.uint64) << np.uint64(32)
    columns = [mix64(codes[:, k].astype(np.uint64) + salt[k]) for k in range(codes.shape[1])]
    return np.column_stack(columns) if columns else np.zeros((len(codes), 0), np.uint64)


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


def counts_within(matches: Matches, held: Held, group: Rows, low: Numbers, high: Numbers) -> Numbers:
    """Return for each of m questions how many values lie from low to high, shape (m,).

    Question i looks at the values of the groups that match row ``group[i]``.
    """
    out = np.empty(len(group))
    _within(*matches, *held, group, low, high, out)
    return out


def totals(matches: Matches, held: Held) -> Numbers:
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
    matches: Matches, held: Held, by_mode: bool, relative: float = 0.0, absolute: float = 0.0
) -> tuple[Numbers, Numbers, Rows]:
    """Return for each asked row the best guess from the groups that match it, how many values support it, and how many tie.

    The guess is the mode, or the lower median; near the median is within relative · |median| + absolute of it. Shapes (a,); NaN
    and 0 where nothing matches.
    """
    size = len(matches.starts) - 1
    guess, support, ties = np.empty(size), np.empty(size), np.empty(size, np.int64)
    _answers(*matches, *held, by_mode, relative, absolute, guess, support, ties)
    return guess, support, ties
