"""Random rounding and small-count rounding; multiples of a base, and ids of cells that depend on their labels alone."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from scipy import sparse
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, NotApplicable, ParameterError, plural
from sfumato.tables.cells import TOTAL, Cells, Status
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rta.drawing import leaf_labels
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

_SAME = (
    1e-9  # of the base: a value closer than this, and a few units of the last binary digit, is treated as a multiple
)


def check_base(base: float, table: Table, name: str) -> None:
    """Refuse a base that changes nothing, that gives fractions where only whole numbers make sense, or is too small to count."""
    largest = max(np.abs(table.value).max(initial=0.0), np.abs(table.totals).max(initial=0.0))
    if not largest / base < 2.0**50:
        raise ParameterError(
            f"base of {name} is too small for the values of the table: {base:g} is less than their last digit. Choose a "
            "larger one."
        )
    if table.integer and (base != round(base) or base < 2):
        raise ParameterError(
            f"base of {name} must be a whole number of at least 2 for a table of whole numbers; got {base:g}."
        )


def split(values: Numbers, base: float) -> tuple[Numbers, Numbers]:
    """Return the number of whole bases in each value, and the remainder: 0 ≤ rest < base.

    >>> [x.tolist() for x in split(np.array([7.0, 10.0, -1.0]), 5)]
    [[1.0, 2.0, -1.0], [2.0, 0.0, 4.0]]
    """
    ratio = values / base
    near = np.rint(ratio)
    multiple = np.abs(ratio - near) <= _SAME + 1e-15 * np.abs(ratio)
    times = np.where(multiple, near, np.floor(ratio))
    return times, np.where(multiple, 0.0, values - base * times)


def reach(base: float, integer: bool) -> float:
    """Return how far a value may be from a multiple that is less than one base away.

    Less than 5 away means at most 4 for whole numbers; for others there is no largest such number, and 5 is the limit.
    """
    return base - 1 if integer else base


def rounded(
    table: Table, times: Numbers, base: float, far: Numbers | float, by: Protection, *said: Guarantee
) -> PublishedTable:
    """Return the table with `times` × base in every cell; a reader knows that the true value is at most `far` away.

    Every cell counts as changed, also those that were multiples: a reader does not know which they are.
    """
    digits = next((d for d in range(10) if abs(base * 10**d - round(base * 10**d)) <= _SAME * base * 10**d), None)
    values = times * base if digits is None else np.round(times * base, digits)
    values = values + 0.0  # no negative zeros
    low, high = values - far, values + far
    if table.nonnegative:
        low = np.maximum(low, 0.0)
    return PublishedTable.unprotected(table, by).with_(
        values=values, status=np.full(len(table), Status.CHANGED, np.int8), low=low, high=high, decimals=digits,
        guarantees=said,
    )  # fmt: skip


# An id for every cell and every leaf that depends on its labels alone, so that it is rounded the same way everywhere.
#
# Values and records are not used: if a count goes from 3 to 4, with the same draw its rounded value stays or goes up, which
# reveals less than a second draw about nearly the same count.


def cell_ids(cells: Cells) -> Whole:
    """Return a 64-bit number for each cell, from its labels without the totals; shape (cells,).

    Two cells made of the same leaves (a region, and the only sector in it) are one value under two names: both get the id of
    the cell with fewer labels. Rounded independently, they would be two draws about one value.
    """
    order = np.argsort(cells.dimensions, kind="stable")
    texts = []
    for row in cells.labels[:, order].tolist():
        pairs = [(cells.dimensions[d], label) for d, label in zip(order, row, strict=True) if label != TOTAL]
        texts.append((len(pairs), "\x1f".join(f"{name}\x1e{label}" for name, label in pairs)))
    first: dict[bytes, int] = {}
    stands_for = [0] * len(texts)
    incidence = cells.incidence
    for cell in sorted(range(len(texts)), key=texts.__getitem__):
        leaves = np.sort(incidence.indices[incidence.indptr[cell] : incidence.indptr[cell + 1]]).tobytes()
        stands_for[cell] = first.setdefault(leaves, cell)
    return _numbers(texts[cell][1] for cell in stands_for)


def leaf_numbers(cells: Cells) -> Whole:
    """Return a 64-bit number for each leaf, from its labels; shape (leaves,)."""
    return _numbers(leaf_labels(cells))


def _numbers(texts: Iterable[str]) -> Whole:
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.int64).copy()


class RandomRounding(Protection):
    """Every value is rounded to one of the two multiples of the base beside it, at random, so that its expectation is right.

    A value with the remainder r above a multiple goes up with probability r / base; multiples stay. The draw depends on the
    labels of the cell, the variable and the period: the same cell is rounded the same way in every table and every run with one
    seed, and asking again gains nothing. Cells that are rounded one by one (`by="cell"`) do not add up; with `by="leaf"` the
    leaves are rounded and summed, which adds up, but moves totals further.

    Fellegi, Controlled random rounding, Survey Methodology 1 (1975), for the unbiased scheme.
    """

    base: float = param(default=5, doc="values become multiples of this", low=0, above=True, scale="log", usual=(3, 10))
    by: str = param(
        default="cell", choices=("cell", "leaf"),
        doc="what is rounded: every 'cell' by itself, which does not add up, or every 'leaf', which cells add up",
    )  # fmt: skip
    period: str = param(default="", doc="what sets this table apart from others of the same variable, such as its year")

    @override
    def label(self) -> str:
        return f"random rounding to {self.base:g}" + (", leaves" if self.by == "leaf" else "")

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with every cell rounded."""
        check_base(self.base, table, self.name)
        draws = draws.child(self.name, table.variable, str(self.period))
        near = f"less than {self.base:g} from its value"
        said = Guarantee(self.name, f"every cell is a multiple of {self.base:g}", "by construction")
        if self.by == "cell":
            times, rest = split(table.value, self.base)
            times = times + (draws.uniforms(cell_ids(table.cells), "cell") < rest / self.base)
            apart = Guarantee(
                self.name, f"every cell is {near}; cells are rounded one by one and do not add up", "by construction"
            )
            return rounded(table, times, self.base, reach(self.base, table.integer), self, said, apart)
        times, rest = split(table.totals, self.base)
        times = times + (draws.uniforms(leaf_numbers(table.cells), "leaf") < rest / self.base)
        adds = Guarantee(self.name, f"cells add up; every leaf is {near}", "cells are sums of rounded leaves")
        whole = table.integer and bool((table.totals == np.rint(table.totals)).all())
        far = reach(self.base, whole) * table.cells.sizes.astype(np.float64)
        return rounded(table, table.cells.sums(times), self.base, far, self, said, adds)


_NEAR = (1024, 256, 64, 16)  # leaves are tried together if they share a cell of at most this many
_WORK = 2e7  # largest number of cell errors examined in one round
_ROUNDS = 100


class TwoValueChoice:
    """A choice between a lower and an upper change for each of some leaves, and the errors of the cells that it gives.

    `rows` is cells × leaves, restricted to the leaves that have a choice. The start goes up and down in turn along the leaves
    in their order, which keeps running sums right to within one step; `improve` then lowers a cost of the errors by changing
    one leaf or two at a time until nothing helps.
    """

    def __init__(self, rows: sparse.csr_array, down: Numbers, up: Numbers, uniforms: Numbers) -> None:
        by_leaf = sparse.csc_array(rows)
        self._of_leaf = by_leaf.indptr.astype(np.int64), by_leaf.indices.astype(np.int64)
        self._of_cell = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        self._step = (up - down).astype(np.float64)
        self._order = np.argsort(uniforms, kind="stable").astype(np.int64)
        share = np.divide(-down, self._step, out=np.zeros(len(down)), where=self._step > 0)
        start = float(uniforms[self._order[0]]) if len(uniforms) else 0.0
        running = np.floor(np.concatenate([[0.0], np.cumsum(share)]) + start)
        self._share = share
        self.up = np.diff(running) > 0
        self._rows, self._values = rows, (down, up)
        self.error: Numbers = np.asarray(rows @ np.where(self.up, up, down), np.float64)

    def change(self, up: Flags) -> None:
        """Set another choice."""
        self.up = up.copy()
        self.error = np.asarray(self._rows @ np.where(up, self._values[1], self._values[0]), np.float64)

    def improve(self, square: Numbers, absolute: Numbers | None = None, limits: Numbers | None = None) -> None:
        """Lower Σ square · error² + absolute · |error| over the cells; errors should be within limits, shape (2, cells)."""
        if not len(self._step):
            return
        if absolute is None:
            absolute = np.zeros(len(square))
        if limits is None:
            limits = np.array([[-np.inf], [np.inf]]) * np.ones(len(square))
        kernels.table_algebra.choose_values(
            *self._of_leaf, *self._of_cell, self._order, self._step, self.up, self.error, square, absolute, limits,
            self._near, _ROUNDS,
        )  # fmt: skip

    @property
    def nearest(self) -> Flags:
        """Which leaves have the smaller change upwards."""
        return self._share > 0.5

    def improve_often(self, square: Numbers, uniforms: Iterable[Numbers]) -> None:
        """Improve from several starts, and keep the best: this one, all leaves at the nearer value, and random ones.

        Each array of uniform numbers, shape (leaves,), makes a start that is unbiased.
        """
        best, least = self.up, np.inf
        for start in itertools.chain((self.up, self.nearest), (u < self._share for u in uniforms)):
            self.change(start)
            self.improve(square)
            cost = float((square * self.error**2).sum())
            if cost < least:
                best, least = self.up, cost
        self.change(best)

    @cached_property
    def _near(self) -> int:
        """The largest cell size that is used for pairs of leaves, as the time allows."""
        size, each = np.diff(self._of_cell[0]).astype(np.float64), len(self._of_leaf[1]) / max(len(self._step), 1)
        work = (float((size[size <= near] ** 2).sum()) * each for near in _NEAR)
        return next((near for near, w in zip(_NEAR, work, strict=True) if w <= _WORK), 0)


_STARTS = 5000  # this divided by the number of counts to round is the number of starts


class SmallCountRounding(Protection):
    """Small inner counts become 0 or the base; every cell is then summed again, so that the table adds up.

    Only leaves that are in a published cell of 1 to `largest` are rounded; all others stay. Which go up is chosen so that the
    sum of the squared errors of all published cells is small: from several starts, changes of one leaf or two until none helps.
    Afterwards no published cell is between 1 and `largest`.

    The idea is that of Langsrud and Heldal, An algorithm for small count rounding of tabular data, Privacy in Statistical
    Databases (2018); the search is sfumato's.
    """

    base: int = param(default=3, doc="small counts become 0 or this", low=2, integer=True, scale="log", usual=(3, 10))
    largest: int | None = param(
        default=None, doc="the largest count that is small; one less than the base if not given", low=1, integer=True
    )

    @override
    def validate(self) -> None:
        if self.largest is not None and self.largest >= self.base:
            raise ParameterError(
                f"largest of {self.name} must be below the base, {self.base}; got {self.largest}. Larger counts stay as they are."
            )

    @override
    def label(self) -> str:
        below = "" if self.largest is None else f", counts up to {self.largest}"
        return f"small-count rounding to {self.base}{below}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with its small counts rounded."""
        counts = _checked(table)
        small = self.base - 1 if self.largest is None else self.largest
        keyed, ids = draws.child(self.name, table.variable), leaf_numbers(table.cells)
        cells = table.cells
        by_leaf = sparse.csr_array(cells.incidence.T)
        chosen = np.zeros(cells.leaves, bool)
        leaves, values = counts, table.value
        while (hidden := np.flatnonzero((values > 0) & (values <= small))).size:
            # every count in a small cell is small itself, unless the cell became small by rounding others
            marked = np.zeros(len(cells))
            marked[hidden] = 1.0
            chosen |= (by_leaf @ marked > 0) & (counts > 0) & (counts <= small)
            leaves = _rounded(cells.incidence, counts, chosen, self.base, keyed, ids)
            values = cells.sums(leaves)
        low, high = _sure(values, cells.sizes, self.base, small)
        moved = values - table.value
        says = f"no published count is between 1 and {small}, and all cells add up"
        near = (
            f"{plural(int(chosen.sum()), 'inner count')} of {cells.leaves:,} rounded; cells change by {np.abs(moved).max():g} at "
            f"most and {np.abs(moved).mean():.2g} on average"
        )
        return PublishedTable.unprotected(table, self).with_(
            values=values, low=low, high=high, status=np.full(len(cells), Status.CHANGED, np.int8),
            guarantees=(
                Guarantee(self.name, says, "all published cells looked at; each is the sum of its inner counts"),
                Guarantee(self.name, near, "all published cells compared with the original ones"),
            ),
        )  # fmt: skip


def _checked(table: Table) -> Numbers:
    if not (table.integer and table.nonnegative):
        raise NotApplicable(
            "small-count rounding is for counts: whole numbers that are not negative. Use random or controlled rounding for "
            "magnitudes and for counts that are grossed up."
        )
    if (table.totals != np.rint(table.totals)).any():
        raise DataError(
            "small-count rounding changes the inner counts of the table, and this one does not say what they are. Make it from "
            "microdata, or from a table that has its innermost cells."
        )
    return table.totals


def _rounded(
    incidence: sparse.csr_array, counts: Numbers, chosen: Flags, base: int, draws: Draws, ids: Whole
) -> Numbers:
    """Return the counts with the chosen ones at 0 or the base."""
    at = np.flatnonzero(chosen)
    order = draws.uniforms(ids[at], "order")
    choice = TwoValueChoice(sparse.csr_array(incidence[:, at]), -counts[at], base - counts[at], order)
    starts = int(np.clip(_STARTS // len(at), 1, 30))
    more = (draws.uniforms(ids[at], f"start {k}") for k in range(starts))
    choice.improve_often(np.ones(incidence.shape[0]), more)
    leaves = counts.copy()
    leaves[at] = np.where(choice.up, base, 0)
    return leaves


def _sure(values: Numbers, sizes: Whole, base: int, small: int) -> tuple[Numbers, Numbers]:
    """Return certain bounds of each cell, for a reader who knows the sum of its `sizes` inner counts after rounding.

    An inner count published as 0 was at most `small`, one published as `base` was at least 1 and at most the base; any other is
    right. So the bounds are widest if as many as possible read 0 or, at the lower end, exactly the base.
    """
    zeros = np.where(values > 0, sizes - 1, sizes)
    times = np.floor(values / base)
    full = np.where(values == base * sizes, sizes, np.minimum(times, sizes - 1))
    return values - (base - 1) * full, values + small * zeros
