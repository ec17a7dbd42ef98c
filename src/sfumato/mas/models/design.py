"""The columns of a model: its formula in canonical form, numerical factors, indicators of levels, and their products."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError, join_names, shorten
from sfumato.mas.question import Analysis, levels_of, numbers_in
from sfumato.mas.variable import MISSING, Variable, need_variable
from sfumato.typing import Numbers
from sfumato.utility.estimators import TooManyTerms, parse

# --- terms
# The formula of a model in canonical form: the same for the same model, however it was written.

FUNCTIONS = ("log", "log1p", "sqrt", "square", "standardise")
"""Transformations of a number that a formula may use; none of them singles out a record (section 3.3)."""
_ARITHMETIC = re.compile(r"/|%in%|(?:\w|\w\([^()]*\))\s*(?:\^|\*\*)")
"""To R's formulas 1/(age - 89) and age**20 are other words for age, and whoever writes them means something else."""

Factor = tuple[str, str]
"""A function, or "" or "C", and the name of a variable."""
Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Terms:
    """An outcome and terms; factors in order of their variables.

    Terms without numbers come first, then those with one number, and so on, the shorter first, as in statsmodels.
    """

    outcome: Factor
    terms: tuple[Term, ...]
    intercept: bool

    @classmethod
    def of(cls, formula: str, known: Mapping[str, Variable] | None = None) -> Terms:
        """Read a formula; with the variables of a data set, a plain name of a category becomes C(name)."""
        outcome, terms, intercept = parse(formula, FUNCTIONS)
        if _ARITHMETIC.search(re.sub("`[^`]*`", "x", formula)):
            raise ParameterError(
                f"the formula '{shorten(formula, 200)}' has a division or a power of a variable, which it would not compute. Use "
                f"{join_names(FUNCTIONS)} of a variable, and a:b or a*b for products."
            )

        def settled(factor: Factor) -> Factor:
            function, name = factor
            if known is None:
                return factor
            variable = need_variable(name, known, _quoted(name, known))
            return ("C", name) if not function and not variable.numeric else factor

        sorted_terms = {tuple(sorted({settled(f) for f in term}, key=lambda f: (f[1], f[0]))) for term in terms}
        order = sorted(sorted_terms, key=_rank)
        return cls(settled(outcome), tuple(order), intercept)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once: the outcome first, the others in order."""
        return tuple(dict.fromkeys([self.outcome[1], *(name for term in self.terms for _, name in term)]))

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables; refuse names that are not there, levels of numbers without cutpoints, logs of categories."""
        for function, name in (self.outcome, *(factor for term in self.terms for factor in term)):
            if function == "C":
                levels_of((name,), known)
            else:
                numbers_in(name, known)
        return tuple(known[name] for name in self.names)

    def with_term(self, term: Term) -> Terms:
        """Return the formula with one more term."""
        return Terms(self.outcome, tuple(sorted({*self.terms, term}, key=_rank)), self.intercept)

    def wording(self) -> str:
        """Return the canonical formula."""
        parts = ["1" if self.intercept else "0", *(title(term) for term in self.terms)]
        return f"{title((self.outcome,))} ~ {' + '.join(parts)}"


def _quoted(name: str, known: Iterable[str]) -> str:
    """Return what to write where a name such as salary-class was read as salary minus class."""
    meant = next((other for other in known if other.startswith(name) and not other.isidentifier()), None)
    return "" if meant is None else f" In a formula a name that is no plain word stands in backticks: `{meant}`."


def _rank(term: Term) -> tuple[int, list[tuple[str, str]], int, list[tuple[str, str]]]:
    numbers = [(name, function) for function, name in term if function != "C"]
    return len(numbers), numbers, len(term), [(name, function) for function, name in term]


def title(term: Term) -> str:
    """Return a term as it is written.

    >>> title((("C", "race"), ("log", "income")))
    'C(race):log(income)'
    """
    return ":".join(f"{function}({name})" if function else name for function, name in term)


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

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return self.terms(known).variables(known)


# --- numbers
# One numerical factor of a model: a variable, clipped to its public bounds where the policy says so, and transformed.


_NUMPY: dict[str, Any] = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "square": np.square}


@dataclass(frozen=True)
class Number:
    """A function of a variable; `standardise` is left to the coefficients, so that it has the noise of the plain variable."""

    variable: Variable
    function: str = ""
    standardised: bool = False
    clip: bool = False

    @classmethod
    def of(cls, variable: Variable, function: str, clip: bool) -> Number:
        """Make the factor of a variable."""
        standardised = function == "standardise"
        return cls(variable, "" if standardised else function, standardised, clip and variable.bounds is not None)

    @property
    def column(self) -> str:
        """Column of the prepared records that holds its numbers."""
        return self.variable.numbers

    @property
    def name(self) -> str:
        """How the formula names it, without standardise: "log(income)"."""
        return f"{self.function}({self.variable.name})" if self.function else self.variable.name

    @property
    def title(self) -> str:
        """How the formula names it."""
        return f"standardise({self.name})" if self.standardised else self.name

    def values(self, piece: Mapping[str, NDArray[Any]]) -> Numbers:
        """Return its numbers for a piece of the records, shape (n,); not finite where it is missing or not defined."""
        x = np.asarray(piece[self.column], np.float64)
        if self.clip and self.variable.bounds is not None:
            x = np.clip(x, *self.variable.bounds)
        return self._transformed(x)

    def _transformed(self, x: Numbers) -> Numbers:
        if not self.function:
            return x
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(_NUMPY[self.function](x), np.float64)

    @property
    def partial(self) -> bool:
        """Whether some records may have no number: those without a value, and those for which the function is not defined."""
        low = self.variable.bounds[0] if self.variable.bounds is not None else -np.inf
        undefined = {"log": low <= 0, "log1p": low <= -1, "sqrt": low < 0}.get(self.function, False)
        return self.variable.gaps or undefined

    @property
    def bounds(self) -> tuple[float, float]:
        """Public bounds of its numbers; refuse a variable without any."""
        if self.variable.bounds is None:
            raise DataError(
                f"variable '{self.variable.name}' has no public bounds, so that nothing can be computed of its numbers. The "
                "custodian can give it bounds in the schema."
            )
        low, high = self.variable.bounds
        step = (high - low) / _STEPS
        ends = [low, high, *([0.0] if low < 0 < high else []), low + step]
        found = self._transformed(np.array(ends))
        found = found[np.isfinite(found)]
        return float(found.min()), float(found.max())

    @property
    def middle(self) -> float:
        """A nominal mean of its numbers; public."""
        low, high = self.bounds
        at = float(self._transformed(np.array([self.variable.middle]))[0])
        return min(max(at, low), high) if np.isfinite(at) else (low + high) / 2

    @property
    def spread(self) -> float:
        """A nominal standard deviation of its numbers; public."""
        low, high = self.bounds
        if not self.function or self.variable.bounds is None:
            return self.variable.spread * (high - low)
        a, b = self.variable.bounds
        sd = self.variable.spread * (b - a)
        ends = self._transformed(
            np.clip(np.array([self.variable.middle - sd, self.variable.middle + sd]), a + (b - a) / _STEPS, b)
        )
        return float(min(max(abs(ends[1] - ends[0]) / 2, _LEAST_SPREAD * (high - low)), (high - low) / 2))


_LEAST_SPREAD = 0.15
"""Of the range of a transformed number, at least: its bulk may lie near one end, and a few records at the other."""
_STEPS = 1_000
"""Where a function is not defined at the lower bound, its bounds begin this part of the range above it."""


# --- design
# The columns of a model: products of numerical factors and of indicators of levels.


Key = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Which numbers a column multiplies, and which levels of which categories it indicates."""


@dataclass(frozen=True)
class Category:
    """A variable with levels: those that have a column of their own, and the others, which are the reference."""

    column: str
    name: str
    levels: tuple[str, ...]
    shown: tuple[int, ...]
    """Levels that the universe has enough records of, in order; the reference is among them."""
    reference: int

    @classmethod
    def of(cls, variable: Variable, shown: Sequence[int], reference: int) -> Category:
        """Make the category of a variable."""
        return cls(variable.codes, variable.name, variable.levels, tuple(shown), reference)

    @property
    def missing(self) -> int:
        """The level of records without a value; -1 if there is none."""
        return len(self.levels) - 1 if self.levels[-1] == MISSING else -1

    def title(self, level: int) -> str:
        """Return what the indicator of a level is called."""
        return f"C({self.name})[{self.levels[level]}]"


@dataclass(frozen=True)
class DesignColumn:
    """One column, and so one coefficient."""

    title: str
    term: int
    """The number of its term; -1 for the intercept."""
    numbers: tuple[int, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> Key:
        """What it is a product of."""
        return self.numbers, self.cells


@dataclass(frozen=True)
class Design:
    """All columns of a model, in canonical order."""

    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]
    columns: tuple[DesignColumn, ...]

    @classmethod
    def of(
        cls,
        terms: Sequence[Term],
        intercept: bool,
        numbers: Mapping[tuple[str, str], Number],
        categories: Mapping[str, Category],
    ) -> Design:
        """Lay out the columns of some terms.

        A category has all its levels where the model has nothing that they would repeat, and all but the reference otherwise,
        as in statsmodels.
        """
        factors, groups = list(numbers), list(categories)
        columns = [DesignColumn("Intercept", -1)] if intercept else []
        spanned: dict[frozenset[Factor], set[frozenset[Factor]]] = {frozenset(): {frozenset()} if intercept else set()}
        for place, term in enumerate(terms):
            held = frozenset(f for f in term if f[0] != "C")
            for coding in codings([f for f in term if f[0] == "C"], spanned.setdefault(held, set())):
                choices: list[list[tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]]] = []
                for factor in term:
                    if factor in held:
                        choices.append([(numbers[factor].title, (factors.index(factor),), ())])
                    elif factor in coding:
                        category, at = categories[factor[1]], groups.index(factor[1])
                        levels = [i for i in category.shown if coding[factor] or i != category.reference]
                        choices.append([(category.title(i), (), ((at, i),)) for i in levels])
                columns += [
                    DesignColumn(
                        ":".join(title for title, _, _ in parts), place, tuple(sorted(i for _, some, _ in parts for i in some)),
                        tuple(sorted(cell for _, _, cells in parts for cell in cells)),
                    )
                    for parts in product(*choices)
                ]  # fmt: skip
        return cls(tuple(numbers.values()), tuple(categories.values()), tuple(columns))

    def only(self, kept: Sequence[int]) -> Design:
        """Return the design with some of its columns."""
        return Design(self.numbers, self.categories, tuple(self.columns[i] for i in kept))

    @property
    def intercept(self) -> bool:
        """Whether there is an intercept."""
        return bool(self.columns) and self.columns[0].term < 0

    def constant(self, products: Numbers, weight: float) -> Numbers | None:
        """Return coefficients that make every record 1: of the intercept, or of indicators of which every record has one.

        None if there are none. `products` are those of the columns with each other, and `weight` is that of all records.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, column in enumerate(self.columns):
            if not column.numbers:
                groups.setdefault(tuple(category for category, _ in column.cells), []).append(i)
        for mine in groups.values():
            if abs(float(products[mine, mine].sum()) - weight) <= 1e-9 * weight:
                return np.bincount(mine, minlength=len(self.columns)).astype(np.float64)
        return None

    def centred(self) -> NDArray[np.bool_]:
        """Return for each number whether the model stays the same when it is moved: every column has its lower one."""
        keys = {column.key for column in self.columns}
        return np.array([
            all(((tuple(j for j in c.numbers if j != i)), c.cells) in keys for c in self.columns if i in c.numbers)
            for i in range(len(self.numbers))
        ], bool)  # fmt: skip

    def matrix(self, numbers: Numbers, codes: Sequence[NDArray[Any]], n: int) -> Numbers:
        """Return the columns of some records, shape (columns, n), from numbers (factors, n) and level numbers."""
        out = np.empty((len(self.columns), n))
        indicators: dict[tuple[int, int], NDArray[np.bool_]] = {}
        for row, column in zip(out, self.columns, strict=True):
            filled = False
            for i in column.numbers:
                if filled:
                    row *= numbers[i]
                else:
                    row[:] = numbers[i]
                filled = True
            for cell in column.cells:
                if cell not in indicators:
                    indicators[cell] = codes[cell[0]] == cell[1]
                if filled:
                    row *= indicators[cell]
                else:
                    row[:] = indicators[cell]
                filled = True
            if not filled:
                row[:] = 1.0
        return out


def codings(categories: Sequence[Factor], spanned: set[frozenset[Factor]]) -> list[dict[Factor, bool]]:
    """Return how the categories of a term are coded: which of them, and whether with all levels or without the reference.

    Every subset of the categories whose contrasts are not yet in the model is added; two subsets that differ by one category
    are put together as one with all its levels (the algorithm of patsy). `spanned` is brought up to date.
    """
    subsets = [frozenset(some) for size in range(len(categories) + 1) for some in combinations(categories, size)]
    coded: list[frozenset[tuple[Factor, bool]]] = [
        frozenset((f, False) for f in s) for s in subsets if s not in spanned
    ]
    spanned.update(subsets)
    found = True
    while found:
        found = False
        for short, long in combinations(coded, 2):
            extra = long - short
            if short < long and len(extra) == 1 and not next(iter(extra))[1]:
                coded[coded.index(long)] = short | {(next(iter(extra))[0], True)}
                coded.remove(short)
                found = True
                break
    return [dict(some) for some in coded]


def expanded(column: DesignColumn, gain: Numbers, shift: Numbers) -> dict[Key, float]:
    """Return a product of numbers a x + b, times indicators, as a sum of products of the x: coefficients by key."""
    out: dict[Key, float] = {}
    for size in range(len(column.numbers) + 1):
        for kept in combinations(column.numbers, size):
            rest = [i for i in column.numbers if i not in kept]
            weight = prod(float(gain[i]) for i in kept) * prod(float(shift[i]) for i in rest)
            if weight or not rest:
                out[kept, column.cells] = weight
    return out
