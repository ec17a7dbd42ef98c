"""What every engine can do. An engine is the only place that knows where the data live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.columns import Column, Kind
from sfumato.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_ID = "__sfumato_record_id__"
"""Name of the hidden record id where an engine has to store it as a column; never released."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some records in memory: hidden ids (int64, shape n; negative for simulated records) and columns of length n."""

    ids: NDArray[np.int64]
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[Any]) -> Rows:
        """Return the records at row numbers, or where a mask is true."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return Rows(self.ids[rows], {name: column.take(rows) for name, column in self.columns.items()})

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table, without the ids."""
        import pyarrow as pa

        return pa.table({name: column.arrow for name, column in self.columns.items()})


RowFunction = Callable[[Rows], Rows]
SortKeys = Callable[[NDArray[np.int64]], NDArray[np.float64]]
Reduction = Callable[[Rows], NDArray[np.float64]]


class Engine(ABC):
    """A set of records somewhere. Immutable: every operation returns another engine or an answer.

    Records keep their hidden id through `map_batches`; ids are positions at load, so that the same file gives the
    same ids on every engine.
    """

    name: str
    """Where the data live, in a word: "memory", "DuckDB", "Spark"."""

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, Kind]:
        """Column names in order, and what sort of values each holds."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield the records in pieces that fit in memory, with these columns only."""

    @abstractmethod
    def collect(self, columns: Sequence[str]) -> Rows:
        """Bring these columns of all records into memory: in id order, or in their own order if they are there already."""

    @abstractmethod
    def map_batches(self, function: RowFunction) -> Engine:
        """Apply a function to every piece of the data, where the data live.

        The function sees every column. It is tried on zero records first, to learn the columns that come out.
        """

    @abstractmethod
    def reduce(self, function: Reduction, columns: Sequence[str]) -> NDArray[np.float64]:
        """Apply a function to every piece and add the arrays it returns."""

    @abstractmethod
    def reorder(self, keys: SortKeys) -> Engine:
        """Return the records sorted by a number that `keys` gives for their ids: `batches` and `write` go by that order."""

    @abstractmethod
    def write(self, path: str, form: str) -> None:
        """Write the data, without the hidden ids, as "csv" or "parquet", piece by piece."""

    def hold(self, rows: Rows) -> Engine:
        """Return these records in memory; they leave as the kind of frame that this engine's data came in as, if it is local."""
        from sfumato.engines.local import LocalEngine

        return LocalEngine(rows)

    @abstractmethod
    def native(self) -> Any:
        """Return a frame of the kind that came in, without the hidden ids."""

    def known(self, columns: Sequence[str]) -> list[str]:
        """Return the column names, each once, or refuse the first that is not in the data."""
        for name in columns:
            if name not in self.kinds:
                raise DataError(unknown_name("column", name, self.kinds, "the data"))
        return list(dict.fromkeys(columns))
