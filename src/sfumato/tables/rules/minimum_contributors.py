"""The minimum contributors rule: a cell must have at least n contributors."""

from __future__ import annotations

import numpy as np

from sfumato.contract import param
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.rules.minimum_frequency import margin_of
from sfumato.tables.rules.standing import contributors_of, requests_of, waived_of
from sfumato.tables.table import Table


class MinimumContributors(SensitivityRule):
    """A cell is unsafe if fewer than n contributors are in it: holdings, not their records.

    In a cell with one, everybody knows its contribution; with two, each knows the other's. A cell whose contributors all
    waived protection is safe. The level is `margin` percent of the value, as for the minimum frequency.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    n: int = param(default=3, doc="how many contributors a cell must have", low=1, integer=True, usual=(2, 10))
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    nonzero: bool = param(default=False, doc="whether only contributors who gave something are counted")
    waived: tuple[str, ...] | None = settings.waived()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check the list of names."""
        object.__setattr__(self, "waived", settings.names_of("waived of minimum_contributors", self.waived))

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"fewer than {self.n} contributors"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        everyone = contributors_of(table)
        unsafe = (contributors_of(table, self.nonzero) < self.n) & (everyone > 0)
        free = waived_of(table, self.waived)
        if free is not None:
            unsafe &= requests_of(table, free.astype(np.int64))[:, 0] < everyone
        return settings.levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())
