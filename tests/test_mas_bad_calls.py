"""Calls and files that make no sense: an error that says what would, and nothing of the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

TABLE = CrossTab(("sex",))


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    frame = pd.DataFrame({"sex": ["F", "M"] * 60, "age": np.arange(120) % 60})
    made = Vault.create(tmp_path / "v")
    made.freeze("people", Microdata(frame, Schema((Attribute("sex", role="key", scale="unordered"), Attribute("age")))))
    return made


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda v: v.ask("people", None, "cross_tab"), "an analysis is an object"),
        (lambda v: v.ask("people", None, CrossTab), "an analysis is an object"),
        (lambda v: v.ask("people", None, TABLE, "hardened"), "a policy is a Policy"),
        (lambda v: v.check("people", None, "hardened"), "a policy is a Policy"),
        (lambda v: v.ask(None, None, TABLE), "data set 'None' is not in this vault"),
        (lambda v: v.set_policy(3), "a policy is a Policy, or the name of one"),
        (lambda v: v.dataset("people", "1"), "the version of a data set is a whole number"),
        (lambda v: v.freeze("more", pd.DataFrame({"a": [1]})), "Add a frame or a file first"),
        (lambda v: v.freeze("more", Microdata(pd.DataFrame({"a": [1]})), {"a": [1]}), "are Cutpoints, such as"),
        (lambda v: v.usage("peple"), "Did you mean 'people'"),
        (lambda v: v.alerts("peple"), "Did you mean 'people'"),
        (lambda v: Vault.create(v.folder / "policy.toml"), "Choose another one"),
        (lambda v: Cutpoints(("a", 3)), "must be finite numbers"),
    ],
)
def test_calls_that_make_no_sense_are_told_what_would(vault: Vault, call: Callable[[Vault], object], says: str) -> None:
    with pytest.raises(SfumatoError, match=says) as caught:
        call(vault)
    assert caught.value.__cause__ is None
    assert vault.ledger.head()[0] == 0


@pytest.mark.parametrize("text", [
    "rules = 3", "[counts]\nsd = 5", "counts = 3", "accounts = { user = 'x' }", "drop = 2", "rule = 3", "[[rule]]\nleast = 3",
])  # fmt: skip
def test_a_policy_that_only_looks_like_one_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        Policy.parse(text)


def test_a_ledger_that_is_none_is_refused_and_nothing_can_be_asked(vault: Vault) -> None:
    (vault.folder / "ledger.sqlite").write_bytes(b"no ledger at all " * 50)
    for attempt in (lambda: Vault.open(vault.folder), lambda: vault.ask("people", None, TABLE)):
        with pytest.raises(DataError, match="cannot be read or written") as caught:
            attempt()
        assert caught.value.__suppress_context__


def test_a_column_that_cannot_be_used_is_refused_with_how_to_leave_it_out(vault: Vault) -> None:
    frame = pd.DataFrame({"sex": ["F", "M"] * 60, "born": pd.date_range("2000-01-01", periods=120), "gone": None})
    for name in ("born", "gone"):
        with pytest.raises(DataError, match=f"variable '{name}' holds .*role = 'identifier'"):
            vault.add("more", frame[["sex", name]])
    left_out = Schema((Attribute("sex", scale="unordered"), Attribute("born", role="identifier")))
    assert vault.add("more", frame[["sex", "born"]], left_out).marks["born"] == "left out"
