"""Sums that no cell shows and that anybody can work out: a total that is shown less its parts that are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.leaf_sets import set_codes

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

_DEEP = 300
"""Up to so many cells of linked tables, differences of differences are looked at."""


@dataclass(frozen=True, eq=False)
class Breakdowns:
    """The cells in classes (all of region by sector, all of region group by sector …) whose members do not overlap."""

    cells: Cells
    members: tuple[Whole, ...]
    """The cells of each class."""
    finer: tuple[Whole, ...]
    """For each class the cells that it divides: each of its members is inside one of them or outside."""
    nested: tuple[Whole, Whole]
    """Cells, and cells inside them, whose difference is no sum of cells; see `remainders`."""

    @classmethod
    def of(cls, cells: Cells) -> Breakdowns:
        """Return the classes of a table's cells."""
        kind = _kinds(cells)
        members, finer = [], []
        for k in range(int(kind.max(initial=-1)) + 1):
            inside = np.flatnonzero(kind == k)
            rows = sparse.csr_array(cells.incidence[inside])
            if (np.asarray(rows.sum(axis=0)) > 1).any():
                continue  # they overlap: labels that are on no tree
            common = sparse.coo_array(cells.incidence @ rows.T)
            cell, member = common.coords
            cut = np.zeros(len(cells), bool)
            cut[cell[common.data < cells.sizes[inside][member]]] = True
            covered = np.bincount(cell, common.data, len(cells)) > 0
            divided = np.flatnonzero(~cut & covered & (kind != k))
            if len(divided):
                members.append(inside)
                finer.append(divided)
        return cls(cells, tuple(members), tuple(finer), remainders(cells))

    def left_over(self, hidden: Flags) -> sparse.csr_array:
        """Return the sums that are shown less their parts that are shown, as rows of leaves; each once, none of them a cell."""
        found = []
        rows = sparse.csr_array(self.cells.incidence)
        for members, divided in zip(self.members, self.finer, strict=True):
            open_ = np.ones(self.cells.leaves, bool)
            open_[rows[members[~hidden[members]]].indices] = False
            shown = divided[~hidden[divided]]
            part = rows[shown].multiply(open_[None, :]).tocsr()
            part.eliminate_zeros()
            size = np.diff(part.indptr)
            found.append(sparse.csr_array(part[(size > 0) & (size < self.cells.sizes[shown])]))
        found.append(
            differences(self.cells, *(c[~(hidden[self.nested[0]] | hidden[self.nested[1]])] for c in self.nested))
        )
        left = _new(rows, sparse.csr_array(sparse.vstack(found)))
        return self._in_turn(rows, sparse.csr_array(rows[~hidden]), left) if self.deep else left

    @property
    def deep(self) -> bool:
        """Whether differences of differences are looked at too: in small tables that cut across each other."""
        return len(self.cells) <= _DEEP and bool((self.cells.of_leaf < 0).any())

    def _in_turn(self, cells: sparse.csr_array, shown: sparse.csr_array, left: sparse.csr_array) -> sparse.csr_array:
        """Return sums that are known, and those that follow by taking one of them, or a cell, from another, twice over.

        With a total, a region and an area that has nothing in common with it, the rest of the total is known, and is in neither
        table. The sums of cells that cover the total, less it, are what they have in common.
        """
        for _ in range(2):
            known = sparse.csr_array(sparse.vstack([shown, left]))
            if known.shape[0] > 4 * _DEEP:
                break
            size = np.diff(known.indptr)
            common = sparse.coo_array(known @ known.T)
            whole, part = common.coords
            nested = (common.data == size[part]) & (size[part] < size[whole])
            more = sparse.csr_array(known[whole[nested]] - known[part[nested]])
            more.eliminate_zeros()
            more = _new(sparse.csr_array(sparse.vstack([cells, left])), more)
            if not more.shape[0]:
                break
            left = sparse.csr_array(sparse.vstack([left, more]))
        return left


def _new(known: sparse.csr_array, rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows of leaves that are not known, each once."""
    together = sparse.csr_array(sparse.vstack([known, rows]))
    together.sort_indices()
    _, first = np.unique(set_codes(together), axis=0, return_index=True)
    return sparse.csr_array(together[np.sort(first[first >= known.shape[0]])])


def remainders(cells: Cells) -> tuple[Whole, Whole]:
    """Return pairs of cells, the second inside the first, whose difference is no sum of cells.

    Linked tables have them that cut across each other: a region, and an area that lies in it, of a table of areas alone. What
    is left of the region when the area is taken away is in neither table, and follows from the two.
    """
    unseen = np.asarray(cells.incidence @ (cells.of_leaf < 0).astype(np.float64))
    if not unseen.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind, size = _kinds(cells), cells.sizes
    common = sparse.coo_array(cells.incidence @ cells.incidence.T)
    whole, part = (c.astype(np.int64) for c in common.coords)
    apart = np.ones(int(kind.max()) + 1, bool)
    apart[kind[whole[(kind[whole] == kind[part]) & (whole != part)]]] = False  # kinds whose cells overlap
    nested = (common.data == size[part]) & (size[part] < size[whole])
    whole, part = whole[nested], part[nested]
    # where all cells of the part's kind make up the whole, the others of them are the difference
    key = whole * len(apart) + kind[part]
    _, at = np.unique(key, return_inverse=True)
    made = np.bincount(at.ravel(), size[part])[at.ravel()] == size[whole]
    odd = ~(made & apart[kind[part]]) & (unseen[whole] > unseen[part])
    return whole[odd], part[odd]


def differences(cells: Cells, whole: Whole, part: Whole) -> sparse.csr_array:
    """Return cells less cells that are inside them, as rows of leaves."""
    rows = sparse.csr_array(cells.incidence[whole] - cells.incidence[part])
    rows.eliminate_zeros()
    return rows


def _kinds(cells: Cells) -> Whole:
    """Return a number for each cell, the same for those whose labels are on the same levels; shape (cells,)."""
    levels = np.column_stack([_depth(cells, d) for d in range(len(cells.dimensions))])
    return np.asarray(np.unique(levels, axis=0, return_inverse=True)[1].ravel(), np.int64)


def _depth(cells: Cells, dimension: int) -> Whole:
    """Return on which level of a dimension each cell's label is: 0 for the total, 1 for the coarsest labels; shape (cells,)."""
    labels, place = np.unique(cells.labels[:, dimension].astype(str), return_inverse=True)
    place = place.ravel()
    if len(labels) == 1:
        return np.zeros(len(cells), np.int64)
    which = sparse.csr_array((np.ones(len(cells)), (place, np.arange(len(cells)))), shape=(len(labels), len(cells)))
    leaves = sparse.csr_array(which @ cells.incidence)
    leaves.data[:] = 1.0
    common = sparse.coo_array(leaves @ leaves.T)
    size = np.diff(leaves.indptr)
    inner, outer = common.coords
    within = (common.data == size[inner]) & (size[inner] < size[outer]) & (labels[outer] != TOTAL)
    depth = 1 + np.bincount(inner[within], minlength=len(labels))
    depth[labels == TOTAL] = 0
    return np.asarray(depth[place], np.int64)
