"""Average class size, C_AVG (LeFevre, DeWitt and Ramakrishnan 2006)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, listing
from sfumato.schema import Schema
from sfumato.utility.compared import over_columns
from sfumato.utility.leaves import key_columns
from sfumato.utility.told_apart import ToldApart, told_apart


class AverageClassSize(DirectMeasure):
    """How many groups of records the keys still tell apart: the original's average class size over the release's.

    The literature's number, C_AVG = (records / classes) / k, stands in the details: 1 is the best that a k-anonymous file can
    have. U = C_AVG of the original / C_AVG, in which k plays no part: without suppression it is the share of the classes that
    is left. A suppressed record (not released, or every key missing or `*`) counts among the records and makes no class. A
    missing key may be any value: records with one make a class only if no others could be theirs. A key that is not released
    tells nothing apart. More classes than the original has, made by noise, gain nothing.
    """

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()
    k: int = param(default=3, doc="the k of k-anonymity that C_AVG in the details is divided by", low=1, integer=True)

    def label(self) -> str:
        """Return a few words for a legend."""
        return "classes kept" + (f" by {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss in percent."""
        return f"{digits(100 * (1 - value))} % of the classes lost"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys."""
        return self.over or schema.names(role="key")

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the classes."""
        names = key_columns(outcome.original, self.over)
        before = told_apart(outcome, outcome.original, names)
        if not before.classes:
            raise NotApplicable("no key is known of any original record, so there are no classes to keep.")
        after = [told_apart(outcome, data, names) for data in outcome.implicates]
        now, old = float(np.mean([_average(found) for found in after])), _average(before)
        classes = float(np.mean([found.classes for found in after]))
        return self.result(
            min(old / now, 1.0),
            f"{_told(round(classes), now)}, in the original {_told(before.classes, old)}; C_AVG {digits(now / self.k)} for "
            f"k = {self.k}",
            details={
                "C_AVG": now / self.k,
                "C_AVG of the original": old / self.k,
                "classes": classes,
                "classes of the original": float(before.classes),
                "suppressed records": float(np.mean([found.suppressed for found in after])),
            },
        )


def _average(found: ToldApart) -> float:
    """Return records per class; infinite, where there is no class."""
    return found.records / found.classes if found.classes else math.inf


def _told(classes: int, average: float) -> str:
    return (
        f"{classes:,} {'class' if classes == 1 else 'classes'} of {digits(average)} records on average"
        if classes
        else "no class"
    )
