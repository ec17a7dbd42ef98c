"""Which engine a frame belongs to, told by narwhals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw

from sfumato.engines.base import RECORD_ID, Engine
from sfumato.engines.local import LocalEngine
from sfumato.errors import DataError, listing, repeated

if TYPE_CHECKING:
    import pyarrow as pa


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
        from sfumato.engines.duckdb import DuckDBEngine

        return DuckDBEngine.from_relation(frame)
    if implementation.is_pyspark() or implementation.is_pyspark_connect():
        from sfumato.engines.spark import SparkEngine

        return SparkEngine.from_frame(frame)
    eager = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
    table = _to_arrow(eager)
    return LocalEngine.from_arrow(table, _to_native(eager, table.schema))


def _names_of(frame: Any) -> Iterable[object]:
    # the type is asked, since a column may have any of these names
    if hasattr(type(frame), "collect_schema"):  # polars
        return list(frame.collect_schema().names())
    return list(getattr(frame, "column_names" if hasattr(type(frame), "column_names") else "columns", ()))


def check_names(names: Iterable[object]) -> None:
    """Refuse column names that are not text, are repeated, or are taken."""
    listed = list(names)
    if not all(isinstance(n, str) for n in listed):
        raise DataError(
            "column names must be text, but some are not. In pandas, try: frame.columns = frame.columns.astype(str)"
        )
    texts = [str(n) for n in listed]
    if twice := repeated(texts):
        raise DataError(
            f"these column names stand more than once: {listing(sorted(twice))}. Rename them to be distinct."
        )
    if RECORD_ID in texts:
        raise DataError(f"the column name {RECORD_ID} is used by sfumato itself; rename that column.")


def _to_arrow(frame: nw.DataFrame[Any]) -> pa.Table:
    import pyarrow as pa

    native = frame.to_native()
    if frame.implementation.is_pandas_like():
        return _pandas_to_arrow(native)
    table = native if isinstance(native, pa.Table) else frame.to_arrow()
    return table.replace_schema_metadata(None)


def _pandas_to_arrow(frame: Any) -> pa.Table:
    import pyarrow as pa

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
