"""Published tables read from frames: what a reader works out is what it is with the table's own cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.datasets import business
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Scale, TreeHierarchy
from sfumato.tables import PublishedTable, Status, Table, audit

TREE = TreeHierarchy.from_levels({"Oslo": ["Norway"], "Bergen": ["Norway"], "Rome": ["Italy"], "Pisa": ["Italy"]})


def table(formula: str, seed: int = 0) -> Table:
    g = np.random.default_rng(seed)
    n = 40
    frame = pd.DataFrame({
        "town": g.choice(["Oslo", "Bergen", "Rome", "Pisa"], n), "sector": g.choice(list("abc"), n),
        "kind": g.choice(list("xy"), n), "v": g.integers(1, 99, n),
    })  # fmt: skip
    schema = Schema((
        Attribute("town", scale=Scale.PARTIALLY_ORDERED, hierarchy=TREE), Attribute("sector", scale=Scale.UNORDERED),
        Attribute("kind", scale=Scale.UNORDERED), Attribute("v"),
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), formula, "v")


def hidden(made: Table, seed: int, share: float = 0.4) -> PublishedTable:
    gone = np.random.default_rng(seed).random(len(made)) < share
    shown = PublishedTable.unprotected(made)
    return shown.with_(
        values=np.where(gone, np.nan, shown.values), status=np.where(gone, Status.PRIMARY, Status.SHOWN).astype(np.int8),
        low=np.where(gone, 0.0, shown.low), high=np.where(gone, np.inf, shown.high),
    )  # fmt: skip


def read_back(published: PublishedTable, **more: Any) -> PublishedTable:
    nested = {d: TREE if d == "town" else None for d in published.cells.dimensions}
    return PublishedTable.from_frame(published.frame(), nested, "value", status="status", **more)


@pytest.mark.parametrize("formula", ["town * sector", "town * sector * kind", "town"])
@pytest.mark.parametrize("seed", range(3))
def test_a_table_that_is_read_back_has_the_same_intervals(formula: str, seed: int) -> None:
    published = hidden(table(formula, seed), seed)
    ours = audit(published, insiders="none", nonnegative=True, integer=False)
    theirs = audit(read_back(published), insiders="none")
    assert theirs.low == pytest.approx(ours.low, abs=1e-6)
    assert theirs.high == pytest.approx(ours.high, abs=1e-6)
    assert (theirs.exact == ours.exact).all()


def test_linked_tables_are_crossed_and_a_reader_who_does_not_know_empty_cells_knows_no_more() -> None:
    published = hidden(table("town * sector + kind * sector"), 5)
    ours = audit(published, insiders="none", nonnegative=True, integer=False)
    read = read_back(published)
    theirs = audit(read, insiders="none")
    assert read.cells.leaves >= published.cells.leaves
    assert (theirs.low <= ours.low + 1e-6).all()
    assert (theirs.high >= ours.high - 1e-6).all()
    shown = ~published.suppressed
    assert theirs.low[shown] == pytest.approx(published.values[shown])


def test_a_part_that_is_not_broken_down_is_a_leaf_or_is_cut_where_cells_cross_it() -> None:
    rows = [("N", "a", 1), ("N", "b", 2), ("N", "Total", 3), ("S", "Total", 7), ("Total", "Total", 10)]
    frame = pd.DataFrame(rows, columns=["region", "sector", "v"])
    read = PublishedTable.from_frame(frame, ["region", "sector"], "v")
    assert read.cells.leaves == 3
    # the total of sector a holds a part of region S that nobody shows
    more = pd.concat([frame, pd.DataFrame([("Total", "a", 5), ("Total", "b", "x")], columns=frame.columns)])
    found = audit(PublishedTable.from_frame(more, ["region", "sector"], "v"))
    cell = found.published.cells.find(sector="b")
    assert found.published.cells.leaves == 4
    assert (found.low[cell], found.high[cell]) == (5, 5)


def test_rows_that_were_left_out_can_be_taken_as_suppressed() -> None:
    rows = [
        ("N", "a", 1),
        ("S", "a", 4),
        ("N", "Total", 3),
        ("S", "Total", 9),
        ("Total", "a", 5),
        ("Total", "Total", 12),
    ]
    frame = pd.DataFrame(rows, columns=["region", "sector", "v"])
    frame.loc[len(frame)] = ("N", "b", 2)
    with pytest.raises(DataError, match="does not add up"):
        audit(PublishedTable.from_frame(frame, ["region", "sector"], "v"))
    found = audit(PublishedTable.from_frame(frame, ["region", "sector"], "v", absent="suppressed"))
    assert found.low[found.published.cells.find(region="S", sector="b")] == 5


@pytest.mark.parametrize("mark", ["x", "c", ":", "..", "", ": c", None, float("nan")])
def test_usual_marks_and_nothing_stand_for_figures_that_are_not_shown(mark: Any) -> None:
    frame = pd.DataFrame({"a": ["p", "q", "Total"], "v": np.array([mark, "3", 5], object)})
    assert PublishedTable.from_frame(frame, ["a"], "v").suppressed.tolist() == [True, False, False]


def test_frames_of_any_make_and_labels_of_any_kind_are_read() -> None:
    frame = pl.DataFrame({"year": [2020, 2021, None], "v": [None, 3.5, 5.5]})
    read = PublishedTable.from_frame(frame, ["year"], "v")
    assert read.cells.labels[:, 0].tolist() == [
        "2020",
        "2021",
        "Total",
    ]  # nothing stands for the total, as CUBE writes it
    other = frame.to_pandas().fillna({"year": 0})
    other.index = [7, 7, 9]
    assert PublishedTable.from_frame(other, ["year"], "v", total="0").suppressed.tolist() == [True, False, False]


def test_the_original_beside_it_lets_rules_and_contributors_be_looked_at() -> None:
    data = business(300, regions=4, sectors=3, hierarchies=False)
    made = Table.of(data, "region * sector", "turnover")
    published = hidden(made, 2)
    frame = published.frame().sample(frac=1, random_state=1)
    read = PublishedTable.from_frame(frame, ["sector", "region"], "value", original=made)
    assert np.array_equal(read.values, published.values, equal_nan=True)
    assert read.original is made
    short = PublishedTable.from_frame(frame.iloc[5:], ["sector", "region"], "value", original=made)
    assert short.suppressed.sum() >= published.suppressed.sum()  # a row that is not there is not published
    with pytest.raises(ParameterError, match="but the one that it was made from by"):
        PublishedTable.from_frame(frame.rename(columns={"region": "kind"}), ["sector", "kind"], "value", original=made)
    with pytest.raises(DataError, match="not in the table that it was made from"):
        PublishedTable.from_frame(frame.replace({"region": {"N1": "Z"}}), ["sector", "region"], "value", original=made)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"v": ["1", "n.a.", "3"]}, {}, "neither a number nor a known mark"),
        ({"a": ["p", "p", "Total"]}, {}, "two rows for the same cell: a p"),
        ({}, {"within": -1}, "within must be"),
        ({}, {"absent": "gone"}, "absent must be"),
        ({}, {"status": "flag"}, "column 'flag' is not in the published table"),
        ({"flag": ["c", "", ""]}, {"status": "flag"}, "has a figure and, in 'flag', a mark"),
        ({"v": [1, np.inf, 3]}, {}, "infinite"),
    ],
)
def test_what_cannot_be_a_published_table_is_refused(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    frame = pd.DataFrame({"a": ["p", "q", "Total"], "v": [1, 2, 3]}).assign(**change)
    with pytest.raises((DataError, ParameterError), match=message):
        PublishedTable.from_frame(frame, ["a"], "v", **options)


def test_a_flag_says_that_a_figure_was_changed_and_a_variance_that_it_has_noise() -> None:
    frame = pd.DataFrame(
        {"a": ["p", "q", "Total"], "v": [1, 2, 3], "flag": ["changed", "", ""], "noise": [0.0, 4.0, 4.0]}
    )
    flagged = PublishedTable.from_frame(frame, ["a"], "v", status="flag")
    assert flagged.status.tolist() == [Status.CHANGED, Status.SHOWN, Status.SHOWN]
    assert (flagged.low[0], flagged.high[0]) == (0, np.inf)
    noisy = PublishedTable.from_frame(frame, ["a"], "v", variance="noise")
    assert noisy.status.tolist() == [Status.SHOWN, Status.CHANGED, Status.CHANGED]
    assert np.isinf(noisy.high[1:]).all()


def test_a_table_that_shows_a_figure_below_zero_lets_hidden_ones_be_below_zero_too() -> None:
    frame = pd.DataFrame({"a": ["p", "q", "r", "Total"], "v": ["x", -2, "x", 3]})
    found = audit(PublishedTable.from_frame(frame, ["a"], "v"))
    assert np.isinf(found.low[0])
    assert np.isinf(found.high[0])
    assert found.safe
    known = audit(PublishedTable.from_frame(frame.assign(v=["x", 2, "x", 3]), ["a"], "v"))
    assert (known.low[0], known.high[0]) == (0, 1)


def test_missing_values_of_pandas_are_figures_that_are_not_shown() -> None:
    numbers = pd.DataFrame({"region": ["N", "S", "Total"], "v": pd.array([5, None, 8], "Int64")})
    texts = pd.DataFrame({"region": pd.array(["N", "S", None], "string"), "v": pd.array(["5", None, "8"], "string")})
    for frame in (numbers, texts):
        table = PublishedTable.from_frame(frame, ["region"], "v")
        assert table.suppressed.tolist() == [False, True, False]
        assert audit(table).low[1] == 3


def test_the_top_of_a_hierarchy_may_stand_below_the_total() -> None:
    frame = pd.DataFrame({"town": ["Rome", "Pisa", "Italy", "Total"], "v": [None, 2.0, None, 3.0]})
    found = audit(PublishedTable.from_frame(frame, {"town": {"Rome": "Italy", "Pisa": "Italy"}}, "v"))
    assert found.low.tolist() == [1, 2, 3, 3]


def test_a_dash_means_none_unless_it_is_named_as_a_mark() -> None:
    frame = pd.DataFrame({"a": ["p", "q", "r", "Total"], "v": ["-", "x", "4", "9"]})
    assert PublishedTable.from_frame(frame, ["a"], "v").values[0] == 0
    assert np.isnan(PublishedTable.from_frame(frame, ["a"], "v", marks=["-"]).values[0])
