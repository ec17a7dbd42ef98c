"""Mistakes that other tools made, asked of every mask (../shared/PEERS.md)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from contract_cases import MASKS

from sfumato.contract import Mask, Scope
from sfumato.data import Kind
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.testing import DRAWS, NUMBERS, RECORDS, SCHEMA, arrow_table, require_same, require_sentence, with_column


@pytest.mark.parametrize("mask", MASKS)
def test_a_frame_with_an_index_of_its_own_is_read_by_its_rows_and_not_by_its_index(mask: Mask) -> None:
    plain = arrow_table().to_pandas()
    odd = plain.set_axis(np.random.default_rng(8).permutation(RECORDS) * 7 + 3, axis=0)
    one, two = (mask.apply(Microdata(frame, SCHEMA), DRAWS).masked for frame in (plain, odd))
    require_same(one, two)


@pytest.mark.parametrize("mask", MASKS)
def test_no_row_number_of_the_original_is_left_in_the_output(mask: Mask) -> None:
    frame = arrow_table().to_pandas().set_axis(np.arange(RECORDS) + 1_000_000, axis=0)
    out = mask.apply(Microdata(frame, SCHEMA), DRAWS).masked.to_native()
    assert isinstance(out, pd.DataFrame)
    assert out.index.tolist() == list(range(len(out)))
    assert not np.isin(out.select_dtypes("number").to_numpy(np.float64), np.arange(RECORDS) + 1_000_000).any()


def assert_refused_as(words: str, error: SfumatoError, data: Microdata) -> None:
    assert words in str(error)
    require_sentence(error, data)


@pytest.mark.parametrize("mask", MASKS)
def test_minus_999_is_a_value_like_any_other_unless_the_schema_says_otherwise(mask: Mask) -> None:
    def values(n: int) -> pa.Array:
        pay = np.round(np.random.default_rng(4).normal(0, 800, n), 1)
        pay[::40] = -999.0
        return pa.array(pay)

    data = Microdata(with_column("pay", values)(arrow_table()), SCHEMA)
    try:
        made = mask.apply(data, DRAWS)
    except SfumatoError as error:  # a value that has no logarithm is refused as the number that it is
        assert_refused_as("zero or negative", error, data)
        return
    if not (mask.keeps_records and mask.keeps_missing) or made.masked.kind("pay") is not Kind.NUMBER:
        return
    before, after = made.pair("pay")
    assert not np.isnan(after).any()
    assert before[::40].tolist() == [-999.0] * len(before[::40])


@pytest.mark.parametrize("mask", MASKS)
def test_text_keys_of_many_levels_are_told_apart(mask: Mask) -> None:
    keys = [f"place-{i:06d}" for i in range(RECORDS)]
    data = Microdata(with_column("region", lambda n: pa.array(keys))(arrow_table()), SCHEMA)
    try:
        made = mask.apply(data, DRAWS)
    except SfumatoError as error:
        require_sentence(error, data)
        return
    if "region" in mask.touches(data.schema) or not mask.keeps_records:
        return
    after = made.masked.batch(["region"])
    assert sorted(after.column("region").arrow.to_pylist()) == keys


@pytest.mark.parametrize("mask", MASKS)
def test_linearly_dependent_columns_stay_within_reason(mask: Mask) -> None:
    t = arrow_table()
    rent = np.asarray(t["rent"].to_numpy())
    data = Microdata(with_column("pay", lambda n: pa.array(3.0 * rent + 100.0))(t), SCHEMA)
    made = mask.apply(data, DRAWS)
    for name in NUMBERS:
        if name not in made.masked.schema or made.masked.kind(name) is not Kind.NUMBER:
            continue
        after, before = made.masked.numbers(name), data.numbers(name)
        spread = np.nanmax(before) - np.nanmin(before)
        centre = np.nanmean(before)
        known = after[~np.isnan(after)]
        assert (np.abs(known - centre) <= 60 * spread).all(), name


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_on_all_records_does_not_hang_on_the_order_of_the_rows(mask: Mask) -> None:
    """The hidden id counts, not the position: the same records in another order in memory are masked alike."""
    if mask.scope is Scope.ROW:
        return  # shown for pieces in any order already
    data = Microdata(arrow_table(), SCHEMA)
    turned = data.reorder(lambda ids: -ids.astype(np.float64))
    assert turned.batch([]).ids[0] == RECORDS - 1
    require_same(mask.apply(data, DRAWS).masked, mask.apply(turned, DRAWS).masked, tolerance=1e-9)
