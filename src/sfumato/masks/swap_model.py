"""What swapping does to normal records: the model behind analytic R-U maps of data swapping and rank swapping.

Swapping permutes a column, so its distribution, mean and variance stay. With a the centred values, S their sum of squares
and π the permutation, everything else hangs on C = Σ a_i a_π(i) / S: for normal records C is independent of S. A slope of y on
x of which one is swapped is βC + Σ a_π(i) e_i / S, whichever of the two it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, ReleaseModel
from sfumato.contract.model import Target

Numbers = NDArray[np.float64]
_RANKS = 2_000
"""Ranks that stand for more of them, unless the window would have fewer than `_WINDOW` of these."""
_WINDOW = 100


@dataclass(frozen=True)
class Kept:
    """How much of a column stays in its place: mean and variance of C, and E[X' He_j(X)]/√j! for j = 1, 2, 3."""

    mean: float
    variance: float
    hermite: tuple[float, float, float]

    def moved(self, n: int) -> float:
        """Return E(X - X')² / 2σ² of a record: the share of values that would have to move to a random place."""
        return (n - 1) * (1 - self.mean) / n


@dataclass(frozen=True, eq=False)
class SwapModel(ReleaseModel):
    """Normal records of which groups of columns change places between records, each group by a permutation of its own."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    groups: tuple[tuple[tuple[int, ...], Kept], ...]
    extremes: bool
    """Whether values move to a random place, so that formulas hold for extreme values too."""
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, before: NoiseModel, groups: Mapping[tuple[str, ...], Kept], extremes: bool) -> SwapModel | None:
        """Make it, if there is no noise yet; columns that the model does not hold are left out."""
        if before.is_masked:
            return None
        made = tuple((tuple(before.at(n) for n in names if n in before.names), kept) for names, kept in groups.items())
        return cls(before.names, before.mean, before.covariance, before.n, made, extremes, before.published)

    def _group(self, column: int) -> int:
        return next((g for g, (columns, _) in enumerate(self.groups) if column in columns), -1)

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return the error of unmasked data: means are kept exactly."""
        return float(weights @ self.covariance @ weights) / self.n if target == "population" else 0.0

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return β²E(C - 1)² + σₑ²/((n-3)σ²) where one column is swapped; of two that are swapped apart, for large n."""
        one, two = self._group(x), self._group(y)
        if self.n <= 3:
            return math.inf
        S = self.covariance
        beta, residual = S[x, y] / S[x, x], max(S[y, y] - S[x, y] ** 2 / S[x, x], 0.0)
        sampling = float(residual / ((self.n - 3) * S[x, x]))
        if one == two:  # neither, or both together: every pair of values is kept
            return _about(beta, correction, 1.0, 0.0, sampling, target)
        if one < 0 or two < 0:
            kept = self.groups[max(one, two)][1]
            return _about(beta, correction, kept.mean, kept.variance, sampling, target)
        if target == "file":
            return None
        rho = S[x, y] / math.sqrt(S[x, x] * S[y, y])
        pairs = zip(self.groups[one][1].hermite, self.groups[two][1].hermite, strict=True)
        slope = math.sqrt(S[y, y] / S[x, x]) * sum(rho**j * a * b for j, (a, b) in enumerate(pairs, 1))
        scatter = max(S[y, y] - slope**2 * S[x, x], 0.0) / ((self.n - 3) * S[x, x])
        return float((correction * slope - beta) ** 2 + correction**2 * scatter)

    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return the moments of (x, x, z...): that the value may be elsewhere is `link`'s affair."""
        if any(name not in self.names for name in names):
            return None
        x, *z = (self.at(name) for name in names)
        if any(self._group(i) >= 0 for i in z):
            return None
        where = [x, x, *z]
        return self.mean[where], self.covariance[np.ix_(where, where)]

    def link(self, m: float, name: str) -> float:
        """Return how often he holds the right value; a swapped one stands in another's record, where a wrong link may find it."""
        group = self._group(self.at(name))
        if group < 0 or self.n < 2:
            return m
        moved = self.groups[group][1].moved(self.n)
        return m * (1 - moved) + (1 - m) * moved / (self.n - 1)


def _about(beta: float, correction: float, kept: float, spread: float, sampling: float, target: Target) -> float:
    """Return the error of a slope βC + noise: about the population's, or about that of the file."""
    if target == "population":
        return float(beta**2 * ((correction * kept - 1) ** 2 + correction**2 * spread) + correction**2 * sampling)
    # the file's own slope is β + Σ a e / S, and Σ a_π a = CS
    square = correction**2 - 2 * correction * kept + 1
    return float(beta**2 * ((correction * kept - 1) ** 2 + correction**2 * spread) + square * sampling)


def random_pairs(n: int, pairs: int) -> Kept:
    """Return C for so many random pairs of n records, exactly.

    The direction of a is uniform on a sphere in d = n - 1 dimensions, and the permutation is its own inverse with trace
    t = d - 2·pairs there: E C = t/d, E C² = (t² + 2d)/(d(d + 2)).
    """
    if n < 2:
        return Kept(1.0, 0.0, (1.0, 0.0, 0.0))
    d, moved = n - 1, 2 * pairs / n
    t = d - 2 * pairs
    return Kept(t / d, 2 * (d * d - t * t) / (d * d * (d + 2)), (1 - moved, 0.0, 0.0))


@lru_cache(maxsize=4096)
def rank_pairs(n: int, limit: int) -> Kept:
    """Return C for rank swapping of n normal values, none further than `limit` ranks, for large n.

    Partners are drawn as the mask draws them, with the chance that a rank is still free followed from rank to rank; ordered
    values have the means, variances and covariances of David and Johnson (1954). Within 1 % of E(1 - C) from about 50 records
    and ranks of the window on.
    """
    from scipy.special import ndtri

    from sfumato.kernels.rank_partners import partner_sums

    if n < 2 or limit < 1:
        return Kept(1.0, 0.0, (1.0, 0.0, 0.0))
    count, window = (
        (n, limit) if n % 2 == 0 else (n - 1, max(limit - 1, 1))
    )  # as the mask leaves one of an odd number out
    ranks = min(count, max(_RANKS, math.ceil(_WINDOW * count / window)))
    reach = window if ranks == count else max(round(window * ranks / count), 1)
    place = np.arange(1, ranks + 1)
    u, m = place / (ranks + 1), ndtri((place - 0.375) / (ranks + 0.25))
    slope = math.sqrt(2 * math.pi) * np.exp(m * m / 2)
    left, right = u * slope / (count + 2), (1 - u) * slope
    sums, gradient = partner_sums(m, left * right, left, right, reach)
    scale = count / ranks
    apart, pairing, second, third = sums * scale
    gone = apart / (n - 1)
    # how C moves with the sample (gradient of the sum over pairs, less that of S), and with the draw of partners
    h = (gradient - 2 * gone * m) * scale / (n - 1)
    a, b = h * left, h * right
    before = np.concatenate([[0.0], np.cumsum(a)[:-1]])
    variance = pairing / (n - 1) ** 2 + float((a * b).sum() + 2 * (before * b).sum())
    kept = 1 - gone
    hermite = (1 - (n - 1) * gone / n, second / n / math.sqrt(2), third / n / math.sqrt(6))
    return Kept(kept, float(min(variance, 2 * max(1 - kept**2, 0.0) / (n + 1))), hermite)
