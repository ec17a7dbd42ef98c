"""Maps over parameters: contours and shades are asserted against the formulas that made the frames, and against scipy."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from chart_specs import layers, rows, texts
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

from sfumato.charts.parameter_surface import ParameterScale, contour, parameters_chart, triangles
from sfumato.charts.theme import to_svg
from sfumato.errors import ParameterError


def test_contours_of_an_adaptive_grid_lie_where_the_formula_says() -> None:
    frame = two_parameters()
    chart = parameters_chart(frame).to_dict()
    corners = rows(chart, "rule", what="contour")
    assert {c["level"] for c in corners} >= {0.12, 0.2}
    for level, x, y in ((c["level"], c[a], c[b]) for c in corners for a, b in (("x", "y"), ("x2", "y2"))):
        s, t = math.log(x / 0.01) / math.log(100), math.log(y / 3) / math.log(20)
        assert unit_risk(s, t) * 1.18 == pytest.approx(level, rel=1e-9)  # the limit is 1.18 times the risk
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


def test_a_contour_lies_where_a_straight_surface_has_its_level() -> None:
    from scipy.interpolate import LinearNDInterpolator

    rng = np.random.default_rng(5)
    places, values = rng.uniform(size=(40, 2)), rng.normal(size=40)
    mesh = triangles(places)
    assert mesh is not None
    pieces = contour(mesh, values, 0.3)
    assert len(pieces) > 10
    assert np.allclose(LinearNDInterpolator(places, values)(pieces.mean(axis=1)), 0.3)


def test_a_contour_around_a_hill_is_closed() -> None:
    at = np.array([(x, y) for x in np.linspace(0, 1, 21) for y in np.linspace(0, 1, 21)])
    mesh = triangles(at)
    assert mesh is not None
    pieces = contour(mesh, np.hypot(at[:, 0] - 0.5, at[:, 1] - 0.5), 0.31)
    ends = Counter(tuple(end.round(9)) for piece in pieces for end in piece)
    assert set(ends.values()) == {2}  # every piece goes on in the next
    assert np.hypot(*(np.array(list(ends)) - 0.5).T) == pytest.approx(0.31, abs=0.01)


def test_too_few_points_and_points_on_a_line_make_no_surface() -> None:
    assert triangles(np.array([[0.0, 0.0], [1.0, 1.0]])) is None
    assert triangles(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [0.2, 0.2]])) is None


def test_a_side_in_ratios_has_its_geometric_mean_in_the_middle() -> None:
    side = ParameterScale.over([0.01, 0.5, 1.0])
    assert side.log
    assert side.value(0.5) == pytest.approx(0.1)
    assert side.unit(0.1) == pytest.approx(0.5)
    assert not ParameterScale.over([1.0, 2.0, 5.0]).log
    assert ParameterScale.over([3.0, 3.0]).unit([3.0]) == [0.5]


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
