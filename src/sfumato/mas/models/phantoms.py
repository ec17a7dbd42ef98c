"""Keyed noise on the cross-products of confidential predictors: records that are not there.

Standard errors and sums of squares tell X'X, and in a small group one value far out makes up much of it. Where the policy has
noise, X'X has g ΔΔ′ more for each confidential predictor and each group of records in which it has a coefficient of its own. Δ is
what the columns of a record change by when its value moves from one end of the range to the other, or from the reference to
another level; g is normal, and its standard deviation that of the noise on X'y, in ranges. The phantoms lie on the fitted
plane, so that they change neither coefficients nor residuals, and Δ is 0 in a constant, so that n and Σy stay, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.models.algebra import DEPENDENT, inverse, smallest
from sfumato.mas.models.complete import Complete
from sfumato.mas.models.design import Design, DesignColumn
from sfumato.mas.models.layout import Layout
from sfumato.mas.models.noise import drawn_of, key_of, unit_of
from sfumato.mas.models.numbers import Bounds, Numbers
from sfumato.mas.variable import Variable

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
