"""Policies: the three that come with sfumato, TOML, words for users, policies of single data sets, and the dry run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of

from sfumato.contract import Draws
from sfumato.contract.parameters import registered
from sfumato.errors import DataError, ParameterError
from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.drop_q import DropQ
from sfumato.mas.perturbation import Amounts, Counts, Models
from sfumato.mas.policy import Policy
from sfumato.mas.rules import UniverseSize
from sfumato.mas.vault import Vault, numbered
from sfumato.room.policy import OutputPolicy


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], 2_000), "state": rng.choice(["S1", "S2", "S3"], 2_000, p=[0.6, 0.38, 0.02]),
        "sick": rng.choice(["no", "yes"], 2_000, p=[0.8, 0.2]),
    })  # fmt: skip
    return vault_of(tmp_path / "v", frame, {"sick": "confidential"})


@pytest.mark.parametrize("name", Policy.built_in)
def test_a_policy_written_to_a_file_is_read_back(name: str, tmp_path: Path) -> None:
    policy = Policy.named(name)
    policy.write(tmp_path / "p.toml")
    assert Policy.read(tmp_path / "p.toml") == policy == Policy.named(str(tmp_path / "p.toml"))
    bare = policy.with_(accounts=UNLIMITED, per_minute=None, rules=())
    assert Policy.parse(bare.to_toml()) == bare


def test_census2009_has_the_printed_numbers() -> None:
    policy = Policy.named("census2009")
    form, size, marginal = (policy.rule(n) for n in ("universe_form", "universe_size", "no_marginal"))
    assert (form.variables, form.levels, form.pieces, size.gamma, size.shared) == (4, 8, None, 75, "records")
    assert (marginal.most, marginal.cells, policy.drop.q) == (2, False, 2)
    assert (policy.counts, policy.accounts) == (Counts(), UNLIMITED)


def test_hardened_has_the_settled_numbers() -> None:
    policy = Policy.named("hardened")
    assert (policy.rule("universe_size").gamma, policy.rule("universe_size").shared) == (75, "levels")
    assert [policy.rule(n).least for n in ("level_size", "left_out", "piece_difference")] == [20, 20, 20]
    assert policy.rule("no_marginal").cells
    assert (policy.counts.sd, policy.counts.base, policy.counts.least, policy.drop) == (4.8, 5, 20, DropQ(q=0))
    assert 50 < policy.accounts.user < policy.accounts.everybody < 100
    assert policy.amounts.clip


def test_guaranteed_has_the_same_rules_and_drops_as_hardened_with_more_noise_and_smaller_accounts() -> None:
    hardened, guaranteed = Policy.named("hardened"), Policy.named("guaranteed")
    assert (guaranteed.rules, guaranteed.drop) == (hardened.rules, hardened.drop)
    for part in ("counts", "amounts", "models"):
        assert getattr(guaranteed, part).sd > getattr(hardened, part).sd
    assert (guaranteed.accounts.user, guaranteed.accounts.everybody) == (60, 65)


def test_a_policy_cannot_be_made_by_leaving_things_out() -> None:
    with pytest.raises(TypeError, match="accounts"):
        Policy()
    with pytest.raises(TypeError, match="rules"):
        Policy(title="mine", drop=DropQ(q=0), counts=Counts(), amounts=Amounts(), models=Models(), accounts=UNLIMITED)
    with pytest.raises(ParameterError, match="policy needs drop, counts, amounts, models, accounts, rules"):
        Policy.parse("title = 'mine'")
    whole = Policy.named("hardened").to_dict()
    for part in ("drop", "counts", "amounts", "models", "accounts", "rules"):
        with pytest.raises(ParameterError, match=f"policy needs {part}"):
            Policy.from_dict({name: value for name, value in whole.items() if name != part})


@pytest.mark.parametrize("name", Policy.built_in)
def test_a_policy_explains_every_rule_it_has(name: str) -> None:
    policy = Policy.named(name)
    text = policy.explain()
    assert text.startswith(f"Policy {name} ")
    for rule in policy.rules:
        assert rule.words() in text
        assert rule.words().endswith(".")
    assert all(len(line) < 300 for line in text.splitlines())


def test_an_explanation_tells_what_changes_answers_and_only_that() -> None:
    assert "10 % of the records are dropped" in Policy.named("hardened").set({"drop.share": 0.1}).explain()
    assert "(q = 2)" in Policy.named("census2009").explain()
    plain = Policy.open().with_(title="plain").explain()
    assert plain == (
        "Policy plain 1\n\nWhat is done to answers\n- No record is dropped.\n"
        "- There are NO accounts: anybody may ask anything again and again.\n"
        "- Answers have NO noise: rules and drops alone protect, and attacks are known that break them."
    )
    told = Policy.named("guaranteed").explain()
    assert "in at most 60 of 100 cases with all answers to one user, and in 65 with those to all users" in told
    assert "NO " not in told


@pytest.mark.parametrize(("text", "says"), [
    ("title = 1 = 2", "is not TOML"),
    ("rule = 3", r"\[\[rule\]\] tables"),
    ("[[rule]]\ngamma = 3", "needs a name"),
    ("[[rule]]\nname = 'univers_size'", "Did you mean 'universe_size'"),
    ("[[rule]]\nname = 'universe_size'\ngama = 3", "Did you mean 'gamma'"),
    ("[[rule]]\nname = 'universe_size'\ngamma = 0", "at least 1"),
    ("[[rule]]\nname = 'universe_size'\nshared = 'all'", "one of 'records', 'levels'"),
    ("per_minut = 3", "Did you mean 'per_minute'"),
])  # fmt: skip
def test_a_policy_with_a_mistake_is_refused_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Policy.parse(text)


def test_a_policy_that_is_not_there_is_offered_the_nearest() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'hardened'"):
        Policy.named("harden")


def test_every_rule_is_registered_and_says_what_it_demands() -> None:
    for cls in registered("confidentiality rule").values():
        words = cls().words()
        assert words[0].isupper()
        assert words.endswith(".")


# -- versions, and data sets with a policy of their own


def test_a_changed_policy_gets_a_higher_version_and_an_equal_one_its_old_one() -> None:
    first = Policy.named("hardened")
    changed = first.with_(per_minute=30)
    second = numbered(changed, [first])
    assert second == changed.with_(version=first.version + 1)
    assert numbered(first, [first, second]) == first
    assert numbered(changed.with_(version=7), [first, second]) == second
    assert numbered(changed.with_(per_minute=31, version=7), [first, second]).version == 7
    assert numbered(Policy.named("guaranteed"), [first, second]).version == 1


def test_a_data_set_may_have_a_policy_of_its_own_and_lose_it_again(vault: Vault) -> None:
    common = vault.set_policy("hardened")
    assert vault.policy_of("data") == common
    own = vault.set_policy(common.with_(rules=(UniverseSize(gamma=30),)), "data")
    assert own.label == "hardened 4"
    assert (vault.policy_of("data"), vault.policy) == (own, common)
    again = Vault(vault.folder, Draws("cases"), common)
    assert again.policy_of("data") == own
    answered = vault.ask("data", {"state": "S3"}, CrossTab(("sex",)))
    assert isinstance(answered, Answer)
    assert answered.policy == "hardened 4"
    assert vault.set_policy(None, "data") == common
    assert vault.policy_of("data") == common
    assert isinstance(vault.ask("data", {"state": "S3"}, CrossTab(("sex",))), Refusal)
    third = vault.set_policy(common.with_(per_minute=10))
    assert third.label == "hardened 5"  # 4 stands for another policy in this vault
    assert vault.policy == third
    assert vault.set_policy(own.with_(version=1), "data").label == "hardened 4"


def test_policies_of_data_sets_that_are_not_there_are_refused(vault: Vault) -> None:
    with pytest.raises(DataError, match="Did you mean 'data'"):
        vault.set_policy("guaranteed", "dta")
    with pytest.raises(ParameterError, match="needs a policy"):
        vault.set_policy(None)


# -- the dry run


def test_a_dry_run_tells_what_asking_would(vault: Vault) -> None:
    for universe in (None, {"sex": "F"}, {"state": "S3"}, {"state": ["S1", "S2"]}, [{"sex": "F"}, {"state": "S1"}]):
        would = vault.check("data", universe, user="ann")
        got = vault.ask("data", universe, CrossTab(("sex",)), user="ben")
        assert (would is None) is isinstance(got, Answer)
        if would is not None:
            assert (would.rule, would.reason, would.suggestion) == (got.rule, got.reason, got.suggestion)


def test_a_dry_run_is_logged_and_charged_and_asking_after_it_charges_the_rest(vault: Vault) -> None:
    variables = vault.dataset("data").variables
    assert vault.check("data", {"sex": "F", "state": "S1"}, user="ann") is None
    assert vault.ledger.spent("ann", "data", variables) == 0  # it tells nothing confidential
    assert vault.check("data", {"sex": "F", "sick": "yes"}, user="ann") is None
    after_check = vault.ledger.spent("ann", "data", variables)
    assert after_check > 0
    assert vault.check("data", "sick == 'yes' and sex != 'M'", user="ann") is None
    assert vault.ledger.spent("ann", "data", variables) == after_check  # the same sets: free
    entries = list(vault.ledger.entries())
    assert [e.content["analysis"] for e in entries] == ["dry_run"] * 3
    assert entries[0].content["outcome"] == "passed"
    vault.check("data", {"state": "S3"}, user="ann")
    last = list(vault.ledger.entries())[-1].content
    assert (last["outcome"], last["rule"]) == ("refused", "universe_size")


def test_what_a_check_looks_at_costs_each_record_one_count(vault: Vault) -> None:
    """A record that is sick or not moves the count of the sick; that of the others follows from how many there are."""
    policy = Policy.named("hardened").with_(rules=(UniverseSize(gamma=75),))
    data = vault.dataset("data")
    n, p = data.cubes.of([data.variables["sex"]]).counts[0], np.array(data.variables["sick"].shares)
    vault.check("data", {"sex": "F", "sick": "yes"}, policy, user="cy")
    wanted = 1 / (policy.counts.sd**2 + policy.counts.growth * n * float((p * (1 - p)).mean()))
    assert vault.ledger.spent("cy", "data", data.variables) == pytest.approx(wanted)


def test_a_full_account_refuses_the_dry_run_too(vault: Vault) -> None:
    tight = Policy.named("hardened").with_(accounts=Accounts(user=50.01, everybody=100.0))
    refused = vault.check("data", {"sex": "F", "sick": "yes"}, tight, user="dee")
    assert refused is not None
    assert refused.rule == "accounts"


@pytest.mark.parametrize("kind", [Policy, OutputPolicy])
def test_a_file_that_is_no_text_is_refused_in_a_sentence(
    tmp_path: Path, kind: type[Policy] | type[OutputPolicy]
) -> None:
    file = tmp_path / "policy.toml"
    file.write_bytes(b"\xff\xfe title")
    with pytest.raises(ParameterError, match=r"no policy at .* that can be read") as refused:
        kind.named(str(file))
    assert refused.value.__cause__ is None
