"""Small files, and what a mask makes of them."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import sfumato.data.duckdb_engine as duckdb_engine
from sfumato.contract import Draws, Mask, Release
from sfumato.data.microdata import Microdata
from sfumato.schema import Attribute, Schema


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    """Columns of keys, plain categories unless `facts` say otherwise."""
    return _file({"role": "key", "scale": "unordered"}, facts or {}, columns)


def amounts(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    """Confidential columns, unless `facts` say otherwise."""
    return _file({"role": "confidential"}, facts or {}, columns)


def _file(plain: dict[str, Any], facts: dict[str, dict[str, Any]], columns: dict[str, Any]) -> Microdata:
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **{**plain, **facts.get(n, {})}) for n in columns)))


def of_keys(rows: list[tuple[int | None, ...]]) -> Microdata:
    """Records of whole numbers, all of them keys."""
    return microdata(**{f"key{j}": pa.array(column, pa.int64()) for j, column in enumerate(zip(*rows, strict=True))})


def as_it_is(data: Microdata) -> Release:
    """A file released without a change."""
    return Release.of(data, data, align="rows")


def release(mask: Mask, data: Microdata, seed: int = 1) -> Release:
    return mask.apply(data, Draws(seed))


def column(data: Microdata, name: str) -> list[Any]:
    return data.batch([name]).column(name).arrow.to_pylist()


def values(data: Microdata, name: str) -> list[Any]:
    """What stands in a column: null as None, NaN as the text "NaN"."""
    return ["NaN" if v != v else v for v in column(data, name)]


def column_of_numbers(mask: Mask, data: Microdata, name: str, seed: int = 1) -> NDArray[np.float64]:
    return release(mask, data, seed).masked.numbers(name)


def masked(mask: Mask, data: Microdata, name: str, seed: int = 1) -> list[Any]:
    return column(release(mask, data, seed).masked, name)


def in_duckdb(frame: pd.DataFrame) -> Any:
    connection = duckdb.connect()
    connection.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)).create("people")
    return connection.table("people")


def in_pieces(data: Microdata, monkeypatch: pytest.MonkeyPatch, rows: int = 3) -> Microdata:
    """The same records in DuckDB, read a few at a time."""
    monkeypatch.setattr(duckdb_engine, "_ROWS", rows)
    connection = duckdb.connect()
    connection.from_arrow(data.batch().rows.to_arrow()).create("people")
    return Microdata(connection.table("people"), data.schema)
