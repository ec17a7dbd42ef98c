"""Charts are data: their numbers are asserted here, from the R-U paper's algebra, before anyone looks at a picture."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers, rows, texts, titles
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sfumato import ru_map
from sfumato.charts import theme
from sfumato.charts.captions import parameter_words, short, spoken, symbol, tabled
from sfumato.charts.family_panel import Box, label_places, line_boxes
from sfumato.charts.map_chart import map_chart, overlay_chart
from sfumato.charts.map_data import Sweep, along
from sfumato.charts.scales import Axis, linear_ticks, readable
from sfumato.charts.theme import text_width, to_png, to_svg
from sfumato.datasets import teachers
from sfumato.errors import ParameterError
from sfumato.masks import IndependentNoise, KimNoise, TopCode
from sfumato.papers import figure1, figure2, slope_map
from sfumato.papers.ru_paper import TEACHERS
from sfumato.risk import AttributeRisk
from sfumato.utility import EstimatorUtility

LAMBDA = "kim_noise.lambda2"
SALARY, EXTRA = 13.3**2, 17.5**2 + 13.3**2 - 2 * 8.3**2
"""Variance of salary, and of income minus salary, in thousand dollars squared (section 5)."""


def frame_of(points: Mapping[float, tuple[float, float]], name: str = LAMBDA, source: str = "analytic") -> pd.DataFrame:
    """Return a map's frame from parameter -> (risk, utility); NaN is the unmasked file."""
    out = []
    for p, (t, values) in enumerate(points.items()):
        for side, value in zip(("risk", "utility"), values, strict=True):
            out.append({
                "point": p, name: t, "masked": not math.isnan(t), "side": side, "measure": f"the {side}", "variant": "",
                "source": source, "value": value, "low": value, "high": value,
            })  # fmt: skip
    return pd.DataFrame(out)


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    m = figure1()
    return m.chart(0.04, m.choose(max_risk=0.04)).to_dict()


@pytest.fixture(scope="module")
def empirical() -> pd.DataFrame:
    data = teachers(400)
    utilities = ["salary", {"income": 1, "salary": -1}, "salary ~ age"]
    grid = {LAMBDA: [0.05, 0.1, 0.15, 0.2, 0.5]}
    return ru_map(data, KimNoise(), grid, "salary", utilities, replications=10, draws=1).frame()


# -- Figure 1


def test_figure_1_draws_the_curves_of_section_5(first: dict[str, Any]) -> None:
    for series, variance in (("mean salary", SALARY), ("mean income − mean salary", EXTRA)):
        curve = [r for r in rows(first, "line", series=series) if "u" in r]
        assert len(curve) == 41
        for row in curve:
            assert row["u"] == pytest.approx(1000 / ((1 + row["t"]) * variance), rel=1e-12)
            assert row["r"] == pytest.approx(1 / (row["t"] * SALARY), rel=1e-12)


def test_figure_1_has_salary_as_the_right_hand_curve(first: dict[str, Any]) -> None:
    u = {(r["series"], r["t"]): r["u"] for r in rows(first, "line", u=...)}
    grid = {t for _, t in u}
    assert all(u["mean salary", t] > u["mean income − mean salary", t] for t in grid)  # ERRATA 0.6


def test_the_threshold_is_a_level_line_in_both_risk_panels_with_words(first: dict[str, Any]) -> None:
    assert [r["r"] for r in rows(first, "rule", what="threshold", r=...)] == [0.04]
    assert [r["value"] for r in rows(first, "rule", what="threshold", value=...)] == [0.04]
    assert "at most\n0.04" in texts(first)


def test_the_unmasked_utilities_are_upright_lines(first: dict[str, Any]) -> None:
    drawn = {r["series"]: r["u"] for r in rows(first, "rule", what="unmasked", u=...)}
    assert drawn == {
        "mean salary": pytest.approx(1000 / SALARY),
        "mean income − mean salary": pytest.approx(1000 / EXTRA),
    }
    level = {r["series"]: r["value"] for r in rows(first, "rule", what="unmasked", value=...)}
    assert level == drawn


def test_the_chosen_point_is_ringed_on_both_curves_and_labelled(first: dict[str, Any]) -> None:
    exact = 25 / SALARY  # an error of 5 thousand dollars: 0.1413
    rings = {r["series"]: r for r in rows(first, "point", r=..., t=...) if math.isclose(r["t"], exact, rel_tol=1e-6)}
    assert set(rings) == {"mean salary", "mean income − mean salary"}
    for series, variance in (("mean salary", SALARY), ("mean income − mean salary", EXTRA)):
        assert rings[series]["r"] == pytest.approx(0.04, rel=1e-9)
        assert rings[series]["u"] == pytest.approx(1000 / ((1 + exact) * variance), rel=1e-3)  # on the line as drawn
    assert "λ² = 0.141" in texts(first)
    (line,) = {r["t"] for r in rows(first, "rule", what="chosen")}
    assert line == pytest.approx(exact, rel=1e-6)


def test_readable_parameter_values_stand_along_the_left_hand_curve(first: dict[str, Any]) -> None:
    shown = rows(first, "text", what="along")
    values = sorted({r["t"] for r in shown})
    assert 4 <= len(values) <= 6
    assert set(values) <= {0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0}
    for row in shown:
        assert row["series"] == "mean income − mean salary"
        assert row["r"] == pytest.approx(
            1 / (row["t"] * SALARY), rel=1e-9
        )  # log R is linear in log λ², so this is exact
        assert row["text"].removeprefix("λ² = ") == short(row["t"])


def test_axes_speak_in_words(first: dict[str, Any]) -> None:
    assert {"data utility U", "disclosure risk R (log scale)", "noise level λ² (kim noise), log scale"} <= titles(first)


def test_a_legend_names_every_curve(first: dict[str, Any]) -> None:
    named = [u["encoding"]["color"] for u, _ in layers(first) if u["encoding"].get("color", {}).get("legend")]
    assert named
    assert {tuple(colour["scale"]["domain"]) for colour in named} == {("mean salary", "mean income − mean salary")}


def test_words_stand_where_no_rising_curve_is(first: dict[str, Any]) -> None:
    """Parameter values to the left of the leftmost curve; the threshold in the margin, beyond the panel's right edge."""
    left = {r["t"]: r["u"] for r in rows(first, "line", series="mean income − mean salary", u=...)}
    for unit, found in layers(first):
        if unit["mark"]["type"] == "text" and found[0].get("what") == "along":
            assert unit["mark"]["align"] == "right"
            assert unit["mark"]["dx"] < 0
            assert all(
                np.interp(row["t"], sorted(left), [left[t] for t in sorted(left)]) >= row["u"] - 1e-3 for row in found
            )
        if unit["mark"]["type"] == "text" and found[0].get("what") == "threshold":
            assert unit["encoding"]["x"]["value"] > first["hconcat"][0]["width"]


# -- Figure 2


def test_figure_2_overlays_both_determination_coefficients() -> None:
    chart = figure2().chart(chosen={LAMBDA: 0.15}).to_dict()
    n, plain, corrected = 200, "slope of y on x", "slope of y on x, corrected"
    for r2 in (0.3, 0.5):
        k = 1 / (n - 3)
        for row in rows(chart, "line", map=f"R² = {r2}"):
            t = row["t"]
            by_hand = {
                plain: (1 + t) / (t / (1 + t) * (k + t) + k * (1 - r2) / r2),  # (4.5)
                corrected: (n - 3) * r2 / (t + 1 - r2),  # (5.1)
            }
            assert row["u"] == pytest.approx(by_hand[row["series"]], rel=1e-9)
            assert row["r"] == pytest.approx(1 / t, rel=1e-9)
    at = [r["u"] for r in rows(chart, "point", r=..., t=0.15)]
    by_errata = [69.529 / 1.9391, 69.529, 151.538 / 3.3343, 151.538]  # "approximately doubled"
    assert sorted(at) == pytest.approx(sorted(by_errata), rel=3e-3)  # on the line as drawn
    assert [r["r"] for r in rows(chart, "rule", what="chosen level")] == [pytest.approx(1 / 0.15)]
    unmasked = sorted(r["u"] for r in rows(chart, "rule", what="unmasked"))
    assert unmasked == pytest.approx([197 * 0.3 / 0.7, 197.0])
    assert {"unmasked, R² = 0.3", "unmasked, R² = 0.5", "λ² = 0.15"} <= texts(chart)


def test_the_plain_slope_is_the_right_hand_curve_where_noise_is_small() -> None:
    chart = slope_map(r2=0.3).chart().to_dict()
    u = {(r["series"], round(r["t"], 4)): r["u"] for r in rows(chart, "line", u=...)}
    assert u["slope of y on x", 0.01] > u["slope of y on x, corrected", 0.01]  # ERRATA 0.5
    assert u["slope of y on x", 1.0] < u["slope of y on x, corrected", 1.0]


def test_an_overlay_refuses_several_risks_and_several_parameters() -> None:
    m = ru_map(TEACHERS, KimNoise(), LAMBDA, ["salary", "income"], "salary", replications=0)
    with pytest.raises(ParameterError, match="one risk"):
        overlay_chart({"both": m.frame()}, [LAMBDA])
    with pytest.raises(ParameterError, match="one parameter"):
        overlay_chart({"both": m.frame()}, [LAMBDA, "other"])


# -- infinities, single points, other shapes


def test_an_infinite_risk_has_no_place_and_does_no_harm() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA: [0.0, 0.1, 0.5, 1.0]}, "salary", "salary", replications=0)
    assert np.isinf(m.frame()["value"]).any()
    chart = m.chart(0.04).to_dict()
    assert [r["t"] for r in rows(chart, "line", u=...)] == [0.1, 0.5, 1.0]
    json.dumps(chart, allow_nan=False)
    assert to_svg(chart).startswith("<svg")


def test_a_single_point_is_drawn_as_a_point() -> None:
    m = ru_map(TEACHERS, KimNoise(), {LAMBDA: [0.15]}, "salary", "salary", replications=0)
    chart = m.chart(0.04, m.choose(0.04)).to_dict()
    points = rows(chart, "point", u_low=...)
    assert [(p["u"], p["r"]) for p in points] == [
        (pytest.approx(1000 / (1.15 * SALARY)), pytest.approx(1 / (0.15 * SALARY)))
    ]
    assert to_svg(chart).startswith("<svg")


def test_utility_about_the_file_itself_gets_a_log_axis_and_no_unmasked_line() -> None:
    m = ru_map(TEACHERS, KimNoise(), LAMBDA, "salary", EstimatorUtility("salary", target="file"), replications=0)
    chart = m.chart().to_dict()
    assert "data utility U (log scale)" in titles(chart)
    assert not rows(chart, "rule", what="unmasked")
    for row in rows(chart, "line", u=...):
        assert row["u"] == pytest.approx(1000 / (row["t"] * SALARY))


def test_a_risk_of_zero_is_drawn_on_a_plain_axis() -> None:
    chart = map_chart(frame_of({1.0: (0.2, 3.0), 2.0: (0.0, 2.0), math.nan: (1.0, 4.0)}), [LAMBDA]).to_dict()
    assert "disclosure risk R" in titles(chart)
    assert sorted(r["r"] for r in rows(chart, "line", u=...)) == [0.0, 0.2]


def test_replications_are_points_with_intervals_on_both_axes(empirical: pd.DataFrame) -> None:
    two = empirical[~empirical["measure"].str.contains("age")]
    chart = map_chart(two, [LAMBDA], 0.04).to_dict()
    masked = two[(two["source"] == "empirical") & two["masked"]]
    points = rows(chart, "point", u_low=...)
    assert len(points) == 10
    for row in points:
        at = masked[masked[LAMBDA] == row["t"]]
        utility, risk = at[at["measure"] == row["series"]].iloc[0], at[at["side"] == "risk"].iloc[0]
        assert (row["u"], row["u_low"], row["u_high"]) == (utility["value"], utility["low"], utility["high"])
        assert (row["r"], row["r_low"], row["r_high"]) == (risk["value"], risk["low"], risk["high"])
    ways = [u["encoding"] for u, _ in layers(chart) if u["mark"]["type"] == "rule"]
    assert any(e.get("x2", {}).get("field") == "u_high" for e in ways)
    assert any(e.get("y2", {}).get("field") == "r_high" for e in ways)


def test_utilities_of_very_different_sizes_stand_apart(empirical: pd.DataFrame) -> None:
    spec = map_chart(empirical, [LAMBDA], 0.04, {LAMBDA: 0.15}).to_dict()
    (row,) = spec["vconcat"]
    assert [" ".join(t) if isinstance(t, list) else t for t in (p.get("title", {}).get("text") for p in row["hconcat"][:3])] == [
        "mean salary", "mean income − mean salary", "salary ~ age: age",
    ]  # fmt: skip
    assert len(row["hconcat"]) == 4  # and the parameter last


def test_both_means_keep_the_same_share() -> None:
    chart = map_chart(figure1().frame(), [LAMBDA], layout="share").to_dict()
    for row in rows(chart, "line", u=...):
        assert row["u"] == pytest.approx(1 / (1 + row["t"]))  # ERRATA 0.7
    assert {r["u"] for r in rows(chart, "rule", what="unmasked", u=...)} == {1.0}


def test_each_risk_has_its_own_panel_and_threshold() -> None:
    risks = [AttributeRisk("salary"), AttributeRisk("income")]
    m = ru_map(TEACHERS, KimNoise(), LAMBDA, risks, "salary", replications=0)
    chart = map_chart(m.frame(), m.parameters, {"risk for salary": 0.04, "risk for income": 0.02}).to_dict()
    assert sorted(r["r"] for r in rows(chart, "rule", what="threshold", r=...)) == [0.02, 0.04]
    assert {"risk for salary (log scale)", "risk for income (log scale)"} <= titles(chart)
    with pytest.raises(ParameterError, match="risk for salary"):
        map_chart(m.frame(), m.parameters, {"risk for salry": 0.04})


def test_more_than_two_parameters_are_drawn_as_points() -> None:
    frame = frame_of({1.0: (0.2, 3.0), 2.0: (0.1, 2.0), math.nan: (1.0, 4.0)}).assign(b=1.0, c=2.0)
    chart = map_chart(frame, [LAMBDA, "b", "c"], 0.15, {LAMBDA: 2.0, "b": 1.0, "c": 2.0}).to_dict()
    assert sorted(r["u"] for r in rows(chart, "point", u_low=...)) == [2.0, 3.0]
    assert not rows(chart, "line")
    assert "chosen" in texts(chart)


# -- two parameters


def test_two_parameters_make_heat_maps_with_the_feasible_region_outlined_and_the_choice_framed() -> None:
    noise = IndependentNoise(lambda2={"salary": 0.1, "income": 0.1})
    names = ["independent_noise.lambda2.salary", "independent_noise.lambda2.income"]
    grid = {names[0]: [0.05, 0.1, 0.2, 0.4], names[1]: [0.1, 0.2]}
    m = ru_map(TEACHERS, noise, grid, "salary", [{"income": 1, "salary": -1}], replications=0)
    chart = map_chart(m.frame(), names, 0.04, {names[0]: 0.2, names[1]: 0.1}).to_dict()
    cells = rows(chart, "rect", value=...)
    assert len(cells) == 16
    for cell in cells[:8]:  # utility first
        a, b = cell["parameter_1"], cell["parameter_2"]
        assert cell["value"] == pytest.approx(1000 / (EXTRA + a * SALARY + b * 17.5**2))
    for cell in cells[8:]:
        assert cell["value"] == pytest.approx(1 / (cell["parameter_1"] * SALARY))
    edges = rows(chart, "rule", what="feasible")
    border = {(e["x"], e["y"], e["x2"], e["y2"]) for e in edges}
    # λ² of salary must be at least 0.1413: the two right-hand columns, all rows
    upright = {(2, 0, 2, 1), (2, 1, 2, 2), (4, 0, 4, 1), (4, 1, 4, 2)}
    level = {(2, 0, 3, 0), (3, 0, 4, 0), (2, 2, 3, 2), (3, 2, 4, 2)}
    assert border == upright | level
    assert {(r["x"], r["y"]) for r in rows(chart, "rect", what="chosen")} == {(2, 0)}


def test_a_fine_grid_gets_a_colour_scale_instead_of_numbers() -> None:
    values = list(np.geomspace(0.01, 1, 20))
    names = [LAMBDA, "independent_noise.lambda2"]
    m = ru_map(
        TEACHERS, KimNoise() >> IndependentNoise(), dict.fromkeys(names, values), "salary", "salary", replications=0
    )
    chart = m.chart(0.04).to_dict()
    assert not rows(chart, "text")
    assert len(rows(chart, "rect", value=...)) == 800


def test_where_nothing_is_feasible_the_heat_map_says_so() -> None:
    grid = {LAMBDA: [0.1, 0.2], "independent_noise.lambda2": [0.1, 0.2]}
    m = ru_map(TEACHERS, KimNoise() >> IndependentNoise(), grid, "salary", "salary", replications=0)
    chart = m.chart(1e-9).to_dict()
    assert "no cell keeps" in chart["title"]["text"][0]
    assert not rows(chart, "rule", what="feasible")


# -- the pieces


def test_names_with_dots_brackets_and_markup_are_harmless() -> None:
    name = "noise.lambda2.<script>alert('x')</script>[0]\"\\"
    frame = frame_of({0.1: (0.2, 3.0), 0.2: (0.1, 2.0), math.nan: (1.0, 4.0)}, name)
    frame["measure"] = frame["measure"] + " of <b>'\"&]"
    svg = to_svg(map_chart(frame, [name], 0.15, {name: 0.15}))
    assert "<script" not in svg
    assert "<b>" not in svg
    assert "&lt;b&gt;" in svg


def test_a_frame_without_what_is_needed_is_refused_in_words() -> None:
    frame = frame_of({0.1: (0.2, 3.0), math.nan: (1.0, 4.0)})
    with pytest.raises(ParameterError, match="Did you mean"):
        map_chart(frame, ["kim_noise.lambda"])
    with pytest.raises(ParameterError, match="no points"):
        map_chart(frame[~frame["masked"]], [LAMBDA])
    with pytest.raises(ParameterError, match="no risk"):
        map_chart(frame[frame["side"] == "utility"], [LAMBDA])


def test_two_variants_of_one_measure_are_told_apart() -> None:
    utilities = [EstimatorUtility("salary"), EstimatorUtility("salary", target="file")]
    m = ru_map(TEACHERS, KimNoise(), LAMBDA, "salary", utilities, replications=0)
    data = Sweep.of(m.frame(), m.parameters)
    assert [u.label for u in data.utilities] == ["mean salary (target = population)", "mean salary (target = file)"]


value = st.one_of(st.floats(1e-9, 1e9), st.just(math.inf), st.just(0.0), st.just(math.nan), st.floats(-5, 5))


@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.tuples(value, value), min_size=1, max_size=12), st.one_of(st.none(), st.floats(1e-6, 1e3)))
def test_whatever_the_numbers_the_chart_is_valid(pairs: list[tuple[float, float]], limit: float | None) -> None:
    points = {0.1 * (k + 1): pair for k, pair in enumerate(pairs[:-1])} | {math.nan: pairs[-1]}
    if len(points) > 1:
        chart = map_chart(frame_of(points), [LAMBDA], limit, {LAMBDA: 0.15}).to_dict()
        assert json.loads(json.dumps(chart, allow_nan=False)).keys() == chart.keys()


def test_between_points_the_drawn_line_is_straight() -> None:
    t, y = np.array([0.1, 1.0, 10.0]), np.array([1.0, 100.0, np.inf])
    assert along(math.sqrt(0.1), t, y, True, True) == pytest.approx(10.0)
    assert along(0.55, t, y, False, False) == pytest.approx(50.5)
    assert math.isnan(along(5.0, t, y, True, True))  # beyond the last finite value
    assert math.isnan(along(0.01, t, y, True, True))


def test_plain_ticks_are_round() -> None:
    assert linear_ticks(0.0, 5.9, 6) == [0, 1, 2, 3, 4, 5]
    assert linear_ticks(0.9, 1.0, 6) == [0.9, 0.92, 0.94, 0.96, 0.98, 1.0]


def test_log_ticks_are_round_and_few() -> None:
    assert Axis(0.004, 0.7, True).ticks(7) == [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    assert Axis(1e-9, 1e9, True).ticks(6) == [1e-8, 1e-4, 1.0, 1e4, 1e8]


@given(st.floats(1e-8, 1e8), st.floats(1.0001, 1e6), st.booleans(), st.integers(3, 9))
def test_ticks_lie_on_the_axis(low: float, ratio: float, log: bool, about: int) -> None:
    axis = Axis(low, low * ratio, log)
    ticks = axis.ticks(about)
    assert len(ticks) <= about
    assert all(axis.low * (1 - 1e-6) <= t <= axis.high * (1 + 1e-6) for t in ticks)
    assert all(-1e-6 <= axis.share(t) <= 1 + 1e-6 for t in ticks)


def test_a_short_grid_is_labelled_with_its_own_values() -> None:
    assert {v for group in readable([0.07, 0.13, 0.31], True) for v in group} == {0.07, 0.13, 0.31}
    assert [0.1, 1.0] in readable(np.geomspace(0.07, 1.3, 30), True)


def test_labels_can_avoid_what_is_drawn() -> None:
    line = list(line_boxes([(100, 50), (180, 50)]))  # a line leads to the right
    free = [(box, style) for box, style in label_places(100, 50, "0.15") if not any(box.meets(other) for other in line)]
    assert {style["align"] for _, style in free} == {"left", "right"}  # below and above it, or to the left
    assert all(style["baseline"] != "middle" or style["align"] == "right" for _, style in free)
    assert Box.around(10, 10).meets(Box(12, 0, 20, 20))
    assert not Box.around(10, 10).meets(Box(15, 0, 20, 20))


def test_colours_stand_out_on_white_paper() -> None:
    def contrast(colour: str) -> float:
        channels = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]  # WCAG 2
        return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)

    assert all(contrast(c) >= 3 for c in theme.SERIES)  # graphics
    assert all(contrast(c) >= 4.5 for c in (theme.INK, theme.SOFT))  # text


def test_words_for_parameters_and_numbers() -> None:
    assert parameter_words("kim_noise.lambda2") == "noise level λ² (kim noise)"
    assert parameter_words("top_code.quantile") == "quantile (top code)"
    assert symbol("noise.lambda2.monthly.salary") == "λ² of monthly.salary"
    assert [short(v) for v in (0.141331, 5, 26214.4, -3, math.inf, math.nan)] == [
        "0.141",
        "5",
        "26,200",
        "−3",
        "∞",
        "–",
    ]
    assert [tabled(v) for v in (5.6, 0.04, 123456, 0.0)] == ["5.60", "0.0400", "123,000", "0"]
    assert spoken(["a"]) == "a"
    assert spoken(["a", "b", "c"]) == "a, b and c"


# -- pictures


def test_pictures_are_made_here_and_reach_out_to_nothing(first: dict[str, Any], tmp_path: Path) -> None:
    svg = to_svg(first)
    assert "at most" in svg
    for word in ("<script", "<image", "@import", "src=", "href="):
        assert word not in svg
    to_png(first, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_data_at_an_address_are_not_fetched() -> None:
    spec = {"data": {"url": "http://127.0.0.1:9/data.csv"}, "mark": "point", "encoding": {}}
    with pytest.raises(ValueError):
        to_svg(spec)


def test_neither_the_package_nor_its_reports_load_the_drawing_library() -> None:
    code = "import sys, sfumato, sfumato.reports; sys.exit(any(m in sys.modules for m in ('altair', 'vl_convert', 'jinja2')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_recipe_of_the_two_parameter_example_draws() -> None:
    data = teachers(300)
    names = {LAMBDA: [0.1, 0.2], "top_code.quantile": [0.95, 0.99]}
    m = ru_map(data, KimNoise() >> TopCode(quantile=0.99), names, "salary", "salary", replications=4, draws=1)
    assert to_svg(m.chart(0.04)).startswith("<svg")


def _every_control(row: str) -> dict[str, Any]:
    """A bar chart whose data, column names, title and expressions have every character that no picture can hold."""
    odd = [*map(chr, range(32)), "\x7f", "\x85", "\x9b", "\u2028", "\u202e", "\ud800", "\ufffe", "\uffff"]
    labels = [f"{row}{c}y" for c in odd]
    values = [{"label\x1b": label, "b\x00": i} for i, label in enumerate(labels)]
    axis = {"values": list(range(len(odd))), "labelExpr": f"{json.dumps(labels)}[datum.value]"}
    return {
        "title": "".join(odd), "data": {"values": values}, "mark": "bar",
        "encoding": {"x": {"field": "label\x1b", "type": "nominal", "title": "\x1b[31m"},
                     "y": {"field": "b\x00", "type": "quantitative", "axis": axis}},
    }  # fmt: skip


def test_control_characters_in_labels_names_and_titles_are_drawn_as_signs_and_never_end_the_process(
    tmp_path: Path,
) -> None:
    # vl-convert aborts the whole process at some of them: a process of its own, so that a fault fails this test only
    (tmp_path / "spec.json").write_text(json.dumps(_every_control("x")))
    code = (
        "import json, sys; from pathlib import Path; from sfumato.charts.theme import to_png, to_svg\n"
        "spec = json.loads(Path(sys.argv[1], 'spec.json').read_text())\n"
        "Path(sys.argv[1], 'chart.svg').write_text(to_svg(spec), 'utf-8'); to_png(spec, Path(sys.argv[1], 'chart.png'))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    svg = (tmp_path / "chart.svg").read_text("utf-8")
    assert "x\u2400y" in svg
    assert "\u241b[31m" in svg
    assert not [c for c in svg if ord(c) < 32 and c not in "\t\n\r"]
    assert len(set(re.findall(r"x[^<]{0,12}y", svg))) > 35  # labels that differ stay different
    assert (tmp_path / "chart.png").read_bytes()[:4] == b"\x89PNG"


# -- what is written and where the axes end


def test_a_formula_and_its_unmasked_line_have_the_same_source() -> None:
    points = {0.1: (0.4, 5.8), 0.5: (0.1, 4.0), math.nan: (1.0, 6.0)}
    luck = {0.1: (0.4, 4.9), 0.5: (0.1, 3.5), math.nan: (1.0, 5.1)}  # by chance, replications came out lower
    frame = pd.concat([frame_of(points), frame_of(luck, source="empirical")], ignore_index=True)
    chart = map_chart(frame, [LAMBDA]).to_dict()
    assert {r["u"] for r in rows(chart, "rule", what="unmasked", u=...)} == {6.0}
    assert max(r["u"] for r in rows(chart, "line", u=...)) < 6.0


def test_the_threshold_of_panels_side_by_side_is_named_once_at_the_end_of_the_row(empirical: pd.DataFrame) -> None:
    spec = map_chart(empirical, [LAMBDA], 0.04).to_dict()
    *panels, last = spec["vconcat"][0]["hconcat"]
    kept = {"datasets": spec.get("datasets", {})}
    assert not any("at most\n0.04" in texts({**panel, **kept}) for panel in panels)
    assert "at most\n0.04" in texts({**last, **kept})


def test_titles_beside_each_other_keep_a_fifth_of_their_panel_free(empirical: pd.DataFrame) -> None:
    spec = map_chart(empirical, [LAMBDA], 0.04).to_dict()
    for panel in spec["vconcat"][0]["hconcat"][:3]:
        text = panel["title"]["text"]
        for line in [text] if isinstance(text, str) else text:
            assert text_width(line, 12) <= 0.8 * panel["width"] or " " not in line
