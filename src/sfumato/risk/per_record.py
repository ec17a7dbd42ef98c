"""Values of original records, whatever order they were found in, in the order of their ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release

Numbers = NDArray[np.float64]


def in_id_order(outcome: Release, values: Numbers) -> Numbers:
    """Return values of the original's records, in the order of its file, in the order of their ids; shape (n,)."""
    ids = outcome.original.batch([]).ids
    return values if bool((ids[1:] >= ids[:-1]).all()) else values[np.argsort(ids, kind="stable")]


def of_targets(outcome: Release, targets: NDArray[np.int64], values: Numbers) -> Numbers:
    """Return values of attacked records for each original record, in the order of their ids; shape (n,).

    The largest counts where a record was attacked more than once; it is NaN where it never was. A target with a negative id is
    nobody.
    """
    ids = np.sort(outcome.original.batch([]).ids)
    inside = targets >= 0
    out = np.full(len(ids), np.nan)
    np.fmax.at(out, np.searchsorted(ids, targets[inside]), values[inside])
    return out
