"""Kolmogorov-Smirnov distance between the original's and the release's distribution of each column of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sfumato.utility.numbers_apart import NumbersApart

if TYPE_CHECKING:
    from sfumato.kernels.ecdf import Gaps


class KolmogorovSmirnov(NumbersApart):
    """U = 1 - the mean over columns of D, the largest |F(x) - G(x)| of the two files' distribution functions.

    D is the largest difference in the share of records that have a number of at most x, whatever x is: from 0 to 1. It does
    not depend on units, nor on how numbers are transformed. Values missing in the original are left out; with a share
    1 - kept of the others suppressed the loss is D + (1 - kept) · (1 - D). Numbers released as intervals are spread evenly over
    them. A column that was not released loses 1; one without known values in the original is left out.
    """

    distance: ClassVar[str] = "Kolmogorov-Smirnov distance"
    scaled: ClassVar[bool] = False

    def apart(self, found: Gaps, unit: float) -> float:
        """Return the largest |F - G|."""
        return found.largest
