"""A table, checked cell by cell; failing cells are hidden on request, and totals are computed from the remaining cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sfumato.errors import DataError, plural
from sfumato.room.checks import CellVerdict, Content, TableGrid, judge, places, sensitivity
from sfumato.room.outputs import Status
from sfumato.room.pandas_calls import TableRequest, codes, column_label
from sfumato.room.policy import OutputPolicy
from sfumato.typing import Flags, Whole

Piece = tuple[str, str]
"""A column of values, and a statistic of it."""


@dataclass(frozen=True, eq=False)
class Tabulated:
    """A table with the results of its checks."""

    table: pd.DataFrame
    outcome: pd.DataFrame
    status: Status
    summary: str
    suppressed: bool
    records: int
    """Number of records in its cells."""


@dataclass(frozen=True, eq=False)
class _Layout:
    """The position in the grid of each row and column of a pandas table."""

    rows: Whole
    columns: Whole
    pieces: list[Piece]


def tabulate(asked: TableRequest, policy: OutputPolicy, suppress: bool) -> Tabulated:
    """Return the requested table, checked under a policy; with `suppress` without the cells that fail."""
    raw = asked.raw(None)
    if raw.empty:
        raise DataError("the table would have no cells: no record has all the keys and a value.")
    grid, layout = _grid(asked, raw)
    who = None if asked.who is None else codes(asked.who)
    contents = {
        (value, function): Content(function, asked.values.get(value), who) for value, function in set(layout.pieces)
    }
    verdicts = {piece: judge(grid, content, policy) for piece, content in contents.items()}
    shape = (grid.rows + 1, grid.columns + 1)
    records = int(grid.inside.sum())
    at = np.ix_(layout.rows, layout.columns)
    words = np.empty((len(layout.rows), len(layout.columns)), object)
    for piece, verdict in verdicts.items():
        mine = np.array([p == piece for p in layout.pieces])
        words[:, mine] = verdict.words(shape)[at][:, mine]
    outcome = pd.DataFrame(words, raw.index, raw.columns)
    table = raw if asked.run is asked.raw else asked.run(None)
    failing, reviewed, why = _found(verdicts, layout, at, shape)
    unseen = asked.margins and any((v.failing(shape) & grid.cells & ~grid.shown).any() for v in verdicts.values())
    counted = f"{int((failing | reviewed).sum()):,} of {plural(failing.size, 'cell')}"
    if not suppress:
        status: Status = "fail" if failing.any() or unseen else "review" if reviewed.any() else "pass"
        said = f"{status}; {counted}: {why}" if why else status
        said += "; totals give away cells that are not shown" if unseen else ""
        return Tabulated(table, _like(outcome, table), status, said, False, records)
    gone = _hidden(grid, contents, verdicts, policy, asked.margins)
    if not gone.any():
        status = "review" if reviewed.any() else "pass"
        return Tabulated(
            table, _like(outcome, table), status, f"{status}; {counted}: {why}" if why else status, False, records
        )
    safe = _without(asked, grid, gone, table, pd.DataFrame(gone[at], raw.index, raw.columns))
    hidden = int(gone[at].sum())
    totals = ", totals are of the cells shown" if asked.margins else ""
    said = (
        f"review; {hidden:,} of {plural(failing.size, 'cell')} hidden{totals}: {why or 'their totals would disclose'}"
    )
    return Tabulated(safe, _like(outcome, safe), "review", said, True, records)


def _like(outcome: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return the reasons for the cells of a table that may have fewer totals, such as a table of shares."""
    return outcome.reindex(index=table.index, columns=table.columns)


def _grid(asked: TableRequest, raw: pd.DataFrame) -> tuple[TableGrid, _Layout]:
    rows = raw.index[:-1] if asked.margins else raw.index
    row = places(asked.rows, rows.astype(object), not asked.dropna)
    labels = [column_label(label, asked) for label in raw.columns]
    pieces = [(value, function) for value, function, _ in labels]
    count = len(raw.index)
    down = np.arange(count)
    if asked.columns is None:
        column, across, keys = np.zeros(len(row), np.int64), np.zeros(len(labels), np.int64), 1
    else:
        distinct = list(dict.fromkeys(key for _, _, key in labels if not _is_total(key, asked)))
        column = places(asked.columns, _index(distinct), not asked.dropna)
        place = {key: i for i, key in enumerate(distinct)}
        across = np.array([-1 if _is_total(key, asked) else place[key] for _, _, key in labels], np.int64)
        keys = len(distinct)
    lost = (row < 0) | (column < 0)
    if lost.any():
        row, column = np.where(lost, -1, row), np.where(lost, -1, column)
    more_rows, more_columns = int((row == len(rows)).any()), int((column == keys).any())
    grid = TableGrid(row, column, len(rows) + more_rows, keys + more_columns, more_rows, more_columns)
    if asked.margins:
        down[-1] = grid.rows
    return grid, _Layout(down, np.where(across < 0, grid.columns, across), pieces)


def _is_total(key: tuple[Any, ...], asked: TableRequest) -> bool:
    return asked.margins and key[0] == asked.margins_name and all(part == "" for part in key[1:])


def _index(keys: list[tuple[Any, ...]]) -> pd.Index[Any]:
    several = bool(keys) and len(keys[0]) > 1
    found: pd.Index[Any] = (
        pd.MultiIndex.from_tuples(keys) if several else pd.Index([key[0] for key in keys], dtype=object)
    )
    return found


def _found(
    verdicts: dict[Piece, CellVerdict], layout: _Layout, at: tuple[NDArray[Any], ...], shape: tuple[int, int]
) -> tuple[Flags, Flags, str]:
    """Return which cells of the table fail, which need a person, and in words the number for each reason."""
    failing = np.zeros((len(layout.rows), len(layout.columns)), bool)
    reviewed = failing.copy()
    tally: dict[str, int] = {}
    for piece, verdict in verdicts.items():
        mine = np.array([p == piece for p in layout.pieces])
        failing[:, mine] = verdict.failing(shape)[at][:, mine]
        reviewed[:, mine] = verdict.reviewed(shape)[at][:, mine]
        for reason, where in {**verdict.fail, **verdict.review}.items():
            tally[reason] = tally.get(reason, 0) + int(where[at][:, mine].sum())
    why = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(tally.items()) if count)
    return failing, reviewed, why


def _hidden(
    grid: TableGrid,
    contents: dict[Piece, Content],
    verdicts: dict[Piece, CellVerdict],
    policy: OutputPolicy,
    margins: bool,
) -> Flags:
    """Return the cells to hide so that the cells shown, and totals of these alone, pass; with the totals left without a cell.

    One contributor may have records in several cells: where a total fails although its cells do not, they are hidden too.
    """
    shape = (grid.rows + 1, grid.columns + 1)
    judged = grid.cells if margins else grid.shown
    hide = np.zeros(shape, bool)
    for verdict in verdicts.values():
        hide |= verdict.failing(shape) & judged
    while margins:
        left = grid.without(grid.in_cells(hide))
        bad = np.zeros(shape, bool)
        for content in contents.values():
            bad |= sensitivity(left, content, policy).failing(shape)
        again = hide | (grid.cells & (bad | bad[:, -1:] | bad[-1:, :] | bad[-1, -1]))
        if (again == hide).all():
            break
        hide = again
    hide[:-1, -1] = hide[:-1, :-1].all(axis=1)
    hide[-1, :-1] = hide[:-1, :-1].all(axis=0)
    hide[-1, -1] = hide[:-1, :-1].all()
    return hide


def _without(
    asked: TableRequest, grid: TableGrid, gone: Flags, table: pd.DataFrame, hide: pd.DataFrame
) -> pd.DataFrame:
    """Return the table of the records outside hidden cells, with these cells empty."""
    out = grid.in_cells(gone & grid.cells)
    keep = ~out
    if not (keep & grid.inside).any():
        return table.astype(np.float64) * np.nan
    made = asked.run(keep).reindex(index=table.index, columns=table.columns)
    shown = ~hide.reindex(index=table.index, columns=table.columns).to_numpy(bool)
    return made.where(shown)
