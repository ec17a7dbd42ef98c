"""Reading a chart's specification, so that its numbers can be asserted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Unit = tuple[dict[str, Any], list[dict[str, Any]]]


def layers(spec: Mapping[str, Any], datasets: Mapping[str, Any] | None = None, data: Any = None) -> Iterator[Unit]:
    """Yield every unit of a chart with its rows; Altair keeps rows that several units share with their parent."""
    known = spec.get("datasets", {}) if datasets is None else datasets
    data = spec.get("data", data)
    for key in ("hconcat", "vconcat", "concat", "layer"):
        for part in spec.get(key, ()):
            yield from layers(part, known, data)
    if "mark" in spec:
        yield dict(spec), known[data["name"]] if "name" in data else data["values"]


def rows(chart: Mapping[str, Any], mark: str, **wanted: Any) -> list[dict[str, Any]]:
    """Return the rows of all layers with this mark whose fields have the wanted values (a field given as ... must exist)."""
    return [
        row
        for unit, found in layers(chart)
        if unit["mark"]["type"] == mark
        for row in found
        if all(k in row and (v is ... or row[k] == v) for k, v in wanted.items())
    ]


def texts(chart: Mapping[str, Any]) -> set[str]:
    return {str(row["text"]) for unit, found in layers(chart) if unit["mark"]["type"] == "text" for row in found}


def titles(chart: Mapping[str, Any]) -> set[str]:
    found = set()
    for unit, _ in layers(chart):
        for channel in ("x", "y"):
            title = unit["encoding"].get(channel, {}).get("title")
            found.add(" ".join(title) if isinstance(title, list) else title)
    return found
