"""Synthetic numbers from a multivariate normal model: some columns of the file, or a new file."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    NoiseModel,
    ReleaseModel,
    Scope,
    check_numbers,
    learned,
    numeric_targets,
    param,
)
from sfumato.engines import Column, Rows
from sfumato.errors import DataError, ParameterError, listing
from sfumato.masks.conditional_normal import (
    ConditionalNormal,
    Regression,
    check_freedom,
    check_spread,
    standard_normals,
)
from sfumato.masks.given_columns import describes_household
from sfumato.masks.synthesis_model import FullSynthesisModel, PartialSynthesisModel
from sfumato.masks.synthetic import Originals, new_ids, synthetic_schema
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
IMPLICATES = "how many versions of the file are released, for the combining rules"
PROPER = "draw the model's parameters too, from their posterior, rather than take the estimates"


class NormalSynthesis(ConditionalNormal):
    """Partially synthetic data (Reiter 2003): columns are replaced by draws given the others, from a normal regression.

    The draws come from the posterior predictive distribution (`proper`), or from the estimated regression. Each implicate has
    parameters and draws of its own. Columns that describe households are drawn once per household, given those that describe
    households; the others are then drawn given all of these.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = NormalSynthesis("salary", given=["age", "sex"], implicates=3).apply(teachers(500), Draws(1))
    >>> len(release.implicates)
    3
    """

    no_matrix: ClassVar[str] = "what is released for the synthetic columns is drawn anew, not computed from the records"

    implicates: int = param(default=1, doc=IMPLICATES, low=1, high=1000, integer=True)
    proper: bool = param(default=True, doc=PROPER)

    def validate(self) -> None:
        """Check the flag."""
        super().validate()
        check_flag(self.name, "proper", self.proper)

    @property
    def versions(self) -> int:
        """How many implicates a release has."""
        return self.implicates

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw parameters, then each record's values."""
        check_numbers(batch, self.masked)
        out, new = batch, dict[str, Numbers]()
        for model in self.models:
            drawn = model.drawn(draws, self.proper)
            noise = standard_normals(batch, model.targets, draws) @ drawn.root.T
            y = drawn.predict(batch, [new[n] for n in model.earlier]) + noise
            for name, values in zip(model.targets, y.T, strict=True):
                # the values of a household whose own is missing are drawn too, but not released
                new[name] = np.where(np.isnan(batch.numbers(name)), np.nan, values)
                out = out.replace(name, partial(np.asarray, values))
        return out

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what synthesis given numbers does to normal records; None for household columns."""
        masked = self.columns or tuple(n for n in schema.names(role="confidential") if n in before.names)
        given = self.given_names(masked, schema)
        if any(describes_household(schema, n) for n in (*masked, *given) if n in schema):
            return None
        return PartialSynthesisModel.of(before, masked, given, self.implicates, self.proper)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what the released values depend on."""
        given = [g.name for g in self.models[-1].given]
        says = f"{listing(self.masked)}: released values depend on a record's own {listing(given)} alone"
        return (
            Guarantee(step, says, "by construction: drawn from a normal regression"),
            *self.said(before.schema, step),
        )


class FullNormalSynthesis(Mask):
    """Fully synthetic data (Rubin 1993; Raghunathan, Reiter and Rubin 2003): new records of numbers, jointly normal.

    The released file has the named columns only, and no record of the original. The mean and the covariance are those of
    the records that have all the columns; with `proper` they are drawn from their posterior, anew for each implicate. The
    synthetic records have no missing values, no weights and no households.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = FullNormalSynthesis(["salary", "income"], size=100).apply(teachers(500), Draws(1))
    >>> release.masked.schema.names(), len(release.masked)
    (('salary', 'income'), 100)
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its records are drawn from a model, and are not records of the original"

    columns: tuple[str, ...] = param(doc="columns of the new file, all of numbers", columns="many")
    size: int | None = param(
        default=None, doc="number of new records; as many as the original has if none", low=1, high=1e9, integer=True
    )
    implicates: int = param(default=1, doc=IMPLICATES, low=1, high=1000, integer=True)
    proper: bool = param(default=True, doc=PROPER)
    model: Any = learned("columns", default=None)
    records: Any = learned("columns", default=None)

    def validate(self) -> None:
        """Check the flag."""
        super().validate()
        check_flag(self.name, "proper", self.proper)

    @property
    def versions(self) -> int:
        """How many implicates a release has."""
        return self.implicates

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the named columns."""
        return synthetic_schema(schema, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the mean and the covariance."""
        names = numeric_targets(self.columns, data)
        if (weight := data.schema.one("weight")) in names:
            raise DataError(
                f"'{weight}' holds survey weights, which are not normal. Leave it out of columns=, or use copula_synthesis."
            )
        moments = data.moments(names)
        why = "to learn a normal distribution from"
        check_spread(names, moments.count, moments.mean, np.diag(moments.covariance), why)
        p = len(names)
        model = Regression(
            names,
            (),
            (),
            moments.count,
            np.zeros(0),
            moments.mean,
            np.zeros((0, p)),
            moments.covariance,
            np.zeros((0, 0)),
        )
        check_freedom(model, why)
        return self.learn(model=model, records=len(data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw parameters, then new records."""
        drawn = self.model.drawn(draws, self.proper)
        ids = new_ids(0, self.size or self.records)
        z = np.column_stack([draws.normals(ids, name) for name in drawn.targets])
        y = dict(zip(drawn.targets, (drawn.x_mean + z @ drawn.root.T).T, strict=True))
        after = self.schema_after(batch.schema)
        out = Batch(Rows(ids, {n: Column.from_numbers(y[n]) for n in batch.rows.columns if n in y}), after)
        for name in drawn.targets:
            out = out.replace(name, partial(np.asarray, y[name]))
        return out

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what new records drawn from normal ones are like."""
        return FullSynthesisModel.of(before, self.columns, self.size, self.implicates, self.proper)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Count the synthetic records that agree with an original one in every column."""
        names = list(self.columns)
        same = int((Originals.of(before.batch(names), names).copied(after.batch(names)) > 0).sum())
        says = (
            f"all {len(after):,} records are synthetic; {same:,} of them agree with an original record in every column"
        )
        return (Guarantee(step, says, "every synthetic record compared with every original one"),)


def check_flag(mask: str, field: str, value: object) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        raise ParameterError(f"{field} of {mask} must be true or false.")
