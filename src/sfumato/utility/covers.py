"""Which values of the original a released label covers, by the column's hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.errors import SchemaError
from sfumato.schema.hierarchy import ROOT, Hierarchy


def covered_values(
    values: Sequence[object], labels: Iterable[object], hierarchies: Iterable[Hierarchy | None]
) -> list[list[int] | None]:
    """Return for each label the places of the values under it; an empty list where no hierarchy knows it; None for a root.

    A root covers everything, so it says nothing. The first hierarchy that knows a label decides.

    >>> from sfumato.schema.hierarchy import PrefixHierarchy
    >>> covered_values(["481", "482", "511"], ["48*", "*", "zip"], [PrefixHierarchy(3)])
    [[0, 1], None, []]
    """
    trees = [(hierarchy, _below(values, hierarchy)) for hierarchy in hierarchies if hierarchy is not None]
    found: list[list[int] | None] = []
    for label in labels:
        here: list[int] | None = None if label == ROOT else []
        for hierarchy, below in trees:
            if path := _path(hierarchy, label):
                here = None if path[0] in (ROOT, hierarchy.root) else below.get(path[0], [])
                break
        found.append(here)
    return found


def _below(values: Sequence[object], hierarchy: Hierarchy) -> dict[str, list[int]]:
    """Return for each label above some value the places of the values under it."""
    below: dict[str, list[int]] = {}
    for place, value in enumerate(values):
        for label in dict.fromkeys(_path(hierarchy, value)):
            below.setdefault(label, []).append(place)
    return below


def _path(hierarchy: Hierarchy, value: object) -> tuple[str, ...]:
    try:
        return hierarchy.path(value)
    except SchemaError:
        return ()
