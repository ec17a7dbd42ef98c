"""Data in this process's memory: Arrow columns, whatever frame they came in as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import Engine, Reduction, RowFunction, Rows, SortKeys
from sfumato.engines.columns import Column, Kind

if TYPE_CHECKING:
    import pyarrow as pa


class LocalEngine(Engine):
    """Records in memory."""

    name = "memory"

    def __init__(self, rows: Rows, to_native: Callable[[pa.Table], Any] | None = None) -> None:
        self.rows = rows
        self._to_native = to_native

    @classmethod
    def from_arrow(cls, table: pa.Table, to_native: Callable[[pa.Table], Any] | None = None) -> LocalEngine:
        """Hold an Arrow table; record ids are its row positions."""
        columns = {name: Column(table.column(i)) for i, name in enumerate(table.column_names)}
        return cls(Rows(np.arange(table.num_rows, dtype=np.int64), columns), to_native)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names in order, and what sort of values each holds."""
        return {name: column.kind for name, column in self.rows.columns.items()}

    def count(self) -> int:
        """Return the number of records."""
        return len(self.rows)

    def batches(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield all records at once: they are in memory already."""
        yield self.collect(columns)

    def collect(self, columns: Sequence[str]) -> Rows:
        """Return these columns of all records."""
        return Rows(self.rows.ids, {name: self.rows.columns[name] for name in self.known(columns)})

    def map_batches(self, function: RowFunction) -> LocalEngine:
        """Apply a function to all records."""
        return self.hold(function(self.rows))

    def reorder(self, keys: SortKeys) -> LocalEngine:
        """Return the records sorted by a number per id."""
        return self.hold(self.rows.take(np.argsort(keys(self.rows.ids), kind="stable")))

    def reduce(self, function: Reduction, columns: Sequence[str]) -> NDArray[np.float64]:
        """Apply a function to all records."""
        return function(self.collect(columns))

    def write(self, path: str, form: str) -> None:
        """Write as CSV or Parquet."""
        from sfumato.engines.formats.arrow_files import write_table

        write_table(self.rows.to_arrow(), path, form)

    def hold(self, rows: Rows) -> LocalEngine:
        """Return other records in memory, of the same kind of frame."""
        return LocalEngine(rows, self._to_native)

    def native(self) -> Any:
        """Return a frame of the kind that came in."""
        table = self.rows.to_arrow()
        return table if self._to_native is None else self._to_native(table)
