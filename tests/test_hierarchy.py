"""What holds for every hierarchy."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hierarchies import AGES, DATES, KINDS, VALUES, ZIP, each_kind
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import Hierarchy, PrefixHierarchy, TreeHierarchy
from sfumato.toml import dump


@each_kind
@given(data=st.data())
def test_a_path_runs_from_the_value_to_the_root_with_one_label_per_level(kind: str, data: st.DataObject) -> None:
    h, value = KINDS[kind], data.draw(VALUES[kind])
    path = h.path(value)
    assert len(path) == h.height + 1
    assert path[-1] == "*"
    assert [h.generalise([value], level)[0] for level in range(h.height + 1)] == list(path)


@each_kind
@given(data=st.data())
def test_generalising_twice_is_generalising_once_to_the_higher_level(kind: str, data: st.DataObject) -> None:
    h = KINDS[kind]
    values = [*data.draw(st.lists(VALUES[kind], max_size=6)), None]
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, h.height)] * 2)))
    once = h.generalise(values, high)
    assert h.generalise(h.generalise(values, low), high).tolist() == once.tolist()
    assert h.generalise(once, low).tolist() == once.tolist(), "what is already general stays"


@each_kind
@given(data=st.data())
def test_the_common_label_is_the_lowest_that_contains_both(kind: str, data: st.DataObject) -> None:
    h = KINDS[kind]
    a, b = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    common = h.common(a, b)
    assert common == h.common(b, a)
    assert h.contains(common, a)
    assert h.contains(common, b)
    first_equal = next(x for x, y in zip(h.path(a), h.path(b), strict=True) if x == y)
    assert common == first_equal


@each_kind
@given(data=st.data())
def test_a_label_stands_on_the_level_where_its_path_begins(kind: str, data: st.DataObject) -> None:
    h, value = KINDS[kind], data.draw(VALUES[kind])
    path = h.path(value)
    for level, label in enumerate(path):
        assert h.level_of(label) == path.index(label) <= level
        assert h.path(label) == path[path.index(label) :]
        assert h.contains(label, value)
        assert h.leaves(path[0]) <= h.leaves(label) <= h.leaves("*")
    assert h.leaves(value) == 1


@each_kind
def test_a_hierarchy_survives_toml(kind: str) -> None:
    h = KINDS[kind]
    text = dump({"hierarchy": h.to_dict()}, "none", [])
    again = Hierarchy.from_dict(tomllib.loads(text)["hierarchy"])
    assert again == h
    assert hash(again) == hash(h)
    assert type(again) is type(h)


@each_kind
def test_missing_values_stay_missing(kind: str) -> None:
    h = KINDS[kind]
    out = h.generalise([None, math.nan, pd.NA, pd.NaT], 1)
    assert out.tolist() == [None] * 4
    assert h.generalise([], 1).tolist() == []
    with pytest.raises(SchemaError, match="missing value has no place"):
        h.path(None)


@each_kind
def test_unknown_values_are_counted_and_never_quoted(kind: str) -> None:
    h = KINDS[kind]
    with pytest.raises(SchemaError) as caught:
        h.generalise(["secret-one", "secret-two", "secret-one", None], 1)
    assert str(caught.value).startswith("2 distinct values are not in this hierarchy. ")
    assert "secret" not in str(caught.value)
    for call in (h.path, h.level_of, h.leaves, lambda v: h.contains("*", v), lambda v: h.common("*", v)):
        with pytest.raises(SchemaError, match="1 value is not in this hierarchy") as caught:
            call("secret-one")
        assert "secret" not in str(caught.value)


@each_kind
@pytest.mark.parametrize("level", [-1, 99, 1.5, "1"])
def test_a_level_outside_the_hierarchy_is_refused_with_the_range(kind: str, level: Any) -> None:
    h = KINDS[kind]
    with pytest.raises(SchemaError, match=f"whole number from 0 to {h.height}"):
        h.generalise([], level)


@pytest.mark.parametrize("values", ["48201", 48201, np.array([["48201"]]), np.array("48201"), [["48201"]]])
def test_only_one_column_of_values_is_generalised(values: Any) -> None:
    with pytest.raises(SchemaError):
        ZIP.generalise(values, 1)


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pd.Categorical, pd.Index, tuple])
def test_values_come_from_lists_arrays_and_columns(make: Callable[[list[str]], Any]) -> None:
    assert ZIP.generalise(make(["48201", "48301", "48201"]), 2).tolist() == ["482**", "483**", "482**"]


def test_hierarchies_are_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        ZIP.length = 6  # type: ignore[misc]
    assert len({ZIP, PrefixHierarchy(5, keep=[4, 3, 2, 1]), AGES}) == 2


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "needs a kind. The kinds are: .*prefix"),
        ({"kind": "prefiks"}, "Did you mean 'prefix'"),
        ({"kind": "prefix"}, "also needs: length"),
        ({"kind": "prefix", "lenght": 5}, "Did you mean 'length'"),
    ],
)
def test_a_wrong_table_is_refused_with_a_hint(table: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Hierarchy.from_dict(table)


@pytest.mark.parametrize(
    ("h", "distinct"),
    [
        (
            TreeHierarchy([[f"{i:04d}", f"{i // 10:03d}x", "*"] for i in range(10_000)]),
            [f"{i:04d}" for i in range(10_000)],
        ),
        (ZIP, list(range(10_000))),
        (AGES, [i / 100 for i in range(10_000)]),
        (AGES, [str(i / 100) for i in range(10_000)]),
        (DATES, [date(1990, 1, 1) + timedelta(days=i) for i in range(10_000)]),
    ],
    ids=["tree", "prefix", "interval", "interval as text", "date"],
)
def test_many_values_of_few_kinds_are_generalised_one_by_one(h: Hierarchy, distinct: list[object]) -> None:
    rows = np.random.default_rng(1).integers(0, 10_000, 30_000)
    known = dict(enumerate(h.generalise(np.array(distinct, dtype=object), 1).tolist()))
    column = np.array(distinct, dtype=object)[rows]
    assert h.generalise(column, 1).tolist() == [known[k] for k in rows.tolist()]
