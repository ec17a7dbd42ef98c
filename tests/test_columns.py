"""A column in memory: both of its forms agree, and nothing is lost on the way."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.data import Column, Kind, LazyColumn
from sfumato.errors import DataError

KINDS: dict[str, tuple[pa.Array, Kind]] = {
    "whole numbers": (pa.array([3, None, -1, 3]), Kind.NUMBER),
    "small whole numbers": (pa.array([3, None, 1, 3], pa.uint8()), Kind.NUMBER),
    "numbers": (pa.array([0.5, None, math.nan, -2.0]), Kind.NUMBER),
    "short numbers": (pa.array([0.5, None, math.nan, -2.0], pa.float32()), Kind.NUMBER),
    "decimals": (pa.array([Decimal("0.5"), None, Decimal("2.25"), Decimal("0.5")]), Kind.NUMBER),
    "yes or no": (pa.array([True, None, False, True]), Kind.BOOLEAN),
    "text": (pa.array(["b", None, "", "ü"]), Kind.CATEGORY),
    "long text": (pa.array(["b", None, "", "ü"], pa.large_string()), Kind.CATEGORY),
    "text views": (pa.array(["b", None, "", "ü"], pa.string_view()), Kind.CATEGORY),
    "categories": (pa.array(["b", None, "a", "b"]).dictionary_encode(), Kind.CATEGORY),
    "dates": (pa.array([date(2026, 11, 16), None, date(1900, 1, 1), date(2026, 11, 16)]), Kind.DATE),
    "times": (pa.array([datetime(2026, 11, 16, 8, 30), None, datetime(1900, 1, 1), datetime(2026, 11, 16)]), Kind.DATE),
    "times of a zone": (pa.array([datetime(2026, 11, 16, tzinfo=UTC), None, None, None]), Kind.DATE),
    "lists": (pa.array([[1, 2], None, [], [1, 2]]), Kind.OTHER),
    "bytes": (pa.array([b"x", None, b"", b"x"]), Kind.OTHER),
}
each_kind = pytest.mark.parametrize("kind", KINDS)

numbers = st.lists(st.none() | st.floats(width=64) | st.integers(-(2**53), 2**53).map(float), max_size=30)
whole = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=30)
texts = st.lists(st.none() | st.text(max_size=6), max_size=30)
anything = st.one_of(
    numbers.map(lambda v: pa.array(v, pa.float64())),
    whole.map(lambda v: pa.array(v, pa.int64())),
    texts.map(lambda v: pa.array(v, pa.string())),
    texts.map(lambda v: pa.array(v, pa.string()).dictionary_encode()),
    st.lists(st.none() | st.booleans(), max_size=30).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.none() | st.dates(), max_size=30).map(lambda v: pa.array(v, pa.date32())),
)


def missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


# -- kinds


@each_kind
def test_every_kind_is_told_and_leaves_as_it_came(kind: str) -> None:
    values, told = KINDS[kind]
    column = Column(values)
    assert column.kind is told
    assert len(column) == 4
    assert column.arrow is values
    assert column.null.tolist() == [False, True, *values.is_null().to_pylist()[2:]]
    assert column.hashes[1] == 0  # missing
    assert column.equals(Column(pa.chunked_array([values[:1], values[1:]])))


@each_kind
def test_a_column_in_pieces_is_the_same_column(kind: str) -> None:
    values, _ = KINDS[kind]
    whole_column, pieces = Column(values), Column(pa.chunked_array([values[:3], values[3:]]))
    assert pieces.hashes.tolist() == whole_column.hashes.tolist()
    assert pieces.missing.tolist() == whole_column.missing.tolist()
    if whole_column.kind is not Kind.OTHER:
        assert pieces.codes[0].tolist() == whole_column.codes[0].tolist()


@each_kind
def test_zero_values_are_fine(kind: str) -> None:
    column = Column(KINDS[kind][0][:0])
    assert len(column) == len(column.hashes) == len(column.missing) == len(column.take(np.array([], int))) == 0


@pytest.mark.parametrize("kind", ["text", "categories", "dates", "lists"])
def test_numbers_of_other_kinds_are_refused_in_words(kind: str) -> None:
    with pytest.raises(DataError, match="where numbers are needed"):
        _ = Column(KINDS[kind][0]).numbers


# -- numbers


def test_numbers_are_floats_with_nan_for_missing() -> None:
    assert np.array_equal(Column(KINDS["whole numbers"][0]).numbers, [3, np.nan, -1, 3], equal_nan=True)
    assert np.array_equal(Column(KINDS["decimals"][0]).numbers, [0.5, np.nan, 2.25, 0.5], equal_nan=True)
    assert np.array_equal(Column(KINDS["yes or no"][0]).numbers, [1, np.nan, 0, 1], equal_nan=True)


def test_null_and_nan_are_both_missing_and_stay_apart() -> None:
    column = Column(KINDS["numbers"][0])
    assert column.null.tolist() == [False, True, False, False]
    assert column.missing.tolist() == [False, True, True, False]


@given(numbers)
def test_numbers_come_back_from_arrow_as_they_went_in(values: list[float | None]) -> None:
    null = np.array([v is None for v in values], bool)
    floats = np.array([math.nan if v is None else v for v in values], float)
    column = Column.from_numbers(floats, null)
    again = Column(column.arrow)
    assert column.kind is again.kind is Kind.NUMBER
    assert np.array_equal(again.numbers, floats, equal_nan=True)
    assert again.null.tolist() == null.tolist()
    assert column.equals(again)


def test_a_null_number_is_nan_whatever_stood_there() -> None:
    assert np.array_equal(
        Column.from_numbers(np.array([1.0, 2.0]), np.array([True, False])).numbers, [np.nan, 2], equal_nan=True
    )


@given(st.lists(st.none() | st.floats(-1e15, 1e15), max_size=20))
def test_whole_numbers_are_rounded_and_missing_ones_are_null(values: list[float | None]) -> None:
    floats = np.array([math.nan if v is None else v for v in values], float)
    stored = Column.from_numbers(floats, integer=True).arrow
    assert stored.type == pa.int64()
    assert stored.to_pylist() == [None if v is None else round(v) for v in values]


def test_numbers_too_large_for_whole_numbers_are_refused_without_quoting_one() -> None:
    for value in (math.inf, -math.inf, 1e30):
        with pytest.raises(DataError, match="infinite or too large") as told:
            Column.from_numbers(np.array([1.0, value]), integer=True)
        assert "1e" not in str(told.value)


# -- codes


@given(anything)
def test_codes_and_values_give_the_column_back(values: pa.Array) -> None:
    codes, distinct = Column(values).codes
    back = [None if c < 0 else distinct[c] for c in codes]
    assert back == [None if missing(v) else v for v in values.to_pylist()]
    assert distinct == sorted(set(distinct))


def test_codes_follow_the_values_and_not_the_order_of_categories() -> None:
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["z", "a", "m"]))
    codes, values = Column(categories).codes
    assert (codes.tolist(), values) == ([2, 0, -1, 1], ["a", "m", "z"])


def test_a_category_that_no_record_has_gets_no_code() -> None:
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "unused"]))
    assert Column(categories).codes[1] == ["a"]


def test_zero_has_one_code_with_either_sign() -> None:
    codes, values = Column(pa.array([0.0, -0.0, 1.0])).codes
    assert (codes.tolist(), values) == ([0, 0, 1], [0.0, 1.0])


# -- hashes


@given(anything, anything)
def test_equal_values_hash_alike_and_others_do_not(a: pa.Array, b: pa.Array) -> None:
    known: dict[int, Any] = {}
    for values in (a, b):
        for value, hashed in zip(values.to_pylist(), Column(values).hashes.tolist(), strict=True):
            assert 0 <= hashed < 2**63
            if missing(value):
                assert hashed == 0
            elif isinstance(value, int | float) and not isinstance(value, bool):
                assert known.setdefault(hashed, value) == value
    texts_of = {v: h for v, h in zip(a.to_pylist(), Column(a).hashes.tolist(), strict=True) if isinstance(v, str)}
    assert len(set(texts_of.values())) == len(texts_of)


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1))
def test_a_whole_number_hashes_alike_in_every_number_type(values: list[int]) -> None:
    expected = Column(pa.array(values, pa.int64())).hashes.tolist()
    assert Column(pa.array(values, pa.float64())).hashes.tolist() == expected
    assert Column.from_numbers(np.array(values, float)).hashes.tolist() == expected
    assert Column(pa.array([Decimal(v) for v in values], pa.decimal128(20, 0))).hashes.tolist() == expected


def test_large_whole_numbers_hash_alike_too_and_neighbours_differ() -> None:
    signed = Column(pa.array([2**60, 2**60 + 1, 2**62], pa.int64())).hashes
    unsigned = Column(pa.array([2**60, 2**60 + 1, 2**62], pa.uint64())).hashes
    floats = Column(pa.array([2.0**60, 2.0**60, 2.0**62])).hashes
    assert signed.tolist() == unsigned.tolist()
    assert signed[[0, 2]].tolist() == floats[[0, 2]].tolist()
    assert len(set(signed.tolist())) == 3


def test_zero_is_not_missing() -> None:
    zero, null = Column(pa.array([0, None])).hashes
    assert zero != null == 0
    assert Column(pa.array([-0.0])).hashes[0] == zero


def test_text_hashes_alike_as_text_and_as_category() -> None:
    plain = pa.array(["b", None, "a", "b"])
    expected = Column(plain).hashes.tolist()
    for other in (plain.dictionary_encode(), plain.cast(pa.large_string()), plain.cast(pa.string_view())):
        assert Column(other).hashes.tolist() == expected


def test_hashes_do_not_change_between_versions() -> None:
    # blake2b of the text, 8 bytes little-endian, without its lowest bit; worked out with hashlib alone
    import hashlib

    expected = int.from_bytes(hashlib.blake2b("Zürich".encode(), digest_size=8).digest(), "little") >> 1
    assert Column(pa.array(["Zürich"])).hashes.tolist() == [expected]


# -- taking and comparing


@given(anything, st.data())
def test_taking_rows_is_taking_values(values: pa.Array, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, max(0, len(values) - 1)), max_size=9 if len(values) else 0)), int)
    column = Column(values)
    if column.kind is Kind.NUMBER:
        _ = column.numbers  # both forms are taken
    taken = column.take(rows)
    assert taken.equals(Column(values.take(pa.array(rows))))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), bool)
    assert column.take(mask).equals(Column(values.filter(pa.array(mask))))


def test_taking_numbers_keeps_null_and_nan_apart() -> None:
    column = Column.from_numbers(np.array([1.0, np.nan, np.nan]), np.array([False, True, False]))
    taken = column.take(np.array([2, 1]))
    assert taken.null.tolist() == [False, True]
    assert taken.missing.tolist() == [True, True]


@given(anything)
def test_a_column_equals_itself(values: pa.Array) -> None:
    assert Column(values).equals(Column(values))


@given(anything, anything)
def test_equal_columns_have_the_same_values_in_the_same_order(a: pa.Array, b: pa.Array) -> None:
    def seen(values: pa.Array) -> list[object]:
        return [None if v is None else "NaN" if missing(v) else v for v in values.to_pylist()]

    same = a.type == b.type and seen(a) == seen(b)
    assert Column(a).equals(Column(b)) is same


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.array([1.0, None]), pa.array([1.0, math.nan])),
        (pa.array([1, 2]), pa.array([1.0, 2.0])),
        (pa.array([1, 2]), pa.array([1])),
        (pa.array(["a", "b"]), pa.array(["b", "a"])),
    ],
)
def test_columns_differ_in_missing_values_type_length_and_order(a: pa.Array, b: pa.Array) -> None:
    assert not Column(a).equals(Column(b))


def test_categories_in_another_order_are_the_same_values() -> None:
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "b"]))
    other = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["b", "a"]))
    assert Column(one).equals(Column(other))


# -- columns that wait


def test_a_lazy_column_is_worked_out_once_and_only_when_looked_at() -> None:
    made: list[int] = []

    def make() -> Column:
        made.append(1)
        return Column.from_numbers(np.array([2.5, np.nan]), np.array([False, True]))

    column = LazyColumn(2, make)
    assert len(column) == 2
    assert column.kind is Kind.NUMBER
    assert not made
    eager = Column.from_numbers(np.array([2.5, np.nan]), np.array([False, True]))
    assert column.equals(eager)
    assert column.hashes.tolist() == eager.hashes.tolist()
    assert column.missing.tolist() == [False, True]
    assert column.codes[1] == [2.5]
    assert column.take(np.array([0])).numbers.tolist() == [2.5]
    assert made == [1]


def test_a_column_remembers_what_was_derived_from_it() -> None:
    column, calls = Column(pa.array([1])), []
    for _ in range(2):
        assert column.remember("sum", lambda: calls.append(1) or 7) == 7
    assert calls == [1]


def test_a_column_that_is_worked_out_later_travels_without_what_it_is_made_from():
    secret = np.array([123456.789])
    lazy = LazyColumn(1, lambda: Column.from_numbers(secret * 0 + 1.5))
    packed = pickle.dumps(lazy)
    assert secret.tobytes() not in packed
    assert pickle.loads(packed).numbers.tolist() == [1.5]


@pytest.mark.parametrize("make", [
    lambda g, n: g.standard_normal(n),
    lambda g, n: np.where(g.random(n) < 0.1, np.nan, g.standard_normal(n)),
    lambda g, n: np.where(g.random(n) < 0.1, -0.0, g.standard_normal(n)).astype(np.float32),
    lambda g, n: g.permutation(n),
    lambda g, n: 2**60 + g.permutation(n),
], ids=["floats", "some missing", "short floats", "whole", "whole past 53 bits"])  # fmt: skip
def test_many_distinct_numbers_have_the_codes_and_values_that_sorting_them_gives(make: Any) -> None:
    x = make(np.random.default_rng(1), 20_000)
    codes, values = Column(pa.array(x)).codes
    known = x[~np.isnan(x)] if x.dtype.kind == "f" else x
    expected = sorted(set(known.tolist()))
    place = {v: i for i, v in enumerate(expected)}
    assert isinstance(values, list)
    assert values == expected
    assert [type(v) for v in values[:3]] == [type(v) for v in expected[:3]]
    assert codes.dtype == np.int32
    assert codes.tolist() == [place.get(v, -1) for v in x.tolist()]
    lazy = Column(pa.array(x)).ranks
    assert lazy[0].tolist() == codes.tolist()
    assert (list(lazy[1]), len(lazy[1]), lazy[1][3], list(lazy[1][2:4])) == (
        values,
        len(values),
        values[3],
        values[2:4],
    )
