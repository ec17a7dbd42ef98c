"""The shape of every masking method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.contract.matrix import MatrixForm
from sfumato.contract.model import NoiseModel, ReleaseModel
from sfumato.contract.parameters import Parametric
from sfumato.contract.release import Guarantee, Release
from sfumato.engines import Kind, Rows
from sfumato.errors import DataError, NotApplicable, ParameterError, listing
from sfumato.microdata import Batch, Microdata, check_numeric, numbers_of
from sfumato.schema import Attribute, Scale, Schema

if TYPE_CHECKING:
    from sfumato.contract.recipe import Recipe

In = TypeVar("In")
Out = TypeVar("Out")


class Scope(StrEnum):
    """How much of the data a method has to see at once, once it is fitted."""

    ROW = "row"
    """One record: runs anywhere, in any pieces, with the same result."""
    BLOCK = "block"
    """A group of records: pieces may change the result, and the method says how."""
    GLOBAL = "global"
    """All records."""


class Method(Parametric, Generic[In, Out], abstract=True):
    """A frozen set of parameters that turns one thing into another, with given randomness."""

    @abstractmethod
    def apply(self, x: In, draws: Draws) -> Out:
        """Return the outcome."""


class Mask(Method[Microdata, Release], family="mask", abstract=True):
    """A masking method: microdata in, a release out.

    To add one, subclass it in a file of its own and write `transform`: a batch of records in, a batch out. Declare
    `scope` and `preserves_order`; write `fit` if something has to be learned from the whole file first.
    """

    scope: ClassVar[Scope] = Scope.ROW
    preserves_order: ClassVar[bool] = False
    """Whether x < y before never becomes x > y after (inversions stay zero)."""
    keeps_records: ClassVar[bool] = True
    """Whether every record is released, once, and no other."""
    keeps_missing: ClassVar[bool] = True
    """Whether the values that are missing after are those that were missing before."""
    no_matrix: ClassVar[str] = "it is not linear in the data"
    """Why the method is not a matrix mask, if it is not."""

    def validate(self) -> None:
        """Refuse an empty list of columns."""
        if getattr(self, "columns", None) == ():
            raise ParameterError(
                f"columns of {self.name} is an empty list. Name at least one column, or leave columns out."
            )

    @abstractmethod
    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Mask some records. Called with zero records too; must not change its input."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Return the mask with what it learned from the data; confidential."""
        return self

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Mask all records, once fitted: where the data live if the scope is a row, else in memory.

        `function` is what is done to each batch; `transform`, if it is not given.
        """
        function = function or partial(self.transform, draws=draws)
        source = data if self.scope is Scope.ROW else data.local()
        return source.transform(function, self.schema_after(data.schema))

    @property
    def versions(self) -> int:
        """How many masked versions (implicates) a release has."""
        return 1

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the mask as M = AXB + C on the numbers of these data, with these draws; refused if it is no matrix mask."""
        raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C: {self.no_matrix}.")

    def apply(self, x: Microdata, draws: Draws) -> Release:
        """Mask the data: identifiers are removed first, then this method runs."""
        return self.as_recipe().apply(x, draws)

    def as_recipe(self) -> Recipe:
        """Return the recipe whose only step, after the removal of identifiers, is this mask."""
        from sfumato.contract.recipe import Recipe

        return Recipe.of(self)

    def __rshift__(self, other: Mask | Recipe) -> Recipe:
        return self.as_recipe() >> other

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of what comes out."""
        return schema

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify and state what the method promises; refuse with an error if a promise does not hold."""
        return ()

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns that the method changes or needs."""
        return tuple(getattr(self, "columns", None) or schema.names(role="confidential"))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns that the method changes: of those it touches, the ones in `columns`, if it has any."""
        named = getattr(self, "columns", None)
        return tuple(n for n in self.touches(schema) if named is None or n in named)

    def noise(self, names: tuple[str, ...], covariance: NDArray[np.float64], schema: Schema) -> Any:
        """Return the covariance (k, k) of the noise added to these columns, or None if the method is not additive noise."""
        return None

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what the method makes of normal records, for formulas; None if that is not known.

        Additive noise need only say its `noise`.
        """
        added = self.noise(before.names, before.released, schema)
        return None if added is None else replace(before, noise=before.noise + added)


def categorical_targets(columns: tuple[str, ...] | None, data: Microdata) -> tuple[str, ...]:
    """Return the columns to mask: those named, or every key that is not ordered or holds text.

    A key that follows another of these is not among them: it follows the masked one.
    """
    if columns is None:
        schema = data.schema
        keys = [
            n
            for n in schema.names(role="key")
            if data.kind(n) in (Kind.CATEGORY, Kind.BOOLEAN) or schema[n].scale is not Scale.ORDERED
        ]
        columns = tuple(n for n in keys if schema[n].follows not in keys)
        if not columns:
            raise DataError(
                "there is no key of categories to mask. Name the columns (columns=...), or give one the role 'key' and the "
                "scale 'unordered' in the schema."
            )
    for name in columns:
        if data.kind(name) is Kind.OTHER:
            raise DataError(f"column '{name}' holds {data.kind(name)}, where categories are needed.")
    return columns


def check_numbers(batch: Batch, names: Iterable[str]) -> None:
    """Refuse records whose columns hold no numbers, before any is looked at: a fitted mask may meet other data."""
    for name in names:
        if batch.column(name).kind is not Kind.NUMBER:
            raise DataError(f"column '{name}' holds {batch.column(name).kind}, where numbers are needed.")


def check_values(data: Microdata, names: Iterable[str]) -> None:
    """Refuse columns in which no record has a value, so that nothing would be masked, and infinite values."""
    for name in names:
        records, known, wild = data.engine.reduce(partial(_counted, data.schema[name], name), [name])
        if records and not known:
            raise DataError(
                f"column '{name}' has no values at all, so there is nothing to mask. Leave it out of columns."
            )
        if wild:
            raise DataError(f"column '{name}' holds {int(wild):,} infinite values. Set them to missing.")


def _counted(attribute: Attribute, name: str, rows: Rows) -> NDArray[np.float64]:
    x = numbers_of(rows.columns[name], attribute)
    return np.array([len(x), (~np.isnan(x)).sum(), np.isinf(x).sum()], np.float64)


def numeric_targets(columns: tuple[str, ...] | None, data: Microdata) -> tuple[str, ...]:
    """Return the columns to mask: those named, or every confidential column of numbers."""
    if columns is None:
        schema = data.schema
        columns = tuple(n for n in schema.names(role="confidential") if data.kind(n) is Kind.NUMBER)
        if not columns:
            raise DataError(
                "there is no confidential column of numbers to mask. Name the columns (columns=...), or give one the "
                "role 'confidential' in the schema."
            )
    for name in columns:
        check_numeric(data, name)
        if data.kind(name) is not Kind.NUMBER:  # what comes out would be no category and no yes or no
            others = [n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER]
            raise DataError(
                f"column '{name}' holds {data.kind(name)}, where numbers are needed. Columns of numbers: {listing(others)}."
            )
    return columns
