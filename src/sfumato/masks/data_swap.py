"""Data swapping: records exchange values, and chosen tables stay exactly as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    NoiseModel,
    ReleaseModel,
    Scope,
    categorical_targets,
    learned,
    param,
)
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.classes import classes
from sfumato.masks.swap_model import SwapModel, random_pairs
from sfumato.microdata import Batch, Microdata, by_level
from sfumato.schema import Level, Schema

Rows = NDArray[np.integer[Any]]


class DataSwap(Mask):
    """Pairs of records that agree on some columns exchange their values in others (Dalenius and Reiss 1982; Reiss 1984).

    The swapped columns are exchanged together, between records whose values differ. The table of `keep` by the swapped
    columns stays exactly as it is. So does each table of `margins`: an exchange leaves one alone if the two records agree on
    the table's other columns (Fienberg and McIntyre 2005), so they must agree on these too. Columns that describe households
    are exchanged between households of the same size. Records with a missing value in a swapped column are left alone.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "records keep some of their fields and exchange others"

    columns: tuple[str, ...] | None = param(
        default=None,
        doc="columns whose values are exchanged, together; all keys of categories if none",
        columns="many",
        holds="categories",
    )
    rate: float = param(
        default=0.05,
        doc="share of the records whose values are exchanged",
        low=0,
        above=True,
        high=1,
        scale="log",
        usual=(0.01, 0.5),
    )
    keep: tuple[str, ...] | None = param(
        default=None, doc="columns on which the two records must agree", columns="many", holds="categories"
    )
    margins: tuple[tuple[str, ...], ...] | None = param(
        default=None, doc="tables to keep exactly, each a list of columns", of_data="nothing"
    )
    target: Literal["random", "rare"] = param(
        default="random",
        doc="which records are exchanged first: any, or those with the rarest combination of keys",
        choices=("random", "rare"),
    )
    names: Any = learned("columns", "keep", default=None)

    def validate(self) -> None:
        """Refuse columns that are to be swapped and to agree at once, and margins that are no lists of columns."""
        super().validate()
        if both := [c for c in self.columns or () if c in (self.keep or ())]:
            raise ParameterError(f"{listing(both)}: a column cannot be swapped and be kept at once.")
        if self.margins is None:
            return
        given: Any = self.margins
        if isinstance(given, str) or not isinstance(given, Iterable) or any(not _is_names(m) for m in given):
            raise ParameterError(
                f"margins of {self.name} must be a list of tables, each a list of column names: [['region', 'sex'], ['age']]."
            )
        object.__setattr__(self, "margins", tuple(tuple(m) for m in given))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns are swapped."""
        for name in self._asked:
            data.kind(name)
        names = categorical_targets(self.columns, data)
        if self.columns is None:
            names = tuple(n for n in names if n not in (self.keep or ()))
        if not names:
            raise DataError("every key of categories is in keep, so there is none left to swap. Name columns=.")
        if len(by_level(data.schema, names)) > 1:
            raise DataError(
                f"some of {listing(names)} describe households and some persons. Swap them in two steps, one for each."
            )
        return self.learn(names=names)

    @property
    def _asked(self) -> tuple[str, ...]:
        """The columns that are named anywhere."""
        tables = (self.columns, self.keep, *(self.margins or ()))
        return tuple(dict.fromkeys(n for table in tables for n in table or ()))

    def _agree(self) -> tuple[str, ...]:
        """The columns on which a pair agrees: `keep`, and the others of each table in which a swapped column stands."""
        others = (n for table in self.margins or () if set(table) & set(self.names) for n in table)
        return tuple(dict.fromkeys(n for n in (*(self.keep or ()), *others) if n not in self.names))

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the swapped columns, and those that say who may be swapped."""
        return tuple(dict.fromkeys([*(self.names or self.columns or schema.names(role="key")), *self._asked]))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the swapped columns."""
        return self.names or super().changes(schema)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Pair the records and exchange their values."""
        if not len(batch):
            return batch
        first, member = batch.members(self.names)
        partner = self._partners(batch, first, member, draws)
        stays = (partner == np.arange(len(partner)))[member]
        rows = np.where(stays, np.arange(len(batch)), first[partner[member]])
        return batch.with_columns({name: batch.column(name).take(rows) for name in self.names})

    def _partners(self, batch: Batch, first: Rows, member: Rows, draws: Draws) -> Rows:
        """Return for each unit the one it exchanges values with, shape (units,)."""
        from sfumato.kernels.data_swap import pairs_of_different

        ids = batch.units(self.names[0])[first]
        known = np.flatnonzero(~np.any([batch.missing(name)[first] for name in self.names], axis=0))
        agree: list[Rows] = [_per_unit(batch, name, first, member)[known] for name in self._agree()]
        if batch.schema[self.names[0]].level is Level.HOUSEHOLD:
            agree.append(np.bincount(member)[known])
        label, _ = classes(agree, len(known))
        cell, _ = classes([label, *(batch.column(name).codes[0][first][known] for name in self.names)], len(known))
        ids = ids[known]
        rarity = self._rarity(batch)[first][known] if self.target == "rare" else np.zeros(len(known))
        queue = np.lexsort([draws.uniforms(ids, "first"), rarity])
        pool = np.lexsort([draws.uniforms(ids, "pool"), label])
        uniforms = draws.uniforms(ids, "partner")
        found = pairs_of_different(queue, label, cell, pool, uniforms, self._pairs(len(known)))
        if (found == np.arange(len(found))).all():
            raise DataError(
                f"no two records could exchange {listing(self.names)}: none agree on {listing(self._agree())} and have "
                "different values. Ask for agreement on fewer columns, or recode these first."
                if agree
                else f"no two records have different values in {listing(self.names)}, so there is nothing to exchange."
            )
        partner = np.arange(len(first))
        partner[known] = known[found]
        return partner

    def _pairs(self, units: int) -> int:
        """Return how many pairs are wanted: half the share of the units, at least one."""
        return max(min(int(self.rate * units / 2 + 0.5), units // 2), 1)

    def _rarity(self, batch: Batch) -> Rows:
        """Return how many records share each record's combination of keys."""
        keys = batch.schema.names(role="key") or (*self.names, *self._agree())
        label, sizes = classes([batch.column(name).codes[0] for name in keys], len(batch))
        return sizes[label]

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what random pairs of all records do to normal data; None if the pairs are not random."""
        chosen = self.keep or self.margins or self.target != "random" or self.columns is None
        if chosen or any(schema[n].level is Level.HOUSEHOLD for n in self.columns or ()):
            return None
        return SwapModel.of(before, {self.columns or (): random_pairs(before.n, self._pairs(before.n))}, extremes=True)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that every table is the one it was, and count the records whose values changed."""
        tables = [tuple(dict.fromkeys((*(self.keep or ()), *self.names))), *(self.margins or ())]
        needed = list(
            dict.fromkeys([n for table in tables for n in table] + [*filter(None, [before.schema.one("household")])])
        )
        old, new = (_by_id(data.batch(needed)) for data in (before, after))
        both = {name: _common_codes(name, old, new) for name in needed}
        if not all(both.values()) or not all(_same_table([both[n] for n in table]) for table in tables):
            raise DataError("a table that was to be kept is not the one it was; nothing is released.")
        first, _ = old.members(self.names)
        known = ~np.any([old.missing(name) for name in self.names], axis=0)[first]
        changed = int(np.any([both[n][0] != both[n][1] for n in self.names], axis=0)[first].sum())
        units = "households" if before.schema[self.names[0]].level is Level.HOUSEHOLD else "records"
        total = int(known.sum())
        short = "" if changed >= 2 * self._pairs(total) else "; no further pair was left"
        kept = "; ".join(" by ".join(table) for table in dict.fromkeys(tables))
        return (
            Guarantee(step, f"these tables are kept exactly: {kept}", "cells of both files counted and compared"),
            Guarantee(
                step,
                f"{listing(self.names)}: {changed:,} of {total:,} {units} have another's values "
                f"({changed / max(total, 1):.2%}; rate = {self.rate:.4g}){short}",
                "records of both files compared",
            ),
        )


def _per_unit(batch: Batch, name: str, first: Rows, member: Rows) -> Rows:
    """Return a column's codes, one per unit; refused where the members of a household differ: their tables would change."""
    codes = batch.column(name).codes[0]
    one: Rows = codes[first]
    if (codes != one[member]).any():
        raise DataError(
            f"households are exchanged, but members of one household differ in '{name}', so a table of it would change. Take it "
            "out of keep and margins, or put a column there that describes households."
        )
    return one


def _is_names(table: Any) -> bool:
    listed = isinstance(table, Iterable) and not isinstance(table, str)
    return listed and len(list(table)) > 0 and all(isinstance(n, str) and n for n in table)


def _by_id(batch: Batch) -> Batch:
    return batch.keep(np.argsort(batch.ids, kind="stable")) if (np.diff(batch.ids) < 0).any() else batch


def _common_codes(name: str, old: Batch, new: Batch) -> tuple[Rows, ...]:
    """Return a column's codes in both files, or nothing if they do not have the same values."""
    (a, a_values), (b, b_values) = old.column(name).codes, new.column(name).codes
    return (a, b) if a_values == b_values and len(a) == len(b) else ()


def _same_table(codes: list[Any]) -> bool:
    """Whether a table has the same count in every cell; codes of each column before and after."""
    n = len(codes[0][0])
    label, sizes = classes([np.concatenate(pair) for pair in codes], 2 * n)
    return bool((2 * np.bincount(label[:n], minlength=len(sizes)) == sizes).all())
