"""MDAV and V-MDAV give the groups of their definitions: against slow twins, brute force, algebra and a paper's example."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from grouping import microdata
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.kd_tree import centre, farthest, nearest, plant, remove
from sfumato.kernels.microaggregation import mdav, v_mdav
from sfumato.masks import MDAV, VMDAV

Matrix = np.ndarray[Any, Any]


# The definitions, the slow and obvious way


def squared(x: Matrix, q: Matrix) -> Matrix:
    """Squared distances of the rows from q, summed column by column, as the definition's ties are told apart."""
    total = np.zeros(len(x))
    for j in range(x.shape[1]):
        total += (x[:, j] - q[j]) ** 2
    return total


def exact_mean(x: Matrix) -> Matrix:
    return np.array([math.fsum(column) for column in x.T]) / len(x)


def twin_mdav(x: Matrix, k: int) -> Matrix:
    """MDAV by scanning everything; argmax and stable sorts give ties to the lower record."""
    labels = np.full(len(x), -1)
    free = np.arange(len(x))

    def far(q: Matrix) -> int:
        return int(free[np.argmax(squared(x[free], q))])

    def group(r: int) -> None:
        nonlocal free
        others = free[free != r]
        chosen = others[np.argsort(squared(x[others], x[r]), kind="stable")[: k - 1]]
        labels[[r, *chosen]] = labels.max() + 1
        free = free[labels[free] < 0]

    while len(free) >= 3 * k:
        r = far(exact_mean(x[free]))
        group(r)
        group(far(x[r]))
    if len(free) >= 2 * k:
        group(far(exact_mean(x[free])))
    labels[free] = labels.max() + 1
    return labels


def brute_mdav(x: Matrix, k: int) -> list[set[int]]:
    """MDAV once more, sharing nothing with the twin: sets, SciPy's distances, NumPy's mean."""
    between = cdist(x, x)
    free, groups = set(range(len(x))), []
    while len(free) >= 3 * k:
        rows = sorted(free)
        r = rows[int(np.argmax(cdist(x[rows], x[rows].mean(axis=0)[None])))]
        for turn in range(2):
            if turn:
                r = max(free, key=lambda i: between[r, i])
            chosen = set(sorted(free - {r}, key=lambda i: between[r, i])[: k - 1]) | {r}
            groups.append(chosen)
            free -= chosen
    if len(free) >= 2 * k:
        rows = sorted(free)
        r = rows[int(np.argmax(cdist(x[rows], x[rows].mean(axis=0)[None])))]
        groups.append(set(sorted(free - {r}, key=lambda i: between[r, i])[: k - 1]) | {r})
        free -= groups[-1]
    return [*groups, free]


def twin_v_mdav(x: Matrix, k: int, gamma: float) -> Matrix:
    """V-MDAV from the table of all distances."""
    between = np.array([squared(x, row) for row in x])
    from_mean = squared(x, exact_mean(x))
    labels, groups = np.full(len(x), -1), 0
    while (labels < 0).sum() >= k:
        free = np.flatnonzero(labels < 0)
        r = free[np.argmax(from_mean[free])]
        others = free[free != r]
        labels[[r, *others[np.argsort(between[r, others], kind="stable")[: k - 1]]]] = groups
        while (labels == groups).sum() < 2 * k - 1 and (labels < 0).sum() > 1:
            free = np.flatnonzero(labels < 0)
            to_group = between[np.ix_(labels == groups, free)].min(axis=0)
            e = free[np.argmin(to_group)]
            if not to_group.min() < gamma * gamma * between[e, free[free != e]].min():
                break
            labels[e] = groups
        groups += 1
    means = np.array([sum(x[labels == g], np.zeros(x.shape[1])) / (labels == g).sum() for g in range(groups)])
    for i in np.flatnonzero(labels < 0):
        labels[i] = np.argmin(squared(means, x[i]))
    return labels


def data_of(seed: int, n: int, p: int, kind: str) -> Matrix:
    g = np.random.default_rng(seed)
    if kind == "normal":
        return g.normal(size=(n, p)) @ g.normal(size=(p, p))
    if kind == "whole numbers":  # many ties, many records alike
        return g.integers(0, 4, (n, p)).astype(float)
    if kind == "mostly zero":
        return np.where(g.random((n, p)) < 0.8, 0.0, g.lognormal(size=(n, p)))
    if kind == "far off":  # a mean far from zero: sums must not lose digits
        return 1e6 + g.normal(size=(n, p))
    x = g.integers(0, 6, (n, p)).astype(float)
    return np.asarray((x - x.mean(axis=0)) / np.maximum(x.std(axis=0, ddof=1), 1e-9))


KINDS = ("normal", "whole numbers", "mostly zero", "far off", "standardised whole numbers")


# MDAV


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "p", "k"), [(700, 6, 3), (500, 2, 10), (301, 1, 4), (640, 13, 5), (400, 3, 2)])
def test_mdav_makes_the_groups_of_the_definition_in_its_order(kind: str, n: int, p: int, k: int) -> None:
    x = data_of(n + p, n, p, kind)
    np.testing.assert_array_equal(mdav(x, k), twin_mdav(x, k))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.integers(2, 7), st.sampled_from(KINDS))
def test_mdav_equals_its_slow_twin_on_small_files_with_every_remainder(
    seed: int, n: int, p: int, k: int, kind: str
) -> None:
    x = data_of(seed, max(n, k), p, kind)
    np.testing.assert_array_equal(mdav(x, k), twin_mdav(x, k))


@pytest.mark.parametrize("seed", range(5))
def test_mdav_equals_brute_force_on_data_without_ties(seed: int) -> None:
    x = np.random.default_rng(seed).lognormal(size=(200 + seed, 4))
    labels = mdav(x, 3)
    assert [set(np.flatnonzero(labels == g).tolist()) for g in range(labels.max() + 1)] == brute_mdav(x, 3)


def test_mdav_on_a_line_by_hand() -> None:
    # mean 22.25: 100 is farthest, with 50; then 0 with 1 is farthest from 100; of the four left two are farthest from 6.5
    assert mdav(np.array([[0.0], [1], [4], [6], [7], [9], [50], [100]]), 2).tolist() == [1, 1, 2, 2, 3, 3, 0, 0]


@pytest.mark.parametrize(
    ("n", "sizes"), [(9, [3, 3, 3]), (10, [3, 3, 4]), (8, [3, 5]), (6, [3, 3]), (5, [5]), (3, [3])]
)
def test_every_group_has_k_records_but_the_last_which_may_have_up_to_two_k_less_one(n: int, sizes: list[int]) -> None:
    assert np.bincount(mdav(np.random.default_rng(n).normal(size=(n, 2)), 3)).tolist() == sizes


def test_records_that_are_all_alike_are_grouped_by_record_number() -> None:
    # the lowest is the farthest of all, each time, and the next two its nearest
    np.testing.assert_array_equal(mdav(np.full((3000, 3), 0.1), 3), np.arange(3000) // 3)


# The tree


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_loses_points_still_finds_what_a_scan_finds(kind: str) -> None:
    x = data_of(7, 900, 3, kind)
    g = np.random.default_rng(8)
    tree = plant(x, np.arange(900), np.empty(900, np.int64), x.mean(axis=0))
    free, found, distance = np.arange(900), np.empty(5, np.int64), np.empty(5)
    while len(free):
        q = x[g.integers(0, 900)] if g.random() < 0.5 else x.mean(axis=0) + g.normal(size=3)
        d = squared(x[free], q)
        order = np.argsort(d, kind="stable")[:5]
        have = nearest(tree, q, 5, found, distance)
        assert have == min(5, len(free))
        assert sorted(zip(distance[:have], found[:have], strict=True)) == list(zip(d[order], free[order], strict=True))
        assert farthest(tree, q) == free[np.argmax(d)]
        if g.random() < 0.1:
            centre(tree, x[free].mean(axis=0))
        gone = g.choice(free, min(4, len(free)), replace=False)
        for record in gone:
            remove(tree, record)
        free = np.setdiff1d(free, gone)
    assert nearest(tree, x[0], 5, found, distance) == 0
    assert farthest(tree, x[0]) == -1


# V-MDAV


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0, 0.2, 1.1, 3])
@pytest.mark.parametrize(("n", "p", "k"), [(400, 4, 3), (301, 2, 8), (200, 1, 2)])
def test_v_mdav_makes_the_groups_of_the_definition(kind: str, gamma: float, n: int, p: int, k: int) -> None:
    x = data_of(n + p, n, p, kind)
    labels = v_mdav(x, k, gamma)
    np.testing.assert_array_equal(labels, twin_v_mdav(x, k, gamma))
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert (sizes[sizes > 2 * k - 1] - (2 * k - 1)).sum() < k  # only what was left over makes a group larger


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 3), st.integers(2, 6), st.sampled_from(KINDS))
def test_v_mdav_equals_its_slow_twin_on_small_files(seed: int, n: int, p: int, k: int, kind: str) -> None:
    x = data_of(seed, max(n, k), p, kind)
    np.testing.assert_array_equal(v_mdav(x, k, 0.9), twin_v_mdav(x, k, 0.9))


def test_nine_records_in_two_clusters_are_two_groups_in_v_mdav_and_three_in_mdav() -> None:
    # Zhang and Zheng (2018), Research on V-MDAV algorithm based on grey relational analysis, example 1, figures 1 and 2
    x = np.array(
        [
            *[(2.4, 3), (1.68, 4.9), (3.18, 5.54), (5.32, 3.6)],
            *[(18.68, 11.49), (20.14, 9.56), (19.85, 10.33), (21.28, 10.9), (23, 11.5)],
        ]
    )
    assert v_mdav(x, 3, 1.1).tolist() in ([0] * 4 + [1] * 5, [1] * 4 + [0] * 5)
    made = mdav(x, 3)
    assert np.bincount(made).tolist() == [3, 3, 3]
    assert len(set(made[:4].tolist()) & set(made[4:].tolist())) == 1  # one group straddles the clusters


# The masks


def standardised(x: Matrix) -> Matrix:
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0, ddof=1))


def released(mask: Any, data: Microdata) -> Matrix:
    made = mask.apply(data, Draws(1)).masked
    return np.column_stack([made.numbers(n) for n in ("a", "b")])


def means_of(x: Matrix, labels: Matrix) -> Matrix:
    return np.array([x[labels == g].mean(axis=0) for g in labels])


@pytest.mark.parametrize("mask", [MDAV(k=4), VMDAV(k=4, gamma=0.9)])
def test_a_mask_releases_the_mean_of_each_group_of_standardised_columns(mask: Any) -> None:
    x = np.random.default_rng(1).lognormal(size=(150, 2)) * [1.0, 1000.0]
    z = standardised(x)
    labels = twin_mdav(z, 4) if mask.name == "mdav" else twin_v_mdav(z, 4, 0.9)
    new = released(mask, microdata({"a": x[:, 0], "b": x[:, 1]}))
    np.testing.assert_allclose(new, means_of(x, labels), rtol=1e-9)
    np.testing.assert_allclose(new.mean(axis=0), x.mean(axis=0), rtol=1e-12)


def test_units_do_not_matter() -> None:
    x = np.random.default_rng(2).normal(size=(90, 2))
    one = released(MDAV(), microdata({"a": x[:, 0], "b": x[:, 1]}))
    other = released(MDAV(), microdata({"a": x[:, 0], "b": x[:, 1] * 1e6}))
    np.testing.assert_allclose(other, one * [1, 1e6], rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter_where_nothing_ties() -> None:
    x = np.random.default_rng(3).normal(size=(120, 2))
    order = np.random.default_rng(4).permutation(120)
    one = released(MDAV(k=5), microdata({"a": x[:, 0], "b": x[:, 1]}))
    other = released(MDAV(k=5), microdata({"a": x[order, 0], "b": x[order, 1]}))
    np.testing.assert_allclose(other, one[order], rtol=1e-12)


def test_each_stratum_is_grouped_as_a_file_of_its_own_on_the_scale_of_the_whole() -> None:
    g = np.random.default_rng(5)
    x, region = g.lognormal(size=(400, 2)), g.integers(0, 30, 400)
    region[np.isin(region, np.flatnonzero(np.bincount(region, minlength=30) < 3))] = 99
    data = microdata({"a": x[:, 0], "b": x[:, 1], "region": region}, region={"role": "key"})
    new, z = released(MDAV(columns=("a", "b"), within=("region",)), data), standardised(x)
    for r in np.unique(region):
        at = region == r
        np.testing.assert_allclose(new[at], means_of(x[at], twin_mdav(z[at], 3)), rtol=1e-9)


def test_groups_do_not_cross_missing_answers() -> None:
    x = np.random.default_rng(6).normal(size=(200, 2))
    x[::5, 1] = np.nan
    new = released(MDAV(), microdata({"a": x[:, 0], "b": x[:, 1]}))
    gap = np.isnan(x[:, 1])
    np.testing.assert_array_equal(np.isnan(new[:, 1]), gap)
    assert not np.isnan(new[:, 0]).any()
    assert not set(new[gap, 0].tolist()) & set(new[~gap, 0].tolist())
    z = (x[:, :1] - x[:, 0].mean()) / x[:, 0].std(ddof=1)
    np.testing.assert_allclose(new[gap, :1], means_of(x[gap, :1], twin_mdav(z[gap], 3)), rtol=1e-9)


def test_the_release_says_that_every_combination_is_shared_by_at_least_k() -> None:
    x = np.random.default_rng(7).normal(size=(100, 2))
    made = MDAV(k=7).apply(microdata({"a": x[:, 0], "b": x[:, 1]}), Draws(1))
    assert "at least 7 records" in made.guarantees[-1].says
    _, counts = np.unique(np.column_stack([made.masked.numbers(n) for n in "ab"]), axis=0, return_counts=True)
    assert counts.min() == 7


def test_more_records_to_a_group_lose_more() -> None:
    x = np.random.default_rng(8).normal(size=(600, 2))
    data = microdata({"a": x[:, 0], "b": x[:, 1]})
    lost = [((released(MDAV(k=k), data) - x) ** 2).sum() for k in (2, 5, 20, 100, 600)]
    assert lost == sorted(lost)
    assert lost[-1] == pytest.approx(((x - x.mean(axis=0)) ** 2).sum())


@pytest.mark.parametrize("cls", [MDAV, VMDAV])
def test_a_k_that_cannot_be_kept_is_refused_in_a_sentence(cls: Any) -> None:
    data = microdata({"a": [1.0, 2, 3], "b": [3.0, 1, 2]})
    with pytest.raises(DataError, match="k = 4 is more than the number of records"):
        cls(k=4).apply(data, Draws(1))
    with pytest.raises(ParameterError, match=r"k of v?mdav must be a whole number of at least 2"):
        cls(k=1)


def test_a_negative_gamma_is_refused() -> None:
    with pytest.raises(ParameterError, match="gamma of vmdav must be a number of at least 0"):
        VMDAV(gamma=-0.1)
