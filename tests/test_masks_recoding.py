"""Global recoding by lists, intervals and levels: by hand, against pandas and against ARX files."""

from __future__ import annotations

import csv
import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import column, in_pieces, masked, microdata, release

from sfumato.contract import Draws, Mask, Recipe
from sfumato.datasets import five
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import Generalise, Recode
from sfumato.schema import (
    DateHierarchy,
    IntervalHierarchy,
    PrefixHierarchy,
    Scale,
    Schema,
    TreeHierarchy,
    read_hierarchy_csv,
)

ARX = Path(__file__).resolve().parents[2] / "shared" / "data" / "arx"


# Global recoding by a list


def test_listed_values_get_their_new_labels_and_missing_ones_stay_missing() -> None:
    data = microdata(state=["widowed", None, "married", "divorced"])
    rule = {"widowed": "single", "divorced": "single", "married": "married"}
    assert masked(Recode({"state": rule}), data, "state") == ["single", None, "married", "single"]


def test_a_value_without_a_rule_is_refused_with_the_number_of_records_in_the_whole_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = microdata(state=["a", "b", "c", "b", "b", "a", "c", "a"])
    for where in (data, in_pieces(data, monkeypatch)):
        with pytest.raises(DataError, match="5 records, with 2 different values, of 'state' have no rule") as caught:
            release(Recode({"state": {"a": "x"}}), where)
        assert "'b'" not in str(caught.value)


def test_values_without_a_rule_are_kept_or_merged_on_request() -> None:
    data = microdata(state=["a", "b", None, "c"])
    assert masked(Recode({"state": {"a": "x"}}, unlisted="keep"), data, "state") == ["x", "b", None, "c"]
    merged = Recode({"state": {"a": "x"}}, unlisted="merge", other="rest")
    assert masked(merged, data, "state") == ["x", "rest", None, "rest"]


def test_numbers_booleans_and_dates_are_recoded_by_their_text() -> None:
    day = datetime.date(2020, 2, 29)
    data = microdata(code=[1, 2, None], yes=[True, False, None], day=[day, day, None])
    rules = {"code": {1: "a", 2: "b"}, "yes": {"True": "y", "False": "n"}, "day": {"2020-02-29": "leap"}}
    made = release(Recode(rules), data).masked
    assert [column(made, n) for n in ("code", "yes", "day")] == [
        ["a", "b", None],
        ["y", "n", None],
        ["leap", "leap", None],
    ]


def test_codes_for_missing_answers_stay_what_they_were_and_still_mean_missing() -> None:
    data = microdata(
        {"children": {"scale": "ordered", "missing": (-1, 99), "integer": True}}, children=[0, 99, 5, -1, None]
    )
    for rule, made in (
        ({"0": "none", "5": "many"}, ["none", "99", "many", "-1", None]),
        ([1], ["< 1", "99", "≥ 1", "-1", None]),
    ):
        after = release(Recode({"children": rule}), data).masked
        assert column(after, "children") == made
        assert after.batch().missing("children").tolist() == [False, True, False, True, True]


def test_a_label_that_means_missing_is_refused() -> None:
    data = microdata({"x": {"missing": ("unknown",)}}, x=["a", "unknown"])
    with pytest.raises(ParameterError, match="code for missing"):
        release(Recode({"x": {"a": "unknown"}}), data)
    with pytest.raises(ParameterError, match="code for missing"):
        release(Recode({"x": {"a": "c"}}, unlisted="merge", other="unknown"), data)


def test_ordered_categories_stay_ordered_if_runs_are_joined_and_not_if_others_are() -> None:
    facts = {"school": {"scale": "ordered", "values": {"none": 0, "primary": 1, "secondary": 2, "tertiary": 4}}}
    data = microdata(facts, school=["none", "primary", "tertiary", "secondary"])
    run = Recode({"school": {"none": "low", "primary": "low", "secondary": "high", "tertiary": "high"}})
    after = release(run, data).masked
    assert after.schema["school"].scale is Scale.ORDERED
    assert after.numbers("school").tolist() == [0.5, 0.5, 3.0, 3.0]  # means of the numbers of those joined
    mixed = Recode({"school": {"none": "a", "primary": "b", "secondary": "a", "tertiary": "b"}})
    assert release(mixed, data).masked.schema["school"].scale is Scale.UNORDERED


def test_new_codes_that_are_numbers_keep_their_numbers() -> None:
    data = microdata({"grade": {"scale": "ordered"}}, grade=[1, 2, 3, 4, 5])
    after = release(Recode({"grade": {1: 1, 2: 1, 3: 2, 4: 3, 5: 3}}), data).masked
    assert after.numbers("grade").tolist() == [1, 1, 2, 3, 3]


# Global recoding by intervals


@given(
    st.lists(st.floats(-50, 150, allow_nan=False), min_size=1, max_size=30),
    st.lists(st.integers(-40, 140), min_size=1, max_size=6, unique=True).map(sorted),
)
def test_intervals_are_those_of_pandas(ages: list[float], cuts: list[int]) -> None:
    data = microdata({"age": {"scale": "ordered"}}, age=ages)
    made = masked(Recode({"age": cuts}), data, "age")
    classes = pd.cut(pd.Series(ages), [-np.inf, *cuts, np.inf], right=False)
    truth = [
        f"< {c.right:g}"
        if c.left == -np.inf
        else f"≥ {c.left:g}"
        if c.right == np.inf
        else f"[{c.left:g}, {c.right:g})"
        for c in classes
    ]
    assert made == truth


def test_intervals_stand_for_their_middles_and_keep_the_order() -> None:
    facts = {"age": {"scale": "ordered", "integer": True, "bounds": (0, 109)}}
    ages = list(range(110))
    after = release(Recode({"age": [20, 30, 80]}), microdata(facts, age=ages)).masked
    # the mean of the whole numbers in each class
    truth = [np.mean(range(20)), np.mean(range(20, 30)), np.mean(range(30, 80)), np.mean(range(80, 110))]
    assert sorted(set(after.numbers("age"))) == truth
    assert (np.diff(after.numbers("age")) >= 0).all()
    assert after.schema["age"].bounds == (None, None)
    assert not after.schema["age"].integer


def test_released_intervals_stand_on_their_own_level_of_the_schemas_hierarchy() -> None:
    ages = IntervalHierarchy.from_widths([10, 20], bottom=0, top=100)
    data = microdata({"age": {"scale": "ordered", "hierarchy": ages}}, age=[3, 45, 99, 120])
    after = release(Recode({"age": list(range(0, 101, 20))}), data).masked
    assert after.schema["age"].hierarchy == ages
    assert [ages.level_of(v) for v in column(after, "age")] == [2, 2, 2, 1]  # "≥ 100" is a class on level 1 already
    other = release(
        Recode({"age": [18, 65]}), data
    ).masked  # cuts that the hierarchy does not have get one of their own
    hierarchy = other.schema["age"].hierarchy
    assert hierarchy is not None
    assert [hierarchy.level_of(v) for v in column(other, "age")] == [1, 1, 1, 1]


def test_a_recoded_column_can_be_cut_again() -> None:
    data = microdata({"age": {"scale": "ordered", "integer": True}}, age=[5, 25, 45, 65])
    twice = Recipe.of(Recode({"age": [20, 40, 60]}), Recode({"age": [40]}))
    assert column(twice.apply(data, Draws(1)).masked, "age") == ["< 40", "< 40", "≥ 40", "≥ 40"]


# Global recoding by level


def test_zip_codes_go_to_prefixes_and_dates_to_years() -> None:
    facts = {
        "zip": {"scale": "partially ordered", "hierarchy": PrefixHierarchy(5)},
        "born": {"hierarchy": DateHierarchy()},
    }
    born = [datetime.date(1980, 5, 1), None, datetime.date(2001, 12, 31)]
    after = release(Recode({"zip": 2, "born": 3}), microdata(facts, zip=[48201, 1002, None], born=born)).masked
    assert column(after, "zip") == ["482**", "010**", None]
    assert column(after, "born") == ["1980", None, "2001"]
    assert after.schema["zip"].hierarchy == PrefixHierarchy(5)


@pytest.mark.skipif(not ARX.exists(), reason="the ARX files are not here")
@pytest.mark.parametrize("level", [1, 2, 3])
def test_levels_are_the_columns_of_an_arx_hierarchy_file(level: int) -> None:
    path = ARX / "adult_hierarchy_education.csv"
    with path.open() as lines:
        table = {row[0]: row for row in csv.reader(lines, delimiter=";")}
    with (ARX / "adult.csv").open() as lines:
        education = [row["education"] for row in csv.DictReader(lines, delimiter=";")][:5_000]
    data = microdata({"education": {"hierarchy": read_hierarchy_csv(path)}}, education=education)
    assert masked(Generalise(level=level), data, "education") == [table[v][level] for v in education]


def test_generalising_past_the_top_gives_one_value_and_level_zero_changes_nothing() -> None:
    data = five()
    top = release(Generalise(level=9), data).masked
    assert set(column(top, "zip")) == set(column(top, "age")) == {"*"}
    same = release(Generalise(level=0), data).masked
    assert column(same, "age") == column(data, "age")
    assert same.schema["age"] == data.schema["age"]


def test_a_level_of_ordered_numbers_is_ordered_where_its_classes_have_an_end() -> None:
    closed = IntervalHierarchy.from_widths([10, 20], bottom=0, top=100)
    for hierarchy, bounds, scale in (
        (closed, (None, None), Scale.ORDERED),
        (IntervalHierarchy([[0, 18, 65], [18]]), (None, None), Scale.ORDERED),
        (IntervalHierarchy.from_widths([10]), (0, 110), Scale.ORDERED),
        (IntervalHierarchy.from_widths([10]), (None, None), Scale.PARTIALLY_ORDERED),
    ):
        data = microdata(
            {"age": {"scale": "ordered", "hierarchy": hierarchy, "bounds": bounds}}, age=[3, 17, 18, 66, 99]
        )
        after = release(Generalise(level=1), data).masked
        assert after.schema["age"].scale is scale
        if scale is Scale.ORDERED:
            assert (np.diff(after.numbers("age")) >= 0).all()


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({}, "must name columns"),
        ({"x": "a"}, "the rule of 'x' must be"),
        ({"x": True}, "the rule of 'x' must be"),
        ({"x": {}}, "the rule of 'x' must be"),
        ({"x": -1}, "the rule of 'x' must be"),
        ({"x": [3, 2]}, "numbers that rise"),
        ({"x": [1, "b"]}, "numbers that rise"),
        ({"x": [math.inf]}, "numbers that rise"),
    ],
)
def test_a_rule_that_is_none_is_refused_at_once(rules: Any, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Recode(rules)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (Recode({"x": [1, 2]}), "where numbers are needed"),
        (Recode({"x": 1}), "no hierarchy in the schema"),
        (Recode({"y": 7}), "levels 0 to 2, but its rule asks for level 7"),
        (Recode({"y": 1}), "not in this hierarchy"),
        (Recode({"z": 1}), "'z' is not in the schema"),
        (Generalise(columns=["x"]), "no hierarchy in the schema"),
    ],
)
def test_a_rule_that_does_not_suit_the_column_is_refused_in_a_sentence(mask: Mask, sentence: str) -> None:
    tree = TreeHierarchy([["a", "A", "*"]])
    data = microdata({"y": {"hierarchy": tree}}, x=["a", "b"], y=["a", "stranger"])
    with pytest.raises(SfumatoError, match=sentence) as caught:
        release(mask, data)
    assert "stranger" not in str(caught.value)


def test_a_released_schema_survives_toml() -> None:
    after = release(Recode({"age": [40], "zip": 3, "sex": {"f": "x", "m": "y"}}), five()).masked
    assert Schema.from_toml(after.schema.to_toml()) == after.schema


def test_columns_that_follow_a_recoded_key_are_merged_with_it() -> None:
    data = microdata({"name": {"follows": "code"}}, code=["a", "b", "c"], name=["Alp", "Bern", "Chur"])
    made = release(Recode({"code": {"a": "ab", "b": "ab", "c": "c"}}), data).masked
    assert column(made, "name") == [None, None, "Chur"]  # one code has two names now


@pytest.mark.parametrize("unlisted", ["keep", "merge"])
def test_a_rule_that_names_no_value_of_its_column_is_refused_and_not_silently_idle(unlisted: Any) -> None:
    data = microdata(x=["widowed", "married"])
    with pytest.raises(DataError, match="'x' has none of the values that its rule names") as e:
        release(Recode({"x": {"widwed": "single"}}, unlisted=unlisted), data)
    assert "married" not in str(e.value)
    assert (
        masked(Recode({"x": {"widowed": "single", "not here": "y"}}, unlisted=unlisted, other="z"), data, "x")[0]
        == "single"
    )


def test_bands_of_numbers_written_out_as_a_tree_are_in_order_and_stand_for_their_means() -> None:
    # as in ARX files: every age with its band; 4 and 5 end and begin a band
    tree = TreeHierarchy.from_levels(
        {str(a): [f"{a // 5 * 5}-{a // 5 * 5 + 4}", "young" if a < 10 else "old"] for a in range(20)}
    )
    data = microdata({"age": {"scale": "ordered", "hierarchy": tree, "integer": True}}, age=[3, 4, 5, 19])
    once = release(Generalise(level=1), data).masked
    assert once.schema["age"].scale is Scale.ORDERED
    assert once.numbers("age").tolist() == [2, 2, 7, 17]
    twice = (Generalise(level=1) >> Generalise(level=2)).apply(data, Draws(1)).masked
    assert column(twice, "age") == ["young", "young", "young", "old"]
    assert twice.numbers("age").tolist() == [4.5, 4.5, 4.5, 14.5]
