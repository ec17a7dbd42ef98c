"""The dominance rule, also called (n, k): no few records may make up most of a sum."""

from __future__ import annotations

from sfumato.contract import param
from sfumato.mas.cell_rule import CellRule, Flags
from sfumato.mas.grouped import Numbers


class Dominance(CellRule):
    """A sum is hidden if its n largest contributions are more than k percent of it (Hundepool et al. 2012, section 4.2.2)."""

    n: int = param(default=2, doc="how many of the largest are looked at together", low=1, high=10, integer=True)
    k: float = param(default=90.0, doc="most percent of a sum that they may make up", low=0, above=True, high=100)

    @property
    def several(self) -> int:
        """How many of the largest contributions the rule looks at."""
        return self.n

    def words(self) -> str:
        """Return what the rule demands."""
        return f"A sum or mean of which {self.n} records make up more than {self.k:g} % is not shown."

    def doubtful(self, largest: Numbers, total: Numbers) -> Flags:
        """Return which cells could be unsafe, if n were as large as the largest."""
        return self.unsafe(largest, self.n * largest, total)

    def unsafe(self, largest: Numbers, top: Numbers, total: Numbers) -> Flags:
        """Return which cells are unsafe."""
        return top > self.k / 100 * total
