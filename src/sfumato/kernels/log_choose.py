"""Logarithms of binomial coefficients, to full relative precision also where n is large and k is small."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
_SERIES_FROM = 16.0


def log_choose(n: ArrayLike, k: ArrayLike) -> Numbers:
    """Return log C(n, k) for whole 0 ≤ k ≤ n, with the shape of both together.

    The difference of three log-gammas would lose the digits in which they agree; here the leading terms of Stirling's
    formula are cancelled by hand.

    >>> np.exp(log_choose(10, [0, 1, 5])).round(9).tolist()
    [1.0, 10.0, 252.0]
    """
    everything, chosen = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64))
    inside = (chosen > 0) & (chosen < everything)
    out = np.zeros(everything.shape)
    total = everything[inside]
    few = np.minimum(chosen[inside], total - chosen[inside])
    rest = total - few
    entropy = few * np.log(total / few) - rest * np.log1p(-few / total)
    corrections = _stirling(total) - _stirling(few) - _stirling(rest)
    out[inside] = entropy + 0.5 * np.log(total / (2 * np.pi * few * rest)) + corrections
    return out


def _stirling(m: Numbers) -> Numbers:
    """Return log m! − [(m + ½) log m − m + ½ log 2π]."""
    from scipy.special import gammaln

    small = np.minimum(m, _SERIES_FROM)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    w = 1 / (m * m)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / m
    return np.asarray(np.where(m < _SERIES_FROM, exact, series), dtype=np.float64)
