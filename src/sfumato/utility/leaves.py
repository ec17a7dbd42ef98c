"""How many values of its hierarchy a released value stands for, when keys are recoded or suppressed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, SchemaError, some
from sfumato.microdata import Microdata
from sfumato.schema import Hierarchy
from sfumato.schema.hierarchy import ROOT, IntervalHierarchy
from sfumato.schema.hierarchy.base import label_of
from sfumato.schema.hierarchy.interval import interval_bounds
from sfumato.utility.compared import Numbers, compared_columns, weights_of

Codes = NDArray[np.int32]


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


def distinct_pairs(before: Codes, after: Codes, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
        f"{some(count, 'released label')} of '{name}' {'is' if count == 1 else 'are'} not among the original's values, {where}, "
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
