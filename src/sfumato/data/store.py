"""From a file or a frame to an engine, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from sfumato.data.columns import check_dates
from sfumato.data.engine import Engine, LocalEngine
from sfumato.data.stray_records import RowChoice, name_doubtful, proper_records
from sfumato.errors import DataError, ParameterError
from sfumato.formats.contents import FileContents, check_names
from sfumato.formats.data_files import form_of, parts_of, read_file, stream_file, write_file
from sfumato.lazy import pa

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema


def open_frame(frame: Any) -> Engine:
    """Return the engine of a pandas, polars, Arrow, DuckDB or Spark frame."""
    check_names(_names_of(frame))
    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise DataError(
            f"an object of type {type(frame).__name__} is not a frame that sfumato knows. "
            "Give a pandas, polars, Arrow, DuckDB or Spark frame, or read a file with Microdata.read."
        ) from None
    implementation = wrapped.implementation
    if implementation.is_duckdb():
        from sfumato.data.duckdb_engine import DuckDBEngine

        return DuckDBEngine.from_relation(frame)
    if implementation.is_pyspark() or implementation.is_pyspark_connect():
        from sfumato.data.spark_engine import SparkEngine

        return SparkEngine.from_frame(frame)
    eager = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
    table = _to_arrow(eager)
    return LocalEngine.from_arrow(table, _to_native(eager, table.schema))


def _names_of(frame: Any) -> Iterable[object]:
    # the type is asked, since a column may have any of these names
    if hasattr(type(frame), "collect_schema"):  # polars
        return list(frame.collect_schema().names())
    return list(getattr(frame, "column_names" if hasattr(type(frame), "column_names") else "columns", ()))


def _to_arrow(frame: nw.DataFrame[Any]) -> pa.Table:
    native = frame.to_native()
    if frame.implementation.is_pandas_like():
        return _pandas_to_arrow(native)
    table = native if isinstance(native, pa.Table) else frame.to_arrow()
    return table.replace_schema_metadata(None)


def _pandas_to_arrow(frame: Any) -> pa.Table:
    columns = {}
    for name in frame.columns:
        series = frame[name]
        if hasattr(series, "cat") and series.cat.categories.inferred_type in ("interval", "period"):
            series = series.cat.rename_categories(str)  # the bands that pandas.cut makes
        try:  # the index is dropped: row labels mean nothing here, and must not leak into a release
            columns[str(name)] = pa.array(series, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError):
            raise DataError(
                f"column '{name}' mixes kinds of values (for example numbers and text). Make it one kind first, "
                f"for example with frame['{name}'].astype(str) or pandas.to_numeric."
            ) from None
    return pa.table(columns)


def _to_native(frame: nw.DataFrame[Any], came: pa.Schema) -> Callable[[pa.Table], Any]:
    implementation = frame.implementation
    if implementation.is_pyarrow():
        return lambda table: table
    if implementation.is_polars():
        import polars

        return lambda table: polars.from_arrow(table)
    dtypes = {str(n): d for n, d in frame.to_native().dtypes.items() if hasattr(d, "__from_arrow__")}
    return lambda table: _to_pandas(table, {n: d for n, d in dtypes.items() if _holds(table.schema, came.field(n))})


def _holds(schema: pa.Schema, field: pa.Field) -> bool:
    return field.name in schema.names and schema.field(field.name).type == field.type


def _to_pandas(table: pa.Table, dtypes: Mapping[str, Any]) -> Any:
    """Return a pandas frame, with these columns as pandas' own nullable types: whole numbers with gaps stay whole."""
    frame = table.to_pandas()
    for name, dtype in dtypes.items():
        if frame[name].dtype != dtype:
            frame[name] = dtype.__from_arrow__(table.column(name))
    return frame


_STREAMED = {".csv": "csv", ".parquet": "parquet"}


def open_file(path: str | Path, engine: str = "memory", **options: Any) -> tuple[Engine, dict[str, dict[str, Any]]]:
    """Return the engine of a file, and per column what the file says of it (label, labels, missing).

    Of CSV and Excel files the rows that are no records are left out, and those that are named in `leave_out`, counted from 1;
    with ``all_records="yes"`` only the latter.
    """
    choice = RowChoice.of(options.pop("leave_out", ()), options.pop("all_records", "no"))
    if engine == "duckdb":
        return _on_disk(Path(path).expanduser(), options, choice)
    if engine != "memory":
        raise ParameterError(
            f"'{engine}' is not an engine for files; use 'memory' or 'duckdb'. Spark frames go to Microdata."
        )
    contents = read_file(path, **options)
    if form_of(parts_of(Path(path).expanduser())[0], options.get("form")) in ("csv", "tsv", "xlsx"):
        name_doubtful(contents.table, path, choice)
        (table,) = proper_records([contents.table], path, choice)
        contents = replace(contents, table=table)
    else:
        choice.refuse(path)
    check_dates(contents.table)
    return LocalEngine.from_arrow(contents.table), _notes(contents)


def _notes(contents: FileContents) -> dict[str, dict[str, Any]]:
    notes: dict[str, dict[str, Any]] = {}
    for field, facts in (("label", contents.labels), ("labels", contents.value_labels), ("missing", contents.missing)):
        for column, fact in facts.items():
            if column in contents.table.column_names:
                notes.setdefault(column, {})[field] = fact
    return notes


def _on_disk(path: Path, options: dict[str, Any], choice: RowChoice) -> tuple[Engine, dict[str, dict[str, Any]]]:
    from sfumato.data.duckdb_engine import DuckDBEngine

    contents, pieces = stream_file(path, **options)
    if pieces is not None:
        return DuckDBEngine.from_pieces(proper_records(pieces, path, choice), contents.table.schema), {}
    choice.refuse(path)
    return DuckDBEngine.from_file(path, contents.table.column_names), _notes(contents)


def save_file(engine: Engine, schema: Schema, path: str | Path, **options: Any) -> None:
    """Write an engine's data in the form the suffix says, with the schema's labels, whole or not at all.

    Labels of codes that no record has are left out, as `published_schema` does.
    """
    target = Path(path)
    form = _STREAMED.get(target.suffix.lower())
    if engine.name == "Spark" and form is not None:
        engine.write(str(path), form)  # a folder of part files, which Spark itself commits
    elif not isinstance(engine, LocalEngine) and form is not None:
        engine.write(str(target), form)
    else:
        table = engine.collect(list(engine.kinds)).to_arrow()
        schema = published_schema([engine], schema)
        labels = {a.name: a.label for a in schema if a.label}
        value_labels = {a.name: a.labels for a in schema if a.labels}
        missing = {a.name: a.missing for a in schema if a.missing}
        write_file(FileContents(table, labels, value_labels, missing), target, **options)


def published_schema(engines: Sequence[Engine], schema: Schema) -> Schema:
    """Return the schema with labels, numbers of categories and trees of only those values that some of these records have.

    A list of value labels or a tree is often made from the data themselves, so it may name what was removed from them.
    """
    from sfumato.formats.contents import code_text
    from sfumato.schema.hierarchy import label_of
    from sfumato.schema.schema import Schema

    def occurring(name: str) -> set[str]:
        texts: set[str] = set()
        for engine in engines:
            for value in engine.group([name]).columns[name].arrow.to_pylist():
                if isinstance(value, bool):
                    texts |= {"true", "True", "1"} if value else {"false", "False", "0"}
                elif value is not None:
                    texts |= {str(value), code_text(value), label_of(value)}
        return texts

    return Schema(tuple(a.limited_to(occurring(a.name)) if a.lists_values else a for a in schema))
