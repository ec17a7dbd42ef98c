"""Microaggregation: records are put into groups of at least k, and each group is released as one value."""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, Scope, check_numbers, learned, numeric_targets, param
from sfumato.contract.matrix import MatrixForm
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, ParameterError, listing
from sfumato.kernels.classes import classes, number_codes
from sfumato.kernels.groups import centres
from sfumato.kernels.moments import is_constant
from sfumato.microdata import Batch, Microdata, by_level
from sfumato.schema import Attribute, Level, Schema

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


class Microaggregation(Mask, abstract=True):
    """Groups of at least k similar records, each released with the group's mean, median or mode.

    Columns that describe households are grouped among households (a household has the stratum of its first member), the
    others among records. Groups never cross strata (`within`), and never cross missing values: records are grouped with
    records that have answers to the same columns.
    """

    scope: ClassVar[Scope] = Scope.BLOCK

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to aggregate; all confidential numbers if none", columns="many"
    )
    k: int = param(
        default=3,
        doc="smallest number of records in a group",
        low=2,
        high=1e6,
        integer=True,
        scale="log",
        usual=(3, 100),
    )
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
        """Return the group of each record, numbered from 0, each of at least k.

        x is standardised, shape (n, p), n >= k, without NaN; records come in the order of their ids, shape (n,).
        """

    def validate(self) -> None:
        """Refuse strata that are aggregated themselves."""
        super().validate()
        self._check_apart(self.columns or ())

    def _check_apart(self, names: tuple[str, ...]) -> None:
        if both := [n for n in self.within or () if n in names]:
            raise ParameterError(f"within of {self.name} names columns that are aggregated: {listing(both)}.")

    @property
    def keeps_missing(self) -> bool:  # type: ignore[override]
        """Whether nothing is suppressed."""
        return self.rare == "refuse"

    def together(self, names: tuple[str, ...], schema: Schema) -> list[tuple[str, ...]]:
        """Return the sets of columns that are grouped together."""
        return by_level(schema, names)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the mean and the standard deviation of each column, so that distances count columns alike."""
        names = numeric_targets(self.columns, data)
        self.check_within(data, names)
        return self.learn(names=names, spread={n: self._spread(n, data.numbers(n)) for n in names})

    def check_within(self, data: Microdata, names: tuple[str, ...]) -> None:
        """Refuse strata that the data do not have, or that are aggregated themselves."""
        self._check_apart(names)
        for name in self.within or ():
            if data.kind(name) is Kind.OTHER:
                raise DataError(f"column '{name}' holds {data.kind(name)}, which cannot be strata.")

    def check_enough(self, name: str, count: int) -> None:
        """Refuse a column that has no k values."""
        if not count:
            raise DataError(f"column '{name}' has no values at all, so there is nothing to aggregate.")
        if count < self.k:
            raise DataError(f"k = {self.k} is more than the number of records with a value in '{name}'. Lower k.")

    def _spread(self, name: str, values: Numbers) -> tuple[float, float]:
        known = np.sort(values[~np.isnan(values)])  # sums hang on the order of their terms
        self.check_enough(name, len(known))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values are refused in words
            mean, variance = np.asarray(np.mean(known)), np.asarray(np.var(known, ddof=1))
        if not np.isfinite(variance):
            raise DataError(
                f"column '{name}' holds infinite values, or values too large to square. Set them to missing."
            )
        return float(mean), 1.0 if is_constant(mean, variance) else float(np.sqrt(variance))

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the aggregated columns and the strata."""
        return (*super().touches(schema), *(self.within or ()))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the aggregated columns."""
        return self.names or super().changes(schema)

    # -- masking

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Group the records, and give each group its common values."""
        self.check_batch(batch)
        out = batch
        for names in self.together(self.names, batch.schema):
            _, member, x, labels = self.grouped(batch, names, draws)
            new = np.full_like(x, np.nan)
            inside = labels >= 0
            new[inside] = self.centres(x[inside], labels[inside], names, batch.schema)[labels[inside]]
            for j, name in enumerate(names):
                out = self.write(out, name, new[:, j][member])
        return out

    def check_batch(self, batch: Batch) -> None:
        """Refuse records whose columns do not hold what they must."""
        check_numbers(batch, self.names)

    def read(self, batch: Batch, name: str) -> Numbers:
        """Return a column as numbers, NaN where missing."""
        return batch.numbers(name)

    def write(self, batch: Batch, name: str, values: Numbers) -> Batch:
        """Return the batch with a column's values replaced; NaN where missing or suppressed."""
        attribute = batch.schema[name]
        return batch.replace(name, lambda: _clear_of_codes(values, attribute))

    def centres(self, x: Numbers, labels: Labels, names: tuple[str, ...], schema: Schema) -> Numbers:
        """Return what each group is released as, shape (g, p)."""
        return centres(x, labels, self.aggregate)

    def grouped(self, batch: Batch, names: tuple[str, ...], draws: Draws) -> tuple[Labels, Labels, Numbers, Labels]:
        """Return one row per unit, the unit of each record, the units' numbers, and their groups: -1 for no group."""
        first, member = units(batch, names)
        x = np.column_stack([self.read(batch, name)[first] for name in names])
        block, sizes = self._blocks(batch, x, first)
        unknown = np.isnan(x).all(axis=1)
        lonely = ~unknown & (sizes[block] < self.k)
        if count := int(lonely.sum()):
            whose = _whose(names[0], batch.schema)
            if self.rare == "refuse" or (lonely | unknown).all():
                raise DataError(
                    f"{count:,} {whose} have fewer than k = {self.k} {whose} in their stratum with the same columns answered "
                    f"among {listing(names)}. Lower k, use coarser strata or fewer columns"
                    + (", or set rare = 'suppress'." if self.rare == "refuse" else ".")
                )
        labels = np.full(len(first), -1, np.int64)
        rows = np.flatnonzero(~(unknown | lonely))
        rows = rows[np.lexsort([batch.ids[first[rows]], block[rows]])]
        labels[rows] = self.labels(x[rows], names, block[rows], batch.ids[first[rows]], draws)
        return first, member, x, labels

    def labels(self, x: Numbers, names: tuple[str, ...], block: Labels, ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return the group of each unit, numbered from 0; units come by block (n,), and by id within a block."""
        labels = np.empty(len(x), np.int64)
        centre, scale = np.array([self.spread[n] for n in names]).T
        x = (x - centre) / scale
        cuts = np.flatnonzero(np.r_[True, block[1:] != block[:-1], True]) if len(x) else np.zeros(1, np.int64)
        used = 0
        for start, end in pairwise(cuts.tolist()):
            if end - start < 2 * self.k:  # one group, whatever the method
                labels[start:end] = used
                used += 1
                continue
            part, there = x[start:end], names
            if (gap := np.isnan(part[0])).any():
                part, there = part[:, ~gap], tuple(n for n, lost in zip(names, gap, strict=True) if not lost)
            found = self.block_groups(part, there, ids[start:end], draws)
            labels[start:end] = found + used
            used += int(found.max()) + 1
        return labels

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: NDArray[np.int64], draws: Draws) -> Labels:
        """Return `groups`, for methods that must know which columns these are."""
        return self.groups(x, ids, draws)

    def _blocks(self, batch: Batch, x: Numbers, first: Labels) -> tuple[Labels, Labels]:
        """Return the block of each unit, by stratum and by which columns have answers, and the sizes of the blocks."""
        codes = [batch.column(name).codes[0][first] for name in self.within or ()]
        return classes([*codes, *np.isnan(x).astype(np.int64).T], len(first))

    # -- what it promises

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify on the released values that each combination is shared by at least k records or households."""
        said, suppressed = list[Guarantee](), 0
        beside = [*(self.within or ()), *filter(None, [after.schema.one("household")])]
        where = f" of one stratum ({listing(self.within)})" if self.within else ""
        for names in self.together(self.names, after.schema):
            batch, old = (d.batch(list(dict.fromkeys([*names, *beside]))) for d in (after, before))
            first, _ = units(batch, names)
            x = np.column_stack([self.read(batch, name)[first] for name in names])
            known = ~np.isnan(x).all(axis=1)
            strata = [batch.column(name).codes[0][first] for name in self.within or ()]
            label, sizes = classes([*strata, *(number_codes(column) for column in x.T)], len(x))
            smallest = int(sizes[label[known]].min(initial=len(x)))
            suppressed += sum(int(batch.missing(n).sum() - old.missing(n).sum()) for n in names)
            what, whose = "combination" if len(names) > 1 else "value", _whose(names[0], after.schema)
            if known.any() and smallest < self.k:
                raise DataError(
                    f"some released values of {listing(names)} are shared by fewer than {self.k} {whose}; nothing is released."
                )
            says = f"{listing(names)}: every released {what} is shared by at least {self.k} {whose}{where}"
            how = f"released values counted; the smallest group has {smallest if known.any() else 0:,}"
            said.append(Guarantee(step, says, how))
        if suppressed:
            says = f"{suppressed:,} values are suppressed (rare = 'suppress')"
            said.append(Guarantee(step, says, "missing values counted"))
        return tuple(said)

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the block averaging of records as A (matrix-masking paper, section IV: aggregation across records)."""
        mask = self if self.is_fitted else self.fit(data, draws)
        sets = mask.together(mask.names, data.schema)
        names = sets[0]
        whole = [n for n in mask.names if data.schema[n].integer]
        batch = data.batch()
        if why := (
            f"{self.aggregate}s are not linear in the data"
            if self.aggregate != "mean"
            else "it also changes columns of categories"
            if any(data.kind(n) is not Kind.NUMBER for n in mask.names)
            else "it aggregates columns over different groups (attribute-specific aggregation over records)"
            if len(sets) > 1
            else f"the means of {listing(whole)} are rounded to whole numbers"
            if whole
            else "some values are missing"
            if any(batch.missing(n).any() for n in names)
            else ""
        ):
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C: {why}.")
        form = MatrixForm(names, names, A=_averaging(*mask.grouped(batch, names, draws)), depends=("A",))
        made = mask.transform(batch, draws)
        m, released = (np.column_stack([b(n) for n in names]) for b in (made.numbers, batch.numbers))
        if not np.allclose(form.apply(released), m, rtol=1e-9, atol=1e-12 * np.abs(m).max(initial=0)):
            why = "some means are suppressed, or moved by the bounds or the codes for missing in the schema"
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C on these data: {why}.")
        return form


def units(batch: Batch, names: tuple[str, ...]) -> tuple[Labels, Labels]:
    """Return the row of each unit that the columns describe (a household's lowest id), and the unit of each record."""
    first, member = batch.members(names)
    if len(first) < len(member):
        order = np.argsort(-batch.ids, kind="stable")
        first = np.empty(len(first), np.int64)
        first[member[order]] = order
    return first, member


def _averaging(first: Labels, member: Labels, x: Numbers, labels: Labels) -> Any:
    """Return A, shape (n, n): each record's row spreads 1 over the units of its group."""
    from scipy.sparse import csr_array

    units, inside = np.arange(len(first)), labels >= 0
    count = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(labels[inside], minlength=count)
    belongs = csr_array((np.ones(inside.sum()), (units[inside], labels[inside])), shape=(len(first), count))
    shares = csr_array((1 / sizes[labels[inside]], (labels[inside], first[inside])), shape=(count, len(member)))
    return (belongs @ shares)[member]


def _whose(name: str, schema: Schema) -> str:
    return "households" if schema[name].level is Level.HOUSEHOLD and schema.one("household") else "records"


def _clear_of_codes(values: Numbers, attribute: Attribute) -> Numbers:
    """Return values none of which reads as a code for missing: the next one that does not, the same for a whole group."""
    codes = [c for c in attribute.missing if isinstance(c, int | float)]
    if not codes:
        return values
    low, high = attribute.bounds
    bottom, top = -math.inf if low is None else low, math.inf if high is None else high
    if attribute.integer:
        values, bottom, top = np.round(values), np.ceil(bottom), np.floor(top)
    new = np.clip(values, bottom, top)
    for way in (math.inf, -math.inf):  # up, and down again if that runs out of the bounds
        for _ in codes:
            step = new + math.copysign(1, way) if attribute.integer else np.nextafter(new, way)
            new = np.where(np.isin(new, codes), step, new)
        new = np.minimum(new, top)
    return new
