"""What an analyst estimates from a file: means, combinations, slopes, and least squares from a formula."""

from __future__ import annotations

import ast
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import NoiseModel, Parametric, ReleaseModel, param
from sfumato.data import Kind
from sfumato.data.microdata import Batch, Microdata, check_numeric
from sfumato.errors import DataError, ParameterError, join_names, shorten, unknown_name
from sfumato.lazy import pd
from sfumato.schema import Schema
from sfumato.typing import Numbers

Target = Literal["population", "file"]
WEIGHTED = "whether the survey weights that the schema names are used"


class Estimator(Parametric, family="estimator", abstract=True):
    """A number computed from a file, the same way from the original and from the released one."""

    @abstractmethod
    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the estimate; `published` holds the recipe's parameters, for estimators that correct for them."""

    @abstractmethod
    def label(self) -> str:
        """Return a few words for a legend."""

    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """Return the columns it looks at, besides survey weights; None for all."""

    @property
    def is_weighted(self) -> bool:
        """Whether it uses the survey weights that the schema names."""
        return bool(getattr(self, "weighted", False))

    def unit(self, schema: Schema) -> str:
        """Return the unit of the estimate, in words."""
        return ""

    def check(self, data: Microdata) -> None:
        """Refuse data it cannot be computed from."""
        for name in self.columns() or ():
            check_numeric(data, name)

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return its mean squared error in files released under a normal model, where a formula is known."""
        return None

    def true_value(self, model: NoiseModel) -> float | None:
        """Return what it estimates under a normal model, where that is known."""
        return None


class WeightedMeans(Estimator, abstract=True):
    """A linear combination of means, over the records that have all the columns."""

    @abstractmethod
    def means(self) -> Mapping[str, float]:
        """Return the weight of each column's mean."""

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return Σ weight × mean."""
        batch = data.batch(list(self.means()))
        survey = survey_weights(data) if self.is_weighted else None
        means = (
            []
            if self.is_weighted
            else [weight * float(batch.numbers(name).mean()) for name, weight in self.means().items() if len(batch)]
        )
        if means and not math.isnan(sum(means)):
            return sum(means)
        total = np.zeros(len(batch))  # some values are missing: over the records that have all the columns
        for name, weight in self.means().items():
            total = total + weight * batch.numbers(name)
        return mean_of(total, self.label(), survey)

    @override
    def label(self) -> str:
        terms = [
            f"{'−' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):g} × '}mean {n}"
            for n, w in self.means().items()
        ]
        text = " ".join(terms)
        return (text[2:] if text.startswith("+ ") else text) + (", weighted" if self.is_weighted else "")

    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(self.means())

    def unit(self, schema: Schema) -> str:
        """Return the columns' common unit, if they have one."""
        units = {schema[n].unit for n in self.means()}
        return units.pop() if len(units) == 1 else ""

    def true_value(self, model: NoiseModel) -> float | None:
        """Return Σ weight × population mean."""
        return float(sum(weight * model.mean[model.at(name)] for name, weight in self.means().items()))

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return its error: under additive noise, c'(Σ + Ω)c / n about the population's value, c'Ωc / n about the file's own."""
        if self.is_weighted or any(n not in model.names for n in self.means()):
            return None
        c = np.zeros(len(model.names))
        for name, weight in self.means().items():
            c[model.at(name)] = weight
        return model.mean_error(c, target)


class MeanCombination(WeightedMeans):
    """A linear combination of means: ``MeanCombination({"income": 1, "salary": -1})`` is the difference of two.

    Under additive noise its mean squared error is c'(Σ + Ω)c / n (R-U paper, section 5; ERRATA 0.8).
    """

    weights: Mapping[str, float] = param(doc="weight of each column's mean", columns="weights", low=-1e300, high=1e300)
    weighted: bool = param(default=False, doc=WEIGHTED)

    @override
    def validate(self) -> None:
        if not isinstance(self.weights, Mapping) or not any(self.weights.values()):
            raise ParameterError(
                "a combination of means needs a weight other than zero, such as {'income': 1, 'salary': -1}."
            )

    @override
    def means(self) -> Mapping[str, float]:
        return self.weights


class Mean(WeightedMeans):
    """The mean of a column: under additive noise its error is (σ² + ω²) / n about the population's mean."""

    column: str = param(doc="column to average", columns="one")
    weighted: bool = param(default=False, doc=WEIGHTED)

    @override
    def means(self) -> Mapping[str, float]:
        return {self.column: 1.0}


class Slope(Estimator):
    """The least-squares slope of one column on another (R-U paper, equation 4.1).

    With `corrected_by="noise.lambda2"` the slope is multiplied by 1 + λ², which removes the attenuation when only the
    independent variable is masked (the estimator β* of section 5); the analyst must then be told λ².
    """

    y: str = param(doc="dependent variable", columns="one")
    x: str = param(doc="independent variable", columns="one")
    corrected_by: str | None = param(
        default=None, doc="published parameter λ² to correct the attenuation with, as step.parameter"
    )
    weighted: bool = param(default=False, doc=WEIGHTED)

    @override
    def validate(self) -> None:
        if self.y == self.x:
            raise ParameterError("a slope needs two different columns.")

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the slope over the records that have both columns."""
        batch = data.batch([self.x, self.y])
        x, y = batch.numbers(self.x), batch.numbers(self.y)
        if self.weighted:
            count, squares, products = _weighted_sums(x, y, survey_weights(data))
        else:
            count, squares, products = kernels.column_pairs.regression_sums(x, y)
        if count <= 3:
            raise DataError(
                f"a slope of '{self.y}' on '{self.x}' needs more than 3 records that have both; its variance is infinite "
                f"for 3 or fewer. There are {count}."
            )
        if squares == 0:
            raise DataError(f"'{self.x}' is constant, so it has no slope. Choose another independent variable.")
        return self._correction(published) * products / squares

    def _correction(self, published: Mapping[str, Any]) -> float:
        if self.corrected_by is None:
            return 1.0
        if published and self.corrected_by not in published:
            raise ParameterError(unknown_name("parameter", self.corrected_by, published, "what is published"))
        level = published.get(self.corrected_by, 0.0)  # nothing is published of an unmasked file
        if isinstance(level, Mapping):
            level = level.get(self.x, 0.0)
        return 1.0 + float(level)

    @override
    def label(self) -> str:
        extra = (", corrected" if self.corrected_by else "") + (", weighted" if self.weighted else "")
        return f"slope of {self.y} on {self.x}{extra}"

    @override
    def columns(self) -> tuple[str, ...]:
        return (self.x, self.y)

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the population slope."""
        i, j = model.at(self.x), model.at(self.y)
        self._check_varies(float(model.covariance[i, i]))
        return float(model.covariance[i, j] / model.covariance[i, i])

    def _check_varies(self, variance: float) -> None:
        if not variance > 0:
            raise DataError(f"'{self.x}' is constant in the model, so it has no slope.")

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return bias² + variance about the population's slope; see `NoiseModel.slope_error`."""
        if self.weighted or self.x not in model.names or self.y not in model.names:
            return None
        i, j = model.at(self.x), model.at(self.y)
        if model.n > 3:
            self._check_varies(float(model.covariance[i, i]))
        return model.slope_error(i, j, self._correction(model.published), target)


class Function(Estimator):
    """A function of one's own: takes a frame, returns a number. It cannot be written as TOML.

    The frame is of the kind that came in; in a map of data that live in DuckDB or Spark, it is an Arrow table.
    """

    function: Callable[[Any], float] = param(doc="a Python function from a frame to a number")
    title: str = param(default="", doc="a few words for a legend")

    @override
    def validate(self) -> None:
        if not callable(self.function):
            raise ParameterError("the estimator must be a Python function from a frame to a number.")

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the function's value; its own errors are not shown, since they may quote data."""
        try:
            value = float(self.function(data.to_native()))
            reason = "returned NaN" if math.isnan(value) else ""
        except Exception as error:  # its text may quote data, so it must not even be the context of ours
            value, reason = math.nan, f"failed with {type(error).__name__}"
        if reason:
            raise DataError(
                f"the estimator '{self.label()}' {reason}. Try it on the original data; it must take a frame and return "
                "one number."
            )
        return value

    @override
    def label(self) -> str:
        return self.title or getattr(self.function, "__name__", "function")

    @override
    def columns(self) -> None:
        return

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a Python function cannot be written as TOML."""
        raise ParameterError(
            "a Python function cannot be written to a file; use a formula such as 'salary ~ age' instead."
        )


def survey_weights(data: Microdata) -> Numbers:
    """Return the survey weights that the schema names, shape (n,); refuse missing, negative or all-zero ones."""
    name = data.schema.one("weight")
    if name is None:
        raise DataError("a weighted estimate needs survey weights; give a column the role 'weight' in the schema.")
    weights = data.numbers(name)
    if np.isnan(weights).any() or (weights < 0).any() or np.isinf(weights).any():
        raise DataError(
            f"some survey weights in '{name}' are missing, negative or infinite. Every record needs one of at least 0."
        )
    if len(weights) and not weights.any():
        raise DataError(f"all survey weights in '{name}' are zero, so no record counts.")
    return weights


def _weighted_sums(x: Numbers, y: Numbers, weights: Numbers) -> tuple[int, float, float]:
    """Return the number of pairs that count, and the weighted sums of squares and products about the weighted means."""
    both = ~(np.isnan(x) | np.isnan(y)) & (weights > 0)
    x, y, w = x[both], y[both], weights[both]
    if not len(x):
        return 0, 0.0, 0.0
    a, b = x - np.average(x, weights=w), y - np.average(y, weights=w)
    return len(x), float((w * a * a).sum()), float((w * a * b).sum())


def mean_of(values: Numbers, what: str, weights: Numbers | None = None) -> float:
    """Return the mean of the values that are not missing, with survey weights if given."""
    if weights is not None:
        counts = ~np.isnan(values) & (weights > 0)
        if not counts.any():
            raise DataError(f"{what}: no record has a value.")
        return float(np.average(values[counts], weights=weights[counts]))
    total = float(values.mean()) if len(values) else math.nan
    if not math.isnan(total):
        return total
    known = values[~np.isnan(values)]
    if not len(known):
        raise DataError(f"{what}: no record has a value.")
    return float(known.mean())


def as_estimator(given: Any) -> Estimator:
    """Return an estimator from a formula ("salary ~ age"), a column's name (its mean), a function, or an estimator."""
    if isinstance(given, Estimator):
        return given
    if isinstance(given, str) and "~" in given:
        return Formula(given)
    if isinstance(given, str):
        return Mean(given)
    if isinstance(given, Mapping):
        return MeanCombination(given)
    if callable(given):
        return Function(given)
    raise ParameterError(
        "an estimator is a formula such as 'salary ~ age + C(region)', a column's name (for its mean), weights of means "
        "such as {'income': 1, 'salary': -1}, or a Python function from a frame to a number."
    )


# --- Least squares from a formula such as ``salary ~ age + C(region)``: parsed by formulaic, computed here, never evaluated.

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
            f"the formula '{shorten(formula, 200)}' has too many terms: write out those that matter, or use a lower power."
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
            f"'{shorten(formula, 200)}' is not a formula. Write it like 'salary ~ age + C(region)'. {_BACKTICKS}"
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
        f"{join_names(functions)} of a column; products are written a:b or a*b. {_BACKTICKS}"
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

    @override
    def validate(self) -> None:
        _, terms, _ = parse(self.formula)
        if not terms and self.term is None:
            object.__setattr__(self, "term", "Intercept")
        if self.term is None and len(terms) == 1 and all(function != "C" for function, _ in terms[0]):
            object.__setattr__(self, "term", _title(terms[0]))
        if self.term is None:
            raise ParameterError(
                f"'{self.formula}' has several coefficients; say which one with term=. Terms: {join_names(map(_title, terms))}."
            )

    @cached_property
    def _named(self) -> tuple[str, ...]:
        return named_in(self.formula)

    @override
    def label(self) -> str:
        return f"{self.formula}: {self.term}" + (", weighted" if self.weighted else "")

    @override
    def columns(self) -> tuple[str, ...]:
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
        response = response_of(batch, self.formula)
        if self.weighted:
            weights = survey_weights(data)
            root = np.sqrt(weights[weights > 0])
            terms, response = terms[weights > 0] * root[:, None], response[weights > 0] * root
        return _least_squares(terms, response, self.formula)[names.index(self.term)]

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


def frame_design(frame: pd.DataFrame, formula: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the left and the right side of a formula as columns with the names and the coding of statsmodels.

    Records with a missing value are left out. The right side has columns of categories alone first, then each number with its
    products.
    """
    from formulaic import model_matrix

    context = {"np": SimpleNamespace(**TRANSFORMS), **TRANSFORMS}
    with np.errstate(all="ignore"):
        made = model_matrix(
            formula, frame.reset_index(drop=True), context=context, na_action="drop", cluster_by="numerical_factors"
        )
    spec = made.rhs.model_spec
    numeric = {
        term: any(f not in spec.factor_contrasts for f in term.factors if f.eval_method.value != "literal")
        for term in spec.term_indices
    }
    order = [i for term in sorted(numeric, key=numeric.__getitem__) for i in spec.term_indices[term]]
    return pd.DataFrame(made.lhs), pd.DataFrame(made.rhs).iloc[:, order]


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


def _least_squares(x: Numbers, y: Numbers, formula: str) -> list[float]:
    """Return the coefficients; rows of x (n, k) and y (n,) with NaN are left out."""
    if np.isnan(x.sum() + y.sum()):
        whole = ~(np.isnan(x).any(axis=1) | np.isnan(y))
        x, y = x[whole], y[whole]
    n, k = x.shape
    if n <= k + 1:
        raise DataError(f"'{formula}' has {k} coefficients, and only {n} records have all its columns; it needs more.")
    found = kernels.regression.coefficients_of(x, y)
    if found is None:
        raise DataError(
            f"in '{formula}' some terms are a combination of others, or constant, so their coefficients cannot be told "
            f"apart. Leave one out. Terms: {join_names(map(_title, parse(formula)[1]))}."
        )
    return [float(v) for v in found]
