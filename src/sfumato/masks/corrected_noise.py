"""Noise, then a linear transformation that restores the variance or the whole covariance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from sfumato.contract import Draws, Guarantee, MatrixForm, learned, param
from sfumato.data import Batch, Microdata
from sfumato.errors import DataError, NotApplicable, join_names
from sfumato.kernels.moments import Moments
from sfumato.masks.column_settings import replace_numbers
from sfumato.masks.noise import CorrelatedNoise, apart, derived, moments_kept, needed
from sfumato.schema import Schema
from sfumato.typing import Numbers


class CorrectedNoise(CorrelatedNoise):
    """Correlated noise with bias correction: Y = μ + (X - μ + ε)/√(1+λ²), ε ~ N(0, λ²Σ) (Kim 1986; Tendick and Matloff 1994).

    The masked columns have, in expectation, the mean and the covariance of the original: an analyst needs no correction. With
    levels by column, means and variances are kept, and correlations shrink by the factor (1+λᵢλⱼ)/√((1+λᵢ²)(1+λⱼ²)).
    """

    mean: Any = learned("columns", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance, and the mean of each column over its answers."""
        fitted = super().fit(data, draws)
        return fitted.learn(mean=np.array([data.moments((name,)).mean[0] for name in fitted.names]))

    def shrinkage(self) -> Numbers:
        """Return 1/√(1+λ²) per column, shape (k,)."""
        return np.asarray(1 / np.sqrt(1 + self._level(self.names) ** 2))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise and shrink the sum towards the mean."""
        facts = self._level(self.names), self.shrinkage(), self.mean, self.unit_noise(batch, draws)
        return replace_numbers(batch, self.names, partial(_corrected, batch), *facts)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB + C: B is 1/√(1+λ²) on the diagonal, C the shrunk noise and a multiple of the mean."""
        shrink, noise = self.shrinkage(), super().matrices(data, draws)
        c = np.asarray(noise.C) * shrink + (1 - shrink) * self.mean
        return MatrixForm(noise.names, noise.names, B=np.diag(shrink), C=c, random=("C",))

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> None:
        """Return None: the masked value is not the value plus something of mean zero."""
        return

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say which moments are kept in expectation, and how far the released moments are from the original's."""
        same = not isinstance(self.lambda2, Mapping) or len(set(self.lambda2.values())) == 1
        what = "mean and covariance" if same else "mean and variance of each column"
        mean, covariance = apart(before.moments(self.names), after.moments(self.names))
        says = f"{join_names(self.names)}: {what} are, in expectation, those of the original"
        how = (
            f"by construction, over the records that have all of them; released means are within {mean:.2g} standard "
            f"deviations, covariances within {covariance:.2g}"
        )
        return (Guarantee(step, says, how), *super().guarantees(before, after, step))


def _corrected(batch: Batch, name: str, level: float, shrink: float, mean: float, unit: Numbers) -> Numbers:
    return mean + shrink * (batch.numbers(name) - mean + level * unit)


# --- Kim's combination: noise, then a linear transformation that restores the mean and the covariance exactly.


class Affine(NamedTuple):
    """y = to + B (z - of), B triangular; where a value before column j is missing, yⱼ = toⱼ + scaleⱼ (zⱼ - ofⱼ) instead."""

    of: Numbers
    to: Numbers
    scale: Numbers
    B: Numbers | None


class KimTransformation(CorrelatedNoise):
    """Correlated noise, then the linear transformation that restores the sample's moments (Kim 1986; matrix paper, section IV).

    Z = X + ε with ε ~ N(0, λ²Σ); then Y = x̄ + (Z - z̄)B, with B chosen so that the released file has the mean vector and the
    covariance matrix of the original (`keep="covariance"`), or Yⱼ = aⱼZⱼ + bⱼ, so that each column has its mean and its variance
    (`keep="variances"`). The moments are equal exactly, not only in expectation.
    """

    keep: Literal["covariance", "variances"] = param(
        default="covariance", doc="whether the covariance matrix is kept, or the variance of each column"
    )
    affine: Any = learned("columns", "lambda2", "keep", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance for the noise, then the moments of the noisy values with these draws, in passes over the data."""
        fitted = super().fit(data, draws)
        names = fitted.names
        noisy = derived(data, names, partial(fitted.noisy, draws=draws))
        if self.keep == "covariance":
            x, z = data.moments(names), noisy.moments(names)
        else:
            x, z = (_by_column([source.moments((name,)) for name in names]) for source in (data, noisy))
        enough = len(names) + 3 if self.keep == "covariance" else 4
        if x.count < enough:
            raise DataError(
                f"{join_names(names)}: only {x.count} records have an answer, so few that their mean and covariance, which are "
                f"kept, would tell what their values are. At least {enough} are needed: mask fewer columns, or use kim_noise."
            )
        scale = np.sqrt(np.diag(x.covariance) / np.diag(z.covariance))
        b = _restoring(x.covariance, z.covariance) if self.keep == "covariance" else None
        return fitted.learn(affine=Affine(z.mean, x.mean, scale, b))

    def noisy(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return X + ε by column, shape (n,) each."""
        facts = zip(self.names, self._level(self.names), self.unit_noise(batch, draws), strict=True)
        return [batch.numbers(name) + level * unit for name, level, unit in facts]

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise and transform."""
        z = self.noisy(batch, draws)
        return replace_numbers(batch, self.names, partial(self._transformed, z))

    def _transformed(self, z: list[Numbers], name: str) -> Numbers:
        j = self.names.index(name)
        to, of, scale, b = self.affine.to, self.affine.of, self.affine.scale, self.affine.B
        alone: Numbers = to[j] + scale[j] * (z[j] - of[j])
        if b is None:
            return alone
        # sums by column, not a matrix product: the same bits in any pieces. B is triangular: households stay whole
        joint = np.full(len(z[j]), to[j])
        for k in range(j + 1):
            joint += b[j, k] * (z[k] - of[k])
        gap = np.isnan(z[: j + 1]).any(axis=0)
        return np.where(gap, alone, joint)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB + C; B is diagonal if variances are kept, else triangular, and then no value may be missing."""
        names, (of, to, scale, b) = self.names, self.affine
        batch = needed(data, names)
        gaps = np.column_stack([np.isnan(batch.numbers(name)) for name in names])
        noise = np.column_stack(self.unit_noise(batch, draws)) * self._level(names)
        if b is not None and gaps.any():
            raise NotApplicable(
                f"{int(gaps.any(axis=1).sum()):,} records have gaps among {join_names(names)}. They are transformed column by "
                "column, so there is no one B for all records. Leave them out, or set keep = 'variances'."
            )
        b = np.diag(scale) if b is None else b
        c = np.where(gaps, 0.0, (noise - of) @ b.T + to)
        return MatrixForm(names, names, B=b.T, C=c, random=("B", "C"), depends=("B", "C"))

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> None:
        """Return None: the masked value is not the value plus something of mean zero."""
        return

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that the released moments are the original's."""
        groups = [self.names] if self.keep == "covariance" else [(name,) for name in self.names]
        over = "the records that have all of them" if len(groups[0]) > 1 else "the records that have it"
        said = [
            moments_kept(step, before.moments(g), after.moments(g), over, before.schema, refit=True) for g in groups
        ]
        return (*said, *super().guarantees(before, after, step))


def _by_column(found: list[Moments]) -> Moments:
    names = tuple(m.names[0] for m in found)
    variances = np.diag([m.covariance[0, 0] for m in found])
    return Moments(names, min(m.count for m in found), np.array([m.mean[0] for m in found]), variances)


def _restoring(wanted: Numbers, had: Numbers) -> Numbers:
    """Return the lower-triangular B with B · had · Bᵀ = wanted: the root of the one times the inverse root of the other.

    A column that depends linearly on earlier ones adds no direction in either matrix: it is computed from them.
    """
    size = len(wanted)
    root, inverse = np.zeros((size, size)), np.zeros((size, size))
    other = np.zeros((size, size))
    for j in range(size):
        rest = wanted[j:, j] - root[j:, :j] @ root[j, :j]
        left = had[j:, j] - other[j:, :j] @ other[j, :j]
        if rest[0] > 1e-12 * wanted[j, j]:
            root[j:, j] = rest / np.sqrt(rest[0])
            other[j:, j] = left / np.sqrt(left[0])
            inverse[j] = (np.eye(size)[j] - other[j, :j] @ inverse[:j]) / other[j, j]
    return root @ inverse
