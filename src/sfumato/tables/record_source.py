"""The records of a table, wherever they live: checked, added up by an engine, and brought here only where they must be."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from typing_extensions import override

from sfumato.data.aggregates import Aggregate, Aggregation, ColumnNumber, Product, RecordId, Within, order_free_sum
from sfumato.data.engine import LocalEngine, Rows, SqlEngine
from sfumato.data.microdata import Batch, Microdata, check_numeric, missing_of
from sfumato.errors import DataError, ParameterError, plural
from sfumato.tables.cells import TOO_LARGE, Cells, Dimension
from sfumato.tables.contributions import CellSums, Contributions, Records, by_cell, requests_of, yes_by_contributor
from sfumato.typing import Numbers, Objects, Whole

_APART = 5.0
"""Factor by which the sum of sizes may differ from the sum of values before they are assumed to be in another unit."""
_OWN = "\x00own id"
_BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Marks(NamedTuple):
    """Further columns of a record besides its value."""

    waiver: str | None = None
    request: str | None = None
    record_key: str | None = None


class SummedRows(NamedTuple):
    """Records, or groups of records that agree on their dimensions and contributor, and what each adds to a table."""

    batch: Batch
    records: Numbers
    own: Numbers
    grossed: Numbers
    """The same as `own`, times the survey weights."""
    sizes: Numbers | None


class ValueFacts(NamedTuple):
    """What is known of the records of a table before they are added up."""

    records: int
    low: float
    high: float
    heaviest: float
    """The largest survey weight."""
    whole: bool
    """Whether values are whole numbers."""
    whole_weights: bool


@dataclass(frozen=True, eq=False)
class RecordSource:
    """The records that a table is made of, and which of their columns say what."""

    data: Microdata
    dimensions: list[str]
    summed: str | None
    contributor: str | None
    size: str | None
    per_size: float | str | None
    marks: Marks
    leave_out: bool
    """Whether records without a value are left out; they are refused otherwise."""

    @property
    def local(self) -> bool:
        """Whether the records are in memory."""
        return isinstance(self.data.engine, LocalEngine)

    @property
    def weight(self) -> str | None:
        """The column of survey weights."""
        return self.data.schema.one("weight")

    @cached_property
    def _value(self) -> ColumnNumber | None:
        if self.summed is None:
            return None
        check_numeric(self.data, self.summed)
        return self.data.number(self.summed)

    @property
    def _known(self) -> Within:
        """The condition that a record has a value."""
        return Within(() if self._value is None else (self._value,))

    def _totals(self, measures: dict[str, Aggregate], where: Within) -> tuple[int, dict[str, float]]:
        found = self.data.engine.aggregate(Aggregation({}, measures, where))
        return int(found.counts.sum()), {n: float(v[0]) if v.size else np.nan for n, v in found.sums.items()}

    @cached_property
    def facts(self) -> ValueFacts:
        """Refuse records that no table can be made of, in two passes over them."""
        if self._value is not None:
            everything = Within((self._value,), -np.inf, np.inf)
            there = {"valued": Aggregate(everything), "finite": Aggregate(self._known)}
            records, counts = self._totals(there, Within(()))
            self._refuse_missing(records, counts)
        measures: dict[str, Aggregate] = {}
        if self._value is not None:
            measures |= {"low": Aggregate(self._value, "min"), "high": Aggregate(self._value, "max")}
            measures["whole"] = Aggregate(Within((self._value,), whole=True))
        for name, low, high in self._limits:
            measures[f"within {name}"] = Aggregate(Within((self.data.number(name),), low, high))
        if self.weight is not None:
            measures["heaviest"] = Aggregate(self.data.number(self.weight), "max")
            measures["whole weights"] = Aggregate(Within((self.data.number(self.weight),), whole=True))
        records, found = self._totals(measures, self._known)
        if not records:
            raise DataError("there are no records to make a table of.")
        self._refuse_marks(records, found)
        whole, whole_weights = (found.get(name, records) == records for name in ("whole", "whole weights"))
        low, high, heaviest = (found.get(name, 1.0) for name in ("low", "high", "heaviest"))
        return ValueFacts(records, low, high, heaviest, whole, whole_weights)

    @property
    def _limits(self) -> list[tuple[str, float, float]]:
        """The columns of numbers that must be there, and between which ends."""
        limits = [(self.weight, 1.0, np.inf), (self.marks.record_key, 0.0, _BELOW_ONE), (self.size, 0.0, None)]
        largest = float(np.finfo(np.float64).max)
        return [(name, low, largest if high is None else high) for name, low, high in limits if name is not None]

    def _refuse_missing(self, records: int, counts: dict[str, float]) -> None:
        valued, finite = (int(np.nan_to_num(counts[name])) for name in ("valued", "finite"))
        if infinite := valued - finite:
            raise DataError(f"column '{self.summed}' holds {plural(infinite, 'infinite value')}. Correct them first.")
        if (gone := records - valued) and not self.leave_out:
            raise DataError(
                f"{plural(gone)} of {records:,} {_have(gone)} no value of '{self.summed}'. Impute them first, or "
                "leave them out of the table (missing='leave out')."
            )

    def _refuse_marks(self, records: int, found: dict[str, float]) -> None:
        bad = {name: records - int(np.nan_to_num(found[f"within {name}"])) for name, _, _ in self._limits}
        if (weight := self.weight) is not None and (n := bad[weight]):
            raise DataError(
                f"{plural(n)} {_have(n)} a survey weight in '{weight}' that is missing or below 1. A record stands for itself "
                "at least; correct the weights, or give the column the role 'other' to make a table without them."
            )
        if (key := self.marks.record_key) is not None and (n := bad[key]):
            raise DataError(
                f"{plural(n)} have a record key in '{key}' that is missing or outside [0, 1). Correct them, or leave the "
                "column out: keys are drawn then."
            )
        if self.size is not None and (n := bad[self.size]):
            raise DataError(
                f"{plural(n)} {_have(n)} a size in '{self.size}' that is missing, negative or infinite. Correct them first."
            )
        if self.size is None and self.per_size is not None:
            raise ParameterError(
                "per_size says what one unit of a size stands for: name the column with the size, too."
            )

    def rows(self, contributors: bool = False) -> SummedRows:
        """Return what is added up: records, where they are in memory or each is its own contributor; otherwise groups."""
        if self.local or (contributors and self.contributor is None):
            return self._records()
        engine = self.data.engine
        by: dict[str, Any] = {name: engine.category(name) for name in self.dimensions}
        if contributors and self.contributor is not None:
            further = (self.contributor, self.marks.waiver, self.marks.request)
            by |= {name: engine.category(name) for name in further if name}
            named = engine.category(self.contributor, self.data.schema[self.contributor].missing)
            by[_OWN] = RecordId(named)  # a record without a contributor is its own
        groups = engine.aggregate(Aggregation(by, self._sums(), self._known))
        columns = dict(groups.columns)
        order = np.arange(len(groups.counts))
        if _OWN in columns:
            order = np.argsort(columns.pop(_OWN).numbers, kind="stable")
        batch = Batch(Rows(order, {name: column.take(order) for name, column in columns.items()}), self.data.schema)
        records = groups.counts[order].astype(np.float64)
        own = groups.sums["own"][order] if "own" in groups.sums else records
        sizes = groups.sums["size"][order] if "size" in groups.sums else None
        return SummedRows(batch, records, own, groups.sums["grossed"][order] if self.weight else own, sizes)

    def _sums(self) -> dict[str, Aggregate]:
        facts, sums = self.facts, {}
        largest = max(abs(facts.low), abs(facts.high))
        if self._value is not None:
            sums["own"] = order_free_sum(self._value, largest, facts.whole, facts.records)
        if self.weight is not None:
            weight = self.data.number(self.weight)
            product = weight if self._value is None else Product((self._value, weight))
            sums["grossed"] = order_free_sum(
                product, largest * facts.heaviest, facts.whole and facts.whole_weights, facts.records
            )
        if self.size is not None:
            sums["size"] = Aggregate(self.data.number(self.size))
        return sums

    def _records(self) -> SummedRows:
        needed = (self.summed, self.contributor, self.size, self.weight, self.marks.waiver, self.marks.request)
        batch = self.data.batch(list(dict.fromkeys([*self.dimensions, *(name for name in needed if name)])))
        batch = self._valued(batch)
        records = np.ones(len(batch))
        own = records if self.summed is None else batch.numbers(self.summed)
        grossed = own if self.weight is None else own * batch.numbers(self.weight)
        return SummedRows(batch, records, own, grossed, None if self.size is None else batch.numbers(self.size))

    def _valued(self, batch: Batch) -> Batch:
        if self.summed is None or not self.leave_out:
            return batch
        gone = np.isnan(batch.numbers(self.summed))
        return batch.keep(~gone) if gone.any() else batch

    def contributions(self, rows: SummedRows, leaf: Whole, leaves: int) -> Contributions:
        """Return what each contributor adds to each leaf."""
        batch, order = rows.batch, summing_order(leaf, rows)
        who, names = self._contributors(batch)
        own = _by_contributor(leaf[order], who[order], rows.own[order], leaves)
        grossed = own
        if self.weight is not None:
            grossed = _by_contributor(leaf[order], who[order], rows.grossed[order], leaves)
        sizes = None
        if rows.sizes is not None:
            sizes = np.zeros(int(who.max()) + 1)
            np.add.at(sizes, who, rows.sizes)
            sizes *= _unit_of_size(sizes, self._sum_of_sizes(rows), self.per_size)
        waived = yes_by_contributor(batch, self.marks.waiver, who, everywhere=True) if self.marks.waiver else None
        requests = requests_of(batch, self.marks.request, who) if self.marks.request else None
        return Contributions(own, grossed, sizes, names, waived, requests)

    def _sum_of_sizes(self, rows: SummedRows) -> float:
        """Return the sum of all values, each without its sign."""
        if self.facts.low >= 0 or self._value is None or self.local:
            return float(np.abs(rows.own).sum())
        return self._totals({"size": Aggregate(Product((self._value,), absolute=True))}, self._known)[1]["size"]

    def _contributors(self, batch: Batch) -> tuple[Whole, Objects | None]:
        """Return the position of each row's contributor, and their names; a record without one is its own contributor."""
        if self.contributor is None:
            return np.arange(len(batch)), None
        column = batch.column(self.contributor)
        codes, values = column.codes
        alone = missing_of(column, batch.schema[self.contributor])
        _, who = np.unique(np.where(alone, len(values) + np.arange(len(batch)), codes), return_inverse=True)
        who = who.ravel().astype(np.int64)
        names = np.empty(int(who.max()) + 1, object)
        names[who] = np.array([*values, None], object)[np.where(alone, len(values), codes)]
        return who, names

    def count_contributors(self) -> int:
        """Return how many contributors there are."""
        if self.contributor is None:
            return self.facts.records
        named = self.data.engine.category(self.contributor, self.data.schema[self.contributor].missing)
        _, found = self._totals(
            {"named": Aggregate(named, "count_distinct"), "alone": Aggregate(RecordId(named), "count_distinct")},
            self._known,
        )
        return int(found["named"] + found["alone"])

    def records(self, finder: LeafFinder, leaves: Whole | None = None) -> Records:
        """Return the leaf and the id of every record, piece by piece, and the columns that say who it is.

        `leaves` are those of all records, where they are known.
        """
        identifiers, key = self.data.schema.names(role="identifier"), self.marks.record_key
        identifier = identifiers[0] if len(identifiers) == 1 else None
        leaf, ids, keys = [], [], []
        columns = list(dict.fromkeys([*self.dimensions, *(n for n in (self.summed, key) if n)]))
        for rows in self.data.engine.batches(columns):
            batch = self._valued(Batch(rows, self.data.schema))
            leaf.append(finder.find(batch) if leaves is None else leaves)
            ids.append(batch.ids)
            keys.append(batch.numbers(key) if key else np.zeros(0))
        hidden, column = np.concatenate(ids), None
        if identifier is not None:
            named = self.data.batch([identifier])
            order = np.argsort(named.ids, kind="stable")
            column = named.column(identifier).take(order[np.searchsorted(named.ids, hidden, sorter=order)])
        return Records(np.concatenate(leaf), hidden, column, np.concatenate(keys) if key else None)

    def largest(self, count: int, grossed: bool) -> tuple[Batch, Numbers, Numbers]:
        """Return the dimensions of those records of each leaf that add most to it, their values, and the same grossed up."""
        engine = self.data.engine
        assert isinstance(engine, SqlEngine)  # noqa: S101 - contributions of records in memory are here already
        own = Product(() if self._value is None else (self._value,))
        product = Product(own.factors if self.weight is None else (*own.factors, self.data.number(self.weight)))
        by: dict[str, Any] = {name: engine.category(name) for name in self.dimensions}
        wanted = {"own": Aggregate(own), "grossed": Aggregate(product), "id": Aggregate(RecordId())}
        found = engine.largest(Aggregation(by, wanted, self._known), product if grossed else own, count)
        order = np.argsort(found.sums["id"])  # of equal contributions the first record's is the larger one
        batch = Batch(
            Rows(order, {name: column.take(order) for name, column in found.columns.items()}), self.data.schema
        )
        return batch, found.sums["own"][order], found.sums["grossed"][order]


class LeafFinder:
    """Finds the leaf of records by the values of their dimensions."""

    def __init__(self, batch: Batch, names: list[str]) -> None:
        """Take rows among which every combination of values occurs; `leaves` is set once the leaves are known."""
        coded = [_values_of(batch, name) for name in names]
        self.dimensions = [
            Dimension.of(name, values, batch.schema[name].hierarchy)
            for name, (_, values) in zip(names, coded, strict=True)
        ]
        self._places = [{value: i for i, value in enumerate(values)} for _, values in coded]
        self._keys, self.combination = np.unique(self._joined([codes for codes, _ in coded]), return_inverse=True)
        self.leaves = np.zeros(0, np.int64)
        """The leaf of each combination."""

    @property
    def codes(self) -> Whole:
        """The combinations of values that occur, shape (combinations, dimensions)."""
        return np.column_stack(np.unravel_index(self._keys, [len(places) for places in self._places])).astype(np.int64)

    def _joined(self, codes: list[Whole]) -> Whole:
        if math.prod(map(len, self._places)) >= 2**62:
            raise ParameterError(TOO_LARGE)
        return np.asarray(np.ravel_multi_index(codes, [len(places) for places in self._places]), np.int64)

    def find(self, batch: Batch) -> Whole:
        """Return the leaf of each row."""
        joined = []
        for dimension, places in zip(self.dimensions, self._places, strict=True):
            codes, values = _values_of(batch, dimension.name)
            joined.append(np.array([places[value] for value in values], np.int64)[codes])
        return self.leaves[np.searchsorted(self._keys, self._joined(joined))]


def _loaded_field(name: str, column: str = "") -> Any:
    """Return a property that loads contributions or records; None where the source does not name such a column."""

    def value(one: Any) -> Any:
        source = one._source
        absent = column and getattr(source, column, None) is None and getattr(source.marks, column, None) is None
        return None if absent else getattr(one._loaded, name)

    return property(value)


class EngineContributions(Contributions):
    """Contributions that stay where the records live until somebody needs all of them."""

    _source: RecordSource
    _finder: LeafFinder
    _sums: tuple[Numbers, Numbers, Numbers]

    def __init__(self, source: RecordSource, finder: LeafFinder, sums: tuple[Numbers, Numbers, Numbers]) -> None:
        """Take the sums of records, of own and of grossed contributions; each of shape (leaves,)."""
        self.__dict__.update(_source=source, _finder=finder, _sums=sums)
        if source.size or source.marks.waiver or source.marks.request:
            self._loaded  # noqa: B018 - refuses marks that cannot be right, at once

    @cached_property
    def _loaded(self) -> Contributions:
        rows = self._source.rows(contributors=True)
        return self._source.contributions(rows, self._finder.find(rows.batch), len(self._sums[0]))

    own, grossed = _loaded_field("own"), _loaded_field("grossed")
    size, names = _loaded_field("size", "size"), _loaded_field("names", "contributor")
    waived, requests = _loaded_field("waived", "waiver"), _loaded_field("requests", "request")

    def __reduce__(self) -> tuple[Any, ...]:
        return Contributions, tuple(getattr(self, one.name) for one in fields(Contributions))

    def __len__(self) -> int:
        return len(self._loaded) if "_loaded" in vars(self) else self._source.count_contributors()

    def __repr__(self) -> str:
        return f"Contributions({len(self):,} contributors, in {self._source.data.engine.name})"

    @override
    def largest_sums(self, cells: Cells, count: int, grossed: bool) -> CellSums | None:
        source = self._source
        if "_loaded" in vars(self) or source.contributor is not None or source.facts.low < 0:
            return None
        batch, *values = source.largest(count, grossed)
        leaf, each = self._finder.find(batch), np.arange(len(batch))
        own, weighted = (by_cell(cells, _by_contributor(leaf, each, part, cells.leaves)) for part in values)
        contributors, own_total, total = map(cells.sums, self._sums)
        return CellSums(own, own if source.weight is None else weighted, contributors, total, own_total)


class EngineRecords(Records):
    """Records that stay where they live until somebody needs their ids."""

    _source: RecordSource
    _finder: LeafFinder

    def __init__(self, source: RecordSource, finder: LeafFinder) -> None:
        self.__dict__.update(_source=source, _finder=finder)

    @cached_property
    def _loaded(self) -> Records:
        return self._source.records(self._finder)

    leaf, hidden, identifier, keys = map(_loaded_field, ("leaf", "hidden", "identifier", "keys"))

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, tuple(getattr(self, one.name) for one in fields(Records))


def _values_of(batch: Batch, name: str) -> tuple[Whole, list[object]]:
    """Return the codes of a column, and the values that occur in it; None, the last of them, for missing ones."""
    codes, values = batch.codes(name)
    used, place = np.unique(np.where(codes < 0, len(values), codes), return_inverse=True)
    return place.ravel().astype(np.int64), [None if u == len(values) else values[u] for u in used]


def summing_order(leaf: Whole, rows: SummedRows) -> Whole | slice:
    """Return an order in which to add up: the last bits of a sum depend on it, and must not depend on the order of the records."""
    if all((part == np.rint(part)).all() for part in (rows.own, rows.grossed)):
        return slice(None)  # whole numbers add up exactly
    return np.lexsort((rows.grossed, rows.own, leaf))


def sum_by_leaf(leaf: Whole, values: Numbers, leaves: int) -> Numbers:
    """Return the sum of the values in each leaf."""
    return np.asarray(np.bincount(leaf, values, leaves), np.float64)


def _by_contributor(leaf: Whole, who: Whole, values: Numbers, leaves: int) -> sparse.csr_array:
    """Return the sum of each contributor's values in each leaf, leaves × contributors."""
    matrix = sparse.csr_array((values, (leaf, who)), shape=(leaves, int(who.max(initial=-1)) + 1))
    matrix.sum_duplicates()
    matrix.sort_indices()
    return matrix


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _unit_of_size(sizes: Numbers, all_values: float, per_size: float | str | None) -> float:
    """Return the amount of the variable per unit of size; a ratio is rounded, so that no total follows from it."""
    all_sizes = float(sizes.sum())
    if per_size is None:
        if all_values > 0 and not all_values / _APART <= all_sizes <= all_values * _APART:
            raise DataError(
                "the sizes are far from the values, in all: are they in another unit? Say how much of the variable one unit of "
                "size stands for (per_size=...), or 1 if they are right as they are."
            )
        return 1.0
    if per_size == "ratio":
        if not all_sizes > 0 or not all_values > 0:
            raise DataError("sizes or values add up to nothing, so they have no ratio. Give per_size as a number.")
        return float(f"{all_values / all_sizes:.0e}")
    if isinstance(per_size, bool) or not isinstance(per_size, int | float) or not 0 < per_size < np.inf:
        raise ParameterError(f"per_size must be a number above 0, or 'ratio'; got {per_size!r}.")
    return float(per_size)
