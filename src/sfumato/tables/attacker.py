"""The attacker of a published table: the interval of every cell, for readers and for contributors who know their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.contract.draws import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import by_cell
from sfumato.tables.knowledge import KnownBounds, alone_in
from sfumato.tables.linear_program import ROUNDING, Contradiction, Infeasible, LinearProgram, reduce_rows
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

_MANY, _SWEEPS, _FEW = 50, 60, 0.02
"""Number of cells from which several are solved at once, largest number of such programs, smallest share of ends two must find."""
_REACHED = 1e-9
"""Distance from its limit within which an end counts as reached, in thousandths of the largest value: rounding of the solver."""
_NOTHING = "no table satisfies what is published with these bounds."


class Attacker:
    """An attacker who knows bounds of every cell and of every leaf, and that the table adds up.

    The interval of a cell runs from its smallest to its largest value over all leaves x with leaf_low ≤ x ≤ leaf_high and low ≤
    R x ≤ high, exact to about 1e-7 of the values involved. Simple arithmetic comes first (known leaves, sums with one unknown
    leaf, independent parts of the table); the rest is solved by linear programs.

    Parameters
    ----------
    cells
        The cells and their leaves.
    low, high
        Certain bounds of every cell, shape (cells,): the value twice where it is published; infinite where nothing is known.
    leaf_low, leaf_high
        Certain bounds of every leaf: one number for all, or one for each leaf.
    near
        Leaves that satisfy the bounds, if known: differences from them are then computed, with less rounding error. They do not
        change the answer.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import Microdata
    >>> from sfumato.tables import Table
    >>> firms = pd.DataFrame({"region": ["N", "N", "S", "S"], "sector": ["a", "b"] * 2, "turnover": [1.0, 2.0, 3.0, 4.0]})
    >>> table = Table.of(Microdata(firms), "region * sector", "turnover")
    >>> hidden = table.cells.sizes == 1  # the totals are shown, what they are made of is not
    >>> attacker = Attacker(table.cells, np.where(hidden, 0, table.value), np.where(hidden, np.inf, table.value))
    >>> attacker.interval(table.cells.find(region="S", sector="b"))
    (3.0, 6.0)
    """

    def __init__(
        self,
        cells: Cells,
        low: Numbers,
        high: Numbers,
        leaf_low: Numbers | float = 0.0,
        leaf_high: Numbers | float = np.inf,
        *,
        near: Numbers | None = None,
    ) -> None:
        self.cells = cells
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        if low.shape != (len(cells),) or high.shape != (len(cells),):
            raise ParameterError(f"low and high must have a number for each of the {len(cells):,} cells.")
        if np.isnan(low).any() or np.isnan(high).any():
            raise ParameterError("low and high must be numbers; use infinity for a cell of which nothing is known.")
        self._near = np.zeros(cells.leaves) if near is None else np.asarray(near, np.float64)
        at = cells.sums(self._near)
        self._low, self._high = _away(low, at), _away(high, at)
        bounds = (
            _away(np.broadcast_to(np.asarray(b, np.float64), (cells.leaves,)), self._near)
            for b in (leaf_low, leaf_high)
        )
        try:
            self._reduced = reduce_rows(cells.incidence, self._low, self._high, *bounds)
        except Contradiction as found:
            where = f" {cells.name(found.row)} shows it." if found.row >= 0 else ""
            raise DataError(_NOTHING + where) from None
        self._programs: dict[int, tuple[LinearProgram, Whole]] = {}
        self._place = np.zeros(cells.leaves, np.int64)

    @classmethod
    def of(cls, published: PublishedTable) -> Attacker:
        """Return the attacker who reads a published table; he allows negative values only where there may be any."""
        low = published.low
        known = published.original
        nonnegative = bool((low >= 0).all()) if known is None else known.nonnegative
        return cls(published.cells, low, published.high, 0.0 if nonnegative else -np.inf)

    def interval(self, cell: int) -> tuple[float, float]:
        """Return the smallest and the largest value that a cell can have."""
        low, high = self.intervals(np.array([cell]))
        return float(low[0]), float(high[0])

    def intervals(self, cells: Whole | None = None) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest value of each of some cells (of all, if not given), shape (len(cells),)."""
        wanted = np.arange(len(self.cells)) if cells is None else np.asarray(cells, np.int64)
        rows = sparse.csr_array(self.cells.incidence[wanted])
        low, high = self.bounds_of(rows, within=(self._low[wanted], self._high[wanted]))
        shift = rows @ self._near
        return low + shift, high + shift

    def bounds_of(
        self,
        rows: sparse.csr_array,
        enough: tuple[Numbers, Numbers] | None = None,
        within: tuple[Numbers, Numbers] | None = None,
    ) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest rows @ (x - near), shape (rows,); see `near`.

        `enough`, shape (rows,), are values beyond which the exact end does not matter: a returned end may be less extreme, but
        not less than that. `within` are published limits that the ends cannot exceed.
        """
        r = self._reduced
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        part = r.part[rows.indices]
        free = part < 0
        at, entries = rows.indices[free], rows.data[free]
        low, high = (np.bincount(row[free], b[at] * entries, rows.shape[0]).astype(np.float64) for b in (r.low, r.high))
        named = np.unique(np.column_stack([row[~free], part[~free]]), axis=0)
        parts = np.bincount(named[:, 0], minlength=rows.shape[0])
        for p in np.unique(part[~free]):
            here = np.flatnonzero(part == p)
            program, columns = self._program(int(p))
            self._place[columns] = np.arange(len(columns))
            which, place = np.unique(row[here], return_inverse=True)
            asked = sparse.csr_array(
                (rows.data[here], (place.ravel(), self._place[rows.indices[here]])), shape=(len(which), len(columns))
            )
            stop = np.full(len(which), -np.inf), np.full(len(which), np.inf)
            if enough is not None:  # a row with leaves in several parts may need the exact end of each
                here_alone = parts[which] == 1
                with np.errstate(invalid="ignore"):
                    rest = enough[0][which] - low[which], enough[1][which] - high[which]
                stop = np.where(here_alone, rest[0], -np.inf), np.where(here_alone, rest[1], np.inf)
            limits = asked @ r.low[columns], asked @ r.high[columns]
            if within is not None:
                alone = parts[which] == 1
                with np.errstate(invalid="ignore"):
                    own = within[0][which] - low[which], within[1][which] - high[which]
                limits = (
                    np.where(alone & (own[0] > limits[0]), own[0], limits[0]),
                    np.where(alone & (own[1] < limits[1]), own[1], limits[1]),
                )
            smallest, largest = _solve(program, asked, limits, stop)
            low[which] += smallest
            high[which] += largest
        return low, high

    def _program(self, part: int) -> tuple[LinearProgram, Whole]:
        if part not in self._programs:
            r = self._reduced
            columns, at = np.flatnonzero(r.part == part), np.flatnonzero(r.row_part == part)
            rows = sparse.csr_array(r.rows[at][:, columns])
            low, high = r.row_low[at], r.row_high[at]
            kept = _not_implied(rows, low == high)
            try:
                program = LinearProgram(
                    sparse.csr_array(rows[kept]), low[kept], high[kept], r.low[columns], r.high[columns]
                )
            except Infeasible:
                raise DataError(_NOTHING) from None
            rest = rows @ program.point
            if (np.maximum(low - rest, rest - high) > 1e-7 * program.largest_bound).any():
                raise DataError(_NOTHING)
            self._programs[part] = program, columns
        return self._programs[part]


def _away(bound: Numbers, at: Numbers) -> Numbers:
    """Return bound - at, and zero where they differ by rounding alone."""
    away = bound - at
    with np.errstate(invalid="ignore"):
        same = np.abs(away) <= ROUNDING * np.abs(at)
    return np.asarray(np.where(same, 0.0, away))


def _not_implied(rows: sparse.csr_array, equal: Flags) -> Whole:
    """Return the rows that are needed: equations that are no combination of shorter ones."""
    equations = np.flatnonzero(equal)
    equations = equations[np.argsort(np.diff(rows.indptr)[equations], kind="stable")]
    picked = sparse.csr_array(rows[equations])
    kept = kernels.table_algebra.independent_rows(
        picked.indptr.astype(np.int64), picked.indices.astype(np.int64), rows.shape[1]
    )
    return np.sort(np.concatenate([np.flatnonzero(~equal), equations[kept]]))


def _solve(
    program: LinearProgram,
    asked: sparse.csr_array,
    limits: tuple[Numbers, Numbers],
    enough: tuple[Numbers, Numbers],
) -> tuple[Numbers, Numbers]:
    """Return the smallest and largest asked @ x, or values that are `enough`; none is beyond its `limits`.

    Every solution is checked against all remaining rows.
    """
    count = asked.shape[0]
    found = asked @ program.point, asked @ program.point  # the smallest and largest seen
    if count > _MANY and all(np.isfinite(limit).all() for limit in limits):
        _many_at_once(program, asked, limits, found)
    for side in (0, 1):
        for i in range(count):
            if not _short(program, found, limits, side, i):
                continue
            if (found[0][i] <= enough[0][i], found[1][i] >= enough[1][i])[side]:
                continue
            at = asked.indices[asked.indptr[i] : asked.indptr[i + 1]].astype(np.int64)
            costs = asked.data[asked.indptr[i] : asked.indptr[i + 1]]
            value, x = (program.smallest, program.largest)[side](at, costs)
            found[side][i] = value
            if x is not None:
                seen = asked @ x
                np.minimum(found[0], seen, out=found[0])
                np.maximum(found[1], seen, out=found[1])
    return np.maximum(found[0], limits[0]), np.minimum(found[1], limits[1])


def _short(
    program: LinearProgram, found: tuple[Numbers, Numbers], limits: tuple[Numbers, Numbers], side: int, at: int | slice
) -> Flags:
    """Return whether an end has not been reached; the solver's own rounding may take it beyond."""
    rounding = _REACHED * program.scale
    if side == 0:
        return np.asarray(found[0][at] > limits[0][at] + rounding)
    return np.asarray(found[1][at] < limits[1][at] - rounding)


def _many_at_once(
    program: LinearProgram,
    asked: sparse.csr_array,
    limits: tuple[Numbers, Numbers],
    found: tuple[Numbers, Numbers],
) -> None:
    """Find ends of many intervals by a few programs: where every cell is bounded, most reach their own bounds.

    Half of the cells, chosen at random, are maximised and the others minimised, so that they cancel in their sums; then the
    other way round. Ends that are reached are recorded; the others are solved one by one.
    """
    chance = Draws(0).generator("many at once")
    everything = np.arange(asked.shape[1], dtype=np.int64)
    sign = np.zeros(asked.shape[0])
    for turn in range(_SWEEPS):
        short = [_short(program, found, limits, side, slice(None)) for side in (0, 1)]
        left = int(short[0].sum() + short[1].sum())
        if left <= _MANY:
            return
        drawn = chance.choice([-1.0, 1.0], asked.shape[0])
        sign = -sign if turn % 2 else np.where(short[0] & short[1], drawn, short[0] * 1.0 - short[1] * 1.0)
        sign = np.where(short[0] | short[1], sign, 0.0)
        _, x = program.smallest(everything, np.asarray(asked.T @ (sign / np.diff(asked.indptr))))
        if x is None:
            return
        seen = asked @ x
        np.minimum(found[0], seen, out=found[0])
        np.maximum(found[1], seen, out=found[1])
        now = sum(int(_short(program, found, limits, side, slice(None)).sum()) for side in (0, 1))
        if turn % 2 and left - now < _FEW * left:
            return


_SPARE = 4
"""Directions in addition to the number of known leaves: a cell then follows by chance with probability 0."""


@dataclass(frozen=True)
class Insider:
    """One contributor and a cell that he can work out: confidential, except for the names of the cells."""

    contributor: int
    """Its position in the table's contributions."""
    cell: int
    """The cell that he can work out."""
    alone: tuple[int, ...]
    """Leaves in which he is the only contributor, and whose values he therefore knows."""
    exact: bool
    low: float
    high: float


def by_equations(known: KnownBounds, table: Table, targets: Whole) -> list[Insider]:
    """Return what contributors who are alone in a leaf can work out exactly.

    The published cells leave the directions of a null space open. A contributor who knows some leaves closes the directions
    that move them; he knows a cell whose value no other direction changes. A few random directions represent all of them.
    """
    contributions = table.contributions
    if contributions is None:
        return []
    of_cell, part_of = known.components
    alone = np.where(known.known_leaves, -1, alone_in(contributions))
    # the absolute nonzero contributions to leaves that are not known to everybody: what could be found out
    open_ = sparse.diags_array((~known.known_leaves).astype(np.float64))
    parts = sparse.csr_array(open_ @ abs(contributions.own))
    parts.eliminate_zeros()
    holders = by_cell(table.cells, parts)
    asked, shown = (sparse.csc_array(known.cells.incidence[rows]) for rows in (targets, np.flatnonzero(known.shown)))
    unknown = np.asarray(known.cells.incidence[targets] @ (~known.known_leaves).astype(np.float64))
    found: list[Insider] = []
    for part in np.intersect1d(part_of[(alone >= 0) & (part_of >= 0)], of_cell):
        leaves = np.flatnonzero(part_of == part)
        inside = sparse.csr_array(asked[:, leaves])
        # a cell that depends on other parts too stays unknown to one who knows leaves of this part
        here = np.flatnonzero((np.diff(inside.indptr) > 0) & (np.diff(inside.indptr) == unknown))
        if len(here):
            rows = sparse.csr_array(shown[:, leaves])
            found += _in_part(alone[leaves], leaves, inside[here], targets[here], rows, holders)
    return [replace(f, low=float(table.value[f.cell]), high=float(table.value[f.cell])) for f in found]


def _in_part(
    alone: Whole,
    leaves: Whole,
    inside: sparse.csr_array,
    targets: Whole,
    rows: sparse.csr_array,
    holders: sparse.csr_array,
) -> list[Insider]:
    """Return what contributors work out in one part: `inside` and `rows` are targets and published cells × its leaves."""
    who, times = np.unique(alone[alone >= 0], return_counts=True)
    open_ = _directions(rows, int(times.max()) + _SPARE)
    moves = inside @ open_
    length = np.linalg.norm(moves, axis=1)
    undecided = length > 1e-7 * np.sqrt(np.diff(inside.indptr))  # the others are known to everybody
    targets, moves, length = targets[undecided], moves[undecided], length[undecided]
    found = []
    for person in who:
        own = np.flatnonzero(alone == person)
        basis, size, _ = np.linalg.svd(open_[own].T, full_matrices=False)
        basis = basis[:, size > 1e-7]
        left = np.linalg.norm(moves - (moves @ basis) @ basis.T, axis=1)
        for i in np.flatnonzero(left < 1e-6 * length):
            cell = int(targets[i])
            if (holders[[cell]].indices != person).any():  # not only his own contribution
                found.append(Insider(int(person), cell, tuple(int(leaf) for leaf in leaves[own]), True, np.nan, np.nan))
    return found


def _directions(rows: sparse.csr_array, count: int) -> Numbers:
    """Return `count` random directions that leave every row's sum unchanged, shape (columns, count)."""
    from scipy.sparse.linalg import lsmr

    transposed = sparse.csr_array(rows[np.diff(rows.indptr) > 0].T)
    drawn = Draws(0).generator("directions").standard_normal((rows.shape[1], count))
    found = np.empty_like(drawn)
    for k in range(count):
        left = drawn[:, k]
        for _ in range(2):  # twice, because of rounding
            left = left - transposed @ lsmr(transposed, left, atol=1e-14, btol=1e-14, maxiter=10 * rows.shape[1])[0]
        found[:, k] = left
    return found


def by_bounds(
    known: KnownBounds,
    table: Table,
    targets: Whole,
    tolerance: float,
    exact: Callable[[Numbers, Numbers], Flags],
) -> list[Insider]:
    """Return what any contributor to an unpublished cell can work out, exactly or nearly, with all his knowledge.

    He knows that a leaf is at least his contribution to it, and its value where he is alone. A cell is nearly known to him when
    his interval is shorter than `tolerance` times the contributions of the others.
    """
    contributions = table.contributions
    if contributions is None:
        return []
    alone = alone_in(contributions)
    given = sparse.csc_array(contributions.grossed)
    per_cell = by_cell(table.cells, contributions.grossed)[targets]
    hidden = ~known.known_leaves
    found = []
    for who in range(len(contributions)):
        column = slice(given.indptr[who], given.indptr[who + 1])
        leaves, amounts = given.indices[column], given.data[column]
        if not hidden[leaves].any():
            continue
        low, high = known.leaf_low.copy(), known.leaf_high.copy()
        if np.isfinite(known.leaf_low[leaves]).all():  # others gave nothing below the lower bound
            low[leaves] = np.maximum(low[leaves], amounts)
        mine = alone[leaves] == who
        low[leaves[mine]] = high[leaves[mine]] = table.totals[leaves[mine]]
        own = np.zeros(len(targets))
        entries = per_cell[:, [who]].tocoo()
        own[entries.coords[0]] = entries.data
        others = table.value[targets] - own
        shared = (np.diff(per_cell.indptr) > 1) | ((np.diff(per_cell.indptr) == 1) & (own == 0))
        asked = targets[shared]
        bottom, top = Attacker(known.cells, known.low, known.high, low, high, near=table.totals).intervals(asked)
        sure = exact(bottom, top)
        near = sure | (top - bottom <= tolerance * np.abs(others[shared]))
        singles = tuple(int(leaf) for leaf in leaves[mine])
        found += [
            Insider(who, int(asked[i]), singles, bool(sure[i]), float(bottom[i]), float(top[i]))
            for i in np.flatnonzero(near)
        ]
    return found
