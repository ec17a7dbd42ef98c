"""Binary and multinomial logistic models from sums, by Newton's method, and their rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.mas.answer import Refusal
from sfumato.mas.models.influence import SecondPass, leverage_of, sandwich, scaled_influence, scores_sql
from sfumato.mas.models.layout import CompleteRecords, Layout, LevelOutcome, Piece
from sfumato.mas.models.model import ModelAnalysis, Prepared, coefficient_rows, collinear, prepared, rounded
from sfumato.mas.models.noise import (
    DEPENDENT,
    NEARLY,
    Noise,
    Phantoms,
    inverse,
    largest_correlation,
    noise_of,
    phantoms_of,
    smallest,
    turn_of,
)
from sfumato.mas.question import Findings, Question
from sfumato.typing import Numbers

# --- likelihood
# Binary and multinomial logistic models from sums: Newton's method, each step one pass, halved where it goes too far.

_STEPS = 30
_HALVINGS = 12
_TOLERANCE = 1e-6
"""Newton's steps square their error: after one of this size it is gone."""
_FAR = 1e-7
"""Of the first curvature: where so little is left, fitted probabilities are 0 or 1."""


def probabilities(linear: Numbers) -> tuple[Numbers, Numbers]:
    """Return probabilities of all outcomes but the base, shape (outcomes - 1, n), and the log of the sum, shape (n,).

    `linear` are the logits against the base, shape (outcomes - 1, n).
    """
    top = np.maximum(linear.max(axis=0), 0.0)
    raised = np.exp(linear - top)
    total = raised.sum(axis=0) + np.exp(-top)
    raised /= total
    return raised, np.log(total) + top


def _indicated(reading: CompleteRecords, equations: int) -> Numbers:
    assert reading.levels is not None  # noqa: S101 - a likelihood model reads levels
    return np.asarray(reading.levels[None, :] == np.arange(1, equations + 1)[:, None], np.float64)


class _Step:
    """Log-likelihood, score and information at some coefficients (equations, columns)."""

    def __init__(self, layout: Layout, beta: Numbers) -> None:
        self.layout, self.beta = layout, beta

    def __call__(self, piece: Piece) -> Numbers:
        reading = self.layout.read(piece)
        z, w = self.layout.matrix(reading), reading.weights
        equations, k = self.beta.shape
        y = _indicated(reading, equations)
        linear = self.beta @ z
        p, log_sum = probabilities(linear)
        each = (y * linear).sum(axis=0) - log_sum
        value = float(each.sum()) if w is None else float(each @ w)
        rest = y - p if w is None else (y - p) * w
        blocks = np.empty((equations, k, equations, k))
        for a in range(equations):
            for b in range(a, equations):
                weight = p[a] * (1 - p[b] if a == b else p[b])
                half = z * np.sqrt(weight if w is None else weight * w)
                blocks[a, :, b, :] = blocks[b, :, a, :] = (half @ half.T) * (1.0 if a == b else -1.0)
        return np.concatenate([[value], (rest @ z.T).ravel(), blocks.ravel()])


class _Scores:
    """The sums of a second pass; of residuals there is no sum of squares."""

    def __init__(self, layout: Layout, beta: Numbers, bread: Numbers, influence: Numbers) -> None:
        self.layout, self.beta, self.bread, self.influence = layout, beta, bread, influence

    def __call__(self, piece: Piece) -> Numbers:
        reading = self.layout.read(piece)
        z, w = self.layout.matrix(reading), reading.weights
        equations, k = self.beta.shape
        p, _ = probabilities(self.beta @ z)
        rest = _indicated(reading, equations) - p
        leverage = np.zeros(reading.n)
        influence = np.zeros((equations * k, reading.n))
        bread = self.bread.reshape(equations, k, equations, k)
        for a in range(equations):
            influence += np.square(self.influence[:, a * k : (a + 1) * k] @ z)
            for b in range(equations):
                weight = p[a] * ((1.0 if a == b else 0.0) - p[b])
                leverage += weight * np.einsum("ij,ij->j", z, bread[b, :, a, :] @ z)
        if w is not None:
            rest, leverage, influence = rest * w, leverage * w, influence * np.square(w)
        scores = (rest[:, None, :] * z[None, :, :]).reshape(equations * k, reading.n)
        return SecondPass.sums(0.0, scores @ scores.T, leverage, influence)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A fit; coefficients have one row for each outcome but the base. Confidential."""

    question: Question
    layout: Layout
    beta: Numbers
    value: float
    """Log-likelihood, of noisy sums where there is noise."""
    information: Numbers
    """Shape (equations × columns, the same)."""

    user: Numbers
    """Takes coefficients of the columns as read to those of the formula; shape (columns, columns)."""

    def among(self, phantoms: Phantoms, products: Numbers) -> tuple[Likelihood, float]:
        """Return the fit with phantoms on its plane, and the share of the information that one value could make up.

        `products` are X'X. A phantom counts as much as a record does on average.
        """
        information, k, potential = self.information.copy(), len(products), 0.0
        for a in range(len(self.beta)):
            own = slice(a * k, (a + 1) * k)
            share = float(np.trace(np.linalg.solve(products, self.information[own, own]))) / k
            information[own, own] += share * phantoms.products
            potential = max(potential, phantoms.potential(information[own, own], share))
        return replace(self, information=information), potential

    @cached_property
    def bread(self) -> Numbers:
        """The inverse of the information."""
        return inverse(self.information)

    @cached_property
    def wide(self) -> Numbers:
        """Takes coefficients of all equations, one after another, to those of the formula."""
        return np.asarray(np.kron(np.eye(len(self.beta)), self.user), np.float64)

    @cached_property
    def diagonal(self) -> Numbers:
        """The diagonal of the bread, of the columns of the formula."""
        return np.asarray(np.einsum("ij,jk,ik->i", self.wide, self.bread, self.wide))

    @cached_property
    def second(self) -> SecondPass:
        """What needs one more pass."""
        influence = scaled_influence(self.wide @ self.bread, self.diagonal)
        added = _Scores(self.layout, self.beta, self.bread, influence)
        sums = self.question.dataset.warehouse.reduce(added, self.layout.columns, self.question.records)
        return SecondPass.of(sums, len(self.information))


@dataclass(frozen=True, eq=False)
class _At:
    """The sums at some coefficients."""

    beta: Numbers
    value: float
    score: Numbers
    information: Numbers

    def with_noise(self, noise: Numbers) -> _At:
        """Return the sums with noise on X'y."""
        return replace(self, value=self.value + float((self.beta * noise).sum()), score=self.score + noise)


class Separated(Exception):  # noqa: N818 - a state of the data, turned into a refusal
    """The likelihood has no maximum: the outcome is decided by the columns."""


class Dependent(Exception):  # noqa: N818 - likewise
    """Some columns are a combination of others."""

    def __init__(self, correlation: float) -> None:
        super().__init__()
        self.correlation = correlation
        """The largest of two columns."""


def start(
    question: Question, layout: Layout, outcomes: Numbers, noises: Callable[[Layout], Sequence[Noise]]
) -> tuple[_At, Layout, Numbers]:
    """Return the sums at starting coefficients, a layout without empty or nearly dependent columns, and the cross-products.

    `outcomes` are the weights of the outcomes, and `noises` gives the noise on the sums of each in the columns of a layout.
    """
    assert isinstance(layout.outcome, LevelOutcome)  # noqa: S101 - a likelihood model
    equations = len(layout.outcome.titles) - 1
    shares = outcomes / outcomes.sum()
    beta = np.zeros((equations, len(layout.design.columns)))
    first = equations / (equations + 1) ** 2
    if layout.design.intercept:
        beta[:, 0] = np.log(shares[1:] / shares[0])
        first = shares[1] * (1 - shares[1])
    at = _evaluate(question, layout, beta)
    k = beta.shape[1]
    products = at.information.reshape(equations, k, equations, k)[0, :, 0, :] / first
    kept = [i for i, c in enumerate(layout.design.columns) if products[i, i] > 0 or not c.cells]
    if len(kept) < k:
        layout, beta, products = layout.only(kept), beta[:, kept], products[np.ix_(kept, kept)]
        places = [a * k + i for a in range(equations) for i in kept]
        at = _At(beta, at.value, at.score[:, kept], at.information[np.ix_(places, places)])
    if _decided(layout, at, products, shares, noises(layout)):
        raise Separated
    least = smallest(products)
    if least < DEPENDENT:
        raise Dependent(largest_correlation(products, layout.design.intercept))
    if least < NEARLY:
        turn = turn_of(products)
        layout = replace(layout, turn=turn)
        beta[:, 0] /= turn[0, 0]
        at = _evaluate(question, layout, beta)
    return at, layout, products


def _decided(layout: Layout, at: _At, products: Numbers, shares: Numbers, noises: Sequence[Noise]) -> bool:
    """Whether a level, a combination of levels, or a reference has no record of some outcome: then there is no maximum.

    With noise, the sums that it is judged by have it, and fewer than three standard deviations are none: that one record of a
    level has the outcome, or that none has, must not decide.
    """
    design = layout.design
    if not design.intercept:
        return False
    happened = at.score + shares[1:, None] * products[0]  # sums of each outcome over each column
    happened = happened + np.array([noise.values for noise in noises])
    happened = np.concatenate([products[:1] - happened.sum(axis=0), happened])
    variance = np.array([noise.variance.diagonal() for noise in noises])
    variance = np.concatenate([variance.sum(axis=0, keepdims=True), variance])
    for category in range(len(design.categories)):
        mine = [
            i for i, c in enumerate(design.columns) if not c.numbers and len(c.cells) == 1 and c.cells[0][0] == category
        ]
        rest, left = happened[:, 0] - happened[:, mine].sum(axis=1), products[0, 0] - products[0, mine].sum()
        none = 3 * np.sqrt(variance[:, 0] + variance[:, mine].sum(axis=1))
        if mine and left > 1e-9 * products[0, 0] and (rest < none + 1e-9 * left).any():
            return True
    indicators = [i for i, c in enumerate(design.columns) if not c.numbers]
    none = 3 * np.sqrt(variance[:, indicators])
    return bool((happened[:, indicators] < none + 1e-9 * products[0, indicators]).any())


def fit(question: Question, layout: Layout, at: _At, noise: Numbers, user: Numbers) -> Likelihood:
    """Find where score + noise is 0, from the sums at starting coefficients (equations, columns)."""
    at, first = at.with_noise(noise), np.diag(at.information)
    for _ in range(_STEPS):
        if (np.diag(at.information) < _FAR * first).any() or smallest(at.information) < DEPENDENT:
            raise Separated
        step = (inverse(at.information) @ at.score.ravel()).reshape(at.beta.shape)
        size = float(np.abs(step).max())
        after = _evaluate(question, layout, at.beta + step).with_noise(noise)
        for _ in range(_HALVINGS):
            if after.value >= at.value - 1e-11 * abs(at.value):
                break
            step = step / 2
            after = _evaluate(question, layout, at.beta + step).with_noise(noise)
        at = after
        if size <= _TOLERANCE * max(1.0, float(np.abs(at.beta).max())):
            return Likelihood(question, layout, at.beta, at.value, at.information, user)
    raise Separated


def _evaluate(question: Question, layout: Layout, beta: Numbers) -> _At:
    sums = question.dataset.warehouse.reduce(_Step(layout, beta), layout.columns, question.records)
    size = beta.size
    return _At(beta, float(sums[0]), sums[1 : 1 + size].reshape(beta.shape), sums[1 + size :].reshape(size, size))


# --- levels model
# Fitting an outcome of levels, binary or multinomial, and putting it into rows.


SEPARATED = Refusal(
    "separation", "The terms of the model decide the outcome of some records, so that it has no finite coefficients.",
    "Leave a term out, or use coarser levels.",
)  # fmt: skip
ONE_OUTCOME = Refusal(
    "one_outcome", "The universe does not have every outcome of the model.",
    "Choose another outcome, or a universe that has all its levels.",
)  # fmt: skip


@dataclass(frozen=True)
class OutcomeSpec:
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
    def modelled(self, question: Question) -> OutcomeSpec | Refusal:
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


def fitted_levels(question: Question, analysis: ModelAnalysis, modelled: OutcomeSpec) -> LevelsFit | Refusal:
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


def _published(fit: LevelsFit, modelled: OutcomeSpec) -> Findings:
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
