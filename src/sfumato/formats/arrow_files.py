"""Parquet and Arrow files through pyarrow, with labels in the fields' metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.files import parse_json
from sfumato.formats.contents import FileContents
from sfumato.lazy import pa

_LABEL, _LABELS, _MISSING = b"sfumato.label", b"sfumato.labels", b"sfumato.missing"
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def write_table(table: pa.Table, path: str, form: str) -> None:
    """Write an Arrow table as "csv", "parquet" or "arrow"."""
    if form == "csv":
        from sfumato.formats.csv_files import csv_writer

        csv_writer(table)(Path(path))
    elif form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    elif form == "arrow":
        import pyarrow.feather

        pyarrow.feather.write_feather(table, path, compression="zstd")
    else:
        raise ParameterError(f"'{form}' is not a form this engine writes; it writes csv, parquet and arrow.")


def read_parquet(path: Path) -> FileContents:
    """Read a Parquet file, with the labels that sfumato keeps in it."""
    import pyarrow.parquet

    with _sound(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as source:
        return unlabelled(_valid(source.read()))


def parquet_columns(path: Path) -> FileContents:
    """Return the columns of a Parquet file with their labels, and no records."""
    import pyarrow.parquet

    with _sound(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as source:
        return unlabelled(source.schema_arrow.empty_table())


def read_arrow(path: Path) -> FileContents:
    """Read an Arrow file, file form or stream form, with the labels that sfumato keeps in it."""
    import pyarrow.feather

    with _sound(path, "Arrow"):
        with pa.OSFile(str(path)) as source:
            start = source.read(6)
        if start[:4] == b"FEA1":
            return unlabelled(_valid(pyarrow.feather.read_table(path)))
        with pa.OSFile(str(path)) as source:
            opened = pa.ipc.open_file(source) if start == b"ARROW1" else pa.ipc.open_stream(source)
            return unlabelled(_valid(opened.read_all()))


def _valid(table: pa.Table) -> pa.Table:
    """Return the table once all its offsets, indices and texts are checked: Arrow reads memory where they point to."""
    table.validate(full=True)
    return table


@contextmanager
def _sound(path: Path, form: str) -> Iterator[None]:
    """Say in a sentence that a file is damaged: what Arrow says may quote a value, and comes in many classes."""
    try:
        yield
    except (PermissionError, SfumatoError):
        raise
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        MemoryError,
        RecursionError,
    ):
        raise DataError(
            f"{path} is not a whole {form} file: it was cut short (copy or write it again), "
            f"or it is of another form (give form= to say which)."
        ) from None


def labelled(contents: FileContents) -> pa.Table:
    """Return the table with its labels, value labels and missing codes in the fields' metadata."""
    fields = []
    for field in contents.table.schema:
        metadata: dict[bytes, str] = {}
        if label := contents.labels.get(field.name):
            metadata[_LABEL] = label
        if words := contents.value_labels.get(field.name):
            metadata[_LABELS] = json.dumps(dict(words), ensure_ascii=False)
        if codes := contents.missing.get(field.name):
            metadata[_MISSING] = json.dumps(list(codes), ensure_ascii=False)
        fields.append(field.with_metadata(metadata or None))
    return pa.Table.from_arrays(contents.table.columns, schema=pa.schema(fields))


def unlabelled(table: pa.Table) -> FileContents:
    """Take the labels out of the fields' metadata, and pandas' row numbers out of the table."""
    if b"pandas" in (table.schema.metadata or {}):
        table = table.drop_columns([name for name in table.column_names if _ROW_NUMBERS.fullmatch(name)])
    labels: dict[str, str] = {}
    value_labels: dict[str, dict[str, str]] = {}
    missing: dict[str, tuple[float | str, ...]] = {}
    for field in table.schema:
        metadata = field.metadata or {}
        if _LABEL in metadata:
            labels[field.name] = metadata[_LABEL].decode()
        if _LABELS in metadata:
            value_labels[field.name] = {str(k): str(v) for k, v in dict(parse_json(metadata[_LABELS])).items()}
        if _MISSING in metadata:
            missing[field.name] = tuple(parse_json(metadata[_MISSING]))
    bare = pa.schema([field.with_metadata(None) for field in table.schema])
    return FileContents(pa.Table.from_arrays(table.columns, schema=bare), labels, value_labels, missing)
