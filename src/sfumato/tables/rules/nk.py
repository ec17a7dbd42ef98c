"""The (n, k) rule, or dominance rule: the n largest must not be more than k percent of the cell."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.table import Table


class NK(SensitivityRule):
    """A cell is unsafe if its n largest contributors have more than k percent of its total.

    x1 + … + xn > k/100 · T. The protection level is 100/k · (x1 + … + xn) − T: were the total that much larger, the cell
    would be safe. n is the coalition: n − 1 of the largest, who know the total, want the remaining one. So a contributor who
    waived protection counts as one of the others, and the n largest must have one among them who did not.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    n: int = param(default=1, doc="how many of the largest contributors", low=1, high=100, integer=True)
    k: float = param(
        default=75.0, doc="how much of the total they may have, in percent", low=0, above=True, high=100, usual=(95, 60)
    )
    weights: str = settings.weights()
    negative: str = settings.negative()
    waived: tuple[str, ...] | None = settings.waived()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check the list of names."""
        object.__setattr__(self, "waived", settings.names_of("waived of nk", self.waived))

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"(n, k) rule, n = {self.n}, k = {self.k:g}"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        cell, target, others = settings.attack(table, self.n - 1, self.weights, self.negative, self.waived)
        shortfall = 100 * (target + others) / self.k - cell.total
        return settings.found(table, shortfall, cell.total, self.levels, self.label())
