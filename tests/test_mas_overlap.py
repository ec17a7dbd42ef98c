"""Universes that differ by few records raise an alert: against counting records one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

FREE = Policy.open().with_(title="free")
ALL_BUT_FEW = {"sex": "F", "race": ["W", "B"]}


@pytest.fixture
def survey(tmp_path: Path) -> tuple[Vault, pd.DataFrame]:
    rng = np.random.default_rng(8)
    n = 2_000
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice(["S0", "S1", "S2"], n, p=[0.6, 0.395, 0.005]),
        "race": rng.choice(list("WBO"), n, p=[0.7, 0.293, 0.007]), "sick": rng.choice(["no", "yes"], n),
    })  # fmt: skip
    vault = Vault.create(tmp_path / "v", FREE)
    roles = {"sick": "confidential"}
    schema = Schema(tuple(Attribute(c, role=roles.get(c, "key"), scale="unordered") for c in frame))
    vault.freeze("survey", Microdata(frame, schema))
    return vault, frame


@pytest.mark.parametrize("cells", [100_000, 0])
def test_alerts_are_for_pairs_that_differ_by_one_to_nineteen_records(
    survey: tuple[Vault, pd.DataFrame], monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    vault, frame = survey
    monkeypatch.setattr("sfumato.mas.ledger._CELLS", cells)  # from the cube, and where the records live
    specs = [
        {"sex": "F"}, {"sex": "F", "race": ["W", "B"]}, {"sex": "F", "state": ["S0", "S1"]}, {"race": ["W", "B"]},
        {"sex": "M"}, None, {"state": ["S0", "S1"]}, [{"sex": "F"}, {"race": "O"}], {"sex": ["F"]},
    ]  # fmt: skip
    members: dict[int, np.ndarray] = {}
    expected = {}
    for line, spec in enumerate(specs, 1):
        inside = np.zeros(len(frame), bool)
        for piece in spec if isinstance(spec, list) else [spec or {}]:
            inside |= np.logical_and.reduce([
                np.ones(len(frame), bool), *(frame[k].isin(v if isinstance(v, list) else [v]) for k, v in piece.items())
            ])  # fmt: skip
        assert isinstance(Vault.open(vault.folder).ask("survey", spec, CrossTab(("sex",)), user=f"u{line}"), Answer)
        near = [i for i, m in members.items() if 0 < (m != inside).sum() < 20]
        expected |= {line: near} if near else {}
        if not any((m == inside).all() for m in members.values()):
            members[line] = inside
    found = {alert.entry.seq: [e.seq for e in alert.near] for alert in vault.alerts("survey")}
    assert found == expected
    assert sum(map(len, found.values())) >= 3


def test_an_alert_names_the_question_of_the_same_user_and_is_raised_once(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    for user, universe in (
        ("ann", {"sex": "F"}),
        ("bob", {"sex": "F"}),
        ("bob", ALL_BUT_FEW),
        ("bob", "sex == 'F' and not race == 'O'"),
        ("cat", ALL_BUT_FEW),
    ):
        vault.ask("survey", universe, CrossTab(("state",)), user=user)
    found = [(a.entry.seq, [e.seq for e in a.near]) for a in vault.alerts()]
    assert found == [(3, [2]), (5, [1])]
    assert "line 2, bob" in str(vault.alerts()[0])
    assert vault.alerts()[1].to_json() == {"line": 5, "user": "cat", "near": [[1, "ann"]]}


def test_users_see_nothing_of_alerts_and_what_is_refused_or_only_checked_raises_none(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    tight = Policy.named("hardened").with_(rules=(), accounts=Accounts(user=50.001, everybody=100))
    alone = vault.ask("survey", ALL_BUT_FEW, CrossTab(("sex",)), user="ann")
    vault.check("survey", {"sex": "F"}, user="ann")
    assert isinstance(vault.ask("survey", {"sex": "F"}, CrossTab(("sick",)), tight, user="ann"), Refusal)
    assert vault.alerts() == []
    assert isinstance(vault.ask("survey", {"sex": "F"}, CrossTab(("sex",)), user="ann"), Answer)
    again = vault.ask("survey", ALL_BUT_FEW, CrossTab(("sex",)), user="dan")
    assert isinstance(alone, Answer)
    assert isinstance(again, Answer)
    assert again.to_bytes() == alone.to_bytes()
    assert [a.entry.user for a in vault.alerts()] == ["ann", "dan"]


def test_alerts_compare_known_variables_alone(survey: tuple[Vault, pd.DataFrame]) -> None:
    """Otherwise a line of the log would depend on confidential values."""
    vault, _ = survey
    for universe in (
        {"sex": "F", "sick": "yes"},
        {**ALL_BUT_FEW, "sick": "yes"},
        {"sex": "M", "sick": "yes"},
        {"sex": "M"},
    ):
        assert isinstance(vault.ask("survey", universe, CrossTab(("state",)), user="ann"), Answer)
    assert [(a.entry.seq, [e.seq for e in a.near]) for a in vault.alerts()] == [(2, [1])]
