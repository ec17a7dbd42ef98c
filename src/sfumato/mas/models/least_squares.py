"""Least squares from sums: cross-products in one pass, read again where columns are nearly dependent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.mas.models.algebra import NEARLY, inverse, smallest, turn_of
from sfumato.mas.models.layout import Layout, Piece
from sfumato.mas.models.noise import Noise
from sfumato.mas.models.numbers import Numbers
from sfumato.mas.question import Question

BINS = 1000
"""Leverages are counted in so many bins between 0 and 1."""


class _CrossProducts:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(self, piece: Piece) -> Numbers:
        """Return the products of the columns and the outcome with each other, shape (columns + 1, columns + 1)."""
        reading = self.layout.read(piece)
        z = self.layout.matrix(reading)
        both = np.concatenate([z, reading.numbers[-1:]])
        if reading.weights is not None:
            both *= np.sqrt(reading.weights)
        return np.asarray(both @ both.T)


class _Residuals:
    def __init__(self, layout: Layout, beta: Numbers, bread: Numbers) -> None:
        self.layout, self.beta, self.bread = layout, beta, bread

    def __call__(self, piece: Piece) -> Numbers:
        """Return the sum of squared residuals, the products of squared scores, and counts of leverages."""
        reading = self.layout.read(piece)
        z = self.layout.matrix(reading)
        e = reading.numbers[-1] - self.beta @ z
        w = reading.weights
        leverage = np.einsum("ij,ij->j", z, self.bread @ z)
        if w is not None:
            leverage *= w
        counts = leverage_counts(leverage)
        squares = float(e @ e) if w is None else float((w * e) @ e)
        z *= e if w is None else e * w
        return np.concatenate([[squares], (z @ z.T).ravel(), counts])


def leverage_counts(leverage: Numbers) -> Numbers:
    """Return how many leverages lie up to each thousandth; a maximum cannot be added up, counts can."""
    at = np.clip(np.ceil(leverage * BINS - 1e-9), 0, BINS).astype(np.int64)
    return np.bincount(at, minlength=BINS + 1).astype(np.float64)


def largest_leverage(counts: Numbers) -> float:
    """Return the largest leverage, to a thousandth upwards."""
    found = np.flatnonzero(counts)
    return float(found[-1]) / BINS if len(found) else 0.0


def cross_products(question: Question, layout: Layout) -> Numbers:
    """Return the cross-products of columns and outcome over the complete records that are kept."""
    return question.dataset.warehouse.reduce(_CrossProducts(layout), layout.columns, question.records)


def without_empty(products: Numbers, layout: Layout) -> tuple[Numbers, Layout]:
    """Leave out indicators of levels that no complete record has."""
    diagonal = np.diag(products)
    kept = [i for i, c in enumerate(layout.design.columns) if diagonal[i] > 0 or not c.cells]
    if len(kept) == len(layout.design.columns):
        return products, layout
    rest = [*kept, *range(len(layout.design.columns), len(products))]
    return products[np.ix_(rest, rest)], layout.only(kept)


def independent(question: Question, products: Numbers, layout: Layout) -> tuple[Numbers, Layout]:
    """Turn nearly dependent columns to independent ones, and read once more (Cholesky QR, twice): no digits are lost."""
    k = len(layout.design.columns)
    if smallest(products[:k, :k]) > NEARLY:
        return products, layout
    turned = replace(layout, turn=turn_of(products[:k, :k]))
    return cross_products(question, turned), turned


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A fit; arrays are in the columns as the layout reads them, the outcome in its own scale. Confidential."""

    question: Question
    layout: Layout
    products: Numbers
    noise: Noise
    """In units of the outcome as it is read."""
    squares_noise: float
    n: float
    about: float | None = None
    """Total sum of squares about the mean, where indicators add up to an intercept that the formula does not have."""

    @property
    def k(self) -> int:
        """Number of coefficients."""
        return len(self.products) - 1

    @property
    def constant(self) -> bool:
        """Whether the model has an intercept, written or as a sum of indicators."""
        return self.layout.design.intercept or self.about is not None

    @cached_property
    def bread(self) -> Numbers:
        """The inverse of X'X."""
        return inverse(self.products[: self.k, : self.k])

    @cached_property
    def beta(self) -> Numbers:
        """Coefficients, with noise."""
        return np.asarray(self.bread @ (self.products[: self.k, self.k] + self.noise.values))

    @cached_property
    def exact_beta(self) -> Numbers:
        """Coefficients without noise, of which residuals are taken."""
        return np.asarray(self.bread @ self.products[: self.k, self.k])

    @cached_property
    def second(self) -> tuple[float, Numbers, float]:
        """Sum of squared residuals, meat (columns, columns) and largest leverage, by a second pass."""
        sums = self.question.dataset.warehouse.reduce(
            _Residuals(self.layout, self.beta, self.bread), self.layout.columns, self.question.records
        )
        meat = sums[1 : 1 + self.k**2].reshape(self.k, self.k)
        return float(sums[0]), meat, largest_leverage(sums[1 + self.k**2 :])

    @property
    def share(self) -> float:
        """R² as the rule may see it: of noisy sums, where there is noise; a refusal then tells no more than an answer would.

        It is then less by one standard deviation of that noise: where the noise is large, a high R² is most likely chance, and
        coefficients predict nobody. z² has the variance 4 z² v + 2 v² where z has v.
        """
        sequential, residual, total = self._regression
        if not total > 0:
            return float(not self.noise.variance.any())
        part = self._noise_parts
        return 1 - (residual + float(np.sqrt(np.sum(4 * sequential * part + 2 * part**2)))) / total

    def _total(self, of_total: float, of_squares: float) -> float:
        """Return the total sum of squares, about the mean if there is an intercept."""
        squares = float(self.products[self.k, self.k]) + of_squares
        if not self.layout.design.intercept:
            return squares if self.about is None else self.about
        mean = self._first_row()
        return squares - (mean[0] + of_total) ** 2 / mean[1]

    def _first_row(self) -> tuple[float, float]:
        """Return the sum of the outcome and of the weights; the first column is a multiple of the intercept."""
        factor = 1.0 if self.layout.turn is None else float(self.layout.turn[0, 0])
        return float(self.products[0, self.k]) / factor, float(self.products[0, 0]) / factor**2

    @cached_property
    def sums_of_squares(self) -> tuple[Numbers, float, float]:
        """Sequential sums of squares of the columns, residual and total sum of squares, from noisy cross-products.

        Where noise would make the residual sum unlikely, it is at least a twentieth of the total: a closer fit is not answered.
        """
        sequential, residual, total = self._regression
        if not self.noise.variance.any():
            return sequential, residual, total
        if not total > 0:
            return sequential, np.nan, np.nan
        return sequential, float(np.clip(residual, 0.05 * total, total)), total

    @cached_property
    def _noise_parts(self) -> Numbers:
        """Variances of the noise in what each column adds to the regression; none in that of the intercept."""
        lower = np.linalg.cholesky(self.products[: self.k, : self.k])
        part = np.linalg.solve(lower, np.linalg.solve(lower, self.noise.variance).T).diagonal().copy()
        if self.layout.design.intercept:
            part[0] = 0.0
        return np.asarray(part)

    @cached_property
    def _regression(self) -> tuple[Numbers, float, float]:
        """Return the same as they come."""
        vector = self.products[: self.k, self.k] + self.noise.values
        lower = np.linalg.cholesky(self.products[: self.k, : self.k])
        sequential = np.square(np.linalg.solve(lower, vector))
        if self.layout.design.intercept:
            sequential[0] = 0.0
        if not self.noise.variance.any():
            total = self._total(0.0, 0.0)
            whole = total if self.about is None else float(self.products[self.k, self.k])
            residual = whole - float(sequential.sum())
            if residual < 1e-6 * whole:
                residual = self.second[0]
            return sequential, residual, total
        total = self._total(self.noise.of_total, self.squares_noise)
        expected = float(self._noise_parts.sum())  # what noise adds to the regression, on average
        whole = total if self.about is None else float(self.products[self.k, self.k]) + self.squares_noise
        return sequential, whole - float(sequential.sum()) + expected, total
