"""Controlled adjustment as a mixed linear program: quantities that add up, pushed away from unsafe values, by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.equations import Equations

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
    w, count, unsafe = wanted, len(wanted.value), len(wanted.unsafe)
    low, high = w.low.copy(), w.high.copy()
    blocks: list[list[Any]] = [[w.equations.sums]]
    row_low = [np.zeros(w.equations.sums.shape[0])]
    row_high = [np.zeros(w.equations.sums.shape[0])]
    costs, columns_low, columns_high = [np.zeros(count)], [low], [high]
    shown = np.flatnonzero(w.cost > 0)
    pick = _rows(shown, count)
    if up is not None:
        _narrow(w, up, low, high)
        if (low > high).any():
            return None
    if not squared:
        one = sparse.eye_array(len(shown), format="csr")
        blocks = [[blocks[0][0], None, None], [pick, -one, one]]
        row_low.append(w.value[shown])
        row_high.append(w.value[shown])
        costs += [w.cost[shown], w.cost[shown]]
        columns_low += [np.zeros(len(shown))] * 2
        columns_high += [np.full(len(shown), np.inf)] * 2
    if up is None:
        # z ≥ up·s + low·(1 − s) and z ≤ down·(1 − s) + high·s, with s = 1 for up
        free = np.isfinite(w.up) & np.isfinite(w.down)
        ups, downs = (
            np.where(np.isfinite(w.up), w.up, w.high[w.unsafe]),
            np.where(np.isfinite(w.down), w.down, w.low[w.unsafe]),
        )
        least, most = w.low[w.unsafe], w.high[w.unsafe]
        at = _rows(w.unsafe, count)
        empty = [None] * (len(blocks[0]) - 1)
        blocks = [[*b, None] for b in blocks]
        blocks.append([at, *empty, sparse.diags_array(-(ups - least), format="csr")])
        blocks.append([at, *empty, sparse.diags_array(-(most - downs), format="csr")])
        row_low += [least, np.full(unsafe, -np.inf)]
        row_high += [np.full(unsafe, np.inf), downs]
        costs.append(np.zeros(unsafe))
        columns_low.append(np.where(free, 0.0, (~np.isfinite(w.down)).astype(np.float64)))
        columns_high.append(np.where(free, 1.0, np.isfinite(w.up).astype(np.float64)))
    matrix = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    width = matrix.shape[1]
    integer = np.zeros(width, bool)
    integer[w.leaves] = whole
    integer[width - unsafe :] |= up is None
    cost = np.concatenate(costs)
    if squared:
        cost[:count] = -2 * w.cost * w.value
    answer = _run(
        matrix, cost, np.concatenate(columns_low), np.concatenate(columns_high), np.concatenate(row_low),
        np.concatenate(row_high), integer, 2 * w.cost if squared else None, seconds,
    )  # fmt: skip
    if answer is None:
        return None
    x, best = answer
    z = x[:count]
    if whole:
        z = np.rint(z)
    change = np.abs(z - w.value)
    total = float((w.cost * (change**2 if squared else change)).sum())
    return Adjusted(z, x[width - unsafe :] > 0.5 if up is None else up, total, best)


def least_change(
    wanted: Wanted, up: Flags | None, elastic: Flags, share: Numbers, seconds: float
) -> tuple[float, Numbers] | None:
    """Return by how many `share`s the elastic quantities must be allowed to change, and quantities that do it; None if none.

    It is the smallest t for which some table has every elastic quantity within t · share of its value.
    """
    w, count, unsafe = wanted, len(wanted.value), len(wanted.unsafe)
    low, high = w.low.copy(), w.high.copy()
    if up is not None:
        _narrow(w, up, low, high)
        if (low > high).any():
            return None
    at = np.flatnonzero(elastic)
    pick, column = _rows(at, count), sparse.csr_array(share[at][:, None])
    blocks: list[list[Any]] = [[w.equations.sums, None], [pick, -column], [pick, column]]
    equations = np.zeros(w.equations.sums.shape[0])
    row_low = [equations, np.full(len(at), -np.inf), w.value[at]]
    row_high = [equations, w.value[at], np.full(len(at), np.inf)]
    lows, highs = [low, np.zeros(1)], [high, np.full(1, np.inf)]
    if up is None:
        ups, downs = (
            np.where(np.isfinite(w.up), w.up, w.high[w.unsafe]),
            np.where(np.isfinite(w.down), w.down, w.low[w.unsafe]),
        )
        least, most, rows = w.low[w.unsafe], w.high[w.unsafe], _rows(w.unsafe, count)
        blocks = [[*b, None] for b in blocks]
        blocks.append([rows, None, sparse.diags_array(-(ups - least), format="csr")])
        blocks.append([rows, None, sparse.diags_array(-(most - downs), format="csr")])
        row_low += [least, np.full(unsafe, -np.inf)]
        row_high += [np.full(unsafe, np.inf), downs]
        lows.append((~np.isfinite(w.down)).astype(np.float64))
        highs.append(np.isfinite(w.up).astype(np.float64))
    matrix = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    cost = np.zeros(matrix.shape[1])
    cost[count] = 1.0
    integer = np.zeros(matrix.shape[1], bool)
    integer[count + 1 :] = True
    bounds = [np.concatenate(b) for b in (lows, highs, row_low, row_high)]
    answer = _run(matrix, cost, *bounds, integer, None, seconds)
    return None if answer is None else (float(answer[0][count]), answer[0][:count])


def _narrow(w: Wanted, up: Flags, low: Numbers, high: Numbers) -> None:
    low[w.unsafe[up]] = np.maximum(low[w.unsafe[up]], w.up[up])
    high[w.unsafe[~up]] = np.minimum(high[w.unsafe[~up]], w.down[~up])


def _rows(at: Whole, count: int) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(at)), (np.arange(len(at)), at)), shape=(len(at), count))


def _run(
    matrix: sparse.csr_array, cost: Numbers, low: Numbers, high: Numbers, row_low: Numbers, row_high: Numbers,
    integer: Flags, hessian: Numbers | None, seconds: float,
) -> tuple[Numbers, bool] | None:  # fmt: skip
    """Return the cheapest columns, and whether they are proved to be; None if there are none, or none were found in time."""
    import highspy

    solver = highspy.Highs()
    solver.silent()
    for option, value in {
        "threads": 1, "random_seed": 0, "time_limit": seconds, "mip_rel_gap": 1e-6, "mip_abs_gap": 1e-9,
        "primal_feasibility_tolerance": 1e-9, "mip_feasibility_tolerance": 1e-9,
    }.items():  # fmt: skip
        solver.setOptionValue(option, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = matrix.shape[1], matrix.shape[0]
    lp.col_cost_, lp.col_lower_, lp.col_upper_, lp.row_lower_, lp.row_upper_ = cost, low, high, row_low, row_high
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
        quadratic.dim_ = len(hessian)
        quadratic.format_ = highspy.HessianFormat.kTriangular
        quadratic.start_ = np.arange(len(hessian) + 1, dtype=np.int32)
        quadratic.index_ = np.arange(len(hessian), dtype=np.int32)
        quadratic.value_ = hessian
        solver.passHessian(quadratic)
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    if status == highspy.HighsModelStatus.kOptimal:
        return np.array(solver.getSolution().col_value), True
    if status == highspy.HighsModelStatus.kTimeLimit and info.primal_solution_status == 2:  # feasible, not proved best
        return np.array(solver.getSolution().col_value), False
    return None
