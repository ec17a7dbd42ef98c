"""Residuals asked of a vault: the rules of the model, pictures that are faithful and keyed, and what they cost."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers
from mas_cases import vault_of
from mas_survey import microdata, survey
from test_synthetic_residuals import curvature_test, variance_test

from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses import OLS, Logistic, Multinomial, Residuals
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.models.residual_counts import AXIS, ResidualGrid
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.synthetic_residuals import BinnedResiduals
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault, answer

EXACT = Policy(title="exact")
HARDENED = Policy.named("hardened").with_(accounts=None, per_minute=None)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return survey()


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    folder = tmp_path_factory.mktemp("vault") / "v"
    vault = Vault.create(folder, secret=Draws("residuals"))
    vault.freeze("survey", microdata(frame))
    return vault


def ask(vault: Vault, analysis: Any, universe: Any = None, policy: Policy = HARDENED) -> Answer:
    found = vault.ask(vault.names()[0], universe, analysis, policy)
    assert isinstance(found, Answer), str(found)
    return found


# -- faithful


def test_bad_models_are_seen_and_right_ones_are_not_blamed_through_drops_and_noise(tmp_path: Path) -> None:
    """Each data set is a universe of 600 records; benchmarks/mas_residuals.py does the same for two hundred."""
    runs, n = 25, 600
    for kind in ("right", "curved", "uneven"):
        rng = np.random.default_rng(7)
        x, e = rng.normal(size=runs * n), rng.normal(size=runs * n)
        y = 1 + x + (0.35 * x**2 + e if kind == "curved" else e * np.exp(0.4 * x) if kind == "uneven" else e)
        data = pd.DataFrame({"run": [f"r{i // n}" for i in range(runs * n)], "x": x, "y": y})
        vault = vault_of(tmp_path / kind, data, {"y": "confidential"})
        found = []
        for i in range(runs):
            points = ask(vault, Residuals("y ~ x"), {"run": [f"r{i}"]}).frame().to_numpy(float)
            found.append((curvature_test(*points.T) < 0.05, variance_test(*points.T) < 0.05))
        curved, uneven = np.sum(found, axis=0)
        assert {"right": max(curved, uneven) <= 5, "curved": curved >= 23, "uneven": uneven >= 23}[kind]


def test_points_have_the_shape_of_the_residuals_and_none_is_one(vault: Vault, frame: pd.DataFrame) -> None:
    line = np.polyfit(frame["age"], frame["income"], 1)
    rest = frame["income"] - np.polyval(line, frame["age"])
    shown = ask(vault, Residuals("income ~ age", against="age"), policy=EXACT).frame()
    assert not np.isin(shown["x"], frame["age"]).any()
    assert not np.isin(shown["residual"], rest / rest.std()).any()
    assert shown["residual"].skew() > 0.5  # incomes are
    assert shown["x"].quantile([0.25, 0.75]).tolist() == pytest.approx(frame["age"].quantile([0.25, 0.75]), abs=4)
    assert shown["residual"].std() == pytest.approx(np.sqrt(1 + 0.3**2), rel=0.15)
    fitted = ask(vault, Residuals("income ~ age"), policy=EXACT).frame()["x"]
    assert (fitted.min(), fitted.max()) == pytest.approx(np.polyval(line, [19, 88]), rel=0.05)


def test_levels_of_a_predictor_are_an_axis_in_their_order(vault: Vault) -> None:
    told = ask(vault, Residuals("income ~ age + race", against="race"))
    assert list(dict.fromkeys(told.frame()["x"])) == ["A", "B", "O", "W"]
    assert "p of levels" in told.facts


def test_means_in_bins_are_those_of_the_model_with_noise_around_them(vault: Vault, frame: pd.DataFrame) -> None:
    """The mean over many secrets is that of the array function without noise, on probabilities of statsmodels."""
    import statsmodels.api as sm

    happened = (frame["sick"] == "yes").to_numpy(float)
    design = sm.add_constant(frame["age"].to_numpy())
    p = sm.Logit(happened, design).fit(disp=0).predict()
    quiet = np.mean([BinnedResiduals(noise=0.5).picture(p, happened, Draws(s)).points for s in range(100)], axis=0)
    band = BinnedResiduals().picture(p, happened, Draws(1)).points["band"]
    found = []
    for seed in range(60):
        data = dataclasses.replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
        told, _ = answer(Question(data, EXACT, Universe.of(None), Residuals("sick ~ age", model="logistic")))
        assert isinstance(told, Answer)
        found.append(told.frame()["residual"].to_numpy())
        assert told.frame()["x"].to_numpy() == pytest.approx(quiet[:, 0], rel=0.02)
        assert told.frame()["band"].to_numpy() == pytest.approx(band.to_numpy(), rel=0.02)
    assert np.mean(found, axis=0) == pytest.approx(quiet[:, 1], abs=4 * 2 / np.sqrt(60) / 100)
    assert np.std(found, axis=0).mean() == pytest.approx(2 / (3000 / len(quiet)), rel=0.15)


def test_with_weights_records_count_as_often_as_they_stand_for(tmp_path: Path) -> None:
    """One in ten of the population lies far below; in the sample it is one in two."""
    n = 4000
    rng = np.random.default_rng(3)
    low = np.arange(n) % 2 == 0
    data = pd.DataFrame({
        "x": rng.normal(size=n), "y": np.where(low, -3.0, 0.0) + 0.1 * rng.normal(size=n), "w": np.where(low, 1.0, 9.0),
    })  # fmt: skip
    vault = vault_of(tmp_path / "v", data, {"y": "confidential", "w": "weight"})
    for weighted, share in ((True, 0.1), (False, 0.5)):
        points = ask(vault, Residuals("y ~ x", weighted=weighted)).frame()["residual"]
        assert (points < (-1.5 if weighted else 0)).mean() == pytest.approx(share, abs=0.06)


# -- the same again


def test_the_same_picture_for_every_wording_user_and_process(vault: Vault) -> None:
    first = ask(vault, Residuals("log(income) ~ age + sex")).to_bytes()
    again = Vault.open(vault.folder)
    assert again.ask("survey", None, Residuals("log(income) ~ C(sex) + age"), HARDENED, user="b").to_bytes() == first
    everybody = "sex in ('F', 'M')"
    assert vault.ask("survey", everybody, Residuals("log(income) ~ sex + age"), HARDENED).to_bytes() == first
    plain = ask(vault, Residuals("log(income) ~ age + sex", against="age")).frame()
    scaled = ask(vault, Residuals("log(income) ~ standardise(age) + sex", against="age")).frame()
    pd.testing.assert_frame_equal(plain, scaled)
    other = ask(vault, Residuals("log(income) ~ age + sex + race", against="age")).frame()
    assert not np.isin(plain["residual"], other["residual"]).all()


def test_one_noise_serves_both_outcomes_of_two(vault: Vault) -> None:
    yes, no = (ask(vault, Residuals("sick ~ age", model="logistic", event=e)).frame() for e in ("yes", "no"))
    assert (no["residual"] == -yes["residual"]).all()
    assert no["x"].to_numpy() == pytest.approx(1 - yes["x"])
    both = ask(vault, Residuals("sick ~ age", model="multinomial"))
    assert list(both.tables) == ["sick = no", "sick = yes"]
    pd.testing.assert_frame_equal(both.frame("sick = yes"), yes)
    pd.testing.assert_frame_equal(both.frame("sick = no"), no)


def test_there_is_a_picture_for_each_level_of_the_outcome(vault: Vault) -> None:
    told = ask(vault, Residuals("work ~ age + sex", model="multinomial"))
    assert sorted(told.tables) == ["work = full", "work = none", "work = part"]
    along = ask(vault, Residuals("work ~ age + sex", model="multinomial", against="age"))
    sums = sum(along.frame(name)["residual"] for name in along.tables)
    assert 0 < np.abs(sums).max() < 0.15  # residuals of a record add up to nothing; the noise does not


# -- rules and accounts


@pytest.mark.parametrize(
    ("model", "universe"),
    [
        (OLS("income ~ age + square(age) + sqrt(age)"), None),
        (OLS("age ~ standardise(age) + sex"), None),
        (OLS("income ~ age"), {"race": ["O"]}),
        (OLS("income ~ sex*race*age*z"), None),
        (OLS("income ~ age", weighted=True), {"race": ["O"], "sex": ["F"]}),
        (OLS("empty ~ age"), None),
        (Logistic("sick ~ age + flag"), None),
        (Logistic("sick ~ age"), {"race": ["O"]}),
        (Multinomial("work ~ age"), {"race": ["O"]}),
    ],
)
def test_every_refusal_of_the_model_is_one_of_its_picture(vault: Vault, model: Any, universe: Any) -> None:
    expected = vault.ask("survey", universe, model, HARDENED)
    assert isinstance(expected, Refusal)
    asked = Residuals(model.formula, weighted=model.weighted, model=model.name)
    assert vault.ask("survey", universe, asked, HARDENED) == expected


def test_a_picture_costs_what_it_shows_and_another_axis_costs_again(vault: Vault) -> None:
    data = vault.dataset("survey")

    def cost(**asked: Any) -> tuple[int, float, bytes]:
        _, sets = answer(Question(data, HARDENED, Universe.of(None), Residuals(**asked)))
        return len(sets[-1].coefficients), float(sets[-1].sizes), sets[-1].keys[0]

    times, size, key = cost(formula="income ~ age + race")
    assert times == 9 + 5  # a curve of degree eight, a spread of degree four
    assert size == pytest.approx(3000, abs=20)
    assert cost(formula="income ~ race + age")[2] == key
    assert cost(formula="income ~ age + race", against="age")[2] != key
    assert cost(formula="income ~ age + race", against="race")[0] == 2 * 4
    times, size, _ = cost(formula="work ~ age", model="multinomial")
    assert times == 3
    assert size <= 3000 / 10  # a record is in one bin of each picture, as in the cell of a table


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
    few = vault.ask("survey", {"race": ["O"], "sex": ["F"]}, Residuals("income ~ age"), EXACT)
    assert isinstance(few, Refusal)
    assert few.rule == "residual_picture"
    certain = vault.ask("survey", None, Residuals("income ~ standardise(income)"), EXACT)
    assert isinstance(certain, Refusal)
    assert "without error" in certain.reason


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


def test_fine_cells_hold_every_number_near_their_middle() -> None:
    x = np.r_[np.random.default_rng(1).standard_cauchy(5000), 0.0]
    x = x[np.abs(x) < 1e3]
    grid = ResidualGrid.about(float(x.mean()), float(x.std()), len(x), AXIS)
    near = grid.middles[grid.codes(x)]
    assert (np.abs(near - x) <= 1.01 * AXIS * (np.abs(x - grid.centre) + grid.unit)).all()
    children = np.arange(10.0)
    few = ResidualGrid.about(1.37, 1.2, 5000, AXIS)
    assert few.middles[few.codes(children)] == pytest.approx(children, abs=1e-12)
    assert (np.diff(few.middles) >= 0).all()
    p = np.array([0.0, 1e-6, 0.2, 0.5, 1 - 1e-9, 1.0])
    shares = ResidualGrid.of_shares()
    assert shares.middles[shares.codes(p)] == pytest.approx(p, rel=0.01, abs=1e-8)
