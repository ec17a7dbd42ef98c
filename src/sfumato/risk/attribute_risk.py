"""Attribute risk: how closely a snooper predicts one person's value, by noise or by a deterministic mask (R-U paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtri
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Measure, Need, NoiseModel, Release, ReleaseModel, Snooper, learned, param, reciprocal
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Kind
from sfumato.data.microdata import Microdata, check_numeric
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.risk.telling_columns import telling_columns
from sfumato.schema import Schema
from sfumato.typing import Numbers

# Every snooper here predicts linearly: τ̂ = a + b·(released value of the record he linked) + c·(what else he knows). The
# naive one takes the released value (b = 1). The Bayes one uses the best linear prediction, which for normal data is the
# posterior mean. If his linkage is right with probability m only, the record he links is otherwise a random one; then
# Cov(X, Y_linked) = m·Cov(X, Y), so he shrinks more.


@dataclass(frozen=True, eq=False)
class Prediction:
    """τ̂ = mean_x + b·(y - mean_y) + c·(z - mean_z); for the naive snooper a = 0, b = 1."""

    b: float
    c: Numbers
    centred: bool
    """Whether the prediction is about the means (Bayes) or takes y as it is (naive)."""


def best_linear(covariance: Numbers, m: float) -> Prediction:
    """Return the best linear prediction of x from (y, z...) when the link is right with probability m.

    `covariance` is that of (x, y, z...), shape (2 + q, 2 + q).
    """
    known = covariance[1:, 1:].copy()
    known[0, 1:] *= m
    known[1:, 0] *= m
    target = covariance[0, 1:].copy()
    target[0] *= m
    weights = _weights(known, target)
    return Prediction(float(weights[0]), weights[1:], True)


def _weights(known: Numbers, target: Numbers) -> Numbers:
    """Return the (least-norm) w with known · w = target, whatever the units of the columns."""
    scale = np.sqrt(np.diag(known))
    scale[scale == 0] = 1.0
    found = np.linalg.lstsq(known / np.outer(scale, scale), target / scale, rcond=1e-12)[0]
    return np.asarray(found / scale)


def naive(q: int) -> Prediction:
    """Return the prediction of the snooper who takes the released value as it is."""
    return Prediction(1.0, np.zeros(q), False)


def without_release(covariance: Numbers) -> Prediction:
    """Return the best prediction from what else is known, not looking at the released value."""
    z = covariance[2:, 2:]
    weights = _weights(z, covariance[0, 2:]) if len(z) else np.zeros(0)
    return Prediction(0.0, weights, True)


def candidates(snooper: Snooper, covariance: Numbers, m: float) -> list[Prediction]:
    """Return the predictions open to a snooper who holds the right value with probability m; the one of least error is his.

    A Bayes snooper who is not told the noise level cannot weigh the released value against what else he knows, but he
    can use either alone (a regression of the released column on unmasked ones is unbiased whatever the noise).
    """
    q = len(covariance) - 2
    if snooper.strategy == "naive":
        return [naive(q)]
    if snooper.parameter_published:
        return [best_linear(covariance, m)]
    return [naive(q), without_release(covariance)]


def record_errors(p: Prediction, x: Numbers, y: Numbers, z: Numbers, m: float, mean: Numbers) -> Numbers:
    """Return each record's expected squared error over the linkage, shape (n,).

    z has shape (n, q); `mean` holds the means of (x, y, z...), shape (2 + q,), which the naive snooper does not use.
    """
    rest = (z - mean[2:]) @ p.c - x if z.shape[1] else -x
    shift = mean[1] if p.centred else 0.0
    rest = rest + (mean[0] if p.centred else 0.0)
    linked = p.b * (y - shift)
    right = (rest + linked) ** 2
    if m == 1 or len(x) < 2:
        return np.asarray(right)
    n = len(x)
    anyone = rest**2 + 2 * rest * linked.mean() + (linked**2).mean()  # mean over all j, then take j = i out
    return np.asarray(m * right + (1 - m) * (n * anyone - right) / (n - 1))


def model_error(p: Prediction, covariance: Numbers, m: float, spread: float) -> float:
    """Return the expected squared error under a normal model without mean shift.

    `spread` is E[(X - μ)²] of the targets divided by Var(X): 1 for all records, more for holders of extreme values.
    """
    variance = covariance[0, 0]
    slope = covariance[1:, 0] / variance  # (y, z) given x is linear in x
    scatter = covariance[1:, 1:] - np.outer(slope, slope) * variance
    right = np.concatenate([[p.b], p.c])
    wrong = np.concatenate([[0.0], p.c])

    def error(weights: Numbers) -> float:
        return float((1 - weights @ slope) ** 2 * spread * variance + weights @ scatter @ weights)

    return float(m * error(right) + (1 - m) * (error(wrong) + p.b**2 * covariance[1, 1]))


def spread_between(low: float, high: float) -> float:
    """Return E[Z² | Φ⁻¹(low) < Z < Φ⁻¹(high)] of a standard normal Z."""
    a, b = float(ndtri(low)), float(ndtri(high))

    def edge(z: float) -> float:
        return z * float(np.exp(-z * z / 2) / np.sqrt(2 * np.pi)) if np.isfinite(z) else 0.0

    return 1.0 + (edge(a) - edge(b)) / (high - low)


class AttributeRisk(Measure):
    """R = 1 / E(τ̂ - τ)², the reciprocal of the snooper's mean squared error for a target's value.

    The `Snooper` says what he knows: which record is the target's (or only with some probability), the noise level,
    other columns. `low` and `high` restrict the targets to a range of quantiles, to protect holders of extreme values:
    ``AttributeRisk("salary", low=0.99)`` is the risk of the top one percent. Source: R-U paper, equations 3.3 and 4.8.

    Where other released columns determine this one (its logarithm, a total and the other parts), he takes the better of the two.
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
    tellers: Any = learned("column", default=None)

    @override
    def validate(self) -> None:
        if not self.low < self.high:
            raise ParameterError(f"targets from quantile {self.low:g} to {self.high:g}: the range is empty.")
        edges = tuple(float(e) for e in self.edges)
        object.__setattr__(self, "edges", edges)
        if edges and (len(edges) < 2 or list(edges) != sorted(set(edges)) or edges[0] < 0 or edges[-1] > 1):
            raise ParameterError("edges must be rising quantiles between 0 and 1, such as (0, 0.5, 0.9, 0.99, 1).")

    @override
    def label(self) -> str:
        return f"risk for {self.column}" + (f" ({self.variant})" if self.variant else "")

    @override
    @property
    def variant(self) -> str:
        return "" if (self.low, self.high) == (0, 1) else f"targets between quantiles {self.low:g} and {self.high:g}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return typical_error("a snooper is typically off by", value, schema, self.column)

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
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
        return self.learn(range_=(float(ends[0]), float(ends[1])), tellers=telling_columns(data, self.column))

    def beside(self, data: Microdata) -> tuple[str, ...]:
        """Return the columns that tell this one."""
        return tuple(dict.fromkeys(n for one in telling_columns(data, self.column) for n in one.sources))

    @property
    def everyone(self) -> bool:
        """Whether every record is a target."""
        return (self.low, self.high) == (0.0, 1.0)

    @override
    @property
    def size(self) -> int:
        return 1 if self.everyone else 2

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean squared error, shape (1,); of some targets: their squared errors and number per record, (2,)."""
        if snooper.strategy == "naive" and snooper.match_probability == 1 and self.everyone and not self.tellers:
            mean = kernels.column_pairs.mean_square_difference(*outcome.pair(self.column))
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
        errors = self._errors_of(outcome, x, y, snooper)
        for one in self.tellers or ():
            told = one.predict(outcome)
            if told is None or np.isnan(told[~np.isnan(x)]).any():
                continue
            other = self._errors_of(outcome, x, told, snooper)
            if np.nanmean(other) < np.nanmean(errors):
                errors, outcome.memory["told by", self.column, snooper] = other, one.sources
        return errors

    def _errors_of(self, outcome: Release, x: Numbers, y: Numbers, snooper: Snooper) -> Numbers:
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

    @override
    def value(self, means: Numbers) -> Numbers:
        if means.shape[-1] == 1:
            return reciprocal(means[..., 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(means[..., 1] / means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the interval comes from the records, the per-record vector is 1 / squared error."""
        self.check(outcome)
        ready = self.prepare(outcome.original)
        errors = ready._errors(outcome, snooper or Snooper())
        told = outcome.memory.get(("told by", self.column, snooper or Snooper()), ())
        known = errors[~np.isnan(errors)]
        if not len(known):
            raise NotApplicable(f"no record of '{self.column}' lies between quantiles {self.low:g} and {self.high:g}.")
        score = ready.to_score(known[:, None], outcome.original.schema)
        tell = "tells" if len(told) == 1 else "tell"
        return replace(
            score,
            words=f"{score.words}, since {join_names(told)} {tell} it" if told else score.words,
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
        if any(not one.linked for one in self.tellers or ()):
            return None
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


class CodedValueRisk(Measure):
    """R = 1 / (τ̂ - τ)² per record, where τ̂ is the released value itself and nothing is random.

    A record whose value was not changed is known exactly: its risk is infinite, and the share of such records is given
    beside the number. For the file: the mean over the coded records of their R (``average="risk"``), or the reciprocal
    of their mean squared error (``average="error"``), which is less ruled by the records just beyond the threshold.
    Source: R-U paper, section 3, last paragraph.
    """

    side: ClassVar[Side] = Side.RISK
    title: ClassVar[str] = "coded-value risk for {self.column}"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    column: str = param(doc="the coded column", columns="one")
    average: Literal["risk", "error"] = param(
        default="risk", doc="mean of the records' risks, or reciprocal of their mean squared error"
    )

    @override
    @property
    def variant(self) -> str:
        return (
            "mean risk of coded records" if self.average == "risk" else "reciprocal mean squared error of coded records"
        )

    @override
    def words(self, value: float, schema: Schema) -> str:
        if not np.isfinite(value):
            return "no value was coded: every value is known exactly"
        lead = "the coded records' mean risk is that of an error of"
        if self.average == "error":
            lead = "for a coded value a snooper is typically off by"
        return typical_error(lead, value, schema, self.column)

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        return (self.column,)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Refuse a column that holds no numbers."""
        check_numeric(data, self.column)
        return self

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean of what is averaged, over the coded records, shape (1,)."""
        errors = self._errors(outcome)
        coded = errors[errors > 0]
        if not len(coded):
            return np.array([np.inf if self.average == "risk" else 0.0])
        return np.array([np.mean(reciprocal(coded) if self.average == "risk" else coded)])

    def value(self, means: Numbers) -> Numbers:
        """Return the mean risk, or the reciprocal of the mean squared error."""
        return means[..., 0] if self.average == "risk" else reciprocal(means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the share of records known exactly is in the details."""
        score = super().score(outcome, snooper)
        errors = self._errors(outcome)
        known = errors[~np.isnan(errors)]
        coded = known[known > 0]
        exact = len(known) - len(coded)
        details = {"share known exactly": exact / len(known), "coded records": float(len(coded))}
        if len(coded):
            details["rms error of coded records"] = float(np.sqrt(coded.mean()))
        words = f"{score.words}; {exact:,} of {len(known):,} records are known exactly"
        return replace(
            score, words=words, details=details, find_records=lambda: outcome.per_original(reciprocal(errors))
        )

    def of_records(self, values: Numbers) -> float:
        """Return the measure of some coded records; their values are 1 / squared error, infinite for those not coded."""
        coded = values[np.isfinite(values)]
        if not len(coded):
            return float(np.inf)
        return float(coded.mean() if self.average == "risk" else 1 / reciprocal(coded).mean())

    def _errors(self, outcome: Release) -> Numbers:
        """Return each matched record's squared error, NaN where a value is missing, shape (r,)."""
        x, y = outcome.pair(self.column)
        errors = (y - x) ** 2
        if np.isnan(errors).all():
            raise NotApplicable(nobody_compared(self.column))
        return errors
