"""Multiplication of attributes by random noise: M = XB with B diagonal and random (matrix-masking paper, section IV)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, check_numbers, learned, numeric_targets, param
from sfumato.errors import listing
from sfumato.masks.multiply_records import check_signs, unit_mean_factors
from sfumato.microdata import Batch, Microdata

Numbers = NDArray[np.float64]


class MultiplyColumns(Mask):
    """Each chosen column is multiplied by one random factor, the same for all records.

    The factor is positive (lognormal) with mean 1. It protects against nobody who knows a single true value:
    that value gives the factor, and the factor the whole column. Order and correlations are kept.
    """

    preserves_order: ClassVar[bool] = True

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to multiply; all confidential numbers if none", columns="many"
    )
    factor_variance: float = param(
        default=0.05, doc="variance of the factor, whose mean is 1", low=0, high=1e3, scale="log"
    )
    names: Any = learned("columns", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns there are."""
        return self.learn(names=numeric_targets(self.columns, data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Multiply each column by its factor."""
        check_numbers(batch, self.names)
        out = batch
        for name, factor in zip(self.names, self._factors(draws), strict=True):
            out = out.replace(name, lambda name=name, factor=factor: batch.numbers(name) * factor)  # type: ignore[misc]
        return out

    def _factors(self, draws: Draws) -> Numbers:
        """Return the diagonal of B, shape (p,)."""
        file = np.zeros(1, np.int64)  # the file as a whole draws, not its records
        return unit_mean_factors(
            np.concatenate([draws.normals(file, name) for name in self.names]), self.factor_variance
        )

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B, the diagonal matrix of the factors."""
        ready = self if self.is_fitted else self.fit(data, draws)
        return MatrixForm(ready.names, ready.names, B=np.diag(ready._factors(draws)), random=("B",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value changed its sign, and say how little a common factor hides."""
        check_signs(before, after, self.names)
        factor = f"a secret positive factor of its own, with mean 1 and variance {self.factor_variance:g}"
        says = f"{listing(self.names)}: each column is multiplied by {factor}; order, zeros and signs stay as they are"
        known = "one true value that somebody knows gives away the factor, and with it the whole column"
        return (
            Guarantee(step, says, "no released value has the other sign"),
            Guarantee(step, f"{listing(self.names)}: {known}", "by construction: all records share the factor"),
        )
