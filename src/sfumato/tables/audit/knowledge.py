"""What an attacker knows before any arithmetic: bounds of every cell and of every leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, ParameterError
from sfumato.tables.cells import Cells
from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Bounds of cells and leaves; equal ones where a value is shown."""

    cells: Cells
    low: Numbers
    """Shape (cells,). So is `high`."""
    high: Numbers
    leaf_low: Numbers
    """Shape (leaves,). So is `leaf_high`."""
    leaf_high: Numbers

    @classmethod
    def of(cls, published: PublishedTable, nonnegative: bool | None = None) -> Knowledge:
        """Return what everybody knows who reads a table."""
        if nonnegative is None:
            original = published.original
            nonnegative = bool((published.low >= 0).all()) if original is None else original.nonnegative
        leaves = published.cells.leaves
        bottom = np.full(leaves, 0.0 if nonnegative else -np.inf)
        return cls(published.cells, published.low, published.high, bottom, np.full(leaves, np.inf))

    def with_cells(self, known: Mapping[int, float | tuple[float, float]]) -> Knowledge:
        """Return what somebody knows who also knows some cells: a value, or between which two it lies."""
        low, high = self.low.copy(), self.high.copy()
        for cell, value in known.items():
            if not 0 <= cell < len(self.cells):
                raise ParameterError(f"there is no cell {cell}: the table has {len(self.cells):,}, counted from 0.")
            bottom, top = value if isinstance(value, tuple) else (value, value)
            if not bottom <= top:
                raise ParameterError(
                    f"what is known of {self.cells.name(cell)} must be a value, or a low and a high one."
                )
            if bottom > high[cell] or top < low[cell]:
                raise DataError(
                    f"what is known of {self.cells.name(cell)} does not agree with what is published of it. Correct what is "
                    "known, or say how far shown figures may be from the true ones (within)."
                )
            low[cell], high[cell] = max(low[cell], bottom), min(high[cell], top)
        return replace(self, low=low, high=high)

    @cached_property
    def shown(self) -> Flags:
        """Which cells are known exactly, shape (cells,)."""
        return np.asarray((self.low == self.high) & np.isfinite(self.low))

    @cached_property
    def known_leaves(self) -> Flags:
        """Which leaves are known exactly because they are shown, or have equal bounds; shape (leaves,)."""
        at = self.cells.of_leaf
        found = (at >= 0) & self.shown[at]
        return np.asarray(found | (self.leaf_low == self.leaf_high))

    @cached_property
    def components(self) -> tuple[Whole, Whole]:
        """Parts of the table that say nothing about each other: a number for each cell and for each leaf.

        Two leaves that are not known are in one part if some cell that is shown holds both. -1 for leaves that are known, and
        for cells without others.
        """
        from scipy.sparse.csgraph import connected_components

        shown, unknown = np.flatnonzero(self.shown), np.flatnonzero(~self.known_leaves)
        part = sparse.csr_array(self.cells.incidence[shown][:, unknown])
        graph: sparse.csr_array = sparse.block_array([[None, part], [part.T, None]], format="csr")
        _, number = connected_components(graph, directed=False)
        of_leaf = np.full(self.cells.leaves, -1, np.int64)
        of_leaf[unknown] = number[len(shown) :]
        of_cell = np.full(len(self.cells), -1, np.int64)
        touched = np.diff(part.indptr) > 0
        of_cell[shown[touched]] = number[: len(shown)][touched]
        return of_cell, of_leaf

    def nearby(self, cell: int) -> tuple[Whole, Whole]:
        """Return the leaves and the shown cells that an equation for this cell can use."""
        of_cell, of_leaf = self.components
        own = self.cells.incidence[[cell]].indices
        parts = np.unique(of_leaf[own])
        linked = np.flatnonzero(np.isin(of_cell, parts[parts >= 0]) & self.shown)
        touched = np.zeros(self.cells.leaves, bool)
        touched[own] = True
        touched[self.cells.incidence[linked].indices] = True
        outside = np.asarray(self.cells.incidence @ (~touched).astype(np.float64)).ravel()
        usable = np.flatnonzero((outside == 0) & self.shown & (np.arange(len(self.cells)) != cell))
        return np.flatnonzero(touched), usable
