"""Contributors as attackers of suppression: what they know of leaves in which they are alone, by linear programs of scipy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from test_suppression import assert_safe, firms, microdata
from test_suppression_cases import SEED, grid, hidden_of

from sfumato.errors import DataError, ParameterError
from sfumato.tables import APriori, PPercent, PublishedTable, Status, Table
from sfumato.tables.suppression import proof
from sfumato.tables.suppression.suppression import Suppression


def test_two_who_are_alone_do_not_find_out_each_other() -> None:
    many = [3.0, 3, 3, 3, 3, 3]
    table = grid([[[50.0], [60.0], many, many], [[40.0], [30.0], many, many], [many] * 4])
    published = Suppression(rules="p% 10").protect(table, SEED)
    assert_safe(table, published, PPercent(10))
    hidden = hidden_of(published)
    rows = table.cells.incidence.toarray()
    unsafe = np.flatnonzero(PPercent(10).assess(table).unsafe)
    for known in unsafe:  # whoever is alone there knows it
        if table.cells.sizes[known] > 1:
            continue
        seen = ~hidden
        seen[known] = True
        for other in np.setdiff1d(unsafe, [known]):
            ends = [
                s
                * linprog(
                    s * rows[other], A_eq=rows[seen], b_eq=table.value[seen], bounds=(0, None), method="highs"
                ).fun
                for s in (1, -1)
            ]
            assert ends[1] - ends[0] > 1e-3 * table.value[other]


@pytest.mark.parametrize("dense", [7_000, 0], ids=["dense proofs", "sparse proofs"])
def test_contributors_who_know_their_leaf_exactly_close_nothing_in_random_tables(
    dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "_DENSE", dense)
    for seed in range(8):
        frame = firms(seed, 40, 4, 4, 1, owners=35)
        table = Table.of(microdata(frame, "owner"), "region * sector", "turnover")
        published = Suppression(rules="p% 10").protect(table, SEED)
        hidden = hidden_of(published)
        assert table.contributions is not None
        own = table.contributions.own
        rows = table.cells.incidence.toarray()
        holders = (rows @ (abs(own.toarray()) > 0)).astype(bool)
        alone = {}
        for leaf in range(own.shape[0]):
            if own.indptr[leaf + 1] - own.indptr[leaf] == 1:
                alone.setdefault(int(own.indices[own.indptr[leaf]]), []).append(leaf)
        for person, leaves in alone.items():
            known = np.vstack([rows[~hidden], np.eye(rows.shape[1])[leaves]])
            rank = np.linalg.matrix_rank(known)
            for cell in np.flatnonzero(published.status == Status.PRIMARY):
                if np.flatnonzero(holders[cell]).tolist() == [person]:
                    continue
                assert np.linalg.matrix_rank(np.vstack([known, rows[cell]])) > rank


def attack_alone(
    table: Table, published: PublishedTable, rule: Any, most: int = 40, level: float = 0.1
) -> list[tuple[str, float]]:
    """Return what contributors who are alone in leaves find too closely, by scipy: a part of the levels for others' share."""
    found, hidden = rule.assess(table), hidden_of(published)
    assert table.contributions is not None
    rows, grossed = table.cells.incidence.toarray(), table.contributions.grossed.toarray()
    alone: dict[int, list[int]] = {}
    for leaf in np.flatnonzero((grossed > 0).sum(axis=1) == 1):
        alone.setdefault(int(grossed[leaf].argmax()), []).append(int(leaf))
    bad, tried = [], 0
    for person, leaves in alone.items():
        for cell in np.flatnonzero(found.unsafe):
            value = float(table.value[cell])
            share = 1 - float(rows[cell] @ grossed[:, person]) / value if value else 0.0
            if share < 1e-9 or tried >= most:
                continue
            tried += 1
            known = np.vstack([rows[~hidden], np.eye(rows.shape[1])[leaves]])
            ends = []
            for sign in (1, -1):
                solved = linprog(
                    sign * rows[cell], A_eq=known, b_eq=known @ table.totals, bounds=(0, None), method="highs"
                )
                assert solved.status in (0, 3), solved.message
                ends.append(sign * solved.fun if solved.status == 0 else -sign * np.inf)
            need = level * share * np.array([found.upper[cell], found.lower[cell]])
            if (np.array([ends[1] - value, value - ends[0]]) < need - 1e-6 * value).any():
                bad.append((table.cells.name(int(cell)), share))
    return bad


@pytest.mark.parametrize("seed", range(5))
def test_contributors_who_are_alone_stay_a_tenth_of_the_levels_away(seed: int) -> None:
    frame = firms(seed, 45, 4, 4, 2, owners=30)
    table = Table.of(microdata(frame, "owner"), "region * sector + region * kind", "turnover")
    published = Suppression(rules="p% 10").protect(table, SEED)
    words = [g.says for g in published.guarantees]
    assert any("alone in a leaf" in w and "but for" not in w for w in words)
    assert attack_alone(table, published, PPercent(10), 400) == []


def test_a_dominant_contributor_who_is_alone_in_a_leaf_does_not_learn_the_little_that_others_have() -> None:
    many = [3.0, 3, 3, 3, 3, 3]
    table = grid([[[400.0], [1.0], many, many], [[400.0], [2.0, 2.0], many, many], [many] * 4], {(1, 0, 0): "o000"})
    for method in ("fast", "exact"):
        published = Suppression(rules="p% 10", method=method).protect(table, SEED)
        assert_safe(table, published, PPercent(10))
        assert attack_alone(table, published, PPercent(10), 400) == []
        assert any("alone in a leaf" in g.says and "but for" not in g.says for g in published.guarantees)


def test_what_was_not_looked_at_is_not_promised() -> None:
    frame = firms(9, 60, 4, 4, owners=50)
    table = Table.of(microdata(frame, "owner"), "region * sector", "turnover")
    late = Suppression(rules="p% 10", time_limit=0, bounds=50).protect(table, SEED)
    assert hidden_of(late).all()
    assert not any("alone in a leaf" in g.says for g in late.guarantees)
    largest = table.largest(2)
    given = table.frame(first=largest.values[:, 0], second=largest.values[:, 1], contributors=largest.contributors)
    read = Table.from_cells(
        given, ["region", "sector"], "value", count="records", contributors="contributors", top=["first", "second"]
    )
    published = Suppression(rules="p% 10").protect(read, SEED)
    assert_safe(read, published, PPercent(10))
    assert not any("sum of hidden cells" in g.says for g in published.guarantees)
    assert any("sum of hidden cells" in g.says for g in Suppression(rules="p% 10").protect(table, SEED).guarantees)


@pytest.mark.parametrize("seconds", [0, 600])
def test_a_sum_that_cells_which_must_be_shown_give_away_is_refused_in_time_or_not(seconds: float) -> None:
    many = [3.0, 3, 3, 3, 3, 3]
    values = [[[50.0], [60.0], many, many], [many] * 4, [many] * 4]
    table = grid(values, {(0, 0, 0): "holding", (0, 1, 0): "holding"})
    shown = [("r0", "Total"), ("r0", "s2"), ("r0", "s3")]  # the total less these is the holding's own 110
    wishes = APriori(statuses=dict.fromkeys(shown, "protected"))
    with pytest.raises(DataError, match="cannot be protected while cells that it depends on must be shown") as caught:
        Suppression(rules="p% 10", a_priori=wishes, time_limit=seconds).protect(table, SEED)
    assert str(caught.value).split("hidden: ")[1].count("[region r0") == 1  # one of them is enough


@pytest.mark.parametrize("seed", [27, 28, 29, 30, 31])
def test_no_sum_or_difference_of_cells_that_are_shown_breaks_the_rule_where_tables_cut_across_each_other(
    seed: int,
) -> None:
    g = np.random.default_rng(seed)
    n = int(g.integers(8, 26))
    frame = pd.DataFrame({
        "a": [f"a{i}" for i in g.integers(0, 3, n)], "b": [f"b{i}" for i in g.integers(0, 3, n)],
        "c": [f"c{i}" for i in g.integers(0, 2, n)], "owner": [f"o{i}" for i in g.integers(0, max(3, n // 2), n)],
        "turnover": np.round(g.lognormal(2, 1.2, n), 1),
    })  # fmt: skip
    formula = ("a + b", "a + b + c", "a * c + b", "a + b * c", "a * b + c")[seed % 5]
    table = Table.of(microdata(frame, "owner"), formula, "turnover")
    published = Suppression(rules="p% 10", insider_level=0).protect(table, SEED)
    rows = table.cells.incidence.toarray().astype(int)
    shown = np.unique(rows[~hidden_of(published)], axis=0)[:9]
    signs = np.array(list(itertools.product((-1, 0, 1), repeat=len(shown))))
    sums = np.unique(signs @ shown, axis=0)
    sums = sums[((sums == 0) | (sums == 1)).all(axis=1) & sums.any(axis=1)]
    assert len(sums)
    assert table.contributions is not None
    for given in sums @ table.contributions.own.toarray():  # every set of leaves of which the sum can be worked out
        given = np.sort(given)[::-1]
        assert given[2:].sum() >= 0.1 * given[0] - 1e-9


def test_what_contributors_must_stay_away_is_a_share_of_the_levels() -> None:
    frame = firms(3, 45, 4, 4, 2, owners=30)
    table = Table.of(microdata(frame, "owner"), "region * sector + region * kind", "turnover")
    hidden = []
    for level in (0.0, 0.5, 1.0):
        published = Suppression(rules="p% 10", insider_level=level).protect(table, SEED)
        hidden.append(int(hidden_of(published).sum()))
        words = [g.says for g in published.guarantees if "alone in a leaf" in g.says]
        assert bool(words) == (level > 0)
        if level:
            assert f"than {round(100 * level)} % of its protection levels" in words[0]
            assert attack_alone(table, published, PPercent(10), 400, level) == []
    assert hidden == sorted(hidden)
    with pytest.raises(ParameterError, match="insider_level"):
        Suppression(rules="p% 10", insider_level=1.5)
