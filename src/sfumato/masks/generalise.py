"""Generalisation: keys go up their hierarchies."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.contract import param
from sfumato.errors import DataError
from sfumato.masks.recoded_schema import hierarchy_of
from sfumato.masks.recoding import Recoding, Rule
from sfumato.schema import Schema


class Generalise(Recoding):
    """Global recoding of keys to one level of their hierarchies (Samarati and Sweeney 1998). Level 0 changes nothing.

    A column whose hierarchy is lower than the level goes to its top, where all values are one.
    """

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to generalise; all keys with a hierarchy if none", columns="many", holds="categories"
    )
    level: int = param(default=1, doc="level of the hierarchy; 0 changes nothing", low=0, high=1000, integer=True)

    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the level for each column."""
        columns = self.columns
        if columns is None:
            columns = tuple(n for n in schema.names(role="key") if schema[n].hierarchy is not None)
            if not columns:
                raise DataError(
                    "no key has a hierarchy in the schema. Give one a hierarchy, or recode by rules (recode)."
                )
        levels = {name: min(self.level, hierarchy_of(schema[name]).height) for name in columns}
        return {name: level for name, level in levels.items() if level}
