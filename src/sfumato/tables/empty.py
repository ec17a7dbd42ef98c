"""Combinations of values that could occur and do not: the empty cells of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError

Whole = NDArray[np.int64]
_MOST = 5_000_000


def with_empty(codes: Whole) -> Whole:
    """Return the combinations of codes, shape (combinations, dimensions), and after them those that could occur as well.

    A column that another determines (a region its group of regions) occurs with it as it does in the data; columns that do
    not determine each other occur in every combination.

    >>> with_empty(np.array([[0, 0, 0], [1, 0, 1]])).tolist()  # the second column is constant, the third follows the first
    [[0, 0, 0], [1, 0, 1]]
    """
    groups = _bound(codes)
    blocks = [np.unique(codes[:, group], axis=0) for group in groups]
    count = int(np.prod([len(b) for b in blocks], dtype=np.float64))
    if count > _MOST:
        raise ParameterError(
            f"with its empty cells the table would have {count:,} leaves. Leave empty cells out, or ask for fewer dimensions."
        )
    picks = np.indices([len(b) for b in blocks]).reshape(len(blocks), -1)
    everything = np.empty((picks.shape[1], codes.shape[1]), np.int64)
    for group, block, pick in zip(groups, blocks, picks, strict=True):
        everything[:, group] = block[pick]
    joined = np.concatenate([codes, everything])
    _, first = np.unique(joined, axis=0, return_index=True)
    return joined[np.sort(first)]


def _bound(codes: Whole) -> list[list[int]]:
    """Return the columns in groups: those in a group are tied by one determining the other."""
    columns = range(codes.shape[1])
    group = list(columns)
    for a in columns:
        for b in columns:
            if a != b and _determines(codes[:, a], codes[:, b]):
                group = [group[a] if g == group[b] else g for g in group]
    return [[c for c in columns if group[c] == g] for g in dict.fromkeys(group)]


def _determines(a: Whole, b: Whole) -> bool:
    return len(np.unique(np.column_stack([a, b]), axis=0)) == len(np.unique(a))
