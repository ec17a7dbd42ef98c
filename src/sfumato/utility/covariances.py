"""Covariances kept: variances, and how columns vary together, before and after."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.utility.matrices import MatrixMeasure

Numbers = NDArray[np.float64]


class CovariancesKept(MatrixMeasure):
    """U = 1 - the mean over pairs of columns of |covariance released - covariance original| / (sd · sd of the original columns).

    The pairs include each column with itself, which is its variance. The difference is divided by the standard deviations and
    not by the original covariance, so that columns that had nothing to do with each other (a covariance near 0) do not swamp
    the rest. A pair that was not released loses 1, and so does the share of records in which one of the two was suppressed.
    """

    noun: ClassVar[str] = "covariances"
    diagonal: ClassVar[bool] = True

    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the covariances in units of the original's standard deviations."""
        return moments.covariance
