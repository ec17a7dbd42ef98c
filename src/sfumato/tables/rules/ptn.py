"""Precision threshold and noise: how closely each contribution is protected, and how well the others are known."""

from __future__ import annotations

import numpy as np

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.table import Table


class PTN(SensitivityRule):
    """A cell is unsafe if some contributor's precision threshold is above the noise that hides it from some other.

    Contributor r is to be protected to within PT(r), and others know it to within its noise N(r), itself to within its self
    noise SN(r). Target t is unsafe from suspect s if PT(t) > SN(s) + Σ N(r) over all r but the two; the protection level of
    the cell is the largest such difference. Here PT(r) = max(p/100 · |x|, least), and 0 for who waived protection; N(r) =
    q/100 · |x|; SN(r) = own/100 · |x|. Where attackers do not know the survey weights, what a weight adds to the total is
    noise too, on all three. Contributions may be negative.

    With q = 100, own = 0 and least = 0 it is the p% rule.

    D. Gray, Precision threshold and noise: an alternative framework of sensitivity measures, PSD 2016, LNCS 9867, 15–27.
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, usual=(5, 30))
    q: float = param(default=100.0, doc="how closely others know a contribution, in percent of it", low=0, above=True)
    own: float = param(default=0.0, doc="how closely a contributor knows its own, in percent of it", low=0)
    least: float = param(default=0.0, doc="the least distance to protect, however small a contribution is", low=0)
    coalition: int = settings.coalition()
    weights: str = settings.weights()
    waived: tuple[str, ...] | None = settings.waived()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check what is asked against itself."""
        if self.p == 0 and self.least == 0:
            raise ParameterError("ptn protects nothing with p = 0 and least = 0: one of them must be above 0.")
        if self.own > self.q:
            raise ParameterError(
                "own of ptn must be at most q: nobody knows its own contribution worse than others do."
            )
        object.__setattr__(self, "waived", settings.names_of("waived of ptn", self.waived))

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"precision threshold and noise, p = {self.p:g}, q = {self.q:g}"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        cell, target, others = settings.attack(table, self.coalition, self.weights, "absolute", self.waived)
        q = self.q / 100
        noise = q * cell.own + (cell.total - cell.own) if self.weights == "unknown" else q * cell.total
        someone = np.isfinite(target)
        target = np.where(someone, target, 0.0)
        threshold = np.maximum(self.p * target / 100, self.least)
        shortfall = threshold - (noise - q * target - (q - self.own / 100) * others)
        shortfall = np.where(someone, shortfall, -np.inf)
        return settings.found(table, shortfall, cell.total, self.levels, self.label())
