"""The largest contributors of every cell, and what a coalition of the others knows."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from sfumato.errors import DataError, ParameterError
from sfumato.tables.contributions import CellSums, Largest, sums_by_cell
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Objects, Whole

_BY_CELL: WeakKeyDictionary[Table, CellSums] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, repr=False)
class CellContributors:
    """The largest contributions to every cell as a rule uses them, largest first: confidential."""

    values: Numbers
    """Shape (cells, n); 0 where there are fewer contributors."""
    copies: Numbers
    """Number of contributors of this size that each one counts as, shape (cells, n)."""
    who: Whole
    """Positions of the contributors, shape (cells, n); -1 where there are fewer, or they are not known."""
    contributors: Numbers
    """Number of contributors with a record in the cell, shape (cells,)."""
    total: Numbers
    """The cell's total, grossed up by weights; of absolute values where there are negative ones."""
    own: Numbers
    """The same without weights."""


def contributors_by_cell(
    table: Table, count: int, weights: str = "known", negative: str = "refuse", among: Flags | None = None
) -> CellContributors:
    """Return the `count` largest contributors of every cell, or the largest `among` some contributors.

    `weights` is what attackers know of survey weights: "known" uses grossed-up contributions, "unknown" unweighted
    contributions against a grossed-up total, "copies" as τ-ARGUS does: a weight of 3 is three contributors of that size.
    """
    if table.contributions is None:
        return _of_given(table, count, weights, among)
    sums = None if among is not None else table.contributions.largest_sums(table.cells, count, weights == "known")
    sums = sums or _sums_by_cell(table)
    own, grossed, total, own_total = sums.own, sums.grossed, sums.total, sums.own_total
    if own.data.size and own.data.min() < 0:
        if negative == "refuse":
            raise DataError(
                "there are negative contributions, and the rules of dominance are about positive ones. Choose negative = "
                "'absolute' to judge by absolute values, or a rule for them (PTN)."
            )
        if weights == "copies" and own is not grossed:
            raise ParameterError(
                "negative contributions with survey weights cannot be taken as copies. Choose weights = 'known'."
            )
        own = sparse.csr_array((np.abs(own.data), own.indices, own.indptr), shape=own.shape)
        grossed = sparse.csr_array((np.abs(grossed.data), grossed.indices, grossed.indptr), shape=grossed.shape)
        total, own_total = (np.asarray(matrix.sum(axis=1), np.float64).ravel() for matrix in (grossed, own))
    shown = grossed if weights == "known" else own
    cells = len(table)
    row = np.repeat(np.arange(cells), np.diff(shown.indptr))
    kept = np.arange(len(row)) if among is None else np.flatnonzero(among[shown.indices])
    row, data, who = row[kept], shown.data[kept], shown.indices[kept]
    order = np.lexsort((who, -data, row))
    rank = np.arange(len(row)) - np.searchsorted(row, np.arange(cells))[row]
    at, here, place = order[rank < count], row[rank < count], rank[rank < count]
    values, copies = np.zeros((cells, count)), np.ones((cells, count))
    found = np.full((cells, count), -1, np.int64)
    values[here, place], found[here, place] = data[at], who[at]
    if weights == "copies":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(data[at] == 0, 1.0, grossed.data[kept[at]] / data[at])
        copies[here, place] = np.maximum(ratio, 1.0)
    return CellContributors(values, copies, found, sums.contributors, total, own_total)


def worst_attack(
    everyone: CellContributors, targets: CellContributors, coalition: int, waived: bool
) -> tuple[Numbers, Numbers]:
    """Return in every cell the largest contribution to protect, and the sum of the largest coalition of others.

    `everyone` holds the coalition + 1 largest, `targets` the largest of those who are protected; every rule here increases with
    both, so no other pair is worse. -inf where nobody is protected.
    """
    nobody = targets.contributors == 0 if not waived else targets.who[:, 0] < 0
    target = np.where(nobody, -np.inf, targets.values[:, 0])
    itself = np.zeros(everyone.values.shape, bool)
    if waived:
        itself = (everyone.who == targets.who[:, :1]) & (everyone.who >= 0)
    else:
        itself[:, 0] = True
    room = everyone.copies - itself
    left, known = np.full(len(target), float(coalition)), np.zeros(len(target))
    for place in range(everyone.values.shape[1]):
        taken = np.minimum(room[:, place], left)
        known += taken * everyone.values[:, place]
        left -= taken
    return target, known


def waived_of(table: Table, names: tuple[str, ...] | None) -> Flags | None:
    """Return who waived protection: by the table's column, or by a list of names; None if nobody did."""
    contributions = table.contributions
    if contributions is None:
        if names:
            raise DataError(
                "the table does not say who contributed to its cells, so nobody can waive protection by name."
            )
        return None
    waived = contributions.waived
    if names:
        if contributions.names is None:
            raise DataError(
                "the records have no contributors by name, so nobody can waive protection by name. Give the column with the "
                "contributors (Table.of(..., contributor=...))."
            )
        listed = listed_in(contributions.names, names)
        waived = listed if waived is None else waived | listed
    return waived if waived is not None and waived.any() else None


def listed_in(known: Objects, names: tuple[str, ...]) -> Flags:
    """Return which contributors are in a list of names.

    A column of numbers with missing values turns 7 into 7.0: both are the name 7.
    """
    return np.isin([_text(name) for name in known], [_text(name) for name in names])


def _text(name: object) -> str:
    text = str(name)
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text


def singletons(table: Table) -> Whole:
    """Return the only contributor of each cell, shape (cells,); -1 for a cell with several, or none.

    A singleton knows his own cell, published or not: where it hides another cell, it does not hide it from him.
    """
    own = _sums_by_cell(table).own
    alone = np.diff(own.indptr) == 1
    found = np.full(len(table), -1, np.int64)
    found[alone] = own.indices[own.indptr[:-1][alone]]
    return found


def contributors_of(table: Table, nonzero: bool = False) -> Numbers:
    """Count the contributors of every cell, shape (cells,).

    Where a table of counts has no contributors, every counted record is a contributor.
    """
    if table.contributions is not None:
        if not nonzero:
            here = table.contributions.largest_sums(table.cells, 0, grossed=False)
            return (here or _sums_by_cell(table)).contributors
        own = _sums_by_cell(table).own
        return np.asarray(np.bincount(_rows(own)[own.data != 0], minlength=len(table)), np.float64)
    if table.given is not None and not nonzero:
        return table.given.contributors
    if table.is_count:
        return table.frequency
    raise DataError("the table does not say how many contributors its cells have. Make it from microdata.")


def requests_of(table: Table, codes: Whole) -> Numbers:
    """Count the contributors of every cell who asked for protection, by the code of their request; shape (cells, 2)."""
    own = _sums_by_cell(table).own
    asked = codes[own.indices]
    return np.column_stack([np.bincount(_rows(own)[asked == code], minlength=len(table)) for code in (1, 2)])


def _sums_by_cell(table: Table) -> CellSums:
    """Return all contributions to all cells; cached with the table, since several rules use them."""
    if table not in _BY_CELL:
        if table.contributions is None:
            raise DataError("the table does not say who contributed to its cells. Make it from microdata.")
        _BY_CELL[table] = sums_by_cell(table.cells, table.contributions)
    return _BY_CELL[table]


def _rows(matrix: sparse.csr_array) -> Whole:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _of_given(table: Table, count: int, weights: str, among: Flags | None) -> CellContributors:
    """Return the largest contributors from a file's largest contributions; these must be enough for the rule."""
    if among is not None:
        raise DataError(
            "the table does not say who contributed to its cells, so it cannot leave some contributors out."
        )
    known = table.given
    if known is not None and known.values.shape[1] < count:
        known = _padded(known, count)
    largest = known.first(count) if known is not None else table.largest(count)
    if (largest.values < 0).any() or (table.value < 0).any():
        raise DataError(
            "there are negative contributions, and the largest alone do not say how much the others cancel. Make the table "
            "from microdata to judge by absolute values."
        )
    grossed = (largest.weights != 1).any()
    if grossed and weights != "copies":
        raise DataError(
            "the largest contributions have weights, and others may be larger once they are grossed up. Make the table from "
            "microdata, or choose weights = 'copies'."
        )
    copies = largest.weights if grossed else np.ones_like(largest.values)
    return CellContributors(largest.values, copies, largest.who, largest.contributors, table.value, table.value)


def _padded(known: Largest, count: int) -> Largest:
    """Return as many columns as needed, where no cell has more contributors than the file gave."""
    have = known.values.shape[1]
    if (known.contributors > have).any():
        return known
    more = ((0, 0), (0, count - have))
    return Largest(
        known.contributors, np.pad(known.values, more), np.pad(known.weights, more, constant_values=1.0),
        np.pad(known.who, more, constant_values=-1),
    )  # fmt: skip
