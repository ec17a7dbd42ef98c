"""Multiplication of attributes by random noise: M = XB with B diagonal and random (matrix-masking paper, section IV)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, MatrixForm
from sfumato.errors import listing
from sfumato.masks.multiply_records import RandomFactors
from sfumato.microdata import Batch, Microdata

Numbers = NDArray[np.float64]


class MultiplyColumns(RandomFactors):
    """Each chosen column is multiplied by one random factor, the same for all records.

    The factor is positive (lognormal) with mean 1. It protects against nobody who knows a single true value:
    that value gives the factor, and the factor the whole column. Order and correlations are kept.
    """

    preserves_order: ClassVar[bool] = True

    def factors(self, batch: Batch, draws: Draws) -> list[float]:
        """Return the diagonal of B: the file as a whole draws, not its records."""
        return [float(factor) for factor in self._diagonal(draws)]

    def _diagonal(self, draws: Draws) -> Numbers:
        file = np.zeros(1, np.int64)
        return self.unit_mean(np.concatenate([draws.normals(file, name) for name in self.names]))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B, the diagonal matrix of the factors."""
        ready = self if self.is_fitted else self.fit(data, draws)
        return MatrixForm(ready.names, ready.names, B=np.diag(ready._diagonal(draws)), random=("B",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value changed its sign, and say how little a common factor hides."""
        self.check_signs(before, after)
        factor = f"a secret positive factor of its own, with mean 1 and variance {self.factor_variance:g}"
        says = f"{listing(self.names)}: each column is multiplied by {factor}; order, zeros and signs stay as they are"
        known = "one true value that somebody knows gives away the factor, and with it the whole column"
        return (
            Guarantee(step, says, "no released value has the other sign"),
            Guarantee(step, f"{listing(self.names)}: {known}", "by construction: all records share the factor"),
        )
