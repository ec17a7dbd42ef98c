"""What every measure has in common, of a release or of a table: a number that is an expectation over random draws."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.parameters import Parametric
from sfumato.contract.score import Side

Numbers = NDArray[np.float64]


class Estimated(Parametric, abstract=True):
    """A number that is estimated by replication: one outcome gives observations, and their means give the number."""

    side: ClassVar[Side]

    def value(self, means: Numbers) -> Numbers:
        """Return the measure from means of observations; shape (..., k) to (...)."""
        return means[..., 0]

    @abstractmethod
    def label(self) -> str:
        """Return a few words for a legend."""

    @property
    def variant(self) -> str:
        """Which of several definitions this is, for the Score."""
        return ""

    @property
    def size(self) -> int:
        """How many numbers `observe` returns."""
        return 1

    @property
    def replications(self) -> int:
        """How many releases it takes, at least, before its value says much."""
        return 2

    def estimate(self, observations: Numbers, level: float = 0.95) -> tuple[float, tuple[float, float] | None]:
        """Return the value and its interval from replicated observations, shape (replications, k).

        The interval is the jackknife's, on the logarithm where the value is positive; None for one replication.
        """
        count = len(observations)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(self.value(observations.mean(axis=0)))
            if count < 2:
                return value, None
            left_out = self.value((observations.sum(axis=0) - observations) / (count - 1))
        if not math.isfinite(value) or not np.isfinite(left_out).all():
            constant = bool((observations == observations[0]).all())
            return value, (value, value) if constant else None
        from scipy.stats import t

        quantile = float(t.ppf(0.5 + level / 2, count - 1))
        positive = value > 0 and bool((left_out > 0).all())
        parts = np.log(left_out) if positive else left_out
        half = quantile * math.sqrt((count - 1) / count * float(((parts - parts.mean()) ** 2).sum()))
        if positive:
            return value, (value * math.exp(-half), value * math.exp(half))
        return value, (value - half, value + half)
