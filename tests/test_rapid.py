"""RAPID and its models: against exhaustive search, scikit-learn, the formulas by hand, and at the limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from sfumato import Draws, Microdata, Release, Snooper
from sfumato.attacks import PredictByModel
from sfumato.contract import success
from sfumato.errors import NotApplicable, ParameterError
from sfumato.kernels.forest import best_split, grow_forest, predict_forest
from sfumato.kernels.regression import multinomial, probabilities, ridge
from sfumato.risk import RAPID
from sfumato.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("age", "key"), Attribute("sex", "key", "unordered"), Attribute("town", "key", "unordered"),  # type: ignore[arg-type]
        Attribute("ill", "confidential", "unordered"), Attribute("pay", "confidential"),  # type: ignore[arg-type]
    )
)  # fmt: skip


def frame(n: int, seed: int, known: bool = True) -> pd.DataFrame:
    """People whose illness and pay depend on the keys, or (known=False) do not."""
    g = np.random.default_rng(seed)
    age, sex, town = g.integers(20, 80, n), g.choice(["f", "m"], n), g.choice(["A", "B", "C", "D"], n)
    score = (age - 50) / 8 * np.where(sex == "f", 1, 0.2) if known else np.zeros(n)
    ill = np.where(g.random(n) < 1 / (1 + np.exp(-score)), "yes", np.where(g.random(n) < 0.3, "perhaps", "no"))
    pay = np.exp(3 + (0.02 * age + 0.3 * (town == "A") if known else 0) + g.normal(0, 0.15 if known else 0.8, n))
    return pd.DataFrame({"age": age, "sex": sex, "town": town, "ill": ill, "pay": pay})


def release(original: pd.DataFrame, released: pd.DataFrame, holdout: pd.DataFrame | None = None) -> Release:
    made = Release.of(Microdata(original, SCHEMA), Microdata(released, SCHEMA))
    return dataclasses.replace(made, holdout=None if holdout is None else Microdata(holdout, SCHEMA))


# -- the forest


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 25), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_the_best_split_is_that_of_an_exhaustive_search(seed: int, n: int, p: int, k: int, smallest: int) -> None:
    g = np.random.default_rng(seed)
    bins = g.integers(0, 5, (n, p))
    code = g.integers(0, k, n) if k > 1 else np.zeros(n, np.int64)
    value = np.ones(n) if k > 1 else g.normal(0, 1, n)
    y = np.zeros((n, k))
    y[np.arange(n), code] = value

    def spread(rows: Any) -> float:
        return float(((y[rows] - y[rows].mean(axis=0)) ** 2).sum())

    gains = {}
    for column in range(p):
        for cut in range(4):
            left = bins[:, column] <= cut
            if min(left.sum(), (~left).sum()) >= smallest:
                gains[column, cut] = spread(np.full(n, True)) - spread(left) - spread(~left)
    column, cut = best_split(bins, code, value, np.arange(n), np.arange(p), k, smallest)
    best = max(gains.values(), default=0.0)
    if best <= 1e-9:
        assert column == -1 or gains[column, cut] <= 1e-9
    else:
        assert_allclose(gains[column, cut], best)


def test_the_forest_predicts_about_as_well_as_that_of_scikit_learn() -> None:
    g = np.random.default_rng(1)
    n = 3000
    bins = g.integers(0, 20, (2 * n, 5))
    z = (bins[:, 0] - 10) * (bins[:, 1] - 10) / 10
    code = (g.random(2 * n) < 1 / (1 + np.exp(-z))).astype(np.int64)
    mine = predict_forest(grow_forest(bins[:n], code[:n], np.ones(n), 2), bins[n:])
    assert_allclose(mine.sum(axis=1), 1)
    theirs = (
        RandomForestClassifier(100, min_samples_leaf=5, random_state=1).fit(bins[:n], code[:n]).predict_proba(bins[n:])
    )
    loss = [-np.log(np.clip(p[np.arange(n), code[n:]], 1e-3, 1)).mean() for p in (mine, theirs)]
    assert loss[0] < loss[1] + 0.03
    y = z + g.normal(0, 1, 2 * n)
    mine = predict_forest(grow_forest(bins[:n], np.zeros(n, np.int64), y[:n], 1), bins[n:])[:, 0]
    forest = RandomForestRegressor(100, min_samples_leaf=5, max_features="sqrt", random_state=1).fit(bins[:n], y[:n])
    errors = [((p - y[n:]) ** 2).mean() for p in (mine, forest.predict(bins[n:]))]
    assert errors[0] < 1.1 * errors[1]


def test_the_same_seed_grows_the_same_forest() -> None:
    bins, code = np.random.default_rng(1).integers(0, 9, (200, 3)), np.arange(200) % 3
    one, two = (predict_forest(grow_forest(bins, code, np.ones(200), 3, trees=5), bins) for _ in range(2))
    assert (one == two).all()


# -- linear models


def test_ridge_and_multinomial_are_those_of_scikit_learn() -> None:
    g = np.random.default_rng(2)
    x = g.normal(0, 1, (300, 4))
    y = x @ [1.0, -2.0, 0.0, 0.5] + g.normal(0, 1, 300)
    level, slopes = ridge(x, y, 3.0)
    theirs = Ridge(alpha=3.0).fit(x, y)
    assert_allclose(slopes, theirs.coef_)
    assert_allclose(level, theirs.intercept_)
    code = np.argmax(x[:, :3] + g.gumbel(0, 1, (300, 3)), axis=1)
    mine = probabilities(*multinomial(x, code, 3, 2.0), x)
    logistic = LogisticRegression(C=1 / 2.0, tol=1e-10, max_iter=10_000).fit(x, code)
    assert_allclose(mine, logistic.predict_proba(x), atol=2e-5)


# -- the measure by hand


def test_categories_are_at_risk_from_a_gain_over_their_share() -> None:
    """(g - b) / (1 - b) > gain: Templ, Thees and Müller (2026), with the released records of the same keys as the model."""
    original = pd.DataFrame(
        {"age": [1, 1, 2, 2, 3], "sex": "f", "town": "A", "ill": ["no", "yes", "no", "no", "yes"], "pay": 1.0}
    )
    released = pd.DataFrame(
        {"age": [1, 1, 1, 2, 3, 3], "sex": "f", "town": "A", "pay": 1.0, "ill": ["no", "no", "yes", "no", "yes", "no"]}
    )
    score = RAPID("ill", model="classes", what="rate").score(release(original, released))
    probability, shares = np.array([2 / 3, 1 / 3, 1, 1, 1 / 2]), np.array([0.6, 0.4, 0.6, 0.6, 0.4])
    gains = (probability - shares) / (1 - shares)  # 1/6, -1/9, 1, 1, 1/6
    assert_allclose(score.records, probability)
    assert_allclose(score.value, (gains > 0.3).mean())
    low = RAPID("ill", model="classes", what="rate", gain=0.1).score(release(original, released))
    assert_allclose(low.value, (gains > 0.1).mean())
    assert_allclose(score.details["baseline"], 0)


@pytest.mark.parametrize(
    ("error", "expected"), [("symmetric", [1, 0, 1, 0]), ("relative", [1, 1, 1, 0]), ("sd", [1, 1, 1, 0])]
)
def test_numbers_are_at_risk_within_a_tolerance(error: str, expected: list[int]) -> None:
    original = pd.DataFrame(
        {"age": [1, 2, 3, 4], "sex": "f", "town": "A", "ill": "no", "pay": [100.0, 100.0, 0.0, 500.0]}
    )
    released = original.assign(pay=[105.0, 90.5, 0.0, 300.0])
    score = RAPID("pay", model="classes", error=error, tolerance=0.097, what="rate").score(release(original, released))  # type: ignore[arg-type]
    # symmetric: 5 / 102.5 = .0488 and 9.5 / 95.25 = .0997; relative: .05 and .095; the standard deviation is 192
    assert_allclose(score.records, expected)
    assert_allclose(score.value, np.mean(expected))


def test_the_marginal_baseline_of_a_number_predicts_the_median() -> None:
    original = pd.DataFrame(
        {"age": range(5), "sex": "f", "town": "A", "ill": "no", "pay": [100.0, 98.0, 103.0, 300.0, 20.0]}
    )
    score = RAPID("pay", model="classes").score(release(original, original))
    assert_allclose(score.details["baseline"], 3 / 5)  # 100, 98 and 103 are within 10 % of the median, 100
    assert_allclose(score.value, 1)


# -- limits


@pytest.mark.parametrize("model", ["forest", "linear", "classes"])
@pytest.mark.parametrize("column", ["ill", "pay"])
def test_a_fresh_file_predicts_members_no_better_than_strangers(model: str, column: str) -> None:
    """Over many fresh files the mean is 0 within four standard errors, and intervals miss 0 no more often than they may."""
    tries, values, missed = 20, [], 0
    for seed in range(tries):
        made = release(frame(250, 3 * seed), frame(250, 3 * seed + 1), frame(250, 3 * seed + 2))
        score = RAPID(column, model=model, against="holdout").score(made)  # type: ignore[arg-type]
        assert score.interval is not None
        values.append(score.value)
        missed += not score.interval[0] <= 0 <= score.interval[1]
    assert abs(np.mean(values)) < 4 * np.std(values, ddof=1) / np.sqrt(tries)
    assert missed <= binom.ppf(0.999, tries, 0.05)
    plain = RAPID(column, model=model).score(release(frame(1500, 1), frame(1500, 2))).value  # type: ignore[arg-type]
    assert plain > 0.05  # science, not disclosure


@pytest.mark.parametrize("model", ["forest", "linear", "classes"])
def test_a_holdout_that_lacks_a_value_is_compared_by_values_and_not_by_codes(model: str) -> None:
    """Of the holdout everybody has 'b', whose share in the original is .2: a probability of about .5 is a gain of .375."""
    alike: dict[str, Any] = {"sex": "f", "town": "A", "pay": 1.0}
    original = pd.DataFrame({"age": [1] * 80 + [2] * 20, "ill": ["a"] * 80 + ["b"] * 20, **alike})
    released = pd.DataFrame({"age": [1] * 20 + [2] * 40, "ill": ["a"] * 20 + ["a", "b"] * 20, **alike})
    strangers = pd.DataFrame({"age": [2] * 5, "ill": "b", **alike})
    measure = RAPID("ill", model=model, against="holdout", gain=0.2)  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="right about all of the 5 records"):  # each of them is at risk
        measure.score(release(original, released, strangers))
    assert measure.with_(what="rate").score(release(original, released, strangers)).details["baseline"] == 1


def test_a_copy_is_predicted_better_than_strangers_are() -> None:
    original = frame(600, 1, known=False)
    made = release(original, original, frame(600, 3, known=False))
    for column in ("ill", "pay"):
        for model in ("forest", "classes"):
            score = RAPID(column, model=model, gain=0.1, against="holdout").score(made)  # type: ignore[arg-type]
            assert score.interval is not None
            assert score.interval[0] > 0, (column, model)


def test_values_that_have_nothing_to_do_with_the_keys_are_hardly_at_risk() -> None:
    made = release(frame(2000, 1, known=False), frame(2000, 2, known=False))
    assert RAPID("ill", model="linear").score(made).value < 0.01


def test_the_attack_guesses_what_the_model_finds_likeliest() -> None:
    made, vague = release(frame(800, 1), frame(800, 2)), Snooper(keys=("age", "sex"), precision={"age": 10})
    for model in ("forest", "linear", "classes"):
        guesses = PredictByModel("ill", model=model).run(made, vague, Draws(1))  # type: ignore[arg-type]
        found = success(guesses)
        assert found.targets == 800
        assert found.rate > found.baseline + 0.05
        score = RAPID("ill", model=model).score(made, vague)  # type: ignore[arg-type]
        assert_allclose(found.rate, score.details["share predicted rightly"])
    numbers = success(PredictByModel("pay").run(made, Snooper(), Draws(1)))
    assert numbers.rate > numbers.baseline


# -- gaps, unseen values, precision


def test_gaps_and_values_that_the_release_does_not_have() -> None:
    before, after = frame(200, 1), frame(200, 2)
    before.loc[:9, "ill"] = None
    before.loc[10:19, "pay"] = np.nan
    before.loc[20:24, "ill"] = "unheard of"
    before.loc[30:34, "town"] = None
    before.loc[40:44, "town"] = "Z"
    before["age"] = before["age"].astype(float)
    after["age"] = after["age"].astype(float)
    before.loc[50:54, "age"] = np.nan
    after.loc[:9, ["age", "town", "ill", "pay"]] = np.nan
    for model in ("forest", "linear", "classes"):
        score = RAPID("ill", model=model).score(release(before, after))  # type: ignore[arg-type]
        assert score.records is not None
        assert np.isnan(score.records[:10]).all()
        assert_allclose(score.records[20:25], 0)
        assert not np.isnan(score.records[10:]).any()
        assert score.details["targets"] == 190
        numbers = RAPID("pay", model=model).score(release(before, after))  # type: ignore[arg-type]
        assert numbers.details["targets"] == 190


def test_a_vague_snooper_predicts_less() -> None:
    g = np.random.default_rng(4)
    age = g.integers(20, 80, 1000)
    original = pd.DataFrame({"age": age, "sex": "f", "town": "A", "ill": np.where(age % 2, "yes", "no"), "pay": 1.0})
    made = release(original, original)
    assert RAPID("ill", model="classes").score(made).value == 1
    vague = Snooper(keys=("age", "sex"), precision={"age": 20})
    for model in ("forest", "linear", "classes"):
        assert RAPID("ill", model=model).score(made, vague).value == 0  # type: ignore[arg-type]


def test_nothing_to_learn_or_to_disclose_is_refused() -> None:
    full, empty = frame(20, 1), frame(20, 1).assign(ill=pd.Series([None] * 20, dtype="string"))
    full["ill"] = full["ill"].astype("string")
    for model in ("forest", "linear", "classes"):
        with pytest.raises(NotApplicable, match="nothing to learn from"):
            RAPID("ill", model=model).score(release(full, empty))  # type: ignore[arg-type]
        with pytest.raises(NotApplicable, match="no original record has a value of 'ill'"):
            RAPID("ill", model=model).score(release(empty, full))  # type: ignore[arg-type]
        with pytest.raises(NotApplicable, match="no record of the holdout has a value of 'ill'"):
            RAPID("ill", model=model, against="holdout").score(release(full, full, empty))  # type: ignore[arg-type]
        with pytest.raises(NotApplicable, match="key 'sex' has no value that is in both"):
            RAPID("ill", model=model).score(release(full, full.assign(sex="diverse")))  # type: ignore[arg-type]
        with pytest.raises(
            ParameterError, match="precision is the width of intervals of numbers, but 'sex' holds text"
        ):
            RAPID("ill", model=model).score(release(full, full), Snooper(keys=("sex",), precision={"sex": 5}))  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="compared with a holdout, but the release has none"):
        RAPID("ill", against="holdout").score(release(full, full))


def test_a_column_of_too_many_values_is_refused_by_the_models_and_not_by_the_classes() -> None:
    many = frame(1200, 1).assign(ill=[f"v{i}" for i in range(1200)])
    for model in ("forest", "linear"):
        with pytest.raises(NotApplicable, match=r"1,200 different values, and a model tells at most 1,000 apart"):
            RAPID("ill", model=model).score(release(many, many))  # type: ignore[arg-type]
    assert RAPID("ill", model="classes").score(release(many, many)).value > 0.5


def test_wrong_keys_make_the_model_predict_less() -> None:
    """With every key that of a random person, the model knows no more than the column: gains vanish."""
    made = release(frame(800, 1), frame(800, 2))
    values = [RAPID("ill", model="linear").score(made, Snooper(errors=e)).value for e in (0.0, 0.5, 1.0)]
    assert values[0] > values[1] > values[2]
    shuffled = frame(800, 1)
    for name, seed in (("age", 5), ("sex", 6), ("town", 7)):
        shuffled[name] = shuffled[name].sample(800, replace=True, random_state=seed).to_numpy()
    alike = RAPID("ill", model="linear").score(release(shuffled, frame(800, 2))).value
    assert abs(values[2] - alike) < 4 * np.sqrt(2 * alike * (1 - alike) / 800)
