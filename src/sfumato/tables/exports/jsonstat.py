"""A published table as JSON-stat 2.0, which statistical offices' web services give (json-stat.org)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.errors import DataError
from sfumato.tables.exports.figures import number, qualities, variances
from sfumato.tables.exports.nesting import children_of, order_of
from sfumato.tables.published import PublishedTable

SUPPRESSED, CHANGED = "c", "e"
_WORDS = {SUPPRESSED: "confidential: not published", CHANGED: "adjusted, rounded or perturbed"}


def json_stat(published: PublishedTable, *, title: str = "", source: str = "") -> dict[str, Any]:
    """Return the table as a JSON-stat 2.0 dataset: a cube of all labels, the total among them, in row-major order.

    Subtotals are told by `child`; a last dimension, with the role of a metric, holds what is measured with its unit and digits,
    and where variances are published these too. A value that is not published is null and has the status "c"; one that was
    adjusted, rounded or perturbed "e". Combinations that are not cells are null without a status. Quality codes are in
    `extension`.
    """
    cells = published.cells
    metric = _free("measure", cells.dimensions)
    what = published.variable or "records"
    measures = [what] if published.variance is None else [what, _free("variance", (what,))]
    orders = [order_of(cells, i) for i in range(len(cells.dimensions))]
    size = [*(len(order) for order in orders), len(measures)]
    if math.prod(size) > 2**53:
        raise DataError(
            "the table has too many dimensions with too many labels for a cube. Write it as CSV or SDMX-CSV."
        )
    at = _positions(published, orders, size)
    values: dict[int, Any] = {}
    status: dict[str, str] = {}
    noise, codes = variances(published), qualities(published)
    quality: dict[str, str] = {}
    changed = published.frame()["status"].to_numpy()
    for i, place in enumerate(at):
        values[place] = number(float(published.values[i]), published.decimals)
        if changed[i]:
            status[str(place)] = SUPPRESSED if changed[i] == "suppressed" else CHANGED
        if noise is not None:
            values[place + 1] = number(float(noise[i]))
        if codes is not None and codes[i]:
            quality[str(place)] = codes[i]
    count = math.prod(size)
    dense = 2 * len(values) >= count
    extension: dict[str, Any] = {"status": {"label": _WORDS}}
    if quality:
        extension["quality"] = quality
    dimension = {name: _dimension(published, i, orders[i]) for i, name in enumerate(cells.dimensions)}
    return {
        "version": "2.0",
        "class": "dataset",
        "label": title or f"{what} by {', '.join(cells.dimensions)}",
        **({"source": source} if source else {}),
        "id": [*cells.dimensions, metric],
        "size": size,
        "role": {"metric": [metric]},
        "dimension": {**dimension, metric: _metric(published, measures)},
        "value": [values.get(i) for i in range(count)]
        if dense
        else {str(i): v for i, v in sorted(values.items()) if v is not None},
        "status": status,
        "extension": extension,
    }


def _positions(published: PublishedTable, orders: list[list[str]], size: list[int]) -> list[int]:
    """Return the place of each cell's value in the cube, row-major."""
    stride = [math.prod(size[i + 1 :]) for i in range(len(orders))]
    place = np.zeros(len(published), np.int64)
    for i, order in enumerate(orders):
        code = {label: k for k, label in enumerate(order)}
        place += np.array([code[str(v)] for v in published.cells.labels[:, i]], np.int64) * stride[i]
    return [int(p) for p in place]


def _dimension(published: PublishedTable, i: int, order: list[str]) -> dict[str, Any]:
    category: dict[str, Any] = {"index": order, "label": {label: label for label in order}}
    if child := children_of(published.cells, i):
        category["child"] = child
    return {"label": published.cells.dimensions[i], "category": category}


def _metric(published: PublishedTable, measures: list[str]) -> dict[str, Any]:
    unit: dict[str, Any] = {}
    if published.unit:
        unit["base"] = published.unit
    if published.decimals is not None:
        unit["decimals"] = published.decimals
    category: dict[str, Any] = {"index": measures, "label": {m: m for m in measures}}
    if unit:
        category["unit"] = {measures[0]: unit}
    return {"label": "measure", "category": category}


def _free(name: str, taken: tuple[str, ...]) -> str:
    while name in taken:
        name += "_"
    return name


__all__ = ["CHANGED", "SUPPRESSED", "json_stat"]
