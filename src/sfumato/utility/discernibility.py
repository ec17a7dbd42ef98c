"""Discernibility: the sum of squared class sizes (Bayardo and Agrawal 2005)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, listing
from sfumato.schema import Schema
from sfumato.utility.compared import over_columns
from sfumato.utility.leaves import key_columns
from sfumato.utility.told_apart import told_apart


class Discernibility(DirectMeasure):
    """How well records can still be told apart by the keys: DM is the sum of squared class sizes, and n for a suppressed record.

    It counts the pairs of records that look the same: DM/n² is the probability that two records drawn with replacement do.
    U = 1 for the original's own, 0 where all records look the same or are suppressed:
    U = 1 - (DM/n² - DM₀/n²)/(1 - DM₀/n²). A record is suppressed if it is not released or every key is missing or `*`. A key
    that is not released tells nothing apart; a missing one, or `*`, may be any value. A release that tells more records apart
    than the original, by noise, gains nothing.
    """

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "discernibility" + (f" by {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss in percent."""
        return f"{digits(100 * (1 - value))} % of the pairs of records that could be told apart no longer can"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys."""
        return self.over or schema.names(role="key")

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Square the class sizes."""
        names = key_columns(outcome.original, self.over)
        before = told_apart(outcome, outcome.original, names)
        if not before.records:
            raise NotApplicable("the original has no records, so there is nothing to tell apart.")
        after = [told_apart(outcome, data, names) for data in outcome.implicates]
        raw = float(np.mean([found.discernibility for found in after]))
        alike = float(np.mean([found.discernibility / found.records**2 for found in after]))
        alike_before = before.discernibility / before.records**2
        loss = max((alike - alike_before) / (1 - alike_before), 0.0) if alike_before < 1 else 0.0
        return self.result(
            1.0 - loss,
            f"two records look the same with probability {digits(alike)}, in the original with {digits(alike_before)}; "
            f"discernibility {digits(raw)}",
            details={
                "discernibility": raw,
                "discernibility of the original": before.discernibility,
                "suppressed records": float(np.mean([found.suppressed for found in after])),
            },
        )
