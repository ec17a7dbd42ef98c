"""Whether the leverage rule refuses does not hang on anybody's confidential value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey

from sfumato.contract import Draws
from sfumato.mas.analyses import OLS, Logistic
from sfumato.mas.models.model import ModelAnalysis
from sfumato.mas.perturbation import Models
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rules import Leverage
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault

LIMITED = Policy(title="limited", keyed="known", models=Models(sd=8.0), rules=(Leverage(most=0.25, potential=1.0),))
OLD = 5
"""A row far out in age, which is known."""


def leverages(folder: Path, model: ModelAnalysis, universe: Any, **changes: Any) -> list[float]:
    """Return what the rule sees of two data sets that differ by one confidential value of one person."""
    found = []
    for i in range(2):
        frame = survey()
        frame.loc[OLD, "age"] = 300
        for name, values in changes.items():
            frame.loc[OLD, name] = values[i]
        (folder / str(i)).mkdir()
        vault = Vault(folder / str(i), Draws("the same"), LIMITED)
        question = Question(vault.freeze("survey", microdata(frame)), LIMITED, Universe.of(universe), model)
        model.run(question)
        found.append(float(question.results["leverage"]()))
    return found


@pytest.mark.parametrize(
    "model", [OLS("flag ~ age + C(sex) + income"), Logistic("sick ~ age + C(sex) + income")], ids=["ols", "logistic"]
)
def test_a_confidential_predictor_far_out_does_not_raise_the_leverage_that_decides(
    tmp_path: Path, model: ModelAnalysis
) -> None:
    frame = survey()
    low, high = leverages(tmp_path, model, None, income=(frame["income"].median(), frame["income"].max()))
    assert low == high
    assert low > 0.02  # the old person's, by age: .0005 is the mean


@pytest.mark.parametrize("universe", [{"sick": "yes"}, [{"sick": "yes"}, {"sex": "F", "race": "W"}]])
def test_who_is_in_a_universe_of_a_confidential_level_does_not_show_in_the_leverage(
    tmp_path: Path, universe: Any
) -> None:
    inside, outside = leverages(
        tmp_path, OLS("flag ~ age"), universe, sick=("yes", "no"), sex=("M", "M"), race=("B", "B")
    )
    assert inside == outside
    assert inside > 0.02


def test_of_known_variables_the_leverage_is_that_of_the_hat_matrix(tmp_path: Path) -> None:
    frame = survey()
    vault = Vault(tmp_path, Draws("one"), LIMITED)
    data = vault.freeze("survey", microdata(frame))
    for formula, universe in (("flag ~ age + C(sex) + income", None), ("flag ~ age + C(sex)", {"sick": "yes"})):
        model = OLS(formula)
        question = Question(data, LIMITED, Universe.of(universe), model)
        model.run(question)
        x = np.column_stack([np.ones(len(frame)), frame["age"], frame["sex"] == "F"]).astype(float)
        there = np.ones(len(frame), bool) if universe is None else (frame["sick"] == "yes").to_numpy()
        square = np.einsum("ij,jk,ik->i", x, np.linalg.inv(x[there].T @ x[there]), x)
        expected = pd.Series(np.where(there, square, square / (1 + square))).max()
        assert expected <= float(question.results["leverage"]()) <= expected + 0.001
