"""What released numbers say about a target: Var(Y | X) and G for jointly normal Y and X (matrix-masking paper, equation 3.1).

Generalised inverses throughout (errata 2.8, 2.9), taken on the scale of correlations, so that no answer hangs on the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError

Numbers = NDArray[np.float64]

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
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers: one, or rows of equally many.") from None


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
