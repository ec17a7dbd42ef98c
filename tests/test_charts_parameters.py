"""Maps over parameters: points and shades are asserted against the formulas that made the frames."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chart_specs import layers, rows
from search_frames import (
    METHODS,
    RISKS,
    UTILITIES,
    Trial,
    frame_of,
    many_methods,
    many_parameters,
    simple,
    two_parameters,
    unit_risk,
)

from sfumato.charts.parameter_surface import parameters_chart
from sfumato.charts.theme import to_svg
from sfumato.errors import ParameterError


def test_two_numbers_make_points_shaded_by_utility_and_by_the_limit_of_the_risk() -> None:
    chart = parameters_chart(two_parameters()).to_dict()
    shaded = {unit["encoding"]["color"]["field"] for unit, _ in layers(chart) if "color" in unit["encoding"]}
    assert shaded == {"u", "shade"}
    points = rows(chart, "point", recipe=...)
    for row in points:
        s, t = math.log(row["x"] / 0.01) / math.log(100), math.log(row["y"] / 3) / math.log(20)
        assert row["u"] == pytest.approx(1 - 0.3 * s - 0.2 * t, rel=1e-9)
        assert row["shade"] == row["limit"] == pytest.approx(1.18 * unit_risk(s, t), rel=1e-9)
    sizes = {
        unit["mark"]["size"]: {r["meets"] for r in found}
        for unit, found in layers(chart)
        if "tooltip" in unit["encoding"]
    }
    assert sizes == {130: {True}, 45: {False}}
    assert to_svg(chart).startswith("<svg")


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
    once = frame[(frame["side"] == "utility") & frame["masked"]]
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


def test_few_values_are_drawn_as_cells() -> None:
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
