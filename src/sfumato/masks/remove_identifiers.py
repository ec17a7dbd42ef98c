"""Removal of identifiers: the first step of every recipe."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask
from sfumato.errors import DataError
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema


class RemoveIdentifiers(Mask):
    """Remove every column whose role is identifier.

    The mandatory first step of the masking process (global-risk paper, section 2). On its own it protects little:
    records can still be linked through their keys.
    """

    preserves_order: ClassVar[bool] = True

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Drop the identifier columns."""
        return batch.drop(batch.schema.names(role="identifier"))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema without identifiers."""
        after = schema.keep(lambda a: a.role != "identifier")
        if not len(after):
            raise DataError("every column is an identifier: nothing would be left to release.")
        return after

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify which columns are gone."""
        gone = before.schema.names(role="identifier")
        if left := [name for name in gone if name in after.engine.kinds]:
            raise DataError(f"identifiers are still in the data: {', '.join(left)}; nothing is released.")
        says = "no identifier is released" + (f" (removed: {', '.join(gone)})" if gone else " (there was none)")
        return (Guarantee(step, says, "the columns are absent from the released data"),)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing: no remaining column changes."""
        return ()

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return zeros: nothing is added."""
        return np.zeros_like(covariance)
