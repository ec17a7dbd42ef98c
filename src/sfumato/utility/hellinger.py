"""Hellinger distance between the original's and the release's distribution of each column (Hellinger 1909)."""

from __future__ import annotations

from typing import ClassVar

from sfumato.microdata import Microdata
from sfumato.utility.bins import Binning, binning_parameter, bins_parameter
from sfumato.utility.cells import coded, hellinger, shares
from sfumato.utility.columnwise import Columnwise
from sfumato.utility.compared import weights_of


class Hellinger(Columnwise):
    """U = 1 - the mean over columns of the Hellinger distance H = sqrt(½ Σ (√p - √q)²), p and q the shares of a value.

    H goes from 0 (the same distribution) to 1 (no value in common). Categories are compared as they are, numbers and dates in
    bins that are fixed from the original; missing values are a category of their own, so that suppressing values loses. Values
    released as broader categories or intervals are spread evenly over what they cover. A column that was not released loses 1.
    """

    distance: ClassVar[str] = "Hellinger distance"

    bins: int = bins_parameter(20)
    binning: Binning = binning_parameter()

    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return H of one column."""
        weights = weights_of(original, self.weighted)
        column = coded(original, released, name, weights, self.bins, self.binning)
        return hellinger(shares([column], weights, weights_of(released, self.weighted)))
