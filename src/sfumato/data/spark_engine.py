"""Data in Spark: the work goes to where the records are, and only sums and small answers come back."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
from typing_extensions import override

import sfumato.errors
from sfumato.data import spark_work
from sfumato.data.aggregates import Names
from sfumato.data.arrow_records import learn_schema, numbered, sorted_by_id, to_rows, to_table, with_ids
from sfumato.data.columns import Column
from sfumato.data.engine import Engine, Groups, Reduction, RowFunction, Rows, SortKeys, SqlEngine
from sfumato.data.spark_work import Batches
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.formats.contents import refuse_kinds
from sfumato.schema.attribute import RECORD_ID
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Errors across Spark: a sentence raised on a worker comes back as it was; anything else loses the values it may quote.


def send_back(kind: str, message: str) -> NoReturn:
    """Raise on a worker; the driver finds the sentence in Spark's report by its mark."""
    raise RuntimeError("sfumato " + json.dumps({"kind": kind, "message": message})) from None


@contextmanager
def plain_spark_words() -> Iterator[None]:
    """Turn what Spark raises, which may quote a value, into a sentence that does not."""
    from pyspark.errors import PySparkException

    kinds: list[type[Exception]] = [PySparkException, pa.ArrowException]
    with suppress(ImportError):  # a client of Spark Connect has no Java
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        kinds.append(Py4JError)
    try:
        yield
    except tuple(kinds) as error:
        raise _error_in_plain_words(error) from None


def _error_in_plain_words(error: Exception) -> SfumatoError:
    report = str(error)
    if found := re.search(r'sfumato (\{"kind": .*\})', report):
        sent = json.loads(found[1])
        kind = getattr(sfumato.errors, sent["kind"], DataError)
        return kind(sent["message"])
    if "No module named 'sfumato'" in report:
        return DataError(
            "Python on Spark's workers does not find sfumato. Install it there, or ship it with the session, "
            "for example with spark.submit.pyFiles or an archive of the environment."
        )
    if "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in report or "Checkpoint block" in report:
        return DataError("Spark lost an executor that held part of the data. Call setCheckpointDir, and open it again.")
    getter = getattr(error, "getCondition", None)
    condition = (getter() if getter else None) or type(error).__name__
    if condition == "PATH_ALREADY_EXISTS":
        return DataError("the folder to write to exists already. Choose a new one, or remove it first.")
    return DataError(f"Spark could not finish the work ({condition}). Spark's log says why.")


_ORDER = "__sfumato_order__"
_KEEP_ORDER = {"FileSourceScanExec", "LocalTableScanExec", "RDDScanExec", "RangeExec", "InMemoryTableScanExec"}
"""Sources that give the same records in the same order every time, if Spark calls what it computes determinate."""


class SparkEngine(SqlEngine):
    """Records in a Spark DataFrame.

    The id of a record is its position in the order of Spark's partitions: the row number, for a frame made from local
    data or read from one file (a folder of several files is in Spark's order, not in that of their names).

    Spark computes a partition again whenever it needs it, so ids can only be trusted where this gives the same records
    in the same order. A frame whose plan promises it (a scan of files or local data, with filters and new columns) is
    read where it is. Any other frame (after a join, a group-by, a sort or a repartition; from a database; every frame
    on Spark Connect) is first made firm by a checkpoint: in the folder named by `SparkContext.setCheckpointDir`, or
    else on the executors' disks; if such an executor is lost, Spark stops rather than give its ids to other records.
    Every pass also checks that each partition has as many records as when the frame was opened.

    The function given to `map_batches` or `reduce` travels to the executors, where Python must find sfumato, NumPy and
    pyarrow. Categories are stored as text, and unsigned numbers as the next larger signed ones.
    """

    name = "Spark"

    def __init__(self, frame: DataFrame, schema: pa.Schema, starts: Whole | None, by_id: bool = True) -> None:
        self._frame = frame
        self._schema = schema  # without the ids
        self._starts = starts
        """First id of each partition, and the number of records; None when the frame has the ids as a column."""
        self._by_id = by_id
        """Whether records come in the order of their ids; not once they were sorted by something else."""

    @classmethod
    def from_frame(cls, frame: DataFrame) -> SparkEngine:
        """Open a Spark frame; one pass counts the records of each partition."""
        if frame.isStreaming:
            raise DataError("the Spark frame is a stream without an end. Write it to a table, and open the table.")
        if not frame.columns:
            raise DataError("the Spark frame has no columns.")
        if not hasattr(frame, "mapInArrow"):
            raise DataError("this Spark cannot run Python functions on Arrow data (mapInArrow). Use Spark 4 or later.")
        with plain_spark_words():
            schema = frame.limit(0).toArrow().schema
            firm = frame if _repeatable(frame) else _checkpointed(frame)
            found = run_work(firm, [0], spark_work.partition_counts, "partition int, records bigint").collect()
            size = 1 + max((row.partition for row in found), default=-1)
            starts = np.zeros(size + 1, np.int64)
            for row in found:
                starts[row.partition + 1] += row.records
            return cls(firm, schema, np.cumsum(starts))

    @override
    def count(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        if self._starts is not None:
            return int(self._starts[-1])
        with plain_spark_words():
            return self._frame.count()

    def batches(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield the records in order, one partition at a time; at least one piece. They come to this process."""
        made = False
        with plain_spark_words():
            parcels = self._each(spark_work.packed, self.check_columns(columns), "records binary").toLocalIterator()
        while True:
            with plain_spark_words():
                row = next(parcels, None)
            if row is None:
                break
            made = True
            yield to_rows(pa.ipc.open_stream(row.records).read_all())
        if not made:
            yield self._empty(columns)

    def collect(self, columns: Sequence[str]) -> Rows:
        """Bring these columns of all records into memory, in id order, or in the one they were given."""
        names = self.check_columns(columns)
        with plain_spark_words():
            table = self._with_ids(names).toArrow().rename_columns([RECORD_ID, *names])
        return to_rows(sorted_by_id(table) if self._by_id else table)

    def _with_ids(self, names: list[str]) -> DataFrame:
        """Plan a frame of the ids and some columns."""
        if self._starts is None:
            return _picked(self._frame, [0, *(1 + i for i in self._places(names))])
        schema = with_ids(pa.schema([self._schema.field(n) for n in names]))
        return self._each(spark_work.unchanged, names, _spark_schema(schema))

    def map_batches(self, function: RowFunction) -> SparkEngine:
        """Apply a function to every piece, on the executors, when the result is needed.

        Like everything in Spark this is a plan: the function runs again for each use of the result, so it must give the
        same answer each time.
        """
        made = learn_schema(function, self._schema)
        schema = pa.schema([pa.field(f.name, _spark_type(f.type)) for f in made])

        def work(pieces: Iterator[Rows]) -> Batches:
            for rows in pieces:
                yield from to_table(function(rows), schema).to_batches()

        with plain_spark_words():
            frame = self._each(work, list(self.kinds), _spark_schema(with_ids(schema)))
        return SparkEngine(frame, schema, None, self._by_id)

    @override
    def query(self, write: Callable[[Names], str]) -> pa.Table:
        with plain_spark_words():
            return self._planned(write).toArrow()

    def _planned(self, write: Callable[[Names], str]) -> DataFrame:
        """Plan SQL on the table `records`."""
        places: dict[str, str] = {}
        sql = write(lambda name: places.setdefault(name, f"x{len(places)}"))
        names = self.check_columns([name for name in places if name != RECORD_ID])
        if RECORD_ID in places:
            return run_sql(self._with_ids(names).toDF(places[RECORD_ID], *(places[name] for name in names)), sql)
        shift = 0 if self._starts is not None else 1  # where the frame has the ids as its first column
        frame = _picked(self._frame, [shift + i for i in self._places(names)] or [0])
        return run_sql(frame.toDF(*([places[name] for name in names] or ["one"])), sql)

    def cross(
        self,
        other: Engine,
        columns: Sequence[str],
        widths: Mapping[str, float] | None = None,
        most: int = 10**7,
        gaps: Mapping[str, Sequence[float]] | None = None,
    ) -> Groups | None:
        """Let Spark join two files on their hidden ids, and count the combinations of values before and after."""
        if not isinstance(other, SparkEngine):
            return None
        names = self.check_columns(columns)
        primed = [f"{name}′" for name in other.check_columns(columns)]
        wide, coded = dict(widths or {}), dict(gaps or {})
        with plain_spark_words():
            before, after = self._with_ids(names), other._with_ids(names)
            before = before.toDF("id", *(f"b{i}" for i in range(len(names))))
            after = after.toDF("id", *(f"a{i}" for i in range(len(names))))
            fields = [self._schema.field(n) for n in names]
            fields += [other._schema.field(n).with_name(p) for n, p in zip(names, primed, strict=True)]
            both = SparkEngine(before.join(after, "id"), pa.schema(fields), None, by_id=False)
            wide |= {f"{name}′": width for name, width in wide.items()}
            coded |= {f"{name}′": codes for name, codes in coded.items()}
            wanted = both.grouping([*names, *primed], [], wide, coded)
            table = both._planned(wanted.sql).limit(most + 1).toArrow()
        if table.num_rows > most:
            raise DataError(
                f"the records have more than {most:,} combinations of values before and after, too many to count one by one. "
                "Name fewer columns, or give numbers a precision."
            )
        return Groups.from_table(table, wanted)

    def reorder(self, keys: SortKeys) -> SparkEngine:
        """Let Spark sort the records by a number per id."""
        keyed = self.map_batches(
            lambda rows: Rows(rows.ids, {**rows.columns, _ORDER: Column.from_numbers(keys(rows.ids))})
        )
        schema = pa.schema([f for f in keyed._schema if f.name != _ORDER])
        with plain_spark_words():
            return SparkEngine(keyed._frame.sort(_ORDER).drop(_ORDER), schema, None, by_id=False)

    def reduce(self, function: Reduction, columns: Sequence[str]) -> Numbers:
        """Apply a function to every piece, on the executors, and add the arrays it returns, in order of partitions."""

        def work(pieces: Iterator[Rows]) -> Batches:
            return spark_work.partial_sum(function(rows) for rows in pieces)

        with plain_spark_words():
            total = spark_work.whole_sum(
                self._each(work, self.check_columns(columns), spark_work.PARTIAL_SUM).collect()
            )
        return np.asarray(function(self._empty(columns)), np.float64) if total is None else total

    def write(self, path: str, form: str) -> None:
        """Write as Spark does: a new folder of part files, written by the executors, in the order of the records.

        `path` may be anything that the cluster can write to (hdfs://, s3a://, a shared disk). A folder that exists is
        refused, not replaced. Every CSV part has a header line; text that needs it is in double quotes, with quotes
        inside doubled; numbers have as many digits as it takes to read back exactly the same number.
        """
        if form not in ("csv", "parquet"):
            raise ParameterError(f"'{form}' is not a form that Spark writes here; it writes csv and parquet.")
        if form == "csv":
            refuse_kinds(self._schema.empty_table(), "CSV")
        writer = self.native().write.mode("errorifexists")
        with plain_spark_words():
            if form == "parquet":
                writer.parquet(path)
            else:
                # Spark's own defaults escape quotes with a backslash and cut blanks off text
                writer.csv(path, header=True, escape='"', ignoreLeadingWhiteSpace=False, ignoreTrailingWhiteSpace=False)

    @override
    def guess(self) -> Schema:
        with plain_spark_words():
            return super().guess()

    def native(self) -> DataFrame:
        """Return a Spark frame without the hidden ids."""
        return self._frame if self._starts is not None else self._frame.drop(RECORD_ID)

    def _places(self, names: Sequence[str]) -> list[int]:
        return [self._schema.names.index(n) for n in names]

    def _empty(self, columns: Sequence[str]) -> Rows:
        return numbered(pa.schema([self._schema.field(n) for n in self.check_columns(columns)]).empty_table(), 0)

    def _each(self, work: Callable[[Iterator[Rows]], Batches], names: list[str], schema: StructType | str) -> DataFrame:
        """Plan work on the records of each partition, with these columns only."""
        starts = self._starts

        def prepared(batches: Batches) -> Batches:
            if starts is None:
                return work(to_rows(spark_work.named_table(b, [RECORD_ID, *names])) for b in batches)
            return work(spark_work.counted((spark_work.named_table(b, names) for b in batches), starts))

        if starts is None:
            return run_work(self._frame, [0, *(1 + i for i in self._places(names))], prepared, schema)
        return run_work(self._frame, self._places(names) or [0], prepared, schema)


def run_work(
    frame: DataFrame, places: list[int], work: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Plan work on the Arrow batches of some columns, on the executors; its errors come back without data values."""

    def careful(batches: Batches) -> Batches:
        try:
            yield from work(batches)
        except SfumatoError as error:
            send_back(type(error).__name__, str(error))
        except Exception as error:
            send_back(
                "DataError",
                f"the function stopped with a {type(error).__name__} on one of Spark's workers. "
                "Try it on a few of the records in memory to see where.",
            )

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return _picked(frame, places).mapInArrow(careful, schema)


def run_sql(frame: DataFrame, sql: str) -> DataFrame:
    """Plan a query on a frame that it calls `records`."""
    text = sql.replace("{", "{{").replace("}", "}}").replace("FROM records", "FROM {records}")
    return frame.sparkSession.sql(text, records=frame)


def _picked(frame: DataFrame, places: list[int]) -> DataFrame:
    # by position: Spark reads a dot in a name as a part of a column, and does not tell A from a
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).select(*(f"c{i}" for i in places))


def _repeatable(frame: DataFrame) -> bool:
    """Whether Spark gives the same records in the same partitions and order each time it computes them."""
    java = getattr(frame, "_jdf", None)
    if java is None:  # Spark Connect does not show the plan
        return False
    execution = java.queryExecution()
    leaves = execution.executedPlan().collectLeaves()
    names = {leaves.apply(i).getClass().getSimpleName() for i in range(leaves.size())}
    # a plan that Spark adapts while it runs is a leaf of its own, and would run if asked for its RDD
    return names <= _KEEP_ORDER and execution.toRdd().outputDeterministicLevel().toString() == "DETERMINATE"


def _checkpointed(frame: DataFrame) -> DataFrame:
    java = getattr(frame, "_jdf", None)
    if java is not None and frame.sparkSession.sparkContext.getCheckpointDir() is not None:
        return frame.checkpoint()
    return frame.localCheckpoint()


def _spark_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the nearest Arrow type that Spark has, without losing a value."""
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    nearest = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
        pa.string_view(): pa.string(),
    }
    return nearest.get(arrow_type, arrow_type)


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema:
        try:
            fields.append(StructField(field.name, from_arrow_type(field.type), nullable=True))
        except Exception:  # pyspark raises a class of its own for each version
            raise DataError(f"Spark has no type for the values of column '{field.name}' ({field.type}).") from None
    return StructType(fields)


def read_folder(spark: SparkSession, path: str | Path) -> DataFrame:
    """Return the records of one Parquet folder, and of no other: Spark would take x[1] for a pattern that means x1."""
    return spark.read.option("__globPaths__", "false").parquet(str(path))
