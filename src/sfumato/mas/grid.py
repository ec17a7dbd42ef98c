"""Round edges of many bins of a variable, frozen with the data set: what quantiles and histograms are made from."""

from __future__ import annotations

import numpy as np

from sfumato.engines.warehouse import Warehouse
from sfumato.mas.bins import Bins
from sfumato.mas.cutpoints.round_numbers import roundest
from sfumato.mas.variable import Variable

MOST = 64
"""Most bins of a grid."""
_FEWEST = 20
"""Fewest records in each bin."""
_FINE = 4096


def round_grid(variable: Variable, warehouse: Warehouse, n: int, ends: tuple[float, float]) -> tuple[float, ...]:
    """Return edges that cut the values into at most 64 bins of about the same number of records, and of 20 at least.

    An edge is the roundest number within a quarter of a bin of where it should be; the custodian's cutpoints are among the edges.
    `ends` is where most values lie: between them quantiles are read off a fine histogram.
    """
    bins = min(MOST, n // (2 * _FEWEST))
    if bins < 2:
        return ()
    low, high = ends
    wanted = list(variable.cutpoints.edges) if variable.cutpoints is not None else []
    if low < high:
        x, width = variable.numbers, (high - low) / _FINE
        found = warehouse.ask(
            f"SELECT CAST(floor(({x} - {low!r}) / {width!r}) AS BIGINT) AS bin, count(*) AS n FROM records "  # noqa: S608
            f"WHERE {x} >= {low!r} AND {x} <= {high!r} GROUP BY 1"
        )
        below = warehouse.ask(f"SELECT count(*) AS n FROM records WHERE {x} < {low!r}")["n"][0]  # noqa: S608
        order = np.argsort(found["bin"])
        reached = below + np.cumsum(found["n"][order])
        start = low + found["bin"][order] * width
        quarters = start[np.minimum(np.searchsorted(reached, np.arange(4 * bins + 1) / (4 * bins) * n), len(start) - 1)]
        for j in range(4, 4 * bins, 4):
            first, near, last = (float(q) for q in quarters[[j - 1, j, j + 1]])
            wanted.append(roundest(first, last, near, variable.integer))
    return _filled(variable, warehouse, sorted({float(edge) for edge in wanted}))


def _filled(variable: Variable, warehouse: Warehouse, edges: list[float]) -> tuple[float, ...]:
    """Return those of the edges that leave enough records in each bin."""
    if not edges:
        return ()
    code = Bins.of(variable, edges).codes
    found = warehouse.ask(f"SELECT {code} AS bin, count(*) AS n FROM records GROUP BY {code}")  # noqa: S608 - ours
    counts = np.zeros(len(edges) + 2, np.int64)
    counts[found["bin"]] = found["n"]
    kept: list[float] = []
    held = 0
    for edge, count in zip(edges, counts, strict=False):
        held += int(count)
        if held >= _FEWEST:
            kept.append(edge)
            held = 0
    enough = held + int(counts[len(edges)]) >= _FEWEST
    return tuple(kept if enough else kept[:-1])  # the last bin takes in the one before it
