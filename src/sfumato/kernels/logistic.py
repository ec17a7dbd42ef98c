"""Logistic regression by Newton's method, piece by piece: of files longer than memory holds their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Rows = Callable[[int, int], Numbers]
"""Gives rows start to stop of a design, shape (stop - start, k)."""
PIECE = 16_384
STEPS = 60


class Logistic(NamedTuple):
    """A fitted model of k columns."""

    coefficients: Numbers
    """Shape (k,)."""
    fitted: Numbers
    """Probability of each row, shape (n,)."""
    information: Numbers
    """X'diag(w p (1 - p))X at the coefficients, without the ridge, shape (k, k)."""
    gram: Numbers
    """X'diag(w)X, shape (k, k)."""
    converged: bool


def logistic(rows: Rows, hit: Numbers, weight: Numbers, k: int, ridge: float = 0.0, intercept: bool = True) -> Logistic:
    """Return the coefficients that maximise Σ w (hit·η - log(1 + e^η)) - ridge/2 · Σ w · |slopes|², η = Xb.

    `hit` (n,) is 0 or 1 and takes both values, `weight` (n,) is at least 0. The first column is the intercept, which bears no
    ridge, unless `intercept` says that there is none. A step that does not raise the likelihood is halved. Dependent columns
    share their effect.
    """
    total = float(weight.sum())
    share = float(weight @ hit) / total if intercept else 0.5
    penalty = np.full(k, ridge * total)
    b = np.zeros(k)
    if intercept:
        penalty[0], b[0] = 0.0, np.log(share / (1 - share))
    state = _look(rows, hit, weight, b, penalty)
    gram = state.information / (share * (1 - share))
    converged = False
    for _ in range(STEPS):
        slack = 1e-12 * np.diag(gram) + 1e-300
        step = np.linalg.lstsq(state.information + np.diag(penalty + slack), state.slope, rcond=1e-13)[0]
        gain = float(step @ state.slope)
        if gain <= 1e-14 * total:
            converged = True
            break
        for _ in range(30):
            tried = _look(rows, hit, weight, b + step, penalty)
            if tried.value >= state.value - 1e-12 * abs(state.value):  # as far as rounding lets one see
                break
            step = step / 2
        else:
            break
        b, state = b + step, tried
    return Logistic(b, state.fitted, state.information, gram, converged)


class _State(NamedTuple):
    value: float
    slope: Numbers
    information: Numbers
    fitted: Numbers


def _look(rows: Rows, hit: Numbers, weight: Numbers, b: Numbers, penalty: Numbers) -> _State:
    """Return the penalised log-likelihood at b, its slope, its curvature without the penalty, and the fitted probabilities."""
    value, slope, information = 0.0, np.zeros(len(b)), np.zeros((len(b), len(b)))
    fitted = np.empty(len(hit))
    for start in range(0, len(hit), PIECE):
        part = slice(start, min(start + PIECE, len(hit)))
        x, y, w = rows(part.start, part.stop), hit[part], weight[part]
        eta = x @ b
        p = 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700)))
        fitted[part] = p
        value += float(w @ (y * eta - np.logaddexp(0.0, eta)))
        slope += x.T @ (w * (y - p))
        z = x * np.sqrt(w * p * (1 - p))[:, None]
        information += z.T @ z  # of one matrix with itself: half the work
    return _State(value - 0.5 * float(penalty @ (b * b)), slope - penalty * b, information, fitted)
