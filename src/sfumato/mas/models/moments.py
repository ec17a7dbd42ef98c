"""The first pass: how many records are complete, and means and spreads of numbers, so that later passes keep their digits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.exact import scale_of
from sfumato.mas.models.layout import Layout, LevelOutcome, Piece
from sfumato.mas.models.numbers import Numbers
from sfumato.mas.question import Question

_PASSES = 3
_NEAR = 1e-5
_CONSTANT = 1e-20


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the records that are kept; confidential."""

    kept: float
    """Records of the universe that were not dropped."""
    n: float
    """Of these, complete ones."""
    weight: float
    """Sum of weights of complete records; n, where there are none."""
    means: Numbers
    """Shape (factors,); a numerical outcome is the last one."""
    spreads: Numbers
    """Standard deviations, divided by n; 0 for what does not vary."""
    outcomes: Numbers
    """Weight of each outcome of a likelihood model."""


class _FirstPass:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(self, piece: Piece) -> Numbers:
        reading = self.layout.read(piece)
        x, w = reading.numbers, reading.weights
        sums = [x.sum(axis=1), np.square(x).sum(axis=1)] if w is None else [x @ w, np.square(x) @ w]
        total = float(reading.n) if w is None else float(w.sum())
        found = np.zeros(0)
        if reading.levels is not None and isinstance(self.layout.outcome, LevelOutcome):
            found = np.bincount(reading.levels, w, len(self.layout.outcome.titles)).astype(np.float64)
        return np.concatenate([[len(next(iter(piece.values()))), reading.n, total], *sums, found])


def moments_of(question: Question, layout: Layout) -> tuple[Moments, Layout]:
    """Return the moments, and the layout that moves and scales numbers by them, where the model stays the same."""
    m = len(layout.factors)
    centre = layout.centre
    constant: NDArray[np.bool_] = np.zeros(m, bool)
    for _ in range(_PASSES):
        at = replace(layout, centre=centre, scale=np.ones(m))
        sums = question.dataset.warehouse.reduce(_FirstPass(at), at.columns, question.records)
        weight = float(sums[2])
        if not weight > 0:
            break
        first, second = sums[3 : 3 + m] / weight, sums[3 + m : 3 + 2 * m] / weight
        variance = np.maximum(second - first**2, 0)
        far = variance < _NEAR * first**2  # digits were lost: once more, from the mean
        constant = variance <= _CONSTANT * (centre + first) ** 2
        means = centre + first
        if not far.any():
            break
        centre = np.where(far, means, centre)
    if not weight > 0:
        return Moments(float(sums[0]), 0.0, 0.0, layout.centre, np.zeros(m), sums[3 + 2 * m :]), layout
    spreads = np.where(constant, 0.0, np.sqrt(variance))
    movable = np.r_[layout.design.centred(), [layout.design.intercept] * (m - len(layout.design.numbers))].astype(bool)
    standardised = np.array([factor.standardised for factor in layout.factors], bool)
    movable |= standardised  # what is moved by the formula itself
    size = np.where(movable, spreads, np.hypot(means, spreads))
    scale = np.array([scale_of(float(one)) for one in size])
    rest = np.where(standardised, _lost(at.centre, first), 0.0)
    scaled = replace(layout, centre=np.where(movable, means, 0.0), scale=scale, rest=rest)
    return Moments(float(sums[0]), float(sums[1]), weight, means, spreads, sums[3 + 2 * m :]), scaled


def moved_outcome(layout: Layout, moments: Moments) -> Layout:
    """Return a layout that takes the mean off a numerical outcome, and scales what is left."""
    centre, scale = layout.centre.copy(), layout.scale.copy()
    centre[-1], scale[-1] = moments.means[-1], scale_of(float(moments.spreads[-1]))
    return replace(layout, centre=centre, scale=scale)


def _lost(a: Numbers, b: Numbers) -> Numbers:
    """Return what rounding takes from the sum of two numbers (Knuth's two-sum).

    >>> _lost(np.array([1e9]), np.array([2.0**-30]))
    array([9.31322575e-10])
    """
    total = a + b
    of_b = total - a
    return np.asarray((a - (total - of_b)) + (b - of_b))
