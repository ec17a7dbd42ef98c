"""Sums over matching rows where a missing value matches anything."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.digest import mix64


@numba.njit(cache=True, nogil=True)
def _agree(codes, a, b, skipped):  # type: ignore[no-untyped-def]
    for k in range(codes.shape[1]):
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
def _sums(codes, parts, amounts, starts, wanted):  # type: ignore[no-untyped-def]
    """Rows are sorted by which of their values are missing; `starts` bounds the rows of each such pattern."""
    rows, keys = codes.shape
    out = np.zeros(amounts.shape)
    patterns = len(starts) - 1
    size = 4
    while size < 2 * rows:
        size *= 2
    slot_row, slot_sum = np.zeros(size, np.int64), np.zeros((size, amounts.shape[1]))
    slot_stamp, stamp = np.full(size, -1, np.int64), 0
    skipped = np.zeros(keys, np.bool_)
    for q in range(patterns):
        first_q, last_q = starts[q], starts[q + 1]
        for p in range(patterns):
            first_p, last_p = starts[p], starts[p + 1]
            if not wanted[p]:
                continue
            for k in range(keys):
                skipped[k] = codes[first_p, k] < 0 or codes[first_q, k] < 0
            width = 4
            while width < 2 * (last_q - first_q):
                width *= 2
            stamp += 1
            for row in range(first_q, last_q):
                at = _start(parts, row, skipped, width)
                while slot_stamp[at] == stamp and not _agree(codes, slot_row[at], row, skipped):
                    at = (at + 1) & (width - 1)
                if slot_stamp[at] != stamp:
                    slot_stamp[at], slot_row[at] = stamp, row
                    slot_sum[at] = 0.0
                for j in range(amounts.shape[1]):
                    slot_sum[at, j] += amounts[row, j]
            for row in range(first_p, last_p):
                at = _start(parts, row, skipped, width)
                while slot_stamp[at] == stamp and not _agree(codes, slot_row[at], row, skipped):
                    at = (at + 1) & (width - 1)
                if slot_stamp[at] == stamp:
                    for j in range(amounts.shape[1]):
                        out[row, j] += slot_sum[at, j]
    return out


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
    _, pattern = np.unique(_packed_bits(codes < 0), return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern))]).astype(np.int64)
    ordered = np.ascontiguousarray(codes[order])
    salt = np.arange(keys, dtype=np.uint64) << np.uint64(32)
    parts = np.column_stack([mix64(ordered[:, k].astype(np.uint64) + salt[k]) for k in range(keys)])
    asked = np.ones(rows, bool) if wanted is None else wanted[order]
    some = np.logical_or.reduceat(asked, starts[:-1])
    sums = _sums(ordered, parts, np.ascontiguousarray(amounts[order], dtype=np.float64), starts, some)
    out = np.empty(amounts.shape)
    out[order] = sums
    return out


def _packed_bits(missing: NDArray[np.bool_]) -> NDArray[np.void]:
    """Return each row's pattern as one value that can be compared."""
    bits = np.ascontiguousarray(np.packbits(missing, axis=1))
    return bits.view(np.dtype((np.void, bits.shape[1]))).ravel()
