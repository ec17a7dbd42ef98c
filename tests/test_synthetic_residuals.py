"""Synthetic residuals: faithful to the pattern, and no point of theirs is a record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from chart_specs import layers
from scipy import stats

from sfumato import Draws
from sfumato.contract.parameters import registered
from sfumato.errors import DataError, ParameterError
from sfumato.mas.synthetic_residuals import CURVE, SyntheticResiduals, level_basis, rank_basis, smooth

DRAWS = Draws(11)
PICTURE = SyntheticResiduals()


def fitted(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fitted values and internally studentised residuals of a straight line."""
    design = np.column_stack([np.ones(len(x)), x])
    q, _ = np.linalg.qr(design)
    line = q @ (q.T @ y)
    rest = y - line
    sigma = np.sqrt(rest @ rest / (len(x) - 2))
    return line, rest / (sigma * np.sqrt(1 - (q**2).sum(1)))


def model(kind: str, n: int, seed: int, axis: str = "normal") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n])
    x = (
        rng.normal(size=n)
        if axis == "normal"
        else rng.integers(18, 90, n) / 20
        if axis == "ages"
        else 3 * rng.random(n)
    )
    e = rng.normal(size=n)
    z = (x - x.mean()) / x.std()
    bend = {"normal": 0.35, "ages": 0.5, "even": 0.5}[axis]
    y = 1 + x + (bend * z**2 + e if kind == "curved" else e * np.exp(0.4 * z) if kind == "uneven" else e)
    return fitted(x, y)


def curvature_test(x: np.ndarray, t: np.ndarray) -> float:
    """F test of a square beside a straight line."""
    z = (x - x.mean()) / x.std()
    line, square = np.column_stack([np.ones(len(z)), z]), np.column_stack([np.ones(len(z)), z, z**2])
    rest = [t - m @ np.linalg.lstsq(m, t, rcond=None)[0] for m in (line, square)]
    a, b = (float(r @ r) for r in rest)
    return float(stats.f.sf((a - b) / (b / (len(z) - 3)), 1, len(z) - 3))


def variance_test(x: np.ndarray, t: np.ndarray) -> float:
    """F test of the variance in the upper third against that in the lower third (Goldfeld and Quandt), two-sided."""
    third = len(x) // 3
    order = np.argsort(x)
    found = []
    for part in (order[:third], order[-third:]):
        m = np.column_stack([np.ones(third), x[part]])
        rest = t[part] - m @ np.linalg.lstsq(m, t[part], rcond=None)[0]
        found.append(float(rest @ rest))
    ratio, free = found[1] / found[0], third - 2
    return float(2 * min(stats.f.sf(ratio, free, free), stats.f.cdf(ratio, free, free)))


def rejected(kind: str, n: int, axis: str, runs: int = 200) -> tuple[float, float]:
    """The share of models whose synthetic points alone fail the two tests at 5 %."""
    found = []
    for seed in range(runs):
        points = PICTURE.picture(*model(kind, n, seed, axis), Draws(seed)).points.to_numpy()
        found.append((curvature_test(*points.T) < 0.05, variance_test(*points.T) < 0.05))
    curved, uneven = np.mean(found, axis=0)
    return float(curved), float(uneven)


# -- faithful


@pytest.mark.parametrize(
    ("n", "axis"), [(500, "normal"), (500, "ages"), pytest.param(2000, "even", marks=pytest.mark.verify)]
)
def test_bad_models_are_seen_and_right_ones_are_not_blamed(n: int, axis: str) -> None:
    right = rejected("right", n, axis)
    assert max(right) <= 0.10
    assert rejected("curved", n, axis)[0] >= 0.90
    assert rejected("uneven", n, axis)[1] >= 0.90


def test_the_form_without_shrinkage_would_blame_right_models_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.mas.synthetic_residuals.CURVE", (0.0, 1e-9))
    monkeypatch.setattr("sfumato.mas.synthetic_residuals.SPREAD", (0.0, 1e-9))
    assert max(rejected("right", 500, "normal")) > 0.10


@pytest.mark.parametrize("n", [500, 20_000])
def test_the_curve_and_the_spread_of_a_bad_model_are_where_they_should_be(n: int) -> None:
    rng = np.random.default_rng(n)
    x = 10 * rng.random(n)
    t = np.cos(x * np.pi / 5) + (0.3 + 0.1 * x) * rng.normal(size=n)
    points = SyntheticResiduals(tau=0.05).picture(x, t, DRAWS).points
    for low in range(1, 9):
        part = points[(points.x > low) & (points.x <= low + 1)]
        middle = low + 0.5
        assert part.residual.mean() == pytest.approx(np.cos(middle * np.pi / 5), abs=0.45)
        assert part.residual.std() == pytest.approx(0.3 + 0.1 * middle, rel=0.5)


def test_levels_keep_their_means_and_their_shares() -> None:
    rng = np.random.default_rng(4)
    names = np.array(["a", "b", "c", "d"])[rng.choice(4, 5000, p=[0.5, 0.3, 0.199, 0.001])]
    t = rng.normal(size=5000) + 1.5 * (names == "b")
    picture = PICTURE.picture(names, t, DRAWS, axis="region")
    assert picture.levels == ("a", "b", "c")  # d has fewer than twenty
    means = picture.points.groupby("x")["residual"].mean()
    assert means["b"] == pytest.approx(1.5, abs=0.2)
    assert means["a"] == pytest.approx(0, abs=0.2)
    assert (picture.points["x"] == "a").mean() == pytest.approx(0.5, abs=0.06)
    assert picture.tests()["levels"] < 1e-6
    assert "levels differ" in str(picture)


# -- nobody is in it


@pytest.mark.parametrize("axis", ["normal", "ages", "even"])
def test_no_synthetic_point_is_a_real_one(axis: str) -> None:
    for n in (500, 5000):
        x, t = model("right", n, 3, axis)
        points = PICTURE.picture(x, t, DRAWS).points
        assert not np.isin(points["x"], x).any()
        assert not np.isin(points["residual"], t).any()


def test_no_synthetic_point_is_a_real_one_where_values_are_whole_or_rounded() -> None:
    rng = np.random.default_rng(5)
    for x in (rng.integers(0, 100_000, 3000), rng.integers(0, 5, 3000), np.round(rng.random(3000), 6), np.zeros(3000)):
        t = np.round(rng.normal(size=3000), 4)
        points = PICTURE.picture(x, t, DRAWS).points
        assert not np.isin(points["x"], x).any()
        assert not np.isin(points["residual"], t).any()


def test_twenty_records_lie_beyond_the_outermost_places() -> None:
    for seed in range(20):
        x, t = model("right", 500, seed)
        drawn = SyntheticResiduals(points=20_000).picture(x, t, Draws(seed)).points["x"]
        assert (x < drawn.min()).sum() >= 20
        assert (x > drawn.max()).sum() >= 20


@pytest.mark.parametrize("where", ["residual", "x", "both"])
def test_the_picture_is_the_same_however_far_out_the_largest_value_is(where: str) -> None:
    x, t = model("right", 600, 8)
    at = np.argmax(x)
    pictures = []
    for far in (50.0, 5e3, 5e12):
        a, b = x.copy(), t.copy()
        if where != "residual":
            a[at] = far
        if where != "x":
            b[at] = far
        pictures.append(PICTURE.picture(a, b, DRAWS).points)
    for other in pictures[1:]:
        pd.testing.assert_frame_equal(pictures[0], other)


def test_one_record_moves_the_curve_by_less_than_the_noise() -> None:
    x, t = model("right", 500, 9)
    for at in (int(np.argmax(x)), int(np.argsort(x)[250])):
        up, down = t.copy(), t.copy()
        up[at], down[at] = 1e6, -1e6
        a, b = (PICTURE.picture(x, v, DRAWS).points["residual"].to_numpy() for v in (up, down))
        near = np.abs(np.sort(a) - np.sort(b))
        assert np.median(np.abs(a - b)) < 0.1
        assert near.max() < 1.0
        assert max(np.abs(a).max(), np.abs(b).max()) < 6


def test_a_target_s_residual_cannot_be_read_off_the_picture() -> None:
    """The snooper knows x of a target and that its residual is +8 or −8; points near it are no better than a coin."""
    right = 0
    for seed in range(400):
        x, t = model("right", 500, 1000 + seed)
        at = 37
        sign = 1 if seed % 2 else -1
        t[at] = 8.0 * sign
        points = PICTURE.picture(x, t, Draws(seed)).points
        near = points.iloc[np.argsort(np.abs(points["x"].to_numpy() - x[at]))[:30]]
        right += (near["residual"].sum() > 0) == (sign > 0)
    assert right / 400 <= 0.60  # one in thirty points is a tail of that side; a binomial of 400 reaches 0.55 by chance


# -- the same again


def test_asking_again_gives_the_same_picture_in_any_order_of_the_records() -> None:
    for axis in ("normal", "ages"):
        x, t = model("curved", 700, 1, axis)
        first = PICTURE.picture(x, t, DRAWS)
        mixed = np.random.default_rng(0).permutation(700)
        pd.testing.assert_frame_equal(first.points, PICTURE.picture(x[mixed], t[mixed], DRAWS).points)
        other = PICTURE.picture(x, t, DRAWS.child("another model")).points
        assert not np.isclose(first.points["residual"], other["residual"]).any()
        assert not np.isclose(
            first.points["residual"], PICTURE.picture(x, t, DRAWS, axis="age").points["residual"]
        ).any()


def test_rounding_errors_of_an_engine_do_not_change_the_picture() -> None:
    x, t = model("curved", 700, 1)
    wobble = 1 + 1e-14 * np.random.default_rng(0).normal(size=700)
    a, b = PICTURE.picture(x, t, DRAWS).points, PICTURE.picture(x * wobble, t * wobble, DRAWS).points
    assert (a == b).to_numpy().mean() > 0.999


# -- any size and shape


def test_a_million_records_are_drawn_from_by_key() -> None:
    x, t = model("curved", 1_000_000, 1)
    points = PICTURE.picture(x, t, DRAWS).points
    assert len(points) == 1000
    assert curvature_test(*points.to_numpy().T) < 1e-6


SHAPES: dict[str, Any] = {
    "constant": np.full(600, 3.0),
    "two values": np.repeat([0, 1], 300),
    "one value and a few others": np.r_[np.zeros(590), np.arange(10)],
    "a frequent value": np.r_[np.ones(350), np.random.default_rng(1).random(250)],
    "outliers": np.r_[np.random.default_rng(2).normal(size=590), np.logspace(1, 9, 10)],
    "tiny": np.random.default_rng(3).random(600) * 1e-12,
    "huge": 1e12 + np.random.default_rng(3).random(600),
    "twelve levels": np.arange(600) % 12,
    "yes and no": np.arange(600) % 2 == 0,
}


@pytest.mark.parametrize("name", SHAPES)
def test_right_models_look_right_on_any_axis(name: str) -> None:
    x, wrong = SHAPES[name], 0
    for seed in range(20):
        picture = PICTURE.picture(x, np.random.default_rng(seed).normal(size=600), Draws(seed))
        assert np.isfinite(picture.points["residual"]).all()
        assert picture.points["residual"].std() == pytest.approx(np.sqrt(1 + 0.09), rel=0.25)
        wrong += min(picture.tests().values()) < 0.01
    assert wrong <= 3


def test_residuals_with_ties_and_in_any_unit_are_fine() -> None:
    x, t = model("curved", 800, 2)
    a = PICTURE.picture(x, t, DRAWS).points["residual"]
    b = PICTURE.picture(x, 1000 * t, DRAWS).points["residual"]
    assert np.allclose(1000 * a, b, atol=2)
    signs = np.where(np.random.default_rng(1).random(800) < 0.3, 1.0, -0.4)
    assert PICTURE.picture(x, signs, DRAWS).points["residual"].mean() == pytest.approx(signs.mean(), abs=0.1)


def test_missing_and_infinite_pairs_are_left_out() -> None:
    x, t = model("right", 700, 2)
    more_x = np.r_[x, np.nan, 1.0, np.inf, 2.0]
    more_t = np.r_[t, 1.0, np.nan, 1.0, -np.inf]
    pd.testing.assert_frame_equal(PICTURE.picture(x, t, DRAWS).points, PICTURE.picture(more_x, more_t, DRAWS).points)


def test_what_cannot_be_drawn_is_refused_without_a_word_about_the_data() -> None:
    x, t = model("right", 500, 2)
    for bad, match in (((x[:150], t[:150]), "too few"), ((x, t[:10]), "one residual"), ((x, 0 * t), "do not vary")):
        with pytest.raises(DataError, match=match) as error:
            PICTURE.picture(*bad, DRAWS)
        assert not any(c.isdigit() for c in str(error.value))
    with pytest.raises(DataError, match="too rare"):
        PICTURE.picture([f"n{i}" for i in range(500)], t, DRAWS)
    with pytest.raises(ParameterError, match="tau"):
        SyntheticResiduals(tau=0)
    assert {"synthetic_residuals", "binned_residuals"} <= set(registered("diagnostic"))


# -- parts


def test_the_bases_are_orthonormal() -> None:
    rng = np.random.default_rng(1)
    basis, at = rank_basis(np.sort(rng.random(400)))
    assert np.allclose(basis.T @ basis / 400, np.eye(8))
    assert np.allclose(basis.mean(axis=0), 0)
    codes = rng.integers(0, 3, 400)
    basis, at = level_basis(codes, 3)
    assert np.allclose(basis.T @ basis / 400, np.eye(3))
    assert np.allclose(at(codes.astype(float)), basis)


def test_chance_is_dropped_and_what_is_certain_is_kept() -> None:
    rng = np.random.default_rng(2)
    u = (np.arange(2000) + 0.5) / 2000
    basis, _ = rank_basis(u)
    flat = [np.abs(smooth(basis, basis, rng.normal(size=2000), CURVE)[1]).max() for _ in range(40)]
    assert np.median(flat) < 0.05
    bend = 3 * (u - 0.5) ** 2
    _, kept = smooth(basis, basis, bend + 0.1 * rng.normal(size=2000), CURVE)
    assert np.abs(kept - bend).max() < 0.05


def test_the_words_and_the_chart_come_from_the_synthetic_points_alone() -> None:
    picture = PICTURE.picture(*model("curved", 1000, 5), DRAWS)
    assert "they bend" in str(picture)
    assert "the spread is even" in str(picture)
    assert picture.tests()["curve"] < 0.001
    drawn = [r for unit, rows in layers(picture.chart().to_dict()) if unit["mark"]["type"] == "point" for r in rows]
    assert [r["residual"] for r in drawn] == picture.points["residual"].tolist()
    by_level = PICTURE.picture(np.repeat(["a", "b"], 300), np.random.default_rng(1).normal(size=600), DRAWS, axis="sex")
    drawn = [r for unit, rows in layers(by_level.chart().to_dict()) if unit["mark"]["type"] == "point" for r in rows]
    assert {r["x"] for r in drawn} == {"a", "b"}
