"""How likely a record is identified by its keys: 1 / (how many look the same), counted or estimated, for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes, Missing
from sfumato.contract import Release, Snooper
from sfumato.errors import NotApplicable, some
from sfumato.risk.keys import nothing_in_common, population_classes, released_classes

Numbers = NDArray[np.float64]

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
    found = released_classes(outcome, snooper, missing)
    risk = 1 / found.matches
    return _counted(found, risk, risk, "f counted in the release", snooper)


def in_population(outcome: Release, snooper: Snooper, missing: Missing, fraction: float | None = None) -> ClassRisks:
    """Return 1/F for each class: counted in the snooper's population table, or expected from a sample where he has none."""
    if snooper.population is None:
        return expected_in_population(outcome, snooper, missing, fraction)
    found = released_classes(outcome, snooper, missing)
    people = population_classes(snooper.population, found, snooper)
    counts = found.counts_in(people)
    lacking = int(found.sizes[counts < found.sizes * (1 - 1e-9)].sum())
    if lacking and (name := nothing_in_common(found, people)):
        raise NotApplicable(
            f"no value of key '{name}' in the release is in the population table. Code it there as it is released: recoded in "
            "the same way, with the same labels, numbers as numbers and text as text."
        )
    if lacking:
        raise NotApplicable(
            f"the population table has fewer persons than the release for the keys of {lacking:,} of "
            f"{some(int(found.sizes.sum()))}, so it is no table of their population. Recode its keys as the release's, "
            "or leave keys that were changed at random out of the snooper's keys."
        )
    return _counted(found, 1 / counts, 1 / found.sizes, "F counted in the population table", snooper)


def _counted(found: Classes, risk: Numbers, most: Numbers, source: str, snooper: Snooper) -> ClassRisks:
    return ClassRisks(found, risk, np.zeros(len(found)), most, source).times(snooper.match_probability)


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
    found = released_classes(outcome, snooper, missing, weighted=fraction is None)
    f, below = found.matches, 0
    if fraction is None:
        p = f / found.matched_weights
        below = int(found.sizes[p > 1 + 1e-9].sum())
        if below > _FEW * found.sizes.sum():
            raise NotApplicable(
                f"for {below:,} of {some(int(found.sizes.sum()))} the survey weights of the matching records add up to "
                "fewer persons than records. A weight must say how many persons of the population a record stands for, 1 or "
                "more on average; scale the weights up, or give the share of the population that is in the file (fraction)."
            )
        source = "F expected from the survey weights under a negative binomial model"
    else:
        p = np.full(len(found), fraction)
        source = f"F expected from a sampling fraction of {fraction:g} under a negative binomial model"
    from sfumato.kernels.negative_binomial import reciprocal_moments

    mean, square = reciprocal_moments(f, np.minimum(p, 1))
    # a variance that is 0 comes out as a rounding error of either sign
    variance = np.where(p < 1, np.maximum(square - mean**2, 0), 0.0)
    return ClassRisks(found, mean, variance, 1 / f, source, below).times(snooper.match_probability)


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
