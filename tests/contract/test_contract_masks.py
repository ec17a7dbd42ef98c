"""Promises kept by every registered mask: those of sfumato.testing, and the same release on every engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract_cases import MASKS, extreme_data, on_spark

from sfumato.contract import Mask
from sfumato.data.microdata import Microdata
from sfumato.testing import DRAWS, EXTREMES, MASK_PROMISES, masks_extreme_data, require_same


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("promise", MASK_PROMISES)
def test_a_mask_keeps_every_promise(promise: Callable[[Mask, Microdata], None], mask: Mask, data: Microdata) -> None:
    promise(mask, data)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_a_mask_masks_extreme_data_or_refuses_them_in_a_sentence(mask: Mask, extreme: str) -> None:
    masks_extreme_data(mask, extreme_data(extreme))


def assert_same_release(mask: Mask, one: Microdata, two: Microdata) -> None:
    here, there = mask.apply(one, DRAWS), mask.apply(two, DRAWS)
    # covariances are summed in another order there, so the last digits may differ
    require_same(here.masked, there.masked, tolerance=1e-9)
    assert [(g.step, g.says) for g in here.guarantees] == [(g.step, g.says) for g in there.guarantees]


@pytest.mark.parametrize("mask", MASKS)
def test_duckdb_gives_the_same_release(mask: Mask, data: Microdata, data_on_duckdb: Microdata) -> None:
    assert_same_release(mask, data, data_on_duckdb)


@pytest.mark.parametrize("mask", on_spark(MASKS))
def test_spark_gives_the_same_release(mask: Mask, data: Microdata, data_on_spark: Microdata) -> None:
    assert_same_release(mask, data, data_on_spark)
