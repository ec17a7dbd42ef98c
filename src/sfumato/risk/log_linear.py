"""Risk of the unique records by a log-linear model of the population's counts (Skinner and Shlomo 2008)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import RULES, key_names, missing_rule
from sfumato.contract import Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable, ParameterError, count_of, unknown_name
from sfumato.lazy import special
from sfumato.risk.expected_counts import (
    ClassTable,
    FittedCounts,
    Interactions,
    MainEffects,
    associated,
    table_of,
    with_main_effects,
)
from sfumato.risk.keys import RiskMeasure, of_original, released_classes
from sfumato.risk.population_uniques import Z, fraction_parameter, fraction_source, sampling_fraction, with_error
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers

Target = Literal["unique", "match"]
NAMES = {"main": "main effects", "pairs": "all pairs of keys"}
BUDGET = 2_000_000, 4_000_000
"""Cells gone through, and cells times margins fitted, for each model that is tried while choosing one: a second's work or so."""
MEANING = {"unique": "are unique in the population (τ₁)", "match": "would be matched correctly (τ₂)"}


class LogLinearRisk(RiskMeasure):
    """The share of records that are unique in the population, or would be matched correctly, by a log-linear model.

    The number F of persons with a record's keys is Poisson with mean λ, and log λ is a sum of effects of the keys and of
    chosen interactions; of these persons a share π is in the file. For a unique record, F - 1 is then Poisson with mean
    h = (1-π)λ, so that it is unique in the population with probability e⁻ʰ, and a match with it is right with probability
    (1-e⁻ʰ)/h. The score is their sum over the unique records, over all records; per record, the probability.
    """

    target: Target = param(
        default="match",
        doc="what is expected: that a unique record is unique in the population, or that a match with it is right",
        choices=("match", "unique"),
    )
    interactions: Any = param(
        default="auto",
        doc="'main' for main effects alone, 'pairs' for all pairs of keys, 'auto' for as many pairs as needed, or tuples of keys",
    )
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        given = self.interactions
        if isinstance(given, str) and given in ("main", "pairs", "auto"):
            return
        listed = isinstance(given, list | tuple) and all(isinstance(t, list | tuple) for t in given)
        if (
            not listed
            or not given
            or not all(len(set(t)) == len(t) > 1 and all(isinstance(k, str) for k in t) for t in given)
        ):
            raise ParameterError(
                "interactions of log_linear_risk must be 'main', 'pairs', 'auto', or tuples of two or more keys such as "
                "(('age', 'sex'), ('age', 'region'))."
            )
        object.__setattr__(self, "interactions", tuple(tuple(t) for t in given))

    @override
    def label(self) -> str:
        return "expected correct matches" if self.target == "match" else "unique records unique in the population"

    @override
    @property
    def variant(self) -> str:
        if isinstance(self.interactions, str):
            model = "model chosen by the data" if self.interactions == "auto" else NAMES[self.interactions]
        else:
            model = "main effects and " + ", ".join(" × ".join(t) for t in self.interactions)
        return f"log-linear, {model}; {fraction_source(self.fraction)}; {RULES[self.missing]}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"about {digits(100 * value)} % of the records {MEANING[self.target]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit the model and add up the unique records' probabilities."""
        released = released_classes(outcome, snooper, self.missing, weighted=self.fraction is None)
        pi = sampling_fraction(released, self.fraction)
        table = table_of(released)
        chosen = self._model(table, key_names(outcome, snooper), pi)
        model, error = chosen.model, chosen.error
        unique = released.matches == 1
        if pi < 1 and unique.any() and model.saturated():
            raise NotApplicable(
                "the log-linear model has as many effects as the keys have combinations, so it repeats the counts of the file "
                "and tells nothing about the population. Use several keys and fewer interactions, or match_risk."
            )
        h = model.expected() * (1 - pi) / pi
        risks = {"unique": np.exp(-h), "match": right(h)}
        n, uniques = float(released.sizes.sum()), float(unique.sum())
        totals = {which: float(risk[unique].sum()) for which, risk in risks.items()}
        tau = totals[self.target]
        low, high = _interval(model, unique, h, self.target, tau, error)
        if error is None:  # a model that is too simple overstates the risk, nobody knows by how much
            low = 0.0
        risk = np.where(unique, risks[self.target], 0.0 if self.target == "unique" else np.nan)
        score = self.result(
            tau / n,
            f"{count_of(int(uniques), int(n), ('is', 'are'))} unique in the file; about {digits(tau)} of them "
            f"{MEANING[self.target]}{_doubt(error)}",
            interval=(low / n, high / n),
            details={
                "unique records": uniques,
                "tau1": totals["unique"],
                "tau2": totals["match"],
                "sampling fraction": pi,
                **(
                    {}
                    if error is None
                    else {"estimated bias of tau": error.value, "bias over its standard error": error.z}
                ),
            },
            find_records=None if not outcome.aligned else lambda: of_original(outcome, released, risk),
        )
        return score if self.interactions != "auto" else replace(score, variant=f"{self.variant}: {chosen.name}")

    def _model(self, table: ClassTable, keys: tuple[str, ...], pi: float) -> Chosen:
        """Fit the model that was asked for, or choose one."""
        if self.interactions == "auto":
            return forward(table, keys, pi, self.target)
        if self.interactions == "main" or len(keys) < 2:
            return Chosen.of(MainEffects(table), "", pi, self.target)
        if self.interactions == "pairs":
            return Chosen.of(Interactions(table, list(combinations(range(len(keys)), 2))), "", pi, self.target)
        for key in {k for t in self.interactions for k in t}:
            if key not in keys:
                raise NotApplicable(
                    unknown_name("key", key, keys, "the snooper's keys, which interactions are between")
                )
        places = [tuple(sorted(keys.index(k) for k in t)) for t in self.interactions]
        return Chosen.of(Interactions(table, with_main_effects(places, len(keys))), "", pi, self.target)


@dataclass(frozen=True)
class Chosen:
    """A fitted model, its name in words, and its estimated bias with its z where its cells can be gone through."""

    model: FittedCounts
    name: str
    error: Bias | None

    @classmethod
    def of(cls, model: FittedCounts, name: str, pi: float, target: Target) -> Chosen:
        """Return a fitted model with its estimated bias."""
        return cls(model, name, bias(model, pi, target))

    @property
    def z(self) -> float:
        """The bias over its standard error; infinite where it is not known."""
        return math.inf if self.error is None else self.error.z


def forward(table: ClassTable, keys: tuple[str, ...], pi: float, target: Target) -> Chosen:
    """Choose a model by forward selection (Skinner and Shlomo 2008, section 3): the least estimated bias on the way.

    Pairs of keys are added, the most strongly associated first, until the model no longer overstates the risk (z below 1.96).
    How many that takes is found by doubling and halving, so that few models are fitted.
    """
    order = associated(table)
    tried = {0: Chosen.of(MainEffects(table), "main effects", pi, target)}

    def overstates(count: int) -> bool:
        if count not in tried:
            pairs = order[:count]
            name = "main effects and " + ", ".join(" × ".join(keys[k] for k in pair) for pair in pairs)
            try:
                model = Interactions(table, with_main_effects(pairs, len(keys)), BUDGET)
            except NotApplicable:  # more work than choosing is worth: fewer pairs must do
                return False
            if model.saturated():  # it repeats the counts, and tells nothing
                return False
            tried[count] = Chosen.of(model, name, pi, target)
        return tried[count].z > Z

    low, high = 0, 0
    while overstates(high) and high < len(order):
        low, high = high, min(max(2 * high, 1), len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if overstates(middle) else (low, middle)
    return min(tried.values(), key=lambda chosen: abs(chosen.z))


def right(h: Numbers) -> Numbers:
    """Return E[1/F] = (1 - e⁻ʰ)/h of F - 1 ~ Poisson(h).

    >>> right(np.array([0.0, 1.0])).round(4).tolist()
    [1.0, 0.6321]
    """
    return np.divide(-np.expm1(-h), h, out=np.ones_like(h), where=h > 0)


def right_square(h: Numbers) -> Numbers:
    """Return E[1/F²] = e⁻ʰ/h·Σ_{m≥1} hᵐ/(m·m!) of F - 1 ~ Poisson(h)."""
    middle = np.clip(h, 1e-3, 50.0)
    series = np.exp(-middle) / middle * (special.expi(middle) - np.log(middle) - np.euler_gamma)
    large = np.maximum(h, 50.0)
    return np.select(
        [h < 1e-3, h > 50], [1 - 3 * h / 4, (1 + 1 / large + 2 / large**2 + 6 / large**3) / large**2], series
    )


def _interval(
    model: FittedCounts, unique: Flags, h: Numbers, target: Target, tau: float, error: Bias | None
) -> tuple[float, float]:
    """Return a 95 % interval for τ.

    The fit varies (information matrix); so do the counts F about the model; and the model may be wrong, by as much as its
    estimated bias and what that may be off.
    """
    count = float(unique.sum())
    if count == 0 or tau == 0:
        return tau, tau
    at = h[unique]
    slopes = np.zeros(len(h))
    if target == "unique":
        slopes[unique] = -at * np.exp(-at)
        counts = float((np.exp(-at) * -np.expm1(-at)).sum())
    else:
        slopes[unique] = np.exp(-at) - right(at)
        counts = float(np.maximum(right_square(at) - right(at) ** 2, 0).sum())
    wrong = 0.0 if error is None else error.value**2 + error.variance
    variance = (model.variance(slopes) + counts + wrong) / count**2
    low, high = with_error(tau / count, (tau / count,) * 2, variance)
    return low * count, high * count


def _doubt(error: Bias | None) -> str:
    """Return what a reader must know of the model's fit."""
    if error is None:
        return "; how far the model is off could not be told, since the keys have too many combinations"
    if abs(error.z) <= Z:
        return ""
    simple = "is too simple, and this probably too high"
    return f"; the model {simple if error.z > 0 else 'is too rich, and this probably too low'}"


@dataclass(frozen=True)
class Bias:
    """The estimated bias of τ, and the variance of that estimate where the model is right."""

    value: float
    variance: float

    @property
    def z(self) -> float:
        """The bias over its standard error."""
        return self.value / math.sqrt(self.variance) if self.variance > 0 else 0.0


def bias(model: FittedCounts, pi: float, target: Target) -> Bias | None:
    """Return the estimated bias of τ; None where there are too many cells.

    With F's mean λ fitted as λ̂ = μ̂/π, and r(λ) the risk of a unique record, the bias is Σ P(f=1)·{r(λ̂) - r(λ)}. To second order
    B = Σ λ̂ e^(-μ̂)·{-r'·(f-μ̂) + r''·[(f-μ̂)² - f]/(2π)} (Skinner and Shlomo 2008, section 3: B₁ and B₂), whose terms are
    uncorrelated if the model is right, with variance μ and 2μ². B > 0 tells of a model that is too simple (it overstates τ),
    B < 0 of one that is too rich.
    """
    parts = model.cells()
    if parts is None:
        return None
    sums = [kernels.loglinear.expansion(f, mu, (1 - pi) / pi, target == "match") for f, mu in parts]
    return Bias(sum(total for total, _ in sums), sum(variance for _, variance in sums))
