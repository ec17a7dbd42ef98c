"""Round numbers: multiples of 1, 2 or 5 times a power of ten, as people write them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A step of `mantissa` times ten to the `power`; its multiples are written, not computed, so that 3 steps of 0.1 are 0.3."""

    mantissa: int
    power: int

    @property
    def size(self) -> float:
        """The step as a number."""
        return self.times(1)

    def times(self, j: int) -> float:
        """Return j steps.

        >>> Step(1, -1).times(3)
        0.3
        """
        return float(f"{self.mantissa * j}e{self.power}")

    def floor(self, x: float) -> int:
        """Return how many whole steps fit below x, or reach it."""
        j = math.floor(x / self.size)
        if self.times(j) > x:
            return j - 1
        return j + 1 if self.times(j + 1) <= x else j

    def ceil(self, x: float) -> int:
        """Return how many whole steps reach x."""
        j = self.floor(x)
        return j if self.times(j) >= x else j + 1

    @property
    def begins(self) -> bool:
        """Whether groups of whole numbers begin at multiples ("20 to 29"), or end there ("28,501 to 39,500").

        Ages, years and rooms are read by where a group begins; amounts by where it ends.
        """
        return self.size < 100


def steps(most: float, least: float, whole: bool, mantissas: tuple[int, ...] = (1, 2, 5)) -> Iterator[Step]:
    """Yield round steps from the coarsest of at most `most` to the finest of at least `least`; whole ones where asked.

    A mantissa of two digits stands for a decimal: 25 for 2.5.

    >>> [s.size for s in steps(12, 0.4, whole=True)]
    [10.0, 5.0, 2.0, 1.0]
    """
    ordered = sorted(mantissas, key=lambda m: float(f"{m}e{-(m > 9)}"), reverse=True)
    for power in range(math.floor(math.log10(most)), math.floor(math.log10(least)) - 1, -1):
        for mantissa in ordered:
            step = Step(mantissa, power - (mantissa > 9))
            if least <= step.size <= most and not (whole and step.size % 1):
                yield step


def roundest(low: float, high: float, near: float, whole: bool) -> float:
    """Return the roundest number from `low` up to, but not including, `high`; of several the one nearest to `near`.

    >>> roundest(28_431.0, 28_503.7, 28_450.0, whole=False)
    28500.0
    """
    if low <= 0 < high:
        return 0.0
    if high <= low or math.nextafter(low, math.inf) >= high:
        return math.floor(low) if whole else low
    for step in steps(max(abs(low), abs(high)) * 10, (high - low) / 20, whole):
        first = step.ceil(low)
        if step.times(first) < high:
            last = step.ceil(high) - 1
            j = min(max(round(near / step.size), first), last)
            return step.times(j)
    return float(math.ceil(low)) if whole else low
