"""Aggregation across attributes: M = XB, a total instead of its parts (matrix-masking paper, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, check_numbers, param
from sfumato.engines import Column, Rows
from sfumato.errors import DataError, ParameterError, SchemaError, listing
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Attribute, Level, Role, Schema


class AggregateColumns(Mask):
    """Release a total of several columns in place of them: total income instead of salary, business and interest income.

    The total is missing where one of its parts is. Columns that follow a part go with it.
    """

    keeps_missing: ClassVar[bool] = False

    columns: tuple[str, ...] = param(doc="the parts: columns of numbers that are added up", columns="many")
    total: str = param(default="total", doc="name of the released total", of_data="nothing")
    weights: Mapping[str, float] | None = param(
        default=None, doc="factor of each part; 1 for all if none are given", columns="weights", of_data="nothing"
    )
    parts: Literal["drop", "keep"] = param(
        default="drop", doc="whether the parts themselves are released too", choices=("drop", "keep")
    )

    def validate(self) -> None:
        """Check the total's name, and that weights are given for all parts or for none."""
        super().validate()
        if len(self.columns) < 2:
            raise ParameterError("a total needs at least two columns to add up.")
        if not isinstance(self.total, str) or not self.total:
            raise ParameterError("total must be the name of the released column.")
        if self.parts == "keep" and self.total in self.columns:
            raise ParameterError(f"'{self.total}' is one of the parts, which are kept: give the total another name.")
        if self.weights is not None and set(self.weights) != set(self.columns):
            wrong = sorted({*self.weights} ^ {*self.columns})
            raise ParameterError(f"weights must name the same columns as columns; look at {listing(wrong)}.")
        if self.weights is not None and not all(self.weights.values()):
            raise ParameterError("a part with weight 0 does not enter the total. Leave it out of columns.")

    @property
    def form(self) -> MatrixForm:
        """The mask as XB: one column of weights, after those of the identity if the parts are kept."""
        factor = np.array([[1.0 if self.weights is None else self.weights[name]] for name in self.columns])
        if self.parts == "drop":
            return MatrixForm(self.columns, (self.total,), B=factor)
        return MatrixForm(self.columns, (*self.columns, self.total), B=np.hstack([np.eye(len(self.columns)), factor]))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B."""
        check_numbers(data.batch(self.columns), self.columns)
        return self.form

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with the total, and without the parts unless they are kept."""
        parts = [schema[name] for name in self.columns]
        gone = with_followers(schema, self.columns) if self.parts == "drop" else ()
        kept = schema.keep(lambda a: a.name not in gone)
        if self.total in kept:
            raise SchemaError(f"the data have a column '{self.total}' already. Choose another name for the total.")
        units = {a.unit for a in parts}
        level = Level.HOUSEHOLD if all(a.level is Level.HOUSEHOLD for a in parts) else Level.PERSON
        unit = units.pop() if len(units) == 1 else ""
        return Schema((*kept, Attribute(self.total, Role.CONFIDENTIAL, unit=unit, level=level)))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add up the parts."""
        check_numbers(batch, self.columns)
        total = self.form.apply(np.column_stack([batch.numbers(name) for name in self.columns]))[:, -1]
        after = self.schema_after(batch.schema)
        columns = {**batch.rows.columns, self.total: Column.from_numbers(total, np.isnan(total))}
        return Batch(Rows(batch.ids, {name: columns[name] for name in after.names()}), after)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify the total, and that the parts are gone."""
        total = after.numbers(self.total)
        if not _adds_up(self.form, before, total):
            raise DataError(f"'{self.total}' is not the total of its parts; nothing is released.")
        if len(total) and np.isnan(total).all():
            raise DataError(
                f"no record has a value in all of {listing(self.columns)}, so no total; nothing is released."
            )
        if np.isinf(total).any():
            raise DataError(f"some parts of '{self.total}' are infinite or too large to add up; nothing is released.")
        left = [n for n in self.columns if n in after.schema and n != self.total]
        if self.parts == "drop" and left:
            raise DataError(f"parts of the total are still there: {listing(left)}; nothing is released.")
        said = f"{self.total} is released in place of {listing(self.columns)}"
        if self.parts == "keep":
            said = f"{self.total} is released beside its parts {listing(self.columns)}: this hides nothing"
        return (Guarantee(step, said, "the total of every record compared with its parts; columns looked up"),)


def with_followers(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return columns that go, and those that follow them: a function of a column would give it away in part."""
    gone = list(names)
    while new := [a.name for a in schema if a.follows in gone and a.name not in gone]:
        gone += new
    return tuple(gone)


def _adds_up(form: MatrixForm, before: Microdata, total: NDArray[np.float64]) -> bool:
    wanted = form.apply(np.column_stack([before.numbers(name) for name in form.names]))[:, -1]
    return bool(np.allclose(wanted, total, rtol=1e-9, atol=0, equal_nan=True))
