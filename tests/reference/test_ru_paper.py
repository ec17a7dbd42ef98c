"""The R-U paper's equations and printed numbers (with ERRATA 0.*), against our formulas and our general forms.

The equations are written out here once more, as they are printed, so that two transcriptions are compared; the general
forms (a slope's error under any noise, say) are then compared with both.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize_scalar

from sfumato import Microdata, Release, Snooper, ru_map
from sfumato.contract import Mask, NoiseModel, Side
from sfumato.maps import NormalPopulation
from sfumato.masks import IndependentNoise, KimNoise
from sfumato.papers import figure1, slope_map
from sfumato.papers import ru_paper as formulas
from sfumato.papers.ru_paper import MAX_RISK, TEACHERS, index_risk, value_of_knowing
from sfumato.risk import AttributeRisk
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope

SIGMA = np.array([[17.5**2, 8.3**2], [8.3**2, 13.3**2]])  # section 5: household income, salary; thousand dollars
SALARY = 13.3**2

levels = st.floats(0.001, 3.0)
betas = st.floats(0.1, 5.0).flatmap(lambda b: st.sampled_from([b, -b]))
variances = st.floats(0.1, 10.0)
sizes = st.integers(4, 500)
many = settings(max_examples=60, deadline=None, derandomize=True)


# -- the equations once more, as printed


def printed_4_4(l2: float, beta: float, s2: float, e2: float, n: int) -> float:
    return (beta**2 * s2 * (1 - 1 / (1 + l2)) + e2) / ((n - 3) * s2 * (1 + l2))


def printed_4_5_first(l2: float, beta: float, s2: float, e2: float, n: int) -> float:
    return 1 / (beta**2 * l2 / (1 + l2) ** 2 * (1 / (n - 3) + l2) + e2 / ((n - 3) * (1 + l2) * s2))


def printed_4_5_second(l2: float, beta: float, r2: float, n: int) -> float:
    return 1 / (beta**2 / (1 + l2) * (l2 / (1 + l2) * (1 / (n - 3) + l2) + 1 / (n - 3) * (1 - r2) / r2))


def printed_4_6(beta: float, s2: float, e2: float) -> float:
    return 1 - e2 / (beta**2 * s2 + e2)


def printed_case_3(l2: float, beta: float, s2: float, e2: float, n: int) -> float:
    return (l2 * (beta**2 * s2 + e2) + e2) / ((n - 3) * s2)


def printed_4_7(l2: float, beta: float, r2: float, n: int) -> float:
    return 1 / (beta**2 * (l2 + 1 - r2) / ((n - 3) * r2))


def printed_5_1_second(l2: float, beta: float, s2: float, e2: float, n: int) -> float:
    return 1 / (beta**2 * l2 / (n - 3) + (1 + l2) * e2 / ((n - 3) * s2))


# -- our general forms, for the model (4.1) with some columns masked


def regression(mask: Mask, beta: float, s2: float, e2: float, n: int) -> NoiseModel:
    covariance = np.array([[s2, beta * s2], [beta * s2, beta**2 * s2 + e2]])
    schema = Schema((Attribute("x", role="confidential"), Attribute("y", role="confidential")))  # type: ignore[arg-type]
    noise = mask.noise(("x", "y"), covariance, schema)
    return NoiseModel(("x", "y"), np.zeros(2), covariance, noise, n, mask.as_recipe().settings())


def slope_mse(mask: Mask, beta: float, s2: float, e2: float, n: int, corrected: bool = False) -> float:
    slope = Slope("y", "x", corrected_by="kim_noise.lambda2" if corrected else None)
    mse = slope.mse(regression(mask, beta, s2, e2, n), "population")
    assert mse is not None
    return mse


def release(x: list[float], y: list[float]) -> Release:
    frames = [pd.DataFrame({"x": v}) for v in (x, y)]
    schema = Schema((Attribute("x", role="confidential", unit="dollars"),))  # type: ignore[arg-type]
    return Release.of(Microdata(frames[0], schema), Microdata(frames[1], schema), align="rows")


# -- section 3


def test_3_1_kim_noise_is_lambda2_sigma_on_masked_columns_and_nothing_on_others() -> None:
    covariance = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    schema = Schema(tuple(Attribute(n) for n in "abc"))
    noise = KimNoise(columns=("a", "c"), lambda2=0.3).noise(("a", "b", "c"), covariance, schema)
    assert_allclose(noise, 0.3 * np.array([[4.0, 0, 0.5], [0, 0, 0], [0.5, 0, 16.0]]))


@many
@given(levels)
def test_3_1_masked_columns_keep_their_correlation_and_lose_some_with_unmasked_ones(l2: float) -> None:
    covariance = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    schema = Schema(tuple(Attribute(n) for n in "abc"))
    noise = KimNoise(columns=("a", "c"), lambda2=l2).noise(("a", "b", "c"), covariance, schema)
    released = covariance + noise
    sd = np.sqrt(np.diag(released))
    before = covariance / np.outer([2, 3, 4], [2, 3, 4])
    after = released / np.outer(sd, sd)
    assert_allclose(after[0, 2], before[0, 2])
    assert_allclose(after[[0, 2], 1], before[[0, 2], 1] / math.sqrt(1 + l2))
    assert_allclose(formulas.attenuation(l2), 1 / math.sqrt(1 + l2))


def test_3_1_independent_noise_shrinks_correlations_of_masked_columns_too() -> None:
    schema = Schema(tuple(Attribute(n) for n in ("income", "salary")))
    noise = IndependentNoise(columns=("income", "salary"), lambda2=0.5).noise(("income", "salary"), SIGMA, schema)
    released = SIGMA + noise
    before = 8.3**2 / (17.5 * 13.3)
    assert_allclose(released[0, 1] / math.sqrt(released[0, 0] * released[1, 1]), before / 1.5)


def test_3_2_utility_is_the_reciprocal_of_the_mean_squared_error() -> None:
    utility = EstimatorUtility(Mean("x"), truth=2.0)
    outcomes = [release([0.0, 0.0], [2.0, 4.0]), release([0.0, 0.0], [5.0, 5.0])]  # estimates 3 and 5, errors 1 and 9
    ready = utility.prepare(outcomes[0].original)
    observed = np.stack([ready.observe(o, Snooper()) for o in outcomes])
    assert_allclose(ready.estimate(observed)[0], 1 / 5)


def test_3_3_risk_is_the_reciprocal_of_the_snoopers_mean_squared_error() -> None:
    assert_allclose(AttributeRisk("x").score(release([1.0, 2.0], [2.0, 5.0])).value, 1 / 5)  # errors 1 and 9


# -- section 4


@many
@given(levels, betas, variances, variances, sizes)
def test_case_1_variance_is_that_of_unmasked_data_whatever_lambda2(
    l2: float, beta: float, s2: float, e2: float, n: int
) -> None:
    unmasked = e2 / ((n - 3) * s2)
    assert_allclose(slope_mse(KimNoise(columns=("x", "y"), lambda2=l2), beta, s2, e2, n), unmasked)
    assert_allclose(formulas.variance_slope_case1(e2, s2, n), unmasked)


@many
@given(levels, betas, variances, variances, sizes)
def test_case_1_columns_are_jointly_normal_before_masking_and_after(
    l2: float, beta: float, s2: float, e2: float, n: int
) -> None:
    population = NormalPopulation.regression(printed_4_6(beta, s2, e2), n, beta, math.sqrt(s2))
    displayed = np.array([[s2, beta * s2], [beta * s2, beta**2 * s2 + e2]])
    assert_allclose(population.covariance, displayed)
    assert (*population.means, population.n) == ("x", "y", n)
    mean = np.array([3.0, 1.0 + 3.0 * beta])
    noise = KimNoise(columns=("x", "y"), lambda2=l2).noise(("x", "y"), displayed, population.schema)
    model = NoiseModel(("x", "y"), mean, displayed, noise, n)
    assert_allclose(model.released, (1 + l2) * displayed)
    assert_allclose(model.mean, mean)


@many
@given(levels, betas, variances, variances, sizes)
def test_4_3_to_4_6_slope_on_a_masked_independent_variable(
    l2: float, beta: float, s2: float, e2: float, n: int
) -> None:
    r2 = printed_4_6(beta, s2, e2)
    printed = printed_4_5_first(l2, beta, s2, e2, n)
    bias = beta / (1 + l2) - beta  # (4.3)
    assert_allclose(1 / (bias**2 + printed_4_4(l2, beta, s2, e2, n)), printed)
    assert_allclose(printed_4_5_second(l2, beta, r2, n), printed)
    assert_allclose(1 / slope_mse(KimNoise(columns=("x",), lambda2=l2), beta, s2, e2, n), printed)
    assert_allclose(formulas.expected_slope_case2(beta, l2), beta / (1 + l2))
    assert_allclose(formulas.variance_slope_case2(l2, beta, s2, e2, n), printed_4_4(l2, beta, s2, e2, n))
    assert_allclose(formulas.r_squared(beta, s2, e2), r2)
    assert_allclose(formulas.utility_slope_case2(l2, beta, r2, n), printed)


@many
@given(levels, betas, variances, variances, sizes)
def test_4_7_slope_of_a_masked_dependent_variable(l2: float, beta: float, s2: float, e2: float, n: int) -> None:
    variance = printed_case_3(l2, beta, s2, e2, n)
    r2 = printed_4_6(beta, s2, e2)
    assert_allclose(1 / printed_4_7(l2, beta, r2, n), variance)
    assert_allclose(slope_mse(KimNoise(columns=("y",), lambda2=l2), beta, s2, e2, n), variance)
    assert_allclose(formulas.variance_slope_case3(l2, beta, s2, e2, n), variance)
    assert_allclose(formulas.utility_slope_case3(l2, beta, r2, n), 1 / variance)


@many
@given(levels, betas, variances, variances, sizes)
def test_5_1_all_three_lines_and_0_16_equal_to_4_7(l2: float, beta: float, s2: float, e2: float, n: int) -> None:
    r2 = printed_4_6(beta, s2, e2)
    printed = printed_4_7(l2, beta, r2, n)  # the third line reads the same
    assert_allclose(1 / ((1 + l2) ** 2 * printed_4_4(l2, beta, s2, e2, n)), printed)
    assert_allclose(printed_5_1_second(l2, beta, s2, e2, n), printed)
    assert_allclose(1 / slope_mse(KimNoise(columns=("x",), lambda2=l2), beta, s2, e2, n, corrected=True), printed)
    assert_allclose(formulas.utility_slope_adjusted(l2, beta, r2, n), printed)


@many
@given(levels, betas, variances, variances, sizes)
def test_independent_noise_on_both_columns_attenuates_the_slope(
    l2: float, beta: float, s2: float, e2: float, n: int
) -> None:
    bias = beta / (1 + l2) - beta
    released_y = (1 + l2) * (beta**2 * s2 + e2)
    variance = (released_y - beta**2 * s2 / (1 + l2)) / ((n - 3) * (1 + l2) * s2)
    assert_allclose(slope_mse(IndependentNoise(columns=("x", "y"), lambda2=l2), beta, s2, e2, n), bias**2 + variance)


def test_4_3_4_4_and_case_3_hold_in_a_plain_simulation_of_12_records() -> None:
    generator = np.random.default_rng(2004)
    reps, n, beta, s2, e2, l2 = 200_000, 12, 1.5, 2.0, 3.0, 0.7
    x = math.sqrt(s2) * generator.standard_normal((reps, n))
    y = beta * x + math.sqrt(e2) * generator.standard_normal((reps, n))
    noise = generator.standard_normal((2, reps, n)) * np.sqrt(l2 * np.array([s2, beta**2 * s2 + e2]))[:, None, None]

    def slopes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        centred = a - a.mean(axis=1, keepdims=True)
        return (centred * b).sum(axis=1) / (centred**2).sum(axis=1)

    case2, case3 = slopes(x + noise[0], y), slopes(x, y + noise[1])
    z = 4 / math.sqrt(reps)
    for found, mean, variance in (
        (case2, formulas.expected_slope_case2(beta, l2), formulas.variance_slope_case2(l2, beta, s2, e2, n)),
        (case3, beta, formulas.variance_slope_case3(l2, beta, s2, e2, n)),
    ):
        assert abs(found.mean() - mean) < z * found.std()
        squares = (found - mean) ** 2
        assert abs(squares.mean() - variance) < z * squares.std()


@many
@given(levels, st.lists(st.integers(-5, 5), min_size=2, max_size=2).filter(any), st.integers(1, 5000))
def test_a_combination_of_means_has_error_c_sigma_c_times_1_plus_lambda2_over_n(
    l2: float, c: list[int], n: int
) -> None:
    names, weights = ("income", "salary"), np.array(c)
    schema = Schema(tuple(Attribute(name) for name in names))
    estimator = MeanCombination(dict(zip(names, c, strict=True)))
    kim = KimNoise(columns=names, lambda2=l2).noise(names, SIGMA, schema)
    own = IndependentNoise(columns=names, lambda2=l2).noise(names, SIGMA, schema)
    quadratic = float(weights @ SIGMA @ weights)
    squares = float(weights**2 @ np.diag(SIGMA))
    for noise, expected in ((kim, (1 + l2) * quadratic / n), (own, (quadratic + l2 * squares) / n)):
        found = estimator.mse(NoiseModel(names, np.zeros(2), SIGMA, noise, n), "population")
        assert_allclose(found, expected)
    assert_allclose(formulas.utility_mean(l2, quadratic, n), n / ((1 + l2) * quadratic))


# -- risk


def salary_risk(l2: float, snooper: Snooper, rho: float = 0.0, mask: type[Mask] = KimNoise) -> float:
    """Return our general form for salary, with an unmasked covariate of correlation ρ."""
    names = ("salary", "z")
    covariance = np.array([[SALARY, 13.3 * 2 * rho], [13.3 * 2 * rho, 4.0]])
    schema = Schema(tuple(Attribute(name) for name in names))
    noise = mask(columns=("salary",), lambda2=l2).noise(names, covariance, schema)  # type: ignore[call-arg]
    value = AttributeRisk("salary").analytic(NoiseModel(names, np.zeros(2), covariance, noise, 1000), snooper)
    assert value is not None
    return value


@many
@given(levels)
def test_4_8_risk_of_the_index_knowledge_snooper(l2: float) -> None:
    assert_allclose(salary_risk(l2, Snooper()), 1 / (l2 * SALARY))
    assert_allclose(salary_risk(l2, Snooper(), mask=IndependentNoise), 1 / (l2 * SALARY))
    assert_allclose(formulas.index_risk(l2, SALARY), 1 / (l2 * SALARY))


@many
@given(levels, st.floats(0, 1))
def test_imperfect_linkage_lowers_the_risk_below_4_8(l2: float, m: float) -> None:
    expected = 1 / (m * l2 * SALARY + (1 - m) * (2 + l2) * SALARY)  # a random record is X' + ε, independent of X
    assert_allclose(salary_risk(l2, Snooper(match_probability=m)), expected)
    assert_allclose(formulas.linkage_risk(l2, SALARY, m), expected)
    assert expected <= 1 / (l2 * SALARY) * (1 + 1e-12)


@many
@given(levels, st.floats(-0.99, 0.99))
def test_0_3_bayes_precision_is_prior_precision_plus_noise_precision(l2: float, rho: float) -> None:
    snooper = Snooper(strategy="bayes", covariates=("z",), parameter_published=True)
    expected = 1 / (SALARY * (1 - rho**2)) + 1 / (l2 * SALARY)
    assert_allclose(salary_risk(l2, snooper, rho), expected, rtol=1e-6)
    assert_allclose(formulas.bayes_risk(l2, SALARY, rho), expected)
    alone = salary_risk(l2, Snooper(strategy="bayes", parameter_published=True))
    assert_allclose(alone, (1 + l2) / (l2 * SALARY))  # larger than (4.8) by the factor 1 + λ²


@many
@given(levels)
def test_0_3_other_columns_with_the_same_kim_noise_tell_a_snooper_nothing_more(l2: float) -> None:
    everything = SIGMA - SIGMA @ np.linalg.inv((1 + l2) * SIGMA) @ SIGMA  # Var(X | both released columns)
    alone = salary_risk(l2, Snooper(strategy="bayes", parameter_published=True))
    assert_allclose(alone, 1 / everything[1, 1])


# -- section 5: the first example


def test_the_standard_deviation_of_the_difference_is_printed_as_18_6() -> None:
    c = np.array([1.0, -1.0])
    assert_allclose(c @ SIGMA @ c, 345.36)
    assert_allclose(math.sqrt(345.36), 18.58386, atol=5e-6)
    assert round(math.sqrt(345.36), 1) == 18.6
    assert_allclose(TEACHERS.covariance, SIGMA)
    assert TEACHERS.n == 1000


def test_0_1_the_threshold_is_the_reciprocal_of_5_squared() -> None:
    assert MAX_RISK == 0.04
    in_dollars = 1 / 5000.0**2
    assert_allclose(formulas.lambda2_for_error(5000, SALARY * 1e6), formulas.lambda2_for_error(5, SALARY))
    assert_allclose(in_dollars * 1e6, MAX_RISK)


def test_lambda2_for_an_error_of_5_thousand_dollars() -> None:
    assert_allclose(formulas.lambda2_for_error(5, SALARY), 0.141331, atol=5e-7)
    assert_allclose(formulas.lambda2_for_error(5, SALARY, "bayes"), 0.164593, atol=5e-7)
    assert_allclose(formulas.lambda2_for_error(5, SALARY, "bayes", rho=0.6), 0.181, atol=5e-4)
    assert_allclose(formulas.lambda2_for_error(5, SALARY, "mean absolute"), 0.222002, atol=5e-7)


@pytest.mark.parametrize(("strategy", "rho"), [("naive", 0.0), ("bayes", 0.0), ("bayes", 0.6), ("bayes", 0.92)])
def test_at_that_lambda2_the_risk_is_at_its_threshold(strategy: str, rho: float) -> None:
    l2 = formulas.lambda2_for_error(5, SALARY, strategy, rho)
    snooper = Snooper(strategy=strategy, covariates=("z",), parameter_published=True)  # type: ignore[arg-type]
    assert_allclose(salary_risk(l2, snooper, rho), 0.04, rtol=1e-9)


def test_the_risk_of_a_salary_under_index_knowledge_is_one_over_the_variance_of_its_noise() -> None:
    # the noise has variance λ² 13.3² (thousand dollars), and the snooper who knows the record is off by it: at λ² = .15 by 5.15
    for l2, error in ((0.05, 2.97397), (0.15, 5.15107), (1.0, 13.3)):
        assert_allclose(index_risk(l2, 13.3**2), 1 / error**2, rtol=1e-5)
        assert_allclose(index_risk(l2, 13.3**2), 1 / (l2 * 176.89), rtol=1e-12)
        assert_allclose(salary_risk(l2, Snooper()), index_risk(l2, 13.3**2), rtol=1e-9)
    assert index_risk(0.0, 13.3**2) == math.inf
    noise = np.random.default_rng(48).normal(0, math.sqrt(0.15) * 13.3, 400_000)
    assert_allclose(1 / (noise**2).mean(), index_risk(0.15, 13.3**2), rtol=0.01)


def test_0_2_at_222_thousandths_the_mean_absolute_error_is_5() -> None:
    l2 = formulas.lambda2_for_error(5, SALARY, "mean absolute")
    assert_allclose(l2, 0.222002, atol=5e-7)
    assert_allclose(math.sqrt(2 / math.pi) * math.sqrt(l2 * SALARY), 5, rtol=1e-12)  # E|N(0, s²)| = s √(2/π)


def test_0_3_no_lambda2_suffices_against_a_covariate_of_correlation_above_927() -> None:
    edge = math.sqrt(1 - 25 / SALARY)
    assert 0.9266 < edge < 0.927
    assert math.isfinite(formulas.lambda2_for_error(5, SALARY, "bayes", rho=edge - 1e-6))
    assert formulas.lambda2_for_error(5, SALARY, "bayes", rho=edge + 1e-6) == math.inf
    assert formulas.lambda2_for_error(5, SALARY, "bayes", rho=0.927) == math.inf
    assert formulas.lambda2_for_error(13.3, SALARY, "bayes") == math.inf  # an error of σ or more cannot be reached
    assert formulas.lambda2_for_error(13.3, SALARY, "naive") == 1


def test_at_15_hundredths_the_rms_error_is_5151_dollars() -> None:
    assert_allclose(1 / math.sqrt(salary_risk(0.15, Snooper())), 5.151, atol=5e-4)


def test_0_6_and_0_7_utilities_of_figure_1() -> None:
    m = figure1([0.15])
    risk, (mean, difference) = m.of_side(Side.RISK)[0], m.of_side(Side.UTILITY)
    assert_allclose(m.unmasked(mean), 5.653, atol=5e-4)
    assert_allclose(m.unmasked(difference), 2.896, atol=5e-4)
    assert_allclose(m.estimate(mean, 0)[0], 1000 / (1.15 * 13.3**2))
    assert_allclose(m.estimate(difference, 0)[0], 1000 / (1.15 * 345.36))
    assert_allclose(m.estimate(risk, 0)[0], 1 / (0.15 * 13.3**2))
    lost = [m.unmasked(i) - m.estimate(i, 0)[0] for i in (mean, difference)]
    assert_allclose(lost, [0.737, 0.378], atol=5e-4)
    assert_allclose([loss / m.unmasked(i) for loss, i in zip(lost, (mean, difference), strict=True)], 0.1304, atol=5e-5)


def test_0_6_with_utility_to_the_right_the_left_hand_curve_is_the_difference() -> None:
    m = figure1()
    mean, difference = m.of_side(Side.UTILITY)
    points = range(len(m.points))
    assert all(m.estimate(difference, p)[0] < m.estimate(mean, p)[0] for p in points)


# -- section 5: the second example


def test_knowing_lambda2_approximately_doubles_the_utility() -> None:
    m = slope_map([0.15])
    plain, corrected = m.of_side(Side.UTILITY)
    assert_allclose(m.estimate(corrected, 0)[0], 69.529, atol=5e-4)
    assert_allclose(m.estimate(plain, 0)[0], 35.857, atol=5e-4)
    assert_allclose(value_of_knowing(m), [1.9391], atol=5e-5)
    assert_allclose(value_of_knowing(slope_map([0.15], r2=0.5)), [3.3343], atol=5e-5)


@many
@given(levels, betas, variances, st.floats(0.05, 0.95), sizes)
def test_figure_2_does_not_depend_on_beta_and_sigma(l2: float, beta: float, sigma: float, r2: float, n: int) -> None:
    population = NormalPopulation.regression(r2, n, beta, sigma)
    (xx, xy), (_, yy) = population.covariance
    assert_allclose(xy / xx, beta)
    assert_allclose(xy**2 / (xx * yy), r2)
    gain = printed_4_7(l2, beta, r2, n) / printed_4_5_second(l2, beta, r2, n)
    assert_allclose(gain, printed_4_7(l2, 1, r2, n) / printed_4_5_second(l2, 1, r2, n))
    ours = formulas.utility_slope_adjusted(l2, beta, r2, n) / formulas.utility_slope_case2(l2, beta, r2, n)
    assert_allclose(ours, gain)


def test_0_4_utility_of_the_plain_slope_rises_first_if_r2_is_below_a_half() -> None:
    found = minimize_scalar(
        lambda l2: 1 / printed_4_5_second(l2, 1, 0.3, 200), bounds=(0, 0.1), options={"xatol": 1e-10}
    )
    assert_allclose(found.x, 0.003413, atol=1e-6)
    assert_allclose(formulas.best_lambda2_case2(0.3, 200), 0.003413, atol=5e-7)
    assert formulas.best_lambda2_case2(0.5, 200) == formulas.best_lambda2_case2(0.7, 200) == 0


@many
@given(st.floats(0.05, 0.49), st.integers(30, 2000))
def test_0_4_the_best_lambda2_beats_its_neighbours(r2: float, n: int) -> None:
    best = formulas.best_lambda2_case2(r2, n)
    top = printed_4_5_second(best, 1, r2, n)
    assert best > 0
    assert top >= printed_4_5_second(best * 1.01, 1, r2, n)
    assert top >= printed_4_5_second(best * 0.99, 1, r2, n)


def test_0_4_with_few_records_and_a_weak_relation_no_finite_lambda2_is_best() -> None:
    u = [printed_4_5_second(l2, 1, 0.1, 6) for l2 in (0, 1, 10, 100, 1000)]
    assert u == sorted(u)
    assert formulas.best_lambda2_case2(0.1, 6) == math.inf


@pytest.mark.parametrize("r2", [0.1, 0.3, 0.45, 0.55, 0.7, 0.9])
def test_0_4_the_sign_of_the_slope_at_zero_noise_is_that_of_2_r2_minus_1(r2: float) -> None:
    n, step = 200, 1e-7
    error = [slope_mse(KimNoise(columns=("x",), lambda2=v), 1.0, 1.0, (1 - r2) / r2, n) for v in (0.0, step)]
    assert_allclose((error[1] - error[0]) / step, (2 * r2 - 1) / (r2 * (n - 3)), rtol=1e-3)


@pytest.mark.parametrize(("r2", "crossing"), [(0.3, 0.024834), (0.5, 0.010418)])
def test_0_5_below_the_crossing_the_plain_slope_is_the_more_useful(r2: float, crossing: float) -> None:
    def gap(l2: float) -> float:
        return printed_4_5_second(l2, 1, r2, 200) - printed_4_7(l2, 1, r2, 200)

    assert_allclose(brentq(gap, 1e-3, 1), crossing, atol=1e-6)
    below, above = value_of_knowing(slope_map([crossing - 1e-5, crossing + 1e-5], r2=r2))
    assert below < 1 < above


# -- ERRATA 0.17 and 0.18: the ends of the scale


@pytest.mark.parametrize("n", [1, 2, 3])
def test_0_17_with_three_records_or_fewer_the_slope_has_no_utility(n: int) -> None:
    assert slope_mse(KimNoise(columns=("x",), lambda2=0.1), 1, 1, 1, n) == math.inf
    assert formulas.variance_slope_case1(1, 1, n) == math.inf
    assert formulas.variance_slope_case2(0.1, 1, 1, 1, n) == math.inf
    assert formulas.variance_slope_case3(0.1, 1, 1, 1, n) == math.inf
    assert formulas.utility_slope_case2(0.1, 1, 0.3, n) == 0
    assert formulas.utility_slope_case3(0.1, 1, 0.3, n) == 0
    assert formulas.utility_slope_adjusted(0.1, 1, 0.3, n) == 0


def test_0_18_without_noise_every_snooper_knows_the_value() -> None:
    m = figure1([0.0, 0.1])
    assert m.estimate(m.of_side(Side.RISK)[0], 0)[0] == math.inf
    for snooper in (Snooper(), Snooper(strategy="bayes"), Snooper(strategy="bayes", parameter_published=True)):
        assert salary_risk(0.0, snooper) == math.inf
    assert (
        formulas.index_risk(0, SALARY) == formulas.bayes_risk(0, SALARY) == formulas.linkage_risk(0, 1, 1) == math.inf
    )


def test_0_18_a_constant_is_known_without_looking() -> None:
    model = NoiseModel(("x",), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1)), 10)
    for snooper in (Snooper(), Snooper(match_probability=0.5), Snooper(strategy="bayes", parameter_published=True)):
        assert AttributeRisk("x").analytic(model, snooper) == math.inf
    assert formulas.index_risk(0.1, 0) == formulas.bayes_risk(0.1, 0) == math.inf
    assert formulas.bayes_risk(0.1, 1, rho=1) == math.inf
    assert formulas.lambda2_for_error(5, 0) == math.inf


def test_the_maps_general_forms_are_the_papers_curves_on_figures_1_and_2() -> None:
    grid = [0.01, 0.05, 0.15, 0.5, 1.0]
    m = figure1(grid)
    for i, curve in enumerate(
        [
            formulas.index_risk(grid, 13.3**2),
            formulas.utility_mean(grid, 13.3**2, 1000),
            formulas.utility_mean(grid, 345.36, 1000),
        ]
    ):
        assert_allclose(m.analytic[i][:-1], curve)
    for r2 in (0.3, 0.5):
        m = slope_map(grid, r2=r2)
        assert_allclose(m.analytic[0][:-1], formulas.index_risk(grid, 1))
        assert_allclose(m.analytic[1][:-1], formulas.utility_slope_case2(grid, 1, r2, 200))
        assert_allclose(m.analytic[2][:-1], formulas.utility_slope_adjusted(grid, 1, r2, 200))


def test_cases_1_to_3_in_one_map_each_by_naming_the_columns() -> None:
    population = NormalPopulation.regression(0.3, 50, beta=2.0, sigma=3.0)
    expected = {
        ("x", "y"): 1 / formulas.variance_slope_case1(4 * 9 * 0.7 / 0.3, 9, 50),
        ("x",): formulas.utility_slope_case2(0.4, 2, 0.3, 50),
        ("y",): formulas.utility_slope_case3(0.4, 2, 0.3, 50),
    }
    for columns, utility in expected.items():
        m = ru_map(
            population,
            KimNoise(columns=columns),
            {"kim_noise.lambda2": [0.4]},
            columns[0],
            Slope("y", "x"),
            replications=0,
        )
        assert_allclose(m.analytic[1][0], utility)
        assert_allclose(m.analytic[1][1], (50 - 3) * 0.3 / (4 * 0.7))  # unmasked: (4.7) at λ² = 0


@many
@given(
    r2=st.floats(0.05, 0.95),
    n=st.integers(5, 2000),
    lambda2=st.floats(0, 5),
    beta=st.floats(0.1, 10),
    sign=st.sampled_from([-1, 1]),
)
def test_slope_utilities_rise_with_n_and_have_a_shape_that_beta_does_not_change(
    r2: float, n: int, lambda2: float, beta: float, sign: int
) -> None:
    for utility in (formulas.utility_slope_case2, formulas.utility_slope_case3):
        assert utility(lambda2, 1.0, r2, n + 1) > utility(lambda2, 1.0, r2, n)
        assert float(utility(lambda2, sign * beta, r2, n)) == pytest.approx(
            float(utility(lambda2, 1.0, r2, n)) / beta**2
        )
    assert formulas.utility_slope_case3(lambda2 + 0.1, 1.0, r2, n) < formulas.utility_slope_case3(lambda2, 1.0, r2, n)
