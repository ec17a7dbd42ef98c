"""The equations of a table: every cell as the sum of a few smaller ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.cells import Cells

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Equations:
    """Quantities, one for each cell and one for each leaf that no cell shows, and the sums that hold between them.

    Cells made of the same leaves are one quantity. `sums @ quantities = 0` holds exactly if the cells are sums of leaves; it
    has far fewer entries than the incidence matrix, since a total is the sum of subtotals.
    """

    of_cell: Whole
    """The quantity of each cell, shape (cells,)."""
    of_leaf: Whole
    """The quantity of each leaf, shape (leaves,)."""
    cell: Whole
    """A cell that shows each quantity; -1 where none does. Shape (quantities,)."""
    sums: sparse.csr_array
    """Shape (equations, quantities): 1 for a cell, -1 for what it is the sum of."""

    @classmethod
    def of(cls, cells: Cells) -> Equations:
        """Return the equations of cells, linked tables included."""
        from sfumato.kernels.partitions import partitions

        rows = sparse.csr_array(cells.incidence)
        rows.sort_indices()
        known: dict[bytes, int] = {}
        sets = (rows.indices[a:b].tobytes() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
        of_cell = np.array([known.setdefault(s, len(known)) for s in sets], np.int64)
        _, shown = np.unique(of_cell, return_index=True)
        rows = sparse.csr_array(rows[shown])
        size = np.diff(rows.indptr)
        common = sparse.coo_array(rows @ rows.T)
        whole, part = common.coords
        within = (common.data == size[part]) & (size[part] < size[whole])
        whole, part = whole[within], part[within]
        order = np.lexsort((part, -size[part], whole))  # the largest parts first make the shortest sums
        whole, part = whole[order], part[order].astype(np.int64)
        starts, found = partitions(
            rows.indptr.astype(np.int64), rows.indices.astype(np.int64),
            np.searchsorted(whole, np.arange(len(size) + 1)).astype(np.int64), part, cells.leaves,
        )  # fmt: skip
        alone = np.flatnonzero(size == 1)
        of_leaf = np.full(cells.leaves, -1, np.int64)
        of_leaf[rows.indices[rows.indptr[alone]]] = alone
        hidden = np.flatnonzero(of_leaf < 0)
        of_leaf[hidden] = len(size) + np.arange(len(hidden))
        parts = np.where(found >= 0, found, of_leaf[np.maximum(-1 - found, 0)])
        sums = np.flatnonzero(np.diff(starts))
        equation = np.repeat(np.arange(len(sums)), np.diff(starts)[sums])
        matrix = sparse.csr_array(
            (
                np.concatenate([np.ones(len(sums)), -np.ones(len(parts))]),
                (np.concatenate([np.arange(len(sums)), equation]), np.concatenate([sums, parts])),
            ),
            shape=(len(sums), len(size) + len(hidden)),
        )
        return cls(of_cell, of_leaf, np.concatenate([shown, np.full(len(hidden), -1, np.int64)]), matrix)
