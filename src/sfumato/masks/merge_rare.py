"""Merging of rare categories, until every released category has enough records."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sfumato.contract import Draws, Guarantee, Mask, learned, param
from sfumato.engines import Column, Kind
from sfumato.errors import DataError, ParameterError
from sfumato.masks.merging import Merged, leftovers, ordered, ordered_categories, path_of, relatives, runs
from sfumato.masks.recoded_schema import as_text
from sfumato.masks.recoding import count_values, relabel
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Attribute, Level, Scale, Schema
from sfumato.schema.hierarchy.base import label_of


class MergeRare(Mask):
    """Categories with fewer than `least` records are merged, so that every released category has at least that many.

    `nearest` merges with what is like it: an ordered category or a number with its smaller neighbour, a category in a
    hierarchy with its rare relatives (they become their parent), any other into one category of leftovers. `other` puts all rare
    ones into that category. If the leftovers are still too few, the next smallest category joins them. A group of numbers or
    dates is released as its median; a group of ordered categories as "first to last". Households are counted where the column
    describes households.
    """

    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to merge; all keys of categories if none", columns="many", holds="categories"
    )
    least: int = param(
        default=5, doc="smallest number of records in a category", low=2, high=1e9, integer=True, scale="log"
    )
    into: Literal["nearest", "other"] = param(
        default="nearest", doc="what rare categories are merged into", choices=("nearest", "other")
    )
    other: str = param(default="other", doc="label of the category of leftovers", of_data="categories")
    merged: Any = learned("columns", "least", "into", "other", default=None)

    def validate(self) -> None:
        """Check the label."""
        super().validate()
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

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns named, or all keys of categories: those that are not ordered, and ordered categories."""
        keys = (schema[n] for n in schema.names(role="key"))
        return self.columns or tuple(a.name for a in keys if a.scale is not Scale.ORDERED or a.values)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema: what becomes text has no bounds; runs of ordered categories have numbers of their own."""
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
        """Return the label of each distinct value; one that was not counted goes where it belongs."""
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

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that every released category has enough records, and say how many categories are left."""
        said = []
        for name in self.merged:
            unit = _unit(before.schema[name], before)
            counts = count_values(after, name, unit)
            if rare := sum(n < self.least for n in counts.values()):
                raise DataError(
                    f"{rare:,} released categories of '{name}' have fewer than {self.least:,} {unit}; nothing is released."
                )
            old = len(count_values(before, name))
            says = f"{name}: every released category has at least {self.least:,} {unit}; {len(counts):,} of {old:,} are left"
            said.append(Guarantee(step, says, f"counted; the smallest has {min(counts.values(), default=0):,}"))
        return tuple(said)


def _unit(attribute: Attribute, data: Microdata) -> str:
    """Return what is counted: households have one value each where a column describes households."""
    return "households" if attribute.level is Level.HOUSEHOLD and data.schema.one("household") else "records"
