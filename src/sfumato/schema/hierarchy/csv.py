"""Hierarchies as CSV files, the way ARX writes them: no header, the value first, the root last."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from sfumato.errors import SchemaError
from sfumato.files import whole_file
from sfumato.schema.hierarchy.base import Hierarchy
from sfumato.schema.hierarchy.tree import TreeHierarchy, with_root

SEPARATORS = (";", "\t", ",")  # in order of preference: labels hold commas more often than semicolons

Line = tuple[int, tuple[str, ...]]


def read_hierarchy_csv(path: str | Path, separator: str | None = None) -> TreeHierarchy:
    """Read a hierarchy file: one line per value, the value first, then its label on every level.

    If the last column is not the same label throughout, the root ``*`` is added above it.
    Unless told, the separator is found among semicolon, tab and comma.
    """
    text = _read(path)
    lines = _lines(text, _sniff(text, path) if separator is None else _checked(separator), path)
    if not lines:
        raise SchemaError(f"the hierarchy file {path} is empty. It needs one line per value.")
    _, first = lines[0]
    for number, cells in lines:
        if len(cells) != len(first):
            raise SchemaError(
                f"line {number} of the hierarchy file {path} has {_columns(len(cells))}, but the first line has "
                f"{_columns(len(first))}. Every line needs the value and one label per level; check the separator too."
            )
        if "" in cells:
            raise SchemaError(
                f"line {number} of the hierarchy file {path} has an empty cell. Give every level a label."
            )
    try:
        return TreeHierarchy(with_root([cells for _, cells in lines]))
    except SchemaError as error:
        raise SchemaError(f"in the hierarchy file {path}: {error}") from None


def write_hierarchy_csv(hierarchy: Hierarchy, path: str | Path, values: Iterable[object] | None = None) -> None:
    """Write a hierarchy as ARX reads it, semicolon separated.

    Parameters
    ----------
    hierarchy
        Any hierarchy.
    path
        File to write.
    values
        Level-0 values to write, each once. A `TreeHierarchy` knows its values; other kinds need them here.
    """
    if values is not None:
        rows = dict.fromkeys(hierarchy.path(value) for value in values)
        if short := sum(len(row) <= hierarchy.height for row in rows):
            raise SchemaError(f"{short:,} of the values are generalised already. Give the values of level 0 only.")
    elif isinstance(hierarchy, TreeHierarchy):
        rows = dict.fromkeys(tuple(row) for row in hierarchy.rows)
    else:
        raise SchemaError(
            f"a hierarchy of kind '{hierarchy.kind}' holds no list of values. Give the values to write, "
            f"for example the column's distinct values."
        )
    if not rows:
        raise SchemaError("there are no values to write.")
    out = io.StringIO()
    csv.writer(out, delimiter=SEPARATORS[0]).writerows(rows)  # lines end in CR LF, so either in a label is quoted
    with whole_file(path) as temporary:
        temporary.write_bytes(out.getvalue().encode("utf-8"))


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"the hierarchy file {path} is not UTF-8 text. Save it as UTF-8.") from None
    except OSError as error:
        raise SchemaError(f"cannot read the hierarchy file {path}: {error.strerror or 'unknown reason'}.") from None


def _checked(separator: str) -> str:
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
        raise SchemaError("the separator must be one sign, such as ';'.")
    return separator


def _lines(text: str, separator: str, path: str | Path) -> list[Line]:
    """Return the lines that are not blank, each with its number in the file."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return [(reader.line_num, tuple(cells)) for cells in reader if cells]
    except csv.Error:
        raise SchemaError(f"line {reader.line_num} of the hierarchy file {path} cannot be read as CSV.") from None


def _sniff(text: str, path: str | Path) -> str:
    """Return the separator that splits all lines alike; failing that, the one that splits the first line most."""
    widths = {s: [len(cells) for _, cells in _lines(text, s, path)] for s in SEPARATORS}
    for separator, found in widths.items():
        if len(set(found)) == 1 and found[0] > 1:
            return separator
    return max(SEPARATORS, key=lambda s: widths[s][0] if widths[s] else 0)


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"
