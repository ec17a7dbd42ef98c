"""The table that sensitivity rules look at: of counts, of the largest values of each cell, or of all contributors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.secure_room.grid import Grid, Mask, Numbers, Whole, with_totals
from sfumato.tables.largest import Largest
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import NK, PQ, MinimumContributors, MinimumFrequency, PPercent
from sfumato.tables.table import Table

if TYPE_CHECKING:
    from sfumato.schema import Schema

KEYS = ("row", "column")


def sensitivity_table(
    grid: Grid, present: Mask, values: Numbers | None, contributor: Whole | None, rules: Sequence[SensitivityRule]
) -> tuple[Table, tuple[Whole, Whole]]:
    """Return a table of the records that are `present`, and the row and column in the grid of each of its cells.

    Where every record is its own contributor and the rules ask for no more than the largest, only these are looked at; they
    are absolute values, as rules of dominance take negative ones.
    """
    if contributor is None and values is None:
        table = _counts(grid, present)
    elif contributor is None and values is not None and all(_wants_largest(rule) for rule in rules):
        table = _largest(grid, present, np.abs(values), max(map(_coalition, rules), default=1))
    else:
        table = _contributors(grid, present, values, contributor)
    return table, _places(table, grid)


def _wants_largest(rule: SensitivityRule) -> bool:
    known = isinstance(rule, NK | PPercent | PQ | MinimumContributors | MinimumFrequency)
    return known and not getattr(rule, "waived", None) and not getattr(rule, "nonzero", False)


def _coalition(rule: SensitivityRule) -> int:
    return rule.n if isinstance(rule, NK) else int(getattr(rule, "coalition", 0)) + 1


def _counts(grid: Grid, present: Mask) -> Table:
    import pandas as pd

    from sfumato.microdata import Microdata

    count = grid.count(present)[:-1, :-1]
    row, column = np.nonzero(count)
    frame = pd.DataFrame({"row": row, "column": column, "value": count[row, column]})
    return Table.of(Microdata(frame, _schema("value")), "row * column", count="value")


def _largest(grid: Grid, present: Mask, values: Numbers, most: int) -> Table:
    """Return the table of counts with the cells' values and the `most` largest of each put in their place."""
    flat, size = grid.flat(present), values[grid.inside & present]
    cells = grid.rows * grid.columns
    sums, count = np.bincount(flat, size, cells).astype(np.float64), np.bincount(flat, minlength=cells)
    inner, left = np.zeros((cells, most)), np.array(size, np.float64)
    for rank in range(most):
        largest = np.full(cells, -np.inf)
        np.maximum.at(largest, flat, left)
        inner[count > rank, rank] = largest[count > rank]
        as_large = np.flatnonzero(left == largest[flat])
        _, one = np.unique(flat[as_large], return_index=True)
        left[as_large[one]] = -np.inf  # one of each cell is taken
    top = _with_top(inner.reshape(grid.rows, grid.columns, most))
    counts = _counts(grid, present)
    places = _places(counts, grid)
    leaf = counts.cells.of_leaf
    shape = (len(counts), most)
    known = Largest(grid.count(present)[places], top[places], np.ones(shape), np.full(shape, -1, np.int64))
    total = with_totals(sums.reshape(grid.rows, grid.columns))[places]
    return counts.with_(totals=total[leaf], variable="value", given=known, integer=False)


def _with_top(inner: Numbers) -> Numbers:
    """Return the largest of every cell, shape (rows, columns, n), with those of totals as a last row and column."""
    rows, columns, most = inner.shape
    out = np.zeros((rows + 1, columns + 1, most))
    out[:-1, :-1] = inner
    out[:-1, -1] = -np.sort(-inner.reshape(rows, -1), axis=1)[:, :most]
    out[-1, :-1] = -np.sort(-inner.transpose(1, 0, 2).reshape(columns, -1), axis=1)[:, :most]
    out[-1, -1] = -np.sort(-inner.ravel())[:most]
    return out


def _contributors(grid: Grid, present: Mask, values: Numbers | None, contributor: Whole | None) -> Table:
    import pandas as pd

    from sfumato.microdata import Microdata

    at = grid.inside & present
    frame = pd.DataFrame({"row": grid.row[at], "column": grid.column[at]})
    if values is not None:
        frame["value"] = values[at]
    if contributor is not None:
        frame["who"] = contributor[at]
    return Table.of(
        Microdata(frame, _schema(*frame.columns[2:])),
        "row * column",
        None if values is None else "value",
        contributor=None if contributor is None else "who",
    )


def _schema(*names: str) -> Schema:
    from sfumato.schema import Attribute, Schema

    return Schema(tuple(Attribute(name) for name in (*KEYS, *names)))


def _places(table: Table, grid: Grid) -> tuple[Whole, Whole]:
    labels = table.cells.labels
    found: list[NDArray[np.int64]] = []
    for name, last in zip(KEYS, (grid.rows, grid.columns), strict=True):
        texts = labels[:, table.cells.dimensions.index(name)]
        found.append(np.array([last if text == "Total" else int(float(text)) for text in texts], np.int64))
    return found[0], found[1]
