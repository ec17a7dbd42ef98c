"""Increasing width: narrow bins where values are small and many, wider ones further up."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.mas.cutpoints.round_numbers import Step, steps
from sfumato.mas.cutpoints.strategy import CutpointStrategy, Edges
from sfumato.mas.cutpoints.tally import Tally


class Increasing(CutpointStrategy):
    """Bins start narrow and grow wider with the values: never narrower again.

    Where a bin holds fewer than d observations its width is multiplied by `growth` until it holds them, and later bins keep that
    width; what is left over at the end joins the last bin. The first width is `width`, or else the round number that gives the
    most bins. With round edges the first bin begins at a multiple of it, and then all edges are multiples.

    Steel and Zayatz (2006), as told by Lucero, Singh and Zayatz (2009), section 5.1; ERRATA 1.18.
    """

    width: float | None = param(
        default=None, doc="the width of the first bin; the best round number if left out", low=0, above=True
    )
    growth: float = param(
        default=2.0, doc="what a width is multiplied by where it is too narrow", low=1, above=True, high=1000
    )

    def validate(self) -> None:
        """A growth so near to 1 that it takes for ever is refused."""
        if self.growth < 1.01:
            raise ParameterError("growth of increasing must be at least 1.01: 2 doubles the width.")

    def exact(self, tally: Tally) -> Edges:
        """Return the edges counted from the smallest value."""
        widths = [self.width] if self.width is not None else [s.size for s in self._widths(tally)]
        return max((self._from(tally, tally.low, w) for w in widths), key=len, default=[])

    def rounded(self, tally: Tally) -> Edges:
        """Return the edges counted from a round number at or below the smallest value."""
        if self.width is not None:
            w = max(math.ceil(self.width), 1) if tally.whole else self.width
            shift = 1 if tally.whole and w < 100 else 0
            edges = self._from(tally, math.floor(tally.low / w) * w - shift, w)
            return [float(math.floor(e)) for e in edges] if tally.whole else [float(f"{e:.12g}") for e in edges]
        return max((self._on_steps(tally, step) for step in self._widths(tally)), key=len, default=[])

    def _widths(self, tally: Tally) -> list[Step]:
        """Return the first widths worth trying: from the whole range down to less than the narrowest d observations."""
        reach = np.searchsorted(tally.cumulative, tally.cumulative - tally.counts + self.d, side="left")
        full = reach < len(tally.values)
        narrowest = float((tally.values[reach[full]] - tally.values[full]).min())
        return list(steps(tally.span, max(narrowest / 2, tally.span * 1e-9), tally.whole))

    def _from(self, tally: Tally, start: float, width: float) -> Edges:
        edges: Edges = []
        base, left = 0, start
        while tally.total - base >= 2 * self.d:
            right = left + width
            while tally.up_to(right) - base < self.d:
                width *= self.growth
                right = left + width
            base = tally.up_to(right)
            if tally.total - base < self.d:
                break
            edges.append(right)
            left = right
        return edges

    def _on_steps(self, tally: Tally, step: Step) -> Edges:
        """Return the edges, all multiples of a step (one lower where groups of whole numbers begin there)."""
        shift = 1 if tally.whole and step.begins else 0
        edges: Edges = []
        base, left, wide = 0, step.floor(tally.low), 1
        while tally.total - base >= 2 * self.d:
            while tally.up_to(step.times(left + wide) - shift) - base < self.d:
                wide = max(wide + 1, round(wide * self.growth))
            left += wide
            edge = step.times(left) - shift
            base = tally.up_to(edge)
            if tally.total - base < self.d:
                break
            edges.append(edge)
        return edges
