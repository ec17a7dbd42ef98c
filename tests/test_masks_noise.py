"""Noise in proportion to the variance: its size, its correlations, and what it leaves alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from small_files import amounts as microdata
from small_files import column_of_numbers as numbers
from small_files import release, values

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.masks import IndependentNoise, KimNoise
from sfumato.masks.noise import AdditiveNoise

Numbers = NDArray[np.float64]
SIGMA = np.array([[17.5**2, 8.3**2, 40.0], [8.3**2, 13.3**2, 55.0], [40.0, 55.0, 10.0**2]])
NAMES = ("income", "salary", "age")
N = 200_000
NOISES: list[type[AdditiveNoise]] = [KimNoise, IndependentNoise]


@pytest.fixture(scope="module")
def survey() -> Microdata:
    """Income and salary are confidential, age is a key; jointly normal with covariance SIGMA."""
    x = np.random.default_rng(2004).standard_normal((N, 3)) @ np.linalg.cholesky(SIGMA).T + [96, 62, 44]
    data = microdata(**dict(zip(NAMES, x.T, strict=True)))
    return data.with_schema(data.schema.roles(key="age"))


def noise_of(mask: AdditiveNoise, data: Microdata, names: tuple[str, ...]) -> Numbers:
    after = release(mask, data).masked
    return np.column_stack([after.numbers(n) - data.numbers(n) for n in names])


def assert_covariance(sample: Numbers, truth: Numbers, z: float = 4.5) -> None:
    """The sample covariance of normal numbers has variance (Ωᵢᵢ Ωⱼⱼ + Ωᵢⱼ²) / n in each entry."""
    diagonal = np.diag(truth)
    error = np.sqrt((np.outer(diagonal, diagonal) + truth**2) / len(sample))
    assert (np.abs(np.cov(sample, rowvar=False) - truth) <= z * error).all()


# Its size and its correlations


@pytest.mark.parametrize("lambda2", [0.01, 0.15, 1.0])
def test_kim_noise_has_the_covariance_of_the_data_times_lambda_squared(survey: Microdata, lambda2: float) -> None:
    both = ("income", "salary")
    noise = noise_of(KimNoise(lambda2=lambda2), survey, both)
    sample = np.cov(np.column_stack([survey.numbers(n) for n in both]), rowvar=False)
    assert_covariance(noise, lambda2 * sample)
    assert (np.abs(noise.mean(axis=0)) < 4.5 * np.sqrt(lambda2 * np.diag(sample) / N)).all()


@pytest.mark.parametrize("lambda2", [0.01, 0.15, 1.0])
def test_independent_noise_has_the_same_variances_and_no_covariance(survey: Microdata, lambda2: float) -> None:
    both = ("income", "salary")
    noise = noise_of(IndependentNoise(lambda2=lambda2), survey, both)
    variances = [np.var(survey.numbers(n), ddof=1) for n in both]
    assert_covariance(noise, lambda2 * np.diag(variances))


@pytest.mark.parametrize("noise", NOISES)
def test_noise_is_independent_of_what_it_is_added_to(survey: Microdata, noise: type[AdditiveNoise]) -> None:
    added = noise_of(noise(lambda2=1.0), survey, ("income", "salary"))
    for name, column in itertools.product(NAMES, added.T):
        assert abs(np.corrcoef(survey.numbers(name), column)[0, 1]) < 4.5 / np.sqrt(N)


def test_kim_noise_keeps_correlations_among_masked_columns(survey: Microdata) -> None:
    after = release(KimNoise(lambda2=0.5), survey).masked
    before = np.corrcoef(survey.numbers("income"), survey.numbers("salary"))[0, 1]
    kept = np.corrcoef(after.numbers("income"), after.numbers("salary"))[0, 1]
    assert abs(kept - before) < 4.5 * np.sqrt(2 / N)


def test_independent_noise_shrinks_correlations_among_masked_columns_by_one_plus_lambda_squared(
    survey: Microdata,
) -> None:
    after = release(IndependentNoise(lambda2=0.5), survey).masked
    before = np.corrcoef(survey.numbers("income"), survey.numbers("salary"))[0, 1]
    left = np.corrcoef(after.numbers("income"), after.numbers("salary"))[0, 1]
    assert abs(left - before / 1.5) < 4.5 / np.sqrt(N)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("lambda2", [0.15, 1.0])
def test_the_correlation_with_an_unmasked_column_shrinks_by_the_root_of_one_plus_lambda_squared(
    survey: Microdata, noise: type[AdditiveNoise], lambda2: float
) -> None:
    after = release(noise(lambda2=lambda2), survey).masked
    for name in ("income", "salary"):
        before = np.corrcoef(survey.numbers(name), survey.numbers("age"))[0, 1]
        left = np.corrcoef(after.numbers(name), after.numbers("age"))[0, 1]
        assert abs(left - before / np.sqrt(1 + lambda2)) < 4.5 / np.sqrt(N)


def test_levels_by_column_scale_each_column_and_their_covariance(survey: Microdata) -> None:
    both, levels = ("income", "salary"), {"income": 0.04, "salary": 0.25}
    sample = np.cov(np.column_stack([survey.numbers(n) for n in both]), rowvar=False)
    scale = np.outer([0.2, 0.5], [0.2, 0.5])
    assert_covariance(noise_of(KimNoise(lambda2=levels), survey, both), scale * sample)
    assert_covariance(noise_of(IndependentNoise(lambda2=levels), survey, both), scale * np.diag(np.diag(sample)))


def test_a_level_of_zero_for_one_column_leaves_it_alone(survey: Microdata) -> None:
    after = release(KimNoise(lambda2={"income": 0.0, "salary": 0.25}), survey).masked
    np.testing.assert_array_equal(after.numbers("income"), survey.numbers("income"))
    assert not np.isin(after.numbers("salary"), survey.numbers("salary")).any()


@pytest.mark.parametrize("noise", NOISES)
def test_two_levels_share_their_draws_exactly(survey: Microdata, noise: type[AdditiveNoise]) -> None:
    small, large = (noise_of(noise(lambda2=v), survey, ("income", "salary")) for v in (0.09, 0.64))
    np.testing.assert_allclose(small / 0.3, large / 0.8, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("noise", NOISES)
def test_a_level_of_zero_gives_the_values_unchanged(survey: Microdata, noise: type[AdditiveNoise]) -> None:
    after = release(noise(lambda2=0), survey).masked
    for name in NAMES:
        np.testing.assert_array_equal(after.numbers(name), survey.numbers(name))


@pytest.mark.parametrize("noise", NOISES)
def test_only_the_named_columns_change(survey: Microdata, noise: type[AdditiveNoise]) -> None:
    after = release(noise(columns="salary"), survey).masked
    for name in ("income", "age"):
        assert after.batch([name]).column(name).equals(survey.batch([name]).column(name))
    assert not np.isin(after.numbers("salary"), survey.numbers("salary")).any()


def test_without_names_every_confidential_column_of_numbers_changes_and_no_other() -> None:
    g = np.random.default_rng(1)
    data = microdata(a=g.normal(size=50), b=g.normal(size=50), word=["x", "y"] * 25, key=g.normal(size=50))
    data = data.with_schema(data.schema.roles(key="key"))
    after = release(KimNoise(), data).masked
    changed = [n for n in data.schema.names() if values(after, n) != values(data, n)]
    assert changed == ["a", "b"]


def test_the_noise_of_a_column_does_not_depend_on_which_other_columns_get_independent_noise(survey: Microdata) -> None:
    alone = numbers(IndependentNoise(columns="salary"), survey, "salary")
    together = numbers(IndependentNoise(columns=("income", "salary")), survey, "salary")
    np.testing.assert_allclose(alone, together, rtol=1e-12)


@pytest.mark.parametrize("columns", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")])
def test_kim_noise_keeps_a_sum_a_sum(columns: tuple[str, ...]) -> None:
    g = np.random.default_rng(8)
    b, c = g.normal(50, 7, 5000), g.gamma(2, 30, 5000)
    data = microdata(a=b + c, b=b, c=c)
    noise = noise_of(KimNoise(columns=columns, lambda2=0.3), data, ("a", "b", "c"))
    np.testing.assert_allclose(noise[:, 0], noise[:, 1] + noise[:, 2], atol=1e-9)
    assert_covariance(noise, 0.3 * np.cov(np.stack([b + c, b, c])))


def test_kim_noise_keeps_a_copy_a_copy() -> None:
    x = np.random.default_rng(8).normal(size=1000)
    data = microdata(x=x, y=3 * x)
    after = release(KimNoise(), data).masked
    np.testing.assert_allclose(after.numbers("y"), 3 * after.numbers("x"), rtol=1e-9)


# Missing values, whole numbers, bounds


def holey() -> Microdata:
    g = np.random.default_rng(5)
    x = g.normal(40, 10, 1000).round(1)
    x[::7] = 999.0  # "no answer", declared
    x[::11] = np.nan
    y = pa.array(g.normal(size=1000), mask=np.arange(1000) % 5 == 0)
    return microdata({"x": {"missing": (999,)}}, x=x, y=y)


@pytest.mark.parametrize("noise", NOISES)
def test_missing_values_stay_exactly_as_they_were(noise: type[AdditiveNoise]) -> None:
    data = holey()
    after = release(noise(lambda2=0.5), data).masked
    for name in ("x", "y"):
        pairs = list(zip(values(data, name), values(after, name), strict=True))
        gaps = [i for i, (old, _) in enumerate(pairs) if old in ("NaN", None) or (name == "x" and old == 999)]
        assert len(gaps) > 150
        assert all(pairs[i][0] == pairs[i][1] for i in gaps)
        assert all(old != new for i, (old, new) in enumerate(pairs) if i not in set(gaps))


def test_a_code_for_no_answer_does_not_enter_the_variance() -> None:
    g = np.random.default_rng(5)
    x = g.normal(40, 10, 20_000)
    x[::4] = 99_999.0
    data = microdata({"x": {"missing": (99_999,)}}, x=x)
    known = data.numbers("x")[~np.isnan(data.numbers("x"))]
    noise = numbers(KimNoise(lambda2=0.25), data, "x") - data.numbers("x")
    noise = noise[~np.isnan(noise)]
    assert len(noise) == len(known) == 15_000
    assert_covariance(noise[:, None], 0.25 * np.atleast_2d(np.var(known, ddof=1)))


def test_kim_noise_uses_the_records_that_have_all_columns_and_independent_noise_those_that_have_the_column() -> None:
    g = np.random.default_rng(5)
    x = np.concatenate([g.normal(0, 1, 20_000), g.normal(0, 10, 20_000)])
    y = np.where(np.arange(40_000) < 20_000, g.normal(size=40_000), np.nan)  # answered by the first half only
    data = microdata(x=x, y=y)
    kim = numbers(KimNoise(lambda2=1), data, "x") - x
    own = numbers(IndependentNoise(lambda2=1), data, "x") - x
    assert abs(kim.var() / np.var(x[:20_000]) - 1) < 4.5 * np.sqrt(2 / 40_000)
    assert abs(own.var() / np.var(x) - 1) < 4.5 * np.sqrt(2 / 40_000)


@pytest.mark.parametrize("noise", NOISES)
def test_whole_numbers_stay_whole(noise: type[AdditiveNoise]) -> None:
    x = np.random.default_rng(1).integers(0, 100, 2000)
    data = microdata({"x": {"integer": True}}, x=pa.array(x, mask=np.arange(2000) % 9 == 0))
    after = release(noise(lambda2=0.2), data).masked
    assert pa.types.is_integer(after.batch(["x"]).column("x").arrow.type)
    assert values(after, "x")[::9] == [None] * len(values(after, "x")[::9])
    assert after.numbers("x")[1] == np.round(after.numbers("x")[1])
    assert 0.9 < np.nanstd(after.numbers("x") - data.numbers("x")) / np.sqrt(0.2 * np.nanvar(x) + 1 / 12) < 1.1


@pytest.mark.parametrize("noise", NOISES)
def test_values_stay_within_the_declared_bounds(noise: type[AdditiveNoise]) -> None:
    x = np.random.default_rng(1).uniform(0, 10, 5000)
    data = microdata({"x": {"bounds": (0, 10)}}, x=x)
    after = numbers(noise(lambda2=1), data, "x")
    assert after.min() == 0
    assert after.max() == 10
    inside = (after > 0) & (after < 10)
    assert 0.2 < inside.mean() < 0.8
    (says,) = [g for g in release(noise(lambda2=1), data).guarantees if g.step != "identifiers"]
    assert "bounds" in says.says


# Households


def households(facts: dict[str, dict[str, Any]] | None = None) -> Microdata:
    g = np.random.default_rng(3)
    number = np.repeat(np.arange(5000), 2)
    rent = np.repeat(g.normal(900, 200, 5000), 2)
    pay = rent / 2 + g.normal(0, 100, 10_000)
    facts = facts or {"rent": {"level": "household"}, "hh": {"role": "household"}}
    return microdata(facts, pay=pay, rent=rent, hh=number)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("columns", [("pay", "rent"), ("rent", "pay"), ("rent",)])
def test_a_household_column_is_masked_once_per_household(noise: type[AdditiveNoise], columns: tuple[str, ...]) -> None:
    data = households()
    added = numbers(noise(columns=columns), data, "rent") - data.numbers("rent")
    pairs = added.reshape(-1, 2)
    np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])
    assert len(np.unique(pairs[:, 0].round(9))) == 5000
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 4.5 / np.sqrt(5000)


@pytest.mark.parametrize("noise", NOISES)
def test_persons_of_a_household_do_not_share_the_noise_of_a_person_column(noise: type[AdditiveNoise]) -> None:
    data = households()
    added = (numbers(noise(), data, "pay") - data.numbers("pay")).reshape(-1, 2)
    assert (np.abs(added[:, 0] - added[:, 1]) > 1e-9).all()


def test_household_and_person_columns_keep_their_covariance_under_kim_noise() -> None:
    data = households()
    noise = noise_of(KimNoise(lambda2=0.5), data, ("pay", "rent"))
    sample = np.cov(np.column_stack([data.numbers("pay"), data.numbers("rent")]), rowvar=False)
    assert_covariance(noise, 0.5 * sample, z=4.5 * np.sqrt(2))  # two persons share a household's draws


def test_the_order_of_records_does_not_matter_for_households() -> None:
    data = households()
    order = np.random.default_rng(0).permutation(10_000)
    shuffled = data.take(order)
    a, b = numbers(KimNoise(columns="rent"), data, "rent"), numbers(KimNoise(columns="rent"), shuffled, "rent")
    np.testing.assert_allclose(b, a[order], rtol=1e-12)


@pytest.mark.parametrize("missing", ["null", "coded"])
def test_persons_without_a_household_number_do_not_share_one_noise(missing: str) -> None:
    rent = np.random.default_rng(3).normal(900, 200, 100)
    if missing == "null":
        hh, facts = pa.array([None] * 50 + [7] * 50, pa.int64()), {}
    else:
        hh, facts = pa.array([-1] * 50 + [7] * 50), {"missing": (-1,)}
    data = microdata({"rent": {"level": "household"}, "hh": {"role": "household", **facts}}, rent=rent, hh=hh)
    added = numbers(KimNoise(), data, "rent") - rent
    assert len(np.unique(added[:50].round(9))) == 50
    assert len(np.unique(added[50:].round(9))) == 1


def test_household_number_zero_is_a_household_like_any_other() -> None:
    rent = np.random.default_rng(3).normal(900, 200, 6)
    hh = pa.array([0, 0, 1, 1, None, None], pa.int64())
    data = microdata({"rent": {"level": "household"}, "hh": {"role": "household"}}, rent=rent, hh=hh)
    added = (numbers(KimNoise(), data, "rent") - rent).round(9)
    assert added[0] == added[1] != added[2] == added[3]
    assert len(np.unique(added)) == 4


# Seeds


@pytest.mark.parametrize("noise", NOISES)
def test_the_same_seed_gives_the_same_noise_and_another_seed_another(noise: type[AdditiveNoise]) -> None:
    data = microdata(x=np.random.default_rng(1).normal(size=300))
    np.testing.assert_array_equal(numbers(noise(), data, "x", seed=5), numbers(noise(), data, "x", seed=5))
    assert not np.isin(numbers(noise(), data, "x", seed=5), numbers(noise(), data, "x", seed=6)).any()


def test_the_remembering_draws_of_a_map_give_the_same_noise() -> None:
    data = microdata(x=np.random.default_rng(1).normal(size=300), y=np.random.default_rng(2).normal(size=300))
    remembering = Draws(9).remembering()
    recipe = KimNoise().as_recipe()
    fitted = recipe.fit(data, remembering)
    for lambda2 in (0.1, 0.4, 0.1):
        one = fitted.with_({"kim_noise.lambda2": lambda2}).apply(data, remembering).masked
        two = recipe.with_({"kim_noise.lambda2": lambda2}).apply(data, Draws(9)).masked
        for name in ("x", "y"):
            np.testing.assert_array_equal(one.numbers(name), two.numbers(name))


# What it learned


def test_a_fitted_noise_mask_uses_what_it_learned_on_new_data() -> None:
    g = np.random.default_rng(4)
    wide, narrow = microdata(x=g.normal(0, 100, 50_000)), microdata(x=g.normal(0, 1, 50_000))
    fitted = KimNoise(lambda2=0.25).fit(wide, Draws(1))
    added = numbers(fitted, narrow, "x") - narrow.numbers("x")
    assert_covariance(added[:, None], 0.25 * np.atleast_2d(np.var(wide.numbers("x"), ddof=1)))
