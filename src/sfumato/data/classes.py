"""Equivalence classes: the records of a file that agree on its keys, counted where the data live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.data.columns import Column, Kind
from sfumato.data.engine import LocalEngine
from sfumato.data.microdata import Microdata, missing_of, numbers_of
from sfumato.errors import DataError, ParameterError, plural
from sfumato.kernels.classes import classes, find_rows, row_finder
from sfumato.schema import Attribute, Schema
from sfumato.typing import Coded, Codes, Flags, Numbers, Whole

Missing = Literal["wildcard", "value", "ignored"]
"""What a missing key means: it matches anything; it is a value of its own; records with one are left out."""


@dataclass(frozen=True, eq=False)
class Classes:
    """One row for each combination of key values that occurs in a file; c rows for n records.

    Under "wildcard" two classes may match each other, so that `matches`, the number of records that a snooper could take for
    one of the class, is more than `sizes`, the number of records that are exactly alike.
    """

    names: tuple[str, ...]
    codes: tuple[Codes, ...]
    """Per key, the code of each class, shape (c,); -1 is missing."""
    values: tuple[Sequence[Any], ...]
    """Per key, what the codes stand for: for the custodian's eyes."""
    sizes: Whole
    """Records of each class, shape (c,)."""
    weights: Numbers | None
    """Sum of their survey weights, shape (c,); None where none were asked for."""
    rule: Missing
    records: int
    """Records of the file, those included that the rule leaves out."""
    find_labels: Callable[[], Whole]

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def labels(self) -> Whole:
        """Class of each record, shape (n,), in the order of `Microdata.batch`; -1 for a record that the rule leaves out."""
        return self.find_labels()

    @cached_property
    def matches(self) -> Whole:
        """How many records of the file match each class under the rule, shape (c,)."""
        return np.round(self.matching(self.sizes)).astype(np.int64)

    @cached_property
    def matched_weights(self) -> Numbers:
        """Sum of the survey weights of the matching records, shape (c,)."""
        if self.weights is None:
            raise ParameterError("these classes were counted without survey weights.")
        return self.matching(self.weights)

    def matching(self, amounts: NDArray[Any], alpha: float = 1.0) -> Numbers:
        """Return for each class the sum of an amount per class over all classes that match it, shape (c,).

        Of another class with a missing key only the share `alpha` counts.
        """
        amounts = np.asarray(amounts, np.float64)
        if self.rule != "wildcard" or not any((codes < 0).any() for codes in self.codes):
            return amounts
        codes = np.column_stack(self.codes)
        lost = np.where((codes < 0).any(axis=1), (1 - alpha) * amounts, 0.0)
        return kernels.matching.wildcard_sums(codes, (amounts - lost)[:, None])[:, 0] + lost

    def per_record(self, values: NDArray[Any]) -> Numbers:
        """Spread values of the classes over the records, shape (n,); NaN for a record that the rule leaves out."""
        table = np.append(np.asarray(values, np.float64), np.nan)
        return np.asarray(table[self.labels])

    def among(self, names: Sequence[str]) -> Classes:
        """Return the classes by some of the keys alone.

        Under "ignored" a record stays left out if any of the original keys is missing.
        """
        places = [self.names.index(name) for name in names]
        joined, _ = classes([self.codes[i] for i in places], len(self))
        kept, sizes, weights = _merged([self.codes[i] for i in places], joined, self.sizes, self.weights)

        def labels() -> Whole:
            return np.append(joined, -1)[self.labels]

        values = tuple(self.values[i] for i in places)
        return Classes(tuple(names), kept, values, sizes, weights, self.rule, self.records, labels)

    def find(self, columns: Mapping[str, Column], schema: Schema, grouped: Collection[str] = ()) -> Whole:
        """Return the class of each row of some columns by the keys' names, shape (rows,); -1 where no class is like it.

        Columns in `grouped` hold the numbers of intervals already.
        """
        here = [_coded(columns[n], schema[n], None, n in grouped) for n in self.names]
        return find_rows(self.codes, [_recoded(*theirs, mine) for theirs, mine in zip(here, self.values, strict=True)])

    def counts_in(self, other: Classes) -> Numbers:
        """Return how many records of another file match each class of this one, by weight where the other has them; (c,).

        The other file's keys must have the same names; its values are compared with this one's as they are.
        """
        mine, theirs = zip(
            *(common_codes(*pair)[0] for pair in zip(_keys(self), _keys(other), strict=True)), strict=True
        )
        amounts = np.asarray(other.sizes if other.weights is None else other.weights, np.float64)
        if self.rule != "wildcard":
            found = find_rows(theirs, mine)
            return np.where(found < 0, 0.0, amounts[found]) if len(amounts) else np.zeros(len(self))
        both = np.vstack([np.column_stack(mine), np.column_stack(theirs)])
        asked = np.arange(len(both)) < len(self)
        return kernels.matching.wildcard_sums(both, np.concatenate([np.zeros(len(self)), amounts])[:, None], asked)[
            : len(self), 0
        ]


def classes_of(
    data: Microdata,
    names: Sequence[str],
    missing: Missing = "wildcard",
    weight: str | None = None,
    widths: Mapping[str, float] | None = None,
    counts: bool = False,
) -> Classes:
    """Count the records of a file that agree on some keys.

    `widths` gives the width of the intervals by which a numeric key is told apart; `weight` names a column to add up. It holds
    survey weights, or `counts`, of which some may be zero: combinations of keys that nobody has are left out.

    Examples
    --------
    >>> from sfumato.datasets import five
    >>> found = classes_of(five(), ["sex"])
    >>> found.sizes.tolist()
    [3, 2]
    """
    widths = dict(widths or {})
    for name in widths:
        if data.kind(name) is not Kind.NUMBER:
            raise ParameterError(
                f"precision is the width of intervals of numbers, but '{name}' holds {data.kind(name)}."
            )
    count = _local if isinstance(data.engine, LocalEngine) else _elsewhere
    found = count(data, tuple(names), missing, weight, widths, counts)
    if missing == "ignored":
        found = _kept(found, np.logical_and.reduce([codes >= 0 for codes in found.codes]))
    return _kept(found, found.weights > 0) if counts and found.weights is not None else found


def _local(
    data: Microdata,
    names: tuple[str, ...],
    missing: Missing,
    weight: str | None,
    widths: Mapping[str, float],
    zeros: bool,
) -> Classes:
    batch = data.batch([*names, *([weight] if weight else [])])
    coded = [_coded(batch.column(n), data.schema[n], widths.get(n)) for n in names]
    labels, sizes = classes([codes for codes, _ in coded], len(batch))
    first = np.empty(len(sizes), np.int64)
    first[labels] = np.arange(len(labels))
    weights = None
    if weight is not None:
        checked = checked_weights(batch.numbers(weight), weight, zeros)
        weights = np.bincount(labels, checked, len(sizes)).astype(np.float64)
    codes = tuple(codes[first] for codes, _ in coded)
    return Classes(names, codes, tuple(v for _, v in coded), sizes, weights, missing, len(batch), lambda: labels)


def _elsewhere(
    data: Microdata,
    names: tuple[str, ...],
    missing: Missing,
    weight: str | None,
    widths: Mapping[str, float],
    zeros: bool,
) -> Classes:
    if weight is not None:
        attribute = data.schema[weight]  # what travels to Spark's workers must not hold the data
        bad = data.engine.reduce(lambda rows: _bad_weights(numbers_of(rows.columns[weight], attribute)), [weight])
        _refuse_weights(bad, weight, zeros)
    groups = data.engine.group(names, [weight] if weight else [], widths, gaps_of(data.schema, widths))
    # what is grouped by intervals has no codes for missing any more
    coded = [_coded(groups.columns[n], data.schema[n], None, n in widths) for n in names]
    joined, _ = classes([codes for codes, _ in coded], len(groups.counts))
    sums = groups.sums[weight] if weight else None
    codes, sizes, weights = _merged([codes for codes, _ in coded], joined, groups.counts, sums)
    values = tuple(v for _, v in coded)

    def labels() -> Whole:
        parts, find = [], row_finder(codes)
        for rows in data.engine.batches(names):
            here = [_coded(rows.columns[n], data.schema[n], widths.get(n)) for n in names]
            aligned = [_recoded(theirs, known, mine) for (theirs, known), mine in zip(here, values, strict=True)]
            parts.append(np.column_stack([rows.ids, find(aligned)]))
        found = np.concatenate(parts)
        order = np.argsort(found[:, 0], kind="stable")
        ids = data.engine.collect([]).ids
        return np.asarray(found[order[np.searchsorted(found[order, 0], ids)], 1])

    return Classes(names, codes, values, sizes, weights, missing, int(groups.counts.sum()), labels)


def _coded(
    column: Column, attribute: Attribute, width: float | None, grouped: bool = False
) -> tuple[Codes, Sequence[Any]]:
    """Return the codes of a column and what they stand for; missing is -1, whatever the way it was told."""
    if width is not None:
        column = Column.from_numbers(np.floor(numbers_of(column, attribute) / width))
        grouped = True
    if column.kind is Kind.OTHER and not column.plain:
        raise DataError(
            f"column '{attribute.name}' holds lists or the like, which cannot be told apart as keys. "
            "Turn them into text or numbers, or leave the column out of the keys."
        )
    codes, values = column.ranks
    if grouped or not attribute.missing or column.kind in (Kind.DATE, Kind.OTHER):
        return codes, values
    return np.where(missing_of(column, attribute), np.int32(-1), codes), values


def gaps_of(schema: Schema, names: Iterable[str]) -> dict[str, list[float]]:
    """Return the numbers that stand for missing in columns of numbers."""
    return {n: [float(c) for c in schema[n].missing if isinstance(c, int | float)] for n in names}


def _merged(
    columns: Sequence[Codes], joined: Whole, sizes: Whole, weights: Numbers | None
) -> tuple[tuple[Codes, ...], Whole, Numbers | None]:
    """Add up rows that became the same class."""
    count = int(joined.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[joined] = np.arange(len(joined))
    added = np.zeros(count, np.int64)
    np.add.at(added, joined, sizes)
    total = None if weights is None else np.bincount(joined, weights, count).astype(np.float64)
    return tuple(codes[first] for codes in columns), added, total


def _kept(found: Classes, keep: Flags) -> Classes:
    """Leave classes out, and their records."""
    if keep.all():
        return found
    place = np.where(keep, np.cumsum(keep) - 1, -1)

    def labels() -> Whole:
        return place[found.labels]

    kept = tuple(codes[keep] for codes in found.codes)
    weights = None if found.weights is None else found.weights[keep]
    return Classes(found.names, kept, found.values, found.sizes[keep], weights, found.rule, found.records, labels)


def _keys(found: Classes) -> list[Coded]:
    return list(zip(found.codes, found.values, strict=True))


def common_codes(*files: Coded) -> tuple[tuple[Codes, ...], tuple[Any, ...]]:
    """Return all files' codes of a column in one numbering, which begins with the first file's, and the values they stand for.

    Values are compared as they are; missing stays -1.

    >>> codes, values = common_codes((np.array([0, 1]), ["a", "b"]), (np.array([1, -1, 0]), ["b", "c"]))
    >>> [part.tolist() for part in codes], values
    ([[0, 1], [2, -1, 1]], ('a', 'b', 'c'))
    """
    numbering: dict[Any, int] = {}
    parts = []
    for codes, values in files:
        table = np.array([*(numbering.setdefault(v, len(numbering)) for v in values), -1], np.int32)
        parts.append(table[codes])
    return tuple(parts), tuple(numbering)


def _recoded(codes: Codes, values: Sequence[Any], known: Sequence[Any]) -> Codes:
    """Return codes into `known` instead of `values`; one past its end, which is not missing, for a value not known."""
    numbering = {value: i for i, value in enumerate(known)}
    return np.array([*(numbering.get(v, len(known)) for v in values), -1], np.int32)[codes]


def checked_weights(weights: Numbers, name: str, zeros: bool = False) -> Numbers:
    """Return survey weights; refuse any that is missing, negative, infinite, or zero (unless those are allowed)."""
    _refuse_weights(_bad_weights(weights), name, zeros)
    return weights


def _bad_weights(weights: Numbers) -> Numbers:
    with np.errstate(invalid="ignore"):
        return np.array([(~np.isfinite(weights)).sum(), (weights < 0).sum(), (weights == 0).sum()], np.float64)


def _refuse_weights(bad: Numbers, name: str, zeros: bool) -> None:
    for count, what in zip(bad, ("no weight", "a negative weight", "a weight of zero"), strict=True):
        if count and not (zeros and what == "a weight of zero"):
            has = f"{plural(int(count))} {'has' if count == 1 else 'have'}"
            raise DataError(
                f"{has} {what} in '{name}', but each stands for at least somebody in the population. "
                "Correct or drop such records, or score without weights."
            )
