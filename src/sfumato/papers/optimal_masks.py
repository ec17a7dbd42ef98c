"""The matrices of the best mask of each kind: projections without noise, and the release that keeps most of X."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from sfumato.contract.mask import Mask, Recipe
from sfumato.errors import NotApplicable, join_names
from sfumato.lazy import linalg, optimize
from sfumato.masks import Identity, MatrixMask, StructuredNoise, SuppressColumns
from sfumato.papers.conditional import conditional_variance, omega
from sfumato.papers.inferential import Disclosure, InferentialDisclosure, RandomMatrix
from sfumato.papers.masking_problem import Functional, MaskingProblem, halved, keep_most
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers

FAINTEST = 1e-6
"""Share of a direction's variance that must be kept for it to be released at all; noise that hides all would be infinite."""
_NONE = 1e-11
"""A share hidden that is taken for none: the rounding of F."""


class ReleaseParts(NamedTuple):
    """B, shape (p, c), None for the identity; and the covariance of C, shape (c, c), None for none."""

    B: Numbers | None
    noise: Numbers | None


def exact_parts(problem: MaskingProblem, out: Numbers) -> ReleaseParts:
    """Return B for a release of all directions of Z but those in `out`, shape (r, k), without noise."""
    if not out.shape[1]:
        return ReleaseParts(None, None)
    rest = np.linalg.svd(out)[0][:, out.shape[1] :]
    return ReleaseParts(_readable(problem, rest)[0], None)


def noisy_parts(problem: MaskingProblem, F: Numbers, least: float = FAINTEST / 2) -> ReleaseParts:
    """Return B and the noise for F = Σ fᵢ vᵢvᵢ′: vᵢ′Z gets noise of variance (1 - fᵢ)/fᵢ.

    Where every fᵢ is positive this is M = X + C, with Var C = R Σ (1 - fᵢ)/fᵢ vᵢvᵢ′ R′; else some directions are not released,
    and M = XB + C has fewer columns. What is below `least` is taken for 0.
    """
    f, V = np.linalg.eigh(F)
    shown = f >= least
    f, V = np.minimum(f[shown], 1.0), V[:, shown]
    ratio = np.where(1 - f > _NONE, (1 - f) / f, 0.0)
    if shown.all():
        spread = problem.root @ V * np.sqrt(ratio)
        spread[np.linalg.norm(spread, axis=1) < 1e-9 * np.sqrt(np.diag(problem.S_xx))] = 0.0  # the rounding of no noise
        return ReleaseParts(None, spread @ spread.T if ratio.any() else None)
    B, change = _readable(problem, V)
    spread = change.T * np.sqrt(ratio)
    return ReleaseParts(B, spread @ spread.T if ratio.any() else None)


def mask_of(problem: MaskingProblem, parts: ReleaseParts, taken: Sequence[str], gone: tuple[str, ...]) -> Mask | Recipe:
    """Return the mask with these matrices, for data that have columns named `taken`, without those in `gone`."""
    B, noise = parts
    columns = problem.columns
    steps: list[Mask] = [SuppressColumns(gone)] if gone else []
    if B is not None and not B.shape[1]:
        return SuppressColumns((*columns, *gone))
    if B is not None:
        others = {*taken} - {*columns}
        letter = "m"
        while any(f"{letter}{j + 1}" in others for j in range(len(columns))):
            letter += "_"
        columns = tuple(f"{letter}{j + 1}" for j in range(B.shape[1]))
        steps.append(MatrixMask(problem.columns, B=B, released=columns))
    if noise is not None:
        steps.append(StructuredNoise(columns, noise))
    if len(steps) < 2:
        return steps[0] if steps else Identity()
    return Recipe.of(*steps)


def matrices(mask: Mask | Recipe, columns: tuple[str, ...]) -> tuple[Numbers | None, Numbers | None]:
    """Return B and the covariance of C, as they stand in the mask itself; B has no columns if nothing is released."""
    B, noise = None, None
    for step in [s.mask for s in mask.steps] if isinstance(mask, Recipe) else [mask]:
        if isinstance(step, MatrixMask):
            B = np.array(step.B)
        elif isinstance(step, StructuredNoise):
            noise = step.noise(step.columns, np.array(step.covariance), Schema(()))
        elif isinstance(step, SuppressColumns) and set(columns) <= set(step.columns):
            B = np.zeros((len(columns), 0))
    return B, noise


def certify(mask: Mask | Recipe, problem: MaskingProblem) -> Disclosure:
    """Return what the mask discloses, worked out from its own matrices by equation (5.1), not by the way it was found."""
    spy = InferentialDisclosure(problem.S_yy, problem.S_yx, problem.S_xx)
    return disclosed_beside(spy, *matrices(mask, problem.columns))


def disclosed_beside(
    spy: InferentialDisclosure, B: Numbers | None, noise: Numbers | None, others: int = 0
) -> Disclosure:
    """Return what M = XB + C discloses, released beside `others` other attributes, the last ones of the spy's."""
    p = spy.attributes - others
    b = np.eye(p) if B is None else B
    c = b.shape[1]
    if not c + others:
        return spy.after(B=np.zeros((p, 1)))
    wide, spread = np.zeros((p + others, c + others)), np.zeros((c + others,) * 2)
    wide[:p, :c], wide[p:, c:] = b, np.eye(others)
    spread[:c, :c] = 0.0 if noise is None else noise
    return spy.after(B=wide, C=RandomMatrix.noise(spread, 1))


def left_unknown(problem: MaskingProblem, B: Numbers | None, noise: Numbers | None) -> Numbers:
    """Return Var(X | M) for M = XB + C, shape (p, p)."""
    S = problem.S_xx
    if B is not None and not B.shape[1]:
        return S
    S_xm = S if B is None else S @ B
    S_mm = (S_xm if B is None else B.T @ S_xm) + (0.0 if noise is None else noise)
    return conditional_variance(S, S_xm, S_mm)


def _readable(problem: MaskingProblem, V: Numbers) -> tuple[Numbers, Numbers]:
    """Return B with the columns of W′V in another basis, in which each is one attribute plus a little of those left out.

    B = W′V T has the rows of the identity for c attributes; T, shape (c, c), is returned too.
    """
    p, c = len(problem.columns), V.shape[1]
    if not c:
        return np.zeros((p, 0)), np.zeros((0, 0))
    plain = problem.white.root.T @ V
    sd = np.sqrt(np.diag(problem.S_xx))
    _, _, order = linalg.qr((plain * sd[:, None]).T, mode="economic", pivoting=True)
    lead = np.sort(order[:c])
    T: Numbers = np.linalg.inv(plain[lead]).astype(np.float64)
    B: Numbers = plain @ T
    B[np.abs(B) * sd[:, None] < 1e-12 * sd[lead]] = 0.0
    B[lead] = np.eye(c)
    return B, T


# The best attribute-transforming mask M = XB without noise: which combinations of the attributes to leave out.
#
# As in keep_most.py, but F must be a projection: each direction of Z is released exactly or not at all. K = I - F, of rank k, loses
# tr(HK). Leaving out more than t directions, one for each target, is never better: if K is enough, so is the projection onto
# the span of KJ′, which is below K and has J K J′ unchanged.


_FAR = 30.0
"""Logarithm of the largest multiplier, relative to the scale: beyond it rounding hides what H says."""
_STARTS, _STEPS = 6, 60
"""Number of scattered starts of the search for each rank, and of steps from each."""


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
    """Return the best projection; None if this number of combinations cannot be released.

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

    x: Numbers = optimize.minimize(  # type: ignore[call-overload]
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


Kind = Literal["both", "attributes", "displacing"]


def solve_masking(
    problem: MaskingProblem, kind: Kind, combinations: int | None, margin: float
) -> tuple[ReleaseParts, float]:
    """Return the mask's matrices for a τ that is a little smaller, and the most that any acceptable mask keeps."""
    H, functional = problem.worth, problem.functional
    J, J_below = problem.link / np.sqrt(problem.tau), problem.link / np.sqrt(problem.tau * (1 - margin))
    whole = keep_most(H, J, functional)
    if kind == "attributes":
        limit = best_projection(H, J, functional, whole.multiplier, combinations, search=False)
        below = best_projection(H, J_below, functional, keep_most(H, J_below, functional).multiplier, combinations)
        if below is None:
            raise NotApplicable(
                f"{combinations} combinations of {join_names(problem.columns)} cannot be released without noise at this tau: too "
                "few directions are left out. Ask for fewer combinations, or for kind='both'."
            )
        return exact_parts(problem, below.out), whole.bound if limit is None else limit.bound
    F = keep_most(H, J_below, functional).F
    if kind == "both" or np.linalg.eigvalsh(F)[0] >= FAINTEST:
        return noisy_parts(problem, F), whole.bound
    return noisy_parts(problem, _with_floor(H, J_below, functional), least=0.0), whole.bound


def _with_floor(H: Numbers, J: Numbers, functional: Functional) -> Numbers:
    """Return the best F ⪰ δI: no direction may be hidden altogether, since X + C would need infinite noise.

    F = δI + (1 - δ)F′ with 0 ⪯ F′ ⪯ I, and J F J′ ≤ I becomes J F′ J′ ≤ T = (I - δJJ′)/(1 - δ).
    """
    G = J @ J.T
    delta = min(FAINTEST, 0.05 / omega(G, functional))
    if functional == "trace":
        J = J / np.sqrt((1 - delta * np.trace(G)) / (1 - delta))
    elif functional == "each target":
        J = J / np.sqrt((1 - delta * np.diag(G)) / (1 - delta))[:, None]
    else:
        J = np.linalg.solve(np.linalg.cholesky((np.eye(len(G)) - delta * G) / (1 - delta)), J)
    return delta * np.eye(len(H)) + (1 - delta) * keep_most(H, J, functional).F
