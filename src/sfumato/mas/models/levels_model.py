"""Fitting an outcome of levels, binary or multinomial, and putting it into rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.mas.analysis import Findings
from sfumato.mas.answer import Refusal
from sfumato.mas.models.algebra import DEPENDENT, inverse, largest_correlation, smallest
from sfumato.mas.models.errors import sandwich, scores_sql
from sfumato.mas.models.hat import leverage_of
from sfumato.mas.models.layout import Layout, LevelOutcome
from sfumato.mas.models.likelihood import Dependent, Likelihood, Separated, fit, start
from sfumato.mas.models.model import ModelAnalysis, Prepared, collinear, prepared
from sfumato.mas.models.noise import Noise, noise_of
from sfumato.mas.models.numbers import Numbers
from sfumato.mas.models.phantoms import phantoms_of
from sfumato.mas.models.published import coefficient_rows, rounded
from sfumato.mas.question import Question

SEPARATED = Refusal(
    "separation", "The terms of the model decide the outcome of some records, so that it has no finite coefficients.",
    "Leave a term out, or use coarser levels.",
)  # fmt: skip
ONE_OUTCOME = Refusal(
    "one_outcome", "The universe does not have every outcome of the model.",
    "Choose another outcome, or a universe that has all its levels.",
)  # fmt: skip


@dataclass(frozen=True)
class Modelled:
    """What a likelihood model is of."""

    outcome: LevelOutcome
    names: tuple[str, ...]
    """Of the outcomes, in words: the base first."""
    note: str
    flip: bool = False
    """Whether the modelled outcome is the first of two levels: the second one is fitted, so that there is one noise."""


class LevelsAnalysis(ModelAnalysis, abstract=True):
    """A likelihood model of an outcome of levels."""

    @abstractmethod
    def modelled(self, question: Question) -> Modelled | Refusal:
        """Return what is modelled, by counts of the outcome's levels as rules may see them."""

    def run(self, question: Question) -> Findings | Refusal:
        """Fit by Newton's method, let the rules look, add noise to the scores, and round."""
        modelled = self.modelled(question)
        if isinstance(modelled, Refusal):
            return modelled
        fit = fitted_levels(question, self, modelled)
        return fit if isinstance(fit, Refusal) else _published(fit, modelled)


@dataclass(frozen=True, eq=False)
class LevelsFit:
    """A fit that the rules let pass. Confidential."""

    ready: Prepared
    fitted: Likelihood
    noises: list[Noise]
    constant: bool
    """Whether the model has an intercept, written or as a sum of indicators."""
    squares: Numbers
    """Sums of squares of the columns."""


def fitted_levels(question: Question, analysis: ModelAnalysis, modelled: Modelled) -> LevelsFit | Refusal:
    """Return the fit, unless a rule, before it or after it, refuses the model."""
    outcome = modelled.outcome
    ready = prepared(question, analysis, outcome, [modelled.note])
    if isinstance(ready, Refusal):
        return ready

    def noises_in(layout: Layout) -> list[Noise]:
        return [noise_of(ready.complete, layout, ready.bounds, name, 0.5, ordered=True) for name in outcome.titles[1:]]

    outcomes = _noisy(ready, noises_in(ready.layout))
    if not (outcomes > 0).all():
        return ONE_OUTCOME
    try:
        at, layout, products = start(question, ready.layout, outcomes, noises_in)
        question.results["correlation"] = largest_correlation(products, layout.design.intercept)
        if (
            refusal := question.refused("result")
        ) is not None:  # with noise on them, nearly the same columns have no fit
            return refusal
        noises, user = noises_in(layout), layout.to_user(ready.standard[1])
        fitted = fit(question, layout, at, np.array([noise.values for noise in noises]), user)
    except Dependent as found:
        return collinear(question, found.correlation)
    except Separated:
        return SEPARATED
    read = products if layout.turn is None else layout.turn @ products @ layout.turn.T
    fitted, potential = fitted.among(phantoms_of(ready.complete, layout, ready.bounds, inverse(read)), read)
    question.results["potential"] = potential
    if smallest(fitted.information) < DEPENDENT:
        return collinear(question, question.results["correlation"])
    question.results["fit"] = 1 - fitted.value / _null(outcomes)
    question.results["leverage"] = lambda: leverage_of(ready.complete, layout, products, lambda: fitted.second.leverage)
    refusal = question.refused("result")
    constant = layout.design.constant(products, ready.moments.weight) is not None
    return LevelsFit(ready, fitted, noises, constant, np.diag(products)) if refusal is None else refusal


def _published(fit: LevelsFit, modelled: Modelled) -> Findings:
    ready, fitted, noises, flip, outcome = fit.ready, fit.fitted, fit.noises, modelled.flip, modelled.outcome
    layout = fitted.layout
    variance = _variance(ready, fitted, noises)
    settings = ready.question.policy.models
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(outcome.titles[1:]):
        titles = [column.title for column in layout.design.columns]
        made = coefficient_rows(titles, fitted.user @ fitted.beta[i] * (-1 if flip else 1), variance[i], settings)
        rows += [{"outcome": name, **row} for row in made] if len(outcome.titles) > 2 else made
    facts = _facts(ready, fitted, noises, fit.constant)
    return Findings({"coefficients": rows}, facts, ready.notes, ready.sets(layout, fit.squares, len(fitted.beta)))


def _noisy(ready: Prepared, noises: list[Noise]) -> Numbers:
    """Return the weight of each outcome, with noise."""
    totals = np.array([noise.of_total for noise in noises])
    return np.asarray(ready.moments.outcomes + np.array([-totals.sum(), *totals]))


def _null(outcomes: Numbers) -> float:
    """Return the log-likelihood of a model with nothing but intercepts."""
    return float((outcomes * np.log(outcomes / outcomes.sum())).sum())


def _facts(ready: Prepared, fitted: Likelihood, noises: list[Noise], constant: bool) -> dict[str, Any]:
    outcomes = _noisy(ready, noises)
    value, null = fitted.value * ready.back, _null(outcomes) * ready.back if (outcomes > 0).all() else np.nan
    equations, k = fitted.beta.shape
    df = equations * (k - constant)
    ratio = 2 * (value - null)
    facts: dict[str, Any] = {"n": None if np.isnan(ready.shown_n) else ready.shown_n}
    facts |= rounded(
        {
            "log-likelihood": value, "null log-likelihood": null, "pseudo-R²": 1 - value / null,
            "likelihood ratio": ratio, "p": _by_chance(fitted, noises, ratio / ready.back, df),
        },
        ready.question.policy.models.digits,
    )  # fmt: skip
    return facts | {"df model": float(df)}


def _by_chance(fitted: Likelihood, noises: list[Noise], ratio: float, df: int) -> float:
    """Return the chance of so large a likelihood ratio of the kept records, if no column but the intercept explains anything.

    It is then s′As of a score s with the variance I + N, I the information and N that of the noise, and A = I⁻¹ less the part of
    the intercepts. Its first two moments are those of a multiple of χ² (Satterthwaite); without noise it is χ² itself.
    """
    from scipy.stats import chi2

    if not df or not np.isfinite(ratio):
        return np.nan
    spread = _spread(noises)
    if not spread.any() or not fitted.layout.design.intercept:
        return float(chi2.sf(ratio, df))
    information = np.linalg.inv(fitted.bread)
    first = np.arange(len(noises)) * (len(spread) // len(noises))  # the intercept of each equation
    part = fitted.bread.copy()
    part[np.ix_(first, first)] -= np.linalg.inv(information[np.ix_(first, first)])
    weighed = part @ (information + spread)
    mean, square = float(np.trace(weighed)), float(np.trace(weighed @ weighed))
    return float(chi2.sf(ratio * mean / square, mean**2 / square))


def _spread(noises: list[Noise]) -> Numbers:
    """Return the variance of the noise on all scores, shape (equations × columns, equations × columns)."""
    from scipy.linalg import block_diag

    return np.asarray(block_diag(*(noise.variance for noise in noises)))


def _variance(ready: Prepared, fitted: Likelihood, noises: list[Noise]) -> Numbers:
    """Return the variances of the coefficients of the formula, shape (equations, columns); that of the noise is added."""
    equations, wide = len(fitted.beta), fitted.wide
    if ready.errors == "classical":
        found = fitted.diagonal
    else:
        if ready.errors == "design":
            source = scores_sql(ready.question, fitted.layout, fitted.beta)
            found = ready.question.dataset.design.covariances(source, wide @ fitted.bread, fitted.second.meat)[0]
        else:  # hc1 as hc0: likelihoods have no correction for n, as in statsmodels
            found = np.einsum("ij,jk,ik->i", wide, sandwich(fitted.bread, fitted.second.meat), wide)
        # the squares of the residuals of all equations add up to 1 at most, or to 2 where there are several
        found = ready.blurred(found, fitted.diagonal * fitted.second.influence * min(equations, 2))
    extra = sandwich(fitted.bread, _spread(noises))
    return np.asarray(found + np.einsum("ij,jk,ik->i", wide, extra, wide)).reshape(equations, -1)
