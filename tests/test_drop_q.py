"""Clean difference tables under drop q and its variants, against every choice of records written out in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from drop_q_twin import Drops, drawn, fixed, outcome, printed_4_3_4, share
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sfumato import Draws
from sfumato.contract import build, registered
from sfumato.errors import DataError, ParameterError
from sfumato.mas import (
    CellTable,
    Drop,
    DropEnough,
    DropQ,
    DropRange,
    DropShare,
    clean_tables,
    same_drop_probability,
    share_clean_tables,
    smallest_q,
    success_probability,
)

small_tables = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(lambda c: 2 <= sum(c) <= 7)
few = settings(max_examples=40, derandomize=True)
CASES: list[tuple[Drop, Drops]] = [
    (DropQ(q=1), fixed(1)),
    (DropQ(q=3), fixed(3)),
    (DropRange(low=0, high=2), drawn(0, 2)),
    (DropRange(low=1, high=3), drawn(1, 3)),
    (DropShare(share=0.25), share(Fraction(1, 4))),
    (DropShare(share=0.9), share(Fraction(9, 10))),
]


@pytest.mark.parametrize(("drop", "every"), CASES, ids=lambda d: d.label() if isinstance(d, Drop) else "")
@pytest.mark.parametrize("counts", [(2, 3), (1, 1, 4), (3, 0, 2, 1), (5,), (1, 1, 1, 1, 1)])
def test_clean_tables_are_as_often_right_and_wrong_as_over_all_choices_of_records(
    drop: Drop, every: Drops, counts: tuple[int, ...]
) -> None:
    table = CellTable.of(list(counts))
    result = drop.clean(table)
    for cell, count in enumerate(counts):
        if count == 0:
            assert math.isnan(result.right[cell])
            continue
        expected = outcome(counts, cell, every)
        assert_allclose(result.right[cell], float(expected.right), rtol=1e-12, atol=1e-300)
        assert_allclose(result.wrong[cell], float(expected.wrong), rtol=1e-12, atol=1e-15)


@few
@given(small_tables, st.integers(0, 6))
def test_exact_probabilities_are_those_of_all_choices_for_any_small_table(counts: list[int], q: int) -> None:
    if q >= sum(counts):
        q = sum(counts) - 1
    result = clean_tables(counts, q)
    expected = [outcome(counts, i, fixed(q)) if c else None for i, c in enumerate(counts)]
    for i, found in enumerate(expected):
        if found is not None:
            assert_allclose(
                [result.right[i], result.wrong[i]], [float(found.right), float(found.wrong)], rtol=1e-11, atol=1e-14
            )
    mean = sum(found.right * counts[i] for i, found in enumerate(expected) if found) / Fraction(sum(counts))
    assert_allclose(same_drop_probability(counts, q), float(mean), rtol=1e-11)
    assert_allclose(result.mean_right, float(mean), rtol=1e-11)


@pytest.mark.parametrize("round_", range(12))
def test_larger_tables_agree_with_the_recursion_in_whole_numbers(round_: int) -> None:
    """Σ Π C(n_i, x_i) C(n_i − [i = s], x_i) by the recursion of ERRATA 1.10, without rounding; q also near n."""
    g = Draws(5).child(round_).generator("counts")
    counts = g.integers(1, [4, 40, 300][round_ % 3], int(g.integers(2, 9))).tolist()
    n = sum(counts)
    q = int(g.integers(1, min(n, 80))) if round_ % 2 else n - int(g.integers(1, 3))
    q = min(q, 300)
    cell = round_ % len(counts)

    def by_recursion(fewer: int | None) -> int:
        row = [1] + [0] * q
        for i, c in enumerate(counts):
            mine = [math.comb(c, x) * math.comb(c - (i == fewer), x) for x in range(min(c, q) + 1)]
            row = [sum(mine[x] * row[m - x] for x in range(min(len(mine) - 1, m) + 1)) for m in range(q + 1)]
        return row[q]

    same = Fraction(by_recursion(None), math.comb(n, q) ** 2)
    right = Fraction(by_recursion(cell), math.comb(n, q) * math.comb(n - 1, q))
    assert_allclose(same_drop_probability(counts, q), float(same), rtol=1e-11)
    assert_allclose(clean_tables(counts, q).right[cell], float(right), rtol=1e-11)


@few
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 5))
def test_4_3_4_is_the_printed_sum_for_any_small_table_of_proportions(parts: list[int], q: int) -> None:
    proportions = [Fraction(p, sum(parts)) for p in parts]
    assert_allclose(
        success_probability([float(p) for p in proportions], q), float(printed_4_3_4(proportions, q)), rtol=1e-11
    )


def test_a_wrong_clean_table_in_the_approximation_is_the_limit_of_the_exact_one() -> None:
    proportions = np.array([0.5, 0.3, 0.2])
    near = clean_tables((proportions * 10**7).round(), 5)
    limit = clean_tables(proportions, 5)
    assert_allclose(limit.right, near.right, rtol=1e-5)
    assert_allclose(limit.wrong, near.wrong, rtol=1e-5)


def test_empty_cells_change_nothing() -> None:
    assert success_probability([3, 0, 5, 0], 4) == success_probability([3, 5], 4)
    assert clean_tables([3, 0, 5, 0], 4).mean_right == clean_tables([3, 5], 4).mean_right


def test_a_table_of_one_occupied_cell_is_always_clean() -> None:
    assert success_probability([0, 50, 0], 20) == 1.0
    result = clean_tables([0, 50, 0], 20)
    assert (result.mean_right, result.mean_wrong, result.trust) == (1.0, 0.0, 1.0)


def test_without_drops_every_difference_is_right() -> None:
    assert success_probability([4, 3], 0) == 1.0
    assert clean_tables([4, 3], 0).right.tolist() == [1.0, 1.0]
    assert share_clean_tables([4, 3], 0.0).right.tolist() == [1.0, 1.0]


def test_if_every_record_is_dropped_nothing_is_left_to_be_clean() -> None:
    result = share_clean_tables([4, 3], 1.0)
    assert (result.mean_right, result.mean_wrong) == (0.0, 0.0)
    assert math.isnan(result.trust)


def test_probabilities_far_below_the_smallest_number_have_a_logarithm() -> None:
    """With many more equal cells than drops, nearly all x are 0 or 1: (4.3.4) is nearly q! / Λ^q."""
    cells, q = 10**6, 100
    log = success_probability(np.full(cells, 3), q, log=True)
    assert success_probability(np.full(cells, 3), q) == 0.0 or log > -745
    assert_allclose(log, math.lgamma(q + 1) - q * math.log(cells), atol=0.02)


def test_a_fair_coin_tossed_often_collides_like_one_over_the_root_of_pi_q() -> None:
    """C(2q, q) / 4^q, also for large q."""
    for q in (10, 1000, 10**6):
        exact = math.lgamma(2 * q + 1) - 2 * math.lgamma(q + 1) - 2 * q * math.log(2)
        assert_allclose(success_probability([0.5, 0.5], q, log=True), exact, atol=1e-7)


# -- the smallest q


@pytest.mark.parametrize("round_", range(10))
def test_the_smallest_q_suffices_and_the_one_before_does_not(round_: int) -> None:
    g = Draws(6).child(round_).generator("table")
    table = g.integers(1, 400, size=(2, 3))
    below = float(g.choice([0.5, 0.1, 0.01, 0.001]))
    q = smallest_q(table, below)
    assert success_probability(table, q) < below <= success_probability(table, q - 1)


def test_the_smallest_q_for_a_fair_coin_is_known_from_its_formula() -> None:
    """C(2q, q)/4^q is 1/√(π(q + ¼)) up to 1/q³."""
    assert smallest_q([0.5, 0.5], 0.001) == math.ceil(1e6 / math.pi - 0.25)


@pytest.mark.parametrize(
    ("table", "below"), [([9990, 10], 0.001), ([50, 0], 0.9), ([1.0], 0.5), ([2, 1], 0.01), ([0.5, 0.5], 1e-9)]
)
def test_a_threshold_that_no_q_reaches_is_refused_in_a_sentence(table: list[float], below: float) -> None:
    with pytest.raises(DataError, match=r"no q, up to .*, brings the probability .* for this table\. Allow a higher"):
        smallest_q(table, below)


@pytest.mark.parametrize("below", [0, -1, 1.5, math.nan, "a", True])
def test_a_threshold_is_a_probability(below: float) -> None:
    with pytest.raises(ParameterError, match="the threshold must be"):
        smallest_q([5, 5], below)


# -- variants


def test_variants_are_registered_and_read_from_tables() -> None:
    assert {"drop_q", "drop_range", "drop_share", "drop_enough"} <= set(registered("drop"))
    assert build("drop", {"drop": "drop_range", "low": 2, "high": 4}) == DropRange(low=2, high=4)


def test_a_number_drawn_from_a_range_divides_the_mean_probability_by_how_many_numbers_there_are() -> None:
    table = CellTable.of([40, 30, 20])
    drawn_, each = DropRange(low=2, high=6), [DropQ(q=q) for q in range(2, 7)]
    assert_allclose(drawn_.approximate(table), np.mean([d.approximate(table) for d in each]) / 5)
    assert_allclose(drawn_.clean(table).mean_right, np.mean([d.clean(table).mean_right for d in each]) / 5)
    assert_allclose(drawn_.clean(table).mean_wrong, np.mean([d.clean(table).mean_wrong for d in each]) / 5)


def test_enough_drops_are_those_of_the_smallest_q() -> None:
    table = CellTable.of([[30, 20], [25, 25]])
    chosen = DropEnough(below=0.05)
    q = smallest_q(table, 0.05)
    assert chosen.for_table(table) == DropQ(q=q)
    assert chosen.approximate(table) == success_probability(table, q) < 0.05
    assert chosen.expected(table) == q
    assert chosen.clean(table).mean_right == clean_tables(table, q).mean_right


def test_a_range_that_ends_before_it_begins_and_a_share_above_one_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least low"):
        DropRange(low=5, high=4)
    with pytest.raises(ParameterError, match="at most 1"):
        DropShare(share=1.2)
    with pytest.raises(ParameterError, match="from 0 to 1"):
        share_clean_tables([5, 5], math.nan)
    with pytest.raises(DataError, match="whole counts"):
        share_clean_tables([0.5, 0.5], 0.1)
