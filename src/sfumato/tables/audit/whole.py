"""Intervals in whole numbers: what a reader works out who knows that everything was counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError
from sfumato.tables.audit.knowledge import Knowledge

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def intervals(known: Knowledge, low: Numbers, high: Numbers, cells: Whole) -> tuple[Numbers, Numbers]:
    """Return `low` and `high` with those of some cells made exact for leaves that are whole numbers.

    Fractional leaves can reach values that whole ones cannot, in three dimensions and in linked tables. Every solution of a
    program is looked at for all cells: an end that some solution reaches needs no program of its own.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    low, high = low.copy(), high.copy()
    limits = np.isfinite(known.low) | np.isfinite(known.high)
    rows = sparse.csc_array(known.cells.incidence[limits])
    within = LinearConstraint(rows, np.ceil(known.low[limits] - 1e-6), np.floor(known.high[limits] + 1e-6))
    bounds = Bounds(np.ceil(known.leaf_low - 1e-6), np.floor(known.leaf_high + 1e-6))
    reached_low, reached_high = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    for cell in cells:
        costs = known.cells.incidence[[cell]].toarray().ravel()
        for sign, ends, reached in ((1.0, low, reached_low), (-1.0, high, reached_high)):
            if not np.isfinite(ends[cell]) or reached[cell] == ends[cell]:
                continue
            found = milp(
                sign * costs, constraints=within, bounds=bounds, integrality=np.ones(known.cells.leaves, np.int64),
                options={"mip_rel_gap": 0.0},  # a ten-thousandth of a large value is more than one
            )  # fmt: skip
            if found.status == 2:
                raise DataError(
                    "no whole numbers can give this table, although fractions could. Are its figures counts?"
                )
            if found.x is None:
                continue  # not solved: the wider interval stands
            values = known.cells.sums(np.round(found.x))
            np.minimum(reached_low, values, out=reached_low)
            np.maximum(reached_high, values, out=reached_high)
            ends[cell] = values[cell]
    return low, high
