"""Draws from the rows of a transition matrix, one per record."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.integer[Any]]


@numba.njit(cache=True, nogil=True)
def _moved(cells, rows, stay, begins, members, cumulative, uniforms, out):  # type: ignore[no-untyped-def]
    for i in range(cells.size):
        out[i] = cells[i]
        if cells[i] < 0:
            continue
        row = rows[i]
        if uniforms[i] < stay[row]:
            continue
        v = (uniforms[i] - stay[row]) / (1.0 - stay[row])
        low, high = begins[row], begins[row + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if v < cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        out[i] = members[low]


def moved(
    cells: Rows, rows: Rows, stay: Numbers, begins: Rows, members: Rows, cumulative: Numbers, uniforms: Numbers
) -> Rows:
    """Return each record's new cell; a negative cell stays.

    With chance stay[row] a record keeps its cell; else it gets one of members[begins[row]:begins[row + 1]], whose chances add up,
    one after the other, to `cumulative`.
    """
    out = np.empty(len(cells), np.int64)
    _moved(cells, rows, stay, begins, members, cumulative, uniforms, out)
    return out
