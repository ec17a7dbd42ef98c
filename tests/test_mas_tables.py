"""Tables without perturbation against pandas and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_people import EXACT, people, vault_of

from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import CrossTab
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


def test_questions_that_make_no_sense_are_refused_with_the_way_forward(tmp_path: Path, vault: Vault) -> None:
    with pytest.raises(DataError, match="Did you mean 'income'"):
        vault.ask("survey", None, CrossTab(("sex",), of="incme"), EXACT)
    with pytest.raises(DataError, match="does not hold numbers"):
        vault.ask("survey", None, CrossTab(("sex",), of="sick"), EXACT)
    with pytest.raises(DataError, match="has no levels"):
        vault.ask("survey", None, CrossTab(("change",)), EXACT)
    with pytest.raises(ParameterError, match="twice"):
        CrossTab(("sex", "sex"))
    empty = people(400)
    empty["change"] = np.nan
    other = vault_of(tmp_path / "v", empty)
    with pytest.raises(DataError, match="no values to add up"):
        other.ask("survey", None, CrossTab(("sex",), of="change"), EXACT)


def test_the_same_question_in_other_words_has_the_same_wording() -> None:
    assert CrossTab(["sex"], of="income").wording() == CrossTab(("sex",), of="income").wording()
