"""Every analysis of the analysis system, as questions to one small survey; as a script, it answers them in another process."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mas_cases import UNLIMITED
from mas_survey import schema_of, survey

from sfumato import Microdata
from sfumato.contract import registered
from sfumato.mas import Cutpoints
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault

EXACT = Policy.open().with_(title="exact")
HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
UNIVERSE: dict[str, Any] = {"race": ["W", "B", "A"]}
REWORDED = "race == 'A' or race in ('B', 'W') and sex in ('M', 'F')"
"""The same records in other words."""
_PAIRS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("cross_tab", {"by": ("sex", "sick")}, {"by": ["sex", "sick"]}),
    ("cross_tab", {"by": ("age",), "of": "income"}, {"by": ["age"], "of": "income"}),
    ("cross_tab", {"by": ("race", "sex"), "of": "income", "weighted": True},
      {"by": ["race", "sex"], "of": "income", "weighted": True}),
    ("cross_tab", {"by": ("work",), "weighted": True}, {"by": ["work"], "weighted": True}),
    ("quantiles", {"of": "income", "p": (0.3, 0.5)}, {"of": "income", "p": [0.5, 0.3, 0.5]}),
    ("quantiles", {"of": "z", "by": ("sex",), "p": (0.5,), "weighted": True},
      {"of": "z", "by": ["sex"], "p": [0.5], "weighted": True}),
    ("histogram", {"of": "age"}, {"of": "age"}),
    ("histogram", {"of": "income", "by": ("sex",), "bins": 4}, {"of": "income", "by": ["sex"], "bins": 4}),
    ("correlation", {"of": ("age", "z", "income")}, {"of": ("income", "age", "z")}),
    ("ols", {"formula": "log(income) ~ age*sex + z"}, {"formula": "log(income) ~ z + C(sex) + sex:age + age"}),
    ("ols", {"formula": "income ~ age + race", "weighted": True}, {"formula": "income ~ C(race) + age", "weighted": True}),
    ("logistic", {"formula": "sick ~ age + sex"}, {"formula": "C(sick) ~ sex + age", "event": "yes"}),
    ("multinomial", {"formula": "work ~ age"}, {"formula": "C(work) ~ 1 + age"}),
    ("residuals", {"formula": "income ~ age"}, {"formula": "income ~ 1 + age"}),
    ("independence", {"by": ("sex", "sick")}, {"by": ["sex", "sick"]}),
    ("t_test", {"of": "income", "by": "sex"}, {"of": "income", "by": "sex"}),
    ("anova", {"of": "income", "by": "work"}, {"of": "income", "by": "work"}),
    ("rank_test", {"of": "income", "by": "sex"}, {"of": "income", "by": "sex"}),
    ("kaplan_meier", {"time": "age", "event": "sick", "level": "yes"}, {"time": "age", "event": "sick", "level": "yes"}),
    ("cox", {"time": "age", "event": "sick", "level": "yes", "by": ("sex",)},
      {"time": "age", "event": "sick", "level": "yes", "by": ["sex"]}),
    ("share_below", {"of": "income"}, {"of": "income"}),
    ("inequality", {"of": "income"}, {"of": "income"}),
    ("probit", {"formula": "sick ~ age"}, {"formula": "C(sick) ~ age", "event": "yes"}),
    ("poisson", {"formula": "z ~ age"}, {"formula": "z ~ 1 + age"}),
    ("ordered_logit", {"formula": "work ~ age"}, {"formula": "C(work) ~ age"}),
)  # fmt: skip
ANALYSES: tuple[tuple[Analysis, Analysis], ...] = tuple(
    (analysis_named(name, **one), analysis_named(name, **other))
    for name, one, other in _PAIRS if name in registered("analysis")
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
