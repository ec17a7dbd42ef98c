"""The labels of a dimension of a table that exists already, and which of them stand under which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, SchemaError, did_you_mean, listing, some
from sfumato.schema.hierarchy import ROOT, Hierarchy, TreeHierarchy
from sfumato.tables.dimension import TOTAL, Dimension

Whole = NDArray[np.int64]
Nested = Hierarchy | str | Path | Mapping[str, Any] | None
"""How labels nest: a hierarchy, an .hrc file, ``{label: label above it}``, a nested mapping, or None for a single level."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The labels of one dimension, each with the one above it; the total is above all and has no place of its own.

    >>> tree = Tree.of("town", ["Oslo", "Rome", "Italy"], {"Rome": "Italy", "Pisa": "Italy", "Oslo": "Norway"})
    >>> tree.labels, tree.parents.tolist()
    (('Italy', 'Rome', 'Norway', 'Oslo'), [-1, 0, -1, 2])
    """

    name: str
    labels: tuple[str, ...]
    """Every label comes after the one above it."""
    parents: Whole
    """The position of the label above, -1 where that is the total; shape (labels,)."""
    known: Mapping[str, int]
    """How many labels the hierarchy has directly below each label, in the table or not."""

    @classmethod
    def of(cls, name: str, labels: Iterable[str], nested: Nested = None) -> Tree:
        """Return the tree of the labels that occur in a table, without the total."""
        seen = list(dict.fromkeys(labels))
        hierarchy = hierarchy_of(nested, name)
        above: dict[str, str] = {}
        unknown = []
        # the top is the total, unless the table has both
        top = None if hierarchy is not None and hierarchy.root in seen else -1
        for label in seen:
            try:
                path = (label, TOTAL) if hierarchy is None else (*hierarchy.path(label)[:top], TOTAL)
            except SchemaError:
                unknown.append(label)
                continue
            if TOTAL in path[:-1]:
                raise DataError(
                    f"the hierarchy of '{name}' has the label '{TOTAL}' below its top, which is the name of a margin here. "
                    "Give it another name."
                )
            steps = list(dict.fromkeys(path))
            above.update(pairwise(steps))
        if unknown:
            names = _labels(hierarchy)
            raise DataError(
                f"{some(len(unknown), 'label')} of '{name}' {'is' if len(unknown) == 1 else 'are'} not in its hierarchy: "
                f"{listing(unknown, 5)}.{did_you_mean(unknown[0], names)} Correct the spelling, or add "
                f"{'it' if len(unknown) == 1 else 'them'} to the hierarchy."
            )
        return cls(name, *_ordered(above, _first(hierarchy, seen)), known=_below(hierarchy, top))

    @cached_property
    def paths(self) -> Whole:
        """From each label up to just below the total, the label itself repeated first; shape (labels + 1, depth).

        The last row is that of the total: -1 throughout.
        """
        found: list[list[int]] = []
        for i, parent in enumerate(self.parents):
            found.append([i, *(found[parent] if parent >= 0 else [])])
        depth = max((len(p) for p in found), default=1)
        rows = [[p[0]] * (depth - len(p)) + p for p in found]
        return np.array([*rows, [-1] * depth], np.int64).reshape(len(found) + 1, depth)

    @cached_property
    def dimension(self) -> Dimension:
        """The dimension of which every label, and the total, is a value: the table may be finer in some places."""
        return Dimension(self.name, self.labels, self.paths)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Where each label stands; the total is at -1."""
        return {**{label: i for i, label in enumerate(self.labels)}, TOTAL: -1}


def hierarchy_of(nested: Nested, name: str) -> Hierarchy | None:
    """Return a hierarchy from whatever says how labels nest."""
    if nested is None or isinstance(nested, Hierarchy):
        return nested
    if isinstance(nested, str | Path):
        from sfumato.tables.argus.hrc import read_argus_hierarchy

        return read_argus_hierarchy(nested)
    if isinstance(nested, Mapping):
        if all(isinstance(v, str) for v in nested.values()):
            return _from_parents(nested, name)
        return TreeHierarchy.from_tree(nested)
    raise ParameterError(
        f"the hierarchy of '{name}' must be a Hierarchy, the name of an .hrc file, a mapping such as "
        "{'Rome': 'Italy', 'Oslo': 'Norway'}, or None."
    )


def _from_parents(parents: Mapping[str, str], name: str) -> TreeHierarchy:
    """Return the hierarchy that says for each label which one is above it; "Total" for one right below the total."""
    above = {str(k): str(v) for k, v in parents.items()}
    paths = []
    for label in above:
        path = [label]
        while path[-1] in above:
            up = above[path[-1]]
            if up in path:
                circle = [*path[path.index(up) :], up]
                raise DataError(
                    f"the hierarchy of '{name}' goes in a circle: {' under '.join(circle)}. A label cannot stand under itself; "
                    "correct one of these."
                )
            path.append(up)
        paths.append(path)
    inner = set(above.values())
    tops = dict.fromkeys(p[-1] for p in paths)
    if TOTAL in tops:  # some labels are said to be right below the total: then the other tops are, too
        paths, tops = [p if p[-1] == TOTAL else [*p, TOTAL] for p in paths], {TOTAL: None}
    leaves = [p if len(tops) == 1 else [*p, ROOT] for p in paths if p[0] not in inner]
    depth = max((len(p) for p in leaves), default=0)
    return TreeHierarchy([(p[0],) * (depth - len(p)) + tuple(p) for p in leaves])


def _labels(hierarchy: Hierarchy | None) -> list[str]:
    if not isinstance(hierarchy, TreeHierarchy):
        return []
    return list(dict.fromkeys(label for row in hierarchy.rows for label in row))


def _first(hierarchy: Hierarchy | None, seen: list[str]) -> list[str]:
    """Return the labels in the order in which a reader expects them: that of the hierarchy, or of the table."""
    return [*_labels(hierarchy), *seen] if isinstance(hierarchy, TreeHierarchy) else seen


def _below(hierarchy: Hierarchy | None, top: int | None) -> dict[str, int]:
    below: dict[str, set[str]] = {}
    if isinstance(hierarchy, TreeHierarchy):
        for row in hierarchy.rows:
            steps = list(dict.fromkeys([*row[:top], TOTAL]))
            for label, up in pairwise(steps):
                below.setdefault(up, set()).add(label)
    return {label: len(found) for label, found in below.items()}


def _ordered(above: Mapping[str, str], order: Iterable[str]) -> tuple[tuple[str, ...], Whole]:
    """Return the labels with every label after the one above it, and the position of that one."""
    children: dict[str, list[str]] = {}
    for label in dict.fromkeys([*order, *above]):
        if label in above:
            children.setdefault(above[label], []).append(label)
    labels: list[str] = []
    waiting = children.get(TOTAL, [])[::-1]
    while waiting:
        labels.append(waiting.pop())
        waiting += children.get(labels[-1], [])[::-1]
    place = {label: i for i, label in enumerate(labels)}
    return tuple(labels), np.array([place.get(above[label], -1) for label in labels], np.int64)
