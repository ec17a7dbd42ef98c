"""Estimates with survey weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from sfumato import Microdata, ru_map
from sfumato.errors import DataError, ParameterError
from sfumato.masks import KimNoise
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility, Formula, Mean, MeanCombination, Slope

ROLES = {"pay": "confidential", "rent": "confidential", "age": "key", "region": "key", "w": "weight"}


def frame(n: int = 400) -> pd.DataFrame:
    g = np.random.default_rng(7)
    age = g.integers(20, 65, n)
    pay = 10 + 0.5 * age + g.normal(0, 4, n)
    pay[::17] = np.nan
    w = g.uniform(0, 30, n)
    w[::11] = 0
    return pd.DataFrame({"pay": pay, "rent": g.normal(8, 2, n), "age": age, "region": g.choice(["n", "s"], n), "w": w})


def data(table: pd.DataFrame) -> Microdata:
    scale = {"region": "unordered"}
    attributes = [Attribute(n, role=ROLES[n], scale=scale.get(n, "ordered")) for n in table.columns]  # type: ignore[arg-type]
    return Microdata(table, Schema(tuple(attributes)))


def test_a_weighted_mean_counts_each_record_by_its_weight() -> None:
    t = frame()
    known = t.dropna()
    assert Mean("pay", weighted=True).estimate(data(t), {}) == pytest.approx(np.average(known.pay, weights=known.w))
    difference = MeanCombination({"pay": 1, "rent": -1}, weighted=True).estimate(data(t), {})
    assert difference == pytest.approx(np.average(known.pay - known.rent, weights=known.w))


def test_weighted_slopes_and_coefficients_are_those_of_statsmodels() -> None:
    t = frame()
    fit = smf.wls("pay ~ age + C(region)", t, weights=t.w).fit()
    assert Formula("pay ~ age + C(region)", "age", weighted=True).estimate(data(t), {}) == pytest.approx(
        fit.params["age"]
    )
    plain = smf.wls("pay ~ age", t, weights=t.w).fit().params["age"]
    assert Slope("pay", "age", weighted=True).estimate(data(t), {}) == pytest.approx(plain)


def test_a_weight_of_two_is_a_record_that_stands_twice() -> None:
    t = frame(40).assign(w=lambda d: 1.0 + (d.index % 2))
    twice = t.loc[t.index.repeat(t.w.astype(int))].reset_index(drop=True)
    for weighted, plain in (
        (Mean("pay", weighted=True), Mean("pay")),
        (Slope("pay", "age", weighted=True), Slope("pay", "age")),
        (Formula("pay ~ age + rent", "rent", weighted=True), Formula("pay ~ age + rent", "rent")),
    ):
        assert weighted.estimate(data(t), {}) == pytest.approx(plain.estimate(data(twice), {}))


def test_a_weighted_utility_says_so_and_has_no_formula() -> None:
    utility = EstimatorUtility(Mean("rent", weighted=True))
    m = ru_map(
        data(frame()),
        KimNoise(columns=("rent",)),
        {"kim_noise.lambda2": [0.2]},
        "rent",
        utility,
        replications=5,
        draws=1,
    )
    rows = m.frame()[m.frame().side == "utility"]
    assert set(rows.source) == {"empirical"}
    assert set(rows.measure) == {"mean rent, weighted"}
    assert set(rows.variant) == {"target = population, weighted"}


def test_weighted_estimates_are_written_and_read_as_tables() -> None:
    for estimator in (
        Mean("pay", weighted=True),
        Slope("pay", "age", weighted=True),
        Formula("pay ~ age", weighted=True),
    ):
        assert type(estimator).from_dict(estimator.to_dict()) == estimator


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, -1.0, 2.0, 1.0, 1.0], "missing, negative or infinite"),
        ([1.0, None, 2.0, 1.0, 1.0], "missing, negative or infinite"),
        ([0.0] * 5, "all survey weights in 'w' are zero"),
    ],
)
def test_weights_that_cannot_be_used_are_refused_in_a_sentence(weights: list[float], sentence: str) -> None:
    table = pd.DataFrame({"pay": [1.0, 2, 3, 4, 5], "w": weights})
    with pytest.raises(DataError, match=sentence):
        Mean("pay", weighted=True).estimate(data(table), {})


def test_without_weights_in_the_schema_a_weighted_estimate_is_refused() -> None:
    bare = data(frame()[["pay", "age"]])
    with pytest.raises(DataError, match="role 'weight'"):
        EstimatorUtility(Mean("pay", weighted=True)).prepare(bare)
    with pytest.raises(ParameterError, match="must be true or false"):
        Mean("pay", weighted="yes")  # type: ignore[arg-type]


def test_the_command_line_weights_every_estimate_on_demand(tmp_path: Path) -> None:
    table = frame()
    table.to_csv(tmp_path / "a.csv", index=False)
    masked = table.assign(pay=table.pay + np.where(table.w > 15, 3.0, 0.0))
    masked.to_csv(tmp_path / "b.csv", index=False)
    data(table).schema.write(tmp_path / "s.toml")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    options = ["--estimator", "pay", "--weighted", "--schema", str(tmp_path / "s.toml"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "utility", *files, *options], capture_output=True, text=True, check=True
    )
    known = table.dropna()
    error = 3 * known.w[known.w > 15].sum() / known.w.sum()
    (found,) = json.loads(done.stdout)["estimates"]
    assert found["estimator"] == "mean pay, weighted"
    assert found["error"] == pytest.approx(error)
