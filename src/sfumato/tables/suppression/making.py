"""A table, rules and wishes as a problem of suppression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.canonical import in_order, significant
from sfumato.tables.cells import Cells
from sfumato.tables.equations import Equations
from sfumato.tables.rule import Sensitivity
from sfumato.tables.suppression.problem import Problem
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


def make_problem(
    table: Table, found: Sensitivity, cost: Numbers, fixed: Flags, low: Numbers, high: Numbers, leaf_low: Numbers,
    leaf_high: Numbers,
) -> tuple[Problem, Whole, Whole]:  # fmt: skip
    """Return the problem, the quantity of each cell, and the table's leaf for each leaf of the problem."""
    order, leaf_order = in_order(table.cells)
    incidence = sparse.csr_array(table.cells.incidence[order][:, leaf_order])
    incidence.sort_indices()
    cells = Cells(table.cells.dimensions, table.cells.labels[order], incidence)
    equations = Equations.of(cells)
    count = len(equations.cell)
    shown = equations.cell >= 0
    unshown = np.flatnonzero(~shown)
    leaf_of = np.full(count, -1, np.int64)
    leaf_of[equations.of_leaf] = np.arange(cells.leaves)
    single = (np.ones(len(unshown)), (np.arange(len(unshown)), leaf_of[unshown]))
    rows = sparse.csr_array(sparse.vstack([
        incidence[equations.cell[shown]], sparse.csr_array(single, shape=(len(unshown), cells.leaves)),
    ]))  # fmt: skip
    unit = 1.0 if table.integer else unit_of(table.totals)
    low, high, leaf_low, leaf_high = (bound / unit for bound in (low, high, leaf_low, leaf_high))
    # the last bits of a sum depend on the order of the records; decisions must not
    leaves = significant(table.totals)[leaf_order] / unit
    of_cell = np.empty(len(cells), np.int64)
    of_cell[order] = equations.of_cell

    def joined(given: Numbers, start: float, join: np.ufunc) -> Numbers:
        out = np.full(count, start)
        join.at(out, of_cell, given)
        return out

    unsafe = joined(found.unsafe.astype(float), 0.0, np.maximum) > 0
    leaf_low, leaf_high = leaf_low[leaf_order], leaf_high[leaf_order]
    value = rows @ leaves
    quantity_low, quantity_high = joined(low, -np.inf, np.maximum), joined(high, np.inf, np.minimum)
    at = equations.of_leaf
    names = {int(q): int(c) for c, q in reversed(list(enumerate(of_cell)))}
    problem = Problem(
        rows, leaves, value, unsafe, joined(found.upper / unit, 0.0, np.maximum),
        joined(found.lower / unit, 0.0, np.maximum), joined(found.width / unit, 0.0, np.maximum),
        joined(cost / unit_of(cost), 0.0, np.maximum), unsafe | ~shown,
        joined(fixed.astype(float), 0.0, np.maximum) > 0,
        np.minimum(np.maximum(quantity_low, rows @ leaf_low), value),
        np.maximum(np.minimum(quantity_high, rows @ leaf_high), value),
        np.minimum(np.maximum(leaf_low, quantity_low[at]), leaves),
        np.maximum(np.minimum(leaf_high, quantity_high[at]), leaves),
        equations.sums, table.integer, unit,
        lambda q: table.cells.name(names[q]) if q in names else "cells together",
    )  # fmt: skip
    return problem, of_cell, leaf_order


def unit_of(values: Numbers) -> float:
    """Return a unit in which small numbers are usual ones: tolerances of solvers are absolute. It is 1 if they are already."""
    usual = float(np.median(np.abs(values[values != 0]))) if values.any() else 1.0
    return 1.0 if usual >= 1 else float(2.0 ** (np.floor(np.log2(usual)) - 10))
