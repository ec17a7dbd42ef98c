"""Measures of tables of counts, against coalitions tried one by one, scipy's association, and sums by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from published_tables import HideCells, table
from scipy.stats import rankdata
from scipy.stats.contingency import association as scipy_association
from scipy.stats.contingency import expected_freq

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.errors import NotApplicable
from sfumato.schema import TreeHierarchy
from sfumato.tables import (
    RTA,
    AssociationKept,
    GroupDisclosure,
    PublishedTable,
    RandomRounding,
    Table,
    TableEntropy,
)

SMALL = np.array([[3, 0, 0], [2, 1, 0], [1, 1, 1], [0, 4, 2], [0, 1, 0]])


def people(counts: np.ndarray) -> pd.DataFrame:
    rows = [(f"r{i}", f"c{j}") for (i, j), n in np.ndenumerate(counts) for _ in range(int(n))]
    return pd.DataFrame(rows, columns=["region", "illness"])


def counted(counts: np.ndarray, empty: bool = True) -> Table:
    return Table.of(Microdata(people(counts)), "region * illness", empty=empty)


def disclosed_by_hand(members: list[str], coalition: int) -> bool:
    """Return whether some coalition of at most so many members sees all the others in one category."""
    size = min(coalition, len(members) - 1)
    return any(
        len({m for i, m in enumerate(members) if i not in gone}) == 1
        for r in range(size + 1)
        for gone in itertools.combinations(range(len(members)), r)
    )


@pytest.mark.parametrize("coalition", [0, 1, 2, 3])
@pytest.mark.parametrize("empty", [True, False])
def test_a_group_is_disclosed_if_some_coalition_sees_the_others_in_one_category(coalition: int, empty: bool) -> None:
    frame = people(SMALL)
    groups = [list(g.illness) for _, g in frame.groupby("region")] + [list(frame.illness)]
    expected = [disclosed_by_hand(g, coalition) for g in groups]
    score = GroupDisclosure(coalition=coalition).score(PublishedTable.unprotected(counted(SMALL, empty)))
    assert score.value == pytest.approx(np.mean(expected))
    assert score.details["groups"] == len(groups)


def test_a_group_is_not_disclosed_for_sure_if_its_cells_are_hidden_or_rounded() -> None:
    t = counted(SMALL)
    plain = GroupDisclosure(coalition=0).score(PublishedTable.unprotected(t)).details["disclosed"]
    assert plain == 2  # r0 and r4
    square = tuple(t.cells.find(region=r, illness=c) for r in ("r0", "r1") for c in ("c0", "c1"))
    hidden = GroupDisclosure(coalition=0).score(HideCells(hidden=square).protect(t, Draws(1)))
    assert hidden.details["disclosed"] == 1
    alone = HideCells(hidden=square[:1]).protect(t, Draws(1))  # the margin tells it
    assert GroupDisclosure(coalition=0).score(alone).details["disclosed"] == 2
    assert GroupDisclosure(coalition=0).score(RandomRounding(base=5).protect(t, Draws(1))).value == 0


@pytest.mark.parametrize("coalition", [0, 1, 2])
def test_the_dimension_that_is_learned_can_be_chosen(coalition: int) -> None:
    frame = people(SMALL)
    groups = [list(g.region) for _, g in frame.groupby("illness")] + [list(frame.region)]
    score = GroupDisclosure(coalition=coalition, attribute="region").score(PublishedTable.unprotected(counted(SMALL)))
    assert score.value == np.mean([disclosed_by_hand(g, coalition) for g in groups])


def test_groups_are_told_apart_by_the_finest_categories_of_a_hierarchy() -> None:
    tree = TreeHierarchy([["c0", "mild", "*"], ["c1", "mild", "*"], ["c2", "severe", "*"]])
    attributes = (Attribute("region", "key", "unordered"), Attribute("illness", "key", "unordered", hierarchy=tree))  # type: ignore[arg-type]
    nested = Table.of(Microdata(people(SMALL), Schema(attributes)), "region * illness", empty=True)
    assert len(nested) > len(counted(SMALL))
    for coalition in (0, 1, 2):
        measure = GroupDisclosure(coalition=coalition)
        flat = measure.score(PublishedTable.unprotected(counted(SMALL)))
        assert measure.score(PublishedTable.unprotected(nested)).value == flat.value


def test_measures_of_counts_refuse_magnitudes_and_noise() -> None:
    with pytest.raises(NotApplicable, match="is about counts"):
        GroupDisclosure().score(PublishedTable.unprotected(table()))
    with pytest.raises(NotApplicable, match="Did you mean 'illness'"):
        GroupDisclosure(attribute="ilness").score(PublishedTable.unprotected(counted(SMALL)))
    even = PublishedTable.unprotected(counted(np.full((2, 2), 3)))
    with pytest.raises(NotApplicable, match="groups do not differ"):
        AssociationKept().score(even)
    with pytest.raises(NotApplicable, match="all cells are equal"):
        AssociationKept(kind="spearman").score(even)
    margin = Table.of(Microdata(people(SMALL)), "region + illness")
    with pytest.raises(NotApplicable, match="some inner cells are not in the table"):
        TableEntropy().score(PublishedTable.unprotected(margin))


def test_the_entropy_risk_is_that_of_the_formula() -> None:
    """All of 100 persons in one of four cells: zeros 3/4, no entropy; evenly spread: no zeros, all entropy."""
    one = np.array([[100, 0], [0, 0]])
    last = -np.log(1 / (np.e * np.sqrt(100))) / np.sqrt(100)
    frame = pd.DataFrame({"region": ["a", "a", "b", "b"], "illness": ["x", "y"] * 2, "n": one.ravel()})
    t = Table.of(Microdata(frame), "region * illness", count="n")
    assert TableEntropy().score(PublishedTable.unprotected(t)).value == pytest.approx(0.1 * 0.75 + 0.8 + 0.1 * last)
    even = PublishedTable.unprotected(counted(np.full((2, 2), 25)))
    assert TableEntropy().score(even).value == pytest.approx(0.1 * last)
    share = SMALL.ravel()[SMALL.ravel() > 0] / SMALL.sum()
    entropy = -np.sum(share * np.log(share)) / np.log(SMALL.size)
    some = TableEntropy(zeros=0.0, evenness=1.0, smallness=0.0).score(PublishedTable.unprotected(counted(SMALL)))
    assert some.value == pytest.approx(1 - entropy)


@pytest.mark.parametrize("kind", ["chi2", "cramer", "between", "spearman"])
def test_the_change_of_association_is_that_of_scipy_and_of_sums_by_hand(kind: str) -> None:
    counts = np.random.default_rng(3).poisson(8, (5, 4)) + np.arange(20).reshape(5, 4) % 7
    t = counted(counts)
    published = RandomRounding(base=5).protect(t, Draws(2))
    after = np.array(
        [[published.values[t.cells.find(region=f"r{i}", illness=f"c{j}")] for j in range(4)] for i in range(5)]
    )

    def by_hand(x: np.ndarray) -> float:
        expected = expected_freq(x)
        if kind == "chi2":
            return float(((x - expected) ** 2 / expected).sum())
        if kind == "cramer":
            return float(scipy_association(x.astype(int), method="cramer"))
        total, out = x.sum(), 0.0
        for row in x:
            for j, n in enumerate(row):
                out += row.sum() * (n / row.sum() - x[:, j].sum() / total) ** 2
        return out / (len(x) - 1)

    score = AssociationKept(kind=kind).score(published)
    if kind == "spearman":
        assert score.value == pytest.approx(np.corrcoef(rankdata(counts), rankdata(after))[0, 1])
    else:
        was, now = by_hand(counts), by_hand(after)
        assert score.value == pytest.approx(1 - abs(now - was) / was)
        assert score.details["original"] == pytest.approx(was)
    assert AssociationKept(kind=kind).score(PublishedTable.unprotected(t)).value == pytest.approx(1)


def test_no_group_is_disclosed_for_sure_under_random_adjustment() -> None:
    published = RTA().protect(counted(SMALL * 5), Draws(1))
    with pytest.raises(NotApplicable, match="no cell is sure"):
        GroupDisclosure().score(published)
