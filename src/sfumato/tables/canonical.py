"""An order of cells and leaves, and numbers, that do not hang on how a table was read: results must not either."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.cells import Cells
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def in_order(cells: Cells) -> tuple[Whole, Whole]:
    """Return cells and leaves in an order that depends on nothing but labels, each by its position in the table."""
    order = np.lexsort(tuple(cells.labels[:, i].astype(str) for i in reversed(range(cells.labels.shape[1]))))
    by_leaf = sparse.csc_array(cells.incidence[order])
    by_leaf.sort_indices()
    size = np.diff(by_leaf.indptr)
    members = np.full((cells.leaves, int(size.max(initial=1))), -1, np.int64)
    leaf = np.repeat(np.arange(cells.leaves), size)
    members[leaf, np.arange(len(leaf)) - by_leaf.indptr[leaf]] = by_leaf.indices
    return order, np.lexsort(members.T[::-1])


def table_in_order(table: Table) -> tuple[Table, Whole]:
    """Return a table's values with cells and leaves in that order, without what only rules need, and the order of the cells."""
    order, leaf_order = in_order(table.cells)
    incidence = sparse.csr_array(table.cells.incidence[order][:, leaf_order])
    incidence.sort_indices()
    cells = Cells(table.cells.dimensions, table.cells.labels[order], incidence)
    ordered = table.with_(
        cells=cells, totals=table.totals[leaf_order], counts=table.counts[leaf_order], contributions=None, given=None,
        records=None,
    )  # fmt: skip
    return ordered, order


def significant(values: Numbers, digits: int = 12) -> Numbers:
    """Return numbers with so many digits: those after them are what adding up on a computer leaves.

    >>> significant(np.array([0.1 + 0.2, 1 / 3, np.inf, 0.0])).tolist()
    [0.3, 0.333333333333, inf, 0.0]
    """
    usual = np.isfinite(values) & (values != 0)
    places = digits - 1 - np.floor(np.log10(np.abs(np.where(usual, values, 1.0))))
    up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
    return np.where(usual, np.rint(np.where(usual, values, 1.0) * up / down) * down / up, values)
