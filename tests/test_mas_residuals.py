"""Residuals asked of a vault: pictures from protected counts that show bad models and rarely blame right ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers
from mas_cases import UNLIMITED, vault_of
from mas_survey import microdata, survey

from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import OLS, Logistic, Multinomial, Residuals
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.models.products import ONE, Factors, MonomialRows
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.sums import Confidential, SumsRequest, TotalSums
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault

EXACT = Policy.open()
HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    folder = tmp_path_factory.mktemp("vault") / "v"
    vault = Vault.create(folder, secret=Draws("residuals"))
    vault.freeze("survey", microdata(survey(4_000)))
    return vault


def ask(vault: Vault, analysis: Any, universe: Any = None, policy: Policy = HARDENED) -> Answer:
    found = vault.ask(vault.names()[0], universe, analysis, policy)
    assert isinstance(found, Answer), str(found)
    return found


# -- faithful


@pytest.mark.parametrize("runs", [8, pytest.param(60, marks=pytest.mark.verify)])
@pytest.mark.parametrize("predictor", ["x", "hidden"])
def test_bad_models_are_seen_and_right_ones_are_rarely_blamed(tmp_path: Path, runs: int, predictor: str) -> None:
    """Each data set is a universe of 1,000 records; predictors are known, or confidential."""
    n = 1_000
    for kind in ("right", "curved", "uneven"):
        rng = np.random.default_rng(7)
        x, e = rng.normal(size=runs * n), rng.normal(size=runs * n)
        y = 1 + x + (0.35 * x**2 + e if kind == "curved" else e * np.exp(0.4 * x) if kind == "uneven" else e)
        data = pd.DataFrame({"run": [f"r{i // n}" for i in range(runs * n)], "x": x, "y": y, "hidden": x})
        vault = vault_of(tmp_path / kind, data, {"y": "confidential", "hidden": "confidential"})
        found = []
        for i in range(runs):
            facts = ask(vault, Residuals(f"y ~ {predictor}"), {"run": [f"r{i}"]}).facts
            found.append((facts["p of curve"] < 0.05, facts["p of spread"] < 0.05))
        curved, uneven = np.mean(found, axis=0)
        assert {"right": max(curved, uneven) <= 0.26, "curved": curved >= 0.87, "uneven": uneven >= 0.87}[kind]


@pytest.mark.parametrize("runs", [8, pytest.param(60, marks=pytest.mark.verify)])
def test_bent_logistic_models_are_seen_and_right_ones_are_rarely_blamed(tmp_path: Path, runs: int) -> None:
    n, share = 2_000, {}
    for bend in (0.0, 0.6):
        rng = np.random.default_rng(3)
        x = rng.normal(size=runs * n)
        came = rng.random(runs * n) < 1 / (1 + np.exp(-(x + bend * (x**2 - 1))))
        data = pd.DataFrame(
            {"run": [f"r{i // n}" for i in range(runs * n)], "x": x, "sick": np.where(came, "yes", "no")}
        )
        vault = vault_of(tmp_path / f"v{bend}", data, {"sick": "confidential"})
        asked = Residuals("sick ~ x", model="logistic", against="x")
        found = [ask(vault, asked, {"run": [f"r{i}"]}).facts["p of sick = yes"] for i in range(runs)]
        share[bend] = np.mean(np.array(found) < 0.05)
    assert share[0.0] <= 0.26
    assert share[0.6] >= 0.85


def test_without_noise_means_in_bins_are_those_of_the_model(vault: Vault) -> None:
    import statsmodels.api as sm

    frame = survey(4_000)
    came = (frame["sick"] == "yes").to_numpy(float)
    p = sm.Logit(came, sm.add_constant(frame["age"].to_numpy())).fit(disp=0).predict()
    shown = ask(vault, Residuals("sick ~ age", model="logistic"), policy=EXACT).frame()
    assert len(shown) >= 5
    edges = np.array([0.01, 0.02, 0.05, *np.arange(0.1, 0.91, 0.05), 0.95, 0.98, 0.99])
    bins = np.searchsorted(edges, p)
    means = pd.DataFrame({"rest": came - p, "p": p, "bin": bins}).groupby("bin").agg(["mean", "count"])
    alone = 0
    for _, row in means.iterrows():
        near = shown.iloc[(shown["x"] - row["p", "mean"]).abs().argmin()]
        if abs(near["x"] - row["p", "mean"]) > 6e-4:  # it was put together with others
            continue
        alone += 1
        assert near["residual"] == pytest.approx(row["rest", "mean"], abs=1e-4)
        share, n = row["p", "mean"], row["rest", "count"]
        assert near["band"] == pytest.approx(2 * np.sqrt(share * (1 - share) / n), rel=0.03)
    assert alone >= 3


def test_points_have_the_shape_of_the_residuals(vault: Vault) -> None:
    frame = survey(4_000)
    shown = ask(vault, Residuals("income ~ age", against="age"), policy=EXACT).frame()
    assert shown["residual"].skew() > 0.3  # incomes are
    assert shown["x"].quantile([0.25, 0.75]).tolist() == pytest.approx(frame["age"].quantile([0.25, 0.75]), abs=5)
    assert shown["residual"].std() == pytest.approx(1, rel=0.2)
    told = ask(vault, Residuals("income ~ age + race", against="race"))
    assert set(told.frame()["x"]) == {"A", "B", "O", "W"}
    assert "p of levels" in told.facts


def test_a_level_that_the_model_forgot_is_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    group, x = rng.choice(list("abc"), 3_000), rng.normal(size=3_000)
    data = pd.DataFrame(
        {"g": group, "x": x, "y": x + (group == "b") * x * 2 + rng.normal(size=3_000), "w": rng.uniform(1, 3, 3_000)}
    )
    vault = vault_of(tmp_path / "v", data, {"y": "confidential", "w": "weight"})
    for weighted in (False, True):
        told = ask(vault, Residuals("y ~ x + g", against="g", weighted=weighted))
        assert told.facts["p of spread"] < 0.01  # slopes differ, so that residuals of b are wider
        assert told.frame().groupby("x")["residual"].std().idxmax() == "b"


# -- the same again


def test_the_same_picture_for_every_wording_and_process(vault: Vault) -> None:
    first = ask(vault, Residuals("log(income) ~ age + sex")).to_bytes()
    again = Vault.open(vault.folder)
    assert again.ask("survey", None, Residuals("log(income) ~ C(sex) + age"), HARDENED, user="b").to_bytes() == first


def test_one_noise_serves_both_outcomes_of_two(vault: Vault) -> None:
    yes, no = (ask(vault, Residuals("sick ~ age", model="logistic", event=e)).frame() for e in ("yes", "no"))
    assert (no["residual"] == -yes["residual"]).all()
    assert no["x"].to_numpy() == pytest.approx(1 - yes["x"])
    both = ask(vault, Residuals("sick ~ age", model="multinomial"))
    assert list(both.tables) == ["sick = no", "sick = yes"]
    pd.testing.assert_frame_equal(both.frame("sick = yes"), yes)
    told = ask(vault, Residuals("work ~ age + sex", model="multinomial"))
    assert sorted(told.tables) == ["work = full", "work = none", "work = part"]


# -- rules and losses


@pytest.mark.parametrize(
    ("model", "universe"),
    [
        (OLS("income ~ age + square(age) + sqrt(age)"), None), (OLS("income ~ age"), {"race": ["O"]}),
        (OLS("income ~ sex*race*age*z"), None), (Logistic("sick ~ age*sex*race*z"), None),
        (Multinomial("work ~ age"), {"race": ["O"]}),
    ],
)  # fmt: skip
def test_every_refusal_of_the_model_is_one_of_its_picture(vault: Vault, model: Any, universe: Any) -> None:
    expected = vault.ask("survey", universe, model, HARDENED)
    assert isinstance(expected, Refusal)
    asked = Residuals(model.formula, weighted=model.weighted, model=model.name)
    found = vault.ask("survey", universe, asked, HARDENED)
    assert isinstance(found, Refusal)
    assert dataclasses.replace(found, nearest=None) == dataclasses.replace(expected, nearest=None)


class Shares(MonomialRows):
    """Three bins of a record's level, in which it has more than one share by mistake, if `wrong`."""

    def __init__(self, codes: str, wrong: bool) -> None:
        self.codes, self.wrong = codes, wrong

    @property
    def columns(self) -> list[str]:
        return [self.codes]

    def __call__(self, piece: Any) -> np.ndarray:
        made = (np.arange(3)[:, None] == np.asarray(piece[self.codes])).astype(float)
        return made + (1.0 if self.wrong else 0.0)


def test_a_record_of_shares_pays_for_the_two_that_it_moves_and_more_than_one_share_is_cut(vault: Vault) -> None:
    """μ² = 2 / σ² by enumeration: a record leaves one of three bins for another; the others stay."""
    data = vault.dataset("survey")
    work = data.variables["work"]
    nothing = Factors((), (), data.variables, ())
    policy = EXACT.set({"models.sd": 4.0, "amounts.clip": True})
    found = {}
    for wrong in (False, True):
        part = TotalSums(
            f"shares {wrong}", MonomialRows(nothing, True, [ONE]), Shares(work.codes_column, wrong), (Confidential(0, 1, 0.5),) * 3,
            ((0, 0), (0, 1), (0, 2)), (work,), (), exclusive=True,
        )  # fmt: skip
        question = Question(data.codebook, policy, Universe.of(None), OLS("income ~ age"))
        sums, (loss,) = Mechanism(data, policy, question).protect(SumsRequest({"s": part}))
        assert float(loss.amounts) == pytest.approx(2 / 16, rel=0.1)  # squares are found to a factor of 2^(1/16)
        found[wrong] = sums.totals("s").values.sum()
    assert found[False] == pytest.approx(4_000, abs=30)
    assert found[True] == pytest.approx(4_000, abs=30)  # though every record says that it has four shares


# -- asked wrongly, and drawn


def test_what_cannot_be_shown_is_refused_with_the_way_forward(vault: Vault) -> None:
    with pytest.raises(DataError, match=r"not a predictor of the model.*C\(sex\)"):
        ask(vault, Residuals("income ~ age + sex", against="race"))
    with pytest.raises(DataError, match=r"ages.*age"):
        ask(vault, Residuals("income ~ age + sex", against="ages"))
    with pytest.raises(ParameterError, match="means in bins of a number"):
        ask(vault, Residuals("sick ~ age + sex", model="logistic", against="sex"))
    with pytest.raises(ParameterError, match="logistic"):
        Residuals("income ~ age", event="yes")
    with pytest.raises(ParameterError, match="model"):
        Residuals("income ~ age", model="probit")
    few = vault.ask("survey", {"race": ["O"], "sex": ["F"], "work": ["none"]}, Residuals("income ~ age"), EXACT)
    assert isinstance(few, Refusal)
    assert few.rule == "residual_picture"


def test_the_chart_draws_the_points_of_the_answer(vault: Vault) -> None:
    told = ask(vault, Residuals("log(income) ~ age", against="age"))
    drawn = [r for unit, rows in layers(told.chart().to_dict()) if unit["mark"]["type"] == "point" for r in rows]
    assert [r["residual"] for r in drawn] == told.frame()["residual"].tolist()
    three = ask(vault, Residuals("work ~ age", model="multinomial"))
    assert len(three.chart().to_dict()["vconcat"]) == 3
    by_level = ask(vault, Residuals("income ~ race", against="race")).chart().to_dict()
    assert any(unit["mark"]["type"] == "tick" for unit, _ in layers(by_level))
    with pytest.raises(DataError, match="no chart"):
        ask(vault, OLS("income ~ age")).chart()
