"""Variances of means in the cells of a table, for a survey of households drawn with replacement within strata."""

from __future__ import annotations

import numpy as np

from sfumato.mas.exact import combined, exact_sums
from sfumato.mas.grouped import Grouped, Numbers

_BITS = 2.0**50
_PARTS = 3


def design_squares(
    table: Grouped, value: str, bound: float, weight: float | None, means: Numbers
) -> tuple[Numbers, float]:
    """Return Σ m / (m − 1) Σ (t − t̄)² over the strata of each cell, raveled, and the records of the largest household.

    t = Σ w (v − mean of the cell) is the total of one household's kept records that have a value, and m how many households a
    stratum has in the cell; a stratum with one is taken about 0. `value` is SQL that a power of two bounds in size, and
    `weight` a power of two that bounds the weights. Households' totals of wv and of w are made where the records live, in whole
    numbers, and what comes back are sums of their squares and products.
    """
    question, shape = table.question, table.counts.shape
    columns = set(question.dataset.warehouse.columns)
    w, scale = ("w", weight) if weight is not None else ("1.0E0", 1.0)
    strata = [c for c in ("s",) if c in columns]
    cells = [f"c{i}" for i in range(len(shape))]
    listed = [f"{v.codes} AS {cell}" for v, cell in zip(table.variables, cells, strict=True)]
    base = (
        f"SELECT {', '.join([*listed, *strata, *(['h'] if 'h' in columns else []), f'{w} AS w', f'{value} AS v'])} "  # noqa: S608
        f"FROM records WHERE ({question.selection.plain.where()}) AND ({question.kept})"
    )
    largest = 1.0
    by = ", ".join([*cells, *strata])
    steps = {"t": _BITS / (scale * bound), "b": _BITS / scale}
    if "h" in columns:
        found = question.dataset.warehouse.ask(
            "SELECT max(m) AS m FROM (SELECT count(*) AS m FROM records GROUP BY h) AS c"
        )
        largest = float(found["m"][0])
        of = {"t": "w * v", "b": "w"}
        totals = ", ".join(
            f"sum(CAST(floor({of[name]} * {step!r}) AS BIGINT)) * {1 / step!r} AS {name}"
            for name, step in steps.items()
        )
        together = ", ".join([*cells, *strata, "h"])
        source = f"SELECT {together}, {totals} FROM ({base}) AS one WHERE v IS NOT NULL GROUP BY {together}"  # noqa: S608
    else:
        listed = [*cells, *strata, "w * v AS t", "w AS b"]
        source = f"SELECT {', '.join(listed)} FROM ({base}) AS one WHERE v IS NOT NULL"  # noqa: S608
    t, b = largest * scale * bound, largest * scale
    scales = {"t": t, "b": b, "tt": t * t, "tb": t * b, "bb": b * b}
    terms = {"t": "t", "b": "b", "tt": "t * t", "tb": "t * b", "bb": "b * b"}
    sums = [part for name, text in terms.items() for part in exact_sums(name, text, scales[name], _PARTS)]
    group = f" GROUP BY {by}" if by else ""
    rows = question.dataset.warehouse.ask(
        f"SELECT {', '.join([*cells, *strata, 'count(*) AS m', *sums])} FROM ({source}) AS totals{group}"  # noqa: S608
    )
    part = {
        name: combined(np.array([rows[f"{name}_{i}"] for i in range(_PARTS)]), scales[name], _PARTS) for name in terms
    }
    at = np.ravel_multi_index([rows[c] for c in cells], shape) if cells else np.zeros(len(rows["m"]), np.int64)
    mean, m = means.ravel()[at], rows["m"].astype(np.float64)
    first = part["t"] - mean * part["b"]
    second = part["tt"] - 2 * mean * part["tb"] + mean**2 * part["bb"]
    about = np.where(m > 1, m / np.maximum(m - 1, 1) * (second - first**2 / np.maximum(m, 1)), second)
    order = np.lexsort((about, at))  # added in one order, whatever the engine's
    out = np.bincount(at[order], np.maximum(about[order], 0.0), minlength=int(np.prod(shape, dtype=int)))
    return np.asarray(out, np.float64), largest
