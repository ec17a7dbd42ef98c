"""The generated bills: the columns, scales and sizes of the global-risk paper's files."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sfumato.datasets import BILLING_SIZES, billing
from sfumato.errors import ParameterError
from sfumato.schema import Role, Scale


@pytest.mark.parametrize("n", BILLING_SIZES)
def test_the_three_files_have_the_papers_sizes_roles_and_scales(n: int) -> None:
    data = billing(n)
    schema = data.schema
    assert len(data) == n
    assert schema.names(role="identifier") == ("name", "ssn")
    assert schema.names(role="confidential") == ("amount_billed",)
    assert {k: schema[k].scale for k in schema.names(role="key")} == {
        "age": Scale.ORDERED,
        "sex": Scale.UNORDERED,
        "zip": Scale.PARTIALLY_ORDERED,
    }


def test_ages_are_whole_years_from_0_to_100_and_zip_codes_have_five_digits() -> None:
    data = billing(25_000)
    age = data.numbers("age")
    assert age.min() == 0
    assert age.max() == 100
    assert (age == np.round(age)).all()
    codes, zips = data.batch(["zip"]).column("zip").codes
    assert all(re.fullmatch(r"4[3689][0-9]{3}", z) for z in zips)
    assert data.schema["zip"].hierarchy is not None
    assert data.schema["zip"].hierarchy.path(zips[0])[-1] == "*"
    counts = np.bincount(codes)
    assert len(zips) > len(np.unique(age)) > 2  # zip has most values, sex fewest
    assert counts.max() > 20 * np.median(counts)


def test_identifiers_are_unique_numbers_and_amounts_are_skewed() -> None:
    batch = billing(5_000).batch()
    numbers = batch.column("ssn").arrow.to_pylist()
    assert len(set(numbers)) == 5_000
    assert all(re.fullmatch(r"\d{3}-\d{2}-\d{4}", s) for s in numbers)
    amount = batch.numbers("amount_billed")
    assert amount.min() > 0
    assert amount.mean() > 1.3 * np.median(amount)
    old = batch.numbers("age") > 60
    assert np.median(amount[old]) > np.median(amount[~old])


def test_the_same_seed_gives_the_same_file_and_another_seed_another() -> None:
    assert billing(500).digest() == billing(500).digest()
    assert billing(500).digest() != billing(500, seed=1).digest()
    assert billing(1).schema[("age")].role is Role.KEY


def test_a_file_without_records_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least one"):
        billing(0)
