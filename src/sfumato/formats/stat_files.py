"""Stata, SPSS and SAS files in and out, through pyreadstat."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import DataError, ParameterError, join_names, missing_extra, repeated
from sfumato.formats.contents import FileContents, code_text, plain, refuse_kinds
from sfumato.lazy import pa, pc, pd
from sfumato.typing import Numbers, Whole

# Dates of Stata, SPSS and SAS: numbers since a day long ago, and a format that says so.

DAY = 86_400
_SPSS_DATES = {"DATE", "ADATE", "EDATE", "JDATE", "SDATE", "MOYR", "QYR", "WKYR"}
_SPSS_STAMPS = {"DATETIME", "YMDHMS"}
_SPSS_TIMES = {"TIME", "DTIME", "MTIME"}
_SAS_DATES = re.compile(
    r"(DATE|WEEKDAT[EX]|WORDDAT[EX]|(DDMM|MMDD)YY[BCDNPS]?|YYMMDD[BCDNPS]?|(YYMM|MMYY)[CDNPS]?|MONYY|YYMON|"
    r"YYQR?[CDNPS]?|YEAR|JULIAN|JULDAY|(IS8601|E8601|B8601)DA|NLDATE)"
)
_SAS_STAMPS = re.compile(r"(DATETIME|DATEAMPM|MDYAMPM|DTDATE|DTMONYY|DTYEAR|DTYYQC|(IS8601|E8601|B8601)D[TN]|NLDATM)")
_SAS_TIMES = re.compile(r"(TIME|HHMM|TOD|TIMEAMPM|MMSS|(IS8601|E8601|B8601)TM)")
_STATA_PERIODS = {"m": 1, "q": 3, "h": 6}

EPOCH_DAYS = {"SPSS": 141_428, "SAS": 3_653, "Stata": 3_653}
"""Days from a program's day zero (14 October 1582 or 1 January 1960) to 1 January 1970."""
_LAST = 253_402_300_800
_FIRST = -62_135_596_800
"""Seconds from 1970 to the years 10000 and 1: what Python, Arrow and the programs all hold."""


def dated(
    column: pa.Array, codes: tuple[float | str, ...], shown: str, program: str
) -> tuple[pa.Array, tuple[float | str, ...], set[float | str]]:
    """Return the column as dates or times if its format says so, its missing codes, and those dropped for it.

    Missing codes are numbers, and cannot stand in a column of dates. A column with a value that no calendar has
    stays numbers, as does a time column with values of a day or more: those are lengths of time.
    """
    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    coded = np.isin(numbers, np.array(codes, float))
    kind, seconds = _seconds(np.where(coded, np.nan, numbers), shown, program)
    null = np.isnan(seconds)
    low, high = (0, DAY) if kind == "time" else (_FIRST, _LAST)
    if kind is None or ((seconds[~null] < low) | (seconds[~null] >= high)).any():
        return column, codes, set()
    micro = _microseconds(seconds)
    arrow_type = pa.time64("us") if kind == "time" else pa.timestamp("us")
    if kind == "date" and not (micro % (DAY * 1_000_000)).any():
        arrow_type = pa.date32()
        micro = (micro // (DAY * 1_000_000)).astype(np.int32)
    return pa.array(micro, mask=null).cast(arrow_type), (), set(numbers[coded].tolist())


def _seconds(values: Numbers, shown: str, program: str) -> tuple[str | None, Numbers]:
    """Return what the format means ("date", "stamp", "time" or None), and seconds since 1970 (or midnight)."""
    offset = EPOCH_DAYS[program] * DAY
    if program == "Stata":
        return _stata_seconds(values, shown.replace("%-", "%"), offset)
    match = re.fullmatch(r"(.*?[A-Z])(\d+(\.\d*)?)?\.?", shown)
    base = match.group(1) if match else ""
    if program == "SPSS":
        if base in _SPSS_DATES or base in _SPSS_STAMPS:
            return "date" if base in _SPSS_DATES else "stamp", values - offset
        return ("time" if base in _SPSS_TIMES else None), values
    if _SAS_DATES.fullmatch(base):
        return "date", values * DAY - offset
    if _SAS_STAMPS.fullmatch(base):
        return "stamp", values - offset
    return ("time" if _SAS_TIMES.fullmatch(base) else None), values


def _stata_seconds(values: Numbers, shown: str, offset: int) -> tuple[str | None, Numbers]:
    if shown.startswith(("%td", "%d")):
        return "date", values * DAY - offset
    if shown.startswith("%tcHH:MM"):
        return "time", values / 1000
    if shown.startswith("%tc"):
        return "stamp", values / 1000 - offset
    period = shown[2:3] if shown.startswith("%t") else ""
    if period not in ("w", *_STATA_PERIODS):
        return None, values
    null = np.isnan(values)
    count = np.where(null, 0, values).clip(-100_000, 100_000).astype(np.int64)
    if period == "w":  # Stata's weeks: 52 a year, the first begins on 1 January
        years = np.datetime64("1960", "Y") + count // 52
        days = years.astype("datetime64[D]") + 7 * (count % 52)
    else:
        days = (np.datetime64("1960-01", "M") + count * _STATA_PERIODS[period]).astype("datetime64[D]")
    return "date", np.where(null, np.nan, days.astype(np.int64) * float(DAY))


def _microseconds(seconds: Numbers) -> Whole:
    """Return whole microseconds; a double holds seconds since 1582 to two of them, so near a millisecond is on it."""
    known = np.where(np.isnan(seconds), 0, seconds)
    whole = np.floor(known)
    micro = whole.astype(np.int64) * 1_000_000 + np.rint((known - whole) * 1e6).astype(np.int64)
    beside = (micro + 500) % 1000 - 500
    return np.where(np.abs(beside) <= 2, micro - beside, micro)


PROGRAMS = {"dta": "Stata", "sav": "SPSS", "zsav": "SPSS", "por": "SPSS", "sas7bdat": "SAS", "xpt": "SAS"}
_READERS = {"dta": "read_dta", "sav": "read_sav", "zsav": "read_sav", "por": "read_por"}
_READERS |= {"sas7bdat": "read_sas7bdat", "xpt": "read_xport"}
_KEEP_CODES = ("dta", "sav", "zsav", "sas7bdat")
_Missing = dict[str, tuple[float | str, ...]]


def pyreadstat_module() -> Any:
    """Return pyreadstat, or say how to get it."""
    try:
        import pyreadstat
    except ImportError:
        raise missing_extra("pyreadstat", "stats-files", "Reading or writing Stata, SPSS and SAS files") from None
    return pyreadstat


def reader(form: str) -> Callable[..., FileContents]:
    """Return the reader of a form: dta, sav, zsav, por, sas7bdat or xpt."""
    return _read_por if form == "por" else partial(read_stat, form)


def read_stat(form: str, path: Path, *, encoding: str | None = None) -> FileContents:
    """Read a Stata, SPSS or SAS file with its labels.

    Parameters
    ----------
    encoding
        Of the texts; told by the file itself in most cases.

    Notes
    -----
    - Codes that SPSS declares as missing stay as values and are listed in ``missing``; a declared range ("98 thru
      high") is listed as the codes in it that occur in the data or have a label.
    - The special missing values of Stata (.a to .z) and SAS (.A to .Z and ._) are not numbers, so they come as null,
      with a warning that names the columns; their labels are kept under ".a".
    - Empty text is how these programs write a missing text, so it comes as null.
    - Dates, times of day, and dates with times come as such. Stata's weeks, months, quarters and half-years come as
      the first day of each. Stata's %tC times, which count leap seconds, stay numbers.
    - A column comes as whole numbers if all its values are and its format shows no decimals.
    """
    pyreadstat = pyreadstat_module()
    options: dict[str, Any] = {"output_format": "dict", "disable_datetime_conversion": True}
    if form in _KEEP_CODES:
        options["user_missing"] = True
    if encoding is not None:
        options["encoding"] = encoding
    try:
        data, meta = getattr(pyreadstat, _READERS[form])(str(path), **options)
    except PermissionError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        if "encoding" in str(error) or "convert string" in str(error):
            raise ParameterError(
                f"{path} has text in an encoding that it does not tell, or that is not the one asked for. "
                f"Say which with encoding=; older files are often 'windows-1252' or 'latin1'."
            ) from None
        raise DataError(
            f"{path} is not a whole {PROGRAMS[form]} file of the form .{form}: it was cut short (copy or write it "
            f"again), or it is of another form (give form= to say which)."
        ) from None
    return _contents(path, form, data, meta)


def _read_por(path: Path) -> FileContents:
    """Read an SPSS portable file. Codes declared as missing come as null: its reader does not tell them."""
    warnings.warn(
        f"{path}: in .por files, codes that were declared as missing come as null. Save as .sav to keep them apart.",
        stacklevel=3,
    )
    return read_stat("por", path)


def _contents(path: Path, form: str, data: Mapping[str, list[Any]], meta: Any) -> FileContents:
    columns: dict[str, pa.Array] = {}
    value_labels: dict[str, dict[str, str]] = {}
    missing: _Missing = {}
    lost: dict[str, set[str]] = _special_in_xport(path, meta) if form == "xpt" else {}
    for name, values in data.items():
        words = meta.variable_value_labels.get(name, {})
        if meta.readstat_variable_types[name].startswith("string"):
            columns[name] = pa.array([v or None for v in values], pa.string())
            tags: set[str] = set()
        else:
            tags = {v for v in values if isinstance(v, str)}
            columns[name] = _numbers(values, tags, meta.readstat_variable_types[name])
            words = {f".{code}" if isinstance(code, str) else code: word for code, word in words.items()}
        codes = _codes(meta.missing_ranges.get(name, ()), columns[name], words)
        shown = meta.original_variable_types.get(name) or ""
        if not pa.types.is_string(columns[name].type):
            columns[name], codes, dropped = dated(columns[name], codes, shown, PROGRAMS[form])
            lost[name] = lost.get(name, set()) | {f".{tag}" for tag in tags} | {code_text(c) for c in dropped}
            columns[name] = _whole(columns[name], shown, PROGRAMS[form])
        if words:
            value_labels[name] = {code_text(code): str(word) for code, word in words.items()}
        if codes:
            missing[name] = codes
    _warn({name: tags for name, tags in lost.items() if tags}, path)
    labels = {name: label for name, label in meta.column_names_to_labels.items() if label}
    return FileContents(pa.table(columns), labels, value_labels, missing)


def _numbers(values: list[Any], tags: set[str], stored: str) -> pa.Array:
    if tags:
        values = [None if isinstance(v, str) else v for v in values]
    if stored.startswith("int"):
        return pa.array(values, pa.int64(), from_pandas=True)
    numbers = pa.array(values, pa.float64())
    return pc.if_else(pc.is_nan(numbers), None, numbers)


def _codes(ranges: Iterable[Mapping[str, Any]], column: pa.Array, words: Mapping[Any, str]) -> tuple[float | str, ...]:
    """Return the missing codes that ranges declare: single ones, and those in a range that occur or have a label."""
    codes: set[float | str] = set()
    for declared in ranges:
        low, high = declared["lo"], declared["hi"]
        if low == high:
            codes.add(low)
            continue
        candidates = [*pc.unique(column).drop_null().to_pylist(), *(w for w in words if not isinstance(w, str))]
        codes.update(c for c in candidates if low <= c <= high)
    return tuple(sorted(_plain(c) for c in codes))


def _plain(code: float | str) -> float | str:
    return int(code) if isinstance(code, float) and code.is_integer() else code


def _whole(column: pa.Array, shown: str, program: str) -> pa.Array:
    """Return whole numbers as such, where the format shows no decimals or (SAS) there is none."""
    if not pa.types.is_floating(column.type):
        return column
    patterns = {"Stata": r"%-?0?\d+\.0fc?", "SPSS": r"[FN]\d+(\.0)?", "SAS": r"(F?\d+(\.0?)?)?"}
    if not re.fullmatch(patterns[program], shown):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _special_in_xport(path: Path, meta: Any) -> dict[str, set[str]]:
    """Return the special missing values of each column, which pyreadstat does not tell for .xpt files.

    A missing number is its letter ('.', '_' or A to Z) followed by zero bytes (SAS technical note TS-140).
    """
    import numpy as np

    widths = [int(meta.variable_storage_width[name]) for name in meta.column_names]
    length, count = sum(widths), int(meta.number_rows or 0)
    raw = path.read_bytes()
    header = re.search(rb"HEADER RECORD\*{7}OBS[ V8]+HEADER RECORD!{7}.{32}", raw)
    if header is None or not count or len(raw) < header.end() + length * count:
        return {}
    records = np.frombuffer(raw, np.uint8, length * count, header.end()).reshape(count, length)
    special: dict[str, set[str]] = {}
    start = 0
    for name, width in zip(meta.column_names, widths, strict=True):
        if not meta.readstat_variable_types[name].startswith("string"):
            first, rest = records[:, start], records[:, start + 1 : start + width]
            letters = first[~rest.any(axis=1) & ((first == ord("_")) | ((first >= ord("A")) & (first <= ord("Z"))))]
            special[name] = {f".{chr(letter)}" for letter in np.unique(letters)}
        start += width
    return special


def _warn(lost: Mapping[str, set[str]], path: Path) -> None:
    if lost:
        which = join_names(f"{name} ({', '.join(sorted(tags))})" for name, tags in lost.items())
        warnings.warn(f"{path}: special missing values were read as null, in these columns: {which}.", stacklevel=5)


EXACT = 2**53
"""Whole numbers up to here are exact in floating point, which is all that SPSS, SAS and Excel have."""


@dataclass(frozen=True)
class Limits:
    """The limits of one form; lengths in bytes of UTF-8, or in characters where `characters` is set."""

    program: str
    name: str
    """What a column name must look like, as a pattern."""
    name_rule: str
    name_length: int
    largest: float
    smallest: float = 0.0
    reserved: frozenset[str] = frozenset()
    case_matters: bool = False
    text: int = 32_767
    keeps_last_blanks: bool = False
    label: int = 256
    value_label: int = 0
    characters: bool = False

    def length(self, text: str) -> int:
        """Return how long a name or label is for this form."""
        return len(text) if self.characters else len(text.encode())


_STATA_WORDS = ["_all", "_b", "_coef", "_cons", "_n", "_N", "_pi", "_pred", "_rc", "_skip", "_weight", "byte", "double"]
_STATA_WORDS += ["float", "if", "in", "int", "long", "using", "with", "strL", *(f"str{i}" for i in range(1, 2046))]
_SPSS_WORDS = ["ALL", "AND", "BY", "EQ", "GE", "GT", "LE", "LT", "NE", "NOT", "OR", "TO", "WITH"]

LIMITS = {
    "dta": Limits(
        program="Stata",
        name=r"[^\W\d]\w*",
        name_rule="letters, digits and underscores, not beginning with a digit, and not a word such as 'if' or 'byte'",
        name_length=32,
        largest=8.98e307,
        reserved=frozenset(_STATA_WORDS),
        case_matters=True,
        text=2_000_000_000,
        keeps_last_blanks=True,
        label=80,
        value_label=32_000,
        characters=True,
    ),
    "sav": Limits(
        program="SPSS",
        name=r"[^\W\d_]([\w.$#@]*[\w$#@])?",
        name_rule="letters, digits and . _ $ # @, beginning with a letter, and not a word such as 'all' or 'to'",
        name_length=64,
        largest=1.79e308,
        reserved=frozenset(_SPSS_WORDS),
        value_label=120,
    ),
    "xpt": Limits(
        program="SAS",
        name=r"[A-Za-z_][A-Za-z0-9_]*",
        name_rule="English letters, digits and underscores, not beginning with a digit",
        name_length=32,
        largest=7.2e75,
        smallest=5.4e-79,
    ),
}


def check_names_for(names: list[str], limits: Limits) -> None:
    """Refuse column names that the program does not take, all of them in one sentence."""

    def bad(name: str) -> bool:
        word = name if limits.case_matters else name.upper()
        return (
            not re.fullmatch(limits.name, name) or limits.length(name) > limits.name_length or word in limits.reserved
        )

    if wrong := [name for name in names if bad(name)]:
        raise DataError(
            f"{limits.program} does not take these column names: {join_names(wrong)}. A name has at most "
            f"{limits.name_length} {'characters' if limits.characters else 'bytes'}: {limits.name_rule}. Rename them."
        )
    if same := repeated(names, str if limits.case_matters else str.upper):
        raise DataError(f"{limits.program} sees no capitals, so these column names are the same: {join_names(same)}.")


def check_labels_for(contents: FileContents, limits: Limits) -> None:
    """Refuse labels that would be cut."""
    names = contents.table.column_names
    unit = "characters" if limits.characters else "bytes"
    if long := [n for n in names if limits.length(contents.labels.get(n, "")) > limits.label]:
        raise DataError(
            f"{limits.program} holds variable labels of at most {limits.label} {unit}, and these columns have longer "
            f"ones: {join_names(long)}. Shorten them."
        )

    def longest(name: str) -> int:
        return max((len(word.encode()) for word in contents.value_labels.get(name, {}).values()), default=0)

    if limits.value_label and (long := [n for n in names if longest(n) > limits.value_label]):
        raise DataError(
            f"{limits.program} holds value labels of at most {limits.value_label} bytes, and these columns have "
            f"longer ones: {join_names(long)}. Shorten them."
        )


def check_text(name: str, column: pa.ChunkedArray, limits: Limits) -> None:
    """Refuse text that would be cut: too long, ending in blanks where they are padding, or with zero characters."""
    if (pc.max(pc.binary_length(column)).as_py() or 0) > limits.text:
        raise DataError(f"column '{name}' has texts longer than the {limits.text} bytes that {limits.program} holds.")
    if pc.any(pc.match_substring(column, "\0")).as_py():
        raise DataError(f"column '{name}' has texts with a zero character, where {limits.program} ends a text.")
    if not limits.keeps_last_blanks and pc.any(pc.ends_with(column, " ")).as_py():
        raise DataError(
            f"column '{name}' has texts that end in a blank, which {limits.program} would lose. Trim them first."
        )


def check_numbers(name: str, numbers: Numbers, limits: Limits) -> None:
    """Refuse infinities and numbers out of range; NaN is missing."""
    size = np.abs(numbers[~np.isnan(numbers)])
    if np.isinf(size).any():
        raise DataError(f"column '{name}' has infinite numbers, which {limits.program} has no place for.")
    if (size > limits.largest).any() or ((size > 0) & (size < limits.smallest)).any():
        least = f", or nearer to 0 than {limits.smallest:g}," if limits.smallest else ""
        raise DataError(f"column '{name}' has numbers beyond {limits.largest:g}{least} which this form cannot hold.")


def check_whole(name: str, column: pa.ChunkedArray, program: str) -> None:
    """Refuse whole numbers that floating point would round."""
    ends = pc.min_max(column).as_py()
    if any(end is not None and abs(end) > EXACT for end in ends.values()):
        raise DataError(
            f"column '{name}' has whole numbers beyond 2^53, which {program} would round. If they are identifiers, "
            f"turn them into text."
        )


_STATA_LONG = (-2_147_483_647, 2_147_483_620)
_REFUSED = {
    "sas7bdat": "only SAS itself writes .sas7bdat files that SAS is sure to open; the form is not published. "
    "Write .xpt, the SAS transport form, which every SAS reads.",
    "por": "the SPSS portable form is written no more. Write .sav.",
}


def stat_writer(contents: FileContents, form: str) -> Callable[[Path], None]:
    """Return a function that writes the contents as dta, sav, zsav or xpt; refuse here what the form cannot hold."""
    if form in _REFUSED:
        raise DataError(_REFUSED[form])
    pyreadstat = pyreadstat_module()
    limits = LIMITS["sav" if form == "zsav" else form]
    table = plain(contents.table)
    refuse_kinds(table, limits.program)
    check_names_for(table.column_names, limits)
    check_labels_for(contents, limits)
    columns: dict[str, Any] = {}
    formats: dict[str, str] = {}
    for name in table.column_names:
        columns[name], formats[name] = _column(name, table[name], limits)
    frame = pd.DataFrame(columns)
    options: dict[str, Any] = {
        "column_labels": {n: label for n, label in contents.labels.items() if n in columns and label},
        "variable_format": {name: shown for name, shown in formats.items() if shown},
    }
    if form == "xpt":
        options["file_format_version"] = _xport_version(table, contents)
        return partial(_write, pyreadstat.write_xport, frame, options)
    words = {name: _value_labels(name, table[name], contents, limits) for name in columns}
    options["variable_value_labels"] = {name: found for name, found in words.items() if found}
    if form == "dta":
        tags = {n: [c for c in found if isinstance(c, str)] for n, found in words.items()}
        options |= {"version": 14, "missing_user_values": {n: found for n, found in tags.items() if found}}
        return partial(_write, pyreadstat.write_dta, frame, options)
    missing = {name: _spss_missing(name, table[name], contents.missing.get(name, ())) for name in columns}
    options |= {"compress": form == "zsav", "missing_ranges": {name: found for name, found in missing.items() if found}}
    return partial(_write, pyreadstat.write_sav, frame, options)


def _write(function: Callable[..., None], frame: Any, options: Mapping[str, Any], path: Path) -> None:
    pyreadstat = pyreadstat_module()
    try:
        function(frame, str(path), **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        if "open file" in str(error):
            raise OSError(0, "you may have no permission to write there") from None
        if "write" in str(error).lower():  # the library says no more; the file that it began is still there
            raise OSError(errno.ENOSPC, "no space left on device") from None
        raise DataError("the file cannot be written in this form; write .parquet or .csv.") from None
    # the library says nothing when the disk is full, so the records are counted
    read = {"write_dta": "read_dta", "write_sav": "read_sav", "write_xport": "read_xport"}[function.__name__]
    blank = read == "read_xport" and not any(
        dtype.kind in "iuf" for dtype in frame.dtypes
    )  # SAS does not count blank records
    try:
        written = len(getattr(pyreadstat, read)(str(path), usecols=[frame.columns[0]])[0])
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
        written = -1
    if written != len(frame) and not blank:
        raise OSError(errno.ENOSPC, "no space left on device")


def _column(name: str, column: pa.ChunkedArray, limits: Limits) -> tuple[Any, str]:
    """Return a column as pyreadstat takes it, and its display format ("" for the program's own choice)."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.fill_null("")
        check_text(name, column, limits)
        return pd.array(column.to_pylist(), dtype="string"), ""
    if pa.types.is_temporal(kind):
        return _moments(name, column, limits)
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.int8()), pa.int8()
    if pa.types.is_integer(kind):
        check_whole(name, column, limits.program)
        return _stat_writing_whole(column, limits)
    if pa.types.is_decimal(kind) and kind.precision > 15:
        raise DataError(
            f"column '{name}' has decimals of {kind.precision} digits, which {limits.program} would round to 15. "
            f"Round them first, or turn them into text."
        )
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    check_numbers(name, numbers, limits)
    return numbers, "BEST12" if limits.program == "SAS" else ""


def _stat_writing_whole(column: pa.ChunkedArray, limits: Limits) -> tuple[Any, str]:
    ends = [end or 0 for end in pc.min_max(column).as_py().values()]
    width = max(8, *(len(str(end)) for end in ends))
    if limits.program == "Stata" and _STATA_LONG[0] <= ends[0] and ends[1] <= _STATA_LONG[1]:
        return pd.array(column.cast(pa.int32()).to_pylist(), dtype="Int32"), "%12.0g"
    shown = {"Stata": f"%{width}.0f", "SPSS": f"F{width}.0", "SAS": f"F{width}.0"}[limits.program]
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64), shown


def _moments(name: str, column: pa.ChunkedArray, limits: Limits) -> tuple[Numbers, str]:
    """Return dates and times as the program's numbers, exactly; finer than a millisecond is refused."""
    program, kind = limits.program, column.type
    days = EPOCH_DAYS[program]
    if pa.types.is_date(kind):
        numbers = _floats(column.cast(pa.date32()).cast(pa.int32())) + days
        return (numbers * DAY, "DATE11") if program == "SPSS" else (numbers, "%td" if program == "Stata" else "DATE9")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        raise DataError(
            f"column '{name}' has times with a time zone, which {program} does not know. "
            f"Convert them to one zone and drop it, or write them as text."
        )
    clock = pa.types.is_time(kind)
    try:
        ticks = column.cast(pa.time32("ms") if clock else pa.timestamp("ms")).cast(pa.int32() if clock else pa.int64())
    except pa.ArrowInvalid:
        raise DataError(
            f"column '{name}' has times finer than a millisecond. Round them first, or write .parquet."
        ) from None
    milli = _floats(ticks) + (0 if clock else days * DAY * 1000)
    if program == "Stata":
        return milli, "%tcHH:MM:SS" if clock else "%tc"
    stamp = "DATETIME23.3" if program == "SPSS" else "DATETIME22.3"
    return milli / 1000, "TIME12.3" if clock else stamp


def _floats(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _xport_version(table: pa.Table, contents: FileContents) -> int:
    """Return 5 if the oldest and most widely read version holds everything, else 8."""
    short = all(len(name) <= 8 for name in table.column_names)
    short &= all(len(contents.labels.get(name, "").encode()) <= 40 for name in table.column_names)
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            short &= (pc.max(pc.binary_length(column)).as_py() or 0) <= 200
    return 5 if short else 8


def _value_labels(name: str, column: pa.ChunkedArray, contents: FileContents, limits: Limits) -> dict[Any, str]:
    """Return value labels keyed by codes of the column's type; those that the program has no place for are left out.

    Left out are labels of text, dates and broken numbers in Stata, of dates in SPSS, and of Stata's own .a outside it.
    """
    words = contents.value_labels.get(name, {})
    kind = column.type
    if pa.types.is_boolean(kind):
        given = {{"true": "1", "false": "0"}.get(code.lower(), code): word for code, word in words.items()}
        words = {"0": "false", "1": "true"} | given
    elif pa.types.is_temporal(kind):
        return {}
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return dict(words) if limits.program == "SPSS" else {}
    stata = limits.program == "Stata"
    codes: dict[Any, str] = {}
    for code, word in words.items():
        if len(code) == 2 and code[0] == "." and not code[1].isdigit():
            if stata and "a" <= code[1] <= "z":
                codes[code[1]] = word
            continue
        try:
            number = float(code)
        except ValueError:
            raise DataError(
                f"column '{name}' holds numbers, but it has value labels for codes that are not numbers."
            ) from None
        if number.is_integer():
            codes[int(number)] = word
        elif not stata:
            codes[number] = word
    return codes


def _spss_missing(name: str, column: pa.ChunkedArray, codes: tuple[float | str, ...]) -> list[Any]:
    """Return missing codes as SPSS has them: three codes, or a range and a code, if no other value is in the range."""
    if pa.types.is_temporal(column.type) or not codes:
        return []
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = [code_text(code) for code in codes]
        if len(texts) > 3 or any(len(text.encode()) > 8 for text in texts):
            raise DataError(f"SPSS holds at most 3 missing codes of 8 bytes for a text column; '{name}' has others.")
        return texts
    try:
        numbers = sorted(float(code) for code in codes)
    except ValueError:
        raise DataError(f"column '{name}' holds numbers, but it has missing codes that are not numbers.") from None
    if len(numbers) <= 3:
        return list(numbers)
    values = np.asarray(pc.unique(column).drop_null().cast(pa.float64()).to_numpy(zero_copy_only=False))
    values = values[~np.isin(values, numbers)]
    for single, inside in (([], numbers), (numbers[:1], numbers[1:]), (numbers[-1:], numbers[:-1])):
        if not ((values >= inside[0]) & (values <= inside[-1])).any():
            return [{"lo": inside[0], "hi": inside[-1]}, *single]
    raise DataError(
        f"column '{name}' has {len(numbers)} missing codes. SPSS holds 3, or a range and 1, and other values lie "
        f"between these. Recode some of them."
    )
