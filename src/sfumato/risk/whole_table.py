"""The expected counts of all cells of a table: by an axis per key where that is small enough, else as a list of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.classes import classes
from sfumato.risk.blocks import Block, find_cells

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
Margin = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Dense:
    """Expected counts with an axis per key; 0 in cells that the model does not allow."""

    fitted: Numbers

    def counts(self, codes: Codes, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Return observed and expected counts of all cells that the model allows; given are those that occur."""
        observed = np.zeros(self.fitted.shape)
        observed[tuple(codes.T)] = sizes
        allowed = self.fitted > 0
        return observed[allowed], self.fitted[allowed]

    def sums(self, keys: Margin, codes: Codes) -> Numbers:
        """Return the sums over all cells that agree with some codes of these keys, shape (r, keys) to (r,)."""
        return np.asarray(self.fitted.sum(axis=self._others(keys)).reshape(-1)[self._places(keys, codes)], np.float64)

    def shared(self, keys: Margin, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of some codes of these keys shared out among the cells that agree, by their expected counts."""
        shape = [self.fitted.shape[key] for key in keys]
        each = _quotient(amounts, self.sums(keys, codes))
        share = np.bincount(self._places(keys, codes), each, math.prod(shape)).reshape(shape)
        return np.expand_dims(share, self._others(keys)) * self.fitted

    def onto(self, block: Block, amounts: Numbers) -> Numbers:
        """Return amounts of all cells added up by the cells of a block, shape (k,)."""
        return np.asarray(amounts.sum(axis=self._others(block.keys))[tuple(block.cells.T)], np.float64)

    def _places(self, keys: Margin, codes: Codes) -> NDArray[np.int64]:
        """Return where codes of these keys stand in the table of them alone, shape (r,)."""
        if not keys:
            return np.zeros(len(codes), np.int64)
        return np.asarray(np.ravel_multi_index(tuple(codes.T), [self.fitted.shape[key] for key in keys]), np.int64)

    def _others(self, keys: Margin) -> Margin:
        return tuple(key for key in range(self.fitted.ndim) if key not in keys)


@dataclass(frozen=True, eq=False)
class Listed:
    """The same of cells in lexical order, shape (k, keys)."""

    cells: Codes
    fitted: Numbers
    levels: tuple[int, ...]

    def counts(self, codes: Codes, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Return observed and expected counts of all cells."""
        observed = np.zeros(len(self.cells))
        observed[find_cells(self.cells, codes, self.levels)] = sizes
        return observed, self.fitted

    def sums(self, keys: Margin, codes: Codes) -> Numbers:
        """Return the sums over all cells that agree with some codes of these keys."""
        here, asked, size = self._places(keys, codes)
        return np.asarray(np.bincount(here, self.fitted, size)[asked], np.float64)

    def shared(self, keys: Margin, codes: Codes, amounts: Numbers) -> Numbers:
        """Return amounts of some codes of these keys shared out among the cells that agree, by their expected counts."""
        here, asked, size = self._places(keys, codes)
        share = _quotient(amounts, self.sums(keys, codes))
        return np.bincount(asked, share, size)[here] * self.fitted

    def onto(self, block: Block, amounts: Numbers) -> Numbers:
        """Return amounts of all cells added up by the cells of a block."""
        return block.gathered(self.cells, amounts)

    def _places(self, keys: Margin, codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return which combination of these keys each cell and each asked for has, and how many there are."""
        both = np.vstack([self.cells[:, keys], codes])
        place, sizes = classes(list(both.T), len(both))
        return place[: len(self.cells)], place[len(self.cells) :], len(sizes)


def _quotient(amounts: Numbers, sums: Numbers) -> Numbers:
    return np.divide(amounts, sums, out=np.zeros(len(amounts)), where=sums > 0)
