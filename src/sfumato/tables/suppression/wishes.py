"""What is asked of a pattern, for every cell: which are unsafe and how wide, which must be shown, costs, known bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.tables.a_priori import APriori
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules.by_hand import margin_of
from sfumato.tables.suppression.costs import cost_of
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Wishes:
    """All arrays have shape (cells,)."""

    found: Sensitivity
    cost: Numbers
    fixed: Flags
    """Cells that must be shown."""
    low: Numbers
    """What an attacker knows of a cell that is not shown."""
    high: Numbers
    leaf_low: Numbers
    """The same of leaves, shape (leaves,)."""
    leaf_high: Numbers

    @classmethod
    def of(
        cls, table: Table, rules: SensitivityRule, cost: str, a_priori: APriori | None, percent: float | None
    ) -> Wishes:
        """Return the wishes that rules and parameters express."""
        found, costs = rules.assess(table), cost_of(cost, table)
        fixed = np.zeros(len(table), bool)
        share = np.inf if percent is None else percent / 100
        low, high = _around(table.value, share, table.nonnegative)
        leaf_low, leaf_high = _around(table.totals, share, table.nonnegative)
        if a_priori is not None:
            status = a_priori.on(table.cells, "statuses")
            found = _forced(table, found, status, margin_of(rules) / 100)
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
    """Return what is known of values: within a share of them, and not below zero where nothing is."""
    with np.errstate(invalid="ignore"):
        room = np.where(np.isinf(share), np.inf, share * np.abs(value))
    low = value - room
    return (np.maximum(low, np.minimum(0.0, value)) if nonnegative else low), value + room


def _forced(table: Table, found: Sensitivity, status: NDArray[np.object_], margin: float) -> Sensitivity:
    """Return the findings with cells made unsafe or safe by hand."""
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
