"""A mask from its matrices, and its matrices back from the mask, for the certificate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Mask, Recipe
from sfumato.decision.conditional import conditional_variance
from sfumato.decision.inferential import Disclosure, InferentialDisclosure
from sfumato.decision.masking_problem import MaskingProblem
from sfumato.decision.random_matrix import RandomMatrix
from sfumato.decision.release_parts import ReleaseParts
from sfumato.masks import Identity, MatrixMask, StructuredNoise, SuppressColumns
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


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
    B, noise = matrices(mask, problem.columns)
    spy = InferentialDisclosure(problem.S_yy, problem.S_yx, problem.S_xx)
    nothing = B is not None and not B.shape[1]
    return spy.after(
        B=np.zeros((len(problem.columns), 1)) if nothing else B,
        C=None if noise is None else RandomMatrix.noise(noise, 1),
    )


def posterior(problem: MaskingProblem, B: Numbers | None, noise: Numbers | None) -> Numbers:
    """Return Var(X | M) for M = XB + C, shape (p, p)."""
    S = problem.S_xx
    if B is not None and not B.shape[1]:
        return S
    S_xm = S if B is None else S @ B
    S_mm = (S_xm if B is None else B.T @ S_xm) + (0.0 if noise is None else noise)
    return conditional_variance(S, S_xm, S_mm)
