"""What is left to solve of the equations of a published table, after everything that plain arithmetic tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.leaf_sets import set_codes

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROUNDING = 1e-11
"""How far sums may be off, relative to what was added up: published tables have been added up in floating point."""


class Contradiction(Exception):  # noqa: N818
    """No leaves satisfy the bounds; `row` is a row that shows it."""

    def __init__(self, row: int) -> None:
        super().__init__("the bounds contradict each other")
        self.row = row


@dataclass(frozen=True, eq=False)
class Reduced:
    """Leaves between bounds, and sums of leaves between bounds, none of which says what another says already.

    `low` and `high` are those of all leaves, and equal where a leaf is known. `rows` (rows × leaves) has entries for unknown
    leaves alone; `row_low` and `row_high` are what remains for them. Unknown leaves that share no row, not even through
    others, have different `part`s and can be solved apart; a leaf that is known, or in no row, has part -1.
    """

    low: Numbers
    high: Numbers
    rows: sparse.csr_array
    row_low: Numbers
    row_high: Numbers
    part: Whole
    """Shape (leaves,)."""
    row_part: Whole
    """Shape (rows,)."""


def reduce_rows(rows: sparse.csr_array, row_low: Numbers, row_high: Numbers, low: Numbers, high: Numbers) -> Reduced:
    """Return the equations that are left when known leaves are taken out; raises Contradiction where there is none.

    A row with one unknown leaf bounds that leaf; a row that can only hold with all its leaves at their bounds fixes them; a
    row that its leaves' bounds imply says nothing; of two rows with the same unknown leaves the narrower bounds count.
    """
    low, high = low.astype(np.float64).copy(), high.astype(np.float64).copy()
    known = _settle(low, high, np.arange(len(low)))
    rows, name = sparse.csr_array(rows, copy=True), np.arange(rows.shape[0])
    left, right = row_low.astype(np.float64).copy(), row_high.astype(np.float64).copy()
    noise = ROUNDING * np.maximum(*(np.where(np.isfinite(b), np.abs(b), 0.0) for b in (left, right)))
    while True:
        rows, taken, size = _without(rows, known, np.where(known, low, 0.0))
        left, right, noise = left - taken, right - taken, noise + ROUNDING * size
        smallest, largest = rows @ low, rows @ high  # an infinite bound makes an infinite sum
        if (bad := np.flatnonzero((right < smallest - noise) | (left > largest + noise) | (left > right + noise))).size:
            raise Contradiction(int(name[bad[0]]))
        says = (left > smallest + noise) | (right < largest - noise)
        rows, name = rows[says], name[says]
        left, right, noise, smallest, largest = left[says], right[says], noise[says], smallest[says], largest[says]
        fixed = known.copy()
        for at_bound, bound in ((right <= smallest + noise, low), (left >= largest - noise, high)):
            members = np.unique(rows[at_bound].indices)
            low[members] = high[members] = bound[members]
            known[members] = True
        single = np.flatnonzero(np.diff(rows.indptr) == 1)
        at = rows.indices[rows.indptr[single]].astype(np.int64)
        np.maximum.at(low, at, left[single])
        np.minimum.at(high, at, right[single])
        if (bad := np.flatnonzero(low[at] > high[at] + noise[single])).size:
            raise Contradiction(int(name[single[bad[0]]]))
        known |= _settle(low, high, at, noise[single])
        rest = np.diff(rows.indptr) > 1
        rows, name, left, right, noise = rows[rest], name[rest], left[rest], right[rest], noise[rest]
        if not (known & ~fixed).any():
            break
    rows, left, right = _merged(rows, left, right, noise, name)
    part, row_part = _parts(rows)
    return Reduced(low, high, rows, left, right, part, row_part)


def _settle(low: Numbers, high: Numbers, at: Whole, noise: Numbers | float = 0.0) -> Flags:
    """Make bounds that differ by rounding alone equal; return which leaves, of all, are known now."""
    noise = np.maximum(noise, ROUNDING * np.where(np.isfinite(low[at]), np.abs(low[at]), 0.0))
    if (low[at] > high[at] + noise).any():
        raise Contradiction(-1)
    close = at[high[at] - low[at] <= noise]
    middle = np.where(low[close] == high[close], low[close], (low[close] + high[close]) / 2)
    low[close] = high[close] = middle
    known = np.zeros(len(low), bool)
    known[close] = True
    return known


def _without(rows: sparse.csr_array, known: Flags, value: Numbers) -> tuple[sparse.csr_array, Numbers, Numbers]:
    """Return the rows without the known leaves, what these amount to in each row, and the size of what was added up."""
    gone = known[rows.indices]
    if not gone.any():
        nothing = np.zeros(rows.shape[0])
        return rows, nothing, nothing
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    amount = np.where(gone, value[rows.indices] * rows.data, 0.0)
    taken, size = (np.bincount(row, a, rows.shape[0]).astype(np.float64) for a in (amount, np.abs(amount)))
    kept = ~gone
    shape = rows.shape
    start = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=shape[0]))])
    return sparse.csr_array((rows.data[kept], rows.indices[kept], start), shape=shape), taken, size


def _merged(
    rows: sparse.csr_array, left: Numbers, right: Numbers, noise: Numbers, name: Whole
) -> tuple[sparse.csr_array, Numbers, Numbers]:
    """Join rows with the same entries (all 0 or 1)."""
    if not rows.shape[0]:
        return rows, left, right
    _, first, group = np.unique(set_codes(rows), axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    np.maximum.at(low, group, left)
    np.minimum.at(high, group, right)
    if (bad := np.flatnonzero(low[group] > high[group] + 2 * noise)).size:
        raise Contradiction(int(name[bad[0]]))
    order = np.argsort(first)
    low, high = low[order], high[order]
    crossed = low > high  # by rounding alone
    low[crossed] = high[crossed] = (low[crossed] + high[crossed]) / 2
    return rows[first[order]], low, high


def _parts(rows: sparse.csr_array) -> tuple[Whole, Whole]:
    """Return which leaves and rows hang together, numbered from 0; -1 for a leaf that is in no row."""
    from scipy.sparse.csgraph import connected_components

    count, leaves = rows.shape
    if not count:
        return np.full(leaves, -1, np.int64), np.zeros(0, np.int64)
    row, leaf = np.repeat(np.arange(count), np.diff(rows.indptr)), rows.indices + count
    graph = sparse.csr_array((np.ones(len(leaf)), (row, leaf)), shape=(count + leaves, count + leaves))
    _, label = connected_components(graph, directed=False)
    used, row_part = np.unique(label[:count], return_inverse=True)
    part = np.searchsorted(used, label[count:])
    part = np.where((part < len(used)) & (used[np.minimum(part, len(used) - 1)] == label[count:]), part, -1)
    return part.astype(np.int64), row_part.ravel().astype(np.int64)
