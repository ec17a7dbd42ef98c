"""Least squares from sums: cross-products in one pass, read again where columns are nearly dependent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.mas.models.influence import SecondPass, scaled_influence
from sfumato.mas.models.layout import Layout, Piece
from sfumato.mas.models.noise import NEARLY, Noise, inverse, smallest, turn_of
from sfumato.mas.question import Question
from sfumato.typing import Numbers


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
    def __init__(self, layout: Layout, beta: Numbers, bread: Numbers, influence: Numbers) -> None:
        self.layout, self.beta, self.bread, self.influence = layout, beta, bread, influence

    def __call__(self, piece: Piece) -> Numbers:
        """Return the sums of a second pass."""
        reading = self.layout.read(piece)
        z = self.layout.matrix(reading)
        e = reading.numbers[-1] - self.beta @ z
        w = reading.weights
        leverage = np.einsum("ij,ij->j", z, self.bread @ z)
        influence = self.influence @ z
        squares = float(e @ e) if w is None else float((w * e) @ e)
        if w is not None:
            leverage *= w
            influence *= w
        z *= e if w is None else e * w
        return SecondPass.sums(squares, z @ z.T, leverage, np.square(influence))


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
    ones: Numbers | None
    """Coefficients that make every record 1, where the model has an intercept, written or as a sum of indicators."""
    moved: float
    """What was taken off the outcome as it is read, beyond what the formula takes off."""
    user: Numbers
    """Takes coefficients of the columns as read to those of the formula; shape (columns, columns)."""

    phantoms: Numbers
    """What phantoms add to X'X."""

    @property
    def k(self) -> int:
        """Number of coefficients."""
        return len(self.products) - 1

    @property
    def moved_beta(self) -> Numbers:
        """Coefficients of the outcome as the formula has it."""
        return self.beta if self.ones is None else np.asarray(self.beta + self.moved * self.ones)

    @cached_property
    def information(self) -> Numbers:
        """X'X, with phantoms."""
        return np.asarray(self.products[: self.k, : self.k] + self.phantoms)

    @cached_property
    def bread(self) -> Numbers:
        """Its inverse."""
        return inverse(self.information)

    @property
    def unturned(self) -> Numbers:
        """X'X before columns are turned."""
        products = self.products[: self.k, : self.k]
        if self.layout.turn is None:
            return products
        back = np.linalg.inv(self.layout.turn)
        return np.asarray(back @ products @ back.T)

    @cached_property
    def _exact_bread(self) -> Numbers:
        return inverse(self.products[: self.k, : self.k])

    @cached_property
    def beta(self) -> Numbers:
        """Coefficients, with noise."""
        return np.asarray(self._exact_bread @ (self.products[: self.k, self.k] + self.noise.values))

    @cached_property
    def exact_beta(self) -> Numbers:
        """Coefficients without noise, of which residuals are taken."""
        return np.asarray(self._exact_bread @ self.products[: self.k, self.k])

    @cached_property
    def second(self) -> SecondPass:
        """What needs a second pass."""
        influence = scaled_influence(self.user @ self.bread, self.diagonal)
        added = _Residuals(self.layout, self.beta, self.bread, influence)
        sums = self.question.dataset.warehouse.reduce(added, self.layout.columns, self.question.records)
        return SecondPass.of(sums, self.k)

    @cached_property
    def diagonal(self) -> Numbers:
        """The diagonal of the inverse of X'X, of the columns of the formula."""
        return np.asarray(np.einsum("ij,jk,ik->i", self.user, self.bread, self.user))

    @property
    def share(self) -> float:
        """R² as the rule may see it: of noisy sums, where there is noise; a refusal then tells no more than an answer would.

        It is then less by one standard deviation of that noise: where the noise is large, a high R² is most likely chance, and
        coefficients predict nobody. z² has the variance 4 z² v + 2 v² where z has v.
        """
        residual, total = self._residual_and_total
        if not total > 0:
            return float(not self.noise.variance.any())
        part = self._noise_parts
        return 1 - (residual + float(np.sqrt(np.sum(4 * self._effects**2 * part + 2 * part**2)))) / total

    @cached_property
    def _lower(self) -> Numbers:
        return np.asarray(np.linalg.cholesky(self.information), np.float64)

    @cached_property
    def _effects(self) -> Numbers:
        """What the columns explain one after another, with noise: the roots of their sequential sums of squares."""
        products = self.products[: self.k, self.k] + self.noise.values + self.phantoms @ self.beta
        return np.asarray(np.linalg.solve(self._lower, products))

    @cached_property
    def _formula_effects(self) -> Numbers:
        """The same for the outcome as the formula has it."""
        return self._effects if self.ones is None else self._effects + self.moved * (self._lower.T @ self.ones)

    @cached_property
    def _noise_matrix(self) -> Numbers:
        """Variance of the noise in the effects."""
        return np.asarray(np.linalg.solve(self._lower, np.linalg.solve(self._lower, self.noise.variance).T))

    @cached_property
    def _noise_parts(self) -> Numbers:
        """Its diagonal; none in that of the intercept, which is in the total, too."""
        part = self._noise_matrix.diagonal().copy()
        if self.layout.design.intercept:
            part[0] = 0.0
        return np.asarray(part)

    @cached_property
    def _residual_and_total(self) -> tuple[float, float]:
        """Sums of squares as they come from noisy cross-products; the total is about the mean if there is an intercept."""
        squares = float(self.products[self.k, self.k] + self.beta @ self.phantoms @ self.beta) + self.squares_noise
        total = squares
        if self.ones is not None:
            row = self._lower.T @ self.ones  # Σ y of the records is what the columns explain of it
            total -= float(row @ self._effects) ** 2 / float(row @ row)
        residual = squares - float(self._effects @ self._effects)
        if self.noise.variance.any():
            return residual + float(self._noise_parts.sum()), total  # noise adds so much to the regression, on average
        return (self.second.squares if residual < 1e-6 * squares else residual), total

    @cached_property
    def sums_of_squares(self) -> tuple[Numbers, float, float]:
        """Sequential sums of squares of the columns, residual and total sum of squares, from noisy cross-products.

        What noise adds to a sum on average is taken from it, so that a sum may be below 0. Where noise would make the residual
        sum unlikely, it is at least a twentieth of the total: a closer fit is not answered.
        """
        residual, total = self._residual_and_total
        sequential = np.square(self._formula_effects)
        if not self.noise.variance.any():
            return sequential, residual, total
        sequential = sequential - self._noise_parts
        if not total > 0:
            return sequential, np.nan, np.nan
        return sequential, float(np.clip(residual, 0.05 * total, total)), total

    def ratio(self, columns: Sequence[int], mean_square: float) -> float:
        """Return F of some columns, given those before them.

        What they add to the regression, z, has the variance s² I + N if they explain nothing, N that of the noise:
        F = z′(s² I + N)⁻¹z / df. Without noise this is the classical ratio; of one last column it is the square of its t.
        """
        z, own = self._formula_effects[list(columns)], np.ix_(columns, columns)
        spread = mean_square * np.eye(len(z)) + self._noise_matrix[own]
        return float(z @ np.linalg.solve(spread, z)) / len(z)
