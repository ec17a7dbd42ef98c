"""The cells of a table as somebody gives them: columns read, labels placed, and what cannot be so refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, listing, some, unknown_name
from sfumato.microdata import Batch, Microdata, check_numeric, missing_of
from sfumato.schema.hierarchy.base import label_of
from sfumato.tables.dimension import TOTAL
from sfumato.tables.total_label import find_total, suspect_total
from sfumato.tables.tree import Nested, Tree, hierarchy_of

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class GivenCells:
    """Cells as given, of one table or of several linked ones; a cell that two of them share stands once."""

    trees: tuple[Tree, ...]
    codes: Whole
    """The position of each label in its tree, -1 for the total; shape (cells, dimensions)."""
    values: Numbers
    counts: Numbers | None
    contributors: Numbers | None
    top: Numbers
    """The largest contributions, largest first; shape (cells, n)."""
    tables: tuple[tuple[Whole, list[int]], ...]
    """For each table its cells, and the dimensions that it is broken down by."""
    integer: bool
    nonnegative: bool
    rounding: float
    """By how much rounding may have moved a value and its contributions, each."""


def read_cells(
    frames: Any,
    dimensions: Sequence[str] | Mapping[str, Nested],
    value: str | None,
    count: str | None,
    contributors: str | None,
    top: Sequence[str],
    total: str | Mapping[str, str | None] | None,
    nonnegative: bool,
    half: float,
) -> GivenCells:
    """Read the columns of one frame or of several linked ones, and place their labels."""
    nested: dict[str, Nested] = dict(dimensions) if isinstance(dimensions, Mapping) else dict.fromkeys(_listed(dimensions))
    if not nested:
        raise ParameterError("name at least one column of labels (dimensions=...).")
    top = _listed(top)
    numbers = [n for n in (value, count, contributors, *top) if n]
    batches = [_batch(f, nested, numbers) for f in (frames if isinstance(frames, list | tuple) else [frames])]
    if absent := [n for n in nested if not any(n in b.rows.columns for b in batches)]:
        raise DataError(unknown_name("column", absent[0], batches[0].schema.names(), "the data"))
    hierarchies = {n: hierarchy_of(h, n) for n, h in nested.items()}
    raw = [{n: _labels(b, n) for n in nested if n in b.rows.columns} for b in batches]
    totals = find_total({n: [x for r in raw for x in r.get(n, [])] for n in nested}, hierarchies, total)
    tables = [
        np.column_stack([_with_total(r[n], totals[n]) if n in r else np.full(len(b), TOTAL, object) for n in nested])
        for r, b in zip(raw, batches, strict=True)
    ]
    labels = np.concatenate(tables)
    if not len(labels):
        raise DataError("the table has no cells.")
    trees = tuple(
        Tree.of(n, [x for x in labels[:, i] if x != TOTAL], hierarchies[n]) for i, n in enumerate(nested)
    )
    codes = np.column_stack([[t.position[x] for x in labels[:, i]] for i, t in enumerate(trees)]).astype(np.int64)
    stacked = {n: np.concatenate([b.numbers(n) for b in batches]) for n in numbers}
    own, first, where = _distinct(codes, np.repeat(np.arange(len(tables)), [len(t) for t in tables]), labels, list(nested))
    for name, column in stacked.items():
        _check_numbers(name, column, labels, list(nested), optional=name in top)
        _check_same(name, column, first, where, labels, list(nested), half if name == value else 0.0)
    used, start = [], 0
    for r, t in zip(raw, tables, strict=True):
        rows = np.unique(where[start : start + len(t)])
        used.append((rows, [i for i, n in enumerate(nested) if n in r]))
        start += len(t)
    for name in (count, contributors):
        if name:
            check_whole(name, stacked[name][first], labels[first], list(nested))
    values = stacked[value or count or ""][first]
    _check_sign(values, labels[first], list(nested), nonnegative)
    for i, n in enumerate(nested):
        if totals[n] is None and hierarchies[n] is None and not (isinstance(total, Mapping) and n in total):
            suspect_total(n, i, labels[first], values)
    return GivenCells(
        trees, own, values, stacked[count][first] if count else None, stacked[contributors][first] if contributors else None,
        _largest_first([stacked[n][first] for n in top], len(own)), tuple(used),
        value is None or all(b.schema[value].integer for b in batches), nonnegative, half,
    )  # fmt: skip


def named(given: GivenCells, row: int) -> str:
    """Return a cell's labels in words."""
    names = [t.name for t in given.trees]
    return name_of(
        [t.labels[c] if c >= 0 else TOTAL for t, c in zip(given.trees, given.codes[row], strict=True)], names
    )


def name_of(labels: Sequence[object], dimensions: Sequence[str]) -> str:
    """Return labels in words, as `Cells.name` does."""
    parts = [f"{d} {v}" for d, v in zip(dimensions, labels, strict=True) if v != TOTAL]
    return ", ".join(parts) or "the grand total"


def check_whole(name: str, counts: Numbers, labels: NDArray[np.object_], dimensions: Sequence[str]) -> None:
    """Refuse numbers of records or contributors that cannot be numbers of anything."""
    bad = np.flatnonzero((counts < 0) | (counts != np.round(counts)))
    if len(bad):
        raise DataError(
            f"column '{name}' holds numbers of records or contributors, so they must be whole and at least 0; "
            f"{some(len(bad), 'cell')} {'has' if len(bad) == 1 else 'have'} another: "
            f"{_names(labels[bad], dimensions)}."
        )


def _listed(names: Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _names(labels: NDArray[np.object_], dimensions: Sequence[str]) -> str:
    return listing([name_of(row, dimensions) for row in labels], 5)


def _batch(frame: Any, dimensions: Mapping[str, Nested], numbers: Sequence[str]) -> Batch:
    data = frame if isinstance(frame, Microdata) else Microdata(frame)
    for name in numbers:
        check_numeric(data, name)
    return data.batch([*(n for n in dimensions if n in data.engine.kinds), *dict.fromkeys(numbers)])


def _labels(batch: Batch, name: str) -> list[str | None]:
    """Return the labels in a column as text; None where there is none."""
    column = batch.column(name)
    codes, values = column.codes
    gone = missing_of(column, batch.schema[name])
    texts = np.array([*(label_of(v) for v in values), None], object)
    return list(np.where(gone, None, texts[codes]))


def _with_total(labels: Sequence[str | None], total: str | None) -> NDArray[np.object_]:
    """Return labels with the total's under the name that it has here."""
    return np.array([TOTAL if x is None or x == total else x for x in labels], object)


def _distinct(
    codes: Whole, table: Whole, labels: NDArray[np.object_], dimensions: Sequence[str]
) -> tuple[Whole, Whole, Whole]:
    """Return the different cells, the first row of each, and the cell of each row; refuse twice the same in one table."""
    _, first, where = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    where = where.ravel()
    _, at, times = np.unique(np.column_stack([table, where]), axis=0, return_index=True, return_counts=True)
    if (twice := at[times > 1]).size:
        raise DataError(
            f"{some(len(twice), 'cell')} {'stands' if len(twice) == 1 else 'stand'} more than once in the table: "
            f"{_names(labels[twice], dimensions)}. Keep one row for each cell; are there columns of labels that are not named "
            "as dimensions?"
        )
    return codes[first], first, where


def _check_numbers(
    name: str, column: Numbers, labels: NDArray[np.object_], dimensions: Sequence[str], *, optional: bool
) -> None:
    bad = np.flatnonzero(np.isinf(column) | (False if optional else np.isnan(column)))
    if len(bad):
        raise DataError(
            f"{some(len(bad), 'cell')} {'has' if len(bad) == 1 else 'have'} no number in column '{name}': "
            f"{_names(labels[bad], dimensions)}. A table is protected from its true values: fill them in, or leave out "
            "the rows of empty cells."
        )


def _check_same(
    name: str, column: Numbers, first: Whole, where: Whole, labels: NDArray[np.object_], dimensions: Sequence[str], half: float
) -> None:
    """Refuse a cell that linked tables give different values for."""
    expected = column[first][where]
    bad = np.flatnonzero(np.abs(column - expected) > 2 * half + 1e-9 * np.abs(expected))
    if len(bad):
        raise DataError(
            f"the linked tables disagree in column '{name}' about {some(len(bad), 'cell')} that they share: "
            f"{_names(labels[bad], dimensions)}. Correct one of them."
        )


def _check_sign(values: Numbers, labels: NDArray[np.object_], dimensions: Sequence[str], nonnegative: bool) -> None:
    bad = np.flatnonzero(values < 0)
    if len(bad) and nonnegative:
        raise DataError(
            f"{some(len(bad), 'cell')} {'is' if len(bad) == 1 else 'are'} below zero: {_names(labels[bad], dimensions)}. "
            "Where contributions can be negative (profits, changes), say nonnegative=False: everybody then knows less about "
            "the cells; else correct them."
        )


def _largest_first(columns: Sequence[Numbers], cells: int) -> Numbers:
    """Return the largest contributions in falling order, 0 where there are fewer."""
    if not columns:
        return np.zeros((cells, 0))
    return -np.sort(-np.nan_to_num(np.column_stack(columns), nan=0.0), axis=1)
