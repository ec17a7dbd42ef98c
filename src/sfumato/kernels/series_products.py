"""Products of power series with non-negative coefficients, kept as stretches around where their mass is.

A series is tilted so that its coefficients sum to one; the coefficients of a product are then the probabilities of a sum of
independent whole numbers. A coefficient smaller than `NEGLIGIBLE` can add no more than itself to any coefficient of a later
product, so that it may be cut off where the coefficient wanted is near the middle of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
NEGLIGIBLE = 1e-40
_LONG = 1000


class Series(NamedTuple):
    """Coefficients of zˢ, zˢ⁺¹, ... with s = `start`; and, where one is kept, the first-order term of a marker ε.

    ``plain + ε·marked`` is a polynomial in z and ε in which ε² counts as nothing: `marked` of a product is the sum over its
    factors of the product in which that one factor is replaced by its own marked part. Both have shape (length,).
    """

    start: int
    plain: Numbers
    marked: Numbers | None = None

    def marks(self) -> Series:
        """Return the marked part, as a series of its own."""
        return Series(self.start, np.zeros_like(self.plain) if self.marked is None else self.marked)


ONE = Series(0, np.ones(1))
MARKED_ONE = Series(0, np.ones(1), np.zeros(1))


def times(a: Series, b: Series, top: int) -> Series:
    """Return the product, without the powers of z above `top`; the marked part is kept where both have one."""
    plain = _convolve(a.plain, b.plain)
    marked = None
    if a.marked is not None and b.marked is not None:
        marked = _convolve(a.plain, b.marked) + _convolve(a.marked, b.plain)
    start = a.start + b.start
    length = min(plain.size, max(top - start + 1, 0))
    kept = plain[:length] > NEGLIGIBLE
    if marked is not None:
        kept |= marked[:length] > NEGLIGIBLE
    first, last = (int(np.argmax(kept)), length - int(np.argmax(kept[::-1]))) if kept.any() else (0, 1)
    return Series(start + first, plain[first:last], None if marked is None else marked[first:last])


def _convolve(a: Numbers, b: Numbers) -> Numbers:
    """Return the product of two polynomials; long ones by Fourier transform, to 1e-16 of the largest coefficient."""
    if min(a.size, b.size) < _LONG:
        return np.convolve(a, b)
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(a, b), 0.0)


def power(a: Series, exponent: int, top: int) -> Series:
    """Return a series multiplied with itself, by repeated squaring."""
    result = ONE if a.marked is None else MARKED_ONE
    square = a
    while exponent:
        if exponent & 1:
            result = times(result, square, top)
        exponent >>= 1
        if exponent:
            square = times(square, square, top)
    return result


def coefficient(a: Series, b: Series, degree: int) -> float:
    """Return one coefficient of the plain product, without forming the others.

    >>> coefficient(Series(0, np.array([1.0, 1.0])), Series(0, np.array([1.0, 2.0])), 1)
    3.0
    """
    low = max(a.start, degree - (b.start + b.plain.size - 1))
    high = min(a.start + a.plain.size - 1, degree - b.start)
    if low > high:
        return 0.0
    left = a.plain[low - a.start : high - a.start + 1]
    right = b.plain[degree - high - b.start : degree - low - b.start + 1]
    return float(left @ right[::-1])


def product_coefficient(series: Sequence[Series], counts: Sequence[int], degree: int) -> float:
    """Return the coefficient of one power of z in the product of all series, each taken `counts` times."""
    result = ONE
    for factor, count in zip(series[:-1], counts[:-1], strict=True):
        result = times(result, power(factor, count, degree), degree)
    half = counts[-1] // 2
    result = times(result, power(series[-1], half, degree), degree)
    return coefficient(result, power(series[-1], counts[-1] - half, degree), degree)


def all_but_one(series: Sequence[Series], counts: Sequence[int], top: int) -> list[Series]:
    """Return, for each series, the product of all (each taken `counts` times) but one copy of this one."""
    one = ONE if series[0].marked is None else MARKED_ONE
    powers = [power(s, c, top) for s, c in zip(series, counts, strict=True)]
    before = [one]
    for factor in powers[:-1]:
        before.append(times(before[-1], factor, top))
    result = []
    after = one
    for i in range(len(powers) - 1, -1, -1):
        others = times(before[i], after, top)
        result.append(times(others, power(series[i], counts[i] - 1, top), top))
        after = times(powers[i], after, top)
    return result[::-1]
