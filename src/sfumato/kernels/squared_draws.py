"""Two draws from the same urn that come out the same: sums of squared multinomial or hypergeometric probabilities.

Σ over x with total q of Π c_i(x_i) is the coefficient of z^q in Π Σ_x c_i(x) z^x, with c_i(x) = (π_i^x / x!)² when the draws
are with replacement and C(n_i, x)² when they are not. The series are tilted, z = θ·u, with θ such that the sum of the
independent numbers which they then describe is q on average. Nothing overflows or underflows, however small the sum is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.log_choose import log_choose
from sfumato.kernels.series_products import Series, product_coefficient

Numbers = NDArray[np.float64]
_SMALL = 64
"""Urns with up to so many balls of a colour get their mean number drawn from the whole series."""


class Tilted(NamedTuple):
    """The series of the distinct cells, each with coefficients that sum to one, and what was divided out."""

    log_theta: float
    series: list[Series]
    log_norms: Numbers
    """Logarithm of what the coefficients of each series summed to, shape (distinct cells,)."""


def tilted(values: Numbers, counts: NDArray[np.int64], q: int, finite: bool) -> Tilted:
    """Return the series of the distinct values (proportions, or numbers of balls if `finite`), each taken `counts` times.

    `values` are positive, shape (distinct cells,); 0 < q, and q is below the number of balls if `finite`.
    """
    log_theta = 2.0 * _log_root(values, counts, q, finite)
    made = [_series(float(v), log_theta, q, finite) for v in values]
    return Tilted(log_theta, [s for s, _ in made], np.array([n for _, n in made]))


def log_sum_of_squares(values: Numbers, counts: NDArray[np.int64], q: int, finite: bool) -> float:
    """Return the logarithm of Σ_x Π c_i(x_i) over all x with total q.

    Both colours of two balls each, one ball drawn twice: 2² + 2² = 8.

    >>> round(math.exp(log_sum_of_squares(np.array([2.0]), np.array([2]), 1, finite=True)), 12)
    8.0
    """
    parts = tilted(values, counts, q, finite)
    top = product_coefficient(parts.series, counts.tolist(), q)
    return math.fsum([math.log(top), -q * parts.log_theta, *(counts * parts.log_norms)])


def _series(value: float, log_theta: float, q: int, finite: bool) -> tuple[Series, float]:
    from scipy.special import gammaln

    root = math.exp(log_theta / 2)
    centre = value * root / (1 + root) if finite else value * root
    reach = 30 + 10 * math.sqrt(centre)  # beyond it, coefficients are less than e⁻⁶⁰ of the largest
    low = max(0, math.floor(min(centre, q) - reach))
    high = math.ceil(min(q, value if finite else q, centre + reach))
    x = np.arange(low, high + 1, dtype=np.float64)
    once = log_choose(value, x) if finite else x * math.log(value) - gammaln(x + 1)
    log = 2 * once + x * log_theta
    largest = float(log.max())
    mass = np.exp(log - largest)
    total = float(mass.sum())
    return Series(low, mass / total), largest + math.log(total)


def _log_root(values: Numbers, counts: NDArray[np.int64], q: int, finite: bool) -> float:
    """Return log √θ at which the sum is about q on average; how nearly does not matter."""
    from scipy.optimize import brentq

    def excess(log_root: float) -> float:
        return float(counts @ _means(values, log_root, finite)) - q

    low = high = math.log(q / float(counts @ values))
    step = 1.0
    while excess(low) > 0:
        low, step = low - step, 2 * step
    step = 1.0
    while excess(high) < 0 and step < 1e6:
        high, step = high + step, 2 * step
    return float(brentq(excess, low, high, xtol=0.01 / math.sqrt(q))) if low < high else low


def _means(values: Numbers, log_root: float, finite: bool) -> Numbers:
    """Return about how many are drawn on average from each cell, under the tilted series."""
    from scipy.special import i0e, i1e

    root = math.exp(min(log_root, 350.0))
    if not finite:
        centre = values * root
        return np.asarray(centre * i1e(2 * centre) / i0e(2 * centre))
    rate = min(root, 1 / root) / (1 + min(root, 1 / root)) if root else 0.0
    centre = values * rate
    means = centre - centre * (1 - i1e(2 * centre) / i0e(2 * centre)) * (1 - 2 * rate)
    means = values - means if root > 1 else means  # drawing the many is leaving the few
    small = values <= _SMALL
    if small.any():
        n, x = values[small][:, None], np.arange(_SMALL + 1.0)
        log = np.where(x > n, -np.inf, 2 * (log_choose(n, np.minimum(x, n)) + x * log_root))
        mass = np.exp(log - log.max(axis=1, keepdims=True))
        means[small] = (mass @ x) / mass.sum(axis=1)
    return np.asarray(means, dtype=np.float64)
