"""Analytic R-U maps of swapping and of normal synthesis (R-U paper, section 6), against simulations that share no code with them.

The simulations are plain numpy: permutations by hand, regressions by sums, inverse Wishart matrices from scipy. A second set of
tests holds the formulas against maps by replication, with the masks themselves, at n = 12 where n - 3 and n are far apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sfumato import Recipe, Snooper, ru_map
from sfumato.contract import Mask, NoiseModel, ReleaseModel, Side
from sfumato.errors import DataError, NotApplicable, RecipeError
from sfumato.kernels.swapping import partner_sums
from sfumato.maps import NormalPopulation
from sfumato.masks import (
    DataSwap,
    FullNormalSynthesis,
    IndependentNoise,
    KimNoise,
    NormalSynthesis,
    RandomOrder,
    RankSwap,
)
from sfumato.masks.swapping import random_pairs, rank_pairs
from sfumato.papers.ru_paper import TEACHERS
from sfumato.risk import AttributeRisk, PredictionRisk
from sfumato.utility import EstimatorUtility, Mean, MeanCombination, Slope

Numbers = NDArray[np.float64]
BETA, SIGMA, RESIDUAL = 2.0, 1.5, 9.0
PAIR = NormalPopulation.regression(0.5, 12, beta=BETA, sigma=SIGMA)  # Var(e) = β²σ² = 9
THREE = NormalPopulation({"x": 1, "y": 2, "z": 3}, [[2, 0.9, 0.7], [0.9, 1.5, 0.6], [0.7, 0.6, 1.0]], 12)
SLOPE = Slope("y", "x")


def model(population: NormalPopulation, mask: Mask | Recipe, n: int) -> ReleaseModel:
    recipe = mask if isinstance(mask, Recipe) else mask.as_recipe()
    sized = NormalPopulation(population.means, population.covariance, n)
    made = recipe.release_model(sized.model(), sized.schema)
    assert made is not None
    return made


def risk(released: ReleaseModel, column: str, snooper: Snooper | None = None, **targets: float) -> float:
    found = AttributeRisk(column, **targets).by_formula(released, snooper or Snooper())  # type: ignore[arg-type]
    assert found is not None
    return found


def agrees(squares: Numbers, expected: float, slack: float = 0.0) -> bool:
    """The mean of squared errors is the expected one, within four standard errors (and some slack, where n must be large)."""
    error = squares.std(ddof=1) / math.sqrt(len(squares))
    assert error < 0.05 * expected  # else the test would tell nothing
    return bool(abs(squares.mean() - expected) < 4 * error + slack * expected)


def regression(generator: np.random.Generator, count: int, n: int) -> tuple[Numbers, Numbers]:
    x = generator.standard_normal((count, n)) * SIGMA
    return x, BETA * x + generator.standard_normal((count, n)) * math.sqrt(RESIDUAL)


def normal(generator: np.random.Generator, mean: Numbers, covariance: Numbers, count: int = 1) -> Numbers:
    return np.asarray(mean + generator.standard_normal((count, len(mean))) @ np.linalg.cholesky(covariance).T)


def slopes(x: Numbers, y: Numbers) -> Numbers:
    a = x - x.mean(axis=-1, keepdims=True)
    return np.asarray((a * y).sum(axis=-1) / (a * a).sum(axis=-1))


# -- data swapping


@pytest.mark.parametrize(("n", "pairs"), [(12, 1), (12, 4), (13, 6), (80, 10)])
def test_random_swapping_in_a_plain_simulation(n: int, pairs: int) -> None:
    x, y = regression(np.random.default_rng(n + pairs), 20_000, n)
    swapped = x.copy()
    for j in range(pairs):  # records come in random order: the first ones are as good as any
        swapped[:, [2 * j, 2 * j + 1]] = x[:, [2 * j + 1, 2 * j]]
    released = model(PAIR, DataSwap(columns=("x",), rate=2 * pairs / n), n)
    assert agrees(((swapped - x) ** 2).mean(axis=1), 1 / risk(released, "x"))
    assert 1 / risk(released, "x") == pytest.approx(2 * SIGMA**2 * 2 * pairs / n)
    own, found = slopes(x, y), slopes(swapped, y)
    kept = ((swapped - x.mean(axis=1, keepdims=True)) * x).sum(axis=1) / ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(
        axis=1
    )
    exact = random_pairs(n, pairs)
    assert kept.mean() == pytest.approx(exact.mean, abs=4 * kept.std() / math.sqrt(len(kept)))
    assert kept.var() == pytest.approx(exact.variance, rel=0.06)
    assert agrees((found - BETA) ** 2, SLOPE.mse(released, "population") or math.nan)
    assert agrees((found - own) ** 2, SLOPE.mse(released, "file") or math.nan)


def test_which_of_the_two_columns_is_swapped_does_not_matter_and_both_together_keep_the_slope() -> None:
    one, other, both = (model(PAIR, DataSwap(columns=c, rate=0.5), 30) for c in (("x",), ("y",), ("x", "y")))
    assert SLOPE.mse(one, "population") == SLOPE.mse(other, "population")
    assert SLOPE.mse(both, "population") == pytest.approx(RESIDUAL / ((30 - 3) * SIGMA**2))
    assert SLOPE.mse(both, "file") == 0
    assert Mean("x").mse(one, "population") == pytest.approx(SIGMA**2 / 30)
    assert MeanCombination({"x": 1, "y": -1}).mse(one, "file") == 0


@pytest.mark.parametrize("m", [1.0, 0.7])
def test_a_snooper_who_shrinks_swapped_values_in_a_plain_simulation(m: float) -> None:
    """He knows y of the target; a wrong link is to any other record, which may hold the value by a swap."""
    n, pairs, count = 12, 3, 60_000
    generator = np.random.default_rng(4)
    x, y = regression(generator, count, n)
    held = x.copy()
    for j in range(pairs):
        held[:, [2 * j, 2 * j + 1]] = x[:, [2 * j + 1, 2 * j]]
    target = generator.integers(0, n, count)
    wrong = (target + generator.integers(1, n, count)) % n
    linked = np.where(generator.random(count) < m, target, wrong)
    rows = np.arange(count)
    t, seen, z = x[rows, target], held[rows, linked], y[rows, target]
    design = np.column_stack([np.ones(count), seen, z])
    best = design @ np.linalg.lstsq(design, t, rcond=None)[0]
    snooper = Snooper("bayes", m, ("y",), parameter_published=True)
    released = model(PAIR, DataSwap(columns=("x",), rate=0.5), n)
    assert agrees((best - t) ** 2, 1 / risk(released, "x", snooper))
    top = t > SIGMA * stats.norm.ppf(0.8)  # the holders of extreme values
    assert agrees((best - t)[top] ** 2, 1 / risk(released, "x", snooper, low=0.8))
    assert agrees((seen - t)[top] ** 2, 1 / risk(released, "x", Snooper("naive", m), low=0.8))


def test_the_smallest_safe_rate_of_the_teachers_swaps_36_pairs() -> None:
    """An rms error of 5 needs 2qσ² ≥ 25, q ≥ 0.07066: 36 of 500 pairs, from a rate of 0.071 on."""
    m = ru_map(
        TEACHERS, DataSwap(columns=("salary",)), "data_swap.rate", "salary", Slope("income", "salary"), replications=0
    )
    choice = m.choose(max_risk=1 / 5**2)
    assert choice.settings["data_swap.rate"] == pytest.approx(0.071, abs=2e-5)
    assert choice.risks[0].value == pytest.approx(1 / (2 * 0.072 * 13.3**2))


@pytest.mark.parametrize(
    "recipe",
    [
        DataSwap(columns=("x",), keep=("y",)),
        DataSwap(columns=("x",), target="rare"),
        DataSwap(columns=("x",), margins=(("x", "y"),)),
        RankSwap(columns=("x",), within=("y",)),
        Recipe.of(KimNoise(columns=("x",)), DataSwap(columns=("x",))),
        Recipe.of(DataSwap(columns=("x",)), IndependentNoise()),
        Recipe.of(DataSwap(columns=("x",)), RankSwap()),
        NormalSynthesis(("x",), given=("nothing",)),
    ],
)
def test_where_no_model_is_known_there_is_no_formula(recipe: Mask | Recipe) -> None:
    made = recipe if isinstance(recipe, Recipe) else recipe.as_recipe()
    assert made.release_model(PAIR.model(), PAIR.schema) is None


def test_a_step_that_changes_nothing_keeps_the_formula() -> None:
    plain, ordered = DataSwap(columns=("x",)), Recipe.of(DataSwap(columns=("x",)), RandomOrder())
    assert SLOPE.mse(model(PAIR, plain, 40), "population") == SLOPE.mse(model(PAIR, ordered, 40), "population")
    noise = Recipe.of(KimNoise(lambda2=0.1), RandomOrder(), KimNoise(lambda2=0.2))
    made = noise.release_model(PAIR.model(), PAIR.schema)
    assert isinstance(made, NoiseModel)
    assert made.released == pytest.approx(PAIR.covariance * 1.1 * 1.2)


# -- rank swapping


def slow_sums(m: Numbers, v: Numbers, left: Numbers, right: Numbers, limit: int) -> tuple[list[float], Numbers]:
    """The kernel's slow twin, written from its description."""
    n = len(m)
    free, gradient, sums = np.ones(n), np.zeros(n), [0.0] * 4
    for k in range(n):
        above = list(range(k + 1, min(k + limit, n - 1) + 1))
        total = sum(free[s] for s in above)
        if not total:
            continue
        chances = [free[s] / total for s in above]
        squares = [(m[k] - m[s]) ** 2 for s in above]
        for s, q in zip(above, chances, strict=True):
            w = free[k] * q
            sums[0] += w * ((m[k] - m[s]) ** 2 + max(v[k] + v[s] - 2 * left[k] * right[s], 0))
            sums[2] += w * (m[s] * (m[k] ** 2 - 1) + m[k] * (m[s] ** 2 - 1))
            sums[3] += w * (m[s] * (m[k] ** 3 - 3 * m[k]) + m[k] * (m[s] ** 3 - 3 * m[s]))
            gradient[k] += 2 * w * (m[k] - m[s])
            gradient[s] += 2 * w * (m[s] - m[k])
        mean = sum(q * d for q, d in zip(chances, squares, strict=True))
        sums[1] += free[k] * sum(q * (d - mean) ** 2 for q, d in zip(chances, squares, strict=True))
        gone = free[k] / total
        for s in above:
            free[s] *= max(1 - gone, 0)
    return sums, gradient


@pytest.mark.parametrize(("n", "limit"), [(2, 1), (9, 3), (30, 30), (24, 1)])
def test_sums_over_rank_partners_are_those_of_the_slow_twin(n: int, limit: int) -> None:
    generator = np.random.default_rng(n)
    m, v = np.sort(generator.normal(size=n)), generator.random(n)
    left, right = generator.random(n) / 2, generator.random(n) / 2
    sums, gradient = partner_sums(m, v, left, right, limit)
    slow, slow_gradient = slow_sums(m, v, left, right, limit)
    assert sums == pytest.approx(slow, abs=1e-10)
    assert gradient == pytest.approx(slow_gradient, abs=1e-10)


def rank_swapped(x: Numbers, limit: int, generator: np.random.Generator) -> Numbers:
    """Swap as Moore (1996) does it, with lists: from the lowest up, each free rank picks a free one within the limit."""
    order = np.argsort(x)
    free = list(range(len(x)))
    out = x.copy()
    while len(free) > 1:
        k = free.pop(0)
        near = [s for s in free if s - k <= limit]
        s = near[int(generator.random() * len(near))]
        free.remove(s)
        out[order[k]], out[order[s]] = x[order[s]], x[order[k]]
    return out


@pytest.mark.parametrize(("n", "p"), [(60, 0.1), (60, 0.3), (200, 0.05), (100, 1.0)])
def test_rank_swapping_in_a_plain_simulation(n: int, p: float) -> None:
    generator = np.random.default_rng(9)
    count = 60_000 // n
    x, y = regression(generator, count, n)
    swapped = np.array([rank_swapped(row, round(p * n), generator) for row in x])
    released = model(PAIR, RankSwap(columns=("x",), p=p), n)
    assert agrees(((swapped - x) ** 2).mean(axis=1), 1 / risk(released, "x"), slack=0.015)
    expected = SLOPE.mse(released, "file")
    assert expected is not None
    assert ((slopes(swapped, y) - slopes(x, y)) ** 2).mean() == pytest.approx(expected, rel=0.12)
    kept = rank_pairs(n, round(p * n))
    a = x - x.mean(axis=1, keepdims=True)
    c = (a * (swapped - x.mean(axis=1, keepdims=True))).sum(axis=1) / (a * a).sum(axis=1)
    assert c.mean() == pytest.approx(kept.mean, abs=4 * c.std() / math.sqrt(count) + 0.015 * (1 - kept.mean))
    assert 0.5 < c.var() / kept.variance < 2  # the rougher part, and the smaller one


def test_two_columns_that_are_rank_swapped_apart_lose_their_slope_twice_over() -> None:
    generator = np.random.default_rng(2)
    n, p, count = 100, 0.3, 500
    x, y = regression(generator, count, n)
    both = [np.array([rank_swapped(row, round(p * n), generator) for row in column]) for column in (x, y)]
    found = slopes(both[0], both[1])
    released = model(PAIR, RankSwap(p=p), n)
    assert agrees((found - BETA) ** 2, SLOPE.mse(released, "population") or math.nan, slack=0.05)


def test_with_a_window_of_half_the_ranks_few_records_stand_for_many() -> None:
    many, more = rank_pairs(3_000, 600), rank_pairs(300_000, 60_000)
    assert more.mean == pytest.approx(many.mean, rel=2e-3)
    assert rank_pairs(10_000_000, 5_000).mean == pytest.approx(1.0, abs=1e-4)


def test_a_window_of_less_than_a_rank_moves_nothing() -> None:
    assert rank_pairs(50, 0).mean == 1
    assert risk(model(PAIR, RankSwap(columns=("x",), p=0.01), 50), "x") == math.inf


def test_extreme_values_move_further_in_rank_swapping_so_there_is_no_formula_for_them() -> None:
    released = model(PAIR, RankSwap(columns=("x",)), 50)
    assert AttributeRisk("x", low=0.9).by_formula(released, Snooper()) is None


# -- synthetic data


def synthetic(
    generator: np.random.Generator, target: Numbers, given: Numbers, proper: bool, implicates: int
) -> Numbers:
    """Return implicates (implicates, n) of one column drawn given others, from the textbook posterior."""
    n = len(target)
    design = np.column_stack([np.ones(n), given])
    inverse = np.linalg.inv(design.T @ design)
    hat = inverse @ design.T @ target
    rss, freedom = float(((target - design @ hat) ** 2).sum()), n - design.shape[1]
    out = []
    for _ in range(implicates):
        variance = rss / generator.chisquare(freedom) if proper else rss / freedom
        coefficients = normal(generator, hat, variance * inverse)[0] if proper else hat
        out.append(design @ coefficients + generator.standard_normal(n) * math.sqrt(variance))
    return np.array(out)


def records(generator: np.random.Generator, n: int) -> dict[str, Numbers]:
    drawn = normal(generator, np.array(list(THREE.means.values())), THREE.covariance, n)
    return dict(zip(THREE.means, drawn.T, strict=True))


@pytest.mark.parametrize("proper", [True, False])
@pytest.mark.parametrize(
    ("masked", "given", "n", "slack"),
    [("y", "x", 12, 0.0), ("y", "xz", 14, 0.0), ("x", "y", 80, 0.05), ("x", "z", 80, 0.05), ("y", "z", 80, 0.05)],
)
def test_partially_synthetic_data_in_a_plain_simulation(
    masked: str, given: str, n: int, slack: float, proper: bool
) -> None:
    generator = np.random.default_rng(7)
    errors, means, beta = [], [], []
    true = THREE.covariance[0, 1] / THREE.covariance[0, 0]
    for _ in range(4_000 if n < 20 else 2_000):
        data = records(generator, n)
        made = synthetic(generator, data[masked], np.column_stack([data[g] for g in given]), proper, 2)
        errors.append(((made.mean(axis=0) - data[masked]) ** 2).mean())
        means.append((made.mean() - THREE.means[masked]) ** 2)
        both = [slopes(row, data["y"]) if masked == "x" else slopes(data["x"], row) for row in made]
        beta.append((np.mean(both) - true) ** 2)
    mask = NormalSynthesis((masked,), given=tuple(given), proper=proper, implicates=2)
    released = model(THREE, mask, n)
    assert agrees(np.array(errors), 1 / risk(released, masked))
    assert agrees(np.array(means), Mean(masked).mse(released, "population") or math.nan)
    assert agrees(np.array(beta), SLOPE.mse(released, "population") or math.nan, slack)


@pytest.mark.parametrize("proper", [True, False])
@pytest.mark.parametrize(("n", "size", "p"), [(12, 10, 2), (14, 30, 3)])
def test_fully_synthetic_data_in_a_plain_simulation(n: int, size: int, p: int, proper: bool) -> None:
    generator = np.random.default_rng(n + p)
    means, beta, own, predicted = [], [], [], []
    S, mu = THREE.covariance[:p, :p], np.array(list(THREE.means.values()))[:p]
    true = S[0, 1] / S[0, 0]
    # L W L' with W from the inverse Wishart distribution of a unit matrix has that of LL'; drawn at once, it is fast
    unit = iter(np.asarray(stats.invwishart.rvs(n - 1, np.eye(p), size=6_000, random_state=generator)))
    for _ in range(3_000):
        data = normal(generator, mu, S, n)
        centre, products = data.mean(axis=0), (n - 1) * np.cov(data.T)
        here: list[Numbers] = []
        for _ in range(2):
            sigma = products / (n - 1)
            if proper:
                root = np.linalg.cholesky(products)
                sigma = root @ next(unit) @ root.T
            mean = normal(generator, centre, sigma / n)[0] if proper else centre
            here.append(normal(generator, mean, sigma, size))
        guess = np.mean([h[:, 0].mean() for h in here])
        means.append((guess - mu[0]) ** 2)
        predicted.append(((guess - data[:, 0]) ** 2).mean())
        slope = np.mean([slopes(h[:, 0], h[:, 1]) for h in here])
        beta.append((slope - true) ** 2)
        own.append((slope - slopes(data[:, 0], data[:, 1])) ** 2)
    mask = FullNormalSynthesis(("x", "y", "z")[:p], size=size, implicates=2, proper=proper)
    released = model(THREE, mask, n)
    assert agrees(np.array(means), Mean("x").mse(released, "population") or math.nan)
    assert agrees(np.array(beta), SLOPE.mse(released, "population") or math.nan)
    assert agrees(np.array(own), SLOPE.mse(released, "file") or math.nan)
    assert agrees(np.array(predicted), 1 / (PredictionRisk("x").by_formula(released, Snooper()) or math.nan))


def test_without_drawing_parameters_one_implicate_as_large_as_the_file_halves_the_precision_of_a_mean() -> None:
    released = model(THREE, FullNormalSynthesis(("x", "y"), proper=False), 500)
    assert Mean("x").mse(released, "population") == pytest.approx(2 * 2 / 500)
    many = model(THREE, FullNormalSynthesis(("x", "y"), proper=False, implicates=1000), 500)
    assert Mean("x").mse(many, "population") == pytest.approx(
        2 / 500, rel=2e-3
    )  # no more is lost, and no more is gained
    assert Mean("z").mse(many, "population") is None


@pytest.mark.parametrize(("n", "size"), [(3, 10), (10, 3)])
def test_with_three_records_or_fewer_a_slope_has_no_utility(n: int, size: int) -> None:
    assert SLOPE.mse(model(THREE, FullNormalSynthesis(("x", "y"), size=size), n), "population") == math.inf
    assert SLOPE.mse(model(THREE, DataSwap(columns=("x",)), 3), "population") == math.inf


@pytest.mark.parametrize("mask", [DataSwap(columns=("x",)), KimNoise(columns=("y",))], ids=lambda m: m.name)
def test_a_slope_on_a_constant_column_is_refused_and_not_divided_by_zero(mask: Mask) -> None:
    flat = NormalPopulation({"x": 1, "y": 2}, [[0, 0], [0, 1]], 50)
    over = {"data_swap.rate": [0.5]} if mask.name == "data_swap" else {"kim_noise.lambda2": [0.5]}
    with pytest.raises(DataError, match="constant"):
        ru_map(flat, mask, over, "y", SLOPE, replications=0)


def test_no_record_of_a_fully_synthetic_file_is_a_persons_own() -> None:
    mask, over = FullNormalSynthesis(("x", "y")), {"full_normal_synthesis.size": [10]}
    with pytest.raises(RecipeError, match="no formula for risk for x"):
        ru_map(THREE, mask, over, "x", "x", replications=0)
    with pytest.raises(NotApplicable, match="synthetic"):
        ru_map(THREE, mask, over, "x", "x", replications=2, draws=1)
    predicted = ru_map(THREE, mask, over, PredictionRisk("x", ("y",)), "x", replications=0)
    assert predicted.analytic[0][0] > 0


# -- with the masks themselves

SETTINGS: list[tuple[NormalPopulation, Mask, dict[str, list[float]], AttributeRisk | PredictionRisk, Slope | Mean, Snooper]] = [
    (PAIR, DataSwap(columns=("x",)), {"data_swap.rate": [0.3, 1.0]}, AttributeRisk("x"), SLOPE, Snooper()),
    (PAIR, DataSwap(columns=("x",)), {"data_swap.rate": [0.3]}, AttributeRisk("x"), SLOPE, Snooper("bayes", 0.8, ("y",), True)),
    (NormalPopulation.regression(0.5, 120), RankSwap(columns=("x",)), {"rank_swap.p": [0.1, 0.4]}, AttributeRisk("x"), SLOPE,
     Snooper("bayes", parameter_published=True)),
    (THREE, NormalSynthesis(("y",), given=("x",)), {"normal_synthesis.implicates": [1, 3]}, AttributeRisk("y"), SLOPE,
     Snooper("bayes", covariates=("z",), parameter_published=True)),
    (THREE, NormalSynthesis(("x", "y"), given=("z",), proper=False), {"normal_synthesis.implicates": [2]}, AttributeRisk("x"),
     Mean("x"), Snooper()),
    (THREE, FullNormalSynthesis(("x", "y")), {"full_normal_synthesis.size": [10, 40]}, PredictionRisk("x"), SLOPE, Snooper()),
]  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s[1].name}, {s[5].strategy}")
def test_maps_by_replication_agree_with_the_formulas(
    setting: tuple[
        NormalPopulation, Mask, dict[str, list[float]], AttributeRisk | PredictionRisk, Slope | Mean, Snooper
    ],
) -> None:
    population, mask, over, wanted, estimator, snooper = setting
    m = ru_map(population, mask, over, wanted, EstimatorUtility(estimator), snooper=snooper, replications=300, draws=11)
    for i, p in itertools.product(range(2), range(len(m.points))):
        squares = m.observations[i][p][:, 0]
        error = squares.std(ddof=1) / math.sqrt(len(squares))
        assert abs(squares.mean() - 1 / m.analytic[i][p]) < 4 * error + 0.01 * squares.mean()
    assert {row["source"] for row in m.frame().to_dict("records")} == {"empirical", "analytic"}
    assert m.of_side(Side.RISK) == (0,)


def test_a_prediction_by_the_mean_has_a_formula_under_every_model() -> None:
    made: list[tuple[Mask, Callable[[int], float]]] = [
        (KimNoise(lambda2=0.5), lambda n: SIGMA**2 * (n - 1) / n + 0.5 * SIGMA**2 / n),
        (DataSwap(columns=("x",)), lambda n: SIGMA**2 * (n - 1) / n),
    ]
    for mask, expected in made:
        found = PredictionRisk("x").by_formula(model(PAIR, mask, 20), Snooper())
        assert found == pytest.approx(1 / expected(20))
    assert PredictionRisk("x", ("y",)).by_formula(model(PAIR, KimNoise(), 20), Snooper()) is None
