"""The value of a rank, found by histograms that are refined where it lies.

What leaves the engine are counts of bins, and the ends of the one bin that holds the rank: no value of any other bin.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.engines.warehouse import Warehouse
from sfumato.mas.exact import combined, exact_sums

_BINS = 2048
_PASSES = 12


def order_statistic(
    warehouse: Warehouse,
    column: str,
    rank: float,
    where: str = "TRUE",
    weight: tuple[str, float] | None = None,
    ends: tuple[float, float] | None = None,
) -> float:
    """Return the smallest value up to which the records, or their weights, add up to `rank`; NaN if nothing does.

    `weight` is a column and a power of two that it does not exceed; `ends` are the least and the largest value, where they are
    known. The value is exact.
    """
    low, high = ends or _ends(warehouse, column, where)
    below = 0.0
    for _ in range(_PASSES):
        if not low < high:  # one value, or none
            break
        width = max((high - low) / _BINS, math.ulp(max(abs(low), abs(high))))
        name, scale = weight or ("1", 1.0)
        parts = 2 if weight else 0
        sums = ", ".join(exact_sums("w", name, scale, parts))
        bin_of = f"CAST(floor(({column} - {low!r}) / {width!r}) AS BIGINT)"
        inside = f"{column} >= {low!r} AND {column} <= {high!r} AND ({where})"
        bins = warehouse.ask(
            f"SELECT bin, {sums} FROM (SELECT {'w, ' if weight else ''}{bin_of} AS bin FROM records "  # noqa: S608 - our own names
            f"WHERE {inside}) AS binned GROUP BY bin"
        )
        order = np.argsort(bins["bin"])
        added = np.stack([bins[f"w_{i}"] for i in range(max(parts, 1))])
        reached = below + np.cumsum(combined(added.astype(np.int64), scale, parts)[order])
        at = min(int(np.searchsorted(reached, rank)), len(order) - 1)
        below = float(reached[at - 1]) if at else below
        low, high = _ends(warehouse, column, f"{inside} AND {bin_of} = {int(bins['bin'][order[at]])}")
    return low


def _ends(warehouse: Warehouse, column: str, where: str) -> tuple[float, float]:
    found = warehouse.ask(f"SELECT min({column}) AS low, max({column}) AS high FROM records WHERE {where}")  # noqa: S608
    return float(found["low"][0]), float(found["high"][0])
