"""How far rank partners lie apart: moments of normal values whose ranks are paired within a window."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def _sums(m, v, left, right, limit, gradient):  # type: ignore[no-untyped-def]
    n = m.size
    free = np.ones(n)
    apart = pairing = second = third = 0.0
    for k in range(n - 1):
        end = min(k + limit + 1, n)
        total = 0.0
        for s in range(k + 1, end):
            total += free[s]
        if total <= 0.0:
            continue
        chance, keep = free[k], max(1.0 - free[k] / total, 0.0)
        one = two = 0.0
        for s in range(k + 1, end):
            q = free[s] / total
            d = m[k] - m[s]
            spread = max(v[k] + v[s] - 2.0 * left[k] * right[s], 0.0)
            apart += chance * q * (d * d + spread)
            one += q * d * d
            two += q * d * d * d * d
            gradient[k] += 2.0 * chance * q * d
            gradient[s] -= 2.0 * chance * q * d
            # E[X' He_j(X)] over both ends of the pair
            second += chance * q * (m[s] * (m[k] * m[k] - 1.0) + m[k] * (m[s] * m[s] - 1.0))
            third += chance * q * m[k] * m[s] * (m[k] * m[k] + m[s] * m[s] - 6.0)
            free[s] *= keep
        pairing += chance * (two - one * one)
    return apart, pairing, second, third


def partner_sums(m: Numbers, v: Numbers, left: Numbers, right: Numbers, limit: int) -> tuple[Numbers, Numbers]:
    """Return sums over pairs of ranks, and the gradient of the sum of squared distances by rank.

    Going up, each rank that is still free draws a partner with equal chances from the free ones at most `limit` above it. The
    chance that a rank is still free is followed from rank to rank, as if ranks were independent. `m` and `v` are means and
    variances of the ordered values, the covariance of r < s is left[r]·right[s]. The sums are of E(x - x')², of the
    variance of (m - m')² given the lower rank, of x'(x² - 1), and of x'(x³ - 3x).
    """
    gradient = np.zeros(len(m))
    sums = _sums(m, v, left, right, limit, gradient)
    return np.array(sums), gradient
