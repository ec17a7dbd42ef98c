"""Which class a record was in, and which it is in now: the classification matrix (global-risk paper, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Classes, Missing, classes_of, gaps_of
from sfumato.contract import Release, Snooper
from sfumato.errors import NotApplicable
from sfumato.kernels.classes import classes
from sfumato.risk.changes import Pairs
from sfumato.risk.keys import key_names, released_classes

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassificationMatrix:
    """c_ij: records in a class of i released records, and in a class of j original ones; only entries that are not zero.

    Simulated records count in the sizes of classes, but have no row of their own: they came from nobody.
    """

    released: Counts
    """i of each entry, shape (e,)."""
    original: Counts
    """j of each entry, shape (e,)."""
    counts: Counts
    """How many records, shape (e,); together r, the records that are in both files."""

    @property
    def larger(self) -> Counts:
        """max(i, j) of each entry, shape (e,)."""
        return np.maximum(self.released, self.original)


@dataclass(frozen=True, eq=False)
class Crossed:
    """The classes of the original and of the release, and how many records went from which to which."""

    before: Classes
    after: Classes
    left: Counts
    """Class in the original, shape (c,)."""
    right: Counts
    """Class in the release, shape (c,)."""
    counts: Counts
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

    def sizes(self, names: Sequence[str]) -> tuple[Counts, Counts]:
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

    def pairs(self, name: str) -> Pairs:
        """Return what became of the values of one key; an interval stands as the number where it begins."""
        k = self.names.index(name)
        before, after = self.before.values[k], self.after.values[k]
        if width := self.widths.get(name):
            before, after = ([number * width for number in values] for values in (before, after))
        return Pairs(self.before.codes[k][self.left], self.after.codes[k][self.right], self.counts, before, after)

    def per_matched(self, outcome: Release, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Spread values of the rows over the records that are in both files, shape (r,); NaN for one that is left out."""
        at, to = _labels(outcome, self.before, self.after)
        width = len(self.after)
        row = np.searchsorted(self.left * width + self.right, np.asarray(at, np.int64) * width + to)
        spread = np.append(values, np.nan)[np.minimum(row, len(values))]
        return np.where((at >= 0) & (to >= 0), spread, np.nan)


def _matches(side: Classes, names: Sequence[str]) -> Counts:
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


def _numbered(sizes: Counts) -> tuple[Counts, Counts]:
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


def _added(cells: Counts, amounts: Counts, room: int) -> tuple[Counts, Counts]:
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


def _tallied(
    at: Counts, to: Counts, counts: Counts | None, before: Classes, width: int
) -> tuple[Counts, Counts, Counts]:
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
        from sfumato.kernels.sorting import whole_number_runs

        pairs, _, many = whole_number_runs(packed)
    else:
        pairs, many = _added(packed, counts, len(packed) ** 2)
    return pairs // width, pairs % width, many.astype(np.int64)


def _labels(outcome: Release, before: Classes, after: Classes) -> tuple[Counts, Counts]:
    """Return the class of each record that is in both files, in the original and in the release, shape (r,) each."""
    left, right = outcome.matched
    if left is None or right is None:
        return before.labels, after.labels
    return before.labels[left], after.labels[right]
