"""What hiding a cell costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
COSTS = ("value", "frequency", "contributors", "unity", "log")


def cost_of(cost: str, table: Table) -> Numbers:
    """Return the cost of hiding each cell, shape (cells,), above 0."""
    size = np.abs(table.value)
    if cost == "frequency":
        found = table.frequency
    elif cost == "contributors":
        try:
            found = table.largest(1).contributors
        except DataError:
            raise DataError(
                "the table does not say how many contributors its cells have. Use another cost, such as 'value'."
            ) from None
    elif cost == "unity":
        found = np.ones(len(table))
    elif cost == "log":
        found = np.log1p(size)
    else:
        found = size
    largest = float(found.max(initial=0.0))
    return np.maximum(found, 1e-6 * largest if largest > 0 else 1.0)
