"""How long the intervals are that an attacker works out for unsafe cells: the risk of suppression and of rounding."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, out_of
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.intervals import attacker_intervals
from sfumato.tables.measures.observed import noise_variance
from sfumato.tables.published import PublishedTable
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import rules_of

Numbers = NDArray[np.float64]


class IntervalLengths(TableMeasure):
    """Largest ratio of the length that a sensitivity rule demands to that of the interval an attacker works out.

    At most 1 where every unsafe cell is protected; infinite where one is known exactly. An attacker uses all cells that are
    published, that they add up, and the bounds that everybody knows.
    """

    side: ClassVar[Side] = Side.RISK

    rules: SensitivityRule = param(
        doc="the sensitivity rules that say which cells are unsafe, and by how much they must be hidden"
    )
    of: str = param(
        default="largest", doc="the largest ratio, or the share of unsafe cells whose interval is too short",
        choices=("largest", "share"),
    )  # fmt: skip

    def validate(self) -> None:
        """Read rules that are given as text."""
        object.__setattr__(self, "rules", rules_of(self.rules))

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the ratio or the share; refused where random adjustment leaves no interval."""
        unsafe, ratio = self.ratios(outcome)
        narrow = int((ratio > 1 + 1e-6).sum())
        largest = float(ratio.max(initial=0.0))
        share = narrow / len(unsafe) if len(unsafe) else 0.0
        told = f"{out_of(narrow, len(unsafe), ('has', 'have'), 'unsafe cell')} an interval that is too short"
        words = told + (f"; the worst is {digits(1 / largest)} of what is demanded" if 0 < largest < np.inf else "")
        words = f"{told}; one is known exactly" if np.isinf(largest) else words
        facts = {"unsafe cells": float(len(unsafe)), "too short": float(narrow), "largest ratio": largest}
        return self.result(largest if self.of == "largest" else share, words, details=facts)

    def ratios(self, outcome: PublishedTable) -> tuple[NDArray[np.int64], Numbers]:
        """Return the unsafe cells, and for each what is demanded as a share of what there is."""
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

    def words(self, value: float) -> str:
        """Return what a ratio or a share means."""
        if self.of == "share":
            return f"{100 * value:.3g} % of the unsafe cells have an interval that is too short"
        if value <= 1:
            return "every unsafe cell has an interval that is long enough"
        return f"the shortest interval of an unsafe cell is {digits(1 / value)} of what is demanded"

    def label(self) -> str:
        """Return what is measured."""
        return "interval lengths" if self.of == "largest" else "unsafe cells with short intervals"
