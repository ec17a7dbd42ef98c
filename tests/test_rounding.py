"""Random rounding and small-count rounding, against their definitions, Monte Carlo and enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding_tables import adds_up, counted, linked, shared
from scipy import sparse

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.table_algebra import choose_values
from sfumato.tables import Cells, ControlledRounding, Protection, RandomRounding, SmallCountRounding, Status, Table
from sfumato.tables.attacker import Attacker
from sfumato.tables.rounding import cell_ids, split

# -- random rounding


@pytest.mark.parametrize("by", ["cell", "leaf"])
def test_random_rounding_is_unbiased_and_goes_to_the_multiples_beside_the_value(by: str) -> None:
    table = counted([[1, 2, 7], [5, 0, 13]])
    many = np.array([RandomRounding(5, by=by).apply(table, Draws(s)).values for s in range(1500)])
    assert (many % 5 == 0).all()
    expected = table.value
    spread = many.std(axis=0) / np.sqrt(len(many))
    assert (np.abs(many.mean(axis=0) - expected) <= 4.5 * spread + 1e-12).all()
    single = table.cells.sizes == 1
    beside = np.array([5 * np.floor(expected / 5), 5 * np.ceil(expected / 5)])
    rounded = single if by == "leaf" else np.ones(len(table), bool)
    assert ((many == beside[0]) | (many == beside[1]))[:, rounded].all()
    # a rest r has the variance r (base − r)
    rest = expected % 5
    assert many.var(axis=0)[rounded] == pytest.approx((rest * (5 - rest))[rounded], abs=0.5)


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 5, 10]))
@settings(max_examples=25, deadline=None)
def test_rounded_leaves_add_up_and_what_is_sure_holds(seed: int, base: int) -> None:
    table = linked(seed)
    for by in ("cell", "leaf"):
        published = RandomRounding(base, by=by).apply(table, Draws(seed))
        assert ((published.low <= table.value) & (table.value <= published.high)).all()
        assert (published.low >= 0).all()
        assert (published.status == Status.CHANGED).all()
        if by == "leaf":
            assert adds_up(table, published.values)


def test_what_is_sure_of_a_count_leaves_the_ends_out() -> None:
    """All counts that may be published as 0, 5 or 10 with a base of 5, by trying every count with every draw."""
    table = counted([[0, 1, 4, 5, 6, 9, 10]])
    seen: dict[float, set[float]] = {}
    for seed in range(200):
        published = RandomRounding(5).apply(table, Draws(seed))
        for true, value in zip(table.value, published.values, strict=True):
            seen.setdefault(value, set()).add(true)
    published = RandomRounding(5).apply(table, Draws(0))
    for value, low, high in zip(published.values, published.low, published.high, strict=True):
        assert min(seen[value]) >= low
        assert max(seen[value]) <= high
        if value in (0, 5):
            assert (low, high) == ((0, 4) if value == 0 else (1, 9))


def test_magnitudes_have_no_largest_number_below_the_end() -> None:
    frame = pd.DataFrame({"region": ["a", "b"], "turnover": [3.7, 12.25]})
    published = RandomRounding(2.5).apply(Table.of(Microdata(frame), "region", "turnover"), Draws(1))
    at = published.cells.find(region="b")
    assert published.values[at] in (10.0, 12.5)
    assert (published.low[at], published.high[at]) == (published.values[at] - 2.5, published.values[at] + 2.5)
    assert published.decimals == 1


def test_a_cell_is_rounded_the_same_way_in_every_order_table_and_run() -> None:
    g = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"a": g.choice(list("uvw"), 300), "b": g.choice(list("xyz"), 300), "c": g.choice(list("rs"), 300)}
    )
    first = RandomRounding(7).apply(Table.of(Microdata(frame), "a * b"), Draws(3))
    for other in (
        Table.of(Microdata(frame.sample(frac=1, random_state=1)), "b * a"),
        Table.of(Microdata(frame), "a * b * c"),
        Table.of(Microdata(frame), "a : b - 1 + c"),
    ):
        again = RandomRounding(7).apply(other, Draws(3))
        found = 0
        for cell in range(len(first)):
            labels = dict(zip(first.cells.dimensions, first.cells.labels[cell], strict=True))
            key = tuple(labels.get(d, "Total") for d in other.cells.dimensions)
            if key in other.cells._positions:
                assert again.values[other.cells._positions[key]] == first.values[cell]
                found += 1
        assert found >= 9
    moved = RandomRounding(7, period="2027").apply(Table.of(Microdata(frame), "a * b"), Draws(3))
    assert (moved.values != first.values).any()


def test_one_value_under_two_names_is_one_draw() -> None:
    """A region with a single sector: the cell and its margin are the same records."""
    frame = pd.DataFrame({"a": ["u"] * 3 + ["v"] * 9, "b": ["x"] * 3 + ["x", "y", "z"] * 3})
    table = Table.of(Microdata(frame), "a * b")
    ids = cell_ids(table.cells)
    assert ids[table.cells.find(a="u")] == ids[table.cells.find(a="u", b="x")]
    assert len(np.unique(ids)) == len(table) - 3  # y and z occur in v alone
    alone = Table.of(Microdata(frame), "a")
    assert cell_ids(alone.cells)[alone.cells.find(a="u")] == ids[table.cells.find(a="u", b="x")]


def test_values_are_split_with_room_for_the_error_of_binary_fractions() -> None:
    times, rest = split(np.array([0.3, 0.6000000000000001, 1e9 + 0.05, -0.05]), 0.1)
    assert times.tolist() == [3, 6, 1e10, -1]
    assert rest == pytest.approx([0, 0, 0.05, 0.05], abs=1e-6)


@pytest.mark.parametrize("base", [1, 2.5])
def test_a_base_that_makes_no_sense_for_counts_is_refused(base: float) -> None:
    with pytest.raises(ParameterError, match="whole number of at least 2"):
        RandomRounding(base).apply(counted([[1, 2]]), Draws(1))


@pytest.mark.parametrize("method", [RandomRounding(5), RandomRounding(5, by="leaf"), ControlledRounding(5)])
def test_a_base_below_the_last_digit_of_the_values_is_refused(method: Protection) -> None:
    table = counted([[1, 2]])
    with pytest.raises(ParameterError, match="too small for the values"):
        method.apply(table.with_(totals=table.totals * 1e20, integer=False), Draws(1))


# -- small counts


def squared_error(table: Table, values: np.ndarray[Any, Any]) -> float:
    return float(((values - table.value) ** 2).sum())


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 5, 10]), st.integers(20, 150))
@settings(max_examples=30, deadline=None)
def test_no_small_count_is_left_and_everything_adds_up(seed: int, base: int, records: int) -> None:
    table = linked(seed, records)
    published = SmallCountRounding(base).apply(table, Draws(seed))
    assert not ((published.values > 0) & (published.values < base)).any()
    assert adds_up(table, published.values)
    assert ((published.low <= table.value) & (table.value <= published.high)).all()
    big = (table.cells.sizes == 1) & ((table.value >= base) | (table.value == 0))
    assert (published.values[big] == table.value[big]).all()
    assert np.array_equal(published.values, SmallCountRounding(base).apply(table, Draws(seed)).values)


def test_only_counts_up_to_the_largest_are_rounded() -> None:
    table = counted([[1, 2, 3], [4, 4, 9], [1, 1, 0]])
    published = SmallCountRounding(5, largest=2).apply(table, Draws(1))
    inner = {tuple(row): v for row, v in zip(table.cells.labels.tolist(), published.values, strict=True)}
    assert inner["a0", "b2"] == 3
    assert inner["a1", "b0"] == 4
    assert inner["a0", "b0"] in (0, 5)
    assert not np.isin(published.values, (1, 2)).any()
    with pytest.raises(ParameterError, match="must be below the base"):
        SmallCountRounding(5, largest=5)


def test_hidden_inner_counts_are_rounded_only_where_a_published_cell_is_small() -> None:
    frame = pd.DataFrame({"a": list("uuuvvvvw"), "b": list("xyzxyzxz")})
    table = Table.of(Microdata(frame), "a + b")  # u 3, v 4, w 1; x 3, y 2, z 3: the inner counts are 1 or 2
    published = SmallCountRounding(3).apply(table, Draws(4))
    assert not np.isin(published.values, (1, 2)).any()
    assert adds_up(table, published.values)


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_near_the_best_there_is(seed: int) -> None:
    """Every choice of 0 or 3 for up to twelve small counts is tried."""
    g = np.random.default_rng(seed)
    table = counted(g.integers(0, 5, (4, 4)))
    small = np.flatnonzero((table.totals > 0) & (table.totals < 3))
    R = table.cells.incidence.toarray()
    best = np.inf
    for pick in itertools.product((0, 3), repeat=len(small)):
        leaves = table.totals.copy()
        leaves[small] = pick
        best = min(best, squared_error(table, R @ leaves))
    got = squared_error(table, SmallCountRounding(3).apply(table, Draws(seed)).values)
    assert best <= got <= 1.25 * best + 1e-9


def slow_change(R: np.ndarray[Any, Any], error: Any, move: Any, square: Any, absolute: Any) -> float:
    def cost(e: Any) -> float:
        return float((square * e**2 + absolute * np.abs(e)).sum())

    return cost(error + R @ move) - cost(error)


def test_the_kernel_stops_where_no_flip_and_no_pair_helps() -> None:
    """The slow twin looks at every single flip and every pair in plain NumPy."""
    g = np.random.default_rng(2)
    for trial in range(10):
        R = (g.random((9, 14)) < 0.4).astype(float)
        R[0] = 1
        rows = sparse.csr_array(R)
        columns = sparse.csc_array(R)
        step, up = g.integers(1, 6, 14).astype(float), g.random(14) < 0.5
        error = g.integers(-9, 9, 9).astype(float)
        start = error - R @ np.where(up, step, 0)
        square, absolute = g.random(9), g.random(9) * (trial % 2)
        limits = np.array([[-np.inf], [np.inf]]) * np.ones(9)
        pointers = [a.astype(np.int64) for a in (columns.indptr, columns.indices, rows.indptr, rows.indices)]
        choose_values(*pointers, g.permutation(14), step, up, error, square, absolute, limits, 100, 1000)
        assert error == pytest.approx(start + R @ np.where(up, step, 0))
        moves = np.diag(np.where(up, -step, step))
        for i in range(14):
            assert slow_change(R, error, moves[i], square, absolute) >= -1e-6
            for j in range(i):
                assert slow_change(R, error, moves[i] + moves[j], square, absolute) >= -1e-6


def test_magnitudes_and_unknown_inner_counts_are_refused() -> None:
    frame = pd.DataFrame({"a": ["u", "v"], "turnover": [1.5, 2.0]})
    with pytest.raises(NotApplicable, match="whole numbers"):
        SmallCountRounding(3).apply(Table.of(Microdata(frame), "a", "turnover"), Draws(1))
    table = counted([[1, 2], [3, 4]])
    with pytest.raises(DataError, match="does not say what they are"):
        SmallCountRounding(3).apply(table.with_(totals=table.totals + 0.5), Draws(1))


@pytest.mark.parametrize(
    ("name", "formula", "count"),
    [
        ("z1", "region * hovedint", "ant"),
        ("z2", "region * hovedint + fylke * hovedint + kostragr * hovedint", "ant"),
        ("z3", "region * hovedint * mnd + fylke * hovedint * mnd2 + kostragr * hovedint * mnd", "ant"),
        ("d2", "region * main_income + county * main_income + k_group * main_income", "freq"),
        ("sosialFiktiv", "region * hovedint * mnd + fylke * hovedint * mnd2 + kostragr * hovedint * mnd", "ant"),
    ],
)
def test_the_shared_frequency_files_lose_their_small_counts_and_little_else(
    name: str, formula: str, count: str
) -> None:
    table = shared(name, formula, count)
    for base in (3, 5):
        published = SmallCountRounding(base).apply(table, Draws(1))
        assert not ((published.values > 0) & (published.values < base)).any()
        error = np.abs(published.values - table.value)
        leaves = published.values[table.cells.of_leaf]
        assert (table.cells.sums(leaves) == published.values).all()
        assert error.max() < 2 * base
        by_leaf = RandomRounding(base, by="leaf").apply(table, Draws(1)).values
        assert error.mean() < np.abs(by_leaf - table.value).mean()


def test_an_attacker_who_adds_up_does_not_undo_small_count_rounding() -> None:
    table = shared("z1", "region * hovedint")
    published = SmallCountRounding(5).apply(table, Draws(2))
    small = np.flatnonzero((table.value > 0) & (table.value < 5))
    low, high = Attacker.of(published).intervals(small)
    assert (low <= table.value[small]).all()
    assert (high >= table.value[small]).all()
    assert (high - low >= 1).all()


def test_cells_with_ids_of_their_own_have_the_shape_that_is_promised() -> None:
    cells: Cells = counted([[1, 2], [3, 4]]).cells
    assert cell_ids(cells).shape == (len(cells),)
    assert cell_ids(cells).dtype == np.int64
