"""Rows of a file that are no records: empty ones, totals, notes below the table, and records that stand twice.

An empty row matches everybody, a total is the largest value of all, and a record that stands twice is unique no more: each of
them changes what is measured. Spreadsheets write all of them.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataWarning, ParameterError, join_names
from sfumato.schema.formula import decimals
from sfumato.typing import Flags, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

_WORDS = "totals?|totale|totaux|totaal|sum|summe|gesamt(summe)?|insgesamt|somme|ensemble|suma|mean|average|mittelwert|durchschnitt|moyenne|media|promedio"  # noqa: E501
_TOTAL = re.compile(
    rf"(grand |sub-?)?({_WORDS})( general| overall| géneral)?\W*|.*\W(total|summe|insgesamt)\W*", re.IGNORECASE
)
_LEAST = 10
"""In a file of fewer rows only empty ones are no records."""
_LONGEST = 1_000_000
"""The most rows that a range names."""
_MANY = 200
"""Rows with gaps that are compared with sums of the others, one by one."""


@dataclass(frozen=True)
class RowChoice:
    """Which rows of a file are not taken as records.

    Parameters
    ----------
    leave_out
        Numbers of rows to leave out, counted from 1 below the header; a text may name a range, such as 732-801.
    stray
        Whether rows that are no records are left out, too.
    """

    leave_out: frozenset[int] = frozenset()
    stray: bool = True

    @classmethod
    def of(cls, leave_out: Any, all_records: Any) -> RowChoice:
        """Make it from options of reading: numbers, or texts of numbers and of ranges; yes, no, True or False."""
        named = [leave_out] if isinstance(leave_out, int | str) else leave_out
        try:
            ranges = [_first_and_last(row) for row in named]
        except (TypeError, ValueError):
            ranges = [(0, 0)]
        if any(not (1 <= first <= last and last - first < _LONGEST) for first, last in ranges):
            raise ParameterError(
                "leave_out takes numbers of records, counted from 1: leave_out=732, leave_out=732,733 or leave_out=732-801."
            )
        rows = frozenset(row for first, last in ranges for row in range(first, last + 1))
        keep = {"yes": True, "no": False, "true": True, "false": False}.get(str(all_records).lower())
        if keep is None:
            raise ParameterError("all_records takes yes or no.")
        return cls(rows, not keep)

    def refuse(self, path: str | Path) -> None:
        """Refuse a choice among the records of a file whose rows are all records."""
        if self.leave_out or not self.stray:
            raise ParameterError(
                f"leave_out and all_records are for CSV and Excel files; {Path(path).name} is neither."
            )


def _first_and_last(row: Any) -> tuple[int, int]:
    """Return the ends of "732-801", or a single number twice."""
    first, to, last = row.partition("-") if isinstance(row, str) else (row, "", "")
    return int(first), int(last if to else first)


def _ranges(rows: list[int]) -> str:
    """Return numbers in rising order as `leave_out` takes them.

    >>> _ranges([3, 7, 8, 9, 12, 13])
    '3,7-9,12-13'
    """
    starts = [i for i, row in enumerate(rows) if not i or rows[i - 1] != row - 1]
    ends = [*(i - 1 for i in starts[1:]), len(rows) - 1]
    return ",".join(str(rows[a]) if a == b else f"{rows[a]}-{rows[b]}" for a, b in zip(starts, ends, strict=True))


def proper_records(tables: Iterable[pa.Table], path: str | Path, choice: RowChoice) -> Iterator[pa.Table]:
    """Yield tables without the rows that are no records, and warn of them; in a file of one column a missing value is one."""
    start, found = 0, dict[str, list[int]]()
    for table in tables:
        kept = np.ones(table.num_rows, bool)
        for what, flags in _stray(table).items() if choice.stray and table.num_columns > 1 else ():
            rows = np.flatnonzero(flags & kept)
            if len(rows):
                found.setdefault(what, []).extend((start + rows + 1).tolist())
            kept[rows] = False
        kept[[row - start - 1 for row in choice.leave_out if start < row <= start + table.num_rows]] = False
        start += table.num_rows
        yield table if kept.all() else table.filter(kept)
    for what, numbers in found.items():
        are = "is" if len(numbers) == 1 else "are"
        how = "" if what == _EMPTY else " To keep what was left out, read the file with all_records=yes."
        _warn(path, what, numbers, f", and {are} left out", how)


_EMPTY = "has no value in any column|have no value in any column"
_LABELLED = "is a total by its label, and lacks other values|are totals by their labels, and lack other values"
_NOTE = "is a single text, as a note below a table is|are single texts, as notes below a table are"
_ADDS_UP = "adds up others, or is their mean|add up others, or are their means"
_REPEATS = "repeats an earlier one in every column|repeat earlier ones in every column"


def _warn(path: str | Path, what: str, numbers: list[int], then: str, how: str) -> None:
    one, several = what.split("|")
    which = join_names([f"{row:,}" for row in numbers], 5)
    says = f"1 record {one}" if len(numbers) == 1 else f"{len(numbers):,} records {several}"
    warnings.warn(f"{path}: {says}{then} (record{'s' * (len(numbers) > 1)} {which}).{how}", DataWarning, stacklevel=4)


def _stray(table: pa.Table) -> dict[str, Flags]:
    """Return which rows are no records, shape (n,), by what they are; a row is judged by itself, as in pieces of a file."""
    filled = np.sum([_valid(column) for column in table.columns], axis=0)
    width = table.num_columns
    texts = [column for column in table.columns if _is_text(column)]
    note = (filled == 1) & np.any([_valid(c) for c in texts] or [np.zeros(len(filled), bool)], axis=0) & (width >= 4)
    gaps = (filled > 0) & (filled < width)
    return {_EMPTY: filled == 0, _LABELLED: gaps & ~note & _labelled(texts, table.num_rows), _NOTE: note}


def name_doubtful(table: pa.Table, path: str | Path, choice: RowChoice) -> None:
    """Warn of records that add up others and of records that stand twice: whether they are records, a person knows."""
    if not choice.stray or table.num_columns < 2:
        return
    kept = ~np.any(list(_stray(table).values()), axis=0)
    kept[[row - 1 for row in choice.leave_out if row <= len(kept)]] = False
    numbers = np.flatnonzero(kept) + 1
    if len(numbers) < _LEAST:
        return
    table = table if kept.all() else table.filter(kept)
    filled = np.sum([_valid(column) for column in table.columns], axis=0)
    texts = {name: table.column(name) for name in table.column_names if _is_text(table.column(name))}
    sums = _sums(table, texts, filled < int(np.median(filled)))
    for what, flags in ((_ADDS_UP, sums), (_REPEATS, _repeated(table) & ~sums)):
        if flags.any():
            rows = numbers[flags].tolist()
            one = "it is no record of its" if len(rows) == 1 else "they are no records of their"
            _warn(path, what, rows, "", f" If {one} own, read the file with leave_out={_ranges(rows)}")


def _valid(column: Any) -> Flags:
    return np.asarray(column.is_valid().to_numpy(), bool)


def _is_text(column: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def _numbers(column: Any) -> Numbers | None:
    import pyarrow.types as types

    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        return None
    return np.asarray(column.to_numpy(), np.float64)


def _labelled(texts: Iterable[Any], rows: int) -> Flags:
    """Return which rows have a text such as "Total" or "Summe", shape (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = np.zeros(rows, bool)
    for column in texts:
        words = [
            v for v in column.unique().to_pylist() if v is not None and len(v) < 60 and _TOTAL.fullmatch(v.strip())
        ]
        if words:
            found |= np.asarray(pc.is_in(column, pa.array(words, column.type)).to_numpy(), bool)
    return found


def _sums(table: pa.Table, texts: dict[str, Any], gaps: Flags) -> Flags:
    """Return which rows add up others: those with gaps the rows of their labels, those without all rows; or their mean."""
    columns = {n: x for n in table.column_names if (x := _numbers(table.column(n))) is not None}
    found = np.zeros(table.num_rows, bool)
    x = np.column_stack(list(columns.values())) if columns else np.zeros((table.num_rows, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        everything = np.nansum(x, axis=0)
        alike = (np.abs(2 * x - everything) <= 1e-9 * np.abs(everything)) & (x != 0)
    found |= (alike.sum(axis=1) >= 2) & (alike.sum(axis=1) == (~np.isnan(x) & (x != 0)).sum(axis=1))
    candidates = np.flatnonzero(gaps)
    if len(candidates) > min(_MANY, table.num_rows // 3) or not columns:
        return found
    records = ~gaps & ~found
    values = {name: np.asarray(column.to_pylist(), object) for name, column in texts.items()} if len(candidates) else {}
    for row in candidates:
        group = records.copy()
        for column in values.values():
            if column[row] is not None and (same := records & (column == column[row])).any():
                group &= same
        mine = ~np.isnan(x[row]) & (x[row] != 0)
        if group.sum() < 2 or not mine.any():
            continue
        total = np.nansum(x[group][:, mine], axis=0)
        if any(_equal(x[row, mine], other) for other in (total, np.nanmean(x[group][:, mine], axis=0))):
            found[row] = True
    return found


def _equal(values: Numbers, wanted: Numbers) -> bool:
    """Whether numbers are equal as far as they are written, and have so many digits that this is no chance."""
    units = 10.0 ** -np.array([decimals(np.array([v]), 6) for v in values])
    close = np.abs(values - wanted) <= 0.51 * units + 1e-9 * np.abs(wanted)
    return bool(close.all() and (np.abs(values) >= 1_000 * units).any())


def _repeated(table: pa.Table) -> Flags:
    """Return which rows repeat an earlier one in every column, shape (n,), where some column tells nearly all rows apart."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = np.zeros(table.num_rows, bool)
    first = table.slice(0, 2_000)
    different = [pc.count_distinct(column).as_py() for column in first.columns]
    best = int(np.argmax(different))
    if table.num_columns < 3 or different[best] < 0.9 * first.num_rows:
        return found
    counts = Counter(dict(zip(*_counts(table.column(best)), strict=True)))
    twice = [value for value, n in counts.items() if n > 1 and value is not None]
    if not twice or len(twice) > 10_000:
        return found
    rows = np.flatnonzero(pc.is_in(table.column(best), pa.array(twice, table.column(best).type)).to_numpy())
    seen: set[tuple[Any, ...]] = set()
    for row, values in zip(rows, zip(*(c.to_pylist() for c in table.take(rows).columns), strict=True), strict=True):
        found[row] = values in seen
        seen.add(values)
    return found


def _counts(column: Any) -> tuple[list[Any], list[int]]:
    counted = column.value_counts()
    return counted.field("values").to_pylist(), counted.field("counts").to_pylist()
