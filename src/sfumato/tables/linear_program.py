"""The attacker's arithmetic: the equations of a table, elimination by simple arithmetic, and linear programs over the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sfumato import kernels
from sfumato.errors import SfumatoError
from sfumato.lazy import csgraph, highspy
from sfumato.tables.cells import Cells, set_codes
from sfumato.typing import Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Equations:
    """Quantities, one for each cell and one for each leaf that is no cell, and the sums between them.

    Cells made of the same leaves are one quantity. `sums @ quantities = 0` holds exactly if the cells are sums of leaves; it
    has far fewer entries than the incidence matrix, since a total is the sum of subtotals.
    """

    of_cell: Whole
    """The quantity of each cell, shape (cells,)."""
    of_leaf: Whole
    """The quantity of each leaf, shape (leaves,)."""
    cell: Whole
    """A cell that equals each quantity; -1 if there is none. Shape (quantities,)."""
    sums: sparse.csr_array
    """Shape (equations, quantities): 1 for a cell, -1 for its parts."""

    @classmethod
    def of(cls, cells: Cells) -> Equations:
        """Return the equations of cells, linked tables included."""
        rows = sparse.csr_array(cells.incidence)
        rows.sort_indices()
        known: dict[bytes, int] = {}
        sets = (rows.indices[a:b].tobytes() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
        of_cell = np.array([known.setdefault(s, len(known)) for s in sets], np.int64)
        _, shown = np.unique(of_cell, return_index=True)
        rows = sparse.csr_array(rows[shown])
        size = np.diff(rows.indptr)
        common = sparse.coo_array(rows @ rows.T)
        whole, part = common.coords
        within = (common.data == size[part]) & (size[part] < size[whole])
        whole, part = whole[within], part[within]
        order = np.lexsort((part, -size[part], whole))  # the largest parts first make the shortest sums
        whole, part = whole[order], part[order].astype(np.int64)
        starts, found = kernels.table_algebra.partitions(
            rows.indptr.astype(np.int64), rows.indices.astype(np.int64),
            np.searchsorted(whole, np.arange(len(size) + 1)).astype(np.int64), part, cells.leaves,
        )  # fmt: skip
        alone = np.flatnonzero(size == 1)
        of_leaf = np.full(cells.leaves, -1, np.int64)
        of_leaf[rows.indices[rows.indptr[alone]]] = alone
        hidden = np.flatnonzero(of_leaf < 0)
        of_leaf[hidden] = len(size) + np.arange(len(hidden))
        parts = np.where(found >= 0, found, of_leaf[np.maximum(-1 - found, 0)])
        sums = np.flatnonzero(np.diff(starts))
        equation = np.repeat(np.arange(len(sums)), np.diff(starts)[sums])
        matrix = sparse.csr_array(
            (
                np.concatenate([np.ones(len(sums)), -np.ones(len(parts))]),
                (np.concatenate([np.arange(len(sums)), equation]), np.concatenate([sums, parts])),
            ),
            shape=(len(sums), len(size) + len(hidden)),
        )
        return cls(of_cell, of_leaf, np.concatenate([shown, np.full(len(hidden), -1, np.int64)]), matrix)


ROUNDING = 1e-11
"""Tolerance of sums, relative to the terms: published tables were added up in floating point."""


class Contradiction(Exception):  # noqa: N818
    """No leaves satisfy the bounds; `row` is a row that proves it."""

    def __init__(self, row: int) -> None:
        super().__init__("the bounds contradict each other")
        self.row = row


@dataclass(frozen=True, eq=False)
class Reduced:
    """Leaves between bounds, and sums of leaves between bounds, without redundant rows.

    `low` and `high` are those of all leaves, and equal where a leaf is known. `rows` (rows × leaves) has entries for unknown
    leaves alone; `row_low` and `row_high` are the remaining bounds for them. Unknown leaves that share no row, not even through
    others, have different `part`s and can be solved separately; a leaf that is known, or in no row, has part -1.
    """

    low: Numbers
    high: Numbers
    rows: sparse.csr_array
    row_low: Numbers
    row_high: Numbers
    part: Whole
    """Shape (leaves,)."""
    row_part: Whole
    """Shape (rows,)."""


def reduce_rows(rows: sparse.csr_array, row_low: Numbers, row_high: Numbers, low: Numbers, high: Numbers) -> Reduced:
    """Return the equations that are left without known leaves; raise Contradiction where no solution exists.

    A row with one unknown leaf bounds that leaf. A row that holds only with all its leaves at their bounds fixes them. A row
    that its leaves' bounds imply is dropped. Of two rows with the same unknown leaves the narrower bounds count.
    """
    low, high = low.astype(np.float64).copy(), high.astype(np.float64).copy()
    known = _settle(low, high, np.arange(len(low)))
    rows, name = sparse.csr_array(rows, copy=True), np.arange(rows.shape[0])
    left, right = row_low.astype(np.float64).copy(), row_high.astype(np.float64).copy()
    noise = ROUNDING * np.maximum(*(np.where(np.isfinite(b), np.abs(b), 0.0) for b in (left, right)))
    while True:
        rows, taken, size = _without(rows, known, np.where(known, low, 0.0))
        left, right, noise = left - taken, right - taken, noise + ROUNDING * size
        smallest, largest = rows @ low, rows @ high  # an infinite bound makes an infinite sum
        if (bad := np.flatnonzero((right < smallest - noise) | (left > largest + noise) | (left > right + noise))).size:
            raise Contradiction(int(name[bad[0]]))
        says = (left > smallest + noise) | (right < largest - noise)
        rows, name = rows[says], name[says]
        left, right, noise, smallest, largest = left[says], right[says], noise[says], smallest[says], largest[says]
        fixed = known.copy()
        for at_bound, bound in ((right <= smallest + noise, low), (left >= largest - noise, high)):
            members = np.unique(rows[at_bound].indices)
            low[members] = high[members] = bound[members]
            known[members] = True
        single = np.flatnonzero(np.diff(rows.indptr) == 1)
        at = rows.indices[rows.indptr[single]].astype(np.int64)
        np.maximum.at(low, at, left[single])
        np.minimum.at(high, at, right[single])
        if (bad := np.flatnonzero(low[at] > high[at] + noise[single])).size:
            raise Contradiction(int(name[single[bad[0]]]))
        known |= _settle(low, high, at, noise[single])
        rest = np.diff(rows.indptr) > 1
        rows, name, left, right, noise = rows[rest], name[rest], left[rest], right[rest], noise[rest]
        if not (known & ~fixed).any():
            break
    rows, left, right = _merged(rows, left, right, noise, name)
    part, row_part = _parts(rows)
    return Reduced(low, high, rows, left, right, part, row_part)


def _settle(low: Numbers, high: Numbers, at: Whole, noise: Numbers | float = 0.0) -> Flags:
    """Make bounds that differ by rounding alone equal; return which of all leaves are known now."""
    noise = np.maximum(noise, ROUNDING * np.where(np.isfinite(low[at]), np.abs(low[at]), 0.0))
    if (low[at] > high[at] + noise).any():
        raise Contradiction(-1)
    close = at[high[at] - low[at] <= noise]
    middle = np.where(low[close] == high[close], low[close], (low[close] + high[close]) / 2)
    low[close] = high[close] = middle
    known = np.zeros(len(low), bool)
    known[close] = True
    return known


def _without(rows: sparse.csr_array, known: Flags, value: Numbers) -> tuple[sparse.csr_array, Numbers, Numbers]:
    """Return the rows without the known leaves, the sum of these in each row, and the size of its terms."""
    gone = known[rows.indices]
    if not gone.any():
        nothing = np.zeros(rows.shape[0])
        return rows, nothing, nothing
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    amount = np.where(gone, value[rows.indices] * rows.data, 0.0)
    taken, size = (np.bincount(row, a, rows.shape[0]).astype(np.float64) for a in (amount, np.abs(amount)))
    kept = ~gone
    shape = rows.shape
    start = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=shape[0]))])
    return sparse.csr_array((rows.data[kept], rows.indices[kept], start), shape=shape), taken, size


def _merged(
    rows: sparse.csr_array, left: Numbers, right: Numbers, noise: Numbers, name: Whole
) -> tuple[sparse.csr_array, Numbers, Numbers]:
    """Join rows with the same entries (all 0 or 1)."""
    if not rows.shape[0]:
        return rows, left, right
    _, first, group = np.unique(set_codes(rows), axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    np.maximum.at(low, group, left)
    np.minimum.at(high, group, right)
    if (bad := np.flatnonzero(low[group] > high[group] + 2 * noise)).size:
        raise Contradiction(int(name[bad[0]]))
    order = np.argsort(first)
    low, high = low[order], high[order]
    crossed = low > high  # by rounding alone
    low[crossed] = high[crossed] = (low[crossed] + high[crossed]) / 2
    return rows[first[order]], low, high


def _parts(rows: sparse.csr_array) -> tuple[Whole, Whole]:
    """Return the part of each leaf and row, numbered from 0; -1 for a leaf that is in no row."""
    count, leaves = rows.shape
    if not count:
        return np.full(leaves, -1, np.int64), np.zeros(0, np.int64)
    row, leaf = np.repeat(np.arange(count), np.diff(rows.indptr)), rows.indices + count
    graph = sparse.csr_array((np.ones(len(leaf)), (row, leaf)), shape=(count + leaves, count + leaves))
    _, label = csgraph.connected_components(graph, directed=False)
    used, row_part = np.unique(label[:count], return_inverse=True)
    part = np.searchsorted(used, label[count:])
    part = np.where((part < len(used)) & (used[np.minimum(part, len(used) - 1)] == label[count:]), part, -1)
    return part.astype(np.int64), row_part.ravel().astype(np.int64)


_ATTEMPTS: tuple[dict[str, str | int], ...] = (
    {"presolve": "off", "simplex_strategy": 4},
    {"presolve": "off", "simplex_strategy": 1},
    {"presolve": "on", "simplex_strategy": 1},
)
"""The primal simplex method from the last vertex; where rounding stops it, the dual method from the beginning."""


def make_solver(options: Mapping[str, str | int | float]) -> Any:
    """Return a solver that prints nothing, with these options."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    for option, value in options.items():
        solver.setOptionValue(option, value)
    return solver


def make_program(
    costs: Numbers, bounds: tuple[Numbers, Numbers], rows: sparse.csr_array, limits: tuple[Numbers, Numbers],
    integer: Flags | None = None,
) -> Any:  # fmt: skip
    """Return a program: Σ costs·x is smallest, x within bounds, rows @ x within limits; some x are whole."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), rows.shape[0]
    lp.col_cost_ = costs
    lp.col_lower_, lp.col_upper_ = bounds
    lp.row_lower_, lp.row_upper_ = limits
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
    lp.a_matrix_.value_ = rows.data.astype(np.float64)
    if integer is not None and integer.any():
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in integer]
    return lp


class Infeasible(Exception):  # noqa: N818
    """Nothing satisfies the bounds."""


class LinearProgram:
    """Values x between bounds whose sums `rows @ x` are between bounds; minimise or maximise objectives over them.

    The model is built once. Each solution is a vertex from which the next objective starts, by the primal simplex method, since
    a changed objective leaves it feasible.
    """

    def __init__(
        self,
        rows: sparse.csr_array,
        row_low: Numbers,
        row_high: Numbers,
        low: Numbers,
        high: Numbers,
    ) -> None:
        self.columns = int(rows.shape[1])
        finite = np.concatenate([np.abs(b[np.isfinite(b)]) for b in (row_low, row_high, low, high)])
        self.largest_bound = float(finite.max(initial=0.0))
        # the solver's tolerances are absolute: values of about a thousand leave a dozen digits
        self.scale = self.largest_bound / 1e3 if self.largest_bound > 0 else 1.0
        self._bounds = tuple(b / self.scale for b in (row_low, row_high, low, high))
        self._rows = rows
        self._costs = np.zeros(self.columns)
        self._solver: Any = self._model()
        if (point := self._solve()) is None:
            raise Infeasible
        self.point = point
        """A solution: some x that satisfies everything."""

    def _model(self) -> Any:
        row_low, row_high, low, high = self._bounds
        solver = make_solver({
            "solver": "simplex", "threads": 1, "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-9, "random_seed": 0, **_ATTEMPTS[0],
        })  # fmt: skip
        solver.passModel(make_program(np.zeros(self.columns), (low, high), self._rows, (row_low, row_high)))
        return solver

    def _solve(self) -> Numbers | None:
        """Return a solution, or None if there is no finite one."""
        status = highspy.HighsModelStatus
        x: Numbers | None = None
        for options in _ATTEMPTS:
            for option, value in options.items():
                self._solver.setOptionValue(option, value)
            if options is not _ATTEMPTS[0]:
                self._solver.clearSolver()
            self._solver.run()
            found = self._solver.getModelStatus()
            if found == status.kOptimal:
                x = np.array(self._solver.getSolution().col_value) * self.scale
                break
            if found in (status.kInfeasible, status.kUnbounded, status.kUnboundedOrInfeasible):
                self._solver.clearSolver()
                break
        else:
            raise SfumatoError(f"a linear program could not be solved ({self._solver.modelStatusToString(found)}).")
        for option, value in _ATTEMPTS[0].items():
            self._solver.setOptionValue(option, value)
        return x

    def largest(self, at: Whole, costs: Numbers) -> tuple[float, Numbers | None]:
        """Return the largest Σ costs·x over the columns `at`, and an x that attains it; infinity and None if there is none."""
        change = np.union1d(np.flatnonzero(self._costs), at).astype(np.int32)
        self._costs[:] = 0.0
        self._costs[at] = -costs
        self._solver.changeColsCost(len(change), change, self._costs[change])
        x = self._solve()
        return (np.inf, None) if x is None else (float(costs @ x[at]), x)

    def smallest(self, at: Whole, costs: Numbers) -> tuple[float, Numbers | None]:
        """Return the smallest Σ costs·x over the columns `at`, and an x that attains it; -infinity and None if there is none."""
        value, x = self.largest(at, -costs)
        return -value, x
