"""Zero cells: a total of 0 tells of every contributor that it gave nothing."""

from __future__ import annotations

import numpy as np

from sfumato.contract import param
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules.standing import contributors_of
from sfumato.tables.table import Table


class ZeroCells(SensitivityRule):
    """A cell is unsafe if it has contributors and its total is 0; a cell without contributors is safe.

    The other rules call zeros safe, since p% of nothing is nothing. The protection level cannot be a percentage either: it
    is `width`, in units of the variable, and reaches above the value, since below zero is nothing to find.

    τ-ARGUS manual, section 2.2 (zero unsafe).
    """

    width: float = param(
        default=1.0, doc="how far above zero a reader must not be sure, in units of the variable", low=0, above=True
    )

    def label(self) -> str:
        """Return the rule in a few words."""
        return "zero cells"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        unsafe = (table.value == 0) & (contributors_of(table) > 0)
        level = np.full(len(table), self.width)
        return Sensitivity.of(unsafe, level, np.zeros(len(table)) if table.nonnegative else level, self.label())
