"""The accounts against a slow twin that keeps one for every record, and the log against somebody who changes it."""

from __future__ import annotations

import datetime
import hashlib
import sqlite3
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas.accounts import Accounts, loss_of, right_of
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.ledger import Ledger, project_account
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

FREE = Policy.named("hardened").with_(
    title="free", rules=(), per_minute=None, accounts=Accounts(user=100, everybody=100)
)
QUESTIONS = [
    ({"sex": "F"}, ("state",)),
    ({"sex": "F", "state": ["S0", "S1"]}, ("sick",)),
    ([{"sex": "F", "state": "S0"}, {"sex": "M", "state": "S2"}], ("sex", "sick")),
    (None, ("sex", "state")),
    ({"sick": "yes"}, ("state",)),
]


@pytest.fixture
def survey(tmp_path: Path) -> tuple[Vault, pd.DataFrame]:
    rng = np.random.default_rng(5)
    n = 900
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice(["S0", "S1", "S2"], n), "sick": rng.choice(["no", "yes"], n),
    })  # fmt: skip
    roles = {"sick": "confidential"}
    schema = Schema(tuple(Attribute(c, role=roles.get(c, "key"), scale="unordered") for c in frame))
    vault = Vault.create(tmp_path / "v", FREE)
    vault.freeze("survey", Microdata(frame, schema))
    return vault, frame


def told(
    frame: pd.DataFrame, universe: object, by: tuple[str, ...], before: set[frozenset[object]], p: dict[str, float]
) -> np.ndarray:
    """What a table tells of each record, by the definition: the largest Σ (change of a count)² / (variance of its noise)."""
    spent = np.zeros(len(frame))
    pieces = [{}] if universe is None else universe if isinstance(universe, list) else [universe]
    known, share = np.zeros(len(frame), bool), p.get(str((pieces[0]).get("sick")), 1.0)
    for piece in pieces:
        held = [frame[n].isin(v if isinstance(v, list) else [v]).to_numpy() for n, v in piece.items() if n != "sick"]
        known |= np.logical_and.reduce([np.ones(len(frame), bool), *held])
    if "sick" not in by and share == 1.0:
        return spent  # nothing confidential is asked
    shown = [name for name in by if name != "sick"]
    cells = frame[shown].agg("/".join, axis=1) if shown else pd.Series("", frame.index)
    for cell in cells[known].unique():
        members = known & (cells == cell).to_numpy()
        key = frozenset([*np.flatnonzero(members), "sick" in by, str(pieces[0].get("sick"))])
        if key in before:
            continue
        before.add(key)
        parts, noise = [share * q for q in p.values()] if "sick" in by else [share], FREE.counts
        variances = [noise.sd**2 + noise.growth * members.sum() * q * (1 - q) for q in parts]
        # the noise of the ill and the well adds up to 0, so that one cell tells the other
        spent[members] += 1 / np.mean(variances) if share == 1.0 else sum(1 / v for v in variances)
    return spent


def test_accounts_over_cells_are_those_of_every_record(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = survey
    spent, before = np.zeros(len(frame)), set[frozenset[object]]()
    sick = vault.dataset("survey").variables["sick"]
    for universe, by in (*QUESTIONS, QUESTIONS[1]):
        assert isinstance(vault.ask("survey", universe, CrossTab(by), user="ann"), Answer)
        spent += told(frame, universe, by, before, dict(zip(sick.levels, sick.shares, strict=True)))
        found = vault.ledger.spent("ann", "survey", vault.dataset("survey").variables)
        assert found == pytest.approx(spent.max(), rel=1e-6)


def test_what_was_asked_before_is_free_and_others_pay_only_for_themselves(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    variables = vault.dataset("survey").variables
    for _ in range(3):
        vault.ask("survey", {"sex": "F"}, CrossTab(("state", "sick")), user="ann")
    once = vault.ledger.spent("ann", "survey", variables)
    vault.ask("survey", {"sex": ["F"]}, CrossTab(("sick", "state")), user="bob")
    assert once > 0
    assert vault.ledger.spent("ann", "survey", variables) == once
    assert vault.ledger.spent("bob", "survey", variables) == once
    assert vault.ledger.spent("", "survey", variables) == once  # the same sets tell all users together nothing new


def test_a_full_account_refuses_and_charges_nothing(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    tight = FREE.with_(accounts=Accounts(user=56, everybody=100))
    first = vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), tight, user="ann")
    spent = vault.ledger.spent("ann", "survey", vault.dataset("survey").variables)
    second = vault.ask("survey", {"sex": "F"}, CrossTab(("state", "sick")), tight, user="ann")
    assert isinstance(first, Answer)
    assert isinstance(second, Refusal)
    assert second.rule == "accounts"
    assert vault.ledger.spent("ann", "survey", vault.dataset("survey").variables) == spent
    assert [e.content["outcome"] for e in vault.ledger.entries()] == ["answered", "refused"]


def test_another_process_sees_what_was_spent(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), user="ann")
    other = Vault.open(vault.folder)
    variables = other.dataset("survey").variables
    assert other.ledger.spent("ann", "survey", variables) == vault.ledger.spent("ann", "survey", variables) > 0


def test_many_threads_cannot_overdraw_an_account_together(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    tight = FREE.with_(accounts=Accounts(user=60, everybody=100))
    questions = [({"sex": s, "state": t}, ("sick",)) for s in "FM" for t in ("S0", "S1", "S2")] + QUESTIONS
    threads = [
        threading.Thread(target=vault.ask, args=("survey", u, CrossTab(by), tight), kwargs={"user": "ann"})
        for u, by in questions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert vault.ledger.spent("ann", "survey", vault.dataset("survey").variables) <= loss_of(0.6)
    assert len(list(vault.ledger.entries())) == len(questions)


def test_a_robot_is_slowed_down(tmp_path: Path) -> None:
    moments = iter(
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=10 * i) for i in range(99)
    )
    ledger = Ledger(tmp_path / "l.sqlite", b"key", now=lambda: next(moments))
    found = [ledger.settle("ann", "survey", {"outcome": "answered"}, most_per_minute=2) for _ in range(3)]
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2].rule == "query_rate"


def test_the_log_cannot_be_changed_and_shows_it_if_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite", b"key")
    for i in range(3):
        ledger.settle("ann", "survey", {"outcome": "answered", "number": i})
    assert ledger.head() == (3, list(ledger.entries())[-1].hash)
    with sqlite3.connect(tmp_path / "l.sqlite") as connection:
        with pytest.raises(sqlite3.Error, match="append-only"):
            connection.execute("UPDATE entries SET user = 'bob' WHERE seq = 2")
        with pytest.raises(sqlite3.Error, match="append-only"):
            connection.execute("DELETE FROM entries")
        connection.execute("DROP TRIGGER entries_UPDATE")  # somebody with the file in hand
        connection.execute("UPDATE entries SET user = 'bob' WHERE seq = 2")
    with pytest.raises(DataError, match="line 2"):
        list(ledger.entries())


def test_an_account_that_was_emptied_shows(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    for universe, by in QUESTIONS[1:3]:
        vault.ask("survey", universe, CrossTab(by), user="ann")
    assert len(list(vault.ledger.entries())) == 2
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER charges_DELETE")
        connection.execute("DELETE FROM charges WHERE entry = 2 AND user = 'ann'")
    with pytest.raises(DataError, match="those of line 2 were changed"):
        list(vault.ledger.entries())


@pytest.mark.parametrize(
    "tampering",
    [
        "INSERT INTO answered SELECT family, user, x'00', 1 FROM answered LIMIT 1",  # free questions
        "INSERT INTO answered SELECT family, user, x'00', 99 FROM answered LIMIT 1",
        "INSERT INTO answered SELECT family, 'bob', key, 0 FROM answered WHERE user = 'ann'",
        "DELETE FROM answered WHERE user = 'ann'",
        "UPDATE charges SET family = 'other' WHERE user = 'ann'",
        "UPDATE charges SET user = 'bob' WHERE user = 'ann'",
        "DELETE FROM universes",  # no alerts
        "UPDATE universes SET user = 'bob'",
    ],
)
def test_what_is_free_what_was_paid_and_what_is_compared_cannot_be_changed_unseen(
    survey: tuple[Vault, pd.DataFrame], tampering: str
) -> None:
    vault, _ = survey
    for universe, by in QUESTIONS[1:3]:
        vault.ask("survey", universe, CrossTab(by), user="ann")
    assert len(list(vault.ledger.entries())) == 2
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection:
        for table in ("answered", "charges", "universes"):
            for act in ("UPDATE", "DELETE"):
                connection.execute(f"DROP TRIGGER {table}_{act}")
        connection.execute(tampering)
    with pytest.raises(DataError, match="the accounts are not what was written"):
        list(vault.ledger.entries())


def test_what_was_answered_through_other_noise_is_not_free(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    variables, spent = vault.dataset("survey").variables, []
    for sd in (5.0, 5.0, 6.0):  # another standard deviation draws other noise: two answers tell more than one
        vault.ask(
            "survey", {"sex": "F"}, CrossTab(("sick",)), FREE.set({"counts.sd": sd, "counts.growth": 0}), user="ann"
        )
        spent.append(vault.ledger.spent("ann", "survey", variables))
    assert spent[0] == spent[1]
    assert spent[0] == pytest.approx(1 / 5.0**2)  # of two cells one tells the other
    assert spent[2] == pytest.approx(1 / 5.0**2 + 1 / 6.0**2)


def test_a_vault_without_its_ledger_is_not_opened(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    ledger = vault.folder / "ledger.sqlite"
    ledger.write_bytes(b"")
    with pytest.raises(DataError, match=r"ledger .* is gone"):
        Vault.open(vault.folder)
    ledger.unlink()
    with pytest.raises(DataError, match=r"ledger .* is gone"):
        Vault.open(vault.folder)
    assert not ledger.exists()


def fill(vault: Vault) -> None:
    """Ask until the file is full: it has some room in its last page."""
    for i in range(99):
        before = vault.ledger.head()[0]
        vault.ask("survey", QUESTIONS[i % 5][0], CrossTab(QUESTIONS[i % 5][1]), user=f"user {i}")
        assert vault.ledger.head()[0] == before + 1


@pytest.mark.parametrize("pragma", ["query_only = 1", "max_page_count = 1"])
def test_where_the_ledger_cannot_be_written_nothing_is_answered(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch, pragma: str
) -> None:
    vault, _ = survey
    connect = sqlite3.connect

    def full(*args: object, **settings: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **settings)  # type: ignore[call-overload]
        connection.execute(f"PRAGMA {pragma}")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", full)
        with pytest.raises(DataError, match="cannot be read or written"):
            fill(vault)
    assert len(list(vault.ledger.entries())) == vault.ledger.head()[0]
    assert isinstance(vault.ask("survey", None, CrossTab(("sex",)), user="ann"), Answer)


def test_what_breaks_in_the_middle_leaves_neither_a_charge_nor_a_line(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, _ = survey
    variables = vault.dataset("survey").variables

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("sfumato.mas.ledger.append_line", broken)
        with pytest.raises(KeyboardInterrupt):
            vault.ask("survey", {"sex": "F"}, CrossTab(("state",)), user="ann")
    assert vault.ledger.head()[0] == 0
    assert vault.ledger.spent("ann", "survey", variables) == 0
    assert isinstance(vault.ask("survey", {"sex": "F"}, CrossTab(("state",)), user="ann"), Answer)
    assert len(list(vault.ledger.entries())) == 1


def test_a_robot_is_refused_before_anything_is_computed_and_it_is_logged(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, _ = survey
    slow = FREE.with_(per_minute=1)
    assert isinstance(vault.ask("survey", None, CrossTab(("sex",)), slow, user="ann"), Answer)
    monkeypatch.setattr(CrossTab, "steps", None)  # calling it would raise
    refused = vault.ask("survey", None, CrossTab(("sex",)), slow, user="ann")
    assert isinstance(refused, Refusal)
    assert refused.rule == "query_rate"
    checked = vault.check("survey", None, slow, user="ann")
    assert checked is not None
    assert checked.rule == "query_rate"
    assert [e.content.get("rule") for e in vault.ledger.entries()] == [None, "query_rate", "query_rate"]


def test_a_mistake_that_shows_only_in_the_computation_is_logged_and_names_that_are_wrong_are_not(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, _ = survey
    for universe, by in (({"sexx": "F"}, "sex"), ({"sex": "X"}, "sex"), (None, "sexx")):
        with pytest.raises(DataError):
            vault.ask("survey", universe, CrossTab((by,)), user="ann")
    assert vault.ledger.head()[0] == 0

    def mistaken(*_: object) -> None:
        raise DataError("it cannot be done.")

    monkeypatch.setattr(CrossTab, "steps", mistaken)
    with pytest.raises(DataError, match="cannot be done"):
        vault.ask("survey", None, CrossTab(("sex",)), user="ann")
    assert [e.content["outcome"] for e in vault.ledger.entries()] == ["error"]


@pytest.mark.parametrize("kind", [ValueError, np.linalg.LinAlgError, MemoryError, AssertionError])
def test_what_nobody_foresaw_is_logged_and_says_nothing_of_the_data(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    vault, _ = survey

    def broken(*_: object) -> None:
        raise kind("could not convert string 'Smith'")

    monkeypatch.setattr(CrossTab, "steps", broken)
    with pytest.raises(DataError) as caught:
        vault.ask("survey", {"sex": "F"}, CrossTab(("sex",)), user="ann")
    assert "Smith" not in "".join(traceback.format_exception(caught.value))
    assert [e.content["outcome"] for e in vault.ledger.entries()] == ["error"]


@pytest.mark.parametrize("user", ["", "  ", "\x1eloss", "a\nb", "x" * 201, None, 3])
def test_a_user_has_a_name_and_it_is_not_that_of_an_account_of_our_own(
    survey: tuple[Vault, pd.DataFrame], user: object
) -> None:
    vault, _ = survey
    with pytest.raises(ParameterError, match="the user is a name"):
        vault.ask("survey", None, CrossTab(("sex",)), user=user)


def test_what_all_users_were_told_is_added_up_over_the_accounts_of_projects(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    shared = FREE.with_(accounts=Accounts(user=90, everybody=95, projects={"health": 0.5}))
    variables, table = vault.dataset("survey").variables, CrossTab(("sick",))
    vault.assign("ann", "health")
    for user in ("ann", "bob"):
        vault.ask("survey", None, table, shared, user=user)
    one = vault.ledger.spent("ann", "survey", variables)
    assert (
        one
        == vault.ledger.spent("", "survey", variables)
        == vault.ledger.spent(project_account("health"), "survey", variables)
    )
    assert vault.ledger.spent_by_all("survey", variables) == pytest.approx(2 * one)
    usage = vault.usage("survey")
    frozen = vault.dataset("survey").frozen_loss
    assert usage.right == pytest.approx(100 * right_of(2 * one + frozen))
    assert [u.right for u in usage.users] == [pytest.approx(100 * right_of(one + frozen))] * 2
    assert usage.frozen == pytest.approx(100 * right_of(frozen))


# -- older copies, cut ends, recomputed hashes, clocks


def asks(vault: Vault, *numbers: int) -> None:
    for i in numbers:
        vault.ask("survey", QUESTIONS[i][0], CrossTab(QUESTIONS[i][1]), user="ann")


def cut(path: Path, after: int) -> None:
    """Cut lines off the end, with what was written with them."""
    with sqlite3.connect(path) as connection:
        for table, column in (("entries", "seq"), ("charges", "entry"), ("answered", "entry"), ("universes", "entry")):
            connection.execute(f"DROP TRIGGER {table}_DELETE")
            connection.execute(f"DELETE FROM {table} WHERE {column} > ?", (after,))


def as_in_an_earlier_version(path: Path) -> None:
    """Give every line the hash that anybody can compute."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER entries_UPDATE")
        previous = "0" * 64
        for row in connection.execute("SELECT seq, moment, user, family, content FROM entries ORDER BY seq").fetchall():
            hashed = hashlib.sha256("\x1f".join([previous, *map(str, row)]).encode()).hexdigest()
            connection.execute("UPDATE entries SET previous = ?, hash = ? WHERE seq = ?", (previous, hashed, row[0]))
            previous = hashed


@pytest.mark.parametrize("reopened", [True, False])
def test_an_older_copy_of_the_ledger_is_refused_when_somebody_asks_and_when_it_is_read(
    survey: tuple[Vault, pd.DataFrame], reopened: bool
) -> None:
    vault, _ = survey
    ledger = vault.folder / "ledger.sqlite"
    asks(vault, 0)
    older = ledger.read_bytes()
    asks(vault, 1)
    ledger.write_bytes(older)
    vault = Vault.open(vault.folder) if reopened else vault
    for act in (lambda: asks(vault, 2), lambda: list(vault.ledger.entries()), lambda: vault.check("survey")):
        with pytest.raises(DataError, match="no longer holds line 2"):
            act()
    assert vault.ledger.head()[0] == 1


def test_an_older_copy_of_ledger_and_head_is_refused_by_who_saw_the_newer_one_and_by_a_hash_kept_elsewhere(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    files = (vault.folder / "ledger.sqlite", vault.folder / "ledger.head")
    asks(vault, 0)
    older, first = [file.read_bytes() for file in files], vault.ledger.head()
    asks(vault, 1)
    second = vault.ledger.head()
    vault.ledger.expect(*first)
    vault.ledger.expect(*second)
    for file, content in zip(files, older, strict=True):
        file.write_bytes(content)
    with pytest.raises(DataError, match="no longer holds line 2"):
        asks(vault, 2)
    other = Vault.open(vault.folder)
    other.ledger.expect(*first)
    with pytest.raises(DataError, match="no longer holds line 2"):
        other.ledger.expect(*second)


def test_lines_that_are_cut_off_the_end_are_missed_and_no_head_can_be_written_without_the_secret(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    asks(vault, 0, 1, 2)
    cut(vault.folder / "ledger.sqlite", 1)
    with pytest.raises(DataError, match="no longer holds line 3"):
        asks(Vault.open(vault.folder), 3)
    seq, hashed = vault.ledger.head()
    head = vault.folder / "ledger.head"
    head.write_text(f"{seq}:{hashed} {head.read_text().split()[1]}\n")
    with pytest.raises(DataError, match="damaged or was changed"):
        asks(Vault.open(vault.folder), 3)
    head.unlink()
    with pytest.raises(DataError, match="has no head"):
        asks(Vault.open(vault.folder), 3)


def test_hashes_that_anybody_can_compute_are_refused_until_the_custodian_seals_the_ledger(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    asks(vault, 0, 1)
    as_in_an_earlier_version(vault.folder / "ledger.sqlite")
    kept = vault.ledger.head()
    (vault.folder / "ledger.head").unlink()
    opened = Vault.open(vault.folder)
    for act in (lambda: asks(opened, 2), lambda: list(opened.ledger.entries())):
        with pytest.raises(DataError, match="--seal"):
            act()
    opened.ledger.expect(*kept)
    opened.ledger.seal()
    asks(opened, 2)
    assert [e.content["outcome"] for e in opened.ledger.entries()] == ["answered", "answered", "sealed", "answered"]
    assert opened.ledger.spent("ann", "survey", opened.dataset("survey").variables) > 0
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection, pytest.raises(sqlite3.Error, match="append"):
        connection.execute("UPDATE entries SET user = 'bob'")


def test_a_ledger_of_an_earlier_version_that_was_changed_cannot_be_sealed(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    asks(vault, 0, 1)
    as_in_an_earlier_version(vault.folder / "ledger.sqlite")
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection:
        connection.execute("UPDATE entries SET user = 'bob' WHERE seq = 2")
    with pytest.raises(DataError, match="line 2 does not follow"):
        vault.ledger.seal()


def test_a_last_line_that_was_changed_with_its_hash_is_refused_when_somebody_asks(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    asks(vault, 0, 1)
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER entries_UPDATE")
        connection.execute("UPDATE entries SET user = 'bob' WHERE seq = 1")
    with pytest.raises(DataError, match="line 1 does not follow"):
        asks(Vault.open(vault.folder), 2)


def test_who_dies_between_line_and_head_leaves_a_ledger_that_goes_on(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    head = vault.folder / "ledger.head"
    asks(vault, 0)
    before = head.read_bytes()
    asks(vault, 1)
    head.write_bytes(before)
    (vault.folder / ".ledger.head.new").write_text("half")
    asks(Vault.open(vault.folder), 2)
    assert head.read_text().startswith("3:")
    assert len(list(vault.ledger.entries())) == 3
    assert head.stat().st_mode & 0o777 == 0o600


def test_a_question_that_is_refused_by_the_accounts_or_the_rate_has_no_citation(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    tight = FREE.with_(accounts=Accounts(user=50.01, everybody=100))
    assert isinstance(vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), tight, user="ann"), Refusal)
    ledger = vault.ledger
    ledger.settle("bob", "survey", {"outcome": "answered", "citation": "c"}, most_per_minute=0)
    assert [sorted({"citation", "rule", "outcome"} & set(e.content)) for e in ledger.entries()] == [
        ["outcome", "rule"]
    ] * 2


@pytest.mark.parametrize("back", [datetime.timedelta(minutes=5), datetime.timedelta(days=400)])
def test_a_clock_that_is_set_back_locks_nobody_out_and_robots_are_slowed_down_still(
    tmp_path: Path, back: datetime.timedelta
) -> None:
    clock = [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]
    ledger = Ledger(tmp_path / "l.sqlite", b"key", now=lambda: clock[0])

    def asked() -> bool:
        clock[0] += datetime.timedelta(seconds=1)
        return ledger.settle("ann", "survey", {"outcome": "answered"}, most_per_minute=3) is None

    assert [asked() for _ in range(4)] == [True, True, True, False]
    clock[0] -= back
    assert [asked() for _ in range(4)] == [True, True, True, False]
    clock[0] -= datetime.timedelta(seconds=3)  # a small correction opens no door
    assert not asked()


def test_a_formula_of_millions_of_products_is_refused_at_once_and_logged(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    asked = analysis_named(
        "ols", formula="sick ~ (sex + state + C(sex) + C(state) + log(sex) + log(state) + sqrt(sex) + sqrt(state))**8"
    )
    start = time.process_time()
    refused = vault.ask("survey", None, asked, user="ann")
    assert time.process_time() - start < 1
    assert isinstance(refused, Refusal)
    assert refused.rule == "formula_size"
    entry = list(vault.ledger.entries())[-1]
    assert (entry.content["outcome"], entry.content["rule"]) == ("refused", "formula_size")
    assert entry.content["formula"] == asked.to_dict()["formula"]
