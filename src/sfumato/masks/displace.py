"""Deterministic displacement: M = X + C with C fixed (matrix-masking paper, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    MatrixForm,
    check_numbers,
    check_values,
    learned,
    numeric_targets,
    param,
)
from sfumato.errors import listing
from sfumato.masks.noise_level import check_by_column
from sfumato.microdata import Batch, Microdata


class Displace(Mask):
    """A specified quantity is added to every value of a column.

    It limits disclosure only while the quantity is secret, as the paper says, and one true value that somebody knows gives it
    away. Differences between records, order, variances and correlations are kept.
    """

    preserves_order: ClassVar[bool] = True

    amount: float | Mapping[str, float] = param(
        doc="what is added, in the column's unit; may differ by column",
        low=-1e300,
        high=1e300,
        per_column=True,
        published=False,
    )
    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to displace; all confidential numbers if none", columns="many"
    )
    amounts: Any = learned("columns", "amount", default=None)

    def validate(self) -> None:
        """Check that an amount is given for each column, where amounts are given by column."""
        super().validate()
        if self.columns is not None:
            check_by_column("amount", "amount", self.amount, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn which columns there are, and what each is displaced by."""
        by_column = isinstance(self.amount, Mapping)
        named = tuple(self.amount) if isinstance(self.amount, Mapping) and self.columns is None else self.columns
        names = numeric_targets(named, data)
        check_values(data, names)
        return self.learn(amounts={n: self.amount[n] if by_column else self.amount for n in names})  # type: ignore[index]

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the amounts."""
        check_numbers(batch, self.amounts)
        out = batch
        for name, amount in self.amounts.items():
            out = out.replace(name, lambda name=name, amount=amount: batch.numbers(name) + amount)  # type: ignore[misc]
        return out

    def touches(self, schema: Any) -> tuple[str, ...]:
        """Return the columns that are displaced."""
        if self.columns is None and isinstance(self.amount, Mapping):
            return tuple(self.amount)
        return super().touches(schema)

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return C: one row, the same for every record."""
        amounts = (self if self.is_fitted else self.fit(data, draws)).amounts
        return MatrixForm(tuple(amounts), tuple(amounts), C=np.array([list(amounts.values())]))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what a fixed displacement does not hide, and what the schema's bounds do to it."""
        names = listing(self.amounts)
        says = (
            f"{names}: a secret amount, the same for all records, is added to the values of each column; differences "
            "between records are released as they are"
        )
        how = "by construction; whoever knows one true value knows the amount, and with it the whole column"
        said = [Guarantee(step, says, how)]
        if kept := [n for n in self.amounts if before.schema[n].integer or before.schema[n].bounds != (None, None)]:
            says = "values are whole where the schema says so, and moved to its bounds where the amount passes them"
            said.append(Guarantee(step, f"{listing(kept)}: {says}", "by construction"))
        return tuple(said)
