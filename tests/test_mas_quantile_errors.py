"""Standard errors of quantiles against theory, a slow twin and simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_survey import linearised, microdata, survey

from sfumato import Microdata
from sfumato.mas.analyses import Quantiles
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.quantile_estimation import BinCounts, cut_at, noise_variance, quantile_error
from sfumato.mas.vault import Vault
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
        spread = BinCounts(counts, counts, edges)

        def at(share: float, spread: BinCounts = spread) -> float:
            return cut_at(spread, share, 20).value

        values.append(at(0.3))
        told.append(quantile_error(at, 0.3, np.sqrt(0.3 * 0.7 / n + noise_variance(spread, 0.3, sd))))
    assert np.mean(told) == pytest.approx(np.std(values), rel=0.15)


def test_where_one_end_is_not_known_the_other_serves_and_without_both_there_is_no_error() -> None:
    def line(share: float) -> float:
        return 100 * share if share < 0.52 else float("nan")

    assert quantile_error(line, 0.5, 0.02) == pytest.approx(2.0)
    assert np.isnan(quantile_error(lambda _: float("nan"), 0.5, 0.02))


# -- households and strata


def textbook(frame: pd.DataFrame, inside: np.ndarray, p: float, strata: bool, clusters: bool) -> tuple[float, float]:
    """The weighted quantile of z of some records, and Woodruff's error of it, by hand."""
    w, z = np.where(inside, frame["weight"], 0.0), frame["z"].to_numpy()
    order = np.argsort(z[inside])
    values, reached = z[inside][order], np.cumsum(w[inside][order])

    def at(share: float) -> float:
        return float(values[np.searchsorted(reached, share * reached[-1] * (1 - 1e-12))])

    scores = np.where(inside, w * ((z <= at(p)) - p), 0.0)[:, None]
    error = float(linearised(scores, np.array([[1 / w.sum()]]), frame, strata, clusters)[0])
    return at(p), (at(p + 1.959963984540054 * error) - at(p - 1.959963984540054 * error)) / (2 * 1.959963984540054)


@pytest.mark.parametrize(("strata", "clusters"), [(True, True), (False, True), (True, False)])
def test_design_based_errors_are_those_of_the_textbook(tmp_path: Path, strata: bool, clusters: bool) -> None:
    frame = survey(1_200).assign(weight=lambda d: np.round(d["weight"] * 64) / 64)
    gone = [c for c, there in (("region", strata), ("house", clusters)) if not there]
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", microdata(frame.drop(columns=gone)))
    p = (0.2, 0.5, 0.9)
    usual, design = (
        vault.ask("survey", {"race": ["W", "B"]}, Quantiles("z", p=p, by=("sex",), weighted=True, errors=errors), EXACT)
        for errors in ("usual", "design")
    )
    assert usual.to_bytes() == design.to_bytes()
    for row in usual.frame().to_dict("records"):
        chosen = frame["race"].isin(["W", "B"]) & frame["z"].notna()
        inside = (chosen & ((frame["sex"] == row["sex"]) | (row["sex"] == "Total"))).to_numpy()
        value, error = textbook(frame, inside, row["p"], strata, clusters)
        assert row["value"] == pytest.approx(value, rel=1e-12)
        assert row["standard error"] == pytest.approx(error, rel=1e-9)


def drawn(rng: np.random.Generator, households: int = 400) -> pd.DataFrame:
    """A survey of households of three whose members are much alike, in two strata."""
    of_house = rng.normal(size=households)
    house = np.repeat(np.arange(households), 3)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], len(house)), "z": of_house[house] + 0.3 * rng.normal(size=len(house)), "house": house,
        "region": np.where(house % 2, "a", "b"), "weight": 1.0 + house % 2,
    })  # fmt: skip


def test_intervals_cover_the_truth_where_households_are_alike() -> None:
    rng = np.random.default_rng(2)
    truth = -0.6744897501960817 * np.sqrt(1.09)  # of normal values with variance 1 + 0.3²
    covered, alone = [], []
    for _ in range(300):
        frame = drawn(rng)
        value, error = textbook(frame, np.ones(len(frame), bool), 0.25, True, True)
        single = textbook(frame, np.ones(len(frame), bool), 0.25, False, False)[1]
        covered.append(abs(value - truth) < 1.96 * error)
        alone.append(abs(value - truth) < 1.96 * single)
    assert 0.91 <= np.mean(covered) <= 0.985
    assert np.mean(alone) < 0.85  # as of records drawn one by one: too short


def test_under_noise_the_errors_know_of_households_and_are_never_below_those_of_single_records(tmp_path: Path) -> None:
    frame = drawn(np.random.default_rng(6), 2_000)
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", microdata(frame))
    policy = Policy.named("hardened").with_(accounts=None, per_minute=None)
    p = (0.25, 0.5, 0.75)
    design, single = (
        vault.ask("survey", None, Quantiles("z", p=p, weighted=True, errors=errors), policy).frame()["standard error"]
        for errors in ("design", "hc1")
    )
    expected = [textbook(frame, np.ones(len(frame), bool), share, True, True)[1] for share in p]
    assert (design >= single).all()
    assert design.to_numpy() == pytest.approx(expected, rel=0.35)
    assert (design > 1.2 * single).any()
