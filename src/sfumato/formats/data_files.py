"""Data files in and out, with their labels.

What each form keeps:

| form                       | types           | variable labels | value labels      | missing codes  | null and NaN |
|----------------------------|-----------------|-----------------|-------------------|----------------|--------------|
| .parquet .arrow .feather   | all             | yes             | yes               | yes            | both         |
| .csv .tsv .txt (and .gz)   | found by value  | no              | no                | no             | both         |
| .dta (Stata)               | most            | yes             | of whole numbers  | no             | null only    |
| .sav .zsav .por (SPSS)     | most            | yes             | yes               | yes; .por no   | null only    |
| .sas7bdat .xpt (SAS)       | most            | yes             | no                | no             | null only    |
| .xlsx                      | most            | no              | no                | no             | null only    |

Missing codes are values, so they are written as values everywhere; "no" means that the file does not say which
values they are. A `Schema` keeps what a form cannot. What a form cannot hold without changing a value is refused
before anything is written.
"""

from __future__ import annotations

import glob
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sfumato.errors import (
    DataError,
    ParameterError,
    SfumatoError,
    did_you_mean,
    join_names,
    refuse_unknown,
    unknown_name,
)
from sfumato.files import whole_file
from sfumato.formats.contents import FileContents, check_names
from sfumato.lazy import pa

__all__ = ["FileContents", "read_file", "stream_file", "write_file"]

_FORMS = {
    "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv",
    "parquet": "parquet", "pq": "parquet",
    "arrow": "arrow", "feather": "arrow", "ipc": "arrow", "arrows": "arrow",
    "dta": "dta", "sav": "sav", "zsav": "zsav", "por": "por", "sas7bdat": "sas7bdat", "xpt": "xpt",
    "xlsx": "xlsx",
}  # fmt: skip

_OTHER_FORMS = {
    "xls": "It looks like an old Excel file: save it as .xlsx first.",
    "ods": "It looks like a LibreOffice file: save it as .xlsx first.",
    "rds": "It looks like an R file: in R, try arrow::write_parquet or haven::write_sav.",
    "rda": "It looks like an R file: in R, try arrow::write_parquet or haven::write_sav.",
    "rdata": "It looks like an R file: in R, try arrow::write_parquet or haven::write_sav.",
    "zip": "Unpack it first.",
}


def read_file(path: str | Path, form: str | None = None, **options: Any) -> FileContents:
    """Read a data file with its labels.

    Parameters
    ----------
    path
        The file. Its suffix says the form, unless `form` does. A folder, or a pattern such as ``parts/*.parquet``, stands for
        all its files, one after another; folders named ``year=2024`` inside it become a column ``year``.
    form
        A suffix without the dot, such as "csv" or "sav".
    options
        CSV: ``separator``, ``decimal``, ``encoding``, ``null_values``, ``text``, ``names``,
        ``thousands``, ``skip`` (see `sfumato.formats.csv_files.read_csv`). Excel: ``sheet``, ``text``, ``names``, ``skip``
        (see `sfumato.formats.excel_files.read_excel`). Stata, SPSS, SAS: ``encoding``
        (see `sfumato.formats.stat_files.read_stat`). Parquet and Arrow have none.

    Returns
    -------
    FileContents
        Codes that the file declares as missing stay in the table as values, and are listed in ``missing``.

    Notes
    -----
    The row numbers that pandas keeps beside a Parquet table (``__index_level_0__``) are dropped, as they are
    for a pandas frame.
    """
    given = Path(path).expanduser()
    parts = parts_of(given)
    kind = form_of(parts[0], form)
    found = []
    for source in parts:
        with _reading(source):
            _check_readable(source)
            reader = _reader(kind)
            _check_options(reader, options, kind)
            found.append(reader(source, **options))
    contents = found[0] if parts == [given] else _together(found, parts, given)
    check_names(contents.table.column_names)
    return contents


def parts_of(path: Path) -> list[Path]:
    """Return the files that a name stands for, in the order of their names: itself, those of a folder, or those of a pattern.

    In a folder, files whose names begin with a point or an underscore are left out, as other programs do.
    """
    if path.is_dir():
        inside = (p for p in sorted(path.rglob("*")) if not re.search(r"(^|/)[._]", p.relative_to(path).as_posix()))
        parts = [p for p in inside if p.is_file()]
    elif path.exists() or not re.search(r"[*?\[]", str(path)):
        return [path]
    else:
        parts = [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]
    if not parts:
        what = "a folder without files" if path.is_dir() else "a pattern that no file fits"
        raise DataError(f"{path} is {what}.")
    if len(suffixes := {p.suffix.lower() for p in parts}) > 1:
        what = "a folder of" if path.is_dir() else "a pattern for"
        one = (path / "**" / "*.parquet").as_posix() if path.is_dir() else "*.parquet"
        forms = join_names(sorted(suffixes))
        raise DataError(f"{path} is {what} files of several forms ({forms}); name those of one, such as '{one}'.")
    return parts


def _together(found: list[FileContents], parts: list[Path], given: Path) -> FileContents:
    """Return the records of all files, one after another; folders named year=2024 become a column."""

    tables = []
    levels = _levels(parts)
    for contents, part in zip(found, parts, strict=True):
        if set(contents.table.column_names) != set(found[0].table.column_names):
            raise DataError(f"{part} has other columns than {parts[0]}; all files of {given} must have the same.")
        table = contents.table.select(found[0].table.column_names)
        for i, name in enumerate(table.column_names):  # a column without any value has no type of its own
            if table.num_rows and table.column(name).null_count == table.num_rows:
                table = table.set_column(i, name, pa.nulls(table.num_rows))
        tables.append(_with_levels(table, part, levels))
    try:
        together = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = {n: {t.schema.field(n).type for t in tables} for n in tables[0].column_names}
        wrong = [n for n, types in kinds.items() if len(types) > 1]
        raise DataError(
            f"column '{wrong[0] if wrong else '?'}' holds different kinds of values in the files of {given}, such as numbers and "
            "text. Read it as text (text=), or write the files alike."
        ) from None
    for i, field in enumerate(together.schema):
        if pa.types.is_null(field.type):
            together = together.set_column(i, field.name, together.column(i).cast(pa.string()))
    return replace(found[0], table=together)


def _parquet_parts(given: Path, options: Mapping[str, Any]) -> tuple[FileContents, Iterator[pa.Table]]:
    """Return the columns of several Parquet files, and their records file by file."""
    from sfumato.formats.arrow_files import parquet_columns, read_parquet

    parts = parts_of(given)
    _check_options(parquet_columns, options, "parquet")
    contents = _together([parquet_columns(part) for part in parts], parts, given)
    check_names(contents.table.column_names)
    levels, schema = _levels(parts), contents.table.schema

    def pieces() -> Iterator[pa.Table]:
        for part in parts:
            with _reading(part):
                yield _with_levels(read_parquet(part).table, part, levels).select(schema.names).cast(schema)

    return contents, pieces()


def _with_levels(table: pa.Table, part: Path, levels: Mapping[str, Mapping[Path, Any]]) -> pa.Table:

    for name, values in levels.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(values[part], table.num_rows))
    return table


def _levels(parts: list[Path]) -> dict[str, dict[Path, Any]]:
    """Return for each name in folders such as year=2024 the value of each file: whole numbers where all are, else text."""

    texts: dict[str, dict[Path, str]] = {}
    for part in parts:
        for folder in part.parent.parts:
            name, sign, value = folder.partition("=")
            if sign and name:
                texts.setdefault(name, {})[part] = unquote(value)
    levels: dict[str, dict[Path, Any]] = {}
    for name, values in texts.items():
        kept = [v for v in values.values() if v != _NO_VALUE]
        whole = bool(kept) and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", v) for v in kept)
        kind = pa.int64() if whole else pa.string()
        levels[name] = {
            part: pa.scalar(None if (v := values.get(part, _NO_VALUE)) == _NO_VALUE else int(v) if whole else v, kind)
            for part in parts
        }
    return levels


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def stream_file(path: str | Path, **options: Any) -> tuple[FileContents, Iterator[pa.Table] | None]:
    """Open a CSV or Parquet file that may be larger than memory.

    Returns
    -------
    The file's columns and labels, without records; and the records in pieces for a CSV file, which only our own reader
    takes apart. A Parquet file says itself what it holds.
    """
    given = Path(path).expanduser()
    source = parts_of(given)[0]
    kind = form_of(source, None)
    if source != given:
        if kind != "parquet":
            raise DataError(
                f"{given} stands for several files; engine='duckdb' takes such of Parquet only, or one CSV file."
            )
        return _parquet_parts(given, options)
    if kind not in ("csv", "tsv", "parquet"):
        raise DataError(f"engine='duckdb' works on CSV and Parquet files; {source.name} is neither.")
    with _reading(source):
        _check_readable(source)
        if kind == "parquet":
            from sfumato.formats.arrow_files import parquet_columns

            _check_options(parquet_columns, options, kind)
            contents, pieces = parquet_columns(source), None
        else:
            from sfumato.formats.csv_files import read_csv, stream_csv

            _check_options(read_csv, options, kind)
            schema, pieces = stream_csv(source, **options)
            contents = FileContents(schema.empty_table())
        check_names(contents.table.column_names)
    return contents, pieces


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Name the file in what a reader says of it."""
    try:
        yield
    except DataError as error:
        if str(source) in str(error):
            raise
        raise DataError(f"{source}: {error}") from None
    except PermissionError:
        raise DataError(f"{source} cannot be opened: you have no permission to read it.") from None


def _check_options(reader: Callable[..., Any], options: Mapping[str, Any], kind: str) -> None:
    allowed = [p.name for p in inspect.signature(reader).parameters.values() if p.kind is p.KEYWORD_ONLY]
    refuse_unknown("option", allowed, f"the options for reading .{kind} files", *options)


def write_file(contents: FileContents, path: str | Path, form: str | None = None) -> None:
    """Write a data file with its labels, whole or not at all.

    Every form writes categories as their values. Other changes of type, none of which changes a meaning:

    - Stata, SPSS, SAS: true and false become 1 and 0 (with value labels in Stata and SPSS); NaN becomes missing, and
      so does empty text, as these programs know only one of each; decimals become floating-point numbers.
    - Excel: NaN and empty text become empty cells; decimals become floating-point numbers.
    - CSV: see `sfumato.formats.csv_files.csv_writer`.

    Labels go where the form has room for them (see the table in `sfumato.formats.data_files`); labels that are too long
    for a form that has them are refused, not cut.
    """
    target = Path(path).expanduser()
    kind = form_of(target, form)
    write = _writer(kind, contents, target)
    try:
        with whole_file(target) as temporary:
            write(temporary)
    except DataError as error:
        if str(target) in str(error):
            raise
        raise DataError(f"{target} cannot be written: {error}") from None
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or 'the disk refused it'}.") from None


def form_of(path: Path, form: str | None) -> str:
    """Return the form's name, from what was asked or from the suffix."""
    packed = path.suffix.lower() == ".gz"
    asked = (form or (path.with_suffix("") if packed else path).suffix).lower().lstrip(".")
    if packed and _FORMS.get(asked) not in ("csv", "tsv"):
        raise DataError(f"{path} is packed, and only CSV files are read or written packed (.csv.gz). Use it unpacked.")
    if asked in _FORMS:
        return _FORMS[asked]
    if form is not None:
        raise ParameterError(unknown_name("form", form, _FORMS, "the list of forms"))
    what = f"the suffix .{asked}" if asked else "no suffix"
    hint = _OTHER_FORMS.get(asked) or f"{did_you_mean(asked, _FORMS)} Give form= to say what it is.".strip()
    raise DataError(
        f"{path} has {what}, which does not say a form that sfumato knows: {join_names(_FORMS, 20)}. {hint}"
    )


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the name of a file.")
    if not path.exists():
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise DataError(f"there is no file {path}.{near}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: it has 0 bytes, not even a header. Was it written to the end?")


def _reader(form: str) -> Callable[..., FileContents]:
    if form in ("csv", "tsv"):
        from sfumato.formats.csv_files import read_csv

        return read_csv
    if form in ("parquet", "arrow"):
        from sfumato.formats.arrow_files import read_arrow, read_parquet

        return read_parquet if form == "parquet" else read_arrow
    if form == "xlsx":
        from sfumato.formats.excel_files import read_excel

        return read_excel
    from sfumato.formats.stat_files import reader

    return reader(form)


def _writer(form: str, contents: FileContents, path: Path) -> Callable[[Path], None]:
    """Return a function that writes; everything that can be refused is refused here."""
    check_names(contents.table.column_names)
    if not contents.table.num_columns:
        raise DataError("the table has no columns, so there is nothing to write.")
    try:
        if form in ("csv", "tsv"):
            from sfumato.formats.csv_files import csv_writer

            return csv_writer(contents.table, "\t" if form == "tsv" else ",", path.suffix.lower() == ".gz")
        if form in ("parquet", "arrow"):
            from sfumato.formats.arrow_files import labelled, write_table

            table = labelled(contents)
            return lambda temporary: write_table(table, str(temporary), form)
        if form == "xlsx":
            from sfumato.formats.excel_files import excel_writer

            return excel_writer(contents)
        from sfumato.formats.stat_files import stat_writer

        return stat_writer(contents, form)
    except SfumatoError as error:
        raise type(error)(f"{path} cannot be written: {error}") from None
