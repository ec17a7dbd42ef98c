"""Suppression, audited by linear programs that are not ours and, where tables are small, against all patterns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.tables import NK, MinimumFrequency, PPercent, PublishedTable, Status, Table
from sfumato.tables.sensitivity import Sensitivity
from sfumato.tables.suppression.exact import Exact, demands_of
from sfumato.tables.suppression.heuristic import Clock, first_pattern, mend
from sfumato.tables.suppression.problem import make_problem
from sfumato.tables.suppression.suppression import Suppression


def microdata(frame: pd.DataFrame, contributor: str | None = None) -> Microdata:
    return Microdata(frame, Schema(tuple(
        Attribute(n, scale="ordered" if pd.api.types.is_numeric_dtype(frame[n]) else "unordered",
                  role="contributor" if n == contributor else "other") for n in frame
    )))  # fmt: skip


def firms(seed: int, n: int, regions: int = 3, sectors: int = 3, kinds: int = 1, owners: int = 0) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "region": [f"r{i}" for i in g.integers(0, regions, n)], "sector": [f"s{i}" for i in g.integers(0, sectors, n)],
        "kind": [f"k{i}" for i in g.integers(0, kinds, n)], "turnover": np.round(g.lognormal(2, 1.2, n), 1),
    })  # fmt: skip
    frame["half"] = "h" + (frame.region.str[1:].astype(int) // 2).astype(str)
    if owners:
        frame["owner"] = [f"o{i}" for i in g.integers(0, owners, n)]
    return frame


def slow_audit(table: Table, hidden: np.ndarray, found: Sensitivity, low: np.ndarray, high: np.ndarray) -> list[int]:
    """Return the unsafe cells whose interval is too short, by scipy over all leaves and cells."""
    rows = table.cells.incidence.toarray()
    value = rows @ table.totals
    free = hidden & np.isfinite(high)
    matrix = np.vstack([rows[free], -rows[hidden & np.isfinite(low)]])
    limits = np.concatenate([high[free], -low[hidden & np.isfinite(low)]])
    bad = []
    for cell in np.flatnonzero(found.unsafe):
        ends = []
        for sign in (1, -1):
            solved = linprog(
                sign * rows[cell], A_ub=matrix if len(matrix) else None, b_ub=limits if len(matrix) else None,
                A_eq=rows[~hidden] if (~hidden).any() else None, b_eq=value[~hidden] if (~hidden).any() else None,
                bounds=(0 if table.nonnegative else None, None), method="highs",
            )  # fmt: skip
            assert solved.status in (0, 3), solved.message
            ends.append(sign * solved.fun if solved.status == 0 else -sign * np.inf)
        slack = 1e-6 * max(1.0, value[cell])
        enough = (
            ends[1] >= value[cell] + found.upper[cell] - slack
            and ends[0] <= value[cell] - found.lower[cell] + slack
            and ends[1] - ends[0] >= found.width[cell] - slack
            and ends[1] - ends[0] > slack
        )
        if not enough:
            bad.append(int(cell))
    return bad


def assert_safe(table: Table, published: PublishedTable, rule: Any) -> None:
    found = rule.assess(table)
    hidden = np.isnan(published.values)
    assert (published.status == Status.PRIMARY).tolist() == found.unsafe.tolist()
    assert (published.suppressed == hidden).all()
    assert hidden[found.unsafe].all()
    assert np.array_equal(published.values[~hidden], table.value[~hidden])
    assert slow_audit(table, hidden, found, published.low, published.high) == []


FORMULAS = ("region * sector", "(region + half) * sector", "region * sector + half * kind", "region * sector * kind")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(FORMULAS),
    st.sampled_from([PPercent(10), PPercent(30), NK(1, 75), NK(2, 90)]),
)
def test_every_interval_is_wide_enough(seed: int, formula: str, rule: Any) -> None:
    g = np.random.default_rng(seed)
    frame = firms(seed, int(g.integers(3, 60)), kinds=int(g.integers(1, 4)), owners=int(g.integers(2, 30)))
    table = Table.of(microdata(frame, "owner"), formula, "turnover")
    assert_safe(table, Suppression(rules=rule).protect(table, Draws(1)), rule)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(FORMULAS), st.booleans())
def test_counts_are_hidden_as_well(seed: int, formula: str, zeros: bool) -> None:
    g = np.random.default_rng(seed)
    frame = firms(seed, int(g.integers(3, 60)), kinds=int(g.integers(1, 4)))
    table = Table.of(microdata(frame), formula, empty=True)
    rule = MinimumFrequency(3, zeros=zeros)
    assert_safe(table, Suppression(rules=rule).protect(table, Draws(1)), rule)


def brute_force(problem: Any, table: Table, of_cell: np.ndarray, found: Sensitivity, fixed: np.ndarray) -> float:
    """Return the least cost of all safe patterns, by trying every one."""
    open_ = np.flatnonzero(~problem.hidden & ~problem.fixed)
    best = np.inf
    for choice in itertools.product((False, True), repeat=len(open_)):
        hidden = problem.hidden.copy()
        hidden[open_] = choice
        cost = float(problem.cost[hidden].sum())
        low, high = np.zeros(len(table)), np.full(len(table), np.inf)
        if cost < best and not slow_audit(table, hidden[of_cell], found, low, high):
            best = cost
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_pattern_is_the_cheapest_of_all(seed: int) -> None:
    table = Table.of(microdata(firms(seed, 14 + seed, 3, 3)), "region * sector", "turnover")
    found = PPercent(15).assess(table)
    nothing, endless = np.zeros(len(table)), np.full(len(table), np.inf)
    leaves = np.zeros(table.cells.leaves), np.full(table.cells.leaves, np.inf)
    problem, of_cell, _ = make_problem(table, found, table.value, nothing > 0, nothing, endless, *leaves)
    hidden = Exact(problem, Clock()).solve(demands_of(problem))
    assert hidden is not None
    least = brute_force(problem, table, of_cell, found, nothing)
    assert float(problem.cost[hidden].sum()) == pytest.approx(least)
    rough = mend(problem, first_pattern(problem), Clock()).hidden
    assert float(problem.cost[rough].sum()) >= least * (1 - 1e-9)
    exact = Suppression(rules=PPercent(15), method="exact").protect(table, Draws(1))
    assert_safe(table, exact, PPercent(15))
    fast = Suppression(rules=PPercent(15)).protect(table, Draws(1))
    assert np.nansum(exact.values) >= np.nansum(fast.values) - 1e-6
