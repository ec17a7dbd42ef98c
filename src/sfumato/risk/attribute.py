"""Attribute risk: how closely a snooper predicts one person's value (R-U paper, equations 3.3 and 4.8)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.contract import Measure, Need, NoiseModel, Release, Score, Side, Snooper, learned, param, reciprocal
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.kernels.linear import mean_square_difference
from sfumato.microdata import Microdata, check_numeric
from sfumato.risk.prediction import Prediction, candidates, model_error, record_errors, spread_between
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
            return self.learn(range_=(centre + sd * float(ndtri(self.low)), centre + sd * float(ndtri(self.high))))
        known = data.numbers(self.column)
        known = known[~np.isnan(known)]
        if not len(known):
            raise DataError(f"column '{self.column}' has no values, so there is nothing to disclose.")
        ends = np.quantile(known, [self.low, self.high])
        return self.learn(range_=(float(ends[0]), float(ends[1])))

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean squared error over the targets, shape (1,)."""
        if snooper.strategy == "naive" and snooper.match_probability == 1 and (self.low, self.high) == (0.0, 1.0):
            mean = mean_square_difference(*outcome.pair(self.column))
            if not math.isnan(mean):
                return np.array([mean])
        errors = self._errors(outcome, snooper)
        return np.array([float(errors.mean() if not np.isnan(errors.sum()) else np.nanmean(errors))])

    def _errors(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the expected squared error of each matched record, NaN for those that are no target, shape (r,)."""
        x, y = outcome.pair(self.column)
        z = covariates(outcome, snooper) if snooper.covariates else np.zeros((len(x), 0))
        both = ~(np.isnan(x) | np.isnan(y) | np.isnan(z).any(axis=1))
        if not both.any():
            raise NotApplicable(f"no record has '{self.column}' both before and after masking.")
        if not both.all():
            errors = np.full(len(x), np.nan)
            errors[both] = self._known_errors(x[both], y[both], z[both], snooper)
        else:
            errors = self._known_errors(x, y, z, snooper)
        if (self.low, self.high) == (0.0, 1.0):
            return errors
        target = (x >= self.range_[0]) & (x <= self.range_[1])
        if not (target & both).any():
            raise NotApplicable(f"no record of '{self.column}' lies between quantiles {self.low:g} and {self.high:g}.")
        return np.where(target, errors, np.nan)

    def _known_errors(self, x: Numbers, y: Numbers, z: Numbers, snooper: Snooper) -> Numbers:
        needs_moments = snooper.strategy != "naive"
        joint = np.cov(np.column_stack([x, y, z]), rowvar=False, bias=True) if needs_moments else np.eye(2 + z.shape[1])
        choices = [record_errors(p, x, y, z, snooper.match_probability) for p in candidates(snooper, joint)]
        return min(choices, key=lambda e: float(e.mean()))

    def value(self, means: Numbers) -> Numbers:
        """Return the reciprocal of the mean squared error."""
        return reciprocal(means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the interval comes from the records, the per-record vector is 1 / squared error."""
        self.check(outcome)
        ready = self.prepare(outcome.original)
        errors = ready._errors(outcome, snooper or Snooper())
        known = errors[~np.isnan(errors)]
        score = ready.to_score(known[:, None], outcome.original.schema)
        return replace(
            score,
            records=outcome.per_original(reciprocal(errors)),
            details={"rms error": math.sqrt(float(known.mean())), "targets": float(len(known))},
            groups=self._by_group(outcome.pair(self.column)[0], errors),
        )

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
        wanted = (self.column, *snooper.covariates)
        if any(name not in model.names for name in wanted):
            return None
        x, *z = (model.at(name) for name in wanted)
        if any(model.noise[i].any() for i in z):
            return None
        joint = np.block(
            [
                [model.covariance[x, x], model.covariance[x, x], model.covariance[x, z]],
                [model.covariance[x, x], model.released[x, x], model.covariance[x, z]],
                [model.covariance[z, x][:, None], model.covariance[z, x][:, None], model.covariance[np.ix_(z, z)]],
            ]
        ) if z else np.array([[model.covariance[x, x]] * 2, [model.covariance[x, x], model.released[x, x]]])  # fmt: skip
        if not joint[0, 0] > 0:
            return math.inf  # a constant is known without looking (ERRATA 0.18)
        spread = 1.0 if (self.low, self.high) == (0.0, 1.0) else spread_between(self.low, self.high)

        def error(p: Prediction) -> float:
            return model_error(p, joint, snooper.match_probability, spread)

        choices = candidates(snooper, joint)
        best = min(choices, key=lambda p: model_error(p, joint, snooper.match_probability, 1.0))
        return float(reciprocal(np.asarray(max(error(best), 0.0))))


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
            parts.append(np.asarray(codes[:, None] == np.arange(1, len(values)), np.float64))
    return np.column_stack(parts)


def typical_error(lead: str, value: float, schema: Schema, column: str) -> str:
    """Return the root mean squared error behind a reciprocal, in words: "a snooper is typically off by 5.15 thousand dollars"."""
    unit = schema[column].unit if column in schema else ""
    if value == math.inf:
        return f"{lead} nothing at all"
    if not value > 0:
        return f"{lead} more than any amount"
    return f"{lead} {1 / math.sqrt(value):.3g}{f' {unit}' if unit else ''}"
