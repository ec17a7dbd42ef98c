"""What the snooper looks for records by, and what a missing key means."""

from __future__ import annotations

from typing import Any

from sfumato.contract import Release, Snooper, param
from sfumato.errors import NotApplicable, unknown_name

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
