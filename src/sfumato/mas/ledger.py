"""The ledger: an append-only, hash-chained log of every question, and the accounts that are settled with it."""

from __future__ import annotations

import datetime
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError
from sfumato.files import parse_json
from sfumato.mas.accounts import CELLS, Accounts, Balance, Charge, Sets
from sfumato.mas.answer import Refusal
from sfumato.mas.log import (
    Entry,
    Head,
    Written,
    append_line,
    check_lines,
    digest_of,
    key_earlier,
    last_line,
    line_at,
    read_head,
    read_log,
    refuse_older,
    write_head,
)  # fmt: skip
from sfumato.mas.overlap import Place
from sfumato.mas.variable import Variable, finest

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
"""The user whose account is that of all users."""
_LOSS = "\x1eloss"
"""The account that adds up the zero-concentrated loss of count tables."""


_CHECKED = 16
"""How many of the last lines a process checks before its first question; later those that are new to it."""
_MINUTE = datetime.timedelta(minutes=1)


class Ledger:
    """A SQLite file, and its head in a file beside it. The check of an account and the line of the log are one transaction.

    Nothing is written to a ledger that is older than its head, or than what this process has seen of it.
    """

    def __init__(
        self, path: Path, key: bytes, now: Callable[[], datetime.datetime] | None = None, *, lasting: bool = True
    ) -> None:
        """Open or make the files; a ledger that need not last is faster, and may be lost with the power."""
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
        """Write the head, after the line that it is of: who dies in between has got no answer, and the next one writes it."""
        with self._lock, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # nothing is written, but nobody else writes a head meanwhile
            try:
                write_head(self._head, self._key, last_line(connection), lasting=self._lasting)
            except OSError:
                raise DataError(f"the head of the ledger ({self._head}) cannot be written.") from None
            finally:
                connection.execute("ROLLBACK")

    def seal(self) -> None:
        """Take the ledger as it stands: one of an earlier version, or a copy that was put back. The log keeps a line about it.

        Compare it with a number and a hash that were kept elsewhere first: what a ledger has lost is not spent in it.
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

    # -- settling

    def settle(
        self,
        user: str,
        family: str,
        content: Mapping[str, Any],
        sets: Sequence[Sets] = (),
        accounts: Accounts | None = None,
        variables: Mapping[str, Variable] | None = None,
        most_per_minute: int | None = None,
        place: Place | None = None,
    ) -> Refusal | None:
        """Charge what an answer is about and log it, or log that it is refused; return the refusal.

        The place of an answered universe is remembered, and the line of the log names the earlier ones that it is near to.
        """
        _check_user(user)
        if place is not None:
            with self._connection() as connection:  # compared before anybody else has to wait
                self._near(connection, user, place)
        with self._transaction() as connection:
            refusal = self._too_many(connection, user, most_per_minute)
            told, entry = dict(content), last_line(connection)[0] + 1
            written: list[Written] = []
            if refusal is None and accounts is not None and variables is not None:
                refusal, written = self._charge(connection, entry, user, family, sets, accounts, variables)
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
        """Refuse a question before anything is computed, and log that, where a user asks too many in a minute."""
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
        # lines of more than a minute ahead were written before the clock was set back, and are as old as any
        if len(moments) < most or not all(abs(now - moment) < _MINUTE for moment in moments):
            return None
        return Refusal("query_rate", "Too many questions in one minute.", "Wait a minute, and ask again.")

    def _charge(
        self, connection: sqlite3.Connection, entry: int, user: str, family: str, sets: Sequence[Sets],
        accounts: Accounts, variables: Mapping[str, Variable],
    ) -> tuple[Refusal | None, list[Written]]:  # fmt: skip
        """Pay for sets that are new to the user from the user's account, for those new to all from that of everybody.

        Return the refusal, and what was written: with a digest of it in the log, neither what was paid nor what is free from
        now on can be changed unseen.
        """
        balances = self._current(connection, family, (user, _EVERYBODY), variables)
        bills: dict[str, list[Charge]] = {user: [], _EVERYBODY: [], _LOSS: []}
        met: dict[str, set[bytes]] = {payer: set() for payer in bills}
        for payer in bills:
            for one in sets:
                new = self._new(connection, family, payer, one.keys, met[payer])
                costs = np.full(one.sizes.shape, one.loss) if payer == _LOSS else one.costs(accounts)
                if (charge := Charge.of(one, costs, new)) is not None:
                    bills[payer].append(charge)
        for payer, limit in ((user, accounts.user), (_EVERYBODY, accounts.everybody)):
            if balances[payer].after(bills[payer]).max(initial=0.0) > limit:
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

    def _new(
        self, connection: sqlite3.Connection, family: str, payer: str, keys: Sequence[bytes], met: set[bytes]
    ) -> NDArray[np.bool_]:
        """Return which sets were not answered before, nor met as new in this answer; they are met now."""
        asked = "SELECT 1 FROM answered WHERE family = ? AND user = ? AND key = ?"
        new = []
        for key in keys:
            new.append(key not in met and connection.execute(asked, (family, payer, key)).fetchone() is None)
            if new[-1]:
                met.add(key)
        return np.array(new, bool)

    def _current(
        self, connection: sqlite3.Connection, family: str, users: Sequence[str], variables: Mapping[str, Variable]
    ) -> dict[str, Balance]:
        """Return the balances of some users, with what other processes have charged meanwhile."""
        table = finest(variables, CELLS)
        shape = tuple((v.name, v.levels) for v in table)
        for user in users:
            kept = self._balances.get((family, user))
            if kept is None or tuple((v.name, v.levels) for v in kept.variables) != shape:
                self._balances[family, user] = Balance(table)
                self._read[f"{family}\x1f{user}"] = 0
            read = self._read[f"{family}\x1f{user}"]
            asked = "SELECT seq, charge FROM charges WHERE family = ? AND user = ? AND seq > ? ORDER BY seq"
            for seq, text in connection.execute(asked, (family, user, read)):
                self._balances[family, user].pay(Charge.from_text(text))
                self._read[f"{family}\x1f{user}"] = seq
        return {user: self._balances[family, user] for user in users}

    def spent(self, user: str, family: str, variables: Mapping[str, Variable]) -> float:
        """Return the most that a user has spent on any record; of all users together for an empty name."""
        with self._lock, self._connection() as connection:
            return float(self._current(connection, family, (user,), variables)[user].spent.max(initial=0.0))

    def loss(self, family: str, variables: Mapping[str, Variable]) -> float:
        """Return the most zero-concentrated loss of any record by the count tables that were answered to anybody.

        Bun and Steinke (2016): a count with normal noise of standard deviation s loses 1 / (2 s²), and losses add up. Drops,
        models, quantiles and amounts are outside it.
        """
        return self.spent(_LOSS, family, variables)

    # -- the log

    def entries(self) -> Iterator[Entry]:
        """Yield the lines of the log in order; refuse a log or accounts that were tampered with, or that are an older copy."""
        with self._connection() as connection:
            refuse_older(connection, read_head(self._head, self._key))
            yield from read_log(connection, self._key)

    def head(self) -> Head:
        """Return the number and the hash of the last line: kept elsewhere, they show that no line was cut off the end."""
        with self._connection() as connection:
            return last_line(connection)

    def expect(self, seq: int, hashed: str) -> None:
        """Refuse a ledger that does not hold a line whose number and hash were kept elsewhere."""
        with self._connection() as connection:
            refuse_older(connection, (seq, hashed))


def _refused(content: Mapping[str, Any], refusal: Refusal) -> dict[str, Any]:
    """Return what the log keeps of a question that is refused: nothing of an answer that was not given."""
    kept = {name: value for name, value in content.items() if name not in ("citation", "outcome")}
    return {**kept, "outcome": "refused", "rule": refusal.rule}


def _check_user(user: object) -> None:
    """Refuse names that are none, or those of our own accounts."""
    if not isinstance(user, str) or not user.strip() or not user.isprintable() or len(user) > 200:
        raise ParameterError("the user is a name: a text of at most 200 signs that can be printed.")
