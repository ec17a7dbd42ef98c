"""The charts of a search: what they draw is asserted against the formulas that made the frames, and slow twins."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers, rows, titles
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from search_frames import (
    METHODS,
    RISKS,
    UTILITIES,
    Trial,
    frame_of,
    frontier_of,
    many_methods,
    sequences,
    simple,
    worst,
)

from sfumato.charts.map_chart import methods_chart
from sfumato.charts.map_data import COMBINED, MapData, key_of
from sfumato.charts.measures import measures_chart
from sfumato.charts.scales import Floored, risk_axis, use_axis
from sfumato.charts.theme import to_svg
from sfumato.errors import ParameterError


def smallest(frame: pd.DataFrame) -> pd.Series:
    return frame[(frame["side"] == "utility") & frame["masked"]].groupby("point")["value"].min()


# -- risk against utility


@pytest.fixture(scope="module")
def five() -> pd.DataFrame:
    return many_methods(METHODS, 8)


def test_every_recipe_stands_at_its_worst_risk_and_what_was_maximised(five: pd.DataFrame) -> None:
    chart = methods_chart(five, frontier_of(five)).to_dict()
    drawn = {row["point"]: row for row in rows(chart, "point", first=...)}
    assert drawn.keys() == set(five.loc[five["masked"], "point"])
    r, u = worst(five), smallest(five)
    limits = five[five["measure"] == RISKS[0]].groupby("point")["limit"].max()
    for point, row in drawn.items():
        assert (row["r"], row["u"], row["limit"]) == (r[point], u[point], limits[point])
    assert f"data utility U: {COMBINED} (unmasked: 1)" in titles(chart)
    assert f"disclosure risk R: {RISKS[0]} (log scale)" in titles(chart)


def test_filled_points_meet_the_thresholds_and_hollow_ones_do_not(five: pd.DataFrame) -> None:
    chart = methods_chart(five).to_dict()
    meets = five[five["masked"]].groupby("point")["meets"].first()
    seen = {}
    for unit, found in layers(chart):
        if unit["mark"]["type"] == "point" and "shape" in unit["encoding"]:
            seen.update({row["point"]: unit["mark"]["filled"] for row in found})
    assert seen == meets.to_dict()


def test_the_steps_join_the_points_that_no_other_beats(five: pd.DataFrame) -> None:
    chart = methods_chart(five, frontier_of(five)).to_dict()
    steps = {r["point"]: r for r in rows(chart, "rule", what="frontier")}
    r, u = worst(five), smallest(five)
    best = [
        p for p in r.index if not any((r[q] <= r[p]) & (u[q] >= u[p]) & ((r[q], u[q]) != (r[p], u[p])) for q in r.index)
    ]
    best.sort(key=lambda p: r[p])
    assert list(steps) == best[:-1]  # the last has no next one to lead to
    chances = frontier_of(five).set_index("point")["probability"]
    for here, after in pairwise(best):
        assert (steps[here]["u2"], steps[here]["r2"]) == (u[after], r[after])
        assert steps[here]["probability"] == chances[here]
    (opacity,) = {
        json.dumps(x["encoding"]["opacity"]) for x, d in layers(chart) if d and d[0].get("what") == "frontier"
    }
    assert json.loads(opacity)["scale"]["domain"] == [0, 1]


def test_a_point_that_may_be_on_the_frontier_is_not_joined_if_others_beat_it() -> None:
    frame = simple((0.01, 0.5), (0.02, 0.49), (0.05, 0.8))
    front = frontier_of(frame.assign(probability=[0.9, 0.9, 0.3, 0.3, 1.0, 1.0, math.nan]))
    chart = methods_chart(frame, front).to_dict()
    assert [r["point"] for r in rows(chart, "rule", what="frontier", u2=0.8)][:1] == [0]
    assert 1 not in {r["point"] for r in rows(chart, "rule", what="frontier")}


def test_the_threshold_and_the_chosen_point_are_named(five: pd.DataFrame) -> None:
    chart = methods_chart(five).to_dict()
    assert {r["r"] for r in rows(chart, "rule", what="threshold")} == {0.05}
    assert "dashed line: the largest tolerable risk, 0.05" in chart["title"]["text"]
    chosen = five[five["chosen"]].iloc[0]
    assert f"ringed: chosen, {chosen['family']}: {chosen['settings']}" in chart["title"]["text"]
    rings = [f for x, f in layers(chart) if x["mark"].get("size") == 150]
    assert [[row["point"] for row in found] for found in rings] == [[chosen["point"]]]


def test_a_threshold_of_the_callers_own_is_drawn_instead(five: pd.DataFrame) -> None:
    assert {r["r"] for r in rows(methods_chart(five, threshold=0.2).to_dict(), "rule", what="threshold")} == {0.2}


def test_where_no_point_is_safe_the_chart_says_so() -> None:
    chart = methods_chart(simple((0.2, 0.9), (0.3, 0.95))).to_dict()
    assert "no point meets the thresholds" in chart["title"]["text"]
    assert not [1 for x, _ in layers(chart) if x["mark"].get("size") == 150]


def test_a_risk_of_zero_stands_at_the_foot_of_a_log_axis() -> None:
    chart = methods_chart(simple((0.0, 0.5), (0.001, 0.7), (0.2, 0.9))).to_dict()
    scale = next(x["encoding"]["y"]["scale"] for x, _ in layers(chart) if x["mark"]["type"] == "point")
    assert scale["type"] == "log"
    assert scale["clamp"] is True
    assert 0 < scale["domain"][0] < 0.001
    assert to_svg(chart).startswith("<svg")


def test_hopeless_recipes_do_not_squeeze_the_rest_but_are_counted() -> None:
    frame = simple((0.2, 0.95), (0.05, 0.9), (0.02, 0.8), (0.03, -40.0), (0.025, -7.0))
    chart = methods_chart(frame).to_dict()
    assert {r["point"] for r in rows(chart, "point", first=...)} == {0, 1, 2}
    assert any("2 more with utility below" in line for line in chart["title"]["text"])


def test_measures_can_be_named_and_unknown_ones_are_refused_in_words(five: pd.DataFrame) -> None:
    chart = methods_chart(five, risk=RISKS[1], utility=UTILITIES[0]).to_dict()
    u = five[(five["measure"] == UTILITIES[0]) & five["masked"]].set_index("point")["value"]
    drawn = {row["point"]: row for row in rows(chart, "point", first=...)}
    assert {p: row["u"] for p, row in drawn.items()} == u.to_dict()
    assert {p: row["r"] for p, row in drawn.items()} == worst(five, RISKS[1]).to_dict()
    assert {r["r"] for r in rows(chart, "rule", what="threshold")} == {0.04}
    assert {row["probability"] for row in rows(chart, "rule", what="frontier")} == {1.0}  # not known for these measures
    with pytest.raises(ParameterError, match="Did you mean 'risk for salary'"):
        methods_chart(five, risk="risk for salry")
    with pytest.raises(ParameterError, match="no points"):
        methods_chart(five.head(0))
    with pytest.raises(ParameterError, match="column 'limit'"):
        methods_chart(five.drop(columns="limit"))
    with pytest.raises(ParameterError, match="no risk measure"):
        methods_chart(five[five["side"] == "utility"])


def test_points_where_a_measure_does_not_apply_are_left_out(five: pd.DataFrame) -> None:
    frame = five.copy()
    frame.loc[(frame["point"] == 3) & (frame["side"] == "risk"), ["value", "low", "high", "limit"]] = np.nan
    assert 3 not in {r["point"] for r in rows(methods_chart(frame).to_dict(), "point", first=...)}


def test_words_for_the_pointer_hold_the_recipe_and_its_numbers(five: pd.DataFrame) -> None:
    chart = methods_chart(five).to_dict()
    tips = next(x["encoding"]["tooltip"] for x, _ in layers(chart) if "tooltip" in x["encoding"])
    assert [t["title"] for t in tips][:2] == ["family", "recipe"]
    row = next(r for r in rows(chart, "point", first=...) if r["point"] == 0)
    assert row["risk_words"].startswith(f"{worst(five)[0]:.3g}")
    assert row["settings"] == "noise.strength = 0.062"


value = st.one_of(st.floats(1e-9, 1e9), st.just(math.inf), st.just(0.0), st.just(math.nan), st.floats(-5, 5))


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.tuples(value, value), min_size=1, max_size=9), st.floats(0, 1e3))
def test_whatever_the_numbers_the_charts_are_valid(pairs: list[tuple[float, float]], threshold: float) -> None:
    frame = simple(*pairs, threshold=threshold)
    for chart in (methods_chart(frame), measures_chart(frame, point=0)):
        spec = chart.to_dict()
        assert json.loads(json.dumps(spec, allow_nan=False)).keys() == spec.keys()


# -- many families


def test_up_to_eight_families_have_a_colour_each() -> None:
    key = key_of([f"m{k}" for k in range(8)], [])
    assert len(set(key.colours.values())) == len(key.colours) == 8
    assert not key.split


def test_25_sequences_are_told_apart_by_five_colours_and_six_shapes() -> None:
    key = key_of(sequences(), [])
    assert list(key.colours) == list(METHODS)
    assert set(key.shapes) == {"alone", *(f"then {m}" for m in METHODS)}
    assert len({(look.colour, look.shape) for look in key.looks.values()}) == 25
    chart = methods_chart(many_methods(sequences())).to_dict()
    heads = {
        x["encoding"][c]["title"]
        for x, _ in layers(chart)
        for c in ("color", "shape")
        if "legend" in x["encoding"].get(c, {})
    }
    assert heads == {"first method", "followed by"}


def test_25_unlike_families_keep_colours_for_those_that_matter() -> None:
    names = [f"method {c}" for c in "abcdefghijklmnopqrstuvwxy"]
    key = key_of(names, ["method m", "method c", "method m"])
    assert list(key.colours) == ["method m", "method c", "23 other families"]
    chart = methods_chart(many_methods(names)).to_dict()
    named = {r["text"] for r in rows(chart, "text", what="family")}
    assert named  # families on the frontier carry their names
    assert named <= set(names)


def test_the_legend_leaves_room_for_the_chart() -> None:
    chart = methods_chart(
        many_methods(["a method with a very long name indeed, longer than the chart is wide", "b"])
    ).to_dict()
    assert chart["width"] >= 300


# -- axes


def test_an_axis_for_risk_is_log_only_where_it_spans_a_decade() -> None:
    assert not risk_axis([0.02, 0.05, 0.1]).log
    assert risk_axis([0.002, 0.05]).log
    assert risk_axis([0.02, 0.05, 0.1]).low == 0.0
    assert not risk_axis([-0.1, 0.001, 5.0]).log
    assert not risk_axis([]).log


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8))
def test_zero_keeps_clear_of_the_smallest_positive_number(values: list[float]) -> None:
    axis = risk_axis([0.0, *values])
    if isinstance(axis, Floored):
        assert axis.share(0.0) == 0.0
        assert 0.03 < axis.share(min(values)) < 1
        assert axis.ticks(7)[0] == axis.low
    else:
        assert max(values) < 10 * min(values)


def test_an_axis_for_utility_reaches_the_unmasked_files() -> None:
    assert use_axis([0.4, 0.8], [], 1.0).shows(1.0)
    assert not use_axis([0.4, 0.8], [], None).shows(1.0)
    assert use_axis([2.2, 3.1], [], 5.65).shows(5.65)


# -- several utilities


def test_several_utilities_are_judged_by_the_smallest_share_of_the_unmasked_files() -> None:
    risks = {(RISKS[0], ""): 0.1}
    frame = frame_of([Trial("a", {}, risks, {"means": 8.0, "tables": 0.6})], {RISKS[0]: 1.0})
    whole = (frame["measure"] == "means") & ~frame["masked"]
    frame.loc[whole, "value"] = 10.0
    data = MapData.read(frame)
    assert data.utilities == (COMBINED, "means", "tables")
    assert data.points[0].utilities[COMBINED].value == 0.6
    frame.loc[whole, "value"] = 20.0
    assert MapData.read(frame).points[0].utilities[COMBINED].value == 0.4
    assert MapData.read(frame[frame["masked"]]).utilities == ("means", "tables")


# -- a real search


def test_a_search_draws_itself_with_the_utility_that_it_maximised() -> None:
    from sfumato.datasets import teachers
    from sfumato.maps import search
    from sfumato.masks import KimNoise

    utilities = ["salary", "income"]
    options = {"maximise": "mean income", "draws": 1, "effort": "quick", "confirm": 5}
    found = search(teachers(150), KimNoise(), "salary", utilities, max_risk=0.04, **options)
    assert found.subject.maximised == "mean income"
    chart = found.chart().to_dict()
    income = found.frame()[found.frame()["measure"] == "mean income"].set_index("point")
    drawn = {row["point"]: row["u"] for row in rows(chart, "point", first=...)}
    assert drawn == income.loc[income["masked"], "value"].to_dict()
    (whole,) = income.loc[~income["masked"], "value"]
    assert f"data utility U: mean income (unmasked: {whole:.3g})" in titles(chart)
    assert '"first": 2' in found.page()  # after the smallest share and mean salary
