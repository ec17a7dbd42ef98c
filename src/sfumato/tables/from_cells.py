"""Tables that exist already: a frame of cells, with or without their margins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, listing, some
from sfumato.tables.additivity import Sums, positions
from sfumato.tables.cells import Cells, make_cells
from sfumato.tables.fill_in import Contradiction, fill_in
from sfumato.tables.finest import above_any, crossed, cut, finest, inside, overlapping
from sfumato.tables.given_cells import Columns, GivenCells, TotalLabels, listed, read_cells
from sfumato.tables.given_largest import given_largest
from sfumato.tables.tree import Nested

if TYPE_CHECKING:
    from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
MARGINS = ("check", "compute", "given")


def from_cells(
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
    from sfumato.tables.table import Table

    if margins not in MARGINS:
        raise ParameterError(f"margins must be 'check', 'compute' or 'given'; got '{margins}'.")
    if value is None and count is None:
        raise ParameterError("name the column of the values (value=...), or of the frequencies (count=...).")
    if decimals is not None and (isinstance(decimals, bool) or not isinstance(decimals, int)):
        raise ParameterError("decimals must be a whole number: how many digits after the point the values have.")
    if decimals is not None and abs(decimals) > 30:
        raise ParameterError("decimals must be a whole number between -30 and 30.")
    half = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    columns = Columns(value, count, contributors, tuple(listed(top)))
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
    largest = given_largest(given, sums, position, order.alone) if given.top.shape[1] or contributors else None
    if counts is None:
        fewest = None if largest is None else largest.contributors[cells.of_leaf]
        counts = np.full(cells.leaves, np.nan) if fewest is None or (cells.of_leaf < 0).any() else fewest
    table = Table(
        cells, totals, counts, value or "", given=largest, unit=unit, integer=given.integer, decimals=decimals,
        nonnegative=nonnegative,
    )  # fmt: skip
    return _only(table, position) if margins == "given" else table


class _Finest:
    """The finest cells of each table, and how leaves get their values from them."""

    def __init__(self, leaf_of: Whole, parts: Sequence[tuple[Whole, Whole]], leaves: int, given: GivenCells) -> None:
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
        except Contradiction as found:
            names = dict.fromkeys(f"[{self._given.name(int(self._parts[t][0][c]))}]" for t, c in found.cells)
        where = f" These cannot all be right: {listing(names, 6)}." if names else ""
        raise DataError(
            "the linked tables contradict each other: no table of all their dimensions has the given cells."
            f"{where} Check that the cells they share are the same, and that empty cells are given or absent in both; if they "
            "were rounded, say to how many digits (decimals=...)."
        )


def _cells(given: GivenCells) -> tuple[Cells, Sums, Whole, list[tuple[Whole, Whole]]]:
    """Return the cells, how they add up, the leaf of each part, and for each table its finest cells and the parts in them."""
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
    return cells, Sums.of(cells, trees), leaf_of, list(zip(finest_of, members, strict=True))


def _unmatched(finest_of: Sequence[Whole], given: GivenCells) -> list[Whole]:
    """Return the finest cells that have no part in some linked table: empty ones, or they are refused."""
    found = []
    for rows in finest_of:
        lost = np.zeros(len(rows), bool)
        for others in finest_of:
            if others is not rows:
                common = crossed([given.codes[rows], given.codes[others]], given.trees)
                lost |= ~np.isin(np.arange(len(rows)), inside(common, given.codes[rows], given.trees))
        if (bad := rows[lost & (given.values[rows] != 0)]).size:
            raise DataError(
                f"{some(len(bad), 'cell')} of one linked table {'has' if len(bad) == 1 else 'have'} no part in another: "
                f"{listing((given.name(int(r)) for r in bad), 5)}. Linked tables are about the same contributors; add the cells "
                "that are absent."
            )
        found.append(given.codes[rows[lost]])
    return found


def _determined(cells: Cells, parts: Sequence[Whole], given: GivenCells) -> Cells:
    """Return the cells that are sums of finest cells of one of the tables: nobody knows the values of others."""
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
    """Return what is known of every cell: what was given, and else the sum of its leaves."""
    found = cells.sums(leaves)
    found[position] = given
    return found


def _only(table: Table, position: Whole) -> Table:
    """Return the table with the cells that were given alone."""
    kept = np.sort(position)
    cells = Cells(table.cells.dimensions, table.cells.labels[kept], table.cells.incidence[kept])
    return table.with_(cells=cells, given=None if table.given is None else table.given.of(kept))
