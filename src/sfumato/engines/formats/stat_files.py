"""Stata, SPSS and SAS files in, through pyreadstat."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.formats.contents import FileContents, code_text
from sfumato.errors import DataError, ParameterError, listing, missing_extra

if TYPE_CHECKING:
    import pyarrow as pa

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
    import pyarrow as pa

    from sfumato.engines.formats.stat_dates import dated

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
    import pyarrow as pa
    import pyarrow.compute as pc

    if tags:
        values = [None if isinstance(v, str) else v for v in values]
    if stored.startswith("int"):
        return pa.array(values, pa.int64(), from_pandas=True)
    numbers = pa.array(values, pa.float64())
    return pc.if_else(pc.is_nan(numbers), None, numbers)


def _codes(ranges: Iterable[Mapping[str, Any]], column: pa.Array, words: Mapping[Any, str]) -> tuple[float | str, ...]:
    """Return the missing codes that ranges declare: single ones, and those in a range that occur or have a label."""
    import pyarrow.compute as pc

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
    import pyarrow as pa

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
        which = listing(f"{name} ({', '.join(sorted(tags))})" for name, tags in lost.items())
        warnings.warn(f"{path}: special missing values were read as null, in these columns: {which}.", stacklevel=5)
