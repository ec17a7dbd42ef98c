"""Swapping of households over a geography, those at risk first; and substitution of records by donors that resemble them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, Release, Scope, categorical_targets, learned, param
from sfumato.data import Batch, Microdata
from sfumato.data.households import unit_ids
from sfumato.errors import DataError, ParameterError, join_names, plural
from sfumato.kernels.classes import classes, mix64
from sfumato.masks.record_choice import combined
from sfumato.schema import Level, Schema
from sfumato.typing import Flags, Whole

NO_MATRIX = "records take some of their fields from other records"


@dataclass(frozen=True, eq=False)
class HomeProfiles:
    """What is compared of u households of n records."""

    first: Whole
    """The first record of each household, shape (u,)."""
    member: Whole
    """The household of each record, shape (n,)."""
    areas: tuple[Whole, ...]
    """Its area at each level, as a number, the widest first; shape (u,) each."""
    at_risk: tuple[Flags, ...]
    """Whether a member is one of fewer than k records of the area, at each level; shape (u,) each."""
    profiles: tuple[Whole, ...]
    """What households have to share to be exchanged, by profile; shape (u,) each."""
    ids: Whole
    """A number for each household, the same on every engine, shape (u,)."""


class RecordSwap(Mask):
    """Pairs of households exchange their areas: those with somebody rare in their area first, others at random.

    A household is at risk at a level of the geography if one of its members is one of fewer than k records of the area with the
    same keys. It is exchanged with a household of another area of that level, from the same wider area if there is one. Both
    households have the same members by one of the profiles (`similar`): as many, with the same values. Each household is
    exchanged once at most and stays whole. As in the protection of the 2011 census of England and Wales and of the European
    census hub (Shlomo, Tudor and Groom 2010; Eurostat 2021, targeted record swapping).
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = NO_MATRIX

    areas: tuple[str, ...] = param(
        doc="columns of the geography, the widest areas first, such as region, district",
        columns="many",
        holds="categories",
    )
    similar: tuple[tuple[str, ...], ...] | None = param(
        default=None,
        doc="profiles, each a list of columns in which two households must agree; later ones serve where earlier ones find nobody",
        of_data="nothing",
    )
    rate: float = param(
        default=0.05,
        doc="share of the households that are exchanged, those at risk included",
        low=0,
        high=1,
        usual=(0.01, 0.3),
    )
    k: int = param(
        default=3, doc="a record is at risk in an area where fewer than k records have its keys", low=1, integer=True
    )
    keys: tuple[str, ...] | None = param(
        default=None,
        doc="columns by which a snooper looks for records in an area; all other keys of the schema if none",
        columns="many",
        holds="categories",
    )
    carry: tuple[str, ...] | None = param(
        default=None, doc="further columns that go with the area, such as coordinates", columns="many", holds="anything"
    )
    no_donor: Literal["say", "refuse"] = param(
        default="say", doc="if a household at risk has no similar one elsewhere: leave it and say how many, or refuse"
    )
    names: Any = learned("keys", "areas", "carry", "similar", default=None)

    @override
    def validate(self) -> None:
        if self.areas == () or self.keys == ():
            raise ParameterError("areas and keys of record_swap must each name at least one column.")
        if self.similar is not None:
            given: Any = self.similar
            if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
                raise ParameterError("similar of record_swap must be a list of profiles, each a list of columns.")
            listed = list(given)
            profiles = [tuple(listed)] if listed and all(isinstance(p, str) for p in listed) else listed
            if not profiles or any(
                isinstance(p, str | Mapping) or not isinstance(p, Iterable) or not all(isinstance(n, str) for n in p)
                for p in profiles
            ):
                raise ParameterError("similar of record_swap must be a list of profiles, each a list of columns.")
            object.__setattr__(self, "similar", tuple(tuple(p) for p in profiles))
        moved = (*self.areas, *(self.carry or ()))
        for field, others in (("keys", self.keys or ()), ("similar", [n for p in self.similar or () for n in p])):
            if both := [n for n in moved if n in others]:
                raise ParameterError(
                    f"{join_names(both)}: a column cannot move with the area and be in {field} at once."
                )
        if both := [n for n in self.areas if n in (self.carry or ())]:
            raise ParameterError(f"{join_names(both)}: areas move anyway; leave them out of carry.")

    @property
    def moved(self) -> tuple[str, ...]:
        """The columns that are exchanged."""
        return (*self.areas, *(self.carry or ()))

    def _keys(self, schema: Schema) -> tuple[str, ...]:
        if self.keys is not None:
            return self.keys
        gone = schema.with_followers(self.moved)
        tells = [n for n in schema.names(role="key") if set(schema.with_followers([n])).intersection(self.moved)]
        return tuple(n for n in schema.names(role="key") if n not in gone and n not in tells)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        similar = [n for p in self.similar or () for n in p]
        return tuple(dict.fromkeys([*self.moved, *self._keys(schema), *similar, *schema.names(role="household")]))

    @override
    def changes(self, schema: Schema) -> tuple[str, ...]:
        return self.moved

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the columns."""
        for name in self.touches(data.schema):
            data.kind(name)
        if not self._keys(data.schema):
            raise DataError("no key is left beside the areas: name the columns that make a record rare (keys=...).")
        return self.learn(names=self.moved)

    def homes(self, batch: Batch) -> HomeProfiles:
        """Return what is compared of each household; refuse those whose members live in different areas."""
        units = unit_ids(batch, "household")
        ids, first, member = np.unique(units, return_index=True, return_inverse=True)
        for name in self.moved:
            values = batch.column(name).hashes
            if wrong := len(np.unique(member[values != values[first][member]])):
                raise DataError(
                    f"the members of {plural(wrong, 'household')} have different values of '{name}': a household that lies in "
                    "several areas cannot be moved whole. Correct its area, or give its parts household numbers of their own."
                )
        places = [batch.column(n).codes[0] for n in self.areas]
        by_record = [classes(places[: level + 1], len(batch))[0] for level in range(len(places))]
        keys = [batch.column(n).ranks[0] for n in self._keys(batch.schema)]
        risks = []
        for area in by_record:
            labels, sizes = classes([area, *keys], len(batch))
            risks.append(np.bincount(member, sizes[labels] < self.k, len(ids)) > 0)
        profiles = tuple(_members_alike(batch, names, member, len(ids)) for names in self.similar or ((),))
        return HomeProfiles(first, member, tuple(a[first] for a in by_record), tuple(risks), profiles, ids)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Pair the households and exchange their areas."""
        if not len(batch):
            return batch
        homes = self.homes(batch)
        partner = self.partners(homes, draws)
        stays = (partner == np.arange(len(partner)))[homes.member]
        rows = np.where(stays, np.arange(len(batch)), homes.first[partner[homes.member]])
        return batch.with_columns({name: batch.column(name).take(rows) for name in self.moved})

    def partners(self, homes: HomeProfiles, draws: Draws) -> Whole:
        """Return the partner of each household, itself if none, shape (u,)."""
        count = len(homes.first)
        partner = np.arange(count)
        for level, risk in enumerate(homes.at_risk):
            for donors in (risk, np.ones(count, bool)):
                _pair(partner, homes, level, risk, donors, draws.child("risk", level, int(donors.all())), count)
            open_ = int((risk & (partner == np.arange(count))).sum())
            if open_ and self.no_donor == "refuse":
                raise DataError(
                    f"{plural(open_, 'household')} at risk in {self.areas[level]} have no similar household in another area "
                    "that is still free. Ask for agreement in fewer columns (similar), or use no_donor='say'."
                )
        everybody = np.ones(count, bool)
        lacking = 2 * int(self.rate * count / 2 + 0.5) - int((partner != np.arange(count)).sum())
        if lacking > 1:
            _pair(partner, homes, len(homes.areas) - 1, everybody, everybody, draws.child("rate"), lacking // 2)
        return partner

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify who moved, that nobody is left who could, and that the tables of the profiles are as before."""
        names = self.touches(before.schema)
        old, new = before.batch(names), after.batch(names)
        if not len(old):
            return
        old, new = (b.keep(np.argsort(b.ids, kind="stable")) for b in (old, new))
        if not np.array_equal(old.ids, new.ids):
            raise DataError("some records are not those that went in; nothing is released.")
        homes, count = self.homes(old), len(np.unique(unit_ids(old, "household")))
        self.homes(new)  # refuses households that were split
        here = [combined(old, self.areas[: i + 1])[homes.first] for i in range(len(self.areas))]
        there = [combined(new, self.areas[: i + 1])[homes.first] for i in range(len(self.areas))]
        moved = here[-1] != there[-1]
        for level, name in enumerate(self.areas):
            risk, crossed = homes.at_risk[level], here[level] != there[level]
            left = risk & ~crossed
            if _could_pair(homes, level, left & ~moved, ~moved):
                raise DataError(f"some households at risk in {name} were not moved although others resemble them.")
            alone = f"; {int(left.sum()):,} have no similar household elsewhere" if left.any() else ""
            says = f"{int((risk & crossed).sum()):,} of {int(risk.sum()):,} households at risk in {name} moved to another{alone}"
            yield Guarantee(step, says, "risks counted anew, areas compared, and no free donor left for the others")
        wanted = 2 * int(self.rate * count / 2 + 0.5)
        says = f"{int(moved.sum()):,} of {count:,} households moved, {moved.mean():.3g} of all; {wanted:,} were wanted at least"
        if moved.sum() < wanted - 1:
            says += ", but no more have a similar household elsewhere"
        yield Guarantee(step, says, "areas compared; households are whole")
        common = [n for n in (self.similar or ((),))[0] if all(n in p for p in self.similar or ())]
        for level in range(len(self.areas)):
            table = [*common, *self.areas[: level + 1]]
            if not np.array_equal(np.sort(combined(old, table)), np.sort(combined(new, table))):
                raise DataError(f"the table of {join_names(table)} is not as it was; nothing is released.")
        says = f"the numbers of records by {' × '.join([*self.areas, *common])} are those of the original"
        yield Guarantee(step, says, "all cells compared")

    def swapped_records(self, release: Release) -> Whole:
        """Return the hidden ids of the original records that moved to another area, in order; for the custodian alone."""
        old, new = (d.batch(self.areas) for d in (release.original, release.masked))
        was, now = combined(old, self.areas)[np.argsort(old.ids)], combined(new, self.areas)[np.argsort(new.ids)]
        return np.asarray(np.sort(old.ids)[was != now], np.int64)


def _members_alike(batch: Batch, names: Sequence[str], member: Whole, count: int) -> Whole:
    """Return a number for each household that two share if they have as many members, with the same values; shape (count,).

    The hashes of the members are added up, so that their order does not matter.
    """
    labels, _ = classes([batch.column(n).ranks[0] for n in names], len(batch))
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, member, mix64(labels.astype(np.uint64)))
    return np.asarray(np.unique(sums, return_inverse=True)[1], np.int64)


def _pair(
    partner: Whole, homes: HomeProfiles, level: int, queue: Flags, donors: Flags, draws: Draws, pairs: int
) -> None:
    """Pair free households in `queue` with free ones among `donors` that are similar and live in another area of a level.

    The first profile goes first, and for each the wider area that both live in.
    """
    wider = homes.areas[level - 1] if level else np.zeros(len(partner), np.int64)
    everyone = np.arange(len(partner))
    order, begin = draws.uniforms(homes.ids, "order"), draws.uniforms(homes.ids, "begin")
    for profile in homes.profiles:
        for place in (wider, np.zeros(len(partner), np.int64)) if level else (wider,):
            free = np.flatnonzero((partner == everyone) & (queue | donors))
            label, _ = classes([profile[free], place[free]], len(free))
            cell, _ = classes([label, homes.areas[level][free]], len(free))
            waiting = np.flatnonzero(queue[free])
            waiting = waiting[np.lexsort([homes.ids[free][waiting], order[free][waiting]])]
            pool = np.lexsort([homes.ids[free], order[free], label])
            if not len(waiting) or pairs < 1:
                return
            found = kernels.swapping.pairs_of_different(waiting, label, cell, pool, begin[free], pairs)
            partner[free] = free[found]
            pairs -= int((found != np.arange(len(found))).sum()) // 2


def _could_pair(homes: HomeProfiles, level: int, left: Flags, free: Flags) -> bool:
    """Return whether one of the households that are left has a free similar one in another area."""
    rows = np.flatnonzero(free)
    for profile in homes.profiles:
        label, sizes = classes([profile[rows]], len(rows))
        cell, here = classes([label, homes.areas[level][rows]], len(rows))
        if (left[rows] & (here[cell] < sizes[label])).any():
            return True
    return False


class Substitution(Mask):
    """Some records take the values of a donor in some columns: another record that resembles it (Singh, Yu and Dunteman 2003).

    The donor agrees with the record on `keep`, has other values in the columns, and keeps its own. So every combination that is
    released occurs in the file, and nobody knows whose it is. In MASSC records are substituted before they are subsampled and
    their weights calibrated; `target` says which are substituted first.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = NO_MATRIX

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns whose values are substituted, together; all keys of categories if none", columns="many",
        holds="categories",
    )  # fmt: skip
    rate: float = param(
        default=0.05,
        doc="share of the records that are substituted",
        low=0,
        above=True,
        high=1,
        scale="log",
        usual=(0.01, 0.5),
    )
    keep: tuple[str, ...] | None = param(
        default=None, doc="columns in which the donor must agree", columns="many", holds="categories"
    )
    target: Literal["random", "rare"] = param(
        default="random",
        doc="which records are substituted first: any, or those with the rarest combination of the columns",
    )
    names: Any = learned("columns", "keep", default=None)

    @override
    def validate(self) -> None:
        if both := [c for c in self.columns or () if c in (self.keep or ())]:
            raise ParameterError(f"{join_names(both)}: a column cannot be substituted and be kept at once.")

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns are substituted."""
        for name in self.keep or ():
            data.kind(name)
        names = tuple(n for n in categorical_targets(self.columns, data) if n not in (self.keep or ()))
        if not names:
            raise DataError("every key of categories is in keep, so there is none left to substitute. Name columns=.")
        if homes := [n for n in names if data.schema[n].level is Level.HOUSEHOLD]:
            raise DataError(
                f"{join_names(homes)} describes households, whose members must agree. Substitute in the file of households "
                "(split_households), or leave it out."
            )
        return self.learn(names=names)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(self.names or self.columns or schema.names(role="key")), *(self.keep or ())]))

    def _count(self, records: int) -> int:
        return max(int(self.rate * records + 0.5), 1)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Choose records, and a donor for each."""
        if not len(batch):
            return batch
        n = len(batch)
        label, sizes = classes([batch.column(m).codes[0] for m in self.keep or ()], n)
        cell, here = classes([label, *(batch.column(m).codes[0] for m in self.names)], n)
        donors = sizes[label] - here[cell]
        rarity = here[cell] if self.target == "rare" else np.zeros(n, np.int64)
        queue = np.lexsort([batch.ids, draws.uniforms(batch.ids, "first"), rarity])
        queue = queue[donors[queue] > 0][: self._count(n)]
        if not len(queue):
            on = f" that agrees on {join_names(self.keep)}" if self.keep else ""
            raise DataError(f"no record has a donor{on} with other values of {join_names(self.names)}.")
        order = np.lexsort([batch.ids, cell, label])
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        begins = np.cumsum(sizes) - sizes
        starts = np.full(len(here), n, np.int64)
        np.minimum.at(starts, cell, place)
        step = (draws.uniforms(batch.ids[queue], "donor") * donors[queue]).astype(np.int64)
        at = begins[label[queue]] + step
        at += np.where(at >= starts[cell[queue]], here[cell[queue]], 0)
        rows = np.arange(n)
        rows[queue] = order[at]
        return batch.with_columns({name: batch.column(name).take(rows) for name in self.names})

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that nothing is released that no record has, and how many records were substituted."""
        names = self.touches(before.schema)
        old, new = before.batch(names), after.batch(names)
        if not len(old):
            return
        old, new = (b.keep(np.argsort(b.ids, kind="stable")) for b in (old, new))
        was, now = combined(old, names), combined(new, names)
        if not np.isin(now, was).all():
            raise DataError("some released combinations occur in no record; nothing is released.")
        kept = self.keep or ()
        if not np.array_equal(combined(old, kept), combined(new, kept)):
            raise DataError("some values that should be kept were changed; nothing is released.")
        changed, wanted = int((was != now).sum()), self._count(len(old))
        short = "" if changed == wanted else f"; {wanted:,} were wanted, but no more have a donor"
        says = f"{changed:,} of {len(old):,} records have {join_names(self.names)} of a donor{short}"
        yield Guarantee(step, says, "every released combination is that of a record with the same kept values")
