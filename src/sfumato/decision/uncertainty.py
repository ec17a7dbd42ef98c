"""Posterior uncertainty in closed form: normal priors, linear targets, normal noise (RTA paper, sections 2.3.3 and 3.1.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.decision.conditional import conditional_variance
from sfumato.decision.loss import Loss, Quadratic
from sfumato.decision.observation import Linear
from sfumato.decision.prior import Normal
from sfumato.decision.target import Target, User
from sfumato.errors import NotApplicable

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """X | Z = z ~ N(mean(z), variance): what a user knows of a target after publication (definition 2.3.2.2).

    The variance does not depend on z. It is infinite, and there is no mean, if what is published says too little about a
    target of which nothing was known.
    """

    prior_mean: float
    weights: Numbers
    """a of the mean m + a'(z - Tm), shape (m,)."""
    centre: Numbers
    """What the user expected to be published, Tm."""
    variance: float

    def mean(self, z: ArrayLike) -> float:
        """Return the user's best estimate Θ(X | Z = z)."""
        if self.variance == math.inf:
            return math.nan
        return float(self.prior_mean + self.weights @ (np.atleast_1d(np.asarray(z, np.float64)) - self.centre))


def posterior(user: User, target: Target, published: Linear) -> Posterior:
    """Return what a user with a normal prior knows of a linear target once T D + ε is published.

    With D ~ N(m, V): E(c'D | z) = c'm + c'VT'(TVT' + Σ)⁻(z - Tm), and the variance c'Vc - c'VT'(TVT' + Σ)⁻TVc. Where nothing
    is known of some of D, the limit for a prior variance that grows: the best unbiased linear estimate.

    >>> g = User("g", Normal([50, 50, 5], [500, 0, 50]))
    >>> known = posterior(g, Target("1", [1, 0, 0], base=100), Linear([[1, 1, 1]], 75))
    >>> known.mean(83), round(known.variance, 9)
    (32.4, 100.0)
    """
    prior = user.prior
    if not isinstance(prior, Normal) or target.weights is None:
        raise NotApplicable(
            f"what '{user.name}' knows of '{target.name}' has a formula only for a normal prior and a linear target."
        )
    c, T, V = target._fitting(prior.size), published.T, prior.covariance
    published.check_size(prior.size)
    W, k, own = T @ V @ T.T + published.noise, T @ V @ c, float(c @ V @ c)
    start, free = np.zeros(len(T)), np.eye(len(T))
    if prior.flat.size:
        unbiased = _unbiased(T @ prior.flat, prior.flat.T @ c)
        if unbiased is None:
            return Posterior(math.nan, start, T @ prior.mean, math.inf)
        start, free = unbiased
    left = float(own - 2 * start @ k + start @ W @ start)  # the error of the first unbiased estimate
    with_free, among = free.T @ (k - W @ start), free.T @ W @ free
    if not free.shape[1]:
        return Posterior(float(c @ prior.mean), start, T @ prior.mean, max(left, 0.0))
    variance = float(conditional_variance(left, with_free, among)[0, 0])
    weights = start + free @ np.linalg.lstsq(among, with_free, rcond=1e-12)[0]
    return Posterior(float(c @ prior.mean), weights, T @ prior.mean, variance)


def posterior_uncertainty(user: User, target: Target, published: Linear, loss: Loss | None = None) -> float:
    """Return Ψ(X | Z = z), the same for every z (definition 2.3.3.5); certainty is its reciprocal.

    >>> g = User("g", Normal([50, 40, 5], [500, 200, 50]))
    >>> round(posterior_uncertainty(g, Target("1", [1, 0, 0], base=100), Linear([[1, 1, 1]])), 3)
    166.667
    """
    return (loss or Quadratic()).normal(posterior(user, target, published).variance)


def _unbiased(drift: Numbers, wanted: Numbers) -> tuple[Numbers, Numbers] | None:
    """Return one a with drift'a = wanted, and all directions that keep it so (m, free); None if there is none."""
    u, s, vt = np.linalg.svd(drift.T)
    rank = int((s > 1e-12 * s.max(initial=0.0)).sum())
    a = vt[:rank].T @ ((u[:, :rank].T @ wanted) / s[:rank])
    if np.abs(drift.T @ a - wanted).max(initial=0.0) > 1e-9 * max(float(np.abs(wanted).max(initial=0.0)), 1e-300):
        return None
    return a, vt[rank:].T
