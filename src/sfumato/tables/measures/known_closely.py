"""How closely a reader knows cells: the risk that a rounding base leaves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import Score, Side, param
from sfumato.errors import out_of
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.observed import interval_variance, noise_variance
from sfumato.tables.published import PublishedTable

_SURE = np.sqrt(12.0)


class KnownClosely(TableMeasure):
    """Share of cells that a reader knows to within a given margin, from what is published about each cell itself.

    A value rounded to base b is known to within b on either side; an adjustment of standard deviation σ counts as an interval
    of the same standard deviation, √3σ on either side; a value that is shown is known. Empty cells are left out.
    """

    side: ClassVar[Side] = Side.RISK

    within: float = param(
        default=0.1,
        doc="how closely: half the length of the interval, as a share of the value",
        low=0,
        usual=(0.5, 0.01),
    )
    below: float | None = param(default=None, doc="look only at cells of fewer records than this: small counts", low=1)

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the share."""
        table = outcome.source(self.label())
        seen = (table.value != 0) & (table.frequency > 0)
        if self.below is not None:
            seen &= table.frequency < self.below
        variance, noise = interval_variance(outcome), noise_variance(outcome)
        variance = variance if noise is None else np.fmin(variance, np.where(outcome.suppressed, np.nan, noise))
        width = np.sqrt(np.where(np.isnan(variance), np.inf, variance)) * _SURE
        known = (width / 2 <= self.within * np.abs(table.value) * (1 + 1e-12)) & seen
        count, total = int(known.sum()), int(seen.sum())
        told = f"{out_of(count, total, ('is', 'are'), 'cell')} known to within {100 * self.within:.3g} %"
        exact = float((seen & (width == 0)).sum())
        return self.result(
            count / total if total else 0.0, told, details={"known exactly": exact, "cells": float(total)}
        )

    def words(self, value: float) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the cells are known to within {100 * self.within:.3g} %"

    def label(self) -> str:
        """Return what is measured."""
        small = "" if self.below is None else f" of fewer than {self.below:g} records"
        return f"cells{small} known to within {100 * self.within:.3g} %"
