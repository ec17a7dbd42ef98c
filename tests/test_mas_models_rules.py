"""The rules for regressions of section 3.3: which models are refused, by which rule, and what is absorbed into the reference."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of

from sfumato.mas.analyses import OLS, Correlation, Logistic, Multinomial
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.rules import CloseFit, DummySize
from sfumato.mas.vault import Vault

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
OPEN = Policy.open()
ROLES = dict.fromkeys(("income", "sick"), "confidential")
ONE = "one person"


def people(n: int = 5_000) -> pd.DataFrame:
    """Return records in which one person has a race of her own."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n).astype(float), "z": np.exp(rng.normal(0, 0.5, n)),
        "race": rng.choice(["W", "B", "O"], n, p=[0.7, 0.28, 0.02]), "sick": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
    })  # fmt: skip
    frame.loc[0, "race"] = ONE
    frame["income"] = np.exp(2 + 0.01 * frame["age"] + 0.4 * rng.normal(size=n))
    return frame


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", people(), ROLES, HARDENED)


def refused(vault: Vault, analysis: Analysis, policy: Policy = HARDENED, universe: Any = None) -> str:
    found = vault.ask("data", universe, analysis, policy)
    assert isinstance(found, Refusal), str(found)
    assert not re.search(r"\d{3}", found.reason + found.suggestion), "a refusal tells no count"
    return found.rule


def test_models_that_would_disclose_are_refused_by_their_rule(vault: Vault) -> None:
    rare = HARDENED.without("no_marginal")  # which refuses universes by race, where one level has one person
    assert refused(vault, OLS("income ~ age"), rare, {"race": "O"}) == "model_size"
    assert refused(vault, OLS("income ~ age - 1")) == "model_form"
    assert refused(vault, OLS("income ~ age*z*sex*race")) == "model_form"
    assert refused(vault, OLS("income ~ age + square(age) + sqrt(age) + log(age) + log1p(age)")) == "high_correlation"
    close = OPEN.with_(rules=(CloseFit(),))
    assert refused(vault, OLS("log(age) ~ age + square(age)"), close) == "close_fit"
    assert refused(vault, Logistic("C(race) ~ age", event=ONE)) == "dummy_size"
    assert refused(vault, Multinomial("race ~ age")) == "dummy_size"


@pytest.mark.parametrize("terms", [3, 4])
def test_products_of_three_variables_are_allowed_and_of_four_not(vault: Vault, terms: int) -> None:
    product = ":".join(("age", "z", "sex", "sick")[:terms])
    policy = OPEN.with_(rules=tuple(r for r in Policy.named("census2009").rules if r.name == "model_form"))
    found = vault.ask("data", None, OLS(f"income ~ {product}"), policy)
    assert isinstance(found, Answer) is (terms == 3)


def test_variables_that_are_nearly_the_same_have_no_correlation_told(tmp_path: Any) -> None:
    frame = people(3_000).assign(double=lambda d: 2 * d["income"])
    vault = vault_of(tmp_path / "v", frame, ROLES | {"double": "confidential"}, HARDENED)
    clear = HARDENED.set(
        {"models.sd": 0.3, "models.growth": 0.0}
    )  # the rule sees the noisy correlation, as users would
    assert refused(vault, Correlation(("double", "income")), clear) == "high_correlation"


def test_an_indicator_of_one_person_is_absorbed_into_the_reference_and_said(vault: Vault) -> None:
    for policy in (Policy.named("census2009"), HARDENED):
        found = vault.ask("data", None, OLS("income ~ race"), policy)
        assert isinstance(found, Answer), str(found)
        assert not any(ONE in str(row["term"]) for row in found.tables["coefficients"])
        assert f"Too few records, so part of the reference: C(race)[{ONE}]." in found.notes
    absorbed = vault.ask("data", None, OLS("income ~ race"), OPEN.with_(rules=(DummySize(),)))
    assert isinstance(absorbed, Answer)
    frame = people()
    reference = frame.loc[frame["race"].isin(["W", ONE]), "income"].mean()
    assert absorbed.tables["coefficients"][0]["coefficient"] == pytest.approx(reference, rel=1e-10)
