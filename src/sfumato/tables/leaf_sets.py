"""Numbers that tell sets of leaves apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def set_codes(rows: sparse.csr_array) -> NDArray[np.uint64]:
    """Return two numbers for each row of a 0/1 matrix, shape (rows, 2), the same for rows with the same entries alone.

    Each leaf has two fixed numbers of 64 bits (splitmix64 of its position), and a set the sums of those of its leaves: other
    sets have other sums, but for one pair in 10^38.
    """
    keys = np.arange(1, 2 * rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _STEPS:
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    keys = (keys ^ (keys >> np.uint64(31))).reshape(-1, 2)
    total = np.concatenate([np.zeros((1, 2), np.uint64), np.cumsum(keys[rows.indices], axis=0, dtype=np.uint64)])
    return np.asarray(total[rows.indptr[1:]] - total[rows.indptr[:-1]])
