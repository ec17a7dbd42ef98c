"""Files that are refused: before anything is written, and when reading in a sentence that quotes no cell."""

from __future__ import annotations

import datetime as dt
import gzip
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_values import sample, written

from sfumato.data.store import open_file
from sfumato.errors import DataError, MissingExtra, ParameterError, SfumatoError
from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import read_file, write_file

# Refusals when reading: a sentence that names the file and the line, and quotes no cell


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("x.csv", b"", {}, "is empty: it has 0 bytes"),
        ("x.csv", b"  \n", {}, "holds no text, not even a header row"),
        ("x.csv", b"a,b\n1,2\nSECRET\n", {}, r"line 3 of .*x\.csv has 1 cell, but the header has 2"),
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
    with pytest.raises(DataError, match=r"x\.parquet cannot be written: the disk is full"):
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


def test_a_damaged_arrow_or_parquet_file_is_refused_or_read_and_never_crashes(tmp_path: Path) -> None:
    script = """
import random, sys
from pathlib import Path
import pyarrow as pa
from sfumato.formats import FileContents, read_file, write_file
from sfumato.errors import DataError
folder, rng, refused = Path(sys.argv[1]), random.Random(5), 0
table = pa.table({"name": ["Smith", "Lee", None] * 20, "cat": pa.array(["a", "b", "a"] * 20).dictionary_encode()})
for form in ("arrow", "parquet"):
    pa.feather.write_feather(table, folder / "x.arrow", compression="uncompressed")
    write_file(FileContents(table), folder / "x.parquet")
    sound = (folder / f"x.{form}").read_bytes()
    for _ in range(150):
        raw = bytearray(sound)
        for _ in range(4):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        (folder / f"damaged.{form}").write_bytes(raw)
        try:
            read_file(folder / f"damaged.{form}").table.to_pylist()
        except DataError:
            refused += 1
assert refused > 100
"""
    ran = subprocess.run(
        [sys.executable, "-c", "import pyarrow.feather\n" + script, str(tmp_path)], capture_output=True
    )
    assert ran.returncode == 0, ran.stderr.decode()[-500:]


def test_a_sheet_with_a_cell_far_from_the_others_is_refused_at_once(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row, column, value in ((1, 1, "a"), (2, 1, 5), (900_000, 16_384, 7)):
        book.active.cell(row, column, value)
    book.save(tmp_path / "far.xlsx")
    with pytest.raises(DataError, match="nearly empty"):
        read_file(tmp_path / "far.xlsx")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_dates_that_no_calendar_has_are_refused(tmp_path: Path, engine: str) -> None:
    for days in (-800_000, 3_000_000):
        write_file(FileContents(pa.table({"born": pa.array([1, days], pa.date32())})), tmp_path / "x.parquet")
        with pytest.raises(DataError, match="'born' has dates before the year 1 or after the year 9999"):
            open_file(tmp_path / "x.parquet", engine)
