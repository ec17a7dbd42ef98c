"""Hypothesis tests without noise against scipy and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey
from scipy import stats
from statsmodels.stats.oneway import anova_oneway

from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import ANOVA, Independence, RankTest, TTest
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault

OPEN = Policy.open()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = survey(2_000)
    frame.loc[frame.index[::40], "race"] = None
    return frame


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    made = Vault.create(tmp_path_factory.mktemp("vault") / "v", policy=OPEN)
    made.freeze("survey", microdata(frame, design=False))
    return made


def facts(vault: Vault, analysis: Analysis, universe: Any = None) -> dict[str, Any]:
    answer = vault.ask("survey", universe, analysis, OPEN)
    assert isinstance(answer, Answer)
    return dict(answer.facts)


@pytest.mark.parametrize("by", [("race", "work"), ("sex", "sick"), ("sick", "race")])
def test_without_noise_the_test_of_independence_is_pearsons(
    vault: Vault, frame: pd.DataFrame, by: tuple[str, str]
) -> None:
    wanted = stats.chi2_contingency(pd.crosstab(frame[by[0]], frame[by[1]]), correction=False)
    found = facts(vault, Independence(by))
    assert found["chi square"] == pytest.approx(wanted.statistic, rel=1e-10)
    assert found["degrees of freedom"] == wanted.dof
    assert found["p value"] == pytest.approx(wanted.pvalue, rel=1e-9)
    table = pd.crosstab(frame[by[0]], frame[by[1]])
    assert found["cramers v"] == pytest.approx(stats.contingency.association(table, "cramer"), rel=1e-9)


def test_expected_counts_have_the_margins_of_the_counts(vault: Vault) -> None:
    answer = vault.ask("survey", {"sex": "F"}, Independence(("race", "work")), OPEN)
    for side in ("race", "work"):
        sums = answer.frame().groupby(side)[["count", "expected"]].sum()
        assert sums["count"].to_numpy() == pytest.approx(sums["expected"].to_numpy(), rel=1e-12)


@pytest.mark.parametrize("variable", ["income", "z", "age"])
def test_without_noise_the_t_test_is_welchs(vault: Vault, frame: pd.DataFrame, variable: str) -> None:
    a, b = (frame.loc[frame["work"] == level, variable].dropna() for level in ("none", "full"))
    wanted = stats.ttest_ind(a, b, equal_var=False)
    found = facts(vault, TTest(variable, "work", between=("none", "full")))
    assert found["t"] == pytest.approx(wanted.statistic, rel=1e-8)
    assert found["degrees of freedom"] == pytest.approx(wanted.df, rel=1e-8)
    assert found["p value"] == pytest.approx(wanted.pvalue, rel=1e-8)
    assert found["difference"] == pytest.approx(a.mean() - b.mean(), rel=1e-8)


@pytest.mark.parametrize(("variable", "by"), [("income", "race"), ("z", "work"), ("age", "sick")])
def test_without_noise_the_analysis_of_variance_is_the_textbooks(
    vault: Vault, frame: pd.DataFrame, variable: str, by: str
) -> None:
    part = frame.dropna(subset=[variable, by])
    for variances in ("equal", "unequal"):
        wanted = anova_oneway(part[variable], part[by], use_var=variances)
        found = facts(vault, ANOVA(variable, by, variances=variances))
        assert found["F"] == pytest.approx(wanted.statistic, rel=1e-8)
        assert found["degrees of freedom"] == pytest.approx(wanted.df_denom, rel=1e-8)
        assert found["p value"] == pytest.approx(wanted.pvalue, rel=1e-7)


def test_without_noise_the_rank_test_is_that_of_tied_bins(vault: Vault, frame: pd.DataFrame) -> None:
    for variable in ("income", "z"):
        part = frame.dropna(subset=[variable])
        bins = np.searchsorted(vault.dataset("survey").variables[variable].grid, part[variable])
        wanted = stats.kruskal(*(bins[part["work"] == level] for level in ("full", "none", "part")))
        found = facts(vault, RankTest(variable, "work"))
        assert found["H"] == pytest.approx(wanted.statistic, rel=1e-8)
        assert found["p value"] == pytest.approx(wanted.pvalue, rel=1e-8)
        a, b = (bins[part["sex"] == level] for level in ("F", "M"))
        two = stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False)
        found = facts(vault, RankTest(variable, "sex"))
        assert found["p value"] == pytest.approx(two.pvalue, rel=1e-8)
        assert found["chance that the first is larger"] == pytest.approx(two.statistic / len(a) / len(b), rel=1e-9)


def test_groups_have_the_means_of_the_records(vault: Vault, frame: pd.DataFrame) -> None:
    rows = vault.ask("survey", {"sex": "M"}, ANOVA("z", "race"), OPEN).frame().set_index("race")
    for level, part in frame[frame["sex"] == "M"].dropna(subset=["race", "z"]).groupby("race"):
        assert rows.loc[level, "count"] == len(part)
        assert rows.loc[level, "mean"] == pytest.approx(part["z"].mean(), rel=1e-10)
        assert rows.loc[level, "standard error"] == pytest.approx(part["z"].sem(), rel=1e-8)


def test_a_group_that_is_not_there_is_a_refusal_and_bad_calls_are_errors(vault: Vault) -> None:
    refusal = vault.ask("survey", {"sex": "F"}, TTest("income", "sex"), OPEN)
    assert not refusal
    assert refusal.rule == "few_records"
    assert not vault.ask("survey", {"sex": "F"}, Independence(("sex", "race")), OPEN)
    with pytest.raises(ParameterError, match="two variables"):
        Independence(("sex", "race", "work"))
    with pytest.raises(ParameterError, match="twice"):
        Independence(("sex", "sex"))
    with pytest.raises(ParameterError, match="two different"):
        TTest("income", "sex", between=("F", "F"))
    with pytest.raises(ParameterError, match="two levels"):
        vault.ask("survey", None, TTest("income", "work"), OPEN)
    with pytest.raises(DataError, match="level"):
        vault.ask("survey", None, TTest("income", "work", between=("full", "nine")), OPEN)
    with pytest.raises(DataError, match="numbers"):
        vault.ask("survey", None, ANOVA("sick", "sex"), OPEN)


def test_naming_the_only_two_levels_is_the_same_question(vault: Vault) -> None:
    short, long = (vault.ask("survey", None, TTest("income", "sex", between=two), OPEN) for two in ((), ("F", "M")))
    assert short.to_bytes() == long.to_bytes()
