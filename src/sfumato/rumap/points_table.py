"""A map of points as a table of a report."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.charts.words import tabled
from sfumato.contract import Side, Table
from sfumato.rumap.points import PointMap

_ROWS = 20
"""Most points that a table shows."""


def points_table(map: PointMap, what: str | None, measures: Sequence[int] | None = None) -> Table:
    """Return every point with its measures, or those on the frontier where there are many.

    `what` says what was tried, or None if families need not be named; `measures` are the positions of those to show: all, risks
    first, if not given.
    """
    order = [*map.of_side(Side.RISK), *map.of_side(Side.UTILITY)] if measures is None else list(measures)
    front = {int(p) for p in map.frontier()["point"]}
    points = range(len(map.points))
    shown = list(points) if len(points) <= _ROWS else sorted(front)[:_ROWS]
    rows = []
    for p in shown:
        cells = []
        for i in order:
            value, interval = map.estimate(i, p)
            spread = (
                ""
                if interval is None or interval[0] == interval[1]
                else f" ({tabled(interval[0])} to {tabled(interval[1])})"
            )
            cells.append(tabled(value) + spread)
        first = (map.points[p].family.replace("_", " "),) if what is not None else ()
        rows.append((*first, map.points[p].at, *cells, "yes" if p in front else "no"))
    heads = (*(() if what is None else (what,)), "at", *(map.measures[i].label() for i in order), "on the frontier")
    less = "" if len(shown) == len(points) else f" Those on the frontier, of {len(points):,}."
    return Table(heads, tuple(rows), f"Risk and utility of every setting; 95 % intervals in brackets.{less}")
