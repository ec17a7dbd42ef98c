"""The chance that a lifted cell has the largest difference of two independent draws of q from the same urn, ties split evenly.

Drawn are x and y, each with total q; the difference of cell s is y_s − x_s + lift, that of any other cell y_i − x_i. Numbers
drawn with a given total are independent Poisson or binomial numbers, given their sum; so the chance is a coefficient of a
product over cells, read off by a two-dimensional Fourier sum. It is wanted for each value v of the winning difference, with
all other cells below v or level with it; 1/(1 + number of cells level) is ∫₀¹ u^(number level) du, a Gauss sum without error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.log_choose import log_choose

Numbers = NDArray[np.float64]
Complex = NDArray[np.complex128]


def work(distinct: int, cells: int, q: int, lift: int) -> float:
    """Return about how many complex multiplications `largest_chances` makes."""
    nodes = sum((level + 2) // 2 for _, level in _levels(cells, q, lift))
    return float(_grid(q)) ** 2 * distinct * nodes * 4


def largest_chances(values: Numbers, counts: NDArray[np.int64], q: int, lift: int = 1, finite: bool = False) -> Numbers:
    """Return the chance for each distinct value (proportions, or numbers of balls if `finite`) when a cell of it is lifted.

    `counts` cells have each value. If `finite`, y is drawn without a ball of the lifted cell, and x with it.
    """
    size = _grid(q)
    total = int(counts @ values) if finite else 1
    x_mass = _masses(values, q, total, size, finite)  # (distinct, size)
    y_mass = _masses(values, q, total - 1, size, finite) if finite else x_mass
    own_mass = _masses(values - 1, q, total - 1, size, finite) if finite else x_mass
    given = _whole(q, total, finite) * _whole(q, total - 1 if finite else total, finite)
    clock = np.exp(-2j * np.pi * np.arange(size) / size)
    rows = np.arange(size)
    both = (rows[:, None] + rows[None, :]) % size
    # the coefficient of (q, q) is the mean over the grid of the transform times this
    reader = np.conj(clock[(q * both) % size]) / size**2

    def level_with(left: Numbers, right: Numbers, v: int) -> Complex:
        """Transform of the chance of x and y = x + v, over the grid of both frequencies."""
        pairs = np.zeros(size)
        x = np.arange(max(0, -v), size - max(0, v))
        pairs[x] = left[x] * right[x + v]
        return np.asarray(np.fft.fft(pairs)[both] * clock[(rows * v) % size][None, :])

    apart = rows[None, :] - rows[:, None]  # y − x
    levels = _levels(int(counts.sum()), q, lift)
    below = [np.fft.fft2(np.outer(x, y) * (apart < levels[0][0])) for x, y in zip(x_mass, y_mass, strict=True)]
    chances = np.zeros(values.size)
    for v, most in levels:
        level = [level_with(x, y, v) for x, y in zip(x_mass, y_mass, strict=True)]
        own = [level_with(x, y, v - lift) * reader for x, y in zip(x_mass, own_mass, strict=True)]
        for u, weight in _gauss(most):
            factors = [b + u * e for b, e in zip(below, level, strict=True)]
            for i, rest in _all_but_one(factors, counts):
                chances[i] += weight * float(np.real(np.vdot(np.conj(rest), own[i])))
        below = [b + e for b, e in zip(below, level, strict=True)]
    return np.clip(chances / given, 0.0, 1.0)


def _grid(q: int) -> int:
    """Return how many frequencies keep sums that differ by as many apart, but for a chance of less than e⁻⁶⁰."""
    return max(q + 1, math.ceil(30 + 12 * math.sqrt(q)))


def _levels(cells: int, q: int, lift: int) -> list[tuple[int, int]]:
    """Return each difference that can be the largest, with the most other cells that can be level with it.

    The differences sum to `lift` and those above 0 to at most q + lift.
    """
    return [(v, min(cells - 1, (q + lift) // v - 1)) for v in range(1, q + lift + 1)]


def _gauss(degree: int) -> Iterator[tuple[float, float]]:
    """Yield nodes and weights on (0, 1) that integrate polynomials up to a degree without error."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, (degree + 2) // 2))
    yield from zip((nodes + 1) / 2, weights / 2, strict=True)


def _masses(values: Numbers, q: int, total: int, size: int, finite: bool) -> Numbers:
    """Return Poisson or binomial chances of 0, 1, ..., in rows, with means that sum to q."""
    from scipy.special import gammaln, xlog1py, xlogy

    x = np.arange(size, dtype=np.float64)
    n = values[:, None]
    if not finite:
        return np.asarray(np.exp(xlogy(x, q * n) - q * n - gammaln(x + 1)))
    rate, taken = q / total, np.minimum(x, n)
    log = log_choose(n, taken) + xlogy(taken, rate) + xlog1py(n - taken, -rate)
    return np.where(x > n, 0.0, np.exp(log))


def _whole(q: int, total: int, finite: bool) -> float:
    """Return the chance that all cells together give q."""
    return float(_masses(np.array([float(total)]), q, total, q + 1, finite)[0, q])


def _all_but_one(factors: list[Complex], counts: NDArray[np.int64]) -> Iterator[tuple[int, Complex]]:
    """Yield, for each factor, the product of all (each taken `counts` times) but one copy of it."""
    powers = [_power(f, int(c)) for f, c in zip(factors, counts, strict=True)]
    before: list[Complex] = [np.ones_like(factors[0])]
    for p in powers[:-1]:
        before.append(before[-1] * p)
    after = np.ones_like(factors[0])
    for i in range(len(factors) - 1, -1, -1):
        yield i, before[i] * after * _power(factors[i], int(counts[i]) - 1)
        after = after * powers[i]


def _power(a: Complex, exponent: int) -> Complex:
    result = np.ones_like(a)
    while exponent:
        if exponent & 1:
            result = result * a
        exponent >>= 1
        a = a * a if exponent else a
    return result
