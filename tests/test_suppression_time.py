"""Suppression at a time limit: whenever the time is over, what is published is safe, and of a large table much is shown."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_suppression import FORMULAS, assert_safe, firms, microdata
from test_suppression_cases import SEED, OverAfter, grid, hidden_of
from test_suppression_insiders import attack_alone

from sfumato.tables import NK, APriori, MinimumFrequency, PPercent, PublishedTable, Table
from sfumato.tables.suppression import pattern
from sfumato.tables.suppression.suppression import Suppression


def over_after(looks: int, table: Table, **parameters: Any) -> PublishedTable:
    """Return what is published if the time is over when the search looks at the clock for the last time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern, "Clock", lambda ends: OverAfter(looks))
        return Suppression(**parameters).protect(table, SEED)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(FORMULAS),
    st.sampled_from([PPercent(10), PPercent(30), PPercent(20, levels="sliding"), NK(1, 75), NK(2, 90)]),
    st.integers(0, 12),
    st.sampled_from([0.1, 1.0]),
)
def test_whenever_the_time_is_over_every_interval_is_wide_enough_against_everybody(
    seed: int, formula: str, rule: Any, looks: int, level: float
) -> None:
    g = np.random.default_rng(seed)
    frame = firms(seed, int(g.integers(3, 60)), kinds=int(g.integers(1, 4)), owners=int(g.integers(2, 30)))
    table = Table.of(microdata(frame, "owner"), formula, "turnover")
    published = over_after(looks, table, rules=rule, insider_level=level)
    assert_safe(table, published, rule)
    said = [g.says for g in published.guarantees if "alone in a leaf" in g.says]
    if said and "but for" not in said[0]:
        assert attack_alone(table, published, rule, 60, level) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(FORMULAS), st.integers(0, 6))
def test_so_are_the_intervals_of_counts(seed: int, formula: str, looks: int) -> None:
    g = np.random.default_rng(seed)
    table = Table.of(microdata(firms(seed, int(g.integers(3, 60)), kinds=int(g.integers(1, 4)))), formula, empty=True)
    rule = MinimumFrequency(3)
    assert_safe(table, over_after(looks, table, rules=rule), rule)


@pytest.mark.parametrize("seed", range(6))
def test_at_once_no_sum_that_follows_from_what_is_shown_breaks_the_rule(seed: int) -> None:
    table = Table.of(microdata(firms(seed, 50, 4, 3, 2, owners=30), "owner"), FORMULAS[seed % 4], "turnover")
    published = Suppression(rules="p% 10", time_limit=0).protect(table, SEED)
    shown = np.unique(table.cells.incidence.toarray()[~hidden_of(published)].astype(int), axis=0)[-8:]
    signs = np.array(list(itertools.product((-1, 0, 1), repeat=len(shown))))
    sums = np.unique(signs @ shown, axis=0)
    sums = sums[((sums == 0) | (sums == 1)).all(axis=1) & sums.any(axis=1)]
    assert len(sums)
    assert table.contributions is not None
    for amounts in np.sort(sums @ table.contributions.own.toarray(), axis=1)[:, ::-1]:
        assert amounts[2:].sum() >= 0.1 * amounts[0] - 1e-9


def test_at_once_much_of_a_table_is_shown() -> None:
    table = Table.of(
        microdata(firms(2, 1200, 12, 8, 3, owners=700), "owner"), "(region + half) * sector * kind", "turnover"
    )
    rule = PPercent(10)
    at_once, best = (Suppression(rules=rule, time_limit=s).protect(table, SEED) for s in (0, 600))
    assert_safe(table, at_once, rule)
    few, many = int(hidden_of(best).sum()), int(hidden_of(at_once).sum())
    assert few < many < 0.6 * len(table)
    assert any("alone in a leaf" in g.says for g in at_once.guarantees)
    assert "the time limit was reached" in at_once.guarantees[0].verified


def test_at_once_a_block_of_two_is_not_enough_for_each_other() -> None:
    many = [3.0, 3, 3, 3, 3, 3]
    table = grid([[[50.0], [60.0], many, many], [many] * 4, [many] * 4])
    published = Suppression(rules="p% 10", time_limit=0).protect(table, SEED)
    assert_safe(table, published, PPercent(10))
    assert attack_alone(table, published, PPercent(10), 400) == []
    assert not hidden_of(published).all()


@pytest.mark.parametrize("what", ["bounds", "cells that must be shown"])
def test_at_once_what_attackers_know_and_what_must_be_shown_is_reckoned_with(what: str) -> None:
    table = Table.of(microdata(firms(9, 60, 4, 4, owners=50), "owner"), "region * sector", "turnover")
    total = APriori(statuses={("Total", "Total"): "protected"})
    more = {"bounds": 40} if what == "bounds" else {"a_priori": total}
    published = Suppression(rules="p% 10", time_limit=0, **more).protect(table, SEED)
    assert_safe(table, published, PPercent(10))
    if what != "bounds":
        assert not hidden_of(published)[table.cells.find()]
