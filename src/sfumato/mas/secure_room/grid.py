"""The cells of a table as numbers: in which row and column each record stands, with totals at the end of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows × columns of a table. Arrays over cells have shape (rows + 1, columns + 1): the last of each are totals."""

    row: Whole
    """The row of each record, shape (n,); -1 for a record that is in no cell."""
    column: Whole
    rows: int
    columns: int
    hidden_rows: int = 0
    """How many of the last rows the table does not show, although its totals count them."""
    hidden_columns: int = 0

    @cached_property
    def inside(self) -> Mask:
        """Which records are in a cell, shape (n,)."""
        return self.row >= 0

    @cached_property
    def _flat(self) -> Whole:
        return self.row * self.columns + self.column

    def flat(self, which: Mask) -> Whole:
        """Return the number of the cell, row by row, of some of the records that are in one."""
        at = self.inside & which
        return self._flat if at.all() else self._flat[at]

    @property
    def shown(self) -> Mask:
        """Which cells the table shows, besides totals; shape (rows + 1, columns + 1)."""
        out = np.zeros((self.rows + 1, self.columns + 1), bool)
        out[: self.rows - self.hidden_rows, : self.columns - self.hidden_columns] = True
        return out

    @property
    def cells(self) -> Mask:
        """Which are cells and not totals."""
        out = np.zeros((self.rows + 1, self.columns + 1), bool)
        out[:-1, :-1] = True
        return out

    def count(self, which: Mask) -> Numbers:
        """Return how many of some records each cell has."""
        flat = np.bincount(self.flat(which), minlength=self.rows * self.columns)
        return with_totals(flat.reshape(self.rows, self.columns).astype(np.float64))

    def range(self, values: Numbers, which: Mask) -> tuple[Numbers, Numbers]:
        """Return the least and the largest value in each cell; (inf, -inf) in an empty one."""
        at, flat = self.inside & which, self.flat(which)
        low, high = np.full(self.rows * self.columns, np.inf), np.full(self.rows * self.columns, -np.inf)
        np.minimum.at(low, flat, values[at])
        np.maximum.at(high, flat, values[at])
        shape = (self.rows, self.columns)
        return -with_largest(-low.reshape(shape)), with_largest(high.reshape(shape))

    def in_cells(self, marked: Mask) -> Mask:
        """Return which records are in marked cells, shape (n,); `marked` has the shape of the cells."""
        return np.asarray(self.inside & marked[self.row, self.column])

    def without(self, records: Mask) -> Grid:
        """Return the grid with some records taken out of their cells."""
        return Grid(
            np.where(records, -1, self.row), np.where(records, -1, self.column), self.rows, self.columns,
            self.hidden_rows, self.hidden_columns,
        )  # fmt: skip


def with_totals(cells: Numbers) -> Numbers:
    """Return cells with their sums as a last row and column."""
    rows = np.vstack([cells, cells.sum(axis=0)])
    return np.column_stack([rows, rows.sum(axis=1)])


def with_largest(cells: Numbers) -> Numbers:
    """Return cells with the largest of each column and row as a last row and column."""
    rows = np.vstack([cells, cells.max(axis=0, initial=-np.inf)])
    return np.column_stack([rows, rows.max(axis=1, initial=-np.inf)])


def places(keys: pd.DataFrame, labels: pd.Index, missing: bool) -> Whole:
    """Return for each record the place of its keys among labels, shape (n,).

    `len(labels)` stands for keys that are not among them, -1 for keys of which one is missing (unless `missing` keys are keys).
    """
    import pandas as pd

    keys = keys.set_axis([f"k{i}" for i in range(keys.shape[1])], axis=1)  # two may have one name
    if keys.shape[1] == 1:
        group: Whole = np.asarray(pd.factorize(keys["k0"], use_na_sentinel=not missing)[0], np.int64)
    else:
        numbered = keys.groupby(list(keys.columns), sort=False, dropna=not missing, observed=True).ngroup()
        group = np.asarray(numbered.fillna(-1), np.int64)
    first = np.empty(int(group.max(initial=-1)) + 2, np.int64)  # the last place is for records without a group
    first[group[::-1]] = np.arange(len(group))[::-1]  # of several records of a group the first one stays
    distinct = keys.iloc[first[:-1]]
    if keys.shape[1] == 1:
        found = labels.get_indexer(pd.Index(distinct.iloc[:, 0].astype(object)))
    else:
        found = labels.get_indexer(pd.MultiIndex.from_frame(distinct.astype(object)))
    return np.append(np.where(found < 0, len(labels), found), -1).astype(np.int64)[group]
