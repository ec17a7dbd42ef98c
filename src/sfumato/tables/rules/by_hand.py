"""No rule: unsafe is what somebody says is unsafe."""

from __future__ import annotations

import numpy as np

from sfumato.contract import param
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.table import Table


class ByHand(SensitivityRule):
    """No cell is unsafe by itself: only those are that an a-priori file, or the status in a table, calls so.

    For tables whose primary cells were found elsewhere: `Suppression(rules=ByHand(), a_priori=...)`. Beside other rules it says
    how wide cells must be that are marked so and that no other rule calls unsafe. Levels in the `APriori` itself count over it.

    τ-ARGUS manual, section 5.7 (MAN).
    """

    margin: float = param(
        default=10.0, doc="protection level of a marked cell in percent of its value, where nothing else says", low=0
    )

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"cells marked by hand, margin {self.margin:g} %"

    def assess(self, table: Table) -> Sensitivity:
        """Return that no cell is unsafe."""
        nothing = np.zeros(len(table))
        return Sensitivity.of(np.zeros(len(table), bool), nothing, nothing, self.label())


def margin_of(rule: SensitivityRule) -> float:
    """Return the margin of cells marked by hand, in percent: of this rule, or of one among several."""
    several = (rule, *getattr(rule, "rules", ()))
    return next((r.margin for r in several if isinstance(r, ByHand)), ByHand().margin)
