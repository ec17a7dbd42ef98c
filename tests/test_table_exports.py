"""Published tables as files, read back by others: csv, pandas, openpyxl, json."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Scale, TreeHierarchy
from sfumato.tables import NK, PublishedTable, Status, Suppression, Table, audit
from sfumato.tables.exports import (
    children_of,
    csv_text,
    json_stat,
    read_json_stat,
    read_sdmx_csv,
    sdmx_csv,
    write_table,
)

TREE = TreeHierarchy.from_levels({"Oslo": ["Norway"], "Rome": ["Italy"], "Pisa": ["Italy"]})


def published(formula: str = "town * sector", decimals: int | None = None) -> PublishedTable:
    frame = pd.DataFrame({
        "town": ["Oslo", "Rome", "Pisa", "Rome", "Oslo"], "sector": ["a", "a", "b", "b", "b & c"],
        "kind": ["x", "y", "x", "y", "y"], "turnover": [10.25, 20.5, 30, 40, 0.125],
    })  # fmt: skip
    schema = Schema((
        Attribute("town", scale=Scale.PARTIALLY_ORDERED, hierarchy=TREE), Attribute("sector", scale=Scale.UNORDERED),
        Attribute("kind", scale=Scale.UNORDERED), Attribute("turnover", unit="thousand euros"),
    ))  # fmt: skip
    table = Table.of(Microdata(frame, schema), formula, "turnover", decimals=decimals)
    shown = PublishedTable.unprotected(table)
    values, status = shown.values.copy(), shown.status.copy()
    for labels, how in (
        ({"town": "Oslo", "sector": "a"}, 1),
        ({"town": "Norway", "sector": "a"}, 2),
        ({"town": "Rome"}, 3),
    ):
        cell = table.cells.find({k: v for k, v in labels.items() if k in table.cells.dimensions})
        status[cell] = how
        values[cell] = np.nan if how < 3 else values[cell] + 0.5
    return shown.with_(values=values, status=status)


def noisy() -> PublishedTable:
    table = published()
    bands = np.array(["A", "B"] * len(table), object)[: len(table)]
    return table.with_(variance=np.arange(len(table), dtype=float), quality=bands)


def test_csv_holds_what_pandas_reads_back_and_does_not_tell_the_two_suppressions_apart(tmp_path: Path) -> None:
    table = noisy()
    path = table.write(tmp_path / "table.csv")
    read = pd.read_csv(path, keep_default_na=False, na_values={"value": [""], "variance": [""]})
    assert read.columns.tolist() == ["town", "sector", "value", "status", "variance", "quality"]
    assert read.value.to_numpy() == pytest.approx(table.values, nan_ok=True)
    assert (read.status == "suppressed").sum() == 2
    assert (read.status == "changed").sum() == 1
    assert read[["town", "sector"]].to_numpy().tolist() == table.cells.labels.tolist()
    assert read.variance.isna().tolist() == np.isnan(table.values).tolist()  # none for what is not published
    assert set(read.quality) == {"A", "B"}
    again = PublishedTable.from_frame(
        read, {"town": TREE, "sector": None}, "value", status="status", variance="variance"
    )
    assert np.array_equal(again.values, table.values, equal_nan=True)
    assert again.suppressed.tolist() == table.suppressed.tolist()


def test_values_have_as_many_digits_as_are_published() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(published(decimals=1)))))
    assert all(re.fullmatch(r"\d+\.\d|", row["value"]) for row in rows)
    rows = list(csv.DictReader(io.StringIO(csv_text(published()))))
    assert {row["value"] for row in rows} >= {"20.5", "30", "0.125", ""}


def test_a_workbook_is_read_back_by_openpyxl(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    table = noisy()
    path = table.write(tmp_path / "table.xlsx")
    rows = list(openpyxl.load_workbook(path).active.iter_rows(values_only=True))
    assert rows[0] == ("town", "sector", "value", "status", "variance", "quality")
    assert [r[2] for r in rows[1:]] == [None if np.isnan(v) else pytest.approx(v) for v in table.values]
    assert [r[:2] for r in rows[1:]] == [tuple(r) for r in table.cells.labels.tolist()]
    assert sum(r[3] == "suppressed" for r in rows[1:]) == 2


def check_json_stat(document: dict[str, Any]) -> None:
    """The rules of the JSON-stat 2.0 dataset schema (json-stat.org/format/schema/2.0)."""
    assert document["version"] == "2.0"
    assert document["class"] == "dataset"
    allowed = {
        "version", "class", "label", "source", "updated", "href", "id", "size", "role", "dimension", "value", "status", "note",
        "link", "extension", "error",
    }  # fmt: skip
    assert set(document) <= allowed
    ids, size = document["id"], document["size"]
    assert len(set(ids)) == len(ids) == len(size)
    assert set(document["dimension"]) == set(ids)
    assert set(document["role"]) <= {"time", "geo", "metric"}
    for name, count in zip(ids, size, strict=True):
        category = document["dimension"][name]["category"]
        assert set(category) <= {"index", "label", "child", "coordinates", "unit", "note"}
        assert len(category["index"]) == len(set(category["index"])) == count
        assert set(category["label"]) == set(category["index"])
        for parent, children in category.get("child", {}).items():
            assert parent in category["index"]
            assert set(children) <= set(category["index"])
    count = int(np.prod(size))
    if isinstance(document["value"], list):
        assert len(document["value"]) == count
        assert all(v is None or isinstance(v, int | float) for v in document["value"])
    else:
        assert all(0 <= int(k) < count for k in document["value"])
    assert all(0 <= int(k) < count for k in document.get("status", {}))


def cube(document: dict[str, Any]) -> dict[tuple[str, ...], tuple[Any, str | None]]:
    """Value and status by labels, in the order that the format demands: the last dimension changes fastest."""
    names = [document["dimension"][n]["category"]["index"] for n in document["id"]]
    value, status = document["value"], document["status"]
    found = {}
    for i, labels in enumerate(itertools.product(*names)):
        found[labels] = (value[i] if isinstance(value, list) else value.get(str(i)), status.get(str(i)))
    return found


@pytest.mark.parametrize("formula", ["town * sector", "town * sector + kind * sector", "town * kind * sector"])
def test_json_stat_obeys_the_schema_and_holds_every_cell_in_its_place(formula: str, tmp_path: Path) -> None:
    table = published(formula)
    path = table.write(tmp_path / "table.json")
    document = json.loads(path.read_text("utf-8"))
    check_json_stat(document)
    found = cube(document)
    for i, labels in enumerate(table.cells.labels.tolist()):
        value, status = found[*labels, "turnover"]
        assert (value is None) == np.isnan(table.values[i])
        assert value is None or value == pytest.approx(table.values[i])
        assert status == {Status.SHOWN: None, Status.CHANGED: "e"}.get(Status(int(table.status[i])), "c")
    assert sum(v is not None for v, _ in found.values()) == int((~np.isnan(table.values)).sum())


def test_json_stat_tells_subtotals_units_variances_and_quality() -> None:
    document = json_stat(noisy().with_(decimals=2), title="Turnover", source="a test")
    check_json_stat(document)
    child = document["dimension"]["town"]["category"]["child"]
    assert {k: set(v) for k, v in child.items()} == {"Total": {"Oslo", "Norway", "Italy"}, "Italy": {"Rome", "Pisa"}}
    measure = document["dimension"]["measure"]["category"]
    assert measure["index"] == ["turnover", "variance"]
    assert measure["unit"] == {"turnover": {"base": "thousand euros", "decimals": 2}}
    assert document["role"] == {"metric": ["measure"]}
    assert document["label"] == "Turnover"
    found = cube(document)
    table = noisy()
    cell = table.cells.find(town="Pisa", sector="b")
    assert found["Pisa", "b", "variance"][0] == cell
    assert set(document["extension"]["quality"].values()) == {"A", "B"}


def test_a_sparse_cube_is_written_as_an_object() -> None:
    frame = pd.DataFrame({"a": [f"a{i}" for i in range(30)], "b": [f"b{i}" for i in range(30)], "v": range(30)})
    table = PublishedTable.unprotected(Table.of(Microdata(frame), "a * b", "v"))
    document = json_stat(table)
    check_json_stat(document)
    assert isinstance(document["value"], dict)
    assert cube(document)["a3", "b3", "v"][0] == 3


def test_children_are_read_off_the_leaves() -> None:
    cells = published().cells
    assert {k: set(v) for k, v in children_of(cells, 1).items()} == {"Total": {"a", "b", "b & c"}}


def test_sdmx_csv_has_the_columns_and_codes_of_the_standard() -> None:
    text = sdmx_csv(noisy(), structure_id="ESTAT:SBS(1.0.0)", constants={"FREQ": "A", "TIME_PERIOD": "2026"})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0])[:5] == ["STRUCTURE", "STRUCTURE_ID", "ACTION", "FREQ", "TIME_PERIOD"]
    assert list(rows[0])[5:] == [
        "TOWN", "SECTOR", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "UNIT_MEASURE", "VARIANCE", "QUALITY",
    ]  # fmt: skip
    by = {(r["TOWN"], r["SECTOR"]): r for r in rows}
    hidden, changed, free = by["Oslo", "a"], by["Rome", "_T"], by["Rome", "a"]
    assert (hidden["OBS_VALUE"], hidden["OBS_STATUS"], hidden["CONF_STATUS"]) == ("", "Q", "C")
    assert by["Norway", "a"]["CONF_STATUS"] == "C"  # secondary, which the public is not told
    assert (changed["OBS_STATUS"], changed["CONF_STATUS"]) == ("E", "F")
    assert (free["OBS_VALUE"], free["OBS_STATUS"], free["CONF_STATUS"]) == ("20.5", "A", "F")
    assert "b___c" in {r["SECTOR"] for r in rows}  # what SDMX does not allow in a code
    assert {r["STRUCTURE_ID"] for r in rows} == {"ESTAT:SBS(1.0.0)"}
    for_custodian = list(csv.DictReader(io.StringIO(sdmx_csv(noisy(), distinguish=True))))
    assert {r["TOWN"]: r["CONF_STATUS"] for r in for_custodian if r["SECTOR"] == "a"}["Norway"] == "D"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure_id": "SBS"}, "AGENCY:ID"),
        ({"structure": "table"}, "structure must be"),
        ({"action": "X"}, "action must be"),
    ],
)
def test_sdmx_csv_refuses_what_the_standard_does_not_know(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sdmx_csv(published(), **options)


def test_labels_that_would_have_the_same_code_are_refused() -> None:
    frame = pd.DataFrame({"a": ["b c", "b_c"], "v": [1, 2]})
    with pytest.raises(DataError, match="has no code of its own"):
        sdmx_csv(PublishedTable.unprotected(Table.of(Microdata(frame), "a", "v")))
    clash = pd.DataFrame({"obs value": ["x", "y"], "v": [1, 2]})
    with pytest.raises(DataError, match="which is a column of SDMX-CSV"):
        sdmx_csv(PublishedTable.unprotected(Table.of(Microdata(clash), "`obs value`", "v")))


def test_the_ending_of_the_name_says_the_form_and_nothing_half_written_stays(tmp_path: Path) -> None:
    table = published()
    assert (tmp_path / "a.sdmx.csv") == table.write(tmp_path / "a.sdmx.csv")
    assert (tmp_path / "a.sdmx.csv").read_text().startswith("STRUCTURE,")
    table.write(tmp_path / "b.txt", "csv")
    assert (tmp_path / "b.txt").read_text().startswith("town,")
    with pytest.raises(ParameterError, match=r"must end in \.csv, \.xlsx, \.json, \.sdmx\.csv"):
        table.write(tmp_path / "c.doc")
    with pytest.raises(ParameterError, match="written as csv, xlsx"):
        table.write(tmp_path / "c.doc", "word")
    with pytest.raises(ParameterError, match="csv has no option 'title'"):
        write_table(table, tmp_path / "c.csv", title="x")
    with pytest.raises(ParameterError, match="AGENCY:ID"):
        table.write(tmp_path / "d.sdmx.csv", structure_id="?")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.sdmx.csv", "b.txt"]


def test_no_file_holds_a_value_that_is_not_published(tmp_path: Path) -> None:
    table = published()
    secret = table.source("the test").value[table.cells.find(town="Oslo", sector="a")]
    assert secret == 10.25
    for name in ("t.csv", "t.json", "t.sdmx.csv"):
        table.write(tmp_path / name)
        assert "10.25" not in (tmp_path / name).read_text()
    pytest.importorskip("openpyxl")
    table.write(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as book:
        parts = {name: book.read(name).decode("utf-8", "replace") for name in book.namelist()}
    assert not [name for name, text in parts.items() if "10.25" in text]
    assert sum("worksheets/" in name for name in parts) == 1  # nothing on a hidden sheet
    assert "20.5" in "".join(parts.values())  # and what is published is there


def test_files_do_not_hold_what_adding_up_leaves_in_the_last_digits(tmp_path: Path) -> None:
    frame = pd.DataFrame({"region": ["a", "a", "b"], "v": [0.1, 0.2, 0.7]})
    published = PublishedTable.unprotected(Table.of(Microdata(frame), "region", "v"))
    assert csv_text(published).splitlines()[1:] == ["Total,1,", "a,0.3,", "b,0.7,"]
    assert json_stat(published)["value"] == [1, 0.3, 0.7]
    assert ",0.3,A,F" in sdmx_csv(published)
    openpyxl = pytest.importorskip("openpyxl")
    published.write(tmp_path / "table.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx").active
    assert [row[1].value for row in sheet.iter_rows(min_row=2)] == [1, 0.3, 0.7]


def test_the_variance_of_a_cell_that_is_not_published_is_not_published() -> None:
    frame = pd.DataFrame({"region": ["a", "b"], "v": [1.0, 2.0]})
    published = PublishedTable.unprotected(Table.of(Microdata(frame), "region", "v"))
    hidden = published.with_(values=np.array([3.0, np.nan, 2.0]), variance=np.array([2.0, 1.0, 1.0]))
    assert np.isnan(hidden.frame()["variance"].to_numpy()).tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["t.json", "t.sdmx.csv", "t.csv", "t.xlsx"])
@pytest.mark.parametrize("formula", ["town", "town * sector"])
def test_what_is_written_is_read_back_with_the_same_intervals(name: str, formula: str, tmp_path: Path) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    random = np.random.default_rng(3)
    frame = pd.DataFrame({
        "town": random.choice(list("pqr"), 60), "sector": random.choice(["01", "02"], 60),
        "turnover": np.ceil(random.lognormal(3, 1.5, 60)),
    })  # fmt: skip
    made = Table.of(Microdata(frame), formula, "turnover")
    table = Suppression(rules=NK(n=1, k=25)).protect(made, Draws(1))
    assert table.suppressed.any()
    out = table.write(tmp_path / name)
    if name in ("t.csv", "t.xlsx"):
        plain = pd.read_csv(out, dtype=str) if name == "t.csv" else pd.read_excel(out, dtype=str)
        read = PublishedTable.from_frame(plain, list(made.cells.dimensions), "value", status="status")
    else:
        back = read_json_stat(out) if name.endswith("json") else read_sdmx_csv(out)
        read = PublishedTable.from_frame(back.cells, back.nested, "value", status="status", variance=back.variance)
    assert len(read) == len(table)
    assert np.array_equal(np.sort(table.values), np.sort(read.values), equal_nan=True)
    expected, found = audit(table, insiders="none"), audit(read)
    assert np.allclose(np.sort(found.high - found.low), np.sort(expected.high - expected.low))


def test_variances_changes_and_nesting_come_back(tmp_path: Path) -> None:
    table = noisy()
    for read in (read_json_stat(table.write(tmp_path / "a.json")), read_sdmx_csv(table.write(tmp_path / "a.sdmx.csv"))):
        frame = read.cells.rename(columns=str.lower)
        assert read.variance == "variance"
        assert (frame["status"] == "changed").sum() == (table.status == Status.CHANGED).sum()
        assert (frame["status"] == "suppressed").sum() == table.suppressed.sum()
        assert pd.to_numeric(frame["variance"]).sum() == pytest.approx(np.nansum(table.frame()["variance"]))
    nested = read_json_stat(tmp_path / "a.json").nested["town"]
    assert nested is not None
    assert nested["Rome"] == "Italy"


def test_a_dataset_of_eurostat_is_read(tmp_path: Path) -> None:
    """Values by position, statuses with letters, dimensions of one label, as its web service gives them."""
    (tmp_path / "e.json").write_text(json.dumps({
        "version": "2.0", "class": "dataset", "id": ["freq", "geo", "time"], "size": [1, 4, 1],
        "dimension": {
            "freq": {"category": {"index": {"A": 0}}},
            "geo": {"category": {"index": {"TOTAL": 0, "IT": 1, "NO": 2, "SE": 3}}},
            "time": {"category": {"index": {"2026": 0}}},
        },
        "value": {"0": 100, "3": 20}, "status": {"1": "c", "2": "c", "3": "e"},
    }))  # fmt: skip
    read = read_json_stat(tmp_path / "e.json")
    assert read.cells["geo"].tolist() == ["TOTAL", "IT", "NO", "SE"]
    assert read.cells["status"].tolist() == ["", "suppressed", "suppressed", ""]  # somebody's estimate is a figure
    table = PublishedTable.from_frame(read.cells, read.nested, "value", status="status")
    found = audit(table)
    assert found.high[1] == pytest.approx(80)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"dimension": {}}',
        '{"id": ["a"], "size": [2], "dimension": {"a": {"category": {"index": ["x"]}}}}',
    ],
)
def test_what_is_not_json_stat_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(DataError, match="is not a dataset of JSON-stat"):
        read_json_stat(tmp_path / "t.json")
    (tmp_path / "t.sdmx.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is not SDMX-CSV"):
        read_sdmx_csv(tmp_path / "t.sdmx.csv")


def test_codes_of_sdmx_are_labels_without_their_accents() -> None:
    frame = pd.DataFrame({"région": ["Île-de-France", "Bretagne"] * 3, "v": [1.0, 2.0] * 3})
    rows = list(
        csv.DictReader(io.StringIO(sdmx_csv(PublishedTable.unprotected(Table.of(Microdata(frame), "région", "v")))))
    )
    assert {r["REGION"] for r in rows} == {"_T", "Ile-de-France", "Bretagne"}
