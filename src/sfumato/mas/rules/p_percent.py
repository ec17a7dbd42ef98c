"""The p% rule for sums of the analysis system: nobody in a cell may estimate another's value too closely."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.mas.cell_rule import CellRule, Flags
from sfumato.mas.grouped import Numbers


class PPercent(CellRule):
    """A sum is hidden if the second largest contributor can estimate the largest to within p percent.

    It takes its own value from the sum, and what it has then is too high by what all others gave: the cell is unsafe if that is
    less than p percent of the largest (Hundepool et al. 2012, section 4.2.2).
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True)

    @property
    def several(self) -> int:
        """How many of the largest contributions the rule looks at."""
        return 2

    def words(self) -> str:
        """Return what the rule demands."""
        return f"A sum or mean from which a record's value could be estimated to within {self.p:g} % is not shown."

    def doubtful(self, largest: Numbers, total: Numbers) -> Flags:
        """Return which cells could be unsafe, if the second largest were as large as the largest."""
        return self.unsafe(largest, 2 * largest, total)

    def unsafe(self, largest: Numbers, top: Numbers, total: Numbers) -> Flags:
        """Return which cells are unsafe."""
        return total - top < self.p / 100 * largest
