"""Perturbation tables: those of τ-ARGUS, and those of most entropy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from argus_tables import argus, by_hand

from sfumato.errors import DataError, ParameterError
from sfumato.tables import CellKey, PerturbationTable
from sfumato.tables.cell_key import count_table, magnitude_table
from sfumato.tables.noise_entropy import most_entropy, variances

FILES = ["ptab_freq.txt", "ptab_savings_all.txt", "ptab_savings_smallcells.txt", "tau_testW_ptable.txt"]


@pytest.mark.parametrize("name", FILES)
def test_a_table_of_argus_is_looked_up_as_its_columns_say(name: str) -> None:
    frame, table = pd.read_csv(argus(name), sep=";"), PerturbationTable.read(argus(name))
    keys = np.concatenate(
        [np.linspace(0, 0.999999, 101), frame.iloc[:, 4][frame.iloc[:, 4] < 1] - 1e-9, frame.iloc[:-1, 4] % 1]
    )
    for row in table.rows["all"]:
        expected = [by_hand(frame, row.value, key) for key in keys]
        assert row.at(keys).tolist() == expected
        assert table.between(np.full(len(keys), row.value), keys).tolist() == expected
        assert row.mean == pytest.approx(0, abs=2e-6)
    if table.whole:
        counts = np.arange(25)
        for key in (0.0, 0.3, 0.77, 0.999):
            assert table.at(counts, np.full(25, key)).tolist() == [by_hand(frame, c, key) for c in counts]


def test_values_between_rows_get_a_mixture_of_both(tmp_path: Path) -> None:
    table = magnitude_table(5, 1.0)
    low, high = (next(r for r in table.rows["all"] if r.value == v) for v in (1, 5))
    keys = np.array([0.01, 0.4, 0.93])
    assert table.between(np.full(3, 2.0), keys) == pytest.approx(0.75 * low.at(keys) + 0.25 * high.at(keys))
    assert table.between(np.full(3, 0.5), keys) == pytest.approx(0.5 * low.at(keys))
    assert table.between(np.full(3, 99.0), keys) == pytest.approx(high.at(keys))
    assert (table.between(np.linspace(0, 6, 3), np.zeros(3)) >= -np.linspace(0, 6, 3)).all()
    table.write(tmp_path / "table.txt")
    again = PerturbationTable.read(tmp_path / "table.txt")
    assert np.array_equal(again.between(np.linspace(0, 6, 3), keys), table.between(np.linspace(0, 6, 3), keys))


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("ptab_freq.txt", lambda: count_table(5, 3.0, smallest=2, stay=0.5, monotone=True)),
        ("tau_testW_ptable.txt", lambda: count_table(7, 4.0, smallest=2, monotone=True)),
        ("ptab_savings_all.txt", lambda: magnitude_table(5, 1.0, monotone=True)),
    ],
)
def test_generated_tables_are_those_that_argus_ships(name: str, made: Any) -> None:
    """The files were made by the R package ptable, with another solver; they are rounded to 8 digits or so."""
    theirs, ours = PerturbationTable.read(argus(name)).rows["all"], made().rows["all"]
    assert [r.value for r in theirs] == [r.value for r in ours]
    for a, b in zip(theirs, ours, strict=True):
        assert a.change.tolist() == b.change.tolist()
        assert b.probability == pytest.approx(a.probability, abs=1e-7)


@pytest.mark.parametrize(
    ("maximum", "variance", "smallest", "stay", "monotone"),
    [(5, 2.0, 0, 0.0, False), (5, 3.0, 2, 0.5, True), (3, 1.0, 1, 0.0, False), (10, 3.0, 0, 0.2, True), (1, 0.5, 0, 0.0, False),
     (4, 4.0, 0, 0, False), (10, 1.0, 0, 0.6, False), (10, 2.0, 0, 0.6, True), (10, 3.0, 1, 0.6, False), (3, 1.0, 0, 0.3, False)],
)  # fmt: skip
def test_generated_noise_keeps_what_it_promises(
    maximum: int, variance: float, smallest: int, stay: float, monotone: bool
) -> None:
    table = count_table(maximum, variance, smallest, stay, monotone)
    assert table.whole
    assert len(table.rows["all"]) == maximum + smallest + (smallest > 0) + 1
    for row in table.rows["all"][1:]:
        assert row.probability.sum() == pytest.approx(1, abs=1e-13)
        assert row.mean == pytest.approx(0, abs=1e-12)
        assert row.variance == pytest.approx(variance, abs=1e-12)
        target = row.value + row.change
        assert np.abs(row.change).max() <= maximum
        assert ((target == 0) | (target > smallest)).all()
        if stay and (row.change == 0).any():
            assert row.probability[row.change == 0][0] >= stay - 1e-12
        if monotone:
            for side in (row.change <= 0, row.change >= 0):
                assert (np.diff(row.probability[side]) * (1 if side[0] else -1) >= -1e-12).all()
    last = table.rows["all"][-1]
    assert last.probability == pytest.approx(last.probability[::-1], abs=1e-10)
    assert table.at(np.array([0, 0]), np.array([0.1, 0.9])).tolist() == [0, 0]


def test_no_other_noise_with_these_moments_has_more_entropy() -> None:
    g = np.random.default_rng(0)
    for v, variance, stay, monotone in (
        (np.arange(-3.0, 6), 2.0, 0.0, False), (np.arange(-5.0, 6), 3.0, 0.5, True),
        (np.array([-4.0, -1, 0, 1, 2, 3, 4, 5]), 3.0, 0.3, True),
    ):  # fmt: skip
        p = most_entropy(v, variance, stay, monotone)
        assert p is not None
        moments = np.vstack([np.ones_like(v), v, v**2])
        free = np.linalg.svd(moments)[2][3:]
        best = -(p * np.log(p)).sum()
        tried = 0
        for _ in range(3000):
            q = p + g.normal(size=len(free)) * 10.0 ** g.uniform(-5, -2) @ free
            away = [np.diff(q[v <= 0]).min() >= 0, np.diff(q[v >= 0]).max() <= 0] if monotone else []
            if (q > 0).all() and all(away) and q[v == 0][0] >= stay:
                tried += 1
                assert -(q * np.log(q)).sum() <= best + 1e-12
        assert tried > 20 or monotone


def test_without_inequalities_the_logarithm_is_a_parabola() -> None:
    p = most_entropy(np.arange(-1.0, 6), 2.0)
    assert p is not None
    assert np.diff(np.log(p), 3) == pytest.approx(np.zeros(4), abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: count_table(5, 6.0), "value 1 can have a variance between 0 and 5; got 6"),
        (lambda: count_table(5, 1.0, smallest=2), "value 1 can have a variance between 2 and 5"),
        (lambda: count_table(5, 3.0, stay=0.9), "can stay as it is with a probability of at most 0.4"),
        (lambda: CellKey(maximum=2, variance=3), "variance between 0 and 2"),
        (lambda: CellKey(flex_point=100.0), "together"),
        (lambda: CellKey(top=2, parts=(1, 2)), "never rise"),
        (lambda: CellKey(extra=1), "extra and rules together"),
        (lambda: CellKey(table="nowhere.txt"), "no perturbation table at"),
        (lambda: CellKey(table=3), "must be a perturbation table"),
        (lambda: CellKey(share=0.05, flex_point=10.0, large_share=0.2), "at most share"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_the_range_of_variances_is_that_of_two_point_noise() -> None:
    # −1 with 5/6 and 5 with 1/6; −1 with 2/3 and 2 with 1/3 where counts of 1 and 2 are not published
    assert variances(np.arange(-1.0, 6)) == pytest.approx((0, 5))
    assert variances(np.array([-1.0, 2, 3, 4, 5])) == pytest.approx((2, 5))
    edge = most_entropy(np.array([-1.0, 2, 3, 4, 5]), 2.0)
    assert edge == pytest.approx([2 / 3, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2\n", "first line must be"),
        ("i;j;p;v;p_int_ub\n0;0;one;0;1\n", "line 2 .* five numbers"),
        ("i;j;p;v;p_int_ub\n1;2;1;0;1\n", "not v away"),
        ("i;j;p;v;p_int_ub\n1;0;0.5;-1;0.5\n", "do not add up to 1"),
        ("i;j;p;v;p_int_ub\n1;0;0.5;-1;0.5\n1;2;0.5;1;0.9\n", "running sums"),
        ("i;j;p;v;p_int_ub\n1;-1;1;-2;1\n", "leads below zero"),
        ("i;j;p;v;p_int_ub\n0;1;1;1;1\n", "changes a zero"),
        ("i;j;p;v;p_int_ub;type\n0;0;1;0;1;big\n", "unknown type"),
        ("i;j;p;v;p_int_ub;type\n0;0;1;0;1;even\n", "needs one for odd"),
        ("", "first line"),
        ("i;j;p;v;p_int_ub\n0;0;nan;0;nan\n", "missing or infinite"),
        # a key below 0.000005 would make -1 of a count of 1, though the probability reads 0
        ("i;j;p;v;p_int_ub\n1;-1;0;-2;0.000005\n1;1;1;0;1\n", "leads below zero"),
    ],
)
def test_files_that_are_no_perturbation_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        PerturbationTable.read(tmp_path / "table.txt")


def test_the_generated_tables_can_be_had_and_written(tmp_path: Path) -> None:
    counts = PerturbationTable.for_counts(maximum=4, variance=2, smallest=1)
    for row in counts.rows["all"][1:]:  # promised: mean 0, variance 2, at most 4 away, never 1
        assert row.probability @ row.change == pytest.approx(0, abs=1e-9)
        assert row.probability @ row.change**2 == pytest.approx(2)
        assert np.abs(row.change).max() <= 4
        assert not (row.value + row.change == 1).any()
    counts.write(tmp_path / "made.csv")
    assert PerturbationTable.read(tmp_path / "made.csv").whole
    amounts = PerturbationTable.for_magnitudes(maximum=3, variance=1)
    assert [row.value for row in amounts.rows["all"]] == [0, 1, 3]
    assert set(np.diff(amounts.rows["all"][-1].change)) == {0.5}
    with pytest.raises(ParameterError, match="maximum of cell_key must be"):
        PerturbationTable.for_counts(maximum=0, variance=1)
