"""Multiplication of records by random noise: M = AX with A diagonal and random (matrix-masking paper, section IV)."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    MatrixForm,
    check_numbers,
    check_values,
    learned,
    numeric_targets,
    param,
)
from sfumato.errors import DataError, listing
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level

Numbers = NDArray[np.float64]


class RandomFactors(Mask, abstract=True):
    """Values times random factors that are positive (lognormal) and have mean 1: signs and zeros stay."""

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to multiply; all confidential numbers if none", columns="many"
    )
    factor_variance: float = param(
        default=0.05, doc="variance of the factor, whose mean is 1", low=0, high=1e3, scale="log", usual=(0.001, 0.5)
    )
    names: Any = learned("columns", default=None)

    @abstractmethod
    def factors(self, batch: Batch, draws: Draws) -> list[Any]:
        """Return for each column its factor, or its factors record by record."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns there are, and refuse what cannot be multiplied."""
        names = numeric_targets(self.columns, data)
        check_values(data, names)
        return self.learn(names=names)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Multiply the values by their factors."""
        check_numbers(batch, self.names)
        out = batch
        for name, factor in zip(self.names, self.factors(batch, draws), strict=True):
            out = out.replace(name, partial(_times, batch, name, factor))
        return out

    def unit_mean(self, normals: Numbers) -> Numbers:
        """Return lognormal factors of mean 1 and variance v from standard normals: exp(sz - s²/2) with s² = ln(1 + v)."""
        s2 = np.log1p(self.factor_variance)
        return np.asarray(np.exp(np.sqrt(s2) * normals - s2 / 2))

    def check_signs(self, before: Microdata, after: Microdata) -> None:
        """Refuse a release in which a value has the other sign, or grew past all numbers."""
        for name in self.names:
            y = after.numbers(name)
            if (np.sign(before.numbers(name)) * np.sign(y) < 0).any():
                raise DataError(f"column '{name}' has values whose sign changed; nothing is released.")
            if np.isinf(y).any():
                raise DataError(f"some values of '{name}' are too large to be multiplied; nothing is released.")


def _times(batch: Batch, name: str, factor: Any) -> Numbers:
    with np.errstate(over="ignore"):  # what grows past all numbers is refused at the end
        return np.asarray(batch.numbers(name) * factor)


class MultiplyRecords(RandomFactors):
    """All chosen numbers of a record are multiplied by one random factor, its own.

    The factor is positive (lognormal) with mean 1: totals stay the same on average, signs and zeros stay,
    and so do the ratios between the columns of a record. Where one of the columns describes the household, all its members
    share one factor, so that the household keeps one value and A stays one matrix.
    """

    def factors(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return the diagonal of A, shape (n,), for every column."""
        return [self._diagonal(batch, draws)] * len(self.names)

    def _diagonal(self, batch: Batch, draws: Draws) -> Numbers:
        shared = [n for n in self.names if batch.schema[n].level is Level.HOUSEHOLD]
        return self.unit_mean(draws.normals(batch.units([*shared, *self.names][0]), "factor"))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A, the diagonal matrix of the factors."""
        from scipy.sparse import diags_array

        ready = self if self.is_fitted else self.fit(data, draws)
        factors = ready._diagonal(data.batch(), draws)
        return MatrixForm(ready.names, ready.names, A=diags_array(factors).tocsr(), random=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value changed its sign, and say what factors do not hide."""
        self.check_signs(before, after)
        factor = f"a positive factor of its own, with mean 1 and variance {self.factor_variance:g}"
        says = f"{listing(self.names)}: each record is multiplied by {factor}; zeros and signs stay as they are"
        said = [Guarantee(step, says, "no released value has the other sign")]
        if len(self.names) > 1:
            says = f"the ratios between {listing(self.names)} are not masked: whoever knows one value knows the others"
            said.append(Guarantee(step, says, "by construction, apart from rounding and bounds of the schema"))
        return tuple(said)
