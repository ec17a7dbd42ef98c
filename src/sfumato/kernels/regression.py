"""Least squares that survive dependent columns, ridge regression and logistic regression."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sfumato.lazy import linalg, optimize
from sfumato.typing import Flags, Numbers, Whole

TOLERANCE = 1e-10
"""A column is a combination of others if less than this share of its length is its own."""


class LeastSquaresFit(NamedTuple):
    """Coefficients of k columns."""

    coefficients: Numbers
    """Shape (k,); NaN for those that cannot be told."""
    covariance: Numbers
    """Shape (k, k); rows and columns of those that cannot be told mean nothing."""
    rank: int


def triangle(x: Numbers) -> Numbers:
    """Return R of x = QR, shape (min(n, k), k): it has the lengths and the angles of the columns of x."""
    return np.asarray(np.linalg.qr(x, mode="r"))


def independent(x: Numbers) -> Flags:
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


def least_squares(x: Numbers, y: Numbers, weight: Numbers | None = None) -> LeastSquaresFit:
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
    return LeastSquaresFit(np.where(estimable, b, np.nan) * unit, covariance * np.outer(unit, unit), rank)


def coefficients_of(x: Numbers, y: Numbers) -> Numbers | None:
    """Return the coefficients of least squares alone, shape (k,), from X'X where that keeps enough digits; None if it is singular.

    A map fits thousands of times: this takes a tenth of the time of `least_squares`. Weights: multiply x and y by their roots.
    """
    design = np.concatenate([x, y[:, None]], axis=1)
    k = x.shape[1]
    products = design.T @ design
    scale = np.sqrt(np.diag(products)[:k])
    scale[scale == 0] = 1.0
    gram = products[:k, :k] / np.outer(scale, scale)
    eigen = np.linalg.eigvalsh(gram)
    if eigen[0] > 1e-10 * eigen[-1]:
        return np.asarray(np.linalg.solve(gram, products[:k, k] / scale) / scale)
    z = x / scale  # nearly dependent columns: the products have lost digits, the columns have not
    if np.linalg.matrix_rank(z) < k:
        return None
    return np.asarray(np.linalg.lstsq(z, y, rcond=None)[0] / scale)


class Basis(NamedTuple):
    """The space of k columns, by r orthonormal ones."""

    columns: Numbers
    """Shape (n, r)."""
    back: Numbers
    """What turns their coefficients into those of the k columns, shape (k, r)."""
    estimable: Flags
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


def information_inverse(information: Numbers) -> tuple[Numbers, Flags, int]:
    """Return the generalised inverse of a k x k information, which coefficients can be told, and its rank."""
    scale = np.sqrt(np.diag(information))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    good = values > TOLERANCE * max(values[-1], 1e-300)  # squares of lengths: half the digits of `_inverse`
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T
    return inverse / np.outer(scale, scale), _estimable(vectors[:, ~good].T), int(good.sum())


def _inverse(r: Numbers) -> tuple[Numbers, Flags, Numbers, int]:
    """Return (R'R)⁺, which coefficients are orthogonal to what R does not see, R⁺, and the rank."""
    u, s, vt = np.linalg.svd(r, full_matrices=True)
    rank = _rank(s)
    inverse = (vt[:rank].T / s[:rank]) @ u[:, :rank].T
    return inverse @ inverse.T, _estimable(vt[rank:]), inverse, rank


def _rank(singular: Numbers) -> int:
    return int((singular > TOLERANCE * max(singular.max(initial=0.0), 1e-300)).sum())


def _estimable(unseen: Numbers) -> Flags:
    """Return which coefficients are orthogonal to the directions (m, k) that are not seen, shape (k,)."""
    return np.asarray(np.linalg.norm(unseen, axis=0) < 1e-6)


# --- Linear predictions with a ridge: of a number, and of the probabilities of classes.


def ridge(x: Numbers, y: Numbers, penalty: float) -> tuple[float, Numbers]:
    """Return intercept and slopes that minimise Σ (y - a - x·b)² + penalty · |b|²; x has shape (n, q), y (n,)."""
    centre, level = x.mean(axis=0), float(y.mean())
    z = x - centre
    slopes = np.linalg.solve(z.T @ z + penalty * np.eye(x.shape[1]), z.T @ (y - level))
    return level - float(centre @ slopes), slopes


def multinomial(
    x: Numbers,
    code: Whole,
    k: int,
    penalty: float,
    weights: Numbers | None = None,
    tolerance: float = 1e-14,
) -> tuple[Numbers, Numbers]:
    """Return intercepts (k,) and slopes (q, k) of a multinomial logistic regression.

    They minimise -Σ w log P(class) + penalty / 2 · |slopes|²; intercepts are free. x has shape (n, q), `code` (n,) is below k,
    `weights` (n,) are 1 if not given. The search is in coordinates in which the columns are uncorrelated, as Böhning's (1992)
    bound of the curvature suggests: it takes a tenth of the steps. It ends where a step gains a share of less than `tolerance`.
    """
    n, q = x.shape
    w = np.ones(n) if weights is None else weights
    total, rows = float(w.sum()), np.arange(n)
    hit = np.zeros((n, k))
    hit[rows, code] = 1.0
    start = np.concatenate([np.log(np.clip(w @ hit / total, 1e-6, None)), np.zeros(q * k)])
    centre = w @ x / total
    z = (x - centre) * np.sqrt(w)[:, None]
    curvature = (z.T @ z / 2 + max(penalty, 1e-9 * total) * np.eye(q)) / total
    turn = linalg.solve_triangular(np.linalg.cholesky(curvature), np.eye(q), lower=True).T  # slopes = turn @ theta
    v = (x - centre) @ turn

    def loss(theta: Numbers) -> tuple[float, Numbers]:
        part = theta[k:].reshape(q, k)
        slopes = turn @ part
        eta = theta[:k] + v @ part
        eta -= eta.max(axis=1, keepdims=True)
        e = np.exp(eta)
        sums = e.sum(axis=1)
        value = float(w @ (np.log(sums) - eta[rows, code])) + penalty / 2 * float((slopes**2).sum())
        off = (e / sums[:, None] - hit) * w[:, None]
        return value / total, np.concatenate([off.sum(axis=0), (v.T @ off + penalty * turn.T @ slopes).ravel()]) / total

    found = optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": tolerance, "gtol": math.sqrt(tolerance)},
    )
    slopes = turn @ found.x[k:].reshape(q, k)
    return found.x[:k] - centre @ slopes, slopes


def probabilities(intercepts: Numbers, slopes: Numbers, x: Numbers) -> Numbers:
    """Return the probability of each class for each row, shape (n, k)."""
    z = intercepts + x @ slopes
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


# --- Logistic regression by Newton's method, piece by piece: of files longer than memory holds their columns.

Rows = Callable[[int, int], Numbers]
"""Gives rows start to stop of a design, shape (stop - start, k)."""
PIECE = 16_384
STEPS = 60


class LogisticFit(NamedTuple):
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


def logistic(
    rows: Rows, hit: Numbers, weight: Numbers, k: int, ridge: float = 0.0, intercept: bool = True
) -> LogisticFit:
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
    return LogisticFit(b, state.fitted, state.information, gram, converged)


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


class LogisticRegression(NamedTuple):
    """Coefficients of k columns, and how well they fit."""

    coefficients: Numbers
    """Shape (k,); NaN for those that cannot be told."""
    covariance: Numbers
    """Shape (k, k)."""
    fitted: Numbers
    """Probability of each record, shape (n,)."""
    log_likelihood: float
    least_information: float
    """The least that any combination of orthonormal columns has: near 0 where records are told perfectly."""
    converged: bool


def logistic_regression(
    x: Numbers, y: Numbers, weight: Numbers | None = None, polish: bool = False
) -> LogisticRegression:
    """Regress y (n,), 0 or 1, on the columns of x (n, k), dependent or not.

    The covariance is the inverse of the information; with survey weights the linearised one of a sample drawn with replacement
    (Binder 1983). `polish` takes one more step of Newton's method, for coefficients to the last digits.
    """
    basis, w = orthonormal(x), np.ones(len(x)) if weight is None else weight
    q = basis.columns

    def rows(start: int, stop: int) -> Numbers:
        return q[start:stop]

    fit = logistic(rows, y, w, q.shape[1], intercept=False)
    b, information = fit.coefficients, fit.information
    bread, least = _information_bread(information)
    if polish:
        b = b + bread @ (q.T @ (w * (y - fit.fitted)))
    state = _look(rows, y, w, b, np.zeros(len(b)))
    if polish:
        bread, _ = _information_bread(state.information)
    covariance = bread
    if weight is not None:
        scores = q * (w * (y - state.fitted))[:, None]
        covariance = bread @ (scores.T @ scores) @ bread * len(x) / (len(x) - 1)
    return LogisticRegression(
        np.where(basis.estimable, basis.back @ b, np.nan),
        basis.back @ covariance @ basis.back.T,
        state.fitted,
        state.value,
        least,
        fit.converged,
    )


def _information_bread(information: Numbers) -> tuple[Numbers, float]:
    """Return the inverse, and the least eigenvalue; an outcome that is told completely has a huge error, not an infinite one."""
    values, vectors = np.linalg.eigh(information)
    return (vectors / values.clip(min=1e-16 * values[-1])) @ vectors.T, float(values[0])
