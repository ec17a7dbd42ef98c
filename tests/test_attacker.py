"""The attacker of a published table, against scipy's linear programs and against all tables of whole numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from sfumato.errors import DataError, ParameterError
from sfumato.kernels.table_algebra import independent_rows, null_space, rows_to_hide
from sfumato.tables import PublishedTable
from sfumato.tables.attacker import Attacker
from sfumato.tables.cells import Cells
from sfumato.tables.table import Table


def cells_of(incidence: np.ndarray) -> Cells:
    labels = np.empty((len(incidence), 1), object)
    labels[:, 0] = [f"c{i}" for i in range(len(incidence))]
    return Cells(("cell",), labels, sparse.csr_array(incidence.astype(float)))


def slow_interval(
    incidence: np.ndarray, low: np.ndarray, high: np.ndarray, bounds: list[tuple[float | None, float | None]], cell: int
) -> tuple[float, float]:
    """Return the interval by two linear programs of scipy, over all leaves and cells."""
    above, below = np.isfinite(high), np.isfinite(low)
    matrix = np.vstack([incidence[above], -incidence[below]])
    limits = np.concatenate([high[above], -low[below]])
    ends = []
    for sign in (1, -1):
        solved = linprog(sign * incidence[cell], A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        assert solved.status in (0, 3), solved.message
        ends.append(sign * solved.fun if solved.status == 0 else -sign * np.inf)
    return ends[0], ends[1]


def case(seed: int, kind: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    leaves, cells = int(g.integers(2, 9)), int(g.integers(2, 12))
    incidence = (g.random((cells, leaves)) < 0.45).astype(float)
    incidence[0] = 1
    x = np.round(g.lognormal(2, 2, leaves), 2) if kind % 2 else g.integers(0, 9, leaves).astype(float)
    value = incidence @ x
    hidden = g.random(cells) < 0.5
    away = [np.inf, 0.3 * value, g.integers(0, 5, cells)][kind % 3] * np.ones(cells)
    away = np.where(hidden, away, 0.0)
    return incidence, x, value, value - away, value + away


@pytest.mark.parametrize("kind", range(6))
def test_intervals_are_those_of_plain_linear_programs(kind: int) -> None:
    for seed in range(40):
        incidence, x, value, low, high = case(seed, kind)
        floor = 0.0 if seed % 2 else -np.inf
        near = x if seed % 3 == 0 else None
        found = Attacker(cells_of(incidence), low, high, floor, near=near).intervals()
        bounds = [(0.0 if seed % 2 else None, None)] * len(x)
        for cell in range(len(value)):
            wanted = slow_interval(incidence, low, high, bounds, cell)
            assert (found[0][cell], found[1][cell]) == pytest.approx(wanted, rel=1e-7, abs=1e-7 * max(value.max(), 1))


def test_bounds_of_leaves_count() -> None:
    for seed in range(40):
        incidence, x, value, low, high = case(seed, 0)
        g = np.random.default_rng(seed)
        floor, roof = x * g.random(len(x)), x * (1 + g.random(len(x)))
        low, high = Attacker(cells_of(incidence), low, high, floor, roof).intervals()
        again = case(seed, 0)
        for cell in range(len(value)):
            wanted = slow_interval(incidence, again[3], again[4], list(zip(floor, roof, strict=True)), cell)
            assert (low[cell], high[cell]) == pytest.approx(wanted, abs=1e-6)


def test_every_table_of_whole_numbers_is_within_and_those_of_two_dimensions_reach_the_ends() -> None:
    x = np.array([2, 1, 0, 3, 1, 2])  # two rows of three: all sums are shown, no part is
    incidence = np.vstack([np.eye(6), np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))])
    value = incidence @ x
    hidden = np.arange(len(value)) < 6
    low, high = Attacker(cells_of(incidence), np.where(hidden, 0, value), np.where(hidden, np.inf, value)).intervals()
    possible = [t for t in itertools.product(range(6), repeat=6) if (incidence[6:] @ np.array(t) == value[6:]).all()]
    assert low[:6] == pytest.approx(np.min(possible, axis=0))
    assert high[:6] == pytest.approx(np.max(possible, axis=0))


def test_large_values_keep_small_intervals_exact() -> None:
    x = np.array([1e9, 3.0, 2.0, 5e8])
    incidence = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]], float)
    value = incidence @ x
    hidden = np.array([False] * 4 + [True] * 2)
    for near in (x, None):
        attacker = Attacker(cells_of(incidence), np.where(hidden, 0, value), np.where(hidden, np.inf, value), near=near)
        low, high = attacker.interval(
            4
        )  # what moves: one diagonal up, the other down, until 2 or 500,000,000 is used up
        assert low == pytest.approx(3 - 2, rel=1e-6)
        assert high == pytest.approx(3 + 5e8)


def test_what_contradicts_itself_is_refused() -> None:
    incidence = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
    with pytest.raises(DataError, match="no table satisfies what is published"):
        Attacker(cells_of(incidence), np.array([5.0, 2, 2, 0]), np.array([5.0, 2, 2, 9]))
    rows = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], float)
    given_ = np.array([5.0, 5, 4, 6, 11])
    with pytest.raises(DataError, match="no table satisfies what is published"):
        Attacker(cells_of(rows), given_, given_).intervals()
    with pytest.raises(ParameterError, match="a number for each of the 4 cells"):
        Attacker(cells_of(incidence), np.zeros(2), np.zeros(2))
    with pytest.raises(ParameterError, match="use infinity"):
        Attacker(cells_of(incidence), np.full(4, np.nan), np.ones(4))


def test_a_published_table_is_read_as_it_is() -> None:
    incidence = np.array([[1, 1], [1, 0], [0, 1]], float)
    table = Table(cells_of(incidence), np.array([3.0, 4.0]), np.ones(2))
    published = PublishedTable.unprotected(table)
    assert Attacker.of(published).interval(1) == (3.0, 3.0)
    hidden = published.with_(low=np.array([7.0, 0, 0]), high=np.array([7.0, np.inf, np.inf]))
    assert Attacker.of(hidden).interval(1) == (0.0, 7.0)
    anything = hidden.with_(original=table.with_(nonnegative=False), low=np.array([7.0, -np.inf, -np.inf]))
    assert Attacker.of(anything).interval(1) == (-np.inf, np.inf)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_elimination_is_that_of_dense_linear_algebra(seed: int) -> None:
    g = np.random.default_rng(seed)
    rows, width = int(g.integers(1, 9)), int(g.integers(1, 8))
    matrix = (g.random((rows, width)) < 0.5).astype(float)
    m = sparse.csr_array(matrix)
    start, columns = m.indptr.astype(np.int64), m.indices.astype(np.int64)
    basis = null_space(start, columns, width)
    assert basis.shape[1] == width - np.linalg.matrix_rank(matrix)
    assert np.linalg.matrix_rank(basis) == basis.shape[1]
    assert matrix @ basis == pytest.approx(0)
    kept = independent_rows(start, columns, width)
    ranks = [np.linalg.matrix_rank(matrix[:i]) if i else 0 for i in range(rows + 1)]
    assert kept.tolist() == [b > a for a, b in itertools.pairwise(ranks)]
    secret = np.array([int(g.integers(0, rows))])
    order = np.setdiff1d(np.arange(rows), secret)
    hide = rows_to_hide(start, columns, width, order, 0, secret)
    known = np.zeros((0, width))
    for row in order:  # the same, with ranks
        more = np.vstack([known, matrix[row]])
        same = np.linalg.matrix_rank(more) == (np.linalg.matrix_rank(known) if len(known) else 0)
        follows = np.linalg.matrix_rank(np.vstack([more, matrix[secret]])) == np.linalg.matrix_rank(more)
        assert hide[row] == (follows and not same and matrix[secret].any())
        if not hide[row]:
            known = more
