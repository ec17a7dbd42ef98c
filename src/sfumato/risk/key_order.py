"""The order of the values of a key, as it was and as it was released: numbers, labels with numbers, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, SchemaError
from sfumato.schema import Attribute
from sfumato.schema.hierarchy import ROOT
from sfumato.schema.hierarchy.base import label_of
from sfumato.schema.hierarchy.interval import interval_bounds

Codes = NDArray[Any]
Span = tuple[float, float]


def original_ranks(codes: Codes, values: Sequence[Any], attribute: Attribute, in_order: bool) -> Codes:
    """Return whole numbers in the order of the values, -1 where missing; `in_order` says that the codes are such."""
    if in_order:
        return codes
    numbers = np.array([attribute.values.get(label_of(value), math.nan) for value in values], np.float64)
    if np.isnan(numbers[np.unique(codes[codes >= 0])]).any():
        raise DataError(
            f"key '{attribute.name}' is ordered, but holds text whose order is not known. Give its values numbers in the schema "
            "(values = {...}), or set its scale to 'unordered'."
        )
    return np.asarray(np.append(np.unique(numbers, return_inverse=True)[1], -1)[codes])


def released_ranks(
    codes: Codes, values: Sequence[Any], before: Attribute, after: Attribute, in_order: bool
) -> tuple[Codes, Codes] | None:
    """Return where the released values begin and end, as whole numbers on one line, -1 where missing; None if that is not known.

    A number begins and ends where it is. An interval has room: it is above another value only if all of it is. So that a value
    and an interval around it are not in any order, as little as two equal values.
    """
    if in_order:
        return codes, codes
    spans: list[Span | None] = [None] * len(values)
    nodes, used = _spans_of_nodes(before), np.unique(codes[codes >= 0]).tolist()
    numbered = all(
        label_of(values[code]) in after.values for code in used
    )  # the schema's numbers go before what a label says
    for code in used:
        label = label_of(values[code])
        if label == ROOT:
            continue
        numbers = (after.values.get(label), before.values.get(label))
        known = next(((float(n), float(n)) for n in numbers if n is not None), nodes.get(label))
        spans[code] = known if numbered else interval_bounds(values[code]) or known
        if spans[code] is None:
            return None
    ends = np.array([s or (math.nan, math.nan) for s in spans], np.float64).reshape(-1, 2)
    line = np.unique(ends[~np.isnan(ends)])
    places = np.where(np.isnan(ends), -1, np.searchsorted(line, ends))
    low, high = (np.append(places[:, k], -1) for k in (0, 1))
    return low[codes], high[codes]


def _spans_of_nodes(attribute: Attribute) -> dict[str, Span]:
    """Return for each label of a hierarchy the smallest and the largest number that belongs to a value below it."""
    spans: dict[str, Span] = {}
    if attribute.hierarchy is None:
        return spans
    for label, number in attribute.values.items():
        try:
            path = attribute.hierarchy.path(label)
        except SchemaError:
            continue
        for node in path[1:-1]:
            low, high = spans.get(node, (number, number))
            spans[node] = (min(low, number), max(high, number))
    return spans
