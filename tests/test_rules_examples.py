"""Sensitivity rules on published examples: the files, τ-ARGUS's manual and its own results, GaussSuppression."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rule_cells import Cell, example, table_of

from sfumato import Attribute, Microdata, Schema
from sfumato.tables import NK, Contributions, Largest, MinimumFrequency, PPercent, Table, rules_of


def inside(frame: pd.DataFrame, table: Table, cell: int) -> pd.DataFrame:
    for dimension, label in zip(table.cells.dimensions, table.cells.labels[cell], strict=True):
        if label != "Total":
            frame = frame[frame[dimension].astype(str) == label]
    return frame


def test_a_cell_that_one_of_several_firms_dominates_is_unsafe_and_one_of_equals_is_not() -> None:
    spent = {("A", "steel"): [900, 50, 30, 20], ("A", "wood"): [800, 150, 50], ("B", "steel"): [801, 149, 50],
             ("B", "wood"): [300, 250, 250, 200]}  # fmt: skip
    frame = pd.DataFrame(
        [(*cell, x) for cell, firms in spent.items() for x in firms], columns=["county", "product", "v"]
    )
    table = Table.of(Microdata(frame), "county * product", "v")
    unsafe = NK(1, 80).assess(table).unsafe
    found = {cell: bool(unsafe[table.cells.find(county=cell[0], product=cell[1])]) for cell in spent}
    # one firm has 90 %, exactly 80 % (which is not more than 80 %), 80.1 % and 30 % of its cell
    assert found == {("A", "steel"): True, ("A", "wood"): False, ("B", "steel"): True, ("B", "wood"): False}
    two = NK(2, 94.95).assess(table).unsafe
    assert [bool(two[table.cells.find(county=a, product=b)]) for a, b in spent] == [True, True, True, False]
    assert not unsafe[table.cells.find()]


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


def test_argus_itself_calls_the_same_cells_unsafe_with_the_same_levels() -> None:
    """pp.tab has the status and the protection levels that τ-ARGUS worked out, with p = 15; four cells were edited since."""
    frame = example("tauargus/pp.tab", sep=";", header=None, decimal=",")
    frame = frame[frame[2] == frame[4]].reset_index(drop=True)  # an edited cell no longer is what its shadow says
    rows = pd.DataFrame({"cell": [f"{i:03d}" for i in range(len(frame))], "value": frame[2]})
    schema = Schema((Attribute("cell", scale="unordered"), Attribute("value")))
    table = Table.of(Microdata(rows, schema), "cell - 1", "value")
    two = frame[[6, 7]].to_numpy(float)
    given = Largest(frame[3].to_numpy(float), two, np.ones_like(two), np.full(two.shape, -1))
    found = PPercent(15).assess(table.with_(contributions=None, given=given, counts=frame[3].to_numpy(float)))
    assert found.unsafe.tolist() == (frame[8] == "U").tolist()
    assert found.upper[found.unsafe] == pytest.approx(frame[9][frame[8] == "U"].to_numpy())
    assert found.lower[found.unsafe] == pytest.approx(frame[10][frame[8] == "U"].to_numpy())
    assert found.unsafe.sum() == 5


def test_weights_do_what_the_example_of_gauss_suppression_prints() -> None:
    """SuppressDominantCells(n = c(1, 2), k = c(80, 70)) of the R package GaussSuppression, with both ways of weighting."""
    values = [[100], [90, 10], [80, 20], [70, 30], [50, 25, 25], [40, 20, 20, 20], [25, 25, 25, 25]]
    cells: list[Cell] = [
        [(f"{i}-{j}", x, 2 if j == 0 and i else 1, False) for j, x in enumerate(cell)] for i, cell in enumerate(values)
    ]
    table = table_of(cells, weighted=True)
    assert table.value.tolist() == [100, 190, 180, 170, 150, 140, 125]
    for how, primary in (("unknown", [True] + [False] * 6), ("copies", [True] * 4 + [False] * 3)):
        rule = rules_of([NK(1, 80, weights=how), NK(2, 70, weights=how)])
        assert rule.assess(table).unsafe.tolist() == primary


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

    half = half.with_(contributions=Contributions(half.contributions.own, grossed), totals=np.array([190.0]))
    assert NK(2, 50, weights="copies").assess(half).upper[0] == pytest.approx(2 * (150 + 5) - 190)


def test_the_holdings_of_the_manual() -> None:
    """τ-ARGUS manual, section 2.2: safe for the reporting units, unsafe once the first two are one holding."""
    values = [700, 200, 60, 40, 10]
    units = table_of([[(str(i), x, 1, False) for i, x in enumerate(values)]])
    holdings = table_of([[(str(max(i, 1)), x, 1, False) for i, x in enumerate(values)]])
    assert not PPercent(10).assess(units).unsafe[0]
    assert PPercent(10).assess(holdings).upper[0] == pytest.approx(90 - 50)
