"""The best attribute-transforming mask M = XB without noise: which combinations of the attributes to leave out.

As in keep_most.py, but F must be a projection: each direction of Z is released exactly or not at all. K = I - F, of rank k, loses
tr(HK). Leaving out more than t directions, one for each target, is never better: if K is enough, so is the projection onto
the span of KJ′, which is below K and has J K J′ unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.functionals import omega
from sfumato.decision.keep_most import Functional, halved

Numbers = NDArray[np.float64]

_FAR = 30.0
"""Logarithm of the largest multiplier, relative to the scale: beyond it rounding hides what H says."""
_STARTS, _STEPS = 6, 60
"""How many scattered starts the search has for each rank, and how many steps from each."""


class Projected(NamedTuple):
    """The directions that are left out, shape (r, k), orthonormal; and the most that any such projection keeps."""

    out: Numbers
    bound: float


def best_projection(
    H: Numbers,
    J: Numbers,
    functional: Functional,
    multiplier: Numbers,
    combinations: int | None = None,
    search: bool = True,
) -> Projected | None:
    """Return the best projection; None if so many combinations cannot be released.

    `multiplier` is that of the best release with noise (`keep_most`), `combinations` the number r - k to release, or as many as
    may be. For one target, and for the trace of several, the answer is exact: K spans the k smallest eigenvalues of H - λJ′J, for
    the smallest λ ≥ 0 at which enough is left out. (The pairs (tr HK, tr J′JK) of all K of rank k form a convex set, or in two
    dimensions an ellipse, so that Lagrange's bound is attained.) The other functionals make a problem that is not convex: a
    search improves such K and others, and the bound, Lagrange's for the given multiplier, says how far from the best they can
    be.
    """
    r, t = len(H), len(J)
    if combinations is None and omega(J @ J.T, functional) <= 1:
        return Projected(np.zeros((r, 0)), float(np.trace(H)))
    exact = t == 1 or functional == "trace"
    ranks = tuple(range(1, min(t, r) + 1)) if combinations is None else (r - combinations,)
    shapes = [np.eye(t)] if exact or not multiplier.any() else [multiplier, np.eye(t)]
    found = [p for k in ranks for shape in shapes if (p := _along(H, J, functional, shape, k)) is not None]
    best = min((p.out for p in found), key=lambda U: lost(H, U), default=None)
    if exact or not multiplier.any():  # with no limit on what is explained, the largest eigenvalues of H are the best
        return None if best is None else Projected(best, max(p.bound for p in found))
    values = np.linalg.eigvalsh(H - J.T @ multiplier @ J)
    top = np.maximum(values, 0) if combinations is None else values[r - combinations :]
    bound, total = float(np.trace(multiplier) + top.sum()), float(np.trace(H))
    if search and (best is None or bound - (total - lost(H, best)) > 1e-7 * total):
        tried = ([] if best is None else [best]) + _searched(H, J, functional, found, ranks)
        best = min(tried, key=lambda U: lost(H, U), default=None)
    return None if best is None else Projected(best, bound)


def lost(H: Numbers, U: Numbers) -> float:
    """Return tr(HK) for K = UU′."""
    return float(np.sum(U * (H @ U)))


def _along(H: Numbers, J: Numbers, functional: Functional, shape: Numbers, k: int) -> Projected | None:
    """Return the k smallest directions of H - λ J′ shape J for the smallest λ that leaves out enough, with Lagrange's bound."""
    N = J.T @ shape @ J
    unit = float(np.trace(H) / np.trace(N)) if N.any() else 1.0
    total = float(np.trace(H))

    def at(multiplier: float) -> tuple[Numbers, float]:
        values, V = np.linalg.eigh(H - multiplier * N)
        # with tr(NK) ≥ tr N - 1 nothing of rank k loses less than this
        return V[:, :k], total - multiplier * (float(np.trace(N)) - 1) - float(values[:k].sum())

    def too_much(U: Numbers) -> float:
        return omega(_rest(J, U), functional) - 1

    start, bound = at(0.0)
    if too_much(start) <= 0:
        return Projected(start, bound)
    last = np.log(unit) + _FAR
    if too_much(at(float(np.exp(last)))[0]) > 0:
        return None
    low, high = halved(lambda x: too_much(at(float(np.exp(x)))[0]), last - 2 * _FAR, last)
    (near, _), (far, bound) = at(float(np.exp(low))), at(float(np.exp(high)))
    # where eigenvalues cross, K jumps; in between are the projections on the way from one side to the other
    _, share = halved(lambda s: too_much(_turned(near, far, s)), 0.0, 1.0)
    return Projected(_turned(near, far, share), bound)


def _turned(near: Numbers, far: Numbers, share: float) -> Numbers:
    """Return the subspace a share of the way along the shortest path (geodesic) from one to the other, same shape."""
    if share >= 1:
        return far
    left, cosine, right = np.linalg.svd(near.T @ far)
    a, b = near @ left, far @ right.T
    angle = np.arccos(np.clip(cosine, -1, 1))
    aside = b - a * cosine
    size = np.linalg.norm(aside, axis=0)
    aside = np.divide(aside, size, out=np.zeros_like(aside), where=size > 1e-9)
    turned, _ = np.linalg.qr(a * np.cos(share * angle) + aside * np.sin(share * angle))
    return np.asarray(turned)


def _searched(
    H: Numbers, J: Numbers, functional: Functional, found: list[Projected], ranks: Sequence[int]
) -> list[Numbers]:
    """Return subspaces of these ranks within the limit, improved step by step from what was found and from scattered starts.

    The problem is not convex, so this is a search; the same starts are tried each time.
    """
    scatter = np.random.default_rng(0)
    starts = [p.out for p in found]
    for k in ranks:
        # what is left out lies in the span of the targets, moved towards the directions that are worth little
        turned = np.linalg.solve(H + scatter.uniform(0, 3) * np.trace(H) / len(H) * np.eye(len(H)), J.T)
        starts += [np.linalg.qr(turned @ scatter.normal(size=(len(J), k)))[0] for _ in range(_STARTS)]
    made = [_improved(H, J, functional, U) for U in starts]
    return [U for U in made if omega(_rest(J, U), functional) <= 1]


def _improved(H: Numbers, J: Numbers, functional: Functional, start: Numbers) -> Numbers:
    """Return a subspace near by that loses less: sequential quadratic programming over any basis A of it, K = A(A′A)⁻¹A′.

    The slope of tr(SK) in A is 2(I - K)SA(A′A)⁻¹.
    """
    from scipy.optimize import minimize

    scale = float(np.trace(H))

    def parts(x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """An orthonormal basis U, the targets left, and A(A′A)⁻¹ = UR′⁻¹."""
        U, R = np.linalg.qr(x.reshape(start.shape))
        return U, J - (J @ U) @ U.T, np.linalg.solve(R, U.T).T

    def loss(x: Numbers) -> float:
        return lost(H, parts(x)[0]) / scale

    def slope(x: Numbers) -> Numbers:
        U, _, right = parts(x)
        moved = H @ right
        return np.asarray(2 * (moved - U @ (U.T @ moved)) / scale).ravel()

    def room(x: Numbers) -> Numbers:
        return np.asarray(1 - 1e-8 - ends(parts(x)[1])[0])

    def ends(rest: Numbers) -> tuple[Numbers, Numbers]:
        """What is still explained of each target, or in each main direction of theirs; and those directions, as columns."""
        if functional == "each target":
            return np.square(rest).sum(axis=1), np.eye(len(J))
        values, V = np.linalg.eigh(rest @ rest.T)
        return values, V

    def widening(x: Numbers) -> Numbers:
        _, rest, right = parts(x)
        along = ends(rest)[1].T
        return np.array([2 * np.outer(v @ rest, (v @ J) @ right).ravel() for v in along])

    x: Numbers = minimize(  # type: ignore[call-overload]
        loss,
        start.ravel(),
        jac=slope,
        method="SLSQP",
        constraints={"type": "ineq", "fun": room, "jac": widening},
        options={"maxiter": _STEPS, "ftol": 1e-12},
    ).x
    return parts(x)[0]


def _rest(J: Numbers, U: Numbers) -> Numbers:
    """Return J(I - UU′)J′, what is still explained."""
    left = J - (J @ U) @ U.T
    return np.asarray(left @ left.T)
