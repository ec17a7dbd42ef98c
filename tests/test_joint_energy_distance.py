"""The energy distance of several columns together: against all pairs of records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import cdist
from small_files import amounts

from sfumato import Draws
from sfumato.contract import Release
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import Recode
from sfumato.utility import EnergyDistance, JointEnergyDistance

Numbers = NDArray[np.float64]
W = {"w": {"role": "weight"}}


def file(points: Numbers, weights: Numbers | None = None) -> Microdata:
    columns = {f"x{j}": points[:, j] for j in range(points.shape[1])}
    return amounts(W, **columns) if weights is None else amounts(W, **columns, w=weights)


def all_pairs(x: Numbers, y: Numbers, u: Numbers | None = None, v: Numbers | None = None) -> float:
    """Return D from the distances of all pairs of records."""
    u = np.ones(len(x)) if u is None else u
    v = np.ones(len(y)) if v is None else v
    mean = np.average(x, axis=0, weights=u)
    sd = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=u) * len(x) / (len(x) - 1))
    x, y, u, v = x / sd, y / sd, u / u.sum(), v / v.sum()
    square = 2 * u @ cdist(x, y) @ v - u @ cdist(x, x) @ u - v @ cdist(y, y) @ v
    return math.sqrt(max(square, 0.0))


def two_files(k: int, n: int = 150, m: int = 110) -> tuple[Numbers, Numbers]:
    g = np.random.default_rng(k)
    mixing = g.normal(size=(k, k))
    return g.normal(size=(n, k)) @ mixing, g.normal(size=(m, k)) @ mixing * 1.2 + 0.4


@pytest.mark.parametrize("k", [2, 3, 7])
def test_many_directions_approach_the_distance_of_all_pairs(k: int) -> None:
    x, y = two_files(k)
    score = JointEnergyDistance(directions=600 * k).score(Release.of(file(x), file(y)))
    exact = all_pairs(x, y)
    assert 1 - score.value == pytest.approx(exact, rel=0.02)
    assert score.interval is not None
    low, high = score.interval
    assert low < 1 - exact < high


def test_weighted_records_count_by_their_weights() -> None:
    x, y = two_files(3)
    g = np.random.default_rng(1)
    u, v = g.uniform(0.2, 5, len(x)), g.uniform(0.2, 5, len(y))
    score = JointEnergyDistance(directions=1800, weighted=True).score(Release.of(file(x, u), file(y, v)))
    assert 1 - score.value == pytest.approx(all_pairs(x, y, u, v), rel=0.02)
    assert score.variant == "weighted"


def test_the_interval_covers_the_exact_distance_about_as_often_as_it_says() -> None:
    x, y = two_files(4, 60, 50)
    exact, release = 1 - all_pairs(x, y), Release.of(file(x), file(y))
    covered = 0
    for seed in range(200):
        interval = JointEnergyDistance(seed=seed).score(release).interval
        assert interval is not None
        covered += interval[0] <= exact <= interval[1]
    assert covered >= 180  # of 190 expected; 3.2 standard deviations


def test_the_mean_square_over_seeds_is_unbiased() -> None:
    x, y = two_files(3, 40, 40)
    release = Release.of(file(x), file(y))
    squares = [(1 - JointEnergyDistance(directions=1, seed=s).score(release).value) ** 2 for s in range(200)]
    assert abs(np.mean(squares) - all_pairs(x, y) ** 2) < 4 * np.std(squares) / math.sqrt(200)


def test_one_column_is_exact_and_needs_no_directions() -> None:
    x, y = two_files(1)
    release = Release.of(file(x), file(y))
    score = JointEnergyDistance().score(release)
    assert score.interval is None
    assert score.value == pytest.approx(EnergyDistance().score(release).value)
    sd = x.std(ddof=1)
    assert 1 - score.value == pytest.approx(stats.energy_distance(x[:, 0] / sd, y[:, 0] / sd))


def test_relations_between_columns_are_noticed_where_each_column_is_kept() -> None:
    g = np.random.default_rng(3)
    x = g.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 2000)
    y = np.column_stack([x[:, 0], g.permutation(x[:, 1])])
    release = Release.of(file(x), file(y))
    assert EnergyDistance().score(release).value == 1
    assert 1 - JointEnergyDistance().score(release).value > 0.1


def test_an_unchanged_file_keeps_all_in_any_order_and_the_same_seed_says_the_same() -> None:
    x, y = two_files(4)
    order = np.random.default_rng(1).permutation(len(x))
    score = JointEnergyDistance().score(Release.of(file(x), file(x[order])))
    assert score.value == pytest.approx(1, abs=1e-7)
    assert JointEnergyDistance().score(Release.of(file(x), file(x))).value == 1
    release = Release.of(file(x), file(y))
    assert JointEnergyDistance(seed=4).score(release) == JointEnergyDistance(seed=4).score(release)
    assert JointEnergyDistance(seed=4).score(release).value != JointEnergyDistance(seed=5).score(release).value


def test_incomplete_records_are_left_out_and_losing_records_loses() -> None:
    x, _ = two_files(3)
    gaps = x.copy()
    gaps[::2, 1] = np.nan
    both = np.vstack([x, x])
    half = both.copy()
    half[: len(x), 0] = np.nan
    assert JointEnergyDistance().score(Release.of(file(both), file(half))).value == pytest.approx(0.5, abs=1e-7)
    was = JointEnergyDistance().score(Release.of(file(gaps), file(x)))
    complete = JointEnergyDistance().score(Release.of(file(x[1::2]), file(x)))
    assert was.details["share of complete records in the original"] == 0.5
    assert was.value == pytest.approx(complete.value, abs=0.05)  # the unit is that of each column's own values


def test_a_column_that_was_not_released_loses_all() -> None:
    x, _ = two_files(3)
    data = file(x)
    assert JointEnergyDistance().score(Release.of(data, data.local(["x0", "x1"]))).value == 0
    assert JointEnergyDistance().score(Release.of(data, data.take(np.array([], int)))).value == 0
    assert JointEnergyDistance(("x0", "x1")).score(Release.of(data, data.local(["x0", "x1"]))).value == 1


def test_intervals_are_spread_evenly_and_labels_that_say_nothing_lose_all() -> None:
    g = np.random.default_rng(6)
    data = amounts({"x": {"bounds": (0, 4)}}, x=g.uniform(0, 4, 4000), y=g.normal(size=4000))
    fine, coarse = (Recode({"x": cuts}).apply(data, Draws(1)) for cuts in ([0, 1, 2, 3], [0]))
    # x is even, and nothing relates it to y: so little is lost, as between two samples of 4,000
    assert 1 - JointEnergyDistance().score(fine).value < 0.03
    assert 1 - JointEnergyDistance().score(coarse).value < 0.05
    related = amounts({"x": {"bounds": (0, 4)}}, x=data.numbers("x"), y=data.numbers("x"))
    lost = Recode({"x": [0]}).apply(related, Draws(1))
    y = np.column_stack([g.permutation(data.numbers("x")), data.numbers("x")])
    expected = JointEnergyDistance().score(Release.of(related, amounts(x=y[:, 0], y=y[:, 1]))).value
    assert JointEnergyDistance().score(lost).value == pytest.approx(expected, abs=0.01)
    words = amounts({"x": {"scale": "unordered"}}, x=["low", "high", "low"], y=[1.0, 2.0, 5.0])
    numbers = amounts(x=[1.0, 2.0, 4.0], y=[1.0, 2.0, 5.0])
    assert JointEnergyDistance().score(Release.of(numbers, words)).value == 0


def test_the_mean_of_the_implicates_is_taken() -> None:
    x, y = two_files(2)
    one = JointEnergyDistance().score(Release.of(file(x), file(y))).value
    both = JointEnergyDistance().score(Release(file(x), (file(x), file(y)), aligned=False))
    assert both.value == pytest.approx((1 + one) / 2)
    assert both.interval is not None
    assert both.interval[0] <= both.value <= both.interval[1]


def test_what_cannot_be_compared_is_refused_in_a_sentence() -> None:
    def refused(data: Microdata, sentence: str, released: Microdata | None = None, **facts: Any) -> None:
        with pytest.raises((DataError, NotApplicable), match=sentence):
            JointEnergyDistance(**facts).score(Release.of(data, released or data))

    x, _ = two_files(2)
    refused(file(x[:0]), "no records")
    refused(amounts(x=[1.0, 1.0], y=[2.0, 2.0]), "nothing varies")
    constant = amounts(x=[1.0, 1.0, 1.0], y=[1.0, 2.0, 5.0])
    refused(constant, "x: nothing varies", over=("x", "y"))
    assert JointEnergyDistance().score(Release.of(constant, constant)).value == 1
    apart = amounts(x=[1.0, 2.0, np.nan, np.nan], y=[np.nan, np.nan, 3.0, 4.0])
    refused(apart, "no record of the original has a value in each of x, y")
    refused(amounts(x=pa.array([1.0, np.inf, 3.0]), y=[1.0, 2.0, 3.0]), "infinite")
    refused(file(x), "survey weights", weighted=True)
    with pytest.raises(ParameterError, match="directions"):
        JointEnergyDistance(directions=0)


@pytest.mark.parametrize("huge", [1e200, 1e308])
def test_released_values_too_large_for_a_number_are_refused(huge: float) -> None:
    before = amounts(x=[1e-9, 2e-9, 3e-9], y=[1.0, 5.0, 2.0])
    with pytest.raises(DataError, match="x, y: some released values are too large to compare"):
        JointEnergyDistance().score(Release.of(before, amounts(x=[1.0, -huge, huge], y=[1.0, 5.0, 2.0])))
