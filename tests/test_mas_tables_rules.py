"""Dominance and the p% rule in tables of amounts: by noisy sums and public bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mas_cases import UNLIMITED
from mas_people import people, vault_of

from sfumato.errors import ParameterError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.policy import Policy
from sfumato.mas.rules import AmountPPercent, Dominance


@pytest.mark.parametrize("seed", range(5))
def test_whatever_rests_on_contributions_within_the_bounds_the_rules_call_unsafe(seed: int) -> None:
    """No contributions of at most `most` that add up to a sum which passes are dominated, or closer than p percent."""
    rng = np.random.default_rng(seed)
    most, dominance, close = 100.0, Dominance(n=3, k=80.0), AmountPPercent(p=15.0)
    seen = {True: 0, False: 0}
    for _ in range(400):
        sizes = np.sort(rng.uniform(0, most, rng.integers(1, 40)) * rng.choice([0.02, 1.0], 1))[::-1]
        total = sizes.sum()
        dominated = sizes[:3].sum() > 0.8 * total
        estimated = total - sizes[:2].sum() < 0.15 * sizes[0]
        unsafe = [bool(rule.unsafe(most, np.array([total]))[0]) for rule in (dominance, close)]
        assert unsafe[0] >= dominated
        assert unsafe[1] >= (estimated and sizes[0] > most / 2)
        seen[unsafe[0]] += 1
    assert min(seen.values()) > 20


def test_a_sum_is_shown_where_the_bounds_are_small_beside_it(tmp_path: Path) -> None:
    frame = people(3_000, seed=3)
    frame.loc[frame["state"] == "S00", "income"] = np.where(
        np.arange((frame["state"] == "S00").sum()) < 40, 5_000, np.nan
    )
    vault = vault_of(tmp_path / "v", frame)
    policy = (
        Policy.named("hardened")
        .with_(accounts=UNLIMITED, rules=(Dominance(), AmountPPercent()))
        .set({"amounts.sd": 0.1})
    )
    shown = vault.ask("survey", None, CrossTab(("state",), of="income"), policy).frame().set_index("state")
    assert shown["sum"].notna().to_dict() == {"S00": False, "S01": True, "S02": True, "S03": True, "Total": True}
    assert (shown["sum"].isna() == shown["mean"].isna()).all()
    assert shown["count"].notna().all()


def test_rules_about_noisy_sums_need_a_policy_with_noise() -> None:
    with pytest.raises(ParameterError, match="looks at noisy sums"):
        Policy.open().with_(rules=(Dominance(),))


def test_a_rule_says_what_it_demands_and_no_number_from_the_data() -> None:
    assert Dominance().words() == "A sum or mean of which 2 records could make up more than 90 % is not shown."
    assert "10 %" in AmountPPercent().words()
    policy = Policy.named("hardened")
    assert policy.rule("dominance") == Dominance(n=2, k=90.0)
    assert policy.rule("p_percent") == AmountPPercent(p=10.0)
