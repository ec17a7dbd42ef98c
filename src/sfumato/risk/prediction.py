"""How a snooper predicts a target's value, and how far off he is.

Every snooper here predicts linearly: τ̂ = a + b·(released value of the record he linked) + c·(what else he knows). The
naive one takes the released value (b = 1). The Bayes one uses the best linear prediction, which for normal data is the
posterior mean. If his linkage is right with probability m only, the record he links is otherwise a random one; then
Cov(X, Y_linked) = m·Cov(X, Y), so he shrinks more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.contract import Snooper

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """τ̂ = mean_x + b·(y - mean_y) + c·(z - mean_z); for the naive snooper a = 0, b = 1."""

    b: float
    c: Numbers
    centred: bool
    """Whether the prediction is about the means (Bayes) or takes y as it is (naive)."""


def best_linear(covariance: Numbers, m: float) -> Prediction:
    """Return the best linear prediction of x from (y, z...) when the link is right with probability m.

    `covariance` is that of (x, y, z...), shape (2 + q, 2 + q).
    """
    known = covariance[1:, 1:].copy()
    known[0, 1:] *= m
    known[1:, 0] *= m
    target = covariance[0, 1:].copy()
    target[0] *= m
    weights = _weights(known, target)
    return Prediction(float(weights[0]), weights[1:], True)


def _weights(known: Numbers, target: Numbers) -> Numbers:
    """Return the (least-norm) w with known · w = target, whatever the units of the columns."""
    scale = np.sqrt(np.diag(known))
    scale[scale == 0] = 1.0
    found = np.linalg.lstsq(known / np.outer(scale, scale), target / scale, rcond=1e-12)[0]
    return np.asarray(found / scale)


def naive(q: int) -> Prediction:
    """Return the prediction of the snooper who takes the released value as it is."""
    return Prediction(1.0, np.zeros(q), False)


def without_release(covariance: Numbers) -> Prediction:
    """Return the best prediction from what else is known, not looking at the released value."""
    z = covariance[2:, 2:]
    weights = _weights(z, covariance[0, 2:]) if len(z) else np.zeros(0)
    return Prediction(0.0, weights, True)


def candidates(snooper: Snooper, covariance: Numbers, m: float) -> list[Prediction]:
    """Return the predictions open to a snooper who holds the right value with probability m; the one of least error is his.

    A Bayes snooper who is not told the noise level cannot weigh the released value against what else he knows, but he
    can use either alone (a regression of the released column on unmasked ones is unbiased whatever the noise).
    """
    q = len(covariance) - 2
    if snooper.strategy == "naive":
        return [naive(q)]
    if snooper.parameter_published:
        return [best_linear(covariance, m)]
    return [naive(q), without_release(covariance)]


def record_errors(p: Prediction, x: Numbers, y: Numbers, z: Numbers, m: float, mean: Numbers) -> Numbers:
    """Return each record's expected squared error over the linkage, shape (n,).

    z has shape (n, q); `mean` holds the means of (x, y, z...), shape (2 + q,), which the naive snooper does not use.
    """
    rest = (z - mean[2:]) @ p.c - x if z.shape[1] else -x
    shift = mean[1] if p.centred else 0.0
    rest = rest + (mean[0] if p.centred else 0.0)
    linked = p.b * (y - shift)
    right = (rest + linked) ** 2
    if m == 1 or len(x) < 2:
        return np.asarray(right)
    n = len(x)
    anyone = rest**2 + 2 * rest * linked.mean() + (linked**2).mean()  # mean over all j, then take j = i out
    return np.asarray(m * right + (1 - m) * (n * anyone - right) / (n - 1))


def model_error(p: Prediction, covariance: Numbers, m: float, spread: float) -> float:
    """Return the expected squared error under a normal model without mean shift.

    `spread` is E[(X - μ)²] of the targets divided by Var(X): 1 for all records, more for holders of extreme values.
    """
    variance = covariance[0, 0]
    slope = covariance[1:, 0] / variance  # (y, z) given x is linear in x
    scatter = covariance[1:, 1:] - np.outer(slope, slope) * variance
    right = np.concatenate([[p.b], p.c])
    wrong = np.concatenate([[0.0], p.c])

    def error(weights: Numbers) -> float:
        return float((1 - weights @ slope) ** 2 * spread * variance + weights @ scatter @ weights)

    return float(m * error(right) + (1 - m) * (error(wrong) + p.b**2 * covariance[1, 1]))


def spread_between(low: float, high: float) -> float:
    """Return E[Z² | Φ⁻¹(low) < Z < Φ⁻¹(high)] of a standard normal Z."""
    a, b = float(ndtri(low)), float(ndtri(high))

    def edge(z: float) -> float:
        return z * float(np.exp(-z * z / 2) / np.sqrt(2 * np.pi)) if np.isfinite(z) else 0.0

    return 1.0 + (edge(a) - edge(b)) / (high - low)
