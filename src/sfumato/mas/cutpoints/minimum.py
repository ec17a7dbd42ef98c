"""Minimum width: bins as close to d observations as values allow."""

from __future__ import annotations

import numpy as np

from sfumato.mas.cutpoints.round_numbers import Step, steps
from sfumato.mas.cutpoints.strategy import CutpointStrategy, Edges
from sfumato.mas.cutpoints.tally import Tally

_FINEST = 1e-3


class Minimum(CutpointStrategy):
    """Each bin is as narrow as d observations allow: no other cutpoints have more bins.

    From the smallest value up, a bin is closed as soon as it holds d; what is left over at the end joins the last bin. Values are
    never split. It has the most bins: by induction the i-th greedy edge is at or below the i-th edge of any other cutpoints whose
    bins hold d, so that as many observations are left.

    Lucero, Singh and Zayatz (2009), section 5.1.
    """

    def exact(self, tally: Tally) -> Edges:
        """Return edges in the middle between the last value of a bin and the first of the next."""
        edges: Edges = []
        base = 0
        while tally.total - base >= 2 * self.d:
            i = int(np.searchsorted(tally.cumulative, base + self.d, side="left"))
            base = int(tally.cumulative[i])
            if tally.total - base < self.d:
                break
            a, b = float(tally.values[i]), float(tally.values[i + 1])
            middle = a + (b - a) / 2
            edges.append(middle if middle < b else a)
        return edges

    def rounded(self, tally: Tally) -> Edges:
        """Return the same on the coarsest round steps that lose at most one bin in twenty, or on the roundest numbers near."""
        exact = self.exact(tally)
        if not exact:
            return []
        widths = np.diff([tally.low, *exact])
        for step in steps(tally.span, max(float(np.median(widths)) * _FINEST, tally.span * 1e-12), tally.whole):
            edges = self._on_steps(tally, step)
            if len(edges) + 1 >= self.spared(len(exact) + 1):
                return edges
        return self.settled(tally, exact)

    def _on_steps(self, tally: Tally, step: Step) -> Edges:
        """Return the greedy edges among multiples of a step: again the most bins there are with such edges."""
        shift = 1 if tally.whole and step.begins else 0
        edges: Edges = []
        base = 0
        while tally.total - base >= 2 * self.d:
            i = int(np.searchsorted(tally.cumulative, base + self.d, side="left"))
            value = float(tally.values[i])
            # nothing is rounder than 0, and a bin for those who have none stays one
            edge = step.times(step.ceil(value + shift)) - shift if value else 0.0
            base = tally.up_to(edge)
            if tally.total - base < self.d:
                break
            edges.append(edge)
        return edges
