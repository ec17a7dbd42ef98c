"""Pictures of residuals from protected counts in bins: synthetic points for linear models, means in bins for logistic ones."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.contract.draws import Draws
from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.design import Design, Factor, FormulaAnalysis, title
from sfumato.mas.models.likelihood import Logit, OutcomeFit, ScoreRows
from sfumato.mas.models.linear import OLS, LinearFit
from sfumato.mas.models.outcome_models import Logistic, Multinomial
from sfumato.mas.models.products import ONE, ComposedFunction, MonomialRows, Products, RowSums, WholeRows
from sfumato.mas.models.residual_pictures import BinnedPicture, ResidualPicture
from sfumato.mas.question import Question, Result, Steps
from sfumato.mas.register import Register, known_part
from sfumato.mas.rule import Evidence
from sfumato.mas.sums import Confidential, Piece, ProtectedSums, ProtectedTotals, RecordFunction, SumsRequest, TotalSums
from sfumato.mas.synthetic_residuals import CURVE, DEGREE, SPREAD, SPREAD_DEGREE, beyond_chance, rank_basis
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

_MODELS = ("ols", "logistic", "multinomial")
_LEAST = 300
"""Records, by their noisy count, that a picture needs."""
_POINTS, _SHARE = 1_000, 0.67
"""Synthetic points at most, and as a share of the records."""
_ENOUGH = 600
"""Of more records noise may be larger: a picture of so many costs each of them as much as noise of full precision."""
_MANY = 3_000
"""Of fewer records bins are wider: each has noise."""
_FAR = 2.5
"""The axis ends so many nominal standard deviations from the middle."""
_FINE = np.array([-2.5, -1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75, 2.5])
_WIDE = np.array([-1.5, -0.5, 0.5, 1.5])
"""Edges of the bins of standardised residuals."""
TOO_FEW = Refusal(
    "residual_picture", "There are too few records for a picture of residuals.", "Choose a larger universe."
)


class Residuals(FormulaAnalysis):
    """Residuals of a model against fitted values, or against a predictor, as a picture that shows no record.

    The model passes all rules that it would pass if it were asked for itself. Given its protected coefficients, a residual is a
    function of one record: records are counted in bins of the axis and of the residual, with noise. For a linear model synthetic
    points are drawn whose curve and spread are what of these counts is more than chance (Reiter 2003); for a logistic one means
    in bins are given with their band (Gelman and Hill 2007), for a multinomial one these for each level of the outcome.
    """

    kind = "model"
    drawn: ClassVar[bool] = True
    model: str = param(default="ols", choices=_MODELS, doc="which model is fitted")
    against: str | None = param(
        default=None,
        doc="a predictor, as age or log(income), that residuals are shown against; fitted values, if not given",
    )
    event: str | None = param(default=None, doc="the level of the outcome that a logistic model is of")

    @override
    def validate(self) -> None:
        super().validate()
        if self.event is not None and self.model != "logistic":
            raise ParameterError("event of residuals is for the model logistic.")

    def fitted_model(self) -> OLS | Logistic | Multinomial:
        """Return the model whose residuals are asked for."""
        if self.model == "ols":
            return OLS(self.formula, weighted=self.weighted, errors="classical")
        if self.model == "multinomial":
            return Multinomial(self.formula, weighted=self.weighted, errors="classical")
        return Logistic(self.formula, weighted=self.weighted, event=self.event, errors="classical")

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        self._factor(known)
        return super().variables(known)

    @override
    def wording(self) -> str:
        return f"residuals:{self.fitted_model().wording()}:{self.against or ''}"

    @override
    def wording_for(self, codebook: Codebook) -> str:
        factor = self._factor(codebook.variables)
        return f"residuals:{self.fitted_model().wording_for(codebook)}:{title((factor,)) if factor else ''}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        model, factor = self.fitted_model(), self._factor(question.codebook.variables)
        if not isinstance(model, OLS) and factor is not None and factor[0] == "C":
            raise ParameterError(
                f"residuals of {self.model} are means in bins of a number, and '{factor[1]}' has levels. Choose a predictor that is "
                "a number, or leave out against."
            )
        fit = yield from model.fitted(question, register)
        if isinstance(fit, Refusal):
            return fit
        if not fit.n >= _LEAST:
            return TOO_FEW
        if isinstance(fit, LinearFit):
            return (yield from _linear(question, register, fit, _axis(fit, factor), self.weighted))
        return (
            yield from _levels(
                question, register, fit, _axis(fit, factor), self.weighted, isinstance(model, Multinomial)
            )
        )

    def _factor(self, known: Mapping[str, Variable]) -> Factor | None:
        """Return the factor of the formula that is the axis: the plain number, if there is one; None for fitted values."""
        if self.against is None:
            return None
        factors = sorted({f for term in self.terms(known).terms for f in term}, key=lambda f: (f[0] == "C", f))
        for factor in factors:
            if self.against in (factor[1], title((factor,))):
                return factor
        names = [title((f,)) for f in factors]
        if self.against in known:
            raise DataError(
                f"'{self.against}' is not a predictor of the model, so its residuals cannot be shown against it. "
                f"Predictors: {join_names(names)}."
            )
        raise DataError(unknown_name("predictor", self.against, names, "the model"))

    @classmethod
    def chart(cls, answer: Answer) -> alt.TopLevelMixin:
        """Draw the pictures of an answer, one below another."""
        from sfumato.charts.analysis_charts import one_below_another

        return one_below_another([picture.chart() for picture in pictures(answer)])


def pictures(answer: Answer) -> list[ResidualPicture | BinnedPicture]:
    """Return the pictures that an answer about residuals holds: one, or one for each level of the outcome."""
    axis = str(answer.facts["axis"])
    made: list[ResidualPicture | BinnedPicture] = []
    for name in answer.tables:
        points = answer.frame(name)
        if "band" in points:
            made.append(BinnedPicture(axis, name, points))
            continue
        levels = None if points["x"].dtype.kind == "f" else tuple(dict.fromkeys(points["x"]))
        made.append(ResidualPicture(axis, points, levels))
    return made


# --- axis


@dataclass(frozen=True)
class ResidualAxis:
    """What residuals are shown against: fitted values, a number of the model, or the levels of one of its categories."""

    name: str
    kind: Literal["fitted", "number", "category"]
    edges: Numbers
    """Inner edges of its bins, in units of the formula; for a category, which levels are shown."""
    ends: tuple[float, float] = (0.0, 0.0)
    place: int = 0
    """Of the number, or of the category, in the design."""

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.edges) + (self.kind != "category")

    def codes(self, rows: MonomialRows, piece: Piece, fitted: Numbers) -> Whole:
        """Return the bin of each record, or -1."""
        if self.kind == "category":
            column = np.asarray(piece[rows.categories[self.place].column])
            at = np.full(len(rows.categories[self.place].levels), -1)
            at[self.edges.astype(np.int64)] = np.arange(len(self.edges))
            return np.asarray(at[column], np.int64)
        x = rows.numbers[self.place].values(piece) if self.kind == "number" else fitted
        return np.searchsorted(self.edges, np.nan_to_num(x), side="left").astype(np.int64)

    def middles(self) -> Numbers:
        """Return a place in each bin."""
        bounds = np.concatenate([[self.ends[0]], self.edges, [self.ends[1]]])
        return np.asarray((bounds[1:] + bounds[:-1]) / 2)


def _axis(fit: LinearFit | OutcomeFit, factor: Factor | None) -> ResidualAxis:
    """Lay out the bins of an axis, by public numbers and the protected fit."""
    design: Design = fit.columns.design
    bins = 16 if fit.n >= _MANY else 8
    if factor is None:
        if isinstance(fit, OutcomeFit):
            finer = [0.01, 0.02, 0.05, *np.arange(0.1, 0.91, 0.05), 0.95, 0.98, 0.99]
            return ResidualAxis(
                "fitted probability",
                "fitted",
                np.array(finer if fit.n >= _MANY else [0.05, *np.arange(0.1, 0.91, 0.1), 0.95]),
                (0.0, 1.0),
            )
        xx, weight = fit.sums.xx, fit.sums.weight
        mean = float(xx[0] @ fit.beta) / weight if design.intercept else 0.0
        sd = float(np.sqrt(max(float(fit.beta @ xx @ fit.beta) / weight - mean**2, 1e-12)))
        edges = fit.zero + fit.unit * (mean + sd * np.linspace(-_FAR, _FAR, bins + 1))
        return ResidualAxis("fitted value", "fitted", edges[1:-1], (float(edges[0]), float(edges[-1])))
    function, name = factor
    if function == "C":
        at = [c.name for c in design.categories].index(name)
        return ResidualAxis(name, "category", np.array(design.categories[at].shown), place=at)
    at = next(i for i, x in enumerate(design.numbers) if x.title == title((factor,)))
    number = design.numbers[at]
    low, high = number.bounds
    mean, sd = number.middle, number.spread
    start, end = max(low, mean - _FAR * sd), min(high, mean + _FAR * sd)
    edges = np.linspace(start, end, bins + 1)
    return ResidualAxis(number.name, "number", edges[1:-1], (float(start), float(end)), at)


def _merged(counts: Numbers, least: float) -> list[list[int]]:
    """Return groups of neighbouring bins with enough records in each."""
    groups: list[list[int]] = [[]]
    for i in range(len(counts)):
        groups[-1].append(i)
        if counts[groups[-1]].sum() >= least and i < len(counts) - 1:
            groups.append([])
    if len(groups) > 1 and counts[groups[-1]].sum() < least:
        last = groups.pop()
        groups[-1] += last
    return groups


# --- linear models


class BinRows(ComposedFunction):
    """One row for each bin of the axis and of the standardised residual: 1 for the bin of a record."""

    def __init__(self, fit: LinearFit, axis: ResidualAxis, spread: float, cuts: Numbers) -> None:
        self.rows = WholeRows(fit.columns.factors, [*fit.columns.monomials, fit.columns.y])
        self.parts = (self.rows,)
        self.beta, self.axis, self.spread, self.cuts = fit.beta, axis, spread, cuts
        self.zero, self.unit = fit.zero, fit.unit

    @override
    def __call__(self, piece: Piece) -> Numbers:
        whole, complete = self.rows(piece), self.rows.complete(piece)
        fitted = self.beta @ whole[:-1]
        along = self.axis.codes(self.rows.known, piece, self.zero + self.unit * fitted)
        residual = np.searchsorted(self.cuts, (whole[-1] - fitted) / self.spread)
        width = len(self.cuts) + 1
        code = np.where(complete & (along >= 0), along * width + residual, -1)
        return np.asarray(np.arange(self.axis.size * width)[:, None] == code, np.float64)


def _linear(
    question: Question, register: Register, fit: LinearFit, axis: ResidualAxis, weighted: bool
) -> Generator[SumsRequest, ProtectedSums, Result | Refusal]:
    from scipy.stats import norm

    cuts = _FINE if fit.n >= _MANY else _WIDE
    width = len(cuts) + 1
    spread = float(f"{np.sqrt(fit.mean_square * fit.n / fit.sums.weight):.12g}")
    if not spread > 1e-7:
        return Refusal(
            "residual_picture", "The model fits all but a few records without error, so that its residuals show nothing.",
            "Look at another model.",
        )  # fmt: skip
    usual = np.diff(np.concatenate([[0.0], norm.cdf(cuts), [1.0]]))
    shares = np.outer(np.full(axis.size, 1 / axis.size), usual).ravel()
    words = ",".join(f"{v:.12g}" for v in (*fit.beta, spread, *axis.edges))
    table = yield from _asked(
        question,
        register,
        fit,
        BinRows(fit, axis, spread, cuts),
        shares,
        f"residual bins {axis.kind} {axis.name} {words}",
        weighted,
    )
    counts, noise = table.values.reshape(-1, width), table.variances.reshape(-1, width)
    if axis.kind == "category":
        groups = [[i] for i in range(axis.size) if counts[i].sum() >= max(20.0, 2 * np.sqrt(noise[i].sum()))]
    else:
        groups = _merged(counts.sum(axis=1), max(25.0, counts.sum() / 16, 4 * np.sqrt(noise.sum() / axis.size)))
    if not groups:
        return TOO_FEW
    counts, noise = (np.array([v[g].sum(axis=0) for g in groups]) for v in (counts, noise))
    shape = _Shape(counts, noise, cuts, axis, groups, fit.sums.weight / fit.n)
    draws = Draws(hashlib.blake2b(question.wording.encode(), digest_size=16).hexdigest())
    number = min(_POINTS, int(_SHARE * fit.n) // 50 * 50)
    levels = fit.columns.design.categories[axis.place].levels if axis.kind == "category" else ()
    picture = shape.picture(draws, number, levels)
    tests = {f"p of {what}": p for what, p in picture.tests().items()}
    points = picture.points
    order = points["x"].map(picture.levels.index) if picture.levels else points["x"]
    points = points.iloc[np.lexsort((points["residual"], order))]
    return _result(question, fit, axis, {"synthetic residuals": points}, tests, str(picture).splitlines(), fit.evidence)


@dataclass(frozen=True, eq=False)
class _Shape:
    """Protected counts of residuals in bins of an axis, and what of their means and spreads is more than chance."""

    counts: Numbers
    noise: Numbers
    cuts: Numbers
    axis: ResidualAxis
    groups: list[list[int]]
    weight: float
    """Mean weight of a record: counts are of weights."""

    def picture(self, draws: Draws, number: int, levels: Sequence[str]) -> ResidualPicture:
        """Draw synthetic points."""
        total = np.maximum(self.counts.sum(axis=1), 1.0)
        values, sizes = _bin_means(self.cuts)
        share = total / total.sum()
        residual = self._beyond(values, share, total, CURVE, DEGREE)
        pooled = np.maximum(self.counts.sum(axis=0), 0.0)
        pooled = np.where(self.counts.sum(axis=0) > 2 * np.sqrt(self.noise.sum(axis=0)), pooled, 0.0)
        average = float(pooled @ sizes / max(pooled.sum(), 1.0))
        spread = np.maximum(1 + self._beyond(sizes, share, total, SPREAD, SPREAD_DEGREE) / average, 0.1)
        ids = np.arange(number)
        group = np.minimum(np.searchsorted(np.cumsum(share), draws.uniforms(ids, "x")), len(share) - 1)
        ends = np.concatenate([[self.cuts[0] - 1], self.cuts, [self.cuts[-1] + 1]])
        pick = np.searchsorted(np.cumsum(pooled / pooled.sum()), draws.uniforms(ids, "bin"))
        pick = np.minimum(pick, len(pooled) - 1)
        e = ends[pick] + (ends[pick + 1] - ends[pick]) * draws.uniforms(ids, "within")
        e -= e.mean()
        t = np.round(residual[group] + spread[group] * e, 5)
        if self.axis.kind == "category":
            shown = tuple(levels[int(self.axis.edges[g[0]])] for g in self.groups)
            return ResidualPicture.of(self.axis.name, group.astype(np.float64), t, shown)
        bounds = np.concatenate([[self.axis.ends[0]], self.axis.edges, [self.axis.ends[1]]])
        low, high = (np.array([bounds[g[0]] for g in self.groups]), np.array([bounds[g[-1] + 1] for g in self.groups]))
        x = low[group] + (high - low)[group] * draws.uniforms(ids, "place")
        step = 10.0 ** np.floor(np.log10(max(float(self.axis.ends[1] - self.axis.ends[0]), 1e-300) * 1e-4))
        return ResidualPicture.of(self.axis.name, np.round(x / step) * step, t, None)

    def _beyond(
        self, values: Numbers, share: Numbers, total: Numbers, limits: tuple[float, float], degree: int
    ) -> Numbers:
        """Return what of the means of the groups, less the mean of all, is more than chance."""
        mean = self.counts @ values / total
        overall = float(share @ mean)
        around = self.counts @ np.square(values) / total - mean**2
        sampling = np.maximum(float(share @ around), 0.05) * self.weight / total
        variance = sampling + (self.noise * np.square(values[None, :] - overall)).sum(axis=1) / total**2
        if self.axis.kind == "category":
            return beyond_chance(mean - overall, np.sqrt(variance * (1 - share)), limits)
        rank = np.cumsum(share) - share / 2
        basis = rank_basis(rank, min(degree, len(rank) - 1))[0]
        weighted = (
            np.linalg.qr(np.sqrt(share)[:, None] * np.column_stack([np.ones(len(rank)), basis]))[0][:, 1:]
            / np.sqrt(share)[:, None]
        )
        coefficients = weighted.T @ (share * (mean - overall))
        errors = np.sqrt(np.square(weighted * share[:, None]).T @ variance)
        return np.asarray(weighted @ beyond_chance(coefficients, errors, limits))


def _bin_means(cuts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the mean of a normal number in each bin of residuals, and of its size."""
    from scipy.stats import norm

    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    share = np.diff(norm.cdf(ends))
    values = -np.diff(norm.pdf(ends)) / share
    size = np.abs(values)
    size[len(size) // 2] = 2 * (norm.pdf(0) - norm.pdf(cuts[len(cuts) // 2])) / share[len(size) // 2]
    return np.asarray(values), np.asarray(size)


def _asked(
    question: Question,
    register: Register,
    fit: LinearFit | OutcomeFit,
    rows: RecordFunction,
    shares: Numbers,
    name: str,
    weighted: bool,
) -> Generator[SumsRequest, ProtectedSums, ProtectedTotals]:
    """Ask for the counts of bins; the more records there are, the less precise, and the cheaper for each."""
    columns = fit.columns
    shape = Products(question, register, columns.factors, columns.monomials, (), int(weighted))
    names = ";".join(columns.factors.wording(m) for m in columns.monomials)
    share = min(1.0, 2.0 ** np.ceil(np.log2(_ENOUGH / max(fit.n, _ENOUGH)))) if question.policy.models.sd else 1.0
    part = TotalSums(
        f"{name} w{int(weighted)} of {names}", MonomialRows(columns.factors, True, [ONE], int(weighted)), rows,
        tuple(Confidential(0.0, 1.0, float(np.sqrt(s))) for s in shares), tuple((0, g) for g in range(len(shares))), shape.variables,
        shape.by, share, exclusive=True,
    )  # fmt: skip
    return (yield SumsRequest({"bins": part})).totals("bins")


# --- logistic models


class OutcomeBinRows(ComposedFunction):
    """For each bin of the axis: the fitted probability of an outcome; or whether it happened, and whether not."""

    def __init__(self, fit: OutcomeFit, axis: ResidualAxis, outcome: int, happened: bool) -> None:
        factors = fit.columns.factors
        scale = (1.0, 0.0) if fit.columns.outcome is None else (float(factors.scale[-1]), float(factors.centre[-1]))
        self.score = ScoreRows(factors, fit.columns.monomials, fit.outcomes.monomials, Logit(), fit.beta, scale)
        self.axis, self.outcome, self.happened = axis, outcome, happened
        self.parts = (self.score,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, y, complete = self.score.read(piece)
        p = probability(self.score.beta @ x, self.outcome)
        came = y[self.outcome - 1] if self.outcome else 1 - y.sum(axis=0)
        bins = np.arange(self.axis.size)[:, None] == self.axis.codes(self.score.known, piece, p)
        if not self.happened:
            return np.asarray(bins * (p * complete))
        return np.concatenate([bins * (came * complete), bins * ((1 - came) * complete)])


def _levels(
    question: Question, register: Register, fit: OutcomeFit, axis: ResidualAxis, weighted: bool, every: bool
) -> Generator[SumsRequest, ProtectedSums, Result | Refusal]:
    import pandas as pd

    words = ",".join(f"{v:.12g}" for v in (*fit.beta.ravel(), *axis.edges))
    count = len(fit.outcomes.equations)
    own = range(1 if count == 2 else 0, count)
    made: dict[int, BinnedPicture] = {}
    for i in own:
        name = f"outcome bins {axis.kind} {axis.name} of {i} at {words}"
        shares = np.full(2 * axis.size, 0.5 / axis.size)
        came = yield from _asked(question, register, fit, OutcomeBinRows(fit, axis, i, True), shares, name, weighted)
        expected, unsure = yield from _expected(question, register, fit, axis, i, f"fitted {name}", weighted)
        yes, no = came.values.reshape(2, -1)
        size, noise = yes + no, came.variances.reshape(2, -1)
        least = max(25.0, size.sum() / 20, 4 * np.sqrt(noise.sum() / axis.size))
        groups = _merged(size, least)
        n, happened, p, v = (
            np.array([part[g].sum() for g in groups]) for part in (size, yes, expected, noise[0] + unsure)
        )
        n = np.maximum(n, least / 2)
        share = np.clip(p / n, 1e-3, 1 - 1e-3)
        band = 2 * np.sqrt(n * share * (1 - share) * fit.weight + v) / n
        middles = np.array([np.average(axis.middles()[g], weights=np.maximum(size[g], 1.0)) for g in groups])
        points = pd.DataFrame({
            "x": [float(f"{m:.3g}") for m in (share if axis.kind == "fitted" else middles)],
            "residual": np.round((happened - p) / n, 4), "band": [float(f"{b:.2g}") for b in band],
        })  # fmt: skip
        made[i] = BinnedPicture(axis.name, _title(fit, i), points)
    if count == 2:
        made[0] = made[1].mirrored(_title(fit, 0), axis.kind == "fitted")
    shown = range(count) if every else [0 if fit.outcomes.flip else 1]
    listed = [made[i] for i in shown]
    tables = {picture.outcome: picture.points for picture in listed}
    tests = {f"p of {picture.outcome}": picture.test() for picture in listed}
    said = [line for picture in listed for line in str(picture).splitlines()]
    return _result(question, fit, axis, tables, tests, said, fit.evidence)


def _expected(
    question: Question,
    register: Register,
    fit: OutcomeFit,
    axis: ResidualAxis,
    outcome: int,
    name: str,
    weighted: bool,
) -> Generator[SumsRequest, ProtectedSums, tuple[Numbers, Numbers]]:
    """Return the sums of fitted probabilities in bins, and the variances of their noise: none where predictors are known."""
    factors = fit.columns.factors
    shape = Products(question, register, factors, fit.columns.monomials, ())
    if not shape.all_confidential and all(factors.known(m, False) == ONE for m in fit.columns.monomials):
        rows = KnownBinRows(fit, axis, outcome, weighted)
        found = register.reduce(RowSums(rows), rows.columns, known_part(question.selection))
        return found, np.zeros(axis.size)
    asked = yield from _asked(
        question, register, fit, OutcomeBinRows(fit, axis, outcome, False), np.full(axis.size, 0.25 / axis.size), name, weighted
    )  # fmt: skip
    return asked.values, asked.variances


class KnownBinRows(RecordFunction):
    """For each bin of the axis the fitted probability of an outcome, from known predictors alone."""

    def __init__(self, fit: OutcomeFit, axis: ResidualAxis, outcome: int, weighted: bool) -> None:
        self.rows = MonomialRows(fit.columns.factors, True, fit.columns.monomials, int(weighted))
        self.plain = MonomialRows(fit.columns.factors, True, fit.columns.monomials)
        self.one = MonomialRows(fit.columns.factors, True, (ONE,), int(weighted))
        self.beta, self.axis, self.outcome = fit.beta, axis, outcome

    @override
    @property
    def columns(self) -> Sequence[str]:
        return self.rows.columns

    @override
    def __call__(self, piece: Piece) -> Numbers:
        p = probability(self.beta @ self.plain(piece), self.outcome)
        bins = np.arange(self.axis.size)[:, None] == self.axis.codes(self.plain, piece, p)
        return np.asarray(bins * p * self.one(piece))


def probability(linear: Numbers, outcome: int) -> Numbers:
    """Return the fitted probability of an outcome, the base being 0."""
    rest = Logit.mean(linear)
    return np.asarray(rest[outcome - 1] if outcome else np.maximum(1 - rest.sum(axis=0), 0.0))


def _title(fit: OutcomeFit, outcome: int) -> str:
    return fit.outcomes.equations[outcome]


def _result(
    question: Question, fit: LinearFit | OutcomeFit, axis: ResidualAxis, tables: Mapping[str, pd.DataFrame],
    tests: Mapping[str, float], said: Sequence[str], evidence: tuple[Evidence, ...],
) -> Result:  # fmt: skip
    facts: dict[str, Any] = {"axis": axis.name, "n": None if np.isnan(fit.shown_n) else fit.shown_n}
    facts |= {name: float(f"{p:.2g}") for name, p in tests.items()}
    rows = {
        name: [{str(k): v for k, v in row.items()} for row in points.to_dict("records")]
        for name, points in tables.items()
    }
    notes = [*said, *fit.columns.notes]
    if question.policy.models.sd:
        notes.append(
            "Residuals were counted in bins with random noise; curves and spreads that noise or chance may have made are not drawn."
        )
    return Result(rows, facts, tuple(notes), evidence)
