"""Global recoding and generalisation: every value of a column is released as a broader category."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, learned, param
from sfumato.data import Column, Kind
from sfumato.data.households import unit_ids
from sfumato.data.microdata import Batch, Microdata, check_numeric
from sfumato.errors import DataError, ParameterError, SchemaError
from sfumato.schema import Attribute, IntervalHierarchy, Scale, Schema
from sfumato.schema.hierarchy import Hierarchy, TreeHierarchy, label_of
from sfumato.typing import Flags, Whole

Pairs = Iterable[tuple[float, str]]

_MOST_CLASSES = 10_000


def interval_labels(cuts: Sequence[float]) -> list[str]:
    """Return the labels of the intervals that cuts make, lowest first: "< 18", "[18, 65)", "≥ 65"."""
    inside = [math.nextafter(cuts[0], -math.inf), *cuts]
    return [str(label) for label in IntervalHierarchy([list(cuts)]).generalise(inside, 1)]


def as_text(
    old: Attribute, scale: Scale, hierarchy: Hierarchy | None, values: Mapping[str, float] | None = None
) -> Attribute:
    """Return the attribute of a column of labels: no bounds, no whole numbers; codes for missing are text."""
    if scale is Scale.PARTIALLY_ORDERED and hierarchy is None:
        scale = Scale.UNORDERED
    return old.with_(
        scale=scale,
        hierarchy=hierarchy,
        values=dict(values or {}),
        integer=False,
        bounds=(None, None),
        labels={},
        missing=tuple(label_of(code) for code in old.missing),
    )


def hierarchy_of(attribute: Attribute) -> Hierarchy:
    """Return the column's hierarchy, or refuse."""
    if attribute.hierarchy is None:
        raise DataError(
            f"column '{attribute.name}' has no hierarchy in the schema. Give it one, or recode it by rules."
        )
    return attribute.hierarchy


def by_cuts(old: Attribute, cuts: tuple[float, ...]) -> Attribute:
    """Return the attribute of a column of intervals: they are ordered, and stand for their midpoints."""
    labels, middles = interval_labels(cuts), _middles(old, cuts)
    kept = old.hierarchy if isinstance(old.hierarchy, IntervalHierarchy) and holds(old.hierarchy, labels) else None
    return as_text(old, Scale.ORDERED, kept or IntervalHierarchy([list(cuts)]), dict(zip(labels, middles, strict=True)))


def by_level(old: Attribute, level: int) -> Attribute:
    """Return the attribute of a column on a level of its hierarchy: ordered, if the classes are ordered and finite in number."""
    hierarchy = hierarchy_of(old)
    if level > hierarchy.height:
        raise ParameterError(
            f"the hierarchy of '{old.name}' has levels 0 to {hierarchy.height}, but its rule asks for level {level}."
        )
    values: dict[str, float] = {}
    if old.scale is Scale.ORDERED and level < hierarchy.height:
        numbers = old.values or _leaves(hierarchy) or {str(m): m for m in _class_middles(old, hierarchy, level)}
        if holds(hierarchy, numbers):
            values = _in_order(zip(numbers.values(), hierarchy.generalise(list(numbers), level), strict=True))
    scale = Scale.ORDERED if values else Scale.PARTIALLY_ORDERED if old.scale is Scale.ORDERED else old.scale
    return as_text(old, scale, hierarchy, values)


def by_list(old: Attribute, rule: Mapping[str, str], rest: Callable[[str], str | None]) -> Attribute:
    """Return the attribute of a column of renamed values: ordered, if each label stands for a run of the old order."""
    domain = {v: n for v, n in old.values.items() if v not in old.missing}
    if not domain and rest("") is None:  # the rule names every value there is
        domain = {v: n for v in rule if (n := as_number(v)) is not None}
    labels = {v: rule.get(v, rest(v)) for v in [*rule, *domain]}
    values: dict[str, float] = {}
    if old.scale is Scale.ORDERED and all(v in domain and label is not None for v, label in labels.items()):
        values = _in_order((domain[v], str(label)) for v, label in labels.items())
    fits = old.hierarchy is not None and holds(old.hierarchy, filter(None, [*rule.values(), rest("*")]))
    scale = Scale.ORDERED if values else Scale.UNORDERED if old.scale is Scale.ORDERED else old.scale
    return as_text(old, scale, old.hierarchy if fits else None, values)


def _in_order(pairs: Pairs) -> dict[str, float]:
    """Return a number for each label, if labels are runs of the old order: the label if all are numbers, else the run's mean."""
    ordered = [(label, [n for n, _ in run]) for label, run in itertools.groupby(sorted(pairs), key=lambda p: p[1])]
    labels = [label for label, _ in ordered]
    if len(set(labels)) < len(labels):
        return {}
    own = [as_number(label) for label in labels]
    if all(a is not None for a in own) and own == sorted(own, key=lambda a: a or 0.0):
        return {label: float(a) for label, a in zip(labels, own, strict=True) if a is not None}
    return {label: sum(numbers) / len(numbers) for label, numbers in ordered}


def _middles(old: Attribute, cuts: Sequence[float]) -> list[float]:
    """Return the midpoint of each interval: for whole numbers, [20, 25) ends with 24; open ones end at the schema's bound."""
    low, high = old.bounds
    gap = (cuts[1] - cuts[0], cuts[-1] - cuts[-2]) if len(cuts) > 1 else (1.0, 1.0)
    first = low if low is not None and low < cuts[0] else cuts[0] - gap[0]
    last = high + old.integer if high is not None and high >= cuts[-1] else cuts[-1] + gap[1]
    edges = [first, *cuts, last]
    return [(a + max(b - old.integer, a)) / 2 for a, b in itertools.pairwise(edges)]


def _leaves(hierarchy: Hierarchy) -> dict[str, float]:
    """Return the values at the bottom of a tree, if all are numbers: ages with bands written out one by one."""
    numbers = {v: as_number(v) for v in hierarchy.values} if isinstance(hierarchy, TreeHierarchy) else {}
    known = {v: n for v, n in numbers.items() if n is not None}
    return known if len(known) == len(numbers) else {}


def _class_middles(old: Attribute, hierarchy: Hierarchy, level: int) -> list[float]:
    """Return a number within each class of an interval hierarchy's level, if the classes are finite in number."""
    if not isinstance(hierarchy, IntervalHierarchy):
        return []
    if hierarchy.edges:
        return _middles(old, [float(e) for e in hierarchy.edges[level - 1]])
    width, start = hierarchy.widths[level - 1], hierarchy.start or 0
    low = hierarchy.bottom if hierarchy.bottom is not None else old.bounds[0]
    high = hierarchy.top if hierarchy.top is not None else old.bounds[1]
    if low is None or high is None or (high - low) / width > _MOST_CLASSES:
        return []
    first, last = math.floor((low - start) / width), math.ceil((high - start) / width)
    inner = [start + k * width for k in range(first, last + 1)]
    return _middles(old, [low, *(e for e in inner if low < e < high), high] if low < high else [low])


def holds(hierarchy: Hierarchy, labels: Iterable[object]) -> bool:
    """Whether a hierarchy knows all these labels."""
    try:
        return all(hierarchy.path(label) for label in labels)
    except SchemaError:
        return False


def as_number(value: object) -> float | None:
    """Return a finite number, also from its text; None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


Rule = Mapping[str, str] | tuple[float, ...] | int
"""Old value → new label; or where intervals begin; or a level of the column's hierarchy."""


class Recoding(Mask, abstract=True):
    """Columns whose values are replaced by broader labels, each column by its own rule."""

    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"

    @abstractmethod
    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the rule of each column that is recoded."""

    def unlisted_label(self, value: str) -> str | None:
        """Return the label of a value that a list of old and new values does not name; None refuses it."""
        return None

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self.plan(schema))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with the order, the numbers and the hierarchy level of the new labels."""
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

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that every released value is a label that its rule allows."""
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
            yield Guarantee(step, says, "all released values checked")


# -- applying a rule to values


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
    for code in batch.schema[name].missing:  # the code for the kind of "no answer" is kept
        codes[_is(batch.column(name), code)] = len(labels)
        labels.append(label_of(code))
    return batch.with_codes(name, codes, labels)


def _is(column: Column, value: object) -> Flags:
    if column.kind is Kind.NUMBER:
        return np.asarray(column.numbers == value) if not isinstance(value, str) else np.zeros(len(column), bool)
    codes, values = column.codes
    return np.array([v == value for v in values] + [False])[codes]


# -- counting


def count_values(
    data: Microdata, name: str, per: str = "records", group: Callable[[Any], Any] | None = None
) -> dict[Any, int]:
    """Return how many records (or households) have each value, without missing ones, in one pass over the pieces.

    With `group`, values with the same group are counted as one.
    """
    if per == "households" and data.schema.one("household") is None:
        raise DataError("households cannot be counted: no column has the role 'household' in the schema.")
    if data.kind(name) is Kind.OTHER:
        raise DataError(f"column '{name}' holds {data.kind(name)}, where categories are needed.")
    counts: Counter[Any] = Counter()
    homes: dict[Any, list[Whole]] = {}
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
    """Return the values that occur in a column, without missing ones."""
    return list(count_values(data, name))


def no_rule(name: str, what: str) -> str:
    """Return the sentence for values that a list of old and new values does not name."""
    return (
        f"{what} of '{name}' have no rule. Name them in rules, or set unlisted = 'keep' or unlisted = 'merge'; "
        f"codes for missing answers belong in the schema."
    )


class Recode(Recoding):
    """Global recoding by rules: lists of old and new values, intervals, or a level of the hierarchy (Willenborg, de Waal 2001).

    Examples
    --------
    >>> recode = Recode({"marital": {"widowed": "single", "divorced": "single"}, "age": [18, 65], "zip": 2}, unlisted="keep")
    >>> recode.rules["age"]
    (18.0, 65.0)
    """

    rules: Mapping[str, Any] = param(
        doc="for each column: old values and their new labels, or where intervals begin, or a level of its hierarchy",
        of_data="values",
    )
    unlisted: Literal["refuse", "keep", "merge"] = param(
        default="refuse", doc="what to do with values that a list of old and new values does not name"
    )
    other: str = param(
        default="other", doc="label of the values that are not named, if they are merged", of_data="categories"
    )
    checked: Any = learned("rules", "unlisted", default=None)

    @override
    def validate(self) -> None:
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise ParameterError(
                "rules of recode must name columns and their rules, such as { age = [18, 65], zip = 2 }."
            )
        if not isinstance(self.other, str) or not self.other:
            raise ParameterError("other of recode must be a label, such as 'other'.")
        object.__setattr__(self, "rules", {str(n): _rule(str(n), rule) for n, rule in self.rules.items()})

    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the rules; level 0 changes nothing."""
        for name in self.rules:
            schema[name]
        return {n: rule for n, rule in self.rules.items() if not (isinstance(rule, int) and rule == 0)}

    def unlisted_label(self, value: str) -> str | None:
        """Return the value itself, the common label, or None to refuse it."""
        return {"refuse": None, "keep": value, "merge": self.other}[self.unlisted]

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Count, in the whole file, the records that have no rule."""
        for name, rule in self.rules.items():
            if isinstance(rule, tuple):
                check_numeric(data, name)
            elif isinstance(rule, Mapping):
                counts = count_values(data, name)
                left = {v: n for v, n in counts.items() if label_of(v) not in rule}
                if counts and len(left) == len(counts):
                    raise DataError(
                        f"'{name}' has none of the values that its rule names, so the rule would do nothing. Check how the "
                        "values are written."
                    )
                if left and self.unlisted == "refuse":
                    raise DataError(
                        no_rule(name, f"{sum(left.values()):,} records, with {len(left):,} different values,")
                    )
        return self.learn(checked=True)


def _rule(name: str, given: Any) -> Rule:
    """Return a rule in its plain form, or refuse other input."""
    if isinstance(given, Mapping) and given:
        return {label_of(old): label_of(new) for old, new in given.items()}
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 0:
        return int(given)
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes) and len(given):
        cuts = [as_number(c) if not isinstance(c, str | bool) else None for c in given]
        if all(c is not None for c in cuts) and all(a < b for a, b in itertools.pairwise(cuts)):  # type: ignore[operator]
            return tuple(float(c) for c in cuts if c is not None)
        raise ParameterError(f"the intervals of '{name}' must begin at numbers that rise, such as [18, 40, 65].")
    raise ParameterError(
        f"the rule of '{name}' must be old values and new labels, such as {{ widowed = 'single' }}, numbers where intervals "
        "begin, such as [18, 65], or a level of its hierarchy, such as 2."
    )


class Generalise(Recoding):
    """Global recoding of keys to one level of their hierarchies (Samarati and Sweeney 1998). Level 0 changes nothing.

    A column whose hierarchy has fewer levels is recoded to its top, where all values are one.
    """

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to generalise; all keys with a hierarchy if none", columns="many", holds="categories"
    )
    level: int = param(default=1, doc="level of the hierarchy; 0 changes nothing", low=0, high=1000, integer=True)

    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the level for each column."""
        columns = self.columns
        if columns is None:
            columns = tuple(n for n in schema.names(role="key") if schema[n].hierarchy is not None)
            if not columns:
                raise DataError(
                    "no key has a hierarchy in the schema. Give one a hierarchy, or recode by rules (recode)."
                )
        levels = {name: min(self.level, hierarchy_of(schema[name]).height) for name in columns}
        return {name: level for name, level in levels.items() if level}
