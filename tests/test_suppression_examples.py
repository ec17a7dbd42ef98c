"""Suppression of the examples that other packages come with, audited by linear programs that are not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
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
