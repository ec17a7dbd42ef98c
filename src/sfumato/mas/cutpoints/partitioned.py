"""Partitioned: halves of halves."""

from __future__ import annotations

from sfumato.mas.cutpoints.round_numbers import Step, steps
from sfumato.mas.cutpoints.strategy import CutpointStrategy, Edges
from sfumato.mas.cutpoints.tally import Tally

_MANTISSAS = (1, 15, 2, 25, 3, 4, 5, 6, 75, 8)
_DEPTH = 12


class Partitioned(CutpointStrategy):
    """The range is halved again and again, wherever both halves hold d observations: widths are multiples of each other.

    A range is split at its midpoint, so that widths are multiples; a split at the median would not do that. With a long tail all
    observations may lie in one half, and then there is one bin.

    With round edges the whole range is made a round number times a power of two, and begins at a round number; so every edge is
    round, and the smallest and the largest value cannot be had from the edges. Where no such range splits half as often, the
    midpoints of [min, max] are moved to round numbers nearby, and widths are multiples of each other only roughly.

    Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    def exact(self, tally: Tally) -> Edges:
        """Return the midpoints, from [min, max] down."""
        edges: Edges = []
        todo = [(tally.low, tally.high, 0, tally.total)]
        while todo:
            low, high, below, upto = todo.pop()
            middle = low + (high - low) / 2
            here = tally.up_to(middle)
            if here - below >= self.d and upto - here >= self.d:
                edges.append(middle)
                todo += [(low, middle, below, here), (middle, high, here, upto)]
        return sorted(edges)

    def rounded(self, tally: Tally) -> Edges:
        """Return the midpoints on the coarsest round units that lose at most one bin in twenty, or else the most bins."""
        exact = self.exact(tally)
        found = []
        for step in self._units(tally):
            found.append(self._halves(tally, step))
            if exact and len(found[-1]) + 1 >= self.spared(len(exact) + 1):
                return found[-1]
        best = max(found, key=len, default=[])
        # where a round range collapses and [min, max] does not, its midpoints are moved to round numbers nearby
        return best if len(best) >= len(exact) / 2 else self.settled(tally, exact)

    def _units(self, tally: Tally) -> list[Step]:
        return list(
            steps(max(tally.span, 1.0 if tally.whole else 0.0), tally.span / 2**_DEPTH, tally.whole, _MANTISSAS)
        )

    def _halves(self, tally: Tally, step: Step) -> Edges:
        """Return the midpoints of a range that is a power of two of steps; nothing is split below one step."""
        shift = 1 if tally.whole and step.begins else 0
        start, size = step.floor(tally.low), 1
        while step.times(start + size) - shift < tally.high:
            size *= 2
        edges: Edges = []
        todo = [(start, size, 0, tally.total)]
        while todo:
            left, size, below, upto = todo.pop()
            if size == 1:
                continue
            middle = left + size // 2
            edge = step.times(middle) - shift
            here = tally.up_to(edge)
            if here - below >= self.d and upto - here >= self.d:
                edges.append(edge)
                todo += [(left, size // 2, below, here), (middle, size // 2, here, upto)]
        return sorted(edges)
