"""Standard errors of the means of tables under the survey's design, against the textbook and statsmodels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from mas_survey import linearised, microdata, survey

from mas_cases import UNLIMITED
from sfumato.contract import Draws
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault

OPEN = Policy.open()


def made(folder: Path, frame: pd.DataFrame) -> Vault:
    vault = Vault.create(folder / "v")
    vault.freeze("survey", microdata(frame))
    return vault


def rows(vault: Vault, analysis: CrossTab, policy: Policy = OPEN, secret: Secret | None = None) -> list[dict[str, Any]]:
    data = vault.dataset("survey")
    found = vault.ask(data if secret is None else replace(data, secret=secret), None, analysis, policy)
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
        inside = frame["z"].notna().to_numpy()
        for side in ("sex", "race"):
            inside = inside if row[side] == "Total" else inside & (frame[side] == row[side]).to_numpy()
        w = np.where(inside, frame["weight"] if weighted else 1.0, 0.0)
        z = np.where(inside, frame["z"], 0.0)
        mean = (w * z).sum() / w.sum()
        expected = linearised((w * (z - mean))[:, None], np.array([[1 / w.sum()]]), frame, strata, clusters)
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
    hardened = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
    truth = np.array([row["standard error"] for row in rows(vault, analysis)])
    told = np.array([
        [row["standard error"] for row in rows(vault, analysis, hardened, Secret(Draws(secret)))] for secret in range(25)
    ])  # fmt: skip
    assert all(float(f"{error:.1e}") == error for error in told.ravel())
    assert (told.std(axis=0) > 0).all()
    # the noise may have hidden all squares: an error is that of records drawn one by one then, which is not far below
    assert (told > 0.75 * truth).all()


def alike(rng: np.random.Generator, cells: int, records: int) -> pd.DataFrame:
    """A survey with as many records in each of some cells; members of a household are much alike, and its strata are not."""
    members = np.minimum(1 + rng.poisson(1.5, cells * records), 9)
    house = np.repeat(np.arange(len(members)), members)[: cells * records]
    effect = np.sqrt(0.4) * rng.normal(size=len(members))[house] + np.sqrt(0.6) * rng.normal(size=len(house))
    return pd.DataFrame({
        "race": [f"c{i}" for i in np.repeat(np.arange(cells), records)], "house": house, "region": [f"R{i}" for i in house % 4],
        "income": np.exp(effect), "weight": rng.uniform(1, 9, len(house)),
    })  # fmt: skip


@pytest.mark.parametrize(("cells", "records"), [(150, 50), (150, 100), (150, 300)])
@pytest.mark.parametrize("weighted", [True, False])
def test_intervals_of_noisy_means_cover_the_truth_of_whatever_cells(
    tmp_path: Path, cells: int, records: int, weighted: bool
) -> None:
    frame = alike(np.random.default_rng(7), cells, records)
    vault = made(tmp_path, frame)
    hardened = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None, rules=())
    analysis = CrossTab(("race",), of="income", weighted=weighted, errors="design")
    told = pd.concat([pd.DataFrame(rows(vault, analysis, hardened, Secret(Draws(i)))).iloc[:-1] for i in range(8)])
    covered = (told["mean"] - np.exp(0.5)).abs() < 1.96 * told["standard error"]
    assert covered.mean() > 0.93


def test_of_large_cells_noise_leaves_errors_that_the_strata_make_small(tmp_path: Path) -> None:
    frame = drawn(np.random.default_rng(8))
    frame["z"] += 50 * frame["region"].map({"a": 0, "b": 1, "c": 2, "d": 3})
    vault, analysis = made(tmp_path, frame), CrossTab(("sex",), of="z", weighted=True)
    little = Policy.open().set({"amounts.sd": 0.01})  # as 2 is beside 200 times as many records
    (exact, noisy, single) = (
        rows(vault, one, policy)[-1]["standard error"]
        for one, policy in ((analysis, OPEN), (analysis, little), (analysis.with_(errors="hc1"), little))
    )
    assert noisy == pytest.approx(exact, rel=0.1)
    assert single > 1.5 * exact


def drawn(rng: np.random.Generator) -> pd.DataFrame:
    """A survey of 200 households in each of four strata that differ much; one household in ten is of the group asked about."""
    stratum, members = np.repeat(np.arange(4), 200), rng.integers(1, 4, 800)
    house = np.repeat(np.arange(800), members)
    group = (rng.random(800) < 0.1)[house]
    z = 2.0 * stratum[house] + rng.normal(size=800)[house] + rng.normal(size=len(house))
    return pd.DataFrame({
        "sex": np.where(group, "F", "M"), "house": house, "region": np.array(list("abcd"))[stratum[house]], "z": z,
        "weight": 1.0 + stratum[house],
    })  # fmt: skip


def of_women(frame: pd.DataFrame) -> tuple[float, float]:
    """The weighted mean of women, and its error by the textbook: women are a domain of the survey."""
    w = np.where(frame["sex"] == "F", frame["weight"], 0.0)
    mean = float((w * frame["z"]).sum() / w.sum())
    scores = (w * (frame["z"] - mean)).to_numpy()[:, None]
    return mean, float(linearised(scores, np.array([[1 / w.sum()]]), frame, True, True)[0])


def test_errors_of_a_group_are_how_much_its_mean_varies_from_survey_to_survey(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    means, errors = np.array([of_women(drawn(rng)) for _ in range(300)]).T
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(), rel=0.1)
    frame = drawn(rng)
    mean, error = of_women(frame)
    vault = made(tmp_path, frame)
    answers = [
        vault.ask("survey", {"sex": "F"}, CrossTab(("sex",), of="z", weighted=True), OPEN).frame().iloc[-1],
        pd.DataFrame(rows(vault, CrossTab(("sex",), of="z", weighted=True))).set_index("sex").loc["F"],
    ]
    for found in answers:
        assert found["mean"] == pytest.approx(mean, rel=1e-10)
        assert found["standard error"] == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("errors", ["hc1", "design"])
def test_errors_of_means_far_from_zero_keep_their_digits(tmp_path: Path, errors: str, weighted: bool) -> None:
    frame = survey(600)
    near = np.round(np.random.default_rng(4).normal(size=600) * 2**20) / 2**20
    vault = made(tmp_path, frame.assign(z=1e9 + near))
    for row in rows(vault, CrossTab(("sex",), of="z", weighted=weighted, errors=errors)):
        inside = np.ones(600, bool) if row["sex"] == "Total" else (frame["sex"] == row["sex"]).to_numpy()
        w = np.where(inside, frame["weight"] if weighted else 1.0, 0.0)
        mean = (w * near).sum() / w.sum()
        scores = (w * (near - mean))[:, None]
        n = inside.sum()
        expected = np.sqrt(n / (n - 1) * (scores**2).sum()) / w.sum()
        if errors == "design":
            expected = linearised(scores, np.array([[1 / w.sum()]]), frame, True, True)[0]
        assert row["mean"] == pytest.approx(1e9 + mean, rel=1e-14)
        assert row["sum"] == pytest.approx((w * (1e9 + near)).sum(), rel=1e-12)
        assert row["standard error"] == pytest.approx(expected, rel=1e-9)
