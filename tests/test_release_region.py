"""The ellipsoidal release region: against grids, and standards set attribute by attribute."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.papers.release_region import ReleaseRegion


def pair(rho: float, tau: float = 0.5) -> ReleaseRegion:
    return ReleaseRegion([[1.0, rho], [rho, 1.0]], tau)


def by_hand(r1: float, r2: float, rho: float) -> float:
    return (r1**2 + r2**2 - 2 * rho * r1 * r2) / (1 - rho**2)


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.6])
def test_what_two_attributes_explain_is_the_textbook_multiple_correlation(rho: float) -> None:
    for r1, r2 in itertools.product((-0.3, 0.0, 0.2, 0.4), repeat=2):
        assert pair(rho).explained([r1, r2])[0] == pytest.approx(by_hand(r1, r2, rho))


def test_attributes_that_pass_one_by_one_can_disclose_together() -> None:
    region = pair(0.6)
    assert region.accepts_each([0.4, -0.4]).all()  # each explains 16 %
    assert region.explained([0.4, -0.4])[0] == pytest.approx(0.8)
    assert not region.accepts([0.4, -0.4]).any()
    assert region.possible([0.4, -0.4]).all()


def test_attributes_that_fail_one_by_one_can_be_harmless_together() -> None:
    region = pair(0.6)
    assert not region.accepts_each([0.62, 0.45], limits=0.25).any()
    assert region.accepts([0.62, 0.45]).all()


def test_with_the_same_threshold_passing_together_implies_passing_one_by_one() -> None:
    g = np.random.default_rng(1)
    for rho in (-0.7, 0.1, 0.9):
        c = g.uniform(-1, 1, size=(400, 2))
        region = pair(rho)
        c = c[region.possible(c)]
        assert (region.accepts_each(c) | ~region.accepts(c)).all()


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.3, 0.9])
def test_the_safe_standard_of_two_attributes_is_tau_times_one_less_the_correlation_by_two(rho: float) -> None:
    assert pair(rho, 0.4).safe_limit() == pytest.approx(0.4 * (1 - abs(rho)) / 2)


def test_the_safe_standard_is_the_largest_whose_box_lies_in_the_ellipsoid() -> None:
    loads = np.random.default_rng(2).normal(size=(4, 6))
    region = ReleaseRegion(loads @ loads.T, 0.3)
    sd, limit = np.sqrt(np.diag(region.S_xx)), region.safe_limit()
    box = np.random.default_rng(3).uniform(-1, 1, size=(20_000, 4)) * sd * np.sqrt(limit)
    inverse = np.linalg.inv(region.S_xx)
    assert (np.einsum("ij,jk,ik->i", box, inverse, box) <= 0.3).all()
    corners = np.array(list(itertools.product((-1, 1), repeat=4))) * sd * np.sqrt(limit)
    assert np.einsum("ij,jk,ik->i", corners, inverse, corners).max() == pytest.approx(0.3)


def test_the_axes_end_where_what_is_explained_is_tau() -> None:
    loads = np.random.default_rng(4).normal(size=(3, 5))
    region = ReleaseRegion(loads @ loads.T, 0.7)
    lengths, directions = region.half_axes()
    for end in lengths[:, None] * directions:
        assert end @ np.linalg.inv(region.S_xx) @ end == pytest.approx(0.7)
    assert region.volume() == pytest.approx(4 / 3 * np.pi * np.prod(lengths))


def test_the_areas_are_those_of_counting_a_grid() -> None:
    region = pair(0.6)
    side = np.linspace(-1, 1, 401)
    grid = np.array(list(itertools.product(side, side)))
    grid = grid[region.possible(grid)]
    cell = (side[1] - side[0]) ** 2
    inverse = np.linalg.inv(region.S_xx)
    inside = np.einsum("ij,jk,ik->i", grid, inverse, grid) < 0.5
    assert region.volume() == pytest.approx(inside.sum() * cell, rel=0.01)
    assert region.box_volume(0.25) == pytest.approx(1.0)


def test_the_picture_holds_the_outlines_and_the_cases_in_correlations() -> None:
    region = ReleaseRegion([[4.0, 1.2], [1.2, 1.0]], 0.5)  # standard deviations 2 and 1, correlation 0.6
    picture = region.picture({"joint": (0.8, -0.4), "strict": (1.24, 0.45)}, limits=0.25, names=("rent", "age"))
    points = picture.points.set_index("case")
    assert points["value"].tolist() == pytest.approx([0.8, by_hand(0.62, 0.45, 0.6)])
    assert points["together"].tolist() == [False, True]
    assert points["one_by_one"].tolist() == [True, False]
    assert points[["x", "y"]].to_numpy().ravel().tolist() == pytest.approx([0.4, -0.4, 0.62, 0.45])
    ring = picture.outline[picture.outline["region"] == "together"][["x", "y"]].to_numpy()
    assert [by_hand(x, y, 0.6) for x, y in ring] == pytest.approx([0.5] * len(ring))
    box = picture.outline[picture.outline["region"] == "one by one"][["x", "y"]].to_numpy()
    assert np.abs(box).max() == pytest.approx(0.5)
    drawn = json.dumps(picture.chart().to_dict())
    assert "correlation of the target with rent" in drawn
    assert "joint: 0.80" in drawn


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ReleaseRegion(np.eye(2), -0.1), "threshold tau"),
        (lambda: ReleaseRegion([[1.0, 2.0], [2.0, 1.0]], 0.5), "not positive semi-definite"),
        (lambda: pair(0.0).explained([0.1]), "2 attributes"),
        (lambda: pair(0.0).explained([0.9, 0.0, 0.0]), "2 attributes"),
        (lambda: pair(0.0).accepts_each([0.1, 0.1], limits=[0.1]), "limits must be"),
        (lambda: pair(0.0).accepts_each([0.1, 0.1], limits=-1), "none of them negative"),
        (lambda: ReleaseRegion(np.ones((2, 2)), 0.5).safe_limit(), "linearly dependent"),
        (lambda: ReleaseRegion(np.eye(20), 0.5).safe_limit(), "at most 16"),
        (lambda: ReleaseRegion(np.eye(3), 0.5).picture({"a": (0, 0, 0)}), "two attributes"),
        (lambda: ReleaseRegion(np.ones((2, 2)), 0.5).picture({"a": (0, 0)}), "say the same"),
        (lambda: ReleaseRegion(np.ones((2, 2)), 0.5).explained([0.5, 0.4]), "does not vary"),
        (lambda: pair(0.0).picture({}), "at least one case"),
        (lambda: pair(0.0).accepts_each([np.nan, 0.1]), "missing or infinite"),
        (lambda: pair(0.0).accepts(["a", "b"]), "must be numbers"),
    ],
)
def test_what_makes_no_region_is_refused(call: object, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        call()  # type: ignore[operator]


def test_only_covariances_that_some_target_has_are_possible() -> None:
    """If X₁ = X₂, every target has the same covariance with both; a target has none with what does not vary."""
    same, still = ReleaseRegion(np.ones((2, 2)), 0.5), ReleaseRegion(np.diag([1.0, 0.0]), 0.5)
    assert same.possible([[0.5, 0.5], [0.5, -0.5], [1.1, 1.1]]).tolist() == [True, False, False]
    assert still.possible([[0.5, 0.0], [0.5, 0.1]]).tolist() == [True, False]
    assert pair(0.0).possible([[0.7, 0.7], [0.8, 0.8]]).tolist() == [True, False]
