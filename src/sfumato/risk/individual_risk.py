"""Individual risk: the probability that a record of a sample is identified (Benedetti and Franconi 1998)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, out_of, some
from sfumato.households import unit_ids
from sfumato.risk.class_risks import ClassRisks, check_weighted, expected_in_population, lognormal_interval
from sfumato.risk.fraction import fraction_parameter
from sfumato.risk.keys import RULES, missing_rule, of_original
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
MANY = 0.1
"""Share of records that are unique beyond which the risk is understated by a lot."""


class IndividualRisk(DirectMeasure):
    """The mean probability that a record of a sample is identified by its keys: the share expected to be identified.

    The snooper knows a person's keys, not whether the person is in the sample, and picks one of the F persons of the population
    who have them. Of F only f, the number in the sample, is known; the risk is E[1/F | f], in its exact form. Per record: that
    risk, or that of its household, 1 - Π(1 - r).
    """

    side: ClassVar[Side] = Side.RISK

    per: Literal["person", "household"] = param(
        default="person",
        doc="whether a person is identified, or anybody of a household",
        choices=("person", "household"),
    )
    fraction: float | None = fraction_parameter()
    threshold: float = param(default=0.1, doc="risk above which records are counted", low=0, high=1)
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "individual risk" if self.per == "person" else "household risk"

    @property
    def variant(self) -> str:
        """Where F comes from, and the rule for missing keys."""
        source = "the survey weights" if self.fraction is None else f"a sampling fraction of {self.fraction:g}"
        return f"per {self.per}; F expected from {source} under a negative binomial model; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        if self.per == "person":
            return f"{digits(100 * value)} % of the records are expected to be identified"
        return f"somebody is expected to be identified in {digits(100 * value)} % of the households"

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Refuse a release without weights (unless the fraction is given), or without households that are asked for."""
        super().check(outcome, snooper)
        if self.fraction is None:
            check_weighted(outcome)
        if self.per == "household" and outcome.masked.schema.one("household") is None:
            raise NotApplicable(
                "the risk of households needs to know who lives together, and the released file does not tell. "
                "Give a column the role 'household', or use per='person'."
            )

    def of_records(self, values: Numbers) -> float | None:
        """Return the mean risk of some persons; the mean over households is not made of persons."""
        return float(values.mean()) if self.per == "person" else None

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Estimate the risks."""
        risks = expected_in_population(outcome, snooper, self.missing, self.fraction)
        if self.per == "household":
            return self._of_households(outcome, risks)
        above, found = risks.above(self.threshold), risks.classes
        return self.result(
            risks.mean,
            f"{out_of(digits(risks.expected), risks.records, ('is', 'are'))} expected to be identified; the largest risk of "
            f"any record is {digits(risks.largest)}, and {above:,} {_have(above)} a risk above {self.threshold:g}"
            f"{_warning(risks)}",
            interval=risks.interval,
            details={
                "expected number identified": risks.expected,
                "largest risk": risks.largest,
                "records above the threshold": float(above),
                "records with weights below 1 on average": float(risks.capped),
                "classes": float(len(found)),
                "records left out": float(found.records - risks.records),
            },
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, risks.risk),
        )

    def _of_households(self, outcome: Release, risks: ClassRisks) -> Score:
        home, risk, variance = household_risks(outcome, risks)
        count, expected = len(risk), float(risk.sum())
        above = int((risk > self.threshold * (1 + 1e-12)).sum())
        return self.result(
            expected / count,
            f"somebody is expected to be identified in {digits(expected)} of {some(count, 'household')}; the largest risk of "
            f"any household is {digits(float(risk.max()))}, and {above:,} {_have(above)} a risk above {self.threshold:g}"
            f"{_warning(risks)}",
            interval=lognormal_interval(expected / count, variance / count**2, 1.0) if variance > 0 else None,
            details={
                "expected number of households identified": expected,
                "households": float(count),
                "largest risk of a household": float(risk.max()),
                "households above the threshold": float(above),
                "expected number identified": risks.expected,
                "largest risk": risks.largest,
                "records with weights below 1 on average": float(risks.capped),
                "records left out": float(risks.classes.records - risks.records),
            },
            find_records=_spread(outcome, home, risk) if outcome.aligned else None,
        )


def household_risks(outcome: Release, risks: ClassRisks) -> tuple[NDArray[np.int64], Numbers, float]:
    """Return the household of each released record (-1: left out), the risk 1 - Π(1 - r) of each, and their sum's variance.

    Shapes (n,), (h,) and a number. A record whose household is not known stands for itself. The variance is that of the sum
    linearised in the classes' 1/F, taken as independent.
    """
    number = outcome.masked.schema.one("household")
    batch = outcome.masked.batch([] if number is None else [number])
    labels = risks.classes.labels
    counted = labels >= 0
    home = np.full(len(labels), -1, np.int64)
    home[counted] = np.unique(unit_ids(batch, "household")[counted], return_inverse=True)[1]
    with np.errstate(divide="ignore"):
        safe = np.log1p(-risks.risk)  # minus infinity where a record is identified for sure
    logs = np.bincount(home[counted], safe[labels[counted]], int(home.max()) + 1)
    # what one more unit of risk of a record adds to its household's: nothing has a variance where a risk is 1
    with np.errstate(invalid="ignore"):
        slopes = np.exp(np.nan_to_num(logs[home[counted]] - safe[labels[counted]], nan=-np.inf))
    slope = np.bincount(labels[counted], slopes, len(risks.risk))
    return home, -np.expm1(logs), float(slope**2 @ risks.variance)


def _warning(risks: ClassRisks) -> str:
    """Return that the model understates the risk, where it is known to (docs/risk/calibration.md)."""
    unique = int(risks.classes.sizes[risks.classes.matches == 1].sum())
    if not risks.variance.any() or unique <= MANY * risks.records:
        return ""
    return f"; too low where many records are unique, as {unique:,} are here: compare log_linear_risk"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _spread(outcome: Release, home: NDArray[np.int64], risk: Numbers) -> Callable[[], Numbers]:
    def find() -> Numbers:
        spread = np.append(risk, np.nan)[home]
        _, right = outcome.matched
        return outcome.per_original(spread if right is None else spread[right])

    return find
