"""Removal of identifiers, keyed pseudonyms, random order of records, and no masking at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, param
from sfumato.data import Column, Kind
from sfumato.data.microdata import Batch, Microdata, missing_of
from sfumato.errors import DataError, join_names
from sfumato.masks.record_choice import picks, unchanged_numbers
from sfumato.schema import Attribute, Scale, Schema
from sfumato.typing import Numbers, Whole


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

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B that leaves out the identifiers among the numbers (matrix-masking paper, section IV)."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        gone = {*data.schema.names(role="identifier"), *(self.pseudonyms or ())}
        kept = [j for j, name in enumerate(names) if name not in gone]
        return MatrixForm(names, tuple(names[j] for j in kept), B=np.eye(len(names))[:, kept])

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return self.pseudonyms or ()

    @override
    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers:
        return np.zeros_like(covariance)


Form = Literal["number", "text"]
FORM = "whole numbers of up to 16 digits, or texts of 16 letters and digits"


class Pseudonyms(Mask):
    """Replace the values of columns by keyed pseudonyms: household numbers, enterprise numbers, case numbers.

    The same value always has the same pseudonym, two values never share one, and the order of the values is lost. A
    pseudonym is a pseudorandom function (ChaCha12) of a digest of the value, keyed with the seed and the step's name:
    without the seed nobody can compute it, not even by trying all values. With the same seed and step name, other files
    get the same pseudonyms. Missing values stay missing.
    """

    no_matrix: ClassVar[str] = "names are replaced by other names, and numbers that are names cannot be computed with"

    columns: tuple[str, ...] = param(doc="columns to replace", columns="many", holds="categories")
    form: Form = param(default="number", doc=FORM)
    domain: str | None = param(
        default=None,
        doc="columns of one domain get the same pseudonym for the same value; each column's own name if none",
        of_data="nothing",
    )

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Replace each distinct value."""
        return batch.with_columns(
            {name: pseudonyms(batch, name, self.form, draws, self.domain or name) for name in self.columns}
        )

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Replace the values; columns that follow a replaced one do not change, since equal values stay equal."""
        return super().run(data, draws)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with columns of names, without order, bounds, codes or labels."""
        return as_names(schema, self.columns, self.form)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that values and pseudonyms correspond one to one, across all columns of a domain."""
        return (check_one_to_one(before, after, self.columns, self.domain, step),)


def pseudonyms(batch: Batch, name: str, form: Form, draws: Draws, domain: str) -> Column:
    """Return a column's pseudonyms: 52 bits of the cipher as a number, or 64 as text; null where missing."""
    old = batch.column(name)
    if old.kind is Kind.OTHER:
        raise DataError(f"column '{name}' holds {old.kind}, which cannot have pseudonyms.")
    missing = missing_of(old, batch.schema[name])
    distinct, place = np.unique(old.hashes, return_inverse=True)
    words = [(draws.uniforms(distinct, f"{domain}/{half}") * 2.0**52).astype(np.int64) for half in ("high", "low")]
    if form == "number":
        return Column.from_numbers(words[0][place].astype(np.float64), missing, integer=True)
    texts = [f"{high >> 20:08x}{low >> 20:08x}" for high, low in zip(*(w.tolist() for w in words), strict=True)]
    return Column.from_codes(np.where(missing, -1, place), texts)


def as_names(schema: Schema, columns: Iterable[str], form: Form) -> Schema:
    """Return the schema of columns that hold pseudonyms: names without order or bounds."""
    names = set(columns)
    for name in names:
        schema[name]  # an unknown name is refused, and the nearest one suggested

    def named(a: Attribute) -> Attribute:
        return a.with_(
            scale=Scale.UNORDERED, hierarchy=None, bounds=(None, None), integer=form == "number", missing=(), values={},
            labels={},
        )  # fmt: skip

    return Schema(tuple(named(a) if a.name in names else a for a in schema))


def check_one_to_one(
    before: Microdata, after: Microdata, columns: tuple[str, ...], domain: str | None, step: str
) -> Guarantee:
    """Verify that values and pseudonyms correspond one to one within each domain, and that missing values stay missing."""
    for group in [columns] if domain else [(name,) for name in columns]:
        old, new = before.batch(group), after.batch(group)
        order = [np.argsort(b.ids, kind="stable") for b in (old, new)]
        pairs: list[list[Whole]] = [[], []]
        for name in group:
            gaps = [b.missing(name)[o] for b, o in zip((old, new), order, strict=True)]
            if not np.array_equal(gaps[0], gaps[1]):
                raise DataError(f"values of '{name}' went missing, or came back; nothing is released.")
            for side, batch in enumerate((old, new)):
                pairs[side].append(batch.column(name).hashes[order[side]][~gaps[side]])
        values, names = (np.concatenate(side) for side in pairs)
        distinct, first, place = np.unique(values, return_index=True, return_inverse=True)
        if (names != names[first][place]).any() or len(np.unique(names[first])) < len(distinct):
            raise DataError(
                f"two values of {join_names(group)} got the same pseudonym, which happens by accident in very long files; "
                "nothing is released. Use form = 'text', or another seed."
            )
    says = (
        f"{join_names(columns)}: a keyed pseudonym in place of each value, one to one; the order of the values is lost"
    )
    return Guarantee(step, says, "values and pseudonyms counted: as many of the one as of the other, in pairs")


class UnchangedValues(Mask, abstract=True):
    """A mask that changes no value."""

    preserves_order: ClassVar[bool] = True

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return ()

    @override
    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers:
        return np.zeros_like(covariance)


class RandomOrder(UnchangedValues):
    """Release the records in random order; no value changes (matrix-masking paper, section IV: A is a permutation).

    Files are often sorted by region, date or interview number; whoever knows the order can use it as a key.
    Put this step last.
    """

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Sort a batch of records by their random numbers."""
        return batch.keep(np.argsort(draws.uniforms(batch.ids, "order"), kind="stable"))

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Sort all records by their random numbers, where the data are stored."""
        return data.reorder(lambda ids: draws.uniforms(ids, "order"))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the permutation."""
        ids, names = data.batch([]).ids, (*unchanged_numbers(data), *data.schema.names(role="weight"))
        order = np.argsort(draws.uniforms(ids, "order"), kind="stable")
        return MatrixForm(names, names, A=picks(order, len(ids)), random=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that exactly the original records are released."""
        if before.digest() != after.digest():
            raise DataError("the records in random order are not the records that went in; nothing is released.")
        says = "the order of the records is random and tells nothing about them"
        return (Guarantee(step, says, "the same records came out, by a digest of all values"),)


class Identity(UnchangedValues):
    """Release the values as they are (identifiers are still removed). The unmasked end of an R-U map."""

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Return the records unchanged."""
        return batch

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A = I, B = I, C = 0."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        return MatrixForm(names, names)
