"""Contributions to leaves, the largest of every cell, and the marks of records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sfumato.data.columns import Column
from sfumato.data.microdata import Batch, missing_of
from sfumato.errors import DataError
from sfumato.tables.cells import Cells
from sfumato.typing import Flags, Numbers, Objects, Whole


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """The contribution of each contributor to each leaf: confidential.

    A contributor is the unit that must not be disclosed: an enterprise, or the holding that owns several. `own` is its
    contribution, `grossed` the same times the survey weights; without weights both are the same. Both are leaves ×
    contributors, and hold an entry (perhaps 0) wherever a contributor has a record.
    """

    own: sparse.csr_array
    grossed: sparse.csr_array
    size: Numbers | None = None
    """A public, or nearly public, measure of each contributor's size; shape (contributors,)."""
    names: Objects | None = None
    """The contributors' names in the file: for the custodian alone."""
    waived: Flags | None = None
    """Which contributors waived protection, shape (contributors,)."""
    requests: Whole | None = None
    """Requests for protection: 0 for none, otherwise the code of the request, 1 or 2; shape (contributors,)."""

    def __len__(self) -> int:
        return int(self.own.shape[1])

    def __repr__(self) -> str:
        return f"Contributions({len(self):,} contributors to {self.own.shape[0]:,} leaves)"

    @property
    def weighted(self) -> bool:
        """Whether there are survey weights."""
        return self.own is not self.grossed

    @cached_property
    def totals(self) -> Numbers:
        """Each contributor's total, without weights; shape (contributors,)."""
        return np.asarray(self.own.sum(axis=0), np.float64).ravel()

    @property
    def negative(self) -> bool:
        """Whether there are negative contributions."""
        return bool((self.own.data < 0).any())

    def largest_sums(self, cells: Cells, count: int, grossed: bool) -> CellSums | None:
        """Return the `count` largest contributions to every cell, from where the records live; None if they are here."""
        return None


class CellSums(NamedTuple):
    """Contributions to cells."""

    own: sparse.csr_array
    """Cells × contributors; at least the largest."""
    grossed: sparse.csr_array
    contributors: Numbers
    """Number of contributors of each cell, shape (cells,)."""
    total: Numbers
    """Sum of all grossed contributions, shape (cells,)."""
    own_total: Numbers


@dataclass(frozen=True, eq=False, repr=False)
class Largest:
    """The number of contributors of every cell, and the largest contributions, largest first: confidential.

    `values` are unweighted contributions, `weights` the factors by which they enter the total (1 without survey weights), so
    that values × weights is the part of the cell's total.
    """

    contributors: Numbers
    """Number of contributors with a record in the cell, shape (cells,)."""
    values: Numbers
    """Shape (cells, n); 0 where there are fewer contributors."""
    weights: Numbers
    """Shape (cells, n)."""
    who: Whole
    """Positions of the contributors, shape (cells, n); -1 where there are fewer, or they are not known."""

    def first(self, count: int) -> Largest:
        """Return the first `count` columns; refuse if fewer are known."""
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
    """Return cells × contributors from leaves × contributors, with an entry, perhaps 0, wherever a leaf has one."""
    # the imaginary part counts leaves: a sum that is zero by chance keeps its entry
    counted = sparse.csr_array(
        (contributions.data + 1j, contributions.indices, contributions.indptr), shape=contributions.shape
    )
    found = sparse.csr_array(cells.incidence @ counted)
    found.sort_indices()
    return sparse.csr_array((found.data.real.copy(), found.indices, found.indptr), shape=found.shape)


def sums_by_cell(cells: Cells, contributions: Contributions) -> CellSums:
    """Return all contributions to all cells."""
    own = by_cell(cells, contributions.own)
    grossed = by_cell(cells, contributions.grossed) if contributions.weighted else own
    total, own_total = (np.asarray(matrix.sum(axis=1), np.float64).ravel() for matrix in (grossed, own))
    return CellSums(own, grossed, np.diff(own.indptr).astype(np.float64), total, own_total)


def largest_of(cells: Cells, contributions: Contributions, count: int) -> Largest:
    """Return the `count` largest contributions to every cell, by unweighted values."""
    sums = contributions.largest_sums(cells, count, grossed=False) or sums_by_cell(cells, contributions)
    own, grossed = sums.own, sums.grossed
    rows = np.repeat(np.arange(len(cells)), np.diff(own.indptr))
    order = np.lexsort((own.indices, -own.data, rows))
    place = np.arange(len(rows)) - own.indptr[rows]  # rows are sorted already, so this is the rank within the cell
    kept = place < count
    row, rank, at = rows[kept], place[kept], order[kept]
    values, weights = np.zeros((len(cells), count)), np.ones((len(cells), count))
    who = np.full((len(cells), count), -1, np.int64)
    values[row, rank], who[row, rank] = own.data[at], own.indices[at]
    if grossed is not own:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = grossed.data[at] / own.data[at]
        weights[row, rank] = np.where(own.data[at] == 0, 1.0, ratio)
    return Largest(sums.contributors, values, weights, who)


_YES = frozenset({"1", "1.0", "true", "yes", "y", "t"})
_NO = frozenset({"0", "0.0", "false", "no", "n", "f", ""})


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of a table, for noise that depends on them: the same record has the same id in every table."""

    leaf: Whole
    """The leaf of each record, shape (records,)."""
    hidden: Whole
    """The id that each record got when it was loaded, shape (records,)."""
    identifier: Column | None = None
    """The identifier of each record, where the data have one."""
    keys: Numbers | None = None
    """The record keys of the file, in [0, 1); shape (records,)."""

    def __len__(self) -> int:
        return len(self.leaf)

    @cached_property
    def ids(self) -> Whole:
        """A number for each record that does not depend on the table, shape (records,).

        It comes from the identifier if that distinguishes all records, so that the order of the file does not matter; otherwise
        it is the hidden id.
        """
        if self.identifier is None or self.identifier.missing.any():
            return self.hidden
        hashes = self.identifier.hashes
        return hashes if len(np.unique(hashes)) == len(hashes) else self.hidden


def yes_by_contributor(batch: Batch, name: str, who: Whole, everywhere: bool) -> Flags:
    """Return for each contributor whether its records say yes in a column: all of them, or any."""
    codes, values = batch.column(name).codes
    gone = missing_of(batch.column(name), batch.schema[name])
    words = [str(v).strip().lower() for v in values]
    if not set(words) <= _YES | _NO:
        raise DataError(f"column '{name}' must hold yes or no: 1 and 0, true and false, or yes and no.")
    yes = np.array([w in _YES for w in words] + [False])[np.where(gone, len(values), codes)]
    said = np.bincount(who, yes, int(who.max()) + 1)
    return np.asarray(said == np.bincount(who) if everywhere else said > 0)


def requests_of(batch: Batch, name: str, who: Whole) -> Whole:
    """Return for each contributor the code of its request for protection: 0 for none, 1, or 2; the smallest if it has two."""
    numbers = batch.numbers(name)
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    if not np.isin(numbers, (0, 1, 2)).all():
        raise DataError(f"column '{name}' must hold 0 for no request, or one of the request codes 1 and 2.")
    found = np.full(int(who.max()) + 1, 3, np.int64)
    np.minimum.at(found, who, np.where(numbers == 0, 3, numbers).astype(np.int64))
    return np.where(found == 3, 0, found)
