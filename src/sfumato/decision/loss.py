"""Loss functions: how much an error costs a user, and what uncertainty that leaves (RTA paper, section 2.3.3)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError

Numbers = NDArray[np.float64]
_ROUNDING = 1e-14
"""Relative to a value: 0.9 is within 0.1 of 0.8, however these are rounded."""


class Loss(ABC):
    """The loss f(a, θ) of estimating a target value a by θ (definition 2.3.3.1).

    Uncertainty is the smallest expected loss, Ψ(A) = min over θ of E f(A, θ) (definitions 2.3.3.4 and 2.3.3.5), and certainty
    its reciprocal. For a normal target it depends on the variance alone, and rises with it.
    """

    name: str
    optimism: float = 1 / 3
    """Weight of the loss on other draws, where a distribution is known by draws only: Ψ on n draws is too small by c/n, and the
    loss on one half of them of what is best for the other too large by 2c/n."""

    @abstractmethod
    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return f(a, θ)."""

    @abstractmethod
    def normal(self, variance: float) -> float:
        """Return Ψ of a normal target with this variance; infinite variance is allowed."""

    @abstractmethod
    def normal_variance(self, uncertainty: float) -> float:
        """Return the variance at which a normal target has this uncertainty; infinite if none has."""

    @abstractmethod
    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return Θ and Ψ of discrete distributions: `values` (N,) in rising order, `weights` (J, N) with sums of 1; (J,) each."""

    def uncertainty(self, sample: ArrayLike) -> float:
        """Return Ψ of a sample, each value with the same weight.

        >>> Quadratic().uncertainty([1.0, 2.0, 3.0]), Absolute().uncertainty([1.0, 2.0, 6.0, 7.0])
        (0.6666666666666666, 2.5)
        """
        values = np.sort(np.asarray(sample, np.float64))
        return float(self.best(values, np.full((1, len(values)), 1 / len(values)))[1][0])


@dataclass(frozen=True)
class Quadratic(Loss):
    """f(a, θ) = (a - θ)²: estimators are means, uncertainties are variances (lemma 2.3.3.7)."""

    name = "quadratic"

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return the squared error."""
        return np.square(np.asarray(a, np.float64) - np.asarray(theta, np.float64))

    def normal(self, variance: float) -> float:
        """Return the variance."""
        return variance

    def normal_variance(self, uncertainty: float) -> float:
        """Return the uncertainty: it is the variance."""
        return uncertainty

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return means and variances."""
        centre = float(values.mean())
        mean = weights @ (values - centre)
        return mean + centre, np.maximum(weights @ np.square(values - centre) - mean**2, 0.0)


@dataclass(frozen=True)
class Absolute(Loss):
    """f(a, θ) = |a - θ|: estimators are medians; for a normal target the uncertainty is √(2/π) σ."""

    name = "absolute"

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return the absolute error."""
        return np.abs(np.asarray(a, np.float64) - np.asarray(theta, np.float64))

    def normal(self, variance: float) -> float:
        """Return √(2/π) σ."""
        return math.sqrt(2 / math.pi * variance)

    def normal_variance(self, uncertainty: float) -> float:
        """Return π/2 times the square."""
        return math.pi / 2 * uncertainty**2

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return medians and mean absolute deviations from them."""
        at = np.minimum((np.cumsum(weights, axis=1) < 0.5).sum(axis=1), len(values) - 1)
        middle = values[at]
        return middle, np.array([w @ np.abs(values - m) for w, m in zip(weights, middle, strict=True)])


@dataclass(frozen=True)
class ZeroOne(Loss):
    """f(a, θ) = 1 if |a - θ| > `tolerance`, else 0: uncertainty is the probability of missing by more than that.

    With tolerance 0 only the very value counts: for categories and whole numbers, not for continuous targets.
    """

    tolerance: float = 0.0
    name = "zero-one"
    optimism = 3 / (3 + 2 ** (2 / 3))
    """The best window is found with an error of n^(-1/3): Ψ is too small by c n^(-2/3), the other loss too large by a third of
    c (n/2)^(-2/3) (Kim and Pollard 1990)."""

    def __post_init__(self) -> None:
        if not (isinstance(self.tolerance, int | float) and 0 <= self.tolerance < math.inf):
            raise ParameterError("the tolerance of a zero-one loss must be a number of at least 0.")

    def __call__(self, a: ArrayLike, theta: ArrayLike) -> Numbers:
        """Return whether the error is beyond the tolerance."""
        value, guess = np.asarray(a, np.float64), np.asarray(theta, np.float64)
        return (np.abs(value - guess) > self.tolerance + _ROUNDING * np.abs(value)).astype(np.float64)

    def normal(self, variance: float) -> float:
        """Return P(|N(0, σ²)| > tolerance)."""
        return math.erfc(self.tolerance / math.sqrt(2 * variance)) if variance > 0 else 0.0

    def normal_variance(self, uncertainty: float) -> float:
        """Return (tolerance / normal quantile)²: 0 for no uncertainty, infinite from 1 on."""
        from scipy.special import erfcinv

        if uncertainty <= 0:
            return 0.0
        if uncertainty >= 1:
            return math.inf if self.tolerance or uncertainty > 1 else 0.0
        return float((self.tolerance / (math.sqrt(2) * erfcinv(uncertainty))) ** 2)

    def best(self, values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Return the middles of the windows of width 2 × tolerance that hold most, and what they do not hold."""
        end = np.searchsorted(values, values + 2 * self.tolerance + _ROUNDING * np.abs(values), "right")
        held = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
        inside = held[:, end] - held[:, :-1]
        at = inside.argmax(axis=1)
        middle = (values[at] + values[end[at] - 1]) / 2
        return middle, np.clip(1 - inside[np.arange(len(weights)), at], 0.0, 1.0)
