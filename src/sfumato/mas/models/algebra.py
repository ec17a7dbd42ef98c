"""Small symmetric systems: what depends on what, and inverses that keep their digits."""

from __future__ import annotations

import numpy as np

from sfumato.mas.models.numbers import Numbers

DEPENDENT = 1e-12
"""Of the scaled cross-products, a smaller eigenvalue than this is no information."""
NEARLY = 1e-5
"""Below this the columns are turned to independent ones and read again."""


def smallest(products: Numbers) -> float:
    """Return the least eigenvalue of cross-products scaled to a diagonal of ones; 0 where that is not above 0."""
    diagonal = np.diag(products)
    if not len(diagonal):
        return 1.0
    if not (diagonal > 0).all() or not np.isfinite(products).all():
        return 0.0
    size = np.sqrt(diagonal)
    return float(np.linalg.eigvalsh(products / np.outer(size, size))[0])


def turn_of(products: Numbers) -> Numbers:
    """Return the lower triangular matrix that makes columns independent of each other, one after another."""
    size = np.sqrt(np.diag(products))
    lower = np.linalg.cholesky(products / np.outer(size, size))
    return np.asarray(np.linalg.inv(lower) / size[None, :])


def inverse(products: Numbers) -> Numbers:
    """Return the inverse of a positive definite matrix."""
    size = np.sqrt(np.diag(products))
    half = np.linalg.inv(np.linalg.cholesky(products / np.outer(size, size)))
    return np.asarray((half.T @ half) / np.outer(size, size))


def largest_correlation(products: Numbers, intercept: bool) -> float:
    """Return the largest size of a correlation between two columns; the first column is the intercept, if there is one."""
    if intercept:
        products = (products - np.outer(products[:, 0], products[0]) / products[0, 0])[1:, 1:]
    size = np.sqrt(np.diag(products))
    if len(size) < 2 or not (size > 0).all():
        return 0.0
    found = np.abs(products / np.outer(size, size)) - np.eye(len(size))
    return float(found.max())
