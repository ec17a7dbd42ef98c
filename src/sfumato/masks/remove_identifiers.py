"""Removal of identifiers: the first step of every recipe."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, param
from sfumato.engines import Kind
from sfumato.errors import DataError
from sfumato.masks.pseudonyms import as_names, check_one_to_one, pseudonyms
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema


class RemoveIdentifiers(Mask):
    """Remove every column whose role is identifier.

    The mandatory first step of the masking process (global-risk paper, section 2). On its own it protects little:
    records can still be linked through their keys. An identifier that joins files (a person number) may stay as a keyed
    pseudonym; see `Pseudonyms`.
    """

    preserves_order: ClassVar[bool] = True  # pseudonyms are texts, and have no order

    pseudonyms: tuple[str, ...] | None = param(
        default=None, doc="identifiers to release as keyed pseudonyms instead", columns="many", holds="categories"
    )

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Drop the identifier columns, and replace those that stay as pseudonyms."""
        kept = self.pseudonyms or ()
        new = {name: pseudonyms(batch, name, "text", draws, name) for name in kept}
        return batch.with_columns(new).drop(n for n in batch.schema.names(role="identifier") if n not in kept)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema without identifiers; a pseudonym identifies nobody, and has the role 'other'."""
        kept = self.pseudonyms or ()
        after = as_names(schema, kept, "text")
        after = after.roles(other=[n for n in kept if after[n].role == "identifier"])
        after = after.keep(lambda a: a.role != "identifier")
        if not len(after):
            raise DataError("every column is an identifier: nothing would be left to release.")
        return after

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify which columns are gone."""
        kept = self.pseudonyms or ()
        gone = [name for name in before.schema.names(role="identifier") if name not in kept]
        if left := [name for name in gone if name in after.engine.kinds]:
            raise DataError(f"identifiers are still in the data: {', '.join(left)}; nothing is released.")
        says = "no identifier is released" + (f" (removed: {', '.join(gone)})" if gone else " (there was none)")
        said = Guarantee(step, says, "the columns are absent from the released data")
        return (said, check_one_to_one(before, after, kept, None, step)) if kept else (said,)

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B that leaves out the identifiers among the numbers (matrix-masking paper, section IV)."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        gone = {*data.schema.names(role="identifier"), *(self.pseudonyms or ())}
        kept = [j for j, name in enumerate(names) if name not in gone]
        return MatrixForm(names, tuple(names[j] for j in kept), B=np.eye(len(names))[:, kept])

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that become pseudonyms: no other remaining column changes."""
        return self.pseudonyms or ()

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return zeros: nothing is added."""
        return np.zeros_like(covariance)
