"""Values that data files are tested with, and how they are compared."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.formats.contents import FileContents
from sfumato.formats.data_files import read_file

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
