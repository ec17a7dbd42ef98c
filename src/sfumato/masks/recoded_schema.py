"""What a column means once its values are replaced by broader labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from sfumato.errors import DataError, ParameterError, SchemaError
from sfumato.schema import Attribute, Scale
from sfumato.schema.hierarchy import Hierarchy, IntervalHierarchy, TreeHierarchy
from sfumato.schema.hierarchy.base import label_of

Pairs = Iterable[tuple[float, str]]

_MOST_CLASSES = 10_000


def interval_labels(cuts: Sequence[float]) -> list[str]:
    """Return the labels of the intervals that cuts make, lowest first: "< 18", "[18, 65)", "≥ 65"."""
    inside = [math.nextafter(cuts[0], -math.inf), *cuts]
    return [str(label) for label in IntervalHierarchy([list(cuts)]).generalise(inside, 1)]


def as_text(
    old: Attribute, scale: Scale, hierarchy: Hierarchy | None, values: Mapping[str, float] | None = None
) -> Attribute:
    """Return what a column means once it holds labels: no bounds, no whole numbers; codes for missing are text."""
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
    """Return what a column means once it holds intervals: they are in order, and stand for their middles."""
    labels, middles = interval_labels(cuts), _middles(old, cuts)
    kept = old.hierarchy if isinstance(old.hierarchy, IntervalHierarchy) and holds(old.hierarchy, labels) else None
    return as_text(old, Scale.ORDERED, kept or IntervalHierarchy([list(cuts)]), dict(zip(labels, middles, strict=True)))


def by_level(old: Attribute, level: int) -> Attribute:
    """Return what a column means on a level of its hierarchy: in order, where the classes are and there is an end to them."""
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
    """Return what a column means once its values are renamed: in order, if each label stands for a run of the old order."""
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
    """Return a number for each label, if labels are runs of the old order: its own where all are numbers, else the run's mean."""
    ordered = [(label, [n for n, _ in run]) for label, run in itertools.groupby(sorted(pairs), key=lambda p: p[1])]
    labels = [label for label, _ in ordered]
    if len(set(labels)) < len(labels):
        return {}
    own = [as_number(label) for label in labels]
    if all(a is not None for a in own) and own == sorted(own, key=lambda a: a or 0.0):
        return {label: float(a) for label, a in zip(labels, own, strict=True) if a is not None}
    return {label: sum(numbers) / len(numbers) for label, numbers in ordered}


def _middles(old: Attribute, cuts: Sequence[float]) -> list[float]:
    """Return the middle of each interval: of whole numbers, [20, 25) ends with 24; open ones end at the schema's bound."""
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
    """Return a number within each class of an interval hierarchy's level, if there is an end to them."""
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
