"""From the matrix F of a release to its mask M = XB + C in the units of the columns, and back again for the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Mask, Recipe
from sfumato.decision.conditional import conditional_variance
from sfumato.decision.inferential import Disclosure, InferentialDisclosure
from sfumato.decision.masking_problem import MaskingProblem
from sfumato.decision.random_matrix import RandomMatrix
from sfumato.masks import Identity, MatrixMask, StructuredNoise, SuppressColumns
from sfumato.schema import Schema

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
    """Return what M = XB + C discloses, released beside so many other attributes, the last ones of the spy's."""
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
