"""Rules about the cells of a table of amounts: dominance and the p% rule, by noisy sums and public bounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.mas.rule import ConfidentialityRule
from sfumato.typing import Flags, Numbers


class CellRule(ConfidentialityRule, abstract=True):
    """A rule that hides single cells, and never refuses a table.

    It looks at noisy sums, and at the most that a record can add to one. By the contributions themselves, that a sum is hidden
    would tell that somebody in the cell has a large one.
    """

    needs_noise: ClassVar[bool] = True

    @abstractmethod
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        """Return which noisy sums are hidden, if the largest contributions were as large as the bounds allow."""


class Dominance(CellRule):
    """A sum is hidden if its n largest contributions may be more than k percent of it (Hundepool et al. 2012, section 4.2.2)."""

    n: int = param(default=2, doc="how many of the largest are looked at together", low=1, high=10, integer=True)
    k: float = param(default=90.0, doc="most percent of a sum that they may make up", low=0, above=True, high=100)

    @override
    def words(self) -> str:
        return f"A sum or mean of which {self.n} records could make up more than {self.k:g} % is not shown."

    @override
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        return self.n * most > self.k / 100 * sums


class AmountPPercent(CellRule, name="p_percent"):
    """A sum is hidden if the second largest contributor could estimate the largest to within p percent.

    It takes its own value from the sum, and what it has then is too high by what all others gave: the cell is unsafe if that is
    less than p percent of the largest (Hundepool et al. 2012, section 4.2.2).
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True)

    @override
    def words(self) -> str:
        return f"A sum or mean from which a record's value could be estimated to within {self.p:g} % is not shown."

    @override
    def unsafe(self, most: float, sums: Numbers) -> Flags:
        return sums - 2 * most < self.p / 100 * most
