"""The columns of a model: its formula in canonical form, numerical factors, indicators of levels, and their products."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.warehouse import Warehouse
from sfumato.errors import ParameterError, join_names, shorten
from sfumato.mas.question import levels_of, numbers_in
from sfumato.mas.variable import MISSING, Variable, need_variable
from sfumato.typing import Numbers
from sfumato.utility.estimators import parse

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


# --- numbers
# One numerical factor of a model: a variable, top-coded where the policy says so, and transformed.


_SQL = {
    "": "{x}", "log": "CASE WHEN {x} > 0 THEN ln({x}) END",
    "log1p": "CASE WHEN abs({x}) < 0.1 THEN 2 * atanh({x} / (2 + {x})) WHEN {x} > -1 THEN ln(1 + {x}) END",
    "sqrt": "CASE WHEN {x} >= 0 THEN sqrt({x}) END", "square": "({x} * {x})",
}  # fmt: skip
_NUMPY: dict[str, Any] = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "square": np.square}


@dataclass(frozen=True)
class Number:
    """A function of a variable; `standardise` is left to the coefficients, so that it has the noise of the plain variable."""

    column: str
    """Of the prepared records."""
    name: str
    """How the formula names it, without standardise: "log(income)"."""
    function: str = ""
    standardised: bool = False
    top: tuple[float, float] | None = None
    """A value, and what replaces those from it on."""
    bottom: tuple[float, float] | None = None

    @classmethod
    def of(cls, variable: Variable, function: str, top_coded: bool) -> Number:
        """Make the factor of a variable."""
        standardised = function == "standardise"
        plain = "" if standardised else function
        name = f"{plain}({variable.name})" if plain else variable.name
        ends = (variable.top, variable.bottom) if top_coded else (None, None)
        return cls(variable.numbers, name, plain, standardised, *ends)

    @property
    def title(self) -> str:
        """How the formula names it."""
        return f"standardise({self.name})" if self.standardised else self.name

    def values(self, piece: Mapping[str, NDArray[Any]]) -> Numbers:
        """Return its numbers for a piece of the records, shape (n,); not finite where it is missing or not defined."""
        x = np.asarray(piece[self.column], np.float64)
        if self.top is not None:
            x = np.where(x >= self.top[0], self.top[1], x)
        if self.bottom is not None:
            x = np.where(x <= self.bottom[0], self.bottom[1], x)
        if not self.function:
            return x
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(_NUMPY[self.function](x), np.float64)

    def sql(self) -> str:
        """Return the same as SQL; null where it is missing or not defined."""
        x = self.column
        if self.bottom is not None:
            x = f"CASE WHEN {x} <= {literal(self.bottom[0])} THEN {literal(self.bottom[1])} ELSE {x} END"
        if self.top is not None:
            x = f"CASE WHEN {self.column} >= {literal(self.top[0])} THEN {literal(self.top[1])} ELSE {x} END"
        return f"({_SQL[self.function].format(x=f'({x})')})"


def literal(value: float) -> str:
    """Return a number as SQL that both engines read as the same double.

    >>> literal(0.5)
    '(5.00000000000000000e-01)'
    """
    return f"({value:.17e})"


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value of a factor in the whole data set; confidential."""

    low: float
    high: float
    gaps: bool
    """Whether some records of the data set have no value."""
    binary: bool = False
    """Whether all values are 0 or 1."""

    @property
    def middle(self) -> float:
        """The middle of the range; 0 where there are no values."""
        return (self.low + self.high) / 2 if np.isfinite(self.low + self.high) else 0.0

    @property
    def half(self) -> float:
        """Half the range, up to the next quarter of a power of two: noise is in proportion to it, and must not tell the ends."""
        exact = (self.high - self.low) / 2
        return 2.0 ** (math.ceil(4 * math.log2(exact) - 1e-9) / 4) if exact > 0 else 0.0

    @property
    def largest(self) -> float:
        """The largest size of a value, likewise."""
        return Bounds(0.0, 2 * max(abs(self.low), abs(self.high)), False).half


def bounds_of(warehouse: Warehouse, numbers: Sequence[Number]) -> list[Bounds]:
    """Return the bounds of some factors: of the whole data set, so that noise has one scale for every set of records."""
    if not numbers:
        return []
    listed = [
        f"min({x.sql()}) AS a{i}, max({x.sql()}) AS b{i}, count({x.sql()}) AS c{i}, "
        f"count(CASE WHEN {x.sql()} IN (0, 1) THEN 1 END) AS d{i}"
        for i, x in enumerate(numbers)
    ]
    found = warehouse.ask(f"SELECT count(*) AS n, {', '.join(listed)} FROM records")  # noqa: S608 - names of our own

    def bound(name: str) -> float:
        value = found[name][0]
        return float("nan") if value is None else float(value)

    return [
        Bounds(
            bound(f"a{i}"), bound(f"b{i}"), int(found[f"c{i}"][0]) < int(found["n"][0]),
            int(found[f"c{i}"][0]) == int(found[f"d{i}"][0]),
        )
        for i in range(len(numbers))
    ]  # fmt: skip


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
