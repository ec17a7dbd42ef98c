"""Data in DuckDB, read as a stream: they may be larger than memory."""

from __future__ import annotations

import json
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from sfumato.data.aggregates import Names
from sfumato.data.arrow_records import (
    learn_schema,
    numbered,
    pieces,
    sorted_by_id,
    stored_type,
    to_rows,
    to_table,
    with_ids,
    write_pieces,
)
from sfumato.data.columns import Column, Kind, impossible_dates, kind_of
from sfumato.data.engine import Reduction, RowFunction, Rows, SortKeys, SqlEngine
from sfumato.errors import DataError, join_names, repeated
from sfumato.files import full_disk, private_folder, remove_private
from sfumato.schema.attribute import RECORD_ID
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers

_ROWS = 2**17
"""Largest number of records of a piece."""
_CELLS = 2**22
"""Largest number of values of a piece: 32 MB of numbers."""

_ORDER = "__sfumato_order__"
_KEEP_ORDER = {
    "PARQUET_SCAN", "READ_PARQUET", "READ_CSV", "READ_CSV_AUTO", "SEQ_SCAN", "PANDAS_SCAN", "COLUMN_DATA_SCAN",
    "RANGE", "GENERATE_SERIES", "DUMMY_SCAN", "EMPTY_RESULT",
    "PROJECTION", "FILTER", "STREAMING_LIMIT", "STREAMING_WINDOW",
}  # fmt: skip
"""Steps of a plan that give the same records in the same order every time (DuckDB's manual, "Order Preservation")."""


class DuckDBEngine(SqlEngine):
    """Records behind a DuckDB relation, or in a private Parquet file that came out of one.

    The id of a record is its position in the relation. A relation that only scans files or tables is read again on
    every pass, so these must not change meanwhile. Any other relation (a join, a group-by, a sample, an Arrow stream)
    may give its rows in another order each time; it is run once, on opening, into the private file.

    Private files stand in a folder that only this user may read, under the system's folder for temporary files (set
    TMPDIR to move it), and are removed when the last engine or relation that reads them is gone. Columns that DuckDB
    stores as ENUM come out of `map_batches` as text.
    """

    name = "DuckDB"

    def __init__(self, relation: duckdb.DuckDBPyRelation, file: PrivateFile | None = None, by_id: bool = True) -> None:
        self._relation = relation
        self._file = file
        self._by_id = by_id
        """Whether records come in the order of their ids; not once they were sorted by something else."""

    @classmethod
    def from_relation(cls, relation: duckdb.DuckDBPyRelation) -> DuckDBEngine:
        """Open a relation of any connection."""
        engine = cls(relation)
        with plain_words():
            repeatable = _repeatable(relation)
        return engine if repeatable else engine.map_batches(lambda rows: rows)

    @classmethod
    def from_file(cls, path: str | Path, names: Sequence[str]) -> DuckDBEngine:
        """Open a Parquet file where it is; `names` are its columns that are taken, as Arrow reads them."""
        _check_capitals(names)
        with plain_words():
            relation = connect(path).sql(f"SELECT * FROM {parquet(path)}")  # noqa: S608 - quoted
        if missing := set(names) - set(relation.columns):
            raise DataError(f"DuckDB does not find {join_names(sorted(missing))} in {path}. Read the file into memory.")
        if list(relation.columns) != list(names):  # the row numbers of pandas
            relation = relation.select(", ".join(map(_quoted, names)))
        engine = cls.from_relation(relation)
        dates = [name for name, kind in engine.kinds.items() if kind is Kind.DATE]
        if dates:
            with plain_words():
                wrong = ", ".join(f"coalesce(bool_or(year({_quoted(n)}) NOT BETWEEN 1 AND 9999), false)" for n in dates)
                answers = relation.aggregate(wrong).fetchall()[0]
            if found := [name for name, answer in zip(dates, answers, strict=True) if answer]:
                raise impossible_dates(found[0])
        return engine

    @classmethod
    def from_pieces(cls, tables: Iterator[pa.Table], schema: pa.Schema) -> DuckDBEngine:
        """Store records that come in pieces in a private file; their ids are their positions."""
        _check_capitals(schema.names)
        schema = pa.schema([pa.field(f.name, stored_type(f.type)) for f in schema])
        rows = min(_ROWS, max(1, _CELLS // max(1, len(schema))))
        batches = (batch for table in tables for batch in table.to_batches())

        def stored() -> Iterator[pa.Table]:
            start = 0
            for piece in pieces(batches, schema, rows):
                yield to_table(numbered(piece, start), schema)
                start += piece.num_rows

        file = PrivateFile.write(stored(), schema)
        with plain_words():
            return cls(connect().sql("SELECT NULL AS nothing LIMIT 0"), file)

    @cached_property
    def _schema(self) -> pa.Schema:
        if self._file is not None:
            return self._file.schema
        with plain_words():
            return self._relation.limit(0).to_arrow_table().schema

    @override
    def count(self) -> int:
        if self._file is not None:
            return self._file.count
        with plain_words():
            return int(_query(self._relation, "SELECT count(*) FROM source").fetchall()[0][0])

    def batches(self, columns: Sequence[str]) -> Generator[Rows]:
        """Yield the records in order, in pieces of a fixed size, with these columns only; at least one piece.

        While such a pass over a relation is open, DuckDB can do nothing else on its connection.
        """
        names = self.check_columns(columns)
        rows = min(_ROWS, max(1, _CELLS // max(1, len(names))))
        if self._file is not None:
            yield from map(to_rows, self._file.pieces(names, rows))
            return
        with plain_words():
            reader = self._relation.select(", ".join(map(_quoted, names or list(self.kinds)[:1]))).to_arrow_reader(rows)
        start = 0
        try:
            for piece in pieces(_each(reader), reader.schema, rows):
                yield numbered(piece.select(names), start)
                start += piece.num_rows
        finally:
            reader.close()  # frees the connection when the caller stops halfway

    def collect(self, columns: Sequence[str]) -> Rows:
        """Bring these columns of all records into memory, in id order, or in the one they were given."""
        if self._file is not None:
            stored = self._file.read(self.check_columns(columns))
            return to_rows(sorted_by_id(stored) if self._by_id else stored)
        names = self.check_columns(columns)
        with plain_words():
            if not names:
                return Rows(np.arange(self.count(), dtype=np.int64), {})
            return numbered(self._relation.select(", ".join(map(_quoted, names))).to_arrow_table(), 0)

    def map_batches(self, function: RowFunction) -> DuckDBEngine:
        """Stream every piece through the function into a private Parquet file; memory is bounded by the piece."""
        schema = learn_schema(function, pa.schema([f for f in self._schema if f.name != RECORD_ID]))
        with closing(self.batches(list(self.kinds))) as batches:
            file = PrivateFile.write((to_table(function(rows), schema) for rows in batches), schema)
        with plain_words():
            # an empty relation that only remembers the connection, so that earlier files can go
            anchor = self._relation.limit(0).materialize() if self._file is None else self._relation
        return DuckDBEngine(anchor, file, self._by_id)

    @override
    def query(self, write: Callable[[Names], str]) -> pa.Table:
        places: dict[str, str] = {}
        sql = write(lambda name: places.setdefault(name, f"x{len(places)}"))
        own = _quoted(RECORD_ID) if self._file is not None else "row_number() OVER () - 1"
        self.check_columns([name for name in places if name != RECORD_ID])
        listed = [f"{own if name == RECORD_ID else _quoted(name)} AS {place}" for name, place in places.items()]
        source = "source" if self._file is None else parquet(self._file.path)
        with plain_words():
            return _query(
                self._relation,
                f"WITH records AS (SELECT {', '.join(listed) or '1 AS one'} FROM {source}) {sql}",  # noqa: S608 - quoted
            ).to_arrow_table()

    def reorder(self, keys: SortKeys) -> DuckDBEngine:
        """Let DuckDB sort a private file by a number per id; it sorts on disk what does not fit in memory."""
        keyed = self.map_batches(
            lambda rows: Rows(rows.ids, {**rows.columns, _ORDER: Column.from_numbers(keys(rows.ids))})
        )
        file = keyed._file
        assert file is not None  # noqa: S101 - map_batches writes one
        schema = pa.schema([f for f in file.schema if f.name not in (RECORD_ID, _ORDER)])
        with plain_words():
            limit = _query(keyed._relation, "SELECT current_setting('memory_limit')").fetchall()[0][0]
            # a connection of its own: what does not fit in memory goes to the private folder, not to the working one
            connection = connect(file.path, memory_limit=limit)
        with closing(connection):
            with plain_words():
                reader = connection.sql(
                    f"SELECT * EXCLUDE ({_quoted(_ORDER)}) FROM {parquet(file.path)} ORDER BY {_quoted(_ORDER)}"  # noqa: S608 - our own names
                ).to_arrow_reader(_ROWS)
            with closing(reader):
                tables = (pa.Table.from_batches([batch]).cast(with_ids(schema)) for batch in _each(reader))
                return DuckDBEngine(keyed._relation, PrivateFile.write(tables, schema), by_id=False)

    def reduce(self, function: Reduction, columns: Sequence[str]) -> Numbers:
        """Apply a function to every piece and add the arrays it returns, in order."""
        with closing(self.batches(columns)) as batches:
            total = np.asarray(function(next(batches)), np.float64)
            for rows in batches:
                total = total + np.asarray(function(rows), np.float64)
        return total

    def write(self, path: str, form: str) -> None:
        """Write one CSV, Parquet or Arrow file, piece by piece, without the hidden ids.

        Numbers in a CSV file have as many digits as it takes to read back exactly the same number.
        """
        names = list(self.kinds)
        schema = pa.schema([self._schema.field(n) for n in names])
        with closing(self.batches(names)) as batches:
            write_pieces((rows.to_arrow() for rows in batches), schema, path, form)

    @override
    def guess(self) -> Schema:
        with plain_words():
            return super().guess()

    def native(self) -> duckdb.DuckDBPyRelation:
        """Return a relation on the connection that the data came from, without the hidden ids."""
        if self._file is None:
            return self._relation
        if not self.kinds:
            raise DataError("the data have no columns left, and a DuckDB relation needs at least one.")
        with plain_words():
            relation = _query(
                self._relation,
                f"SELECT * EXCLUDE ({_quoted(RECORD_ID)}) "  # noqa: S608 - our own names
                f"FROM {parquet(self._file.path)}",
            )
        weakref.finalize(relation, _let_go, self._file)  # the file stays as long as the relation that reads it
        return relation


_CLOSED = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a query sees no variable of the program by its name
}


_connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def interruptible_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a connection, or a cursor of one, whose queries `interrupt_queries` stops."""
    _connections.add(connection)
    return connection


def interrupt_queries() -> None:
    """Stop the queries of all connections: a signal reaches the thread that waits for one, not those that work on it."""
    for connection in list(_connections):
        connection.interrupt()


def connect(*files: str | Path, memory_limit: str | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection of its own, which reads and writes these files and the private ones of sfumato, and nothing else.

    What does not fit in memory goes to a private folder that is removed with the connection; DuckDB would write it to the
    working folder, for all to read. Extensions are never loaded or fetched. This is the only place that opens connections, and
    none can be opened up again later.
    """
    own = private_folder()
    settings: dict[str, Any] = {**_CLOSED, "temp_directory": str(own / "spill")}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    connection = interruptible_connection(duckdb.connect(config=settings))
    weakref.finalize(connection, remove_private, own, os.getpid())  # relations hold the connection that they are on
    for setting, named in (("allowed_paths", files), ("allowed_directories", [own.parent])):
        # a name is checked as it is written in the query, and again as the file that was found
        names = {name for path in named for name in (_plain(path), _without_patterns(_plain(path)))}
        connection.execute(f"SET {setting} = [{', '.join(map(_text, sorted(names)))}]")
    connection.execute("SET enable_external_access = false")
    return connection


def parquet(path: str | Path) -> str:
    """Return what stands after FROM for one Parquet file, and for no other, whatever its name and folders are called.

    >>> parquet("/data/x[1].parquet")
    "read_parquet('/data/x[[]1].parquet', hive_partitioning = false)"
    """
    return f"read_parquet({_text(_without_patterns(_plain(path)))}, hive_partitioning = false)"


def written(path: str | Path) -> str:
    """Return a path as it stands after TO; there DuckDB knows no patterns."""
    return _text(_plain(path))


def _plain(path: str | Path) -> str:
    """Return a path that begins with a slash, so that nothing in it can be a protocol or a home folder."""
    return os.path.abspath(path)


def _without_patterns(path: str) -> str:
    """Return a path in which no character stands for others; DuckDB looks for patterns in each folder's name by itself."""
    return "/".join(_without_pattern(part) for part in path.split("/"))


def _without_pattern(name: str) -> str:
    if not re.search(r"[*?\[]", name):
        return name
    if "\\" in name:
        raise DataError(
            "the name of a file or folder has both a backslash and one of * ? [, which DuckDB takes for a pattern. Rename it."
        )
    return re.sub(r"[*?\[]", r"[\g<0>]", name)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class PrivateFile:
    """Stored records in a Parquet file that only this user can read, removed with this object."""

    def __init__(self, schema: pa.Schema) -> None:
        folder = private_folder()
        self.remove = weakref.finalize(self, remove_private, folder, os.getpid())
        self.path = str(folder / "records.parquet")
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.schema = schema
        self.count = 0

    @classmethod
    def write(cls, tables: Iterator[pa.Table], schema: pa.Schema) -> PrivateFile:
        """Store tables one after another; `schema` is theirs without the ids."""
        file = cls(with_ids(schema))
        text = [f.name for f in schema if kind_of(f.type) is Kind.CATEGORY]
        try:
            with _storing(schema):
                writer = pq.ParquetWriter(file.path, file.schema, use_dictionary=text)
            try:
                for table in tables:
                    with _storing(schema):
                        writer.write_table(table)
                    file.count += table.num_rows
            finally:
                with _storing(schema):
                    writer.close()
        except BaseException:
            file.remove()
            raise
        return file

    def pieces(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield stored records in tables of `rows` records, with these columns and the ids."""
        names = [RECORD_ID, *columns]
        with plain_words(), pq.ParquetFile(self.path, pre_buffer=False) as source:
            schema = pa.schema([self.schema.field(n) for n in names])
            batches = source.iter_batches(batch_size=rows, columns=names)
            yield from pieces((batch.select(names) for batch in batches), schema, rows)

    def read(self, columns: list[str]) -> pa.Table:
        """Return all stored records, with these columns and the ids."""
        names = [RECORD_ID, *columns]
        with plain_words(), pq.ParquetFile(self.path) as source:
            return source.read(columns=names).select(names)


def _check_capitals(names: Sequence[str]) -> None:
    if twice := repeated(names, str.casefold):
        raise DataError(
            f"these column names differ only in capitals, which DuckDB does not tell apart: {join_names(twice)}. "
            "Rename them to be distinct, or read the file into memory."
        )


@contextmanager
def _storing(schema: pa.Schema) -> Iterator[None]:
    try:
        yield
    except pa.ArrowNotImplementedError:
        odd = [f.name for f in schema if kind_of(f.type) is Kind.OTHER]
        raise DataError(
            "some columns hold values that cannot be stored between two steps. Drop them or turn them into numbers or "
            f"text in DuckDB first; look at: {join_names(odd)}."
        ) from None
    except OSError as error:
        told = full_disk(error, tempfile.gettempdir())
        what = str(told) if told is not None else f"temporary files cannot be written in {tempfile.gettempdir()}."
        raise DataError(f"{what} Set the environment variable TMPDIR to a folder with more room.") from None


@contextmanager
def interruptible() -> Iterator[None]:
    """Let who stops a query get a KeyboardInterrupt: DuckDB raises an error of its own in place of what a signal raised."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


@contextmanager
def plain_words(folder: str | Path | None = None) -> Iterator[None]:
    """Turn what DuckDB or Arrow raise, which may quote a value, into a sentence that does not.

    `folder` is where something is written; if none is given, only temporary files are.
    """
    try:
        with interruptible():
            yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise full_disk(error, folder or tempfile.gettempdir()) or DataError(_sentence(error)) from None


_SENTENCES = {
    "Conversion Error": "a value does not fit the type of its column. "
    "Where the data come from a CSV file, give the type of each column when reading it.",
    "Resource In Use Error": "another pass over data on the same DuckDB connection is still open. "
    "Finish or close it first, or open the data on a connection of their own.",
    "Out of Memory Error": "DuckDB needs more memory than it may use. Raise its memory_limit.",
    "Connection Error": "the DuckDB connection is closed. Keep it open as long as the data are in use.",
    "Permission Error": "this DuckDB connection may not read files. Set its enable_external_access to true.",
    "IO Error": "a file that the data come from cannot be read.",
    "Catalog Error": "a table or view that the data come from is gone.",
}


def _sentence(error: Exception) -> str:
    # DuckDB starts a message with the class of the error; what follows may quote a value
    found = re.match(r"([A-Z][A-Za-z ]* Error)\b", str(error))
    label = found[1] if found else type(error).__name__
    return _SENTENCES.get(
        label,
        f"DuckDB could not read the data ({label}). A file that they come from may be damaged: copy or write it again. "
        "Else try the query in DuckDB to see why.",
    )


def _each(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        with plain_words():
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


_SETTINGS = """
SELECT current_setting('preserve_insertion_order'),
  (SELECT list(DISTINCT lower(function_name)) FROM duckdb_functions() WHERE stability <> 'CONSISTENT'),
  (SELECT string_agg(sql, ' ') FROM duckdb_views() WHERE NOT internal),
  (SELECT string_agg(macro_definition, ' ') FROM duckdb_functions() WHERE NOT internal)
"""


def _repeatable(relation: duckdb.DuckDBPyRelation) -> bool:
    """Whether the relation gives the same records in the same order each time it is read."""
    kept, volatile, views, macros = _query(relation, _SETTINGS).fetchall()[0]
    plan = relation.explain(format="json")
    # a plan may show random() by its column name only, so its name is looked for wherever it could be written
    texts = " ".join(filter(None, [relation.sql_query(), plan, views, macros])).lower()
    called = set(re.findall(r"(\w+)\s*\(", texts))
    return bool(kept) and _steps(json.loads(plan)) <= _KEEP_ORDER and called.isdisjoint(volatile)


def _query(relation: duckdb.DuckDBPyRelation, sql: str) -> duckdb.DuckDBPyRelation:
    """Plan a query on the relation's connection, where the relation itself is called `source`."""
    made = relation.query("source", sql)
    assert made is not None  # noqa: S101 - only a statement that is no query gives None
    return made


def _steps(plan: list[dict[str, Any]]) -> set[str]:
    return {node["name"].strip() for node in plan}.union(*(_steps(node["children"]) for node in plan))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _let_go(file: PrivateFile) -> None:
    """Do nothing: the finalizer that calls this held the file until now."""
