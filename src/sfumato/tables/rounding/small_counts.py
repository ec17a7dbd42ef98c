"""Small-count rounding: counts below the base become 0 or the base, and all published sums stay sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, NotApplicable, ParameterError, some
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rounding.cell_ids import leaf_numbers
from sfumato.tables.rounding.two_values import Choice
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_STARTS = 5000  # as many starts as this has times the counts to be rounded


class SmallCountRounding(Protection):
    """Small inner counts become 0 or the base; every cell is then summed again, so that the table adds up.

    Only leaves that stand in a published cell of 1 to `largest` are rounded; all others stay as they are. Which go up is
    chosen so that the squared errors of all published cells are small together: from several starts, changes of one leaf or
    two until none helps. No published cell is between 1 and `largest` afterwards.

    The idea is that of Langsrud and Heldal, An algorithm for small count rounding of tabular data, Privacy in Statistical
    Databases (2018); the search is our own.
    """

    base: int = param(default=3, doc="small counts become 0 or this", low=2, integer=True, scale="log", usual=(3, 10))
    largest: int | None = param(
        default=None, doc="the largest count that is small; one less than the base if not given", low=1, integer=True
    )

    def validate(self) -> None:
        """Check that small counts are below the base."""
        if self.largest is not None and self.largest >= self.base:
            raise ParameterError(
                f"largest of {self.name} must be below the base, {self.base}; got {self.largest}. Larger counts stay as they are."
            )

    def label(self) -> str:
        """Return the method in a few words."""
        below = "" if self.largest is None else f", counts up to {self.largest}"
        return f"small-count rounding to {self.base}{below}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with its small counts rounded."""
        counts = _checked(table)
        small = self.base - 1 if self.largest is None else self.largest
        keyed, ids = draws.child(self.name, table.variable), leaf_numbers(table.cells)
        cells = table.cells
        by_leaf = sparse.csr_array(cells.incidence.T)
        chosen = np.zeros(cells.leaves, bool)
        leaves, values = counts, table.value
        while (hidden := np.flatnonzero((values > 0) & (values <= small))).size:
            # every count in a small cell is small itself, unless the cell became small by rounding others
            marked = np.zeros(len(cells))
            marked[hidden] = 1.0
            chosen |= (by_leaf @ marked > 0) & (counts > 0) & (counts <= small)
            leaves = _rounded(cells.incidence, counts, chosen, self.base, keyed, ids)
            values = cells.sums(leaves)
        low, high = _sure(values, cells.sizes, self.base, small)
        moved = values - table.value
        says = f"no published count is between 1 and {small}, and all cells add up"
        near = (
            f"{some(int(chosen.sum()), 'inner count')} of {cells.leaves:,} rounded; cells change by {np.abs(moved).max():g} at "
            f"most and {np.abs(moved).mean():.2g} on average"
        )
        return PublishedTable.shown(table, self).with_(
            values=values, low=low, high=high, status=np.full(len(cells), Status.CHANGED, np.int8),
            guarantees=(
                Guarantee(self.name, says, "all published cells looked at; each is the sum of its inner counts"),
                Guarantee(self.name, near, "all published cells compared with the original ones"),
            ),
        )  # fmt: skip


def _checked(table: Table) -> Numbers:
    if not (table.integer and table.nonnegative):
        raise NotApplicable(
            "small-count rounding is for counts: whole numbers that are not negative. Use random or controlled rounding for "
            "magnitudes and for counts that are grossed up."
        )
    if (table.totals != np.rint(table.totals)).any():
        raise DataError(
            "small-count rounding changes the inner counts of the table, and this one does not say what they are. Make it from "
            "microdata, or from a table that has its innermost cells."
        )
    return table.totals


def _rounded(
    incidence: sparse.csr_array, counts: Numbers, chosen: NDArray[np.bool_], base: int, draws: Draws, ids: Whole
) -> Numbers:
    """Return the counts with the chosen ones at 0 or the base."""
    at = np.flatnonzero(chosen)
    order = draws.uniforms(ids[at], "order")
    choice = Choice(sparse.csr_array(incidence[:, at]), -counts[at], base - counts[at], order)
    starts = int(np.clip(_STARTS // len(at), 1, 30))
    more = (draws.uniforms(ids[at], f"start {k}") for k in range(starts))
    choice.improve_often(np.ones(incidence.shape[0]), more)
    leaves = counts.copy()
    leaves[at] = np.where(choice.up, base, 0)
    return leaves


def _sure(values: Numbers, sizes: Whole, base: int, small: int) -> tuple[Numbers, Numbers]:
    """Return what is sure of each cell, of which a reader knows the sum of its `sizes` inner counts after rounding.

    An inner count that reads 0 was at most `small`, one that reads `base` was at least 1 and at most the base; any other is
    right. So most is hidden if as many as possible read 0 or, at the lower end, read exactly the base.
    """
    zeros = np.where(values > 0, sizes - 1, sizes)
    times = np.floor(values / base)
    full = np.where(values == base * sizes, sizes, np.minimum(times, sizes - 1))
    return values - (base - 1) * full, values + small * zeros
