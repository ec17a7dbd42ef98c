"""Ordinary and weighted least squares, with the analysis of variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mas.analysis import Findings
from sfumato.mas.answer import Refusal
from sfumato.mas.models.algebra import DEPENDENT, inverse, largest_correlation, smallest
from sfumato.mas.models.errors import sandwich, scores_sql
from sfumato.mas.models.hat import leverage_of
from sfumato.mas.models.layout import Layout
from sfumato.mas.models.least_squares import LeastSquares, cross_products, independent, without_empty
from sfumato.mas.models.model import EMPTY, ModelAnalysis, Prepared, collinear, prepared
from sfumato.mas.models.moments import moved_outcome
from sfumato.mas.models.noise import noise_of, squares_noise
from sfumato.mas.models.numbers import Number, Numbers
from sfumato.mas.models.phantoms import phantoms_of
from sfumato.mas.models.published import coefficient_rows, rounded
from sfumato.mas.models.terms import Terms, title
from sfumato.mas.question import Question


class OLS(ModelAnalysis):
    """Least squares: coefficients, standard errors, R², F, and the classical table of the analysis of variance.

    Terms are in canonical order, in which their sequential (type I) sums of squares are taken. With survey weights the
    estimates are weighted least squares.
    """

    def run(self, question: Question) -> Findings | Refusal:
        """Add up cross-products, let the rules look, add noise, solve, and round."""
        found = self.fitted(question)
        if isinstance(found, Refusal):
            return found
        ready, fit = found
        anova, facts, mean_square = _anova(ready, fit, self.terms(question.dataset.variables))
        scale = _unit(ready, fit)
        beta = scale * (fit.user @ fit.moved_beta)
        variance = scale**2 * _variance(ready, fit, mean_square)
        settings = question.policy.models
        df = ready.stated_n - fit.k if ready.errors == "classical" else None
        titles = [column.title for column in fit.layout.design.columns]
        tables = {"coefficients": coefficient_rows(titles, beta, variance, settings, df), "anova": anova}
        return Findings(tables, facts, ready.notes, ready.sets(fit.layout, np.diag(fit.unturned)))

    def fitted(self, question: Question) -> tuple[Prepared, LeastSquares] | Refusal:
        """Return the fit, unless a rule, before it or after it, refuses the model."""
        function, name = self.terms(question.dataset.variables).outcome
        if function == "C":
            raise ParameterError(
                f"the outcome of ols must be a number, and '{name}' has levels. For these, use logistic or multinomial."
            )
        outcome = Number.of(question.dataset.variables[name], function, question.policy.amounts.top_coded)
        ready = prepared(question, self, outcome, [])
        if isinstance(ready, Refusal):
            return ready
        fit = _fitted(ready)
        if isinstance(fit, Refusal):
            return fit
        question.results["fit"] = fit.share
        question.results["leverage"] = lambda: leverage_of(
            ready.complete, fit.layout, fit.unturned, lambda: fit.second.leverage
        )
        refusal = question.refused("result")
        return (ready, fit) if refusal is None else refusal


def number_of(layout: Layout) -> Number:
    """Return the outcome of a linear model."""
    assert isinstance(layout.outcome, Number)  # noqa: S101 - of least squares
    return layout.outcome


def _unit(ready: Prepared, fit: LeastSquares) -> float:
    """Return what one of the outcome as read is in units of the formula."""
    scale = float(fit.layout.scale[-1])
    return scale / float(ready.standard[1][-1]) if number_of(fit.layout).standardised else scale


def _fitted(ready: Prepared) -> LeastSquares | Refusal:
    """Return the fit, or a refusal where columns depend on each other."""
    question = ready.question
    products, layout = without_empty(cross_products(question, ready.layout), ready.layout)
    k = len(layout.design.columns)
    if ready.moments.n <= k:
        return EMPTY
    correlation = largest_correlation(products[:k, :k], layout.design.intercept)
    if smallest(products[:k, :k]) < DEPENDENT:
        return collinear(question, correlation)
    ones = layout.design.constant(products[:k, :k], ready.moments.weight)
    flat = not products[k, k] > 0 or (ones is not None and ready.moments.spreads[-1] == 0)
    if flat and not question.policy.models.sd:  # with noise, that nobody differs is not told
        return Refusal("one_outcome", "The outcome does not vary.", "Choose another outcome, or another universe.")
    question.results["correlation"] = correlation
    outcome, bounds = number_of(layout), ready.bounds[-1]
    if ones is not None and not layout.design.intercept:  # moved as with an intercept, so that no digits are lost
        layout = moved_outcome(layout, ready.moments)
        products = cross_products(question, layout)
    products, layout = independent(question, products, layout)
    scale, centre = float(layout.scale[-1]), float(layout.centre[-1])
    half = bounds.half if layout.design.intercept else bounds.largest
    noise = noise_of(ready.complete, layout, ready.bounds, outcome.name, half)
    squares = squares_noise(ready.complete, outcome.name, bounds, layout.weighted)
    squares += 2 * (bounds.middle - centre) * noise.of_total
    if ones is not None and layout.turn is not None:
        ones = np.asarray(np.linalg.solve(layout.turn.T, ones), np.float64)
    moved = (centre - (float(ready.standard[0][-1]) if outcome.standardised else 0.0)) / scale
    phantoms = phantoms_of(ready.complete, layout, ready.bounds, inverse(products[:k, :k]))
    blurred = products[:k, :k] + phantoms.products
    question.results["potential"] = phantoms.potential(blurred)
    if smallest(blurred) < DEPENDENT:
        return collinear(question, correlation)
    return LeastSquares(
        question, layout, products, noise.scaled(1 / scale), squares / scale**2, ready.moments.n, ones, moved,
        layout.to_user(ready.standard[1]), phantoms.products,
    )  # fmt: skip


def _anova(ready: Prepared, fit: LeastSquares, terms: Terms) -> tuple[list[dict[str, Any]], dict[str, Any], float]:
    """Return the table, the single numbers, and the mean square of residuals in units as read."""
    from scipy.stats import f

    settings, design = ready.question.policy.models, fit.layout.design
    sequential, residual, total = fit.sums_of_squares
    unit = _unit(ready, fit) ** 2 * ready.back
    n, lost = ready.stated_n, 0 if fit.ones is None else 1
    model_df, residual_df = fit.k - lost, n - fit.k
    mean_square = residual / (fit.n - fit.k)
    noisy = bool(fit.noise.variance.any())

    def row(source: str, squares: float, df: float, ratio: float = np.nan) -> dict[str, Any]:
        squares = max(squares, 0.0) if noisy else squares
        values = {
            "sum of squares": squares * unit, "mean square": squares * unit / df if df > 0 and source != "Total" else np.nan,
            "F": ratio, "p": float(f.sf(ratio, df, residual_df)) if np.isfinite(ratio) else np.nan,
        }  # fmt: skip
        made = rounded(values, settings.digits)
        return {"source": source, "df": float(df), **made}

    rows = []
    for place, term in enumerate(terms.terms):
        mine = [i for i, column in enumerate(design.columns) if column.term == place]
        if mine:
            rows.append(row(title(term), float(sequential[mine].sum()), len(mine), fit.ratio(mine, mean_square)))
    explained = total - residual
    if design.intercept and model_df:
        ratio = fit.ratio(range(1, fit.k), mean_square)
    else:
        ratio = explained / model_df / mean_square if model_df else np.nan
    regression = row("Regression", explained, model_df, ratio)
    rows += [regression, row("Residual", residual, residual_df), row("Total", total, n - lost)]
    share = 1 - residual / total
    facts: dict[str, Any] = {"n": None if np.isnan(ready.shown_n) else ready.shown_n}
    facts |= rounded(
        {"R²": share, "adjusted R²": 1 - (n - lost) / residual_df * (1 - share) if residual_df > 0 else np.nan},
        settings.digits,
    )
    facts |= {
        "F": regression["F"],
        "p of F": regression["p"],
        "df model": float(model_df),
        "df residual": float(residual_df),
    }
    return rows, facts, mean_square


def _variance(ready: Prepared, fit: LeastSquares, mean_square: float) -> Numbers:
    """Return the variances of the coefficients of the formula, for an outcome as read; that of the noise is added."""
    question, user = ready.question, fit.user
    if ready.errors == "classical":
        found = mean_square * fit.diagonal
    else:
        if ready.errors == "design":
            source = scores_sql(question, fit.layout, fit.beta[None, :])
            found = question.dataset.design.covariances(source, user @ fit.bread, fit.second.meat)[0]
        else:
            robust = sandwich(fit.bread, fit.second.meat) * (fit.n / (fit.n - fit.k) if ready.errors == "hc1" else 1.0)
            found = np.einsum("ij,jk,ik->i", user, robust, user)
        reach = 2 * ready.bounds[-1].half / float(fit.layout.scale[-1])
        found = ready.blurred(found, fit.diagonal * fit.second.influence * reach**2)
    noise = np.einsum("ij,jk,ik->i", user, sandwich(fit.bread, fit.noise.variance), user)
    return np.asarray(found + noise)
