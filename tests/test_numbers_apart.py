"""Kolmogorov-Smirnov, Wasserstein and energy distance: against SciPy, by brute force, and in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from small_files import amounts

from sfumato import Draws
from sfumato.contract import Release
from sfumato.contract.score import Side
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.column_pairs import ecdf_gaps
from sfumato.masks import Recode, RemoveIdentifiers
from sfumato.schema import TreeHierarchy
from sfumato.utility import EnergyDistance, KolmogorovSmirnov, Wasserstein

Numbers = NDArray[np.float64]
MEASURES = [KolmogorovSmirnov, Wasserstein, EnergyDistance]
W = {"w": {"role": "weight"}}


def compared(x: Any, y: Any, measure: Any) -> float:
    """Return the loss of one column."""
    return 1 - float(measure.score(Release.of(amounts(x=x), amounts(x=y))).value)


def normal(n: int, mean: float = 0.0, sd: float = 1.0) -> Numbers:
    """The numbers that stand best for n draws from a normal distribution."""
    return np.asarray(stats.norm.ppf((np.arange(n) + 0.5) / n, mean, sd))


# -- against other people's code and brute force

VALUES = st.lists(st.integers(-6, 6).map(lambda v: v / 2), min_size=1, max_size=12)
AMOUNTS = st.integers(1, 5).map(float)


@st.composite
def samples(draw: Any) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    x, y = draw(VALUES), draw(VALUES)
    u, v = (draw(st.lists(AMOUNTS, min_size=len(part), max_size=len(part))) for part in (x, y))
    return np.array(x), np.array(u), np.array(y), np.array(v)


@given(samples())
def test_the_kernel_agrees_with_scipy_and_with_looking_everywhere(found: Any) -> None:
    x, u, y, v = found
    a, b = np.argsort(x), np.argsort(y)
    gaps = ecdf_gaps(x[a], np.cumsum(u[a]) / u.sum(), y[b], np.cumsum(v[b]) / v.sum())
    everywhere = np.concatenate([x, y])
    apart = [abs(u[x <= t].sum() / u.sum() - v[y <= t].sum() / v.sum()) for t in everywhere]
    assert gaps.largest == pytest.approx(max(apart), abs=1e-12)
    assert gaps.area == pytest.approx(stats.wasserstein_distance(x, y, u, v), abs=1e-12)
    assert math.sqrt(2 * gaps.square) == pytest.approx(stats.energy_distance(x, y, u, v), abs=1e-7)


@given(samples())
@settings(deadline=None)
def test_weighted_measures_agree_with_scipy_on_files(found: Any) -> None:
    x, u, y, v = found
    release = Release.of(amounts(W, x=x, w=u), amounts(W, x=y, w=v))
    mean = np.average(x, weights=u)
    n = len(x)
    sd = math.sqrt(np.average((x - mean) ** 2, weights=u) * n / (n - 1)) if n > 1 else 0.0
    if len(set(x)) == 1:
        expected = float(set(x) != set(y)), float(set(x) != set(y))
    else:
        expected = (
            stats.wasserstein_distance(x / sd, y / sd, u, v),
            stats.energy_distance(x / sd, y / sd, u, v),
        )
    for measure, loss in zip((Wasserstein, EnergyDistance), expected, strict=True):
        score = measure(weighted=True).score(release)
        assert 1 - score.value == pytest.approx(loss, abs=1e-7)
        assert score.variant == "weighted"


def test_measures_agree_with_scipy_on_larger_files_with_ties() -> None:
    g = np.random.default_rng(4)
    for n, m in ((300, 170), (1000, 1000)):
        x, y = g.normal(size=n).round(1), (1.4 * g.normal(size=m) + 0.3).round(1)
        sd = x.std(ddof=1)
        assert compared(x, y, KolmogorovSmirnov()) == pytest.approx(stats.ks_2samp(x, y).statistic)
        assert compared(x, y, Wasserstein()) == pytest.approx(stats.wasserstein_distance(x, y) / sd)
        assert compared(x, y, EnergyDistance()) == pytest.approx(stats.energy_distance(x / sd, y / sd))


def test_whole_weights_are_copies_of_records() -> None:
    x, y = np.array([1.0, 2.0, 5.0, 5.5]), np.array([0.0, 2.0, 6.0])
    u, v = np.array([2, 1, 3, 1]), np.array([1, 4, 1])
    for measure in (KolmogorovSmirnov, EnergyDistance):
        weighted = measure(weighted=True).score(Release.of(amounts(W, x=x, w=u), amounts(W, x=y, w=v))).value
        unit = np.std(np.repeat(x, u), ddof=1) / (
            np.std(np.repeat(x, u)) * math.sqrt(4 / 3)
        )  # n/(n - 1) of 4, not of 7
        copies = measure().score(Release.of(amounts(x=np.repeat(x, u)), amounts(x=np.repeat(y, v)))).value
        power = 0.5 if measure is EnergyDistance else 0
        assert 1 - weighted == pytest.approx((1 - copies) * unit**power)


# -- closed forms


@pytest.mark.parametrize("shift", [0.01, 0.3, 2.5])
def test_a_shifted_file_is_as_far_away_as_the_shift(shift: float) -> None:
    x = np.random.default_rng(2).gamma(2, 3, 400)
    assert compared(x, x + shift * x.std(ddof=1), Wasserstein()) == pytest.approx(shift)


@pytest.mark.parametrize("shift", [0.2, 1.0])
def test_two_normal_distributions_in_closed_form(shift: float) -> None:
    x, y = normal(20_000), normal(20_000, shift)
    assert compared(x, y, KolmogorovSmirnov()) == pytest.approx(2 * stats.norm.cdf(shift / 2) - 1, abs=2e-4)
    assert compared(x, y, Wasserstein()) == pytest.approx(shift, rel=1e-3)
    # E|N(m, s²)| = s √(2/π) exp(-m²/2s²) + m (1 - 2Φ(-m/s)); the difference of two draws has s² = 2
    across = 2 / math.sqrt(math.pi) * math.exp(-(shift**2) / 4) + shift * (
        1 - 2 * stats.norm.cdf(-shift / math.sqrt(2))
    )
    within = 2 / math.sqrt(math.pi)
    assert compared(x, y, EnergyDistance()) == pytest.approx(math.sqrt(2 * across - 2 * within), rel=2e-3)


@pytest.mark.parametrize("noise", [0.2, 1.25])
def test_a_normal_distribution_under_noise_in_closed_form(noise: float) -> None:
    x, y = normal(20_000), normal(20_000, sd=math.sqrt(1 + noise))
    assert compared(x, y, Wasserstein()) == pytest.approx(math.sqrt(2 / math.pi) * (math.sqrt(1 + noise) - 1), rel=3e-3)
    across, within = math.sqrt(2 / math.pi) * math.sqrt(2 + noise), (1 + math.sqrt(1 + noise)) / math.sqrt(math.pi)
    assert compared(x, y, EnergyDistance()) == pytest.approx(math.sqrt(2 * across - 2 * within), rel=3e-3)


# -- what a utility of the house must do


@pytest.mark.parametrize("measure", MEASURES)
def test_an_unchanged_file_keeps_all_in_any_order(measure: Any) -> None:
    x = np.random.default_rng(1).normal(size=50).round(1)
    assert measure.side is Side.UTILITY
    assert compared(x, x, measure()) == 0
    assert compared(x, x[::-1].copy(), measure()) == 0
    assert compared(x, np.tile(x, 3), measure()) == pytest.approx(0, abs=1e-7)  # the same shares


@pytest.mark.parametrize("measure", MEASURES)
def test_suppressing_values_loses_and_suppressing_more_loses_more(measure: Any) -> None:
    x = np.random.default_rng(1).normal(size=400)
    losses = []
    for share in (0, 0.1, 0.5, 0.9, 1):
        y = x.copy()
        y[: int(share * len(x))] = np.nan
        losses.append(compared(x, y, measure()))
    assert losses[0] == 0
    assert losses == sorted(set(losses))
    assert losses[-1] == 1
    # with the distribution of the others the same, just the share that is gone
    once = np.tile(x, 2)
    half = np.concatenate([x, np.full(len(x), np.nan)])
    assert compared(once, half, measure()) == pytest.approx(0.5, abs=2e-3)


def test_suppressing_some_values_does_not_help_where_the_others_are_far_off() -> None:
    x = normal(200)
    far, none = x + 3, np.full(200, np.nan)
    gone = np.where(np.arange(200) % 2 == 0, np.nan, far)
    assert compared(x, far, Wasserstein()) == pytest.approx(3, rel=0.01)
    assert compared(x, gone, Wasserstein()) >= 3 * 0.99
    assert compared(x, none, Wasserstein()) == 1  # as if the column had not been released


@pytest.mark.parametrize("measure", MEASURES)
def test_values_missing_in_the_original_are_left_out(measure: Any) -> None:
    x, y = np.array([1.0, np.nan, 4.0, 9.0]), np.array([2.0, 5.0, 9.0])
    assert compared(x, y, measure()) == pytest.approx(compared(x[~np.isnan(x)], y, measure()))
    coded = amounts({"x": {"missing": (99,)}}, x=[1.0, 99.0, 4.0, 9.0])
    assert measure().score(Release.of(coded, amounts(x=y))).value == pytest.approx(1 - compared(x, y, measure()))


@pytest.mark.parametrize("measure", MEASURES)
def test_a_column_that_was_not_released_or_a_file_without_records_loses_all(measure: Any) -> None:
    data = amounts(x=[1.0, 2.0, 4.0], y=[1.0, 2.0, 4.0])
    score = measure().score(Release.of(data, data.local(["x"])))
    assert score.value == 0.5
    assert score.details["loss of y"] == 1
    assert score.details["loss of x"] == 0
    assert "the largest, 1" in score.words
    assert score.words.endswith("is that of y")
    assert measure().score(Release.of(data, data.take(np.array([], int)))).value == 0


@pytest.mark.parametrize("measure", MEASURES)
def test_the_mean_of_the_implicates_is_taken(measure: Any) -> None:
    x, first, second = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 4.0]), np.array([0.0, 2.0, 9.0])
    both = Release(amounts(x=x), (amounts(x=first), amounts(x=second)), aligned=False)
    expected = (compared(x, first, measure()) + compared(x, second, measure())) / 2
    assert 1 - measure().score(both).value == pytest.approx(expected)


@pytest.mark.parametrize("measure", MEASURES)
def test_subgroups_are_scored_one_by_one(measure: Any) -> None:
    facts = {"sex": {"role": "key", "scale": "unordered"}}
    before = amounts(facts, x=[1.0, 2.0, 4.0, 5.0, 6.0], sex=["f", "f", "f", "m", "m"])
    after = amounts(facts, x=[1.0, 2.0, 4.0, 5.0, 8.0], sex=["f", "f", "f", "m", "m"])
    groups = measure("x").score_by(Release.of(before, after, "rows"), "sex").groups
    assert groups["f"] == 1
    assert groups["m"] == pytest.approx(1 - compared([5.0, 6.0], [5.0, 8.0], measure()))


def test_a_constant_column_has_no_unit_so_it_is_either_kept_or_lost() -> None:
    for measure in (Wasserstein, EnergyDistance):
        assert compared([0.1] * 5, [0.1] * 5, measure()) == 0
        assert compared([0.1] * 5, [0.1, 0.1, 0.1, 0.1, 0.2], measure()) == 1
    assert compared([0.1] * 5, [0.1, 0.1, 0.1, 0.1, 0.2], KolmogorovSmirnov()) == pytest.approx(0.2)


# -- numbers released as something else


def test_numbers_released_as_intervals_are_spread_evenly_over_the_whole_numbers_in_them() -> None:
    ages = np.array([20, 20, 20, 21, 29, 31, 45, 49])
    data = amounts({"age": {"integer": True}}, age=ages)
    release = Recode({"age": [20, 30, 40, 50]}).apply(data, Draws(1))
    # five in [20, 30), one in [30, 40), two in [40, 50): each a tenth of its share on each year
    points = np.arange(20, 50)
    amounts_at = np.repeat([0.5, 0.1, 0.2], 10)
    sd = ages.std(ddof=1)
    assert 1 - Wasserstein().score(release).value == pytest.approx(
        stats.wasserstein_distance(ages / sd, points / sd, None, amounts_at)
    )
    assert 1 - EnergyDistance().score(release).value == pytest.approx(
        stats.energy_distance(ages / sd, points / sd, None, amounts_at)
    )
    cumulative = np.cumsum(amounts_at) / amounts_at.sum()
    assert 1 - KolmogorovSmirnov().score(release).value == pytest.approx(
        max(abs((ages <= t).mean() - cumulative[i]) for i, t in enumerate(points))
    )


def test_intervals_of_other_numbers_are_spread_over_the_interval_and_open_ones_end_where_the_original_does() -> None:
    x = np.random.default_rng(5).uniform(0, 1, 2000)
    data = amounts(x=x)
    uniform = Recode({"x": [0.25, 0.5, 0.75]}).apply(data, Draws(1))
    # evenly distributed numbers lose nothing but what the sample is uneven
    assert 1 - KolmogorovSmirnov().score(uniform).value < 0.03
    assert 1 - Wasserstein().score(uniform).value < 0.03
    # x = u² for u from 0 to 1, released as "≥ -1", which ends at 1: ∫ |u² - (2u - 1)| du = ∫ (1 - u)² du = 1/3
    squares = amounts({"x": {"bounds": (None, 1)}}, x=((np.arange(5000) + 0.5) / 5000) ** 2)
    one = Recode({"x": [-1]}).apply(squares, Draws(1))
    assert set(one.masked.batch(["x"]).column("x").codes[1]) == {"≥ -1"}
    sd = math.sqrt(1 / 5 - 1 / 9)
    assert 1 - Wasserstein().score(one).value == pytest.approx(1 / 3 / sd, rel=1e-3)


def test_labels_of_a_hierarchy_that_lists_numbers_stand_for_them() -> None:
    bands = TreeHierarchy([["1", "low", "*"], ["2", "low", "*"], ["3", "high", "*"], ["4", "high", "*"]])
    data = amounts({"x": {"hierarchy": bands}}, x=[1, 1, 2, 4])
    release = Recode({"x": 1}).apply(data, Draws(1))
    sd = np.std([1, 1, 2, 4], ddof=1)
    spread = [1, 2, 3, 4], [3, 3, 1, 1]
    expected = stats.wasserstein_distance([1, 1, 2, 4], spread[0], None, spread[1]) / sd
    assert 1 - Wasserstein().score(release).value == pytest.approx(expected)


def test_labels_that_say_nothing_about_numbers_count_as_missing() -> None:
    data = amounts(x=[1.0, 2.0, 3.0, 4.0])
    told = amounts({"x": {"scale": "unordered"}}, x=["1", "*", "3", "much"])
    expected = compared([1.0, 2.0, 3.0, 4.0], [1.0, np.nan, 3.0, np.nan], Wasserstein())
    assert 1 - Wasserstein().score(Release.of(data, told)).value == pytest.approx(expected)
    flags = amounts({"x": {"scale": "unordered"}}, x=[True, False, True, True])
    assert Wasserstein().score(Release.of(data, flags)).value == 0


# -- refusals


@pytest.mark.parametrize("measure", MEASURES)
def test_what_cannot_be_compared_is_refused_in_a_sentence(measure: Any) -> None:
    data = amounts({"c": {"scale": "unordered"}}, x=[1.0, 2.0], c=["a", "b"])
    release = Release.of(data, data)
    with pytest.raises(DataError, match="column 'z' is not in the data"):
        measure("z").score(release)
    with pytest.raises(DataError, match="column 'c' does not hold numbers"):
        measure("c").score(release)
    with pytest.raises(DataError, match="needs survey weights"):
        measure(weighted=True).score(Release.of(data, amounts(W, x=[1.0], w=[1.0])))
    with pytest.raises(NotApplicable, match="the release has none"):
        measure(weighted=True).score(Release.of(amounts(W, x=[1.0], w=[1.0]), data))
    with pytest.raises(ParameterError, match="true or false"):
        measure(weighted="yes")
    empty = data.take(np.array([], int))
    with pytest.raises(DataError, match="no records"):
        measure().score(Release.of(empty, data))
    nothing = amounts(x=pa.array([None, None], pa.float64()))
    with pytest.raises(DataError, match="no value is known"):
        measure().score(Release.of(nothing, data))
    zero = amounts(W, x=[1.0, 2.0], w=[0.0, 0.0])
    with pytest.raises(DataError, match="zero"):
        measure(weighted=True).score(Release.of(zero, zero))


def test_infinite_values_have_no_distance_but_a_place_in_the_order() -> None:
    for measure in (Wasserstein, EnergyDistance):
        for x, y in (([1.0, np.inf], [1.0, 2.0]), ([1.0, 2.0], [1.0, np.inf])):
            with pytest.raises(DataError, match="infinite"):
                compared(x, y, measure())
    assert compared([1.0, np.inf], [1.0, 2.0], KolmogorovSmirnov()) == 0.5


def test_records_need_not_be_aligned_and_identifiers_are_not_compared() -> None:
    facts = {"id": {"role": "identifier"}}
    data = amounts(facts, id=[1, 2, 3], x=[1.0, 2.0, 4.0])
    release = RemoveIdentifiers().apply(data, Draws(1))
    assert Wasserstein().score(release).value == 1
    loose: Microdata = amounts(x=[4.0, 1.0, 2.0, 2.0, 4.0, 1.0])
    assert KolmogorovSmirnov().score(Release.of(data, loose)).value == 1


@pytest.mark.parametrize("measure", MEASURES)
def test_a_column_without_known_values_is_left_out_whether_it_is_released_or_not(measure: Any) -> None:
    before = amounts(x=[1.0, 2.0, 3.0], y=pa.nulls(3, pa.float64()))
    for after in (before, before.local(["x"]), amounts(x=[1.0, 2.0, 3.0], y=[1.0, 2.0, 3.0])):
        score = measure().score(Release.of(before, after))
        assert score.value == 1
        assert "loss of y" not in score.details
    nobody = before.local(["x"]).take(np.array([], int))
    assert measure().score(Release.of(before, nobody)).details.keys() == score.details.keys()
    # nor do values count that only records without weight have
    facts = {"w": {"role": "weight"}}
    light = amounts(facts, x=[1.0, 2.0, 3.0], y=pa.array([None, None, 5.0]), w=[1.0, 1.0, 0.0])
    assert measure(weighted=True).score(Release.of(light, light.local(["x", "w"]))).value == 1


@pytest.mark.parametrize("measure", [Wasserstein, EnergyDistance])
def test_released_values_too_large_for_a_number_are_refused(measure: Any) -> None:
    with pytest.raises(DataError, match="x: some released values are too large to compare"):
        compared([1e-9, 2e-9, 3e-9], [1.0, -1e308, 1e308], measure())
