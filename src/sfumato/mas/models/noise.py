"""Keyed noise on the cross-products of a model with its outcome and of confidential predictors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.models.design import Bounds, Design, DesignColumn, Key, expanded
from sfumato.mas.models.layout import Complete, Layout, ModelMoments
from sfumato.mas.perturbation import purpose_of
from sfumato.mas.question import Question
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

# --- algebra
# Small symmetric systems: what depends on what, and inverses that keep their digits.

DEPENDENT = 1e-12
"""Of the scaled cross-products, a smaller eigenvalue than this is no information."""
NEARLY = 1e-5
"""Below this the columns are turned to independent ones and read again."""


def smallest(products: Numbers) -> float:
    """Return the least eigenvalue of cross-products scaled to a diagonal of ones; 0 where that is not above 0."""
    diagonal = np.diag(products)
    if not len(diagonal):
        return 1.0
    if not (diagonal > 0).all() or not np.isfinite(products).all():
        return 0.0
    size = np.sqrt(diagonal)
    return float(np.linalg.eigvalsh(products / np.outer(size, size))[0])


def turn_of(products: Numbers) -> Numbers:
    """Return the lower triangular matrix that makes columns independent of each other, one after another."""
    size = np.sqrt(np.diag(products))
    lower = np.linalg.cholesky(products / np.outer(size, size))
    return np.asarray(np.linalg.inv(lower) / size[None, :])


def inverse(products: Numbers) -> Numbers:
    """Return the inverse of a positive definite matrix."""
    size = np.sqrt(np.diag(products))
    half = np.linalg.inv(np.linalg.cholesky(products / np.outer(size, size)))
    return np.asarray((half.T @ half) / np.outer(size, size))


def largest_correlation(products: Numbers, intercept: bool) -> float:
    """Return the largest size of a correlation between two columns; the first column is the intercept, if there is one."""
    if intercept:
        products = (products - np.outer(products[:, 0], products[0]) / products[0, 0])[1:, 1:]
    size = np.sqrt(np.diag(products))
    if len(size) < 2 or not (size > 0).all():
        return 0.0
    found = np.abs(products / np.outer(size, size)) - np.eye(len(size))
    return float(found.max())


# --- noise
# Keyed noise on the cross-products of a model with its outcome (MAS.md, "Models").
#
# What is published depends on the outcome through X'y + e alone: coefficients are (X'X)^-1 (X'y + e), and their variance has
# (X'X)^-1 D (X'X)^-1 more, D the variance of e. Each element of e belongs to one product of numbers and indicators, with numbers
# taken from the middle of their range, and hangs on the outcome, the numbers and the complete records that have the levels:
# another model of these records with the same column has the same noise on it, and so has another universe that holds them. What
# a record can add to a sum is at most the product of half ranges; the standard deviation is a multiple of that.


INTERCEPT = "1"


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise on the products of the columns (as a layout reads them) with one outcome."""

    values: Numbers
    """Shape (columns,)."""
    variance: Numbers
    """Shape (columns, columns)."""
    of_total: float
    """The noise on the sum of the outcome itself."""

    def scaled(self, factor: float) -> Noise:
        """Return the noise of an outcome in another unit."""
        return Noise(self.values * factor, self.variance * factor**2, self.of_total * factor)


def key_of(question: Question, *parts: str, among: bytes | None = None) -> bytes:
    """Return what a number's noise hangs on: the set of records, and what is summed; `among` is the key of another set."""
    key = question.key if among is None else among
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    return hashlib.blake2b("\x1f".join(("model", *parts)).encode(), key=key, digest_size=32).digest()


def unit_of(question: Question, weighted: bool) -> float:
    """Return the standard deviation for a record that can add 1: the policy's, times a large survey weight."""
    weight = question.dataset.weight
    return question.policy.models.sd * (weight.large if weighted and weight is not None else 1.0)


def pair_key(complete: Complete, one: str, other: str, weighted: bool) -> bytes:
    """Return the key of the sum of products of two columns; the same in either order."""
    return key_of(complete.question, *sorted((one, other)), "weighted" if weighted else "", among=complete.key)


def noise_of(
    complete: Complete,
    layout: Layout,
    bounds: Sequence[Bounds],
    outcome: str,
    half: float,
    ordered: bool = False,
) -> Noise:
    """Return the noise of an outcome whose values lie within `half` of the middle; no noise, if the policy has none.

    With `ordered`, the outcome is a level: its products have keys of their own, which no regression on that level shares.
    """
    question, design = complete.question, layout.design
    k = len(design.numbers)
    middles = np.array([b.middle for b in bounds[:k]])
    gain, shift = 1 / layout.scale[:k], (middles - layout.centre[:k]) / layout.scale[:k]
    keys: dict[Key, int] = {((), ()): 0}
    rows = [expanded(column, gain, shift) for column in design.columns]
    for row in rows:
        for key in row:
            keys.setdefault(key, len(keys))
    mix = np.zeros((len(rows), len(keys)))
    for i, row in enumerate(rows):
        for key, weight in row.items():
            mix[i, keys[key]] = weight
    unit = unit_of(question, layout.weighted) * half
    sd = np.array([unit * float(np.prod([bounds[i].half for i in key[0]])) for key in keys])
    if not unit:
        return Noise(np.zeros(len(rows)), np.zeros((len(rows), len(rows))), 0.0)
    raw = "" if design.intercept else " without intercept"
    known, mark = question.dataset.variables, "weighted" if layout.weighted else ""
    hashed: list[bytes] = []
    sets: dict[tuple[tuple[int, int], ...], bytes] = {(): complete.key}
    for some, cells in keys:
        if cells not in sets:
            sets[cells] = complete.key_within({known[design.categories[c].name]: (i,) for c, i in cells})
        names = [design.numbers[i].name for i in some] or [INTERCEPT]
        parts = ["outcome", outcome + raw, *sorted(names)] if ordered else sorted([outcome + raw, *names])
        hashed.append(key_of(question, *parts, mark, among=sets[cells]))
    drawn = drawn_of(question, hashed)
    values, variance = mix @ (sd * drawn), (mix * sd**2) @ mix.T
    if layout.turn is not None:
        values, variance = layout.turn @ values, layout.turn @ variance @ layout.turn.T
    return Noise(values, variance, float(sd[0] * drawn[0]))


def title_of(design: Design, key: Key) -> str:
    """Return the name of a product of plain numbers and indicators."""
    parts = [design.numbers[i].name for i in key[0]] + [design.categories[c].title(i) for c, i in key[1]]
    return ":".join(sorted(parts)) or INTERCEPT


def drawn_of(question: Question, keys: list[bytes]) -> Numbers:
    """Return the standard normal numbers of some keys; others under a policy with more or less noise, or the two would cancel."""
    return question.secret.normals(keys, purpose_of("cross-product", question.policy.models.sd))


def blurred(question: Question, errors: str, variances: Numbers, largest: Numbers, keys: list[bytes]) -> Numbers:
    """Return variances that are sums of squared residuals, with keyed noise; `largest` is what one record can add to each.

    A residual far out would show in the standard error of a small group. Of households, whose members add up before they
    are squared, one record can add more.
    """
    sd = question.policy.models.sd / 2  # in ranges, not in halves
    if not sd:
        return variances
    if errors == "design":
        largest = largest * (2 * question.dataset.design.largest - 1)
    return np.maximum(variances + sd * largest * drawn_of(question, keys), 0.0)


def squares_noise(complete: Complete, outcome: str, bounds: Bounds, weighted: bool) -> float:
    """Return the noise on the sum of squares of a number, taken from the middle of its range."""
    sd = unit_of(complete.question, weighted) * bounds.half**2
    if not sd:
        return 0.0
    return sd * float(drawn_of(complete.question, [pair_key(complete, outcome, outcome, weighted)])[0])


def standard_moments(
    complete: Complete, layout: Layout, bounds: Sequence[Bounds], moments: ModelMoments
) -> tuple[Numbers, Numbers]:
    """Return the means and standard deviations that standardise() takes, from sums and squares with their noise.

    Taken without it, they would be told by the coefficients of a variable and of the same one standardised; and of a
    standardised outcome the intercept would tell the noise on the sum. Of known predictors in known sets they are as they are.
    """
    numbers, weighted = layout.factors, layout.weighted
    unit = unit_of(complete.question, weighted)
    if not unit or not numbers:
        return moments.means, moments.spreads
    names = [number.name for number in numbers]
    keys = [pair_key(complete, name, to, weighted) for name in names for to in (INTERCEPT, name)]
    drawn = drawn_of(complete.question, keys).reshape(-1, 2) * unit / moments.weight
    half, middle = np.array([b.half for b in bounds]), np.array([b.middle for b in bounds])
    known = {v.numbers for v in complete.question.dataset.variables.values() if v.known and complete.known}
    drawn[[x.column in known and x is not layout.outcome for x in numbers]] = 0.0
    means = moments.means + drawn[:, 0] * half
    squares = moments.spreads**2 + (moments.means - middle) ** 2 + drawn[:, 1] * half**2
    return means, np.sqrt(np.maximum(squares - (means - middle) ** 2, 0.0))


# --- phantoms
# Keyed noise on the cross-products of confidential predictors: records that are not there.
#
# Standard errors and sums of squares tell X'X, and in a small group one value far out makes up much of it. Where the policy has
# noise, X'X has g ΔΔ′ more for each confidential predictor and each group of records in which it has a coefficient of its own. Δ is
# what the columns of a record change by when its value moves from one end of the range to the other, or from the reference to
# another level; g is normal, and its standard deviation that of the noise on X'y, in ranges. The phantoms lie on the fitted
# plane, so that they change neither coefficients nor residuals, and Δ is 0 in a constant, so that n and Σy stay, too.


_PATTERNS = 4096
"""Ends of other numbers are tried together up to so many; beyond, all at their lower or all at their upper ends."""
_CLIP = 3.0
"""No normal number is further out, so that few phantoms take away what there is."""


@dataclass(frozen=True, eq=False)
class Phantoms:
    """What the columns of a layout change by; confidential, as the ends of the ranges are."""

    moves: Numbers
    """Shape (moves, columns)."""
    weights: Numbers
    """g of each move, shape (moves,)."""
    record: float
    """What one record counts for: 1, or a large survey weight."""

    @cached_property
    def products(self) -> Numbers:
        """What they add to X'X."""
        return np.asarray((self.moves.T * self.weights) @ self.moves)

    def potential(self, information: Numbers, weight: float = 1.0) -> float:
        """Return the largest share of the information on a coefficient that one value could make up.

        `information` is X'X as it is published, and `weight` what a record counts for in it, on average. Where phantoms leave
        no information, it is all.
        """
        if not len(self.moves):
            return 0.0
        if smallest(information) < DEPENDENT:
            return 1.0
        return weight * self.record * float(_sizes(self.moves, inverse(information)).max())


def phantoms_of(complete: Complete, layout: Layout, bounds: Sequence[Bounds], bread: Numbers) -> Phantoms:
    """Return the phantoms of a model; none, where it has no confidential predictors, or the policy no noise."""
    question, design = complete.question, layout.design
    unit = unit_of(question, layout.weighted) / 2  # in ranges, not in halves
    weight = question.dataset.weight
    record = weight.large if layout.weighted and weight is not None else 1.0
    moves: list[Numbers] = []
    keys: list[bytes] = []
    for variable in _confidential(complete, design) if unit else ():
        grid = _Grid(variable, layout, bounds)
        for cells, moved in grid.moves(question.dataset.variables):
            moves.append(moved[int(np.argmax(_sizes(moved, bread)))])
            mark = "weighted" if layout.weighted else ""
            keys.append(key_of(question, "phantom", variable.name, mark, among=complete.key_within(cells)))
    if not moves:
        return Phantoms(np.zeros((0, len(design.columns))), np.zeros(0), record)
    drawn = np.clip(drawn_of(question, keys), -_CLIP, _CLIP)
    return Phantoms(np.array(moves), unit * drawn, record)


def _sizes(moves: Numbers, bread: Numbers) -> Numbers:
    """Return Δ′BΔ of each move."""
    return np.asarray(((moves @ bread) * moves).sum(axis=1))


def _confidential(complete: Complete, design: Design) -> list[Variable]:
    """Return the confidential variables among the predictors."""
    used = {x.column for x in design.numbers}
    names = {c.name for c in design.categories}
    known = complete.question.dataset.variables.values()
    return [v for v in known if not v.known and (v.name in names or (v.numeric and v.numbers in used))]


@dataclass(frozen=True, eq=False)
class _Grid:
    """Made-up records: every group that has coefficients of its own for a variable, and the ends of the variable's range."""

    variable: Variable
    layout: Layout
    bounds: Sequence[Bounds]

    @property
    def design(self) -> Design:
        return self.layout.design

    @cached_property
    def _factors(self) -> list[int]:
        """The variable's own numbers."""
        if not self.variable.numeric:
            return []
        return [i for i, x in enumerate(self.design.numbers) if x.column == self.variable.numbers]

    @cached_property
    def _own(self) -> int | None:
        """The variable's own category."""
        names = [c.name for c in self.design.categories]
        return names.index(self.variable.name) if self.variable.name in names else None

    @cached_property
    def _columns_of(self) -> list[DesignColumn]:
        """The columns that the variable is part of."""
        own = set(self._factors)
        return [c for c in self.design.columns if own & set(c.numbers) or any(i == self._own for i, _ in c.cells)]

    @cached_property
    def _numbers(self) -> list[int]:
        """Numbers that the variable is multiplied with."""
        return sorted({i for column in self._columns_of for i in column.numbers} - set(self._factors))

    def _groups(self) -> list[dict[int, int]]:
        """Return levels of the categories that the variable is multiplied with, where it has a coefficient of its own.

        Categories of different terms do not cross: of a:x + b:x there are about as many groups as coefficients. A column that
        leaves out a category of its term, since a higher one has it, is that of the reference level.
        """
        told = {frozenset(cell for cell in c.cells if cell[0] != self._own) for c in self._columns_of}
        crossed = {frozenset(category for category, _ in cells) for cells in told}
        found = {
            tuple(sorted({**{c: self.design.categories[c].reference for c in some}, **dict(cells)}.items()))
            for some in crossed if not any(some < more for more in crossed)
            for cells in told if {c for c, _ in cells} <= some
        }  # fmt: skip
        return [dict(one) for one in sorted(found)]

    def moves(self, known: Mapping[str, Variable]) -> Iterator[tuple[dict[Variable, tuple[int, ...]], Numbers]]:
        """Yield each group of records, and the moves of a value there; shape (moves, columns)."""
        numbers, ends = self._numbers, _corners(len(self._numbers))
        for at in self._groups():
            cells: dict[Variable, tuple[int, ...]] = {
                known[self.design.categories[c].name]: (i,) for c, i in at.items()
            }
            if self._factors:
                made = self._columns(at, numbers, ends, True) - self._columns(at, numbers, ends, False)
                yield cells, made
            if self._own is not None:
                category = self.design.categories[self._own]
                back = self._columns({**at, self._own: category.reference}, numbers, ends, True)
                for level in category.shown:
                    if level != category.reference:
                        made = self._columns({**at, self._own: level}, numbers, ends, True) - back
                        yield {**cells, known[category.name]: (level,)}, made

    def _columns(self, levels: dict[int, int], numbers: list[int], ends: NDArray[np.bool_], upper: bool) -> Numbers:
        """Return the columns of made-up records, one for each choice of ends; shape (choices, columns)."""
        layout, n = self.layout, len(ends)
        values = np.zeros((len(self.design.numbers), n))
        for i in self._factors:
            values[i] = self._read(i, self.bounds[i].high if upper else self.bounds[i].low)
        for place, i in enumerate(numbers):
            low, high = self._read(i, self.bounds[i].low), self._read(i, self.bounds[i].high)
            values[i] = np.where(ends[:, place], high, low)
        codes = [np.full(n, levels.get(c, one.reference)) for c, one in enumerate(self.design.categories)]
        made = self.design.matrix(values, codes, n)
        return np.asarray((made if layout.turn is None else layout.turn @ made).T)

    def _read(self, i: int, value: float) -> float:
        layout = self.layout
        return float((value - layout.centre[i] - layout.rest[i]) / layout.scale[i])


def _corners(n: int) -> NDArray[np.bool_]:
    """Return choices of the lower or upper end of n numbers; shape (choices, n)."""
    if 2**n > _PATTERNS:
        return np.array([[False] * n, [True] * n])
    return np.array(list(product((False, True), repeat=n)), bool).reshape(2**n, n)
