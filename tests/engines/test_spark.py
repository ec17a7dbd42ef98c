"""What only Spark has: partitions, executors, and frames that it computes again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data import Column, Kind, Rows, open_frame
from sfumato.data import spark_engine as module
from sfumato.errors import DataError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Read files in many partitions, and send many batches per partition."""
    settings = {
        "spark.sql.files.maxPartitionBytes": "60000",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "700",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        spark.conf.set(key, str(value))


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_ids_follow_one_file_through_many_partitions(form: str, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / f"data.{form}")
    i = np.arange(12_000)
    table = pa.table({"i": i, "x": i / 3, "unused": i})
    if form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path, row_group_size=2000, compression="none", use_dictionary=False)
        frame = spark.read.parquet(path)
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path)
        frame = spark.read.csv(path, header=True, schema="i BIGINT, x DOUBLE, unused BIGINT")
    engine = open_frame(frame)
    assert engine._frame is frame  # read where it is
    assert len(engine._starts) > 4
    rows = engine.collect(["i"])
    np.testing.assert_array_equal(rows.ids, i)
    np.testing.assert_array_equal(rows.columns["i"].numbers, i)
    np.testing.assert_array_equal(np.concatenate([piece.ids for piece in engine.batches(["x"])]), i)
    kept = open_frame(frame.where("i % 3 = 0")).map_batches(lambda rows: rows).collect(["i"])
    np.testing.assert_array_equal(kept.columns["i"].numbers, kept.ids * 3)


def test_frames_whose_order_may_change_are_made_firm_first(spark: SparkSession) -> None:
    base = spark.range(2000).selectExpr("id AS i", "id % 7 AS k")
    frames = {
        "group-by": base.groupBy("i").count(),
        "join": base.join(base.selectExpr("i", "k AS l"), "i"),
        "sort": base.orderBy("k"),
        "repartition": base.repartition(3),
        "cached repartition": base.repartition(3).cache(),
        "limit": base.limit(10),
    }
    for name, frame in frames.items():
        assert not module._repeatable(frame), name
    engine = open_frame(frames["repartition"])
    first = engine.collect(["i"])
    again = engine.map_batches(lambda rows: rows).collect(["i"])
    assert first.ids.tolist() == again.ids.tolist() == list(range(2000))
    assert first.columns["i"].equals(again.columns["i"])


def test_scans_filters_and_seeded_columns_are_read_where_they_are(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    frame = spark.range(100).where("id > 3").withColumn("r", f.rand(7))
    assert module._repeatable(frame)
    engine = open_frame(frame)
    assert engine.collect(["r"]).columns["r"].equals(engine.collect(["r"]).columns["r"])


def test_data_that_change_after_opening_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "data.parquet")
    spark.range(100).coalesce(1).write.parquet(path)
    engine = open_frame(spark.read.parquet(path))
    spark.range(99).coalesce(1).write.mode("overwrite").parquet(path)
    for read in (lambda: engine.collect(["id"]), lambda: engine.reduce(lambda rows: np.zeros(1), [])):
        with pytest.raises(DataError):
            read()


def test_the_function_runs_on_the_executors_and_may_carry_arrays(spark: SparkSession) -> None:
    import os

    driver, table = os.getpid(), np.arange(1000.0) ** 2

    def look_up(rows: Rows) -> Rows:
        away = np.full(len(rows), float(os.getpid() != driver))
        return Rows(rows.ids, {"y": Column.from_numbers(table[rows.ids]), "away": Column.from_numbers(away)})

    rows = open_frame(spark.range(1000)).map_batches(look_up).collect(["y", "away"])
    np.testing.assert_array_equal(rows.columns["y"].numbers, table)
    assert rows.columns["away"].numbers.all()


def test_errors_on_executors_come_back_in_a_sentence_without_values(spark: SparkSession) -> None:
    engine = open_frame(spark.createDataFrame([("12 High Street",)], "address string"))

    def clumsy(rows: Rows) -> Rows:
        for value in rows.columns["address"].arrow.to_pylist():
            float(value)
        return rows

    def clear(rows: Rows) -> Rows:
        if len(rows):
            raise ParameterError("k is 1; it must be at least 2.")
        return rows

    with pytest.raises(DataError, match="stopped with a ValueError") as caught:
        engine.map_batches(clumsy).collect(["address"])
    assert "High" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(ParameterError, match=r"^k is 1; it must be at least 2\.$"):
        engine.map_batches(clear).count()


def test_errors_of_spark_itself_do_not_quote_values(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("12 High Street",)], "address string").selectExpr("CAST(address AS int) AS a")
    with pytest.raises(DataError) as caught:
        open_frame(frame).collect(["a"])
    assert "High" not in str(caught.value)
    assert "CAST_INVALID_INPUT" in str(caught.value)


def test_names_with_dots_quotes_and_blanks_work(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", "c `d`", "e f", "select"]
    engine = open_frame(spark.createDataFrame(pa.table({n: [1, 2] for n in names})))
    for each in (engine, engine.map_batches(lambda rows: rows)):
        assert each.native().columns == names
        assert [c.numbers.tolist() for c in each.collect(names[::-1]).columns.values()] == [[1, 2]] * 4
    engine.map_batches(lambda rows: rows).write(str(tmp_path / "out"), "csv")


def test_points_in_time_pass_unchanged_in_any_time_zone(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Rome")
    try:
        frame = spark.sql("SELECT TIMESTAMP '2024-07-01 12:00:00' AS t, TIMESTAMP_NTZ '2024-07-01 12:00:00' AS n")
        engine = open_frame(frame).map_batches(lambda rows: rows)
        assert set(engine.kinds.values()) == {Kind.DATE}
        assert engine.native().dtypes == frame.dtypes
        assert engine.native().collect() == frame.collect()
        found = engine.collect(["t"]).columns["t"].arrow.to_pylist()[0]
        assert found == dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_types_that_spark_lacks_become_the_nearest_it_has(spark: SparkSession) -> None:
    def odd(rows: Rows) -> Rows:
        n = len(rows)
        return Rows(
            rows.ids,
            {
                "small": Column(pa.array([200] * n, pa.uint8())),
                "huge": Column(pa.array([2**64 - 1] * n, pa.uint64())),
                "band": Column(pa.array(["a"] * n, pa.string()).dictionary_encode()),
                "level": Column(pa.array([3] * n, pa.int64()).dictionary_encode()),
                "when": Column(pa.array([0] * n, pa.timestamp("ns"))),
            },
        )

    result = open_frame(spark.range(3)).map_batches(odd)
    rows = result.collect(list(result.kinds))
    assert rows.columns["small"].arrow.to_pylist() == [200] * 3
    assert [int(v) for v in rows.columns["huge"].arrow.to_pylist()] == [2**64 - 1] * 3
    assert rows.columns["band"].arrow.to_pylist() == ["a"] * 3
    assert result.kinds["level"] is Kind.CATEGORY
    assert result.kinds["when"] is Kind.DATE


def test_an_existing_folder_is_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    engine = open_frame(spark.range(3))
    engine.write(str(tmp_path / "out"), "parquet")
    with pytest.raises(DataError, match="exists already"):
        engine.write(str(tmp_path / "out"), "parquet")


def test_a_stream_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="without an end"):
        open_frame(spark.readStream.format("rate").load())


def test_lists_are_carried_and_refused_as_csv(spark: SparkSession, tmp_path: Path) -> None:
    engine = open_frame(spark.sql("SELECT array(1, 2) AS visits, 1 AS a")).map_batches(lambda rows: rows)
    assert engine.kinds["visits"] is Kind.OTHER
    assert engine.collect(["visits"]).columns["visits"].arrow.to_pylist() == [[1, 2]]
    with pytest.raises(DataError, match="visits"):
        engine.write(str(tmp_path / "out"), "csv")
