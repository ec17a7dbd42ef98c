"""Rare categories: merged until each has enough records, shortened, or changed."""

from __future__ import annotations

import bisect
import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.data import Batch, Column, Kind, Microdata
from sfumato.errors import DataError, ParameterError, SchemaError
from sfumato.kernels.classes import classes
from sfumato.masks.recoding import as_text, count_values, relabel
from sfumato.schema import Attribute, Level, Scale, Schema
from sfumato.schema.hierarchy import ROOT, label_of
from sfumato.typing import Whole

_MOST_ORDERED = 60


class Merged(NamedTuple):
    """How the categories of one column are merged: "other", "family" (by hierarchy) or "ordered" (with neighbours)."""

    how: str
    old: tuple[Any, ...]
    """Counted values: labels, or for ordered columns numbers or dates in order."""
    new: tuple[Any, ...]
    """Released label of each value."""


def leftovers(counts: Mapping[str, int], least: int, other: str) -> Merged:
    """Merge rare categories into one; add the next smallest until it is not rare itself."""
    order = sorted(counts, key=lambda v: (counts[v], v))
    gone = {v for v in order if counts[v] < least}
    if gone:
        gone |= {other} & counts.keys()
        total = sum(counts[v] for v in gone)
        for value in [v for v in order if v not in gone]:
            if total >= least:
                break
            gone.add(value)
            total += counts[value]
    return Merged("other", tuple(order), tuple(other if v in gone else v for v in order))


def neighbours(counts: Sequence[int], least: int) -> list[int]:
    """Return the group of each of some ordered categories: the smallest joins its smaller neighbour, until none is too small."""
    size, left, right = list(counts), list(range(-1, len(counts) - 1)), list(range(1, len(counts) + 1))
    heap = [(n, i) for i, n in enumerate(size)]
    heapq.heapify(heap)
    starts = [True] * len(size)
    while heap:
        n, i = heapq.heappop(heap)
        if not starts[i] or n != size[i]:
            continue  # already merged
        beside = [j for j in (left[i], right[i]) if 0 <= j < len(size)]
        if n >= least or not beside:
            break
        a, b = sorted((i, min(beside, key=lambda j: (size[j], j))))
        size[a] += size[b]
        starts[b] = False
        right[a] = right[b]
        if right[b] < len(size):
            left[right[b]] = a
        heapq.heappush(heap, (size[a], a))
    return [int(g) for g in np.cumsum(starts) - 1]


def _groups(old: Sequence[Any], counts: Mapping[Any, int], least: int) -> list[list[Any]]:
    """Return ordered values in the groups of `neighbours`."""
    pairs = zip(neighbours([counts[v] for v in old], least), old, strict=True)
    return [[value for _, value in members] for _, members in groupby(pairs, key=lambda pair: pair[0])]


def ordered(counts: Mapping[Any, int], least: int) -> Merged:
    """Merge numbers or dates with their neighbours; each group is released as its (lower) median, which some record has."""
    old = sorted(counts)
    new: list[Any] = []
    for group in _groups(old, counts, least):
        upto = np.cumsum([counts[v] for v in group])
        new += [group[int(np.searchsorted(upto, (upto[-1] + 1) // 2))]] * len(group)
    return Merged("ordered", tuple(old), tuple(new))


def ordered_categories(counts: Mapping[str, int], least: int, attribute: Attribute) -> Merged:
    """Merge ordered categories with their neighbours; each group is released as "first to last"."""
    if strange := sum(v not in attribute.values for v in counts):
        raise DataError(
            f"{strange:,} values of '{attribute.name}' have no number in the schema's value map. "
            "Add them to it (values = {...})."
        )
    old = sorted(counts, key=lambda v: (attribute.values[v], v))
    new: list[str] = []
    for group in _groups(old, counts, least):
        new += [_run(group[0], group[-1])] * len(group)
    return Merged("categories", tuple(old), tuple(new))


def runs(attribute: Attribute) -> dict[str, float]:
    """Return a number for each category and each run of neighbouring ones: the mean of the schema's numbers for its categories."""
    names = sorted(attribute.values, key=lambda v: (attribute.values[v], v))
    if len(names) > _MOST_ORDERED:
        raise DataError(
            f"'{attribute.name}' has {len(names):,} ordered categories; runs of at most {_MOST_ORDERED} can be named. "
            "Recode it first, or give it a hierarchy and the scale 'partially ordered'."
        )
    numbers = [attribute.values[v] for v in names]
    pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
    return {_run(names[i], names[j]): sum(numbers[i : j + 1]) / (j + 1 - i) for i, j in pairs}


def _run(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def relatives(counts: Mapping[Any, int], least: int, attribute: Attribute) -> Merged:
    """Merge rare categories with their rare siblings, as their parent; if these are rare too, with rare cousins; and so on.

    If the group at the top is still rare, the smallest categories join it.
    """
    paths = {label_of(v): path_of(attribute, v) for v in counts}
    height, sizes = max(map(len, paths.values())) - 1, Counter({label_of(v): n for v, n in counts.items()})
    now = {v: path[0] for v, path in paths.items()}
    for above in range(1, height + 1):
        rare = {label for label, n in _totals(now, sizes).items() if n < least}
        for value, path in paths.items():
            level = above + len(path) - height - 1  # a value that is already general has a shorter path
            if now[value] in rare and level > 0:
                now[value] = path[level]
    totals, top = _totals(now, sizes), next(iter(paths.values()))[-1]
    joined = {top}
    for label in sorted(set(now.values()) - joined, key=lambda c: (totals[c], c)):
        if totals[top] >= least or not totals[top]:
            break
        joined.add(label)
        totals[top] += totals[label]
    return Merged("family", tuple(now), tuple(top if label in joined else label for label in now.values()))


def _totals(now: Mapping[str, str], sizes: Mapping[str, int]) -> Counter[str]:
    totals = Counter[str]()
    for value, label in now.items():
        totals[label] += sizes[value]
    return totals


def path_of(attribute: Attribute, value: object) -> tuple[str, ...]:
    """Return a value's label and its ancestors in the column's hierarchy; an unknown one is refused without being named."""
    if attribute.hierarchy is None:
        raise DataError(f"column '{attribute.name}' has no hierarchy in the schema.")
    try:
        return attribute.hierarchy.path(value)
    except SchemaError:
        raise DataError(
            f"some values of '{attribute.name}' are not in its hierarchy. Correct them or the hierarchy; codes for missing "
            "answers belong in the schema."
        ) from None


class MergeRare(Mask):
    """Categories with fewer than `least` records are merged, so that every released category has at least that many.

    `nearest` merges with similar categories: an ordered category or a number with its smaller neighbour, a category in a
    hierarchy with its rare relatives (released as their parent), any other into one remainder category. `other` merges all
    rare ones into the remainder. If the remainder is still too small, the next smallest category joins it. A group of numbers or
    dates is released as its median; a group of ordered categories as "first to last". Households are counted if the column
    describes households.
    """

    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to merge; all keys of categories if none", columns="many", holds="categories"
    )
    least: int = param(
        default=5, doc="smallest number of records in a category", low=2, high=1e9, integer=True, scale="log"
    )
    into: Literal["nearest", "other"] = param(default="nearest", doc="what rare categories are merged into")
    other: str = param(default="other", doc="label of the category of leftovers", of_data="categories")
    merged: Any = learned("columns", "least", "into", "other", default=None)

    @override
    def validate(self) -> None:
        if not isinstance(self.other, str) or not self.other:
            raise ParameterError("other of merge_rare must be a label, such as 'other'.")

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which categories are merged."""
        names = self.touches(data.schema)
        if not names:
            raise DataError(
                "there is no key of categories to merge. Name the columns (columns=...), or give one the role 'key' and the "
                "scale 'unordered' in the schema."
            )
        return self.learn(merged={n: self._merge(data, n) for n in names})

    def _merge(self, data: Microdata, name: str) -> Merged:
        attribute, kind = data.schema[name], data.kind(name)
        counts = count_values(data, name, _unit(attribute, data))
        if (total := sum(counts.values())) < self.least:
            raise DataError(
                f"least = {self.least:,} is more than the {total:,} {_unit(attribute, data)} with a value in '{name}'. Lower it."
            )
        if attribute.missing and self.other in attribute.missing:
            raise ParameterError(
                f"other of merge_rare, '{self.other}', is a code for missing in '{name}'. Choose another."
            )
        if self.into == "nearest" and attribute.scale is Scale.ORDERED:
            if kind in (Kind.NUMBER, Kind.DATE):
                return ordered(counts, self.least)
            if attribute.values:
                return ordered_categories(counts, self.least, attribute)
        if self.into == "nearest" and attribute.hierarchy is not None:
            return relatives(counts, self.least, attribute)
        return leftovers({label_of(value): n for value, n in counts.items()}, self.least, self.other)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        keys = (schema[n] for n in schema.names(role="key"))
        return self.columns or tuple(a.name for a in keys if a.scale is not Scale.ORDERED or a.values)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema: columns that become text have no bounds; runs of ordered categories have their own numbers."""
        names = self.touches(schema)
        return Schema(tuple(self._attribute(a) if a.name in names else a for a in schema))

    def _attribute(self, old: Attribute) -> Attribute:
        if self.into == "other":
            return as_text(old, Scale.UNORDERED, None)
        if old.scale is not Scale.ORDERED:
            return as_text(old, old.scale, old.hierarchy)
        if not old.values:
            return old
        return old.with_(values=runs(old), hierarchy=None)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Release each category as the one it was merged into."""
        out = batch
        for name, merged in self.merged.items():
            kind = batch.column(name).kind
            if merged.how == "ordered" and kind is Kind.NUMBER:
                old, new = np.array(merged.old, np.float64), np.array(merged.new, np.float64)
                x = batch.numbers(name)
                at = np.maximum(np.searchsorted(old, np.nan_to_num(x), side="right") - 1, 0)
                numbers = np.where(np.isnan(x), np.nan, new[at])
                out = out.replace(name, lambda numbers=numbers: numbers)  # type: ignore[misc]
            elif merged.how == "ordered" and kind is Kind.DATE:
                codes, values = batch.column(name).codes
                at = np.array([max(bisect.bisect_right(merged.old, v) - 1, 0) for v in values] + [-1])[codes]
                made = Column.from_codes(at, merged.new, batch.column(name))
                out = out.with_columns({name: made})
            else:
                attribute = batch.schema[name]
                out = relabel(out, name, lambda v, m=merged, a=attribute: self._labels(m, a, v))  # type: ignore[misc]
        return out

    def _labels(self, merged: Merged, attribute: Attribute, values: Sequence[Any]) -> list[str]:
        """Return the label of each distinct value; an uncounted value gets its released ancestor, or `other`."""
        table, cut = dict(zip(merged.old, merged.new, strict=True)), set(merged.new)
        found = []
        for value in values:
            if (label := label_of(value)) in table:
                found.append(table[label])
            elif merged.how == "family":
                path = path_of(attribute, value)
                found.append(next((p for p in path if p in cut), path[-1]))
            else:
                found.append(self.other)
        return found

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that every released category has enough records, and say how many categories are left."""
        for name in self.merged:
            unit = _unit(before.schema[name], before)
            counts = count_values(after, name, unit)
            if rare := sum(n < self.least for n in counts.values()):
                raise DataError(
                    f"{rare:,} released categories of '{name}' have fewer than {self.least:,} {unit}; nothing is released."
                )
            old = len(count_values(before, name))
            says = f"{name}: every released category has at least {self.least:,} {unit}; {len(counts):,} of {old:,} are left"
            yield Guarantee(step, says, f"counted; the smallest has {min(counts.values(), default=0):,}")


def _unit(attribute: Attribute, data: Microdata) -> str:
    """Return the counted unit: households if the column describes households."""
    return "households" if attribute.level is Level.HOUSEHOLD and data.schema.one("household") else "records"


class RecodeRare(Mask):
    """Values that fewer than t records have lose their last digits (global-risk paper, section 4: the rule for zip codes).

    A value moves up its hierarchy if the schema has one (48201 to 482**); otherwise it loses its last characters. This is done
    once, as in the paper, or repeatedly until the released value is no longer rare or is ``*``.
    """

    no_matrix: ClassVar[str] = "it groups some values, which no matrix does (matrix-masking paper, section IV)"

    columns: tuple[str, ...] = param(doc="columns to recode", columns="many", holds="categories")
    least: int = param(
        default=5,
        doc="t: a value that fewer records have is rare",
        low=1,
        high=1e9,
        integer=True,
        scale="log",
        usual=(2, 200),
    )
    cut: int = param(
        default=2,
        doc="levels of the hierarchy, or last characters, that a rare value loses",
        low=1,
        high=100,
        integer=True,
    )
    repeat: Literal["once", "until_frequent"] = param(default="once", doc="cut once, or until nothing is rare")
    unit: Literal["record", "household"] = param(default="record", doc="what is counted")
    tables: Any = learned("columns", "least", "cut", "repeat", "unit", default=None)

    @property
    def _counted(self) -> Literal["records", "households"]:
        return "records" if self.unit == "record" else "households"

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the released label of each value."""
        return self.learn(tables={name: self._table(data, name) for name in self.columns})

    def _table(self, data: Microdata, name: str) -> dict[str, str]:
        """Return the released label of each value; one pass over the data for each cut."""
        counts = count_values(data, name, self._counted)
        if not counts:
            raise DataError(f"column '{name}' has no values at all, so there is nothing to recode. Leave it out.")
        chains = self._chains(data.schema[name], counts)
        at = dict.fromkeys(chains, 0)
        while True:
            rare = {label for label, n in counts.items() if n < self.least}
            moved = [v for v, chain in chains.items() if chain[at[v]] in rare and at[v] + 1 < len(chain)]
            for value in moved:
                at[value] += 1
            if not moved or self.repeat == "once":
                return {value: chain[at[value]] for value, chain in chains.items()}
            counts = count_values(data, name, self._counted, lambda v: chains[label_of(v)][at[label_of(v)]])

    def _chains(self, attribute: Attribute, counts: dict[Any, int]) -> dict[str, list[str]]:
        """Return each value's label and its label after each cut; counts are renamed to labels in place."""
        chains = {label_of(value): self._chain(attribute, value) for value in counts}
        for value, n in list(counts.items()):
            label = chains[label_of(value)][0]
            del counts[value]
            counts[label] = counts.get(label, 0) + n
        return chains

    def _chain(self, attribute: Attribute, value: object) -> list[str]:
        if attribute.hierarchy is None:
            chain, text = [label_of(value)], label_of(value)
            while len(text := text[: -self.cut]):
                chain.append(text.ljust(len(chain[0]), ROOT))
            return [*chain, ROOT]
        path = path_of(attribute, value)
        return list(dict.fromkeys([*path[:: self.cut], path[-1]]))  # a label repeated on the next level is no cut

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema: the columns hold text, both full and shortened values."""
        after = {}
        for name in self.columns:
            old = schema[name]
            scale = Scale.PARTIALLY_ORDERED if old.scale is Scale.ORDERED else old.scale
            after[name] = as_text(old, scale, old.hierarchy)
        return Schema(tuple(after.get(a.name, a) for a in schema))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Release each value as its label; a value that was not counted is rare."""
        out = batch
        for name, table in self.tables.items():
            attribute = batch.schema[name]
            out = relabel(out, name, lambda values, a=attribute, t=table: [self._released(a, v, t) for v in values])  # type: ignore[misc]
        return out

    def _released(self, attribute: Attribute, value: object, table: dict[str, str]) -> str:
        if (label := label_of(value)) in table:
            return table[label]
        chain = self._chain(attribute, value)
        return chain[-1] if self.repeat == "until_frequent" else chain[min(1, len(chain) - 1)]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that no rare value is released unchanged (or at all, if cuts are repeated), and count the shortened values."""
        t = self.least
        for name, table in self.tables.items():
            counts = count_values(after, name, self._counted)
            uncut = {chain[0] for v in table if (chain := self._chain(before.schema[name], v))[0] == table[v]} - {ROOT}
            checked = uncut if self.repeat == "once" else set(counts) - {ROOT}
            if wrong := sum(counts.get(label, 0) < t for label in checked if label in counts):
                raise DataError(f"{wrong:,} released values of '{name}' are still held by fewer than {t:,} {self._counted}; "
                                "nothing is released.")  # fmt: skip
            cut = sum(n for label, n in count_values(after, name).items() if label not in uncut)
            what = "value is released uncut" if self.repeat == "once" else f"value but '{ROOT}' is released"
            says = f"{name}: no {what} that fewer than {t:,} {self._counted} have; {cut:,} records have a cut one"
            yield Guarantee(step, says, "released values counted")


class ChangeRare(Mask):
    """The p % of the records whose keys occur least get another category (global-risk paper, section 4: sex is reversed).

    With two categories it is the other one; with more, one drawn at random, or the one in `to`. The number of changed records is
    p times their number, rounded down; a larger p changes the same records and more. A column that describes households is
    changed for the households of the rarest records.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "categories are exchanged for some records only"

    column: str = param(doc="column whose category is changed", columns="one", holds="categories")
    share: float = param(default=0.05, doc="p: share of the records that are changed, from 0 to 1", low=0, high=1)
    keys: tuple[str, ...] | None = param(
        default=None, doc="columns whose combinations are counted; all keys if none", columns="many", holds="categories"
    )
    to: Mapping[str, str] | None = param(
        default=None, doc="new category for each category, instead of a draw", of_data="categories"
    )

    @override
    def validate(self) -> None:
        if self.keys == ():
            raise ParameterError("keys of change_rare is an empty list. Name at least one column, or leave keys out.")
        if self.to is None:
            return
        if not isinstance(self.to, Mapping) or not self.to:
            raise ParameterError(
                "to of change_rare must give a new category for each category, such as { f = 'm', m = 'f' }."
            )
        object.__setattr__(self, "to", {label_of(a): label_of(b) for a, b in self.to.items()})
        if same := [a for a, b in self.to.items() if a == b]:
            raise ParameterError(
                f"to of change_rare leaves {len(same):,} categories as they are. Give each another one."
            )

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        keys = self.keys or schema.names(role="key")
        if not keys:
            raise DataError("there is no key to count. Name the columns (keys=...), or give some the role 'key'.")
        return keys

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.column, *(self.keys or schema.names(role="key")))))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the changed column: the keys are only counted."""
        return (self.column,)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Change the category of the records whose keys occur least; ties are broken at random."""
        for name in (self.column, *self._keys(batch.schema)):
            if batch.column(name).kind is Kind.OTHER:
                raise DataError(f"column '{name}' holds {batch.column(name).kind}, where categories are needed.")
        codes, values = batch.column(self.column).codes
        first, member = batch.members([self.column])
        old = codes[first].astype(np.int64)
        chosen = self._chosen(batch, first, member, draws)
        if not len(chosen):
            return batch
        new = old.copy()
        new[chosen] = self._others(batch, values, old[chosen], batch.units(self.column)[first][chosen], draws)
        return batch.with_codes(self.column, new[member])

    def _chosen(self, batch: Batch, first: Whole, member: Whole, draws: Draws) -> Whole:
        """Return which units are changed, rarest first."""
        known = np.flatnonzero(~batch.missing(self.column)[first])
        many = math.floor(
            self.share * len(known) + 1e-9
        )  # 0.29 of 100 is 29, though the product in floats is slightly less
        if self.share > 0 and not many:
            raise DataError(
                f"a share of {self.share:g} of {len(known):,} records with a value in '{self.column}' is less than one record. "
                "Raise share; 0 changes nothing."
            )
        occurs = self._occurrences(batch, first, member)[known]
        lot = draws.uniforms(batch.units(self.column)[first][known], "lot")
        return known[np.lexsort([lot, occurs])[:many]]

    def _occurrences(self, batch: Batch, first: Whole, member: Whole) -> Whole:
        """Return how often the key combination of each unit occurs; for households, that of the rarest member."""
        label, sizes = classes([batch.column(name).codes[0] for name in self._keys(batch.schema)], len(batch))
        least = np.full(len(first), len(batch) + 1, np.int64)
        np.minimum.at(least, member, sizes[label])
        return least

    def _others(self, batch: Batch, values: list[object], old: Whole, ids: Whole, draws: Draws) -> Whole:
        """Return another category for each, as a code."""
        gap = batch.schema[self.column].missing
        real = np.array([i for i, v in enumerate(values) if v not in gap], np.int64)
        if self.to is not None:
            place = {label_of(v): i for i, v in enumerate(values)}
            if lost := [i for i in np.unique(old) if self.to.get(label_of(values[i])) not in place]:
                raise DataError(
                    f"{len(lost):,} categories of '{self.column}' have no new one in to, or one that no record has."
                )
            table = np.array([place.get(self.to.get(label_of(v), ""), -1) for v in values], np.int64)
            return table[old]
        if len(real) < 2:
            raise DataError(
                f"column '{self.column}' has a single category, so there is no other one to change it to. Choose "
                "another column."
            )
        at = np.searchsorted(real, old)
        step = np.minimum((draws.uniforms(ids, "category") * (len(real) - 1)).astype(np.int64), len(real) - 2)
        return real[(at + 1 + step) % len(real)]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify the number of changed units, and that no unchanged unit has rarer keys than a changed one."""
        names = [*self._keys(before.schema), self.column, *before.schema.names(role="household")]
        batch = before.batch([*dict.fromkeys(names)])
        first, member = batch.members([self.column])
        moved = (batch.column(self.column).hashes != after.batch([self.column]).column(self.column).hashes)[first]
        known = ~batch.missing(self.column)[first]
        occurs = self._occurrences(batch, first, member)
        many = math.floor(self.share * int(known.sum()) + 1e-9)
        rarest_left, last = occurs[known & ~moved].min(initial=len(batch) + 1), occurs[moved].max(initial=0)
        if int(moved.sum()) != many or rarest_left < last:
            raise DataError(
                f"the category of '{self.column}' was not changed for the rarest keys; nothing is released."
            )
        what = "records" if len(first) == len(batch) else "households"
        says = f"{self.column}: changed for {many:,} of {int(known.sum()):,} {what}, those whose keys occur least"
        return (Guarantee(step, says, "released categories compared with the originals"),)
