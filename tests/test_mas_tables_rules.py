"""Dominance and the p% rule in tables of amounts, against a look at every record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_people import EXACT, people, schema, vault_of

from sfumato import Microdata
from sfumato.mas.amount_rules import AmountPPercent, Dominance
from sfumato.mas.analyses import CrossTab
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = people(300, seed=2)
    rng = np.random.default_rng(4)
    frame["income"] = np.where(rng.random(300) < 0.8, 0.0, np.round(np.exp(rng.normal(8, 2.5, 300))))
    frame["change"] = np.round(rng.standard_t(0.6, 300) * 10, 1)  # of both signs, with outliers
    frame["firm"] = rng.integers(0, 60, 300)
    return frame


def hidden_by_hand(sizes: pd.Series, n: int, k: float, p: float) -> bool:
    top = np.sort(sizes.dropna().to_numpy())[::-1]
    if not len(top):
        return True
    dominated = top[:n].sum() > k / 100 * top.sum()
    close = top.sum() - top[:2].sum() < p / 100 * top[0]
    return bool(dominated or close)


@pytest.mark.parametrize("variable", ["income", "change"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_cells_are_hidden_where_few_contribute_most(
    tmp_path: Path, frame: pd.DataFrame, variable: str, weighted: bool, linked: bool
) -> None:
    roles = (*schema(), Attribute("firm", role="contributor" if linked else "identifier", scale="unordered"))
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", Microdata(frame, Schema(roles)))
    policy = Policy.open().with_(rules=(Dominance(n=3, k=80.0), AmountPPercent(p=15.0)))
    by = ("state", "sick", "sex")
    answer = vault.ask("survey", {"sex": ["F", "M"]}, CrossTab(by, of=variable, weighted=weighted), policy)
    seen = {True: 0, False: 0}
    for _, row in answer.frame().iterrows():
        part = frame
        for side in by:
            part = part if row[side] == "Total" else part[part[side] == row[side]]
        sizes = part[variable].abs() * (part["weight"] if weighted else 1)
        sizes = sizes.groupby(part["firm"]).sum() if linked else sizes
        hidden = hidden_by_hand(sizes, 3, 80.0, 15.0)
        seen[hidden] += 1
        assert np.isnan(row["sum"]) == np.isnan(row["mean"]) == hidden
        assert not np.isnan(row["count"])
    assert min(seen.values()) >= 5


def test_one_who_holds_nine_tenths_of_a_sum_is_not_shown_and_others_are(tmp_path: Path) -> None:
    frame = people(1_000, seed=3)
    frame["income"] = 100.0
    first = frame.index[frame["state"] == "S00"][0]
    frame.loc[first, "income"] = 1e6
    rules = EXACT.with_(rules=(Dominance(),))
    found = vault_of(tmp_path / "v", frame).ask("survey", None, CrossTab(("state",), of="income"), rules).frame()
    shown = found.set_index("state")["sum"].notna()
    assert shown.to_dict() == {"S00": False, "S01": True, "S02": True, "S03": True, "Total": False}


def test_a_rule_says_what_it_demands_and_no_number_from_the_data() -> None:
    assert Dominance().words() == "A sum or mean of which 2 records make up more than 90 % is not shown."
    assert "10 %" in AmountPPercent().words()
    policy = Policy.named("hardened")
    assert policy.rule("dominance") == Dominance(n=2, k=90.0)
    assert policy.rule("p_percent") == AmountPPercent(p=10.0)
