"""What `sfumato audit` reads: the published table, the records that it was made from, and what a reader knows besides."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sfumato.cli.given import number
from sfumato.cli.handling import Misuse
from sfumato.cli.hierarchies import named_hierarchies, total_labels, with_hierarchies
from sfumato.cli.load import load_cells, load_table, refuse_absent
from sfumato.cli.screen import Screen
from sfumato.cli.table_source import names, records
from sfumato.errors import DataError, did_you_mean, listing, unknown_name

if TYPE_CHECKING:
    from sfumato.tables import Cells, PublishedTable, Table
    from sfumato.tables.exports import ReadBack

_OURS = ("value", "status", "variance", "quality")


class Columns(NamedTuple):
    """The published file, and which columns of it are what."""

    frame: Any
    nested: dict[str, Any]
    """The columns of labels, each with its hierarchy or None."""
    status: str | None
    variance: str | None


def read_columns(
    file: Path,
    dimensions: str | None,
    value: str,
    status: str | None,
    hierarchy: list[str] | None,
    read: list[str] | None,
) -> Columns:
    """Read a published table, and find out which columns are labels."""
    asked = names(dimensions)
    if (read_back := _standard(file)) is not None:
        if asked is not None or value != "value" or status is not None:
            raise Misuse(f"{file.name} says itself what its columns are: leave out --dimensions, --value and --status.")
        own_nested = {**read_back.nested, **named_hierarchies(hierarchy, read_back.nested)}
        return Columns(read_back.frame, own_nested, "status", read_back.variance)
    frame = load_table(file, read, value, asked)
    columns = list(frame.column_names)
    if value not in columns:
        raise Misuse(
            f"{file} has no column '{value}': say with --value which one holds the figures. It has: {listing(columns)}."
        )
    ours = value == "value"
    own = set(_OURS) if ours else {value}
    chosen = asked or [c for c in columns if c not in own | {value, status}]
    flags = status or ("status" if ours and "status" in columns else None)
    noise = "variance" if ours and "variance" in columns and "variance" not in chosen else None
    nested: dict[str, Any] = {**dict.fromkeys(chosen), **named_hierarchies(hierarchy, chosen)}
    return Columns(frame, nested, flags, noise)


def _standard(file: Path) -> ReadBack | None:
    """Return what is in a file of JSON-stat or SDMX-CSV; None for any other."""
    from sfumato.tables.exports import read_json_stat, read_sdmx_csv

    name = file.name.casefold()
    if not name.endswith((".json", ".jsonstat", ".sdmx.csv")):
        return None
    refuse_absent(file)
    return read_sdmx_csv(file) if name.endswith(".csv") else read_json_stat(file)


def published_table(
    columns: Columns,
    value: str,
    total: list[str] | None,
    marks: list[str] | None,
    absent: Literal["empty", "suppressed"],
    within: float,
    negative: bool,
    original: Table | None,
) -> PublishedTable:
    """Return the published table."""
    from sfumato.tables import PublishedTable

    return PublishedTable.from_frame(
        columns.frame, columns.nested, value, status=columns.status, variance=columns.variance, total=total_labels(total),
        marks=marks or (), within=within, absent=absent, nonnegative=False if negative else None, original=original,
    )  # fmt: skip


def original_table(
    screen: Screen,
    path: Path,
    columns: Columns,
    variable: str | None,
    contributor: str | None,
    size: str | None,
    per_size: str | None,
    schema: Path | None,
    read: list[str] | None,
) -> Table:
    """Return the table that the published one was made from, with the same cells."""
    from sfumato.tables import Table

    formula = " * ".join(f"`{n}`" for n in columns.nested)
    data, marks = records(screen, path, schema, read)
    return Table.of(
        with_hierarchies(data, columns.nested), formula, variable, contributor=contributor, size=size,
        per_size=None if per_size is None else number(per_size), request=marks.request, record_key=marks.record_key,
    )  # fmt: skip


def known_cells(given: Iterable[str], cells: Cells) -> dict[int, float | tuple[float, float]]:
    """Return what is known of cells by their position, from 'North,coal=120', 'North,coal=100:150', or files."""
    place = {tuple(row): i for i, row in enumerate(cells.labels.tolist())}
    found: dict[int, float | tuple[float, float]] = {}
    for text in given:
        labels, sign, value = text.rpartition("=")
        if not sign and Path(text).suffix.lower() in (".csv", ".parquet", ".xlsx"):
            pairs = _from_file(Path(text), cells)
        elif sign and labels.strip():
            pairs = [(tuple(part.strip() for part in labels.split(",")), _known(value))]
        else:
            raise Misuse(_HOW.format(text))
        for cell, what in pairs:
            if cell not in place:
                raise DataError(_unknown(cell, cells))
            found[place[cell]] = what
    return found


_HOW = (
    "--known takes LABELS=VALUE, LABELS=LOW:HIGH, or the name of a .csv file, such as 'North,coal=100:150'; got '{}'."
)


def _known(text: str) -> float | tuple[float, float]:
    ends = [number(part.strip()) for part in text.split(":")]
    if not 1 <= len(ends) <= 2 or not all(isinstance(e, float) and not math.isnan(e) for e in ends):
        raise Misuse(f"what is known of a cell is a number, or LOW:HIGH; '{text.strip()}' is neither.")
    return float(ends[0]) if len(ends) == 1 else (float(ends[0]), float(ends[1]))


def _from_file(path: Path, cells: Cells) -> list[tuple[tuple[str, ...], float | tuple[float, float]]]:
    import numpy as np

    from sfumato.tables.given_cells import labels_in

    data = load_cells(path, None, cells.dimensions)
    present = data.schema.names()
    if absent := [n for n in cells.dimensions if n not in present]:
        raise DataError(unknown_name("column", absent[0], present, f"{path}, which needs a label for each dimension"))
    if not ("value" in present or {"low", "high"} <= set(present)):
        raise DataError(
            f"{path} needs a column 'value', or two, 'low' and 'high', that say what is known of each cell."
        )
    sides = ("value", "value") if "value" in present else ("low", "high")
    low, high = (data.numbers(side) for side in sides)
    if np.isnan(low).any() or np.isnan(high).any():
        raise DataError(f"{path} has cells of which it does not say what is known. Leave out their rows.")
    return list(
        zip(labels_in(data, list(cells.dimensions)), zip(low.tolist(), high.tolist(), strict=True), strict=True)
    )


def _unknown(cell: tuple[str, ...], cells: Cells) -> str:
    if len(cell) != len(cells.dimensions):
        needed = listing(cells.dimensions)
        return f"--known needs a label for each of {needed}, with 'Total' for a margin; got '{','.join(cell)}'."
    for i, label in enumerate(cell):
        if label not in (labels := list(dict.fromkeys(cells.labels[:, i].tolist()))):
            return f"--known names '{label}', which is not a label of '{cells.dimensions[i]}'.{did_you_mean(label, labels)}"
    return f"--known names a cell that the table does not have: {', '.join(cell)}."
