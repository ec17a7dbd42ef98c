"""Audits of published tables against attackers by brute force: enumeration, exact elimination, and SciPy's linear programs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from audited_tables import Fixed, firms, hide, spanned
from scipy import sparse
from scipy.optimize import linprog

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.datasets import business
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.tables import Cells, PublishedTable, RandomRounding, Table
from sfumato.tables.attacker import Attacker
from sfumato.tables.audit_result import Audit
from sfumato.tables.knowledge import KnownBounds
from sfumato.tables.linear_program import LinearProgram
from sfumato.tables.table_audit import audit

FORMULAS = ("a * b", "a * b + c * b", "a * b * c - a:b:c", "a * b * c")


def random_table(seed: int, formula: str, whole: bool = True, most: int = 9) -> Table:
    g = np.random.default_rng(seed)
    n = 24
    frame = pd.DataFrame({
        "a": g.choice(["a1", "a2", "a3"], n), "b": g.choice(["b1", "b2", "b3"], n), "c": g.choice(["c1", "c2"], n),
        "v": g.integers(0, most, n).astype(float) if whole else np.round(g.lognormal(2, 1, n), 2),
    })  # fmt: skip
    return Table.of(Microdata(frame), formula, "v")


def some_hidden(table: Table, seed: int, share: float = 0.35) -> np.ndarray:
    return np.random.default_rng(seed + 1000).random(len(table)) < share


def dense_interval(published: PublishedTable, cell: int) -> tuple[float, float]:
    """The attacker by SciPy, on dense matrices."""
    rows = published.cells.incidence.toarray()
    upper, lower = np.isfinite(published.high), np.isfinite(published.low)
    a = np.vstack([rows[upper], -rows[lower]])
    b = np.concatenate([published.high[upper], -published.low[lower]])
    ends = []
    for sign in (1, -1):
        found = linprog(sign * rows[cell], A_ub=a, b_ub=b, bounds=(0, None), method="highs")
        ends.append(-sign * np.inf if found.fun is None else sign * found.fun)
    return ends[0], ends[1]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("seed", range(4))
def test_intervals_and_disclosed_cells_are_those_of_an_attacker_by_scipy(formula: str, seed: int) -> None:
    table = random_table(seed, formula, whole=False)
    published = hide(table, some_hidden(table, seed))
    found = audit(published, insiders="none")
    for cell in np.flatnonzero(published.suppressed):
        low, high = dense_interval(published, int(cell))
        assert found.low[cell] == pytest.approx(low, abs=1e-5)
        assert found.high[cell] == pytest.approx(high, abs=1e-5)
        assert found.exact[cell] == (high - low < 1e-5)
        assert found.near[cell] == (1e-5 <= high - low <= 0.1 * table.value[cell])


@pytest.mark.parametrize("seed", range(12))
def test_whole_numbers_give_the_cells_that_enumeration_of_all_tables_gives(seed: int) -> None:
    g = np.random.default_rng(seed)
    counts = g.integers(0, 2, (2, 3))
    rows = [{"a": f"a{i}", "b": f"b{j}"} for i in range(2) for j in range(3) for _ in range(counts[i, j])]
    table = Table.of(Microdata(pd.DataFrame([*rows, {"a": "a0", "b": "b0"}])), "a * b", empty=True)
    published = hide(table, g.random(len(table)) < 0.45)
    found = audit(published, insiders="none")
    hidden = published.suppressed
    leaves = np.indices((int(table.value.max()) + 1,) * table.cells.leaves).reshape(table.cells.leaves, -1).T
    possible = leaves @ table.cells.incidence.toarray().T
    possible = possible[(possible[:, ~hidden] == table.value[~hidden]).all(axis=1)]
    assert len(possible)
    unbounded = np.isinf(found.high)
    assert (found.exact[hidden & ~unbounded] == (np.ptp(possible, axis=0) == 0)[hidden & ~unbounded]).all()
    assert found.low[hidden & ~unbounded] == pytest.approx(possible.min(axis=0)[hidden & ~unbounded])
    assert found.high[hidden & ~unbounded] == pytest.approx(possible.max(axis=0)[hidden & ~unbounded])
    assert not found.exact[unbounded].any()


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("seed", range(4))
def test_every_exact_disclosure_comes_with_an_equation_that_holds_for_any_leaves(formula: str, seed: int) -> None:
    table = random_table(seed, formula, whole=False)
    published = hide(table, some_hidden(table, seed, 0.25))
    found = audit(published, insiders="none")
    rows = table.cells.incidence.toarray().astype(int)
    shown = np.flatnonzero(~published.suppressed)
    by_equation = 0
    for cell in np.flatnonzero(found.exact):
        proof = found.explain(int(cell))
        if not spanned([rows[i].tolist() for i in shown], rows[cell].tolist()):
            assert [p.sign for p in proof] == ["≥", "≤"]
            continue
        (equation,) = proof
        by_equation += 1
        assert equation.sign == "="
        assert set(equation.coefficients) <= set(shown.tolist())
        total = sum((times * rows[i] for i, times in equation.coefficients.items()), np.zeros(rows.shape[1]))
        assert (total == rows[cell]).all()  # so it holds whatever the leaves are
        assert equation.bound == pytest.approx(table.value[cell], abs=1e-9 * table.value.max())
        assert equation.words.startswith(f"[{table.cells.name(int(cell))}] = ")
    assert by_equation == sum(
        spanned([rows[i].tolist() for i in shown], rows[c].tolist()) for c in np.flatnonzero(published.suppressed)
    )


@pytest.mark.parametrize("seed", range(1, 7))
def test_bounds_are_proved_by_combinations_that_arithmetic_confirms(seed: int) -> None:
    table = random_table(seed, "a * b", whole=False)
    published = hide(table, some_hidden(table, seed, 0.5))
    found = audit(published, insiders="none")
    known = KnownBounds.of(published)
    g = np.random.default_rng(seed)
    proved = 0
    for cell in np.flatnonzero(published.suppressed & ~found.exact):
        for proof in found.explain(int(cell)):
            end = found.low[cell] if proof.sign == "≥" else found.high[cell]
            assert proof.follows(known) == pytest.approx(end, abs=1e-5)
            # the inequality between cells holds for all leaves that are not negative, not only for the true ones
            for leaves in g.exponential(10.0, (20, table.cells.leaves)):
                values = table.cells.sums(leaves)
                side = sum(float(t) * values[i] for i, t in proof.coefficients.items())
                assert values[cell] >= side - 1e-9 if proof.sign == "≥" else values[cell] <= side + 1e-9
            proved += 1
    assert proved


def test_a_textbook_pattern_has_the_textbook_intervals() -> None:
    """A pattern of four cells in two rows and columns: each is off by at most the smallest step either way."""
    table = firms()
    hidden = np.zeros(len(table), bool)
    for r, s in (("N", "x"), ("N", "z"), ("S", "x"), ("S", "z")):
        hidden[table.cells.find(region=r, sector=s)] = True
    found = audit(hide(table, hidden), insiders="none")
    # N,x = 20 + t, N,z = 10 - t, S,x = 17 - t, S,z = 12 + t, all at least 0: t from -12 to 10
    cell = table.cells.find(region="N", sector="x")
    assert (found.low[cell], found.high[cell]) == (pytest.approx(8), pytest.approx(30))
    assert found.safe
    assert found.counts["protected"] == 4


def close_the_rows(table: Table, primary: np.ndarray) -> np.ndarray:
    """The naive way: in every row and column with one suppression, suppress the smallest other cell; once."""
    hidden = primary.copy()
    labels = table.cells.labels
    inner = (labels != "Total").all(axis=1)
    for dimension in (0, 1):
        for label in dict.fromkeys(labels[inner, dimension]):
            line = np.flatnonzero(inner & (labels[:, dimension] == label))
            if hidden[line].sum() == 1 and len(line) > 1:
                others = line[~hidden[line]]
                hidden[others[np.argmin(table.value[others])]] = True
    return hidden


def test_closing_rows_and_columns_once_is_broken_and_the_audit_says_where_and_how() -> None:
    broken = 0
    for seed in range(8):
        data = business(400, regions=8, sectors=8, hierarchies=False, seed=seed)
        table = Table.of(data, "region * sector", "turnover")
        primary = (table.largest(1).contributors == 1) & (table.cells.sizes == 1)
        published = hide(table, close_the_rows(table, primary))
        found = audit(
            published.with_(status=np.where(primary, 1, np.where(published.suppressed, 2, 0)).astype(np.int8))
        )
        broken += found.counts["exactly disclosed"]
        for proof in found.certificates:
            value = sum(float(t) * table.value[i] for i, t in proof.coefficients.items())
            if proof.sign == "=":
                assert value == pytest.approx(table.value[proof.cell])
    assert broken > 0


def test_a_priori_bounds_and_what_a_reader_knows_besides_narrow_the_intervals() -> None:
    table = firms()
    hidden = np.zeros(len(table), bool)
    square = [table.cells.find(region=r, sector=s) for r in "NS" for s in "xz"]
    hidden[square] = True
    shown = PublishedTable.unprotected(table)
    loose = hide(table, hidden)
    half = loose.with_(
        low=np.where(hidden, 0.5 * shown.low, shown.low), high=np.where(hidden, 1.5 * shown.high, shown.high)
    )
    found = audit(half, insiders="none")
    # t is at most 5 (N,z up from 10 - 5), and at least -5 (N,z at most 15): see the textbook pattern
    assert found.low[square[0]] == pytest.approx(15)
    assert found.high[square[0]] == pytest.approx(25)
    told = audit(loose, known={square[3]: (11.0, 13.0)}, insiders="none")
    assert told.high[square[0]] - told.low[square[0]] == pytest.approx(2)
    assert told.near[square[0]]
    exact = audit(loose, known={square[3]: 12.0}, insiders="none")
    assert exact.exact[square[:3]].all()
    assert not exact.examined[square[3]]
    with pytest.raises(ParameterError, match="there is no cell 99"):
        audit(loose, known={99: 1.0})
    visible = int(np.flatnonzero(~np.isnan(loose.values))[0])
    with pytest.raises(DataError, match="does not agree with what is published of it"):
        audit(loose, known={visible: float(loose.values[visible]) + 1.0})


def test_rounded_tables_disclose_where_the_intervals_close() -> None:
    """Counts rounded to base 3: a total of 0 ± 2 with three cells that are 2 at least cannot be."""
    frame = pd.DataFrame({"a": ["p", "q", "Total"], "v": [3, 3, 9]})
    table = PublishedTable.from_frame(frame, ["a"], "v", within=2)
    found = audit(table, integer=True)
    # p and q are 1..5, the total 7..11: p is at least 2 and the total at most 10
    assert found.low.tolist() == [2, 2, 7]
    assert found.high.tolist() == [5, 5, 10]
    assert found.safe
    tight = PublishedTable.from_frame(frame.assign(v=[3, 3, 12]), ["a"], "v", within=2)
    found = audit(tight, integer=True)
    assert found.exact.all()
    assert found.low.tolist() == [5, 5, 10]
    assert "rounded" not in str(found)


def test_a_table_that_cannot_be_true_is_told_with_the_cells_to_look_at() -> None:
    frame = pd.DataFrame({"a": ["p", "q", "r", "Total"], "v": [3, "x", 4, 5]})
    with pytest.raises(DataError, match=r"cannot all be right: \[a p\], \[a r\], \[the grand total\]"):
        audit(PublishedTable.from_frame(frame, ["a"], "v"))
    assert audit(PublishedTable.from_frame(frame, ["a"], "v", within=1)).counts["not shown"] == 4


def test_wrong_parameters_and_questions_that_need_the_original_are_refused() -> None:
    published = hide(firms(), firms().cells.sizes == 1)
    with pytest.raises(ParameterError, match="tolerance"):
        audit(published, tolerance=-1)
    with pytest.raises(ParameterError, match="insiders must be"):
        audit(published, insiders="all")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="cells must be positions"):
        audit(published, cells=[1000])
    with pytest.raises(NotApplicable, match="a sensitivity rule needs the table"):
        audit(published.with_(original=None), rules=Fixed())
    with pytest.raises(NotApplicable, match="custodian's frame needs the table"):
        audit(published.with_(original=None)).frame(custodian=True)


def test_the_page_the_section_and_the_frame_hold_no_true_value() -> None:
    table = firms()
    table = table.with_(totals=table.totals + 1234567)
    hidden = np.zeros(len(table), bool)
    hidden[table.cells.find(region="N", sector="x")] = True
    found = audit(hide(table, hidden))
    assert not found.safe
    assert found.worst == table.cells.find(region="N", sector="x")
    section = found.section()
    text = str(found) + str(section.sentences) + "".join(str(t) for t in section.content) + str(found.to_dict())
    assert "12345" not in text
    assert section.sentences[0] == "Not safe: 1 cell is exactly disclosed."
    assert found.to_dict()["disclosed"][0]["region"] == "N"
    assert repr(found) == "Audit(Not safe: 1 cell is exactly disclosed.)"
    assert (found.frame().verdict == "exactly disclosed").sum() == 1
    assert isinstance(found, Audit)


def test_only_the_cells_asked_for_are_looked_at() -> None:
    table = firms()
    published = hide(table, table.cells.sizes == 1)
    found = audit(published, cells=[table.cells.find(region="N", sector="x")], insiders="none")
    assert found.examined.sum() == 1
    assert (found.verdicts == "not examined").sum() == 8


@pytest.mark.parametrize("seed", range(25))
def test_whole_numbers_are_exact_for_any_cells_at_all(seed: int) -> None:
    """Sums of leaves drawn at random, where fractions reach more than whole numbers do; against enumeration."""
    g = np.random.default_rng(seed)
    rows = np.unique((g.random((9, 6)) < 0.5).astype(float), axis=0)
    rows = np.vstack([rows[rows.any(axis=1)], np.ones(6)])
    cells = Cells(("cell",), np.array([[f"c{i}"] for i in range(len(rows))], object), sparse.csr_array(rows))
    truth = g.integers(0, 3, 6)
    value = rows @ truth
    gone = g.random(len(rows)) < 0.5
    gone[-1] = False
    published = PublishedTable(
        cells,
        np.where(gone, np.nan, value),
        gone.astype(np.int8),
        np.where(gone, 0.0, value),
        np.where(gone, np.inf, value),
    )
    found = audit(published, integer=True)
    leaves = np.indices((int(value[-1]) + 1,) * 6).reshape(6, -1).T
    possible = leaves @ rows.T
    possible = possible[(possible[:, ~gone] == value[~gone]).all(axis=1)]
    assert found.low == pytest.approx(possible.min(axis=0))
    assert found.high == pytest.approx(possible.max(axis=0))
    assert (found.exact[gone] == (np.ptp(possible, axis=0) == 0)[gone]).all()


def test_ends_that_many_rounded_cells_reach_together_are_those_of_a_program_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few programs with random signs find most ends of a rounded table; all must be what scipy finds one by one."""
    table = Table.of(business(400, regions=5, sectors=4, hierarchies=False), "region * sector * kind", "turnover")
    published = RandomRounding(base=200).protect(table, Draws(1))
    asked = []
    solve = LinearProgram._solve
    monkeypatch.setattr(LinearProgram, "_solve", lambda self: (asked.append(1), solve(self))[1])
    low, high = Attacker.of(published).intervals()
    assert len(asked) < len(table)  # two for each cell would be twice as many
    r = table.cells.incidence.toarray()
    for cell in range(0, len(table), 5):
        for sign, end in ((1, low[cell]), (-1, high[cell])):
            found = linprog(
                sign * r[cell],
                A_ub=np.vstack([r, -r]),
                b_ub=np.concatenate([published.high, -published.low]),
                bounds=(0, None),
            )
            assert end == pytest.approx(sign * found.fun, abs=1e-6 * table.value.max())
    assert (low >= published.low).all()
    assert (high <= published.high).all()
