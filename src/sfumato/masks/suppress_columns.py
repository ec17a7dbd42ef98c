"""Suppression of attributes: some columns are not released."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, param
from sfumato.engines import Kind
from sfumato.errors import DataError, listing
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema


class SuppressColumns(Mask):
    """Do not release some columns, nor any that follows them (matrix-masking paper, section IV: B picks the columns that stay).

    A column that follows a suppressed one is a function of it and would give it away in part.
    """

    preserves_order: ClassVar[bool] = True

    columns: tuple[str, ...] = param(doc="columns to leave out", columns="many", holds="anything")

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that go: those named, and those that follow them."""
        gone = [schema[name].name for name in self.columns]
        while new := [a.name for a in schema if a.follows in gone and a.name not in gone]:
            gone += new
        return tuple(gone)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema without the suppressed columns."""
        gone = self.touches(schema)
        after = schema.keep(lambda a: a.name not in gone)
        if not len(after):
            raise DataError("every column would be suppressed: nothing would be left to release.")
        return after

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Drop the columns."""
        return batch.drop(self.touches(batch.schema))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB: B is the identity without the columns that go."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        kept = [i for i, n in enumerate(names) if n not in self.touches(data.schema)]
        b: NDArray[np.float64] = np.eye(len(names))[:, kept]
        return MatrixForm(names, tuple(names[i] for i in kept), B=b)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify which columns are gone."""
        gone = self.touches(before.schema)
        if left := [name for name in gone if name in after.engine.kinds]:
            raise DataError(f"these columns are still in the data: {listing(left)}; nothing is released.")
        linked = [name for name in gone if name not in self.columns]
        says = f"{listing(self.columns)}: not released" + (f", nor what follows ({listing(linked)})" if linked else "")
        return (Guarantee(step, says, "the columns are absent from the released data"),)
