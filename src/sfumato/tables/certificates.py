"""Why a value follows from a published table, for readers and for contributors who know their own figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from sfumato.contract.draws import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables.attacker import Attacker
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions, by_cell
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

# --- knowledge
# An attacker's knowledge before any arithmetic: bounds of every cell and of every leaf.


@dataclass(frozen=True, eq=False)
class KnownBounds:
    """Bounds of cells and leaves; equal where a value is published."""

    cells: Cells
    low: Numbers
    """Shape (cells,). So is `high`."""
    high: Numbers
    leaf_low: Numbers
    """Shape (leaves,). So is `leaf_high`."""
    leaf_high: Numbers

    @classmethod
    def of(cls, published: PublishedTable, nonnegative: bool | None = None) -> KnownBounds:
        """Return the knowledge of every reader of a table."""
        if nonnegative is None:
            original = published.original
            nonnegative = bool((published.low >= 0).all()) if original is None else original.nonnegative
        leaves = published.cells.leaves
        bottom = np.full(leaves, 0.0 if nonnegative else -np.inf)
        return cls(published.cells, published.low, published.high, bottom, np.full(leaves, np.inf))

    def with_cells(self, known: Mapping[int, float | tuple[float, float]]) -> KnownBounds:
        """Return the knowledge of a reader who also knows some cells: a value, or a lower and an upper bound."""
        low, high = self.low.copy(), self.high.copy()
        for cell, value in known.items():
            if not 0 <= cell < len(self.cells):
                raise ParameterError(f"there is no cell {cell}: the table has {len(self.cells):,}, counted from 0.")
            bottom, top = value if isinstance(value, tuple) else (value, value)
            if not bottom <= top:
                raise ParameterError(
                    f"what is known of {self.cells.name(cell)} must be a value, or a low and a high one."
                )
            if bottom > high[cell] or top < low[cell]:
                raise DataError(
                    f"what is known of {self.cells.name(cell)} does not agree with what is published of it. Correct what is "
                    "known, or say how far shown figures may be from the true ones (within)."
                )
            low[cell], high[cell] = max(low[cell], bottom), min(high[cell], top)
        return replace(self, low=low, high=high)

    @cached_property
    def shown(self) -> Flags:
        """Which cells are known exactly, shape (cells,)."""
        return np.asarray((self.low == self.high) & np.isfinite(self.low))

    @cached_property
    def known_leaves(self) -> Flags:
        """Which leaves are known exactly because they are published, or have equal bounds; shape (leaves,)."""
        at = self.cells.of_leaf
        found = (at >= 0) & self.shown[at]
        return np.asarray(found | (self.leaf_low == self.leaf_high))

    @cached_property
    def components(self) -> tuple[Whole, Whole]:
        """Independent parts of the table: a number for each cell and for each leaf.

        Two unknown leaves are in one part if some published cell contains both. -1 for known leaves, and for cells without
        unknown leaves.
        """
        from scipy.sparse.csgraph import connected_components

        shown, unknown = np.flatnonzero(self.shown), np.flatnonzero(~self.known_leaves)
        part = sparse.csr_array(self.cells.incidence[shown][:, unknown])
        graph: sparse.csr_array = sparse.block_array([[None, part], [part.T, None]], format="csr")
        _, number = connected_components(graph, directed=False)
        of_leaf = np.full(self.cells.leaves, -1, np.int64)
        of_leaf[unknown] = number[len(shown) :]
        of_cell = np.full(len(self.cells), -1, np.int64)
        touched = np.diff(part.indptr) > 0
        of_cell[shown[touched]] = number[: len(shown)][touched]
        return of_cell, of_leaf

    def nearby(self, cell: int) -> tuple[Whole, Whole]:
        """Return the leaves and the published cells that an equation for this cell can use."""
        of_cell, of_leaf = self.components
        own = self.cells.incidence[[cell]].indices
        parts = np.unique(of_leaf[own])
        linked = np.flatnonzero(np.isin(of_cell, parts[parts >= 0]) & self.shown)
        touched = np.zeros(self.cells.leaves, bool)
        touched[own] = True
        touched[self.cells.incidence[linked].indices] = True
        outside = np.asarray(self.cells.incidence @ (~touched).astype(np.float64)).ravel()
        usable = np.flatnonzero((outside == 0) & self.shown & (np.arange(len(self.cells)) != cell))
        return np.flatnonzero(touched), usable


# --- certificate
# Why a value follows from a published table: the cells, with signs, from which it can be worked out.


Sign = Literal["=", "≤", "≥"]
_WORDS = 12


@dataclass(frozen=True)
class Certificate:
    """A bound on a cell, as a combination of known cells: value sign Σ coefficient × cell (+ bounds of leaves).

    Anybody can check it: the cells' leaves, times their coefficients, add up to those of the cell, except for `leaves`, whose
    signs make the bound valid (none is below its lower bound, or above its upper one).
    """

    cell: int
    sign: Sign
    coefficients: Mapping[int, Fraction]
    """The coefficient of each cell that is used; negative where it is subtracted."""
    leaves: Mapping[int, Fraction]
    """The coefficient of each leaf of which only a bound is used; empty for an equation."""
    bound: float
    """The value that follows."""
    words: str
    """The same in words, without values: "region N, sector a = region N − region N, sector b"."""

    def follows(self, known: KnownBounds) -> float:
        """Return the bound that the combination gives, recomputed from the known values; infinite where it proves nothing."""
        upper = self.sign != "≥"
        total = Fraction(0)
        row = known.cells.incidence[[self.cell]]
        left = {int(leaf): Fraction(1) for leaf in row.indices}
        for cell, times in self.coefficients.items():
            use = known.high[cell] if (times > 0) == upper else known.low[cell]
            if self.sign == "=" and known.high[cell] != known.low[cell]:
                return math.inf
            if not math.isfinite(use):
                return math.inf if upper else -math.inf
            total += times * Fraction(float(use))
            for leaf in known.cells.incidence[[cell]].indices:
                left[int(leaf)] = left.get(int(leaf), Fraction(0)) - times
        for at, rest in left.items():
            if rest == 0:
                continue
            use = known.leaf_high[at] if (rest > 0) == upper else known.leaf_low[at]
            if self.sign == "=" or not math.isfinite(use):
                return math.inf if upper else -math.inf
            total += rest * Fraction(float(use))
        return float(total)


def equation(known: KnownBounds, cell: int) -> Certificate | None:
    """Return the shortest equation that gives the cell from published cells; None if there is none.

    The shortest is that with the smallest sum of absolute coefficients: a linear program.
    """
    from scipy import sparse

    rows, columns = known.nearby(cell)
    if not len(columns):
        return None
    matrix = sparse.csc_array(known.cells.incidence[columns][:, rows].T)
    target = np.asarray(known.cells.incidence[[cell]].toarray()).ravel()[rows]
    found = _shortest(sparse.hstack([matrix, -matrix], format="csc"), target, np.ones(2 * len(columns)))
    if found is None:
        return None
    signed = found[: len(columns)] - found[len(columns) :]
    return _checked(known, cell, "=", dict(zip(columns.tolist(), signed.tolist(), strict=True)))


def bound(known: KnownBounds, cell: int, sign: Literal["≤", "≥"], value: float) -> Certificate | None:
    """Return a short proof that the cell is at most (or at least) `value`; None if none was found.

    By linear programming duality the smallest upper bound from combinations of known values is the largest value that an
    attacker finds.
    """
    from scipy import sparse

    upper = sign == "≤"
    incidence = sparse.csc_array(known.cells.incidence.T)
    over, under = (known.high, known.low) if upper else (-known.low, -known.high)
    leaf_over, leaf_under = (known.leaf_high, known.leaf_low) if upper else (-known.leaf_low, -known.leaf_high)
    parts, costs, prices, at = [], [], [], []
    identity = sparse.eye_array(known.cells.leaves, format="csc")
    for matrix, limit, direction, price in (
        (incidence, over, 1.0, 1.0), (incidence, under, -1.0, 1.0),
        (identity, leaf_over, 1.0, 1e-3), (identity, leaf_under, -1.0, 1e-3),
    ):  # fmt: skip
        usable = np.flatnonzero(np.isfinite(limit))
        parts.append(direction * matrix[:, usable])
        costs.append(direction * limit[usable])
        prices.append(np.full(len(usable), price))
        at.append(usable)
    target = np.asarray(known.cells.incidence[[cell]].toarray()).ravel()
    wanted = value if upper else -value
    scale = max(1.0, abs(wanted))
    found = _shortest(
        sparse.hstack(parts, format="csc"), target, np.concatenate(prices), np.concatenate(costs) / scale,
        wanted / scale + 1e-7,
    )  # fmt: skip
    if found is None:
        return None
    plus, minus = found[: len(at[0])], found[len(at[0]) : len(at[0]) + len(at[1])]
    signed: dict[int, float] = {}
    for cells, amounts in ((at[0], plus), (at[1], -minus)):
        for i in np.flatnonzero(amounts):
            signed[int(cells[i])] = signed.get(int(cells[i]), 0.0) + float(amounts[i])
    return _checked(known, cell, sign, signed)


def _shortest(
    matrix: Any, target: Numbers, prices: Numbers, costs: Numbers | None = None, most: float = 0.0
) -> Numbers | None:
    """Return the cheapest non-negative solution of matrix @ y = target, with costs @ y at most `most` if given."""
    from scipy.optimize import linprog

    limit: dict[str, Any] = {} if costs is None else {"A_ub": costs[None, :], "b_ub": [most]}
    found = linprog(prices, A_eq=matrix, b_eq=target, bounds=(0, None), method="highs", **limit)
    return np.asarray(found.x, np.float64) if found.status == 0 else None


def _checked(known: KnownBounds, cell: int, sign: Sign, signed: Mapping[int, float]) -> Certificate | None:
    """Return the certificate with its coefficients as fractions, if exact arithmetic confirms it."""
    coefficients = {
        i: found for i, v in signed.items() if (found := Fraction(v).limit_denominator(720)) and abs(v) > 1e-9
    }
    coefficients = dict(sorted(coefficients.items(), key=lambda item: (item[1] < 0, item[0])))
    left: dict[int, Fraction] = {int(leaf): Fraction(1) for leaf in known.cells.incidence[[cell]].indices}
    for other, times in coefficients.items():
        for leaf in known.cells.incidence[[other]].indices:
            left[int(leaf)] = left.get(int(leaf), Fraction(0)) - times
    leaves = {leaf: times for leaf, times in left.items() if times}
    made = Certificate(cell, sign, coefficients, leaves, math.nan, "")
    value = made.follows(known)
    if not math.isfinite(value):
        return None
    return Certificate(cell, sign, coefficients, leaves, value, _words(known, cell, sign, coefficients, leaves))


def _words(
    known: KnownBounds, cell: int, sign: Sign, coefficients: Mapping[int, Fraction], leaves: Mapping[int, Fraction]
) -> str:
    parts = []
    for i, (other, times) in enumerate(coefficients.items()):
        if i == _WORDS:
            parts.append(f" and {len(coefficients) - _WORDS:,} more cells")
            break
        size = "" if abs(times) == 1 else f"{abs(times)} × "
        name = f"[{known.cells.name(other)}]"
        parts.append(f" − {size}{name}" if times < 0 else f" + {size}{name}" if i else f"{size}{name}")
    said = "".join(parts).strip() or "0"
    why = ", because of what is known of each figure beforehand" if leaves else ""
    if leaves and all(not b for b in known.leaf_low[list(leaves)]) and _one_way(sign, leaves):
        why = ", because no figure is below 0"
    return f"[{known.cells.name(cell)}] {sign} {said}{why}"


def _one_way(sign: Sign, leaves: Mapping[int, Fraction]) -> bool:
    """Whether only lower bounds of leaves are used."""
    return all((times < 0) == (sign == "≤") for times in leaves.values())


# --- insiders
# Contributors who know their own figures: those who are alone in a cell by equations, and everybody by linear programs.


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


def alone_in(contributions: Contributions) -> Whole:
    """Return the contributor whose value each leaf is, -1 for other leaves; shape (leaves,).

    A single record with a survey weight above 1 represents others too, whose values nobody knows.
    """
    own, grossed = contributions.own, contributions.grossed
    single = np.flatnonzero(np.diff(own.indptr) == 1)
    at = own.indptr[single]
    whole = own.data[at] == grossed.data[grossed.indptr[single]]
    found = np.full(own.shape[0], -1, np.int64)
    found[single[whole]] = own.indices[at[whole]]
    return found


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
    holders = by_cell(table.cells, _unknown_parts(contributions, known.known_leaves))
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
    return _with_values(found, table)


def _unknown_parts(contributions: Contributions, known_leaves: Flags) -> sparse.csr_array:
    """Return the absolute nonzero contributions to leaves that are not known to everybody: what could be found out."""
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


def _with_values(found: list[Insider], table: Table) -> list[Insider]:
    return [replace(f, low=float(table.value[f.cell]), high=float(table.value[f.cell])) for f in found]


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
