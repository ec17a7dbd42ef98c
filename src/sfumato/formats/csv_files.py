"""CSV files in and out: types are found over whole columns, and every value comes back as it was."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from sfumato.errors import DataError, ParameterError, plural
from sfumato.formats.contents import FileContents, checked_header, chosen, plain, refuse_kinds, whole_number
from sfumato.lazy import pa, pc

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*)?([eE][-+]?\d+)?|-?\.\d+([eE][-+]?\d+)?|NaN|nan|-?[iI]nf")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SUSPECT = r"^\+|^-?0\d|^-?\d{16}|[nN]"
"""Cells that Arrow takes for numbers, but that may lose something: signs, zeros, digits, words such as Nan."""
_EXACT = 2**53
_LOOK = 1000


class ColumnType:
    """The narrowest type that holds every cell of a CSV column without loss, found in pieces or at once.

    The first word of the column says which types are tried. Whether a type holds a cell depends on that cell alone, so a
    column seen in pieces gets the type of the same column seen at once.
    """

    def __init__(self, decimal: str, na: bool, as_text: bool = False, thousands: str | None = None) -> None:
        self._decimal = decimal
        self._thousands = thousands
        self._na = na
        self._tried: list[pa.DataType] | None = [] if as_text else None
        """The types that hold all cells so far, the narrowest first; None until there is a word."""

    def narrowest(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a whole column in its type, else as it came."""
        self._begin(cells)
        for arrow_type in self._tried or ():
            if (column := self._as(cells, arrow_type)) is not None:
                return column
        return cells

    def see(self, cells: pa.ChunkedArray) -> None:
        """Look at a further piece of the column."""
        self._begin(cells)
        if self._tried:
            self._tried = [arrow_type for arrow_type in self._tried if self._as(cells, arrow_type) is not None]

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that holds all pieces seen."""
        return self._tried[0] if self._tried else pa.string()

    def converted(self, cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Return a piece in the type that holds all pieces seen; None if this one is not among them."""
        return cells if self.arrow_type == pa.string() else self._as(cells, self.arrow_type)

    def _begin(self, cells: pa.ChunkedArray) -> None:
        if self._tried is not None:
            return
        word = _first_word(cells.slice(0, _LOOK), self._na) or _first_word(cells, self._na)
        if word is not None:
            (word,) = _ungrouped(pa.chunked_array([[word]]), self._thousands, self._decimal).to_pylist()
            self._tried = _types(word.replace(",", ".") if self._decimal == "," else word)

    def _as(self, cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
        clean = _clean(cells, self._na)
        if pa.types.is_int64(arrow_type) or pa.types.is_float64(arrow_type):
            clean = _ungrouped(clean, self._thousands, self._decimal)
        if pa.types.is_int64(arrow_type):
            return _whole(clean)
        if pa.types.is_float64(arrow_type):
            return _numbers(clean, self._decimal)
        return _booleans(clean) if pa.types.is_boolean(arrow_type) else _dates(clean, arrow_type)


def _types(word: str) -> list[pa.DataType]:
    """Return the types that a column with this word in it may have, the narrowest first."""
    if _NUMBER.fullmatch(word):
        return [pa.int64(), pa.float64()] if word.lstrip("-").isdigit() else [pa.float64()]
    if word.lower() in ("true", "false"):
        return [pa.bool_()]
    if _DATE.match(word):
        return [pa.date32(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("us", "ns"))]
    return []


def _clean(cells: pa.ChunkedArray, na: bool) -> pa.ChunkedArray:
    """Return the cells without blanks around them; null where nothing is left, or NA is."""
    trimmed = pc.ascii_trim_whitespace(cells)
    nulls = pa.array(["", "NA"] if na else [""])
    return pc.if_else(pc.is_in(trimmed, nulls), None, trimmed)


def _ungrouped(cells: pa.ChunkedArray, mark: str | None, decimal: str) -> pa.ChunkedArray:
    """Return numbers in groups of three digits without the marks between; other cells, such as 1.5 under ".", as they are."""
    if mark is None:
        return cells
    marks = "[ \u00a0\u202f]" if mark in " \u00a0\u202f" else f"[{mark}]"
    grouped = pc.match_substring_regex(cells, rf"^[-+]?\d{{1,3}}({marks}\d{{3}})+([{decimal}]\d*)?$")
    return pc.if_else(grouped, pc.replace_substring_regex(cells, marks, ""), cells)


def _above(start: str, separator: str) -> int:
    """Return how many lines stand above what looks like the header: the first record without an empty cell, of the usual width."""
    rows, lines = list[list[str]](), list[int]()
    with _long_cells(), suppress(csv.Error):
        reader, before = csv.reader(io.StringIO(start, newline=""), delimiter=separator), 0
        for row in reader:
            if row:
                rows.append(row)
                lines.append(before)
            before = reader.line_num
            if len(rows) == 50:
                break
    width = max((len(row) for row in rows), default=0)
    return next((line for row, line in zip(rows, lines, strict=True) if len(row) == width > 1 and all(row)), 0)


def _first_word(cells: pa.ChunkedArray, na: bool) -> str | None:
    words = _clean(cells, na).drop_null()
    return str(words[0]) if len(words) else None


def _whole(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    whole = _cast(cells, pa.int64())
    return (
        whole if whole is not None and pc.all(pc.equal(whole.cast(pa.string()), cells)).as_py() is not False else None
    )


def _numbers(cells: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    if decimal == ",":
        if pc.any(pc.match_substring(cells, ".")).as_py():
            return None
        cells = pc.replace_substring(cells, ",", ".")
    numbers = _cast(cells, pa.float64())
    if numbers is None:
        return None
    suspects = pc.unique(cells.filter(pc.match_substring_regex(cells, _SUSPECT)))
    return numbers if all(_safe(cell) for cell in suspects.to_pylist()) else None


def _safe(cell: str) -> bool:
    """Whether a cell is a number as numbers are written, and not a whole number too long to be exact."""
    if not _NUMBER.fullmatch(cell):
        return False
    digits = cell.lstrip("-")
    return not digits.isdigit() or (len(digits) < 20 and int(digits) <= _EXACT)


def _booleans(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    lower = pc.ascii_lower(cells)
    known = pc.is_in(lower, pa.array(["true", "false", None]))
    return pc.equal(lower, "true") if pc.all(known).as_py() else None


def _dates(cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
    if pc.any(pc.starts_with(cells, "0000-")).as_py():  # calendars begin with the year 1
        return None
    return _cast(cells, arrow_type)


def _cast(cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(arrow_type)
    except pa.ArrowInvalid:
        return None


_SEPARATORS = ",;\t|^~"
_SNIFFED = 1 << 19
_BLOCK = 1 << 22
_LONGEST = 1 << 26
"""Largest number of bytes of a header row."""


@dataclass(frozen=True)
class CSVDialect:
    """How a CSV file is to be read: found once, and used by every reader of the file."""

    path: Path
    encoding: str
    separator: str
    decimal: str
    thousands: str | None
    skip: int
    """Lines above the header that are left out."""
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
        return ColumnType(self.decimal, self.na, as_text=name in self.text, thousands=self.thousands)


def sniff(
    path: Path,
    *,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    null_values: str | Sequence[str] | None = None,
    text: str | Sequence[str] = (),
    names: Sequence[str] | None = None,
    thousands: str | None = None,
    skip: int | str = 0,
) -> CSVDialect:
    """Find how a CSV file is to be read; `read_csv` explains the options."""
    if decimal not in (".", ","):
        raise ParameterError("decimal must be '.' or ','.")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n' or separator == decimal):
        raise ParameterError("the separator must be one character, and not a quote, a new line or the decimal sign.")
    if thousands is not None and (thousands not in (*".,'’ ", "\u00a0", "\u202f") or thousands in (decimal, separator)):
        raise ParameterError(
            "thousands must be a point, a comma, an apostrophe or a blank, and neither the decimal sign nor the separator."
        )
    above = whole_number("skip", skip)
    encoding = _known_encoding(encoding) if encoding else _seen_encoding(path)
    _refuse_zero_bytes(path, encoding)
    start, whole = _start(path, encoding)
    start = "".join(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", start)[above:]) if above else start
    separator = separator or _sniff(start, decimal)
    first = _records(start, separator, 2)
    if not first:
        raise DataError(f"{path} has a header row that cannot be read, or is longer than {_LONGEST:,} bytes.")
    nulls = ("",) if null_values is None else (null_values,) if isinstance(null_values, str) else tuple(null_values)
    header = checked_header(first[0], path, names, _above(start, separator) + above)
    return CSVDialect(
        path, encoding, separator, decimal, thousands, above, tuple(first[0]), tuple(header), nulls, null_values is None,
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
    thousands: str | None = None,
    skip: int | str = 0,
) -> FileContents:
    """Read a CSV file with a header row, packed (.gz) or not.

    Parameters
    ----------
    separator
        Between the cells; found among comma, semicolon, tab, bar, caret and tilde if not given.
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
    thousands
        The mark between groups of three digits: ".", ",", "'", "’" or a blank (every kind of blank is one). It is never guessed.
    skip
        Lines above the header that are left out, such as titles.

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
    dialect = sniff(
        path,
        separator=separator,
        decimal=decimal,
        encoding=encoding,
        null_values=null_values,
        text=text,
        names=names,
        thousands=thousands,
        skip=skip,
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


_LIMIT = threading.RLock()


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
            autogenerate_column_names=True,
            encoding=encoding,
            block_size=block,
            skip_rows=dialect.skip + dialect.blank_lines,
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
    import pyarrow.csv

    if not streamed:
        yield iter([pyarrow.csv.read_csv(path, *options)])
        return
    with pyarrow.csv.open_csv(path, *options) as reader:
        yield (pa.Table.from_batches([batch]) for batch in reader)


def _from_record(tables: Iterator[pa.Table], first: int) -> Iterator[pa.Table]:
    """Yield the tables without the first `first` records."""
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
            line = 1 + sum(text.readline() != "" for _ in range(dialect.skip))
            reader = csv.reader(text, delimiter=dialect.separator, strict=True)
            for row in reader:
                if row and len(row) != width:
                    above = _above(_start(path, dialect.encoding)[0], dialect.separator)
                    title = (
                        f" If the header stands in line {above + 1}, say skip={above}."
                        if above and not dialect.skip
                        else ""
                    )
                    return DataError(
                        f"line {line} of {path} has {plural(len(row), 'cell')}, but the header has {width} (the separator is "
                        f"{_shown(dialect.separator)}). A cell that holds the separator must stand in quotes; "
                        f"another separator can be given with separator=.{title}"
                    )
                line = dialect.skip + reader.line_num + 1
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


_LINES = 1 << 16


def csv_writer(table: pa.Table, separator: str = ",", packed: bool = False) -> Callable[[Path], None]:
    """Return a function that writes the table as UTF-8 CSV.

    Text stands in quotes and the rest does not. Null is an empty cell, empty text is ``""``, NaN is ``NaN``. Numbers
    are written so that they come back exactly, with a point in floating-point numbers even when whole. Times with a
    zone are written in UTC. Text is never altered: a cell that begins with = + - or @ is written as it is, and a
    spreadsheet may take it for a formula.
    """
    table = plain(table)
    refuse_kinds(table, "CSV")

    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=6) if packed else path.open("wb") as file:
            file.write(header_line(table.column_names, separator))
            for lines in record_lines(table, separator):
                file.write(lines)

    return write


def header_line(names: Sequence[str], separator: str = ",") -> bytes:
    """Return the first line of a CSV file."""
    return (separator.join(_quoted(name) for name in names) + "\n").encode()


def record_lines(table: pa.Table, separator: str = ",") -> Iterator[memoryview]:
    """Yield the other lines, some thousands at a time; the table has no categories and no refused kinds."""
    for batch in table.to_batches(max_chunksize=_LINES):
        yield _joined([_cells_of(column) for column in batch.columns], separator)


def _joined(cells: list[pa.Array], separator: str) -> memoryview:
    """Return the lines of a batch as bytes: Arrow keeps the texts of an array one after another."""
    last = pc.binary_join_element_wise(cells[-1], "", "\n")
    lines = pc.binary_join_element_wise(*cells[:-1], last, separator) if len(cells) > 1 else last
    lines = lines.cast(pa.large_string())
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("q")[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[ends[0] : ends[-1]] if len(lines) else memoryview(b"")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _cells_of(column: pa.Array) -> pa.Array:
    """Return a column as the cells of a CSV file; the way back is `csv_types.typed`."""
    kind = column.type
    if pa.types.is_floating(kind):
        cells = column.cast(pa.string())
        bare = pc.invert(pc.match_substring_regex(cells, "[.en]"))
        cells = pc.if_else(bare, pc.binary_join_element_wise(cells, ".0", ""), cells)
        cells = pc.if_else(pc.is_nan(column), "NaN", cells)
    elif pa.types.is_timestamp(kind):
        cells = _shortest(column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))).cast(pa.string())
    elif pa.types.is_date(kind):
        cells = column.cast(pa.date32()).cast(pa.string())
    else:
        cells = column.cast(pa.string())
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            doubled = pc.replace_substring(cells, '"', '""')
            cells = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.fill_null(cells, "")


def _shortest(times: pa.Array) -> pa.Array:
    """Return the times in whole seconds if they are, so that no zeros follow the seconds."""
    try:
        return times.cast(pa.timestamp("s", times.type.tz))
    except pa.ArrowInvalid:
        return times
