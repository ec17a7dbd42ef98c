"""The largest contributions to every cell: what rules of dominance look at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Largest:
    """For every cell how many contributors it has, and the largest contributions, largest first: confidential.

    `values` holds what a contributor gave itself, `weights` how much of the total each unit of that stands for (1 without
    survey weights), so that values × weights is what is in the cell's total.
    """

    contributors: NDArray[np.float64]
    """How many contributors have a record in the cell, shape (cells,)."""
    values: Numbers
    """Shape (cells, n); 0 where there are fewer contributors."""
    weights: Numbers
    """Shape (cells, n)."""
    who: Whole
    """Positions of the contributors, shape (cells, n); -1 where there are fewer, or nobody knows."""

    def first(self, count: int) -> Largest:
        """Return the first so many; refused if fewer are known."""
        if count > self.values.shape[1]:
            raise DataError(
                f"the {count} largest contributions to each cell are needed, but the table has only {self.values.shape[1]}."
            )
        kept = {name: getattr(self, name)[:, :count] for name in ("values", "weights", "who")}
        return replace(self, **kept)

    def of(self, cells: Whole) -> Largest:
        """Return those of some cells."""
        return Largest(self.contributors[cells], self.values[cells], self.weights[cells], self.who[cells])


def by_cell(cells: Cells, contributions: sparse.csr_array) -> sparse.csr_array:
    """Return cells × contributors from leaves × contributors, with an entry, perhaps 0, wherever there is one below."""
    # the imaginary part counts leaves: a sum that is zero by chance keeps its entry
    counted = sparse.csr_array(
        (contributions.data + 1j, contributions.indices, contributions.indptr), shape=contributions.shape
    )
    found = sparse.csr_array(cells.incidence @ counted)
    found.sort_indices()
    return sparse.csr_array((found.data.real.copy(), found.indices, found.indptr), shape=found.shape)


def largest_of(cells: Cells, contributions: Contributions, count: int) -> Largest:
    """Return the `count` largest contributions to every cell, by what the contributors gave themselves."""
    own = by_cell(cells, contributions.own)
    grossed = by_cell(cells, contributions.grossed) if contributions.weighted else own
    rows = np.repeat(np.arange(len(cells)), np.diff(own.indptr))
    order = np.lexsort((own.indices, -own.data, rows))
    place = np.arange(len(rows)) - own.indptr[rows]  # rows are sorted already, so this is the rank within the cell
    kept = place < count
    row, rank, at = rows[kept], place[kept], order[kept]
    values, weights = np.zeros((len(cells), count)), np.ones((len(cells), count))
    who = np.full((len(cells), count), -1, np.int64)
    values[row, rank], who[row, rank] = own.data[at], own.indices[at]
    if contributions.weighted:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = grossed.data[at] / own.data[at]
        weights[row, rank] = np.where(own.data[at] == 0, 1.0, ratio)
    return Largest(np.diff(own.indptr).astype(np.float64), values, weights, who)
