"""Re-identification by a prosecutor, a journalist or a marketer (El Emam 2013, chapter 16; ARX)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import ParameterError, some
from sfumato.risk.class_risks import ClassRisks, in_population, in_release
from sfumato.risk.fraction import fraction_parameter
from sfumato.risk.keys import RULES, missing_rule, of_original
from sfumato.schema import Schema


class Reidentification(DirectMeasure):
    """How often a snooper who picks one of those who look the same is right.

    A prosecutor goes for one person and knows that he or she is in the release: 1/f for a record that f records match. A
    journalist goes for any record, not knowing who is in the release: 1/F, where F persons of the population match. A marketer
    matches the whole release with his file of the population; what counts is the share of records he gets right. Per record: the
    probability.
    """

    side: ClassVar[Side] = Side.RISK

    attacker: Literal["prosecutor", "journalist", "marketer"] = param(
        default="prosecutor",
        doc="who attacks: he knows who is in the release (prosecutor), does not (journalist), or goes for all (marketer)",
        choices=("prosecutor", "journalist", "marketer"),
    )
    summary: Literal["mean", "largest", "share at risk"] = param(
        default="mean",
        doc="the mean risk of the records, the largest, or the share of records above the threshold",
        choices=("mean", "largest", "share at risk"),
    )
    threshold: float = param(default=0.2, doc="risk above which a record is at risk", low=0, high=1)
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    def validate(self) -> None:
        """Refuse a summary that a marketer has no use for."""
        if self.attacker == "marketer" and self.summary != "mean":
            raise ParameterError(
                "a marketer goes for all records at once, so only the mean says how well he does; use summary='mean', "
                "or another attacker."
            )

    def label(self) -> str:
        """Return a few words for a legend."""
        if self.attacker == "marketer":
            return "marketer risk"
        part = f"share above {self.threshold:g}" if self.summary == "share at risk" else self.summary
        return f"{self.attacker} risk, {part}"

    @property
    def variant(self) -> str:
        """The rule for missing keys; a score also says where the counts come from."""
        return RULES[self.missing]

    def words(self, value: float, schema: Schema) -> str:
        """Return the summary in words."""
        if self.attacker == "marketer":
            return f"a marketer gets {digits(100 * value)} % of the records right"
        if self.summary == "mean":
            return f"a {self.attacker} is right for {digits(100 * value)} % of the records"
        if self.summary == "largest":
            return f"for the record at most risk a {self.attacker} is right with probability {digits(value)}"
        return f"for {digits(100 * value)} % of the records a {self.attacker} is right with probability above {self.threshold:g}"

    def of_records(self, values: NDArray[np.float64]) -> float:
        """Return the mean, the largest, or the share above the threshold of some records' probabilities."""
        at_risk = (values > self.threshold * (1 + 1e-12)).mean()
        return float({"mean": values.mean(), "largest": values.max(), "share at risk": at_risk}[self.summary])

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count those who look the same."""
        risks = self._risks(outcome, snooper)
        found, n, above = risks.classes, risks.records, risks.above(self.threshold)
        value = {"mean": risks.mean, "largest": risks.largest, "share at risk": above / n}[self.summary]
        details = {
            "mean risk": risks.mean,
            "largest risk": risks.largest,
            "expected number identified": risks.expected,
            "records above the threshold": float(above),
            "records at the largest risk": float(found.sizes[risks.risk >= risks.largest * (1 - 1e-12)].sum()),
            "classes": float(len(found)),
            "records left out": float(found.records - n),
        }
        if self.attacker == "journalist" and snooper.population is not None and (found.matches == found.sizes).all():
            # a person of the population who looks like somebody in the release, instead of a record (El Emam's jRc has both)
            with np.errstate(divide="ignore"):
                details["mean risk of the persons who match"] = float(len(found) / (1 / risks.risk).sum())
        score = self.result(
            value,
            self._said(risks, above),
            interval=risks.interval if self.summary == "mean" else None,
            details=details,
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, risks.risk),
        )
        return replace(score, variant=f"{risks.source}; {RULES[self.missing]}")

    def _risks(self, outcome: Release, snooper: Snooper) -> ClassRisks:
        if self.attacker == "prosecutor":
            return in_release(outcome, snooper, self.missing)
        if self.attacker == "journalist":
            return in_population(outcome, snooper, self.missing, self.fraction)
        unknown = snooper.population is None and self.fraction is None and outcome.masked.schema.one("weight") is None
        if unknown:  # all he can have is a file of the released persons
            risks = in_release(outcome, snooper, self.missing)
        else:
            risks = in_population(outcome, snooper, self.missing, self.fraction)
        return risks.times(snooper.coverage)

    def _said(self, risks: ClassRisks, above: int) -> str:
        n = risks.records
        if self.attacker == "marketer":
            return f"a marketer is expected to get {digits(risks.expected)} of {some(n)} right"
        return (
            f"a {self.attacker} is right for {digits(100 * risks.mean)} % of {some(n)}, with probability "
            f"{digits(risks.largest)} for the one at most risk, and with probability above {self.threshold:g} for {above:,}"
        )
