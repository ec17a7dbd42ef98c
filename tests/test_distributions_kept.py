"""Hellinger distance and total variation: by hand, by brute force, in closed form; bins; recoded and suppressed values."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_files import amounts, microdata

from sfumato import Draws, ru_map
from sfumato.contract import Release
from sfumato.data import Column
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import CopulaSynthesis, Generalise, KimNoise, Recode, SuppressValues
from sfumato.risk import AttributeRisk
from sfumato.schema import DateHierarchy, IntervalHierarchy, PrefixHierarchy, TreeHierarchy
from sfumato.utility import Hellinger, JointEnergyDistance, TableDistance, TotalVariation, Wasserstein
from sfumato.utility.distributions import Shares, bins_of, hellinger, mean_difference, total_variation

MEASURES = [Hellinger, TotalVariation]
W = {"w": {"role": "weight", "scale": "ordered"}}
TREE = TreeHierarchy([["a", "ab", "*"], ["b", "ab", "*"], ["c", "cde", "*"], ["d", "cde", "*"], ["e", "cde", "*"]])


def loss(measure: Any, before: Microdata, after: Microdata) -> float:
    return 1 - float(measure.score(Release.of(before, after)).value)


def slow(p: dict[Any, float], q: dict[Any, float]) -> tuple[float, float]:
    """Return Hellinger distance and total variation of two tables of amounts."""
    a, b = sum(p.values()), sum(q.values())
    cells = {*p, *q}
    h = sum((math.sqrt(p.get(c, 0) / a) - math.sqrt(q.get(c, 0) / b)) ** 2 for c in cells)
    return math.sqrt(h / 2), sum(abs(p.get(c, 0) / a - q.get(c, 0) / b) for c in cells) / 2


# -- the distances


def test_the_worked_example_of_small_count_rounding() -> None:
    # Shlomo, Antal, Elliot (2015); the example of HDutility in R's SmallCountRounding: counts 1..6 and 0,3,3,3,6,6
    f, g = np.arange(1, 7), np.array([0, 3, 3, 3, 6, 6])
    distance = math.sqrt(((np.sqrt(f) - np.sqrt(g)) ** 2).sum() / 2)
    before, after = (microdata(c=np.repeat(list("uvwxyz"), counts).tolist()) for counts in (f, g))
    assert Hellinger().score(Release.of(before, after)).value == pytest.approx(1 - distance / math.sqrt(21))
    assert TotalVariation().score(Release.of(before, after)).value == pytest.approx(
        1 - (1 + 1 + 0 + 1 + 1 + 0) / 2 / 21
    )


def test_distances_of_shares_by_hand() -> None:
    s = Shares(np.array([0.5, 0.5]), np.array([0.25, 0.5]), 0.25)
    assert total_variation(s) == 0.25
    assert hellinger(s) == pytest.approx(math.sqrt(((math.sqrt(0.5) - 0.5) ** 2 + 0.25) / 2))
    assert mean_difference(s) == pytest.approx(0.5 / 2)


def test_files_with_nothing_in_common_lose_all_and_unchanged_ones_nothing() -> None:
    before, after = microdata(c=["a", "a", "b"]), microdata(c=["x", "y", "z"])
    for measure in MEASURES:
        assert loss(measure(), before, after) == 1
        assert loss(measure(), before, before) == 0
        assert loss(measure(), before, microdata(c=["b", "a", "a", "a", "b", "a"])) == 0


LETTERS = st.lists(st.sampled_from([*"abcde", None]), min_size=1, max_size=12)
COARSE = st.lists(st.sampled_from([*"abcde", "ab", "cde", "*", "other", None]), min_size=1, max_size=12)


@given(LETTERS, COARSE, st.integers(0, 2**32))
@settings(deadline=None)
def test_any_mixture_of_levels_agrees_with_spreading_each_record_by_hand(x: Any, y: Any, seed: int) -> None:
    g = np.random.default_rng(seed)
    u, v = g.integers(1, 5, len(x)).astype(float), g.integers(1, 5, len(y)).astype(float)
    facts: dict[str, Any] = {"c": {"hierarchy": TREE, "scale": "partially ordered"}, **W}
    before, after = (microdata(facts, c=pa.array(c, pa.string()), w=w) for c, w in ((x, u), (y, v)))
    p: dict[Any, float] = defaultdict(float)
    q: dict[Any, float] = defaultdict(float)
    for value, w in zip(x, u, strict=True):
        p[value] += w
    for value, w in zip(y, v, strict=True):
        under = [leaf for leaf in sorted({*x} - {None}) if value in ("ab", "cde") and leaf in value]
        for leaf in under:
            q[leaf] += w / len(under)
        if not under:
            q[None if value == "*" else value] += w
    release = Release.of(before, after)
    expected = slow(p, q)
    assert 1 - Hellinger(weighted=True).score(release).value == pytest.approx(expected[0], abs=1e-7)
    assert 1 - TotalVariation(weighted=True).score(release).value == pytest.approx(expected[1], abs=1e-12)


# -- recoding, in closed form


def test_recoding_loses_as_much_as_the_values_within_a_label_are_uneven() -> None:
    # 6 a, 2 b, 4 c, 4 d: "ab" is spread 4 and 4, "cde" 4 and 4: of 16 records 2 would have to change
    facts = {"c": {"hierarchy": TREE, "scale": "partially ordered"}}
    data = microdata(facts, c=list("aaaaaabbccccdddd"))
    once = Generalise(level=1).apply(data, Draws(1))
    assert TotalVariation().score(once).value == pytest.approx(1 - 2 / 16)
    bhattacharyya = math.sqrt(6 / 16 * 4 / 16) + math.sqrt(2 / 16 * 4 / 16) + 2 * 4 / 16
    assert Hellinger().score(once).value == pytest.approx(1 - math.sqrt(1 - bhattacharyya))
    # the root says nothing: all is lost, as it is where every value is suppressed
    top = Generalise(level=2).apply(data, Draws(1))
    gone = Release.of(data, microdata(facts, c=pa.array([None] * 16, pa.string())))
    for measure in MEASURES:
        assert measure().score(top).value == measure().score(gone).value == 0


def test_prefixes_are_spread_over_the_codes_that_the_original_has() -> None:
    facts = {"zip": {"hierarchy": PrefixHierarchy(3), "scale": "partially ordered"}}
    data = microdata(facts, zip=["481", "481", "481", "482", "511"])
    release = Generalise(level=1).apply(data, Draws(1))
    assert TotalVariation().score(release).value == pytest.approx(1 - 1 / 5)  # 4/5 on "48*": two codes, 2/5 each


def test_a_label_without_a_place_in_a_hierarchy_is_a_new_category() -> None:
    data = microdata(c=list("aabbcccc"))
    merged = Recode({"c": {"a": "b"}}, unlisted="keep").apply(data, Draws(1))
    assert TotalVariation().score(merged).value == pytest.approx(1 - 2 / 8)
    renamed = Recode({"c": {"a": "vowel"}}, unlisted="keep").apply(data, Draws(1))
    assert TotalVariation().score(renamed).value == pytest.approx(1 - 2 / 8)


def test_numbers_released_as_intervals_are_spread_over_the_bins() -> None:
    ages = [20] * 6 + [25] * 2 + [31] * 8
    data = amounts({"age": {"integer": True}}, age=ages)
    release = Recode({"age": [20, 30, 40]}).apply(data, Draws(1))
    # three different ages, each with a bin: [20, 30) stands for two of them, [30, 40) for one
    assert TotalVariation().score(release).value == pytest.approx(1 - 2 / 16)
    # in bins of 1,600 ages from 0 to 79, five years wide, ten-year intervals are as even as can be
    even = amounts({"age": {"integer": True, "bounds": (0, 79)}}, age=np.repeat(np.arange(80), 20))
    wide = Recode({"age": list(range(0, 80, 10))}).apply(even, Draws(1))
    assert TotalVariation(bins=16).score(wide).value == pytest.approx(1)
    odd = amounts({"age": {"integer": True, "bounds": (0, 79)}}, age=np.repeat(np.arange(0, 80, 10), 20))
    assert TotalVariation(bins=4).score(Recode({"age": list(range(0, 80, 20))}).apply(odd, Draws(1))).value < 1


def test_a_level_of_an_interval_hierarchy_is_read_as_intervals() -> None:
    bands = IntervalHierarchy.from_widths([5, 10], bottom=0, top=100)
    data = amounts({"age": {"integer": True, "hierarchy": bands, "role": "key"}}, age=[20, 20, 20, 24, 26, 26, 31, 33])
    release = Generalise(columns=("age",), level=2).apply(data, Draws(1))
    # 20, 24 and 26 share 6 records, two each; 31 and 33 have one each
    assert TotalVariation().score(release).value == pytest.approx(1 - 1 / 8)


def test_dates_are_binned_and_months_are_spread_over_their_days() -> None:
    days = [date(2024, 1, 1) + timedelta(d) for d in range(366)]
    facts = {"born": {"hierarchy": DateHierarchy(), "scale": "ordered"}}
    data = microdata(facts, born=days)
    assert TotalVariation().score(Release.of(data, data)).value == 1
    months = Generalise(columns=("born",), level=1).apply(data, Draws(1))
    assert TotalVariation().score(months).value == pytest.approx(1)  # every day once: even within months
    years = Generalise(columns=("born",), level=3).apply(data, Draws(1))
    assert TotalVariation().score(years).value > 0.98  # 200 points for 366 days
    later = microdata(facts, born=[d + timedelta(183) for d in days])
    assert TotalVariation(bins=2).score(Release.of(data, later)).value == pytest.approx(0.5, abs=0.01)
    leap = microdata(facts, born=[date(2024, 1, 31)] * 40)
    assert TotalVariation().score(Generalise(columns=("born",), level=1).apply(leap, Draws(1))).value == 1


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", tz="Europe/Oslo")]
)
def test_dates_of_every_kind_are_days_since_1970(kind: Any) -> None:
    column = Column(pa.array([date(1970, 1, 1), None, date(2024, 2, 29)], pa.date32()).cast(kind))
    assert column.days[[0, 2]].tolist() == [0.0, (date(2024, 2, 29) - date(1970, 1, 1)).days]
    assert math.isnan(column.days[1])
    noon = Column(pa.array([datetime(1970, 1, 2, 12)]))
    assert noon.days.tolist() == [1.5]


# -- missing values


@pytest.mark.parametrize("spelt", [["true", "false", "true", None], ["TRUE", "False", "TRUE", None], [1, 0, 1, None]])
def test_true_and_false_are_the_same_however_a_file_spells_them(spelt: Any) -> None:
    one, two = microdata(a=[True, False, True, None]), microdata(a=spelt)
    for before, after in ((one, two), (two, one)):
        assert loss(TotalVariation(), before, after) == 0
    wrong = microdata(a=[False, False, True, None])
    assert loss(TotalVariation(), two, wrong) == 0.25
    numbers = microdata({"a": {"scale": "ordered"}}, a=[1, 0, 1, None])
    assert loss(TotalVariation(), numbers, one) == 0
    assert loss(TotalVariation(), numbers, wrong) == 0.25


@pytest.mark.parametrize("measure", MEASURES)
def test_suppressed_values_are_a_category_that_the_original_does_not_have(measure: Any) -> None:
    g = np.random.default_rng(1)
    data = microdata(a=g.integers(0, 3, 300).astype(str).tolist(), b=g.integers(0, 40, 300).astype(str).tolist())
    release = SuppressValues(("b",), "a == '1'").apply(data, Draws(1))
    gone = release.masked.batch(["b"]).missing("b").mean()
    assert 0.2 < gone < 0.5
    assert TotalVariation(("b",)).score(release).value == pytest.approx(1 - gone)
    assert measure("b").score(release).value < measure("a").score(release).value == 1


def test_the_share_of_missing_values_is_compared_too() -> None:
    before, after = amounts(x=[1.0, 2.0, np.nan, np.nan]), amounts(x=[1.0, np.nan, np.nan, np.nan])
    assert loss(TotalVariation(), before, after) == 0.25
    codes = amounts({"x": {"missing": (99, 98)}}, x=[1.0, 2.0, 99.0, 98.0])
    assert loss(TotalVariation(), codes, after) == 0.25


# -- bins


def test_quantile_bins_hold_equal_shares_and_frequent_numbers_stand_alone() -> None:
    x = np.random.default_rng(3).permutation(np.arange(1000.0))
    bins = bins_of(x, None, 20, "quantiles")
    assert np.bincount(bins.find(x)).tolist() == [50] * 20
    zeros = np.concatenate([np.zeros(400), np.arange(1.0, 601.0)])
    bins = bins_of(zeros, None, 10, "quantiles")
    counts = np.bincount(bins.find(zeros), minlength=len(bins))
    assert counts[bins.find(np.array([0.0]))[0]] == 400
    assert len({*bins.find(np.array([-0.1, 0.0, 0.1])).tolist()}) == 3


def test_weighted_quantiles_are_those_of_repeated_records() -> None:
    g = np.random.default_rng(8)
    x, w = g.normal(size=200).round(2), g.integers(1, 9, 200)
    once = bins_of(x, w.astype(float), 7, "quantiles").edges
    assert once.tolist() == bins_of(np.repeat(x, w), None, 7, "quantiles").edges.tolist()


def test_equally_wide_bins_are_those_of_numpy() -> None:
    x = np.random.default_rng(6).gamma(2, 1, 500)
    bins = bins_of(x, None, 12, "equal widths")
    assert np.bincount(bins.find(x), minlength=12).tolist() == np.histogram(x, 12)[0].tolist()


def test_few_different_numbers_are_compared_value_by_value() -> None:
    before, after = amounts(x=[1.0, 1.0, 2.0, 3.0]), amounts(x=[1.0, 1.1, 2.0, 3.0])
    assert loss(TotalVariation(bins=3), before, after) == 0.25
    assert loss(TotalVariation(bins=2), before, after) == 0.25  # 1 has a bin of its own: half of the records have it


def test_numbers_that_the_schema_calls_unordered_are_categories() -> None:
    before, after = microdata(c=list(range(100))), microdata(c=[n if n else 50 for n in range(100)])
    assert loss(TotalVariation(bins=2), before, after) == pytest.approx(0.01)
    assert loss(TotalVariation(bins=2), amounts(c=list(range(100))), amounts(c=[n or 40 for n in range(100)])) == 0


@pytest.mark.parametrize("binning", ["quantiles", "equal widths"])
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=30), st.lists(st.integers(-30, 30), min_size=1, max_size=30))
@settings(deadline=None)
def test_binned_numbers_agree_with_counting_in_the_bins(binning: Any, x: list[int], y: list[int]) -> None:
    bins = bins_of(np.array(x, float), None, 4, binning)
    ends = [-math.inf, *bins.edges, math.inf]
    p, q = ({i: sum(ends[i] < v <= ends[i + 1] for v in part) for i in range(len(ends) - 1)} for part in (x, y))
    expected = slow(p, q)
    before, after = amounts(x=np.array(x, float)), amounts(x=np.array(y, float))
    assert loss(Hellinger(bins=4, binning=binning), before, after) == pytest.approx(expected[0], abs=1e-7)
    assert loss(TotalVariation(bins=4, binning=binning), before, after) == pytest.approx(expected[1])


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_two_normal_distributions_approach_the_closed_form_as_bins_grow_finer(shift: float) -> None:
    u = (np.arange(100_000) + 0.5) / 100_000
    before, after = amounts(x=stats.norm.ppf(u)), amounts(x=stats.norm.ppf(u, shift))
    exact_h = math.sqrt(1 - math.exp(-(shift**2) / 8))
    exact_tv = 2 * stats.norm.cdf(shift / 2) - 1
    assert loss(Hellinger(bins=1000), before, after) == pytest.approx(exact_h, rel=0.01)
    assert loss(TotalVariation(bins=1000), before, after) == pytest.approx(exact_tv, rel=0.01)
    # with 20 bins: the shares of the bins under both distributions
    edges = np.concatenate([[-np.inf], stats.norm.ppf(np.arange(1, 20) / 20), [np.inf]])
    p, q = np.diff(stats.norm.cdf(edges)), np.diff(stats.norm.cdf(edges, shift))
    assert loss(Hellinger(), before, after) == pytest.approx(math.sqrt(1 - np.sqrt(p * q).sum()), rel=1e-3)
    assert loss(Hellinger(), before, after) < exact_h


def test_a_normal_distribution_under_noise_in_closed_form() -> None:
    u = (np.arange(100_000) + 0.5) / 100_000
    before, after = amounts(x=stats.norm.ppf(u)), amounts(x=stats.norm.ppf(u, scale=math.sqrt(1.2)))
    exact = math.sqrt(1 - math.sqrt(2 * math.sqrt(1.2) / 2.2))
    assert loss(Hellinger(bins=1000), before, after) == pytest.approx(exact, rel=0.02)


# -- the frame around them


@pytest.mark.parametrize("measure", MEASURES)
def test_the_mean_over_columns_is_taken_and_the_worst_is_named(measure: Any) -> None:
    before = microdata(a=["x", "x", "y", "y"], b=["u", "u", "u", "v"], c=["k"] * 4)
    after = microdata(a=["x", "x", "x", "y"], b=["u", "v", "v", "v"])
    score = measure().score(Release.of(before, after))
    each = [score.details[f"loss of {name}"] for name in "abc"]
    assert each[2] == 1
    assert score.value == pytest.approx(1 - np.mean(each))
    assert score.words.endswith("is that of c")
    assert measure(("a", "b")).score(Release.of(before, after)).words.endswith("is that of b")
    only = measure("a").score(Release.of(before, after))
    assert only.words == f"the {measure.distance} of a is {1 - only.value:.3g}"
    assert only.measure == f"1 - {measure.distance} of a"


@pytest.mark.parametrize("measure", MEASURES)
def test_implicates_subgroups_and_empty_releases(measure: Any) -> None:
    before = microdata(a=["x", "x", "y", "y"], g=["m", "m", "f", "f"])
    one, two = microdata(a=["x", "y", "y", "y"], g=["m", "m", "f", "f"]), microdata(a=["y"] * 4, g=["m", "m", "f", "f"])
    both = Release(before, (one, two), aligned=False)
    mean = (loss(measure("a"), before, one) + loss(measure("a"), before, two)) / 2
    assert 1 - measure("a").score(both).value == pytest.approx(mean)
    groups = measure("a").score_by(Release.of(before, one, "rows"), "g").groups
    assert groups["f"] == 1
    assert groups["m"] == pytest.approx(1 - loss(measure("a"), microdata(a=["x", "x"]), microdata(a=["x", "y"])))
    assert measure().score(Release.of(before, before.take(np.array([], int)))).value == 0


def test_what_cannot_be_compared_is_refused_in_a_sentence() -> None:
    data = microdata(a=["x", "y"])
    with pytest.raises(DataError, match="no records"):
        Hellinger().score(Release.of(data.take(np.array([], int)), data))
    with pytest.raises(DataError, match="is not in the data"):
        Hellinger(("b",)).score(Release.of(data, data))
    with pytest.raises(ParameterError, match="bins of hellinger must be a whole number of at least 2"):
        Hellinger(bins=1)
    with pytest.raises(ParameterError, match="'equal widths'"):
        TotalVariation(binning="knuth")  # type: ignore[arg-type]
    wild = amounts(x=[*range(30), np.inf])
    with pytest.raises(DataError, match="infinite or huge"):
        TotalVariation(binning="equal widths").score(Release.of(wild, wild))
    assert TotalVariation().score(Release.of(wild, wild)).value == 1
    with pytest.raises(NotApplicable, match="the release has none"):
        Hellinger(weighted=True).score(Release.of(microdata(W, a=["x"], w=[1.0]), data))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.lists(st.integers(0, 6), min_size=1, max_size=20))
@settings(deadline=None)
def test_the_two_distances_bound_each_other_and_are_symmetric(x: list[int], y: list[int]) -> None:
    before, after = microdata(c=x), microdata(c=y)
    h, tv = loss(Hellinger(), before, after), loss(TotalVariation(), before, after)
    assert h**2 - 1e-12 <= tv <= math.sqrt(2) * h + 1e-12  # Le Cam's inequalities
    assert loss(TotalVariation(), after, before) == pytest.approx(tv)
    assert loss(Hellinger(), after, before) == pytest.approx(h, abs=1e-7)


def test_synthetic_files_are_compared_and_maps_are_drawn() -> None:
    data = teachers(400)
    release = CopulaSynthesis().apply(data, Draws(1))
    for measure in (Hellinger(), TotalVariation(), TableDistance(), JointEnergyDistance()):
        assert 0.5 < measure.score(release).value < 1
    drawn = ru_map(
        data,
        KimNoise(),
        {"kim_noise.lambda2": [0.05, 0.5, 2.0]},
        risk=AttributeRisk("salary"),
        utility=Wasserstein(("salary",)),
        replications=4,
        draws=1,
    )
    lines = drawn.frame()[(drawn.frame()["side"] == "utility") & drawn.frame()["masked"]]
    # a column with noise is that much wider: W = √(2/π) (√(1 + λ²) - 1) for a normal one, as salaries nearly are
    for noise, kept in zip((0.05, 0.5, 2.0), lines["value"], strict=True):
        assert 1 - kept == pytest.approx(math.sqrt(2 / math.pi) * (math.sqrt(1 + noise) - 1), abs=0.05)
