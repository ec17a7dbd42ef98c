"""l-diversity: records that match on the keys and have too few different confidential values (Machanavajjhala et al. 2007)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import ParameterError, out_of
from sfumato.risk.distributions import ROUNDING, Cells, distributions, keys_beside
from sfumato.risk.keys import RULES, missing_rule, of_original
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
Kind = Literal["distinct", "entropy", "recursive"]


def distinct_diversity(cells: Cells) -> Numbers:
    """Return how many values each class has, shape (r,)."""
    return cells.distinct.astype(np.float64)


def entropy_diversity(cells: Cells) -> Numbers:
    """Return exp(entropy) of each class, shape (r,): as many values as equally frequent ones would be."""
    n = cells.totals
    logs = np.add.reduceat(cells.counts * np.log(cells.counts), cells.starts[:-1])
    return np.exp(np.log(n) - logs / n)


def recursive_diversity(cells: Cells, c: float) -> Numbers:
    """Return the largest l of each class with r_1 < c · (r_l + ... + r_m), shape (r,); 0 if there is none.

    r_1, ..., r_m are the counts of the class in falling order.
    """
    order = np.lexsort((-cells.counts, cells.rows))
    counts, first = cells.counts[order], cells.starts[:-1]
    before = np.cumsum(counts) - counts
    tail = np.repeat(before[first] + cells.totals, cells.distinct) - before
    most = np.repeat(counts[first], cells.distinct)
    holds = most < c * tail * (1 - ROUNDING)  # the bound is strict, and 1.1 * 10 is above 11 by rounding alone
    return np.add.reduceat(holds.astype(np.float64), first)  # tails fall, so the first l hold


class LDiversity(DirectMeasure):
    """The share of released records in classes whose confidential values are not l-diverse.

    A class is what a snooper finds who knows the keys: the records that match. It is l-diverse if it has l different values
    (``kind="distinct"``), if exp(entropy) of its values is at least l (``"entropy"``), or if its most frequent value is less
    than c times as frequent as the l-th, the next and so on together (``"recursive"``). Of several columns each is looked at in
    turn while the snooper knows the others too, unless ``others="ignored"``. Per record: the largest l that holds for its class.

    Examples
    --------
    >>> from sfumato import Release, Snooper
    >>> from sfumato.datasets import five
    >>> people = Release.of(five(), five(), align="rows")
    >>> LDiversity(["zip"], l=2).score(people, Snooper(keys=("sex",))).value
    0.0
    """

    side: ClassVar[Side] = Side.RISK

    over: tuple[str, ...] = param(doc="the confidential columns", columns="many", holds="anything")
    l: float = param(default=2.0, doc="how many values a class must have, in the sense of `kind`", low=1, above=True)  # noqa: E741
    kind: Kind = param(
        default="distinct",
        doc="what diverse means: different values, exp(entropy), or a limit on the most frequent value",
        choices=("distinct", "entropy", "recursive"),
    )
    c: float = param(
        default=3.0, doc="how many times more frequent the most frequent value may be (recursive)", low=0, above=True
    )
    others: Literal["keys", "ignored"] = param(
        default="keys",
        doc="of several columns, whether a snooper knows the others when he wants to learn one",
        choices=("keys", "ignored"),
    )
    missing: Missing = missing_rule()

    def validate(self) -> None:
        """Refuse a number of values that is not whole, and no columns."""
        if not self.over:
            raise ParameterError("over of l_diversity must name at least one column.")
        if self.kind != "entropy" and self.l != int(self.l):
            raise ParameterError(f"l of l_diversity must be a whole number if kind is '{self.kind}'; got {self.l:g}.")

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below {self._asked} of {', '.join(self.over)}"

    @property
    def _asked(self) -> str:
        return f"({self.c:g}, {self.l:g})-diversity" if self.kind == "recursive" else f"{self.l:g}-diversity"

    @property
    def variant(self) -> str:
        """The kind, what is known of other columns, and the rule for missing keys."""
        several = "" if len(self.over) < 2 else f"; the other columns are {self.others}"
        return f"{self.kind}{several}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records are in classes without {self._asked}"

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records whose l is too small; their values are the l of their classes."""
        return float((values < self.l * (1 - ROUNDING)).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the l of each class, for each column."""
        keys = keys_beside(outcome, snooper, self.over)
        found, diversity = [], []
        for column in self.over:
            rest = () if self.others == "ignored" else tuple(c for c in self.over if c != column)
            by, names = (*keys, *rest), (*keys, *self.over)
            found.append(distributions(outcome, snooper, self.missing, column, by, names))
            diversity.append(found[-1].each(self._diversity))
        fine = found[0].fine  # tells records apart by all columns, so that each is counted once
        each = np.fmin.reduce([np.append(v, np.nan)[d.place] for d, v in zip(found, diversity, strict=True)])
        n = int(fine.sizes[~np.isnan(each)].sum())
        below = int(fine.sizes[each < self.l * (1 - ROUNDING)].sum())
        least = float(np.nanmin(each))
        details = {
            "records in violating classes": float(below),
            "smallest l": least,
            "records left out": float(fine.records - n),
        }
        if len(self.over) > 1:
            details |= {f"smallest l of {c}": float(d.min()) for c, d in zip(self.over, diversity, strict=True)}
        return self.result(
            below / n,
            f"{out_of(below, n, ('is', 'are'))} in classes of {', '.join(keys)} without {self._asked}; "
            f"the least diverse class has {_amount(self.kind, least)}",
            details=details,
            find_records=(lambda: np.asarray(of_original(outcome, fine, each))) if outcome.aligned else None,
        )

    def _diversity(self, cells: Cells) -> Numbers:
        if self.kind == "recursive":
            return recursive_diversity(cells, self.c)
        return entropy_diversity(cells) if self.kind == "entropy" else distinct_diversity(cells)


def _amount(kind: Kind, least: float) -> str:
    if kind == "distinct":
        return f"{least:,.0f} different value{'' if least == 1 else 's'}"
    return f"l = {least:.3g}"
