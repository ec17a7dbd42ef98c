"""IL1s: by hand, by algebra, and by replication."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato import ru_map
from sfumato.contract import Draws, NoiseModel, Recipe, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import five, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import AggregateRecords, IndependentNoise, KimNoise, RankSwap, TopCode
from sfumato.schema import Attribute, Schema
from sfumato.utility import IL1s
from tests.two_files import file_of, numbers, release

Numbers = NDArray[np.float64]
ROOT2 = math.sqrt(2)


def loss(before: Microdata, after: Microdata, align: object = "rows", **options: object) -> float:
    score = IL1s(**options).score(Release.of(before, after, align))  # type: ignore[arg-type]
    assert score.value == pytest.approx(1 - score.details["IL1s"])
    return score.details["IL1s"]


def test_the_loss_by_hand() -> None:
    # x: sd² = 10/4 = 2.5, |o - y| sums to 3; y: sd² = 1000/4 = 250, sums to 10; ten values
    before = numbers(x=[1.0, 2, 3, 4, 5], y=[0.0, 10, 20, 30, 40])
    after = numbers(x=[2.0, 2, 3, 4, 7], y=[0.0, 10, 20, 30, 50])
    expected = (3 / math.sqrt(5) + 10 / math.sqrt(500)) / 10
    score = IL1s().score(Release.of(before, after, "rows"))
    assert score.value == pytest.approx(1 - expected)
    assert score.details == pytest.approx(
        {
            "IL1s": expected,
            "largest IL1s of a column": 0.6 / math.sqrt(5),
            "share of values not released": 0.0,
            "IL1s of x": 0.6 / math.sqrt(5),
            "IL1s of y": 2 / math.sqrt(500),
        }
    )
    assert score.words == "values are off by 0.253 standard deviations on average (IL1s 0.179), most for x (0.379)"
    assert score.records == pytest.approx(
        1 - np.array([1 / math.sqrt(5), 0, 0, 0, 2 / math.sqrt(5) + 10 / math.sqrt(500)]) / 2
    )


def test_it_is_a_mean_so_that_it_does_not_grow_with_records_or_columns() -> None:
    g = np.random.default_rng(1)
    x = g.normal(size=(4_000, 1))
    y = x + g.normal(0, 0.5, x.shape)
    once = loss(file_of(x), file_of(y))
    twice = loss(file_of(np.tile(x, (2, 1))), file_of(np.tile(y, (2, 1))))
    assert twice == pytest.approx(
        once * math.sqrt(7_999 / 8_000 / (3_999 / 4_000))
    )  # the divisor n - 1 of the sd, no more
    assert loss(file_of(np.tile(x, 3)), file_of(np.tile(y, 3))) == pytest.approx(once)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 9_999), factor=st.sampled_from([-3.0, 1e-6, 1.0, 1e6]), shift=st.sampled_from([0.0, -50.0, 1e4])
)
def test_units_do_not_matter(seed: int, factor: float, shift: float) -> None:
    g = np.random.default_rng(seed)
    x, y = g.normal(size=(2, 30, 3))
    assert loss(file_of(factor * x + shift), file_of(factor * y + shift)) == pytest.approx(
        loss(file_of(x), file_of(y)), rel=1e-6
    )


@pytest.mark.parametrize("lambda2", [0.04, 0.5, 2.0])
def test_normal_noise_loses_its_level_over_the_root_of_pi(lambda2: float) -> None:
    # E|N(0, λσ)| = λσ√(2/π); over √2σ that is λ/√π
    data = teachers(2_000)
    truth = 1 - math.sqrt(lambda2 / math.pi)
    measure = IL1s(["salary", "income"])
    for mask in (IndependentNoise(lambda2=lambda2), KimNoise(lambda2=lambda2)):
        values = [measure.score(mask.apply(data, Draws(s))).value for s in range(20)]
        assert np.mean(values) == pytest.approx(truth, abs=5 * math.sqrt(lambda2 * (0.5 - 1 / math.pi) / 40_000))
    noise = lambda2 * np.diag([4.0, 9.0])
    model = NoiseModel(("salary", "income"), np.zeros(2), np.diag([4.0, 9.0]), noise, 500)
    assert measure.analytic(model, Snooper()) == pytest.approx(truth)
    assert measure.with_(weighted=True).analytic(model, Snooper()) is None


def test_a_map_draws_it_by_replication_and_by_formula() -> None:
    grid = {"kim_noise.lambda2": [0.1, 0.4]}
    m = ru_map(teachers(400), KimNoise(), grid, risk="salary", utility=IL1s("salary"), replications=30, draws=1)
    for i, lambda2 in enumerate((0.1, 0.4)):
        value, interval = m.estimate(1, i)[:2]
        assert value == pytest.approx(1 - math.sqrt(lambda2 / math.pi), abs=0.01)
        assert interval is not None


def test_another_records_value_is_off_by_at_most_one_on_average() -> None:
    # E|X - X'| <= √E(X - X')² = √2 σ, with the divisor n for σ; for normal columns E|X - X'| = 2σ/√π
    x = np.random.default_rng(5).normal(size=20_000)
    shuffled = np.random.default_rng(6).permutation(x)
    assert loss(numbers(x=x), numbers(x=shuffled)) == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)


def test_what_is_not_released_counts_as_off_to_the_mean_and_by_one_at_least() -> None:
    # mean 3, sd² 12.5; 13 is 10 from the mean, which is 2 of √2 sd = 5; the others are nearer than 5
    before = numbers(x=[0.5, 0.5, 0.5, 0.5, 13.0])
    sd = math.sqrt(np.var([0.5, 0.5, 0.5, 0.5, 13.0], ddof=1) * 2)
    far = 10 / sd
    assert far > 1 > 2.5 / sd
    assert loss(before, numbers(x=[0.5, None, 0.5, 0.5, 13.0])) == pytest.approx(1 / 5)
    assert loss(before, numbers(x=[0.5, 0.5, 0.5, 0.5, None])) == pytest.approx(far / 5)
    assert loss(before, numbers(x=[0.5, 0.5, 13.0]), [0, 1, 4]) == pytest.approx(2 / 5)  # dropped
    assert loss(before, numbers(y=[1.0] * 5)) == pytest.approx((4 + far) / 5)  # the column was not released
    score = IL1s().score(Release.of(before, numbers(x=[0.5, 0.5, 13.0]), [0, 1, 4]))
    assert score.details["share of values not released"] == pytest.approx(0.4)
    assert score.words.endswith("; 40 % of the values are not released, and count as lost")
    empty = numbers(x=[None] * 5)
    assert loss(before, empty) == pytest.approx((4 + far) / 5)
    simulated = numbers(x=[0.5, 0.5, 0.5, 0.5, 13.0, 99.0])
    assert loss(before, simulated, [0, 1, 2, 3, 4, -1]) == 0


def test_suppressing_outliers_is_never_better_than_top_coding_them() -> None:
    data = teachers(2_000)
    x = data.numbers("salary")
    limit = np.quantile(x, 0.95)
    coded = numbers(salary=np.minimum(x, limit))
    gone = numbers(salary=pd.array(np.where(x > limit, np.nan, x), "Float64"))
    before = numbers(salary=x)
    assert loss(before, coded) < loss(before, gone)


@settings(max_examples=60)
@given(seed=st.integers(0, 9_999), n=st.integers(2, 200), tail=st.sampled_from([0.3, 1.0, 4.0]))
def test_a_column_that_is_not_released_loses_between_1_and_an_eighth_more(seed: int, n: int, tail: float) -> None:
    g = np.random.default_rng(seed)
    x = np.sign(g.normal(size=n)) * g.gamma(1, size=n) ** tail
    assert 1 <= loss(numbers(x=x), numbers(y=x)) <= 1.125 + 1e-9


def test_values_that_were_missing_before_are_left_out() -> None:
    before, after = numbers(x=[1.0, None, 3.0, 5.0]), numbers(x=[1.0, 70.0, 4.0, 5.0])
    assert loss(before, after) == pytest.approx(1 / 3 / math.sqrt(8))  # sd² = 4
    score = IL1s().score(Release.of(before, after, "rows"))
    assert score.records is not None
    assert np.isnan(score.records).tolist() == [False, True, False, False]


def test_survey_weights_say_how_much_a_record_counts() -> None:
    w = np.array([1.0, 2.0, 0.0, 4.0])
    x, y = np.array([1.0, 2.0, 100.0, 4.0]), np.array([2.0, 2.0, 7.0, 5.0])
    mean = (1 + 4 + 16) / 7
    variance = (1 * (1 - mean) ** 2 + 2 * (2 - mean) ** 2 + 4 * (4 - mean) ** 2) / 7 * 3 / 2
    expected = (1 * 1 + 2 * 0 + 4 * 1) / 7 / math.sqrt(2 * variance)
    before, after = numbers(w, x=x), numbers(w, x=y)
    assert loss(before, after, weighted=True) == pytest.approx(expected)
    assert IL1s(weighted=True).score(Release.of(before, after, "rows")).variant == "weighted"
    alike = np.full(4, 3.0)
    assert loss(numbers(alike, x=x), numbers(alike, x=y), weighted=True) == pytest.approx(loss(before, after))
    with pytest.raises(DataError, match="needs survey weights"):
        loss(numbers(x=x), numbers(x=y), weighted=True)


def test_constant_columns_are_left_out_and_a_file_of_constants_is_refused() -> None:
    before = numbers(x=[1.0, 2.0, 3.0], y=[0.1, 0.1, 0.1])
    assert loss(before, numbers(x=[1.0, 2.0, 3.0], y=[5.0, 6.0, 7.0])) == 0
    with pytest.raises(DataError, match="nothing varies"):
        loss(numbers(y=[0.1, 0.1]), numbers(y=[0.1, 0.1]))
    with pytest.raises(DataError, match="nothing varies"):
        loss(numbers(x=[1.0]), numbers(x=[1.0]))


def test_implicates_are_averaged() -> None:
    before = numbers(x=[1.0, 2, 3, 4, 5])
    both = release(before, numbers(x=[2.0, 2, 3, 4, 5]), numbers(x=[1.0, 2, 3, 4, 8]))
    score = IL1s().score(both)
    assert score.value == pytest.approx(1 - (1 + 3) / 10 / math.sqrt(5))
    assert score.records == pytest.approx(1 - np.array([0.5, 0, 0, 0, 1.5]) / math.sqrt(5))


def test_per_subgroup_the_standard_deviation_is_that_of_the_group() -> None:
    data = teachers(3_000)
    made = KimNoise(lambda2=0.2).apply(data, Draws(1))
    score = IL1s("salary").score_by(made, "region")
    x, y, region = data.numbers("salary"), made.masked.numbers("salary"), data.batch(["region"]).column("region")
    names = np.array(region.arrow.to_pylist(), object)
    assert set(score.groups) == set(names)
    for name, value in score.groups.items():
        part = names == name
        assert value == pytest.approx(1 - np.abs(x - y)[part].mean() / (ROOT2 * x[part].std(ddof=1)))


def test_what_cannot_be_compared_is_said_in_a_sentence() -> None:
    before = numbers(x=[1.0, 2.0, 3.0], y=[1.0, 5.0, 3.0])
    with pytest.raises(NotApplicable, match=r"x: released as categories.*IL1s\(over="):
        loss(before, numbers(x=["low", "low", "high"], y=[1.0, 5.0, 3.0]))
    assert loss(before, numbers(x=["low", "low", "high"], y=[1.0, 5.0, 3.0]), over="y") == 0
    with pytest.raises(NotApplicable, match="which released record came from which"):
        IL1s().score(Release.of(before, before))
    with pytest.raises(DataError, match="infinite"):
        loss(before, numbers(x=[1.0, 2.0, math.inf], y=[1.0, 5.0, 3.0]))
    with pytest.raises(DataError, match="infinite"):
        loss(numbers(x=[1.0, 2.0, math.inf]), numbers(x=[1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match="Did you mean 'x'"):
        loss(before, before, over="xx")
    with pytest.raises(ParameterError, match="true or false"):
        IL1s(weighted="yes")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="nothing varies"):
        loss(numbers(x=[None, 1.0]), numbers(x=[2.0, 1.0]))


def test_numbers_that_are_codes_are_compared_only_if_named() -> None:
    schema = Schema((Attribute("code", "key", "unordered"), Attribute("x", "confidential")))  # type: ignore[arg-type]
    before, after = (
        Microdata(pd.DataFrame({"code": code, "x": [1.0, 2.0, 3.0]}), schema) for code in ([1, 2, 3], [3, 1, 2])
    )
    assert loss(before, after) == 0
    assert loss(before, after, over=("code", "x")) > 0


def test_the_masks_of_the_house_are_ordered_as_one_would_expect() -> None:
    data = teachers(1_000)
    unchanged = IL1s().score(Recipe(()).apply(data, Draws(1)))
    assert unchanged.value == 1
    few, many = (IL1s().score(RankSwap(p=p).apply(data, Draws(1))).value for p in (0.01, 0.2))
    assert 1 > few > many > 0
    codes = [IL1s().score(TopCode(quantile=q).apply(data, Draws(1))).value for q in (0.99, 0.9, 0.7)]
    assert codes == sorted(codes, reverse=True)
    assert IL1s().score(AggregateRecords(k=2).apply(five(), Draws(1))).value <= 0  # no record is its own any more
    assert 1 - IL1s().score(Recipe(()).apply(five(), Draws(1))).value == 0


def test_released_values_too_large_for_a_number_are_refused() -> None:
    for after in ([1.0, 2.0, 1e308], [-1.7e308, 1.7e308, 1.7e308]):
        with pytest.raises(DataError, match="x: some released values are too large to compare"):
            loss(numbers(x=[1e-9, 2e-9, 3e-9]), numbers(x=after))
