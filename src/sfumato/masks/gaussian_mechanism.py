"""The Gaussian mechanism on single values, with the smallest noise that (ε, δ) allows."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import param
from sfumato.masks.local_privacy import LocalPrivacy, of_column

Numbers = NDArray[np.float64]


class GaussianMechanism(LocalPrivacy):
    """Normal noise on each value: (ε, δ)-differential privacy of the value, calibrated exactly (Balle and Wang 2018).

    σ is the smallest for which the condition of their theorem 8 holds; the classical √(2 log(1.25/δ)) sensitivity/ε is larger,
    and holds for ε < 1 only. State the sensitivity; nothing is learned from the data.
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
        from sfumato.kernels.normal import normals_from

        return normals_from(u)

    @property
    def variance(self) -> float:
        """Return the variance of the noise of scale 1."""
        return 1.0

    def promise(self, epsilon: str) -> str:
        """Return the kind of privacy, in words."""
        return f"({epsilon}, {self.delta:g})-differential privacy"

    def total(self, count: int) -> str:
        """Return what the parameters add up to over columns."""
        return f"ε = {sum(of_column(self.epsilon, n) for n in self.names):g} and δ = {count * self.delta:g}"


def privacy_loss(sigma: float, epsilon: float) -> float:
    """Return the smallest δ for which normal noise of standard deviation σ on sensitivity 1 is (ε, δ)-private.

    Balle and Wang (2018), theorem 8: Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ).
    """
    from scipy.special import log_ndtr

    first, second = log_ndtr(0.5 / sigma - epsilon * sigma), epsilon + log_ndtr(-0.5 / sigma - epsilon * sigma)
    return float(-np.exp(first) * np.expm1(second - first))


@cache
def analytic_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest σ with privacy_loss(σ, ε) <= δ, for sensitivity 1."""
    from scipy.optimize import brentq

    def excess(log_sigma: float) -> float:
        loss = privacy_loss(float(np.exp(log_sigma)), epsilon)
        return float(np.log(max(loss, 1e-300)) - np.log(delta))

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return float(np.exp(brentq(excess, low, high, xtol=1e-13))) * (1 + 1e-12)
