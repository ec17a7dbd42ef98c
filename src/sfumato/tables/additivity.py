"""Whether a table that somebody gives adds up: every margin against the cells directly below it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, listing, some
from sfumato.tables.cells import Cells
from sfumato.tables.tree import Tree

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


def strides(trees: Sequence[Tree]) -> Whole:
    """Return what the labels' positions, one more than which is counted, are multiplied by to give each cell a number."""
    sizes = [len(t.labels) + 1 for t in trees]
    if math.prod(sizes) >= 2**62:
        raise ParameterError("the table has too many dimensions with too many labels. Ask for fewer at a time.")
    return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def positions(cells: Cells, trees: Sequence[Tree]) -> Whole:
    """Return where each cell's labels stand in their trees, -1 for the total; shape (cells, dimensions)."""
    columns = [[t.position[label] for label in cells.labels[:, i]] for i, t in enumerate(trees)]
    return np.array(columns, np.int64).reshape(len(trees), len(cells)).T


@dataclass(frozen=True, eq=False)
class Sums:
    """In each dimension, the cell directly above every cell: the equations that make a table additive."""

    cells: Cells
    trees: Sequence[Tree]
    above: tuple[Whole, ...]
    """For each dimension the position of the cell above, -1 where there is none; each of shape (cells,)."""
    place: Mapping[int, int]
    """The position of the cell with a key; see `strides`."""

    @classmethod
    def of(cls, cells: Cells, trees: Sequence[Tree]) -> Sums:
        """Return the equations of a table."""
        codes = positions(cells, trees)
        stride = strides(trees)
        keys = (codes + 1) @ stride
        order = np.argsort(keys)
        above = []
        for i, tree in enumerate(trees):
            up = np.append(tree.parents, -1)[codes[:, i]]
            wanted = keys + (up - codes[:, i]) * stride[i]
            at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
            above.append(np.where((codes[:, i] >= 0) & (keys[at] == wanted), at, -1))
        return cls(cells, trees, tuple(above), dict(zip(keys.tolist(), range(len(keys)), strict=True)))

    def find(self, codes: Whole) -> Whole:
        """Return the positions of cells by the positions of their labels (-1 for the total), shape (n, dimensions)."""
        return np.array([self.place[k] for k in ((codes + 1) @ strides(self.trees)).tolist()], np.int64)

    def check(self, values: Numbers, given: NDArray[np.bool_], half: float, what: str) -> None:
        """Refuse values, shape (cells,), that do not add up; `half` is by how much rounding may have moved a given one.

        A cell of n others that were rounded each on its own may differ from their sum by n + 1 halves of the last digit. One
        that was not given is the sum of its leaves, and may be off by a half for each of them.
        """
        error = np.where(given, half, half * self.cells.sizes)
        wrong: dict[int, list[str]] = {}
        for i, tree in enumerate(self.trees):
            child = np.flatnonzero(self.above[i] >= 0)
            parent = self.above[i][child]
            total, slack, size, parts, leaves = (
                np.bincount(parent, v[child], len(self.cells))
                for v in (values, error, np.abs(values), np.ones(len(values)), self.cells.sizes)
            )
            # only where the cells below have all leaves between them: a margin may be broken down in other places only;
            # and only margins that were given: one that was not is the sum of its leaves, as the cells below it must be
            whole = given & (leaves == self.cells.sizes)
            room = slack + error + 1e-9 * (size + np.abs(values))
            for cell in np.flatnonzero(whole & (np.abs(values - total) > room)).tolist():
                gone = tree.known.get(self.cells.labels[cell, i], 0) - int(parts[cell])
                absent = f", where {some(gone, 'label')} of the hierarchy {'is' if gone == 1 else 'are'} absent"
                wrong.setdefault(cell, []).append(f"over {tree.name}{absent if gone > 0 else ''}")
        if wrong:  # by how much is not said: it may be what a single contributor gave
            names = [f"{self.cells.name(cell)} ({'; '.join(over)})" for cell, over in wrong.items()]
            nest = ""
            for tree in self.trees:
                if (tree.parents < 0).all() and sum(f"over {tree.name}" in over for over in wrong.values()) > 1:
                    name = tree.name
                    nest = (
                        f" If labels of '{name}' are sums of others, say how they nest (dimensions={{'{name}': ...}})."
                    )
            raise DataError(
                f"{what} not add up: {some(len(names), 'cell')} {'is' if len(names) == 1 else 'are'} not the sum of the cells "
                f"below: {listing(names, 6)}. Correct the cells; a cell that is not in the table counts as empty.{nest} If they "
                "were rounded, say to how many digits (decimals=...); to replace all margins by sums, use margins='compute'."
            )

    def check_larger(self, values: Numbers, room: Numbers, what: str) -> None:
        """Refuse values, shape (cells,), of which a cell has less than one below it, `room` apart."""
        wrong: dict[int, None] = {}
        for above in self.above:
            child = np.flatnonzero(above >= 0)
            less = values[above[child]] < values[child] - room[above[child]] - room[child] - 1e-9 * np.abs(
                values[child]
            )
            wrong.update(dict.fromkeys(above[child[less]].tolist()))
        if wrong:
            raise DataError(
                f"{some(len(wrong), 'cell')} {'has' if len(wrong) == 1 else 'have'} {what} than a cell below: "
                f"{listing((self.cells.name(c) for c in wrong), 6)}. Whoever contributes to a cell contributes to those above it."
            )
