"""Ordered logistic regression from a fixed number of protected scoring steps."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.errors import ParameterError
from sfumato.mas.answer import Refusal
from sfumato.mas.models.clusters import HouseholdPairs, outcome_correlation
from sfumato.mas.models.design import Category
from sfumato.mas.models.likelihood import ONE_OUTCOME, SEPARATED
from sfumato.mas.models.model import (
    COLLINEAR,
    DEPENDENT,
    EMPTY,
    ModelAnalysis,
    ModelColumns,
    allowed_levels,
    coefficient_rows,
    conditioned,
    counted,
    largest_correlation,
    model_columns,
    model_notes,
    rounded,
)
from sfumato.mas.models.products import ONE, ComposedFunction, MonomialRows, Products, WholeRows
from sfumato.mas.question import Question, Result, Steps
from sfumato.mas.register import Register
from sfumato.mas.rule import CorrelationEvidence, ModelEvidence
from sfumato.mas.sums import Confidential, Piece, ProtectedSums, SumsRequest, TotalSums
from sfumato.typing import Numbers

_EXACT_STEPS, _STEPS = 50, 4
"""Scoring steps without noise, at most, and with it."""
_EARLY, _ROUGH = 0.1, 0.1
"""Part of the noise's precision that early steps, and curvatures, need."""
_MORE = 1.5
"""Scores of cutpoints are cut off at so many times what they are at the shares of the levels among all records."""
_TOP = 0.5
"""The largest information of a record, for columns of size 1; more only where levels are rare."""


class OrderedLogit(ModelAnalysis):
    """Proportional odds: P(y ≤ level j) = 1 / (1 + exp(x'b − θ_j)), for levels in their order (McCullagh 1980).

    Steps use the expected information; their number is fixed where there is noise.
    """

    @override
    def validate(self) -> None:
        super().validate()
        if self.errors in ("hc0", "hc1") or self.weighted:
            raise ParameterError(
                "ordered_logit counts each record once, and has no robust errors. Leave out weighted and errors."
            )

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        self.check_weights(question)
        terms = self.terms(question.codebook.variables)
        function, name = terms.outcome
        if function != "C" or not terms.intercept:
            raise ParameterError(
                f"the outcome of ordered_logit is the levels of a variable: write C({name}), and leave out 0 and -1."
            )
        allowed = allowed_levels(question, question.codebook.variables[name])
        counts = yield from counted(question, register, [(name,)])
        shown = [i for i in allowed if counts[name,][i] >= max(0.5, 2 * question.policy.counts.sd)]
        if len(shown) < 3:
            return ONE_OUTCOME
        category = Category.of(question.codebook.variables[name], shown, shown[0])
        columns = yield from model_columns(question, register, terms, category)
        if isinstance(columns, Refusal):
            return columns
        sizes = np.array([counts[name,][i] for i in shown], np.float64)
        fit = yield from _fitted(question, register, columns, shown, sizes)
        if isinstance(fit, Refusal):
            return fit
        errors = self.covariance(question.codebook)
        if errors == "design":
            fit = _with_households(question, register, columns, fit)
        told = float(question.policy.counts.shown(np.array([fit.n]))[0])
        facts: dict[str, Any] = {"n": None if np.isnan(told) else told}
        share = 1 - fit.value / fit.null
        facts |= rounded(
            {"log-likelihood": fit.value, "null log-likelihood": fit.null, "pseudo-R²": share},
            question.policy.models.digits,
        )
        levels = question.codebook.variables[name].levels
        said = (
            f"Positive coefficients make later levels of {name} more frequent: {', '.join(levels[i] for i in shown)}."
        )
        gaps = columns.factors.gaps
        notes = (said, *columns.notes, *model_notes(question, errors, gaps, False))
        model = ModelEvidence(fit.n, len(fit.beta), columns.levels, float(sizes.min()), share, 0.0)
        evidence = (model, CorrelationEvidence(fit.correlation, fit.n))
        return Result({"coefficients": fit.rows(question, columns, [levels[i] for i in shown])}, facts, notes, evidence)


@dataclass(frozen=True, eq=False)
class OrderedFit:
    """Cutpoints, then coefficients of the columns but the intercept, as they are read."""

    beta: Numbers
    variance: Numbers
    information: Numbers
    value: float
    null: float
    n: float
    correlation: float

    def rows(self, question: Question, columns: ModelColumns, levels: Sequence[str]) -> list[dict[str, Any]]:
        """Return a row for each coefficient of the formula, and one for each cutpoint."""
        user, cuts = columns.to_formula(), len(levels) - 1
        turn = np.eye(len(self.beta))
        turn[cuts:, cuts:] = user[1:, 1:]
        turn[:cuts, cuts:] = -user[0, 1:]
        titles = [f"{a} | {b}" for a, b in itertools.pairwise(levels)] + [c.title for c in columns.design.columns[1:]]
        variance = np.einsum("ij,jk,ik->i", turn, self.variance, turn)
        rows = coefficient_rows(titles, turn @ self.beta, variance, question.policy.models)
        return [*rows[cuts:], *rows[:cuts]]


class OrderedRows(ComposedFunction):
    """Score, information (its upper triangle), log-likelihood, a 1 and the levels of each complete record."""

    def __init__(self, columns: ModelColumns, shown: Sequence[int], beta: Numbers) -> None:
        factors = columns.factors
        at = len(factors.categories) - 1
        every = [*columns.monomials[1:], *(((), ((at, level),)) for level in shown)]
        self.rows = WholeRows(factors, every)
        self.parts = (self.rows,)
        self.k, self.beta, self.cuts = len(columns.monomials) - 1, beta, len(shown) - 1

    @override
    def __call__(self, piece: Piece) -> Numbers:
        whole, complete = self.rows(piece), self.rows.complete(piece)
        x, y = whole[: self.k], whole[self.k :]
        complete = complete & (y.sum(axis=0) > 0.5)
        below = 1 / (1 + np.exp(self.beta[self.cuts :] @ x - self.beta[: self.cuts, None]))
        share = np.maximum(np.diff(below, axis=0, prepend=0.0, append=1.0), 1e-12)
        slope = np.concatenate([np.zeros((1, len(complete))), below * (1 - below), np.zeros((1, len(complete)))])
        # derivatives of each level's share: by the cutpoints, and by the linear predictor
        by = np.zeros((self.cuts + 1, self.cuts + 1, len(complete)))
        for j in range(self.cuts):
            by[j, j], by[j + 1, j] = slope[j + 1], -slope[j + 1]
        by[:, self.cuts] = -np.diff(slope, axis=0)
        score = (y[:, None] * by / share[:, None]).sum(axis=0)
        inner = np.einsum("can,cbn->abn", by / share[:, None], by)
        full = [*((a, None) for a in range(self.cuts)), *((self.cuts, j) for j in range(self.k))]
        rows = [score[a] * (1.0 if j is None else x[j]) for a, j in full]
        for u, (a, i) in enumerate(full):
            rows += [inner[a, b] * (1.0 if i is None else x[i]) * (1.0 if j is None else x[j]) for b, j in full[u:]]
        rows += [np.log((y * share).sum(axis=0) + (1 - complete)), np.ones(len(complete)), *y]
        return np.asarray(np.array(rows) * complete, np.float64)


def _score_bounds(columns: ModelColumns, sizes: Numbers, noisy: bool) -> list[Confidential]:
    """Return bounds and nominal sizes of what a record adds to score, information, log-likelihood, number and levels."""
    shares = np.maximum(sizes, 1.0) / np.maximum(sizes, 1.0).sum()
    below = np.cumsum(shares)[:-1]
    cuts = len(below)
    steep = _MORE * below * (1 - below) / np.minimum(shares[:-1], shares[1:]) if noisy else np.full(cuts, 1e6)
    own = [max(columns.factors.bounds(one).spread, 0.05) for one in columns.monomials[1:]]
    reach = [*steep.tolist(), *(_largest(columns, i + 1) for i in range(len(own)))]
    spread = [*(0.5 * steep).tolist(), *(0.6 * size for size in own)]
    bounds = [Confidential(-r, r, s) for r, s in zip(reach, spread, strict=True)]
    for u, v in itertools.combinations_with_replacement(range(len(reach)), 2):
        top = _TOP * (max(reach[u], 1.0) * max(reach[v], 1.0) if u < cuts else reach[u] * reach[v])
        bounds.append(Confidential(0.0 if u == v else -top, top, min(spread[u] * spread[v], top)))
    return [
        *bounds,
        Confidential(-5.0, 0.0, 1.0),
        Confidential(0.0, 1.0, 0.1),
        *([Confidential(0.0, 1.0, 0.5)] * len(sizes)),
    ]


def _fitted(
    question: Question, register: Register, columns: ModelColumns, shown: Sequence[int], sizes: Numbers
) -> Generator[SumsRequest, ProtectedSums, OrderedFit | Refusal]:
    """Take a fixed number of scoring steps, each a request."""
    factors, k, cuts = columns.factors, len(columns.monomials) - 1, len(shown) - 1
    noisy, m = bool(question.policy.models.sd), len(columns.monomials) - 1 + len(shown) - 1
    shape = Products(question, register, factors, columns.monomials, ())
    cumulated = (np.cumsum(np.maximum(sizes, 1.0)) / np.maximum(sizes, 1.0).sum())[:-1]
    bounds, triangle = _score_bounds(columns, sizes, noisy), list(itertools.combinations_with_replacement(range(m), 2))
    names = ";".join(factors.wording(one) for one in columns.monomials)
    beta: Numbers = np.concatenate([np.round(np.log(cumulated / (1 - cumulated)), 6), np.zeros(k)])
    values, noise = np.zeros(len(bounds)), np.zeros(len(bounds))
    change: Numbers
    change, information, unsure = np.zeros(m), np.eye(m), np.zeros((m, m))
    steps = _STEPS if noisy else _EXACT_STEPS
    for step in range(steps):
        rows, words = OrderedRows(columns, shown, beta), ",".join(f"{b:.12g}" for b in beta)
        last, parts = step == steps - 1, {}
        for name, chosen, share in (
            ("score", range(m), 1.0 if last else _EARLY),
            ("rest", range(m, len(bounds)), _ROUGH),
        ):
            if name == "score" or not noisy or step in (0, steps - 1):
                parts[name] = TotalSums(
                    f"ordered {name} {names} {shown} at {words}", MonomialRows(factors, True, (ONE,)), rows, tuple(bounds),
                    tuple((0, g) for g in chosen), shape.variables, shape.by, share if noisy else 1.0,
                )  # fmt: skip
        sums = yield SumsRequest(parts)
        for name, own in (("score", slice(0, m)), ("rest", slice(m, None))):
            if name in parts:
                values[own], noise[own] = sums.totals(name).values, sums.totals(name).variances
        for at, (u, v) in enumerate(triangle, m):
            information[u, v] = information[v, u] = values[at]
            unsure[u, v] = unsure[v, u] = noise[at]
        if conditioned(information)[0] < (1e-4 if noisy else DEPENDENT):
            return COLLINEAR if step == 0 else SEPARATED
        change = np.asarray(np.linalg.solve(information, values[:m]), np.float64)
        beta = beta + change * min(1.0, 2.0 / max(float(np.abs(change).max()), 1e-300))
        if not (np.diff(beta[:cuts]) > 0).all():
            return SEPARATED
        if not noisy and np.abs(change).max() < 1e-11 * max(float(np.abs(beta).max()), 1.0):
            break
    else:
        if not noisy:
            return SEPARATED
    return _estimates(question, beta, change, values, noise, information, unsure, len(shown))


def _estimates(
    question: Question,
    beta: Numbers,
    change: Numbers,
    values: Numbers,
    noise: Numbers,
    information: Numbers,
    unsure: Numbers,
    levels: int,
) -> OrderedFit | Refusal:
    """Return the fit after the last step, with the noise of score and information in its variance."""
    m, cuts = len(beta), levels - 1
    n, told = float(values[-levels - 1]), np.maximum(values[-levels:], 1.0)
    if not n > 2 * m:
        return EMPTY
    bread = np.linalg.inv(information)
    of_sums = np.diag(noise[:m] + unsure @ np.square(change))
    variance = question.policy.variance_inflation * bread + bread @ of_sums @ bread
    null = float((told * np.log(told / told.sum())).sum())
    correlation = largest_correlation(information[cuts:, cuts:], False) if m - cuts > 1 else 0.0
    value = float(values[-levels - 2])
    coefficients, spread, held = (np.asarray(part, np.float64) for part in (beta, variance, information))
    return OrderedFit(coefficients, spread, held, value, null, n, correlation)


def _with_households(question: Question, register: Register, columns: ModelColumns, fit: OrderedFit) -> OrderedFit:
    """Return a fit whose errors allow for households, as if predictors were the same for all members."""
    factors, slopes = columns.factors, len(columns.monomials) - 1
    found = HouseholdPairs.of(question, register, factors, (ONE,), False)
    nominal = outcome_correlation(factors, factors.categories[-1].name)
    own = fit.information[-slopes:, -slopes:] if slopes else np.zeros((0, 0))
    rho = found.residual_correlation(nominal, fit.beta[len(fit.beta) - slopes :], own, fit.n, 1.0, False)
    bread = np.linalg.inv(fit.information)
    return replace(fit, variance=fit.variance + rho * bread @ found.excess(fit.information) @ bread)


def _largest(columns: ModelColumns, at: int) -> float:
    """Return the largest size of a column as it is read."""
    factors, most = columns.factors, 1.0
    for i in columns.monomials[at][0]:
        a, b = ((end - factors.centre[i]) / factors.scale[i] for end in factors.numbers[i].bounds)
        most *= max(abs(a), abs(b))
    return most
