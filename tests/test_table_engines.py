"""A table is the same wherever its records live; only cells, or contributor × cell sums, leave the engine."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.data.engine import Engine
from sfumato.errors import DataError
from sfumato.schema import TreeHierarchy
from sfumato.tables import CellKey, PPercent, Suppression, Table
from sfumato.tables.largest_contributors import contributors_by_cell, contributors_of

REGIONS = TreeHierarchy.from_levels({"a": ["north"], "b": ["north"], "c": ["south"], "d{}'\\": ["south"]})
CASES: dict[str, dict[str, Any]] = {
    "magnitudes": {"formula": "region * kind", "variable": "turnover"},
    "linked": {"formula": "region * kind + group * sector", "variable": "turnover"},
    "holdings": {"formula": "region * sector", "variable": "turnover", "contributor": "owner"},
    "whole": {"formula": "region * sector * kind", "variable": "staff", "contributor": "owner"},
    "left out": {"formula": "region * sector", "variable": "profit", "missing": "leave out"},
    "left out of holdings": {"formula": "kind : sector", "variable": "profit", "missing": "leave out", "contributor": "owner"},
    "records": {"formula": "region * flag"},
    "empty cells": {"formula": "group * kind * sector", "variable": "staff", "empty": True},
    "counts": {"formula": "region * sector", "count": "staff"},
    "marks": {"formula": "region * sector", "variable": "turnover", "contributor": "owner", "waiver": "flag", "request": "asked",
              "size": "last_year", "per_size": "ratio", "record_key": "key"},
    "marks of records": {"formula": "region", "variable": "profit", "missing": "leave out", "size": "last_year", "per_size": 2.0},
    "numbers of categories": {"formula": "sector", "variable": "grade", "missing": "leave out"},
}  # fmt: skip


def firms(n: int = 700, seed: int = 5) -> pa.Table:
    g = np.random.default_rng(seed)

    def gaps(share: float) -> np.ndarray:
        return g.random(n) < share

    region = g.choice(np.array(["a", "b", "c", "d{}'\\"], object), n)
    kind = np.where(gaps(0.1), np.nan, g.choice([0.0, -0.0, 1.5, 9.0], n))
    return pa.table({
        "region": pa.array(region, mask=gaps(0.05)), "group": pa.array(np.where(region == "a", "x", "y").astype(object)),
        "sector": pa.array(g.integers(0, 4, n), mask=gaps(0.05)), "kind": pa.array(kind, mask=gaps(0.05), from_pandas=False),
        "flag": pa.array(g.random(n) < 0.8), "owner": pa.array(g.integers(0, 60, n), mask=gaps(0.1)),
        "turnover": g.lognormal(3, 3, n), "profit": pa.array(g.normal(0, 50, n), mask=gaps(0.1)), "staff": g.integers(0, 50, n),
        "last_year": g.lognormal(3, 2, n), "asked": g.integers(0, 3, n), "key": g.random(n),
        "weight": g.choice([1.0, 2.5, 1 / 0.3], n), "id": np.arange(n)[::-1] + 10,
        "grade": pa.array(g.choice(np.array(["low", "high", "?"], object), n)),
    })  # fmt: skip


def schema(weighted: bool) -> Schema:
    special: dict[str, dict[str, Any]] = {
        "region": {"scale": "unordered", "hierarchy": REGIONS}, "kind": {"scale": "unordered", "missing": (9.0,)},
        "owner": {"scale": "unordered", "missing": (7,)}, "profit": {"missing": (-1.0,)}, "id": {"role": "identifier"},
        "weight": {"role": "weight" if weighted else "other"},
        "grade": {"values": {"low": 1.0, "high": 2.5}, "missing": ("?",)},
    }  # fmt: skip
    return Schema(tuple(Attribute(name, **special.get(name, {})) for name in firms(1).column_names))


ENGINES = ("DuckDB", "DuckDB in pieces", "Spark")


@pytest.fixture(params=ENGINES)
def elsewhere(request: pytest.FixtureRequest) -> Any:
    """Open a table of Arrow in another engine."""

    def opened(table: pa.Table, described: Schema) -> Microdata:
        if request.param == "Spark":
            return Microdata(request.getfixturevalue("spark").createDataFrame(table), described)
        connection = duckdb.connect()
        connection.from_arrow(table).create("firms")
        data = Microdata(connection.table("firms"), described)
        if request.param == "DuckDB in pieces":
            data = data.transform(lambda batch: batch, described)
        return data

    return opened


def assert_same(there: Table, here: Table) -> None:
    np.testing.assert_array_equal(there.cells.labels, here.cells.labels)
    assert (there.cells.incidence != here.cells.incidence).nnz == 0
    np.testing.assert_array_equal(there.counts, here.counts)
    # in memory, positive and negative fractions cancel with an error of about 1e-16 of the sum of their sizes
    np.testing.assert_allclose(there.totals, here.totals, rtol=1e-13, atol=1e-11)
    for name in ("variable", "unit", "integer", "decimals", "nonnegative"):
        assert getattr(there, name) == getattr(here, name)


def entries(table: Table, grossed: bool = False) -> list[tuple[int, str, float]]:
    """List the contributions: leaf, name and value."""
    given = table.contributions
    assert given is not None
    matrix = (given.grossed if grossed else given.own).tocoo()
    names = ["" if given.names is None else str(given.names[c]).removesuffix(".0") for c in matrix.col]
    values = [float(f"{value:.12g}") for value in matrix.data]
    return sorted(zip(matrix.row.tolist(), names, values, strict=True))


WITH_SPARK = {("marks", True), ("linked", False), ("numbers of categories", False), ("empty cells", True)}
"""Tables that Spark makes with `make test`: every option of a table, links, categories with numbers, empty cells."""


@pytest.mark.parametrize(
    ("elsewhere", "case", "weighted"),
    [
        pytest.param(
            engine, case, weighted,
            marks=(pytest.mark.verify,) if engine == "Spark" and (case, weighted) not in WITH_SPARK else (),
        )
        for engine in ENGINES
        for case in CASES
        for weighted in (False, True)
    ],
    indirect=["elsewhere"],
)  # fmt: skip
def test_every_engine_makes_the_same_table(elsewhere: Any, case: str, weighted: bool) -> None:
    wanted, described = CASES[case], schema(weighted)
    there, here = (Table.of(data, **wanted) for data in (elsewhere(firms(), described), Microdata(firms(), described)))
    assert_same(there, here)
    if here.contributions is None:
        assert there.contributions is None
        return
    assert there.contributions is not None
    assert len(there.contributions) == len(here.contributions)
    for count in (1, 3):
        ours, theirs = there.largest(count), here.largest(count)
        np.testing.assert_array_equal(ours.contributors, theirs.contributors)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-13)
        np.testing.assert_allclose(ours.values * ours.weights, theirs.values * theirs.weights, rtol=1e-12)
    np.testing.assert_array_equal(contributors_of(there), contributors_of(here))
    for grossed in (False, True):
        assert entries(there, grossed) == entries(here, grossed)
    for field in ("size", "waived", "requests"):
        ours, theirs = getattr(there.contributions, field), getattr(here.contributions, field)
        assert (ours is None) == (theirs is None)
        if ours is not None and case == "marks":  # contributors by name, in one order
            np.testing.assert_allclose(ours[:50], theirs[:50], rtol=1e-12)


@pytest.mark.parametrize("weights", ["known", "unknown", "copies"])
def test_the_largest_contributors_of_cells_come_from_the_engine_alone(elsewhere: Any, weights: str) -> None:
    described = schema(weighted=True)
    there, here = (
        Table.of(data, "region * sector", "turnover")
        for data in (elsewhere(firms(), described), Microdata(firms(), described))
    )
    ours, theirs = (contributors_by_cell(table, 3, weights) for table in (there, here))
    for field in ("values", "copies", "contributors", "total", "own"):
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-12)
    np.testing.assert_array_equal(PPercent(10).assess(there).unsafe, PPercent(10).assess(here).unsafe)
    assert "_loaded" not in vars(there.contributions)


def test_only_cells_leave_the_engine_until_contributors_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = duckdb.connect()
    connection.from_arrow(firms()).create("firms")
    data = Microdata(connection.table("firms"), schema(weighted=True))
    with monkeypatch.context() as patched:
        for name in ("batches", "collect", "reduce"):
            patched.setattr(type(data.engine), name, lambda *_: pytest.fail("records left the engine"))
        table = Table.of(data, "region * sector", "turnover")
        assert "700 contributors" in repr(table)
        assert table.largest(2).values.shape == (len(table), 2)
    assert table.contributions is not None
    assert table.contributions.own.nnz == 700


def test_sums_in_an_engine_are_exact_whatever_the_order(elsewhere: Any) -> None:
    g = np.random.default_rng(1)
    values = np.concatenate([g.lognormal(0, 8, 200), -g.lognormal(0, 8, 203), [1e9, 0.1, -1e9, 1e-7]])
    groups = np.arange(len(values)) % 7
    groups[:2], values[:2] = (7, 8), (-1.1e-7, 2**40 + 0.125)  # groups of one number
    described = Schema((Attribute("g", scale="unordered"), Attribute("x")))  # type: ignore[arg-type]
    table = Table.of(elsewhere(pa.table({"g": groups, "x": values}), described), "g", "x")
    for label in range(9):
        expected = math.fsum(values[groups == label])
        assert table.value[table.cells.find(g=str(label))] == pytest.approx(expected, rel=2e-16, abs=0)


def test_cell_keys_and_suppression_do_not_depend_on_the_engine(elsewhere: Any) -> None:
    described = schema(weighted=False)
    data = Microdata(firms(), described), elsewhere(firms(), described)
    keyed = [CellKey().protect(Table.of(one, "region * sector"), Draws(3)).values for one in data]
    np.testing.assert_array_equal(*keyed)
    tables = [Table.of(one, "region * sector", "staff", contributor="owner") for one in data]
    hidden = [Suppression(rules=PPercent(10)).protect(table, Draws(3)).status for table in tables]
    np.testing.assert_array_equal(*hidden)


@pytest.mark.parametrize(
    ("column", "value", "asked", "message"),
    [
        ("turnover", math.inf, {}, "1 infinite value"),
        ("turnover", None, {}, "1 record of 700 has no value of 'turnover'"),
        ("weight", 0.5, {}, "1 record has a survey weight in 'weight' that is missing or below 1"),
        ("last_year", -1.0, {"size": "last_year"}, "1 record has a size in 'last_year'"),
        ("key", 1.0, {"record_key": "key"}, "a record key in 'key' that is missing or outside"),
        ("asked", 5, {"request": "asked"}, "must hold 0 for no request"),
    ],
)  # fmt: skip
def test_every_engine_refuses_the_same(
    elsewhere: Any, column: str, value: Any, asked: dict[str, Any], message: str
) -> None:
    table = firms()
    wrong = pa.array([value, *table[column].to_pylist()[1:]], table[column].type)
    table = table.set_column(table.column_names.index(column), column, wrong)
    for data in (Microdata(table, schema(weighted=True)), elsewhere(table, schema(weighted=True))):
        with pytest.raises(DataError, match=message):
            Table.of(data, "region", "turnover", contributor="owner", **asked)


def test_a_table_of_a_file_on_disk_can_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "firms.parquet"
    pq.write_table(firms(), path)
    data = Microdata.read(path, schema(weighted=True), engine="duckdb")
    assert isinstance(data.engine, Engine)
    table = Table.of(data, "region * sector", "turnover", contributor="owner")
    copy = pickle.loads(pickle.dumps(table))
    assert_same(copy, table)
    assert entries(copy) == entries(table)
    assert table.records is not None
    np.testing.assert_array_equal(copy.records.ids, table.records.ids)
