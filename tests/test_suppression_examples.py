"""Suppression of the examples that other packages come with, audited by linear programs that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from test_suppression import microdata

from sfumato import Draws
from sfumato.tables import NK, MinimumFrequency, PPercent, PublishedTable, Status, Table
from sfumato.tables.argus import read_argus_hierarchy
from sfumato.tables.suppression.suppression import Suppression

SHARED = Path("/work/shared/data/tables")
FREQUENT = [MinimumFrequency(3), MinimumFrequency(4, zeros=True)]
DOMINANT = [PPercent(10), NK(1, 80), NK(2, 85), MinimumFrequency(3)]
MONTHS = "(region + fylke + kostragr) * hovedint * (mnd + mnd2)"

EXAMPLES: dict[str, tuple[str, str | None, str | None, list[Any]]] = {
    "ssbtools_magnitude1": ("sector4 * geo + sector2 * eu", "value", None, DOMINANT),
    "ssbtools_d2": ("region * main_income + k_group * main_income", None, "freq", FREQUENT),
    "ssbtools_d2s": ("(region + county + size) * main_income", None, "freq", FREQUENT),
    "ssbtools_example1": ("age * geo + age * eu + year", None, "freq", FREQUENT),
    "ssbtools_mun_accidents": ("mun * inj", None, "freq", FREQUENT),
    "ssbtools_z1": ("region * hovedint", None, "ant", FREQUENT),
    "ssbtools_z2": ("(region + fylke + kostragr) * hovedint", None, "ant", FREQUENT),
    "ssbtools_z3": (MONTHS, None, "ant", FREQUENT[:1]),
    "ssbtools_sosialFiktiv": ("(region + fylke) * hovedint", None, "ant", FREQUENT[:1]),
    "ssbtools_paris2025_micro": ("(nation + continent) * age", "income", None, DOMINANT),
    "ssbtools_barcelona2025": ("country * age * sex", "income", None, DOMINANT),
    "sdctable_microdata1": ("region * gender", "val", None, DOMINANT),
    "sdctable_microdata2": ("region * gender * (ecoOld + ecoNew)", "numVal", None, DOMINANT),
}


def assert_wide(table: Table, published: PublishedTable, rule: Any, most: int = 30) -> None:
    """Check the intervals of unsafe cells, of some of them where there are many."""
    found, hidden = rule.assess(table), np.isnan(published.values)
    assert ((published.status == Status.PRIMARY) == found.unsafe).all()
    assert hidden[found.unsafe].all()
    rows = table.cells.incidence
    cells = np.flatnonzero(found.unsafe)
    for cell in cells[:: max(1, len(cells) // most)]:
        ends = []
        for sign in (1, -1):
            solved = linprog(
                sign * rows[[cell]].toarray().ravel(), A_eq=rows[~hidden], b_eq=(rows @ table.totals)[~hidden],
                bounds=(0, None), method="highs",
            )  # fmt: skip
            assert solved.status in (0, 3), solved.message
            ends.append(sign * solved.fun if solved.status == 0 else -sign * np.inf)
        value, slack = table.value[cell], 1e-6 * max(1.0, table.value[cell])
        assert ends[1] >= value + found.upper[cell] - slack
        assert ends[0] <= value - found.lower[cell] + slack
        assert ends[1] - ends[0] >= max(found.width[cell] - slack, 2 * slack)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_examples_of_other_packages_survive_the_audit(name: str) -> None:
    path = SHARED / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    formula, variable, count, rules = EXAMPLES[name]
    frame = pd.read_csv(path)
    frame = frame.astype({c: str for c in frame if c not in (variable, count)})
    who = "company" if "company" in frame else None
    table = Table.of(microdata(frame, who), formula, variable, count=count, empty=count is not None)
    for rule in rules:
        assert_wide(table, Suppression(rules=rule).protect(table, Draws(1)), rule)


def test_tables_of_tau_argus_survive_the_audit() -> None:
    if not (SHARED / "tauargus").exists():
        pytest.skip(f"{SHARED} is not here")
    columns = ["Size", "Region", "Value", "Count", "Shadow", "Cost", "Top1", "Top2", "Status", "Lower", "Upper"]
    cells = pd.read_csv(SHARED / "tauargus" / "pp.tab", sep=";", decimal=",", names=columns)
    regions = read_argus_hierarchy(SHARED / "tauargus" / "region2.hrc", more=["99"])
    read = Table.from_cells(
        cells, {"Size": None, "Region": regions}, "Shadow", count="Count", top=["Top1", "Top2"], decimals=2
    )
    frame = pd.read_csv(
        SHARED / "tauargus" / "microdata.csv",
        sep=";",
        header=None,
        names=["sex", "age", "high", "savings", "weight", "key"],
    )
    made = Table.of(microdata(frame.astype({"sex": str, "age": str, "high": str})), "sex * age * high", "savings")
    for table, rules in ((read, [PPercent(10), MinimumFrequency(10)]), (made, [PPercent(20), MinimumFrequency(400)])):
        for rule in rules:
            assert_wide(table, Suppression(rules=rule).protect(table, Draws(1)), rule)


def cheapest_by_programs(table: Table, rule: Any) -> float:
    """Return the least total of hidden values, by mixed-integer programs with a table for every secret and side.

    Such a table could be the true one: it differs from it in hidden cells alone, and in the secret by its level. Secrets are
    unsafe cells, and unsafe sums that follow from what is shown.
    """
    found, rows = rule.assess(table), table.cells.incidence.toarray()
    levels = {
        v: (u, w)
        for v, u, w in zip(table.value[found.unsafe], found.upper[found.unsafe], found.lower[found.unsafe], strict=True)
    }
    cost = np.maximum(np.abs(table.value), 1e-6 * np.abs(table.value).max())
    divided = list(divisions(table, rows))
    secrets = {tuple(row): levels[v] for row, v in zip(rows[found.unsafe], table.value[found.unsafe], strict=True)}
    while True:
        hidden = cheapest_pattern(rows, table.totals, cost, found.unsafe, secrets)
        left = {
            tuple(row)
            for row in sums_that_follow(rows, hidden, divided)
            if row @ table.totals in levels and not (rows[~hidden] == row).all(axis=1).any()
        }
        if not left - set(secrets):
            return float(cost[hidden].sum())
        secrets |= {row: levels[np.array(row) @ table.totals] for row in left}


def sums_that_follow(rows: np.ndarray, hidden: np.ndarray, divided: list[tuple[int, np.ndarray]]) -> np.ndarray:
    """Return what is left of totals, and what is left when one of these is taken from another, twice over."""
    first = np.unique(
        [rows[total] - rows[parts[~hidden[parts]]].sum(axis=0) for total, parts in divided if not hidden[total]], axis=0
    )
    sums = first[first.any(axis=1)]
    first = sums
    for _ in range(2):
        inside = (first.sum(axis=1)[:, None] == first @ sums.T) & (first.sum(axis=1)[:, None] < sums.sum(axis=1))
        part, whole = np.nonzero(inside)
        sums = np.unique(np.concatenate([sums, sums[whole] - first[part]]), axis=0)
    return sums


def divisions(table: Table, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield totals with their parts by one more variable, or by several."""
    level = [tuple(label != "Total" for label in labels) for labels in table.cells.labels]
    for total in range(len(rows)):
        for one in sorted(set(level)):
            parts = np.array([c for c in range(len(rows)) if level[c] == one and (rows[c] <= rows[total]).all()], int)
            if len(parts) > 1 and (rows[parts].sum(axis=0) == rows[total]).all():
                yield total, parts


def cheapest_pattern(
    rows: np.ndarray, totals: np.ndarray, cost: np.ndarray, unsafe: np.ndarray, secrets: dict[Any, tuple[float, float]]
) -> np.ndarray:
    """Return the cheapest pattern in which every secret can rise and fall by its levels."""
    cells, leaves = rows.shape
    most = float(totals.sum())
    moves = [
        (row, s, level) for row, both in secrets.items() for s, level in zip((1, -1), both, strict=True) if level > 0
    ]
    blocks, low = [], []
    for k, (row, side, level) in enumerate(moves):

        def wide(matrix: np.ndarray, k: int = k) -> sparse.csr_array:
            """Return the rows for the columns of the k-th table."""
            before, after = (sparse.csr_array((len(matrix), n * leaves)) for n in (k, len(moves) - 1 - k))
            return sparse.csr_array(sparse.hstack([before, matrix, after]))

        blocks += [
            sparse.hstack([most * sparse.eye_array(cells), -wide(rows)]),  # a cell rises only if it is hidden
            sparse.hstack([sparse.diags_array(rows @ totals), wide(rows)]),  # and falls, to 0 at most
            sparse.hstack([sparse.csr_array((1, cells)), wide(side * np.array([row]))]),
        ]
        low += [np.zeros(2 * cells), np.array([level])]
    x = milp(
        np.concatenate([cost, np.zeros(len(moves) * leaves)]),
        constraints=LinearConstraint(sparse.vstack(blocks), np.concatenate(low), np.inf),
        integrality=np.repeat([1, 0], [cells, len(moves) * leaves]),
        bounds=Bounds(
            np.concatenate([unsafe.astype(float), np.tile(-totals, len(moves))]),
            np.concatenate([np.ones(cells), np.full(len(moves) * leaves, most)]),
        ),
        options={"mip_rel_gap": 1e-6},
    )
    assert x.status == 0, x.message
    return np.asarray(x.x[:cells] > 0.5)


@pytest.mark.parametrize("rule", FREQUENT, ids=lambda r: r.label())
@pytest.mark.parametrize(("name", "most"), [("ssbtools_z1", 6), ("ssbtools_z2", 29)])
def test_small_tables_hide_as_little_as_possible_by_default(name: str, most: int, rule: Any) -> None:
    if not (path := SHARED / f"{name}.csv").exists():
        pytest.skip(f"{path} is not here")
    formula, _, count, _ = EXAMPLES[name]
    frame = pd.read_csv(path)
    table = Table.of(microdata(frame.astype({c: str for c in frame if c != count})), formula, count=count, empty=True)
    published = Suppression(rules=rule).protect(table, Draws(1))
    hidden = np.isnan(published.values)
    assert hidden.sum() <= most
    cost = np.maximum(np.abs(table.value), 1e-6 * np.abs(table.value).max())
    assert cost[hidden].sum() == pytest.approx(cheapest_by_programs(table, rule), rel=1e-6)
    assert any(g.says == "no safe pattern costs less" for g in published.guarantees)
    assert_wide(table, published, rule)
