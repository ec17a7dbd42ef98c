"""The release that keeps most of X while little of Y is explained: a semidefinite programme, and its certificate.

In coordinates Z of X with Var Z = I, a release M = XB + C of normal X with normal noise C is a matrix F = Var E(Z | M), and
0 ⪯ F ⪯ I. It keeps tr(HF), where H weighs the directions, and explains J F J′ of the targets, where J = Cov(Y, Z). Every F is
some release: if F = Σ fᵢ vᵢvᵢ′, release vᵢ′Z with noise of variance (1 - fᵢ)/fᵢ where fᵢ > 0, and no vᵢ′Z where fᵢ = 0. So the
best release (matrix-masking paper, section V) is the F that solves

    max tr(HF)   subject to   Ω(J F J′) ≤ 1,  0 ⪯ F ⪯ I

for J in units in which τ is 1. Lagrange: with any multiplier Λ ⪰ 0 no release keeps more than cost(Λ) + tr(H - J′ΛJ)₊, where ( )₊
keeps the positive eigenvalues; Λ = λI and cost λ for Ω = trace, Λ diagonal and cost tr Λ for the largest variance of a target,
any Λ and cost tr Λ for the largest eigenvalue. A release that keeps as much as this bound is the best, however it was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.functionals import omega

Numbers = NDArray[np.float64]
Functional = Literal["trace", "largest eigenvalue", "each target"]
"""Those under which the best release is worked out."""

_CLOSE = 1e-9
"""Relative duality gap at which the barrier method stops."""


@dataclass(frozen=True, eq=False)
class Kept:
    """F, shape (r, r), with the multiplier Λ (t, t) and the most that any release can keep, by that multiplier."""

    F: Numbers
    multiplier: Numbers
    bound: float


def keep_most(H: Numbers, J: Numbers, functional: Functional) -> Kept:
    """Return the best F for a positive definite H, shape (r, r), and J, shape (t, r).

    One target has a closed form; the trace of several needs one root; the others Newton's method with a barrier.
    """
    t = len(J)
    if omega(J @ J.T, functional) <= 1:
        return Kept(np.eye(len(H)), np.zeros((t, t)), float(np.trace(H)))
    if t == 1:
        F, multiplier = one_target(H, J[0])
    elif functional == "trace":
        F, multiplier = by_trace(H, J.T @ J)
    else:
        F, Lambda = by_barrier(H, J, diagonal=functional == "each target")
        return Kept(F, Lambda, float(np.trace(Lambda)) + positive_part(H - J.T @ Lambda @ J))
    return Kept(F, multiplier * np.eye(t), multiplier + positive_part(H - multiplier * (J.T @ J)))


def positive_part(matrix: Numbers) -> float:
    """Return the sum of the positive eigenvalues."""
    return float(np.maximum(np.linalg.eigvalsh(matrix), 0).sum())


def one_target(H: Numbers, g: Numbers) -> tuple[Numbers, float]:
    """Return the best F for one target with covariances g, shape (r,), where |g|² > 1; and the multiplier λ.

    F = I - κuu′: of all directions, one alone is hidden, in part (κ < 1, by noise) or altogether (κ = 1, not released).

    Proof. K = I - F loses tr(HK) and must have g′Kg ≥ γ = |g|² - 1. For μ ≥ 0 let u be the unit vector along (H + μI)⁻¹g, and
    λ = 1/g′(H + μI)⁻¹g, so that (λgg′ - H)u = μu. No other eigenvalue of λgg′ - H is positive, since gg′ has rank one and H ≻ 0.
    So for every K with 0 ⪯ K ⪯ I: tr(HK) = λg′Kg - tr((λgg′ - H)K) ≥ λγ - μ. K = κuu′ attains this if κ(g′u)² = γ, and κ = 1
    unless μ = 0. As μ grows from 0 to ∞, (g′u)² = φ(μ) grows from φ(0) to |g|²: it is the slope in λ of the largest eigenvalue of
    λgg′ - H, which is convex. So μ = 0 and κ = γ/φ(0) if γ ≤ φ(0); else κ = 1 and φ(μ) = γ. ∎
    """
    h, V = np.linalg.eigh(H)
    c = V.T @ g
    share = np.square(c) / (g @ g)

    def short(mu: float) -> float:
        """|g|² - φ(μ), without cancellation: |g|² times the variance of 1/(h + μ) over its mean square."""
        a = 1 / (h / h[-1] + mu)
        return float(g @ g * (share @ np.square(a - share @ a)) / (share @ np.square(a)))

    mu = 0.0 if short(0.0) <= 1 else float(np.exp(crossing(lambda x: short(float(np.exp(x))) - 1, 0.0)[1]))
    a = c / (h + mu * h[-1])
    u = V @ a / np.linalg.norm(a)
    kappa = min((g @ g - 1) / (g @ u) ** 2, 1.0) if mu == 0 else 1.0
    return np.eye(len(H)) - kappa * np.outer(u, u), float(1 / (c @ a))


def by_trace(H: Numbers, N: Numbers) -> tuple[Numbers, float]:
    """Return the best F under tr(NF) ≤ 1, where N = J′J and tr N > 1; and the multiplier λ.

    F is the projection onto the directions in which H - λN is positive: release those that are worth more than they disclose,
    as Neyman and Pearson choose observations for a test. Where tr(NF) jumps past 1 at the best λ, F is a mixture of both sides.
    """

    def side(log_multiplier: float) -> Numbers:
        values, V = np.linalg.eigh(H - np.exp(log_multiplier) * N)
        V = V[:, values > 0]
        return np.asarray(V @ V.T)

    low, high = crossing(lambda x: float(np.sum(N * side(x))) - 1, np.log(np.trace(H) / np.trace(N)))
    over, under = side(low), side(high)
    much, little = float(np.sum(N * over)), float(np.sum(N * under))
    weight = 0.0 if much <= little else min(max((1 - little) / (much - little), 0.0), 1.0)
    return weight * over + (1 - weight) * under, float(np.exp(high))


def by_barrier(H: Numbers, J: Numbers, diagonal: bool) -> tuple[Numbers, Numbers]:
    """Return a nearly best F under J F J′ ⪯ I, or under its diagonal alone, and the multiplier Λ.

    Newton's method on the dual with logarithmic barriers: min tr(Λ) + Σ ψ(dᵢ) - ε log det Λ with d the eigenvalues of H - J′ΛJ
    and ψ(d) = min over z > max(0, d) of z - ε log z - ε log(z - d). The slope of ψ is the f between 0 and 1 with
    d = ε/(1 - f) - ε/f, so that at each minimum F = V diag(f) V′ is a release with J F J′ = I - εΛ⁻¹, within ε(2r + t) of the
    best.
    """
    t, r = J.shape
    scale = float(np.trace(H))
    basis = np.array([_unit(t, i, j) for i in range(t) for j in range(i, t) if i == j or not diagonal])
    epsilon = scale / r
    Lambda = epsilon * np.eye(t)
    best, most = (np.zeros((r, r)), Lambda), (-np.inf, np.inf)
    while epsilon > 1e-11 * scale:  # below that, rounding of d moves f = f(d/ε) more than the barrier does
        for _ in range(50):
            step, decrement = _newton(H, J, Lambda, epsilon, basis)
            Lambda = Lambda + step / (1 + np.sqrt(decrement / epsilon))  # damped, so that Λ stays positive definite
            if decrement < 1e-12 * epsilon:
                break
        F = _primal(H, J, Lambda, epsilon)[0]
        F = F / max(1.0, omega(J @ F @ J.T, "each target" if diagonal else "largest eigenvalue"))
        kept, bound = float(np.sum(H * F)), float(np.trace(Lambda)) + positive_part(H - J.T @ Lambda @ J)
        best = F if kept > most[0] else best[0], Lambda if bound < most[1] else best[1]
        most = max(kept, most[0]), min(bound, most[1])
        if most[1] - most[0] <= _CLOSE * scale:
            break
        epsilon *= 0.2
    return best


def _primal(H: Numbers, J: Numbers, Lambda: Numbers, epsilon: float) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return F, its eigenvalues f, 1 - f (neither by a difference that would cancel), and their vectors."""
    d, V = np.linalg.eigh(H - J.T @ Lambda @ J)
    size = np.hypot(d, 2 * epsilon) + np.abs(d) + 2 * epsilon
    small = 2 * epsilon / size
    large = (size - 2 * epsilon) / size
    f, rest = np.where(d > 0, large, small), np.where(d > 0, small, large)
    return (V * f) @ V.T, f, rest, V


def _newton(H: Numbers, J: Numbers, Lambda: Numbers, epsilon: float, basis: Numbers) -> tuple[Numbers, float]:
    """Return Newton's step for Λ and the squared decrement, worked out in coordinates in which Λ is the identity."""
    F, f, rest, V = _primal(H, J, Lambda, epsilon)
    C = np.linalg.cholesky(Lambda)
    own = np.eye(len(Lambda))
    gradient = C.T @ (own - J @ F @ J.T) @ C - epsilon * own
    # (fᵢ - fⱼ)/(dᵢ - dⱼ), since d = ε/(1 - f) - ε/f
    slope = 1 / (epsilon / np.outer(rest, rest) + epsilon / np.outer(f, f))
    A = C.T @ J @ V
    turned = A.T @ basis @ A
    hessian = np.einsum("kij,ij,lij->kl", turned, slope, turned, optimize=True) + epsilon * np.eye(len(basis))
    g = np.tensordot(basis, gradient, 2)
    x = -np.linalg.solve(hessian, g)
    return C @ np.tensordot(x, basis, 1) @ C.T, float(-g @ x)


def _unit(t: int, i: int, j: int) -> Numbers:
    E = np.zeros((t, t))
    E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
    return E


def crossing(function: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return two neighbouring numbers between which a falling function, perhaps with jumps, crosses zero; within 150 of start."""
    low = high = start
    while function(low) <= 0 and low > start - 150:
        low -= 5
    while function(high) > 0 and high < start + 150:
        high += 5
    return halved(function, low, high)


def halved(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return two neighbouring numbers from `low` to `high` such that a falling function is above zero up to the first only."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low, high
