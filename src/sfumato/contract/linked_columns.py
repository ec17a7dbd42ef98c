"""Linked columns follow their key: what is a function of a masked column stays one (`follows` in the schema)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Scope
from sfumato.contract.release import Guarantee
from sfumato.data import Batch, Column, Kind, LocalEngine, Microdata
from sfumato.errors import DataError, join_names
from sfumato.schema import Schema
from sfumato.schema.attribute import Scale
from sfumato.schema.formula import ColumnFormula, agrees, decimals
from sfumato.typing import Flags, Whole

if TYPE_CHECKING:
    from sfumato.contract.mask import Mask


class _Several(Enum):
    """A key that goes with several followers; an enumeration, so that it is itself on Spark's workers too."""

    VALUES = "several"


_CLASH: Any = _Several.VALUES


def run_linked(mask: Mask, data: Microdata, draws: Draws) -> Microdata:
    """Run a fitted mask, and let the columns that follow a masked one follow it."""
    links = _links(mask, data)
    if not links:
        return _unlinked(mask, data, mask.run(data, draws))

    def function(batch: Batch) -> Batch:
        after = mask.transform(batch, draws)
        if not streamed:
            _learn(links, batch, after)
        return _followed(links, batch, after)

    streamed = mask.scope is Scope.ROW and not isinstance(data.engine, LocalEngine)
    if streamed:
        for rows in data.engine.batches(list(data.engine.kinds)):
            batch = Batch(rows, data.schema)
            _learn(links, batch, mask.transform(batch, draws))
    return _unlinked(mask, data, mask.run(data, draws, function))


def linked_losses(mask: Mask, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
    """Say of which columns values went missing because the masked column that they follow leaves them open."""
    said = []
    for name, key in dict.fromkeys((link.name, link.key) for link in _links(mask, before)):
        if mask.keeps_records and (lost := _lost(before, after, name)) > 0:
            says = f"{name}: missing for {lost:,} more records, where the released {key} does not tell it"
            said.append(Guarantee(step, says, "missing values counted before and after"))
    return tuple(said)


def _lost(before: Microdata, after: Microdata, name: str) -> int:
    now, was = (
        sum(int(Batch(rows, d.schema).missing(name).sum()) for rows in d.engine.batches([name]))
        for d in (after, before)
    )
    return now - was


def _links(mask: Mask, data: Microdata) -> list[Link | FormulaLink]:
    """Return the columns that follow, in an order in which each key is settled before its followers."""
    changed, after = set(mask.changes(data.schema)), mask.schema_after(data.schema)
    found: dict[str, Link | FormulaLink] = {}
    moved = set(changed)
    while new := [n for n in after.with_followers(moved) if n not in moved]:
        ready = [n for n in new if not set(new).intersection(after.sources(n))]  # all that they follow is settled
        for name in ready:
            found[name] = _link(data, after, name, found)
        moved |= set(ready or new)  # in a circle nothing is settled, and nothing follows
    return list(found.values())


def _link(data: Microdata, schema: Schema, name: str, found: Mapping[str, Link | FormulaLink]) -> Link | FormulaLink:
    formula = schema.formula(name)
    if formula is not None:
        return FormulaLink(name, formula)
    (key,) = schema.sources(name)
    link = Link(name, key, data.kind(key) is Kind.NUMBER)
    if isinstance(above := found.get(key), Link):
        link.further = Link(name, above.root, data.kind(above.root) is Kind.NUMBER)
    return link


def _unlinked(mask: Mask, before: Microdata, after: Microdata) -> Microdata:
    """Return the data; a column that the mask changed by itself follows no more, if it is no function of its key now."""
    schema = after.schema
    for name in mask.changes(before.schema):
        if name not in schema or (key := schema[name].follows) is None:
            continue
        if (formula := schema.formula(name)) is not None:
            link = FormulaLink(name, formula)
            for rows in after.engine.batches([*formula.columns, name]):
                link.learn(Batch(rows, after.schema), Batch(rows, after.schema))
            broken = link.wrong > 0
        else:
            pairs: dict[Any, Any] = {}
            for rows in after.engine.batches([key, name]):
                batch = Batch(rows, after.schema)
                _take_in(pairs, batch, batch, key, name)
            broken = any(value is _CLASH for value in pairs.values())
        if broken:
            schema = schema.change(name, follows=None, reason=schema[name].reason)
    return after if schema is after.schema else after.with_schema(schema)


class Link:
    """What is known of one column that follows another.

    A masked key that some record has takes that record's follower along. A key that no record had (a region of merged
    districts) keeps the follower where all its records share one, and loses it where they do not. A key of numbers takes
    the follower of the nearest number, or lies between two (a follower of numbers is interpolated). Where a key that
    follows another was lost, the masked column decides: a tract released as its region has no district, but still its region.
    """

    further: Link | None = None
    """The same column as it follows the masked one, for a column whose key follows that one itself."""

    def __init__(self, name: str, key: str, numeric: bool) -> None:
        self.name, self.key, self.numeric = name, key, numeric
        self.known: dict[Any, Any] = {}
        self.made: dict[Any, Any] = {}

    @property
    def root(self) -> str:
        """The masked column at the beginning of the chain."""
        return self.key if self.further is None else self.further.key

    def learn(self, before: Batch, after: Batch) -> None:
        """Take in which follower goes with which key, before and after masking."""
        if self.further is not None:
            self.further.learn(before, after)
        _take_in(self.known, before, before, self.key, self.name)
        if not (self.numeric and after.column(self.key).kind is Kind.NUMBER):
            _take_in(self.made, after, _aligned(before, after), self.key, self.name)

    def check(self) -> None:
        """Refuse a column that is no function of its key."""
        if many := sum(value is _CLASH for value in self.known.values()):
            raise DataError(
                f"'{self.name}' is said to follow '{self.key}', but {many:,} values of '{self.key}' go with more than one "
                f"value of '{self.name}'. Correct the data, or take follows out of the schema."
            )

    def column(self, before: Batch, after: Batch) -> Column:
        """Return the follower of the masked keys."""
        self.check()
        made = self._by_key(before, after)
        if self.further is None:
            return made
        lost = after.missing(self.key) & ~_aligned(before, after).missing(self.key)
        if not lost.any():
            return made
        further = self.further._by_key(before, after)
        return _either(lost, further, made, after.schema[self.name].integer)

    def _by_key(self, before: Batch, after: Batch) -> Column:
        if self.numeric and after.column(self.key).kind is Kind.NUMBER:
            return self._by_number(before, after)
        codes, values = after.column(self.key).codes
        looked = [self.known[v] if v in self.known else self.made.get(v) for v in values]
        looked = [None if v is _CLASH else v for v in looked] + [None]
        distinct = sorted({v for v in looked if v is not None})
        place = {v: i for i, v in enumerate(distinct)}
        table = np.array([-1 if v is None else place[v] for v in looked])
        return self._where_moved(before, after, Column.from_codes(table[codes], distinct, before.column(self.name)))

    def _by_number(self, before: Batch, after: Batch) -> Column:
        keys = np.array(sorted(self.known), np.float64)
        now, attribute = after.numbers(self.key), before.schema[self.name]
        ordered = before.column(self.name).kind is Kind.NUMBER and attribute.scale is Scale.ORDERED
        if len(keys) > 1 and ordered:
            found = (self.known[k] for k in keys)
            values = np.array([np.nan if v in attribute.missing else v for v in found], np.float64)
            at = np.clip(np.searchsorted(keys, now) - 1, 0, len(keys) - 2)
            slope = (values[at + 1] - values[at]) / (keys[at + 1] - keys[at])
            low, high = (np.inf * sign if b is None else b for b, sign in zip(attribute.bounds, (-1, 1), strict=True))
            between = np.clip(values[at] + slope * (now - keys[at]), low, high)
            made = Column.from_numbers(between, np.isnan(between), attribute.integer)
            return self._where_moved(before, after, made)
        at = np.clip(np.searchsorted(keys, now), 0, max(len(keys) - 1, 0))
        left = np.maximum(at - 1, 0)
        if len(keys):
            at = np.where(np.abs(now - keys[left]) <= np.abs(keys[at] - now), left, at)
        distinct = sorted({v for v in self.known.values() if v is not None})
        place = {v: i for i, v in enumerate(distinct)}
        table = np.array([place.get(self.known[k], -1) for k in keys] + [-1])
        codes = table[np.where(np.isnan(now), -1, at)]
        return self._where_moved(before, after, Column.from_codes(codes, distinct, before.column(self.name)))

    def _where_moved(self, before: Batch, after: Batch, made: Column) -> Column:
        """Return what was made where the key moved, and the follower as it was where it did not."""
        old = _aligned(before, after)
        same = old.column(self.key).hashes == after.column(self.key).hashes
        if same.all():
            return old.column(self.name)
        return _either(same, old.column(self.name), made, after.schema[self.name].integer)


class FormulaLink:
    """What is known of one column that follows a formula of others: it is worked out anew from what is released of them.

    Records in which none of them changed keep it as it was. It is rounded to the digits that it had.
    """

    def __init__(self, name: str, formula: ColumnFormula) -> None:
        self.name, self.formula, self.wrong, self.digits = name, formula, 0, 0

    @property
    def key(self) -> str:
        """The columns of the formula, in words."""
        return join_names(self.formula.columns)

    def learn(self, before: Batch, after: Batch) -> None:
        """Count the records in which the formula gives another value, and the digits that it has."""
        values = {n: before.numbers(n) for n in self.formula.columns}
        self.wrong += int((~agrees(self.formula, values, before.numbers(self.name))).sum())
        self.digits = max(self.digits, decimals(before.numbers(self.name)))

    def column(self, before: Batch, after: Batch) -> Column:
        """Return the formula of the masked columns."""
        if self.wrong:
            raise DataError(
                f"'{self.name}' is said to follow '{self.formula.text}', but in {self.wrong:,} records it is another number. "
                "Correct the data, or take follows out of the schema."
            )
        old, attribute = _aligned(before, after), before.schema[self.name]
        low, high = (np.inf * s if b is None else b for b, s in zip(attribute.bounds, (-1, 1), strict=True))
        made = self.formula({n: after.numbers(n) for n in self.formula.columns})
        made = np.where(old.missing(self.name), np.nan, np.clip(np.round(made, self.digits), low, high))
        same = np.all([old.column(n).hashes == after.column(n).hashes for n in self.formula.columns], axis=0)
        return _either(
            same, old.column(self.name), Column.from_numbers(made, np.isnan(made), attribute.integer), attribute.integer
        )


def _either(where: Flags, one: Column, other: Column, integer: bool) -> Column:
    """Return one column where a condition is true, and another of the same kind elsewhere."""
    if other.kind is Kind.NUMBER:
        null = np.where(where, one.null, other.missing)
        return Column.from_numbers(np.where(where, one.numbers, other.numbers), null, integer)
    (a, a_values), (b, b_values) = one.codes, other.codes
    values = sorted({*a_values, *b_values})
    place = {v: i for i, v in enumerate(values)}
    places = [np.array([place[v] for v in some] + [-1]) for some in (a_values, b_values)]
    return Column.from_codes(np.where(where, places[0][a], places[1][b]), values, one)


def _learn(links: list[Link | FormulaLink], before: Batch, after: Batch) -> None:
    for link in links:
        link.learn(before, after)


def _followed(links: list[Link | FormulaLink], before: Batch, after: Batch) -> Batch:
    for link in links:
        after = after.with_columns({link.name: link.column(before, after)})
    return after


def _aligned(before: Batch, after: Batch) -> Batch:
    """Return the original records that the masked ones came from, in their order; simulated ones have none and are first's."""
    if len(before) == len(after) and np.array_equal(before.ids, after.ids):
        return before
    order = np.argsort(before.ids, kind="stable")
    at: Whole = order[np.clip(np.searchsorted(before.ids[order], after.ids), 0, max(len(before) - 1, 0))]
    return before.keep(at)


def _take_in(pairs: dict[Any, Any], keys: Batch, followers: Batch, key: str, name: str) -> None:
    k, k_values = keys.column(key).codes
    f, f_values = followers.column(name).codes
    known = (k >= 0) & ~keys.missing(key)
    width = len(f_values) + 1
    for pair in np.unique(k[known].astype(np.int64) * width + f[known] + 1).tolist():
        value = f_values[pair % width - 1] if pair % width else None
        place = k_values[pair // width]
        if pairs.setdefault(place, value) != value:
            pairs[place] = _CLASH
