"""Risk by log-linear models: fits against statsmodels, formulas against enumeration, and the choice of a model."""

from __future__ import annotations

import warnings
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, poisson

from sfumato import Release
from sfumato.data.classes import classes_of
from sfumato.data.microdata import Microdata
from sfumato.datasets import census
from sfumato.errors import NotApplicable, ParameterError
from sfumato.kernels.loglinear import (
    feasible_cells,
    gather,
    layout,
    places_of,
    slopes_of_exponential,
    slopes_of_mean_exponential,
    spread,
)
from sfumato.risk import LogLinearRisk, expected_counts, log_linear
from sfumato.risk import expected_counts as blocks
from sfumato.risk.expected_counts import ClassTable, Interactions, MainEffects, associated, with_main_effects
from sfumato.risk.log_linear import bias, forward, right, right_square
from sfumato.schema import Attribute, Schema

LEVELS = (3, 2, 4)
CELLS = np.array(list(product(*map(range, LEVELS))), np.int32)
MODELS: dict[str, list[tuple[int, ...]]] = {
    "main effects": [(0,), (1,), (2,)],
    "one pair": [(0, 2), (1,)],
    "all pairs": [(0, 1), (0, 2), (1, 2)],
    "a triple": [(0, 1, 2)],
}


def table_of_counts(seed: int, low: int = 0) -> ClassTable:
    counts = np.random.default_rng(seed).integers(low, 12, len(CELLS))
    counts[::5] += 1
    return ClassTable(CELLS[counts > 0], counts[counts > 0], LEVELS)


def design(
    margins: list[tuple[int, ...]], cells: NDArray[Any] = CELLS, counts_of: tuple[int, ...] = LEVELS
) -> NDArray[Any]:
    """Dummies of the interactions and of everything below them, of full rank."""
    effects = sorted({s for m in margins for r in range(1, len(m) + 1) for s in combinations(m, r)})
    columns = [
        np.prod([cells[:, k] == v for k, v in zip(keys, levels, strict=True)], axis=0)
        for keys in effects
        for levels in product(*(range(1, counts_of[k]) for k in keys))
    ]
    return np.column_stack([np.ones(len(cells)), *columns])


def glm(table: ClassTable, margins: list[tuple[int, ...]]) -> Any:
    counts = np.zeros(len(CELLS))
    counts[[np.flatnonzero((row == CELLS).all(axis=1))[0] for row in table.codes]] = table.sizes
    with np.errstate(divide="ignore"), warnings.catch_warnings():  # a saturated model leaves nothing to explain
        warnings.simplefilter("ignore")
        return sm.GLM(counts, design(margins), family=sm.families.Poisson()).fit(tol=1e-12)


def fitted(table: ClassTable, margins: list[tuple[int, ...]]) -> Any:
    return MainEffects(table) if margins == MODELS["main effects"] else Interactions(table, margins)


def release(weights: Any = None, **keys: Any) -> Release:
    attributes = [Attribute(n, "key", "unordered") for n in keys]  # type: ignore[arg-type]
    data = Microdata(pa.table(keys), Schema(tuple(attributes)))
    return Release.of(data, data, align="rows")


@pytest.mark.parametrize("name", MODELS)
def test_fitted_counts_are_those_of_a_poisson_regression(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TOLERANCE", 1e-10)
    for seed in range(5):
        table = table_of_counts(seed, low=int(name == "a triple"))
        theirs = glm(table, MODELS[name]).fittedvalues
        at = [np.flatnonzero((row == CELLS).all(axis=1))[0] for row in table.codes]
        np.testing.assert_allclose(fitted(table, MODELS[name]).expected(), theirs[at], rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_variance_of_the_fit_is_that_of_a_poisson_regression(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TOLERANCE", 1e-10)
    for seed in range(5):
        table = table_of_counts(seed, low=int(name == "a triple"))
        slopes = np.random.default_rng(seed).normal(size=len(table.codes))
        theirs = glm(table, MODELS[name])
        at = [np.flatnonzero((row == CELLS).all(axis=1))[0] for row in table.codes]
        g = design(MODELS[name])[at].T @ slopes
        assert fitted(table, MODELS[name]).variance(slopes) == pytest.approx(g @ theirs.cov_params() @ g, rel=1e-4)


def test_main_effects_are_also_what_proportional_fitting_gives() -> None:
    table = table_of_counts(3)
    closed, iterated = MainEffects(table), Interactions(table, MODELS["main effects"])
    np.testing.assert_allclose(closed.expected(), iterated.expected(), rtol=1e-9)
    slopes = np.linspace(-1, 2, len(table.codes))
    assert closed.variance(slopes) == pytest.approx(iterated.variance(slopes), rel=1e-6)


FIVE = (2, 3, 2, 3, 2)
BLOCKS: dict[str, tuple[list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "a chain": ([(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "a star": ([(0, 3), (1, 3), (2, 3), (3, 4)], [(0, 3), (1, 3), (2, 3), (3, 4)]),
    "a triangle with a tail": ([(0, 1), (1, 2), (0, 2), (2, 3), (4,)], [(0, 1, 2), (2, 3), (4,)]),
    "a triple and a pair": ([(0, 1, 4), (2, 3)], [(0, 1, 4), (2, 3)]),
    "two triangles at a key": ([(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)], [(0, 1, 2), (2, 3, 4)]),
    "a ring": ([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], [(0, 1, 2, 3, 4)]),
}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("name", BLOCKS)
def test_models_fitted_block_by_block_are_poisson_regressions_on_the_whole_table(
    name: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "TOLERANCE", 1e-10)
    if listed:
        monkeypatch.setattr(expected_counts, "CELLS", 5)  # so that cells are listed and not laid out by axes
    margins, parts = BLOCKS[name]
    assert blocks.blocks_of(margins, len(FIVE)) == sorted(parts)
    g = np.random.default_rng(21)
    cells = np.array(list(product(*map(range, FIVE))), np.int32)
    counts = g.poisson(6.0, len(cells)) + 1
    theirs = sm.GLM(counts, design(margins, cells, FIVE), family=sm.families.Poisson()).fit(tol=1e-12)
    some = np.array([[1, -1, 0, -1, 1], [-1, 2, -1, -1, -1], [-1] * 5], np.int32)
    matching = [(cells[:, 0] == 1) & (cells[:, 2] == 0) & (cells[:, 4] == 1), cells[:, 1] == 2, cells[:, 0] >= 0]
    table = ClassTable(np.vstack([cells, some]), np.append(counts, [1, 1, 1]), FIVE)
    model = Interactions(table, margins, (1000, 100_000))
    mu = theirs.fittedvalues
    expected = np.append(mu, [mu[which].sum() for which in matching]) * table.scale
    np.testing.assert_allclose(model.expected(), expected, rtol=1e-6)
    observed, fit = next(iter(model.cells() or []))
    np.testing.assert_allclose(fit, mu, rtol=1e-6)
    np.testing.assert_array_equal(observed, counts)
    slopes = g.normal(size=len(cells) + 3)
    flat = slopes[:-3] + sum(s * mu * which / mu[which].sum() for s, which in zip(slopes[-3:], matching, strict=True))
    gradient = design(margins, cells, FIVE).T @ flat
    assert model.variance(slopes) == pytest.approx(gradient @ theirs.cov_params() @ gradient, rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=12, unique=True)
)
def test_feasible_cells_are_those_whose_margins_all_occur(seen: list[tuple[int, int, int]]) -> None:
    for margins in MODELS.values():
        expected = [
            cell
            for cell in CELLS.tolist()
            if all(tuple(cell[k] for k in m) in {tuple(s[k] for k in m) for s in seen} for m in margins)
        ]
        cells = feasible_cells(LEVELS, np.array(seen, np.int32), margins, 1000)
        assert cells is not None
        assert cells.tolist() == expected
        assert (
            len(expected) == 1 or feasible_cells(LEVELS, np.array(seen, np.int32), margins, len(expected) - 1) is None
        )


def test_cells_are_found_where_they_stand_even_where_there_are_more_combinations_than_numbers() -> None:
    asked = CELLS[[3, 17, 0]]
    for levels in (LEVELS, (2**40, 2**40, 4)):
        assert blocks.find_cells(CELLS, asked, levels).tolist() == [3, 17, 0]


def test_margins_gathered_and_spread_are_sums_over_cells() -> None:
    shape = layout(LEVELS, MODELS["all pairs"])
    places, amounts = places_of(CELLS, *shape), np.arange(len(CELLS), dtype=float)
    cube = amounts.reshape(LEVELS)
    sums = gather(places, amounts, int(shape[2][-1]))
    expected = np.concatenate([cube.sum(axis=a).ravel(order="F") for a in (2, 1, 0)])  # the first key moves fastest
    np.testing.assert_allclose(sums, expected)
    back = cube.sum(axis=2, keepdims=True) + cube.sum(axis=1, keepdims=True) + cube.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(spread(places, sums), back.ravel())


@pytest.mark.parametrize("mean", [0.01, 0.7, 4.0, 80.0])
@pytest.mark.parametrize("pi", [0.05, 0.6])
def test_risks_of_a_unique_record_are_those_of_poisson_counts(mean: float, pi: float) -> None:
    """P(F = 1 | f = 1), E[1/F | f = 1] and E[1/F² | f = 1] by summing over F."""
    F = np.arange(1, 400)
    chance = poisson.pmf(F, mean) * binom.pmf(1, F, pi)
    chance /= chance.sum()
    h = np.array([(1 - pi) * mean])
    assert np.exp(-h)[0] == pytest.approx(chance[0])
    assert right(h)[0] == pytest.approx((chance / F).sum())
    assert right_square(h)[0] == pytest.approx((chance / F**2).sum(), rel=1e-3)


def test_tau_adds_up_the_unique_records_of_a_small_file_by_hand() -> None:
    made = release(x=["a", "a", "a", "b"], y=["u", "u", "v", "v"])
    pi = 0.2
    mu = {"av": 4 * 3 / 4 * 2 / 4, "bv": 4 * 1 / 4 * 2 / 4}  # a u stands twice
    h = np.array([mu["av"], mu["bv"]]) * (1 - pi) / pi
    score = LogLinearRisk("unique", "main", fraction=pi).score(made)
    assert score.value == pytest.approx(np.exp(-h).sum() / 4)
    np.testing.assert_allclose(score.records, [0, 0, *np.exp(-h)])  # type: ignore[arg-type]
    score = LogLinearRisk("match", "main", fraction=pi).score(made)
    assert score.details["tau2"] == pytest.approx(((1 - np.exp(-h)) / h).sum())
    np.testing.assert_allclose(score.records, [np.nan, np.nan, *((1 - np.exp(-h)) / h)])  # type: ignore[arg-type]


def test_a_missing_key_matches_all_cells_that_agree_with_the_others() -> None:
    codes = np.vstack([CELLS, [[1, -1, 2], [-1, 0, -1], [-1, -1, -1]]]).astype(np.int32)
    sizes = np.append(np.random.default_rng(8).integers(1, 9, len(CELLS)), [1, 2, 1])
    table = ClassTable(codes, sizes, LEVELS)
    for margins in (MODELS["main effects"], MODELS["all pairs"]):
        expected = fitted(table, margins).expected()
        cube = expected[: len(CELLS)].reshape(LEVELS)
        np.testing.assert_allclose(
            expected[len(CELLS) :], [cube[1, :, 2].sum(), cube[:, 0].sum(), cube.sum()], rtol=1e-6
        )
        assert cube.sum() == pytest.approx(sizes.sum())
    slopes = np.zeros(len(codes))
    slopes[len(CELLS)] = 1.0  # the logarithm of a sum of counts moves with the shares of the cells
    shares = np.zeros(len(codes))
    inside = (codes[: len(CELLS), 0] == 1) & (codes[: len(CELLS), 2] == 2)
    model = Interactions(table, MODELS["all pairs"])
    counts = model.expected()[: len(CELLS)]
    shares[: len(CELLS)][inside] = counts[inside] / counts[inside].sum()
    assert model.variance(slopes) == pytest.approx(model.variance(shares), rel=1e-6)


@pytest.mark.parametrize("slopes", [slopes_of_exponential, slopes_of_mean_exponential])
def test_slopes_of_the_risk_are_its_derivatives(slopes: Any) -> None:
    risk = right if slopes is slopes_of_mean_exponential else lambda g: np.exp(-g)
    step = 1e-3
    for g in (0.02, 0.3, 2.0, 9.0):
        low, at, high = risk(np.array([g - step, g, g + step]))
        assert slopes(g) == pytest.approx(((high - low) / (2 * step), (high - 2 * at + low) / step**2), rel=1e-3)
    assert slopes(0.00999) == pytest.approx(slopes(0.01001), rel=1e-4)  # where the series takes over


class Known:
    """A model that knows the true means of the cells."""

    def __init__(self, f: Any, mu: Any) -> None:
        self.f, self.mu = f, mu

    def expected(self) -> Any:
        return self.mu

    def cells(self) -> Any:
        return iter([(self.f, self.mu)])

    def variance(self, slopes: Any) -> float:
        return 0.0

    def saturated(self) -> bool:
        return False


@pytest.mark.parametrize("target", ["unique", "match"])
def test_the_bias_criterion_is_standard_normal_where_the_model_is_right(target: Any) -> None:
    g = np.random.default_rng(4)
    mu = g.gamma(0.3, 0.5, 4000)
    z = [bias(Known(g.poisson(mu).astype(float), mu), 0.1, target).z for _ in range(300)]  # type: ignore[union-attr]
    assert abs(np.mean(z)) < 0.2
    assert 0.85 < np.std(z) < 1.15


@pytest.mark.parametrize("target", ["unique", "match"])
def test_the_bias_criterion_tells_the_bias_of_a_slightly_wrong_model(target: Any) -> None:
    """Means off by a tenth either way: the mean of B is Σ P(f=1)·{r(λ̂) - r(λ)} to second order."""
    g = np.random.default_rng(5)
    pi, mu = 0.2, np.full(400, 0.3)
    wrong = mu * np.where(np.arange(400) % 2, 1.1, 0.9)
    risk = {"unique": lambda h: np.exp(-h), "match": right}[target]
    scale = (1 - pi) / pi
    true = (mu * np.exp(-mu) * (risk(wrong * scale) - risk(mu * scale))).sum()
    found = [bias(Known(g.poisson(mu).astype(float), wrong), pi, target).value for _ in range(4000)]  # type: ignore[union-attr]
    # the paper puts λ̂ for λ in P(f=1), which leaves an error of second order in the differences
    slack = 3 * np.std(found) / np.sqrt(4000) + 0.1**2 * 400 * 0.3
    assert abs(np.mean(found) - true) < slack


def associated_keys(strength: float, seed: int) -> tuple[ClassTable, float]:
    g = np.random.default_rng(seed)
    levels, n = (12, 12, 6, 5), 3000
    x = g.integers(0, 12, n)
    y = np.where(g.random(n) < strength, x, g.integers(0, 12, n))
    rows = np.column_stack([x, y, g.integers(0, 6, n), g.integers(0, 5, n)]).astype(np.int32)
    codes, sizes = np.unique(rows, axis=0, return_counts=True)
    return ClassTable(codes, sizes, levels), n


def test_main_effects_are_chosen_for_independent_keys_and_pairs_are_added_where_keys_go_together() -> None:
    keys = ("x", "y", "u", "v")
    independent, _ = associated_keys(0.0, 1)
    assert forward(independent, keys, 0.1, "match").name == "main effects"
    together, _ = associated_keys(0.7, 1)
    assert associated(together)[0] == (0, 1)
    assert bias(MainEffects(together), 0.1, "match").z > 5  # type: ignore[union-attr]
    assert forward(together, keys, 0.1, "match").name == "main effects and x × y"


def test_the_chosen_model_is_nearer_to_the_truth_than_main_effects_or_all_pairs() -> None:
    """A generated census: the truth is counted in the population."""
    names = ["region", "sex", "age", "marital", "education", "employment"]
    people = census(10_000).population
    found = classes_of(people, names, "value")
    g, F = np.random.default_rng(2008), found.sizes
    f = g.binomial(F, 0.1)
    true = (1 / F[f == 1]).sum() / f.sum()
    frame = pd.DataFrame({n: np.repeat(c[f > 0], f[f > 0]) for n, c in zip(names, found.codes, strict=True)})
    data = Microdata(frame, Schema(tuple(Attribute(n, "key", "unordered") for n in names)))  # type: ignore[arg-type]
    off = {
        which: abs(LogLinearRisk("match", which, fraction=0.1).score(Release.of(data, data)).value / true - 1)
        for which in ("main", "pairs", "auto")
    }
    assert off["auto"] < 0.1
    assert off["auto"] < min(off["main"], off["pairs"])


def test_intervals_hold_tau_in_most_samples_where_the_model_is_right() -> None:
    g = np.random.default_rng(9)
    levels = (6, 5, 8, 10)
    cells = np.array(list(product(*map(range, levels))), np.int32)
    lam = 20_000 * np.prod([g.dirichlet(np.full(n, 2.0))[cells[:, j]] for j, n in enumerate(levels)], axis=0)
    held = []
    for _ in range(150):
        F = g.poisson(lam)
        f = g.binomial(F, 0.15)
        model = MainEffects(ClassTable(cells[f > 0], f[f > 0], levels))
        unique = f[f > 0] == 1
        h = model.expected() * 0.85 / 0.15
        for target, true in (("unique", (F[f == 1] == 1).sum()), ("match", (1 / F[f == 1]).sum())):
            tau = (np.exp(-h) if target == "unique" else right(h))[unique].sum()
            low, high = log_linear._interval(model, unique, h, target, float(tau), None)  # type: ignore[arg-type]
            held.append(low <= true <= high)
    assert np.mean(held) > 0.9


def test_interactions_are_checked() -> None:
    assert LogLinearRisk(interactions=[["a", "b"]]).interactions == (("a", "b"),)
    for wrong in ("some", 3, (), ("a", "b"), (("a",),), (("a", "a"),), None, ((1, 2),)):
        with pytest.raises(ParameterError, match="interactions"):
            LogLinearRisk(interactions=wrong)
    made = release(x=["a", "b", "a"], y=["u", "v", "v"])
    with pytest.raises(NotApplicable, match="Did you mean 'y'"):
        LogLinearRisk(interactions=(("x", "yy"),), fraction=0.1).score(made)


def test_chosen_interactions_need_not_name_every_key() -> None:
    made = release(x=list("aabbab"), y=list("uvuvuu"), z=list("pqpqqq"))
    score = LogLinearRisk(interactions=(("y", "x"),), fraction=0.1).score(made)
    assert with_main_effects([(0, 1)], 3) == [(0, 1), (2,)]
    assert "y × x" in score.variant
    assert np.isfinite(score.value)


def test_too_many_cells_are_refused_in_words_and_the_choice_makes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = release(x=list("abcdabcd"), y=list("uvwxxwvu"))
    monkeypatch.setattr(expected_counts, "PLACES", 5)
    with pytest.raises(NotApplicable, match="more than 5 cells"):
        LogLinearRisk(interactions="pairs", fraction=0.1).score(made)
    monkeypatch.setattr(expected_counts, "CELLS", 5)
    monkeypatch.setattr(log_linear, "BUDGET", (5, 5))
    score = LogLinearRisk(fraction=0.1).score(made)
    assert "main effects" in score.variant
    assert "estimated bias of tau" not in score.details
    assert "how far the model is off could not be told" in score.words
    assert score.interval is not None
    assert score.interval[0] == 0


def test_without_unique_records_nobody_is_at_risk() -> None:
    score = LogLinearRisk(fraction=0.1).score(release(x=["a", "a"], y=["u", "u"]))
    assert (score.value, score.interval) == (0, (0, 0))


def test_a_file_of_everybody_has_its_uniques() -> None:
    score = LogLinearRisk("unique", fraction=1.0).score(release(x=["a", "b", "b"], y=["u", "u", "u"]))
    assert score.value == pytest.approx(1 / 3)


def test_what_cannot_be_told_is_refused_in_a_sentence() -> None:
    with pytest.raises(NotApplicable, match="fraction="):
        LogLinearRisk().score(release(x=["a", "b"]))
    with pytest.raises(NotApplicable, match="missing key"):
        LogLinearRisk(fraction=0.1).score(release(x=["a", None], y=[None, "u"]))


@pytest.mark.parametrize(
    ("made", "interactions"),
    [
        (release(x=["a"]), "auto"),
        (release(x=list("aab")), "auto"),
        (release(x=list("aab"), y=list("uuu")), "auto"),  # a key of one value is no key
        (release(x=list("aabb"), y=list("uvvv")), "pairs"),
        (release(x=list("aabbcc"), y=list("uvuvuv"), z=list("pqrssr")), (("x", "y", "z"),)),
    ],
)
def test_a_model_that_repeats_the_counts_of_the_file_is_refused(made: Release, interactions: Any) -> None:
    with pytest.raises(NotApplicable, match="repeats the counts of the file"):
        LogLinearRisk(interactions=interactions, fraction=0.1).score(made)


def test_very_many_keys_lose_no_count_to_rounding() -> None:
    """70 keys of two values, of which the first two go together: a product of shares, though n⁶⁸ is no number."""
    g = np.random.default_rng(70)
    rows = np.unique(g.integers(0, 2, (2000, 70)), axis=0).astype(np.int32)
    rows[:, 1] = np.where(g.random(len(rows)) < 0.5, rows[:, 0], rows[:, 1])
    table = ClassTable(rows, np.full(len(rows), 10_000), (2,) * 70)
    n = table.counted
    pair = np.bincount(rows[:, 0] * 2 + rows[:, 1], table.sizes)[rows[:, 0] * 2 + rows[:, 1]] / n
    shares = [np.bincount(rows[:, j], table.sizes)[rows[:, j]] / n for j in range(2, 70)]
    expected = Interactions(table, with_main_effects([(0, 1)], 70)).expected()
    np.testing.assert_allclose(expected, n * pair * np.prod(shares, axis=0), rtol=1e-6)


def test_a_model_that_repeats_the_counts_is_never_chosen() -> None:
    g = np.random.default_rng(6)
    x = g.integers(0, 30, 300)
    y = np.where(
        g.random(300) < 0.8, x, g.integers(0, 30, 300)
    )  # far from independent, but two keys have one pair only
    score = LogLinearRisk(fraction=0.1).score(release(x=x, y=y))
    assert score.variant.endswith(": main effects")
    assert "too simple, and this probably too high" in score.words


def test_all_records_missing_one_key_or_another_do_not_stop_the_choice() -> None:
    g = np.random.default_rng(7)
    columns = {name: [None if g.random() < 0.1 else int(v) for v in g.integers(0, 6, 400)] for name in "uvwxy"}
    score = LogLinearRisk(fraction=0.2).score(release(**columns))
    assert score.interval is not None
    assert 0 <= score.interval[0] <= score.value <= score.interval[1] <= 1


def test_large_numbers_are_written_out_and_one_record_is_one() -> None:
    g = np.random.default_rng(8)
    made = release(**{name: g.integers(0, 60, 4000) for name in "xyz"})
    assert "e+" not in LogLinearRisk(fraction=0.99).score(made).words
    single = release(x=list("aaab"), y=list("uuvv"), z=list("ppqq"))
    assert "1 records" not in LogLinearRisk(interactions="main", fraction=0.5).score(single).words


def mod_risk(sizes: NDArray[Any], lambdas: NDArray[Any], pi: float) -> float:
    """Correct matches among unique records, by the lines of sdcMicro's modRisk(): the mean outside the file is (1 - π)λ̂."""
    outside = (1 - pi) * lambdas[sizes == 1]
    return float(((1 - np.exp(-outside)) / outside).sum())


@pytest.mark.parametrize("seed", range(4))
def test_mod_risk_of_sdcmicro_takes_fitted_counts_of_the_sample_for_those_of_the_population(seed: int) -> None:
    """docs/howto/from-sdcmicro.md: its risks are too high; with its fitted counts divided by π they are these, and right."""
    g, pi, persons = np.random.default_rng(seed), 0.1, 40_000
    levels = [g.dirichlet(np.ones(k) * 2) for k in (12, 9, 8, 5)]
    keys = {f"k{i}": g.choice(len(p), persons, p=p) for i, p in enumerate(levels)}
    drawn = g.choice(persons, int(pi * persons), replace=False)
    everybody, sample = pd.DataFrame(keys), pd.DataFrame(keys).iloc[drawn]
    margins = [sample[k].value_counts() for k in keys]
    cells = sample.groupby(list(keys)).size()
    main = np.prod([m.loc[cells.index.get_level_values(k)] for k, m in zip(keys, margins, strict=True)], axis=0)
    fitted_sample = main / len(sample) ** 3  # main effects in closed form: what glm() fits
    unique = cells.index[cells == 1]
    truth = float((1 / everybody.groupby(list(keys)).size().loc[unique]).sum())

    score = LogLinearRisk(interactions="main", fraction=pi).score(
        release(**{k: [f"{v:02d}" for v in sample[k]] for k in keys})
    )
    ours = score.value * len(sample)
    assert mod_risk(cells.to_numpy(), fitted_sample / pi, pi) == pytest.approx(ours, rel=1e-6)
    assert ours == pytest.approx(truth, rel=0.1)
    assert mod_risk(cells.to_numpy(), fitted_sample, pi) > 2 * truth
