"""Noise on what the columns of a model tell of each other: phantoms on the fitted plane, and blurred robust variances."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey

from sfumato.contract import Draws
from sfumato.mas.analyses import OLS, Logistic
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.models.least_squares import LeastSquares
from sfumato.mas.models.model import ModelAnalysis
from sfumato.mas.models.noise import phantoms_of
from sfumato.mas.perturbation import Models, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rules import Leverage
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault, answer

EXACT = Policy(title="exact")
NOISY = Policy(title="noisy", models=Models(sd=8.0))
SOME = Policy(title="some", models=Models(sd=0.5))
"""So little noise that no phantom, three standard deviations at most, takes away what a small group has."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return survey()


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    vault.freeze("survey", microdata(frame))
    return vault


def asked(vault: Vault, model: ModelAnalysis, policy: Policy, seed: int = 1, universe: Any = None) -> Question:
    data = dataclasses.replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
    return Question(data, policy, Universe.of(universe), model)


def fitted(vault: Vault, formula: str, seed: int = 1, policy: Policy = NOISY) -> LeastSquares:
    model = OLS(formula)
    found = model.fitted(asked(vault, model, policy, seed))
    assert not isinstance(found, Refusal)
    return found[1]


def told(vault: Vault, model: ModelAnalysis, policy: Policy, seed: int = 1, universe: Any = None) -> Answer:
    found, _ = answer(asked(vault, model, policy, seed, universe))
    assert isinstance(found, Answer), str(found)
    return found


FORMULAS = (
    "age ~ income", "age ~ C(sex) + C(sex):income", "age ~ C(sex) * income + C(race)", "age ~ C(sick) * C(sex)",
    "age ~ income + log1p(income) + C(sex)",
)  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_phantoms_change_no_coefficient_no_residual_and_no_count(vault: Vault, formula: str) -> None:
    fit = fitted(vault, formula, policy=SOME)
    without = dataclasses.replace(fit, phantoms=np.zeros_like(fit.phantoms))
    assert np.abs(fit.phantoms).max() > 0
    assert fit.ones is not None
    assert np.abs(fit.phantoms @ fit.ones).max() < 1e-9 * np.abs(fit.phantoms).max()
    np.testing.assert_allclose(fit.beta, without.beta, rtol=1e-12)
    solved = np.linalg.solve(fit.information, fit.products[: fit.k, fit.k] + fit.noise.values + fit.phantoms @ fit.beta)
    np.testing.assert_allclose(solved, fit.beta, rtol=1e-7, atol=1e-9)
    added = [f._residual_and_total[0] - float(f._noise_parts.sum()) for f in (fit, without)]
    assert added[0] == pytest.approx(added[1], rel=1e-9)
    assert not np.allclose(fit.diagonal, without.diagonal, rtol=1e-6)


def test_a_coefficient_beside_its_sum_of_squares_tells_no_more_than_the_standard_error(vault: Vault) -> None:
    """The last term's sum of squares is b²/(X'X)⁻¹, and so would tell X'X if it had none of the noise."""
    fit = fitted(vault, "age ~ C(sex) + income")
    last = fit.k - 1
    squares = float(fit._formula_effects[last]) ** 2
    assert squares == pytest.approx(float(fit.beta[last]) ** 2 / float(fit.bread[last, last]), rel=1e-9)


def test_phantoms_of_one_number_are_a_multiple_of_its_squared_range(vault: Vault, frame: pd.DataFrame) -> None:
    """Over secrets they have the mean 0 and the standard deviation of four ranges squared: half of 8, in ranges."""
    fits = [fitted(vault, "age ~ income", seed) for seed in range(300)]
    scale = float(fits[0].layout.scale[0])
    reach = (frame["income"].max() - frame["income"].min()) / scale
    found = np.array([fit.phantoms[1, 1] for fit in fits])
    assert all(np.abs(fit.phantoms[0]).max() == 0 for fit in fits)
    assert found.std() == pytest.approx(4 * reach**2, rel=0.17)  # four standard errors of a standard deviation of 300
    assert abs(found.mean()) < 4 * 4 * reach**2 / math.sqrt(300)


def test_another_model_does_not_draw_phantoms_anew(vault: Vault) -> None:
    """The same predictor in the same records has the same multiple, whatever else is in the model."""
    one, more = fitted(vault, "age ~ income"), fitted(vault, "age ~ income + C(sex)")
    at = [[c.title for c in f.layout.design.columns].index("income") for f in (one, more)]
    assert one.phantoms[at[0], at[0]] == pytest.approx(more.phantoms[at[1], at[1]], rel=1e-12)
    other = fitted(vault, "age ~ income", seed=2)
    assert abs(one.phantoms[at[0], at[0]] / other.phantoms[at[0], at[0]] - 1) > 1e-3


def test_each_group_with_a_slope_of_its_own_has_phantoms_of_its_own(vault: Vault, frame: pd.DataFrame) -> None:
    """Of moves in different groups no two columns are shared, where each group has its own slope and no common one."""
    fit = fitted(vault, "age ~ C(race) + C(race):income", policy=SOME)
    slopes = [i for i, c in enumerate(fit.layout.design.columns) if c.numbers]
    own = fit.phantoms[np.ix_(slopes, slopes)]
    assert (np.abs(np.diag(own)) > 0).all()
    assert len({round(float(d), 9) for d in np.diag(own)}) == len(slopes)
    np.testing.assert_allclose(own - np.diag(np.diag(own)), 0, atol=1e-12 * np.abs(own).max())


def test_groups_of_different_terms_do_not_cross_and_are_not_drawn_anew(vault: Vault) -> None:
    """Of a:x + b:x a group of a has the phantoms that it has in a:x, and there are no more groups than levels."""
    one = fitted(vault, "age ~ C(race) + C(race):income", policy=SOME)
    model = OLS("age ~ C(race):income + C(sex):income")
    found = model.fitted(asked(vault, model, SOME))
    assert not isinstance(found, Refusal)
    ready, more = found
    drawn = phantoms_of(ready.complete, more.layout, ready.bounds, more.bread)
    assert len(drawn.weights) == 4 + (2 - 1)  # all races, and one sex beside the reference
    of = [{c.title: i for i, c in enumerate(fit.layout.design.columns)} for fit in (one, more)]
    for race in "BAO":  # that of the reference is part of what moves in other groups, too
        places = [titles[f"income:C(race)[{race}]"] for titles in of]
        assert one.phantoms[places[0], places[0]] == pytest.approx(more.phantoms[places[1], places[1]], rel=1e-9)


def test_another_coding_of_the_same_model_has_the_same_phantoms(vault: Vault) -> None:
    """Slopes of all groups, or that of the reference and differences from it: the same standard error of the first."""
    apart, together = (
        fitted(vault, f"age ~ {rest}", policy=SOME) for rest in ("C(race) + C(race):income", "C(race)*income")
    )
    at = [
        [c.title for c in fit.layout.design.columns].index(title)
        for fit, title in ((apart, "income:C(race)[W]"), (together, "income"))
    ]
    assert apart.diagonal[at[0]] == pytest.approx(together.diagonal[at[1]], rel=1e-9)


@pytest.mark.parametrize("formula", ["age ~ C(sex) + C(race)", "income ~ age", "income ~ C(sex) * age"])
def test_known_predictors_have_no_phantoms(vault: Vault, formula: str) -> None:
    assert not fitted(vault, formula).phantoms.any()


def test_without_noise_there_are_no_phantoms(vault: Vault) -> None:
    assert not fitted(vault, "age ~ income", policy=EXACT).phantoms.any()


def test_the_potential_is_the_leverage_that_a_value_gains_between_the_ends_of_its_range(
    vault: Vault, frame: pd.DataFrame
) -> None:
    """Worked out here with explicit columns; the rule sees it through noise, which is small in so many records."""
    lowest, highest = frame["income"].min(), frame["income"].max()
    sex, n = (frame["sex"] == "F").to_numpy(float), len(frame)
    x = np.column_stack([np.ones(n), sex, frame["income"], sex * frame["income"]])
    bread = np.linalg.inv(x.T @ x)
    moves = [np.array([0, 0, highest - lowest, g * (highest - lowest)]) for g in (0.0, 1.0)]
    expected = max(float(move @ bread @ move) for move in moves)
    model = OLS("age ~ C(sex) * income")
    seen = []
    for seed in range(40):
        question = asked(vault, model, Policy(title="little noise", models=Models(sd=0.02)), seed)
        assert not isinstance(model.fitted(question), Refusal)
        seen.append(question.results["potential"])
    assert np.median(seen) == pytest.approx(expected, rel=0.01)


def test_a_value_that_could_decide_a_slope_is_refused_and_its_logarithm_is_answered(vault: Vault) -> None:
    """Of 779 incomes the range squared is .097 of Sxx, and .054 if logarithms are taken; noise of a tenth changes little."""
    limit = Policy(title="some", models=Models(sd=0.8), rules=(Leverage(most=0.25, potential=0.07),))
    universe = {"race": ["A", "O"]}
    for seed in range(5):
        refused, _ = answer(asked(vault, OLS("age ~ income"), limit, seed, universe))
        assert isinstance(refused, Refusal)
        assert refused.rule == "leverage"
        assert "logarithm" in refused.suggestion
        assert told(vault, OLS("age ~ log1p(income)"), limit, seed, universe).tables["coefficients"]


@pytest.mark.parametrize("secrets", [30, pytest.param(120, marks=pytest.mark.verify)])
@pytest.mark.parametrize("kind", ["hc0", "hc1"])
@pytest.mark.parametrize("model", [OLS, Logistic])
def test_robust_errors_are_right_on_average_and_vary_by_what_one_record_can_add(
    vault: Vault, model: type[ModelAnalysis], kind: str, secrets: int
) -> None:
    """Published variances over secrets, against those of a policy with noise on the coefficients alone."""
    asked_for = model("income ~ C(sex)" if model is OLS else "sick ~ C(sex)", errors=kind)
    exact = told(vault, asked_for, EXACT).frame("coefficients")["standard error"].to_numpy() ** 2
    found = np.array([
        told(vault, asked_for, SOME, seed).frame("coefficients")["standard error"].to_numpy() ** 2 for seed in range(secrets)
    ])  # fmt: skip
    assert (np.std(found, axis=0) > 0).all()
    assert (found.mean(axis=0) > exact).all()  # the noise of the coefficients is in them, too
    assert (np.std(found, axis=0) < 0.2 * exact).all()


def test_a_steep_function_of_a_known_number_is_charged_as_the_few_records_that_decide_it(vault: Vault) -> None:
    """Worked out from the records: three times the sum of squares over the largest square, and never more than there are."""
    age = survey()["age"].to_numpy()
    model = OLS("flag ~ age:square(age):sqrt(age)")
    _, sets = answer(asked(vault, model, NOISY))
    steep = age * age**2 * np.sqrt(age)
    expected = 3 * float((steep**2).sum()) / float(steep.max()) ** 2
    assert sets[0].coefficients[1] == pytest.approx(expected, rel=1e-6)
    assert expected < 0.5 * len(age)
    _, plain = answer(asked(vault, OLS("flag ~ age"), NOISY))
    assert plain[0].coefficients[1] == pytest.approx(len(age), rel=0.06)
