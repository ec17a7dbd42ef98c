"""Attribute risk: how closely a snooper predicts one person's value (R-U paper, equations 3.3 and 4.8)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.contract import (
    Measure,
    Need,
    NoiseModel,
    Release,
    ReleaseModel,
    Score,
    Side,
    Snooper,
    learned,
    param,
    reciprocal,
)
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.microdata import Microdata, check_numeric
from sfumato.risk.prediction import candidates, model_error, naive, record_errors, spread_between
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class AttributeRisk(Measure):
    """R = 1 / E(τ̂ - τ)², the reciprocal of the snooper's mean squared error for a target's value.

    The `Snooper` says what he knows: which record is the target's (or only with some probability), the noise level,
    other columns. `low` and `high` restrict the targets to a range of quantiles, to protect holders of extreme values:
    ``AttributeRisk("salary", low=0.99)`` is the risk of the top one percent.
    """

    side: ClassVar[Side] = Side.RISK
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    column: str = param(doc="the column a snooper wants to know", columns="one")
    low: float = param(default=0.0, doc="targets from this quantile of the true values", low=0, high=1)
    high: float = param(default=1.0, doc="targets up to this quantile of the true values", low=0, high=1)
    edges: tuple[float, ...] = param(
        default=(), doc="quantiles between which the score is also given by group of targets"
    )
    range_: Any = learned("column", "low", "high", default=None)
    population: Any = learned("column", default=None)

    def validate(self) -> None:
        """The range of targets must not be empty."""
        if not self.low < self.high:
            raise ParameterError(f"targets from quantile {self.low:g} to {self.high:g}: the range is empty.")
        edges = tuple(float(e) for e in self.edges)
        object.__setattr__(self, "edges", edges)
        if edges and (len(edges) < 2 or list(edges) != sorted(set(edges)) or edges[0] < 0 or edges[-1] > 1):
            raise ParameterError("edges must be rising quantiles between 0 and 1, such as (0, 0.5, 0.9, 0.99, 1).")

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"risk for {self.column}" + (f" ({self.variant})" if self.variant else "")

    @property
    def variant(self) -> str:
        """Which targets."""
        return "" if (self.low, self.high) == (0, 1) else f"targets between quantiles {self.low:g} and {self.high:g}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the snooper's typical error in the column's unit."""
        return typical_error("a snooper is typically off by", value, schema, self.column)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the column; what the snooper knows besides is his own affair."""
        return (self.column,)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Learn which true values the targets have."""
        check_numeric(data, self.column)
        if model is not None:
            centre, sd = model.mean[model.at(self.column)], math.sqrt(model.covariance[(model.at(self.column),) * 2])
            return self.learn(
                range_=(centre + sd * float(ndtri(self.low)), centre + sd * float(ndtri(self.high))), population=model
            )
        known = data.numbers(self.column)
        known = known[~np.isnan(known)]
        if not len(known):
            raise DataError(f"column '{self.column}' has no values, so there is nothing to disclose.")
        ends = np.quantile(known, [self.low, self.high])
        return self.learn(range_=(float(ends[0]), float(ends[1])))

    @property
    def everyone(self) -> bool:
        """Whether every record is a target."""
        return (self.low, self.high) == (0.0, 1.0)

    @property
    def size(self) -> int:
        """One number if every record is a target; else two, since the number of targets may vary."""
        return 1 if self.everyone else 2

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean squared error, shape (1,); of some targets: their squared errors and number per record, (2,)."""
        if snooper.strategy == "naive" and snooper.match_probability == 1 and self.everyone:
            from sfumato.kernels.linear import mean_square_difference

            mean = mean_square_difference(*outcome.pair(self.column))
            if not math.isnan(mean):
                return np.array([mean])
        errors = self._errors(outcome, snooper)
        if self.everyone:
            return np.array([float(errors.mean() if not np.isnan(errors.sum()) else np.nanmean(errors))])
        return np.array([np.nansum(errors), np.count_nonzero(~np.isnan(errors))]) / len(errors)

    def _errors(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the expected squared error of each matched record, NaN for those that are no target, shape (r,)."""
        key = ("squared errors", self.column, self.population is None, snooper)  # measures of other targets share them
        if key not in outcome.memory:
            outcome.memory[key] = self._all_errors(outcome, snooper)
        errors: Numbers = outcome.memory[key]
        if self.everyone:
            return errors
        x = outcome.pair(self.column)[0]
        return np.where((x >= self.range_[0]) & (x <= self.range_[1]), errors, np.nan)

    def _all_errors(self, outcome: Release, snooper: Snooper) -> Numbers:
        x, y = outcome.pair(self.column)
        z = covariates(outcome, snooper) if snooper.covariates else np.zeros((len(x), 0))
        both = ~(np.isnan(x) | np.isnan(y) | np.isnan(z).any(axis=1))
        if not both.any():
            raise NotApplicable(nobody_compared(self.column))
        if not both.all():
            errors = np.full(len(x), np.nan)
            errors[both] = self._known_errors(outcome, np.column_stack([x, y, z])[both], snooper)
            return errors
        return self._known_errors(outcome, np.column_stack([x, y, z]), snooper)

    def _known_errors(self, outcome: Release, known: Numbers, snooper: Snooper) -> Numbers:
        """Return the errors of records without gaps; `known` has columns x, y, z..., shape (n, 2 + q)."""
        x, y, z, m = known[:, 0], known[:, 1], known[:, 2:], snooper.match_probability
        if snooper.strategy == "naive":
            return record_errors(naive(z.shape[1]), x, y, z, m, np.zeros(known.shape[1]))
        if m == 1 and np.array_equal(x, y):
            return np.zeros(len(x))  # not masked: known exactly, whatever rounding says of a regression
        true = self._true_moments(outcome, snooper)
        mean, joint, held = true or (known.mean(axis=0), np.cov(known, rowvar=False, bias=True), m)
        choices = candidates(snooper, joint, held)
        if true is not None:  # he chooses once, not anew for each sample
            choices = [min(choices, key=lambda p: model_error(p, joint, held, 1.0))]
        return min((record_errors(p, x, y, z, m, mean) for p in choices), key=lambda e: float(e.mean()))

    def _true_moments(self, outcome: Release, snooper: Snooper) -> tuple[Numbers, Numbers, float] | None:
        """Return mean and covariance of (x, y, z...) in the population, and how often he holds the right value, where known."""
        if self.population is None or outcome.recipe is None:
            return None
        model = outcome.recipe.release_model(self.population, outcome.original.schema)
        found = None if model is None else model.joint((self.column, *snooper.covariates))
        if model is None or found is None:
            return None
        return *found, model.link(snooper.match_probability, self.column)

    def value(self, means: Numbers) -> Numbers:
        """Return the reciprocal of the mean squared error."""
        if means.shape[-1] == 1:
            return reciprocal(means[..., 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(means[..., 1] / means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the interval comes from the records, the per-record vector is 1 / squared error."""
        self.check(outcome)
        ready = self.prepare(outcome.original)
        errors = ready._errors(outcome, snooper or Snooper())
        known = errors[~np.isnan(errors)]
        if not len(known):
            raise NotApplicable(f"no record of '{self.column}' lies between quantiles {self.low:g} and {self.high:g}.")
        score = ready.to_score(known[:, None], outcome.original.schema)
        return replace(
            score,
            find_records=lambda: outcome.per_original(reciprocal(errors)),
            details={"rms error": math.sqrt(float(known.mean())), "targets": float(len(known))},
            groups=self._by_group(outcome.pair(self.column)[0], errors),
        )

    def of_records(self, values: Numbers) -> float:
        """Return the reciprocal of the mean squared error of some targets; their values are 1 / squared error."""
        return float(reciprocal(np.asarray(reciprocal(values).mean())))

    def _by_group(self, x: Numbers, errors: Numbers) -> dict[str, float]:
        """Return the risk of the targets between each two neighbouring quantiles."""
        ends = np.nanquantile(x, self.edges) if self.edges else np.zeros(0)
        groups = {}
        for i in range(len(ends) - 1):
            last = i == len(ends) - 2
            inside = (x >= ends[i]) & ((x <= ends[i + 1]) if last else (x < ends[i + 1])) & ~np.isnan(errors)
            if inside.any():
                name = f"targets between quantiles {self.edges[i]:g} and {self.edges[i + 1]:g}"
                groups[name] = float(reciprocal(np.asarray(errors[inside].mean())))
        return groups

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the risk under the normal model: (4.8) for the naive snooper, corrected by ERRATA 0.3 for the Bayes one."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Return the risk under the model of any recipe that releases a record for each person."""
        found = model.joint((self.column, *snooper.covariates))
        if found is None or not (self.everyone or model.extremes):
            return None
        _, joint = found
        if not joint[0, 0] > 0:
            return math.inf  # a constant is known without looking (ERRATA 0.18)
        spread = 1.0 if self.everyone else spread_between(self.low, self.high)
        m = model.link(snooper.match_probability, self.column)
        best = min(candidates(snooper, joint, m), key=lambda p: model_error(p, joint, m, 1.0))
        error = model_error(best, joint, m, spread)
        return float(reciprocal(np.asarray(error if error > 1e-14 * joint[0, 0] else 0.0)))  # less is rounding


def covariates(outcome: Release, snooper: Snooper) -> Numbers:
    """Return what else the snooper knows of each record, shape (r, q): numbers as they are, categories as dummies."""
    parts: list[Numbers] = []
    for name in snooper.covariates:
        column = outcome.original.batch([name]).column(name)
        if column.kind in (Kind.NUMBER, Kind.BOOLEAN):
            x, y = outcome.pair(name)
            if not np.array_equal(x, y, equal_nan=True):
                raise NotApplicable(f"the snooper is said to know '{name}' exactly, but the recipe masks it.")
            parts.append(x[:, None])
        else:
            outcome.check_aligned(f"a snooper who knows '{name}'")
            codes, values = column.codes
            left, _ = outcome.matched
            codes = codes if left is None else codes[left]
            levels = np.arange(-1 if (codes < 0).any() else 0, len(values))  # not answering is a category of its own
            parts.append(np.asarray(codes[:, None] == levels[1:], np.float64))
    return np.column_stack(parts)


def nobody_compared(column: str) -> str:
    """Return why there is nothing to compare, in words."""
    return (
        f"no record has '{column}' both before and after masking. Where the released records are new ones (averages, synthetic "
        "records) none is a person's own, and this measure does not apply."
    )


def typical_error(lead: str, value: float, schema: Schema, column: str) -> str:
    """Return the root mean squared error behind a reciprocal, in words: "a snooper is typically off by 5.15 thousand dollars"."""
    unit = schema[column].unit if column in schema else ""
    if value == math.inf:
        return f"{lead} nothing at all"
    if math.isnan(value):
        return "there is no target to measure"
    if not value > 0:
        return f"{lead} more than any amount"
    return f"{lead} {digits(1 / math.sqrt(value))}{f' {unit}' if unit else ''}"
