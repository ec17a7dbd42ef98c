"""What the library says, in the words of the command line."""

from __future__ import annotations

import re

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
    ("read the file with decimal=','.", "read the file with --read 'decimal=,'."),
    ("(size=...)", "(--size)"),
    ("(per_size=...)", "(--per-size)"),
    ("Say where the .rda file is (metadata)", "Say where the .rda file is (--schema)"),
    ("(decimals=...)", "(--decimals)"),
    ("margins='compute'", "--margins compute"),
    ("say nonnegative=False", "say --negative"),
    ("(dimensions=...)", "(--dimensions)"),
    ("(top=...)", "(--top)"),
    ("(value=...)", "(--value)"),
    ("(count=...)", "(--count)"),
    ("Table.of(..., contributor=...)", "--contributor"),
    ("Table.of(..., request=...)", "--request"),
    ("as a table of their own (a list of frames)", "as a table of their own, in a file of its own"),
    ("top, count and contributors", "--top, --count and --contributors"),
    ("Make one with Vault.create, or with sfumato vault add.", "Make one with sfumato vault add."),
    ("vault.ledger.seal(), or sfumato vault log", "sfumato vault log"),
    ("or lower d.", "or lower --least."),
    ("name it as identity.", "name it with --identity."),
)
_PATTERNS = (
    (re.compile(r"dimensions=\{'([^']*)': \.\.\.\}"), r"--hierarchy '\1=FILE'"),
    (re.compile(r"total=\{'([^']*)': '([^']*)'\}"), r"--total '\1=\2'"),
    (re.compile(r"total=\{'([^']*)': None\}"), r"--total '\1=none'"),
    (re.compile(r"\(value='([^']*)'\)"), r"(--value '\1')"),
    (re.compile(r"\b(sizes|variances)='(\w+)'"), r"--set \1=\2"),
)


def on_command_line(text: str) -> str:
    """Return a sentence of the library with the options that do what it advises.

    >>> on_command_line("Name fewer keys with Snooper(keys=...).")
    'Name fewer keys with --keys.'
    """
    for said, option in _OPTIONS:
        text = text.replace(said, option)
    for pattern, option in _PATTERNS:
        text = pattern.sub(option, text)
    return text
