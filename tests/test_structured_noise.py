"""Noise with a given covariance: its moments, what it leaves exact, households, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sfumato import Draws, Microdata
from sfumato.datasets import five, teachers
from sfumato.errors import DataError, ParameterError
from sfumato.masks import StructuredNoise
from sfumato.schema import Attribute, Schema

Numbers = NDArray[np.float64]


def added(mask: StructuredNoise, data: Microdata, names: tuple[str, ...], seed: int = 1) -> Numbers:
    release = mask.apply(data, Draws(seed))
    return np.column_stack([after - before for before, after in (release.pair(n) for n in names)])


def test_the_noise_has_mean_zero_and_the_covariance_that_was_given() -> None:
    Omega = np.array([[4.0, -3.0], [-3.0, 9.0]])
    noise = added(StructuredNoise(("salary", "income"), Omega), teachers(40_000), ("salary", "income"))
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=4 * 3 / 200)
    np.testing.assert_allclose(np.cov(noise.T), Omega, atol=0.25)


def test_noise_of_rank_one_leaves_every_combination_across_it_exact() -> None:
    line = np.array([2.0, -1.0])
    noise = added(StructuredNoise(("salary", "income"), np.outer(line, line)), teachers(500), ("salary", "income"))
    np.testing.assert_allclose(noise @ [1.0, 2.0], 0, atol=1e-9)
    assert noise[:, 0].std() == pytest.approx(2, rel=0.15)


def test_columns_may_be_given_in_any_order() -> None:
    Omega = np.array([[4.0, -3.0], [-3.0, 9.0]])
    noise = added(StructuredNoise(("income", "salary"), Omega), teachers(20_000), ("salary", "income"))
    np.testing.assert_allclose(np.cov(noise.T), Omega[::-1, ::-1], atol=0.35)


def test_a_household_has_one_noise_in_its_own_columns_and_the_covariance_holds() -> None:
    n = 30_000
    schema = Schema(
        (
            Attribute("home", "household"),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
            Attribute("rent", "confidential", level="household"),  # type: ignore[arg-type]
        )
    )
    data = Microdata(pa.table({"home": np.arange(n) // 2, "pay": np.zeros(n), "rent": np.zeros(n)}), schema)
    noise = added(StructuredNoise(("pay", "rent"), [[1.0, 0.6], [0.6, 2.0]]), data, ("pay", "rent"))
    np.testing.assert_array_equal(noise[::2, 1], noise[1::2, 1])
    np.testing.assert_allclose(np.cov(noise.T), [[1.0, 0.6], [0.6, 2.0]], atol=0.06)


def test_it_says_how_many_combinations_stay_exact() -> None:
    says = StructuredNoise(("salary", "rent"), [[1.0, 1.0], [1.0, 1.0]]).apply(five(), Draws(1)).guarantees[1].says
    assert "1 combination of these columns has none" in says
    says = StructuredNoise(("salary",), [[1.0]]).apply(five(), Draws(1)).guarantees[1].says
    assert "combination" not in says


def test_the_covariance_it_speaks_of_is_that_of_its_columns_alone() -> None:
    mask = StructuredNoise(("salary", "income"), [[4.0, 1.0], [1.0, 9.0]])
    spoken = mask.noise(("age", "income", "salary"), np.eye(3), teachers(10).schema)
    np.testing.assert_allclose(spoken, [[0, 0, 0], [0, 9, 1], [0, 1, 4]])


def test_no_noise_is_allowed_and_one_number_stands_for_one_variance() -> None:
    data = teachers(50)
    assert not added(StructuredNoise(("salary",), [[0.0]]), data, ("salary",)).any()
    assert StructuredNoise(("salary",), 4.0).covariance == ((4.0,),)


@pytest.mark.parametrize(
    "wrong",
    [
        [[1.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.2, 1.0]], "much",
        [[1.0, np.nan], [np.nan, 1]], [[0.0, 0.1], [0.1, 1.0]], 3.0, [[1.0, 2.0], [3.0]],
    ],
)  # fmt: skip
def test_what_is_no_covariance_matrix_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError, match=r"covariance of structured_noise must be .*\.$"):
        StructuredNoise(("salary", "rent"), wrong)


def test_columns_without_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="numbers are needed"):
        StructuredNoise(("sex",), [[1.0]]).apply(teachers(20), Draws(1))
