"""Suppression where it is difficult: contributors in several cells, linked tables, wishes, refusals, time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from test_suppression import FORMULAS, assert_safe, firms, microdata, slow_audit

from sfumato import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables import APriori, MinimumFrequency, PPercent, PublishedTable, Status, Table
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.suppression import pattern
from sfumato.tables.suppression.exact import Demand, Exact
from sfumato.tables.suppression.heuristic import OutOfTime, first_pattern
from sfumato.tables.suppression.problem import make_problem
from sfumato.tables.suppression.proof import Freedom, SparseFreedom
from sfumato.tables.suppression.suppression import Suppression

SEED = Draws(1)


def grid(values: list[list[list[float]]], owners: dict[tuple[int, int, int], str] | None = None) -> Table:
    """Return a table of regions by sectors from the contributions to each cell."""
    rows = []
    for i, row in enumerate(values):
        for j, cell in enumerate(row):
            for k, amount in enumerate(cell):
                owner = (owners or {}).get((i, j, k), f"o{i}{j}{k}")
                rows.append({"region": f"r{i}", "sector": f"s{j}", "owner": owner, "turnover": float(amount)})
    return Table.of(microdata(pd.DataFrame(rows), "owner"), "region * sector", "turnover")


def hidden_of(published: PublishedTable) -> np.ndarray:
    return np.isnan(published.values)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_order_of_records_does_not_matter_and_a_second_run_is_the_same(formula: str) -> None:
    frame = firms(3, 60, 4, 4, 3, owners=25)
    shown = []
    for order in (np.arange(60), np.arange(60)[::-1], np.random.default_rng(1).permutation(60)):
        table = Table.of(microdata(frame.iloc[order].reset_index(drop=True), "owner"), formula, "turnover")
        published = Suppression(rules="p% 10").protect(table, SEED)
        again = Suppression(rules="p% 10").protect(table, Draws(2))
        assert np.array_equal(published.status, again.status)
        shown.append({tuple(k): s for k, s in zip(table.cells.labels.tolist(), published.status.tolist(), strict=True)})
    assert shown[0] == shown[1] == shown[2]


def test_linked_tables_are_protected_together() -> None:
    frame = firms(5, 80, 4, 3, 3, owners=40)
    table = Table.of(microdata(frame, "owner"), "region * sector + half * kind + sector * kind", "turnover")
    published = Suppression(rules="p% 10").protect(table, SEED)
    assert_safe(table, published, PPercent(10))


def test_a_holding_is_not_known_as_the_sum_of_its_cells() -> None:
    many = [3.0, 3, 3, 3, 3, 3]
    values = [[[50.0], [60.0], many, many], [many] * 4, [many] * 4]
    same = grid(values, {(0, 0, 0): "holding", (0, 1, 0): "holding"})
    published = Suppression(rules="p% 10", insider_level=0).protect(same, SEED)
    hidden = hidden_of(published)
    row = [same.cells.find(region="r0", sector=f"s{j}") for j in range(4)]
    assert hidden[row[0]]
    assert hidden[row[1]]
    # the row's total less what is shown of it would be the holding's own 110
    assert hidden[row[2]] or hidden[row[3]] or hidden[same.cells.find(region="r0")]
    rows = same.cells.incidence.toarray()
    both = rows[row[0]] + rows[row[1]]
    ends = [
        s * linprog(s * both, A_eq=rows[~hidden], b_eq=same.value[~hidden], bounds=(0, None), method="highs").fun
        for s in (1, -1)
    ]
    assert ends[0] <= 110 - 0.1 * 110 + 1e-6
    assert ends[1] >= 110 + 0.1 * 110 - 1e-6


def test_costs_and_wishes_for_single_cells_are_kept() -> None:
    many = [5.0, 5, 5, 5, 5, 5]
    table = grid([[[50.0, 1], many, many], [many, many, many], [many, many, many]])
    plain = Suppression(rules="p% 10").protect(table, SEED)
    others = [tuple(table.cells.labels[c]) for c in np.flatnonzero(plain.status == Status.SECONDARY)]
    for cell in others:
        wishes = APriori(statuses={cell: "protected"})
        published = Suppression(rules="p% 10", a_priori=wishes).protect(table, SEED)
        assert published.status[table.cells.find(region=cell[0], sector=cell[1])] == Status.SHOWN
        assert_safe(table, published, PPercent(10))
        dear = Suppression(rules="p% 10", a_priori=APriori(costs={cell: 1e6}), method="exact").protect(table, SEED)
        assert dear.status[table.cells.find(region=cell[0], sector=cell[1])] == Status.SHOWN
    forced = APriori(statuses={("r2", "s2"): "unsafe", ("r0", "s0"): "safe"})
    published = Suppression(rules="p% 10", a_priori=forced).protect(table, SEED)
    assert published.status[table.cells.find(region="r2", sector="s2")] == Status.PRIMARY
    assert published.status[table.cells.find(region="r0", sector="s0")] != Status.PRIMARY


@pytest.mark.parametrize("cost", ["value", "frequency", "contributors", "unity", "log"])
def test_every_cost_gives_a_safe_pattern(cost: str) -> None:
    table = Table.of(microdata(firms(7, 50, 4, 4, owners=40), "owner"), "region * sector", "turnover")
    assert_safe(table, Suppression(rules="p% 15", cost=cost).protect(table, SEED), PPercent(15))


def test_what_attackers_know_before_counts_and_is_in_the_published_bounds() -> None:
    table = Table.of(microdata(firms(8, 60, 4, 4, owners=50), "owner"), "region * sector", "turnover")
    rule = PPercent(10)
    published = Suppression(rules=rule, bounds=50).protect(table, SEED)
    hidden = hidden_of(published)
    assert published.low[hidden] == pytest.approx(0.5 * table.value[hidden])
    assert published.high[hidden] == pytest.approx(1.5 * table.value[hidden])
    assert slow_audit(table, hidden, rule.assess(table), published.low, published.high) == []
    with pytest.raises(
        DataError, match=r"cannot be protected: even with everything hidden.*It works with protection levels of"
    ):
        Suppression(rules=rule, bounds=5).protect(table, SEED)


def test_the_share_that_a_refusal_names_works() -> None:
    frame = pd.DataFrame({"region": ["a", "a"], "turnover": [90.0, 1.0]})
    table = Table.of(microdata(frame), "region - 1", "turnover")
    with pytest.raises(DataError, match=r"region a cannot be protected.*levels of (\S+) %") as caught:
        Suppression(rules="p% 20", bounds=10).protect(table, SEED)
    share = float(str(caught.value).split("levels of ")[1].split(" %")[0]) / 100
    level = float(PPercent(20).assess(table).upper[0])
    wishes = APriori(upper_level={("a",): share * level}, lower_level={("a",): share * level})
    assert np.isnan(Suppression(rules="p% 20", bounds=10, a_priori=wishes).protect(table, SEED).values).all()


def test_cells_that_stand_in_the_way_are_named() -> None:
    many = [5.0, 5, 5, 5, 5, 5]
    table = grid([[[50.0, 1], many], [many, many]])
    labels = [tuple(row) for row in table.cells.labels.tolist() if tuple(row) != ("r0", "s0")]
    wishes = APriori(statuses=dict.fromkeys(labels, "protected"))
    with pytest.raises(
        DataError, match=r"region r0, sector s0 cannot be protected while .* if these may be hidden"
    ) as caught:
        Suppression(rules="p% 10", a_priori=wishes).protect(table, SEED)
    named = str(caught.value).split("hidden: ")[1]
    free = [c for c in labels if f"[{table.cells.name(table.cells.find(region=c[0], sector=c[1]))}]" in named]
    assert len(free) == 3  # the other corners of the only rectangle there is
    fewer = APriori(statuses={c: "protected" for c in labels if c not in free})
    assert_safe(table, Suppression(rules="p% 10", a_priori=fewer).protect(table, SEED), PPercent(10))
    with pytest.raises(DataError, match="unsafe by the rule, and protected"):
        Suppression(rules="p% 10", a_priori=APriori(statuses={("r0", "s0"): "protected"})).protect(table, SEED)


def test_one_cell_is_hidden_and_nothing_unsafe_hides_nothing() -> None:
    table = Table.of(microdata(pd.DataFrame({"region": ["a"], "turnover": [5.0]})), "region - 1", "turnover")
    assert np.isnan(Suppression(rules="p% 10").protect(table, SEED).values).all()
    safe = grid([[[5.0] * 6, [5.0] * 6]])
    assert not np.isnan(Suppression(rules="p% 10").protect(safe, SEED).values).any()


def test_out_of_time_the_answer_is_safe_and_says_so() -> None:
    table = Table.of(microdata(firms(9, 60, 4, 4, owners=50), "owner"), "region * sector", "turnover")
    for method in ("fast", "exact"):
        published = Suppression(rules="p% 10", time_limit=0, method=method).protect(table, SEED)
        assert_safe(table, published, PPercent(10))
        assert "time limit" in published.guarantees[0].verified
    labels = [tuple(row) for row in table.cells.labels.tolist()]
    unsafe = PPercent(10).assess(table).unsafe
    wishes = APriori(statuses={c: "protected" for c, u in zip(labels, unsafe, strict=True) if not u})
    with pytest.raises(DataError, match="cannot be protected"):
        Suppression(rules="p% 10", time_limit=0, a_priori=wishes).protect(table, SEED)


def test_a_width_anywhere_is_enough_where_the_rule_says_so() -> None:
    table = Table.of(microdata(firms(10, 50, 4, 4, owners=40), "owner"), "region * sector", "turnover")
    rule = PPercent(20, levels="sliding")
    assert_safe(table, Suppression(rules=rule).protect(table, SEED), rule)


def test_negative_values_leave_no_bound_below() -> None:
    frame = firms(11, 40, 3, 3)
    frame["turnover"] -= 5
    table = Table.of(microdata(frame), "region * sector", "turnover")
    rule = MinimumFrequency(4)
    published = Suppression(rules=rule).protect(table, SEED)
    assert (published.low[hidden_of(published)] == -np.inf).all()
    assert_safe(table, published, rule)


def test_parameters_are_checked_and_survive_toml() -> None:
    from sfumato.contract.parameters import build

    made = Suppression(rules=["p% 10", "minimum 3"], cost="log")
    assert build("protection", {"protection": "suppression", **made.to_dict()}) == made
    assert made.label() == "suppression, p% rule, p = 10; fewer than 3 records"
    with pytest.raises(ParameterError, match="must be one of"):
        Suppression(rules="p% 10", cost="vlaue")
    with pytest.raises(ParameterError, match="APriori"):
        Suppression(rules="p% 10", a_priori={"x": 1})


def test_sparse_and_dense_proofs_are_the_same() -> None:
    table = Table.of(
        microdata(firms(12, 120, 5, 5, 3, owners=60), "owner"), "region * sector + region * kind", "turnover"
    )
    found = PPercent(10).assess(table)
    nothing, endless = np.zeros(len(table)), np.full(len(table), np.inf)
    leaves = np.zeros(table.cells.leaves), np.full(table.cells.leaves, np.inf)
    problem, _, _ = make_problem(table, found, table.value, nothing > 0, nothing, endless, *leaves)
    hidden = first_pattern(problem)
    dense, thin = Freedom.of(problem, hidden), SparseFreedom.of(problem, hidden)
    for a, b in zip(dense.reach(problem.targets, hidden), thin.reach(problem.targets, hidden), strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9)
    some = np.arange(3)
    one, other = dense.pull(problem.targets, some), thin.pull(problem.targets, some)
    for name in ("gain", "longest", "dots", "others", "moved"):
        a, b = getattr(one, name), getattr(other, name)
        assert a == pytest.approx(b, rel=1e-6, abs=1e-6 * np.abs(a).max())
    asked = [(problem.targets[:4], some), (problem.targets[2:3], some[:1])]
    apart = dense.reach_apart(asked, hidden)
    for a, b in zip(apart, thin.reach_apart(asked, hidden), strict=True):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-6)
    known = problem.attacker(hidden, dense.free[some]).bounds_of(problem.rows[problem.targets[:4]])
    assert (apart[0][:4] <= known[1] * (1 + 1e-7) + 1e-7).all()
    assert (apart[1][:4] <= -known[0] * (1 + 1e-7) + 1e-7).all()
    low, high = problem.attacker(hidden).bounds_of(problem.rows[problem.targets])
    up, down = dense.reach(problem.targets, hidden)  # proofs never promise more than linear programs find
    assert (up <= high * (1 + 1e-7) + 1e-7).all()
    assert (down <= -low * (1 + 1e-7) + 1e-7).all()


def test_a_way_that_is_not_near_is_found_although_twice_nothing_more_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.tables.suppression import heuristic as repair

    table = grid([[[50.0, 1], [5.0] * 6], [[5.0] * 6, [5.0] * 6]])
    found = PPercent(10).assess(table)
    nothing, endless = np.zeros(len(table)), np.full(len(table), np.inf)
    leaves = np.zeros(table.cells.leaves), np.full(table.cells.leaves, np.inf)
    problem, _, _ = make_problem(table, found, table.value, nothing > 0, nothing, endless, *leaves)
    monkeypatch.setattr(repair, "_NEAR", (1, 1))  # the secret itself, twice
    target = int(problem.targets[0])
    way = repair.Repair(problem).way(target, 1.0, problem.hidden)
    assert way is not None
    assert way[target] == pytest.approx(1)


def test_ties_of_the_rule_are_safe_whatever_floating_point_makes_of_them() -> None:
    # 1.1 · 90 is 99.00000000000001 in floating point, and the rest of 9 is p% of 90, not less
    tie, below = grid([[[90.0, 20, 9], [50.0, 7, 5]]]), grid([[[90.0, 20, 8], [50.0, 7, 4]]])
    corner = [tie.cells.find(region="r0", sector=f"s{j}") for j in (0, 1)]
    assert not PPercent(10).assess(tie).unsafe[corner].any()
    assert PPercent(10).assess(below).unsafe[corner].all()


class OverAfter:
    """A clock that is over when it has been looked at so many times."""

    def __init__(self, looks: float) -> None:
        self.looks, self.ends = looks, np.inf

    @property
    def over(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def look(self) -> None:
        if self.over:
            raise OutOfTime


@pytest.mark.parametrize("looks", [0, 1])
def test_an_exact_search_that_is_out_of_time_gives_the_fast_pattern(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.of(microdata(firms(4, 18, 3, 3)), "region * sector", "turnover")
    rule = PPercent(15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern, "_SMALL", 0)  # without the search for the cheapest pattern
        fast = Suppression(rules=rule).protect(table, SEED)
    cheapest = Suppression(rules=rule, method="exact").protect(table, SEED)
    assert any("no safe pattern costs less" in g.says for g in cheapest.guarantees)
    solve, asked = Exact.solve, []

    def late(self: Exact, demands: list[Demand]) -> np.ndarray | None:
        asked.append(len(demands))
        return solve(Exact(self.problem, OverAfter(looks)), demands)  # type: ignore[arg-type]

    monkeypatch.setattr(Exact, "solve", late)
    published = Suppression(rules=rule, method="exact").protect(table, SEED)
    assert len(asked) == 1
    assert np.array_equal(published.status, fast.status)
    assert_safe(table, published, rule)
    assert "time limit was reached" in published.guarantees[0].verified
    assert not any("no safe pattern costs less" in g.says for g in published.guarantees)


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 16, 31, 56])
def test_it_works_when_the_cells_that_a_refusal_names_may_be_hidden(seed: int) -> None:
    g = np.random.default_rng(seed)
    frame = firms(seed, int(g.integers(8, 40)), kinds=int(g.integers(1, 3)), owners=int(g.integers(4, 30)))
    table = Table.of(microdata(frame, "owner"), FORMULAS[seed % 3], "turnover")
    unsafe = PPercent(10).assess(table).unsafe
    labels = [tuple(row) for row in table.cells.labels.tolist()]
    shown = {c for c, u in zip(labels, unsafe, strict=True) if not u and g.random() < 0.7}
    wishes = APriori(statuses=dict.fromkeys(shown, "protected"))
    with pytest.raises(DataError, match="It works if these may be hidden") as caught:
        Suppression(rules="p% 10", a_priori=wishes).protect(table, SEED)
    named = str(caught.value).split("hidden: ")[1]
    free = {c for c in shown if f"[{table.cells.name(labels.index(c))}]" in named}
    fewer = APriori(statuses=dict.fromkeys(shown - free, "protected"))
    assert_safe(table, Suppression(rules="p% 10", a_priori=fewer).protect(table, SEED), PPercent(10))


class Scaled(SensitivityRule, abstract=True):
    """A rule with a share of another's protection levels."""

    rule: PPercent
    share: float = 1.0

    def label(self) -> str:
        return f"{self.share} of {self.rule.label()}"

    def assess(self, table: Table) -> Sensitivity:
        found = self.rule.assess(table)
        return replace(
            found, upper=self.share * found.upper, lower=self.share * found.lower, width=self.share * found.width
        )


@pytest.mark.parametrize("seed", range(6))
def test_it_works_with_the_levels_that_a_refusal_names(seed: int) -> None:
    table = Table.of(microdata(firms(seed, 60, 4, 4, owners=40), "owner"), FORMULAS[seed % 3], "turnover")
    with pytest.raises(DataError, match=r"levels of (\S+) % of those") as caught:
        Suppression(rules="p% 10", bounds=6).protect(table, SEED)
    share = float(str(caught.value).split("levels of ")[1].split(" %")[0]) / 100
    assert 0 < share < 1
    rule = Scaled(PPercent(10), share)
    published = Suppression(rules=rule, bounds=6).protect(table, SEED)
    found = rule.assess(table)
    assert slow_audit(table, hidden_of(published), found, published.low, published.high) == []
    with pytest.raises(DataError, match="cannot be protected"):  # and not with a hundredth more
        Suppression(rules=Scaled(PPercent(10), share * 1.01), bounds=6).protect(table, SEED)


@pytest.mark.parametrize("method", ["fast", "exact"])
def test_the_unit_of_the_values_does_not_matter(method: str) -> None:
    frame = firms(1, 60, 4, 4, owners=45)
    patterns = []
    for unit in (1.0, 1e-13, 1e-6, 1e9):
        scaled = frame.assign(turnover=frame.turnover * unit)
        table = Table.of(microdata(scaled, "owner"), "region * sector", "turnover")
        published = Suppression(rules="p% 10", method=method).protect(table, SEED)
        patterns.append(hidden_of(published).tolist())
    assert 0 < sum(patterns[0]) < len(patterns[0])
    assert all(pattern == patterns[0] for pattern in patterns)
