"""Noise that depends on the value: multiplicative, within bounds, on outliers only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from small_files import amounts as microdata
from small_files import release as released

from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import BoundedNoise, IndependentNoise, KimNoise, MultiplicativeNoise, OutlierNoise
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


def numbers(mask: Mask, data: Microdata, name: str = "x", seed: int = 1) -> Numbers:
    return released(mask, data, seed).masked.numbers(name)


def says(mask: Mask, data: Microdata) -> str:
    return " ".join(g.says for g in released(mask, data).guarantees)


# Multiplicative


@pytest.mark.parametrize("scheme", ["logarithmic", "lognormal", "truncated_normal"])
def test_factors_have_mean_one_so_every_value_is_right_on_average(scheme: Any) -> None:
    x = np.array([1.0, 2.0, 5.0, 30.0, 3.0, 8.0])
    data = microdata(x=x)
    mask = MultiplicativeNoise(scheme=scheme, lambda2=0.3)
    factors = np.array([numbers(mask, data, seed=s) for s in range(1500)]) / x
    assert (np.abs(factors.mean(axis=0) - 1) < 4.5 * factors.std(axis=0) / np.sqrt(1500)).all()


def test_a_median_of_one_is_a_choice_for_noise_on_logarithms() -> None:
    data = microdata(x=np.random.default_rng(1).lognormal(3, 1, 50_000))
    factor = numbers(MultiplicativeNoise(centre="median", lambda2=0.5), data) / data.numbers("x")
    assert abs((factor > 1).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(50_000)
    with pytest.raises(ParameterError, match="has no median of 1"):
        MultiplicativeNoise(scheme="lognormal", centre="median")


def test_noise_on_logarithms_has_their_covariance_times_lambda_squared() -> None:
    g = np.random.default_rng(4)
    z = g.standard_normal((60_000, 2)) @ np.array([[0.5, 0.3], [0.0, 0.4]])
    data = microdata(x=np.exp(3 + z[:, 0]), y=np.exp(5 + z[:, 1]))
    after = released(MultiplicativeNoise(lambda2=0.4), data).masked
    noise = np.column_stack([np.log(after.numbers(n) / data.numbers(n)) for n in ("x", "y")])
    truth = 0.4 * np.cov(z, rowvar=False)
    diagonal = np.diag(truth)
    error = np.sqrt((np.outer(diagonal, diagonal) + truth**2) / 60_000)
    assert (np.abs(np.cov(noise, rowvar=False) - truth) < 4.5 * error).all()


def test_truncated_normal_factors_follow_that_distribution_between_zero_and_two() -> None:
    x = np.random.default_rng(4).gamma(2, 30, 20_000)
    data = microdata(x=x)
    lambda2 = 0.5
    factor = numbers(MultiplicativeNoise(scheme="truncated_normal", lambda2=lambda2), data) / x
    variance = lambda2 * x.var(ddof=1) / (x.var(ddof=1) + x.mean() ** 2)
    sigma = brentq(lambda s: stats.truncnorm.var(-1 / s, 1 / s, loc=1, scale=s) - variance, 0.05, 20)
    assert stats.kstest(factor, stats.truncnorm(-1 / sigma, 1 / sigma, loc=1, scale=sigma).cdf).pvalue > 1e-4
    assert factor.min() > 0
    assert factor.max() < 2


def test_lognormal_factors_follow_that_distribution() -> None:
    x = np.random.default_rng(4).gamma(2, 30, 20_000)
    factor = numbers(MultiplicativeNoise(scheme="lognormal", lambda2=0.5), microdata(x=x)) / x
    sigma = np.sqrt(np.log(1 + 0.5 * x.var(ddof=1) / (x.var(ddof=1) + x.mean() ** 2)))
    assert stats.kstest(factor, stats.lognorm(sigma, scale=np.exp(-(sigma**2) / 2)).cdf).pvalue > 1e-4


@pytest.mark.parametrize("scheme", ["lognormal", "truncated_normal"])
def test_factors_keep_signs_and_zeros_and_the_zeros_are_counted(scheme: Any) -> None:
    x = np.random.default_rng(4).normal(2, 3, 500)
    x[:7] = 0
    data = microdata(x=x)
    mask = MultiplicativeNoise(scheme=scheme, lambda2=0.2)
    np.testing.assert_array_equal(np.sign(numbers(mask, data)), np.sign(x))
    assert "7 values are zero and stay zero, so they are released as they are" in says(mask, data)


def test_values_without_a_logarithm_are_refused_with_their_number_and_a_way_out() -> None:
    data = microdata(x=np.array([1.0, 2.0, 0.0, -3.0, np.nan, 9.0]))
    with pytest.raises(DataError, match=r"2 values of 'x' are zero or negative.*scheme = 'lognormal'"):
        released(MultiplicativeNoise(), data)


def test_a_truncated_factor_that_would_have_to_vary_more_than_a_uniform_one_is_refused() -> None:
    data = microdata(x=np.random.default_rng(1).normal(0, 1, 100))
    with pytest.raises(DataError, match="more noise than a factor between 0 and 2 can make"):
        released(MultiplicativeNoise(scheme="truncated_normal", lambda2=0.5), data).masked.numbers("x")


def test_multiplication_element_by_element_is_no_matrix_mask() -> None:
    with pytest.raises(NotApplicable, match="element by element"):
        MultiplicativeNoise().as_matrix(microdata(x=np.arange(1.0, 9.0)), Draws(1))


# Within bounds


@pytest.mark.parametrize("at", [2.0, 8.0, 0.0])
@pytest.mark.parametrize("lambda2", [0.05, 3.0])
def test_bounded_noise_is_normal_noise_given_that_the_result_is_inside(at: float, lambda2: float) -> None:
    x = np.where(np.arange(20_000) % 2 == 0, at, 5.0)
    y = numbers(BoundedNoise(low=0, high=10, lambda2=lambda2), microdata(x=x))[::2]
    sigma = np.sqrt(lambda2 * x.var(ddof=1))
    law = stats.truncnorm(-at / sigma, (10 - at) / sigma, loc=at, scale=sigma)
    assert stats.kstest(y, law.cdf).pvalue > 1e-4


def test_bounded_noise_does_not_heap_values_on_the_bounds_and_clipped_noise_does() -> None:
    x = np.random.default_rng(1).uniform(0, 10, 5000)
    data = microdata({"x": {"bounds": (0, 10)}}, x=x)
    inside, clipped = numbers(BoundedNoise(lambda2=1), data), numbers(IndependentNoise(lambda2=1), data)
    assert np.isin(inside, [0, 10]).sum() == 0
    assert np.isin(clipped, [0, 10]).sum() > 500
    assert inside.min() > 0
    assert inside.max() < 10
    assert "every released value is within bounds" in says(BoundedNoise(lambda2=1), data)


def test_bounded_whole_numbers_have_the_probability_of_what_rounds_to_them() -> None:
    x = np.where(np.arange(40_000) % 2 == 0, 1, 4)
    data = microdata({"x": {"integer": True, "bounds": (0, 5)}}, x=x)
    y = numbers(BoundedNoise(lambda2=1), data)[::2]
    sigma = np.std(x, ddof=1)
    law = stats.truncnorm((-0.5 - 1) / sigma, (5.5 - 1) / sigma, loc=1, scale=sigma)
    expected = np.diff(law.cdf(np.arange(7) - 0.5)) * len(y)
    assert stats.chisquare(np.bincount(y.astype(int), minlength=6), expected).pvalue > 1e-4


def test_a_column_without_bounds_gets_ordinary_noise_and_no_bounds_at_all_are_refused() -> None:
    g = np.random.default_rng(1)
    data = microdata({"x": {"bounds": (0, None)}}, x=g.uniform(0, 9, 900), y=g.normal(size=900))
    names = ("x", "y")
    step = Draws(1)
    y = BoundedNoise(names).fit(data, step).run(data, step).numbers("y")
    np.testing.assert_allclose(y, IndependentNoise(names).fit(data, step).run(data, step).numbers("y"), rtol=1e-9)
    assert numbers(BoundedNoise(names), data, "x").min() > 0
    with pytest.raises(ParameterError, match="no bounds are given"):
        released(BoundedNoise("y"), data)


def test_values_outside_the_bounds_are_moved_to_them_and_counted() -> None:
    x = np.concatenate([np.random.default_rng(1).uniform(0, 9, 900), np.full(11, 50.0)])
    mask = BoundedNoise(low=0, high=10)
    assert numbers(mask, microdata(x=x)).max() <= 10
    assert "11 values lay outside the bounds" in says(mask, microdata(x=x))


def test_bounds_by_column_and_bounds_that_leave_no_room() -> None:
    g = np.random.default_rng(1)
    data = microdata(x=g.uniform(0, 1, 500), y=g.uniform(5, 6, 500))
    mask = BoundedNoise(("x", "y"), low={"x": 0, "y": 5}, high={"x": 1, "y": 6}, lambda2=2)
    after = released(mask, data).masked
    assert 0 < after.numbers("x").min() < after.numbers("x").max() < 1
    assert 5 < after.numbers("y").min() < after.numbers("y").max() < 6
    for low, high in ((3, 3), ({"x": 1.0, "y": 7}, {"x": 2.0, "y": 6}), (7, {"x": 8.0, "y": 6})):
        with pytest.raises(ParameterError, match="low must be below high"):
            BoundedNoise(("x", "y"), low=low, high=high)
    with pytest.raises(ParameterError, match=r"high gives no bound for y\."):
        BoundedNoise(("x", "y"), high={"x": 1.0})
    clash = microdata({"x": {"bounds": (0, 9)}}, x=g.uniform(0, 1, 50))
    with pytest.raises(ParameterError, match="leave no room"):
        released(BoundedNoise("x", low=10), clash)


# On outliers only


def test_only_values_far_from_the_median_get_noise() -> None:
    x = np.random.default_rng(1).standard_t(3, 4000) * 10 + 50
    data = microdata(x=x)
    y = numbers(OutlierNoise(share=0.01, lambda2=0.5), data)
    reach = stats.norm.ppf(0.995) * stats.median_abs_deviation(x, scale="normal")
    far = np.abs(x - np.median(x)) > reach
    assert 50 < far.sum() < 400
    np.testing.assert_array_equal(y != x, far)
    assert f"{far.sum():,} of 4,000 records are outliers and got noise" in says(OutlierNoise(share=0.01), data)


def test_the_noise_of_outliers_has_the_level_that_it_says() -> None:
    x = np.random.default_rng(1).normal(50, 10, 200_000)
    y = numbers(OutlierNoise(method="quantile", share=0.2, lambda2=0.3), microdata(x=x))
    noise = (y - x)[y != x]
    assert len(noise) == pytest.approx(40_000, abs=2)
    assert noise.var() / x.var(ddof=1) == pytest.approx(0.3, rel=4.5 * np.sqrt(2 / 40_000))


def test_quantiles_leave_half_the_share_on_each_side() -> None:
    x = np.random.default_rng(1).permutation(1000).astype(float)
    y = numbers(OutlierNoise(method="quantile", share=0.1), microdata(x=x))
    assert set(x[y != x]) == {*map(float, range(49)), *map(float, range(950, 1000))}


def correlated(n: int = 3000, planted: int = 60) -> tuple[Microdata, Numbers]:
    """Normal records with correlation 0.95, and some that stand out only in both columns together."""
    g = np.random.default_rng(7)
    x = g.standard_normal((n, 2)) @ np.linalg.cholesky([[1, 0.95], [0.95, 1]]).T
    x[:planted] = np.array([1.6, -1.6]) + 0.1 * g.standard_normal((planted, 2))
    return microdata(x=20 * x[:, 0] + 100, y=x[:, 1]), x


def test_a_record_that_stands_out_only_in_several_columns_together_gets_noise_on_all() -> None:
    sklearn = pytest.importorskip("sklearn.covariance")
    data, x = correlated()
    after = released(OutlierNoise(method="mahalanobis", share=0.001, lambda2=0.5), data).masked
    moved = np.column_stack([after.numbers(n) != data.numbers(n) for n in ("x", "y")])
    np.testing.assert_array_equal(moved[:, 0], moved[:, 1])
    assert moved[:60].all()
    oracle = sklearn.MinCovDet(random_state=0).fit(x).mahalanobis(x) > stats.chi2.ppf(0.999, 2)
    assert (moved[:, 0] != oracle).mean() < 0.003
    alone = released(OutlierNoise(share=0.001), data).masked
    assert (alone.numbers("x") == data.numbers("x"))[:60].all()


def test_normal_data_have_the_share_of_outliers_that_was_asked_for() -> None:
    x = np.random.default_rng(3).standard_normal((40_000, 3)) @ np.array([[1, 0.5, 0.2], [0, 1, 0.4], [0, 0, 1]])
    data = microdata(x=x[:, 0], y=x[:, 1], z=x[:, 2])
    for method in ("mad", "mahalanobis"):
        y = numbers(OutlierNoise(method=method, share=0.05), data)  # type: ignore[arg-type]
        # the robust scale is itself an estimate, whose error moves the share by more than the binomial error alone
        assert (y != x[:, 0]).mean() == pytest.approx(0.05, abs=0.004)


def test_the_noise_of_multivariate_outliers_is_correlated_like_the_data() -> None:
    data, _ = correlated(100_000, 0)
    after = released(OutlierNoise(method="mahalanobis", share=0.5, lambda2=0.4), data).masked
    noise = np.column_stack([after.numbers(n) - data.numbers(n) for n in ("x", "y")])
    noise = noise[(noise != 0).all(axis=1)]
    truth = 0.4 * np.cov(np.column_stack([data.numbers("x"), data.numbers("y")]), rowvar=False)
    error = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / len(noise))
    assert len(noise) > 45_000
    assert (np.abs(np.cov(noise, rowvar=False) - truth) < 4.5 * error).all()


def test_a_record_with_gaps_is_judged_by_the_columns_it_has() -> None:
    data, _ = correlated()
    x, y = data.numbers("x").copy(), data.numbers("y").copy()
    y[:30] = np.nan  # no longer an outlier: x alone is not far
    y[100:110], x[100:110] = np.nan, 300.0  # far in x alone
    x[200], y[200] = np.nan, np.nan
    gappy = microdata(x=x, y=y)
    after = released(OutlierNoise(method="mahalanobis", share=0.001), gappy).masked.numbers("x")
    assert (after[:30] == x[:30]).all()
    assert (after[30:60] != x[30:60]).all()
    assert (after[100:110] != x[100:110]).all()
    assert np.isnan(after[200])


def test_outliers_among_columns_that_add_up_are_found_and_nothing_blows_up() -> None:
    g = np.random.default_rng(8)
    b, c = g.normal(50, 7, 2000), g.normal(80, 9, 2000)
    b[:5] = 500
    data = microdata(a=b + c, b=b, c=c)
    after = released(OutlierNoise(method="mahalanobis", share=0.001), data).masked
    moved = after.numbers("b") != b
    assert moved[:5].all()
    assert moved.mean() < 0.01
    np.testing.assert_allclose(after.numbers("a"), after.numbers("b") + after.numbers("c"), rtol=1e-9)
    assert np.abs(after.numbers("a")).max() < 2000


def test_outlier_noise_says_when_there_is_no_outlier() -> None:
    data = microdata(x=np.arange(100.0))
    assert "none of 100 records is an outlier, so none got noise" in says(OutlierNoise(share=1e-6), data)


def test_a_column_mostly_of_one_value_has_no_median_deviation() -> None:
    x = np.concatenate([np.zeros(60), np.arange(1.0, 41.0)])
    with pytest.raises(DataError, match="median absolute deviation is zero"):
        released(OutlierNoise(), microdata(x=x))
    y = numbers(OutlierNoise(method="quantile", share=0.1), microdata(x=x))
    assert (y != x).sum() == 5  # zeros are the lowest quantile themselves


def test_outlier_noise_as_a_matrix_displaces_the_outliers_and_depends_on_the_data() -> None:
    data, _ = correlated()
    form = OutlierNoise(method="mahalanobis").as_matrix(data, Draws(1))
    assert form.depends == ("C",)
    assert 0 < (np.asarray(form.C)[:, 0] != 0).mean() < 0.2
    additive = KimNoise().as_matrix(data, Draws(1))
    assert (np.asarray(additive.C) != 0).all()
    assert additive.depends == ()


def test_values_outside_the_bounds_of_the_schema_are_moved_to_them_though_they_are_no_outliers() -> None:
    x = np.random.default_rng(4).normal(50, 10, 200)
    limit = np.sort(x)[150]  # nobody beyond it is an outlier at this share
    schema = Schema((Attribute("x", role="confidential", bounds=(None, limit)),))  # type: ignore[arg-type]
    release = OutlierNoise(share=1e-6).apply(Microdata(pa.table({"x": x}), schema), Draws(1))
    np.testing.assert_array_equal(release.masked.numbers("x"), np.minimum(x, limit))
    assert any("x: 49 values that are no outliers were made whole or moved" in g.says for g in release.guarantees)
