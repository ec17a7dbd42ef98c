"""Equivalence classes, against counting by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.classes import classes, number_codes


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 1), st.integers(-1, 4)), max_size=40))
def test_records_are_in_one_class_when_they_agree_on_every_column(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[j] for row in rows], np.int64) for j in range(3)]
    labels, sizes = classes(columns, len(rows))
    counts = Counter(rows)
    assert [int(sizes[label]) for label in labels] == [counts[row] for row in rows]
    assert len(sizes) == len(counts)
    assert len({(row, int(label)) for row, label in zip(rows, labels, strict=True)}) == len(counts)


def test_many_columns_of_many_levels_are_packed_without_overflow() -> None:
    g = np.random.default_rng(3)
    columns = [g.integers(-1, 100_000, 500) for _ in range(9)]
    columns = [np.concatenate([c, c[:100]]) for c in columns]
    labels, sizes = classes(columns, 600)
    assert sizes.sum() == 600
    assert (sizes[labels[:100]] == 2).all()
    assert (sizes[labels[100:500]] == 1).all()
    np.testing.assert_array_equal(labels[:100], labels[500:])


def test_without_columns_all_records_are_one_class() -> None:
    labels, sizes = classes([], 4)
    assert labels.tolist() == [0, 0, 0, 0]
    assert sizes.tolist() == [4]


def test_numbers_are_coded_by_value_and_missing_is_its_own_code() -> None:
    assert number_codes(np.array([2.0, np.nan, 1.0, 2.0, np.nan, -0.0, 0.0])).tolist() == [2, -1, 1, 2, -1, 0, 0]


@pytest.mark.parametrize("gaps", [False, True])
def test_records_that_are_alone_by_the_first_column_have_the_classes_of_all_columns(gaps: bool) -> None:
    g = np.random.default_rng(1)
    first = g.permutation(50) - (1 if gaps else 0)  # with -1: one missing value is alone as well
    others = [g.integers(-1, 3, 50) for _ in range(2)]
    for columns in ([first, *others], [first + 3 * (first > 9), *others], [*others, first]):
        labels, sizes = classes(columns, 50)
        _, slow, counts = np.unique(np.column_stack(columns), axis=0, return_inverse=True, return_counts=True)
        assert labels.tolist() == slow.ravel().tolist()
        assert sizes.tolist() == counts.tolist()
