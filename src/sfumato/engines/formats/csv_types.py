"""From the cells of a CSV column to its type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*)?([eE][-+]?\d+)?|-?\.\d+([eE][-+]?\d+)?|NaN|nan|-?[iI]nf")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SUSPECT = r"^\+|^-?0\d|^-?\d{16}|[nN]"
"""Cells that Arrow takes for numbers, but that may lose something: signs, zeros, digits, words such as Nan."""
_EXACT = 2**53
_LOOK = 1000


def typed(cells: pa.ChunkedArray, decimal: str, na: bool) -> pa.ChunkedArray:
    """Return the column in the narrowest type that holds every cell without loss, else as it came.

    `na` says whether NA is null in a column that is otherwise not text.
    """
    word = _first_word(cells.slice(0, _LOOK), na) or _first_word(cells, na)
    if word is None:
        return cells
    if decimal == ",":
        word = word.replace(",", ".")
    if _NUMBER.fullmatch(word):
        return _or(cells, _numbers(_clean(cells, na), decimal, maybe_whole=word.lstrip("-").isdigit()))
    if word.lower() in ("true", "false"):
        return _or(cells, _booleans(_clean(cells, na)))
    if _DATE.match(word):
        return _or(cells, _dates(_clean(cells, na)))
    return cells


def _or(cells: pa.ChunkedArray, column: pa.ChunkedArray | None) -> pa.ChunkedArray:
    return cells if column is None else column


def _clean(cells: pa.ChunkedArray, na: bool) -> pa.ChunkedArray:
    """Return the cells without blanks around them; null where nothing is left, or NA is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.ascii_trim_whitespace(cells)
    nulls = pa.array(["", "NA"] if na else [""])
    return pc.if_else(pc.is_in(trimmed, nulls), None, trimmed)


def _first_word(cells: pa.ChunkedArray, na: bool) -> str | None:
    words = _clean(cells, na).drop_null()
    return str(words[0]) if len(words) else None


def _numbers(cells: pa.ChunkedArray, decimal: str, maybe_whole: bool) -> pa.ChunkedArray | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = _cast(cells, pa.int64()) if maybe_whole else None
    if whole is not None and pc.all(pc.equal(whole.cast(pa.string()), cells)).as_py() is not False:
        return whole
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
    return not cell.lstrip("-").isdigit() or abs(int(cell)) <= _EXACT


def _booleans(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.ascii_lower(cells)
    known = pc.is_in(lower, pa.array(["true", "false", None]))
    return pc.equal(lower, "true") if pc.all(known).as_py() else None


def _dates(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa

    times = (pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("us", "ns"))
    for arrow_type in (pa.date32(), *times):
        if (column := _cast(cells, arrow_type)) is not None:
            return column
    return None


def _cast(cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
    import pyarrow as pa

    try:
        return cells.cast(arrow_type)
    except pa.ArrowInvalid:
        return None
