"""Adding simulated records: a snooper who finds a match does not know whether it is a person."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, Scope, param
from sfumato.data import Batch, Column, Kind, Microdata, Rows
from sfumato.data.households import unit_ids
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.kernels.moments import covariance_root
from sfumato.masks.record_choice import among, at_key, checked_weights, combined, free_weights, unchanged_numbers
from sfumato.schema import Level, Scale, Schema
from sfumato.typing import Numbers, Whole

ATTEMPTS = 100


class AddSimulatedRecords(Mask):
    """Add records drawn from a model of the data (matrix-masking paper, section IV: M = AX + C, with rows of A that are zero).

    model = 'independent' draws every column from its own random record, so margins are kept and relations are not.
    model = 'normal' draws the numbers jointly from a normal distribution with the means and covariances of the data, and the
    categories of each level from one random record. Simulated households have the sizes of real ones and new numbers. No
    simulated record is a copy of a real one. Survey weights are drawn too; then all weights are scaled down so that their
    sum does not change.
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    preserves_order: ClassVar[bool] = True

    share: float | None = param(
        default=None,
        doc="simulated records per real record; 0.05 if no count is given",
        low=0,
        above=True,
        high=100,
        scale="log",
    )
    count: int | None = param(
        default=None, doc="how many records to add, instead of a share", low=1, high=1e9, integer=True, scale="log"
    )
    model: Literal["independent", "normal"] = param(default="independent", doc="what they are drawn from")

    @override
    def validate(self) -> None:
        if self.share is not None and self.count is not None:
            raise ParameterError("give add_simulated_records a share or a count, not both.")

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return schema.names()

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema, where survey weights need no longer be whole."""
        return free_weights(schema)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw the simulated records and put them after the real ones."""
        checked_weights(batch)
        order = np.argsort(batch.ids, kind="stable")
        real = batch.keep(order)
        ids, units = _new_units(real, self._number(len(real)), draws)
        made, donors = self._simulated(real, ids, units, draws)
        return _stacked(batch, made, {name: order[rows] for name, rows in donors.items()}, units)

    def _number(self, n: int) -> int:
        if not n:
            raise DataError("the data have no records, so there is nothing to draw simulated ones from.")
        share = 0.05 if self.share is None else self.share
        count = self.count or int(np.floor(share * n + 0.5))
        if not count:
            raise DataError(f"{share:g} simulated records for each of {n:,} real ones make none. Raise the share.")
        return count

    def _simulated(self, real: Batch, ids: Whole, units: Whole, draws: Draws) -> tuple[Batch, dict[str, Whole]]:
        """Draw the records and their donors; a household that holds a copy of a real record is drawn again."""
        compared = _compared(real.schema)
        known = np.sort(combined(real, compared))
        names = list(real.rows.columns)
        donors = {name: np.zeros(len(ids), np.int64) for name in names}
        numbers = {name: np.zeros(len(ids)) for name in (_gaussian(real) if self.model == "normal" else ())}
        pending = np.arange(len(ids))
        for attempt in range(ATTEMPTS):
            own = draws.child("attempt", attempt)
            self._draw(real, ids, units, pending, own, donors, numbers)
            batch = _made(real, ids, donors, numbers)
            copies = at_key(known, combined(batch, compared)) >= 0
            if not copies.any():
                return batch, {name: rows for name, rows in donors.items() if name not in numbers}
            pending = np.flatnonzero(among(units, units[copies]))
        raise DataError(
            f"{int(copies.sum()):,} simulated records came out as copies of real ones in all of {ATTEMPTS} attempts: the "
            "columns have too few combinations of values. Add fewer records, use model = 'normal', or mask the keys first."
        )

    def _draw(
        self,
        real: Batch,
        ids: Whole,
        units: Whole,
        at: Whole,
        draws: Draws,
        donors: dict[str, Whole],
        numbers: dict[str, Numbers],
    ) -> None:
        """Draw a donor for each column of the records at positions `at`, and the normal numbers."""
        schema, n = real.schema, len(real)
        for name in donors:
            key = _root(schema, name)
            shared = schema[key].level is Level.HOUSEHOLD or schema[key].role == "weight"
            label = key if self.model == "independent" else "household" if shared else "person"
            u = draws.uniforms((units if shared else ids)[at], f"donor {label}")
            donors[name][at] = np.minimum((u * n).astype(np.int64), n - 1)
        if numbers:
            mean, root = _normal_model(real, tuple(numbers))
            levels = [schema[name].level is Level.HOUSEHOLD for name in numbers]
            z = [
                draws.normals((units if shared else ids)[at], f"normal {name}")
                for name, shared in zip(numbers, levels, strict=True)
            ]
            for j, name in enumerate(numbers):
                numbers[name][at] = mean[j] + sum(root[j, i] * z[i] for i in range(j + 1))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A = (I, 0)' and C with the simulated numbers below zeros; weights are not in X."""
        from scipy.sparse import csr_array

        made, n, names = self.run(data, draws).batch(), len(data), unchanged_numbers(data)
        c = np.column_stack([made.numbers(name) for name in names])
        c[:n] = 0.0
        ends = np.concatenate([np.arange(n + 1), np.full(len(made) - n, n)])
        a = csr_array((np.ones(n), np.arange(n), ends), shape=(len(made), n))
        return MatrixForm(names, names, A=a, C=c, random=("C",), depends=("C",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that the real records are untouched, that no simulated one is a copy, and the sum of the weights."""
        schema, (old, new) = before.schema, (before.batch(), after.batch())
        compared, household = _compared(schema), schema.one("household")
        fresh = ~among(new.ids, old.ids)
        real, made = new.keep(~fresh), new.keep(fresh)
        whole = tuple(n for n in schema.names() if schema[n].role != "weight")
        places = [np.argsort(b.ids, kind="stable") for b in (old, real)]
        if not np.array_equal(combined(old, whole)[places[0]], combined(real, whole)[places[1]]):
            raise DataError("a real record was changed; nothing is released.")
        if (made.ids >= 0).any() or among(combined(made, compared), combined(old, compared)).any():
            raise DataError("a simulated record is a copy of a real one; nothing is released.")
        if household and among(made.column(household).hashes, old.column(household).hashes).any():
            raise DataError("a simulated household has the number of a real one; nothing is released.")
        says = f"{len(made):,} simulated records are among {len(new):,}; none is a copy of a real one"
        said = [Guarantee(step, says, "all simulated records compared with all real ones")]
        weights = checked_weights(old)
        if weights is not None:
            if not np.isclose(float(checked_weights(new).sum()), float(weights.sum()), rtol=1e-9):  # type: ignore[union-attr]
                raise DataError("the survey weights do not add up to what they were; nothing is released.")
            says = "the survey weights of real and simulated records together add up to those of the real ones before"
            said.append(Guarantee(step, says, "the sums of the weights compared"))
        return tuple(said)


def _compared(schema: Schema) -> tuple[str, ...]:
    """Return the columns in which simulated and real records are compared."""
    return tuple(a.name for a in schema if a.role not in ("household", "weight"))


def _root(schema: Schema, name: str) -> str:
    """Return the last column in the chain that a column follows: both are drawn from one record and stay consistent.

    All columns of a formula have one: that of the first of them.
    """
    seen = {name}
    while True:
        beside = (
            schema.sources(a.name) for a in schema if a.follows is not None and name in schema.sources(a.name)[1:]
        )
        keys = schema.sources(name) or next(beside, ())
        if not keys or keys[0] in seen:
            return name
        name = keys[0]
        seen.add(name)


def _gaussian(real: Batch) -> tuple[str, ...]:
    """Return the numeric columns to draw from the normal distribution, household columns first."""
    schema = real.schema
    followed = {source for a in schema for source in schema.sources(a.name)}
    names = [
        a.name
        for a in schema
        if real.column(a.name).kind is Kind.NUMBER
        and a.scale is Scale.ORDERED
        and not a.is_design
        and a.follows is None
        and a.name not in followed
        and not np.isnan(real.numbers(a.name)).all()
    ]
    return tuple(sorted(names, key=lambda n: schema[n].level is not Level.HOUSEHOLD))


def _normal_model(real: Batch, names: tuple[str, ...]) -> tuple[Numbers, Numbers]:
    """Return the means and a triangular root of the covariances, over the records that have all the numbers."""
    x = np.column_stack([real.numbers(name) for name in names])
    x = x[~np.isnan(x).any(axis=1)]
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = np.atleast_2d(np.cov(x, rowvar=False)) if len(x) > 1 else np.full((len(names),) * 2, np.nan)
    if not np.isfinite(covariance).all():
        raise DataError(
            f"fewer than two records have all of {join_names(names)}, or some values are infinite or too large, so there is no "
            "normal distribution to draw from. Use model = 'independent'."
        )
    return x.mean(axis=0), covariance_root(covariance)


def _new_units(real: Batch, count: int, draws: Draws) -> tuple[Whole, Whole]:
    """Return ids below 0 for the simulated records, and for each the id of the first record of its simulated household."""
    ids = min(-1, int(real.ids.min(initial=0)) - 1) - np.arange(count, dtype=np.int64)
    if real.schema.one("household") is None:
        return ids, ids
    sizes = np.unique(unit_ids(real, "household"), return_counts=True)[1]
    drawn = sizes[np.minimum((draws.uniforms(ids, "size") * len(sizes)).astype(np.int64), len(sizes) - 1)].tolist()
    units, at = np.empty(count, np.int64), 0
    while at < count:
        units[at : at + drawn[at]] = ids[at]
        at += drawn[at]
    return ids, units


def _made(real: Batch, ids: Whole, donors: dict[str, Whole], numbers: dict[str, Numbers]) -> Batch:
    """Return the simulated records; normal numbers respect bounds and whole numbers, and are missing where the donor's are."""
    batch = Batch(Rows(ids, {name: real.column(name).take(donors[name]) for name in real.rows.columns}), real.schema)
    for name, values in numbers.items():
        batch = batch.replace(name, lambda values=values: values)  # type: ignore[misc]
    return batch


def _stacked(batch: Batch, made: Batch, donors: dict[str, Whole], units: Whole) -> Batch:
    """Return the real records, then the simulated ones, with new household numbers and weights that add up as before."""
    schema, everyone = batch.schema, np.arange(len(batch))
    columns = {
        name: column.take(np.concatenate([everyone, donors[name]])) if name in donors else _joined(batch, made, name)
        for name, column in batch.rows.columns.items()
    }
    if household := schema.one("household"):
        columns[household] = _numbered(batch.column(household), units)
    if weight := schema.one("weight"):
        weights = np.concatenate([batch.numbers(weight), made.numbers(weight)])
        columns[weight] = Column.from_numbers(weights * (batch.numbers(weight).sum() / weights.sum()))
    return Batch(Rows(np.concatenate([batch.ids, made.ids]), columns), schema)


def _joined(batch: Batch, made: Batch, name: str) -> Column:
    """Return real numbers unchanged, then simulated ones; whole columns are stored as integers."""
    old, new = batch.column(name), made.column(name)
    whole = batch.schema[name].integer and bool((old.numbers[~old.missing] % 1 == 0).all())
    numbers = np.concatenate([old.numbers, new.numbers])
    return Column.from_numbers(numbers, np.concatenate([old.null, new.null]), whole)


def _numbered(old: Column, units: Whole) -> Column:
    """Return the household numbers, with the smallest unused whole numbers for the simulated households."""
    _, first, member = np.unique(-units, return_index=True, return_inverse=True)
    room = np.arange(1, len(old) + len(first) + 1)
    if old.kind is Kind.NUMBER and bool((np.abs(old.numbers[~old.missing]) < 2.0**53).all()):
        fresh = room[~among(room.astype(np.float64), old.numbers[~old.missing])][: len(first)]
        whole = bool((old.numbers[~old.missing] % 1 == 0).all())
        null = np.concatenate([old.null, np.zeros(len(units), bool)])
        return Column.from_numbers(np.concatenate([old.numbers, fresh[member]]), null, whole)
    codes, values = old.codes
    taken = {str(v) for v in values}
    unused = [str(number) for number in room.tolist() if str(number) not in taken][: len(first)]
    joined = np.concatenate([codes, len(values) + member])
    if old.kind is Kind.CATEGORY:
        return Column.from_codes(joined, [*values, *unused], old)
    everything = np.array([*values, *map(int, unused), None], object)  # numbers too long for a float
    return Column.from_values(everything[joined].tolist())
