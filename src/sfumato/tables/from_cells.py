"""Tables that exist already: a frame of cells, checked, with the largest contributions to each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sfumato.data.microdata import Batch, Microdata, check_numeric, missing_of
from sfumato.errors import DataError, ParameterError, SchemaError, join_names, plural, unknown_name
from sfumato.schema.hierarchy import Hierarchy, label_of
from sfumato.tables.cells import TOTAL, Cells, make_cells
from sfumato.tables.common_refinement import (
    UnfillableSums,
    above_any,
    crossed,
    cut,
    fill_in,
    finest,
    inside,
    overlapping,
)
from sfumato.tables.contributions import Contributions, Largest, largest_of
from sfumato.tables.label_tree import LabelTree, MarginSums, Nested, find_total, hierarchy_of, positions, suspect_total
from sfumato.typing import Numbers, Objects, Whole

if TYPE_CHECKING:
    from sfumato.tables.table import Table


_HAVE = ("has", "have")


@dataclass(frozen=True, eq=False)
class CellChecks:
    """Checks of rows that are cells, named by their labels."""

    labels: Objects
    """Shape (rows, dimensions)."""
    dimensions: Sequence[str]

    def once(self, table: Whole, cell: Whole) -> None:
        """Refuse the same cell twice in one table."""
        _, at, times = np.unique(np.column_stack([table, cell]), axis=0, return_index=True, return_counts=True)
        self._refuse(
            at[times > 1], ("stands", "stand"), "more than once in the table",
            "Keep one row for each cell; are there columns of labels that are not named as dimensions?",
        )  # fmt: skip

    def check_numbers(self, name: str, column: Numbers, optional: bool) -> None:
        """Refuse cells without a number."""
        self._refuse(
            np.flatnonzero(np.isinf(column) if optional else ~np.isfinite(column)), _HAVE, f"no number in column '{name}'",
            "A table is protected from its true values: fill them in, or leave out the rows of empty cells.",
        )  # fmt: skip

    def agree(self, name: str, column: Numbers, first: Whole, cell: Whole, half: float) -> None:
        """Refuse a cell with different numbers in linked tables; each may be rounded by `half`."""
        expected = column[first][cell]
        self._refuse(
            np.flatnonzero(np.abs(column - expected) > 2 * half + 1e-9 * np.abs(expected)), _HAVE,
            f"another number in column '{name}' in one linked table than in the next", "Correct one of the tables.",
        )  # fmt: skip

    def whole(self, name: str, counts: Numbers) -> None:
        """Refuse numbers of records or contributors that are negative or fractional."""
        self._refuse(
            np.flatnonzero((counts < 0) | (counts != np.round(counts))), _HAVE,
            f"something else than a whole number of at least 0 in column '{name}'",
            "It says how many records or contributors there are.",
        )  # fmt: skip

    def has_contributors(self, name: str, values: Numbers, counts: Numbers) -> None:
        """Refuse a value without contributors."""
        self._refuse(
            np.flatnonzero((counts == 0) & (values != 0)), _HAVE, "a value but no contributors",
            f"Correct column '{name}', or leave it out if it says something else.",
        )  # fmt: skip

    def not_negative(self, values: Numbers) -> None:
        """Refuse values below zero."""
        self._refuse(
            np.flatnonzero(values < 0), ("is", "are"), "below zero",
            "Where contributions can be negative (profits, changes), say nonnegative=False: everybody then knows less about "
            "the cells; else correct them.",
        )  # fmt: skip

    def _refuse(self, rows: Whole, verbs: tuple[str, str], words: str, then: str) -> None:
        if len(rows):
            names = [name_of(self.labels[r], self.dimensions) for r in rows[:6]] + [""] * (len(rows) - 6)
            verb = verbs[len(rows) != 1]
            raise DataError(f"{plural(len(rows), 'cell')} {verb} {words}: {join_names(names, 5)}. {then}")


def name_of(labels: Sequence[object] | Objects, dimensions: Sequence[str]) -> str:
    """Return labels in words, as `Cells.name` does."""
    parts = [f"{d} {v}" for d, v in zip(dimensions, labels, strict=True) if v != TOTAL]
    return ", ".join(parts) or "the grand total"


TotalLabels = str | Mapping[str, str | None] | None


@dataclass(frozen=True)
class CellColumns:
    """The columns with the numbers of a cell."""

    value: str | None
    count: str | None
    contributors: str | None
    top: tuple[str, ...]

    @property
    def numbers(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys(n for n in (self.value, self.count, self.contributors, *self.top) if n))


@dataclass(frozen=True, eq=False, repr=False)
class CellFrame:
    """Given cells of one table or of several linked ones; a cell that two of them share is there once."""

    trees: tuple[LabelTree, ...]
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
    """Largest change of a value, and of its contributions, by rounding."""

    def name(self, cell: int) -> str:
        """Return a cell's labels in words."""
        labels = [t.labels[c] if c >= 0 else TOTAL for t, c in zip(self.trees, self.codes[cell], strict=True)]
        return name_of(labels, [t.name for t in self.trees])


def read_cells(
    frames: Any,
    dimensions: Sequence[str] | Mapping[str, Nested],
    columns: CellColumns,
    total: TotalLabels,
    nonnegative: bool,
    rounding: float,
) -> CellFrame:
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
        check.check_numbers(name, column, optional=name in columns.top)
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

    return CellFrame(
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
    """Return the labels of the cell in each row of a frame, with totals renamed to "Total"."""
    batch = _batch(frame, dimensions, CellColumns(None, None, None, ()))
    found, _ = _labels([batch], dict.fromkeys(dimensions), total)
    return [tuple(row) for row in found.tolist()]


def listed(names: Sequence[str]) -> list[str]:
    """Return names as a list, also where there is a single one."""
    return [names] if isinstance(names, str) else list(names)


def _batch(frame: Any, dimensions: Sequence[str], columns: CellColumns) -> Batch:
    data = Microdata.read(frame) if isinstance(frame, str | Path) else frame
    data = data if isinstance(data, Microdata) else Microdata(data)
    for name in columns.numbers:
        check_numeric(data, name)
    return data.batch([*(n for n in dimensions if n in data.engine.kinds), *columns.numbers])


def _labels(
    batches: Sequence[Batch], nested: Mapping[str, Nested], total: TotalLabels
) -> tuple[Objects, tuple[LabelTree, ...]]:
    """Return the labels of every row, with totals renamed to "Total", and the tree of each dimension."""
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
    trees = [LabelTree.of(n, [x for x in found[:, i] if x != TOTAL], hierarchies[n]) for i, n in enumerate(nested)]
    return found, tuple(trees)


def _texts(batch: Batch, name: str, hierarchy: Hierarchy | None) -> list[str | None]:
    """Return the labels of a column as text, stripped of spaces unless the hierarchy has them; None for missing."""
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
    """Return the largest contributions in decreasing order, 0 where there are fewer."""
    if not columns:
        return np.zeros((cells, 0))
    return -np.sort(-np.nan_to_num(np.column_stack(columns), nan=0.0), axis=1)


def largest_from_frame(given: CellFrame, sums: MarginSums, position: Whole, alone: bool) -> Largest:
    """Return the largest contributions of every cell, from those of the given ones at their `position`.

    A margin that was not given gets the largest of the cells below it, and the sum of their numbers of contributors: right
    where nobody contributes to two of them. Where the number of contributors is not given, it is the number that the
    contributions prove: one for each known contribution, and one more if there is a remainder.
    """
    cells, n = sums.cells, given.top.shape[1]
    number = _contributors(given)
    _check(given, cells, position, number)
    if len(position) < len(cells) and not alone:
        raise DataError(
            "linked tables with largest contributions need all their margins, with the contributions to them. Add the margins."
        )
    values, contributors = np.zeros((len(cells), n)), np.zeros(len(cells))
    if len(position) < len(cells):
        single = np.flatnonzero(cells.sizes[position] == 1)
        leaf = np.full(cells.leaves, -1, np.int64)  # the given row of each leaf; a margin may equal the same leaf
        leaf[cells.incidence.indices[cells.incidence.indptr[position[single]]]] = single
        values, contributors = _merged(cells, given.top[leaf]), cells.sums(number[leaf])
    values[position], contributors[position] = given.top, number
    sums.check_larger(contributors, np.zeros(len(cells)), "fewer contributors")
    if given.nonnegative:
        for k in range(1, n + 1):
            room = np.full(len(cells), k * given.rounding)
            sums.check_larger(values[:, :k].sum(axis=1), room, "smaller largest contributions")
    return Largest(contributors, values, np.ones_like(values), np.full(values.shape, -1, np.int64))


def _merged(cells: Cells, top: Numbers) -> Numbers:
    """Return the largest of all leaves' contributions for every cell, as if all contributors were different."""
    leaves, n = top.shape
    if not n:
        return np.zeros((len(cells), 0))
    own = sparse.csr_array((top.ravel(), np.arange(top.size), np.arange(0, top.size + 1, n)), shape=(leaves, top.size))
    return largest_of(cells, Contributions(own, own), n).values


def _contributors(given: CellFrame) -> Numbers:
    if given.contributors is not None:
        return given.contributors
    if given.counts is not None:
        return given.counts
    shown = (given.top != 0).sum(axis=1)
    rest = np.abs(given.values - given.top.sum(axis=1)) > 1e-9 * np.abs(given.values)
    return np.asarray(shown + rest, np.float64)


def _check(given: CellFrame, cells: Cells, position: Whole, number: Numbers) -> None:
    """Refuse contributions that cannot be those of their cell."""
    sure = given.values >= 0
    over = given.top.sum(axis=1) > given.values * (1 + 1e-9) + given.rounding * (1 + given.top.shape[1])
    negative = (given.top < 0).any(axis=1)
    more = np.zeros(len(number), bool) if given.counts is None else number > given.counts
    for bad, (one, several), words in (
        (negative & given.nonnegative, ("has", "have"), "a largest contribution below zero"),
        (over & sure & ~negative & given.nonnegative, ("is less than its", "are less than their"), "largest contributions together"),
        ((given.top != 0).sum(axis=1) > number, ("has", "have"), "fewer contributors than largest contributions"),
        (more, ("has", "have"), "more contributors than records"),
    ):  # fmt: skip
        if np.any(bad):
            names = [cells.name(int(c)) for c in position[bad]]
            raise DataError(
                f"{plural(len(names), 'cell')} {one if len(names) == 1 else several} {words}: {join_names(names, 5)}. Check which "
                "columns are named as top, count and contributors."
            )


MARGINS = ("check", "compute", "given")


def from_cells(
    make: type[Table],
    frames: Any,
    dimensions: Sequence[str] | Mapping[str, Nested],
    value: str | None,
    count: str | None,
    contributors: str | None,
    top: Sequence[str],
    total: TotalLabels,
    margins: str,
    decimals: int | None,
    nonnegative: bool,
    unit: str,
) -> Table:
    """Make a table from cells; see `Table.from_cells`."""
    if margins not in MARGINS:
        raise ParameterError(f"margins must be 'check', 'compute' or 'given'; got '{margins}'.")
    if value is None and count is None:
        raise ParameterError("name the column of the values (value=...), or of the frequencies (count=...).")
    if decimals is not None and (isinstance(decimals, bool) or not isinstance(decimals, int)):
        raise ParameterError("decimals must be a whole number: how many digits after the point the values have.")
    if decimals is not None and abs(decimals) > 30:
        raise ParameterError("decimals must be a whole number between -30 and 30.")
    half = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    columns = CellColumns(value, count, contributors, tuple(listed(top)))
    given = read_cells(frames, dimensions, columns, total, nonnegative, half)
    cells, sums, leaf_of, parts = _cells(given)
    position = sums.find(given.codes)
    order = _Finest(leaf_of, parts, cells.leaves, given)
    totals = order.leaves(given.values, half)
    counts = None if given.counts is None else totals if value is None else order.leaves(given.counts)
    if margins != "compute":
        is_given = np.zeros(len(cells), bool)
        is_given[position] = True
        if value is not None:
            sums.check(_known(cells, totals, position, given.values), is_given, half, "the table does")
        if counts is not None and given.counts is not None:
            sums.check(_known(cells, counts, position, given.counts), is_given, 0.0, "the frequencies do")
    largest = largest_from_frame(given, sums, position, order.alone) if given.top.shape[1] or contributors else None
    if counts is None:
        fewest = None if largest is None else largest.contributors[cells.of_leaf]
        counts = np.full(cells.leaves, np.nan) if fewest is None or (cells.of_leaf < 0).any() else fewest
    table = make(
        cells, totals, counts, value or "", given=largest, unit=unit, integer=given.integer, decimals=decimals,
        nonnegative=nonnegative,
    )  # fmt: skip
    return _only(table, position) if margins == "given" else table


class _Finest:
    """The finest cells of each table, and how the leaves' values follow from them."""

    def __init__(self, leaf_of: Whole, parts: Sequence[tuple[Whole, Whole]], leaves: int, given: CellFrame) -> None:
        self._leaf_of, self._parts, self._leaves, self._given = leaf_of, parts, leaves, given

    @property
    def alone(self) -> bool:
        """Whether each finest cell is a leaf."""
        return len(self._parts) == 1

    def leaves(self, values: Numbers, half: float = 0.0) -> Numbers:
        """Return the leaves' values from those of the given cells, which may be rounded by `half`."""
        if self.alone:
            return np.asarray(np.bincount(self._leaf_of, values[self._parts[0][0]], self._leaves), np.float64)
        if (values < 0).any():
            raise DataError("linked tables with values below zero cannot be read as cells. Make them from microdata.")
        members = []
        for _, lies_in in self._parts:
            member = np.full(self._leaves, -1, np.int64)
            member[self._leaf_of] = lies_in
            members.append(member)
        try:
            return fill_in(members, [values[rows] for rows, _ in self._parts], self._leaves, half)
        except UnfillableSums as found:
            names = dict.fromkeys(f"[{self._given.name(int(self._parts[t][0][c]))}]" for t, c in found.cells)
        where = f" These cannot all be right: {join_names(names, 6)}." if names else ""
        raise DataError(
            "the linked tables contradict each other: no table of all their dimensions has the given cells."
            f"{where} Check that the cells they share are the same, and that empty cells are given or absent in both; if they "
            "were rounded, say to how many digits (decimals=...)."
        )


def _cells(given: CellFrame) -> tuple[Cells, MarginSums, Whole, list[tuple[Whole, Whole]]]:
    """Return the cells, their margin sums, the leaf of each part, and for each table its finest cells and their parts."""
    trees, names = given.trees, [t.name for t in given.trees]
    finest_of: list[Whole] = []
    for rows, used in given.tables:
        some_trees = [trees[i] for i in used]
        own = given.codes[rows][:, used]
        bare = np.flatnonzero(finest(own, some_trees))
        if (pair := overlapping(own[bare], some_trees)) is not None:
            one, other = (given.name(int(rows[bare[p]])) for p in pair)
            raise DataError(
                f"the table gives {one} and {other}, which overlap, but not the cells inside them. Give the cells of all "
                "dimensions crossed; or leave out the margins that are not broken down, and give them as a table of their own "
                "(a list of frames)."
            )
        finest_of.append(rows[bare])
    parts = [given.codes[rows] for rows in finest_of]
    codes = parts[0] if len(parts) == 1 else np.concatenate([crossed(parts, trees), *_unmatched(finest_of, given)])
    terms = dict.fromkeys(
        tuple(names[i] for i in subset)
        for _, used in given.tables
        for size in range(len(used) + 1)
        for subset in itertools.combinations(used, size)
    )
    cells, leaf_of = make_cells([t.dimension for t in trees], codes, terms)
    cells = _determined(cells, parts, given)
    members = [inside(codes, own, trees) for own in parts]
    return cells, MarginSums.of(cells, trees), leaf_of, list(zip(finest_of, members, strict=True))


def _unmatched(finest_of: Sequence[Whole], given: CellFrame) -> list[Whole]:
    """Return the finest cells that have no part in some linked table: they must be empty, or are refused."""
    found = []
    for rows in finest_of:
        lost = np.zeros(len(rows), bool)
        for others in finest_of:
            if others is not rows:
                common = crossed([given.codes[rows], given.codes[others]], given.trees)
                lost |= ~np.isin(np.arange(len(rows)), inside(common, given.codes[rows], given.trees))
        if (bad := rows[lost & (given.values[rows] != 0)]).size:
            raise DataError(
                f"{plural(len(bad), 'cell')} of one linked table {'has' if len(bad) == 1 else 'have'} no part in another: "
                f"{join_names((given.name(int(r)) for r in bad), 5)}. Linked tables are about the same contributors; add the cells "
                "that are absent."
            )
        found.append(given.codes[rows[lost]])
    return found


def _determined(cells: Cells, parts: Sequence[Whole], given: CellFrame) -> Cells:
    """Return the cells that are sums of finest cells of one of the tables: the values of others are not known."""
    place, kept = positions(cells, given.trees), np.zeros(len(cells), bool)
    row_of = {tuple(row): i for i, row in enumerate(given.codes.tolist())}
    overlaps: dict[int, int] = {}
    for leaves, (_, used) in zip(parts, given.tables, strict=True):
        trees = [given.trees[i] for i in used]
        among = np.flatnonzero((np.delete(place, used, axis=1) < 0).all(axis=1))
        among = among[above_any(place[among][:, used], leaves[:, used], trees)]
        broken = cut(leaves[:, used], place[among][:, used], trees)
        kept[among[broken < 0]] = True
        bad = broken >= 0
        overlaps |= {int(c): row_of[tuple(leaves[at].tolist())] for c, at in zip(among[bad], broken[bad], strict=True)}
    for cell, row in overlaps.items():
        if not kept[cell] and tuple(place[cell].tolist()) in row_of:
            raise DataError(
                f"the table gives {cells.name(cell)} and {given.name(row)}, which overlap, but not the cells inside both. "
                "Give these, or leave one of the two out."
            )
    return cells if kept.all() else Cells(cells.dimensions, cells.labels[kept], cells.incidence[kept])


def _known(cells: Cells, leaves: Numbers, position: Whole, given: Numbers) -> Numbers:
    """Return the value of every cell: the given one, otherwise the sum of its leaves."""
    found = cells.sums(leaves)
    found[position] = given
    return found


def _only(table: Table, position: Whole) -> Table:
    """Return the table with only the given cells."""
    kept = np.sort(position)
    cells = Cells(table.cells.dimensions, table.cells.labels[kept], table.cells.incidence[kept])
    return table.with_(cells=cells, given=None if table.given is None else table.given.of(kept))
