"""Errors of models that follow the survey's design: what pairs of members of a household add to the variance of X'y.

Residuals of two members have a correlation ρ (Moulton 1986). With known predictors the sum of x x′ over pairs is known, which ρ
multiplies; ρ itself follows from the nominal correlation of the outcome, less what known predictors that a household shares explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from sfumato.mas.models.products import ONE, Factors, Monomial, MonomialRows
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import Piece, RecordFunction
from sfumato.mas.survey_design import SurveyCorrelation
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers


class Curvature:
    """The working weight of a record, by its linear predictor: 1 for least squares."""

    def of(self, linear: Numbers) -> Numbers:
        """Return it for linear predictors; shape (n,)."""
        return np.ones_like(linear)


class HouseholdProducts(RecordFunction):
    """Products x x′ of two members of a household, added up over pairs, and of each record with itself; records come by household.

    Columns x have the weight w √v in pairs, with v the working weight; products of a record with itself have w v.
    """

    def __init__(self, rows: MonomialRows, weights: int, curvature: Curvature, beta: Numbers) -> None:
        self.rows, self.weights, self.curvature, self.beta = rows, weights, curvature, beta

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.rows.columns, "h", "r", *(["w"] if self.weights else [])]))

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x = self.rows(piece)
        w = np.asarray(piece["w"], np.float64) if self.weights else np.ones(x.shape[1])
        v = self.curvature.of(self.beta @ x)
        own = (x * (w * v)) @ x.T
        u = x * (w * np.sqrt(v))
        pairs = -u @ u.T
        if x.shape[1]:
            households = np.asarray(piece["h"])
            totals = np.add.reduceat(u, np.flatnonzero(np.r_[True, households[1:] != households[:-1]]), axis=1)
            pairs += totals @ totals.T
        return np.array([pairs, own])


@dataclass(frozen=True, eq=False)
class HouseholdPairs:
    """Σ x x′ over pairs of members of a household, and over records, of the known part of a universe."""

    pairs: Numbers
    own: Numbers
    whole: bool
    """Whether these are of all columns of the model; else of a 1, as if predictors were the same in a household."""

    @staticmethod
    def of(
        question: Question,
        register: Register,
        factors: Factors,
        monomials: Sequence[Monomial],
        weighted: bool,
        beta: Numbers | None = None,
        curvature: Curvature | None = None,
    ) -> HouseholdPairs:
        """Add them up; with the working weights at some coefficients, if these are given."""
        known = all(factors.known(m, False) == ONE for m in monomials)

        def added(chosen: Sequence[Monomial], at: Numbers, by: Curvature) -> HouseholdPairs:
            work = HouseholdProducts(MonomialRows(factors, True, chosen), int(weighted), by, at)
            pairs, own = register.reduce(work, work.columns, known_part(question.selection), "h")
            return HouseholdPairs(pairs, own, chosen is not one)

        one: Sequence[Monomial] = (ONE,)
        if known and len(monomials):
            plain = beta is None or curvature is None
            found = added(
                monomials,
                np.zeros(len(monomials)) if plain or beta is None else beta,
                Curvature() if plain or curvature is None else curvature,
            )
            if np.linalg.eigvalsh(found.own)[0] > 1e-12 * np.trace(found.own):
                return found
        return added(one, np.zeros(1), Curvature())

    def excess(self, information: Numbers) -> Numbers:
        """Return what a correlation of 1 adds to a matrix Σ w v x x′; it may be of a part of the records, or of several equations.

        With L L′ the sum over records and C C′ the matrix this is C L⁻¹ (pairs) L⁻ᵀ C′: the pairs themselves, where the two are
        the same, and else in proportion to them.
        """
        lower = np.linalg.cholesky(self.own)
        each = np.linalg.solve(lower, np.linalg.solve(lower, self.pairs).T)
        equations = len(information) // len(each)
        root = np.linalg.cholesky(information)
        return np.asarray(root @ np.kron(np.eye(equations), each) @ root.T)

    def residual_correlation(
        self, rho: float, beta: Numbers, information: Numbers, weight: float, variance: float, intercept: bool
    ) -> float:
        """Return the correlation of residuals of two members of a household; rather too large where predictors are confidential.

        That of the outcome is ρ (σ² + variance of the prediction) in units of the outcome; what the prediction of two members has
        in common is taken off. Without predictors it is ρ; with those that vary in households alone it is ρ / (1 − R²).
        """
        if not variance > 0:  # a known outcome that known predictors give exactly
            return 0.0
        explained = float(beta @ information @ beta)
        if intercept:
            explained -= float(information[0] @ beta) ** 2 / float(information[0, 0])
        common = 0.0
        if self.whole and intercept and len(beta) == len(self.pairs) and self.pairs[0, 0] > 0:
            centred = beta.copy()
            centred[0] -= float(information[0] @ beta) / float(information[0, 0])
            mean = float(centred @ self.pairs @ centred) / float(self.pairs[0, 0])
            common = mean * float(information[0, 0]) / (weight * variance)
        return float(np.clip(rho * (1 + max(explained, 0.0) / (weight * variance)) - common, 0.0, 1.0))


def outcome_correlation(factors: Factors, outcome: str | None = None) -> float:
    """Return the nominal correlation of the outcome, the last number or the category of a name, in households."""
    variable: Variable = factors.variables[outcome] if outcome is not None else factors.numbers[-1].variable
    return SurveyCorrelation.of(variable).households
