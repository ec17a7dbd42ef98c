"""The accounts against a slow twin that keeps one for every record, and the log against somebody who changes it."""

from __future__ import annotations

import datetime
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.ledger import Ledger
from sfumato.mas.perturbation import Counts
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

FREE = Policy(title="free", accounts=Accounts(user=1e9, everybody=1e9, unit=200))
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


def paid(frame: pd.DataFrame, universe: object, by: tuple[str, ...], before: set[frozenset[int]]) -> np.ndarray:
    """What each record pays: for each table and margin, once for its cell of the known sides, 1/(1 + n/(200 parts))."""
    spent = np.zeros(len(frame))
    pieces = [{}] if universe is None else universe if isinstance(universe, list) else [universe]
    inside, known = np.zeros(len(frame), bool), np.zeros(len(frame), bool)
    for piece in pieces:
        one, two = np.ones(len(frame), bool), np.ones(len(frame), bool)
        for name, levels in piece.items():
            held = frame[name].isin(levels if isinstance(levels, list) else [levels]).to_numpy()
            one &= held
            two &= held if name != "sick" else True
        inside |= one
        known |= two
    sides = [[name for name, bit in zip(by, bits, strict=True) if bit] for bits in np.ndindex(*(2 for _ in by))]
    for side in sides:
        shown = [name for name in side if name != "sick"]
        parts = 2 if "sick" in side else 1
        cells = frame[shown].agg("/".join, axis=1) if shown else pd.Series("", frame.index)
        for cell in cells[known].unique():
            members = known & (cells == cell).to_numpy()
            asked = "sick" in str(universe)
            key = frozenset([*np.flatnonzero(members), -parts, -10 * asked])
            if key not in before:
                before.add(key)
                spent[members] += 1 / (1 + (inside & members).sum() / parts / 200)
    return spent


def test_accounts_over_cells_are_those_of_every_record(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = survey
    spent, before = np.zeros(len(frame)), set[frozenset[int]]()
    for universe, by in QUESTIONS:
        assert isinstance(vault.ask("survey", universe, CrossTab(by), user="ann"), Answer)
        spent += paid(frame, universe, by, before)
        found = vault.ledger.spent("ann", "survey", vault.dataset("survey").variables)
        assert found == pytest.approx(spent.max(), rel=1e-6)


def test_what_was_asked_before_is_free_and_others_pay_only_for_themselves(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    variables = vault.dataset("survey").variables
    for _ in range(3):
        vault.ask("survey", {"sex": "F"}, CrossTab(("state",)), user="ann")
    once = vault.ledger.spent("ann", "survey", variables)
    vault.ask("survey", {"sex": ["F"]}, CrossTab(("state",)), user="bob")
    assert vault.ledger.spent("ann", "survey", variables) == once
    assert vault.ledger.spent("bob", "survey", variables) == once
    assert vault.ledger.spent("", "survey", variables) == once  # the same sets tell all users together nothing new


def test_a_full_account_refuses_and_charges_nothing(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    tight = FREE.with_(accounts=Accounts(user=0.5, everybody=100, unit=200))
    first = vault.ask("survey", {"sex": "F"}, CrossTab(("sex",)), tight, user="ann")
    spent = vault.ledger.spent("ann", "survey", vault.dataset("survey").variables)
    second = vault.ask("survey", {"sex": "F"}, CrossTab(("state",)), tight, user="ann")
    assert isinstance(first, Answer)
    assert isinstance(second, Refusal)
    assert second.rule == "accounts"
    assert vault.ledger.spent("ann", "survey", vault.dataset("survey").variables) == spent
    assert [e.content["outcome"] for e in vault.ledger.entries()] == ["answered", "refused"]


def test_another_process_sees_what_was_spent(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    vault.ask("survey", {"sex": "F"}, CrossTab(("state",)), user="ann")
    other = Vault.open(vault.folder)
    variables = other.dataset("survey").variables
    assert other.ledger.spent("ann", "survey", variables) == vault.ledger.spent("ann", "survey", variables) > 0


def test_many_threads_cannot_overdraw_an_account_together(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    tight = FREE.with_(accounts=Accounts(user=2.0, everybody=100, unit=200))
    questions = [({"sex": s, "state": t}, ("sick",)) for s in "FM" for t in ("S0", "S1", "S2")] + QUESTIONS
    threads = [
        threading.Thread(target=vault.ask, args=("survey", u, CrossTab(by), tight), kwargs={"user": "ann"})
        for u, by in questions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert vault.ledger.spent("ann", "survey", vault.dataset("survey").variables) <= 2.0
    assert len(list(vault.ledger.entries())) == len(questions)


def test_a_robot_is_slowed_down(tmp_path: Path) -> None:
    moments = iter(
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=10 * i) for i in range(99)
    )
    ledger = Ledger(tmp_path / "l.sqlite", now=lambda: next(moments))
    found = [ledger.settle("ann", "survey", {"outcome": "answered"}, most_per_minute=2) for _ in range(3)]
    assert found[:2] == [None, None]
    assert found[2] is not None
    assert found[2].rule == "query_rate"


def test_the_log_cannot_be_changed_and_shows_it_if_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
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
    for universe, by in QUESTIONS[:2]:
        vault.ask("survey", universe, CrossTab(by), user="ann")
    assert len(list(vault.ledger.entries())) == 2
    with sqlite3.connect(vault.folder / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER charges_DELETE")
        connection.execute("DELETE FROM charges WHERE entry = 2 AND user = 'ann'")
    with pytest.raises(DataError, match="those of line 2 were changed"):
        list(vault.ledger.entries())


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
    monkeypatch.setattr(CrossTab, "run", None)  # calling it would raise
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

    monkeypatch.setattr(CrossTab, "run", mistaken)
    with pytest.raises(DataError, match="cannot be done"):
        vault.ask("survey", None, CrossTab(("sex",)), user="ann")
    assert [e.content["outcome"] for e in vault.ledger.entries()] == ["error"]


@pytest.mark.parametrize("user", ["", "  ", "\x1eloss", "a\nb", "x" * 201, None, 3])
def test_a_user_has_a_name_and_it_is_not_that_of_an_account_of_our_own(
    survey: tuple[Vault, pd.DataFrame], user: object
) -> None:
    vault, _ = survey
    with pytest.raises(ParameterError, match="the user is a name"):
        vault.ask("survey", None, CrossTab(("sex",)), user=user)


def test_the_zero_concentrated_loss_of_counts_adds_up_by_set_and_not_by_asking(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    noisy = FREE.with_(counts=Counts(sd=5.0))
    variables = vault.dataset("survey").variables
    for user in ("ann", "bob"):  # the same answer to another user tells nothing new
        vault.ask("survey", None, CrossTab(("sex", "sick")), noisy, user=user)
    # each record is in four sets: everybody, its sex, its illness, both
    assert vault.ledger.loss("survey", variables) == pytest.approx(4 / (2 * 5.0**2))
    vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), noisy, user="bob")  # both sets were answered already
    assert vault.ledger.loss("survey", variables) == pytest.approx(4 / (2 * 5.0**2))
