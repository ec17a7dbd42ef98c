"""Wasserstein distance between the original's and the release's distribution of each column of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sfumato.utility.numbers_apart import NumbersApart

if TYPE_CHECKING:
    from sfumato.kernels.ecdf import Gaps


class Wasserstein(NumbersApart):
    """U = 1 - the mean over columns of the 1-Wasserstein (earth mover's) distance, in standard deviations of the original.

    W = ∫ |F(x) - G(x)| dx: how far numbers have to be moved, on average, to make one distribution the other; a shift by δ
    standard deviations has W = δ. It has no upper end. Values missing in the original are left out; a suppressed value loses
    1, as if it were one standard deviation off, or W where that is more. Numbers released as intervals are spread evenly over
    them. A column that was not released loses 1; one that does not vary loses 0 if it was not changed, else 1; one without
    known values in the original is left out.
    """

    distance: ClassVar[str] = "Wasserstein distance"
    unit: ClassVar[str] = " standard deviations"

    def apart(self, found: Gaps, unit: float) -> float:
        """Return ∫ |F - G| in standard deviations."""
        return found.area / unit
