"""Sensitivity rules where there is little to judge by: nobody, zeros, waivers, requests, negative values, given tops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rule_cells import of_frame, random_cells, table_of

from sfumato import Attribute, Microdata, Schema
from sfumato.errors import DataError
from sfumato.tables import (
    NK,
    PQ,
    PTN,
    Largest,
    MinimumContributors,
    MinimumFrequency,
    PPercent,
    Request,
    Table,
    ZeroCells,
)
from sfumato.tables.largest_contributors import singletons


def test_no_contributor_one_two_ties_and_zeros() -> None:
    frame = pd.DataFrame({
        "region": ["one", "two", "two", "equal", "equal", "equal", "equal", "zero", "zero", "zero"], "owner": range(10),
        "value": [5.0, 7, 7, 3, 3, 3, 3, 0, 0, 0],
    })  # fmt: skip
    frame["kind"] = ["x"] * 6 + ["y"] * 4
    schema = Schema(tuple(Attribute(n, scale="ordered" if n == "value" else "unordered") for n in frame))
    table = Table.of(Microdata(frame, schema), "region * kind", "value", contributor="owner", empty=True)
    cells = table.cells
    at = {name: cells.find(region=name) for name in ("one", "two", "equal", "zero")}
    empty = cells.find(region="one", kind="y")
    rule = PPercent(10).assess(table)
    assert [bool(rule.unsafe[at[n]]) for n in at] == [True, True, False, False]
    assert not rule.unsafe[empty]
    assert rule.upper[at["one"]] == pytest.approx(0.5)
    assert rule.upper[at["two"]] == pytest.approx(0.7)
    # four equal ones: the other two have twice the largest, so that p up to 200 is kept
    assert not PPercent(200).assess(table).unsafe[at["equal"]]
    assert PPercent(201).assess(table).unsafe[at["equal"]]
    few = MinimumContributors(3).assess(table)
    assert [bool(few.unsafe[at[n]]) for n in at] == [True, True, False, False]
    assert not few.unsafe[empty]
    assert MinimumContributors(3, nonzero=True).assess(table).unsafe[at["zero"]]
    zeros = ZeroCells(2.0).assess(table)
    assert zeros.unsafe[at["zero"]]
    assert (zeros.upper[at["zero"]], zeros.lower[at["zero"]]) == (2.0, 0.0)
    assert not zeros.unsafe[[empty, at["one"]]].any()
    assert PTN(10, least=1).assess(table).unsafe[at["zero"]]
    assert singletons(table)[at["one"]] >= 0
    assert singletons(table)[[empty, at["two"]]].tolist() == [-1, -1]


def test_counts_are_hidden_by_one_at_least_and_zeros_on_demand() -> None:
    frame = pd.DataFrame({"region": ["a", "b", "c", "d"], "n": [0, 1, 4, 60]})
    table = Table.of(Microdata(frame), "region - 1", count="n")
    rule = MinimumFrequency(5, margin=30).assess(table)
    assert rule.unsafe.tolist() == [False, True, True, False]
    assert rule.upper == pytest.approx([0, 1, 1.2, 0])
    assert rule.lower == pytest.approx([0, 1, 1.2, 0])
    with_zeros = MinimumFrequency(5, zeros=True).assess(table)
    assert with_zeros.unsafe.tolist() == [True, True, True, False]
    assert (with_zeros.upper[0], with_zeros.lower[0]) == (1, 0)
    assert MinimumContributors(5).assess(table).unsafe.tolist() == rule.unsafe.tolist()


def test_who_waived_protection_is_a_column_or_a_list_and_others_stay_protected() -> None:
    records = [("a", 100, 1, True), ("b", 50, 1, False), ("c", 2, 1, False)]
    by_column = table_of([records])
    by_name = table_of([[(o, x, w, False) for o, x, w, _ in records]])
    # b is the largest to protect; with a's 100 taken from the total, c hides 2 of the 5 that are asked for
    assert PPercent(10).assess(by_column).upper[0] == pytest.approx(3)
    assert PPercent(10, waived=("a",)).assess(by_name).upper[0] == pytest.approx(3)
    assert PPercent(10).assess(by_name).upper[0] == pytest.approx(8)
    assert not PPercent(10, waived=("a", "b", "c")).assess(by_name).unsafe[0]
    assert not MinimumContributors(9, waived=("a", "b", "c")).assess(by_name).unsafe[0]
    assert MinimumContributors(9, waived=("a", "b")).assess(by_name).unsafe[0]
    # a holding has waived only if all its records say so
    mixed = table_of([[("a", 60, 1, True), ("a", 40, 1, False), ("b", 50, 1, False), ("c", 2, 1, False)]])
    assert PPercent(10).assess(mixed).upper[0] == pytest.approx(8)


def test_the_request_rule_protects_those_who_asked() -> None:
    frame = pd.DataFrame({
        "region": ["r0"] * 3 + ["r1"] * 3 + ["r2"] * 2 + ["r3"] * 3 + ["r4"] * 3, "owner": [f"o{i}" for i in range(14)],
        "value": [80, 15, 5, 80, 15, 5, 90, 10, 60, 30, 10, 40, 40, 20],
        "asked": [1, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 1, 0],
    })  # fmt: skip
    table = of_frame(frame, request="asked")
    where = [table.cells.find(region=f"r{i}") for i in range(5)]
    # r0: the largest asked and has 80%; r1: asked, but not the largest; r2: only two records; r3: code 2, 60%; r4: a tie, 40%
    assert Request(70).assess(table).unsafe[where].tolist() == [True, False, False, False, False]
    assert Request(70, minimum=3).assess(table).unsafe[where].tolist() == [True, False, True, False, False]
    assert Request(70, second=50).assess(table).unsafe[where].tolist() == [True, False, False, True, False]
    assert Request(35).assess(table).unsafe[where].tolist() == [True, False, False, True, True]
    assert Request(80).assess(table).unsafe[where].tolist() == [False] * 5
    assert Request(70, margin=20).assess(table).upper[where[0]] == pytest.approx(20)
    plain = of_frame(frame.drop(columns="asked"))
    assert Request(70, requested=("o0",)).assess(plain).unsafe[where].tolist() == [True, False, False, False, False]
    with pytest.raises(DataError, match="does not say who asked"):
        Request(70).assess(plain)
    with pytest.raises(DataError, match="would be overlooked") as caught:
        Request(70, requested=("nobody",)).assess(plain)
    assert "nobody" not in str(caught.value)


def test_a_number_is_the_same_name_in_a_column_with_gaps() -> None:
    # a missing owner makes 7.0 of 7
    frame = pd.DataFrame({"region": ["r0"] * 4, "owner": [7, 8, 9, None], "value": [90.0, 5, 3, 2]})
    table = Table.of(Microdata(frame), "region - 1", "value", contributor="owner")
    assert Request(70, requested=("7",)).assess(table).unsafe.tolist() == [True]
    assert PPercent(20).assess(table).unsafe.tolist() == [True]
    assert PPercent(20, waived=("7",)).assess(table).unsafe.tolist() == [False]


def test_negative_contributions_are_refused_or_taken_as_absolute() -> None:
    table = table_of([[("a", -100, 1, False), ("b", 60, 1, False), ("c", 5, 1, False)]])
    for rule in (PPercent(10), NK(1, 60), PQ(10, 50)):
        with pytest.raises(DataError, match="negative contributions") as caught:
            rule.assess(table)
        assert "100" not in str(caught.value)
    found = PPercent(10, negative="absolute").assess(table)
    assert found.upper[0] == pytest.approx(10 - 5)
    assert found.lower[0] == found.upper[0]  # nothing keeps the value above zero
    assert NK(1, 60, negative="absolute").assess(table).unsafe[0]  # 100 of 165
    assert PTN(10).assess(table).upper[0] == pytest.approx(5)


def test_tables_that_give_the_largest_contributions_are_enough_if_they_give_enough() -> None:
    cells = random_cells(100, seed=12, waivers=False)
    table = table_of(cells)
    given = table.with_(contributions=None, given=table.largest(3))
    for rule in (PPercent(10), PPercent(10, coalition=2), NK(2, 80), PQ(10, 50), PTN(10, 50), MinimumContributors(3)):
        assert np.array_equal(rule.assess(given).upper, rule.assess(table).upper)
    with pytest.raises(DataError, match="only 3"):
        NK(4, 80).assess(given)
    # where no cell has more contributors than are given, nothing is missing
    small = table_of(random_cells(50, seed=1, waivers=False, most=2))
    few = small.with_(contributions=None, given=small.largest(2))
    assert np.array_equal(NK(4, 80).assess(few).upper, NK(4, 80).assess(small).upper)
    with pytest.raises(DataError, match="does not say who contributed"):
        PPercent(10, waived=("a",)).assess(given)
    with pytest.raises(DataError, match="does not say who contributed"):
        PPercent(10).assess(given.with_(given=None))
    assert given.given is not None
    heavy = Largest(given.given.contributors, given.given.values, given.given.weights * 2, given.given.who)
    with pytest.raises(DataError, match="have weights"):
        PPercent(10).assess(given.with_(given=heavy))


def test_columns_of_waivers_and_requests_must_say_something_that_is_understood() -> None:
    frame = pd.DataFrame({"region": ["a", "a"], "owner": ["u", "v"], "value": [1.0, 2.0], "asked": [1, 3]})
    with pytest.raises(DataError, match="'waiver' must hold yes or no"):
        of_frame(frame.assign(waiver=["yes", "maybe"]))
    with pytest.raises(DataError, match="request codes 1 and 2"):
        of_frame(frame, request="asked")
    words = of_frame(frame.assign(waiver=["Yes", None]))
    assert words.contributions is not None
    assert words.contributions.waived is not None
    assert words.contributions.waived.tolist() == [True, False]
    with pytest.raises(DataError, match="by name"):
        PPercent(10, waived=("u",)).assess(of_frame(frame.drop(columns=["owner", "asked"])))
