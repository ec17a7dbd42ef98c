"""Sensitivity rules, against attackers who are played out one by one, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from rule_cells import Cell, in_order, random_cells, table_of

from sfumato.tables import NK, PQ, PTN, MinimumContributors, MinimumFrequency, PPercent, Sensitivity, SensitivityRule


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


@pytest.mark.parametrize("weights", ["known", "copies", "unknown"])
@pytest.mark.parametrize(("p", "coalition"), [(10, 1), (50, 1), (10, 2), (25, 3), (10, 0), (150, 1)])
def test_the_p_percent_rule_finds_what_every_coalition_can_do(p: int, coalition: int, weights: str) -> None:
    cells = random_cells(120, seed=p + coalition, weights=(1, 2, 3))
    table = table_of(cells, weighted=True)
    found = PPercent(p, coalition=coalition, weights=weights).assess(table)
    expected = [p_percent_by_hand(cell, p, coalition, weights) for cell in in_order(table, cells)]
    agree(found, expected, table.value)
    assert 0 < found.unsafe.sum() < len(cells)


@pytest.mark.parametrize("weights", ["known", "unknown"])
def test_a_holding_may_have_records_with_different_weights(weights: str) -> None:
    g = np.random.default_rng(8)
    cells = [[(o, x, int(g.integers(1, 5)), f) for o, x, _, f in cell] for cell in random_cells(150, seed=2)]
    table = table_of(cells, weighted=True)
    found = PPercent(20, weights=weights).assess(table)
    agree(found, [p_percent_by_hand(cell, 20, 1, weights) for cell in in_order(table, cells)], table.value)


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
