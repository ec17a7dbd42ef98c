"""Measures of tables of counts: who learns an attribute from zeros, how even a table is, and what is left of association."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, count_of, refuse_unknown
from sfumato.lazy import stats
from sfumato.tables.cells import TOTAL, Cells
from sfumato.tables.measures import TableMeasure
from sfumato.tables.published import PublishedTable
from sfumato.tables.reader import attacker_intervals, noise_variance, reader_estimate
from sfumato.tables.table import Table
from sfumato.typing import Numbers, Whole


def spanned_dimension() -> Any:
    """Declare the parameter `attribute`: the dimension that somebody wants to learn about the people of a group."""
    return param(
        default=None, doc="dimension that is learned of a group, or compared between groups; the last one if none",
        columns="one", holds="categories",
    )  # fmt: skip


class FrequencyMeasure(TableMeasure, abstract=True):
    """A measure of a table of counts."""

    def counts(self, outcome: PublishedTable) -> Table:
        """Return the original table; refuse one of magnitudes."""
        table = outcome.source(self.label())
        if not table.is_count:
            raise NotApplicable(f"{self.label()} is about counts, but this is a table of '{table.variable}'.")
        return table


def _place(cells: Cells, attribute: str | None) -> int:
    name = cells.dimensions[-1] if attribute is None else attribute
    refuse_unknown("dimension", cells.dimensions, "the table", name, error=NotApplicable)
    return cells.dimensions.index(name)


def groups_by(cells: Cells, place: int) -> list[Whole]:
    """Return the cells of each group: those with the same labels but for one dimension, by its finest categories.

    Groups of every level of the other dimensions are among them, the whole population too.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    for cell, labels in enumerate(cells.labels.tolist()):
        if labels[place] != TOTAL:
            found.setdefault((*labels[:place], *labels[place + 1 :]), []).append(cell)
    groups = []
    for members in found.values():
        taken = np.zeros(cells.leaves, bool)
        kept = []
        for cell in sorted(members, key=lambda c: (cells.sizes[c], c)):
            leaves = cells.incidence.indices[cells.incidence.indptr[cell] : cells.incidence.indptr[cell + 1]]
            if not taken[leaves].any():  # a wider category holds leaves of finer ones
                taken[leaves] = True
                kept.append(cell)
        groups.append(np.array(kept, np.int64))
    return groups


class GroupDisclosure(FrequencyMeasure):
    """Share of groups of which a coalition learns an attribute: all others of the group are surely in one category.

    A group is a cell of the other dimensions, at any level. A coalition of k of its members, who know their own categories and
    each other's, learns that of the rest where at most k members are in other categories. k = 0 is an outsider who sees a row
    with one category alone; k = 1 is a member who is alone in another one. What is sure follows from all published cells
    (Shlomo 2007; Eurostat, Handbook on Statistical Disclosure Control, 2010, section 5.2).
    """

    side: ClassVar[Side] = Side.RISK

    coalition: int = param(default=1, doc="members of a group who put together what they know", low=0, integer=True)
    attribute: str | None = spanned_dimension()

    def assess(self, outcome: PublishedTable) -> Score:
        """Count the groups; refuse where random adjustment leaves nothing sure."""
        table = self.counts(outcome)
        if noise_variance(outcome) is not None:
            raise NotApplicable("under a random adjustment no cell is sure, so that no group is disclosed for sure.")
        place = _place(outcome.cells, self.attribute)
        low, high = attacker_intervals(outcome)
        groups = [g for g in groups_by(outcome.cells, place) if table.value[g].sum() > 0]
        if not groups:
            raise NotApplicable(f"no cell of the table is broken down by '{outcome.cells.dimensions[place]}'.")
        open_ = [g for g in groups if _learned(np.ceil(low[g] - 1e-6), np.floor(high[g] + 1e-6), self.coalition)]
        largest = max((float(table.value[g].max()) for g in open_), default=0.0)
        share = len(open_) / len(groups)
        told = f"{count_of(len(open_), len(groups), ('is', 'are'), 'group')} disclosed to {self._who}"
        details = {"groups": float(len(groups)), "disclosed": float(len(open_)), "persons of the largest": largest}
        return self.result(share, told, details=details)

    @property
    def _who(self) -> str:
        return {0: "outsiders", 1: "a member"}.get(self.coalition, f"a coalition of {self.coalition} members")

    @override
    def words(self, value: float) -> str:
        return f"{digits(100 * value)} % of the groups are disclosed to {self._who}"

    @override
    def label(self) -> str:
        return "group attribute disclosure"

    @override
    @property
    def variant(self) -> str:
        return f"coalitions of {self.coalition}"


def _learned(low: Numbers, high: Numbers, coalition: int) -> bool:
    """Return whether all but `coalition` members are surely in one category, and somebody is."""
    others = (
        high.sum() - high if np.isfinite(high).all() else np.array([np.delete(high, i).sum() for i in range(len(high))])
    )
    return bool(((others <= coalition) & (low >= 1)).any())


def inner_counts(outcome: PublishedTable, attribute: str | None) -> tuple[Numbers, Numbers]:
    """Return the inner cells of the original and of the published table, groups × categories; 0 where no cell stands.

    Cells that are not published are estimated as a reader would.
    """
    cells = outcome.cells
    place, inner = _place(cells, attribute), cells.of_leaf
    if (inner < 0).any():
        raise NotApplicable("some inner cells are not in the table: make it with all dimensions crossed.")
    labels = cells.labels[inner].tolist()
    rows: dict[tuple[str, ...], int] = {}
    columns: dict[str, int] = {}
    at = [
        (rows.setdefault((*x[:place], *x[place + 1 :]), len(rows)), columns.setdefault(x[place], len(columns)))
        for x in labels
    ]
    before, after = np.zeros((len(rows), len(columns))), np.zeros((len(rows), len(columns)))
    where = tuple(np.array(at).T)
    before[where] = outcome.source("the measure").value[inner]
    after[where] = np.maximum(reader_estimate(outcome)[inner], 0.0)
    return before, after


class TableEntropy(FrequencyMeasure):
    """Risk of a table of a population's counts from its zeros, its entropy and its size (Antal, Shlomo and Elliot 2014).

    R = w₁ |A|/K + w₂ (1 − H/log K) − w₃ (1/√N) log(1/(e√N)) for K cells, of which A are zero, N persons, and the entropy H of
    their shares. All in one cell is the highest risk, evenly spread the lowest. It is that of the published counts; the paper's
    second measure, from the entropy of the original given the published table, is not built.
    """

    side: ClassVar[Side] = Side.RISK
    title: ClassVar[str] = "entropy risk of the table"

    zeros: float = param(default=0.1, doc="weight w₁ of the share of zero cells", low=0, high=1)
    evenness: float = param(default=0.8, doc="weight w₂ of how uneven the counts are", low=0, high=1)
    smallness: float = param(default=0.1, doc="weight w₃ of how few persons there are", low=0, high=1)

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the risk, and that of the original."""
        self.counts(outcome)
        before, after = inner_counts(outcome, None)
        parts = self._parts(after)
        weights = np.array([self.zeros, self.evenness, self.smallness])
        value, was = float(weights @ parts), float(weights @ self._parts(before))
        details = {"share of zeros": parts[0], "unevenness": parts[1], "size term": parts[2], "of the original": was}
        return self.result(value, f"{self.words(value)}; that of the original is {digits(was)}", details=details)

    @staticmethod
    def _parts(counts: Numbers) -> Numbers:
        flat = counts.ravel()
        n, k = flat.sum(), len(flat)
        if n <= 0 or k < 2:
            raise NotApplicable("a table without persons, or of one cell, has no entropy.")
        share = flat[flat > 0] / n
        entropy = float(-(share * np.log(share)).sum())
        return np.array([(flat == 0).mean(), 1 - entropy / np.log(k), (np.log(n) / 2 + 1) / np.sqrt(n)])

    @override
    def words(self, value: float) -> str:
        return f"zeros, unevenness and size make a risk of {digits(value)}"


class AssociationKept(FrequencyMeasure):
    """One minus the change of the association between groups and an attribute; 1 where nothing changed.

    chi2: the relative change of the χ² statistic; cramer: of Cramér's V; between: of the variance between groups of the shares
    of each category, Σ n(p − p̄)²/(R − 1), added up over categories; spearman: the rank correlation of the published cells with
    the original ones itself (Shlomo and Young 2006).
    """

    side: ClassVar[Side] = Side.UTILITY

    kind: str = param(
        default="cramer", doc="what is compared: chi2, cramer, between, or spearman",
        choices=("cramer", "chi2", "between", "spearman"),
    )  # fmt: skip
    attribute: str | None = spanned_dimension()

    def assess(self, outcome: PublishedTable) -> Score:
        """Compare the two tables."""
        self.counts(outcome)
        before, after = inner_counts(outcome, self.attribute)
        if self.kind == "spearman":
            if np.ptp(before) == 0 or np.ptp(after) == 0:
                raise NotApplicable("all cells are equal, so that their ranks say nothing.")
            value = float(stats.spearmanr(before.ravel(), after.ravel()).statistic)
            return self.result(value, self.words(value))
        was, now = (association(x, self.kind) for x in (before, after))
        if was <= 1e-12:
            raise NotApplicable(
                "groups do not differ in the original, so that no change of their association can be a share."
            )
        value = 1 - abs(now - was) / was
        words = f"{_NAMES[self.kind]} is {digits(now)} in the published table, {digits(was)} in the original"
        return self.result(value, words, details={"original": was, "published": now})

    @override
    def words(self, value: float) -> str:
        if self.kind == "spearman":
            return f"the rank correlation of published with original cells is {digits(value)}"
        return f"{_NAMES[self.kind]} changed by {digits(100 * (1 - value))} %"

    @override
    def label(self) -> str:
        return "rank correlation of cells" if self.kind == "spearman" else f"{_NAMES[self.kind]} kept"


_NAMES = {"chi2": "χ²", "cramer": "Cramér's V", "between": "variance between groups"}


def association(counts: Numbers, kind: str) -> float:
    """Return a measure of association of a table, groups × categories; empty groups and categories are left out.

    >>> association(np.array([[10.0, 0.0], [0.0, 10.0]]), "cramer")
    1.0
    """
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape) < 2:
        return 0.0
    n, row, column = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    if kind == "between":
        share = counts / row[:, None]
        return float((row[:, None] * (share - column / n) ** 2).sum() / (len(row) - 1))
    expected = np.outer(row, column) / n
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    return chi2 if kind == "chi2" else float(np.sqrt(chi2 / n / (min(counts.shape) - 1)))
