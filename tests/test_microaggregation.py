"""What every microaggregation shares: strata, gaps, households, what a group is released as, and the promise of k."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouping import microdata
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.contract import Draws
from sfumato.data import Column, LocalEngine, Rows
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.classes import centres, consecutive, consecutive_within
from sfumato.masks import (
    ClusterMicroaggregation,
    GowerMicroaggregation,
    IndividualRanking,
    OptimalUnivariate,
    ProjectionMicroaggregation,
    RobustMicroaggregation,
)
from sfumato.masks.microaggregation import Microaggregation
from sfumato.schema import Attribute, Schema

METHODS = [
    IndividualRanking,
    OptimalUnivariate,
    ProjectionMicroaggregation,
    RobustMicroaggregation,
    ClusterMicroaggregation,
    GowerMicroaggregation,
]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)


def draw(n: int, p: int, seed: int = 0) -> dict[str, Any]:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, p)) @ np.linalg.cholesky(0.5 * np.eye(p) + 0.5).T
    return {f"v{j}": np.round(100 + 10 * x[:, j], 3) for j in range(p)}


def released(mask: Microaggregation, data: Microdata, *names: str) -> np.ndarray[Any, Any]:
    masked = mask.apply(data, Draws(1)).masked
    return np.column_stack([masked.numbers(n) for n in names])


def smallest_group(x: np.ndarray[Any, Any], *strata: Any) -> int:
    """Count by hand: how many rows the rarest row that is not all missing has."""
    seen: dict[Any, int] = {}
    for row in zip(*[c.tolist() for c in x.T], *strata, strict=True):
        key = tuple("gap" if v != v else v for v in row)
        if any(v != "gap" for v in key[: x.shape[1]]):
            seen[key] = seen.get(key, 0) + 1
    return min(seen.values())


# Groups


@every_method
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (5, 3), (17, 3), (59, 10), (60, 10), (61, 60), (120, 61)])
def test_every_combination_is_released_for_at_least_k_records(method: Any, n: int, k: int) -> None:
    data = microdata(draw(max(n, 4), 2)) if method is RobustMicroaggregation else microdata(draw(n, 2))
    out = released(method(k=k), data, "v0", "v1")
    if method in (IndividualRanking, OptimalUnivariate):
        assert min(smallest_group(out[:, [j]]) for j in (0, 1)) >= k
    else:
        assert smallest_group(out) >= k


@every_method
def test_means_of_columns_are_kept_when_groups_are_released_as_means(method: Any) -> None:
    data = microdata(draw(101, 3))
    out = released(method(k=4), data, "v0", "v1", "v2")
    np.testing.assert_allclose(out.mean(axis=0), [data.numbers(n).mean() for n in ("v0", "v1", "v2")], rtol=1e-12)


@every_method
@pytest.mark.parametrize("aggregate", ["mean", "median", "mode"])
def test_a_group_is_released_as_the_mean_median_or_mode_of_its_own_values(method: Any, aggregate: str) -> None:
    g = np.random.default_rng(3)
    values = g.integers(0, 12, 61).astype(float)
    out = released(method(k=5, aggregate=aggregate), microdata({"v": values}), "v")[:, 0]
    groups = method(k=5)
    labels = groups.fit(microdata({"v": values}), Draws(1)).grouped(microdata({"v": values}).batch(), ("v",), Draws(1))[
        3
    ]
    for label in np.unique(labels):
        mine = values[labels == label]
        counts = {v: (mine == v).sum() for v in mine}
        expected = {
            "mean": mine.mean(),
            "median": np.median(mine),
            "mode": min(v for v in counts if counts[v] == max(counts.values())),
        }[aggregate]
        assert out[labels == label] == pytest.approx(expected)


@every_method
def test_groups_do_not_cross_strata(method: Any) -> None:
    g = np.random.default_rng(5)
    area = np.array(["n", "s", None], object)[g.integers(0, 3, 90)]
    sex = g.integers(0, 2, 90)
    data = microdata(
        {**draw(90, 2), "area": pa.array(area.tolist()), "sex": sex},
        area={"role": "key", "scale": "unordered"},
        sex={"role": "key", "scale": "unordered"},
    )
    release = method(columns=("v0", "v1"), k=4, within=("area", "sex")).apply(data, Draws(1))
    out = np.column_stack([release.masked.numbers(n) for n in ("v0", "v1")])
    for a, s in itertools.product(["n", "s", None], [0, 1]):
        inside = (area == a) & (sex == s)
        for j, name in enumerate(("v0", "v1")):  # means within each stratum: nobody came from elsewhere
            assert out[inside, j].mean() == pytest.approx(data.numbers(name)[inside].mean())
    alone = [out] if method not in (IndividualRanking, OptimalUnivariate) else [out[:, [0]], out[:, [1]]]
    assert all(smallest_group(x, area.tolist(), sex.tolist()) >= 4 for x in alone)
    assert "of one stratum (area, sex)" in release.guarantees[-1].says


@every_method
def test_many_thousand_strata_are_aggregated_each_on_its_own(method: Any) -> None:
    n = 200_000 if method is IndividualRanking else 20_000
    g = np.random.default_rng(0)
    columns = {"v": Column.from_numbers(g.normal(size=n)), "area": Column.from_numbers(np.arange(n) % (n // 2))}
    schema = Schema((Attribute("v", "confidential"), Attribute("area", "key", "unordered")))  # type: ignore[arg-type]
    data = Microdata(LocalEngine(Rows(np.arange(n, dtype=np.int64), columns)), schema)
    out = released(method(columns="v", k=2, within="area"), data, "v")[:, 0]
    values = data.numbers("v")
    np.testing.assert_allclose(out[: n // 2], (values[: n // 2] + values[n // 2 :]) / 2, atol=1e-15)
    np.testing.assert_array_equal(out[: n // 2], out[n // 2 :])


# Missing values


def with_gaps(n: int = 80) -> Microdata:
    columns = draw(n, 3)
    i = np.arange(n)
    columns["v0"] = pa.array(columns["v0"], mask=i % 4 == 1)
    columns["v1"] = np.where(i % 5 == 2, np.nan, columns["v1"])
    columns["v2"] = np.where(i % 7 == 3, -1.0, columns["v2"])
    return microdata(columns, v2={"missing": (-1.0,)})


@every_method
def test_groups_never_cross_missing_values_and_these_stay_as_they_are(method: Any) -> None:
    data = with_gaps(420)
    release = method(k=2).apply(data, Draws(1))
    names = ("v0", "v1", "v2")
    before = np.column_stack([data.numbers(n) for n in names])
    after = np.column_stack([release.masked.numbers(n) for n in names])
    np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
    columns = release.masked.batch().rows.columns
    assert columns["v0"].null.sum() == 105  # a null stays a null, a code stays a code
    assert (columns["v2"].numbers == -1.0).sum() == 60
    if method in (IndividualRanking, OptimalUnivariate):
        return  # one column: there is nothing to cross
    for pattern in np.unique(np.isnan(before), axis=0):
        mine = (np.isnan(before) == pattern).all(axis=1)
        np.testing.assert_allclose(after[mine].mean(axis=0), before[mine].mean(axis=0), rtol=1e-12)
    assert smallest_group(after) >= 2


def test_fewer_than_k_records_of_one_pattern_are_refused_or_suppressed() -> None:
    columns = draw(20, 2)
    columns["v1"][:2] = np.nan
    data = microdata(columns)
    with pytest.raises(DataError, match=r"2 records have fewer than k = 3 records .* rare = 'suppress'\.$"):
        ProjectionMicroaggregation().apply(data, Draws(1))
    release = ProjectionMicroaggregation(rare="suppress").apply(data, Draws(1))
    assert np.isnan(release.masked.numbers("v0")).tolist() == [True] * 2 + [False] * 18
    assert [g.says for g in release.guarantees][-1] == "2 values are suppressed (rare = 'suppress')"
    # each column on its own has records enough
    assert not np.isnan(released(IndividualRanking(), data, "v0")).any()


def test_what_is_suppressed_is_counted_over_all_columns_and_strata() -> None:
    columns = {**draw(12, 2), "area": [1] * 5 + [2] * 5 + [3] * 2}
    data = microdata(columns, area={"role": "key"})
    release = ProjectionMicroaggregation(columns=("v0", "v1"), within="area", rare="suppress").apply(data, Draws(1))
    assert "4 values are suppressed" in release.guarantees[-1].says
    assert np.isnan(release.masked.numbers("v1")).sum() == 2


def test_a_mask_that_would_suppress_everything_releases_nothing() -> None:
    data = microdata({**draw(6, 1), "area": [1, 1, 2, 2, 3, 3]}, area={"role": "key"})
    with pytest.raises(DataError, match="6 records have fewer than k = 3 records in their stratum"):
        IndividualRanking(columns="v0", within="area", rare="suppress").apply(data, Draws(1))


@every_method
def test_records_that_answered_nothing_are_left_alone(method: Any) -> None:
    columns = draw(30, 2)
    for name in columns:
        columns[name][7] = np.nan
    out = released(method(), microdata(columns), "v0", "v1")
    assert np.isnan(out).sum() == 2
    assert np.isnan(out[7]).all()


@every_method
def test_a_fitted_mask_takes_no_records_and_records_without_answers(method: Any) -> None:
    fitted = method().fit(microdata(draw(30, 2)), Draws(1))
    nothing = microdata({"v0": np.full(4, np.nan), "v1": np.full(4, np.nan)})
    assert len(fitted.transform(nothing.batch().keep(np.zeros(4, bool)), Draws(1))) == 0
    assert np.isnan(fitted.transform(nothing.batch(), Draws(1)).numbers("v1")).tolist() == [True] * 4


@every_method
def test_k_above_the_number_of_records_is_refused(method: Any) -> None:
    with pytest.raises(DataError, match=r"k = 31 is more than the number of records with a value in 'v0'. Lower k."):
        method(k=31).apply(microdata(draw(30, 2)), Draws(1))


@every_method
def test_a_column_without_values_is_refused(method: Any) -> None:
    columns = {**draw(30, 1), "v1": pa.array([None] * 30, pa.float64())}
    with pytest.raises(DataError, match="column 'v1' has no values at all"):
        method().apply(microdata(columns), Draws(1))


@every_method
@pytest.mark.parametrize("value", [0.0, 0.1, 1e15 / 3, -7.3e-9])
def test_a_constant_column_comes_out_as_it_went_in(method: Any, value: float) -> None:
    data = microdata({**draw(31, 1), "still": np.full(31, value)})
    np.testing.assert_array_equal(released(method(), data, "still")[:, 0], np.full(31, value))


@every_method
def test_strata_that_the_data_do_not_have_are_refused_by_name(method: Any) -> None:
    with pytest.raises(DataError, match=r"column 'arae' is not in the data. Did you mean 'area'"):
        method(columns="v0", within="arae").apply(microdata({**draw(9, 1), "area": [1] * 9}), Draws(1))


@every_method
def test_strata_that_are_aggregated_themselves_are_refused(method: Any) -> None:
    with pytest.raises(ParameterError, match=r"within of .* names columns that are aggregated: v0\."):
        method(columns=("v0", "v1"), within="v0")
    with pytest.raises(ParameterError, match=r"names columns that are aggregated: v1\."):
        method(within="v1").apply(microdata(draw(9, 2)), Draws(1))


@settings(max_examples=40, deadline=None)
@given(st.data())
@every_method
def test_ties_gaps_and_constants_never_leave_a_group_below_k(method: Any, data: st.DataObject) -> None:
    value = st.one_of(st.none(), st.integers(0, 3).map(float))
    rows = data.draw(st.lists(st.tuples(value, value), min_size=1, max_size=40))
    frame = microdata({f"v{j}": pa.array([r[j] for r in rows], pa.float64()) for j in (0, 1)})
    k = data.draw(st.integers(2, 6))
    try:
        release = method(k=k, rare="suppress").apply(frame, Draws(1))
    except DataError as error:
        assert re.search("k = |no values at all|too few to find their scatter", str(error))  # noqa: PT017
        return
    out = np.column_stack([release.masked.numbers(n) for n in ("v0", "v1")])
    alone = [out] if method not in (IndividualRanking, OptimalUnivariate) else [out[:, [0]], out[:, [1]]]
    assert all(smallest_group(x) >= k for x in alone)


def test_a_number_of_records_below_two_is_refused_at_construction() -> None:
    with pytest.raises(ParameterError, match="k of individual_ranking must be a whole number of at least 2"):
        IndividualRanking(k=1)


# Households, whole numbers, bounds, codes


@every_method
def test_household_columns_are_grouped_among_households(method: Any) -> None:
    g = np.random.default_rng(6)
    home = g.permutation(np.repeat(np.arange(20), 3))
    rent = g.gamma(4, 200, 20)[home]
    data = microdata(
        {"home": home, "rent": rent, "pay": g.normal(size=60)},
        home={"role": "household"},
        rent={"level": "household"},
    )
    out = released(method(k=4), data, "rent")[:, 0]
    by_home = {h: set(out[home == h].tolist()) for h in range(20)}
    assert all(len(values) == 1 for values in by_home.values())
    one_each = np.array([by_home[h].pop() for h in range(20)])
    assert min(np.unique(one_each, return_counts=True)[1]) >= 4
    assert one_each.mean() == pytest.approx(np.mean([rent[home == h][0] for h in range(20)]))


def test_households_too_few_for_k_are_refused_though_the_records_would_do() -> None:
    data = microdata(
        {"home": [1, 1, 1, 2, 2, 2], "rent": [5.0] * 3 + [9.0] * 3},
        home={"role": "household"},
        rent={"level": "household"},
    )
    with pytest.raises(DataError, match="2 households have fewer than k = 3 households"):
        IndividualRanking().apply(data, Draws(1))


def test_a_household_has_the_stratum_of_its_member_with_the_lowest_id_in_any_order_of_rows() -> None:
    data = microdata(
        {"home": [1, 1, 2, 2, 3, 3, 4, 4], "rent": [1.0, 1, 2, 2, 30, 30, 40, 40], "sex": list("fmmffmmf")},
        home={"role": "household"},
        rent={"level": "household"},
        sex={"role": "key", "scale": "unordered"},
    )
    mask = IndividualRanking(columns="rent", k=2, within="sex")
    assert released(mask, data, "rent")[:, 0].tolist() == [15.5, 15.5, 21, 21, 15.5, 15.5, 21, 21]
    turned = data.reorder(lambda ids: -ids.astype(np.float64))
    assert released(mask, turned, "rent")[::-1, 0].tolist() == [15.5, 15.5, 21, 21, 15.5, 15.5, 21, 21]


@every_method
def test_whole_numbers_stay_whole_and_shared(method: Any) -> None:
    g = np.random.default_rng(8)
    data = microdata({"hours": g.integers(0, 100, 57)}, hours={"integer": True, "bounds": (0, 168)})
    out = released(method(k=4), data, "hours")
    assert (out == np.round(out)).all()
    assert smallest_group(out) >= 4


def test_a_mean_that_would_read_as_a_code_for_missing_moves_aside_for_the_whole_group() -> None:
    # no code near: the mean itself
    data = microdata({"v": [2, 4, 3, 9, 9, 9]}, v={"integer": True, "missing": (99,)})
    assert released(IndividualRanking(), data, "v")[:, 0].tolist() == [3, 3, 3, 9, 9, 9]
    coded = data.with_schema(Schema((Attribute("v", "confidential", integer=True, missing=(5, 6)),)))  # type: ignore[arg-type]
    frame = Microdata(pa.table({"v": [4, 7, 4, 9, 9, 9]}), coded.schema)
    out = released(IndividualRanking(), frame, "v")[:, 0]
    assert out.tolist() == [7, 7, 7, 9, 9, 9]  # 5 is a code, and so is 6: the next whole number is 7
    top = coded.with_schema(Schema((Attribute("v", "confidential", integer=True, missing=(5, 6), bounds=(0, 6)),)))  # type: ignore[arg-type]
    low = Microdata(pa.table({"v": [4, 7, 4]}), top.schema)
    assert released(IndividualRanking(), low, "v")[:, 0].tolist() == [4, 4, 4]  # no room above: down to 4
    plain = Microdata(pa.table({"v": [4.0, 6.0]}), Schema((Attribute("v", "confidential", missing=(5.0,)),)))  # type: ignore[arg-type]
    (one, two) = released(IndividualRanking(k=2), plain, "v")[:, 0]
    assert one == two == np.nextafter(5.0, 6)


# The promise


class _Careless(Microaggregation, abstract=True):
    """Says that it groups, and leaves the last record alone."""

    def groups(self, x: Any, ids: Any, draws: Draws) -> Any:
        return np.r_[np.zeros(len(x) - 1, np.int64), 1]


def test_a_method_that_breaks_its_promise_releases_nothing() -> None:
    with pytest.raises(DataError, match="shared by fewer than 3 records; nothing is released"):
        _Careless().apply(microdata(draw(12, 2)), Draws(1))


class _AcrossStrata(Microaggregation, abstract=True):
    """Groups everybody together, whatever the stratum."""

    def groups(self, x: Any, ids: Any, draws: Draws) -> Any:
        return np.zeros(len(x), np.int64)

    def labels(self, x: Any, names: Any, block: Any, ids: Any, draws: Draws) -> Any:
        return np.arange(len(x)) % 2


def test_the_promise_is_verified_within_strata() -> None:
    data = microdata({**draw(12, 1), "area": [1] * 9 + [2] * 3}, area={"role": "key"})
    with pytest.raises(DataError, match="nothing is released"):
        _AcrossStrata(columns="v0", within="area").apply(data, Draws(1))


@every_method
def test_the_release_says_how_large_the_smallest_group_is(method: Any) -> None:
    release = method(k=4).apply(microdata(draw(9, 2)), Draws(1))
    apart = method in (IndividualRanking, OptimalUnivariate)  # records have other companions in every column
    each = ["v0: every released value", "v1: every released value"] if apart else ["v0, v1: every released combination"]
    said = release.guarantees[1:]
    assert [g.says for g in said] == [f"{what} is shared by at least 4 records" for what in each]
    assert {g.verified for g in said} == {"released values counted; the smallest group has 4"}


# As a matrix


@pytest.mark.parametrize(
    "mask",
    [
        ProjectionMicroaggregation(k=3),
        RobustMicroaggregation(k=4),
        ClusterMicroaggregation(k=3, clusters=3),
        GowerMicroaggregation(k=5),
        IndividualRanking(columns="v0", k=3),
    ],
    ids=lambda m: m.name,
)
def test_joint_averaging_is_a_matrix_that_averages_records(mask: Microaggregation) -> None:
    data = microdata(draw(50, 3))
    form = mask.as_matrix(data, Draws(1))
    assert form.depends == ("A",)
    a = form.A.toarray()  # type: ignore[union-attr]
    np.testing.assert_allclose(a.sum(axis=1), 1)
    np.testing.assert_allclose(a, a.T)
    np.testing.assert_allclose(a @ a, a, atol=1e-14)  # averaging twice is averaging once
    assert (1 / a.max(axis=1)).min() >= mask.k - 1e-9
    x = np.column_stack([data.numbers(n) for n in form.names])
    made = mask.apply(data, Draws(1)).masked
    np.testing.assert_allclose(form.apply(x), np.column_stack([made.numbers(n) for n in form.released]), rtol=1e-12)


def test_averaging_over_households_is_a_matrix_too() -> None:
    data = microdata(
        {"home": [1, 1, 2, 3, 4, 4], "rent": [1.0, 1, 2, 7, 9, 9]},
        home={"role": "household"},
        rent={"level": "household"},
    )
    form = IndividualRanking(k=2).as_matrix(data, Draws(1))
    np.testing.assert_allclose(form.apply(data.numbers("rent")[:, None])[:, 0], [1.5, 1.5, 1.5, 8, 8, 8])


@pytest.mark.parametrize(
    ("mask", "facts", "why"),
    [
        (ProjectionMicroaggregation(aggregate="median"), {}, "medians are not linear in the data"),
        (ProjectionMicroaggregation(aggregate="mode"), {}, "modes are not linear in the data"),
        (IndividualRanking(), {}, "attribute-specific aggregation over records"),
        (OptimalUnivariate(), {}, "attribute-specific aggregation over records"),
        (ProjectionMicroaggregation(), {"v0": {"integer": True}}, "the means of v0 are rounded"),
        (ProjectionMicroaggregation(), {"v0": {"bounds": (101, None)}}, "moved by the bounds"),
    ],
)
def test_what_is_no_matrix_mask_says_why(mask: Microaggregation, facts: dict[str, Any], why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        mask.as_matrix(microdata(draw(30, 2), **facts), Draws(1))


def test_missing_values_are_no_matrix() -> None:
    with pytest.raises(NotApplicable, match="some values are missing"):
        ProjectionMicroaggregation(k=2).as_matrix(with_gaps(420), Draws(1))


# Kernels


def test_consecutive_groups_follow_the_order_and_the_middle_one_takes_what_is_left() -> None:
    assert consecutive(np.array([3, 1, 0, 2, 4]), 2).tolist() == [0, 0, 1, 0, 1]
    assert consecutive(np.arange(7), 3).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert consecutive(np.arange(11), 3).tolist() == [0] * 3 + [1] * 5 + [2] * 3
    assert consecutive(np.arange(2), 3).tolist() == [0, 0]


def test_consecutive_groups_within_blocks_are_those_of_each_block() -> None:
    g = np.random.default_rng(2)
    for _ in range(50):
        n, k = int(g.integers(0, 40)), int(g.integers(2, 5))
        block, value = np.sort(g.integers(0, 6, n)), g.integers(0, 9, n)
        labels = consecutive_within(np.lexsort([value, block]), block, k)
        used = 0
        for b in np.unique(block):
            rows = np.flatnonzero(block == b)
            alone = consecutive(np.argsort(value[rows], kind="stable"), k)
            np.testing.assert_array_equal(labels[rows], alone + used)
            used += alone.max() + 1


@pytest.mark.parametrize("how", ["mean", "median", "low", "mode"])
def test_centres_are_those_of_each_group_taken_alone(how: str) -> None:
    g = np.random.default_rng(4)
    for _ in range(50):
        x = g.integers(0, 5, (30, 2)).astype(float)
        labels = np.unique(g.integers(0, 7, 30), return_inverse=True)[1]
        made = centres(x, labels, how)
        for label, j in itertools.product(range(labels.max() + 1), range(2)):
            mine = sorted(x[labels == label, j].tolist())
            expected = {
                "mean": np.mean(mine),
                "median": np.median(mine),
                "low": mine[(len(mine) - 1) // 2],
                "mode": max(sorted(set(mine)), key=mine.count),
            }[how]
            assert made[label, j] == pytest.approx(expected)


def test_a_mean_never_leaves_the_range_of_its_group_by_rounding() -> None:
    g = np.random.default_rng(9)
    base = g.uniform(1e8, 1e9, 300)
    x = np.repeat(base, 7)
    x[::7] = np.nextafter(x[::7], np.inf)
    labels = np.repeat(np.arange(300), 7)
    made = centres(x[:, None], labels, "mean")[:, 0]
    assert (made >= x.reshape(300, 7).min(axis=1)).all()
    assert (made <= x.reshape(300, 7).max(axis=1)).all()
