"""Survival curves and Cox's model without noise against slow twins and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import Cox, KaplanMeier
from sfumato.mas.answer import Answer
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

OPEN = Policy.open()
EDGES = np.array([1.0, 2.5, 4.0, 6.0, 9.0, 14.0])


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(1), 3_000
    drug, sex = rng.choice(["new", "none", "old"], n, p=[0.3, 0.4, 0.3]), rng.choice(["F", "M"], n)
    life = rng.exponential(8 * np.exp(0.5 * (drug == "new") - 0.3 * (sex == "M")))
    end = rng.uniform(0, 20, n)
    return pd.DataFrame(
        {"drug": drug, "sex": sex, "time": np.minimum(life, end), "dead": np.where(life <= end, "yes", "no")}
    )


def schema() -> Schema:
    return Schema((
        Attribute("drug", role="key", scale="unordered"), Attribute("sex", role="key", scale="unordered"),
        Attribute("time", role="confidential"), Attribute("dead", role="confidential", scale="unordered"),
    ))  # fmt: skip


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    made = Vault.create(tmp_path_factory.mktemp("vault") / "v", policy=OPEN)
    made.freeze("trial", Microdata(frame, schema()), {"time": Cutpoints(tuple(EDGES))})
    return made


def found(vault: Vault, analysis: Analysis, universe: Any = None) -> Answer:
    answer = vault.ask("trial", universe, analysis, OPEN)
    assert isinstance(answer, Answer)
    return answer


def in_bins(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the times rounded up to the ends of their bins, the last of which is open."""
    return frame.assign(bin=np.r_[EDGES, 99.0][np.searchsorted(EDGES, frame["time"])], died=frame["dead"] == "yes")


def test_curves_are_those_of_kaplan_and_meier_with_greenwoods_errors(vault: Vault, frame: pd.DataFrame) -> None:
    rows = found(vault, KaplanMeier("time", "dead", "yes", by=("drug",))).frame()
    for drug, part in [*in_bins(frame).groupby("drug"), ("Total", in_bins(frame))]:
        wanted = SurvfuncRight(part["bin"], part["died"])
        mine = rows[rows["drug"] == drug]
        assert mine["up to"].tolist() == EDGES.tolist()
        assert mine["survival"].to_numpy(float) == pytest.approx(wanted.surv_prob[:6], rel=1e-10)
        assert mine["standard error"].to_numpy(float) == pytest.approx(wanted.surv_prob_se[:6], rel=1e-10)
        assert mine["at risk"].tolist() == wanted.n_risk[:6].tolist()
        assert mine["events"].tolist() == wanted.n_events[:6].tolist()


def test_in_a_life_table_those_censored_are_at_risk_for_half_a_bin(vault: Vault, frame: pd.DataFrame) -> None:
    part = in_bins(frame[frame["sex"] == "F"])
    survival, wanted, at_risk = 1.0, [], len(part)
    for end in EDGES:
        here = part[part["bin"] == end]
        survival *= 1 - here["died"].sum() / (at_risk - (~here["died"]).sum() / 2)
        at_risk -= len(here)
        wanted.append(survival)
    rows = found(vault, KaplanMeier("time", "dead", "yes", method="life_table"), {"sex": "F"}).frame()
    assert rows["survival"].to_numpy(float) == pytest.approx(wanted, rel=1e-12)


def indicators(frame: pd.DataFrame) -> np.ndarray:
    """Return indicators beside the levels with most records."""
    columns = []
    for name in ("drug", "sex"):
        mode = frame[name].value_counts().index[0]
        columns += [(frame[name] == level).astype(float) for level in sorted(frame[name].unique()) if level != mode]
    return np.column_stack(columns)


def test_coxs_model_is_that_of_breslows_ties(vault: Vault, frame: pd.DataFrame) -> None:
    part = in_bins(frame)
    fit = PHReg(part["bin"], indicators(frame), status=part["died"], ties="breslow").fit()
    # events of the open bin are events at one time as well
    rows = found(vault, Cox("time", "dead", "yes", by=("drug", "sex"))).frame()
    assert rows["coefficient"].to_numpy() == pytest.approx(fit.params, rel=1e-7)
    assert rows["standard error"].to_numpy() == pytest.approx(fit.bse, rel=1e-7)
    assert rows["p value"].to_numpy() == pytest.approx(fit.pvalues, rel=1e-5)
    assert rows["hazard ratio"].to_numpy() == pytest.approx(np.exp(fit.params), rel=1e-7)


def test_the_grouped_model_is_a_complementary_log_log_regression_of_persons_in_bins(
    vault: Vault, frame: pd.DataFrame
) -> None:
    part, x = in_bins(frame), indicators(frame)
    ends, outcomes, rows = np.r_[EDGES, 99.0], [], []
    for j, end in enumerate(ends):
        there = part["bin"].to_numpy() >= end
        outcomes.append(((part["bin"] == end) & part["died"]).to_numpy()[there])
        rows.append(np.column_stack([np.tile(np.eye(len(ends))[j], (there.sum(), 1)), x[there]]))
    family = sm.families.Binomial(sm.families.links.CLogLog())
    fit = sm.GLM(np.concatenate(outcomes).astype(float), np.vstack(rows), family=family).fit(tol=1e-13)
    mine = found(vault, Cox("time", "dead", "yes", by=("drug", "sex"), ties="grouped")).frame()
    assert mine["coefficient"].to_numpy() == pytest.approx(fit.params[len(ends) :], rel=1e-8)
    assert mine["standard error"].to_numpy() == pytest.approx(fit.bse[len(ends) :], rel=1e-7)


def test_bins_of_the_grid_are_used_where_they_are_asked_for(vault: Vault) -> None:
    rows = found(vault, KaplanMeier("time", "dead", "yes", bins=4)).frame()
    assert 2 <= len(rows) <= 3
    assert (np.diff(rows["survival"].to_numpy(float)) < 0).all()


def test_bad_calls_are_refused_in_sentences(vault: Vault) -> None:
    with pytest.raises(ParameterError, match="at least one variable"):
        Cox("time", "dead", "yes")
    with pytest.raises(ParameterError, match="twice"):
        KaplanMeier("time", "dead", "yes", by=("dead",))
    with pytest.raises(DataError, match="level"):
        vault.ask("trial", None, KaplanMeier("time", "dead", "maybe"), OPEN)
    with pytest.raises(DataError, match="numbers"):
        vault.ask("trial", None, KaplanMeier("sex", "dead", "yes"), OPEN)
    refusal = vault.ask("trial", {"sex": "F"}, Cox("time", "dead", "yes", by=("sex",)), OPEN)
    assert not refusal
