"""Sums over matching rows where a missing value matches anything."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.digest import mix64


@numba.njit(cache=True, nogil=True)
def _agree(codes, a, b, skipped):  # type: ignore[no-untyped-def]
    for k in range(codes.shape[1]):  # noqa: SIM110 - as fast as it gets
        if not skipped[k] and codes[a, k] != codes[b, k]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _start(parts, row, skipped, width):  # type: ignore[no-untyped-def]
    """Return where to look for a row in a table of `width` slots, a power of two."""
    h = np.uint64(0)
    for k in range(parts.shape[1]):
        if not skipped[k]:
            h += parts[row, k]
    return np.int64((h ^ (h >> np.uint64(32))) & np.uint64(width - 1))


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
        at = _start(parts, row, skipped, width)
        while slots[at] >= 0 and not _agree(codes, slots[at], row, skipped):
            at = (at + 1) & (width - 1)
        if slots[at] < 0:
            slots[at] = row
            group[row] = groups
            groups += 1
        else:
            group[row] = group[slots[at]]
    for row in range(p[0], p[1]):
        at = _start(parts, row, skipped, width)
        while slots[at] >= 0 and not _agree(codes, slots[at], row, skipped):
            at = (at + 1) & (width - 1)
        found[row] = group[slots[at]] if slots[at] >= 0 else -1
    return groups


@numba.njit(cache=True, nogil=True)
def room(rows, keys):  # type: ignore[no-untyped-def]
    """Return the arrays that `match` works in and writes to, for so many rows and keys."""
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


class ByPattern(NamedTuple):
    """Rows sorted by which of their values are missing."""

    order: NDArray[np.int64]
    """The row that comes first, second and so on, shape (c,)."""
    starts: NDArray[np.int64]
    """Where the rows of each pattern start, and the last end."""
    codes: NDArray[np.int32]
    """The rows in this order, shape (c, p)."""
    parts: NDArray[np.uint64]
    """A hash of each code, by which rows are looked up; shape (c, p)."""


def by_pattern(codes: NDArray[np.int32]) -> ByPattern:
    """Sort rows, (c, p) with -1 for missing, by pattern of what is missing."""
    bits = np.ascontiguousarray(np.packbits(codes < 0, axis=1))
    _, pattern = np.unique(bits.view(np.dtype((np.void, bits.shape[1]))).ravel(), return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern))]).astype(np.int64)
    ordered = np.ascontiguousarray(codes[order])
    salt = np.arange(codes.shape[1], dtype=np.uint64) << np.uint64(32)
    parts = np.column_stack([mix64(ordered[:, k].astype(np.uint64) + salt[k]) for k in range(codes.shape[1])])
    return ByPattern(order, starts, ordered, parts)


def wildcard_sums(
    codes: NDArray[np.int32], amounts: NDArray[np.float64], wanted: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
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
