"""Sums that follow from published cells: every one is held against the rules, as a slow twin that enumerates them says."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from audited_tables import hide
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from sfumato import Draws, Microdata
from sfumato.tables import (
    NK,
    RTA,
    CellKey,
    ControlledRounding,
    MinimumContributors,
    MinimumFrequency,
    PPercent,
    Protection,
    PublishedTable,
    RandomRounding,
    SensitivityRule,
    Suppression,
    Table,
    audit,
)  # fmt: skip
from sfumato.tables.knowledge import extreme_rays

FORMULAS = ("a", "a * b", "a + b", "a * b + c", "a * c + b * c", "a : b")


def random_table(seed: int) -> tuple[Table, np.ndarray]:
    """Return a small table, or linked tables, in which contributors share cells, and cells to hide: unsafe ones, and some more."""
    g = np.random.default_rng(seed)
    n = int(g.integers(8, 30))
    frame = pd.DataFrame({
        "a": g.choice(list("pqr"), n), "b": g.choice(list("xyz"), n), "c": g.choice(list("uv"), n),
        "firm": [f"f{i}" for i in g.integers(0, max(4, n // 2), n)],
        "v": np.round(g.lognormal(2, g.choice([0.5, 1.0, 1.5]), n), 3),
    })  # fmt: skip
    table = Table.of(Microdata(frame), FORMULAS[seed % len(FORMULAS)], "v", contributor="firm")
    by_cell = table.cells.incidence.toarray() @ own_of(table)
    unsafe = [worst_shortfall(given, seed % 3, 10) > 0 for given in by_cell]
    return table, np.array(unsafe) | (g.random(len(table)) < g.choice([0.1, 0.3, 0.5]))


def own_of(table: Table) -> np.ndarray:
    assert table.contributions is not None
    return table.contributions.own.toarray()


def every_combination(rows: np.ndarray) -> list[np.ndarray]:
    """Return the non-negative combinations of rows with the smallest sets of leaves: others are sums of these.

    For every set of leaves, in order of size: is there a combination that is zero outside it?
    """
    found: list[tuple[set[int], np.ndarray]] = []
    width, full = rows.shape[1], np.linalg.matrix_rank(rows)
    for size in range(1, width + 1):
        for chosen in itertools.combinations(range(width), size):
            inside = set(chosen)
            if any(leaves <= inside for leaves, _ in found):
                continue
            outside = [i for i in range(width) if i not in inside]
            if full - (np.linalg.matrix_rank(rows[:, outside]) if outside else 0) == 0:
                continue
            # its coefficients: combinations of rows that vanish outside
            _, s, vh = np.linalg.svd(rows[:, outside].T) if outside else (0, np.zeros(0), np.eye(len(rows)))
            null = vh[int((s > 1e-9).sum()) :]
            values = null @ rows[:, list(chosen)]
            values = values[np.abs(values).max(axis=1) > 1e-9]
            first = values[0] / values[0][np.argmax(np.abs(values[0]))]
            assert np.linalg.matrix_rank(values, tol=1e-9) == 1  # a smaller set would have been found before
            if (first > 1e-9).all():
                weights = np.zeros(width)
                weights[list(chosen)] = first
            else:
                weights = np.zeros(0)  # of both signs: no bound follows, but neither is a larger set the smallest
            found.append((inside, weights))
    return [weights for _, weights in found if len(weights)]


def worst_shortfall(given: np.ndarray, coalition: int, p: float) -> float:
    """Return p % of the largest contribution less what hides it, relative to the total, from the largest others together."""
    given = np.sort(given)[::-1]
    return float((p / 100 * given[0] - given[1 + coalition :].sum()) / max(given.sum(), 1e-9))


def twin(table: Table, shown: np.ndarray, coalition: int, p: float = 10) -> float:
    """Return the largest shortfall of any published combination, relative to its total."""
    rows = np.unique(table.cells.incidence.toarray().astype(int)[shown], axis=0)
    own = own_of(table)
    if not len(rows):
        return -np.inf
    return max(worst_shortfall(weights @ own, coalition, p) for weights in every_combination(rows))


def twin_by_programs(table: Table, low: np.ndarray, high: np.ndarray, p: float = 10) -> bool:
    """Whether each contributor, who subtracts his own, must allow for all of any other's figures to be p % larger."""
    rows, own = table.cells.incidence.toarray(), own_of(table)
    above, below = np.isfinite(high), np.isfinite(low)
    for snooper, target in itertools.permutations(range(own.shape[1]), 2):
        mine = rows @ own[:, snooper]
        program = linprog(
            np.zeros(rows.shape[1]), A_ub=np.vstack([rows[above], -rows[below]]),
            b_ub=np.concatenate([(high - mine)[above], (mine - low)[below]]) + 1e-7,
            bounds=[(x, None) for x in (1 + p / 100) * own[:, target]],
        )  # fmt: skip
        if program.status == 2:
            return False
    return True


def test_what_is_left_of_a_total_discloses_a_contributor_to_another_one() -> None:
    # A 172.5 and B 67.7 in a, B 21.6 and two small firms in b: B knows a + b, and his own, so he knows A to 0.06 %
    rows = [("a", "A", 172.5), ("a", "B", 67.7), ("b", "B", 21.6), ("b", "C", 0.05), ("b", "D", 0.05)]
    frame = pd.DataFrame(rows + [("c", f"F{i}", 50.0) for i in range(5)], columns=["sector", "firm", "v"])
    table = Table.of(Microdata(frame), "sector", "v", contributor="firm")
    read = pd.DataFrame({"sector": ["a", "b", "c", "Total"], "v": ["x", "x", "250", "511.9"]})
    published = PublishedTable.from_frame(read, ["sector"], "v", original=table)
    for insiders in ("none", "equations", "bounds"):
        found = audit(published, rules=PPercent(10), insiders=insiders)
        assert not found.safe
        assert found.headline == "Not safe: 1 difference of shown cells is unsafe."
        assert [d.words for d in found.differences] == ["[the grand total] − [sector c]"]
    names = ["the grand total", "sector c"]
    assert found.to_dict()["differences"] == [names]
    holdings = Table.of(
        Microdata(frame.assign(firm=frame["firm"].replace({"C": "A"}))), "sector", "v", contributor="firm"
    )
    assert not audit(PublishedTable.from_frame(read, ["sector"], "v", original=holdings), rules=PPercent(10)).safe
    alone = audit(published, rules=PPercent(10, coalition=0))  # nobody subtracts his own: 89.4 of B's hide A's 172.5
    assert not alone.differences


def test_combinations_are_those_of_elimination_set_by_set() -> None:
    g = np.random.default_rng(5)
    for _ in range(60):
        rows = (g.random((int(g.integers(1, 5)), int(g.integers(1, 8)))) < 0.5).astype(np.int64)
        rays = extreme_rays(rows)
        assert rays is not None
        expected = every_combination(rows) if rows.any() else []
        assert sorted(tuple(np.round(r / r.max(), 6)) for r in rays) == sorted(tuple(np.round(w, 6)) for w in expected)


def test_weights_other_than_one_are_found_where_linked_tables_overlap_twice() -> None:
    # a + b, b + c and c + a are published: twice a is the first less the second plus the third
    rays = extreme_rays(np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 1, 0]]))
    assert rays is not None
    assert [1, 0, 0, 0] in rays.tolist()
    assert [0, 1, 0, 1] in rays.tolist()
    doubled = extreme_rays(np.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1]]))
    assert doubled is not None
    assert doubled.max() == 2


def compare(seeds: range) -> None:
    """Compare the audit with both twins on random tables."""
    verdicts = []
    for seed in seeds:
        table, hidden = random_table(seed)
        if table.cells.leaves > 9:
            continue
        shortfall = twin(table, ~hidden, seed % 3)
        if abs(shortfall) > 1e-6:
            rule = PPercent(10, coalition=seed % 3, levels="upper")
            safe = audit(hide(table, hidden), rules=rule, insiders="none").safe
            assert safe == (shortfall < 0), seed
            if seed % 3 == 1:
                bounds = np.where(hidden, 0, table.value), np.where(hidden, np.inf, table.value)
                assert safe == twin_by_programs(table, *bounds), seed
            verdicts.append(safe)
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.parametrize("block", range(4))
def test_the_audit_finds_a_combination_that_breaks_the_rule_exactly_where_enumeration_does(block: int) -> None:
    compare(range(30 * block, 30 * (block + 1)))


@pytest.mark.parametrize(("rule", "unsafe"), [
    (NK(2, 80, levels="upper"), lambda given: np.sort(given)[-2:].sum() > 0.8 * given.sum()),
    (MinimumContributors(3, levels="upper"), lambda given: 0 < (given > 0).sum() < 3),
])  # fmt: skip
def test_other_rules_are_held_against_every_combination_too(
    rule: SensitivityRule, unsafe: Callable[[np.ndarray], bool]
) -> None:
    verdicts = []
    for seed in range(1000, 1080):
        table, _ = random_table(seed)
        if table.cells.leaves > 9:
            continue
        own, rows = own_of(table), table.cells.incidence.toarray().astype(int)
        hidden = np.array([unsafe(given) for given in rows @ own]) | (
            np.random.default_rng(seed).random(len(table)) < 0.2
        )
        shown = np.unique(rows[~hidden], axis=0)
        follows = [w @ own for w in every_combination(shown)] if len(shown) else []
        found = audit(hide(table, hidden), rules=rule, insiders="none")
        known = bool(found.differences) or bool((found.exact & found.sensitive).any())
        assert known == any(unsafe(given) for given in follows), seed
        verdicts.append(known)
    assert any(verdicts)
    assert not all(verdicts)


@pytest.mark.verify
@pytest.mark.parametrize("block", range(20))
def test_the_audit_agrees_with_enumeration_on_thousands_of_tables(block: int) -> None:
    compare(range(140 * block, 140 * (block + 1)))


@pytest.mark.parametrize("start", [1, 31, 61, 91])
def test_no_combination_of_cells_that_suppression_leaves_breaks_the_rule(start: int) -> None:
    for seed in range(start, start + 30, 2):
        table, _ = random_table(seed)
        if table.cells.leaves <= 9:
            rule = PPercent(10, coalition=seed % 3)
            published = Suppression(rules=rule, insider_level=0).protect(table, Draws(seed))
            assert twin(table, ~published.suppressed, seed % 3) < 1e-6
            assert audit(published, rules=rule, insiders="none").safe


@pytest.mark.parametrize(
    ("method", "step"),
    [
        (RandomRounding(5), 2), (ControlledRounding(5), 6), (RTA(base_cv=0.2), 2),
        pytest.param(ControlledRounding(5), 2, marks=pytest.mark.verify),  # every solution starts a process
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Protection) else str(v),
)  # fmt: skip
def test_rounded_and_adjusted_tables_are_unsafe_exactly_where_programs_with_their_bounds_say_so(
    method: Protection, step: int
) -> None:
    verdicts = []
    for seed in range(1, 40, step):
        table, _ = random_table(seed)
        if table.cells.leaves <= 9:
            published = method.protect(table, Draws(seed))
            found = audit(published, rules=PPercent(10, levels="upper"), insiders="none")
            assert found.safe == twin_by_programs(table, published.low, published.high), seed
            verdicts.append(found.safe)
    assert any(verdicts)
    assert all(verdicts) == isinstance(method, RTA)


def test_cell_keys_that_change_every_count_leave_no_sum_of_few_people() -> None:
    for seed in range(12):
        g = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": g.choice(list("pqr"), 20), "b": g.choice(list("xy"), 20)})
        table = Table.of(Microdata(frame), FORMULAS[1 + seed % 2], None)
        published = CellKey(maximum=3, variance=2).protect(table, Draws(seed))
        found = audit(published, rules=MinimumFrequency(3), insiders="none")
        # counts of one or two must be uncertain by 1: a reader who knows low ≤ R x ≤ high, by scipy
        rows = table.cells.incidence.toarray()
        small = (rows @ table.totals < 3) & (rows @ table.totals > 0)
        short = False
        for row, value in zip(rows[small], (rows @ table.totals)[small], strict=True):
            low, high = (sign * extreme_value(sign * row, rows, published.low, published.high) for sign in (1, -1))
            short |= high < value + 1 or low > max(value - 1, 0)
        assert found.safe == (not short)


def extreme_value(row: np.ndarray, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Return the smallest row @ x over whole x within bounds of rows @ x."""
    bounded = LinearConstraint(rows, low, high)
    found = milp(row, constraints=bounded, bounds=Bounds(0, np.inf), integrality=np.ones(rows.shape[1]))
    return float(found.fun) if found.fun is not None else -np.inf
