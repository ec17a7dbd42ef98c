"""What every engine can do, and data in this process's memory. Nothing else knows where the data live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.data.aggregates import (
    Aggregate,
    Aggregation,
    ColumnNumber,
    ColumnValue,
    Expression,
    Interval,
    Names,
    largest_sql,
)
from sfumato.data.columns import Column, Kind, kind_of, visible_only
from sfumato.errors import DataError, refuse_unknown
from sfumato.lazy import pa
from sfumato.schema.attribute import RECORD_ID, Attribute
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers, Whole


@dataclass(frozen=True, eq=False)
class Rows:
    """Some records in memory: hidden ids (int64, shape n; negative for simulated records) and columns of length n."""

    ids: Whole
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[Any]) -> Rows:
        """Return the records at row numbers, or where a mask is true."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return Rows(self.ids[rows], {name: column.take(rows) for name, column in self.columns.items()})

    def to_arrow(self) -> pa.Table:
        """Return the columns as an Arrow table, without the ids: the way out for every file and frame.

        The table holds the values of these records and nothing else: see `visible_only`.
        """
        return pa.table({name: visible_only(column.arrow) for name, column in self.columns.items()})


@dataclass(frozen=True, eq=False)
class Groups:
    """The combinations of values that some columns take: each once, in no particular order, c of them."""

    columns: Mapping[str, Column]
    """The values of each combination, columns of length c; NaN is null."""
    counts: Whole
    """How many records have it, shape (c,)."""
    sums: Mapping[str, Numbers]
    """Sums over those records of the columns that were asked for, shape (c,)."""

    @classmethod
    def from_table(cls, table: pa.Table, wanted: Aggregation) -> Groups:
        """Take the answer to an aggregation."""
        columns = {name: Column(table.column(i)) for i, name in enumerate(wanted.by)}
        arrays = {name: to_array(table.column(name)) for name in table.column_names[len(columns) :]}
        return cls(columns, np.asarray(arrays["n"], np.int64), wanted.read(arrays))


def to_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of an engine's answer as an array; missing numbers are NaN."""
    if pa.types.is_decimal(column.type):  # sums of whole numbers in DuckDB
        column = column.cast(pa.int64())
    whole = column.combine_chunks()
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if number and isinstance(whole, pa.Array) and not whole.null_count:
        return np.from_dlpack(whole)  # Arrow's own way to NumPy loads pandas: as long as a small question takes
    found: NDArray[Any] = column.to_numpy()
    return found


RowFunction = Callable[[Rows], Rows]
SortKeys = Callable[[Whole], Numbers]
Reduction = Callable[[Rows], Numbers]


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
    def reduce(self, function: Reduction, columns: Sequence[str]) -> Numbers:
        """Apply a function to every piece and add the arrays it returns."""

    def group(
        self,
        columns: Sequence[str],
        sums: Sequence[str] = (),
        widths: Mapping[str, float] | None = None,
        gaps: Mapping[str, Sequence[float]] | None = None,
    ) -> Groups:
        """Count the records that agree on all these columns, where the data live; add up some columns of numbers.

        A column of numbers with a width w is grouped by floor(value / w); its numbers in `gaps` stand for missing, and are
        null.
        """
        wanted = self.grouping(columns, sums, widths or {}, gaps or {})
        return self.aggregate(wanted)

    def grouping(
        self,
        columns: Sequence[str],
        sums: Sequence[str],
        widths: Mapping[str, float],
        gaps: Mapping[str, Sequence[float]],
    ) -> Aggregation:
        """Return what `group` asks for."""
        by = {
            name: Interval(ColumnNumber(Attribute(name, missing=tuple(gaps.get(name, ())))), float(widths[name]))
            if name in widths
            else self.category(name)
            for name in self.check_columns(columns)
        }
        return Aggregation(by, {name: Aggregate(ColumnNumber(Attribute(name))) for name in self.check_columns(sums)})

    def category(self, name: str, missing: Sequence[object] = ()) -> ColumnValue:
        """Return a column as something to group by; some codes of it stand for missing."""
        kind = self.kinds[name]
        return ColumnValue(name, kind, self.floating(name), tuple(missing))

    @abstractmethod
    def floating(self, name: str) -> bool:
        """Return whether a column holds floating-point numbers."""

    @abstractmethod
    def aggregate(self, wanted: Aggregation) -> Groups:
        """Aggregate the records where they live; only groups come to this process."""

    def cross(
        self,
        other: Engine,
        columns: Sequence[str],
        widths: Mapping[str, float] | None = None,
        most: int = 10**7,
        gaps: Mapping[str, Sequence[float]] | None = None,
    ) -> Groups | None:
        """Count the records that are in two files by the values of some columns in both; None where that is done by record.

        Those of the other file are named with a prime (``zip′``). Only a cluster does this; more than `most` combinations are
        refused.
        """
        return None

    @abstractmethod
    def reorder(self, keys: SortKeys) -> Engine:
        """Return the records sorted by a number that `keys` gives for their ids: `batches` and `write` go by that order."""

    @abstractmethod
    def write(self, path: str, form: str) -> None:
        """Write the data, without the hidden ids, as "csv" or "parquet", piece by piece."""

    def hold(self, rows: Rows) -> Engine:
        """Return these records in memory; they leave as the kind of frame that this engine's data came in as, if it is local."""
        return LocalEngine(rows)

    @abstractmethod
    def native(self) -> Any:
        """Return a frame of the kind that came in, without the hidden ids."""

    def guess(self) -> Schema:
        """Return the schema that the columns look like, found where the data live."""
        return Schema.guess(self.native())

    def check_columns(self, columns: Sequence[str]) -> list[str]:
        """Return the column names, each once, or refuse the first that is not in the data."""
        refuse_unknown("column", self.kinds, "the data", *columns, error=DataError)
        return list(dict.fromkeys(columns))


class SqlEngine(Engine):
    """Records that are asked for in SQL, where they live."""

    _schema: pa.Schema

    @override
    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        return {f.name: kind_of(f.type) for f in self._schema if f.name != RECORD_ID}

    @override
    def floating(self, name: str) -> bool:
        return bool(pa.types.is_floating(self._schema.field(name).type))

    @abstractmethod
    def query(self, write: Callable[[Names], str]) -> pa.Table:
        """Run SQL on the table `records`; `write` is given what the engine calls the columns of the data.

        One of the columns is the hidden id (`RECORD_ID`).
        """

    @override
    def aggregate(self, wanted: Aggregation) -> Groups:
        return Groups.from_table(self.query(wanted.sql), wanted)

    def largest(self, wanted: Aggregation, first: Expression, count: int) -> Groups:
        """Return those `count` records of every group that have the largest values of an expression, of equal ones the first.

        Each is a group of its own, with the expressions that the aggregation measures.
        """

        def write(names: Names) -> str:
            by = {f"c{i}": one.sql(names) for i, one in enumerate(wanted.by.values())}
            measures = {f"m{i}": one.text(names) for i, one in enumerate(wanted.measures.values())}
            kept = {**by, "n": "1", **measures}
            value, own, where = first.sql(names), names(RECORD_ID), wanted.where.condition(names)
            return largest_sql(list(by.values()), value, own, kept, count, where)

        return Groups.from_table(self.query(write), wanted)


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

    @override
    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        return {name: column.kind for name, column in self.rows.columns.items()}

    @override
    def count(self) -> int:
        return len(self.rows)

    def batches(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield all records at once: they are in memory already."""
        yield self.collect(columns)

    def collect(self, columns: Sequence[str]) -> Rows:
        """Return these columns of all records."""
        return Rows(self.rows.ids, {name: self.rows.columns[name] for name in self.check_columns(columns)})

    def map_batches(self, function: RowFunction) -> LocalEngine:
        """Apply a function to all records."""
        return self.hold(function(self.rows))

    @override
    def floating(self, name: str) -> bool:
        arrow_type = self.rows.columns[name].arrow.type
        return bool(pa.types.is_floating(getattr(arrow_type, "value_type", arrow_type)))

    @override
    def aggregate(self, wanted: Aggregation) -> Groups:
        return Groups.from_table(wanted.arrow(self.rows), wanted)

    def reorder(self, keys: SortKeys) -> LocalEngine:
        """Return the records sorted by a number per id."""
        return self.hold(self.rows.take(np.argsort(keys(self.rows.ids), kind="stable")))

    def reduce(self, function: Reduction, columns: Sequence[str]) -> Numbers:
        """Apply a function to all records."""
        return function(self.collect(columns))

    def write(self, path: str, form: str) -> None:
        """Write as CSV or Parquet."""
        from sfumato.formats.arrow_files import write_table

        write_table(self.rows.to_arrow(), path, form)

    def hold(self, rows: Rows) -> LocalEngine:
        """Return other records in memory, of the same kind of frame."""
        return LocalEngine(rows, self._to_native)

    @override
    def guess(self) -> Schema:
        return Schema.guess(self.rows.to_arrow())

    def native(self) -> Any:
        """Return a frame of the kind that came in."""
        table = self.rows.to_arrow()
        return table if self._to_native is None else self._to_native(table)
