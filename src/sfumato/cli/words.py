"""What the library says, in the words of the command line."""

from __future__ import annotations

import re

_TOTAL = re.compile(r"total=\{'([^']*)': '([^']*)'\}")
_OPTIONS = (
    ("Release.of(original, masked, align=...)", "--align"),
    ("Release.of(original, released, align=...)", "--align"),
    ("Snooper(keys=...)", "--keys"),
    ("Snooper(population=...)", "--population"),
    ("Snooper(precision=...)", "--precision"),
    ("(fraction)", "(--fraction)"),
    ("fraction=...", "--fraction"),
    ("missing = 'value'", "--missing value"),
    ("mean 'not shown' (marks)", "mean 'not shown' (--mark)"),
    ("(say within how much of the true one they are)", "(--within says how far off they may be)"),
    ("(say that absent rows are suppressed)", "(--absent suppressed)"),
    ("leave the column of marks out", "leave the column of marks out of the file"),
    ("(missing='leave out')", "(--leave-out-missing)"),
    ("(size=...)", "(--size)"),
    ("(per_size=...)", "(--per-size)"),
)


def on_command_line(text: str) -> str:
    """Return a sentence of the library with the options that do what it advises.

    >>> on_command_line("Name fewer keys with Snooper(keys=...).")
    'Name fewer keys with --keys.'
    """
    for said, option in _OPTIONS:
        text = text.replace(said, option)
    return _TOTAL.sub(r"--total '\1=\2'", text)
