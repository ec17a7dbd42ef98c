"""CSV files in: types are found over whole columns, and nothing is guessed that would change a value."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from sfumato.engines.formats.contents import FileContents
from sfumato.engines.formats.headers import checked_header, chosen
from sfumato.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATORS = ",;\t|"
_SNIFFED = 1 << 19
_BLOCK = 1 << 22


def read_csv(
    path: Path,
    *,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    null_values: str | Sequence[str] | None = None,
    text: str | Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> FileContents:
    """Read a CSV file with a header row, packed (.gz) or not.

    Parameters
    ----------
    separator
        Between the cells; found among comma, semicolon, tab and bar if not given.
    decimal
        "." or ",". A decimal comma is never guessed.
    encoding
        UTF-8 if not given, with or without a byte-order mark (UTF-16 with its mark is seen too). Older files of
        Western Europe are often "latin-1" or "cp1252".
    null_values
        Unquoted words that mean null, in every column. If not given: an empty cell is null everywhere, and NA is
        null in a column whose other cells are all numbers, dates or true/false, as R writes it; in a text column
        NA stays text, as it may be Namibia. For other words say ``null_values=("", "NA", ".")``.
    text
        Columns to leave as text whatever they hold, such as codes in which 1.10 and 1.1 differ.
    names
        Column names to use instead of the header's.

    Notes
    -----
    A column's type is found over all its cells, in this order:

    - whole numbers, if all fit in 64 bits; larger ones stay text;
    - numbers; ``NaN`` and ``inf`` are numbers, so NaN comes back as NaN and an empty cell as null;
    - true/false, in these words;
    - dates, and dates with times, in ISO form (2024-05-17 08:30:00); times with a zone come in UTC;
    - text, exactly as it stands: an empty cell is null, ``""`` is empty text.

    A column with a leading zero (01234) or plus sign (+45) in any number stays text, so that zip codes and telephone
    numbers are never changed. In a number, date or true/false column, blank cells are null, quoted or not.
    Text columns that hold only numbers cannot be told from numbers; say ``text=``. In a file with one column, an
    empty line is a null; in other files empty lines are skipped. Columns without any value come as text.
    """
    import pyarrow as pa

    from sfumato.engines.formats.csv_types import typed

    if decimal not in (".", ","):
        raise ParameterError("decimal must be '.' or ','.")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n' or separator == decimal):
        raise ParameterError("the separator must be one character, and not a quote, a new line or the decimal sign.")
    encoding = _known_encoding(encoding) if encoding else _seen_encoding(path)
    start = _start(path, encoding)
    separator = separator or _sniff(start, decimal)
    header = _records(start, separator, 1)[0]
    nulls = ("",) if null_values is None else (null_values,) if isinstance(null_values, str) else tuple(null_values)
    if start.rstrip("\r\n") == start and len(start) < _SNIFFED and not _records(start, separator, 2)[1:]:
        cells = pa.table({f"f{i}": pa.array([], pa.string()) for i in range(len(header))})  # a header and nothing else
    else:
        cells = _cells(path, encoding, separator, len(header), nulls)
    header = checked_header(header, path, names)
    as_text = chosen((text,) if isinstance(text, str) else text, header, path)
    columns = [
        column if name in as_text else typed(column, decimal, null_values is None)
        for name, column in zip(header, cells.columns, strict=True)
    ]
    return FileContents(pa.table(columns, names=header))


def _known_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise ParameterError(f"'{encoding}' is not an encoding. Try 'latin-1', 'cp1252' or 'utf-16'.") from None
    return "utf-8-sig" if name == "utf-8" else name


def _seen_encoding(path: Path) -> str:
    with _opened(path) as file:
        mark = file.read(2)
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading bytes, unpacked; a packed file that is broken is told so."""
    packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        try:
            yield cast(BinaryIO, file)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise DataError(f"{path} cannot be unpacked: it was cut short, or it is not a gzip file.") from None


def _start(path: Path, encoding: str) -> str:
    """Return the first part of the file as text, whole lines only if there are several."""
    with _opened(path) as file:
        raw = file.read(_SNIFFED)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(raw, final=len(raw) < _SNIFFED)
    except UnicodeDecodeError:
        raise _wrong_encoding(path, encoding) from None
    if not text.strip():
        raise DataError(f"{path} holds no text, not even a header row.")
    return text if len(raw) < _SNIFFED or "\n" not in text else text[: text.rindex("\n") + 1]


def _records(text: str, separator: str, count: int) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    found: list[list[str]] = []
    try:
        for row in rows:
            if row:
                found.append(row)
            if len(found) == count:
                break
    except csv.Error:  # a cell that is too large for the csv module; what was found so far will do
        pass
    return found


def _sniff(text: str, decimal: str) -> str:
    """Return the separator that splits the first records into the same number of cells, and into most of them."""
    best, score = ",", (False, 1)
    for candidate in _SEPARATORS:
        if candidate == decimal:
            continue
        widths = [len(row) for row in _records(text, candidate, 50)]
        found = (len(set(widths)) == 1, widths[0] if widths else 1)
        if found[1] > 1 and found > score:
            best, score = candidate, found
    return best if best != decimal else ";"


def _cells(path: Path, encoding: str, separator: str, width: int, null_values: tuple[str, ...]) -> pa.Table:
    """Return every cell below the header as text."""
    import pyarrow as pa
    import pyarrow.csv

    parse = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True, ignore_empty_lines=width > 1)
    convert = pyarrow.csv.ConvertOptions(
        column_types={f"f{i}": pa.string() for i in range(width)},
        null_values=list(null_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    arrow_encoding = "utf8" if encoding == "utf-8-sig" else encoding
    block = _BLOCK
    while True:
        read = pyarrow.csv.ReadOptions(autogenerate_column_names=True, encoding=arrow_encoding, block_size=block)
        try:
            cells = pyarrow.csv.read_csv(path, read, parse, convert)
            break
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if "straddling" in str(error) and block < 1 << 30:  # one cell larger than a block
                block *= 16
                continue
            raise _broken(path, encoding, separator, width) from None
    doubtful = cells.num_columns != width or _may_end_in_quotes(path, cells)
    if doubtful and (problem := _first_problem(path, encoding, separator, width)) is not None:
        raise problem
    return cells.slice(1)


def _may_end_in_quotes(path: Path, cells: pa.Table) -> bool:
    """Whether a quote that nobody closed may have swallowed the rest of the file, which pyarrow lets pass."""
    last = cells.column(cells.num_columns - 1)[-1].as_py()
    if last and "\n" in last:
        return True
    with _opened(path) as file:
        if path.suffix.lower() != ".gz":
            file.seek(max(0, path.stat().st_size - _SNIFFED))
        tail = b""
        while chunk := file.read(_SNIFFED):
            tail = chunk
    return b'"' in tail[tail.rfind(b"\n") + 1 :]


def _broken(path: Path, encoding: str, separator: str, width: int) -> Exception:
    """Return what is wrong, found again without pyarrow, whose messages quote the cells."""
    return _first_problem(path, encoding, separator, width) or DataError(
        f"{path} cannot be read as CSV with the separator {_shown(separator)}. Is it a CSV file?"
    )


def _first_problem(path: Path, encoding: str, separator: str, width: int) -> Exception | None:
    limit = csv.field_size_limit(1 << 30)
    line = 1
    try:
        with _opened(path) as file:
            reader = csv.reader(io.TextIOWrapper(file, encoding, newline=""), delimiter=separator, strict=True)
            for row in reader:
                if row and len(row) != width:
                    return DataError(
                        f"line {line} of {path} has {len(row)} cells, but the header has {width} (the separator is "
                        f"{_shown(separator)}). A cell that holds the separator must stand in quotes; "
                        f"another separator can be given with separator=."
                    )
                line = reader.line_num + 1
    except UnicodeError:
        return _wrong_encoding(path, encoding)
    except csv.Error:
        return DataError(f"the record at line {line} of {path} has a quote that is not closed, or closed too early.")
    except DataError as error:
        return error
    finally:
        csv.field_size_limit(limit)
    return None


def _wrong_encoding(path: Path, encoding: str) -> DataError:
    name = "UTF-8" if encoding.startswith("utf-8") else encoding
    where = ""
    with _opened(path) as file:
        for number, line in enumerate(file, 1) if not encoding.startswith("utf-16") else ():
            try:
                line.decode(encoding)
            except UnicodeError:
                where = f"line {number} of "
                break
    return DataError(
        f"{where}{path} is not {name} text. Say which encoding it has: older files are often "
        f"encoding='cp1252' or encoding='latin-1'."
    )


def _shown(separator: str) -> str:
    return {"\t": "a tab", ",": "a comma", ";": "a semicolon"}.get(separator, f"'{separator}'")
