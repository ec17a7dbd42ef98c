"""The cells of a table as somebody gives them: columns read, labels placed, and what cannot be so refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, SchemaError, unknown_name
from sfumato.microdata import Batch, Microdata, check_numeric, missing_of
from sfumato.schema.hierarchy import Hierarchy
from sfumato.schema.hierarchy.base import label_of
from sfumato.tables.cell_checks import CellChecks, name_of
from sfumato.tables.dimension import TOTAL
from sfumato.tables.total_label import find_total, suspect_total
from sfumato.tables.tree import Nested, Tree, hierarchy_of

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
TotalLabels = str | Mapping[str, str | None] | None


@dataclass(frozen=True)
class Columns:
    """Which columns say how much is in a cell."""

    value: str | None
    count: str | None
    contributors: str | None
    top: tuple[str, ...]

    @property
    def numbers(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys(n for n in (self.value, self.count, self.contributors, *self.top) if n))


@dataclass(frozen=True, eq=False, repr=False)
class GivenCells:
    """Cells as given, of one table or of several linked ones; a cell that two of them share stands once."""

    trees: tuple[Tree, ...]
    codes: Whole
    """The position of each label in its tree, -1 for the total; shape (cells, dimensions)."""
    tables: tuple[tuple[Whole, list[int]], ...]
    """For each table its cells, and the dimensions that it is broken down by."""
    values: Numbers
    counts: Numbers | None
    contributors: Numbers | None
    top: Numbers
    """The largest contributions, largest first; shape (cells, n)."""
    integer: bool
    nonnegative: bool
    rounding: float
    """By how much rounding may have moved a value and its contributions, each."""

    def name(self, cell: int) -> str:
        """Return a cell's labels in words."""
        labels = [t.labels[c] if c >= 0 else TOTAL for t, c in zip(self.trees, self.codes[cell], strict=True)]
        return name_of(labels, [t.name for t in self.trees])


def read_cells(
    frames: Any,
    dimensions: Sequence[str] | Mapping[str, Nested],
    columns: Columns,
    total: TotalLabels,
    nonnegative: bool,
    rounding: float,
) -> GivenCells:
    """Read the columns of one frame or of several linked ones, and place their labels."""
    nested: dict[str, Nested] = (
        dict(dimensions) if isinstance(dimensions, Mapping) else dict.fromkeys(listed(dimensions))
    )
    if not nested:
        raise ParameterError("name at least one column of labels (dimensions=...).")
    batches = [_batch(f, list(nested), columns) for f in (frames if isinstance(frames, list | tuple) else [frames])]
    if not batches or not sum(len(b) for b in batches):
        raise DataError("the table has no cells.")
    labels, trees = _labels(batches, nested, total)
    codes = np.column_stack([[t.position[x] for x in labels[:, i]] for i, t in enumerate(trees)]).astype(np.int64)
    table = np.repeat(np.arange(len(batches)), [len(b) for b in batches])
    _, first, cell = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    cell = cell.ravel()
    number = {n: np.concatenate([b.numbers(n) for b in batches]) for n in columns.numbers}

    check = CellChecks(labels, list(nested))
    check.once(table, cell)
    for name, column in number.items():
        check.known(name, column, optional=name in columns.top)
        check.agree(name, column, first, cell, rounding if name == columns.value else 0.0)
        if name in (columns.count, columns.contributors):
            check.whole(name, column)
    values = number[columns.value or columns.count or ""]
    if nonnegative:
        check.not_negative(values)
    for who in (columns.count, columns.contributors):
        if who is not None:
            check.has_contributors(who, values, number[who])
    for i, tree in enumerate(trees):
        if nested[tree.name] is None and not (isinstance(total, Mapping) and tree.name in total):
            suspect_total(tree.name, i, labels[first], values[first])

    def at_cells(name: str | None) -> Numbers | None:
        return None if name is None else number[name][first]

    return GivenCells(
        trees,
        codes[first],
        tuple(
            (np.unique(cell[table == i]), [d for d, n in enumerate(nested) if n in b.rows.columns])
            for i, b in enumerate(batches)
        ),
        values[first],
        at_cells(columns.count),
        at_cells(columns.contributors),
        _largest_first([number[n][first] for n in columns.top], len(first)),
        columns.value is None or all(b.schema[columns.value].integer for b in batches),
        nonnegative,
        rounding,
    )


def labels_in(frame: Any, dimensions: Sequence[str], total: TotalLabels = None) -> list[tuple[str, ...]]:
    """Return the labels of the cell in each row of a frame, totals under the name that they have here."""
    batch = _batch(frame, dimensions, Columns(None, None, None, ()))
    found, _ = _labels([batch], dict.fromkeys(dimensions), total)
    return [tuple(row) for row in found.tolist()]


def listed(names: Sequence[str]) -> list[str]:
    """Return names as a list, also where there is a single one."""
    return [names] if isinstance(names, str) else list(names)


def _batch(frame: Any, dimensions: Sequence[str], columns: Columns) -> Batch:
    data = Microdata.read(frame) if isinstance(frame, str | Path) else frame
    data = data if isinstance(data, Microdata) else Microdata(data)
    for name in columns.numbers:
        check_numeric(data, name)
    return data.batch([*(n for n in dimensions if n in data.engine.kinds), *columns.numbers])


def _labels(
    batches: Sequence[Batch], nested: Mapping[str, Nested], total: TotalLabels
) -> tuple[NDArray[np.object_], tuple[Tree, ...]]:
    """Return the labels of every row, totals under the name that they have here, and the tree of each dimension."""
    if absent := [n for n in nested if not any(n in b.rows.columns for b in batches)]:
        raise DataError(unknown_name("column", absent[0], batches[0].schema.names(), "the data"))
    hierarchies = {n: hierarchy_of(h, n) for n, h in nested.items()}
    raw = {n: [_texts(b, n, hierarchies[n]) if n in b.rows.columns else None for b in batches] for n in nested}
    seen = {n: [x for part in parts if part is not None for x in part] for n, parts in raw.items()}
    totals = find_total(seen, hierarchies, total)
    found = np.full((sum(len(b) for b in batches), len(nested)), TOTAL, object)
    start = 0
    for k, batch in enumerate(batches):
        for i, name in enumerate(nested):
            part = raw[name][k]
            if part is not None:
                found[start : start + len(batch), i] = [TOTAL if x in (None, totals[name]) else x for x in part]
        start += len(batch)
    trees = [Tree.of(n, [x for x in found[:, i] if x != TOTAL], hierarchies[n]) for i, n in enumerate(nested)]
    return found, tuple(trees)


def _texts(batch: Batch, name: str, hierarchy: Hierarchy | None) -> list[str | None]:
    """Return the labels in a column as text, without spaces around them unless the hierarchy has these; None for missing."""
    column = batch.column(name)
    codes, values = column.codes
    gone = missing_of(column, batch.schema[name])
    texts = np.array([*(_plain(label_of(v), hierarchy) for v in values), None], object)
    return list(texts[np.where(gone, len(values), codes)])


def _plain(label: str, hierarchy: Hierarchy | None) -> str:
    if hierarchy is None or label == label.strip():
        return label.strip()
    try:
        return hierarchy.path(label)[0]
    except SchemaError:
        return label.strip()


def _largest_first(columns: Sequence[Numbers], cells: int) -> Numbers:
    """Return the largest contributions in falling order, 0 where there are fewer."""
    if not columns:
        return np.zeros((cells, 0))
    return -np.sort(-np.nan_to_num(np.column_stack(columns), nan=0.0), axis=1)
