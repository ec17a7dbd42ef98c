"""The general disclosure-control model of the RTA paper in closed form: losses, posteriors, problems and solutions.

Expected numbers are the papers', ERRATA's, algebra, numerical integration, or brute force.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from losses import LOSSES, by_name
from scipy import optimize, stats

from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.masks import KimNoise
from sfumato.papers import (
    AddedNoise,
    DisclosureMethod,
    Linear,
    Loss,
    NoisyRecords,
    Normal,
    NoSolution,
    Problem,
    Publication,
    Quadratic,
    Risk,
    Sampled,
    SimpleRTA,
    Simulation,
    Solution,
    Target,
    User,
    Utility,
    ZeroOne,
    posterior,
    posterior_uncertainty,
    prior_uncertainty,
    relative,
)
from sfumato.papers.ru_paper import TEACHERS

# -- loss and uncertainty


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
@pytest.mark.parametrize("variance", [0.3, 4.0])
def test_2_3_3_the_uncertainty_of_a_normal_target_is_its_smallest_expected_loss(loss: Loss, variance: float) -> None:
    grid = np.linspace(-12, 12, 200_001) * math.sqrt(variance)
    density = stats.norm.pdf(grid, scale=math.sqrt(variance))

    def expected(theta: float) -> float:
        return float(np.trapezoid(density * loss(grid, theta), grid))

    smallest = optimize.minimize_scalar(expected, bounds=(-1, 1.3), method="bounded").fun
    assert loss.normal(variance) == pytest.approx(smallest, rel=1e-4)
    assert loss.normal_variance(loss.normal(variance)) == pytest.approx(variance, rel=1e-9)
    assert loss.normal(0.0) == 0


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_2_3_3_the_best_estimate_of_a_discrete_distribution_is_that_of_brute_force(loss: Loss) -> None:
    generator = np.random.default_rng(3)
    values = np.sort(generator.normal(size=40))
    weights = generator.dirichlet(np.ones(40), size=5)
    theta, left = loss.best(values, weights)
    grid = np.concatenate([np.linspace(-4, 4, 4_001), values, values + 0.8, values - 0.8])
    for w, t, found in zip(weights, theta, left, strict=True):
        brute = min(float(w @ loss(values, g)) for g in grid)
        assert found == pytest.approx(brute, abs=1e-6)
        assert found <= brute + 1e-12  # the model assumes the best case for the user
        assert float(w @ loss(values, t * (1 + 1e-15))) == pytest.approx(found, abs=0.05)


def test_2_3_3_7_under_quadratic_loss_estimators_are_means_and_uncertainties_variances() -> None:
    sample = np.array([1.0, 2.0, 6.0, 7.0])
    theta, left = Quadratic().best(sample, np.full((1, 4), 0.25))
    assert (theta[0], left[0]) == (sample.mean(), sample.var())


def test_an_exact_match_counts_for_a_category_and_never_for_a_continuous_target() -> None:
    assert ZeroOne().uncertainty([1.0, 1.0, 2.0, 3.0]) == 0.5
    assert ZeroOne().normal(2.0) == 1.0


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least 0"):
        ZeroOne(-1)


# -- the posterior of a normal model


def test_a_flat_prior_is_the_limit_of_a_large_variance() -> None:
    generator = np.random.default_rng(8)
    T, c = generator.normal(size=(3, 4)), generator.normal(size=4)
    noise = np.cov(generator.normal(size=(3, 9)))
    known = Normal(np.arange(4.0), [2.0, 3.0, 1e9, 1e9])
    flat = Normal(np.arange(4.0), [2.0, 3.0, np.inf, np.inf])
    z = generator.normal(size=3)
    target = Target("c", c, base=1)
    near, limit = (posterior(User("u", p), target, Linear(T, noise)) for p in (known, flat))
    assert limit.variance == pytest.approx(near.variance, rel=1e-6)
    assert limit.mean(z) == pytest.approx(near.mean(z), rel=1e-4)


def test_of_a_flat_prior_nothing_is_learned_where_nothing_is_published() -> None:
    user, target = User("u", Normal.unknown(2)), Target("second", [0, 1], base=1)
    assert posterior_uncertainty(user, target, Linear([[1.0, 0.0]], 1.0)) == math.inf
    assert prior_uncertainty(user, target) == math.inf
    assert posterior_uncertainty(user, target, Linear([[0.0, 2.0]], 1.0)) == pytest.approx(0.25)


def test_the_posterior_is_that_of_conditioning_a_joint_normal_distribution() -> None:
    generator = np.random.default_rng(1)
    V, T = np.cov(generator.normal(size=(4, 30))), generator.normal(size=(2, 4))
    noise, mean, c, z = (
        np.diag([0.5, 0.2]),
        generator.normal(size=4),
        generator.normal(size=4),
        generator.normal(size=2),
    )
    joint = np.block([[np.atleast_2d(c @ V @ c), (c @ V @ T.T)[None]], [(T @ V @ c)[:, None], T @ V @ T.T + noise]])
    precision = np.linalg.inv(joint)  # the first row of the joint precision gives mean and variance of X given Z
    found = posterior(User("u", Normal(mean, V)), Target("c", c, base=1), Linear(T, noise))
    assert found.variance == pytest.approx(1 / precision[0, 0])
    assert found.mean(z) == pytest.approx(c @ mean - precision[0, 1:] @ (z - T @ mean) / precision[0, 0])


# -- conventions


def test_2_4_a_ratio_of_two_zeros_is_left_out_and_something_over_zero_is_infinite() -> None:
    assert relative(0.0, 0.0) is None
    assert relative(1.0, 0.0) == math.inf
    method, knows = AddedNoise([[1.0, 1.0]]), User("knows both", Normal([0, 0], [0, 0]))
    nothing = Target("a", [1, 0], base=0.0)
    assert Risk([nothing], [knows]).at(method, {"sigma2": 1.0}).value == 0
    assert Utility([Target("t", [1, 1], 0.0, "analytical")], [knows]).at(method, {"sigma2": 1.0}).value == math.inf
    both = Risk([nothing, Target("b", [0, 1], base=2.0)], [User("u", Normal([0, 0], [1, 4]))])
    assert both.at(method, {"sigma2": 5.0}).target == "b"
    assert Risk([Target("b", [0, 1], base=2.0)], [knows]).at(method, {"sigma2": 1.0}).value == math.inf


def test_2_4_risk_is_the_largest_certainty_and_utility_the_smallest_with_safety_and_cost_their_reciprocals() -> None:
    users = [User("weak", Normal([0, 0], [9, 9])), User("strong", Normal([0, 0], [9, 1]))]
    targets = [Target("a", [1, 0], base=2.0), Target("b", [0, 1], base=0.1)]
    total = Target("total", [1, 1], 3.0, "analytical")
    method, phi = AddedNoise([[1, 1]]), {"sigma2": 4.0}

    def left(v: list[int], h: int) -> float:
        return v[h] - v[h] ** 2 / (sum(v) + 4)

    risk, utility = Risk(targets, users).at(method, phi), Utility([total], users).at(method, phi)
    ratios = {
        (u, t): b / left(v, t) for u, v in (("weak", [9, 9]), ("strong", [9, 1])) for t, b in ((0, 2.0), (1, 0.1))
    }
    assert risk.value == pytest.approx(max(ratios.values()))
    assert (risk.user, risk.target) == ("strong", "a")
    assert utility.value == pytest.approx(min(3.0 / (s * 4 / (s + 4)) for s in (18, 10)))
    solved = Problem(method, Utility([total], users), Risk(targets, users), r=2.0).solve()
    assert isinstance(solved, Solution)
    assert solved.safety == pytest.approx(1 / solved.risk.value)
    assert solved.cost == 1 / solved.utility.value or solved.utility.value == math.inf


def test_a_confidential_target_is_no_utility_and_the_other_way_round() -> None:
    with pytest.raises(ParameterError, match="analytical targets"):
        Utility([Target("a", [1], 1.0)], [User("u", Normal(0, 1))])
    with pytest.raises(ParameterError, match="confidential targets"):
        Risk([Target("a", [1], 1.0, "analytical")], [User("u", Normal(0, 1))])


# -- problems and solutions


def test_two_parameters_are_searched_as_well_as_by_brute_force() -> None:
    method = Publication(
        lambda total, part: Linear([[1, 1], [1, 0]], [total, part]), {"total": (0, 8), "part": (0.01, 8)}
    )
    users = [User("u", Normal([0, 0], [4.0, 3.0]))]
    utility = Utility([Target("total", [1, 1], 7.0, "analytical")], users)
    risk = Risk([Target("a", [1, 0], base=1.0), Target("b", [0, 1], base=2.0)], users)
    found = Problem(method, utility, risk, r=1.0).solve()
    assert isinstance(found, Solution)
    assert found.risk.value <= 1 + 1e-9
    V = np.diag([4.0, 3.0])
    best = 0.0
    for s, p in itertools.product(np.linspace(0.01, 8, 81), np.linspace(0.01, 8, 81)):
        T, noise = np.array([[1.0, 1], [1, 0]]), np.diag([s, p])
        left = V - V @ T.T @ np.linalg.inv(T @ V @ T.T + noise) @ T @ V
        if 1 / left[0, 0] <= 1 and 2.0 / left[1, 1] <= 1:
            best = max(best, 7 / left.sum())
    assert found.utility.value >= best * (1 - 1e-6)


def test_where_no_grid_point_is_safe_the_least_risk_and_its_constraint_are_named() -> None:
    method = Publication(lambda s: Linear([[1.0, 1.0]], s), {"s": (0.0, 5.0)})
    users = [User("u", Normal([0, 0], [4.0, 3.0]))]
    none = Problem(
        method, Utility([Target("t", [1, 1], 7.0, "analytical")], users), Risk([Target("a", [1, 0], 4.0)], users)
    ).solve()
    assert isinstance(none, NoSolution)
    assert none.failing[0].value == pytest.approx(4 / (4 - 16 / 12))
    assert "u about a" in none.reason
    assert "s = 5" in none.reason


def test_several_published_numbers_with_one_level_have_the_threshold_of_the_secular_equation() -> None:
    """ERRATA, after 3.12: the root of V_hh - Σ b_k²/(μ_k + s) = w_h² with TVT' = U diag(μ) U'."""
    T, v = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]]), np.array([9.0, 4.0, 2.0, 6.0])
    users = [User("u", Normal(np.zeros(4), v))]
    problem = Problem(
        AddedNoise(T),
        Utility([Target("t", np.ones(4), 1.0, "analytical")], users),
        Risk([Target("1", [1, 0, 0, 0], 6.0)], users),
    )
    found = problem.solve()
    mu, U = np.linalg.eigh(T @ np.diag(v) @ T.T)
    b = U.T @ T @ (v * [1, 0, 0, 0])
    root = optimize.brentq(lambda s: v[0] - (b**2 / (mu + s)).sum() - 6.0, 0, 1e6, rtol=1e-14)
    assert isinstance(found, Solution)
    assert found.parameters["sigma2"] == pytest.approx(root, rel=1e-10)
    assert found.binding == ("1", "u")


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_the_threshold_in_closed_form_is_that_of_a_search_for_every_loss(loss: Loss) -> None:
    users = [User("u", Normal([0, 0, 0], [5.0, 2.0, 0.5]))]
    base = loss.normal(1.2 * 3.0)
    risk = Risk([Target("1", [1, 0, 0], base=base)], users, loss)
    utility = Utility([Target("t", [1, 1, 1], 1.0, "analytical")], users, loss)
    closed = Problem(AddedNoise([[1, 1, 1]], fixed=0.1), utility, risk, r=1.1).solve()
    grid = Problem(
        Publication(lambda s: Linear([[1, 1, 1]], 0.1 + s), {"s": (0.0, 99.0)}, monotone=True), utility, risk, r=1.1
    )
    found = grid.solve()
    assert isinstance(closed, Solution)
    assert isinstance(found, Solution)
    assert closed.how == "a threshold in closed form"
    assert closed.parameters["sigma2"] == pytest.approx(found.parameters["s"], rel=1e-9)
    assert closed.risk.value == pytest.approx(1.1)


def test_a_ceiling_on_the_noise_can_make_a_problem_unsolvable() -> None:
    users = [User("u", Normal([0, 0, 0], [500, 0, 50]))]
    risk = Risk([Target("1", [1, 0, 0], base=100)], users)
    utility = Utility([Target("t", [1, 1, 1], 1.0, "analytical")], users)
    none = Problem(AddedNoise([[1, 1, 1]], high=74), utility, risk).solve()
    assert isinstance(none, NoSolution)
    assert none.failing[0].value == pytest.approx(100 / (500 - 500**2 / 624))
    assert "at sigma2 = 74" in str(none)
    assert Problem(AddedNoise([[1, 1, 1]], high=76), utility, risk).solve().feasible


@pytest.mark.parametrize("r", [0, -1, True, math.inf, math.nan])
def test_a_threshold_that_is_no_positive_number_is_refused(r: float) -> None:
    users = [User("u", Normal([0], [1]))]
    with pytest.raises(ParameterError, match="above 0"):
        Problem(
            AddedNoise([[1]]),
            Utility([Target("t", [1], 1.0, "analytical")], users),
            Risk([Target("t", [1], 1.0)], users),
            r,
        )


def test_priors_targets_and_methods_that_do_not_fit_are_refused_in_words() -> None:
    user = User("u", Normal([0, 0], [1, 1]))
    with pytest.raises(ParameterError, match="2 numbers"):
        posterior(user, Target("t", [1], 1.0), Linear([[1, 1]]))
    with pytest.raises(ParameterError, match="prior of 2"):
        posterior(user, Target("t", [1, 0], 1.0), Linear([[1, 1, 1]]))
    with pytest.raises(ParameterError, match="positive semi-definite"):
        Normal([0, 0], [[1, 2], [2, 1]])
    with pytest.raises(ParameterError, match="positive semi-definite"):
        Linear([[1, 0], [0, 1]], [[1, 2], [2, 1]])
    with pytest.raises(ParameterError, match="k means"):
        Normal([0, 0], [1, 1, 1])
    with pytest.raises(ParameterError, match="range of s is empty"):
        Publication(lambda s: Linear([[1]], s), {"s": (1.0, 1.0)})
    with pytest.raises(ParameterError, match="from 0 to 9"):
        AddedNoise([[1]], high=9.0).observation({"sigma2": 10.0})
    with pytest.raises(ParameterError, match="is not in"):
        AddedNoise([[1]]).observation({"lambda2": 10.0})
    with pytest.raises(ParameterError, match="'tottal'"):
        Problem(
            AddedNoise([[1]]), Utility([Target("t", [1], 1.0, "analytical")], [User("u", Normal(0, 1))]),
            Risk([Target("total", [1], 1.0)], [User("u", Normal(0, 1)), User("v", Normal(0, 1), ("tottal",))]),
        )  # fmt: skip


class Halves(DisclosureMethod):
    """A method of one's own with a parameter: noise on the total."""

    ranges: Mapping[str, tuple[float, float]] = {"s": (0.0, 99.0)}

    def observation(self, phi: Mapping[str, float]) -> Linear:
        return Linear([[1, 1]], phi["s"])


def test_a_method_class_of_ones_own_is_searched_without_saying_more_than_its_ranges() -> None:
    """Var(a | Z) = 4 - 16/(5 + s) reaches 2.5 at s = 17/3."""
    users = [User("u", Normal([0, 0], [4, 1]))]
    utility, risk = Utility([Target("t", [1, 1], 1.0, "analytical")], users), Risk([Target("a", [1, 0], 2.5)], users)
    found = Problem(Halves(), utility, risk).solve()
    assert isinstance(found, Solution)
    assert found.parameters["s"] == pytest.approx(17 / 3, rel=1e-6)
    for ranges, words in (
        ({}, "at least one parameter"),
        ({"s": (5, 1)}, "is empty"),
        ({"s": 5}, "lowest and highest"),
    ):
        method = Halves()
        method.ranges = ranges  # type: ignore[assignment]
        with pytest.raises(ParameterError, match=words):
            Problem(method, utility, risk)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Normal(["x"], [1]),
        lambda: Linear([["1", "x"]]),
        lambda: Target("t", ["x"], 1.0),  # type: ignore[list-item]
        lambda: Publication(lambda q: Linear([[1]], q), {"s": (0, 1)}),
        lambda: Publication(lambda s: Linear([[1]], s), {"s": 5}),  # type: ignore[dict-item]
        lambda: Simulation(1),  # type: ignore[arg-type]
        lambda: SimpleRTA([["x"]], [1]),
        lambda: SimpleRTA([[1, 2]], [1, 1], means=[1, 2, 3]),
        lambda: SimpleRTA([[1, 2]], [0.1, 0.1]).solve("x"),  # type: ignore[arg-type]
        lambda: SimpleRTA([[1, 2]], [0.1, 0.1]).publish(math.nan, 1.0, Draws(1)),
        lambda: SimpleRTA.from_sizes([1, 2], "x", 1),  # type: ignore[arg-type]
        lambda: NoisyRecords.of(TEACHERS, KimNoise()).problem("salary", error=0),
        lambda: Risk(
            [Target("a", [1, 0, 0], 1.0)], [User("s", Sampled(lambda g, n: g.normal(size=(n, 3))))],
            simulation=Simulation(Draws(1), 10, 2_000),
        ).at(AddedNoise([[1, 1]]), {"sigma2": 6.0}),
    ],
)  # fmt: skip
def test_what_is_no_number_or_does_not_fit_is_refused_in_words(make: Callable[[], object]) -> None:
    with pytest.raises(ParameterError, match=r"must|prior of 3|finite mean"):
        make()


def test_a_user_may_name_one_target_without_a_list() -> None:
    user = User("u", Normal(0, 1), estimates="total")
    assert [user.estimates_target(Target(n, [1], 1.0)) for n in ("total", "t")] == [True, False]
