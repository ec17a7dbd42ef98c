"""What all models share: from a formula to columns, counts of levels, notes, and coefficients as published."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.design import Category, Design, DesignColumn, FormulaAnalysis, Number, Terms, expanded
from sfumato.mas.models.products import ONE, Factors, Monomial, Products
from sfumato.mas.perturbation import Models, significant
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import ProtectedSums, SumsRequest, TableSums
from sfumato.mas.universe import split
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Flags, Numbers

ERRORS = ("usual", "classical", "hc0", "hc1", "design")
ERRORS_DOC = "standard errors: classical, robust (hc0, hc1), by the survey's design, or the usual ones for the data set"
_WORDS = {
    "classical": "classical", "hc0": "robust (HC0)", "hc1": "robust (HC1)",
    "design": "by the survey's design: they allow for households, by correlations that were read off when the data set was frozen",
}  # fmt: skip

COLLINEAR = Refusal(
    "collinearity",
    "Some terms of the model are a combination of others, or do not vary, so their coefficients cannot be told apart.",
    "Leave a term out, or choose another universe.",
)
EMPTY = Refusal(
    "complete_records", "Too few records have a value in every variable of the model.",
    "Leave out a variable, or choose a larger universe.",
)  # fmt: skip
DEPENDENT = 1e-12
"""Below this smallest eigenvalue, columns scaled to unit length are taken for dependent."""


class ModelAnalysis(FormulaAnalysis, abstract=True):
    """A model by a formula."""

    kind = "model"
    errors: str = param(
        default="usual",
        choices=ERRORS,
        doc=ERRORS_DOC,
    )

    @override
    def wording(self) -> str:
        return f"{self.name}:{Terms.of(self.formula).wording()}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, codebook: Codebook) -> str:
        return f"{self.name}:{self.terms(codebook.variables).wording()}:{self.weighted}:{self.covariance(codebook)}"

    def covariance(self, codebook: Codebook) -> str:
        """Return the kind of errors that is meant."""
        return kind_of_errors(self.errors, codebook, self.weighted)

    def check_weights(self, question: Question) -> None:
        """Refuse weights where there are none."""
        if self.weighted and not question.codebook.weighted:
            raise ParameterError("this data set has no survey weights. Ask for the model without weights.")


def kind_of_errors(errors: str, codebook: Codebook, weighted: bool) -> str:
    """Return the kind of errors that is meant: by the design with households, else robust with weights, else classical."""
    if errors == "design" and not codebook.clustered:
        raise ParameterError(
            "this data set has no households, so that errors by the design are the usual ones. Leave out errors."
        )
    if errors != "usual":
        return errors
    return "design" if codebook.clustered else "hc1" if weighted else "classical"


# --- columns


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """The columns of a model, laid out: levels with too few records are part of the reference."""

    design: Design
    factors: Factors
    monomials: tuple[Monomial, ...]
    """Of the columns of the design."""
    outcome: Number | None
    """A numerical outcome; it is the last of the factors' numbers."""
    levels: Mapping[str, float]
    """Noisy numbers of records behind indicators, by title."""
    notes: tuple[str, ...]

    @property
    def y(self) -> Monomial:
        """The numerical outcome as a column."""
        return (len(self.factors.numbers) - 1,), ()

    def to_formula(self) -> Numbers:
        """Return the matrix that takes coefficients of the columns as read to those of the formula, without the outcome's scale."""
        gain, shift = self.factors.formula_scale
        at = {column.key: i for i, column in enumerate(self.design.columns)}
        made = np.zeros((len(at), len(at)))
        for j, column in enumerate(self.design.columns):
            for key, weight in expanded(column, gain, shift).items():
                if weight:
                    made[at[key], j] = weight
        return np.asarray(np.linalg.inv(made), np.float64)


Laying = Generator[SumsRequest, ProtectedSums, ModelColumns | Refusal]


def model_columns(
    question: Question, register: Register, terms: Terms, outcome: Number | Category | None, weighted: bool = False
) -> Laying:
    """Lay out the columns of a model; counts of confidential levels are asked for first."""
    known = question.codebook.variables
    clip = clips(question)
    groups = list(dict.fromkeys(n for term in terms.terms for f, n in term if f == "C"))
    sets = _category_sets(terms)
    counts = yield from counted(question, register, sets)
    notes: list[str] = []
    categories: dict[str, Category] = {}
    levels: dict[str, float] = {}
    small: list[str] = []
    for name in groups:
        allowed, sizes = allowed_levels(question, known[name]), counts[name,]
        least = least_cell(question, not known[name].known)
        shown = [i for i in allowed if sizes[i] >= least]
        if not shown:
            return EMPTY
        reference = max(shown, key=lambda i: (sizes[i], -i))
        category = categories[name] = Category.of(known[name], shown, reference)
        small += [category.title(i) for i in allowed if i not in shown]
        levels |= {category.title(i): float(sizes[i]) for i in shown}
        notes.append(f"The reference level of {name} is {known[name].levels[reference]}, the most frequent one.")
    made = list(dict.fromkeys(f for term in terms.terms for f in term if f[0] != "C"))
    numbers = {(function, name): Number.of(known[name], function, clip) for function, name in made}
    design = Design.of(terms.terms, terms.intercept, numbers, categories)
    few = [i for i, column in enumerate(design.columns) if _too_few(question, column, design, counts)]
    small += [":".join(design.categories[c].title(i) for c, i in design.columns[place].cells) for place in few]
    design = design.only([i for i in range(len(design.columns)) if i not in few])
    if small := list(dict.fromkeys(small)):
        notes.append(f"Too few records, so part of the reference: {', '.join(small)}.")
        levels |= dict.fromkeys(small, 0.0)
    same = [(tuple(sorted(design.numbers[i].name for i in c.numbers)), c.cells) for c in design.columns]
    if len(set(same)) < len(same):  # the same number, standardised and not
        return COLLINEAR
    every = (*design.numbers, *([outcome] if isinstance(outcome, Number) else []))
    cats = (*design.categories, *([outcome] if isinstance(outcome, Category) else []))
    moved = (*design.centred().tolist(), *([design.intercept] if isinstance(outcome, Number) else []))
    factors = Factors(every, cats, known, tuple(bool(m) for m in moved))
    monomials = tuple((column.numbers, column.cells) for column in design.columns)
    columns = ModelColumns(
        design, factors, monomials, outcome if isinstance(outcome, Number) else None, levels, tuple(notes)
    )
    return (yield from _measured(question, register, columns, weighted))


def clips(question: Question) -> bool:
    """Whether numbers are clipped to their public bounds: noise is made for what is between them."""
    return question.policy.amounts.clip or question.policy.models.sd > 0


def _measured(question: Question, register: Register, columns: ModelColumns, weighted: bool) -> Laying:
    """Ask for means and spreads: of what is standardised, and without noise of all numbers, so that no digits are lost."""
    factors, exact = columns.factors, not question.policy.models.sd
    settled = (
        len(factors.numbers) - 1 if columns.outcome is not None and factors.centred[-1] else -1
    )  # by the model's own sums
    own = [i for i, x in enumerate(factors.numbers) if x.standardised and i != settled]
    wanted = list(range(len(factors.numbers))) if exact else own
    if not wanted:
        return columns
    found: dict[int, tuple[float, float, float]] = {}
    for last_pass in (False, True) if exact and own else (not exact,):
        read = replace(factors, centred=(True,) * len(factors.numbers), moments=found, exact=exact)
        pairs = ((0, 0), *((0, j + 1) for j in range(len(wanted))), *((j + 1, j + 1) for j in range(len(wanted))))
        products = Products(question, register, read, (ONE, *(((i,), ()) for i in wanted)), pairs, int(weighted))
        part = products.request()
        sums = (yield SumsRequest({"moments": part})) if part is not None else None
        values, variances = products.matrices(sums.totals("moments") if sums is not None else None)
        if not values[0, 0] > np.sqrt(variances[0, 0]):
            return EMPTY
        means = values[0, 1:] / values[0, 0]
        squares = np.diag(values)[1:] / values[0, 0] - means**2
        least = np.sqrt(np.diag(variances)[1:]) / values[0, 0]
        if any(factors.numbers[i].standardised and not squares[j] > least[j] for j, i in enumerate(wanted)):
            return COLLINEAR
        spread = np.sqrt(np.maximum(squares, 0.0))
        at = [
            (float(read.centre[i]), float(means[j] * read.scale[i]), float(spread[j] * read.scale[i]))
            for j, i in enumerate(wanted)
        ]
        found = {
            i: (mean, rest, sd) if last_pass else (mean + rest, 0.0, sd)
            for i, (mean, rest, sd) in zip(wanted, at, strict=True)
        }
    return replace(columns, factors=replace(factors, moments=found, exact=exact))


def _category_sets(terms: Terms) -> list[tuple[str, ...]]:
    """Return the categories of a formula, alone and as they are multiplied."""
    found: dict[tuple[str, ...], None] = {}
    for term in terms.terms:
        names = [n for f, n in term if f == "C"]
        for size in range(1, len(names) + 1):
            found |= dict.fromkeys(itertools.combinations(names, size))
    return list(found)


Counts = Mapping[tuple[str, ...], Numbers]


def counted(
    question: Question, register: Register, sets: Iterable[tuple[str, ...]]
) -> Generator[SumsRequest, ProtectedSums, Counts]:
    """Return noisy counts of the universe's records by the levels of some sets of variables."""
    known = question.codebook.variables
    universe_known = not split(question.selection.plain.variables)[1]
    found: dict[tuple[str, ...], Numbers] = {}
    asked: dict[str, TableSums] = {}
    for names in sets:
        sides = tuple(known[name] for name in names)
        if universe_known and all(v.known for v in sides):
            found[names] = register.noisy(*register.cells(sides, known_part(question.selection)))
        else:
            asked["\x1f".join(names)] = TableSums(sides)
    if asked:
        sums = yield SumsRequest(asked)
        found |= {tuple(name.split("\x1f")): sums.cells(name).n for name in asked}
    return found


def _too_few(question: Question, column: DesignColumn, design: Design, counts: Counts) -> bool:
    """Return whether a product of indicators stands for too few records."""
    if not column.cells:
        return False
    known = question.codebook.variables
    names = [design.categories[c].name for c, _ in column.cells]
    at = next(key for key in counts if set(key) == set(names) and len(key) == len(names))
    place = tuple(column.cells[names.index(name)][1] for name in at)
    hidden = not all(known[name].known for name in names) or any(
        not design.numbers[i].variable.known for i in column.numbers
    )
    return bool(counts[at][place] < least_cell(question, hidden))


def allowed_levels(question: Question, variable: Variable) -> list[int]:
    """Return the levels of a variable that the universe does not exclude; never "missing"."""
    plain = question.selection.plain
    allowed: Flags = np.ones(len(variable.levels), bool)
    base = variable.base or variable
    if base in plain.variables:
        others = tuple(i for i, v in enumerate(plain.variables) if v != base)
        allowed = np.asarray(plain.chosen.any(axis=others), bool)
        if variable.base is not None:
            allowed = np.isin(np.arange(len(variable.levels)), np.array(variable.groups)[allowed])
    return [int(i) for i in np.flatnonzero(allowed) if variable.levels[i] != MISSING]


def least_cell(question: Question, confidential: bool = False) -> float:
    """Return how many records a level needs for a coefficient of its own; more, perhaps, where it tells of confidential things."""
    rule = question.policy.rule("dummy_size")
    least = float(max(getattr(rule, "least", 1), (confidential and getattr(rule, "confidential", None)) or 1))
    return least if question.policy.counts.sd else max(least, 0.5)


# --- published


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
    shown = (significant(v, settings.digits) for v in (statistic, p))
    return [
        {"term": title, "coefficient": float(b), "standard error": float(e), name: float(s), "p": float(q)}
        for title, b, e, s, q in zip(titles, values, errors, *shown, strict=True)
    ]


def rounded(facts: Mapping[str, float], digits: int) -> dict[str, float | None]:
    """Return single numbers rounded to significant digits; None for what is not a number."""
    values = significant(np.array(list(facts.values()), np.float64), digits)
    return {name: float(v) if np.isfinite(v) else None for name, v in zip(facts, values, strict=True)}


def model_notes(question: Question, errors: str, gaps: bool, weighted: bool) -> list[str]:
    """Return what an answer says of missing values, standard errors and protection."""
    notes = ["Records with a missing or undefined value of any variable of the model are left out."] if gaps else []
    notes.append(f"Standard errors are {_WORDS[errors]}.")
    if weighted:
        notes.append("Records count by their survey weights.")
    if clips(question):
        notes.append("Numbers are clipped to the public bounds of their variables.")
    if question.policy.models.sd:
        notes.append("Coefficients have random noise, which standard errors and tests allow for.")
    return notes


def conditioned(matrix: Numbers) -> tuple[float, float]:
    """Return the smallest eigenvalue of a matrix of products with columns scaled to unit length, and the largest correlation."""
    length = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (length > 0).all():
        return 0.0, 1.0
    scaled = matrix / np.outer(length, length)
    return float(np.linalg.eigvalsh(scaled)[0]), float(np.abs(scaled - np.diag(np.diag(scaled))).max(initial=0.0))


def largest_correlation(matrix: Numbers, intercept: bool) -> float:
    """Return the largest size of a correlation between two columns, about their means where there is an intercept."""
    if intercept and len(matrix) > 1 and matrix[0, 0] > 0:
        matrix = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / matrix[0, 0]
    return conditioned(matrix)[1] if len(matrix) > 1 and (np.diag(matrix) > 0).all() else 0.0
