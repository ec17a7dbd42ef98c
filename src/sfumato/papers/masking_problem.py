"""The problem of the best matrix mask, and the release that keeps most of X while little of Y is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from sfumato.contract.mask import numeric_targets
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, join_names, plural, refuse_unknown
from sfumato.papers.conditional import (
    Whitening,
    check_functional,
    check_threshold,
    conditional_variance,
    deviations,
    numbers,
    omega,
    relative_root,
    square,
    whiten,
)
from sfumato.papers.file_covariance import FileCovariance, file_covariance
from sfumato.typing import Numbers

# The release that keeps most of X while little of Y is explained: a semidefinite programme, and its certificate.
#
# In coordinates Z of X with Var Z = I, a release M = XB + C of normal X with normal noise C is a matrix F = Var E(Z | M), and
# 0 ⪯ F ⪯ I. It keeps tr(HF), where H weighs the directions, and explains J F J′ of the targets, where J = Cov(Y, Z). Every F is
# some release: if F = Σ fᵢ vᵢvᵢ′, release vᵢ′Z with noise of variance (1 - fᵢ)/fᵢ where fᵢ > 0, and no vᵢ′Z where fᵢ = 0. So the
# best release (matrix-masking paper, section V) is the F that solves
#
#     max tr(HF)   subject to   Ω(J F J′) ≤ 1,  0 ⪯ F ⪯ I
#
# for J in units in which τ is 1. Lagrange: with any multiplier Λ ⪰ 0 no release keeps more than cost(Λ) + tr(H - J′ΛJ)₊, where ( )₊
# keeps the positive eigenvalues; Λ = λI and cost λ for Ω = trace, Λ diagonal and cost tr Λ for the largest variance of a target,
# any Λ and cost tr Λ for the largest eigenvalue. A release that keeps as much as this bound is the best, however it was found.

Functional = Literal["trace", "largest eigenvalue", "each target"]
"""Those under which the best release is worked out."""

_CLOSE = 1e-9
"""Relative duality gap at which the barrier method stops."""


@dataclass(frozen=True, eq=False)
class KeptRelease:
    """F, shape (r, r), with the multiplier Λ (t, t) and the most that any release can keep, by that multiplier."""

    F: Numbers
    multiplier: Numbers
    bound: float


def keep_most(H: Numbers, J: Numbers, functional: Functional) -> KeptRelease:
    """Return the best F for a positive definite H, shape (r, r), and J, shape (t, r).

    One target has a closed form; the trace of several needs one root; the others Newton's method with a barrier.
    """
    t = len(J)
    if omega(J @ J.T, functional) <= 1:
        return KeptRelease(np.eye(len(H)), np.zeros((t, t)), float(np.trace(H)))
    if t == 1:
        F, multiplier = one_target(H, J[0])
    elif functional == "trace":
        F, multiplier = by_trace(H, J.T @ J)
    else:
        F, Lambda = by_barrier(H, J, diagonal=functional == "each target")
        return KeptRelease(F, Lambda, float(np.trace(Lambda)) + positive_part(H - J.T @ Lambda @ J))
    return KeptRelease(F, multiplier * np.eye(t), multiplier + positive_part(H - multiplier * (J.T @ J)))


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


SOLVED: tuple[Functional, ...] = get_args(Functional)


@dataclass(frozen=True, eq=False)
class MaskingProblem:
    """Minimise the weighted trace of Var(X | M) subject to Ω{Σ_YM Σ_MM⁻ Σ_MY} < τ (matrix-masking paper, section V)."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    S_xx: Numbers
    """Shape (p, p)."""
    S_yx: Numbers
    """Shape (t, p)."""
    S_yy: Numbers
    """Shape (t, t)."""
    tau: float
    functional: Functional
    relative: bool
    """Whether τ is a share of the targets' variance, and what is lost is counted in shares of each attribute's variance."""
    importance: Numbers
    """The weight of each attribute's variance, shape (p,), in its own squared units."""
    shrinkage: float = 0.0
    """The share by which the correlations of the data were shrunk."""

    @cached_property
    def white(self) -> Whitening:
        """W with W S_xx W′ = I: Z = WX are the coordinates in which F lives."""
        return whiten(self.S_xx)

    @cached_property
    def root(self) -> Numbers:
        """R = S_xx W′, shape (p, r), with X = RZ and RR′ = S_xx."""
        return np.asarray(self.S_xx @ self.white.root.T)

    @cached_property
    def worth(self) -> Numbers:
        """H: what each direction of Z is worth, shape (r, r)."""
        return np.asarray(self.root.T @ (self.importance[:, None] * self.root))

    @cached_property
    def link(self) -> Numbers:
        """J = Cov(Y, Z), shape (t, r), in the units in which τ is counted."""
        return np.asarray(self._unit @ self.S_yx @ self.white.root.T)

    @cached_property
    def _unit(self) -> Numbers:
        """The factor of Y: all combinations of targets, or each, get variance one if τ is a share."""
        if not self.relative:
            return np.eye(len(self.targets))
        return relative_root(self.S_yy, self.functional)

    @property
    def total(self) -> float:
        """The weighted trace of Var X: what a release of nothing loses."""
        return float(self.importance @ np.diag(self.S_xx))

    @property
    def unmasked(self) -> float:
        """Ω of what X itself explains."""
        return omega(self.link @ self.link.T, self.functional)

    def disclosed(self, G: Numbers) -> float:
        """Return Ω of the variance explained of the targets, G of shape (t, t) in their own units."""
        return omega(self._unit @ G @ self._unit.T, self.functional)

    def lost(self, left: Numbers) -> float:
        """Return the weighted trace of Var(X | M), shape (p, p)."""
        return float(self.importance @ np.diag(left))

    def at(self, tau: float) -> MaskingProblem:
        """Return the same problem with another τ."""
        return replace(self, tau=_checked(tau))


def problem_of(
    source: Microdata | Any,
    targets: Sequence[str] | str,
    tau: float,
    columns: Sequence[str] | None = None,
    functional: str = "trace",
    relative: bool = True,
    importance: Mapping[str, float] | None = None,
    shrinkage: str | float = "auto",
    weighted: bool = False,
) -> MaskingProblem:
    """Return the problem for data, or for a joint covariance matrix of attributes and targets with names (a pandas frame).

    Without `columns`, X is everything but the targets; of data, every confidential column of numbers but the targets.
    """
    if check_functional(functional) not in SOLVED:
        raise ParameterError(
            f"the best mask is worked out for {join_names(SOLVED)}; the {functional} can be judged (InferentialDisclosure, "
            "inferential_risk), but not optimised."
        )
    tau = _checked(tau)
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    if isinstance(source, Microdata):
        found = _of_data(source, targets, columns, shrinkage, weighted)
        names, S, delta = found.names, found.matrix, found.shrinkage
    elif weighted or shrinkage != "auto":
        raise ParameterError(
            "weighted and shrinkage are about covariances that are estimated from data, but a covariance matrix is given."
        )
    else:
        (names, S), delta = _of_frame(source), 0.0
    columns = tuple(n for n in names if n not in targets) if columns is None else tuple(columns)
    for what, chosen in (("targets", targets), ("columns", columns)):
        if not chosen or len(set(chosen)) < len(chosen):
            raise ParameterError(f"{what} must name at least one column, and none twice.")
        refuse_unknown("column", names, "the covariance matrix", *chosen)
    x, y = ([names.index(n) for n in chosen] for chosen in (columns, targets))
    S_xx, S_yx, S_yy = S[np.ix_(x, x)], S[np.ix_(y, x)], S[np.ix_(y, y)]
    conditional_variance(S_yy, S_yx, S_xx)  # refuses what is no joint covariance
    for part, own in ((S_xx, columns), (S_yy, targets)):
        if still := [n for n, v in zip(own, np.diag(part), strict=True) if v <= 0]:
            raise ParameterError(
                f"{join_names(still)}: the variance is zero, so there is nothing to infer or to mask. Leave it out."
            )
    counts = _importance(importance, columns) / (np.diag(S_xx) if relative else 1.0)
    return MaskingProblem(
        columns, targets, S_xx, S_yx, S_yy, tau, cast("Functional", functional), relative, counts, delta
    )


def _checked(tau: float) -> float:
    tau = check_threshold(tau)
    if not 0 < tau < np.inf:
        raise ParameterError(
            "tau must be above 0, and finite: a mask is acceptable if it explains strictly less than τ, and even one that "
            "releases nothing explains 0."
        )
    return tau


def _importance(importance: Mapping[str, float] | None, columns: tuple[str, ...]) -> Numbers:
    given = dict(importance or {})
    if extra := [n for n in given if n not in columns]:
        raise ParameterError(f"importance names columns that are not masked: {join_names(extra)}.")
    values = numbers([given.get(n, 1.0) for n in columns], "importance")
    if not (np.isfinite(values) & (values > 0)).all():
        raise ParameterError(
            "importance must be numbers above 0: how much the variance of each column counts. Leave out of columns what need not "
            "be released."
        )
    return values


def _of_data(
    data: Microdata, targets: tuple[str, ...], columns: Sequence[str] | None, shrinkage: str | float, weighted: bool
) -> FileCovariance:
    """Return the covariance of X and Y, estimated as for `inferential_risk`."""
    chosen = numeric_targets(None if columns is None else tuple(columns), data)
    numeric_targets(targets, data)
    names = tuple(dict.fromkeys([*chosen, *targets]))
    found = file_covariance(data, names, shrinkage, weighted)
    if still := [n for n, v in zip(names, np.diag(found.matrix), strict=True) if v == 0]:
        raise DataError(
            f"{join_names(still)}: all values are the same, so there is nothing to infer or to mask. Leave it out."
        )
    if found.records <= len(names) and (
        isinstance(shrinkage, str) or not shrinkage
    ):  # estimated, it may well be 1: all is safe
        raise DataError(
            f"{plural(found.records)} {'has' if found.records == 1 else 'have'} all of {join_names(names)}: too few for their "
            "covariances. Name fewer columns, set shrinkage to a share of your own, or give a covariance matrix from elsewhere."
        )
    return found


def _of_frame(source: Any) -> tuple[tuple[str, ...], Numbers]:
    names = tuple(map(str, getattr(source, "columns", ())))
    matrix = numbers(source, "the covariance matrix") if names else np.empty(0)
    if not names or matrix.shape != (len(names), len(names)) or len(set(names)) < len(names):
        raise ParameterError(
            "best_mask takes Microdata, or the joint covariance matrix of attributes and targets as a pandas frame with their "
            "names, such as frame.cov()."
        )
    rows = tuple(map(str, getattr(source, "index", names)))
    if rows != names and rows != tuple(map(str, range(len(names)))):
        raise ParameterError("rows and columns of the covariance matrix must have the same names, in the same order.")
    S = square(matrix, "the covariance matrix")
    deviations(S, "the covariance matrix")
    whiten(S, "the covariance matrix")
    return names, S
