"""The shape of every measure: risk and utility alike."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.estimated import Estimated
from sfumato.contract.model import NoiseModel, ReleaseModel
from sfumato.contract.release import Release
from sfumato.contract.score import Score
from sfumato.contract.snooper import Snooper
from sfumato.contract.subgroups import subgroups, values_by_group
from sfumato.errors import DataError, NotApplicable
from sfumato.microdata import Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
Design = Literal["file", "population"]


class Need(StrEnum):
    """What a measure needs beyond the two files."""

    ALIGNMENT = "which released record came from which original record"
    HOLDOUT = "records set aside before masking"
    WEIGHTS = "survey weights"
    POPULATION = "a file or table of the population"


class Measure(Estimated, family="measure", abstract=True):
    """A number about a release.

    A measure is an expectation over the randomness of the mask, estimated by replication: `observe` turns one
    release into one or a few numbers whose means matter, and `value` turns those means into the measure. So a mean
    squared error is averaged before it is inverted. `score` does both for a single release.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()

    @abstractmethod
    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return what one release contributes, shape (k,)."""

    @abstractmethod
    def words(self, value: float, schema: Schema) -> str:
        """Return what a value means, in natural units."""

    @property
    def design(self) -> Design:
        """Whether a replication masks the file itself, or first draws records afresh from the population."""
        return "file"

    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        """Return the columns that `observe` looks at; None for all."""
        return None

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Return the measure with what it needs to know of the original; refuse data it cannot use.

        Where records are drawn from a known population, `model` holds its true moments.
        """
        return self

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Refuse, in words, an outcome or a snooper that lacks what the measure needs."""
        if Need.POPULATION in self.needs and (snooper is None or snooper.population is None):
            raise NotApplicable(f"'{self.label()}' needs {Need.POPULATION}; give it with Snooper(population=...).")
        if Need.ALIGNMENT in self.needs:
            outcome.check_aligned(f"'{self.label()}'")
        if Need.HOLDOUT in self.needs and outcome.holdout is None:
            raise NotApplicable(f"'{self.label()}' needs {Need.HOLDOUT}; set some aside before masking.")
        if Need.WEIGHTS in self.needs and outcome.original.schema.one("weight") is None:
            raise NotApplicable(f"'{self.label()}' needs {Need.WEIGHTS}; give a column the role 'weight'.")

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the value under a normal model with additive noise, where a formula is known."""
        return None

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Return the value under whatever model a recipe has, where a formula is known; of additive noise, `analytic`."""
        return self.analytic(model, snooper) if isinstance(model, NoiseModel) else None

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release."""
        self.check(outcome, snooper)
        ready = self.prepare(outcome.original)
        with np.errstate(invalid="ignore", over="ignore"):
            observation = np.atleast_1d(ready.observe(outcome, snooper or Snooper()))
        score = ready.to_score(observation[None, :], outcome.original.schema)
        if math.isnan(score.value):
            raise DataError(
                f"'{self.label()}' has no value here: are there infinite or very large numbers in the data?"
            )
        return score

    def score_by(self, outcome: Release, column: str, snooper: Snooper | None = None) -> Score:
        """Measure one release as a whole, and in `Score.groups` for each value of a column; see `subgroups`.

        A measure that is made of its per-record values is made of those of the group's records, in the file as it is: a
        snooper looks for them in the whole file, and need not know the group (see `in_groups`). Any other measures each group
        as if it were the file. Groups in which the measure has no value (too few records, nothing that varies) are NaN.
        """
        whole = self.score(outcome, snooper)
        groups = self.in_groups(whole, outcome, column)
        if groups is None:
            groups = {name: self.score_alone(part, snooper) for name, part in subgroups(outcome, column)}
        return replace(whole, groups=groups)

    def score_alone(self, part: Release, snooper: Snooper | None = None) -> float:
        """Return the measure of a subgroup as if it were the file; NaN where it has no value there."""
        try:
            return self.score(part, snooper).value
        except (DataError, NotApplicable):
            return math.nan

    def of_records(self, values: Numbers) -> float | None:
        """Return the measure of some of the records of a file from their `Score.records`; None where it is not made of them.

        Of all the records it is the measure of the file. There is at least one value, and none is NaN.
        """
        return None

    def in_groups(self, whole: Score, outcome: Release, column: str) -> dict[str, float] | None:
        """Return what the per-record values of the whole file are in each subgroup; None where the measure is not made of them.

        A group whose records the measure says nothing of is NaN.
        """
        if self.of_records(np.zeros(1)) is None or whole.records is None:
            return None
        groups = {}
        for name, values in values_by_group(outcome, column, whole.records):
            found = self.of_records(values[~np.isnan(values)]) if not np.isnan(values).all() else None
            groups[name] = math.nan if found is None else found
        return groups

    def to_score(self, observations: Numbers, schema: Schema) -> Score:
        """Return the score of replicated observations, shape (replications, k)."""
        value, interval = self.estimate(observations)
        return Score(self.label(), self.side, value, self.words(value, schema), interval, variant=self.variant)


class DirectMeasure(Measure, abstract=True):
    """A measure that is worked out from one release at once: its number with its words, companions and per-record vector."""

    @abstractmethod
    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Return the score of one release; see `result`."""

    def result(self, value: float, words: str, **facts: Any) -> Score:
        """Return a score of this measure; `facts` are the other fields of a Score."""
        return Score(self.label(), self.side, float(value), words, variant=self.variant, **facts)

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the value of one release, shape (1,)."""
        return np.array([self.assess(outcome, snooper).value])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release."""
        snooper = snooper or Snooper()
        self.check(outcome, snooper)
        return self.prepare(outcome.original).assess(outcome, snooper)


def reciprocal(means: Numbers) -> Numbers:
    """Return 1 / mean, infinite where the mean is zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.asarray(means, np.float64))
