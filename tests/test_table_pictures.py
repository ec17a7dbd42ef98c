"""Heat maps, before and after, and the report section of protected tables: what they show and what they keep to themselves."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers
from published_tables import FewRecords, HideCells, LeafNoise, RoundTo, firms, table

from sfumato import Draws
from sfumato.charts.map_chart import methods_chart
from sfumato.charts.table_charts import (
    EMPTY,
    HIDDEN,
    LOOKS,
    PRIMARY,
    SECONDARY,
    SHOWN,
    band_of,
    table_change_chart,
    table_heatmap,
)
from sfumato.charts.theme import to_png, to_svg
from sfumato.contract import Figure, param
from sfumato.errors import NotApplicable, ParameterError
from sfumato.reports import board_report, table_report
from sfumato.tables import PPercent, PublishedTable, Suppression, Table
from sfumato.tables.cells import Status
from sfumato.tables.measures import TableAccuracy
from sfumato.tables.section import (
    before_and_after,
    change_frame,
    default_measures,
    heatmap,
    heatmap_frame,
    table_section,
)

DRAWS = Draws(2)


@pytest.fixture(scope="module")
def t() -> Table:
    return table(firms(3, 60))


@pytest.fixture(scope="module")
def hidden(t: Table) -> PublishedTable:
    square = tuple(t.cells.find(region=r, sector=s) for r in "NS" for s in "ab")
    return HideCells(hidden=square).protect(t, DRAWS)


def rows_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for _, rows in layers(spec) for row in rows]


def test_the_heat_map_tells_unsafe_cells_from_others(hidden: PublishedTable, t: Table) -> None:
    frame, down, across = heatmap_frame(hidden)
    assert (down, across) == ("region", "sector")
    assert len(frame) == len(t)
    kinds = frame.set_index(["row", "column"])["kind"]
    assert kinds["N", "a"] == PRIMARY
    assert kinds["S", "b"] == SECONDARY
    assert kinds["Total", "Total"] == SHOWN
    assert list(dict.fromkeys(frame["row"]))[-1] == "Total"
    drawn = rows_of(heatmap(hidden).to_dict())
    assert {r["kind"] for r in drawn} == {PRIMARY, SECONDARY, SHOWN}


def test_the_public_s_heat_map_does_not(hidden: PublishedTable) -> None:
    frame, _, _ = heatmap_frame(hidden, public=True)
    assert set(frame["kind"]) == {HIDDEN, SHOWN}
    assert "unsafe" not in to_svg(heatmap(hidden, public=True))


def test_changes_are_shown_in_bands(t: Table) -> None:
    p = RoundTo(base=20.0).protect(t, DRAWS)
    frame, _, _ = heatmap_frame(p)
    cell = t.cells.find(region="N", sector="a")
    change = (p.values[cell] - t.value[cell]) / t.value[cell]
    here = frame[(frame["row"] == "N") & (frame["column"] == "a")].iloc[0]
    assert here["kind"] == band_of(change)
    public, _, _ = heatmap_frame(p, public=True)
    assert set(public["kind"]) == {"changed"}


def test_of_three_dimensions_two_are_drawn() -> None:
    frame = firms(1, 80, kind=np.arange(80) % 2)
    p = PublishedTable.unprotected(table(frame, "region * sector * kind"))
    shown, down, across = heatmap_frame(p)
    assert {down, across} == {"region", "sector"}
    assert len(shown) == 16
    picked, down, across = heatmap_frame(p, down="kind", across="region")
    assert (down, across) == ("kind", "region")
    assert len(picked) == 3 * 4
    with pytest.raises(ParameterError, match="dimension 'size'"):
        heatmap(p, down="size")
    with pytest.raises(ParameterError, match="two different"):
        heatmap(p, down="kind", across="kind")


def test_of_many_labels_the_largest_are_drawn() -> None:
    n = 90
    frame = pd.DataFrame({"region": [f"r{i:02d}" for i in range(n)], "turnover": np.arange(1.0, n + 1)})
    shown, down, across = heatmap_frame(PublishedTable.unprotected(table(frame, "region")))
    assert (down, across) == ("region", "")
    labels = list(shown["row"])
    assert len(labels) == 60
    assert "r89" in labels
    assert "r10" not in labels
    assert labels[-1] == "Total"


def test_of_many_labels_those_with_cells_that_are_not_published_are_drawn_first() -> None:
    """The small ones, which a table of 51 states suppresses, are what its picture is about."""
    n = 90
    frame = pd.DataFrame({"region": [f"r{i:02d}" for i in range(n)], "turnover": np.arange(1.0, n + 1)})
    shown = PublishedTable.unprotected(table(frame, "region"))
    status, values = shown.status.copy(), shown.values.copy()
    small = [shown.cells.find(region=f"r{i:02d}") for i in range(3)]
    status[small], values[small] = Status.PRIMARY, np.nan
    drawn, _, _ = heatmap_frame(dataclasses.replace(shown, status=status, values=values))
    kinds = drawn.set_index("row")["kind"]
    assert [kinds[f"r{i:02d}"] for i in range(3)] == [PRIMARY] * 3
    section = table_section(dataclasses.replace(shown, status=status, values=values))
    captions = [c.caption for c in section.content if isinstance(c, Figure)]
    assert "60 of 91 labels of region are drawn, those with treated cells first" in captions[0]


def test_the_total_stands_last_although_a_row_lacks_a_cell() -> None:
    frame = pd.DataFrame({"region": ["N", "S", "S"], "sector": ["b", "a", "b"], "turnover": [1.0, 2.0, 3.0]})
    shown, _, _ = heatmap_frame(PublishedTable.unprotected(table(frame, "region * sector")), "region", "sector")
    assert list(dict.fromkeys(shown["column"])) == ["a", "b", "Total"]
    (empty,) = shown[(shown["row"] == "N") & (shown["column"] == "a")]["kind"]
    assert empty == EMPTY


def test_a_table_of_one_number_has_no_heat_map() -> None:
    from scipy import sparse

    from sfumato.tables.cells import Cells

    cells = Cells((), np.empty((1, 0), object), sparse.csr_array(np.ones((1, 1))))
    p = PublishedTable.unprotected(Table(cells, np.array([5.0]), np.array([2.0]), "turnover"))
    with pytest.raises(NotApplicable, match="one number"):
        heatmap(p)


def test_before_and_after_has_the_attacker_s_intervals(hidden: PublishedTable, t: Table) -> None:
    frame = change_frame(hidden)
    gone = frame[frame["after"].isna()]
    assert len(gone) == 4
    assert ((gone["low"] <= gone["before"]) & (gone["before"] <= gone["high"])).all()
    assert (gone["low"] < gone["high"]).all()
    shown = frame.dropna()
    assert np.array_equal(shown["before"], shown["after"])
    drawn = rows_of(before_and_after(hidden).to_dict())
    assert {r["what"] for r in drawn} == {"interval", "before", "after"}
    assert len(change_frame(hidden, 3)) == 3
    assert change_frame(hidden, 3)["after"].isna().all()  # those that are not published come first


def test_noise_has_intervals_of_two_standard_deviations(t: Table) -> None:
    p = LeafNoise(sd=4.0).protect(t, DRAWS)
    frame = change_frame(p, 100).set_index("name")
    row = frame.loc["region N, sector a"]
    assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * 4.0)
    assert (row["high"] + row["low"]) / 2 == pytest.approx(row["after"])


@pytest.mark.parametrize("make", [heatmap, before_and_after], ids=["heat map", "before and after"])
def test_pictures_can_be_drawn(make: Any, hidden: PublishedTable, tmp_path: Path) -> None:
    to_png(make(hidden), tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"


def test_charts_say_which_column_is_missing() -> None:
    with pytest.raises(ParameterError, match="column 'kind'"):
        table_heatmap(pd.DataFrame({"row": ["a"], "column": ["b"], "text": ["1"]}), "r", "s")
    with pytest.raises(ParameterError, match="kind 'gone'"):
        table_heatmap(pd.DataFrame({"row": ["a"], "column": ["b"], "text": ["1"], "kind": ["gone"]}), "r", "s")
    with pytest.raises(ParameterError, match="column 'low'"):
        table_change_chart(pd.DataFrame({"name": ["a"], "before": [1.0], "after": [1.0], "high": [2.0]}))
    empty = pd.DataFrame({c: [] for c in ("row", "column", "kind", "text")})
    with pytest.raises(ParameterError, match="no cells"):
        table_heatmap(empty, "r", "s")
    with pytest.raises(ParameterError, match="column 'family'"):
        methods_chart(pd.DataFrame({"point": [], "side": [], "measure": []}))


def test_every_look_differs_in_grey() -> None:
    def grey(colour: str) -> float:
        red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bands = [grey(LOOKS[k][0]) for k in LOOKS if k.startswith("changed by")]
    assert bands == sorted(bands, reverse=True)
    assert grey(LOOKS[PRIMARY][0]) < grey(LOOKS[SECONDARY][0]) - 60


# -- the section


class Ruled(HideCells, abstract=True):
    """Hides cells by a rule, with a parameter that must not be told."""

    rules: Any = param((), doc="which cells are unsafe")
    width: float = param(0.37, doc="how wide intervals must be", low=0, published=False)
    rounds: int = param(5, doc="how often it looks", low=1, integer=True)


def test_the_board_is_told_everything(t: Table, hidden: PublishedTable) -> None:
    p = hidden.with_(protection=Ruled(hidden=(1, 2), rules=FewRecords(fewest=4)))
    section = table_section(p)
    words = " ".join(section.sentences)
    assert "16 cells by region and sector" in words
    assert "60 contributors" in words
    assert "1 cell is not published because it is unsafe, and 3 more" in words
    assert "break at least 4 records" in words
    assert "was not examined" in words
    tables = json.dumps([c.rows for c in section.content if hasattr(c, "rows")], default=str)
    for said in ("0.37", "interval lengths", "accuracy of cells", "the cells named are hidden"):
        assert said in tables
    figures = [c for c in section.content if hasattr(c, "spec")]
    assert len(figures) == 2


def test_the_public_is_told_nothing_that_helps(t: Table, hidden: PublishedTable) -> None:
    p = hidden.with_(protection=Ruled(hidden=(1, 2), rules=FewRecords(fewest=4)))
    section = table_section(p, publishable=True)
    everything = json.dumps(
        [section.sentences, [getattr(c, "rows", None) or c.spec for c in section.content]], default=str
    )  # type: ignore[union-attr]
    assert "4 cells of 16 are not published" in everything
    assert "how often it looks" in everything  # a plain parameter that may be told
    for secret in ("0.37", "unsafe", "at least 4 records", "secondary", "primary", "accuracy", "contributors"):
        assert secret not in everything, secret
    before = t.value[hidden.suppressed]
    for value in before:  # no value that is not published, in any form
        assert f"{value:.1f}" not in everything


def test_measures_of_one_s_own_are_reported(hidden: PublishedTable) -> None:
    section = table_section(hidden, measures=[TableAccuracy()])
    (grid,) = [c for c in section.content if getattr(c, "heads", ("",))[0] == "side"]
    assert [row[1] for row in grid.rows] == ["accuracy of cells"]  # type: ignore[union-attr]
    assert {m.name for m in default_measures(hidden)} >= {"relative_certainty", "published_value", "table_accuracy"}


def test_a_table_protected_by_a_rule_has_one_verdict_in_the_terms_of_the_rule(t: Table) -> None:
    names = {m.name for m in default_measures(Suppression(rules=PPercent(p=10)).protect(t, DRAWS))}
    assert names >= {"cell_certainty", "interval_lengths", "table_accuracy"}
    assert not names & {"relative_certainty", "known_closely"}  # a second verdict, in terms that nobody asked for


def test_a_report_with_cells_before_protection_does_not_say_that_it_holds_no_value(hidden: PublishedTable) -> None:
    board, public = (table_report(hidden, title="T", publishable=p).html() for p in (False, True))
    assert "no record's value" not in board.replace("&#39;", "'")
    assert "can be the value of a single contributor" in board
    assert "can be the value of a single contributor" not in public


def test_reports_have_two_versions(hidden: PublishedTable, tmp_path: Path) -> None:
    board = table_report(hidden, title="Turnover", asked="May it go out?")
    public = table_report(hidden, title="Turnover", asked="May it go out?", publishable=True)
    assert board.version == "confidential"
    assert [s.title for s in board.sections] == [
        "What was asked", "Table of turnover by region and sector", "Audit of the published table"
    ]  # fmt: skip
    assert len(public.sections) == 2
    board.write(tmp_path / "r.html", json=True)
    assert "May it go out?" in (tmp_path / "r.html").read_text("utf-8")
    assert "not published: unsafe" in board.html()
    assert "not published: unsafe" not in public.html()


def test_a_board_report_has_room_for_tables(hidden: PublishedTable) -> None:
    from sfumato.datasets import teachers
    from sfumato.masks import MDAV

    release = MDAV(columns=("salary", "income"), k=5).apply(teachers(100), DRAWS)
    for publishable in (False, True):
        report = board_report(release=release, title="T", tables=[hidden], publishable=publishable)
        titles = [s.title for s in report.sections]
        assert "Table of turnover by region and sector" in titles
        assert titles[-1] == "What was not examined"


def change(before: list[float], after: list[float]) -> pd.DataFrame:
    low, high = np.subtract(after, 1.0), np.add(after, 1.0)
    names = [f"cell {i}" for i in range(len(before))]
    return pd.DataFrame({"name": names, "before": before, "after": after, "low": low, "high": high})


@pytest.mark.parametrize(
    ("before", "kind", "words"),
    [
        ([900.0, 500.0, 40.0], "linear", ""),
        ([9e5, 500.0, 4.0], "log", ", log scale"),
        ([58.0, 20.0, 1.0, 0.0], "linear", ""),
        ([9e5, 500.0, 4.0, 0.0], "symlog", ", log scale above zero"),
        ([9e5, 500.0, 0.0, -4.0, -7e3], "symlog", ", log scale on both sides of zero"),
    ],
)
def test_small_cells_of_skewed_tables_lie_apart_and_zeros_and_negatives_are_drawn(
    before: list[float], kind: str, words: str
) -> None:
    after = [v + 1 if v else 0.0 for v in before]
    spec = table_change_chart(change(before, after)).to_dict()
    axes = [layer["encoding"]["x"] for layer in spec["layer"]]
    scale = axes[0]["scale"]
    assert {a["scale"]["type"] for a in axes} == {kind}
    assert axes[0]["title"] == f"value{words}"
    low, high = scale["domain"]
    assert all(low < v < high for v in [*before, *after])
    ticks = axes[0]["axis"]["values"]
    assert len(ticks) >= 3
    assert all(low <= t <= high for t in ticks)
    if kind == "symlog":
        place = [math.copysign(math.log1p(abs(v) / scale["constant"]), v) for v in sorted([low, high, *before])]
        gaps = np.diff(place)[1:-1] / (place[-1] - place[0])
        assert (gaps > 0.03).all()  # on a linear axis the smallest is 4 of 900,000
        assert 0.0 in ticks
