"""Least squares that survive dependent columns: which coefficients can be told, their values and their covariance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
TOLERANCE = 1e-10
"""A column is a combination of others if less than this share of its length is its own."""


class Fit(NamedTuple):
    """Coefficients of k columns."""

    coefficients: Numbers
    """Shape (k,); NaN for those that cannot be told."""
    covariance: Numbers
    """Shape (k, k); rows and columns of those that cannot be told mean nothing."""
    rank: int


def triangle(x: Numbers) -> Numbers:
    """Return R of x = QR, shape (min(n, k), k): it has the lengths and the angles of the columns of x."""
    return np.asarray(np.linalg.qr(x, mode="r"))


def independent(x: Numbers) -> NDArray[np.bool_]:
    """Return which columns are no combination of earlier ones, shape (k,), as regression programs drop them.

    >>> independent(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.0, 2.0, 5.0]])).tolist()
    [True, False, True]
    """
    r = triangle(x) if len(x) > x.shape[1] else x
    lengths = np.linalg.norm(r, axis=0)
    kept, basis = np.zeros(r.shape[1], bool), np.zeros((len(r), 0))
    for j in range(r.shape[1]):
        if lengths[j] == 0:
            continue
        own = r[:, j] / lengths[j]
        for _ in range(2):  # twice is enough (Parlett 1980)
            own = own - basis @ (basis.T @ own)
        size = np.linalg.norm(own)
        if size > TOLERANCE:
            kept[j] = True
            basis = np.column_stack([basis, own / size])
    return kept


def least_squares(x: Numbers, y: Numbers, weight: Numbers | None = None) -> Fit:
    """Regress y (n,) on the columns of x (n, k); a coefficient that the columns do not determine is NaN.

    Without weights the covariance is the usual σ̂²(X'X)⁻¹, σ̂² = RSS/(n - rank). With survey weights it is the linearised one
    of a sample drawn with replacement, n/(n-1) · B (Σ w²e²xx') B, B = (X'WX)⁻¹ (Binder 1983); a fit without error has zeros.
    """
    n, k = x.shape
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    scale = np.abs(x).max(axis=0, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)
    z, v = x / scale, y / size
    root = np.ones(n) if weight is None else np.sqrt(weight)
    r = triangle(np.column_stack([z, v]) * root[:, None])
    lengths = np.linalg.norm(r[:, :k], axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    bread, estimable, inverse, rank = _inverse(r[:, :k] / lengths)
    b = inverse @ r[:, k]
    apart = r[:, k] - r[:, :k] / lengths @ b
    exact = np.linalg.norm(apart) <= 1e-13 * np.sqrt(n) * max(float(np.linalg.norm(r[:, k])), 1e-300)
    if exact or n <= rank:
        covariance = np.zeros((k, k))
    elif weight is None:
        covariance = bread * float(apart @ apart) / (n - rank)
    else:
        q = (
            z / lengths * root[:, None]
        ) @ inverse  # orthonormal: residuals keep their digits, whatever the columns' means
        scores = q * (v * root - q @ r[:, k])[:, None]
        covariance = inverse @ (scores.T @ scores) @ inverse.T * n / (n - 1)
    unit = size / (scale * lengths)
    return Fit(np.where(estimable, b, np.nan) * unit, covariance * np.outer(unit, unit), rank)


class Basis(NamedTuple):
    """The space of k columns, by r orthonormal ones."""

    columns: Numbers
    """Shape (n, r)."""
    back: Numbers
    """What turns their coefficients into those of the k columns, shape (k, r)."""
    estimable: NDArray[np.bool_]
    """Which of the k coefficients can be told, shape (k,)."""


def orthonormal(x: Numbers) -> Basis:
    """Return orthonormal columns for those of x (n, k): a model of them loses no digits to columns that are nearly dependent."""
    scale = np.abs(x).max(axis=0, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)
    r = triangle(x / scale)
    lengths = np.linalg.norm(r, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    _, s, vt = np.linalg.svd(r / lengths, full_matrices=True)
    rank = _rank(s)
    back = vt[:rank].T / s[:rank] / lengths[:, None]
    return Basis(x / scale @ back, back / scale[:, None], _estimable(vt[rank:]))


def information_inverse(information: Numbers) -> tuple[Numbers, NDArray[np.bool_], int]:
    """Return the generalised inverse of a k x k information, which coefficients can be told, and its rank."""
    scale = np.sqrt(np.diag(information))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    good = values > TOLERANCE * max(values[-1], 1e-300)  # squares of lengths: half the digits of `_inverse`
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T
    return inverse / np.outer(scale, scale), _estimable(vectors[:, ~good].T), int(good.sum())


def _inverse(r: Numbers) -> tuple[Numbers, NDArray[np.bool_], Numbers, int]:
    """Return (R'R)⁺, which coefficients are orthogonal to what R does not see, R⁺, and the rank."""
    u, s, vt = np.linalg.svd(r, full_matrices=True)
    rank = _rank(s)
    inverse = (vt[:rank].T / s[:rank]) @ u[:, :rank].T
    return inverse @ inverse.T, _estimable(vt[rank:]), inverse, rank


def _rank(singular: Numbers) -> int:
    return int((singular > TOLERANCE * max(singular.max(initial=0.0), 1e-300)).sum())


def _estimable(unseen: Numbers) -> NDArray[np.bool_]:
    """Return which coefficients are orthogonal to the directions (m, k) that are not seen, shape (k,)."""
    return np.asarray(np.linalg.norm(unseen, axis=0) < 1e-6)
