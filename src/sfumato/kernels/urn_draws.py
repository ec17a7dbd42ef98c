"""Draws from an urn: binomial coefficients, products of power series, equal draws, and the largest difference of two draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.lazy import optimize, special
from sfumato.typing import Numbers, Whole

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
    small = np.minimum(m, _SERIES_FROM)
    exact = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    w = 1 / (m * m)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / m
    return np.asarray(np.where(m < _SERIES_FROM, exact, series), dtype=np.float64)


# --- Products of power series with non-negative coefficients, kept as stretches around where their mass is.
#
# A series is tilted so that its coefficients sum to one; the coefficients of a product are then the probabilities of a sum of
# independent whole numbers. A coefficient smaller than `NEGLIGIBLE` can add no more than itself to any coefficient of a later
# product, so that it may be cut off where the coefficient wanted is near the middle of the sum.


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


Factor = TypeVar("Factor")


def _power(a: Factor, exponent: int, one: Factor, product: Callable[[Factor, Factor], Factor]) -> Factor:
    """Return a factor multiplied with itself, by repeated squaring."""
    result = one
    while exponent:
        if exponent & 1:
            result = product(result, a)
        exponent >>= 1
        if exponent:
            a = product(a, a)
    return result


def _all_but_one(
    factors: Sequence[Factor], counts: Sequence[int], one: Factor, product: Callable[[Factor, Factor], Factor]
) -> Iterator[tuple[int, Factor]]:
    """Yield, for each factor, the last first, the product of all (each taken `counts` times) but one copy of it."""
    powers = [_power(factor, count, one, product) for factor, count in zip(factors, counts, strict=True)]
    before = [one]
    for factor in powers[:-1]:
        before.append(product(before[-1], factor))
    after = one
    for i in range(len(powers) - 1, -1, -1):
        yield i, product(product(before[i], after), _power(factors[i], counts[i] - 1, one, product))
        after = product(powers[i], after)


def power(a: Series, exponent: int, top: int) -> Series:
    """Return a series multiplied with itself."""
    return _power(a, exponent, ONE if a.marked is None else MARKED_ONE, lambda b, c: times(b, c, top))


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
    return [rest for _, rest in _all_but_one(series, counts, one, lambda b, c: times(b, c, top))][::-1]


# --- Two draws from the same urn that come out the same: sums of squared multinomial or hypergeometric probabilities.
#
# Σ over x with total q of Π c_i(x_i) is the coefficient of z^q in Π Σ_x c_i(x) z^x, with c_i(x) = (π_i^x / x!)² when the draws
# are with replacement and C(n_i, x)² when they are not. The series are tilted, z = θ·u, with θ such that the sum of the
# independent numbers which they then describe is q on average. Nothing overflows or underflows, however small the sum is.


_SMALL = 64
"""Urns with at most this many balls of a colour get their mean number drawn from the whole series."""


class Tilted(NamedTuple):
    """The series of the distinct cells, each with coefficients that sum to one, and what was divided out."""

    log_theta: float
    series: list[Series]
    log_norms: Numbers
    """Logarithm of what the coefficients of each series summed to, shape (distinct cells,)."""


def tilted(values: Numbers, counts: Whole, q: int, finite: bool) -> Tilted:
    """Return the series of the distinct values (proportions, or numbers of balls if `finite`), each taken `counts` times.

    `values` are positive, shape (distinct cells,); 0 < q, and q is below the number of balls if `finite`.
    """
    log_theta = 2.0 * _log_root(values, counts, q, finite)
    made = [_series(float(v), log_theta, q, finite) for v in values]
    return Tilted(log_theta, [s for s, _ in made], np.array([n for _, n in made]))


def log_sum_of_squares(values: Numbers, counts: Whole, q: int, finite: bool) -> float:
    """Return the logarithm of Σ_x Π c_i(x_i) over all x with total q.

    Both colours of two balls each, one ball drawn twice: 2² + 2² = 8.

    >>> round(math.exp(log_sum_of_squares(np.array([2.0]), np.array([2]), 1, finite=True)), 12)
    8.0
    """
    parts = tilted(values, counts, q, finite)
    top = product_coefficient(parts.series, counts.tolist(), q)
    return math.fsum([math.log(top), -q * parts.log_theta, *(counts * parts.log_norms)])


def _series(value: float, log_theta: float, q: int, finite: bool) -> tuple[Series, float]:
    root = math.exp(log_theta / 2)
    centre = value * root / (1 + root) if finite else value * root
    reach = 30 + 10 * math.sqrt(centre)  # beyond it, coefficients are less than e⁻⁶⁰ of the largest
    low = max(0, math.floor(min(centre, q) - reach))
    high = math.ceil(min(q, value if finite else q, centre + reach))
    x = np.arange(low, high + 1, dtype=np.float64)
    once = log_choose(value, x) if finite else x * math.log(value) - special.gammaln(x + 1)
    log = 2 * once + x * log_theta
    largest = float(log.max())
    mass = np.exp(log - largest)
    total = float(mass.sum())
    return Series(low, mass / total), largest + math.log(total)


def _log_root(values: Numbers, counts: Whole, q: int, finite: bool) -> float:
    """Return log √θ at which the sum is about q on average; how nearly does not matter."""

    def excess(log_root: float) -> float:
        return float(counts @ _means(values, log_root, finite)) - q

    low = high = math.log(q / float(counts @ values))
    step = 1.0
    while excess(low) > 0:
        low, step = low - step, 2 * step
    step = 1.0
    while excess(high) < 0 and step < 1e6:
        high, step = high + step, 2 * step
    return float(optimize.brentq(excess, low, high, xtol=0.01 / math.sqrt(q))) if low < high else low


def _means(values: Numbers, log_root: float, finite: bool) -> Numbers:
    """Return about how many are drawn on average from each cell, under the tilted series."""
    root = math.exp(min(log_root, 350.0))
    if not finite:
        centre = values * root
        return np.asarray(centre * special.i1e(2 * centre) / special.i0e(2 * centre))
    rate = min(root, 1 / root) / (1 + min(root, 1 / root)) if root else 0.0
    centre = values * rate
    means = centre - centre * (1 - special.i1e(2 * centre) / special.i0e(2 * centre)) * (1 - 2 * rate)
    means = values - means if root > 1 else means  # drawing the many is leaving the few
    small = values <= _SMALL
    if small.any():
        n, x = values[small][:, None], np.arange(_SMALL + 1.0)
        log = np.where(x > n, -np.inf, 2 * (log_choose(n, np.minimum(x, n)) + x * log_root))
        mass = np.exp(log - log.max(axis=1, keepdims=True))
        means[small] = (mass @ x) / mass.sum(axis=1)
    return np.asarray(means, dtype=np.float64)


# --- The chance that a lifted cell has the largest difference of two independent draws of q from the same urn, ties split evenly.
#
# Drawn are x and y, each with total q; the difference of cell s is y_s − x_s + lift, that of any other cell y_i − x_i. Numbers
# drawn with a given total are independent Poisson or binomial numbers, given their sum; so the chance is a coefficient of a
# product over cells, read off by a two-dimensional Fourier sum. It is wanted for each value v of the winning difference, with
# all other cells below v or level with it; 1/(1 + number of cells level) is ∫₀¹ u^(number level) du, a Gauss sum without error.


Complex = NDArray[np.complex128]


def work(distinct: int, cells: int, q: int, lift: int) -> float:
    """Return about how many complex multiplications `largest_chances` makes."""
    nodes = sum((level + 2) // 2 for _, level in _levels(cells, q, lift))
    return float(_grid(q)) ** 2 * distinct * nodes * 4


def largest_chances(values: Numbers, counts: Whole, q: int, lift: int = 1, finite: bool = False) -> Numbers:
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
            for i, rest in _all_but_one(factors, counts.tolist(), np.ones_like(factors[0]), np.multiply):
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
    x = np.arange(size, dtype=np.float64)
    n = values[:, None]
    if not finite:
        return np.asarray(np.exp(special.xlogy(x, q * n) - q * n - special.gammaln(x + 1)))
    rate, taken = q / total, np.minimum(x, n)
    log = log_choose(n, taken) + special.xlogy(taken, rate) + special.xlog1py(n - taken, -rate)
    return np.where(x > n, 0.0, np.exp(log))


def _whole(q: int, total: int, finite: bool) -> float:
    """Return the chance that all cells together give q."""
    return float(_masses(np.array([float(total)]), q, total, q + 1, finite)[0, q])


def guess_scores(difference: Whole, weights: Numbers, means: Numbers, lift: int) -> Numbers:
    """Return log weight + log P(d − lift) − log P(d) for each cell, shape of `difference`: (tables, cells).

    `weights` are the chances before any table was seen, `means` the expected numbers drawn from each cell. Differences are
    taken as independent differences of Poisson numbers (Skellam), P(d) ∝ I_|d|(2·mean), so that only the ratio matters.
    """
    reach = int(np.abs(difference).max(initial=0)) + lift
    rates, place = np.unique(means, return_inverse=True)
    logs = _log_bessel(np.arange(reach + 1.0)[None, :], 2 * rates[:, None])
    d = np.arange(-reach + lift, reach - lift + 1)
    ratio = logs[:, np.abs(d - lift)] - logs[:, np.abs(d)]
    chosen = ratio[place[None, :], difference + reach - lift]
    return np.asarray(np.log(weights)[None, :] + chosen)


def _log_bessel(order: Numbers, x: Numbers) -> Numbers:
    """Return log I_order(x) − x; where it underflows, its leading term, log (x/2)^order / order!."""
    x = np.maximum(x, 1e-300)  # nothing drawn: every difference but 0 is as good as impossible
    with np.errstate(divide="ignore"):
        value = np.log(special.ive(order, x))
        leading = order * np.log(x / 2) - special.gammaln(order + 1) - x
    return np.where(np.isfinite(value), value, leading)
