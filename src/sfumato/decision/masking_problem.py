"""What the best matrix mask is asked for: attributes X, targets Y, and how much of Y a release may explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sfumato.decision.conditional import Whitening, conditional_variance, deviations, numbers, square, whiten
from sfumato.decision.file_covariance import FileCovariance, file_covariance
from sfumato.decision.functionals import check_functional, omega, relative_root
from sfumato.decision.keep_most import Functional
from sfumato.decision.verdict import check_threshold
from sfumato.errors import DataError, ParameterError, listing, some, unknown_name
from sfumato.microdata import Microdata

Numbers = NDArray[np.float64]
SOLVED: tuple[Functional, ...] = get_args(Functional)


@dataclass(frozen=True, eq=False)
class MaskingProblem:
    """Minimise the weighted trace of Var(X | M) subject to Ω{Σ_YM Σ_MM⁻ Σ_MY} < τ (matrix-masking paper, section V)."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    S_xx: Numbers
    """Shape (p, p)."""
    S_yx: Numbers
    """Shape (t, p)."""
    S_yy: Numbers
    """Shape (t, t)."""
    tau: float
    functional: Functional
    relative: bool
    """Whether τ is a share of the targets' variance, and what is lost is counted in shares of each attribute's variance."""
    importance: Numbers
    """What the variance of each attribute counts, shape (p,), in its own squared units."""
    shrinkage: float = 0.0
    """What was taken off the correlations of the data, as a share."""

    @cached_property
    def white(self) -> Whitening:
        """W with W S_xx W′ = I: Z = WX are the coordinates in which F lives."""
        return whiten(self.S_xx)

    @cached_property
    def root(self) -> Numbers:
        """R = S_xx W′, shape (p, r), with X = RZ and RR′ = S_xx."""
        return np.asarray(self.S_xx @ self.white.root.T)

    @cached_property
    def worth(self) -> Numbers:
        """H: what each direction of Z is worth, shape (r, r)."""
        return np.asarray(self.root.T @ (self.importance[:, None] * self.root))

    @cached_property
    def link(self) -> Numbers:
        """J = Cov(Y, Z), shape (t, r), in the units in which τ is counted."""
        return np.asarray(self._unit @ self.S_yx @ self.white.root.T)

    @cached_property
    def _unit(self) -> Numbers:
        """What Y is multiplied by: all combinations of targets, or each, get variance one if τ is a share."""
        if not self.relative:
            return np.eye(len(self.targets))
        return relative_root(self.S_yy, self.functional)

    @property
    def total(self) -> float:
        """The weighted trace of Var X: what a release of nothing loses."""
        return float(self.importance @ np.diag(self.S_xx))

    @property
    def unmasked(self) -> float:
        """Ω of what X itself explains."""
        return omega(self.link @ self.link.T, self.functional)

    def disclosed(self, G: Numbers) -> float:
        """Return Ω of the variance explained of the targets, G of shape (t, t) in their own units."""
        return omega(self._unit @ G @ self._unit.T, self.functional)

    def lost(self, left: Numbers) -> float:
        """Return the weighted trace of Var(X | M), shape (p, p)."""
        return float(self.importance @ np.diag(left))

    def at(self, tau: float) -> MaskingProblem:
        """Return the same problem with another τ."""
        return replace(self, tau=_checked(tau))


def problem_of(
    source: Microdata | Any,
    targets: Sequence[str] | str,
    tau: float,
    columns: Sequence[str] | None = None,
    functional: str = "trace",
    relative: bool = True,
    importance: Mapping[str, float] | None = None,
    shrinkage: str | float = "auto",
    weighted: bool = False,
) -> MaskingProblem:
    """Return the problem for data, or for a joint covariance matrix of attributes and targets with names (a pandas frame).

    Without `columns`, X is everything but the targets; of data, every confidential column of numbers but the targets.
    """
    if check_functional(functional) not in SOLVED:
        raise ParameterError(
            f"the best mask is worked out for {listing(SOLVED)}; the {functional} can be judged (InferentialDisclosure, "
            "inferential_risk), but not optimised."
        )
    tau = _checked(tau)
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    if isinstance(source, Microdata):
        found = _of_data(source, targets, columns, shrinkage, weighted)
        names, S, delta = found.names, found.matrix, found.shrinkage
    elif weighted or shrinkage != "auto":
        raise ParameterError(
            "weighted and shrinkage are about covariances that are estimated from data, but a covariance matrix is given."
        )
    else:
        (names, S), delta = _of_frame(source), 0.0
    columns = tuple(n for n in names if n not in targets) if columns is None else tuple(columns)
    for what, chosen in (("targets", targets), ("columns", columns)):
        if not chosen or len(set(chosen)) < len(chosen):
            raise ParameterError(f"{what} must name at least one column, and none twice.")
        for name in chosen:
            if name not in names:
                raise ParameterError(unknown_name("column", name, names, "the covariance matrix"))
    x, y = ([names.index(n) for n in chosen] for chosen in (columns, targets))
    S_xx, S_yx, S_yy = S[np.ix_(x, x)], S[np.ix_(y, x)], S[np.ix_(y, y)]
    conditional_variance(S_yy, S_yx, S_xx)  # refuses what is no joint covariance
    for part, own in ((S_xx, columns), (S_yy, targets)):
        if still := [n for n, v in zip(own, np.diag(part), strict=True) if v <= 0]:
            raise ParameterError(
                f"{listing(still)}: the variance is zero, so there is nothing to infer or to mask. Leave it out."
            )
    counts = _importance(importance, columns) / (np.diag(S_xx) if relative else 1.0)
    return MaskingProblem(
        columns, targets, S_xx, S_yx, S_yy, tau, cast("Functional", functional), relative, counts, delta
    )


def _checked(tau: float) -> float:
    tau = check_threshold(tau)
    if not 0 < tau < np.inf:
        raise ParameterError(
            "tau must be above 0, and finite: a mask is acceptable if it explains strictly less than τ, and even one that "
            "releases nothing explains 0."
        )
    return tau


def _importance(importance: Mapping[str, float] | None, columns: tuple[str, ...]) -> Numbers:
    given = dict(importance or {})
    if extra := [n for n in given if n not in columns]:
        raise ParameterError(f"importance names columns that are not masked: {listing(extra)}.")
    values = numbers([given.get(n, 1.0) for n in columns], "importance")
    if not (np.isfinite(values) & (values > 0)).all():
        raise ParameterError(
            "importance must be numbers above 0: how much the variance of each column counts. Leave out of columns what need not "
            "be released."
        )
    return values


def _of_data(
    data: Microdata, targets: tuple[str, ...], columns: Sequence[str] | None, shrinkage: str | float, weighted: bool
) -> FileCovariance:
    """Return the covariance of X and Y, estimated as for `inferential_risk`."""
    from sfumato.contract import numeric_targets

    chosen = numeric_targets(None if columns is None else tuple(columns), data)
    numeric_targets(targets, data)
    names = tuple(dict.fromkeys([*chosen, *targets]))
    found = file_covariance(data, names, shrinkage, weighted)
    if still := [n for n, v in zip(names, np.diag(found.matrix), strict=True) if v == 0]:
        raise DataError(
            f"{listing(still)}: all values are the same, so there is nothing to infer or to mask. Leave it out."
        )
    if found.records <= len(names) and (
        isinstance(shrinkage, str) or not shrinkage
    ):  # estimated, it may well be 1: all is safe
        raise DataError(
            f"{some(found.records)} {'has' if found.records == 1 else 'have'} all of {listing(names)}: too few for their "
            "covariances. Name fewer columns, set shrinkage to a share of your own, or give a covariance matrix from elsewhere."
        )
    return found


def _of_frame(source: Any) -> tuple[tuple[str, ...], Numbers]:
    names = tuple(map(str, getattr(source, "columns", ())))
    matrix = numbers(source, "the covariance matrix") if names else np.empty(0)
    if not names or matrix.shape != (len(names), len(names)) or len(set(names)) < len(names):
        raise ParameterError(
            "best_mask takes Microdata, or the joint covariance matrix of attributes and targets as a pandas frame with their "
            "names, such as frame.cov()."
        )
    rows = tuple(map(str, getattr(source, "index", names)))
    if rows != names and rows != tuple(map(str, range(len(names)))):
        raise ParameterError("rows and columns of the covariance matrix must have the same names, in the same order.")
    S = square(matrix, "the covariance matrix")
    deviations(S, "the covariance matrix")
    whiten(S, "the covariance matrix")
    return names, S
