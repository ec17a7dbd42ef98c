"""The p% rule: nobody in the cell may estimate another's contribution to within p percent."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.table import Table


class PPercent(SensitivityRule):
    """A cell is unsafe if the second largest contributor can estimate the largest to within p percent.

    The second largest takes what it gave itself from the total; what it has then is too high by what all others gave. The
    cell is unsafe if that is less than p% of the largest, x1: T − x1 − x2 < p/100 · x1. With `coalition` c the c largest
    others act together. The protection level is what is missing: p/100 · x1 − (T − x1 − x2).

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2; coalitions: τ-ARGUS manual, section 2.2.
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True, usual=(5, 30))
    coalition: int = settings.coalition()
    weights: str = settings.weights()
    negative: str = settings.negative()
    waived: tuple[str, ...] | None = settings.waived()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check the list of names."""
        object.__setattr__(self, "waived", settings.names_of("waived of p_percent", self.waived))

    def label(self) -> str:
        """Return the rule in a few words."""
        together = f", coalitions of {self.coalition}" if self.coalition != 1 else ""
        return f"p% rule, p = {self.p:g}{together}"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        cell, target, others = settings.attack(table, self.coalition, self.weights, self.negative, self.waived)
        shortfall = self.p * target / 100 - (cell.total - target - others)
        return settings.found(table, shortfall, cell.total, self.levels, self.label())
