"""Matrix-masking paper, section V: every printed claim of the optimisation, and what ERRATA corrects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato.papers import best_bivariate, best_mask
from sfumato.papers.release_region import disclosed, kept

RHOS = np.linspace(-0.95, 0.95, 39)
SLOPES = np.concatenate([-np.logspace(3, -3, 200), [0.0], np.logspace(-3, 3, 200)])


def by_regression(a: float, rho: float, rho1: float, rho2: float) -> tuple[float, float]:
    """Explained trace of X, and explained variance of Y, by M = a X₁ + X₂: Cov(·, M)²/Var M."""
    variance = a * a + 2 * rho * a + 1
    return ((a + rho) ** 2 + (rho * a + 1) ** 2) / variance, (rho1 * a + rho2) ** 2 / variance


@pytest.mark.parametrize("rho", RHOS)
def test_objective_is_the_explained_trace_with_errata_2_1_and_2_2(rho: float) -> None:
    for a in SLOPES:
        printed = ((1 + rho**2) * a**2 + 4 * rho * a + (1 + rho**2)) / (a**2 + 2 * rho * a + 1)
        assert printed == pytest.approx(by_regression(a, rho, 0, 0)[0], rel=1e-12)
        assert kept(a, 1.0, rho) == pytest.approx(printed, rel=1e-12)
    # tr Var(X | M) = 2 - that, so to minimise the one is to maximise the other; 1 + |ρ| is the most, at a = sign ρ
    values = [kept(a, 1.0, rho) for a in SLOPES]
    assert max(values) <= 1 + abs(rho) + 1e-12
    assert kept(np.sign(rho), 1.0, rho) == pytest.approx(1 + abs(rho)) or rho == 0


def test_the_objective_as_printed_has_not_its_maximum_where_the_paper_says() -> None:
    """Erratum 2.1: with (1 - ρ²) and ρ·a in place of the repaired terms, a = +1 is not the best."""
    rho = 0.5
    printed = ((1 + rho**2) * SLOPES**2 + rho * SLOPES + (1 - rho**2)) / (SLOPES**2 + 2 * rho * SLOPES + 1)
    assert printed.max() > ((1 + rho**2) + rho + (1 - rho**2)) / (2 + 2 * rho) + 0.1


def test_constraint_is_the_share_of_the_target_explained() -> None:
    """Compared with τ, not ρ (erratum 2.3)."""
    for rho, rho1, rho2 in [(0.3, 0.5, -0.2), (-0.6, 0.1, 0.4), (0.0, 0.7, 0.7)]:
        for a in SLOPES:
            printed = (rho1**2 * a**2 + 2 * rho1 * rho2 * a + rho2**2) / (a**2 + 2 * rho * a + 1)
            assert disclosed(a, 1.0, rho, rho1, rho2) == pytest.approx(printed, rel=1e-9, abs=1e-12)
            assert printed == pytest.approx(by_regression(a, rho, rho1, rho2)[1], rel=1e-9, abs=1e-12)


def test_if_rho_is_zero_there_is_no_optimisation_problem() -> None:
    np.testing.assert_allclose([kept(a, 1.0, 0.0) for a in SLOPES], 1.0, rtol=1e-14)
    assert best_bivariate(0.0, 0.3, 0.4, 0.1).indifferent


@pytest.mark.parametrize("rho", RHOS[RHOS != 0])
def test_without_a_constraint_the_sum_is_released_for_positive_rho_and_the_difference_for_negative(rho: float) -> None:
    best = best_bivariate(rho, 0.0, 0.0, 1e-9)
    if abs(rho) < 1e-12:
        return
    assert (best.a, best.b) == (1.0 if rho > 0 else -1.0, 1.0)
    assert best.attained


@pytest.mark.parametrize("rho", [-0.8, -0.2, 0.0, 0.4, 0.9])
def test_constraint_at_plus_and_minus_one(rho: float) -> None:
    """Erratum 2.4: the value at a = -1 was printed for both, and the first at 'a = +10'."""
    rho1, rho2 = 0.35, 0.2
    assert disclosed(1.0, 1.0, rho, rho1, rho2) == pytest.approx((rho1 + rho2) ** 2 / (2 * (1 + rho)))
    assert disclosed(-1.0, 1.0, rho, rho1, rho2) == pytest.approx((rho1 - rho2) ** 2 / (2 * (1 - rho)))


def test_rho_near_one_lowers_the_disclosure_of_the_sum_by_a_factor_of_two_at_most() -> None:
    """Erratum 2.5: for ρ₁ = ρ₂ = r it falls from 2r² at ρ = 0 to r²; likewise the difference for opposite signs."""
    r = 0.4
    for rho in np.linspace(0, 0.999, 50):
        assert disclosed(1.0, 1.0, rho, r, r) == pytest.approx(2 * r * r / (1 + rho))
        assert disclosed(-1.0, 1.0, -rho, r, -r) == pytest.approx(2 * r * r / (1 + rho))
        assert 1 <= disclosed(1.0, 1.0, 0.0, r, r) / disclosed(1.0, 1.0, rho, r, r) <= 2
    # so the difficulty stays however close ρ is to 1: with τ = r² the sum is never acceptable
    assert not best_bivariate(0.999, r, r, r * r).attained


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_correlations_make_the_unconstrained_solution_unacceptable(sign: float) -> None:
    """Both large and of one sign for the sum, of opposite signs for the difference."""
    best = best_bivariate(sign * 0.4, 0.6, sign * 0.6, 0.3)
    assert disclosed(sign, 1.0, sign * 0.4, 0.6, sign * 0.6) > 0.3
    assert not best.attained
    assert best.kept < 1.4


def test_a_positive_threshold_can_always_be_met_by_the_combination_that_discloses_nothing() -> None:
    """Erratum 2.6: a = -ρ₂/ρ₁."""
    assert disclosed(-0.2 / 0.6, 1.0, 0.5, 0.6, 0.2) == pytest.approx(0, abs=1e-15)
    assert best_bivariate(0.5, 0.6, 0.2, 1e-12).inside(1e-3).disclosed < 1e-12


@pytest.mark.parametrize("seed", range(25))
def test_the_general_solution_for_one_combination_of_two_attributes_is_the_bivariate_one(seed: int) -> None:
    g = np.random.default_rng(seed)
    root = g.normal(size=(3, 3))
    S = root @ root.T
    unit = 1 / np.sqrt(np.diag(S))
    S = S * np.outer(unit, unit)
    tau = float(g.uniform(0.01, 0.5))
    names = ["x1", "x2", "y"]
    closed = best_bivariate(S[0, 1], S[0, 2], S[1, 2], tau)
    general = best_mask(pd.DataFrame(S, names, names), "y", tau, kind="attributes", combinations=1)
    assert general.B is not None
    assert general.lost == pytest.approx(closed.lost, abs=1e-6)
    assert general.attained == closed.attained
    a, b = general.B[:, 0]
    assert a * closed.b == pytest.approx(b * closed.a, abs=1e-5)
