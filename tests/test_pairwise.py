"""Moments of columns with gaps against pandas, NumPy, and a twin that goes pair by pair."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.kernels.moments import column_moments, moments_of_pairs, rank_shares

Numbers = NDArray[np.float64]


def gappy(seed: int, n: int = 300, k: int = 4, gaps: float = 0.2) -> Numbers:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, k)) @ g.normal(size=(k, k)) * [1, 10, 1e-3, 1e5][:k] + [0, 1e6, 3, -1e5][:k]
    x[g.random(x.shape) < gaps] = np.nan
    return x


@pytest.mark.parametrize("n", [2, 3, 50, 20_000])
def test_without_weights_they_are_those_of_pandas(n: int) -> None:
    x = gappy(n, n)
    found, frame = moments_of_pairs(list(x.T)), pd.DataFrame(x)
    np.testing.assert_allclose(found.mean, frame.mean(), rtol=1e-12)
    scale = np.sqrt(np.outer(frame.var(), frame.var()))
    np.testing.assert_allclose(found.covariance / scale, frame.cov(min_periods=2) / scale, atol=1e-9)
    np.testing.assert_allclose(found.variance, frame.var(), rtol=1e-9)
    has = frame.notna().to_numpy()
    np.testing.assert_allclose(found.share, [[(has[:, i] & has[:, j]).mean() for j in range(4)] for i in range(4)])
    np.testing.assert_allclose(found.correlation, frame.corr(min_periods=2), atol=1e-9)


def slow(x: Numbers, y: Numbers, w: Numbers) -> tuple[float, float]:
    """Weighted covariance and correlation over the records that have both and a weight, straight from the definition."""
    both = ~np.isnan(x) & ~np.isnan(y) & (w > 0)
    c = np.cov(x[both], y[both], aweights=w[both], ddof=0)
    n = both.sum()
    return float(c[0, 1] * n / (n - 1)), float(c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]))


@pytest.mark.parametrize("seed", range(4))
def test_with_weights_they_are_those_of_the_definition_pair_by_pair(seed: int) -> None:
    x, g = gappy(seed), np.random.default_rng(seed)
    w = np.where(g.random(len(x)) < 0.1, 0.0, g.gamma(2, size=len(x)))
    found = moments_of_pairs(list(x.T), w)
    for i in range(4):
        for j in range(4):
            covariance, correlation = slow(x[:, i], x[:, j], w)
            assert found.covariance[i, j] == pytest.approx(covariance, rel=1e-9)
            assert found.correlation[i, j] == pytest.approx(correlation, rel=1e-9)
            both = ~np.isnan(x[:, i]) & ~np.isnan(x[:, j])
            assert found.share[i, j] == pytest.approx(w[both].sum() / w.sum())
        known = ~np.isnan(x[:, i])
        assert found.mean[i] == pytest.approx(np.average(x[known, i], weights=w[known]))


def test_weights_that_are_all_alike_change_nothing_whatever_their_unit() -> None:
    x = gappy(9)
    plain = moments_of_pairs(list(x.T))
    for unit in (1.0, 250.0, 1e-6):
        same = moments_of_pairs(list(x.T), np.full(len(x), unit))
        for part in ("share", "mean", "covariance", "correlation"):
            np.testing.assert_allclose(getattr(same, part), getattr(plain, part), rtol=1e-9)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), gaps=st.sampled_from([0.0, 0.3, 0.8]))
def test_a_correlation_is_within_its_range_and_there_are_at_least_two_records(seed: int, n: int, gaps: float) -> None:
    x = gappy(seed, n, 3, gaps)
    found = moments_of_pairs(list(x.T))
    there = ~np.isnan(found.correlation)
    assert (np.abs(found.correlation[there]) <= 1).all()
    has = (~np.isnan(x)).astype(int)
    np.testing.assert_array_equal(there, has.T @ has >= 2)


def test_a_constant_has_no_correlation_even_where_its_mean_is_rounded() -> None:
    x = np.random.default_rng(0).normal(size=100_000)
    found = moments_of_pairs([x, np.full(100_000, 0.1)])
    assert np.isnan(found.correlation[0, 1])
    assert np.isnan(found.correlation[1, 1])
    assert found.covariance[1].tolist() == [0, 0]
    part = moments_of_pairs([np.array([7.1, 7.1, 7.1, 2.0]), np.array([1.0, 2.0, 4.0, np.nan])])
    assert np.isnan(part.correlation[0, 1])  # constant over the records that have both
    assert part.correlation[0, 0] == pytest.approx(1)


def test_columns_without_records_or_values_have_no_moments() -> None:
    nothing = moments_of_pairs([np.empty(0), np.empty(0)])
    assert np.isnan(nothing.mean).all()
    assert not nothing.share.any()
    assert column_moments(np.array([np.nan, 3.0]))[::2] == (3.0, 1)
    assert np.isnan(column_moments(np.array([np.nan, 3.0]))[1])
    gone = moments_of_pairs([np.array([1.0, 2.0, 4.0]), np.full(3, np.nan)])
    assert np.isnan(gone.covariance).tolist() == [[False, True], [True, True]]
    assert gone.share.tolist() == [[1, 0], [0, 0]]


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    g = np.random.default_rng(4)
    x, y = g.normal(size=(2, 1_000))
    far = moments_of_pairs([x + 1e7, y - 1e7])
    near = moments_of_pairs([x, y])
    np.testing.assert_allclose(far.covariance, near.covariance, atol=1e-8)


def test_in_units_of_their_own_mean_and_sd_covariances_are_correlations() -> None:
    x = gappy(3, gaps=0.0)
    own = moments_of_pairs(list(x.T))
    units = own.standardised(own.mean, np.sqrt(own.variance))
    np.testing.assert_allclose(units.mean, 0, atol=1e-12)
    np.testing.assert_allclose(units.covariance, own.correlation, atol=1e-12)


@settings(max_examples=60)
@given(st.lists(st.sampled_from([np.nan, -1.5, 0.0, 2.0, 3.0, 1e9]), min_size=1, max_size=30), st.integers(0, 99))
def test_the_share_below_and_half_of_the_equals_is_counted_one_by_one(values: list[float], seed: int) -> None:
    x, w = np.array(values), np.random.default_rng(seed).integers(0, 4, len(values)).astype(float)
    known = ~np.isnan(x)
    for weights in (None, w):
        v = (np.ones(len(x)) if weights is None else weights) * known
        slow = [(v[x < a].sum() + v[x == a].sum() / 2) / v.sum() if v.any() and a == a else np.nan for a in x]
        found = rank_shares(x, weights)
        assert (np.isnan(found) == ~known).all()
        if v.any():
            np.testing.assert_allclose(found, slow)
    if known.any():
        from scipy.stats import rankdata

        np.testing.assert_allclose(rank_shares(x)[known], (rankdata(x[known]) - 0.5) / known.sum())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outlier", [1e6, 1e9, 1e14])
def test_an_outlier_that_a_pair_of_columns_does_not_have_costs_it_no_digits(outlier: float, weighted: bool) -> None:
    g = np.random.default_rng(2)
    x = g.random(200)
    y = x + g.random(200)
    x[-1], y[-1] = outlier, np.nan
    w = g.integers(1, 4, 200).astype(np.float64) if weighted else np.ones(200)
    found = moments_of_pairs([x, y], w if weighted else None)
    repeated = np.repeat(np.column_stack([x, y])[:-1], w[:-1].astype(int), axis=0)
    assert found.correlation[0, 1] == pytest.approx(np.corrcoef(repeated.T)[0, 1], rel=1e-9)
    assert found.covariance[1, 0] == pytest.approx(np.cov(repeated.T, ddof=0)[0, 1] * 199 / 198, rel=1e-9)
    assert found.variance[0] == pytest.approx(slow(x, x, w)[0], rel=1e-9)


@pytest.mark.parametrize("unit", [1e-140, 1e-100, 1.0, 1e100, 1e140])
def test_the_unit_of_a_column_costs_no_digits(unit: float) -> None:
    x = np.random.default_rng(3).normal(size=(50, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    found = moments_of_pairs(list((x * unit).T))
    assert found.correlation == pytest.approx(np.corrcoef(x.T), rel=1e-12)
    assert found.covariance / unit / unit == pytest.approx(np.cov(x.T), rel=1e-12)
