"""The lines of the log: each holds the hash of the one before, and a digest of what was written with it: what was charged, what
is free from then on, and which universe was asked about.

Hashes are keyed with the vault's secret, so that nobody without it can write a line that holds. The head, the number and the hash
of the last line with a code of its own, stands in a second file: it shows that lines were cut off or an older copy put back.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.files import parse_json

Head = tuple[int, str]
"""The number and the hash of a line; 0 and the hash that the first line follows, where there is none."""
_START = "0" * 64
_LINES = "SELECT seq, moment, user, family, content, previous, hash FROM entries WHERE seq > ? ORDER BY seq"
_SEAL = (
    "Look at the log, compare it with the number and hash that you kept, and seal it as it stands: vault.ledger.seal(), or "
    "sfumato vault log VAULT --expect N:HASH --seal."
)
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


# -- lines


def last_line(connection: sqlite3.Connection) -> Head:
    """Return the number and the hash of the last line."""
    last = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (last[0], last[1]) if last else (0, _START)


def line_at(connection: sqlite3.Connection, seq: int) -> Head | None:
    """Return the number and the hash of a line, as it stands there; None if there is no such line."""
    if seq == 0:
        return 0, _START
    found = connection.execute("SELECT seq, hash FROM entries WHERE seq = ?", (seq,)).fetchone()
    return (found[0], found[1]) if found else None


def append_line(
    connection: sqlite3.Connection,
    key: bytes,
    now: datetime.datetime,
    user: str,
    family: str,
    content: Mapping[str, Any],
) -> None:
    """Write a line."""
    seq, previous = last_line(connection)
    moment, text = now.isoformat(), json.dumps(content, sort_keys=True, ensure_ascii=False)
    hashed = _hash(key, previous, seq + 1, moment, user, family, text)
    row = (seq + 1, moment, user, family, text, previous, hashed)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def check_lines(connection: sqlite3.Connection, key: bytes, after: Head) -> Head:
    """Refuse lines after a given one that are not as they were written; return the last one. Accounts are not looked at."""
    last = after
    for entry in _chained(connection.execute(_LINES, (after[0],)), key, after):
        last = entry.seq, entry.hash
    return last


def read_log(connection: sqlite3.Connection, key: bytes) -> Iterator[Entry]:
    """Yield the lines in order; refuse what is not as it was written."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # lines and what was written with them as of one moment
    rows = connection.execute(_LINES, (0,)).fetchall()
    found = connection.execute(_WRITTEN)
    written = {entry: digest_of(row[1:] for row in some) for entry, some in groupby(found, itemgetter(0))}
    if alone:
        connection.execute("COMMIT")
    last = 0
    for entry in _chained(rows, key, (0, _START)):
        if entry.content.get("written", "") != written.get(entry.seq, ""):
            raise DataError(f"the accounts are not what was written: those of line {entry.seq:,} were changed.")
        last = entry.seq
        yield entry
    if written and not 0 < min(written) <= max(written) <= last:
        raise DataError("the accounts are not what was written: something in them belongs to no line of the log.")


def _chained(rows: Iterable[tuple[Any, ...]], key: bytes | None, after: Head) -> Iterator[Entry]:
    """Yield lines that follow from a given one and from each other; without a key, those of an earlier version."""
    seen, previous = after
    for seq, moment, user, family, text, before, hashed in rows:
        parts = (before, seq, moment, user, family, text)
        if seq != seen + 1 or before != previous or hashed != _hash(key, *parts):
            if key is not None and hashed == _hash(None, *parts):
                raise DataError(
                    f"this ledger was written by an earlier version of sfumato, whose hashes anybody could compute. {_SEAL}"
                )
            raise DataError(f"the log is not what was written: line {seen + 1:,} does not follow from the one before.")
        seen, previous = seq, hashed
        yield Entry(seq, moment, user, family, parse_json(text), hashed)


def key_earlier(connection: sqlite3.Connection, key: bytes) -> None:
    """Give the lines of an earlier version keyed hashes, if they hold by their own."""
    rows = connection.execute(_LINES, (0,)).fetchall()
    if not rows or rows[0][6] != _hash(None, rows[0][5], *rows[0][:5]):
        return
    for _ in _chained(rows, None, (0, _START)):
        pass
    previous = _START
    for seq, moment, user, family, text, _, _ in rows:
        hashed = _hash(key, previous, seq, moment, user, family, text)
        connection.execute("UPDATE entries SET previous = ?, hash = ? WHERE seq = ?", (previous, hashed, seq))
        previous = hashed


# -- the head


def write_head(path: Path, key: bytes, head: Head, *, lasting: bool = True) -> None:
    """Write the head to its file, whole; one process at a time, as those have it that hold the lock of the ledger."""
    beside = path.with_name(f".{path.name}.new")  # one name: a process that dies leaves no second one
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(f"{head[0]}:{head[1]} {_code(key, head)}\n")
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.replace(beside, path)


def read_head(path: Path, key: bytes) -> Head:
    """Return the head; refuse one that is gone, or that was not written with this vault's secret."""
    try:
        text = path.read_text("ascii")
    except FileNotFoundError:
        raise DataError(
            f"the ledger has no head ({path}): it was written by an earlier version of sfumato, or the head was removed, and the "
            f"ledger may be an older copy. {_SEAL}"
        ) from None
    except (OSError, UnicodeDecodeError):
        text = ""
    found = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64}) ([0-9a-f]{64})\n", text)
    head = (int(found[1]), found[2]) if found else (0, _START)
    if not found or not hmac.compare_digest(found[3], _code(key, head)):
        raise DataError(
            f"the head of the ledger ({path}) is not what was written: it is damaged or was changed. {_SEAL}"
        )
    return head


def refuse_older(connection: sqlite3.Connection, head: Head) -> None:
    """Refuse a ledger that does not hold a line that was seen before."""
    if line_at(connection, head[0]) != head:
        raise DataError(
            f"the ledger no longer holds line {head[0]:,} as it was written: lines were cut off or changed, or an older copy was "
            f"put back, in which less is spent. Restore the newest copy. If there is none: {_SEAL}"
        )


def _code(key: bytes, head: Head) -> str:
    return _hash(key, "head", *head)


def digest_of(written: Iterable[Written]) -> str:
    """Return a digest of what was written with a line, in whatever order."""
    return hashlib.sha256("\x1e".join(sorted("\x1f".join(row) for row in written)).encode()).hexdigest()


def _hash(key: bytes | None, *parts: Any) -> str:
    """Return a hash of parts; without a key, as earlier versions had it."""
    text = "\x1f".join(map(str, parts)).encode()
    return hashlib.sha256(text).hexdigest() if key is None else hmac.new(key, text, hashlib.sha256).hexdigest()
