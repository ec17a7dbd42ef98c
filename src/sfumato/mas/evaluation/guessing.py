"""Naming the cell with the largest difference: right far more often than the difference table is clean (ERRATA 1.8b, 1.8c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import NotApplicable
from sfumato.kernels.largest_difference import largest_chances, work
from sfumato.mas.evaluation.cell_table import CellTable, Numbers
from sfumato.mas.evaluation.checks import at_least_one, whole_q

_MOST_WORK = 2e7
"""Complex multiplications, about two seconds."""


@dataclass(frozen=True, eq=False)
class LargestCell:
    """The probability that the largest cell of the difference table is the target's, ties broken at random."""

    right: Numbers
    """For each cell that may be the target's, of the shape of the table; NaN where a cell is empty."""
    proportions: Numbers

    @property
    def mean(self) -> float:
        """Return it for a target drawn from all records."""
        return float(np.nansum(self.right * self.proportions))

    @property
    def worst(self) -> float:
        """Return it for the cell at which it is largest."""
        return float(np.nanmax(self.right))


def is_feasible(table: Any, q: int, pairs: int = 1) -> bool:
    """Whether `largest_cell` takes no more than a few seconds; if not, simulate."""
    cells = CellTable.of(table)
    _, counts, _ = cells.distinct
    drawn = whole_q(q, cells) * pairs
    return drawn <= 2000 and work(counts.size, int(counts.sum()), drawn, pairs) <= _MOST_WORK


def largest_cell(table: Any, q: int, pairs: int = 1) -> LargestCell:
    """Return how often the largest cell of the difference of two tables, or of the mean of several differences, is right.

    Exact for counts and one pair of tables. For proportions, and for the mean over `pairs` similar pairs with drops of their
    own, in the multinomial approximation, in which r drops of q records are together one drop of rq.

    >>> counts = [[123, 111, 145, 152], [116, 133, 101, 119]]
    >>> round(largest_cell(counts, 2).mean, 2), round(largest_cell(counts, 2, pairs=10).mean, 2)
    (0.44, 0.99)
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells, keep=1)
    pairs = at_least_one("pairs", pairs)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        return LargestCell(cells.spread(np.ones(values.size)), cells.proportions)
    if not is_feasible(cells, q, pairs):
        raise NotApplicable(
            "this table and q are too large for the exact probability. Use simulate_drops, which gives an interval."
        )
    if pairs == 1 and cells.records is not None:
        right = largest_chances(values, counts, q, 1, finite=True)
    else:
        right = largest_chances(values / cells.total, counts, q * pairs, pairs, finite=False)
    return LargestCell(cells.spread(right), cells.proportions)
