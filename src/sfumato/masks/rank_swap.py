"""Rank swapping: values change places with values of near rank, and the limit on the rank is a hard one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, NoiseModel, ReleaseModel, Scope, learned, numeric_targets, param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.classes import classes
from sfumato.masks.swap_model import Kept, SwapModel, rank_pairs
from sfumato.microdata import Batch, Microdata, check_numeric
from sfumato.schema import Level, Schema

Rows = NDArray[np.integer[Any]]


class RankSwap(Mask):
    """Values are swapped in pairs whose ranks differ by at most a share p of the values (Greenberg 1987; Moore 1996).

    Each column is swapped on its own, household columns among households. The distribution of each column stays exactly as
    it is, in every stratum where strata are given (`within`; a household is in its first member's). Equal values are ranked at
    random, and a value's move is the distance from the ranks of its old value to those of its new one. Missing values stay
    where they are.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "records keep some of their fields and exchange others"

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to swap; all confidential numbers if none", columns="many"
    )
    p: float | Mapping[str, float] = param(
        default=0.05,
        doc="largest difference in rank, as a share of the number of values",
        low=0,
        above=True,
        high=1,
        scale="log",
        per_column=True,
        usual=(0.005, 0.5),
    )
    within: tuple[str, ...] | None = param(
        default=None, doc="columns of strata that swaps do not cross", columns="many", holds="categories"
    )
    names: Any = learned("columns", default=None)

    def validate(self) -> None:
        """Refuse strata that are swapped themselves, and limits for other columns than those swapped."""
        super().validate()
        if both := [c for c in self.columns or () if c in (self.within or ())]:
            raise ParameterError(f"{listing(both)}: a column cannot be swapped and be a stratum at once.")
        if self.columns is not None:
            self._check_named(self.columns)

    def _check_named(self, columns: tuple[str, ...]) -> None:
        if not isinstance(self.p, Mapping):
            return
        if absent := [c for c in columns if c not in self.p]:
            raise ParameterError(f"p gives no limit for {listing(absent)}.")
        if extra := [c for c in self.p if c not in columns]:
            raise ParameterError(f"p names columns that are not swapped: {listing(extra)}.")

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns are swapped."""
        within = self.within or ()
        for name in (*within, *(self.columns or ())):
            data.kind(name)
        if self.columns is None:
            names = tuple(n for n in numeric_targets(None, data) if n not in within)
        else:
            names = self.columns
            for name in names:
                check_numeric(data, name)  # ordered categories have ranks too, through the schema's value map
        self._check_named(names)
        return self.learn(names=names)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the swapped columns and the strata."""
        return (*super().touches(schema), *(self.within or ()))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the swapped columns."""
        return self.names or super().changes(schema)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Swap each column: rank its values, draw a partner for each rank, and exchange."""
        columns = {}
        for name in self.names if len(batch) else ():
            first, member = _units(batch, name)
            ranked = _rank(batch, name, first, self.within or (), self._limit(name))
            rows = self._sources(ranked, batch.units(name)[first], name, draws)
            if first is not member:
                stays = (rows == np.arange(len(rows)))[member]
                rows = np.where(stays, np.arange(len(batch)), first[rows[member]])
            columns[name] = batch.column(name).take(rows)  # the values themselves: their type and digits stay
        return batch.with_columns(columns)

    def _limit(self, name: str) -> float:
        return self.p[name] if isinstance(self.p, Mapping) else self.p

    def _sources(self, ranked: Ranked, ids: NDArray[np.int64], name: str, draws: Draws) -> Rows:
        """Return for each unit the unit whose value it gets, shape (units,)."""
        from sfumato.kernels.rank_swap import partners, shuffled_ties

        if not len(ranked.order):
            raise DataError(f"column '{name}' has no values at all, so there is nothing to swap.")
        if len(ranked.ties) == 2:
            raise DataError(f"column '{name}' is constant, so swapping would change nothing. Leave it out of columns=.")
        if not ranked.movable:
            raise DataError(
                f"no value of '{name}' can change: p = {self._limit(name):g} is {ranked.limits.max():,} ranks at most, and no "
                "two different values of one stratum are so near. Raise p, or use coarser strata."
            )
        order, runs = ranked.order, np.diff(ranked.ties)
        if (runs > 1).any():
            tied = np.zeros(len(ids), bool)
            tied[order[np.repeat(runs > 1, runs)]] = True
            uniforms = np.zeros(len(ids))
            uniforms[tied] = draws.uniforms(ids[tied], f"{name} ties")
            order = shuffled_ties(order, ranked.ties, uniforms)
        return partners(order, ranked.begins, ranked.limits, draws.uniforms(ids, name))

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what swapping each column does to normal data, for large files; None with strata or household columns."""
        columns = [n for n in self.columns or schema.names(role="confidential") if n in before.names]
        if self.within or any(schema[n].level is Level.HOUSEHOLD for n in columns):
            return None
        groups: dict[tuple[str, ...], Kept] = {
            (n,): rank_pairs(before.n, int(self._limit(n) * before.n + 1e-9)) for n in columns
        }
        return SwapModel.of(before, groups, extremes=False)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify on the released values that each column's distribution is kept and that no rank moved past the limit."""
        return tuple(g for name in self.names for g in self._verified(name, before, after, step))

    def _verified(self, name: str, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        from sfumato.kernels.rank_swap import largest_moves

        needed = list(dict.fromkeys([name, *(self.within or ()), *filter(None, [before.schema.one("household")])]))
        batches = before.batch(needed), after.batch(needed)
        was, now = (
            _rank(batch, name, _units(batch, name)[0], self.within or (), self._limit(name), batch is batches[0])
            for batch in batches
        )
        if not (np.array_equal(was.ties, now.ties) and np.array_equal(was.values, now.values)):
            raise DataError(f"the distribution of '{name}' is not the one it had; nothing is released.")
        largest, changed = largest_moves(was.order, now.order, was.ties, was.begins)
        if (largest > was.limits).any():
            raise DataError(f"some values of '{name}' moved further in rank than p allows; nothing is released.")
        where = " in each stratum" if self.within else ""
        most = f"{int(was.limits.max(initial=0)):,} of {len(was.order):,} ranks"
        says = f"{name}: no value moves more than {self._limit(name):.4g} of the ranks{where} ({most} at most)"
        how = f"ranks worked out again from both files: the largest move is {int(largest.max(initial=0)):,}"
        alone = f"{was.unswapped:,} of {len(was.order):,} values have no partner"
        return (
            Guarantee(step, says, how),
            Guarantee(step, f"{name}: the distribution is kept exactly{where}", "sorted values of both files compared"),
            Guarantee(
                step, f"{name}: {alone}", f"values compared: {changed / max(len(was.order), 1):.1%} of them changed"
            ),
        )


@dataclass(frozen=True)
class Ranked:
    """The units that have a value, by stratum and value; strata and runs of equal values are given by where they begin."""

    order: Rows
    begins: Rows
    ties: Rows
    values: NDArray[np.float64]
    limits: Rows

    @property
    def movable(self) -> bool:
        """Whether some stratum has two different values and a limit of at least a rank."""
        runs = np.diff(np.searchsorted(self.ties, self.begins))
        return bool(((self.limits >= 1) & (runs >= 2)).any())

    @property
    def unswapped(self) -> int:
        """How many values have no partner: one of an odd number, and all where the limit is less than a rank."""
        sizes = np.diff(self.begins)
        return int(np.where((self.limits < 1) | (sizes < 2), sizes, sizes % 2).sum())


def _units(batch: Batch, name: str) -> tuple[Rows, Rows]:
    """Return one row per unit, in the order of their ids, and the unit of each record."""
    first, member = batch.members([name])
    if (np.diff(batch.ids) < 0).any():
        by_id = np.argsort(batch.ids, kind="stable")
        _, at, member = np.unique(batch.units(name)[by_id], return_index=True, return_inverse=True)
        first = by_id[at]
        member = member[np.argsort(by_id)]
    return first, member


def _rank(batch: Batch, name: str, first: Rows, within: tuple[str, ...], p: float, remember: bool = True) -> Ranked:
    """Sort the units by stratum and value, ties by id; a map, which masks one file many times, sorts it once (`remember`)."""
    from sfumato.kernels.sorting import sorted_runs

    def make() -> tuple[Rows, Rows, NDArray[np.float64]]:
        x = batch.numbers(name)
        x = x if everyone else x[first]
        gaps = np.isnan(x)
        known = np.flatnonzero(~gaps) if gaps.any() else None
        order, ties, values = sorted_runs(x if known is None else x[known])
        return order if known is None else known[order], ties, values

    everyone = len(first) == len(batch) and bool((np.diff(first) == 1).all())
    key = ("ranks", batch.schema[name].missing)
    order, ties, values = batch.column(name).remember(key, make) if everyone and remember else make()
    begins: Rows = np.array([0, len(order)])
    if within:
        run = np.repeat(np.arange(len(ties) - 1), np.diff(ties))
        strata, _ = classes([batch.column(w).codes[0][first] for w in within], len(first))
        by_stratum = np.argsort(strata[order], kind="stable")
        order, run = order[by_stratum], run[by_stratum]
        begins = _begins(strata[order])
        ties = np.union1d(begins, _begins(run))
        values = values[run[ties[:-1]]]
    limits = np.floor(p * np.diff(begins) + 1e-9).astype(np.int64)  # 0.29 of 100 is 29, whatever the floats say
    return Ranked(order, begins, ties, values, limits)


def _begins(labels: Rows) -> Rows:
    """Return where runs of equal labels begin, and where the last one ends."""
    return np.append(np.flatnonzero(np.r_[True, np.diff(labels) != 0][: len(labels)]), len(labels))
