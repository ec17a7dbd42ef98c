"""What all models share: from a formula to a layout, counts of levels, notes, and coefficients as published."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.accounts import Sets
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.design import Bounds, Category, Design, DesignColumn, Number, Terms, bounds_of
from sfumato.mas.models.influence import ERRORS, default_covariance_type
from sfumato.mas.models.layout import (
    Complete,
    Layout,
    LevelOutcome,
    ModelMoments,
    few_of_an_outcome,
    moments_of,
    near_constant,
    non_missing_levels,
    restricted_to,
    unscaled,
)
from sfumato.mas.models.noise import blurred, key_of, standard_moments
from sfumato.mas.perturbation import Models, significant
from sfumato.mas.question import Analysis, Question
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Flags, Numbers
from sfumato.utility.estimators import TooManyTerms

# --- published
# Coefficients as they are published: rounded, with statistics computed from the rounded numbers.

_NOTHING = 1e-9
"""Of its standard error: a smaller coefficient is 0."""


def coefficient_rows(
    titles: Sequence[str], beta: Numbers, variance: Numbers, settings: Models, df: float | None = None
) -> list[dict[str, Any]]:
    """Return one row for each coefficient; t with degrees of freedom, z without."""
    from scipy.stats import norm, t

    errors = significant(np.sqrt(np.maximum(variance, 0)), settings.error_digits)
    if settings.sd:  # what is 0 but for the last bits is 0 on every engine
        beta = np.where(np.abs(beta) < _NOTHING * errors, 0.0, beta)
    values = significant(beta, settings.digits)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = values / errors
    p = 2 * (norm.sf(np.abs(statistic)) if df is None else t.sf(np.abs(statistic), df))
    name = "z" if df is None else "t"
    return [
        {"term": title, "coefficient": float(b), "standard error": float(e), name: float(s), "p": float(q)}
        for title, b, e, s, q in zip(
            titles,
            values,
            errors,
            significant(statistic, settings.digits),
            significant(p, settings.digits),
            strict=True,
        )
    ]


def rounded(facts: Mapping[str, float], digits: int) -> dict[str, float | None]:
    """Return single numbers rounded to significant digits; None for what is not a number."""
    values = significant(np.array(list(facts.values()), np.float64), digits)
    return {name: float(v) if np.isfinite(v) else None for name, v in zip(facts, values, strict=True)}


# --- model
# What all models share: from a formula to a layout, counts of levels, the number of complete records, and notes.


COLLINEAR = Refusal(
    "collinearity",
    "Some terms of the model are a combination of others, or do not vary, so their coefficients cannot be told apart.",
    "Leave a term out, or choose another universe.",
)
EMPTY = Refusal(
    "complete_records", "Too few records have a value in every variable of the model.",
    "Leave out a variable, or choose a larger universe.",
)  # fmt: skip


def collinear(question: Question, correlation: float) -> Refusal:
    """Return the refusal of columns that depend on each other, the largest correlation of two of which is given.

    That of two columns that are the same is that of two that nearly are: whether not even one record differs is not told.
    """
    question.results["correlation"] = correlation
    refusal = question.refused("result")
    return COLLINEAR if refusal is None else refusal


class FormulaAnalysis(Analysis, abstract=True):
    """What is asked by a formula, over the records of a universe that have all its variables."""

    formula: str = param(doc="R-style formula, such as log(income) ~ age + C(race)")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")

    @override
    def validate(self) -> None:
        if not isinstance(self.formula, str):
            raise ParameterError(f"the formula of {self.name} is a text, such as log(income) ~ age + C(race).")
        with contextlib.suppress(TooManyTerms):  # refused where it is asked, so that it is logged
            Terms.of(self.formula)

    def terms(self, known: Mapping[str, Variable]) -> Terms:
        """Return the formula in canonical form."""
        return Terms.of(self.formula, known)

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables of the formula."""
        return self.terms(known).variables(known)


class ModelAnalysis(FormulaAnalysis, abstract=True):
    """A model by a formula."""

    errors: str = param(
        default="usual", choices=ERRORS,
        doc="standard errors: classical, robust (hc0, hc1), of the survey's design, or the usual ones for the weights",
    )  # fmt: skip

    @override
    def wording(self) -> str:
        return f"{self.name}:{Terms.of(self.formula).wording()}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        errors = default_covariance_type(self.errors, self.weighted, dataset)
        return f"{self.name}:{self.terms(dataset.variables).wording()}:{self.weighted}:{errors}"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model that is ready to be fitted."""

    question: Question
    layout: Layout
    bounds: tuple[Bounds, ...]
    """Of the numbers, with a numerical outcome last."""
    moments: ModelMoments
    complete: Complete
    standard: tuple[Numbers, Numbers]
    """Means and standard deviations of the numbers that standardise() takes."""
    counted: Sets
    """Complete records as rules and answers see them: scaled back, with noise."""
    errors: str
    notes: tuple[str, ...]

    @property
    def n(self) -> float:
        """Their number."""
        return float(self.counted.sizes)

    @property
    def shown_n(self) -> float:
        """The number of records that is published; NaN if it is too small."""
        return float(self.question.policy.counts.shown(np.array([self.n]))[0])

    @property
    def stated_n(self) -> float:
        """The number of records that degrees of freedom are counted from."""
        return self.n if np.isnan(self.shown_n) else self.shown_n

    @property
    def back(self) -> float:
        """What sums over complete kept records are multiplied with, so that they do not reveal the drop."""
        return self.stated_n / self.moments.n

    def blurred(self, variances: Numbers, largest: Numbers) -> Numbers:
        """Return robust variances of the coefficients with keyed noise; `largest` is what one record can add to each."""
        question = self.question
        keys = [key_of(question, "variance", question.wording, self.errors, str(j)) for j in range(len(variances))]
        return blurred(question, self.errors, variances, largest, keys)

    def sets(self, layout: Layout, squares: Numbers, equations: int = 1) -> tuple[Sets, ...]:
        """Return what the accounts are charged for: each coefficient by the records that it tells of.

        `squares` are the sums of squares of the columns that a layout reads, shape (columns,).
        """
        question = self.question
        key = key_of(question, "answer", question.wording)
        told = self._told(layout, squares)
        about = tuple(min(self._about(layout.design, c), n) for c, n in zip(layout.design.columns, told, strict=True))
        return Sets(question.selection.plain, (), (key,), np.array(self.n), 1, about * equations), self.counted

    def _told(self, layout: Layout, squares: Numbers) -> Numbers:
        """Return of how many records each column tells by its numbers, where these are known.

        Of a number that is spread evenly over its range the mean square is a third of the largest one: it tells of all. Of a
        steep function it is far less: few records decide, and pay as few.
        """
        known = {v.numbers for v in self.question.dataset.variables.values() if v.known}
        reach = np.abs(np.array([(b.low, b.high) for b in self.bounds]).T - layout.centre) / layout.scale
        ends = reach.max(axis=0) if reach.size else reach
        found = np.full(len(squares), np.inf)
        for i, column in enumerate(layout.design.columns):
            largest = math.prod(float(ends[j]) for j in column.numbers) ** 2
            if column.numbers and largest > 0 and all(layout.design.numbers[j].column in known for j in column.numbers):
                found[i] = 3 * float(squares[i]) / largest * self.n / self.moments.weight
        return found

    def _about(self, design: Design, column: DesignColumn) -> float:
        """Return of how many records a coefficient tells; an intercept of those with the reference levels."""
        known = self.question.dataset.variables
        if not column.cells and not column.numbers:
            levels = [{known[c.name]: (c.reference,)} for c in design.categories]
        else:
            levels = [{known[design.categories[c].name]: (level,) for c, level in column.cells}] if column.cells else []
        return min((self.question.count(restricted_to(self.question, cells)) for cells in levels), default=self.n)


@dataclass(frozen=True)
class Levels:
    """The levels of a variable in a universe, by counts as rules may see them."""

    allowed: tuple[int, ...]
    """Levels that the universe does not exclude; never "missing"."""
    counts: Mapping[int, float]

    @classmethod
    def of(cls, question: Question, variable: Variable) -> Levels:
        """Count the levels of a variable."""
        plain = question.selection.plain
        allowed: Flags = np.ones(len(variable.levels), bool)
        base = variable.base or variable
        if base in plain.variables:
            others = tuple(i for i, v in enumerate(plain.variables) if v != base)
            allowed = np.asarray(plain.chosen.any(axis=others), bool)
            if variable.base is not None:
                allowed = np.isin(np.arange(len(variable.levels)), np.array(variable.groups)[allowed])
        kept = tuple(int(i) for i in np.flatnonzero(allowed) if variable.levels[i] != MISSING)
        return cls(kept, {i: question.count(restricted_to(question, {variable: (i,)})) for i in kept})


def least_cell(question: Question, confidential: bool = False) -> float:
    """Return how many records a level needs for a coefficient of its own; more, perhaps, where it tells of confidential things.

    Standard errors tell how many records a level has, and how numbers vary there.
    """
    rule = question.policy.rule("dummy_size")
    return float(max(getattr(rule, "least", 1), (confidential and getattr(rule, "confidential", None)) or 1))


def design_of(question: Question, terms: Terms) -> tuple[Design, list[str]] | Refusal:
    """Lay out the columns, with small levels absorbed into the reference; and say so."""
    known = question.dataset.variables
    top_coded = question.policy.amounts.top_coded
    notes, small, categories = [], [], {}
    for name in dict.fromkeys(n for term in terms.terms for f, n in term if f == "C"):
        levels = Levels.of(question, known[name])
        least = least_cell(question, not known[name].known)
        shown = [i for i in levels.allowed if levels.counts[i] >= least]
        if not shown:
            return EMPTY
        reference = max(shown, key=lambda i: (levels.counts[i], -i))
        categories[name] = Category.of(known[name], shown, reference)
        small += [categories[name].title(i) for i in levels.allowed if i not in shown]
        notes.append(f"The reference level of {name} is {known[name].levels[reference]}, the most frequent one.")
    factors = dict.fromkeys(f for term in terms.terms for f in term if f[0] != "C")
    numbers = {(function, name): Number.of(known[name], function, top_coded) for function, name in factors}
    design = Design.of(terms.terms, terms.intercept, numbers, categories)
    groups = list(categories)
    hidden = {x.column for (_, name), x in numbers.items() if not known[name].known}
    few = []
    for place, column in enumerate(design.columns):
        told = any(design.numbers[i].column in hidden for i in column.numbers)
        told |= any(not known[groups[c]].known for c, _ in column.cells)
        if len(column.cells) < 2 and not (column.cells and told):
            continue
        if question.count(restricted_to(question, {known[groups[c]]: (i,) for c, i in column.cells})) < least_cell(
            question, told
        ):
            few.append(place)
            small.append(column.title if told else ":".join(design.categories[c].title(i) for c, i in column.cells))
    design = design.only([i for i in range(len(design.columns)) if i not in few])
    small = list(dict.fromkeys(small))
    if small:
        notes.append(f"Too few records, so part of the reference: {', '.join(small)}.")
    question.results["small levels"] = small
    return design, notes


def prepared(
    question: Question, analysis: ModelAnalysis, outcome: Number | LevelOutcome, notes: list[str]
) -> Prepared | Refusal:
    """Lay out the model, make the first pass, and let the rules look at the number of records."""
    terms = analysis.terms(question.dataset.variables)
    if analysis.weighted and question.dataset.weight is None:
        raise ParameterError("this data set has no survey weights. Ask for the model without weights.")
    laid = design_of(question, terms)
    if isinstance(laid, Refusal):
        return laid
    design, more = laid
    if (refusal := question.refused("result")) is not None:
        return refusal
    numbers = [*design.numbers, *([outcome] if isinstance(outcome, Number) else [])]
    binary = [outcome.binary] if isinstance(outcome, LevelOutcome) and outcome.binary is not None else []
    found = bounds_of(question.dataset.warehouse, [*numbers, *binary])
    if binary and not found[-1].binary:
        raise DataError(
            "the outcome of a logistic model has two levels, or is 0 or 1. Choose another outcome, or another model."
        )
    if not all(np.isfinite(b.low) for b in found):
        return EMPTY
    bounds = tuple(found[: len(numbers)])
    middles = np.array([b.middle for b in bounds])
    moments, layout = moments_of(question, unscaled(design, outcome, analysis.weighted, middles))
    gaps = any(b.gaps for b in found) or any(c.missing >= 0 for c in design.categories)
    gaps |= isinstance(outcome, LevelOutcome) and -1 in outcome.place
    complete = _complete(question, terms, design, outcome, list(zip([*numbers, *binary], found, strict=True)))
    counted = complete.count(moments.n, moments.kept)
    question.results.update(n=float(counted.sizes), coefficients=len(design.columns) * _equations(outcome))
    if question.policy.counts.sd:
        least = least_cell(question)
        question.results["flat numbers"] = near_constant(complete, design, bounds, moments, least)
        if binary:
            question.results["small outcomes"] = few_of_an_outcome(complete, moments, least)
    if (refusal := question.refused("result")) is not None:
        return refusal
    if moments.n <= len(design.columns):
        return EMPTY
    constant = moments.spreads[: len(design.numbers)] == 0
    standard = standard_moments(complete, layout, bounds, moments)
    taken = np.array([number.standardised for number in numbers], bool)
    if (design.intercept and constant.any()) or not (standard[1][taken] > 0).all():
        return COLLINEAR
    layout = replace(layout, centre=np.where(taken, standard[0], layout.centre))
    kind = default_covariance_type(analysis.errors, analysis.weighted, question.dataset)
    said = [*notes, *more, *notes_of(question, kind, gaps, analysis.weighted)]
    return Prepared(question, layout, bounds, moments, complete, standard, counted, kind, tuple(said))


def _complete(
    question: Question,
    terms: Terms,
    design: Design,
    outcome: Number | LevelOutcome,
    numbers: list[tuple[Number, Bounds]],
) -> Complete:
    """Return the set of complete records of a model."""
    known = question.dataset.variables
    levels = {known[c.name]: non_missing_levels(known[c.name]) for c in design.categories if c.missing >= 0}
    if isinstance(outcome, LevelOutcome) and -1 in outcome.place:
        levels[known[terms.outcome[1]]] = tuple(i for i, place in enumerate(outcome.place) if place >= 0)
    return Complete.of(question, numbers, levels)


def _equations(outcome: Number | LevelOutcome) -> int:
    return len(outcome.titles) - 1 if isinstance(outcome, LevelOutcome) else 1


def notes_of(question: Question, errors: str, gaps: bool, weighted: bool) -> list[str]:
    """Return what an answer says of missing values, standard errors and protection."""
    policy = question.policy
    words = {
        "classical": "classical", "hc0": "robust (HC0)", "hc1": "robust (HC1)",
        "design": "linearised, for strata and households drawn with replacement; a stratum with one household is taken about 0",
    }  # fmt: skip
    notes = ["Records with a missing or undefined value of any variable of the model are left out."] if gaps else []
    notes.append(f"Standard errors are {words[errors]}.")
    if weighted:
        notes.append("Records count by their survey weights.")
    if policy.amounts.top_coded:
        notes.append("The largest half percent of the values of each number are replaced by their mean.")
    if policy.models.sd:
        notes.append("Coefficients have random noise, which standard errors and tests allow for.")
    return notes
