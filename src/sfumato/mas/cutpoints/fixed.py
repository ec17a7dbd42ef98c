"""Fixed width: as many equal bins as there can be."""

from __future__ import annotations

from sfumato.mas.cutpoints.round_numbers import Step, steps
from sfumato.mas.cutpoints.strategy import CutpointStrategy, Edges
from sfumato.mas.cutpoints.tally import Tally

_FINEST = 50


class Fixed(CutpointStrategy):
    """All bins are equally wide: the most equal bins that all hold d observations.

    Every number of bins is tried, from the largest possible one down, since fewer bins may fail where more pass. With a long tail
    few bins are left, or one.

    With round edges, start and width are multiples of a round step of at least a fiftieth of the width; so the smallest and the
    largest value cannot be had by continuing the edges. The narrowest such bins that hold d are taken.

    Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    def exact(self, tally: Tally) -> Edges:
        """Return the inner edges of k equal bins on [min, max], k as large as possible."""
        k = _most_bins(tally, self.d)
        return [tally.low + tally.span * i / k for i in range(1, k)]

    def rounded(self, tally: Tally) -> Edges:
        """Return equal bins with a round width and a round start: the narrowest that hold d."""
        k = _most_bins(tally, self.d)
        if k == 1:
            return []
        for step, wide in _widths(tally.span / k, 2 * tally.span, tally.whole):
            edges = _equal(tally, step, wide)
            if edges and self.enough(tally, edges):
                return edges
        return []


def _most_bins(tally: Tally, d: int) -> int:
    from sfumato.kernels.equal_bins import most_equal_bins  # numba: only where cutpoints are chosen

    return most_equal_bins(tally.values, tally.cumulative, d)


def _widths(least: float, most: float, whole: bool) -> list[tuple[Step, int]]:
    """Return round widths, ascending: so many steps of a size; of equal ones the one with the coarsest step first."""
    found = [
        (step.times(j), -step.size, step, j)
        for step in steps(most, max(least / _FINEST, 1.0 if whole else 0.0), whole)
        for j in range(max(step.ceil(least), 1), min(step.floor(most), _FINEST) + 1)
    ]
    return [(step, j) for *_, step, j in sorted(found, key=lambda f: f[:2])]


def _equal(tally: Tally, step: Step, wide: int) -> Edges:
    """Return the inner edges of bins that begin at a multiple of a step, `wide` steps each."""
    shift = 1 if tally.whole and step.begins else 0
    start = step.floor(tally.low)
    count = -(-(step.ceil(tally.high + shift) - start) // wide)
    return [step.times(start + i * wide) - shift for i in range(1, count)]
