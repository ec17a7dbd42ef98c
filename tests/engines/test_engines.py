"""Every engine does the same thing to the same data."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from sfumato.data import RECORD_ID, Column, Engine, Kind, LocalEngine, Rows, open_frame
from sfumato.data.aggregates import Aggregate, Aggregation, ColumnNumber, Interval, Product, RecordId, Sum, Within
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Attribute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = 1000
Open = Callable[[pa.Table], Engine]
COLUMNS = ["age", "income", "region", "member", "joined", "sector"]


@pytest.fixture(params=["pandas", "polars", "arrow", "duckdb", "spark"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(where: str, request: pytest.FixtureRequest) -> Open:
    """Open an Arrow table as the frame of one engine."""

    def open_table(table: pa.Table) -> Engine:
        if where == "pandas":
            return open_frame(table.to_pandas())
        if where == "polars":
            return open_frame(pl.from_arrow(table))
        if where == "duckdb":
            connection = duckdb.connect()  # a private one that only the relation holds
            connection.from_arrow(table).create("people")
            return open_frame(connection.table("people"))
        if where == "spark":
            text = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema]
            return open_frame(request.getfixturevalue("spark").createDataFrame(table.cast(pa.schema(text))))
        return open_frame(table)

    return open_table


def people(n: int = N) -> pa.Table:
    rng = np.random.default_rng(20260101)
    i = np.arange(n)
    income = pa.array(rng.lognormal(10, 1, n), mask=i % 7 == 3)
    words = np.array(["north", "", 'the "south", far', " blanks ", "línea\ntwo"], object)
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 100, n), pa.int64()),
            "income": income,
            "region": pa.array(words[i % 5], pa.string(), mask=i % 11 == 5),
            "member": pa.array(i % 2 == 0, pa.bool_(), mask=i % 13 == 1),
            "joined": pa.array((7000 + 37 * i).astype("M8[D]"), pa.date32(), mask=i % 17 == 2),
            "sector": pa.array(np.array(["A", "B", "C"], object)[i % 3], mask=i % 19 == 4).dictionary_encode(),
        }
    )


def with_nan(n: int = N) -> pa.Table:
    i = np.arange(n)
    return pa.table({"x": pa.array(np.where(i % 3 == 0, np.nan, i / 7), mask=i % 5 == 0, from_pandas=False)})


def values(rows: Rows) -> dict[str, list[object]]:
    """Ids and values as Python objects, NaN as text so that it equals itself."""
    told = {n: ["NaN" if v != v else v for v in column.arrow.to_pylist()] for n, column in rows.columns.items()}
    return {"ids": rows.ids.tolist(), **told}


def everything(engine: Engine) -> dict[str, list[object]]:
    return values(engine.collect(list(engine.kinds)))


def joined(engine: Engine, columns: list[str]) -> dict[str, list[object]]:
    parts = [values(rows) for rows in engine.batches(columns)]
    return {name: [v for part in parts for v in part[name]] for name in parts[0]}


# What comes in


def test_ids_are_row_positions_and_values_are_unchanged(opened: Open) -> None:
    table = people()
    local = LocalEngine.from_arrow(table)
    engine = opened(table)
    assert engine.count() == N
    assert everything(engine) == everything(local)
    assert everything(engine)["ids"] == list(range(N))


def test_kinds_are_the_same_everywhere(opened: Open) -> None:
    assert dict(opened(people()).kinds) == {
        "age": Kind.NUMBER,
        "income": Kind.NUMBER,
        "region": Kind.CATEGORY,
        "member": Kind.BOOLEAN,
        "joined": Kind.DATE,
        "sector": Kind.CATEGORY,
    }


def test_batches_give_every_record_once_with_the_columns_asked_for(opened: Open) -> None:
    engine = opened(people())
    assert joined(engine, ["sector", "age"]) == values(engine.collect(["sector", "age"]))
    assert sum(len(rows) for rows in engine.batches([])) == N


def test_null_and_nan_are_kept_apart(opened: Open, where: str) -> None:
    column = opened(with_nan()).collect(["x"]).columns["x"]
    i = np.arange(N)
    null, nan = i % 5 == 0, (i % 3 == 0) & (i % 5 != 0)
    if where == "pandas":  # NumPy floats in pandas have only NaN, so both come in as null
        null, nan = null | nan, np.zeros(N, bool)
    np.testing.assert_array_equal(column.null, null)
    np.testing.assert_array_equal(np.isnan(column.numbers) & ~column.null, nan)


def test_a_spark_frame_from_pandas_has_nulls_for_nan(spark: SparkSession) -> None:
    column = open_frame(spark.createDataFrame(pd.DataFrame({"x": [1.0, math.nan]}))).collect(["x"]).columns["x"]
    assert column.missing.tolist() == [False, True]


def test_zero_records_are_fine(opened: Open, tmp_path: Path) -> None:
    engine = opened(people(0))
    assert engine.count() == 0
    assert [len(rows) for rows in engine.batches(["age"])] == [0]
    assert len(engine.collect(["age"])) == 0
    assert engine.kinds["age"] is Kind.NUMBER
    assert engine.map_batches(lambda rows: rows).count() == 0
    assert engine.reduce(lambda rows: np.array([float(len(rows)), 2.0]), ["age"]).tolist() == [0, 2]
    engine.write(str(tmp_path / "none.parquet"), "parquet")


def test_an_unknown_column_is_refused_with_the_nearest_name(opened: Open) -> None:
    with pytest.raises(DataError, match="Did you mean 'income'"):
        opened(people(3)).collect(["incme"])


# What is done to it


def test_map_batches_gives_exactly_the_local_result(opened: Open) -> None:
    weights = np.linspace(0, 1, 100)

    def mask(rows: Rows) -> Rows:
        age = rows.columns["age"].numbers
        return Rows(
            rows.ids,
            {
                **rows.columns,
                "income": Column.from_numbers(
                    np.sin(rows.columns["income"].numbers) * weights[age.astype(int)] / 3, rows.columns["income"].null
                ),
                "age": Column.from_numbers(age // 10, integer=True),
                "parity": Column.from_numbers(rows.ids % 2),
            },
        )

    table = people()
    result = opened(table).map_batches(mask)
    assert list(result.kinds) == [*COLUMNS, "parity"]
    expected = everything(LocalEngine.from_arrow(table).map_batches(mask))
    assert everything(result) == expected
    assert joined(result, list(result.kinds)) == expected


def test_map_batches_may_drop_records_and_columns_and_change_types(opened: Open) -> None:
    def mask(rows: Rows) -> Rows:
        kept = rows.take(rows.columns["age"].numbers >= 50)
        band = np.where(kept.columns["age"].numbers >= 65, "old", "middle").tolist()
        return Rows(kept.ids, {"age": Column(pa.array(band, pa.string())), "region": kept.columns["region"]})

    table = people()
    result = opened(table).map_batches(mask)
    assert dict(result.kinds) == {"age": Kind.CATEGORY, "region": Kind.CATEGORY}
    assert everything(result) == everything(LocalEngine.from_arrow(table).map_batches(mask))
    assert result.count() == int((table["age"].to_numpy() >= 50).sum())


def test_ids_stay_through_several_maps(opened: Open) -> None:
    result = opened(people()).map_batches(lambda rows: rows.take(rows.ids % 3 == 0)).map_batches(lambda rows: rows)
    result = result.map_batches(lambda rows: rows.take(rows.ids % 2 == 0))
    assert result.collect([]).ids.tolist() == list(range(0, N, 6))


def test_null_and_nan_stay_apart_through_a_map(opened: Open, where: str) -> None:
    engine = opened(with_nan())
    assert everything(engine.map_batches(lambda rows: rows)) == everything(engine)
    if where != "pandas":
        assert {"NaN", None} < set(everything(engine)["x"])


@pytest.mark.parametrize("where", ["duckdb", "spark"])  # memory keeps the order that the function gave
def test_records_are_collected_in_id_order(opened: Open) -> None:
    def simulate(rows: Rows) -> Rows:
        return Rows(-1 - rows.ids, {"age": rows.columns["age"]})

    assert opened(people(50)).map_batches(simulate).collect(["age"]).ids.tolist() == list(range(-50, 0))


def test_reduce_adds_what_the_function_returns(opened: Open) -> None:
    def moments(rows: Rows) -> np.ndarray:
        x = np.nan_to_num(np.stack([rows.columns["age"].numbers, rows.columns["income"].numbers]))
        return x @ x.T

    table = people()
    expected = LocalEngine.from_arrow(table).reduce(moments, ["age", "income"])
    engine = opened(table)
    total = engine.reduce(moments, ["age", "income"])
    assert total.shape == (2, 2)
    np.testing.assert_allclose(total, expected, rtol=1e-12)
    np.testing.assert_array_equal(total, engine.reduce(moments, ["age", "income"]))
    np.testing.assert_allclose(
        engine.map_batches(lambda rows: rows).reduce(moments, ["age", "income"]), expected, rtol=1e-12
    )


def test_one_number_per_piece_is_enough_for_reduce(opened: Open) -> None:
    assert float(opened(people()).reduce(lambda rows: np.float64(len(rows)), [])) == N


def test_a_function_that_fails_does_not_leave_the_data_unusable(opened: Open) -> None:
    engine = opened(people())

    def broken(rows: Rows) -> Rows:
        if len(rows):
            raise DataError("this mask needs a key column.")
        return rows

    with pytest.raises(DataError, match="this mask needs a key column"):
        engine.map_batches(broken).count()
    assert len(engine.collect(["age"])) == N


@pytest.mark.parametrize("where", ["duckdb", "spark"])  # memory sees all records at once
def test_new_columns_must_have_a_type_even_for_zero_records(opened: Open) -> None:
    with pytest.raises(DataError, match="kind of values it puts in note"):
        opened(people(5)).map_batches(lambda rows: Rows(rows.ids, {"note": Column.from_values(["x"] * len(rows))}))


# What goes out


def parts(path: Path, suffix: str) -> list[Path]:
    return sorted(path.glob(f"part-*.{suffix}")) if path.is_dir() else [path]


def test_parquet_reads_back_without_ids(opened: Open, tmp_path: Path) -> None:
    table = people()
    path = tmp_path / "out.parquet"
    opened(table).map_batches(lambda rows: rows).write(str(path), "parquet")
    read = pa.concat_tables([pyarrow.parquet.read_table(part) for part in parts(path, "parquet")])
    assert read.column_names == COLUMNS
    assert read.to_pylist() == table.to_pylist()


def test_csv_reads_back_with_every_digit_and_without_ids(opened: Open, tmp_path: Path) -> None:
    table = people()
    hard = [0.1, 1 / 3, 1e300, 5e-324, -0.0, 123456789.123456789, float(2**53 + 2)]
    table = table.append_column("hard", pa.array((hard * N)[:N]))
    path = tmp_path / "out.csv"
    opened(table).write(str(path), "csv")
    plain = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    options = pyarrow.csv.ConvertOptions(
        column_types=pa.schema(plain), null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pa.concat_tables(
        [pyarrow.csv.read_csv(part, parse_options=parse, convert_options=options) for part in parts(path, "csv")]
    )
    assert read.column_names == [*COLUMNS, "hard"]
    assert read.to_pylist() == table.to_pylist()
    assert RECORD_ID not in "".join(part.read_text() for part in parts(path, "csv"))


def test_native_is_the_frame_that_came_in_without_ids(opened: Open, where: str) -> None:
    types = {"arrow": "Table", "duckdb": "DuckDBPyRelation"}
    engine = opened(people())
    for each in (engine, engine.map_batches(lambda rows: rows)):
        native = each.native()
        assert type(native).__name__ == types.get(where, "DataFrame")
        names = native.column_names if where == "arrow" else native.columns
        assert list(names) == COLUMNS
        assert everything(open_frame(native)) == everything(engine)


def test_an_unknown_form_is_refused(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="csv"):
        opened(people(3)).write(str(tmp_path / "x.sas"), "sas")


# What is refused


def test_a_pandas_index_is_dropped_and_does_not_change_ids() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index([30, 10, 10], name="patient"))
    rows = open_frame(frame).collect(["a"])
    assert rows.ids.tolist() == [0, 1, 2]
    assert list(open_frame(frame).native().columns) == ["a"]


def test_repeated_names_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="more than once: a"):
        open_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="more than once: a"):
        open_frame(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(DataError, match="more than once: a"):
        open_frame(spark.range(1).selectExpr("id a", "id a"))


def test_a_lazy_polars_frame_and_a_column_called_columns_are_fine() -> None:
    assert open_frame(pl.LazyFrame({"a": [1]})).count() == 1
    assert list(open_frame(pd.DataFrame({"column_names": [1], "columns": [2]})).kinds) == ["column_names", "columns"]


def test_names_that_are_not_text_are_refused() -> None:
    with pytest.raises(DataError, match="must be text"):
        open_frame(pd.DataFrame([[1, 2]]))


def test_a_column_of_mixed_kinds_is_refused_without_quoting_a_value() -> None:
    with pytest.raises(DataError, match="column 'a' mixes kinds") as caught:
        open_frame(pd.DataFrame({"a": [1, "secret-street"]}))
    assert "secret" not in str(caught.value)


def test_an_object_that_is_no_frame_is_refused() -> None:
    with pytest.raises(DataError, match="not a frame"):
        open_frame({"a": [1]})


# Aggregates


def test_every_engine_aggregates_as_plain_python_does(opened: Open) -> None:
    table = people(300)
    engine, rows = opened(table), table.to_pylist()
    age, income = ColumnNumber(Attribute("age", missing=(50,))), ColumnNumber(Attribute("income"))
    region = engine.category("region", ("north",))
    found = engine.aggregate(
        Aggregation(
            {"member": engine.category("member"), "band": Interval(age, 25.0)},
            {
                "exact": Sum(income, scale=2.0**24, parts=3),
                "oldest": Aggregate(age, "max"),
                "products": Aggregate(Product((age, income), absolute=True)),
                "rich": Aggregate(Within((income,), 20_000.0)),
                "regions": Aggregate(region, "count_distinct"),
                "nowhere": Aggregate(RecordId(region), "count_distinct"),
                "last": Aggregate(RecordId(), "max"),
            },
            Within((age,), 10.0, whole=True),
        )
    )
    kept = [(i, r) for i, r in enumerate(rows) if r["age"] != 50 and r["age"] >= 10]
    groups = list(zip(*(found.columns[name].arrow.to_pylist() for name in ("member", "band")), strict=True))
    assert set(groups) == {(r["member"], r["age"] // 25) for _, r in kept}
    for at, (member, band) in enumerate(groups):
        mine = [(i, r) for i, r in kept if (r["member"], r["age"] // 25) == (member, band)]
        paid = [(r["age"], r["income"]) for _, r in mine if r["income"] is not None]
        answers = {name: values[at] for name, values in found.sums.items()}
        assert found.counts[at] == len(mine)
        assert answers["exact"] == pytest.approx(math.fsum(x for _, x in paid), rel=1e-14)
        assert answers["products"] == pytest.approx(math.fsum(a * x for a, x in paid), rel=1e-12)
        assert answers["oldest"] == max(r["age"] for _, r in mine)
        assert answers["rich"] == sum(x >= 20_000 for _, x in paid)
        assert answers["regions"] == len({r["region"] for _, r in mine} - {None, "north"})
        assert answers["nowhere"] == sum(r["region"] in (None, "north") for _, r in mine)
        assert answers["last"] == max(i for i, _ in mine)
