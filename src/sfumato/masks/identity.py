"""No masking at all: the end of the scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask, MatrixForm
from sfumato.engines import Kind
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema


class Identity(Mask):
    """Release the values as they are (identifiers are still removed). The unmasked end of an R-U map."""

    preserves_order: ClassVar[bool] = True

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Return the records unchanged."""
        return batch

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A = I, B = I, C = 0."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        return MatrixForm(names, names)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing: no column changes."""
        return ()

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return zeros: nothing is added."""
        return np.zeros_like(covariance)
