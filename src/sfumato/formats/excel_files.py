"""Excel workbooks (.xlsx) in and out, through openpyxl."""

from __future__ import annotations

import datetime
import math
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import DataError, ParameterError, SfumatoError, missing_extra, refuse_unknown
from sfumato.formats.contents import FileContents, checked_header, chosen, code_text, plain, refuse_kinds, whole_number
from sfumato.formats.stat_files import check_whole
from sfumato.lazy import pa

_ROWS, _COLUMNS, _TEXT = 1_048_576, 16_384, 32_767
_SPREAD = 2**22
"""A sheet of more cells than these has something in one of a hundred."""
_UNPACKED = 2**32
"""Largest number of bytes that the parts of a workbook have together."""
_FIRST_DAY = datetime.date(1900, 3, 1)
_CODED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_KINDS = {bool: "true/false values", int: "numbers", float: "numbers", str: "text"}
_KINDS |= {datetime.datetime: "dates", datetime.date: "dates", datetime.time: "times of day"}


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise missing_extra("openpyxl", "excel", "Reading or writing Excel files") from None
    return openpyxl


def read_excel(
    path: Path,
    *,
    sheet: str | int | None = None,
    text: str | Sequence[str] = (),
    names: Sequence[str] | None = None,
    skip: int | str = 0,
) -> FileContents:
    """Read one sheet of a workbook, its header in the first row, or below the rows that are skipped.

    Parameters
    ----------
    sheet
        Name, or number from 1; the only sheet if not given.
    text
        Columns to take as text, even where cells hold numbers.
    names
        Column names to use instead of the header's.
    skip
        Rows above the header that are left out, such as titles.

    Notes
    -----
    Cells keep the type that Excel gives them; a column must have one type. An empty cell is null, and so are empty
    text and #N/A; in a column of numbers, dates or true/false, NA and blank text too, as in CSV files. Numbers that
    are all whole come as whole numbers. Formulas give the value that Excel last computed. Empty rows at the end are
    not records.
    """
    openpyxl = _openpyxl()
    above = whole_number("skip", skip)
    rows = _rows(openpyxl, path, sheet, names, above)
    header = checked_header([_name(v) for v in rows[0]], path, names)
    as_text = chosen((text,) if isinstance(text, str) else text, header, path)
    columns = {}
    for i, name in enumerate(header):
        cells = [row[i] for row in rows[1:]]
        columns[name] = _column(name, cells, name in as_text, above + 2)
    return FileContents(pa.table(columns))


def _rows(
    openpyxl: Any, path: Path, sheet: str | int | None, names: Sequence[str] | None, skip: int
) -> list[list[Any]]:
    """Return the rows as plain values, all as long as the header, without the empty ones at the end."""
    rows, formulas = _values(openpyxl, path, sheet, computed=False)
    if formulas:
        rows, _ = _values(openpyxl, path, sheet, computed=True)
        for r, c in formulas:
            if c >= len(rows[r]) or rows[r][c] is None:
                raise DataError(
                    f"row {r + 1} of {path} has a formula in column {c + 1} that was never computed. "
                    f"Open the file in Excel or LibreOffice, save it, and try again."
                )
    del rows[:skip]
    while rows and all(v is None for v in rows[-1]):
        rows.pop()
    width = max((i + 1 for row in rows for i, v in enumerate(row) if v is not None), default=0)
    if not width:
        raise DataError(f"the sheet of {path} is empty: it has not even a header row.")
    full = (r for r, row in enumerate(rows[:50]) if sum(v is not None for v in row) == width)
    first = [*map(_name, rows[0]), *[""] * (width - len(rows[0]))][:width]
    checked_header(first, path, names, skip + next(full, -skip))  # before rows are filled up
    return [[*row[:width], *[None] * (width - len(row))] for row in rows]


def _name(value: Any) -> str:
    return code_text(value) if value is not None else ""


def _check_spread(rows: int, width: int, filled: int, path: Path) -> None:
    """Refuse a sheet that a cell far from the others makes large: it would take gigabytes, nearly all of it empty."""
    if rows > _ROWS or (rows * width > _SPREAD and rows * width > 100 * filled):
        raise DataError(
            f"the sheet of {path} is nearly empty: some cell stands far below or far to the right of the others. "
            "In Excel, Ctrl+End goes to the last cell; delete the empty rows and columns before it, and save the file."
        )


def _values(
    openpyxl: Any, path: Path, sheet: str | int | None, computed: bool
) -> tuple[list[list[Any]], list[tuple[int, int]]]:
    rows: list[list[Any]] = []
    formulas: list[tuple[int, int]] = []
    try:
        with path.open("rb") as file:
            with zipfile.ZipFile(file) as parts:
                if sum(part.file_size for part in parts.infolist()) > _UNPACKED:
                    raise DataError(f"{path} has more than {_UNPACKED:,} bytes when it is unpacked. Save it as .csv.")
            book = openpyxl.load_workbook(file, read_only=True, data_only=computed)
            opened = _sheet(book, sheet, path)
            opened.reset_dimensions()  # a size that the file states may be wrong, and cut off cells
            width = filled = 0
            for r, row in enumerate(opened.iter_rows()):
                rows.append([_value(cell, path) for cell in row])
                formulas += [(r, c) for c, cell in enumerate(row) if cell.data_type == "f"]
                width, filled = max(width, len(row)), filled + len(row) - rows[-1].count(None)
                _check_spread(r + 1, width, filled, path)
        return rows, formulas
    except (SfumatoError, PermissionError):
        raise
    except Exception:  # a damaged file fails in many ways, and what openpyxl says of it may quote a cell
        raise DataError(
            f"{path} is not a whole .xlsx file: it was cut short (copy or save it again), or it is of another form."
        ) from None


def _sheet(book: Any, sheet: str | int | None, path: Path) -> Any:
    names = [s.title for s in book.worksheets]
    if sheet is None and len(names) == 1:
        sheet = 1
    if sheet is None:
        raise ParameterError(f"{path} has {len(names)} sheets; say which with sheet=: {', '.join(names)}.")
    if isinstance(sheet, int):
        if not 1 <= sheet <= len(names):
            raise ParameterError(f"{path} has {len(names)} sheets, so there is no sheet {sheet}; the first is sheet=1.")
        return book.worksheets[sheet - 1]
    refuse_unknown("sheet", names, str(path), sheet)
    return book[sheet]


def _value(cell: Any, path: Path) -> Any:
    value, kind = cell.value, cell.data_type
    if kind == "e" and value != "#N/A":
        raise DataError(f"cell {cell.coordinate} of {path} holds an Excel error. Mend it in Excel, or empty the cell.")
    if value is None or value == "" or kind == "e":
        return None
    if isinstance(value, str):
        return _CODED.sub(lambda m: chr(int(m.group(1), 16)), value)
    if isinstance(value, datetime.datetime) and not re.search("[hHsS]", cell.number_format):
        return value.date() if value.time() == datetime.time() else value
    return value


def _column(name: str, cells: list[Any], as_text: bool, first: int) -> pa.Array:
    if as_text:
        return pa.array([None if v is None else code_text(v) for v in cells], pa.string())
    kinds = {_KINDS.get(type(v), "values of another kind") for v in cells if v is not None}
    if len(kinds) > 1 and "text" in kinds:
        cells = [None if isinstance(v, str) and v.strip() in ("", "NA") else v for v in cells]
        kinds = {_KINDS.get(type(v), "values of another kind") for v in cells if v is not None}
    if len(kinds) > 1:
        odd = _odd_row(cells, first)
        raise DataError(
            f"column '{name}' mixes {' and '.join(sorted(kinds))} (row {odd} is the first that differs). "
            f"Make it one kind in Excel, or read it as text with text=['{name}']."
        )
    kind = next(iter(kinds), "text")
    if kind == "numbers":
        whole = all(v is None or (float(v).is_integer() and abs(v) <= 2**53) for v in cells)
        return pa.array([None if v is None else int(v) if whole else float(v) for v in cells])
    if kind == "dates":
        if any(isinstance(v, datetime.datetime) for v in cells):
            return pa.array([_moment(v) for v in cells], pa.timestamp("us"))
        return pa.array(cells, pa.date32())
    return pa.array(cells, pa.string() if kind == "text" else None)


def _odd_row(cells: list[Any], first: int) -> int:
    known = [(row, _KINDS.get(type(v), "")) for row, v in enumerate(cells, first) if v is not None]
    return next(row for row, kind in known if kind != known[0][1])


def _moment(value: Any) -> Any:
    """Return a cell of a date column as a time, on the millisecond: Excel keeps fractions of a day."""
    if value is None or not isinstance(value, datetime.datetime):
        return value if value is None else datetime.datetime(value.year, value.month, value.day)
    micro = round(value.microsecond, -3)
    return value.replace(microsecond=0) + datetime.timedelta(microseconds=micro)


def excel_writer(contents: FileContents) -> Callable[[Path], None]:
    """Return a function that writes the table as a workbook with one sheet; refuse here what Excel cannot hold.

    Text is written as text, also where it begins with = + - or @; it never becomes a formula. Numbers are written
    with all their digits. Null, NaN and empty text become empty cells.
    """
    openpyxl = _openpyxl()
    table = plain(contents.table)
    refuse_kinds(table, "Excel")
    if table.num_rows >= _ROWS or table.num_columns > _COLUMNS:
        raise DataError(
            f"the table has {table.num_rows:,} records and {table.num_columns:,} columns; an Excel sheet holds "
            f"{_ROWS - 1:,} and {_COLUMNS:,}. Write .csv or .parquet."
        )
    columns = [_cells(name, table[name]) for name in table.column_names]
    if table.num_rows and all(column[-1] is None for column in columns):
        raise DataError("the last record has no values at all, and would vanish: to Excel it is an empty row. Drop it.")

    def write(path: Path) -> None:
        from openpyxl.cell import WriteOnlyCell

        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("data")

        def cell(value: Any) -> Any:
            if isinstance(value, str | float):
                made = WriteOnlyCell(sheet, repr(value) if isinstance(value, float) else value)
                made.data_type = "n" if isinstance(value, float) else "s"
                return made
            return value

        sheet.append([cell(_escaped(name)) for name in table.column_names])
        for row in zip(*columns, strict=True):
            sheet.append([cell(value) for value in row])
        book.save(path)

    return write


def _cells(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Return a column as the values of its cells, None where empty."""
    kind = column.type
    if pa.types.is_integer(kind):
        check_whole(name, column, "Excel")
    if pa.types.is_decimal(kind) and kind.precision > 15:
        raise DataError(f"column '{name}' has decimals of {kind.precision} digits; Excel keeps 15. Round them first.")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        if np.isinf(numbers).any():
            raise DataError(f"column '{name}' has infinite numbers, which Excel has no place for.")
        return [None if math.isnan(v) else v for v in numbers.tolist()]
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _days(name, column)
    values: list[Any] = column.to_pylist()
    if values and any(isinstance(v, str) and len(v) > _TEXT for v in values):
        raise DataError(f"column '{name}' has texts longer than the {_TEXT:,} characters that Excel holds.")
    return [_escaped(v) or None if isinstance(v, str) else v for v in values]


def _days(name: str, column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        raise DataError(f"column '{name}' has times with a time zone, which Excel does not know. Drop the zone first.")
    if pa.types.is_timestamp(kind):
        try:
            column = column.cast(pa.timestamp("ms"))
        except pa.ArrowInvalid:
            raise DataError(f"column '{name}' has times finer than a millisecond. Round them first.") from None
    values: list[Any] = column.to_pylist()
    first = min((v for v in values if v is not None), default=None)
    if first is not None and (first.date() if isinstance(first, datetime.datetime) else first) < _FIRST_DAY:
        raise DataError(f"column '{name}' has dates before March 1900, which Excel counts wrongly. Write them as text.")
    return values


def _escaped(text: str) -> str:
    """Return text with characters that XML cannot hold in the form that Excel reads: _x000D_ (ECMA-376, 22.9.2.19)."""
    return _CONTROL.sub(lambda m: f"_x{ord(m.group()):04X}_", text)
