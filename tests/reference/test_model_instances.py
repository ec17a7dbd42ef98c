"""The three instances of the general disclosure-control model: noise on records, matrix masks, simple RTA.

Expected numbers are the papers', ERRATA's, algebra, numerical integration, or brute force.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sfumato import Recipe, Snooper
from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.maps import NormalPopulation
from sfumato.masks import KimNoise
from sfumato.papers import (
    Absolute,
    Linear,
    NoisyRecords,
    Normal,
    NoSolution,
    Problem,
    Publication,
    Risk,
    SimpleRTA,
    Solution,
    Target,
    User,
    Utility,
    ZeroOne,
    posterior_uncertainty,
)
from sfumato.papers import ru_paper as formulas
from sfumato.papers.conditional import conditional_variance
from sfumato.papers.ru_paper import TEACHERS

PRINTED = {"means": [[50, 40, 5]], "prior": [[500, 200, 50]], "base": [100, 0, 0]}
KNOWS_2 = {"means": [[50, 50, 5]], "prior": [[500, 0, 50]], "base": [100, 0, 0]}


# -- (i) noise of the R-U paper


def test_the_noise_of_the_r_u_paper_comes_out_of_the_general_model() -> None:
    records = NoisyRecords.of(TEACHERS, KimNoise(lambda2=0.3))
    for attacker, expected in (("flat", 0.141331), ("shrinks", 0.164593)):
        found = records.problem("salary", error=5, attacker=attacker).solve()  # type: ignore[arg-type]
        assert isinstance(found, Solution)
        assert round(found.parameters["lambda2"], 6) == expected
        assert found.utility.value == pytest.approx(1000 / ((1 + found.parameters["lambda2"]) * 13.3**2))
    difference = records.problem("salary", error=5, means={"income": 1, "salary": -1}).solve()
    assert isinstance(difference, Solution)
    assert difference.utility.value == pytest.approx(1000 / ((1 + 25 / 176.89) * 345.36))


@pytest.mark.parametrize("level", [0.05, 0.15, 1.0])
def test_risk_and_utility_of_the_r_u_paper_are_relative_certainties_with_a_base_of_1(level: float) -> None:
    records = NoisyRecords.of(TEACHERS, KimNoise())
    phi = {"lambda2": level}
    naive, shrinks = (
        Risk([records.value("salary")], [records.attacker(a)]).at(records.method, phi).value
        for a in ("flat", "shrinks")
    )
    assert naive == pytest.approx(float(formulas.index_risk(level, 13.3**2)))
    assert shrinks == pytest.approx(float(formulas.bayes_risk(level, 13.3**2)))  # other Kim columns add nothing (0.3)
    means = Utility([records.mean("salary"), records.mean({"income": 1, "salary": -1})], [records.analyst()])
    each = [c.value for c in means.all_at(records.method, phi)]
    assert each == pytest.approx([float(formulas.utility_mean(level, v, 1000)) for v in (13.3**2, 345.36)])
    assert means.at(records.method, phi).value == min(each)


def test_an_unmasked_covariate_of_correlation_6_tenths_needs_the_181_thousandths_of_errata_0_3() -> None:
    sd = np.array([13.3, 10.5])
    population = NormalPopulation({"salary": 62, "age": 44}, np.outer(sd, sd) * [[1, 0.6], [0.6, 1]], n=200)
    records = NoisyRecords.of(population, KimNoise(columns=("salary",)))
    found = records.problem("salary", error=5, attacker="shrinks").solve()
    assert isinstance(found, Solution)
    assert found.parameters["lambda2"] == pytest.approx(formulas.lambda2_for_error(5, 13.3**2, "bayes", 0.6))
    assert round(found.parameters["lambda2"], 3) == 0.181
    close = NormalPopulation({"salary": 62, "age": 44}, np.outer(sd, sd) * [[1, 0.93], [0.93, 1]], n=200)
    none = NoisyRecords.of(close, KimNoise(columns=("salary",))).problem("salary", error=5, attacker="shrinks").solve()
    assert isinstance(none, NoSolution)
    assert none.failing[0].value == pytest.approx(25 / (13.3**2 * (1 - 0.93**2)), rel=1e-6)


def test_an_error_read_as_mean_absolute_error_needs_222_thousandths() -> None:
    found = NoisyRecords.of(TEACHERS, KimNoise()).problem("salary", error=5, loss=Absolute()).solve()
    assert isinstance(found, Solution)
    assert round(found.parameters["lambda2"], 6) == 0.222002  # ERRATA 0.2


def test_a_snooper_within_a_tolerance_is_the_same_question_of_a_normal_quantile() -> None:
    """He is to miss by more than 5 with probability 1/2: λσ = 5 / Φ⁻¹(3/4)."""
    found = NoisyRecords.of(TEACHERS, KimNoise()).problem("salary", error=0.5, loss=ZeroOne(5)).solve()
    assert isinstance(found, Solution)
    assert found.parameters["lambda2"] == pytest.approx((5 / stats.norm.ppf(0.75)) ** 2 / 13.3**2)


def test_a_problem_reads_the_same_for_a_mask_and_its_measures() -> None:
    over = "kim_noise.lambda2"
    naive = Problem(KimNoise(), "salary", "salary", r=1 / 5**2, data=TEACHERS, over=over).solve()
    assert isinstance(naive, Solution)
    assert round(naive.parameters[over], 6) == 0.141331
    assert naive.utility.value == pytest.approx(4.9531, rel=1e-4)
    snooper = Snooper("bayes", parameter_published=True)
    bayes = Problem(Recipe.of(KimNoise()), "salary", "salary", 1 / 5**2, TEACHERS, over, snooper).solve()
    assert isinstance(bayes, Solution)
    assert round(bayes.parameters[over], 6) == 0.164593
    none = Problem(KimNoise(), "salary", "salary", r=1 / 14**2, data=TEACHERS, over=over, snooper=snooper).solve()
    assert isinstance(none, NoSolution)
    assert "risk for salary" in none.reason
    with pytest.raises(ParameterError, match="on which data"):
        Problem(KimNoise(), "salary", "salary", r=0.04)


# -- (ii) the matrix mask


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_variance_left_by_a_matrix_mask_is_that_of_conditioning_on_what_it_releases(noise: float) -> None:
    """M = AXB + C for 4 records of 3 columns; the target is one value of the data. Compared with Var(Y | M) (3.1)."""
    generator = np.random.default_rng(12)
    n, p = 4, 3
    V, K = np.cov(generator.normal(size=(p, 20))), 0.2 * np.eye(p)
    S = np.kron(V - K, np.eye(n)) + np.kron(K, np.ones((n, n)))  # vec X by columns, exchangeable records
    A, B = generator.normal(size=(2, n)), generator.normal(size=(p, 2))
    mask = Linear.matrix_mask((n, p), A, B, noise)
    c = np.zeros(n * p)
    c[1 * n + 2] = 1.0  # column 1 of record 2
    X = generator.normal(size=(n, p))
    assert mask.T @ X.ravel(order="F") == pytest.approx((A @ X @ B).ravel(order="F"))
    left = posterior_uncertainty(User("spy", Normal(np.zeros(n * p), S)), Target("y", c, base=1.0), mask)
    T = np.kron(B.T, A)
    released = T @ S @ T.T + noise * np.eye(4)
    assert left == pytest.approx(float(conditional_variance(c @ S @ c, c @ S @ T.T, released)[0, 0]))
    assert left == pytest.approx(float(c @ S @ c - c @ S @ T.T @ np.linalg.inv(released) @ T @ S @ c))


def test_the_bivariate_illustration_of_matrix_masking_is_a_problem_with_one_parameter() -> None:
    """Release M = aX₁ + X₂; the target has correlations r₁, r₂ with X. Acceptable if G < τ; minimise tr Var(X | M)."""
    rho, r1, r2, tau = 0.5, 0.6, 0.2, 0.2
    S = np.array([[1, rho, r1], [rho, 1, r2], [r1, r2, 1]])
    spy = [User("spy", Normal(np.zeros(3), S))]
    method = Publication(lambda a: Linear([[a, 1.0, 0.0]]), {"a": (-20.0, 20.0)})
    risk = Risk([Target("y", [0, 0, 1], base=1 - tau)], spy)  # Var(y | M) of at least 1 - τ: a certainty of at most 1
    a = np.roots([r1**2 - tau, 2 * (r1 * r2 - tau * rho), r2**2 - tau])  # ERRATA 2.6: where the constraint binds

    def explained(a: float) -> float:  # ERRATA 2.1
        return float(((1 + rho**2) * a**2 + 4 * rho * a + 1 + rho**2) / (a**2 + 2 * rho * a + 1))

    analytical = [Target("x1", [1, 0, 0], 1.0, "analytical"), Target("x2", [0, 1, 0], 1.0, "analytical")]
    for root in a.real:
        both = Utility(analytical, spy).all_at(method, {"a": float(root)})
        assert sum(c.reciprocal for c in both) == pytest.approx(2 - explained(root))
        assert risk.at(method, {"a": float(root)}).value == pytest.approx(1.0)


# -- (iii) simple RTA


def test_3_2_0_2_no_adjustment_is_needed_against_a_user_who_knows_little() -> None:
    cell = SimpleRTA(**PRINTED)  # type: ignore[arg-type]
    found = cell.solve()
    assert isinstance(found, Solution)
    assert found.parameters == {"sigma2": 0.0}
    assert found.binding is None
    assert found.utility.value == math.inf  # ERRATA 3.12
    known = cell.posterior(0.0, user=1, contributor=1)
    assert known.mean(80) == pytest.approx(40)
    assert known.variance == pytest.approx(500 - 500**2 / 750)
    assert round(known.variance) == 167
    general = cell.problem().solve()
    assert isinstance(general, Solution)
    assert general.parameters == {"sigma2": 0.0}


def test_3_2_0_3_against_a_user_who_knows_contribution_2_the_variance_is_75() -> None:
    cell = SimpleRTA(**KNOWS_2)  # type: ignore[arg-type]
    for found in (cell.solve(), cell.problem().solve()):
        assert isinstance(found, Solution)
        assert found.parameters["sigma2"] == pytest.approx(75)
        assert found.binding == ("contribution 1", "user 1")
    known = cell.posterior(75, user=1, contributor=1)
    assert known.mean(80 + 3) == pytest.approx(32.4)  # ERRATA 3.1
    assert known.variance == pytest.approx(100)
    total = cell.posterior(75, user=1)
    assert total.variance == pytest.approx(550 * 75 / (550 + 75))  # ERRATA 3.12
    assert total.mean(83) == pytest.approx(105 + 550 / 625 * (83 - 105))


def test_3_3_0_4_sizes_give_a_variance_of_77_and_a_twelfth_to_be_rounded_up() -> None:
    cell = SimpleRTA.from_sizes([40, 30, 15], prior_cv=1 / 2, base_cv=1 / 4)
    for found in (cell.solve(), cell.problem().solve()):
        assert isinstance(found, Solution)
        assert found.parameters["sigma2"] == pytest.approx(77 + 1 / 12)
        assert found.binding == ("contribution 1", "contributor 2")
    assert round(cell.risk(77.0).value, 6) == 1.000469  # ERRATA 3.2
    assert cell.risk(78.0).value < 1


def brute_force(prior: np.ndarray, base: np.ndarray, r: float = 1.0) -> float | None:
    """Return σ² over every pair g ≠ h of contributors who know their own; None if there is none."""
    n, needed = len(prior), []
    for g, h in itertools.product(range(n), repeat=2):
        if g == h or base[h] == 0:
            continue
        if prior[h] <= base[h] / r:
            return None
        needed.append(prior[h] ** 2 / (prior[h] - base[h] / r) + prior[g] - prior.sum())
    return max(0.0, max(needed)) if needed else 0.0


@pytest.mark.parametrize("seed", range(40))
def test_3_7_the_pairs_with_a_largest_partner_are_enough(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 9))
    prior = generator.integers(1, 12, n).astype(float)  # ties included
    base = prior * generator.choice([0.0, 0.3, 0.9], n)
    r = float(generator.choice([0.95, 1.0, 2.0]))
    cell = SimpleRTA(prior, base, own=True)
    expected = brute_force(prior, base, r)
    for found in (cell.solve(r), cell.problem(r).solve()):
        if expected is None:
            assert isinstance(found, NoSolution)
            continue
        assert isinstance(found, Solution)
        assert found.parameters["sigma2"] == pytest.approx(expected, abs=1e-9)
        assert found.risk.value <= r * (1 + 1e-9)
        general = cell.problem().risk.at(cell.problem().method, {"sigma2": found.parameters["sigma2"] + 1.0})
        assert cell.risk(found.parameters["sigma2"] + 1.0).value == pytest.approx(general.value)
        useful = cell.problem().utility.at(cell.problem().method, {"sigma2": found.parameters["sigma2"] + 1.0})
        assert cell.utility(found.parameters["sigma2"] + 1.0).value == pytest.approx(useful.value)


@pytest.mark.parametrize("seed", range(20))
def test_3_6_from_sizes_the_largest_is_the_target_and_the_second_largest_the_attacker(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 20, int(generator.integers(2, 12))).astype(float)
    epsilon, eta = 0.5, float(generator.choice([0.05, 0.2, 0.45]))
    ranked = np.sort(sizes)[::-1]
    lambda2 = epsilon**4 / (epsilon**2 - eta**2)
    expected = max(0.0, lambda2 * ranked[0] ** 2 + epsilon**2 * ranked[1] ** 2 - epsilon**2 * (sizes**2).sum())
    found = SimpleRTA.from_sizes(sizes, epsilon, eta).solve()
    assert isinstance(found, Solution)
    assert found.parameters["sigma2"] == pytest.approx(expected, abs=1e-9)  # ERRATA 3.4: not below 0


def test_3_5_a_single_contributor_is_guarded_against_an_outsider() -> None:
    cell = SimpleRTA.from_sizes([40], 1 / 2, 1 / 4)
    for found in (cell.solve(), cell.problem().solve()):
        assert isinstance(found, Solution)
        assert found.parameters["sigma2"] == pytest.approx((1 / 3 - 1 / 4) * 40**2)
        assert found.binding == ("contribution 1", "an outsider")


def test_3_10_who_knows_as_much_as_is_allowed_already_leaves_no_solution() -> None:
    for prior, base in (([[4, 1]], [4, 0]), ([[0, 1]], [1, 0]), ([[3, 1]], [4, 0])):
        cell = SimpleRTA(prior, base)
        for none in (cell.solve(), cell.problem().solve()):
            assert isinstance(none, NoSolution)
            assert (none.failing[0].target, none.failing[0].user) == ("contribution 1", "user 1")
            assert none.failing[0].value == pytest.approx(base[0] / prior[0][0] if prior[0][0] else math.inf)
    assert "never reaches" in SimpleRTA([[4, 1]], [4, 0]).solve().reason  # type: ignore[union-attr]
    assert "1.333 or more" in SimpleRTA([[3, 1]], [4, 0]).solve().reason  # type: ignore[union-attr]
    assert SimpleRTA([[0, 1]], [0, 0]).solve().feasible  # w = 0 sets no constraint
    assert not SimpleRTA.from_sizes([4, 3], 0.25, 0.25).solve().feasible
    assert SimpleRTA.from_sizes([4, 3], 0.25, 0.25).solve(r=1.5).feasible  # ERRATA 3.11


def test_3_12_whoever_knows_the_total_already_leaves_the_utility_infinite_at_no_noise() -> None:
    """Contributor 1 knows the only uncertain contribution: nothing over nothing was not a number once."""
    for cell in (SimpleRTA([5.0, 0.0], [2.5, 0.0], own=True), SimpleRTA([[0.0, 0.0], [4.0, 1.0]], [1.0, 1.0])):
        assert cell.utility(0.0).value == math.inf
        problem = cell.problem()
        assert problem.utility.at(problem.method, {"sigma2": 0.0}).value == math.inf
    assert SimpleRTA([5.0, 0.0], [2.5, 0.0], own=True).utility(5.0).value == pytest.approx(2.5 / 2.5)


def test_3_11_another_threshold_divides_the_base() -> None:
    other, divided = SimpleRTA([[500, 0, 50]], [100, 0, 0]).solve(r=0.5), SimpleRTA([[500, 0, 50]], [200, 0, 0]).solve()
    assert isinstance(other, Solution)
    assert isinstance(divided, Solution)
    assert other.parameters == divided.parameters


def test_3_2_utility_falls_and_risk_falls_as_the_variance_grows() -> None:
    cell = SimpleRTA.from_sizes([40, 30, 15, 3], 1 / 2, 1 / 4)
    levels = [0.5, 5.0, 50.0, 500.0]
    for values in ([cell.utility(s).value for s in levels], [cell.risk(s).value for s in levels]):
        assert values == sorted(values, reverse=True)


def test_a_smaller_prior_or_a_larger_base_needs_more_noise() -> None:
    levels = [
        SimpleRTA.from_sizes([40, 30, 15], prior, base).solve().parameters["sigma2"]  # type: ignore[union-attr]
        for prior, base in ((0.5, 0.2), (0.5, 0.25), (0.5, 0.3))
    ]
    assert levels == sorted(levels)
    one, two = (SimpleRTA([[500, v, 50]], [100, 0, 0]).solve() for v in (50.0, 0.0))
    assert one.parameters["sigma2"] < two.parameters["sigma2"]  # type: ignore[union-attr]


def test_the_solution_protects_in_a_simulated_attack() -> None:
    """An attacker's squared errors, in a simulation of the model, average to the base variance."""
    cell, generator = SimpleRTA(**KNOWS_2), np.random.default_rng(5)  # type: ignore[arg-type]
    d = np.array([50.0, 50.0, 5.0]) + generator.normal(size=(200_000, 3)) * np.sqrt([500, 0, 50])
    z = d.sum(axis=1) + generator.normal(size=200_000) * math.sqrt(75)
    known = cell.posterior(75, user=1, contributor=1)
    guess = known.prior_mean + known.weights[0] * (z - known.centre[0])
    assert np.mean((guess - d[:, 0]) ** 2) == pytest.approx(100, rel=0.015)


def test_what_is_published_is_the_adjusted_total_with_its_variance() -> None:
    cell = SimpleRTA.from_sizes([40, 30, 15], 1 / 2, 1 / 4)
    drawn = np.array([cell.publish(80, 77.1, Draws(seed)).total for seed in range(400)])
    assert cell.publish(80, 77.1, Draws(1)) == cell.publish(80, 77.1, Draws(1))
    assert cell.publish(80, 77.1, Draws(1)).sigma2 == 77.1
    assert stats.kstest((drawn - 80) / math.sqrt(77.1), "norm").pvalue > 0.01
    assert cell.publish(80, 0.0, Draws(1)).total == 80


@pytest.mark.parametrize(
    ("prior", "base", "own"),
    [
        ([[1, 2]], [1], False),
        ([-1, 2], [1, 1], True),
        ([[1, np.nan]], [1, 1], False),
        ([], [], True),
        ([[1, 2]], [1, 2], True),
    ],
)
def test_a_cell_whose_variances_do_not_fit_is_refused(prior: list[float], base: list[float], own: bool) -> None:
    with pytest.raises(ParameterError, match=r"cell needs|at least 0"):
        SimpleRTA(prior, base, own=own)


def test_a_cell_of_a_million_contributors_is_solved_at_once() -> None:
    sizes = np.random.default_rng(1).lognormal(0, 3, 1_000_000)
    found = SimpleRTA.from_sizes(sizes, 0.5, 0.25).solve()
    ranked = np.sort(sizes)[::-1]
    assert isinstance(found, Solution)
    assert found.parameters["sigma2"] == pytest.approx(
        max(0.0, ranked[0] ** 2 / 3 + ranked[1] ** 2 / 4 - (sizes**2).sum() / 4)
    )
