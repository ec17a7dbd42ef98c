"""Standard errors that follow the survey's design, against the textbook's formula for strata and clusters, and against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.mas.analyses import (
    ANOVA,
    OLS,
    Correlation,
    CrossTab,
    Independence,
    Inequality,
    KaplanMeier,
    Logistic,
    Multinomial,
    OrderedLogit,
    Quantiles,
    ShareBelow,
    TTest,
)
from sfumato.mas.dataset import Dataset
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.survey_design import CorrelationSums, DesignSums, SurveyCorrelation, SurveyDesign
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

OPEN = Policy.open()
ROLES = {"house": "household", "stratum": "stratum", "weight": "weight", "y": "confidential", "sick": "confidential",
         "work": "confidential", "z": "confidential"}  # fmt: skip
BOUNDS = {"y": (0.0, 100.0), "z": (-6.0, 6.0)}


def households(seed: int = 3, count: int = 6_000, strata: int = 8) -> pd.DataFrame:
    """A superpopulation: a third of the variance of y lies between households, and a fiftieth or so between strata."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 6, count)
    house = np.repeat(np.arange(count), size)
    n, stratum = len(house), house % strata
    shared = rng.normal(size=(3, count))[:, house]
    age, car = rng.integers(18, 80, n).astype(float), rng.choice(["no", "yes"], count)[house]
    latent = 0.7 * shared[1] + 0.7 * rng.normal(size=n) + 0.01 * (age - 49)
    return pd.DataFrame({
        "house": house, "stratum": stratum.astype(str), "age": age, "car": car, "sex": rng.choice(["F", "M"], n),
        "area": [f"{a:03}" for a in rng.integers(0, 150, count)[house]], "weight": rng.uniform(1, 3, count)[house],
        "y": 50 + 10 * (0.6 * shared[0] + 0.8 * rng.normal(size=n) + 0.25 * (stratum / strata - 0.4375) * 2),
        "sick": np.where(latent > 0.5, "yes", "no"), "z": 0.5 * shared[2] + rng.normal(size=n),
        "work": np.array(["a", "b", "c"])[np.digitize(0.6 * shared[1] + 0.8 * rng.normal(size=n), [-0.4, 0.6])],
    })  # fmt: skip


def schema_of(frame: pd.DataFrame) -> Schema:
    numbers = ("age", "y", "z", "weight")
    return Schema(tuple(
        Attribute(
            c, role=ROLES.get(c, "key"), scale="ordered" if c in numbers else "unordered",
            **({"bounds": BOUNDS[c]} if c in BOUNDS else {}),
        )
        for c in frame
    ))  # fmt: skip


def vault_of(folder: Path, frame: pd.DataFrame, **settings: Any) -> tuple[Vault, Dataset]:
    Vault.create(folder, secret=Draws(5))
    vault = Vault.open(folder)
    return vault, vault.freeze("survey", Microdata(frame, schema_of(frame)), **settings)


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Dataset, pd.DataFrame]:
    frame = households()
    return *vault_of(tmp_path_factory.mktemp("design") / "vault", frame), frame


def linearised(added: np.ndarray, frame: pd.DataFrame, strata: bool = True) -> float:
    """The standard error of a sum by the textbook: totals of clusters about the mean of their stratum, all clusters counted."""
    totals = pd.Series(added).groupby(frame["house"].to_numpy()).sum()
    if not strata:
        return float(np.sqrt(len(totals) / (len(totals) - 1) * np.square(totals - totals.mean()).sum()))
    of = frame.groupby("house")["stratum"].first().loc[totals.index].to_numpy()
    return float(np.sqrt(sum(len(t) * t.var(ddof=1) for _, t in totals.groupby(of))))


def of_mean(frame: pd.DataFrame, inside: np.ndarray, name: str = "y", weighted: bool = False) -> np.ndarray:
    w = frame["weight"].to_numpy() * inside if weighted else inside.astype(float)
    y = frame[name].to_numpy()
    return np.asarray(w * (y - w @ y / w.sum()) / w.sum())


# --- what is read off at freezing


def twin(frame: pd.DataFrame, variable: Variable) -> list[float]:
    """The sums of pairs, pair by pair."""
    strata = frame["stratum"].to_numpy()
    house = frame["house"].to_numpy()
    n = len(frame)
    if variable.numeric:
        values = frame[variable.name].to_numpy()
        low, high = variable.bounds or (0.0, 0.0)
        far = 2 * variable.spread * (high - low)
        z = np.nan_to_num((np.clip(values, low, high) - variable.middle) / far)
        z = np.clip(z, -1, 1)
        products = np.outer(z, z)
        found = [float(z.sum()), float(z @ z)]
    else:
        group = np.array(variable.groups or range(len(variable.levels)))
        base = variable.base or variable
        codes = group[[base.levels.index(v) for v in frame[base.name]]]
        rows = np.eye(len(variable.levels))[codes] - np.array(variable.shares)
        products, found = rows @ rows.T, []
    same, near = house[:, None] == house, strata[:, None] == strata
    members, largest = same.sum(axis=1), near.sum(axis=1)
    smallest = np.array([members[strata == one].min() for one in strata])
    others = same & ~np.eye(n, dtype=bool)
    within = float((products * others / np.maximum(members - 1, 1)[:, None]).sum())
    between = float((products * (near & ~same) / (largest - smallest)[:, None]).sum())
    return [*found, within, *([between] if variable.numeric else [])]


def test_no_value_of_a_record_moves_a_sum_of_pairs_by_more_than_is_charged(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    house = np.repeat(np.arange(7), [1, 2, 3, 5, 1, 4, 2])
    n = len(house)
    frame = pd.DataFrame({
        "house": house, "stratum": np.where(house < 4, "A", "B"), "sex": rng.choice(["F", "M"], n),
        "y": rng.choice([0.0, 20.0, 100.0, 130.0], n),
        "work": rng.permutation(np.r_[["a", "b", "c"], rng.choice(["a", "b", "c"], n - 3, p=[0.8, 0.1, 0.1])]),
    })  # fmt: skip
    frame.loc[2, "y"] = np.nan
    recodes = (LevelRecode("job", "work", {"bc": ["b", "c"]}),)
    _, dataset = vault_of(tmp_path / "vault", frame, recodes=recodes)
    design = SurveyDesign(dataset.warehouse)
    largest = 0.0
    for name in ("y", "work", "job"):
        variable = dataset.variables[name]
        made = design.pair_sums(variable)
        assert made is not None
        assert made.sums == pytest.approx(twin(frame, variable))
        column = "y" if name == "y" else "work"
        values = [-50.0, 0.0, variable.middle, 100.0, 400.0, np.nan] if name == "y" else ["a", "b", "c"]
        for who in range(n):
            told = []
            for value in values:
                other = frame.copy()
                other.loc[who, column] = value
                told.append(twin(other, variable))
            moved = np.ptp(np.array(told), axis=0) / np.array(made.reach)
            assert (moved <= 1 + 1e-9).all()
            largest = max(largest, float(moved.max()))
    assert largest > 0.5  # and the bound is of the size that occurs
    sd = 8.0
    tables = {
        "y": 1 + 4 / 8,
        "work": 1 + 1 / 8,
        "job": 1 / 8,
    }  # a table costs 2 / sd²; a sum with twice the noise an eighth of it
    assert dataset.frozen_loss == pytest.approx(sum(tables.values()) * 2 / sd**2)


def test_correlations_in_households_are_rather_too_large_and_shares_of_strata_too_small(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    dataset = survey[1]
    rho = (0.36 + 0.0208) / (1 + 0.0208)
    y = dataset.variables["y"]
    assert rho - 0.02 < (y.household_correlation or 0) < rho + 0.1
    assert y.stratum_share < 0.0208 + 0.02
    assert dataset.variables["car"].household_correlation == 1.0
    assert (dataset.variables["sex"].household_correlation or 0) < 0.02


def test_a_sum_without_pairs_has_no_correlation_and_one_without_variance_is_taken_for_equal() -> None:
    alike = CorrelationSums((0.0, 50.0, 25.0), (1.0, 1.0, 2.0), (100.0, 100.0), None)
    assert alike.read(np.zeros(3), np.zeros(3)) == (0.5,)
    assert alike.read(np.array([0, 0, 10.0]), np.array([1, 1, 5.0])) == (0.8,)
    constant = CorrelationSums((0.0, 0.0, 0.0), (1.0, 1.0, 2.0), (100.0, 100.0), None)
    assert constant.read(np.zeros(3), np.zeros(3)) == (1.0,)


def test_an_effect_is_that_of_kish_and_a_stratum_that_is_a_cell_gains_its_share() -> None:
    own, one = np.array([30.0]), np.array([30.0])
    sums = DesignSums(own, np.array([90.0]), np.array([90.0]))  # households of three
    assert sums.effects(SurveyCorrelation(0.2)) == pytest.approx(1 + 0.2 * 2)
    drawn = DesignSums(own, one, np.array([0.0]))
    assert drawn.effects(SurveyCorrelation(0.0, 0.3)) == pytest.approx(0.7)


# --- tables and distributions


CELLS: list[tuple[CrossTab, str | None, bool, float]] = [
    (CrossTab(("sex",), of="y"), "sex", False, 1.08), (CrossTab(("car",), of="y"), "car", False, 1.10),
    (CrossTab(("car",), of="y", weighted=True), "car", True, 1.12),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "by", "weighted", "most"), CELLS)
def test_errors_of_means_are_those_of_the_textbook(
    survey: tuple[Vault, Dataset, pd.DataFrame], asked: CrossTab, by: str, weighted: bool, most: float
) -> None:
    vault, _, frame = survey
    answer = vault.ask("survey", None, asked, OPEN)
    for row in answer.frame().to_dict("records"):
        inside = np.ones(len(frame), bool) if row[by] == "Total" else (frame[by] == row[by]).to_numpy()
        exact = linearised(of_mean(frame, inside, weighted=weighted), frame)
        assert 0.95 < row["standard error"] / exact < most, row
    assert "survey's design" in " ".join(answer.notes)


def test_intervals_of_means_cover_what_they_say_and_those_without_the_design_do_not(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    vault, _, frame = survey
    rows = vault.ask("survey", None, CrossTab(("area",), of="y"), OPEN).frame()
    rows = rows[rows["area"] != "Total"]
    plain = frame.groupby("area")["y"].sem().loc[rows["area"]].to_numpy()
    off = (rows["mean"] - 50).abs().to_numpy()
    covered, without = (off < 1.96 * rows["standard error"]).mean(), (off < 1.96 * plain).mean()
    assert len(rows) == 150
    assert 0.90 < covered < 1.0  # 0.95 less three standard errors
    assert without < covered - 0.04


def test_a_confidential_condition_has_the_effect_of_the_known_part(survey: tuple[Vault, Dataset, pd.DataFrame]) -> None:
    vault, _, frame = survey
    row = vault.ask("survey", {"sick": "yes"}, CrossTab(("sex",), of="y"), OPEN).frame().iloc[-1]
    exact = linearised(of_mean(frame, (frame["sick"] == "yes").to_numpy()), frame)
    assert 0.98 < row["standard error"] / exact < 1.3


def test_errors_of_quantiles_and_shares_have_the_same_effect(survey: tuple[Vault, Dataset, pd.DataFrame]) -> None:
    vault, _, frame = survey
    median = vault.ask("survey", None, Quantiles("y", p=(0.5,)), OPEN)
    below = (frame["y"] <= frame["y"].median()).to_numpy()
    share = linearised((below - below.mean()) / len(frame), frame)
    ends = frame["y"].quantile([0.5 - 1.96 * share, 0.5 + 1.96 * share])
    exact = float(ends.iloc[1] - ends.iloc[0]) / 3.92
    assert 0.95 < median.frame()["standard error"].iloc[0] / exact < 1.15
    line = vault.ask("survey", None, ShareBelow("y", line=45.0), OPEN)
    low = (frame["y"] <= 45).to_numpy()
    exact = linearised((low - low.mean()) / len(frame), frame)
    assert 0.95 < line.frame()["standard error"].iloc[0] / exact < 1.25  # members are less alike far from the median
    for answer in (median, line, vault.ask("survey", None, Inequality("y"), OPEN)):
        assert "one by one" not in " ".join(answer.notes)


# --- models


def sandwich(x: np.ndarray, score: np.ndarray, working: np.ndarray, frame: pd.DataFrame) -> np.ndarray:
    bread = np.linalg.inv((x * working[:, None]).T @ x)
    added = x * score[:, None] @ bread
    return np.array([linearised(column, frame, strata=False) for column in added.T])


def test_errors_of_least_squares_are_those_of_the_sandwich_by_households(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    vault, _, frame = survey
    x = np.column_stack([np.ones(len(frame)), frame["car"] == "no", frame["sex"] == "M", frame["age"]]).astype(float)
    for weighted in (False, True):
        w = frame["weight"].to_numpy() if weighted else np.ones(len(frame))
        answer = vault.ask("survey", None, OLS("y ~ car + sex + age", weighted=weighted), OPEN)
        rows = {row["term"].split("[")[0]: row for row in answer.tables["coefficients"]}
        beta = np.linalg.solve((x * w[:, None]).T @ x, (x * w[:, None]).T @ frame["y"])
        exact = sandwich(x, w * (frame["y"].to_numpy() - x @ beta), w, frame)
        for name, error in zip(("C(car)", "C(sex)", "age"), exact[1:], strict=True):
            assert 0.94 < rows[name]["standard error"] / error < 1.14, (name, weighted)
        assert "survey's design" in " ".join(answer.notes)
    assert rows["C(car)"]["standard error"] > 1.2 * rows["C(sex)"]["standard error"]  # all of a household have the car


def test_errors_of_logistic_regression_are_those_of_the_sandwich_by_households(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    vault, _, frame = survey
    x = np.column_stack([np.ones(len(frame)), frame["car"] == "no", (frame["age"] - 49) / 18]).astype(float)
    y, beta = (frame["sick"] == "yes").to_numpy(float), np.zeros(3)
    for _ in range(20):
        mean = expit(x @ beta)
        beta += np.linalg.solve((x * (mean * (1 - mean))[:, None]).T @ x, x.T @ (y - mean))
    exact = sandwich(x, y - mean, mean * (1 - mean), frame)
    rows = vault.ask("survey", None, Logistic("sick ~ car + age"), OPEN).tables["coefficients"]
    errors = {row["term"].split("[")[0]: row["standard error"] for row in rows}
    assert 0.93 < errors["C(car)"] / exact[1] < 1.15
    assert 0.93 < errors["age"] * 18 / exact[2] < 1.15
    many = vault.ask("survey", None, Multinomial("work ~ car + age"), OPEN).tables["coefficients"]
    plain = vault.ask("survey", None, Multinomial("work ~ car + age", errors="classical"), OPEN).tables["coefficients"]
    ratio = {
        a["term"].split("[")[0]: a["standard error"] / b["standard error"] for a, b in zip(many, plain, strict=True)
    }
    assert ratio["C(car)"] > 1.15 > ratio["age"] > 0.99


def test_confidential_predictors_are_taken_to_be_the_same_in_a_household(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    vault, _, frame = survey
    x = np.column_stack([np.ones(len(frame)), frame["z"]])
    beta = np.linalg.lstsq(x, frame["y"], rcond=None)[0]
    exact = sandwich(x, frame["y"].to_numpy() - x @ beta, np.ones(len(frame)), frame)
    row = vault.ask("survey", None, OLS("y ~ z"), OPEN).tables["coefficients"][1]
    assert 0.98 < row["standard error"] / exact[1] < 1.6
    ordered = vault.ask("survey", None, OrderedLogit("C(work) ~ z"), OPEN).tables["coefficients"][0]
    plain = vault.ask("survey", None, OrderedLogit("C(work) ~ z", errors="classical"), OPEN).tables["coefficients"][0]
    assert 1.05 < ordered["standard error"] / plain["standard error"] < 1.5


def test_residuals_have_the_correlation_of_what_predictors_leave(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    house = np.repeat(np.arange(4_000), 3)
    n = len(house)
    x, u = rng.normal(size=n), rng.normal(size=4_000)[house]
    frame = pd.DataFrame({"house": house, "age": np.round(x, 3), "y": 50 + 8 * x + 4 * u + 4 * rng.normal(size=n)})
    vault, dataset = vault_of(tmp_path / "vault", frame)
    assert (dataset.variables["y"].household_correlation or 0) == pytest.approx(16 / 96, abs=0.07)
    row = vault.ask("survey", None, OLS("y ~ age"), OPEN).tables["coefficients"][0]
    assert row["standard error"] == pytest.approx(
        np.sqrt((16 + 16 / 3) / 4_000), rel=0.12
    )  # residuals: a half in households


# --- tests and the rest


def test_tests_divide_by_the_effect_of_the_design(survey: tuple[Vault, Dataset, pd.DataFrame]) -> None:
    vault, dataset, frame = survey
    size = frame.groupby("house").size()
    excess = float((size * (size - 1)).sum() / size.sum())
    rho = {name: dataset.variables[name].household_correlation or 0 for name in ("car", "work", "y")}
    counts = pd.crosstab(frame["car"], frame["work"]).to_numpy(float)
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    pearson = float((np.square(counts - expected) / expected).sum())
    answer = vault.ask("survey", None, Independence(("car", "work")), OPEN)
    assert answer.facts["chi square"] == pytest.approx(pearson / (1 + rho["car"] * rho["work"] * excess), rel=1e-4)
    assert "allows for households" in " ".join(answer.notes)
    t = vault.ask("survey", None, TTest("y", "car"), OPEN).facts
    apart = [
        linearised(of_mean(frame, (frame["car"] == level).to_numpy()), frame, strata=False) for level in ("no", "yes")
    ]
    assert 0.95 < t["standard error"] / np.hypot(*apart) < 1.12
    f = vault.ask("survey", None, ANOVA("y", "car", variances="unequal"), OPEN).facts
    assert f["F"] == pytest.approx(t["t"] ** 2, rel=1e-3)


def test_correlations_have_the_product_of_two_correlations(survey: tuple[Vault, Dataset, pd.DataFrame]) -> None:
    vault, _, frame = survey
    u, v = ((frame[name] - frame[name].mean()) / frame[name].std() for name in ("y", "z"))
    r = float((u * v).mean())
    exact = linearised(((u * v - r * (u * u + v * v) / 2) / len(frame)).to_numpy(), frame, strata=False)
    row = vault.ask("survey", None, Correlation(("y", "z")), OPEN).frame("pairs").iloc[0]
    assert 0.94 < row["standard error"] / exact < 1.12


def test_survival_has_the_effect_of_the_more_alike_of_time_and_event(
    survey: tuple[Vault, Dataset, pd.DataFrame],
) -> None:
    vault, dataset, frame = survey
    size = frame.groupby("house").size()
    excess = float((size * (size - 1)).sum() / size.sum())
    answer = vault.ask("survey", None, KaplanMeier(time="y", event="sick", level="yes", bins=4), OPEN)
    row = answer.frame().iloc[0]
    events, n = row["events"], row["at risk"]
    greenwood = row["survival"] * np.sqrt(events / (n * (n - events)))
    rho = max(dataset.variables[name].household_correlation or 0 for name in ("y", "sick"))
    assert row["standard error"] == pytest.approx(greenwood * np.sqrt(1 + rho * excess), rel=0.01)


# --- where there is no design


def test_households_of_one_change_no_error_and_without_them_the_design_is_refused(tmp_path: Path) -> None:
    frame = households(count=300).drop(columns=["stratum", "weight"])
    single = frame.assign(house=np.arange(len(frame)))
    plain = frame.drop(columns="house")
    answers = []
    for name, data in (("single", single), ("plain", plain)):
        vault, _ = vault_of(tmp_path / name, data)
        asked = (CrossTab(("sex",), of="y"), OLS("y ~ age"), Quantiles("y"))
        answers.append([vault.ask("survey", None, one, OPEN) for one in asked])
    for one, other in zip(*answers, strict=True):
        a, b = one.frame(), other.frame()
        assert a["standard error"].to_numpy() == pytest.approx(b["standard error"].to_numpy(), rel=1e-6)
    assert "one by one" in " ".join(answers[1][2].notes)
    with pytest.raises(ParameterError, match="no households"):
        vault.ask("survey", None, OLS("y ~ age", errors="design"), OPEN)


# --- engines


def test_spark_has_the_same_correlations_and_the_same_bytes(spark: Any, tmp_path: Path) -> None:
    frame = households(count=400).drop(columns="area").assign(person=lambda f: np.arange(len(f)))
    described = Schema((*schema_of(frame.drop(columns="person")), Attribute("person", role="identifier")))
    found = []
    for name, data in (("here", frame), ("there", spark.createDataFrame(frame).repartition(3))):
        Vault.create(tmp_path / name, secret=Draws(5), spark=spark)
        vault = Vault.open(tmp_path / name, spark=spark)
        dataset = vault.freeze("survey", Microdata(data, described), identity="person")
        crossed = dataset.warehouse.crossed
        asked = (CrossTab(("car",), of="y", weighted=True), OLS("y ~ age + car"), Logistic("sick ~ age"))
        answers = [vault.ask("survey", None, one, policy) for one in asked for policy in (None, OPEN)]
        assert dataset.warehouse.crossed - crossed < 300  # aggregates, of 1,200 records
        found.append(([(v.household_correlation, v.stratum_share) for v in dataset.variables.values()], answers))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        errors = [answer.frame()["standard error"].to_numpy() for answer in (one, other)]
        assert errors[0] == pytest.approx(errors[1], rel=1e-12)
        exact = (
            one.policy == OPEN.label and one.analysis != "cross_tab"
        )  # models of 15 digits depend on the order of adding
        assert exact or one.to_bytes() == other.to_bytes()
