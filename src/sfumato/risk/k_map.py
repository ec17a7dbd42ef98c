"""k-map: records that match too few persons of the population (Sweeney 2001)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Need, Release, Score, Side, Snooper, param
from sfumato.errors import out_of
from sfumato.risk.delta_presence import population_matches
from sfumato.risk.keys import RULES, key_names, missing_rule, of_original
from sfumato.schema import Schema


class KMap(DirectMeasure):
    """The share of released records that match fewer than k persons of the population on the snooper's keys.

    It is to the population what k-anonymity is to the released file. A record whose keys nobody in the population has counts as
    below k, and the number of these stands in the details. Per record: how many persons match it.
    """

    side: ClassVar[Side] = Side.RISK
    needs: ClassVar[frozenset[Need]] = frozenset({Need.POPULATION})

    k: int = param(default=3, doc="how many persons must look the same", low=2, integer=True)
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"records below a {self.k}-map"

    @property
    def variant(self) -> str:
        """The rule for missing keys."""
        return RULES[self.missing]

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"{100 * value:.3g} % of the records match fewer than {self.k} persons of the population"

    def of_records(self, values: NDArray[np.float64]) -> float:
        """Return the share of some records that fewer than k persons match; their values count those."""
        return float((values < self.k).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records below k."""
        found, _, persons = population_matches(outcome, snooper, self.missing)
        persons, n = np.round(persons, 6), int(found.sizes.sum())
        below, fewest = int(found.sizes[persons < self.k].sum()), float(persons.min())
        return self.result(
            below / n,
            f"{out_of(below, n, ('matches', 'match'))} fewer than {self.k} persons of the population on "
            f"{', '.join(key_names(outcome, snooper))}; the fewest that any record matches is {fewest:,.6g}",
            details={
                "records below k": float(below),
                "fewest persons": fewest,
                "records that nobody matches": float(found.sizes[persons == 0].sum()),
                "records left out": float(found.records - n),
            },
            find_records=(lambda: of_original(outcome, found, persons)) if outcome.aligned else None,
        )
