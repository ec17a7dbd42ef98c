"""k-anonymity, k-map and δ-presence."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.attacks.attacker_file import key_names, missing_rule
from sfumato.contract import CandidateClasses, ClassModel, Need, Release, Score, Snooper, param
from sfumato.contract.class_model import ROUNDING
from sfumato.data.classes import Classes, Missing
from sfumato.errors import NotApplicable, ParameterError, count_of
from sfumato.risk.keys import RiskMeasure, of_original, population_classes, released_classes
from sfumato.typing import Flags, Numbers


class KAnonymity(RiskMeasure, ClassModel):
    """The share of released records that match fewer than k records on the snooper's keys, themselves included.

    The file is k-anonymous when the share is 0. The smallest number of matching records stands in the details: it is the
    largest k for which the file is k-anonymous. Per record: the number of records that match it.
    Source: Samarati 2001; Sweeney 2002.
    """

    closed: ClassVar[bool] = True
    title: ClassVar[str] = "records below {self.k}-anonymity"
    sentence: ClassVar[str] = "{percent:.3g} % of the records match fewer than {self.k} records on the keys"

    k: int = param(default=3, doc="how many records must look the same", low=2, integer=True)
    missing: Missing = missing_rule()
    alpha: float = param(
        default=1.0,
        doc="under wildcard, how much a record with a missing key counts as a match of records unlike it: 1 as any, 0 nothing",
        low=0,
        high=1,
    )

    @override
    def validate(self) -> None:
        if self.alpha != 1 and self.missing != "wildcard":
            raise ParameterError(
                "alpha of k_anonymity is for missing='wildcard': under other rules no missing key matches."
            )

    @override
    @property
    def variant(self) -> str:
        return super().variant + ("" if self.alpha == 1 else f", and counts {self.alpha:g} as a match of others")

    @override
    @property
    def least(self) -> int:
        return self.k

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        return np.asarray(table.sizes < self.k)

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records that match fewer than k; their values count those that match."""
        return float((values < self.k).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records below k."""
        released = released_classes(outcome, snooper, self.missing)
        # sums of 0.1 are whole again where they should be
        f = released.matches if self.alpha == 1 else np.round(released.matching(released.sizes, self.alpha), 9)
        n = int(released.sizes.sum())
        below, smallest = int(released.sizes[f < self.k].sum()), f.min()
        return self.result(
            below / n,
            f"{count_of(below, n, ('matches', 'match'))} fewer than {self.k} records on "
            f"{', '.join(key_names(outcome, snooper))}; the fewest that any record matches is {smallest:,.9g}",
            details={
                "records below k": float(below),
                "unique records": float(released.sizes[f == 1].sum()),
                "smallest class": float(smallest),
                "classes": float(len(released)),
                "records left out": float(released.records - n),
            },
            find_records=None if not outcome.aligned else lambda: of_original(outcome, released, np.asarray(f)),
        )


class KMap(RiskMeasure, ClassModel):
    """The share of released records that match fewer than k persons of the population on the snooper's keys.

    It is to the population what k-anonymity is to the released file. A record whose keys nobody in the population has counts as
    below k, and the number of these stands in the details. Per record: how many persons match it. Source: Sweeney 2001.
    """

    closed: ClassVar[bool] = True
    title: ClassVar[str] = "records below a {self.k}-map"
    sentence: ClassVar[str] = "{percent:.3g} % of the records match fewer than {self.k} persons of the population"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.POPULATION})

    k: int = param(default=3, doc="how many persons must look the same", low=2, integer=True)
    missing: Missing = missing_rule()

    @override
    @property
    def uses_population(self) -> bool:
        return True

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        return np.round(persons_of(table), 6) < self.k

    def of_records(self, values: Numbers) -> float:
        """Return the share of some records that fewer than k persons match; their values count those."""
        return float((values < self.k).mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records below k."""
        found, _, persons = population_matches(outcome, snooper, self.missing)
        persons, n = np.round(persons, 6), int(found.sizes.sum())
        below, fewest = int(found.sizes[persons < self.k].sum()), float(persons.min())
        return self.result(
            below / n,
            f"{count_of(below, n, ('matches', 'match'))} fewer than {self.k} persons of the population on "
            f"{', '.join(key_names(outcome, snooper))}; the fewest that any record matches is {fewest:,.6g}",
            details={
                "records below k": float(below),
                "fewest persons": fewest,
                "records that nobody matches": float(found.sizes[persons == 0].sum()),
                "records left out": float(found.records - n),
            },
            find_records=(lambda: of_original(outcome, found, persons)) if outcome.aligned else None,
        )


def persons_of(table: CandidateClasses) -> Numbers:
    """Return how many persons look like each class, shape (c,); refuse where there is no table of the population."""
    if table.persons is None:
        raise NotApplicable(f"this needs {Need.POPULATION}.")
    return table.persons


def population_matches(outcome: Release, snooper: Snooper, missing: Missing) -> tuple[Classes, Classes, Numbers]:
    """Return the classes of the release and of the population, and how many persons match each of the release's, shape (c,)."""
    released = released_classes(outcome, snooper, missing)
    if snooper.population is None:
        raise NotApplicable(f"this needs {Need.POPULATION}; give it with Snooper(population=...).")
    population = population_classes(snooper.population, released, snooper)
    persons = released.counts_in(population)
    if not (persons > 0).any():
        raise NotApplicable(
            "nobody in the population has the keys of a released record. Code the population's keys as they are released: "
            "recoded in the same way, with the same labels."
        )
    return released, population, persons


class DeltaPresence(RiskMeasure, ClassModel):
    """The largest probability with which a snooper who has a table of the population can say that a person is in the file.

    Of the F persons with the same keys f are released, so each of them is in the file with probability f/F. The release is
    (δ_min, δ_max)-present if every person's probability lies between the two. A released record with missing keys, which
    match anything, may be that of any person it matches, each equally likely. Per record: the probability of its person.
    Source: Nergiz, Atzori, Clifton 2007.
    """

    title: ClassVar[str] = "largest probability of presence"
    sentence: ClassVar[str] = "a snooper can say of somebody, with probability {value:.3g}, that he is in the file"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.POPULATION})

    delta_max: float = param(default=0.5, doc="the largest probability that is allowed", low=0, high=1)
    delta_min: float = param(default=0.0, doc="the smallest probability that is allowed", low=0, high=1)
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        if self.delta_min > self.delta_max:
            raise ParameterError(
                f"delta_min of delta_presence must be at most delta_max, but they are {self.delta_min:g} and {self.delta_max:g}."
            )

    @override
    @property
    def uses_population(self) -> bool:
        return True

    @override
    def breaks(self, table: CandidateClasses) -> Flags:
        present = _present(table)
        return (present > self.delta_max + ROUNDING) | (present < self.delta_min - ROUNDING)

    @override
    def hopeless(self, table: CandidateClasses) -> bool:
        # somebody who is like no released record is present with probability 0
        reached = float(persons_of(table).sum())
        return self.delta_min > ROUNDING and reached < (table.total or reached) * (1 - ROUNDING)

    @override
    def amount(self, table: CandidateClasses) -> float:
        return float(_present(table).max(initial=0.0))

    @override
    def urgency(self, table: CandidateClasses) -> Numbers:
        return 1.0 - _present(table)

    @override
    def allows(self, score: Score) -> bool:
        smallest = score.details["smallest probability"]
        return score.value <= self.delta_max + ROUNDING and smallest >= self.delta_min - ROUNDING

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the probability of each person."""
        found, population, persons = population_matches(outcome, snooper, self.missing)
        somebody = persons > 0
        # each record adds 1/F to each of the F persons whose it may be
        parts = np.where(somebody, found.sizes / np.where(somebody, persons, 1.0), 0.0)
        present = np.minimum(population.counts_in(replace(found, weights=parts)), 1.0)
        sizes = np.asarray(population.sizes if population.weights is None else population.weights, np.float64)
        above, below = present > self.delta_max + ROUNDING, present < self.delta_min - ROUNDING
        largest, smallest, total = float(present.max()), float(present.min()), float(sizes.sum())

        def records() -> Numbers:
            sums = found.counts_in(replace(population, weights=sizes * present))
            return np.asarray(
                of_original(outcome, found, np.where(somebody, sums / np.where(somebody, persons, 1), np.nan))
            )

        return self.result(
            largest,
            f"a snooper who knows {', '.join(key_names(outcome, snooper))} can say of somebody, with probability {largest:.3g}, "
            f"that he is in the file; of {float(sizes[above].sum()):,.0f} of {total:,.0f} persons with more than "
            f"{self.delta_max:g}",
            details={
                "persons above delta_max": float(sizes[above].sum()),
                "persons below delta_min": float(sizes[below].sum()),
                "smallest probability": smallest,
                "persons in the population": total,
                "records that nobody matches": float(found.sizes[~somebody].sum()),
                "records left out": float(found.records - found.sizes.sum()),
            },
            find_records=records if outcome.aligned else None,
        )


def _present(table: CandidateClasses) -> Numbers:
    """Return the share of the persons of each class who are in the file, shape (c,); 0 where there are none."""
    persons = persons_of(table)
    return np.where(persons > 0, np.minimum(table.sizes / np.where(persons > 0, persons, 1.0), 1.0), 0.0)
