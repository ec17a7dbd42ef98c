"""The lines of the log: each holds the hash of the one before, and a digest of what it charged to the accounts."""

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

_START = "0" * 64


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
    connection.execute("BEGIN")  # lines and charges as of one moment
    rows = connection.execute(
        "SELECT seq, moment, user, family, content, previous, hash FROM entries ORDER BY seq"
    ).fetchall()
    paid = connection.execute("SELECT entry, user, charge FROM charges ORDER BY seq")
    charges = {entry: digest_of((who, text) for _, who, text in some) for entry, some in groupby(paid, itemgetter(0))}
    connection.execute("COMMIT")
    expected, previous = 1, _START
    for seq, moment, user, family, text, before, hashed in rows:
        whole = seq == expected and before == previous
        if not whole or hashed != _hash(before, seq, moment, user, family, text):
            raise DataError(f"the log is not what was written: line {expected:,} does not follow from the one before.")
        content = json.loads(text)
        if content.get("charged", "") != charges.get(seq, ""):
            raise DataError(f"the accounts are not what was written: those of line {seq:,} were changed.")
        expected, previous = seq + 1, hashed
        yield Entry(seq, moment, user, family, content, hashed)
    if max(charges, default=0) >= expected:
        raise DataError("the accounts are not what was written: some charges belong to no line of the log.")


def digest_of(charges: Iterable[tuple[str, str]]) -> str:
    """Return a digest of the charges of a line, each with who pays; nothing for none."""
    listed = ["\x1f".join(charge) for charge in charges]
    return hashlib.sha256("\x1e".join(listed).encode()).hexdigest() if listed else ""


def _hash(previous: str, *parts: Any) -> str:
    return hashlib.sha256("\x1f".join([previous, *map(str, parts)]).encode()).hexdigest()
