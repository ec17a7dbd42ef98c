"""Laplace and Gaussian noise with a stated sensitivity: the privacy that they promise, checked by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from small_files import amounts as microdata

from sfumato.contract import Draws
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import GaussianMechanism, LaplaceNoise
from sfumato.masks.local_privacy import LocalPrivacy, analytic_sigma

BOTH: list[type[LocalPrivacy]] = [LaplaceNoise, GaussianMechanism]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_laplace_noise_has_scale_sensitivity_over_epsilon(epsilon: float) -> None:
    x = np.random.default_rng(1).uniform(0, 10, 20_000)
    y = LaplaceNoise(10, epsilon=epsilon).apply(microdata(x=x), Draws(1)).masked.numbers("x")
    assert stats.kstest(y - x, stats.laplace(scale=10 / epsilon).cdf).pvalue > 1e-4
    assert y.mean() - x.mean() == pytest.approx(0, abs=4.5 * np.sqrt(2) * 10 / epsilon / np.sqrt(20_000))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_gaussian_noise_has_the_calibrated_standard_deviation(epsilon: float) -> None:
    x = np.random.default_rng(1).uniform(0, 10, 20_000)
    y = GaussianMechanism(10, epsilon=epsilon, delta=1e-5).apply(microdata(x=x), Draws(1)).masked.numbers("x")
    assert stats.kstest(y - x, stats.norm(scale=10 * analytic_sigma(epsilon, 1e-5)).cdf).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("sensitivity", [0.37, 1.0, 12345.6])
def test_no_released_number_is_much_likelier_from_one_value_than_from_another(
    epsilon: float, sensitivity: float
) -> None:
    scale, step = LaplaceNoise(sensitivity, epsilon=epsilon).noise_scale("x")
    law = stats.laplace(scale=scale / step)
    # values s apart are at most this many steps apart on the grid, wherever they lie between its points
    apart = int(np.floor(sensitivity / step)) + 1
    k = np.arange(-40 * apart, 40 * apart, max(apart // 7, 1)).astype(float)
    # probability of the point k, as a difference of small tails, on either side of the centre
    mass = lambda at: np.where(  # noqa: E731
        at > 0, law.sf(at - 0.5) - law.sf(at + 0.5), law.cdf(at + 0.5) - law.cdf(at - 0.5)
    )
    p, q = mass(k), mass(k - apart)
    real = (p > 1e-250) & (q > 1e-250)
    assert np.log(p[real] / q[real]).max() <= epsilon * (1 + 1e-7)
    assert np.log(p[real] / q[real]).max() >= 0.99 * epsilon  # and not more noise than it takes


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_sigma_is_the_smallest_for_which_the_definition_of_privacy_holds(epsilon: float, delta: float) -> None:
    # δ = ∫ max(0, p - e^ε q): the definition of (ε, δ)-privacy, for normal densities one apart
    def divergence(sigma: float) -> float:
        p, q = stats.norm(0, sigma), stats.norm(1, sigma)
        edge = 0.5 - epsilon * sigma**2  # p = e^ε q there
        f = lambda t: p.pdf(t) - np.exp(epsilon) * q.pdf(t)  # noqa: E731
        return float(
            sum(integrate.quad(f, edge - b * sigma, edge - a * sigma)[0] for a, b in ((0, 1), (1, 4), (4, 12)))
        )

    sigma = analytic_sigma(epsilon, delta)
    assert divergence(sigma) == pytest.approx(delta, rel=1e-5)
    assert divergence(0.999 * sigma) > delta > divergence(1.001 * sigma)


def test_sigma_agrees_with_the_condition_of_balle_and_wang_and_with_a_known_value() -> None:
    for epsilon, delta in ((0.3, 1e-6), (1.0, 1e-5), (4.0, 1e-3)):
        s = analytic_sigma(epsilon, delta)
        left = stats.norm.cdf(1 / (2 * s) - epsilon * s) - np.exp(epsilon) * stats.norm.cdf(-1 / (2 * s) - epsilon * s)
        assert left == pytest.approx(delta, rel=1e-6)
    assert analytic_sigma(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-6)  # as the documentation of diPLSlib prints it


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.99])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
def test_the_classical_formula_needs_more_noise(epsilon: float, delta: float) -> None:
    assert analytic_sigma(epsilon, delta) < np.sqrt(2 * np.log(1.25 / delta)) / epsilon


@pytest.mark.parametrize("mask", BOTH)
def test_released_numbers_lie_on_a_grid_that_does_not_depend_on_the_value(mask: type[LocalPrivacy]) -> None:
    x = np.random.default_rng(1).normal(100, 1, 3000) / 3  # with all 52 binary digits in use
    made = mask(10)
    y = made.apply(microdata(x=x), Draws(1)).masked.numbers("x")
    step = made.noise_scale("x")[1]
    assert step == 2.0 ** np.round(np.log2(step))
    np.testing.assert_array_equal(y / step, np.round(y / step))


@pytest.mark.parametrize("mask", BOTH)
def test_nothing_is_learned_from_the_data(mask: type[LocalPrivacy]) -> None:
    one, two = np.array([5.0, 1.0, 2.0, 3.0]), np.array([5.0, 1e6, -1e6, 0.0])
    a, b = (mask(10).apply(microdata(x=x), Draws(1)).masked.numbers("x") for x in (one, two))
    assert a[0] == b[0]
    constant = mask(10).apply(microdata(x=np.full(50, 7.0)), Draws(1)).masked.numbers("x")
    assert len(set(constant)) > 40


@pytest.mark.parametrize("mask", BOTH)
def test_values_beyond_the_range_are_moved_into_it_first(mask: type[LocalPrivacy]) -> None:
    x = np.array([-500.0, 3.0, 700.0, 10.0])
    inside = np.clip(x, 0, 10)
    made = mask(10, low=0, high=10)
    a, b = (made.apply(microdata(x=v), Draws(1)).masked.numbers("x") for v in (x, inside))
    np.testing.assert_array_equal(a, b)


def test_the_promise_names_its_reach_and_adds_up_over_columns() -> None:
    data = microdata({"y": {"bounds": (0, 4)}}, x=[1.0, 2.0, np.nan], y=[0.5, 1.5, 3.5])
    text = [
        g.says for g in LaplaceNoise(4, epsilon={"x": 0.5, "y": 2}, columns=("x", "y")).apply(data, Draws(1)).guarantees
    ]
    assert any(t.startswith("x: 0.5-differential privacy of each value, for two values at most 4 apart") for t in text)
    assert any(t.startswith("y: 2-differential privacy of each value, for any two values") for t in text)
    assert any("all columns of a record together have ε = 2.5" in t for t in text)
    assert any("whether a value is missing is not hidden" in t for t in text)
    text = [g.says for g in GaussianMechanism(4, delta=1e-5).apply(data, Draws(1)).guarantees]
    assert any("(1, 1e-05)-differential privacy" in t for t in text)
    assert any("ε = 2 and δ = 2e-05" in t for t in text)


def test_the_noise_for_formulas_is_its_variance_and_there_is_none_once_values_are_moved() -> None:
    schema = microdata(x=[1.0], y=[2.0]).schema
    found = LaplaceNoise(10, columns=("x",), epsilon=2).noise(("x", "y"), np.eye(2), schema)
    np.testing.assert_allclose(found, np.diag([2 * 5.0**2, 0]), rtol=5e-3)
    found = GaussianMechanism(10, columns=("x",), delta=1e-5).noise(("x", "y"), np.eye(2), schema)
    np.testing.assert_allclose(found, np.diag([37.30632**2, 0]), rtol=5e-3)
    assert LaplaceNoise(10, low=0).noise(("x", "y"), np.eye(2), schema) is None


@pytest.mark.parametrize("mask", BOTH)
def test_what_makes_no_sense_is_refused(mask: type[LocalPrivacy]) -> None:
    with pytest.raises(ParameterError, match="needs sensitivity"):
        mask.from_dict({})
    with pytest.raises(ParameterError, match=r"epsilon gives no ε for y\."):
        mask(10, columns=("x", "y"), epsilon={"x": 1})
    with pytest.raises(ParameterError, match="low must be below high"):
        mask(10, low=5, high=5)
    for wild in (np.inf, 1e17):  # at 1e17 numbers are 16 apart: the sum would not be exact
        with pytest.raises(DataError, match="1 values of 'x' are infinite, or too large"):
            mask(10).apply(microdata(x=[1.0, wild]), Draws(1))
        mask(10, low=0, high=10).apply(microdata(x=[1.0, wild]), Draws(1))
    with pytest.raises(DataError, match="has no values at all"):
        mask(10).apply(microdata(x=[np.nan, np.nan]), Draws(1))
    with pytest.raises(NotApplicable, match="rounded to a grid"):
        mask(10).as_matrix(microdata(x=[1.0, 2.0]), Draws(1))
