"""What the library says, in the words of the command line."""

from __future__ import annotations

_OPTIONS = (
    ("Release.of(original, masked, align=...)", "--align"),
    ("Release.of(original, released, align=...)", "--align"),
    ("Snooper(keys=...)", "--keys"),
    ("Snooper(population=...)", "--population"),
    ("Snooper(precision=...)", "--precision"),
    ("(fraction)", "(--fraction)"),
    ("fraction=...", "--fraction"),
    ("missing = 'value'", "--missing value"),
)


def on_command_line(text: str) -> str:
    """Return a sentence of the library with the options that do what it advises.

    >>> on_command_line("Name fewer keys with Snooper(keys=...).")
    'Name fewer keys with --keys.'
    """
    for said, option in _OPTIONS:
        text = text.replace(said, option)
    return text
