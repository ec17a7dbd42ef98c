"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Numbers = NDArray[np.float64]


def conjugate_gradients(s: sparse.csr_array, b: Numbers, tolerance: float = 1e-12) -> Numbers:
    """Return S⁻¹b for a symmetric positive definite S, all columns of b at once, to a relative tolerance."""
    diagonal = s.diagonal()
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)[:, None]
    x, r = np.zeros_like(b), scale * b
    p, size = r.copy(), (r * r).sum(axis=0)
    goal = tolerance**2 * size
    for _ in range(10 * len(b) + 100):
        if (size <= goal).all():
            break
        ap = scale * (s @ (scale * p))
        step = _over(size, (p * ap).sum(axis=0))
        x += step * p
        r -= step * ap
        new = (r * r).sum(axis=0)
        p = r + _over(new, size) * p
        size = new
    return np.asarray(scale * x)


def _over(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))
