"""Fixed effects, probit, odds ratios and marginal effects: those of statsmodels without noise, and covered with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of

from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.mas.analyses import OLS, Logistic, Probit
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, Vault

smf = pytest.importorskip("statsmodels.formula.api")
sm = pytest.importorskip("statsmodels.api")

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)


def people(n: int = 4_000) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n, p=[0.6, 0.4]), "age": rng.integers(18, 90, n).astype(float),
        "state": rng.choice([f"S{i:02}" for i in range(12)], n), "hours": rng.normal(30, 8, n),
    })  # fmt: skip
    of_state = frame["state"].str[1:].astype(int)
    frame["income"] = (
        20 + 2.0 * of_state + 0.1 * frame["age"] + 0.05 * of_state * (frame["sex"] == "F") + rng.normal(0, 5, n)
    )
    frame["sick"] = np.where(rng.normal(size=n) < -1.5 + 0.02 * frame["age"] + 0.3 * (frame["sex"] == "M"), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people().assign(ill=lambda d: 1.0 * (d["sick"] == "yes"))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    roles = dict.fromkeys(("income", "sick", "hours"), "confidential")
    return vault_of(tmp_path_factory.mktemp("vault") / "v", people(), roles, Policy.open())


def ask(vault: Vault, analysis: Analysis) -> Answer:
    found = vault.ask("data", None, analysis)
    assert isinstance(found, Answer), str(found)
    return found


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc1", "HC1")])
@pytest.mark.parametrize("formula", ["income ~ age + sex", "income ~ age + hours"])
def test_fixed_effects_are_indicators_that_are_not_shown(
    vault: Vault, frame: pd.DataFrame, formula: str, errors: str, kind: str
) -> None:
    found = ask(vault, OLS(formula, absorb="state", errors=errors))
    twin = smf.ols(f"{formula} + C(state)", frame).fit(cov_type=kind)
    table = found.frame().set_index("term")
    assert not any("state" in term for term in table.index)
    names = {"age": "age", "C(sex)[M]": "sex[T.M]", "hours": "hours"}
    for ours in set(table.index) - {"Intercept"}:
        assert table.loc[ours, "coefficient"] == pytest.approx(twin.params[names[ours]], rel=1e-8)
        assert table.loc[ours, "standard error"] == pytest.approx(twin.bse[names[ours]], rel=1e-8)
    assert found.facts["R²"] == pytest.approx(twin.rsquared, rel=1e-8)
    within = frame.groupby("state")[["income", "age"]].transform(lambda v: v - v.mean())
    alone = ask(vault, OLS("income ~ age", absorb="state")).frame().set_index("term")
    assert alone.loc["age", "coefficient"] == pytest.approx(
        (within["age"] @ within["income"]) / (within["age"] @ within["age"]), rel=1e-9
    )


def test_fixed_effects_of_what_is_confidential_or_in_the_formula_are_refused(vault: Vault) -> None:
    for model, match in (
        (OLS("income ~ age", absorb="sick"), "confidential"), (OLS("income ~ age + state", absorb="state"), "already"),
        (OLS("income ~ age - 1", absorb="state"), "intercept"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=match):
            ask(vault, model)


@pytest.mark.parametrize("formula", ["age + sex", "age + sex + hours"])
def test_probit_is_that_of_statsmodels(vault: Vault, frame: pd.DataFrame, formula: str) -> None:
    table = ask(vault, Probit(f"sick ~ {formula}")).frame().set_index("term")
    family = sm.families.Binomial(link=sm.families.links.Probit())
    twin = smf.glm(f"ill ~ {formula}", frame, family=family).fit(tol=1e-14)
    names = {"Intercept": "Intercept", "age": "age", "C(sex)[M]": "sex[T.M]", "hours": "hours"}
    for ours in table.index:
        assert table.loc[ours, "coefficient"] == pytest.approx(twin.params[names[ours]], rel=1e-7)
        assert table.loc[ours, "standard error"] == pytest.approx(twin.bse[names[ours]], rel=1e-7)
    assert ask(vault, Probit(f"sick ~ {formula}")).facts["log-likelihood"] == pytest.approx(twin.llf, rel=1e-8)


@pytest.mark.parametrize(("model", "fit"), [(Logistic, "logit"), (Probit, "probit")])
def test_average_marginal_effects_are_those_of_statsmodels(
    vault: Vault, frame: pd.DataFrame, model: type[Logistic | Probit], fit: str
) -> None:
    """Of the dummy, too, which changes from 0 to 1."""
    woman = frame.assign(man=1.0 * (frame["sex"] == "M"))
    twin = getattr(smf, fit)("ill ~ age + man", woman).fit(disp=0, tol=1e-14)
    expected = twin.get_margeff(dummy=True).summary_frame()
    table = ask(vault, model("sick ~ age + sex", margins=True)).frame("marginal effects").set_index("term")
    rel = 1e-7 if fit == "logit" else 0.02  # errors of probit: expected information here, observed there
    for ours, theirs in {"age": "age", "C(sex)[M]": "man"}.items():
        assert table.loc[ours, "effect"] == pytest.approx(expected.loc[theirs, "dy/dx"], rel=1e-7)
        assert table.loc[ours, "standard error"] == pytest.approx(expected.loc[theirs, "Std. Err."], rel=rel)
    other = ask(vault, model("sick ~ age + sex", margins=True, event="no")).frame("marginal effects").set_index("term")
    assert other["effect"].to_numpy() == pytest.approx(-table["effect"].to_numpy(), rel=1e-9)
    scaled = (
        ask(vault, model("sick ~ standardise(age) + sex", margins=True)).frame("marginal effects").set_index("term")
    )
    sd = frame["age"].std(ddof=0)
    assert scaled.loc["standardise(age)", "effect"] == pytest.approx(sd * table.loc["age", "effect"], rel=1e-9)


def test_margins_of_products_and_of_confidential_predictors_are_refused(vault: Vault) -> None:
    with pytest.raises(ParameterError, match="without products"):
        ask(vault, Logistic("sick ~ age*sex", margins=True))
    with pytest.raises(ParameterError, match="known predictors"):
        ask(vault, Logistic("sick ~ hours", margins=True))


def test_odds_ratios_are_exponents_of_what_is_published(vault: Vault, frame: pd.DataFrame) -> None:
    twin = smf.logit("ill ~ age + sex", frame).fit(disp=0, tol=1e-14)
    found = ask(vault, Logistic("sick ~ age + sex", odds_ratios=True))
    table = found.frame("odds ratios").set_index("term")
    bounds = np.exp(twin.conf_int())
    for ours, theirs in {"age": "age", "C(sex)[M]": "sex[T.M]"}.items():
        assert table.loc[ours, "odds ratio"] == pytest.approx(np.exp(twin.params[theirs]), rel=1e-8)
        assert table.loc[ours, "standard error"] == pytest.approx(
            np.exp(twin.params[theirs]) * twin.bse[theirs], rel=1e-8
        )
        assert table.loc[ours, ["from", "to"]].to_numpy(float) == pytest.approx(bounds.loc[theirs].to_numpy(), rel=1e-8)
    assert found.to_bytes() != ask(vault, Logistic("sick ~ age + sex")).to_bytes()


@pytest.mark.parametrize(
    "model", [OLS("income ~ age", absorb="state"), Probit("sick ~ age + sex"), Logistic("sick ~ age + sex", margins=True)],
    ids=["fixed effects", "probit", "margins"],
)  # fmt: skip
@pytest.mark.parametrize(
    "policy", [HARDENED, Policy.open().set({"models.sd": 10.0, "amounts.clip": True})], ids=["hardened", "much"]
)
@pytest.mark.parametrize(("secrets", "least"), [(24, 19 / 24), pytest.param(60, 0.92, marks=pytest.mark.verify)])
def test_intervals_cover_those_of_the_file(
    vault: Vault, model: Analysis, policy: Policy, secrets: int, least: float
) -> None:
    """Intervals of 95 %. Coefficients may share their noise: of 24 independent intervals 18 or fewer cover with P = 1 in 1,000."""
    data = vault.dataset("data")
    name, value = (
        ("marginal effects", "effect") if getattr(model, "margins", False) else ("coefficients", "coefficient")
    )

    def told(seed: int, under: Policy) -> np.ndarray:
        one = dataclasses.replace(data, secret=Secret(Draws(seed)))
        found = Answering(one, Question(one.codebook, under, Universe.of(None), model)).answer()
        assert isinstance(found, Answer), str(found)
        return found.frame(name)[[value, "standard error"]].to_numpy(float)

    exact = told(0, Policy.open().set({"amounts.clip": True}))
    tries = np.array([told(s, policy) for s in range(secrets)])
    assert (np.abs(tries[:, :, 0] - exact[:, 0]) <= 1.96 * tries[:, :, 1]).mean() >= least
    if policy is not HARDENED:
        noise = np.sqrt(np.maximum(np.median(tries[:, :, 1], axis=0) ** 2 - exact[:, 1] ** 2, 0))
        spread = tries[:, :, 0].std(axis=0)
        # the stated noise is of first order, and here it is large: of probit the spread is 1.5 times as much
        assert (spread <= 1.7 * noise).all()
        assert (spread >= 0.5 * noise).all()
