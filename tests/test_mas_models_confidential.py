"""Models with confidential predictors, by steps of protected sums, are those of statsmodels where there is no noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import vault_of

from sfumato.mas.analyses import OLS, Logistic, Multinomial, Poisson
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis
from sfumato.mas.vault import Vault

smf = pytest.importorskip("statsmodels.formula.api")
sm = pytest.importorskip("statsmodels.api")

ROLES = dict.fromkeys(("income", "sick", "visits", "hours"), "confidential") | {"weight": "weight"}
ILL = {"sick": ["yes"]}


def people(n: int = 1_500) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n).astype(float), "income": np.exp(rng.normal(1, 0.5, n)),
        "hours": rng.normal(30, 10, n), "weight": rng.uniform(1, 3, n),
    })  # fmt: skip
    linear = -1 + 0.02 * frame["age"] - 0.2 * frame["income"]
    frame["sick"] = np.where(rng.random(n) < 1 / (1 + np.exp(-linear)), "yes", "no")
    frame["visits"] = rng.poisson(np.exp(0.1 + 0.01 * frame["age"] + 0.1 * (frame["sex"] == "F"))).astype(float)
    frame.loc[rng.choice(n, 60, replace=False), "income"] = np.nan
    return frame


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people().assign(ill=lambda d: 1.0 * (d["sick"] == "yes"))


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    return vault_of(tmp_path_factory.mktemp("vault") / "v", people(), ROLES, Policy.open())


def same(vault: Vault, analysis: Analysis, fitted: Any, universe: Any = None) -> Answer:
    """Coefficients and errors, in the order of statsmodels' terms, to 8 digits."""
    found = vault.ask("data", universe, analysis)
    assert isinstance(found, Answer), str(found)
    table = found.frame("coefficients").set_index("term")
    ours = {"Intercept": "Intercept", "C(sex)[M]": "C(sex, Treatment('F'))[T.M]", "C(sex)[F]": "C(sex, Treatment('M'))[T.F]",
            "log(income)": "np.log(income)", "C(sick)[yes]": "C(sick)[T.yes]"}  # fmt: skip
    params, bse = np.asarray(fitted.params).ravel(), np.asarray(fitted.bse).ravel()
    order = [list(fitted.model.exog_names).index(ours.get(term, term)) for term in table.index]
    assert table["coefficient"].to_numpy() == pytest.approx(params[order], rel=1e-8, abs=1e-9 * bse.max())
    assert table["standard error"].to_numpy() == pytest.approx(bse[order], rel=1e-8)
    return found


def sex(frame: pd.DataFrame) -> str:
    return f"C(sex, Treatment('{frame['sex'].mode()[0]}'))"


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0"), ("hc1", "HC1")])
def test_least_squares_on_confidential_predictors(vault: Vault, frame: pd.DataFrame, errors: str, kind: str) -> None:
    there = frame.dropna(subset=["income"])
    twin = smf.ols(f"hours ~ {sex(there)} + C(sick) + np.log(income) + age", there).fit(cov_type=kind)
    found = same(vault, OLS("hours ~ sex + C(sick) + log(income) + age", errors=errors), twin)
    assert found.facts["n"] == len(there)
    assert found.facts["R²"] == pytest.approx(twin.rsquared, rel=1e-8)


@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0")])
def test_logistic_models_on_confidential_predictors(vault: Vault, frame: pd.DataFrame, errors: str, kind: str) -> None:
    there = frame.dropna(subset=["income"])
    twin = smf.logit(f"ill ~ {sex(there)} + np.log(income) + age", there).fit(
        disp=0, tol=1e-13, maxiter=100, cov_type=kind
    )
    found = same(vault, Logistic("sick ~ sex + log(income) + age", errors=errors), twin)
    assert found.facts["n"] == len(there)
    assert found.facts["pseudo-R²"] == pytest.approx(twin.prsquared, rel=1e-8)
    assert found.facts["p"] == pytest.approx(twin.llr_pvalue, rel=1e-6)


@pytest.mark.parametrize("formula", ["sex + age", "sex + age + income"])
def test_weighted_models_have_robust_errors(vault: Vault, frame: pd.DataFrame, formula: str) -> None:
    """The sandwich by its definition, with matrices written out here."""
    there = frame.dropna(subset=["income"]) if "income" in formula else frame
    names = formula.split(" + ")
    mode = there["sex"].mode()[0]
    x = np.column_stack([np.ones(len(there)), there["sex"] != mode, *(there[n] for n in names[1:])]).astype(float)
    y, w = there["ill"].to_numpy(), there["weight"].to_numpy()
    twin = sm.GLM(y, x, family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-13)
    p = twin.fittedvalues
    bread = np.linalg.inv((x * (w * p * (1 - p))[:, None]).T @ x)
    added = x * (w * (y - p))[:, None]
    found = vault.ask("data", None, Logistic(f"sick ~ {formula}", weighted=True))
    assert isinstance(found, Answer)
    table = found.frame("coefficients")
    assert table["coefficient"].to_numpy() == pytest.approx(twin.params, rel=1e-7)
    assert table["standard error"].to_numpy() == pytest.approx(
        np.sqrt(np.diag(bread @ (added.T @ added) @ bread)), rel=1e-7
    )
    assert found.facts["n"] == len(there)


@pytest.mark.parametrize("formula", ["sex + age", "sex + age + hours"])
@pytest.mark.parametrize(("errors", "kind"), [("classical", "nonrobust"), ("hc0", "HC0")])
def test_poisson_models(vault: Vault, frame: pd.DataFrame, formula: str, errors: str, kind: str) -> None:
    twin = smf.poisson(f"visits ~ {formula.replace('sex', sex(frame))}", frame).fit(
        disp=0, tol=1e-13, maxiter=100, cov_type=kind
    )
    same(vault, Poisson(f"visits ~ {formula}", errors=errors), twin)


def test_a_universe_of_confidential_conditions(vault: Vault, frame: pd.DataFrame) -> None:
    ill = frame[frame["sick"] == "yes"]
    same(vault, OLS("hours ~ sex + age"), smf.ols(f"hours ~ {sex(ill)} + age", ill).fit(), ILL)
    same(
        vault, Poisson("visits ~ sex + age"), smf.poisson(f"visits ~ {sex(ill)} + age", ill).fit(disp=0, tol=1e-13), ILL
    )


def test_multinomial_models_on_confidential_predictors(vault: Vault, frame: pd.DataFrame) -> None:
    codes = 1.0 * (frame["sex"] != frame["sex"].mode()[0])
    twin = sm.Logit(codes, sm.add_constant(frame[["hours"]])).fit(disp=0, tol=1e-13)
    found = vault.ask("data", None, Multinomial("sex ~ hours"))
    assert isinstance(found, Answer)
    table = found.frame("coefficients")
    assert np.abs(table["coefficient"].to_numpy()) == pytest.approx(np.abs(twin.params.to_numpy()), rel=1e-7)
    assert table["standard error"].to_numpy() == pytest.approx(twin.bse.to_numpy(), rel=1e-8)


def test_the_rules_as_printed_add_nothing_to_models_but_their_drops(frame: pd.DataFrame, tmp_path: Any) -> None:
    """Two records are dropped, and nothing else is done: coefficients move by what two of 1,500 can move."""
    vault = vault_of(tmp_path / "v", people(), ROLES, Policy.named("census2009"))
    found = vault.ask("data", None, OLS("hours ~ age"))
    assert isinstance(found, Answer), str(found)
    twin = smf.ols("hours ~ age", frame).fit()
    table = found.frame("coefficients")
    assert table["coefficient"].to_numpy() == pytest.approx(twin.params.to_numpy(), abs=float(twin.bse.max()) / 5)
    assert table["standard error"].to_numpy() == pytest.approx(twin.bse.to_numpy(), rel=0.01)
