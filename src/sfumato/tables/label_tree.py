"""The labels of a dimension of an existing table: which are under which, which is the total, and whether cells add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import (
    DataError,
    ParameterError,
    SchemaError,
    did_you_mean,
    join_names,
    plural,
    refuse_unknown,
    unknown_name,
)
from sfumato.schema.hierarchy import ROOT, Hierarchy, TreeHierarchy
from sfumato.tables.cells import TOTAL, Cells, Dimension
from sfumato.typing import Flags, Numbers, Objects, Whole

USUAL = ("total", "tot", "totaal", "gesamt", "insgesamt", "ensemble", "totale", "all", "_t", "_z", "*")
"""Usual names of totals, in lower case; "_T" is SDMX's."""


def find_total(
    labels: Mapping[str, Sequence[str | None]],
    hierarchies: Mapping[str, Hierarchy | None],
    total: str | Mapping[str, str | None] | None,
) -> dict[str, str | None]:
    """Return the label of each dimension's total: as named, else the top of its hierarchy, else one with a usual name.

    None where a dimension has no total among its labels. Missing labels are totals too, as GROUP BY CUBE writes them.
    """
    if isinstance(total, Mapping):
        refuse_unknown("dimension", labels, "the table", *total)
    found: dict[str, str | None] = {}
    for name, column in labels.items():
        distinct = dict.fromkeys(x for x in column if x is not None)
        if isinstance(total, Mapping) and name in total:
            found[name] = _named(name, total[name], distinct)
        elif isinstance(total, str):
            found[name] = total if total in distinct else None
        else:
            found[name] = _found(name, distinct, hierarchies[name], None in column)
        if found[name] != TOTAL and TOTAL in distinct:
            raise DataError(
                f"'{TOTAL}' is a label of '{name}' but not its total, which is called so here. Give the label another name, or "
                f"say total={{'{name}': '{TOTAL}'}}."
            )
    if isinstance(total, str) and not any(found.values()):
        raise ParameterError(f"no dimension has the label '{total}', which was named as the total.")
    return found


def suspect_total(name: str, dimension: int, labels: Objects, values: Numbers) -> None:
    """Refuse a label that is the sum of all others of its dimension wherever it occurs: it must be a total."""
    others = np.delete(labels, dimension, axis=1).astype(str)
    _, group = (
        np.unique(others, axis=0, return_inverse=True) if others.size else (None, np.zeros(len(labels), np.int64))
    )
    group = group.ravel()
    both = np.bincount(group, values)
    column = labels[:, dimension]
    distinct = dict.fromkeys(column)
    if TOTAL in distinct or len(distinct) < 3 or not values.any():
        return
    for label in distinct:
        own = np.bincount(group, np.where(column == label, values, 0.0))
        if np.allclose(2 * own, both, rtol=1e-9, atol=0.0):
            raise DataError(
                f"label '{label}' of '{name}' is everywhere the sum of the others: is it the total? Say so with "
                f"total={{'{name}': '{label}'}}; if it is not, with total={{'{name}': None}}."
            )


def _named(name: str, label: str | None, distinct: Mapping[str, None]) -> str | None:
    if label is not None and label not in distinct:
        raise ParameterError(unknown_name("label", label, distinct, f"dimension '{name}'"))
    return label


def _found(name: str, distinct: Mapping[str, None], hierarchy: Hierarchy | None, blank: bool) -> str | None:
    if hierarchy is not None and hierarchy.root in distinct and TOTAL not in distinct:
        return hierarchy.root
    usual = [x for x in distinct if x.strip().casefold() in USUAL]
    if len(usual) + blank > 1:
        raise DataError(
            f"several labels of '{name}' could be its total: {join_names([*usual, *(['a missing label'] if blank else [])])}. "
            f"Say which, with total={{'{name}': '{usual[0]}'}}."
        )
    return usual[0] if usual else None


Nested = Hierarchy | str | Path | Mapping[str, Any] | None
"""How labels nest: a hierarchy, an .hrc file, ``{label: label above it}``, a nested mapping, or None for a single level."""


@dataclass(frozen=True, eq=False)
class LabelTree:
    """The labels of one dimension, each with the label above it; the total is above all and has no position.

    >>> tree = LabelTree.of("town", ["Oslo", "Rome", "Italy"], {"Rome": "Italy", "Pisa": "Italy", "Oslo": "Norway"})
    >>> tree.labels, tree.parents.tolist()
    (('Italy', 'Rome', 'Norway', 'Oslo'), [-1, 0, -1, 2])
    """

    name: str
    labels: tuple[str, ...]
    """Every label comes after the one above it."""
    parents: Whole
    """The position of the label above, -1 where that is the total; shape (labels,)."""
    known: Mapping[str, int]
    """Number of labels that the hierarchy has directly below each label, in the table or not."""

    @classmethod
    def of(cls, name: str, labels: Iterable[str], nested: Nested = None) -> LabelTree:
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
                f"{plural(len(unknown), 'label')} of '{name}' {'is' if len(unknown) == 1 else 'are'} not in its hierarchy: "
                f"{join_names(unknown, 5)}.{did_you_mean(unknown[0], names)} Correct the spelling, or add "
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
        """The dimension with every label, and the total, as values: the table may be finer in some places."""
        return Dimension(self.name, self.labels, self.paths)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of each label; the total is at -1."""
        return {**{label: i for i, label in enumerate(self.labels)}, TOTAL: -1}


def hierarchy_of(nested: Nested, name: str) -> Hierarchy | None:
    """Return a hierarchy from any description of how labels nest."""
    if nested is None or isinstance(nested, Hierarchy):
        return nested
    if isinstance(nested, str | Path):
        from sfumato.tables.argus.hierarchy_files import read_argus_hierarchy

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
    """Return the hierarchy from the label above each label; "Total" for one directly below the total."""
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
    if TOTAL in tops:  # some labels are directly below the total: then the other tops are, too
        paths, tops = [p if p[-1] == TOTAL else [*p, TOTAL] for p in paths], {TOTAL: None}
    leaves = [p if len(tops) == 1 else [*p, ROOT] for p in paths if p[0] not in inner]
    depth = max((len(p) for p in leaves), default=0)
    return TreeHierarchy([(p[0],) * (depth - len(p)) + tuple(p) for p in leaves])


def _labels(hierarchy: Hierarchy | None) -> list[str]:
    if not isinstance(hierarchy, TreeHierarchy):
        return []
    return list(dict.fromkeys(label for row in hierarchy.rows for label in row))


def _first(hierarchy: Hierarchy | None, seen: list[str]) -> list[str]:
    """Return the labels in the order that a reader expects: that of the hierarchy, or of the table."""
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


def strides(trees: Sequence[LabelTree]) -> Whole:
    """Return the factors that turn positions of labels, plus one, into one number for each cell."""
    sizes = [len(t.labels) + 1 for t in trees]
    if math.prod(sizes) >= 2**62:
        raise ParameterError("the table has too many dimensions with too many labels. Ask for fewer at a time.")
    return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def positions(cells: Cells, trees: Sequence[LabelTree]) -> Whole:
    """Return the positions of each cell's labels in their trees, -1 for the total; shape (cells, dimensions)."""
    columns = [[t.position[label] for label in cells.labels[:, i]] for i, t in enumerate(trees)]
    return np.array(columns, np.int64).reshape(len(trees), len(cells)).T


@dataclass(frozen=True, eq=False)
class MarginSums:
    """In each dimension, the cell directly above every cell: the equations that make a table additive."""

    cells: Cells
    trees: Sequence[LabelTree]
    above: tuple[Whole, ...]
    """For each dimension the position of the cell above, -1 where there is none; each of shape (cells,)."""
    place: Mapping[int, int]
    """The position of the cell with a key; see `strides`."""

    @classmethod
    def of(cls, cells: Cells, trees: Sequence[LabelTree]) -> MarginSums:
        """Return the equations of a table."""
        codes = positions(cells, trees)
        stride = strides(trees)
        keys = (codes + 1) @ stride
        order = np.argsort(keys)
        above = []
        for i, tree in enumerate(trees):
            up = np.append(tree.parents, -1)[codes[:, i]]
            wanted = keys + (up - codes[:, i]) * stride[i]
            at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
            above.append(np.where((codes[:, i] >= 0) & (keys[at] == wanted), at, -1))
        return cls(cells, trees, tuple(above), dict(zip(keys.tolist(), range(len(keys)), strict=True)))

    def find(self, codes: Whole) -> Whole:
        """Return the positions of cells by the positions of their labels (-1 for the total), shape (n, dimensions)."""
        return np.array([self.place[k] for k in ((codes + 1) @ strides(self.trees)).tolist()], np.int64)

    def check(self, values: Numbers, given: Flags, half: float, what: str) -> None:
        """Refuse values, shape (cells,), that do not add up; `half` is the largest change of a given value by rounding.

        A cell that is the sum of n cells, each rounded by itself, may differ from their sum by n + 1 halves of the last digit.
        A cell that was not given is the sum of its leaves, and may be off by a half for each of them.
        """
        error = np.where(given, half, half * self.cells.sizes)
        wrong: dict[int, list[str]] = {}
        for i, tree in enumerate(self.trees):
            child = np.flatnonzero(self.above[i] >= 0)
            parent = self.above[i][child]
            total, slack, size, parts, leaves = (
                np.bincount(parent, v[child], len(self.cells))
                for v in (values, error, np.abs(values), np.ones(len(values)), self.cells.sizes)
            )
            # only where the cells below cover all leaves, since a margin may be broken down in other places only; and only
            # given margins, since a computed one is the sum of its leaves, as the cells below it must be
            whole = given & (leaves == self.cells.sizes)
            room = slack + error + 1e-9 * (size + np.abs(values))
            for cell in np.flatnonzero(whole & (np.abs(values - total) > room)).tolist():
                gone = tree.known.get(self.cells.labels[cell, i], 0) - int(parts[cell])
                absent = f", where {plural(gone, 'label')} of the hierarchy {'is' if gone == 1 else 'are'} absent"
                wrong.setdefault(cell, []).append(f"over {tree.name}{absent if gone > 0 else ''}")
        if wrong:  # the size of the difference is not reported: it may be one contributor's value
            names = [f"{self.cells.name(cell)} ({'; '.join(over)})" for cell, over in wrong.items()]
            nest = ""
            for tree in self.trees:
                if (tree.parents < 0).all() and sum(f"over {tree.name}" in over for over in wrong.values()) > 1:
                    name = tree.name
                    nest = (
                        f" If labels of '{name}' are sums of others, say how they nest (dimensions={{'{name}': ...}})."
                    )
            raise DataError(
                f"{what} not add up: {plural(len(names), 'cell')} {'is' if len(names) == 1 else 'are'} not the sum of the cells "
                f"below: {join_names(names, 6)}. Correct the cells; a cell that is not in the table counts as empty.{nest} If they "
                "were rounded, say to how many digits (decimals=...); to replace all margins by sums, use margins='compute'."
            )

    def check_larger(self, values: Numbers, room: Numbers, what: str) -> None:
        """Refuse values, shape (cells,), where a cell is smaller than one below it by more than `room`."""
        wrong: dict[int, None] = {}
        for above in self.above:
            child = np.flatnonzero(above >= 0)
            less = values[above[child]] < values[child] - room[above[child]] - room[child] - 1e-9 * np.abs(
                values[child]
            )
            wrong.update(dict.fromkeys(above[child[less]].tolist()))
        if wrong:
            raise DataError(
                f"{plural(len(wrong), 'cell')} {'has' if len(wrong) == 1 else 'have'} {what} than a cell below: "
                f"{join_names((self.cells.name(c) for c in wrong), 6)}. Whoever contributes to a cell contributes to those above it."
            )
