"""From the log to the utility of an R-U map."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato import Draws
from sfumato.contract import Release, Snooper
from sfumato.datasets import survey20k
from sfumato.errors import DataError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.policy import Policy
from sfumato.mas.usage import Estimand, workload
from sfumato.mas.vault import Vault
from sfumato.masks import KimNoise


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    made = Vault.create(tmp_path / "v", Policy.open().with_(title="exact"))
    made.freeze("survey", survey20k(2_000))
    return made


def test_the_log_tells_what_is_asked_for_and_how_often(vault: Vault) -> None:
    for universe in (None, {"sex": "F"}, {"sex": "M"}):
        vault.ask("survey", universe, CrossTab(("sex", "race")))
    vault.ask("survey", None, CrossTab(("race", "sex")))  # the same table turned round
    vault.ask("survey", None, analysis_named("ols", formula="income ~ age"))
    found = workload(vault.ledger.entries())
    assert dict(found.counts) == {Estimand("table", ("race", "sex")): 4, Estimand("linear model", ("income ~ age",)): 1}
    assert found.frame()["share"].tolist() == [0.8, 0.2]


def test_it_is_the_utility_of_a_masked_file(vault: Vault) -> None:
    vault.ask("survey", None, CrossTab(("sex", "race")))
    vault.ask("survey", None, analysis_named("ols", formula="income ~ age"))
    data = survey20k(2_000)
    utility = workload(vault.ledger.entries()).utility()
    assert sum(utility.weights) == pytest.approx(1)
    released = KimNoise(lambda2=0.5, columns=["income"]).apply(data, Draws(1))
    unchanged = Release.of(data, data)
    assert utility.score(unchanged, Snooper()).value == pytest.approx(1)
    assert utility.score(released, Snooper()).value < 1


def test_refused_questions_and_empty_logs_count_for_nothing() -> None:
    log = [
        {"outcome": "refused", "analysis": "cross_tab", "by": ["sex"]},
        {"outcome": "answered", "analysis": "quantiles"},
    ]
    found = workload(log)
    assert (dict(found.counts), found.skipped) == ({}, 1)
    with pytest.raises(DataError, match="no question"):
        found.utility()
