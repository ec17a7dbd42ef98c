"""What a released label says about numbers and dates: "[20, 30)" stands evenly for all that lies between.

Values that were recoded are compared on the original's own scale, as an analyst would have to use them: the share of a label
is spread evenly over what it covers. So recoding loses as much as the values within a label are unevenly distributed. A label
that covers everything ("*"), or that says nothing about numbers, counts as missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Kind
from sfumato.microdata import Batch, Microdata, missing_of
from sfumato.schema import Attribute
from sfumato.schema.hierarchy import ROOT, Hierarchy, TreeHierarchy
from sfumato.schema.hierarchy.date import date_bounds
from sfumato.schema.hierarchy.interval import interval_bounds, written_bounds

Numbers = NDArray[np.float64]

GRID = 200
"""An interval is spread over so many numbers at most, equally far apart."""


@dataclass(frozen=True, eq=False)
class Reading:
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


def read_numbers(original: Microdata, released: Microdata, name: str, values: Numbers | None = None) -> Reading:
    """Return what a released column says about the original's numbers or dates.

    `values` are the only numbers there are, if there are few: then a label is spread over those that it covers.
    """
    batch = released.batch([name])
    column, kind = batch.column(name), original.kind(name)
    nowhere = np.full(len(batch), -1, np.int32)
    if column.kind is kind or (column.kind is Kind.BOOLEAN and _is_flag(original, name)):
        return Reading(column_numbers(batch, name), nowhere, ())
    if column.kind is not Kind.CATEGORY:
        return Reading(np.full(len(batch), np.nan), nowhere, ())
    codes, labels = column.codes
    attributes = original.schema[name], released.schema[name]
    scale = _scale(original, name, values)
    meanings = [_meaning(str(label), attributes, kind, scale) for label in labels]
    spread = [i for i, points in enumerate(meanings) if len(points) > 1]
    numbers = np.array([points[0] if len(points) == 1 else np.nan for points in meanings] + [np.nan])
    place = np.full(len(labels) + 1, -1, np.int32)
    place[spread] = np.arange(len(spread))
    gap = missing_of(column, released.schema[name])
    return Reading(
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
        if leaves := _leaves(attribute.hierarchy, label):
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


def _leaves(hierarchy: Hierarchy | None, label: str) -> list[float]:
    """Return the numbers under a label of a hierarchy that lists them one by one; none under its root."""
    if not isinstance(hierarchy, TreeHierarchy) or label in (hierarchy.root, ROOT):
        return []
    bounds = [interval_bounds(row[0]) for row in hierarchy.rows if label in row]
    return [b[0] for b in bounds if b is not None and b[0] == b[1]]
