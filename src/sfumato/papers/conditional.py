"""What released numbers say about targets: Var(Y | X), functionals Ω, and the two rules (matrix-masking paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import ParameterError, did_you_mean, join_names
from sfumato.typing import Numbers

# What released numbers say about a target: Var(Y | X) and G for jointly normal Y and X (matrix-masking paper, equation 3.1).
#
# Generalised inverses throughout (errata 2.8, 2.9), taken on the scale of correlations, so that no answer depends on the units.

SINGULAR = 1e-12
"""An eigenvalue of a correlation matrix below this share of the largest is taken for zero: rounding makes such ones of zeros."""
SLACK = 1e-8
"""How far covariances, on the scale of correlations, may miss being possible: the rounding of numbers that were worked out."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """A covariance matrix S taken apart: W S W′ = I where S has any variance, and what is left has none.

    W′W is a symmetric generalised inverse of S. If S is multiplied to other units D, W becomes W D⁻¹: the answers stay.
    """

    root: Numbers
    """W, shape (rank, p)."""
    null: Numbers
    """Combinations of the p variables that have no variance, each variable in units of its standard deviation; (p - rank, p)."""
    values: Numbers
    """The eigenvalues that were kept, of the correlation matrix, shape (rank,)."""

    @property
    def rank(self) -> int:
        """The number of dimensions that vary."""
        return len(self.root)

    @property
    def inverse(self) -> Numbers:
        """A symmetric generalised inverse S⁻ = W′W, shape (p, p)."""
        return np.asarray(self.root.T @ self.root)


def whiten(S: ArrayLike, name: str = "S_xx") -> Whitening:
    """Take a covariance matrix apart; refuse one that no random variables have."""
    S = square(S, name)
    sd = deviations(S, name)
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    values, vectors = np.linalg.eigh(S * np.outer(unit, unit))
    top = float(values.max(initial=0.0))
    if values.min(initial=0.0) < -SLACK * max(top, 1.0):
        raise ParameterError(
            f"{name} is not positive semi-definite (its correlations have the eigenvalue {values.min():.3g}): no random "
            "variables have such variances and covariances. Check the numbers, or estimate them from complete records."
        )
    kept = values > SINGULAR * top
    root = (vectors[:, kept] / np.sqrt(values[kept])).T * unit
    return Whitening(root, vectors[:, ~kept].T * unit, values[kept])


def explained(S_yx: ArrayLike, S_xx: ArrayLike, S_yy: ArrayLike | None = None) -> Numbers:
    """Return G = S_yx S_xx⁻ S_xy, the variance of Y that X explains, shape (t, t).

    `S_yx` has shape (t, p) or, for one target, (p,). Covariances with combinations of X that do not vary are refused: G would
    not be the same for every generalised inverse. With `S_yy` they are judged on the targets' own scale.

    Examples
    --------
    >>> explained([0.6, 0.6], np.eye(2)).round(2).tolist()
    [[0.72]]
    """
    S_xx = square(S_xx, "S_xx")
    S_yx = _between(S_yx, len(S_xx))
    scale = None if S_yy is None else deviations(_fitting(S_yy, S_yx), "S_yy")
    root = _seen(S_yx, S_xx, scale, whiten(S_xx))
    return np.asarray(root.T @ root)


def conditional_variance(S_yy: ArrayLike, S_yx: ArrayLike, S_xx: ArrayLike) -> Numbers:
    """Return Var(Y | X) = S_yy - S_yx S_xx⁻ S_xy, shape (t, t): for normal Y and X the same whatever X turns out to be.

    If they are not normal it is the mean squared error of the best *linear* prediction of Y from X, at least the mean of
    Var(Y | X). Never negative: what is zero up to rounding is zero. Refused if no Y and X have such covariances.

    Examples
    --------
    >>> conditional_variance(1.0, [0.6, 0.6], np.eye(2)).round(2).tolist()
    [[0.28]]
    """
    S_xx = square(S_xx, "S_xx")
    S_yx = _between(S_yx, len(S_xx))
    S_yy = _fitting(S_yy, S_yx)
    sd = deviations(S_yy, "S_yy")
    white = whiten(S_xx)
    root = _seen(S_yx, S_xx, sd, white)
    lost = (root**2 / white.values[:, None]).sum(axis=0)  # an eigenvalue is known up to the rounding of the largest
    share = np.divide(lost, sd**2, out=np.zeros_like(sd), where=sd > 0)
    return remaining(S_yy, root.T @ root, rounding=float(share.max(initial=0.0)) * np.finfo(float).eps * len(S_xx))


def remaining(S_yy: Numbers, G: Numbers, rounding: float = 0.0) -> Numbers:
    """Return S_yy - G as a covariance matrix, shape (t, t); refuse it if more is explained than there is.

    `rounding` says how far G may be off, as a share of the variances; what remains is zero where it is no more than that.
    """
    sd = deviations(S_yy, "S_yy")
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    values, vectors = np.linalg.eigh((S_yy - G) * np.outer(unit, unit))
    if values.min(initial=0.0) < -max(SLACK, 4 * rounding) or (np.diag(G)[sd == 0] > 0).any():
        raise ParameterError(
            "the covariances of Y with X are too large for their variances: more would be explained than there is, so no Y "
            "and X have them. Check the numbers, or estimate all of them from the same complete records."
        )
    values = np.where(values > max(1e-14 * len(S_yy), rounding), values, 0.0)
    return np.asarray((vectors * values) @ vectors.T * np.outer(sd, sd))


def numbers(given: Any, name: str) -> Numbers:
    """Return what was given as an array of numbers; refuse text, and rows of different lengths."""
    try:
        return np.array(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be numbers: one, or rows of equally many.") from None


def real(value: object) -> float:
    """Return a single number of Python or NumPy as a float; NaN for whatever else."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.nan


def square(S: ArrayLike, name: str) -> Numbers:
    """Return a covariance matrix as an array of shape (k, k); a number stands for one variance."""
    matrix = np.atleast_2d(numbers(S, name))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ParameterError(f"{name} must be a square matrix; it has the shape {_shape(matrix)}.")
    if not np.isfinite(matrix).all():
        raise ParameterError(f"{name} holds missing or infinite entries.")
    size = np.sqrt(np.abs(np.diag(matrix)))
    if (np.abs(matrix - matrix.T) > SLACK * np.outer(size, size) + 1e-300).any():
        raise ParameterError(f"{name} is not symmetric, as variances and covariances are.")
    return np.asarray((matrix + matrix.T) / 2)


def deviations(S: Numbers, name: str) -> Numbers:
    """Return the standard deviations, shape (k,); refuse negative variances, and covariances with what does not vary."""
    variance = np.diag(S)
    if (variance < 0).any():
        raise ParameterError(f"{name} has a negative variance on its diagonal. Check the numbers.")
    if S[variance == 0].any():
        raise ParameterError(f"{name} has a covariance with a variable whose variance is zero. Check the numbers.")
    return np.sqrt(variance)


def _seen(S_yx: Numbers, S_xx: Numbers, scale: Numbers | None, white: Whitening) -> Numbers:
    """Return W S_xy, shape (rank, t), after seeing that Y has no covariance with what does not vary in X."""
    unit = np.sqrt(np.diag(S_xx))
    units = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
    limit = np.abs(S_yx * units).max(axis=1, initial=0.0) if scale is None else scale
    check_flat(S_yx[:, unit == 0], np.zeros(len(S_yx)))
    check_flat(S_yx @ white.null.T, limit)
    return np.asarray(white.root @ S_yx.T)


def check_flat(covariances: Numbers, scale: Numbers) -> None:
    """Refuse covariances (t, m) of targets with what does not vary, unless they are rounding on the targets' scale (t,).

    Variation of a millionth beside that of other columns is no longer in their covariances, though it may tell much.
    """
    if (np.abs(covariances) > SLACK * scale[:, None]).any():
        raise ParameterError(
            "Y has a covariance with a combination of X that does not vary, or hardly (X is linearly dependent), which no Y and "
            "X have. Check the numbers, or leave out columns of X that are sums of others."
        )


def _between(S_yx: ArrayLike, p: int) -> Numbers:
    matrix = np.atleast_2d(numbers(S_yx, "S_yx"))
    if matrix.ndim != 2 or matrix.shape[1] != p:
        raise ParameterError(
            f"S_yx must have a row for each target and {p} columns, as X has variables; it has the shape {_shape(matrix)}."
        )
    if not np.isfinite(matrix).all():
        raise ParameterError("S_yx holds missing or infinite entries.")
    return matrix


def _fitting(S_yy: ArrayLike, S_yx: Numbers) -> Numbers:
    matrix = square(S_yy, "S_yy")
    if len(matrix) != len(S_yx):
        raise ParameterError(f"S_yy is about {len(matrix)} targets, but S_yx about {len(S_yx)}. They must be the same.")
    return matrix


def _shape(matrix: Numbers) -> str:
    return " × ".join(str(k) for k in matrix.shape)


# Functionals Ω: one number for the matrix of what is explained about several targets (matrix-masking paper, section III).


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
        f"functional '{name}' is not known.{did_you_mean(str(name), FUNCTIONALS)} There are: {join_names(FUNCTIONALS)}."
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


# The two rules of the matrix-masking paper, each with a threshold of its own kind (erratum 2.11).


_EXPLAINED = {
    "trace": "the variance explained (trace of G)",
    "largest eigenvalue": "the variance explained of the most disclosed combination (largest eigenvalue of G)",
    "each target": "the variance explained of the most disclosed target (largest diagonal entry of G)",
    "log-determinant": "the fall of the log-determinant of the uncertainty",
}
_LEFT = {
    "trace": "the Bayes risk (trace of Var(Y | M))",
    "largest eigenvalue": "the variance left of the most disclosed combination (smallest eigenvalue of Var(Y | M))",
    "each target": "the variance left of the most disclosed target (smallest diagonal entry of Var(Y | M))",
    "log-determinant": "the log-determinant of Var(Y | M)",
}


ROUNDING = 1e-9
"""A value this near to its threshold has reached it: the last digits are those of the arithmetic."""


@dataclass(frozen=True)
class RuleVerdict:
    """Whether a release is accepted, by which rule, and on what grounds."""

    rule: str
    """"explained" (equation 5.1: release if Ω{G} < τ) or "left" (section II: release if the Bayes risk > τ)."""
    functional: str
    value: float
    threshold: float
    accepted: bool
    relative: bool
    """Whether value and threshold are shares of the prior variance; else they are in squared units of the targets."""
    note: str = ""
    """What the value is only a bound for, if it is."""

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        what = (_EXPLAINED if self.rule == "explained" else _LEFT)[self.functional]
        share = ", as a share of the prior variance," if self.relative else ""
        sign = ("<" if self.accepted else "≥") if self.rule == "explained" else (">" if self.accepted else "≤")
        limit = "may be explained" if self.rule == "explained" else "must be left"
        end = {
            ("explained", True): "the mask is τ-acceptable",
            ("explained", False): "the mask is not τ-acceptable",
            ("left", True): "release",
            ("left", False): "do not release",
        }[self.rule, self.accepted]
        said = f"{what}{share} is {self.value:.4g} {sign} {self.threshold:.4g}, the threshold of what {limit}: {end}"
        return f"{said}. {self.note}" if self.note else f"{said}."

    def __bool__(self) -> bool:
        return self.accepted

    def __str__(self) -> str:
        return self.words


def judge_explained(
    S_yy: Numbers, G: Numbers, tau: float, functional: str = "trace", relative: bool = False, note: str = ""
) -> RuleVerdict:
    """Return whether a release is τ-acceptable: Ω{G} < τ, strictly (equation 5.1). τ bounds what is *explained*.

    Examples
    --------
    >>> print(judge_explained(np.eye(1), np.array([[0.72]]), tau=0.5))
    the variance explained (trace of G) is 0.72 ≥ 0.5, the threshold of what may be explained: the mask is not τ-acceptable.
    """
    tau, functional = check_threshold(tau), check_functional(functional)
    if relative:
        S_yy, G = np.eye(len(G_ := relative_to(S_yy, G, functional))), G_
    value = of_explained(functional, S_yy, G)
    return RuleVerdict("explained", functional, value, tau, below(value, tau), relative, note)


def judge_left(
    S_yy: Numbers, left: Numbers, tau: float, functional: str = "trace", relative: bool = False, note: str = ""
) -> RuleVerdict:
    """Return whether to release by the spy's Bayes risk: release if it exceeds τ (section II). τ bounds what is *left*."""
    tau = check_threshold(tau, "log" if check_functional(functional) == "log-determinant" else "")
    if relative:
        S_yy, left = np.eye(len(left_ := relative_to(S_yy, left, functional))), left_
    value = of_remaining(functional, S_yy, left)
    return RuleVerdict("left", functional, value, tau, value > tau + abs(tau) * ROUNDING, relative, note)


def below(value: float, tau: float) -> bool:
    """Return whether a value is strictly below a threshold, beyond the rounding of either: 0.36/3.6 is not below 0.1."""
    return value < tau * (1 - ROUNDING)


def check_threshold(tau: float, kind: str = "") -> float:
    """Return a threshold as a number; variances have thresholds from 0 upwards, logarithms may have any."""
    if isinstance(tau, bool) or math.isnan(real(tau)):
        raise ParameterError("the threshold tau must be a number.")
    if kind != "log" and tau < 0:
        raise ParameterError(
            f"the threshold tau is {tau:g}, but variances are never negative. Give 0 or more: with τ = 0 nothing at all may be "
            "explained, and no mask is strictly below that."
        )
    return float(tau)
