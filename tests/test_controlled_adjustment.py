"""Controlled tabular adjustment, against enumeration of all directions with scipy's linear programs, and of all tables."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding_tables import SmallValues, adds_up, counted, linked, shared
from scipy.optimize import linprog, minimize

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables import ControlledAdjustment, MinimumFrequency, Sensitivity, SensitivityRule, Status, Table


def firms(seed: int, n: int = 40, formula: str = "a * b", decimals: int | None = None) -> Table:
    g = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "a": g.choice(list("uvw"), n), "b": g.choice(list("xyz"), n), "c": g.choice(list("rs"), n),
        "t": np.round(g.lognormal(2, 1.5, n), 2),
    })  # fmt: skip
    return Table.of(Microdata(frame), formula, "t", decimals=decimals)


def cost_of(table: Table, values: Any, how: str) -> float:
    each = np.ones(len(table)) if how == "equal" else 1 / table.value
    return float((each * np.abs(values - table.value)).sum())


def brute_force(table: Table, s: Sensitivity, how: str) -> float:
    """Return the least cost over all directions: scipy minimises over the leaves for each."""
    R, value = table.cells.incidence.toarray(), table.value
    n, leaves = R.shape
    each = np.ones(n) if how == "equal" else 1 / value
    unsafe = np.flatnonzero(s.unsafe)
    best = np.inf
    for ups in itertools.product((True, False), repeat=len(unsafe)):
        # columns: leaves, deviations; |R x − value| ≤ d
        A = [np.hstack([R, -np.eye(n)]), np.hstack([-R, -np.eye(n)])]
        b = [value, -value]
        for cell, up in zip(unsafe, ups, strict=True):
            row = np.hstack([R[cell], np.zeros(n)])
            A.append(-row[None] if up else row[None])
            b.append([-(value[cell] + s.upper[cell])] if up else [value[cell] - s.lower[cell]])
        found = linprog(np.r_[np.zeros(leaves), each], np.vstack(A), np.concatenate(b), bounds=(0, None))
        if found.status == 0:
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("how", ["equal", "relative"])
@pytest.mark.parametrize("seed", range(4))
def test_the_cost_is_the_least_over_all_directions(seed: int, how: str) -> None:
    table = firms(seed)
    rule = SmallValues(most=float(np.sort(table.value)[3]), level=5)
    s = rule.assess(table)
    assert 2 <= s.unsafe.sum() <= 6
    published = ControlledAdjustment(rule, cost=how).apply(table, Draws(1))
    assert cost_of(table, published.values, how) == pytest.approx(brute_force(table, s, how), rel=1e-4)
    assert "least there is" in published.guarantees[2].says


def keeps(table: Table, rule: SensitivityRule, values: Any) -> bool:
    s = rule.assess(table)
    change = values - table.value
    return bool(((change >= s.upper - 1e-6) | (-change >= s.lower - 1e-6))[s.unsafe].all())


@given(st.integers(0, 10_000), st.sampled_from([0, 40]))
@settings(max_examples=15, deadline=None)
def test_linked_counts_stay_whole_add_up_and_move_far_enough(seed: int, exact: int) -> None:
    table = linked(seed, 100)
    rule = SmallValues(most=3, level=2)
    published = ControlledAdjustment(rule, exact=exact).apply(table, Draws(seed))
    assert adds_up(table, published.values)
    assert (published.values == np.rint(published.values)).all()
    assert (published.values >= 0).all()
    assert keeps(table, rule, published.values)
    assert (published.low == 0).all()
    assert np.isinf(published.high).all()
    assert (published.status == Status.CHANGED).all()
    assert np.array_equal(published.values, ControlledAdjustment(rule, exact=exact).apply(table, Draws(seed)).values)


def test_whole_numbers_are_the_best_of_all_tables_of_whole_numbers() -> None:
    table = counted([[1, 6], [7, 9]])
    R = table.cells.incidence.toarray()
    rule = SmallValues(most=3, level=1)
    best = min(
        cost_of(table, R @ np.array(x), "equal")
        for x in itertools.product(range(12), repeat=4)
        if keeps(table, rule, R @ np.array(x, float))
    )
    published = ControlledAdjustment(rule, cost="equal").apply(table, Draws(1))
    assert cost_of(table, published.values, "equal") == best


def test_published_digits_are_kept() -> None:
    table = firms(2, decimals=1, formula="a * b * c")
    rule = SmallValues(most=float(np.sort(table.value)[4]), level=1.234)
    published = ControlledAdjustment(rule).apply(table, Draws(1))
    assert np.abs(published.values * 10 - np.rint(published.values * 10)).max() < 1e-9
    assert adds_up(table, published.values)
    assert keeps(table, rule, published.values)


def test_directions_chosen_beforehand_cost_little_more_than_the_best() -> None:
    ratios = []
    for seed in range(5):
        table = firms(seed, 60, "a * b * c")
        rule = SmallValues(most=float(np.sort(table.value)[7]), level=3)
        best = ControlledAdjustment(rule, cost="equal").apply(table, Draws(1))
        quick = ControlledAdjustment(rule, cost="equal", exact=0).apply(table, Draws(1))
        assert keeps(table, rule, quick.values)
        ratios.append(cost_of(table, quick.values, "equal") / cost_of(table, best.values, "equal"))
        assert "chosen beforehand" in quick.guarantees[2].says
    assert min(ratios) >= 1 - 1e-6
    assert np.mean(ratios) < 1.5


def test_squared_changes_are_the_least_for_their_directions() -> None:
    table = firms(1)
    rule = SmallValues(most=float(np.sort(table.value)[2]), level=4)
    published = ControlledAdjustment(rule, cost="equal", distance="squared").apply(table, Draws(1))
    R, value, s = table.cells.incidence.toarray(), table.value, rule.assess(table)
    unsafe = np.flatnonzero(s.unsafe)
    sign = np.sign(published.values - value)[unsafe]
    level = np.where(sign > 0, s.upper[unsafe], s.lower[unsafe])
    found = minimize(
        lambda x: ((R @ x - value) ** 2).sum(), table.totals, jac=lambda x: 2 * R.T @ (R @ x - value), method="SLSQP",
        bounds=[(0, None)] * R.shape[1], options={"maxiter": 500, "ftol": 1e-12},
        constraints={"type": "ineq", "fun": lambda x: sign * (R @ x - value)[unsafe] - level},
    )  # fmt: skip
    assert found.success
    assert ((published.values - value) ** 2).sum() == pytest.approx(found.fun, rel=1e-4)


def test_fixed_cells_and_zeros_stay_and_no_safe_cell_changes_too_much() -> None:
    table = counted([[2, 40, 30], [50, 60, 0], [20, 35, 45]])
    rule = SmallValues(most=3, level=2)
    fixed = ({}, {"a": "a0"}, {"a": "a2", "b": "b1"})
    published = ControlledAdjustment(rule, fixed=fixed, max_change=0.1).apply(table, Draws(1))
    for labels in fixed:
        cell = table.cells.find(labels)
        assert published.values[cell] == table.value[cell]
    assert (published.values[table.value == 0] == 0).all()
    safe = ~rule.assess(table).unsafe
    assert (np.abs(published.values - table.value)[safe] <= 0.1 * table.value[safe] + 1e-9).all()


def test_a_change_that_is_too_small_is_named_with_the_smallest_that_works() -> None:
    # the 2 goes to 4 or 0, so another cell of its row (40 at most) and of its column must give or take 2: 2 / 42 of a total of 42
    table = counted([[2, 40], [50, 60]])
    rule = SmallValues(most=3, level=2)
    with pytest.raises(DataError, match=r"max_change is too small: ([\d.]+) is the smallest that works") as found:
        ControlledAdjustment(rule, max_change=0.001).apply(table.with_(integer=False), Draws(1))
    least = float(str(found.value).split("too small: ")[1].split(" is")[0])
    assert ControlledAdjustment(rule, max_change=least).apply(table.with_(integer=False), Draws(1)) is not None
    with pytest.raises(DataError):
        ControlledAdjustment(rule, max_change=least - 0.002).apply(table.with_(integer=False), Draws(1))


def test_fixed_cells_in_the_way_are_named() -> None:
    table = counted([[2, 40], [50, 60]])
    rule = SmallValues(most=3, level=2)
    fixed = ({"a": "a0"}, {"a": "a0", "b": "b1"})
    with pytest.raises(DataError, match=r"must not change.*let a a0"):
        ControlledAdjustment(rule, fixed=fixed).apply(table, Draws(1))
    with pytest.raises(ParameterError, match="an unsafe cell cannot be fixed"):
        ControlledAdjustment(rule, fixed=({"a": "a0", "b": "b0"},)).apply(table, Draws(1))
    with pytest.raises(ParameterError, match="must be a list of cells"):
        ControlledAdjustment(rule, fixed=("a0",))


def test_without_unsafe_cells_nothing_changes() -> None:
    table = counted([[20, 40], [50, 60]])
    published = ControlledAdjustment(SmallValues()).apply(table, Draws(1))
    assert (published.values == table.value).all()


def test_rules_as_texts_and_toml_give_the_same_method() -> None:
    method = ControlledAdjustment("minimum 3", fixed=({"a": "u"},), max_change=0.2)
    assert isinstance(method.rules, MinimumFrequency)
    assert ControlledAdjustment.from_dict(method.to_dict()) == method


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1e6, 1e10])
def test_the_least_cost_does_not_depend_on_the_unit(unit: float) -> None:
    small = firms(0, 16)
    rule = MinimumFrequency(n=2, margin=20)
    least = brute_force(small, rule.assess(small), "relative")
    table = small.with_(totals=small.totals * unit)
    published = ControlledAdjustment(rule).apply(table, Draws(1))
    assert cost_of(table, published.values, "relative") == pytest.approx(least, rel=1e-4)
    assert adds_up(small, published.values / unit)


@pytest.mark.parametrize("distance", ["absolute", "squared"])
def test_whole_numbers_of_ten_digits_are_adjusted_at_once(distance: str) -> None:
    g = np.random.default_rng(1)
    frame = pd.DataFrame({
        "a": g.choice(list("pqrs"), 12), "b": g.choice(list("xyz"), 12),
        "t": (g.lognormal(2, 2, 12) * 1e9).astype(np.int64),
    })  # fmt: skip
    table = Table.of(Microdata(frame), "a + b", "t").with_(integer=True)
    rule = MinimumFrequency(n=4)
    started = time.process_time()
    published = ControlledAdjustment(rule, distance=distance, time_limit=30).apply(table, Draws(1))
    assert time.process_time() - started < 5
    assert rule.assess(table).unsafe.any()
    assert (published.values == np.rint(published.values)).all()
    assert adds_up(table, published.values)


def test_unsafe_cells_without_a_level_are_not_said_to_have_moved() -> None:
    frame = pd.DataFrame({"a": list("ppppqqqq"), "b": list("xyyyxxxy"), "t": [0.0, 50, 40, 30, 20, 30, 25, 35]})
    table = Table.of(Microdata(frame), "a * b", "t")
    zero = table.cells.find(a="p", b="x")
    published = ControlledAdjustment("minimum 3").apply(table, Draws(1))
    assert published.values[zero] == 0
    assert "except 1 with a level of 0" in published.guarantees[0].says
    moved = ControlledAdjustment("minimum 3 | zero 2").apply(table, Draws(1))
    assert moved.values[zero] >= 2 - 1e-6
    assert "except" not in moved.guarantees[0].says


def test_a_shared_frequency_file_is_adjusted() -> None:
    table = shared("z3", "region * hovedint * mnd + fylke * hovedint * mnd2")
    rule = SmallValues(most=2, level=2)
    published = ControlledAdjustment(rule, zeros="adjust").apply(table, Draws(1))
    assert keeps(table, rule, published.values)
    assert (table.cells.sums(published.values[table.cells.of_leaf]) == published.values).all()
    assert np.abs(published.values - table.value).mean() < 3


@pytest.mark.parametrize("exact", [0, 40])
def test_of_equally_good_tables_the_same_is_chosen_whatever_the_order_of_the_input(exact: int) -> None:
    g = np.random.default_rng(6)
    records = pd.DataFrame({
        "a": g.choice(list("uvwxy"), 150), "b": g.choice(list("pqrst"), 150), "c": g.choice(list("ij"), 150),
        "t": np.round(g.lognormal(2, 1.2, 150), 1),
    })  # fmt: skip
    method, found = ControlledAdjustment("p% 10", exact=exact), []
    for seed in range(3):
        table = Table.of(Microdata(records.sample(frac=1, random_state=seed)), "a * b * c", "t")
        found.append(method.apply(table, Draws(1)).values)
    assert all(np.array_equal(found[0], other) for other in found)
    largest = table.largest(2)
    cells = table.frame(n=largest.contributors, first=largest.values[:, 0], second=largest.values[:, 1])
    frames = []
    for seed in range(3):
        shuffled = cells.sample(frac=1, random_state=seed)
        read = Table.from_cells(shuffled, list("abc"), "value", contributors="n", top=["first", "second"])
        frames.append(read.frame(adjusted=method.apply(read, Draws(1)).values).set_index(list("abc")).adjusted)
    assert all(other.reindex(frames[0].index).equals(frames[0]) for other in frames)
