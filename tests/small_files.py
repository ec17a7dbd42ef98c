"""Small files of keys, and what a mask makes of them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato.engines.duckdb as duckdb_engine
from sfumato.contract import Draws, Mask, Release
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Schema


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    """Columns of keys, plain categories unless `facts` say otherwise."""
    given = facts or {}
    attributes = [Attribute(n, **{"role": "key", "scale": "unordered", **given.get(n, {})}) for n in columns]
    return Microdata(
        pa.table({n: pa.array(v, from_pandas=False) for n, v in columns.items()}), Schema(tuple(attributes))
    )


def release(mask: Mask, data: Microdata, seed: int = 1) -> Release:
    return mask.apply(data, Draws(seed))


def column(data: Microdata, name: str) -> list[Any]:
    return data.batch([name]).column(name).arrow.to_pylist()


def masked(mask: Mask, data: Microdata, name: str, seed: int = 1) -> list[Any]:
    return column(release(mask, data, seed).masked, name)


def in_pieces(data: Microdata, monkeypatch: pytest.MonkeyPatch, rows: int = 3) -> Microdata:
    """The same records in DuckDB, read a few at a time."""
    monkeypatch.setattr(duckdb_engine, "_ROWS", rows)
    connection = duckdb.connect()
    connection.from_arrow(data.batch().rows.to_arrow()).create("people")
    return Microdata(connection.table("people"), data.schema)
