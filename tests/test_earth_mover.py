"""Earth mover's distances and counts under wildcards, against linear programming and counting by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from by_class import matches
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from sfumato.kernels.column_pairs import ordered_distances, tree_distances
from sfumato.kernels.matching import wildcard_tables


def slow_distance(p: NDArray[Any], q: NDArray[Any], cost: NDArray[Any]) -> float:
    """The cheapest way to move shares p to shares q, by linear programming."""
    m = len(p)
    moved = np.zeros((2 * m, m * m))
    for i in range(m):
        moved[i, i * m : (i + 1) * m] = 1
        moved[m + i, i::m] = 1
    found = linprog(cost.ravel(), A_eq=moved, b_eq=np.concatenate([p, q]), method="highs")
    assert found.status == 0
    return float(found.fun)


def sparse(tables: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    cells = [[(value, count) for value, count in enumerate(table) if count] for table in tables]
    starts = np.concatenate([[0], np.cumsum([len(c) for c in cells])]).astype(np.int64)
    flat = [cell for row in cells for cell in row]
    return starts, np.array([v for v, _ in flat], np.int32), np.array([c for _, c in flat], np.int64)


def tables(m: int) -> st.SearchStrategy[list[list[int]]]:
    one = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    return st.lists(one, min_size=1, max_size=4)


@given(st.integers(1, 6).flatmap(tables))
@settings(max_examples=60, deadline=None)
def test_the_ordered_distance_is_the_cheapest_way_along_the_line(rows: list[list[int]]) -> None:
    m, whole = len(rows[0]), np.sum(rows, axis=0)
    cost = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / max(m - 1, 1)
    slow = [slow_distance(np.array(row) / sum(row), whole / whole.sum(), cost) for row in rows]
    np.testing.assert_allclose(ordered_distances(*sparse(rows), whole), slow, atol=1e-9)


@st.composite
def trees(draw: st.DrawFn) -> tuple[NDArray[np.int32], list[list[int]]]:
    """A tree over m values, as the node of each on each level below the root, and some tables."""
    m, height = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    levels = [np.arange(m)]
    for _ in range(height - 1):
        parents = np.array(draw(st.lists(st.integers(0, 3), min_size=6, max_size=6)))
        levels.append(parents[levels[-1]])
    return np.array(levels, np.int32), draw(tables(m))


@given(trees())
@settings(max_examples=60, deadline=None)
def test_the_distance_in_a_tree_is_the_cheapest_way_by_the_lowest_common_node(
    case: tuple[NDArray[np.int32], list[list[int]]],
) -> None:
    nodes, rows = case
    height, m = nodes.shape
    cost = np.array(
        [[next((h for h in range(height) if nodes[h, i] == nodes[h, j]), height) for j in range(m)] for i in range(m)]
    )
    whole = np.sum(rows, axis=0)
    slow = [slow_distance(np.array(row) / sum(row), whole / whole.sum(), cost / height) for row in rows]
    np.testing.assert_allclose(tree_distances(*sparse(rows), whole, nodes), slow, atol=1e-9)


def test_a_million_places_lose_no_digits() -> None:
    """A class at the one end of m equally frequent values is (m/2 steps on average) half a line away."""
    m = 1_000_001
    found = ordered_distances(np.array([0, 1]), np.array([0], np.int32), np.array([7]), np.ones(m, np.int64))
    assert found[0] == pytest.approx(0.5, rel=1e-12)


rows_with_gaps = st.lists(
    st.tuples(*(st.sampled_from([None, 0, 1, 2]) for _ in range(3)), st.integers(0, 5)), min_size=1, max_size=25
)


@given(rows_with_gaps, st.sampled_from([1, 7, 2**22]))
@settings(max_examples=100, deadline=None)
def test_values_are_counted_over_all_rows_that_match(rows: list[tuple[Any, ...]], room: int) -> None:
    keys = sorted({r[:3] for r in rows}, key=str)
    own = [Counter(r[3] for r in rows if r[:3] == key) for key in keys]
    slow = [
        sum((other for k, other in zip(keys, own, strict=True) if matches(key, k, "wildcard")), Counter())
        for key in keys
    ]
    codes = np.array([[-1 if v is None else v for v in key] for key in keys], np.int32)
    found: list[Any] = [None] * len(keys)
    for which, starts, values, counts in wildcard_tables(
        codes, *sparse([[c[v] for v in range(6)] for c in own]), 6, room
    ):
        assert len(values) <= room or len(which) == 1
        for i, row in enumerate(which):
            cells = slice(starts[i], starts[i + 1])
            assert found[row] is None
            assert values[cells].tolist() == sorted(values[cells].tolist())
            found[row] = dict(zip(values[cells].tolist(), counts[cells].tolist(), strict=True))
    assert found == [dict(c) for c in slow]
