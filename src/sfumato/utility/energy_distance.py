"""Energy distance between the original's and the release's distribution of each column of numbers (Székely, Rizzo 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sfumato.utility.numbers_apart import NumbersApart

if TYPE_CHECKING:
    from sfumato.kernels.ecdf import Gaps


class EnergyDistance(NumbersApart):
    """U = 1 - the mean over columns of the energy distance D of numbers in standard deviations of the original.

    D² = 2 E|X - Y| - E|X - X'| - E|Y - Y'|, X and X' drawn from the original, Y and Y' from the release. For numbers it is
    2 ∫ (F(x) - G(x))² dx, worked out exactly from the sorted values. D is 0 only if both distributions are the same, and has no
    upper end. Values missing in the original are left out; a suppressed value loses 1, or D where that is more. Numbers
    released as intervals are spread evenly over them. A column that was not released loses 1; one that does not vary loses 0
    if it was not changed, else 1; one without known values in the original is left out. `JointEnergyDistance` compares
    columns together.
    """

    distance: ClassVar[str] = "energy distance"

    def apart(self, found: Gaps, unit: float) -> float:
        """Return sqrt(2 ∫ (F - G)²) of numbers in standard deviations."""
        return float((2.0 * found.square / unit) ** 0.5)
