"""Many measures against their thresholds, and risk against information loss, as data."""

from __future__ import annotations

import pytest
from chart_specs import layers, rows, texts, titles
from search_frames import (
    METHODS,
    SCENARIOS,
    UTILITIES,
    many_measures,
    many_methods,
    sequences,
    simple,
    worst,
)

from sfumato.charts.map_data import MapData
from sfumato.charts.measures import loss_chart, measures_chart
from sfumato.charts.theme import to_svg
from sfumato.errors import ParameterError

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
    raw = many_measures()[many_measures()["masked"]]
    assert not rows(measures_chart(raw).to_dict(), "rule", what="unmasked")
    other = many_measures()
    other.loc[(other["measure"] == "variance kept") & ~other["masked"], "value"] = 1.86
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
    family = frame[frame["masked"]].groupby("point")["family"].first()
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
        loss_chart(frame[frame["masked"]])
    frame.loc[~frame["masked"], "value"] = 8.0
    chart = loss_chart(frame).to_dict()
    assert [row["loss"] for row in rows(chart, "line", what="line")] == [0.5, 0.375]
    assert f"information loss: 1 − {UTILITIES[0]} as a share of the unmasked file's" in titles(chart)


def test_scenarios_are_those_of_the_frame() -> None:
    assert MapData.read(many_methods(METHODS)).scenarios == SCENARIOS
