"""Aggregation across records and across attributes (matrix-masking paper, section IV)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, Scope, check_numbers, learned, numeric_targets, param
from sfumato.data import Batch, Column, Microdata, Rows
from sfumato.errors import DataError, ParameterError, SchemaError, join_names
from sfumato.kernels.classes import classes
from sfumato.masks.column_settings import numeric_columns
from sfumato.schema import Attribute, Level, Role, Schema
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class AggregateColumns(Mask):
    """Release a total of several columns in place of them: total income instead of salary, business and interest income.

    The total is missing where one of its parts is. Columns that follow a part are removed with it.
    """

    keeps_missing: ClassVar[bool] = False

    columns: tuple[str, ...] = param(doc="the parts: columns of numbers that are added up", columns="many")
    total: str = param(default="total", doc="name of the released total", of_data="nothing")
    weights: Mapping[str, float] | None = param(
        default=None, doc="factor of each part; 1 for all if none are given", columns="weights", of_data="nothing"
    )
    parts: Literal["drop", "keep"] = param(default="drop", doc="whether the parts themselves are released too")

    @override
    def validate(self) -> None:
        if len(self.columns) < 2:
            raise ParameterError("a total needs at least two columns to add up.")
        if not isinstance(self.total, str) or not self.total:
            raise ParameterError("total must be the name of the released column.")
        if self.parts == "keep" and self.total in self.columns:
            raise ParameterError(f"'{self.total}' is one of the parts, which are kept: give the total another name.")
        if self.weights is not None and set(self.weights) != set(self.columns):
            wrong = sorted({*self.weights} ^ {*self.columns})
            raise ParameterError(f"weights must name the same columns as columns; look at {join_names(wrong)}.")
        if self.weights is not None and not all(self.weights.values()):
            raise ParameterError("a part with weight 0 does not enter the total. Leave it out of columns.")

    @property
    def form(self) -> MatrixForm:
        """The mask as XB: one column of weights, after those of the identity if the parts are kept."""
        factor = np.array([[1.0 if self.weights is None else self.weights[name]] for name in self.columns])
        if self.parts == "drop":
            return MatrixForm(self.columns, (self.total,), B=factor)
        return MatrixForm(self.columns, (*self.columns, self.total), B=np.hstack([np.eye(len(self.columns)), factor]))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return B."""
        check_numbers(data.batch(self.columns), self.columns)
        return self.form

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema with the total, and without the parts unless they are kept."""
        parts = [schema[name] for name in self.columns]
        gone = schema.with_followers(self.columns) if self.parts == "drop" else ()
        kept = schema.keep(lambda a: a.name not in gone)
        if self.total in kept:
            raise SchemaError(f"the data have a column '{self.total}' already. Choose another name for the total.")
        units = {a.unit for a in parts}
        level = Level.HOUSEHOLD if all(a.level is Level.HOUSEHOLD for a in parts) else Level.PERSON
        unit = units.pop() if len(units) == 1 else ""
        return Schema((*kept, Attribute(self.total, Role.CONFIDENTIAL, unit=unit, level=level)))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add up the parts."""
        check_numbers(batch, self.columns)
        total = self.form.apply(np.column_stack([batch.numbers(name) for name in self.columns]))[:, -1]
        after = self.schema_after(batch.schema)
        columns = {**batch.rows.columns, self.total: Column.from_numbers(total, np.isnan(total))}
        return Batch(Rows(batch.ids, {name: columns[name] for name in after.names()}), after)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify the total, and that the parts are gone."""
        total = after.numbers(self.total)
        if not _adds_up(self.form, before, total):
            raise DataError(f"'{self.total}' is not the total of its parts; nothing is released.")
        if len(total) and np.isnan(total).all():
            raise DataError(
                f"no record has a value in all of {join_names(self.columns)}, so no total; nothing is released."
            )
        if np.isinf(total).any():
            raise DataError(f"some parts of '{self.total}' are infinite or too large to add up; nothing is released.")
        left = [n for n in self.columns if n in after.schema and n != self.total]
        if self.parts == "drop" and left:
            raise DataError(f"parts of the total are still there: {join_names(left)}; nothing is released.")
        said = f"{self.total} is released in place of {join_names(self.columns)}"
        if self.parts == "keep":
            said = f"{self.total} is released beside its parts {join_names(self.columns)}: this hides nothing"
        return (Guarantee(step, said, "the total of every record compared with its parts; columns looked up"),)


def _adds_up(form: MatrixForm, before: Microdata, total: Numbers) -> bool:
    wanted = form.apply(np.column_stack([before.numbers(name) for name in form.names]))[:, -1]
    return bool(np.allclose(wanted, total, rtol=1e-9, atol=0, equal_nan=True))


# --- Aggregation across records: M = AX, one released record for each group of records (matrix-masking paper, section IV).


class RecordAggregation(Mask, abstract=True):
    """Groups of at least k records, each released as one record that holds the group's means.

    All chosen columns are averaged over the same groups, so the mask is M = AX. The file then holds these columns, the strata
    (`within`) and the survey weight, if there is one: means are weighted, and the weights of a group are added, so weighted
    totals do not change. Groups never cross strata, nor mix records with answers in different columns. If a column
    describes the household, groups have at least k households.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    random: ClassVar[tuple[str, ...]] = ()

    columns: tuple[str, ...] | None = numeric_columns("average and to release")
    k: int = param(
        default=3,
        doc="smallest number of records (or households, where columns describe them) in a group",
        low=2,
        high=1e6,
        integer=True,
        scale="log",
    )
    within: tuple[str, ...] | None = param(
        default=None, doc="columns of strata that groups do not cross; released too", columns="many", holds="anything"
    )
    rare: Literal["refuse", "suppress"] = param(
        default="refuse",
        doc="what to do with fewer than k records that have the same stratum and the same columns answered",
    )
    names: Any = learned("columns", default=None)

    @override
    def validate(self) -> None:
        if both := sorted({*(self.columns or ())} & {*(self.within or ())}):
            raise ParameterError(f"{join_names(both)} cannot be both averaged (columns) and a stratum (within).")

    @abstractmethod
    def order(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the order in which records (n, p), without missing values, are put into groups of k, shape (n,)."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the columns, and refuse those that cannot be averaged."""
        names = tuple(n for n in numeric_targets(self.columns, data) if n not in (self.within or ()))
        for name in self.within or ():
            data.kind(name)
        if not names:
            raise DataError("no column is left to average: all of them are strata (within). Name others in columns=.")
        if self.k > len(data):
            raise DataError(f"k = {self.k} is more than the number of records. Lower k.")
        if empty := [n for n in names if not data.moments((n,)).count]:
            raise DataError(f"{join_names(empty)}: no record has a value there, so there is nothing to average.")
        if (weight := data.schema.one("weight")) in names:
            raise DataError(
                f"'{weight}' is the survey weight, which is added up, not averaged. Leave it out of columns."
            )
        return self.learn(names=names)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        weight = schema.one("weight")
        averaged = self.names or super().touches(schema)
        return tuple(dict.fromkeys((*averaged, *(self.within or ()), *((weight,) if weight else ()))))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the released schema: means need not be whole, and describe no single household."""
        averaged, weight = {*self.touches(schema)} - {*(self.within or ())}, schema.one("weight")

        def after(a: Attribute) -> Attribute:
            if a.name == weight:
                return a.with_(level=Level.PERSON, bounds=(None, None), missing=())
            if a.name in averaged:
                return a.with_(level=Level.PERSON, integer=False, missing=(), labels={}, follows=None)
            return a.with_(level=Level.PERSON)

        return Schema(tuple(after(a) for a in schema.keep(lambda a: a.name in self.touches(schema))))

    def groups(self, batch: Batch, draws: Draws) -> Whole:
        """Return the group of each record, numbered from 0; -1 for a record that is in none, shape (n,)."""
        x, unit, blocks = self._blocks(batch)
        small = self._rare(unit, blocks)
        if small and (self.rare == "refuse" or small == len(batch)):
            raise DataError(
                f"{small:,} records share their stratum and the columns they answered among {join_names(self.names)} with fewer "
                f"than k = {self.k}. Lower k, use coarser strata, or set rare = 'suppress' to release the others only."
            )
        label, count = np.full(len(batch), -1, np.int64), 0
        for rows in blocks:
            ids, member, sizes = np.unique(unit[rows], return_inverse=True, return_counts=True)
            if len(ids) >= self.k:
                known = x[rows][:, ~np.isnan(x[rows[0]])]
                centres = np.zeros((len(ids), known.shape[1]))
                for j, column in enumerate(known.T):
                    centres[:, j] = np.bincount(member, column) / sizes
                place = np.arange(len(ids)) // self.k
                group = np.empty(len(ids), np.int64)
                # remaining units join the last group
                group[self.order(centres, ids, draws)] = count + np.minimum(place, place[-self.k])
                if np.bincount(group - count).min() < self.k:
                    raise DataError(f"a group has fewer than k = {self.k} members; nothing is released.")
                label[rows] = group[member]
                count += len(ids) // self.k
        return label

    def _blocks(self, batch: Batch) -> tuple[Numbers, Whole, list[Whole]]:
        """Return the numbers (n, p), the unit of each record, and the records by stratum and answered columns.

        If a column describes the household, its members count as one: k of them would reveal its value.
        """
        x = np.column_stack([batch.numbers(name) for name in self.names])
        if wild := [n for n, column in zip(self.names, x.T, strict=True) if np.isinf(column).any()]:
            raise DataError(f"{join_names(wild)}: some values are infinite. Set them to missing.")
        codes = [batch.column(name).codes[0] for name in self.within or ()]
        block, sizes = classes([*codes, *(np.isnan(column).astype(np.int64) for column in x.T)], len(batch))
        order = np.lexsort([batch.ids, block])  # by id, so that groups do not depend on the order of the rows
        shared = [n for n in self.names if batch.schema[n].level is Level.HOUSEHOLD]
        unit = batch.units([*shared, *self.names][0])
        return x, unit, np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []

    def _rare(self, unit: Whole, blocks: list[Whole]) -> int:
        """Return how many records are in blocks of fewer than k."""
        return sum(len(rows) for rows in blocks if len(np.unique(unit[rows])) < self.k)

    def _averaging(self, batch: Batch, draws: Draws) -> tuple[csr_array, Whole]:
        """Return A, shape (groups, n), and the group of each record."""
        from scipy.sparse import csr_array

        label = self.groups(batch, draws)
        inside = np.flatnonzero(label >= 0)
        group, weight = label[inside], _weights(batch)[inside]
        total = np.bincount(group, weight)
        return csr_array((weight / total[group], (group, inside)), shape=(len(total), len(batch))), label

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Average the records of each group."""
        check_numbers(batch, self.names)
        A, label = self._averaging(batch, draws)
        after = self.schema_after(batch.schema)
        means = MatrixForm(self.names, self.names, A=A).apply(
            np.column_stack([batch.numbers(name) for name in self.names])
        )
        _, first = np.unique(label, return_index=True)
        columns = dict(batch.keep(first[-A.shape[0] :] if A.shape[0] else first[:0]).rows.columns)
        for name, column in zip(self.names, means.T, strict=True):
            # a mean lies within the bounds, except for rounding of its last digit
            columns[name] = Column.from_numbers(_within(column, after[name]), np.isnan(column))
        if weight := batch.schema.one("weight"):
            w, inside = _weights(batch), label >= 0
            lost = w.sum() / w[inside].sum() if inside.any() else 1.0
            columns[weight] = Column.from_numbers(lost * np.bincount(label[inside], w[inside], A.shape[0]))
        ids = -1 - np.arange(A.shape[0], dtype=np.int64)
        return Batch(Rows(ids, {name: columns[name] for name in after.names()}), after)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A: a row for each group, with its members' shares of the mean."""
        A, _ = self._averaging(data.batch(), draws)
        return MatrixForm(self.names, self.names, A=A, random=self.random, depends=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify the number of released records, and the weighted totals if no record was suppressed."""
        n, r = len(before), len(after)
        if r * self.k > n:
            raise DataError(f"{r:,} released records cannot be averages of {self.k} each; nothing is released.")
        shared = any(before.schema[name].level is Level.HOUSEHOLD for name in self.names)
        whom = "households" if shared else "records"
        says = (
            f"{join_names(self.names)}: each of the {r:,} released records is an average over at least {self.k} {whom}"
        )
        said = [Guarantee(step, says, f"groups counted as they were formed, out of {n:,} records")]
        suppressed = self._rare(*self._blocks(before.batch())[1:])
        if suppressed:
            says = f"{suppressed:,} records are suppressed, since fewer than {self.k} share their stratum and answered columns"
            said.append(Guarantee(step, says, "records counted; the weights of the others make up for them"))
        weight = before.schema.one("weight")
        if weight and not suppressed:
            for name in self.names:
                totals = [float(np.nansum(data.numbers(name) * data.numbers(weight))) for data in (before, after)]
                size = float(np.nansum(np.abs(before.numbers(name) * before.numbers(weight))))
                if abs(totals[0] - totals[1]) > 1e-9 * size:
                    raise DataError(f"the weighted total of '{name}' is not kept; nothing is released.")
            says = f"{join_names(self.names)}: weighted totals are those of the original records"
            said.append(Guarantee(step, says, "totals compared"))
        return tuple(said)


class AggregateRecords(RecordAggregation):
    """Averages over groups of k similar records, one released record for each group.

    Records are similar if they are adjacent along the first principal component of the standardised columns. Unlike
    microaggregation, which gives every record its group's mean, this releases n/k records.
    """

    def order(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the records along the first principal component; ties by id."""
        return np.lexsort([ids, first_component(x)])


def first_component(x: Numbers) -> Numbers:
    """Return the scores on the first principal component of the standardised columns, shape (n,)."""
    if not x.shape[1]:
        return np.zeros(len(x))
    x = x / np.maximum(np.abs(x).max(axis=0), 1e-300)  # huge values could not be squared
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 1e-13, spread, 1.0)
    vector = np.linalg.eigh(z.T @ z)[1][:, -1]
    leading = vector[np.abs(vector) > 1e-6 * np.abs(vector).max()][0]  # its sign must not depend on rounding
    return np.asarray(z @ vector * np.sign(leading))


def _within(means: Numbers, attribute: Attribute) -> Numbers:
    low, high = attribute.bounds
    return np.clip(means, -np.inf if low is None else low, np.inf if high is None else high)


def _weights(batch: Batch) -> Numbers:
    """Return the survey weights, or ones if there are none; refuse those that are not positive numbers."""
    name = batch.schema.one("weight")
    if name is None:
        return np.ones(len(batch))
    weight = batch.numbers(name)
    if wrong := int((~(weight > 0) | np.isinf(weight)).sum()):  # a weight of 0 would leave an average over fewer than k
        raise DataError(
            f"the survey weight '{name}' is zero, negative, missing or infinite for {wrong:,} records. Correct them."
        )
    return weight


class RandomAggregation(RecordAggregation):
    """Averages over groups of k records drawn at random, one released record for each group.

    Means are kept. The variance of an average over k random records is one k-th of the original, so an analyst who knows k
    can correct it on average. Correlations are those of the original records, up to sampling.
    Source: matrix-masking paper, section IV.
    """

    random: ClassVar[tuple[str, ...]] = ("A",)

    def order(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return a random order, keyed by record id."""
        return np.argsort(draws.uniforms(ids, "group"), kind="stable")

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A, which depends on the data only if strata or missing answers separate records."""
        form = super().matrices(data, draws)
        batch = data.batch(form.names)
        apart = bool(self.within) or any(batch.missing(name).any() for name in form.names)
        return form if apart else replace(form, depends=())
