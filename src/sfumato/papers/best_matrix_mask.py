"""The best matrix mask, beside what the usual masks lose at the same τ (matrix-masking paper, section V)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from sfumato import charts
from sfumato.contract import Draws, Mask, Recipe, Release
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.lazy import pd
from sfumato.papers.conditional import omega
from sfumato.papers.file_covariance import file_covariance, measurements, shrunk
from sfumato.papers.inferential import InferentialDisclosure
from sfumato.papers.masking_problem import MaskingProblem, crossing, keep_most, problem_of
from sfumato.papers.optimal_masks import (
    Kind,
    best_projection,
    certify,
    disclosed_beside,
    left_unknown,
    lost,
    mask_of,
    matrices,
    solve_masking,
)
from sfumato.typing import Numbers

if TYPE_CHECKING:
    import altair as alt

DROPPING = "dropping columns"
MOST = 10
"""Largest number of columns of which every subset is tried; of more, the one that helps most is dropped each time."""


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
    setting = f"without {join_names(gone)}" if gone else "none dropped"
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


# The best matrix mask: least tr Var(X | M) among the τ-acceptable ones (matrix-masking paper, section V), certified.


_MARGINS = (1e-8, 1e-6, 1e-4)
"""(5.1) is strict, so the best is approached and not attained: how far below τ the mask is made, as a share of τ. The first that
can be certified is taken; an ill-conditioned covariance may ask for more."""


@dataclass(frozen=True, eq=False)
class BestMask:
    """The mask that loses least of X while it explains less than τ of the targets, with what proves both.

    The mask is fixed before the values are looked at, up to their covariances, and may be published with its matrices.
    """

    mask: Mask | Recipe
    """The mask to apply: a MatrixMask (M = XB), a StructuredNoise (M = X + C), or the one after the other (M = XB + C)."""
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
    """The losses of the usual masks at the same τ."""
    shrinkage: float = 0.0
    """The share by which the correlations of the data were shrunk, because records are few."""
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
        """The result in sentences."""
        unit = "of the variance" if self.relative else "squared units"
        told = f"the release explains just less than {self.tau:.4g} {unit} ({self.functional})"
        if self.disclosed < 0.999 * self.tau:
            told = f"the release explains {self.disclosed:.4g} {unit} ({self.functional}), less than {self.tau:.4g}"
        keeps = f"it keeps {self.kept:.1%} of the variance of {join_names(self.columns)}"
        best = "and no acceptable mask of its kind keeps more"
        if not self.attained:
            best = "as much as any acceptable mask of its kind, to four digits"
        if self.lost - self.bound > 1e-4 * self.total:
            best = f"and none of its kind keeps more than {1 - self.bound / self.total:.1%}"
        rest = "; ".join(f"{n.name} {n.kept:.1%}" for n in self.naive)
        return f"{join_names(self.targets)}: {told}; {keeps}, {best}. At the same τ: {rest}.{self._beside}{shrunk(self.shrinkage)}"

    @property
    def _beside(self) -> str:
        """The effect of the columns that the mask does not name."""
        if not self.others:
            return ""
        told = f" Together with {join_names(self.others)}, released as they are, "
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
            f"combinations must be a whole number from 1 to {problem.white.rank}: the columns vary in that number of dimensions."
        )


BEST, EXACT = "best mask", "best without noise"


@dataclass(frozen=True, eq=False)
class MaskTradeoff:
    """The loss of X at each τ: tr Var(X | M), as a share of tr Var X, by mask."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    losses: pd.DataFrame
    unmasked: float
    """What X itself explains: from there on nothing need be lost."""

    def frame(self) -> pd.DataFrame:
        """Return a row for each τ and mask: tau, mask, lost (the weighted trace of Var(X | M)), share (of that of Var X)."""
        return self.losses

    def chart(self) -> alt.LayerChart:
        """Draw the share lost against τ, a line for each mask."""
        return charts.paper_charts.mask_tradeoff_chart(self.losses, ", ".join(self.targets), (DROPPING,))


def mask_tradeoff(
    source: Microdata | Any,
    targets: Sequence[str] | str,
    taus: Sequence[float] | None = None,
    *,
    columns: Sequence[str] | None = None,
    functional: str = "trace",
    relative: bool = True,
    importance: Mapping[str, float] | None = None,
    shrinkage: str | float = "auto",
    weighted: bool = False,
) -> MaskTradeoff:
    """Return what the best masks and the usual ones lose at each τ; parameters as for `best_mask`.

    Where a mask can only come near its best, its limit is given. Without `taus`, forty values up to what X itself explains.
    """
    problem = problem_of(source, targets, 1.0, columns, functional, relative, importance, shrinkage, weighted)
    if taus is None:
        taus = np.linspace(0, problem.unmasked, 41)[1:].tolist()
    if not len(taus):
        raise ParameterError("taus is empty. Name at least one, or leave taus out.")
    subsets = all_subsets(problem)
    rows: list[dict[str, Any]] = []
    for tau in taus:
        now = problem.at(tau)
        found = {**_best(now), **{n.name: n.lost for n in naive_masks(now, subsets)}}
        rows += [{"tau": now.tau, "mask": mask, "lost": v, "share": v / now.total} for mask, v in found.items()]
    return MaskTradeoff(problem.columns, problem.targets, pd.DataFrame(rows), problem.unmasked)


def _best(problem: MaskingProblem) -> dict[str, float]:
    """Return what the best mask with noise loses, and the best without."""
    H, J = problem.worth, problem.link / np.sqrt(problem.tau)
    whole = keep_most(H, J, problem.functional)
    exact = best_projection(H, J, problem.functional, whole.multiplier)
    # leaving out one direction for each target is always enough, so there is one
    out = np.zeros((len(H), 0)) if exact is None else exact.out
    return {BEST: max(problem.total - float(np.sum(H * whole.F)), 0.0), EXACT: lost(H, out)}
