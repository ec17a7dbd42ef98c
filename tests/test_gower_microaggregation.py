"""Gower microaggregation against its definition: numbers and categories in one distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouping import microdata, released

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.microaggregation import gower_from, gower_mdav, gower_pieces
from sfumato.masks import GowerMicroaggregation

Matrix = np.ndarray[Any, Any]


def slow_gower(a: Any, b: Any, ranges: Any, weights: Any) -> float:
    """Gower's distance between two records: range None for a category."""
    parts = [
        w * (float(x != y) if r is None else abs(x - y) / r) for x, y, r, w in zip(a, b, ranges, weights, strict=True)
    ]
    return float(sum(parts) / sum(weights))


def slow_gower_mdav(rows: list[list[float]], ranges: Any, weights: Any, k: int) -> list[int]:
    """MDAV-generic by its definition."""
    rest, labels, group = list(range(len(rows))), [-1] * len(rows), 0

    def distance(i: int, to: Any) -> float:
        return round(slow_gower(rows[i], to, ranges, weights), 12)

    def most_distant() -> int:
        average = []
        for j, r in enumerate(ranges):
            mine = [rows[i][j] for i in rest]
            average.append(sum(mine) / len(mine) if r is not None else max(sorted(set(mine)), key=mine.count))
        return max(rest, key=lambda i: distance(i, average))

    def take(around: int) -> None:
        nonlocal group
        for i in sorted(rest, key=lambda i: (i != around, distance(i, rows[around]), i))[:k]:
            labels[i] = group
            rest.remove(i)
        group += 1

    while len(rest) >= 3 * k:
        r = most_distant()
        take(r)
        take(max(rest, key=lambda i: distance(i, rows[r])))
    if len(rest) >= 2 * k:
        take(most_distant())
    for i in rest:
        labels[i] = group
    return labels


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_gower_groups_are_those_of_the_definition(k: int, seed: int) -> None:
    g = np.random.default_rng(seed)
    n = 47 + seed
    x, codes = g.gamma(1, 1, (n, 2)), g.integers(0, 3, (n, 2))
    weights = [1.0, 2.0, 0.5, 1.5]
    ranges = [*np.ptp(x, axis=0), None, None]
    rows = [[*a, *b] for a, b in zip(x.tolist(), codes.tolist(), strict=True)]
    made = gower_mdav(x / np.ptp(x, axis=0) * weights[:2], codes, np.array(weights[2:]), k)
    assert made.tolist() == slow_gower_mdav(rows, ranges, weights, k)
    far = gower_from(x / np.ptp(x, axis=0) * weights[:2], codes, np.array(weights[2:]), 5) / sum(weights)
    np.testing.assert_allclose(far, [slow_gower(row, rows[5], ranges, weights) for row in rows])


def test_pieces_hold_every_record_once_and_none_is_too_large_or_too_small() -> None:
    g = np.random.default_rng(29)
    x, codes = g.normal(size=(1_003, 2)), g.integers(0, 4, (1_003, 1))
    pieces = gower_pieces(x, codes, np.ones(1), 100)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(1_003))
    assert 50 <= min(map(len, pieces)) <= max(map(len, pieces)) <= 100
    assert [p.tolist() for p in gower_pieces(x[:90], codes[:90], np.ones(1), 100)] == [list(range(90))]
    assert max(map(len, gower_pieces(np.zeros((500, 1)), np.zeros((500, 0), np.int64), np.zeros(0), 60))) <= 60


def test_blocks_keep_most_of_what_the_whole_search_finds() -> None:
    g = np.random.default_rng(30)
    x = g.normal(size=(3_000, 3))
    data = microdata({f"v{j}": x[:, j] for j in range(3)})

    def sse(block: int) -> float:
        mask = GowerMicroaggregation(k=3, block=block)
        return sum(float(((np.array(released(mask, data, f"v{j}")) - x[:, j]) ** 2).sum()) for j in range(3))

    whole, cut = sse(3_000), sse(200)
    assert whole < cut < 2 * whole < 0.2 * (x**2).sum()


def mixed(n: int = 40, seed: int = 31) -> Microdata:
    g = np.random.default_rng(seed)
    words = np.array(["low", "middle", "high"], object)
    return microdata(
        {
            "pay": g.gamma(3, 10, n),
            "level": pa.array(words[g.integers(0, 3, n)].tolist()),
            "job": pa.array(np.array(["baker", "clerk", "judge", "no answer"], object)[g.integers(0, 4, n)].tolist()),
            "owner": pa.array((g.random(n) < 0.4).tolist()),
        },
        level={"values": {"low": 1, "middle": 2, "high": 4}},
        job={"scale": "unordered", "missing": ("no answer",)},
        owner={"scale": "unordered"},
    )


def test_mixed_records_are_released_with_means_lower_medians_and_modes_of_their_groups() -> None:
    data = mixed()
    number = {"low": 1, "middle": 2, "high": 4}
    pay, level, job, owner = (data.batch([n]).column(n).arrow.to_pylist() for n in ("pay", "level", "job", "owner"))
    answered = [i for i in range(40) if job[i] != "no answer"]
    silent = [i for i in range(40) if job[i] == "no answer"]
    jobs = ["baker", "clerk", "judge"]
    width = max(pay) - min(pay)
    full = [[pay[i], number[level[i]], float(jobs.index(job[i])), float(owner[i])] for i in answered]
    part = [[pay[i], number[level[i]], float(owner[i])] for i in silent]
    groups = [
        *_rows(answered, slow_gower_mdav(full, [width, 3, None, None], [1.0] * 4, 3)),
        *_rows(silent, slow_gower_mdav(part, [width, 3, None], [1.0] * 3, 3)),
    ]
    mask = GowerMicroaggregation(k=3)
    made = {n: released(mask, data, n) for n in ("pay", "level", "job", "owner")}
    for rows in groups:
        for i in rows:
            assert made["pay"][i] == pytest.approx(np.mean([pay[r] for r in rows]))
            assert number[made["level"][i]] == sorted(number[level[r]] for r in rows)[(len(rows) - 1) // 2]
            own = [owner[r] for r in rows]
            assert made["owner"][i] == (own.count(True) > own.count(False))
            said = sorted(job[r] for r in rows)
            assert made["job"][i] == max(said, key=said.count)
    assert [i for i in range(40) if made["job"][i] == "no answer"] == silent


def _rows(rows: list[int], labels: list[int]) -> list[list[int]]:
    return [[r for r, own in zip(rows, labels, strict=True) if own == label] for label in set(labels)]


def test_a_mixed_release_shares_every_combination_and_says_so() -> None:
    release = GowerMicroaggregation(k=4).apply(mixed(200), Draws(1))
    rows = release.masked.to_native().to_pylist()
    counts: dict[Any, int] = {}
    for row in rows:
        counts[tuple(row.values())] = counts.get(tuple(row.values()), 0) + 1
    assert min(counts.values()) >= 4
    assert "pay, level, job, owner: every released combination is shared by at least 4" in release.guarantees[-1].says


def test_rare_mixed_records_are_suppressed_as_nulls_and_codes_stay() -> None:
    data = microdata(
        {"a": [1.0] * 6 + [2.0, 2.0], "job": ["x"] * 6 + ["none", "none"]},
        job={"scale": "unordered", "missing": ("none",)},
    )
    mask = GowerMicroaggregation(k=3, rare="suppress")
    assert released(mask, data, "job") == ["x"] * 6 + ["none"] * 2
    assert np.isnan(np.array(released(mask, data, "a"), float)).tolist() == [False] * 6 + [True] * 2
    data = microdata(
        {"job": ["x"] * 6 + ["y"] * 2, "s": [1] * 6 + [2] * 2}, job={"scale": "unordered"}, s={"role": "key"}
    )
    assert (
        released(GowerMicroaggregation(columns="job", within="s", rare="suppress"), data, "job")
        == ["x"] * 6 + [None] * 2
    )


def test_a_column_of_no_importance_is_aggregated_and_does_not_count() -> None:
    g = np.random.default_rng(33)
    a, b = g.normal(size=(2, 30))
    data = microdata({"a": a, "b": b})
    made = released(GowerMicroaggregation(k=3, columns=("a", "b"), importance={"a": 1, "b": 0}), data, "a")
    alone = released(GowerMicroaggregation(k=3, columns="a"), data, "a")
    assert made == pytest.approx(alone)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"columns": ("a", "b"), "importance": {"a": 1}}, r"importance gives no weight for b\."),
        ({"columns": "a", "importance": {"a": 1, "b": 1}}, r"names columns that are not aggregated: b\."),
        ({"columns": "a", "importance": 0}, "at least one must count"),
        ({"columns": "a", "importance": {"a": -1}}, "must be a number of at least 0"),
    ],
)
def test_importance_that_makes_no_sense_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        GowerMicroaggregation(**given)


def test_a_category_of_a_hundred_thousand_levels_is_aggregated() -> None:
    n = 100_000
    data = microdata({"job": [f"job-{i:06d}" for i in range(n)]}, job={"scale": "unordered"})
    made = released(GowerMicroaggregation(k=50, block=1_000), data, "job")
    assert min(np.unique(made, return_counts=True)[1]) >= 50


def test_dates_are_refused_and_categories_are_no_matrix() -> None:
    import datetime

    dates = microdata({"born": [datetime.date(2000, 1, 1 + i) for i in range(9)]})
    with pytest.raises(
        DataError, match="column 'born' holds dates, where numbers, categories or yes/no values are needed"
    ):
        GowerMicroaggregation().apply(dates, Draws(1))
    with pytest.raises(NotApplicable, match="it also changes columns of categories"):
        GowerMicroaggregation().as_matrix(mixed(), Draws(1))


def test_a_mask_fitted_to_numbers_refuses_categories_of_the_same_name() -> None:
    fitted = GowerMicroaggregation().fit(microdata({"a": [1.0, 2, 3, 4]}), Draws(1))
    other = microdata({"a": ["x", "y", "z", "z"]}, a={"scale": "unordered"})
    with pytest.raises(DataError, match="but the mask was fitted to another kind of column"):
        fitted.transform(other.batch(), Draws(1))
