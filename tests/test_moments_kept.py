"""Means, spreads, covariances and correlations kept: by hand, against pandas, and by the algebra of noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato import ru_map
from sfumato.contract import Draws, NoiseModel, Recipe, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.maps import NormalPopulation
from sfumato.masks import CopulaSynthesis, IndependentNoise, KimNoise, Sample, SuppressColumns
from sfumato.utility import CorrelationsKept, CovariancesKept, IL1s, MeansKept, SpreadsKept
from sfumato.utility.moments import MomentMeasure, with_gaps
from tests.two_files import exact, file_of, numbers, release

Numbers = NDArray[np.float64]
ALL = (MeansKept, SpreadsKept, CovariancesKept, CorrelationsKept)
R = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 1.0]])


def loss(measure: MomentMeasure, before: Microdata, *after: Microdata) -> float:
    return 1 - measure.score(release(before, *after, aligned=False)).value


def slow(before: pd.DataFrame, after: pd.DataFrame) -> dict[type[MomentMeasure], float]:
    """The four losses of files without gaps, with pandas, from the definitions."""
    sd, k = before.std(), before.shape[1]
    covariance = ((after.cov() - before.cov()).abs() / np.outer(sd, sd)).to_numpy()
    correlation = (after.corr() - before.corr()).abs().to_numpy()
    return {
        MeansKept: float(((after.mean() - before.mean()).abs() / sd).mean()),
        SpreadsKept: float((after.var() / before.var() - 1).abs().mean()),
        CovariancesKept: float(covariance[np.triu_indices(k)].mean()),
        CorrelationsKept: float(correlation[np.triu_indices(k, 1)].mean()),
    }


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_the_definition_written_with_pandas(cls: type[MomentMeasure], seed: int) -> None:
    g = np.random.default_rng(seed)
    x = g.normal(size=(60, 4)) @ g.normal(size=(4, 4)) * [1, 100, 1e-4, 7] + [0, 1e5, 1, -3]
    y = g.permutation(x)[:45] * 1.3 + g.normal(size=(45, 4)) * x.std(axis=0) / 3  # other records, and fewer
    expected = slow(pd.DataFrame(x), pd.DataFrame(y))[cls]
    assert loss(cls(), file_of(x), file_of(y)) == pytest.approx(expected, rel=1e-9)


def test_means_and_spreads_by_hand() -> None:
    # x: mean 3, variance 10/4; y: mean 20, variance 1000/4
    before = numbers(x=[1.0, 2, 3, 4, 5], y=[0.0, 10, 20, 30, 40])
    after = numbers(x=[1.0, 2, 3, 4, 10], y=[0.0, 10, 20, 30, 40])  # x: mean 4, variance (9 + 4 + 1 + 0 + 36)/4
    means = MeansKept().score(release(before, after))
    assert means.value == pytest.approx(1 - 1 / math.sqrt(2.5) / 2)
    assert means.words == "means are off by 0.316 standard deviations on average, most for x (0.632)"
    assert means.details["shift of x"] == pytest.approx(1 / math.sqrt(2.5))
    assert means.details["shift of y"] == 0
    spreads = SpreadsKept().score(release(before, after))
    assert spreads.value == pytest.approx(1 - 4 / 2)  # 50 against 10: off by 400 %
    assert spreads.words == "variances are off by 200 % on average, most for x (400 %)"
    assert spreads.details["variance ratio of x"] == pytest.approx(5)
    assert spreads.details["variance ratio of y"] == pytest.approx(1)


def test_the_worst_pair_is_named() -> None:
    before = numbers(a=[1.0, 2, 3, 4], b=[1.0, 2, 3, 4], c=[1.0, -1, -1, 1])
    after = numbers(a=[1.0, 2, 3, 4], b=[4.0, 3, 2, 1], c=[1.0, -1, -1, 1])
    score = CorrelationsKept().score(release(before, after))
    assert score.value == pytest.approx(1 - 2 / 3)  # 1 became -1; the other two pairs are uncorrelated before and after
    assert score.words == "correlations are off by 0.667 on average, most for a and b (2)"
    assert score.details["largest absolute difference of correlations"] == pytest.approx(2)
    assert score.details["entries compared"] == 3
    assert score.details["entry that differs most, original"] == pytest.approx(1)
    assert score.details["entry that differs most, released"] == pytest.approx(-1)
    wide = CovariancesKept().score(release(before, numbers(a=[1.0, 2, 3, 4], b=[1.0, 2, 3, 4], c=[3.0, -3, -3, 3])))
    assert wide.words == "covariances are off by 1.33 on average, most for c (8)"  # a variance, nine times what it was


@pytest.mark.parametrize("cls", ALL)
def test_a_file_that_was_not_changed_or_only_reordered_loses_nothing(cls: type[MomentMeasure]) -> None:
    data = teachers(500)
    assert cls().score(Recipe(()).apply(data, Draws(1))).value == 1
    x = np.random.default_rng(0).normal(size=(200, 3)) * [1, 9, 1e4]
    assert loss(cls(), file_of(x), file_of(x[::-1])) == pytest.approx(0, abs=1e-12)
    w = np.random.default_rng(2).gamma(2, size=200)
    both = release(file_of(x, w), file_of(x[::-1], w[::-1]))
    assert cls(weighted=True).score(both).details["share of values not released"] == 0  # sums in another order
    gaps = np.where(np.random.default_rng(1).random(x.shape) < 0.3, np.nan, x)
    assert loss(cls(), file_of(gaps), file_of(gaps[::-1])) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("lambda2", [0.1, 0.5, 3.0])
def test_independent_noise_attenuates_correlations_by_one_over_one_plus_its_level(lambda2: float) -> None:
    x, y = (file_of(z) for z in exact(200, R, lambda2))
    rho = np.abs(R[np.triu_indices(3, 1)])
    assert loss(CorrelationsKept(), x, y) == pytest.approx((rho * (1 - 1 / (1 + lambda2))).mean())
    assert loss(SpreadsKept(), x, y) == pytest.approx(lambda2)
    assert loss(CovariancesKept(), x, y) == pytest.approx(3 * lambda2 / 6)  # the three variances, of six entries
    assert loss(MeansKept(), x, y) == pytest.approx(0, abs=1e-12)


def test_so_do_the_masks_of_the_house() -> None:
    data = teachers(30_000)
    names = ("salary", "income")
    rho = np.corrcoef(*(data.numbers(n) for n in names))[0, 1]
    noisy = IndependentNoise(columns=names, lambda2=0.5).apply(data, Draws(1))
    assert CorrelationsKept(names).score(noisy).value == pytest.approx(1 - abs(rho) / 3, abs=0.015)
    assert SpreadsKept(names).score(noisy).value == pytest.approx(0.5, abs=0.03)
    kim = KimNoise(columns=names, lambda2=0.5).apply(data, Draws(1))
    assert CorrelationsKept(names).score(kim).value == pytest.approx(1, abs=0.01)
    assert CovariancesKept(names).score(kim).value == pytest.approx(1 - 0.5 * (2 + abs(rho)) / 3, abs=0.03)


def test_the_mean_of_the_noise_is_a_folded_normal() -> None:
    data, lambda2, names = teachers(400), 0.3, ("salary", "income")
    measure = MeansKept(names)
    values = [
        measure.score(IndependentNoise(columns=names, lambda2=lambda2).apply(data, Draws(s))).value for s in range(200)
    ]
    truth = 1 - math.sqrt(2 * lambda2 / (math.pi * 400))  # E|N(0, λ²σ²/n)| / σ
    spread = math.sqrt(lambda2 / 400 * (1 - 2 / math.pi) / 400)
    assert np.mean(values) == pytest.approx(truth, abs=4 * spread)
    sigma = np.diag([4.0, 9.0])
    model = NoiseModel(names, np.zeros(2), sigma, lambda2 * sigma, 400)
    assert measure.analytic(model, Snooper()) == pytest.approx(truth)
    assert measure.with_(weighted=True).analytic(model, Snooper()) is None
    assert MeansKept(("salary", "age")).analytic(model, Snooper()) is None


@pytest.mark.parametrize("cls", ALL)
@settings(max_examples=25)
@given(seed=st.integers(0, 9_999), factor=st.sampled_from([-2.0, 1e-5, 1e5]), shift=st.sampled_from([0.0, 300.0]))
def test_units_do_not_matter(cls: type[MomentMeasure], seed: int, factor: float, shift: float) -> None:
    g = np.random.default_rng(seed)
    x, y = g.normal(size=(2, 25, 3))
    unit, origin = np.array([factor, 1.0, abs(factor)]), np.array([shift, 0.0, -shift])
    other = loss(cls(), file_of(x * unit + origin), file_of(y * unit + origin))
    assert other == pytest.approx(loss(cls(), file_of(x), file_of(y)), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("cls", ALL)
def test_a_column_that_is_not_released_loses_all(cls: type[MomentMeasure]) -> None:
    x = file_of(exact(50, R, 0.0)[0])
    part = Microdata(x.to_native().drop(["c2"]))
    # c2 takes with it one mean and variance of three, three covariances of six, and two correlations of three
    expected = {MeansKept: 1 / 3, SpreadsKept: 1 / 3, CovariancesKept: 1 / 2, CorrelationsKept: 2 / 3}[cls]
    assert loss(cls(), x, part) == pytest.approx(expected)
    empty = numbers(c0=x.numbers("c0"), c1=x.numbers("c1"), c2=[None] * 50)
    assert loss(cls(), x, empty) == pytest.approx(expected)
    none = file_of(np.empty((0, 3)))
    assert loss(cls(), x, none) == 1
    made = SuppressColumns(columns=("salary",)).apply(teachers(100), Draws(1))
    assert cls(("salary", "income")).score(made).value < 1


@pytest.mark.parametrize("cls", ALL)
def test_a_file_that_lost_its_variance_lost_its_correlations_too(cls: type[MomentMeasure]) -> None:
    x = exact(50, R, 0.0)[0]
    flat = x.copy()
    flat[:, 2] = x[:, 2].mean()
    gone = np.abs(R[2, :2])
    expected = {
        MeansKept: 0.0,
        SpreadsKept: 1 / 3,
        CovariancesKept: (1 + gone.sum()) / 6,  # a covariance of zero is still one
        CorrelationsKept: 2 / 3,  # a correlation with a constant is none
    }[cls]
    assert loss(cls(), file_of(x), file_of(flat)) == pytest.approx(expected, abs=1e-12)


def test_suppressed_values_lose_their_share_of_what_is_left() -> None:
    assert with_gaps(np.array([0.0, 0.4, 3.0, np.nan]), np.array([0.75, 0.5, 0.5, 0.0])) == pytest.approx(
        [0.25, 0.7, 3.0, 1.0]
    )
    # a quarter of x is suppressed, symmetrically, so that its mean stays
    before = numbers(x=[1.0, 2, 3, 4, 5, 6, 7, 8])
    after = numbers(x=[None, 2.0, 3, 4, 5, 6, 7, None])
    score = MeansKept().score(release(before, after))
    assert score.value == pytest.approx(0.75)
    assert score.details["share of values not released"] == pytest.approx(0.25)
    assert score.details["shift of x"] == 0
    assert score.words.endswith("; 25 % of the values are not released, and count as lost")
    gap = abs(np.var([2, 3, 4, 5, 6, 7], ddof=1) / np.var(np.arange(1, 9), ddof=1) - 1)
    assert SpreadsKept().score(release(before, after)).value == pytest.approx(1 - (gap + 0.25 * (1 - gap)))


@settings(max_examples=40)
@given(d=st.floats(0, 5), kept=st.floats(0, 1), less=st.floats(0, 1))
def test_suppressing_more_never_helps(d: float, kept: float, less: float) -> None:
    more = with_gaps(np.array([d]), np.array([kept * less]))[0]
    assert more >= with_gaps(np.array([d]), np.array([kept]))[0] - 1e-12
    assert d - 1e-12 <= more <= max(1, d) + 1e-12


@pytest.mark.parametrize("cls", ALL)
def test_gaps_of_the_original_are_no_loss(cls: type[MomentMeasure]) -> None:
    x = np.where(np.random.default_rng(3).random((400, 3)) < 0.4, np.nan, exact(400, R, 0.0)[0])
    filled = np.where(np.isnan(x), 0.0, x)
    same, full = loss(cls(), file_of(x), file_of(x)), loss(cls(), file_of(x), file_of(filled))
    assert same == 0
    before, after = pd.DataFrame(x), pd.DataFrame(filled)  # more values than before: only the moments are compared
    sd = before.std()
    covariance = ((after.cov() - before.cov()).abs() / np.outer(sd, sd)).to_numpy()
    expected = {**slow(before, after), CovariancesKept: covariance[np.triu_indices(3)].mean()}[cls]
    assert full == pytest.approx(expected, rel=1e-9)


def test_pairs_are_over_the_records_that_have_both() -> None:
    # a and b have records 0-3 in common, b and c 2-5; in the release one of the four pairs of a and b is gone
    a, b, c = [1.0, 2, 4, 3, None, None], [1.0, 2, 3, 4, 6, 5], [None, None, 2.0, 1, 7, 3]
    gone = numbers(a=[None, 2.0, 4, 3, None, None], b=b, c=c)
    score = CorrelationsKept(("a", "b")).score(release(numbers(a=a, b=b, c=c), gone))
    before, after = np.corrcoef([1, 2, 4, 3], [1, 2, 3, 4])[0, 1], np.corrcoef([2, 4, 3], [2, 3, 4])[0, 1]
    d = abs(before - after)
    assert score.value == pytest.approx(1 - (d + (1 - d) / 4))


def test_a_sample_loses_only_as_far_as_its_moments_move() -> None:
    data = teachers(4_000)
    made = Sample(fraction=0.25).apply(data, Draws(1))
    score = MeansKept().score(made)
    assert len(made.masked) == 1_000
    assert score.details["share of values not released"] == 0
    frame = [
        pd.DataFrame({n: d.numbers(n) for n in ("age", "experience", "salary", "income")}) for d in (data, made.masked)
    ]
    for cls, expected in slow(*frame).items():
        assert cls().score(made).value == pytest.approx(1 - expected)


@pytest.mark.parametrize("cls", ALL)
def test_survey_weights_are_respected_in_both_files(cls: type[MomentMeasure]) -> None:
    g = np.random.default_rng(8)
    x, y = g.normal(size=(2, 40, 3))
    w, v = g.gamma(2, size=(2, 40))

    def weighted(z: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
        return np.average(z, axis=0, weights=weights), np.cov(z.T, aweights=weights, ddof=0) * 40 / 39

    (m, s), (mean, cov) = weighted(x, w), weighted(y, v)
    sd = np.sqrt(np.diag(s))
    one, two = (c / np.sqrt(np.outer(np.diag(c), np.diag(c))) for c in (s, cov))
    expected = {
        MeansKept: (np.abs(mean - m) / sd).mean(),
        SpreadsKept: np.abs(np.diag(cov) / np.diag(s) - 1).mean(),
        CovariancesKept: (np.abs(cov - s) / np.outer(sd, sd))[np.triu_indices(3)].mean(),
        CorrelationsKept: np.abs(one - two)[np.triu_indices(3, 1)].mean(),
    }[cls]
    assert loss(cls(weighted=True), file_of(x, w), file_of(y, v)) == pytest.approx(expected)
    assert loss(cls(), file_of(x, w), file_of(y, v)) == pytest.approx(slow(pd.DataFrame(x), pd.DataFrame(y))[cls])
    assert cls(weighted=True).variant.endswith("weighted")
    with pytest.raises(DataError, match="needs survey weights"):
        loss(cls(weighted=True), file_of(x), file_of(y))
    with pytest.raises(NotApplicable, match="the release has no survey weights"):
        loss(cls(weighted=True), file_of(x, w), file_of(y))
    with pytest.raises(ParameterError, match="true or false"):
        cls(weighted=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", ALL)
def test_implicates_are_averaged(cls: type[MomentMeasure]) -> None:
    x, y, z = (file_of(np.random.default_rng(s).normal(size=(30, 3))) for s in (1, 2, 3))
    assert loss(cls(), x, y, z) == pytest.approx((loss(cls(), x, y) + loss(cls(), x, z)) / 2)


@pytest.mark.parametrize("cls", ALL)
def test_synthetic_files_are_compared_as_wholes(cls: type[MomentMeasure]) -> None:
    data = teachers(20_000)
    made = CopulaSynthesis(columns=("salary", "income")).apply(data, Draws(1))
    assert cls(("salary", "income")).score(made).value == pytest.approx(1, abs=0.06)
    loose = Release.of(data, made.masked)
    assert cls(("salary", "income")).score(loose).value == cls(("salary", "income")).score(made).value


@pytest.mark.parametrize("cls", ALL)
def test_per_subgroup_each_group_is_a_file_of_its_own(cls: type[MomentMeasure]) -> None:
    data = teachers(2_000)
    made = KimNoise(lambda2=0.2).apply(data, Draws(2))
    score = cls(("salary", "income")).score_by(made, "region")
    region = np.array(data.batch(["region"]).column("region").arrow.to_pylist(), object)
    for name, value in score.groups.items():
        before, after = (
            pd.DataFrame({n: d.numbers(n)[region == name] for n in ("salary", "income")}) for d in (data, made.masked)
        )
        assert value == pytest.approx(1 - slow(before, after)[cls])


@pytest.mark.parametrize("cls", ALL)
def test_what_cannot_be_compared_is_said_in_a_sentence(cls: type[MomentMeasure]) -> None:
    before = numbers(x=[1.0, 2.0, 3.0], y=[1.0, 5.0, 3.0], z=[1.0, 1.5, 1.0])
    banded = numbers(x=["low", "low", "high"], y=[1.0, 5.0, 3.0], z=[1.0, 1.5, 1.0])
    with pytest.raises(NotApplicable, match=rf"x: released as categories.*{cls.__name__}\(over="):
        loss(cls(), before, banded)
    assert loss(cls(over=("y", "z")), before, banded) == 0
    with pytest.raises(DataError, match="infinite"):
        loss(cls(), before, numbers(x=[1.0, math.inf, 3.0], y=[1.0, 5.0, 3.0], z=[1.0, 1.5, 1.0]))
    with pytest.raises(DataError, match="too large to square"):
        loss(cls(), before, numbers(x=[1.0, 1e200, 3.0], y=[1.0, 5.0, 3.0], z=[1.0, 1.5, 1.0]))
    with pytest.raises(DataError, match="nothing varies"):
        loss(cls(), numbers(x=[2.0], y=[3.0]), numbers(x=[2.0], y=[3.0]))
    with pytest.raises(DataError, match="nothing varies"):
        loss(cls(), file_of(np.empty((0, 2))), file_of(np.empty((0, 2))))
    with pytest.raises(DataError, match="does not hold numbers"):
        loss(cls(over=("region",)), teachers(20), teachers(20))


def test_correlations_need_two_columns_and_a_single_covariance_is_a_variance() -> None:
    before, after = numbers(x=[1.0, 2.0, 3.0], flat=[4.0, 4.0, 4.0]), numbers(x=[1.0, 2.0, 4.0], flat=[1.0, 2.0, 9.0])
    with pytest.raises(DataError, match="two columns that vary"):
        loss(CorrelationsKept(), before, after)
    apart = numbers(x=[1.0, 2.0, None, None], y=[None, None, 3.0, 4.0])
    with pytest.raises(DataError, match="two columns that vary"):
        loss(CorrelationsKept(), apart, apart)
    assert loss(CovariancesKept(), before, after) == pytest.approx(loss(SpreadsKept(), before, after))


@pytest.mark.parametrize("cls", ALL)
def test_on_a_map_the_moments_of_each_sample_of_a_population_are_its_own(cls: type[Any]) -> None:
    people = NormalPopulation({"a": 0.0, "b": 0.0}, [[1.0, 0.5], [0.5, 1.0]], 300)
    grid = {"kim_noise.lambda2": [0.0, 0.2]}
    recipe = KimNoise(columns=("a", "b"))
    m = ru_map(people, recipe, grid, risk="a", utility=cls(("a", "b")), replications=5, draws=1)
    assert m.estimate(1, 0)[0] == pytest.approx(1)  # without noise each release is its own sample
    assert m.estimate(1, 1)[0] < 1


def test_spearmans_correlations_are_those_of_ranks() -> None:
    from scipy.stats import spearmanr

    g = np.random.default_rng(6)
    x, y = (g.normal(size=(80, 3)).round(1) for _ in range(2))  # ties
    x[0], y[0] = 1e6, -1e6
    expected = np.abs(spearmanr(x).statistic - spearmanr(y).statistic)[np.triu_indices(3, 1)].mean()
    ranks = CorrelationsKept(method="spearman")
    assert ranks.variant == "spearman"
    assert loss(ranks, file_of(x), file_of(y)) == pytest.approx(expected)
    assert loss(ranks, file_of(x), file_of(np.cbrt(x))) == pytest.approx(0, abs=1e-9)  # the order is the same
    both = release(file_of(x), file_of(y))
    assert CorrelationsKept().score(both).value != ranks.score(both).value  # one does not take the other's moments
    w = g.integers(1, 5, 80)  # whole weights stand for copies
    copies = [file_of(np.repeat(z, w, axis=0)) for z in (x, y)]
    weighted = loss(CorrelationsKept(method="spearman", weighted=True), file_of(x, w), file_of(y, w))
    assert weighted == pytest.approx(loss(ranks, *copies))


@pytest.mark.parametrize("measure", [MeansKept, SpreadsKept, CovariancesKept, CorrelationsKept, IL1s])
def test_no_column_is_the_worst_of_a_file_that_was_not_changed(measure: Any) -> None:
    data = numbers(x=[1.0, 2.0, 4.0], y=[3.0, 1.0, 5.0], z=[0.0, 2.0, 1.0])
    assert "most for" not in measure().score(release(data, data)).words
    assert (
        "most for"
        in measure().score(release(data, numbers(x=[1.0, 2.0, 5.0], y=[3.0, 1.0, 5.0], z=[0.0, 2.0, 1.0]))).words
    )
