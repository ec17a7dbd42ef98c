"""Linear predictions with a ridge: of a number, and of the probabilities of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def ridge(x: Numbers, y: Numbers, penalty: float) -> tuple[float, Numbers]:
    """Return intercept and slopes that minimise Σ (y - a - x·b)² + penalty · |b|²; x has shape (n, q), y (n,)."""
    centre, level = x.mean(axis=0), float(y.mean())
    z = x - centre
    slopes = np.linalg.solve(z.T @ z + penalty * np.eye(x.shape[1]), z.T @ (y - level))
    return level - float(centre @ slopes), slopes


def multinomial(x: Numbers, code: NDArray[np.int64], k: int, penalty: float) -> tuple[Numbers, Numbers]:
    """Return intercepts (k,) and slopes (q, k) of a multinomial logistic regression.

    They minimise -Σ log P(class) + penalty / 2 · |slopes|²; intercepts are free. x has shape (n, q), `code` (n,) is below k.
    """
    from scipy.optimize import minimize

    n, q = x.shape
    hit = np.zeros((n, k))
    hit[np.arange(n), code] = 1.0
    shares = np.clip(hit.mean(axis=0), 1e-6, None)
    start = np.concatenate([np.log(shares), np.zeros(q * k)])

    def loss(theta: Numbers) -> tuple[float, Numbers]:
        slopes = theta[k:].reshape(q, k)
        p = probabilities(theta[:k], slopes, x)
        value = -np.log(np.maximum(p[np.arange(n), code], 1e-300)).sum() + penalty / 2 * (slopes**2).sum()
        off = p - hit
        return value / n, np.concatenate([off.sum(axis=0), (x.T @ off + penalty * slopes).ravel()]) / n

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7})
    return found.x[:k], found.x[k:].reshape(q, k)


def probabilities(intercepts: Numbers, slopes: Numbers, x: Numbers) -> Numbers:
    """Return the probability of each class for each row, shape (n, k)."""
    z = intercepts + x @ slopes
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
