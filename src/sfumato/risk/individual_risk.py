"""How likely a record is identified by its keys: counted or estimated, by record, by attacker, and for anybody at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.contract import CandidateClasses, ClassModel, Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data.classes import Classes, Missing
from sfumato.data.households import unit_ids
from sfumato.errors import NotApplicable, ParameterError, count_of, plural
from sfumato.risk.keys import (
    RiskMeasure,
    nothing_in_common,
    of_original,
    population_classes,
    released_classes,
    spread_released,
)
from sfumato.risk.population_uniques import fraction_parameter
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers, Whole

_FEW = 0.05
"""If no larger share of the records than this has weights that are too small, those are taken for 1."""
_Z = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, eq=False)
class ClassRisks:
    """The probability that a record of each class is identified; c classes of n records."""

    classes: Classes
    risk: Numbers
    """Probability, shape (c,)."""
    variance: Numbers
    """Variance of the true 1/F about an estimate of it, shape (c,); 0 where F was counted."""
    most: Numbers
    """The largest that it can be, 1/f, shape (c,)."""
    source: str
    """Where the numbers come from, for the Score's variant."""
    capped: int = 0
    """Records whose survey weights add up to fewer persons than records match, so that the risk is the largest, 1/f."""

    @property
    def records(self) -> int:
        """How many records have a risk."""
        return int(self.classes.sizes.sum())

    @property
    def expected(self) -> float:
        """How many records are expected to be identified."""
        return float(self.classes.sizes @ self.risk)

    @property
    def mean(self) -> float:
        """The mean risk of a record."""
        return self.expected / self.records

    @property
    def largest(self) -> float:
        """The largest risk of any record."""
        return float(self.risk.max())

    def above(self, threshold: float) -> int:
        """Return how many records have a risk above a threshold; one that differs by rounding only is not above."""
        return int(self.classes.sizes[self.risk > threshold * (1 + 1e-12)].sum())

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval for the true mean of 1/F; None where F was counted.

        The classes' F are taken as independent.
        """
        if not self.variance.any():
            return None
        sizes = self.classes.sizes.astype(np.float64)
        top = float(sizes @ self.most) / self.records
        return lognormal_interval(self.mean, float(sizes**2 @ self.variance) / self.records**2, top)

    def times(self, probability: float) -> ClassRisks:
        """Return the risks of a snooper who finds the right class with some probability only."""
        if probability == 1:
            return self
        risk, variance, most = probability * self.risk, probability**2 * self.variance, probability * self.most
        return ClassRisks(self.classes, risk, variance, most, self.source, self.capped)


def in_release(outcome: Release, snooper: Snooper, missing: Missing) -> ClassRisks:
    """Return 1/f for each class: whoever knows that the person is in the release picks one of the f that match."""
    released = released_classes(outcome, snooper, missing)
    risk = 1 / released.matches
    return _counted(released, risk, risk, "f counted in the release", snooper)


def in_population(outcome: Release, snooper: Snooper, missing: Missing, fraction: float | None = None) -> ClassRisks:
    """Return 1/F for each class: counted in the snooper's population table, or expected from a sample where he has none."""
    if snooper.population is None:
        return expected_in_population(outcome, snooper, missing, fraction)
    released = released_classes(outcome, snooper, missing)
    people = population_classes(snooper.population, released, snooper)
    counts = released.counts_in(people)
    lacking = int(released.sizes[counts < released.sizes * (1 - 1e-9)].sum())
    if lacking and (name := nothing_in_common(released, people)):
        raise NotApplicable(
            f"no value of key '{name}' in the release is in the population table. Code it there as it is released: recoded in "
            "the same way, with the same labels, numbers as numbers and text as text."
        )
    if lacking:
        raise NotApplicable(
            f"the population table has fewer persons than the release for the keys of {lacking:,} of "
            f"{plural(int(released.sizes.sum()))}, so it is no table of their population. Recode its keys as the release's, "
            "or leave keys that were changed at random out of the snooper's keys."
        )
    return _counted(released, 1 / counts, 1 / released.sizes, "F counted in the population table", snooper)


def _counted(released: Classes, risk: Numbers, most: Numbers, source: str, snooper: Snooper) -> ClassRisks:
    return ClassRisks(released, risk, np.zeros(len(released)), most, source).times(snooper.match_probability)


def expected_in_population(
    outcome: Release, snooper: Snooper, missing: Missing, fraction: float | None = None
) -> ClassRisks:
    """Return E[1/F | f] for each class of a sample (Benedetti and Franconi 1998; Franconi and Polettini 2004).

    F is the number of trials up to the f-th success with probability p: p is `fraction` where it is given, else f over the sum
    of the survey weights of the f records, so that F is expected to be that sum. F is at least f: where the weights add up to
    less, as calibrated ones may here and there, p is 1. Where they often do, they are not counts of persons, and refused.
    """
    if fraction is None:
        check_weighted(outcome)
    released = released_classes(outcome, snooper, missing, weighted=fraction is None)
    f, below = released.matches, 0
    if fraction is None:
        p = f / released.matched_weights
        below = int(released.sizes[p > 1 + 1e-9].sum())
        if below > _FEW * released.sizes.sum():
            raise NotApplicable(
                f"for {below:,} of {plural(int(released.sizes.sum()))} the survey weights of the matching records add up to "
                "fewer persons than records. A weight must say how many persons of the population a record stands for, 1 or "
                "more on average; scale the weights up, or give the share of the population that is in the file (fraction)."
            )
        source = "F expected from the survey weights under a negative binomial model"
    else:
        p = np.full(len(released), fraction)
        source = f"F expected from a sampling fraction of {fraction:g} under a negative binomial model"
    mean, square = kernels.uniques.reciprocal_moments(f, np.minimum(p, 1))
    # a variance that is 0 comes out as a rounding error of either sign
    variance = np.where(p < 1, np.maximum(square - mean**2, 0), 0.0)
    return ClassRisks(released, mean, variance, 1 / f, source, below).times(snooper.match_probability)


def check_weighted(outcome: Release) -> None:
    """Refuse a release without survey weights, where the sampling fraction was not given either."""
    if outcome.masked.schema.one("weight") is None:
        raise NotApplicable(
            "how many persons of the population look the same is estimated from survey weights, and the released file has "
            "none. Give a column the role 'weight', or the share of the population that is in the file (fraction)."
        )


def lognormal_interval(mean: float, variance: float, top: float) -> tuple[float, float]:
    """Return a 95 % interval for a positive number with this mean and variance that is at most `top`.

    The quantiles of the log-normal distribution with these moments: sums of 1/F are skewed to the right.
    """
    s = math.sqrt(math.log1p(variance / mean**2)) if mean > 0 else 0.0
    low, high = (mean * math.exp(-s * s / 2 + z * s) for z in (-_Z, _Z))
    return min(low, mean), min(max(high, mean), max(top, mean))


MANY = 0.1
"""Share of records that are unique beyond which the risk is understated by a lot."""


class IndividualRisk(RiskMeasure):
    """The mean probability that a record of a sample is identified by its keys: the share expected to be identified.

    The snooper knows a person's keys, not whether the person is in the sample, and picks one of the F persons of the population
    who have them. Of F only f, the number in the sample, is known; the risk is E[1/F | f], in its exact form. Per record: that
    risk, or that of its household, 1 - Π(1 - r). Source: Benedetti and Franconi 1998.
    """

    per: Literal["person", "household"] = param(
        default="person", doc="whether a person is identified, or anybody of a household"
    )
    fraction: float | None = fraction_parameter()
    threshold: float = param(default=0.1, doc="risk above which records are counted", low=0, high=1)
    missing: Missing = missing_rule()

    @override
    def label(self) -> str:
        return "individual risk" if self.per == "person" else "household risk"

    @override
    @property
    def variant(self) -> str:
        source = "the survey weights" if self.fraction is None else f"a sampling fraction of {self.fraction:g}"
        return f"per {self.per}; F expected from {source} under a negative binomial model; {RULES[self.missing]}"

    @override
    def words(self, value: float, schema: Schema) -> str:
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
            f"{count_of(digits(risks.expected), risks.records, ('is', 'are'))} expected to be identified; the largest risk of "
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
            f"somebody is expected to be identified in {digits(expected)} of {plural(count, 'household')}; the largest risk of "
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
            find_records=(lambda: spread_released(outcome, np.append(risk, np.nan)[home])) if outcome.aligned else None,
        )


def household_risks(outcome: Release, risks: ClassRisks) -> tuple[Whole, Numbers, float]:
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


# --- Re-identification by a prosecutor, a journalist or a marketer (El Emam 2013, chapter 16; ARX).


class Reidentification(RiskMeasure, ClassModel):
    """How often a snooper who picks one of those who look the same is right.

    A prosecutor goes for one person and knows that he or she is in the release: 1/f for a record that f records match. A
    journalist goes for any record, not knowing who is in the release: 1/F, where F persons of the population match. A marketer
    matches the whole release with his file of the population; what counts is the share of records he gets right. Per record: the
    probability.
    """

    attacker: Literal["prosecutor", "journalist", "marketer"] = param(
        default="prosecutor",
        doc="who attacks: he knows who is in the release (prosecutor), does not (journalist), or goes for all (marketer)",
    )
    summary: Literal["mean", "largest", "share at risk"] = param(
        default="mean", doc="the mean risk of the records, the largest, or the share of records above the threshold"
    )
    threshold: float = param(default=0.2, doc="risk above which a record is at risk", low=0, high=1)
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        if self.attacker == "marketer" and self.summary != "mean":
            raise ParameterError(
                "a marketer goes for all records at once, so only the mean says how well he does; use summary='mean', "
                "or another attacker."
            )

    @override
    def label(self) -> str:
        if self.attacker == "marketer":
            return "marketer risk"
        part = f"share above {self.threshold:g}" if self.summary == "share at risk" else self.summary
        return f"{self.attacker} risk, {part}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        if self.attacker == "marketer":
            return f"a marketer gets {digits(100 * value)} % of the records right"
        if self.summary == "mean":
            return f"a {self.attacker} is right for {digits(100 * value)} % of the records"
        if self.summary == "largest":
            return f"for the record at most risk a {self.attacker} is right with probability {digits(value)}"
        return f"for {digits(100 * value)} % of the records a {self.attacker} is right with probability above {self.threshold:g}"

    def of_records(self, values: Numbers) -> float:
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

    needs_limit: ClassVar[bool] = True

    @override
    @property
    def uses_population(self) -> bool:
        return self.attacker == "journalist"

    def _of_classes(self, table: CandidateClasses) -> Numbers:
        """Return the probability for each class of a candidate, shape (c,)."""
        if self.attacker == "prosecutor" or (self.attacker == "marketer" and table.persons is None):
            return 1 / table.sizes
        if table.persons is None:
            raise NotApplicable("a journalist's risk needs a table of the population in a search.")
        return 1 / np.maximum(table.persons, table.sizes)

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        return self._of_classes(table) > self.threshold * (1 + 1e-12)

    @override
    def amount(self, table: CandidateClasses) -> float:
        return self.of_records(np.repeat(self._of_classes(table), table.sizes))

    @override
    def urgency(self, table: CandidateClasses) -> Numbers:
        return 1 / self._of_classes(table)

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
            return f"a marketer is expected to get {digits(risks.expected)} of {plural(n)} right"
        return (
            f"a {self.attacker} is right for {digits(100 * risks.mean)} % of {plural(n)}, with probability "
            f"{digits(risks.largest)} for the one at most risk, and with probability above {self.threshold:g} for {above:,}"
        )


class AnyIdentified(RiskMeasure):
    """The probability that at least one record is identified when a snooper goes for all of them, 1 - Π(1 - r).

    r is the risk of a record: 1/f for a prosecutor, who knows who is in the release; 1/F for a journalist, counted in the
    snooper's population table, or expected as in `IndividualRisk` where he has none. Records count as identified
    independently of each other. Per record: r.
    """

    title: ClassVar[str] = "chance that a {self.attacker} identifies anybody"
    sentence: ClassVar[str] = "the chance that anybody is identified is {percent_digits} %"

    attacker: Literal["prosecutor", "journalist"] = param(
        default="journalist", doc="whether he knows who is in the release (prosecutor: 1/f) or not (journalist: 1/F)"
    )
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

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
            f"{count_of(digits(risks.expected), risks.records, ('is', 'are'))} expected to be",
            details=details,
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, risks.risk),
        )
        return replace(score, variant=f"{risks.source}; {RULES[self.missing]}")
