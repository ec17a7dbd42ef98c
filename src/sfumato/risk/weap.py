"""WEAP: what the keys of a released record say of its value within the release (Taub and Elliot 2019)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release, Score, Snooper, param
from sfumato.risk.attribution import KeyedMeasure, average, nobody
from sfumato.risk.excess import Excess, share
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class WEAP(KeyedMeasure):
    """The within-equivalence-class attribution probability: how well the release's own keys tell the release's own values.

    For a released record it is the share of the released records with its keys that have its value. The score is the mean
    (``summary="mean"``), or the share of records for which it is at least `threshold` (``"share"``), beyond what is due to the
    column's distribution alone. It looks at the release only: whether the values are true is for CAP and TCAP to say. Per
    original record: the probability of its released record, where the alignment is known.
    """

    short: ClassVar[str] = "within-class attribution probability"

    summary: Literal["mean", "share"] = param(
        default="mean",
        doc="the mean probability, or the share of records that reach the threshold",
        choices=("mean", "share"),
    )
    threshold: float = param(
        default=1.0, doc="probability from which a record counts, for summary='share'", low=0, above=True, high=1
    )

    @property
    def definition(self) -> str:
        """Mean or share."""
        return "mean" if self.summary == "mean" else f"share of records from {100 * self.threshold:g} % on"

    def words(self, value: float, schema: Schema) -> str:
        """Return the mean or the share in words."""
        beyond = "" if self.what == "rate" else ", beyond what the column alone gives"
        if self.summary == "share":
            return f"the keys of {share(value)} of the released records tell their {self.column}{beyond}"
        return f"released records with the same keys agree on {self.column} with probability {value:.3g}{beyond}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare each released record with those that have its keys."""
        attack = self.attack()
        found = attack.between(outcome, snooper, outcome.masked, outcome.masked)
        counts, within = found.targets.count, found.drawn
        plain = attack.marginal(outcome, snooper, found.targets, outcome.masked).drawn
        rate, n = average(self._summed(within), counts, nobody(found, self.column, "the release"))
        excess = Excess(rate, n, average(self._summed(plain), counts, "")[0])
        value, interval = excess.choose(self.what)
        certain = int(counts[within >= self.threshold].sum())
        return self.result(
            value,
            f"released records with the same keys agree on {self.column} with probability "
            f"{average(within, counts, '')[0]:.3g} on average; for {certain:,} of {n:,} it is at least {self.threshold:g}",
            interval=interval,
            details={**excess.details, "records from the threshold on": float(certain)},
            find_records=None
            if not outcome.aligned
            else lambda: self._spread(outcome, found.targets.per_record(within)),
        )

    def _summed(self, within: Numbers) -> Numbers:
        return within if self.summary == "mean" else (within >= self.threshold).astype(np.float64)

    @staticmethod
    def _spread(outcome: Release, within: Numbers) -> Numbers:
        _, right = outcome.matched
        return outcome.per_original(within if right is None else within[right])
