"""Facts about a column that perturbation needs, found by aggregates where the records live."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sfumato.engines.warehouse import Warehouse
from sfumato.mas.dataset import Weight
from sfumato.mas.exact import combined, exact_sums, scale_of
from sfumato.mas.grid import round_grid
from sfumato.mas.order_statistic import order_statistic
from sfumato.mas.variable import Variable

TAIL = 0.995
"""Where the tail of a variable, and of the weights, begins."""
FEWEST = 20
"""A tail that is replaced by its mean has at least so many records."""


def with_tails(variable: Variable, warehouse: Warehouse) -> Variable:
    """Return a variable of numbers with its scale, its top and bottom codes, and the edges of its grid."""
    x = variable.numbers
    found = warehouse.ask(
        f"SELECT min({x}) AS low, max({x}) AS high, count({x}) AS n, count(*) AS records FROM records"  # noqa: S608
    )
    n, gaps = int(found["n"][0]), bool(found["n"][0] < found["records"][0])
    if not n:
        return replace(variable, gaps=gaps)
    # the FEWEST-th value from the end, if that is further in
    rank = max(min(math.ceil(TAIL * n), n - FEWEST + 1), 1)
    ends = float(found["low"][0]), float(found["high"][0])
    upper, lower = (order_statistic(warehouse, x, at, ends=ends) for at in (rank, n + 1 - rank))
    scale, centre = scale_of(max(map(abs, ends))), _centre(lower, upper)
    negative = ends[0] < 0
    return replace(
        variable, centre=centre, scale=scale_of(max(abs(end - centre) for end in ends)), gaps=gaps,
        top=(upper, _mean(warehouse, x, scale, f"{x} >= {upper!r}")),
        bottom=(lower, _mean(warehouse, x, scale, f"{x} <= {lower!r}")) if negative else None,
        grid=round_grid(replace(variable, gaps=gaps), warehouse, n, (lower, upper)),
    )  # fmt: skip


def _centre(low: float, high: float) -> float:
    """Return the middle of a range in whole multiples of its length, up to a power of two; what is taken off so loses no digit.

    >>> _centre(0, 90_000), _centre(2001, 2015), _centre(1e9, 1e9 + 3), _centre(7.5, 7.5)
    (0.0, 2016.0, 1000000000.0, 7.5)
    """
    if not low < high:
        return low
    unit = scale_of(high - low)
    return round((low + high) / 2 / unit) * unit


def _mean(warehouse: Warehouse, column: str, scale: float, where: str) -> float:
    """Return a mean that is the same in every engine."""
    sums = ", ".join(exact_sums("s", column, scale))
    found = warehouse.ask(f"SELECT count({column}) AS n, {sums} FROM records WHERE {where}")  # noqa: S608 - our own names
    parts = np.array([found["s_0"], found["s_1"]], np.int64)
    return float(combined(parts, scale)[0] / found["n"][0])


def weight_facts(warehouse: Warehouse) -> Weight | None:
    """Return what perturbation needs to know of survey weights, if there are any."""
    if "w" not in warehouse.columns:
        return None
    found = warehouse.ask("SELECT min(w) AS low, max(w) AS high, count(w) AS n FROM records")
    ends, rank = (float(found["low"][0]), float(found["high"][0])), math.ceil(TAIL * float(found["n"][0]))
    scale = scale_of(ends[1])
    mean, square = (_mean(warehouse, text, size, "TRUE") for text, size in (("w", scale), ("w * w", scale**2)))
    return Weight(scale, order_statistic(warehouse, "w", rank, ends=ends), mean, square / mean**2)
