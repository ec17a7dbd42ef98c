"""The classification matrix and the weights of the weighted global risk (global-risk paper, section 3)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import key_names
from sfumato.contract import Parametric, Release, Snooper, param
from sfumato.data.classes import Classes, Missing, classes_of, gaps_of
from sfumato.errors import NotApplicable, ParameterError, plural
from sfumato.kernels.classes import classes
from sfumato.risk.key_changes import ValuePairs
from sfumato.risk.keys import released_classes
from sfumato.typing import Numbers, Whole


@dataclass(frozen=True, eq=False)
class ClassificationMatrix:
    """c_ij: records in a class of i released records, and in a class of j original ones; only entries that are not zero.

    Simulated records count in the sizes of classes, but have no row of their own: they came from nobody.
    """

    released: Whole
    """i of each entry, shape (e,)."""
    original: Whole
    """j of each entry, shape (e,)."""
    counts: Whole
    """How many records, shape (e,); together r, the records that are in both files."""

    @property
    def larger(self) -> Whole:
        """max(i, j) of each entry, shape (e,)."""
        return np.maximum(self.released, self.original)


@dataclass(frozen=True, eq=False)
class Crossed:
    """The classes of the original and of the release, and how many records went from which to which."""

    before: Classes
    after: Classes
    left: Whole
    """Class in the original, shape (c,)."""
    right: Whole
    """Class in the release, shape (c,)."""
    counts: Whole
    """Records that are in both, shape (c,)."""
    widths: Mapping[str, float]
    """Width of the intervals by which a numeric key is told apart."""

    @property
    def names(self) -> tuple[str, ...]:
        """The keys."""
        return self.before.names

    @property
    def originals(self) -> int:
        """n: records of the original, but those that the rule for missing keys leaves out."""
        return int(self.before.sizes.sum())

    @property
    def released(self) -> int:
        """t: released records, simulated ones included, but those that the rule leaves out."""
        return int(self.after.sizes.sum())

    def sizes(self, names: Sequence[str]) -> tuple[Whole, Whole]:
        """Return i and j of each row: how many released and how many original records match on some of the keys."""
        after, before = (_matches(side, names)[at] for side, at in ((self.after, self.right), (self.before, self.left)))
        return after, before

    def matrix(self, names: Sequence[str]) -> ClassificationMatrix:
        """Return the classification matrix by some of the keys: each set of keys has its own."""
        key = frozenset(names)
        if key not in self._matrices:
            # sizes are few, whatever the number of classes: t records have less than √(2t) different ones
            rows, i = _numbered(_matches(self.after, names))
            columns, j = _numbered(_matches(self.before, names))
            cells = np.zeros(len(self.counts), np.int64)
            for place, sizes, at in ((i, rows, self.right), (j, columns, self.left)):
                if len(sizes) > 1:
                    cells = cells * len(sizes) + place[at]
            cell, counts = _added(cells, self.counts, len(rows) * len(columns))
            self._matrices[key] = ClassificationMatrix(rows[cell // len(columns)], columns[cell % len(columns)], counts)
        return self._matrices[key]

    @cached_property
    def _matrices(self) -> dict[frozenset[str], ClassificationMatrix]:
        return {}

    def pairs(self, name: str) -> ValuePairs:
        """Return what became of the values of one key; an interval stands as the number where it begins."""
        k = self.names.index(name)
        before, after = self.before.values[k], self.after.values[k]
        if width := self.widths.get(name):
            before, after = ([number * width for number in values] for values in (before, after))
        return ValuePairs(self.before.codes[k][self.left], self.after.codes[k][self.right], self.counts, before, after)

    def per_matched(self, outcome: Release, values: Numbers) -> Numbers:
        """Spread values of the rows over the records that are in both files, shape (r,); NaN for one that is left out."""
        at, to = _labels(outcome, self.before, self.after)
        width = len(self.after)
        row = np.searchsorted(self.left * width + self.right, np.asarray(at, np.int64) * width + to)
        spread = np.append(values, np.nan)[np.minimum(row, len(values))]
        return np.where((at >= 0) & (to >= 0), spread, np.nan)


def _matches(side: Classes, names: Sequence[str]) -> Whole:
    """Return for each class by all keys how many records match it on some of them."""
    codes = [side.codes[side.names.index(name)] for name in names]
    gaps = side.rule == "wildcard" and any((c < 0).any() for c in codes)
    if len(names) == len(side.names):
        return side.matches if gaps else side.sizes
    joined, count = classes(codes, len(side))
    if gaps:
        return np.asarray(side.among(names).matches[joined])
    if len(count) == len(side):  # no two classes by all keys agree on these
        return side.sizes
    return np.bincount(joined, side.sizes, len(count)).astype(np.int64)[joined]


def _numbered(sizes: Whole) -> tuple[Whole, Whole]:
    """Return the different sizes from the smallest up, and the place of each size among them."""
    there = np.bincount(sizes) > 0  # sizes are at most the number of records
    used = np.flatnonzero(there)
    return used, (np.cumsum(there) - 1)[sizes] if len(used) > 1 else np.zeros_like(sizes)


def crossed(outcome: Release, snooper: Snooper, missing: Missing) -> Crossed:
    """Return how the records of a release went from class to class, worked out once per release."""
    names = key_names(outcome, snooper)
    key = ("crossed", names, missing, tuple(sorted(snooper.precision.items())))
    if key not in outcome.memory:
        outcome.memory[key] = _crossed(outcome, snooper, names, missing)
    found: Crossed = outcome.memory[key]
    return found


def _crossed(outcome: Release, snooper: Snooper, names: tuple[str, ...], missing: Missing) -> Crossed:
    widths = snooper.precision
    # on a cluster records are matched where they are, and too many combinations refused before any are brought here
    gaps = gaps_of(outcome.original.schema, widths)
    groups = outcome.original.engine.cross(outcome.masked.engine, names, widths, gaps=gaps)
    after = released_classes(outcome, snooper, missing)
    before = classes_of(outcome.original, names, missing, None, widths)
    if not before.sizes.sum():
        why = "has no records" if not before.records else "has a missing key in every record, and those are left out"
        raise NotApplicable(f"the original {why}, so there is nobody to find.")
    if groups is None:
        at, to, counts = *_labels(outcome, before, after), None
    else:
        primed = {name: groups.columns[f"{name}′"] for name in names}
        at = before.find(groups.columns, outcome.original.schema, widths)
        to, counts = after.find(primed, outcome.masked.schema, widths), groups.counts
    return Crossed(before, after, *_tallied(at, to, counts, before, len(after)), widths)


def _added(cells: Whole, amounts: Whole, room: int) -> tuple[Whole, Whole]:
    """Return the cells that occur, in order, and the sum of the amounts of each."""
    if room <= 4 * len(cells) + 1024:
        sums = np.zeros(room, np.int64)
        np.add.at(sums, cells, amounts)
        used = np.flatnonzero(sums)
        return used, sums[used]
    used, member = np.unique(cells, return_inverse=True)
    sums = np.zeros(len(used), np.int64)
    np.add.at(sums, member, amounts)
    return used, sums


def _tallied(at: Whole, to: Whole, counts: Whole | None, before: Classes, width: int) -> tuple[Whole, Whole, Whole]:
    """Return the pairs of classes that occur, in order, and how many records have them."""
    kept = (at >= 0) & (to >= 0)
    if not kept.all():
        at, to, counts = at[kept], to[kept], None if counts is None else counts[kept]
    if counts is None and len(before) == before.sizes.sum():  # every record is alone, so that there is nothing to count
        place = np.full(len(before), -1, np.int64)
        place[at] = to
        left = np.flatnonzero(place >= 0)
        return left, place[left], np.ones(len(left), np.int64)
    packed = np.asarray(at, np.int64) * width + to
    if counts is None:
        pairs, _, many = kernels.sorting.whole_number_runs(packed)
    else:
        pairs, many = _added(packed, counts, len(packed) ** 2)
    return pairs // width, pairs % width, many.astype(np.int64)


def _labels(outcome: Release, before: Classes, after: Classes) -> tuple[Whole, Whole]:
    """Return the class of each record that is in both files, in the original and in the release, shape (r,) each."""
    left, right = outcome.matched
    if left is None or right is None:
        return before.labels, after.labels
    return before.labels[left], after.labels[right]


# --- Weight matrices of the weighted global risk: how much a record counts by the sizes of its classes (global-risk paper, 3.4).

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
        """Refuse a matrix that lacks one of the properties, for the numbers of released and original records."""
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


class WeightsByLarger(WeightMatrix, abstract=True):
    """Weights that depend on the larger of the two sizes alone, and do not rise with it."""

    proven: ClassVar[bool] = True
    by_larger: ClassVar[bool] = True

    @abstractmethod
    def of_larger(self, size: Sizes) -> Numbers:
        """Return the weight of classes of which the larger has this size, from 1 up."""

    @override
    def at(self, i: Sizes, j: Sizes) -> Numbers:
        return np.asarray(self.of_larger(np.maximum(i, j)), np.float64)


class UniqueWeights(WeightsByLarger):
    """Only records that are alone in their class in both files count: the minimal risk."""

    @override
    def of_larger(self, size: Sizes) -> Numbers:
        return np.asarray(size == 1)


class EqualWeights(WeightsByLarger):
    """All records count alike: the maximal risk."""

    @override
    def of_larger(self, size: Sizes) -> Numbers:
        return np.ones(size.shape)


class ThresholdWeights(WeightsByLarger):
    """Records count in full in classes of up to `largest` records, and not at all in larger ones, which are thought to be safe."""

    largest: int = param(default=3, doc="largest class that counts, in either file", low=1, integer=True)

    @override
    def of_larger(self, size: Sizes) -> Numbers:
        return np.asarray(size <= self.largest)


class PowerWeights(WeightsByLarger):
    """Weights fall as a power of the size of the larger class."""

    power: float = param(default=1.0, doc="how fast weights fall; 0 is the maximal risk", low=0, high=100)

    @override
    def of_larger(self, size: Sizes) -> Numbers:
        return np.asarray(size.astype(np.float64) ** -self.power)


class GeometricWeights(WeightsByLarger):
    """Weights fall by the same factor with each further record in the larger class."""

    ratio: float = param(default=0.5, doc="weight of a class compared with that of a class smaller by 1", low=0, high=1)

    @override
    def of_larger(self, size: Sizes) -> Numbers:
        return np.asarray(self.ratio ** (size - 1.0))


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

    @override
    def validate(self) -> None:
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
                f"the weight matrix has {plural(rows, 'row')} and {plural(columns, 'column')}, but there are "
                f"{plural(released, 'released record')} and {plural(originals, 'original one')}. "
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
