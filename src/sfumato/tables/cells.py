"""The cells of a table, or of several linked ones, and the leaves that each cell is made of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import ParameterError, unknown_name
from sfumato.tables.dimension import TOTAL, Dimension
from sfumato.tables.formula import Term

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cells there are, and of which leaves each is the sum.

    Leaves are the atoms of the partition that all cells together generate: records in the same leaf are in the same cells.
    `incidence` is cells × leaves, 1 where a leaf belongs to a cell; every table that is published is incidence @ leaves, so
    that it adds up whatever the leaves are. Cells of linked tables stand in one list; a cell that two of them share stands
    once.
    """

    dimensions: tuple[str, ...]
    labels: NDArray[np.object_]
    """Shape (cells, dimensions); "Total" where a cell is not broken down by a dimension."""
    incidence: sparse.csr_array
    """Shape (cells, leaves), 0 or 1."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int(self.incidence.shape[1])

    def sums(self, leaves: Numbers) -> Numbers:
        """Return the value of every cell from those of the leaves, shape (leaves,) or (leaves, k)."""
        return np.asarray(self.incidence @ leaves)

    @cached_property
    def sizes(self) -> Whole:
        """How many leaves each cell has, shape (cells,)."""
        return np.diff(self.incidence.indptr).astype(np.int64)

    @cached_property
    def of_leaf(self) -> Whole:
        """The cell that is the leaf and nothing else, for each leaf; -1 for a leaf that no cell shows by itself."""
        found = np.full(self.leaves, -1, np.int64)
        alone = np.flatnonzero(self.sizes == 1)[::-1]  # the first of several wins
        found[self.incidence.indices[self.incidence.indptr[alone]]] = alone
        return found

    def name(self, cell: int) -> str:
        """Return a cell's labels in words.

        A cell that is broken down by nothing is "the grand total".
        """
        parts = [f"{d} {v}" for d, v in zip(self.dimensions, self.labels[cell], strict=True) if v != TOTAL]
        return ", ".join(parts) or "the grand total"

    def find(self, labels: Mapping[str, str] | None = None, **more: str) -> int:
        """Return the position of a cell: ``find(region="North")`` is its total over the other dimensions."""
        wanted = {**(labels or {}), **more}
        for dimension in wanted:
            if dimension not in self.dimensions:
                raise ParameterError(unknown_name("dimension", dimension, self.dimensions, "the table"))
        key = tuple(str(wanted.get(d, TOTAL)) for d in self.dimensions)
        if key not in self._positions:
            for d, label in zip(self.dimensions, key, strict=True):
                known = sorted(set(self.labels[:, self.dimensions.index(d)]))
                if label not in known:
                    raise ParameterError(unknown_name("label", label, known, f"dimension '{d}'"))
            raise ParameterError("the table has no such cell: these labels do not occur together in it.")
        return self._positions[key]

    @cached_property
    def _positions(self) -> dict[tuple[str, ...], int]:
        return {tuple(row): i for i, row in enumerate(self.labels.tolist())}


def make_cells(dimensions: Sequence[Dimension], codes: Whole, terms: Iterable[Term]) -> tuple[Cells, Whole]:
    """Return the cells that the terms ask for, and the leaf of each row of `codes`.

    `codes` has a row for each combination of values (one for each dimension, shape (combinations, dimensions)) that may occur.
    """
    names = [d.name for d in dimensions]
    sizes = [len(d.labels) + 1 for d in dimensions]
    stride = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if math.prod(sizes) >= 2**62:
        raise ParameterError("the table has too many dimensions with too many labels. Ask for fewer at a time.")
    columns = []
    for term in terms:
        levels = [range(dimensions[names.index(n)].above.shape[1]) for n in term]
        for combination in itertools.product(*levels):
            key = np.zeros(len(codes), np.int64)
            for name, level in zip(term, combination, strict=True):
                i = names.index(name)
                key += (dimensions[i].above[codes[:, i], level] + 1) * stride[i]
            columns.append(key)
    keys = np.column_stack(columns) if columns else np.zeros((len(codes), 0), np.int64)
    distinct, flat = np.unique(keys, return_inverse=True)
    members = np.sort(flat.reshape(keys.shape), axis=1)
    rows, leaf = np.unique(members, axis=0, return_inverse=True)
    cell, column = rows.ravel(), np.repeat(np.arange(len(rows)), rows.shape[1])
    incidence = sparse.csr_array((np.ones(len(cell)), (cell, column)), shape=(len(distinct), len(rows)))
    incidence.sum_duplicates()
    incidence.data[:] = 1.0  # a label that repeats on two levels is one cell
    labels = np.empty((len(distinct), len(dimensions)), object)
    for i, d in enumerate(dimensions):
        node = distinct // stride[i] % sizes[i]
        labels[:, i] = np.array([TOTAL, *d.labels], object)[node]
    return Cells(tuple(names), labels, incidence), leaf.ravel().astype(np.int64)
