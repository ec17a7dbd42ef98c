"""Tables without perturbation against pandas and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_people import EXACT, people, vault_of

from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import CrossTab, Histogram, Quantiles
from sfumato.mas.answer import Answer
from sfumato.mas.vault import Vault

UNIVERSE = {"sex": "F", "sick": "yes"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", frame)


def inside(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame["sex"] == "F") & (frame["sick"] == "yes")]


def cells(chosen: pd.DataFrame, by: tuple[str, ...], answer: Answer) -> list[tuple[Any, pd.DataFrame]]:
    """Return each row of an answer with the records that it is about."""
    out = []
    for _, row in answer.frame().iterrows():
        part = chosen
        for side in by:
            part = part if row[side] == "Total" else part[part[side] == row[side]]
        out.append((row, part))
    return out


def ratio_and_error(values: pd.Series, weights: pd.Series) -> tuple[float, float]:
    """A weighted mean and its standard error by linearisation, record by record."""
    mean = float((values * weights).sum() / weights.sum())
    z = weights * (values - mean) / weights.sum()
    return mean, float(np.sqrt(len(z) / (len(z) - 1) * (z**2).sum()))


@pytest.mark.parametrize("variable", ["income", "change", "age"])
def test_means_sums_and_their_errors_are_those_of_pandas(vault: Vault, frame: pd.DataFrame, variable: str) -> None:
    by = ("state", "sex")
    answer = vault.ask("survey", {"sick": "yes"}, CrossTab(by, of=variable), EXACT)
    for row, part in cells(frame[frame["sick"] == "yes"], by, answer):
        assert row["count"] == len(part)
        assert row["mean"] == pytest.approx(part[variable].mean(), rel=1e-12)
        assert row["sum"] == pytest.approx(part[variable].sum(), rel=1e-12)
        assert row["standard error"] == pytest.approx(part[variable].sem(), rel=1e-12)
    assert any("without a value" in note for note in answer.notes) == (variable == "income")


@pytest.mark.parametrize("variable", ["income", "change"])
def test_weighted_means_and_sums_are_those_of_numpy(vault: Vault, frame: pd.DataFrame, variable: str) -> None:
    answer = vault.ask("survey", UNIVERSE, CrossTab(("state",), of=variable, weighted=True), EXACT)
    for row, part in cells(inside(frame), ("state",), answer):
        assert row["count"] == pytest.approx(part["weight"].sum(), rel=1e-12)
        part = part.dropna(subset=[variable])
        mean, error = ratio_and_error(part[variable], part["weight"])
        assert row["mean"] == pytest.approx(mean, rel=1e-12)
        assert row["standard error"] == pytest.approx(error, rel=1e-12)
        assert row["sum"] == pytest.approx((part[variable] * part["weight"]).sum(), rel=1e-12)


def test_a_weighted_mean_has_the_error_that_statsmodels_gives_a_regression_on_one(
    vault: Vault, frame: pd.DataFrame
) -> None:
    import statsmodels.api as sm

    part = frame.dropna()
    fit = sm.WLS(part["income"], np.ones(len(part)), weights=part["weight"]).fit(cov_type="HC1")
    row = vault.ask("survey", None, CrossTab(("sex",), of="income", weighted=True), EXACT).frame().iloc[-1]
    assert row["mean"] == pytest.approx(fit.params.iloc[0], rel=1e-11)
    assert row["standard error"] == pytest.approx(fit.bse.iloc[0], rel=1e-11)


def test_an_outlier_does_not_spoil_the_standard_errors_of_other_cells(tmp_path: Path, frame: pd.DataFrame) -> None:
    frame = frame.copy()
    frame.loc[0, ["income", "state"]] = [3.1e9, "S00"]
    vault = vault_of(tmp_path / "v", frame)
    answer = vault.ask("survey", None, CrossTab(("state",), of="income"), EXACT)
    for row, part in cells(frame, ("state",), answer):
        assert row["mean"] == pytest.approx(part["income"].mean(), rel=1e-12)
        assert row["standard error"] == pytest.approx(part["income"].sem(), rel=1e-11)


def test_cells_without_records_have_no_mean(vault: Vault) -> None:
    answer = vault.ask("survey", {"sex": "F"}, CrossTab(("sex",), of="income"), EXACT)
    row = answer.frame().set_index("sex").loc["M"]
    assert row["count"] == 0
    assert row[["mean", "standard error", "sum"]].isna().all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variable", ["income", "change", "age"])
def test_quantiles_are_the_inverse_of_the_distribution_function(
    vault: Vault, frame: pd.DataFrame, variable: str, weighted: bool
) -> None:
    shares = (0.01, 0.1, 0.25, 0.5, 1 / 3, 0.99)
    answer = vault.ask("survey", UNIVERSE, Quantiles(variable, p=shares, by=("state",), weighted=weighted), EXACT)
    for row, part in cells(inside(frame), ("state",), answer):
        part = part.dropna(subset=[variable])
        weights = {"weights": part["weight"].to_numpy()} if weighted else {}
        wanted = np.quantile(part[variable].to_numpy(), row["p"], method="inverted_cdf", **weights)
        assert row["value"] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_have_the_counts_of_the_cutpoints(vault: Vault, frame: pd.DataFrame, weighted: bool) -> None:
    found = vault.ask("survey", UNIVERSE, Histogram("income", weighted=weighted), EXACT).frame()
    part = inside(frame)
    bins = pd.cut(part["income"], [-np.inf, 10_000, 20_000, 40_000, 80_000, np.inf])
    wanted = part.groupby(bins, observed=False)["weight"].agg("sum" if weighted else "size")
    assert found["count"].to_numpy() == pytest.approx(wanted.to_numpy(), rel=1e-12)
    assert found["up to"].dropna().tolist() == [10_000, 20_000, 40_000, 80_000]


def test_a_variable_without_cutpoints_has_a_histogram_of_round_edges(vault: Vault, frame: pd.DataFrame) -> None:
    found = vault.ask("survey", None, Histogram("change", bins=8), EXACT).frame()
    edges = found["up to"].dropna().to_numpy()
    assert 4 <= len(edges) <= 8
    assert (np.diff(edges) > 0).all()
    assert np.allclose(edges * 2, np.round(edges * 2))  # halves at most, though the values are tenths
    wanted = np.histogram(-frame["change"], np.r_[-np.inf, -edges[::-1], np.inf])[0][::-1]  # bins closed above
    assert found["count"].tolist() == wanted.tolist()


def test_ends_of_a_histogram_are_merged_until_enough_records_lie_beyond(vault: Vault, frame: pd.DataFrame) -> None:
    policy = EXACT.with_(counts=EXACT.counts.with_(beyond=60))
    found = vault.ask("survey", {"state": "S01", "sex": "F"}, Histogram("income", by=("sick",)), policy).frame()
    for sick, part in found.groupby("sick"):
        assert part["count"].iloc[0] >= 60
        assert part["count"].iloc[-1] >= 60
        chosen = frame[(frame["state"] == "S01") & (frame["sex"] == "F")].dropna()
        chosen = chosen if sick == "Total" else chosen[chosen["sick"] == sick]
        assert part["count"].sum() == len(chosen)
        for _, row in part.iterrows():
            low, high = np.nan_to_num(row["over"], nan=-np.inf), np.nan_to_num(row["up to"], nan=np.inf)
            assert row["count"] == ((chosen["income"] > low) & (chosen["income"] <= high)).sum()


def test_questions_that_make_no_sense_are_refused_with_the_way_forward(tmp_path: Path, vault: Vault) -> None:
    with pytest.raises(DataError, match="Did you mean 'income'"):
        vault.ask("survey", None, CrossTab(("sex",), of="incme"), EXACT)
    with pytest.raises(DataError, match="does not hold numbers"):
        vault.ask("survey", None, Quantiles("sick"), EXACT)
    with pytest.raises(DataError, match="has no levels"):
        vault.ask("survey", None, CrossTab(("change",)), EXACT)
    with pytest.raises(ParameterError, match="above 0 and below 1"):
        Quantiles("income", p=(0.5, 1.0))
    with pytest.raises(ParameterError, match="twice"):
        CrossTab(("sex", "sex"))
    empty = people(400)
    empty["change"] = np.nan
    other = vault_of(tmp_path / "v", empty)
    for analysis in (CrossTab(("sex",), of="change"), Quantiles("change"), Histogram("change")):
        with pytest.raises(DataError, match="values"):
            other.ask("survey", None, analysis, EXACT)


def test_the_same_question_in_other_words_has_the_same_wording() -> None:
    assert Quantiles("income", p=(0.5, 0.25, 0.5)).wording() == Quantiles("income", p=[0.25, 0.5]).wording()
    assert CrossTab(["sex"], of="income").wording() == CrossTab(("sex",), of="income").wording()
