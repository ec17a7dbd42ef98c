"""What a pattern of suppressions has to achieve: quantities, what may be hidden, and how wide each secret must stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import listing
from sfumato.tables.attacker import Attacker
from sfumato.tables.cells import Cells

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Problem:
    """Quantities (cells, leaves that no cell shows, unions of cells) as sums of leaves, in an order that labels alone decide.

    A pattern is a flag for every quantity: hidden or shown. All arrays have shape (quantities,) unless they say otherwise.
    """

    rows: sparse.csr_array
    """Shape (quantities, leaves), 0 or 1."""
    leaves: Numbers
    """The values of the leaves, shape (leaves,)."""
    value: Numbers
    unsafe: Flags
    upper: Numbers
    """How far above its value an attacker's interval of an unsafe quantity must reach."""
    lower: Numbers
    width: Numbers
    cost: Numbers
    """What hiding a quantity costs."""
    hidden: Flags
    """What is hidden in any case: unsafe cells, leaves that no cell shows, unions."""
    fixed: Flags
    """What must be shown."""
    low: Numbers
    """What an attacker knows of a hidden quantity before he reads the table."""
    high: Numbers
    leaf_low: Numbers
    """The same of leaves, shape (leaves,)."""
    leaf_high: Numbers
    sums: sparse.csr_array
    """Equations between quantities, shape (equations, quantities): 1 for a sum, -1 for its parts."""
    integer: bool
    unit: float
    """How much of the table's own values one is."""
    name: Callable[[int], str]
    """The name of a quantity, for messages."""

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def targets(self) -> Whole:
        """The unsafe quantities."""
        return np.flatnonzero(self.unsafe)

    @cached_property
    def alone(self) -> Whole:
        """The quantity that is a leaf, for each leaf; shape (leaves,)."""
        single = np.flatnonzero(np.diff(self.rows.indptr) == 1)[::-1]
        found = np.full(self.rows.shape[1], -1, np.int64)
        found[self.rows.indices[self.rows.indptr[single]]] = single
        return found

    def attacker(self, hidden: Flags, known: Whole | None = None, own: Numbers | None = None) -> Attacker:
        """Return the attacker who reads what is shown; an insider also knows some leaves, and that leaves hold his own."""
        labels = np.arange(len(self)).astype(object)[:, None]
        low, high = np.where(hidden, self.low, self.value), np.where(hidden, self.high, self.value)
        leaf_low, leaf_high = self.leaf_low, self.leaf_high
        if own is not None:
            leaf_low = np.maximum(leaf_low, own)
        if known is not None:
            leaf_low, leaf_high = leaf_low.copy(), leaf_high.copy()
            leaf_low[known] = leaf_high[known] = self.leaves[known]
        return Attacker(Cells(("quantity",), labels, self.rows), low, high, leaf_low, leaf_high, near=self.leaves)

    def with_unions(self, rows: sparse.csr_array, upper: Numbers, lower: Numbers, width: Numbers) -> Problem:
        """Return the problem with further secrets: sums of leaves that nobody publishes, but that must stay wide as well.

        Levels are in the table's own values.
        """
        count = rows.shape[0]
        value = rows @ self.leaves
        new = np.ones(count, bool)
        parts = sparse.coo_array(rows)
        at = self.alone[parts.coords[1]]
        equations = sparse.csr_array(
            (
                np.concatenate([np.ones(count), -np.ones(len(at))]),
                (
                    np.concatenate([np.arange(count), parts.coords[0]]),
                    np.concatenate([len(self) + np.arange(count), at]),
                ),
            ),
            shape=(count, len(self) + count),
        )
        base, at_row = len(self), rows.indptr

        def name(q: int) -> str:
            if q < base:
                return self.name(q)
            mine = rows.indices[at_row[q - base] : at_row[q - base + 1]]
            return f"the sum of {listing([f'({self.name(int(self.alone[leaf]))})' for leaf in mine])}"

        old = sparse.csr_array(sparse.hstack([self.sums, sparse.csr_array((self.sums.shape[0], count))]))
        return replace(
            self,
            rows=sparse.csr_array(sparse.vstack([self.rows, rows])),
            value=np.concatenate([self.value, value]),
            unsafe=np.concatenate([self.unsafe, new]),
            upper=np.concatenate([self.upper, upper / self.unit]),
            lower=np.concatenate([self.lower, lower / self.unit]),
            width=np.concatenate([self.width, width / self.unit]),
            cost=np.concatenate([self.cost, np.zeros(count)]),
            hidden=np.concatenate([self.hidden, new]),
            fixed=np.concatenate([self.fixed, ~new]),
            low=np.concatenate([self.low, np.full(count, -np.inf)]),
            high=np.concatenate([self.high, np.full(count, np.inf)]),
            sums=sparse.csr_array(sparse.vstack([old, equations])),
            name=name,
        )
