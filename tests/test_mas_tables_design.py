"""Standard errors of the means of tables under the survey's design, against the textbook and statsmodels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from mas_survey import linearised, microdata, survey

from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault

OPEN = Policy(title="open")


def made(folder: Path, frame: pd.DataFrame) -> Vault:
    vault = Vault.create(folder / "v")
    vault.freeze("survey", microdata(frame))
    return vault


def rows(vault: Vault, analysis: CrossTab, policy: Policy = OPEN) -> list[dict[str, Any]]:
    found = vault.ask("survey", None, analysis, policy)
    assert isinstance(found, Answer), str(found)
    return found.frame().to_dict("records")


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("strata", "clusters"), [(True, True), (False, True), (True, False)])
def test_errors_of_means_in_cells_are_those_of_the_textbook(
    tmp_path: Path, strata: bool, clusters: bool, weighted: bool
) -> None:
    frame = survey(1_500)
    vault = made(
        tmp_path, frame.drop(columns=[c for c, there in (("region", strata), ("house", clusters)) if not there])
    )
    for row in rows(vault, CrossTab(("sex", "race"), of="z", weighted=weighted, errors="design")):
        part = frame[frame["z"].notna()]
        for side in ("sex", "race"):
            part = part if row[side] == "Total" else part[part[side] == row[side]]
        w = part["weight"].to_numpy() if weighted else np.ones(len(part))
        z = part["z"].to_numpy()
        mean = (w * z).sum() / w.sum()
        expected = linearised((w * (z - mean))[:, None], np.array([[1 / w.sum()]]), part, strata, clusters)
        assert row["mean"] == pytest.approx(mean, rel=1e-10)
        assert row["standard error"] == pytest.approx(expected[0], rel=1e-8)


def test_households_of_one_stratum_have_the_cluster_errors_of_statsmodels(tmp_path: Path) -> None:
    frame = survey(1_500).drop(columns="region")
    (total,) = [
        r for r in rows(made(tmp_path, frame), CrossTab(("sex",), of="income", weighted=True)) if r["sex"] == "Total"
    ]
    fitted = sm.WLS(frame["income"], np.ones(len(frame)), weights=frame["weight"]).fit(
        cov_type="cluster", cov_kwds={"groups": frame["house"], "use_correction": False}
    )
    m = frame["house"].nunique()
    assert total["standard error"] == pytest.approx(float(fitted.bse.iloc[0]) * np.sqrt(m / (m - 1)), rel=1e-8)


def test_the_usual_errors_are_those_of_the_design_where_there_are_weights_and_one(tmp_path: Path) -> None:
    vault = made(tmp_path, survey(1_500))
    asked = [CrossTab(("sex",), of="income", weighted=True, errors=errors) for errors in ("usual", "design", "hc1")]
    usual, design, plain = ([row["standard error"] for row in rows(vault, analysis)] for analysis in asked)
    assert usual == design
    assert all(a != b for a, b in zip(design, plain, strict=True))
    words = [vault.ask("survey", None, analysis, OPEN) for analysis in asked[:2]]
    assert words[0].to_bytes() == words[1].to_bytes()


def test_under_noise_the_errors_have_noise_of_their_own_and_two_digits(tmp_path: Path) -> None:
    vault = made(tmp_path, survey(3_000))
    analysis = CrossTab(("sex",), of="income", weighted=True)
    truth, told = rows(vault, analysis), rows(vault, analysis, Policy.named("hardened"))
    for exact, noisy in zip(truth, told, strict=True):
        assert float(f"{noisy['standard error']:.1e}") == noisy["standard error"]
        assert noisy["standard error"] >= exact["standard error"] / 2
