"""Maximum likelihood with two parameters, and the likelihood interval of a share that they imply."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Numbers = NDArray[np.float64]
Z = 1.959963984540054
"""Normal quantile of a 95 % interval; Z²/2 is how far the log-likelihood may fall."""
EDGE = 15.0
"""Parameters are transformed to the line; beyond ±15 a model equals its limit (e⁻¹⁵ is 3·10⁻⁷)."""


@dataclass(frozen=True)
class Fit:
    """The maximum of a likelihood, and what a share is in the region where the likelihood is not much lower."""

    x: Numbers
    share: float
    interval: tuple[float, float]


def fit(log_likelihood: Callable[[Numbers], float], share: Callable[[Numbers], float], start: Numbers) -> Fit | None:
    """Maximise a log-likelihood of two transformed parameters; None where there is no proper maximum.

    The interval is the range of `share` over the parameters whose log-likelihood is within Z²/2 of the largest: it needs no
    curvature, so it holds where the maximum is at the edge of the model too.
    The region is searched slice by slice of the first parameter.
    """
    from scipy.optimize import minimize

    def loss(x: Numbers) -> float:
        value = -log_likelihood(np.clip(x, -EDGE, EDGE))
        return value if math.isfinite(value) else 1e300

    tries = [
        minimize(loss, s, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-8, "maxiter": 2000, "maxfev": 2000})
        for s in (start, start + np.array([-3.0, 1.0]))
    ]
    best = min(tries, key=lambda found: float(found.fun))
    settled = any(
        found.success and found.fun < best.fun + 1e-4 for found in tries
    )  # at the edge rounding may keep one going
    x = np.clip(np.asarray(best.x, np.float64), -EDGE, EDGE)
    value = share(x)
    if not settled or not math.isfinite(value) or not 0 < value <= 1:
        return None
    return Fit(x, value, _region(loss, share, x))


def _region(loss: Callable[[Numbers], float], share: Callable[[Numbers], float], x: Numbers) -> tuple[float, float]:
    """Return the smallest and largest share where the loss is within Z²/2 of its minimum at x."""
    from scipy.optimize import minimize_scalar

    limit = loss(x) + Z**2 / 2
    found = [share(x)]

    def slice_at(first: float, second: float) -> float | None:
        """Note the shares at both ends of the region where the first parameter is `first`; return the best second one there."""
        best = minimize_scalar(lambda v: loss(np.array([first, v])), bracket=(second - 0.1, second + 0.1), tol=1e-4)
        if not best.fun <= limit:
            return None
        for way in (1.0, -1.0):
            far = float(best.x) + way * _reach(loss, np.array([first, float(best.x)]), np.array([0.0, way]), limit)
            found.append(share(np.clip([first, far], -EDGE, EDGE)))
        return float(best.x)

    for way in (1.0, -1.0):
        first, second, step = float(x[0]), float(x[1]), 0.1
        slice_at(first, second)
        while step > 1e-3 and abs(first) < EDGE:
            ahead = float(np.clip(first + way * step, -EDGE, EDGE))
            at = slice_at(ahead, second)
            first, second, step = (first, second, step / 3) if at is None else (ahead, at, step * 1.4)
    return min(found), max(found)


def _reach(loss: Callable[[Numbers], float], x: Numbers, way: Numbers, limit: float) -> float:
    """Return how far one may go from x before the loss exceeds the limit, or the edge is passed."""
    near, far = 0.0, 1e-3
    while far < 2 * EDGE and loss(x + far * way) <= limit:
        near, far = far, 2 * far
    while far - near > 1e-2 * far:
        middle = (near + far) / 2
        near, far = (middle, far) if loss(x + middle * way) <= limit else (near, middle)
    return near


def with_error(share: float, interval: tuple[float, float], variance: float) -> tuple[float, float]:
    """Return the interval of a share widened for what varies besides, on the scale of the logit."""
    if not 0 < share < 1:
        return interval
    scale = share * (1 - share)
    middle, extra = float(logit(share)), (Z * math.sqrt(variance) / scale) ** 2
    low, high = (float(logit(min(max(end, 1e-300), 1 - 1e-16))) - middle for end in interval)
    return float(expit(middle - math.sqrt(low**2 + extra))), float(expit(middle + math.sqrt(high**2 + extra)))
