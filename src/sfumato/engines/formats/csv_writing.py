"""CSV files out: every value comes back as it was."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.engines.formats.arrow_files import plain, refuse_kinds

if TYPE_CHECKING:
    import pyarrow as pa

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
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    kind = column.type
    if t.is_floating(kind):
        cells = column.cast(pa.string())
        bare = pc.invert(pc.match_substring_regex(cells, "[.en]"))
        cells = pc.if_else(bare, pc.binary_join_element_wise(cells, ".0", ""), cells)
        cells = pc.if_else(pc.is_nan(column), "NaN", cells)
    elif t.is_timestamp(kind):
        cells = _shortest(column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))).cast(pa.string())
    elif t.is_date(kind):
        cells = column.cast(pa.date32()).cast(pa.string())
    else:
        cells = column.cast(pa.string())
        if t.is_string(kind) or t.is_large_string(kind):
            doubled = pc.replace_substring(cells, '"', '""')
            cells = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.fill_null(cells, "")


def _shortest(times: pa.Array) -> pa.Array:
    """Return the times in whole seconds if they are, so that no zeros follow the seconds."""
    import pyarrow as pa

    try:
        return times.cast(pa.timestamp("s", times.type.tz))
    except pa.ArrowInvalid:
        return times
