"""Small loops that a map runs hundreds of thousands of times: one pass, no temporary arrays, no BLAS threads."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def _add_scaled(x, factor, unit, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = x[i] + factor * unit[i]


def add_scaled(x: Numbers, factor: float, unit: Numbers) -> Numbers:
    """Return x + factor · unit, shape (n,)."""
    out = np.empty(len(x))
    _add_scaled(x, factor, unit, out)
    return out


@numba.njit(cache=True, nogil=True)
def _regression_sums(x, y):  # type: ignore[no-untyped-def]
    count, total_x, total_y = 0, 0.0, 0.0
    for i in range(x.size):
        if not (np.isnan(x[i]) or np.isnan(y[i])):
            count += 1
            total_x += x[i]
            total_y += y[i]
    if count == 0:
        return 0, 0.0, 0.0
    mean_x, mean_y = total_x / count, total_y / count
    squares, products = 0.0, 0.0
    for i in range(x.size):
        if not (np.isnan(x[i]) or np.isnan(y[i])):
            a = x[i] - mean_x
            squares += a * a
            products += a * (y[i] - mean_y)
    return count, squares, products


def regression_sums(x: Numbers, y: Numbers) -> tuple[int, float, float]:
    """Return the number of complete pairs, Σ(x - x̄)² and Σ(x - x̄)(y - ȳ) over them."""
    count, squares, products = _regression_sums(x, y)
    return int(count), float(squares), float(products)


@numba.njit(cache=True, nogil=True)
def _mean_square(x, y):  # type: ignore[no-untyped-def]
    count, total = 0, 0.0
    for i in range(x.size):
        gap = y[i] - x[i]
        if not np.isnan(gap):
            count += 1
            total += gap * gap
    return total / count if count else np.nan


def mean_square_difference(x: Numbers, y: Numbers) -> float:
    """Return the mean of (y - x)² over complete pairs, NaN if there is none."""
    return float(_mean_square(x, y))
