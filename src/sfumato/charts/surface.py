"""A measure over two parameters, known at scattered points: straight between them, in triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.charts.scales import wants_log

Numbers = NDArray[np.float64]
Line = list[tuple[float, float]]


@dataclass(frozen=True)
class Side:
    """A parameter stretched over 0 to 1: in ratios where its values span them, else in differences."""

    low: float
    high: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], log: bool | None = None) -> Side:
        """Return the side that these values span; `log` None decides by how widely they spread."""
        spread = all(v > 0 for v in values) and wants_log(values, 10) if log is None else log
        return cls(min(values), max(values), spread)

    def unit(self, values: Any) -> Numbers:
        """Return values as places from 0 to 1."""
        v = np.asarray(values, np.float64)
        if self.high <= self.low:
            return np.full(v.shape, 0.5)
        if self.log:
            return np.asarray(np.log(v / self.low) / math.log(self.high / self.low))
        return np.asarray((v - self.low) / (self.high - self.low))

    def value(self, unit: float) -> float:
        """Return the value at a place."""
        if self.log:
            return float(self.low * (self.high / self.low) ** unit)
        return self.low + unit * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles over points in the unit square; shapes (points, 2) and (triangles, 3)."""

    places: Numbers
    triangles: NDArray[np.intp]

    @classmethod
    def over(cls, places: Numbers) -> Surface | None:
        """Return Delaunay's triangles; None where the points lie on a line, or are fewer than three."""
        from scipy.spatial import Delaunay, QhullError

        if len(places) < 3 or (np.ptp(places, axis=0) < 1e-9).any():
            return None
        try:
            return cls(places, np.asarray(Delaunay(places).simplices, np.intp))
        except QhullError:
            return None

    def at(self, wanted: Numbers, values: Numbers) -> Numbers:
        """Return values at other places, shape (places, 2): straight within each triangle, NaN outside all."""
        out = np.full(len(wanted), np.nan)
        for corners in self.triangles:
            a, b, c = self.places[corners]
            base = np.column_stack([b - a, c - a])
            if abs(np.linalg.det(base)) < 1e-14:
                continue
            st = np.linalg.solve(base, (wanted - a).T)
            weights = np.vstack([1 - st.sum(axis=0), st])
            inside = (weights >= -1e-9).all(axis=0)
            out[inside] = values[corners] @ weights[:, inside]
        return out

    def contour(self, values: Numbers, level: float) -> list[Line]:
        """Return where the values pass a level, as lines through the unit square; exact for what `at` returns."""
        pieces = []
        for corners in self.triangles:
            v = values[corners]
            if not np.isfinite(v).all():
                continue
            ends = []
            for i, j in ((0, 1), (1, 2), (2, 0)):
                # a corner exactly on the level counts as above it, so that a line never passes it twice
                if (v[i] >= level) != (v[j] >= level):
                    # from the lower to the higher corner number, so that neighbours find the very same place
                    p, q = sorted((int(corners[i]), int(corners[j])))
                    share = (level - values[p]) / (values[q] - values[p])
                    x, y = self.places[p] + share * (self.places[q] - self.places[p])
                    ends.append((float(x), float(y)))
            if len(ends) == 2 and ends[0] != ends[1]:
                pieces.append((ends[0], ends[1]))
        return joined(pieces)


def joined(pieces: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> list[Line]:
    """Return lines made of pieces that share their ends.

    >>> joined([((0, 0), (1, 0)), ((2, 0), (1, 0)), ((5, 5), (6, 6))])
    [[(0, 0), (1, 0), (2, 0)], [(5, 5), (6, 6)]]
    """
    at: dict[tuple[float, float], list[int]] = {}
    for k, ends in enumerate(pieces):
        for end in ends:
            at.setdefault(end, []).append(k)
    left = set(range(len(pieces)))
    lines = []
    # open lines first, from one of their ends; what is left then are rings
    starts = [(k, end) for k, ends in enumerate(pieces) for end in ends if len(at[end]) == 1]
    for k, start in [*starts, *((k, ends[0]) for k, ends in enumerate(pieces))]:
        if k not in left:
            continue
        line, here = [start], start
        step: int | None = k
        while step is not None:
            left.discard(step)
            a, b = pieces[step]
            here = b if here == a else a
            line.append(here)
            step = next((n for n in at[here] if n in left), None)
        lines.append(line)
    return lines
