"""Rare values recoded, merged and changed: against the global-risk paper, by hand, and by brute force."""

from __future__ import annotations

import csv
import datetime
import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import column, in_pieces, masked, microdata, release

from sfumato.contract import Draws, Mask
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import ChangeRare, MergeRare, RecodeRare
from sfumato.masks.rare_categories import neighbours, relatives
from sfumato.schema import (
    Attribute,
    IntervalHierarchy,
    Level,
    PrefixHierarchy,
    Scale,
    TreeHierarchy,
    read_hierarchy_csv,
)

ARX = Path(__file__).resolve().parents[2] / "shared" / "data" / "arx"


# Rare values


def test_the_papers_zip_rule_cuts_two_digits_of_codes_with_fewer_than_t_records() -> None:
    """Global-risk paper, section 4: below t the last two digits go; past the largest count, all do."""
    zips = ["48201"] * 3 + ["48207"] * 2 + ["10001", None]
    truth = {
        1: zips,
        2: ["48201"] * 3 + ["48207"] * 2 + ["100**", None],
        3: ["48201"] * 3 + ["482**"] * 2 + ["100**", None],
        4: ["482**"] * 5 + ["100**", None],
    }
    for facts in ({}, {"zip": {"scale": "partially ordered", "hierarchy": PrefixHierarchy(5)}}):
        data = microdata(facts, zip=zips)
        for t, made in truth.items():
            assert masked(RecodeRare("zip", least=t), data, "zip") == made


def test_zip_codes_that_are_numbers_are_cut_as_text() -> None:
    data = microdata(
        {"zip": {"scale": "partially ordered", "hierarchy": PrefixHierarchy(5), "integer": True}},
        zip=[1002, 1002, 90210],
    )
    after = release(RecodeRare("zip", least=2), data).masked
    assert column(after, "zip") == ["01002", "01002", "902**"]
    assert not after.schema["zip"].integer


@given(st.lists(st.integers(0, 59), min_size=1, max_size=60), st.integers(1, 12), st.integers(1, 3))
def test_cuts_are_repeated_until_nothing_but_the_top_is_rare(numbers: list[int], t: int, cut: int) -> None:
    codes = [f"{n:03d}" for n in numbers]
    made = masked(RecodeRare("code", least=t, cut=cut, repeat="until_frequent"), microdata(code=codes), "code")
    now = list(codes)
    while True:  # the definition, one record at a time
        counts = Counter(now)
        rare = [i for i, label in enumerate(now) if counts[label] < t and label != "*"]
        if not rare:
            break
        for i in rare:
            kept = now[i].rstrip("*")[:-cut]
            now[i] = kept.ljust(3, "*") if kept else "*"
    assert made == now


def test_a_label_repeated_on_the_next_level_is_no_cut() -> None:
    work = TreeHierarchy([["nurse", "health", "*"], ["doctor", "health", "*"], ["farmer", "farmer", "*"]])
    data = microdata({"job": {"hierarchy": work}}, job=["nurse", "nurse", "doctor", "farmer"])
    assert masked(RecodeRare("job", least=2, cut=1), data, "job") == ["nurse", "nurse", "health", "*"]


def test_rare_values_can_be_counted_by_households(monkeypatch: pytest.MonkeyPatch) -> None:
    zips, homes = ["48201", "48207", "48201", "48207", "48201"], [1, 2, 1, 3, 1]
    facts = {"home": {"role": "household"}}
    data = microdata(facts, zip=zips, home=homes)
    by_home = ["482**", "48207", "482**", "48207", "482**"]  # one household has the first code, two have the second
    for where in (data, in_pieces(data, monkeypatch, rows=2)):
        assert masked(RecodeRare("zip", least=2, unit="household"), where, "zip") == by_home
        assert masked(RecodeRare("zip", least=2), where, "zip") == zips
    with pytest.raises(DataError, match="no column has the role 'household'"):
        release(RecodeRare("zip", unit="household"), microdata(zip=zips))


def test_households_that_meet_in_one_cut_code_are_counted_once() -> None:
    """Members of one household with two rare codes are one household in the prefix: it is cut again."""
    data = microdata({"home": {"role": "household"}}, zip=["48201", "48202", "10001", "10001"], home=[1, 1, 2, 3])
    mask = RecodeRare("zip", least=2, unit="household", repeat="until_frequent")
    assert masked(mask, data, "zip") == ["*", "*", "10001", "10001"]


def test_rare_numbers_and_dates_become_text_and_missing_codes_stay() -> None:
    day = datetime.date(2020, 1, 31)
    facts = {"age": {"scale": "ordered", "hierarchy": IntervalHierarchy.from_widths([10, 20]), "missing": (999,)}}
    data = microdata(facts, age=[34, 34, 88, 999], day=[day, day, datetime.date(1999, 9, 9), None])
    after = release(RecodeRare(["age", "day"], least=2, cut=1), data).masked
    assert column(after, "age") == ["34", "34", "[80, 90)", "999"]
    assert column(after, "day") == ["2020-01-31", "2020-01-31", "1999-09-0*", None]
    assert after.batch().missing("age").tolist() == [False, False, False, True]
    assert after.schema["age"].scale is Scale.PARTIALLY_ORDERED


def test_a_key_with_a_hundred_thousand_levels_is_counted_exactly() -> None:
    n = 100_000
    codes = np.concatenate([np.arange(n), np.arange(0, n, 2)])  # even codes occur twice
    made = masked(RecodeRare("code", least=2, cut=1), microdata(code=[f"{c:06d}" for c in codes]), "code")
    assert made == [f"{c:06d}" if c % 2 == 0 else f"{c:06d}"[:-1] + "*" for c in codes]


def test_a_fitted_rule_treats_new_values_as_rare() -> None:
    fitted = RecodeRare("zip", least=2).fit(microdata(zip=["48201", "48201"]), Draws(1))
    made = fitted.transform(microdata(zip=["48201", "99999"]).batch(), Draws(1))
    assert made.column("zip").arrow.to_pylist() == ["48201", "999**"]


# Merging


def test_rare_categories_are_merged_into_one_and_the_next_smallest_joins_if_that_is_rare() -> None:
    data = microdata(x=["a"] * 9 + ["b"] * 6 + ["c"] * 5 + ["d"] + ["e"] * 2 + [None])
    made = Counter(masked(MergeRare(least=3, into="other"), data, "x"))
    assert made == {"a": 9, "b": 6, "c": 5, "other": 3, None: 1}
    made = Counter(masked(MergeRare(least=4, into="other"), data, "x"))
    assert made == {"a": 9, "b": 6, "other": 8, None: 1}
    made = Counter(masked(MergeRare(least=7), data, "x"))
    assert made == {"a": 9, "other": 14, None: 1}
    assert Counter(masked(MergeRare(least=10), data, "x")) == {"other": 23, None: 1}


def test_a_category_that_has_the_label_of_the_leftovers_is_one_of_them() -> None:
    data = microdata(x=["a"] * 5 + ["other"] * 4 + ["b"])
    assert Counter(masked(MergeRare(least=3), data, "x")) == {"a": 5, "other": 5}


def test_more_records_asked_for_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match="least = 5 is more than the 4 records with a value in 'x'"):
        release(MergeRare(), microdata(x=["a", "b", None, "c", "d"]))


@given(st.lists(st.integers(1, 20), min_size=1, max_size=25), st.integers(1, 60))
def test_ordered_categories_join_their_smaller_neighbour_smallest_first(counts: list[int], least: int) -> None:
    groups = [[i] for i in range(len(counts))]
    while len(groups) > 1:  # the definition, step by step
        sizes = [sum(counts[i] for i in g) for g in groups]
        at = sizes.index(min(sizes))
        if sizes[at] >= least:
            break
        beside = min((j for j in (at - 1, at + 1) if 0 <= j < len(groups)), key=lambda j: (sizes[j], j))
        a, b = sorted((at, beside))
        groups[a : b + 1] = [groups[a] + groups[b]]
    truth = [g for g, members in enumerate(groups) for _ in members]
    assert neighbours(counts, least) == truth


def test_merged_numbers_are_released_as_the_median_of_their_records_and_stay_numbers() -> None:
    facts = {"children": {"scale": "ordered", "integer": True, "missing": (99,)}}
    children = [0] * 9 + [1] * 8 + [2] * 6 + [3] * 3 + [4, 5, 5, 12, 99, None]
    made = release(MergeRare("children", least=5), microdata(facts, children=children)).masked
    # 4 joins 5, the smaller neighbour; so does 12; 3 joins those: of 3 3 3 4 5 5 12 the median is 4
    assert column(made, "children") == [0] * 9 + [1] * 8 + [2] * 6 + [4] * 7 + [99, None]
    assert made.schema == microdata(facts, children=children).schema


def test_merged_dates_stay_dates() -> None:
    days = [datetime.date(2020, 1, d) for d in (1, 1, 1, 2, 5, 9, 9)]
    made = masked(MergeRare("day", least=3), microdata({"day": {"scale": "ordered"}}, day=days), "day")
    # the 2nd joins the 5th, the smaller neighbour, and both the 9th; of 2, 5, 9, 9 the lower median is 5
    assert made == [datetime.date(2020, 1, d) for d in (1, 1, 1, 5, 5, 5, 5)]


def test_merged_ordered_categories_are_named_by_their_ends_and_keep_numbers() -> None:
    facts = {"school": {"scale": "ordered", "values": {"none": 0, "primary": 1, "secondary": 2, "tertiary": 4}}}
    data = microdata(facts, school=["none"] * 1 + ["primary"] * 2 + ["secondary"] * 5 + ["tertiary"] * 6)
    after = release(MergeRare(least=3), data).masked
    assert Counter(column(after, "school")) == {"none to primary": 3, "secondary": 5, "tertiary": 6}
    assert sorted(set(after.numbers("school"))) == [0.5, 2, 4]
    assert (np.diff(after.numbers("school")) >= 0).all()


TREE = TreeHierarchy.from_tree({"A": {"a": ["a1", "a2"], "b": ["b1", "b2"]}, "B": {"c": ["c1", "c2"], "d": ["d1"]}})


@given(st.lists(st.integers(0, 12), min_size=7, max_size=7), st.integers(2, 15))
def test_rare_categories_go_up_with_their_rare_relatives_level_by_level(sizes: list[int], least: int) -> None:
    counts = {v: n for v, n in zip(TREE.values, sizes, strict=True) if n}
    if sum(sizes) < least:
        return
    merged = relatives(counts, least, Attribute("x", scale="unordered", hierarchy=TREE))  # type: ignore[arg-type]
    records = [v for v, n in counts.items() for _ in range(n)]
    now = list(records)
    for level in (1, 2, 3):  # the definition, one record at a time
        held = Counter(now)
        now = [TREE.path(v)[level] if held[label] < least else label for v, label in zip(records, now, strict=True)]
    while 0 < now.count("*") < least:
        smallest = min(set(now) - {"*"}, key=lambda label: (now.count(label), label))
        now = ["*" if label == smallest else label for label in now]
    made = dict(zip(merged.old, merged.new, strict=True))
    assert [made[v] for v in records] == now
    assert min(Counter(now).values()) >= least


def test_a_frequent_category_keeps_its_name_beside_rare_siblings() -> None:
    data = microdata({"x": {"hierarchy": TREE}}, x=["a1"] * 9 + ["a2"] * 2 + ["b1"] + ["b2"] * 3 + ["c1"] * 5)
    # b1 and b2 make up b, which is enough; a2 goes up to the top alone, where the smallest category joins it: that is b
    assert Counter(masked(MergeRare(least=4), data, "x")) == {"a1": 9, "c1": 5, "*": 6}
    more = microdata({"x": {"hierarchy": TREE}}, x=["a1"] * 9 + ["a2"] * 2 + ["b1"] + ["b2"] + ["c1"] * 5)
    assert Counter(masked(MergeRare(least=4), more, "x")) == {"a1": 9, "c1": 5, "A": 4}  # a2 meets b1 and b2 in A


def test_categories_of_households_are_counted_by_households() -> None:
    facts = {"home": {"role": "household"}, "tenure": {"level": Level.HOUSEHOLD}}
    data = microdata(facts, tenure=["own"] * 6 + ["rent", "rent", "free"], home=[1, 1, 1, 1, 1, 1, 2, 3, 4])
    # "own" has six records but one household
    assert set(masked(MergeRare("tenure", least=2), data, "tenure")) == {"rent", "other"}


@pytest.mark.skipif(not ARX.exists(), reason="the ARX files are not here")
def test_rare_countries_of_the_adult_file_are_merged_with_the_country_hierarchy() -> None:
    with (ARX / "adult.csv").open() as lines:
        country = [row["native-country"] for row in csv.DictReader(lines, delimiter=";")]
    data = microdata(
        {"country": {"hierarchy": read_hierarchy_csv(ARX / "adult_hierarchy_native-country.csv")}}, country=country
    )
    made = release(MergeRare(least=100), data)
    counts = Counter(column(made.masked, "country"))
    assert min(counts.values()) >= 100
    assert sum(counts.values()) == len(country)
    assert "at least 100 records" in made.guarantees[-1].says


# Changing


def test_the_sex_of_the_records_with_the_rarest_keys_is_reversed() -> None:
    """Global-risk paper, section 4, second experiment: (20, f) and (30, m) occur once, (20, m) twice, (40, f) four times."""
    age, sex = [40, 20, 40, 20, 30, 40, 40, 20], ["f", "f", "f", "m", "m", "f", "f", "m"]
    data = microdata(age=age, sex=sex)
    quarter = masked(ChangeRare("sex", share=0.25), data, "sex")
    assert quarter == ["f", "m", "f", "m", "f", "f", "f", "m"]
    assert masked(ChangeRare("sex", share=0.5), data, "sex") == ["f", "m", "f", "f", "f", "f", "f", "f"]
    assert masked(ChangeRare("sex", share=1), data, "sex") == ["m" if s == "f" else "f" for s in sex]
    assert masked(ChangeRare("sex", share=0), data, "sex") == sex


def test_the_changed_records_are_a_hard_count_and_nested_as_the_share_grows() -> None:
    g = np.random.default_rng(0)
    data = microdata(age=g.integers(0, 30, 1000), sex=np.array(["f", "m"])[g.integers(0, 2, 1000)])
    before, last = np.array(column(data, "sex")), np.zeros(1000, bool)
    for share in (0.01, 0.07, 0.29, 0.57, 0.58, 1.0):
        moved = np.array(masked(ChangeRare("sex", share=share), data, "sex")) != before
        assert moved.sum() == round(share * 1000)
        assert (moved >= last).all()
        last = moved


def test_ties_are_broken_by_lot() -> None:
    data = microdata(age=np.arange(400), sex=["f", "m"] * 200)
    before = np.array(column(data, "sex"))
    moved = [np.array(masked(ChangeRare("sex", share=0.25), data, "sex", seed=s)) != before for s in range(40)]
    share = np.mean(moved, axis=0)  # everyone is as rare as everyone else
    assert abs(np.mean(share[:200]) - 0.25) < 4.5 * math.sqrt(0.25 * 0.75 / (40 * 200))
    assert share.max() < 0.25 + 5.5 * math.sqrt(0.25 * 0.75 / 40)


def test_with_more_categories_another_one_is_drawn_evenly_or_taken_from_a_list() -> None:
    n = 30_000
    region = np.array(["n", "e", "s", "w"])[np.arange(n) % 4]
    data = microdata(person=np.arange(n), region=region)
    made = np.array(masked(ChangeRare("region", share=1, keys=["person"]), data, "region"))
    assert (made != region).all()
    for old, new in itertools.permutations("nesw", 2):
        count = ((region == old) & (made == new)).sum()
        assert abs(count - n / 12) < 4.5 * math.sqrt(n / 4 * (1 / 3) * (2 / 3))
    turn = {"n": "e", "e": "s", "s": "w", "w": "n"}
    assert masked(ChangeRare("region", share=1, to=turn), data, "region") == [turn[r] for r in region]


def test_coded_and_boolean_categories_keep_their_type_and_missing_ones_are_not_counted() -> None:
    data = microdata(
        {"sex": {"missing": (9,)}}, age=[1, 2, 2, 3, 4], sex=[1, 2, 2, 9, None], new=[True, False, False, True, True]
    )
    made = release(ChangeRare("sex", share=1), data).masked
    assert column(made, "sex") == [2, 1, 1, 9, None]
    # two of the three records whose age occurs once, all of them true
    assert masked(ChangeRare("new", share=0.4, keys=["age"]), data, "new").count(True) == 1
    assert "3 of 3 records" in release(ChangeRare("sex", share=1), data).guarantees[-1].says


def test_a_household_column_is_changed_for_all_members_of_the_rarest_households() -> None:
    facts = {"home": {"role": "household"}, "tenure": {"level": Level.HOUSEHOLD}}
    data = microdata(
        facts,
        age=[70, 30, 30, 30, 30, 30],
        home=[1, 1, 2, 2, 3, 3],
        tenure=["own", "own", "rent", "rent", "own", "own"],
    )
    made = release(ChangeRare("tenure", share=0.34, keys=["age"]), data)
    assert column(made.masked, "tenure") == ["rent", "rent", "rent", "rent", "own", "own"]
    assert "1 of 3 households" in made.guarantees[-1].says


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (ChangeRare("sex", share=0.1), "less than one record"),
        (ChangeRare("one", share=1), "a single category"),
        (ChangeRare("sex", share=1, to={"f": "m"}), "1 categories of 'sex' have no new one"),
        (ChangeRare("sex", share=1, to={"f": "x", "m": "f"}), "one that no record has"),
        (ChangeRare("sex", share=1, keys=["agee"]), "Did you mean 'age'"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(mask: Mask, sentence: str) -> None:
    data = microdata(age=[1, 2], sex=["f", "m"], one=["x", "x"])
    with pytest.raises(SfumatoError, match=sentence):
        release(mask, data)


def test_lists_are_no_categories() -> None:
    data = microdata(age=[1, 2], tags=[["a"], ["b"]], sex=["f", "m"])
    for mask in (RecodeRare("tags"), MergeRare("tags"), ChangeRare("tags", share=1), ChangeRare("sex", share=1)):
        with pytest.raises(DataError, match=r"column 'tags' holds .*, where categories are needed"):
            release(mask, data)


def test_a_change_to_the_same_category_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="leaves 1 categories as they are"):
        ChangeRare("sex", to={"f": "f"})
    with pytest.raises(ParameterError, match="empty list"):
        ChangeRare("sex", keys=[])


def test_a_hundred_thousand_rare_categories_are_merged_into_one_without_ado() -> None:
    data = microdata(x=[*(f"v{i}" for i in range(100_000)), "common", "common"])
    made = masked(MergeRare(columns=("x",), least=2), data, "x")
    assert made[-2:] == ["common", "common"]
    assert set(made[:-2]) == {"other"}
