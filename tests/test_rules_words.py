"""Sensitivity rules together, and as texts and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rule_cells import random_cells, table_of

from sfumato.contract.parameters import registered
from sfumato.errors import ParameterError
from sfumato.tables import (
    NK,
    PQ,
    PTN,
    MinimumContributors,
    MinimumFrequency,
    PPercent,
    Request,
    SensitivityRule,
    Together,
    ZeroCells,
    parse_rule,
    rules_of,
)


def test_rules_together_take_the_widest_level_and_the_first_reason() -> None:
    table = table_of(random_cells(100, seed=5))
    both = rules_of([PPercent(10), "minimum 3"])
    a, b, c = PPercent(10).assess(table), MinimumFrequency(3).assess(table), both.assess(table)
    assert np.array_equal(c.unsafe, a.unsafe | b.unsafe)
    assert np.array_equal(c.upper, np.maximum(a.upper, b.upper))
    assert isinstance(both, Together)
    assert set(c.reasons[a.unsafe]) == {"p% rule, p = 10"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("p% 10", PPercent(10)), ("p 15 2", PPercent(15, coalition=2)), ("P(10,1)", PPercent(10)), ("10%", PPercent(10)),
        ("pq 10 50", PQ(10, 50)), ("nk 2 85", NK(2, 85)), ("NK(1, 75)", NK(1, 75)), ("dominance 1 75", NK(1, 75)),
        ("minimum 3", MinimumFrequency(3)), ("FREQ(3,20)", MinimumFrequency(3, margin=20)),
        ("contributors 4", MinimumContributors(4)),
        ("ptn 10 50", PTN(10, 50)), ("REQ(70,60,5)", Request(70, second=60, margin=5)), ("ZERO(2)", ZeroCells(2)),
        ("p% 10 coalition=2 weights=copies", PPercent(10, coalition=2, weights="copies")),
        ("minimum 3 zeros=yes", MinimumFrequency(3, zeros=True)), ("p_percent 12", PPercent(12)),
    ],
)  # fmt: skip
def test_texts_are_read_as_rules(text: str, rule: SensitivityRule) -> None:
    assert parse_rule(text) == rule
    assert rules_of(text) == rule


def test_rules_are_read_from_tables_and_written_again() -> None:
    rules = rules_of(["p% 10|minimum 3", {"rule": "nk", "n": 2, "k": 80}])
    assert rules == Together((Together((PPercent(10), MinimumFrequency(3))), NK(2, 80)))
    for rule in (
        rules,
        PQ(10, 40),
        NK(2, 85),
        PTN(10, 50, own=2),
        Request(70, requested=("a",)),
        PPercent(10, waived=("x", "y")),
    ):
        assert rules_of({"rule": rule.name, **rule.to_dict()}) == rule
    assert {
        "p_percent",
        "pq",
        "nk",
        "ptn",
        "minimum_frequency",
        "minimum_contributors",
        "request",
        "zero_cells",
    } <= set(registered("rule"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PPercent(0), "p of p_percent must be a number above 0"),
        (lambda: PQ(50, 10), "at most q"),
        (lambda: NK(0, 80), "whole number of at least 1"),
        (lambda: NK(1, 101), "at most 100"),
        (lambda: PTN(0), "protects nothing"),
        (lambda: PTN(10, 20, own=30), "worse than others"),
        (lambda: MinimumFrequency(0), "at least 1"),
        (lambda: PPercent(10, waived=3), "list of names"),
        (lambda: Together(()), "at least one rule"),
        (lambda: rules_of([]), "at least one rule"),
        (lambda: rules_of(3), "list of rules"),
        (lambda: parse_rule("p% ten"), "'ten' after 'p%' is not a number"),
        (lambda: parse_rule("dominence 2 85"), "Did you mean 'dominance'"),
        (lambda: parse_rule("p% 1 2 3"), "at most 2 numbers"),
        (lambda: parse_rule(" "), "a word and numbers"),
        (lambda: parse_rule("p% 10 coalitoin=2"), "Did you mean 'coalition'"),
    ],
)
def test_rules_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()
