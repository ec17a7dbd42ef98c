"""Interval disclosure: three sorts of intervals against their definitions and closed forms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from small_files import amounts

from sfumato import Draws, Release
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.kernels.moments import determinant_scatter, robust_location_scatter
from sfumato.masks import RandomOrder, RankSwap, Sample, TopCode
from sfumato.risk import IntervalDisclosure


def pair(x: Any, y: Any) -> Release:
    """A release from matrices (n, p)."""
    files = [amounts(**{f"v{j}": column for j, column in enumerate(np.asarray(m, float).T)}) for m in (x, y)]
    return Release.of(*files, "rows")


def slow_inside(x: Any, y: Any, kind: str, width: float) -> Any:
    """The definitions, value by value, without gaps."""
    n, p = x.shape
    inside = np.zeros((n, p), bool)
    centre, scatter = robust_location_scatter(x) if kind == "robust" else (None, None)
    for i in range(n):
        for j in range(p):
            if kind == "sd":
                mean = sum(y[:, j]) / n
                sd = math.sqrt(sum((v - mean) ** 2 for v in y[:, j]) / (n - 1))
                inside[i, j] = abs(x[i, j] - y[i, j]) <= width * sd
            elif kind == "rank":
                ordered = sorted(y[:, j])
                first = sum(v < y[i, j] for v in ordered)
                last = sum(v <= y[i, j] for v in ordered) - 1
                steps = int(width * n + 1e-9)
                inside[i, j] = ordered[max(first - steps, 0)] <= x[i, j] <= ordered[min(last + steps, n - 1)]
            else:
                d = x[i] - centre
                distance = math.sqrt(d @ np.linalg.inv(scatter) @ d)
                inside[i, j] = abs(x[i, j] - y[i, j]) <= width * distance * math.sqrt(scatter[j, j])
    return inside


@given(
    st.integers(0, 10_000), st.integers(12, 25), st.integers(1, 3), st.sampled_from(["sd", "rank", "robust"]),
    st.sampled_from([0.03, 0.1, 0.4]), st.sampled_from(["all", "any", "each"]), st.sampled_from([0, 1, 3]),
)  # fmt: skip
def test_the_share_is_that_of_the_definition(
    seed: int, n: int, p: int, kind: Any, width: float, within: Any, crowd: int
) -> None:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, p)).round(2) * 10.0 ** g.integers(-2, 4, p)
    y = x + g.normal(size=(n, p)) * 0.1 * x.std(axis=0)
    inside = slow_inside(x, y, kind, width)
    if crowd:
        unit = np.sqrt(np.diag(robust_location_scatter(x)[1])) if kind == "robust" else y.std(axis=0, ddof=1)
        for i in range(n):
            others = sum(k != i and math.dist(y[i] / unit, y[k] / unit) <= 0.3 for k in range(n))
            inside[i] &= others < crowd
    expected = {"all": inside.all(axis=1), "any": inside.any(axis=1), "each": inside}[within].mean()
    measure = IntervalDisclosure(kind=kind, width=width, within=within, crowd=crowd, near=0.3)
    score = measure.score(pair(x, y))
    assert score.value == pytest.approx(expected)
    assert score.records is not None
    assert score.records.mean() == pytest.approx(expected)
    for j in range(p):
        assert score.details[f"v{j}: share inside"] == pytest.approx(inside[:, j].mean())


def test_noise_of_a_known_variance_leaves_the_share_that_the_normal_distribution_says() -> None:
    g = np.random.default_rng(1)
    n, ratio, width = 100_000, 0.3, 0.2
    x = g.normal(5, 3, n)
    y = x + g.normal(0, 3 * math.sqrt(ratio), n)
    score = IntervalDisclosure(width=width).score(pair(x[:, None], y[:, None]))
    # |N(0, λ²σ²)| <= width · σ √(1 + λ²)
    expected = 2 * norm.cdf(width * math.sqrt(1 + ratio) / math.sqrt(ratio)) - 1
    assert score.value == pytest.approx(expected, abs=0.005)
    assert score.interval is not None
    assert score.interval[0] < expected < score.interval[1]


def test_a_rank_swap_stays_within_its_own_window_and_nothing_moves_in_a_file_as_it_is() -> None:
    g = np.random.default_rng(2)
    data = amounts(x=g.normal(size=500).round(2), y=g.gamma(2, 3, 500).round(1))
    swapped = RankSwap(p=0.05).apply(data, Draws(1))
    assert IntervalDisclosure(kind="rank", width=0.05).score(swapped).value == 1
    assert IntervalDisclosure(kind="rank", width=0.002).score(swapped).value < 0.3
    for kind in ("sd", "rank", "robust"):
        assert IntervalDisclosure(kind=kind, width=1e-6).score(Release.of(data, data, "rows")).value == 1


def test_units_do_not_matter() -> None:
    g = np.random.default_rng(3)
    x = g.normal(size=(200, 3))
    y = x + 0.1 * g.normal(size=x.shape)
    for kind in ("sd", "rank", "robust"):
        values = {
            IntervalDisclosure(kind=kind, crowd=1).score(pair(x * u, y * u)).value for u in (1.0, 2.0**40, 2.0**900)
        }
        assert len(values) == 1


def test_who_lies_far_out_is_recognised_from_afar() -> None:
    """Templ and Meindl (2008): the same change that hides a record in the middle does not hide an outlier."""
    g = np.random.default_rng(4)
    x = g.normal(size=(1000, 2))
    x[:20] += 15
    y = x + 0.3
    score = IntervalDisclosure(kind="robust", width=0.05).score(pair(x, y))
    assert score.records is not None
    assert score.records[:20].min() == 1
    assert score.records[20:].mean() < 0.01
    assert IntervalDisclosure(kind="sd", width=0.05).score(pair(x, y)).value in (0, 1)  # one width for all


# -- the robust Mahalanobis distance disclosure of sdcMicro, with the minimum covariance determinant


def slow_determinant_scatter(x: Any) -> Any:
    """The estimator with every half of the records tried; small files only."""
    n, p = x.shape
    size = (n + p + 1) // 2

    def scaled(half: Any) -> Any:
        share = len(half) / n
        within = chi2.cdf(chi2.ppf(share, p), p + 2)
        return half.mean(axis=0), np.cov(half.T).reshape(p, p) * (share / within if share < 1 else 1)

    halves = [x[list(rows)] for rows in itertools.combinations(range(n), size)]
    centre, scatter = scaled(min(halves, key=lambda half: np.linalg.det(np.cov(half.T).reshape(p, p))))
    near = [(row - centre) @ np.linalg.inv(scatter) @ (row - centre) <= chi2.ppf(0.975, p) for row in x]
    return scaled(x[near])[1]


def small_file(seed: int, p: int) -> Any:
    g = np.random.default_rng(seed)
    x = g.normal(size=(11, p)) @ (np.eye(p) + 0.7 * np.eye(p, k=1))
    x[: seed % 3] += 9  # none, one or two wild records
    return x


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_scatter_of_the_smallest_determinant_is_that_of_trying_every_half(p: int) -> None:
    for seed in range(20):
        x = small_file(seed, p)
        np.testing.assert_allclose(determinant_scatter(x)[1], slow_determinant_scatter(x))


def test_wild_records_do_not_move_the_centre_and_normal_ones_have_their_covariance() -> None:
    g = np.random.default_rng(5)
    covariance = np.array([[4, 1, 0.5], [1, 2, -0.3], [0.5, -0.3, 1]])
    x = g.multivariate_normal([1, 2, 3], covariance, 20_000)
    # five standard errors of 20,000 records; the estimator is a little less precise than the covariance itself
    np.testing.assert_allclose(determinant_scatter(x)[1], covariance, atol=5 * 4 * math.sqrt(2 / 20_000))
    x[:8_000] = g.normal(60, 1, (8_000, 3))
    np.testing.assert_allclose(determinant_scatter(x)[0], [1, 2, 3], atol=0.1)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 4, 5])
def test_robust_mahalanobis_disclosure_is_the_definition_of_sdcmicro(seed: int, p: int) -> None:
    x = small_file(seed, p)
    g = np.random.default_rng(99 + seed)
    # a shift and a scale of whole columns go unnoticed: each file is standardised by itself
    y = 7 + 3 * (x + g.normal(0, 0.05, x.shape) * x.std(axis=0))
    before, after = ((m - m.mean(axis=0)) / m.std(axis=0, ddof=1) for m in (x, y))
    inverse = np.linalg.inv(determinant_scatter(before)[1])
    half = [0.4 * 0.05 * math.sqrt(row @ inverse @ row) for row in before]  # k = 0.4, the mean is 0
    unsafe = np.abs(before - after) < np.array(half)[:, None]
    nearest = [min(math.dist(after[i], after[k]) for k in range(11) if k != i) for i in range(11)]
    first = IntervalDisclosure(kind="rmd", width=0.4, within="any").score(pair(x, y))
    assert first.records is not None
    assert first.records.tolist() == unsafe.any(axis=1).astype(float).tolist()  # RMDID1
    assert 0 < unsafe.mean() < 1
    second = IntervalDisclosure(kind="rmd", width=0.4, within="any", crowd=1, near=0.4).score(pair(x, y))
    assert second.records is not None
    assert second.records.tolist() == [
        float(u.any() and d > 0.4) for u, d in zip(unsafe, nearest, strict=True)
    ]  # RMDID2


def test_records_in_a_plane_have_no_robust_mahalanobis_distance() -> None:
    x = np.random.default_rng(3).normal(size=(30, 2))
    x[:, 1] = 2 * x[:, 0]
    with pytest.raises(NotApplicable, match="half of the records lie in a plane"):
        IntervalDisclosure(kind="rmd").score(pair(x, x + 0.1))


def test_a_record_in_a_crowd_is_safe() -> None:
    x = np.array([[0.0], [0.01], [0.02], [5.0], [9.0]])
    everybody = IntervalDisclosure(width=0.5).score(pair(x, x))
    alone = IntervalDisclosure(width=0.5, crowd=2, near=0.05).score(pair(x, x))
    assert everybody.value == 1
    assert alone.records.tolist() == [0, 0, 0, 1, 1]  # type: ignore[union-attr]
    assert alone.variant == "within 0.5 standard deviations; all columns; fewer than 2 others within 0.05"
    # two simulated records beside the fourth
    more = amounts(v0=[*x[:, 0], 5.01, 5.02])
    decoys = Release.of(amounts(v0=x[:, 0]), more, [0, 1, 2, 3, 4, -1, -1])
    assert IntervalDisclosure(width=0.5, crowd=2, near=0.05).score(decoys).records.tolist() == [0, 0, 0, 0, 1]  # type: ignore[union-attr]


def test_missing_values_are_not_compared() -> None:
    x = [[1.0, 1.0], [2.0, np.nan], [np.nan, np.nan], [4.0, 9.0]]
    y = [[1.0, 5.0], [2.0, 3.0], [3.0, 3.0], [4.0, np.nan]]
    score = IntervalDisclosure(width=0.1).score(pair(x, y))
    np.testing.assert_array_equal(score.records, [0, 1, np.nan, 1])  # type: ignore[arg-type]
    assert score.value == pytest.approx(2 / 3)
    each = IntervalDisclosure(width=0.1, within="each").score(pair(x, y))
    assert (each.value, each.details["compared"]) == (3 / 4, 4)
    assert each.words == "3 of 4 values are released within the interval around the true ones"


def test_records_that_are_not_released_have_no_interval() -> None:
    data = amounts(x=np.arange(100.0))
    part = Sample(fraction=0.3).apply(data, Draws(1))
    score = IntervalDisclosure().score(part)
    assert score.details["compared"] == len(part.masked)
    assert score.records is not None
    assert np.isnan(score.records).sum() == 100 - len(part.masked)


def test_simulated_records_are_part_of_the_released_column() -> None:
    """10 records moved by 0.4, and two decoys: the released column's standard deviation is that of all twelve."""
    data, released = amounts(x=np.arange(10.0)), amounts(x=[*np.arange(10.0) + 0.4, 1000.0, -1000.0])
    decoys = Release.of(data, released, [*range(10), -1, -1])
    sd = np.std([*np.arange(10.0) + 0.4, 1000.0, -1000.0], ddof=1)
    assert IntervalDisclosure(width=0.41 / sd).score(decoys).value == 1
    assert IntervalDisclosure(width=0.39 / sd).score(decoys).value == 0
    # the first true value, 0, lies between the decoy below and 0.4: one rank; a window of 1/12 is one rank
    assert IntervalDisclosure(kind="rank", width=0.09).score(decoys).value == 1
    without = Release.of(data, amounts(x=np.arange(10.0) + 0.4), "rows")
    assert IntervalDisclosure(kind="rank", width=0.1).score(without).records.tolist() == [0] + [1] * 9  # type: ignore[union-attr]
    wild = Release.of(data, amounts(x=[*np.arange(10.0), np.inf]), [*range(10), -1])
    with pytest.raises(SfumatoError, match="infinite"):
        IntervalDisclosure().score(wild)


def test_each_record_has_its_place_whatever_the_order_of_the_files() -> None:
    g = np.random.default_rng(3)
    data = amounts(x=g.normal(size=50))
    shuffled = RandomOrder().apply(data, Draws(1)).masked
    near = data.numbers("x") > 0  # these keep their value
    for original in (data, shuffled):
        after = RandomOrder().apply(original, Draws(2)).masked
        ids = after.batch([]).ids
        moved = amounts(x=np.where(near[ids], data.numbers("x")[ids], 99.0))
        where = {int(i): row for row, i in enumerate(original.batch([]).ids)}
        outcome = Release.of(original, moved, [where[int(i)] for i in ids])
        score = IntervalDisclosure(width=1e-9).score(outcome)
        assert score.records.tolist() == near.astype(float).tolist()  # type: ignore[union-attr]


def test_one_record_is_spoken_of_in_the_singular() -> None:
    one = amounts(x=[1.0])
    for kind in ("sd", "rank", "robust"):
        words = IntervalDisclosure(kind=kind).score(Release.of(one, one, "rows")).words  # type: ignore[arg-type]
        assert words == "1 of 1 record is released within the interval around the true one"


def test_top_coded_values_leave_their_interval() -> None:
    data = amounts(x=np.arange(1000.0))
    coded = TopCode(quantile=0.9).apply(data, Draws(1))
    score = IntervalDisclosure(width=1e-9).score(coded)
    assert score.value == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("data", "measure", "sentence"),
    [
        (amounts({"x": {"role": "key"}}, x=[1.0, 2.0]), IntervalDisclosure(), "no confidential column of numbers"),
        (amounts(x=["a", "b"]), IntervalDisclosure(over=("x",)), "where numbers are needed"),
        (amounts(x=[1.0, 2.0]), IntervalDisclosure(over=("y",)), "'y' is not in the data"),
        (amounts(x=[None, None], y=[None, 1.0]), IntervalDisclosure(over=("y",), kind="robust"), None),
        (amounts(x=[np.nan, np.nan]), IntervalDisclosure(), "no record has both"),
        (amounts(x=[1.0, np.inf]), IntervalDisclosure(), "infinite"),
        (
            amounts(x=[1.0, np.nan], y=[np.nan, 2.0]),
            IntervalDisclosure(kind="robust"),
            "no record has all of the columns",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(data: Microdata, measure: Any, sentence: str | None) -> None:
    outcome = Release.of(data, data, "rows")
    if sentence is None:
        assert measure.score(outcome).value == 1
        return
    with pytest.raises(SfumatoError, match=sentence):
        measure.score(outcome)
