"""Standard errors of quantiles against theory and simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.mas.analyses import Quantiles
from sfumato.mas.answer import Answer
from sfumato.mas.distribution import Spread, quantile
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.mas.woodruff import quantile_error, share_error
from sfumato.schema import Attribute, Schema

EXACT = Policy(title="exact")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    rng = np.random.default_rng(8)
    n = 20_000
    weights = np.where(rng.random(n) < 0.5, 1.0, 3.0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "x": rng.normal(100, 15, n), "w": weights})
    schema = Schema(
        (
            Attribute("sex", role="key", scale="unordered"),
            Attribute("x", role="confidential"),
            Attribute("w", role="weight"),
        )
    )
    made = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    made.freeze("survey", Microdata(frame, schema))
    return made


def errors(vault: Vault, policy: Policy, p: tuple[float, ...], weighted: bool = False) -> np.ndarray:
    found = vault.ask("survey", None, Quantiles("x", p=p, weighted=weighted), policy)
    assert isinstance(found, Answer)
    return found.frame()["standard error"].to_numpy(float)


def test_errors_are_the_root_of_p_1_minus_p_over_n_by_the_density(vault: Vault) -> None:
    from scipy.stats import norm

    p = (0.1, 0.25, 0.5, 0.75, 0.9)
    density = norm.pdf(norm.ppf(p)) / 15
    theory = np.sqrt(np.multiply(p, np.subtract(1, p)) / 20_000) / density
    assert errors(vault, EXACT, p) == pytest.approx(theory, rel=0.12)


def test_unequal_weights_cost_kishs_design_effect(vault: Vault) -> None:
    effect = (1 + 9) / 2 / 2**2  # of as many weights of 1 as of 3
    p = (0.25, 0.5, 0.75)
    ratio = errors(vault, EXACT, p, weighted=True) / errors(vault, EXACT, p)
    assert ratio == pytest.approx(np.full(3, np.sqrt(effect)), rel=0.15)


def test_noise_and_drops_only_add(vault: Vault) -> None:
    p = (0.25, 0.5, 0.75)
    hardened = errors(vault, Policy.named("hardened"), p)
    assert (hardened > 0.9 * errors(vault, EXACT, p)).all()
    assert (hardened < 3 * errors(vault, EXACT, p)).all()


@pytest.mark.parametrize(("n", "sd"), [(1_000, 5.0), (1_000, 0.0), (20_000, 20.0)])
def test_quantiles_of_noisy_bins_vary_as_their_errors_say(n: int, sd: float) -> None:
    rng = np.random.default_rng(3)
    edges = tuple(np.arange(60.0, 141.0, 5.0))
    values, told = [], []
    for _ in range(400):
        counts = np.histogram(rng.normal(100, 15, n), [-np.inf, *edges, np.inf])[0] + sd * rng.normal(
            size=len(edges) + 1
        )
        spread = Spread(counts, counts, edges)

        def at(share: float, spread: Spread = spread) -> float:
            return quantile(spread, share, 20, whole=False)

        values.append(at(0.3))
        told.append(quantile_error(at, 0.3, share_error(spread, 0.3, 1.0, sd)))
    assert np.mean(told) == pytest.approx(np.std(values), rel=0.15)


def test_where_one_end_is_not_known_the_other_serves_and_without_both_there_is_no_error() -> None:
    def line(share: float) -> float:
        return 100 * share if share < 0.52 else float("nan")

    assert quantile_error(line, 0.5, 0.02) == pytest.approx(2.0)
    assert np.isnan(quantile_error(lambda _: float("nan"), 0.5, 0.02))
