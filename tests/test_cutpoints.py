"""Cutpoints: every bin holds d, and each strategy is what it says, against slow twins and by enumeration."""

from __future__ import annotations

import itertools
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers

from sfumato.contract import Parametric
from sfumato.contract.parameters import build, registered
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.boxes import most_equal_bins
from sfumato.mas import Cutpoints, Fixed, Hybrid, Increasing, Minimum, Partitioned, ValueCounts, preview
from sfumato.mas.cutpoint_strategies import Shape, alike
from sfumato.mas.cutpoints import RoundStep, roundest, steps
from sfumato.toml import dump

STRATEGIES = (Fixed, Minimum, Increasing, Partitioned, Hybrid)
RNG = np.random.default_rng(7)

VARIABLES: dict[str, Any] = {
    "ages": RNG.integers(0, 90, 3000),
    "incomes": np.round(np.exp(RNG.normal(10.3, 0.7, 3000))),
    "amounts": np.exp(RNG.normal(2, 1, 3000)),
    "normal": RNG.normal(0, 1, 3000),
    "negative": np.round(RNG.normal(-500, 200, 3000)),
    "many zeros": np.where(RNG.random(3000) < 0.4, 0, np.round(np.exp(RNG.normal(8, 1, 3000)))),
    "very skewed": RNG.pareto(0.4, 3000),
    "two heaps": np.concatenate([RNG.normal(0, 1, 1500), RNG.normal(1000, 1, 1500)]),
    "small": RNG.random(3000) * 1e-9,
    "large": RNG.random(3000) * 1e18,
    "shifted": 1e6 + RNG.random(3000),
    "left tail": -np.exp(RNG.normal(3, 0.8, 3000)),
    "infinite": np.concatenate([RNG.random(2000), np.full(50, np.inf), np.full(60, -np.inf)]),
}


def brute_most_bins(counts: np.ndarray, d: int) -> int:
    """The most bins there can be, by dynamic programming over every place to cut."""
    total = np.concatenate([[0], np.cumsum(counts)])
    best = np.full(len(counts) + 1, -1)
    best[0] = 0
    for end in range(1, len(counts) + 1):
        for start in range(end):
            if best[start] >= 0 and total[end] - total[start] >= d:
                best[end] = max(best[end], best[start] + 1)
    return int(best[-1])


def slow_fixed(x: np.ndarray, d: int) -> int:
    """The largest number of equal bins that all hold d, trying each with plain comparisons."""
    low, high = float(x.min()), float(x.max())
    for k in range(len(x) // d, 1, -1):
        ends = [low + (high - low) * i / k for i in range(1, k)]
        bins = [sum(e < v for e in ends) for v in x]
        if min(bins.count(i) for i in range(k)) >= d:
            return k
    return 1


# -- what holds for all


@pytest.mark.parametrize("rounding", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", VARIABLES)
def test_every_bin_holds_d_and_codes_agree_with_counts(name: str, strategy: type[Any], rounding: bool) -> None:
    x = np.asarray(VARIABLES[name], float)
    for d in (10, 75, 1000):
        cut = strategy(d=d, rounding=rounding).cut(x)
        held = np.bincount(cut.codes(x), minlength=len(cut))
        assert tuple(held) == cut.counts
        assert held.min() >= d
        assert len(cut.labels) == len(cut) == len(set(cut.labels))


@pytest.mark.parametrize("name", VARIABLES)
def test_no_strategy_has_more_bins_than_minimum_width(name: str) -> None:
    p = preview(VARIABLES[name], d=40, rounding=False).frame().set_index("strategy")["bins"]
    assert p["minimum"] == p.max()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_distinct_values_with_counts_give_the_same_as_the_records(strategy: type[Any]) -> None:
    x = VARIABLES["many zeros"]
    values, counts = np.unique(x, return_counts=True)
    mixed = RNG.permutation(len(values))
    assert strategy().cut(values[mixed], counts[mixed]) == strategy().cut(x)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["incomes", "amounts", "ages"])
def test_neither_edges_nor_labels_show_the_smallest_and_the_largest_value(name: str, strategy: type[Any]) -> None:
    x = VARIABLES[name]
    cut = strategy(d=75).cut(x)
    if len(cut) > 2:
        assert min(cut.edges) >= np.sort(x)[74]
        assert max(cut.edges) < np.sort(x)[-75]
        widths = np.diff(cut.edges)
        assert (
            abs(cut.edges[0] - widths[0] - x.min()) > 1e-9 or name == "ages"
        )  # continuing the edges does not lead there


# -- minimum


def test_minimum_width_has_the_most_bins_there_can_be() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        m, d = int(rng.integers(1, 14)), int(rng.integers(1, 12))
        values = np.sort(rng.choice(200, m, replace=False)).astype(float)
        counts = rng.integers(1, 9, m)
        if counts.sum() < d:
            continue
        most = brute_most_bins(counts, d)
        assert len(Minimum(d=d, rounding=False).cut(values, counts)) == most
        assert len(Minimum(d=d).cut(values, counts)) == most  # fewer than twenty bins: none is given up


def test_round_edges_cost_minimum_width_at_most_one_bin_in_twenty() -> None:
    x = VARIABLES["incomes"]
    exact, rounded = (len(Minimum(d=40, rounding=r).cut(x)) for r in (False, True))
    assert exact * 0.95 <= rounded <= exact
    assert all(e % 10 in (0, 9) for e in Minimum(d=40).cut(x).edges)


def test_those_who_have_nothing_stay_a_bin_of_their_own() -> None:
    cut = Minimum().cut(VARIABLES["many zeros"])
    assert cut.labels[0] == "0 or less"
    assert Minimum().cut(VARIABLES["many zeros"], low=0).labels[0] == "0"


# -- fixed


def test_fixed_width_is_the_largest_number_of_equal_bins() -> None:
    rng = np.random.default_rng(2)
    for draw in range(60):
        x = rng.integers(0, 30, 60) if draw % 2 else np.round(rng.random(60) ** 2, 3)
        d = int(rng.integers(1, 9))
        tally = ValueCounts.of(x)
        assert most_equal_bins(tally.values, tally.cumulative, d) == slow_fixed(np.asarray(x, float), d)


def test_fewer_equal_bins_can_fail_where_more_pass() -> None:
    x = np.repeat([0.0, 0.9, 2.1, 3.0], 5)  # halves and quarters work, thirds do not
    tally = ValueCounts.of(x)
    thirds = tally.bins([1.0, 2.0])
    assert thirds.min() == 0
    assert len(Fixed(d=5, rounding=False).cut(x)) == 4


def test_fixed_bins_are_equally_wide_also_with_round_edges() -> None:
    for name in ("ages", "normal", "negative", "small", "large", "shifted"):
        for rounding in (True, False):
            edges = Fixed(d=50, rounding=rounding).cut(VARIABLES[name], whole=False).edges
            if len(edges) > 2:
                assert np.allclose(np.diff(edges), np.diff(edges)[0], rtol=1e-6)


def test_whole_numbers_from_0_to_99_make_ten_bins_of_ten() -> None:
    cut = Fixed(d=10).cut(np.arange(100))
    assert cut.edges == tuple(range(9, 99, 10))
    assert cut.labels[1] == "10 to 19"


# -- increasing


def test_the_example_of_the_paper_a_width_of_50_below_200_then_100() -> None:
    x = np.concatenate([np.arange(0, 200, 5), np.arange(200, 1000, 10)])  # ten in each fifty, then ten in each hundred
    cut = Increasing(d=10, width=50, growth=2).cut(x)
    assert cut.edges == (49, 99, 149, 199, 299, 399, 499, 599, 699, 799, 899)
    assert Increasing(d=10).cut(x) == cut.__class__(cut.edges, True, 10, cut.strategy, cut.why)


@pytest.mark.parametrize("name", VARIABLES)
def test_widths_never_shrink(name: str) -> None:
    for rounding in (True, False):
        widths = np.diff(Increasing(d=30, rounding=rounding).cut(VARIABLES[name], whole=False).edges)
        assert np.all(np.diff(widths) >= -1e-6 * np.abs(widths[1:]))


def test_each_width_is_the_narrowest_by_growth_that_holds_d() -> None:
    x = np.sort(np.asarray(VARIABLES["amounts"]))
    edges = Increasing(d=30, width=0.5, growth=2, rounding=False).cut(x).edges
    left, width, expected = x.min(), 0.5, []
    while True:  # the definition, record by record
        while ((x > left) & (x <= left + width)).sum() + (x == left).sum() * (not expected) < 30:
            width *= 2
        left += width
        if (x > left).sum() < 30:
            break
        expected.append(left)
        if (x > left).sum() < 60:
            break
    assert edges == pytest.approx(expected)


# -- partitioned


def halves(x: np.ndarray, low: float, high: float, d: int) -> list[float]:
    """The definition: split at the midpoint if both halves hold d."""
    middle = low + (high - low) / 2
    left, right = x[x <= middle], x[x > middle]
    if len(left) < d or len(right) < d:
        return []
    return [*halves(left, low, middle, d), middle, *halves(right, middle, high, d)]


@pytest.mark.parametrize("name", ["normal", "amounts", "two heaps", "left tail"])
def test_partitioned_splits_at_midpoints_while_both_halves_hold_d(name: str) -> None:
    x = np.asarray(VARIABLES[name])
    cut = Partitioned(d=30, rounding=False).cut(x)
    assert cut.edges == pytest.approx(halves(x, x.min(), x.max(), 30))


@pytest.mark.parametrize("name", ["normal", "small", "negative", "ages", "infinite"])
def test_widths_of_partitioned_bins_are_multiples_of_each_other(name: str) -> None:
    edges = Partitioned(d=30).cut(VARIABLES[name], whole=False).edges
    widths = np.diff(edges)
    ratios = np.log2(widths / widths.min())
    assert np.allclose(ratios, np.round(ratios), atol=1e-6)


def test_with_heavy_skew_fixed_and_partitioned_collapse_to_one_bin() -> None:
    x = np.concatenate([np.linspace(0, 1, 1000), [1e9]])
    for strategy in (Fixed, Partitioned):
        cut = strategy(d=50).cut(x)
        assert (len(cut), cut.labels) == (1, ("all values",))
    assert len(Minimum(d=50).cut(x)) == 20
    assert len(Hybrid(d=50).cut(x)) > 4


# -- hybrid


def test_the_hybrid_goes_by_the_shape_and_says_why() -> None:
    chosen = {n: Hybrid(d=50).chosen(ValueCounts.of(VARIABLES[n])) for n in VARIABLES}
    names = {n: s.name for n, (s, _) in chosen.items()}
    assert names["ages"] == "fixed"
    assert names["incomes"] == names["amounts"] == "increasing"
    assert names["normal"] == names["negative"] == "partitioned"
    assert names["many zeros"] == "minimum"
    assert chosen["left tail"][0].name == "minimum"  # halving collapses there
    assert "but those bins are coarse here" in chosen["left tail"][1]
    assert Hybrid(d=50).chosen(ValueCounts.of(RNG.poisson(1.5, 1000)))[0].name == "minimum"
    assert "equal bins" in Hybrid(d=50).cut(VARIABLES["ages"]).why
    for _, why in chosen.values():
        assert not any(c.isdigit() for c in why)


def test_the_hybrid_is_never_much_coarser_than_minimum_width() -> None:
    for x in VARIABLES.values():
        tally = ValueCounts.of(x)
        best = alike(tally, Minimum(d=50).edges(tally))
        assert alike(tally, Hybrid(d=50).edges(tally)) <= max(0.25, 2 * best)


def test_shapes_of_known_distributions() -> None:
    even, normal = Shape.of(ValueCounts.of(np.arange(10_000))), Shape.of(ValueCounts.of(RNG.normal(size=20_000)))
    assert even.reach == pytest.approx(1 / 0.9, rel=1e-3)
    assert abs(even.skewness) < 1e-3
    assert abs(normal.skewness) < 0.05
    skewed = Shape.of(ValueCounts.of(RNG.exponential(size=50_000)))
    p10, p50, p90 = -np.log([0.9, 0.5, 0.1])
    assert skewed.skewness == pytest.approx((p90 + p10 - 2 * p50) / (p90 - p10), abs=0.02)


# -- worst cases


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_worst_cases(strategy: type[Any]) -> None:
    with pytest.raises(DataError, match="fewer observations than one bin needs"):
        strategy(d=75).cut(np.arange(74))
    for constant in (np.full(100, 3), np.full(100, -2.5), np.full(100, np.inf)):
        cut = strategy(d=75).cut(constant)
        assert (cut.edges, cut.labels, cut.counts) == ((), ("all values",), (100,))
        assert "one value only" in cut.why
    assert len(strategy(d=75).cut(np.arange(149))) == 1  # two bins need 150
    tied = strategy(d=75).cut([1.0, 2.0, 3.0], [1000, 1, 74])
    assert tied.counts in ((1000, 75), (1075,))  # equal widths cannot tell 2 and 3 from 1
    with_missing = strategy(d=2).cut([1.0, None, 2.0, float("nan"), 3.0, 4.0])
    assert with_missing.missing == 2
    assert sum(with_missing.counts or ()) == 4
    for nothing in ([], [None, None], [float("nan")] * 200):
        with pytest.raises(DataError, match="no values"):
            strategy(d=1).cut(nothing)


def test_values_that_are_no_numbers_and_counts_that_are_none_are_refused() -> None:
    for bad in (["a", "b"], ["1", "2"], pd.to_datetime(["2020-01-01"]), [[1, 2], [3, 4]]):
        with pytest.raises(DataError, match="cutpoints"):
            Minimum(d=1).cut(bad)
    for counts in ([1.5, 2], [-1, 2], [float("nan"), 1]):
        with pytest.raises(DataError, match="whole numbers of records"):
            Minimum(d=1).cut([1, 2], counts)
    with pytest.raises(DataError, match="one count for each"):
        Minimum(d=1).cut([1, 2], [1])
    with pytest.raises(DataError, match="whole numbers"):
        Minimum(d=1).cut([1.5, 2], whole=True)
    with pytest.raises(ParameterError, match="d of minimum"):
        Minimum(d=0)
    with pytest.raises(ParameterError, match="at least 1"):
        Increasing(growth=1.001)


def test_columns_of_frames_with_missing_whole_numbers_are_read() -> None:
    column = pd.Series([1, 2, None, 4] * 10, dtype="Int64")
    cut = Minimum(d=10).cut(column)
    assert cut.whole
    assert cut.codes(column).tolist() == [0, 1, -1, 2] * 10


def test_minimum_width_uses_all_that_there_is() -> None:
    assert len(Minimum(d=75).cut(np.arange(150))) == 2
    assert Minimum(d=75).cut([1.0, 2.0, 3.0], [1000, 1, 74]).counts == (1000, 75)


# -- the result


def test_labels_say_whole_numbers_units_and_open_ends() -> None:
    edges = (28_500, 39_500, 62_000)
    assert Cutpoints(edges, whole=True).labels == (
        "28,500 or less",
        "28,501 to 39,500",
        "39,501 to 62,000",
        "62,001 or more",
    )
    assert Cutpoints(edges, whole=True, unit="$", low=0, high=120_000).labels[::3] == (
        "$0 to $28,500",
        "$62,001 to $120,000",
    )
    assert Cutpoints((1.5, 2.25), unit="kg").labels == ("1.5 kg or less", "over 1.5 to 2.25 kg", "over 2.25 kg")
    assert Cutpoints((1989, 1990, 1999), whole=True).labels == ("1989 or less", "1990", "1991 to 1999", "2000 or more")
    assert Cutpoints((-500, -100), whole=True).labels == ("-500 or less", "-499 to -100", "-99 or more")
    assert Cutpoints((-5.0,), unit="€").labels == ("-€5 or less", "over -€5")


def test_an_edge_belongs_to_the_lower_bin_and_infinite_values_to_the_ends() -> None:
    cut = Cutpoints((10.0, 20.0))
    assert cut.codes([10, np.nextafter(10, 11), 20, 21, -np.inf, np.inf, np.nan]).tolist() == [0, 1, 1, 2, 0, 2, -1]


def test_counts_are_kept_apart() -> None:
    cut = Minimum(d=5).cut(np.arange(20))
    assert cut.counts == (5, 5, 5, 5)
    assert "counts" not in repr(cut)
    assert "counts" not in cut.to_dict()
    assert "missing" not in cut.to_dict()


@pytest.mark.parametrize("name", VARIABLES)
def test_cutpoints_survive_a_toml_file(name: str) -> None:
    cut = Hybrid(d=50).cut(VARIABLES[name], unit="$")
    back = Cutpoints.from_dict(tomllib.loads(dump(cut.to_dict(), "x", [])))
    assert back == cut
    assert back.labels == cut.labels
    assert back.counts is None


def test_bad_cutpoints_are_refused() -> None:
    for edges in ((2, 1), (1, 1), (float("nan"),), (float("inf"),)):
        with pytest.raises(ParameterError, match="ascending"):
            Cutpoints(edges)
    with pytest.raises(ParameterError, match="whole"):
        Cutpoints((1.5,), whole=True)
    with pytest.raises(ParameterError, match="bounds"):
        Cutpoints((1.5,), low=3)
    with pytest.raises(ParameterError, match="edges"):
        Cutpoints.from_dict({"whole": True})
    with pytest.raises(ParameterError, match="Did you mean 'edges'"):
        Cutpoints.from_dict({"edge": [1]})


def test_strategies_are_registered_and_go_through_toml() -> None:
    assert set(registered("cutpoint strategy")) >= {"fixed", "minimum", "increasing", "partitioned", "hybrid"}
    made: Parametric = build("cutpoint strategy", {"cutpoint strategy": "increasing", "d": 20, "width": 50})
    assert made == Increasing(d=20, width=50)


# -- round numbers


def test_round_numbers() -> None:
    assert [s.size for s in steps(0.3, 0.04, whole=False)] == [0.2, 0.1, 0.05]
    assert RoundStep(1, -1).times(3) == 0.3
    assert (RoundStep(5, 0).floor(-1), RoundStep(5, 0).ceil(-1), RoundStep(1, -1).ceil(0.3)) == (-1, 0, 3)
    assert roundest(28_431.0, 28_503.7, 28_450.0, whole=False) == 28_500
    assert roundest(-3, 8, 5, whole=True) == 0
    rng = np.random.default_rng(3)
    for low, wide in zip(rng.normal(0, 1e4, 200), rng.random(200) ** 4 * 1e3, strict=True):
        found = roundest(low, low + wide + 1e-6, low, whole=False)
        assert low <= found < low + wide + 1e-6


# -- the preview


def test_the_preview_compares_the_strategies() -> None:
    p = preview(VARIABLES["incomes"], variable="income", unit="$")
    frame = p.frame().set_index("strategy")
    assert list(frame.index) == ["fixed", "minimum", "increasing", "partitioned", "hybrid"]
    x = VARIABLES["incomes"]
    codes = p.choose("increasing").codes(x)
    means = pd.Series(x).groupby(codes).transform("mean")
    assert frame.loc["increasing", "loss"] == pytest.approx(((x - means) ** 2).sum() / ((x - x.mean()) ** 2).sum())
    pairs = np.mean([np.mean(codes == c) for c in codes])
    assert frame.loc["increasing", "alike"] == pytest.approx(pairs)
    text = str(p)
    assert "CONFIDENTIAL" in text
    assert "values crowd at the lower end" in text
    assert p.bins()["count"].sum() == len(x)
    with pytest.raises(ParameterError, match="Did you mean 'fixed'"):
        p.choose("fixd")


def test_the_chart_shows_the_histogram_and_every_edge_in_it() -> None:
    p = preview(VARIABLES["incomes"], d=200, variable="income", unit="$")
    spec = p.chart().to_dict()
    bars = [r for unit, rows in layers(spec) if unit["mark"]["type"] == "rect" for r in rows]
    x = VARIABLES["incomes"]
    assert sum(r["count"] for r in bars) == sum((x > bars[0]["low"]) & (x <= bars[-1]["high"]))
    ticks = {(r["strategy"], r["x"]) for unit, rows in layers(spec) if unit["mark"]["type"] == "tick" for r in rows}
    inside = [e for e in p.choose("minimum").edges if bars[0]["low"] <= e <= bars[-1]["high"]]
    assert {e for name, e in ticks if name == "minimum"} == set(inside)
    assert all(a <= b for a, b in itertools.pairwise(inside))


@pytest.mark.parametrize("x", [np.full(100, 5), RNG.integers(0, 3, 500), RNG.random(60_000)])
def test_the_chart_is_drawn_for_every_sort_of_variable(x: Any) -> None:
    spec = preview(x, d=20).chart().to_dict()
    said = [r["text"] for unit, rows in layers(spec) if unit["mark"]["type"] == "text" for r in rows]
    assert len(said) == 5
    assert all("bin" in text for text in said)


def test_the_first_bar_of_the_histogram_holds_those_who_have_the_least_value() -> None:
    values = np.concatenate([np.zeros(300), np.linspace(0.5, 1000.5, 1700)])
    bars = preview(values).histogram()
    assert bars["count"].iloc[0] >= 300
    assert bars["count"].sum() == (values <= bars["high"].iloc[-1]).sum()
