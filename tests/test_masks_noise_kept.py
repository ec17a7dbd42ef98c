"""Noise that keeps moments (corrected noise, Kim's transformation, ROMM), and one meaning of the level in every noise method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from small_files import amounts as microdata

from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import (
    ROMM,
    BoundedNoise,
    CorrectedNoise,
    GaussianMechanism,
    IndependentNoise,
    KimNoise,
    KimTransformation,
    LaplaceNoise,
    MultiplicativeNoise,
)

Numbers = NDArray[np.float64]
SIGMA = np.array([[17.5**2, 8.3**2, 40.0], [8.3**2, 13.3**2, 55.0], [40.0, 55.0, 10.0**2]])
NAMES = ("income", "salary", "age")


def survey(n: int, seed: int = 2004) -> Microdata:
    x = np.random.default_rng(seed).standard_normal((n, 3)) @ np.linalg.cholesky(SIGMA).T + [96, 62, 44]
    return microdata(**dict(zip(NAMES, x.T, strict=True)))


def matrix(data: Microdata, names: tuple[str, ...] = NAMES) -> Numbers:
    return np.column_stack([data.numbers(n) for n in names])


def masked(mask: Mask, data: Microdata, seed: int = 1, names: tuple[str, ...] = NAMES) -> Numbers:
    return matrix(mask.apply(data, Draws(seed)).masked, names)


def says(mask: Mask, data: Microdata) -> str:
    return " ".join(g.says for g in mask.apply(data, Draws(1)).guarantees)


# One meaning of the level


@pytest.mark.parametrize("lambda2", [0.02, 0.25])
@pytest.mark.parametrize(
    "mask",
    [
        KimNoise(),
        IndependentNoise(),
        CorrectedNoise(),
        KimTransformation(),
        KimTransformation(keep="variances"),
        ROMM(),
        MultiplicativeNoise(scheme="lognormal"),
        MultiplicativeNoise(scheme="truncated_normal"),
        BoundedNoise(low=-1e6, high=1e6),
    ],
    ids=lambda m: f"{m.name}-{getattr(m, 'scheme', getattr(m, 'keep', ''))}",
)
def test_the_level_is_the_noise_variance_over_the_variance_in_every_method(mask: Any, lambda2: float) -> None:
    # noise of variance λ² Var(x), uncorrelated with x, leaves a correlation of 1/√(1+λ²), whatever the values are scaled by
    data = survey(100_000)
    y = masked(mask.with_(lambda2=lambda2), data)
    for x, z in zip(matrix(data).T, y.T, strict=True):
        r = np.corrcoef(x, z)[0, 1]
        assert 1 / r**2 - 1 == pytest.approx(lambda2, abs=6 * 2 * (1 - r**2) / r**3 / np.sqrt(len(x)))


def test_the_level_of_noise_on_logarithms_is_their_noise_variance_over_their_variance() -> None:
    g = np.random.default_rng(3)
    data = microdata(x=g.lognormal(4, 0.8, 100_000))
    y = masked(MultiplicativeNoise(lambda2=0.3), data, names=("x",))[:, 0]
    noise = np.log(y / data.numbers("x"))
    assert np.var(noise) / np.var(np.log(data.numbers("x"))) == pytest.approx(0.3, rel=6 * np.sqrt(2 / 1e5))


ADDING = [
    KimNoise(),
    IndependentNoise(),
    CorrectedNoise(),
    KimTransformation(),
    ROMM(),
    MultiplicativeNoise(),
    MultiplicativeNoise(scheme="truncated_normal"),
    BoundedNoise(low=0, high=300),
    LaplaceNoise(10),
    GaussianMechanism(10),
]


@pytest.mark.parametrize("mask", ADDING, ids=lambda m: m.name)
def test_no_method_adds_no_noise(mask: Mask) -> None:
    data = survey(500)
    assert (masked(mask, data) != matrix(data)).all()


@pytest.mark.parametrize("mask", ADDING, ids=lambda m: m.name)
def test_minus_999_is_a_number_unless_the_schema_says_it_is_missing(mask: Mask) -> None:
    x = np.random.default_rng(1).normal(900, 90, 300)
    x[:30] = 999.0
    plain = masked(mask, microdata(x=x), names=("x",))[:, 0]
    assert (plain[:30] != 999).all()
    coded = masked(mask, microdata({"x": {"missing": (999,)}}, x=x), names=("x",))[:, 0]
    assert np.isnan(coded[:30]).all()
    assert not np.isnan(coded[30:]).any()


@pytest.mark.parametrize("mask", [*ADDING[:5], ADDING[-2], ADDING[-1]], ids=lambda m: m.name)
def test_columns_that_add_up_do_not_blow_up(mask: Mask) -> None:
    g = np.random.default_rng(8)
    b, c = g.normal(50, 7, 2000), g.gamma(2, 30, 2000)
    data = microdata(a=b + c, b=b, c=c, d=2 * b)
    y = masked(mask, data, names=("a", "b", "c", "d"))
    assert np.abs(y).max() < 5 * np.abs(matrix(data, ("a", "b", "c", "d"))).max()
    if isinstance(mask, KimNoise | CorrectedNoise | KimTransformation | ROMM):
        np.testing.assert_allclose(y[:, 0], y[:, 1] + y[:, 2], rtol=1e-7)
        np.testing.assert_allclose(y[:, 3], 2 * y[:, 1], rtol=1e-7)


@pytest.mark.parametrize("mask", ADDING, ids=lambda m: m.name)
def test_rows_are_read_by_position_and_not_by_the_index_of_the_frame(mask: Mask) -> None:
    data = survey(60)
    frame = pd.DataFrame(matrix(data), columns=list(NAMES), index=np.random.default_rng(1).permutation(60) + 500)
    np.testing.assert_array_equal(masked(mask, Microdata(frame, data.schema)), masked(mask, data))


# Corrected noise


def test_corrected_noise_keeps_mean_and_covariance_in_expectation() -> None:
    data = survey(40)
    x = matrix(data)
    runs = [masked(CorrectedNoise(lambda2=0.5), data, seed) for seed in range(600)]
    found = np.array([np.concatenate([y.mean(axis=0), np.cov(y, rowvar=False).ravel()]) for y in runs])
    truth = np.concatenate([x.mean(axis=0), np.cov(x, rowvar=False).ravel()])
    assert (np.abs(found.mean(axis=0) - truth) < 4.5 * found.std(axis=0, ddof=1) / np.sqrt(600)).all()


def test_corrected_noise_with_levels_by_column_keeps_variances_and_shrinks_the_correlation_as_stated() -> None:
    data = survey(40)
    x = matrix(data, NAMES[:2])
    mask = CorrectedNoise(("income", "salary"), {"income": 0.1, "salary": 1.0})
    covariances = np.array([np.cov(masked(mask, data, s, NAMES[:2]), rowvar=False) for s in range(600)])
    shrink = (1 + np.sqrt(0.1)) / np.sqrt(1.1 * 2.0)
    truth = np.cov(x, rowvar=False) * np.array([[1, shrink], [shrink, 1]])
    assert (np.abs(covariances.mean(axis=0) - truth) < 4.5 * covariances.std(axis=0, ddof=1) / np.sqrt(600)).all()
    assert "mean and variance of each column" in says(mask, data)


def test_corrected_noise_as_matrices_shrinks_by_the_root_of_one_plus_lambda_squared() -> None:
    form = CorrectedNoise(lambda2=0.21).as_matrix(survey(50), Draws(1))
    np.testing.assert_allclose(form.B, np.eye(3) / 1.1)
    assert form.A is None
    assert form.random == ("C",)


def test_corrected_noise_keeps_the_mean_of_a_column_with_gaps() -> None:
    data = survey(60)
    income = data.numbers("income").copy()
    income[::3] = np.nan
    gappy = microdata(income=income, salary=data.numbers("salary"))
    means = [np.nanmean(masked(CorrectedNoise(lambda2=0.5), gappy, s, ("income",))) for s in range(400)]
    assert abs(np.mean(means) - np.nanmean(income)) < 4.5 * np.std(means) / 20


# Kim's transformation


@pytest.mark.parametrize("lambda2", [0.0, 0.15, 4.0])
def test_kims_transformation_keeps_the_sample_mean_and_covariance_exactly(lambda2: float) -> None:
    data = survey(200)
    x, y = matrix(data), masked(KimTransformation(lambda2=lambda2), data)
    np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.cov(x, rowvar=False), rtol=1e-10)
    assert bool(np.abs(y - x).max() > 1) is (lambda2 > 0)
    assert "mean and covariance over the records that have all of them are exactly" in says(KimTransformation(), data)


def test_keeping_variances_multiplies_each_column_by_one_number_and_adds_one() -> None:
    data = survey(200)
    mask = KimTransformation(keep="variances", lambda2=0.4)
    x, y = matrix(data), masked(mask, data)
    np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(y.var(axis=0), x.var(axis=0), rtol=1e-10)
    step = Draws(1).child("kim_transformation")
    z = matrix(KimNoise(lambda2=0.4).fit(data, step).run(data, step))
    for j in range(3):  # the noise is that of kim_noise, up to a line
        np.testing.assert_allclose(np.corrcoef(z[:, j], y[:, j])[0, 1], 1, rtol=1e-12)


def test_kims_transformation_with_gaps_keeps_the_moments_of_the_complete_records_and_masks_the_others() -> None:
    data = survey(300)
    x = matrix(data).copy()
    x[::5, 0] = np.nan
    x[::7, 2] = np.nan
    gappy = microdata(**dict(zip(NAMES, x.T, strict=True)))
    y = masked(KimTransformation(), gappy)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    assert (y[~np.isnan(x)] != x[~np.isnan(x)]).all()
    whole = ~np.isnan(x).any(axis=1)
    np.testing.assert_allclose(y[whole].mean(axis=0), x[whole].mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(np.cov(y[whole], rowvar=False), np.cov(x[whole], rowvar=False), rtol=1e-10)
    with pytest.raises(NotApplicable, match="records have gaps"):
        KimTransformation().as_matrix(gappy, Draws(1))


def test_kims_transformation_as_matrices_uses_both_b_and_c() -> None:
    data = survey(100)
    form = KimTransformation().as_matrix(data, Draws(3))
    made = KimTransformation().apply(data, Draws(3)).masked
    np.testing.assert_allclose(form.apply(matrix(data)), matrix(made), rtol=1e-10)
    assert form.B is not None
    assert np.abs(form.B - np.eye(3)).max() > 0.01


def test_so_few_records_that_their_moments_would_give_them_away_are_refused() -> None:
    # two values with a given mean and variance are these two values
    with pytest.raises(DataError, match=r"would tell what their values are\. At least 4 are needed"):
        KimTransformation("income").apply(survey(3), Draws(1))
    with pytest.raises(DataError, match="At least 6 are needed"):
        KimTransformation().apply(survey(5), Draws(1))
    assert (masked(KimTransformation(), survey(6)) != matrix(survey(6))).all()


def test_a_transformation_fitted_with_another_seed_does_not_claim_exact_moments() -> None:
    data = survey(200)
    release = KimTransformation().fit(data, Draws(8)).apply(data, Draws(9))
    text = " ".join(g.says for g in release.guarantees)
    assert "near those of the original but not equal" in text
    assert "exactly" not in text


def test_whole_numbers_and_bounds_are_said_to_disturb_the_moments() -> None:
    x = np.random.default_rng(1).integers(0, 50, 400)
    data = microdata({"x": {"integer": True, "bounds": (0, 50)}}, x=x)
    for mask in (KimTransformation(), ROMM()):
        text = says(mask, data)
        assert "up to values made whole or moved to the bounds" in text
        assert "exactly" not in text


# ROMM


def test_romm_is_an_orthogonal_matrix_that_keeps_the_vector_of_ones_and_mixes_blocks_only() -> None:
    data = survey(100)
    form = ROMM(block=11, lambda2=0.7).as_matrix(data, Draws(2))
    t = form.A.toarray()  # type: ignore[union-attr]
    np.testing.assert_allclose(t.T @ t, np.eye(100), atol=1e-12)
    np.testing.assert_allclose(t @ np.ones(100), np.ones(100), atol=1e-12)
    sizes = (np.abs(t) > 1e-14).sum(axis=1)
    assert sorted(set(sizes)) == [11, 12]  # 100 = 8 × 11 + 12
    assert form.B is None
    assert form.C is None
    assert form.random == ("A",)


@pytest.mark.parametrize("lambda2", [0.05, 1.0, 100.0])
def test_romm_keeps_mean_and_covariance_exactly_and_has_the_level_it_says_in_every_block(lambda2: float) -> None:
    data = survey(33)
    x, y = matrix(data), masked(ROMM(lambda2=lambda2, block=33), data)
    np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.cov(x, rowvar=False), rtol=1e-10)
    for j in range(3):
        assert np.corrcoef(x[:, j], y[:, j])[0, 1] == pytest.approx(1 / np.sqrt(1 + lambda2), rel=1e-10)
    assert "exactly those of the original" in says(ROMM(), data)


def test_romm_of_level_zero_changes_nothing() -> None:
    data = survey(100)
    np.testing.assert_array_equal(masked(ROMM(lambda2=0), data), matrix(data))


def test_romm_levels_share_their_draws() -> None:
    data = survey(99)
    # (I + λJ)/√(1+λ²) on deviations: J is what is skew in T, and the same at every level
    t = [ROMM(lambda2=v).as_matrix(data, Draws(1)).A.toarray() for v in (0.04, 0.36)]  # type: ignore[union-attr]
    skew = [(a - a.T) / 2 * np.sqrt(1 + v) / np.sqrt(v) for a, v in zip(t, (0.04, 0.36), strict=True)]
    np.testing.assert_allclose(skew[0], skew[1], atol=1e-12)
    assert np.abs(skew[0]).max() > 0.1


def test_romm_survives_a_large_offset() -> None:
    g = np.random.default_rng(2)
    data = microdata(x=1e9 + g.normal(size=1000), y=g.normal(size=1000))
    x, y = matrix(data, ("x", "y")), masked(ROMM(), data, names=("x", "y"))
    np.testing.assert_allclose(y[:, 0].mean() - 1e9, x[:, 0].mean() - 1e9, atol=1e-6)
    np.testing.assert_allclose(np.cov(y, rowvar=False), np.cov(x, rowvar=False), rtol=1e-6, atol=1e-8)


def test_romm_mixes_records_that_have_the_same_columns_answered() -> None:
    x = matrix(survey(300)).copy()
    x[::5, 0] = np.nan
    data = microdata(**dict(zip(NAMES, x.T, strict=True)))
    y = masked(ROMM(), data)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    for rows in (np.isnan(x[:, 0]), ~np.isnan(x[:, 0])):
        np.testing.assert_allclose(y[rows].mean(axis=0), x[rows].mean(axis=0), rtol=1e-11)
        np.testing.assert_allclose(np.cov(y[rows], rowvar=False), np.cov(x[rows], rowvar=False), rtol=1e-10)


def test_romm_mixes_households_with_households() -> None:
    g = np.random.default_rng(3)
    rent, number = np.repeat(g.normal(900, 200, 80), 2), np.repeat(np.arange(80), 2)
    facts = {"rent": {"level": "household"}, "hh": {"role": "household"}}
    data = microdata(facts, rent=rent, pay=g.normal(size=160), hh=number)
    y = masked(ROMM(), data, names=("rent",)).reshape(-1, 2)
    np.testing.assert_array_equal(y[:, 0], y[:, 1])
    np.testing.assert_allclose(y[:, 0].mean(), rent[::2].mean(), rtol=1e-12)
    np.testing.assert_allclose(y[:, 0].var(), rent[::2].var(), rtol=1e-10)
    assert "over the households that have" in says(ROMM(), data)
    with pytest.raises(NotApplicable, match="by different matrices"):
        ROMM().as_matrix(data, Draws(1))
    form = ROMM("rent").as_matrix(data, Draws(1))
    made = ROMM("rent").apply(data, Draws(1)).masked
    np.testing.assert_allclose(form.apply(rent[:, None])[:, 0], made.numbers("rent"), rtol=1e-12)


def test_romm_refuses_what_one_rotation_cannot_do() -> None:
    with pytest.raises(ParameterError, match="one matrix"):
        ROMM(("income", "age"), {"income": 0.1, "age": 0.2})
    with pytest.raises(DataError, match=r"too few to mix with each other\. At least 5"):
        ROMM().apply(survey(4), Draws(1))
