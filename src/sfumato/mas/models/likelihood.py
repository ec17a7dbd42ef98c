"""Models by likelihood from protected sums: logistic, multinomial and Poisson regression.

With known predictors the sums X'y suffice: they are asked for once, and the rest is a function of known variables (McCullagh and
Nelder 1989, section 2.2). With confidential predictors a fixed number of scoring steps is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.mas.answer import Refusal
from sfumato.mas.models.clusters import Curvature, HouseholdPairs, outcome_correlation
from sfumato.mas.models.linear import CAPPED, LargestLeverage, PairProducts
from sfumato.mas.models.model import (
    COLLINEAR,
    DEPENDENT,
    EMPTY,
    ModelColumns,
    coefficient_rows,
    conditioned,
    largest_correlation,
)
from sfumato.mas.models.products import ONE, ComposedFunction, Factors, Monomial, MonomialRows, Products
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.rule import CorrelationEvidence, Evidence, ModelEvidence
from sfumato.mas.sums import Confidential, Piece, ProtectedSums, RecordFunction, SumsRequest, TotalSums
from sfumato.typing import Flags, Numbers

_NEWTON = 25
"""Most steps on known variables; they converge quadratically."""
_SCORING = 4
"""Steps on confidential predictors, each a request."""
_EARLY, _ROUGH = 0.1, 0.1
"""Part of the noise's precision that early steps, and curvatures, need."""
_MOVING = 0.5
"""Coefficients, of columns that are at most 1, that still move so far after the last step have no finite value."""
_FAR = 30.0
"""A larger linear predictor means separation."""
ONE_OUTCOME = Refusal("one_outcome", "The outcome does not vary.", "Choose another outcome, or another universe.")
SEPARATED = Refusal(
    "separation",
    "A term, or several together, tell the outcome of some records exactly, so their coefficients have no finite value.",
    "Leave that term out, or choose a coarser one.",
)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What a likelihood model explains: the columns of its outcomes but the base, and what each is called."""

    monomials: tuple[Monomial, ...]
    equations: tuple[str, ...]
    """The base first, then a name for each outcome."""
    note: str
    flip: bool = False
    """Whether the base is modelled: the coefficients change their signs."""


class LinkFunction(ABC):
    """Means, variances and log-likelihood of an exponential family; with its canonical link X'y suffices."""

    canonical: ClassVar[bool] = True
    reach: ClassVar[float] = 1.0
    """The most by which a score is larger than the range of the outcome."""
    top: ClassVar[float] = 1.0
    """The largest curvature, as a share of the range of the outcome."""

    @staticmethod
    @abstractmethod
    def mean(linear: Numbers) -> Numbers:
        """Return the means for linear predictors; shape (equations, n)."""

    def log_partition(self, linear: Numbers) -> Numbers:
        """Return what the log-likelihood loses beside y·η, shape (n,); a canonical link alone has it."""
        raise TypeError(f"the link {type(self).__name__} is not canonical")

    @staticmethod
    @abstractmethod
    def curvature(mean: Numbers, a: int, b: int) -> Numbers:
        """Return the expected information of two linear predictors, for given means; shape (n,)."""

    def residual(self, y: Numbers, linear: Numbers) -> Numbers:
        """Return the derivative of the log-likelihood by the linear predictors; shape (equations, n)."""
        return y - self.mean(linear)

    def value(self, y: Numbers, linear: Numbers) -> Numbers:
        """Return the log-likelihood of each record, but for what no coefficient changes."""
        return np.asarray((y * linear).sum(axis=0) - self.log_partition(linear))


class Logit(LinkFunction):
    """Multinomial logits against a base; binary logistic regression with one equation."""

    top = 0.25

    @override
    @staticmethod
    def mean(linear: Numbers) -> Numbers:
        top = np.maximum(linear.max(axis=0), 0.0)
        raised = np.exp(linear - top)
        return np.asarray(raised / (raised.sum(axis=0) + np.exp(-top)))

    @override
    def log_partition(self, linear: Numbers) -> Numbers:
        top = np.maximum(linear.max(axis=0), 0.0)
        return np.asarray(top + np.log(np.exp(linear - top).sum(axis=0) + np.exp(-top)))

    @override
    @staticmethod
    def curvature(mean: Numbers, a: int, b: int) -> Numbers:
        return np.asarray(mean[a] * ((1.0 if a == b else 0.0) - mean[b]))


class Normit(LinkFunction):
    """Probit regression: the mean is the normal distribution function, and the expected information is used."""

    canonical = False
    reach = 4.0
    top = 2 / np.pi

    @override
    @staticmethod
    def mean(linear: Numbers) -> Numbers:
        from scipy.special import ndtr

        return np.asarray(np.clip(ndtr(linear), 1e-15, 1 - 1e-15))

    @override
    @staticmethod
    def curvature(mean: Numbers, a: int, b: int) -> Numbers:
        from scipy.special import ndtri

        return np.asarray(_density(ndtri(mean[a])) ** 2 / (mean[a] * (1 - mean[a])))

    @override
    def residual(self, y: Numbers, linear: Numbers) -> Numbers:
        mean = self.mean(linear)
        return np.asarray((y - mean) * _density(linear) / (mean * (1 - mean)))

    @override
    def value(self, y: Numbers, linear: Numbers) -> Numbers:
        mean = self.mean(linear)
        return np.asarray((y * np.log(mean) + (1 - y) * np.log(1 - mean)).sum(axis=0))


def _density(x: Numbers) -> Numbers:
    return np.asarray(np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi))


class LogMean(LinkFunction):
    """Poisson regression."""

    @override
    @staticmethod
    def mean(linear: Numbers) -> Numbers:
        return np.asarray(np.exp(np.minimum(linear, _FAR)))

    @override
    def log_partition(self, linear: Numbers) -> Numbers:
        return np.asarray(np.exp(np.minimum(linear, _FAR)).sum(axis=0))

    @override
    @staticmethod
    def curvature(mean: Numbers, a: int, b: int) -> Numbers:
        return mean[a] if a == b else np.zeros(mean.shape[1])


# --- fit


class FittedSums(ComposedFunction):
    """Log partition, fitted means times the columns, and the information, at some coefficients (equations, columns)."""

    def __init__(self, rows: MonomialRows, link: LinkFunction, beta: Numbers, weights: int) -> None:
        self.rows, self.link, self.beta, self.weights = rows, link, beta, weights
        self.parts = (rows,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, complete = self.rows(piece), self.rows.read(piece)[2]
        w = complete.astype(np.float64)
        if self.weights:
            w *= np.asarray(piece["w"], np.float64)
        return curved(self.link, self.beta, x, w)


def curved(link: LinkFunction, beta: Numbers, x: Numbers, w: Numbers) -> Numbers:
    """Return Σ w log partition, Σ w μ x′ and Σ w x x′ cov(μ), raveled; `x` is (columns, n)."""
    linear = beta @ x
    mean = link.mean(linear)
    equations, k = beta.shape
    blocks = np.empty((equations, k, equations, k))
    for a in range(equations):
        for b in range(a, equations):
            block = (x * (w * link.curvature(mean, a, b))) @ x.T
            blocks[a, :, b, :] = blocks[b, :, a, :] = block
    return np.concatenate([[float(w @ link.log_partition(linear))], ((mean * w) @ x.T).ravel(), blocks.ravel()])


@dataclass(frozen=True, eq=False)
class OutcomeFit:
    """A fit; coefficients have one row for each outcome but the base."""

    question: Question
    columns: ModelColumns
    outcomes: Outcomes
    beta: Numbers
    information: Numbers
    noise: Numbers
    """Covariance of the noise on the score, shape (equations × columns, equations × columns)."""
    value: float
    null: float
    n: float
    gaps: bool
    leverage: float
    correlation: float
    weight: float = 1.0
    """Mean weight of a record."""
    rarest: float = np.inf
    """Noisy number of records with the rarest outcome."""
    robust: Numbers | None = None
    """Variance of the coefficients by the sandwich, without that of the noise."""
    pairs: Numbers | None = None
    """What pairs of members of households add to the variance of the score."""

    @cached_property
    def shown_n(self) -> float:
        """The number of records that is published; NaN if it is too small."""
        return float(self.question.policy.counts.shown(np.array([self.n]))[0])

    @property
    def share(self) -> float:
        """McFadden's pseudo-R²."""
        return 1 - self.value / self.null if self.null else np.nan

    @cached_property
    def _bread(self) -> Numbers:
        return np.asarray(np.linalg.inv(self.information))

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What rules look at."""
        model = ModelEvidence(self.n, self.beta.size, self.columns.levels, self.rarest, self.share_seen, self.leverage)
        return model, CorrelationEvidence(self.correlation, self.n)

    def facts(self) -> dict[str, float]:
        """Return log-likelihoods, and the test that no column but the intercept explains anything.

        If they do not, twice the difference is a quadratic form of the score, which sampling and noise make: its first two
        moments are those of a multiple of χ² (Satterthwaite 1946); without noise it is χ² itself.
        """
        from scipy.stats import chi2

        equations, k = self.beta.shape
        lost = int(self.null != 0.0)
        df, ratio = equations * (k - lost), 2 * (self.value - self.null)
        p = np.nan
        if df and self.null:
            inflation = self.question.policy.variance_inflation
            rest = [a * k + j for a in range(equations) for j in range(lost, k)]
            inner = self._bread[np.ix_(rest, rest)]
            form = np.linalg.inv(inner)  # of the information, the intercepts taken out
            spread = (self._bread * inflation + self._bread @ self._more @ self._bread)[np.ix_(rest, rest)]
            part = form @ spread if self.columns.design.intercept else np.eye(len(rest))
            first, second = float(np.trace(part)), float(np.trace(part @ part))
            p = float(chi2.sf(max(ratio, 0.0) * first / second, first**2 / second))
        return {
            "log-likelihood": self.value, "null log-likelihood": self.null if self.null else np.nan, "pseudo-R²": self.share,
            "likelihood ratio": ratio if self.null else np.nan, "p": p,
        }  # fmt: skip

    @property
    def share_seen(self) -> float:
        """Pseudo-R² as the rule sees it: less what noise may add to the log-likelihood."""
        if not self.null:
            return 0.0
        part = np.diag(self._bread @ self.noise)
        return 1 - (self.value - float(np.sum(part) / 2 + np.sqrt(np.sum(part**2) / 2))) / self.null

    @property
    def variance(self) -> Numbers:
        """Variance of the coefficients as read, that of the noise included."""
        sampling = self._bread if self.robust is None else self.robust
        return np.asarray(sampling * self.question.policy.variance_inflation + self._bread @ self._more @ self._bread)

    @property
    def _more(self) -> Numbers:
        """What noise and households add to the variance of the score."""
        return self.noise if self.pairs is None else self.noise + self.pairs

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each coefficient of each outcome."""
        user = self.columns.to_formula()
        equations, k = self.beta.shape
        whole = self.variance
        out: list[dict[str, Any]] = []
        titles = [column.title for column in self.columns.design.columns]
        sign = -1.0 if self.outcomes.flip else 1.0
        for a in range(equations):
            block = whole[a * k : (a + 1) * k, a * k : (a + 1) * k]
            variance = np.einsum("ij,jk,ik->i", user, block, user)
            rows = coefficient_rows(titles, sign * (user @ self.beta[a]), variance, self.question.policy.models)
            head = {"outcome": self.outcomes.equations[a + 1]} if equations > 1 else {}
            out += [head | row for row in rows]
        return out


Fitting = Generator[SumsRequest, ProtectedSums, OutcomeFit | Refusal]


def fitted(
    question: Question,
    register: Register,
    columns: ModelColumns,
    outcomes: Outcomes,
    link: LinkFunction,
    weighted: bool,
    errors: str = "classical",
) -> Fitting:
    """Ask for the sums of a likelihood model, and solve it; once more for the squares of the score, for robust errors."""
    fit = yield from _estimated(question, register, columns, outcomes, link, weighted)
    if isinstance(fit, Refusal):
        return fit
    if errors == "design":
        fit = replace(fit, pairs=_pairs(question, register, fit, link, weighted))
        errors = "hc1" if weighted else "classical"
    if errors == "classical":
        return fit
    meat = yield from _meat(question, register, fit, link, weighted)
    bread = np.linalg.inv(fit.information)
    robust = bread @ meat @ bread
    if fit.noise.any():  # noise may have hidden some of the squares: no less than half the classical ones
        robust = robust + np.diag(np.maximum(0.5 * np.diag(bread) - np.diag(robust), 0.0))
    return replace(fit, robust=robust)


class _LinkCurvature(Curvature):
    def __init__(self, link: LinkFunction) -> None:
        self.link = link

    @override
    def of(self, linear: Numbers) -> Numbers:
        return self.link.curvature(self.link.mean(linear[None, :]), 0, 0)


def _pairs(question: Question, register: Register, fit: OutcomeFit, link: LinkFunction, weighted: bool) -> Numbers:
    """Return what pairs of members of households add to the variance of the score: ρ Σ w w′ √v √v′ x x′ for one equation.

    Several equations have the pairs without working weights, in proportion to the information.
    """
    columns, (equations, k) = fit.columns, fit.beta.shape
    one = equations == 1
    found = HouseholdPairs.of(
        question, register, columns.factors, columns.monomials, weighted,
        fit.beta[0] if one else None, _LinkCurvature(link) if one else None,
    )  # fmt: skip
    outcome = None if columns.outcome is not None else columns.factors.categories[-1].name
    nominal, intercept = outcome_correlation(columns.factors, outcome), columns.design.intercept
    own = [fit.information[a * k : (a + 1) * k, a * k : (a + 1) * k] for a in range(equations)]
    mean = question.codebook.weight.mean if weighted and question.codebook.weight is not None else 1.0
    weight = fit.n * mean
    rho = [
        found.residual_correlation(nominal, beta, matrix, weight, 1.0, intercept)
        for beta, matrix in zip(fit.beta, own, strict=True)
    ]
    return max(rho) * found.excess(fit.information)


def _estimated(
    question: Question,
    register: Register,
    columns: ModelColumns,
    outcomes: Outcomes,
    link: LinkFunction,
    weighted: bool,
) -> Fitting:
    factors = columns.factors
    hidden_x = any(factors.known(m, False) != ONE for m in columns.monomials)
    shape = Products(question, register, factors, columns.monomials, ())
    size = Products(question, register, factors, (ONE,), ((0, 0),))
    if hidden_x or shape.all_confidential or not link.canonical:
        return (yield from _scored(question, columns, outcomes, link, weighted, size, register))
    rows = MonomialRows(factors, True, columns.monomials)
    xx = Products(
        question,
        register,
        factors,
        columns.monomials,
        tuple((i, j) for i in range(len(columns.monomials)) for j in range(i, len(columns.monomials))),
        int(weighted),
    ).matrices(None)[0]
    n, weight = (
        float(Products(question, register, factors, (ONE,), ((0, 0),), w).matrices(None)[0][0, 0])
        for w in (0, int(weighted))
    )
    if not n > len(outcomes.monomials) * len(columns.monomials):
        return EMPTY
    if conditioned(xx)[0] < DEPENDENT:
        return COLLINEAR
    turn = np.linalg.inv(np.linalg.cholesky(xx))
    xy, noise = yield from _outcome_sums(question, register, columns, outcomes, turn, int(weighted))
    constant = columns.design.constant(xx, weight)
    if constant is not None and not (xy @ constant > 0).all():
        return ONE_OUTCOME
    found = _solved(register, question, rows, link, xy, int(weighted))
    if isinstance(found, Refusal):
        return found
    beta, value, information = found
    null = 0.0 if constant is None else _null(link, xy @ constant, weight)
    work = LargestLeverage(MonomialRows(factors, True, columns.monomials, 0, turn))
    leverage = LargestLeverage.read(register.reduce(work, work.columns, known_part(question.selection)))
    correlation = largest_correlation(xx, columns.design.intercept)
    return OutcomeFit(
        question, columns, outcomes, beta, information, noise, value, null, n, _gaps(columns), leverage, correlation
    )


def _outcome_sums(
    question: Question, register: Register, columns: ModelColumns, outcomes: Outcomes, turn: Numbers, weights: int
) -> Generator[SumsRequest, ProtectedSums, tuple[Numbers, Numbers]]:
    """Return X'y of known columns, and the covariance of its noise; asked for in orthonormal columns."""
    factors, p, back = columns.factors, len(columns.monomials), np.linalg.inv(turn)
    shape = Products(question, register, factors, columns.monomials, ())
    ys = [factors.known(m, False) for m in outcomes.monomials]
    noise = np.zeros((len(ys) * p, len(ys) * p))
    if all(y == ONE for y in ys):  # nothing confidential is asked
        crossed = tuple((j, p + a) for a in range(len(ys)) for j in range(p))
        whole = Products(question, register, factors, (*columns.monomials, *outcomes.monomials), crossed, weights)
        xy = whole.matrices(None)[0][p:, :p]
    else:
        names = ";".join(factors.wording(m) for m in columns.monomials)
        part = TotalSums(
            f"outcomes w{weights} {names}:{';'.join(factors.wording(y) for y in ys)}",
            MonomialRows(factors, True, columns.monomials, weights, turn), MonomialRows(factors, False, ys),
            tuple(factors.bounds(y) for y in ys), tuple((j, a) for a in range(len(ys)) for j in range(p)), shape.variables, shape.by,
        )  # fmt: skip
        sums = (yield SumsRequest({"xy": part})).totals("xy")
        xy = np.array([back @ sums.values[a * p : (a + 1) * p] for a in range(len(ys))])
        for a in range(len(ys)):
            own = slice(a * p, (a + 1) * p)
            noise[own, own] = back @ np.diag(sums.variances[own]) @ back.T
    if factors.numbers and columns.outcome is not None:  # the outcome is read centred and scaled
        scale, centre = factors.scale[-1], factors.centre[-1]
        work = _Ones(MonomialRows(factors, True, columns.monomials), weights)
        xy = xy * scale + centre * register.reduce(work, work.columns, known_part(question.selection))
        noise = noise * scale**2
    return xy, noise


class _Ones(ComposedFunction):
    def __init__(self, rows: MonomialRows, weights: int) -> None:
        self.rows, self.weights, self.parts = rows, weights, (rows,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x = self.rows(piece)
        return np.asarray(x @ np.asarray(piece["w"], np.float64)) if self.weights else np.asarray(x.sum(axis=1))


def _solved(
    register: Register, question: Question, rows: MonomialRows, link: LinkFunction, xy: Numbers, weights: int
) -> tuple[Numbers, float, Numbers] | Refusal:
    """Solve Σ x μ(xβ) = X'y by Newton's method over known variables; also the log-likelihood and the information."""
    universe = known_part(question.selection)

    def at(beta: Numbers) -> tuple[float, Numbers, Numbers]:
        work = FittedSums(rows, link, beta, weights)
        found = register.reduce(work, work.columns, universe)
        k = beta.size
        return float(found[0]), found[1 : 1 + k].reshape(beta.shape), found[1 + k :].reshape(k, k)

    beta = np.zeros_like(xy)
    if (beta.shape[1] == 0) or not np.isfinite(xy).all():
        return ONE_OUTCOME
    loss, fitted_sums, information = at(beta)
    value = float((beta * xy).sum()) - loss
    for _ in range(_NEWTON):
        try:
            step = np.linalg.solve(information, (xy - fitted_sums).ravel()).reshape(beta.shape)
        except np.linalg.LinAlgError:
            return SEPARATED
        size = 1.0
        while True:
            trial = beta + size * step
            loss, fitted_sums, information = at(trial)
            better = float((trial * xy).sum()) - loss
            if better >= value - 1e-12 * abs(value) or size < 1e-4:
                break
            size /= 2
        beta, value = trial, better
        if np.abs(trial).max(initial=0) > 1e3 or conditioned(information)[0] < DEPENDENT:
            return SEPARATED
        if size == 1.0 and np.abs(step).max(initial=0) < 1e-9 * max(np.abs(beta).max(initial=0), 1.0):
            break
    else:
        return SEPARATED
    return beta, value, information


def _null(link: LinkFunction, y: Numbers, weight: float) -> float:
    """Return the log-likelihood of an intercept alone, from the sums of the outcomes."""
    if isinstance(link, LogMean):
        return float((y * np.log(np.maximum(y / weight, 1e-300)) - y).sum())
    shares = np.clip(np.r_[weight - y.sum(), y] / weight, 1e-12, 1.0)
    return float(weight * (shares * np.log(shares)).sum())


# --- robust errors


class ScoreSquares(ComposedFunction):
    """Products of residuals of two equations, at some coefficients; with `whole` times products of two columns."""

    def __init__(self, score: ScoreRows, whole: bool) -> None:
        self.score, self.whole, self.parts = score, whole, (score,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, y, complete = self.score.read(piece)
        rest = self.score.link.residual(y, self.score.beta @ x) * complete
        made = [rest[a] * rest[b] for a in range(len(y)) for b in range(a, len(y))]
        if not self.whole:
            return np.array(made)
        return np.array([r * x[i] * x[j] for r in made for i in range(len(x)) for j in range(i, len(x))])


def _meat(
    question: Question, register: Register, fit: OutcomeFit, link: LinkFunction, weighted: bool
) -> Generator[SumsRequest, ProtectedSums, Numbers]:
    """Return Σ w² x x′ ⊗ r r′ of residuals r; in orthonormal columns where all predictors are known."""
    columns, factors, (equations, k) = fit.columns, fit.columns.factors, fit.beta.shape
    shape = Products(question, register, factors, columns.monomials, ())
    known = not shape.all_confidential and all(factors.known(m, False) == ONE for m in columns.monomials)
    scale, (low, high) = _outcome_scale(columns)
    most = (max(high - low, 1.0) * link.reach) ** 2
    if columns.outcome is not None and question.policy.models.sd:
        most = min(most, (CAPPED * max(columns.outcome.spread, 1.0)) ** 2)
    beta = np.array([[float(f"{b:.12g}") for b in row] for row in fit.beta.tolist()])
    rows = ScoreSquares(ScoreRows(factors, columns.monomials, fit.outcomes.monomials, link, beta, scale), not known)
    blocks = [(a, b) for a in range(equations) for b in range(a, equations)]
    pairs = [(i, j) for i in range(k) for j in range(i, k)]
    names = ";".join(factors.wording(m) for m in (*columns.monomials, *fit.outcomes.monomials))
    name = f"score squares {type(link).__name__} w{int(weighted)} {names} at {beta.tolist()}"
    share = _ROUGH if question.policy.models.sd else 1.0
    if known:
        xx = Products(question, register, factors, columns.monomials, tuple(pairs), int(weighted)).matrices(None)[0]
        turn = np.linalg.inv(np.linalg.cholesky(xx))
        us: RecordFunction = PairProducts(MonomialRows(factors, True, columns.monomials, int(weighted), turn))
        bounds = [Confidential(-most * (a != b), most, most / 4) for a, b in blocks]
        where = tuple((p, g) for g in range(len(blocks)) for p in range(len(pairs)))
    else:
        turn = np.eye(k)
        us = MonomialRows(factors, True, (ONE,), 2 * int(weighted))
        size = [max(abs(e.low), abs(e.high)) for e in _whole_bounds(factors, columns.monomials)]
        bounds = [
            Confidential(-t * (a != b or i != j), t, t / 4)
            for a, b in blocks
            for i, j in pairs
            for t in [most * size[i] * size[j]]
        ]
        where = tuple((0, g) for g in range(len(bounds)))
    part = TotalSums(name, us, rows, tuple(bounds), where, shape.variables, shape.by, share)
    values = (yield SumsRequest({"meat": part})).totals("meat").values.reshape(len(blocks), len(pairs))
    meat, back = np.zeros((equations, k, equations, k)), np.linalg.inv(turn)
    for (a, b), row in zip(blocks, values, strict=True):
        block = np.zeros((k, k))
        for (i, j), value in zip(pairs, row, strict=True):
            block[i, j] = block[j, i] = value
        meat[a, :, b, :] = meat[b, :, a, :] = back @ block @ back.T
    return meat.reshape(equations * k, equations * k)


def _outcome_scale(columns: ModelColumns) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return what the outcome as read is multiplied by, and what is added; and its public bounds."""
    if columns.outcome is None:
        return (1.0, 0.0), (0.0, 1.0)
    return (float(columns.factors.scale[-1]), float(columns.factors.centre[-1])), columns.outcome.bounds


# --- scoring with confidential predictors


class ScoreRows(RecordFunction):
    """Score, information, log-likelihood and a 1 for each complete record, at some coefficients."""

    def __init__(
        self,
        factors: Factors,
        columns: Sequence[Monomial],
        outcomes: Sequence[Monomial],
        link: LinkFunction,
        beta: Numbers,
        outcome_scale: tuple[float, float],
    ) -> None:
        every = [*columns, *outcomes]
        self.known = MonomialRows(factors, True, [factors.known(m) for m in every])
        self.hidden = MonomialRows(factors, False, [factors.known(m, False) for m in every])
        self.k, self.link, self.beta, self.outcome_scale = len(columns), link, beta, outcome_scale

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.known.columns, *self.hidden.columns]))

    def read(self, piece: Piece) -> tuple[Numbers, Numbers, Flags]:
        """Return columns, outcomes, and who is complete."""
        complete = self.known.read(piece)[2] & self.hidden.read(piece)[2]
        whole = self.known(piece) * self.hidden(piece)
        return whole[: self.k], whole[self.k :] * self.outcome_scale[0] + self.outcome_scale[1], complete

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, y, complete = self.read(piece)
        linear = self.beta @ x
        mean = self.link.mean(linear)
        equations = len(self.beta)
        rest = self.link.residual(y, linear)
        rows = [rest[a] * x[j] for a in range(equations) for j in range(self.k)]
        for a in range(equations):
            for b in range(a, equations):
                c = self.link.curvature(mean, a, b)
                rows += [c * x[i] * x[j] for i in range(self.k) for j in range(i, self.k)]
        rows += [self.link.value(y, linear), np.ones(len(complete)), *y]
        return np.array(rows) * complete


def _scored(
    question: Question, columns: ModelColumns, outcomes: Outcomes, link: LinkFunction, weighted: bool, size: Products,
    register: Register,
) -> Fitting:  # fmt: skip
    """Take a fixed number of scoring steps, each a request."""
    k, equations, noisy = len(columns.monomials), len(outcomes.monomials), bool(question.policy.models.sd)
    bounds, m = _score_bounds(columns, equations, link), equations * k
    steps, beta = _SCORING if noisy else _NEWTON, np.zeros((equations, k))
    values, variances = np.zeros(len(bounds)), np.zeros(len(bounds))
    n, intercept = float(size.matrices(None)[0][0, 0]), columns.design.intercept
    for step in range(steps):
        part = _score_parts(question, register, columns, outcomes, link, beta, weighted, bounds)
        last = step == steps - 1
        parts = {"score": part(range(m), 1.0 if last else _EARLY)}
        if weighted and step == 0 and (counted_part := size.request()) is not None:
            parts["n"] = counted_part
        if not noisy or step in (0, steps - 1):
            parts["rest"] = part(range(m, len(bounds)), _ROUGH)
        sums = yield SumsRequest(parts)
        for name, own in (("score", slice(0, m)), ("rest", slice(m, None))):
            if name in parts:
                values[own], variances[own] = sums.totals(name).values, sums.totals(name).variances
        if "n" in parts:
            n = float(size.matrices(sums.totals("n"))[0][0, 0])
        information, unsure = (_symmetric(v[m:], equations, k) for v in (values, variances))
        if conditioned(information)[0] < (1e-4 if noisy else DEPENDENT):
            return COLLINEAR if step == 0 else SEPARATED
        change = np.linalg.solve(information, values[:m])
        largest = np.abs(change).max(initial=0)
        beta = beta + change.reshape(beta.shape) * min(1.0, 5.0 / max(largest, 1e-300))
        if np.abs(beta).max(initial=0) > 1e3:
            return SEPARATED
        if not noisy and largest < 1e-10 * max(np.abs(beta).max(initial=0), 1.0):
            break
    else:
        bread = np.linalg.inv(information)
        still = np.sqrt(np.diag(bread @ np.diag(variances[:m]) @ bread) * (1 + 1 / _EARLY))
        if not noisy or (np.abs(change) > np.maximum(_MOVING, 4 * still)).any():
            return SEPARATED
    weight = float(values[-1 - equations])
    n = n if weighted else weight
    if not (n > m and weight > 0):
        return EMPTY
    null = _null(link, values[-equations:], weight) if intercept else 0.0
    noise = unsure * np.outer(change, change)  # noise of the information moves the last step, too
    np.fill_diagonal(noise, variances[:m] + unsure @ np.square(change))
    correlation = largest_correlation(information[:k, :k], intercept)
    value = float(values[-2 - equations])
    return OutcomeFit(
        question, columns, outcomes, beta, information, noise, value, null, n, _gaps(columns), 0.0, correlation
    )


def _gaps(columns: ModelColumns) -> bool:
    """Whether some records may lack a variable of the model."""
    factors = columns.factors
    return any(x.partial for x in factors.numbers) or any(c.missing >= 0 for c in factors.categories)


def _score_bounds(columns: ModelColumns, equations: int, link: LinkFunction) -> list[Confidential]:
    """Return bounds and nominal sizes of what a record adds to score, information, log-likelihood, weight and outcomes."""
    factors, (low, high) = columns.factors, _outcome_scale(columns)[1]
    k, most = len(columns.monomials), max(high - low, 1.0)
    spread = 0.5 if columns.outcome is None else columns.outcome.spread
    reach, top = most * link.reach, link.top * most
    size = [max(abs(e.low), abs(e.high)) for e in _whole_bounds(factors, columns.monomials)]
    rms = [max(factors.bounds(one).spread, 0.05) for one in columns.monomials]
    bounds = [
        Confidential(-reach * s, reach * s, spread * r)
        for _ in range(equations)
        for s, r in zip(size, rms, strict=True)
    ]
    for a, b, i, j in _places(equations, k):
        own = top * size[i] * size[j]
        bounds.append(Confidential(-own if a != b or i != j else 0.0, own, top * rms[i] * rms[j] / 2))
    whole = Confidential(-3.0 * reach, 3.0 * reach, 0.5 * reach)
    outcome = Confidential(min(low, 0.0), max(high, 0.0), spread)
    return [*bounds, whole, Confidential(0.0, 1.0, 0.1), *([outcome] * equations)]


def _score_parts(
    question: Question, register: Register, columns: ModelColumns, outcomes: Outcomes, link: LinkFunction, beta: Numbers,
    weighted: bool, bounds: Sequence[Confidential],
) -> Callable[[range, float], TotalSums]:  # fmt: skip
    """Return what makes the request for some of the sums at some coefficients, with a part of the noise's precision."""
    factors, shape = columns.factors, Products(question, register, columns.factors, columns.monomials, ())
    rows = ScoreRows(factors, columns.monomials, outcomes.monomials, link, beta, _outcome_scale(columns)[0])
    words = ",".join(f"{b:.12g}" for b in beta.ravel())
    names = ";".join(factors.wording(m) for m in (*columns.monomials, *outcomes.monomials))

    def part(chosen: range, share: float) -> TotalSums:
        return TotalSums(
            f"score {chosen} {type(link).__name__} w{int(weighted)} {names} at {words}",
            MonomialRows(factors, True, (ONE,), int(weighted)), rows, tuple(bounds), tuple((0, g) for g in chosen),
            shape.variables, shape.by, share if question.policy.models.sd else 1.0,
        )  # fmt: skip

    return part


def _places(equations: int, k: int) -> list[tuple[int, int, int, int]]:
    """Return the elements of the information that are asked for: two equations, and two columns."""
    blocks = [(a, b) for a in range(equations) for b in range(a, equations)]
    return [(a, b, i, j) for a, b in blocks for i in range(k) for j in range(i, k)]


def _symmetric(values: Numbers, equations: int, k: int) -> Numbers:
    """Return a matrix from its elements."""
    out = np.zeros((equations, k, equations, k))
    for value, (a, b, i, j) in zip(values, _places(equations, k), strict=False):
        out[a, i, b, j] = out[a, j, b, i] = out[b, i, a, j] = out[b, j, a, i] = value
    return out.reshape(equations * k, equations * k)


def _whole_bounds(factors: Factors, monomials: Sequence[Monomial]) -> list[Confidential]:
    """Return bounds of whole columns, known parts included."""
    out = []
    for numbers, _ in monomials:
        most = 1.0
        for i in numbers:
            a, b = ((end - factors.centre[i]) / factors.scale[i] for end in factors.numbers[i].bounds)
            most *= max(abs(a), abs(b))
        out.append(Confidential(-most if numbers else 0.0, most, most / 2))
    return out
