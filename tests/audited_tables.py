"""Tables with hidden cells to audit, a rule for them, and the arithmetic of an attacker."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

from sfumato import Microdata
from sfumato.tables import PublishedTable, Status, Table
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule


def hide(table: Table, hidden: np.ndarray, bounds: tuple[float, float] = (0.0, np.inf)) -> PublishedTable:
    shown = PublishedTable.unprotected(table)
    return shown.with_(
        values=np.where(hidden, np.nan, shown.values),
        status=np.where(hidden, Status.PRIMARY, Status.SHOWN).astype(np.int8),
        low=np.where(hidden, bounds[0], shown.low),
        high=np.where(hidden, bounds[1], shown.high),
    )


def spanned(rows: list[list[int]], target: list[int]) -> bool:
    """Whether the target is a combination of the rows, by elimination with fractions."""
    basis: list[list[Fraction]] = []
    for row in [*rows, target]:
        left = [Fraction(x) for x in row]
        for b in basis:
            pivot = next(i for i, x in enumerate(b) if x)
            left = [x - left[pivot] / b[pivot] * y for x, y in zip(left, b, strict=True)]
        if any(left):
            if row is target:
                return False
            basis.append(left)
    return True


def firms() -> Table:
    """Three regions, three sectors, one figure each."""
    values = {"N": (20, 50, 10), "M": (8, 19, 22), "S": (17, 32, 12)}
    rows = [(r, s, v) for r, vs in values.items() for s, v in zip("xyz", vs, strict=True)]
    return Table.of(Microdata(pd.DataFrame(rows, columns=["region", "sector", "v"])), "region * sector", "v")


class Fixed(SensitivityRule):
    """Every finest cell is unsafe, and must be uncertain by half its value."""

    def assess(self, table: Table) -> Sensitivity:
        unsafe = table.cells.sizes == 1
        return Sensitivity.of(unsafe, 0.5 * table.value, 0.5 * table.value, "made for a test")

    def label(self) -> str:
        return "half of the value"
