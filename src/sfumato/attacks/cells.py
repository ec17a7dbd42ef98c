"""Counted values of a confidential column by class of the keys: what an attribution attack looks at, on either file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes, Missing, classes_of, common_codes
from sfumato.engines import Kind, LocalEngine
from sfumato.errors import DataError
from sfumato.kernels.classes import classes
from sfumato.microdata import Microdata

if TYPE_CHECKING:
    from sfumato.kernels.matching import Held

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The values of a column in each of c classes of the keys: m cells, each a class, a value and a number of records.

    Records whose value is missing are in no cell: there is nothing to attribute, and nothing to attribute it from.
    """

    names: tuple[str, ...]
    keys: tuple[tuple[NDArray[np.int32], Sequence[Any]], ...]
    """Per key, the code of each class, shape (c,), and what the codes stand for; -1 is missing."""
    classes: int
    of: Labels
    """Class of each cell, shape (m,)."""
    value: Numbers
    """Value of each cell, shape (m,): a number, or a code into `values`."""
    count: Labels
    """Records of each cell, shape (m,)."""
    values: Sequence[Any] | None
    """What the codes stand for; None for numbers."""
    records: int
    """Records of the file, those without a value included."""
    find_labels: Callable[[], Labels]

    @cached_property
    def labels(self) -> Labels:
        """Cell of each record, shape (n,), in the file's order; -1 for a record that is in none."""
        return self.find_labels()

    @cached_property
    def held(self) -> Held:
        """The values, sorted within each class."""
        from sfumato.kernels.matching import held

        return held(self.of, self.value, self.count, self.classes)

    def per_record(self, values: NDArray[Any]) -> Numbers:
        """Spread values of the cells over the records, shape (n,); NaN for a record that is in none."""
        return np.asarray(np.append(np.asarray(values, np.float64), np.nan)[self.labels])

    def whole(self) -> Cells:
        """Return the same values without keys: all in one class."""
        return replace(self, names=(), keys=(), classes=1, of=np.zeros_like(self.of))

    def with_values(self, value: Numbers, values: Sequence[Any] | None) -> Cells:
        """Return the same cells with other values."""
        return replace(self, value=value, values=values)

    def keep(self, rule: Missing) -> Cells:
        """Return the cells that the rule for missing keys leaves in."""
        if rule != "ignored" or not self.keys:
            return self
        known = np.logical_and.reduce([codes >= 0 for codes, _ in self.keys])
        if known.all():
            return self
        stays = known[self.of]
        place = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
        of, value, count = self.of[stays], self.value[stays], self.count[stays]
        return replace(self, of=of, value=value, count=count, find_labels=lambda: place[self.labels])


def cells_of(data: Microdata, keys: Sequence[str], column: str, widths: Mapping[str, float]) -> Cells:
    """Count the values of a column by class of the keys, where the data live.

    >>> from sfumato.datasets import five
    >>> found = cells_of(five(), ["sex"], "salary", {})
    >>> found.classes, found.of.tolist(), found.value.tolist()
    (2, [0, 0, 0, 1, 1], [41.0, 52.0, 67.0, 38.5, 310.0])
    """
    numeric = data.kind(column) is Kind.NUMBER
    found = _of_records(data, keys, column, widths) if numeric and isinstance(data.engine, LocalEngine) else None
    if found is None:
        found = _of_classes(classes_of(data, (*keys, column), "value", None, widths), numeric)
    if numeric and not np.isfinite(found.value).all():
        raise DataError(f"column '{column}' holds infinite values, which cannot be compared. Set them to missing.")
    return found


def _of_records(data: Microdata, keys: Sequence[str], column: str, widths: Mapping[str, float]) -> Cells:
    """Numbers in memory: every record is a cell of its own."""
    from sfumato.kernels.matching import sorted_within

    by = classes_of(data, keys, "value", None, widths)
    x = data.numbers(column)
    known = np.flatnonzero(~np.isnan(x))
    # sorted, since neighbours are then looked up one after the other, which is several times as fast
    order = known[sorted_within(by.labels[known], x[known], len(by))]
    place = np.full(len(x), -1, np.int64)
    place[order] = np.arange(len(order))
    of, value, count = by.labels[order], x[order], np.ones(len(order), np.int64)
    return Cells(tuple(keys), _keys(by), len(by), of, value, count, None, len(x), lambda: place)


def _of_classes(found: Classes, numeric: bool) -> Cells:
    """Categories, or data that live elsewhere: cells are the classes of the keys and the column."""
    by = found.among(found.names[:-1])
    codes, values = found.codes[-1], found.values[-1]
    known = codes >= 0
    place = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
    of = classes(found.codes[:-1], len(found))[0][known]  # `among` numbers the classes in the same way
    coded = codes[known]
    value = np.array([float(v) for v in values], np.float64)[coded] if numeric else coded.astype(np.float64)
    return Cells(
        by.names, _keys(by), len(by), of, value, found.sizes[known], None if numeric else values, found.records,
        lambda: place[found.labels],
    )  # fmt: skip


def _keys(by: Classes) -> tuple[tuple[NDArray[np.int32], Sequence[Any]], ...]:
    return tuple(zip(by.codes, by.values, strict=True))


def in_common(mine: Cells, theirs: Cells) -> tuple[NDArray[np.int32], NDArray[np.int32], Cells]:
    """Return both files' key codes in one numbering, shapes (c, p) and (c', p), and the other cells with my codes of values."""
    pairs = [common_codes(a, b) for a, b in zip(mine.keys, theirs.keys, strict=True)]
    codes = [
        np.column_stack(side) if side else np.zeros((cells.classes, 0), np.int32)
        for side, cells in (([a for a, _ in pairs], mine), ([b for _, b in pairs], theirs))
    ]
    if mine.values is not None and theirs.values is not None and mine.values is not theirs.values:
        whole = np.arange(len(mine.values), dtype=np.int32), np.arange(len(theirs.values), dtype=np.int32)
        _, table = common_codes((whole[0], mine.values), (whole[1], theirs.values))
        theirs = theirs.with_values(table[theirs.value.astype(np.int64)].astype(np.float64), mine.values)
    return codes[0], codes[1], theirs
