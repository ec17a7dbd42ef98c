"""Each microaggregation against its definition: brute force, slow twins, algebra, scikit-learn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from grouping import microdata, released, same_groups
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.microaggregation import (
    _by_halving,
    _step_by_step,
    _walk_back,
    k_means,
    merge_small,
    optimal_groups,
)
from sfumato.kernels.moments import principal_axes, robust_location_scatter, whitened
from sfumato.masks import (
    ClusterMicroaggregation,
    GowerMicroaggregation,
    IndividualRanking,
    OptimalUnivariate,
    ProjectionMicroaggregation,
    RobustMicroaggregation,
)

Matrix = np.ndarray[Any, Any]


# Individual ranking


def test_individual_ranking_averages_three_at_a_time_in_each_column() -> None:
    data = microdata({"a": [9.0, 1, 5, 2, 8, 3, 7], "b": [0.0, 10, 20, 30, 40, 50, 90]})
    assert released(IndividualRanking(), data, "a") == [8, 2.75, 2.75, 2.75, 8, 2.75, 8]
    assert released(IndividualRanking(), data, "b") == [15, 15, 15, 15, 60, 60, 60]


@pytest.mark.parametrize("k", [4, 7, 10])
def test_no_end_is_a_better_place_for_the_larger_group_of_skewed_values_than_the_middle(k: int) -> None:
    x = np.sort(np.random.default_rng(7).lognormal(0, 2, 10 * k * (k + 1) + k - 1))  # k - 1 values are left over

    def loss(sizes: list[int]) -> float:
        return float(sum(((part - part.mean()) ** 2).sum() for part in np.split(x, np.cumsum(sizes)[:-1])))

    sizes = [k] * (len(x) // k - 1)
    ends = loss([2 * k - 1, *sizes]), loss([*sizes, 2 * k - 1])
    made = np.array(released(IndividualRanking(k=k), microdata({"a": x}), "a"))
    assert ((x - made) ** 2).sum() <= 1.001 * ends[0]
    assert ((x - made) ** 2).sum() < 0.9 * ends[1]


def test_equal_values_are_ranked_in_the_order_of_the_records() -> None:
    data = microdata({"a": [5.0, 5, 5, 5, 1, 9]})  # 1, 5, 5 | 5, 5, 9: the first two fives go with the one
    assert released(IndividualRanking(aggregate="mean"), data, "a") == pytest.approx(
        [11 / 3] * 2 + [19 / 3] * 2 + [11 / 3, 19 / 3]
    )
    assert released(IndividualRanking(), data.reorder(lambda ids: -ids.astype(float)), "a") == pytest.approx(
        [19 / 3, 11 / 3] + [19 / 3] * 2 + [11 / 3] * 2
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-20, 20).map(float), st.floats(-1e9, 1e9)), min_size=6, max_size=25),
    st.sampled_from([IndividualRanking, OptimalUnivariate]),
    st.sampled_from(["mean", "median", "mode"]),
    st.booleans(),
    st.integers(2, 4),
)
def test_sorted_groups_turn_no_two_records_round(values: Any, method: Any, how: str, integer: bool, k: int) -> None:
    facts = {"integer": integer, "missing": (3, 4), "bounds": (-15, 1e9)}
    data = microdata({"v": np.round(values) if integer else np.array(values)}, v=facts)
    mask = method(k=k, aggregate=how)
    assert mask.preserves_order
    try:
        made = mask.apply(data, Draws(1))
    except DataError:  # too few that are not coded as missing
        return
    before, after = made.pair("v")
    assert not ((before[:, None] < before) & (after[:, None] > after)).any()


def test_order_is_not_promised_when_strata_are_ranked_apart() -> None:
    assert not IndividualRanking(within="area").preserves_order
    assert not OptimalUnivariate(within="area").preserves_order


# Optimal univariate


def loss(x: Any, labels: Any) -> Fraction:
    """Return the exact sum of squares within groups."""
    total = Fraction(0)
    for label in set(np.asarray(labels).tolist()):
        mine = [Fraction(float(v)) for v, own in zip(x, labels, strict=True) if own == label]
        mean = sum(mine) / len(mine)
        total += sum(((v - mean) ** 2 for v in mine), Fraction(0))
    return total


def compositions(n: int, k: int) -> Iterator[list[int]]:
    """Yield every way to cut n into parts of at least k."""
    if n == 0:
        yield []
    for first in range(k, n + 1):
        for rest in compositions(n - first, k):
            yield [first, *rest]


def partitions(n: int, k: int) -> Iterator[list[int]]:
    """Yield every labelling of n records whose groups have at least k, runs or not."""

    def grow(labels: list[int]) -> Iterator[list[int]]:
        if len(labels) == n:
            if min(np.bincount(labels)) >= k:
                yield labels
            return
        for label in range(max(labels, default=-1) + 2):
            yield from grow([*labels, label])

    yield from grow([])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_shortest_path_is_the_best_of_all_ways_to_cut_the_sorted_values(data: st.DataObject) -> None:
    k = data.draw(st.integers(2, 4))
    values = st.one_of(
        st.integers(0, 9).map(float), st.floats(-1e3, 1e3), st.floats(0, 1).map(lambda v: 1e4 / (v + 1e-3))
    )
    x = np.sort(data.draw(st.lists(values, min_size=k, max_size=12)))
    labels = optimal_groups(x, k)
    assert (np.diff(labels) >= 0).all()
    assert k <= np.bincount(labels).min() <= np.bincount(labels).max() <= 2 * k - 1
    best = min(loss(x, np.repeat(np.arange(len(cut)), cut)) for cut in compositions(len(x), k))
    assert float(loss(x, labels) - best) <= 1e-12 * float(best) + 1e-14 * float((x**2).max())


@pytest.mark.parametrize("k", [2, 3, 5, 17, 64])
def test_halving_finds_a_path_as_short_as_step_by_step(k: int) -> None:
    g = np.random.default_rng(k)
    for n in (k, 2 * k - 1, 2 * k, 3 * k - 1, 3 * k, 5 * k + 1, 400):
        for x in (g.normal(size=n), g.pareto(0.7, n), g.integers(0, 6, n).astype(float), np.zeros(n)):
            x = np.sort(x)
            slow, fast = (_walk_back(method(x, k)) for method in (_step_by_step, _by_halving))
            assert k <= np.bincount(fast).min() <= np.bincount(fast).max() <= 2 * k - 1
            one, two = loss(x, slow), loss(x, fast)
            assert abs(float(one - two)) <= 1e-12 * float(one) + 1e-20


def test_no_partition_at_all_is_better_than_the_shortest_path() -> None:
    g = np.random.default_rng(11)
    for n, k in [(4, 2), (6, 2), (7, 3), (8, 2), (8, 3), (8, 4)]:
        x = np.sort(g.gamma(0.5, 3, n))
        best = min(loss(x, labels) for labels in partitions(n, k))
        assert float(loss(x, optimal_groups(x, k))) == pytest.approx(float(best), rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_optimum_never_loses_more_than_individual_ranking(k: int) -> None:
    g = np.random.default_rng(12)
    for x in (
        g.normal(size=500),
        g.gamma(0.3, 1, 500),
        g.integers(0, 40, 500).astype(float),
        np.repeat([1.0, 5.0], 250),
    ):
        data = microdata({"v": x})
        losses = [
            ((np.array(released(m(k=k), data, "v")) - x) ** 2).sum() for m in (OptimalUnivariate, IndividualRanking)
        ]
        assert losses[0] <= losses[1] + 1e-9


def test_a_gap_is_not_bridged_where_it_need_not_be() -> None:
    data = microdata({"v": [1.0, 2, 3, 100, 101, 102, 103]})
    assert released(OptimalUnivariate(), data, "v") == [2] * 3 + [101.5] * 4
    assert released(IndividualRanking(), data, "v") == [26.5] * 4 + [102] * 3


def test_small_groups_are_cut_right_beside_a_giant_and_far_from_zero() -> None:
    x = 1e9 + np.array([0, 1, 2, 10, 11, 12, 13, 30, 31, 1e12])  # running sums of squares would drown these
    assert optimal_groups(x, 2).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert optimal_groups(x[:-1], 2).tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


# Projection


def test_records_are_taken_along_the_first_principal_component() -> None:
    from sklearn.decomposition import PCA

    g = np.random.default_rng(13)
    x = g.normal(size=(60, 3)) @ np.array([[2.0, 1, 0.5], [0, 1, 0.3], [0, 0, 0.5]])
    data = microdata({f"v{j}": x[:, j] for j in range(3)})
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    order = np.argsort(PCA(1).fit_transform(z)[:, 0])
    made = np.array(released(ProjectionMicroaggregation(k=5), data, "v1"))
    for run in np.split(order, 12):
        np.testing.assert_allclose(made[run], x[run, 1].mean())


def test_records_are_taken_along_the_sum_of_z_scores_or_a_column() -> None:
    a, b = np.array([1.0, 2, 3, 4]), np.array([40.0, 0, 50, 10])
    data = microdata({"a": a, "b": b})
    z = sum((v - v.mean()) / v.std() for v in (a, b))
    low, high = np.split(np.argsort(z), 2)
    made = np.array(released(ProjectionMicroaggregation(k=2, by="zscores"), data, "a"))
    np.testing.assert_allclose(made[low], a[low].mean())
    np.testing.assert_allclose(made[high], a[high].mean())
    assert released(ProjectionMicroaggregation(k=2, by="a"), data, "b") == [20, 20, 30, 30]
    assert released(ProjectionMicroaggregation(k=2, by="b"), data, "a") == [2, 3, 2, 3]
    assert released(ProjectionMicroaggregation(k=2, by="b"), data, "b") == [45, 5, 45, 5]


def test_a_column_to_sort_by_that_is_not_masked_is_refused() -> None:
    with pytest.raises(ParameterError, match="by 'c' is not in what records can be sorted by"):
        ProjectionMicroaggregation(columns=("a", "b"), by="c")
    with pytest.raises(ParameterError, match="Did you mean 'salary'"):
        ProjectionMicroaggregation(by="salry").apply(microdata({"salary": [1.0, 2, 3]}), Draws(1))
    with pytest.raises(ParameterError, match="must be 'pca', 'zscores' or the name of a masked column"):
        ProjectionMicroaggregation(by=3)  # type: ignore[arg-type]


def test_where_the_column_to_sort_by_is_missing_the_component_decides() -> None:
    a = np.array([1.0, 2, 3, 4, np.nan, np.nan, np.nan, np.nan])
    data = microdata({"a": a, "b": np.array([4.0, 3, 2, 1, 9, 1, 8, 2])})
    assert released(ProjectionMicroaggregation(k=2, by="a"), data, "b")[4:] == [8.5, 1.5, 8.5, 1.5]


def test_the_direction_of_an_axis_is_fixed() -> None:
    g = np.random.default_rng(14)
    s = np.cov(g.normal(size=(50, 4)).T)
    values, axes = principal_axes(s)
    np.testing.assert_allclose(axes @ np.diag(values) @ axes.T, s, atol=1e-12)
    assert (np.diff(values) <= 0).all()
    assert all(axis[np.abs(axis).argmax()] > 0 for axis in axes.T)
    assert (
        principal_axes(np.array([[1.0, -0.5], [-0.5, 1.0]]))[1][0, 0] > 0
    )  # two largest entries: the first is positive


# Robust

SIGMA = np.array([[4.0, 1.5, 0.5], [1.5, 2.0, 0.3], [0.5, 0.3, 1.0]])


def test_robust_scatter_estimates_the_covariance_of_normal_records() -> None:
    x = np.random.default_rng(15).multivariate_normal([1, 2, 3], SIGMA, 100_000)
    centre, scatter = robust_location_scatter(x)
    np.testing.assert_allclose(centre, [1, 2, 3], atol=0.03)
    np.testing.assert_allclose(scatter, SIGMA, atol=0.05)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("where", [10.0, 1e3, 1e8])
def test_a_minority_of_wild_records_cannot_carry_the_scatter_away(share: float, where: float) -> None:
    g = np.random.default_rng(16)
    x = g.multivariate_normal([0, 0, 0], SIGMA, 4_000)
    bad = int(share * len(x))
    x[:bad] = where + g.normal(size=(bad, 3))
    centre, scatter = robust_location_scatter(x)
    eigenvalues = np.linalg.eigvalsh(np.linalg.solve(SIGMA, scatter))
    assert np.abs(centre).max() < 2
    assert 0.2 < eigenvalues.min() < eigenvalues.max() < 6  # the sample covariance would be above 0.05 * where**2


def test_robust_scatter_is_near_that_of_the_minimum_covariance_determinant() -> None:
    from sklearn.covariance import MinCovDet

    g = np.random.default_rng(17)
    x = g.multivariate_normal([0, 0, 0], SIGMA, 3_000)
    x[:300] += [20, -20, 20]
    oracle = MinCovDet(random_state=0).fit(x)
    centre, scatter = robust_location_scatter(x)
    np.testing.assert_allclose(centre, oracle.location_, atol=0.15)
    np.testing.assert_allclose(scatter, oracle.covariance_, atol=0.4)


def test_robust_scatter_moves_and_scales_with_the_columns() -> None:
    x = np.random.default_rng(18).gamma(2, 1, (400, 3))
    centre, scatter = robust_location_scatter(x)
    scale, shift = np.array([1e-6, 1.0, 1e7]), np.array([5.0, -3.0, 0.0])
    centre_2, scatter_2 = robust_location_scatter(x * scale + shift)
    np.testing.assert_allclose(centre_2, centre * scale + shift, rtol=1e-8)
    np.testing.assert_allclose(scatter_2, scatter * np.outer(scale, scale), rtol=1e-7)


def test_constant_columns_and_exact_sums_leave_a_singular_scatter_of_the_right_rank() -> None:
    g = np.random.default_rng(19)
    a, b = g.normal(size=(2, 500))
    x = np.column_stack([a, b, a + b, np.full(500, 0.1)])
    centre, scatter = robust_location_scatter(x)
    z = whitened(x, centre, scatter)
    assert z.shape == (500, 2)
    expected = np.einsum("ij,jk,ik->i", x - centre, np.linalg.pinv(scatter, rcond=1e-9), x - centre)
    np.testing.assert_allclose((z**2).sum(axis=1), expected, rtol=1e-6)


def test_records_off_a_plane_that_most_lie_in_still_stand_out() -> None:
    g = np.random.default_rng(20)
    a, b = g.normal(size=(2, 300))
    x = np.column_stack([a, b, a + b])
    x[:6, 2] += 5
    z = whitened(x, *robust_location_scatter(x))
    assert set(np.argsort(-(z**2).sum(axis=1))[:6].tolist()) == set(range(6))


def test_a_column_that_is_mostly_one_value_is_scaled_by_its_standard_deviation() -> None:
    x = np.zeros((100, 1))
    x[:20, 0] = np.arange(20)
    assert robust_location_scatter(x)[1][0, 0] == pytest.approx(x.var(), rel=0.6)
    assert whitened(x, *robust_location_scatter(x)).shape == (100, 1)


def slow_mdav(x: Matrix, k: int) -> list[int]:
    """MDAV by its definition, on points of a Euclidean space."""
    rest, labels, group = list(range(len(x))), [-1] * len(x), 0

    def take(around: int) -> None:
        nonlocal group
        nearest = sorted(rest, key=lambda i: (((x[i] - x[around]) ** 2).sum(), i))[:k]
        for i in nearest:
            labels[i] = group
            rest.remove(i)
        group += 1

    while len(rest) >= 3 * k:
        centre = x[rest].mean(axis=0)
        r = max(rest, key=lambda i: ((x[i] - centre) ** 2).sum())
        far = {i: ((x[i] - x[r]) ** 2).sum() for i in rest}
        take(r)
        take(max(rest, key=lambda i: far[i]))
    if len(rest) >= 2 * k:
        centre = x[rest].mean(axis=0)
        take(max(rest, key=lambda i: ((x[i] - centre) ** 2).sum()))
    for i in rest:
        labels[i] = group
    return labels


@pytest.mark.parametrize("k", [2, 3, 7])
def test_robust_groups_are_those_of_mdav_in_robust_mahalanobis_distance(k: int) -> None:
    g = np.random.default_rng(21)
    x = g.multivariate_normal([0, 0, 0], SIGMA, 90)
    x[:5] *= 50
    data = microdata({f"v{j}": x[:, j] for j in range(3)})
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    _, scatter = robust_location_scatter(z)
    root = np.linalg.cholesky(np.linalg.inv(scatter))  # any root of the inverse gives the same distances
    made = np.array(released(RobustMicroaggregation(k=k), data, "v0"))
    labels = np.array(slow_mdav(z @ root, k))
    for label in set(labels.tolist()):
        np.testing.assert_allclose(made[labels == label], x[labels == label, 0].mean())


def test_one_giant_does_not_make_its_column_count_for_nothing() -> None:
    g = np.random.default_rng(22)
    x = g.normal(size=(300, 2))
    x[0, 0] = 1e6
    data = microdata({"a": x[:, 0], "b": x[:, 1]})
    a = np.array(released(RobustMicroaggregation(k=3), data, "a"))
    plain = np.array(slow_mdav((x - x.mean(axis=0)) / x.std(axis=0), 3))
    means = np.array([x[plain == label, 0].mean() for label in plain])
    calm = (np.abs(a) < 100) & (np.abs(means) < 100)
    assert ((a - x[:, 0])[calm] ** 2).sum() < 0.2 * ((means - x[:, 0])[calm] ** 2).sum()


def test_robust_projection_sorts_along_the_first_robust_axis() -> None:
    g = np.random.default_rng(23)
    x = g.normal(size=(80, 2)) @ np.array([[3.0, 1.0], [0.0, 0.5]])
    data = microdata({"a": x[:, 0], "b": x[:, 1]})
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    _, vectors = np.linalg.eigh(robust_location_scatter(z)[1])
    order = np.argsort(z @ vectors[:, -1])
    made = np.array(released(RobustMicroaggregation(k=4, grouping="projection"), data, "a"))
    for run in np.split(order, 20):
        np.testing.assert_allclose(made[run], x[run, 0].mean())


def test_columns_that_nobody_answered_together_have_no_scatter() -> None:
    i = np.arange(20)
    data = microdata({"a": np.where(i % 2, np.nan, i), "b": np.where(i % 2, i, np.nan)})
    with pytest.raises(DataError, match="only 0 records have all of a, b"):
        RobustMicroaggregation().apply(data, Draws(1))


# Clusters


def slow_k_means(x: Matrix, count: int, rounds: int) -> Matrix:
    centred = x - x.mean(axis=0)
    axis = principal_axes(centred.T @ centred)[1][:, 0]
    labels = np.empty(len(x), int)
    labels[np.argsort(centred @ axis, kind="stable")] = np.arange(len(x)) * count // len(x)
    centre = np.zeros((count, x.shape[1]))
    for _ in range(rounds):
        for c in set(labels.tolist()):
            centre[c] = x[labels == c].mean(axis=0)
        labels = ((x[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    return labels


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_k_means_follows_lloyd_from_slices_along_the_first_component(count: int) -> None:
    x = np.random.default_rng(24).normal(size=(150, 3))
    np.testing.assert_array_equal(k_means(x, count, rounds=7), slow_k_means(x, count, 7))


def test_clusters_that_lie_apart_are_found() -> None:
    g = np.random.default_rng(25)
    kind = g.integers(0, 3, 300)
    x = np.array([[0.0, 0], [50, 0], [0, 50]])[kind] + g.normal(size=(300, 2))
    assert same_groups(k_means(x, 3), kind)


def test_a_small_cluster_joins_the_one_with_the_nearest_centre() -> None:
    x = np.array([0.0, 1, 2, 10, 11, 30, 31, 32, 33])[:, None]
    labels = merge_small(x, np.array([0, 0, 0, 1, 1, 2, 2, 2, 2]), 3)
    assert labels.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert merge_small(x, np.arange(9), 9).tolist() == [0] * 9
    assert merge_small(x, np.array([5, 5, 5, 5, 5, 7, 7, 7, 7]), 3).tolist() == [0] * 5 + [1] * 4


def test_small_clusters_that_join_small_clusters_go_on_until_none_is_small() -> None:
    g = np.random.default_rng(26)
    for _ in range(30):
        x, labels = g.normal(size=(40, 2)), g.integers(0, 25, 40)
        merged = merge_small(x, labels, 4)
        assert np.bincount(merged).min() >= 4
        assert all(len(set(merged[labels == c].tolist())) == 1 for c in set(labels.tolist()))


@pytest.mark.parametrize("grouping", ["mdav", "projection"])
def test_groups_stay_within_their_cluster(grouping: Any) -> None:
    g = np.random.default_rng(27)
    kind = np.repeat([0, 1, 2], [41, 20, 29])
    x = np.array([0.0, 1e3, 2e3])[kind] + g.normal(size=90)
    data = microdata({"a": x, "b": np.array([0.0, 1e3, 0.0])[kind] + g.normal(size=90)})
    made = np.array(released(ClusterMicroaggregation(k=3, clusters=3, grouping=grouping), data, "a"))
    assert all(made[kind == c].mean() == pytest.approx(x[kind == c].mean()) for c in range(3))
    assert (np.abs(made - x) < 10).all()


def test_one_cluster_is_mdav_and_more_clusters_than_groups_are_cut_down() -> None:
    x = np.random.default_rng(28).normal(size=(40, 2))
    data = microdata({"a": x[:, 0], "b": x[:, 1]})
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    made = released(ClusterMicroaggregation(k=3, clusters=1), data, "a")
    assert same_groups(np.unique(made, return_inverse=True)[1], slow_mdav(z, 3))
    assert (
        min(np.unique(released(ClusterMicroaggregation(k=3, clusters=10_000), data, "a"), return_counts=True)[1]) >= 3
    )


def test_all_methods_agree_on_data_with_one_answer() -> None:
    """Groups far apart, each of exactly k: every sensible method must find them."""
    centre = np.repeat([0.0, 100, 200, 300], 3)
    data = microdata({"a": centre + np.tile([0.0, 1, 2], 4), "b": 2 * centre + np.tile([1.0, 0, 3], 4)})
    for mask in (
        IndividualRanking(),
        OptimalUnivariate(),
        ProjectionMicroaggregation(),
        ProjectionMicroaggregation(by="zscores"),
        ProjectionMicroaggregation(by="b"),
        ClusterMicroaggregation(clusters=4),
        GowerMicroaggregation(),
    ):
        assert released(mask, data, "a") == pytest.approx((centre + 1).tolist()), mask
        assert list(itertools.chain(released(mask, data, "b"))) == pytest.approx((2 * centre + 4 / 3).tolist())
