"""Data shuffling and general additive data perturbation: what stays, what a record no longer tells, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.datasets import census
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.copula import (
    hermite_weights,
    latent_correlation,
    latent_from_spearman,
    midranks,
    normal_scores,
    pairwise_correlation,
    regress,
    repaired,
)
from sfumato.masks import GADP, Shuffle
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
N = 100_000
BOTH: list[type[Mask]] = [Shuffle, GADP]

# salary, income | age, years: a covariance with everything correlated
SIGMA = np.array(
    [[176.9, 68.9, 66.5, 30.0], [68.9, 306.3, 52.5, 20.0], [66.5, 52.5, 110.3, 60.0], [30.0, 20.0, 60.0, 64.0]]
)
NAMES = ("salary", "income", "age", "years")


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    facts = facts or {}
    table = pa.table({n: pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **facts.get(n, {})) for n in columns)))


CONFIDENTIAL, KEY = {"role": "confidential"}, {"role": "key"}
ROLES = {"salary": CONFIDENTIAL, "income": CONFIDENTIAL, "age": KEY, "years": KEY}


@pytest.fixture(scope="module")
def survey() -> Microdata:
    x = np.random.default_rng(2006).standard_normal((N, 4)) @ np.linalg.cholesky(SIGMA).T + [62, 96, 44, 15]
    return microdata(ROLES, **dict(zip(NAMES, x.T, strict=True)))


def matrix(data: Microdata, names: tuple[str, ...] = NAMES) -> Numbers:
    return np.column_stack([data.numbers(n) for n in names])


def scores(x: Numbers) -> Numbers:
    """Normal scores by scipy, column by column."""
    return np.column_stack([stats.norm.ppf((stats.rankdata(c) - 0.5) / len(c)) for c in x.T])


def partial(x: Numbers, y: Numbers, s: Numbers) -> float:
    """The correlation of what least squares on s leaves of x and of y."""
    s = np.column_stack([np.ones(len(s)), s])
    left = [v - s @ np.linalg.lstsq(s, v, rcond=None)[0] for v in (x, y)]
    return float(np.corrcoef(*left)[0, 1])


# Kernels


def test_midranks_are_those_of_scipy_and_missing_values_have_none() -> None:
    x = np.round(np.random.default_rng(1).normal(0, 2, 500))
    np.testing.assert_array_equal(midranks(x), stats.rankdata(x))
    x[::7] = np.nan
    np.testing.assert_array_equal(midranks(x), stats.rankdata(x, nan_policy="omit"))
    assert midranks(np.full(3, np.nan)).tolist() == pytest.approx([np.nan] * 3, nan_ok=True)
    np.testing.assert_allclose(
        normal_scores(np.array([1.0, 2.0, 3.0])), stats.norm.ppf([1 / 6, 1 / 2, 5 / 6]), atol=1e-15
    )


@pytest.mark.parametrize("gaps", [False, True])
def test_pairwise_correlations_are_those_of_pandas_in_pieces_too(gaps: bool) -> None:
    g = np.random.default_rng(2)
    x = g.normal(size=(400, 4)) @ g.normal(size=(4, 4)) + 3
    if gaps:
        x[g.random((400, 4)) < 0.2] = np.nan
    found = pairwise_correlation(lambda: iter([x[:150], x[150:151], x[151:]]))
    np.testing.assert_allclose(found, pd.DataFrame(x).corr().to_numpy(), atol=1e-12)


def test_a_constant_column_is_correlated_with_nothing() -> None:
    x = np.column_stack([np.arange(5.0), np.full(5, 0.1)])
    np.testing.assert_array_equal(pairwise_correlation(lambda: iter([x])), np.eye(2))


def test_rank_correlation_becomes_the_correlation_of_the_normal_behind_it() -> None:
    rho = np.array([-0.9, 0.0, 0.3, 1.0])
    np.testing.assert_allclose(latent_from_spearman(6 / np.pi * np.arcsin(rho / 2)), rho)


def test_a_matrix_that_is_no_correlation_is_repaired_and_one_that_is_stays() -> None:
    broken = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(broken).min() < -0.5
    fixed = repaired(broken)
    assert np.linalg.eigvalsh(fixed).min() > -1e-12
    np.testing.assert_allclose(np.diag(fixed), 1)
    good = np.array([[1.0, 0.4], [0.4, 1.0]])
    np.testing.assert_array_equal(repaired(good), good)


def test_regression_from_a_covariance_is_that_of_statsmodels_with_dependent_regressors_too() -> None:
    g = np.random.default_rng(3)
    s = g.normal(size=(200, 3)) * [1, 50, 0.01]
    x = s @ g.normal(size=(3, 2)) + g.normal(size=(200, 2))
    beta, residual, half, _ = regress(np.cov(np.column_stack([s, x]), rowvar=False), 3)
    for j in range(2):
        fit = sm.OLS(x[:, j], sm.add_constant(s)).fit()
        np.testing.assert_allclose(beta[:, j], fit.params[1:], rtol=1e-8)
        assert residual[j, j] == pytest.approx(fit.ssr / 199)
    np.testing.assert_allclose(half @ half.T, np.linalg.inv(np.cov(s, rowvar=False)), rtol=1e-8)
    twice = np.column_stack([s, s[:, 0] - s[:, 1]])
    again, left, half, rank = regress(np.cov(np.column_stack([twice, x]), rowvar=False), 4)
    np.testing.assert_allclose(left, residual, rtol=1e-6)
    np.testing.assert_allclose(twice @ again, s @ beta, rtol=1e-6, atol=1e-8)
    assert rank == 3
    square = np.cov(twice, rowvar=False)
    np.testing.assert_allclose(square @ half @ half.T @ square, square, rtol=1e-6, atol=1e-6)


def test_rounding_does_not_turn_the_root_that_draws_are_multiplied_by() -> None:
    """A balanced design has equal eigenvalues, so that eigenvectors may point anywhere in a plane."""
    school, kind = np.repeat(range(4), 60), np.tile(np.repeat(range(3), 20), 4)
    g = np.random.default_rng(5)
    z = np.column_stack([school[:, None] == np.arange(4), kind[:, None] == np.arange(3), g.normal(size=240)])
    covariance = np.cov(z, rowvar=False)
    half, rank = regress(covariance, 7)[2:]
    assert rank == 5
    for _ in range(5):
        rounded = covariance * (1 + 1e-15 * g.normal(size=covariance.shape))
        np.testing.assert_allclose(regress((rounded + rounded.T) / 2, 7).half, half, atol=1e-12)


@pytest.mark.parametrize("rho", [-0.8, -0.2, 0.5, 0.9])
def test_the_normal_correlation_behind_yes_and_no_and_behind_scores_is_found_again(rho: float) -> None:
    """Tetrachoric and biserial correlation: scipy's bivariate normal, and r = ρ φ(t) / √(pq)."""
    t = np.array([-0.4, 1.1])
    p = stats.norm.sf(t)
    both = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(-t)
    phi = (both - p.prod()) / np.sqrt((p * (1 - p)).prod())
    weights = [hermite_weights(t[[k]], np.array([0.0, 1.0])) for k in range(2)]
    found = latent_correlation(np.array([[1, phi], [phi, 1]]), np.stack(weights))
    assert found[0, 1] == pytest.approx(rho, abs=0.01)
    biserial = rho * stats.norm.pdf(t[0]) / np.sqrt(p[0] * (1 - p[0]))
    fine = stats.norm.ppf(np.arange(1, 20_000) / 20_000)
    score = hermite_weights(fine, stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000))
    found = latent_correlation(np.array([[1, biserial], [biserial, 1]]), np.stack([weights[0], score]))
    assert found[0, 1] == pytest.approx(rho, abs=0.002)


# Shuffling


def test_shuffling_keeps_each_columns_values_and_all_other_columns(survey: Microdata) -> None:
    made = Shuffle().apply(survey, Draws(1))
    for name in ("salary", "income"):
        before, after = made.pair(name)
        np.testing.assert_array_equal(np.sort(after), np.sort(before))
        assert (before == after).mean() < 0.001
    for name in ("age", "years"):
        np.testing.assert_array_equal(*made.pair(name))
    assert any("exactly the values" in g.says for g in made.guarantees)


def test_shuffling_keeps_rank_correlations_of_all_columns(survey: Microdata) -> None:
    after = Shuffle().apply(survey, Draws(1)).masked
    before_rho, after_rho = (stats.spearmanr(matrix(d)).statistic for d in (survey, after))
    assert np.abs(before_rho - after_rho).max() < 4.5 / np.sqrt(N)


def test_a_shuffled_value_says_nothing_about_the_record_beyond_what_the_given_columns_say(survey: Microdata) -> None:
    after = scores(matrix(Shuffle().apply(survey, Draws(1)).masked))
    before = scores(matrix(survey))
    for j in range(2):
        for k in range(2):
            assert abs(partial(before[:, j], after[:, k], before[:, 2:])) < 4.5 / np.sqrt(N)


@pytest.mark.parametrize("mask", BOTH)
@pytest.mark.parametrize("similarity", [0.3, 0.8])
def test_similarity_is_the_correlation_of_released_and_original_given_the_rest(
    survey: Microdata, mask: type[Mask], similarity: float
) -> None:
    made = mask(similarity=similarity).apply(survey, Draws(1)).masked  # type: ignore[call-arg]
    before, after = scores(matrix(survey)), scores(matrix(made))
    for j in range(2):
        assert partial(before[:, j], after[:, j], before[:, 2:]) == pytest.approx(similarity, abs=4.5 / np.sqrt(N))
    assert np.abs(np.corrcoef(after, rowvar=False) - np.corrcoef(before, rowvar=False)).max() < 4.5 / np.sqrt(N)


def test_shuffling_keeps_ranks_of_skewed_numbers_where_covariances_mean_little() -> None:
    g = np.random.default_rng(4)
    z = g.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 20_000)
    data = microdata(ROLES, salary=np.exp(2 * z[:, 0]), age=z[:, 1] ** 3)
    after = Shuffle().apply(data, Draws(2)).masked
    wanted = stats.spearmanr(data.numbers("salary"), data.numbers("age")).statistic
    assert stats.spearmanr(after.numbers("salary"), after.numbers("age")).statistic == pytest.approx(wanted, abs=0.02)
    assert wanted == pytest.approx(6 / np.pi * np.arcsin(0.35), abs=0.02)


@pytest.mark.parametrize("mask", BOTH)
def test_means_by_category_are_kept_whatever_their_order(mask: type[Mask]) -> None:
    g = np.random.default_rng(5)
    place = g.integers(0, 4, 40_000)
    pay = g.normal(size=40_000) + np.array([0.0, 2.0, -1.0, 1.0])[place]
    data = microdata(
        {"place": KEY | {"scale": "unordered"}, "pay": CONFIDENTIAL}, place=np.array([*"dbca"])[place], pay=pay
    )
    after = mask().apply(data, Draws(3)).masked.numbers("pay")
    means = [[x[place == k].mean() for k in range(4)] for x in (pay, after)]
    np.testing.assert_allclose(means[1], means[0], atol=0.09)  # scores are not quite linear in the categories' means
    np.testing.assert_allclose(means[1], [0, 2, -1, 1], atol=0.1)


@pytest.mark.parametrize("mask", BOTH)
def test_missing_values_stay_and_the_others_are_masked_with_what_is_known(mask: type[Mask]) -> None:
    g = np.random.default_rng(6)
    age = g.normal(44, 10, 5000)
    pay = 2 * age + g.normal(0, 5, 5000)
    hours = g.normal(36, 4, 5000).round()
    pay[::5], hours[::3], age[1::50] = np.nan, 99, np.nan
    facts = {"pay": CONFIDENTIAL, "age": KEY, "hours": CONFIDENTIAL | {"missing": (99,), "integer": True}}
    data = microdata(facts, pay=pay, hours=hours.astype(int), age=age)
    made = mask().apply(data, Draws(1))
    after = made.masked.batch().column("hours").numbers
    assert (after[::3] == 99).all()
    assert np.isnan(made.masked.numbers("pay")[::5]).all()
    before, now = made.pair("pay")
    known = ~np.isnan(before) & ~np.isnan(age)
    assert np.corrcoef(now[known], age[known])[0, 1] == pytest.approx(
        np.corrcoef(before[known], age[known])[0, 1], abs=0.02
    )
    lost = ~np.isnan(before) & np.isnan(age)  # without an age, as those without an age are
    assert np.nanmean(now[lost]) == pytest.approx(np.nanmean(before[lost]), abs=4.5 * 21 / np.sqrt(lost.sum()))


@pytest.mark.parametrize("mask", BOTH)
def test_a_household_gets_one_value_that_its_members_pay_goes_with(mask: type[Mask]) -> None:
    g = np.random.default_rng(7)
    home = np.repeat(np.arange(10_000), 2)
    rent = np.repeat(g.normal(size=10_000), 2)
    urban = np.repeat(g.integers(0, 2, 10_000), 2)
    rent += urban
    age = g.normal(size=20_000)
    pay = rent + age + 0.5 * g.normal(size=20_000)
    facts = {
        "home": {"role": "household"},
        "rent": CONFIDENTIAL | {"level": "household"},
        "urban": KEY | {"level": "household", "scale": "unordered"},
        "age": KEY,
        "pay": CONFIDENTIAL,
    }
    data = microdata(facts, home=home, rent=rent, urban=urban, age=age, pay=pay)
    made = mask().apply(data, Draws(8))
    new = made.masked.numbers("rent")
    np.testing.assert_array_equal(new[::2], new[1::2])
    assert np.corrcoef(new, urban)[0, 1] == pytest.approx(np.corrcoef(rent, urban)[0, 1], abs=0.03)
    for other in ("rent", "age"):
        was, now = (np.corrcoef(d.numbers("pay"), d.numbers(other))[0, 1] for d in (data, made.masked))
        assert now == pytest.approx(was, abs=0.03)
    assert abs(partial(rent, new, urban[:, None])) < 4.5 / np.sqrt(10_000)
    if mask is Shuffle:
        np.testing.assert_array_equal(np.sort(new[::2]), np.sort(rent[::2]))


def test_shuffling_without_given_columns_is_a_random_permutation() -> None:
    data = microdata({"pay": CONFIDENTIAL}, pay=np.arange(2000.0))
    before, after = Shuffle().apply(data, Draws(1)).pair("pay")
    assert sorted(after) == sorted(before)
    assert abs(np.corrcoef(before, after)[0, 1]) < 4.5 / np.sqrt(2000)


@pytest.mark.parametrize("mask", BOTH)
def test_a_key_of_a_hundred_thousand_levels_counts_as_one_and_is_said_to(mask: type[Mask]) -> None:
    n = 100_000
    facts = {"zip": KEY | {"scale": "unordered"}, "pay": CONFIDENTIAL}
    data = microdata(facts, zip=[f"z{i}" for i in range(n)], pay=np.random.default_rng(1).normal(size=n))
    made = mask().apply(data, Draws(1))
    assert any("zip: 100,000 of its categories count as one" in g.says for g in made.guarantees)
    assert abs(np.corrcoef(*made.pair("pay"))[0, 1]) < 4.5 / np.sqrt(n)


# General additive data perturbation


@pytest.mark.parametrize("similarity", [0.0, 0.6])
def test_gadp_has_the_moments_of_the_algebra(survey: Microdata, similarity: float) -> None:
    """(Y, S) has the covariance of (X, S), and Cov(Y, X) = Σ(XS) Σ(SS)⁻¹ Σ(SX) + κ Σ(XX|S)."""
    made = GADP(similarity=similarity).apply(survey, Draws(1)).masked
    before, after = matrix(survey), matrix(made)
    sample = np.cov(before, rowvar=False)
    explained = sample[:2, 2:] @ np.linalg.inv(sample[2:, 2:]) @ sample[2:, :2]
    cross = explained + similarity * (sample[:2, :2] - explained)
    truth = np.block([[sample, np.vstack([cross.T, sample[2:, :2]])], [cross, sample[:2, 2:], sample[:2, :2]]])
    truth[4:, :2], truth[:2, 4:] = cross, cross.T
    found = np.cov(np.column_stack([before, after[:, :2]]), rowvar=False)
    reach = 4.5 * np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / N)
    assert (np.abs(found - truth) <= reach).all()
    np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0), atol=4.5 * 18 / np.sqrt(N))


def test_the_regression_on_given_numbers_and_categories_is_kept() -> None:
    """Coefficients by statsmodels, within their standard errors."""
    g = np.random.default_rng(9)
    n = 20_000
    age, sex = g.normal(44, 10, n), g.integers(0, 2, n)
    pay = 3 + 0.5 * age - 4 * sex + g.normal(0, 3, n)
    facts = {"age": KEY, "sex": KEY | {"scale": "unordered"}, "pay": CONFIDENTIAL}
    data = microdata(facts, age=age, sex=np.array(["f", "m"])[sex], pay=pay)
    after = GADP().apply(data, Draws(4)).masked.numbers("pay")
    design = sm.add_constant(np.column_stack([age, sex]))
    was, now = sm.OLS(pay, design).fit(), sm.OLS(after, design).fit()
    assert (np.abs(now.params - was.params) < 4.5 * was.bse).all()
    assert now.mse_resid == pytest.approx(was.mse_resid, rel=0.05)


def test_gadp_on_numbers_is_a_matrix_mask() -> None:
    g = np.random.default_rng(10)
    facts = {
        "a": CONFIDENTIAL,
        "b": CONFIDENTIAL,
        "r": CONFIDENTIAL | {"level": "household"},
        "s": KEY,
        "home": {"role": "household"},
    }
    s = g.normal(size=60)
    data = microdata(
        facts,
        a=s + g.normal(size=60),
        b=g.normal(size=60),
        r=np.repeat(g.normal(size=30), 2),
        s=s,
        home=np.arange(60) // 2,
    )
    mask = GADP(similarity=0.4)
    form = mask.as_matrix(data, Draws(5))
    made = mask.apply(data, Draws(5)).masked
    np.testing.assert_allclose(form.apply(matrix(data, form.names)), matrix(made, form.released), rtol=1e-10)
    assert form.random == ("C",)
    # C is a constant and noise: it does not hang on the records
    noise = form.C - form.C.mean(axis=0)  # type: ignore[operator]
    assert np.abs(np.corrcoef(noise[:, :3], matrix(data, form.names), rowvar=False)[:3, 3:]).max() < 4.5 / np.sqrt(60)


def test_gadp_given_categories_or_gaps_is_no_matrix_mask(survey: Microdata) -> None:
    facts = {"sex": KEY | {"scale": "unordered"}, "pay": CONFIDENTIAL}
    data = microdata(facts, sex=["f", "m"] * 20, pay=np.arange(40.0) ** 2)
    with pytest.raises(NotApplicable, match=r"not a matrix mask .*categories, or values are missing"):
        GADP().as_matrix(data, Draws(1))
    with pytest.raises(NotApplicable, match="exchange others"):
        Shuffle().as_matrix(data, Draws(1))


def test_gadp_is_not_additive_noise(survey: Microdata) -> None:
    assert GADP().noise(NAMES, SIGMA, survey.schema) is None


# Refusals


@pytest.mark.parametrize("mask", BOTH)
def test_a_column_that_the_given_ones_determine_is_refused_since_it_would_not_be_masked(mask: type[Mask]) -> None:
    data = microdata(ROLES, salary=np.arange(50.0), age=100 - 2 * np.arange(50.0))
    with pytest.raises(DataError, match="salary can be computed from the given columns"):
        mask().apply(data, Draws(1))
    mask(given=()).apply(data, Draws(1))  # type: ignore[call-arg]


@pytest.mark.parametrize("mask", BOTH)
def test_what_makes_no_sense_is_refused_in_a_sentence(mask: type[Any]) -> None:
    with pytest.raises(ParameterError, match="cannot mask salary and take it as given"):
        mask(columns=["salary"], given=["age", "salary"])
    data = microdata(ROLES, salary=np.full(50, 2.0), age=np.arange(50.0))
    with pytest.raises(DataError, match="constant"):
        mask().apply(data, Draws(1))
    data = microdata(ROLES, salary=np.r_[1.0, 2.0, np.full(48, np.nan)], age=np.arange(50.0))
    with pytest.raises(DataError, match="fewer than three"):
        mask().apply(data, Draws(1))
    with pytest.raises(ParameterError, match="cannot mask salary and take it"):
        mask(given=["salary"]).apply(data, Draws(1))


def test_more_regressors_than_records_are_refused() -> None:
    g = np.random.default_rng(11)
    facts = {"pay": CONFIDENTIAL} | {f"k{i}": KEY for i in range(12)}
    data = microdata(facts, pay=g.normal(size=10), **{f"k{i}": g.normal(size=10) for i in range(12)})
    with pytest.raises(DataError, match=r"10 records .* too few .* 12 regressors|computed from the given"):
        GADP().apply(data, Draws(1))


def test_dates_cannot_be_given() -> None:
    data = microdata(
        {"pay": CONFIDENTIAL, "born": KEY}, pay=np.arange(9.0), born=pd.date_range("2001-01-01", periods=9)
    )
    with pytest.raises(DataError, match="'born' holds dates"):
        GADP().apply(data, Draws(1))


def test_given_columns_that_depend_on_each_other_do_not_seem_to_determine_the_rest() -> None:
    """Regions, districts and tracts say the same thing three times; who has no occupation is not at work."""
    data = census(households=3_000, fraction=0.3).sample
    made = Shuffle(["salary"]).apply(data, Draws(1))
    before, after = made.pair("salary")
    work = data.batch(["employment"]).column("employment").arrow.to_pylist()
    at_work = np.array([w == "employed" for w in work]) & ~np.isnan(before)
    assert (before[at_work] != after[at_work]).mean() > 0.8
    np.testing.assert_array_equal(np.sort(before[~np.isnan(before)]), np.sort(after[~np.isnan(after)]))
    rank = stats.spearmanr(before[at_work], after[at_work]).statistic
    assert 0.05 < rank < 0.8
