"""Measures of published tables: what an attacker learns from one, and what a reader keeps."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from sfumato.contract import Estimated, Score, Side, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, ParameterError, count_of
from sfumato.tables.published import PublishedTable
from sfumato.tables.reader import (
    ContributorPosterior,
    attacker_intervals,
    contributor_posterior,
    interval_variance,
    noise_variance,
    reader_estimate,
    reader_variance,
)
from sfumato.tables.rta import priors
from sfumato.tables.rules import rules_of
from sfumato.tables.sensitivity import SensitivityRule
from sfumato.typing import Numbers, Whole


class TableMeasure(Estimated, family="table measure", abstract=True):
    """A number about a published table: what an attacker learns from it, or what a reader keeps."""

    @abstractmethod
    def assess(self, outcome: PublishedTable) -> Score:
        """Return the score of one published table; see `result`. Raise NotApplicable where the measure does not apply."""

    @abstractmethod
    def words(self, value: float) -> str:
        """Return what a value means, in natural units."""

    def observe(self, outcome: PublishedTable) -> Numbers:
        """Return the observation of one published table, shape (1,)."""
        return np.array([self.assess(outcome).value])

    def score(self, outcome: PublishedTable) -> Score:
        """Measure one published table."""
        return self.assess(outcome)

    def result(self, value: float, words: str, **facts: Any) -> Score:
        """Return a score of this measure; `facts` are the other fields of a Score."""
        return Score(self.label(), self.side, float(value), words, variant=self.variant, **facts)

    def to_score(self, observations: Numbers) -> Score:
        """Return the score of replicated observations, shape (replications, k)."""
        value, interval = self.estimate(observations)
        return self.result(value, self.words(value), interval=interval)


class UnsafeCells(TableMeasure, abstract=True):
    """A risk of the cells that sensitivity rules call unsafe."""

    side: ClassVar[Side] = Side.RISK

    rules: SensitivityRule = param(
        doc="the sensitivity rules that say which cells are unsafe, and by how much they must be hidden"
    )

    @override
    def validate(self) -> None:
        object.__setattr__(self, "rules", rules_of(self.rules))


class PublishedDistance(TableMeasure, name="table_distance"):
    """One minus the distance of the published table from the original; 1 where nothing changed.

    The distance is a share: absolute, Σ|z − x| / Σ|x|; relative, the mean of |z − x| / |x|; squares, √(Σ(z − x)² / Σx²);
    Hellinger, √(½ Σ(√z − √x)² / Σx). Cells that are not published are estimated from those that are.
    """

    side: ClassVar[Side] = Side.UTILITY
    title: ClassVar[str] = "closeness to the original"

    kind: str = param(
        default="absolute", doc="the distance: absolute, relative, of squares, or Hellinger",
        choices=("absolute", "relative", "squares", "hellinger"),
    )  # fmt: skip

    def assess(self, outcome: PublishedTable) -> Score:
        """Return one minus the distance; it can be negative where the change is larger than the table."""
        original = outcome.source(self.label()).value
        loss = distance(original, reader_estimate(outcome), self.kind)
        off = np.abs(reader_estimate(outcome) - original)
        return self.result(1 - loss, self.words(1 - loss), details={"mean change": float(off.mean()), "loss": loss})

    @override
    def words(self, value: float) -> str:
        return f"the published table is {digits(100 * (1 - value))} % away from the original ({self.kind} distance)"

    @override
    @property
    def variant(self) -> str:
        return self.kind


def distance(x: Numbers, z: Numbers, kind: str) -> float:
    """Return the distance of z from x as a share; a cell of value 0 counts in the relative one only if it changed, as 1."""
    if kind == "relative":
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(x != 0, np.abs(z - x) / np.abs(x), (z != 0).astype(np.float64))
        return float(each.mean())
    if kind == "hellinger":
        a, b = np.sqrt(np.maximum(x, 0.0)), np.sqrt(np.maximum(z, 0.0))
        over, under = ((b - a) ** 2).sum() / 2, (a**2).sum()
    elif kind == "squares":
        over, under = ((z - x) ** 2).sum(), (x**2).sum()
    else:
        over, under = np.abs(z - x).sum(), np.abs(x).sum()
    share = float(over / under) if under > 0 else float(over > 0)
    return share if kind == "absolute" else float(np.sqrt(share))


class PublishedValue(TableMeasure):
    """Share of the table that is published: of the cells, or of the value in them.

    The usual utility of suppression. A value that was adjusted or rounded counts as published.
    """

    side: ClassVar[Side] = Side.UTILITY
    title: ClassVar[str] = "published {self.of}"

    of: str = param(
        default="value", doc="share of what: the value in all cells, or the number of cells", choices=("value", "cells")
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the share."""
        shown = ~np.isnan(outcome.values)
        weight = np.ones(len(outcome))
        if self.of == "value":
            weight = np.abs(outcome.source(self.label()).value)
        total = weight.sum()
        share = float(weight[shown].sum() / total) if total > 0 else float(shown.all())
        words = f"{count_of(int(shown.sum()), len(outcome), ('is', 'are'), 'cell')} published"
        more = f", with {100 * share:.3g} % of the value in all cells" if self.of == "value" else ""
        return self.result(share, words + more)

    @override
    def words(self, value: float) -> str:
        what = "the value in all cells" if self.of == "value" else "the cells"
        return f"{100 * value:.3g} % of {what} is published"


class AnalystCertainty(TableMeasure):
    """Smallest certainty of an analyst about a cell, relative to a coefficient of variation that would be good enough.

    U = min (cv × value)²/V, with V the variance that a reader is left with (Stinner, definition 2.4.0.8): at least 1 where
    every cell is good enough, infinite for a table published without change, 0 where nothing is known of a cell.
    """

    side: ClassVar[Side] = Side.UTILITY

    cv: float = param(default=0.1, doc="coefficient of variation that is good enough", low=0, above=True)
    quantile: float = param(
        default=0.0, doc="0 for the least certain cell; 0.5 for the median cell, and so on", low=0, high=1
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the certainty of the least certain cell, or of a quantile of the cells; empty cells are left out."""
        value = outcome.source(self.label()).value
        seen = value != 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (self.cv * value[seen]) ** 2 / reader_variance(outcome)[seen]
        found = float(np.quantile(ratio, self.quantile, method="lower")) if len(ratio) else np.inf
        return self.result(found, self.words(found), details={"cells below 1": float((ratio < 1).sum())})

    @override
    def words(self, value: float) -> str:
        which = "the least certain cell" if self.quantile == 0 else f"the cell at the quantile {self.quantile:g}"
        if value == 0:
            return f"nothing is known of {which}"
        return (
            f"{which} is known to within {digits(100 * self.cv / np.sqrt(value))} %"
            if value < np.inf
            else f"{which} is known exactly"
        )

    @override
    def label(self) -> str:
        return (
            "certainty of the least certain cell"
            if self.quantile == 0
            else f"certainty of cells, quantile {self.quantile:g}"
        )


class CellCertainty(UnsafeCells):
    """Largest certainty of an attacker about an unsafe cell, relative to what the sensitivity rules demand.

    R = max w²/V: V is the variance of the cell given all other published cells, w² that of an interval that just meets the
    rules, (upper + lower level)²/12. It applies to magnitudes and counts, intervals and noise alike.
    """

    of: str = param(
        default="largest", doc="the largest relative certainty, or the share of unsafe cells that are known too closely",
        choices=("largest", "share"),
    )  # fmt: skip

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the largest relative certainty, or the share of unsafe cells above 1."""
        ratio = self.ratios(outcome)
        above, largest = int((ratio > 1 + 1e-6).sum()), float(ratio.max(initial=0.0))
        told = f"{count_of(above, len(ratio), ('is', 'are'), 'unsafe cell')} known better than the rules allow"
        exact = float(np.isinf(ratio).sum())
        details = {"unsafe cells": float(len(ratio)), "known too well": float(above), "known exactly": exact}
        if self.of == "share":
            return self.result(above / len(ratio) if len(ratio) else 0.0, told, details=details)
        return self.result(largest, f"{self.words(largest)}; {told}", details=details)

    def ratios(self, outcome: PublishedTable) -> Numbers:
        """Return w²/V for every unsafe cell."""
        found = self.rules.assess(outcome.source(self.label()))
        unsafe = found.unsafe
        width = np.maximum(found.width, found.upper + found.lower)[unsafe]
        variance = reader_variance(outcome)[unsafe]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance == 0, np.inf, width**2 / 12 / variance)

    @override
    def words(self, value: float) -> str:
        if self.of == "share":
            return f"{100 * value:.3g} % of the unsafe cells are known better than the rules allow"
        if np.isinf(value):
            return "an unsafe cell is known exactly"
        if value <= 1:
            return "no unsafe cell is known better than the rules allow"
        return f"an unsafe cell is known to within {digits(100 / np.sqrt(value))} % of what the rules demand"

    @override
    def label(self) -> str:
        return "certainty about unsafe cells" if self.of == "largest" else "unsafe cells known too well"


class IntervalLengths(UnsafeCells):
    """Largest ratio of the length that a sensitivity rule demands to that of the interval an attacker works out.

    At most 1 where every unsafe cell is protected; infinite where one is known exactly. An attacker uses all published cells,
    that they add up, and the bounds that everybody knows.
    """

    of: str = param(
        default="largest", doc="the largest ratio, or the share of unsafe cells whose interval is too short",
        choices=("largest", "share"),
    )  # fmt: skip

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the ratio or the share; refuse where random adjustment leaves no interval."""
        unsafe, ratio = self.ratios(outcome)
        narrow = int((ratio > 1 + 1e-6).sum())
        largest = float(ratio.max(initial=0.0))
        share = narrow / len(unsafe) if len(unsafe) else 0.0
        told = f"{count_of(narrow, len(unsafe), ('has', 'have'), 'unsafe cell')} an interval that is too short"
        words = told + (f"; the worst is {digits(1 / largest)} of what is demanded" if 0 < largest < np.inf else "")
        words = f"{told}; one is known exactly" if np.isinf(largest) else words
        facts = {"unsafe cells": float(len(unsafe)), "too short": float(narrow), "largest ratio": largest}
        return self.result(largest if self.of == "largest" else share, words, details=facts)

    def ratios(self, outcome: PublishedTable) -> tuple[Whole, Numbers]:
        """Return the unsafe cells, and for each the required length as a share of the actual one."""
        if noise_variance(outcome) is not None:
            raise NotApplicable(
                "under a random adjustment no cell has a sure interval. Measure relative_certainty, or cell_certainty, instead."
            )
        table = outcome.source(self.label())
        found = self.rules.assess(table)
        unsafe = np.flatnonzero(found.unsafe)
        low, high = (side[unsafe] for side in attacker_intervals(outcome))
        value, scale = table.value[unsafe], 1e-9 * np.maximum(np.abs(table.value[unsafe]), 1.0)
        demands = ((found.upper, high - value), (found.lower, value - low), (found.width, high - low))
        ratio = np.zeros(len(unsafe))
        for asked, there in demands:
            with np.errstate(divide="ignore", invalid="ignore"):
                here = np.where(asked[unsafe] > scale, asked[unsafe] / np.where(there > scale, there, 0.0), 0.0)
            ratio = np.maximum(ratio, here)
        return unsafe, np.where((high - low <= scale) & (ratio == 0), np.inf, ratio)

    @override
    def words(self, value: float) -> str:
        if self.of == "share":
            return f"{100 * value:.3g} % of the unsafe cells have an interval that is too short"
        if value <= 1:
            return "every unsafe cell has an interval that is long enough"
        return f"the shortest interval of an unsafe cell is {digits(1 / value)} of what is demanded"

    @override
    def label(self) -> str:
        return "interval lengths" if self.of == "largest" else "unsafe cells with short intervals"


_SURE = np.sqrt(12.0)


class KnownClosely(TableMeasure):
    """Share of cells that a reader knows to within a given margin, from what is published about each cell itself.

    A value rounded to base b is known to within b on either side; an adjustment of standard deviation σ counts as an interval
    of the same standard deviation, √3σ on either side; a published value is known. Empty cells are left out.
    """

    side: ClassVar[Side] = Side.RISK

    within: float = param(
        default=0.1,
        doc="how closely: half the length of the interval, as a share of the value",
        low=0,
        usual=(0.5, 0.01),
    )
    below: float | None = param(default=None, doc="look only at cells of fewer records than this: small counts", low=1)

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the share."""
        table = outcome.source(self.label())
        seen = (table.value != 0) & (table.frequency > 0)
        if self.below is not None:
            seen &= table.frequency < self.below
        variance, noise = interval_variance(outcome), noise_variance(outcome)
        variance = variance if noise is None else np.fmin(variance, np.where(outcome.suppressed, np.nan, noise))
        width = np.sqrt(np.where(np.isnan(variance), np.inf, variance)) * _SURE
        known = (width / 2 <= self.within * np.abs(table.value) * (1 + 1e-12)) & seen
        count, total = int(known.sum()), int(seen.sum())
        told = f"{count_of(count, total, ('is', 'are'), 'cell')} known to within {100 * self.within:.3g} %"
        exact = float((seen & (width == 0)).sum())
        return self.result(
            count / total if total else 0.0, told, details={"known exactly": exact, "cells": float(total)}
        )

    @override
    def words(self, value: float) -> str:
        return f"{100 * value:.3g} % of the cells are known to within {100 * self.within:.3g} %"

    @override
    def label(self) -> str:
        small = "" if self.below is None else f" of fewer than {self.below:g} records"
        return f"cells{small} known to within {100 * self.within:.3g} %"


_KNOWN: WeakKeyDictionary[PublishedTable, dict[tuple[float, bool], ContributorPosterior]] = WeakKeyDictionary()


class RelativeCertainty(TableMeasure):
    """Largest certainty of an attacker about a contribution, relative to the certainty that is tolerated.

    R = max w²/V, with V the posterior variance of the best attacker and w the standard deviation he must be left with (Stinner,
    definition 2.4.0.9). At most 1 is safe; infinite where a contribution is known exactly. Attackers are outsiders and the
    other contributors, who know their own contributions; before publication all know every contribution to within the
    coefficient of variation ε. Suppression, rounding and noise are judged alike: an interval counts with its variance.
    """

    side: ClassVar[Side] = Side.RISK

    prior_cv: float = priors.prior_cv()
    base_cv: float = priors.base_cv()
    of: str = param(
        default="largest", doc="the largest relative certainty, or the share of contributors that are known too closely",
        choices=("largest", "share"),
    )  # fmt: skip
    intervals: bool = param(
        default=True,
        doc="whether attackers also work out intervals from bounds, such as that nobody contributes less than nothing",
    )

    @override
    def validate(self) -> None:
        if self.base_cv >= self.prior_cv:
            raise ParameterError(
                f"base_cv must be below prior_cv ({self.prior_cv:g}): with {self.base_cv:g} too much is known before anything "
                "is published."
            )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the largest relative certainty, or the share of contributors above 1."""
        ratio = self.ratios(outcome)
        above, largest = int((ratio > 1 + 1e-6).sum()), float(ratio.max(initial=0.0))
        share = above / len(ratio) if len(ratio) else 0.0
        details = {
            "largest": largest, "contributors above 1": float(above), "contributors": float(len(ratio)),
            "known exactly": float(np.isinf(ratio).sum()),
        }  # fmt: skip
        told = f"{count_of(above, len(ratio), ('is', 'are'), 'contributor')} known better than to {100 * self.base_cv:.3g} %"
        if self.of == "share":
            return self.result(share, told, details=details)
        return self.result(largest, f"{self.words(largest)}; {told}", details=details)

    def ratios(self, outcome: PublishedTable) -> Numbers:
        """Return w²/V for every contributor with a size above 0, shape (contributors with a size,)."""
        found = self.posterior(outcome)
        some = found.prior > 0
        required = found.prior[some] * (self.base_cv / self.prior_cv) ** 2
        with np.errstate(divide="ignore"):
            return np.asarray(required / found.variance[some])

    def posterior(self, outcome: PublishedTable) -> ContributorPosterior:
        """Return the posterior variances for the best attacker of each contributor."""
        table = outcome.source(self.label())
        if table.contributions is None or table.is_count:
            raise NotApplicable(
                f"{self.label()} is about the amounts that contributors gave, and "
                + ("a table of counts has none" if table.is_count else "the table does not say who contributed")
                + ". Measure cell_certainty, which is about cells."
            )
        kept = _KNOWN.setdefault(outcome, {})
        key = (self.prior_cv, self.intervals)
        if key not in kept:
            kept[key] = contributor_posterior(outcome, self.prior_cv, self.intervals)
        return kept[key]

    @override
    def words(self, value: float) -> str:
        if self.of == "share":
            return f"{100 * value:.3g} % of the contributors are known better than to {100 * self.base_cv:.3g} %"
        if np.isinf(value):
            return "a contribution is known exactly"
        if value == 0:
            return "nothing is known of any contribution"
        share = digits(100 * self.base_cv / np.sqrt(value))
        return f"an attacker knows some contribution to within {share} % (standard deviation)"

    @override
    @property
    def variant(self) -> str:
        return f"known to {100 * self.prior_cv:.3g} % before, to {100 * self.base_cv:.3g} % at most after"

    @override
    def label(self) -> str:
        return "relative certainty" if self.of == "largest" else "contributors at risk"


class TableAccuracy(TableMeasure):
    """Mean accuracy of a reader's best estimate of every cell: 1 − |estimate − value| / |value|, at least 0.

    A published value is its own estimate; other cells are fitted to the published ones. 1 where all cells are published
    exactly, 0 where no estimate is of the right size. It is the same for every method.
    """

    side: ClassVar[Side] = Side.UTILITY
    title: ClassVar[str] = "accuracy of cells"

    weight: str = param(
        default="cells", doc="whether all cells count alike, or by their value", choices=("cells", "value")
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the mean accuracy; a cell of value 0 is right or wrong."""
        value, estimate = outcome.source(self.label()).value, reader_estimate(outcome)
        size = np.abs(value)
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(size > 0, np.abs(estimate - value) / size, (np.abs(estimate) > 1e-9).astype(np.float64))
        off = np.where(off < 1e-12, 0.0, np.minimum(off, 1.0))
        weights = size if self.weight == "value" and size.sum() > 0 else np.ones(len(size))
        accuracy = 1 - float((weights * off).sum() / weights.sum())
        return self.result(accuracy, self.words(accuracy), details={"median error": float(np.median(off))})

    @override
    def words(self, value: float) -> str:
        return f"a reader's estimate of a cell is off by {100 * (1 - value):.3g} % on average"

    @override
    @property
    def variant(self) -> str:
        return "" if self.weight == "cells" else "cells count by their value"
