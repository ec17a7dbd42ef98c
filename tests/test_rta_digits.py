"""Whole units that add up, and attackers with a grid: rounding and raising to zero lower no protection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rta_tables import firms, table_of
from scipy.optimize import minimize
from scipy.stats import norm

from sfumato.errors import ParameterError
from sfumato.tables.rta.digits import not_below_zero, published_decimals, round_up, rounded, rounded_to, values_of


@given(st.floats(1e-9, 1e12), st.integers(2, 6))
def test_variances_are_rounded_up_and_by_little(variance: float, digits: int) -> None:
    up = float(round_up(np.array([variance]), digits)[0])
    assert variance * (1 - 1e-12) <= up <= variance * (1 + 1.0001 * 10.0 ** (1 - digits))
    assert float(f"{up:.{digits - 1}e}") == up or abs(up / variance - 1) < 1e-15


def test_what_a_computer_leaves_behind_the_last_digit_is_not_published() -> None:
    """3 + 12e-14 is 3 with rounding errors of sums in it; one digit more would differ with the order of the rows."""
    assert round_up(np.array([3.00000000000012, 75.00000000000001, 0.1 + 0.2])).tolist() == [3.0, 75.0, 0.3]
    assert round_up(np.array([75.0001])).tolist() == [75.01]


def test_the_papers_77_is_rounded_up() -> None:
    assert round_up(np.array([40**2 / 3 + 30**2 / 4 - (40**2 + 30**2 + 15**2) / 4]), 2)[0] == 78
    assert round_up(np.array([77.0, 0.0, 1200.0]), 2).tolist() == [77, 0, 1200]


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12), st.integers(0, 3), st.integers(-2, 3), st.integers(-5, 5)
)
def test_rounded_leaves_have_exactly_the_sums_that_are_given(
    leaves: list[float], groups: int, decimals: int, off: int
) -> None:
    y = np.array(leaves)
    group = np.arange(len(y)) % (groups + 1)
    count = group.max() + 1
    sums = np.bincount(group, rounded(y, decimals), count).astype(np.int64) + off
    made = rounded_to(y, decimals, group, sums)
    assert np.array_equal(np.bincount(group, made, count), sums)
    assert np.abs(made - rounded(y, decimals)).max() <= abs(off)  # nobody moves further than needed


@settings(deadline=None)
@given(st.lists(st.floats(0, 40), min_size=1, max_size=8), st.integers(0, 60))
def test_rounded_leaves_of_a_given_sum_do_not_fall_below_zero(leaves: list[float], total: int) -> None:
    made = rounded_to(np.array(leaves), 0, np.zeros(len(leaves), np.int64), np.array([total]), nonnegative=True)
    assert made.sum() == total
    assert (made >= 0).all()


def test_units_are_numbers_again() -> None:
    assert values_of(rounded(np.array([0.1, 0.2, 0.3]), 1), 1).tolist() == [0.1, 0.2, 0.3]
    assert values_of(rounded(np.array([1234.0]), -2), -2).tolist() == [1200]
    with pytest.raises(ParameterError, match="too long to add up"):
        rounded(np.array([1e12]), 6)


def test_decimals_are_those_of_the_data_unless_asked() -> None:
    table = table_of(firms())
    assert published_decimals(table) == 1
    assert published_decimals(table.with_(decimals=3)) == 3
    assert published_decimals(table.with_(integer=True)) == 0
    assert published_decimals(table.with_(integer=True, decimals=2)) == 0
    assert published_decimals(table.with_(integer=True), -2) == -2
    with pytest.raises(ParameterError, match="'turnover' is a whole number"):
        published_decimals(table.with_(integer=True), 2)
    assert published_decimals(table, -1) == -1
    assert published_decimals(table.with_(totals=table.totals / 3)) == 6
    assert published_decimals(table.with_(totals=np.full(table.cells.leaves, 3e-9))) == 12  # 0.000000003000


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(-50, 100), st.floats(0.1, 50)), min_size=2, max_size=6))
def test_leaves_not_below_zero_are_the_nearest_with_the_same_total(pairs: list[tuple[float, float]]) -> None:
    y, w = (np.array(part) for part in zip(*pairs, strict=True))
    x = not_below_zero(y, w)
    assert (x >= 0).all()
    if (y >= 0).all():
        assert np.array_equal(x, y)
        return
    if y.sum() <= 0:
        assert (x == 0).all()
        return
    assert x.sum() == pytest.approx(y.sum(), abs=1e-8)
    total = {"type": "eq", "fun": lambda z: z.sum() - y.sum()}
    twin = minimize(
        lambda z: ((z - y) ** 2 / w).sum(),
        np.full(len(y), y.sum() / len(y)),
        bounds=[(0, None)] * len(y),
        constraints=total,
    )
    assert ((x - y) ** 2 / w).sum() <= twin.fun * (1 + 1e-4) + 1e-6


def test_leaves_that_cancel_to_the_last_bit_become_zero() -> None:
    y = np.array([1e9, -1e9, 1e-9])
    assert y.sum() > 0
    assert not_below_zero(y, np.ones(3)).tolist() == [0, 0, 0]


def test_leaves_without_noise_stay() -> None:
    assert not_below_zero(np.array([-4.0, 6.0, 3.0]), np.array([1.0, 1.0, 0.0])).tolist() == [0, 2, 3]


# -- attackers with a grid

GRID = np.linspace(-40, 60, 8001)


def grid_variance(prior: np.ndarray, likelihood: np.ndarray) -> float:
    p = prior * likelihood
    p = p / p.sum()
    mean = (p * GRID).sum()
    return float((p * (GRID - mean) ** 2).sum())


@pytest.mark.parametrize("step", [0.01, 1.0, 5.0, 12.0])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_an_attacker_with_a_grid_is_left_the_promised_variance_whatever_is_published(
    step: float, nonnegative: bool
) -> None:
    """d ~ N(8, 16), others' sum ~ N(5, 3) and noise ~ N(0, ω): all values that can be published, one by one."""
    v, others, w2 = 16.0, 3.0, 9.0
    omega = v**2 / (v - w2) - v - others  # what leaves exactly w² (RTA paper, 3.2)
    assert omega > 0
    sd, prior = np.sqrt(omega + others), norm.pdf(GRID, 8, 4)
    units = np.arange(np.floor(-20 / step), np.ceil(45 / step))
    least = np.inf
    for x in units if len(units) < 200 else units[::67]:
        low, high = (x - 0.5) * step, (x + 0.5) * step
        if nonnegative and x < 0:
            continue
        if nonnegative and x == 0:
            low = -np.inf
        likelihood = norm.cdf(high, GRID + 5, sd) - norm.cdf(low, GRID + 5, sd)
        if likelihood.max() > 1e-9:
            least = min(least, grid_variance(prior, likelihood))
    assert least >= w2 * (1 - 1e-3)
    assert least == pytest.approx(w2, rel=0.02) if step < 0.1 else least > w2


def test_who_knows_that_no_contribution_is_below_zero_learns_more_only_near_zero() -> None:
    v, w2 = 16.0, 9.0 / 4
    sd = np.sqrt(v * w2 / (v - w2))
    prior = np.where(GRID >= 0, norm.pdf(GRID, 8, 4), 0.0)
    away = [
        grid_variance(prior, norm.pdf(y, GRID, sd)) for y in np.arange(4.5, 20, 0.5)
    ]  # three promised sds from zero
    assert min(away) > 0.97 * w2
    assert grid_variance(prior, norm.cdf(0.0, GRID, sd)) < w2  # a published zero says that it is small: see the page


def test_what_is_left_near_zero_is_what_the_page_says() -> None:
    """ε = 0.5, η = 0.15, one contributor of size 20: shares of the promised standard deviation of 3."""
    v, w2 = 100.0, 9.0
    sd = np.sqrt(v * w2 / (v - w2))
    prior = np.where(GRID >= 0, norm.pdf(GRID, 20, 10), 0.0)
    assert np.sqrt(grid_variance(prior, norm.cdf(0.0, GRID, sd)) / w2) == pytest.approx(0.64, abs=0.005)
    assert np.sqrt(grid_variance(prior, norm.pdf(5.0, GRID, sd)) / w2) == pytest.approx(0.95, abs=0.005)
    assert np.sqrt(grid_variance(prior, norm.pdf(10.0, GRID, sd)) / w2) == pytest.approx(1, abs=0.005)


def test_an_attacker_who_simulates_everything_that_is_done_is_left_the_promised_variance() -> None:
    """Two leaves with a contributor each, d ~ N(6, 16): contributions given what came out, over 40,000 runs of the method."""
    g = np.random.default_rng(5)
    v, w2 = 16.0, 9.0
    omega = np.full(2, v * w2 / (v - w2))
    d = g.normal(6, np.sqrt(v), (40_000, 2))
    y = d + g.normal(0, np.sqrt(omega[0]), d.shape)
    x = np.array([rounded(not_below_zero(row, omega), -1) for row in y])  # to tens, so that outcomes repeat
    outcomes, which, count = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    assert (outcomes >= 0).all()
    often = np.flatnonzero(count > 400)
    assert len(often) >= 6
    for o in often:
        left = d[which.ravel() == o].var(axis=0)
        assert (left >= w2 * (1 - 4.5 * np.sqrt(2 / count[o]))).all()
