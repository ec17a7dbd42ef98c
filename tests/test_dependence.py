"""Columns that determine others are found, said, carried along by masks, and seen by the risk of an attribute."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata
from sfumato.contract import Release
from sfumato.errors import DataError, SchemaError
from sfumato.masks import KimNoise, SuppressColumns
from sfumato.risk import AttributeRisk, risk_profile
from sfumato.schema import Schema
from sfumato.schema.formula import ColumnFormula


def pay(n: int = 311, seed: int = 58) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    wage = np.round(np.exp(rng.normal(7.5, 0.6, n)), 2)
    other = np.round(rng.exponential(250, n), 2)
    branch = rng.choice(["mill", "mine", "shop", "farm", "bank"], n)
    return pd.DataFrame(
        {
            "branch": branch,
            "sector": [{"mill": "II", "mine": "I", "farm": "I"}.get(b, "III") for b in branch],
            "wage": wage,
            "other pay": other,
            "log_wage": np.log(wage).round(5),
            "all pay": (wage + other).round(2),
            "net": (0.65 * wage + 40).round(2),
        }
    )


def test_a_schema_that_is_guessed_says_which_columns_others_determine_and_lets_them_follow() -> None:
    schema = Schema.guess(pay())
    follows = {a.name: a.follows for a in schema if a.follows is not None}
    assert follows == {
        "sector": "branch",
        "log_wage": "log(wage)",
        "all pay": "wage + `other pay`",
        "net": "0.65 * wage + 40",
    }
    assert "It equals log(wage)." in schema["log_wage"].reason
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize("seed", range(8))
def test_columns_that_were_drawn_independently_follow_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 150
    frame = pd.DataFrame(
        {
            "income": rng.normal(30, 5, n).round(1),
            "rent": rng.normal(9, 2, n).round(1),
            "debt": rng.integers(0, 400, n),
            "region": rng.choice(list("abcd"), n),
            "sex": rng.choice(["m", "f"], n),
            "rare": np.where(np.arange(n) == 7, "yes", "no"),
        }
    )
    frame = pd.concat([frame, frame.iloc[[3, 9]]], ignore_index=True)  # records that stand twice
    assert not [a.name for a in Schema.guess(frame) if a.follows is not None]


def test_a_relation_that_one_late_record_breaks_is_not_claimed() -> None:
    frame = pay(5_400)
    frame.loc[5_300, ["all pay", "log_wage", "sector"]] = [1.0, 1.0, "IV"]
    assert {a.name for a in Schema.guess(frame) if a.follows is not None} == {"net"}


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_column_that_follows_a_formula_is_worked_out_from_what_is_released(engine: str, tmp_path: Path) -> None:
    pay().to_csv(tmp_path / "pay.csv", index=False)
    data = Microdata.read(tmp_path / "pay.csv", engine=engine)
    made = KimNoise(columns=("wage",), lambda2=0.3).apply(data, Draws(5)).masked
    wage, total, log = made.numbers("wage"), made.numbers("all pay"), made.numbers("log_wage")
    assert (np.abs(wage - data.numbers("wage")) > 1).mean() > 0.9
    assert total == pytest.approx(wage + data.numbers("other pay"), abs=0.0051)
    positive = wage > 0
    assert log[positive] == pytest.approx(np.log(wage[positive]), abs=0.000_006)
    assert np.isnan(log[~positive]).all()


def test_masks_without_named_columns_change_what_others_follow_and_not_the_followers() -> None:
    made = KimNoise(lambda2=0.3).apply(Microdata(pay()), Draws(6)).masked
    assert made.numbers("all pay") == pytest.approx(made.numbers("wage") + made.numbers("other pay"), abs=0.0051)


def test_a_column_is_suppressed_with_every_formula_that_it_stands_in() -> None:
    made = SuppressColumns(columns=("wage",)).apply(Microdata(pay()), Draws(1)).masked
    assert made.schema.names() == ("branch", "sector", "other pay")


def test_a_formula_that_does_not_hold_is_refused() -> None:
    data = Microdata(pay())
    data = data.with_schema(data.schema.change("net", follows="0.7 * wage + 40"))
    with pytest.raises(DataError, match=r"'net' is said to follow '0.7 \* wage \+ 40', but in 311 records"):
        KimNoise(columns=("wage",), lambda2=0.3).apply(data, Draws(1))


@pytest.mark.parametrize(
    ("column", "told"), [("wage", "log_wage"), ("log_wage", "wage"), ("all pay", "other pay"), ("other pay", "all pay")]
)
def test_the_risk_of_a_column_sees_what_the_others_tell(column: str, told: str) -> None:
    frame = pay()
    masked = frame.copy()
    masked[column] = masked[column] + np.random.default_rng(2).normal(0, masked[column].std(), len(frame))
    data = Microdata(frame)
    score = AttributeRisk(column).score(Release.of(data, Microdata(masked, data.schema), align="rows"))
    assert score.value > 1 / (1e-3 * frame[column].std()) ** 2
    assert "since" in score.words
    assert told in score.words.split("since")[1]


def test_the_risk_of_a_column_that_no_other_tells_is_its_mean_squared_error() -> None:
    frame = pay()[["wage", "other pay", "branch"]]
    masked = frame.copy()
    masked["wage"] += 10.0
    score = AttributeRisk("wage").score(Release.of(Microdata(frame), Microdata(masked), align="rows"))
    assert score.value == pytest.approx(1 / 100)
    assert not math.isinf(score.value)


def test_a_risk_profile_names_the_functions_and_those_that_no_mask_carries_along() -> None:
    data = Microdata(pay())
    told = " ".join(risk_profile(Release.of(data, data, align="rows")).verdict)
    assert "all pay equals wage + `other pay`" in told
    assert "as the schema says" in told
    schema = data.schema.change("log_wage", follows=None)
    told = " ".join(risk_profile(Release.of(data.with_schema(schema), data, align="rows")).verdict)
    assert "The schema does not say so of log_wage" in told


def test_formulas_know_signs_powers_functions_and_names_in_backticks() -> None:
    formula = ColumnFormula("-2 * sqrt(`a b`) + c ** 2 / 4 - (1 - c)")
    assert formula.columns == ("a b", "c")
    assert formula({"a b": np.array([9.0]), "c": np.array([4.0])}).tolist() == [1.0]


@pytest.mark.parametrize(
    "text", ["wage +", "__import__('os')", "wage.real", "[wage]", "wage if 1 else 2", "1 + 2", "cosh(wage)"]
)
def test_what_is_no_formula_of_columns_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        ColumnFormula(text)
