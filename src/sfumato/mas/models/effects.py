"""What coefficients of binary models mean: odds ratios, and average marginal effects with errors by the delta method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.errors import ParameterError
from sfumato.mas.models.likelihood import LinkFunction, Logit, OutcomeFit
from sfumato.mas.models.products import ONE, MonomialRows, Products, RowSums
from sfumato.mas.perturbation import Models, significant
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import Piece, RecordFunction
from sfumato.typing import Numbers

_NORMAL = 1.959963984540054
"""The normal quantile of intervals of 95 %."""


def odds_ratios(rows: Sequence[Mapping[str, Any]], settings: Models) -> list[dict[str, Any]]:
    """Return exp(b), its standard error by the delta method, and exp(b ± 1.96 s), from coefficients as they are published."""
    b, s = (np.array([row[name] for row in rows], np.float64) for name in ("coefficient", "standard error"))
    with np.errstate(over="ignore"):
        ratio, low, high = np.exp(b), np.exp(b - _NORMAL * s), np.exp(b + _NORMAL * s)
    ratio, low, high = (significant(v, settings.digits) for v in (ratio, low, high))
    error = significant(ratio * s, settings.error_digits)
    return [
        {"term": row["term"], "odds ratio": float(r), "standard error": float(e), "from": float(lo), "to": float(hi)}
        for row, r, e, lo, hi in zip(rows, ratio, error, low, high, strict=True)
        if row["term"] != "Intercept"
    ]


# --- marginal effects


def margins(
    question: Question, register: Register, fit: OutcomeFit, link: LinkFunction, weighted: bool
) -> list[dict[str, Any]]:
    """Return the mean change of the fitted probability over the records: by the derivative for a number, and from the reference
    to the level for a category (Greene 2018, section 17.3).

    Predictors are known, so that given the coefficients nothing confidential is asked.
    """
    from scipy.stats import norm

    factors, columns, settings = fit.columns.factors, fit.columns, question.policy.models
    shape = Products(question, register, factors, columns.monomials, ())
    if shape.all_confidential or any(factors.known(m, False) != ONE for m in columns.monomials):
        raise ParameterError(
            "average marginal effects need known predictors, and a universe of known variables. Ask for the model without margins."
        )
    if any(len(c.numbers) + len(c.cells) > 1 for c in columns.design.columns) or not columns.design.intercept:
        raise ParameterError(
            "average marginal effects are of models with an intercept and without products. Leave the products out, or margins."
        )
    rows = EffectRows(fit, link, weighted)
    found = register.reduce(RowSums(rows), rows.columns, known_part(question.selection))
    k = fit.beta.shape[1]
    table = found[1:].reshape(-1, 1 + k) / found[0]
    gain = factors.formula_scale[0]
    variance, sign = fit.variance, -1.0 if fit.outcomes.flip else 1.0
    out = []
    for (at, column), line in zip(rows.effects, table, strict=True):
        unit = gain[column.numbers[0]] if column.numbers else 1.0
        effect = sign * line[0] / unit
        error = float(np.sqrt(line[1:] @ variance @ line[1:])) / unit
        value, shown = (
            float(significant(np.array([effect]), settings.digits)[0]),
            float(significant(np.array([error]), settings.error_digits)[0]),
        )
        z = value / shown if shown else np.nan
        title = columns.design.columns[at].title
        out.append(
            {
                "term": title,
                "effect": value,
                "standard error": shown,
                "z": float(significant(np.array([z]), settings.digits)[0]),
                "p": float(significant(np.array([2 * norm.sf(abs(z))]), settings.digits)[0]),
            }
        )
    return out


class EffectRows(RecordFunction):
    """The weight of a record, and its effect of each term with the derivatives of that by the coefficients."""

    def __init__(self, fit: OutcomeFit, link: LinkFunction, weighted: bool) -> None:
        factors, monomials = fit.columns.factors, fit.columns.monomials
        self.rows = MonomialRows(factors, True, monomials)
        self.one = MonomialRows(factors, True, (ONE,), int(weighted))
        self.beta, self.link, self.design = fit.beta[0], link, fit.columns.design
        self.effects = [(i, column) for i, column in enumerate(self.design.columns) if column.numbers or column.cells]

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.rows.columns, *self.one.columns]))

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, weight = self.rows(piece), self.one(piece)[0]
        slope, bend = _slopes(self.link, self.beta @ x)
        made = [weight]
        for at, column in self.effects:
            if column.numbers:
                derivatives = bend * x * self.beta[at]
                derivatives[at] += slope
                made += [slope * self.beta[at] * weight, *(derivatives * weight)]
                continue
            ends = []
            for there in (1.0, 0.0):
                moved = x.copy()
                for j, other in enumerate(self.design.columns):
                    if other.cells and other.cells[0][0] == column.cells[0][0]:
                        moved[j] = there * (j == at)
                linear = self.beta @ moved
                ends.append((self.link.mean(linear[None, :])[0], _slopes(self.link, linear)[0] * moved))
            made += [(ends[0][0] - ends[1][0]) * weight, *((ends[0][1] - ends[1][1]) * weight)]
        return np.array(made)


def _slopes(link: LinkFunction, linear: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first and the second derivative of the mean by the linear predictor."""
    mean = link.mean(linear[None, :])[0]
    if isinstance(link, Logit):
        slope = mean * (1 - mean)
        return slope, slope * (1 - 2 * mean)
    density = np.exp(-np.square(linear) / 2) / np.sqrt(2 * np.pi)
    return density, -linear * density
