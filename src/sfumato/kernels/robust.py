"""Location and scatter that a minority of wild records cannot move: the orthogonalised Gnanadesikan–Kettenring estimator.

Deterministic, positive semi-definite, and O(n p²): Maronna and Zamar (2002), with medians and median absolute deviations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.moments import complete, is_constant

Numbers = NDArray[np.float64]

MAD = 1.482602218505602
"""1 / Φ⁻¹(3/4): the median absolute deviation of a normal column, times this, is its standard deviation."""
KEPT = 0.9
"""Share of normal records that the reweighting keeps."""


def robust_location_scatter(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return the centre (p,) and the scatter (p, p) of the complete rows of x (n, p), n >= 1.

    For normal records they estimate mean and covariance; just under half of the records may lie anywhere.
    A column of which more than half is one value has no median absolute deviation: its standard deviation is used.
    """
    from scipy.stats import chi2

    x = complete(x)
    middle = np.median(x, axis=0)
    x = x - middle  # a constant column is then exactly zero
    centre, scatter = _orthogonalised(x)
    distance, rank = _distances(x, centre, scatter)
    if rank == 0 or np.median(distance) == 0:  # more than half of the records are one point
        return middle + centre, scatter
    # one step of reweighting: records within the 90 % ellipsoid, scaled so that half of the records lie within the 50 % one
    kept = x[distance <= np.median(distance) * chi2.ppf(KEPT, rank) / chi2.ppf(0.5, rank)]
    # the covariance within that ellipsoid is too small by this factor (Croux and Haesbroeck 1999)
    factor = KEPT / float(chi2.cdf(chi2.ppf(KEPT, rank), rank + 2))
    location = kept.mean(axis=0)
    again = factor * (kept - location).T @ (kept - location) / max(len(kept) - 1, 1)
    flat = _axes(again)[0].size
    if flat < rank and flat < _axes(np.atleast_2d(np.cov(x.T, ddof=0)))[0].size:
        return middle + centre, scatter  # the kept records lie in a plane and others do not: these must still count
    return middle + location, again


def whitened(x: Numbers, centre: Numbers, scatter: Numbers) -> Numbers:
    """Return x in axes where the scatter is the identity, shape (n, rank): lengths are Mahalanobis distances.

    Directions without scatter are left out (the pseudo-inverse). The sign of each axis is fixed, so the result is too.
    """
    roots, axes = _axes(scatter)
    return np.asarray((x - centre) @ (axes / roots))


def principal_axes(scatter: Numbers) -> tuple[Numbers, Numbers]:
    """Return the variances along the principal axes, largest first (p,), and the axes as columns (p, p).

    An axis has two directions: the one whose largest entry (the first, of equals) is positive is taken.
    """
    values, vectors = np.linalg.eigh(scatter)
    values, vectors = values[::-1], vectors[:, ::-1]
    # entries that are equal but for rounding count as equal, or the choice would hang on the machine
    largest = np.argmax(np.abs(vectors) > np.abs(vectors).max(axis=0) * (1 - 1e-9), axis=0)
    signs = np.sign(vectors[largest, np.arange(len(scatter))])
    return values, vectors * np.where(signs == 0, 1.0, signs)


def _axes(scatter: Numbers) -> tuple[Numbers, Numbers]:
    """Return the standard deviations (r,) along the axes that have any, and the axes in the original units (p, r)."""
    size = np.sqrt(np.maximum(np.diag(scatter), 0.0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = principal_axes(scatter / np.outer(unit, unit))  # as correlations: no column's unit matters
    real = values > 1e-10 * len(scatter)
    return np.sqrt(values[real]), vectors[:, real] / unit[:, None]


def _distances(x: Numbers, centre: Numbers, scatter: Numbers) -> tuple[Numbers, int]:
    """Return squared Mahalanobis distances (n,) and the rank of the scatter."""
    z = whitened(x, centre, scatter)
    return np.einsum("ij,ij->i", z, z), z.shape[1]


def _scale(x: Numbers) -> float:
    """Return the scaled median absolute deviation, or the standard deviation if that is zero."""
    middle = float(np.median(x))
    spread = MAD * float(np.median(np.abs(x - middle)))
    if spread > 1e-12 * abs(middle):
        return spread
    mean, variance = np.asarray(np.mean(x)), np.asarray(np.var(x))
    return 0.0 if is_constant(mean, variance) else float(np.sqrt(variance))


def _orthogonalised(x: Numbers) -> tuple[Numbers, Numbers]:
    scale = np.array([_scale(column) for column in x.T])
    unit = np.where(scale > 0, scale, 1.0)
    y = (x - np.median(x, axis=0)) / unit
    count = x.shape[1]
    pairs = np.diag((scale > 0).astype(np.float64))
    for i in range(count):
        for j in range(i):
            # Gnanadesikan and Kettenring (1972): cov(a, b) = (var(a + b) - var(a - b)) / 4
            pairs[i, j] = pairs[j, i] = (_scale(y[:, i] + y[:, j]) ** 2 - _scale(y[:, i] - y[:, j]) ** 2) / 4
    _, axes = principal_axes(pairs)
    z = y @ axes
    spread = np.array([_scale(column) for column in z.T])
    root = unit[:, None] * axes
    centre = np.median(x, axis=0) + root @ np.median(z, axis=0)
    return centre, (root * spread**2) @ root.T
