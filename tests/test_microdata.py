"""Microdata: the same records whatever frame they came in, nothing missing unless declared, no id let out."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import in_duckdb

from sfumato.contract import Draws, Recipe
from sfumato.data import RECORD_ID, Column, Kind
from sfumato.data.microdata import Batch, Microdata, missing_of
from sfumato.errors import DataError, DataWarning, SchemaError
from sfumato.masks import TopCode
from sfumato.schema import Attribute, Schema

N = 60
Frame = Callable[[pd.DataFrame], Any]


FRAMES: dict[str, Frame] = {
    "pandas": lambda frame: frame,
    "pandas with another index": lambda frame: frame.set_index(pd.Index([f"row {i}" for i in range(len(frame))][::-1])),
    "pandas with a repeated index": lambda frame: frame.set_index(np.zeros(len(frame), int)),
    "pandas nullable": lambda frame: frame.convert_dtypes(),
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow in pieces": lambda frame: pa.concat_tables(
        [pa.Table.from_pandas(frame[:7], preserve_index=False), pa.Table.from_pandas(frame[7:], preserve_index=False)]
    ),
    "duckdb": in_duckdb,
}
each_frame = pytest.mark.parametrize("kind", FRAMES)


def people() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    i = np.arange(N)
    return pd.DataFrame(
        {
            "age": rng.integers(16, 90, N),
            "children": pd.array(np.where(i % 8 == 0, 0, i % 4), dtype="Int64"),
            "income": np.where(i % 7 == 3, np.nan, rng.lognormal(10, 1, N)),
            "region": pd.Categorical(
                [["north", "south", None][k % 3] for k in i], categories=["south", "north", "sea"]
            ),
            "town": np.array([["Aa", "Ö", "b c"][k % 3] for k in i], dtype=object),
            "member": i % 2 == 0,
            "joined": pd.to_datetime([date(2000 + k % 20, 1, 1) for k in i]),
        }
    )


def attributes(**columns: dict[str, Any]) -> Schema:
    return Schema(tuple(Attribute(name, **fields) for name, fields in columns.items()))


def batch_of(x: Any, /, **fields: Any) -> Batch:
    return Microdata(pd.DataFrame({"x": x}), attributes(x=fields)).batch()


# -- coming in


@each_frame
def test_every_frame_gives_the_same_numbers_and_kinds(kind: str) -> None:
    frame = people()
    data = Microdata(FRAMES[kind](frame))
    assert len(data) == N
    assert data.schema == Microdata(frame).schema
    assert [data.kind(n) for n in ("age", "region", "town", "member", "joined")] == [
        Kind.NUMBER, Kind.CATEGORY, Kind.CATEGORY, Kind.BOOLEAN, Kind.DATE,
    ]  # fmt: skip
    for name in ("age", "children", "income", "member"):
        assert np.array_equal(data.numbers(name), frame[name].astype(float), equal_nan=True)
    assert data.batch(["region"]).column("region").codes[1] == ["north", "south"]
    assert data.batch().ids.tolist() == list(range(N))


@each_frame
def test_every_frame_has_the_same_digest(kind: str) -> None:
    frame = people()
    assert Microdata(FRAMES[kind](frame)).digest() == Microdata(frame).digest()


@each_frame
def test_every_frame_leaves_as_it_came_without_ids(kind: str) -> None:
    frame = people()
    native = Microdata(FRAMES[kind](frame)).to_native()
    names = native.column_names if isinstance(native, pa.Table) else list(native.columns)
    assert names == list(frame.columns)
    assert RECORD_ID not in str(native)
    if kind.startswith("pandas"):
        came = FRAMES[kind](frame)
        came["region"] = came["region"].cat.remove_unused_categories()  # a category that no record has does not leave
        assert isinstance(native.index, pd.RangeIndex)  # the index says who was who
        assert native.dtypes.to_dict() == came.dtypes.to_dict()
        pd.testing.assert_frame_equal(native, came.reset_index(drop=True))
    elif kind.endswith("polars"):
        assert native.equals(pl.from_pandas(frame))


def test_the_index_of_a_pandas_frame_is_not_kept() -> None:
    frame = people().set_index("town", drop=True)
    assert "town" not in Microdata(frame).schema
    assert "Ö" not in str(Microdata(frame).to_native())


def test_whole_numbers_with_gaps_leave_with_every_digit() -> None:
    frame = pd.DataFrame({"x": pd.array([2**60 + 1, None], dtype="Int64")})
    assert Microdata(frame).to_native()["x"].tolist() == [2**60 + 1, pd.NA]


def test_the_frame_that_came_in_is_not_touched() -> None:
    frame = people()
    before = frame.copy(deep=True)
    data = Microdata(frame)
    masked = data.transform(lambda b: b.replace("age", lambda: b.numbers("age") + 1), data.schema)
    assert masked.numbers("age").tolist() == (frame["age"] + 1).tolist()
    pd.testing.assert_frame_equal(frame, before)


def test_bands_that_pandas_cuts_are_categories() -> None:
    data = Microdata(pd.DataFrame({"age": pd.cut([20, 30, 40, 50], [0, 25, 45, 99])}))
    assert data.kind("age") is Kind.CATEGORY
    assert len(data.batch().column("age").codes[1]) == 3
    assert len(data.digest()) == 32


def test_columns_of_another_kind_do_not_break_the_digest() -> None:
    one = Microdata(pa.table({"track": [[1, 2], None]}))
    other = Microdata(pa.table({"track": [[1, 3], None]}))
    assert one.digest() != other.digest()


def test_mixed_and_huge_values_are_refused_without_quoting_one() -> None:
    for values in ([1, "secret"], [2**70, 1]):
        with pytest.raises(DataError, match="column 'x' mixes kinds") as told:
            Microdata(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
        assert "secret" not in str(told.value)
        assert told.value.__cause__ is None


def test_data_without_columns_are_refused_and_without_records_are_fine() -> None:
    for frame in (pd.DataFrame(), pl.DataFrame(), pa.table({})):
        with pytest.raises(DataError, match="the data have no columns"):
            Microdata(frame)
    empty = Microdata(people()[:0])
    assert len(empty) == 0
    assert len(empty.numbers("income")) == 0
    assert empty.moments(["age", "income"]).count == 0
    assert empty.digest() == Microdata(people()[:0]).digest() != Microdata(people()).digest()
    assert list(empty.to_native().columns) == list(people().columns)


# -- the schema must fit


def test_a_schema_that_names_absent_columns_is_refused_with_the_nearest_name() -> None:
    schema = Microdata(people()).schema
    wrong = Schema((*schema.attributes, Attribute("incme"), Attribute("zzz")))
    with pytest.raises(SchemaError, match=r"do not have: incme, zzz\. Did you mean 'income'\?"):
        Microdata(people(), wrong)


def test_a_schema_that_leaves_columns_unexplained_is_refused() -> None:
    schema = Microdata(people()).schema.keep(lambda a: a.name not in ("age", "town"))
    with pytest.raises(SchemaError, match=r"says nothing about these columns: age, town\. .*role = 'other'"):
        Microdata(people(), schema)


def test_an_unknown_column_is_refused_with_the_nearest_name() -> None:
    data = Microdata(people())
    for look in (data.numbers, data.kind, data.batch().column):
        with pytest.raises(DataError, match=r"column 'incme' is not in the data\. Did you mean 'income'\?"):
            look("incme")


def test_text_where_numbers_are_needed_is_refused_in_words() -> None:
    data = Microdata(people())
    with pytest.raises(DataError, match="column 'town' holds text or categories, where numbers are needed"):
        data.numbers("town")
    with pytest.raises(DataError, match=r"'town' holds text .* Columns of numbers: age, children, income\."):
        data.moments(["age", "town"])


# -- digests


def test_one_value_or_another_order_changes_the_digest() -> None:
    frame = people()
    digest = Microdata(frame).digest()
    changed = frame.copy()
    changed.loc[3, "age"] += 1
    gap = frame.copy()
    gap.loc[4, "income"] = np.nan
    assert len({digest, *(Microdata(f).digest() for f in (changed, gap, frame[::-1], frame.drop(index=[N - 1])))}) == 5
    assert Microdata(frame[["town", *frame.columns.drop("town")]]).digest() != digest
    assert Microdata(frame.rename(columns={"age": "Age"})).digest() != digest


def test_a_zero_and_a_gap_have_different_digests() -> None:
    assert Microdata(pa.table({"x": [0, 1]})).digest() != Microdata(pa.table({"x": [None, 1]})).digest()


def test_swapping_values_between_two_columns_changes_the_digest() -> None:
    one = pd.DataFrame({"a": [1, 2], "b": [2, 1]})
    assert Microdata(one).digest() != Microdata(one.rename(columns={"a": "b", "b": "a"})[["a", "b"]]).digest()


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=6), st.data())
def test_digests_are_equal_only_for_equal_columns(values: list[int], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.integers(-5, 5), min_size=1, max_size=6) | st.permutations(values))
    same = Microdata(pa.table({"x": values})).digest() == Microdata(pa.table({"x": [float(v) for v in other]})).digest()
    assert same is (values == other)


# -- missing values


def test_nothing_is_missing_unless_declared() -> None:
    values = [-999.0, -9.0, 0.0, 99.0, 999.0]
    assert batch_of(values).numbers("x").tolist() == values
    assert np.array_equal(
        batch_of(values, missing=(-999, 99)).numbers("x"), [np.nan, -9, 0, np.nan, 999], equal_nan=True
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_declared_codes_count_as_missing_in_whole_numbers_too(frame: Callable[..., Any]) -> None:
    data = Microdata(frame({"x": [1, -9, 3]}), attributes(x={"missing": (-9.0,)}))
    assert np.array_equal(data.numbers("x"), [1, np.nan, 3], equal_nan=True)
    assert data.moments(["x"]).count == 2
    assert data.to_native() is not None
    assert data.batch().column("x").arrow.to_pylist() == [1, -9, 3]  # the code itself stays in the data


def test_nan_and_null_are_both_missing() -> None:
    data = Microdata(pl.DataFrame({"x": [1.0, None, float("nan")]}))
    assert np.array_equal(data.numbers("x"), [1, np.nan, np.nan], equal_nan=True)
    assert data.to_native()["x"].null_count() == 1  # and they stay apart


def test_missing_codes_of_text_count_as_missing() -> None:
    column = Column(pa.array(["a", "unknown", None]))
    assert missing_of(column, Attribute("x", missing=("unknown",))).tolist() == [False, True, True]
    assert missing_of(column, Attribute("x")).tolist() == [False, False, True]
    numbers = Column(pa.array([1.0, 99.0, None, math.nan]))
    assert missing_of(numbers, Attribute("x", missing=(99,))).tolist() == [False, True, True, True]


def test_ordered_categories_become_numbers_through_the_value_map() -> None:
    values = {"low": 1, "middle": 2.5, "high": 4}
    words = pd.Categorical(["high", "low", None, "refused", "middle"])
    batch = batch_of(words, values=values, missing=("refused",))
    assert np.array_equal(batch.numbers("x"), [4, 1, np.nan, np.nan, 2.5], equal_nan=True)
    with pytest.raises(DataError, match="1 values of 'x' have no number in the schema's value map") as told:
        batch_of(words, values=values).numbers("x")
    assert "refused" not in str(told.value)


def test_a_missing_code_is_missing_even_if_the_value_map_has_it() -> None:
    batch = batch_of(["low", "none"], values={"low": 1, "none": 9}, missing=("none",))
    assert np.array_equal(batch.numbers("x"), [1, np.nan], equal_nan=True)


# -- moments


@each_frame
def test_moments_are_those_of_complete_cases(kind: str) -> None:
    frame = people()
    data = Microdata(FRAMES[kind](frame)).moments(["age", "income", "children"])
    whole = frame[["age", "income", "children"]].astype(float).dropna().to_numpy()
    assert data.count == len(whole) < N
    np.testing.assert_allclose(data.mean, whole.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(data.covariance, np.cov(whole, rowvar=False), rtol=1e-12)


def test_moments_are_exact_far_from_zero() -> None:
    steps = np.tile([-1.0, 0.0, 1.0, 0.0], 25_000)  # variance n/2 / (n - 1) by algebra
    frame = pd.DataFrame({"x": 1e9 + steps, "y": -3e9 - 2 * steps})
    moments = Microdata(frame).moments(["x", "y"])
    variance = 50_000 / 99_999
    np.testing.assert_allclose(moments.mean, [1e9, -3e9], rtol=1e-15)
    np.testing.assert_allclose(moments.covariance, variance * np.array([[1, -2], [-2, 4]]), rtol=1e-12)


def test_moments_are_precise_for_noise_on_a_large_offset() -> None:
    noise = np.random.default_rng(1).normal(size=(5000, 2))
    shifted = noise + 1e9
    moments = Microdata(pd.DataFrame(shifted, columns=["x", "y"])).moments(["x", "y"])
    np.testing.assert_allclose(moments.covariance, np.cov(shifted - 1e9, rowvar=False), rtol=1e-9)


@given(st.lists(st.tuples(*[st.none() | st.floats(-1e6, 1e6)] * 2), min_size=2, max_size=20))
def test_moments_agree_with_numpy_on_any_numbers(rows: list[tuple[float | None, float | None]]) -> None:
    table = pa.table({n: pa.array([r[i] for r in rows], pa.float64()) for i, n in enumerate("ab")})
    moments = Microdata(table).moments(["a", "b"])
    whole = np.array([r for r in rows if None not in r], float).reshape(-1, 2)
    assert moments.count == len(whole)
    if len(whole) > 1:
        np.testing.assert_allclose(moments.covariance, np.cov(whole, rowvar=False), rtol=1e-9, atol=1e-6)


# -- batches


def replaced(batch: Batch, numbers: list[float]) -> Column:
    return batch.replace("x", lambda: np.array(numbers)).column("x")


def test_replacing_keeps_missing_values_exactly() -> None:
    batch = Microdata(
        pl.DataFrame({"x": [1.0, None, float("nan"), -9.0]}), attributes(x={"missing": (-9,), "bounds": (0, None)})
    ).batch()
    new = replaced(batch, [5, 6, 7, 8])
    assert new.arrow.to_pylist()[:2] == [5, None]
    assert new.null.tolist() == [False, True, False, False]
    assert math.isnan(new.numbers[2])
    assert new.numbers[3] == -9  # a code may lie outside the bounds


def test_replacing_rounds_whole_numbers_and_stores_them_whole() -> None:
    new = replaced(batch_of(pd.array([1, None, 3, 4], dtype="Int64"), integer=True), [1.4, 9.9, 2.6, -0.4])
    assert new.arrow.type == pa.int64()
    assert new.arrow.to_pylist() == [1, None, 3, 0]
    assert replaced(batch_of([1, 2]), [1.25, 2.5]).arrow.to_pylist() == [1.25, 2.5]


def test_replacing_clips_at_the_bounds_that_are_declared() -> None:
    assert replaced(batch_of([1.0, 2.0, 3.0], bounds=(0, 10)), [-5, 5, 15]).numbers.tolist() == [0, 5, 10]
    assert replaced(batch_of([1.0, 2.0, 3.0], bounds=(None, 10)), [-5, 5, 15]).numbers.tolist() == [-5, 5, 10]
    assert replaced(batch_of([1.0, 2.0, 3.0]), [-5, 5, 15]).numbers.tolist() == [-5, 5, 15]


@given(st.floats(-9, 9), st.floats(0, 9), st.lists(st.floats(-50, 50), min_size=2, max_size=2))
def test_rounding_never_leaves_the_bounds(low: float, width: float, numbers: list[float]) -> None:
    bounds = (low, low + width + 1)  # a whole number lies between them
    new = replaced(batch_of([0, 0], integer=True, bounds=bounds), numbers).numbers
    assert ((new >= bounds[0]) & (new <= bounds[1])).all()
    assert (new == np.round(new)).all()


def test_ordered_categories_with_gaps_can_be_replaced_by_numbers() -> None:
    batch = batch_of(["low", None, "no", "high"], values={"low": 1, "high": 2}, missing=("no",))
    new = replaced(batch, [1.5, 0, 0, 2.5])
    assert np.array_equal(new.numbers, [1.5, np.nan, np.nan, 2.5], equal_nan=True)


def test_a_batch_is_not_changed_by_what_is_made_from_it() -> None:
    batch = batch_of([1.0, 2.0])
    other = batch.replace("x", lambda: np.array([7.0, 8.0]))
    assert batch.numbers("x").tolist() == [1, 2]
    assert other.numbers("x").tolist() == [7, 8]
    assert other.ids is batch.ids
    assert batch.keep(np.array([False, True])).ids.tolist() == [1]
    assert batch.drop(["x"]).rows.columns == {}
    assert len(batch.drop(["x"]).schema) == 0


HOUSES = attributes(
    hid={"role": "household", "scale": "unordered", "missing": (-9, "?")}, rent={"level": "household"}, wage={}
)


def units(hid: Any) -> np.ndarray[Any, Any]:
    table = pa.table({"hid": hid, "rent": [1.0] * len(hid), "wage": [2.0] * len(hid)})
    return Microdata(table, HOUSES).batch().units("rent")


def test_members_of_a_household_share_a_unit_and_others_do_not() -> None:
    found = units([7, 7, 0, 8, 7, 0]).tolist()
    assert found[0] == found[1] == found[4]
    assert found[2] == found[5]
    assert len(set(found)) == 3


def test_units_are_the_same_for_whole_numbers_in_any_number_type() -> None:
    expected = units([7, 0, 2**40]).tolist()
    assert units([7.0, 0.0, 2.0**40]).tolist() == expected
    assert units(pa.array([7, 0, 2**40], pa.uint64())).tolist() == expected
    assert units(pa.array(["7", "0"])).tolist() == units(pa.array(["7", "0"]).dictionary_encode()).tolist()


def test_records_without_a_household_are_units_of_their_own() -> None:
    for hid in ([7, None, None, -9, -9], [7.0, math.nan, None, -9.0, -9.0], ["a", None, None, "?", "?"]):
        found = units(hid).tolist()
        assert found[1:] == [1, 2, 3, 4]


def test_a_persons_column_has_a_unit_per_record() -> None:
    data = Microdata(pd.DataFrame({"hid": [7, 7], "rent": [1.0, 1.0], "wage": [2.0, 3.0]}), HOUSES)
    assert data.batch().units("wage").tolist() == [0, 1]


# -- making another one


def test_transform_gives_other_records_with_another_schema() -> None:
    data = Microdata(people())
    schema = data.schema.keep(lambda a: a.name in ("age", "income"))
    old = data.transform(
        lambda b: b.keep(b.numbers("age") > 40).drop(set(data.schema.names()) - {"age", "income"}), schema
    )
    assert old.schema == schema
    assert (old.numbers("age") > 40).all()
    assert list(old.to_native().columns) == ["age", "income"]
    assert len(data) == N


def test_taking_records_numbers_them_anew_and_keeps_the_kind_of_frame() -> None:
    taken = Microdata(people()).take(np.array([5, 3, 5]))
    assert taken.batch().ids.tolist() == [0, 1, 2]
    assert taken.numbers("age").tolist() == people()["age"].iloc[[5, 3, 5]].tolist()
    assert isinstance(taken.to_native(), pd.DataFrame)
    assert isinstance(Microdata(pl.from_pandas(people())).take(np.array([0])).to_native(), pl.DataFrame)


def test_local_brings_some_columns_into_memory() -> None:
    data = Microdata(in_duckdb(people())).local(["income", "age"])
    assert data.engine.name == "memory"
    assert data.schema.names() == ("age", "income")  # in the order of the data
    assert data.numbers("age").tolist() == people()["age"].tolist()


def test_with_schema_changes_the_meaning_and_not_the_records() -> None:
    data = Microdata(people())
    other = data.with_schema(data.schema.roles(identifier="town"))
    assert other.schema["town"].role == "identifier"
    assert other.digest() == data.digest()


def test_its_name_says_no_value() -> None:
    assert repr(Microdata(people())) == "Microdata(7 columns, in memory)"


def test_a_file_is_read_with_a_guessed_schema_and_written_without_ids(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,income,zip\n30,1000.5,01234\n40,,01235\n50,2000,01236\n", "utf-8")
    data = Microdata.read(path)
    assert data.schema["zip"].hierarchy is not None  # the zeros in front are kept, so it is text
    assert np.array_equal(data.numbers("income"), [1000.5, np.nan, 2000], equal_nan=True)
    data.write(tmp_path / "out.csv")
    assert RECORD_ID not in (tmp_path / "out.csv").read_text("utf-8")
    assert Microdata.read(tmp_path / "out.csv").digest() == data.digest()


@pytest.mark.parametrize("integer", [True, False])
def test_a_masked_answer_never_reads_as_a_code_for_no_answer(integer: bool):
    schema = Schema((Attribute("age", role="confidential", integer=integer, missing=(98, 99)),))
    frame = pd.DataFrame({"age": [40, 99, 120, 97, 100]})
    before = Microdata(frame, schema).batch()
    after = before.replace("age", lambda: np.array([98.0, 50.0, 99.0, 99.0, 98.0]))
    known = after.column("age").numbers
    assert known[1] == 99  # it was missing, and still is
    assert not np.isin(known[[0, 2, 3, 4]], [98, 99]).any()
    assert np.isnan(after.numbers("age")).tolist() == [False, True, False, False, False]
    np.testing.assert_allclose(known[[0, 2, 3, 4]], [97, 100, 97, 100] if integer else [98, 99, 99, 98])


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_records_without_any_value_are_left_out_of_a_csv_file_with_a_warning(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n30,f\n,\n41,\n,\n", "utf-8")
    with pytest.warns(DataWarning, match=r"2 records have no value in any column, and are left out \(records 2, 4\)"):
        data = Microdata.read(path, engine=engine)
    assert len(data) == 2
    assert data.batch(["age"]).numbers("age").tolist() == [30, 41]
    assert data.batch([]).ids.tolist() == [0, 1]


def test_a_file_of_one_column_keeps_its_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "ages.csv"
    path.write_text("age\n30\n\n41\n", "utf-8")
    assert len(Microdata.read(path)) == 3


def test_a_file_that_was_read_as_one_column_is_not_released(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name;pay\n" + "".join(f"person {i};{i}\n" for i in range(30)), "utf-8")
    with pytest.raises(DataError, match="hold the sign ';': the file was read with another separator than it has"):
        Recipe.of(TopCode()).apply(Microdata.read(path, separator="|"), Draws(1))
