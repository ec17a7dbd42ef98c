"""The probability that anybody is identified, and how many are expected to be."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import out_of
from sfumato.risk.class_risks import in_population, in_release
from sfumato.risk.fraction import fraction_parameter
from sfumato.risk.keys import RULES, missing_rule, of_original
from sfumato.schema import Schema


class AnyIdentified(DirectMeasure):
    """The probability that at least one record is identified when a snooper goes for all of them, 1 - Π(1 - r).

    r is the risk of a record: 1/f for a prosecutor, who knows who is in the release; 1/F for a journalist, counted in the
    snooper's population table, or expected as in `IndividualRisk` where he has none. Records count as identified
    independently of each other. Per record: r.
    """

    side: ClassVar[Side] = Side.RISK

    attacker: Literal["prosecutor", "journalist"] = param(
        default="journalist",
        doc="whether he knows who is in the release (prosecutor: 1/f) or not (journalist: 1/F)",
        choices=("prosecutor", "journalist"),
    )
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"chance that a {self.attacker} identifies anybody"

    @property
    def variant(self) -> str:
        """The rule for missing keys; a score also says where the risks of the records come from."""
        return RULES[self.missing]

    def words(self, value: float, schema: Schema) -> str:
        """Return the probability in words."""
        return f"the chance that anybody is identified is {digits(100 * value)} %"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Put the risks of all records together."""
        if self.attacker == "prosecutor":
            risks = in_release(outcome, snooper, self.missing)
        else:
            risks = in_population(outcome, snooper, self.missing, self.fraction)
        found = risks.classes
        with np.errstate(divide="ignore"):
            safe = np.log1p(-risks.risk)  # minus infinity where a record is identified for sure
        nobody = float(found.sizes @ safe)
        value = -float(np.expm1(nobody))
        details = {
            "expected number identified": risks.expected,
            "largest risk": risks.largest,
            "records": float(risks.records),
            "records left out": float(found.records - risks.records),
        }
        if risks.interval is not None:
            low, high = risks.interval
            details["expected number, low"], details["expected number, high"] = (
                low * risks.records,
                high * risks.records,
            )
        chance = f"{digits(100 * value)} %" if nobody > np.log(0.001) else "more than 99.9 %"
        score = self.result(
            value,
            f"the chance that anybody is identified is {chance}; "
            f"{out_of(digits(risks.expected), risks.records, ('is', 'are'))} expected to be",
            details=details,
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, risks.risk),
        )
        return replace(score, variant=f"{risks.source}; {RULES[self.missing]}")
