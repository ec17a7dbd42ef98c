"""Controlled adjustment as a mixed linear program: quantities that add up, pushed away from unsafe values, by HiGHS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.cells import Cells
from sfumato.tables.equations import Equations
from sfumato.tables.rounding.two_values import Choice

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a controlled adjustment must keep, for every quantity of the equations; all of shape (quantities,).

    Values are in units of the last digit published where there is one (`whole`), so that they are whole numbers then.
    """

    equations: Equations
    value: Numbers
    """The true value; of a leaf that no cell shows, too."""
    cost: Numbers
    """What it costs to change it by one; 0 where no cell shows it."""
    low: Numbers
    high: Numbers
    unsafe: Whole
    """The unsafe quantities, shape (unsafe,)."""
    up: Numbers
    """Their smallest safe value above the true one, shape (unsafe,); infinite where that way is closed."""
    down: Numbers
    """Their largest safe value below it; minus infinity where that way is closed."""
    whole: bool
    missing: Numbers | None = None
    """What the sums of the equations must be, shape (equations,); 0 if not given."""
    scale: float = 1.0
    """How much of a quantity one is."""

    @property
    def leaves(self) -> Whole:
        """The quantities that all others are sums of."""
        return self.equations.of_leaf


@dataclass(frozen=True, eq=False)
class Adjusted:
    """Quantities that satisfy everything, which unsafe ones went up, the cost, and whether there is no cheaper answer."""

    values: Numbers
    up: Flags
    cost: float
    best: bool


def adjust(
    wanted: Wanted, up: Flags | None, *, whole: bool = False, squared: bool = False, seconds: float = 60
) -> Adjusted | None:
    """Return the cheapest quantities; None if there are none, or none were found in time.

    `up` fixes the direction of each unsafe quantity; None leaves the choice to the program. `whole` asks for whole numbers.
    With `squared` the cost is Σ cost · change², for fixed directions and not in whole numbers.
    """
    w, back = _in_changes(wanted, whole)
    model = _Model(w, up, whole)
    shown = np.flatnonzero(w.cost > 0)
    if squared:
        model.costs[0] = -2 * w.cost * w.value
    else:
        nothing, anything, one = np.zeros(len(shown)), np.full(len(shown), np.inf), sparse.eye_array(len(shown))
        more = model.columns(nothing, anything, w.cost[shown])
        less = model.columns(nothing, anything, w.cost[shown])
        model.rows({0: _at(shown, len(w.value)), more: -one, less: one}, w.value[shown], w.value[shown])
    answer = model.solve(seconds, 2 * w.cost if squared else None)
    if answer is None:
        return None
    x, best = answer
    z = back(np.rint(x[: len(w.value)]) if whole else x[: len(w.value)])
    change = np.abs(z - wanted.value)
    cost = float((wanted.cost * (change**2 if squared else change)).sum())
    return Adjusted(z, model.directions(x), cost, best)


def directions(cells: Cells, wanted: Wanted, uniforms: Numbers) -> Flags:
    """Return which unsafe quantities go up: so that what they add to the cells around them nearly cancels."""
    e = wanted.equations
    shown = e.cell[e.cell >= 0]
    rows = sparse.csr_array(cells.incidence[shown])
    inside = sparse.csr_array(rows[wanted.unsafe])
    common = sparse.coo_array(rows @ inside.T)
    cell, unsafe = common.coords
    within = common.data == np.diff(inside.indptr)[unsafe]
    sums: Any = sparse.csr_array(
        (np.ones(int(within.sum())), (cell[within], unsafe[within])), shape=(len(shown), len(wanted.unsafe))
    )
    true = wanted.value[wanted.unsafe]
    can_go_up, can_go_down = np.isfinite(wanted.up), np.isfinite(wanted.down)
    free = np.flatnonzero(can_go_up & can_go_down)
    forced = np.where(can_go_up, wanted.up - true, wanted.down - true)
    forced[free] = 0.0
    choice = Choice(
        sparse.csr_array(sums[:, free]), wanted.down[free] - true[free], wanted.up[free] - true[free], uniforms[free]
    )
    choice.error += sums @ forced
    choice.improve(wanted.cost[: len(shown)])
    up: Flags = can_go_up.copy()
    up[free] = choice.up
    return up


def least_change(
    wanted: Wanted, up: Flags | None, elastic: Flags, share: Numbers, seconds: float
) -> tuple[float, Numbers] | None:
    """Return by how many `share`s the elastic quantities must be allowed to change, and quantities that do it; None if none.

    It is the smallest t for which some table has every elastic quantity within t · share of its value.
    """
    w, back = _in_changes(wanted, False)
    model, share = _Model(w, up, False), share / w.scale
    at = np.flatnonzero(elastic)
    t = model.columns(np.zeros(1), np.full(1, np.inf), np.ones(1))
    pick, column, none = _at(at, len(wanted.value)), sparse.csr_array(share[at][:, None]), np.full(len(at), np.inf)
    model.rows({0: pick, t: -column}, -none, w.value[at])
    model.rows({0: pick, t: column}, w.value[at], none)
    answer = model.solve(seconds, None)
    return None if answer is None else (float(answer[0][t]), back(answer[0][: len(w.value)]))


def _in_changes(wanted: Wanted, whole: bool) -> tuple[Wanted, Callable[[Numbers], Numbers]]:
    """Return the same in changes of about a thousand at most, with costs of about 1, and what makes quantities of them.

    The solver's tolerances are absolute: values of 10¹⁰ would leave it no digits, and those of 10⁻⁶ would be nothing to it.
    Whole changes are from the nearest whole number and keep their unit.
    """
    w = wanted
    start = np.rint(w.value) if w.whole else w.value
    widest = float(np.max(np.maximum(w.high - w.value, w.value - w.low), initial=0.0))
    scale = 1.0 if whole or not widest else widest / 1e3
    missing = -(w.equations.sums @ start) / scale if w.whole else w.missing
    cost = w.cost / np.exp(np.log(w.cost[w.cost > 0]).mean()) if (w.cost > 0).any() else w.cost
    changes = Wanted(
        w.equations, (w.value - start) / scale, cost, (w.low - start) / scale, (w.high - start) / scale, w.unsafe,
        (w.up - start[w.unsafe]) / scale, (w.down - start[w.unsafe]) / scale, w.whole, missing, scale,
    )  # fmt: skip
    return changes, lambda x: start + scale * x


def _at(places: Whole, count: int) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(places)), (np.arange(len(places)), places)), shape=(len(places), count))


class _Model:
    """Columns and rows as they are added; the first columns are the quantities, the next the directions if they are free."""

    def __init__(self, wanted: Wanted, up: Flags | None, whole: bool) -> None:
        w = wanted
        self._up, self._count, self._height = up, 0, 0
        self._entries: list[tuple[NDArray[Any], NDArray[Any], Numbers]] = []
        self.costs: list[Numbers] = []
        self._bounds: list[tuple[Numbers, Numbers]] = []
        self._row_bounds: list[tuple[Numbers, Numbers]] = []
        self._integer: list[Flags] = []
        low, high = w.low.copy(), w.high.copy()
        if up is not None:
            low[w.unsafe[up]] = np.maximum(low[w.unsafe[up]], w.up[up])
            high[w.unsafe[~up]] = np.minimum(high[w.unsafe[~up]], w.down[~up])
        self.columns(low, high, np.zeros(len(low)), np.isin(np.arange(len(low)), w.leaves) & whole)
        missing = np.zeros(w.equations.sums.shape[0]) if w.missing is None else w.missing
        self.rows({0: w.equations.sums}, missing, missing)
        if up is not None:
            return
        # z ≥ up·s + low·(1 − s) and z ≤ down·(1 − s) + high·s, with s = 1 for up
        can_go_up, can_go_down = np.isfinite(w.up), np.isfinite(w.down)
        least, most, pick = w.low[w.unsafe], w.high[w.unsafe], _at(w.unsafe, len(w.value))
        ups, downs = np.where(can_go_up, w.up, most), np.where(can_go_down, w.down, least)
        s = self.columns((~can_go_down).astype(float), can_go_up.astype(float), 0 * least, np.ones(len(least), bool))
        none = np.full(len(least), np.inf)
        self.rows({0: pick, s: sparse.diags_array(least - ups)}, least, none)
        self.rows({0: pick, s: sparse.diags_array(downs - most)}, -none, downs)

    def columns(self, low: Numbers, high: Numbers, cost: Numbers, integer: Flags | None = None) -> int:
        """Add columns, and return the place of the first."""
        first = self._count
        self._count += len(low)
        self.costs.append(cost)
        self._bounds.append((low, high))
        self._integer.append(np.zeros(len(low), bool) if integer is None else integer)
        return first

    def rows(self, parts: dict[int, Any], low: Numbers, high: Numbers) -> None:
        """Add rows: each part is a matrix over the columns from some place on."""
        for first, part in parts.items():
            entries = sparse.coo_array(part)
            row, column = entries.coords
            self._entries.append((row + self._height, column + first, entries.data))
        self._height += len(low)
        self._row_bounds.append((low, high))

    def directions(self, x: Numbers) -> Flags:
        """Return which unsafe quantities went up."""
        if self._up is not None:
            return self._up
        first = len(self.costs[0])
        return np.asarray(x[first : first + len(self.costs[1])] > 0.5)

    def solve(self, seconds: float, hessian: Numbers | None) -> tuple[Numbers, bool] | None:
        """Return the cheapest columns, and whether they are proved to be; None if there are none, or none were found."""
        import highspy

        low, high = (np.concatenate(b) for b in zip(*self._bounds, strict=True))
        if (low > high).any():
            return None
        matrix = sparse.csr_array(sparse.coo_array(
            (np.concatenate([e[2] for e in self._entries]),
             (np.concatenate([e[0] for e in self._entries]), np.concatenate([e[1] for e in self._entries]))),
            shape=(self._height, self._count),
        ))  # fmt: skip
        integer = np.concatenate(self._integer)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        for option, value in {
            "threads": 1, "random_seed": 0, "time_limit": seconds, "mip_rel_gap": 1e-6, "mip_abs_gap": 1e-9,
            "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "mip_feasibility_tolerance": 1e-9,
        }.items():  # fmt: skip
            solver.setOptionValue(option, value)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self._count, self._height
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.concatenate(self.costs), low, high
        lp.row_lower_, lp.row_upper_ = (np.concatenate(b) for b in zip(*self._row_bounds, strict=True))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
        lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
        lp.a_matrix_.value_ = matrix.data.astype(np.float64)
        if integer.any():
            kinds = highspy.HighsVarType
            lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in integer]
        solver.passModel(lp)
        if hessian is not None:
            quadratic = highspy.HighsHessian()
            quadratic.dim_ = self._count
            quadratic.format_ = highspy.HessianFormat.kTriangular
            quadratic.start_ = np.arange(self._count + 1, dtype=np.int32)
            quadratic.index_ = np.arange(self._count, dtype=np.int32)
            quadratic.value_ = hessian
            solver.passHessian(quadratic)
        solver.run()
        status = solver.getModelStatus()
        best = status == highspy.HighsModelStatus.kOptimal
        stopped = status in (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kSolutionLimit)
        if best or (stopped and solver.getInfo().primal_solution_status == 2):  # 2: feasible
            return np.array(solver.getSolution().col_value), best
        return None
