"""What global recoding does to values and to the schema, whatever the rule; and counting of categories."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask
from sfumato.engines import Column, Kind
from sfumato.errors import DataError, ParameterError, SchemaError
from sfumato.households import unit_ids
from sfumato.masks.recoded_schema import by_cuts, by_level, by_list, hierarchy_of, interval_labels
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Attribute, Schema
from sfumato.schema.hierarchy.base import label_of

Rule = Mapping[str, str] | tuple[float, ...] | int
"""Old value → new label; or where intervals begin; or a level of the column's hierarchy."""


class Recoding(Mask, abstract=True):
    """Columns whose values are replaced by broader labels, each column by a rule of its own."""

    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"

    @abstractmethod
    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the rule of each column that is recoded."""

    def unlisted_label(self, value: str) -> str | None:
        """Return the label of a value that a list of old and new values does not name; None refuses it."""
        return None

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the recoded columns."""
        return tuple(self.plan(schema))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with what the new labels mean: their order, their numbers, their place in the hierarchy."""
        after = {n: self._attribute(schema[n], rule) for n, rule in self.plan(schema).items()}
        return Schema(tuple(after.get(a.name, a) for a in schema))

    def _attribute(self, old: Attribute, rule: Rule) -> Attribute:
        if isinstance(rule, tuple):
            new = by_cuts(old, rule)
        elif isinstance(rule, int):
            new = by_level(old, rule)
        else:
            new = by_list(old, rule, self.unlisted_label)
        labels = {*new.values, *((*rule.values(), self.unlisted_label("")) if isinstance(rule, Mapping) else ())}
        if wrong := [c for c in new.missing if c in labels]:
            raise ParameterError(f"a label of '{old.name}' is also its code for missing, '{wrong[0]}'. Choose another.")
        return new

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Replace each value by its label; missing values stay missing."""
        out = batch
        for name, rule in self.plan(batch.schema).items():
            if isinstance(rule, tuple):
                out = _cut(out, name, rule)
            elif isinstance(rule, int):
                out = relabel(out, name, lambda v, n=name, r=rule: generalised(batch.schema[n], v, r))  # type: ignore[misc]
            else:
                out = relabel(out, name, lambda v, n=name, r=rule: self._listed(n, v, r))  # type: ignore[misc]
        return out

    def _listed(self, name: str, values: Sequence[object], rule: Mapping[str, str]) -> list[str]:
        new = [rule.get(old, self.unlisted_label(old)) for old in map(label_of, values)]
        if left := sum(label is None for label in new):
            raise DataError(no_rule(name, f"{left:,} values"))
        return [str(label) for label in new]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that every released value is a label that its rule allows."""
        said = []
        for name, rule in self.plan(before.schema).items():
            found = distinct(after, name)
            if isinstance(rule, int):
                hierarchy = hierarchy_of(before.schema[name])
                wrong = sum(hierarchy.path(v)[0] != hierarchy.generalise([v], rule)[0] for v in found)
                says = f"{name}: no value below level {rule} of its hierarchy is released"
            else:
                allowed = set(interval_labels(rule)) if isinstance(rule, tuple) else set(rule.values())
                wrong = sum(v not in allowed and (v in rule or self.unlisted_label(str(v)) != v) for v in found)
                what = "nothing but intervals" if isinstance(rule, tuple) else "no value that its rule renames"
                says = f"{name}: {what} is released"
            if wrong:
                raise DataError(
                    f"{wrong:,} released values of '{name}' are not what its rule says; nothing is released."
                )
            said.append(Guarantee(step, says, "all released values checked"))
        return tuple(said)


# -- what a rule does to values


def relabel(batch: Batch, name: str, labels: Callable[[Sequence[Any]], Sequence[str | None]]) -> Batch:
    """Return the batch with a column as text: `labels` gives the label of each distinct value; codes for missing stay."""
    codes, values = batch.column(name).codes
    gap = set(batch.schema[name].missing) if batch.column(name).kind is not Kind.DATE else set()
    known = [i for i, v in enumerate(values) if v not in gap]
    new: list[str | None] = [label_of(v) for v in values]
    for i, label in zip(known, labels([values[i] for i in known]), strict=True):
        new[i] = label
    table = sorted({label for label in new if label is not None})
    place = {label: i for i, label in enumerate(table)}
    at = np.array([-1 if label is None else place[label] for label in new] + [-1], np.int32)
    return batch.with_codes(name, at[codes], table)


def generalised(attribute: Attribute, values: Sequence[Any], level: int) -> list[str]:
    """Return the labels of distinct values on a level of the column's hierarchy."""
    hierarchy = hierarchy_of(attribute)
    try:
        return [str(label) for label in hierarchy.generalise(values, level)]
    except SchemaError as error:
        raise DataError(f"column '{attribute.name}': {error}") from None


def _cut(batch: Batch, name: str, cuts: tuple[float, ...]) -> Batch:
    numbers, labels = batch.numbers(name), interval_labels(cuts)
    codes = np.where(np.isnan(numbers), -1, np.searchsorted(cuts, numbers, side="right"))
    for code in batch.schema[name].missing:  # which kind of "no answer" it was stays known
        codes[_is(batch.column(name), code)] = len(labels)
        labels.append(label_of(code))
    return batch.with_codes(name, codes, labels)


def _is(column: Column, value: object) -> NDArray[np.bool_]:
    if column.kind is Kind.NUMBER:
        return np.asarray(column.numbers == value) if not isinstance(value, str) else np.zeros(len(column), bool)
    codes, values = column.codes
    return np.array([v == value for v in values] + [False])[codes]


# -- counting


def count_values(
    data: Microdata, name: str, per: str = "records", group: Callable[[Any], Any] | None = None
) -> dict[Any, int]:
    """Return how many records (or households) have each value, missing ones left out; in one pass over the pieces.

    With `group`, values for which it gives the same are counted as one.
    """
    if per == "households" and data.schema.one("household") is None:
        raise DataError("households cannot be counted: no column has the role 'household' in the schema.")
    if data.kind(name) is Kind.OTHER:
        raise DataError(f"column '{name}' holds {data.kind(name)}, where categories are needed.")
    counts: Counter[Any] = Counter()
    homes: dict[Any, list[NDArray[np.int64]]] = {}
    for rows in data.engine.batches([name, *(data.schema.names(role="household") if per == "households" else ())]):
        batch = Batch(rows, data.schema)
        codes, values = batch.column(name).codes
        known = ~batch.missing(name)
        sizes = np.bincount(codes[known], minlength=len(values))
        if per == "records":
            for value, n in zip(values, sizes.tolist(), strict=True):
                if n:
                    counts[value if group is None else group(value)] += n
            continue
        units = unit_ids(batch, "household")[known][np.argsort(codes[known], kind="stable")]
        for value, part in zip(values, np.split(units, np.cumsum(sizes)[:-1]), strict=False):
            if len(part):
                homes.setdefault(value if group is None else group(value), []).append(np.unique(part))
    return dict(counts) or {value: len(np.unique(np.concatenate(parts))) for value, parts in homes.items()}


def distinct(data: Microdata, name: str) -> list[Any]:
    """Return the values that occur in a column, missing ones left out."""
    return list(count_values(data, name))


def no_rule(name: str, what: str) -> str:
    """Return the sentence for values that a list of old and new values does not name."""
    return (
        f"{what} of '{name}' have no rule. Name them in rules, or set unlisted = 'keep' or unlisted = 'merge'; "
        f"codes for missing answers belong in the schema."
    )
