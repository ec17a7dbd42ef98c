"""Prepared records that are only ever asked for aggregates, in SQL that DuckDB and Spark both understand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import Engine, RowFunction
from sfumato.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Arrays = Mapping[str, NDArray[Any]]
"""Columns of some records, or of the rows of an aggregate, by name."""
ArrayReduction = Callable[[Arrays], NDArray[np.float64]]

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
        return {name: _array(table.column(name)) for name in table.column_names}

    @abstractmethod
    def _run(self, sql: str, most: int) -> pa.Table:
        """Return at most so many rows of a query."""

    @abstractmethod
    def reduce(self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE") -> NDArray[np.float64]:
        """Apply a function to every piece of the records that a condition selects, and add what it returns.

        It is called at least once, with no records if none are selected. Columns come as NumPy arrays.
        """


def _array(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_decimal(kind):  # sums of whole numbers in DuckDB
        column = column.cast(pa.int64())
    whole = column.combine_chunks()
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and isinstance(whole, pa.Array) and not whole.null_count:
        return np.from_dlpack(whole)  # Arrow's own way to NumPy loads pandas: as long as a small question takes
    found: NDArray[Any] = column.to_numpy()
    return found


def arrays_of(batch: pa.RecordBatch | pa.Table) -> dict[str, NDArray[Any]]:
    """Return the columns of a piece as NumPy arrays, without copying where Arrow allows it."""
    out: dict[str, NDArray[Any]] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        out[name] = column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy()
    return out


def build(engine: Engine, function: RowFunction, columns: Sequence[str], path: Path) -> None:
    """Write what a function makes of every piece of the data as the records of a warehouse, whole or not at all.

    Data in Spark become a folder that Spark wrote, from where they live; all others one Parquet file.
    """
    from sfumato.engines.spark import SparkEngine

    if isinstance(engine, SparkEngine):
        engine.map_batches(function).write(str(path), "parquet")
        return
    from sfumato.engines.duckdb_warehouse import write_parquet
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
        from sfumato.engines.duckdb_warehouse import DuckDBWarehouse

        return DuckDBWarehouse(path)
    if spark is None:
        raise DataError("this data set lives in Spark. Open the vault with a Spark session (spark=...).")
    from sfumato.engines.spark import read_folder
    from sfumato.engines.spark_warehouse import SparkWarehouse

    return SparkWarehouse(read_folder(spark, path))
