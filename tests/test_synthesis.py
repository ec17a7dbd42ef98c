"""Synthetic data: what it is drawn from, implicates and their combining rules, and what never leaves the house."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from small_files import column as values

from sfumato import ru_map
from sfumato.contract import Draws, Guarantee, Mask, Recipe, Release
from sfumato.data.microdata import Batch, Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError, RecipeError
from sfumato.masks import CopulaSynthesis, FullNormalSynthesis, KimNoise, NormalSynthesis, TopCode
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Mean
from sfumato.utility.regression import combine

Numbers = NDArray[np.float64]
CONFIDENTIAL, KEY, PLAIN = {"role": "confidential"}, {"role": "key"}, {"role": "key", "scale": "unordered"}


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    facts = facts or {}
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **facts.get(n, {})) for n in columns)))


def pairs(n: int, seed: int) -> Microdata:
    """x is standard normal, y = 1 + x/2 + e: the mean of y is 1, the slope is 1/2."""
    g = np.random.default_rng(seed)
    x = g.normal(size=n)
    return microdata({"x": KEY, "y": CONFIDENTIAL}, x=x, y=1 + 0.5 * x + g.normal(size=n))


# Combining rules


def test_partial_synthesis_is_combined_as_worked_out_by_hand() -> None:
    """q = 9, 10, 11 and u = 2: b = 1, T = 2 + 1/3, ν = 2 (1 + 6)² = 98."""
    found = combine([9, 10, 11], [2, 2, 2])
    assert (found.estimate, found.variance, found.freedom) == pytest.approx((10, 7 / 3, 98))
    low, high = found.interval(0.9)
    reach = stats.t(98).ppf(0.95) * math.sqrt(7 / 3)
    assert (low, high) == pytest.approx((10 - reach, 10 + reach))
    assert found.error == pytest.approx(math.sqrt(7 / 3))


def test_full_synthesis_is_combined_as_worked_out_by_hand() -> None:
    """b = 1, u = 1/2: T = 4/3 - 1/2, ν = 2 (1 - 3/2 / 4)² = 0.78125."""
    found = combine([9, 10, 11], [0.5, 0.5, 0.5], "full")
    assert (found.estimate, found.variance, found.freedom) == pytest.approx((10, 5 / 6, 0.78125))


def test_a_variance_that_is_not_positive_is_replaced_by_that_within_times_the_relative_size() -> None:
    found = combine([9, 10, 11], [2, 2, 2], "full", size=0.5)
    assert (found.variance, found.freedom) == (1.0, math.inf)
    assert found.interval()[1] == pytest.approx(10 + 1.959964, abs=1e-6)
    same = combine([5, 5], [1, 3])
    assert (same.variance, same.freedom) == (2.0, math.inf)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: combine([1], [1]), "one implicate does not show"),
        (lambda: combine([1, 2], [1]), "one estimate and one variance for each"),
        (lambda: combine([1, 2], [1, -1]), "must not be negative"),
        (lambda: combine([1, math.nan], [1, 1]), "finite"),
        (lambda: combine([1, 2], [1, 1], "half"), "'partial' or 'full'"),  # type: ignore[arg-type]
        (lambda: combine([1, 2], [1, 1], "full", size=0), "size must be"),
        (lambda: combine([1, 2], [1, 1]).interval(95), "between 0 and 1"),
    ],
)
def test_what_cannot_be_combined_is_refused(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        call()


def analysis(data: Batch) -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean of y and slope of y on x, each with the variance that the textbook gives."""
    x, y = data.numbers("x"), data.numbers("y")
    fit = stats.linregress(x, y)
    return (y.mean(), y.var(ddof=1) / len(y)), (fit.slope, fit.stderr**2)


@pytest.mark.parametrize("times", [80, pytest.param(300, marks=pytest.mark.verify)])
@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        (NormalSynthesis("y", given=["x"], implicates=5), "partial"),
        (NormalSynthesis("y", given=["x"], implicates=5, proper=False), "partial"),
        (FullNormalSynthesis(["x", "y"], implicates=20), "full"),
        (CopulaSynthesis(implicates=5, smooth=1), "partial"),
    ],
)
def test_intervals_from_implicates_cover_the_truth_as_often_as_they_say(mask: Mask, rule: Any, times: int) -> None:
    """And the variance of the rule is that of the combined estimates over repeated samples."""
    truth = np.array([1.0, 0.5])
    covered, estimates, variances = np.zeros(2), np.zeros((times, 2)), np.zeros((times, 2))
    for seed in range(times):
        data = pairs(120, seed)
        fitted, draws = mask.fit(data, Draws(seed)), Draws(seed)
        found = [analysis(fitted.transform(data.batch(), draws.child(k))) for k in range(mask.versions)]
        for k in range(2):
            combined = combine([f[k][0] for f in found], [f[k][1] for f in found], rule)
            low, high = combined.interval()
            covered[k] += low <= truth[k] <= high
            estimates[seed, k], variances[seed, k] = combined.estimate, combined.variance
    error = math.sqrt(0.95 * 0.05 / times)
    assert (covered / times > 0.95 - 3.5 * error).all()
    if rule == "partial":  # for full synthesis it is known to be conservative, unless implicates are many
        assert (covered / times < 0.95 + 3.5 * error).all()
    assert (np.abs(estimates.mean(axis=0) - truth) < 4.5 * estimates.std(axis=0) / math.sqrt(times)).all()
    np.testing.assert_allclose(variances.mean(axis=0), estimates.var(axis=0), rtol=3.5 * math.sqrt(2 / times))


# Implicates in recipes


def test_implicates_differ_and_the_first_is_that_of_a_release_of_one() -> None:
    data = pairs(200, 1)
    one = NormalSynthesis("y").apply(data, Draws(5))
    many = NormalSynthesis("y", implicates=3).apply(data, Draws(5))
    assert [len(r.implicates) for r in (one, many)] == [1, 3]
    np.testing.assert_array_equal(one.masked.numbers("y"), many.masked.numbers("y"))
    y = np.stack([m.numbers("y") for m in many.implicates])
    assert all((y[i] != y[j]).all() for i in range(3) for j in range(i))
    np.testing.assert_array_equal(*(m.numbers("x") for m in many.implicates[:2]))
    again = NormalSynthesis("y", implicates=3).apply(data, Draws(5))
    assert [m.digest() for m in many.implicates] == [m.digest() for m in again.implicates]


def test_steps_before_are_drawn_once_and_steps_after_for_each_implicate() -> None:
    data = pairs(200, 1)
    recipe = Recipe.of(
        before=KimNoise("x"), synthesis=NormalSynthesis("y", implicates=3), after=TopCode("y", value=1.5)
    )
    release = recipe.apply(data, Draws(6))
    x = [m.numbers("x") for m in release.implicates]
    assert (x[0] != data.numbers("x")).all()
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[0], x[2])
    assert all(m.numbers("y").max() == 1.5 for m in release.implicates)


class Suspicious(NormalSynthesis, abstract=True):
    """Refuses every other implicate that it sees."""

    seen: ClassVar[list[bytes]] = []

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        self.seen.append(after.digest())
        if len(self.seen) == 2:
            raise DataError("the second one will not do; nothing is released.")
        return super().guarantees(before, after, step)


def test_guarantees_are_verified_on_every_implicate() -> None:
    with pytest.raises(DataError, match="second one will not do"):
        Suspicious("y", implicates=3).apply(pairs(50, 1), Draws(1))
    assert len(set(Suspicious.seen)) == 2


def test_a_release_of_several_implicates_writes_each_to_its_own_file(tmp_path: Path) -> None:
    data, draws = pairs(50, 1), Draws(7)
    release = NormalSynthesis("y", implicates=2).apply(data, draws)
    release.write(tmp_path / "out", draws, tmp_path / "seed.toml", forms=("csv",))
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "masked_1.csv",
        "masked_2.csv",
        "schema.toml",
        "recipe.toml",
    }
    for k, implicate in enumerate(release.implicates, 1):
        read = Microdata.read(tmp_path / "out" / f"masked_{k}.csv")
        np.testing.assert_allclose(read.numbers("y"), implicate.numbers("y"))
    assert Recipe.read(tmp_path / "out" / "recipe.toml").versions == 2


def test_only_one_step_can_make_implicates() -> None:
    with pytest.raises(RecipeError, match="only one step can make several implicates"):
        _ = NormalSynthesis("y", implicates=2) >> CopulaSynthesis(implicates=3)


def test_an_estimate_from_several_implicates_is_their_mean() -> None:
    data = pairs(100, 3)
    release = NormalSynthesis("y", implicates=4).apply(data, Draws(1))
    mean = np.mean([m.numbers("y").mean() for m in release.implicates])
    score = EstimatorUtility(Mean("y"), target="file").score(release)
    assert score.value == pytest.approx(1 / (mean - data.numbers("y").mean()) ** 2)


# Normal synthesis


def test_a_synthetic_value_has_the_posterior_predictive_distribution() -> None:
    """Given x₀ it is Student's t on n - 2 degrees of freedom about the regression line, scale s √(1 + 1/n + (x₀ - x̄)²/Sxx)."""
    data = pairs(8, 4)
    x, y = data.numbers("x"), data.numbers("y")
    fit = stats.linregress(x, y)
    s2 = ((y - fit.intercept - fit.slope * x) ** 2).sum() / 6
    mask = NormalSynthesis("y").fit(data, Draws(0))
    drawn = np.stack([mask.transform(data.batch(), Draws(s)).numbers("y") for s in range(2500)])
    mask = mask.with_(proper=False)
    plain = np.stack([mask.transform(data.batch(), Draws(s)).numbers("y") for s in range(2500)])
    for i in (0, int(np.argmax(np.abs(x)))):
        centre = fit.intercept + fit.slope * x[i]
        scale = math.sqrt(s2 * (1 + 1 / 8 + (x[i] - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()))
        assert stats.kstest((drawn[:, i] - centre) / scale, stats.t(6).cdf).pvalue > 1e-4
        assert stats.kstest((plain[:, i] - centre) / math.sqrt(s2), stats.norm.cdf).pvalue > 1e-4


def test_drawn_parameters_have_the_moments_of_the_inverse_wishart_and_the_normal() -> None:
    g = np.random.default_rng(5)
    n = 30
    s, noise = g.normal(size=n), g.normal(size=(n, 2)) @ np.array([[1.0, 0.0], [0.8, 0.5]])
    facts = {"s": KEY, "a": CONFIDENTIAL, "b": CONFIDENTIAL}
    (model,) = NormalSynthesis().fit(microdata(facts, s=s, a=s + noise[:, 0], b=noise[:, 1]), Draws(1)).models
    drawn = [model.draw(Draws(k), True) for k in range(4000)]
    products = model.residual * (n - 1)
    truth = stats.invwishart(df=n - 2, scale=products)
    sigma = np.stack([d.residual for d in drawn])
    error = np.sqrt(np.array(truth.var()) / 4000)
    assert (np.abs(sigma.mean(axis=0) - truth.mean()) < 4.5 * error).all()
    np.testing.assert_allclose(sigma.var(axis=0), truth.var(), rtol=0.25)
    centred = ((s - s.mean()) ** 2).sum()
    beta, mean = np.stack([d.beta[0] for d in drawn]), np.stack([d.x_mean for d in drawn])
    np.testing.assert_allclose(np.cov(beta, rowvar=False), truth.mean() / centred, rtol=0.15)
    np.testing.assert_allclose(np.cov(mean, rowvar=False), truth.mean() / n, rtol=0.15)
    assert np.abs(beta.mean(axis=0) - model.beta[0]).max() < 4.5 * np.sqrt(np.diag(truth.mean()).max() / centred / 4000)


def test_partial_synthesis_says_nothing_about_a_record_beyond_its_given_columns() -> None:
    data = pairs(20_000, 6)
    made = NormalSynthesis("y", given=["x"]).apply(data, Draws(1)).masked
    x, y, new = data.numbers("x"), data.numbers("y"), made.numbers("y")
    left = [v - np.polyval(np.polyfit(x, v, 1), x) for v in (y, new)]
    assert abs(np.corrcoef(*left)[0, 1]) < 4.5 / math.sqrt(20_000)
    assert np.polyfit(x, new, 1) == pytest.approx([0.5, 1], abs=0.05)


def test_a_fully_synthetic_file_has_new_records_of_the_named_columns_only() -> None:
    data = teachers(3000)
    release = FullNormalSynthesis(["salary", "income", "experience"], size=20_000).apply(data, Draws(2))
    made = release.masked
    assert (release.align < 0).all()
    assert len(made) == len(np.unique(release.align)) == 20_000
    assert set(made.schema.names()) == {"salary", "income", "experience"}
    names = ("salary", "income")
    before, after = (np.column_stack([d.numbers(n) for n in names]) for d in (data, made))
    np.testing.assert_allclose(np.corrcoef(after, rowvar=False), np.corrcoef(before, rowvar=False), atol=0.07)
    np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0), rtol=0.03)
    years = made.numbers("experience")
    np.testing.assert_array_equal(years, np.round(years))
    assert "all 20,000 records are synthetic; 0 of them agree" in release.guarantees[-1].says


def test_a_fully_synthetic_file_of_numbers_keeps_bounds_and_refuses_weights() -> None:
    g = np.random.default_rng(1)
    facts = {"pay": CONFIDENTIAL | {"bounds": (0, 3)}, "w": {"role": "weight"}}
    data = microdata(facts, pay=np.abs(g.normal(size=300)).clip(0, 3), w=np.ones(300))
    made = FullNormalSynthesis(["pay"]).apply(data, Draws(1)).masked
    assert made.numbers("pay").min() == 0
    assert len(made) == 300
    with pytest.raises(DataError, match="survey weights, which are not normal"):
        FullNormalSynthesis(["pay", "w"]).apply(data, Draws(1))
    with pytest.raises(ParameterError, match="proper of full_normal_synthesis must be true or false"):
        FullNormalSynthesis(["pay"], proper=1)  # type: ignore[arg-type]


# Copula synthesis


@pytest.fixture(scope="module")
def mixed() -> Microdata:
    """Numbers of three sorts, categories whose order means nothing, and values that miss more often at higher ages."""
    g = np.random.default_rng(8)
    n = 20_000
    age = np.clip(np.round(g.normal(44, 12, n)), 18, 90)
    place = g.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    job = (g.random(n) < np.array([0.2, 0.7, 0.4, 0.9])[place]).astype(int)
    pay = np.exp(3 + 0.02 * age + np.array([0.0, 0.6, -0.6, 0.2])[place] + 0.4 * g.normal(size=n))
    children = np.minimum(g.poisson(0.03 * age), 5)
    health = np.digitize(0.05 * (age - 44) + g.normal(size=n), [-0.5, 0.5])
    pay[g.random(n) < stats.norm.cdf((age - 60) / 12)] = np.nan
    facts = {
        "age": KEY | {"integer": True, "bounds": (18, 90)},
        "place": PLAIN,
        "job": PLAIN,
        "health": KEY | {"values": {"good": 1, "fair": 2, "bad": 3}},
        "children": KEY | {"integer": True},
        "pay": CONFIDENTIAL,
        "w": {"role": "weight"},
    }
    return microdata(
        facts,
        age=age.astype(int),
        place=pa.array(np.array(["north", "south", "east", "west"])[place]).dictionary_encode(),
        job=(job == 1),
        health=np.array(["good", "fair", "bad"])[health],
        children=children,
        pay=pay,
        w=g.uniform(50, 150, n),
    )


@pytest.fixture(scope="module")
def synthetic(mixed: Microdata) -> Release:
    return CopulaSynthesis(size=40_000, uniques="keep").apply(
        mixed, Draws(9)
    )  # drawing again would shift shares a little


def test_a_synthetic_file_has_new_records_and_the_types_of_the_original(mixed: Microdata, synthetic: Release) -> None:
    made = synthetic.masked
    assert len(made) == 40_000
    assert (synthetic.align < 0).all()
    assert made.schema == mixed.schema
    for name in ("place", "job", "health", "children"):
        assert made.batch([name]).column(name).arrow.type == mixed.batch([name]).column(name).arrow.type
    age = made.numbers("age")
    assert ((age >= 18) & (age <= 90) & (age == np.round(age))).all()


def test_synthetic_columns_have_the_distribution_of_the_original(mixed: Microdata, synthetic: Release) -> None:
    made = synthetic.masked
    for name in ("place", "job", "health", "children"):
        a, b = values(mixed, name), values(made, name)
        for level in set(a):
            assert b.count(level) / len(b) == pytest.approx(a.count(level) / len(a), abs=4.5 * math.sqrt(0.25 / 40_000))
    for name in ("age", "pay"):
        a, b = mixed.numbers(name), made.numbers(name)
        assert np.isnan(b).mean() == pytest.approx(np.isnan(a).mean(), abs=4.5 * math.sqrt(0.25 / 40_000))
        assert stats.ks_2samp(a[~np.isnan(a)], b[~np.isnan(b)]).statistic < 0.015


def test_synthetic_weights_add_up_to_the_population(mixed: Microdata, synthetic: Release) -> None:
    assert synthetic.masked.numbers("w").sum() == pytest.approx(mixed.numbers("w").sum(), rel=0.01)


@pytest.mark.parametrize("weights", [[100.0], [50.0, 200.0]])
def test_weights_of_few_values_are_scaled_too(weights: list[float]) -> None:
    data = microdata({"w": {"role": "weight"}, "x": KEY}, w=np.resize(weights, 400), x=np.arange(400.0))
    made = CopulaSynthesis(size=4000).apply(data, Draws(1)).masked.numbers("w")
    assert set(made) == {w / 10 for w in weights}
    assert made.sum() == pytest.approx(data.numbers("w").sum(), rel=0.05)


def test_relations_of_every_sort_are_kept_roughly(mixed: Microdata, synthetic: Release) -> None:
    """Number with number, with ordered and unordered categories, category with category, missing with number."""
    made = synthetic.masked

    def facts(data: Microdata) -> list[float]:
        age, pay, children = (data.numbers(n) for n in ("age", "pay", "children"))
        place, job = np.array(values(data, "place")), np.array(values(data, "job"))
        known = ~np.isnan(pay)
        health = data.numbers("health")
        return [
            stats.spearmanr(age[known], pay[known]).statistic,
            stats.spearmanr(age, children).statistic,
            stats.spearmanr(age, health).statistic,
            *(
                np.log(pay[known & (place == p)]).mean() - np.log(pay[known]).mean()
                for p in ("north", "south", "east", "west")
            ),
            *(job[place == p].mean() for p in ("north", "south", "east", "west")),
            (age[~known].mean() - age.mean()) / 10,
        ]

    np.testing.assert_allclose(facts(made), facts(mixed), atol=0.06)


def test_no_synthetic_number_is_a_records_own(mixed: Microdata, synthetic: Release) -> None:
    a, b = mixed.numbers("pay"), synthetic.masked.numbers("pay")
    assert not np.isin(b[~np.isnan(b)], a).any()
    assert np.nanmax(b) <= np.sort(a[~np.isnan(a)])[-3:].mean() + 1e-9


def test_columns_that_follow_another_follow_it_in_the_new_file() -> None:
    g = np.random.default_rng(1)
    town = g.integers(0, 6, 600)
    facts = {"town": PLAIN, "county": PLAIN | {"follows": "town"}, "pay": CONFIDENTIAL}
    data = microdata(
        facts, town=np.array([*"abcdef"])[town], county=np.array([*"xyz"])[town // 2], pay=g.normal(size=600)
    )
    made = CopulaSynthesis(size=900).apply(data, Draws(1)).masked
    assert {*zip(values(made, "town"), values(made, "county"), strict=True)} == {*zip("abcdef", "xxyyzz", strict=True)}
    assert list(made.engine.kinds) == ["town", "county", "pay"]


def test_households_and_identifiers_are_left_out_and_household_values_become_a_persons() -> None:
    g = np.random.default_rng(2)
    facts = {
        "id": {"role": "identifier"},
        "home": {"role": "household"},
        "rent": CONFIDENTIAL | {"level": "household"},
        "age": KEY,
    }
    data = microdata(
        facts,
        id=[f"p{i}" for i in range(400)],
        home=np.arange(400) // 2,
        rent=np.repeat(g.normal(size=200), 2),
        age=g.normal(size=400),
    )
    made = CopulaSynthesis().apply(data, Draws(1)).masked
    assert made.schema.names() == ("rent", "age")
    assert made.schema["rent"].level == "person"


def test_records_that_copy_a_unique_original_are_drawn_again_or_counted() -> None:
    g = np.random.default_rng(3)
    codes = g.choice(12, (300, 3), p=np.arange(12, 0, -1) / 78)
    names = np.array([*"abcdefghijkl"])
    data = microdata(dict.fromkeys("xyz", PLAIN), **{c: names[codes[:, k]] for k, c in enumerate("xyz")})
    before = [*zip(*(values(data, c) for c in "xyz"), strict=True)]
    unique = {r for r in before if before.count(r) == 1}
    drawn = CopulaSynthesis(size=3000).apply(data, Draws(1))
    after = [*zip(*(values(drawn.masked, c) for c in "xyz"), strict=True)]
    assert not unique & {*after}
    shared = sum(r in set(before) - unique for r in after)
    assert shared > 0
    assert any(
        f"{shared:,} synthetic records agree in every column with two or more" in g.says for g in drawn.guarantees
    )
    kept = CopulaSynthesis(size=3000, uniques="keep").apply(data, Draws(1))
    after = [*zip(*(values(kept.masked, c) for c in "xyz"), strict=True)]
    copies = sum(r in unique for r in after)
    assert copies > 0
    assert any(f"{copies:,} copy a record that is unique" in g.says for g in kept.guarantees)


def test_a_file_whose_every_combination_is_a_unique_record_is_refused() -> None:
    data = microdata({"x": PLAIN, "y": PLAIN}, x=[*"aabb"], y=[*"cdcd"])
    with pytest.raises(DataError, match="still copy a record that is unique in the original"):
        CopulaSynthesis().apply(data, Draws(1))


def test_a_category_of_a_hundred_thousand_levels_is_drawn_in_proportion_and_said_to_be() -> None:
    n = 100_000
    g = np.random.default_rng(4)
    data = microdata({"zip": PLAIN, "pay": CONFIDENTIAL}, zip=[f"z{i}" for i in range(n)], pay=g.normal(size=n))
    release = CopulaSynthesis(size=1000).apply(data, Draws(1))
    assert len(set(values(release.masked, "zip"))) > 950
    assert any("zip: 100,000 rare categories are drawn without regard" in g.says for g in release.guarantees)


def test_columns_without_spread_or_answers_come_out_as_they_are() -> None:
    g = np.random.default_rng(5)
    data = microdata(
        dict.fromkeys(["one", "word", "none", "pay"], KEY),
        one=np.full(50, 3.5),
        word=["same"] * 50,
        none=pa.array([None] * 50, pa.float64()),
        pay=g.normal(size=50),
    )
    made = CopulaSynthesis(size=80).apply(data, Draws(1)).masked
    assert set(values(made, "one")) == {3.5}
    assert set(values(made, "word")) == {"same"}
    assert set(values(made, "none")) == {None}


def test_too_few_records_and_dates_are_refused() -> None:
    with pytest.raises(DataError, match="at least three records"):
        CopulaSynthesis().apply(microdata(x=[1.0, 2.0]), Draws(1))
    with pytest.raises(DataError, match="fewer than 3 records"):
        CopulaSynthesis().apply(microdata(x=[1.0, 2.0, math.nan, math.nan], y=np.arange(4.0)), Draws(1))
    dates = pa.array(np.arange(9), pa.int32()).cast(pa.date32())
    with pytest.raises(DataError, match="'x' holds dates"):
        CopulaSynthesis().apply(microdata(x=dates), Draws(1))


def test_a_snooper_who_has_several_implicates_averages_them_and_a_map_knows() -> None:
    data = teachers(800, seed=3)
    mask = NormalSynthesis(["salary"], given=["age"], implicates=4)
    made = mask.apply(data, Draws(6))
    _, after = made.pair("salary")
    each = np.stack([part.numbers("salary") for part in made.implicates])
    np.testing.assert_allclose(after, each.mean(axis=0))
    m = ru_map(data, mask, {"normal_synthesis.implicates": [1, 4]}, "salary", "salary", replications=10, draws=1)
    risks = [m.estimate(0, p)[0] for p in range(2)]
    # Var(X - mean of m draws | S) is v (1 + 1/m), so the risk rises by 2 / 1.25
    assert risks[1] / risks[0] == pytest.approx(1.6, rel=0.1)
