"""Refusals, and what is left out of answers, hang on noisy numbers: one record's confidential value does not decide them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey

from mas_cases import UNLIMITED
from sfumato.contract import Draws
from sfumato.errors import DataError
from sfumato.mas.analyses import OLS, Correlation, CrossTab, Logistic
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.perturbation import Amounts, Counts, Models, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault, answer

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
NOISY = Policy.open().with_(title="noisy", counts=Counts(sd=5.0), models=Models(sd=2.0), amounts=Amounts(sd=2.0, top_coded=True))


def frozen(frame: pd.DataFrame, folder: Path) -> Vault:
    vault = Vault.create(folder, secret=Draws(7))
    vault.freeze("survey", microdata(frame))
    return vault


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = survey().assign(sick="no")
    frame.loc[frame["race"] != "O", "sick"] = survey()["sick"]
    frame.loc[frame["sex"] == "F", "flag"] = 0.0
    return frame.drop(columns=["empty", "house", "region"])


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return frozen(frame, tmp_path_factory.mktemp("one") / "v")


@pytest.fixture(scope="module")
def other(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """The same records, but that one woman of race O has flag 1, is sick, and has the largest income."""
    changed = frame.copy()
    woman = frame.index[(frame["race"] == "O") & (frame["sex"] == "F")][3]
    changed.loc[woman, ["flag", "sick", "income"]] = [1.0, "yes", frame["income"].max()]
    return frozen(changed, tmp_path_factory.mktemp("other") / "v")


def outcome(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = HARDENED) -> str:
    found = vault.ask("survey", universe, analysis, policy)
    return found.rule if isinstance(found, Refusal) else "answered"


@pytest.mark.parametrize(
    ("analysis", "expected"),
    [
        (OLS("flag ~ age"), "answered"), (OLS("age ~ flag"), "dummy_size"), (Logistic("flag ~ age"), "dummy_size"),
        (Correlation(("age", "flag")), None), (Correlation(("age", "flag"), errors="hc1"), None),
        (Logistic("sick ~ race"), "separation"), (Logistic("sick ~ race + age"), "separation"),
    ],
)  # fmt: skip
def test_whether_one_record_differs_from_all_others_does_not_decide_a_refusal(
    vault: Vault, other: Vault, analysis: Analysis, expected: str | None
) -> None:
    policy = HARDENED.without("high_correlation")
    universe = {"sex": "F"} if "flag" in str(analysis) else None  # no other woman has it
    found = outcome(vault, analysis, universe, policy)
    assert found == outcome(other, analysis, universe, policy)
    if expected is not None:
        assert found == expected


@pytest.mark.parametrize("model", [OLS("income ~ sick + twin"), Logistic("work ~ sick + twin", event="full")])
def test_two_columns_that_are_the_same_are_refused_as_two_that_differ_in_one_record(
    tmp_path: Path, model: OLS | Logistic
) -> None:
    frame = survey().drop(columns=["empty", "house", "region"])
    frame = frame.assign(twin=frame["sick"], nearly=frame["sick"])
    frame.loc[5, "nearly"] = "yes" if frame.loc[5, "sick"] == "no" else "no"
    vault = frozen(frame, tmp_path / "v")
    asked = model, model.with_(formula=model.formula.replace("twin", "nearly"))
    same, differs = (vault.ask("survey", None, one, HARDENED) for one in asked)
    assert isinstance(same, Refusal)
    assert same == differs


def test_a_sum_is_not_hidden_because_one_contribution_is_large(vault: Vault, other: Vault) -> None:
    table = CrossTab(("race", "sex"), of="income")
    hidden = [v.ask("survey", None, table, HARDENED).frame()["sum"].isna().tolist() for v in (vault, other)]  # type: ignore[union-attr]
    assert hidden[0] == hidden[1]


def _asked(vault: Vault, analysis: Analysis, policy: Policy, seed: int, universe: Any = None) -> Answer:
    data = dataclasses.replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
    found, _ = answer(Question(data, policy, Universe.of(universe), analysis))
    assert isinstance(found, Answer), str(found)
    return found


def test_the_numbers_of_complete_records_of_two_models_have_noise_that_does_not_cancel(
    vault: Vault, frame: pd.DataFrame
) -> None:
    policy = Policy.open().with_(title="counts", counts=Counts(sd=5.0))
    gaps = [
        float(_asked(vault, OLS("age ~ 1"), policy, s).facts["n"])
        - float(_asked(vault, OLS("z ~ 1"), policy, s).facts["n"])  # type: ignore[arg-type]
        for s in range(60)
    ]
    assert np.mean(gaps) == pytest.approx(frame["z"].isna().sum(), abs=4 * 50**0.5 / 60**0.5)
    assert np.std(gaps) == pytest.approx(50**0.5, rel=0.4)


def test_the_noise_of_a_level_is_that_of_its_records_in_every_universe(vault: Vault, frame: pd.DataFrame) -> None:
    alone = _asked(vault, OLS("income ~ 1"), NOISY, 1, {"sex": "F"}).tables["coefficients"]
    beside = _asked(vault, OLS("income ~ sex"), NOISY, 1).tables["coefficients"]
    assert beside[1]["term"] == "C(sex)[F]"
    assert alone[0]["coefficient"] == pytest.approx(beside[0]["coefficient"] + beside[1]["coefficient"], rel=1e-9)  # type: ignore[operator]
    small = _asked(vault, OLS("income ~ race + sex"), NOISY, 1, {"race": ["A", "B"]})
    large = _asked(vault, OLS("income ~ race + sex"), NOISY, 1, {"race": ["A", "B", "W"]})
    assert small.notes != large.notes  # their references differ, and so do all other columns


def test_two_policies_do_not_scale_the_same_noise(vault: Vault) -> None:
    counts = [
        _asked(vault, CrossTab(("race", "sex")), Policy.open().with_(counts=Counts(sd=sd)), 1).frame()["count"].to_numpy()
        for sd in (0.0, 5.0, 10.0)
    ]
    noise = counts[1] - counts[0], counts[2] - counts[0]
    assert np.abs(2 * noise[0] - noise[1]).mean() > 4


def test_confidential_levels_of_a_model_need_more_records(vault: Vault) -> None:
    policy = HARDENED.without("model_size", "leverage").with_(models=Models(sd=0.5))
    found = vault.ask("survey", {"race": "O"}, OLS("log(age) ~ C(work) + C(sex)*income"), policy)
    assert isinstance(found, Answer), str(found)
    terms = [str(row["term"]) for row in found.tables["coefficients"]]
    assert "C(work)[part]" not in terms  # about 60 records
    assert "income:C(sex)[F]" in terms  # about 140
    assert any("C(work)[part]" in note for note in found.notes)


def test_an_outcome_between_0_and_1_is_no_binary_one(frame: pd.DataFrame, tmp_path: Path) -> None:
    vault = frozen(frame.assign(flag=np.linspace(0, 1, len(frame))), tmp_path / "v")
    with pytest.raises(DataError, match="is 0 or 1"):
        vault.ask("survey", None, Logistic("flag ~ age"), Policy.open())


def test_every_number_of_a_table_is_charged(vault: Vault) -> None:
    question = Question(vault.dataset("survey"), NOISY, Universe(), CrossTab(("sex",), of="z", weighted=True))
    _, sets = answer(question)
    keys = {key for one in sets for key in one.keys}
    assert len(keys) == 3 * 4  # two cells and a total; counts, weighted counts, sums, and how many have a value
