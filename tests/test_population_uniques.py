"""Persons unique in the population: likelihood equations, Monte Carlo from each model itself, and the rule of choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from samples import release, seen
from scipy.optimize import approx_fprime
from scipy.stats import betabinom, binom, hypergeom, nbinom
from scipy.stats import dirichlet_multinomial as urns

from sfumato.errors import NotApplicable, ParameterError
from sfumato.risk import PopulationUniques
from sfumato.risk.population_uniques import (
    Frequencies,
    UniquesEstimate,
    _seen_once,
    chosen,
    dirichlet_multinomial,
    pitman,
    poisson_gamma,
    slide_negative_binomial,
    zayatz,
)

FIXED = Frequencies(np.array([1.0, 2.0, 3.0, 5.0, 9.0]), np.array([400.0, 120.0, 40.0, 10.0, 2.0]))


def restaurant(g: np.random.Generator, n: int, theta: float, alpha: float) -> Any:
    """Class sizes of n persons under Pitman's model, one person after the other (the Chinese restaurant)."""
    sizes, table = [1], [0]
    for m in range(1, n):
        if g.random() * (theta + m) < theta + alpha * len(sizes):
            table.append(len(sizes))
            sizes.append(1)
            continue
        while True:
            t = table[int(g.integers(m))]
            if g.random() < (sizes[t] - alpha) / sizes[t]:
                break
        table.append(t)
        sizes[t] += 1
    return np.array(sizes)


def test_the_estimate_of_zayatz_is_bayes_rule_with_hypergeometric_samples() -> None:
    n, total = int(FIXED.records), 5 * int(FIXED.records)
    once = np.asarray(hypergeom(total, FIXED.sizes.astype(int), n).pmf(1))  # of i persons, one is among n of N
    posterior = 400 * once[0] / (FIXED.counts @ once)
    assert zayatz(FIXED, 0.2).share == pytest.approx(400 * posterior * 5 / total)


def test_classes_too_large_to_be_seen_once_do_not_disturb_zayatz() -> None:
    file = Frequencies(np.array([1.0, 50.0]), np.array([5.0, 1.0]))
    assert zayatz(file, 0.99).share == pytest.approx(5 / 55, rel=0.05)


@pytest.mark.parametrize(("n", "total"), [(1000, 10**9), (10**6, 10**12), (50, 100), (50, 60), (3000, 4000)])
def test_the_chance_to_be_seen_once_is_exact_however_large_the_population(n: int, total: int) -> None:
    sizes = [1, 2, 3, 7, 20, 40]
    exact = [
        Fraction(i * n, total)
        * math.prod((Fraction(total - n - k, total - 1 - k) for k in range(i - 1)), start=Fraction(1))
        for i in sizes
    ]
    np.testing.assert_allclose(_seen_once(np.array(sizes, float), n, total), [float(e) for e in exact], rtol=1e-11)


@pytest.mark.parametrize("pi", [1e-6, 0.05, 0.5, 0.9])
def test_where_all_records_are_unique_zayatz_is_not_sure(pi: float) -> None:
    """Up to 3.69 pairs could have been expected though none was seen (rule of three, two-sided)."""
    n = 200
    found = zayatz(Frequencies(np.array([1.0]), np.array([float(n)])), pi)
    assert found.share == 1
    assert found.interval[1] == 1
    pairs = 3.689 * 2 * (1 - pi)  # a pair is seen once with probability 2π(1-π), a person alone with π
    assert found.interval[0] == pytest.approx(n / (n + pairs), rel=1e-2)


def test_no_share_is_above_one_and_one_record_is_called_one_record() -> None:
    for pi in (1e-6, 0.05, 0.5, 0.999, 1.0):
        score = PopulationUniques(fraction=pi).score(release(x=["a"]))
        assert score.value <= 1
        assert score.interval is not None
        assert score.interval[1] <= 1
        assert score.words.startswith("1 of 1 record is unique in the file; about 1 of them would be unique among the ")
        assert "1 persons of" not in score.words.replace(",", "")


def test_pitmans_parameters_solve_the_likelihood_equations() -> None:
    """The two derivatives of the log of Pitman's sampling formula, written out as sums."""
    file = seen(restaurant(np.random.default_rng(1), 3000, 30, 0.4))
    fit = pitman(file, 0.1).parameters
    theta, alpha = fit["theta"], fit["alpha"]
    n, u = int(file.records), int(file.classes)
    i = np.arange(1, u)
    by_theta = (1 / (theta + i * alpha)).sum() - (1 / (theta + np.arange(1, n))).sum()
    within = sum(
        c * sum(1 / (k - alpha) for k in range(1, int(s))) for s, c in zip(file.sizes, file.counts, strict=True)
    )
    by_alpha = (i / (theta + i * alpha)).sum() - within
    assert by_theta == pytest.approx(0, abs=1e-4)
    assert by_alpha == pytest.approx(0, abs=2e-2)


def test_pitmans_share_is_the_chance_to_stay_alone_while_the_others_come() -> None:
    found = pitman(FIXED, 0.1)
    theta, alpha = found.parameters["theta"], found.parameters["alpha"]
    total = round(FIXED.records / 0.1)
    i = np.arange(1, total)
    assert found.share == pytest.approx(np.exp(np.log((theta + alpha + i - 1) / (theta + i)).sum()), rel=1e-6)
    # Hoshino's form for large N
    assert found.share == pytest.approx(
        math.exp(math.lgamma(theta + 1) - math.lgamma(theta + alpha)) * total ** (alpha - 1), rel=0.1
    )


def test_the_dirichlet_multinomial_share_is_that_of_a_beta_binomial_count_of_each_key() -> None:
    file = seen(np.random.default_rng(2).multinomial(2_000, np.random.default_rng(3).dirichlet(np.full(600, 0.7))))
    found = dirichlet_multinomial(file, 0.2)
    kappa, keys = found.parameters["kappa"], found.parameters["keys of the population"]
    total = round(file.records / 0.2)
    alone = betabinom(total, kappa, kappa * (keys - 1)).pmf(1)
    assert found.share == pytest.approx(keys * alone / total, rel=1e-6)
    assert found.interval[0] < found.share < found.interval[1]


def test_the_dirichlet_multinomial_parameters_maximise_the_likelihood_that_scipy_gives() -> None:
    """The likelihood of which keys have how many records, over all ways to name the keys of K."""
    counts = np.random.default_rng(4).multinomial(600, np.random.default_rng(5).dirichlet(np.full(150, 0.6)))
    file = seen(counts)
    fit = dirichlet_multinomial(file, 0.1).parameters
    some = counts[counts > 0]

    def log_likelihood(kappa: float, keys: int) -> float:
        padded = np.concatenate([some, np.zeros(keys - len(some), int)])
        named = math.lgamma(keys + 1) - math.lgamma(keys - len(some) + 1)
        return float(urns.logpmf(padded, np.full(keys, kappa), 600)) + named

    keys = round(fit["keys of the population"])
    here = log_likelihood(fit["kappa"], keys)
    for kappa, other in ((1.05, 0), (0.95, 0), (1.0, 6), (1.0, -6), (0.97, 6), (1.03, -6)):
        assert log_likelihood(kappa * fit["kappa"], keys + other) <= here + 1e-3


def slide_pmf(f: Any, a: float, p: float, pi: float) -> Any:
    """P(f) of F - 1 ~ NegBin(a, p) and f ~ Bin(F, π), by summing over F."""
    F = np.arange(1, 3000)
    return np.array([(nbinom.pmf(F - 1, a, p) * binom.pmf(k, F, pi)).sum() for k in np.atleast_1d(f)])


def gamma_pmf(f: Any, a: float, p: float, pi: float) -> Any:
    """The same of F ~ NegBin(a, p)."""
    F = np.arange(0, 3000)
    return np.array([(nbinom.pmf(F, a, p) * binom.pmf(k, F, pi)).sum() for k in np.atleast_1d(f)])


@pytest.mark.parametrize(("model", "pmf"), [(slide_negative_binomial, slide_pmf), (poisson_gamma, gamma_pmf)])
def test_parameters_maximise_the_likelihood_of_classes_that_are_seen(
    model: Callable[[Frequencies, float], UniquesEstimate], pmf: Callable[..., Any]
) -> None:
    g = np.random.default_rng(11)
    pi = 0.3
    F = g.negative_binomial(0.6, 0.1, 1500) + (model is slide_negative_binomial)
    file = seen(g.binomial(F, pi))
    found = model(file, pi)

    def loss(x: Any) -> float:
        chance = pmf(file.sizes, *x, pi) / (1 - pmf(0, *x, pi))
        return -float(file.counts @ np.log(chance))

    best = np.array([found.parameters["a"], found.parameters["p"]])
    slope = approx_fprime(best, loss, 1e-6)
    far = approx_fprime(best * 1.2, loss, 1e-6)
    assert np.abs(slope).max() < 0.01 * np.abs(far).max()
    classes = file.classes / (1 - pmf(0, *best, pi)[0])
    first = best[1] ** best[0] if model is slide_negative_binomial else nbinom.pmf(1, *best)
    assert found.parameters["classes of the population"] == pytest.approx(classes)
    assert found.share == pytest.approx(classes * first * pi / file.records)


@pytest.mark.parametrize(
    ("model", "population"),
    [
        (pitman, lambda g: restaurant(g, 8000, 40, 0.45)),
        (slide_negative_binomial, lambda g: 1 + g.negative_binomial(0.4, 0.05, 1500)),
        (poisson_gamma, lambda g: g.negative_binomial(0.5, 0.05, 2500)),
        (dirichlet_multinomial, lambda g: g.multinomial(20_000, g.dirichlet(np.full(2_500, 0.5)))),
    ],
)
@pytest.mark.parametrize("pi", [0.1, 0.3])
def test_each_model_finds_the_truth_in_populations_of_its_own(model: Any, population: Any, pi: float) -> None:
    g = np.random.default_rng(12)
    true, shares, held = [], [], []
    for _ in range(40):
        F = population(g)
        F = F[F > 0]
        found = model(seen(g.binomial(F, pi)), pi)
        true.append((F == 1).sum() / F.sum())
        shares.append(found.share)
        held.append(found.interval[0] <= true[-1] <= found.interval[1])
    assert np.median(shares) == pytest.approx(np.median(true), rel=0.15)
    assert np.mean(held) >= 0.85


def test_at_the_edge_of_the_model_the_interval_is_still_wide_enough() -> None:
    """Classes that are nearly alike: the best negative binomial is the Poisson, with an infinite parameter."""
    g = np.random.default_rng(13)
    held = []
    for _ in range(40):
        F = g.negative_binomial(30, 0.8, 800)
        F = F[F > 0]
        found = poisson_gamma(seen(g.binomial(F, 0.1)), 0.1)
        held.append(found.interval[0] <= (F == 1).sum() / F.sum() <= found.interval[1])
    assert np.mean(held) >= 0.85


def test_the_rule_takes_pitman_for_small_fractions_and_the_lower_of_two_for_large_ones() -> None:
    assert chosen("dankar", FIXED, 0.1)[0] == "pitman"
    assert chosen("dankar", FIXED, 0.1)[1].share == pitman(FIXED, 0.1).share
    for file in (FIXED, Frequencies(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([60.0, 80.0, 90.0, 60.0, 30.0]))):
        for pi in (0.11, 0.5, 0.8):
            name, found = chosen("dankar", file, pi)
            lower = min(
                ("zayatz", zayatz(file, pi)), ("snb", slide_negative_binomial(file, pi)), key=lambda m: m[1].share
            )
            assert (name, found.share) == (lower[0], lower[1].share)


@pytest.mark.parametrize("pi", [0.05, 0.5])
def test_the_rule_falls_back_on_zayatz_and_says_so(pi: float) -> None:
    made = release(x=[f"k{i}" for i in range(20)])  # all unique: no other model can be fitted
    score = PopulationUniques(fraction=pi).score(made)
    assert "took the equivalence class model of Zayatz" in score.variant
    assert "(equivalence class model of Zayatz)" in score.words
    for model in ("pitman", "snb", "poisson_gamma"):
        with pytest.raises(NotApplicable, match=f"'{model}'"):
            PopulationUniques(model, fraction=pi).score(made)


def test_the_score_counts_records_and_persons() -> None:
    keys = np.repeat(np.arange(572), np.repeat(FIXED.sizes, FIXED.counts.astype(int)).astype(int))
    made = release(np.full(len(keys), 10.0), x=keys)
    score = PopulationUniques("pitman").score(made)
    assert score.value == pytest.approx(pitman(FIXED, 0.1).share)
    assert score.details["unique records"] == 400
    assert score.details["persons unique in the population"] == pytest.approx(score.value * 10 * len(keys))
    assert score.records is None
    assert PopulationUniques("pitman", fraction=0.1).score(made).value == pytest.approx(score.value)


def test_a_file_of_everybody_is_counted() -> None:
    score = PopulationUniques("pitman", fraction=1.0).score(release(x=["a", "b", "b", "c"]))
    assert (score.value, score.interval) == (0.5, (0.5, 0.5))
    assert "whole population" in score.words


def test_what_cannot_be_told_is_refused_and_never_zero() -> None:
    with pytest.raises(NotApplicable, match="no released record is unique"):
        PopulationUniques(fraction=0.1).score(release(x=["a", "a", "b", "b"]))
    with pytest.raises(NotApplicable, match="fraction="):
        PopulationUniques().score(release(x=["a", "b"]))
    with pytest.raises(ParameterError, match="fraction"):
        PopulationUniques(fraction=0.0)
    with pytest.raises(ParameterError, match="model"):
        PopulationUniques("best")  # type: ignore[arg-type]
