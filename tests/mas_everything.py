"""Every analysis of the analysis system, as questions to one small survey; as a script, it answers them in another process."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mas_survey import schema_of, survey

from mas_cases import UNLIMITED
from sfumato import Microdata
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import OLS, Correlation, CrossTab, Histogram, Logistic, Multinomial, Quantiles, Residuals
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Counts
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault

EXACT = Policy.open().with_(title="exact")
HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
UNIVERSE: dict[str, Any] = {"race": ["W", "B", "A"]}
REWORDED = "race == 'A' or race in ('B', 'W') and sex in ('M', 'F')"
"""The same records in other words."""
ANALYSES: tuple[tuple[Analysis, Analysis], ...] = (
    (CrossTab(("sex", "sick")), CrossTab(["sex", "sick"])),
    (CrossTab(("age",), of="income"), CrossTab(["age"], of="income")),
    (CrossTab(("race", "sex"), of="income", weighted=True), CrossTab(("race", "sex"), of="income", weighted=True)),
    (CrossTab(("work",), weighted=True), CrossTab(("work",), weighted=True)),
    (Quantiles("income", p=(0.3, 0.5)), Quantiles("income", p=[0.5, 0.3, 0.5])),
    (Quantiles("z", by=("sex",), p=(0.5,), weighted=True), Quantiles("z", by=["sex"], p=0.5, weighted=True, errors="design")),
    (Histogram("age"), Histogram("age")),
    (Histogram("income", by=("sex",), bins=4), Histogram("income", by=["sex"], bins=4)),
    (Correlation(("age", "z", "income")), Correlation(("income", "age", "z"), errors="classical")),
    (Correlation(("age", "z"), weighted=True), Correlation(("z", "age"), weighted=True, errors="design")),
    (OLS("log(income) ~ age*sex + z"), OLS("log(income) ~ z + C(sex) + sex:age + age")),
    (OLS("income ~ sex + age", errors="hc1"), OLS("income ~ age + C(sex)", errors="hc1")),
    (OLS("income ~ age + race", weighted=True), OLS("income ~ C(race) + age", weighted=True, errors="design")),
    (Logistic("sick ~ age + sex"), Logistic("C(sick) ~ sex + age", event="yes")),
    (Logistic("sick ~ age", weighted=True), Logistic("sick ~ age", weighted=True, errors="design", event="yes")),
    (Multinomial("work ~ age"), Multinomial("C(work) ~ 1 + age")),
    (Residuals("log(income) ~ age + sex", weighted=True), Residuals("log(income) ~ C(sex) + age", weighted=True)),
    (Residuals("income ~ age", against="age"), Residuals("income ~ 1 + age", against="age")),
    (Residuals("sick ~ age + z", model="logistic"), Residuals("sick ~ z + age", model="logistic", event="yes")),
    (Residuals("work ~ age", model="multinomial"), Residuals("C(work) ~ age", model="multinomial")),
)  # fmt: skip
"""Each question, and the same in other words."""


def people(n: int) -> pd.DataFrame:
    """The records; more of them have the same levels."""
    made = survey(n).drop(columns=["year", "empty", "flag"])
    return made.assign(person=np.arange(n))


def filled(vault: Vault, n: int, distributed: Any = None) -> Vault:
    """Freeze the records, here or in Spark, with cutpoints for age."""
    frame = people(n)
    data = Microdata(frame if distributed is None else distributed.createDataFrame(frame), schema_of(frame))
    vault.freeze("survey", data, {"age": Cutpoints((34, 49, 64), whole=True)}, identity="person")
    return vault


def asked(vault: Vault, analysis: Analysis, policy: Policy, universe: Any = None, user: str = "custodian") -> Answer:
    """The answer to a question; there must be one."""
    found = vault.ask("survey", Universe.of(universe or UNIVERSE), analysis, policy, user=user)
    assert isinstance(found, Answer), f"{analysis}: {found}"
    return found


def digests(vault: Vault, reworded: bool, user: str) -> list[str]:
    """What the answers to all questions are, byte by byte, under both policies."""
    return [
        hashlib.sha256(asked(vault, both[reworded], policy, REWORDED if reworded else None, user).to_bytes()).hexdigest()
        for policy in (HARDENED, EXACT)
        for both in ANALYSES
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(digests(Vault.open(Path(sys.argv[1])), reworded=True, user="somebody else")))
