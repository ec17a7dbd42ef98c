"""The matrices of the best mask of each kind, and the most that any mask of the kind keeps."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.functionals import omega
from sfumato.decision.keep_most import Functional, keep_most
from sfumato.decision.mask_matrices import FAINTEST, ReleaseParts, exact_parts, noisy_parts
from sfumato.decision.masking_problem import MaskingProblem
from sfumato.decision.projections import best_projection
from sfumato.errors import NotApplicable, listing

Numbers = NDArray[np.float64]
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
                f"{combinations} combinations of {listing(problem.columns)} cannot be released without noise at this tau: too "
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
