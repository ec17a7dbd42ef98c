"""How much masking changed a key: its order, inversions, changes, weak and strong changes (global-risk paper, section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.errors import DataError, ParameterError, SchemaError, plural
from sfumato.schema import Attribute, Scale
from sfumato.schema.hierarchy import ROOT, Hierarchy, PrefixHierarchy, label_of
from sfumato.schema.interval_hierarchy import interval_bounds
from sfumato.typing import Numbers, Whole

Codes = NDArray[Any]
Span = tuple[float, float]


def original_ranks(codes: Codes, values: Sequence[Any], attribute: Attribute, in_order: bool) -> Codes:
    """Return whole numbers in the order of the values, -1 where missing; `in_order` says that the codes are such."""
    if in_order:
        return codes
    numbers = np.array([attribute.values.get(label_of(value), math.nan) for value in values], np.float64)
    if np.isnan(numbers[np.unique(codes[codes >= 0])]).any():
        raise DataError(
            f"key '{attribute.name}' is ordered, but holds text whose order is not known. Give its values numbers in the schema "
            "(values = {...}), or set its scale to 'unordered'."
        )
    return np.asarray(np.append(np.unique(numbers, return_inverse=True)[1], -1)[codes])


def released_ranks(
    codes: Codes, values: Sequence[Any], before: Attribute, after: Attribute, in_order: bool
) -> tuple[Codes, Codes] | None:
    """Return where the released values begin and end, as whole numbers on one line, -1 where missing; None if that is not known.

    A number begins and ends where it is. An interval has room: it is above another value only if all of it is. So that a value
    and an interval around it are not in any order, as little as two equal values.
    """
    if in_order:
        return codes, codes
    spans: list[Span | None] = [None] * len(values)
    nodes, used = _spans_of_nodes(before), np.unique(codes[codes >= 0]).tolist()
    numbered = all(
        label_of(values[code]) in after.values for code in used
    )  # the schema's numbers go before what a label says
    for code in used:
        label = label_of(values[code])
        if label == ROOT:
            continue
        numbers = (after.values.get(label), before.values.get(label))
        known = next(((float(n), float(n)) for n in numbers if n is not None), nodes.get(label))
        spans[code] = known if numbered else interval_bounds(values[code]) or known
        if spans[code] is None:
            return None
    ends = np.array([s or (math.nan, math.nan) for s in spans], np.float64).reshape(-1, 2)
    line = np.unique(ends[~np.isnan(ends)])
    places = np.where(np.isnan(ends), -1, np.searchsorted(line, ends))
    low, high = (np.append(places[:, k], -1) for k in (0, 1))
    return low[codes], high[codes]


def _spans_of_nodes(attribute: Attribute) -> dict[str, Span]:
    """Return for each label of a hierarchy the smallest and the largest number that belongs to a value below it."""
    spans: dict[str, Span] = {}
    if attribute.hierarchy is None:
        return spans
    for label, number in attribute.values.items():
        try:
            path = attribute.hierarchy.path(label)
        except SchemaError:
            continue
        for node in path[1:-1]:
            low, high = spans.get(node, (number, number))
            spans[node] = (min(low, number), max(high, number))
    return spans


WeakRule = Callable[[str, str], float] | Sequence[float] | Mapping[str, Mapping[str, float]]
"""What a weak change counts: a function of the two labels; a number for each level of the hierarchy between the values and the
root, on which the two meet; or a table of pairs, either way round, in which a pair that is not listed counts as by default."""
Change = Literal["none", "weak", "strong"]


@dataclass(frozen=True, eq=False)
class ValuePairs:
    """What became of the values of one key: c pairs of an original and a released value, and how many records have them."""

    before: Codes
    """Code of the original value, shape (c,); -1 is missing."""
    after: Codes
    """Code of the released value, shape (c,); -1 is missing."""
    counts: Whole
    before_values: Sequence[Any]
    """What the original codes stand for."""
    after_values: Sequence[Any]

    @property
    def records(self) -> int:
        """r: how many records are in both files."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class KeyChange:
    """The inversion-change factor of one key, from 0 (as it was) to 1 (of no use to a snooper), and where it comes from."""

    name: str
    factor: float
    how: Literal["inversions", "changes", "weak changes"]
    amount: int
    """Inversions, where values are ordered; else records whose value changed, weakly or strongly."""
    strong: int
    """Records whose value changed strongly: beyond every label but the root, or to or from a missing one."""
    foreign: bool = False
    """Whether no released value is one of the original's, as if the key had been recoded; told for unordered keys."""


def key_change(
    pairs: ValuePairs, before: Attribute, after: Attribute, ordered: tuple[bool, bool], rule: WeakRule | None = None
) -> KeyChange:
    """Return how much a key was changed, by its scale (global-risk paper, (2.5), (2.7), (2.8)).

    `before` and `after` say what the column means in the original and in the release; `ordered` whether the codes of each follow
    the order of the values, as those of numbers and dates do. An ordered key that is released as intervals, or some of it, is
    compared by their order; one that is released as other labels over its hierarchy, and refused if it has none.

    A missing value is the root of the tree: a value that masking suppressed, or put where there was none, is a strong change;
    missing in both files is no change.
    """
    if before.scale is Scale.ORDERED:
        return _by_order(pairs, before, after, ordered) or _by_tree(pairs, before, _hierarchy(before), rule)
    if before.scale is Scale.UNORDERED or before.hierarchy is None:
        return _by_label(pairs, before.name)
    return _by_tree(pairs, before, before.hierarchy, rule)


# -- ordered keys


def inversion_factor(inversions: int, records: int) -> float:
    """Return min(1, 4 inv / (r (r - 1))), which is 0 for r <= 1 (global-risk paper, (2.5)).

    >>> inversion_factor(15, 10)
    0.6666666666666666
    """
    return 0.0 if records <= 1 else min(1.0, 4 * inversions / (records * (records - 1)))


def _by_order(pairs: ValuePairs, before: Attribute, after: Attribute, ordered: tuple[bool, bool]) -> KeyChange | None:
    """Return the change by inversions, None if the released values have no order that is known."""
    x = original_ranks(pairs.before, pairs.before_values, before, ordered[0])
    if (released := released_ranks(pairs.after, pairs.after_values, before, after, ordered[1])) is None:
        return None
    low, high = released
    known, gone = (x >= 0) & (low >= 0), (x >= 0) != (low >= 0)
    counts = pairs.counts
    if not known.all():
        x, low, high, counts = x[known], low[known], high[known], counts[known]
    found = count_inversions(x, low, counts, None if low is high or np.array_equal(low, high) else high)
    there, lost = int(counts.sum()), int(pairs.counts[gone].sum())
    factor = (lost + there * inversion_factor(found, there)) / max(pairs.records, 1)
    return KeyChange(before.name, factor, "inversions", found, lost)


def _hierarchy(attribute: Attribute) -> Hierarchy:
    if attribute.hierarchy is None:
        raise DataError(
            f"key '{attribute.name}' is ordered, but was released as text whose order is not known. Write it as numbers or "
            "intervals such as '[0, 10)', or give its labels numbers in the schema of the released file (values = {...})."
        )
    return attribute.hierarchy


def count_inversions(x: Codes, y: Codes, counts: Whole, ends: Codes | None = None) -> int:
    """Return the inversions among records that are given as a table of codes: by the table where it is short, else by record.

    Where released values are intervals, y is where they begin, and `ends` where they end.
    """
    records = int(counts.sum())
    if records < 2:
        return 0
    if ends is not None:
        return kernels.column_pairs.inversions_of_table(x, y, counts, ends)
    levels = int(y.max()) + 1
    room = (int(x.max()) + 1) * levels
    if room <= 4 * len(x) + 1024:
        packed = x.astype(np.int64) * levels + y
        table = np.bincount(packed, counts, room)
        cells = np.flatnonzero(table)
        return kernels.column_pairs.inversions_of_table(cells // levels, cells % levels, table[cells].astype(np.int64))
    if records == len(x):
        return kernels.column_pairs.inversions(x, y)
    if records <= 4 * len(x):
        return kernels.column_pairs.inversions(np.repeat(x, counts), np.repeat(y, counts))
    return kernels.column_pairs.inversions_of_table(x, y, counts)


# -- unordered keys


def _by_label(pairs: ValuePairs, name: str) -> KeyChange:
    before, after = _common_codes(pairs, label_of)
    changed = int(pairs.counts[before != after].sum())
    foreign = bool((after >= 0).any()) and not np.isin(after[after >= 0], before).any()
    return KeyChange(name, changed / max(pairs.records, 1), "changes", changed, changed, foreign)


def _common_codes(pairs: ValuePairs, label: Callable[[Any], str]) -> tuple[Codes, Codes]:
    """Return the codes of both files in one numbering by label; missing stays -1."""
    numbering: dict[str, int] = {}

    def table(values: Sequence[Any]) -> Codes:
        return np.array([*(numbering.setdefault(label(v), len(numbering)) for v in values), -1], np.int64)

    return table(pairs.before_values)[pairs.before], table(pairs.after_values)[pairs.after]


# -- partially ordered keys


def change_between(hierarchy: Hierarchy, before: object, after: object) -> Change:
    """Return whether a pair of values is no change, a weak or a strong one: strong if only the root is above both.

    >>> zips = PrefixHierarchy(5)
    >>> change_between(zips, "48201", "48301"), change_between(zips, "48202", "88202"), change_between(zips, "482*", "482**")
    ('weak', 'strong', 'none')
    """
    if hierarchy.path(before)[0] == hierarchy.path(after)[0]:
        return "none"
    return "strong" if hierarchy.common(before, after) == hierarchy.root else "weak"


def weak_change_steps(hierarchy: Hierarchy) -> Numbers:
    """Return what a change counts by the level on which the two values meet: 0 for level 0, 1 for the root, shape (height + 1,).

    Zip codes and other prefixes: (length - k) / length with k characters in common (global-risk paper, section 2). Other trees:
    level / height.

    >>> weak_change_steps(PrefixHierarchy(5)).tolist()
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if isinstance(hierarchy, PrefixHierarchy):
        kept = np.array([hierarchy.length, *(hierarchy.keep or ()), 0])
        return np.asarray((hierarchy.length - kept) / hierarchy.length)
    return np.arange(hierarchy.height + 1) / hierarchy.height


def _by_tree(pairs: ValuePairs, attribute: Attribute, hierarchy: Hierarchy, rule: WeakRule | None) -> KeyChange:
    paths, x, y = _paths(pairs, attribute, hierarchy)
    meet = np.full(len(x), hierarchy.height)
    for level in range(hierarchy.height - 1, -1, -1):
        meet[(paths[x, level] == paths[y, level]) & (paths[x, level] >= 0)] = level
    own = paths[np.arange(len(paths)), (paths >= 0).argmax(axis=1)]
    changed = own[x] != own[y]
    strong = changed & (meet == hierarchy.height)
    counted = np.where(changed, weak_change_steps(hierarchy)[meet], 0.0)
    weak = np.flatnonzero(changed & ~strong)
    if rule is not None:
        labels = [*pairs.before_values, *pairs.after_values, hierarchy.root]
        counted[weak] = _by_rule(rule, attribute.name, hierarchy, [label_of(v) for v in labels], x[weak], y[weak],
                                 meet[weak], counted[weak])  # fmt: skip
    factor = float(pairs.counts @ counted) / max(pairs.records, 1)
    amount, most = (int(pairs.counts[which].sum()) for which in (changed, strong))
    return KeyChange(attribute.name, factor, "weak changes", amount, most)


def _paths(pairs: ValuePairs, attribute: Attribute, hierarchy: Hierarchy) -> tuple[Codes, Codes, Codes]:
    """Return for each distinct value a code of its label on each level (-1 below its own), and the pairs as rows of that table.

    The last row is the root alone: it stands for missing values.
    """
    numbering: dict[tuple[int, str], int] = {}
    height = hierarchy.height
    used = [np.unique(codes[codes >= 0]) for codes in (pairs.before, pairs.after)]
    sizes = len(pairs.before_values), len(pairs.after_values)
    table = np.full((sum(sizes) + 1, height + 1), -1, np.int64)
    table[:, height] = 0
    for values, codes, start in zip((pairs.before_values, pairs.after_values), used, (0, sizes[0]), strict=True):
        for code in codes:
            try:
                path = hierarchy.path(values[code])
            except SchemaError as error:
                raise DataError(f"key '{attribute.name}': {error}") from None
            for level, label in enumerate(path[:-1], height + 1 - len(path)):
                table[start + code, level] = numbering.setdefault((level, label), len(numbering) + 1)
    root = len(table) - 1
    x = np.where(pairs.before < 0, root, pairs.before)
    y = np.where(pairs.after < 0, root, pairs.after + sizes[0])
    return table, x, y


def _by_rule(
    rule: WeakRule, name: str, hierarchy: Hierarchy, labels: list[str], x: Codes, y: Codes, meet: Codes, usual: Numbers
) -> Numbers:
    """Return what weak changes count by the custodian's own rule."""
    try:
        counted = _counted(rule, name, hierarchy, labels, x, y, meet, usual)
    except (TypeError, ValueError, AttributeError):
        raise ParameterError(
            f"the rule for weak changes of '{name}' must give numbers: one for each level, as in [0.1, 0.3], a table of "
            "pairs, as in {'a': {'b': 0.3}}, or a function of two labels that returns one."
        ) from None
    if not ((counted > 0) & (counted <= 1)).all():
        raise ParameterError(
            f"the rule for weak changes of '{name}' gives a number that is not above 0 and at most 1: 0 is for equal values."
        )
    return counted


def _counted(
    rule: WeakRule, name: str, hierarchy: Hierarchy, labels: list[str], x: Codes, y: Codes, meet: Codes, usual: Numbers
) -> Numbers:
    if isinstance(rule, Mapping):
        table = {(label_of(a), label_of(b)): float(v) for a, row in rule.items() for b, v in row.items()}
        _check_labels(table, name, hierarchy)
        table = {(b, a): v for (a, b), v in table.items()} | table
        listed = (table.get((labels[i], labels[j])) for i, j in zip(x, y, strict=True))
        return np.array([u if v is None else v for v, u in zip(listed, usual, strict=True)], np.float64)
    if callable(rule):
        return np.array([float(rule(labels[i], labels[j])) for i, j in zip(x, y, strict=True)], np.float64)
    steps = np.array([math.nan, *map(float, rule), math.nan], np.float64)
    if len(steps) != hierarchy.height + 1:
        raise ParameterError(
            f"the weak changes of '{name}' are given by {plural(len(steps) - 2, 'number')}, but its hierarchy has "
            f"{plural(hierarchy.height - 1, 'level')} between the values and the root. Give one for each."
        )
    return np.asarray(steps[meet])


def _check_labels(table: Mapping[tuple[str, str], float], name: str, hierarchy: Hierarchy) -> None:
    """Refuse a table of pairs with a label that is misspelt: it would count for nothing."""
    for label in {label for pair in table for label in pair}:
        try:
            hierarchy.path(label)
        except SchemaError:
            raise ParameterError(
                f"the table of weak changes of '{name}' has the label '{label}', which its hierarchy does not have."
            ) from None
