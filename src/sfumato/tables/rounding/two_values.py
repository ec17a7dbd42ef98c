"""One of two values for each of some leaves, so that all published sums change little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_NEAR = 64  # leaves are swapped if they share a cell of at most so many
_ROUNDS = 200


class Choice:
    """A choice between a lower and an upper change for each of some leaves, and the errors of the cells that it gives.

    `rows` is cells × leaves, restricted to the leaves that have a choice. The start goes up and down in turn along the leaves
    as they stand, which keeps running sums right to within one step; `improve` then lowers Σ weight · error² by changing one
    leaf or two at a time until nothing helps.
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
        self.up = np.diff(running) > 0
        self.error: Numbers = np.asarray(rows @ np.where(self.up, up, down), np.float64)

    def improve(self, weight: Numbers) -> None:
        """Lower the weighted sum of squared errors of the cells; `weight` has shape (cells,)."""
        from sfumato.kernels.two_values import choose_values

        if len(self._step):
            choose_values(
                *self._of_leaf, *self._of_cell, self._order, self._step, self.up, self.error, weight, _NEAR, _ROUNDS
            )
