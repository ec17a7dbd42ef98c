"""The ledger: an append-only, hash-chained log of every question, and the accounts charged with it."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import math
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError
from sfumato.files import parse_json
from sfumato.mas.accounts import CELLS, Accounts, Balance, Charge
from sfumato.mas.answer import Refusal
from sfumato.mas.register import known_part
from sfumato.mas.sums import PrivacyLoss
from sfumato.mas.universe import Selection, Universe, spread
from sfumato.mas.variable import Variable, finest
from sfumato.typing import Whole

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset

# --- log
# The lines of the log. Each holds the hash of the line before it, and a digest of what was written with it: the charges, the
# sets that are free from then on, and the universe of the question.
#
# Hashes are keyed with the vault's secret, so that nobody without it can write a valid line. The head is the number and the hash
# of the last line with its own code, in a second file: it shows whether lines were cut off or an older copy put back.

Head = tuple[int, str]
"""The number and the hash of a line; 0 and the hash that the first line follows, where there is no line."""
_START = "0" * 64
_LINES = "SELECT seq, moment, user, family, content, previous, hash FROM entries WHERE seq > ? ORDER BY seq"
_SEAL = (
    "Look at the log, compare it with the number and hash that you kept, and seal it as it stands: vault.ledger.seal(), or "
    "sfumato vault log VAULT --expect N:HASH --seal."
)
Written = tuple[str, str, str, str]
"""A row written with a line: its kind, the data set, its owner, and its content."""
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
    """The question and its outcome; no number from the data."""
    hash: str


# -- lines


def last_line(connection: sqlite3.Connection) -> Head:
    """Return the number and the hash of the last line."""
    last = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (last[0], last[1]) if last else (0, _START)


def line_at(connection: sqlite3.Connection, seq: int) -> Head | None:
    """Return the number and the stored hash of a line; None if there is no such line."""
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
    """Append a line."""
    seq, previous = last_line(connection)
    moment, text = now.isoformat(), json.dumps(content, sort_keys=True, ensure_ascii=False)
    hashed = _hash(key, previous, seq + 1, moment, user, family, text)
    row = (seq + 1, moment, user, family, text, previous, hashed)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def check_lines(connection: sqlite3.Connection, key: bytes, after: Head) -> Head:
    """Refuse changed lines after a given one; return the last line. Accounts are not checked."""
    last = after
    for entry in _chained(connection.execute(_LINES, (after[0],)), key, after):
        last = entry.seq, entry.hash
    return last


def read_log(connection: sqlite3.Connection, key: bytes) -> Iterator[Entry]:
    """Yield the lines in order; refuse any that were changed."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # lines and their charges at one moment
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
    """Give the lines of an earlier version keyed hashes, if their own hashes are valid."""
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
    """Write the head to its file, atomically; the caller holds the lock of the ledger, so one process writes at a time."""
    beside = path.with_name(f".{path.name}.new")  # one fixed name: an interrupted process leaves no second file
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(f"{head[0]}:{head[1]} {_code(key, head)}\n")
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.replace(beside, path)


def read_head(path: Path, key: bytes) -> Head:
    """Return the head; refuse one that is missing, or that was not written with this vault's secret."""
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
    """Refuse a ledger that lacks a line that was seen before."""
    if line_at(connection, head[0]) != head:
        raise DataError(
            f"the ledger no longer holds line {head[0]:,} as it was written: lines were cut off or changed, or an older copy was "
            f"put back, in which less is spent. Restore the newest copy. If there is none: {_SEAL}"
        )


def _code(key: bytes, head: Head) -> str:
    return _hash(key, "head", *head)


def digest_of(written: Iterable[Written]) -> str:
    """Return a digest of the rows written with a line, independent of their order."""
    return hashlib.sha256("\x1e".join(sorted("\x1f".join(row) for row in written)).encode()).hexdigest()


def _hash(key: bytes | None, *parts: Any) -> str:
    """Return a hash of parts; without a key, as in earlier versions."""
    text = "\x1f".join(map(str, parts)).encode()
    return hashlib.sha256(text).hexdigest() if key is None else hmac.new(key, text, hashlib.sha256).hexdigest()


# --- overlap
# Alerts for the custodian: universes that differ from earlier ones by few records, whoever asked.
#
# An alert does not refuse. As a rule it refused up to a quarter of honest requests, revealed to users what others had asked, and
# did not stop trackers (MAS.md). Two universes that differ by few records have nearly the same size. So the ledger keeps a keyed
# mark of the size of each, finds similar sizes by these marks, and counts the difference for these few alone. Universes are compared
# by their known variables, so that no line of the log depends on confidential values.


FEW = 20
"""A difference of at least this many records is large enough."""
_CELLS = 100_000


@dataclass(frozen=True)
class Alert:
    """A question about a universe that differs by few records from others that were answered. For the custodian alone."""

    entry: Entry
    near: tuple[Entry, ...]
    """The earlier questions: of the same user, if that user asked about the universe, else the first."""

    def __str__(self) -> str:
        lines = [f"Line {self.entry.seq:,}, {self.entry.user}: {_asked(self.entry)}"]
        lines += [f"  differs by few records from line {e.seq:,}, {e.user}: {_asked(e)}" for e in self.near]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the alert in the form of JSON."""
        return {"line": self.entry.seq, "user": self.entry.user, "near": [[e.seq, e.user] for e in self.near]}


@dataclass(frozen=True, eq=False)
class Place:
    """An answered universe, to be compared with those answered before."""

    dataset: Dataset
    selection: Selection
    judged: dict[str, bool] = field(default_factory=dict)
    """The earlier universes compared so far: whether each differs by few records."""

    @cached_property
    def words(self) -> str:
        """A digest of the canonical wording."""
        return hashlib.sha256(self.selection.words().encode()).hexdigest()

    @cached_property
    def known(self) -> Selection:
        """The records of the universe by known variables alone."""
        return known_part(self.selection)

    @cached_property
    def marks(self) -> tuple[str, str, str]:
        """Keyed marks of universes of about this size, then of smaller and larger ones; meaningless without the secret."""
        size = self.dataset.cubes.of(self.known.variables).count(self.known) // FEW
        own, less, more = (self.dataset.secret.citation("size", self.dataset.label, str(size + i)) for i in (0, -1, 1))
        return own, less, more

    def near(self, earlier: Mapping[str, Any]) -> list[str]:
        """Return the earlier universes (pieces by their wording) that differ by at least one record, but by few."""
        for words, pieces in earlier.items():
            if words not in self.judged:
                other = Selection.of(Universe.of(pieces), self.dataset.variables)
                self.judged[words] = 0 < self._difference(known_part(other)) < FEW
        return [words for words in earlier if self.judged[words]]

    def _difference(self, other: Selection) -> int:
        """Count the records in exactly one of two universes: from the cube, or where the records live."""
        one, two = self.known, other
        names = {v.name: v for v in (*one.variables, *two.variables)}
        both = [names[name] for name in sorted(names)]
        if math.prod(len(v.levels) for v in both) <= _CELLS:
            counts = self.dataset.cubes.of(both).counts
            return int(counts[spread(one, both) != spread(two, both)].sum())
        differs = f"SELECT count(*) AS n FROM records WHERE ({one.where()}) <> ({two.where()})"  # noqa: S608 - names of our own
        return int(self.dataset.warehouse.ask(differs)["n"][0])


def alerts_in(entries: Iterable[Entry]) -> list[Alert]:
    """Return the alerts of a log, in order."""
    seen: dict[int, Entry] = {}
    found = []
    for entry in entries:
        seen[entry.seq] = entry
        if near := entry.content.get("near"):
            found.append(Alert(entry, tuple(seen[seq] for seq in near)))
    return found


def _asked(entry: Entry) -> str:
    universe = json.dumps(entry.content.get("universe", []), ensure_ascii=False)
    return f"{entry.content.get('analysis')} of {'everybody' if universe == '[]' else universe}"


# --- ledger
# The ledger: an append-only, hash-chained log of every question, and the accounts charged with it.


_TABLES = """
CREATE TABLE IF NOT EXISTS entries (
  seq INTEGER PRIMARY KEY, moment TEXT NOT NULL, user TEXT NOT NULL, family TEXT NOT NULL, content TEXT NOT NULL,
  previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS charges (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, family TEXT NOT NULL, user TEXT NOT NULL, charge TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answered (
  family TEXT NOT NULL, user TEXT NOT NULL, key BLOB NOT NULL, entry INTEGER NOT NULL,
  PRIMARY KEY (family, user, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS universes (
  family TEXT NOT NULL, version INTEGER NOT NULL, size TEXT NOT NULL, words TEXT NOT NULL, user TEXT NOT NULL,
  entry INTEGER NOT NULL, PRIMARY KEY (family, version, size, words, user)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_last ON entries (user, seq);
CREATE INDEX IF NOT EXISTS charges_payer ON charges (family, user, seq);
"""
_KEEP = (
    "CREATE TRIGGER IF NOT EXISTS {table}_{act} BEFORE {act} ON {table} BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
)
_EVERYBODY = ""
"""The user name of the common account: that of all users without a project."""


CellCounts = Callable[[tuple[Variable, ...]], Whole]
"""How many records the cells of a table of known variables have."""
_PROJECT = "\x1eproject "
"""What the names of the accounts of projects begin with; no user has such a name."""


def project_account(project: str | None) -> str:
    """Return the name of the account that a project's users share; that of all others, where there is none."""
    return _EVERYBODY if not project else f"{_PROJECT}{project}"


_CHECKED = 16
"""How many of the last lines a process checks before its first question; later it checks the lines new to it."""
_MINUTE = datetime.timedelta(minutes=1)


class Ledger:
    """A SQLite file, and its head in a file beside it. The check of an account and the line of the log are one transaction.

    Nothing is written to a ledger that is older than its head, or than what this process has seen of it.
    """

    def __init__(
        self, path: Path, key: bytes, now: Callable[[], datetime.datetime] | None = None, *, lasting: bool = True
    ) -> None:
        """Open or create the files; a ledger with `lasting` off is faster, and may be lost in a power failure."""
        new = not path.exists()
        self._path = path
        self._head = path.with_suffix(".head")
        self._key = key
        self._seen: Head | None = None
        self._lasting = lasting
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        self._lock = threading.RLock()
        self._balances: dict[tuple[str, str], Balance] = {}
        self._read: dict[str, int] = {}
        with self._connection() as connection:
            connection.executescript(_TABLES)
            for table in ("entries", "charges", "answered", "universes"):
                for act in ("UPDATE", "DELETE"):
                    connection.execute(_KEEP.format(table=table, act=act))
        os.chmod(path, 0o600)
        if new:
            self._keep_head()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        except sqlite3.Error:
            raise DataError(f"the ledger {self._path} cannot be opened.") from None
        try:
            if not self._lasting:
                connection.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;")
            yield connection
        except sqlite3.Error:
            raise DataError(
                f"the ledger {self._path} cannot be read or written, so that nothing can be asked."
            ) from None
        finally:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._check(connection)
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._seen = last_line(connection)
        self._keep_head()

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a ledger that is older than its head or than what was seen of it, or whose last lines were changed."""
        kept = read_head(self._head, self._key)
        refuse_older(connection, kept)
        if self._seen is None:
            self._seen = line_at(connection, max(0, kept[0] - _CHECKED))
        if self._seen is not None:
            refuse_older(connection, self._seen)
            self._seen = check_lines(connection, self._key, self._seen)

    def _keep_head(self) -> None:
        """Write the head, after its line: an interrupted process has given no answer, and the next one writes the head."""
        with self._lock, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # nothing is written, but the lock keeps others from writing a head
            try:
                write_head(self._head, self._key, last_line(connection), lasting=self._lasting)
            except OSError:
                raise DataError(f"the head of the ledger ({self._head}) cannot be written.") from None
            finally:
                connection.execute("ROLLBACK")

    def seal(self) -> None:
        """Accept the ledger as it is: one of an earlier version, or a restored copy. The log keeps a line about it.

        First compare it with a number and a hash kept elsewhere: charges that a ledger has lost are not restored.
        """
        with self._lock, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("DROP TRIGGER IF EXISTS entries_UPDATE")
                key_earlier(connection, self._key)
                connection.execute(_KEEP.format(table="entries", act="UPDATE"))
                for _ in read_log(connection, self._key):
                    pass
                content = {"dataset": "", "universe": [], "analysis": "seal", "outcome": "sealed"}
                append_line(connection, self._key, self._now(), "custodian", "", content)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._seen = last_line(connection)
        self._keep_head()

    # -- charging

    def settle(
        self,
        user: str,
        family: str,
        content: Mapping[str, Any],
        losses: Sequence[PrivacyLoss] = (),
        accounts: Accounts | None = None,
        variables: Mapping[str, Variable] | None = None,
        most_per_minute: int | None = None,
        place: Place | None = None,
        project: str | None = None,
        frozen_loss: float = 0.0,
        counts: CellCounts | None = None,
    ) -> Refusal | None:
        """Charge what an answer tells and log it, or log the refusal; return the refusal.

        `frozen_loss` is what everybody was told of each record when the data set was frozen; `counts` says how many records the
        cells of known variables have, where the accounts suppose that others are not known.

        The place of an answered universe is stored, and the line of the log names the earlier ones that differ by few records.
        """
        _check_user(user)
        if place is not None:
            with self._connection() as connection:  # compared before the lock, so that nobody waits
                self._near(connection, user, place)
        with self._transaction() as connection:
            refusal = self._too_many(connection, user, most_per_minute)
            told, entry = dict(content), last_line(connection)[0] + 1
            written: list[Written] = []
            if refusal is None and accounts is not None and variables is not None:
                limits = {
                    user: accounts.limit(user=True) - frozen_loss,
                    project_account(project): accounts.limit(project) - frozen_loss,
                }
                refusal, written = self._charge(connection, entry, family, losses, limits, variables, counts)
            if refusal is not None:
                told = _refused(content, refusal)
            elif place is not None and (near := self._near(connection, user, place)) is not None:
                told |= {"near": near} if near else {}
                row = (family, place.dataset.version, place.marks[0], place.words, user, entry)
                connection.execute("INSERT INTO universes VALUES (?, ?, ?, ?, ?, ?)", row)
                written.append(("universe", family, user, f"{row[1]} {row[2]} {row[3]}"))
            told |= {"written": digest_of(written)} if written else {}
            append_line(connection, self._key, self._now(), user, family, told)
        return refusal

    def refuse_robot(self, user: str, family: str, content: Mapping[str, Any], most: int | None) -> Refusal | None:
        """Refuse a user who asks too many questions in a minute, before anything is computed, and log the refusal."""
        _check_user(user)
        with self._lock, self._connection() as connection:
            self._check(connection)
            refusal = self._too_many(connection, user, most)
        if refusal is not None:
            with self._transaction() as connection:
                append_line(connection, self._key, self._now(), user, family, _refused(content, refusal))
        return refusal

    def _near(self, connection: sqlite3.Connection, user: str, place: Place) -> list[int] | None:
        """Return the lines about universes that differ from a new one by few records; None if the user asked about it before."""
        name, version = place.dataset.name, place.dataset.version
        rows = connection.execute(
            "SELECT u.words, u.user, u.entry, e.content FROM universes AS u JOIN entries AS e ON e.seq = u.entry "
            "WHERE u.family = ? AND u.version = ? AND u.size IN (?, ?, ?) ORDER BY u.entry",
            (name, version, *place.marks),
        ).fetchall()
        if any(words == place.words and who == user for words, who, _, _ in rows):
            return None
        lines: dict[str, tuple[bool, int]] = {}
        pieces: dict[str, Any] = {}
        for words, who, entry, content in rows:
            if words != place.words and (words not in lines or (who == user and not lines[words][0])):
                lines[words] = who == user, entry
                pieces[words] = parse_json(content)["universe"]
        return sorted(lines[words][1] for words in place.near(pieces))

    def _too_many(self, connection: sqlite3.Connection, user: str, most: int | None) -> Refusal | None:
        if most is None:
            return None
        now = self._now()
        newest = "SELECT moment FROM entries WHERE user = ? ORDER BY seq DESC LIMIT ?"
        moments = [datetime.datetime.fromisoformat(text) for (text,) in connection.execute(newest, (user, most))]
        # lines dated more than a minute ahead were written before the clock was set back, and count as old
        if len(moments) < most or not all(abs(now - moment) < _MINUTE for moment in moments):
            return None
        return Refusal("query_rate", "Too many questions in one minute.", "Wait a minute, and ask again.")

    def _charge(
        self, connection: sqlite3.Connection, entry: int, family: str, losses: Sequence[PrivacyLoss], limits: Mapping[str, float],
        variables: Mapping[str, Variable], counts: CellCounts | None,
    ) -> tuple[Refusal | None, list[Written]]:  # fmt: skip
        """Charge what is new to each payer to its account, up to its limit.

        Return the refusal, and the rows written. The log holds their digest, so that neither charges nor what is free can be
        changed unnoticed.
        """
        balances = self._current(connection, family, tuple(limits), variables, counts)
        bills: dict[str, list[Charge]] = {payer: [] for payer in limits}
        met: dict[str, set[bytes]] = {payer: set() for payer in limits}
        for payer, limit in limits.items():
            bills[payer] = self._bill(connection, family, payer, losses, met[payer])
            if bills[payer] and not balances[payer].fits(bills[payer], limit):
                return Refusal(
                    "accounts", "With this, too much would have been asked about some of these records.",
                    "Ask about a larger or another universe, or for fewer numbers.",
                ), []  # fmt: skip
        written: list[Written] = []
        for payer, charges in bills.items():
            rows = [(entry, family, payer, charge.to_text()) for charge in charges]
            connection.executemany("INSERT INTO charges (entry, family, user, charge) VALUES (?, ?, ?, ?)", rows)
            keys = [(family, payer, key, entry) for key in met[payer]]
            connection.executemany("INSERT INTO answered VALUES (?, ?, ?, ?)", keys)
            written += [("charge", family, payer, text) for _, _, _, text in rows]
            written += [("answered", family, payer, key.hex()) for key in met[payer]]
        return None, written

    def _bill(
        self, connection: sqlite3.Connection, family: str, payer: str, losses: Sequence[PrivacyLoss], met: set[bytes]
    ) -> list[Charge]:
        """Return the charges for what is new to a payer."""
        charges = (Charge.of(one, self._new(connection, family, payer, one.keys, met)) for one in losses)
        return [charge for charge in charges if charge is not None]

    def affords(
        self, family: str, losses: Sequence[PrivacyLoss], limits: Mapping[str, float], variables: Mapping[str, Variable],
        counts: CellCounts | None = None,
    ) -> bool:  # fmt: skip
        """Return whether the accounts of some payers have room for losses; nothing is charged or logged."""
        with self._lock, self._connection() as connection:
            balances = self._current(connection, family, tuple(limits), variables, counts)
            bills = {payer: self._bill(connection, family, payer, losses, set()) for payer in limits}
            return all(not bill or balances[payer].fits(bill, limits[payer]) for payer, bill in bills.items())

    def dearest(
        self, family: str, losses: Sequence[PrivacyLoss], limits: Mapping[str, float], variables: Mapping[str, Variable],
        counts: CellCounts | None = None,
    ) -> dict[str, tuple[float, float]]:  # fmt: skip
        """Return for each payer what losses would tell of its worst-placed record, and what is left of it; nothing is charged."""
        with self._lock, self._connection() as connection:
            balances = self._current(connection, family, tuple(limits), variables, counts)
            bills = {payer: self._bill(connection, family, payer, losses, set()) for payer in limits}
            return {payer: balances[payer].dearest(bill, limits[payer]) for payer, bill in bills.items()}

    def _new(
        self, connection: sqlite3.Connection, family: str, payer: str, keys: Sequence[bytes], met: set[bytes]
    ) -> NDArray[np.bool_]:
        """Return which sets were neither answered before nor already in this answer, and mark them as met."""
        asked = "SELECT 1 FROM answered WHERE family = ? AND user = ? AND key = ?"
        new = []
        for key in keys:
            new.append(key not in met and connection.execute(asked, (family, payer, key)).fetchone() is None)
            if new[-1]:
                met.add(key)
        return np.array(new, bool)

    def _current(
        self, connection: sqlite3.Connection, family: str, payers: Sequence[str], variables: Mapping[str, Variable],
        counts: CellCounts | None,
    ) -> dict[str, Balance]:  # fmt: skip
        """Return the balances of some payers, including charges by other processes."""
        table = finest(variables, CELLS["known" if counts is None else "unknown"])
        shape = tuple((v.name, v.levels) for v in table)
        for payer in payers:
            kept = self._balances.get((family, payer))
            same = kept is not None and kept.others_known == (counts is None)
            if kept is None or not same or tuple((v.name, v.levels) for v in kept.variables) != shape:
                self._balances[family, payer] = Balance(table, None if counts is None else partial(counts, table))
                self._read[f"{family}\x1f{payer}"] = 0
            read = self._read[f"{family}\x1f{payer}"]
            asked = "SELECT seq, charge FROM charges WHERE family = ? AND user = ? AND seq > ? ORDER BY seq"
            for seq, text in connection.execute(asked, (family, payer, read)):
                self._balances[family, payer].pay(Charge.from_text(text))
                self._read[f"{family}\x1f{payer}"] = read = seq
        return {payer: self._balances[family, payer] for payer in payers}

    def balance(
        self, payer: str, family: str, variables: Mapping[str, Variable], counts: CellCounts | None = None
    ) -> Balance:
        """Return what a user, a project or (by an empty name) all other users were told of each record."""
        with self._lock, self._connection() as connection:
            found = self._current(connection, family, (payer,), variables, counts)[payer]
            found.settle()
            return found

    def spent(
        self, payer: str, family: str, variables: Mapping[str, Variable], counts: CellCounts | None = None
    ) -> float:
        """Return the most that a payer was told of any record."""
        return float(self.balance(payer, family, variables, counts).spent.max(initial=0.0))

    def spent_by_all(self, family: str, variables: Mapping[str, Variable], counts: CellCounts | None = None) -> float:
        """Return the most that all users together were told of any record: those of every project, and all others."""
        with self._lock, self._connection() as connection:
            found = connection.execute("SELECT DISTINCT user FROM charges WHERE family = ?", (family,)).fetchall()
            payers = [user for (user,) in found if user == _EVERYBODY or user.startswith(_PROJECT)]
            balances = list(self._current(connection, family, payers, variables, counts).values())
            for one in balances:
                one.settle()
            return float(sum((one.spent for one in balances), np.zeros(())).max(initial=0.0))

    # -- the log

    def entries(self) -> Iterator[Entry]:
        """Yield the lines of the log in order; refuse a log or accounts that were changed, or that are an older copy."""
        with self._connection() as connection:
            refuse_older(connection, read_head(self._head, self._key))
            yield from read_log(connection, self._key)

    def head(self) -> Head:
        """Return the number and the hash of the last line: stored elsewhere, they show that no line was cut off the end."""
        with self._connection() as connection:
            return last_line(connection)

    def expect(self, seq: int, hashed: str) -> None:
        """Refuse a ledger that lacks a line whose number and hash were stored elsewhere."""
        with self._connection() as connection:
            refuse_older(connection, (seq, hashed))


def _refused(content: Mapping[str, Any], refusal: Refusal) -> dict[str, Any]:
    """Return what the log keeps of a refused question: nothing of the answer that was withheld."""
    kept = {name: value for name, value in content.items() if name not in ("citation", "outcome")}
    return {**kept, "outcome": "refused", "rule": refusal.rule}


def _check_user(user: object) -> None:
    """Refuse empty names, and those of the ledger's own accounts."""
    if not isinstance(user, str) or not user.strip() or not user.isprintable() or len(user) > 200:
        raise ParameterError("the user is a name: a text of at most 200 signs that can be printed.")
