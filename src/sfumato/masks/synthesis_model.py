"""What normal synthesis does to normal records: the models behind analytic R-U maps of synthetic data.

Parameters are estimated from n records, and drawn from their posterior where synthesis is `proper`; then values are drawn.
With ν degrees of freedom of the residuals of p columns, a residual variance drawn from its posterior is ν/(ν - p - 1) times
too large on average. An analyst takes the mean of the estimates from m implicates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, ReleaseModel
from sfumato.contract.model import Target

Numbers = NDArray[np.float64]


def _inflation(freedom: int, columns: int) -> float:
    """Return E Σ* / Σ for a covariance drawn from its posterior, with the estimate of Σ unbiased; infinite for few records."""
    return freedom / (freedom - columns - 1) if freedom > columns + 1 else math.inf


@dataclass(frozen=True, eq=False)
class PartialSynthesisModel(ReleaseModel):
    """Normal records of which some columns are drawn anew, from their regression on given columns (Reiter 2003)."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    masked: tuple[int, ...]
    given: tuple[int, ...]
    implicates: int
    proper: bool
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: NoiseModel, masked: Sequence[str], given: Sequence[str], implicates: int, proper: bool
    ) -> PartialSynthesisModel | None:
        """Make it, if there is no noise yet and the model holds every column that is masked or given."""
        if before.is_masked or any(n not in before.names for n in (*masked, *given)):
            return None
        m, z = tuple(map(before.at, masked)), tuple(map(before.at, given))
        return cls(before.names, before.mean, before.covariance, before.n, m, z, implicates, proper, before.published)

    @property
    def _explaining(self) -> Numbers:
        """P with E(X | Z) = PX for every column, shape (k, k): the projection on the given columns."""
        S, z = self.covariance, list(self.given)
        P = np.zeros_like(S)
        if z:
            P[:, z] = S[:, z] @ np.linalg.pinv(S[np.ix_(z, z)], rcond=1e-12, hermitian=True)
        return P

    @property
    def _known(self) -> Numbers:
        """The part of each released column that is not drawn: its prediction, or itself; X̃ = KX, shape (k, k)."""
        K = np.eye(len(self.names))
        K[list(self.masked)] = self._explaining[list(self.masked)]
        return K

    @property
    def _drawn(self) -> Numbers:
        """Covariance of what is drawn, zero outside the masked columns, shape (k, k)."""
        S, at = self.covariance, np.ix_(self.masked, self.masked)
        out = np.zeros_like(S)
        P = self._explaining
        out[at] = (S - P @ S @ P.T)[at]
        return out

    @property
    def _hat(self) -> float:
        """Mean leverage (1 + q)/n: how much of a record's own residual is in its prediction."""
        return (1 + len(self.given)) / self.n

    @property
    def _inflated(self) -> float:
        """E Σ* / Σ where parameters are drawn, 1 where they are the estimates."""
        return _inflation(self.n - 1 - len(self.given), len(self.masked)) if self.proper else 1.0

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return c'Σc/n + κ(1 or 2)c'Σₑc/(nm): 2 where the means are drawn, too; exact."""
        sampling = float(weights @ self.covariance @ weights) if target == "population" else 0.0
        drawn = float(weights @ self._drawn @ weights)
        extra = self._inflated * (2 if self.proper else 1) * drawn if drawn else 0.0
        return (sampling + extra / self.implicates) / self.n

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return bias² + variance; exact if x is not masked, and given where y is masked; else for large n.

        The slope is off by the mean of x̃ r̃ + x̃ e_r + r̃ e_x + e_x e_r over records, divided by σ_x², where r = y - βx of the
        released population. The first term varies with the sample, a quadratic form; the others with what is drawn.
        """
        if target == "file":
            return None
        if self.n <= 3:
            return math.inf
        S, K, P, E = self.covariance, self._known, self._explaining, self._drawn
        released = (K @ S @ K.T + E)[x, y]
        slope, square = released / S[x, x], S[x, x]
        form = self._form(x, y) - slope * self._form(x, x)
        sampling = 2 * np.trace(form @ S @ form @ S)
        c = np.eye(len(S))[x]
        r = np.eye(len(S))[y] - slope * c
        drawn = _drawn_variance(c @ K, r @ K, S, c @ E @ c, r @ E @ r, c @ E @ r)
        if self.proper and drawn:
            drawn = self._inflated * (drawn + _drawn_variance(c @ K @ P, r @ K @ P, S, c @ E @ c, r @ E @ r, c @ E @ r))
        variance = (sampling + drawn / self.implicates) / ((self.n - 3) * square**2)
        return float((correction * slope - S[x, y] / square) ** 2 + correction**2 * variance)

    def _form(self, j: int, k: int) -> Numbers:
        """Return Q with the released second moment of two columns, as the sample has it, about the mean of X'QX."""
        e, P = np.eye(len(self.names)), self._explaining
        one, two = (j, k) if j in self.masked else (k, j)
        if one not in self.masked or two in self.masked or two in self.given:
            made = np.outer(e[j], e[k])  # kept as it was
        else:  # only what both have to do with the given columns is kept
            made = np.outer(P[one], e[two]) + np.outer(P[two], e[one]) - np.outer(P[one], P[two])
        return np.asarray((made + made.T) / 2)

    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return the moments of (x, ȳ, z...), ȳ the mean of the implicates; exact."""
        if any(name not in self.names for name in names):
            return None
        x, *z = (self.at(name) for name in names)
        if any(i in self.masked for i in z):
            return None
        where = [x, x, *z]
        covariance = self.covariance[np.ix_(where, where)]
        if x not in self.masked:
            return self.mean[where], covariance
        S, P, hat = self.covariance, self._explaining, self._hat
        explained = P @ S  # covariance of a prediction with any column
        residual = S[x, x] - explained[x, x]
        covariance[0, 1] = covariance[1, 0] = explained[x, x] + hat * residual
        noise = self._inflated * (1 + (hat if self.proper else 0.0)) * residual
        covariance[1, 1] = explained[x, x] + hat * residual + noise / self.implicates
        for k, i in enumerate(z, 2):
            covariance[1, k] = covariance[k, 1] = explained[x, i] + hat * (S[x, i] - explained[x, i])
        return self.mean[where], covariance


def _drawn_variance(a: Numbers, b: Numbers, S: Numbers, xx: float, rr: float, xr: float) -> float:
    """Return the variance of a'X e_r + b'X e_x + e_x e_r for independent normal X and e."""
    return float((a @ S @ a) * rr + (b @ S @ b) * xx + 2 * (a @ S @ b) * xr + xx * rr + xr**2)


@dataclass(frozen=True, eq=False)
class FullSynthesisModel(ReleaseModel):
    """New records of some columns, drawn from their joint normal distribution (Raghunathan, Reiter and Rubin 2003)."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    columns: tuple[int, ...]
    size: int
    """Records of each implicate."""
    implicates: int
    proper: bool
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: NoiseModel, columns: Sequence[str], size: int | None, implicates: int, proper: bool
    ) -> FullSynthesisModel | None:
        """Make it, if there is no noise yet and the model holds every column of the new file."""
        if before.is_masked or any(n not in before.names for n in columns):
            return None
        at = tuple(map(before.at, columns))
        made = size or before.n
        return cls(
            before.names, before.mean, before.covariance, before.n, at, made, implicates, proper, before.published
        )

    def _fitted(self, regressors: int) -> float:
        """Return how far a fit of 1 + q coefficients to the new file is off that of the original, in σₑ²(1 + q)."""
        if not self.proper:
            return 1 / (self.size * self.implicates)
        return _inflation(self.n - 1, len(self.columns)) * (1 / self.n + 1 / self.size) / self.implicates

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return c'Σc(1/n + 1/(m n*)), with drawn parameters c'Σc(1/n + κ(1/n + 1/n*)/m); exact."""
        if any(w for i, w in enumerate(weights) if i not in self.columns):
            return None
        sampling = 1 / self.n if target == "population" else 0.0
        return float(weights @ self.covariance @ weights) * (sampling + self._fitted(0))

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return the variance about the population's slope (and of a correction, the bias); exact.

        Given the sample, the slope of drawn parameters varies by A_y.x/((ν - 2)A_xx), and a slope of n* records about it by
        (ν - 1)A_y.x/((ν - 2)(n* - 3)A_xx), with A the cross products and ν = n + 1 - p.
        """
        if x not in self.columns or y not in self.columns:
            return None
        if self.n <= 3 or self.size <= 3:
            return math.inf
        freedom = self.n + 1 - len(self.columns)
        if self.proper and freedom <= 2:
            return math.inf
        extra = 1 / (self.size - 3)
        if self.proper:
            extra = (1 + (freedom - 1) / (self.size - 3)) / (freedom - 2)
        S = self.covariance
        residual = max(S[y, y] - S[x, y] ** 2 / S[x, x], 0.0) / ((self.n - 3) * S[x, x])
        sampling = 1.0 if target == "population" else (correction - 1) ** 2 / correction**2
        bias = (correction - 1) * S[x, y] / S[x, x]
        return float(bias**2 + correction**2 * residual * (sampling + (self.n - 2) * extra / self.implicates))

    def joint(self, names: tuple[str, ...]) -> None:
        """Return nothing: no released record is a person's own."""
        return

    def prediction_error(self, x: int, given: tuple[int, ...]) -> float | None:
        """Return σₑ²(1 - (1 + q)/n + (1 + q)·what the new file's fit is off): posterior prediction; exact without covariates."""
        if any(i not in self.columns for i in (x, *given)):
            return None
        S, z, q = self.covariance, list(given), len(given)
        explained = S[x, z] @ np.linalg.pinv(S[np.ix_(z, z)], rcond=1e-12, hermitian=True) @ S[z, x] if z else 0.0
        return float((S[x, x] - explained) * (1 - (1 + q) / self.n + (1 + q) * self._fitted(q)))
