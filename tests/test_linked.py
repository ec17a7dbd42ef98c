"""Columns that follow another stay a function of it, whatever is done to the key."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.contract import Mask, Scope, param
from sfumato.data.microdata import Batch
from sfumato.errors import DataError
from sfumato.masks import ChangeRare, Recode, SuppressValues

DISTRICTS = ["a1", "a2", "b1", "b2", "b3"]
REGION = {"a1": "A", "a2": "A", "b1": "B", "b2": "B", "b3": "B"}
CAPITAL = {"A": "Aby", "B": "Bro"}


class _Turn(Mask):
    """For these tests: put the next district in the place of each."""

    column: str = param(doc="the key", columns="one", holds="categories")

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        codes, values = batch.column(self.column).codes
        table = np.array([DISTRICTS.index(v) for v in values] + [0])
        new = np.where(codes < 0, -1, (table[codes] + 1) % len(DISTRICTS))
        return batch.with_columns({self.column: _text([None if c < 0 else DISTRICTS[c] for c in new])})

    def touches(self, schema: Schema) -> tuple[str, ...]:
        return (self.column,)


class _TurnTogether(_Turn):
    """The same, as a method that sees all records at once."""

    scope = Scope.GLOBAL


class _Merge(_Turn):
    """For these tests: merge districts under a new name."""

    names: Any = param(default=None, doc="new names by district")

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        new = [self.names.get(v, v) if v else None for v in batch.column(self.column).arrow.to_pylist()]
        return batch.with_columns({self.column: _text(new)})


class _Add(_Turn):
    """For these tests: add a fixed amount to numbers."""

    amount: float = param(default=0.4, doc="how much", low=-1e6, high=1e6)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        return batch.replace(self.column, lambda: batch.numbers(self.column) + self.amount)


def _text(values: list[str | None]) -> Any:
    from sfumato.data import Column

    return Column(pa.array(values, pa.string()))


def _data(n: int = 40, where: str = "memory", district: list[str | None] | None = None) -> Microdata:
    district = district or [DISTRICTS[i % 5] if i % 7 else None for i in range(n)]
    region = [REGION[d] if d else "A" for d in district]
    table = pa.table(
        {"district": district, "region": region, "capital": [CAPITAL[r] for r in region], "pay": np.arange(n) * 1.0}
    )
    schema = Schema(
        (
            Attribute("district", "key", "unordered"),  # type: ignore[arg-type]
            Attribute("region", "key", "unordered", follows="district"),  # type: ignore[arg-type]
            Attribute("capital", "other", "unordered", follows="region"),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
        )
    )
    if where == "memory":
        return Microdata(table, schema)
    connection = duckdb.connect()
    connection.from_arrow(table).create("people")
    return Microdata(connection.table("people"), schema)


def _lists(data: Microdata, *names: str) -> list[list[Any]]:
    return [data.batch([n]).column(n).arrow.to_pylist() for n in names]


@pytest.mark.parametrize("where", ["memory", "DuckDB"])
@pytest.mark.parametrize("mask", [_Turn("district"), _TurnTogether("district")], ids=["row", "global"])
def test_a_follower_takes_the_value_that_goes_with_the_new_key_and_so_does_its_own_follower(
    mask: Mask, where: str
) -> None:
    made = mask.apply(_data(where=where), Draws(1)).masked
    districts, regions, capitals = _lists(made, "district", "region", "capital")
    assert districts != _lists(_data(), "district")[0]
    for district, region, capital in zip(districts, regions, capitals, strict=True):
        if district is not None:
            assert region == REGION[district]
        assert capital == CAPITAL[region]


def test_where_the_key_was_missing_and_stays_missing_the_follower_stays() -> None:
    data = _data()
    made = _Turn("district").apply(data, Draws(1)).masked
    before, after = _lists(data, "district", "region"), _lists(made, "district", "region")
    gaps = [i for i, d in enumerate(before[0]) if d is None]
    assert gaps
    assert [after[1][i] for i in gaps] == [before[1][i] for i in gaps]


@pytest.mark.parametrize("where", ["memory", "DuckDB"])
def test_a_key_that_no_record_had_keeps_a_follower_that_its_records_share_and_loses_one_they_do_not(where: str) -> None:
    data = _data(where=where)
    shared = _Merge("district", {"a1": "a", "a2": "a"}).apply(data, Draws(1)).masked
    assert _lists(shared, "region") == _lists(data, "region")
    mixed = _Merge("district", {"a2": "ab", "b1": "ab"}).apply(data, Draws(1)).masked
    for district, region in zip(*_lists(mixed, "district", "region"), strict=True):
        if district == "ab":
            assert region is None
        elif district is not None:
            assert region == REGION[district]


def test_a_suppressed_key_suppresses_its_follower() -> None:
    made = _Merge("district", {"b1": None}).apply(_data(), Draws(1)).masked
    before = _lists(_data(), "district")[0]
    for old, region in zip(before, _lists(made, "region")[0], strict=True):
        assert (region is None) == (old == "b1")


def test_a_column_that_is_no_function_of_its_key_is_refused_without_quoting_a_value() -> None:
    table = pa.table({"district": ["a1", "a1"], "region": ["A", "B"], "capital": ["Aby", "Bro"], "pay": [1.0, 2.0]})
    data = Microdata(table, _data().schema)
    with pytest.raises(
        DataError, match="'region' is said to follow 'district', but 1 values of 'district' go with"
    ) as e:
        _Turn("district").apply(data, Draws(1))
    assert "a1" not in str(e.value)


@pytest.mark.parametrize("where", ["memory", "DuckDB"])
def test_numbers_that_follow_numbers_are_interpolated_and_bands_are_those_of_the_nearest_number(where: str) -> None:
    age = np.array([20.0, 25, 31, 38, 40, 52, np.nan])
    table = pa.table(
        {"age": age, "months": 12 * age, "band": ["20s", "20s", "30s", "30s", "40s", "50s", None], "pay": age}
    )
    schema = Schema(
        (
            Attribute("age", "key"),  # type: ignore[arg-type]
            Attribute("months", "other", follows="age"),  # type: ignore[arg-type]
            Attribute("band", "other", "unordered", follows="age"),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
        )
    )
    source: Any = table
    if where == "DuckDB":
        connection = duckdb.connect()
        connection.from_arrow(table).create("people")
        source = connection.table("people")
    made = _Add("age", amount=1.4).apply(Microdata(source, schema), Draws(1)).masked
    np.testing.assert_allclose(made.numbers("months"), 12 * (age + 1.4))
    # 21.4 is nearest 20, 26.4 to 25, 32.4 to 31, 39.4 to 40, 41.4 to 40, 53.4 to 52
    assert _lists(made, "band")[0] == ["20s", "20s", "30s", "40s", "40s", "50s", None]


def test_a_mask_that_leaves_the_key_alone_leaves_its_followers_alone() -> None:
    data = _data()
    made = _Add("pay").apply(data, Draws(1)).masked
    for name in ("district", "region", "capital"):
        assert made.batch([name]).column(name).equals(data.batch([name]).column(name))


def test_a_number_that_is_recoded_to_words_keeps_a_follower_that_its_records_share() -> None:
    table = pa.table({"age": [21, 24, 35, 38], "band": ["20s", "20s", "30s", "30s"], "pay": [1.0, 2, 3, 4]})
    schema = Schema(
        (
            Attribute("age", "key"),  # type: ignore[arg-type]
            Attribute("band", "other", "unordered", follows="age"),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
        )
    )
    made = Recode({"age": {"21": "young", "24": "young", "35": "in between", "38": "in between"}})
    assert _lists(made.apply(Microdata(table, schema), Draws(1)).masked, "band")[0] == ["20s", "20s", "30s", "30s"]
    made = Recode({"age": {"21": "a", "24": "b", "35": "b", "38": "c"}})
    assert _lists(made.apply(Microdata(table, schema), Draws(1)).masked, "band")[0] == ["20s", None, None, "30s"]


@pytest.mark.parametrize("where", ["memory", "DuckDB"])
def test_who_loses_the_column_between_keeps_what_the_masked_one_still_tells(where: str) -> None:
    # a tract released as its region has no district any more, but its region is known, and so is the region's capital
    data = _data(where=where)
    schema = Schema(
        (
            Attribute("tract", "key", "unordered"),  # type: ignore[arg-type]
            *(a.with_(follows="tract") if a.name == "district" else a for a in data.schema),
        )
    )
    district, region, capital, pay = _lists(_data(district=DISTRICTS * 8), "district", "region", "capital", "pay")
    tract = [f"{d}{i % 3}" for i, d in enumerate(district)]
    table: Any = pa.table({"tract": tract, "district": district, "region": region, "capital": capital, "pay": pay})
    if where == "DuckDB":
        connection = duckdb.connect()
        connection.from_arrow(table).create("people")
        table = connection.table("people")
    release = Recode({"tract": {t: t[0] for t in set(tract)}}).apply(Microdata(table, schema), Draws(1))
    assert _lists(release.masked, "region", "capital") == [region, capital]
    assert _lists(release.masked, "district")[0] == [None] * 40
    said = [g.says for g in release.guarantees]
    assert any("district: missing for 40 more records" in says for says in said)
    assert not any(says.startswith("region") for says in said)


def test_a_follower_that_a_method_only_looks_at_follows_all_the_same() -> None:
    data = _data(60)
    for mask in (ChangeRare("district", share=0.5), SuppressValues(["district"], where="region == 'A'")):
        made = mask.apply(data, Draws(3)).masked
        old, new = _lists(data, "district")[0], _lists(made, "district")[0]
        assert old != new
        for was, district, region in zip(old, *_lists(made, "district", "region"), strict=True):
            if was is not None:
                assert region == (REGION[district] if district else None)


def test_a_follower_that_is_masked_by_itself_follows_no_more_and_later_steps_can_go_on() -> None:
    data = _data(60)
    recipe = ChangeRare("region", keys=["pay"], share=0.5) >> _Turn("district")
    made = recipe.apply(data, Draws(3)).masked
    assert made.schema["region"].follows is None
    assert made.schema["capital"].follows == "region"
    for region, capital in zip(*_lists(made, "region", "capital"), strict=True):
        assert capital == CAPITAL[region]
    kept = Recode({"region": {"A": "x", "B": "x"}}).apply(data, Draws(3)).masked  # still a function of the district
    assert kept.schema["region"].follows == "district"


def test_codes_that_follow_numbers_are_not_interpolated_and_missing_codes_and_bounds_are_respected() -> None:
    age = np.array([20.0, 30, 40, 50])
    table = pa.table({"age": age, "code": [7, 3, 9, 5], "years": [2.0, 12, -9, 32], "pay": age})
    schema = Schema(
        (
            Attribute("age", "key"),  # type: ignore[arg-type]
            Attribute("code", "other", "unordered", follows="age"),  # type: ignore[arg-type]
            Attribute("years", "other", follows="age", missing=(-9,), bounds=(0, 34)),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
        )
    )
    made = _Add("age", amount=4.0).apply(Microdata(table, schema), Draws(1)).masked
    assert _lists(made, "code")[0] == [7, 3, 9, 5]
    # 24 lies between 20 and 30; 34 and 44 have a neighbour that is not known; 54 is beyond a known one beside an unknown
    np.testing.assert_allclose(made.numbers("years"), [6, np.nan, np.nan, np.nan])
    downwards = _Add("age", amount=-4.0).apply(Microdata(table, schema), Draws(1)).masked
    np.testing.assert_allclose(downwards.numbers("years")[:2], [0, 8])  # 2 - 4 is below the bound


def test_a_follower_of_a_hundred_thousand_values_follows_without_ado() -> None:
    n = 100_000
    table = pa.table({"tract": [f"t{i}" for i in range(n)], "home": [f"h{i}" for i in range(n)], "pay": np.ones(n)})
    schema = Schema(
        (
            Attribute("tract", "key", "unordered"),  # type: ignore[arg-type]
            Attribute("home", "other", "unordered", follows="tract"),  # type: ignore[arg-type]
            Attribute("pay", "confidential"),  # type: ignore[arg-type]
        )
    )
    mask = Recode({"tract": {"t0": "t1", "t5": "new"}}, unlisted="keep")
    home = _lists(mask.apply(Microdata(table, schema), Draws(1)).masked, "home")[0]
    assert (home[0], home[1], home[5], home[n - 1]) == ("h1", "h1", "h5", f"h{n - 1}")


def test_what_a_link_has_learned_travels_to_workers_whole() -> None:
    import pickle

    from sfumato.contract.linked_columns import Link

    data = _data()
    link = Link("region", "district", False)
    link.learn(data.batch(), _Merge("district", {"a2": "ab", "b1": "ab"}).transform(data.batch(), Draws(1)))
    there = pickle.loads(pickle.dumps(link))
    assert there.made["ab"] is link.made["ab"]
