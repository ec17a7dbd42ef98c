"""Value hierarchies: each kind, CSV files as ARX writes them, and what holds for every tree."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arx_files import HIERARCHIES
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema.hierarchy import (
    DateHierarchy,
    Hierarchy,
    IntervalHierarchy,
    PrefixHierarchy,
    TreeHierarchy,
    read_hierarchy_csv,
    write_hierarchy_csv,
)
from sfumato.toml import dump

ARX = Path(__file__).resolve().parents[2] / "shared" / "data" / "arx"
needs_arx = pytest.mark.skipif(not ARX.is_dir(), reason=f"the ARX example files are not at {ARX}")

WORK = TreeHierarchy(
    [
        ["nurse", "carer", "health", "*"],
        ["midwife", "carer", "health", "*"],
        ["surgeon", "doctor", "health", "*"],
        ["farmer", "farmer", "other", "*"],
        ["fisher", "fisher", "other", "*"],
    ]
)
ZIP = PrefixHierarchy(5)
AGES = IntervalHierarchy.from_widths([5, 10, 20], bottom=0, top=100)
BANDS = IntervalHierarchy([[0, 10, 18, 40, 65], [18, 65], [18]])
DATES = DateHierarchy()
KINDS: dict[str, Hierarchy] = {"tree": WORK, "prefix": ZIP, "widths": AGES, "edges": BANDS, "date": DATES}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tree": st.sampled_from(WORK.values),
    "prefix": st.integers(0, 99_999) | st.text("0123456789", min_size=5, max_size=5),
    "widths": st.integers(-20, 130) | st.floats(-20, 130),
    "edges": st.integers(-20, 130) | st.floats(-20, 130),
    "date": st.dates(date(1995, 1, 1), date(2035, 12, 31)) | st.datetimes(datetime(1995, 1, 1), datetime(2035, 1, 1)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


# -- what holds for every hierarchy


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


# -- trees


def test_a_tree_generalises_by_its_table() -> None:
    assert WORK.height == 3
    assert WORK.generalise(["nurse", "fisher", None, "surgeon"], 2).tolist() == ["health", "other", None, "health"]
    assert WORK.common("nurse", "midwife") == "carer"
    assert WORK.common("nurse", "surgeon") == "health"
    assert WORK.common("nurse", "fisher") == "*"
    assert WORK.common("carer", "nurse") == "carer"
    assert not WORK.contains("carer", "surgeon")
    assert not WORK.contains("nurse", "carer")
    assert [WORK.leaves(v) for v in ("*", "health", "other", "carer", "doctor", "nurse")] == [5, 3, 2, 2, 1, 1]


def test_numbers_in_a_tree_are_known_by_their_text_whatever_their_type() -> None:
    h = TreeHierarchy.from_levels({1: ["low"], 2: ["low"], 3: ["high"]})
    for values in ([1, 3], [1.0, 3.0], ["1", "3"], np.array([1, 3], "int8"), [Decimal("1.0"), np.float32(3)]):
        assert h.generalise(values, 1).tolist() == ["low", "high"]
    assert h.generalise(pd.Series([1, None, 3], dtype="Int64"), 1).tolist() == ["low", None, "high"]


def test_a_label_that_is_not_generalised_further_keeps_its_name_on_several_levels() -> None:
    assert WORK.path("farmer") == ("farmer", "farmer", "other", "*")
    assert WORK.level_of("farmer") == 0
    assert WORK.leaves("farmer") == 1


def test_a_value_may_bear_the_name_of_its_group() -> None:
    h = TreeHierarchy([["Asia", "Asia", "*"], ["Japan", "Asia", "*"], ["Peru", "Americas", "*"]])
    assert h.path("Asia") == ("Asia", "Asia", "*")
    assert h.contains("Asia", "Japan")
    assert not h.contains("Japan", "Asia")
    assert h.common("Asia", "Japan") == h.common("Japan", "Asia") == "Asia"
    assert h.leaves("Asia") == 2


def test_the_root_may_recur_and_may_be_a_value() -> None:
    h = TreeHierarchy([["a", "A", "*"], ["b", "*", "*"], ["*", "*", "*"]])
    assert h.path("b") == ("b", "*", "*")
    assert h.path("*") == ("*",)
    assert h.level_of("*") == 2


def test_a_root_with_a_name_is_kept_and_a_star_still_means_it() -> None:
    h = TreeHierarchy([["a", "all"], ["b", "all"]])
    assert h.root == "all"
    assert h.common("a", "b") == "all"
    assert h.path("*") == ("all",)
    assert h.contains("*", "a")
    assert WORK.root == ZIP.root == "*"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["a", "A", "*"], ["a", "B", "*"]], "'a' on level 0 stands under both 'A' and 'B'"),
        ([["a", "A", "X", "*"], ["b", "A", "Y", "*"]], "'A' on level 1 stands under both 'X' and 'Y'"),
        ([["a", "b", "A", "*"], ["b", "B", "B", "*"]], "'b' stands on level 0 under 'B' and again on level 1"),
        ([["a", "b", "a", "*"]], "'a' stands on level 0 under 'b' and again on level 2"),
        ([["a", "*"], ["b", "A", "*"]], "row 2 of the hierarchy has 3 labels, but row 1 has 2"),
        ([["a", "A"], ["b", "B"]], "same root, but these end in 'A' and 'B'"),
        ([["a"]], "at least the value and the root"),
        ([["a", "", "*"]], "row 1 of the hierarchy has an empty label"),
        ([], "at least one value"),
        (["a*"], "a row of a hierarchy must be a list"),
        ("a*", "rows of a hierarchy must be a list"),
    ],
)
def test_a_table_that_is_no_tree_is_refused_with_the_label(rows: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        TreeHierarchy(rows)


def test_rows_that_say_the_same_twice_count_once() -> None:
    assert TreeHierarchy([["a", "*"], ["b", "*"], ["a", "*"]]).leaves("*") == 2


def test_a_nested_tree_is_padded_to_equal_depth() -> None:
    h = TreeHierarchy.from_tree({"Europe": {"Italy": ["Rome", "Pisa"], "Malta": None}, "Asia": ["Tokyo"], "at sea": {}})
    assert [h.path(v) for v in ("Rome", "Malta", "Tokyo", "at sea")] == [
        ("Rome", "Italy", "Europe", "*"),
        ("Malta", "Malta", "Europe", "*"),
        ("Tokyo", "Tokyo", "Asia", "*"),
        ("at sea", "at sea", "at sea", "*"),
    ]
    assert h.leaves("Europe") == 3


@pytest.mark.parametrize("wrong", [{}, {"Europe": "Italy"}, {"Europe": 3}])
def test_a_nested_tree_of_other_things_is_refused(wrong: Any) -> None:
    with pytest.raises(SchemaError):
        TreeHierarchy.from_tree(wrong)


def test_levels_get_a_root_only_if_they_have_none() -> None:
    assert TreeHierarchy.from_levels({"a": ["A"], "b": ["B"]}).path("a") == ("a", "A", "*")
    assert TreeHierarchy.from_levels({"a": ["all"], "b": ["all"]}).path("a") == ("a", "all")
    assert TreeHierarchy.from_levels({"a": [], "b": []}).path("a") == ("a", "*")


trees = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=20, unique=True)


@given(trees)
def test_the_leaves_of_a_label_are_those_of_its_children(codes: list[tuple[int, ...]]) -> None:
    # a label is the way from the root to it, so the table is a tree whatever was drawn
    rows = [["/".join(map(str, c[: 4 - level])) for level in range(4)] + ["*"] for c in codes]
    h = TreeHierarchy(rows)
    assert h.leaves("*") == len(codes)
    for level in range(1, 5):
        for label in {row[level] for row in rows}:
            children = {row[level - 1] for row in rows if row[level] == label}
            assert h.leaves(label) == sum(h.leaves(child) for child in children)


# -- prefixes


def test_a_zip_code_loses_one_digit_per_level() -> None:
    assert ZIP.path("48201") == ("48201", "4820*", "482**", "48***", "4****", "*")
    assert ZIP.height == 5


def test_every_prefix_length_exists_so_one_common_digit_is_a_weak_change() -> None:
    # errata 4.17: (48201, 49301) share one digit, so they meet below the root; (48202, 88202) do not
    assert ZIP.common("48201", "48301") == "48***"
    assert ZIP.common("48201", "49301") == "4****"
    assert ZIP.common("48202", "88202") == "*"


@pytest.mark.parametrize("value", [501, 501.0, "501", "00501", np.int32(501), Decimal("501")])
def test_numbers_are_padded_with_zeros(value: object) -> None:
    assert ZIP.path(value)[:2] == ("00501", "0050*")


def test_generalised_codes_stand_on_their_own_level() -> None:
    assert ZIP.path("482**") == ("482**", "48***", "4****", "*")
    assert ZIP.path("482*") == ZIP.path("482**")
    assert ZIP.path("*****") == ZIP.path("*") == ("*",)
    assert ZIP.level_of("4****") == 4
    assert ZIP.contains("482**", "48201")
    assert not ZIP.contains("482**", "48301")


def test_only_the_kept_lengths_are_levels() -> None:
    h = PrefixHierarchy(4, keep=[3, 1], fill=".", alphabet=36)
    assert h.path("AB12") == ("AB12", "AB1.", "A...", "*")
    assert h.path("AB1.") == ("AB1.", "A...", "*")
    with pytest.raises(SchemaError):
        h.path("AB..")
    assert PrefixHierarchy(1).path(7) == ("7", "*")


def test_leaves_of_a_prefix_count_the_codes_that_could_exist() -> None:
    assert [ZIP.leaves(v) for v in ZIP.path("48201")] == [1, 10, 100, 1_000, 10_000, 100_000]
    assert PrefixHierarchy(2, alphabet=36).leaves("A*") == 36


def test_a_code_that_is_too_long_is_refused_with_the_length() -> None:
    with pytest.raises(SchemaError, match="1 of them have more than 5 characters") as caught:
        ZIP.generalise(["48201-1234", "48201", "ABC"], 1)
    assert "48201" not in str(caught.value)


@pytest.mark.parametrize("value", [True, -1, 4.5, "4*201", "ABC", "", " ", "*4820", "482***"])
def test_what_is_no_code_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        ZIP.path(value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"length": 0}, "length of a prefix hierarchy must be a whole number, at least 1"),
        ({"length": "5"}, "whole number"),
        ({"length": True}, "whole number"),
        ({"length": 5, "keep": [5, 3]}, "stay under the length 5"),
        ({"length": 5, "keep": [2, 3]}, "must fall from level to level"),
        ({"length": 5, "keep": [3, 3]}, "must fall from level to level"),
        ({"length": 5, "keep": [0]}, "at least 1"),
        ({"length": 5, "keep": 3}, "keep must be a list"),
        ({"length": 5, "fill": "0"}, "neither a letter, a digit nor a space"),
        ({"length": 5, "fill": "**"}, "one sign"),
        ({"length": 5, "alphabet": 1}, "at least 2"),
    ],
)
def test_wrong_parameters_of_a_prefix_hierarchy_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        PrefixHierarchy(**parameters)


# -- intervals


def test_an_age_falls_into_wider_and_wider_bands() -> None:
    assert AGES.path(22) == ("22", "[20, 25)", "[20, 30)", "[20, 40)", "*")
    assert AGES.path("22.50")[:2] == ("22.5", "[20, 25)")
    assert AGES.height == 4


def test_edges_belong_to_the_class_on_their_right() -> None:
    assert AGES.generalise([0, 5, 4.999, 99.9], 1).tolist() == ["[0, 5)", "[5, 10)", "[0, 5)", "[95, 100)"]


def test_values_outside_the_outer_edges_fall_into_open_classes() -> None:
    assert AGES.path(-3) == ("-3", "< 0", "< 0", "< 0", "*")
    assert AGES.path(100) == ("100", "≥ 100", "≥ 100", "≥ 100", "*")
    assert BANDS.path(70) == ("70", "≥ 65", "≥ 65", "≥ 18", "*")
    assert BANDS.path(12) == ("12", "[10, 18)", "< 18", "< 18", "*")
    assert BANDS.path(20) == ("20", "[18, 40)", "[18, 65)", "≥ 18", "*")


def test_without_bottom_and_top_the_bands_go_on_for_ever() -> None:
    h = IntervalHierarchy.from_widths([10, 100], start=5)
    assert h.path(4) == ("4", "[-5, 5)", "[-95, 5)", "*")
    assert h.path(1_000_005)[1:3] == ("[1000005, 1000015)", "[1000005, 1000105)")
    with pytest.raises(SchemaError, match="Give it a bottom and a top"):
        h.leaves("*")
    assert h.leaves("[-95, 5)") == 100


def test_bands_are_cut_at_bottom_and_top() -> None:
    h = IntervalHierarchy.from_widths([5, 20], bottom=3, top=90)
    assert h.path(4) == ("4", "[3, 5)", "[3, 20)", "*")
    assert h.path(88) == ("88", "[85, 90)", "[80, 90)", "*")
    assert h.path("[80, 90)") == ("[80, 90)", "*")


def test_classes_are_read_back_from_their_labels() -> None:
    assert AGES.path("[20, 30)") == ("[20, 30)", "[20, 40)", "*")
    assert AGES.path("[20,30)") == AGES.path("[20, 30)")
    assert AGES.path(">= 100") == ("≥ 100", "≥ 100", "≥ 100", "*")
    assert AGES.level_of("< 0") == 1
    assert AGES.contains("[20, 40)", "[20, 25)")
    assert not AGES.contains("[20, 25)", "[20, 40)")
    assert AGES.common("[20, 25)", 39) == "[20, 40)"
    mixed = AGES.generalise([22, "[20, 25)", "[20, 40)", "37", "*", None], 2)
    assert mixed.tolist() == ["[20, 30)", "[20, 30)", "[20, 40)", "[30, 40)", "*", None]


@pytest.mark.parametrize(
    "value", ["[20, 26)", "[21, 30)", "< 5", "≥ 50", "[20, 30]", "[a, b)", "1_000", "1,5", True, 1e300, math.inf]
)
def test_what_is_neither_a_number_nor_a_class_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        AGES.path(value)


@given(
    st.integers(-2_000, 2_000),
    st.sampled_from(["0.1", "0.05", "0.7", "2.5", "3"]),
    st.sampled_from(["0", "0.3", "-1.15"]),
)
def test_decimal_bands_agree_with_exact_fractions(k: int, width: str, start: str) -> None:
    w, s, x = Fraction(width), Fraction(start), Fraction(k, 100)
    low = s + (x - s) // w * w
    h = IntervalHierarchy.from_widths([float(width), 3 * float(width)], start=float(start))
    label = h.path(float(x))[1]
    a, b = (Fraction(part.strip()) for part in label[1:-1].split(","))
    assert (a, b) == (low, low + w)


def test_leaves_of_intervals_count_numbers_in_steps_of_the_last_decimal_place() -> None:
    assert [AGES.leaves(v) for v in AGES.path(22)] == [1, 5, 10, 20, 110]
    assert AGES.leaves("< 0") == AGES.leaves("≥ 100") == 5
    assert BANDS.leaves("[18, 65)") == 47
    assert BANDS.leaves("< 18") == 10 + 10 + 8
    assert BANDS.leaves("*") == BANDS.leaves("< 18") + BANDS.leaves("≥ 18")
    assert IntervalHierarchy.from_widths([0.5, 1.5]).leaves("[0, 1.5)") == 15
    assert IntervalHierarchy([[0.1, 0.3]]).leaves("*") == 2 + 2 + 2
    assert IntervalHierarchy([[18]]).leaves("*") == 2


edge_lists = st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True)


@given(edge_lists, st.data())
def test_the_leaves_of_an_interval_are_those_of_the_intervals_in_it(edges: list[int], data: st.DataObject) -> None:
    coarse = data.draw(st.lists(st.sampled_from(edges), min_size=1, unique=True))
    h = IntervalHierarchy([sorted(edges), sorted(coarse)])
    points = [min(edges) - 1, *edges]  # one number in every class of level 1
    fine = {h.path(x)[1]: h.path(x)[2] for x in points}
    for label in set(fine.values()):
        assert h.leaves(label) == sum(h.leaves(below) for below, above in fine.items() if above == label)
    assert h.leaves("*") == sum(h.leaves(label) for label in fine)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "either edges or widths"),
        ({"edges": [[1]], "widths": [1]}, "either edges or widths"),
        ({"edges": [0, 10]}, "one list for each level"),
        ({"edges": [[0, 10], [0, 15]]}, "level 2 has the edge 15, which level 1 does not have"),
        ({"edges": [[0, 10, 10]]}, "level 1 must rise, but 10 comes after 10"),
        ({"edges": [[0, 10], []]}, "level 2 of the hierarchy has no edges"),
        ({"edges": [[0, "x"]]}, "must be a number"),
        ({"edges": [[0, math.inf]]}, "must be a number"),
        ({"edges": [[0, 10]], "top": 5}, "top goes with widths"),
        ({"widths": [5, 12]}, "width 12 of level 2 is not 2, 3, … times the width 5 of level 1"),
        ({"widths": [5, 5]}, "width 5 of level 2"),
        ({"widths": [0]}, "greater than 0"),
        ({"widths": 5}, "widths must be a list"),
        ({"widths": [5], "bottom": 10, "top": 10}, "bottom must be the smaller one"),
    ],
)
def test_intervals_that_do_not_nest_are_refused_with_the_reason(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        IntervalHierarchy(**parameters)


def test_decimal_widths_that_nest_in_decimals_are_accepted() -> None:
    expected = ("0.3", "[0.3, 0.4)", "[0.3, 0.6)", "*")
    assert IntervalHierarchy.from_widths([0.1, 0.3]).path(0.3) == expected
    tenths = [i * 0.1 for i in range(11)]  # the float 3 * 0.1 is not 0.3
    assert IntervalHierarchy([tenths, tenths[::3]]).path(0.3) == expected


# -- dates


def test_a_date_falls_into_month_quarter_year_and_decade() -> None:
    expected = ("2026-11-16", "2026-11", "2026-Q4", "2026", "2020s", "*")
    midnight = datetime(2026, 11, 16)
    given_as = [
        "2026-11-16",
        "20261116",
        20261116,
        midnight.date(),
        midnight,
        pd.Timestamp(midnight),
        np.datetime64(midnight),
    ]
    for value in given_as:
        assert DATES.path(value) == expected
    assert DATES.generalise(pd.Series([midnight, None]), 2).tolist() == ["2026-Q4", None]
    assert DATES.generalise(np.array(["2026-11-16", "NaT"], "datetime64[ns]"), 3).tolist() == ["2026", None]


@pytest.mark.parametrize("levels", [["day", "month"], ["quarter", "decade"]])
def test_a_column_of_times_generalises_like_its_values_one_by_one(levels: list[str]) -> None:
    h = DateHierarchy(levels, years=[1960, 2030])
    times = pd.Series(pd.date_range("1969-12-30 22:15", "1970-01-02", freq="97min"))
    for level in range(h.height + 1):
        assert h.generalise(times, level).tolist() == [h.path(t)[level] for t in times]
    with pytest.raises(SchemaError, match="2 distinct values are not in this hierarchy"):
        h.generalise(pd.Series(pd.to_datetime(["1959-12-31 10:00", "1959-12-31 11:00", "1970-01-01 00:00"])), 1)


def test_a_date_with_a_time_keeps_it_on_level_0_only() -> None:
    h = DateHierarchy(["day", "year"])
    assert h.path("2026-11-16 13:45") == ("2026-11-16T13:45:00", "2026-11-16", "2026", "*")
    assert h.path(date(2026, 11, 16)) == ("2026-11-16", "2026-11-16", "2026", "*")
    assert h.contains("2026-11-16", datetime(2026, 11, 16, 13, 45))


@pytest.mark.parametrize(("month", "quarter"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (9, 3), (10, 4), (12, 4)])
def test_quarters_hold_three_months(month: int, quarter: int) -> None:
    assert DATES.path(date(2000, month, 1))[2] == f"2000-Q{quarter}"
    assert DATES.contains(f"2000-Q{quarter}", f"2000-{month:02d}")


def test_general_dates_stand_on_their_own_level() -> None:
    assert DATES.path("2026-Q4") == ("2026-Q4", "2026", "2020s", "*")
    assert DATES.path(2026) == ("2026", "2020s", "*")
    assert DATES.level_of("2020s") == 4
    assert DATES.common("2026-01-31", "2026-03-01") == "2026-Q1"
    assert DATES.common("2019-12-31", "2020-01-01") == "*"


def test_a_column_known_by_month_can_start_there() -> None:
    h = DateHierarchy(["quarter", "year"])
    assert h.path("2026-11") == ("2026-11", "2026-Q4", "2026", "*")
    with pytest.raises(SchemaError):
        DateHierarchy(["month", "year"]).path("2026-Q4")


def test_leaves_of_dates_count_days() -> None:
    assert [DATES.leaves(v) for v in ("2024-02-29", "2024-02", "2024-Q1", "2024", "2020s")] == [1, 29, 91, 366, 3653]
    assert DateHierarchy(years=[2023, 2024]).leaves("*") == 365 + 366
    assert DateHierarchy(years=[2023, 2024]).leaves("2020s") == 365 + 366
    assert DATES.leaves("9999-12") == 31
    assert DATES.leaves("0000s") == 9 * 365 + 2  # years 1 to 9, of which 4 and 8 are leap years


def test_dates_outside_the_years_are_refused() -> None:
    h = DateHierarchy(years=[1990, 2030])
    with pytest.raises(SchemaError, match=r"2 distinct values are not in this hierarchy.*of the years 1990 to 2030"):
        h.generalise([date(1989, 12, 31), date(2031, 1, 1), date(1990, 1, 1)], 1)


@pytest.mark.parametrize(
    "value", ["2026-13-01", "2026-02-30", "16.11.2026", "2026-W46", "2026-W46-1", "2026-13", "0000", 7, True]
)
def test_what_is_no_date_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="1 value is not in this hierarchy"):
        DATES.path(value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"levels": ["week", "year"]}, "weeks do not nest"),
        ({"levels": ["moth"]}, "Did you mean 'month'"),
        ({"levels": ["year", "month"]}, "in this order"),
        ({"levels": ["year", "year"]}, "each once"),
        ({"levels": []}, "some of day, month"),
        ({"levels": "year"}, "must be a list"),
        ({"years": [2030, 1990]}, "the first and the last"),
        ({"years": [1990]}, "the first and the last"),
        ({"years": [0, 1990]}, "at least 1"),
    ],
)
def test_wrong_levels_of_dates_are_refused_with_the_reason(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        DateHierarchy(**parameters)


# -- CSV files


def _file(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "hierarchy.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("separator", [";", ",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separator_line_ends_and_byte_order_mark_are_found(
    tmp_path: Path, separator: str, end: str, encoding: str
) -> None:
    lines = [separator.join(row) for row in (["ä", "A", "*"], ["b", "A", "*"], ["c", "C", "*"])]
    h = read_hierarchy_csv(_file(tmp_path, (end or "\n").join(lines) + end, encoding))
    assert h == TreeHierarchy([["ä", "A", "*"], ["b", "A", "*"], ["c", "C", "*"]])


def test_commas_inside_labels_do_not_pass_for_separators(tmp_path: Path) -> None:
    h = read_hierarchy_csv(_file(tmp_path, "29;[20,30[;*\n36;[30,40[;*\n"))
    assert h.path(29) == ("29", "[20,30[", "*")


def test_a_separator_can_be_given(tmp_path: Path) -> None:
    path = _file(tmp_path, "a|A|*\nb|A|*\n")
    assert read_hierarchy_csv(path, separator="|").path("b") == ("b", "A", "*")
    with pytest.raises(SchemaError, match="must be one sign"):
        read_hierarchy_csv(path, separator="||")


def test_a_root_is_added_where_the_last_column_varies(tmp_path: Path) -> None:
    assert read_hierarchy_csv(_file(tmp_path, "a;A\nb;B\n")).path("a") == ("a", "A", "*")
    assert read_hierarchy_csv(_file(tmp_path, "a\nb\n")).path("a") == ("a", "*")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;A;*\n\nb;B\n", "line 3 of the hierarchy file .* has 2 columns, but the first line has 3 columns"),
        ("a;A;*\nb\n", "line 2 .* has 1 column,"),
        ("a;A;*\nb;;*\n", "line 2 .* has an empty cell"),
        ("a;A;*\na;B;*\n", "in the hierarchy file .*'a' on level 0 stands under both 'A' and 'B'"),
        ("", "is empty"),
        ("\n\n", "is empty"),
    ],
)
def test_a_broken_file_is_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        read_hierarchy_csv(_file(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot read the hierarchy file"):
        read_hierarchy_csv(tmp_path / "absent.csv")
    with pytest.raises(SchemaError, match="Save it as UTF-8"):
        read_hierarchy_csv(_file(tmp_path, "é;*", "latin-1"))


labels = st.text(st.sampled_from("ab;,\t\"'\n\r é*"), min_size=1, max_size=5)


@given(st.lists(labels, min_size=1, max_size=8, unique=True))
def test_a_tree_survives_its_csv_file(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "h.csv"
    h = TreeHierarchy([[name, "group", "*"] for name in names if name != "*"] or [["x", "*"]])
    write_hierarchy_csv(h, path)
    assert read_hierarchy_csv(path) == h


def test_other_kinds_are_written_for_the_values_given(tmp_path: Path) -> None:
    path = tmp_path / "ages.csv"
    write_hierarchy_csv(AGES, path, values=[22, 37, 22])
    assert path.read_bytes() == b"22;[20, 25);[20, 30);[20, 40);*\r\n37;[35, 40);[30, 40);[20, 40);*\r\n"
    assert read_hierarchy_csv(path).path(37) == AGES.path(37)
    with pytest.raises(SchemaError, match="Give the values to write"):
        write_hierarchy_csv(AGES, path)
    with pytest.raises(SchemaError, match="1 of the values are generalised already"):
        write_hierarchy_csv(AGES, path, values=[22, "[20, 30)"])
    with pytest.raises(SchemaError, match="no values to write"):
        write_hierarchy_csv(AGES, path, values=[])


# -- the files that ARX ships; values and columns as in ../shared/data/arx/README.md


@needs_arx
@pytest.mark.parametrize("name", HIERARCHIES)
def test_an_arx_file_has_the_documented_values_and_height(name: str) -> None:
    values, columns = HIERARCHIES[name]
    h = read_hierarchy_csv(ARX / f"{name}.csv")
    assert len(h.values) == h.leaves(h.root) == values
    assert h.height == columns - 1


@needs_arx
def test_every_arx_hierarchy_file_is_in_the_list() -> None:
    assert {path.stem for path in ARX.glob("*_hierarchy_*.csv")} == set(HIERARCHIES)


@needs_arx
@pytest.mark.parametrize("table", ["adult", "test", "test2"])
def test_arx_data_generalise_as_their_files_say(table: str) -> None:
    with (ARX / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file, delimiter=";"))
    paths = sorted(ARX.glob(f"{table}_hierarchy_*.csv"))
    assert paths
    for path in paths:
        column = [record[path.stem.split("_hierarchy_")[1]] for record in records]
        rows = {line.split(";")[0]: line.split(";") for line in path.read_text("utf-8").splitlines()}
        h = read_hierarchy_csv(path)
        for level in range(h.height + 1):
            assert h.generalise(column, level).tolist() == [rows[value][level] for value in column]


@needs_arx
def test_the_zip_file_of_arx_is_the_prefix_hierarchy() -> None:
    table = read_hierarchy_csv(ARX / "test_hierarchy_zipcode.csv")
    assert all(ZIP.path(value) == table.path(value) for value in table.values)


@needs_arx
def test_the_age_file_of_arx_agrees_with_intervals_of_the_age_before() -> None:
    # the file calls the ages 1 to 5 "0-4", 6 to 10 "5-9", and so on: its labels are one year behind its values
    table = read_hierarchy_csv(ARX / "adult_hierarchy_age.csv")
    for age in range(1, 101):
        bounds = [label[1:-1].split(", ") for label in AGES.path(age - 1)[1:4]]
        assert table.path(age)[1:4] == tuple(f"{low}-{int(high) - 1}" for low, high in bounds)
