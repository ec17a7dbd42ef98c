"""Labels that stand for several cells: both ways of spreading them against a dictionary, and in pieces."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_files import amounts, microdata

import sfumato.utility.recoded_values as module
from sfumato.contract import Release
from sfumato.utility import TableDistance, TotalVariation
from sfumato.utility.recoded_values import LabelCells, spread_amounts

CELLS = 4


@st.composite
def tables(draw: Any) -> tuple[list[dict[int, list[int]]], list[tuple[int, ...]], list[tuple[int, ...]], list[int]]:
    """Return what the further labels of each column cover, combinations of cells and of labels, and the amounts of these."""
    k = draw(st.integers(1, 3))
    covers = st.lists(st.lists(st.integers(0, CELLS - 1), min_size=1, max_size=6), max_size=5)
    columns = [dict(enumerate(draw(covers), CELLS)) for _ in range(k)]
    cells = draw(st.lists(st.tuples(*[st.integers(0, CELLS - 1)] * k), min_size=1, max_size=12, unique=True))
    labels = draw(st.lists(st.tuples(*[st.integers(0, CELLS + 6)] * k), min_size=1, max_size=12, unique=True))
    return columns, cells, labels, draw(st.lists(st.integers(1, 5), min_size=len(labels), max_size=len(labels)))


def slow(columns: Any, cells: Any, labels: Any, amounts: Any) -> list[float]:
    found: dict[Any, float] = defaultdict(float)
    for row, amount in zip(labels, amounts, strict=True):
        each = [
            [label] if label < CELLS else of.get(label, [])
            for label, of in zip(row, columns, strict=True)
        ]  # fmt: skip
        combinations = list(itertools.product(*each))
        for cell in combinations:
            found[cell] += amount / len(combinations)
    return [found[cell] for cell in cells]


def coded(covers: dict[int, list[int]], labels: Any) -> tuple[NDArray[np.int32], LabelCells]:
    pairs = sorted({(label, cell) for label, under in covers.items() for cell in under})
    times = [covers[label].count(cell) for label, cell in pairs]
    label, cell = np.array(pairs, np.int64).reshape(-1, 2).T
    return LabelCells.of(np.array(labels, np.int64), CELLS, label, cell, np.array(times, np.int64))


@given(tables())
@settings(deadline=None)
def test_both_ways_agree_with_spreading_label_by_label(table: Any) -> None:
    columns, cells, labels, amounts = table
    codes = [np.array(column, np.int32) for column in zip(*cells, strict=True)]
    pairs = [coded(of, column) for of, column in zip(columns, zip(*labels, strict=True), strict=True)]
    theirs, meaning = [own for own, _ in pairs], [of for _, of in pairs]
    # labels that have become those of their only cell may make two combinations one, as the caller would have found
    rows: dict[Any, float] = defaultdict(float)
    for row, amount in zip(zip(*[own.tolist() for own in theirs], strict=True), amounts, strict=True):
        rows[tuple(min(label, of.sizes.size - 1) for label, of in zip(row, meaning, strict=True))] += amount
    theirs = [np.array(column, np.int32) for column in zip(*rows, strict=True)]
    held = np.array(list(rows.values()), np.float64)
    expected = slow(columns, cells, labels, amounts)
    parts = np.prod([of.sizes[own] for of, own in zip(meaning, theirs, strict=True)], axis=0, dtype=np.float64)
    assert module._collected(codes, theirs, held, meaning) == pytest.approx(expected)
    assert module._taken_apart(codes, theirs, held, meaning, parts) == pytest.approx(expected)
    assert spread_amounts(codes, theirs, held, meaning) == pytest.approx(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROOM", 3)
        assert module._taken_apart(codes, theirs, held, meaning, parts) == pytest.approx(expected)


def test_intervals_of_all_lengths_and_places_are_spread_as_by_hand() -> None:
    g = np.random.default_rng(1)
    x, y = g.integers(0, 30, (2, 400))
    low, high = {}, {}
    for name, values in (("x", x), ("y", y)):
        low[name] = values - g.integers(0, 8, 400)
        high[name] = values + g.integers(1, 8, 400)
    facts = {n: {"scale": "ordered", "integer": True} for n in "xy"}
    before = amounts(facts, x=x, y=y)
    after = microdata(**{n: [f"[{a}, {b})" for a, b in zip(low[n], high[n], strict=True)] for n in "xy"})
    p, q = np.zeros((2, 30, 30))
    there = {name: set(values.tolist()) for name, values in (("x", x), ("y", y))}
    for i in range(400):
        p[x[i], y[i]] += 1 / 400
        box = [[v for v in range(low[n][i], high[n][i]) if v in there[n]] for n in "xy"]
        for a, b in itertools.product(*box):
            q[a, b] += 1 / 400 / len(box[0]) / len(box[1])
    one = np.abs(p.sum(1) - q.sum(1)).sum() / 2, np.abs(p.sum(0) - q.sum(0)).sum() / 2
    # each value has a bin, and what a box spreads over combinations that the original does not have is elsewhere
    both = (np.abs(p - q)[p > 0].sum() + q[p == 0].sum()) / 2
    release = Release.of(before, after)
    assert 1 - TotalVariation(bins=40).score(release).value == pytest.approx(np.mean(one))
    assert 1 - TableDistance(bins=40).score(release).value == pytest.approx(np.mean([*one, both]))
