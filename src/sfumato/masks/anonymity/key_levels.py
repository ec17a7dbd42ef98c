"""The levels of a key: what each of its values is released as on each level, and what that loses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data import Kind
from sfumato.data.microdata import Batch, missing_of
from sfumato.errors import DataError, ParameterError, SchemaError, count_of, join_names, refuse_unknown
from sfumato.masks.rare_categories import neighbours
from sfumato.masks.recoding import as_number, generalised, interval_labels
from sfumato.schema import Attribute, Scale
from sfumato.schema.hierarchy import ROOT, label_of
from sfumato.typing import Codes, Flags, Numbers

_STEP = 4
"""Categories of a key without a hierarchy are merged up to sizes that grow by this factor from level to level: 4, 16, 64 records.

They do not depend on k, so that releases for different k choose among the same levels."""


@dataclass(frozen=True, eq=False)
class KeyLevels:
    """One key: v values, L levels from the value itself (0) to the root (L - 1), g labels.

    The last of v + 1 codes stands for missing. It keeps a label of its own on every level below the root, which covers all.
    """

    name: str
    values: tuple[str, ...]
    """The values as text, in order where the key has one."""
    labels: tuple[str | None, ...]
    """What is released, shape (g,): each label of the hierarchy that occurs, the root, and None for a missing value."""
    paths: Codes
    """The label of each value on each level, shape (L, v + 1)."""
    losses: Numbers
    """(leaves - 1)/(leaves of the root - 1) of each label, shape (g,); NaN for a missing value, which has nothing to lose."""
    places: Numbers | None
    """A number for each value by which an ordered key is cut, shape (v,); None where it has no order."""
    new: str | None = None
    """The label of a value that did not occur when the levels were made, where there is no hierarchy to tell."""

    @property
    def height(self) -> int:
        """The level of the root."""
        return len(self.paths) - 1

    @property
    def root(self) -> int:
        """The label that covers everything."""
        return int(self.paths[-1, 0])

    @cached_property
    def index(self) -> dict[str, int]:
        """The code of each value."""
        return {value: i for i, value in enumerate(self.values)}

    @cached_property
    def maps(self) -> tuple[tuple[NDArray[np.int64], int], ...]:
        """For each level a table from codes to classes of values, numbered from 0, and how many there are."""
        found = [np.unique(path, return_inverse=True) for path in self.paths]
        return tuple((at.astype(np.int64), len(labels)) for labels, at in found)

    @cached_property
    def gains(self) -> Numbers:
        """1 - loss of each value on each level, shape (L, v + 1); 0 for a missing value."""
        return np.nan_to_num(1 - self.losses[self.paths], nan=0.0) * (
            np.arange(len(self.values) + 1) < len(self.values)
        )

    def codes(self, batch: Batch) -> Codes:
        """Return the code of each record, shape (n,); refuse a value that the levels do not know."""
        codes, values = batch.codes(self.name)
        table = np.array([*(self.index.get(label_of(v), -1) for v in values), len(self.values)], np.int32)
        found = table[codes]
        if strange := int((found < 0).sum()):
            raise DataError(
                f"{count_of(strange, len(found), ('has', 'have'))} a value of '{self.name}' that did not occur when the levels were "
                "chosen. Apply the mask to the whole file at once, so that it can place them."
            )
        return found

    def with_values(self, attribute: Attribute, batch: Batch) -> KeyLevels:
        """Return the levels with the values of other records as well: by the hierarchy, or as whatever is new."""
        known = batch.column(self.name).codes[1]
        fresh = [v for v in known if label_of(v) not in self.index and v not in attribute.missing]
        if not fresh:
            return self
        if attribute.hierarchy is not None:
            paths = _paths_of(attribute, fresh)
        else:
            paths = [self._new_path(attribute, value) for value in fresh]
        labels = list(self.labels)
        place = {label: i for i, label in enumerate(labels)}
        losses = list(self.losses)
        for path in paths:
            for label in path:
                if label not in place:
                    place[label] = len(labels)
                    labels.append(label)
                    losses.append(_loss(attribute, label, float(len(self.values) + len(fresh))))
        rows = np.array([[place[label] for label in path] for path in paths], np.int32).T
        values = (*self.values, *map(label_of, fresh))
        numbers = None if self.places is None else np.array([*self.places, *(_place(attribute, v) for v in fresh)])
        return replace(
            self, values=values, labels=tuple(labels), losses=np.array(losses), places=numbers,
            paths=np.hstack([self.paths[:, :-1], rows, self.paths[:, -1:]]).astype(np.int32),
        )  # fmt: skip

    def _new_path(self, attribute: Attribute, value: Any) -> tuple[str, ...]:
        """Return what a value that is new is released as on each level, where the levels were made from the data."""
        text, number = label_of(value), _place(attribute, value)
        path = [text]
        for level in range(1, self.height):
            label = self.new
            if self.places is not None and not np.isnan(number):
                label = self._range_of(level, number)
            if label is None:
                raise DataError(
                    f"column '{attribute.name}' has values that did not occur when its levels were made, and no hierarchy says "
                    "where they belong. Give it a hierarchy in the schema."
                )
            path.append(label)
        return (*path, ROOT)

    def _range_of(self, level: int, place: float) -> str | None:
        """Return the range of a level that covers a new place; the root where it lies between two that name their ends."""
        places = self.places
        assert places is not None  # noqa: S101 - the caller has looked
        below = np.flatnonzero(places <= place)
        nearest = int(below[-1]) if len(below) else 0
        label = self.labels[self.paths[level, nearest]]
        members = places[self.paths[level, :-1] == self.paths[level, nearest]]
        covers = (label is not None and label[:1] in "[<≥") or bool(members.min() <= place <= members.max())
        return label if covers else ROOT


class RecodingSolution(ABC):
    """What is released for each record; made by a search, and applied again to other data."""

    @abstractmethod
    def labels(self, keys: Sequence[KeyLevels], codes: Codes) -> Codes:
        """Return the label of each key for each record, shape (keys, n); -1 where nothing covers it."""

    @abstractmethod
    def words(self) -> str:
        """Return in words how good it is."""

    def relabelled(self, keys: Sequence[KeyLevels]) -> Sequence[KeyLevels]:
        """Return the keys with all labels that are released: those of levels, unless there are others."""
        return keys


def key_levels(batch: Batch, name: str) -> KeyLevels:
    """Return the levels of a key: by its hierarchy; without one, rare categories and neighbouring numbers are merged."""
    attribute = batch.schema[name]
    if batch.column(name).kind is Kind.OTHER:
        raise DataError(f"column '{name}' holds {Kind.OTHER}, where categories are needed.")
    codes, standing = batch.codes(name)
    counts = np.bincount(codes[codes >= 0], minlength=len(standing))
    values = [v for v, n in zip(standing, counts.tolist(), strict=True) if n]
    if len(batch) and not values:
        raise DataError(
            f"column '{name}' has no values at all, so there is nothing to generalise. Leave it out of columns."
        )
    numbers = [_place(attribute, v) for v in values]
    places = None if np.isnan(numbers).any() or attribute.scale is Scale.UNORDERED else np.array(numbers, np.float64)
    sizes = counts[counts > 0]
    if places is not None and (np.diff(places) < 0).any():
        order = np.argsort(places, kind="stable")
        values, places, sizes = [values[i] for i in order.tolist()], places[order], sizes[order]
    new = None
    if attribute.hierarchy is not None:
        paths = _paths_of(attribute, values)
    elif places is not None:
        paths = _ranges(batch, attribute, values, sizes)
    else:
        paths, new = _others([label_of(v) for v in values], sizes)
    return _assembled(attribute, [label_of(v) for v in values], paths, places, new)


def _assembled(
    attribute: Attribute,
    values: Sequence[str],
    paths: Sequence[Sequence[str]],
    places: Numbers | None,
    new: str | None,
) -> KeyLevels:
    height = len(paths[0]) if paths else 2
    labels: list[str | None] = list(dict.fromkeys(label for path in paths for label in path)) or [ROOT]
    place = {label: i for i, label in enumerate(labels)}
    table = np.full((height, len(values) + 1), len(labels), np.int32)
    for i, path in enumerate(paths):
        table[:, i] = [place[label] for label in path]
    table[-1, :] = place[paths[0][-1]] if paths else 0
    below = {label: set[str]() for label in place}
    for value, path in zip(values, paths, strict=True):
        for label in path:
            below[label].add(value)
    if attribute.hierarchy is None:
        most = max(len(values) - 1, 1)
        losses = [(len(below[label]) - 1) / most for label in place]
    else:
        losses = _hierarchy_losses(attribute, [str(label) for label in labels], below)
    return KeyLevels(attribute.name, tuple(values), (*labels, None), table, np.array([*losses, np.nan]), places, new)


def _hierarchy_losses(attribute: Attribute, labels: Sequence[str], below: Mapping[Any, set[str]]) -> list[float]:
    """Return (leaves - 1)/(leaves of the root - 1), by the hierarchy, or by the values that occur where it has no end."""
    hierarchy = attribute.hierarchy
    assert hierarchy is not None  # noqa: S101 - the caller has looked
    try:
        root = float(hierarchy.leaves(hierarchy.root))
        sizes = [float(hierarchy.leaves(label)) for label in labels]
    except SchemaError:
        root, sizes = float(max(map(len, below.values()), default=1)), [float(len(below[label])) for label in labels]
    return [min((size - 1) / max(root - 1, 1.0), 1.0) for size in sizes]


def _loss(attribute: Attribute, label: str, count: float) -> float:
    if attribute.hierarchy is None:
        return 1.0 if label == ROOT else 0.0
    try:
        root = float(attribute.hierarchy.leaves(attribute.hierarchy.root))
        return (float(attribute.hierarchy.leaves(label)) - 1) / max(root - 1, 1.0)
    except SchemaError:
        return 1.0 if label == ROOT else min(1.0, 1 / count)


def _paths_of(attribute: Attribute, values: Sequence[Any]) -> list[tuple[str, ...]]:
    """Return the labels of values on each level of the column's hierarchy; the error counts values that it misses."""
    hierarchy = attribute.hierarchy
    assert hierarchy is not None  # noqa: S101 - the caller has looked
    levels = [generalised(attribute, values, level) for level in range(hierarchy.height + 1)]
    return list(zip(*levels, strict=True))


def _place(attribute: Attribute, value: Any) -> float:
    """Return where a value of an ordered column stands, NaN if nobody says."""
    if attribute.values:
        return attribute.values.get(str(value), np.nan)
    if isinstance(value, date):
        return value.toordinal() + (value.hour / 24 + value.minute / 1440 if isinstance(value, datetime) else 0)
    number = as_number(value)
    return np.nan if number is None or isinstance(value, bool) else number


# --- Levels of a key without a hierarchy: small categories become "other", small neighbours become ranges.


def _thresholds(total: int) -> list[int]:
    """Return how many records a category needs at least on each level between the value and the root."""
    found, size = [], _STEP
    while 2 * size <= total:
        found.append(size)
        size *= _STEP
    return found


def _others(values: Sequence[str], sizes: NDArray[Any]) -> tuple[list[tuple[str, ...]], str | None]:
    """Return the paths of unordered categories: below a number of records they are merged; and the label for new values."""
    paths = [[value] for value in values]
    label: str | None = None
    for limit in _thresholds(int(sizes.sum())):
        gone = sizes < limit
        if gone.sum() < 2 or gone.all():
            continue
        label = f"other (below {limit:,} records each)"
        for path, small in zip(paths, gone.tolist(), strict=True):
            path.append(label if small else path[0])
    return [(*path, ROOT) for path in paths], label


def _ranges(batch: Batch, attribute: Attribute, values: Sequence[Any], sizes: NDArray[Any]) -> list[tuple[str, ...]]:
    """Return the paths of ordered values: neighbours are merged into ranges of ever more records."""
    paths = [[label_of(value)] for value in values]
    groups = list(range(len(values)))
    for limit in _thresholds(int(sizes.sum())):
        counts = np.bincount(groups, sizes).astype(np.int64).tolist()
        merged = neighbours(counts, limit)
        if merged[-1] + 1 in (len(counts), 1):
            continue
        groups = [merged[g] for g in groups]
        for path, label in zip(paths, _range_labels(batch, attribute, values, groups), strict=True):
            path.append(label)
    return [(*path, ROOT) for path in paths]


def _range_labels(batch: Batch, attribute: Attribute, values: Sequence[Any], groups: Sequence[int]) -> list[str]:
    if batch.column(attribute.name).kind is Kind.NUMBER:
        starts = [
            next(members)[1] for _, members in groupby(zip(groups, values, strict=True), key=lambda pair: pair[0])
        ]
        names = interval_labels([float(s) for s in starts[1:]])
        return [names[g] for g in groups]
    ends = {
        g: [v for _, v in members] for g, members in groupby(zip(groups, values, strict=True), key=lambda pair: pair[0])
    }
    return [
        label_of(ends[g][0]) if len(ends[g]) == 1 else f"{label_of(ends[g][0])} to {label_of(ends[g][-1])}"
        for g in groups
    ]


def coded_missing(batch: Batch, name: str) -> tuple[Flags, list[str]]:
    """Return which records hold a code for missing rather than nothing, and the code of each as text."""
    column, attribute = batch.column(name), batch.schema[name]
    coded = missing_of(column, attribute) & ~column.missing
    if not coded.any():
        return coded, []
    codes, values = column.codes
    return coded, [label_of(values[c]) for c in codes[coded].tolist()]


def checked_levels(levels: Mapping[str, int], keys: Sequence[KeyLevels]) -> tuple[int, ...]:
    """Return the level of each key; refuse levels that do not name them all, or that a key does not have."""
    names = [key.name for key in keys]
    check_heights("levels", levels, keys)
    if absent := [name for name in names if name not in levels]:
        raise ParameterError(f"levels must name every key; these are not in it: {join_names(absent)}.")
    return tuple(levels[name] for name in names)


def check_heights(which: str, levels: Mapping[str, int], keys: Sequence[KeyLevels]) -> None:
    """Refuse levels of what is no key, or that a key does not have."""
    heights = {key.name: key.height for key in keys}
    refuse_unknown("column", heights, f"the keys that {which} is about", *levels)
    for name, level in levels.items():
        if level > heights[name]:
            raise ParameterError(f"{which} of '{name}' is {level}, but its levels are 0 to {heights[name]}, the root.")
