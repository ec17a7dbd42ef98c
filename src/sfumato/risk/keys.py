"""What the snooper looks for records by, and how many records of the release look the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.attacks.keys import RULES, key_names, missing_rule
from sfumato.classes import Classes, Missing, classes_of
from sfumato.contract import Release, Snooper
from sfumato.errors import NotApplicable, SfumatoError, unknown_name
from sfumato.microdata import Microdata

__all__ = [
    "RULES",
    "key_names",
    "missing_rule",
    "nothing_in_common",
    "of_original",
    "population_classes",
    "released_classes",
]


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


def population_classes(population: Microdata, found: Classes, snooper: Snooper) -> Classes:
    """Return the classes of a population file or table by the same keys; a weight column counts persons."""
    for name in found.names:
        if name not in population.engine.kinds:
            raise NotApplicable(unknown_name("key", name, population.engine.kinds, "the population table"))
    widths = {name: width for name, width in snooper.precision.items() if name in found.names}
    weight = population.schema.one("weight")
    try:
        people = classes_of(population, found.names, found.rule, weight, widths, counts=True)
    except SfumatoError as reason:
        raise NotApplicable(f"the population table cannot be used: {reason}") from None
    if not len(people):
        raise NotApplicable("the population table has nobody in it, or a missing key for everybody.")
    return people


def nothing_in_common(found: Classes, people: Classes) -> str | None:
    """Return the first key that takes no value in both files, as if it were coded otherwise in one of them."""
    pairs = zip(found.names, _values(found), _values(people), strict=True)
    return next((name for name, ours, theirs in pairs if ours and theirs and ours.isdisjoint(theirs)), None)


def _values(found: Classes) -> list[set[Any]]:
    """Return the values of each key that occur, missing not among them."""
    return [
        {values[c] for c in np.unique(codes).tolist() if c >= 0}
        for codes, values in zip(found.codes, found.values, strict=True)
    ]


def of_original(outcome: Release, found: Classes, values: Any) -> Any:
    """Return values of the released file's classes for each original record, shape (n,); NaN for those not released."""
    spread = found.per_record(values)
    _, right = outcome.matched
    return outcome.per_original(spread if right is None else spread[right])
