"""Audits against sensitivity rules, and against contributors who know what is theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from audited_tables import Fixed, firms, hide, spanned
from scipy.optimize import linprog

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.datasets import business
from sfumato.tables import RTA, MinimumFrequency, PPercent, PublishedTable, Status, Suppression, Table
from sfumato.tables.rta.priors import Prior
from sfumato.tables.sensitivity import SensitivityRule
from sfumato.tables.table_audit import audit


def test_with_rules_an_interval_must_reach_as_far_as_their_levels_and_nothing_unsafe_may_be_shown() -> None:
    table = firms()
    hidden = np.zeros(len(table), bool)
    square = [table.cells.find(region=r, sector=s) for r in "NS" for s in "xz"]
    hidden[square] = True
    found = audit(hide(table, hidden), rules=Fixed(), insiders="none")
    # t from -12 to 10: N,x 20 and S,x 17 reach 10 and 8.5 both ways; N,z 10 and S,z 12 too
    assert not found.near.any()
    shown = table.cells.find(region="M", sector="y")
    assert found.exact[shown]
    assert found.counts["exactly disclosed"] == 5
    assert "it is shown, although a rule calls it unsafe" in str(found)
    narrow = hide(table, hidden).with_(high=np.where(hidden, 1.4 * table.value, table.value))
    assert set(np.flatnonzero(audit(narrow, rules=[Fixed()], insiders="none").near)) == set(square)
    custodian = found.frame(custodian=True)
    assert custodian.required_upper[square[0]] == pytest.approx(10)
    assert "value" not in found.frame()


def test_who_is_alone_in_a_cell_works_out_others_exactly_when_linear_programs_say_so() -> None:
    checked = 0
    for seed in range(6):
        g = np.random.default_rng(seed)
        n = 14
        frame = pd.DataFrame({
            "a": g.choice(list("pqr"), n), "b": g.choice(list("xyz"), n), "who": g.integers(0, 9, n), "v": g.integers(1, 50, n),
        })  # fmt: skip
        table = Table.of(Microdata(frame), "a * b", "v", contributor="who")
        published = hide(table, (table.cells.sizes == 1) & (g.random(len(table)) < 0.8))
        found = audit(published, nonnegative=False)
        assert table.contributions is not None
        own = table.contributions.own.toarray()
        leaf_cells = table.cells.of_leaf
        rows = table.cells.incidence.toarray()
        expected = set()
        for who in range(own.shape[1]):
            alone = [i for i in range(own.shape[0]) if (table.contributions.own[[i]].indices == who).all()]
            alone = [i for i in alone if published.suppressed[leaf_cells[i]]]
            if not alone:
                continue
            known = [
                *rows[~published.suppressed].astype(int).tolist(),
                *np.eye(own.shape[0], dtype=int)[alone].tolist(),
            ]
            for cell in np.flatnonzero(published.suppressed & ~found.exact):
                everybody = set(np.flatnonzero((rows[cell][:, None] * own).sum(axis=0)))
                if everybody != {who} and spanned(known, rows[cell].astype(int).tolist()):
                    expected.add((who, int(cell)))
        assert {(i.contributor, i.cell) for i in found.insiders} == expected
        checked += len(expected)
    assert checked


def test_any_contributor_by_bounds_finds_at_least_what_equations_find() -> None:
    frame = pd.DataFrame({
        "a": ["p", "p", "q", "q", "q"], "b": ["x", "y", "x", "y", "y"], "who": [1, 2, 3, 4, 5], "v": [10.0, 20, 30, 39, 1],
    })  # fmt: skip
    table = Table.of(Microdata(frame), "a * b", "v", contributor="who")
    published = hide(table, table.cells.sizes == 1)
    equations = audit(published)
    # everybody who is alone in one of the four knows all four: they differ by one number
    assert {i.cell for i in equations.insiders} == set(np.flatnonzero(published.suppressed))
    assert not equations.safe
    bounds = audit(published, insiders="bounds")
    pairs = {(i.contributor, i.cell) for i in bounds.insiders}
    assert {(i.contributor, i.cell) for i in equations.insiders} <= pairs
    assert "whoever is alone in [a p, b x]" in str(equations)
    assert audit(published, insiders="none").safe


def test_an_adjusted_table_of_ours_passes_its_audit_and_its_cells_without_noise_count_as_shown() -> None:
    table = Table.of(business(1_500), "region * sector", "turnover", size="employees", per_size="ratio")
    published = RTA(prior_cv=0.5, base_cv=0.15).protect(table, Draws(1))
    found = audit(published, Prior.from_sizes(0.5, 0.15))
    assert found.safe, str(found)
    assert found.pairs is not None
    assert found.pairs.holds
    assert (found.verdicts[published.status == Status.SHOWN] == "shown").all()
    assert found.counts["not shown"] == int((published.status == Status.CHANGED).sum()) > 0


FILES = Path(__file__).parents[2] / "shared" / "data" / "tables"


@pytest.mark.parametrize(
    ("name", "formula", "variable", "contributor", "rule"),
    [
        ("ssbtools_magnitude1", "sector4 * geo + sector2 * eu", "value", "company", PPercent(10)),
        ("sdctable_microdata1", "region * gender", "val", None, PPercent(10)),
        ("ssbtools_magnitude1", "sector4 * geo", None, "company", MinimumFrequency(4)),
    ],
)
def test_suppressions_of_examples_from_other_packages_pass_as_a_reader_sees_them(
    name: str, formula: str, variable: str | None, contributor: str | None, rule: SensitivityRule
) -> None:
    path = FILES / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"the shared reference file {path} is not here")
    table = Table.of(Microdata(pd.read_csv(path)), formula, variable, contributor=contributor)
    published = Suppression(rules=rule).protect(table, Draws(1))
    found = audit(published, rules=rule)
    assert found.safe, str(found)
    as_read = PublishedTable.from_frame(published.frame(), table.cells.dimensions, "value", original=table)
    assert audit(as_read, rules=rule).safe
    unprotected = audit(PublishedTable.unprotected(table), rules=rule)
    unsafe = rule.assess(table).unsafe
    assert unsafe.any()
    assert unprotected.counts["exactly disclosed"] == unsafe.sum()


def test_what_is_left_of_a_cell_without_one_inside_it_is_held_against_the_rules() -> None:
    # an area inside the region N: N less the area is one firm's 500, and in no cell of the two linked tables
    rows = [("N", "in", 100.0 + k) for k in range(20)] + [("N", "out", 500.0)]
    frame = pd.DataFrame(rows + [("S", "out", 90.0 + k) for k in range(20)], columns=["region", "area", "v"])
    table = Table.of(Microdata(frame), "region + area", "v")
    assert not PPercent(10).assess(table).unsafe.any()
    value = {cells: table.value[i] for i, cells in enumerate(map(tuple, table.cells.labels.tolist()))}
    assert value["N", "Total"] - value["Total", "in"] == 500
    found = audit(PublishedTable.unprotected(table), rules=PPercent(10))
    assert not found.safe
    assert found.headline == "Not safe: 1 difference of shown cells is unsafe."
    (difference,) = found.differences
    assert sum(times * table.value[cell] for cell, times in difference.coefficients.items()) == 500
    assert "and what is left is in no cell" in str(found)
    published = Suppression(rules=PPercent(10)).protect(table, Draws(1))
    assert audit(published, rules=PPercent(10)).safe
    # the attacker of ten lines: the most and the least that the firm can have, by what is published
    shown = ~published.suppressed
    leaf = np.flatnonzero(table.totals == 500)[0]
    ends = [
        sign * linprog(
            sign * np.eye(table.cells.leaves)[leaf], A_eq=table.cells.incidence.toarray()[shown], b_eq=table.value[shown],
        ).fun
        for sign in (1, -1)
    ]  # fmt: skip
    assert ends[0] <= 500 - 50 <= 500 + 50 <= ends[1]  # p = 10


def test_contributors_are_looked_at_in_a_file_as_in_the_table_that_it_was_written_from(tmp_path: Path) -> None:
    # two cells of a row are hidden, each of one firm: each firm works out the other
    firms = pd.DataFrame({
        "region": ["N", "N", "N", "N", "S", "S", "S", "S"], "sector": ["a", "b", "c", "c", "a", "b", "c", "c"],
        "v": [0.1, 0.2, 0.7, 0.3, 0.6, 0.1, 0.7, 1.1],
    })  # fmt: skip
    table = Table.of(Microdata(firms), "region * sector", "v")
    shown = PublishedTable.unprotected(table)
    gone = np.isin(table.cells.labels[:, 1], ["a", "b"]) & (table.cells.labels[:, 0] != "Total")
    published = shown.with_(
        values=np.where(gone, np.nan, shown.values), status=np.where(gone, Status.PRIMARY, Status.SHOWN).astype(np.int8),
        low=np.where(gone, 0.0, shown.low), high=np.where(gone, np.inf, shown.high),
    )  # fmt: skip
    published.write(tmp_path / "table.csv")
    read = pd.read_csv(tmp_path / "table.csv", dtype=str)
    again = PublishedTable.from_frame(read, ["region", "sector"], "value", original=table)
    found = {(i.contributor, i.cell) for i in audit(published).insiders}
    assert found
    assert {(i.contributor, i.cell) for i in audit(again).insiders} == found


def test_rules_may_be_given_as_texts() -> None:
    frame = pd.DataFrame({"r": list("aabbbcccc"), "v": [90.0, 5, 20, 20, 20, 30, 30, 30, 30]})
    published = Suppression(rules="p% 10").protect(Table.of(Microdata(frame), "r", "v"), Draws(1))
    assert audit(published, rules="p% 10").rules == audit(published, rules=[PPercent(p=10)]).rules
    assert audit(published, rules="p% 10 | minimum 3").rules == ("p% rule, p = 10", "fewer than 3 records")


def test_a_contribution_of_nothing_that_everybody_can_see_is_no_secret() -> None:
    # (a, p) is 175 of one firm and 0 of another, and (a, p, k1) is shown as 0: there is nothing for the first one to find out
    frame = pd.DataFrame({
        "r": ["a"] * 5 + ["b"] * 8, "s": ["p", "p"] + ["q"] * 3 + ["p"] * 4 + ["q"] * 4,
        "k": ["k2", "k1", "k1", "k2", "k1"] + ["k1", "k2"] * 4, "c": [f"f{i}" for i in range(13)],
        "v": [175.0, 0, 60, 50, 55] + [30.0, 40, 35, 45] * 2,
    })  # fmt: skip
    table = Table.of(Microdata(frame), "r * s * k", "v", contributor="c")
    found = audit(Suppression(rules=PPercent(p=10)).protect(table, Draws(1)), rules=PPercent(p=10))
    assert found.insiders == ()
