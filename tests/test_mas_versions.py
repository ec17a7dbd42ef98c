"""Versions of a data set: fresh noise where confidential values changed, the same where they did not; and what freezing decides."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.drop_q import CellTable, DropEnough, DropQ
from sfumato.mas.policy import Policy
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault, cell_counts
from sfumato.schema import Attribute, Schema

N = 3_000
FINE = (
    Policy.named("hardened")
    .with_(rules=(), per_minute=None, accounts=UNLIMITED)
    .set({"counts.base": 1, "counts.least": 0})
)


def people(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame({
        "person": np.arange(n), "sex": rng.choice(["F", "M"], n), "town": rng.choice([f"T{i:02}" for i in range(60)], n),
        "sick": rng.choice(["no", "yes"], n, p=[0.7, 0.3]), "income": np.round(np.exp(rng.normal(10, 0.6, n)), 2),
        "job": rng.choice(["clerk", "nurse", "judge"], n, p=[0.6, 0.397, 0.003]),
    })  # fmt: skip


def schema(**changed: Any) -> Schema:
    roles = {"person": "identifier", "sick": "confidential", "income": "confidential", "job": "confidential"}
    return Schema(tuple(
        Attribute(c, role=roles.get(c, "key"), scale="ordered" if c == "income" else "unordered", **changed.get(c, {}))
        for c in people(5)
    ))  # fmt: skip


def counts(vault: Vault, version: int, by: tuple[str, ...], user: str = "ann", of: str | None = None) -> pd.DataFrame:
    return vault.ask(vault.dataset("people", version), None, CrossTab(by, of=of), FINE, user=user).frame()  # type: ignore[union-attr]


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """Two versions: one person fell ill, and all else is as it was."""
    made, frame = Vault.create(tmp_path / "v", FINE), people()
    made.freeze("people", Microdata(frame, schema()), identity="person")
    changed = frame.copy()
    changed.loc[17, "sick"] = "yes" if frame.loc[17, "sick"] == "no" else "no"
    made.freeze("people", Microdata(changed, schema()), identity="person")
    return made


def test_noise_is_fresh_in_every_set_of_a_variable_of_which_one_value_changed_and_both_answers_are_paid(
    vault: Vault,
) -> None:
    tables = [
        counts(vault, version, ("town", "sick")).query("town != 'Total' and sick != 'Total'") for version in (1, 2)
    ]
    spent = vault.ledger.spent("ann", "people", vault.dataset("people").variables)
    frame = people()
    truth = frame.groupby(["town", "sick"]).size()
    both = pd.concat([table.set_index(["town", "sick"])["count"] - truth for table in tables], axis=1).dropna()
    noise = both.iloc[:, 0], both.iloc[:, 1]
    assert len(both) > 100
    assert (noise[0] != noise[1]).mean() > 0.8
    assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 4 / np.sqrt(len(truth))
    one = Vault.open(vault.folder)
    counts(one, 1, ("town", "sick"), user="bob")
    assert spent == pytest.approx(2 * one.ledger.spent("bob", "people", vault.dataset("people").variables), rel=0.02)


@pytest.mark.parametrize(
    ("by", "of"), [(("town", "job"), None), (("sex", "town"), None), (("sex",), "income"), (("job",), "income")]
)
def test_what_did_not_change_has_the_same_numbers_and_is_free(
    vault: Vault, by: tuple[str, ...], of: str | None
) -> None:
    variables = vault.dataset("people").variables
    one = counts(vault, 1, by, of=of)
    spent = vault.ledger.spent("ann", "people", variables)
    assert one.equals(counts(vault, 2, by, of=of))
    assert vault.ledger.spent("ann", "people", variables) == spent


def test_a_version_may_differ_in_one_confidential_value_and_not_in_one_known_one(vault: Vault) -> None:
    frame = people()
    with pytest.raises(DataError, match="nothing new to freeze"):
        vault.freeze("people", Microdata(frame, schema()), identity="person")
    frame.loc[5, "sex"] = "M" if frame.loc[5, "sex"] == "F" else "F"
    with pytest.raises(DataError, match="at least 20 records"):
        vault.freeze("people", Microdata(frame, schema()), identity="person")
    frame["sex"] = frame["sex"].to_numpy()[::-1]
    assert vault.freeze("people", Microdata(frame, schema()), identity="person").version == 3


# -- bounds, rare levels, files


def test_bounds_come_from_the_custodian_the_schema_or_noisy_counts(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "v", FINE)
    added = vault.add("people", people(), schema(), bounds={"income": (0, 123_456)}, identity="person")
    assert added.without_bounds == ()
    assert vault.registration("people").bounds == {"income": (0.0, 123_456.0)}
    assert vault.freeze("people", confirm=True).variables["income"].bounds == (0, 123_456)
    of_schema = vault.add("two", people(), schema(income={"bounds": (0, 99_000)}), identity="person")
    assert of_schema.without_bounds == ()
    assert vault.freeze("two", confirm=True).variables["income"].bounds == (0, 99_000)
    asked = vault.add("three", people(), schema(), identity="person")
    assert asked.without_bounds == ("income",)
    assert "No public bounds yet: income" in str(asked)
    low, high = vault.freeze("three", confirm=True).variables["income"].bounds or (0, 0)
    assert (people()["income"].between(low, high)).mean() > 0.95
    assert vault.dataset("three").frozen_loss > 0
    with pytest.raises(ParameterError, match="are two numbers, the lower one first"):
        vault.add("four", people(), schema(), bounds={"income": (5, 5)})


def test_rare_levels_become_one_unless_the_custodian_says_keep(tmp_path: Path) -> None:
    frame = people()
    frame.loc[:4, "town"] = "Nowhere"
    frame.loc[5:8, "town"] = "Elsewhere"
    vault = Vault.create(tmp_path / "v", FINE)
    added = vault.add("people", frame, schema(), identity="person")
    assert "Levels that fewer than 20 records have become one level, 'other levels': those of town, job." in str(added)
    data = vault.freeze("people", confirm=True)
    assert data.variables["town"].levels[-1] == "other levels"
    assert not {"Nowhere", "Elsewhere"} & set(data.variables["town"].levels)
    found = vault.ask("people", None, CrossTab(("town",)), Policy.open()).frame().set_index("town")["count"]
    assert found["other levels"] == sum(n for n in frame["town"].value_counts() if n < 20)
    assert "judge" not in data.variables["job"].levels  # 9 records, and noise of 8: below 20 in nearly all files
    kept = Vault.create(tmp_path / "k", FINE)
    assert kept.add("people", frame, schema(), identity="person", keep_rare=True).questions()
    assert {"Nowhere", "Elsewhere"} <= set(kept.freeze("people", confirm=True).variables["town"].levels)


def test_no_file_of_a_freeze_can_be_read_by_others_at_any_time(tmp_path: Path) -> None:
    vault, seen, done = Vault.create(tmp_path / "v", FINE), set[str](), threading.Event()

    def watch() -> None:
        while not done.is_set():
            with contextlib.suppress(OSError):  # folders come and go
                for path in (tmp_path / "v").rglob("*.parquet*"):
                    with contextlib.suppress(OSError):
                        seen.add(f"{path.stat().st_mode & 0o077:o}")
            time.sleep(0.0005)

    thread, mask = threading.Thread(target=watch), os.umask(0o022)
    thread.start()
    try:
        vault.add("people", people(60_000), schema(), identity="person")
        vault.freeze("people", confirm=True)
    finally:
        done.set()
        thread.join()
        os.umask(mask)
    assert seen == {"0"}


# -- drops and ranges


def test_a_universe_of_hardly_more_records_than_are_dropped_is_refused(vault: Vault) -> None:
    for q, answered in ((20, True), (100, False), (5_000, False)):
        policy = Policy.open().with_(drop=DropQ(q=q))
        town = str(people()["town"].value_counts().index[0])
        for universe, size in ((None, N), ({"town": town}, 60)):
            fine = answered and size > 10 * q
            if fine or (size > 10 * q):
                assert vault.ask("people", universe, CrossTab(("sex",)), policy)
            else:
                refused = vault.ask("people", universe, CrossTab(("sex",)), policy)
                assert isinstance(refused, Refusal)
                assert refused.rule == "drop"


def test_as_many_are_dropped_as_the_table_that_is_asked_for_needs(vault: Vault) -> None:
    policy = Policy.open().with_(drop=DropEnough(below=0.2))
    frame = people()
    for by in (("sex",), ("sex", "sick")):
        found = vault.ask("people", None, CrossTab(by), policy).frame()  # type: ignore[union-attr]
        sizes = (
            frame.groupby(list(by))
            .size()
            .reindex(
                pd.MultiIndex.from_product([sorted(frame[c].unique()) for c in by]) if len(by) > 1 else None,
                fill_value=0,
            )
        )
        wanted = policy.drop.for_table(CellTable.of(sizes.to_numpy()))  # type: ignore[union-attr]
        assert N - found["count"].iloc[-1] == wanted.q


def test_a_variable_between_two_numbers_is_understood_with_marks_of_thousands() -> None:
    wanted = Universe.of("income >= 28501 and income <= 39500")
    for text in (
        "28,501 <= income <= 39,500",
        "28501<=income<=39500",
        "income >= 28,501 and income <= 39,500",
        "`income` >= 28,501 and income <= 39,500",
    ):
        assert Universe.of(text) == wanted, text
    assert Universe.of("sex == 'F' and (28,501 <= income <= 39,500 or town == '1 <= x <= 2')") == Universe.of(
        "sex == 'F' and (income >= 28501 and income <= 39500 or town == '1 <= x <= 2')"
    )


def test_it_selects_the_levels_between(tmp_path: Path) -> None:
    made = Vault.create(tmp_path / "v", Policy.open())
    made.freeze(
        "people",
        Microdata(people(), schema()),
        {"income": Cutpoints((12_000.0, 22_000.0, 40_000.0))},
        identity="person",
    )
    inside = people()["income"]
    found = made.ask("people", "12,000 < income <= 40,000", CrossTab(("sex",))).frame()["count"].iloc[-1]  # type: ignore[union-attr]
    assert found == ((inside > 12_000) & (inside <= 40_000)).sum()


def test_others_hide_nobody_in_answers_about_two_versions_of_a_variable(vault: Vault) -> None:
    # counted by hand: a table of sick alone tells N records of two levels, each with noise of variance s²: 1/s² a version
    policy = Policy.named("hardened").with_(rules=(), per_minute=None)
    variables = vault.dataset("people").variables
    for version, user in ((1, "ann"), (2, "ann"), (1, "bob")):
        assert isinstance(
            vault.ask(vault.dataset("people", version), None, CrossTab(("sick",)), policy, user=user), Answer
        )
    told = {}
    for user in ("ann", "bob"):
        balance = vault.ledger.balance(user, "people", variables, cell_counts(vault.dataset("people"), policy))
        told[user] = float(balance.formal.max()), float(balance.spent.max())
    loss = 1 / float(policy.counts.variance(1.0, N * 0.21))
    assert told["bob"][0] == pytest.approx(loss, rel=0.15)  # shares of levels are noisy
    assert told["bob"][1] < 0.2 * told["bob"][0]
    assert told["ann"] == pytest.approx((2 * told["bob"][0], 2 * told["bob"][0]), rel=0.01)
