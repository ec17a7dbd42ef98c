"""The masks: what they do to values, to covariances and to order; and every refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_files import release

from sfumato.contract import Draws, Mask
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import BottomCode, Identity, IndependentNoise, KimNoise, RemoveIdentifiers, TopCode
from sfumato.masks.noise import AdditiveNoise
from sfumato.masks.top_code import Coding
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]
SIGMA = np.array([[17.5**2, 8.3**2, 40.0], [8.3**2, 13.3**2, 55.0], [40.0, 55.0, 10.0**2]])
NAMES = ("income", "salary", "age")
N = 200_000
NOISES: list[type[AdditiveNoise]] = [KimNoise, IndependentNoise]
CODINGS: list[type[Coding]] = [TopCode, BottomCode]


def schema(*names: str, role: str = "confidential", **facts: dict[str, Any]) -> Schema:
    return Schema(tuple(Attribute(n, **{"role": role, **facts.get(n, {})}) for n in names))


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    table = pa.table({n: pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, schema(*columns, **(facts or {})))


def numbers(mask: Mask, data: Microdata, name: str, seed: int = 1) -> Numbers:
    return release(mask, data, seed).masked.numbers(name)


def values(data: Microdata, name: str) -> list[Any]:
    """What stands in a column: null as None, NaN as the text "NaN"."""
    return ["NaN" if v != v else v for v in data.batch([name]).column(name).arrow.to_pylist()]


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


# Noise: its size and its correlations


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


# Noise: missing values, whole numbers, bounds


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


# Noise: households


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


# Noise: seeds


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


# Top and bottom coding


X = [5.0, 1.0, 9.0, 7.0, 7.0, 3.0, 10.0, 2.0, 8.0, 6.0]


def test_values_above_a_threshold_become_the_threshold() -> None:
    assert numbers(TopCode(value=7), microdata(x=X), "x").tolist() == [5, 1, 7, 7, 7, 3, 7, 2, 7, 6]


def test_values_below_a_threshold_become_the_threshold() -> None:
    assert numbers(BottomCode(value=3), microdata(x=X), "x").tolist() == [5, 3, 9, 7, 7, 3, 10, 3, 8, 6]


def test_values_beyond_a_threshold_become_their_mean() -> None:
    top = numbers(TopCode(value=7, replace="mean"), microdata(x=X), "x")
    assert top.tolist() == [5, 1, 9, 7, 7, 3, 9, 2, 9, 6]  # (9 + 10 + 8) / 3
    bottom = numbers(BottomCode(value=5, replace="mean"), microdata(x=X), "x")
    assert bottom.tolist() == [5, 2, 9, 7, 7, 2, 10, 2, 8, 6]  # (1 + 3 + 2) / 3


@pytest.mark.parametrize("threshold", [8, 9])
def test_a_mean_of_one_or_two_values_would_tell_them_and_is_refused(threshold: float) -> None:
    with pytest.raises(DataError, match="fewer than 3 records, and would tell what they are"):
        numbers(TopCode(value=threshold, replace="mean"), microdata(x=X), "x")


def test_replacing_by_the_mean_keeps_the_total() -> None:
    x = np.random.default_rng(1).lognormal(size=1000)
    for mask in (TopCode(quantile=0.9, replace="mean"), BottomCode(quantile=0.1, replace="mean")):
        assert numbers(mask, microdata(x=x), "x").sum() == pytest.approx(x.sum(), rel=1e-12)


@pytest.mark.parametrize(("quantile", "threshold"), [(0.8, 8.0), (0.81, 9.0), (0.5, 6.0), (1.0, 10.0), (0.0, 1.0)])
def test_a_quantile_is_a_value_that_some_record_has_with_that_share_at_or_below_it(
    quantile: float, threshold: float
) -> None:
    assert sum(v <= threshold for v in X) >= quantile * len(X)
    assert numbers(TopCode(quantile=quantile), microdata(x=X), "x").tolist() == [min(v, threshold) for v in X]
    assert numbers(BottomCode(quantile=quantile), microdata(x=X), "x").tolist() == [max(v, threshold) for v in X]


@pytest.mark.parametrize("coding", CODINGS)
def test_without_a_threshold_one_percent_is_coded(coding: type[Coding]) -> None:
    x = np.random.default_rng(1).permutation(1000).astype(float)
    assert (numbers(coding(), microdata(x=x), "x") != x).sum() == (10 if coding is TopCode else 9)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("replace", ["threshold", "mean"])
def test_a_threshold_beyond_all_values_changes_nothing(coding: type[Coding], replace: Any) -> None:
    value = 100 if coding is TopCode else -100
    release_ = release(coding(value=value, replace=replace), microdata(x=X))
    assert release_.masked.numbers("x").tolist() == X


def inversions(x: Numbers, y: Numbers) -> int:
    return sum(bool(a < b and c > d) for (a, c), (b, d) in itertools.permutations(zip(x, y, strict=True), 2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-20, 20) | st.floats(-20, 20), min_size=2, max_size=30),
    st.sampled_from(CODINGS),
    st.sampled_from(["threshold", "mean"]),
    st.booleans(),
    st.one_of(st.tuples(st.just("quantile"), st.floats(0, 1)), st.tuples(st.just("value"), st.floats(-25, 25))),
)
def test_coding_never_turns_two_records_round(
    x: list[float], coding: type[Coding], replace: Any, integer: bool, where: tuple[str, float]
) -> None:
    array = np.array(x, float).round() if integer else np.array(x, float)
    data = microdata({"x": {"integer": integer}}, x=array)
    mask = coding(replace=replace, **{where[0]: where[1]})
    by_value = where[0] == "value"
    threshold = where[1] if by_value else float(np.quantile(array, where[1], method="inverted_cdf"))
    beyond = (array > threshold).sum() if coding is TopCode else (array < threshold).sum()
    if replace == "mean" and 0 < beyond < 3:
        with pytest.raises(DataError, match="fewer than 3 records"):
            numbers(mask, data, "x")
    else:
        assert inversions(array, numbers(mask, data, "x")) == 0


def test_ties_stay_ties() -> None:
    x = [3.0, 3.0, 3.0, 9.0, 9.0, 9.0, 1.0]
    after = numbers(TopCode(value=5, replace="mean"), microdata(x=x), "x")
    assert after.tolist() == [3, 3, 3, 9, 9, 9, 1]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_constant_column_stays_constant(coding: type[Coding]) -> None:
    assert numbers(coding(quantile=0.5), microdata(x=[4.0] * 5), "x").tolist() == [4.0] * 5


def test_thresholds_by_column() -> None:
    data = microdata(x=X, y=[10 * v for v in X])
    after = release(TopCode(value={"x": 7, "y": 55}), data).masked
    assert after.numbers("x").max() == 7
    assert after.numbers("y").max() == 55
    after = release(BottomCode(columns=("y",), quantile={"y": 0.5}), data).masked
    assert after.numbers("x").tolist() == X
    assert after.numbers("y").min() == 60


def test_coding_leaves_missing_values_and_codes_alone() -> None:
    x = pa.array([5.0, None, float("nan"), 99.0, 30.0, 20.0, 25.0], from_pandas=False)
    data = microdata({"x": {"missing": (99,)}}, x=x)
    after = release(TopCode(value=10, replace="mean"), data).masked
    assert values(after, "x") == [5.0, None, "NaN", 99.0, 25.0, 25.0, 25.0]


def test_whole_numbers_stay_whole_when_coded_to_a_mean() -> None:
    data = microdata({"x": {"integer": True}}, x=[1, 2, 8, 9, 8, 9])
    after = release(TopCode(value=3, replace="mean"), data).masked
    assert values(after, "x") == [1, 2, 8, 8, 8, 8]  # 8.5, to the even neighbour
    assert pa.types.is_integer(after.batch(["x"]).column("x").arrow.type)


def test_coding_states_what_it_has_checked() -> None:
    made = release(TopCode(value=7), microdata(x=X))
    assert [(g.step, g.verified) for g in made.guarantees][-1] == ("top_code", "all released values checked")
    assert (
        made.guarantees[-1].says
        == f"no value above the code is released; coded: x: {sum(v > 7 for v in X)} of {len(X)}"
    )


# Identifiers


def test_identifiers_are_removed_and_nothing_else() -> None:
    data = Microdata(
        pd.DataFrame({"name": ["Ann", "Bob"], "age": [30, 40], "id": [7, 8]}),
        Schema((Attribute("name", "identifier", "unordered"), Attribute("age", "key"), Attribute("id", "identifier"))),  # type: ignore[arg-type]
    )
    made = release(RemoveIdentifiers(), data)
    assert made.masked.schema.names() == ("age",)
    assert values(made.masked, "age") == [30, 40]
    assert made.guarantees[0].says == "no identifier is released (removed: name, id)"
    assert made.guarantees[0].verified == "the columns are absent from the released data"


def test_a_column_that_followed_an_identifier_follows_nothing_afterwards() -> None:
    data = microdata({"id": {"role": "identifier"}, "block": {"follows": "id"}}, id=[1.0, 2.0], block=[1.0, 1.0])
    assert release(Identity(), data).masked.schema["block"].follows is None


def test_a_file_of_identifiers_alone_is_refused() -> None:
    data = microdata({"id": {"role": "identifier"}}, id=[1.0, 2.0])
    with pytest.raises(DataError, match="every column is an identifier: nothing would be left to release"):
        release(RemoveIdentifiers(), data)


def test_masking_nothing_still_removes_identifiers_and_changes_no_value(survey: Microdata) -> None:
    data = survey.with_schema(survey.schema.roles(identifier="age"))
    made = release(Identity(), data)
    assert made.masked.schema.names() == ("income", "salary")
    for name in ("income", "salary"):
        assert made.masked.batch([name]).column(name).equals(survey.batch([name]).column(name))


# What a mask learns


def test_a_fitted_noise_mask_uses_what_it_learned_on_new_data() -> None:
    g = np.random.default_rng(4)
    wide, narrow = microdata(x=g.normal(0, 100, 50_000)), microdata(x=g.normal(0, 1, 50_000))
    fitted = KimNoise(lambda2=0.25).fit(wide, Draws(1))
    added = numbers(fitted, narrow, "x") - narrow.numbers("x")
    assert_covariance(added[:, None], 0.25 * np.atleast_2d(np.var(wide.numbers("x"), ddof=1)))


def test_a_fitted_top_code_uses_the_threshold_and_mean_it_learned_on_new_data() -> None:
    fitted = TopCode(quantile=0.7, replace="mean").fit(microdata(x=X), Draws(1))
    after = numbers(fitted, microdata(x=[1.0, 7.0, 7.5, 1000.0]), "x")
    assert after.tolist() == [1, 7, 9, 9]  # threshold 7, mean of 9, 10 and 8


def test_a_fitted_mask_refuses_data_without_its_column() -> None:
    fitted = KimNoise().fit(microdata(salary=X), Draws(1))
    with pytest.raises(SfumatoError, match=r"column 'salary' is not in the .*\. Did you mean 'salry'"):
        release(fitted, microdata(salry=X))


@pytest.mark.parametrize("mask", [KimNoise(), IndependentNoise(), TopCode(), BottomCode(quantile=0.5)])
def test_a_fitted_mask_refuses_data_whose_column_holds_text_at_once(mask: Mask) -> None:
    fitted = mask.fit(microdata(salary=X), Draws(1))
    with pytest.raises(DataError, match=r"column 'salary' holds text or categories, where numbers are needed\.$"):
        release(fitted, microdata(salary=["a", "b"]))


@pytest.mark.parametrize(
    ("mask", "change", "stays"),
    [
        (KimNoise(), {"lambda2": 0.3}, True),
        (IndependentNoise(), {"lambda2": 0.3}, True),
        (KimNoise(columns=("x", "y")), {"columns": ("x",)}, False),
        (TopCode(quantile=0.9), {"quantile": 0.8}, False),
        (TopCode(quantile=0.9), {"replace": "mean"}, False),
        (BottomCode(value=2), {"value": 3}, False),
        (BottomCode(value=2), {"columns": ("y",)}, False),
    ],
)
def test_what_was_learned_stays_unless_a_parameter_it_depends_on_changes(
    mask: Mask, change: dict[str, Any], stays: bool
) -> None:
    data = microdata(x=X, y=X[::-1])
    assert not mask.is_fitted
    fitted = mask.fit(data, Draws(1))
    assert fitted.is_fitted
    assert fitted.with_(**change).is_fitted is stays
    assert not fitted.forget().is_fitted
    assert fitted == mask  # what is learned is no part of what a mask is
    assert repr(fitted) == repr(mask)


def test_what_was_learned_is_never_shown() -> None:
    x = [12345.678, 23456.789, 34567.891, 987654.321]
    for mask in (KimNoise(), TopCode(quantile=0.5), BottomCode(quantile=1.0, replace="mean")):
        fitted = mask.fit(microdata(x=x), Draws(1))
        for shown in (repr(fitted), str(fitted), str(fitted.to_dict())):
            assert not any(digits in shown for digits in ("12345", "23456", "98765"))


# Refusals


def small(**changes: dict[str, Any]) -> Microdata:
    return microdata(changes, income=X, salary=X[::-1], word=["a"] * 10, yes=[True, False] * 5)


REFUSALS: list[tuple[str, Callable[[], object], type[SfumatoError], str]] = [
    ("unknown column", lambda: release(KimNoise(columns="incme"), small()), DataError,
     r"step 'kim_noise': column 'incme' is not in the data. Did you mean 'income'\? It has: income, salary, word, yes."),
    ("unknown column to code", lambda: release(TopCode(columns="Salary"), small()), DataError,
     r"column 'Salary' is not in the data. Did you mean 'salary'\?"),
    ("text", lambda: release(KimNoise(columns="word"), small()), DataError,
     "column 'word' holds text or categories, where numbers are needed. Columns of numbers: income, salary."),
    ("text with an order", lambda: release(TopCode(columns="word"), small(word={"values": {"a": 1}})), DataError,
     "column 'word' holds text or categories, where numbers are needed."),
    ("yes and no", lambda: release(IndependentNoise(columns="yes"), small()), DataError,
     "column 'yes' holds yes/no values, where numbers are needed. Columns of numbers: income, salary."),
    ("no numbers at all", lambda: release(KimNoise(), microdata(word=["a", "b"])), DataError,
     "there is no confidential column of numbers to mask. Name the columns"),
    ("constant", lambda: release(KimNoise(), microdata(x=[0.1] * 10, y=X)), DataError,
     "x is constant, so noise in proportion to its variance would be no noise at all."),
    ("constant and independent", lambda: release(IndependentNoise(), microdata(x=[3.0] * 10)), DataError, "x is constant"),
    ("all missing", lambda: release(KimNoise(), microdata(x=pa.array([None] * 9, pa.float64()))), DataError,
     "x: fewer than two records have an answer there"),
    ("all coded as missing", lambda: release(KimNoise(), microdata({"x": {"missing": (9,)}}, x=[9.0, 9.0])), DataError,
     "x: fewer than two records have an answer there"),
    ("no record has both", lambda: release(KimNoise(), microdata(x=[1.0, None, 3.0], y=[None, 2.0, 1.0])), DataError,
     "x, y: fewer than two records have all of them"),
    ("one is empty", lambda: release(KimNoise(), microdata(x=[1.0, 2.0], y=pa.array([None, None], pa.float64()))), DataError,
     "y: fewer than two records have an answer there"),
    ("all missing, to code", lambda: release(TopCode(), microdata(x=pa.array([None] * 9, pa.float64()))), DataError,
     "column 'x' has no values at all, so there is no threshold to find."),
    ("one record", lambda: release(KimNoise(), microdata(x=[1.0])), DataError, "fewer than two records"),
    ("no records", lambda: release(KimNoise(), microdata(x=pa.array([], pa.float64()))), DataError, "fewer than two records"),
    ("infinite", lambda: release(KimNoise(), microdata(x=[1.0, np.inf, 2.0])), DataError,
     "x: some values are infinite or too large to square"),
    ("negative level", lambda: KimNoise(lambda2=-0.1), ParameterError,
     r"lambda2 of kim_noise must be a number of at least 0 and at most 1e\+06; got -0.1."),
    ("negative NumPy level", lambda: KimNoise(lambda2=np.float64(-0.1)), ParameterError, "got -0.1."),
    ("not a number", lambda: IndependentNoise(lambda2=float("nan")), ParameterError,
     r"lambda2 of independent_noise must be a number .*; got nan."),
    ("infinite level", lambda: KimNoise(lambda2=float("inf")), ParameterError, "got inf."),
    ("text for a level", lambda: KimNoise(lambda2="much"), ParameterError, "got 'much'."),  # type: ignore[arg-type]
    ("yes for a level", lambda: KimNoise(lambda2=True), ParameterError, "got True."),
    ("no level", lambda: KimNoise(lambda2=None), ParameterError,  # type: ignore[arg-type]
     "kim_noise needs lambda2: λ²: noise variance divided by the variance of the column."),
    ("negative level of a column", lambda: KimNoise(lambda2={"x": -1}), ParameterError, "lambda2 of kim_noise of 'x' must be"),
    ("level missing", lambda: KimNoise(columns=("x", "y"), lambda2={"x": 0.1}), ParameterError,
     "lambda2 gives no level for y."),
    ("level missing, found late", lambda: release(KimNoise(lambda2={"income": 0.1}), small()), ParameterError,
     "lambda2 gives no level for salary."),
    ("level too many", lambda: KimNoise(columns=("x",), lambda2={"x": 0.1, "y": 0.1}), ParameterError,
     "lambda2 names columns that are not masked: y."),
    ("level too many, found late", lambda: release(KimNoise(lambda2={"income": 0.1, "salary": 0.1, "pay": 0.2}), small()),
     ParameterError, "lambda2 names columns that are not masked: pay."),
    ("column twice", lambda: KimNoise(columns=("x", "x")), ParameterError, "columns of kim_noise names a column twice."),
    ("column twice, to code", lambda: TopCode(columns=["x", "x"]), ParameterError, "names a column twice."),  # type: ignore[arg-type]
    ("no columns", lambda: KimNoise(columns=()), ParameterError, "columns of kim_noise is an empty list."),
    ("no columns to code", lambda: BottomCode(columns=()), ParameterError, "columns of bottom_code is an empty list."),
    ("a number for columns", lambda: TopCode(columns=5), ParameterError, "must be a list of column names."),  # type: ignore[arg-type]
    ("a mapping for columns", lambda: KimNoise(columns={"x": 0.1}), ParameterError, "must be a list of column names."),  # type: ignore[arg-type]
    ("quantile and value", lambda: TopCode(quantile=0.9, value=5), ParameterError,
     "give top_code a quantile or a value, not both."),
    ("quantile of 99", lambda: TopCode(quantile=99), ParameterError,
     "quantile of top_code must be a number of at least 0 and at most 1; got 99."),
    ("threshold missing", lambda: TopCode(columns=("x", "y"), value={"x": 1}), ParameterError,
     "top_code gives no threshold for y."),
    ("threshold missing, found late", lambda: release(BottomCode(quantile={"income": 0.1}), small()), ParameterError,
     "bottom_code gives no threshold for salary."),
    ("threshold too many", lambda: release(TopCode(value={"income": 1, "salary": 1, "pay": 1}), small()), ParameterError,
     "top_code gives thresholds for columns that are not coded: pay."),
    ("unknown replacement", lambda: TopCode(replace="median"), ParameterError,  # type: ignore[arg-type]
     "replace of top_code must be one of 'threshold', 'mean'; got 'median'."),
    ("a code that means missing", lambda: release(TopCode(value=99), microdata({"x": {"missing": (99,)}}, x=[1.0, 120.0])),
     DataError, "the coded values of 'x' would be released as a value that the schema says is missing."),
    ("unknown parameter", lambda: KimNoise().with_(lamda2=1), ParameterError, r"Did you mean 'lambda2'\?"),
    ("a frame instead of microdata", lambda: KimNoise().apply(pd.DataFrame({"x": X}), Draws(1)), DataError,  # type: ignore[arg-type]
     "a recipe masks Microdata, not DataFrame"),
    ("a number instead of draws", lambda: KimNoise().apply(small(), 7), ParameterError, "randomness must be given as Draws"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("attempt", "kind", "sentence"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_what_cannot_be_done_is_refused_in_a_sentence(
    attempt: Callable[[], object], kind: type[SfumatoError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        attempt()
    text = str(caught.value)
    assert text.endswith((".", "?"))
    assert "NoneType" not in text
    assert caught.value.__cause__ is None
