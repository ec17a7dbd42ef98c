"""Additive noise, with one meaning of its level: the noise variance as a share of the variable's own variance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.moments import Moments, covariance_root, is_constant
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level, Schema

Numbers = NDArray[np.float64]


class AdditiveNoise(Mask, abstract=True):
    """Y = X + ε on chosen columns, ε normal with mean zero and variance λ² times the column's variance."""

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to mask; all confidential numbers if none", columns="many"
    )
    lambda2: float | Mapping[str, float] = param(
        default=0.15,
        doc="λ²: noise variance divided by the variance of the column",
        low=0,
        high=1e6,
        scale="log",
        per_column=True,
    )
    names: Any = learned("columns", default=None)
    root: Any = learned("columns", default=None)

    def validate(self) -> None:
        """Check that a level is given for each column, where levels are given by column."""
        super().validate()
        if isinstance(self.lambda2, Mapping) and self.columns is not None:
            if absent := [c for c in self.columns if c not in self.lambda2]:
                raise ParameterError(f"lambda2 gives no level for {listing(absent)}.")
            if extra := [c for c in self.lambda2 if c not in self.columns]:
                raise ParameterError(f"lambda2 names columns that are not masked: {listing(extra)}.")

    @abstractmethod
    def shape(self, covariance: Numbers) -> Numbers:
        """Return the covariance of the noise at λ² = 1, given the data's, shape (k, k)."""

    @abstractmethod
    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the groups of columns whose covariances matter: moments are over the records that have a whole group."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance of the columns and its triangular root."""
        names = numeric_targets(self.columns, data)
        # household columns first: the root is triangular, so their noise hangs on household draws alone
        names = tuple(sorted(names, key=lambda n: data.schema[n].level is not Level.HOUSEHOLD))
        self._level(names)
        if isinstance(self.lambda2, Mapping) and (extra := [n for n in self.lambda2 if n not in names]):
            raise ParameterError(f"lambda2 names columns that are not masked: {listing(extra)}.")
        covariance = np.zeros((len(names), len(names)))
        for group in self.together(names):
            moments = data.moments(group)
            _check_spread(moments, data)
            at = [names.index(n) for n in group]
            covariance[np.ix_(at, at)] = moments.covariance
        return self.learn(names=names, root=covariance_root(self.shape(covariance)))

    def _level(self, names: tuple[str, ...]) -> Numbers:
        """Return λ per column, shape (k,)."""
        if isinstance(self.lambda2, Mapping):
            if absent := [n for n in names if n not in self.lambda2]:
                raise ParameterError(f"lambda2 gives no level for {listing(absent)}.")
            return np.sqrt([self.lambda2[n] for n in names])
        return np.full(len(names), np.sqrt(self.lambda2))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise of each record: λ times the root times its standard normal draws."""
        check_numbers(batch, self.names)
        noise = draws.remember((batch.ids, self.root), lambda: self._unit_noise(batch, draws))
        out = batch
        for name, level, unit in zip(self.names, self._level(self.names), noise, strict=True):
            out = out.replace(name, partial(_add, batch, name, level, unit))
        return out

    def _unit_noise(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return each column's noise at λ² = 1, shape (n,) each; it does not depend on the level."""
        standard = [draws.normals(batch.units(name), name) for name in self.names]
        noise = [np.zeros(len(batch)) for _ in self.names]
        for j, row in enumerate(self.root):
            for weight, z in zip(row[: j + 1], standard, strict=False):
                noise[j] += weight * z
        return noise

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

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers:
        """Return the covariance of the noise on these columns, zero for those not masked."""
        masked = self.columns if self.columns is not None else schema.names(role="confidential")
        inside = np.array([n in masked for n in names])
        level = np.zeros(len(names))
        level[inside] = self._level(tuple(n for n in names if n in masked))
        return self.shape(covariance) * np.outer(level, level)


def _add(batch: Batch, name: str, level: float, unit: Numbers) -> Numbers:
    from sfumato.kernels.linear import add_scaled  # numba takes a third of a second to load

    return add_scaled(batch.numbers(name), level, unit)


def _check_spread(moments: Moments, data: Microdata) -> None:
    """Refuse columns that have no variance to scale the noise by."""
    if moments.count < 2:
        empty = [name for name in moments.names if data.moments((name,)).count < 2]
        where = "all of them" if not empty and len(moments.names) > 1 else "an answer there"
        raise DataError(
            f"{listing(empty or moments.names)}: fewer than two records have {where}, so there is no variance to scale "
            "the noise by. Mask columns with more answers, or in separate steps."
        )
    variance = np.diag(moments.covariance)
    if wild := [n for n, v in zip(moments.names, variance, strict=True) if not np.isfinite(v)]:
        raise DataError(
            f"{listing(wild)}: some values are infinite or too large to square, so there is no variance to scale the "
            "noise by. Set them to missing, or leave the column out of columns=."
        )
    constant = is_constant(moments.mean, variance)
    if still := [n for n, c in zip(moments.names, constant, strict=True) if c]:
        raise DataError(
            f"{listing(still)} is constant, so noise in proportion to its variance would be no noise at all. "
            "Leave it out of columns=, or release it as it is."
        )


class KimNoise(AdditiveNoise):
    """Correlated additive noise: ε ~ N(0, λ²Σ) (Kim 1986; R-U paper, equation 3.1).

    The masked columns keep their correlations; the correlation with an unmasked column shrinks by 1/√(1+λ²). With
    levels by column, ε has covariances λᵢλⱼΣᵢⱼ.
    """

    def shape(self, covariance: Numbers) -> Numbers:
        """Return Σ itself."""
        return covariance

    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return all columns at once."""
        return [names]


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
