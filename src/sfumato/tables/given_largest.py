"""The largest contributions to each cell, as a file gives them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, listing, some
from sfumato.tables.additivity import Sums
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions
from sfumato.tables.given_cells import GivenCells
from sfumato.tables.largest import Largest, largest_of

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def given_largest(given: GivenCells, sums: Sums, position: Whole, alone: bool) -> Largest:
    """Return the largest contributions of every cell, from those of the given ones at their `position`.

    A margin that was not given has the largest of the cells below it, and as many contributors as they have together: right
    where nobody contributes to two of them. Where nobody says how many contributors a cell has, it is as many as the numbers
    prove: one for each known contribution, and one more if there is something left.
    """
    cells, n = sums.cells, given.top.shape[1]
    number = _contributors(given)
    _check(given, cells, position, number)
    if len(position) < len(cells) and not alone:
        raise DataError(
            "linked tables with largest contributions need all their margins, with the contributions to them. Add the margins."
        )
    values, contributors = np.zeros((len(cells), n)), np.zeros(len(cells))
    if len(position) < len(cells):
        single = np.flatnonzero(cells.sizes[position] == 1)
        leaf = np.full(cells.leaves, -1, np.int64)  # the given row of each leaf, of which a margin may be another
        leaf[cells.incidence.indices[cells.incidence.indptr[position[single]]]] = single
        values, contributors = _merged(cells, given.top[leaf]), cells.sums(number[leaf])
    values[position], contributors[position] = given.top, number
    sums.check_larger(contributors, np.zeros(len(cells)), "fewer contributors")
    if given.nonnegative:
        for k in range(1, n + 1):
            room = np.full(len(cells), k * given.rounding)
            sums.check_larger(values[:, :k].sum(axis=1), room, "smaller largest contributions")
    return Largest(contributors, values, np.ones_like(values), np.full(values.shape, -1, np.int64))


def _merged(cells: Cells, top: Numbers) -> Numbers:
    """Return the largest of all leaves' contributions for every cell, as if each were another contributor's."""
    leaves, n = top.shape
    if not n:
        return np.zeros((len(cells), 0))
    own = sparse.csr_array((top.ravel(), np.arange(top.size), np.arange(0, top.size + 1, n)), shape=(leaves, top.size))
    return largest_of(cells, Contributions(own, own), n).values


def _contributors(given: GivenCells) -> Numbers:
    if given.contributors is not None:
        return given.contributors
    if given.counts is not None:
        return given.counts
    shown = (given.top != 0).sum(axis=1)
    rest = np.abs(given.values - given.top.sum(axis=1)) > 1e-9 * np.abs(given.values)
    return np.asarray(shown + rest, np.float64)


def _check(given: GivenCells, cells: Cells, position: Whole, number: Numbers) -> None:
    """Refuse contributions that cannot be those of their cell."""
    sure = given.values >= 0
    over = given.top.sum(axis=1) > given.values * (1 + 1e-9) + given.rounding * (1 + given.top.shape[1])
    negative = (given.top < 0).any(axis=1)
    for bad, one, several in (
        (
            negative & given.nonnegative,
            "has a largest contribution below zero",
            "have a largest contribution below zero",
        ),
        (
            over & sure & ~negative & given.nonnegative,
            "is less than its largest contributions together",
            "are less than their largest contributions together",
        ),
        (
            (given.top != 0).sum(axis=1) > number,
            "has fewer contributors than largest contributions",
            "have fewer contributors than largest contributions",
        ),
        (
            False if given.counts is None else number > given.counts,
            "has more contributors than records",
            "have more contributors than records",
        ),
    ):
        if np.any(bad):
            names = [cells.name(int(c)) for c in position[bad]]
            verb = one if len(names) == 1 else several
            raise DataError(
                f"{some(len(names), 'cell')} {verb}: {listing(names, 5)}. Check which columns are named as "
                "top, count and contributors."
            )
