"""Controlled tabular adjustment: unsafe cells move to a safe value, the others as little as possible."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, ParameterError, SfumatoError, listing, some
from sfumato.tables.adjustment_program import Adjusted, Flags, Wanted, Whole, adjust, directions, least_change
from sfumato.tables.canonical import significant, table_in_order
from sfumato.tables.equations import Equations
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rounding.cell_ids import cell_ids
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import rules_of
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
_MARGIN = 1e-6  # of a protection level: by how much more it is kept, so that the solver's rounding cannot undo it
_WHOLE = 500  # up to so many leaves, whole numbers and directions are chosen together


class ControlledAdjustment(Protection):
    """Every unsafe cell is replaced by a safe value, above or below, and the table is adjusted until it adds up again.

    An unsafe cell moves at least to its upper or its lower protection level; the other cells change so that all sums hold,
    and as little as possible: Σ cost · |change| is smallest, or Σ cost · change². Up to `exact` unsafe cells, which of them go
    up and which down is part of the optimum (a mixed linear program); beyond that the directions are chosen first, so that
    they cancel in the totals, and the changes are optimal for them.

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

    def validate(self) -> None:
        """Make one rule of several, and check the labels of fixed cells."""
        object.__setattr__(self, "rules", rules_of(self.rules))
        given = (self.fixed,) if isinstance(self.fixed, Mapping) else tuple(self.fixed)
        if not all(isinstance(f, Mapping) for f in given):
            raise ParameterError(f"fixed of {self.name} must be a list of cells, such as [{{'region': 'North'}}].")
        object.__setattr__(self, "fixed", given)

    def label(self) -> str:
        """Return the method in a few words."""
        return f"controlled adjustment ({self.rules.label()})"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the adjusted table."""
        sensitivity = self.rules.assess(table)
        # of several tables that are equally good, the same whatever the order of the input
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

    def _wanted(self, table: Table, sensitivity: Sensitivity) -> Wanted:
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
        )  # nobody needs to move further than all unsafe cells together
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
        if unit is not None:  # a value with more digits than are published cannot stay to the last of them
            low, high = np.ceil(low - 1e-9), np.floor(high + 1e-9)
            low, high = np.where(kept, np.rint(value), low), np.where(kept, np.rint(value), high)
        else:
            low, high = np.where(kept, value, low), np.where(kept, value, high)
        if bad := [int(c) for c in e.cell[kept & is_unsafe]]:
            raise ParameterError(
                f"{listing(map(table.cells.name, bad), 5)}: an unsafe cell cannot be fixed, since adjustment moves it. Leave it "
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
        reachable = (downs > 0) & (value - downs / scale >= low - 1e-9 * np.maximum(size, 1))  # to 0 exactly, often
        up, down = np.where(ups > 0, up, np.inf), np.where(reachable, np.maximum(down, low), -np.inf)
        return Wanted(e, value, cost, low, high, unsafe, up[unsafe], down[unsafe], unit is not None)

    def _found(self, table: Table, sensitivity: Sensitivity, wanted: Wanted, uniforms: Numbers) -> Adjusted:
        clock = _Clock(self.time_limit)
        signs = directions(table.cells, wanted, uniforms)
        few = len(wanted.unsafe) <= self.exact
        small = wanted.whole and len(wanted.leaves) <= _WHOLE
        first = adjust(wanted, None if few else signs, whole=small, seconds=clock.left)
        if first is None and not few:
            first = adjust(wanted, None, whole=small, seconds=clock.left)  # the directions were in the way
        if first is None:
            raise self._infeasible(table, sensitivity, wanted, None if few else signs, clock)
        found = first if few else Adjusted(first.values, first.up, first.cost, False)
        if self.distance == "squared":
            squared = adjust(wanted, found.up, squared=True, seconds=clock.left)
            found = found if squared is None else Adjusted(squared.values, squared.up, squared.cost, False)
        if wanted.whole and (not small or self.distance == "squared"):
            found = self._in_whole_numbers(wanted, found, clock)
        return found

    def _in_whole_numbers(self, wanted: Wanted, found: Adjusted, clock: _Clock) -> Adjusted:
        """Return the adjustment in whole numbers, each as near to what was found as it may be."""
        leaves = wanted.leaves
        for room in (0, 1, 2, 5):
            low, high = wanted.low.copy(), wanted.high.copy()
            low[leaves] = np.maximum(low[leaves], np.floor(found.values[leaves] + 1e-7) - room)
            high[leaves] = np.minimum(high[leaves], np.ceil(found.values[leaves] - 1e-7) + room)
            near = Wanted(
                wanted.equations, wanted.value, wanted.cost, low, high, wanted.unsafe, wanted.up, wanted.down, True
            )
            answer = adjust(near, found.up, whole=True, seconds=clock.left)
            if answer is not None:
                return Adjusted(answer.values, answer.up, answer.cost, False)
        raise DataError(
            "an adjustment exists, but none in whole numbers was found near it. Publish fewer digits, allow a larger max_change, "
            "or fix fewer cells."
        )

    def _infeasible(
        self, table: Table, sensitivity: Sensitivity, wanted: Wanted, signs: Flags | None, clock: _Clock
    ) -> SfumatoError:
        """Return the error that says what is in the way, and the smallest relaxation that works."""
        names, e = table.cells.name, wanted.equations
        first = f"no table with the {some(len(wanted.unsafe), 'unsafe cell')} at safe values satisfies all bounds."
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
            which = listing((names(int(c)) for c in e.cell[moved]), 5)
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
        words = f"all of {some(int(s.unsafe.sum()), 'unsafe cell')} are published at or beyond a protection level"
        if still.any():
            words += (
                f", except {int(still.sum())} with a level of 0, as a percentage of nothing is: these need not move, and the "
                "rule zero_cells gives them a level"
            )
        return PublishedTable.shown(table, self).with_(
            values=values, status=np.full(len(table), Status.CHANGED, np.int8), high=nothing,
            low=np.zeros(len(table)) if table.nonnegative else -nothing,
            guarantees=(
                Guarantee(self.name, words, "every unsafe cell compared with its levels"),
                Guarantee(self.name, "all cells add up", "every cell is the sum of its adjusted leaves"),
                Guarantee(self.name, how, "by the bound of the solver"),
            ),
        )  # fmt: skip


class _Clock:
    """How much of the time is left, for all programs together; the last of them have a second at least."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left."""
        return max(self._end - time.monotonic(), 1.0)


def _of(found: Sensitivity, order: Whole) -> Sensitivity:
    """Return what a rule found, for cells in an order."""
    return Sensitivity(
        found.unsafe[order], significant(found.upper[order]), significant(found.lower[order]),
        significant(found.width[order]), found.reasons[order],
    )  # fmt: skip


def _unit(table: Table) -> float | None:
    """Return the last digit that is published; None where values are published as they are."""
    return 1.0 if table.integer else None if table.decimals is None else 10.0**-table.decimals
