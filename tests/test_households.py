"""Household and person files: apart, together again, and every refusal."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.contract import Draws
from sfumato.data.households import merge_households, split_households, unit_ids
from sfumato.data.microdata import Microdata
from sfumato.datasets import five
from sfumato.errors import DataError, ParameterError
from sfumato.masks import IndependentNoise, Sample
from sfumato.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("person", "other", "unordered"),  # type: ignore[arg-type]
        Attribute("rent", "confidential", level="household"),  # type: ignore[arg-type]
        Attribute("home", "household", "unordered"),  # type: ignore[arg-type]
        Attribute("town", "key", "unordered", level="household"),  # type: ignore[arg-type]
        Attribute("country", "key", "unordered", level="household", follows="town"),  # type: ignore[arg-type]
        Attribute("pay", "confidential"),  # type: ignore[arg-type]
        Attribute("weight", "weight"),  # type: ignore[arg-type]
    )
)


def table(**changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "person": ["p", "q", "r", "s", "t", "u"],
        "rent": pa.array([900.0, 500.0, 900.0, None, 500.0, 700.0]),
        "home": ["H2", "H9", "H2", "H1", "H9", "H4"],
        "town": ["Bern", "Oslo", "Bern", "Rome", "Oslo", None],
        "country": ["CH", "NO", "CH", "IT", "NO", None],
        "pay": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "weight": [10.0, 20.0, 10.0, 30.0, 20.0, 40.0],
    }
    return pa.table({n: pa.array(v) for n, v in {**columns, **changes}.items()})


def data(**changes: Any) -> Microdata:
    return Microdata(table(**changes), SCHEMA)


def columns(some: Microdata) -> dict[str, list[Any]]:
    return {n: some.batch([n]).column(n).arrow.to_pylist() for n in some.schema.names()}


def test_a_household_file_has_one_record_for_each_household_in_order_of_appearance() -> None:
    households, persons = split_households(data())
    assert columns(households) == {
        "rent": [900.0, 500.0, None, 700.0],
        "home": ["H2", "H9", "H1", "H4"],
        "town": ["Bern", "Oslo", "Rome", None],
        "country": ["CH", "NO", "IT", None],
        "weight": [10.0, 20.0, 30.0, 40.0],
    }
    assert persons.schema.names() == ("person", "home", "pay", "weight")
    assert len(persons) == 6
    assert households.schema["country"].follows == "town"


def test_merging_gives_back_the_same_records() -> None:
    whole = data()
    merged = merge_households(*split_households(whole), whole.schema)
    assert merged.schema == whole.schema
    assert columns(merged) == columns(whole)
    assert merged.digest() == whole.digest()
    np.testing.assert_array_equal(merged.batch([]).ids, whole.batch([]).ids)


def test_without_a_schema_household_columns_stand_after_the_number() -> None:
    merged = merge_households(*split_households(data()))
    assert merged.schema.names() == ("person", "home", "rent", "town", "country", "pay", "weight")
    assert columns(merged) == columns(data())


def test_the_order_of_either_file_does_not_matter() -> None:
    households, persons = split_households(data())
    turned = merge_households(households.take(np.array([3, 1, 0, 2])), persons, SCHEMA)
    assert columns(turned) == columns(data())


def test_data_elsewhere_are_split_too() -> None:
    connection = duckdb.connect()
    connection.from_arrow(table()).create("people")
    there = Microdata(connection.table("people"), SCHEMA)
    assert columns(merge_households(*split_households(there), SCHEMA)) == columns(data())


def test_a_personal_weight_stays_with_the_persons() -> None:
    households, persons = split_households(data(weight=[10.0, 20.0, 11.0, 30.0, 20.0, 40.0]))
    assert "weight" not in households.schema
    assert persons.numbers("weight").tolist() == [10.0, 20.0, 11.0, 30.0, 20.0, 40.0]


def test_masked_files_are_merged_again() -> None:
    households, persons = split_households(data())
    masked = IndependentNoise(columns=("pay",)).apply(persons, Draws(1)).masked
    merged = merge_households(households, masked, SCHEMA)
    assert merged.numbers("rent")[:3].tolist() == [900.0, 500.0, 900.0]
    assert (merged.numbers("pay") != data().numbers("pay")).all()
    few = (
        Sample(size=2, unit="record")
        .apply(households.with_schema(households.schema.roles(other="weight")), Draws(1))
        .masked
    )
    few = few.local({"home", "rent"})
    both = merge_households(few, persons, unmatched="drop")
    assert set(columns(both)["home"]) == set(columns(few)["home"])


def test_members_who_disagree_about_the_household_are_refused() -> None:
    with pytest.raises(DataError, match="column 'rent' describes the household, but the members of 1 households"):
        split_households(data(rent=[900.0, 500.0, 901.0, 1.0, 500.0, 700.0]))


def test_a_record_without_a_household_is_refused() -> None:
    with pytest.raises(DataError, match="2 records have no household number in 'home'"):
        split_households(data(home=["H2", "H9", "H2", None, "H9", None]))


def test_data_without_households_are_refused() -> None:
    plain = five().local({"salary", "weight"})
    with pytest.raises(DataError, match="no column holds the household number"):
        split_households(plain)


def test_files_that_do_not_match_are_refused_or_cut_to_what_matches() -> None:
    households, persons = split_households(data())
    fewer = households.take(np.array([0, 1]))
    with pytest.raises(
        DataError, match="2 persons have a household that is not in the household file, and 0 households"
    ):
        merge_households(fewer, persons)
    with pytest.raises(DataError, match=r"0 persons .* and 1 households have no person"):
        merge_households(households, persons.take(np.array([0, 1, 2, 3, 4])))
    assert len(merge_households(fewer, persons, unmatched="drop")) == 4
    with pytest.raises(ParameterError, match="unmatched must be"):
        merge_households(fewer, persons, unmatched="ignore")  # type: ignore[arg-type]
    nobody = households.take(np.zeros(0, np.int64))
    assert len(merge_households(nobody, persons, unmatched="drop")) == 0


def test_a_number_that_stands_twice_in_the_household_file_is_refused() -> None:
    households, persons = split_households(data())
    with pytest.raises(DataError, match="stand there more than once"):
        merge_households(households.take(np.array([0, 1, 2, 3, 1])), persons)


def test_columns_and_weights_that_contradict_each_other_are_refused() -> None:
    households, persons = split_households(data())
    rows = households.batch()
    other = Microdata(
        households.engine.hold(rows.replace("weight", lambda: np.array([1.0, 20, 30, 40])).rows), households.schema
    )
    with pytest.raises(DataError, match="'weight' differs between the two files for 2 persons"):
        merge_households(other, persons)
    with pytest.raises(DataError, match="column 'rent' is in both files"):
        merge_households(households, data())
    renamed = households.batch()
    columns_ = {("number" if n == "home" else n): c for n, c in renamed.rows.columns.items()}
    schema = Schema(tuple(a.with_(name="number") if a.name == "home" else a for a in households.schema))
    moved = Microdata(pa.table({n: c.arrow for n, c in columns_.items()}), schema)
    with pytest.raises(DataError, match="the household number has another name"):
        merge_households(moved, persons)


def test_units_are_households_where_there_are_any() -> None:
    batch = data(home=["H2", "H9", "H2", None, "H9", None]).batch()
    units = unit_ids(batch, "household")
    assert len(set(units.tolist())) == 4
    assert units[0] == units[2]
    assert unit_ids(batch, "record").tolist() == list(range(6))
