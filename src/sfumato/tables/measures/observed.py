"""What a published table says about the leaves, as measurements with an error: the form in which all methods are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.tables.published import PublishedTable, Status

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observed:
    """Measurements of sums of leaves: ``rows @ leaves`` is known with an error of variance `error`, 0 where it is exact."""

    rows: sparse.csr_array
    """Shape (measurements, leaves)."""
    error: Numbers
    """Shape (measurements,)."""


def leaf_noise(published: PublishedTable) -> Numbers | sparse.csr_array | None:
    """Return the noise that was added to the leaves: variances, or their covariance where leaves have noise in common.

    None where none was added, or nobody knows how much. Noise of a later table is correlated: sums that were published before
    are known better than their parts.
    """
    if published.record is None:
        return published.leaf_variance
    covariance, own = published.record.covariance, published.record.covariance.diagonal()
    return covariance if abs(covariance - sparse.diags_array(own)).max() > 0 else np.asarray(own, np.float64)


def noise_variance(published: PublishedTable) -> Numbers | None:
    """Return the variance of random adjustments without bounds, shape (cells,), told or not; None where there are none."""
    noise = leaf_noise(published)
    if published.variance is not None or noise is None:
        return published.variance
    if isinstance(noise, np.ndarray):
        return published.cells.sums(noise)
    r = published.cells.incidence
    return np.maximum(np.asarray((r @ noise).multiply(r).sum(axis=1), np.float64).ravel(), 0.0)


def interval_variance(published: PublishedTable) -> Numbers:
    """Return (high - low)²/12 for every cell: the variance of a value of which nothing but an interval is known.

    It is 0 where the value is shown, and NaN where there are no bounds; shape (cells,).
    """
    with np.errstate(invalid="ignore"):
        width = published.high - published.low
        return np.where(np.isfinite(width), width**2 / 12, np.nan)


def error_variance(published: PublishedTable) -> Numbers:
    """Return for every cell the variance of what is published around the true value; NaN where nothing is said, shape (cells,).

    It is 0 where the value is shown, and that of the adjustment where there is a random one. Where a value was changed within
    bounds (rounding, cell keys), most changes may be much smaller than the bounds, and attackers know the method: the variance
    is that of the interval times the mean, over all such cells, of the squared change as a share of it, at most 1; without
    bounds, the squared value times the mean of the squared change as a share of it.
    """
    found, noise = interval_variance(published), noise_variance(published)
    changed = published.status == Status.CHANGED
    if published.original is not None:
        off2 = (published.values - published.original.value) ** 2
        for here, scale in ((changed & (found > 0), found), (changed & np.isnan(found), published.values**2)):
            here = here & (scale > 0) & (noise is None)
            if here.any():
                found = np.where(here, scale * min(1.0, float(np.mean(off2[here] / scale[here]))), found)
    return found if noise is None else np.fmin(found, np.where(published.suppressed, np.nan, noise))


def observed(published: PublishedTable) -> Observed:
    """Return what is published as measurements of the leaves, each with an error of its own.

    Noise that was added to the leaves is not of that sort: cells share it (`leaf_noise`).
    """
    error = error_variance(published)
    said = np.flatnonzero(~np.isnan(error))
    return _without_known(published.cells.incidence[said], error[said])


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
