"""The charts of a search: what they draw is asserted against the formulas that made the frames, and slow twins."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers, rows, texts, titles
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from search_frames import (
    METHODS,
    RISKS,
    SCENARIOS,
    UTILITIES,
    Trial,
    frame_of,
    frontier_of,
    many_measures,
    many_methods,
    many_parameters,
    sequences,
    two_parameters,
    unit_risk,
)

from sfumato.charts.families import key_of
from sfumato.charts.loss import loss_chart
from sfumato.charts.measures import measures_chart
from sfumato.charts.parameters import parameters_chart
from sfumato.charts.render import to_svg
from sfumato.charts.scales import Floored, risk_axis, use_axis
from sfumato.charts.search import methods_chart
from sfumato.charts.searched import COMBINED, Searched
from sfumato.charts.surface import Side, Surface, joined
from sfumato.errors import ParameterError


def worst(frame: pd.DataFrame, risk: str = RISKS[0]) -> pd.Series:
    """Return the largest value over the scenarios, by point."""
    return frame[frame["measure"] == risk].groupby("point")["value"].max()


def smallest(frame: pd.DataFrame) -> pd.Series:
    return frame[frame["side"] == "utility"].groupby("point")["value"].min()


def simple(*pairs: tuple[float, float], threshold: float = 0.1, **settings: Any) -> pd.DataFrame:
    """Return a frame of one family with (risk, utility) at each point."""
    trials = [
        Trial("noise", {"noise.lambda2": 0.1 * (k + 1), **settings}, {(RISKS[0], ""): r}, {UTILITIES[0]: u})
        for k, (r, u) in enumerate(pairs)
    ]
    return frame_of(trials, {RISKS[0]: threshold})


# -- risk against utility


@pytest.fixture(scope="module")
def five() -> pd.DataFrame:
    return many_methods(METHODS, 8)


def test_every_recipe_stands_at_its_worst_risk_and_what_was_maximised(five: pd.DataFrame) -> None:
    chart = methods_chart(five, frontier_of(five)).to_dict()
    drawn = {row["point"]: row for row in rows(chart, "point", first=...)}
    assert drawn.keys() == set(five["point"])
    r, u = worst(five), smallest(five)
    limits = five[five["measure"] == RISKS[0]].groupby("point")["limit"].max()
    for point, row in drawn.items():
        assert (row["r"], row["u"], row["limit"]) == (r[point], u[point], limits[point])
    assert f"data utility U: {COMBINED} (unmasked: 1)" in titles(chart)
    assert f"disclosure risk R: {RISKS[0]} (log scale)" in titles(chart)


def test_filled_points_meet_the_thresholds_and_hollow_ones_do_not(five: pd.DataFrame) -> None:
    chart = methods_chart(five).to_dict()
    meets = five.groupby("point")["meets"].first()
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
    front = frontier_of(frame.assign(probability=[p for p in (0.9, 0.3, 1.0) for _ in range(2)]))
    chart = methods_chart(frame, front).to_dict()
    assert [r["point"] for r in rows(chart, "rule", what="frontier", u2=0.8)][:1] == [0]
    assert 1 not in {r["point"] for r in rows(chart, "rule", what="frontier")}


def test_the_threshold_and_the_chosen_point_are_named(five: pd.DataFrame) -> None:
    chart = methods_chart(five).to_dict()
    assert {r["r"] for r in rows(chart, "rule", what="threshold")} == {0.05}
    assert "largest tolerable risk 0.05" in texts(chart)
    chosen = five[five["chosen"]].iloc[0]
    assert f"chosen: {chosen['family']}" in texts(chart)
    assert any(chosen["recipe"] in line for line in chart["title"]["text"])
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
    u = five[five["measure"] == UTILITIES[0]].set_index("point")["value"]
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
    assert row["recipe"] == "noise.strength = 0.062"


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
    frame.loc[frame["measure"] == "means", "unmasked"] = 10.0
    data = Searched.read(frame)
    assert data.utilities == (COMBINED, "means", "tables")
    assert data.points[0].utilities[COMBINED].value == 0.6
    frame.loc[frame["measure"] == "means", "unmasked"] = 20.0
    assert Searched.read(frame).points[0].utilities[COMBINED].value == 0.4
    assert Searched.read(frame.drop(columns="unmasked")).utilities == ("means", "tables")


# -- parameters


def test_contours_of_an_adaptive_grid_lie_where_the_formula_says() -> None:
    frame = two_parameters()
    chart = parameters_chart(frame).to_dict()
    corners = rows(chart, "line", what="contour")
    assert {c["level"] for c in corners} >= {0.12, 0.2}
    for c in corners:
        s, t = math.log(c["x"] / 0.01) / math.log(100), math.log(c["y"] / 3) / math.log(20)
        assert unit_risk(s, t) * 1.18 == pytest.approx(c["level"], rel=1e-9)  # the limit is 1.18 times the risk
    strong = {c["level"] for c in corners if c["strong"]}
    assert strong == {0.12}
    assert "largest tolerable risk 0.12" in texts(chart)


def test_the_shades_are_the_utility_in_the_middle_of_each_square() -> None:
    chart = parameters_chart(two_parameters()).to_dict()
    squares = rows(chart, "rect", value=...)
    assert len(squares) == 60 * 48
    for q in squares[::97]:
        s = (math.log(q["x"] / 0.01) + math.log(q["x2"] / 0.01)) / 2 / math.log(100)
        t = (math.log(q["y"] / 3) + math.log(q["y2"] / 3)) / 2 / math.log(20)
        assert q["value"] == pytest.approx(1 - 0.3 * s - 0.2 * t, rel=1e-4)


def test_points_tried_and_the_choice_stand_at_their_parameters() -> None:
    frame = two_parameters()
    chart = parameters_chart(frame, threshold=0.2).to_dict()
    first = frame.drop_duplicates("point").set_index("point")
    limit = frame[frame["side"] == "risk"].set_index("point")["limit"]
    for row in rows(chart, "point", recipe=..., limit=...):
        assert (row["x"], row["y"]) == tuple(first.loc[row["point"], ["kim_noise.lambda2", "mdav.k"]])
        assert row["meets"] == bool(limit[row["point"]] <= 0.2)
    chosen = first[first["chosen"]].iloc[0]
    assert any(f"k = {chosen['mdav.k']:.3g}" in line for line in chart["title"]["text"])


def test_more_parameters_make_cells_with_the_best_safe_point_over_the_rest() -> None:
    frame = many_parameters()
    chart = parameters_chart(frame, "mdav.k", "pram.blocks").to_dict()
    once = frame[frame["side"] == "utility"]
    k, edges = once["mdav.k"].astype(float), np.exp(np.linspace(math.log(3), math.log(once["mdav.k"].max()), 7))
    ways = sorted(set(once["pram.blocks"]))
    cells = {(c["x"], c["y"]): c for c in rows(chart, "rect", text=...)}
    checked = 0
    for i in range(6):
        for j, way in enumerate(ways):
            inside = once[
                (k >= edges[i] * (1 - 1e-12)) & ((k < edges[i + 1]) | (i == 5)) & (once["pram.blocks"] == way)
            ]
            safe = inside[inside["meets"]]
            if not len(inside):
                assert (i, j) not in cells
            elif not len(safe):
                assert cells[i, j]["text"] == "–"
                assert cells[i, j]["value"] is None
            else:
                assert cells[i, j]["value"] == safe["value"].max()
                checked += 1
    assert checked > 4


def test_without_names_every_pair_of_parameters_has_a_panel_and_all_share_their_shades() -> None:
    chart = parameters_chart(many_parameters()).to_dict()
    assert len(chart["concat"]) == 6
    domains = {
        tuple(unit["encoding"]["color"]["condition"]["scale"]["domain"])
        for unit, _ in layers(chart)
        if unit["mark"]["type"] == "rect" and "condition" in unit["encoding"].get("color", {})
    }
    assert len(domains) == 1
    assert to_svg(chart).startswith("<svg")


def test_points_on_a_line_are_drawn_as_cells() -> None:
    trials = [
        Trial("a", {"a.x": 1.0 * k, "a.y": 2.0 * k}, {(RISKS[0], ""): 0.1 / k}, {UTILITIES[0]: 1 - 0.1 * k})
        for k in range(1, 5)
    ]
    chart = parameters_chart(frame_of(trials, {RISKS[0]: 1.0}), "a.x", "a.y").to_dict()
    assert len(rows(chart, "rect", text=...)) == 4


def test_a_family_with_one_parameter_has_no_map_and_unknown_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="not searched over two parameters"):
        parameters_chart(simple((0.1, 0.9), (0.2, 0.95)))
    frame = two_parameters()
    with pytest.raises(ParameterError, match=r"Did you mean 'mdav\.k'"):
        parameters_chart(frame, "kim_noise.lambda2", "mdv.k")
    with pytest.raises(ParameterError, match="family 'pram'"):
        parameters_chart(frame, family="pram")
    with pytest.raises(ParameterError, match="no family has both"):
        parameters_chart(many_methods(METHODS), "noise.strength", "mdav.strength")


# -- the surface between points


def test_between_points_the_surface_is_that_of_scipy() -> None:
    from scipy.interpolate import LinearNDInterpolator

    rng = np.random.default_rng(5)
    places = rng.uniform(size=(40, 2))
    values = rng.normal(size=40)
    surface = Surface.over(places)
    assert surface is not None
    wanted = rng.uniform(size=(300, 2))
    ours, theirs = surface.at(wanted, values), LinearNDInterpolator(places, values)(wanted)
    assert np.allclose(ours, theirs, equal_nan=True)
    for line in surface.contour(values, 0.3):
        assert np.allclose(surface.at(np.array(line), values), 0.3)


def test_a_contour_around_a_hill_is_closed() -> None:
    at = np.array([(x, y) for x in np.linspace(0, 1, 21) for y in np.linspace(0, 1, 21)])
    away = np.hypot(at[:, 0] - 0.5, at[:, 1] - 0.5)
    surface = Surface.over(at)
    assert surface is not None
    (ring,) = surface.contour(away, 0.31)
    assert ring[0] == ring[-1]
    assert np.hypot(*(np.array(ring) - 0.5).T) == pytest.approx(0.31, abs=0.01)


def test_too_few_points_and_points_on_a_line_make_no_surface() -> None:
    assert Surface.over(np.array([[0.0, 0.0], [1.0, 1.0]])) is None
    assert Surface.over(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [0.2, 0.2]])) is None


def test_pieces_are_joined_whatever_their_order() -> None:
    corners = [(0.0, 0.0), (1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 0.0)]
    pieces = [(b, a) if k % 2 else (a, b) for k, (a, b) in enumerate(pairwise(corners))]
    for order in ([2, 0, 3, 1], [3, 2, 1, 0]):
        (line,) = joined([pieces[k] for k in order])
        assert line in (corners, corners[::-1])


def test_a_side_in_ratios_has_its_geometric_mean_in_the_middle() -> None:
    side = Side.over([0.01, 0.5, 1.0])
    assert side.log
    assert side.value(0.5) == pytest.approx(0.1)
    assert side.unit(0.1) == pytest.approx(0.5)
    assert not Side.over([1.0, 2.0, 5.0]).log
    assert Side.over([3.0, 3.0]).unit([3.0]) == [0.5]


# -- many measures


def test_each_risk_stands_at_its_share_of_its_own_threshold() -> None:
    frame = many_measures()
    chart = measures_chart(frame).to_dict()
    drawn = {(r["measure"], r["scenario"]): r for r in rows(chart, "point", at=..., threshold=...)}
    risks = frame[(frame["side"] == "risk") & frame["threshold"].notna()]
    assert drawn.keys() == {(r.measure, r.scenario) for r in risks.itertuples()}
    for r in risks.itertuples():
        assert drawn[r.measure, r.scenario]["at"] == pytest.approx(r.value / r.threshold)
        assert drawn[r.measure, r.scenario]["at_limit"] == pytest.approx(r.limit / r.threshold)
    assert [r["at"] for r in rows(chart, "rule", what="threshold")] == [1.0]


def test_whether_a_threshold_is_met_is_told_by_shape_and_words() -> None:
    chart = measures_chart(many_measures()).to_dict()
    shapes = {}
    for unit, found in layers(chart):
        if unit["mark"]["type"] == "point":
            shapes.update({r["measure"]: (unit["mark"].get("shape"), r["state"]) for r in found})
    assert shapes["membership advantage"] == ("diamond", "exceeded")
    assert shapes["expected re-identifications"] == ("circle", "met")
    said = texts(chart)
    assert "0.12 (limit 0.142), at most 0.1: exceeded" in said
    assert "14 (limit 16.5), at most 20: met" in said
    assert "0.3, no threshold" in said


def test_the_limit_decides_not_the_value() -> None:
    chart = measures_chart(simple((0.09, 0.9)), point=0).to_dict()  # its limit is 0.09 × 1.18 = 0.106
    assert "0.09 (limit 0.106), at most 0.1: exceeded" in texts(chart)


def test_utilities_stand_at_their_value_with_the_unmasked_file_at_1() -> None:
    chart = measures_chart(many_measures()).to_dict()
    assert {r["measure"]: r["at"] for r in rows(chart, "point", state="utility")} == {
        "variance kept": 0.93, "propensity score utility": 0.81, "regression: salary on age": 0.997,
    }  # fmt: skip
    assert [r["at"] for r in rows(chart, "rule", what="unmasked")] == [1.0]
    raw = many_measures().drop(columns="unmasked")
    assert not rows(measures_chart(raw).to_dict(), "rule", what="unmasked")
    other = many_measures()
    other.loc[other["measure"] == "variance kept", "unmasked"] = 1.86
    assert rows(measures_chart(other).to_dict(), "point", measure="variance kept")[0]["at"] == pytest.approx(0.5)


def test_a_threshold_of_zero_is_told_in_words() -> None:
    chart = measures_chart(simple((0.0, 0.9), threshold=0.0)).to_dict()
    assert "0 (limit 0), at most 0: met" in texts(chart)
    assert to_svg(chart).startswith("<svg")


def test_the_measures_of_no_choice_or_an_unknown_point_are_refused() -> None:
    frame = simple((0.5, 0.9))
    with pytest.raises(ParameterError, match="no point of the search is chosen"):
        measures_chart(frame)
    with pytest.raises(ParameterError, match="has no point 7"):
        measures_chart(frame, point=7)


# -- information loss


def test_information_loss_is_one_minus_utility_and_a_line_joins_the_best_of_each_sequence() -> None:
    frame = many_methods(sequences())
    chart = loss_chart(frame, utility=UTILITIES[0]).to_dict()
    u, r = frame[frame["measure"] == UTILITIES[0]].set_index("point")["value"], worst(frame)
    family = frame.groupby("point")["family"].first()
    lines: dict[str, set[int]] = {}
    for row in rows(chart, "line", what="line"):
        assert row["loss"] == pytest.approx(1 - u[row["point"]])
        assert row["r"] == r[row["point"]]
        lines.setdefault(row["family"], set()).add(row["point"])
    for name in sequences():
        own = [p for p in r.index if family[p] == name]
        best = {p for p in own if not any(u[q] >= u[p] and r[q] <= r[p] and (u[q], r[q]) != (u[p], r[p]) for q in own)}
        assert lines[name] == best


def test_the_loss_of_a_utility_in_another_unit_is_a_share_or_refused() -> None:
    frame = simple((0.01, 4.0), (0.1, 5.0))
    with pytest.raises(ParameterError, match="not known"):
        loss_chart(frame.drop(columns="unmasked"))
    frame.loc[frame["side"] == "utility", "unmasked"] = 8.0
    chart = loss_chart(frame).to_dict()
    assert [row["loss"] for row in rows(chart, "line", what="line")] == [0.5, 0.375]
    assert f"information loss: 1 − {UTILITIES[0]} as a share of the unmasked file's" in titles(chart)


def test_scenarios_are_those_of_the_frame() -> None:
    assert Searched.read(many_methods(METHODS)).scenarios == SCENARIOS


def test_the_family_drawn_is_the_chosen_points_and_others_that_fit_are_named() -> None:
    pair = {"a.x": 1.0, "a.y": 2.0}
    use = {UTILITIES[0]: 0.5}
    trials = [Trial("one", {"one.k": float(k)}, {(RISKS[0], ""): 0.1}, {UTILITIES[0]: 0.9}) for k in range(3)]
    trials += [Trial("two", {n: k * v for n, v in pair.items()}, {(RISKS[0], ""): 0.1}, use) for k in (1, 2)]
    frame = frame_of(trials, {RISKS[0]: 1.0})
    with pytest.raises(ParameterError, match="name a family that was: two"):
        parameters_chart(frame)
    assert rows(parameters_chart(frame, family="two").to_dict(), "rect", text=...)
    assert rows(parameters_chart(frame.assign(chosen=False)).to_dict(), "rect", text=...)
