"""What the snooper looks for records by, and how many records of the release look the same."""

from __future__ import annotations

from typing import Any

from sfumato.classes import Classes, Missing, classes_of
from sfumato.contract import Release, Snooper, param
from sfumato.errors import NotApplicable, unknown_name
from sfumato.microdata import Microdata

RULES = {
    "wildcard": "a missing key matches anything",
    "value": "missing is a value of its own",
    "ignored": "records with a missing key are left out",
}
"""The one rule for missing keys, in words."""


def missing_rule() -> Any:
    """Declare the parameter `missing`, which every measure from counts has."""
    return param(
        default="wildcard",
        doc="what a missing key means: it matches anything, is a value of its own, or its record is left out",
        choices=tuple(RULES),
    )


def key_names(outcome: Release, snooper: Snooper) -> tuple[str, ...]:
    """Return the columns that the snooper looks for records by; refuse if there are none, or the release lacks one."""
    schema, released = outcome.original.schema, outcome.masked.engine.kinds
    names = snooper.keys or schema.names(role="key")
    if not names:
        raise NotApplicable(
            "there are no keys: no column has the role 'key', and the snooper has none. "
            "Name what a snooper may know of a person with Snooper(keys=...), or give columns the role 'key' in the schema."
        )
    for name in names:
        if name in released:
            continue
        if name in schema:
            raise NotApplicable(
                f"key '{name}' is not in the released file, so nobody can look for records by it. "
                "Leave it out of the snooper's keys."
            )
        raise NotApplicable(unknown_name("key", name, released, "the released file"))
    for name in snooper.precision:
        if name not in names:
            raise NotApplicable(unknown_name("key", name, names, "the snooper's keys, which his precision is about"))
    return names


def released_classes(
    outcome: Release, snooper: Snooper, missing: Missing, weighted: bool = False, names: tuple[str, ...] | None = None
) -> Classes:
    """Return the classes of the released records by the snooper's keys, counted once per release.

    `weighted` adds the survey weights up; `names` asks for other columns than the snooper's keys.
    """
    names = key_names(outcome, snooper) if names is None else names
    weight = outcome.masked.schema.one("weight") if weighted else None
    widths = {name: width for name, width in snooper.precision.items() if name in names}
    key = ("classes", names, missing, weight, tuple(sorted(widths.items())))
    if key not in outcome.memory:
        outcome.memory[key] = classes_of(outcome.masked, names, missing, weight, widths)
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
    return classes_of(population, found.names, found.rule, population.schema.one("weight"), widths)


def of_original(outcome: Release, found: Classes, values: Any) -> Any:
    """Return values of the released file's classes for each original record, shape (n,); NaN for those not released."""
    spread = found.per_record(values)
    _, right = outcome.matched
    return outcome.per_original(spread if right is None else spread[right])
