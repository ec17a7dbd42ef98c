"""Swapping: records exchange values, at random with some tables kept, or with values of similar rank; and its model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, Scope, categorical_targets, learned, numeric_targets, param
from sfumato.contract.release_model import NoiseModel, ReleaseModel, Target
from sfumato.data.microdata import Batch, Microdata, by_level, check_numeric
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.kernels.classes import classes
from sfumato.lazy import special
from sfumato.masks.column_settings import check_by_column, numeric_columns, of_column
from sfumato.schema import Level, Schema
from sfumato.typing import Integers, Numbers, Whole

# Swapping permutes a column, so its distribution, mean and variance stay. With a the centred values, S their sum of squares
# and π the permutation, everything else depends on C = Σ a_i a_π(i) / S: for normal records C is independent of S. If either x
# or y is swapped, the slope of y on x is βC + Σ a_π(i) e_i / S.

_RANKS = 2_000
"""Number of ranks that represent a longer list, unless the window would then have fewer than `_WINDOW` ranks."""
_WINDOW = 100


@dataclass(frozen=True)
class KeptInPlace:
    """How much of a column does not move: mean and variance of C, and E[X' He_j(X)]/√j! for j = 1, 2, 3."""

    mean: float
    variance: float
    hermite: tuple[float, float, float]

    def moved(self, n: int) -> float:
        """Return E(X - X')² / 2σ² of a record: the equivalent share of values that move to a random place."""
        return (n - 1) * (1 - self.mean) / n


@dataclass(frozen=True, eq=False)
class SwapModel(ReleaseModel):
    """Normal records in which groups of columns change places between records, each group by its own permutation."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    groups: tuple[tuple[tuple[int, ...], KeptInPlace], ...]
    extremes: bool
    """Whether values move to a random place, so that formulas hold for extreme values too."""
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, before: NoiseModel, groups: Mapping[tuple[str, ...], KeptInPlace], extremes: bool) -> SwapModel | None:
        """Make it, if there is no noise yet; columns that the model does not hold are left out."""
        if before.is_masked:
            return None
        made = tuple((tuple(before.at(n) for n in names if n in before.names), kept) for names, kept in groups.items())
        return cls(before.names, before.mean, before.covariance, before.n, made, extremes, before.published)

    def _group(self, column: int) -> int:
        return next((g for g, (columns, _) in enumerate(self.groups) if column in columns), -1)

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return the error of unmasked data: means are kept exactly."""
        return float(weights @ self.covariance @ weights) / self.n if target == "population" else 0.0

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return β²E(C - 1)² + σₑ²/((n-3)σ²) if one column is swapped; for two columns swapped separately, for large n."""
        one, two = self._group(x), self._group(y)
        if self.n <= 3:
            return math.inf
        S = self.covariance
        beta, residual = S[x, y] / S[x, x], max(S[y, y] - S[x, y] ** 2 / S[x, x], 0.0)
        sampling = float(residual / ((self.n - 3) * S[x, x]))
        if one == two:  # neither, or both together: every pair of values is kept
            return _about(beta, correction, 1.0, 0.0, sampling, target)
        if one < 0 or two < 0:
            kept = self.groups[max(one, two)][1]
            return _about(beta, correction, kept.mean, kept.variance, sampling, target)
        if target == "file":
            return None
        rho = S[x, y] / math.sqrt(S[x, x] * S[y, y])
        pairs = zip(self.groups[one][1].hermite, self.groups[two][1].hermite, strict=True)
        slope = math.sqrt(S[y, y] / S[x, x]) * sum(rho**j * a * b for j, (a, b) in enumerate(pairs, 1))
        scatter = max(S[y, y] - slope**2 * S[x, x], 0.0) / ((self.n - 3) * S[x, x])
        return float((correction * slope - beta) ** 2 + correction**2 * scatter)

    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return the moments of (x, x, z...); `link` accounts for swapped values."""
        if any(name not in self.names for name in names):
            return None
        x, *z = (self.at(name) for name in names)
        if any(self._group(i) >= 0 for i in z):
            return None
        where = [x, x, *z]
        return self.mean[where], self.covariance[np.ix_(where, where)]

    def link(self, m: float, name: str) -> float:
        """Return the probability that the snooper has the right value; a wrong link may find a swapped value in another record."""
        group = self._group(self.at(name))
        if group < 0 or self.n < 2:
            return m
        moved = self.groups[group][1].moved(self.n)
        return m * (1 - moved) + (1 - m) * moved / (self.n - 1)


def _about(beta: float, correction: float, kept: float, spread: float, sampling: float, target: Target) -> float:
    """Return the error of a slope βC + noise, about the slope of the population or of the file."""
    if target == "population":
        return float(beta**2 * ((correction * kept - 1) ** 2 + correction**2 * spread) + correction**2 * sampling)
    # the file's own slope is β + Σ a e / S, and Σ a_π a = CS
    square = correction**2 - 2 * correction * kept + 1
    return float(beta**2 * ((correction * kept - 1) ** 2 + correction**2 * spread) + square * sampling)


def random_pairs(n: int, pairs: int) -> KeptInPlace:
    """Return C for this number of random pairs of n records, exactly.

    The direction of a is uniform on a sphere in d = n - 1 dimensions, and the permutation is its own inverse with trace
    t = d - 2·pairs there: E C = t/d, E C² = (t² + 2d)/(d(d + 2)).
    """
    if n < 2:
        return KeptInPlace(1.0, 0.0, (1.0, 0.0, 0.0))
    d, moved = n - 1, 2 * pairs / n
    t = d - 2 * pairs
    return KeptInPlace(t / d, 2 * (d * d - t * t) / (d * d * (d + 2)), (1 - moved, 0.0, 0.0))


@lru_cache(maxsize=4096)
def rank_pairs(n: int, limit: int) -> KeptInPlace:
    """Return C for rank swapping of n normal values, none further than `limit` ranks, for large n.

    Partners are drawn as in the mask, with the probability that a rank is still free updated from rank to rank. Ordered
    values have the means, variances and covariances of David and Johnson (1954). Within 1 % of E(1 - C) from about 50 records
    and 50 ranks of the window.
    """
    if n < 2 or limit < 1:
        return KeptInPlace(1.0, 0.0, (1.0, 0.0, 0.0))
    count, window = (
        (n, limit) if n % 2 == 0 else (n - 1, max(limit - 1, 1))
    )  # as the mask leaves one of an odd number out
    ranks = min(count, max(_RANKS, math.ceil(_WINDOW * count / window)))
    reach = window if ranks == count else max(round(window * ranks / count), 1)
    place = np.arange(1, ranks + 1)
    u, m = place / (ranks + 1), special.ndtri((place - 0.375) / (ranks + 0.25))
    slope = math.sqrt(2 * math.pi) * np.exp(m * m / 2)
    left, right = u * slope / (count + 2), (1 - u) * slope
    sums, gradient = kernels.swapping.partner_sums(m, left * right, left, right, reach)
    scale = count / ranks
    apart, pairing, second, third = sums * scale
    gone = apart / (n - 1)
    # how C varies with the sample (gradient of the sum over pairs, less that of S), and with the draw of partners
    h = (gradient - 2 * gone * m) * scale / (n - 1)
    a, b = h * left, h * right
    before = np.concatenate([[0.0], np.cumsum(a)[:-1]])
    variance = pairing / (n - 1) ** 2 + float((a * b).sum() + 2 * (before * b).sum())
    kept = 1 - gone
    hermite = (1 - (n - 1) * gone / n, second / n / math.sqrt(2), third / n / math.sqrt(6))
    return KeptInPlace(kept, float(min(variance, 2 * max(1 - kept**2, 0.0) / (n + 1))), hermite)


class DataSwap(Mask):
    """Pairs of records that agree on some columns exchange their values in others (Dalenius and Reiss 1982; Reiss 1984).

    The swapped columns are exchanged together, between records whose values differ. The table of `keep` by the swapped
    columns does not change, nor does each table of `margins`: an exchange keeps a table if the two records agree on its other
    columns (Fienberg and McIntyre 2005), so they must agree on these too. Columns that describe households
    are exchanged between households of the same size. Records with a missing value in a swapped column are not swapped.
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
        default="random", doc="which records are exchanged first: any, or those with the rarest combination of keys"
    )
    names: Any = learned("columns", "keep", default=None)

    @override
    def validate(self) -> None:
        if both := [c for c in self.columns or () if c in (self.keep or ())]:
            raise ParameterError(f"{join_names(both)}: a column cannot be swapped and be kept at once.")
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
                f"some of {join_names(names)} describe households and some persons. Swap them in two steps, one for each."
            )
        return self.learn(names=names)

    @property
    def _asked(self) -> tuple[str, ...]:
        """The columns named in any parameter."""
        tables = (self.columns, self.keep, *(self.margins or ()))
        return tuple(dict.fromkeys(n for table in tables for n in table or ()))

    def _agree(self) -> tuple[str, ...]:
        """The columns on which a pair agrees: `keep`, and the other columns of each table that has a swapped column."""
        others = (n for table in self.margins or () if set(table) & set(self.names) for n in table)
        return tuple(dict.fromkeys(n for n in (*(self.keep or ()), *others) if n not in self.names))

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(self.names or self.columns or schema.names(role="key")), *self._asked]))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Pair the records and exchange their values."""
        if not len(batch):
            return batch
        first, member = batch.members(self.names)
        partner = self._partners(batch, first, member, draws)
        stays = (partner == np.arange(len(partner)))[member]
        rows = np.where(stays, np.arange(len(batch)), first[partner[member]])
        return batch.with_columns({name: batch.column(name).take(rows) for name in self.names})

    def _partners(self, batch: Batch, first: Integers, member: Integers, draws: Draws) -> Integers:
        """Return the partner of each unit, shape (units,)."""
        ids = batch.units(self.names[0])[first]
        known = np.flatnonzero(~np.any([batch.missing(name)[first] for name in self.names], axis=0))
        agree: list[Integers] = [_per_unit(batch, name, first, member)[known] for name in self._agree()]
        if batch.schema[self.names[0]].level is Level.HOUSEHOLD:
            agree.append(np.bincount(member)[known])
        label, _ = classes(agree, len(known))
        cell, _ = classes([label, *(batch.column(name).codes[0][first][known] for name in self.names)], len(known))
        ids = ids[known]
        rarity = self._rarity(batch)[first][known] if self.target == "rare" else np.zeros(len(known))
        queue = np.lexsort([draws.uniforms(ids, "first"), rarity])
        pool = np.lexsort([draws.uniforms(ids, "pool"), label])
        uniforms = draws.uniforms(ids, "partner")
        found = kernels.swapping.pairs_of_different(queue, label, cell, pool, uniforms, self._pairs(len(known)))
        if (found == np.arange(len(found))).all():
            raise DataError(
                f"no two records could exchange {join_names(self.names)}: none agree on {join_names(self._agree())} and have "
                "different values. Ask for agreement on fewer columns, or recode these first."
                if agree
                else f"no two records have different values in {join_names(self.names)}, so there is nothing to exchange."
            )
        partner = np.arange(len(first))
        partner[known] = known[found]
        return partner

    def _pairs(self, units: int) -> int:
        """Return the number of pairs to draw: half the share of the units, at least one."""
        return max(min(int(self.rate * units / 2 + 0.5), units // 2), 1)

    def _rarity(self, batch: Batch) -> Integers:
        """Return how many records share each record's combination of keys."""
        keys = batch.schema.names(role="key") or (*self.names, *self._agree())
        label, sizes = classes([batch.column(name).codes[0] for name in keys], len(batch))
        return sizes[label]

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return the effect of random pairs on normal data; None if the pairs are not random."""
        chosen = self.keep or self.margins or self.target != "random" or self.columns is None
        if chosen or any(schema[n].level is Level.HOUSEHOLD for n in self.columns or ()):
            return None
        return SwapModel.of(before, {self.columns or (): random_pairs(before.n, self._pairs(before.n))}, extremes=True)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no kept table changed, and count the records whose values changed."""
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
                f"{join_names(self.names)}: {changed:,} of {total:,} {units} have another's values "
                f"({changed / max(total, 1):.2%}; rate = {self.rate:.4g}){short}",
                "records of both files compared",
            ),
        )


def _per_unit(batch: Batch, name: str, first: Integers, member: Integers) -> Integers:
    """Return a column's codes, one per unit; refuse households whose members differ, since their tables would change."""
    codes = batch.column(name).codes[0]
    one: Integers = codes[first]
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


def _common_codes(name: str, old: Batch, new: Batch) -> tuple[Integers, ...]:
    """Return a column's codes in both files, or nothing if they do not have the same values."""
    (a, a_values), (b, b_values) = old.column(name).codes, new.column(name).codes
    return (a, b) if a_values == b_values and len(a) == len(b) else ()


def _same_table(codes: list[Any]) -> bool:
    """Whether a table has the same count in every cell, given each column's codes before and after."""
    n = len(codes[0][0])
    label, sizes = classes([np.concatenate(pair) for pair in codes], 2 * n)
    return bool((2 * np.bincount(label[:n], minlength=len(sizes)) == sizes).all())


class RankSwap(Mask):
    """Values are swapped in pairs whose ranks differ by at most a share p of the values (Greenberg 1987; Moore 1996).

    Each column is swapped separately, household columns among households. The distribution of each column does not change, in
    every stratum if strata are given (`within`; a household has the stratum of its first member). Equal values are ranked at
    random, and a value's move is the distance from the ranks of its old value to those of its new one. Missing values stay
    where they are.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "records keep some of their fields and exchange others"

    columns: tuple[str, ...] | None = numeric_columns("swap")
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

    @override
    def validate(self) -> None:
        if both := [c for c in self.columns or () if c in (self.within or ())]:
            raise ParameterError(f"{join_names(both)}: a column cannot be swapped and be a stratum at once.")
        check_by_column("p", "limit", self.p, self.columns, "swapped")

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
        check_by_column("p", "limit", self.p, names, "swapped")
        return self.learn(names=names)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Swap each column: rank its values, draw a partner for each rank, and exchange."""
        columns = {}
        for name in self.names if len(batch) else ():
            first, member = _units(batch, name)
            ranked = _rank(batch, name, first, self.within or (), of_column(self.p, name))
            rows = self._sources(ranked, batch.units(name)[first], name, draws)
            if first is not member:
                stays = (rows == np.arange(len(rows)))[member]
                rows = np.where(stays, np.arange(len(batch)), first[rows[member]])
            columns[name] = batch.column(name).take(rows)  # the values themselves: their type and digits stay
        return batch.with_columns(columns)

    def _sources(self, ranked: Ranked, ids: Whole, name: str, draws: Draws) -> Integers:
        """Return for each unit the unit whose value it gets, shape (units,)."""
        if not len(ranked.order):
            raise DataError(f"column '{name}' has no values at all, so there is nothing to swap.")
        if len(ranked.ties) == 2:
            raise DataError(f"column '{name}' is constant, so swapping would change nothing. Leave it out of columns=.")
        if not ranked.movable:
            raise DataError(
                f"no value of '{name}' can change: p = {of_column(self.p, name):g} is {ranked.limits.max():,} ranks at most, and no "
                "two different values of one stratum are so near. Raise p, or use coarser strata."
            )
        order, runs = ranked.order, np.diff(ranked.ties)
        if (runs > 1).any():
            tied = np.zeros(len(ids), bool)
            tied[order[np.repeat(runs > 1, runs)]] = True
            uniforms = np.zeros(len(ids))
            uniforms[tied] = draws.uniforms(ids[tied], f"{name} ties")
            order = kernels.swapping.shuffled_ties(order, ranked.ties, uniforms)
        return kernels.swapping.partners(order, ranked.begins, ranked.limits, draws.uniforms(ids, name))

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return the effect of swapping each column on normal data, for large files; None with strata or household columns."""
        columns = [n for n in self.columns or schema.names(role="confidential") if n in before.names]
        if self.within or any(schema[n].level is Level.HOUSEHOLD for n in columns):
            return None
        groups: dict[tuple[str, ...], KeptInPlace] = {
            (n,): rank_pairs(before.n, int(of_column(self.p, n) * before.n + 1e-9)) for n in columns
        }
        return SwapModel.of(before, groups, extremes=False)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify on the released values that each column's distribution is kept and that no rank moved past the limit."""
        return tuple(g for name in self.names for g in self._verified(name, before, after, step))

    def _verified(self, name: str, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        needed = list(dict.fromkeys([name, *(self.within or ()), *filter(None, [before.schema.one("household")])]))
        batches = before.batch(needed), after.batch(needed)
        was, now = (
            _rank(batch, name, _units(batch, name)[0], self.within or (), of_column(self.p, name), batch is batches[0])
            for batch in batches
        )
        if not (np.array_equal(was.ties, now.ties) and np.array_equal(was.values, now.values)):
            raise DataError(f"the distribution of '{name}' is not the one it had; nothing is released.")
        largest, changed = kernels.swapping.largest_moves(was.order, now.order, was.ties, was.begins)
        if (largest > was.limits).any():
            raise DataError(f"some values of '{name}' moved further in rank than p allows; nothing is released.")
        where = " in each stratum" if self.within else ""
        most = f"{int(was.limits.max(initial=0)):,} of {len(was.order):,} ranks"
        says = f"{name}: no value moves more than {of_column(self.p, name):.4g} of the ranks{where} ({most} at most)"
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
    """The units that have a value, sorted by stratum and value, with the start of each stratum and of each run of equal values."""

    order: Integers
    begins: Integers
    ties: Integers
    values: Numbers
    limits: Integers

    @property
    def movable(self) -> bool:
        """Whether some stratum has two different values and a limit of at least one rank."""
        runs = np.diff(np.searchsorted(self.ties, self.begins))
        return bool(((self.limits >= 1) & (runs >= 2)).any())

    @property
    def unswapped(self) -> int:
        """Number of values without a partner: one of an odd number, and all if the limit is less than one rank."""
        sizes = np.diff(self.begins)
        return int(np.where((self.limits < 1) | (sizes < 2), sizes, sizes % 2).sum())


def _units(batch: Batch, name: str) -> tuple[Integers, Integers]:
    """Return one row per unit, in the order of their ids, and the unit of each record."""
    first, member = batch.members([name])
    if (np.diff(batch.ids) < 0).any():
        by_id = np.argsort(batch.ids, kind="stable")
        _, at, member = np.unique(batch.units(name)[by_id], return_index=True, return_inverse=True)
        first = by_id[at]
        member = member[np.argsort(by_id)]
    return first, member


def _rank(batch: Batch, name: str, first: Integers, within: tuple[str, ...], p: float, remember: bool = True) -> Ranked:
    """Sort the units by stratum and value, ties by id; a map masks one file many times and sorts it once (`remember`)."""

    def make() -> tuple[Integers, Integers, Numbers]:
        x = batch.numbers(name)
        x = x if everyone else x[first]
        gaps = np.isnan(x)
        known = np.flatnonzero(~gaps) if gaps.any() else None
        order, ties, values = kernels.sorting.sorted_runs(x if known is None else x[known])
        return order if known is None else known[order], ties, values

    everyone = len(first) == len(batch) and bool((np.diff(first) == 1).all())
    key = ("ranks", batch.schema[name].missing)
    order, ties, values = batch.column(name).remember(key, make) if everyone and remember else make()
    begins: Integers = np.array([0, len(order)])
    if within:
        run = np.repeat(np.arange(len(ties) - 1), np.diff(ties))
        strata, _ = classes([batch.column(w).codes[0][first] for w in within], len(first))
        by_stratum = np.argsort(strata[order], kind="stable")
        order, run = order[by_stratum], run[by_stratum]
        begins = _begins(strata[order])
        ties = np.union1d(begins, _begins(run))
        values = values[run[ties[:-1]]]
    limits = np.floor(p * np.diff(begins) + 1e-9).astype(np.int64)  # 0.29 of 100 is 29, despite float rounding
    return Ranked(order, begins, ties, values, limits)


def _begins(labels: Integers) -> Integers:
    """Return the start of each run of equal labels, and the end of the last one."""
    return np.append(np.flatnonzero(np.r_[True, np.diff(labels) != 0][: len(labels)]), len(labels))
