"""The R-U map of protected tables: points, intervals, the choice, the frontier, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers, titles
from published_tables import CellNoise, FewRecords, HideCells, LeafNoise, RoundTo, firms, table

from sfumato import Draws, Microdata
from sfumato.charts.map_chart import methods_chart
from sfumato.contract import Side
from sfumato.errors import NotApplicable, ParameterError
from sfumato.maps import RUMap
from sfumato.tables import Protection, PublishedTable, RandomRounding, Table
from sfumato.tables.measures import IntervalLengths, KnownClosely, PublishedValue, RelativeCertainty, TableAccuracy
from sfumato.tables.protection_map import table_map


@pytest.fixture(scope="module")
def t() -> Table:
    return table(firms(3, 40))


@pytest.fixture(scope="module")
def m(t: Table) -> RUMap:
    over = {"leaf_noise.sd": [2.0, 8.0, 30.0], "round_to.base": [10.0, 50.0]}
    return table_map(t, [LeafNoise(), RoundTo(), HideCells(hidden=(5, 6, 9, 10))], over, replications=6, draws=4)


def test_every_protection_is_tried_at_every_value(m: RUMap) -> None:
    assert [(p.family, p.at) for p in m.points] == [
        ("leaf_noise", "sd = 2"), ("leaf_noise", "sd = 8"), ("leaf_noise", "sd = 30"), ("round_to", "base = 10"),
        ("round_to", "base = 50"), ("hide_cells", "as it is"),
    ]  # fmt: skip
    assert m.points[1].method == LeafNoise(sd=8.0)
    assert [len(p.seen[1]) for p in m.points] == [6, 6, 6, 1, 1, 1]  # what is not random is made once


def test_values_are_those_of_the_measures(m: RUMap, t: Table) -> None:
    seen = [
        TableAccuracy().score(LeafNoise(sd=8.0).protect(t, Draws(4).child("map").replicate(r))).value for r in range(6)
    ]
    value, interval = m.estimate(1, 1)
    assert value == pytest.approx(np.mean(seen))
    assert interval is not None
    assert interval[0] < value < interval[1]
    exact, alone = m.estimate(1, 3)
    assert alone == (exact, exact)
    assert exact == TableAccuracy().score(RoundTo(base=10.0).protect(t, Draws(0))).value


def test_more_noise_is_safer_and_less_useful(m: RUMap) -> None:
    risks, uses = ([m.estimate(i, p)[0] for p in range(3)] for i in (0, 1))
    assert risks == sorted(risks, reverse=True)
    assert uses == sorted(uses, reverse=True)


def test_the_frontier_has_what_nothing_beats(m: RUMap) -> None:
    pairs = [(m.estimate(0, p)[0], m.estimate(1, p)[0]) for p in range(len(m.points))]
    best = {p for p, (r, u) in enumerate(pairs) if not any(a <= r and b >= u and (a, b) != (r, u) for a, b in pairs)}
    front = m.frontier()
    assert set(front["point"]) == best
    assert front["risk"].is_monotonic_increasing


def test_the_choice_is_the_most_useful_that_is_safe(m: RUMap) -> None:
    limit = (m.estimate(0, 1)[0] + m.estimate(0, 2)[0]) / 2  # between sd = 8 and sd = 30
    safe = [p for p in range(len(m.points)) if m.estimate(0, p)[0] <= limit]
    best = max(safe, key=lambda p: m.estimate(1, p)[0])
    choice = m.choose(limit)
    assert choice.feasible
    assert choice.method == m.points[best].method
    assert choice.settings["protection"] == m.points[best].family
    assert choice.risks[0].value <= limit
    assert choice.max_risk == {"relative certainty": limit}


def test_where_nothing_is_safe_the_nearest_is_named(m: RUMap) -> None:
    choice = m.choose(1e-6)
    assert not choice.feasible
    assert choice.method is None
    assert "leaf_noise (sd = 30)" in choice.reason
    assert "where 1 × 10⁻⁶ is allowed" in choice.reason


def test_the_same_seed_gives_the_same_map(t: Table) -> None:
    one, two, other = (
        table_map(t, LeafNoise(), {"leaf_noise.sd": [5.0]}, replications=3, draws=seed).frame() for seed in (1, 1, 2)
    )
    assert one.equals(two)
    assert not one.equals(other)


def test_neighbouring_points_share_random_numbers(t: Table) -> None:
    m = table_map(t, LeafNoise(), {"leaf_noise.sd": [5.0, 5.001]}, replications=3, draws=1)
    assert m.estimate(1, 0)[0] == pytest.approx(m.estimate(1, 1)[0], rel=1e-3)


def test_without_values_the_usual_range_is_swept(t: Table) -> None:
    m = table_map(t, RoundTo(), draws=1)
    assert [p.settings["round_to.base"] for p in m.points] == [2.0, 4.47, 10.0, 22.4, 50.0]
    assert len(table_map(t, RoundTo(), {}, draws=1).points) == 1


def test_names_of_one_s_own_keep_two_of_a_kind_apart(t: Table) -> None:
    m = table_map(t, {"fine": RoundTo(base=3.0), "coarse": RoundTo(base=30.0)}, {}, draws=1)
    assert [p.family for p in m.points] == ["fine", "coarse"]
    both = table_map(t, [RoundTo(base=3.0), RoundTo(base=30.0)], {}, draws=1)
    assert [p.family for p in both.points] == ["rounded to 3", "rounded to 30"]
    swept = table_map(t, {"fine": RoundTo(), "coarse": RoundTo()}, {"fine.base": [2, 3]}, draws=1)
    assert [p.at for p in swept.points] == ["base = 2", "base = 3", "as it is"]


class Refuses(RoundTo, abstract=True):
    """Refuses small bases."""

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        if self.base < 5:
            raise NotApplicable("the base is too small for this table.")
        return super().publish(table, draws)


def test_what_cannot_be_protected_is_left_out_with_the_reason(t: Table) -> None:
    m = table_map(t, {"picky": Refuses()}, {"picky.base": [3.0, 6.0]}, draws=1)
    assert [p.at for p in m.points] == ["base = 6"]
    assert m.refused == {"picky (picky.base = 3)": "the base is too small for this table."}
    assert "the base is too small" in " ".join(m.section().sentences)
    with pytest.raises(NotApplicable, match="too small"):
        table_map(t, {"picky": Refuses()}, {"picky.base": [3.0]}, draws=1)


def test_measures_that_do_not_apply_are_told(t: Table) -> None:
    rule = FewRecords(fewest=4)
    m = table_map(
        t, [LeafNoise(), RoundTo()], {}, risk=[RelativeCertainty(), IntervalLengths(rule)], replications=2, draws=1
    )
    assert np.isnan(m.estimate(1, 0)[0])
    assert "interval lengths of leaf_noise" in m.refused
    with pytest.raises(NotApplicable, match="no risk measure applies"):
        table_map(t, LeafNoise(), {}, risk=IntervalLengths(rule), replications=2, draws=1)
    choice = m.choose(1e9)
    assert choice.settings["protection"] == "round_to"  # a risk that is not known is not small


def test_counts_are_judged_by_how_closely_cells_are_known(t: Table) -> None:
    counts = table(firms(3, 40), variable=None)
    m = table_map(counts, RoundTo(base=3.0), {}, draws=1)
    assert isinstance(m.measures[0], KnownClosely)


@pytest.mark.parametrize(("change", "says"), [
    ({"protections": []}, "at least one protection"),
    ({"protections": "rta"}, "must be protections"),
    ({"over": {"round_to.sd": [1]}}, "parameter 'round_to.sd'"),
    ({"over": {"round_to.base": []}}, "list of values"),
    ({"over": {"round_to.base": [-1]}}, "base of round_to"),
    ({"risk": TableAccuracy()}, "risk must be a risk measure"),
    ({"utility": [PublishedValue(), PublishedValue()]}, "two measures"),
    ({"replications": 1}, "at least 2"),
])  # fmt: skip
def test_what_is_asked_wrongly_is_told(t: Table, change: dict[str, Any], says: str) -> None:
    asked: dict[str, Any] = {"protections": RoundTo(), "over": {}, "draws": 1, **change}
    with pytest.raises(ParameterError, match=says):
        table_map(t, asked.pop("protections"), **asked)


def test_thresholds_are_checked(m: RUMap) -> None:
    with pytest.raises(ParameterError, match="at least 0"):
        m.choose(-1)
    with pytest.raises(ParameterError, match="risk measure 'certainty'"):
        m.choose({"certainty": 1.0})
    assert m.position(Side.RISK, "relative certainty") == 0


def test_the_chart_has_every_point_with_its_numbers(m: RUMap) -> None:
    choice = m.choose(1.5)
    spec = m.chart(1.5, choice).to_dict()
    everything = [row for _, rows in layers(spec) for row in rows]
    drawn = [row for row in everything if "risk_words" in row]
    for p in range(len(m.points)):
        u = m.estimate(1, p)[0]
        assert any(row["point"] == p and row["u"] == pytest.approx(u) for row in drawn)
    endless = [row["point"] for row in drawn if row.get("what") == "infinite"]
    assert endless == [p for p in range(len(m.points)) if np.isinf(m.estimate(0, p)[0])]
    assert any(row.get("what") == "threshold" and row["r"] == 1.5 for row in everything)
    with pytest.raises(ParameterError, match="measure"):
        m.chart(risk="no such")


def test_the_axis_of_accuracy_ends_at_the_unprotected_table(m: RUMap) -> None:
    wide = m.frame().assign(high=lambda f: f["high"].where(f["side"] == "risk", f["value"] + 0.4))
    spec = methods_chart(wide, threshold=1.5).to_dict()
    (ends,) = {
        tuple(u["encoding"]["x"]["scale"]["domain"]) for u, _ in layers(spec) if "scale" in u["encoding"].get("x", {})
    }
    assert 1 < ends[1] < 1.05  # the accuracy of an exact table is 1
    assert "data utility U: accuracy of cells (unprotected: 1)" in titles(spec)


def test_the_section_says_what_was_asked_and_what_is_best(m: RUMap) -> None:
    choice = m.choose(1.5)
    section = m.section(1.5, choice)
    words = " ".join(section.sentences)
    assert "the most useful table with relative certainty at most 1.5" in words
    assert "hide cells" in words
    figure, grid = section.content
    assert "R-U confidentiality map" in figure.caption
    assert len(grid.rows) == len(m.points)  # type: ignore[union-attr]
    nothing = m.choose(1e-9)
    assert "There is no answer" in " ".join(m.section(choice=nothing).sentences)


def test_the_map_for_machines_is_plain(m: RUMap) -> None:
    import json

    text = json.dumps(m.to_dict(), allow_nan=False)
    assert '"inf"' in text  # the risk of what is known exactly
    assert len(m.to_dict()["points"]) == 2 * len(m.points)


def test_protections_of_every_sort_stand_in_one_map(t: Table) -> None:
    methods: list[Protection] = [LeafNoise(), CellNoise(), RoundTo(), HideCells(hidden=(5, 6, 9, 10))]
    m = table_map(t, methods, {}, replications=2, draws=1)
    assert not m.refused
    assert all(not np.isnan(m.estimate(i, p)[0]) for i in (0, 1) for p in range(4))


def test_a_random_method_is_replicated_even_if_two_of_its_tables_are_alike() -> None:
    people = pd.DataFrame({"a": ["x"] * 2 + ["y"] * 3})
    table = Table.of(Microdata(people), "a")
    alike = 0
    for seed in range(5):
        draws = Draws(seed)
        first, second = (RandomRounding(5).protect(table, draws.child("map").replicate(k)).values for k in (0, 1))
        alike += np.array_equal(first, second)
        m = table_map(table, RandomRounding(5), over={}, replications=8, draws=draws)
        assert len(m.points[0].seen[0]) == 8
    assert alike
