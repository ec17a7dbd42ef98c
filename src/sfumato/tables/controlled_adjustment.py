"""Controlled tabular adjustment: unsafe cells move to a safe value, the others as little as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, ParameterError, SfumatoError, join_names, plural
from sfumato.lazy import highspy
from sfumato.tables.cells import Cells, Status
from sfumato.tables.linear_program import Equations, make_program, make_solver
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rounding import TwoValueChoice, cell_ids
from sfumato.tables.rules import rules_of
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.table import Table, significant, table_in_order
from sfumato.typing import Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class AdjustmentLimits:
    """Constraints of a controlled adjustment for every quantity of the equations; all of shape (quantities,).

    Values are in units of the last published digit if there is one (`whole`), so that they are whole numbers.
    """

    equations: Equations
    value: Numbers
    """The true value, also of a leaf that is no cell."""
    cost: Numbers
    """Cost of a change by one; 0 for a quantity that is no cell."""
    low: Numbers
    high: Numbers
    unsafe: Whole
    """The unsafe quantities, shape (unsafe,)."""
    up: Numbers
    """Their smallest safe value above the true one, shape (unsafe,); infinite where that direction is not possible."""
    down: Numbers
    """Their largest safe value below it; minus infinity where that direction is not possible."""
    whole: bool
    missing: Numbers | None = None
    """Required sums of the equations, shape (equations,); 0 if not given."""
    scale: float = 1.0
    """The amount of one unit here in the quantity."""

    @property
    def leaves(self) -> Whole:
        """The quantities that all others are sums of."""
        return self.equations.of_leaf


@dataclass(frozen=True, eq=False)
class AdjustedQuantities:
    """Quantities that satisfy all constraints, which unsafe ones went up, the cost, and whether it is proved smallest."""

    values: Numbers
    up: Flags
    cost: float
    best: bool


def adjust(
    wanted: AdjustmentLimits, up: Flags | None, *, whole: bool = False, squared: bool = False, seconds: float = 60
) -> AdjustedQuantities | None:
    """Return the cheapest quantities; None if there are none, or none were found in time.

    `up` fixes the direction of each unsafe quantity; None leaves the choice to the program. `whole` requires whole numbers.
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
    return AdjustedQuantities(z, model.directions(x), cost, best)


def directions(cells: Cells, wanted: AdjustmentLimits, uniforms: Numbers) -> Flags:
    """Choose which unsafe quantities go up, so that their changes nearly cancel in the cells around them."""
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
    choice = TwoValueChoice(
        sparse.csr_array(sums[:, free]), wanted.down[free] - true[free], wanted.up[free] - true[free], uniforms[free]
    )
    choice.error += sums @ forced
    choice.improve(wanted.cost[: len(shown)])
    up: Flags = can_go_up.copy()
    up[free] = choice.up
    return up


def least_change(
    wanted: AdjustmentLimits, up: Flags | None, elastic: Flags, share: Numbers, seconds: float
) -> tuple[float, Numbers] | None:
    """Return how many `share`s the elastic quantities must be allowed to change, and quantities that achieve it; None if none.

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


def _in_changes(wanted: AdjustmentLimits, whole: bool) -> tuple[AdjustmentLimits, Callable[[Numbers], Numbers]]:
    """Rescale the problem to changes of at most about a thousand and costs of about 1; return it and the inverse map.

    The solver's tolerances are absolute: values of 10¹⁰ would leave it no digits, and values of 10⁻⁶ would count as 0. Whole
    changes are from the nearest whole number and keep their unit.
    """
    w = wanted
    start = np.rint(w.value) if w.whole else w.value
    widest = float(np.max(np.maximum(w.high - w.value, w.value - w.low), initial=0.0))
    scale = 1.0 if whole or not widest else widest / 1e3
    missing = -(w.equations.sums @ start) / scale if w.whole else w.missing
    cost = w.cost / np.exp(np.log(w.cost[w.cost > 0]).mean()) if (w.cost > 0).any() else w.cost
    changes = AdjustmentLimits(
        w.equations, (w.value - start) / scale, cost, (w.low - start) / scale, (w.high - start) / scale, w.unsafe,
        (w.up - start[w.unsafe]) / scale, (w.down - start[w.unsafe]) / scale, w.whole, missing, scale,
    )  # fmt: skip
    return changes, lambda x: start + scale * x


def _at(places: Whole, count: int) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(places)), (np.arange(len(places)), places)), shape=(len(places), count))


class _Model:
    """Columns and rows as they are added; the first columns are the quantities, then the directions if they are free."""

    def __init__(self, wanted: AdjustmentLimits, up: Flags | None, whole: bool) -> None:
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
        """Add columns, and return the position of the first."""
        first = self._count
        self._count += len(low)
        self.costs.append(cost)
        self._bounds.append((low, high))
        self._integer.append(np.zeros(len(low), bool) if integer is None else integer)
        return first

    def rows(self, parts: dict[int, Any], low: Numbers, high: Numbers) -> None:
        """Add rows: each part is a matrix over the columns from some position on."""
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
        """Return the cheapest columns, and whether they are proved optimal; None if there are none, or none were found."""
        low, high = (np.concatenate(b) for b in zip(*self._bounds, strict=True))
        if (low > high).any():
            return None
        matrix = sparse.csr_array(sparse.coo_array(
            (np.concatenate([e[2] for e in self._entries]),
             (np.concatenate([e[0] for e in self._entries]), np.concatenate([e[1] for e in self._entries]))),
            shape=(self._height, self._count),
        ))  # fmt: skip
        integer = np.concatenate(self._integer)
        solver = make_solver({
            "threads": 1, "random_seed": 0, "time_limit": seconds, "mip_rel_gap": 1e-6, "mip_abs_gap": 1e-9,
            "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "mip_feasibility_tolerance": 1e-9,
        })  # fmt: skip
        row_low, row_high = (np.concatenate(b) for b in zip(*self._row_bounds, strict=True))
        solver.passModel(make_program(np.concatenate(self.costs), (low, high), matrix, (row_low, row_high), integer))
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


_MARGIN = 1e-6  # of a protection level: extra distance, so that the solver's rounding cannot undo it
_WHOLE = 500  # up to this many leaves, whole numbers and directions are chosen together


class ControlledAdjustment(Protection):
    """Every unsafe cell is replaced by a safe value, above or below, and the table is adjusted until it adds up again.

    An unsafe cell moves at least to its upper or its lower protection level. The other cells change as little as possible so
    that all sums hold: Σ cost · |change| is smallest, or Σ cost · change². For up to `exact` unsafe cells the directions are
    part of the optimum (a mixed-integer linear program). For more, the directions are chosen first, so that they cancel in the
    totals, and the changes are optimal for them.

    Dandekar and Cox, Synthetic tabular data (2002); Castro, Minimum-distance controlled perturbation methods, European
    Journal of Operational Research 171 (2006).
    """

    random: ClassVar[bool] = False

    rules: SensitivityRule = param(doc="rules that say which cells are unsafe, and how far they must move")
    cost: str = param(
        default="relative", choices=("relative", "equal"),
        doc="what a change costs: 'relative' to the cell's value, or 'equal' for all cells",
    )  # fmt: skip
    distance: str = param(
        default="absolute",
        choices=("absolute", "squared"),
        doc="whether 'absolute' or 'squared' changes are kept small",
    )
    max_change: float | None = param(
        default=None, doc="the largest change of a cell that is not unsafe, as a share of its value", low=0, scale="log"
    )
    fixed: tuple[Mapping[str, str], ...] = param(
        default=(),
        doc="cells that must not change, each by its labels: {'region': 'North'} is a total over all other dimensions",
    )
    zeros: str = param(
        default="keep", choices=("keep", "adjust"), doc="whether cells of 0 stay 0 ('keep') or may change ('adjust')"
    )
    exact: int = param(
        default=40, doc="up to how many unsafe cells the best directions are found for sure", low=0, integer=True
    )
    time_limit: float = param(
        default=60, doc="seconds after which the best adjustment found so far is taken", low=1, scale="log"
    )

    @override
    def validate(self) -> None:
        object.__setattr__(self, "rules", rules_of(self.rules))
        given = (self.fixed,) if isinstance(self.fixed, Mapping) else tuple(self.fixed)
        if not all(isinstance(f, Mapping) for f in given):
            raise ParameterError(f"fixed of {self.name} must be a list of cells, such as [{{'region': 'North'}}].")
        object.__setattr__(self, "fixed", given)

    @override
    def label(self) -> str:
        return f"controlled adjustment ({self.rules.label()})"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the adjusted table."""
        sensitivity = self.rules.assess(table)
        # among equally good tables, the same one whatever the order of the input
        canonical, order = table_in_order(table)
        wanted = self._wanted(canonical, _of(sensitivity, order))
        if not len(wanted.unsafe):
            return self._published(table, table.value, sensitivity, "no cell is unsafe, and none was changed")
        ids = cell_ids(canonical.cells)[wanted.equations.cell[wanted.unsafe]]
        uniforms = draws.child(self.name, table.variable).uniforms(ids, "order")
        found = self._found(canonical, _of(sensitivity, order), wanted, uniforms)
        unit, values = _unit(table), np.empty(len(table))
        values[order] = canonical.cells.sums(found.values[wanted.leaves] * (unit or 1.0))
        if unit is not None:
            values = np.round(values / unit) * unit if table.decimals is None else np.round(values, table.decimals)
        how = (
            "the least there is"
            if found.best
            else "the least found, for directions chosen beforehand or within the time"
        )
        return self._published(table, values, sensitivity, f"the total cost of all changes is {how}")

    def _wanted(self, table: Table, sensitivity: Sensitivity) -> AdjustmentLimits:
        e, unit = Equations.of(table.cells), _unit(table)
        scale = unit or 1.0
        count, shown = len(e.cell), e.cell >= 0
        value = np.empty(count)
        value[e.of_leaf] = table.totals / scale
        value[e.of_cell] = table.value / scale
        if unit is not None:
            value = np.where(
                np.abs(value - np.rint(value)) < 1e-9 * np.maximum(np.abs(value), 1), np.rint(value), value
            )
        size = np.abs(value)
        each = (
            np.ones(count) if self.cost == "equal" else 1.0 / np.where(size > 0, size, size[size > 0].min(initial=1.0))
        )
        cost = np.where(shown, each, 0.0)
        cost[: len(np.unique(e.of_cell))] *= np.bincount(e.of_cell)
        widest = np.maximum(np.maximum(sensitivity.upper, sensitivity.lower), sensitivity.width)
        room = 2.0 * float(widest.sum()) / scale + (
            0.0 if unit is None else 2.0
        )  # no cell needs to move further than all unsafe cells together
        low = np.maximum(value - room, 0.0) if table.nonnegative else value - room
        high = value + room
        at = e.of_cell[sensitivity.unsafe]
        is_unsafe = np.zeros(count, bool)
        is_unsafe[at] = True
        if self.max_change is not None:
            near = self.max_change * size
            tight = shown & ~is_unsafe
            low, high = (
                np.where(tight, np.maximum(low, value - near), low),
                np.where(tight, np.minimum(high, value + near), high),
            )
        kept = np.zeros(count, bool)
        kept[[e.of_cell[table.cells.find(dict(f))] for f in self.fixed]] = True
        if self.zeros == "keep" and table.nonnegative:
            kept |= (value == 0) & ~is_unsafe
        if unit is not None:  # a value with more digits than are published cannot stay exact
            low, high = np.ceil(low - 1e-9), np.floor(high + 1e-9)
            low, high = np.where(kept, np.rint(value), low), np.where(kept, np.rint(value), high)
        else:
            low, high = np.where(kept, value, low), np.where(kept, value, high)
        if bad := [int(c) for c in e.cell[kept & is_unsafe]]:
            raise ParameterError(
                f"{join_names(map(table.cells.name, bad), 5)}: an unsafe cell cannot be fixed, since adjustment moves it. Leave it "
                "out of the fixed cells."
            )
        ups, downs = np.zeros(count), np.zeros(count)
        np.maximum.at(ups, at, np.maximum(sensitivity.upper, sensitivity.width - sensitivity.lower)[sensitivity.unsafe])
        np.maximum.at(
            downs, at, np.maximum(sensitivity.lower, sensitivity.width - sensitivity.upper)[sensitivity.unsafe]
        )
        unsafe = np.flatnonzero(is_unsafe & (np.maximum(ups, downs) > 0))
        up, down = value + ups * (1 + _MARGIN) / scale, value - downs * (1 + _MARGIN) / scale
        if unit is not None:
            up = np.ceil(value + ups / scale - 1e-9 * np.maximum(size, 1))
            down = np.floor(value - downs / scale + 1e-9 * np.maximum(size, 1))
        reachable = (downs > 0) & (value - downs / scale >= low - 1e-9 * np.maximum(size, 1))  # often exactly to 0
        up, down = np.where(ups > 0, up, np.inf), np.where(reachable, np.maximum(down, low), -np.inf)
        return AdjustmentLimits(e, value, cost, low, high, unsafe, up[unsafe], down[unsafe], unit is not None)

    def _found(
        self, table: Table, sensitivity: Sensitivity, wanted: AdjustmentLimits, uniforms: Numbers
    ) -> AdjustedQuantities:
        clock = _Clock(self.time_limit)
        signs = directions(table.cells, wanted, uniforms)
        few = len(wanted.unsafe) <= self.exact
        small = wanted.whole and len(wanted.leaves) <= _WHOLE
        first = adjust(wanted, None if few else signs, whole=small, seconds=clock.left)
        if first is None and not few:
            first = adjust(wanted, None, whole=small, seconds=clock.left)  # the chosen directions allow no solution
        if first is None:
            raise self._infeasible(table, sensitivity, wanted, None if few else signs, clock)
        found = first if few else AdjustedQuantities(first.values, first.up, first.cost, False)
        if self.distance == "squared":
            squared = adjust(wanted, found.up, squared=True, seconds=clock.left)
            found = found if squared is None else AdjustedQuantities(squared.values, squared.up, squared.cost, False)
        if wanted.whole and (not small or self.distance == "squared"):
            found = self._in_whole_numbers(wanted, found, clock)
        return found

    def _in_whole_numbers(
        self, wanted: AdjustmentLimits, found: AdjustedQuantities, clock: _Clock
    ) -> AdjustedQuantities:
        """Return the adjustment in whole numbers, each as near to the found one as possible."""
        leaves = wanted.leaves
        for room in (0, 1, 2, 5):
            low, high = wanted.low.copy(), wanted.high.copy()
            low[leaves] = np.maximum(low[leaves], np.floor(found.values[leaves] + 1e-7) - room)
            high[leaves] = np.minimum(high[leaves], np.ceil(found.values[leaves] - 1e-7) + room)
            near = AdjustmentLimits(
                wanted.equations, wanted.value, wanted.cost, low, high, wanted.unsafe, wanted.up, wanted.down, True
            )
            answer = adjust(near, found.up, whole=True, seconds=clock.left)
            if answer is not None:
                return AdjustedQuantities(answer.values, answer.up, answer.cost, False)
        raise DataError(
            "an adjustment exists, but none in whole numbers was found near it. Publish fewer digits, allow a larger max_change, "
            "or fix fewer cells."
        )

    def _infeasible(
        self, table: Table, sensitivity: Sensitivity, wanted: AdjustmentLimits, signs: Flags | None, clock: _Clock
    ) -> SfumatoError:
        """Return the error that names what prevents a solution, and the smallest relaxation that works."""
        names, e = table.cells.name, wanted.equations
        first = f"no table with the {plural(len(wanted.unsafe), 'unsafe cell')} at safe values satisfies all bounds."
        loose = self.with_(max_change=None)._wanted(table, sensitivity)
        elastic = (e.cell >= 0) & (loose.low < loose.high)
        elastic[wanted.unsafe] = False
        if self.max_change is not None:
            found = least_change(loose, signs, elastic, np.abs(loose.value), clock.left)
            if found is not None:
                least = "the smallest that works" if signs is None else "what works"
                up = np.ceil(1000 * found[0] + 1e-6) / 1000
                return DataError(f"{first} max_change is too small: {up:g} is {least}.")
        bare = self.with_(max_change=None, fixed=(), zeros="adjust")._wanted(table, sensitivity)
        elastic = (e.cell >= 0) & (loose.low == loose.high)
        found = least_change(bare, signs, elastic, np.maximum(np.abs(bare.value), 1.0), clock.left)
        if found is not None:
            moved = elastic & (np.abs(found[1] - bare.value) > 1e-6 * np.maximum(np.abs(bare.value), 1))
            which = join_names((names(int(c)) for c in e.cell[moved]), 5)
            return DataError(f"{first} Cells that must not change, or stay 0, are in the way: let {which} change.")
        return DataError(
            f"{first} Nothing was found within the time limit either. Give it more time, or use suppression."
        )

    def _published(self, table: Table, values: Numbers, sensitivity: Sensitivity, how: str) -> PublishedTable:
        s = sensitivity
        change = values - table.value
        close = 1e-7 * np.maximum(np.abs(table.value), 1e-300)
        ups, downs = np.maximum(s.upper, s.width - s.lower), np.maximum(s.lower, s.width - s.upper)
        moved = (
            ((ups > 0) & (change >= ups - close))
            | ((downs > 0) & (-change >= downs - close))
            | ((ups <= 0) & (downs <= 0))
        )
        if (s.unsafe & ~moved).any() or (table.nonnegative and (values < -close).any()):
            raise SfumatoError("the solver's answer does not keep the protection levels. Please report this.")
        if table.nonnegative:
            values = np.maximum(values, 0.0)
        nothing = np.full(len(table), np.inf)
        still = s.unsafe & (np.maximum(np.maximum(s.upper, s.lower), s.width) == 0)
        words = f"all of {plural(int(s.unsafe.sum()), 'unsafe cell')} are published at or beyond a protection level"
        if still.any():
            words += (
                f", except {int(still.sum())} with a level of 0, as a percentage of nothing is: these need not move, and the "
                "rule zero_cells gives them a level"
            )
        return PublishedTable.unprotected(table, self).with_(
            values=values, status=np.full(len(table), Status.CHANGED, np.int8), high=nothing,
            low=np.zeros(len(table)) if table.nonnegative else -nothing,
            guarantees=(
                Guarantee(self.name, words, "every unsafe cell compared with its levels"),
                Guarantee(self.name, "all cells add up", "every cell is the sum of its adjusted leaves"),
                Guarantee(self.name, how, "by the bound of the solver"),
            ),
        )  # fmt: skip


class _Clock:
    """The remaining time for all programs together; the last ones have at least a second."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left."""
        return max(self._end - time.monotonic(), 1.0)


def _of(found: Sensitivity, order: Whole) -> Sensitivity:
    """Return the assessment of a rule for cells in a given order."""
    return Sensitivity(
        found.unsafe[order], significant(found.upper[order]), significant(found.lower[order]),
        significant(found.width[order]), found.reasons[order],
    )  # fmt: skip


def _unit(table: Table) -> float | None:
    """Return the last published digit; None where values are published unrounded."""
    return 1.0 if table.integer else None if table.decimals is None else 10.0**-table.decimals
