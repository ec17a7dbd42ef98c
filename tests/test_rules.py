"""Sensitivity rules, against attackers who are played out one by one, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.contract.parameters import registered
from sfumato.errors import DataError, ParameterError
from sfumato.tables import (
    NK,
    PQ,
    PTN,
    Largest,
    MinimumContributors,
    MinimumFrequency,
    PPercent,
    Request,
    Sensitivity,
    SensitivityRule,
    Table,
    Together,
    ZeroCells,
    parse_rule,
    rules_of,
)
from sfumato.tables.rules import singletons

DATA = Path(__file__).parents[2] / "shared" / "data" / "tables"
LABELS = ("region", "owner", "waiver")

Cell = list[tuple[str, int, int, bool]]
"""Records: owner, value, weight, whether the owner waived protection."""


def table_of(cells: Sequence[Cell], weighted: bool = False) -> Table:
    """Return a table with one row per cell, each a region of its own."""
    rows = [(f"r{i}", *record) for i, cell in enumerate(cells) for record in cell]
    frame = pd.DataFrame(rows, columns=["region", "owner", "value", "weight", "waiver"])
    return of_frame(frame, weighted=weighted)


def of_frame(frame: pd.DataFrame, weighted: bool = False, **more: Any) -> Table:
    schema = Schema(
        tuple(
            Attribute(
                n,
                scale="unordered" if n in LABELS else "ordered",
                role="weight" if n == "weight" and weighted else "contributor" if n == "owner" else "other",
            )
            for n in frame
        )
    )
    more = {"waiver": "waiver", **more} if "waiver" in frame else more
    return Table.of(Microdata(frame, schema), "region - 1", "value", **more)


def random_cells(
    count: int, seed: int, weights: Iterable[int] = (1,), waivers: bool = True, most: int = 5
) -> list[Cell]:
    """Return small cells with ties, zeros, holdings with several records, and waivers that hold for an owner everywhere."""
    g = np.random.default_rng(seed)
    found = []
    for i in range(count):
        cell: Cell = []
        for owner in range(g.integers(1, most + 1)):
            weight, free = int(g.choice(list(weights))), bool(waivers and g.random() < 0.3)
            cell += [
                (f"{i}-{owner}", int(g.choice([0, 1, 2, 3, 5, 10, 20, 40])), weight, free)
                for _ in range(g.integers(1, 4))
            ]
        found.append(cell)
    return found


def contributors(cell: Cell, weights: str) -> tuple[list[tuple[Fraction, Fraction, bool]], Fraction]:
    """Return (what an attacker subtracts, what is protected, waived) of each contributor as attackers see them; the total."""
    owners = {record[0]: record[3] for record in cell}
    total = Fraction(sum(x * w for _, x, w, _ in cell))
    seen = []
    for owner, free in owners.items():
        own = Fraction(sum(x for o, x, _, _ in cell if o == owner))
        grossed = Fraction(sum(x * w for o, x, w, _ in cell if o == owner))
        if weights == "copies":
            copies = grossed / own if own else Fraction(1)
            assert copies.denominator == 1
            seen += [(own, own, free)] * int(copies)
        else:
            value = grossed if weights == "known" else own
            seen.append((value, value, free))
    return seen, total


def coalitions(others: int, most: int) -> Iterable[tuple[int, ...]]:
    for size in range(min(most, others) + 1):
        yield from itertools.combinations(range(others), size)


def p_percent_by_hand(cell: Cell, p: int, coalition: int, weights: str) -> Fraction:
    """Return by how much the most successful attack comes too close; at most 0 if none does.

    A coalition takes its own contributions from the total. What is left is its estimate of the target; it must be at least
    p% too high.
    """
    seen, total = contributors(cell, weights)
    worst = Fraction(0)
    for i, (_, target, free) in enumerate(seen):
        others = seen[:i] + seen[i + 1 :]
        for members in coalitions(len(others), coalition):
            estimate = total - sum((others[m][0] for m in members), Fraction(0))
            if not free:
                worst = max(worst, Fraction(p, 100) * target - (estimate - target))
    return worst


def agree(found: Sensitivity, expected: Sequence[Fraction], values: np.ndarray) -> None:
    """Check unsafe cells and levels on both sides, the lower not beyond zero."""
    assert found.unsafe.tolist() == [e > 0 for e in expected]
    upper = np.array([float(e) for e in expected])
    assert found.upper == pytest.approx(upper)
    assert found.lower == pytest.approx(np.minimum(upper, values))
    assert not found.width.any()
    assert ((found.reasons != "") == found.unsafe).all()


def in_order(table: Table, cells: Sequence[Cell]) -> list[Cell]:
    return [cells[int(label[1:])] for label in table.cells.labels[:, 0]]


@pytest.mark.parametrize("weights", ["known", "copies", "unknown"])
@pytest.mark.parametrize(("p", "coalition"), [(10, 1), (50, 1), (10, 2), (25, 3), (10, 0), (150, 1)])
def test_the_p_percent_rule_finds_what_every_coalition_can_do(p: int, coalition: int, weights: str) -> None:
    cells = random_cells(120, seed=p + coalition, weights=(1, 2, 3))
    table = table_of(cells, weighted=True)
    found = PPercent(p, coalition=coalition, weights=weights).assess(table)
    expected = [p_percent_by_hand(cell, p, coalition, weights) for cell in in_order(table, cells)]
    agree(found, expected, table.value)
    assert 0 < found.unsafe.sum() < len(cells)


@pytest.mark.parametrize(("n", "k"), [(1, 50), (1, 75), (2, 85), (3, 60), (2, 100)])
@pytest.mark.parametrize("weights", ["known", "copies", "unknown"])
def test_the_dominance_rule_looks_at_every_set_of_n_contributors(n: int, k: int, weights: str) -> None:
    cells = random_cells(120, seed=n * k, weights=(1, 2, 3))
    table = table_of(cells, weighted=True)
    expected = []
    for cell in in_order(table, cells):
        seen, total = contributors(cell, weights)
        sums = [
            sum((seen[m][0] for m in members), Fraction(0))
            for members in coalitions(len(seen), n)
            if any(not seen[m][2] for m in members)
        ]
        expected.append(max([Fraction(100, k) * s - total for s in sums if s * 100 > k * total], default=Fraction(0)))
    agree(NK(n, k, weights=weights).assess(table), expected, table.value)


@pytest.mark.parametrize(("p", "q"), [(10, 50), (20, 20), (10, 100), (5, 30)])
def test_the_pq_rule_is_about_what_was_known_before(p: int, q: int) -> None:
    cells = random_cells(150, seed=q)
    table = table_of(cells)
    found = PQ(p, q).assess(table)
    for i, cell in enumerate(in_order(table, cells)):
        seen, total = contributors(cell, "known")
        disclosed = False
        for (a, (_, target, free)), (b, (suspect, _, _)) in itertools.product(
            enumerate([*seen, (Fraction(0),) * 3]), repeat=2
        ):
            if a == b or free or a == len(seen):
                continue
            rest = total - target - suspect
            highest = (
                total - suspect - (1 - Fraction(q, 100)) * rest
            )  # each of the others is at least (1 - q) of itself
            disclosed |= highest - target < Fraction(p, 100) * target
        assert found.unsafe[i] == disclosed
    # with q = 100 nothing was known before
    assert np.array_equal(PQ(p, 100).assess(table).upper, PPercent(p).assess(table).upper)


def test_the_level_of_the_p_percent_rule_is_exactly_enough() -> None:
    """Hidden between T − level and T + level, the largest is estimated p% too high, and not a bit less."""
    table = table_of([[("a", 100, 1, False), ("b", 50, 1, False), ("c", 4, 1, False)]])
    level = PPercent(10).assess(table).upper[0]
    assert level == pytest.approx(6)  # 10% of 100, of which the third hides 4
    assert (154 + level - 50) == pytest.approx(1.1 * 100)
    assert PPercent(10, levels="upper").assess(table).lower[0] == 0
    sliding = PPercent(10, levels="sliding").assess(table)
    assert (sliding.upper[0], sliding.lower[0], sliding.width[0]) == pytest.approx((0, 0, 12))


def ptn_by_hand(cell: Cell, p: int, q: int, own: int, least: int, coalition: int, unknown: bool) -> Fraction:
    """Return the worst PT(t) − noise, from the bounds that suspects have (Gray 2016, section 2)."""
    owners = {r[0]: r[3] for r in cell}
    seen = []
    for owner, free in owners.items():
        x = Fraction(abs(sum(v for o, v, _, _ in cell if o == owner)))
        grossed = Fraction(abs(sum(v * w for o, v, w, _ in cell if o == owner)))
        base, extra = (x, grossed - x) if unknown else (grossed, Fraction(0))
        seen.append((base, extra, free))
    worst = Fraction(0)
    for t, (base, extra, free) in enumerate(seen):
        others = [r for i, r in enumerate(seen) if i != t]
        for members in coalitions(len(others), coalition):
            noise = extra
            for i, (b, e, _) in enumerate(others):
                noise += e + (Fraction(own, 100) * b if i in members else Fraction(q, 100) * b)
            threshold = Fraction(0) if free else max(Fraction(p, 100) * base, Fraction(least))
            worst = max(worst, threshold - noise)
    return worst


@pytest.mark.parametrize(
    ("p", "q", "own", "least", "coalition"),
    [(10, 100, 0, 0, 1), (10, 50, 0, 3, 1), (20, 60, 5, 0, 2), (0, 30, 0, 4, 1)],
)
@pytest.mark.parametrize("weights", ["known", "unknown"])
def test_precision_threshold_and_noise_is_that_of_every_pair(
    p: int, q: int, own: int, least: int, coalition: int, weights: str
) -> None:
    cells = random_cells(120, seed=p + q, weights=(1, 2))
    cells = [[(o, x * (-1) ** (i % 3), w, f) for i, (o, x, w, f) in enumerate(cell)] for cell in cells]
    cells = [
        [r for r in cell if r[0] == o][:1] + [r for r in cell if r[0] != o] for cell in cells for o in [cell[0][0]]
    ]
    # one record for each owner: with several and mixed signs a weight's share is not defined
    cells = [[next(r for r in cell if r[0] == o) for o in dict.fromkeys(r[0] for r in cell)] for cell in cells]
    table = table_of(cells, weighted=True)
    found = PTN(p, q, own=own, least=least, coalition=coalition, weights=weights).assess(table)
    expected = [ptn_by_hand(c, p, q, own, least, coalition, weights == "unknown") for c in in_order(table, cells)]
    assert found.unsafe.tolist() == [e > 0 for e in expected]
    assert found.upper == pytest.approx([float(e) for e in expected])


def test_precision_threshold_and_noise_without_prior_knowledge_is_the_p_percent_rule() -> None:
    table = table_of(random_cells(100, seed=3, weights=(1, 2, 3)), weighted=True)
    for weights in ("known", "copies", "unknown"):
        assert np.allclose(
            PTN(15, weights=weights).assess(table).upper, PPercent(15, weights=weights).assess(table).upper
        )


ALL = [PPercent(10), PPercent(10, coalition=2), PQ(10, 40), NK(1, 70), NK(2, 85), PTN(10, 50)]


@pytest.mark.parametrize("rule", ALL, ids=lambda r: r.label())
def test_weights_of_one_change_nothing_and_knowing_them_is_never_safer(rule: SensitivityRule) -> None:
    cells = random_cells(80, seed=9)
    plain, weighted = table_of(cells), table_of(cells, weighted=True)
    heavy = table_of(random_cells(80, seed=9, weights=(1, 2, 4)), weighted=True)
    for how in ("known", "copies", "unknown"):
        assert np.array_equal(rule.with_(weights=how).assess(weighted).upper, rule.assess(plain).upper)
    known, copies, unknown = (rule.with_(weights=h).assess(heavy) for h in ("known", "copies", "unknown"))
    assert (known.unsafe >= copies.unsafe).all()
    assert (copies.unsafe >= unknown.unsafe).all()
    assert unknown.unsafe.sum() < known.unsafe.sum()


def test_the_weights_of_the_manual() -> None:
    """τ-ARGUS manual, section 2.2: 100 with weight 4 and 10 with weight 7; the largest two are 100 and 100 of 470."""
    table = table_of([[("a", 100, 4, False), ("b", 10, 7, False)]], weighted=True)
    assert table.value.tolist() == [470]
    assert NK(2, 42, weights="copies").assess(table).unsafe[0]  # 200 of 470 is 42.55%
    assert not NK(2, 43, weights="copies").assess(table).unsafe[0]
    assert NK(2, 99, weights="known").assess(table).unsafe[0]
    # a weight of 1.5 fills one place and half of the next: 1.5 · 100 + 0.5 · 10 of 2 places
    half = table_of([[("a", 100, 1, False), ("b", 10, 1, False)]])
    assert half.contributions is not None
    grossed = half.contributions.own.copy()
    grossed.data[:] *= np.where(grossed.data == 100, 1.5, 4)
    from sfumato.tables import Contributions

    half = half.with_(contributions=Contributions(half.contributions.own, grossed), totals=np.array([190.0]))
    assert NK(2, 50, weights="copies").assess(half).upper[0] == pytest.approx(2 * (150 + 5) - 190)


def test_the_holdings_of_the_manual() -> None:
    """τ-ARGUS manual, section 2.2: safe for the reporting units, unsafe once the first two are one holding."""
    values = [700, 200, 60, 40, 10]
    units = table_of([[(str(i), x, 1, False) for i, x in enumerate(values)]])
    holdings = table_of([[(str(max(i, 1)), x, 1, False) for i, x in enumerate(values)]])
    assert not PPercent(10).assess(units).unsafe[0]
    assert PPercent(10).assess(holdings).upper[0] == pytest.approx(90 - 50)


@pytest.mark.parametrize(
    ("stricter", "milder"),
    [
        (PPercent(20), PPercent(10)), (PPercent(10, coalition=2), PPercent(10)), (PQ(10, 50), PQ(10, 80)), (NK(2, 70), NK(2, 80)),
        (NK(3, 80), NK(2, 80)), (MinimumFrequency(5), MinimumFrequency(3)), (MinimumContributors(5), MinimumContributors(2)),
        (PTN(10, 50), PTN(10, 70)), (PTN(10, 50, own=0), PTN(10, 50, own=10)),
    ],
    ids=lambda r: r.label(),
)  # fmt: skip
def test_stricter_parameters_find_more_and_hide_wider(stricter: SensitivityRule, milder: SensitivityRule) -> None:
    table = table_of(random_cells(200, seed=4))
    more, fewer = stricter.assess(table), milder.assess(table)
    assert (more.unsafe >= fewer.unsafe).all()
    assert more.unsafe.sum() > fewer.unsafe.sum() or (more.upper > fewer.upper).any()
    assert (more.upper >= fewer.upper - 1e-9).all()


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
    for rule in (rules, *ALL, Request(70, requested=("a",)), PPercent(10, waived=("x", "y"))):
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


def example(name: str, **kwargs: Any) -> pd.DataFrame:
    if not (DATA / name).exists():
        pytest.skip(f"the shared reference file {DATA / name} is not here")
    return pd.read_csv(DATA / name, **kwargs)


def inside(frame: pd.DataFrame, table: Table, cell: int) -> pd.DataFrame:
    for dimension, label in zip(table.cells.dimensions, table.cells.labels[cell], strict=True):
        if label != "Total":
            frame = frame[frame[dimension].astype(str) == label]
    return frame


@pytest.mark.parametrize(
    ("name", "formula", "variable", "owner"),
    [
        ("sdctable_microdata1.csv", "region * gender", "val", None),
        ("sdctable_microdata2.csv", "region * gender * ecoOld", "numVal", None),
        ("ssbtools_magnitude1.csv", "sector4 * geo + sector2 * geo + sector4 * eu + sector2 * eu", "value", "company"),
    ],
)
def test_primaries_of_the_example_files_are_those_of_the_definitions(
    name: str, formula: str, variable: str, owner: str | None
) -> None:
    frame = example(name)
    table = Table.of(Microdata(frame), formula, variable, contributor=owner)
    for p in (5, 10, 50):
        p_rule, nk_rule, few = PPercent(p).assess(table), NK(2, 80).assess(table), MinimumFrequency(3).assess(table)
        for cell in range(len(table)):
            part = inside(frame, table, cell)
            by = part[variable] if owner is None else part.groupby(owner)[variable].sum()
            x = [*by.sort_values(ascending=False).tolist(), 0.0, 0.0]
            total = sum(x)
            assert p_rule.unsafe[cell] == (total - x[0] - x[1] < p / 100 * x[0] - 1e-9)
            assert nk_rule.unsafe[cell] == (x[0] + x[1] > 0.8 * total + 1e-9)
            assert few.unsafe[cell] == (0 < len(part) < 3)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("ssbtools_z1.csv", "ant"),
        ("ssbtools_z2.csv", "ant"),
        ("ssbtools_d2.csv", "freq"),
        ("ssbtools_example1.csv", "freq"),
    ],
)
def test_primaries_of_the_example_counts_are_those_of_the_definitions(name: str, count: str) -> None:
    frame = example(name)
    dimensions = [c for c in frame if c != count][:2]
    table = Table.of(Microdata(frame), " * ".join(dimensions), count=count)
    for n in (3, 4, 11):
        found = MinimumFrequency(n).assess(table)
        for cell in range(len(table)):
            there = inside(frame, table, cell)[count].sum()
            assert found.unsafe[cell] == (0 < there < n)
