"""An analyst's regression before and after: coefficients, intervals, and combining rules for implicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels, masks
from sfumato.contract import DirectMeasure, NoiseModel, Release, Snooper, learned, param
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Batch, Kind, Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, count_of, plural
from sfumato.lazy import special
from sfumato.schema import Schema
from sfumato.typing import Numbers
from sfumato.utility.comparison import FEWEST, weighted_flag, weights_of
from sfumato.utility.estimators import Levels, design_of, is_category, levels_of, named_in, parse, response_of

Parameters = Literal["estimated", "drawn"]


def synthesised(outcome: Release) -> Parameters | None:
    """Return whether all records of a release were drawn from a model, and whether its parameters were drawn too.

    "estimated" is a model with the estimates put in for its parameters, "drawn" one whose parameters were drawn from their
    posterior (proper synthesis). None is any other release: records that were masked, synthetic columns beside real ones
    (partial synthesis), and files whose recipe is not known.
    """
    found: Parameters | None = None
    for step in outcome.recipe.steps if outcome.recipe is not None else ():
        if isinstance(step.mask, masks.CopulaSynthesis):
            found = "estimated"
        elif isinstance(step.mask, masks.FullNormalSynthesis | masks.FullTreeSynthesis):
            found = "drawn" if step.mask.proper else "estimated"
    return found


# --- One estimate from several implicates: the analyst's combining rules for synthetic data.

Synthesis = Literal["partial", "full"]


@dataclass(frozen=True)
class Combined:
    """What several implicates say together: estimate ± standard error, on some degrees of freedom."""

    estimate: float
    variance: float
    freedom: float
    """Degrees of freedom of the t distribution; infinite where the normal one is used."""

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval, by the t distribution."""
        if not 0 < level < 1:
            raise ParameterError(f"the level of an interval must be a number between 0 and 1; got {level}.")
        p = (1 + level) / 2
        reach = self.error * float(
            special.stdtrit(self.freedom, p) if math.isfinite(self.freedom) else special.ndtri(p)
        )
        return self.estimate - reach, self.estimate + reach


def combine(
    estimates: Sequence[float] | Numbers,
    variances: Sequence[float] | Numbers,
    synthesis: Synthesis = "partial",
    size: float = 1.0,
) -> Combined:
    """Combine the estimates from m implicates, each with the variance that a standard analysis of that implicate gives.

    With b the variance of the estimates between implicates and ū the mean of their variances:

    ``"partial"`` (Reiter 2003): the records are the original ones, some columns synthetic. T = ū + b/m, with
    (m - 1)(1 + mū/b)² degrees of freedom. It serves as well for new records drawn from estimated, not drawn, parameters, as
    many as the original has (Raab, Nowok and Dibben 2016).

    ``"full"`` (Raghunathan, Reiter and Rubin 2003): new records, parameters drawn anew for each implicate.
    T = (1 + 1/m)b - ū, with (m - 1)(1 - mū/((m + 1)b))² degrees of freedom. Where that is not positive, T is ū times `size`,
    the synthetic file's number of records over the original's (Reiter 2002), with the normal distribution.

    Examples
    --------
    >>> combine([9.0, 10.0, 11.0], [2.0, 2.0, 2.0]).variance
    2.3333333333333335
    """
    q, u = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.ndim != 1 or q.shape != u.shape:
        raise ParameterError("give one estimate and one variance for each implicate, in two lists of the same length.")
    m = len(q)
    if m < 2:
        raise ParameterError(
            "one implicate does not show how much implicates differ, so its estimate has no valid variance. "
            "Release at least two (implicates = 5, say)."
        )
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        raise ParameterError("estimates must be finite numbers, and variances must not be negative.")
    if synthesis not in ("partial", "full"):
        raise ParameterError(f"synthesis must be 'partial' or 'full'; got '{synthesis}'.")
    if not size > 0:
        raise ParameterError(f"size must be a number above 0; got {size}.")
    estimate, within, between = float(q.mean()), float(u.mean()), float(q.var(ddof=1))
    if synthesis == "partial":
        freedom = (m - 1) * (1 + m * within / between) ** 2 if between else math.inf
        return Combined(estimate, within + between / m, freedom)
    variance = (1 + 1 / m) * between - within
    if variance <= 0:
        return Combined(estimate, size * within, math.inf)
    return Combined(estimate, variance, (m - 1) * (1 - m * within / ((m + 1) * between)) ** 2)


# --- An analyst's regression on the original and on a release, coefficient by coefficient: estimates and standard errors.

Model = Literal["linear", "logistic"]
Rules = Literal["recipe", "partial", "full"]
TERMS = 500
"""Most coefficients of a formula."""
NEW = 50
"""Most categories of a column that only the release has."""
_NUMERIC = (Kind.NUMBER, Kind.BOOLEAN)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What one file says of k coefficients."""

    names: tuple[str, ...]
    titles: tuple[str, ...]
    """What the coefficients are called before people; rare categories are not named."""
    estimates: Numbers
    """Shape (k,); NaN for coefficients that the file does not determine."""
    errors: Numbers
    """Standard errors, shape (k,)."""
    freedom: float
    """Degrees of freedom of the t distribution; infinite for the normal one."""
    records: int
    levels: Levels
    """The categories of each column that stands for levels, in order."""
    two: tuple[Any, Any] | None
    """The two values of a logistic regression's response."""
    terms: frozenset[str]
    """The names of all coefficients of the formula in the original, those included that were left out."""

    def interval(self, i: int, level: float) -> tuple[float, float]:
        """Return the confidence interval of one coefficient."""
        return Combined(float(self.estimates[i]), float(self.errors[i]) ** 2, self.freedom).interval(level)


def shown(formula: str) -> str:
    """Return a formula as it is told to people: that of a mean by its column.

    >>> shown("`pay` ~ 1"), shown("pay ~ rent")
    ('mean pay', 'pay ~ rent')
    """
    return f"mean {formula[1:-5]}" if formula.startswith("`") and formula.endswith("` ~ 1") else formula


def analysed(data: Microdata, formula: str, model: Model, weighted: bool) -> Coefficients:
    """Fit a formula to the original file: terms that are combinations of earlier ones, or constant, are left out.

    Refused in a sentence: unknown columns, too few records, a response that does not vary or is fitted without error.
    """
    names = named_in(formula)
    for name in names:
        data.kind(name)
    batch = data.batch(names)
    factors = {factor for term in parse(formula)[1] for factor in term if is_category(batch, *factor)}
    levels = {c: levels_of(batch, c) for c in names if c in {column for _, column in factors}}
    two = _two_values(batch, formula) if model == "logistic" else None
    x, y, weights, terms = _complete(data, batch, formula, levels, two, weighted)
    if len(x) <= x.shape[1] + 1:
        raise DataError(
            f"'{shown(formula)}' has {plural(x.shape[1], 'coefficient')}, and only {plural(len(x))} with all its columns; "
            "it needs more."
        )
    kept = np.flatnonzero(kernels.regression.independent(x))
    found = _fit(x[:, kept], y, weights, model, formula) if len(kept) else None
    if found is None or not (found[1] > 0).all():
        raise DataError(
            f"'{shown(formula)}' fits the original without error, or its response does not vary, so that its coefficients "
            "have no standard errors to compare with. Choose another formula."
        )
    told = tuple(terms[i] for i in kept)
    titles = _titles(told, np.count_nonzero(x[:, kept], axis=0), levels)
    return Coefficients(told, titles, *found, len(x), levels, two, frozenset(terms))


def analysed_again(
    data: Microdata, before: Microdata, reference: Coefficients, formula: str, model: Model, weighted: bool
) -> Coefficients:
    """Fit the same formula to a released file, with the categories and the terms of the original's fit.

    A coefficient that the release does not determine (its category is gone, its column all alike) is NaN. Values that the
    original does not have are categories of their own.
    """
    _check_kinds(data, before, formula)
    batch = data.batch(named_in(formula))
    levels = {c: _with_new(batch, c, old, formula) for c, old in reference.levels.items()}
    x, y, weights, terms = _complete(data, batch, formula, levels, reference.two, weighted)
    place = {name: i for i, name in enumerate(terms)}
    k = len(reference.names)
    if len(x) <= k or (model == "logistic" and not 0 < y.sum() < len(y)):
        nothing = np.full(k, np.nan)
        return replace(reference, estimates=nothing, errors=nothing, records=len(x))
    columns = [*(place[n] for n in reference.names), *(i for n, i in place.items() if n not in reference.terms)]
    estimates, errors, freedom = _fit(x[:, columns], y, weights, model, formula)
    return replace(reference, estimates=estimates[:k], errors=errors[:k], freedom=freedom, records=len(x))


def combined(
    found: Sequence[Coefficients], rules: Rules, outcome: Release, original: Coefficients
) -> list[Combined | None]:
    """Return each coefficient from all implicates together, by the combining rules; None where one does not determine it."""
    rule: Synthesis = ("full" if synthesised(outcome) == "drawn" else "partial") if rules == "recipe" else rules
    out: list[Combined | None] = []
    for i in range(len(original.names)):
        q, se = np.array([c.estimates[i] for c in found]), np.array([c.errors[i] for c in found])
        if np.isnan(q).any():
            out.append(None)
        elif len(found) == 1:
            out.append(Combined(float(q[0]), float(se[0]) ** 2, found[0].freedom))
        else:
            out.append(combine(q, se**2, rule, size=max(found[0].records, 1) / original.records))
    return out


def _titles(names: Sequence[str], records: NDArray[np.intp], levels: Levels) -> tuple[str, ...]:
    """Return the names of coefficients, without the categories of those that hold for few records of the original.

    `records` has how many there are for each coefficient, shape (k,).
    """
    titles, rare = list(names), 0
    tokens = {f"C({column})[{level}]": column for column, known in levels.items() for level in known}
    for i in np.flatnonzero(records < FEWEST).tolist():
        named = [token for token in tokens if token in names[i]]
        rare += bool(named)
        for token in named:
            titles[i] = titles[i].replace(token, f"C({tokens[token]})[rare {rare}]")
    return tuple(titles)


def _check_kinds(data: Microdata, before: Microdata, formula: str) -> None:
    for name in named_in(formula):
        if name not in data.engine.kinds:
            raise NotApplicable(
                f"column '{name}' is not released, so '{shown(formula)}' cannot be fitted to the release."
            )
        was, now = before.kind(name), data.kind(name)
        if was is not now and not (was in _NUMERIC and now in _NUMERIC):
            raise NotApplicable(
                f"column '{name}' holds {was} in the original and {now} in the release, so '{shown(formula)}' means something "
                "else there. Recode the original alike and compare with that, or leave the column out."
            )


def _with_new(batch: Batch, column: str, old: Sequence[Any], formula: str) -> list[Any]:
    """Return the original's categories of a column, then those that only the release has."""
    known = set(old)
    new = [v for v in levels_of(batch, column) if v not in known]
    if len(new) > NEW:
        raise NotApplicable(
            f"the release has {len(new):,} values of '{column}' that the original does not have, too many to be categories of "
            f"'{shown(formula)}'. If it holds numbers, use it without C()."
        )
    return [*old, *new]


def _two_values(batch: Batch, formula: str) -> tuple[Any, Any]:
    """Return the two values of a logistic regression's response; the second one counts as a success."""
    function, column = parse(formula)[0]
    values = levels_of(batch, column)
    if function or len(values) != 2:
        raise DataError(
            f"a logistic regression needs a response with two values, and that of '{shown(formula)}' has another number. "
            "Use model='linear' for a number."
        )
    return values[0], values[1]


def _complete(
    data: Microdata, batch: Batch, formula: str, levels: Levels, two: tuple[Any, Any] | None, weighted: bool
) -> tuple[Numbers, Numbers, Numbers | None, list[str]]:
    """Return terms (n, k), response (n,), weights and names over the records that have all the columns and count."""
    width = sum(math.prod(len(levels[c]) if c in levels else 1 for _, c in term) for term in parse(formula)[1])
    if width > TERMS:
        raise NotApplicable(
            f"'{shown(formula)}' has {width:,} terms, and at most {TERMS} are compared. Leave some out."
        )
    x, names = design_of(batch, formula, levels)
    if two is None:
        y = response_of(batch, formula)
    else:
        codes, values = batch.column(parse(formula)[0][1]).codes
        y = np.array([*(float(two.index(v)) if v in two else np.nan for v in values), np.nan])[codes]
    weights = weights_of(data, weighted)
    counts = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    if weights is not None:
        counts &= weights > 0
        weights = weights[counts]
    if not counts.all():
        x, y = x[counts], y[counts]
    if np.isinf(x).any() or np.isinf(y).any():
        raise DataError(
            f"columns of '{shown(formula)}' hold infinite values, which cannot be compared. Set them to missing."
        )
    return x, y, weights, names


def _fit(x: Numbers, y: Numbers, weights: Numbers | None, model: Model, formula: str) -> tuple[Numbers, Numbers, float]:
    """Return estimates (NaN where the columns do not determine them), standard errors and degrees of freedom."""
    if model == "linear":
        with np.errstate(over="ignore", invalid="ignore"):
            estimates, covariance, rank = kernels.regression.least_squares(x, y, weights)
        freedom = float(len(x) - rank)
    else:
        fit = kernels.regression.logistic_regression(x, y, weights)
        if np.abs(y - fit.fitted).max() < 1e-4:
            raise NotApplicable(
                f"the terms of '{shown(formula)}' tell its response completely, so that its coefficients have no end. Choose "
                "another formula, or model='linear'."
            )
        estimates, covariance, freedom = fit.coefficients, fit.covariance, math.inf
    errors = np.sqrt(np.diag(covariance).clip(min=0))
    if not np.isfinite(errors).all() or freedom <= 0:
        raise DataError(f"columns of '{shown(formula)}' hold values too large to square. Give them another unit.")
    return estimates, errors, freedom


class OfCoefficients(DirectMeasure, abstract=True):
    """A measure of the coefficients of one formula, on the original and on the release."""

    side: ClassVar[Side] = Side.UTILITY

    formula: str = param(doc="R-style formula, or a column's name for its mean")
    model: Model = param(default="linear", doc="least squares, or a logistic regression of a response with two values")
    weighted: bool = weighted_flag()
    reference: Any = learned("formula", "model", "weighted", default=None)

    @override
    def validate(self) -> None:
        if not isinstance(self.formula, str):
            raise ParameterError(f"formula of {self.name} must be a text such as 'salary ~ age', or a column's name.")
        parse(self.whole)

    @property
    def whole(self) -> str:
        """The formula; of a column alone, that of its mean."""
        return self.formula if "~" in self.formula else f"`{self.formula}` ~ 1"

    @override
    @property
    def variant(self) -> str:
        return self.model + (", weighted" if self.weighted else "")

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        weight = schema.one("weight") if self.weighted else None
        return (*named_in(self.whole), *(() if weight is None else (weight,)))

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Fit the formula to the original; where records are drawn anew, every replication has an original of its own."""
        found = analysed(data, self.whole, self.model, self.weighted)
        return self.learn(reference=found if model is None else None)

    def fits(self, outcome: Release) -> tuple[Coefficients, list[Coefficients]]:
        """Return the fit to the original, and in its terms those to the implicates."""
        before: Coefficients = self.reference or analysed(outcome.original, self.whole, self.model, self.weighted)
        return before, [
            analysed_again(data, outcome.original, before, self.whole, self.model, self.weighted)
            for data in outcome.implicates
        ]

    def titles(self, found: Coefficients) -> tuple[str, ...]:
        """Return what the coefficients are called; that of a column alone is its mean."""
        return found.titles if "~" in self.formula else (f"mean {self.formula}",)


APART = 3.92
"""Standard errors by which two 95 % intervals of the same length no longer meet: 2 · 1.96."""


class CoefficientDifference(OfCoefficients):
    """U = 1 - the mean over the coefficients of |β_y - β_o| / se(β_o): how many standard errors the release moves them.

    β_o and its standard error come from the original, β_y from the release; of several implicates the mean is taken. 1 is a
    file that was not changed, 0 one whose coefficients are a standard error off on average; there is no lower end.

    A coefficient that the release does not determine (a category is gone, a column is all alike) counts as if the release
    said zero, and as at least 3.92 standard errors off, where two 95 % intervals no longer meet. Terms that the original does
    not determine are left out. With survey weights the standard errors are the linearised ones.
    Source: Nowok, Raab and Dibben 2016.
    """

    title: ClassVar[str] = "coefficients of {self.formula}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"coefficients are {digits(1 - value)} standard errors off on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare every coefficient."""
        before, found = self.fits(outcome)
        titles = self.titles(before)
        after = np.mean([one.estimates for one in found], axis=0)
        off = np.abs(after - before.estimates) / before.errors
        gone = np.isnan(off)
        off[gone] = np.maximum(np.abs(before.estimates[gone]) / before.errors[gone], APART)
        value, worst = 1.0 - math.fsum(off) / len(off), int(off.argmax())
        words = f"{self.words(value, outcome.original.schema)}; the most, {digits(off[worst])}, is {titles[worst]}"
        details = {f"standard errors off: {name}": float(v) for name, v in zip(titles, off, strict=True)}
        return self.result(value, words, details=details)


Interval = tuple[float, float]


class IntervalOverlap(OfCoefficients):
    """U = the mean over the coefficients of ½[I/(Uo - Lo) + I/(Uy - Ly)], where I is the length that two intervals share.

    (Lo, Uo) is the confidence interval of a coefficient from the original, (Ly, Uy) from the release, and
    I = min(Uo, Uy) - max(Lo, Ly). Where the intervals do not meet, I is negative and so is the overlap: it falls as the gap
    grows. 1 is a file that was not changed; the loss is 1 - overlap.

    A coefficient that the release does not determine (a category is gone, a column is all alike) counts as if the release
    said zero with the original's standard error, and never above 0. Terms that the original does not determine are left out.
    With survey weights the standard errors are the linearised ones. Several implicates are combined first (see `combine`).
    Source: Karr et al. 2006.
    """

    title: ClassVar[str] = "interval overlap of {self.formula}"

    level: float = param(default=0.95, doc="level of the confidence intervals", low=0.01, high=0.9999)
    rules: Rules = param(
        default="recipe",
        doc="how several implicates are combined: as the recipe says, or by the rules of partial or of full synthesis",
    )

    @override
    @property
    def variant(self) -> str:
        return f"{super().variant}, {100 * self.level:g} % intervals"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"{100 * self.level:g} % intervals overlap by {digits(100 * value)} % on average"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the intervals of every coefficient."""
        before, found = self.fits(outcome)
        titles = self.titles(before)
        each: dict[str, float] = {}
        for i, after in enumerate(combined(found, self.rules, outcome, before)):
            mine = before.interval(i, self.level)
            each[titles[i]] = _lost(mine) if after is None else overlap(mine, after.interval(self.level))
        value, worst = math.fsum(each.values()) / len(each), min(each, key=each.__getitem__)
        apart = count_of(sum(v < 0 for v in each.values()), len(each), ("does", "do"), "pair")
        words = (
            f"{self.words(value, outcome.original.schema)}; {apart} not meet; "
            f"the least is that of {worst}, {digits(100 * each[worst])} %"
        )
        return self.result(value, words, details={f"overlap of {name}": v for name, v in each.items()})


def overlap(one: Interval, other: Interval) -> float:
    """Return ½[I/length + I/length] of two intervals: 1 where they are the same, negative where they do not meet.

    An interval without length counts 1 for its own part if it is in the other one, else its gap by the other's length.

    >>> overlap((0.0, 2.0), (1.0, 3.0)), overlap((0.0, 1.0), (2.0, 3.0))
    (0.5, -1.0)
    """
    shared = min(one[1], other[1]) - max(one[0], other[0])
    first, second = one[1] - one[0], other[1] - other[0]
    return (_share(shared, first, second) + _share(shared, second, first)) / 2


def _share(shared: float, length: float, other: float) -> float:
    if length > 0 or shared < 0:
        return shared / (length or other)
    return 1.0


def _lost(mine: Interval) -> float:
    """Return the overlap with an interval of the same length about zero, and 0 where that would be more."""
    half = (mine[1] - mine[0]) / 2
    return min(overlap(mine, (-half, half)), 0.0)
