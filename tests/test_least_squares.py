"""Least squares and logistic regression: against statsmodels, and on columns that depend on each other."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from sfumato.kernels.regression import (
    PIECE,
    coefficients_of,
    independent,
    information_inverse,
    least_squares,
    logistic,
    logistic_regression,
    orthonormal,
)

Numbers = NDArray[np.float64]


def sample(n: int = 200, k: int = 4, seed: int = 1) -> tuple[Numbers, Numbers, Numbers]:
    g = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), g.normal(2000, 5, n), g.normal(size=(n, k - 2)) * [1e-3, 1e4][: k - 2]])
    return x, x @ np.array([3.0, 0.2, 500.0, 1e-4][:k]) + g.normal(0, 2, n), g.uniform(0.5, 4, n)


def test_coefficients_and_standard_errors_are_those_of_statsmodels() -> None:
    x, y, _ = sample()
    found, peer = least_squares(x, y), sm.OLS(y, x).fit()
    np.testing.assert_allclose(found.coefficients, peer.params, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), peer.bse, rtol=1e-7)
    assert found.rank == 4


def test_with_survey_weights_the_standard_errors_are_linearised() -> None:
    x, y, w = sample()
    found, peer = least_squares(x, y, w), sm.WLS(y, x, weights=w).fit(cov_type="HC0")
    np.testing.assert_allclose(found.coefficients, peer.params, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, peer.cov_params() * 200 / 199, rtol=1e-6)
    again = least_squares(x, y, 7 * w)  # the weights' unit does not matter
    np.testing.assert_allclose(again.covariance, found.covariance, rtol=1e-8)


def test_the_weighted_standard_error_of_a_mean_by_hand() -> None:
    # weights 1, 1, 2 of 0, 4, 4: mean 3; residuals times weights -3, 1, 2; n/(n-1) Σ(we)²/(Σw)² = 3/2 · 14/16
    found = least_squares(np.ones((3, 1)), np.array([0.0, 4.0, 4.0]), np.array([1.0, 1.0, 2.0]))
    assert found.coefficients[0] == pytest.approx(3.0)
    assert found.covariance[0, 0] == pytest.approx(3 / 2 * 14 / 16)


def test_a_column_that_is_a_combination_of_earlier_ones_is_found() -> None:
    x, _, _ = sample()
    wide = np.column_stack([x, x[:, 1] * 2.54, np.full(len(x), 7.0), x[:, 2] - x[:, 3], np.zeros(len(x)), x[:, 1] ** 2])
    assert independent(wide).tolist() == [True] * 4 + [False] * 4 + [True]
    assert independent(wide[:3]).sum() == 3  # three records tell no more than three


def test_what_dependent_columns_do_determine_is_told_and_the_rest_is_not() -> None:
    x, y, _ = sample()
    twice = np.column_stack([x, x[:, 3]])
    found, once = least_squares(twice, y), least_squares(x, y)
    assert np.isnan(found.coefficients).tolist() == [False, False, False, True, True]
    np.testing.assert_allclose(found.coefficients[:3], once.coefficients[:3], rtol=1e-6)
    np.testing.assert_allclose(np.diag(found.covariance)[:3], np.diag(once.covariance)[:3], rtol=1e-6)
    assert found.rank == 4


def test_a_fit_without_error_has_no_standard_error() -> None:
    x, _, _ = sample()
    assert not least_squares(x, x @ np.array([1.0, 2.0, 3.0, 4.0])).covariance.any()
    assert not least_squares(np.ones((5, 1)), np.full(5, 31_337.1)).covariance.any()


def binary(n: int, seed: int = 2) -> tuple[Numbers, Numbers, Numbers]:
    g = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), g.normal(size=(n, 2)), g.integers(0, 2, n)])
    y = (g.uniform(size=n) < 1 / (1 + np.exp(-x @ np.array([-0.3, 1.0, -0.5, 0.8])))).astype(float)
    return x, y, g.uniform(0.5, 4, n)


@pytest.mark.parametrize("n", [150, 2 * PIECE + 7])
def test_logistic_coefficients_and_errors_are_those_of_statsmodels(n: int) -> None:
    x, y, _ = binary(n)
    found, peer = logistic(lambda a, b: x[a:b], y, np.ones(n), 4), sm.Logit(y, x).fit(disp=0, tol=1e-12)
    assert found.converged
    np.testing.assert_allclose(found.coefficients, peer.params, rtol=1e-5)
    np.testing.assert_allclose(found.fitted, peer.predict(), atol=1e-6)
    errors = np.sqrt(np.diag(information_inverse(found.information)[0]))
    np.testing.assert_allclose(errors, peer.bse, rtol=1e-4)
    np.testing.assert_allclose(found.gram, x.T @ x, rtol=1e-10)


def test_weights_and_the_ridge_are_those_of_scikit_learn() -> None:
    x, y, w = binary(300)
    ridge = 0.01
    peer = LogisticRegression(C=1 / (ridge * w.sum()), tol=1e-10, max_iter=1000).fit(x[:, 1:], y, w)
    found = logistic(lambda a, b: x[a:b], y, w, 4, ridge)
    np.testing.assert_allclose(found.coefficients, [peer.intercept_[0], *peer.coef_[0]], rtol=1e-4)


def test_files_that_are_told_apart_completely_have_an_end_with_a_ridge() -> None:
    x = np.column_stack([np.ones(40), np.repeat([-1.0, 1.0], 20)])
    found = logistic(lambda a, b: x[a:b], np.repeat([0.0, 1.0], 20), np.ones(40), 2, 1e-8)
    assert found.converged
    assert np.abs(found.fitted - np.repeat([0.0, 1.0], 20)).max() < 1e-5


def test_logistic_columns_that_depend_on_each_other_share_their_effect() -> None:
    x, y, _ = binary(300)
    twice = np.column_stack([x, x[:, 1], np.zeros(300)])
    once = logistic(lambda a, b: x[a:b], y, np.ones(300), 4)
    found = logistic(lambda a, b: twice[a:b], y, np.ones(300), 6)
    np.testing.assert_allclose(found.fitted, once.fitted, atol=1e-6)
    _, estimable, rank = information_inverse(found.information)
    assert rank == 4
    assert estimable.tolist() == [True, False, True, True, False, False]


@pytest.mark.parametrize("mean", [0.0, 1e5, 1e8])
def test_linearised_errors_keep_their_digits_far_from_zero(mean: float) -> None:
    g = np.random.default_rng(5)
    x, w = g.normal(size=500), g.uniform(0.5, 4, 500)
    y = 2 * x + g.normal(size=500)
    near, far = (np.column_stack([np.ones(500), x + m]) for m in (0.0, mean))
    peer = sm.WLS(y, near, weights=w).fit(cov_type="HC0")
    found = least_squares(far, y, w)
    assert found.coefficients[1] == pytest.approx(peer.params[1], rel=1e-6)
    assert found.covariance[1, 1] == pytest.approx(peer.cov_params()[1, 1] * 500 / 499, rel=1e-6)


def test_orthonormal_columns_span_the_same_space_and_say_what_cannot_be_told() -> None:
    x, y, _ = sample()
    basis = orthonormal(np.column_stack([x, x[:, 1] * 3, np.zeros(len(x))]))
    assert basis.estimable.tolist() == [True, False, True, True, False, False]
    np.testing.assert_allclose(basis.columns.T @ basis.columns, np.eye(4), atol=1e-9)
    slopes = basis.back @ (basis.columns.T @ y)
    np.testing.assert_allclose(slopes[[0, 2, 3]], sm.OLS(y, x).fit().params[[0, 2, 3]], rtol=1e-6)


@pytest.mark.parametrize("apart", [1e-2, 1e-7], ids=["well apart", "nearly dependent"])
def test_coefficients_alone_are_those_of_statsmodels_where_columns_are_nearly_dependent_too(apart: float) -> None:
    g = np.random.default_rng(8)
    a = g.normal(size=300)
    x = np.column_stack([np.ones(300), a, a + apart * g.normal(size=300)])
    y = x @ np.array([1.0, 2.0, 3.0]) + g.normal(size=300)
    np.testing.assert_allclose(coefficients_of(x, y), sm.OLS(y, x).fit(method="qr").params, rtol=1e-5)
    assert coefficients_of(np.column_stack([x, x[:, 1] - x[:, 2]]), y) is None


def ill(n: int = 400) -> tuple[Numbers, Numbers, Numbers]:
    g = np.random.default_rng(9)
    x = np.column_stack([np.ones(n), g.normal(50, 10, n), g.integers(0, 2, n)])
    return x, (g.random(n) < 1 / (1 + np.exp(3 - 0.05 * x[:, 1] - x[:, 2]))).astype(np.float64), g.uniform(0.5, 4, n)


def test_a_logistic_regression_is_that_of_statsmodels() -> None:
    x, y, _ = ill()
    found, peer = logistic_regression(x, y, polish=True), sm.Logit(y, x).fit(disp=0, method="newton", tol=1e-14)
    np.testing.assert_allclose(found.coefficients, peer.params, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, peer.cov_params(), rtol=1e-8)
    np.testing.assert_allclose(found.log_likelihood, peer.llf, rtol=1e-12)
    np.testing.assert_allclose(found.fitted, peer.predict(), rtol=1e-9)
    assert found.converged


def test_a_logistic_regression_with_survey_weights_has_linearised_errors() -> None:
    x, y, w = ill()
    peer = sm.GLM(y, x, family=sm.families.Binomial(), var_weights=w).fit(cov_type="HC0", tol=1e-12)
    found = logistic_regression(x, y, w)
    np.testing.assert_allclose(found.coefficients, peer.params, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, peer.cov_params() * 400 / 399, rtol=1e-5)


def test_a_logistic_regression_says_what_dependent_columns_do_not_tell() -> None:
    x, y, _ = ill()
    found = logistic_regression(np.column_stack([x, 1 - x[:, 2]]), y)
    assert np.isnan(found.coefficients).tolist() == [True, False, True, True]
    np.testing.assert_allclose(found.coefficients[1], sm.Logit(y, x).fit(disp=0).params[1], rtol=1e-5)
