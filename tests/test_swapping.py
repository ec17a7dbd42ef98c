"""Rank swapping: the limit is a limit, distributions stay, and every refusal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from small_files import amounts as microdata
from small_files import column as values
from small_files import release as swapped

from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, SfumatoError
from sfumato.kernels.sorting import sorted_runs
from sfumato.kernels.swapping import largest_moves, partners, shuffled_ties
from sfumato.masks import DataSwap, RankSwap

Numbers = NDArray[np.float64]
ALPHA = 1e-4
"""Chance that a test of frequencies fails although all is right."""


# Sorting


@given(st.lists(st.floats(allow_nan=False, width=64), max_size=60))
@settings(max_examples=200, deadline=None)
def test_sorting_gives_the_order_and_the_runs_of_numpy(x: list[float]) -> None:
    numbers = np.array(x, np.float64)
    order, begins, distinct = sorted_runs(numbers)
    assert order.tolist() == np.argsort(numbers, kind="stable").tolist()
    expected, first = np.unique(np.sort(numbers), return_index=True)
    assert begins.tolist() == [*first.tolist(), len(x)]
    assert distinct.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(1).normal(size=5000),
        np.random.default_rng(2).integers(0, 40, 5000).astype(float),
        np.r_[1e300, 1e9 + np.random.default_rng(3).random(5000) * 1e-3, -np.inf],
        np.full(100, 7.25),
        np.array([0.0, -0.0, 0.0, -1.0]),
    ],
    ids=["continuous", "ties", "a cluster far from an outlier", "constant", "signed zeros"],
)
def test_sorting_copes_with_every_shape_of_distribution(x: Numbers) -> None:
    order, begins, distinct = sorted_runs(x)
    assert order.tolist() == np.argsort(x, kind="stable").tolist()
    assert distinct.tolist() == np.unique(x).tolist()
    assert np.diff(begins).tolist() == np.unique(x, return_counts=True)[1].tolist()


# Partners


def slow_partners(order: list[int], begins: list[int], limits: list[int], uniforms: Numbers) -> list[int]:
    """Partners with lists: from the lowest rank up, each free unit draws among the free ones in its window."""
    partner = list(range(len(uniforms)))
    for start, end, limit in zip(begins, begins[1:], limits, strict=False):
        units = order[start:end]
        if limit < 1 or len(units) < 2:
            continue
        if len(units) % 2:
            units.pop(2 * int(uniforms[units[-1]] * ((len(units) + 1) // 2)))
            limit = max(limit - 1, 1)
        pool: list[int] = []
        entered = 0
        for k in range(len(units)):
            while entered <= min(k + limit, len(units) - 1):
                pool.append(entered)
                entered += 1
            if partner[units[k]] != units[k]:
                continue
            for taken in (k, None):
                j = pool[int(uniforms[units[k]] * len(pool))] if taken is None else taken
                pool[pool.index(j)] = pool[-1]
                pool.pop()
            partner[units[k]], partner[units[j]] = units[j], units[k]
    return partner


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_partners_are_those_of_the_slow_twin_and_all_but_one_of_an_odd_number_find_one(
    sizes: list[int], limit: int, seed: int
) -> None:
    g = np.random.default_rng(seed)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    order, uniforms = g.permutation(begins[-1]), g.random(begins[-1])
    limits = np.full(len(sizes), limit)
    found = partners(order, begins, limits, uniforms)
    assert found.tolist() == slow_partners(order.tolist(), begins.tolist(), limits.tolist(), uniforms)
    assert found[found].tolist() == list(range(len(order)))  # pairs: the partner's partner is oneself
    rank = np.argsort(order)
    for start, end in itertools.pairwise(begins.tolist()):
        block = order[start:end]
        assert set(found[block].tolist()) == set(block.tolist())
        assert (np.abs(rank[found[block]] - rank[block]) <= limit).all()
        alone = int((found[block] == block).sum())
        assert alone == (len(block) if limit < 1 or len(block) < 2 else len(block) % 2)


def pairings(n: int, limit: int) -> dict[tuple[int, ...], float]:
    """The chance of each set of partners among n ranks, by going through every choice."""

    def go(partner: tuple[int, ...], k: int) -> dict[tuple[int, ...], float]:
        if k == n:
            return {partner: 1.0}
        if partner[k] != k:
            return go(partner, k + 1)
        free = [j for j in range(k + 1, min(k + limit, n - 1) + 1) if partner[j] == j]
        if not free:
            return go(partner, k + 1)
        out: Counter[tuple[int, ...]] = Counter()
        for j in free:
            chosen = list(partner)
            chosen[k], chosen[j] = j, k
            for end, chance in go(tuple(chosen), k + 1).items():
                out[end] += chance / len(free)  # type: ignore[assignment]
        return out

    return go(tuple(range(n)), 0)


@pytest.mark.parametrize(("n", "limit"), [(4, 2), (6, 2), (6, 3), (8, 7)])
def test_each_candidate_has_the_same_chance_to_be_the_partner(n: int, limit: int) -> None:
    truth, draws = pairings(n, limit), 20_000
    uniforms = np.random.default_rng(4).random((draws, n))
    begins, limits = np.array([0, n]), np.array([limit])
    seen = Counter(tuple(partners(np.arange(n), begins, limits, u).tolist()) for u in uniforms)
    assert set(seen) <= set(truth)
    expected = [draws * chance for chance in truth.values()]
    assert stats.chisquare([seen[key] for key in truth], expected).pvalue > ALPHA


def test_the_one_left_over_of_an_odd_number_may_be_anyone_of_every_second_rank() -> None:
    uniforms = np.random.default_rng(5).random((9_000, 9))
    found = [partners(np.arange(9), np.array([0, 9]), np.array([3]), u) for u in uniforms]
    alone = Counter(int(np.flatnonzero(f == np.arange(9))[0]) for f in found)
    assert set(alone) == {0, 2, 4, 6, 8}
    assert stats.chisquare([alone[k] for k in (0, 2, 4, 6, 8)]).pvalue > ALPHA


def test_ties_are_shuffled_with_equal_chances_and_nothing_else_moves() -> None:
    order, ties = np.array([5, 2, 0, 1, 4, 3]), np.array([0, 1, 4, 6])
    seen = Counter(tuple(shuffled_ties(order, ties, u).tolist()) for u in np.random.default_rng(6).random((6_000, 6)))
    wanted = [(5, *a, *b) for a in itertools.permutations((2, 0, 1)) for b in itertools.permutations((4, 3))]
    assert set(seen) == set(wanted)
    assert stats.chisquare([seen[w] for w in wanted]).pvalue > ALPHA


def rank_moves(before: Sequence[float], after: Sequence[float]) -> list[int]:
    """For each record, the distance between the ranks of its old value and the ranks of its new one."""
    ranks: dict[float, list[int]] = {}
    for rank, value in enumerate(sorted(before)):
        ranks.setdefault(value, []).append(rank)
    return [
        0 if a == b else min(abs(r - s) for r in ranks[a] for s in ranks[b]) for a, b in zip(before, after, strict=True)
    ]


@given(st.lists(st.integers(0, 12), min_size=2, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_largest_move_is_that_of_the_definition(x: list[int], random: Any) -> None:
    y = random.sample(x, len(x))
    before, after = np.array(x, np.float64), np.array(y, np.float64)
    order, ties, _ = sorted_runs(before)
    largest, changed = largest_moves(order, sorted_runs(after)[0], ties, np.array([0, len(x)]))
    assert largest.tolist() == [max(rank_moves(x, y))]
    assert changed == sum(a != b for a, b in zip(x, y, strict=True))


# Rank swapping


@given(
    st.lists(st.integers(0, 15), min_size=4, max_size=80),
    st.floats(0.01, 1.0),
    st.integers(0, 10_000),
)
@settings(max_examples=80, deadline=None)
def test_no_rank_moves_past_the_limit_whatever_the_ties(x: list[int], p: float, seed: int) -> None:
    data = microdata(x=[float(v) for v in x])
    try:
        after = swapped(RankSwap("x", p=p), data, seed).masked.numbers("x").tolist()
    except DataError as error:
        assert "constant" in str(error) or "no value of 'x' can change" in str(error)  # noqa: PT017
        return
    assert sorted(after) == sorted(x)
    assert max(rank_moves([float(v) for v in x], after)) <= int(p * len(x) + 1e-9)


@pytest.mark.parametrize("p", [0.001, 0.01, 0.1, 0.5, 1.0])
def test_a_large_file_keeps_the_limit_and_everyone_is_swapped(p: float) -> None:
    x = np.random.default_rng(7).lognormal(3, 1, 20_000)
    made = swapped(RankSwap("x", p=p), microdata(x=x))
    before, after = (stats.rankdata(v) for v in made.pair("x"))
    assert np.abs(before - after).max() <= p * len(x)
    assert (before != after).all()
    # ranks have variance n²/12, and moves are at most pn: the correlation of ranks is at least 1 - 6p²
    assert np.corrcoef(before, after)[0, 1] >= 1 - 6 * p**2 - 1e-3


def test_a_higher_limit_moves_ranks_further() -> None:
    data = microdata(x=np.random.default_rng(8).normal(size=5_000))
    moves = []
    for p in (0.01, 0.05, 0.2):
        before, after = (stats.rankdata(v) for v in swapped(RankSwap("x", p=p), data).pair("x"))
        moves.append(np.abs(before - after).mean())
    assert moves[0] < moves[1] < moves[2]


def test_missing_values_and_their_codes_are_not_ranked_and_stay() -> None:
    x: list[Any] = [1.0, None, 3.0, -9.0, 2.0, float("nan"), 5.0, 4.0]
    made = swapped(RankSwap("x", p=1.0), microdata({"x": {"missing": (-9.0,)}}, x=x))
    after = values(made.masked, "x")
    assert after[1] is None
    assert after[3] == -9.0
    assert np.isnan(after[5])
    assert sorted(after[i] for i in (0, 2, 4, 6, 7)) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert "1 of 5 values have no partner" in made.guarantees[-1].says


@pytest.mark.parametrize(
    ("column", "facts"),
    [
        (pa.array([2**60 + i for i in range(0, 4000, 1000)], pa.int64()), {}),
        (pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("3.30"), Decimal("4.40")]), {}),
        (pa.array([1.5, 2.5, 3.5, 4.5], pa.float32()), {}),
        (pa.array(["low", "mid", "high", "top"]).dictionary_encode(),
         {"values": {"low": 1.0, "mid": 2.0, "high": 3.0, "top": 4.0}}),
    ],
    ids=["large whole numbers", "decimals", "float32", "ordered categories"],
)  # fmt: skip
def test_values_are_exchanged_as_they_are_in_their_own_type(column: pa.Array, facts: dict[str, Any]) -> None:
    data = microdata({"x": facts}, x=column)
    after = swapped(RankSwap("x", p=1.0), data).masked.batch(["x"]).column("x").arrow
    assert after.type == data.batch(["x"]).column("x").arrow.type
    assert sorted(map(str, after.to_pylist())) == sorted(map(str, column.to_pylist()))
    assert after.to_pylist() != column.to_pylist()


def test_tied_values_are_treated_alike_wherever_they_stand_in_the_file() -> None:
    data = microdata(x=[0.0] * 10 + [1.0] * 10)
    hits = np.zeros(10)
    for seed in range(400):
        hits += swapped(RankSwap("x", p=0.15), data, seed).masked.numbers("x")[:10] == 1.0
    assert hits.sum() > 200
    assert stats.chisquare(hits).pvalue > ALPHA


def test_each_column_is_swapped_on_its_own() -> None:
    x = np.random.default_rng(9).normal(size=2_000)
    made = swapped(RankSwap(["x", "y"], p=0.3), microdata(x=x, y=x)).masked
    assert not np.array_equal(made.numbers("x"), made.numbers("y"))
    rx, ry = (stats.rankdata(made.numbers(n)) - stats.rankdata(x) for n in ("x", "y"))
    # neighbours in rank share the room they have to move in, so moves are near zero correlated, not exactly
    assert abs(np.corrcoef(rx[500:1500], ry[500:1500])[0, 1]) < 0.2


def test_a_column_may_have_a_limit_of_its_own() -> None:
    g = np.random.default_rng(10)
    data = microdata(x=g.normal(size=1_000), y=g.normal(size=1_000))
    made = swapped(RankSwap(["x", "y"], p={"x": 0.01, "y": 0.5}), data)
    moves = {n: np.abs(np.subtract(*map(stats.rankdata, made.pair(n)))).max() for n in ("x", "y")}
    assert moves["x"] <= 10 < moves["y"] <= 500


def test_strata_are_not_crossed_and_each_keeps_its_distribution_and_its_limit() -> None:
    g = np.random.default_rng(11)
    area = g.integers(0, 4, 603)
    x = np.round(g.normal(10 * area, 5, 603))
    data = microdata({"area": {"role": "key"}}, x=x, area=area)
    made = swapped(RankSwap("x", p=0.1, within=["area"]), data)
    _, after = made.pair("x")
    for a in range(4):
        inside = area == a
        assert sorted(after[inside]) == sorted(x[inside])
        assert max(rank_moves(x[inside].tolist(), after[inside].tolist())) <= int(0.1 * inside.sum())
    assert "in each stratum" in made.guarantees[1].says


def test_a_stratum_that_is_too_small_for_the_limit_is_counted_as_unswapped() -> None:
    data = microdata({"area": {"role": "key"}}, x=np.arange(24.0), area=[0] * 20 + [1] * 4)
    made = swapped(RankSwap("x", p=0.1, within=["area"]), data)
    assert made.masked.numbers("x")[20:].tolist() == [20.0, 21.0, 22.0, 23.0]
    assert "4 of 24 values have no partner" in made.guarantees[-1].says


def households(n: int = 300) -> tuple[Microdata, NDArray[np.int64]]:
    g = np.random.default_rng(12)
    home = np.sort(g.integers(0, n, 3 * n))
    rent = g.gamma(3, 200, n).round(-1)
    facts = {"home": {"role": "household"}, "rent": {"level": "household"}}
    return microdata(facts, home=home, rent=rent[home], pay=g.normal(size=3 * n)), home


def test_household_values_are_ranked_and_swapped_among_households() -> None:
    data, home = households()
    before, after = swapped(RankSwap("rent", p=0.05), data).pair("rent")
    one = np.unique(home, return_index=True)[1]
    assert all(len(set(after[home == h])) == 1 for h in np.unique(home))
    assert sorted(after[one]) == sorted(before[one])
    assert max(rank_moves(before[one].tolist(), after[one].tolist())) <= int(0.05 * len(one))


def test_ranks_that_moved_too_far_or_values_that_changed_stop_the_release() -> None:
    x = np.arange(100.0)
    data, mask = microdata(x=x), RankSwap("x", p=0.1)
    fitted = mask.fit(data, Draws(1))
    far = x.copy()
    far[[0, 11]] = far[[11, 0]]
    with pytest.raises(DataError, match=r"moved further in rank than p allows; nothing is released\."):
        fitted.guarantees(data, microdata(x=far), "s")
    near = x.copy()
    near[[0, 10]] = near[[10, 0]]
    assert "largest move is 10" in fitted.guarantees(data, microdata(x=near), "s")[0].verified
    for wrong in (np.where(x == 5, 5.5, x), np.where(x == 5, 6, x), np.where(x == 5, np.nan, x)):
        with pytest.raises(DataError, match=r"distribution of 'x' is not the one it had; nothing is released\."):
            fitted.guarantees(data, microdata(x=wrong), "s")


@pytest.mark.parametrize(
    ("x", "p", "sentence"),
    [
        ([7.0] * 30, 0.5, "is constant"),
        ([None, None, float("nan")], 0.5, "no values at all"),
        (list(range(30)), 0.01, "no value of 'x' can change: p = 0.01 is 0 ranks at most"),
        ([0.0] * 15 + [1.0], 0.9, None),
        ([5.0], 1.0, "is constant"),
    ],
)
def test_what_swapping_cannot_change_is_refused_and_never_released_as_if_swapped(
    x: list[Any], p: float, sentence: str | None
) -> None:
    data = microdata(x=pa.array(x, pa.float64(), from_pandas=False))
    if sentence is None:
        assert (swapped(RankSwap("x", p=p), data).masked.numbers("x") != data.numbers("x")).sum() == 2
        return
    with pytest.raises(DataError, match=sentence):
        swapped(RankSwap("x", p=p), data)


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"columns": ["x"], "p": 0}, "must be a number above 0 and at most 1"),
        ({"columns": ["x"], "p": 5}, "must be a number above 0 and at most 1"),
        ({"columns": ["x"], "p": {"y": 0.1}}, "p gives no limit for x"),
        ({"columns": ["x"], "p": {"x": 0.1, "y": 0.1}}, "p names columns that are not swapped: y"),
        ({"columns": ["x"], "within": ["x"]}, "cannot be swapped and be a stratum at once"),
        ({"columns": []}, "empty list"),
    ],
)
def test_settings_of_a_rank_swap_that_make_no_sense_are_refused(settings_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        RankSwap(**settings_)


def test_columns_that_have_no_ranks_are_refused() -> None:
    data = microdata(x=["a", "b"], y=[1.0, 2.0])
    with pytest.raises(DataError, match="where numbers are needed"):
        swapped(RankSwap("x"), data)
    with pytest.raises(SfumatoError, match="not in the data"):
        swapped(RankSwap("y", within=["z"]), data)


@pytest.mark.parametrize("mask", [RankSwap("x"), DataSwap("x")])
def test_swapping_is_no_matrix_mask(mask: Mask) -> None:
    with pytest.raises(NotApplicable, match="records keep some of their fields and exchange others"):
        mask.as_matrix(microdata(x=[1.0, 2.0]), Draws(1))
