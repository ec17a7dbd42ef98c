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


class ColumnType:
    """The narrowest type that holds every cell of a CSV column without loss, found in pieces or at once.

    The first word of the column says which types are tried. Whether a type holds a cell depends on that cell alone, so a
    column seen in pieces gets the type of the same column seen at once.
    """

    def __init__(self, decimal: str, na: bool, as_text: bool = False) -> None:
        self._decimal = decimal
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
        import pyarrow as pa

        return self._tried[0] if self._tried else pa.string()

    def converted(self, cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Return a piece in the type that holds all pieces seen; None if this one is not among them."""
        import pyarrow as pa

        return cells if self.arrow_type == pa.string() else self._as(cells, self.arrow_type)

    def _begin(self, cells: pa.ChunkedArray) -> None:
        if self._tried is not None:
            return
        word = _first_word(cells.slice(0, _LOOK), self._na) or _first_word(cells, self._na)
        if word is not None:
            self._tried = _types(word.replace(",", ".") if self._decimal == "," else word)

    def _as(self, cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
        import pyarrow as pa

        clean = _clean(cells, self._na)
        if pa.types.is_int64(arrow_type):
            return _whole(clean)
        if pa.types.is_float64(arrow_type):
            return _numbers(clean, self._decimal)
        return _booleans(clean) if pa.types.is_boolean(arrow_type) else _dates(clean, arrow_type)


def _types(word: str) -> list[pa.DataType]:
    """Return the types that a column with this word in it may have, the narrowest first."""
    import pyarrow as pa

    if _NUMBER.fullmatch(word):
        return [pa.int64(), pa.float64()] if word.lstrip("-").isdigit() else [pa.float64()]
    if word.lower() in ("true", "false"):
        return [pa.bool_()]
    if _DATE.match(word):
        return [pa.date32(), *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("us", "ns"))]
    return []


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


def _whole(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = _cast(cells, pa.int64())
    return (
        whole if whole is not None and pc.all(pc.equal(whole.cast(pa.string()), cells)).as_py() is not False else None
    )


def _numbers(cells: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.ascii_lower(cells)
    known = pc.is_in(lower, pa.array(["true", "false", None]))
    return pc.equal(lower, "true") if pc.all(known).as_py() else None


def _dates(cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
    import pyarrow.compute as pc

    if pc.any(pc.starts_with(cells, "0000-")).as_py():  # calendars begin with the year 1
        return None
    return _cast(cells, arrow_type)


def _cast(cells: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray | None:
    import pyarrow as pa

    try:
        return cells.cast(arrow_type)
    except pa.ArrowInvalid:
        return None
