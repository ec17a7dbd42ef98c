"""Eigenvalues kept: closed forms, bounds, and matrices that are singular."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.contract import Draws, Recipe, Release
from sfumato.data.microdata import Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import CopulaSynthesis, IndependentNoise, KimNoise
from sfumato.utility import CorrelationsKept, EigenvaluesKept
from sfumato.utility.moments import eigenvalues, spectrum_overlap
from tests.two_files import exact, file_of, numbers, release

Numbers = NDArray[np.float64]
R = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 1.0]])
MATRICES = ("correlation", "rank", "covariance", "robust")


def kept(before: Numbers, *after: Numbers, **options: object) -> float:
    score = EigenvaluesKept(**options).score(release(file_of(before), *map(file_of, after), aligned=False))  # type: ignore[arg-type]
    assert score.details["eigenvalue loss"] == pytest.approx(1 - score.value)
    return score.value


def relative_sum(before: Numbers, after: Numbers) -> float:
    """Σ |λ - λ'| / λ, the loss of other programs."""
    one, two = (np.linalg.eigvalsh(np.corrcoef(x.T)) for x in (before, after))
    return float((np.abs(one - two) / one).sum())


def test_two_columns_by_hand() -> None:
    # eigenvalues 1 ± ρ: 1.5 and 0.5 before, 1 and 1 after; the smaller of each is 1 and 0.5
    x, y = (exact(40, np.array([[1.0, rho], [rho, 1.0]]), 0.0)[0] for rho in (0.5, 0.0))
    assert kept(x, y) == pytest.approx(0.75)
    score = EigenvaluesKept().score(release(file_of(x), file_of(y)))
    assert score.variant == "correlation"
    assert score.words == (
        "the spectra of both files overlap to 75 %; the first principal component explains 50 % of the variance, 75 % before"
    )
    assert score.details["share explained by the first component, original"] == pytest.approx(0.75)
    assert score.details["share explained by the first component, released"] == pytest.approx(0.5)


@pytest.mark.parametrize("lambda2", [0.1, 0.5, 3.0])
def test_independent_noise_draws_the_eigenvalues_towards_one(lambda2: float) -> None:
    # correlations (R + λ²I)/(1 + λ²) have eigenvalues (μ + λ²)/(1 + λ²); covariances R + λ²I have μ + λ²
    x, y = exact(300, R, lambda2)
    mu = np.linalg.eigvalsh(R)
    assert kept(x, y) == pytest.approx(1 - lambda2 / (1 + lambda2) * np.abs(mu - 1).sum() / 6)
    assert kept(x, y, matrix="covariance") == pytest.approx(1 / (1 + lambda2))
    wider = x * math.sqrt(1 + lambda2)  # as Kim's noise does: all covariances grow alike
    assert kept(x, wider) == pytest.approx(1)
    assert kept(x, wider, matrix="covariance") == pytest.approx(1 / (1 + lambda2))
    assert kept(x, x / math.sqrt(1 + lambda2), matrix="covariance") == pytest.approx(1 / (1 + lambda2))


def test_so_do_the_masks_of_the_house() -> None:
    data, names = teachers(30_000), ("salary", "income")
    rho = abs(np.corrcoef([data.numbers(n) for n in names])[0, 1])
    noisy = IndependentNoise(columns=names, lambda2=0.5).apply(data, Draws(1))
    assert EigenvaluesKept(names).score(noisy).value == pytest.approx(1 - rho / 6, abs=0.01)  # ½ · 2ρ/2 · (1 - 1/1.5)
    kim = KimNoise(columns=names, lambda2=0.5).apply(data, Draws(1))
    assert EigenvaluesKept(names).score(kim).value == pytest.approx(1, abs=0.01)
    assert EigenvaluesKept(names, matrix="covariance").score(kim).value == pytest.approx(1 / 1.5, abs=0.02)
    made = CopulaSynthesis(columns=names).apply(data, Draws(1))
    assert EigenvaluesKept(names).score(made).value == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_singular_matrix_is_no_trouble(matrix: str) -> None:
    g = np.random.default_rng(1)
    x = g.normal(size=(500, 3))
    x = np.column_stack([x, x[:, 0] + x[:, 1], 2 * x[:, 2]])  # two columns that the others determine
    y = x + 0.01 * g.normal(size=x.shape)
    assert abs(relative_sum(x, y)) > 1e8  # what dividing by each eigenvalue makes of this
    assert kept(x, x, matrix=matrix) == 1
    floor = 0.97 if matrix == "robust" else 0.99  # in a space of more dimensions other records are outliers
    assert floor < kept(x, y, matrix=matrix) < 1
    assert 0 <= kept(x, g.normal(size=x.shape), matrix=matrix) < 0.95


def test_the_eigenvalues_of_rank_correlations_are_those_of_scipy() -> None:
    from scipy.stats import spearmanr

    x, y = np.random.default_rng(8).standard_cauchy(size=(2, 70, 4))
    one, two = (np.linalg.eigvalsh(spearmanr(z).statistic) for z in (x, y))
    assert kept(x, y, matrix="rank") == pytest.approx(np.minimum(one, two).sum() / 4)


@pytest.mark.parametrize("matrix", ["correlation", "rank", "covariance"])
def test_more_columns_than_records_are_no_trouble_either(matrix: str) -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 4, 9))
    assert kept(x, x, matrix=matrix) == 1
    assert 0 < kept(x, y, matrix=matrix) < 1
    two = np.array([[1.0, 2.0], [3.0, -1.0]])
    assert kept(two, two, matrix=matrix) == pytest.approx(1)


def spectra(draw: st.DrawFn) -> tuple[Numbers, Numbers]:
    k = draw(st.integers(1, 8))
    values = st.lists(st.floats(0, 100), min_size=k, max_size=k)
    one, two = (np.sort(np.array(draw(values)))[::-1] for _ in range(2))
    one[0] += 1e-3
    return one, two


@given(st.composite(spectra)())
def test_an_overlap_is_symmetric_between_0_and_1_and_1_only_for_the_same_spectrum(
    pair: tuple[Numbers, Numbers],
) -> None:
    one, two = pair
    found = spectrum_overlap(one, two)
    assert 0 <= found <= 1 + 1e-12
    assert found == pytest.approx(spectrum_overlap(two, one) if two.any() else 0)
    assert spectrum_overlap(one, one) == 1
    if np.abs(one - two).sum() > 1e-6 * max(one.sum(), two.sum()):
        assert found < 1
    # the total variation, where what one spectrum has less than the other is a component of its own
    total = max(one.sum(), two.sum())
    padded = [np.append(s, total - s.sum()) / total for s in (one, two)]
    assert 1 - found == pytest.approx(np.abs(padded[0] - padded[1]).sum() / 2, abs=1e-9)


@settings(max_examples=40)
@given(seed=st.integers(0, 9_999), k=st.integers(2, 7), amount=st.sampled_from([1e-6, 0.1, 1.0, 30.0]))
def test_the_loss_is_at_most_half_the_nuclear_norm_of_the_change_over_p(seed: int, k: int, amount: float) -> None:
    # Σ|λ - λ'| ≤ ‖R - R'‖* for symmetric matrices (Mirsky 1960), so a small change of R is a small loss, singular or not
    g = np.random.default_rng(seed)
    x = g.normal(size=(30, k)) @ g.normal(size=(k, k))
    x[:, -1] = x[:, 0]  # singular
    y = x + amount * g.normal(size=x.shape)
    one, two = np.corrcoef(x.T), np.corrcoef(y.T)
    loss = 1 - kept(x, y)
    assert -1e-12 <= loss <= np.abs(np.linalg.eigvalsh(one - two)).sum() / (2 * k) + 1e-9
    assert loss <= (k - 1) / k  # from one component that explains all, to components that are all alike
    assert loss == pytest.approx(np.abs(np.linalg.eigvalsh(one) - np.linalg.eigvalsh(two)).sum() / (2 * k), abs=1e-9)


def test_the_loss_is_that_of_the_others_with_each_component_weighted_by_its_share() -> None:
    x, y = np.random.default_rng(5).normal(size=(2, 60, 4))
    one, two = (np.linalg.eigvalsh(np.corrcoef(z.T)) for z in (x, y))
    weights = one / one.sum()
    assert 1 - kept(x, y) == pytest.approx((weights * np.abs(one - two) / one).sum() / 2)


def test_a_turned_spectrum_is_the_same_spectrum() -> None:
    x = exact(50, np.array([[1.0, 0.5], [0.5, 1.0]]), 0.0)[0]
    y = x * [1, -1]
    assert kept(x, y) == pytest.approx(1)
    assert CorrelationsKept().score(release(file_of(x), file_of(y))).value == pytest.approx(0)


@pytest.mark.parametrize("matrix", MATRICES)
def test_an_unchanged_file_keeps_all_and_units_do_not_matter(matrix: str) -> None:
    data = teachers(400)
    assert EigenvaluesKept(matrix=matrix).score(Recipe(()).apply(data, Draws(1))).value == 1  # type: ignore[arg-type]
    x, y = np.random.default_rng(7).normal(size=(2, 80, 3))
    unit = np.array([1e5, -3.0, 1e-4])
    assert kept(x * unit + 9, y * unit + 9, matrix=matrix) == pytest.approx(kept(x, y, matrix=matrix), rel=1e-6)


@pytest.mark.parametrize("matrix", MATRICES)
def test_what_is_not_released_is_lost(matrix: str) -> None:
    x = exact(200, np.eye(4), 0.0)[0]
    gone = np.where(np.arange(4) == 3, np.nan, x)
    share = pytest.approx(0.75, abs=0.08 if matrix == "robust" else 1e-9)  # robustly the four are not quite alike
    assert kept(x, gone, matrix=matrix) == share
    assert kept(x, np.where(np.arange(4) == 3, 5.0, x), matrix=matrix) == share  # nor does it vary any more
    assert kept(x, np.full(x.shape, np.nan), matrix=matrix) == 0
    assert kept(x, np.empty((0, 4)), matrix=matrix) == 0


@pytest.mark.parametrize("matrix", ["correlation", "covariance"])
def test_suppressed_values_lose_their_share(matrix: str) -> None:
    x = exact(400, R, 0.0)[0]
    holes = np.where(np.random.default_rng(3).random(x.shape) < 0.3, np.nan, x)
    whole, part = kept(x, x, matrix=matrix), kept(x, holes, matrix=matrix)
    share = 1 - np.isnan(holes).mean()
    assert part <= share * whole
    assert part == pytest.approx(share, abs=0.1)
    assert kept(holes, holes, matrix=matrix) == pytest.approx(1)  # gaps of the original are no loss


def test_gaps_can_make_a_matrix_no_data_have_and_the_loss_is_still_bounded() -> None:
    # each pair is over other records: a with b and a with c go together, b with c against each other
    one, none = np.arange(4.0), np.full(4, np.nan)
    x = np.column_stack([np.r_[one, one, none], np.r_[one, none, one], np.r_[none, one, -one]])
    wrong = np.array([[1, 1, 1], [1, 1, -1], [1, -1, 1]])
    assert np.linalg.eigvalsh(wrong).min() == pytest.approx(-1)
    assert eigenvalues(wrong.astype(float)).tolist() == pytest.approx([2, 2, 0])
    y = np.random.default_rng(1).normal(size=(50, 3))
    assert kept(x, x) == pytest.approx(1)
    assert 0 < kept(x, y) < 1
    assert 0 < kept(y, x) < 1


def test_a_few_outliers_do_not_move_robust_eigenvalues() -> None:
    g = np.random.default_rng(9)
    x = g.normal(size=(2_000, 3)) @ np.linalg.cholesky(R).T
    y = x.copy()
    y[:40] += 100.0  # two percent, all in one direction
    assert kept(x, y) < 0.7
    assert kept(x, y, matrix="robust") > 0.97
    from sklearn.covariance import MinCovDet

    noisy = x + g.normal(size=x.shape)
    one, two = (np.linalg.eigvalsh(MinCovDet(random_state=1).fit(z).covariance_) for z in (x, noisy))
    expected = np.minimum(one, two).sum() / max(one.sum(), two.sum())
    assert kept(x, noisy, matrix="robust") == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("matrix", ["correlation", "covariance"])
def test_survey_weights_are_respected(matrix: str) -> None:
    g = np.random.default_rng(4)
    x, y = g.normal(size=(2, 50, 3))
    w, v = g.gamma(1, size=(2, 50))
    one, two = np.cov(x.T, aweights=w, ddof=0), np.cov(y.T, aweights=v, ddof=0)
    sd, other = np.sqrt(np.diag(one)), np.sqrt(np.diag(two))
    scale = other if matrix == "correlation" else sd
    a, b = (np.linalg.eigvalsh(c / np.outer(s, s)) for c, s in ((one, sd), (two, scale)))
    expected = np.minimum(a, b).sum() / max(a.sum(), b.sum())
    measure = EigenvaluesKept(weighted=True, matrix=matrix)  # type: ignore[arg-type]
    assert measure.score(release(file_of(x, w), file_of(y, v))).value == pytest.approx(expected)
    assert measure.variant == f"{matrix}, weighted"
    with pytest.raises(ParameterError, match="takes no survey weights"):
        EigenvaluesKept(weighted=True, matrix="robust")


def test_implicates_are_averaged_and_groups_are_files_of_their_own() -> None:
    x, y, z = (np.random.default_rng(s).normal(size=(30, 3)) for s in (1, 2, 3))
    assert kept(x, y, z) == pytest.approx((kept(x, y) + kept(x, z)) / 2)
    data = teachers(1_000)
    made = IndependentNoise(lambda2=0.3).apply(data, Draws(2))
    score = EigenvaluesKept(("salary", "income")).score_by(made, "region")
    region = np.array(data.batch(["region"]).column("region").arrow.to_pylist(), object)
    for name, value in score.groups.items():
        one, two = (
            np.column_stack([d.numbers(n)[region == name] for n in ("salary", "income")]) for d in (data, made.masked)
        )
        assert value == pytest.approx(kept(one, two))


def test_what_cannot_be_compared_is_said_in_a_sentence() -> None:
    before = numbers(x=[1.0, 2.0, 3.0], y=[1.0, 5.0, 3.0])

    def score(file: Microdata, over: tuple[str, ...] | None = None, **options: object) -> float:
        return EigenvaluesKept(over, **options).score(Release.of(before, file)).value  # type: ignore[arg-type]

    with pytest.raises(DataError, match="one column that varies has no correlation"):
        score(before, ("x",))
    assert score(before, ("x",), matrix="covariance") == 1
    assert score(numbers(x=[2.0, 4.0, 6.0]), ("x",), matrix="covariance") == pytest.approx(1 / 4)
    with pytest.raises(NotApplicable, match="released as categories"):
        score(numbers(x=["a", "b", "b"], y=[1.0, 5.0, 3.0]))
    with pytest.raises(DataError, match="infinite"):
        score(numbers(x=[1.0, math.inf, 3.0], y=[1.0, 5.0, 3.0]))
    with pytest.raises(ParameterError, match="matrix of eigenvalues_kept must be one of"):
        EigenvaluesKept(matrix="kendall")  # type: ignore[arg-type]
    apart = numbers(x=[1.0, 2.0, None, None], y=[None, None, 3.0, 4.0])
    with pytest.raises(DataError, match="robust covariance"):
        EigenvaluesKept(matrix="robust").score(Release.of(apart, apart))
