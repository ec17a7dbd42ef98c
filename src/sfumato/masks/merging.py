"""Which categories are merged, so that each has enough records: into leftovers, with neighbours, or with relatives."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sfumato.errors import DataError, SchemaError
from sfumato.schema import Attribute
from sfumato.schema.hierarchy.base import label_of

_MOST_ORDERED = 60


class Merged(NamedTuple):
    """How the categories of one column are merged: "other", "family" (by hierarchy) or "ordered" (with neighbours)."""

    how: str
    old: tuple[Any, ...]
    """Values that were counted: labels, or for ordered columns numbers or dates in order."""
    new: tuple[Any, ...]
    """What each is released as."""


def leftovers(counts: Mapping[str, int], least: int, other: str) -> Merged:
    """Put rare categories into one; the next smallest follow until it is not rare itself."""
    order = sorted(counts, key=lambda v: (counts[v], v))
    gone = {v for v in order if counts[v] < least}
    if gone:
        gone |= {other} & counts.keys()
        total = sum(counts[v] for v in gone)
        for value in [v for v in order if v not in gone]:
            if total >= least:
                break
            gone.add(value)
            total += counts[value]
    return Merged("other", tuple(order), tuple(other if v in gone else v for v in order))


def neighbours(counts: Sequence[int], least: int) -> list[int]:
    """Return the group of each of some ordered categories: the smallest joins its smaller neighbour, until none is too small."""
    size, left, right = list(counts), list(range(-1, len(counts) - 1)), list(range(1, len(counts) + 1))
    heap = [(n, i) for i, n in enumerate(size)]
    heapq.heapify(heap)
    starts = [True] * len(size)
    while heap:
        n, i = heapq.heappop(heap)
        if not starts[i] or n != size[i]:
            continue  # it has been merged since
        beside = [j for j in (left[i], right[i]) if 0 <= j < len(size)]
        if n >= least or not beside:
            break
        a, b = sorted((i, min(beside, key=lambda j: (size[j], j))))
        size[a] += size[b]
        starts[b] = False
        right[a] = right[b]
        if right[b] < len(size):
            left[right[b]] = a
        heapq.heappush(heap, (size[a], a))
    return [int(g) for g in np.cumsum(starts) - 1]


def ordered(counts: Mapping[Any, int], least: int) -> Merged:
    """Merge numbers or dates with their neighbours; each group is released as its (lower) median, which some record has."""
    old = sorted(counts)
    new: list[Any] = []
    for _, members in groupby(
        zip(neighbours([counts[v] for v in old], least), old, strict=True), key=lambda pair: pair[0]
    ):
        group = [value for _, value in members]
        upto = np.cumsum([counts[v] for v in group])
        new += [group[int(np.searchsorted(upto, (upto[-1] + 1) // 2))]] * len(group)
    return Merged("ordered", tuple(old), tuple(new))


def ordered_categories(counts: Mapping[str, int], least: int, attribute: Attribute) -> Merged:
    """Merge ordered categories with their neighbours; each group is released as "first to last"."""
    if strange := sum(v not in attribute.values for v in counts):
        raise DataError(
            f"{strange:,} values of '{attribute.name}' have no number in the schema's value map. "
            "Add them to it (values = {...})."
        )
    old = sorted(counts, key=lambda v: (attribute.values[v], v))
    new: list[str] = []
    for _, members in groupby(
        zip(neighbours([counts[v] for v in old], least), old, strict=True), key=lambda pair: pair[0]
    ):
        group = [value for _, value in members]
        new += [_run(group[0], group[-1])] * len(group)
    return Merged("categories", tuple(old), tuple(new))


def runs(attribute: Attribute) -> dict[str, float]:
    """Return a number for each category and each run of neighbouring ones: the mean of what the schema gives its categories."""
    names = sorted(attribute.values, key=lambda v: (attribute.values[v], v))
    if len(names) > _MOST_ORDERED:
        raise DataError(
            f"'{attribute.name}' has {len(names):,} ordered categories; runs of at most {_MOST_ORDERED} can be named. "
            "Recode it first, or give it a hierarchy and the scale 'partially ordered'."
        )
    numbers = [attribute.values[v] for v in names]
    pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
    return {_run(names[i], names[j]): sum(numbers[i : j + 1]) / (j + 1 - i) for i, j in pairs}


def _run(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def relatives(counts: Mapping[Any, int], least: int, attribute: Attribute) -> Merged:
    """Merge rare categories with their rare siblings, as their parent; if these are rare too, with rare cousins; and so on.

    If what reaches the top is still rare, the smallest categories join it there.
    """
    paths = {label_of(v): path_of(attribute, v) for v in counts}
    height, sizes = max(map(len, paths.values())) - 1, Counter({label_of(v): n for v, n in counts.items()})
    now = {v: path[0] for v, path in paths.items()}
    for above in range(1, height + 1):
        rare = _rare(now, sizes, least)
        for value, path in paths.items():
            level = above + len(path) - height - 1  # a value that is general already has a shorter path
            if now[value] in rare and level > 0:
                now[value] = path[level]
    totals, top = _totals(now, sizes), next(iter(paths.values()))[-1]
    joined = {top}
    for label in sorted(set(now.values()) - joined, key=lambda c: (totals[c], c)):
        if totals[top] >= least or not totals[top]:
            break
        joined.add(label)
        totals[top] += totals[label]
    return Merged("family", tuple(now), tuple(top if label in joined else label for label in now.values()))


def _totals(now: Mapping[str, str], sizes: Mapping[str, int]) -> Counter[str]:
    totals = Counter[str]()
    for value, label in now.items():
        totals[label] += sizes[value]
    return totals


def _rare(now: Mapping[str, str], sizes: Mapping[str, int], least: int) -> set[str]:
    return {label for label, n in _totals(now, sizes).items() if n < least}


def path_of(attribute: Attribute, value: object) -> tuple[str, ...]:
    """Return a value's label and its ancestors in the column's hierarchy; an unknown one is refused without being named."""
    if attribute.hierarchy is None:
        raise DataError(f"column '{attribute.name}' has no hierarchy in the schema.")
    try:
        return attribute.hierarchy.path(value)
    except SchemaError:
        raise DataError(
            f"some values of '{attribute.name}' are not in its hierarchy. Correct them or the hierarchy; codes for missing "
            "answers belong in the schema."
        ) from None
