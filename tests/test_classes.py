"""Equivalence classes, on every engine and under each rule for missing keys, against comparing every pair of records."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.contract import Draws
from sfumato.data.classes import Classes, Missing, classes_of
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.classes import find_rows
from sfumato.kernels.matching import wildcard_sums
from sfumato.masks import RandomOrder
from sfumato.schema import Attribute, Schema

RULES: tuple[Missing, ...] = ("wildcard", "value", "ignored")


def slow_matches(rows: list[tuple[Any, ...]], rule: Missing) -> list[float]:
    """Compare every record with every other."""
    found = []
    for a in rows:
        if rule == "ignored" and None in a:
            found.append(math.nan)
            continue
        others = [b for b in rows if rule != "ignored" or None not in b]
        wild = rule == "wildcard"
        found.append(sum(all(x == y or (wild and None in (x, y)) for x, y in zip(a, b, strict=True)) for b in others))
    return [float(v) for v in found]


records = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 0.5, -0.0, 0.0])
    ),
    min_size=1,
    max_size=25,
)


def frame(rows: list[tuple[Any, ...]]) -> pa.Table:
    x, y, z = zip(*rows, strict=True)
    return pa.table(
        {
            "x": pa.array(x, pa.string()),
            "y": pa.array(y, pa.int64()),
            "z": pa.array(z, pa.float64()),
            "w": pa.array(np.arange(1.0, len(x) + 1)),
        }
    )


SCHEMA = Schema(
    (Attribute("x", "key", "unordered"), Attribute("y", "key"), Attribute("z", "key"), Attribute("w", "weight"))  # type: ignore[arg-type]
)


@given(records, st.sampled_from(RULES))
def test_matches_are_those_of_comparing_every_pair(rows: list[tuple[Any, ...]], rule: Missing) -> None:
    found = classes_of(Microdata(frame(rows), SCHEMA), ["x", "y", "z"], rule)
    np.testing.assert_array_equal(found.per_record(found.matches), slow_matches(rows, rule))
    assert found.records == len(rows)


@given(records, st.sampled_from(RULES))
def test_matched_weights_are_those_of_comparing_every_pair(rows: list[tuple[Any, ...]], rule: Missing) -> None:
    found = classes_of(Microdata(frame(rows), SCHEMA), ["x", "y", "z"], rule, weight="w")
    wild = rule == "wildcard"
    for i, a in enumerate(rows):
        expected = sum(
            j + 1
            for j, b in enumerate(rows)
            if all(x == y or (wild and None in (x, y)) for x, y in zip(a, b, strict=True))
            and not (rule == "ignored" and None in b)
        )
        if rule == "ignored" and None in a:
            assert found.labels[i] == -1
        else:
            assert found.matched_weights[found.labels[i]] == expected


@given(records, st.sampled_from(RULES), st.sampled_from([["x"], ["z", "x"], ["y", "z"]]))
def test_classes_by_some_of_the_keys_are_those_of_counting_anew(
    rows: list[tuple[Any, ...]], rule: Missing, names: list[str]
) -> None:
    data = Microdata(frame(rows), SCHEMA)
    part = classes_of(data, ["x", "y", "z"], rule, weight="w").among(names)
    if rule == "ignored":  # who lacks any of the first keys stays out
        rows = [row if None not in row else (None, None, None) for row in rows]
    places = ["xyz".index(name) for name in names]
    expected = slow_matches([tuple(row[i] for i in places) for row in rows], rule)
    np.testing.assert_array_equal(part.per_record(part.matches), expected)
    assert part.weights is not None


@given(records, records, st.sampled_from(RULES))
def test_counts_in_another_file_are_those_of_comparing_every_pair(
    mine: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], rule: Missing
) -> None:
    ours, other = (classes_of(Microdata(frame(rows), SCHEMA), ["x", "y", "z"], rule) for rows in (mine, theirs))
    counted = ours.counts_in(other)
    for i, a in enumerate(mine):
        if ours.labels[i] < 0:
            continue
        wild = rule == "wildcard"
        expected = sum(
            all(x == y or (wild and None in (x, y)) for x, y in zip(a, b, strict=True))
            for b in theirs
            if not (rule == "ignored" and None in b)
        )
        assert counted[ours.labels[i]] == expected


def test_a_population_table_counts_persons_by_its_weight() -> None:
    sample = classes_of(Microdata(frame([("a", 1, None), ("b", 1, 0.5)]), SCHEMA), ["x", "y"])
    population = classes_of(
        Microdata(frame([("a", 1, 0.5), ("b", 2, 0.5), ("a", 1, 0.0)]), SCHEMA), ["x", "y"], weight="w"
    )
    np.testing.assert_array_equal(sample.per_record(sample.counts_in(population)), [1 + 3, 0])


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 60), st.integers(1, 3))
def test_wildcard_sums_are_those_of_comparing_every_pair(seed: int, keys: int, rows: int, levels: int) -> None:
    g = np.random.default_rng(seed)
    codes = g.integers(-1, levels, (rows, keys)).astype(np.int32)
    amounts = g.integers(0, 9, (rows, 2)).astype(np.float64)
    agree = ((codes[:, None] == codes[None]) | (codes[:, None] < 0) | (codes[None] < 0)).all(axis=2)
    np.testing.assert_array_equal(wildcard_sums(codes, amounts), agree @ amounts)


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_rows_are_found_in_a_table_of_combinations(seed: int, keys: int) -> None:
    g = np.random.default_rng(seed)
    table = np.unique(g.integers(-1, 3, (15, keys)), axis=0)
    rows = g.integers(-1, 4, (20, keys))
    found = find_rows(list(table.T), list(rows.T))
    where = {tuple(row): i for i, row in enumerate(table.tolist())}
    assert found.tolist() == [where.get(tuple(row), -1) for row in rows.tolist()]


def many_keys(n: int) -> pa.Table:
    g = np.random.default_rng(5)
    return pa.table({f"k{i}": pa.array(g.integers(0, 2**16, n), mask=g.random(n) < 0.2) for i in range(12)})


def test_twelve_keys_of_many_values_do_not_run_out_of_room() -> None:
    table = many_keys(50)
    rows = list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    schema = Schema(tuple(Attribute(name, "key") for name in table.column_names))  # type: ignore[arg-type]
    found = classes_of(Microdata(table, schema), table.column_names)
    np.testing.assert_array_equal(found.per_record(found.matches), slow_matches(rows, "wildcard"))


# The same on every engine


def people(n: int = 300) -> pa.Table:
    g = np.random.default_rng(7)
    number = np.round(g.normal(0, 2, n), 0) / 2
    number[g.random(n) < 0.05] = np.nan
    return pa.table(
        {
            "x": pa.array(np.array(["a", "é", "c'\""], object)[g.integers(0, 3, n)], mask=g.random(n) < 0.1),
            "y": pa.array(g.integers(0, 4, n), mask=g.random(n) < 0.1),
            "z": pa.array(np.where(number == 0, -0.0, number), mask=g.random(n) < 0.1),
            "age": g.integers(-20, 90, n),
            "flag": g.random(n) < 0.5,
            "w": g.integers(1, 9, n).astype(np.float64),
        }
    )


PEOPLE = Schema(
    (
        Attribute("x", "key", "unordered"), Attribute("y", "key", missing=(3,)), Attribute("z", "key"),  # type: ignore[arg-type]
        Attribute("age", "key"), Attribute("flag", "key", "unordered"), Attribute("w", "weight"),  # type: ignore[arg-type]
    )
)  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[
        "duckdb", "duckdb written", "duckdb reordered", "spark written", pytest.param("spark", marks=pytest.mark.verify),
    ],
)  # fmt: skip
def elsewhere(request: pytest.FixtureRequest) -> Microdata:
    if request.param.startswith("spark"):
        data = Microdata(request.getfixturevalue("spark").createDataFrame(people()), PEOPLE)
    else:
        connection = duckdb.connect()
        connection.from_arrow(people()).create("people")
        data = Microdata(connection.table("people"), PEOPLE)
    if "written" in request.param:
        data = data.transform(lambda batch: batch, PEOPLE)
    if "reordered" in request.param:
        data = RandomOrder().apply(data, Draws(1)).masked
    return data


def table_of(found: Classes) -> dict[tuple[Any, ...], tuple[int, int, float]]:
    weights = found.weights
    assert weights is not None
    keys = [
        tuple(None if c[i] < 0 else v[c[i]] for c, v in zip(found.codes, found.values, strict=True))
        for i in range(len(found))
    ]
    assert len(set(keys)) == len(keys)
    return {key: (int(found.sizes[i]), int(found.matches[i]), float(weights[i])) for i, key in enumerate(keys)}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("names", [["x"], ["z"], ["x", "y", "z"], ["age", "flag", "y"]])
def test_every_engine_counts_the_same_classes(elsewhere: Microdata, rule: Missing, names: list[str]) -> None:
    widths = {"age": 7.0} if "age" in names else {}
    here = classes_of(Microdata(people(), PEOPLE), names, rule, "w", widths)
    there = classes_of(elsewhere, names, rule, "w", widths)
    assert table_of(there) == table_of(here)
    ids = elsewhere.batch([]).ids
    np.testing.assert_array_equal(there.per_record(there.matches), here.per_record(here.matches)[ids])
    assert there.records == here.records


@pytest.mark.parametrize("names", [["x", "flag"], ["z", "age"], []])
def test_every_engine_groups_the_same(elsewhere: Microdata, names: list[str]) -> None:
    def told(engine: Any) -> dict[tuple[Any, ...], tuple[int, float]]:
        groups = engine.group(names, ["w"], {"age": 10.0} if "age" in names else None)
        columns = [groups.columns[n].arrow.to_pylist() for n in names]
        keys = list(zip(*columns, strict=True)) if names else [()]
        return {key: (int(groups.counts[i]), float(groups.sums["w"][i])) for i, key in enumerate(keys)}

    assert told(elsewhere.engine) == told(Microdata(people(), PEOPLE).engine)


def test_a_number_that_stands_for_missing_is_missing_in_intervals_too(elsewhere: Microdata) -> None:
    known = [None if v == 3 else v for v in people()["y"].to_pylist()]  # 3 is the code for missing
    for data in (elsewhere, Microdata(people(), PEOPLE)):
        found = classes_of(data, ["y"], "ignored", None, {"y": 2.0})
        sizes = {found.values[0][c]: int(size) for c, size in zip(found.codes[0], found.sizes, strict=True)}
        assert sizes == {0.0: known.count(0) + known.count(1), 1.0: known.count(2)}
        ids = data.batch([]).ids.tolist()
        assert (found.labels < 0).tolist() == [known[i] is None for i in ids]


def test_infinite_numbers_stay_apart_in_intervals(spark: Any) -> None:
    table = pa.table({"x": [1e300, 2e300, float("inf"), float("-inf"), 3.0, 4.0]})
    schema = Schema((Attribute("x", "key"),))  # type: ignore[arg-type]
    for data in (Microdata(spark.createDataFrame(table), schema), Microdata(table, schema)):
        found = classes_of(data, ["x"], widths={"x": 5.0})
        assert found.per_record(found.matches).tolist() == [1, 1, 1, 1, 2, 2]


def test_a_value_that_a_file_does_not_have_is_not_taken_for_missing() -> None:
    data = Microdata(pa.table({"x": ["a", None]}), Schema((Attribute("x", "key", "unordered"),)))  # type: ignore[arg-type]
    asked = Microdata(pa.table({"x": ["b", None, "a"]}), data.schema).batch(["x"])
    found = classes_of(data, ["x"])
    rows = found.find({"x": asked.column("x")}, data.schema)
    assert rows.tolist()[0] == -1
    assert [found.codes[0][row] for row in rows[1:]] == [-1, 0]


@settings(max_examples=20)
@given(records, st.sampled_from(RULES))
def test_duckdb_counts_any_small_file_as_memory_does(rows: list[tuple[Any, ...]], rule: Missing) -> None:
    connection = duckdb.connect()
    connection.from_arrow(frame(rows)).create("t")
    there = classes_of(Microdata(connection.table("t"), SCHEMA), ["x", "y", "z"], rule)
    np.testing.assert_array_equal(there.per_record(there.matches), slow_matches(rows, rule))


# Refusals


@pytest.mark.parametrize(
    ("weight", "says"),
    [(0.0, "1 record has a weight of zero in 'w'"), (-1.0, "a negative weight"), (math.nan, "1 record has no weight")],
)
def test_weights_that_stand_for_nobody_are_refused(weight: float, says: str) -> None:
    table = pa.table({"x": ["a", "b"], "w": [1.0, weight]})
    schema = SCHEMA.keep(lambda a: a.name in ("x", "w"))
    connection = duckdb.connect()
    connection.from_arrow(table).create("t")
    for data in (Microdata(table, schema), Microdata(connection.table("t"), schema)):
        with pytest.raises(DataError, match=says):
            classes_of(data, ["x"], weight="w")


def test_lists_are_no_keys_and_that_is_a_sentence() -> None:
    table = pa.table({"x": [[1], [2]]})
    connection = duckdb.connect()
    connection.from_arrow(table).create("t")
    for frame_ in (table, connection.table("t")):
        data = Microdata(frame_, Schema((Attribute("x", "key"),)))  # type: ignore[arg-type]
        with pytest.raises(DataError, match="column 'x' holds lists or the like, which cannot be told apart as keys"):
            classes_of(data, ["x"])


def test_a_table_of_counts_may_have_cells_of_nobody() -> None:
    table = pa.table({"x": ["a", "b", "b"], "n": [5.0, 0.0, 0.0]})
    schema = Schema((Attribute("x", "key", "unordered"), Attribute("n", "weight")))  # type: ignore[arg-type]
    connection = duckdb.connect()
    connection.from_arrow(table).create("t")
    for frame_ in (table, connection.table("t")):
        found = classes_of(Microdata(frame_, schema), ["x"], weight="n", counts=True)
        assert [found.values[0][c] for c in found.codes[0]] == ["a"]
        assert found.labels.tolist() == [0, -1, -1]
        with pytest.raises(DataError, match="2 records have a weight of zero"):
            classes_of(Microdata(frame_, schema), ["x"], weight="n")


def test_a_precision_is_for_numbers() -> None:
    with pytest.raises(ParameterError, match="'x' holds text"):
        classes_of(Microdata(people(), PEOPLE), ["x"], widths={"x": 5})
