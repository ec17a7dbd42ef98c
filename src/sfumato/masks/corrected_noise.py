"""Correlated noise with the variance put right: masked values are drawn back to the mean by as much as noise spread them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, MatrixForm, check_numbers, learned
from sfumato.errors import listing
from sfumato.masks.noise import CorrelatedNoise
from sfumato.masks.noise_level import apart
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class CorrectedNoise(CorrelatedNoise):
    """Correlated noise with bias correction: Y = μ + (X - μ + ε)/√(1+λ²), ε ~ N(0, λ²Σ) (Kim 1986; Tendick and Matloff 1994).

    Mean and covariance of the masked columns are, in expectation, those of the original: an analyst needs no correction. With
    levels by column, means and variances are kept, and correlations shrink by (1+λᵢλⱼ)/√((1+λᵢ²)(1+λⱼ²)).
    """

    mean: Any = learned("columns", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance, and the mean of each column over its own answers."""
        fitted = super().fit(data, draws)
        return fitted.learn(mean=np.array([data.moments((name,)).mean[0] for name in fitted.names]))

    def shrinkage(self) -> Numbers:
        """Return 1/√(1+λ²) per column, shape (k,)."""
        return np.asarray(1 / np.sqrt(1 + self._level(self.names) ** 2))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise and draw the sum back to the mean."""
        check_numbers(batch, self.names)
        out = batch
        facts = zip(
            self.names, self._level(self.names), self.shrinkage(), self.mean, self.unit_noise(batch, draws), strict=True
        )
        for name, level, shrink, mean, unit in facts:
            out = out.replace(name, partial(_corrected, batch, name, level, shrink, mean, unit))
        return out

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB + C: B is 1/√(1+λ²) on the diagonal, C the shrunk noise and the mean's share."""
        fitted = self if self.is_fitted else self.fit(data, draws)
        shrink, noise = fitted.shrinkage(), super(CorrectedNoise, fitted).as_matrix(data, draws)
        c = np.asarray(noise.C) * shrink + (1 - shrink) * fitted.mean
        return MatrixForm(noise.names, noise.names, B=np.diag(shrink), C=c, random=("C",))

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> None:
        """Return None: the masked value is not the value plus something of mean zero."""
        return

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say which moments are kept in expectation, and how far the released ones are from the original's."""
        same = not isinstance(self.lambda2, Mapping) or len(set(self.lambda2.values())) == 1
        what = "mean and covariance" if same else "mean and variance of each column"
        mean, covariance = apart(before.moments(self.names), after.moments(self.names))
        says = f"{listing(self.names)}: {what} are, in expectation, those of the original"
        how = (
            f"by construction, over the records that have all of them; released means are within {mean:.2g} standard "
            f"deviations, covariances within {covariance:.2g}"
        )
        return (Guarantee(step, says, how), *super().guarantees(before, after, step))


def _corrected(batch: Batch, name: str, level: float, shrink: float, mean: float, unit: Numbers) -> Numbers:
    return mean + shrink * (batch.numbers(name) - mean + level * unit)
