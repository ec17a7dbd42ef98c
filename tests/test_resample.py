"""Drawing records afresh, for utilities about the population."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata, ru_map
from sfumato.masks import KimNoise
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility


def homes(sizes: list[int], number: str = "int") -> Microdata:
    home = np.repeat(np.arange(len(sizes)), sizes)
    rent = np.random.default_rng(3).normal(10, 2, len(sizes))[home]
    frame = pd.DataFrame(
        {"home": home if number == "int" else [f"h{k}" for k in home], "rent": rent, "who": np.arange(len(home))}
    )
    return Microdata(
        frame,
        Schema((
            Attribute("home", role="household", scale="unordered"),  # type: ignore[arg-type]
            Attribute("rent", role="confidential", level="household"),  # type: ignore[arg-type]
            Attribute("who", role="other"),  # type: ignore[arg-type]
        )),
    )  # fmt: skip


@pytest.mark.parametrize("number", ["int", "text"])
def test_whole_households_are_drawn_and_each_copy_is_a_household_of_its_own(number: str) -> None:
    data = homes([1, 2, 3, 4, 2], number)
    before = pd.DataFrame({"home": np.repeat(np.arange(5), [1, 2, 3, 4, 2]), "who": np.arange(12)})
    members = {frozenset(g["who"]) for _, g in before.groupby("home")}
    after = data.resample(np.random.default_rng(8)).to_native()
    drawn = after.groupby("home")["who"].apply(frozenset)
    assert len(drawn) == 5
    assert set(drawn) <= members
    assert drawn.duplicated().any()  # with this seed some household is there twice, under two numbers


def test_without_households_single_records_are_drawn() -> None:
    plain = Microdata(pd.DataFrame({"x": np.arange(50.0)}), Schema((Attribute("x", role="confidential"),)))  # type: ignore[arg-type]
    drawn = plain.resample(np.random.default_rng(1)).numbers("x")
    np.testing.assert_array_equal(drawn, np.random.default_rng(1).integers(0, 50, 50))


def test_records_without_a_household_number_are_drawn_one_by_one() -> None:
    frame = pd.DataFrame({"home": [1.0, 1.0, None, None, None], "x": np.arange(5.0)})
    schema = Schema((Attribute("home", role="household", scale="unordered"), Attribute("x", role="confidential")))  # type: ignore[arg-type]
    after = Microdata(frame, schema).resample(np.random.default_rng(2)).to_native()
    assert after["home"].nunique() == 4  # one household of two, and three records alone
    assert set(after.groupby("home")["x"].apply(tuple)) <= {(0.0, 1.0), (2.0,), (3.0,), (4.0,)}


def test_the_error_of_a_household_mean_is_that_of_its_households() -> None:
    """Var(mean) = (σ² + λ²σ²)/H over H equal households: copies must not share noise, nor count as more households."""
    data, level = homes([2] * 400), 0.8
    m = ru_map(
        data,
        KimNoise(columns=("rent",)),
        {"kim_noise.lambda2": [level]},
        "rent",
        EstimatorUtility("rent"),
        replications=1500,
        draws=4,
    )
    variance = float(np.var(data.numbers("rent")[::2]))
    expected = 1 / ((1 + level) * variance / 400)
    assert set(m.frame()[m.frame().side == "utility"].source) == {
        "empirical"
    }  # the formula takes persons as independent
    value, interval = m.estimate(1, 0)
    assert interval is not None
    assert value == pytest.approx(expected, rel=4 * np.sqrt(2 / 1500))  # four standard errors of a mean of squares
