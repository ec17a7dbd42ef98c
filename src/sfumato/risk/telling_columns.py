"""What the other released columns tell of a number: columns that determine it by a formula, a sum, or in the same order.

A snooper who knows what the columns mean turns the logarithm of an income back, and takes the parts from a total. He does not
know look-up tables, such as which income belongs to which household number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from sfumato.contract import Release
from sfumato.data import Kind
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import NotApplicable
from sfumato.schema.dependence import ColumnValues, FunctionalDependence, dependences
from sfumato.schema.formula import ColumnFormula
from sfumato.typing import Numbers

_NO_NUMBERS = ("identifier", "household", "contributor", "weight")
_RECORDS = 5_000
"""Records in which such columns are looked for."""


@dataclass(frozen=True, eq=False)
class TellingColumns:
    """Other columns from which a number can be worked out.

    Parameters
    ----------
    column
        The number.
    sources
        The columns that tell it.
    formula
        The formula that the number, or the last of the sources, is equal to; None where only the order is the same.
    curve
        Values of the only source, shape (d,), in rising order, and what the number is on average where the source has them.
    linked
        Whether the schema says that one follows the other, so that masks keep them consistent.
    """

    column: str
    sources: tuple[str, ...]
    formula: ColumnFormula | None
    curve: tuple[Numbers, Numbers] | None
    linked: bool

    def predict(self, outcome: Release) -> Numbers | None:
        """Return the number worked out from the released columns, for each matched record, shape (r,)."""
        if any(name not in outcome.masked.engine.kinds for name in self.sources):
            return None
        try:
            released = {name: outcome.pair(name)[1] for name in self.sources}
        except NotApplicable:
            return None
        if self.curve is not None:
            return np.asarray(np.interp(released[self.sources[0]], *self.curve))
        if self.formula is None:
            return None
        if self.column not in self.formula.columns:
            return np.asarray(self.formula(released), np.float64)
        zero, one = (
            self.formula({**released, self.column: np.full(len(released[self.sources[0]]), v)}) for v in (0.0, 1.0)
        )
        return np.asarray((released[self.sources[-1]] - zero) / (one - zero))


def determined_columns(data: Microdata) -> list[FunctionalDependence]:
    """Return which columns others determine, among those that are neither identifiers nor of the survey's design."""
    plain = (Kind.NUMBER, Kind.CATEGORY, Kind.BOOLEAN)
    names = [a.name for a in data.schema if a.role in ("key", "confidential") and data.kind(a.name) in plain]
    batch = _first(data, names)
    if batch is None:
        return []
    return dependences(
        [
            ColumnValues.of_numbers(n, batch.numbers(n))
            if data.kind(n) is Kind.NUMBER
            else ColumnValues(n, batch.codes(n)[0].astype(np.int64))
            for n in names
        ]
    )


def _first(data: Microdata, names: list[str]) -> Batch | None:
    rows = next(islice(data.engine.batches(names), 1), None) if names else None
    return None if rows is None else Batch(rows.take(np.arange(min(len(rows), _RECORDS))), data.schema)


def telling_columns(data: Microdata, column: str) -> tuple[TellingColumns, ...]:
    """Return the columns, alone or added up, from which a column of numbers can be worked out."""
    kinds, schema = data.engine.kinds, data.schema
    names = [n for n, kind in kinds.items() if kind is Kind.NUMBER and schema[n].role not in _NO_NUMBERS]
    if column not in names or len(names) < 2:
        return ()
    batch = _first(data, names)
    if batch is None:
        return ()
    values = {n: ColumnValues.of_numbers(n, batch.numbers(n)) for n in names}
    found = [_alone(data, column, n) for n in names if n != column and dependences([values[n], values[column]])]
    sums = [one for one in dependences(list(values.values())) if len(one.sources) > 1]
    return (*(one for one in found if one is not None), *(s for one in sums for s in _of_sum(data, column, one)))


def _alone(data: Microdata, column: str, other: str) -> TellingColumns | None:
    """Return a column that has the same order, or the opposite one, as a curve."""
    batch, linked = (
        data.batch([other, column]),
        other in data.schema.sources(column) or column in data.schema.sources(other),
    )
    x, y = batch.numbers(other), batch.numbers(column)
    known = ~(np.isnan(x) | np.isnan(y))
    at, place = np.unique(x[known], return_inverse=True)
    low, high = np.full(len(at), np.inf), np.full(len(at), -np.inf)
    np.minimum.at(low, place, y[known])
    np.maximum.at(high, place, y[known])
    if not ((low[1:] >= high[:-1]).all() or (high[1:] <= low[:-1]).all()):
        return None
    means = np.bincount(place, y[known]) / np.bincount(place)
    return TellingColumns(column, (other,), None, (at, means), linked)


def _of_sum(data: Microdata, column: str, one: FunctionalDependence) -> list[TellingColumns]:
    """Return the other columns of a sum, if the column is in it; the last of them is the sum, if the column is a part."""
    if column not in (one.name, *one.sources):
        return []
    linked = data.schema[one.name].follows is not None
    others = one.sources if column == one.name else (*(n for n in one.sources if n != column), one.name)
    return [TellingColumns(column, others, ColumnFormula(one.follows), None, linked)]
