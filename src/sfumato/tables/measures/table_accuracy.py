"""How near a reader's estimate of each cell is: a utility for every method on one scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import Score, Side, param
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.reader import reader_estimate
from sfumato.tables.published import PublishedTable


class TableAccuracy(TableMeasure):
    """Mean accuracy of a reader's best estimate of every cell: 1 − |estimate − value| / |value|, at least 0.

    A published value is its own estimate; what is not published is fitted to what is. 1 where all cells are shown as they are,
    0 where no estimate is of the right size. Whatever the method, the same question is asked of it.
    """

    side: ClassVar[Side] = Side.UTILITY

    weight: str = param(
        default="cells", doc="whether all cells count alike, or by their value", choices=("cells", "value")
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the mean accuracy; a cell of value 0 is right or wrong."""
        value, estimate = outcome.source(self.label()).value, reader_estimate(outcome)
        size = np.abs(value)
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(size > 0, np.abs(estimate - value) / size, (np.abs(estimate) > 1e-9).astype(np.float64))
        off = np.where(off < 1e-12, 0.0, np.minimum(off, 1.0))
        weights = size if self.weight == "value" and size.sum() > 0 else np.ones(len(size))
        accuracy = 1 - float((weights * off).sum() / weights.sum())
        return self.result(accuracy, self.words(accuracy), details={"median error": float(np.median(off))})

    def words(self, value: float) -> str:
        """Return the mean error in words."""
        return f"a reader's estimate of a cell is off by {100 * (1 - value):.3g} % on average"

    @property
    def variant(self) -> str:
        """What counts how much."""
        return "" if self.weight == "cells" else "cells count by their value"

    def label(self) -> str:
        """Return "accuracy of cells"."""
        return "accuracy of cells"
