"""Random order of the records: where a record stands in the file tells nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm
from sfumato.errors import DataError
from sfumato.masks.records import picks, unchanged_numbers
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema


class RandomOrder(Mask):
    """Release the records in random order; no value changes (matrix-masking paper, section IV: A is a permutation).

    Files are often sorted by region, date or the number of the interview; whoever knows the order can use it as a key.
    Put it last.
    """

    preserves_order: ClassVar[bool] = True

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Sort some records by their random numbers."""
        return batch.keep(np.argsort(draws.uniforms(batch.ids, "order"), kind="stable"))

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Sort all records by their random numbers, where the data live."""
        return data.reorder(lambda ids: draws.uniforms(ids, "order"))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the permutation."""
        ids, names = data.batch([]).ids, (*unchanged_numbers(data), *data.schema.names(role="weight"))
        order = np.argsort(draws.uniforms(ids, "order"), kind="stable")
        return MatrixForm(names, names, A=picks(order, len(ids)), random=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that the same records come out."""
        if before.digest() != after.digest():
            raise DataError("the records in random order are not the records that went in; nothing is released.")
        says = "the order of the records is random and tells nothing about them"
        return (Guarantee(step, says, "the same records came out, by a digest of all values"),)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing: no column changes."""
        return ()

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return zeros: nothing is added."""
        return np.zeros_like(covariance)
