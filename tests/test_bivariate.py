"""The bivariate illustration against a fine grid over the projective line, and at its edges."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.papers import best_bivariate
from sfumato.papers.release_region import BivariateMask

Numbers = NDArray[np.float64]
ANGLES = np.linspace(0, np.pi, 40_001)
A, B = np.cos(ANGLES), np.sin(ANGLES)


def from_matrices(a: float, b: float, rho: float, rho1: float, rho2: float) -> tuple[float, float]:
    """What a X₁ + b X₂ keeps and discloses, by regression on it: no formula of the paper."""
    S = np.array([[1, rho, rho1], [rho, 1, rho2], [rho1, rho2, 1]])
    v = np.array([a, b, 0.0])
    explained = S @ np.outer(v, v) @ S / (v @ S @ v)
    return float(explained[0, 0] + explained[1, 1]), float(explained[2, 2])


def grid(rho: float, rho1: float, rho2: float) -> tuple[Numbers, Numbers]:
    """The same at every direction."""
    variance = 1 + 2 * rho * A * B
    return ((A + rho * B) ** 2 + (rho * A + B) ** 2) / variance, (rho1 * A + rho2 * B) ** 2 / variance


def possible(rho: float, rho1: float, rho2: float) -> bool:
    return bool(np.linalg.eigvalsh([[1, rho, rho1], [rho, 1, rho2], [rho1, rho2, 1]])[0] > 1e-6)


correlation = st.floats(-0.99, 0.99)


@given(correlation, correlation, correlation, st.floats(1e-4, 1.2))
@example(0.5, 0.3, 0.3, 0.12)
@example(-0.5, 0.3, -0.3, 0.12)
@example(0.5, 0.6, 0.2, 0.36)  # the best is at a = ∞
def test_no_direction_of_a_fine_grid_keeps_more(rho: float, rho1: float, rho2: float, tau: float) -> None:
    assume(possible(rho, rho1, rho2))
    best = best_bivariate(rho, rho1, rho2, tau)
    keeps, discloses = grid(rho, rho1, rho2)
    allowed = discloses < tau
    assert best.kept >= keeps[allowed].max(initial=0) - 1e-12
    # and as much is kept by masks nearby that are acceptable
    near = best.inside(1e-9)
    kept, disclosed = from_matrices(near.a, near.b, rho, rho1, rho2)
    assert disclosed < tau
    assert kept == pytest.approx(near.kept, abs=1e-9)
    assert near.kept == pytest.approx(best.kept, abs=1e-4)
    assert best.lost == 2 - best.kept


@given(correlation, correlation, correlation, st.floats(1e-3, 1))
def test_a_best_that_is_only_approached_is_a_root_of_the_quadratic(
    rho: float, rho1: float, rho2: float, tau: float
) -> None:
    """Erratum 2.6."""
    assume(possible(rho, rho1, rho2))
    best = best_bivariate(rho, rho1, rho2, tau)
    quadratic = (
        (rho1**2 - tau) * best.a**2 + 2 * (rho1 * rho2 - tau * rho) * best.a * best.b + (rho2**2 - tau) * best.b**2
    )
    size = best.a**2 + best.b**2
    if best.attained:
        assert quadratic < 0
    else:
        assert quadratic / size == pytest.approx(0, abs=1e-9)
        assert best.disclosed == tau


def test_thousands_of_random_problems_agree_with_the_grid() -> None:
    g = np.random.default_rng(7)
    done = approached = 0
    while done < 3_000:
        rho, rho1, rho2 = g.uniform(-1, 1, 3)
        if not possible(rho, rho1, rho2):
            continue
        tau = g.uniform(0.001, 0.6)
        best = best_bivariate(rho, rho1, rho2, tau)
        keeps, discloses = grid(rho, rho1, rho2)
        top = keeps[discloses < tau].max()
        steepest = np.abs(np.diff(keeps)).max()  # how far the best may lie above the grid
        assert top - 1e-12 <= best.kept <= top + 2 * steepest + 1e-12
        done += 1
        approached += not best.attained
    assert 500 < approached < 2_500


@pytest.mark.parametrize(("rho", "a"), [(0.3, 1.0), (-0.3, -1.0), (0.999, 1.0), (-0.999, -1.0)])
def test_without_correlations_with_the_target_the_sum_or_the_difference_is_released(rho: float, a: float) -> None:
    best = best_bivariate(rho, 0.0, 0.0, 0.1)
    assert (best.a, best.b, best.attained, best.disclosed) == (a, 1.0, True, 0.0)
    assert best.kept == pytest.approx(1 + abs(rho))


def test_uncorrelated_attributes_leave_nothing_to_optimise() -> None:
    best = best_bivariate(0.0, 0.6, 0.2, 0.01)
    assert best.indifferent
    assert best.attained
    assert best.kept == 1.0
    assert best.disclosed == pytest.approx(0, abs=1e-15)
    assert best_bivariate(0.0, 0.0, 0.0, 0.01).a == 1.0
    assert best_bivariate(0.0, 0.0, 0.5, 0.01).b == 0.0  # only X₁ does not disclose
    assert not best_bivariate(0.1, 0.6, 0.2, 0.01).indifferent


def test_the_best_may_be_to_release_the_first_attribute_alone() -> None:
    """a = ∞, which A = [a, 1] misses: exactly when ρ₁² = τ (erratum 2.6)."""
    best = best_bivariate(0.5, 0.3, 0.8, 0.09)
    assert (best.a, best.b) == (1.0, 0.0)
    assert not best.attained
    assert best.kept == pytest.approx(1.25)
    assert best.inside().disclosed < 0.09


def test_an_unconstrained_best_that_discloses_exactly_tau_is_not_attained() -> None:
    tau = (0.5 + 0.25) ** 2 / (2 * 1.5)  # all of these are exact in binary
    best = best_bivariate(0.5, 0.5, 0.25, tau)
    assert not best.attained
    assert best.a == pytest.approx(1)
    assert best.kept == pytest.approx(1.5)
    assert best_bivariate(0.5, 0.5, 0.25, tau * (1 + 1e-8)).attained


def test_what_discloses_exactly_tau_is_not_attained_however_the_decimals_are_rounded() -> None:
    """In exact fractions (ρ₁ + ρ₂)²/(2(1 + ρ)) = τ, where floating point may come out a hair below τ."""
    tried = 0
    for r, a, b in itertools.product(range(1, 10), range(-9, 10), range(-9, 10)):
        rho, rho1, rho2 = (Fraction(k, 10) for k in (r, a, b))
        tau = (rho1 + rho2) ** 2 / (2 + 2 * rho)
        if 1 - rho**2 - rho1**2 - rho2**2 + 2 * rho * rho1 * rho2 < 0 or not tau or (10_000 * tau).denominator > 1:
            continue
        tried += 1
        best = best_bivariate(r / 10, a / 10, b / 10, float(tau))
        assert not best.attained
        assert best.kept == pytest.approx(1 + r / 10)
        assert best.inside().disclosed < float(tau)
    assert tried > 300


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_if_the_attributes_are_one_all_is_released_or_nothing(sign: float) -> None:
    free = best_bivariate(sign, 0.4, sign * 0.4, 0.2)
    assert (free.kept, free.disclosed, free.attained) == (2.0, pytest.approx(0.16), True)
    held = best_bivariate(sign, 0.4, sign * 0.4, 0.16)
    assert (held.kept, held.disclosed, held.attained) == (0.0, 0.0, True)
    assert held.a == -sign  # X₁ ∓ X₂ is zero


@pytest.mark.parametrize("tau", [0.0, -0.1, math.nan, math.inf])
def test_a_threshold_that_nothing_is_below_is_refused(tau: float) -> None:
    with pytest.raises(ParameterError, match="tau must be"):
        best_bivariate(0.3, 0.2, 0.1, tau)


@pytest.mark.parametrize("wrong", [(0.9, 0.9, -0.9), (1.0, 0.5, 0.4), (-0.5, 0.9, 0.9)])
def test_correlations_that_no_three_variables_have_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ParameterError, match="no three variables"):
        best_bivariate(*wrong, 0.1)


@pytest.mark.parametrize("wrong", [(1.1, 0, 0), (0, -2, 0), (0, 0, math.nan)])
def test_numbers_that_are_no_correlations_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ParameterError, match="must be a correlation"):
        best_bivariate(*wrong, 0.1)


def test_how_near_is_near_must_be_a_share() -> None:
    best: BivariateMask = best_bivariate(0.5, 0.6, 0.2, 0.1)
    with pytest.raises(ParameterError, match="closeness"):
        best.inside(0.0)
