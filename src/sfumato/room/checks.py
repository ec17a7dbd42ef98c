"""The checks of the cells of a table and of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sfumato import kernels
from sfumato.errors import join_names
from sfumato.room.outputs import Status
from sfumato.room.policy import OutputPolicy
from sfumato.tables.contributions import Largest
from sfumato.tables.rules import NK, PQ, MinimumContributors, MinimumFrequency, PPercent, Together
from sfumato.tables.sensitivity import SensitivityRule
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Objects, Whole

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Rows × columns of a table. Arrays over cells have shape (rows + 1, columns + 1): the last of each are totals."""

    row: Whole
    """The row of each record, shape (n,); -1 for a record that is in no cell."""
    column: Whole
    rows: int
    columns: int
    hidden_rows: int = 0
    """Number of last rows that the table does not show, although its totals count them."""
    hidden_columns: int = 0

    @cached_property
    def inside(self) -> Flags:
        """Which records are in a cell, shape (n,)."""
        return self.row >= 0

    @cached_property
    def _flat(self) -> Whole:
        return self.row * self.columns + self.column

    def flat(self, which: Flags) -> Whole:
        """Return the number of the cell, row by row, for the records among `which` that are in one."""
        at = self.inside & which
        return self._flat if at.all() else self._flat[at]

    @property
    def shown(self) -> Flags:
        """Which cells the table shows, besides totals; shape (rows + 1, columns + 1)."""
        out = np.zeros((self.rows + 1, self.columns + 1), bool)
        out[: self.rows - self.hidden_rows, : self.columns - self.hidden_columns] = True
        return out

    @property
    def cells(self) -> Flags:
        """Which are inner cells and not totals."""
        out = np.zeros((self.rows + 1, self.columns + 1), bool)
        out[:-1, :-1] = True
        return out

    def count(self, which: Flags) -> Numbers:
        """Count the records among `which` in each cell."""
        flat = np.bincount(self.flat(which), minlength=self.rows * self.columns)
        return with_totals(flat.reshape(self.rows, self.columns).astype(np.float64))

    def range(self, values: Numbers, which: Flags) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest value in each cell; (inf, -inf) in an empty one."""
        at, flat = self.inside & which, self.flat(which)
        low, high = np.full(self.rows * self.columns, np.inf), np.full(self.rows * self.columns, -np.inf)
        np.minimum.at(low, flat, values[at])
        np.maximum.at(high, flat, values[at])
        shape = (self.rows, self.columns)
        return -with_largest(-low.reshape(shape)), with_largest(high.reshape(shape))

    def in_cells(self, marked: Flags) -> Flags:
        """Return which records are in marked cells, shape (n,); `marked` has the shape of the cells."""
        return np.asarray(self.inside & marked[self.row, self.column])

    def without(self, records: Flags) -> TableGrid:
        """Return the grid with some records removed from their cells."""
        return TableGrid(
            np.where(records, -1, self.row), np.where(records, -1, self.column), self.rows, self.columns,
            self.hidden_rows, self.hidden_columns,
        )  # fmt: skip


def with_totals(cells: Numbers) -> Numbers:
    """Return cells with their sums as a last row and column."""
    rows = np.vstack([cells, cells.sum(axis=0)])
    return np.column_stack([rows, rows.sum(axis=1)])


def with_largest(cells: Numbers) -> Numbers:
    """Return cells with the maximum of each column and row as a last row and column."""
    rows = np.vstack([cells, cells.max(axis=0, initial=-np.inf)])
    return np.column_stack([rows, rows.max(axis=1, initial=-np.inf)])


def places(keys: pd.DataFrame, labels: pd.Index, missing: bool) -> Whole:
    """Return for each record the position of its keys among labels, shape (n,).

    `len(labels)` stands for keys that are not among them, -1 for incomplete keys (unless `missing` values are keys).
    """
    keys = keys.set_axis([f"k{i}" for i in range(keys.shape[1])], axis=1)  # two labels may have the same name
    if keys.shape[1] == 1:
        group: Whole = np.asarray(pd.factorize(keys["k0"], use_na_sentinel=not missing)[0], np.int64)
    else:
        numbered = keys.groupby(list(keys.columns), sort=False, dropna=not missing, observed=True).ngroup()
        group = np.asarray(numbered.fillna(-1), np.int64)
    first = np.empty(int(group.max(initial=-1)) + 2, np.int64)  # the last position is for records without a group
    first[group[::-1]] = np.arange(len(group))[::-1]  # among several records of a group, keep the first
    distinct = keys.iloc[first[:-1]]
    if keys.shape[1] == 1:
        found = labels.get_indexer(pd.Index(distinct.iloc[:, 0].astype(object)))
    else:
        found = labels.get_indexer(pd.MultiIndex.from_frame(distinct.astype(object)))
    return np.append(np.where(found < 0, len(labels), found), -1).astype(np.int64)[group]


KEYS = ("row", "column")


def sensitivity_table(
    grid: TableGrid, present: Flags, values: Numbers | None, contributor: Whole | None, rules: Sequence[SensitivityRule]
) -> tuple[Table, tuple[Whole, Whole]]:
    """Return a table of the records that are `present`, and the row and column in the grid of each of its cells.

    Where every record is its own contributor and the rules need only the largest values, only these are included. They are
    absolute values, as dominance rules treat negative ones.
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


def _counts(grid: TableGrid, present: Flags) -> Table:
    from sfumato.data.microdata import Microdata

    count = grid.count(present)[:-1, :-1]
    row, column = np.nonzero(count)
    frame = pd.DataFrame({"row": row, "column": column, "value": count[row, column]})
    return Table.of(Microdata(frame, _schema("value")), "row * column", count="value")


def _largest(grid: TableGrid, present: Flags, values: Numbers, most: int) -> Table:
    """Return the table of counts with the values of the cells and the `most` largest of each filled in."""
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


def _contributors(grid: TableGrid, present: Flags, values: Numbers | None, contributor: Whole | None) -> Table:
    from sfumato.data.microdata import Microdata

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


def _places(table: Table, grid: TableGrid) -> tuple[Whole, Whole]:
    labels = table.cells.labels
    found: list[Whole] = []
    for name, last in zip(KEYS, (grid.rows, grid.columns), strict=True):
        texts = labels[:, table.cells.dimensions.index(name)]
        found.append(np.array([last if text == "Total" else int(float(text)) for text in texts], np.int64))
    return found[0], found[1]


# --- The rules applied to the cells of a table.

COUNTS = "count"
OF_VALUES = ("sum", "mean", "std", "var")
"""Statistics that can reveal a dominant contributor; a median is checked against the threshold only."""
STATISTICS = (COUNTS, *OF_VALUES, "median")
EMPTY, FULL, SAME = "nobody is in it", "everybody of its row or column is in it", "all values are the same"
NEGATIVE, MISSING = "negative values", "missing values"


@dataclass(frozen=True, eq=False)
class CellVerdict:
    """The cells to which each reason applies; arrays have the shape of the grid's cells with totals."""

    fail: dict[str, Flags] = field(default_factory=dict)
    review: dict[str, Flags] = field(default_factory=dict)

    def failing(self, shape: tuple[int, int]) -> Flags:
        """Return the cells that fail some rule."""
        return _any(self.fail, shape)

    def reviewed(self, shape: tuple[int, int]) -> Flags:
        """Return the cells that a person must look at."""
        return _any(self.review, shape)

    def words(self, shape: tuple[int, int]) -> Objects:
        """Return "ok" or the reasons for every cell."""
        out = np.full(shape, "", object)
        for reason, where in {**self.fail, **self.review}.items():
            out[where] = [f"{old}; {reason}" if old else reason for old in out[where]]
        out[out == ""] = "ok"
        return out


@dataclass(frozen=True, eq=False)
class Content:
    """The input of a statistic: a column of values, or none for counts of records."""

    statistic: str
    values: Numbers | None = None
    """Shape (n,); NaN where missing."""
    contributor: Whole | None = None
    """The contributor of each record, as numbers, shape (n,); None if every record is its own."""

    def present(self, size: int) -> Flags:
        """Return which records have a value, shape (n,)."""
        return np.ones(size, bool) if self.values is None else ~np.isnan(self.values)


def judge(grid: TableGrid, content: Content, policy: OutputPolicy) -> CellVerdict:
    """Apply a policy to one statistic in every cell and total."""
    verdict = sensitivity(grid, content, policy)
    present = content.present(len(grid.row))
    classes = {"fail": verdict.fail, "review": verdict.review, "off": {}}[policy.class_disclosure]
    count = grid.count(present)
    classes.update(_class_disclosure(grid, content, count, present))
    if content.values is not None and content.statistic != COUNTS and policy.missing == "review":
        _note(verdict.review, MISSING, grid.count(~present) > 0)
    return verdict


def sensitivity(grid: TableGrid, content: Content, policy: OutputPolicy) -> CellVerdict:
    """Apply the sensitivity rules to every cell and total that has records."""
    present = content.present(len(grid.row))
    shape = (grid.rows + 1, grid.columns + 1)
    fail: dict[str, Flags] = {}
    review: dict[str, Flags] = {}
    if not (grid.inside & present).any():
        return CellVerdict(fail, review)
    rules = [
        rule for rule in _single(policy.rules)
        if content.statistic in OF_VALUES or isinstance(rule, MinimumContributors | MinimumFrequency)
    ]  # fmt: skip
    values = content.values if content.statistic in OF_VALUES else None
    below = np.zeros(shape, bool) if values is None else grid.count(present & (values < 0)) > 0
    table, at = sensitivity_table(grid, present, values, content.contributor, rules)
    for rule in rules:
        # a rule for positive values needs a setting for others
        positive = "negative" in rule.parameters()
        found = np.zeros(shape, bool)
        found[at] = (rule.with_(negative="absolute") if positive else rule).assess(table).unsafe
        if positive and policy.negative == "review":
            found &= ~below
            _note(review, NEGATIVE, below)
        _note(fail, rule.label(), found)
    return CellVerdict(fail, review)


def _single(rules: Iterable[SensitivityRule]) -> list[SensitivityRule]:
    """Return single rules; split combined ones into their parts."""
    return [single for rule in rules for single in (rule.rules if isinstance(rule, Together) else (rule,))]


def _note(reasons: dict[str, Flags], reason: str, where: Flags) -> None:
    if where.any():
        reasons[reason] = where


def _any(reasons: dict[str, Flags], shape: tuple[int, int]) -> Flags:
    out = np.zeros(shape, bool)
    for where in reasons.values():
        out |= where
    return out


def _class_disclosure(grid: TableGrid, content: Content, count: Numbers, present: Flags) -> dict[str, Flags]:
    """Return the cells that disclose something about everybody in a group."""
    found: dict[str, Flags] = {}
    _note(found, EMPTY, (count == 0) & grid.shown)
    if content.values is None:
        full = np.zeros(count.shape, bool)
        if grid.columns > 1:
            full |= count == count[:, -1:]
        if grid.rows > 1:
            full |= count == count[-1:, :]
        _note(found, FULL, full & (count > 0) & grid.cells)
    elif content.statistic != COUNTS:
        low, high = grid.range(content.values, present)
        _note(found, SAME, (low == high) & (count > 0))
    return found


# --- The checks of a model: enough degrees of freedom, and no coefficient about a few records only.


def check_model(
    df_resid: float, rsquared: float, columns: Numbers | None, names: tuple[str, ...], policy: OutputPolicy
) -> pd.DataFrame:
    """Return a row for each check: status and finding. Without the columns (n, k) of the model a person must look."""
    rows: dict[str, tuple[Status, str]] = {}
    enough = df_resid >= policy.residual_df
    rows["residual degrees of freedom"] = (
        "pass" if enough else "fail",
        "enough" if enough else f"fewer than {policy.residual_df} residual degrees of freedom",
    )
    if columns is None:
        rows["records behind coefficients"] = ("review", "the columns of the model are not known")
    else:
        few = [names[j] for j in np.flatnonzero(set_apart(columns) < policy.group)]
        rows["records behind coefficients"] = (
            ("fail", f"set apart fewer than {policy.group} records: {join_names(few, 5)}")
            if few
            else ("pass", "enough")
        )
        saturated = fewest_in_saturated(columns)
        if saturated is not None:
            small = saturated < policy.group
            rows["groups of a saturated model"] = (
                "fail" if small else "pass",
                f"a group has fewer than {policy.group} records" if small else "enough records",
            )
        high = leverage(columns).max() > policy.leverage
        rows["leverage"] = (
            "fail" if high else "pass",
            f"a record has a leverage above {policy.leverage:g}" if high else "no record decides its own fit",
        )
    close = not rsquared <= policy.r_squared
    rows["fit"] = (
        "review" if close else "pass",
        f"R² is above {policy.r_squared:g}, or not known" if close else "leaves outcomes uncertain",
    )
    return pd.DataFrame(
        {"status": [s for s, _ in rows.values()], "finding": [f for _, f in rows.values()]}, index=list(rows)
    )


def set_apart(columns: Numbers) -> Whole:
    """Count for each column the records without its most frequent value, shape (k,); n for a constant.

    >>> set_apart(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 5.0]])).tolist()
    [3, 1]
    """
    n = len(columns)
    out = np.empty(columns.shape[1], np.int64)
    for j, column in enumerate(columns.T):
        counts = np.unique(column, return_counts=True)[1]
        out[j] = n if len(counts) == 1 else n - counts.max()
    return out


def fewest_in_saturated(columns: Numbers) -> int | None:
    """Return the size of the smallest group of a saturated model, whose coefficients are a table of means; else None."""
    k = columns.shape[1]
    if len(np.unique(columns[: 50 * k], axis=0)) > k:
        return None
    counts = np.unique(columns, axis=0, return_counts=True)[1]
    return int(counts.min()) if len(counts) <= k else None


def leverage(columns: Numbers) -> Numbers:
    """Return the leverage of each record, shape (n,): 1 where the model must pass through it."""
    q = kernels.regression.orthonormal(columns).columns
    return np.asarray(np.einsum("ij,ij->i", q, q))
