"""Recoded values: what a released label covers, says about numbers, and how many original values it stands for."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.contract import Release
from sfumato.data import Kind, classes_of
from sfumato.data.microdata import Batch, Microdata, missing_of
from sfumato.errors import NotApplicable, SchemaError, plural
from sfumato.kernels.classes import row_finder
from sfumato.schema import Attribute
from sfumato.schema.hierarchy import ROOT, Hierarchy, TreeHierarchy, label_of
from sfumato.schema.interval_hierarchy import IntervalHierarchy, date_bounds, interval_bounds, written_bounds
from sfumato.typing import Codes, Numbers, Whole
from sfumato.utility.comparison import compared_columns, weights_of


def covered_values(
    values: Sequence[object], labels: Iterable[object], hierarchies: Iterable[Hierarchy | None]
) -> list[list[int] | None]:
    """Return for each label the places of the values under it; an empty list where no hierarchy knows it; None for a root.

    A root covers everything, so it says nothing. The first hierarchy that knows a label decides.

    >>> from sfumato.schema import PrefixHierarchy
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


# --- What a released label says about numbers and dates: "[20, 30)" stands evenly for all that lies between.
#
# Values that were recoded are compared on the original's own scale, as an analyst would have to use them: the share of a label
# is spread evenly over what it covers. So recoding loses as much as the values within a label are unevenly distributed. A label
# that covers everything ("*"), or that says nothing about numbers, counts as missing.


GRID = 200
"""Largest number of equally spaced numbers that an interval is spread over."""


@dataclass(frozen=True, eq=False)
class LabelNumbers:
    """A released column as numbers: t records."""

    numbers: Numbers
    """Shape (t,); NaN where the value is missing, or covers several numbers."""
    place: NDArray[np.int32]
    """Which of `spreads` a value stands for, shape (t,); -1 for none."""
    spreads: tuple[Numbers, ...]
    """For each label that covers several numbers, the numbers over which its share is spread evenly."""


def column_numbers(batch: Batch, name: str) -> Numbers:
    """Return a column of numbers, or of dates as days since 1970, shape (n,); NaN where missing."""
    column = batch.column(name)
    return column.days if column.kind is Kind.DATE else batch.numbers(name)


def read_numbers(original: Microdata, released: Microdata, name: str, values: Numbers | None = None) -> LabelNumbers:
    """Return what a released column says about the original's numbers or dates.

    `values` are the only numbers there are, if there are few: then a label is spread over those that it covers.
    """
    batch = released.batch([name])
    column, kind = batch.column(name), original.kind(name)
    nowhere = np.full(len(batch), -1, np.int32)
    if column.kind is kind or (column.kind is Kind.BOOLEAN and _is_flag(original, name)):
        return LabelNumbers(column_numbers(batch, name), nowhere, ())
    if column.kind is not Kind.CATEGORY:
        return LabelNumbers(np.full(len(batch), np.nan), nowhere, ())
    codes, labels = column.codes
    attributes = original.schema[name], released.schema[name]
    scale = _scale(original, name, values)
    meanings = [_meaning(str(label), attributes, kind, scale) for label in labels]
    spread = [i for i, points in enumerate(meanings) if len(points) > 1]
    numbers = np.array([points[0] if len(points) == 1 else np.nan for points in meanings] + [np.nan])
    place = np.full(len(labels) + 1, -1, np.int32)
    place[spread] = np.arange(len(spread))
    gap = missing_of(column, released.schema[name])
    return LabelNumbers(
        np.where(gap, np.nan, numbers[codes]),
        np.where(gap, np.int32(-1), place[codes]),
        tuple(np.array(meanings[i]) for i in spread),
    )


def _is_flag(original: Microdata, name: str) -> bool:
    """Whether a column of numbers holds 0 and 1 only, for which false and true are other words."""
    return original.kind(name) is Kind.NUMBER and not set(original.batch([name]).column(name).codes[1]) - {0, 1}


@dataclass(frozen=True, eq=False)
class _Scale:
    """Which numbers there are."""

    low: float
    high: float
    whole: bool
    values: Numbers | None


def _scale(original: Microdata, name: str, values: Numbers | None) -> _Scale:
    """Return between which numbers open classes end (the schema's bounds, else the original's own), and whether all are whole."""
    numbers = column_numbers(original.batch([name]), name)
    known = numbers[np.isfinite(numbers)]
    low, high = original.schema[name].bounds
    return _Scale(
        float(known.min(initial=math.inf)) if low is None else low,
        float(known.max(initial=-math.inf)) if high is None else high,
        bool((known == np.floor(known)).all()),
        values,
    )


def _meaning(
    label: str, attributes: tuple[Attribute, Attribute], kind: Kind, scale: _Scale
) -> Sequence[float] | Numbers:
    """Return the numbers that a label stands for, each as much as the others; none if it says nothing about them."""
    bounds = (date_bounds if kind is Kind.DATE else written_bounds)(label)
    if bounds is not None:
        return _between(*bounds, scale)
    for attribute in attributes:
        if leaves := _hierarchy_leaves(attribute.hierarchy, label):
            return leaves
    number = attributes[1].values.get(label)
    return [] if number is None else [number]


def _between(low: float, high: float, scale: _Scale) -> Numbers:
    """Return what lies between two numbers, both included: of the few values there are, of whole numbers, or of all."""
    if low == high:
        return np.array([low])
    if scale.values is not None and len(inside := scale.values[(scale.values >= low) & (scale.values <= high)]):
        return inside
    low = min(scale.low, high) if math.isinf(low) else low
    high = max(scale.high, low) if math.isinf(high) else high
    if scale.whole:
        low, high = math.ceil(low), math.floor(high)
        if high - low < GRID:
            return np.arange(low, high + 1, dtype=np.float64) if low <= high else np.array([low], np.float64)
    return np.asarray(low + (np.arange(GRID) + 0.5) * ((high - low) / GRID), np.float64)


def _hierarchy_leaves(hierarchy: Hierarchy | None, label: str) -> list[float]:
    """Return the numbers under a label of a hierarchy that lists them one by one; none under its root."""
    if not isinstance(hierarchy, TreeHierarchy) or label in (hierarchy.root, ROOT):
        return []
    bounds = [interval_bounds(row[0]) for row in hierarchy.rows if label in row]
    return [b[0] for b in bounds if b is not None and b[0] == b[1]]


# --- How many values of its hierarchy a released value stands for, when keys are recoded or suppressed.


def key_columns(data: Microdata, over: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that were recoded: those named, or the schema's keys."""
    names = data.schema.names(role="key") if over is None else over
    if not names and over is None:
        raise NotApplicable(
            "there are no keys: no column has the role 'key'. Name the recoded columns with `over`, or give them that role."
        )
    return compared_columns(data, names)


def each_implicate(outcome: Release) -> Iterator[Release]:
    """Yield a release of each implicate."""
    if len(outcome.implicates) == 1:
        yield outcome
        return
    for data in outcome.implicates:
        yield dataclasses.replace(outcome, implicates=(data,), memory={})


def hierarchies_of(outcome: Release, name: str) -> list[Hierarchy]:
    """Return what may know a column's released labels: the original's hierarchy, the release's, and the labels of intervals.

    The first that knows a label decides what it covers.
    """
    found = [outcome.original.schema[name].hierarchy]
    if name in outcome.masked.engine.kinds:
        found += [outcome.masked.schema[name].hierarchy, _intervals(outcome, name)]
    return [h for i, h in enumerate(found) if h is not None and h not in found[:i]]


def _intervals(outcome: Release, name: str) -> Hierarchy | None:
    """Return the intervals that numbers were cut into, read from their labels."""
    if outcome.original.kind(name) is not Kind.NUMBER or outcome.masked.kind(name) is not Kind.CATEGORY:
        return None
    known = map(interval_bounds, outcome.masked.batch([name]).column(name).codes[1])
    wide = [(low, math.nextafter(high, math.inf)) for low, high in filter(None, known) if low < high]
    edges = sorted({end for pair in wide for end in pair if math.isfinite(end)})
    return IntervalHierarchy([edges]) if edges else None


def known_mass(data: Microdata, name: str, weighted: bool) -> Numbers:
    """Return how many records have each value of a column, by the codes of the column, or the sum of their weights."""
    batch, weights = data.batch([name]), weights_of(data, weighted)
    codes, values = batch.column(name).codes
    known = ~batch.missing(name)
    return np.bincount(codes[known], None if weights is None else weights[known], len(values)).astype(np.float64)


def leaves_of_root(outcome: Release, name: str) -> float:
    """Return how many values there are at the bottom of the hierarchy; in the original, where there is no hierarchy.

    Intervals without an end are counted between the bounds that the schema declares, or else as far as the original goes.
    """
    known = hierarchies_of(outcome, name)
    if not known:
        return float(max((known_mass(outcome.original, name, False) > 0).sum(), 1))
    try:
        return float(known[0].leaves(known[0].root))
    except SchemaError:
        return _between_bounds(outcome.original, name, known[0])


def _between_bounds(original: Microdata, name: str, hierarchy: Hierarchy) -> float:
    """Return how many numbers there are from the lower to the upper bound, in the steps in which the hierarchy counts."""
    x = original.numbers(name)
    known = x[np.isfinite(x)]
    ends = [known.min(initial=np.inf), known.max(initial=-np.inf)]
    low, high = (end if bound is None else bound for end, bound in zip(ends, original.schema[name].bounds, strict=True))
    if not low <= high:
        return 1.0
    for number in (low, high):
        finest = hierarchy.path(number)[1]
        bounds = interval_bounds(finest)
        if bounds is not None and math.isfinite(width := bounds[1] - bounds[0]):
            return math.floor((high - low) * hierarchy.leaves(finest) / width + 1e-6) + 1.0
    return math.floor(high - low) + 1.0


def leaves_of_values(outcome: Release, data: Microdata, name: str) -> Numbers:
    """Return how many values each value of a column of `data` covers, by the codes of the column, shape (values,).

    A label counts the values under it in the hierarchy. Without one, a number, a date and a value of the original count one. A
    label that is neither, made by recoding with a list, counts the original values that were released under it; that takes
    aligned records, else it is refused.
    """
    known, root = hierarchies_of(outcome, name), leaves_of_root(outcome, name)
    _, values = data.batch([name]).column(name).codes
    kind = data.kind(name)
    if kind is not Kind.CATEGORY and (not known or (isinstance(known[0], IntervalHierarchy) and kind is Kind.NUMBER)):
        return np.ones(len(values))
    sizes = np.array([_leaves(known, value, root) for value in values], np.float64)
    if np.isnan(sizes).any():
        kept = {label_of(v) for v in outcome.original.batch([name]).column(name).codes[1]}
        sizes[[bool(np.isnan(s)) and label_of(v) in kept for s, v in zip(sizes, values, strict=True)]] = 1
    used = known_mass(data, name, False) > 0
    if (strange := np.isnan(sizes) & used).any():
        if not outcome.aligned or data is outcome.original:
            raise unknown_labels(name, int(strange.sum()), bool(known))
        before, after = paired_codes(outcome, name)
        both = (before >= 0) & np.append(strange, False)[after]
        _, label = distinct_pairs(before[both], after[both], len(values))
        sizes = np.where(strange, np.bincount(label, minlength=len(values)), sizes)
    return np.minimum(np.maximum(np.nan_to_num(sizes, nan=1.0), 1.0), root)


def paired_codes(outcome: Release, name: str) -> tuple[Codes, Codes]:
    """Return the codes of a column's original and released value for each original record, shape (n,); -1 if there is none."""
    before, after = known_codes(outcome.original, name), known_codes(outcome.masked, name)
    left, right = outcome.matched
    if left is None:
        return before, after
    released = np.full(len(before), -1, np.int32)
    released[left] = after[right]
    return before, released


def distinct_pairs(before: Codes, after: Codes, count: int) -> tuple[Whole, Whole]:
    """Return the pairs of codes that occur, each once; `after` codes are below `count`."""
    old, new = np.divmod(np.unique(before.astype(np.int64) * count + after), count)
    return old, new


def known_codes(data: Microdata, name: str) -> Codes:
    """Return the codes of a column, shape (n,); -1 where it is missing, or coded as missing."""
    batch = data.batch([name])
    return np.where(batch.missing(name), np.int32(-1), batch.column(name).codes[0])


def labels_on(hierarchy: Hierarchy | None, values: Sequence[Any], level: int) -> list[str | None]:
    """Return the label of each value on a level; None for a value that the hierarchy does not hold."""
    if hierarchy is None:
        return [label_of(value) for value in values]
    try:
        return list(hierarchy.generalise(values, level))
    except SchemaError:
        return [_label(hierarchy, value, level) for value in values]


def unknown_labels(name: str, count: int, has_hierarchy: bool) -> NotApplicable:
    """Return the sentence for released labels of which nobody can say what they cover."""
    where = "and the column's hierarchy does not hold them" if has_hierarchy else "and the column has no hierarchy"
    return NotApplicable(
        f"{plural(count, 'released label')} of '{name}' {'is' if count == 1 else 'are'} not among the original's values, {where}, "
        "so nobody can say what they stand for. Give it a hierarchy that holds them, or say which record is whose: "
        "Release.of(original, masked, align=...)."
    )


def _label(hierarchy: Hierarchy, value: object, level: int) -> str | None:
    try:
        return str(hierarchy.generalise([value], level)[0])
    except SchemaError:
        return None


def _leaves(known: Sequence[Hierarchy], value: object, root: float) -> float:
    if label_of(value) == ROOT:
        return root
    for hierarchy in known:
        with suppress(SchemaError):
            return float(hierarchy.leaves(value))
    return math.nan


# --- Which records a file tells apart: its classes by the keys, and the records that are in none.


@dataclass(frozen=True, eq=False)
class DistinctRecords:
    """What a file tells apart by its keys; a key that is missing, or generalised to the root, may be any value."""

    classes: int
    """Combinations of the keys; one with a missing key counts only if it looks like no other."""
    alike: float
    """Pairs of records that look the same, each record with itself among them; those suppressed are left out."""
    told: int
    """Records that are not suppressed."""
    suppressed: int
    """Records that are not released, or of which every key is missing or generalised to the root."""

    @property
    def records(self) -> int:
        """All records."""
        return self.told + self.suppressed

    @property
    def discernibility(self) -> float:
        """The pairs that look the same, each suppressed record counted as alike to all (Bayardo and Agrawal 2005)."""
        return self.alike + float(self.suppressed) * self.records


def distinct_records(outcome: Release, data: Microdata, names: Sequence[str]) -> DistinctRecords:
    """Return what a file of the release tells apart; a key that is not released tells nothing apart."""
    gone = max(len(outcome.original) - len(data), 0)
    here = [name for name in names if name in data.engine.kinds]
    if not here:
        return DistinctRecords(0, 0.0, 0, len(data) + gone)
    found = classes_of(data, here, "value")
    codes = np.column_stack(found.codes)
    for j, (name, values) in enumerate(zip(here, found.values, strict=True)):
        if data.kind(name) is Kind.CATEGORY:
            roots = {ROOT, *(hierarchy.root for hierarchy in hierarchies_of(outcome, name))}
            codes[np.isin(codes[:, j], [i for i, value in enumerate(values) if value in roots]), j] = -1
    said = (codes >= 0).any(axis=1)
    codes, sizes = codes[said], found.sizes[said].astype(np.float64)
    whole = (codes >= 0).all(axis=1)
    looks = sizes if whole.all() else kernels.matching.wildcard_sums(codes, sizes[:, None])[:, 0]
    classes = max(int((whole | (looks == sizes)).sum()), int(said.any()))
    told = int(sizes.sum())
    return DistinctRecords(classes, float(sizes @ looks), told, len(data) - told + gone)


_ROOM = 2**22
"""So many parts of labels are in memory at once, or those of one combination of labels."""


@dataclass(frozen=True, eq=False)
class LabelCells:
    """Label i stands for cell i, for the m cells of a column; of each further label a share lies in some of the cells.

    A label that is not mentioned stands for no cell at all.
    """

    count: int
    """m."""
    label: Whole
    """The further labels, m or more, in rising order, once for each of their cells; shape (t,)."""
    cell: Whole
    share: Numbers

    @classmethod
    def none(cls, count: int) -> LabelCells:
        """Return the labels of `count` cells, and no others."""
        return cls(count, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def of(cls, labels: Whole, count: int, label: Whole, cell: Whole, times: Whole) -> tuple[Codes, LabelCells]:
        """Return the labels of the records, shape (n,), and what they stand for; `times` says how often a label has a cell.

        A label that has but one cell becomes that of the cell.
        """
        sizes, total = np.bincount(label), np.bincount(label, times)
        lone = sizes[label] == 1
        own = np.arange(max(len(sizes), int(labels.max(initial=0)) + 1))
        own[label[lone]] = cell[lone]
        several = ~lone
        spread = cls(count, label[several], cell[several], (times / total[label])[several])
        return own[labels].astype(np.int32), spread

    @cached_property
    def layers(self) -> list[tuple[Codes, Numbers]]:
        """For each cell a label that has it and how much of the label, shape (m,) each; as often as the most labels of a cell."""
        depth = np.zeros(len(self.cell), np.int64)
        order = np.argsort(self.cell, kind="stable")
        sizes = np.bincount(self.cell, minlength=self.count)
        depth[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
        layers = [(np.arange(self.count, dtype=np.int32), np.ones(self.count))]
        for level in range(1, int(sizes.max(initial=0)) + 1):
            here = depth == level
            label, share = np.full(self.count, self._nobody, np.int32), np.zeros(self.count)
            label[self.cell[here]], share[self.cell[here]] = self.label[here], self.share[here]
            layers.append((label, share))
        return layers

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return 1 + int(np.bincount(self.cell, minlength=1).max())

    @cached_property
    def sizes(self) -> Whole:
        """How many cells each label has; the last one has none, and stands for all labels that are not mentioned."""
        sizes = np.bincount(self.label, minlength=self._nobody + 1)
        sizes[: self.count] = 1
        return sizes

    def merge_unknown(self, labels: Codes) -> Codes:
        """Return labels, all that stand for no cell as one; shape (n,)."""
        return np.minimum(labels, self._nobody)

    def parts(self, labels: Codes) -> tuple[Whole, Whole, Numbers]:
        """Return the parts of some known labels: the place of the label they belong to, the cell, and the share; (s,) each."""
        sizes = self.sizes[labels]
        starts = (np.cumsum(self.sizes) - self.sizes)[labels]
        of = np.repeat(np.arange(len(labels)), sizes)
        at = starts[of] + np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of]
        cells = np.concatenate([np.arange(self.count), self.cell])
        return of, cells[at], np.concatenate([np.ones(self.count), self.share])[at]

    @property
    def _nobody(self) -> int:
        """A label that no record has: one past the last."""
        return int(self.label[-1]) + 1 if len(self.label) else self.count


def spread_amounts(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells]
) -> Numbers:
    """Return how much lies in each of c combinations of cells, from the amounts of r combinations of labels; shape (c,).

    `cells` (c,) and `labels` (r,) have one array for each of the columns. Either each combination of cells collects what its
    labels hold, or the labels are taken apart: whichever is less work. Neither forms the cross product of all cells.
    """
    labels = [of.merge_unknown(label) for of, label in zip(meaning, labels, strict=True)]
    parts = np.prod([of.sizes[label] for of, label in zip(meaning, labels, strict=True)], axis=0, dtype=np.float64)
    if parts.sum() < len(cells[0]) * math.prod(of.depth for of in meaning):
        return _taken_apart(cells, labels, amounts, meaning, parts)
    return _collected(cells, labels, amounts, meaning)


def _collected(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells]
) -> Numbers:
    found, find = np.zeros(len(cells[0])), row_finder(labels)
    for layers in itertools.product(*(of.layers for of in meaning)):
        row = find([label[cell] for (label, _), cell in zip(layers, cells, strict=True)])
        part = np.where(row < 0, 0.0, amounts[row]) if len(amounts) else np.zeros(len(row))
        for (_, share), cell in zip(layers, cells, strict=True):
            part = part * share[cell]
        found += part
    return found


def _taken_apart(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells], parts: Numbers
) -> Numbers:
    found, find = np.zeros(len(cells[0])), row_finder(cells)
    chunk = (np.cumsum(parts) // _ROOM).astype(np.int64)
    for rows in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(chunk)) + 1):
        amount, here = amounts[rows], list[Whole]()
        for label, of in zip(labels, meaning, strict=True):
            whole, cell, share = of.parts(label[rows])
            amount, rows = amount[whole] * share, rows[whole]
            here = [*(column[whole] for column in here), cell]
        row = find(here)
        found += np.bincount(row[row >= 0], amount[row >= 0], len(found))
    return found
