"""Residuals of a fit as counts, and from those to pictures: no row leaves where the records live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.errors import DataError
from sfumato.mas.accounts import Sets
from sfumato.mas.aggregate import plain_numbers
from sfumato.mas.answer import Refusal
from sfumato.mas.cutpoint_strategies import Minimum
from sfumato.mas.cutpoints import ValueCounts
from sfumato.mas.models.design import Number
from sfumato.mas.models.layout import CompleteRecords, Layout, Piece
from sfumato.mas.models.least_squares import LeastSquares
from sfumato.mas.models.logit import LevelsFit, OutcomeSpec, probabilities
from sfumato.mas.models.model import Prepared
from sfumato.mas.models.noise import key_of, title_of
from sfumato.mas.perturbation import significant
from sfumato.mas.preparation import BITS
from sfumato.mas.question import Findings
from sfumato.mas.residual_pictures import BinnedPicture, ResidualPicture
from sfumato.mas.synthetic_residuals import DEGREE, MOST, SPREAD_DEGREE, BinnedResiduals, SyntheticResiduals
from sfumato.typing import Numbers, Whole

# --- residuals
# Residuals of a fit as counts: of fine cells along an axis, and of residuals within wider ones. No row leaves where it lives.

_UNIT = 0.01
"""Of the spread: nearer to the centre cells have the same width, further out it grows with the distance."""
_LOGITS = 20.0
AXIS, RESIDUAL, LOGIT = 0.002, 0.04, 0.005
"""Widths of cells: of the distance from the centre for numbers, and of log odds for probabilities."""
_DIGITS = 10
_ROUND = 10
"""Powers of ten above the width of a cell that a round number is looked for in."""


@dataclass(frozen=True)
class ResidualGrid:
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

    def codes(self, x: NDArray[np.generic]) -> Whole:
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
class ResidualAxis:
    """What residuals are shown against: fitted values, a number of the model, or the levels of one of its categories."""

    name: str
    kind: Literal["fitted", "number", "category"]
    place: int = 0
    """Of the number, or of the category, in the design."""

    def values(self, layout: Layout, reading: CompleteRecords, fitted: Numbers) -> NDArray[np.generic]:
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
        self,
        layout: Layout,
        beta: Numbers,
        shown: Numbers,
        unit: tuple[float, float],
        axis: ResidualAxis,
        grid: ResidualGrid,
    ) -> None:
        """Take residuals of `beta`; the axis has fitted values of `shown`, of which `unit` is the zero and the scale."""
        self.layout, self.beta, self.shown, self.unit = layout, beta, shown, unit
        self.axis, self.grid = axis, grid
        self.cells: Whole | None = None
        self.residuals: ResidualGrid | None = None

    def within(self, cells: Whole, residuals: ResidualGrid) -> Self:
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

    def __init__(self, layout: Layout, beta: Numbers, axis: ResidualAxis, grid: ResidualGrid) -> None:
        self.layout, self.beta, self.axis, self.grid = layout, beta, axis, grid
        self.bins: Whole | None = None

    def within(self, bins: Whole) -> Self:
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


# --- pictures
# From a fit to the picture of its residuals: counts where the records live, synthetic points and noisy means here.


_LEAST = 300
"""Records, by their noisy count, that a picture needs."""
_POINTS = 0.67
"""Synthetic points for each of these: fewer than the array function allows, so that no exact count decides."""
_CELLS = 400
"""Cells along the axis within which residuals are counted, at most."""
TOO_FEW = Refusal(
    "residual_picture", "There are too few records for a picture of residuals.", "Choose a larger universe."
)
NO_SPREAD = Refusal(
    "residual_picture", "The model fits all but a few records without error, so that its residuals show nothing.",
    "Look at another model.",
)  # fmt: skip


def linear_findings(ready: Prepared, fit: LeastSquares, axis: ResidualAxis) -> Findings | Refusal:
    """Return synthetic residuals of a linear model.

    Residuals are those of the coefficients without noise: they are orthogonal to every column of the model whatever the data
    are, so that the picture tells nothing of the noise that the published coefficients have. Fitted values are those of the
    coefficients with noise.
    """
    import pandas as pd

    drawn = _drawn(ready, fit.layout, "linear")
    if drawn is None:
        return TOO_FEW
    where, draws, points = drawn
    weight = ready.moments.weight
    vector = fit.products[: fit.k, fit.k]
    spread = float(np.sqrt(max(fit.products[fit.k, fit.k] - vector @ fit.exact_beta, 0.0) / weight))
    if spread < 1e-7 * np.sqrt(fit.products[fit.k, fit.k] / weight):
        return NO_SPREAD
    grid = _linear_grid(ready, fit, axis)
    counts = LinearCounts(fit.layout, steady(fit.exact_beta), steady(fit.beta), _unit(ready, fit.layout), axis, grid)
    reduce, columns = ready.question.dataset.warehouse.reduce, fit.layout.columns
    fine = reduce(counts, columns, where).astype(np.int64)
    synthetic = SyntheticResiduals(points=points)
    if fine.sum() < 10 * synthetic.guard:
        return TOO_FEW
    cells, names = _cells(fit.layout, axis, grid, fine, synthetic.guard)
    residuals = ResidualGrid.about(0.0, spread, ready.moments.n, RESIDUAL)
    table = reduce(counts.within(cells, residuals), columns, where).reshape(-1, residuals.size).astype(np.int64)
    x, t = _paired(
        grid.middles, np.where(cells >= 0, fine, 0), residuals.middles, table, draws.child("pairs", axis.name)
    )
    try:
        places = x if names is None else pd.Categorical([names[c] for c in cells[x.astype(np.int64)]], list(names))
        picture = synthetic.picture(places, t / _size(t, synthetic.guard), draws, axis.name)
    except DataError:
        return TOO_FEW if len(t) < 10 * synthetic.guard else NO_SPREAD
    numbers = 2 * len(names) if names is not None else DEGREE + SPREAD_DEGREE + 2
    return _findings(ready, axis, [picture], numbers, ready.n)


def levels_findings(fit: LevelsFit, modelled: OutcomeSpec, axis: ResidualAxis, every: bool) -> Findings | Refusal:
    """Return mean residuals of a likelihood model in bins: of the modelled outcome, or of every level.

    Of two levels one is fitted, and has the noise; the other's picture is its mirror image.
    """
    ready, layout = fit.ready, fit.fitted.layout
    drawn = _drawn(ready, layout, "levels")
    if drawn is None:
        return TOO_FEW
    where, draws, _ = drawn
    moments, outcomes = ready.moments, len(modelled.names)
    grid = ResidualGrid.of_shares()
    if axis.kind == "number":
        grid = ResidualGrid.about(float(moments.means[axis.place]), float(moments.spreads[axis.place]), moments.n, AXIS)
    sums = LevelSums(layout, steady(fit.fitted.beta), axis, grid)
    reduce, columns = ready.question.dataset.warehouse.reduce, layout.columns
    binned = BinnedResiduals(noise=max(BinnedResiduals().noise, ready.question.policy.models.sd / 2))
    fine = reduce(sums, columns, where).reshape(outcomes, grid.size).astype(np.int64)
    if fine[0].sum() < 2 * binned.least:
        return TOO_FEW
    bins = np.stack([_wide(grid.middles, binned.edges(_tally(grid, counts))) for counts in fine])
    found = reduce(sums.within(bins), columns, where).reshape(outcomes, 3, -1)
    made: dict[int, BinnedPicture] = {}
    for i in range(1 if outcomes == 2 else 0, outcomes):
        count = int(bins[i].max()) + 1
        places = np.repeat(grid.middles, fine[i]), np.repeat(bins[i], fine[i])
        middles = np.array([np.median(places[0][places[1] == b]) for b in range(count)])
        own = draws.child("outcome", modelled.outcome.titles[i])
        picture = binned.of_sums(found[i, :, :count], middles, own, modelled.names[i], axis.name)
        made[i] = picture
    if outcomes == 2:
        made[0] = made[1].mirrored(modelled.names[0], axis.kind == "fitted")
    shown = range(outcomes) if every else [0 if modelled.flip else 1]
    listed: list[ResidualPicture | BinnedPicture] = [made[i] for i in shown]
    count = int(bins.max()) + 1
    return _findings(ready, axis, listed, len(listed), ready.n / count)


def _drawn(ready: Prepared, layout: Layout, family: str) -> tuple[str, Draws, int] | None:
    """Return the condition of the records that a picture is of, its randomness, and how many synthetic points it has.

    None if the records are too few. That and the number of points hang on the noisy count of records.

    Draws hang on the set of records, the outcome and the columns of the model, not on its wording. Of more than MOST records so
    many are drawn. Where records count by weights they are drawn in proportion to these, so that each stands for as many.
    """
    question, design, outcome = ready.question, layout.design, layout.outcome
    weight = question.dataset.weight if layout.weighted else None
    expected, seen, part = ready.moments.n, ready.n, "1.0"
    if weight is not None:
        expected, seen = ready.moments.weight / weight.large, ready.n * weight.mean / weight.large
        part = f"least(1.0, w / {weight.large!r})"
    if seen < _LEAST:
        return None
    named = [outcome.name] if isinstance(outcome, Number) else [*outcome.titles[1:], repr(outcome.place)]
    # standardise() matters in products alone, where the number of columns does not make up for it
    columns = sorted(c.title if len(c.numbers) > 1 else title_of(design, c.key) for c in design.columns)
    key = key_of(question, "residuals", family, *named, "~", *columns, "weighted" if layout.weighted else "")
    share = min(1.0, MOST / max(expected, 1.0))
    where = question.records
    if share < 1 or weight is not None:
        where = f"({where}) AND {question.secret.order(key)} < {share * 2**BITS!r} * {part}"
    points = min(SyntheticResiduals().points, int(_POINTS * seen) // 50 * 50)
    return where, question.secret.draws.child("residuals", key.hex()), points


def _unit(ready: Prepared, layout: Layout) -> tuple[float, float]:
    """Return the zero and the scale of the outcome as it is read, in the units of the formula."""
    zero, scale = float(layout.centre[-1]), float(layout.scale[-1])
    if isinstance(layout.outcome, Number) and layout.outcome.standardised:
        mean, spread = (float(moments[-1]) for moments in ready.standard)
        return (zero - mean) / spread, scale / spread
    return zero, scale


def _linear_grid(ready: Prepared, fit: LeastSquares, axis: ResidualAxis) -> ResidualGrid:
    """Return fine cells for the axis of a linear model, from sums that are there already."""
    moments = ready.moments
    if axis.kind == "category":
        return ResidualGrid("levels", len(fit.layout.design.categories[axis.place].levels))
    if axis.kind == "number":
        return ResidualGrid.about(float(moments.means[axis.place]), float(moments.spreads[axis.place]), moments.n, AXIS)
    zero, scale = _unit(ready, fit.layout)
    products = fit.products[: fit.k, : fit.k]
    mean = 0.0 if fit.ones is None else float(fit.beta @ products @ fit.ones) / moments.weight
    variance = float(fit.beta @ products @ fit.beta) / moments.weight - mean**2
    spread = np.sqrt(max(variance, 1e-16 * (mean**2 + 1)))
    return ResidualGrid.about(zero + scale * mean, abs(scale) * float(spread), moments.n, AXIS)


def _tally(grid: ResidualGrid, counts: Whole) -> ValueCounts:
    return ValueCounts.of(grid.middles, counts, whole=False)


def _wide(middles: Numbers, edges: list[float]) -> Whole:
    return np.searchsorted(np.asarray(edges), middles, side="left").astype(np.int64)


def _cells(
    layout: Layout, axis: ResidualAxis, grid: ResidualGrid, fine: Whole, guard: int
) -> tuple[Whole, tuple[str, ...] | None]:
    """Return the wide cell of each fine one, with at least `guard` records each; of levels those that have a coefficient."""
    if axis.kind == "category":
        category = layout.design.categories[axis.place]
        cells = np.full(grid.size, -1, np.int64)
        cells[list(category.shown)] = np.arange(len(category.shown))
        return cells, tuple(category.levels[i] for i in category.shown)
    need = max(guard, -(-int(fine.sum()) // _CELLS))
    return _wide(grid.middles, list(Minimum(d=need, rounding=False).edges(_tally(grid, fine)))), None


def _paired(places: Numbers, fine: Whole, values: Numbers, table: Whole, draws: Draws) -> tuple[Numbers, Numbers]:
    """Return places and residuals, one for each record; within a wide cell they are put together at random.

    `fine` (cells,) counts records at places, ascending with their wide cells; `table` (wide cells, values) counts residuals.
    """
    x = np.repeat(places, fine)
    t = np.concatenate([np.repeat(values, row) for row in table])
    cell = np.repeat(np.arange(len(table)), table.sum(axis=1))
    return x, t[np.lexsort((draws.uniforms(np.arange(len(t)), "order"), cell))]


def _size(t: Numbers, guard: int) -> float:
    """Return the standard deviation of residuals, the outermost ones drawn in; 1 if they do not vary."""
    low, high = np.partition(t, (guard, -guard - 1))[[guard, -guard - 1]] if len(t) > 2 * guard else (t.min(), t.max())
    return float(np.clip(t, low, high).std()) or 1.0


def _findings(
    ready: Prepared, axis: ResidualAxis, pictures: list[ResidualPicture | BinnedPicture], numbers: int, size: float
) -> Findings:
    """Return the pictures as tables with what they say in words; `numbers` are given about sets of `size` records."""
    tables, facts = {}, {"axis": axis.name, "n": None if np.isnan(ready.shown_n) else ready.shown_n}
    notes: list[str] = []
    for picture in pictures:
        points = picture.points
        if isinstance(picture, ResidualPicture):
            order = points["x"].map(picture.levels.index) if picture.levels else points["x"]
            points = points.iloc[np.lexsort((points["residual"], order))]
            name = "synthetic residuals"
            facts |= {f"p of {what}": p for what, p in _rounded(picture.tests()).items()}
        else:
            name = picture.outcome
            facts |= _rounded({f"p of {name}": picture.test()})
        tables[name] = [{str(k): v for k, v in row.items()} for row in points.to_dict("records")]
        notes += str(picture).splitlines()
    question = ready.question
    key = key_of(question, "answer", question.wording)
    sets = Sets(question.selection.plain, (), (key,), np.array(size), 1, (size,) * numbers)
    return Findings(tables, facts, (*notes, *_kept_notes(ready)), (ready.counted, sets))


def _rounded(values: dict[str, float]) -> dict[str, float | None]:
    return dict(zip(values, plain_numbers(np.array([float(f"{v:.2g}") for v in values.values()])), strict=True))


def _kept_notes(ready: Prepared) -> list[str]:
    """Return the notes of the model, without those on coefficients, and what was done to its residuals."""
    notes = [n for n in ready.notes if not n.startswith(("Standard errors", "Coefficients"))]
    if ready.layout.weighted:
        notes.append("Residuals are those of records that were drawn in proportion to their weights.")
    return notes
