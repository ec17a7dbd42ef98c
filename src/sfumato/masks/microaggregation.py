"""Microaggregation: records are put into groups of at least k, and each group is released as one value."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, Scope, check_numbers, learned, numeric_targets, param
from sfumato.data import Kind
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names, plural, refuse_unknown
from sfumato.kernels.classes import centres, classes, consecutive, consecutive_within, number_codes
from sfumato.kernels.moments import is_constant, principal_axes
from sfumato.masks.column_settings import numeric_columns
from sfumato.schema import Attribute, Level, Schema
from sfumato.typing import Numbers, Whole


class Microaggregation(Mask, abstract=True):
    """Groups of at least k similar records, each released with the group's mean, median or mode.

    Columns that describe households are grouped among households (a household has the stratum of its first member), the
    others among records. Groups never cross strata (`within`) or patterns of missing values: records are grouped with
    records that have answers in the same columns.
    """

    scope: ClassVar[Scope] = Scope.BLOCK

    columns: tuple[str, ...] | None = numeric_columns("aggregate")
    k: int = param(
        default=3,
        doc="smallest number of records in a group",
        low=2,
        high=1e6,
        integer=True,
        scale="log",
        usual=(3, 100),
    )
    aggregate: Literal["mean", "median", "mode"] = param(default="mean", doc="what a group is released as")
    within: tuple[str, ...] | None = param(
        default=None, doc="columns of strata that groups do not cross", columns="many", holds="anything"
    )
    rare: Literal["refuse", "suppress"] = param(
        default="refuse",
        doc="what to do with fewer than k records that have the same stratum and the same columns answered",
    )
    names: Any = learned("columns", default=None)
    spread: Any = learned("columns", default=None)

    @abstractmethod
    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the group of each record, numbered from 0, each of at least k.

        x is standardised, shape (n, p), n >= k, without NaN; records come in the order of their ids, shape (n,).
        """

    @override
    def validate(self) -> None:
        self._check_apart(self.columns or ())

    def _check_apart(self, names: tuple[str, ...]) -> None:
        if both := [n for n in self.within or () if n in names]:
            raise ParameterError(f"within of {self.name} names columns that are aggregated: {join_names(both)}.")

    @property
    def keeps_missing(self) -> bool:  # type: ignore[override]
        """Whether nothing is suppressed."""
        return self.rare == "refuse"

    def together(self, names: tuple[str, ...], schema: Schema) -> list[tuple[str, ...]]:
        """Return the sets of columns that are grouped together."""
        return by_level(schema, names)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the mean and the standard deviation of each column, so that columns count equally in distances."""
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
        """Refuse a column with fewer than k values."""
        if not count:
            raise DataError(f"column '{name}' has no values at all, so there is nothing to aggregate.")
        if count < self.k:
            raise DataError(f"k = {self.k} is more than the number of records with a value in '{name}'. Lower k.")

    def _spread(self, name: str, values: Numbers) -> tuple[float, float]:
        known = np.sort(values[~np.isnan(values)])  # sums depend on the order of their terms
        self.check_enough(name, len(known))
        with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values are refused below
            mean, variance = np.asarray(np.mean(known)), np.asarray(np.var(known, ddof=1))
        if not np.isfinite(variance):
            raise DataError(
                f"column '{name}' holds infinite values, or values too large to square. Set them to missing."
            )
        return float(mean), 1.0 if is_constant(mean, variance) else float(np.sqrt(variance))

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
        """Refuse records whose columns do not hold numbers."""
        check_numbers(batch, self.names)

    def read(self, batch: Batch, name: str) -> Numbers:
        """Return a column as numbers, NaN where missing."""
        return batch.numbers(name)

    def write(self, batch: Batch, name: str, values: Numbers) -> Batch:
        """Return the batch with a column's values replaced; NaN where missing or suppressed."""
        attribute = batch.schema[name]
        return batch.replace(name, lambda: _clear_of_codes(values, attribute))

    def centres(self, x: Numbers, labels: Whole, names: tuple[str, ...], schema: Schema) -> Numbers:
        """Return the released values of each group, shape (g, p)."""
        return centres(x, labels, self.aggregate)

    def grouped(self, batch: Batch, names: tuple[str, ...], draws: Draws) -> tuple[Whole, Whole, Numbers, Whole]:
        """Return one row per unit, the unit of each record, the units' numbers, and their groups (-1: none)."""
        first, member = units(batch, names)
        x = np.column_stack([self.read(batch, name)[first] for name in names])
        strata = [batch.column(name).codes[0][first] for name in self.within or ()]
        block, sizes = classes([*strata, *np.isnan(x).astype(np.int64).T], len(first))
        unknown = np.isnan(x).all(axis=1)
        lonely = ~unknown & (sizes[block] < self.k)
        if count := int(lonely.sum()):
            whose = _whose(names[0], batch.schema)
            if self.rare == "refuse" or (lonely | unknown).all():
                raise DataError(
                    f"{plural(count, whose.removesuffix('s'))} {'has' if count == 1 else 'have'} fewer than k = {self.k} {whose} in "
                    f"their stratum with the same columns answered among {join_names(names)}. Lower k, use coarser strata or "
                    "fewer columns" + (", or set rare = 'suppress'." if self.rare == "refuse" else ".")
                )
        labels = np.full(len(first), -1, np.int64)
        rows = np.flatnonzero(~(unknown | lonely))
        rows = rows[np.lexsort([batch.ids[first[rows]], block[rows]])]
        labels[rows] = self.labels(x[rows], names, block[rows], batch.ids[first[rows]], draws)
        return first, member, x, labels

    def labels(self, x: Numbers, names: tuple[str, ...], block: Whole, ids: Whole, draws: Draws) -> Whole:
        """Return the group of each unit, numbered from 0; units come by block (n,), and by id within a block."""
        labels = np.empty(len(x), np.int64)
        centre, scale = np.array([self.spread[n] for n in names]).T
        x = (x - centre) / scale
        cuts = np.flatnonzero(np.r_[True, block[1:] != block[:-1], True]) if len(x) else np.zeros(1, np.int64)
        used = 0
        for start, end in pairwise(cuts.tolist()):
            if end - start < 2 * self.k:  # one group, with every method
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

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: Whole, draws: Draws) -> Whole:
        """Return `groups`, for methods that need the names of the columns."""
        return self.groups(x, ids, draws)

    # -- guarantees

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify on the released values that each combination is shared by at least k records or households."""
        suppressed = 0
        beside = [*(self.within or ()), *filter(None, [after.schema.one("household")])]
        where = f" of one stratum ({join_names(self.within)})" if self.within else ""
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
                    f"some released values of {join_names(names)} are shared by fewer than {self.k} {whose}; nothing is released."
                )
            says = f"{join_names(names)}: every released {what} is shared by at least {self.k} {whose}{where}"
            how = f"released values counted; the smallest group has {smallest if known.any() else 0:,}"
            yield Guarantee(step, says, how)
        if suppressed:
            says = f"{suppressed:,} values are suppressed (rare = 'suppress')"
            yield Guarantee(step, says, "missing values counted")

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the block averaging of records as A (matrix-masking paper, section IV: aggregation across records)."""
        sets = self.together(self.names, data.schema)
        names = sets[0]
        whole = [n for n in self.names if data.schema[n].integer]
        batch = data.batch()
        if why := (
            f"{self.aggregate}s are not linear in the data"
            if self.aggregate != "mean"
            else "it also changes columns of categories"
            if any(data.kind(n) is not Kind.NUMBER for n in self.names)
            else "it aggregates columns over different groups (attribute-specific aggregation over records)"
            if len(sets) > 1
            else f"the means of {join_names(whole)} are rounded to whole numbers"
            if whole
            else "some values are missing"
            if any(batch.missing(n).any() for n in names)
            else ""
        ):
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C: {why}.")
        form = MatrixForm(names, names, A=_averaging(*self.grouped(batch, names, draws)), depends=("A",))
        made = self.transform(batch, draws)
        m, released = (np.column_stack([b(n) for n in names]) for b in (made.numbers, batch.numbers))
        if not np.allclose(form.apply(released), m, rtol=1e-9, atol=1e-12 * np.abs(m).max(initial=0)):
            why = "some means are suppressed, or moved by the bounds or the codes for missing in the schema"
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C on these data: {why}.")
        return form


def units(batch: Batch, names: tuple[str, ...]) -> tuple[Whole, Whole]:
    """Return the row of each unit that the columns describe (a household's lowest id), and the unit of each record."""
    first, member = batch.members(names)
    if len(first) < len(member):
        order = np.argsort(-batch.ids, kind="stable")
        first = np.empty(len(first), np.int64)
        first[member[order]] = order
    return first, member


def _averaging(first: Whole, member: Whole, x: Numbers, labels: Whole) -> Any:
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
    """Return values of which none is a code for missing: such a value is moved to the next one, the same for a whole group."""
    codes = [c for c in attribute.missing if isinstance(c, int | float)]
    if not codes:
        return values
    low, high = attribute.bounds
    bottom, top = -math.inf if low is None else low, math.inf if high is None else high
    if attribute.integer:
        values, bottom, top = np.round(values), np.ceil(bottom), np.floor(top)
    new = np.clip(values, bottom, top)
    for way in (math.inf, -math.inf):  # up, and down if that passes the upper bound
        for _ in codes:
            step = new + math.copysign(1, way) if attribute.integer else np.nextafter(new, way)
            new = np.where(np.isin(new, codes), step, new)
        new = np.minimum(new, top)
    return new


class MDAV(Microaggregation):
    """Groups of k records that are close in all columns at once, taken from the outside in; the last has up to 2k - 1.

    While 3k or more records remain: group the record farthest from their mean with its k - 1 nearest, then the record farthest
    from that one with its k - 1 nearest. The records that remain form one or two groups. Distances are Euclidean on standardised
    columns, and ties go to the lower record number. Domingo-Ferrer and Torra (2005), section 3; Hundepool et al. (2003).

    With `within`, or where answers are missing, each stratum or pattern of answers is treated as a separate file: groups differ
    from those of the whole file, and lose more, since close records in different strata are not grouped together.
    """

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return groups of k, from the outside in."""
        return kernels.microaggregation.mdav(x, self.k)


class VMDAV(Microaggregation):
    """Groups of k records, taken from the outside in, that take in further records which are close to them: up to 2k - 1.

    While k or more records remain: group the record farthest from the mean of all with its k - 1 nearest. The free record
    closest to the group joins it if its distance to the group is below gamma times its distance to the next free record. If
    fewer than k remain at the end, each joins the group with the closest mean. Solanas and Martínez-Ballesté (2006), who advise
    gamma = 0.2 for scattered data and 1.1 for data in clusters. Distances, ties and strata as in MDAV.
    """

    gamma: float = param(
        default=0.2,
        doc="how readily a group takes in a further record: 0 never, 0.2 for scattered data, 1.1 for clusters",
        low=0,
        high=10,
    )

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return groups of k to 2k - 1, from the outside in; remaining records join the closest group."""
        return kernels.microaggregation.v_mdav(x, self.k, self.gamma)


# --- Individual ranking: each column is sorted and averaged separately, k values at a time.


class UnivariateMicroaggregation(Microaggregation, abstract=True):
    """Each column is grouped on its own, in the order of its values, so a record has other companions in every column.

    Groups hold neighbours in the order, so the order is kept, unless strata are aggregated separately.
    """

    @property
    def preserves_order(self) -> bool:  # type: ignore[override]
        """Whether the order is kept: yes, without strata."""
        return not self.within

    def together(self, names: tuple[str, ...], schema: Schema) -> list[tuple[str, ...]]:
        """Return each column by itself."""
        return [(name,) for name in names]

    def labels(self, x: Numbers, names: tuple[str, ...], block: Whole, ids: Whole, draws: Draws) -> Whole:
        """Return the group of each unit; they are sorted here, since standard units may be too coarse to separate values."""
        order = np.lexsort([x[:, 0], block])
        labels = np.empty(len(x), np.int64)
        labels[order] = super().labels(x[order], names, block[order], ids[order], draws)
        return labels


class IndividualRanking(UnivariateMicroaggregation):
    """The values of a column are sorted and taken k at a time; the middle group has up to 2k - 1 (Defays and Nanopoulos 1993).

    The larger group is where values are closest; at the upper end of an amount it would cause most of the loss. Equal values
    are taken in the order of the records. The method keeps most of the information and protects least: a value is hidden only
    among its neighbours, so a snooper sees nearly the original value.
    """

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return runs of k along the sorted values."""
        return consecutive(np.argsort(x[:, 0], kind="stable"), self.k)

    def labels(self, x: Numbers, names: tuple[str, ...], block: Whole, ids: Whole, draws: Draws) -> Whole:
        """Return the runs of all blocks at once: a file may have a hundred thousand strata."""
        return consecutive_within(np.lexsort([x[:, 0], block]), block, self.k)


class OptimalUnivariate(UnivariateMicroaggregation):
    """Each column on its own, in groups of at least k with the least sum of squares about the means (Hansen, Mukherjee 2003).

    Group sizes run from k to 2k - 1; groups do not cross a gap between values unnecessarily. Never loses more than individual
    ranking. The groups are optimal for means; medians and modes are released for the same groups.
    """

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the groups on the shortest path through the values, which come sorted."""
        return kernels.microaggregation.optimal_groups(x[:, 0], self.k)


_LINES = ("pca", "zscores")


class ProjectionMicroaggregation(Microaggregation):
    """Records are sorted by their first principal component, sum of z-scores, or one column, and taken k at a time.

    Defays and Nanopoulos (1993); Mateo-Sanz and Domingo-Ferrer (1998). As fast as sorting; the groups are tight along the line
    and loose across it, so it suits closely related columns. Each stratum has its own component.
    """

    by: str = param(
        default="pca",
        doc="what to sort by: 'pca' (first principal component), 'zscores' (their sum), or a masked column",
        of_data="nothing",
    )

    @override
    def validate(self) -> None:
        super().validate()
        if not isinstance(self.by, str) or not self.by:
            raise ParameterError(f"by of {self.name} must be 'pca', 'zscores' or the name of a masked column.")
        if self.columns is not None:
            self._check_by(self.columns)

    def _check_by(self, names: tuple[str, ...]) -> None:
        refuse_unknown("by", (*_LINES, *names), "what records can be sorted by", self.by)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the scale of each column."""
        fitted = super().fit(data, draws)
        self._check_by(fitted.names)
        return fitted

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: Whole, draws: Draws) -> Whole:
        """Sort by the column; by the component if the column is missing here or describes another level."""
        if self.by in names and self.by not in _LINES:
            return consecutive(np.argsort(x[:, names.index(self.by)], kind="stable"), self.k)
        return self.groups(x, ids, draws)

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return runs of k along the line."""
        score = x.sum(axis=1) if self.by == "zscores" else first_component(x)
        return consecutive(np.argsort(score, kind="stable"), self.k)


def first_component(x: Numbers) -> Numbers:
    """Return the first principal component of x (n, p), shape (n,); its sign is fixed."""
    if x.shape[1] == 1:
        return x[:, 0]
    centred = x - x.mean(axis=0)
    _, axes = principal_axes(centred.T @ centred)
    return np.asarray(centred @ axes[:, 0])


class ClusterMicroaggregation(Microaggregation):
    """Records are clustered by k-means, and grouped within their cluster by MDAV or along its first principal component.

    For data of different kinds (Templ, Meindl and Kowarik 2015): each cluster then has its own component, and MDAV has less
    to search. A cluster of fewer than k records joins the nearest one. No random start: the same data give the same groups.
    """

    clusters: int = param(
        default=10,
        doc="number of clusters, at most one for every k records",
        low=1,
        high=1e4,
        integer=True,
        scale="log",
    )
    grouping: Literal["mdav", "projection"] = param(default="mdav", doc="how groups are formed within a cluster")

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the groups of all clusters."""
        cluster = kernels.microaggregation.merge_small(
            x, kernels.microaggregation.k_means(x, min(self.clusters, len(x) // self.k)), self.k
        )
        labels = np.empty(len(x), np.int64)
        used = 0
        for rows in np.split(np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster))[:-1]):
            found = self._within(x[rows])
            labels[rows] = found + used
            used += int(found.max()) + 1
        return labels

    def _within(self, x: Numbers) -> Whole:
        if self.grouping == "mdav":
            return kernels.microaggregation.mdav(x, self.k)
        return consecutive(np.argsort(first_component(x), kind="stable"), self.k)


class RobustMicroaggregation(Microaggregation):
    """MDAV groups in robust Mahalanobis distance (Templ and Meindl 2008), so that outliers do not set the scale for the rest.

    The scatter is learned once from all complete records (orthogonalised Gnanadesikan-Kettenring; Maronna and Zamar 2002);
    directions without scatter do not count. With grouping = "projection" the records are sorted along the first robust
    principal component instead.
    """

    grouping: Literal["mdav", "projection"] = param(default="mdav", doc="how groups are formed in the robust metric")
    scatter: Any = learned("columns", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn location and scatter of each set of columns, in standard units."""
        fitted = super().fit(data, draws)
        scatter = {}
        household = filter(None, [data.schema.one("household")])
        for names in self.together(fitted.names, data.schema):
            batch = data.batch(list(dict.fromkeys([*names, *household])))
            first, _ = units(batch, names)
            first = first[np.argsort(batch.ids[first], kind="stable")]  # sums depend on the order of their terms
            centre, scale = np.array([fitted.spread[n] for n in names]).T
            x = (np.column_stack([batch.numbers(n)[first] for n in names]) - centre) / scale
            if (count := int((~np.isnan(x).any(axis=1)).sum())) <= len(names):
                raise DataError(
                    f"only {count:,} records have all of {join_names(names)}, too few to find their scatter. Name fewer columns."
                )
            scatter[names] = kernels.moments.robust_location_scatter(x)
        return fitted.learn(scatter=scatter)

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: Whole, draws: Draws) -> Whole:
        """Return the groups of the whitened records; x has the answered columns of one set."""
        whole = next(s for s in self.scatter if set(names) <= set(s))
        at = [whole.index(n) for n in names]
        centre, scatter = self.scatter[whole]
        centre, scatter = centre[at], scatter[np.ix_(at, at)]
        if self.grouping == "mdav":
            return self.groups(kernels.moments.whitened(x, centre, scatter), ids, draws)
        _, axes = kernels.moments.principal_axes(scatter)
        return consecutive(np.argsort((x - centre) @ axes[:, 0], kind="stable"), self.k)

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return MDAV's groups of whitened records."""
        return kernels.microaggregation.mdav(x, self.k) if x.shape[1] else consecutive(np.arange(len(x)), self.k)
