"""From the matrix F of a release to its mask M = XB + C, in the units of the columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.masking_problem import MaskingProblem

Numbers = NDArray[np.float64]

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


def _readable(problem: MaskingProblem, V: Numbers) -> tuple[Numbers, Numbers]:
    """Return B with the columns of W′V in another basis, in which each is one attribute plus a little of those left out.

    B = W′V T has the rows of the identity for c attributes; T, shape (c, c), is returned too.
    """
    from scipy.linalg import qr

    p, c = len(problem.columns), V.shape[1]
    if not c:
        return np.zeros((p, 0)), np.zeros((0, 0))
    plain = problem.white.root.T @ V
    sd = np.sqrt(np.diag(problem.S_xx))
    _, _, order = qr((plain * sd[:, None]).T, mode="economic", pivoting=True)
    lead = np.sort(order[:c])
    T: Numbers = np.linalg.inv(plain[lead]).astype(np.float64)
    B: Numbers = plain @ T
    B[np.abs(B) * sd[:, None] < 1e-12 * sd[lead]] = 0.0
    B[lead] = np.eye(c)
    return B, T
