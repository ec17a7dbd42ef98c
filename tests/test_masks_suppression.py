"""Rounding, truncation, top coding of several columns, and suppression of columns and values."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import mahalanobis
from scipy.stats import chi2
from small_files import amounts as microdata
from small_files import release

import sfumato.data.duckdb_engine as duckdb_engine
from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, SfumatoError
from sfumato.masks import (
    MultivariateTopCode,
    RandomRound,
    Recode,
    Round,
    SuppressColumns,
    SuppressValues,
    TopCode,
    Truncate,
)
from sfumato.schema import Level


def column(data: Microdata, name: str) -> list[Any]:
    return ["NaN" if v != v else v for v in data.batch([name]).column(name).arrow.to_pylist()]


def masked(mask: Mask, data: Microdata, name: str = "x", seed: int = 1) -> list[Any]:
    return column(release(mask, data, seed).masked, name)


# Rounding


MODES = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


@given(
    st.lists(st.decimals(-1000, 1000, places=3), min_size=1, max_size=20),
    st.sampled_from(["0.1", "0.05", "0.25", "0.3", "0.002", "1", "5", "7", "2.5", "100"]),
    st.sampled_from(sorted(MODES)),
)
def test_rounding_is_that_of_decimal_arithmetic_to_the_last_digit(x: list[Decimal], base: str, how: Any) -> None:
    made = masked(Round(float(base), how=how), microdata(x=[float(v) for v in x]))
    assert made == [float((v / Decimal(base)).to_integral_value(MODES[how]) * Decimal(base)) for v in x]


def test_a_multiple_stays_even_where_its_quotient_is_not_whole_in_floating_point() -> None:
    x = [k / 10 for k in range(-50, 51)]
    assert 0.3 // 0.1 == 2  # the trap
    for mask in (
        Round(0.1, how="down"),
        Round(0.1, how="up"),
        Round(0.1),
        RandomRound(0.1),
        RandomRound(0.1, how="equal"),
    ):
        assert masked(mask, microdata(x=x)) == x


def test_rounding_keeps_missing_values_codes_and_whole_numbers() -> None:
    facts = {"x": {"integer": True, "missing": (999,)}}
    assert masked(Round(5), microdata(facts, x=[12, None, 999, 14])) == [10, None, 999, 15]
    assert masked(Round(5), microdata(x=[12.0, math.nan, 13.0])) == [10.0, "NaN", 15.0]


@pytest.mark.parametrize("mask", [Round(50), Round(50, how="up"), RandomRound(50), RandomRound(50, how="equal")])
def test_rounding_stays_within_bounds_that_are_no_multiples(mask: Mask) -> None:
    facts = {"x": {"integer": True, "bounds": (10, 168)}}
    x = list(range(10, 169))
    made = np.array(masked(mask, microdata(facts, x=x)))
    assert set(made) == {50, 100, 150}
    assert (np.abs(made - x) < 50).all()


def test_rounding_takes_the_other_neighbour_where_one_is_a_code_for_missing() -> None:
    made = masked(Round(5), microdata({"x": {"missing": (10,)}}, x=[9.0, 11.0, 10.0, 3.0]))
    assert made == [5.0, 15.0, 10.0, 5.0]


@pytest.mark.parametrize(
    ("mask", "facts", "sentence"),
    [
        (Round(2.5), {"integer": True}, "base must be a whole number too"),
        (Round(50), {"bounds": (10, 40)}, "no multiple of 50 lies within the bounds"),
        (Round({"y": 5.0}), {}, "must name the columns that are rounded, x"),
    ],
)
def test_a_base_that_does_not_suit_the_column_is_refused(mask: Mask, facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        release(mask, microdata({"x": facts}, x=[12, 13]))


def test_infinite_values_are_not_rounded_but_refused() -> None:
    with pytest.raises(DataError, match="infinite values"):
        masked(Round(5), microdata(x=[1.0, math.inf]))


@pytest.mark.parametrize("x", [0.0, 1.0, 2.5, 4.9, -3.75, 1003.0])
def test_random_rounding_is_right_on_average(x: float) -> None:
    n, base = 100_000, 5.0
    made = np.array(masked(RandomRound(base), microdata(x=np.full(n, x))))
    below = math.floor(x / base) * base
    share = (x - below) / base
    assert set(made) <= {below, below + base}
    assert abs(made.mean() - x) <= 4.5 * base * math.sqrt(share * (1 - share) / n) + 1e-12


def test_equal_rounding_goes_up_half_of_the_time_wherever_the_value_lies() -> None:
    n = 100_000
    for x in (0.5, 4.5):
        up = np.array(masked(RandomRound(5, how="equal"), microdata(x=np.full(n, x)))) == 5
        assert abs(up.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(n)


def test_a_household_is_rounded_once() -> None:
    home = np.repeat(np.arange(500), 2)
    facts = {"home": {"role": "household"}, "x": {"level": Level.HOUSEHOLD}}
    made = np.array(masked(RandomRound(10), microdata(facts, x=np.repeat(np.full(500, 5.0), 2), home=home)))
    assert (made[::2] == made[1::2]).all()
    assert set(made) == {0.0, 10.0}


def test_rounding_says_why_it_is_no_matrix_mask() -> None:
    for mask, words in (
        (RandomRound(5), "random rounding"),
        (Recode({"x": [1]}), "groups values"),
        (Truncate(), "truncating"),
    ):
        with pytest.raises(NotApplicable, match=words):
            mask.as_matrix(microdata(x=[1.0]), Draws(1))


# Truncation


def test_values_beyond_the_limits_become_missing_and_the_others_stay() -> None:
    data = microdata(x=[1.0, 2.0, 3.0, math.nan, 10.0, None], y=[5, 6, 7, 8, 9, 10])
    made = release(Truncate(["x"], low=2, high=3), data).masked
    assert column(made, "x") == [None, 2.0, 3.0, "NaN", None, None]
    assert column(made, "y") == [5, 6, 7, 8, 9, 10]
    assert masked(Truncate(high={"x": 3, "y": 8}), data, "y") == [5, 6, 7, 8, None, None]


def test_truncation_takes_away_what_top_coding_piles_up() -> None:
    x = np.random.default_rng(1).exponential(1, 50_000)
    data = microdata(x=x)
    cut = release(Truncate(high=2), data).masked.numbers("x")
    piled = release(TopCode(value=2), data).masked.numbers("x")
    assert np.isnan(cut).sum() == (x > 2).sum() == (piled == 2).sum()
    # the mean of an exponential distribution truncated at 2
    truth = 1 - 2 * math.exp(-2) / (1 - math.exp(-2))
    assert abs(np.nanmean(cut) - truth) < 4.5 * np.nanstd(cut) / math.sqrt((x <= 2).sum())


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.floats(0, 0.5))
def test_no_more_than_the_share_is_removed_at_each_end(x: list[int], tail: float) -> None:
    y = np.array(masked(Truncate(tail=tail), microdata(x=np.array(x, np.float64))), object)
    gone = np.array(x)[[v is None for v in y]]
    left = np.array([v for v in y if v is not None])
    assert len(left)
    for end in (gone[gone < left.min()], gone[gone > left.max()]):
        assert len(end) <= tail * len(x) + 1e-6
    assert len(gone) == (gone < left.min()).sum() + (gone > left.max()).sum()


def test_one_percent_is_removed_at_each_end_if_nothing_is_said() -> None:
    made = release(Truncate(), microdata(x=np.random.default_rng(0).permutation(1000).astype(float)))
    y = made.masked.numbers("x")
    assert (np.nanmin(y), np.nanmax(y), np.isnan(y).sum()) == (10, 989, 20)
    assert "x: 20 of 1,000" in made.guarantees[-1].says


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Truncate(tail=0.1, high=3), "not both"),
        (lambda: Truncate(["x"], low=3, high=1), "must not be the larger"),
        (lambda: release(Truncate(high={"y": 3}), microdata(x=[1.0])), "columns that are not truncated: y"),
        (lambda: release(Truncate(["x", "y"], high={"y": 3}), microdata(x=[1.0], y=[1.0])), "no limit for 'x'"),
        (lambda: release(Truncate(), microdata(x=[math.nan])), "no values at all"),
    ],
)
def test_limits_that_make_no_sense_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SfumatoError, match=sentence):
        make()


# Several columns at once


def cloud(n: int = 4000, seed: int = 3) -> np.ndarray[Any, Any]:
    sigma = np.array([[4.0, 5.0, 0.5], [5.0, 9.0, 1.0], [0.5, 1.0, 1.0]])
    return np.random.default_rng(seed).standard_normal((n, 3)) @ np.linalg.cholesky(sigma).T + [10, -5, 100]


def test_records_outside_are_moved_along_the_ray_to_the_edge_and_the_others_stay() -> None:
    x = cloud()
    data = microdata(a=x[:, 0], b=x[:, 1], c=x[:, 2])
    made = release(MultivariateTopCode(quantile=0.9, estimate="classical"), data)
    y = np.column_stack([made.masked.numbers(n) for n in "abc"])
    mean, inverse = x.mean(axis=0), np.linalg.inv(np.cov(x.T))
    edge = math.sqrt(chi2.ppf(0.9, 3))
    moved = 0
    for before, after in zip(x, y, strict=True):
        distance = mahalanobis(before, mean, inverse)
        if distance <= edge * (1 - 1e-9):
            assert (after == before).all()
        else:
            moved += 1
            assert mahalanobis(after, mean, inverse) == pytest.approx(edge)
            np.testing.assert_allclose(after - mean, (before - mean) * edge / distance, rtol=1e-9)
    assert abs(moved - 400) < 4.5 * math.sqrt(4000 * 0.1 * 0.9)
    assert f"; {moved:,} did" in made.guarantees[-1].says


def test_a_record_that_is_extreme_only_as_a_combination_is_found() -> None:
    x = cloud()[:, :2]
    x[0] = x.mean(axis=0) + np.array([2 * 2.0, -2 * 3.0])  # two standard deviations each, against a correlation of 5/6
    data = microdata(a=x[:, 0], b=x[:, 1])
    assert release(TopCode(), data).masked.numbers("a")[0] == x[0, 0]
    assert release(MultivariateTopCode(), data).masked.numbers("a")[0] < x[0, 0] - 1


def test_outliers_do_not_hide_themselves_from_the_robust_estimate() -> None:
    x = cloud()[:, :2]
    x[:800] = [60, -60]  # a fifth of the records
    data = microdata(a=x[:, 0], b=x[:, 1])
    good = x[800:]
    mean, inverse = good.mean(axis=0), np.linalg.inv(np.cov(good.T))
    far = {}
    for estimate in ("robust", "classical"):
        made = release(MultivariateTopCode(estimate=estimate), data).masked  # type: ignore[arg-type]
        far[estimate] = mahalanobis([made.numbers("a")[0], made.numbers("b")[0]], mean, inverse)
    assert far["robust"] < 2 * math.sqrt(chi2.ppf(0.99, 2))
    assert far["classical"] > 10 * far["robust"]


def test_columns_that_depend_on_each_other_are_coded_in_their_plane() -> None:
    x = cloud()[:, :2]
    total = x.sum(axis=1)
    made = release(
        MultivariateTopCode(quantile=0.9, estimate="classical"), microdata(a=x[:, 0], b=x[:, 1], total=total)
    ).masked
    y = np.column_stack([made.numbers(n) for n in ("a", "b", "total")])
    np.testing.assert_allclose(y[:, 2], y[:, 0] + y[:, 1], rtol=1e-9)
    mean, inverse = x.mean(axis=0), np.linalg.inv(np.cov(x.T))
    truth = [min(mahalanobis(v, mean, inverse), math.sqrt(chi2.ppf(0.9, 2))) for v in x]
    np.testing.assert_allclose([mahalanobis(v, mean, inverse) for v in y[:, :2]], truth, rtol=1e-7)


def test_whole_numbers_are_rounded_inside_and_missing_values_are_left_out_of_the_distance() -> None:
    x = np.round(cloud())
    x[:200, 0] = np.nan
    x[200:210, :2] = np.nan
    x[0, 1] = 500.0
    data = microdata({n: {"integer": True} for n in "abc"}, a=x[:, 0], b=x[:, 1], c=x[:, 2])
    y = release(MultivariateTopCode(quantile=0.9, estimate="classical"), data).masked
    made = np.column_stack([y.numbers(n) for n in "abc"])
    assert (np.isnan(made) == np.isnan(x)).all()
    assert (made[~np.isnan(made)] == np.round(made[~np.isnan(made)])).all()
    whole = x[~np.isnan(x).any(axis=1)]
    mean, cov = whole.mean(axis=0), np.cov(whole.T)
    for row in made:
        known = ~np.isnan(row)
        distance = mahalanobis(row[known], mean[known], np.linalg.inv(cov[np.ix_(known, known)]))
        assert distance**2 <= chi2.ppf(0.9, known.sum()) * (1 + 1e-8)


def test_household_columns_are_coded_apart_so_that_a_household_keeps_one_value() -> None:
    rent, pay = np.repeat(cloud(300)[:, 0], 2), cloud(600, 5)[:, 1]
    rent[:2], pay[1] = 900, 900
    facts = {"home": {"role": "household"}, "rent": {"level": Level.HOUSEHOLD}}
    made = release(
        MultivariateTopCode(), microdata(facts, home=np.repeat(np.arange(300), 2), rent=rent, pay=pay)
    ).masked
    assert (made.numbers("rent")[::2] == made.numbers("rent")[1::2]).all()
    assert made.numbers("rent")[0] < 100 > made.numbers("pay")[1]


def test_columns_without_spread_or_without_complete_records_are_refused() -> None:
    with pytest.raises(DataError, match="there is no spread"):
        release(MultivariateTopCode(), microdata(a=[1.0, 1.0], b=[2.0, 2.0]))
    with pytest.raises(DataError, match="no record has a value in all of a, b"):
        release(MultivariateTopCode(), microdata(a=[1.0, math.nan], b=[math.nan, 2.0]))


# Columns


def test_suppressed_columns_go_with_everything_that_follows_them() -> None:
    facts = {"town": {"follows": "zip"}, "county": {"follows": "town"}}
    data = microdata(facts, zip=["1"], town=["a"], county=["b"], pay=[1.0])
    made = release(SuppressColumns("zip"), data)
    assert made.masked.schema.names() == ("pay",)
    assert "nor what follows (town, county)" in made.guarantees[-1].says


def test_the_matrix_of_suppressed_columns_picks_the_others() -> None:
    data = microdata(a=[1.0, 2.0], b=[3.0, 4.0], word=["x", "y"], c=[5.0, 6.0])
    form = SuppressColumns(["b", "word"]).as_matrix(data, Draws(1))
    assert (form.names, form.released) == (("a", "b", "c"), ("a", "c"))
    assert form.B is not None
    assert form.B.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert form.apply(np.array([[1.0, 3.0, 5.0]])).tolist() == [[1.0, 5.0]]


def test_suppressing_everything_or_something_unknown_is_refused() -> None:
    with pytest.raises(DataError, match="nothing would be left"):
        release(SuppressColumns(["a"]), microdata(a=[1.0]))
    with pytest.raises(SfumatoError, match="Did you mean 'salary'"):
        release(SuppressColumns(["salry"]), microdata(salary=[1.0]))


# Values


def test_values_are_suppressed_where_the_rule_holds() -> None:
    day = datetime.date(2020, 1, 1)
    data = microdata(
        {"sex": {"scale": "unordered"}, "pay": {"missing": (-1,)}},
        age=[30, 91, 95, None, 99], sex=["f", "m", "f", "m", None], pay=[1.0, 2.0, -1.0, 4.0, math.nan],
        new=[True, False, True, False, None], day=[day, day, None, day, day],
    )  # fmt: skip
    made = release(SuppressValues(["sex", "pay", "new", "day", "age"], where="age > 90"), data)
    assert column(made.masked, "sex") == ["f", None, None, "m", None]
    assert column(made.masked, "pay") == [1.0, None, -1.0, 4.0, "NaN"]  # what is missing already keeps its kind
    assert column(made.masked, "new") == [True, None, None, False, None]
    assert column(made.masked, "day") == [day, None, None, day, None]
    assert column(made.masked, "age") == [30, None, None, None, None]
    assert [g.says.partition("; ")[2] for g in made.guarantees[1:3]] == [
        "2 of 5 are suppressed",
        "1 of 5 are suppressed",
    ]
    listed = SuppressValues("sex", where="sex in ('f', 'x')")
    assert masked(listed, data, "sex") == [None, "m", None, "m", None]


def test_a_household_value_is_suppressed_for_all_members_as_soon_as_the_rule_holds_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = {"home": {"role": "household"}, "rent": {"level": Level.HOUSEHOLD}}
    data = microdata(
        facts, home=[1, 2, 1, 3, 3], age=[30, 95, 91, 40, 40], rent=[5.0, 6.0, 5.0, 7.0, 7.0], pay=[1, 2, 3, 4, 5]
    )
    monkeypatch.setattr(duckdb_engine, "_ROWS", 2)  # members of one household in different pieces
    connection = duckdb.connect()
    connection.from_arrow(data.batch().rows.to_arrow()).create("people")
    for where in (data, Microdata(connection.table("people"), data.schema)):
        made = release(SuppressValues(["rent", "pay"], where="age > 90"), where).masked
        assert column(made, "rent") == [None, None, None, 7.0, 7.0]
        assert column(made, "pay") == [1, None, None, 4, 5]


def test_a_rule_that_cannot_be_read_or_names_no_column_is_refused() -> None:
    with pytest.raises(ParameterError, match="not understood"):
        SuppressValues("pay", where="age >")
    with pytest.raises(SfumatoError, match="'agee' is not in the data"):
        release(SuppressValues("pay", where="agee > 1"), microdata(pay=[1.0], age=[1]))


# Bad input of these methods together


def test_limits_in_the_wrong_order_are_refused_with_and_without_named_columns() -> None:
    for wrong in (
        {"low": 10, "high": 5},
        {"columns": ("x",), "low": 10, "high": 5},
        {"low": {"x": 10}, "high": 5},
        {"low": {"x": 10, "y": 0}, "high": {"x": 5, "y": 1}},
    ):
        with pytest.raises(ParameterError, match="are 10 and 5: the lower one must not be the larger"):
            Truncate(**wrong)  # type: ignore[arg-type]


def test_the_survey_weight_is_not_suppressed_value_by_value() -> None:
    data = microdata({"w": {"role": "weight"}}, x=[1.0, 2], w=[3.0, 4])
    with pytest.raises(DataError, match="a record without one counts nowhere"):
        release(SuppressValues(columns=("w",), where="x > 1"), data)


@pytest.mark.parametrize("mask", [TopCode(columns=("rent",), value=500, replace="mean")])
def test_a_mean_of_one_household_with_three_members_is_not_released(mask: Mask) -> None:
    # three records lie beyond the threshold, but they are one household: the "mean" would be its rent
    facts = {"home": {"role": "household"}, "rent": {"level": "household"}}
    with pytest.raises(DataError, match="that of fewer than 3 households, and would tell what they are"):
        release(mask, microdata(facts, home=[1, 1, 1, 2, 3], rent=[900.0, 900, 900, 300, 200]))
    three = microdata(facts, home=[1, 1, 2, 3, 4], rent=[900.0, 900, 700, 800, 200])
    assert masked(mask, three, "rent") == [825, 825, 825, 825, 200]  # (900 + 900 + 700 + 800) / 4


def test_a_value_midway_in_decimals_goes_to_the_even_multiple_though_no_float_is_midway() -> None:
    data = microdata(x=[0.015, 0.013, -0.015, 0.35, 0.45, 2.5])
    assert masked(Round(0.002, columns=("x",)), data)[:3] == [0.016, 0.012, -0.016]
    assert masked(Round(0.1, columns=("x",)), data)[3:] == [0.4, 0.4, 2.5]


def test_a_rule_fitted_on_one_file_suppresses_the_households_of_another_by_their_own_members() -> None:
    # home 1 had an old member in the first file only, home 2 has one in the second only
    facts = {"home": {"role": "household"}, "rent": {"level": "household"}}
    first = microdata(facts, home=[1, 1, 2, 2], rent=[5.0, 5, 6, 6], age=[95.0, 30, 40, 41])
    second = microdata(facts, home=[1, 1, 2, 2], rent=[7.0, 7, 8, 8], age=[50.0, 30, 96, 41])
    fitted = SuppressValues(columns=("rent",), where="age > 90").as_recipe().fit(first, Draws(1))
    assert column(fitted.apply(first, Draws(1)).masked, "rent") == [None, None, 6, 6]
    assert column(fitted.apply(second, Draws(1)).masked, "rent") == [7, 7, None, None]
