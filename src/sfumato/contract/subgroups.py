"""A release, subgroup by subgroup: the same measure for men and women, for every region."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, unknown_name
from sfumato.schema.hierarchy.base import label_of

if TYPE_CHECKING:
    from sfumato.contract.release import Release
    from sfumato.engines import Rows
    from sfumato.microdata import Microdata

MOST = 60
"""The most subgroups of one column."""
NO_VALUE = "missing"

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


def subgroups(outcome: Release, column: str) -> Iterator[tuple[str, Release]]:
    """Yield each value of a column with the part of the release that has it, in the order of the values; last those without any.

    A released record belongs to the group of the original record it came from, whatever was done to the column since.
    Simulated records, and files whose records are not aligned, go by the released value. A group without original records is
    left out; one without released records is not.
    """
    own, texts = _coded(outcome.original, column)
    present = np.flatnonzero(np.bincount(own, minlength=len(texts) + 1))
    if len(present) > MOST:
        raise NotApplicable(
            f"column '{column}' has {len(present):,} different values, too many for subgroups (at most {MOST}). "
            "Recode it to fewer first."
        )
    released = [_released(outcome, data, column, own, texts) for data in outcome.implicates]
    files = [data.batch().rows for data in (outcome.original, *outcome.implicates)]  # once: they may have to be fetched
    names = [*texts, _no_value(texts)]
    for group in present.tolist():
        parts = [
            _part(data, rows, codes == group)
            for data, rows, codes in zip((outcome.original, *outcome.implicates), files, [own, *released], strict=True)
        ]
        yield (
            names[group],
            dataclasses.replace(outcome, original=parts[0], implicates=tuple(parts[1:]), memory={}),
        )


def values_by_group(outcome: Release, column: str, values: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Yield each subgroup, as `subgroups` does, with its share of one value per original record in id order, shape (n,)."""
    own, texts = _coded(outcome.original, column)
    own = own[np.argsort(outcome.original.batch([]).ids, kind="stable")]
    names = [*texts, _no_value(texts)]
    for group in np.unique(own).tolist():
        yield names[group], values[own == group]


def _part(data: Microdata, rows: Rows, inside: NDArray[np.bool_]) -> Microdata:
    """Return some records with their ids, in memory."""
    return type(data)(data.engine.hold(rows.take(inside)), data.schema)


def _released(outcome: Release, data: Microdata, column: str, own: Codes, texts: list[str]) -> Codes:
    """Return the group of each released record; -1 for none."""
    ids, origin = data.batch([]).ids, outcome.original.batch([]).ids
    found, new = np.full(len(ids), -1), np.ones(len(ids), bool)
    if outcome.aligned and len(origin):
        order = np.argsort(origin, kind="stable")
        place = order[np.searchsorted(origin, ids, sorter=order).clip(max=len(origin) - 1)]
        found, new = own[place], origin[place] != ids
    return np.where(new, _by_value(data, column, texts), found) if new.any() else found


def _by_value(data: Microdata, column: str, texts: list[str]) -> Codes:
    """Return the group of each record of a release by what it says itself; -1 where no original record says that."""
    if column not in data.engine.kinds:
        raise DataError(
            f"column '{column}' was not released, so new records, and those that are not aligned, belong to no group. "
            "Choose a column that was released."
        )
    codes, theirs = _coded(data, column)
    place = {text: i for i, text in enumerate(texts)}
    table = np.array([*(place.get(text, -1) for text in theirs), len(texts)])
    if theirs and (table[:-1] < 0).all():
        raise NotApplicable(
            f"the release has none of the original's values of '{column}' (was it recoded?), so new records, and those that are "
            "not aligned, belong to no group. Choose another column."
        )
    return table[codes]


def _coded(data: Microdata, column: str) -> tuple[Codes, list[str]]:
    """Return each record's place among the values of a column, one past the last where it has none, and the values as text."""
    if column not in data.engine.kinds:
        raise DataError(unknown_name("column", column, data.engine.kinds, "the data"))
    if data.kind(column) is Kind.OTHER:
        raise NotApplicable(f"column '{column}' holds values of no plain kind, which make no subgroups.")
    batch = data.batch([column])
    codes, values = batch.column(column).codes
    return np.where(batch.missing(column), len(values), codes).astype(np.int64), [label_of(value) for value in values]


def _no_value(texts: list[str]) -> str:
    """Return what to call the records without a value: not by the name of a value."""
    name = NO_VALUE
    while name in texts:
        name = f"({name})"
    return name
