"""Risk of the unique records by a log-linear model of the population's counts (Skinner and Shlomo 2008)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.risk.expected_counts import (
    Interactions,
    MainEffects,
    Model,
    Table,
    associated,
    table_of,
    with_main_effects,
)
from sfumato.risk.fraction import fraction_parameter, fraction_source, sampling_fraction
from sfumato.risk.keys import RULES, key_names, missing_rule, of_original, released_classes
from sfumato.risk.likelihood import Z, with_error
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
Target = Literal["unique", "match"]
NAMES = {"main": "main effects", "pairs": "all pairs of keys"}
MEANING = {"unique": "are unique in the population (τ₁)", "match": "would be matched correctly (τ₂)"}


class LogLinearRisk(DirectMeasure):
    """The share of records that are unique in the population, or would be matched correctly, by a log-linear model.

    The number F of persons with a record's keys is Poisson with mean λ, and log λ is a sum of effects of the keys and of
    chosen interactions; of these persons a share π is in the file. For a unique record, F - 1 is then Poisson with mean
    h = (1-π)λ, so that it is unique in the population with probability e⁻ʰ, and a match with it is right with probability
    (1-e⁻ʰ)/h. The score is their sum over the unique records, over all records; per record, the probability.
    """

    side: ClassVar[Side] = Side.RISK

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

    def validate(self) -> None:
        """Interactions are one of three words, or tuples of two keys or more."""
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

    def label(self) -> str:
        """Return a few words for a legend."""
        return "expected correct matches" if self.target == "match" else "unique records unique in the population"

    @property
    def variant(self) -> str:
        """The model, the source of the sampling fraction, and the rule for missing keys."""
        if isinstance(self.interactions, str):
            model = "model chosen by the data" if self.interactions == "auto" else NAMES[self.interactions]
        else:
            model = "main effects and " + ", ".join(" × ".join(t) for t in self.interactions)
        return f"log-linear, {model}; {fraction_source(self.fraction)}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"about {100 * value:.3g} % of the records {MEANING[self.target]}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit the model and add up the unique records' probabilities."""
        found = released_classes(outcome, snooper, self.missing, weighted=self.fraction is None)
        pi = sampling_fraction(found, self.fraction)
        table = table_of(found)
        chosen = self._model(table, key_names(outcome, snooper), pi)
        model, error = chosen.model, chosen.error
        unique = found.matches == 1
        h = model.expected() * (1 - pi) / pi
        risks = {"unique": np.exp(-h), "match": right(h)}
        n, uniques = float(found.sizes.sum()), float(unique.sum())
        totals = {which: float(risk[unique].sum()) for which, risk in risks.items()}
        tau = totals[self.target]
        low, high = _interval(model, unique, h, self.target, tau, error)
        risk = np.where(unique, risks[self.target], 0.0 if self.target == "unique" else np.nan)
        score = self.result(
            tau / n,
            f"{uniques:,.0f} of {n:,.0f} records are unique in the file; about {tau:,.3g} of them {MEANING[self.target]}",
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
            find_records=None if not outcome.aligned else lambda: of_original(outcome, found, risk),
        )
        return score if self.interactions != "auto" else replace(score, variant=f"{self.variant}: {chosen.name}")

    def _model(self, table: Table, keys: tuple[str, ...], pi: float) -> Chosen:
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

    model: Model
    name: str
    error: Bias | None

    @classmethod
    def of(cls, model: Model, name: str, pi: float, target: Target) -> Chosen:
        """Return a fitted model with its estimated bias."""
        return cls(model, name, bias(model, pi, target))

    @property
    def z(self) -> float:
        """The bias over its standard error; infinite where it is not known."""
        return math.inf if self.error is None else self.error.z


def forward(table: Table, keys: tuple[str, ...], pi: float, target: Target) -> Chosen:
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
                model = Interactions(table, with_main_effects(pairs, len(keys)))
            except NotApplicable:  # too many cells as yet: each pair leaves fewer
                return True
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
    from scipy.special import expi

    middle = np.clip(h, 1e-3, 50.0)
    series = np.exp(-middle) / middle * (expi(middle) - np.log(middle) - np.euler_gamma)
    large = np.maximum(h, 50.0)
    return np.select(
        [h < 1e-3, h > 50], [1 - 3 * h / 4, (1 + 1 / large + 2 / large**2 + 6 / large**3) / large**2], series
    )


def _interval(
    model: Model, unique: NDArray[np.bool_], h: Numbers, target: Target, tau: float, error: Bias | None
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


@dataclass(frozen=True)
class Bias:
    """The estimated bias of τ, and the variance of that estimate where the model is right."""

    value: float
    variance: float

    @property
    def z(self) -> float:
        """The bias over its standard error."""
        return self.value / math.sqrt(self.variance) if self.variance > 0 else 0.0


def bias(model: Model, pi: float, target: Target) -> Bias | None:
    """Return the estimated bias of τ; None where there are too many cells.

    With F's mean λ fitted as λ̂ = μ̂/π, and r(λ) the risk of a unique record, the bias is Σ P(f=1)·{r(λ̂) - r(λ)}. To second order
    B = Σ λ̂ e^(-μ̂)·{-r'·(f-μ̂) + r''·[(f-μ̂)² - f]/(2π)} (Skinner and Shlomo 2008, section 3: B₁ and B₂), whose terms are
    uncorrelated if the model is right, with variance μ and 2μ². B > 0 tells of a model that is too simple (it overstates τ),
    B < 0 of one that is too rich.
    """
    parts = model.cells()
    if parts is None:
        return None
    slope: Callable[[Numbers], tuple[Numbers, Numbers]] = _unique_slopes if target == "unique" else _match_slopes
    total = variance = 0.0
    for f, mu in parts:
        g = mu * (1 - pi) / pi
        first, second = slope(g)
        lead = mu / pi * np.exp(-mu)
        a, b = -lead * (1 - pi) * first, lead * (1 - pi) ** 2 * second / (2 * pi)
        total += float((a * (f - mu) + b * ((f - mu) ** 2 - f)).sum())
        variance += float((a**2 * mu + 2 * b**2 * mu**2).sum())
    return Bias(total, variance)


def _unique_slopes(g: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first two derivatives of e⁻ᵍ."""
    value = np.exp(-g)
    return -value, value


def _match_slopes(g: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first two derivatives of (1 - e⁻ᵍ)/g; by their series near 0."""
    some = np.maximum(g, 1e-2)
    tail = np.exp(-some)
    first = (tail * (1 + some) - 1) / some**2
    second = (2 - tail * (some**2 + 2 * some + 2)) / some**3
    near = g < 1e-2
    return (
        np.where(near, -1 / 2 + g / 3 - g**2 / 8, first),
        np.where(near, 1 / 3 - g / 4 + g**2 / 10, second),
    )
