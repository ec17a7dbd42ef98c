"""Conditions: what they pick, what a missing value does, and every refusal."""

from __future__ import annotations

import datetime
import itertools
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.condition import Condition
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.schema import Attribute, Schema

TABLE = pa.table(
    {
        "age": pa.array([15, 34, 91, None, 60]),
        "pay": pa.array([0.0, 99_999.0, 250.5, np.nan, 60.0], from_pandas=False),
        "region": pa.array(["north", "it's", None, "south", "north"]),
        "size": pa.array(["small", "large", "middle", None, "small"]).dictionary_encode(),
        "owner": pa.array([True, False, None, True, True]),
        "born": pa.array([datetime.date(2000, 1, d) for d in (1, 2, 3)] + [None, datetime.date(1999, 12, 31)]),
        "zip code": pa.array(["1", "2", "3", "4", "unknown"]),
    }
)
SCHEMA = Schema(
    (
        Attribute("age"),
        Attribute("pay", missing=(99_999.0,)),
        Attribute("region", scale="unordered"),  # type: ignore[arg-type]
        Attribute("size", values={"small": 1, "middle": 2, "large": 3}),
        Attribute("owner"),
        Attribute("born"),
        Attribute("zip code", scale="unordered", missing=("unknown",)),  # type: ignore[arg-type]
    )
)


def picked(text: str) -> list[int]:
    return np.flatnonzero(Condition.parse(text).holds(Microdata(TABLE, SCHEMA).batch())).tolist()


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("age > 60", [2]),
        ("age >= 60", [2, 4]),
        ("age<60", [0, 1]),
        ("age <= -5.5e0", []),
        ("age == 34", [1]),
        ("age = 34", [1]),
        ("age != 34", [0, 2, 4]),
        ("age <> 34", [0, 2, 4]),
        ("age in (15, 60.0)", [0, 4]),
        ("age not in (15, 60)", [1, 2]),
        ("age is missing", [3]),
        ("age is not missing", [0, 1, 2, 4]),
        ("pay is missing", [1, 3]),  # a code for no answer is no answer
        ("pay > 100", [2]),
        ("pay < age", [0]),
        ("pay >= age", [2, 4]),
        ("region == 'north'", [0, 4]),
        ("region == 'it''s'", [1]),
        ('region == "it\'s"', [1]),
        ("region != 'north'", [1, 3]),
        ("region in ('north', 'south')", [0, 3, 4]),
        ("size > 'small'", [1, 2]),
        ("size <= 2", [0, 2, 4]),
        ("size == 'large'", [1]),
        ("owner == true", [0, 3, 4]),
        ("owner != TRUE", [1]),
        ("born < '2000-01-02'", [0, 4]),
        ("born == '2000-01-03'", [2]),
        ("`zip code` == '4'", [3]),
        ("`zip code` is missing", [4]),
        ("age > 90 or region == 'south'", [2, 3]),
        ("age > 10 and region == 'north' or owner == false", [0, 1, 4]),
        ("age > 10 and (region == 'north' or owner == false)", [0, 1, 4]),
        ("not age > 60", [0, 1, 4]),  # as in SQL: a missing age is not "not above 60"
        ("not (age > 60 or age is missing)", [0, 1, 4]),
        ("age > 60 or age is missing", [2, 3]),
        ("not not age > 60", [2]),
        ("NOT age > 60 AND Owner == true".replace("Owner", "owner"), [0, 4]),
    ],
)
def test_a_condition_picks_the_records_for_which_it_is_true(text: str, records: list[int]) -> None:
    assert picked(text) == records


def test_joining_follows_the_truth_tables_of_sql() -> None:
    """With t, f and u for true, false and unknown: the tables of SQL's AND, OR and NOT."""
    order = "fut"
    table = pa.table(
        {
            c: pa.array(v)
            for c, v in zip("ab", zip(*itertools.product([0, None, 1], repeat=2), strict=True), strict=True)
        }
    )
    batch = Microdata(table, Schema((Attribute("a"), Attribute("b")))).batch()
    value = {0: "f", None: "u", 1: "t"}
    pairs = [(value[x], value[y]) for x, y in zip(*(table[c].to_pylist() for c in "ab"), strict=True)]
    for text, rule in (("a == 1 and b == 1", min), ("a == 1 or b == 1", max)):
        truth = [rule(pair, key=order.index) for pair in pairs]
        assert Condition.parse(text).holds(batch).tolist() == [t == "t" for t in truth]
        assert Condition.parse(f"not ({text})").holds(batch).tolist() == [t == "f" for t in truth]


def test_a_condition_works_on_zero_records_and_names_its_columns() -> None:
    rule = Condition.parse("age > 90 and (region in ('a') or not age is missing) or pay < age")
    assert rule.columns == ("age", "region", "pay")
    assert rule.holds(Microdata(TABLE.slice(0, 0), SCHEMA).batch()).tolist() == []
    assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "age", "age >", "> 5", "age > 5 and", "age > 5 age", "(age > 5", "age > 5)", "age in 5",
        "age in (5", "age in ()", "age is", "age is 5", "5 < age", "age > 5; drop", "age ** 2 > 5",
        "__import__('os').system('x')", "age > 5x", "age == 'open", "age in (region)", "and age > 5",
        "lambda: age", "age > (5)", "age =! 5", "not", "((((age", "`` == 5",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ParameterError, match=r"condition .*Write it like .*\.$"):
        Condition.parse(text)


@pytest.mark.parametrize("wrong", [None, 5, ["age > 5"], b"age > 5"])
def test_a_condition_is_a_text(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="a condition is a text"):
        Condition.parse(wrong)


def test_deep_nesting_is_refused_and_long_lists_are_not() -> None:
    for text in ("(" * 500 + "age > 5" + ")" * 500, "not " * 500 + "age > 5"):
        with pytest.raises(ParameterError, match="inside one another"):
            Condition.parse(text)
    assert picked(" or ".join(f"age == {i}" for i in range(2000))) == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("agee > 5", r"column 'agee' is not in the data. Did you mean 'age'\?"),
        ("age > 'old'", "column 'age' holds numbers: compare it with a number"),
        ("age == true", "column 'age' holds numbers: compare it with a number"),
        ("owner == 1", "compare it with true or false"),
        ("region == 5", "in quotes"),
        ("region > 'a'", "no order to compare by"),
        ("region == age", "compared as numbers only"),
        ("size > 'huge'", "has no number in the schema's value map"),
        ("born > 5", "such as '2020-01-31'"),
        ("born > 'tomorrow'", "such as '2020-01-31'"),
        ("pay == 99999", 'is a code for missing. Write "pay is missing" instead'),
        ("`zip code` in ('1', 'unknown')", 'Write "`zip code` is missing" instead'),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        picked(text)
    assert isinstance(caught.value, SfumatoError)
    assert str(caught.value).startswith(f'the condition "{text}": ')


def test_a_time_zone_that_the_column_has_not_is_refused_in_words() -> None:
    when = pa.array([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2, 12)])
    data = Microdata(pa.table({"when": when}), Schema((Attribute("when", "key"),)))  # type: ignore[arg-type]
    assert Condition.parse("when > '2020-01-02T11:00'").holds(data.batch()).tolist() == [False, True]
    with pytest.raises(DataError, match="'when' holds times without a time zone: leave the zone out"):
        Condition.parse("when > '2020-01-02T11:00+02:00'").holds(data.batch())


def test_a_text_without_its_quotes_is_taken_for_a_column_and_the_refusal_says_so() -> None:
    with pytest.raises(DataError, match=r"column 'north' is not in the data.*put it in quotes"):
        Condition.parse("region == north").check(SCHEMA)
    Condition.parse("region == 'north' and age > pay").check(SCHEMA)
