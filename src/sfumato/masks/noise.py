"""Additive noise, with one meaning of its level: the noise variance as a share of the variable's own variance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, MatrixForm, check_numbers, learned
from sfumato.errors import listing
from sfumato.kernels.moments import covariance_root
from sfumato.masks.noise_level import NoiseLevel, check_spread, needed
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class AdditiveNoise(NoiseLevel, abstract=True):
    """Y = X + ε on chosen columns, ε normal with mean zero and variance λ² times the column's variance."""

    names: Any = learned("columns", default=None)
    root: Any = learned("columns", default=None)

    @abstractmethod
    def shape(self, covariance: Numbers) -> Numbers:
        """Return the covariance of the noise at λ² = 1, given the data's, shape (k, k)."""

    @abstractmethod
    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the groups of columns whose covariances matter: moments are over the records that have a whole group."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance of the columns and its triangular root."""
        names = self.targets(data)
        covariance = np.zeros((len(names), len(names)))
        for group in self.together(names):
            moments = data.moments(group)
            check_spread(moments, data)
            at = [names.index(n) for n in group]
            covariance[np.ix_(at, at)] = moments.covariance
        return self.learn(names=names, root=covariance_root(self.shape(covariance)))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise of each record: λ times the root times its standard normal draws."""
        check_numbers(batch, self.names)
        out = batch
        for name, level, unit in zip(self.names, self._level(self.names), self.unit_noise(batch, draws), strict=True):
            out = out.replace(name, partial(_add, batch, name, level, unit))
        return out

    def unit_noise(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return each column's noise at λ² = 1, shape (n,) each; it does not depend on the level."""
        made: list[Numbers] = draws.remember(
            (batch.ids, self.root), lambda: rooted_noise(batch, self.names, self.root, draws)
        )
        return made

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = X + C: a random displacement, zero where a value is missing."""
        fitted = self if self.is_fitted else self.fit(data, draws)
        batch = needed(data, fitted.names)
        noise = np.column_stack(fitted.unit_noise(batch, draws)) * fitted._level(fitted.names)
        gaps = np.column_stack([np.isnan(batch.numbers(name)) for name in fitted.names])
        return MatrixForm(fitted.names, fitted.names, C=np.where(gaps, 0.0, noise), random=("C",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what bounds, rounding and linear dependence do to the noise."""
        said = []
        kept = [n for n in self.names if before.schema[n].integer or before.schema[n].bounds != (None, None)]
        if kept:
            says = "values are whole where the schema says so, and moved to its bounds where noise passes them"
            how = "by construction; analytic curves do not include this, empirical ones do"
            said.append(Guarantee(step, f"{listing(kept)}: {says}", how))
        if (np.diag(self.root) == 0).any():
            says = f"{listing(self.names)}: the columns are linearly dependent, and their noise is too, so sums still add up"
            said.append(
                Guarantee(step, says, "the covariance is singular; its root has rank below the number of columns")
            )
        return tuple(said)

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers | None:
        """Return the covariance of the noise on these columns, zero for those not masked."""
        masked = self.columns if self.columns is not None else schema.names(role="confidential")
        inside = np.array([n in masked for n in names])
        level = np.zeros(len(names))
        level[inside] = self._level(tuple(n for n in names if n in masked))
        return self.shape(covariance) * np.outer(level, level)


def rooted_noise(batch: Batch, names: Sequence[str], root: Numbers, draws: Draws) -> list[Numbers]:
    """Return normal noise of the covariance root root′, root lower triangular; a column for each name, shape (n,) each.

    It is added up in the same order for every record.
    """
    standard = [draws.normals(batch.units(name), name) for name in names]
    noise = [np.zeros(len(batch)) for _ in names]
    for j, row in enumerate(root):
        for weight, z in zip(row[: j + 1], standard, strict=False):
            noise[j] += weight * z
    return noise


def _add(batch: Batch, name: str, level: float, unit: Numbers) -> Numbers:
    from sfumato.kernels.linear import add_scaled  # numba takes a third of a second to load

    return add_scaled(batch.numbers(name), level, unit)


class CorrelatedNoise(AdditiveNoise, abstract=True):
    """Additive noise with the correlations of the data: ε ~ N(0, λ²Σ); with levels by column, λᵢλⱼΣᵢⱼ."""

    def shape(self, covariance: Numbers) -> Numbers:
        """Return Σ itself."""
        return covariance

    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return all columns at once."""
        return [names]


class KimNoise(CorrelatedNoise):
    """Correlated additive noise: ε ~ N(0, λ²Σ) (Kim 1986; R-U paper, equation 3.1).

    The masked columns keep their correlations; the correlation with an unmasked column shrinks by 1/√(1+λ²). With
    levels by column, ε has covariances λᵢλⱼΣᵢⱼ.
    """


class IndependentNoise(AdditiveNoise):
    """Independent additive noise: each column gets its own, with variance λ² times the column's variance.

    Correlations between masked columns shrink by 1/(1+λ²).
    """

    def shape(self, covariance: Numbers) -> Numbers:
        """Return the diagonal of Σ."""
        return np.diag(np.diag(covariance))

    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the columns one by one: each has the variance of all its own answers."""
        return [(name,) for name in names]
