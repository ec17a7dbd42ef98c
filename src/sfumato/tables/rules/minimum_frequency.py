"""The minimum frequency rule: a cell must have at least n records."""

from __future__ import annotations

import numpy as np

from sfumato.contract import param
from sfumato.errors import DataError
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.rules.standing import contributors_of
from sfumato.tables.table import Table


class MinimumFrequency(SensitivityRule):
    """A cell is unsafe if it has fewer than n records, or contributors; without weights.

    A threshold does not say how wide a cell must be hidden, so `margin` does, in percent of its value; a count is hidden by
    1 at least, since less leaves a single whole number. A cell without records is safe unless `zeros` says otherwise.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2; τ-ARGUS manual, section 2.2.
    """

    n: int = param(default=3, doc="how many records a cell must have", low=1, integer=True, usual=(2, 10))
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    count: str = param(default="records", choices=("records", "contributors"), doc="what is counted")
    zeros: bool = param(default=False, doc="whether cells without a record are unsafe too")
    levels: str = settings.levels()

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"fewer than {self.n} {self.count}"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        count = records_in(table) if self.count == "records" else contributors_of(table)
        unsafe = (count < self.n) & (self.zeros | (count > 0))
        return settings.levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())


def records_in(table: Table) -> settings.Numbers:
    """Return how many records every cell has; refused where a table was read without."""
    if np.isnan(table.frequency).any():
        raise DataError(
            "the table does not say how many records its cells have. Read it with them, or make it from microdata."
        )
    return table.frequency


def margin_of(table: Table, percent: float) -> settings.Numbers:
    """Return a percentage of every cell's value, and 1 at least in a table of counts."""
    share = percent / 100 * np.abs(table.value)
    return np.maximum(share, 1.0) if table.is_count else share
