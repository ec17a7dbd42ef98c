"""The shape of every measure, risk and utility alike, and several measures as one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import Parametric, param
from sfumato.contract.release import Release, subgroups, values_by_group
from sfumato.contract.release_model import NoiseModel, ReleaseModel
from sfumato.contract.score import Score, Side
from sfumato.contract.snooper import Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.lazy import stats
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers


class Estimated(Parametric, abstract=True):
    """A number that is estimated by replication: one outcome gives observations, and their means give the number."""

    side: ClassVar[Side]
    title: ClassVar[str] = ""
    """What it is called in a legend: a template, in which `{self.k}` is a parameter."""

    def value(self, means: Numbers) -> Numbers:
        """Return the measure from means of observations; shape (..., k) to (...)."""
        return means[..., 0]

    def label(self) -> str:
        """Return a few words for a legend: the title, with the parameters in their places."""
        return self.title.format(self=self)

    @property
    def variant(self) -> str:
        """Which of several definitions this is, for the Score."""
        return ""

    @property
    def size(self) -> int:
        """How many numbers `observe` returns."""
        return 1

    @property
    def replications(self) -> int:
        """How many releases it takes, at least, before its value says much."""
        return 2

    def estimate(self, observations: Numbers, level: float = 0.95) -> tuple[float, tuple[float, float] | None]:
        """Return the value and its interval from replicated observations, shape (replications, k).

        The interval is the jackknife's, on the logarithm where the value is positive; None for one replication.
        """
        count = len(observations)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(self.value(observations.mean(axis=0)))
            if count < 2:
                return value, None
            left_out = self.value((observations.sum(axis=0) - observations) / (count - 1))
        if not math.isfinite(value) or not np.isfinite(left_out).all():
            constant = bool((observations == observations[0]).all())
            return value, (value, value) if constant else None
        quantile = float(stats.t.ppf(0.5 + level / 2, count - 1))
        positive = value > 0 and bool((left_out > 0).all())
        parts = np.log(left_out) if positive else left_out
        half = quantile * math.sqrt((count - 1) / count * float(((parts - parts.mean()) ** 2).sum()))
        if positive:
            return value, (value * math.exp(-half), value * math.exp(half))
        return value, (value - half, value + half)


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

    def beside(self, data: Microdata) -> tuple[str, ...]:
        """Return further columns of these data that `observe` looks at, where they are released."""
        return ()

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

    @override
    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        snooper = snooper or Snooper()
        self.check(outcome, snooper)
        return self.prepare(outcome.original).assess(outcome, snooper)


def reciprocal(means: Numbers) -> Numbers:
    """Return 1 / mean, infinite where the mean is zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.asarray(means, np.float64))


# Several measures as one: a weighted sum, or the worst (R-U paper, section 6).


class Combination(Measure, abstract=True):
    """Several measures of one side, combined after each has been estimated.

    Numbers in different units must not be mixed unawares: give `scales` (what each is divided by: its own threshold,
    or its value for the unmasked file) unless all parts have the same unit.
    """

    parts: tuple[Measure, ...] = param(doc="measures of one side")
    scales: tuple[float, ...] | None = param(default=None, doc="what each part is divided by; nothing if not given")

    @override
    def validate(self) -> None:
        parts = tuple(self.parts) if isinstance(self.parts, list | tuple) else (self.parts,)
        if not parts or not all(isinstance(p, Measure) for p in parts):
            raise ParameterError(f"{self.name} needs a list of measures, at least one.")
        object.__setattr__(self, "parts", parts)
        if len({p.side for p in self.parts}) > 1:
            raise ParameterError(f"{self.name} cannot mix risk and utility.")
        if len({p.design for p in self.parts}) > 1:
            raise ParameterError(f"{self.name} cannot mix target = population and target = file.")
        if self.scales is not None:
            scales = _numbers(self.scales)
            if len(scales) != len(self.parts) or not all(s > 0 for s in scales):
                raise ParameterError(f"{self.name} needs one positive scale for each of its {len(self.parts)} parts.")
            object.__setattr__(self, "scales", scales)

    @property
    def side(self) -> Side:  # type: ignore[override]
        """The parts' side."""
        return self.parts[0].side

    @property
    def design(self) -> Design:
        """The parts' design."""
        return self.parts[0].design

    @override
    @property
    def size(self) -> int:
        return sum(p.size for p in self.parts)

    @override
    @property
    def replications(self) -> int:
        return max(p.replications for p in self.parts)

    @override
    @property
    def variant(self) -> str:
        return "; ".join(p.label() for p in self.parts)

    @override
    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        names = [p.columns(schema) for p in self.parts]
        if any(n is None for n in names):
            return None
        return tuple(dict.fromkeys(n for part in names for n in part or ()))

    def beside(self, data: Microdata) -> tuple[str, ...]:
        """Return those of every part."""
        return tuple(n for p in self.parts for n in p.beside(data))

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Prepare every part."""
        return self.with_(parts=tuple(p.prepare(data, model) for p in self.parts))

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Check every part."""
        for p in self.parts:
            p.check(outcome, snooper)

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the observations of all parts, one after the other."""
        return np.concatenate([np.atleast_1d(p.observe(outcome, snooper)) for p in self.parts])

    def value(self, means: Numbers) -> Numbers:
        """Combine the parts' values."""
        ends = np.cumsum([p.size for p in self.parts])
        values = [p.value(means[..., end - p.size : end]) for p, end in zip(self.parts, ends, strict=True)]
        return self.combine(np.stack(values, axis=-1) / np.array(self.scales or [1.0] * len(self.parts)))

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Combine the parts' formulas, if all have one."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Combine the parts' formulas, if all have one."""
        values = [p.by_formula(model, snooper) for p in self.parts]
        known = [v for v in values if v is not None]
        if len(known) < len(values):
            return None
        return float(self.combine(np.array(known) / np.array(self.scales or [1.0] * len(known))))

    @abstractmethod
    def combine(self, values: Numbers) -> Numbers:
        """Return one value from the parts' (scaled) values, shape (..., parts) to (...)."""


class Weighted(Combination):
    """A weighted sum of measures of one side."""

    weights: tuple[float, ...] = param(
        default=(), doc="one weight for each part; equal weights that sum to 1 if none are given"
    )

    @override
    def validate(self) -> None:
        super().validate()
        none = isinstance(self.weights, list | tuple) and not len(self.weights)
        weights = (1 / len(self.parts),) * len(self.parts) if none else _numbers(self.weights)
        if len(weights) != len(self.parts) or any(w < 0 for w in weights) or not sum(weights) > 0:
            raise ParameterError(f"weighted needs one weight of at least 0 for each of its {len(self.parts)} parts.")
        object.__setattr__(self, "weights", weights)

    def combine(self, values: Numbers) -> Numbers:
        """Return Σ weight × value; a part with weight 0 does not count."""
        used = np.array(self.weights) > 0
        return np.asarray((values[..., used] * np.array(self.weights)[used]).sum(axis=-1))

    @override
    def label(self) -> str:
        return f"weighted {self.side} of {len(self.parts)}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return " + ".join(f"{w:g} × {p.label()}" for w, p in zip(self.weights, self.parts, strict=True))


class Worst(Combination):
    """The worst of several measures: the largest risk, or the smallest utility."""

    def combine(self, values: Numbers) -> Numbers:
        """Return the largest risk or the smallest utility."""
        return np.asarray(values.max(axis=-1) if self.side is Side.RISK else values.min(axis=-1))

    @override
    def label(self) -> str:
        return f"worst {self.side} of {len(self.parts)}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        kind = "largest" if self.side is Side.RISK else "smallest"
        return f"the {kind} of: " + ", ".join(p.label() for p in self.parts)


def _numbers(given: Sequence[float]) -> tuple[float, ...]:
    """Return finite numbers; nothing if some are not, or if it is no list."""
    try:
        numbers = tuple(float(g) for g in given)
    except (TypeError, ValueError):
        return ()
    return numbers if all(math.isfinite(n) for n in numbers) else ()
