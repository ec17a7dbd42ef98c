"""Data files that others wrote: statistical packages, Excel as people leave it, the shared reference files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest
from arx_files import HIERARCHIES
from file_values import DATA, written

from sfumato.errors import DataError, ParameterError
from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import read_file, write_file

# What we read in the files of others


def test_reads_pandas_and_polars_files(tmp_path: Path) -> None:
    expected = {"k": [1, 2], "x": [1.5, None], "s": ["a", None]}
    frame = pd.DataFrame(expected, index=[7, 9])
    frame.to_parquet(tmp_path / "p.parquet")
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_excel(tmp_path / "p.xlsx", index=False)
    for name in ("p.parquet", "p.csv", "p.xlsx"):
        assert read_file(tmp_path / name).table.to_pydict() == expected
    polars = pytest.importorskip("polars")
    polars.DataFrame({"s": ["a", "b"]}).write_ipc(tmp_path / "p.arrow", compat_level=polars.CompatLevel.newest())
    contents = read_file(tmp_path / "p.arrow")
    write_file(contents, tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text() == '"s"\n"a"\n"b"\n'


def test_reads_arrow_streams_and_old_feather(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2]})
    with pa.OSFile(str(tmp_path / "s.arrows"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert read_file(tmp_path / "s.arrows").table.equals(table)


def test_reads_a_pandas_stata_file_with_labels_and_all_kinds_of_dates(tmp_path: Path) -> None:
    stamp = pd.Timestamp("2020-04-01")
    frame = pd.DataFrame({"sex": np.array([1, 2], np.int8), "x": [1.0, 2.5]})
    kinds = {"day": "td", "stamp": "tc", "week": "tw", "month": "tm", "quarter": "tq", "half": "th"}
    for name in kinds:
        frame[name] = stamp
    frame.to_stata(
        tmp_path / "x.dta",
        write_index=False,
        convert_dates=kinds,
        variable_labels={"sex": "sex of person"},
        value_labels={"sex": {1: "male", 2: "female"}},
    )
    back = read_file(tmp_path / "x.dta")
    assert back.labels == {"sex": "sex of person"}
    assert back.value_labels == {"sex": {"1": "male", "2": "female"}}
    row = back.table.to_pylist()[0]
    assert (row["sex"], row["x"]) == (1, 1.0)
    assert row["day"] == row["month"] == row["quarter"] == dt.date(2020, 4, 1)
    assert row["half"] == dt.date(2020, 1, 1)
    assert row["week"] == dt.date(2020, 1, 1) + dt.timedelta(weeks=13)
    assert row["stamp"] == dt.datetime(2020, 4, 1)


def test_stata_tagged_missings_become_null_with_a_warning_and_keep_their_words(tmp_path: Path) -> None:
    frame = pd.DataFrame({"inc": [1.0, "a", np.nan, "z"], "k": [1, 2, 3, 4]})
    words = {"inc": {1: "one", "a": "refused"}}
    pyreadstat.write_dta(
        frame, tmp_path / "x.dta", missing_user_values={"inc": ["a", "z"]}, variable_value_labels=words
    )
    with pytest.warns(UserWarning, match=r"read as null.*inc \(\.a, \.z\)"):
        back = read_file(tmp_path / "x.dta")
    assert back.table["inc"].to_pylist() == [1.0, None, None, None]
    assert back.value_labels == {"inc": {"1": "one", ".a": "refused"}}
    assert back.missing == {}
    write_file(back, tmp_path / "y.dta")
    assert pyreadstat.read_dta(tmp_path / "y.dta", user_missing=True)[1].variable_value_labels == words
    write_file(back, tmp_path / "y.sav")
    assert pyreadstat.read_sav(tmp_path / "y.sav")[1].variable_value_labels == {"inc": {1: "one"}}


def test_sas_special_missings_in_transport_files_are_told(tmp_path: Path) -> None:
    pyreadstat.write_xport(
        pd.DataFrame({"s": ["ab", "A"], "x": [1.0, np.nan], "y": [0.0, 2.0]}), tmp_path / "x.xpt", file_format_version=5
    )
    raw = (tmp_path / "x.xpt").read_bytes()
    assert raw.count(b"." + b"\0" * 7) == 1
    assert read_file(tmp_path / "x.xpt").table["x"].to_pylist() == [1, None]  # an ordinary missing is no news
    written(tmp_path, raw.replace(b"." + b"\0" * 7, b"B" + b"\0" * 7), "x.xpt")
    with pytest.warns(UserWarning, match=r"these columns: x \(\.B\)"):
        back = read_file(tmp_path / "x.xpt")
    assert back.table.to_pydict() == {"s": ["ab", "A"], "x": [1, None], "y": [0, 2]}


def test_spss_missing_codes_stay_values_and_ranges_are_listed(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 98, 99, 2.5], "b": [-8.0, -9, 0, 1], "s": ["x", "NR", "y", ""]})
    pyreadstat.write_sav(
        frame,
        tmp_path / "x.sav",
        missing_ranges={"a": [{"lo": 97, "hi": 1000}], "b": [-8, {"lo": float("-inf"), "hi": -9}], "s": ["NR"]},
        variable_value_labels={"a": {97: "no answer"}},
    )
    back = read_file(tmp_path / "x.sav")
    assert back.table["a"].to_pylist() == [1, 98, 99, 2.5]
    assert back.missing == {"a": (97, 98, 99), "b": (-9, -8), "s": ("NR",)}
    assert back.table["s"].to_pylist() == ["x", "NR", "y", None]


def test_many_spss_missing_codes_become_a_range_if_nothing_else_is_in_it(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 96.0, 97.0, 98.0, 99.0], "b": [-1.0, 96.0, 97.0, 98.0, 5.0]})
    codes: dict[str, tuple[float | str, ...]] = {"a": (96, 97, 98, 99), "b": (-1, 96, 97, 98)}
    write_file(FileContents(table, missing=codes), tmp_path / "x.sav")
    ranges = pyreadstat.read_sav(tmp_path / "x.sav", user_missing=True)[1].missing_ranges
    assert ranges["a"] == [{"lo": 96, "hi": 99}]
    assert sorted(r["lo"] for r in ranges["b"]) == [-1, 96]
    assert read_file(tmp_path / "x.sav").missing == codes


def test_spss_missing_codes_of_dates_become_null_with_a_warning(tmp_path: Path) -> None:
    day = (dt.date(2020, 1, 1) - dt.date(1582, 10, 14)).days * 86400.0
    pyreadstat.write_sav(
        pd.DataFrame({"d": [day, 99.0]}),
        tmp_path / "x.sav",
        variable_format={"d": "DATE11"},
        missing_ranges={"d": [99]},
    )
    with pytest.warns(UserWarning, match=r"d \(99\)"):
        back = read_file(tmp_path / "x.sav")
    assert back.table["d"].to_pylist() == [dt.date(2020, 1, 1), None]
    assert back.missing == {}


def test_lengths_of_time_stay_numbers(tmp_path: Path) -> None:
    pyreadstat.write_sav(pd.DataFrame({"t": [90_000.0, 10.0]}), tmp_path / "x.sav", variable_format={"t": "TIME8"})
    assert read_file(tmp_path / "x.sav").table["t"].to_pylist() == [90_000.0, 10.0]


def test_reads_an_spss_portable_file_and_says_what_it_does_not_tell(tmp_path: Path) -> None:
    pyreadstat.write_por(pd.DataFrame({"X": [1.0, 2.5]}), tmp_path / "x.por", column_labels={"X": "label"})
    with pytest.warns(UserWarning, match="declared as missing come as null"):
        back = read_file(tmp_path / "x.por")
    assert back.table.to_pydict() == {"X": [1.0, 2.5]}
    assert back.labels == {"X": "label"}


def test_reads_what_pyreadstat_tells_of_a_sas7bdat_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # nothing that is free writes .sas7bdat, so the reader's answer is given here, in the shape pyreadstat documents
    names = ["n", "x", "day", "stamp", "s"]
    data = {"n": [1.0, "A", None], "x": [0.5, 1.0, None], "day": [0.0, 21915.0, None], "stamp": [0.5, None, None]}
    meta = SimpleNamespace(
        column_names=names,
        variable_value_labels={},
        missing_ranges={},
        readstat_variable_types=dict.fromkeys(names, "double") | {"s": "string"},
        original_variable_types={"n": None, "x": "BEST12", "day": "E8601DA10", "stamp": "DATETIME22.3", "s": "$8"},
        column_names_to_labels={"n": "number", "x": None},
    )
    seen: dict[str, Any] = {}

    def fake(path: str, **options: Any) -> Any:
        seen.update(options)
        return data | {"s": ["a", "", "b"]}, meta

    monkeypatch.setattr(pyreadstat, "read_sas7bdat", fake)
    with pytest.warns(UserWarning, match=r"n \(\.A\)"):
        back = read_file(written(tmp_path, "bytes", "x.sas7bdat"))
    assert seen["user_missing"] is True
    assert back.labels == {"n": "number"}
    assert back.table.to_pydict() == {
        "n": [1, None, None],
        "x": [0.5, 1.0, None],
        "day": [dt.date(1960, 1, 1), dt.date(2020, 1, 1), None],
        "stamp": [dt.datetime(1960, 1, 1, 0, 0, 0, 500000), None, None],
        "s": ["a", None, "b"],
    }


# Excel as people leave it


def workbook(path: Path, *rows: list[Any], title: str = "data") -> Path:
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_excel_cells_keep_their_types(tmp_path: Path) -> None:
    when = dt.datetime(2024, 5, 17, 8, 30)
    path = workbook(
        tmp_path / "x.xlsx",
        ["n", "z", "d", "ts", "b", 7],
        [1, "007", dt.date(2024, 2, 29), when, True, 1.5],
        [None] * 6,
        ["NA", "10", None, dt.datetime(2024, 1, 1), False, 2],
        [None] * 6,
    )
    assert read_file(path).table.to_pydict() == {
        "n": [1, None, None],
        "z": ["007", None, "10"],
        "d": [dt.date(2024, 2, 29), None, None],
        "ts": [when, None, dt.datetime(2024, 1, 1)],
        "b": [True, None, False],
        "7": [1.5, None, 2.0],
    }


def test_excel_sheets_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.create_sheet("second").append(["b"])
    book.save(tmp_path / "x.xlsx")
    assert read_file(tmp_path / "x.xlsx", sheet="second").table.column_names == ["b"]
    assert read_file(tmp_path / "x.xlsx", sheet=1).table.column_names == ["a"]
    with pytest.raises(ParameterError, match="2 sheets; say which with sheet=: Sheet, second"):
        read_file(tmp_path / "x.xlsx")
    with pytest.raises(ParameterError, match=r"sheet 'secnd' is not in .*Did you mean 'second'"):
        read_file(tmp_path / "x.xlsx", sheet="secnd")
    with pytest.raises(ParameterError, match="no sheet 3"):
        read_file(tmp_path / "x.xlsx", sheet=3)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([["a"], [1], ["SECRET"]], r"column 'a' mixes numbers and text \(row 3 .*text=\['a'\]"),
        ([["a"], ["=1+1"]], "row 2 .* formula in column 1 that was never computed"),
        ([["a", None, "c"], [1, 2, 3]], "column 2 of .* has no name"),
        ([["a", "a"], [1, 2]], "names stand more than once: a"),
        ([["a"], ["#DIV/0!"]], "cell A2 of .* holds an Excel error"),
        ([], "not even a header row"),
    ],
)
def test_excel_sheets_that_cannot_be_read_are_refused(tmp_path: Path, rows: list[list[Any]], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read_file(workbook(tmp_path / "x.xlsx", *rows))
    assert "SECRET" not in str(caught.value)


def test_mixed_excel_columns_can_be_read_as_text(tmp_path: Path) -> None:
    path = workbook(tmp_path / "x.xlsx", ["zip"], [1234], ["01234"], [1.5])
    assert read_file(path, text=["zip"]).table["zip"].to_pylist() == ["1234", "01234", "1.5"]


# The shared reference files, with the shapes that their README gives


SHAPES = {
    "testdata.csv": (4580, 15),
    "testdata2.csv": (93, 19),
    "CASCrefmicrodata.csv": (1080, 13),
    "Tarragona.csv": (834, 13),
    "EIA.csv": (4092, 15),
    "francdat.csv": (8, 8),
    "free1.csv": (4000, 34),
    "microData.csv": (13, 5),
    "casc1.csv": (13, 7),
    "arx/adult.csv": (30162, 9),
    "arx/adult_ldl.csv": (30162, 10),
    "arx/adult_subset.csv": (3016, 9),
    "arx/test.csv": (7, 3),
    "arx/test2.csv": (9, 4),
}


def shared(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"the shared reference file {DATA / name} is not here")
    return DATA / name


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_the_reference_files_load_as_documented(name: str, shape: tuple[int, int]) -> None:
    path = shared(name)
    table = read_file(path).table
    assert table.shape == shape
    frame = pd.read_csv(path, sep=";" if "arx" in name else ",", keep_default_na=False)
    assert table.column_names == list(frame.columns)
    for column in table.column_names:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].replace("", None)
        assert table[column].null_count == 0
        assert table[column].to_pylist() == frame[column].tolist(), column


@pytest.mark.parametrize(("name", "shape"), HIERARCHIES.items())
def test_the_hierarchy_files_load_with_names_given(name: str, shape: tuple[int, int]) -> None:
    names = [f"level{i}" for i in range(shape[1])]
    table = read_file(shared(f"arx/{name}.csv"), separator=";", names=names).table
    assert table.shape == (shape[0] - 1, shape[1])  # they have no header, so the first record stands in its place
