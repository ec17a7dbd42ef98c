"""The columns of a model: products of numerical factors and of indicators of levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.models.numbers import Number, Numbers
from sfumato.mas.models.terms import Factor, Term
from sfumato.mas.variable import MISSING, Variable

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
