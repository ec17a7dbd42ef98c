"""A release, subgroup by subgroup: the same measure for men and women, for every region."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, unknown_name

if TYPE_CHECKING:
    from sfumato.contract.release import Release
    from sfumato.microdata import Microdata

MOST = 60
"""The most subgroups of one column."""
NO_VALUE = "missing"


def subgroups(outcome: Release, column: str) -> Iterator[tuple[str, Release]]:
    """Yield each value of a column with the part of the release that has it, in the order of the values.

    A released record belongs to the group of the original record it came from, whatever was done to the column since.
    Simulated records, and files whose records are not aligned, go by the released value. A group without original records is
    left out; one without released records is not.
    """
    labels = _labels(outcome.original, column)
    names = [*sorted({*labels} - {NO_VALUE}), *([NO_VALUE] if NO_VALUE in labels else [])]
    if len(names) > MOST:
        raise NotApplicable(
            f"column '{column}' has {len(names):,} different values, too many for subgroups (at most {MOST}). "
            "Recode it to fewer first."
        )
    released = [_released(outcome, data, column, labels) for data in outcome.implicates]
    for name in names:
        original = _part(outcome.original, labels == name)
        parts = [_part(data, own == name) for data, own in zip(outcome.implicates, released, strict=True)]
        yield str(name), dataclasses.replace(outcome, original=original, implicates=tuple(parts), memory={})


def _part(data: Microdata, inside: NDArray[np.bool_]) -> Microdata:
    """Return some records with their ids, in memory."""
    return type(data)(data.engine.hold(data.batch().rows.take(inside)), data.schema)


def _released(outcome: Release, data: Microdata, column: str, labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the group of each released record."""
    if not outcome.aligned:
        return _labels(data, column)
    ids, origin = data.batch([]).ids, outcome.original.batch([]).ids
    order = np.argsort(origin, kind="stable")
    place = np.searchsorted(origin, ids, sorter=order).clip(max=max(len(origin) - 1, 0))
    found = labels[order[place]] if len(origin) else np.empty(len(ids), object)
    stranger = (origin[order[place]] != ids) if len(origin) else np.ones(len(ids), bool)
    if stranger.any():
        found = np.where(stranger, _labels(data, column), found)
    return found


def _labels(data: Microdata, column: str) -> NDArray[np.object_]:
    """Return each record's value of a column as text, shape (n,)."""
    if column not in data.engine.kinds:
        raise DataError(unknown_name("column", column, data.engine.kinds, "the data"))
    if data.kind(column) is Kind.OTHER:
        raise NotApplicable(f"column '{column}' holds values of no plain kind, which make no subgroups.")
    batch = data.batch([column])
    codes, values = batch.column(column).codes
    texts = np.array([*map(_text, values), NO_VALUE], object)
    return texts[np.where(batch.missing(column), len(values), codes)]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
