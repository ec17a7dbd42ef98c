"""Standard errors of quantiles: the share that lies below is uncertain, and the quantile moves with it (Woodruff 1952)."""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.mas.distribution import Spread, rising

_Z = 1.959963984540054


def quantile_error(value_at: Callable[[float], float], p: float, error: float) -> float:
    """Return the standard error of the quantile at p, where the share below it has a standard error; NaN where none is known.

    It is the length of the interval between the quantiles at p ± 1.96 errors, divided by as many errors; where one end is not
    known, the half of it.

    >>> quantile_error(lambda share: 100 * share, 0.5, 0.02)
    2.0
    """
    found = [(sign, value_at(p + sign * _Z * error)) for sign in (-1, 0, 1) if 0 < p + sign * _Z * error < 1]
    known = [(sign, value) for sign, value in found if not math.isnan(value)]
    if len(known) < 2:
        return math.nan
    (first, low), (last, high) = known[0], known[-1]
    return (high - low) / ((last - first) * _Z)


def share_error(spread: Spread, p: float, effect: float, noise: float) -> float:
    """Return the standard error of the share below a quantile that is read off noisy bins.

    Of n records drawn one by one the share has variance p (1 − p) / n, times the effect of weights and drops. With noise of
    one standard deviation on each of B bins, k of them below, it has (1 − p)² k + p² (B − k) times its square over the total's.
    """
    n, weights = max(float(spread.counts.sum()), 1.0), rising(spread.weights)
    below = int((weights < p * weights[-1]).sum()) + 1
    added = (1 - p) ** 2 * below + p**2 * (len(weights) - below)
    return math.sqrt(effect * p * (1 - p) / n + added * (noise / max(float(weights[-1]), 1.0)) ** 2)
