"""The small loops of a map against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.column_pairs import mean_square_difference, regression_sums

numbers = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=0, max_size=40)


@given(numbers, st.integers(0, 2**32 - 1))
def test_regression_sums_leave_out_incomplete_pairs(x, seed):
    x = np.array(x, float)
    y = np.random.default_rng(seed).normal(size=len(x))
    y[::7] = np.nan
    both = ~(np.isnan(x) | np.isnan(y))
    a, b = x[both], y[both]
    count, squares, products = regression_sums(x, y)
    assert count == len(a)
    if count:
        scale = float(np.abs(a).max()) + 1
        assert squares == pytest.approx(((a - a.mean()) ** 2).sum(), rel=1e-9, abs=1e-9 * scale**2)
        assert products == pytest.approx(((a - a.mean()) * (b - b.mean())).sum(), rel=1e-9, abs=1e-8 * scale)


def test_a_slope_survives_a_large_offset():
    x = 1e9 + np.arange(100.0)
    count, squares, products = regression_sums(x, 3 * np.arange(100.0))
    assert (count, products / squares) == (100, pytest.approx(3, rel=1e-12))


def test_mean_square_difference_skips_missing_pairs_and_says_nan_when_none_is_left():
    assert mean_square_difference(np.array([1.0, 2.0, np.nan]), np.array([2.0, 4.0, 9.0])) == 2.5
    assert np.isnan(mean_square_difference(np.array([np.nan]), np.array([1.0])))
