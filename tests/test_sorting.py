"""Sorting by digits: against NumPy, which compares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.sorting import ranks, whole_number_runs

numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -0.0, 1.5, float("nan")]))


@given(st.lists(numbers, max_size=60))
@settings(max_examples=300, deadline=None)
def test_ranks_are_places_among_the_distinct_numbers_and_what_is_missing_has_none(values: list[float]) -> None:
    x = np.array(values, float)
    places, distinct = ranks(x)
    expected = np.unique(x[~np.isnan(x)])
    assert distinct.tolist() == expected.tolist()
    assert places.dtype == np.int32
    assert places.tolist() == [-1 if np.isnan(v) else int(np.searchsorted(expected, v)) for v in values]


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**62)), max_size=60))
@settings(max_examples=300, deadline=None)
def test_runs_of_whole_numbers_are_those_of_numpy(values: list[int]) -> None:
    x = np.array(values, np.int64)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    assert [part.tolist() for part in whole_number_runs(x)] == [part.tolist() for part in expected]


@pytest.mark.parametrize("most", [100, 2**33, 2**61])
def test_many_whole_numbers_are_sorted_as_numpy_does(most: int) -> None:
    x = np.random.default_rng(1).integers(0, most, 200_000)
    expected = np.unique(x, return_inverse=True, return_counts=True)
    for found, wanted in zip(whole_number_runs(x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
