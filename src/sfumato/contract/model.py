"""The model behind analytic curves: normal records with additive noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, listing, unknown_name

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseModel:
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

    def at(self, name: str) -> int:
        """Return the position of a column."""
        if name not in self.names:
            raise DataError(unknown_name("column", name, self.names, "the model"))
        return self.names.index(name)

    @property
    def released(self) -> Numbers:
        """Covariance of the released columns, shape (k, k)."""
        return self.covariance + self.noise


def check_covariance(covariance: Numbers, names: tuple[str, ...]) -> None:
    """Refuse a matrix that is not a covariance: not symmetric, or with a negative eigenvalue."""
    if not np.isfinite(covariance).all():
        raise ParameterError("the covariance matrix holds missing or infinite entries.")
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)).clip(min=0))
    if not np.allclose(covariance, covariance.T, rtol=1e-8, atol=1e-12 * max(float(scale.max(initial=0)), 1e-300)):
        raise ParameterError("the covariance matrix is not symmetric.")
    lowest = float(np.linalg.eigvalsh(covariance).min(initial=0))
    if lowest < -1e-8 * max(float(np.trace(covariance)), 0.0) or (np.diag(covariance) < 0).any():
        raise ParameterError(
            f"the covariance matrix of {listing(names)} is not positive semi-definite (smallest eigenvalue {lowest:.3g}). "
            "No data have such variances and covariances; check the numbers."
        )
