"""Correlations kept: what two columns have to do with each other, before and after."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import learned, param
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.utility.matrices import MatrixMeasure

Numbers = NDArray[np.float64]
Method = Literal["pearson", "spearman"]


class CorrelationsKept(MatrixMeasure):
    """U = 1 - the mean over pairs of different columns of |correlation released - correlation original|.

    From 1 (all the same) down to -1 (all turned around). A pair of which a column was not released, or does not vary any more,
    has no correlation left and loses 1; so does the share of records in which one of the two was suppressed. Spearman's
    correlations are those of ranks (within a column's known values), which a few large values cannot rule.
    """

    method: Method = param(default="pearson", doc="of the values, or of their ranks", choices=("pearson", "spearman"))
    before: Any = learned("over", "weighted", "method", default=None)

    noun: ClassVar[str] = "correlations"
    diagonal: ClassVar[bool] = False

    @property
    def ranks(self) -> bool:
        """Whether ranks are compared instead of values."""
        return self.method == "spearman"

    @property
    def variant(self) -> str:
        """Which correlation, and whether survey weights are used."""
        return self.method + (", weighted" if self.weighted else "")

    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the correlations."""
        return moments.correlation
