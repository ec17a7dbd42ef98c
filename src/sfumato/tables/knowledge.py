"""Who knows what of a published table: bounds of cells, contributors' own leaves, and sums that follow from published cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sfumato.errors import DataError, ParameterError
from sfumato.tables.cells import TOTAL, Cells, set_codes
from sfumato.tables.contributions import Contributions
from sfumato.tables.published import PublishedTable
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.tables.table import Table


@dataclass(frozen=True, eq=False)
class KnownBounds:
    """Bounds of cells and leaves; equal where a value is published."""

    cells: Cells
    low: Numbers
    """Shape (cells,). So is `high`."""
    high: Numbers
    leaf_low: Numbers
    """Shape (leaves,). So is `leaf_high`."""
    leaf_high: Numbers

    @classmethod
    def of(cls, published: PublishedTable, nonnegative: bool | None = None) -> KnownBounds:
        """Return the knowledge of every reader of a table."""
        if nonnegative is None:
            original = published.original
            nonnegative = bool((published.low >= 0).all()) if original is None else original.nonnegative
        leaves = published.cells.leaves
        bottom = np.full(leaves, 0.0 if nonnegative else -np.inf)
        return cls(published.cells, published.low, published.high, bottom, np.full(leaves, np.inf))

    def with_cells(self, known: Mapping[int, float | tuple[float, float]]) -> KnownBounds:
        """Return the knowledge of a reader who also knows some cells: a value, or a lower and an upper bound."""
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
        """Which leaves are known exactly because they are published, or have equal bounds; shape (leaves,)."""
        at = self.cells.of_leaf
        found = (at >= 0) & self.shown[at]
        return np.asarray(found | (self.leaf_low == self.leaf_high))

    @cached_property
    def components(self) -> tuple[Whole, Whole]:
        """Independent parts of the table: a number for each cell and for each leaf.

        Two unknown leaves are in one part if some published cell contains both. -1 for known leaves, and for cells without
        unknown leaves.
        """
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

    def nearby(self, row: sparse.csr_array, shown: Flags | None = None) -> tuple[Whole, Whole]:
        """Return the leaves and the cells, published or `shown`, that an equation for a row of leaves can use."""
        if shown is not None and (shown != self.shown).any():
            return np.arange(self.cells.leaves), np.flatnonzero(shown)
        of_cell, of_leaf = self.components
        own = row.indices
        parts = np.unique(of_leaf[own])
        linked = np.flatnonzero(np.isin(of_cell, parts[parts >= 0]) & self.shown)
        touched = np.zeros(self.cells.leaves, bool)
        touched[own] = True
        touched[self.cells.incidence[linked].indices] = True
        outside = np.asarray(self.cells.incidence @ (~touched).astype(np.float64)).ravel()
        return np.flatnonzero(touched), np.flatnonzero((outside == 0) & self.shown)


def single_contributors(contributions: sparse.csr_array) -> Whole:
    """Return the contributor of each leaf that has only one, -1 for the others; shape (leaves,)."""
    single = np.flatnonzero(np.diff(contributions.indptr) == 1)
    found = np.full(contributions.shape[0], -1, np.int64)
    found[single] = contributions.indices[contributions.indptr[single]]
    return found


def alone_in(contributions: Contributions) -> Whole:
    """Return the contributor whose value each leaf is, -1 for other leaves; shape (leaves,).

    A single record with a survey weight above 1 represents others too, whose values nobody knows.
    """
    own, grossed = contributions.own, contributions.grossed
    alone = single_contributors(own)
    single = np.flatnonzero(alone >= 0)
    alone[single[own.data[own.indptr[single]] != grossed.data[grossed.indptr[single]]]] = -1
    return alone


_MOST_COLUMNS, _MOST_RAYS, _MOST_PAIRS = 300, 1_000, 50_000
"""Largest parts of a table in which all combinations are found: leaves that differ, combinations, and pairs of these."""


def sums_table(table: Table, rows: sparse.csr_array) -> Table:
    """Return the table with sums of leaves, shape (sums, leaves), as its cells, so that rules can assess them.

    Weights other than 1 go into the contributions: 2a + b is a cell with every contribution to a twice as large.
    """
    labels = np.arange(rows.shape[0]).astype(str).astype(object)[:, None]
    if (rows.data == 1).all():
        return table.with_(cells=Cells(("sum",), labels, rows), given=None)
    count, leaf = len(rows.data), rows.indices
    incidence = sparse.csr_array((np.ones(count), np.arange(count), rows.indptr), shape=(rows.shape[0], count))
    contributions = table.contributions
    if contributions is not None:
        own = _times(contributions.own[leaf], rows.data)
        grossed = _times(contributions.grossed[leaf], rows.data) if contributions.weighted else own
        contributions = replace(contributions, own=own, grossed=grossed)
    return table.with_(
        cells=Cells(("sum",), labels, incidence), given=None, totals=table.totals[leaf] * rows.data,
        counts=table.counts[leaf], contributions=contributions, records=None,
    )  # fmt: skip


def _times(contributions: sparse.csr_array, weights: Numbers) -> sparse.csr_array:
    data = contributions.data * np.repeat(weights, np.diff(contributions.indptr))
    return sparse.csr_array((data, contributions.indices, contributions.indptr), shape=contributions.shape)


_DEEP = 300
"""Up to this many cells of linked tables, differences of differences are examined."""


@dataclass(frozen=True, eq=False)
class Combinations:
    """The sums of leaves that follow from published cells: what is left of totals, and all other combinations of small parts.

    Cells are in classes (all of region by sector, all of region group by sector …) whose members do not overlap.
    """

    cells: Cells
    members: tuple[Whole, ...]
    """The cells of each class."""
    finer: tuple[Whole, ...]
    """For each class the cells that it divides: each of its members is inside one of them or outside."""
    nested: tuple[Whole, Whole]
    """Cells, and cells inside them, whose difference is no sum of cells; see `remainders`."""
    _rays: dict[tuple[int, bytes], Whole | None] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Cells) -> Combinations:
        """Return the classes of a table's cells."""
        kind = _kinds(cells)
        members, finer = [], []
        for k in range(int(kind.max(initial=-1)) + 1):
            inside = np.flatnonzero(kind == k)
            rows = sparse.csr_array(cells.incidence[inside])
            if (np.asarray(rows.sum(axis=0)) > 1).any():
                continue  # they overlap: labels that are in no tree
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

    def sums(self, hidden: Flags) -> tuple[sparse.csr_array, bool]:
        """Return sums that follow from published cells, each once and none a cell; whether all others are sums of these."""
        left, (extreme, complete) = self.left_over(hidden), self.extreme(hidden)
        return sparse.csr_array(sparse.vstack([left, _new(left, extreme)])), complete

    def left_over(self, hidden: Flags) -> sparse.csr_array:
        """Return published sums less their published parts, as rows of leaves; each once, none of them a cell."""
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
        """Whether differences of differences are examined too: in small tables that cut across each other."""
        return len(self.cells) <= _DEEP and bool((self.cells.of_leaf < 0).any())

    def _in_turn(self, cells: sparse.csr_array, shown: sparse.csr_array, left: sparse.csr_array) -> sparse.csr_array:
        """Return known sums, and those that follow by subtracting one of them, or a cell, from another, twice over.

        With a total, a region and an area that does not overlap it, the rest of the total is known, and is in neither table.
        Cells that cover the total, less the total, give their overlap.
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

    def extreme(self, hidden: Flags) -> tuple[sparse.csr_array, bool]:
        """Return the published combinations of leaves that are no sum of others, as rows of leaves, and whether these are all.

        Combinations have weights of at least 0, whole numbers; none is a cell. If no such combination breaks a rule of
        dominance or of minimum size, no other does: both sides of these rules add up.
        """
        rows = sparse.csr_array(self.cells.incidence[~hidden])
        unknown = np.ones(self.cells.leaves, bool)
        unknown[rows.indices[rows.indptr[:-1][np.diff(rows.indptr) == 1]]] = False
        unknown &= np.bincount(rows.indices, minlength=self.cells.leaves) > 0
        if not len(leaves := np.flatnonzero(unknown)):
            return sparse.csr_array((0, self.cells.leaves)), True
        part = sparse.csr_array(rows[:, leaves])
        part = sparse.csr_array(part[np.diff(part.indptr) > 0])
        columns = sparse.csr_array(part.T)
        columns.sort_indices()
        _, first, group = np.unique(set_codes(columns), axis=0, return_index=True, return_inverse=True)
        alike = sparse.csr_array((np.ones(len(leaves)), (group.ravel(), leaves)), shape=(len(first), self.cells.leaves))
        part = sparse.csr_array(part[:, first])  # leaves that are in the same cells have the same weight
        graph: sparse.csr_array = sparse.block_array([[None, part], [part.T, None]], format="csr")
        number = connected_components(graph, directed=False)[1]
        found, complete = [sparse.csr_array((0, self.cells.leaves))], True
        by_row, by_column = (np.argsort(n, kind="stable") for n in np.split(number, [part.shape[0]]))
        count = int(number.max(initial=-1)) + 1
        row_at, column_at = (
            np.searchsorted(np.sort(n), np.arange(count + 1)) for n in np.split(number, [part.shape[0]])
        )
        for i in range(count):
            mine = by_column[column_at[i] : column_at[i + 1]]
            if len(mine) > _MOST_COLUMNS:
                complete = False
                continue
            matrix = part[by_row[row_at[i] : row_at[i + 1]]][:, mine].toarray().astype(np.int64)
            matrix = np.unique(matrix, axis=0)
            key = len(mine), matrix.tobytes()
            if key not in self._rays:
                self._rays[key] = extreme_rays(matrix)
            rays = self._rays[key]
            if rays is None:
                complete = False
            else:
                found.append(sparse.csr_array(rays.astype(np.float64)) @ alike[mine])
        return _new(sparse.csr_array(self.cells.incidence), sparse.csr_array(sparse.vstack(found))), complete


def extreme_rays(matrix: Whole) -> Whole | None:
    """Return the non-negative combinations of the rows of a matrix of whole numbers that are no sum of others.

    Each has whole numbers without a common divisor, shape (rays, columns). None if there are too many. By double description:
    T. Motzkin et al., The double description method (1953); K. Fukuda and A. Prodon, LNCS 1120 (1996), 91–111.

    >>> extreme_rays(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    rays, pivots = _echelon(matrix)
    done, left, pairs = pivots, [j for j in range(matrix.shape[1]) if j not in pivots], 0
    while left:
        work = (rays[:, left] > 0).sum(axis=0) * (rays[:, left] < 0).sum(axis=0)
        pairs += int(work.min())
        if pairs > _MOST_PAIRS or len(rays) > _MOST_RAYS:
            return None
        column = left.pop(int(np.argmin(work)))
        value, zero = rays[:, column], rays[:, done] == 0
        above, below = np.flatnonzero(value > 0), np.flatnonzero(value < 0)
        one, other = np.repeat(above, len(below)), np.tile(below, len(above))
        both = zero[one] & zero[other]
        # two rays span a face if no third one is zero wherever both are
        adjacent = ((both.astype(np.float32) @ (~zero).T.astype(np.float32)) == 0).sum(axis=1) == 2
        one, other = one[adjacent], other[adjacent]
        new = value[one][:, None] * rays[other] - value[other][:, None] * rays[one]
        rays = np.concatenate([rays[value >= 0], _primitive(new)])
        done = [*done, column]
    return rays[np.lexsort(-rays.T[::-1])]


def _echelon(matrix: Whole) -> tuple[Whole, list[int]]:
    """Return a basis of the rows, each with a positive entry in a column in which the others have 0, and these columns."""
    rows, pivots = matrix.copy(), list[int]()
    for column in range(matrix.shape[1]):
        at = len(pivots)
        candidates = at + np.flatnonzero(rows[at:, column])
        if not len(candidates):
            continue
        rows[[at, candidates[0]]] = rows[[candidates[0], at]]
        rows[at] *= np.sign(rows[at, column])
        factor = rows[:, column].copy()
        factor[at] = 0
        rows = _primitive(rows * rows[at, column] - factor[:, None] * rows[at])
        pivots.append(column)
    return rows[: len(pivots)], pivots


def _primitive(rows: Whole) -> Whole:
    """Return rows of whole numbers divided by their common divisors."""
    return np.asarray(rows // np.maximum(np.gcd.reduce(rows, axis=1, initial=0), 1)[:, None])


def _new(known: sparse.csr_array, rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows of leaves that are not known, each once."""
    together = sparse.csr_array(sparse.vstack([known, rows]))
    together.sort_indices()
    _, first = np.unique(set_codes(together), axis=0, return_index=True)
    return sparse.csr_array(together[np.sort(first[first >= known.shape[0]])])


def remainders(cells: Cells) -> tuple[Whole, Whole]:
    """Return pairs of cells, the second inside the first, whose difference is no sum of cells.

    They occur in linked tables that cut across each other: a region, and an area inside it from a table of areas alone. The
    region without the area is in neither table, but follows from the two.
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
    # where all cells of the part's kind make up the whole, the difference is the sum of the others
    key = whole * len(apart) + kind[part]
    _, at = np.unique(key, return_inverse=True)
    made = np.bincount(at.ravel(), size[part])[at.ravel()] == size[whole]
    odd = ~(made & apart[kind[part]]) & (unseen[whole] > unseen[part])
    return whole[odd], part[odd]


def differences(cells: Cells, whole: Whole, part: Whole) -> sparse.csr_array:
    """Return cells less the cells inside them, as rows of leaves."""
    rows = sparse.csr_array(cells.incidence[whole] - cells.incidence[part])
    rows.eliminate_zeros()
    return rows


def _kinds(cells: Cells) -> Whole:
    """Return the kind of each cell, equal for cells whose labels are on the same levels; shape (cells,)."""
    levels = np.column_stack([_depth(cells, d) for d in range(len(cells.dimensions))])
    return np.asarray(np.unique(levels, axis=0, return_inverse=True)[1].ravel(), np.int64)


def _depth(cells: Cells, dimension: int) -> Whole:
    """Return the level of each cell's label in a dimension: 0 for the total, 1 for the coarsest labels; shape (cells,)."""
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
