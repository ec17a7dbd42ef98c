"""Sums of products of a model's columns: exact for known variables, protected where anything confidential is in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from typing_extensions import override

from sfumato.mas.models.design import Category, Number
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import Confidential, Piece, ProtectedTotals, RecordFunction, TotalSums
from sfumato.mas.variable import Variable
from sfumato.typing import Flags, Numbers

Monomial = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Which numbers are multiplied, each as often as it stands there, and which levels of which categories are indicated."""
ONE: Monomial = ((), ())


def times(one: Monomial, other: Monomial) -> Monomial | None:
    """Return the product of two monomials; None if it is 0, as of the indicators of two levels of a category."""
    cells = sorted({*one[1], *other[1]})
    if len({category for category, _ in cells}) < len(cells):
        return None
    return tuple(sorted((*one[0], *other[0]))), tuple(cells)


@dataclass(frozen=True, eq=False)
class Factors:
    """The numbers and categories that a model reads; numbers are centred and scaled by public numbers."""

    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]
    variables: Mapping[str, Variable]
    centred: tuple[bool, ...]
    """Which numbers may be moved without changing the model."""
    moments: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    """Protected mean, in two parts that add up to it so that no digits are lost, and standard deviation of some numbers."""
    exact: bool = False
    """Whether numbers are read about these means, for the last digits: where there is no noise."""

    def fixed(self, at: int) -> bool:
        """Whether a number is standardised as it is read: a model that changes when it is moved has it so."""
        return self.numbers[at].standardised and not self.centred[at] and at in self.moments

    @cached_property
    def centre(self) -> Numbers:
        """What is taken off each number."""
        public = self._public_centre()
        for i, (mean, rest, _) in self.moments.items():
            if self.fixed(i) or (self.exact and self.centred[i]):
                public[i] = mean + rest if self.fixed(i) else mean
        return public

    def _public_centre(self) -> Numbers:
        return np.array([x.middle if moved else 0.0 for x, moved in zip(self.numbers, self.centred, strict=True)])

    @cached_property
    def scale(self) -> Numbers:
        """What each number is divided by: a power of two that it then does not exceed 1 by, within public bounds."""
        ends = [x.bounds for x in self.numbers]
        sizes = [max(abs(a - c), abs(b - c)) for (a, b), c in zip(ends, self.centre, strict=True)]
        for i, (mean, _, sd) in self.moments.items():
            sizes[i] = (sd if self.centred[i] else math.hypot(mean, sd)) if self.exact else sizes[i]
        powers = np.array([2.0 ** math.ceil(math.log2(size)) if size > 0 else 1.0 for size in sizes])
        for i, (*_, sd) in self.moments.items():
            powers[i] = sd if self.fixed(i) else powers[i]
        return powers

    @cached_property
    def formula_scale(self) -> tuple[Numbers, Numbers]:
        """What makes the numbers of the formula of those that are read: by what they are multiplied, and what is added."""
        gain, shift = self.scale.copy(), self.centre.copy()
        for i, (mean, rest, sd) in self.moments.items():
            if self.numbers[i].standardised:
                gain[i], shift[i] = (1.0, 0.0) if self.fixed(i) else (gain[i] / sd, (shift[i] - mean - rest) / sd)
        return gain, shift

    def known(self, monomial: Monomial, known: bool = True) -> Monomial:
        """Return the part of a monomial that is of known variables, or the part of confidential ones."""
        numbers = tuple(i for i in monomial[0] if self.numbers[i].variable.known is known)
        return numbers, tuple(c for c in monomial[1] if self._category(c[0]).known is known)

    def _category(self, at: int) -> Variable:
        return self.variables[self.categories[at].name]

    def used(self, known: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers and categories that must not be missing: of known variables, or of confidential ones."""
        numbers = tuple(i for i, x in enumerate(self.numbers) if x.variable.known is known)
        return numbers, tuple(i for i in range(len(self.categories)) if self._category(i).known is known)

    @property
    def gaps(self) -> bool:
        """Whether confidential values may be missing, so that who is complete is confidential."""
        numbers, categories = self.used(False)
        return any(self.numbers[i].partial for i in numbers) or any(self.categories[i].missing >= 0 for i in categories)

    def bounds(self, monomial: Monomial) -> Confidential:
        """Return the public bounds and the nominal size of a product of confidential factors."""
        low, high, square = 1.0, 1.0, 1.0
        for i in sorted(set(monomial[0])):
            power = monomial[0].count(i)
            number = self.numbers[i]
            a, b = ((end - self.centre[i]) / self.scale[i] for end in number.bounds)
            if power % 2 == 0:
                a, b = (0.0 if a <= 0 <= b else min(abs(a), abs(b))) ** power, max(abs(a), abs(b)) ** power
            else:
                a, b = a**power, b**power
            ends = (low * a, low * b, high * a, high * b)
            low, high = min(ends), max(ends)
            rms = math.hypot(number.spread, number.middle - self.centre[i]) / self.scale[i]
            square *= min(rms ** (2 * power) * (1, 1, 3, 15, 105)[min(power, 4)], max(abs(a), abs(b)) ** 2)
        for category, level in monomial[1]:
            shares = self._category(category).shares
            square *= shares[level] if shares else 1 / len(self._category(category).levels)
        if monomial[1] or self.gaps:
            low, high = min(low, 0.0), max(high, 0.0)
        return Confidential(low, high, math.sqrt(square))

    def wording(self, monomial: Monomial) -> str:
        """Return a canonical wording of a monomial, for keys."""
        numbers = [f"{self.numbers[i].name}-{self.centre[i]!r}/{self.scale[i]!r}" for i in monomial[0]]
        return "*".join([*numbers, *(f"{self.categories[c].name}[{level}]" for c, level in monomial[1])]) or "1"


class ComposedFunction(RecordFunction):
    """Rows that are made of those of other functions of records."""

    parts: Sequence[RecordFunction]
    """The functions whose columns it reads."""
    weights: int = 0
    """Power of the survey weight that it reads beside them."""

    @override
    @property
    def columns(self) -> Sequence[str]:
        names = [column for part in self.parts for column in part.columns]
        return list(dict.fromkeys([*names, *(["w"] if self.weights else [])]))


class MonomialRows(RecordFunction):
    """Monomials of known factors, or of confidential ones: 0 for records that lack one of them."""

    def __init__(
        self,
        factors: Factors,
        known: bool,
        monomials: Sequence[Monomial],
        weights: int = 0,
        matrix: Numbers | None = None,
    ) -> None:
        self.numbers, self.categories = factors.numbers, factors.categories
        self.centre, self.scale = factors.centre, factors.scale
        self.used, self.monomials = factors.used(known), tuple(monomials)
        self.weights, self.matrix = weights, matrix

    @override
    @property
    def columns(self) -> Sequence[str]:
        numbers, categories = self.used
        names = [*(self.numbers[i].column for i in numbers), *(self.categories[i].column for i in categories)]
        return list(dict.fromkeys([*names, *(["w"] if self.weights else [])])) or ["r"]

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x, codes, complete = self.read(piece)
        rows = np.empty((len(self.monomials), len(complete)))
        start = (
            complete * np.asarray(piece["w"], np.float64) ** self.weights
            if self.weights
            else complete.astype(np.float64)
        )
        for row, (numbers, cells) in zip(rows, self.monomials, strict=True):
            row[:] = start
            for i in numbers:
                row *= x[i]
            for category, level in cells:
                row *= codes[category] == level
        return rows if self.matrix is None else self.matrix @ rows

    def read(self, piece: Piece) -> tuple[dict[int, Numbers], dict[int, Numbers], Flags]:
        """Return the numbers as the model has them, 0 where missing; the level numbers; and who is complete."""
        numbers, categories = self.used
        complete = np.ones(len(next(iter(piece.values()))), bool)
        x = {}
        for i in numbers:
            values = (self.numbers[i].values(piece) - self.centre[i]) / self.scale[i]
            there = np.isfinite(values)
            complete &= there
            x[i] = np.where(there, values, 0.0)
        codes = {}
        for i in categories:
            codes[i] = np.asarray(piece[self.categories[i].column])
            if self.categories[i].missing >= 0:
                complete &= codes[i] != self.categories[i].missing
        return x, codes, complete


@dataclass(frozen=True, eq=False)
class Products:
    """Σ of products of pairs of columns over the complete records of a universe."""

    question: Question
    register: Register
    factors: Factors
    columns: tuple[Monomial, ...]
    pairs: tuple[tuple[int, int], ...]
    weights: int = 0

    @property
    def all_confidential(self) -> bool:
        """Whether even who is added up is confidential, or not all are."""
        plain = self.question.selection.plain
        return self.factors.gaps or self.question.policy.drops or not all(v.known for v in plain.variables)

    @cached_property
    def _split(self) -> tuple[list[tuple[int, Monomial]], list[tuple[int, Monomial, Monomial]]]:
        """Return the pairs that known variables settle, and the others: their places, known and confidential parts."""
        exact, hidden = [], []
        for place, (j, k) in enumerate(self.pairs):
            product = times(self.columns[j], self.columns[k])
            if product is None:
                continue
            known, rest = self.factors.known(product), self.factors.known(product, False)
            if rest == ONE and not self.all_confidential:
                exact.append((place, known))
            else:
                hidden.append((place, known, rest))
        return exact, hidden

    def request(self) -> TotalSums | None:
        """Return what is asked of the mechanism; None if known variables settle all."""
        hidden = self._split[1]
        if not hidden:
            return None
        us, gs = list(dict.fromkeys(u for _, u, _ in hidden)), list(dict.fromkeys(g for _, _, g in hidden))
        names = [f"{self.factors.wording(u)}:{self.factors.wording(g)}" for _, u, g in hidden]
        return TotalSums(
            f"products w{self.weights} {';'.join(names)}",
            MonomialRows(self.factors, True, us, self.weights), MonomialRows(self.factors, False, gs),
            tuple(self.factors.bounds(g) for g in gs), tuple((us.index(u), gs.index(g)) for _, u, g in hidden),
            self.variables, self.by,
        )  # fmt: skip

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read."""
        names = [*(x.variable.name for x in self.factors.numbers), *(c.name for c in self.factors.categories)]
        return tuple(self.factors.variables[name] for name in dict.fromkeys(names))

    @property
    def by(self) -> tuple[Variable, ...]:
        """The known categories: their levels pay for themselves."""
        return tuple(v for c in self.factors.categories if (v := self.factors.variables[c.name]).known)

    def matrices(self, totals: ProtectedTotals | None) -> tuple[Numbers, Numbers]:
        """Return the products as a symmetric matrix, and the variances of their noise; shape (columns, columns)."""
        m = len(self.columns)
        values, variances = np.zeros((m, m)), np.zeros((m, m))
        exact, hidden = self._split
        if exact:
            rows = MonomialRows(self.factors, True, [known for _, known in exact], self.weights)
            sums = self.register.reduce(RowSums(rows), rows.columns, known_part(self.question.selection))
            for (place, _), value in zip(exact, sums, strict=True):
                j, k = self.pairs[place]
                values[j, k] = values[k, j] = value
        if totals is not None:
            for (place, _, _), value, variance in zip(hidden, totals.values, totals.variances, strict=True):
                j, k = self.pairs[place]
                values[j, k] = values[k, j] = value
                variances[j, k] = variances[k, j] = variance
        return values, variances


class WholeRows(ComposedFunction):
    """Monomials of known and confidential factors together; 0 for records that lack one of them."""

    def __init__(self, factors: Factors, monomials: Sequence[Monomial]) -> None:
        self.known, self.hidden = (
            MonomialRows(factors, k, [factors.known(m, k) for m in monomials]) for k in (True, False)
        )
        self.parts = (self.known, self.hidden)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        return np.asarray(self.known(piece) * self.hidden(piece))

    def complete(self, piece: Piece) -> Flags:
        """Return which records lack no factor."""
        return np.asarray(self.known.read(piece)[2] & self.hidden.read(piece)[2], bool)


class RowSums(ComposedFunction):
    """The sums of the rows of a function of records."""

    def __init__(self, rows: RecordFunction) -> None:
        self.rows, self.parts = rows, (rows,)

    @override
    def __call__(self, piece: Piece) -> Numbers:
        return np.asarray(self.rows(piece).sum(axis=1))
