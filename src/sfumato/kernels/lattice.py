"""Classes of rows whose codes are mapped to coarser ones: one table for each column, a level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sfumato.typing import Codes, Whole

_ROOM = 2**62


@numba.njit(cache=True, nogil=True)
def _label(codes, tables, begins, before, weights, labels, sizes, firsts, slots, keys, mask, shift):  # type: ignore[no-untyped-def]
    """Number the combinations of mapped codes in order of first appearance; add up weights; return how many there are."""
    count, columns = 0, codes.shape[0]
    slots[:] = -1
    for i in range(codes.shape[1]):
        key = before[i] if before.size else 0
        for j in range(columns):
            key += tables[begins[j] + codes[j, i]]
        at = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift)
        place = np.int64(at)
        while True:
            label = slots[place]
            if label < 0:
                slots[place] = label = count
                keys[count] = key
                sizes[count] = 0
                firsts[count] = i
                count += 1
                break
            if keys[label] == key:
                break
            place = (place + 1) & mask
        labels[i] = label
        sizes[label] += weights[i]
    return count


class CodedRows:
    """Rows of codes, shape (columns, n), to be counted again and again under other maps of their codes; weights count the rows.

    A map of a column is a table from its codes, from 0 up, to coarser codes from 0 up. Memory is reused from call to call: copy
    what is to outlive the next one.
    """

    def __init__(self, codes: NDArray[Any], weights: Whole) -> None:
        self.codes = np.ascontiguousarray(codes, np.int32)
        self.weights = np.ascontiguousarray(weights, np.int64)
        n = self.codes.shape[1]
        bits = max(int(np.ceil(np.log2(max(2 * n, 2)))), 4)
        self._slots = np.empty(2**bits, np.int32)
        self._mask, self._shift = 2**bits - 1, 64 - bits
        self._keys, self._sizes, self._firsts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        self._labels = np.empty(n, np.int32)

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    def take(self, rows: NDArray[Any]) -> CodedRows:
        """Return some of the rows."""
        return CodedRows(self.codes[:, rows], self.weights[rows])

    def classes(self, maps: Sequence[NDArray[Any]], levels: Sequence[int]) -> tuple[Codes, Whole, Whole]:
        """Return each row's class, shape (n,), and each class's weight and first row, shape (c,), under one map for each column.

        `levels` are the numbers of codes that the maps lead to. Classes are numbered in the order of their first rows.
        """
        before, count, room = np.empty(0, np.int64), 1, 1
        cuts = [0]
        for j, width in enumerate(levels):
            if room > _ROOM // max(int(width), 1) // max(len(self), 1):
                cuts.append(j)
                room = max(len(self), 1)
            room *= max(int(width), 1)
        cuts.append(len(levels))
        for start, end in pairwise(cuts):
            strides, step = [], count if start else 1
            for j in range(start, end):
                strides.append(step)
                step *= max(int(levels[j]), 1)
            tables = [np.asarray(t, np.int64) * s for t, s in zip(maps[start:end], strides, strict=True)]
            begins = np.concatenate([[0], np.cumsum([len(t) for t in tables])])[:-1].astype(np.int64)
            flat = np.concatenate(tables) if tables else np.zeros(0, np.int64)
            count = _label(
                self.codes[start:end], flat, begins, before, self.weights, self._labels, self._sizes, self._firsts,
                self._slots, self._keys, self._mask, self._shift,
            )  # fmt: skip
            if end < len(levels):
                before = self._labels.astype(np.int64)
        return self._labels, self._sizes[:count], self._firsts[:count]
