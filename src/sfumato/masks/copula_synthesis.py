"""Fully synthetic data of mixed columns: empirical distributions, joined by a normal copula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.engines import Column, Rows
from sfumato.errors import DataError
from sfumato.masks.given_columns import PIECE
from sfumato.masks.latent_columns import LatentColumn, learn_column
from sfumato.masks.mixed_copula import learn_copula
from sfumato.masks.normal_synthesis import IMPLICATES
from sfumato.masks.synthetic import Originals, alone, new_ids, synthetic_schema
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Role, Schema

Numbers = NDArray[np.float64]
ROUNDS = 20
"""How often a record that copies a unique original is drawn again."""


class CopulaSynthesis(Mask):
    """A new file of synthetic records: each column has about the distribution it had, and pairs are related by a normal copula.

    Numbers are interpolated between means of a few neighbouring values, so that none is a record's own; categories keep their
    shares, missing values theirs. Correlations are those of normal numbers behind the columns, found from normal scores and
    from yes-no questions (see the page for what this keeps and what it does not). Synthetic records belong to no household;
    survey weights are synthesised as a number, and scaled to the size of the new file.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = CopulaSynthesis(["age", "sex", "salary"], size=100).apply(teachers(500), Draws(1))
    >>> release.masked.schema.names(), len(release.masked)
    (('age', 'sex', 'salary'), 100)
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its records are drawn from a model, and are not records of the original"

    columns: tuple[str, ...] | None = param(
        default=None,
        doc="columns of the new file; all but identifiers, households and contributors if none",
        columns="many",
        holds="anything",
    )
    size: int | None = param(
        default=None, doc="number of new records; as many as the original has if none", low=1, high=1e9, integer=True
    )
    implicates: int = param(default=1, doc=IMPLICATES, low=1, high=1000, integer=True)
    smooth: int = param(
        default=3,
        doc="how many neighbouring values a released number's range is averaged over",
        low=1,
        high=1000,
        integer=True,
        scale="log",
        usual=(3, 300),
    )
    uniques: Literal["redraw", "keep"] = param(
        default="redraw",
        doc="what to do with a synthetic record that copies, in every column, an original record that is unique there",
        choices=("redraw", "keep"),
    )
    model: Any = learned("columns", "smooth", default=None)
    records: Any = learned("columns", "smooth", default=None)

    @property
    def versions(self) -> int:
        """How many implicates a release has."""
        return self.implicates

    def _wanted(self, schema: Schema) -> tuple[str, ...]:
        out = (Role.IDENTIFIER, Role.HOUSEHOLD, Role.CONTRIBUTOR)
        return self.columns or tuple(a.name for a in schema if a.role not in out)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that are modelled: not those that follow one of them."""
        wanted = self._wanted(schema)
        return tuple(n for n in wanted if schema[n].follows not in wanted)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the new file."""
        return synthetic_schema(schema, self._wanted(schema))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn each column's distribution, and the correlations of the normal numbers behind them."""
        if len(data) < 3:
            raise DataError("a synthetic file needs at least three records to learn from.")
        names = self.touches(data.schema)
        if not names:
            raise DataError("there is no column to synthesise. Name the columns (columns=...).")
        batch = data.batch(names)
        parts, reads = [], []
        for name in names:
            one = alone(batch, name)
            parts.append(learn_column(data, one, name, self.smooth))
            reads.append(parts[-1].read(one))
        return self.learn(model=learn_copula(tuple(parts), reads), records=len(data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw new records; those that copy a unique original are drawn again."""
        need, start = self.size or self.records, 0
        redraw = self.uniques == "redraw" and len(batch)
        originals = Originals.of(batch, self._compared(batch.schema)) if redraw else None
        found: list[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]] = []
        for _ in range(ROUNDS):
            wanted, need = need, 0
            for at in range(start, start + wanted, PIECE):  # each record hangs on its id alone
                ids = new_ids(at, min(PIECE, start + wanted - at))
                raw = self.model.draw(ids, draws)
                good = np.ones(len(ids), bool)
                if originals is not None:
                    good = originals.copied(self._built(ids, raw, batch)) != 1
                found.append((ids[good], {name: values[good] for name, values in raw.items()}))
                need += int((~good).sum())
            start += wanted
            if not need:
                ids = np.concatenate([i for i, _ in found])
                made = {name: np.concatenate([r.pop(name) for _, r in found]) for name in tuple(found[0][1])}
                return self._built(ids, made, batch)
        raise DataError(
            f"{need:,} synthetic records still copy a record that is unique in the original, after {ROUNDS} rounds. Add a "
            "column of numbers, take coarser categories, or set uniques = 'keep'."
        )

    def _built(self, ids: NDArray[np.int64], raw: Mapping[str, NDArray[Any]], batch: Batch) -> Batch:
        """Return new records with the types of the original's columns; what follows a column is left to follow it."""
        schema = self.schema_after(batch.schema)
        parts: dict[str, LatentColumn] = {part.name: part for part in self.model.parts}
        columns, numbers = {}, dict[str, Numbers]()
        for name in (n for n in batch.rows.columns if n in schema):
            like = batch.column(name)
            if name not in parts:
                columns[name] = Column.from_codes(np.full(len(ids), -1), [], like)
                continue
            part, values = parts[name], raw[name]
            if part.knots is None and name != schema.one("weight"):
                columns[name] = Column.from_codes(values, part.values, like)
                continue
            if part.knots is None:  # weights of a few different values
                values = np.array([*part.values, np.nan], np.float64)[values]
            scale = self.records / (self.size or self.records) if name == schema.one("weight") else 1.0
            numbers[name] = values * scale
            columns[name] = Column.from_numbers(numbers[name], np.isnan(numbers[name]))
        out = Batch(Rows(ids, columns), schema)
        for name, values in numbers.items():
            out = out.replace(name, lambda values=values: values)  # type: ignore[misc]
        return out

    def _compared(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns in which records are compared: weights are rescaled, so they do not count."""
        weight = schema.one("weight")
        return tuple(n for n in self.touches(schema) if n != weight) or self.touches(schema)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Compare the synthetic records with all original ones."""
        names = self._compared(before.schema)
        same = Originals.of(before.batch(names), names).copied(after.batch(names))
        unique, shared = int((same == 1).sum()), int((same > 1).sum())
        if unique and self.uniques == "redraw":
            raise DataError(
                f"{unique:,} synthetic records copy an original record that is unique; nothing is released."
            )
        how = "every synthetic record compared with every original one, in all columns but weights"
        said = [
            Guarantee(
                step,
                f"all {len(after):,} records are synthetic; {unique:,} copy a record that is unique in the original",
                how,
            ),
            Guarantee(step, f"{shared:,} synthetic records agree in every column with two or more original ones", how),
        ]
        pooled = [part for part in self.model.parts if part.rest is not None]
        said += [
            Guarantee(
                step, f"{p.name}: {len(p.rest):,} rare categories are drawn without regard to other columns", "counted"
            )
            for p in pooled
        ]
        return tuple(said)
