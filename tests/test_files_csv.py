"""CSV files: types are found over the whole column, and nothing is changed silently."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from file_values import NAN, read_text, same, written

from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import read_file, write_file


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
