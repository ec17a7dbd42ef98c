"""Folds for cross-fitting: a released record and the original it came from are always in the same one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.households import unit_ids
from sfumato.kernels.digest import mix64
from sfumato.microdata import Microdata

Folds = NDArray[np.int64]


def folds_of(original: Microdata, count: int) -> Folds:
    """Return the fold of each original record, shape (n,): by a hash of its household's number, or of its hidden id."""
    household = original.schema.one("household")
    units = unit_ids(original.batch([] if household is None else [household]), "household")
    return _hashed(units, count)


def folds_after(original: Microdata, released: Microdata, folds: Folds, count: int) -> Folds:
    """Return the fold of each released record, shape (t,): its original's; simulated ones are put anywhere."""
    ids, mine = original.batch([]).ids, released.batch([]).ids
    if len(ids) == len(mine) and np.array_equal(ids, mine):
        return folds
    order = np.argsort(ids, kind="stable")
    at = order[np.searchsorted(ids, mine, sorter=order).clip(max=max(len(ids) - 1, 0))] if len(ids) else mine[:0]
    out = _hashed(mine, count)
    if len(ids):
        known = ids[at] == mine
        out[known] = folds[at[known]]
    return out


def _hashed(numbers: NDArray[np.int64], count: int) -> Folds:
    """Return a fold that looks random, the same in every run and on every engine."""
    return np.asarray(mix64(numbers.astype(np.int64).view(np.uint64)) % np.uint64(count), np.int64)
