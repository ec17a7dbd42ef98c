"""Rows that agree, and what they say, against loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sfumato.kernels.matching import best_answers, counts_within, held, matching_rows, totals


def agree(one: np.ndarray, two: np.ndarray) -> bool:
    return all(x < 0 or y < 0 or x == y for x, y in zip(one, two, strict=True))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(0, 12), st.integers(0, 12), st.integers(0, 4), st.booleans())
def test_matching_rows_are_those_of_a_loop(seed: int, a: int, b: int, p: int, gaps: bool) -> None:
    g = np.random.default_rng(seed)
    low = -1 if gaps else 0
    asked, given_ = (g.integers(low, 3, (n, p)).astype(np.int32) for n in (a, b))
    found = matching_rows(asked, given_)
    assert len(found.starts) == a + 1
    for i in range(a):
        expected = [j for j in range(b) if agree(asked[i], given_[j])]
        assert sorted(found.rows[found.starts[i] : found.starts[i + 1]].tolist()) == expected


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_counts_and_best_answers_are_those_of_a_loop(seed: int) -> None:
    g = np.random.default_rng(seed)
    size, m = 4, int(g.integers(0, 15))
    groups, values = g.integers(0, size, m), g.integers(0, 5, m).astype(float)
    counts = g.integers(1, 4, m)
    asked, given_ = (g.integers(-1, 2, (n, 2)).astype(np.int32) for n in (6, size))
    matches, kept = matching_rows(asked, given_), held(groups, values, counts, size)
    question = g.integers(0, 6, 10)
    low, high = g.integers(0, 4, 10).astype(float), g.integers(0, 5, 10).astype(float)
    within = counts_within(matches, kept, question, low, high)
    mode, support, ties = best_answers(matches, kept, True)
    median, near, _ = best_answers(matches, kept, False, 0.3, 0.5)
    for i in range(6):
        there = sorted(
            v for j in range(size) if agree(asked[i], given_[j]) for v, c, k in zip(values, counts, groups, strict=True)
            if k == j for _ in range(c)
        )  # fmt: skip
        assert totals(matches, kept)[i] == len(there)
        for q in np.flatnonzero(question == i):
            assert within[q] == sum(low[q] <= v <= high[q] for v in there)
        if not there:
            assert np.isnan(mode[i])
            assert support[i] == 0
            continue
        top = max(there.count(v) for v in there)
        best = sorted({v for v in there if there.count(v) == top})
        assert (mode[i], support[i], ties[i]) == (best[0], top, len(best))
        centre = there[(len(there) - 1) // 2]
        assert median[i] == centre
        assert near[i] == sum(abs(v - centre) <= 0.3 * abs(centre) + 0.5 for v in there)


def test_no_keys_match_everything_and_nothing_matches_no_rows() -> None:
    found = matching_rows(np.zeros((2, 0), np.int32), np.zeros((3, 0), np.int32))
    assert_array_equal(found.starts, [0, 3, 6])
    assert_array_equal(matching_rows(np.zeros((2, 1), np.int32), np.zeros((0, 1), np.int32)).starts, [0, 0, 0])


@pytest.mark.parametrize("rows", [5_000])
def test_many_rows_agree_with_a_dictionary(rows: int) -> None:
    g = np.random.default_rng(1)
    asked, given_ = (g.integers(0, 6, (rows, 5)).astype(np.int32) for _ in range(2))
    table: dict[tuple[int, ...], int] = {}
    for row in given_.tolist():
        table[tuple(row)] = table.get(tuple(row), 0) + 1
    expected = [table.get(tuple(row), 0) for row in asked.tolist()]
    assert_allclose(np.diff(matching_rows(asked, given_).starts), expected)
