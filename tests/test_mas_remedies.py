"""The nearest question that would pass, and prices: found from known variables and the accounts, never from confidential values."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED
from typer.testing import CliRunner

from sfumato import Microdata
from sfumato.cli.command_line import app
from sfumato.contract import Draws
from sfumato.contract.parameters import find
from sfumato.mas import Cutpoints
from sfumato.mas.accounts import Accounts, loss_of, right_of
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.cube import Cubes
from sfumato.mas.models.linear import OLS
from sfumato.mas.models.outcome_models import Logistic
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.question import Analysis
from sfumato.mas.remedies import Price, losses_of, nearest
from sfumato.mas.vault import Vault, question_of
from sfumato.schema import Attribute, Schema

N = 3_000
QUICK = Policy.named("hardened").with_(per_minute=None)
GUARANTEED = Policy.named("guaranteed").with_(per_minute=None)
FREE = QUICK.with_(accounts=UNLIMITED, title="uncharged")


def people() -> pd.DataFrame:
    rng = np.random.default_rng(21)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], N), "state": rng.choice(["S1", "S2", "S3", "S4"], N, p=[0.5, 0.3, 0.19, 0.01]),
        "age": rng.integers(18, 90, N).astype(float), "sick": rng.choice(["no", "yes"], N, p=[0.7, 0.3]),
        "rare": rng.choice(["no", "yes"], N, p=[0.988, 0.012]), "income": np.round(np.exp(rng.normal(10, 0.7, N)), 2),
    })  # fmt: skip


def frozen(folder: Path, frame: pd.DataFrame) -> Vault:
    texts, hidden = ("sex", "state", "sick", "rare"), ("sick", "rare", "income")
    bounds: dict[str, Any] = {"income": {"bounds": (0.0, 150_000.0)}}
    schema = Schema(tuple(
        Attribute(
            c, role="confidential" if c in hidden else "key", scale="unordered" if c in texts else "ordered", integer=c == "age",
            **bounds.get(c, {}),
        )
        for c in frame
    ))  # fmt: skip
    vault = Vault.create(folder, QUICK, secret=Draws(3))
    recodes = [LevelRecode("states", "state", {"large": ["S1"], "small": ["S2", "S3", "S4"]})]
    vault.freeze("survey", Microdata(frame, schema), {"age": Cutpoints((29, 44, 59, 74), whole=True)}, recodes=recodes)
    return vault


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    """The same persons twice; in the second file each has somebody else's confidential values."""
    frame, rng = people(), np.random.default_rng(22)
    other = frame.copy()
    for name in ("sick", "rare", "income"):
        other[name] = frame[name].to_numpy()[rng.permutation(N)]
    one, two = (frozen(tmp_path_factory.mktemp(f"v{i}") / "v", f) for i, f in enumerate((frame, other)))
    return one, two


@pytest.fixture
def own(tmp_path: Path) -> Vault:
    """A vault of which nothing was asked."""
    return frozen(tmp_path / "own", people())


def small(vault: Vault, room: float, others: Any = "known") -> Accounts:
    """Accounts that leave a user so much after freezing."""
    return Accounts(user=100 * right_of(vault.dataset("survey").frozen_loss + room), everybody=75.0, others=others)


def again(vault: Vault, refusal: Refusal, policy: Policy | None = None, user: str = "bob") -> Answer | Refusal:
    """Ask the nearest question of a refusal."""
    assert refusal.nearest is not None
    fields = dict(refusal.nearest)
    universe, name = fields.pop("universe"), fields.pop("analysis")
    analysis = find("analysis", name).from_dict(fields)
    assert isinstance(analysis, Analysis)
    return vault.ask("survey", universe, analysis, policy, user=user)


AGES = ("29 or less", "30 to 44", "45 to 59", "60 to 74", "75 or more")
REFUSED: list[tuple[str, Any, Analysis]] = [
    ("no_marginal", {"sex": "F", "state": "S4", "age": "29 or less"}, CrossTab(("sick",))),
    ("universe_size", {"state": "S4"}, CrossTab(("sick",))),
    ("universe_form", [{"age": age, "state": state} for age in AGES for state in ("S1", "S2", "S3")], CrossTab(("sick",))),
    ("left_out", {"state": ["S1", "S2", "S3"], "sex": "F"}, CrossTab(("sick",))),
    ("universe_size", {"sick": "yes", "rare": "yes"}, CrossTab(("sex",))),
    ("model_size", {"state": "S3", "sex": "F"}, OLS("income ~ age")),
    ("dummy_size", {"sex": "F", "age": ["29 or less", "30 to 44", "45 to 59"]}, Logistic("rare ~ age")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "universe", "analysis"), REFUSED)
def test_the_nearest_question_is_answered(
    vaults: tuple[Vault, Vault], rule: str, universe: Any, analysis: Analysis
) -> None:
    refused = vaults[0].ask("survey", universe, analysis, FREE, user="ann")
    assert isinstance(refused, Refusal), refused
    assert refused.rule == rule
    assert "Nearest question that would pass" in str(refused)
    assert refused.to_json()["nearest"] == refused.nearest
    assert isinstance(again(vaults[0], refused, FREE), Answer)


def test_where_an_account_is_spent_the_nearest_question_is_one_that_it_has_room_for(own: Vault) -> None:
    tight = GUARANTEED.with_(accounts=small(own, 0.003), title="tight")
    refused = own.ask("survey", None, CrossTab(("state", "sick"), of="income"), tight, user="spender")
    assert isinstance(refused, Refusal)
    assert refused.rule == "accounts"
    assert isinstance(again(own, refused, tight, user="spender"), Answer)


def test_a_check_of_a_universe_names_the_nearest_universe_alone(vaults: tuple[Vault, Vault]) -> None:
    refused = vaults[0].check("survey", {"state": "S4"}, FREE)
    assert refused is not None
    assert refused.nearest is not None
    assert list(refused.nearest) == ["universe"]
    assert vaults[0].check("survey", refused.nearest["universe"], FREE) is None


def other_questions() -> list[tuple[Any, Analysis]]:
    sides = [("sick",), ("sex", "sick"), ("state", "sick"), ("age", "sick"), ("rare",), ("states", "rare")]
    tables = [CrossTab(one, of=of) for one in sides for of in (None, "income")]
    return (
        [(None, one) for one in tables]
        + [({"sex": "F"}, one) for one in tables[:4]]
        + [({"sick": "yes"}, CrossTab(("sex",)))]
    )


def test_nothing_changes_when_confidential_values_change(vaults: tuple[Vault, Vault]) -> None:
    fixed, other = (vault.dataset("survey") for vault in vaults)
    # public facts were read off noisy counts at freezing
    there = replace(other, variables=fixed.variables, frozen_loss=fixed.frozen_loss, contents=fixed.contents)
    register = fixed.register(FREE)
    compared = 0
    for _, universe, analysis in REFUSED:
        question = question_of(fixed, FREE, universe, analysis)
        if (
            refusal := next((r for rule in FREE.rules if (r := rule.before(question, register)) is not None), None)
        ) is None:
            continue
        told = [nearest(d, question_of(d, FREE, universe, analysis), refusal, lambda _: True) for d in (fixed, there)]
        assert told[0] == told[1]
        compared += told[0] is not None
    assert compared >= 3
    for universe, analysis in [*other_questions(), (None, OLS("income ~ age")), (None, Logistic("sick ~ C(sex)"))]:
        prices = [vaults[0].price(d, universe, analysis, GUARANTEED, user="new") for d in (fixed, there)]
        assert prices[0] == prices[1]


def test_prices_and_nearest_questions_read_no_confidential_column(
    vaults: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = vaults[1].dataset("survey")
    cubes = Cubes(data.warehouse)
    data = replace(data, cubes=cubes)
    _ = data.together
    read: list[str] = []
    kind = type(data.warehouse)
    ask, reduce = kind.ask, kind.reduce

    def asked(self: Any, query: str, *rest: Any) -> Any:
        read.append(query)
        return ask(self, query, *rest)

    def reduced(self: Any, function: Any, columns: Any, where: str = "TRUE", together: str = "") -> Any:
        read.append(f"{' '.join(columns)} {where}")
        return reduce(self, function, columns, where, together)

    monkeypatch.setattr(kind, "ask", asked)
    monkeypatch.setattr(kind, "reduce", reduced)
    for universe, analysis in [*other_questions(), (None, OLS("income ~ age"))]:
        vaults[1].price(data, universe, analysis, GUARANTEED, user="new")
        question = question_of(data, GUARANTEED, universe, analysis)
        nearest(data, question, Refusal("accounts", "", ""), lambda one: bool(losses_of(data, one)) and False)
    words = {word for query in read for word in re.findall(r"\w+", query)}
    columns = {v.name: {v.codes_column, v.numbers} for v in data.variables.values()}
    assert columns["age"] & words
    for name in ("sick", "rare", "income"):
        assert not columns[name] & words, name


# -- prices


def test_the_price_is_what_is_charged_and_then_the_question_is_free(own: Vault) -> None:
    vault, table = own, CrossTab(("state", "sick"))
    data = vault.dataset("survey")
    before = vault.ledger.balance("payer", "survey", data.variables).formal.copy()
    price = vault.price("survey", None, table, GUARANTEED, user="payer")
    lines = len(list(vault.ledger.entries()))
    assert isinstance(vault.ask("survey", None, table, GUARANTEED, user="payer"), Answer)
    assert len(list(vault.ledger.entries())) == lines + 1  # the price left no line
    after = vault.ledger.balance("payer", "survey", data.variables).formal
    assert price.loss == pytest.approx(float((after - before).max()), rel=1e-5)  # the ledger keeps six digits
    assert price.left["user"] == pytest.approx(loss_of(0.60) - data.frozen_loss, rel=1e-9)
    later = vault.price("survey", None, table, GUARANTEED, user="payer")
    assert (later.loss, later.words) == (0.0, "free")


@pytest.mark.parametrize("policy", [GUARANTEED, QUICK], ids=["guaranteed", "hardened"])
def test_a_question_is_answered_if_and_only_if_the_price_says_so(own: Vault, policy: Policy) -> None:
    room = 0.01 if policy is GUARANTEED else 0.05
    tight, seen = policy.with_(accounts=small(own, room, policy.accounts.others), title="small accounts"), set()
    for universe, analysis in other_questions():
        price = own.price("survey", universe, analysis, tight, user="careful")
        found = own.ask("survey", universe, analysis, tight, user="careful")
        if isinstance(found, Refusal) and found.rule != "accounts":
            continue
        assert (price.times >= 1) == isinstance(found, Answer), (price, found)
        seen.add(isinstance(found, Answer))
    assert seen == {True, False}


def test_the_price_of_a_model_is_at_least_that_of_its_first_step(own: Vault) -> None:
    vault, model = own, OLS("income ~ age + C(sex)")
    price = vault.price("survey", None, model, GUARANTEED, user="modeller")
    assert price.at_least
    assert "at least" in str(price)
    assert price.loss > 0
    assert isinstance(vault.ask("survey", None, model, GUARANTEED, user="modeller"), Answer)
    variables = vault.dataset("survey").variables
    assert vault.ledger.spent("modeller", "survey", variables) >= price.loss * (1 - 1e-5)


def test_what_is_on_the_shelf_or_under_no_accounts_is_free(tmp_path: Path) -> None:
    vault = frozen(tmp_path / "v", people())
    assert vault.price("survey", None, CrossTab(("sick",))).loss > 0
    assert vault.price("survey", None, CrossTab(("sick",)), Policy.named("census2009")).words == "free"
    vault.shelve("survey", [("sick", "sex")], right=53)
    assert vault.price("survey", None, CrossTab(("sick",))).words == "free"


def test_words_say_how_often_a_question_can_be_asked() -> None:
    left = {"user": 0.25, "common": 0.5}
    assert Price(0.02, left, times=12.5).words == "about 12 more questions like this one"
    assert Price(0.2, left, times=1.25).words == "about 1 more question like this one"
    assert Price(0.02, left, True, 12.5).words == "at most 12 more questions like this one"
    assert Price(0.3, left, times=0.8).words == "more than is left for some of these records"
    assert Price(0.02, left, times=12.5).to_json() == {
        "loss": 0.02, "left": left, "at_least": False, "words": "about 12 more questions like this one",
    }  # fmt: skip


def test_the_command_line_prints_a_price(tmp_path: Path) -> None:
    frozen(tmp_path / "v", people())
    called = CliRunner().invoke(
        app, ["ask", str(tmp_path / "v"), "survey", "--crosstab", "sex,sick", "--price", "--user", "ann"]
    )
    assert called.exit_code == 0, called.output
    assert called.output.startswith("Price: about ")
    assert not [e for e in Vault.open(tmp_path / "v").ledger.entries() if e.user == "ann"]
