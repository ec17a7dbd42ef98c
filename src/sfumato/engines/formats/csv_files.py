"""CSV files in: types are found over whole columns, and nothing is guessed that would change a value."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sfumato.engines.formats.contents import FileContents
from sfumato.engines.formats.headers import checked_header, chosen
from sfumato.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.engines.formats.csv_types import ColumnType

_SEPARATORS = ",;\t|"
_SNIFFED = 1 << 19
_BLOCK = 1 << 22
_LONGEST = 1 << 26
"""A header row has at most so many bytes."""


@dataclass(frozen=True)
class CSVDialect:
    """How a CSV file is to be read: found once, and used by every reader of the file."""

    path: Path
    encoding: str
    separator: str
    decimal: str
    header: tuple[str, ...]
    """The header row as it stands in the file."""
    names: tuple[str, ...]
    """The names of the columns, which may be others than the header's."""
    null_values: tuple[str, ...]
    na: bool
    """Whether NA is null in a column that is otherwise not text."""
    text: frozenset[str]
    """The columns that stay text whatever they hold."""
    blank_lines: int
    """Empty lines before the header; they matter in a file of one column, where an empty line is a null."""
    records: bool
    """Whether anything follows the header."""

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.header)

    def kind_of(self, name: str) -> ColumnType:
        """Return a search for the type of a column, which has seen no cell yet."""
        from sfumato.engines.formats.csv_types import ColumnType

        return ColumnType(self.decimal, self.na, as_text=name in self.text)


def sniff(
    path: Path,
    *,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    null_values: str | Sequence[str] | None = None,
    text: str | Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> CSVDialect:
    """Find how a CSV file is to be read; `read_csv` explains the options."""
    if decimal not in (".", ","):
        raise ParameterError("decimal must be '.' or ','.")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n' or separator == decimal):
        raise ParameterError("the separator must be one character, and not a quote, a new line or the decimal sign.")
    encoding = _known_encoding(encoding) if encoding else _seen_encoding(path)
    _refuse_zero_bytes(path, encoding)
    start, whole = _start(path, encoding)
    separator = separator or _sniff(start, decimal)
    first = _records(start, separator, 2)
    if not first:
        raise DataError(f"{path} has a header row that cannot be read, or is longer than {_LONGEST:,} bytes.")
    nulls = ("",) if null_values is None else (null_values,) if isinstance(null_values, str) else tuple(null_values)
    header = checked_header(first[0], path, names)
    return CSVDialect(
        path, encoding, separator, decimal, tuple(first[0]), tuple(header), nulls, null_values is None,
        frozenset(chosen((text,) if isinstance(text, str) else text, header, path)),
        blank_lines=len(start[: len(start) - len(start.lstrip("\r\n"))].splitlines()),
        records=not whole or len(first) > 1 or start.rstrip("\r\n") != start,
    )  # fmt: skip


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

    dialect = sniff(
        path,
        separator=separator,
        decimal=decimal,
        encoding=encoding,
        null_values=null_values,
        text=text,
        names=names,
    )
    cells = pa.concat_tables(_checked(dialect, _parsed(dialect, streamed=False)))
    columns = [
        dialect.kind_of(name).narrowest(column) for name, column in zip(dialect.names, cells.columns, strict=True)
    ]
    return FileContents(pa.table(columns, names=list(dialect.names)))


def stream_csv(path: Path, **options: Any) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Read a CSV file that may be larger than memory: return its columns with their types, and its records in pieces.

    The file is read twice: types are found over all cells first. The cells and types are those of `read_csv`, since both
    use the same dialect, parser and rules of types; what one refuses, the other refuses with the same sentence.
    """
    import pyarrow as pa

    dialect = sniff(path, **options)
    before = _state(path)
    kinds = [dialect.kind_of(name) for name in dialect.names]
    for table in _checked(dialect, _parsed(dialect, streamed=True)):
        for kind, column in zip(kinds, table.columns, strict=True):
            kind.see(column)
    schema = pa.schema([pa.field(n, kind.arrow_type) for n, kind in zip(dialect.names, kinds, strict=True)])

    def pieces() -> Iterator[pa.Table]:
        for table in _parsed(dialect, streamed=True):
            columns = [kind.converted(column) for kind, column in zip(kinds, table.columns, strict=True)]
            if any(column is None for column in columns):
                break
            yield pa.table(columns, schema=schema)
        if _state(path) != before:
            raise DataError(f"{path} was changed while it was read. Read it again when nobody writes it.")

    return schema, pieces()


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


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


def _refuse_zero_bytes(path: Path, encoding: str) -> None:
    if encoding.startswith(("utf-16", "utf-32")):
        return
    with _opened(path) as file:
        while chunk := file.read(_BLOCK):
            if b"\0" in chunk:
                raise DataError(
                    f"{path} holds zero bytes, which no text has. If it is UTF-16 text without a byte-order mark, "
                    "say encoding='utf-16-le' or encoding='utf-16-be'; else the file is damaged, or of another form."
                )


def _start(path: Path, encoding: str) -> tuple[str, bool]:
    """Return the first part of the file as text, and whether it is all of it; whole lines only if there are several."""
    size = _SNIFFED
    while True:
        with _opened(path) as file:
            raw = file.read(size)
        whole = len(raw) < size
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(raw, final=whole)
        except UnicodeError:
            raise _wrong_encoding(path, encoding) from None
        if whole or "\n" in text.strip("\r\n") or size >= _LONGEST:
            break
        size *= 8  # a header of a great many columns
    if not text.strip():
        raise DataError(f"{path} holds no text, not even a header row.")
    return (text if whole or "\n" not in text else text[: text.rindex("\n") + 1]), whole


def _records(text: str, separator: str, count: int) -> list[list[str]]:
    found: list[list[str]] = []
    with _long_cells():
        try:
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
                if row:
                    found.append(row)
                if len(found) == count:
                    break
        except csv.Error:  # what was found so far will do
            pass
    return found


_LIMIT = threading.Lock()


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length, which it counts for the whole process."""
    with _LIMIT:
        limit = csv.field_size_limit(1 << 30)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


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


def _parsed(dialect: CSVDialect, streamed: bool) -> Iterator[pa.Table]:
    """Yield every cell below the header as text, in one table or in a stream of them; the first comes at once."""
    import pyarrow as pa
    import pyarrow.csv

    names = [f"f{i}" for i in range(dialect.width)]
    if not dialect.records:
        yield pa.table({name: pa.array([], pa.string()) for name in names})
        return
    parse = pyarrow.csv.ParseOptions(
        delimiter=dialect.separator, newlines_in_values=True, ignore_empty_lines=dialect.width > 1
    )
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=list(dialect.null_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    encoding = "utf8" if dialect.encoding == "utf-8-sig" else dialect.encoding
    block, given = max(_BLOCK, 1024 * dialect.width), 0
    while True:
        read = pyarrow.csv.ReadOptions(
            autogenerate_column_names=True, encoding=encoding, block_size=block, skip_rows=dialect.blank_lines
        )
        try:
            with _tables(dialect.path, streamed, read, parse, convert) as tables:
                for table in _from_record(_below_header(dialect, tables), given):
                    given += table.num_rows
                    yield table
            return
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if "straddling" in str(error) and block < 1 << 30:  # one record larger than a block
                block *= 16
                continue
            raise _broken(dialect) from None


@contextmanager
def _tables(path: Path, streamed: bool, *options: Any) -> Iterator[Iterator[pa.Table]]:
    import pyarrow as pa
    import pyarrow.csv

    if not streamed:
        yield iter([pyarrow.csv.read_csv(path, *options)])
        return
    with pyarrow.csv.open_csv(path, *options) as reader:
        yield (pa.Table.from_batches([batch]) for batch in reader)


def _from_record(tables: Iterator[pa.Table], first: int) -> Iterator[pa.Table]:
    """Yield the tables without their first so many records."""
    for table in tables:
        if first < table.num_rows or not first:
            yield table.slice(first)
        first = max(0, first - table.num_rows)


def _below_header(dialect: CSVDialect, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables without the header row, which must be the one that was found before."""
    first = next((table for table in tables if table.num_rows), None)
    if first is None or first.num_columns != dialect.width:
        raise _broken(dialect)
    header = ["" if (cell := column[0].as_py()) is None else cell for column in first.columns]
    if any(seen != name and name not in dialect.null_values for seen, name in zip(header, dialect.header, strict=True)):
        raise DataError(f"the header row of {dialect.path} can be read in two ways. Put each name in quotes, or none.")
    yield first.slice(1)
    yield from tables


def _checked(dialect: CSVDialect, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the tables, and refuse at the end a file that swallowed its own rest."""
    last = None
    for table in tables:
        last = table if table.num_rows else last
        yield table
    if dialect.records and _may_end_in_quotes(dialect.path, last) and (problem := _first_problem(dialect)) is not None:
        raise problem


def _may_end_in_quotes(path: Path, cells: pa.Table | None) -> bool:
    """Whether a quote that nobody closed may have swallowed the rest of the file, which pyarrow lets pass."""
    last = None if cells is None else cells.column(cells.num_columns - 1)[-1].as_py()
    if last and "\n" in last:
        return True
    with _opened(path) as file:
        if path.suffix.lower() != ".gz":
            file.seek(max(0, path.stat().st_size - _SNIFFED))
        tail = b""
        while chunk := file.read(_SNIFFED):
            tail = chunk
    return b'"' in tail[tail.rfind(b"\n") + 1 :]


def _broken(dialect: CSVDialect) -> Exception:
    """Return what is wrong, found again without pyarrow, whose messages quote the cells."""
    return _first_problem(dialect) or DataError(
        f"{dialect.path} cannot be read as CSV with the separator {_shown(dialect.separator)}. Is it a CSV file?"
    )


def _first_problem(dialect: CSVDialect) -> Exception | None:
    path, line, width = dialect.path, 1, dialect.width
    try:
        with _opened(path) as file, _long_cells():
            text = io.TextIOWrapper(file, dialect.encoding, newline="")
            reader = csv.reader(text, delimiter=dialect.separator, strict=True)
            for row in reader:
                if row and len(row) != width:
                    return DataError(
                        f"line {line} of {path} has {len(row)} cells, but the header has {width} (the separator is "
                        f"{_shown(dialect.separator)}). A cell that holds the separator must stand in quotes; "
                        f"another separator can be given with separator=."
                    )
                line = reader.line_num + 1
    except UnicodeError:
        return _wrong_encoding(path, dialect.encoding)
    except csv.Error:
        return DataError(f"the record at line {line} of {path} has a quote that is not closed, or closed too early.")
    except DataError as error:
        return error
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
