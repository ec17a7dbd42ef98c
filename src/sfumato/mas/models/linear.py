"""Least squares from protected sums: coefficients, their errors, R², F and the analysis of variance."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.clusters import HouseholdPairs, outcome_correlation
from sfumato.mas.models.design import Number, Terms, title
from sfumato.mas.models.model import (
    COLLINEAR,
    DEPENDENT,
    EMPTY,
    ModelAnalysis,
    ModelColumns,
    clips,
    coefficient_rows,
    conditioned,
    largest_correlation,
    model_columns,
    model_notes,
    rounded,
)
from sfumato.mas.models.products import ONE, ComposedFunction, Factors, Monomial, MonomialRows, Products, times
from sfumato.mas.perturbation import Noise
from sfumato.mas.question import Question, Result, Steps, levels_of
from sfumato.mas.register import Register, known_part
from sfumato.mas.rule import CorrelationEvidence, Evidence, ModelEvidence
from sfumato.mas.sums import Confidential, Piece, ProtectedSums, RecordFunction, SumsRequest, TotalSums
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers


class OLS(ModelAnalysis):
    """Least squares: coefficients, standard errors, R², F, and the classical table of the analysis of variance.

    With known predictors X'X is known, and X'y is asked for with noise in proportion to the errors of the coefficients. With
    confidential ones the products that hold them are asked for. Terms are in canonical order, in which their sequential (type I)
    sums of squares are taken. With survey weights the estimates are weighted least squares.
    """

    absorb: str | None = param(
        default=None,
        doc="a known variable with levels whose fixed effects are in the model, but not in the table",
        columns="one",
        holds="categories",
    )

    @override
    def terms(self, known: Mapping[str, Variable]) -> Terms:
        terms = super().terms(known)
        if self.absorb is None:
            return terms
        (variable,) = levels_of((self.absorb,), known)
        if not variable.known:
            raise ParameterError(
                f"fixed effects are those of a known variable, and '{self.absorb}' is confidential. Write C({self.absorb}) in "
                "the formula."
            )
        if any(name == self.absorb for _, name in (terms.outcome, *(f for term in terms.terms for f in term))):
            raise ParameterError(f"'{self.absorb}' is in the formula already. Leave it out there, or leave out absorb.")
        if not terms.intercept:
            raise ParameterError("a model with fixed effects has an intercept. Leave out the 0 or -1 in the formula.")
        return terms.with_term((("C", self.absorb),))

    @override
    def wording(self) -> str:
        return super().wording() + (f":absorb {self.absorb}" if self.absorb is not None else "")

    @override
    def wording_for(self, codebook: Codebook) -> str:
        return super().wording_for(codebook) + (f":absorb {self.absorb}" if self.absorb is not None else "")

    def fitted(self, question: Question, register: Register) -> Fitting:
        """Ask for the sums of the model, and solve it."""
        function, name = self.terms(question.codebook.variables).outcome
        if function == "C":
            raise ParameterError(
                f"the outcome of ols must be a number, and '{name}' has levels. For these, use logistic or multinomial."
            )
        self.check_weights(question)
        outcome = Number.of(question.codebook.variables[name], function, clips(question))
        terms = self.terms(question.codebook.variables)
        columns = yield from model_columns(question, register, terms, outcome, self.weighted)
        if isinstance(columns, Refusal):
            return columns
        return (yield from fitted(question, register, columns, self.weighted, self.covariance(question.codebook)))

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        fit = yield from self.fitted(question, register)
        if isinstance(fit, Refusal):
            return fit
        columns = fit.columns
        anova, facts = anova_of(question, fit, self.terms(question.codebook.variables))
        errors = self.covariance(question.codebook)
        df = fit.stated_n - fit.k if errors == "classical" else None
        titles = [column.title for column in columns.design.columns]
        rows = coefficient_rows(titles, fit.formula_beta, fit.formula_variance, question.policy.models, df)
        notes = (*columns.notes, *model_notes(question, errors, fit.gaps, self.weighted))
        if self.absorb is not None:
            rows = [row for row in rows if not row["term"].startswith(f"C({self.absorb})[")]
            notes = (
                f"Each level of {self.absorb} has an intercept of its own (fixed effects), which is not shown.",
                *notes,
            )
        return Result({"coefficients": rows, "anova": anova}, facts, notes, fit.evidence)


# --- sums


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """X'X, X'y and y'y over complete records, with the variance of their noise; columns as they are read."""

    xx: Numbers
    xy: Numbers
    yy: float
    xx_variance: Numbers
    """Of each product of two columns."""
    xy_variance: Numbers
    """Covariance of the noise on X'y."""
    yy_variance: float
    n: float
    """Complete records, not weighted."""
    leverage: float
    """Largest leverage of a record by known columns; 0 where none is known."""
    weight: float
    """Sum of the weights of complete records."""
    turn: Numbers | None
    """Takes the columns to orthonormal ones, where all are known."""


Adding = Generator[SumsRequest, ProtectedSums, NormalEquations | Refusal]


def normal_equations(question: Question, register: Register, columns: ModelColumns, weighted: bool) -> Adding:
    """Ask for the sums of a linear model."""
    factors, p = columns.factors, len(columns.monomials)
    every = (*columns.monomials, columns.y)
    x_pairs = tuple((j, k) for j in range(p) for k in range(j, p))
    design = Products(question, register, factors, every, x_pairs, int(weighted))
    if design.request() is None and not factors.variables[factors.numbers[-1].variable.name].known:
        return (yield from _known_design(question, register, columns, design, weighted))
    pairs = (*x_pairs, *((j, p) for j in range(p + 1)))
    whole = Products(question, register, factors, every, pairs, int(weighted))
    size = Products(question, register, factors, (ONE,), ((0, 0),))
    heavy = replace(size, weights=int(weighted and not columns.design.intercept))
    wanted = {
        "products": whole.request(),
        "n": size.request(),
        **({"weight": heavy.request()} if heavy.weights else {}),
    }
    parts = {name: part for name, part in wanted.items() if part is not None}
    sums = (yield SumsRequest(parts)) if parts else None
    values, variances = whole.matrices(sums.totals("products") if sums is not None and "products" in parts else None)
    n = float(size.matrices(sums.totals("n") if sums is not None and "n" in parts else None)[0][0, 0])
    weight = (
        float(heavy.matrices(sums.totals("weight") if sums is not None and "weight" in parts else None)[0][0, 0])
        if heavy.weights
        else n
    )
    weight = float(values[0, 0]) if columns.design.intercept else weight
    if not n > p:
        return EMPTY
    return NormalEquations(
        values[:p, :p], values[:p, p], float(values[p, p]), variances[:p, :p], np.diag(variances[:p, p]), float(variances[p, p]),
        n, 0.0, weight, None,
    )  # fmt: skip


def _known_design(
    question: Question, register: Register, columns: ModelColumns, design: Products, weighted: bool
) -> Adding:
    """Ask for X'y in orthonormal columns, so that the noise is in proportion to the errors of the coefficients."""
    factors, p, y = columns.factors, len(columns.monomials), columns.y
    xx = design.matrices(None)[0][:p, :p]
    n, weight = (
        float(Products(question, register, factors, (ONE,), ((0, 0),), w).matrices(None)[0][0, 0])
        for w in (0, int(weighted))
    )
    if not n > p:
        return EMPTY
    if conditioned(xx)[0] < DEPENDENT:
        return COLLINEAR
    turn = np.linalg.inv(np.linalg.cholesky(xx))
    rows = MonomialRows(factors, True, columns.monomials, int(weighted), turn)
    square = times(y, y)
    assert square is not None  # noqa: S101 - of numbers alone
    variables, by = design.variables, design.by
    names = ";".join(factors.wording(m) for m in columns.monomials)
    sums = yield SumsRequest({
        "xy": TotalSums(
            f"turned w{int(weighted)} {names}:{factors.wording(y)}", rows, MonomialRows(factors, False, [y]), (factors.bounds(y),),
            tuple((j, 0) for j in range(p)), variables, by,
        ),
        "yy": TotalSums(
            f"squares w{int(weighted)} {factors.wording(y)}", MonomialRows(factors, True, [ONE], int(weighted)),
            MonomialRows(factors, False, [square]), (factors.bounds(square),), ((0, 0),), variables, by,
            1.0 if weighted else share_of_squares(question.policy.models, factors.bounds(y), factors.bounds(square), n),
        ),
    })  # fmt: skip
    back = np.linalg.inv(turn)
    xy, yy = sums.totals("xy"), sums.totals("yy")
    leverage = register.reduce(
        LargestLeverage(MonomialRows(factors, True, columns.monomials, 0, turn)),
        rows.columns,
        known_part(question.selection),
    )
    return NormalEquations(
        xx, back @ xy.values, float(yy.values[0]), np.zeros((p, p)), back @ np.diag(xy.variances) @ back.T, float(yy.variances[0]),
        n, LargestLeverage.read(leverage), weight, turn,
    )  # fmt: skip


_SQUARES = 0.05
"""Enough for y'y: the noise on it has this share of its nominal size, if the floor of the noise leaves it less."""


def share_of_squares(noise: Noise, outcome: Confidential, square: Confidential, n: float) -> float:
    """Return by what the variance of the noise on y'y is divided: below 1 where y'y is told more precisely than is of use.

    Errors of coefficients need the mean square of the residuals to a few percent. With 20,000 records the floor of the noise would
    tell it to half a percent, and charge everybody for that more than for all coefficients.
    """
    wanted = (_SQUARES * n * outcome.spread**2) ** 2
    return min(1.0, float(noise.variance(square.reach, n * square.spread**2)) / wanted) if noise.sd and wanted else 1.0


class LargestLeverage(ComposedFunction):
    """Counts of records by their leverage, in steps of .001, from orthonormal columns."""

    def __init__(self, rows: MonomialRows) -> None:
        self.rows, self.parts = rows, (rows,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        place = np.ceil(np.square(self.rows(piece)).sum(axis=0) * 1_000 - 1e-6)
        return np.bincount(np.clip(place, 0, 1_000).astype(np.int64), minlength=1_001).astype(np.float64)

    @staticmethod
    def read(counts: Numbers) -> float:
        """Return the largest leverage."""
        return float(np.flatnonzero(counts > 0.5).max(initial=0)) / 1_000


# --- fit


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fit; every number is a function of protected sums and of known variables."""

    question: Question
    columns: ModelColumns
    sums: NormalEquations
    gaps: bool
    robust: Numbers | None = None
    """Variance of the coefficients as read by the sandwich, without that of the noise."""
    pairs: Numbers | None = None
    """What pairs of members of households add to the variance of X'y."""

    @property
    def k(self) -> int:
        """Number of coefficients."""
        return len(self.columns.monomials)

    @property
    def noisy(self) -> bool:
        """Whether there is noise."""
        return bool(self.sums.xy_variance.any() or self.sums.xx_variance.any())

    @property
    def n(self) -> float:
        """Noisy number of complete records."""
        return self.sums.n

    @cached_property
    def shown_n(self) -> float:
        """The number of records that is published; NaN if it is too small."""
        return float(self.question.policy.counts.shown(np.array([self.n]))[0])

    @property
    def stated_n(self) -> float:
        """The number of records that degrees of freedom are counted from."""
        return self.n if np.isnan(self.shown_n) else self.shown_n

    @cached_property
    def bread(self) -> Numbers:
        """The inverse of X'X."""
        return np.asarray(np.linalg.inv(self.sums.xx))

    @cached_property
    def beta(self) -> Numbers:
        """Coefficients of the columns as read, for the outcome as read."""
        return np.asarray(self.bread @ self.sums.xy)

    @cached_property
    def noise(self) -> Numbers:
        """Covariance of the noise in X'y − X'Xβ."""
        v, beta = self.sums.xx_variance, self.beta
        of_products = v * np.outer(beta, beta)
        np.fill_diagonal(of_products, (v * np.square(beta)).sum(axis=1))
        return np.asarray(self.sums.xy_variance + of_products)

    @cached_property
    def constant(self) -> bool:
        """Whether some columns add up to 1 for every record."""
        design = self.columns.design
        return design.intercept or design.constant(self.sums.xx, self.sums.weight) is not None

    @cached_property
    def _lower(self) -> Numbers:
        return np.asarray(np.linalg.cholesky(self.sums.xx))

    @cached_property
    def effects(self) -> Numbers:
        """What the columns explain one after another: roots of their sequential sums of squares."""
        return np.asarray(np.linalg.solve(self._lower, self.sums.xy))

    @cached_property
    def effect_noise(self) -> Numbers:
        """Covariance of the noise in the effects."""
        return np.asarray(np.linalg.solve(self._lower, np.linalg.solve(self._lower, self.noise).T))

    @cached_property
    def squares(self) -> tuple[float, float]:
        """Residual and total sum of squares, what noise adds on average taken off; the total about the mean with an intercept."""
        explained = float(np.square(self.effects).sum() - np.trace(self.effect_noise))
        total = self.sums.yy
        residual = total - explained
        if self.constant:
            ones = np.zeros(self.k)
            ones[0] = 1.0
            if not self.columns.design.intercept:
                found = self.columns.design.constant(self.sums.xx, self.sums.weight)
                ones = found if found is not None else ones
            row = self._lower.T @ ones
            total -= float(row @ self.effects) ** 2 / float(row @ row)
        if self.noisy:  # a closer fit than the noise lets see is not told
            residual = float(np.clip(residual, 0.05 * max(total, 1e-300), max(total, 1e-300)))
        return max(residual, 0.0), total

    @property
    def share(self) -> float:
        """R² as the rule sees it, less one standard deviation of what noise may add."""
        residual, total = self.squares
        if not total > 0:
            return float(not self.noisy)
        part = np.diag(self.effect_noise)
        return 1 - (residual + float(np.sqrt(np.sum(4 * np.square(self.effects) * part + 2 * part**2)))) / total

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What rules look at."""
        largest = largest_correlation(self.sums.xx, self.columns.design.intercept)
        model = ModelEvidence(self.n, self.k, self.columns.levels, np.inf, self.share, self.sums.leverage)
        return model, CorrelationEvidence(largest, self.n)

    @property
    def mean_square(self) -> float:
        """Mean square of the residuals, for the outcome as read."""
        return self.squares[0] / (self.n - self.k)

    @property
    def unit(self) -> float:
        """What one of the outcome as read is in units of the formula."""
        assert self.columns.outcome is not None  # noqa: S101 - a linear model
        factors = self.columns.factors
        fixed = factors.fixed(len(factors.numbers) - 1)
        scale = float(factors.scale[-1])
        return 1.0 if fixed else scale / self.outcome_sd if self.columns.outcome.standardised else scale

    @property
    def zero(self) -> float:
        """What is added to the outcome as read, in units of the formula."""
        factors = self.columns.factors
        if not factors.numbers[-1].standardised:
            return float(factors.centre[-1])
        moved = self.columns.design.intercept
        return -self.unit * float(self.sums.xy[0] / self.sums.xx[0, 0]) if moved else 0.0

    @cached_property
    def outcome_sd(self) -> float:
        """Standard deviation of the outcome."""
        return float(np.sqrt(max(self.squares[1], 0.0) / self.sums.weight)) * float(self.columns.factors.scale[-1])

    @cached_property
    def _to_formula(self) -> Numbers:
        return self.columns.to_formula()

    @cached_property
    def formula_beta(self) -> Numbers:
        """Coefficients of the formula."""
        beta = self.beta.copy()
        assert self.columns.outcome is not None  # noqa: S101 - a linear model
        if self.columns.design.intercept:
            beta[0] += self.zero / self.unit
        return np.asarray(self.unit * (self._to_formula @ beta))

    @cached_property
    def formula_variance(self) -> Numbers:
        """Variances of the coefficients of the formula, that of the noise included."""
        sampling = self.mean_square * self.bread
        if self.robust is not None:
            sampling = self.robust
        more = self.noise if self.pairs is None else self.noise + self.pairs
        whole = self.question.policy.variance_inflation * sampling + self.bread @ more @ self.bread
        user = self._to_formula
        return np.asarray(self.unit**2 * np.einsum("ij,jk,ik->i", user, whole, user))

    def ratio(self, places: Sequence[int]) -> float:
        """Return F of some columns, given those before them.

        What they add to the regression, z, has the variance s² I + N if they explain nothing, N that of the noise:
        F = z′(s² I + N)⁻¹z / df. Without noise this is the classical ratio. Pairs of members of households add to N. It is infinite
        where known predictors leave nothing of a known outcome.
        """
        z, own = self.effects[list(places)], np.ix_(places, places)
        spread = self.mean_square * np.eye(len(z)) + self.effect_noise[own]
        if self.pairs is not None:
            spread = spread + np.linalg.solve(self._lower, np.linalg.solve(self._lower, self.pairs).T)[own]
        return float(z @ np.linalg.solve(spread, z)) / len(z) if spread.any() else np.inf


Fitting = Generator[SumsRequest, ProtectedSums, LinearFit | Refusal]


def fitted(question: Question, register: Register, columns: ModelColumns, weighted: bool, errors: str) -> Fitting:
    """Ask for the sums of a linear model and solve it; once more for the squares of residuals, for robust errors."""
    sums = yield from normal_equations(question, register, columns, weighted)
    if isinstance(sums, Refusal):
        return sums
    if conditioned(sums.xx)[0] < max(DEPENDENT, _least_eigenvalue(sums)):
        return COLLINEAR
    if not sums.yy > 0 and not sums.yy_variance:
        return Refusal("one_outcome", "The outcome does not vary.", "Choose another outcome, or another universe.")
    gaps = any(x.partial for x in columns.factors.numbers) or any(c.missing >= 0 for c in columns.factors.categories)
    fit = LinearFit(question, columns, sums, gaps)
    if errors == "design":
        fit = replace(fit, pairs=_pairs(question, register, fit, weighted))
        errors = "hc1" if weighted else "classical"
    if errors == "classical":
        return fit
    meat = yield from _meat(question, register, fit, weighted)
    robust = fit.bread @ meat @ fit.bread * (fit.n / (fit.n - fit.k) if errors == "hc1" else 1.0)
    if fit.noisy:  # noise may have hidden some of the squares: no less than half the classical ones
        lift = np.maximum(0.5 * fit.mean_square * np.diag(fit.bread) - np.diag(robust), 0.0)
        robust = robust + np.diag(lift)
    return replace(fit, robust=robust)


def _pairs(question: Question, register: Register, fit: LinearFit, weighted: bool) -> Numbers:
    """Return what pairs of members of households add to the variance of X'y: ρ σ² Σ w w′ x x′."""
    columns, weight = fit.columns, fit.sums.weight
    found = HouseholdPairs.of(question, register, columns.factors, columns.monomials, weighted)
    variance = fit.mean_square * fit.n / weight  # of one residual
    rho = found.residual_correlation(
        outcome_correlation(columns.factors), fit.beta, fit.sums.xx, weight, variance, columns.design.intercept
    )
    return rho * variance * found.excess(fit.sums.xx)


def _least_eigenvalue(sums: NormalEquations) -> float:
    """Return the size that the noise alone gives eigenvalues of X'X, of columns of unit length: what is smaller may be 0."""
    length = np.maximum(np.diag(sums.xx), 1e-100)
    scaled = sums.xx_variance / np.outer(length, length)
    return max(float(np.sqrt(scaled.sum(axis=1).max(initial=0.0))), 1e-4) if scaled.any() else 0.0


class ResidualSquares(ComposedFunction):
    """Squared residuals of a linear model times products of confidential columns."""

    def __init__(
        self, factors: Factors, columns: Sequence[Monomial], beta: Numbers, y: Monomial, products: Sequence[Monomial]
    ) -> None:
        self.known = MonomialRows(factors, True, [factors.known(m) for m in columns])
        self.hidden = MonomialRows(factors, False, [*(factors.known(m, False) for m in columns), *products])
        self.outcome_known = MonomialRows(factors, True, [factors.known(y)])
        self.outcome_hidden = MonomialRows(factors, False, [factors.known(y, False)])
        self.beta, self.parts = beta, (self.known, self.hidden)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        hidden = self.hidden(piece)
        k = len(self.beta)
        y = self.outcome_known(piece) * self.outcome_hidden(piece)
        residual = y[0] - self.beta @ (self.known(piece) * hidden[:k])
        return np.asarray(np.square(residual) * hidden[k:])


CAPPED = 4.0
"""Residuals count as at most so many nominal standard deviations of the outcome, so that one record moves little."""
_ROUGH = 0.05
"""Part of the noise's precision that the squares of residuals need: they only set standard errors."""


def _meat(
    question: Question, register: Register, fit: LinearFit, weighted: bool
) -> Generator[SumsRequest, ProtectedSums, Numbers]:
    """Return Σ w² x x′ e² of the columns as read; asked for in orthonormal columns where all predictors are known."""
    columns, factors, turn = fit.columns, fit.columns.factors, fit.sums.turn
    k = fit.k
    pairs = [(i, j) for i in range(k) for j in range(i, k)]
    noisy = fit.noisy
    y = factors.bounds(columns.y)
    most = min(y.reach, CAPPED * max(y.spread, 1e-9)) ** 2 if noisy else y.reach**2
    usual = max(y.spread, 1e-9) ** 2 * float(np.sqrt(3))
    words = ",".join(f"{b!r}" for b in np.round(fit.beta, 12).tolist())
    names = ";".join(factors.wording(m) for m in columns.monomials)
    shape = Products(question, register, factors, (*columns.monomials, columns.y), ())
    if turn is not None:
        us: RecordFunction = PairProducts(MonomialRows(factors, True, columns.monomials, int(weighted), turn))
        gs, where = [ONE], tuple((at, 0) for at in range(len(pairs)))
        made = list(range(len(pairs)))
    else:
        products = [times(columns.monomials[i], columns.monomials[j]) for i, j in pairs]
        made = [at for at, m in enumerate(products) if m is not None]
        some = [m for m in products if m is not None]
        known = list(dict.fromkeys(factors.known(m) for m in some))
        gs = list(dict.fromkeys(factors.known(m, False) for m in some))
        us = MonomialRows(factors, True, known, 2 * int(weighted))
        where = tuple((known.index(factors.known(m)), gs.index(factors.known(m, False))) for m in some)
    bounds = []
    for g in gs:
        one = factors.bounds(g)
        ends = (one.low * most, one.high * most, 0.0)
        bounds.append(Confidential(min(ends), max(ends), min(one.spread * usual, most)))
    part = TotalSums(
        f"residual squares w{int(weighted)} {names} at {words}", us,
        ResidualSquares(factors, columns.monomials, fit.beta, columns.y, gs),
        tuple(bounds), where, shape.variables, shape.by, _ROUGH if noisy else 1.0,
    )  # fmt: skip
    values = (yield SumsRequest({"meat": part})).totals("meat").values
    meat = np.zeros((k, k))
    for at, value in zip(made, values, strict=True):
        i, j = pairs[at]
        meat[i, j] = meat[j, i] = value
    if turn is not None:
        back = np.linalg.inv(turn)
        meat = back @ meat @ back.T
    return meat


class PairProducts(ComposedFunction):
    """Products of all pairs of rows, each pair once."""

    def __init__(self, rows: MonomialRows) -> None:
        self.rows, self.parts = rows, (rows,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x = self.rows(piece)
        return np.array([x[i] * x[j] for i in range(len(x)) for j in range(i, len(x))])


# --- analysis of variance


def anova_of(question: Question, fit: LinearFit, terms: Terms) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the table of the analysis of variance, and the single numbers of a linear model."""
    from scipy.stats import f

    settings, design = question.policy.models, fit.columns.design
    residual, total = fit.squares
    sequential = np.square(fit.effects) - np.diag(fit.effect_noise)
    unit = fit.unit**2
    n, lost = fit.stated_n, int(fit.constant)
    model_df, residual_df = fit.k - lost, n - fit.k

    def row(source: str, squares: float, df: float, ratio: float = np.nan) -> dict[str, Any]:
        squares = max(squares, 0.0) if fit.noisy else squares
        values = {
            "sum of squares": squares * unit, "mean square": squares * unit / df if df > 0 and source != "Total" else np.nan,
            "F": ratio, "p": float(f.sf(ratio, df, residual_df)) if np.isfinite(ratio) else np.nan,
        }  # fmt: skip
        return {"source": source, "df": float(df), **rounded(values, settings.digits)}

    rows = []
    for place, term in enumerate(terms.terms):
        mine = [i for i, column in enumerate(design.columns) if column.term == place]
        if mine:
            rows.append(row(title(term), float(sequential[mine].sum()), len(mine), fit.ratio(mine)))
    explained = total - residual
    ratio = np.nan
    if model_df:
        ratio = fit.ratio(range(1, fit.k)) if design.intercept else explained / model_df / fit.mean_square
    regression = row("Regression", explained, model_df, ratio)
    rows += [regression, row("Residual", residual, residual_df), row("Total", total, n - lost)]
    share = 1 - residual / total if total > 0 else np.nan
    facts: dict[str, Any] = {"n": None if np.isnan(fit.shown_n) else fit.shown_n}
    adjusted = 1 - (n - lost) / residual_df * (1 - share) if residual_df > 0 else np.nan
    facts |= rounded({"R²": share, "adjusted R²": adjusted}, settings.digits)
    facts |= {
        "F": regression["F"], "p of F": regression["p"], "df model": float(model_df), "df residual": float(residual_df),
    }  # fmt: skip
    return rows, facts
