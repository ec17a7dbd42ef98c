"""Binned residuals of logistic models: the bins, the noise, the band, and what they show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers

from sfumato import Draws
from sfumato.errors import DataError
from sfumato.mas.synthetic_residuals import BinnedResiduals

PICTURE = BinnedResiduals()


def outcomes(n: int, seed: int, bend: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a logistic model that knows no bend, and outcomes of one that has it."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    p = 1 / (1 + np.exp(-z))
    return p, (rng.random(n) < 1 / (1 + np.exp(-(z + bend * (z**2 - 1))))).astype(float)


@pytest.mark.parametrize("n", [60, 500, 777, 20_000])
def test_every_bin_holds_25_records_and_a_twentieth_of_all(n: int) -> None:
    p, y = outcomes(n, n)
    points = BinnedResiduals(noise=0.5).picture(p, y, Draws(1)).points
    assert len(points) <= min(20, n // 25)
    # without noise the sums over bins are those over all records
    sums = []
    for seed in range(200):
        shown = BinnedResiduals(noise=0.5).picture(p, y, Draws(seed)).points
        sums.append(shown["residual"].mean())
    assert np.mean(sums) == pytest.approx((y - p).mean(), abs=0.03)


def test_noise_has_the_standard_deviation_it_says() -> None:
    p, y = np.full(100, 0.3), np.r_[np.ones(30), np.zeros(70)]
    found = [BinnedResiduals(noise=2.0).picture(p, y, Draws(s)).points["residual"][0] * 100 for s in range(2000)]
    assert np.std(found) == pytest.approx(2.0, rel=0.06)
    assert np.mean(found) == pytest.approx(0.0, abs=0.2)


def test_the_band_is_two_standard_errors_with_the_noise() -> None:
    p, y = np.full(100, 0.3), np.r_[np.ones(30), np.zeros(70)]
    band = PICTURE.picture(p, y, Draws(1)).points["band"]
    assert len(band) == 1
    assert band[0] == pytest.approx(2 * np.sqrt(100 * 0.21 + 4) / 100, rel=0.05)


def test_right_models_are_not_blamed_and_bent_ones_are() -> None:
    right = np.mean([PICTURE.picture(*outcomes(1500, s), Draws(s)).test() < 0.05 for s in range(200)])
    bent = np.mean([PICTURE.picture(*outcomes(1500, s, 0.6), Draws(s)).test() < 0.05 for s in range(200)])
    assert right <= 0.10
    assert bent >= 0.90


def test_asking_again_gives_the_same_picture_in_any_order() -> None:
    p, y = outcomes(600, 1)
    mixed = np.random.default_rng(0).permutation(600)
    a, b = PICTURE.picture(p, y, Draws(5)).points, PICTURE.picture(p[mixed], y[mixed], Draws(5)).points
    pd.testing.assert_frame_equal(a, b)
    assert not np.isclose(a["residual"], PICTURE.picture(p, y, Draws(5), name="other").points["residual"]).all()


def test_equal_probabilities_stay_in_one_bin_and_other_axes_are_possible() -> None:
    p = np.repeat([0.2, 0.5], [300, 300])
    y = np.tile([1.0, 0.0, 0.0], 200)
    assert len(PICTURE.picture(p, y, Draws(1)).points) == 2
    income = np.r_[np.arange(599.0), 1_234_567.89]
    by_income = PICTURE.picture(p, y, Draws(1), x=income, axis="income").points
    assert len(by_income) == 20
    assert by_income["x"].max() < 600  # a median: the largest income does not move it


def test_a_multinomial_model_has_one_picture_for_each_level() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([4, 3, 2], 3000)
    y = (p.cumsum(axis=1) < rng.random(3000)[:, None]).sum(axis=1)
    pictures = PICTURE.pictures(p, y, Draws(2), ["car", "bus", "foot"])
    assert list(pictures) == ["car", "bus", "foot"]
    assert all(q.test() > 0.001 for q in pictures.values())
    wrong = PICTURE.pictures(p[:, [1, 0, 2]], y, Draws(2), ["car", "bus", "foot"])
    assert wrong["car"].test() < 1e-6
    assert "does not fit" in str(wrong["car"])
    assert wrong["foot"].test() > 0.001
    with pytest.raises(DataError, match="one column"):
        PICTURE.pictures(p, y, Draws(2), ["car", "bus"])
    with pytest.raises(DataError, match="positions"):
        PICTURE.pictures(p, y + 1, Draws(2))


def test_bad_input_is_refused() -> None:
    p, y = outcomes(600, 1)
    for bad, match in (
        ((p + 1, y), "between 0 and 1"),
        ((p, y * 2), "0 or 1"),
        ((p[:40], y[:40]), "too few"),
        ((p, y[:5]), "one prob"),
    ):
        with pytest.raises(DataError, match=match):
            PICTURE.picture(*bad, Draws(1))


def test_the_chart_shows_the_means_and_the_band() -> None:
    picture = PICTURE.picture(*outcomes(2000, 1, 0.8), Draws(1), name="disability")
    drawn = [r for unit, rows in layers(picture.chart().to_dict()) if unit["mark"]["type"] == "point" for r in rows]
    assert [r["residual"] for r in drawn] == picture.points["residual"].tolist()
    outside = [r for r in drawn if abs(r["residual"]) > r["band"]]
    assert len(outside) == picture.outside > 3
