"""A warehouse in Spark: the sums are made on the executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.spark import run_work
from sfumato.engines.spark_errors import plain_words
from sfumato.engines.spark_work import PARTIAL_SUM, Batches, named_table, partial_sum, whole_sum
from sfumato.engines.warehouse import ArrayReduction, Warehouse, arrays_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkWarehouse(Warehouse):
    """Records in a Spark frame; the same SQL as in DuckDB."""

    name = "Spark"

    def __init__(self, frame: DataFrame) -> None:
        super().__init__()
        self._frame = frame
        self.columns = tuple(frame.columns)

    def _run(self, sql: str, most: int) -> pa.Table:
        text = f"SELECT * FROM ({sql}) LIMIT {most}".replace("FROM records", "FROM {records}")  # noqa: S608 - ours
        with plain_words():
            return self._frame.sparkSession.sql(text, records=self._frame).toArrow()

    def reduce(self, function: ArrayReduction, columns: Sequence[str], where: str = "TRUE") -> NDArray[np.float64]:
        """Apply a function to every piece that a condition selects, on the executors, and add in order of partitions."""
        names = list(columns)

        def work(batches: Batches) -> Batches:
            return partial_sum(function(arrays_of(named_table(batch, names))) for batch in batches)

        with plain_words():
            frame = self._frame.where(where).select(*names)
            found = run_work(frame, list(range(len(names))), work, PARTIAL_SUM).collect()
            total = whole_sum(found)
            if total is None:
                total = np.asarray(function(arrays_of(frame.limit(0).toArrow())), np.float64)
        self.crossed += len(found)
        return total
