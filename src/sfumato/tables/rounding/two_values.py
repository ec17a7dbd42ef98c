"""One of two values for each of some leaves, so that all published sums change little."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_NEAR = (1024, 256, 64, 16)  # leaves are tried together if they share a cell of at most so many
_WORK = 2e7  # of looking at a cell's error: how much there may be in one round
_ROUNDS = 100


class Choice:
    """A choice between a lower and an upper change for each of some leaves, and the errors of the cells that it gives.

    `rows` is cells × leaves, restricted to the leaves that have a choice. The start goes up and down in turn along the leaves
    as they stand, which keeps running sums right to within one step; `improve` then lowers a cost of the errors by changing
    one leaf or two at a time until nothing helps.
    """

    def __init__(self, rows: sparse.csr_array, down: Numbers, up: Numbers, uniforms: Numbers) -> None:
        by_leaf = sparse.csc_array(rows)
        self._of_leaf = by_leaf.indptr.astype(np.int64), by_leaf.indices.astype(np.int64)
        self._of_cell = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        self._step = (up - down).astype(np.float64)
        self._order = np.argsort(uniforms, kind="stable").astype(np.int64)
        share = np.divide(-down, self._step, out=np.zeros(len(down)), where=self._step > 0)
        start = float(uniforms[self._order[0]]) if len(uniforms) else 0.0
        running = np.floor(np.concatenate([[0.0], np.cumsum(share)]) + start)
        self._share = share
        self.up = np.diff(running) > 0
        self._rows, self._values = rows, (down, up)
        self.error: Numbers = np.asarray(rows @ np.where(self.up, up, down), np.float64)

    def change(self, up: NDArray[np.bool_]) -> None:
        """Take another choice."""
        self.up = up.copy()
        self.error = np.asarray(self._rows @ np.where(up, self._values[1], self._values[0]), np.float64)

    def improve(self, square: Numbers, absolute: Numbers | None = None, limits: Numbers | None = None) -> None:
        """Lower Σ square · error² + absolute · |error| over the cells; errors should be within limits, shape (2, cells)."""
        from sfumato.kernels.two_values import choose_values

        if not len(self._step):
            return
        if absolute is None:
            absolute = np.zeros(len(square))
        if limits is None:
            limits = np.array([[-np.inf], [np.inf]]) * np.ones(len(square))
        choose_values(
            *self._of_leaf, *self._of_cell, self._order, self._step, self.up, self.error, square, absolute, limits,
            self._near, _ROUNDS,
        )  # fmt: skip

    @property
    def nearest(self) -> NDArray[np.bool_]:
        """Which leaves have the smaller change upwards."""
        return self._share > 0.5

    def improve_often(self, square: Numbers, uniforms: Iterable[Numbers]) -> None:
        """Improve from several starts, and keep the best: this one, all leaves at the nearer value, and random ones.

        Each array of uniform numbers, shape (leaves,), makes a start that is right on average.
        """
        best, least = self.up, np.inf
        for start in itertools.chain((self.up, self.nearest), (u < self._share for u in uniforms)):
            self.change(start)
            self.improve(square)
            cost = float((square * self.error**2).sum())
            if cost < least:
                best, least = self.up, cost
        self.change(best)

    @cached_property
    def _near(self) -> int:
        """The size of the cells that are looked at for pairs of leaves: as large as time allows."""
        size, each = np.diff(self._of_cell[0]).astype(np.float64), len(self._of_leaf[1]) / max(len(self._step), 1)
        work = (float((size[size <= near] ** 2).sum()) * each for near in _NEAR)
        return next((near for near, w in zip(_NEAR, work, strict=True) if w <= _WORK), 0)
