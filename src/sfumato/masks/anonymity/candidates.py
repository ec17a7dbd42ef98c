"""Candidates for a release: the file's distinct rows under one choice of levels, and whether the models hold there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.contract.class_model import AtMost, CandidateClasses, ClassValues, Model, model_measure, model_words
from sfumato.data import Kind
from sfumato.data.microdata import Batch
from sfumato.errors import DataError
from sfumato.kernels.classes import ClassCells, class_cells, classes
from sfumato.masks.anonymity.key_levels import KeyLevels
from sfumato.schema import Attribute
from sfumato.typing import Codes, Flags, Numbers, Whole

Levels = tuple[int, ...]
Maps = Sequence[tuple[NDArray[np.int64], int]]
"""For each key a table from codes to classes of values, and how many of these there are."""


@dataclass(frozen=True, eq=False)
class ConfidentialColumn:
    """A confidential column, by distinct row."""

    attribute: Attribute
    kind: Kind
    values: Sequence[Any]
    codes: Codes
    """The value of each row of the file, shape (r,); -1 where it is missing."""
    memory: dict[Any, Any] = field(default_factory=dict)
    whole: Whole | None = None
    """Records of the whole file with each value, where these rows are a part of what is released."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What a release must keep: k, models, and how many records may be left out."""

    k: int
    models: tuple[Model, ...] = ()

    def least(self, complete: bool) -> int:
        """Return how many records a class needs at least.

        Unless confidential values are `complete`, a model that looks at them says nothing of a class without any.
        """
        single = (m for m in self.models if not isinstance(m, AtMost) and (complete or not m.confidential))
        return max([self.k, *(int(m.least) for m in single)])

    @cached_property
    def closed(self) -> tuple[Model, ...]:
        """The models that coarser keys can only help, besides the size of a class."""
        return tuple(
            m for m in self.models if not isinstance(m, AtMost) and m.closed and (m.uses_population or m.confidential)
        )

    @cached_property
    def single(self) -> tuple[Model, ...]:
        """The models that look at one class at a time."""
        return tuple(m for m in self.models if not isinstance(m, AtMost))

    @cached_property
    def limits(self) -> tuple[AtMost, ...]:
        """The models that limit a number for the whole file."""
        return tuple(m for m in self.models if isinstance(m, AtMost))

    @property
    def settled(self) -> bool:
        """Whether coarser keys never break more records: k alone, or with closed models."""
        return all(not isinstance(m, AtMost) and m.closed for m in self.models)

    @property
    def confidential(self) -> tuple[str, ...]:
        """The confidential columns that some model looks at."""
        return tuple(dict.fromkeys(c for m in self.models for c in model_measure(m).confidential))  # type: ignore[attr-defined]

    @property
    def uses_population(self) -> bool:
        """Whether some model looks at a table of the population."""
        return any(model_measure(m).uses_population for m in self.models)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Which classes of a candidate are released, and why not all."""

    kept: Flags
    """Shape (c,)."""
    suppressed: int
    """Records of the other classes."""
    reason: str = ""
    """Why the candidate is no release; empty if it is one."""
    closed: bool = False
    """Whether finer keys break it as well."""


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """A file by its distinct rows: r of the file, then those of the population alone, s in all."""

    keys: tuple[KeyLevels, ...]
    rows: Any
    """`kernels.lattice.CodedRows` of the s rows: codes of the keys, and how many records of the file have them."""
    own: int
    """r: how many rows have records of the file."""
    persons: Numbers | None
    """Persons of the population with each row, shape (s,)."""
    total: float | None
    """Persons of the population."""
    columns: Mapping[str, ConfidentialColumn]
    records: int
    """Records of the file."""
    weights: Numbers
    """The weight of each key in the score, shape (keys,); they add up to 1."""
    known: Numbers
    """Records with a value of each key, shape (keys,)."""

    @property
    def codes(self) -> Codes:
        """The codes of the keys, shape (keys, r)."""
        found: Codes = self.rows.codes[:, : self.own]
        return found

    @property
    def counts(self) -> Whole:
        """Records of each row, shape (r,)."""
        found: Whole = self.rows.weights[: self.own]
        return found

    @cached_property
    def complete(self) -> bool:
        """Whether no confidential value is missing."""
        return all(bool((column.codes >= 0).all()) for column in self.columns.values())

    @cached_property
    def scale(self) -> Numbers:
        """The weight of each key for each record with a value of it, shape (keys,)."""
        return np.where(self.known > 0, self.weights / np.maximum(self.known, 1), 0.0)

    @cached_property
    def unknown(self) -> float:
        """The part of the score that keys without any value would have."""
        return float(self.weights[self.known == 0].sum())

    def among(self, rows: NDArray[Any]) -> KeyedFile:
        """Return the file with some of its rows only, whose scores are still parts of the whole file's."""
        if self.own < len(self.rows):
            rows = np.concatenate([rows, np.arange(self.own, len(self.rows))])
        own = int((rows < self.own).sum())
        columns = {name: replace(c, codes=c.codes[rows[:own]]) for name, c in self.columns.items()}
        taken = self.rows.take(rows)
        records = int(taken.weights[:own].sum())
        persons = None if self.persons is None else self.persons[rows]
        return replace(self, rows=taken, own=own, persons=persons, columns=columns, records=records)

    def all_released(self) -> KeyedFile:
        """Return the file as one of which every record is released, so that classes are compared with all of it."""
        columns = {}
        for name, column in self.columns.items():
            known = column.codes >= 0
            whole = np.bincount(column.codes[known], self.counts[known], len(column.values)).astype(np.int64)
            columns[name] = replace(column, whole=whole)
        return replace(self, columns=columns)

    def grouped(self, groups: NDArray[Any]) -> Candidate:
        """Return the candidate whose classes are groups of rows, numbered from 0, shape (r,)."""
        sizes = np.bincount(groups, self.counts).astype(np.int64)
        return Candidate(self, (), groups, sizes, np.zeros(0, np.int64))

    def at(self, levels: Levels) -> Candidate:
        """Return the candidate of one level for each key."""
        return self.under([key.maps[level] for key, level in zip(self.keys, levels, strict=True)], levels)

    def under(self, maps: Maps, levels: Levels = ()) -> Candidate:
        """Return the candidate of one map for each key."""
        labels, sizes, firsts = self.rows.classes([table for table, _ in maps], [count for _, count in maps])
        own = len(firsts) if self.own == len(self.rows) else int(np.searchsorted(firsts, self.own))
        return Candidate(self, levels, labels, sizes[:own].copy(), firsts[:own].copy())

    def gains(self, codes: Codes, levels: Levels) -> Numbers:
        """Return what each of some rows of codes, shape (keys, c), adds to the score per record on some levels, shape (c,)."""
        found = np.zeros(codes.shape[1])
        for j, (key, level) in enumerate(zip(self.keys, levels, strict=True)):
            found += (self.scale[j] * key.gains[level])[codes[j]]
        return found


@dataclass(frozen=True, eq=False)
class Candidate:
    """The classes of a file under one choice of levels, c of them. Its labels are valid until the next one is made."""

    file: KeyedFile
    levels: Levels
    labels: Codes
    """The class of each row, shape (s,)."""
    sizes: Whole
    """Records of each class, shape (c,)."""
    firsts: Whole
    """A row of each class, shape (c,)."""

    @cached_property
    def table(self) -> CandidateClasses:
        """What models look at."""
        file = self.file
        persons = None
        if file.persons is not None:
            persons = np.asarray(np.bincount(self.labels, file.persons)[: len(self.sizes)], np.float64)
        values = {name: self._values(column) for name, column in file.columns.items()}
        return CandidateClasses(self.sizes, persons, file.total, values)

    def _values(self, column: ConfidentialColumn) -> ClassValues:
        _labels, counts, levels = self.labels[: self.file.own], self.file.counts, len(column.values)
        known = column.codes >= 0
        rows: Whole = np.arange(len(self.sizes))
        place, codes = self.labels[: self.file.own].astype(np.int64), column.codes
        if not known.all():
            rows, place = np.unique(place[known], return_inverse=True)
            codes, counts = column.codes[known], counts[known]
        fixed = column.whole is not None
        whole = np.bincount(codes, counts, levels).astype(np.int64) if column.whole is None else column.whole
        cells = class_cells(place, codes, counts, levels) if len(rows) else ClassCells(*(np.zeros(0, np.int64),) * 3)  # type: ignore[arg-type]
        found = ClassValues(column.attribute, column.kind, column.values, whole, rows, cells, column.memory, fixed)
        return found if whole.all() else found.keep(np.ones(len(self.sizes), bool))

    def gains(self) -> Numbers:
        """Return what each class adds to the granularity if it is released, shape (c,)."""
        return self.sizes * self.file.gains(self.file.rows.codes[:, self.firsts], self.levels)

    def judge(self, rules: Rules, allowed: int) -> Verdict:
        """Say which classes can be released, if at most `allowed` records are left out, or why none can."""
        broken = self.sizes < rules.least(self.file.complete)
        for model in rules.closed:
            broken |= model.breaks(self.table)
        lost = int(self.sizes[broken].sum())
        if lost > allowed:
            return Verdict(~broken, lost, _too_many(lost, "classes are too small or too alike"), closed=True)
        if rules.settled:
            return Verdict(~broken, lost, _nothing_left(lost, self.file.records))
        kept, reason = ~broken, ""
        while not reason:
            kept, more, reason = _pruned(self.table, rules, kept, allowed, self.sizes)
            if not more:
                break
        lost = int(self.sizes[~kept].sum())
        return Verdict(kept, lost, reason or _nothing_left(lost, self.file.records))


def _nothing_left(lost: int, records: int) -> str:
    return "nothing would be left" if records and lost == records else ""


def _too_many(lost: int, why: str) -> str:
    return f"{why}: {lost:,} records would be suppressed"


def _pruned(table: CandidateClasses, rules: Rules, kept: Flags, allowed: int, sizes: Whole) -> tuple[Flags, bool, str]:
    """Return the classes that the models allow among those kept, whether fewer are left, and why none can be released."""
    part = table if kept.all() else table.keep(kept)
    place = np.flatnonzero(kept)
    for model in rules.single:
        low = model.breaks(part)
        if low.any():
            fewer = kept.copy()
            fewer[place[low]] = False
            lost = int(sizes[~fewer].sum())
            reason = (
                _too_many(lost, f"without {model_words(model)}")
                if lost > allowed
                else _nothing_left(lost, int(sizes.sum()))
            )
            return fewer, True, reason
        if model.hopeless(part):
            return kept, False, f"without {model_words(model)}: some persons are like no released record"
    room = allowed - int(sizes[~kept].sum())
    for limit in rules.limits:
        if limit.holds(part):
            continue
        urgency = limit.measure.urgency(part)
        steps, at = np.unique(urgency, return_inverse=True)
        upto = np.cumsum(np.bincount(at, part.sizes))
        for step in range(len(steps)):
            if upto[step] > room:
                return kept, False, f"{model_words(limit)} does not hold"
            if limit.holds(part.keep(at > step)):
                fewer = kept.copy()
                fewer[place[at <= step]] = False
                return fewer, True, _nothing_left(int(sizes[~fewer].sum()), int(sizes.sum()))
    return kept, False, ""


# --- Reading a file.


def keyed_file(
    batch: Batch,
    keys: Sequence[KeyLevels],
    confidential: Sequence[str],
    weights: Mapping[str, float] | None,
    population: Batch | None,
) -> tuple[KeyedFile, Whole]:
    """Return a file by its distinct rows, and the row of each record, shape (n,)."""
    coded = [key.codes(batch) for key in keys]
    private = {name: batch.codes(name) for name in confidential}
    labels, counts = classes([*coded, *(codes for codes, _ in private.values())], len(batch))
    first = np.empty(len(counts), np.int64)
    first[labels] = np.arange(len(labels))
    rows = np.stack([codes[first] for codes in coded]) if len(batch) else np.zeros((len(keys), 0), np.int32)
    columns = {
        name: ConfidentialColumn(batch.schema[name], batch.column(name).kind, values, codes[first])
        for name, (codes, values) in private.items()
    }
    for name, column in columns.items():
        if column.kind is Kind.OTHER:
            raise DataError(f"column '{name}' holds {Kind.OTHER}, which cannot be told apart.")
    known = np.array([float(counts[codes < len(key.values)].sum()) for key, codes in zip(keys, rows, strict=True)])
    own, persons, total = len(counts), None, None
    amounts = counts.astype(np.int64)
    if population is not None:
        theirs, people = _people(population, keys)
        rows = np.hstack([rows, theirs])
        persons, amounts = (
            np.concatenate([np.zeros(own), people]),
            np.concatenate([amounts, np.zeros(len(people), np.int64)]),
        )
        total = float(people.sum())
    elif (weight := batch.schema.one("weight")) is not None and weight in batch.rows.columns:
        total = float(np.nansum(batch.numbers(weight)))
    shares = np.array([float((weights or {}).get(key.name, 1.0)) for key in keys])
    shares = shares / shares.sum() if shares.sum() else shares
    file = KeyedFile(
        tuple(keys), kernels.lattice.CodedRows(rows, amounts), own, persons, total, columns, len(batch), shares, known
    )
    return file, labels


def _people(population: Batch, keys: Sequence[KeyLevels]) -> tuple[Codes, Numbers]:
    """Return the distinct rows of a population, and how many persons each stands for; refuse values that no key has."""
    weight = population.schema.one("weight")
    amounts = np.ones(len(population)) if weight is None else population.numbers(weight)
    if not np.isfinite(amounts).all() or (amounts < 0).any():
        raise DataError(f"some counts of persons in '{weight}' of the population are missing, negative or infinite.")
    coded = [key.codes(population) for key in keys]
    labels, sizes = classes(coded, len(population))
    first = np.empty(len(sizes), np.int64)
    first[labels] = np.arange(len(labels))
    return np.stack([codes[first] for codes in coded]), np.asarray(np.bincount(labels, amounts, len(sizes)), np.float64)
