"""How certain an analyst is of the least certain cell."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.reader_variance import reader_variance
from sfumato.tables.published import PublishedTable


class AnalystCertainty(TableMeasure):
    """Smallest certainty of an analyst about a cell, relative to a coefficient of variation that would be good enough.

    U = min (cv × value)²/V, with V the variance that a reader is left with (Stinner, definition 2.4.0.8): at least 1 where
    every cell is good enough, infinite for a table that is shown as it is, 0 where nothing is known of a cell.
    """

    side: ClassVar[Side] = Side.UTILITY

    cv: float = param(default=0.1, doc="coefficient of variation that is good enough", low=0, above=True)
    quantile: float = param(
        default=0.0, doc="0 for the least certain cell; 0.5 for the median cell, and so on", low=0, high=1
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the certainty of the least certain cell, or of a quantile of the cells; empty cells are left out."""
        value = outcome.source(self.label()).value
        seen = value != 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (self.cv * value[seen]) ** 2 / reader_variance(outcome)[seen]
        found = float(np.quantile(ratio, self.quantile, method="lower")) if len(ratio) else np.inf
        return self.result(found, self.words(found), details={"cells below 1": float((ratio < 1).sum())})

    def words(self, value: float) -> str:
        """Return what a certainty means, as a coefficient of variation."""
        which = "the least certain cell" if self.quantile == 0 else f"the cell at the quantile {self.quantile:g}"
        if value == 0:
            return f"nothing is known of {which}"
        return (
            f"{which} is known to within {digits(100 * self.cv / np.sqrt(value))} %"
            if value < np.inf
            else f"{which} is known exactly"
        )

    def label(self) -> str:
        """Return what is measured."""
        return (
            "certainty of the least certain cell"
            if self.quantile == 0
            else f"certainty of cells, quantile {self.quantile:g}"
        )
