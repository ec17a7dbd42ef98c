"""The arithmetic behind drop q: series, logarithms of binomial coefficients, largest differences, informed guesses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from drop_q_twin import compositions
from numpy.testing import assert_allclose

from sfumato import Draws
from sfumato.kernels.urn_draws import (
    Series,
    all_but_one,
    coefficient,
    guess_scores,
    largest_chances,
    log_choose,
    log_sum_of_squares,
    power,
    product_coefficient,
    tilted,
    times,
)

SEED = Draws(21)


@pytest.mark.parametrize(
    ("n", "k"),
    [(0, 0), (1, 1), (7, 3), (15, 8), (16, 8), (17, 1), (33, 16), (5000, 2500), (10**6, 40), (10**6, 999_960)],
)
def test_logarithms_of_binomial_coefficients_have_all_their_digits(n: int, k: int) -> None:
    assert_allclose(float(log_choose(n, k)), math.log(math.comb(n, k)), rtol=4e-15, atol=4e-15)


def test_a_large_number_does_not_cost_digits() -> None:
    """C(n, 2) = n (n − 1)/2; log-gammas of 2^50 would leave no digit after the point."""
    n = 2**50
    assert_allclose(float(log_choose(n, 2)), math.log(n) + math.log(n - 1) - math.log(2), rtol=1e-15)


def random_series(name: str, length: int, start: int = 0, marked: bool = False) -> Series:
    g = SEED.generator(name)
    parts = g.random(length) / length
    return Series(start, parts, g.random(length) / length if marked else None)


@pytest.mark.parametrize("length", [1, 5, 1500], ids=["one", "short", "long, by Fourier transform"])
def test_a_product_of_series_is_that_of_polynomials(length: int) -> None:
    a, b = random_series("a", length, 2, marked=True), random_series("b", length + 3, 1, marked=True)
    assert a.marked is not None
    assert b.marked is not None
    result = times(a, b, 10**6)
    assert result.start == 3
    assert_allclose(result.plain, np.polymul(a.plain[::-1], b.plain[::-1])[::-1], rtol=1e-9)
    expected = np.convolve(a.plain, b.marked) + np.convolve(a.marked, b.plain)
    assert_allclose(result.marks().plain, expected, rtol=1e-9)
    for degree in (3, 3 + length // 2, 2 * length + 5, 2, 10**5):
        place = degree - 3
        whole = result.plain[place] if 0 <= place < result.plain.size else 0.0
        assert_allclose(coefficient(a, b, degree), whole, rtol=1e-9)


def test_powers_above_the_top_and_negligible_ends_are_cut_off() -> None:
    a = Series(0, np.array([1e-60, 0.5, 0.5, 1e-60]))
    result = times(a, a, 3)
    assert result.start == 2
    assert_allclose(result.plain, [0.25, 0.5])
    assert power(a, 0, 5).plain.tolist() == [1.0]
    assert a.marks().plain.tolist() == [0.0] * 4


def test_all_but_one_leaves_out_one_copy_of_each_series() -> None:
    series = [random_series(f"s{i}", 3, marked=True) for i in range(3)]
    counts = [2, 1, 3]
    copies = [i for i, c in enumerate(counts) for _ in range(c)]
    for i, rest in enumerate(all_but_one(series, counts, 100)):
        kept = copies.copy()
        kept.remove(i)
        expected = Series(0, np.ones(1), np.zeros(1))
        for j in kept:
            expected = times(expected, series[j], 100)
        assert_allclose(rest.plain, expected.plain, rtol=1e-12)
        assert_allclose(rest.marks().plain, expected.marks().plain, rtol=1e-12)
    whole = Series(0, np.ones(1))
    for j in copies:
        whole = times(whole, series[j]._replace(marked=None), 100)
    plain = [s._replace(marked=None) for s in series]
    assert_allclose(product_coefficient(plain, counts, 7), whole.plain[7 - whole.start], rtol=1e-12)


@pytest.mark.parametrize("q", [1, 3, 5])
def test_squared_draws_without_replacement_are_the_sum_over_all_compositions(q: int) -> None:
    values, counts = np.array([1.0, 2.0, 5.0]), np.array([2, 1, 1])
    balls = [1, 1, 2, 5]
    expected = sum(math.prod(math.comb(n, k) ** 2 for n, k in zip(balls, x, strict=True)) for x in compositions(q, 4))
    assert_allclose(math.exp(log_sum_of_squares(values, counts, q, finite=True)), expected, rtol=1e-12)


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("q", [1, 40, 1990])
def test_the_coefficient_wanted_is_in_the_middle_of_the_tilted_product(finite: bool, q: int) -> None:
    g = SEED.child(q).generator("middle")
    values = np.unique(g.integers(1, 120, 30)).astype(float)
    counts = g.integers(1, 4, values.size)
    total = float(counts @ values)
    q = min(q, int(total) - 1)
    parts = tilted(values if finite else values / total, counts, q, finite)
    mean = sum(
        c * float((s.start + np.arange(s.plain.size)) @ s.plain) for s, c in zip(parts.series, counts, strict=True)
    )
    assert abs(mean - q) < 0.05 + 0.5 * math.sqrt(q)
    assert all(s.plain.sum() == pytest.approx(1) for s in parts.series)


@pytest.mark.parametrize(("q", "lift"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_the_chance_of_the_largest_difference_is_the_sum_over_all_pairs_of_draws(q: int, lift: int) -> None:
    """Multinomial, in fractions, with ties split evenly."""
    proportions = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 10), Fraction(1, 10)]
    chance = {
        x: Fraction(math.factorial(q), math.prod(map(math.factorial, x)))
        * math.prod(p**k for p, k in zip(proportions, x, strict=True))
        for x in compositions(q, 4)
    }
    expected = []
    for lifted in (3, 1, 0):  # one cell of each distinct proportion, from the smallest
        total = Fraction(0)
        for x, y in product(chance, repeat=2):
            d = [b - a + lift * (i == lifted) for i, (a, b) in enumerate(zip(x, y, strict=True))]
            if d[lifted] == max(d):
                total += chance[x] * chance[y] / d.count(max(d))
        expected.append(float(total))
    found = largest_chances(np.array([0.1, 0.3, 0.5]), np.array([2, 1, 1]), q, lift)
    assert_allclose(found, expected, rtol=1e-10)


def test_the_informed_guess_weighs_what_is_seen_against_what_is_common() -> None:
    """Poisson numbers with means 2 and 5 written out: P(y − x = d) = Σ_x p(x) p(x + d)."""

    def skellam(d: int, mean: float) -> float:
        p = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(80)]
        return sum(p[x] * p[x + d] for x in range(max(0, -d), 80 - max(0, d)))

    weights, means = np.array([0.3, 0.7]), np.array([2.0, 5.0])
    seen = np.array([[1, 0], [-3, 4], [7, -6]])
    for lift in (1, 3):
        expected = np.array(
            [[skellam(d - lift, m) / skellam(d, m) for d, m in zip(row, means, strict=True)] for row in seen.tolist()]
        )
        assert_allclose(guess_scores(seen, weights, means, lift), np.log(weights * expected), rtol=1e-9)


def test_an_unlikely_difference_has_a_finite_score() -> None:
    scores = guess_scores(np.array([[400, -399]]), np.array([0.5, 0.5]), np.array([1e-3, 1e-3]), 1)
    assert np.isfinite(scores).all()
    assert scores[0, 0] > scores[0, 1]
