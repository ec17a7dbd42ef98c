"""Data files in and out: every expectation comes from pandas, pyreadstat, openpyxl or the bytes of the file itself."""

from __future__ import annotations

import datetime as dt
import gzip
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pyreadstat
import pytest
from arx_files import HIERARCHIES

from sfumato.engines.formats import FileContents, read_file, write_file
from sfumato.errors import DataError, MissingExtra, ParameterError, SfumatoError

DATA = Path(__file__).parents[2] / "shared" / "data"
NAN = math.nan

VALUES: dict[str, list[Any]] = {
    "i": [1, None, 3, -5],
    "f": [0.1 + 0.2, NAN, None, 1.5e-7],
    "whole": [1.0, 2.0, None, 3.0],
    "t": ["ünï 日本", "", None, 'a "quote",\nand a line'],
    "zip": ["01234", "00001", None, "99999"],
    "c": ["low", "high", None, "low"],
    "b": [True, None, False, True],
    "d": [dt.date(1950, 2, 28), dt.date(2024, 2, 29), None, dt.date(1970, 1, 1)],
    "ts": [dt.datetime(2024, 5, 17, 8, 30, 5, 123000), None, dt.datetime(1955, 1, 1), dt.datetime(1969, 12, 31, 23)],
}
LABELS = {"i": "a whole number", "t": "some téxt"}
VALUE_LABELS = {"i": {"1": "one", "3": "three", "-5": "réfused"}}
MISSING: dict[str, tuple[float | str, ...]] = {"i": (-5,)}


def sample() -> FileContents:
    columns = {name: pa.array(values) for name, values in VALUES.items()}
    columns["c"] = columns["c"].dictionary_encode()
    return FileContents(pa.table(columns), LABELS, VALUE_LABELS, MISSING)


def same(found: list[Any], expected: list[Any]) -> bool:
    """Whether values are equal, NaN to NaN and null to null, and of the same kind (1 is not True, 1.0 is not 1)."""
    return len(found) == len(expected) and all(
        type(a) is type(b) and (a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)))
        for a, b in zip(found, expected, strict=True)
    )


def assert_values(table: pa.Table, expected: dict[str, list[Any]]) -> None:
    assert table.column_names == list(expected)
    for name, values in expected.items():
        assert same(table[name].to_pylist(), values), name


def without(values: list[Any], gone: Any) -> list[Any]:
    return [None if v == gone or (isinstance(gone, float) and v != v) else v for v in values]


def written(tmp_path: Path, text: str | bytes, name: str = "file.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read_text(tmp_path: Path, content: str | bytes, **options: Any) -> dict[str, list[Any]]:
    table = read_file(written(tmp_path, content), **options).table
    return {name: table[name].to_pylist() for name in table.column_names}


# Round trips


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.feather"])
def test_parquet_and_arrow_keep_everything(tmp_path: Path, name: str) -> None:
    write_file(sample(), tmp_path / name)
    back = read_file(tmp_path / name)
    assert back.table.schema == sample().table.schema
    assert_values(back.table, VALUES)
    assert (back.labels, back.value_labels, back.missing) == (LABELS, VALUE_LABELS, MISSING)
    assert not back.table.schema.field("i").metadata


def test_labels_stand_in_the_field_metadata(tmp_path: Path) -> None:
    write_file(sample(), tmp_path / "x.parquet")
    metadata = pq.read_schema(tmp_path / "x.parquet").field("i").metadata
    assert metadata[b"sfumato.label"] == b"a whole number"
    assert metadata[b"sfumato.labels"].decode() == '{"1": "one", "3": "three", "-5": "réfused"}'
    assert metadata[b"sfumato.missing"] == b"[-5]"


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.txt"])
def test_csv_keeps_every_value_and_type(tmp_path: Path, name: str) -> None:
    write_file(sample(), tmp_path / name)
    back = read_file(tmp_path / name)
    assert_values(back.table, VALUES)
    assert back.table.schema.field("ts").type == pa.timestamp("us")
    assert back.labels == back.value_labels == back.missing == {}


@pytest.mark.parametrize("name", ["x.dta", "x.sav", "x.zsav", "x.xpt"])
def test_statistical_forms_keep_what_their_programs_know(tmp_path: Path, name: str) -> None:
    expected = VALUES | {
        "f": without(VALUES["f"], NAN),
        "t": without(VALUES["t"], ""),
        "b": [1, None, 0, 1],
    }
    write_file(sample(), tmp_path / name)
    back = read_file(tmp_path / name)
    assert_values(back.table, expected)
    assert back.labels == LABELS
    yes_no = {"b": {"0": "false", "1": "true"}}
    assert back.value_labels == ({} if name == "x.xpt" else VALUE_LABELS | yes_no)
    assert back.missing == (MISSING if "sav" in name else {})


def test_excel_keeps_all_but_nan_and_empty_text(tmp_path: Path) -> None:
    expected = VALUES | {"f": without(VALUES["f"], NAN), "t": without(VALUES["t"], ""), "whole": [1, 2, None, 3]}
    write_file(sample(), tmp_path / "x.xlsx")
    assert_values(read_file(tmp_path / "x.xlsx").table, expected)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.arrow", "x.dta", "x.sav", "x.xpt", "x.xlsx"])
def test_no_records_and_no_values_are_fine(tmp_path: Path, name: str) -> None:
    empty = pa.table({"a": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
    write_file(FileContents(empty), tmp_path / name)
    assert read_file(tmp_path / name).table.shape == (0, 2)
    nulls = pa.table({"a": pa.array([None, None], pa.float64()), "s": pa.array([None, None], pa.string()), "k": [1, 2]})
    write_file(FileContents(nulls), tmp_path / name)
    back = read_file(tmp_path / name).table
    assert back.to_pydict() == {"a": [None, None], "s": [None, None], "k": [1, 2]}


@pytest.mark.parametrize("seed", range(3))
def test_any_float_comes_back_exactly_from_csv_and_excel(tmp_path: Path, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2**64, 5000, np.uint64, endpoint=False)
    numbers = bits.view(np.float64)
    edges = [5e-324, -0.0, 1e15, 1e16, 1e17, 2.0**60, 1.7976931348623157e308]
    numbers = np.concatenate([numbers[np.isfinite(numbers)], edges])
    write_file(FileContents(pa.table({"x": numbers})), tmp_path / "x.csv")
    write_file(FileContents(pa.table({"x": numbers})), tmp_path / "x.xlsx")
    for name in ("x.csv", "x.xlsx"):
        back = read_file(tmp_path / name).table["x"].to_numpy()
        assert np.array_equal(back.view(np.uint64), numbers.view(np.uint64)), name
    assert [float(line) for line in (tmp_path / "x.csv").read_text().split()[1:]] == numbers.tolist()


@pytest.mark.parametrize("name", ["x.dta", "x.sav", "x.xpt"])
def test_old_and_far_dates_come_back_exactly(tmp_path: Path, name: str) -> None:
    days = [dt.date(1600, 3, 1), dt.date(1850, 7, 4), dt.date(9999, 12, 31), None]
    stamps = [dt.datetime(1850, 7, 4, 12, 30, 0, 1000), dt.datetime(2199, 1, 1, 23, 59, 59, 999000), None, None]
    clock = [dt.time(0, 0), dt.time(23, 59, 59, 500000), None, dt.time(1, 2, 3)]
    write_file(FileContents(pa.table({"d": days, "ts": stamps, "tm": clock})), tmp_path / name)
    assert read_file(tmp_path / name).table.to_pydict() == {"d": days, "ts": stamps, "tm": clock}


# What others read in our files


def test_pandas_reads_our_csv(tmp_path: Path) -> None:
    write_file(sample(), tmp_path / "x.csv")
    frame = pd.read_csv(tmp_path / "x.csv", dtype={"zip": str, "t": str})
    assert frame["f"].iloc[0] == 0.1 + 0.2
    assert frame["zip"].tolist()[:2] == ["01234", "00001"]
    assert frame["t"].iloc[3] == VALUES["t"][3]
    assert frame["d"].iloc[1] == "2024-02-29"


def test_csv_cells_are_written_as_documented(tmp_path: Path) -> None:
    write_file(sample(), tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text(encoding="utf-8").split("\n")
    assert lines[0] == '"i","f","whole","t","zip","c","b","d","ts"'
    assert lines[1] == '1,0.30000000000000004,1.0,"ünï 日本","01234","low",true,1950-02-28,2024-05-17 08:30:05.123000'
    assert lines[2] == ',NaN,2.0,"","00001","high",,2024-02-29,'


def test_pandas_reads_our_stata_file(tmp_path: Path) -> None:
    write_file(sample(), tmp_path / "x.dta")
    with pd.read_stata(tmp_path / "x.dta", iterator=True, convert_categoricals=False) as reader:
        frame = reader.read()
        assert reader.variable_labels()["t"] == "some téxt"
        assert {1: "one", 3: "three", -5: "réfused"} in reader.value_labels().values()
    assert frame["i"].tolist()[::2] == [1, 3]
    assert frame["zip"].tolist() == ["01234", "00001", "", "99999"]
    assert frame["d"].iloc[1] == pd.Timestamp("2024-02-29")
    assert frame["ts"].iloc[0] == pd.Timestamp("2024-05-17 08:30:05.123")


@pytest.mark.parametrize("name", ["x.sav", "x.zsav"])
def test_pyreadstat_reads_our_spss_file(tmp_path: Path, name: str) -> None:
    write_file(sample(), tmp_path / name)
    frame, meta = pyreadstat.read_sav(tmp_path / name, user_missing=True)
    assert meta.column_names_to_labels["t"] == "some téxt"
    assert meta.variable_value_labels["i"] == {1: "one", 3: "three", -5: "réfused"}
    assert meta.missing_ranges == {"i": [{"lo": -5, "hi": -5}]}
    assert frame["f"].iloc[0] == 0.1 + 0.2
    assert frame["d"].iloc[1] == dt.date(2024, 2, 29)
    hidden, _ = pyreadstat.read_sav(tmp_path / name)
    assert math.isnan(hidden["i"].iloc[3])


def test_pandas_reads_our_sas_transport_file(tmp_path: Path) -> None:
    write_file(sample(), tmp_path / "x.xpt")
    frame = pd.read_sas(tmp_path / "x.xpt", encoding="utf-8")
    assert frame["f"].iloc[0] == 0.1 + 0.2
    assert frame["zip"].tolist()[:2] == ["01234", "00001"]
    assert frame["d"].iloc[1] == (dt.date(2024, 2, 29) - dt.date(1960, 1, 1)).days


def test_long_sas_names_go_to_version_8(tmp_path: Path) -> None:
    write_file(FileContents(pa.table({"household_number": [1, 2]})), tmp_path / "x.xpt")
    assert b"LIBV8" in (tmp_path / "x.xpt").read_bytes()[:80]
    assert pyreadstat.read_xport(tmp_path / "x.xpt")[0]["household_number"].tolist() == [1, 2]


def test_pandas_reads_our_excel_file_and_finds_no_formula(tmp_path: Path) -> None:
    risky = ["=1+1", "+1", "-1", "@SUM(A1)", "a\r\nb", "_x000D_", "#N/A", "'x"]
    table = pa.table({"t": risky, "f": [0.1 + 0.2] * 8})
    write_file(FileContents(table), tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx").worksheets[0]
    cells = [row[0] for row in sheet.iter_rows(min_row=2)]
    assert [c.data_type for c in cells] == ["s"] * 8
    assert [c.value for c in cells][:4] == risky[:4]
    frame = pd.read_excel(tmp_path / "x.xlsx", keep_default_na=False)
    assert frame["f"].tolist() == [0.1 + 0.2] * 8
    assert read_file(tmp_path / "x.xlsx").table.equals(table)


def test_text_that_looks_like_a_formula_is_not_altered_in_csv(tmp_path: Path) -> None:
    write_file(FileContents(pa.table({"t": ["=1+1", "@x"]})), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == '"t"\n"=1+1"\n"@x"\n'


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


# CSV: types are found over the whole column, and nothing is changed silently


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", ""], [1, 2, None]),
        (["10", "20"] * 3000 + ["007"], ["10", "20"] * 3000 + ["007"]),
        (["-01", "2"], ["-01", "2"]),
        (["01.11", "10.20"], ["01.11", "10.20"]),
        (["+4512", "4513"], ["+4512", "4513"]),
        (["0x10", "5"], ["0x10", "5"]),
        (["0", "0.5", "-0.5", "1e-3"], [0.0, 0.5, -0.5, 0.001]),
        (["9223372036854775807", "1"], [9223372036854775807, 1]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["12345678901234567", "1.5"], ["12345678901234567", "1.5"]),
        (["1.5", "NaN", "", "inf", "-inf"], [1.5, NAN, None, math.inf, -math.inf]),
        (["1", "NaN"], [1.0, NAN]),
        (["Nan", "Ann"], ["Nan", "Ann"]),
        (["Nan", "Nan"], ["Nan", "Nan"]),
        (["infinity", "1"], ["infinity", "1"]),
        (["1", "NA", "3"], [1, None, 3]),
        (["NA", "2.5"], [None, 2.5]),
        (["NA", "2024-02-29"], [None, dt.date(2024, 2, 29)]),
        (["TRUE", "NA", "FALSE"], [True, None, False]),
        (["NA", "DK", ""], ["NA", "DK", None]),
        (["NA", "NA"], ["NA", "NA"]),
        (["1", '"NA"', '""'], [1, None, None]),
        ([" 1", "2 ", "  "], [1, 2, None]),
        ([" a", '""', ""], [" a", "", None]),
        (["true", "False"], [True, False]),
        (["T", "F"], ["T", "F"]),
        (["2024-02-29", "2023-02-30"], ["2024-02-29", "2023-02-30"]),
        (["29.02.2024"], ["29.02.2024"]),
        (["2024-02-29T10:00", "2024-03-01"], [dt.datetime(2024, 2, 29, 10), dt.datetime(2024, 3, 1)]),
        (["1,234", "5"], ["1,234", "5"]),
        (["", ""], [None, None]),
        ([".", "1"], [".", "1"]),
    ],
)
def test_a_csv_column_gets_a_type_only_if_nothing_is_lost(
    tmp_path: Path, cells: list[str], expected: list[Any]
) -> None:
    text = "id;x\n" + "".join(f"r{i};{cell}\n" for i, cell in enumerate(cells))
    assert same(read_text(tmp_path, text)["x"], expected)


def test_times_with_a_zone_come_in_utc(tmp_path: Path) -> None:
    back = read_text(tmp_path, "t\n2024-07-01T12:00:00+02:00\n")["t"][0]
    assert back.replace(tzinfo=None) == dt.datetime(2024, 7, 1, 10)
    rome = pa.array([dt.datetime(2024, 7, 1, 10)], pa.timestamp("us", "Europe/Rome"))
    write_file(FileContents(pa.table({"t": rome})), tmp_path / "z.csv")
    assert (tmp_path / "z.csv").read_text() == '"t"\n2024-07-01 10:00:00Z\n'


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separator_and_byte_order_marks_are_seen(tmp_path: Path, separator: str, encoding: str) -> None:
    text = f'né{separator}"a,b;c|d"\r\n1{separator}"x{separator}y"\r\n\r\n'.encode(encoding)
    assert read_text(tmp_path, text) == {"né": [1], "a,b;c|d": [f"x{separator}y"]}


def test_options_are_obeyed(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a;b\n1,5;2\n2;x\n", decimal=",") == {"a": [1.5, 2.0], "b": ["2", "x"]}
    assert read_text(tmp_path, "a;b\n1,5;2\n") == {"a": ["1,5"], "b": [2]}
    assert read_text(tmp_path, "a;b\n1.5;2\n", decimal=",") == {"a": ["1.5"], "b": [2]}
    assert read_text(tmp_path, "é\nß\n".encode("latin-1"), encoding="latin-1") == {"é": ["ß"]}
    assert read_text(tmp_path, 'a,b\n.,NA\n1,"NA"\n', null_values=("", ".", "NA")) == {
        "a": [None, 1],
        "b": [None, "NA"],
    }
    assert read_text(tmp_path, "a\nNA\n1\n", null_values="") == {"a": ["NA", "1"]}
    assert read_text(tmp_path, "a,b\n1.10,2\n", text="a") == {"a": ["1.10"], "b": [2]}
    assert read_text(tmp_path, ",b\n1,2\n", names=["row", "b"]) == {"row": [1], "b": [2]}
    assert read_text(tmp_path, "a#b\n1#2\n", separator="#") == {"a": [1], "b": [2]}
    assert read_file(written(tmp_path, "a\n1\n", "data.dat"), form="csv").table.to_pydict() == {"a": [1]}


def test_a_null_in_the_only_column_comes_back(tmp_path: Path) -> None:
    for values in ([1, None, 3, None], ["a", None, "", None]):
        write_file(FileContents(pa.table({"x": pa.array(values)})), tmp_path / "x.csv")
        assert read_file(tmp_path / "x.csv").table["x"].to_pylist() == values


def test_a_header_alone_is_a_table_without_records(tmp_path: Path) -> None:
    for text in ("a,b\n", "a,b", "a,b\r\n"):
        assert read_text(tmp_path, text) == {"a": [], "b": []}


def test_cells_larger_than_a_block_are_read(tmp_path: Path) -> None:
    long = "x" * 9_000_000
    assert read_text(tmp_path, f'a,b\n1,"{long}"\n') == {"a": [1], "b": [long]}


def test_a_file_of_30_000_records_comes_back_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"f{i}": rng.normal(size=30_000) for i in range(4)}
    columns |= {f"i{i}": rng.integers(0, 1000, 30_000) for i in range(3)}
    columns |= {f"s{i}": rng.choice(["abc", "d,e", "f"], 30_000) for i in range(3)}
    table = pa.table(columns)
    write_file(FileContents(table), tmp_path / "x.csv")
    assert read_file(tmp_path / "x.csv").table.equals(table)


# Refusals when reading: a sentence that names the file and the line, and quotes no cell


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("x.csv", b"", {}, "is empty: it has 0 bytes"),
        ("x.csv", b"  \n", {}, "holds no text, not even a header row"),
        ("x.csv", b"a,b\n1,2\nSECRET\n", {}, r"line 3 of .*x\.csv has 1 cells, but the header has 2"),
        ("x.csv", b'a,b\n1,"x\ny"\n3,SECRET,5\n', {}, r"line 4 of .*x\.csv has 3 cells"),
        ("x.csv", b'a,b\n1,"SECRET\n2,y\n', {}, r"line 2 of .*x\.csv has a quote that is not closed"),
        ("x.csv", b'a,b\n1,2\n3,"SECRET', {}, r"line 3 of .*x\.csv has a quote that is not closed"),
        ("x.csv", b"a,b\n1,2\n1,SECRET\xff\n", {}, r"line 3 of .*x\.csv is not UTF-8 text.*latin-1"),
        ("x.csv", b"a\xff,b\n1,2\n", {}, r"line 1 of .*x\.csv is not UTF-8 text"),
        ("x.csv", b"a,b\n1,\x81SECRET\n", {"encoding": "cp1252"}, r"line 2 of .*x\.csv is not cp1252 text"),
        ("x.csv", b"a,a,b\n1,2,3\n", {}, r"x\.csv: these column names stand more than once: a\."),
        ("x.csv", b",b\n1,2\n", {}, r"column 1 of .*x\.csv has no name in the header.*row\.names = FALSE"),
        ("x.csv.gz", b"SECRET", {}, "cannot be unpacked"),
        ("x.csv.gz", gzip.compress(b"a,b\n" + b"1,SECRET\n" * 999, mtime=0)[:-9], {}, "cannot be unpacked"),
        ("x.parquet", b"PAR1SECRET", {}, "is not a whole Parquet file"),
        ("x.parquet", b"", {}, "is empty"),
        ("x.arrow", b"ARROW1SECRET", {}, "is not a whole Arrow file"),
        ("x.arrow", b"SECRET", {}, "is not a whole Arrow file"),
        ("x.dta", b"SECRET" * 99, {}, r"is not a whole Stata file of the form \.dta"),
        ("x.sav", b"SECRET" * 99, {}, r"is not a whole SPSS file of the form \.sav"),
        ("x.xpt", b"SECRET" * 99, {}, r"is not a whole SAS file of the form \.xpt"),
        ("x.sas7bdat", b"SECRET" * 99, {}, "is not a whole SAS file"),
        ("x.xlsx", b"SECRET" * 99, {}, r"is not a whole \.xlsx file"),
        ("x.xls", b"x", {}, r"suffix \.xls, .*save it as \.xlsx first"),
        ("x.parquett", b"x", {}, r"Did you mean 'parquet'\? Give form="),
        ("x", b"x", {}, "has no suffix"),
        ("x.parquet.gz", b"x", {}, "only CSV files are read or written packed"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read_file(written(tmp_path, content, name), **options)
    assert "SECRET" not in str(caught.value)
    assert name in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    for name in ("x.parquet", "x.arrow", "x.dta", "x.sav", "x.xlsx"):
        write_file(FileContents(pa.table({"x": list(range(1000)), "s": ["SECRET"] * 1000})), tmp_path / name)
        raw = (tmp_path / name).read_bytes()
        with pytest.raises(DataError, match="whole"):
            read_file(written(tmp_path, raw[: len(raw) // 2], name))


def test_missing_files_and_folders_are_told(tmp_path: Path) -> None:
    written(tmp_path, "a\n1\n", "survey.csv")
    with pytest.raises(DataError, match=r"there is no file .*surve\.csv\. Did you mean 'survey\.csv'\?"):
        read_file(tmp_path / "surve.csv")
    with pytest.raises(DataError, match="there is no file"):
        read_file(tmp_path / "nowhere" / "x.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_file(tmp_path / "folder.csv")
    with pytest.raises(DataError, match="is a folder"):
        write_file(sample(), tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seperator": ";"}, "option 'seperator' is not in .*Did you mean 'separator'"),
        ({"sheet": 1}, "option 'sheet' is not in the options for reading .csv files"),
        ({"decimal": "'"}, "decimal must be"),
        ({"separator": ",,"}, "separator must be one character"),
        ({"separator": ",", "decimal": ","}, "separator must be one character"),
        ({"encoding": "utf-88"}, "'utf-88' is not an encoding"),
        ({"text": ["bb"]}, "column 'bb' is not in .*Did you mean 'b'"),
        ({"names": ["a"]}, "names has 1 names, but .* has 2 columns"),
        ({"form": "parket"}, "form 'parket' is not in .*Did you mean 'parquet'"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        read_file(written(tmp_path, "a,b\n1,2\n"), **options)


@pytest.mark.parametrize(
    ("package", "name", "command"),
    [("pyreadstat", "x.sav", "stats-files"), ("pyreadstat", "x.dta", "stats-files"), ("openpyxl", "x.xlsx", "excel")],
)
def test_a_package_that_is_not_installed_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"needs the package {package}.*sfumato\[{command}\]"):
        read_file(written(tmp_path, "x", name))
    with pytest.raises(MissingExtra, match=rf"sfumato\[{command}\]"):
        write_file(sample(), tmp_path / f"new-{name}")


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


# Refusals when writing: before anything is written


def one(values: Any, name: str = "x") -> FileContents:
    return FileContents(pa.table({name: values}))


NESTED = pa.array([[1, 2]])
ZONED = pa.array([0], pa.timestamp("us", "UTC"))
FINE = pa.array([1], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("name", "contents", "sentence"),
    [
        ("x.sas7bdat", one([1]), r"only SAS itself writes \.sas7bdat.*Write \.xpt"),
        ("x.por", one([1]), r"Write \.sav"),
        ("x.rds", one([1]), "looks like an R file"),
        ("x.csv", FileContents(pa.table({})), "no columns"),
        ("x.csv", FileContents(pa.table([[1], [2]], names=["a", "a"])), "more than once: a"),
        *((f"x.{form}", one(NESTED), "column 'x' holds lists or records") for form in ("csv", "dta", "xpt", "xlsx")),
        ("x.sav", one(pa.array([b"a"])), "column 'x' holds bytes"),
        ("x.csv", one(pa.array([1], pa.duration("s"))), "column 'x' holds lengths of time"),
        ("x.dta", one([1], "my income"), "Stata does not take these column names: my income.*32 characters"),
        ("x.dta", one([1], "if"), "Stata does not take these column names: if"),
        ("x.dta", one([1], "a" * 33), "Stata does not take"),
        ("x.sav", one([1], "_x"), "SPSS does not take these column names: _x"),
        ("x.sav", one([1], "All"), "SPSS does not take these column names: All"),
        ("x.sav", FileContents(pa.table({"Age": [1], "AGE": [1]})), "SPSS sees no capitals.*Age, AGE"),
        ("x.xpt", one([1], "a" * 33), "SAS does not take these column names.*32"),
        ("x.xpt", one([1], "größe"), "SAS does not take these column names: größe"),
        ("x.dta", FileContents(pa.table({"x": [1]}), {"x": "y" * 81}), "labels of at most 80 characters.*x"),
        ("x.sav", FileContents(pa.table({"x": [1]}), {"x": "y" * 257}), "labels of at most 256 bytes.*x"),
        ("x.sav", FileContents(pa.table({"x": [1]}), {}, {"x": {"1": "y" * 121}}), "value labels of at most 120 bytes"),
        (
            "x.sav",
            FileContents(pa.table({"x": [1]}), {}, {"x": {"a": "y"}}),
            "value labels for codes that are not numbers",
        ),
        ("x.sav", one(["SECRET "]), "texts that end in a blank"),
        ("x.xpt", one(["SECRET "]), "texts that end in a blank"),
        ("x.sav", one(["y" * 32768]), "texts longer than the 32767 bytes"),
        ("x.dta", one(["a\0b"]), "zero character"),
        *((f"x.{form}", one([math.inf]), "infinite numbers") for form in ("dta", "sav", "xpt", "xlsx")),
        ("x.xpt", one([1e76]), "numbers beyond 7.2e"),
        ("x.xpt", one([1e-80]), "nearer to 0"),
        ("x.dta", one([8.99e307]), "numbers beyond"),
        *((f"x.{form}", one([2**53 + 1]), r"beyond 2\^53.*into text") for form in ("dta", "sav", "xpt", "xlsx")),
        ("x.sav", one(pa.array([1], pa.decimal128(20, 2))), "decimals of 20 digits"),
        ("x.xlsx", one(pa.array([1], pa.decimal128(20, 2))), "decimals of 20 digits"),
        *((f"x.{form}", one(ZONED), "times with a time zone") for form in ("dta", "sav", "xpt", "xlsx")),
        *((f"x.{form}", one(FINE), "finer than a millisecond") for form in ("dta", "sav", "xpt", "xlsx")),
        ("x.xlsx", one([dt.date(1899, 12, 31)]), "dates before March 1900"),
        ("x.xlsx", one(["y" * 32768]), "texts longer than the 32,767 characters"),
        ("x.xlsx", one(np.zeros(1_048_576)), "1,048,576 records .* an Excel sheet holds 1,048,575"),
        ("x.xlsx", one([1, None]), "last record has no values"),
        ("x.xlsx", one(["a", ""]), "last record has no values"),
        (
            "x.sav",
            FileContents(pa.table({"x": [1.0, 2, 3, 4, 5, 6]}), missing={"x": (1, 3, 5, 6)}),
            "has 4 missing codes. SPSS holds 3",
        ),
        (
            "x.sav",
            FileContents(pa.table({"x": [1]}), missing={"x": ("refused",)}),
            "missing codes that are not numbers",
        ),
        (
            "x.sav",
            FileContents(pa.table({"x": ["a"]}), missing={"x": ("too long for it",)}),
            "at most 3 missing codes of 8 bytes",
        ),
    ],
)
def test_what_a_form_cannot_hold_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, contents: FileContents, sentence: str
) -> None:
    with pytest.raises(SfumatoError, match=sentence) as caught:
        write_file(contents, tmp_path / name)
    assert "SECRET" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "old", "x.parquet")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(DataError, match=r"x\.parquet cannot be written: No space left"):
        write_file(sample(), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


@pytest.mark.parametrize("name", ["x.dta", "x.sav", "x.xpt", "x.csv"])
def test_what_is_converted_keeps_its_meaning(tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "u": pa.array([1, 2**32 - 1], pa.uint32()),
            "big": pa.array([2**53, -(2**40)]),
            "half": pa.array([0.5, 0.25], pa.float32()),
            "dec": pa.array([1, 2], pa.decimal128(5, 2)),
            "cats": pa.array([3, 1]).dictionary_encode(),
            "wide": pa.array(["é" * 2100, "a"], pa.large_string()),
        }
    )
    write_file(FileContents(table), tmp_path / name)
    assert read_file(tmp_path / name).table.to_pydict() == {
        "u": [1, 2**32 - 1],
        "big": [2**53, -(2**40)],
        "half": [0.5, 0.25],
        "dec": [1.0, 2.0],
        "cats": [3, 1],
        "wide": ["é" * 2100, "a"],
    }


def test_labels_of_columns_that_are_gone_are_not_written(tmp_path: Path) -> None:
    contents = FileContents(pa.table({"x": [1]}), {"name": "gone"}, {"name": {"1": "gone"}}, {"name": (1,)})
    for name in ("x.parquet", "x.dta", "x.sav", "x.xpt", "x.csv", "x.xlsx"):
        write_file(contents, tmp_path / name)
        assert b"gone" not in (tmp_path / name).read_bytes()


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


def test_importing_the_file_doors_is_light() -> None:
    heavy = "pyarrow pandas polars openpyxl pyreadstat"
    code = f"import sys, sfumato.engines.formats; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
