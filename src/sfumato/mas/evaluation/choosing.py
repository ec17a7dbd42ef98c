"""The smallest q that brings (4.3.4) below a threshold, for the table at hand."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import DataError, ParameterError
from sfumato.mas.evaluation.cell_table import CellTable
from sfumato.mas.evaluation.checks import probability
from sfumato.mas.evaluation.clean_tables import success_probability

_LARGEST_Q = 10_000_000
"""Where a table of proportions sets no limit of its own."""


def smallest_q(table: Any, below: float) -> int:
    """Return the smallest q whose probability of disclosure by (4.3.4) is below a threshold.

    (4.3.4) falls as q grows for every table with more than one occupied cell (ERRATA 1.7), so that halving finds it.

    >>> smallest_q([.123, .111, .145, .152, .116, .133, .101, .119], below=0.01)
    4
    """
    below = probability("the threshold", below)
    if below == 0:
        raise ParameterError("the threshold must be above 0: the probability falls with q, but is never 0.")
    cells = CellTable.of(table)
    limit = _LARGEST_Q if cells.records is None else cells.records
    goal = math.log(below)

    def suffices(q: int) -> bool:
        return success_probability(cells, q, log=True) < goal

    low, high = 0, 1
    while not suffices(high):
        if high == limit or int(cells.occupied.sum()) == 1:
            most = f"{limit:,} records" if cells.records is None else "all records"
            raise DataError(
                f"no q, up to {most}, brings the probability of disclosure below {below:g} for this table. "
                "Allow a higher threshold, or refuse the table: dropping protects little where one cell holds nearly all records."
            )
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
