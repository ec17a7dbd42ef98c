"""Equivalence classes, groups of records and digests of columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.typing import Codes, Numbers, Whole

_ROOM = 2**62


def classes(columns: Sequence[NDArray[Any]], n: int) -> tuple[Whole, Whole]:
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


def find_rows(table: Sequence[NDArray[Any]], columns: Sequence[NDArray[Any]]) -> Whole:
    """Return for each record the row of a table of distinct code combinations that it agrees with, -1 where none does.

    `table` has columns of shape (c,), `columns` of shape (n,); codes are from -1 up.
    """
    return row_finder(table)(columns)


def row_finder(table: Sequence[NDArray[Any]]) -> Callable[[Sequence[NDArray[Any]]], Whole]:
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

    def find(columns: Sequence[NDArray[Any]]) -> Whole:
        found = np.zeros(len(columns[0]), np.int64)
        for (levels, locate), theirs in zip(steps, columns, strict=True):
            wanted = found * levels + (theirs + 1)
            found = locate(np.where((found >= 0) & (theirs + 1 < levels), wanted, -1))
        return np.asarray(place[found])

    return find


def _locator(known: Whole) -> Callable[[Whole], Whole]:
    """Return the place of numbers among known ones, which are sorted and not negative; -1 where they are not there."""
    if not len(known):
        return lambda wanted: np.full(len(wanted), -1)
    last = int(known[-1])
    if last < 8 * len(known) + 1024:  # a table is faster than a search
        places = np.full(last + 2, -1, np.int64)  # its last entry is that of -1 and of what is past the end
        places[known] = np.arange(len(known))
        return lambda wanted: np.asarray(places[np.minimum(wanted, last + 1)])

    def search(wanted: Whole) -> Whole:
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[at] == wanted, at, -1)

    return search


def number_codes(numbers: Numbers) -> Whole:
    """Return codes of numbers by value, -1 for NaN."""
    _, codes = np.unique(numbers, return_inverse=True, equal_nan=True)
    return np.where(np.isnan(numbers), -1, codes)


# --- The values of a column in each class.


@dataclass(frozen=True, eq=False)
class ClassCells:
    """The distributions of r classes, none of them empty: how many records have each value that occurs."""

    starts: Whole
    """Where the cells of each class start, shape (r + 1,)."""
    values: Codes
    """The value of each cell, in order within a class."""
    counts: Whole
    """The records of each cell, above 0."""

    @cached_property
    def distinct(self) -> Whole:
        """How many values occur in each class, shape (r,)."""
        return np.diff(self.starts)

    @cached_property
    def totals(self) -> Whole:
        """Records of each class, shape (r,)."""
        return np.add.reduceat(self.counts, self.starts[:-1])

    @cached_property
    def rows(self) -> Whole:
        """The class of each cell."""
        return np.repeat(np.arange(len(self.distinct)), self.distinct)

    @cached_property
    def shares(self) -> Numbers:
        """The share that each cell has in its class."""
        return self.counts / np.repeat(self.totals, self.distinct)

    def largest(self, amounts: Numbers) -> Numbers:
        """Return the largest of an amount per cell in each class, shape (r,)."""
        return np.maximum.reduceat(amounts, self.starts[:-1])


def class_cells(labels: NDArray[Any], values: NDArray[Any], counts: Whole, levels: int) -> ClassCells:
    """Return the cells of classes from rows of class, value (below `levels`) and count; every class has a row."""
    flat = labels.astype(np.int64) * levels + values
    if not (np.diff(flat) > 0).all():
        room = (int(labels.max(initial=-1)) + 1) * levels
        if room <= 4 * len(flat) + 1024:
            added = np.bincount(flat, counts, room)
            flat = np.flatnonzero(added)
            counts = added[flat].astype(np.int64)
        else:
            flat, cell = np.unique(flat, return_inverse=True)
            counts = np.bincount(cell, counts).astype(np.int64)
    rows, values = np.divmod(flat, levels)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows))]).astype(np.int64)
    return ClassCells(starts, values.astype(np.int32), counts)


# --- Groups of records: consecutive ones along an order, and what a group is released as.


def consecutive(order: Whole, k: int) -> Whole:
    """Return the group of each record when those next to each other in `order` (n,) are taken k at a time.

    Groups are numbered from 0 along the order, and all have k but one of k to 2k - 1 (n >= k): the middle one, the lower of two.
    Records lie closest there; at an end the larger group would hold the extremes, and most of the loss.
    """
    return consecutive_within(order, np.zeros(len(order), np.int64), k)


def consecutive_within(order: Whole, block: Whole, k: int) -> Whole:
    """Return `consecutive` within each block at once; `order` (n,) puts the records of a block next to each other."""
    if not len(order):
        return np.zeros(0, np.int64)
    sorted_block = block[order]
    starts = np.flatnonzero(np.r_[True, sorted_block[1:] != sorted_block[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    count = np.maximum(sizes // k, 1)
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    after_middle = place >= np.repeat(((count - 1) // 2 + 1) * k, sizes)
    within = (place - np.where(after_middle, np.repeat(sizes - k * count, sizes), 0)) // k
    labels = np.empty(len(order), np.int64)
    labels[order] = within + np.repeat(np.cumsum(count) - count, sizes)
    return labels


def centres(x: Numbers, labels: Whole, how: str) -> Numbers:
    """Return the "mean", "median", "low" (the lower of two medians) or "mode" of each group, shape (g, p).

    Of several modes the smallest. A mean never leaves the range of its group, not even by rounding.
    """
    count = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(labels, minlength=count)
    columns = [_centre(column, labels, sizes, how) for column in x.T]
    return np.column_stack(columns) if columns else np.empty((count, 0))


def _centre(column: Numbers, labels: Whole, sizes: Whole, how: str) -> Numbers:
    count = len(sizes)
    if how == "mean":
        one = np.empty(count)
        one[labels] = column  # some member: deviations from it are small, and zero where the group is constant
        return np.asarray(one + np.bincount(labels, column - one[labels], count) / sizes)
    order = np.lexsort([column, labels])
    values, group = column[order], labels[order]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    if how in ("median", "low"):
        low, high = values[starts + (sizes - 1) // 2], values[starts + sizes // 2]
        return np.asarray(low if how == "low" else low + (high - low) / 2)
    begins = np.flatnonzero(np.r_[True, (values[1:] != values[:-1]) | (group[1:] != group[:-1])][: len(values)])
    runs = np.diff(np.r_[begins, len(values)])
    best = np.lexsort([begins, -runs, group[begins]])
    _, at = np.unique(group[begins][best], return_index=True)
    return np.asarray(values[begins[best[at]]])


# --- A digest of columns that may come in pieces: sums of row hashes, so the order of the pieces does not matter.

_LIMB = np.uint64(0xFFFF)


class _Column(Protocol):
    @property
    def hashes(self) -> Whole: ...


def mix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a well-mixed 64-bit number for each (one step of SplitMix64); 0 does not stay 0."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def row_digest(ids: Whole, columns: Mapping[str, _Column]) -> Numbers:
    """Return the sum over rows of two 64-bit row hashes, as eight sums of 16-bit limbs (exact up to 2^37 rows)."""
    totals = row_hashes(ids, columns, (b"a", b"b"))
    return np.array(
        [float(((total >> np.uint64(16 * i)) & _LIMB).sum(dtype=np.uint64)) for total in totals for i in range(4)]
    )


def row_hashes(
    ids: Whole, columns: Mapping[str, _Column], halves: tuple[bytes, ...] = (b"a",)
) -> list[NDArray[np.uint64]]:
    """Return 64-bit hashes of an id and the values of each row, one array per half; shape (n,) each."""
    totals = [mix64(ids.view(np.uint64) + _seed(half, "")) for half in halves]
    for name, column in columns.items():
        hashes = column.hashes.view(np.uint64)
        totals = [mix64(total ^ mix64(hashes + _seed(half, name))) for half, total in zip(halves, totals, strict=True)]
    return totals


def _seed(half: bytes, name: str) -> Any:
    raw = hashlib.blake2b(name.encode(), digest_size=8, salt=half).digest()
    return np.uint64(int.from_bytes(raw, "little"))


def combine(names: Iterable[str], count: int, limbs: Numbers) -> bytes:
    """Return 32 bytes from the column names, the number of rows and the summed limbs."""
    text = "\x1f".join([*names, str(count), *(str(int(x)) for x in limbs)])
    return hashlib.blake2b(text.encode(), digest_size=32).digest()
