"""Keys of the snooper: classes of the release and of the population, sets of keys, and values by original record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import RULES, key_names
from sfumato.contract import DirectMeasure, Release, Snooper
from sfumato.contract.score import Side, digits
from sfumato.data import Microdata
from sfumato.data.classes import Classes, Missing, classes_of
from sfumato.errors import NotApplicable, SfumatoError, refuse_unknown
from sfumato.kernels.classes import classes
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers, Whole


class RiskMeasure(DirectMeasure, abstract=True):
    """A measure of risk. What it is called and what its value means are templates, in which `{self.k}` is a parameter.

    In `sentence`, `{value}` and `{percent}` are the value and 100 times the value, `{digits}` and `{percent_digits}` the same with
    three digits.
    """

    side: ClassVar[Side] = Side.RISK
    sentence: ClassVar[str] = ""

    @override
    def words(self, value: float, schema: Schema) -> str:
        percent = 100 * value
        return self.sentence.format(
            self=self, value=value, percent=percent, digits=digits(value), percent_digits=digits(percent)
        )

    @override
    @property
    def variant(self) -> str:
        return RULES.get(getattr(self, "missing", ""), "")


def in_id_order(outcome: Release, values: Numbers) -> Numbers:
    """Return values of the original's records, in the order of its file, in the order of their ids; shape (n,)."""
    ids = outcome.original.batch([]).ids
    return values if bool((ids[1:] >= ids[:-1]).all()) else values[np.argsort(ids, kind="stable")]


def of_targets(outcome: Release, targets: Whole, values: Numbers) -> Numbers:
    """Return values of attacked records for each original record, in the order of their ids; shape (n,).

    The largest counts where a record was attacked more than once; it is NaN where it never was. A target with a negative id is
    nobody.
    """
    ids = np.sort(outcome.original.batch([]).ids)
    inside = targets >= 0
    out = np.full(len(ids), np.nan)
    np.fmax.at(out, np.searchsorted(ids, targets[inside]), values[inside])
    return out


# --- What the snooper looks for records by, and how many records of the release look the same.


def released_classes(
    outcome: Release, snooper: Snooper, missing: Missing, weighted: bool = False, names: tuple[str, ...] | None = None
) -> Classes:
    """Return the classes of the released records by the snooper's keys, counted once per release.

    `weighted` adds the survey weights up; `names` asks for other columns than the snooper's keys.
    """
    names = key_names(outcome, snooper) if names is None else names
    weight = outcome.masked.schema.one("weight")
    widths = {name: width for name, width in snooper.precision.items() if name in names}
    plain, heavy = (("classes", names, missing, w, tuple(sorted(widths.items()))) for w in (None, weight))
    key = heavy if weighted or heavy in outcome.memory else plain  # what was counted with weights serves without them
    if key not in outcome.memory:
        outcome.memory[key] = classes_of(outcome.masked, names, missing, weight if weighted else None, widths)
    found: Classes = outcome.memory[key]
    if not found.sizes.sum():
        if found.records:
            raise NotApplicable("every record has a missing key, and records with a missing key are left out.")
        raise NotApplicable("the released file has no records.")
    return found


def population_classes(population: Microdata, released: Classes, snooper: Snooper) -> Classes:
    """Return the classes of a population file or table by the same keys; a weight column counts persons."""
    refuse_unknown("key", population.engine.kinds, "the population table", *released.names, error=NotApplicable)
    widths = {name: width for name, width in snooper.precision.items() if name in released.names}
    weight = population.schema.one("weight")
    try:
        people = classes_of(population, released.names, released.rule, weight, widths, counts=True)
    except SfumatoError as reason:
        raise NotApplicable(f"the population table cannot be used: {reason}") from None
    if not len(people):
        raise NotApplicable("the population table has nobody in it, or a missing key for everybody.")
    return people


def nothing_in_common(released: Classes, people: Classes) -> str | None:
    """Return the first key that takes no value in both files, as if it were coded otherwise in one of them."""
    pairs = zip(released.names, _values(released), _values(people), strict=True)
    return next((name for name, ours, theirs in pairs if ours and theirs and ours.isdisjoint(theirs)), None)


def _values(released: Classes) -> list[set[Any]]:
    """Return the values of each key that occur, missing not among them."""
    return [
        {values[c] for c in np.unique(codes).tolist() if c >= 0}
        for codes, values in zip(released.codes, released.values, strict=True)
    ]


def of_original(outcome: Release, released: Classes, values: Any) -> Any:
    """Return values of the released file's classes for each original record, shape (n,); NaN for those not released."""
    return spread_released(outcome, released.per_record(values))


def spread_released(outcome: Release, values: Any) -> Any:
    """Return values of the released records for each original record, shape (n,); NaN for those not released."""
    _, right = outcome.matched
    return outcome.per_original(values if right is None else values[right])


# --- Sets of keys: which there are, and how many records agree on one.

MOST_SETS = 250_000
"""So many sets of keys are looked through at most: all sets of 17 keys, or all of up to five out of 30."""
MOST_KEYS = 62


def check_sets(keys: int, size: int, lower: str) -> None:
    """Refuse, in words, more sets than can be looked through; `lower` says which parameter makes them fewer."""
    count = sum(math.comb(keys, k) for k in range(1, min(size, keys) + 1))
    if keys > MOST_KEYS or count > MOST_SETS:
        raise NotApplicable(
            f"{keys} keys have {count:,} sets of up to {size} keys, but no more than {MOST_SETS:,} sets of {MOST_KEYS} keys are "
            f"looked through. Name fewer keys with Snooper(keys=...), or lower {lower}."
        )


def sets_of(keys: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of up to `size` keys as places, the small ones first."""
    for k in range(1, min(size, keys) + 1):
        yield from combinations(range(keys), k)


def named(names: Sequence[str], places: Sequence[int]) -> str:
    """Return a set of keys in words: "age × sex"."""
    return " × ".join(names[i] for i in places)


@dataclass(frozen=True, eq=False)
class SetCounts:
    """What occurs on a set of keys: g combinations among the c classes by all keys."""

    labels: Whole
    """Combination of each class, shape (c,)."""
    sizes: Numbers
    """Amount of each combination, shape (g,): its records, or the sum of their weights."""
    matches: Numbers
    """Amount that matches each combination under the rule for missing keys, shape (g,)."""
    complete: Flags
    """Whether a combination has a value of every key, shape (g,)."""


def set_counts(released: Classes, places: Sequence[int], amounts: NDArray[Any]) -> SetCounts:
    """Return how the records agree on some of the keys; `amounts` (c,) are the classes' sizes or weights."""
    columns = [released.codes[i] for i in places]
    labels, joined = classes(columns, len(released))
    sizes = np.asarray(np.bincount(labels, amounts, len(joined)), np.float64)
    first = np.empty(len(joined), np.int64)
    first[labels] = np.arange(len(labels))
    codes = np.column_stack([column[first] for column in columns])
    complete: Flags = np.all(codes >= 0, axis=1)
    if released.rule != "wildcard" or complete.all():
        return SetCounts(labels, sizes, sizes, np.ones(len(sizes), bool))
    return SetCounts(labels, sizes, kernels.matching.wildcard_sums(codes, sizes[:, None])[:, 0], complete)
