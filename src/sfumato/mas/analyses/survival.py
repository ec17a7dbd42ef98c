"""Survival from a protected table of time bins by event by groups: life tables, Kaplan and Meier's curve, and Cox's model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.analyses.distributions import bins_for, grid_bins, groups_of
from sfumato.mas.analyses.tables import TOTAL, plain_numbers
from sfumato.mas.answer import Refusal
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Result, Steps, levels_of, numbers_in
from sfumato.mas.register import Register
from sfumato.mas.rule import CorrelationEvidence, ModelEvidence
from sfumato.mas.rules import DummySize
from sfumato.mas.sums import ProtectedCells, ProtectedSums, SumsRequest, TableSums
from sfumato.mas.survey_design import SurveyCorrelation, design_notes
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Flags, Numbers

# --- events


@dataclass(frozen=True, eq=False)
class EventCounts:
    """Protected numbers of events and of censored records in time bins, and the variances of their noise; shape (..., bins)."""

    events: Numbers
    censored: Numbers
    events_noise: Numbers
    censored_noise: Numbers

    @staticmethod
    def of(table: ProtectedCells, level: int) -> EventCounts:
        """Return the counts of a table whose last two sides are event and time; a level of event says that it occurred.

        Records without a time, or of which nobody knows whether the event occurred, are left out.
        """
        event, time = table.sides[-2:]
        bins = len(time.levels) - (time.levels[-1] == MISSING)
        others = [i for i, name in enumerate(event.levels) if i != level and name != MISSING]

        def parts(values: Numbers) -> tuple[Numbers, Numbers]:
            return values[..., level, :bins], np.asarray(values[..., others, :bins].sum(axis=-2))

        return EventCounts(*parts(table.n), *parts(table.variances["n"]))

    @property
    def at_risk(self) -> Numbers:
        """Number of records at risk in each bin: those whose time is in it or later."""
        return _later(self.events + self.censored)

    @property
    def at_risk_noise(self) -> Numbers:
        """Variance of its noise."""
        return _later(self.events_noise + self.censored_noise)


def _later(values: Numbers) -> Numbers:
    """Return sums over a bin and all later ones."""
    return np.asarray(np.cumsum(values[..., ::-1], axis=-1)[..., ::-1])


class Survival(Analysis, abstract=True):
    """What analyses of times until an event have in common."""

    time: str = param(
        doc="the variable of the time until the event, or until the record was censored", columns="one", holds="numbers"
    )
    event: str = param(doc="the variable that says whether the event occurred", columns="one", holds="categories")
    level: str = param(doc="its level that says so; all other levels are censored")
    by: tuple[str, ...] = param(
        default=(), doc="variables whose levels are the groups", columns="many", holds="categories"
    )
    bins: int | None = param(
        default=None, low=2, high=64, integer=True, doc="most bins; none for the cutpoints, or 16 where there are none"
    )

    @override
    def validate(self) -> None:
        if len({self.time, self.event, *self.by}) < 2 + len(self.by):
            raise ParameterError(f"{self.name} names a variable twice. Name each once.")

    @override
    def wording(self) -> str:
        return f"{self.name}:{self.time}:{self.event}={self.level}:{self.by}:{self.bins}"

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        event, *groups = levels_of((self.event, *self.by), known)
        event.pick((self.level,))
        return (numbers_in(self.time, known), event, *groups)

    @override
    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of(self.by, known)

    def time_bins(self, question: Question, register: Register) -> Variable:
        """Return the time in bins: the custodian's cutpoints, or those of the grid; fewer where noise would be too large."""
        time, event, *groups = self.variables(question.codebook.variables)
        if self.bins is None and time.cutpoints is not None:
            return time
        fewer = bins_for(question, register, groups_of((event, *groups)))
        return grid_bins(time, min(self.bins or 16, fewer or 64))

    def cells(self, question: Question, register: Register) -> Generator[SumsRequest, ProtectedSums, ProtectedCells]:
        """Ask for the numbers of records by groups, event and time."""
        _, event, *groups = self.variables(question.codebook.variables)
        bins = self.time_bins(question, register)
        sums = yield SumsRequest({"cells": TableSums((*groups, event, bins))})
        return sums.cells("cells")

    def effects(self, question: Question, register: Register, sides: Sequence[Variable]) -> Numbers:
        """Return design effects in the cells of some sides: members of a household are as alike as in the time or in the event."""
        time, event, *_ = self.variables(question.codebook.variables)
        return register.design_effects(question.selection, sides, SurveyCorrelation.of_all(time, event))

    def notes(self, question: Question, variables: Sequence[Variable]) -> Iterator[str]:
        """Yield what was done, in sentences."""
        policy = question.policy
        yield "Times are grouped in bins; a record is at risk in the bin of its time, and in all bins before."
        if policy.counts.sd:
            yield f"Counts have random noise (standard deviation {policy.counts.sd:g} or more), which standard errors include."
        if any(MISSING in v.levels or v.gaps for v in variables):
            yield "Records with a missing value are left out."
        if question.codebook.clustered:
            yield "Records count once each; the survey's weights and strata are not used."
            yield from design_notes(question.codebook.design, strata=False)
        else:
            yield "Records count once each; the survey's weights and design are not used."


# --- curves


class KaplanMeier(Survival):
    """The share of records to which an event has not occurred by the end of each time bin, with Greenwood's standard errors.

    Kaplan and Meier's (1958) estimate for times that are rounded up to the ends of bins, S = Π (1 − d / n) with d events among n
    at risk. With `method` life_table, those censored in a bin are at risk for half of it (Cutler and Ederer 1958). The variance
    of log S is Σ d / (n (n − d)), and that of noise by linearisation.
    """

    kind = "distribution"
    method: str = param(
        default="kaplan_meier",
        choices=("kaplan_meier", "life_table"),
        doc="whether those censored in a bin are at risk for all or half of it",
    )

    @override
    def wording(self) -> str:
        return f"{super().wording()}:{self.method}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variables, policy = self.variables(question.codebook.variables), question.policy
        level = variables[1].pick((self.level,))[0]
        cells = yield from self.cells(question, register)
        rows: list[dict[str, Any]] = []
        for table in cells.margins(last=2):
            rows += self._rows(table, level, policy, self.effects(question, register, table.sides[:-2]))
        return Result({"survival": rows}, notes=tuple(self._notes(question, variables)))

    def _rows(self, table: ProtectedCells, level: int, policy: Policy, effects: Numbers) -> Iterator[dict[str, Any]]:
        effects = np.broadcast_to(effects, table.n.shape[:-2])
        counts, edges = (
            EventCounts.of(table, level),
            table.sides[-1].cutpoints.edges if table.sides[-1].cutpoints else (),
        )
        for place in np.ndindex(counts.events.shape[:-1]):
            levels = {v.name: v.levels[i] for v, i in zip(table.sides, place, strict=False)}
            cell = {name: levels.get(name, TOTAL) for name in self.by}
            one = EventCounts(*(getattr(counts, name)[place] for name in EventCounts.__dataclass_fields__))
            survival, errors = self.curve(one, policy.variance_inflation * float(effects[place]))
            fewest = np.maximum(policy.counts.least, 2 * np.sqrt(one.at_risk_noise))
            untold = np.logical_or.accumulate((one.at_risk < fewest) | (one.at_risk <= 0))
            columns = (
                policy.counts.shown(one.at_risk), policy.counts.shown(one.events),
                significant(survival, policy.amounts.digits), significant(errors, policy.amounts.error_digits),
            )  # fmt: skip
            shown = (plain_numbers(np.where(untold, np.nan, values)) for values in columns)
            names = ("over", "up to", "at risk", "events", "survival", "standard error")
            for row in zip((None, *edges), edges, *shown, strict=False):
                yield cell | dict(zip(names, row, strict=True))

    def curve(self, counts: EventCounts, inflation: float = 1.0) -> tuple[Numbers, Numbers]:
        """Return survival at the end of each bin, and its standard errors."""
        bins = len(counts.events)
        half = 0.5 if self.method == "life_table" else 0.0

        def logs(events: Any, censored: Any) -> Any:
            at_risk = np.cumsum((events + censored)[::-1])[::-1] - half * censored
            left = 1 - events / np.where(at_risk.real > 0, at_risk, np.nan)
            bounded = np.where(left.real > 1, 1.0, np.where(left.real < 0, 0.0, left))
            return np.cumsum(np.log(bounded))

        with np.errstate(divide="ignore", invalid="ignore"):
            survival = np.exp(logs(counts.events, counts.censored))
            n = counts.at_risk - half * counts.censored
            d = np.clip(counts.events, 0.0, None)
            variance = inflation * np.cumsum(d / (n * (n - d)))
            for k in range(bins) if counts.events_noise.any() or counts.censored_noise.any() else ():
                step = 1e-30j * np.eye(bins)[k]
                by_event = logs(counts.events + step, counts.censored + 0j).imag / 1e-30
                by_censored = logs(counts.events + 0j, counts.censored + step).imag / 1e-30
                variance = variance + by_event**2 * counts.events_noise[k] + by_censored**2 * counts.censored_noise[k]
            errors = survival * np.sqrt(variance)
        return survival, np.where(survival > 0, errors, np.nan)

    def _notes(self, question: Question, variables: Sequence[Variable]) -> Iterator[str]:
        yield from self.notes(question, variables)
        if self.method == "life_table":
            yield "Those censored in a bin are at risk for half of it."
        yield "The last bin has no end, so that no survival is given for it; nor where too few records are at risk."


# --- Cox's model


class Cox(Survival):
    """Cox's proportional hazards by the levels of some variables, from times grouped in bins.

    Ties are Breslow's (1974): events of a bin have one time. With `ties` grouped, the bins are the model: the complementary
    log-log model of Prentice and Gloeckler (1978), with a parameter for each bin. Both score equations are linear in the counts,
    so that noise on these adds the variance I⁻¹ Σ (score of a cell)² V I⁻¹ to that of the sample, I⁻¹.
    """

    kind = "model"
    ties: str = param(
        default="breslow", choices=("breslow", "grouped"), doc="events of a bin have one time, or any times within it"
    )

    @override
    def validate(self) -> None:
        super().validate()
        if not self.by:
            raise ParameterError("cox needs at least one variable whose levels are compared: by.")

    @override
    def wording(self) -> str:
        return f"{super().wording()}:{self.ties}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variables, policy = self.variables(question.codebook.variables), question.policy
        _, event, *groups = variables
        table = yield from self.cells(question, register)
        counts = EventCounts.of(table, event.pick((self.level,))[0])
        flat = [getattr(counts, name).reshape(-1, counts.events.shape[-1]) for name in EventCounts.__dataclass_fields__]
        cells = np.ndindex(counts.events.shape[:-1])
        there = np.array([all(v.levels[i] != MISSING for v, i in zip(groups, cell, strict=True)) for cell in cells])
        counts = EventCounts(*(values[there] for values in flat))
        sizes = (counts.events + counts.censored).sum(axis=1)
        design = Dummies.of(groups, there, sizes, policy)
        if not design.names:
            return Refusal(
                "few_records",
                "There are too few groups with enough records.",
                "Choose a larger universe, or coarser levels.",
            )
        used = _used(counts, policy)
        fitted = (_breslow if self.ties == "breslow" else _grouped)(counts, design.columns, used)
        if fitted is None:
            return Refusal(
                "separation",
                "The model cannot be fitted: groups have too few events.",
                "Use coarser levels, or a larger universe.",
            )
        rows = self._rows(design, fitted, policy, float(self.effects(question, register, ())))
        outcomes = float(min(counts.events.sum(), counts.censored.sum()))
        n, known = float(sizes.sum()), [v.known for v in groups]
        fit = max(1 - fitted.likelihood / fitted.null, 0.0) if fitted.null else 0.0
        evidence = ModelEvidence(n, len(design.names), design.sizes, outcomes, fit, design.leverage(sizes, known))
        facts = {
            "records": plain_numbers(policy.counts.shown(np.array([n])))[0],
            "events": plain_numbers(policy.counts.shown(np.array([counts.events.sum()])))[0],
        }
        return Result(
            {"coefficients": rows}, facts, tuple(self._notes(question, variables, design)),
            (evidence, CorrelationEvidence(design.correlation(sizes), n)),
        )  # fmt: skip

    def _rows(self, design: Dummies, fitted: Fitted, policy: Policy, effect: float) -> list[dict[str, Any]]:
        from scipy.special import ndtr

        covariance = policy.variance_inflation * effect * fitted.inverse + fitted.noise
        errors = np.sqrt(np.diag(covariance))
        z = fitted.coefficients / errors
        digits, fewer = policy.models.digits, policy.models.error_digits
        values = (
            significant(fitted.coefficients, digits), significant(errors, fewer), significant(np.exp(fitted.coefficients), digits),
            significant(z, digits), significant(2 * ndtr(-np.abs(z)), fewer),
        )  # fmt: skip
        names = ("term", "coefficient", "standard error", "hazard ratio", "z", "p value")
        return [
            dict(zip(names, row, strict=True)) for row in zip(design.names, *map(plain_numbers, values), strict=True)
        ]

    def _notes(self, question: Question, variables: Sequence[Variable], design: Dummies) -> Iterator[str]:
        yield from self.notes(question, variables)
        yield f"Levels are compared with {', '.join(design.references)}."
        if design.absorbed:
            yield f"These levels have too few records, and count with the one compared with: {', '.join(design.absorbed)}."


@dataclass(frozen=True, eq=False)
class Dummies:
    """Indicators of levels for each group of records; those with most records are the reference."""

    names: tuple[str, ...]
    columns: Numbers
    """Shape (groups, indicators)."""
    sizes: Mapping[str, float]
    references: tuple[str, ...]
    absorbed: tuple[str, ...]
    factors: tuple[int, ...]
    """Of each indicator, the place of its variable."""

    @staticmethod
    def of(groups: Sequence[Variable], there: Flags, sizes: Numbers, policy: Policy) -> Dummies:
        """Return the indicators of the levels that have enough records."""
        rule = policy.rule("dummy_size")
        codes = np.array(list(itertools.product(*(range(len(v.levels)) for v in groups))))[there]
        names, columns, references, absorbed, factors, held = [], [], [], [], [], {}
        for place, variable in enumerate(groups):
            levels = [i for i, level in enumerate(variable.levels) if level != MISSING]
            counts = np.array([sizes[codes[:, place] == i].sum() for i in levels])
            reference = levels[int(np.argmax(counts))]
            references.append(f"{variable.name} {variable.levels[reference]}")
            least = rule.least if isinstance(rule, DummySize) else 0
            least = max(least, rule.confidential or 0) if isinstance(rule, DummySize) and not variable.known else least
            for i, count in zip(levels, counts.tolist(), strict=True):
                name = f"{variable.name} {variable.levels[i]}"
                if i != reference and count >= max(least, 0.5):
                    names.append(name)
                    columns.append(codes[:, place] == i)
                    factors.append(place)
                    held[name] = count
                elif i != reference:
                    absorbed.append(name)
        made = np.array(columns, np.float64).T if columns else np.zeros((len(codes), 0))
        return Dummies(tuple(names), made, held, tuple(references), tuple(absorbed), tuple(factors))

    def correlation(self, sizes: Numbers) -> float:
        """Return the largest size of a correlation of two indicators."""
        n = np.maximum(sizes, 0.0)
        centred = self.columns - n @ self.columns / n.sum()
        products = centred.T @ (n[:, None] * centred)
        spread = np.sqrt(np.diag(products))
        found = np.abs(products / np.outer(spread, spread)) - np.eye(len(spread))
        return float(found.max()) if len(spread) > 1 else 0.0

    def leverage(self, sizes: Numbers, known: Sequence[bool]) -> float:
        """Return the largest leverage of a record by the indicators of known variables, rounded up to .001."""
        kept = [i for i, place in enumerate(self.factors) if known[place]]
        if not kept:
            return 0.0
        n = np.maximum(sizes, 0.0)
        x = np.column_stack([np.ones(len(n)), self.columns[:, kept]])
        found = np.einsum("gi,ij,gj->g", x, np.linalg.pinv(x.T @ (n[:, None] * x)), x)
        return math.ceil(float(found[n >= 1].max(initial=0.0)) * 1_000) / 1_000


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coefficients of a model, and what their covariance is made of."""

    coefficients: Numbers
    inverse: Numbers
    """Of the information."""
    noise: Numbers
    """Covariance by the noise of the counts."""
    likelihood: float
    null: float


def _used(counts: EventCounts, policy: Policy) -> Flags:
    """Return the bins with an event, and with enough records at risk."""
    at_risk, noise = counts.at_risk.sum(axis=0), counts.at_risk_noise.sum(axis=0)
    events, events_noise = counts.events.sum(axis=0), counts.events_noise.sum(axis=0)
    fewest = np.maximum(policy.counts.least, 4 * np.sqrt(noise))
    fine = (
        (events > np.maximum(0.5, 2 * np.sqrt(events_noise))) & (at_risk > np.maximum(fewest, 0.5)) & (events < at_risk)
    )
    return np.asarray(fine)


_STEPS, _CLOSE = 50, 1e-11


def _breslow(counts: EventCounts, x: Numbers, used: Flags) -> Fitted | None:
    """Fit by Breslow's partial likelihood Σ d x'β − Σ D log Σ n exp(x'β), with d events and n at risk in a group and a bin."""
    d, n, total = counts.events[:, used], counts.at_risk[:, used], counts.events[:, used].sum(axis=0)
    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        risk = np.exp(x @ beta)
        s0 = risk @ n
        if (s0 <= 0).any():
            return None
        mean = (x * risk[:, None]).T @ n / s0  # (indicators, bins)
        score = (x.T @ d).sum(axis=1) - mean @ total
        information = np.einsum("gi,gj,gb,b->ij", x, x, n * risk[:, None], total / s0) - (mean * total) @ mean.T
        step = _solved(information, score)
        if step is None:
            return None
        beta = beta + step
        if np.abs(step).max() < _CLOSE:
            by_risk = np.zeros((*counts.events.shape, len(beta)))
            off = x[:, None, :] - mean.T[None, :, :]
            by_risk[:, used] = -(total / s0)[None, :, None] * risk[:, None, None] * off
            by_event = np.zeros_like(by_risk)
            by_event[:, used] = off
            noise = _noise_of(counts, by_event, by_risk)
            inverse = np.linalg.inv(information)
            logs = [
                float((d * eta[:, None]).sum() - total @ np.log(np.exp(eta) @ n)) for eta in (x @ beta, 0 * (x @ beta))
            ]
            return Fitted(beta, inverse, inverse @ noise @ inverse, *logs)
    return None


def _grouped(counts: EventCounts, x: Numbers, used: Flags) -> Fitted | None:
    """Fit the complementary log-log model: of n at risk, a share 1 − exp(−exp(α of the bin + x'β)) have the event."""
    d, n = counts.events[:, used], counts.at_risk[:, used]
    bins, groups = int(used.sum()), len(x)
    share = d.sum(axis=0) / n.sum(axis=0)
    z = np.concatenate(
        [np.broadcast_to(np.eye(bins), (groups, bins, bins)), np.repeat(x[:, None, :], bins, axis=1)], axis=2
    )
    start = np.r_[np.log(-np.log1p(-share)), np.zeros(x.shape[1])]
    theta, null = start, _log_likelihood(d, n, z @ start)
    for _ in range(_STEPS):
        mu = np.exp(np.clip(z @ theta, -30, 3))
        h = -np.expm1(-mu)
        score = np.einsum("gbi,gb->i", z, (d - n * h) * mu / h)
        information = np.einsum("gbi,gbj,gb->ij", z, z, n * mu**2 * (1 - h) / h)
        step = _solved(information, score)
        if step is None:
            return None
        theta = theta + step
        if np.abs(step).max() < _CLOSE:
            by_risk, by_event = np.zeros((2, *counts.events.shape, len(theta)))
            by_event[:, used] = z * (mu / h)[..., None]
            by_risk[:, used] = -z * mu[..., None]
            inverse = np.linalg.inv(information)
            noise = inverse @ _noise_of(counts, by_event, by_risk) @ inverse
            told = slice(bins, None)
            return Fitted(theta[told], inverse[told, told], noise[told, told], _log_likelihood(d, n, z @ theta), null)
    return None


def _log_likelihood(d: Numbers, n: Numbers, eta: Numbers) -> float:
    mu = np.exp(np.clip(eta, -30, 3))
    return float((d * np.log(-np.expm1(-mu)) - (n - d) * mu).sum())


def _solved(information: Numbers, score: Numbers) -> Numbers | None:
    """Return the step of a Newton iteration, not too long; None where the information is not positive."""
    values = np.linalg.eigvalsh(information)
    if not np.isfinite(values).all() or values.min() <= 1e-10 * max(values.max(), 0.0):
        return None
    step = np.linalg.solve(information, score)
    return np.asarray(step / max(1.0, float(np.abs(step).max()) / 2))


def _noise_of(counts: EventCounts, by_event: Numbers, by_risk: Numbers) -> Numbers:
    """Return the covariance of the score by noise: an event or a censored record is at risk in its bin and in all before."""
    earlier = np.cumsum(by_risk, axis=1)
    parts = ((by_event + earlier, counts.events_noise), (earlier, counts.censored_noise))
    return np.asarray(sum(np.einsum("gbi,gbj,gb->ij", slope, slope, noise) for slope, noise in parts))
