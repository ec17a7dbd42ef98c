"""k-anonymity: records that share their keys with too few others (Samarati 2001; Sweeney 2002)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import out_of
from sfumato.risk.keys import RULES, key_names, missing_rule, of_original, released_classes
from sfumato.schema import Schema


class KAnonymity(DirectMeasure):
    """The share of released records that match fewer than k records on the snooper's keys, themselves included.

    The file is k-anonymous when the share is 0. The smallest number of matching records stands in the details: it is the
    largest k for which the file is k-anonymous. Per record: the number of records that match it.
    """

    side: ClassVar[Side] = Side.RISK

    k: int = param(default=3, doc="how many records must look the same", low=2, integer=True)
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below {self.k}-anonymity"

    @property
    def variant(self) -> str:
        """The rule for missing keys."""
        return RULES[self.missing]

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records match fewer than {self.k} records on the keys"

    def of_records(self, values: NDArray[np.float64]) -> float:
        """Return the share of some records that match fewer than k; their values count those that match."""
        return float((values < self.k).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records below k."""
        found = released_classes(outcome, snooper, self.missing)
        f, n = found.matches, int(found.sizes.sum())
        below = int(found.sizes[f < self.k].sum())
        smallest = int(f.min())
        return self.result(
            below / n,
            f"{out_of(below, n, ('matches', 'match'))} fewer than {self.k} records on "
            f"{', '.join(key_names(outcome, snooper))}; the fewest that any record matches is {smallest:,}",
            details={
                "records below k": float(below),
                "unique records": float(found.sizes[f == 1].sum()),
                "smallest class": float(smallest),
                "classes": float(len(found)),
                "records left out": float(found.records - n),
            },
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, np.asarray(f)),
        )
