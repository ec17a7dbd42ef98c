"""Spreads kept: how much the variances of the released columns differ from the original ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.score import digits
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.schema import Schema
from sfumato.utility.each_column import ColumnMeasure

Numbers = NDArray[np.float64]


class SpreadsKept(ColumnMeasure):
    """U = 1 - the mean over columns of |variance released - variance original| / variance original.

    The loss is the mean relative difference of variances. A column of means only loses 1, and so does one that was not released;
    noise of λ² times the variance loses λ², without an upper end. A value that was suppressed loses 1, or the difference of the
    others where that is more. `VarianceKept` is another question: how far each record is from its original.
    """

    noun: ClassVar[str] = "spreads"
    difference: ClassVar[str] = "relative difference of variances"
    companion: ClassVar[str] = "variance ratio"

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean difference in percent."""
        return f"variances are off by {self.amount(1 - value)} on average"

    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return the released variances over the original ones."""
        return after.variance / before.variance

    def off(self, own: Numbers) -> Numbers:
        """Return how far the ratios are from 1."""
        return np.abs(own - 1)

    def amount(self, loss: float) -> str:
        """Return percent."""
        return f"{digits(100 * loss)} %"
