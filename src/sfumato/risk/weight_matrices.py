"""Weight matrices of the weighted global risk: how much a record counts by the sizes of its classes (global-risk paper, 3.4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Parametric, param
from sfumato.errors import NotApplicable, ParameterError, some

Numbers = NDArray[np.float64]
Sizes = NDArray[Any]

_CHECKED = 400
"""A matrix that is not proven to be right is checked for classes up to this size."""


class WeightMatrix(Parametric, family="weight_matrix", abstract=True):
    """A weight w_ij for a record in a class of i released records and of j original ones.

    It is a function, so that the t × n matrix is never formed. Only ratios to w_11 matter: that the weights add up to n, as the
    paper has it, is mere scaling.
    """

    proven: ClassVar[bool] = False
    """Whether the properties follow from the formula, whatever the parameters."""
    by_larger: ClassVar[bool] = False
    """Whether w_ij depends on the larger of i and j alone: then a key that was not changed can only help a snooper."""

    @abstractmethod
    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return w_ij for arrays of sizes, from 1 up."""

    def check(self, released: int, originals: int) -> None:
        """Refuse a matrix that lacks one of the properties, for so many records in each file."""
        if not self.proven:
            rows, columns = (np.arange(1, min(size, _CHECKED) + 1) for size in (released, originals))
            check_properties(self.at(rows[:, None], columns[None, :]))

    def most(self, i: Sizes, j: Sizes, released: int, originals: int) -> Numbers:
        """Return max w_ab / max(a, b) over a >= i, b >= j: what a record can count at most with fewer keys.

        With m = max(i, j) it is w_mm / m, or what stands nearest to w_mm past the last row or column: weights rise towards the
        diagonal and fall along it.
        """
        m = np.maximum(i, j)
        return np.asarray(self.at(np.minimum(m, released), np.minimum(m, originals)) / m)


class UniqueWeights(WeightMatrix):
    """Only records that are alone in their class in both files count: the minimal risk."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return 1 for i = j = 1, else 0."""
        return np.asarray(np.maximum(i, j) == 1, np.float64)


class EqualWeights(WeightMatrix):
    """All records count alike: the maximal risk."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return 1."""
        return np.ones(np.broadcast(i, j).shape)


class ThresholdWeights(WeightMatrix):
    """Records count in full in classes of up to so many, and not at all beyond: larger classes are thought to be safe."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    largest: int = param(default=3, doc="largest class that counts, in either file", low=1, integer=True)

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return 1 for max(i, j) <= largest, else 0."""
        return np.asarray(np.maximum(i, j) <= self.largest, np.float64)


class PowerWeights(WeightMatrix):
    """Weights fall as a power of the size of the larger class."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    power: float = param(default=1.0, doc="how fast weights fall; 0 is the maximal risk", low=0, high=100)

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return max(i, j) to the minus power."""
        return np.asarray(np.maximum(i, j).astype(np.float64) ** -self.power)


class GeometricWeights(WeightMatrix):
    """Weights fall by the same factor with each further record in the larger class."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    ratio: float = param(default=0.5, doc="weight of a class compared with that of a class smaller by 1", low=0, high=1)

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return ratio to the power max(i, j) - 1."""
        return np.asarray(self.ratio ** (np.maximum(i, j) - 1.0))


class StabilityWeights(WeightMatrix):
    """Weights fall with the size of the larger class, and with the difference between the two: linked counts give confidence.

    They do not depend on the larger size alone, so that leaving out a key can help a snooper even if the key was not changed.
    """

    proven: ClassVar[bool] = True

    ratio: float = param(default=0.9, doc="factor for each further record in the larger class", low=0, high=1)
    apart: float = param(default=0.5, doc="factor for each record by which the two classes differ", low=0, high=1)

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return ratio to the power max(i, j) - 1, times apart to the power |i - j|."""
        larger, smaller = np.maximum(i, j), np.minimum(i, j)
        return np.asarray(self.ratio ** (larger - 1.0) * self.apart ** (larger - smaller).astype(np.float64))


class GivenWeights(WeightMatrix):
    """A matrix written out by the custodian, checked as a whole.

    A square one serves files of any size: classes past its end count for nothing. Any other must have one row for each released
    record and one column for each original one.
    """

    matrix: Sequence[Sequence[float]] = param(doc="rows of weights: released class size by original class size")

    def validate(self) -> None:
        """Check the shape, and the properties."""
        try:
            table = np.array([list(row) for row in self.matrix], np.float64)
        except (TypeError, ValueError):
            table = np.empty(0)
        if table.ndim != 2 or not table.size or not np.isfinite(table).all():
            raise ParameterError(
                "a weight matrix is given by its rows, numbers of the same count in each: [[1, 0.1], [0.1, 0.8]]."
            )
        check_properties(table)
        object.__setattr__(self, "matrix", tuple(tuple(row) for row in table.tolist()))

    def check(self, released: int, originals: int) -> None:
        """Refuse a matrix of another shape than that of the files."""
        rows, columns = len(self.matrix), len(self.matrix[0])
        if rows != columns and (rows, columns) != (released, originals):
            raise NotApplicable(
                f"the weight matrix has {some(rows, 'row')} and {some(columns, 'column')}, but there are "
                f"{some(released, 'released record')} and {some(originals, 'original one')}. "
                "Give a square one, or one of that size."
            )

    def at(self, i: Sizes, j: Sizes) -> Numbers:
        """Return the entries, 0 past the end."""
        table = np.pad(np.array(self.matrix), ((0, 1), (0, 1)))
        return np.asarray(table[np.minimum(i, len(table)) - 1, np.minimum(j, table.shape[1]) - 1])


# -- the properties that the paper lists


def check_properties(w: Numbers) -> None:
    """Refuse a weight matrix, shape (t, n), that lacks a property, and name the property.

    The properties are those of the global-risk paper, section 3, with what is misprinted there put right, and with the two that
    its proofs use without saying so.
    """
    if broken := broken_property(w):
        raise ParameterError(f"this is no weight matrix: {broken}")


def broken_property(w: Numbers) -> str:
    """Return the first property that a matrix lacks, in words; "" if it has them all. Shape (t, n), rows for released classes."""
    t, n = w.shape
    if (w < 0).any():
        return "a weight is negative (w_ij >= 0)."
    if not w[0, 0] > 0:
        return "the weight of records that are unique in both files is not above zero (w_11 > 0)."
    row, column = np.arange(1, t + 1)[:, None], np.arange(1, n + 1)[None, :]
    right, down, along = w[:, 1:] - w[:, :-1], w[1:] - w[:-1], w[1:, 1:] - w[:-1, :-1]
    upper, lower = (column >= row)[:, :-1], (column > row)[:-1]
    start = (column - row)[1:, 1:]  # 0 on the main diagonal, j - 1 on the one that begins at w_1j
    rules: list[tuple[int, Any, str]] = [
        (1, upper & (right > 0), "rows must fall to the right of the diagonal (w_jj >= w_j,j+1 >= … >= w_jn)"),
        (2, lower & (column <= t) & (down < 0), "columns must rise down to the diagonal (w_1j <= w_2j <= … <= w_jj)"),
        (3, lower & (column > t) & (down < 0), "columns past the last row must rise (w_1j <= w_2j <= … <= w_tj)"),
        (
            4,
            (start >= 0) & (start + 1 <= n - t) & (along > 0),
            "diagonals must fall (w_1j >= w_2,j+1 >= … >= w_t,t+j-1)",
        ),
        (
            5,
            (start >= 0) & (start + 1 > n - t) & (along > 0),
            "shorter diagonals must fall (w_1j >= w_2,j+1 >= … >= w_n-j+1,n)",
        ),
        (6, ~lower & (down > 0), "columns must fall below the diagonal (w_jj >= w_j+1,j >= … >= w_tj)"),
        (7, ~upper & (right < 0), "rows must rise up to the diagonal (w_j1 <= w_j2 <= … <= w_jj)"),
        (8, (start < 0) & (along > 0), "lower diagonals must fall (w_j1 >= w_j+1,2 >= … >= w_t,t-j+1)"),
    ]
    for number, wrong, says in rules:
        if np.any(wrong):
            return f"property {number} does not hold, {says}."
    return ""
