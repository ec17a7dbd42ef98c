"""Linked columns follow their key: what is a function of a masked column stays one (`follows` in the schema)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.mask import Mask, Scope
from sfumato.engines import Column, Kind, LocalEngine
from sfumato.errors import DataError
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

_CLASH: Any = object()


def run_linked(mask: Mask, data: Microdata, draws: Draws) -> Microdata:
    """Run a fitted mask, and let the columns that follow a masked one follow it."""
    links = [Link(name, key, data.kind(key) is Kind.NUMBER) for name, key in _links(mask, data.schema)]
    if not links:
        return mask.run(data, draws)

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
    return mask.run(data, draws, function)


def _links(mask: Mask, schema: Schema) -> list[tuple[str, str]]:
    """Return (follower, key) pairs in an order in which each key is settled before its followers."""
    touched, after = set(mask.touches(schema)), mask.schema_after(schema)
    found: list[tuple[str, str]] = []
    moved = set(touched)
    while new := [a for a in after if a.follows in moved and a.name not in moved]:
        found += [(a.name, str(a.follows)) for a in new]
        moved |= {a.name for a in new}
    return found


class Link:
    """What is known of one column that follows another.

    A masked key that some record has takes that record's follower along. A key that no record had (a region of merged
    districts) keeps the follower where all its records share one, and loses it where they do not. A key of numbers takes
    the follower of the nearest number, or lies between two (a follower of numbers is interpolated).
    """

    def __init__(self, name: str, key: str, numeric: bool) -> None:
        self.name, self.key, self.numeric = name, key, numeric
        self.known: dict[Any, Any] = {}
        self.made: dict[Any, Any] = {}

    def learn(self, before: Batch, after: Batch) -> None:
        """Take in which follower goes with which key, before and after masking."""
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
        now = after.numbers(self.key)
        if len(keys) > 1 and before.column(self.name).kind is Kind.NUMBER:
            values = np.array([self.known[k] for k in keys], np.float64)
            at = np.clip(np.searchsorted(keys, now) - 1, 0, len(keys) - 2)
            slope = (values[at + 1] - values[at]) / (keys[at + 1] - keys[at])
            made = Column.from_numbers(
                values[at] + slope * (now - keys[at]), np.isnan(now), after.schema[self.name].integer
            )
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
        if made.kind is Kind.NUMBER:
            was = old.column(self.name)
            null = np.where(same, was.null, made.missing)
            integer = after.schema[self.name].integer
            return Column.from_numbers(np.where(same, was.numbers, made.numbers), null, integer)
        (a, a_values), (b, b_values) = old.column(self.name).codes, made.codes
        values = sorted({*a_values, *b_values})
        places = [np.array([values.index(v) for v in some] + [-1]) for some in (a_values, b_values)]
        codes = np.where(same, places[0][a], places[1][b])
        return Column.from_codes(codes, values, old.column(self.name))


def _learn(links: list[Link], before: Batch, after: Batch) -> None:
    for link in links:
        link.learn(before, after)


def _followed(links: list[Link], before: Batch, after: Batch) -> Batch:
    for link in links:
        after = after.with_columns({link.name: link.column(before, after)})
    return after


def _aligned(before: Batch, after: Batch) -> Batch:
    """Return the original records that the masked ones came from, in their order; simulated ones have none and are first's."""
    if len(before) == len(after) and np.array_equal(before.ids, after.ids):
        return before
    order = np.argsort(before.ids, kind="stable")
    at: NDArray[np.int64] = order[np.clip(np.searchsorted(before.ids[order], after.ids), 0, max(len(before) - 1, 0))]
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
