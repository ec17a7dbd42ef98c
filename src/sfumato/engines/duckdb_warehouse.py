"""A warehouse in one Parquet file, read by DuckDB in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.duckdb import connect, parquet, plain_words, written
from sfumato.engines.warehouse import ArrayReduction, Warehouse, arrays_of
from sfumato.kernels.blas import one_thread

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
        with plain_words(), self._connection.cursor() as cursor:
            return cursor.sql(f"SELECT * FROM ({sql}) LIMIT {most}").to_arrow_table()  # noqa: S608 - ours, see Warehouse

    def reduce(self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE") -> NDArray[np.float64]:
        """Apply a function to every piece of the records that a condition selects, and add what it returns.

        Pieces are worked on by two threads and added in their order: the same question gives the same sum, bit by bit.
        """
        listed = ", ".join(columns)
        with plain_words(), one_thread(), self._connection.cursor() as cursor:
            reader = cursor.sql(f"SELECT {listed} FROM records WHERE {where}").to_arrow_reader(_ROWS)  # noqa: S608
            empty = reader.schema.empty_table()
            pieces = chain([arrays_of(empty)], (arrays_of(batch) for batch in reader))
            total: NDArray[np.float64] | None = None
            for part in _in_order(function, pieces):
                total = part if total is None else total + part
        assert total is not None  # noqa: S101 - the empty piece
        return total


def _in_order(
    function: ArrayReduction, pieces: Iterator[dict[str, NDArray[np.float64]]]
) -> Iterator[NDArray[np.float64]]:
    """Yield what a function makes of each piece, in order, a few pieces ahead."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[NDArray[np.float64]]] = deque()
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
