"""What runs on Spark's workers: Arrow batches in, records with their ids, Arrow batches out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data.arrow_records import numbered
from sfumato.data.engine import Rows
from sfumato.errors import DataError
from sfumato.schema.attribute import RECORD_ID
from sfumato.typing import Numbers, Whole

Batches = Iterator[pa.RecordBatch]


def named_table(batch: pa.RecordBatch, names: list[str]) -> pa.Table:
    """Return a batch as a table with its columns named; Spark sends them by position."""
    table = pa.Table.from_batches([batch])
    return table.rename_columns(names) if names else table.select([])


def partition_number() -> int:
    """Return the number of the partition that this worker works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("not on a Spark worker")
    return int(context.partitionId())


def partition_counts(batches: Batches) -> Batches:
    """Give the number of records of a partition."""
    records = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict(
        {"partition": pa.array([partition_number()], pa.int32()), "records": pa.array([records], pa.int64())}
    )


def counted(tables: Iterator[pa.Table], starts: Whole) -> Iterator[Rows]:
    """Give each record its position as id, and check that the partition is as it was when the frame was opened."""
    changed = DataError("the data behind the Spark frame changed after they were opened. Open them again.")
    partition = partition_number()
    if partition + 1 >= len(starts):
        if any(table.num_rows for table in tables):
            raise changed
        return
    position, end = int(starts[partition]), int(starts[partition + 1])
    for table in tables:
        if position + table.num_rows > end:
            raise changed
        yield numbered(table, position)
        position += table.num_rows
    if position != end:
        raise changed


def stored_table(rows: Rows) -> pa.Table:
    """Return records as a table, with the ids as a column."""
    return pa.table({RECORD_ID: rows.ids, **{name: column.arrow for name, column in rows.columns.items()}})


def unchanged(pieces: Iterator[Rows]) -> Batches:
    """Give the records as they are, with their ids."""
    for rows in pieces:
        yield from stored_table(rows).to_batches()


def packed(pieces: Iterator[Rows]) -> Batches:
    """Give the records packed, one piece to a row, so that their types survive the way to the driver."""
    for rows in pieces:
        table = stored_table(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        yield pa.RecordBatch.from_pydict({"records": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


PARTIAL_SUM = "partition int, shape array<bigint>, total binary"
"""Spark's schema of what `partial_sum` gives."""


def partial_sum(parts: Iterable[Numbers]) -> Batches:
    """Give the sum of the arrays of one partition; nothing, if there are none."""
    total: Numbers | None = None
    for part in parts:
        part = np.asarray(part, np.float64)
        total = part if total is None else total + part
    if total is not None:
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition_number()], pa.int32()),
                "shape": pa.array([total.shape], pa.list_(pa.int64())),
                "total": pa.array([total.tobytes()], pa.binary()),
            }
        )


def whole_sum(found: Iterable[Any]) -> Numbers | None:
    """Add the sums of all partitions in their order, so that the same data give the same sum; None, if there are none."""
    total: Numbers | None = None
    for row in sorted(found, key=lambda row: row.partition):
        part = np.frombuffer(row.total).reshape(row.shape)
        total = part.copy() if total is None else total + part
    return total
