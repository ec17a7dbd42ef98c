"""No masking at all: the end of the scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask
from sfumato.microdata import Batch
from sfumato.schema import Schema


class Identity(Mask):
    """Release the values as they are (identifiers are still removed). The unmasked end of an R-U map."""

    preserves_order: ClassVar[bool] = True

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Return the records unchanged."""
        return batch

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing: no column changes."""
        return ()

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return zeros: nothing is added."""
        return np.zeros_like(covariance)
