"""The lines of the log: each holds the hash of the one before, and a digest of what was written with it: what was charged, what
is free from then on, and which universe was asked about."""

from __future__ import annotations

import datetime
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from sfumato.errors import DataError
from sfumato.files import parse_json

_START = "0" * 64
Written = tuple[str, str, str, str]
"""A row that was written with a line: its kind, the data set, whose it is, and what it says."""
_WRITTEN = """
SELECT entry, 'charge', family, user, charge FROM charges
UNION ALL SELECT entry, 'answered', family, user, lower(hex(key)) FROM answered
UNION ALL SELECT entry, 'universe', family, user, version || ' ' || size || ' ' || words FROM universes
ORDER BY 1"""


@dataclass(frozen=True)
class Entry:
    """One line of the log."""

    seq: int
    moment: str
    user: str
    family: str
    content: Mapping[str, Any]
    """The question, and what came of it; no number from the data."""
    hash: str


def last_line(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return the number and the hash of the last line."""
    last = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (last[0], last[1]) if last else (0, _START)


def append_line(
    connection: sqlite3.Connection, now: datetime.datetime, user: str, family: str, content: Mapping[str, Any]
) -> None:
    """Write a line."""
    seq, previous = last_line(connection)
    moment, text = now.isoformat(), json.dumps(content, sort_keys=True, ensure_ascii=False)
    hashed = _hash(previous, seq + 1, moment, user, family, text)
    row = (seq + 1, moment, user, family, text, previous, hashed)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def read_log(connection: sqlite3.Connection) -> Iterator[Entry]:
    """Yield the lines in order; refuse what is not as it was written."""
    connection.execute("BEGIN")  # lines and what was written with them as of one moment
    rows = connection.execute(
        "SELECT seq, moment, user, family, content, previous, hash FROM entries ORDER BY seq"
    ).fetchall()
    found = connection.execute(_WRITTEN)
    written = {entry: digest_of(row[1:] for row in some) for entry, some in groupby(found, itemgetter(0))}
    connection.execute("COMMIT")
    expected, previous = 1, _START
    for seq, moment, user, family, text, before, hashed in rows:
        whole = seq == expected and before == previous
        if not whole or hashed != _hash(before, seq, moment, user, family, text):
            raise DataError(f"the log is not what was written: line {expected:,} does not follow from the one before.")
        content = parse_json(text)
        if content.get("written", "") != written.get(seq, ""):
            raise DataError(f"the accounts are not what was written: those of line {seq:,} were changed.")
        expected, previous = seq + 1, hashed
        yield Entry(seq, moment, user, family, content, hashed)
    if written and not 0 < min(written) <= max(written) < expected:
        raise DataError("the accounts are not what was written: something in them belongs to no line of the log.")


def digest_of(written: Iterable[Written]) -> str:
    """Return a digest of what was written with a line, in whatever order."""
    return hashlib.sha256("\x1e".join(sorted("\x1f".join(row) for row in written)).encode()).hexdigest()


def _hash(previous: str, *parts: Any) -> str:
    return hashlib.sha256("\x1f".join([previous, *map(str, parts)]).encode()).hexdigest()
