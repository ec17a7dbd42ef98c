"""Residuals of a fit as counts: of fine cells along an axis, and of residuals within wider ones. No row leaves where it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.models.layout import Layout, Piece, Reading
from sfumato.mas.models.likelihood import probabilities
from sfumato.mas.models.numbers import Numbers
from sfumato.mas.perturbation import significant

Labels = NDArray[np.int64]
_UNIT = 0.01
"""Of the spread: nearer to the centre cells have the same width, further out it grows with the distance."""
_LOGITS = 20.0
AXIS, RESIDUAL, LOGIT = 0.002, 0.04, 0.005
"""Widths of cells: of the distance from the centre for numbers, and of log odds for probabilities."""
_DIGITS = 10
_ROUND = 10
"""Powers of ten above the width of a cell that a round number is looked for in."""


@dataclass(frozen=True)
class Grid:
    """Fine cells for numbers about a centre, for probabilities, or for levels."""

    kind: Literal["numbers", "shares", "levels"]
    half: int
    """Cells on either side of the middle one; for levels, their number."""
    width: float = 1.0
    centre: float = 0.0
    unit: float = 1.0

    @classmethod
    def about(cls, centre: float, spread: float, n: float, width: float) -> Self:
        """Return cells for n numbers with a mean and a standard deviation: none is further out than √n of these.

        Both are rounded, so that engines that add up in another order lay the same cells.
        """
        spread = float(significant(np.array([spread]), 6)[0]) or max(abs(centre), 1.0)
        half = int(np.ceil(np.arcsinh(2 * np.sqrt(n) / _UNIT) / width))
        return cls("numbers", half, width, round(centre / spread, 6) * spread, _UNIT * spread)

    @classmethod
    def of_shares(cls) -> Self:
        """Return cells for probabilities."""
        return cls("shares", int(_LOGITS / LOGIT), LOGIT)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.half if self.kind == "levels" else 2 * self.half + 1

    def codes(self, x: NDArray[np.generic]) -> Labels:
        """Return the cell of each number, from 0."""
        if self.kind == "levels":
            return np.asarray(x, np.int64)
        values = np.asarray(x, np.float64)
        if self.kind == "shares":
            with np.errstate(divide="ignore"):
                far = np.log(values) - np.log1p(-values)
        else:
            far = np.arcsinh((values - self.centre) / self.unit)
        return (np.clip(np.floor(far / self.width + 0.5), -self.half, self.half) + self.half).astype(np.int64)

    @property
    def middles(self) -> Numbers:
        """A number of each cell, ascending: the roundest near its middle, so that whole numbers stay whole."""
        if self.kind == "levels":
            return np.arange(self.half, dtype=np.float64)
        at = np.arange(-self.half, self.half + 1) * self.width
        if self.kind == "shares":
            return np.asarray(1 / (1 + np.exp(-at)))
        low, middle, high = (self.centre + self.unit * np.sinh(at + a * self.width) for a in (-0.5, 0.0, 0.5))
        finest = 10.0 ** np.floor(np.log10(high - low))
        made = middle
        for power in range(_ROUND):  # from fine to round steps
            rounder = np.round(middle / (finest * 10.0**power)) * (finest * 10.0**power)
            made = np.where((rounder > low) & (rounder < high), rounder, made)
        return np.asarray(made + 0.0)


@dataclass(frozen=True)
class Axis:
    """What residuals are shown against: fitted values, a number of the model, or the levels of one of its categories."""

    name: str
    kind: Literal["fitted", "number", "category"]
    place: int = 0
    """Of the number, or of the category, in the design."""

    def values(self, layout: Layout, reading: Reading, fitted: Numbers) -> NDArray[np.generic]:
        """Return where each record lies, numbers in the units of the formula."""
        if self.kind == "category":
            return reading.codes[self.place]
        if self.kind == "number":
            return np.asarray(reading.numbers[self.place] * layout.scale[self.place] + layout.centre[self.place])
        return fitted


def steady(beta: Numbers) -> Numbers:
    """Round coefficients where engines may differ, so that they put the same records into the same cells."""
    size = float(np.abs(beta).max()) if beta.size else 0.0
    return beta if not size else np.round(beta, _DIGITS - int(np.ceil(np.log10(size))))


class LinearCounts:
    """Counts of a linear model's records: of the fine cells of the axis, or of residuals in wide cells of it."""

    def __init__(
        self, layout: Layout, beta: Numbers, shown: Numbers, unit: tuple[float, float], axis: Axis, grid: Grid
    ) -> None:
        """Take residuals of `beta`; the axis has fitted values of `shown`, of which `unit` is the zero and the scale."""
        self.layout, self.beta, self.shown, self.unit = layout, beta, shown, unit
        self.axis, self.grid = axis, grid
        self.cells: Labels | None = None
        self.residuals: Grid | None = None

    def within(self, cells: Labels, residuals: Grid) -> Self:
        """Count residuals, in cells of their own, within wide cells: `cells` has the wide cell of each fine one, -1 for none."""
        made = type(self)(self.layout, self.beta, self.shown, self.unit, self.axis, self.grid)
        made.cells, made.residuals = cells, residuals
        return made

    def __call__(self, piece: Piece) -> Numbers:
        """Return the counts; with residuals, raveled (wide cells, cells of residuals)."""
        reading = self.layout.read(piece)
        z = self.layout.matrix(reading)
        fitted = self.unit[0] + self.unit[1] * (self.shown @ z)
        codes = self.grid.codes(self.axis.values(self.layout, reading, fitted))
        if self.cells is None or self.residuals is None:
            return np.bincount(codes, minlength=self.grid.size).astype(np.float64)
        wide, width = self.cells[codes], self.residuals.size
        both = wide * width + self.residuals.codes(reading.numbers[-1] - self.beta @ z)
        return np.bincount(both[wide >= 0], minlength=(int(self.cells.max()) + 1) * width).astype(np.float64)


class LevelSums:
    """Of a likelihood model: counts of fine cells of the axis for each outcome, or sums of residuals in bins of it."""

    def __init__(self, layout: Layout, beta: Numbers, axis: Axis, grid: Grid) -> None:
        self.layout, self.beta, self.axis, self.grid = layout, beta, axis, grid
        self.bins: Labels | None = None

    def within(self, bins: Labels) -> Self:
        """Add up in bins: `bins` (outcomes, fine cells) has the bin of each fine cell."""
        made = type(self)(self.layout, self.beta, self.axis, self.grid)
        made.bins = bins
        return made

    def __call__(self, piece: Piece) -> Numbers:
        """Return counts, raveled (outcomes, cells), or records, residuals and variances, raveled (outcomes, 3, bins)."""
        reading = self.layout.read(piece)
        assert reading.levels is not None  # noqa: S101 - a likelihood model reads levels
        rest, _ = probabilities(self.beta @ self.layout.matrix(reading))
        p = np.concatenate([np.maximum(1 - rest.sum(axis=0, keepdims=True), 0.0), rest])
        made = []
        for i, share in enumerate(p):
            codes = self.grid.codes(self.axis.values(self.layout, reading, share))
            if self.bins is None:
                made.append(np.bincount(codes, minlength=self.grid.size).astype(np.float64))
                continue
            at, count = self.bins[i, codes], int(self.bins.max()) + 1
            parts = (np.ones(len(share)), (reading.levels == i) - share, share * (1 - share))
            made += [np.bincount(at, part, count).astype(np.float64) for part in parts]
        return np.concatenate(made)
