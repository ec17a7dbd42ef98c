"""Models under a policy: stated errors that include the noise, refusals that depend on protected sums, and the leverage rule."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of

from sfumato.contract import Draws
from sfumato.mas.analyses import OLS, Logistic, Multinomial, Poisson
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.linear import share_of_squares
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.rules import ModelForm
from sfumato.mas.sums import Confidential
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, Vault

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
MUCH = Policy.open().set({"models.sd": 12.0, "amounts.clip": True, "counts.sd": 3.0})
"""Noise that is most of the errors."""
ROLES = dict.fromkeys(("income", "sick", "visits", "hours"), "confidential")
MODELS: list[Analysis] = [
    OLS("log(income) ~ age + sex"), OLS("hours ~ sick + log(income) + age"), OLS("log(income) ~ age + sex", errors="hc1"),
    OLS("standardise(hours) ~ standardise(age) + sick"), Logistic("sick ~ age + sex"), Logistic("sick ~ hours + sex"),
    Logistic("sick ~ age + sex", errors="hc0"), Poisson("visits ~ age + sex"), Multinomial("sex ~ hours"),
]  # fmt: skip


def people(n: int = 6_000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n).astype(float), "region": rng.choice(list("ABCD"), n),
        "income": np.exp(rng.normal(1, 0.5, n)), "hours": np.clip(rng.normal(30, 10, n), 0, 60),
    })  # fmt: skip
    linear = -1 + 0.02 * frame["age"] - 0.02 * frame["hours"]
    frame["sick"] = np.where(rng.random(n) < 1 / (1 + np.exp(-linear)), "yes", "no")
    frame["visits"] = rng.poisson(np.exp(0.1 + 0.005 * frame["age"])).astype(float)
    return frame


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", people(), ROLES, HARDENED)


def told(data: Dataset, analysis: Analysis, policy: Policy, universe: Any = None) -> Answer | Refusal:
    return Answering(data, Question(data.codebook, policy, Universe.of(universe), analysis)).answer()


def estimates(data: Dataset, analysis: Analysis, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    found = told(data, analysis, policy)
    assert isinstance(found, Answer), str(found)
    table = found.frame("coefficients")
    return table["coefficient"].to_numpy(float), table["standard error"].to_numpy(float)


def over_secrets(vault: Vault, analysis: Analysis, policy: Policy, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    data = vault.dataset("data")
    tries = [estimates(dataclasses.replace(data, secret=Secret(Draws(s))), analysis, policy) for s in range(seeds)]
    return np.array([t[0] for t in tries]), np.array([t[1] for t in tries])


@pytest.mark.parametrize(("seeds", "least"), [(24, 19 / 24), pytest.param(40, 0.92, marks=pytest.mark.verify)])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.wording())
def test_intervals_cover_the_coefficients_of_the_file_and_errors_include_the_noise(
    vault: Vault, model: Analysis, seeds: int, least: float
) -> None:
    """With noise far above sampling the spread over secrets is nearly all of the stated error.

    Coefficients may share their noise: of 24 independent intervals 18 or fewer cover with P = 1 in 1,000, and the standard
    deviation of 24 has a relative error of 1 / √46, so that 1 ± 0.5 are 3.4 of them.
    """
    clipped = Policy.open().set({"amounts.clip": True})
    exact, sampled = estimates(vault.dataset("data"), model, clipped)
    found, errors = over_secrets(vault, model, MUCH, seeds)
    off = found - exact
    assert (np.abs(off) <= 1.96 * errors).mean() >= least
    noise = np.sqrt(np.maximum(np.median(errors, axis=0) ** 2 - sampled**2, 0))
    assert (off.std(axis=0) <= 1.5 * noise).all()
    assert (off.std(axis=0) >= 0.5 * noise).all()


@pytest.mark.parametrize("model", MODELS[:6], ids=lambda m: m.wording())
def test_hardened_answers_have_three_digits_and_cover_the_file(vault: Vault, model: Analysis) -> None:
    exact, _ = estimates(vault.dataset("data"), model, Policy.open().set({"amounts.clip": True}))
    found, errors = over_secrets(vault, model, HARDENED, 20)
    assert (np.abs(found - exact) <= 1.96 * errors).mean() >= 0.94
    assert all(v == float(f"{v:.2e}") for v in found.ravel())
    assert all(v == float(f"{v:.1e}") for v in errors.ravel())


def test_what_noise_cannot_tell_is_refused_for_every_secret_alike(vault: Vault, tmp_path: Any) -> None:
    """Columns that known variables show to be dependent, and those that confidential ones make so."""
    data = vault.dataset("data")
    for s in range(5):
        one = dataclasses.replace(data, secret=Secret(Draws(s)))
        for formula in ("hours ~ age + standardise(age)", "hours ~ income + standardise(income)"):
            found = told(one, OLS(formula), HARDENED)
            assert isinstance(found, Refusal)
            assert found.rule in ("collinearity", "high_correlation")
        small = told(
            one,
            OLS("hours ~ age"),
            HARDENED.without("universe_size", "level_size", "left_out"),
            {"region": "A", "sex": "F"},
        )
        assert isinstance(small, Answer)
        few = told(one, OLS("hours ~ age"), HARDENED.set({"model_size.least": 5_000}), {"region": "A"})
        assert isinstance(few, Refusal)
        assert few.rule == "model_size"


def test_a_term_that_tells_the_outcome_is_refused(tmp_path: Any) -> None:
    frame = people(4_000).assign(flag=lambda d: np.where(d["age"] > 60, "old", "not"))
    frame["sick"] = np.where(frame["age"] > 60, "yes", "no")
    vault = vault_of(tmp_path / "v", frame, ROLES, HARDENED)
    data = vault.dataset("data")
    found = told(data, Logistic("sick ~ flag"), Policy.open())
    assert isinstance(found, Refusal)
    assert found.rule == "separation"
    hidden = told(data, Logistic("sick ~ flag + hours"), Policy.open())
    assert isinstance(hidden, Refusal)
    assert hidden.rule == "separation"


def test_the_leverage_that_the_rule_sees_is_that_of_the_hat_matrix(vault: Vault) -> None:
    frame = people()
    x = np.column_stack([np.ones(len(frame)), frame["age"] ** 2, frame["sex"] == "F"]).astype(float)
    largest = np.einsum("ij,jk,ik->i", x, np.linalg.inv(x.T @ x), x).max()
    for most, answered in ((largest + 0.0011, True), (largest - 0.0005, False)):
        policy = HARDENED.set({"leverage.most": float(most)})
        assert isinstance(told(vault.dataset("data"), OLS("hours ~ square(age) + sex"), policy), Answer) is answered


def test_the_same_question_in_other_words_is_the_same_bytes(vault: Vault) -> None:
    for group in (
        [OLS("hours ~ age + sick"), OLS("hours ~ C(sick)+1+ age"), OLS("hours~age+sick+age")],
        [Logistic("sick ~ age"), Logistic("C(sick) ~ age", event="yes"), Logistic("sick ~ 1 + age")],
    ):
        answers = [vault.ask("data", None, one) for one in group]
        assert all(isinstance(a, Answer) for a in answers)
        assert len({a.to_bytes() for a in answers if isinstance(a, Answer)}) == 1


def test_in_a_right_model_of_nothing_p_is_uniform(vault: Vault) -> None:
    """Being sick has nothing to do with region in this one file: over 60 secrets few p are below .05."""
    rng = np.random.default_rng(4)
    below = []
    data = vault.dataset("data")
    found = []
    for s in range(60):
        one = dataclasses.replace(data, secret=Secret(Draws(int(rng.integers(1 << 30)))))
        answer = told(one, Logistic("sick ~ region"), MUCH)
        assert isinstance(answer, Answer)
        found.append(float(answer.facts["p"]))
        below.append(s)
    assert np.mean(np.array(found) < 0.05) <= 0.17  # most of the variance is noise: four standard errors above .05


def test_a_model_has_at_most_twenty_terms_besides_the_intercept(vault: Vault) -> None:
    numbers, groups = ["age", "hours", "income", "visits"], ["sex", "region", "sick"]
    twenty = [*numbers, *groups, *(f"{a}:{b}" for a in numbers for b in groups), "sqrt(age)"]
    assert len(twenty) == 20
    data = vault.dataset("data")
    for terms, allowed in ((twenty, True), ([*twenty, "sqrt(income)"], False)):
        question = Question(data.codebook, HARDENED, Universe.of(None), OLS(f"log(age) ~ {' + '.join(terms)}"))
        assert (ModelForm().before(question, data.register(HARDENED)) is None) is allowed


@pytest.mark.parametrize(("n", "coarser"), [(500, False), (20_000, True), (1_000_000, True)])
def test_the_sum_of_squares_is_told_to_a_twentieth_and_not_better(n: int, coarser: bool) -> None:
    # an outcome of root mean square 0.12 of its range: y² is at most 1, and of root mean square √3 · 0.12²
    noise, outcome, square = HARDENED.models, Confidential(0, 1, 0.12), Confidential(0, 1, 3**0.5 * 0.12**2)
    share = share_of_squares(noise, outcome, square, n)
    usual = noise.sd**2 + noise.growth * n * 3 * 0.12**4
    wanted = (0.05 * n * 0.12**2) ** 2
    assert (share < 1) is coarser
    assert usual / share == pytest.approx(max(usual, wanted))
    assert share_of_squares(Policy.open().models, outcome, square, n) == 1
