"""The models behind analytic curves: normal records, and what a mask makes of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sfumato.errors import DataError, ParameterError, join_names, refuse_unknown
from sfumato.typing import Numbers

Target = Literal["population", "file"]


class ReleaseModel(ABC):
    """n independent records X ~ N(mean, covariance), and what is known of the records Y that a mask makes of them.

    A mask that is not additive noise offers a model of its own (`Mask.release_model`): how far means and slopes of the
    released file are off, and how a released record goes with the original one. Each answers None where it has no formula.
    """

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    published: Mapping[str, Any]
    """The recipe's parameters by "step.parameter", for estimators that correct for them."""

    def at(self, name: str) -> int:
        """Return the position of a column."""
        refuse_unknown("column", self.names, "the model", name, error=DataError)
        return self.names.index(name)

    @abstractmethod
    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return the mean squared error of a combination of means, weights of shape (k,)."""

    @abstractmethod
    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return the mean squared error of `correction` times the least-squares slope of column y on column x."""

    @abstractmethod
    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return mean (2 + q,) and covariance (2 + q, 2 + q) of (x, y, z...): a value, what is released for it, and covariates.

        `names` are the column and the covariates. None if the model lacks one, if a covariate is masked, or if no record is
        released for a person.
        """

    def link(self, m: float, name: str) -> float:
        """Return how often a snooper who finds the right record with probability m holds the right value of a column.

        Where values change places between records, this is about their places, and `joint` about the values alone.
        """
        return m

    extremes: bool = True
    """Whether what is released for a value depends on it linearly and evenly, so that formulas hold for extreme values too."""

    def prediction_error(self, x: int, given: tuple[int, ...]) -> float | None:
        """Return the mean squared error of predicting a person's value by a regression that is fitted to the released file.

        Without covariates that is his distance from the released mean: σ²(n - 1)/n, and how far that is off the file's own.
        """
        if given:
            return None
        off = self.mean_error(np.eye(len(self.names))[x], "file")
        return None if off is None else float(self.covariance[x, x]) * (self.n - 1) / self.n + off


@dataclass(frozen=True, eq=False)
class NoiseModel(ReleaseModel):
    """n independent records X ~ N(mean, covariance), released as Y = X + ε with ε ~ N(0, noise) independent of X.

    Equation (3.1) of the R-U paper: unmasked columns have zero rows and columns in `noise`.
    """

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    noise: Numbers
    n: int
    published: Mapping[str, Any] = field(default_factory=dict)
    """The recipe's parameters by "step.parameter", for estimators that correct for them."""

    def __post_init__(self) -> None:
        size = len(self.names)
        if self.covariance.shape != (size, size) or self.noise.shape != (size, size) or self.mean.shape != (size,):
            raise ParameterError(
                f"a model of {size} columns needs a mean of {size} numbers and {size} × {size} matrices."
            )
        check_covariance(self.covariance, self.names)

    @property
    def released(self) -> Numbers:
        """Covariance of the released columns, shape (k, k)."""
        return self.covariance + self.noise

    @property
    def is_masked(self) -> bool:
        """Whether there is any noise."""
        return bool(self.noise.any())

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return c'(Σ + Ω)c / n about the population's value, c'Ωc / n about the file's own."""
        return float(weights @ (self.released if target == "population" else self.noise) @ weights) / self.n

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return bias² + variance about the population's slope.

        With S = Σ + Ω the released covariance, the slope has mean S_xy/S_xx and variance (S_yy - S_xy²/S_xx)/((n-3) S_xx):
        Cases 1 to 3 and (4.3) to (4.7), (5.1) are this with Ω zero on unmasked columns.
        """
        if target == "file":
            return None
        if self.n <= 3:
            return math.inf  # E[1/χ²] with n - 1 ≤ 2 degrees of freedom is infinite (ERRATA 0.17)
        released = self.released
        mean = correction * released[x, y] / released[x, x]
        scatter = max(released[y, y] - released[x, y] ** 2 / released[x, x], 0.0)
        variance = correction**2 * scatter / ((self.n - 3) * released[x, x])
        return float((mean - self.covariance[x, y] / self.covariance[x, x]) ** 2 + variance)

    def prediction_error(self, x: int, given: tuple[int, ...]) -> float | None:
        """Return the error of a prediction by the released mean; without noise, of a regression: σₑ²(1 - (1 + q)/n)."""
        if not given or self.is_masked:
            return super().prediction_error(x, given)
        S, z = self.covariance, list(given)
        explained = S[x, z] @ np.linalg.pinv(S[np.ix_(z, z)], rcond=1e-12, hermitian=True) @ S[z, x]
        return float(S[x, x] - explained) * max(1 - (1 + len(z)) / self.n, 0.0)

    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return the moments of (x, x + ε, z...)."""
        if any(name not in self.names for name in names):
            return None
        x, *z = (self.at(name) for name in names)
        if any(self.noise[i].any() for i in z):
            return None
        where = [x, x, *z]
        covariance = self.covariance[np.ix_(where, where)]
        covariance[1, 1] += self.noise[x, x]
        return self.mean[where], covariance


def _is_definite(covariance: Numbers) -> bool:
    """Whether a symmetric matrix has a Cholesky root."""
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return False
    return True


def check_covariance(covariance: Numbers, names: tuple[str, ...]) -> None:
    """Refuse a matrix that is not a covariance: not symmetric, or with a negative eigenvalue."""
    if not np.isfinite(covariance).all():
        raise ParameterError("the covariance matrix holds missing or infinite entries.")
    if np.array_equal(covariance, covariance.T) and _is_definite(covariance):
        return  # the common case, without a search for the smallest eigenvalue
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)).clip(min=0))
    if not np.allclose(covariance, covariance.T, rtol=1e-8, atol=1e-12 * max(float(scale.max(initial=0)), 1e-300)):
        raise ParameterError("the covariance matrix is not symmetric.")
    lowest = float(np.linalg.eigvalsh(covariance).min(initial=0))
    if lowest < -1e-8 * max(float(np.trace(covariance)), 0.0) or (np.diag(covariance) < 0).any():
        raise ParameterError(
            f"the covariance matrix of {join_names(names)} is not positive semi-definite (smallest eigenvalue {lowest:.3g}). "
            "No data have such variances and covariances; check the numbers."
        )
