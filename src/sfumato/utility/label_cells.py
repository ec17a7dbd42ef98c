"""Which cells of a table the released labels stand for: a label of a broader category is spread evenly over what it covers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.classes import row_finder

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
Places = NDArray[np.int64]

_ROOM = 2**22
"""So many parts of labels are in memory at once, or those of one combination of labels."""


@dataclass(frozen=True, eq=False)
class LabelCells:
    """Label i stands for cell i, for the m cells of a column; of each further label a share lies in some of the cells.

    A label that is not mentioned stands for no cell at all.
    """

    count: int
    """m."""
    label: Places
    """The further labels, m or more, in rising order, once for each of their cells; shape (t,)."""
    cell: Places
    share: Numbers

    @classmethod
    def none(cls, count: int) -> LabelCells:
        """Return the labels of `count` cells, and no others."""
        return cls(count, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def of(cls, labels: Places, count: int, label: Places, cell: Places, times: Places) -> tuple[Codes, LabelCells]:
        """Return the labels of the records, shape (n,), and what they stand for; `times` says how often a label has a cell.

        A label that has but one cell becomes that of the cell.
        """
        sizes, total = np.bincount(label), np.bincount(label, times)
        lone = sizes[label] == 1
        own = np.arange(max(len(sizes), int(labels.max(initial=0)) + 1))
        own[label[lone]] = cell[lone]
        several = ~lone
        spread = cls(count, label[several], cell[several], (times / total[label])[several])
        return own[labels].astype(np.int32), spread

    @cached_property
    def layers(self) -> list[tuple[Codes, Numbers]]:
        """For each cell a label that has it and how much of the label, shape (m,) each; as often as the most labels of a cell."""
        depth = np.zeros(len(self.cell), np.int64)
        order = np.argsort(self.cell, kind="stable")
        sizes = np.bincount(self.cell, minlength=self.count)
        depth[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
        layers = [(np.arange(self.count, dtype=np.int32), np.ones(self.count))]
        for level in range(1, int(sizes.max(initial=0)) + 1):
            here = depth == level
            label, share = np.full(self.count, self._nobody, np.int32), np.zeros(self.count)
            label[self.cell[here]], share[self.cell[here]] = self.label[here], self.share[here]
            layers.append((label, share))
        return layers

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return 1 + int(np.bincount(self.cell, minlength=1).max())

    @cached_property
    def sizes(self) -> Places:
        """How many cells each label has; the last one has none, and stands for all labels that are not mentioned."""
        sizes = np.bincount(self.label, minlength=self._nobody + 1)
        sizes[: self.count] = 1
        return sizes

    def known(self, labels: Codes) -> Codes:
        """Return labels, all that stand for no cell as one; shape (n,)."""
        return np.minimum(labels, self._nobody)

    def parts(self, labels: Codes) -> tuple[Places, Places, Numbers]:
        """Return the parts of some known labels: the place of the label they belong to, the cell, and the share; (s,) each."""
        sizes = self.sizes[labels]
        starts = (np.cumsum(self.sizes) - self.sizes)[labels]
        of = np.repeat(np.arange(len(labels)), sizes)
        at = starts[of] + np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of]
        cells = np.concatenate([np.arange(self.count), self.cell])
        return of, cells[at], np.concatenate([np.ones(self.count), self.share])[at]

    @property
    def _nobody(self) -> int:
        """A label that no record has: one past the last."""
        return int(self.label[-1]) + 1 if len(self.label) else self.count


def spread_amounts(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells]
) -> Numbers:
    """Return how much lies in each of c combinations of cells, from the amounts of r combinations of labels; shape (c,).

    `cells` (c,) and `labels` (r,) have one array for each of the columns. Either each combination of cells collects what its
    labels hold, or the labels are taken apart: whichever is less work. Neither forms the cross product of all cells.
    """
    labels = [of.known(label) for of, label in zip(meaning, labels, strict=True)]
    parts = np.prod([of.sizes[label] for of, label in zip(meaning, labels, strict=True)], axis=0, dtype=np.float64)
    if parts.sum() < len(cells[0]) * math.prod(of.depth for of in meaning):
        return _taken_apart(cells, labels, amounts, meaning, parts)
    return _collected(cells, labels, amounts, meaning)


def _collected(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells]
) -> Numbers:
    found, find = np.zeros(len(cells[0])), row_finder(labels)
    for layers in itertools.product(*(of.layers for of in meaning)):
        row = find([label[cell] for (label, _), cell in zip(layers, cells, strict=True)])
        part = np.where(row < 0, 0.0, amounts[row]) if len(amounts) else np.zeros(len(row))
        for (_, share), cell in zip(layers, cells, strict=True):
            part = part * share[cell]
        found += part
    return found


def _taken_apart(
    cells: Sequence[Codes], labels: Sequence[Codes], amounts: Numbers, meaning: Sequence[LabelCells], parts: Numbers
) -> Numbers:
    found, find = np.zeros(len(cells[0])), row_finder(cells)
    chunk = (np.cumsum(parts) // _ROOM).astype(np.int64)
    for rows in np.split(np.arange(len(parts)), np.flatnonzero(np.diff(chunk)) + 1):
        amount, here = amounts[rows], list[Places]()
        for label, of in zip(labels, meaning, strict=True):
            whole, cell, share = of.parts(label[rows])
            amount, rows = amount[whole] * share, rows[whole]
            here = [*(column[whole] for column in here), cell]
        row = find(here)
        found += np.bincount(row[row >= 0], amount[row >= 0], len(found))
    return found
