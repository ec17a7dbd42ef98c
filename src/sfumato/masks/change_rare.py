"""Changing a category where the keys are rarest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, Scope, param
from sfumato.engines import Kind
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.classes import classes
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema
from sfumato.schema.hierarchy.base import label_of

Counts = NDArray[np.int64]


class ChangeRare(Mask):
    """The p % of the records whose keys occur least get another category (global-risk paper, section 4: sex is reversed).

    With two categories it is the other one; with more, one that is drawn, or what `to` says. Which records are changed is a
    hard count, the whole part of p times their number; a larger p changes the same records and more. A column that describes
    households is changed for the households of the rarest records.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "categories are exchanged for some records only"

    column: str = param(doc="column whose category is changed", columns="one", holds="categories")
    share: float = param(default=0.05, doc="p: share of the records that are changed, from 0 to 1", low=0, high=1)
    keys: tuple[str, ...] | None = param(
        default=None, doc="columns whose combinations are counted; all keys if none", columns="many", holds="categories"
    )
    to: Mapping[str, str] | None = param(
        default=None, doc="new category for each category, instead of a draw", of_data="categories"
    )

    def validate(self) -> None:
        """Check what the categories are changed to."""
        super().validate()
        if self.keys == ():
            raise ParameterError("keys of change_rare is an empty list. Name at least one column, or leave keys out.")
        if self.to is None:
            return
        if not isinstance(self.to, Mapping) or not self.to:
            raise ParameterError(
                "to of change_rare must give a new category for each category, such as { f = 'm', m = 'f' }."
            )
        object.__setattr__(self, "to", {label_of(a): label_of(b) for a, b in self.to.items()})
        if same := [a for a, b in self.to.items() if a == b]:
            raise ParameterError(
                f"to of change_rare leaves {len(same):,} categories as they are. Give each another one."
            )

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        keys = self.keys or schema.names(role="key")
        if not keys:
            raise DataError("there is no key to count. Name the columns (keys=...), or give some the role 'key'.")
        return keys

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the changed column and the keys."""
        return tuple(dict.fromkeys((self.column, *(self.keys or schema.names(role="key")))))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the changed column: the keys are only counted."""
        return (self.column,)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Change the category of the records whose keys occur least; ties are broken by lot."""
        for name in (self.column, *self._keys(batch.schema)):
            if batch.column(name).kind is Kind.OTHER:
                raise DataError(f"column '{name}' holds {batch.column(name).kind}, where categories are needed.")
        codes, values = batch.column(self.column).codes
        first, member = batch.members([self.column])
        old = codes[first].astype(np.int64)
        chosen = self._chosen(batch, first, member, draws)
        if not len(chosen):
            return batch
        new = old.copy()
        new[chosen] = self._others(batch, values, old[chosen], batch.units(self.column)[first][chosen], draws)
        return batch.with_codes(self.column, new[member])

    def _chosen(self, batch: Batch, first: Counts, member: Counts, draws: Draws) -> Counts:
        """Return which units are changed, rarest first."""
        known = np.flatnonzero(~batch.missing(self.column)[first])
        many = math.floor(self.share * len(known) + 1e-9)  # 0.29 of 100 is 29, though the product is a hair less
        if self.share > 0 and not many:
            raise DataError(
                f"a share of {self.share:g} of {len(known):,} records with a value in '{self.column}' is less than one record. "
                "Raise share; 0 changes nothing."
            )
        occurs = self._occurrences(batch, first, member)[known]
        lot = draws.uniforms(batch.units(self.column)[first][known], "lot")
        return known[np.lexsort([lot, occurs])[:many]]

    def _occurrences(self, batch: Batch, first: Counts, member: Counts) -> Counts:
        """Return how often the key combination of each unit occurs: of the rarest member, for households."""
        label, sizes = classes([batch.column(name).codes[0] for name in self._keys(batch.schema)], len(batch))
        least = np.full(len(first), len(batch) + 1, np.int64)
        np.minimum.at(least, member, sizes[label])
        return least

    def _others(self, batch: Batch, values: list[object], old: Counts, ids: Counts, draws: Draws) -> Counts:
        """Return another category for each, as a code."""
        gap = batch.schema[self.column].missing
        real = np.array([i for i, v in enumerate(values) if v not in gap], np.int64)
        if self.to is not None:
            place = {label_of(v): i for i, v in enumerate(values)}
            if lost := [i for i in np.unique(old) if self.to.get(label_of(values[i])) not in place]:
                raise DataError(
                    f"{len(lost):,} categories of '{self.column}' have no new one in to, or one that no record has."
                )
            table = np.array([place.get(self.to.get(label_of(v), ""), -1) for v in values], np.int64)
            return table[old]
        if len(real) < 2:
            raise DataError(
                f"column '{self.column}' has a single category, so there is no other one to change it to. Choose "
                "another column."
            )
        at = np.searchsorted(real, old)
        step = np.minimum((draws.uniforms(ids, "category") * (len(real) - 1)).astype(np.int64), len(real) - 2)
        return real[(at + 1 + step) % len(real)]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify how many were changed, and that none that was left has rarer keys than one that was changed."""
        names = [*self._keys(before.schema), self.column, *before.schema.names(role="household")]
        batch = before.batch([*dict.fromkeys(names)])
        first, member = batch.members([self.column])
        moved = (batch.column(self.column).hashes != after.batch([self.column]).column(self.column).hashes)[first]
        known = ~batch.missing(self.column)[first]
        occurs = self._occurrences(batch, first, member)
        many = math.floor(self.share * int(known.sum()) + 1e-9)
        rarest_left, last = occurs[known & ~moved].min(initial=len(batch) + 1), occurs[moved].max(initial=0)
        if int(moved.sum()) != many or rarest_left < last:
            raise DataError(
                f"the category of '{self.column}' was not changed for the rarest keys; nothing is released."
            )
        what = "records" if len(first) == len(batch) else "households"
        says = f"{self.column}: changed for {many:,} of {int(known.sum()):,} {what}, those whose keys occur least"
        return (Guarantee(step, says, "released categories compared with the originals"),)
