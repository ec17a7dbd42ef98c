"""Differential privacy of single values: the Laplace and the Gaussian mechanism on a grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, learned, numeric_targets, param
from sfumato.data import Batch, Microdata, Rows
from sfumato.errors import DataError, join_names
from sfumato.lazy import optimize, special
from sfumato.masks.column_settings import check_by_column, numeric_columns, of_column, replace_numbers, value_limit
from sfumato.masks.noise import bounds_of, check_range
from sfumato.schema import Schema
from sfumato.typing import Numbers

STEPS = 1024
"""Smallest number of grid steps per noise scale."""
LARGEST = 2.0**51
"""Largest distance of a value from zero, in steps: with noise added, whole numbers of steps are still exact."""


class LocalPrivacy(Mask, abstract=True):
    """Noise on each value so that two values at most `sensitivity` apart are hard to tell from each other (local privacy).

    Values are moved to [low, high], rounded to a grid, and get noise rounded to the same grid: every value can become every point
    of the grid, and the sums are exact, so the last digits of a released number reveal nothing about the value (Mironov 2012).
    """

    no_matrix: ClassVar[str] = "values are moved to their range and rounded to a grid, which is not linear"

    sensitivity: float | Mapping[str, float] = param(
        doc="difference between two values that is to be hidden: the width of the column's range, to hide any difference",
        low=0,
        above=True,
        high=1e12,
        scale="log",
        per_column=True,
        usual=(30, 0.1),
    )
    columns: tuple[str, ...] | None = numeric_columns("mask")
    epsilon: float | Mapping[str, float] = param(
        default=1.0,
        doc="ε: the released number is at most e^ε times as likely from one value as from the other",
        low=1e-4,
        high=1000,
        scale="log",
        per_column=True,
    )
    low: float | Mapping[str, float] | None = value_limit(
        "values below are moved here first; the schema's bound if none"
    )
    high: float | Mapping[str, float] | None = value_limit(
        "values above are moved here first; the schema's bound if none"
    )
    names: Any = learned("columns", default=None)

    @override
    def validate(self) -> None:
        check_range(self.low, self.high, self.columns)
        self._check_named(self.columns)

    def _check_named(self, columns: tuple[str, ...] | None) -> None:
        for field, noun in (("sensitivity", "number"), ("epsilon", "ε"), ("low", "bound"), ("high", "bound")):
            check_by_column(field, noun, getattr(self, field), columns)

    @abstractmethod
    def scale(self, epsilon: float, sensitivity: float) -> float:
        """Return the scale of the noise."""

    @abstractmethod
    def quantile(self, u: Numbers) -> Numbers:
        """Return the noise of scale 1 at uniform numbers u."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise of scale 1."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the columns. Nothing is learned from their values: learned parameters would not be private."""
        names = numeric_targets(self.columns, data)
        self._check_named(names)
        for name in names:
            known, wild = data.engine.reduce(partial(self._counts, data.schema, name), [name])
            if not known:
                raise DataError(f"column '{name}' has no values at all, so there is nothing to mask.")
            if wild:
                raise DataError(
                    f"{int(wild):,} values of '{name}' are infinite, or too large for noise of this size to be added exactly. "
                    "Set them to missing, or give the column's range (low=, high=)."
                )
        return self.learn(names=names)

    def _counts(self, schema: Schema, name: str, rows: Rows) -> Numbers:
        """Return the number of values, and the number of those too large for exact multiples of the grid step."""
        x = np.clip(Batch(rows, schema).numbers(name), *bounds_of(self.low, self.high, schema, name))
        x = np.abs(x[~np.isnan(x)])
        return np.array([len(x), (x >= self.noise_scale(name)[1] * LARGEST).sum()], np.float64)

    def noise_scale(self, name: str) -> tuple[float, float]:
        """Return the scale of a column's noise and the step of its grid, a power of two.

        Two values at most s apart are at most s + step apart once they are rounded to the grid.
        """
        sensitivity, epsilon = of_column(self.sensitivity, name), of_column(self.epsilon, name)
        finest = min(self.scale(epsilon, sensitivity), sensitivity) / STEPS
        step = 2.0 ** math.floor(math.log2(finest))
        return self.scale(epsilon, sensitivity + step), step

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Move each value to its range and to the grid, and add noise from the grid."""
        return replace_numbers(batch, self.names, partial(self._masked, batch, draws))

    def _masked(self, batch: Batch, draws: Draws, name: str) -> Numbers:
        scale, step = self.noise_scale(name)
        x = np.clip(batch.numbers(name), *bounds_of(self.low, self.high, batch.schema, name))
        noise = self.quantile(draws.uniforms(batch.units(name), name)) * (scale / step)
        return (np.round(x / step) + np.round(noise)) * step

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers | None:
        """Return the variances of the noise on the diagonal; None if values are moved to a range first."""
        masked = self.columns if self.columns is not None else schema.names(role="confidential")
        if self.low is not None or self.high is not None:
            return None
        return np.diag([self.variance * self.noise_scale(n)[0] ** 2 if n in masked else 0.0 for n in names])

    def promise(self, epsilon: str) -> str:
        """Return the kind of privacy, in words."""
        return f"{epsilon}-differential privacy"

    def total(self, count: int) -> str:
        """Return the sum of the parameters over columns, as text."""
        return f"ε = {sum(of_column(self.epsilon, n) for n in self.names):g}"

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """State the privacy of each value, by column and in sum, and what is not protected."""
        for name in self.names:
            low, high = bounds_of(self.low, self.high, before.schema, name)
            sensitivity = of_column(self.sensitivity, name)
            pair = "any two values" if high - low <= sensitivity else f"two values at most {sensitivity:g} apart"
            privacy = self.promise(f"{of_column(self.epsilon, name):g}")
            says = f"{name}: {privacy} of each value, for {pair} (local: of values, not of the file)"
            scale, grid = self.noise_scale(name)
            how = f"by construction: {self.distribution} of scale {scale:.6g} on a grid of {grid:.6g}, and nothing learned"
            yield Guarantee(step, says, how)
        if len(self.names) > 1:
            says = f"{join_names(self.names)}: all columns of a record together have {self.total(len(self.names))}"
            yield Guarantee(step, says, "sum over the columns (sequential composition)")
        says = f"{join_names(self.names)}: whether a value is missing is not hidden, nor is anything in columns that are not masked"
        yield Guarantee(step, says, "missing values stay where they are")

    distribution: ClassVar[str]


class LaplaceNoise(LocalPrivacy):
    """Laplace noise of scale sensitivity/ε on each value: ε-differential privacy of the value (Dwork et al. 2006).

    The noise has variance 2 (sensitivity/ε)². State the sensitivity; nothing is learned from the data. To hide any difference,
    give the column's range (`low`, `high`, or bounds in the schema) and its width as sensitivity.
    """

    distribution: ClassVar[str] = "Laplace noise"

    def scale(self, epsilon: float, sensitivity: float) -> float:
        """Return sensitivity/ε."""
        return sensitivity / epsilon

    def quantile(self, u: Numbers) -> Numbers:
        """Return the quantile function: log 2u below the median, -log 2(1-u) above."""
        tail = np.minimum(u, 1 - u)
        return np.asarray(np.where(u < 0.5, 1.0, -1.0) * np.log(2 * tail))

    @property
    def variance(self) -> float:
        """Return the variance of the noise of scale 1."""
        return 2.0


class GaussianMechanism(LocalPrivacy):
    """Normal noise on each value: (ε, δ)-differential privacy of the value, calibrated exactly (Balle and Wang 2018).

    σ is the smallest for which the condition of their theorem 8 holds; the classical √(2 log(1.25/δ)) sensitivity/ε is larger,
    and holds only for ε < 1. State the sensitivity; nothing is learned from the data.
    """

    distribution: ClassVar[str] = "normal noise"

    delta: float = param(
        default=1e-6, doc="δ: probability that ε may be exceeded with", low=1e-30, high=0.5, scale="log"
    )

    def scale(self, epsilon: float, sensitivity: float) -> float:
        """Return σ."""
        return sensitivity * analytic_sigma(epsilon, self.delta)

    def quantile(self, u: Numbers) -> Numbers:
        """Return the normal quantile function."""
        return kernels.keyed_numbers.normals_from(u)

    @property
    def variance(self) -> float:
        """Return the variance of the noise of scale 1."""
        return 1.0

    @override
    def promise(self, epsilon: str) -> str:
        return f"({epsilon}, {self.delta:g})-differential privacy"

    @override
    def total(self, count: int) -> str:
        return f"ε = {sum(of_column(self.epsilon, n) for n in self.names):g} and δ = {count * self.delta:g}"


def privacy_loss(sigma: float, epsilon: float) -> float:
    """Return the smallest δ for which normal noise of standard deviation σ on sensitivity 1 is (ε, δ)-private.

    Balle and Wang (2018), theorem 8: Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ).
    """
    first, second = (
        special.log_ndtr(0.5 / sigma - epsilon * sigma),
        epsilon + special.log_ndtr(-0.5 / sigma - epsilon * sigma),
    )
    return float(-np.exp(first) * np.expm1(second - first))


@cache
def analytic_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest σ with privacy_loss(σ, ε) <= δ, for sensitivity 1."""

    def excess(log_sigma: float) -> float:
        loss = privacy_loss(float(np.exp(log_sigma)), epsilon)
        return float(np.log(max(loss, 1e-300)) - np.log(delta))

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return float(np.exp(optimize.brentq(excess, low, high, xtol=1e-13))) * (1 + 1e-12)
