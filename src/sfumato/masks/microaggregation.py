"""Microaggregation: records are put into groups of at least k, and each group is released as one value."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, Scope, check_numbers, learned, numeric_targets, param
from sfumato.errors import DataError, listing
from sfumato.kernels.classes import classes, number_codes
from sfumato.microdata import Batch, Microdata, by_level
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


class Microaggregation(Mask, abstract=True):
    """Groups of at least k similar records, each released with the group's mean, median or mode.

    Columns that describe households are grouped among households, the others among records. Groups never cross strata
    (`within`), and never cross missing values: records are grouped with records that have answers to the same columns.
    """

    scope: ClassVar[Scope] = Scope.BLOCK

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to aggregate; all confidential numbers if none", columns="many"
    )
    k: int = param(default=3, doc="smallest number of records in a group", low=2, high=1e6, integer=True, scale="log")
    aggregate: Literal["mean", "median", "mode"] = param(
        default="mean", doc="what a group is released as", choices=("mean", "median", "mode")
    )
    within: tuple[str, ...] | None = param(
        default=None, doc="columns of strata that groups do not cross", columns="many", holds="anything"
    )
    rare: Literal["refuse", "suppress"] = param(
        default="refuse",
        doc="what to do with fewer than k records that have the same stratum and the same columns answered",
        choices=("refuse", "suppress"),
    )
    names: Any = learned("columns", default=None)
    spread: Any = learned("columns", default=None)

    @abstractmethod
    def groups(self, x: Numbers, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the group of each record, numbered from 0, each of at least k; x is standardised, shape (n, p), n >= k."""

    def together(self, names: tuple[str, ...], schema: Schema) -> list[tuple[str, ...]]:
        """Return the sets of columns that are grouped together."""
        return by_level(schema, names)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the mean and the standard deviation of each column, so that distances count columns alike."""
        names = numeric_targets(self.columns, data)
        for name in self.within or ():
            data.kind(name)
        spread = {}
        for name in names:
            moments = data.moments((name,))
            if not moments.count:
                raise DataError(f"column '{name}' has no values at all, so there is nothing to aggregate.")
            if moments.count < self.k:
                raise DataError(f"k = {self.k} is more than the number of records with a value in '{name}'. Lower k.")
            variance = float(moments.covariance[0, 0])
            if not np.isfinite(variance):
                raise DataError(
                    f"column '{name}' holds infinite values, or values too large to square. Set them to missing."
                )
            spread[name] = (float(moments.mean[0]), float(np.sqrt(variance)) or 1.0)
        return self.learn(names=names, spread=spread)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the aggregated columns and the strata."""
        return (*super().touches(schema), *(self.within or ()))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Group the records, and give each group its common values."""
        check_numbers(batch, self.names)
        out = batch
        for names in self.together(self.names, batch.schema):
            first, member = batch.members(names)
            x = np.column_stack([batch.numbers(name)[first] for name in names])
            new = self._aggregated(x, names, self._blocks(batch, x, first), batch.ids[first], draws)
            for j, name in enumerate(names):
                out = out.replace(name, lambda values=new[:, j][member]: values)  # type: ignore[misc]
        return out

    def _blocks(self, batch: Batch, x: Numbers, first: Labels) -> list[Labels]:
        """Return the rows of x by stratum and by which columns have answers."""
        codes = [batch.column(name).codes[0][first] for name in self.within or ()]
        codes += [np.isnan(column).astype(np.int64) for column in x.T]
        block, sizes = classes(codes, len(first))
        return np.split(np.argsort(block, kind="stable"), np.cumsum(sizes)[:-1]) if len(sizes) else []

    def _aggregated(
        self, x: Numbers, names: tuple[str, ...], blocks: list[Labels], ids: NDArray[np.int64], draws: Draws
    ) -> Numbers:
        new = np.full_like(x, np.nan)
        centre, scale = np.array([self.spread[n] for n in names]).T
        for rows in blocks:
            known = ~np.isnan(x[rows[0]])
            if not known.any():
                continue
            if len(rows) < self.k:
                if self.rare == "suppress":
                    continue
                raise DataError(
                    f"{len(rows):,} records share a stratum and the same answered columns among {listing(names)}: fewer than "
                    f"k = {self.k}. Lower k, use coarser strata, or set rare = 'suppress' to release them as missing."
                )
            part = x[np.ix_(rows, known)]
            labels = self.groups((part - centre[known]) / scale[known], ids[rows], draws)
            new[np.ix_(rows, known)] = _centres(part, labels, self.aggregate)[labels]
        return new

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify on the released values that each combination is shared by at least k records or households."""
        smallest, suppressed = [], 0
        for names in self.together(self.names, after.schema):
            batch = after.batch(list(dict.fromkeys([*names, *filter(None, [after.schema.one("household")])])))
            first, _ = batch.members(names)
            x = np.column_stack([batch.numbers(name)[first] for name in names])
            known = ~np.isnan(x).all(axis=1)
            label, sizes = classes([number_codes(column) for column in x.T], len(x))
            smallest += [int(sizes[label[known]].min())] if known.any() else []
            suppressed += sum(int(np.isnan(after.numbers(n)).sum() - np.isnan(before.numbers(n)).sum()) for n in names)
        if min(smallest, default=self.k) < self.k:
            raise DataError(f"some released values are shared by fewer than {self.k} records; nothing is released.")
        says = f"{listing(self.names)}: every released value is shared by at least {self.k} records"
        how = f"released values counted; the smallest group has {min(smallest, default=0):,}"
        said = [Guarantee(step, says, how)]
        if suppressed:
            said.append(
                Guarantee(step, f"{suppressed:,} values are suppressed (rare = 'suppress')", "missing values counted")
            )
        return tuple(said)


def _centres(x: Numbers, labels: Labels, how: str) -> Numbers:
    """Return the mean, median or mode of each group, shape (g, p); of several modes the smallest."""
    count = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(labels, minlength=count)
    if how == "mean":
        return np.column_stack([np.bincount(labels, column, count) for column in x.T]) / sizes[:, None]
    out = np.empty((count, x.shape[1]))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for j, column in enumerate(x.T):
        order = np.lexsort([column, labels])
        if how == "median":
            low, high = starts + (sizes - 1) // 2, starts + sizes // 2
            out[:, j] = (column[order][low] + column[order][high]) / 2
            continue
        values, group = column[order], labels[order]
        begins = np.flatnonzero(np.r_[True, (values[1:] != values[:-1]) | (group[1:] != group[:-1])][: len(values)])
        runs = np.diff(np.r_[begins, len(values)])
        best = np.lexsort([begins, -runs, group[begins]])
        _, at = np.unique(group[begins][best], return_index=True)
        out[:, j] = values[begins[best[at]]]
    return out
