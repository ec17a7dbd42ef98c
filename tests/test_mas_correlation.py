"""Correlations from protected products: those of numpy without noise, and covered by their intervals with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED, vault_of
from mas_survey import linearised, microdata, survey

from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.mas.analyses import Correlation
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rules import HighCorrelation
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Answering, Vault

HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
MUCH = Policy.open().set({"models.sd": 12.0, "amounts.clip": True})


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return survey()


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v", Policy.open())
    vault.freeze("survey", microdata(frame, design=False))
    return vault


def ask(vault: Vault, analysis: Correlation) -> Answer:
    found = vault.ask(vault.names()[0], None, analysis)
    assert isinstance(found, Answer), str(found)
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_correlations_are_pairwise_complete_and_those_of_numpy(
    vault: Vault, frame: pd.DataFrame, weighted: bool
) -> None:
    """year lies a million standard deviations from zero."""
    answer = ask(vault, Correlation(("z", "age", "income", "year"), weighted=weighted, errors="classical"))
    table = answer.frame("pairs").set_index(["variable", "with"])
    matrix = answer.frame("correlations").set_index("variable")
    for a, b in (("age", "income"), ("age", "z"), ("income", "z"), ("income", "year"), ("age", "year")):
        both = frame.dropna(subset=[a, b])
        cov = np.cov(both[a], both[b], aweights=both["weight"] if weighted else None)
        r = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
        row = table.loc[(a, b)]
        assert row["correlation"] == pytest.approx(r, rel=1e-8)
        assert matrix.loc[a, b] == matrix.loc[b, a] == row["correlation"]
        assert row["standard error"] == pytest.approx(np.sqrt((1 - r**2) / (len(both) - 2)), rel=1e-8)
        assert row["n"] == len(both)


def test_robust_errors_are_those_of_the_textbook(vault: Vault, frame: pd.DataFrame) -> None:
    row = ask(vault, Correlation(("age", "income"), weighted=True)).frame("pairs").iloc[0]
    w = frame["weight"].to_numpy()
    u, v = ((frame[c] - np.average(frame[c], weights=w)).to_numpy() for c in ("age", "income"))
    u, v = u / np.sqrt(np.average(u**2, weights=w)), v / np.sqrt(np.average(v**2, weights=w))
    added = w / w.sum() * (u * v - row["correlation"] * (u**2 + v**2) / 2)
    expected = linearised(added[:, None], np.eye(1), frame, False, False)[0]
    assert row["standard error"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("of", [("hours", "income"), ("age", "hours"), ("age", "land")])
@pytest.mark.parametrize(("policy", "errors"), [(MUCH, "classical"), (HARDENED, "classical"), (MUCH, "hc1")])
def test_intervals_cover_the_correlation_of_the_file_and_errors_include_the_noise(
    tmp_path: Path, of: tuple[str, str], policy: Policy, errors: str
) -> None:
    n, rng = 4_000, np.random.default_rng(2)
    data = pd.DataFrame({"age": rng.normal(50, 10, n), "land": rng.gamma(1, 5, n), "hours": rng.normal(30, 8, n)})
    data["income"] = 3 * data["hours"] + rng.normal(0, 30, n)
    data.loc[:50, "hours"] = np.nan
    frozen = vault_of(tmp_path / "v", data, {"hours": "confidential", "income": "confidential"}, HARDENED).dataset(
        "data"
    )

    def asked(seed: int, under: Policy) -> tuple[float, float]:
        one = dataclasses.replace(frozen, secret=Secret(Draws(seed)))
        question = Question(one.codebook, under, Universe.of(None), Correlation(of, errors=errors))
        found = Answering(one, question).answer()
        assert isinstance(found, Answer), str(found)
        row = found.tables["pairs"][0]
        return row["correlation"], row["standard error"]

    exact, sampled = asked(0, Policy.open().set({"amounts.clip": True}))
    tries = np.array([asked(s, policy) for s in range(40)])
    assert (np.abs(tries[:, 0] - exact) <= 1.96 * tries[:, 1]).mean() >= 0.92
    noise = np.sqrt(max(np.median(tries[:, 1]) ** 2 - sampled**2, 0.0))
    if policy is MUCH and errors == "classical":
        assert tries[:, 0].std() == pytest.approx(
            noise, rel=0.35, abs=1e-9
        )  # three standard errors of a spread of forty


def test_a_pair_is_the_same_whatever_else_is_asked_for(tmp_path: Path, frame: pd.DataFrame) -> None:
    vault = Vault.create(tmp_path / "v", HARDENED)
    vault.freeze("survey", microdata(frame, design=False))
    first = ask(vault, Correlation(("age", "income"))).tables["pairs"][0]
    more = [
        r
        for r in ask(vault, Correlation(("z", "income", "age"))).tables["pairs"]
        if r["variable"] != "z" and r["with"] != "z"
    ]
    assert more == [first]
    assert (
        ask(vault, Correlation(("income", "age"))).to_bytes() == ask(vault, Correlation(("age", "income"))).to_bytes()
    )


def test_what_does_not_vary_or_is_nearly_the_same_is_refused(tmp_path: Path) -> None:
    n, rng = 2_000, np.random.default_rng(2)
    x = rng.normal(30, 8, n)
    data = pd.DataFrame(
        {"age": rng.normal(50, 10, n), "x": x, "y": x + rng.normal(0, 0.01, n), "same": np.full(n, 3.0)}
    )
    vault = vault_of(tmp_path / "v", data, {"x": "confidential", "y": "confidential"}, HARDENED)
    for of, rules in ((("x", "y"), {"high_correlation"}), (("age", "same"), {"no_variation"})):
        found = vault.ask("data", None, Correlation(of), Policy.open().with_(rules=(HighCorrelation(),)))
        assert isinstance(found, Refusal)
        assert found.rule in rules
    with pytest.raises(ParameterError, match="at least two"):
        Correlation(("age",))
