"""Inversions: pairs of records that two columns put in opposite orders, against the double loop that defines them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from sfumato.kernels.column_pairs import inversions, inversions_of_table

small = st.lists(st.tuples(st.integers(-3, 4), st.integers(-3, 4)), max_size=60)
wide = st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=60)


def slow(x: list[float], y: list[float]) -> int:
    """(2.3) as it is printed, with i and j over all records."""
    return sum(x[i] < x[j] and y[i] > y[j] for i in range(len(x)) for j in range(len(x)))


@given(st.one_of(small, wide))
@settings(max_examples=300, deadline=None)
def test_inversions_are_those_of_the_double_loop(pairs: list[tuple[float, float]]) -> None:
    x, y = [p[0] for p in pairs], [p[1] for p in pairs]
    assert inversions(np.array(x, float), np.array(y, float)) == slow(x, y)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 4)), max_size=15))
@settings(max_examples=300, deadline=None)
def test_a_table_of_counts_has_the_inversions_of_its_records(cells: list[tuple[int, int, int]]) -> None:
    x, y, counts = (np.array([c[k] for c in cells], np.int64) for k in range(3))
    records = slow(np.repeat(x, counts).tolist(), np.repeat(y, counts).tolist())
    assert inversions_of_table(x, y, counts) == records


def test_reversed_records_are_all_inverted_and_ties_never_are() -> None:
    n = 100_003
    up = np.arange(n, dtype=float)
    assert inversions(up, -up) == n * (n - 1) // 2
    assert inversions(up, up) == 0
    assert inversions(np.zeros(n), -up) == 0
    assert inversions(up, np.zeros(n)) == 0


def test_minus_zero_is_zero() -> None:
    assert inversions(np.array([0.0, -0.0]), np.array([2.0, 1.0])) == 0
    assert inversions(np.array([1.0, 2.0]), np.array([0.0, -0.0])) == 0


@pytest.mark.parametrize("levels", [7, 1_000, 10**9])
def test_many_records_agree_with_kendalls_tau_of_scipy(levels: int) -> None:
    """tau-b has the discordant pairs in it: (C - D) and the ties are known, so D follows."""
    g = np.random.default_rng(levels)
    x = g.integers(0, levels, 5_000).astype(float)
    y = np.round(x + levels * 0.2 * g.standard_normal(5_000))
    total = 5_000 * 4_999 // 2

    def tied(*columns: np.ndarray) -> int:
        _, counts = np.unique(np.column_stack(columns), axis=0, return_counts=True)
        return int((counts * (counts - 1) // 2).sum())

    tau = kendalltau(x, y).statistic
    difference = tau * np.sqrt(float(total - tied(x)) * float(total - tied(y)))
    comparable = total - tied(x) - tied(y) + tied(x, y)
    assert inversions(x, y) == round((comparable - difference) / 2)


def test_counts_of_billions_do_not_overflow() -> None:
    """3·10⁹ records below and 4·10⁹ above: 1.2·10¹⁹ pairs are more than 63 bits hold."""
    counts = np.array([3 * 10**9, 4 * 10**9])
    assert inversions_of_table(np.array([0, 1]), np.array([1, 0]), counts) == 12 * 10**18


def test_no_record_and_one_record_have_no_inversions() -> None:
    for n in (0, 1):
        assert inversions(np.ones(n), np.ones(n)) == 0
        assert inversions_of_table(np.zeros(n, int), np.zeros(n, int), np.ones(n, int)) == 0


@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_codes_have_the_inversions_of_the_double_loop_too(pairs: list[tuple[int, int]]) -> None:
    x, y = [p[0] for p in pairs], [p[1] for p in pairs]
    for kind in (np.int32, np.int64):
        assert inversions(np.array(x, kind), np.array(y, kind)) == slow(x, y)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3), st.integers(1, 3)), max_size=15))
@settings(max_examples=200, deadline=None)
def test_of_intervals_only_those_count_that_lie_wholly_in_the_opposite_order(cells: list[tuple[int, ...]]) -> None:
    x, low, length, counts = (np.array([c[k] for c in cells], np.int64) for k in range(4))
    high = low + length
    each = [(a, b, c) for a, b, c, many in zip(x, low, high, counts, strict=True) for _ in range(many)]
    expected = sum(i[0] < j[0] and i[1] > j[2] for i in each for j in each)
    assert inversions_of_table(x, low, counts, high) == expected
