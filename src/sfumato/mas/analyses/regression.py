"""Least squares with the analysis of variance, and logistic and multinomial regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.design import Number, Terms, title
from sfumato.mas.models.influence import leverage_of, sandwich, scores_sql
from sfumato.mas.models.layout import Layout, LevelOutcome, moved_outcome, restricted_to
from sfumato.mas.models.least_squares import LeastSquares, cross_products, independent, without_empty
from sfumato.mas.models.logit import ONE_OUTCOME, LevelsAnalysis, OutcomeSpec
from sfumato.mas.models.model import (
    EMPTY,
    Levels,
    ModelAnalysis,
    Prepared,
    coefficient_rows,
    collinear,
    least_cell,
    prepared,
    rounded,
)
from sfumato.mas.models.noise import (
    DEPENDENT,
    inverse,
    largest_correlation,
    noise_of,
    phantoms_of,
    smallest,
    squares_noise,
)
from sfumato.mas.question import Findings, Question
from sfumato.mas.variable import MISSING, Variable, level_text
from sfumato.typing import Numbers

# --- ols
# Ordinary and weighted least squares, with the analysis of variance.


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


# --- logistic
# Binary logistic regression.


class Logistic(LevelsAnalysis):
    """Logistic regression of one level of the outcome against all others, or of a number that is 0 or 1.

    Of two levels the second one is modelled, unless `event` names the other; of more, `event` must be given.
    """

    event: str | None = param(default=None, doc="the level of the outcome that is modelled")

    @override
    def validate(self) -> None:
        super().validate()
        if self.event is not None:
            object.__setattr__(self, "event", level_text(self.event))

    @override
    def wording(self) -> str:
        return f"{super().wording()}:{self.event or ''}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        function, name = self.terms(dataset.variables).outcome
        levels = [level for level in dataset.variables[name].levels if level != MISSING]
        usual_event = levels[-1] if function == "C" and len(levels) == 2 else "1" if not function else None
        return f"{super().wording_for(dataset)}:{self._level(dataset.variables[name]) or usual_event}"

    def _level(self, variable: Variable) -> str | None:
        """Return the level that the event names: by its code, or by what the code means."""
        if self.event in variable.words:
            return variable.levels[variable.words.index(self.event)]
        return self.event

    def modelled(self, question: Question) -> OutcomeSpec | Refusal:
        """Return the event and the others."""
        function, name = self.terms(question.dataset.variables).outcome
        variable = question.dataset.variables[name]
        if function not in ("", "C"):
            raise ParameterError(f"the outcome of logistic is a level of '{name}', not a function of it.")
        if function == "":
            if self.event not in (None, "1"):
                raise ParameterError(
                    f"the outcome '{name}' is a number: its event is 1. Write C({name}) for its levels."
                )
            number = Number.of(variable, "", False)
            outcome = LevelOutcome(number.column, ("0", name), (), number)
            return OutcomeSpec(outcome, (f"{name} = 0", f"{name} = 1"), f"The modelled outcome is {name} = 1.")
        levels = Levels.of(question, variable)
        if len(levels.allowed) < 2:
            return ONE_OUTCOME
        given, outcomes = self._level(variable), [level for level in variable.levels if level != MISSING]
        if given is None and len(levels.allowed) > 2:
            raise ParameterError(
                f"'{name}' has more than two levels here. Say which one is modelled with event=, or use multinomial. "
                f"Levels: {join_names(outcomes, 20)}."
            )
        if given is not None and given not in outcomes:
            named = dict.fromkeys((*outcomes, *(word for word in variable.words if word != MISSING)))
            raise DataError(unknown_name("level", given, named, f"the outcome '{name}'"))
        event = levels.allowed[-1] if given is None else variable.levels.index(given)
        if event not in levels.allowed:
            return ONE_OUTCOME
        flip = len(levels.allowed) == 2 and event == levels.allowed[0]  # of two levels one is fitted, with one noise
        fitted = levels.allowed[-1] if flip else event
        others = tuple(i for i in levels.allowed if i != event)
        least = max(least_cell(question), 1)
        sizes = levels.counts[event], question.count(restricted_to(question, {variable: others}))
        question.results["small outcomes"] = min(sizes) < least
        place = tuple(-1 if i not in levels.allowed else int(i == fitted) for i in range(len(variable.levels)))
        titles = ("others", f"C({name})[{variable.levels[fitted]}]")
        said = f"{name} = {variable.levels[event]}"
        names = (said, f"{name} = {variable.levels[fitted]}") if flip else (f"others than {said}", said)
        return OutcomeSpec(LevelOutcome(variable.codes, titles, place), names, f"The modelled outcome is {said}.", flip)


# --- multinomial
# Multinomial logistic regression.


class Multinomial(LevelsAnalysis):
    """Logistic regression of every level of the outcome against its most frequent one."""

    def modelled(self, question: Question) -> OutcomeSpec | Refusal:
        """Return all levels, the most frequent one as the base; of two the second one is fitted."""
        function, name = self.terms(question.dataset.variables).outcome
        variable = question.dataset.variables[name]
        if function != "C":
            raise ParameterError(f"the outcome of multinomial is the levels of a variable: write C({name}).")
        levels = Levels.of(question, variable)
        least = least_cell(question)
        question.results["small outcomes"] = any(c < least for c in levels.counts.values())  # none is few, too
        shown = [i for i in levels.allowed if levels.counts[i] >= 0.5]
        if len(shown) < 2:
            return ONE_OUTCOME
        base = max(shown, key=lambda i: (levels.counts[i], -i))
        flip = len(shown) == 2 and base == shown[1]  # of two levels the second one is fitted, as in logistic: one noise
        order = shown if len(shown) == 2 else [base, *(i for i in shown if i != base)]
        place = tuple(order.index(i) if i in order else -1 for i in range(len(variable.levels)))
        outcome = LevelOutcome(variable.codes, tuple(f"C({name})[{variable.levels[i]}]" for i in order), place)
        said = f"Coefficients compare each level of {name} with {variable.levels[base]}, the most frequent one."
        return OutcomeSpec(outcome, tuple(f"{name} = {variable.levels[i]}" for i in order), said, flip)
