"""What the usual masks lose at the same τ: the yardstick of the best one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.functionals import omega
from sfumato.decision.keep_most import crossing
from sfumato.decision.masking_problem import MaskingProblem
from sfumato.errors import listing

Numbers = NDArray[np.float64]

DROPPING = "dropping columns"
MOST = 10
"""Up to so many columns every subset is tried; beyond, columns are dropped one by one, each time the one that helps most."""


@dataclass(frozen=True)
class NaiveMask:
    """A usual mask, as mild as τ allows."""

    name: str
    setting: str
    lost: float
    """The weighted trace of Var(X | M); for noise, the limit as what is explained rises to τ."""
    kept: float
    """Share of the (weighted) variance of X that the release explains."""


@dataclass(frozen=True, eq=False)
class Subset:
    """Some columns released as they are, and no others."""

    names: tuple[str, ...]
    disclosed: float
    lost: float


def naive_masks(problem: MaskingProblem, subsets: list[Subset] | None = None) -> tuple[NaiveMask, ...]:
    """Return Kim's noise, independent noise, and the columns dropped that cost least, each at the problem's τ."""
    return kim(problem), independent(problem), dropping(problem, subsets or all_subsets(problem))


def kim(problem: MaskingProblem) -> NaiveMask:
    """Return C ~ N(0, λ²Σ): F = I/(1 + λ²), so that what is explained and what is kept fall in the same proportion."""
    share = min(1.0, problem.tau / problem.unmasked) if problem.unmasked > 0 else 1.0
    return _named(problem, "Kim noise", f"λ² = {1 / share - 1:.3g}", problem.total * (1 - share))


def independent(problem: MaskingProblem) -> NaiveMask:
    """Return C with independent columns of variances λ² Var Xⱼ."""
    weights, V = np.linalg.eigh(_noise_in_z(problem, np.diag(problem.S_xx)))

    def shown(lambda2: float) -> Numbers:
        return np.asarray((V / (1 + lambda2 * weights)) @ V.T)

    def over(log_lambda2: float) -> float:
        return (
            omega(problem.link @ shown(float(np.exp(log_lambda2))) @ problem.link.T, problem.functional) - problem.tau
        )

    lambda2 = 0.0 if problem.unmasked < problem.tau else float(np.exp(crossing(over, 0.0)[1]))
    lost = problem.total - float(np.sum(problem.worth * shown(lambda2)))
    return _named(problem, "independent noise", f"λ² = {lambda2:.3g}", lost)


def _noise_in_z(problem: MaskingProblem, variance: Numbers) -> Numbers:
    """Return the covariance Ω₀ of the noise as Z sees it, at λ² = 1: Var(Z | X + C) = I - (I + λ²Ω₀)⁻¹, for S_xx of full rank.

    If S_xx is singular, X + C in the space of X is more than Z plus noise: the combinations that X does not have are known to be
    noise alone, and are used to filter it: Ω₀ is what remains given them.
    """
    W, null = problem.white.root, problem.white.null
    own = (W * variance) @ W.T
    if not len(null):
        return np.asarray(own)
    cross, beyond = (W * variance) @ null.T, (null * variance) @ null.T
    return np.asarray(own - cross @ np.linalg.solve(beyond, cross.T))


def dropping(problem: MaskingProblem, subsets: list[Subset]) -> NaiveMask:
    """Return the release of some columns as they are that loses least."""
    best = min((s for s in subsets if s.disclosed < problem.tau), key=lambda s: s.lost)
    gone = [n for n in problem.columns if n not in best.names]
    setting = f"without {listing(gone)}" if gone else "none dropped"
    return _named(problem, DROPPING, setting, best.lost)


def all_subsets(problem: MaskingProblem) -> list[Subset]:
    """Return every set of columns with what it discloses and loses; whatever τ is. Beyond `MOST` columns, a sequence of sets."""
    p = len(problem.columns)
    if p <= MOST:
        return [_subset(problem, at) for k in range(p + 1) for at in combinations(range(p), k)]
    made = [_subset(problem, tuple(range(p)))]
    at = tuple(range(p))
    while at:
        disclosed = _without_each(problem, at)
        at = tuple(i for j, i in enumerate(at) if j != int(np.argmin(disclosed)))
        made.append(_subset(problem, at))
    return made


def _without_each(problem: MaskingProblem, at: tuple[int, ...]) -> list[float]:
    """Return Ω of what some columns explain without the first of them, without the second, and so on.

    With P the inverse of their covariance, and v the slopes of the targets on them, to drop column j takes vⱼvⱼ′/Pⱼⱼ off G.
    """
    rows = _standard_rows(problem, at)
    R = rows @ rows.T
    if np.linalg.eigvalsh(R)[0] < 1e-9 * len(R):  # some depend on others: no inverse
        return [_subset(problem, tuple(i for i in at if i != j)).disclosed for j in at]
    P, link = np.linalg.inv(R), problem.link @ rows.T
    slopes = link @ P
    G = slopes @ link.T
    return [omega(G - np.outer(v, v) / own, problem.functional) for v, own in zip(slopes.T, np.diag(P), strict=True)]


def _standard_rows(problem: MaskingProblem, at: tuple[int, ...]) -> Numbers:
    """Return some columns, in units of their standard deviations, as combinations of Z; shape (k, r)."""
    return np.asarray(problem.root[list(at)] / np.sqrt(np.diag(problem.S_xx))[list(at), None])


def _subset(problem: MaskingProblem, at: tuple[int, ...]) -> Subset:
    names = tuple(problem.columns[i] for i in at)
    if not at:
        return Subset(names, 0.0, problem.total)
    _, size, Q = np.linalg.svd(_standard_rows(problem, at), full_matrices=False)
    Q = Q[size > 1e-6 * size[0]]
    link = problem.link @ Q.T
    lost = problem.total - float(np.sum(Q * (Q @ problem.worth)))
    return Subset(names, omega(link @ link.T, problem.functional), lost)


def _named(problem: MaskingProblem, name: str, setting: str, lost: float) -> NaiveMask:
    lost = max(lost, 0.0)
    return NaiveMask(name, setting, lost, 1 - lost / problem.total)
