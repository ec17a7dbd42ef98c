"""Least squares from a formula such as ``salary ~ age + C(region)``: parsed by formulaic, computed here, never evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, param
from sfumato.engines import Kind
from sfumato.errors import DataError, ParameterError, brief, listing, unknown_name
from sfumato.microdata import Batch, Microdata
from sfumato.utility.estimators import WEIGHTED, Estimator, check_flag, survey_weights

Numbers = NDArray[np.float64]
Term = tuple[tuple[str, str], ...]
Levels = Mapping[str, Sequence[Any]]
TRANSFORMS = {
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "square": np.square, "exp": np.exp,
}  # fmt: skip

_QUOTED = re.compile(r"(\w+)\(\s*`([^`]+)`\s*\)")


_BACKTICKS = "A name that is no plain word stands in backticks, as in `2nd job`."


_PRODUCTS = 10_000
"""Most products of terms that any part of a formula is expanded to, before those that are equal are taken together."""
_SUMMED = 2_000_000
"""Most terms that the sums of a formula put together, counted at every plus."""
_SIGNS = 20_000
"""Most signs of a formula."""


class TooManyTerms(ParameterError):  # noqa: N818 - an answer as much as an error
    """A formula that would take too long to expand."""


def expand(formula: str) -> Any:
    """Return a formula with its products and powers written out, as formulaic has it; refuse one that is too large at once.

    The terms are counted before they are made: (a + b + c + d + e + f + g + h)**8 is 17 million products, and 255 terms.
    """
    from formulaic import Formula as Parsed
    from formulaic.parser import DefaultFormulaParser

    if len(formula) > _SIGNS:
        raise ParameterError(f"a formula has at most {_SIGNS:,} signs. Leave some terms out.")
    largest, summed = _work(DefaultFormulaParser().get_ast(formula))
    if largest > _PRODUCTS or summed > _SUMMED:
        raise TooManyTerms(
            f"the formula '{brief(formula, 200)}' has too many terms: write out those that matter, or use a lower power."
        )
    return Parsed(formula)


def _work(tree: Any) -> tuple[float, float]:
    """Return the most products that a node of a formula's tree makes, and the terms that all nodes make together."""
    counts: dict[int, float] = {}
    waiting = [tree]
    while waiting:  # no recursion: a sum of a thousand terms is a tree a thousand nodes deep
        node = waiting[-1]
        later = [part for part in getattr(node, "args", ()) if id(part) not in counts]
        if later:
            waiting += later
            continue
        counts[id(waiting.pop())] = _products(node, counts)
    return max(counts.values()), sum(counts.values())


def _products(node: Any, counts: Mapping[int, float]) -> float:
    """Return how many products a node makes of those of its parts."""
    if not hasattr(node, "args"):
        return 1.0
    parts = [counts[id(part)] for part in node.args]
    match node.operator.symbol:
        case ":":
            return float(np.prod(parts))
        case "*":
            return float(sum(parts) + np.prod(parts))
        case "**" | "^":
            try:
                power = int(str(node.args[1]))
            except ValueError:  # (a + b)**2**3, or no number, which formulaic refuses
                return float("inf") if hasattr(node.args[1], "args") else parts[0]
            small = power * np.log(max(parts[0], 1.0)) < np.log(2.0 * _PRODUCTS)
            return max(parts[0] ** power, float(power)) if small else float("inf")
        case _:
            return float(sum(parts))


@lru_cache(maxsize=256)
def parse(
    formula: str, functions: tuple[str, ...] = tuple(TRANSFORMS)
) -> tuple[tuple[str, str], tuple[tuple[tuple[str, str], ...], ...], bool]:
    """Return (response factor, terms, whether there is an intercept); a factor is (function or "", column).

    `functions` are the functions of a column that are allowed, besides C.
    """
    from formulaic.errors import FormulaicError

    try:
        parsed = expand(formula)
        left, right = list(parsed.lhs), list(parsed.rhs)
    except (FormulaicError, AttributeError, SyntaxError, TypeError, ValueError):
        left = right = []
    if (
        not left
        or not right
        or not formula.split("~")[-1].strip()
        or any(not hasattr(t, "factors") for t in (*left, *right))
    ):  # y ~ a | b has parts, not terms
        raise ParameterError(
            f"'{brief(formula, 200)}' is not a formula. Write it like 'salary ~ age + C(region)'. {_BACKTICKS}"
        )
    if len(left) != 1 or len(left[0].factors) != 1:
        raise ParameterError(f"the formula '{formula}' must have one variable on the left, as in 'salary ~ age'.")
    terms = [tuple(_factor(f, formula, functions) for f in t.factors if not _is_one(f)) for t in right]
    slopes = tuple(t for t in terms if t)
    return _factor(left[0].factors[0], formula, functions), slopes, len(slopes) < len(terms)


def _is_one(factor: Any) -> bool:
    return bool(factor.eval_method.value == "literal" and factor.expr == "1")


def _factor(factor: Any, formula: str, functions: tuple[str, ...]) -> tuple[str, str]:
    text = str(factor.expr)
    if factor.eval_method.value == "lookup":
        return "", text  # a column, in backticks or not
    if (quoted := _QUOTED.fullmatch(text)) and (quoted[1] == "C" or quoted[1] in functions):
        return quoted[1], quoted[2]
    node: ast.expr | None
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        node = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and len(node.args) == 1:
        name, inner = node.func.id, node.args[0]
        if isinstance(inner, ast.Name) and (name == "C" or name in functions):
            return name, inner.id
    raise ParameterError(
        f"'{text}' in the formula '{formula}' is not allowed. A term is a column, C(column), or one of "
        f"{listing(functions)} of a column; products are written a:b or a*b. {_BACKTICKS}"
    )


class Formula(Estimator):
    """One coefficient of a least-squares regression: ``Formula("salary ~ age + C(region)", term="age")``.

    Terms are columns, ``C(column)`` for categories (the first level is left out where R leaves it out, as in any model
    with an intercept; text columns are categories without saying), ``log``, ``log1p``, ``sqrt``, ``square`` or ``exp``
    of a column, and their products with ``:`` or ``*``.
    `term` may be left out if there is only one besides the intercept. A level of a category is ``C(region)[north]``.
    """

    formula: str = param(doc="R-style formula")
    term: str | None = param(default=None, doc="which coefficient; may be left out if there is only one")
    weighted: bool = param(default=False, doc=WEIGHTED)

    def validate(self) -> None:
        """Parse the formula and find the term."""
        check_flag(self, "weighted")
        _, terms, _ = parse(self.formula)
        if not terms and self.term is None:
            object.__setattr__(self, "term", "Intercept")
        if self.term is None and len(terms) == 1 and all(function != "C" for function, _ in terms[0]):
            object.__setattr__(self, "term", _title(terms[0]))
        if self.term is None:
            raise ParameterError(
                f"'{self.formula}' has several coefficients; say which one with term=. Terms: {listing(map(_title, terms))}."
            )

    @cached_property
    def _named(self) -> tuple[str, ...]:
        return named_in(self.formula)

    def label(self) -> str:
        """Return the formula and the term."""
        return f"{self.formula}: {self.term}" + (", weighted" if self.weighted else "")

    def columns(self) -> tuple[str, ...]:
        """Return every column of the formula."""
        return self._named

    def check(self, data: Microdata) -> None:
        """Refuse unknown columns and terms that the data do not have."""
        for name in self._named:
            data.kind(name)
        self.estimate(data, {})

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the coefficient over the records that have all the columns."""
        batch = data.batch(self._named)
        terms, names = design_of(batch, self.formula)
        if self.term not in names:
            raise DataError(_unknown_term(str(self.term), self.formula))
        design = np.concatenate([terms, response_of(batch, self.formula)[:, None]], axis=1)
        if self.weighted:
            weights = survey_weights(data)
            design = design[weights > 0] * np.sqrt(weights[weights > 0])[:, None]
        return _least_squares(design, self.formula)[names.index(self.term)]

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the population's coefficient, where response and terms are plain columns."""
        response, terms, intercept = parse(self.formula)
        factors = [response, *(f for t in terms for f in t)]
        if len(factors) > 1 + len(terms) or any(f or c not in model.names for f, c in factors):
            return None
        y, *x = (model.at(column) for _, column in factors)
        about = model.covariance if intercept else model.covariance + np.outer(model.mean, model.mean)
        found = np.linalg.lstsq(about[np.ix_(x, x)], about[x, y], rcond=None)[0]
        values = dict(zip(map(_title, terms), found, strict=True))
        if intercept:
            values["Intercept"] = model.mean[y] - found @ model.mean[x]
        return float(values[self.term]) if self.term in values else None


def named_in(formula: str) -> tuple[str, ...]:
    """Return the columns of a formula, the response first."""
    response, terms, _ = parse(formula)
    return tuple(dict.fromkeys([response[1], *(column for term in terms for _, column in term)]))


def design_of(batch: Batch, formula: str, levels: Levels | None = None) -> tuple[Numbers, list[str]]:
    """Return the terms' columns, shape (n, k), and the names of their coefficients.

    `levels` gives the categories of a column and their order, where those of the batch itself do not serve; a value that is
    not among them is missing. Records with a missing value have NaN.
    """
    _, terms, intercept = parse(formula)
    blocks, names = [np.ones((len(batch), 1))] if intercept else [], ["Intercept"] if intercept else []
    margins: set[frozenset[tuple[str, str]]] = {frozenset(t) for t in terms} | ({frozenset()} if intercept else set())
    for term in terms:
        block, titles = _term(batch, term, margins, levels or {})
        if len(term) == 1 and is_category(batch, *term[0]):
            margins.add(frozenset())  # all levels of a category add up to an intercept
        blocks.append(block)
        names += titles
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(batch), 0)), names


def response_of(batch: Batch, formula: str) -> Numbers:
    """Return the numbers on the left of a formula, shape (n,); NaN where missing."""
    return _number(batch, parse(formula)[0])


def _unknown_term(term: str, formula: str) -> str:
    """Return the sentence for a term that is not there; it names no level, since levels are records' values."""
    titles = [_title(t) for t in parse(formula)[1]]
    levels = " One level of a category is written C(column)[level]; the first level is in the intercept."
    return unknown_name("term", term, titles, f"'{formula}'") + levels


def _title(term: tuple[tuple[str, str], ...]) -> str:
    return ":".join(f"{f}({c})" if f else c for f, c in term)


def _number(batch: Batch, factor: tuple[str, str]) -> Numbers:
    function, column = factor
    numbers = batch.numbers(column)
    if not function:
        return numbers
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        out = TRANSFORMS[function](numbers)
    return np.where(np.isfinite(out), out, np.nan)


def _term(
    batch: Batch, term: Term, margins: set[frozenset[tuple[str, str]]], levels: Levels
) -> tuple[Numbers, list[str]]:
    """Return a term's columns (n, k) and their names; products run over the factors' columns.

    A category has all its levels where the term without it is not in the model, as in R: y ~ C(g):x has a slope of x
    for every level of g, y ~ x + C(g):x one for x and differences from the first level's.
    """
    whole = [frozenset(term) - {factor} not in margins for factor in term]
    block, names = _factor_block(batch, *term[0], whole[0], levels)
    for (function, column), every in zip(term[1:], whole[1:], strict=True):
        part, titles = _factor_block(batch, function, column, every, levels)
        block = (block[:, :, None] * part[:, None, :]).reshape(len(batch), block.shape[1] * part.shape[1])
        names = [f"{a}:{b}" for a in names for b in titles]
    return block, names


def _factor_block(batch: Batch, function: str, column: str, every: bool, levels: Levels) -> tuple[Numbers, list[str]]:
    if is_category(batch, function, column):
        return _dummies(batch, column, every, levels.get(column))
    return _number(batch, (function, column))[:, None], [_title(((function, column),))]


def is_category(batch: Batch, function: str, column: str) -> bool:
    """Whether a factor of a formula stands for the levels of a category."""
    return function == "C" or (
        not function and batch.column(column).kind is Kind.CATEGORY and not batch.schema[column].values
    )


def levels_of(batch: Batch, column: str) -> list[Any]:
    """Return the values of a category that are not missing, in order."""
    missing = {str(m) for m in batch.schema[column].missing}
    return [v for v in batch.column(column).codes[1] if str(v) not in missing]


def _dummies(batch: Batch, column: str, every: bool, given: Sequence[Any] | None) -> tuple[Numbers, list[str]]:
    def make() -> tuple[Numbers, list[str]]:
        codes, values = source.codes
        levels = levels_of(batch, column) if given is None else given
        place = {v: i for i, v in enumerate(levels)}
        at = np.array([*(place.get(v, -1) for v in values), -1])[codes]
        shown = range(0 if every else 1, len(levels))
        out = np.where(at[:, None] < 0, np.nan, (at[:, None] == np.array(shown, int)).astype(float))
        return out, [f"C({column})[{levels[i]}]" for i in shown]

    source = batch.column(column)
    made: tuple[Numbers, list[str]] = source.remember(
        ("dummies", every, tuple(map(str, batch.schema[column].missing)), given if given is None else tuple(given)),
        make,
    )
    return made


def _least_squares(design: Numbers, formula: str) -> list[float]:
    """Return the coefficients; the last column of `design` (n, k + 1) is the response, rows with NaN are left out."""
    if np.isnan(design.sum()):
        design = design[~np.isnan(design).any(axis=1)]
    n, k = len(design), design.shape[1] - 1
    if n <= k + 1:
        raise DataError(f"'{formula}' has {k} coefficients, and only {n} records have all its columns; it needs more.")
    products = design.T @ design
    scale = np.sqrt(np.diag(products)[:k])
    scale[scale == 0] = 1.0
    gram = products[:k, :k] / np.outer(scale, scale)
    eigen = np.linalg.eigvalsh(gram)
    if eigen[0] > 1e-10 * eigen[-1]:
        return [float(v) for v in np.linalg.solve(gram, products[:k, k] / scale) / scale]
    x = design[:, :k] / scale  # nearly dependent terms: the products have lost digits, the columns have not
    if np.linalg.matrix_rank(x) < k:
        raise DataError(
            f"in '{formula}' some terms are a combination of others, or constant, so their coefficients cannot be told "
            f"apart. Leave one out. Terms: {listing(map(_title, parse(formula)[1]))}."
        )
    return [float(v) for v in np.linalg.lstsq(x, design[:, k], rcond=None)[0] / scale]
