"""What a custodian may count on: the risk of the one file that will be released, not only of the average one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure

Numbers = NDArray[np.float64]

LEVEL = 0.95
"""Share of releases that stay below the limit."""


def release_values(measure: Measure, observations: Numbers) -> Numbers:
    """Return the measure's value for each single release, shape (m,), from observations of shape (m, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(measure.value(observations), np.float64)


@dataclass(frozen=True)
class Spread:
    """How much a measure differs between releases: a standard deviation, its degrees of freedom, on which scale."""

    sd: float
    freedom: int
    log: bool

    @classmethod
    def pooled(cls, several: Iterable[Numbers]) -> Spread:
        """Return the spread pooled over points, each with its values by release.

        On the logarithm if all values are positive, or 0 at some points: those tell nothing of how much others differ. On the
        plain scale if some are negative, or no point is free of 0.
        """
        used = [v for v in several if len(v) > 1 and np.isfinite(v).all()]
        positive = [v for v in used if (v > 0).all()]
        log = not used or (bool(positive) and all((v >= 0).all() for v in used))
        used = positive if log else used
        freedom = sum(len(v) - 1 for v in used)
        if not freedom:
            return cls(0.0, 0, log)
        total = sum(float(((w - w.mean()) ** 2).sum()) for w in (np.log(v) if log else v for v in used))
        return cls(math.sqrt(total / freedom), freedom, log)


@cache
def _student(freedom: int, level: float) -> float:
    from scipy.special import stdtrit  # a search asks thousands of times; scipy.stats is slow at that

    return float(stdtrit(freedom, level))


def release_limit(values: Numbers, spread: Spread | None = None, level: float = LEVEL) -> float:
    """Return the value below which a further release stays with probability `level`.

    A one-sided prediction limit from m releases under the normal model: mean + t s √(1 + 1/m), on the logarithm where all
    values are positive. `spread` is a standard deviation pooled over other points, for when m is small. Infinite where one
    release alone says nothing of how much they differ.
    """
    if not len(values) or np.isnan(values).any():
        return math.nan
    if not np.isfinite(values).all():
        return math.inf
    own = Spread.pooled([values])
    known = spread if spread is not None and spread.freedom > own.freedom else own
    if not known.freedom:
        return math.inf
    half = _student(known.freedom, level) * math.sqrt(1 + 1 / len(values))
    if known.log and (values > 0).all():
        return float(np.exp(np.log(values).mean() + half * known.sd))
    sd = known.sd * abs(float(values.mean())) if known.log else known.sd
    return float(values.mean() + half * sd)


def limit_noise(values: Numbers, level: float = LEVEL) -> float:
    """Return about how well the logarithm of `release_limit` is known from m releases: s √(1/m + t²/(2(m - 1))).

    The two terms are the variances of the mean and of t times the standard deviation under the normal model. 0 where the limit
    is not a positive number.
    """
    m, own, limit = len(values), Spread.pooled([values]), release_limit(values, level=level)
    if m < 2 or not 0 < limit < math.inf:
        return 0.0
    relative = own.sd if own.log else own.sd / limit
    return relative * math.sqrt(1 / m + _student(m - 1, level) ** 2 / (2 * (m - 1)))
