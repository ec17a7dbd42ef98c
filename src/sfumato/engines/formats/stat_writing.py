"""Stata, SPSS and SAS files out, through pyreadstat: everything becomes numbers and text here, dates included."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.formats.arrow_files import plain, refuse_kinds
from sfumato.engines.formats.contents import FileContents, code_text
from sfumato.engines.formats.stat_dates import DAY, EPOCH_DAYS
from sfumato.engines.formats.stat_files import pyreadstat_module
from sfumato.engines.formats.stat_limits import (
    LIMITS,
    Limits,
    check_labels_for,
    check_names_for,
    check_numbers,
    check_text,
    check_whole,
)
from sfumato.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

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
    import pandas as pd

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
    import pandas as pd
    import pyarrow as pa
    import pyarrow.types as t

    kind = column.type
    if t.is_string(kind) or t.is_large_string(kind):
        column = column.fill_null("")
        check_text(name, column, limits)
        return pd.array(column.to_pylist(), dtype="string"), ""
    if t.is_temporal(kind):
        return _moments(name, column, limits)
    if t.is_boolean(kind):
        column, kind = column.cast(pa.int8()), pa.int8()
    if t.is_integer(kind):
        check_whole(name, column, limits.program)
        return _whole(column, limits)
    if t.is_decimal(kind) and kind.precision > 15:
        raise DataError(
            f"column '{name}' has decimals of {kind.precision} digits, which {limits.program} would round to 15. "
            f"Round them first, or turn them into text."
        )
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    check_numbers(name, numbers, limits)
    return numbers, "BEST12" if limits.program == "SAS" else ""


def _whole(column: pa.ChunkedArray, limits: Limits) -> tuple[Any, str]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = [end or 0 for end in pc.min_max(column).as_py().values()]
    width = max(8, *(len(str(end)) for end in ends))
    if limits.program == "Stata" and _STATA_LONG[0] <= ends[0] and ends[1] <= _STATA_LONG[1]:
        return pd.array(column.cast(pa.int32()).to_pylist(), dtype="Int32"), "%12.0g"
    shown = {"Stata": f"%{width}.0f", "SPSS": f"F{width}.0", "SAS": f"F{width}.0"}[limits.program]
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64), shown


def _moments(name: str, column: pa.ChunkedArray, limits: Limits) -> tuple[NDArray[np.float64], str]:
    """Return dates and times as the program's numbers, exactly; finer than a millisecond is refused."""
    import pyarrow as pa
    import pyarrow.types as t

    program, kind = limits.program, column.type
    days = EPOCH_DAYS[program]
    if t.is_date(kind):
        numbers = _floats(column.cast(pa.date32()).cast(pa.int32())) + days
        return (numbers * DAY, "DATE11") if program == "SPSS" else (numbers, "%td" if program == "Stata" else "DATE9")
    if t.is_timestamp(kind) and kind.tz is not None:
        raise DataError(
            f"column '{name}' has times with a time zone, which {program} does not know. "
            f"Convert them to one zone and drop it, or write them as text."
        )
    clock = t.is_time(kind)
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


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _xport_version(table: pa.Table, contents: FileContents) -> int:
    """Return 5 if the oldest and most widely read version holds everything, else 8."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import pyarrow.types as t

    words = contents.value_labels.get(name, {})
    kind = column.type
    if t.is_boolean(kind):
        given = {{"true": "1", "false": "0"}.get(code.lower(), code): word for code, word in words.items()}
        words = {"0": "false", "1": "true"} | given
    elif t.is_temporal(kind):
        return {}
    elif not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
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
    import pyarrow as pa
    import pyarrow.compute as pc

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
