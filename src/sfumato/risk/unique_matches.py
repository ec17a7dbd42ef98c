"""Unique matches: how often one is the right person, and which unique people are unique in the release as well."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.attacks.attacker_file import RULES, check_in_common, check_keys, key_names, missing_rule, people_of
from sfumato.charts.captions import counted
from sfumato.contract import Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data.classes import Classes, Missing, classes_of
from sfumato.errors import NotApplicable, count_of, plural
from sfumato.risk.keys import RiskMeasure, released_classes
from sfumato.risk.population_uniques import (
    Frequencies,
    fraction_parameter,
    fraction_source,
    frequencies_of,
    household_warning,
    sampling_fraction,
)
from sfumato.typing import Flags, Numbers

Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""


class MatchRisk(RiskMeasure):
    """θ = P(correct match | unique match): of the persons who match a unique released record, the share who are its own.

    θ = n₁ / Σ F over the n₁ unique records, where F persons of the population have the record's keys. Who takes a person
    at random from the population and finds that he matches exactly one released record is right with this probability.
    θ is estimated without a model: the persons outside the file who match a unique record show in how many keys two records
    share. The interval is for θ of this very file.
    """

    title: ClassVar[str] = "probability that a unique match is correct"
    sentence: ClassVar[str] = "a person who matches exactly one record is its own with probability {digits}"

    fraction: float | None = fraction_parameter()
    weights: Literal["each", "mean"] = param(
        default="each", doc="how weights count where no fraction is given: each record's own, or one fraction for all"
    )
    missing: Missing = missing_rule()

    @override
    @property
    def variant(self) -> str:
        own = self.fraction is None and self.weights == "each"
        how = "each record's own weight" if own else f"equal probabilities, {fraction_source(self.fraction)}"
        return f"{how}; {RULES[self.missing]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Estimate θ from the keys that one, two and three records share."""
        released = released_classes(outcome, snooper, self.missing, weighted=self.fraction is None)
        pi = sampling_fraction(released, self.fraction)
        seen = frequencies_of(released)
        unique = seen.at(1)
        if unique == 0:
            raise NotApplicable(
                "no released record is unique on the keys, so nobody matches exactly one record and there is no unique match "
                "to be right or wrong. Try more keys, or a measure of all records such as individual risk."
            )
        own = self.fraction is None and self.weights == "each"
        others, variance = outside_by_weight(released) if own else outside(seen, pi)
        low, high = outside_interval(others, variance, pi)
        value, count = unique / (unique + others), round(unique + others)
        persons = (
            f"{plural(count, 'person')} {'matches' if count == 1 else 'match'} {'it' if unique == 1 else 'one of them'}"
        )
        return self.result(
            value,
            f"{count_of(round(unique), int(released.sizes.sum()), ('is', 'are'))} unique; in the population about {persons}, "
            f"so that a unique match is correct with probability {digits(value)}"
            f"{household_warning(outcome) if pi < 1 else ''}",
            interval=(unique / (unique + high), unique / (unique + low)),
            details={
                "unique records": unique,
                "keys shared by two records": seen.at(2),
                "persons who match a unique record": unique + others,
                "sampling fraction": pi,
            },
        )


def outside(seen: Frequencies, pi: float) -> tuple[float, float]:
    """Return an estimate of A = Σ (F - 1) over unique records, and the variance of its error, under Bernoulli sampling.

    (F-1)·P(f=1) = 2(1-π)/π·P(f=2), so A is estimated by 2(1-π)n₂/π. Its error is a sum over keys of
    (F-1)·[f=1] - 2(1-π)/π·[f=2], of mean 0 each; since (F-1)(F-2)·P(f=1) = 6(1-π)²/π²·P(f=3), the variance has the unbiased
    estimate (1-π)/π²·{2(2-π)n₂ + 6(1-π)n₃} (Skinner and Elliot 2002, section 4).

    >>> outside(Frequencies(np.array([1.0, 2.0]), np.array([10.0, 3.0])), 0.5)
    (6.0, 18.0)
    """
    two, three = seen.at(2), seen.at(3)
    return 2 * (1 - pi) / pi * two, (1 - pi) / pi**2 * (2 * (2 - pi) * two + 6 * (1 - pi) * three)


def outside_by_weight(released: Classes) -> tuple[float, float]:
    """Return the same where record i was drawn with probability 1/w_i (Skinner and Carter 2003).

    A is estimated by Σ (w_j - 1) over the records whose key two records share, j being the other; the variance has
    2·Σ (w_i - 1)(w_j - 1) over pairs of records in a key that three share, which is at most (Σ (w_i - 1))²·2/3: that is used,
    since it needs no more than the sum of weights, and is exact for equal weights.
    """
    f, w, own = released.matches, released.matched_weights, np.asarray(released.weights, np.float64)
    two, three = f == 2, f == 3
    others = float(np.maximum(released.sizes * w - own - released.sizes, 0.0)[two].sum())
    more, keys = np.maximum(w - f, 0.0), released.sizes / f
    return others, others + float(keys[two] @ more[two] ** 2) + float(keys[three] @ more[three] ** 2) * 2 / 3


def outside_interval(others: float, variance: float, pi: float) -> tuple[float, float]:
    """Return a 95 % interval for A, whose error has a variance proportional to A: (A - Â)² ≤ z²φA.

    φ is variance / Â. Where no key is shared by two records, Â is 0 and φ that of keys shared by at most two: (2-π)/π. The lower
    limit takes half a shared key off Â first (continuity correction): where few keys are shared it would be too high.
    """
    if pi == 1:
        return 0.0, 0.0
    ratio = variance / others if others > 0 else (2 - pi) / pi

    def limit(middle: float, sign: float) -> float:
        return middle + Z**2 * ratio / 2 + sign * Z * math.sqrt(ratio * middle + (Z * ratio / 2) ** 2)

    low = max(limit(max(others - (1 - pi) / pi, 0.0), -1), 0.0)
    return low, max(limit(others, 1), Z * math.sqrt(variance))


class ReplicatedUniques(RiskMeasure):
    """The share of original records that are unique on the keys, and match exactly one released record (repU).

    Whoever looks such a person up finds one record, and takes it for the person's: in a synthetic file too, where it is
    nobody's. No alignment is needed. It is about identity; what the record then says is for `Disco`. The snooper knows
    everybody's keys. Per record: 1 if replicated, else 0. Source: Raab, Nowok and Dibben 2024.
    """

    title: ClassVar[str] = "replicated uniques"
    sentence: ClassVar[str] = (
        "{percent:.3g} % of the original records are unique on the keys, and unique in the release"
    )

    missing: Missing = missing_rule()

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records that are unique in both files."""
        return float(values.mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records that are unique in both files."""
        names = key_names(outcome, snooper)
        check_keys(outcome, snooper, names)
        released = released_classes(outcome, snooper, self.missing)
        original = self._original(outcome, snooper, names)
        n = int(original.sizes.sum())
        if not n:
            raise NotApplicable("the original file has no record with the keys, so that nobody can be looked up.")
        for i, name in enumerate(names):
            check_in_common(name, *((side.codes[i], side.values[i]) for side in (original, released)))
        found = original.counts_in(replace(released, weights=None))  # records, not what they stand for
        unique = original.matches == 1
        both = unique & (found == 1)

        def count(which: Flags) -> int:
            return int(original.sizes[which].sum())

        return self.result(
            count(both) / n,
            f"unique on {', '.join(names)} and found in one released record alone: {count(both):,} of "
            f"{counted(n, 'original record')}",
            details={
                "UiO": count(unique) / n,
                "UiOiS": count(unique & (found > 0)) / n,
                "UiS": float(released.sizes[released.matches == 1].sum()) / float(released.sizes.sum()),
                "records replicated": float(count(both)),
                "records left out": float(original.records - n),
            },
            find_records=lambda: original.per_record(np.asarray(both, np.float64)),
        )

    def _original(self, outcome: Release, snooper: Snooper, names: tuple[str, ...]) -> Classes:
        key = ("original classes", names, self.missing, tuple(sorted(snooper.precision.items())))
        if key not in outcome.memory:
            people = people_of(outcome, snooper, outcome.original, names, None, None)
            outcome.memory[key] = classes_of(people, names, self.missing, None, snooper.precision)
        found: Classes = outcome.memory[key]
        return found
