"""The intervals that an attacker works out for the cells of a published table, once for all measures that ask."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.published import PublishedTable, Status

Numbers = NDArray[np.float64]
_FOUND: WeakKeyDictionary[PublishedTable, tuple[Numbers, Numbers]] = WeakKeyDictionary()


def attacker_intervals(published: PublishedTable) -> tuple[Numbers, Numbers]:
    """Return between which values everybody can be sure that each cell lies, after all arithmetic; two of shape (cells,).

    Cells that are shown, and tables of which nothing is sure because of a random adjustment without bounds, need no arithmetic.
    """
    if published not in _FOUND:
        low, high = published.low.copy(), published.high.copy()
        open_ = np.flatnonzero(~(low == high))
        if len(open_) and not _nothing_sure(published):
            from sfumato.tables.attacker import Attacker

            low[open_], high[open_] = Attacker.of(published).intervals(open_)
        _FOUND[published] = (low, high)
    return _FOUND[published]


def _nothing_sure(published: PublishedTable) -> bool:
    """Whether values were adjusted without bounds: then no cell has an interval."""
    random = published.variance is not None or published.leaf_variance is not None
    changed = published.status == Status.CHANGED
    return random and not (np.isfinite(published.low) | np.isfinite(published.high))[changed].any()
