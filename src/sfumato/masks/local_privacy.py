"""Differential privacy of single values: noise scaled to a stated sensitivity, on a grid, learning nothing from the data."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.engines import Rows
from sfumato.errors import DataError, listing
from sfumato.masks.bounded_noise import bounds_of, check_range
from sfumato.masks.noise_level import check_by_column
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
STEPS = 1024
"""Steps of the grid in one noise scale, at least."""
LARGEST = 2.0**51
"""Steps that a value may be from zero: with noise on top, whole numbers of steps are still exact."""


class LocalPrivacy(Mask, abstract=True):
    """Noise on each value so that two values at most `sensitivity` apart are hard to tell from each other (local privacy).

    Values are moved to [low, high], rounded to a grid, and get noise rounded to the same grid: every value can become every point
    of the grid, and the sums are exact, so the last digits of a released number say nothing about the value (Mironov 2012).
    """

    no_matrix: ClassVar[str] = "values are moved to their range and rounded to a grid, which is not linear"

    sensitivity: float | Mapping[str, float] = param(
        doc="difference between two values that is to be hidden: the width of the column's range, to hide any difference",
        low=0,
        above=True,
        high=1e12,
        scale="log",
        per_column=True,
        usual=(30, 0.1),
    )
    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to mask; all confidential numbers if none", columns="many"
    )
    epsilon: float | Mapping[str, float] = param(
        default=1.0,
        doc="ε: the released number is at most e^ε times as likely from one value as from the other",
        low=1e-4,
        high=1000,
        scale="log",
        per_column=True,
    )
    low: float | Mapping[str, float] | None = param(
        default=None,
        doc="values below are moved here first; the schema's bound if none",
        low=-1e300,
        high=1e300,
        per_column=True,
        of_data="numbers",
    )
    high: float | Mapping[str, float] | None = param(
        default=None,
        doc="values above are moved here first; the schema's bound if none",
        low=-1e300,
        high=1e300,
        per_column=True,
        of_data="numbers",
    )
    names: Any = learned("columns", default=None)

    def validate(self) -> None:
        """Check settings by column."""
        super().validate()
        check_range(self.low, self.high, self.columns)
        if self.columns is not None:
            self._check_named(self.columns)

    def _check_named(self, columns: tuple[str, ...]) -> None:
        for field, noun in (("sensitivity", "number"), ("epsilon", "ε"), ("low", "bound"), ("high", "bound")):
            check_by_column(field, noun, getattr(self, field), columns)

    @abstractmethod
    def scale(self, epsilon: float, sensitivity: float) -> float:
        """Return the scale of the noise."""

    @abstractmethod
    def quantile(self, u: Numbers) -> Numbers:
        """Return the noise of scale 1 at uniform numbers u."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise of scale 1."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the columns. Nothing is learned from their values: what is learned would not be private."""
        names = numeric_targets(self.columns, data)
        self._check_named(names)
        for name in names:
            known, wild = data.engine.reduce(partial(self._counts, data.schema, name), [name])
            if not known:
                raise DataError(f"column '{name}' has no values at all, so there is nothing to mask.")
            if wild:
                raise DataError(
                    f"{int(wild):,} values of '{name}' are infinite, or too large for noise of this size to be added exactly. "
                    "Set them to missing, or give the column's range (low=, high=)."
                )
        return self.learn(names=names)

    def _counts(self, schema: Schema, name: str, rows: Rows) -> Numbers:
        """Return how many values there are, and how many of them are too many steps of the grid to be counted exactly."""
        x = np.clip(Batch(rows, schema).numbers(name), *bounds_of(self.low, self.high, schema, name))
        x = np.abs(x[~np.isnan(x)])
        return np.array([len(x), (x >= self.noise_scale(name)[1] * LARGEST).sum()], np.float64)

    def noise_scale(self, name: str) -> tuple[float, float]:
        """Return the scale of a column's noise and the step of its grid, a power of two.

        Two values at most s apart are at most s + step apart once they are rounded to the grid.
        """
        sensitivity, epsilon = of_column(self.sensitivity, name), of_column(self.epsilon, name)
        finest = min(self.scale(epsilon, sensitivity), sensitivity) / STEPS
        step = 2.0 ** math.floor(math.log2(finest))
        return self.scale(epsilon, sensitivity + step), step

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Move each value to its range and to the grid, and add noise from the grid."""
        check_numbers(batch, self.names)
        out = batch
        for name in self.names:
            out = out.replace(name, partial(self._masked, batch, draws, name))
        return out

    def _masked(self, batch: Batch, draws: Draws, name: str) -> Numbers:
        scale, step = self.noise_scale(name)
        x = np.clip(batch.numbers(name), *bounds_of(self.low, self.high, batch.schema, name))
        noise = self.quantile(draws.uniforms(batch.units(name), name)) * (scale / step)
        return (np.round(x / step) + np.round(noise)) * step

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers | None:
        """Return the variances of the noise on the diagonal; None if values are moved to a range first."""
        masked = self.columns if self.columns is not None else schema.names(role="confidential")
        if self.low is not None or self.high is not None:
            return None
        return np.diag([self.variance * self.noise_scale(n)[0] ** 2 if n in masked else 0.0 for n in names])

    def promise(self, epsilon: str) -> str:
        """Return the kind of privacy, in words."""
        return f"{epsilon}-differential privacy"

    def total(self, count: int) -> str:
        """Return what the parameters add up to over columns."""
        return f"ε = {sum(of_column(self.epsilon, n) for n in self.names):g}"

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """State the privacy of each value, column by column and in sum, and what is not protected."""
        said = []
        for name in self.names:
            low, high = bounds_of(self.low, self.high, before.schema, name)
            sensitivity = of_column(self.sensitivity, name)
            pair = "any two values" if high - low <= sensitivity else f"two values at most {sensitivity:g} apart"
            privacy = self.promise(f"{of_column(self.epsilon, name):g}")
            says = f"{name}: {privacy} of each value, for {pair} (local: of values, not of the file)"
            scale, grid = self.noise_scale(name)
            how = f"by construction: {self.distribution} of scale {scale:.6g} on a grid of {grid:.6g}, and nothing learned"
            said.append(Guarantee(step, says, how))
        if len(self.names) > 1:
            says = f"{listing(self.names)}: all columns of a record together have {self.total(len(self.names))}"
            said.append(Guarantee(step, says, "sum over the columns (sequential composition)"))
        says = f"{listing(self.names)}: whether a value is missing is not hidden, nor is anything in columns that are not masked"
        return (*said, Guarantee(step, says, "missing values stay where they are"))

    distribution: ClassVar[str]


def of_column(setting: float | Mapping[str, float], name: str) -> float:
    """Return a setting that may be given by column."""
    return setting[name] if isinstance(setting, Mapping) else setting
