"""Ordered logistic regression: that of statsmodels without noise, and covered by its intervals with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of

from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.mas.analyses import OrderedLogit
from sfumato.mas.answer import Answer
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, Vault

ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
LEVELS = ["a poor", "b fair", "c good"]


def people(n: int = 5_000) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "age": rng.integers(18, 90, n).astype(float), "sex": rng.choice(["F", "M"], n, p=[0.6, 0.4]), "hours": rng.normal(30, 8, n),
    })  # fmt: skip
    hidden = 0.03 * frame["age"] - 0.5 * (frame["sex"] == "M") + rng.logistic(size=n)
    frame["health"] = np.array(LEVELS)[np.searchsorted([0.5, 2.5], hidden)]
    return frame


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    roles = {"health": "confidential", "hours": "confidential"}
    return vault_of(tmp_path_factory.mktemp("vault") / "v", people(), roles, Policy.open())


@pytest.mark.parametrize("predictors", [("age", "sex"), ("age", "hours")])
def test_ordered_logit_is_that_of_statsmodels(vault: Vault, predictors: tuple[str, ...]) -> None:
    frame = people()
    found = vault.ask("data", None, OrderedLogit(f"health ~ {' + '.join(predictors)}"))
    assert isinstance(found, Answer), str(found)
    table = found.frame().set_index("term")
    x = frame[list(predictors)].assign(**({"sex": 1.0 * (frame["sex"] == "M")} if "sex" in predictors else {}))
    y = pd.Series(pd.Categorical(frame["health"], LEVELS, ordered=True))
    twin = ordinal.OrderedModel(y, x, distr="logit").fit(method="bfgs", disp=0, gtol=1e-7, maxiter=500)
    cuts = twin.model.transform_threshold_params(np.asarray(twin.params))[1:-1]
    for name in predictors:
        ours = "C(sex)[M]" if name == "sex" else name
        assert table.loc[ours, "coefficient"] == pytest.approx(twin.params[name], rel=1e-6)
        # statsmodels has the observed information, here it is the expected one
        assert table.loc[ours, "standard error"] == pytest.approx(twin.bse[name], rel=0.02)
    assert table.loc[["a poor | b fair", "b fair | c good"], "coefficient"].to_numpy() == pytest.approx(cuts, rel=1e-6)
    assert found.facts["log-likelihood"] == pytest.approx(twin.llf, rel=1e-9)
    assert found.facts["null log-likelihood"] == pytest.approx(twin.llnull, rel=1e-6)


def test_errors_are_those_of_the_expected_information(vault: Vault) -> None:
    """By enumeration: for each record and each level, the square of the numerical derivative of log P, times P."""
    found = vault.ask("data", None, OrderedLogit("health ~ age"))
    assert isinstance(found, Answer)
    table = found.frame().set_index("term")
    order = ["a poor | b fair", "b fair | c good", "age"]
    beta, age = table.loc[order, "coefficient"].to_numpy(float), people()["age"].to_numpy()

    def shares(b: np.ndarray) -> np.ndarray:
        below = 1 / (1 + np.exp(b[2] * age[None, :] - b[:2, None]))
        return np.diff(below, axis=0, prepend=0.0, append=1.0)

    steps = np.array([1e-4, 1e-4, 1e-6])
    slopes = np.array(
        [(shares(beta + s * e) - shares(beta - s * e)) / (2 * s) for s, e in zip(steps, np.eye(3), strict=True)]
    )
    information = np.einsum("icn,jcn->ij", slopes / shares(beta), slopes)
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    assert table.loc[order, "standard error"].to_numpy(float) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "policy", [HARDENED, Policy.open().set({"models.sd": 6.0, "amounts.clip": True})], ids=["hardened", "much"]
)
@pytest.mark.parametrize(("secrets", "least"), [(24, 19 / 24), pytest.param(40, 0.9, marks=pytest.mark.verify)])
def test_intervals_cover_those_of_the_file(vault: Vault, policy: Policy, secrets: int, least: float) -> None:
    """Intervals of 95 %. Coefficients may share their noise: of 24 independent intervals 18 or fewer cover with P = 1 in 1,000."""
    data = vault.dataset("data")

    def told(seed: int, under: Policy) -> np.ndarray:
        one = dataclasses.replace(data, secret=Secret(Draws(seed)))
        found = Answering(
            one, Question(one.codebook, under, Universe.of(None), OrderedLogit("health ~ age + sex"))
        ).answer()
        assert isinstance(found, Answer), str(found)
        return found.frame()[["coefficient", "standard error"]].to_numpy(float)

    exact = told(0, Policy.open().set({"amounts.clip": True}))
    tries = np.array([told(s, policy) for s in range(secrets)])
    assert (np.abs(tries[:, :, 0] - exact[:, 0]) <= 1.96 * tries[:, :, 1]).mean() >= least


def test_what_has_no_order_is_refused(vault: Vault) -> None:
    with pytest.raises(ParameterError, match=r"write C\(hours\)"):
        vault.ask("data", None, OrderedLogit("hours ~ age"))
    assert not vault.ask("data", None, OrderedLogit("sex ~ age"))
