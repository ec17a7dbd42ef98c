"""The best matrix mask: least tr Var(X | M) among the τ-acceptable ones (matrix-masking paper, section V), certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask, Recipe, Release
from sfumato.decision.file_covariance import file_covariance, measurements, shrunk
from sfumato.decision.inferential import InferentialDisclosure
from sfumato.decision.mask_matrices import certify, disclosed_beside, left_unknown, mask_of, matrices
from sfumato.decision.masking_problem import MaskingProblem, problem_of
from sfumato.decision.naive_masks import NaiveMask, naive_masks
from sfumato.decision.solve_masking import Kind, solve_masking
from sfumato.errors import DataError, NotApplicable, ParameterError, listing
from sfumato.microdata import Microdata

Numbers = NDArray[np.float64]

_MARGINS = (1e-8, 1e-6, 1e-4)
"""(5.1) is strict, so the best is approached and not attained: how far below τ the mask is made, as a share of τ. The first that
can be certified is taken; an ill-conditioned covariance may ask for more."""


@dataclass(frozen=True, eq=False)
class BestMask:
    """The mask that loses least of X while it explains less than τ of the targets, with what proves both.

    The mask is fixed before the values are looked at, up to their covariances, and may be published with its matrices.
    """

    mask: Mask | Recipe
    """What to apply: a MatrixMask (M = XB), a StructuredNoise (M = X + C), or the one after the other (M = XB + C)."""
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    kind: Kind
    functional: str
    tau: float
    relative: bool
    disclosed: float
    """Ω{Σ_YM Σ_MM⁻ Σ_MY}, worked out anew from the mask's own matrices: below τ."""
    shares: tuple[float, ...]
    """Share of each target's variance that the release explains."""
    lost: float
    """The weighted trace of Var(X | M), worked out from the mask's own matrices."""
    total: float
    """The weighted trace of Var X: what a release of nothing loses."""
    bound: float
    """No acceptable mask of this kind loses less: Lagrange's bound."""
    attained: bool
    """Whether no acceptable mask loses less; else some lose less, by `lost` - `bound` at most."""
    B: Numbers | None
    """Attribute-transforming matrix, shape (p, c); None for the identity."""
    noise: Numbers | None
    """Covariance of C, shape (c, c); None for no noise."""
    naive: tuple[NaiveMask, ...]
    """What the usual masks lose at the same τ."""
    shrinkage: float = 0.0
    """What was taken off the correlations of the data, as a share, because records are few."""
    others: tuple[str, ...] = ()
    """Columns of numbers that the mask does not name: the file has them beside what is released."""
    with_others: float | None = None
    """Ω of what the release explains together with them; None if there are none, or too few records have all columns."""

    @property
    def kept(self) -> float:
        """Share of the (weighted) variance of X that the release explains, from 0 to 1."""
        return 1 - self.lost / self.total

    @property
    def words(self) -> str:
        """What was found, in sentences."""
        unit = "of the variance" if self.relative else "squared units"
        told = f"the release explains just less than {self.tau:.4g} {unit} ({self.functional})"
        if self.disclosed < 0.999 * self.tau:
            told = f"the release explains {self.disclosed:.4g} {unit} ({self.functional}), less than {self.tau:.4g}"
        keeps = f"it keeps {self.kept:.1%} of the variance of {listing(self.columns)}"
        best = "and no acceptable mask of its kind keeps more"
        if not self.attained:
            best = "as much as any acceptable mask of its kind, to four digits"
        if self.lost - self.bound > 1e-4 * self.total:
            best = f"and none of its kind keeps more than {1 - self.bound / self.total:.1%}"
        rest = "; ".join(f"{n.name} {n.kept:.1%}" for n in self.naive)
        return f"{listing(self.targets)}: {told}; {keeps}, {best}. At the same τ: {rest}.{self._beside}{shrunk(self.shrinkage)}"

    @property
    def _beside(self) -> str:
        """What the columns do that the mask does not name."""
        if not self.others:
            return ""
        told = f" Together with {listing(self.others)}, released as they are, "
        if self.with_others is None:
            return f"{told}more may be explained; too few records have all columns to tell."
        safe = self.with_others < self.tau
        end = "still less than τ" if safe else "which is not less than τ: mask them too, or leave them out"
        return f"{told}{self.with_others:.4g} is explained, {end}."

    def apply(self, data: Microdata, draws: Draws) -> Release:
        """Release the data under the mask."""
        return self.mask.apply(data, draws)


def best_mask(
    source: Microdata | Any,
    targets: Sequence[str] | str,
    tau: float,
    *,
    columns: Sequence[str] | None = None,
    functional: str = "trace",
    kind: str = "both",
    relative: bool = True,
    importance: Mapping[str, float] | None = None,
    shrinkage: str | float = "auto",
    weighted: bool = False,
    combinations: int | None = None,
) -> BestMask:
    """Return the mask that loses least of X and explains less than τ of the targets (matrix-masking paper, section V).

    Parameters
    ----------
    source
        Microdata, or the joint covariance matrix of attributes and targets: a pandas frame with their names.
    targets
        Columns that must not be inferred. One that is also among `columns` is released, masked; any other is left out of the
        file.
    tau
        The most that may be explained, exclusive. A share of the targets' variance, if `relative`.
    columns
        The attributes X to release; every (confidential) column of numbers but the targets, if none are named.
    functional
        "trace" (summed over the targets), "largest eigenvalue" (their most disclosed combination) or "each target".
    kind
        "attributes": M = XB, no noise; "displacing": M = X + C, all columns stay; "both": M = XB + C, the best there is.
    relative
        Count in shares of variance, so that units do not matter; else in squared units, as the paper writes it.
    importance
        What each column's variance counts; 1 for those not named.
    shrinkage, weighted
        How covariances are estimated from data, as for `inferential_risk`: shrunk where records are few, and weighted by the
        survey weights if asked for.
    combinations
        For "attributes": how many combinations of the columns to release; as many as may be, if not given.

    Examples
    --------
    >>> import pandas as pd
    >>> names = ["x1", "x2", "y"]
    >>> joint = pd.DataFrame([[1, 0.5, 0.6], [0.5, 1, 0.2], [0.6, 0.2, 1]], names, names)
    >>> best = best_mask(joint, "y", tau=0.1, kind="attributes")
    >>> np.round(best.B, 3).tolist()  # as in the paper's bivariate illustration: 0.281 x1 + x2
    [[0.281], [1.0]]
    """
    if kind not in get_args(Kind):
        raise ParameterError("kind must be 'both', 'attributes' or 'displacing'.")
    kind = cast("Kind", kind)
    problem = problem_of(source, targets, tau, columns, functional, relative, importance, shrinkage, weighted)
    _check_combinations(combinations, kind, problem)
    names = source.schema.names() if isinstance(source, Microdata) else problem.columns
    gone = tuple(n for n in problem.targets if n not in problem.columns) if isinstance(source, Microdata) else ()
    for margin in _MARGINS:
        parts, limit = solve_masking(problem, kind, combinations, margin)
        mask = mask_of(problem, parts, names, gone)
        certificate = certify(mask, problem)
        if (disclosed := problem.disclosed(certificate.explained)) < problem.tau:
            break
    else:
        raise NotApplicable(
            "the covariances are too ill-conditioned for a mask to be certified at this tau. Leave out columns that nearly "
            "depend on others, or choose a larger tau."
        )
    B, noise = matrices(mask, problem.columns)
    lost = problem.lost(left_unknown(problem, B, noise))
    bound = max(min(problem.total - limit, lost), 0.0)
    attained = lost - bound <= 1e-9 * problem.total and disclosed < problem.tau * (1 - 2 * margin)
    others, with_others = _with_others(source, problem, B, noise, shrinkage, weighted)
    return BestMask(
        mask, problem.columns, problem.targets, kind, problem.functional, problem.tau, relative, disclosed,
        tuple(map(float, certificate.shares)), lost, problem.total, bound, attained, B, noise, naive_masks(problem),
        problem.shrinkage, others, with_others,
    )  # fmt: skip


def _with_others(
    source: Any,
    problem: MaskingProblem,
    B: Numbers | None,
    noise: Numbers | None,
    shrinkage: str | float,
    weighted: bool,
) -> tuple[tuple[str, ...], float | None]:
    """Return the columns of numbers that the mask leaves as they are, and Ω of what M and they explain together."""
    if not isinstance(source, Microdata):
        return (), None
    x, y = problem.columns, problem.targets
    others = tuple(n for n in measurements(source, source.schema) if n not in {*x, *y})
    if not others:
        return (), None
    try:
        found = file_covariance(source, tuple(dict.fromkeys((*x, *others, *y))), shrinkage, weighted)
    except DataError:
        return others, None
    seen, aims = ([found.names.index(n) for n in names] for names in ((*x, *others), y))
    S = found.matrix
    spy = InferentialDisclosure(S[np.ix_(aims, aims)], S[np.ix_(aims, seen)], S[np.ix_(seen, seen)])
    told = disclosed_beside(spy, B, noise, len(others))
    return others, told.acceptable(problem.tau, problem.functional, relative=problem.relative).value


def _check_combinations(combinations: int | None, kind: Kind, problem: MaskingProblem) -> None:
    if combinations is None:
        return
    if kind != "attributes":
        raise ParameterError("combinations goes with kind='attributes': with noise, all of them can be released.")
    if (
        isinstance(combinations, bool)
        or not isinstance(combinations, int)
        or not 1 <= combinations <= problem.white.rank
    ):
        raise ParameterError(
            f"combinations must be a whole number from 1 to {problem.white.rank}: in so many dimensions the columns vary."
        )
