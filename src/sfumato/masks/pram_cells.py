"""Cells: combinations of categories as whole numbers, counted in one file and looked up in any other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Column
from sfumato.errors import DataError, listing
from sfumato.kernels.classes import classes
from sfumato.masks.pram_matrix import Cell, Index
from sfumato.microdata import Batch, Microdata

UNSEEN = -2
"""The cell of a record that has a combination which the counted file did not have."""
_ROOM = 2**62


class Coder:
    """Cells of some columns as whole numbers: learned from one file, looked up in any other."""

    def __init__(self, columns: tuple[str, ...], values: list[list[Any]], cells: Any) -> None:
        self.columns, self.values, self.cells = columns, values, cells
        self.sizes = [len(v) + 1 for v in values]

    @classmethod
    def of(cls, columns: tuple[str, ...], cells: tuple[Cell, ...]) -> Coder:
        """Learn the cells, which are numbered in their order."""
        values = [sorted({c[i] for c in cells if c[i] is not None}) for i in range(len(columns))]
        places = [{v: k for k, v in enumerate(some)} for some in values]
        table = np.array([[-1 if v is None else p[v] for v, p in zip(c, places, strict=True)] for c in cells], np.int64)
        if np.prod([len(v) + 1.0 for v in values]) > _ROOM:
            raise DataError(
                f"{listing(columns)} have too many combinations to be randomised together. Recode some first."
            )
        return cls(columns, values, table.reshape(len(cells), len(columns)))

    def _packed(self, codes: list[Index] | NDArray[Any], n: int) -> Index:
        packed = np.zeros(n, np.int64)
        for column, size in zip(codes, self.sizes, strict=True):
            packed = packed * size + (column + 1)
        return packed

    def index(self, batch: Batch) -> tuple[Index, list[Index]]:
        """Return the cell of each record (-2 where it is new), and each column's codes: past the last value for a new one."""
        own: list[Index] = []
        for name, values in zip(self.columns, self.values, strict=True):
            codes, here = batch.column(name).codes
            place = {v: k for k, v in enumerate(values)}
            own.append(np.array([place.get(v, len(values) + i) for i, v in enumerate(here)] + [-1], np.int64)[codes])
        if len(self.columns) == 1:
            cells = np.full(self.sizes[0] + 1, UNSEEN)
            cells[self.cells[:, 0] + 1] = np.arange(len(self.cells))
            return cells[np.minimum(own[0], self.sizes[0] - 1) + 1], own
        new = np.any([codes >= len(v) for codes, v in zip(own, self.values, strict=True)], axis=0)
        if not self.columns:
            return np.zeros(len(batch), np.int64), own
        known = self._packed(self.cells.T, len(self.cells))
        packed = self._packed([np.where(new, -1, codes) for codes in own], len(batch))
        order = np.argsort(known)
        at = order[np.minimum(np.searchsorted(known[order], packed), len(known) - 1)]
        return np.where(new | (known[at] != packed), UNSEEN, at), own

    def columns_of(self, batch: Batch, cells: Index, own: list[Index]) -> dict[str, Column]:
        """Return the columns of each record's cell; a record without a cell keeps its own values."""
        out = {}
        for i, name in enumerate(self.columns):
            old = batch.column(name)
            codes = np.where(cells >= 0, self.cells[np.maximum(cells, 0), i], own[i])
            out[name] = Column.from_codes(codes, [*self.values[i], *old.codes[1]], old)
        return out


def count_cells(
    data: Microdata, variables: list[tuple[str, ...]], within: tuple[str, ...]
) -> list[dict[tuple[Cell, Cell], int]]:
    """Count the cells of each variable by stratum, in one pass over the data, wherever they live."""
    tables: list[dict[tuple[Cell, Cell], int]] = [{} for _ in variables]
    needed = list(dict.fromkeys([*within, *(n for v in variables for n in v)]))
    for rows in data.engine.batches(needed):
        coded = {name: rows.columns[name].codes for name in needed}
        for table, variable in zip(tables, variables, strict=True):
            names = (*within, *variable)
            label, sizes = classes([coded[n][0] for n in names], len(rows))
            one = np.zeros(len(sizes), np.int64)
            one[label] = np.arange(len(rows))
            picked = [[None if c < 0 else coded[n][1][c] for c in coded[n][0][one].tolist()] for n in names]
            for cell, size in zip(zip(*picked, strict=True), sizes.tolist(), strict=True):
                key = cell[: len(within)], cell[len(within) :]
                table[key] = table.get(key, 0) + size
    return tables
