"""What contributors work out who know their own figures: those who are alone in a cell, and everybody by linear programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Draws
from sfumato.tables.attacker import Attacker
from sfumato.tables.audit.knowledge import Knowledge
from sfumato.tables.contributions import Contributions
from sfumato.tables.largest import by_cell
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
_SPARE = 4
"""Directions beyond as many as leaves are known: that a cell follows by chance then has no probability."""


@dataclass(frozen=True)
class Insider:
    """One contributor and a cell that becomes known to him: confidential, except for the names of the cells."""

    contributor: int
    """Its position in the table's contributions."""
    cell: int
    """What he works out."""
    alone: tuple[int, ...]
    """Leaves in which he is the only contributor, and whose values he therefore knows."""
    exact: bool
    low: float
    high: float


def alone_in(contributions: Contributions) -> Whole:
    """Return for each leaf the contributor whose value it is, -1 for other leaves; shape (leaves,).

    A single record with a survey weight above 1 stands for others too, whose values nobody knows.
    """
    own, grossed = contributions.own, contributions.grossed
    single = np.flatnonzero(np.diff(own.indptr) == 1)
    at = own.indptr[single]
    whole = own.data[at] == grossed.data[grossed.indptr[single]]
    found = np.full(own.shape[0], -1, np.int64)
    found[single[whole]] = own.indices[at[whole]]
    return found


def by_equations(known: Knowledge, table: Table, targets: Whole) -> list[Insider]:
    """Return what contributors who are alone in a leaf work out exactly.

    What the shown cells leave open are the directions of a null space. A contributor who knows some leaves closes those
    directions that move them; he knows a cell whose value no other direction changes. A few directions drawn at random stand for
    all of them.
    """
    contributions = table.contributions
    if contributions is None:
        return []
    of_cell, part_of = known.components
    alone = np.where(known.known_leaves, -1, alone_in(contributions))
    holders = by_cell(table.cells, _unknown_parts(contributions, known.known_leaves))
    asked, shown = (sparse.csc_array(known.cells.incidence[rows]) for rows in (targets, np.flatnonzero(known.shown)))
    unknown = np.asarray(known.cells.incidence[targets] @ (~known.known_leaves).astype(np.float64))
    found: list[Insider] = []
    for part in np.intersect1d(part_of[(alone >= 0) & (part_of >= 0)], of_cell):
        leaves = np.flatnonzero(part_of == part)
        inside = sparse.csr_array(asked[:, leaves])
        # a cell that hangs on other parts too stays unknown with what is known in this one
        here = np.flatnonzero((np.diff(inside.indptr) > 0) & (np.diff(inside.indptr) == unknown))
        if len(here):
            rows = sparse.csr_array(shown[:, leaves])
            found += _in_part(alone[leaves], leaves, inside[here], targets[here], rows, holders)
    return _with_values(found, table)


def _unknown_parts(contributions: Contributions, known_leaves: Flags) -> sparse.csr_array:
    """Return the sizes of contributions other than 0 to leaves that are not known to everybody: what there is to find out."""
    open_ = sparse.diags_array((~known_leaves).astype(np.float64))
    parts = sparse.csr_array(open_ @ abs(contributions.own))
    parts.eliminate_zeros()
    return parts


def _in_part(
    alone: Whole,
    leaves: Whole,
    inside: sparse.csr_array,
    targets: Whole,
    rows: sparse.csr_array,
    holders: sparse.csr_array,
) -> list[Insider]:
    """Return what contributors work out in one part: `inside` and `rows` are targets and shown cells × its leaves."""
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
            if (holders[[cell]].indices != person).any():  # not only his own
                found.append(Insider(int(person), cell, tuple(int(leaf) for leaf in leaves[own]), True, np.nan, np.nan))
    return found


def _directions(rows: sparse.csr_array, count: int) -> Numbers:
    """Return so many random directions that leave every row's sum as it is, shape (columns, count)."""
    from scipy.sparse.linalg import lsmr

    transposed = sparse.csr_array(rows[np.diff(rows.indptr) > 0].T)
    drawn = Draws(0).generator("directions").standard_normal((rows.shape[1], count))
    found = np.empty_like(drawn)
    for k in range(count):
        left = drawn[:, k]
        for _ in range(2):  # the second takes away what rounding left
            left = left - transposed @ lsmr(transposed, left, atol=1e-14, btol=1e-14, maxiter=10 * rows.shape[1])[0]
        found[:, k] = left
    return found


def _with_values(found: list[Insider], table: Table) -> list[Insider]:
    return [replace(f, low=float(table.value[f.cell]), high=float(table.value[f.cell])) for f in found]


def by_bounds(
    known: Knowledge,
    table: Table,
    targets: Whole,
    tolerance: float,
    exact: Callable[[Numbers, Numbers], Flags],
) -> list[Insider]:
    """Return what any contributor to a cell that is not shown works out, exactly or nearly, with all that he knows.

    He knows that a leaf holds at least what he gave to it, and its value where he is alone. A cell is nearly known to him when
    the interval he finds is shorter than `tolerance` times what the others gave to it.
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
