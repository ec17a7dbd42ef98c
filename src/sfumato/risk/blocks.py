"""Parts of a log-linear model that can be fitted apart: keys that hang together by more than one key between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import NotApplicable
from sfumato.kernels.classes import find_rows

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
Margin = tuple[int, ...]
CYCLES, TOLERANCE = 200, 0.01
"""Rounds of proportional fitting, and how far the margins may be off when it stops, in standard errors of a count."""


def blocks_of(margins: Sequence[Margin], keys: int) -> list[Margin]:
    """Return the blocks of the graph whose edges join keys of one margin: what removing a single key does not take apart.

    Two blocks share one key at most, and given that key the rest of them is independent under the model.

    >>> blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
    [(0, 1, 2), (2, 3), (4,)]
    """
    edges = {pair for margin in margins for pair in combinations(margin, 2)}

    def split(part: frozenset[int]) -> list[frozenset[int]]:
        whole = _connected(part, edges)
        if len(whole) > 1:
            return [block for piece in whole for block in split(piece)]
        for key in sorted(part):
            pieces = _connected(part - {key}, edges)
            if len(pieces) > 1:
                return [block for piece in pieces for block in split(piece | {key})]
        return [part]

    return sorted(tuple(sorted(block)) for block in split(frozenset(range(keys))))


def _connected(part: frozenset[int], edges: set[tuple[int, int]]) -> list[frozenset[int]]:
    """Return the connected components of a part of the graph."""
    left, found = set(part), []
    while left:
        reached, new = set(), {min(left)}
        while new:
            reached |= new
            new = {b for a in new for b in part if (min(a, b), max(a, b)) in edges} - reached
        found.append(frozenset(reached))
        left -= reached
    return found


@dataclass(frozen=True, eq=False)
class Block:
    """The fitted table of one block's keys, which are some of the file's."""

    keys: Margin
    levels: tuple[int, ...]
    """Of these keys."""
    cells: Codes
    """Cells that the model allows, in lexical order, shape (k, keys)."""
    fitted: Numbers
    """Expected counts, shape (k,)."""
    places: NDArray[np.int32]
    """Where in the margins each cell is counted, shape (margins, k)."""
    size: int
    """Cells of all margins together."""

    @classmethod
    def fit(
        cls, codes: Codes, sizes: Numbers, levels: Sequence[int], keys: Margin, margins: Sequence[Margin], most: int
    ) -> Block:
        """Fit counts of cells by all keys, shapes (c, all keys) and (c,); refuse more than `most` cells times margins."""
        from sfumato.kernels import loglinear

        own = [tuple(keys.index(key) for key in margin) for margin in margins]
        mine, few = np.ascontiguousarray(codes[:, keys]), tuple(levels[key] for key in keys)
        limit = most // len(own)
        cells = loglinear.feasible_cells(few, mine, own, limit)
        if cells is None:
            raise NotApplicable(
                f"with these interactions the keys have more than {limit:,} cells to fit. Use fewer keys, coarser ones, or "
                "interactions='main'."
            )
        shape = loglinear.layout(few, own)
        places, size = loglinear.places_of(cells, *shape), int(shape[2][-1])
        targets = loglinear.gather(loglinear.places_of(mine, *shape), sizes, size)
        fitted, worst = loglinear.proportional_fit(places, targets, shape[2], TOLERANCE, CYCLES)
        if worst > 30 * TOLERANCE:
            raise NotApplicable("the log-linear model did not settle. Use fewer interactions, or coarser keys.")
        return cls(keys, few, cells, fitted, places, size)

    def at(self, codes: Codes) -> Numbers:
        """Return the expected counts of this block's keys in cells by all keys, shape (c, all keys) to (c,)."""
        return self.fitted[find_cells(self.cells, codes[:, self.keys], self.levels)]

    def dense(self) -> Numbers:
        """Return the fitted table with an axis for each of its keys; 0 in cells that the model does not allow."""
        table = np.zeros(math.prod(self.levels))
        table[np.ravel_multi_index(tuple(self.cells.T), self.levels)] = self.fitted
        return table.reshape(self.levels)

    def gathered(self, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of cells by all keys added up by this block's cells, shape (k,)."""
        place = find_cells(self.cells, codes[:, self.keys], self.levels)
        return np.bincount(place, amounts, len(self.cells)).astype(np.float64)

    def variance(self, slopes: Numbers) -> float:
        """Return the variance of Σ slopes × log(expected count), slopes of shape (k,)."""
        from sfumato.kernels import loglinear

        return loglinear.fitted_variance(self.places, self.fitted, slopes, self.size)


def find_cells(every: Codes, asked: Codes, levels: Sequence[int]) -> NDArray[np.int64]:
    """Return the rows of `every`, cells in lexical order, that hold the cells asked for; shapes (k, keys), (c, keys) to (c,)."""
    if math.prod(levels) >= 2**62:
        return find_rows(list(every.T), list(asked.T))
    here, wanted = (np.ravel_multi_index(tuple(codes.T), tuple(levels)) for codes in (every, asked))
    return np.asarray(np.searchsorted(here, wanted), np.int64)
