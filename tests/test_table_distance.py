"""Distances of k-way tables: against the full cross product, by hand, and with recoded columns."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_files import amounts, microdata

from sfumato import Draws
from sfumato.contract import Release
from sfumato.datasets import census
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import Generalise, RankSwap
from sfumato.schema import TreeHierarchy
from sfumato.utility import TableDistance, TotalVariation

DISTANCES = ["total variation", "hellinger", "mean difference"]
W = {"w": {"role": "weight", "scale": "ordered"}}
TREE = TreeHierarchy([["a", "ab", "*"], ["b", "ab", "*"], ["c", "cd", "*"], ["d", "cd", "*"]])
FACTS = {n: {"hierarchy": TREE, "scale": "partially ordered"} for n in "xyz"}


def spread(value: Any, there: set[Any]) -> list[Any]:
    """Return the values over which a released one is spread."""
    under = [leaf for leaf in sorted(there - {None}) if value in ("ab", "cd") and leaf in value]
    return under or [None if value == "*" else value]


def slow(before: list[Any], after: list[Any], u: Any, v: Any) -> dict[str, float]:
    """Return all distances of one table over the full cross product; records are tuples."""
    k = len(before[0])
    there = [{row[j] for row in before} for j in range(k)]
    p: dict[Any, float] = defaultdict(float)
    q: dict[Any, float] = defaultdict(float)
    for row, w in zip(before, u, strict=True):
        p[row] += w / sum(u)
    for row, w in zip(after, v, strict=True):
        cells = list(itertools.product(*(spread(row[j], there[j]) for j in range(k))))
        for cell in cells:
            q[cell] += w / sum(v) / len(cells)
    everything = set(p) | set(q)
    apart = sum(abs(p[c] - q[c]) for c in everything)
    filled = {c for c in p if p[c]}
    return {
        "total variation": apart / 2,
        "hellinger": math.sqrt(sum((math.sqrt(p[c]) - math.sqrt(q[c])) ** 2 for c in everything) / 2),
        "mean difference": apart / max(len(filled), 2),
    }


@st.composite
def files(draw: Any) -> tuple[list[Any], list[Any], list[int], list[int]]:
    k = draw(st.integers(1, 3))
    fine, coarse = st.sampled_from([*"abcd", None]), st.sampled_from([*"abcd", "ab", "cd", "*", "new", None])
    before = draw(st.lists(st.tuples(*[fine] * k), min_size=1, max_size=10))
    after = draw(st.lists(st.tuples(*[coarse] * k), min_size=1, max_size=10))
    u, v = (draw(st.lists(st.integers(1, 4), min_size=len(part), max_size=len(part))) for part in (before, after))
    return before, after, u, v


@pytest.mark.parametrize("distance", DISTANCES)
@given(files())
@settings(deadline=None)
def test_tables_agree_with_the_full_cross_product(distance: Any, found: Any) -> None:
    before, after, u, v = found
    names = "xyz"[: len(before[0])]
    one, two = (
        microdata({**FACTS, **W}, **{n: pa.array([r[j] for r in rows], pa.string()) for j, n in enumerate(names)}, w=w)
        for rows, w in ((before, u), (after, v))
    )
    expected = []
    for k in range(1, len(names) + 1):
        for places in itertools.combinations(range(len(names)), k):
            part = [[tuple(row[j] for j in places) for row in rows] for rows in (before, after)]
            expected.append(slow(part[0], part[1], u, v)[distance])
    score = TableDistance(order=3, distance=distance, weighted=True).score(Release.of(one, two))
    assert 1 - score.value == pytest.approx(np.mean(expected), abs=1e-7)
    assert score.details["tables"] == len(expected)


def test_two_columns_by_hand() -> None:
    before = microdata(sex=["f", "f", "m", "m"], job=["a", "b", "a", "b"])
    after = microdata(sex=["f", "f", "m", "m"], job=["a", "a", "b", "b"])
    score = TableDistance().score(Release.of(before, after))
    # each column is kept; of the four cells with a quarter each two have a half now and two nothing
    assert score.value == pytest.approx(1 - 0.5 / 3)
    assert score.words == ("the mean total variation of 3 tables is 0.167; the largest, 0.5, is that of sex × job")
    assert score.details["mean total variation of tables of 1 column"] == 0
    assert score.details["mean total variation of tables of 2 columns"] == 0.5
    assert score.details["loss of sex × job"] == 0.5


def test_a_table_of_one_column_is_the_total_variation_of_the_column() -> None:
    data = census(300).sample
    release = RankSwap(columns=("age", "salary")).apply(data, Draws(1))
    one = TableDistance(order=1, bins=20).score(release)
    assert one.value == pytest.approx(TotalVariation().score(release).value)


def test_swapping_keeps_the_columns_and_loses_what_is_between_them() -> None:
    g = np.random.default_rng(1)
    x = g.normal(size=2000)
    before = amounts(x=x, y=x + 0.3 * g.normal(size=2000))
    after = amounts(x=x, y=g.permutation(before.numbers("y")))
    details = TableDistance().score(Release.of(before, after)).details
    assert details["mean total variation of tables of 1 column"] == 0
    assert details["mean total variation of tables of 2 columns"] > 0.4
    assert TableDistance().score(Release.of(before, before)).value == 1


def test_a_column_that_was_not_released_loses_every_table_that_has_it() -> None:
    data = microdata(a=["x", "y", "y"], b=["u", "v", "v"], c=["k", "k", "l"])
    score = TableDistance(order=3).score(Release.of(data, data.local(["a", "b"])))
    assert score.value == pytest.approx(1 - 4 / 7)  # c, a × c, b × c and all three
    assert score.details["loss of a × b × c"] == 1
    assert TableDistance(distance="hellinger").score(Release.of(data, data.take(np.array([], int)))).value == 0


def test_recoding_two_columns_spreads_over_both() -> None:
    facts = {n: {"hierarchy": TREE, "scale": "partially ordered"} for n in ("x", "y")}
    data = microdata(facts, x=["a", "b", "c", "d"], y=["a", "b", "c", "d"])
    release = Generalise(level=1).apply(data, Draws(1))
    # (ab, ab) has half of the records: a quarter of it on each of four cells, of which the original has two
    assert TableDistance(("x",)).score(release).value == 1
    assert TableDistance(("x", "y")).score(release).value == pytest.approx(1 - (0 + 0 + 0.5) / 3)


def test_records_without_weight_fill_no_cell() -> None:
    one = microdata(W, a=["x", "y", "z"], w=[1.0, 1.0, 0.0])
    two = microdata(W, a=["x", "y", "z"], w=[1.0, 1.0, 2.0])
    for distance, loss in (("total variation", 0.5), ("mean difference", (0.25 + 0.25 + 0.5) / 2)):
        score = TableDistance(distance=distance, weighted=True).score(Release.of(one, two))  # type: ignore[arg-type]
        assert 1 - score.value == pytest.approx(loss)
    back = TableDistance(distance="mean difference", weighted=True).score(Release.of(one, one))
    assert back.value == 1


def test_a_table_is_not_better_for_a_record_that_lies_elsewhere() -> None:
    measure = TableDistance(distance="mean difference")
    before = microdata(a=["x"] * 500 + ["y"] * 500)
    moved = microdata(a=["x"] * 400 + ["y"] * 600)
    also_lost = microdata(a=pa.array(["x"] * 400 + ["y"] * 599 + [None]))
    assert measure.score(Release.of(before, moved)).value == pytest.approx(1 - (0.1 + 0.1) / 2)
    assert measure.score(Release.of(before, also_lost)).value == pytest.approx(1 - (0.1 + 0.099 + 0.001) / 2)
    lone = microdata(a=["x"] * 4)
    assert measure.score(Release.of(lone, microdata(a=["x", "x", "x", "y"]))).value == pytest.approx(1 - 0.25)
    assert measure.score(Release.of(lone, microdata(a=["y"] * 4))).value == 0


def test_numbers_can_be_left_out_unless_they_are_named() -> None:
    facts = {"pay": {"role": "confidential", "scale": "ordered"}}
    data = microdata(facts, a=["x", "y", "y"], pay=[1.0, 2.0, 3.0])
    release = Release.of(data, microdata(facts, a=["x", "y", "y"], pay=[7.0, 8.0, 9.0]))
    assert TableDistance(numbers="left out").score(release).value == 1
    assert TableDistance(("a", "pay"), numbers="left out").score(release).value < 1
    assert TableDistance().score(release).value < 1


def test_many_columns_of_many_values_never_form_the_cross_product() -> None:
    g = np.random.default_rng(2)
    columns = {f"c{j}": g.integers(0, 500, 1000).astype(str).tolist() for j in range(12)}
    data = microdata({}, **columns)
    score = TableDistance(tuple(columns)[:8], order=8).score(Release.of(data, data))  # 500^8 cells
    assert score.value == 1
    assert score.details["tables"] == 255


def test_too_many_tables_are_refused_with_what_to_do() -> None:
    data = microdata({}, **{f"c{j}": ["a", "b"] for j in range(40)})
    with pytest.raises(NotApplicable, match=r"10,700 tables of up to 3 columns, more than 2,000\. Name fewer columns"):
        TableDistance(order=3).score(Release.of(data, data))
    assert TableDistance(order=2).score(Release.of(data, data)).value == 1
    few = microdata(a=["x", "y"])
    assert TableDistance(order=3).score(Release.of(few, few)).details["tables"] == 1


def test_implicates_and_subgroups() -> None:
    before = microdata(a=["x", "x", "y", "y"], b=["u", "v", "u", "v"], g=["m", "m", "f", "f"])
    after = microdata(a=["x", "x", "y", "y"], b=["v", "v", "u", "v"], g=["m", "m", "f", "f"])
    both = Release(before, (before, after), aligned=False)
    once = TableDistance(("a", "b")).score(Release.of(before, after)).value
    assert TableDistance(("a", "b")).score(both).value == pytest.approx((1 + once) / 2)
    groups = TableDistance(("a", "b")).score_by(Release.of(before, after, "rows"), "g").groups
    assert groups["f"] == 1
    assert groups["m"] == pytest.approx(1 - (0 + 0.5 + 0.5) / 3)


def test_what_cannot_be_compared_is_refused_in_a_sentence() -> None:
    data = microdata(a=["x", "y"])
    with pytest.raises(DataError, match="no records"):
        TableDistance().score(Release.of(data.take(np.array([], int)), data))
    with pytest.raises(DataError, match="is not in the data"):
        TableDistance(("a", "b")).score(Release.of(data, data))
    with pytest.raises(ParameterError, match="order of table_distance"):
        TableDistance(order=0)
    with pytest.raises(ParameterError, match="true or false"):
        TableDistance(weighted=1)  # type: ignore[arg-type]
    numbers = amounts(x=[1.0, 2.0])
    with pytest.raises(NotApplicable, match="no column of categories"):
        TableDistance(numbers="left out").score(Release.of(numbers, numbers))
