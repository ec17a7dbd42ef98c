"""Keyed pseudonyms: numbers or names that stand for others, and that only the holder of the seed can make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, param
from sfumato.engines import Column, Kind
from sfumato.errors import DataError, listing
from sfumato.microdata import Batch, Microdata, missing_of
from sfumato.schema import Attribute, Scale, Schema

Form = Literal["number", "text"]
FORM = "whole numbers of up to 16 digits, or texts of 16 letters and digits"


class Pseudonyms(Mask):
    """Replace the values of columns by keyed pseudonyms: household numbers, enterprise numbers, case numbers.

    The same value always has the same pseudonym, two values never share one, and the order of the values is lost. A
    pseudonym is a pseudorandom function (ChaCha12) of a digest of the value, keyed with the seed and the step's name:
    without the seed nobody can work it out, not even by trying all values. With the same seed and step name, other files
    get the same pseudonyms. Missing values stay missing.
    """

    no_matrix: ClassVar[str] = "names are replaced by other names, and numbers that are names cannot be computed with"

    columns: tuple[str, ...] = param(doc="columns to replace", columns="many", holds="categories")
    form: Form = param(default="number", doc=FORM, choices=("number", "text"))
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
        """Replace the values; columns that follow a replaced one need no change, for who had one value still has one."""
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
        schema[name]  # an unknown name is refused with the nearest one

    def named(a: Attribute) -> Attribute:
        return a.with_(
            scale=Scale.UNORDERED, hierarchy=None, bounds=(None, None), integer=form == "number", missing=(), values={},
            labels={},
        )  # fmt: skip

    return Schema(tuple(named(a) if a.name in names else a for a in schema))


def check_one_to_one(
    before: Microdata, after: Microdata, columns: tuple[str, ...], domain: str | None, step: str
) -> Guarantee:
    """Verify that values and pseudonyms correspond one to one within each domain, and that the missing stayed missing."""
    for group in [columns] if domain else [(name,) for name in columns]:
        old, new = before.batch(group), after.batch(group)
        order = [np.argsort(b.ids, kind="stable") for b in (old, new)]
        pairs: list[list[NDArray[np.int64]]] = [[], []]
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
                f"two values of {listing(group)} got the same pseudonym, which happens by accident in very long files; "
                "nothing is released. Use form = 'text', or another seed."
            )
    says = f"{listing(columns)}: a keyed pseudonym in place of each value, one to one; the order of the values is lost"
    return Guarantee(step, says, "values and pseudonyms counted: as many of the one as of the other, in pairs")
