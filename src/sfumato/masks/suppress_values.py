"""Suppression of single values by a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.condition import Condition
from sfumato.contract import Draws, Guarantee, Mask, learned, param
from sfumato.contract.linked import run_linked
from sfumato.engines import Kind
from sfumato.errors import DataError
from sfumato.households import unit_ids
from sfumato.masks.records import Rule
from sfumato.microdata import Batch, Microdata, by_level
from sfumato.schema import Level, Role, Schema

Flags = NDArray[np.bool_]


class SuppressValues(Mask):
    """Values of some columns are released as missing where a rule holds, such as ``age > 90 and region == 'north'``.

    Where a value in the rule is missing, the rule does not hold. A column that describes the household is suppressed for all
    members as soon as the rule holds for one. To suppress values beyond quantiles see Truncate, whole records see
    SuppressRecords, whole columns SuppressColumns.
    """

    preserves_order: ClassVar[bool] = True
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "values are removed one by one, not whole records or whole attributes"

    columns: tuple[str, ...] = param(doc="columns whose values are suppressed", columns="many", holds="anything")
    where: str = param(
        doc="rule that says for which records, such as \"age > 90 and region == 'north'\"", of_data="rule"
    )
    homes: Any = learned("columns", "where", default=None)

    def validate(self) -> None:
        """Read the rule."""
        super().validate()
        Condition.parse(self.where)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the suppressed columns and those that the rule looks at."""
        return tuple(dict.fromkeys((*self.columns, *Condition.parse(self.where).columns)))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn for which households the rule holds, if a column describes households; sorted ids."""
        rule, household = Condition.parse(self.where), data.schema.one("household")
        rule.check(data.schema)
        for name in self.columns:
            if data.kind(name) is Kind.OTHER:
                raise DataError(f"column '{name}' holds {data.kind(name)}, which cannot be suppressed one by one.")
            if data.schema[name].role is Role.WEIGHT:
                raise DataError(
                    f"'{name}' is the survey weight, and a record without one counts nowhere. To leave records out, use "
                    "suppress_records: it adjusts the weights of the others."
                )
        found = [np.zeros(0, np.int64)]
        if household is not None and any(data.schema[n].level is Level.HOUSEHOLD for n in self.columns):
            for rows in data.engine.batches([*rule.columns, household]):
                batch = Batch(rows, data.schema)
                found.append(np.unique(unit_ids(batch, "household")[rule.holds(batch)]))
        return self.learn(homes=Rule(np.unique(np.concatenate(found)), data, None))

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Suppress the values; households of other data than it was fitted on are looked at anew."""
        if not self.homes.is_for(data, None):
            return run_linked(self.fit(data, draws), data, draws)
        return super().run(data, draws, function)

    def _hit(self, batch: Batch, name: str, homes: NDArray[np.int64]) -> Flags:
        """Return where the rule holds, for the record or for its household."""
        hit = Condition.parse(self.where).holds(batch)
        if batch.schema[name].level is not Level.HOUSEHOLD:
            return hit
        return hit | np.isin(unit_ids(batch, "household"), homes)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Suppress the values."""
        out = batch
        for name in self.columns:
            hit = self._hit(batch, name, self.homes.facts)
            if batch.column(name).kind is Kind.NUMBER:
                values = np.where(hit, np.nan, batch.numbers(name))
                out = out.replace(name, lambda values=values: values)  # type: ignore[misc]
            else:
                codes = batch.column(name).codes[0]
                out = out.with_codes(name, np.where(hit & ~batch.missing(name), -1, codes))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no value is left where the rule holds, that households are of one mind, and count."""
        said, schema = [], before.schema
        household = [n for n in (schema.one("household"),) if n is not None]
        batch = before.batch([*dict.fromkeys([*self.touches(schema), *household])])
        released = after.batch([*dict.fromkeys([*self.columns, *household])])
        for names in by_level(after.schema, self.columns):
            released.members(names)
        homes = unit_ids(batch, "household")[Condition.parse(self.where).holds(batch)]
        for name in self.columns:
            hit, gone = self._hit(batch, name, homes), released.missing(name)
            if (hit & ~gone).any():
                raise DataError(f"some values of '{name}' are still there where the rule holds; nothing is released.")
            count = int((gone & ~batch.missing(name)).sum())
            says = f"{name}: no value is released where {self.where}; {count:,} of {len(hit):,} are suppressed"
            said.append(Guarantee(step, says, "all released values checked"))
        return tuple(said)
