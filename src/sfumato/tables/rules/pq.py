"""The (p, q) rule, or prior-posterior rule: publication must not tell much more than was known before."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.rules.p_percent import PPercent
from sfumato.tables.table import Table


class PQ(SensitivityRule):
    """A cell is unsafe if those who knew contributions to within q percent can now estimate one to within p percent.

    The second largest knows each other contribution to within q% before publication, so that its estimate of the largest is
    off by q% of what the others gave: the cell is unsafe if q/100 · (T − x1 − x2) < p/100 · x1. That is the p% rule for
    100 p/q percent, with its protection level p/q · x1 − (T − x1 − x2).

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True, usual=(5, 30))
    q: float = param(
        default=100.0, doc="how closely contributions are known before, in percent", low=0, above=True, high=100
    )
    coalition: int = settings.coalition()
    weights: str = settings.weights()
    negative: str = settings.negative()
    waived: tuple[str, ...] | None = settings.waived()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check that p is not above q."""
        if self.p > self.q:
            raise ParameterError(
                f"p of pq must be at most q: nobody can be asked to know less than before. Got {self.p:g} and {self.q:g}."
            )
        object.__setattr__(self, "waived", settings.names_of("waived of pq", self.waived))

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"(p, q) rule, p = {self.p:g}, q = {self.q:g}"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        shared = {name: getattr(self, name) for name in ("coalition", "weights", "negative", "waived", "levels")}
        return PPercent(100 * self.p / self.q, **shared).assess(table).because(self.label())
