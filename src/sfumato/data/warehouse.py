"""Prepared records that are only ever asked for aggregates, in SQL that DuckDB and Spark both understand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.data.duckdb_engine import connect, interruptible_connection, parquet, plain_words, written
from sfumato.data.engine import Engine, RowFunction, to_array
from sfumato.data.spark_engine import plain_spark_words, run_sql, run_work
from sfumato.data.spark_work import PARTIAL_SUM, Batches, named_table, partial_sum, whole_sum
from sfumato.errors import DataError
from sfumato.kernels.moments import one_thread
from sfumato.typing import Numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Arrays = Mapping[str, NDArray[Any]]
"""Columns of some records, or of the rows of an aggregate, by name."""
ArrayReduction = Callable[[Arrays], Numbers]

MOST = 2_000_000
"""An answer with more rows than this is no aggregate."""


class Warehouse(ABC):
    """A table called `records` somewhere.

    The two ways in are an aggregate in SQL, and a sum of what a function makes of each piece of the data where the data live.
    What comes out is counted: `crossed` is the number of rows of aggregates that left the engine so far. The SQL is written
    by this package alone, never by a user: plain names of columns, numbers, and functions that both engines have.
    """

    name: str
    """Where the records live, in a word."""
    columns: tuple[str, ...]

    def __init__(self) -> None:
        self.crossed = 0

    def ask(self, sql: str, most: int = MOST) -> dict[str, NDArray[Any]]:
        """Return the columns of an aggregate as arrays; refuse more than `most` rows. Missing numbers are NaN."""
        table = self._run(sql, most + 1)
        if table.num_rows > most:
            raise DataError(
                f"the combinations of these variables are more than {most:,}, too many for one table. Use fewer variables, or "
                "coarser levels."
            )
        self.crossed += table.num_rows
        return {name: to_array(table.column(name)) for name in table.column_names}

    @abstractmethod
    def _run(self, sql: str, most: int) -> pa.Table:
        """Return at most `most` rows of a query."""

    @abstractmethod
    def reduce(
        self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE", together: str = ""
    ) -> Numbers:
        """Apply a function to every piece of the records that a condition selects, and add what it returns.

        It is called at least once, with no records if none are selected. Columns come as NumPy arrays. Records that have the same
        value of the column `together`, one of `columns`, follow one another in one piece.
        """


def arrays_of(batch: pa.RecordBatch | pa.Table) -> dict[str, NDArray[Any]]:
    """Return the columns of a piece as NumPy arrays, without copying where Arrow allows it."""
    out: dict[str, NDArray[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        out[name] = column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy()
    return out


def unbroken(pieces: Iterator[dict[str, NDArray[Any]]], column: str) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield sorted records in pieces that do not cut those with the same value of a column.

    >>> [p["h"].tolist() for p in unbroken(iter([{"h": np.array([1, 1, 2])}, {"h": np.array([2, 3])}]), "h")]
    [[1, 1], [2, 2], [3]]
    """
    held: dict[str, NDArray[Any]] | None = None
    for piece in pieces:
        whole = piece if held is None else {name: np.concatenate([held[name], piece[name]]) for name in piece}
        values = whole[column]
        start = int(np.searchsorted(values, values[-1])) if len(values) else 0
        if start:
            yield {name: one[:start] for name, one in whole.items()}
        held = {name: one[start:] for name, one in whole.items()}
    if held is not None:
        yield held


def build(engine: Engine, function: RowFunction, columns: Sequence[str], path: Path) -> None:
    """Write what a function makes of every piece of the data as the records of a warehouse, whole or not at all.

    Data in Spark become a folder that Spark wrote, from where they live; all others one Parquet file.
    """
    from sfumato.data.spark_engine import SparkEngine

    if isinstance(engine, SparkEngine):
        engine.map_batches(function).write(str(path), "parquet")
        return
    from sfumato.files import whole_file

    def made() -> Iterator[pa.Table]:
        for rows in engine.batches(list(columns)):
            yield function(rows).to_arrow()

    with whole_file(path, mode=0o600) as temporary:
        write_parquet(made(), temporary)


def open_warehouse(path: Path, spark: Any = None) -> Warehouse:
    """Open what `build` wrote: a file in DuckDB, a folder in the Spark session that is given."""
    if not path.exists():
        raise DataError(f"the records of this data set are gone from {path}.")
    if path.is_file():
        return DuckDBWarehouse(path)
    if spark is None:
        raise DataError("this data set lives in Spark. Open the vault with a Spark session (spark=...).")
    from sfumato.data.spark_engine import read_folder

    return SparkWarehouse(read_folder(spark, path))


_ROWS = 2**15
_THREADS = 2
_SMALL = 2**24
"""A file of no more bytes is read once, and held in memory."""


class DuckDBWarehouse(Warehouse):
    """Records in a Parquet file. Several threads may ask at the same time."""

    name = "DuckDB"

    def __init__(self, path: Path) -> None:
        super().__init__()
        with plain_words():
            self._connection = connect(path, memory_limit="3GB")
            kind = "TABLE" if path.stat().st_size <= _SMALL else "VIEW"
            self._connection.execute(f"CREATE {kind} records AS SELECT * FROM {parquet(path)}")  # noqa: S608 - quoted
            self.columns = tuple(self._connection.sql("SELECT * FROM records LIMIT 0").columns)

    def _run(self, sql: str, most: int) -> pa.Table:
        with plain_words(), interruptible_connection(self._connection.cursor()) as cursor:
            return cursor.sql(f"SELECT * FROM ({sql}) LIMIT {most}").to_arrow_table()  # noqa: S608 - ours, see Warehouse

    def reduce(
        self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE", together: str = ""
    ) -> Numbers:
        """Apply a function to every piece of the records that a condition selects, and add what it returns.

        Pieces are worked on by two threads and added in their order: the same question gives the same sum, bit by bit.
        """
        listed, order = ", ".join(columns), f" ORDER BY {together}, r" if together else ""
        with plain_words(), one_thread(), interruptible_connection(self._connection.cursor()) as cursor:
            reader = cursor.sql(f"SELECT {listed} FROM records WHERE {where}{order}").to_arrow_reader(_ROWS)  # noqa: S608
            empty = reader.schema.empty_table()
            read = (arrays_of(batch) for batch in reader)
            pieces = chain([arrays_of(empty)], unbroken(read, together) if together else read)
            total: Numbers | None = None
            for part in _in_order(function, pieces):
                total = part if total is None else total + part
        assert total is not None  # noqa: S101 - the empty piece
        return total


def _in_order(function: ArrayReduction, pieces: Iterator[dict[str, Numbers]]) -> Iterator[Numbers]:
    """Yield what a function makes of each piece, in order, a few pieces ahead."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[Numbers]] = deque()
        for piece in pieces:
            waiting.append(pool.submit(lambda p: np.asarray(function(p), np.float64), piece))
            if len(waiting) > _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def write_parquet(tables: Iterator[pa.Table], path: Path) -> None:
    """Write tables one after another to a file that DuckDB reads fast: small dictionaries, groups of its own size."""
    first = next(tables)
    reader = pa.RecordBatchReader.from_batches(
        first.schema, (batch for table in chain([first], tables) for batch in table.cast(first.schema).to_batches())
    )
    with plain_words(path.parent), connect(path) as connection:
        connection.register("source", reader)
        connection.execute(
            f"COPY (SELECT * FROM source) TO {written(path)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"  # noqa: S608
        )


class SparkWarehouse(Warehouse):
    """Records in a Spark frame; the same SQL as in DuckDB."""

    name = "Spark"

    def __init__(self, frame: DataFrame) -> None:
        super().__init__()
        self._frame = frame
        self.columns = tuple(frame.columns)

    def _run(self, sql: str, most: int) -> pa.Table:
        with plain_spark_words():
            return run_sql(self._frame, f"SELECT * FROM ({sql}) LIMIT {most}").toArrow()  # noqa: S608 - ours

    def reduce(
        self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE", together: str = ""
    ) -> Numbers:
        """Apply a function to every piece that a condition selects, on the executors, and add in order of partitions."""
        names = list(columns)

        def work(batches: Batches) -> Batches:
            pieces = (arrays_of(named_table(batch, names)) for batch in batches)
            return partial_sum(map(function, unbroken(pieces, together) if together else pieces))

        with plain_spark_words():
            frame = self._frame.where(where)
            if together:
                frame = frame.repartition(together).sortWithinPartitions(together, "r")
            frame = frame.select(*names)
            found = run_work(frame, list(range(len(names))), work, PARTIAL_SUM).collect()
            total = whole_sum(found)
            if total is None:
                total = np.asarray(function(arrays_of(frame.limit(0).toArrow())), np.float64)
        self.crossed += len(found)
        return total
