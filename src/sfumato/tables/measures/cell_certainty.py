"""How certain an attacker becomes of an unsafe cell, for every method on one scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Score, Side, param
from sfumato.contract.score import digits
from sfumato.errors import out_of
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures.reader_variance import reader_variance
from sfumato.tables.published import PublishedTable
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import rules_of

Numbers = NDArray[np.float64]


class CellCertainty(TableMeasure):
    """Largest certainty of an attacker about an unsafe cell, relative to what the sensitivity rules demand.

    R = max w²/V: V is the variance that remains about the cell after all arithmetic with the others, w² that of an interval
    that just meets the demand, (upper + lower level)²/12. For magnitudes and counts, intervals and noise alike.
    """

    side: ClassVar[Side] = Side.RISK

    rules: SensitivityRule = param(
        doc="the sensitivity rules that say which cells are unsafe, and by how much they must be hidden"
    )
    of: str = param(
        default="largest", doc="the largest relative certainty, or the share of unsafe cells of which too much is known",
        choices=("largest", "share"),
    )  # fmt: skip

    def validate(self) -> None:
        """Read rules that are given as text."""
        object.__setattr__(self, "rules", rules_of(self.rules))

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the largest relative certainty, or the share of unsafe cells above 1."""
        ratio = self.ratios(outcome)
        above, largest = int((ratio > 1 + 1e-6).sum()), float(ratio.max(initial=0.0))
        told = f"{out_of(above, len(ratio), ('is', 'are'), 'unsafe cell')} known better than the rules allow"
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

    def words(self, value: float) -> str:
        """Return what a certainty means."""
        if self.of == "share":
            return f"{100 * value:.3g} % of the unsafe cells are known better than the rules allow"
        if np.isinf(value):
            return "an unsafe cell is known exactly"
        if value <= 1:
            return "no unsafe cell is known better than the rules allow"
        return f"an unsafe cell is known to within {digits(100 / np.sqrt(value))} % of what the rules demand"

    def label(self) -> str:
        """Return what is measured."""
        return "certainty about unsafe cells" if self.of == "largest" else "unsafe cells known too well"
