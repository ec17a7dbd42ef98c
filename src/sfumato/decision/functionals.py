"""Functionals Ω: one number for the matrix of what is explained about several targets (matrix-masking paper, section III)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.conditional import remaining, whiten
from sfumato.errors import ParameterError, did_you_mean, listing

Numbers = NDArray[np.float64]

FUNCTIONALS = ("trace", "largest eigenvalue", "each target", "log-determinant")


def check_functional(name: str) -> str:
    """Return the name of a functional, or say which there are and why the determinant of G is none of them."""
    if name in FUNCTIONALS:
        return name
    if name in ("determinant", "det"):
        raise ParameterError(
            "the determinant of G is zero as soon as one combination of the targets stays hidden, even if another is disclosed "
            "completely, so it cannot tell whether a release is safe. Use 'largest eigenvalue', 'trace', or 'log-determinant', "
            "which is that of what remains."
        )
    raise ParameterError(
        f"functional '{name}' is not known.{did_you_mean(str(name), FUNCTIONALS)} There are: {listing(FUNCTIONALS)}."
    )


def of_explained(name: str, S_yy: Numbers, G: Numbers) -> float:
    """Return Ω{G}, which is compared with the τ of equation (5.1): the larger, the more is disclosed.

    ==================  =====================================================================================
    trace               tr G: the variances explained, summed over the targets
    largest eigenvalue  λ₁(G): the variance explained of the most disclosed combination of the targets
    each target         max Gⱼⱼ: the variance explained of the most disclosed target by itself
    log-determinant     log det S_yy - log det Var(Y | M), over what varies in Y: twice the information gained, in nats;
                        0 if nothing is learned, infinite if some combination of the targets is disclosed completely
    ==================  =====================================================================================

    Examples
    --------
    >>> G = np.diag([1.0, 0.0])  # the first of two targets is disclosed, the second is not
    >>> [of_explained(name, np.eye(2), G) for name in FUNCTIONALS]
    [1.0, 1.0, 1.0, inf]
    """
    if check_functional(name) != "log-determinant":
        return omega(G, name)
    with np.errstate(divide="ignore"):
        return abs(float(np.log(_shares(S_yy, remaining(S_yy, G))).sum()))


def omega(G: Numbers, name: str) -> float:
    """Return a functional that needs G alone, shape (t, t): all but the log-determinant, which needs what remains."""
    if name == "trace":
        return float(np.trace(G))
    if name == "each target":
        return float(np.diag(G).max(initial=0.0))
    return float(np.linalg.eigvalsh(G).max(initial=0.0)) if len(G) else 0.0


def of_remaining(name: str, S_yy: Numbers, left: Numbers) -> float:
    """Return the uncertainty that is left, which the Bayes-risk rule compares: the larger, the safer.

    ==================  =====================================================================================
    trace               tr Var(Y | M): the Bayes risk under squared error, summed over the targets
    largest eigenvalue  the smallest eigenvalue of Var(Y | M): the variance left of the most disclosed combination
    each target         the smallest variance left of a target by itself, of those that vary
    log-determinant     log det Var(Y | M), over what varies in Y; minus infinity if a combination is disclosed completely
    ==================  =====================================================================================
    """
    if check_functional(name) == "trace":
        return float(np.trace(left))
    if name == "each target":
        varies = np.diag(S_yy) > 0
        return float(np.diag(left)[varies].min()) if varies.any() else 0.0
    share = _shares(S_yy, left)
    values, vectors = np.linalg.eigh(S_yy)
    varying = vectors[:, -len(share) :] if len(share) else vectors[:, :0]
    if name == "log-determinant":
        if not len(share):
            return -np.inf
        with np.errstate(divide="ignore"):
            return float(np.log(share).sum() + np.log(values[-len(share) :]).sum())
    inside = np.linalg.eigvalsh(varying.T @ left @ varying)
    return max(float(inside.min()), 0.0) if len(share) and share.min() > 0 else 0.0


def _shares(S_yy: Numbers, left: Numbers) -> Numbers:
    """Return what is left as shares of the prior variance, over the combinations of targets that varied at all."""
    share = np.linalg.eigvalsh(relative_to(S_yy, left))
    return np.where(share > 1e-14 * len(S_yy), share, 0.0).clip(max=1.0)


def relative_to(S_yy: Numbers, matrix: Numbers, name: str = "largest eigenvalue") -> Numbers:
    """Return W matrix W′, in shares of prior variance whatever the units: W S_yy W′ = I; combinations that do not vary drop out.

    Of G the eigenvalues are then the squared canonical correlations of targets and release. For "each target" W divides by
    standard deviations alone, and the diagonal of G holds squared multiple correlations.
    """
    root = relative_root(S_yy, name)
    return np.asarray(root @ matrix @ root.T)


def relative_root(S_yy: Numbers, name: str) -> Numbers:
    """Return the W of `relative_to`, shape (rank, t)."""
    if name != "each target":
        return whiten(S_yy, "S_yy").root
    variance = np.diag(S_yy)
    return np.asarray(np.diag(1 / np.sqrt(np.where(variance > 0, variance, 1.0)))[variance > 0])
