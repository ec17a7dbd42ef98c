"""Total variation between the original's and the release's distribution of each column."""

from __future__ import annotations

from typing import ClassVar

from sfumato.microdata import Microdata
from sfumato.utility.bins import Binning, binning_parameter, bins_parameter
from sfumato.utility.cells import coded, shares, total_variation
from sfumato.utility.columnwise import Columnwise
from sfumato.utility.compared import weights_of


class TotalVariation(Columnwise):
    """U = 1 - the mean over columns of the total variation TV = ½ Σ |p - q|, p and q the shares of a value.

    TV is the share of records that would have to change their value to make one distribution the other: from 0 to 1, and
    the largest difference in the share of any set of values. Categories are compared as they are, numbers and dates in bins
    that are fixed from the original; missing values are a category of their own, so that suppressing values loses. Values
    released as broader categories or intervals are spread evenly over what they cover. A column not released loses 1.
    """

    distance: ClassVar[str] = "total variation"

    bins: int = bins_parameter(20)
    binning: Binning = binning_parameter()

    def column_loss(self, original: Microdata, released: Microdata, name: str) -> float:
        """Return TV of one column."""
        weights = weights_of(original, self.weighted)
        column = coded(original, released, name, weights, self.bins, self.binning)
        return total_variation(shares([column], weights, weights_of(released, self.weighted)))
