"""The generated business survey: holdings, hierarchies, sizes, weights, and cells that disclose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata, Schema
from sfumato.datasets import business
from sfumato.errors import ParameterError
from sfumato.schema import Role
from sfumato.tables import Table


def frame(data: Microdata) -> pd.DataFrame:
    found = data.batch()
    return pd.DataFrame({n: found.column(n).arrow.to_pylist() for n in data.schema.names()})


@pytest.mark.parametrize("n", [1, 2, 37, 8_000])
def test_as_many_enterprises_as_asked_for_each_with_one_owner(n: int) -> None:
    data = business(n)
    records = frame(data)
    assert len(records) == n
    assert records.enterprise.is_unique
    assert not records.isna().any().any()
    assert data.schema.one("contributor") == "holding"
    assert (records.groupby("holding")[["waiver", "request"]].nunique() == 1).all().all()


def test_some_holdings_own_several_enterprises_in_several_regions_and_sectors() -> None:
    records = frame(business(8_000))
    owned = records.groupby("holding").agg(n=("enterprise", "size"), r=("region", "nunique"), s=("sector", "nunique"))
    several = owned[owned.n > 1]
    assert 0.05 < several.n.sum() / len(records) < 0.4
    assert ((several.r > 1) & (several.s > 1)).mean() > 0.2
    assert (several.r == 1).any()


def test_regions_and_sectors_stand_in_groups_as_columns_and_as_hierarchies() -> None:
    data = business(3_000)
    records = frame(data)
    for name in ("region", "sector"):
        assert (records.groupby(name)[f"{name}_group"].nunique() == 1).all()
        tree = data.schema[name].hierarchy
        assert tree is not None
        groups = dict(zip(records[name], records[f"{name}_group"], strict=True))
        assert {value: tree.path(value)[1] for value in groups} == groups
        assert business(10, hierarchies=False).schema[name].hierarchy is None
    nested = Table.of(data, "region * sector", "turnover")
    linked = Table.of(
        business(3_000, hierarchies=False),
        "region * sector + region_group * sector + region * sector_group + region_group * sector_group",
        "turnover",
    )
    assert len(nested) == len(linked)
    assert sorted(nested.value) == pytest.approx(sorted(linked.value))


def test_turnover_follows_size_and_has_a_long_tail() -> None:
    records = frame(business(8_000))
    assert np.corrcoef(np.log(records.employees), np.log1p(records.turnover))[0, 1] > 0.7
    assert records.turnover.nlargest(80).sum() > 0.2 * records.turnover.sum()
    assert (records.turnover >= 0).all()
    assert (records.employees >= 1).all()


def test_the_large_are_all_in_the_survey_and_the_small_stand_for_others() -> None:
    records = frame(business(8_000))
    large = records.employees >= 50
    assert large.mean() > 0.03
    assert (records.weight[large] == 1).all()
    assert (records.weight[records.employees < 10] > 4).all()
    assert (records.weight >= 1).all()
    assert (records.groupby("stratum").weight.nunique() == 1).all()
    # weight × records drawn is a whole number of enterprises
    in_stratum = records.groupby("stratum").weight.sum()
    assert in_stratum.to_numpy() == pytest.approx(np.round(in_stratum))


def test_some_cells_have_one_contributor_some_two_and_some_are_dominated() -> None:
    table = Table.of(business(8_000), "region * sector * kind", "turnover", size="employees", per_size="ratio")
    largest = table.largest(2)
    assert (largest.contributors == 1).sum() >= 5
    assert (largest.contributors == 2).sum() >= 5
    remainder = table.value - (largest.values * largest.weights).sum(axis=1)
    dominated = (largest.contributors > 2) & (remainder < 0.1 * largest.values[:, 0])
    assert dominated.sum() >= 5
    assert table.contributions is not None
    assert table.contributions.size is not None


def test_the_number_of_regions_and_sectors_is_free() -> None:
    data = business(40_000, regions=40, sectors=30)
    assert frame(data).region.nunique() == 40
    assert len(Table.of(data, "region * sector * kind", "turnover")) > 5_000
    assert frame(business(50, regions=1, sectors=2)).region.nunique() == 1


def test_the_same_seed_gives_the_same_file_and_the_schema_survives_toml() -> None:
    assert business(300).digest() == business(300).digest()
    assert business(300).digest() != business(300, seed=1).digest()
    schema = business(5).schema
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.names(role=Role.CONFIDENTIAL) == ("turnover",)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"regions": 0}, {"sectors": 0}])
def test_a_survey_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="at least one enterprise"):
        business(**wrong)
