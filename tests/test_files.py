"""Data files of our own come back as they were, and other programs read them: pandas, pyreadstat, openpyxl."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from file_values import LABELS, MISSING, NAN, VALUE_LABELS, VALUES, assert_values, sample, without

from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import read_file, write_file

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


def test_labels_of_columns_that_are_gone_are_not_written(tmp_path: Path) -> None:
    contents = FileContents(pa.table({"x": [1]}), {"name": "gone"}, {"name": {"1": "gone"}}, {"name": (1,)})
    for name in ("x.parquet", "x.dta", "x.sav", "x.xpt", "x.csv", "x.xlsx"):
        write_file(contents, tmp_path / name)
        assert b"gone" not in (tmp_path / name).read_bytes()


def test_importing_the_file_doors_is_light() -> None:
    heavy = "pyarrow pandas polars openpyxl pyreadstat"
    code = f"import sys, sfumato.formats.data_files; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
