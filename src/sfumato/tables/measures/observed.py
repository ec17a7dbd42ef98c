"""What a published table says about the leaves, as measurements with an error: the form in which all methods are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observed:
    """Measurements of sums of leaves: ``rows @ leaves`` is known with an error of variance `error`, 0 where it is exact."""

    rows: sparse.csr_array
    """Shape (measurements, leaves)."""
    error: Numbers
    """Shape (measurements,)."""


def error_variance(published: PublishedTable) -> Numbers:
    """Return for every cell the variance of what is published around the true value; NaN where nothing is said, shape (cells,).

    It is 0 where the value is shown, that of the adjustment where one is published, and (high - low)²/12, the variance of a
    value of which nothing but an interval is known, where there are bounds.
    """
    with np.errstate(invalid="ignore"):
        width = published.high - published.low
        bounded = np.where(np.isfinite(width), width**2 / 12, np.nan)
    if published.variance is None:
        return bounded
    told = np.where(published.suppressed, np.nan, published.variance)
    return np.fmin(bounded, told)


def observed(published: PublishedTable) -> Observed:
    """Return what is published as measurements of the leaves.

    Where noise was added to the leaves, a measurement of every leaf says all that the cells say, and perhaps more: every cell
    is a sum of them.
    """
    cells = published.cells
    if published.leaf_variance is not None:
        return Observed(sparse.eye_array(cells.leaves, format="csr"), np.asarray(published.leaf_variance, np.float64))
    error = error_variance(published)
    said = np.flatnonzero(~np.isnan(error))
    return _without_known(cells.incidence[said], error[said])


def _without_known(rows: sparse.csr_array, error: Numbers) -> Observed:
    """Take the leaves that are known exactly out of the other measurements: what is left says the same, and is much smaller."""
    size = np.diff(rows.indptr)
    alone = np.flatnonzero((size == 1) & (error == 0))
    known = np.zeros(rows.shape[1], bool)
    known[rows.indices[rows.indptr[alone]]] = True
    first = np.unique(rows.indices[rows.indptr[alone]], return_index=True)[1]
    rest = np.setdiff1d(np.flatnonzero(size > 0), alone)
    keep = sparse.diags_array(np.where(known, 0.0, 1.0), format="csr")
    left = sparse.csr_array(rows[rest] @ keep)
    left.eliminate_zeros()
    use = np.flatnonzero(np.diff(left.indptr) > 0)
    return Observed(
        sparse.csr_array(sparse.vstack([rows[alone[first]], left[use]], format="csr")),
        np.concatenate([np.zeros(len(first)), error[rest][use]]),
    )
