"""How far two distribution functions of weighted numbers are apart, in one pass over both."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Gaps(NamedTuple):
    """What lies between two distribution functions F and G."""

    largest: float
    """The largest |F(x) - G(x)|."""
    area: float
    """The integral of |F - G|."""
    square: float
    """The integral of (F - G)²."""


@numba.njit(cache=True, nogil=True)
def _gaps(x, f, y, g):  # type: ignore[no-untyped-def]
    n, m = len(x), len(y)
    largest, area, square = 0.0, 0.0, 0.0
    i, j, here_f, here_g, last = 0, 0, 0.0, 0.0, 0.0
    while i < n or j < m:
        now = x[i] if j == m or (i < n and x[i] <= y[j]) else y[j]
        between = abs(here_f - here_g)
        if between > 0.0:
            area += between * (now - last)
            square += between * between * (now - last)
        while i < n and x[i] == now:
            here_f = f[i]
            i += 1
        while j < m and y[j] == now:
            here_g = g[j]
            j += 1
        largest = max(largest, abs(here_f - here_g))
        last = now
    return largest, area, square


def ecdf_gaps(x: Numbers, f: Numbers, y: Numbers, g: Numbers) -> Gaps:
    """Return how far F and G are apart; `x`, shape (n,), rises, and ``f[i]`` is the share at or below ``x[i]``; so `y` and `g`.

    >>> ecdf_gaps(np.array([0.0, 2.0]), np.array([0.5, 1.0]), np.array([1.0]), np.array([1.0]))
    Gaps(largest=0.5, area=1.0, square=0.5)
    """
    return Gaps(*_gaps(x, f, y, g))
