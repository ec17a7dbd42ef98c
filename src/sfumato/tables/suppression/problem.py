"""The suppression problem: requirements and costs of every cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sfumato.errors import DataError, join_names
from sfumato.tables.attacker import Attacker
from sfumato.tables.cells import Cells
from sfumato.tables.linear_program import Equations
from sfumato.tables.rules import margin_by_hand
from sfumato.tables.sensitivity import APriori, Sensitivity, SensitivityRule
from sfumato.tables.table import Table, in_order, significant
from sfumato.typing import Flags, Numbers, Objects, Whole

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


@dataclass(frozen=True, eq=False)
class CellRequirements:
    """All arrays have shape (cells,)."""

    found: Sensitivity
    cost: Numbers
    fixed: Flags
    """Cells that must be published."""
    low: Numbers
    """Lower bound that an attacker knows of a cell that is not published."""
    high: Numbers
    leaf_low: Numbers
    """The same for leaves, shape (leaves,)."""
    leaf_high: Numbers

    @classmethod
    def of(
        cls, table: Table, rules: SensitivityRule, cost: str, a_priori: APriori | None, percent: float | None
    ) -> CellRequirements:
        """Return the requirements from rules and parameters."""
        found, costs = rules.assess(table), cost_of(cost, table)
        fixed = np.zeros(len(table), bool)
        share = np.inf if percent is None else percent / 100
        low, high = _around(table.value, share, table.nonnegative)
        leaf_low, leaf_high = _around(table.totals, share, table.nonnegative)
        if a_priori is not None:
            status = a_priori.on(table.cells, "statuses")
            found = _forced(table, found, status, margin_by_hand(rules) / 100)
            fixed = status == "protected"
            if (clash := np.flatnonzero(fixed & found.unsafe)).size:
                raise DataError(
                    f"{table.cells.name(int(clash[0]))} is unsafe by the rule, and protected from suppression. Make it 'safe' "
                    "or 'unsafe', or leave it to the rule."
                )
            costs = np.where(np.isnan(given := a_priori.on(table.cells, "costs")), costs, given)
            found = replace(
                found,
                upper=_given(a_priori, table, "upper_level", found.upper, found.unsafe),
                lower=_given(a_priori, table, "lower_level", found.lower, found.unsafe),
            )
            low = np.fmax(low, a_priori.on(table.cells, "lower"))
            high = np.fmin(high, a_priori.on(table.cells, "upper"))
            slack = 1e-9 * np.abs(table.value)
            if (bad := np.flatnonzero((low > table.value + slack) | (high < table.value - slack))).size:
                raise DataError(
                    f"the bounds of {table.cells.name(int(bad[0]))} do not hold its value. An attacker who is wrong before "
                    "he begins works out nothing; correct them."
                )
        return cls(found, costs, fixed, low, high, leaf_low, leaf_high)


def _around(value: Numbers, share: float, nonnegative: bool) -> tuple[Numbers, Numbers]:
    """Return prior bounds of values: within a share of them, and at least 0 where nothing is negative."""
    with np.errstate(invalid="ignore"):
        room = np.where(np.isinf(share), np.inf, share * np.abs(value))
    low = value - room
    return (np.maximum(low, np.minimum(0.0, value)) if nonnegative else low), value + room


def _forced(table: Table, found: Sensitivity, status: Objects, margin: float) -> Sensitivity:
    """Return the assessment with cells made unsafe or safe by hand."""
    unsafe, safe = status == "unsafe", np.isin(status, ("safe",))
    new = unsafe & ~found.unsafe
    level = np.maximum(margin * np.abs(table.value), 1.0 if table.is_count else 0.0)
    lower = np.minimum(level, np.maximum(table.value, 0.0)) if table.nonnegative else level
    return Sensitivity(
        (found.unsafe | unsafe) & ~safe,
        np.where(safe, 0.0, np.where(new, level, found.upper)),
        np.where(safe, 0.0, np.where(new, lower, found.lower)),
        np.where(safe, 0.0, found.width),
        np.where(safe, "", np.where(new, "made unsafe by hand", found.reasons)).astype(object),
    )


def _given(a_priori: APriori, table: Table, name: str, level: Numbers, unsafe: Flags) -> Numbers:
    given = a_priori.on(table.cells, name)
    return np.where(unsafe & ~np.isnan(given), given, level)


@dataclass(frozen=True, eq=False)
class SuppressionProblem:
    """Quantities (cells, leaves that are no cell, unions of cells) as sums of leaves, in an order that depends on labels alone.

    A pattern is a flag for every quantity: hidden or published. All arrays have shape (quantities,) unless stated otherwise.
    """

    rows: sparse.csr_array
    """Shape (quantities, leaves), 0 or 1."""
    leaves: Numbers
    """The values of the leaves, shape (leaves,)."""
    value: Numbers
    unsafe: Flags
    upper: Numbers
    """How far above its value an attacker's interval of an unsafe quantity must reach."""
    lower: Numbers
    width: Numbers
    cost: Numbers
    """Cost of hiding a quantity."""
    hidden: Flags
    """Always hidden: unsafe cells, leaves that are no cell, unions."""
    fixed: Flags
    """Must be published."""
    low: Numbers
    """Lower bound that an attacker knows of a hidden quantity before publication."""
    high: Numbers
    leaf_low: Numbers
    """The same for leaves, shape (leaves,)."""
    leaf_high: Numbers
    sums: sparse.csr_array
    """Equations between quantities, shape (equations, quantities): 1 for a sum, -1 for its parts."""
    integer: bool
    unit: float
    """The amount of one unit here in the table's own values."""
    name: Callable[[int], str]
    """The name of a quantity, for messages."""

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def targets(self) -> Whole:
        """The unsafe quantities."""
        return np.flatnonzero(self.unsafe)

    @cached_property
    def alone(self) -> Whole:
        """The quantity that equals each leaf, shape (leaves,)."""
        single = np.flatnonzero(np.diff(self.rows.indptr) == 1)[::-1]
        found = np.full(self.rows.shape[1], -1, np.int64)
        found[self.rows.indices[self.rows.indptr[single]]] = single
        return found

    def attacker(self, hidden: Flags, known: Whole | None = None, own: Numbers | None = None) -> Attacker:
        """Return the attacker who reads the published quantities; an insider also knows some leaves, and a part of others."""
        labels = np.arange(len(self)).astype(object)[:, None]
        low, high = np.where(hidden, self.low, self.value), np.where(hidden, self.high, self.value)
        leaf_low, leaf_high = self.leaf_low, self.leaf_high
        if own is not None:
            leaf_low = np.maximum(leaf_low, own)
        if known is not None:
            leaf_low, leaf_high = leaf_low.copy(), leaf_high.copy()
            leaf_low[known] = leaf_high[known] = self.leaves[known]
        return Attacker(Cells(("quantity",), labels, self.rows), low, high, leaf_low, leaf_high, near=self.leaves)

    def with_unions(self, rows: sparse.csr_array, upper: Numbers, lower: Numbers, width: Numbers) -> SuppressionProblem:
        """Return the problem with further secrets: sums of leaves that are not published but must stay uncertain as well.

        Levels are in the table's own values.
        """
        count = rows.shape[0]
        value = rows @ self.leaves
        new = np.ones(count, bool)
        parts = sparse.coo_array(rows)
        at = self.alone[parts.coords[1]]
        equations = sparse.csr_array(
            (
                np.concatenate([np.ones(count), -parts.data]),
                (
                    np.concatenate([np.arange(count), parts.coords[0]]),
                    np.concatenate([len(self) + np.arange(count), at]),
                ),
            ),
            shape=(count, len(self) + count),
        )
        base, at_row = len(self), rows.indptr

        def name(q: int) -> str:
            if q < base:
                return self.name(q)
            mine = rows.indices[at_row[q - base] : at_row[q - base + 1]]
            return f"the sum of {join_names([f'({self.name(int(self.alone[leaf]))})' for leaf in mine])}"

        old = sparse.csr_array(sparse.hstack([self.sums, sparse.csr_array((self.sums.shape[0], count))]))
        return replace(
            self,
            rows=sparse.csr_array(sparse.vstack([self.rows, rows])),
            value=np.concatenate([self.value, value]),
            unsafe=np.concatenate([self.unsafe, new]),
            upper=np.concatenate([self.upper, upper / self.unit]),
            lower=np.concatenate([self.lower, lower / self.unit]),
            width=np.concatenate([self.width, width / self.unit]),
            cost=np.concatenate([self.cost, np.zeros(count)]),
            hidden=np.concatenate([self.hidden, new]),
            fixed=np.concatenate([self.fixed, ~new]),
            low=np.concatenate([self.low, np.full(count, -np.inf)]),
            high=np.concatenate([self.high, np.full(count, np.inf)]),
            sums=sparse.csr_array(sparse.vstack([old, equations])),
            name=name,
        )


def make_problem(
    table: Table, found: Sensitivity, cost: Numbers, fixed: Flags, low: Numbers, high: Numbers, leaf_low: Numbers,
    leaf_high: Numbers,
) -> tuple[SuppressionProblem, Whole, Whole]:  # fmt: skip
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
    problem = SuppressionProblem(
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
    """Return a unit in which values are of moderate size, since tolerances of solvers are absolute; 1 if they are already."""
    usual = float(np.median(np.abs(values[values != 0]))) if values.any() else 1.0
    return 1.0 if usual >= 1 else float(2.0 ** (np.floor(np.log2(usual)) - 10))
