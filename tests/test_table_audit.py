"""Audits of published tables against attackers by brute force: enumeration, exact elimination, and SciPy's linear programs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linprog

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.datasets import business
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.tables import (
    RTA,
    Cells,
    MinimumFrequency,
    PPercent,
    PublishedTable,
    RandomRounding,
    Status,
    Suppression,
    Table,
)
from sfumato.tables.attacker import Attacker
from sfumato.tables.audit import Audit, audit
from sfumato.tables.audit.knowledge import Knowledge
from sfumato.tables.linear_program import LinearProgram
from sfumato.tables.rta import attackers
from sfumato.tables.rta.leaf_noise import leaf_noise
from sfumato.tables.rta.priors import Prior
from sfumato.tables.rule import Sensitivity, SensitivityRule

FORMULAS = ("a * b", "a * b + c * b", "a * b * c - a:b:c", "a * b * c")


def random_table(seed: int, formula: str, whole: bool = True, most: int = 9) -> Table:
    g = np.random.default_rng(seed)
    n = 24
    frame = pd.DataFrame({
        "a": g.choice(["a1", "a2", "a3"], n), "b": g.choice(["b1", "b2", "b3"], n), "c": g.choice(["c1", "c2"], n),
        "v": g.integers(0, most, n).astype(float) if whole else np.round(g.lognormal(2, 1, n), 2),
    })  # fmt: skip
    return Table.of(Microdata(frame), formula, "v")


def hide(table: Table, hidden: np.ndarray, bounds: tuple[float, float] = (0.0, np.inf)) -> PublishedTable:
    shown = PublishedTable.shown(table)
    return shown.with_(
        values=np.where(hidden, np.nan, shown.values),
        status=np.where(hidden, Status.PRIMARY, Status.SHOWN).astype(np.int8),
        low=np.where(hidden, bounds[0], shown.low),
        high=np.where(hidden, bounds[1], shown.high),
    )


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


def spanned(rows: list[list[int]], target: list[int]) -> bool:
    """Whether the target is a combination of the rows, by elimination with fractions."""
    basis: list[list[Fraction]] = []
    for row in [*rows, target]:
        left = [Fraction(x) for x in row]
        for b in basis:
            pivot = next(i for i, x in enumerate(b) if x)
            left = [x - left[pivot] / b[pivot] * y for x, y in zip(left, b, strict=True)]
        if any(left):
            if row is target:
                return False
            basis.append(left)
    return True


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
    known = Knowledge.of(published)
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


def firms() -> Table:
    """Three regions, three sectors, one figure each."""
    values = {"N": (20, 50, 10), "M": (8, 19, 22), "S": (17, 32, 12)}
    rows = [(r, s, v) for r, vs in values.items() for s, v in zip("xyz", vs, strict=True)]
    return Table.of(Microdata(pd.DataFrame(rows, columns=["region", "sector", "v"])), "region * sector", "v")


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
    shown = PublishedTable.shown(table)
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


class Fixed(SensitivityRule):
    """Every finest cell is unsafe, and must be uncertain by half its value."""

    def assess(self, table: Table) -> Sensitivity:
        unsafe = table.cells.sizes == 1
        return Sensitivity.of(unsafe, 0.5 * table.value, 0.5 * table.value, "made for a test")

    def label(self) -> str:
        return "half of the value"


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


def holdings() -> Table:
    g = np.random.default_rng(4)
    n = 30
    frame = pd.DataFrame({
        "a": g.choice(list("pqr"), n), "b": g.choice(list("xy"), n), "who": g.integers(0, 12, n), "v": g.lognormal(3, 1, n),
    })  # fmt: skip
    return Table.of(Microdata(frame), "a * b", "v", contributor="who")


def test_posterior_variances_of_a_suppressed_table_under_a_prior_are_those_of_dense_linear_algebra() -> None:
    table = holdings()
    assert table.contributions is not None
    published = hide(table, (table.cells.sizes == 1) & (table.cells.labels[:, 0] != "r"))
    v = 0.25 * table.contributions.totals**2
    found = audit(published, Prior.from_sizes(0.5, 0.1, sizes=table.contributions.totals), insiders="none")
    assert found.pairs is not None
    # what each contributor gave to each leaf is a fixed share of its total, which is the unknown
    shares = table.contributions.own.toarray() / table.contributions.totals
    seen = (table.cells.incidence.toarray() @ shares)[~published.suppressed]
    for h in range(len(v)):
        best = np.inf
        for g in range(-1, len(v)):
            if g == h:
                continue
            prior = np.diag(np.where(np.arange(len(v)) == g, 0.0, v))
            k = seen @ prior @ seen.T
            best = min(best, v[h] - prior[h] @ seen.T @ np.linalg.pinv(k, rcond=1e-12) @ seen @ prior[h])
        assert found.pairs.variance[h] == pytest.approx(best, rel=1e-5, abs=1e-6 * v[h])
    assert found.safe == found.pairs.holds
    assert "with a prior" in str(found)


def test_noise_that_was_made_for_a_prior_passes_its_audit_and_fails_a_stricter_one() -> None:
    table = holdings()
    assert table.contributions is not None
    sizes = table.contributions.totals
    made_for = Prior.from_sizes(0.5, 0.2, sizes=sizes)
    variance = leaf_noise(table, made_for).variance
    value = table.value
    noisy = PublishedTable.shown(table).with_(
        values=value + 1.0, status=np.full(len(table), Status.CHANGED, np.int8), low=np.full(len(table), -np.inf),
        high=np.full(len(table), np.inf), variance=table.cells.sums(variance), leaf_variance=variance,
    )  # fmt: skip
    kept = audit(noisy, made_for)
    assert kept.pairs is not None
    assert kept.pairs.ratio.min() == pytest.approx(1, abs=1e-3) or kept.pairs.ratio.min() > 1
    assert kept.safe
    broken = audit(noisy, Prior.from_sizes(0.5, 0.4, sizes=sizes))
    assert not broken.safe
    assert broken.headline == "Not safe: some contributors learn more of others than they may."
    assert broken.to_dict()["posterior"]["known better than allowed"] == len(
        broken.pairs.failing if broken.pairs else ()
    )
    assert any("needs a prior" in note for note in audit(noisy).notes)
    assert "for want of a prior" in audit(noisy).headline
    read = audit(noisy.with_(leaf_variance=None), made_for)  # the variances of leaves are read off the published ones
    assert read.pairs is not None
    assert read.pairs.ratio == pytest.approx(kept.pairs.ratio)


def test_a_rounded_table_is_audited_under_a_prior_too() -> None:
    table = holdings()
    assert table.contributions is not None
    base = 5.0
    rounded = base * np.round(table.value / base)
    published = PublishedTable.shown(table).with_(
        values=rounded, status=np.full(len(table), Status.CHANGED, np.int8), low=rounded - base, high=rounded + base
    )
    found = audit(published, Prior.from_sizes(0.5, 0.01, sizes=table.contributions.totals), insiders="none")
    assert found.pairs is not None
    assert (found.pairs.variance <= 0.25 * table.contributions.totals**2 + 1e-9).all()
    assert "posterior variance is about" in str(found)
    # the sizes that are given count, not the table's: known to within nothing before, known to within nothing after
    little = audit(published, Prior.from_sizes(0.5, 0.01, sizes=table.contributions.totals * 1e-3), insiders="none")
    assert little.pairs is not None
    assert (little.pairs.variance <= 0.25e-6 * table.contributions.totals**2 + 1e-9).all()
    given = audit(published, Prior.given(0.25 * table.contributions.totals**2, 1.0), insiders="none")
    assert given.pairs is not None
    assert given.pairs.variance == pytest.approx(found.pairs.variance)
    together = Prior.from_sizes(0.5, 0.01, controllers=np.zeros(len(table.contributions), int))
    with pytest.raises(NotApplicable, match="attack one by one"):
        audit(published, together)


def test_an_audit_by_bounds_says_at_least_and_that_normal_priors_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    table = holdings()
    noisy = RTA().protect(table, Draws(1))
    prior = Prior.from_sizes(0.5, 0.15)
    exact = str(audit(noisy, prior))
    assert "posterior variance is 1" in exact
    assert "normal priors" in exact
    monkeypatch.setattr(attackers, "DENSE", 1)
    bounded = audit(noisy, prior)
    assert bounded.pairs is not None
    assert not bounded.pairs.exact
    assert "posterior variance is at least" in str(bounded)
    strict = audit(noisy, Prior.from_sizes(0.5, 0.4))
    assert strict.headline.endswith("some contributors perhaps learn more of others than they may.")
    assert "may be known better than is allowed" in str(strict)
    assert strict.to_dict()["posterior"]["exact"] is False


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
    unprotected = audit(PublishedTable.shown(table), rules=rule)
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
    found = audit(PublishedTable.shown(table), rules=PPercent(10))
    assert not found.safe
    assert found.headline == "Not safe: 1 difference of shown cells is unsafe."
    pair = found.differences[0]
    assert table.value[pair[0]] - table.value[pair[1]] == 500
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
    shown = PublishedTable.shown(table)
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
